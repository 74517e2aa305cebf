//! When a link sends a frame: constant rate, rate schedule, Mahimahi trace, and outages that hold
//! frames.

mod cursor;
mod schedule;

use std::sync::Arc;

use super::config::{OutageConfig, OutageRule, RateConfig};
use super::spans::Spans;
use super::token_bucket::{TokenBucket, TokenBucketConfig};
use super::trace::Trace;
use cursor::Cursor;
use lasthop_core::units::{Duration, Rate, Time};
use schedule::{Schedule, bits};

/// The transmitter of a one-way link: a first-in-first-out server of frames.
///
/// * A *constant* rate or a *schedule* sends a frame in the time its bytes take at the rate in
///   force when it starts (ns-2's rule: a later change does not touch it); at rate zero a frame
///   waits.
/// * A *trace* drains up to 1500 bytes at each opportunity. A frame starts at the opportunity that
///   drains its first byte and ends at the one that drains its last. Frames that wait share an
///   opportunity; what is left over when nothing waits is lost.
/// * During an *outage* with rule `held` nothing is sent: a frame rests where it is and goes on
///   afterwards; the opportunities of a trace pass unused.
#[derive(Clone, Debug)]
pub struct RateProcess {
    kind: Kind,
    /// Set if a token bucket delays the start of frames.
    bucket: Option<Box<TokenBucket>>,
    outages: Spans,
    previous_end: Time,
    /// The last serialisation time computed; consecutive frames usually have the same size.
    known: (Rate, u32, Duration),
    /// Bytes of the last frame and the time that it took, if the rate is constant and there are
    /// neither outages nor a token bucket; otherwise bytes of no frame.
    repeated: (u64, Duration),
}

#[derive(Clone, Debug)]
enum Kind {
    Constant(Rate),
    Schedule(Schedule),
    Trace(Cursor),
}

impl RateProcess {
    /// The process of a link.
    ///
    /// `trace` is the trace of a `RateConfig::Trace`, read and checked (without it such a link
    /// never sends); `phase` is how far into the trace time zero lies. Of the outages only those
    /// with rule `held` count here; for the others there is
    /// [`OutageLoss`](super::outage::OutageLoss).
    pub fn new(
        config: &RateConfig,
        trace: Option<Arc<Trace>>,
        outages: &[OutageConfig],
        phase: Duration,
    ) -> RateProcess {
        let kind = match (config, trace) {
            (RateConfig::Constant(rate), _) => Kind::Constant(*rate),
            (RateConfig::Schedule { schedule }, _) => Kind::Schedule(Schedule::new(
                schedule.iter().map(|s| (Time(s.at.0), s.rate)).collect(),
            )),
            (RateConfig::Trace { .. }, Some(trace)) => Kind::Trace(Cursor::new(trace, phase)),
            (RateConfig::Trace { .. }, None) => Kind::Constant(Rate(0)),
        };
        let held = outages.iter().filter(|o| o.frames == OutageRule::Held);
        RateProcess {
            kind,
            bucket: None,
            outages: Spans::new(held.map(|o| (o.from, o.length))),
            previous_end: Time::ZERO,
            known: (Rate(0), 0, Duration::MAX),
            repeated: (u64::MAX, Duration::MAX),
        }
    }

    /// The same process with a token bucket: a frame starts when the bucket has its bytes.
    #[must_use]
    pub fn shaped(mut self, shaper: Option<&TokenBucketConfig>) -> RateProcess {
        self.bucket = shaper.map(|config| Box::new(TokenBucket::new(config)));
        self
    }

    /// Serves the next frame, which came to the queue at `arrival`: start and end of its
    /// serialisation.
    ///
    /// Frames are served one after another in the order of the calls. The start may lie in the
    /// future although the link is idle (an outage, rate zero, the next opportunity of a trace):
    /// until then the frame waits. [`Time::NEVER`] means that it is never sent.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_channel::air::config::RateConfig;
    /// use lasthop_channel::air::rate::RateProcess;
    /// use lasthop_core::units::{Duration, Rate, Time};
    ///
    /// let rate = RateConfig::Constant(Rate(1_000_000));
    /// let mut link = RateProcess::new(&rate, None, &[], Duration::ZERO);
    /// // 1000 bytes take 8 ms at 1 Mbit/s; the second frame waits for the first.
    /// assert_eq!(link.serialize(Time(0), 1000), (Time(0), Time(8_000_000)));
    /// assert_eq!(link.serialize(Time(1_000_000), 1000), (Time(8_000_000), Time(16_000_000)));
    /// ```
    #[inline(always)]
    pub fn serialize(&mut self, arrival: Time, bytes: u32) -> (Time, Time) {
        if u64::from(bytes) == self.repeated.0 {
            let start = arrival.max(self.previous_end);
            self.previous_end = start + self.repeated.1;
            return (start, self.previous_end);
        }
        match &mut self.kind {
            Kind::Trace(cursor) if self.bucket.is_none() => {
                let served = cursor.serialize(arrival, self.previous_end, bytes, &self.outages);
                self.previous_end = served.1;
                served
            }
            _ => self.serialize_other(arrival, bytes),
        }
    }

