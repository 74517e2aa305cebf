//! Mahimahi traces: arbitrary text is parsed, and a link with a valid trace serves frames.

use std::sync::Arc;

use lasthop::air::config::{OutageConfig, OutageRule, RateConfig, TraceStart};
use lasthop::air::rate::RateProcess;
use lasthop::air::series::{Series, SeriesKind};
use lasthop::air::trace::Trace;
use lasthop::units::{Duration, Time};

use crate::input::Input;

/// The first 24 bytes give phase, outages and frames, the rest is the text of the trace.
pub fn run(data: &[u8]) {
    let (head, text) = data.split_at(data.len().min(24));
    let mut input = Input::new(head);
    check_series(text);
    let trace = match Trace::read(text, "fuzz.down") {
        Ok(trace) => Arc::new(trace),
        Err(error) => return crate::check_message(&error.to_string()),
    };
    // A line has at least a digit and a line feed.
    assert!(trace.len() <= text.len().div_ceil(2));
    check_positions(&trace, &mut input);
    serve(trace, &mut input);
}

/// A delay or loss trace has values within its range at each time.
fn check_series(text: &[u8]) {
    for kind in [SeriesKind::Delay, SeriesKind::Loss] {
        match Series::read(text, kind, "fuzz.delay") {
            Ok(series) => {
                let (least, most) = series.range();
                for t in [Time::ZERO, Time(series.period().0), Time::NEVER] {
                    assert!((least..=most).contains(&series.value_at(t)));
                }
            }
            Err(error) => crate::check_message(&error.to_string()),
        }
    }
}

/// Index and time of the delivery opportunities are consistent.
fn check_positions(trace: &Trace, input: &mut Input<'_>) {
    let (from, to) = (Time(input.value::<u64>() >> 2), Time(input.value::<u64>() >> 2));
    let position = trace.position(from);
    let time = trace.time_of(position);
    assert!(time >= from, "opportunity {position} comes at {time:?}, before {from:?}");
    assert!(position == 0 || trace.time_of(position - 1) < from);
    assert_eq!(trace.opportunities_between(from, to), trace.position(to).saturating_sub(position));
}

/// Frames end at a delivery opportunity, do not start before their arrival, and are served in
/// order.
fn serve(trace: Arc<Trace>, input: &mut Input<'_>) {
    let start = TraceStart::default();
    let config = RateConfig::Trace { trace: "fuzz.down".into(), start };
    let length = |i: &mut Input<'_>| Duration(i.value::<u64>() >> (8 + i.up_to(40)));
    let mut outages = Vec::new();
    for _ in 0..input.up_to(3) {
        let frames = if input.up_to(1) == 0 { OutageRule::Held } else { OutageRule::LostAtArrival };
        outages.push(OutageConfig { from: length(input), length: length(input), frames });
    }
    let phase = length(input);
    let mut link = RateProcess::new(&config, Some(trace.clone()), &outages, phase);
    let (mut now, mut previous) = (Time::ZERO, Time::ZERO);
    let seed = input.value::<u64>();
    for i in 0..64 {
        let draw = seed.wrapping_mul(2 * i + 1).rotate_left(i as u32);
        now += Duration(draw >> (24 + draw % 32));
        let (begin, end) = link.serialize(now, draw as u16 as u32);
        assert!(begin <= end && now <= end && previous <= begin, "{begin:?} to {end:?} at {now:?}");
        let opportunity = trace.time_of(trace.position(end + phase));
        assert!(end == Time::NEVER || opportunity == end + phase, "no opportunity at {end:?}");
        previous = end;
    }
    assert!(link.capacity_bits(Time::ZERO, now) >= 0.0);
}