    /// The same where neither a trace nor the size says when the frame is sent.
    #[inline(never)]
    fn serialize_other(&mut self, arrival: Time, bytes: u32) -> (Time, Time) {
        if self.bucket.is_some() {
            return self.serialize_shaped(arrival, bytes);
        }
        let served = self.serialize_unshaped(arrival, bytes);
        if self.constant().is_some_and(|rate| rate.0 > 0) {
            self.repeated = (u64::from(bytes), self.known.2);
        }
        served
    }

    #[inline(never)]
    fn serialize_shaped(&mut self, arrival: Time, bytes: u32) -> (Time, Time) {
        let ready = arrival.max(self.previous_end);
        let Some(mut bucket) = self.bucket.take() else { return (ready, ready) };
        let earliest = bucket.earliest(ready, bytes);
        let served =
            self.serialize_unshaped(if earliest > ready { earliest } else { arrival }, bytes);
        bucket.take(served.0, bytes);
        self.bucket = Some(bucket);
        served
    }

    fn serialize_unshaped(&mut self, arrival: Time, bytes: u32) -> (Time, Time) {
        let ready = arrival.max(self.previous_end);
        let served = match &mut self.kind {
            Kind::Constant(rate) => {
                let rate = *rate;
                let start = if rate.0 == 0 { Time::NEVER } else { ready };
                self.send(start, rate, bytes)
            }
            Kind::Schedule(schedule) => {
                let (start, rate) = schedule.start(ready, &self.outages);
                self.send(start, rate, bytes)
            }
            Kind::Trace(cursor) => {
                cursor.serialize(arrival, self.previous_end, bytes, &self.outages)
            }
        };
        self.previous_end = served.1;
        served
    }

    /// The rate, if it is always the same and there is no outage: then a frame takes
    /// `rate.time_for(bytes)`, always.
    pub fn constant(&self) -> Option<Rate> {
        match self.kind {
            Kind::Constant(rate) if self.outages.is_empty() && self.bucket.is_none() => Some(rate),
            _ => None,
        }
    }

    /// The rate at `t`, zero during an outage; `None` for a trace, which has no rate at a time.
    /// With a token bucket at most the rate of that.
    pub fn rate_at(&self, t: Time) -> Option<Rate> {
        let rate = match &self.kind {
            Kind::Constant(rate) => *rate,
            Kind::Schedule(schedule) => schedule.rate_at(t),
            Kind::Trace(_) => return None,
        };
        let rate = self.bucket.as_ref().map_or(rate, |bucket| rate.min(bucket.rate()));
        Some(if self.outages.end_of(t).is_some() { Rate(0) } else { rate })
    }

    /// The first time after `t` at which [`RateProcess::rate_at`] may change: a step of the
    /// schedule, the start or end of an outage.
    pub fn next_change(&self, t: Time) -> Option<Time> {
        let outage =
            self.outages.after(t).first().map(|&(from, to)| if from > t { from } else { to });
        let step = match &self.kind {
            Kind::Schedule(schedule) => schedule.next_step(t),
            _ => None,
        };
        outage.into_iter().chain(step).min()
    }

    /// Capacity in `[from, to)`, bits; with a token bucket without its burst.
    pub fn capacity_bits(&self, from: Time, to: Time) -> f64 {
        let piece = |(from, to): (Time, Time)| match &self.kind {
            Kind::Constant(rate) => bits(*rate, from, to),
            Kind::Schedule(schedule) => schedule.bits(from, to),
            Kind::Trace(cursor) => cursor.capacity_bits(from, to),
        };
        let line: f64 = self.outages.gaps(from, to).map(piece).sum();
        self.bucket.as_ref().map_or(line, |bucket| line.min(bits(bucket.rate(), from, to)))
    }

    fn send(&mut self, start: Time, rate: Rate, bytes: u32) -> (Time, Time) {
        if (self.known.0, self.known.1) != (rate, bytes) {
            self.known = (rate, bytes, rate.time_for(u64::from(bytes)));
        }
        if self.outages.is_empty() {
            return (start, start + self.known.2);
        }
        let start = self.outages.leave(start);
        (start, self.outages.finish(start, self.known.2))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::config::{RateStep, TraceStart};
    use super::*;

    const MS: u64 = 1_000_000;

    fn ms(t: u64) -> Time {
        Time(t * MS)
    }

    fn trace_of(times: &[u32]) -> Arc<Trace> {
        let text: String = times.iter().map(|t| format!("{t}\n")).collect();
        Arc::new(Trace::read(text.as_bytes(), "test").unwrap())
    }

    fn traced(times: &[u32], outages: &[OutageConfig], phase: Duration) -> RateProcess {
        let config = RateConfig::Trace { trace: "test".into(), start: TraceStart::default() };
        RateProcess::new(&config, Some(trace_of(times)), outages, phase)
    }

    fn constant(rate: u64, outages: &[OutageConfig]) -> RateProcess {
        RateProcess::new(&RateConfig::Constant(Rate(rate)), None, outages, Duration::ZERO)
    }

    fn scheduled(steps: &[(u64, u64)], outages: &[OutageConfig]) -> RateProcess {
        let schedule = steps
            .iter()
            .map(|&(at, rate)| RateStep { at: Duration::millis(at), rate: Rate(rate) })
            .collect();
        RateProcess::new(&RateConfig::Schedule { schedule }, None, outages, Duration::ZERO)
    }

    fn held(from: u64, length: u64) -> OutageConfig {
        OutageConfig {
            from: Duration::millis(from),
            length: Duration::millis(length),
            frames: OutageRule::Held,
        }
    }

    /// Start and end of frames given as (arrival, bytes), all in ms.
    fn served(process: &mut RateProcess, frames: &[(u64, u32)]) -> Vec<(u64, u64)> {
        let serve = |&(arrival, bytes): &(u64, u32)| process.serialize(ms(arrival), bytes);
        frames.iter().map(serve).map(|(start, end)| (start.0 / MS, end.0 / MS)).collect()
    }

    #[test]
    fn a_constant_rate_sends_one_frame_after_the_other() {
        let mut link = constant(1_000_000, &[]);
        assert_eq!(link.constant(), Some(Rate(1_000_000)));
        assert_eq!(
            served(&mut link, &[(0, 1000), (3, 1000), (30, 125), (30, 125)]),
            [(0, 8), (8, 16), (30, 31), (31, 32)]
        );
        assert_eq!(link.capacity_bits(ms(500), ms(2500)), 2_000_000.0);
        assert_eq!((link.rate_at(ms(7)), link.next_change(ms(7))), (Some(Rate(1_000_000)), None));
    }

    #[test]
    fn a_held_outage_stops_a_frame_in_the_middle() {
        let mut link = constant(1_000_000, &[held(4, 10), held(50, 5)]);
        assert_eq!(link.constant(), None);
        // 4 ms before the outage, 4 ms after it; the next one starts inside and is sent after it.
        assert_eq!(
            served(&mut link, &[(0, 1000), (5, 1000), (48, 1000), (51, 125)]),
            [(0, 18), (18, 26), (48, 61), (61, 62)]
        );
        assert_eq!(served(&mut constant(1_000_000, &[held(4, 10)]), &[(7, 1000)]), [(14, 22)]);
        assert_eq!(
            served(&mut constant(1_000_000, &[held(8, 10)]), &[(0, 1000), (0, 1000)]),
            [(0, 8), (18, 26)]
        );
        assert_eq!(link.capacity_bits(ms(0), ms(60)), 45_000.0);
        assert_eq!(
            [0, 4, 13, 14, 52].map(|t| link.rate_at(ms(t)).unwrap().0),
            [1_000_000, 0, 0, 1_000_000, 0]
        );
        assert_eq!(
            [0, 4, 14, 60].map(|t| link.next_change(ms(t))),
            [Some(ms(4)), Some(ms(14)), Some(ms(50)), None]
        );
    }

    #[test]
    fn other_rules_of_outages_do_not_hold_frames() {
        let lost = OutageConfig { frames: OutageRule::LostAtSending, ..held(0, 10) };
        assert_eq!(constant(1_000_000, &[lost]).constant(), Some(Rate(1_000_000)));
    }

    #[test]
    fn a_frame_is_sent_at_the_rate_in_force_when_it_starts() {
        // 1 Mbit/s, 4 Mbit/s from 10 ms, nothing from 20 ms to 40 ms, then 1 Mbit/s.
        let mut link = scheduled(&[(0, 1_000_000), (10, 4_000_000), (20, 0), (40, 1_000_000)], &[]);
        assert_eq!(
            served(&mut link, &[(0, 1000), (0, 1000), (0, 1000), (17, 2000), (17, 1000)]),
            [(0, 8), (8, 16), (16, 18), (18, 22), (40, 48)]
        );
        assert_eq!(link.capacity_bits(ms(5), ms(45)), 5_000.0 + 40_000.0 + 5_000.0);
        assert_eq!(
            [0, 10, 25, 99].map(|t| link.rate_at(ms(t)).unwrap().0),
            [1_000_000, 4_000_000, 0, 1_000_000]
        );
        assert_eq!(
            [0, 10, 40].map(|t| link.next_change(ms(t))),
            [Some(ms(10)), Some(ms(20)), None]
        );
    }

    #[test]
    fn an_outage_and_a_schedule_work_together() {
        // The rate comes back at 40 ms, the link at 50 ms, and at 45 ms the rate doubles.
        let mut link = scheduled(
            &[(0, 1_000_000), (20, 0), (40, 1_000_000), (45, 2_000_000)],
            &[held(30, 20)],
        );
        assert_eq!(served(&mut link, &[(21, 1000), (21, 1000)]), [(50, 54), (54, 58)]);
    }

    #[test]
    fn a_link_without_rate_never_sends() {
        for mut link in
            [constant(0, &[]), scheduled(&[(0, 1_000_000), (5, 0)], &[]), scheduled(&[], &[])]
        {
            link.serialize(Time::ZERO, 1000);
            assert_eq!(link.serialize(Time(1), 1000), (Time::NEVER, Time::NEVER));
            assert_eq!(link.serialize(ms(100), 1000), (Time::NEVER, Time::NEVER));
        }
        let mut for_ever = [
            constant(1, &[held(5, u64::MAX / MS)]),
            traced(&[1], &[held(5, u64::MAX / MS)], Duration(7)),
        ];
        for link in &mut for_ever {
            assert_eq!(link.serialize(ms(100), 1000), (Time::NEVER, Time::NEVER));
            assert_eq!(link.serialize(ms(100), 1000), (Time::NEVER, Time::NEVER));
        }
        let config = RateConfig::Trace { trace: "missing".into(), start: TraceStart::default() };
        assert_eq!(
            RateProcess::new(&config, None, &[], Duration::ZERO).serialize(Time::ZERO, 1),
            (Time::NEVER, Time::NEVER)
        );
    }

    #[test]
    fn an_opportunity_drains_1500_bytes() {
        let mut link = traced(&[2, 5, 5, 9, 20], &[], Duration::ZERO);
        assert_eq!((link.constant(), link.rate_at(ms(3))), (None, None));
        // Each full frame takes one; the one at 9 ms passes unused; the first of the next cycle is
        // at 22 ms.
        assert_eq!(
            served(&mut link, &[(0, 1500), (1, 1500), (4, 1500), (10, 1500), (10, 1500)]),
            [(2, 2), (5, 5), (5, 5), (20, 20), (22, 22)]
        );
    }

    #[test]
    fn waiting_frames_share_an_opportunity() {
        let mut link = traced(&[10, 20, 30, 40], &[], Duration::ZERO);
        let frames =
            [(0, 600), (1, 600), (2, 600), (3, 600), (21, 40), (22, 40), (30, 40), (31, 40)];
        // 600 + 600 + 300 at 10 ms, 300 + 600 at 20 ms. Who comes after 20 ms does not get the rest
        // of that opportunity, who comes at 30 ms sharp does.
        assert_eq!(
            served(&mut link, &frames),
            [(10, 10), (10, 10), (10, 20), (20, 20), (30, 30), (30, 30), (30, 30), (40, 40)]
        );
    }

    #[test]
    fn a_large_frame_takes_several_opportunities() {
        let mut link = traced(&[10, 20, 30, 40], &[], Duration::ZERO);
        // 2000 = 1500 + 500; 9000 = the other 1000 + 5 × 1500 + 500, two cycles on; then 1000 are
        // left.
        assert_eq!(
            served(&mut link, &[(0, 2000), (0, 9000), (0, 1000), (0, 1)]),
            [(10, 20), (20, 80), (80, 80), (90, 90)]
        );
        // Over more than a cycle at once, and over 32 bits' worth of bytes.
        let mut link = traced(&[10, 20, 30, 40], &[], Duration::ZERO);
        assert_eq!(link.serialize(Time::ZERO, u32::MAX), (ms(10), ms(2_863_312 * 10)));
    }

    #[test]
    fn an_opportunity_at_the_very_instant_of_arrival_counts() {
        assert_eq!(
            served(&mut traced(&[10, 20], &[], Duration::ZERO), &[(10, 1500), (20, 1500)]),
            [(10, 10), (20, 20)]
        );
        let mut late = traced(&[10, 20], &[], Duration::ZERO);
        assert_eq!(late.serialize(Time(10 * MS + 1), 1500).1, ms(20));
    }

    #[test]
    fn a_trace_that_begins_at_zero_wraps_with_both_ends_at_one_instant() {
        let mut link = traced(&[0, 4, 10], &[], Duration::ZERO);
        assert_eq!(
            served(&mut link, &[(0, 1500); 7]),
            [(0, 0), (4, 4), (10, 10), (10, 10), (14, 14), (20, 20), (20, 20)]
        );
        // After a long silence too.
        assert_eq!(
            served(&mut link, &[(995, 1500); 4]),
            [(1000, 1000), (1000, 1000), (1004, 1004), (1010, 1010)]
        );
    }

    #[test]
    fn the_phase_moves_the_start_into_the_trace() {
        let frames = [(0, 1500); 4];
        assert_eq!(
            served(&mut traced(&[2, 5, 10], &[], Duration::millis(5)), &frames),
            [(0, 0), (5, 5), (7, 7), (10, 10)]
        );
        assert_eq!(
            served(&mut traced(&[2, 5, 10], &[], Duration::millis(26)), &frames),
            [(4, 4), (6, 6), (9, 9), (14, 14)]
        );
        let mut between = traced(&[2, 5, 10], &[], Duration(4_999_999));
        assert_eq!(between.serialize(Time::ZERO, 1500), (Time(1), Time(1)));
        let link = traced(&[2, 5, 10], &[], Duration::millis(6));
        assert_eq!(link.capacity_bits(ms(0), ms(6)), 12_000.0);
        assert_eq!(link.capacity_bits(ms(0), ms(7)), 24_000.0);
    }

    #[test]
    fn opportunities_pass_unused_during_an_outage() {
        let mut link = traced(&[10, 20, 30, 40], &[held(20, 10), held(40, 25)], Duration::ZERO);
        assert_eq!(
            served(&mut link, &[(0, 2000), (0, 2000), (0, 2000)]),
            [(10, 30), (30, 70), (70, 80)]
        );
        assert_eq!(link.capacity_bits(ms(0), ms(80)), 36_000.0);
    }

    #[test]
    fn a_saturating_source_gets_every_opportunity_of_every_second() {
        // Irregular times with a period of 2.345 s; 20 s of it, from the middle on.
        let times: Vec<u32> = (0..900_u32).map(|i| i * i % 2346).chain([2345]).collect();
        let mut times = times;
        times.sort_unstable();
        let phase = Duration::millis(1234);
        let mut link = traced(&times, &[], phase);
        let mut got = [0_u64; 20];
        loop {
            let (_, end) = link.serialize(Time::ZERO, 1500);
            let Some(count) = got.get_mut((end.0 / 1_000_000_000) as usize) else { break };
            *count += 1;
        }
        let trace = trace_of(&times);
        for (second, &count) in got.iter().enumerate() {
            let from = Time::ZERO + Duration::secs(second as u64) + phase;
            assert_eq!(
                count,
                trace.opportunities_between(from, from + Duration::secs(1)),
                "second {second}"
            );
        }
    }

    /// The loop of mahimahi's `LinkQueue::rationalize`, opportunity by opportunity.
    fn mahimahi(
        trace: &Trace,
        phase: u64,
        outages: &Spans,
        frames: &[(Time, u32)],
    ) -> Vec<(Time, Time)> {
        let mut departures = vec![];
        let mut queue = frames.iter().copied().peekable();
        let mut in_transit: Option<(Time, u32)> = None;
        let mut position = trace.position(Time(phase));
        while departures.len() < frames.len() {
            let now = Time(trace.time_of(position).0 - phase);
            position += 1;
            let mut left = if outages.end_of(now).is_some() { 0 } else { Trace::OPPORTUNITY };
            while left > 0 {
                let Some((start, bytes)) =
                    in_transit.take().or_else(|| queue.next_if(|f| f.0 <= now).map(|f| (now, f.1)))
                else {
                    break;
                };
                let sent = bytes.min(left);
                left -= sent;
                if sent == bytes {
                    departures.push((start, now))
                } else {
                    in_transit = Some((start, bytes - sent))
                }
            }
        }
        departures
    }

    fn outages() -> impl Strategy<Value = Vec<OutageConfig>> {
        prop::collection::vec((0_u64..60, 0_u64..20), 0..4)
            .prop_map(|list| list.iter().map(|&(from, length)| held(from, length)).collect())
    }

    /// Frames as (arrival, bytes), arrivals in 0.25 ms so that they often meet an opportunity.
    fn frames() -> impl Strategy<Value = Vec<(Time, u32)>> {
        let frame = (0_u64..20, prop_oneof![Just(1500), Just(40), 1_u32..6000]);
        prop::collection::vec(frame, 1..40).prop_map(|list| {
            let arrivals = list.iter().scan(0, |t, f| {
                *t += f.0 * MS / 4;
                Some((Time(*t), f.1))
            });
            arrivals.collect()
        })
    }

    proptest! {
        #[test]
        fn a_trace_is_served_as_mahimahi_does(
            gaps in prop::collection::vec(0_u32..4, 1..30),
            phase in 0_u64..100_000_000,
            outages in outages(),
            frames in frames(),
        ) {
            let times: Vec<u32> = gaps.iter().scan(0, |sum, g| { *sum += g; Some(*sum) }).collect();
            prop_assume!(times.last() > Some(&0));
            let trace = trace_of(&times);
            let phase = phase % trace.period().0;
            let mut link = traced(&times, &outages, Duration(phase));
            let departures: Vec<_> = frames.iter().map(|f| link.serialize(f.0, f.1)).collect();
            let expected = mahimahi(&trace, phase, &link.outages, &frames);
            prop_assert_eq!(&departures, &expected);
            // Never more than the capacity, over any span from the start.
            let mut sent = 0.0;
            for (frame, departure) in frames.iter().zip(&departures) {
                sent += f64::from(frame.1) * 8.0;
                prop_assert!(sent <= link.capacity_bits(Time::ZERO, departure.1 + Duration(1)));
            }
        }

        #[test]
        fn a_rate_is_never_exceeded(
            rate in 1_000_000_u64..100_000_000,
            outages in outages(),
            frames in frames(),
        ) {
            let mut link = constant(rate, &outages);
            let (mut sent, mut previous) = (0.0, Time::ZERO);
            for (i, &(arrival, bytes)) in frames.iter().enumerate() {
                let (start, end) = link.serialize(arrival, bytes);
                prop_assert!(start >= arrival && start >= previous && end >= start);
                let rate_at_start = link.rate_at(start);
                prop_assert!(rate_at_start == Some(Rate(rate)), "a frame starts during an outage");
                sent += f64::from(bytes) * 8.0;
                // Each end is rounded to the nanosecond.
                let rounding = (i + 1) as f64 * rate as f64 * 1e-9;
                prop_assert!(sent <= link.capacity_bits(Time::ZERO, end) + rounding);
                previous = end;
            }
        }

        #[test]
        fn a_schedule_serves_in_order(
            steps in prop::collection::vec((0_u64..100, 0_u64..3), 0..6),
            outages in outages(),
            frames in frames(),
        ) {
            let steps: Vec<_> = steps.iter().map(|&(at, rate)| (at, rate * 1_000_000)).collect();
            let mut link = scheduled(&steps, &outages);
            let mut previous = Time::ZERO;
            for &(arrival, bytes) in &frames {
                let (start, end) = link.serialize(arrival, bytes);
                prop_assert!(start >= arrival && start >= previous && end >= start);
                prop_assert!(start == Time::NEVER || link.rate_at(start) > Some(Rate(0)));
                previous = end;
            }
        }
    }
}
