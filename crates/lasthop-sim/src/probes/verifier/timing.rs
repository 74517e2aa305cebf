//! Bounds of the times at which a link serializes its frames and delivers them.

use std::sync::Arc;

use lasthop::air::config::{
    DelayConfig, DelayDistribution, DelayTable, OutageConfig, OutageRule, RandomStart, RateConfig,
    TraceStart,
};
use lasthop::air::delay::milliseconds;
use lasthop::air::token_bucket::TokenBucketConfig;
use lasthop::air::trace::Trace;
use lasthop::scenario::network::Link;
use lasthop::units::{Duration, Quantity, Rate, Time};

/// Intervals `[from, to)`, sorted by their start; they may overlap.
pub(super) struct Spans(Vec<(Time, Time)>);

impl Spans {
    fn new(spans: impl Iterator<Item = (Duration, Duration)>) -> Spans {
        let mut list: Vec<_> = spans
            .map(|(from, length)| (Time::ZERO + from, Time::ZERO + from + length))
            .filter(|s| s.0 < s.1)
            .collect();
        list.sort();
        Spans(list)
    }

    pub(super) fn of(outages: &[OutageConfig], rule: OutageRule) -> Spans {
        Spans::new(outages.iter().filter(|o| o.frames == rule).map(|o| (o.from, o.length)))
    }

    pub(super) fn contains(&self, t: Time) -> bool {
        self.0.iter().any(|s| s.0 <= t && t < s.1)
    }

    /// Returns true if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if one of them overlaps `[from, to]`, from its start to before its end.
    pub(super) fn overlap(&self, from: Time, to: Time) -> bool {
        self.0.iter().any(|s| s.0 <= to && from < s.1)
    }

    /// The first instant from `t` on that lies in none of them.
    fn first_outside(&self, mut t: Time) -> Time {
        for s in &self.0 {
            if s.0 <= t && t < s.1 {
                t = s.1;
            }
        }
        t
    }

    /// When `work` that starts at `t`, outside of all intervals, ends if it pauses during them.
    fn finish_time(&self, mut t: Time, mut work: Duration) -> Time {
        for &(from, to) in &self.0 {
            if to <= t {
                continue;
            }
            let gap = from - t;
            if from >= t && work <= gap {
                break;
            }
            work = work.saturating_sub(gap);
            t = to;
        }
        t + work
    }
}

/// A token bucket as the virtual scheduling algorithm of ITU-T I.371 has it: the time at which the
/// bucket would be full again, times its rate, in units of 1e-9 bit.
pub(super) struct Bucket {
    rate: u128,
    burst: u128,
    full_at: u128,
}

impl Bucket {
    pub(super) fn new(config: &TokenBucketConfig) -> Bucket {
        let burst = u128::from(config.burst_bytes()) * 8_000_000_000;
        Bucket { rate: config.rate.0.into(), burst, full_at: 0 }
    }

    fn need(bytes: u32) -> u128 {
        u128::from(bytes) * 8_000_000_000
    }

    /// Takes a frame at `now` if it conforms.
    pub(super) fn conforms(&mut self, now: Time, bytes: u32) -> bool {
        let conforms = self.first(now, bytes) == now && Bucket::need(bytes) <= self.burst;
        if conforms {
            self.take(now, bytes);
        }
        conforms
    }

    /// The first time from `ready` on at which the frame conforms.
    fn first(&self, ready: Time, bytes: u32) -> Time {
        let need = Bucket::need(bytes).min(self.burst);
        let at = (self.full_at + need).saturating_sub(self.burst).div_ceil(self.rate);
        ready.max(Time(u64::try_from(at).unwrap_or(u64::MAX)))
    }

    fn take(&mut self, start: Time, bytes: u32) {
        let empty = u128::from(start.0) * self.rate + self.burst;
        let full_at = self.full_at.max(u128::from(start.0) * self.rate) + Bucket::need(bytes);
        self.full_at = full_at.min(empty);
    }
}

/// The times at which a link serializes its frames.
pub(super) struct Transmitter {
    outages: Spans,
    previous_end: Time,
    shaper: Option<Bucket>,
    kind: TransmitterKind,
}

enum TransmitterKind {
    /// The rate from each time on.
    Steps(Vec<(Time, Rate)>),
    /// A trace with a known phase: the next opportunity, and the bytes left of the previous one.
    Trace { trace: Arc<Trace>, phase: Duration, position: u64, left: u32 },
    /// The times cannot be predicted, for example because the phase of the trace is random.
    Unknown,
}

impl Transmitter {
    pub(super) fn new(link: &Link) -> Transmitter {
        let kind = match (&link.rate, &link.trace) {
            (RateConfig::Constant(rate), _) => TransmitterKind::Steps(vec![(Time::ZERO, *rate)]),
            (RateConfig::Schedule { schedule }, _) => {
                let mut steps: Vec<_> =
                    schedule.iter().map(|s| (Time::ZERO + s.at, s.rate)).collect();
                steps.sort_by_key(|s| s.0);
                if let Some(first) = steps.first_mut() {
                    first.0 = Time::ZERO;
                }
                TransmitterKind::Steps(steps)
            }
            (RateConfig::Trace { start: TraceStart::At(at), .. }, Some(trace)) => {
                let phase = Duration(at.0 % trace.period().0);
                TransmitterKind::Trace {
                    trace: trace.clone(),
                    phase,
                    position: trace.position(Time::ZERO + phase),
                    left: 0,
                }
            }
            _ => TransmitterKind::Unknown,
        };
        // With link-layer retransmission the times cannot be predicted.
        let kind = if link.arq.is_some() { TransmitterKind::Unknown } else { kind };
        Transmitter {
            outages: Spans::of(&link.outages, OutageRule::Held),
            previous_end: Time::ZERO,
            shaper: link.shaper.as_ref().map(Bucket::new),
            kind,
        }
    }

    /// Start and end of the serialization of the next frame; `None` if they cannot be predicted.
    pub(super) fn serialize(&mut self, enqueued: Time, bytes: u32) -> Option<(Time, Time)> {
        let free = enqueued.max(self.previous_end);
        let ready = self.shaper.as_ref().map_or(free, |shaper| shaper.first(free, bytes));
        let enqueued = if ready > free { ready } else { enqueued };
        let (start, end) = match &mut self.kind {
            TransmitterKind::Unknown => return None,
            TransmitterKind::Steps(steps) => {
                let mut start = ready;
                let rate = loop {
                    start = self.outages.first_outside(start);
                    let rate = steps.iter().rfind(|s| s.0 <= start).map_or(Rate(0), |s| s.1);
                    if rate.0 > 0 || start == Time::NEVER {
                        break rate;
                    }
                    start = steps.iter().find(|s| s.0 > start).map_or(Time::NEVER, |s| s.0);
                };
                (
                    start,
                    if start == Time::NEVER {
                        start
                    } else {
                        self.outages.finish_time(start, rate.time_for(u64::from(bytes)))
                    },
                )
            }
            TransmitterKind::Trace { trace, phase, position, left } => {
                let mut need = bytes.max(1);
                let mut first = None;
                let mut end = self.previous_end;
                if enqueued <= self.previous_end && *left > 0 {
                    first = Some(self.previous_end);
                    let taken = need.min(*left);
                    (need, *left) = (need - taken, *left - taken);
                }
                // Opportunities before the frame was queued have passed unused.
                *position = (*position).max(trace.position(ready + *phase));
                while need > 0 {
                    let at = trace.time_of(*position) - *phase;
                    *position += 1;
                    if self.outages.contains(at) {
                        continue;
                    }
                    let taken = need.min(Trace::OPPORTUNITY);
                    (need, *left) = (need - taken, Trace::OPPORTUNITY - taken);
                    first = first.or(Some(at));
                    end = at;
                }
                (first.unwrap_or(end), end)
            }
        };
        self.previous_end = end;
        if let Some(shaper) = self.shaper.as_mut().filter(|_| start < Time::NEVER) {
            shaper.take(start, bytes);
        }
        Some((start, end))
    }
}

/// True if no frame overtakes another.
fn in_order(delay: &DelayConfig) -> bool {
    delay.in_order || (delay.trace.is_some() && !delay.reorder)
}

/// Bounds of the propagation delay.
pub(super) struct DelayBounds {
    pub config: DelayConfig,
    pub stalls: Spans,
    pub draws: Option<(Duration, Duration)>,
    /// The smallest and the largest delay of a delay trace.
    pub trace_range: Option<(Duration, Duration)>,
    /// The largest delay that a script adds to a frame.
    pub scripted: Duration,
    pub constant: bool,
    pub may_reorder: bool,
    /// The latest arrival so far; `None` once a delay was random.
    pub latest: Option<Time>,
}

impl DelayBounds {
    pub(super) fn new(config: &DelayConfig) -> DelayBounds {
        let rows = match &config.table {
            Some(DelayTable::Named(_)) => Some((Duration::millis(153), Duration::millis(621))),
            Some(DelayTable::Rows(rows)) => {
                let most = rows.iter().map(|r| r.to.unwrap_or(Duration::MAX)).max();
                rows.iter().map(|r| r.from).min().zip(most)
            }
            None => None,
        };
        let draws = match &config.distribution {
            None => rows,
            Some(DelayDistribution::Uniform { from, to }) => Some((*from, *to)),
            Some(DelayDistribution::Normal { .. }) => Some((Duration::ZERO, Duration::MAX)),
            Some(
                DelayDistribution::Exponential { min, .. } | DelayDistribution::Pareto { min, .. },
            ) => Some((*min, Duration::MAX)),
        };
        let trace_range = config.rows.as_ref().map(|rows| {
            let (least, most) = rows.range();
            (milliseconds(least), milliseconds(most))
        });
        let draws = match config.start {
            TraceStart::Named(RandomStart::Random) => trace_range,
            TraceStart::At(_) => draws,
        };
        let stalls = Spans::new(config.stalls.iter().map(|s| (s.from, s.length)));
        let constant = draws.is_none()
            && trace_range.is_none()
            && config.steps.is_empty()
            && stalls.0.is_empty()
            && config.added.is_empty()
            && config.scripted.is_none();
        let scripted = config.scripted.iter().flat_map(|s| s.data.iter().chain(&s.acks));
        let extra = |text: &String| Duration::parse(text.rsplit_once('+')?.1.trim()).ok();
        DelayBounds {
            scripted: scripted.filter_map(extra).max().unwrap_or(Duration::ZERO),
            stalls,
            draws,
            constant,
            may_reorder: !constant && !in_order(config),
            trace_range,
            config: config.clone(),
            latest: Some(Time::ZERO),
        }
    }

    /// The earliest and the latest possible arrival of the frame.
    pub(super) fn arrival(&mut self, start: Time, end: Time, known: bool) -> (Time, Time) {
        let c = &self.config;
        let step = c.steps.iter().filter(|s| Time::ZERO + s.at <= start).max_by_key(|s| s.at);
        let fixed = match (&c.rows, &c.start) {
            (Some(rows), TraceStart::At(at)) => milliseconds(rows.value_at(start + *at)),
            _ => step.map_or(c.base, |s| s.delay),
        };
        let always = !known || self.trace_range.is_some();
        let drawn = self.draws.filter(|_| always || start >= Time::ZERO + c.from);
        let (mut least, mut most) = drawn.unwrap_or((fixed, fixed));
        if !known {
            // The start is unknown: only the smallest delay is certain.
            let steps = c.steps.iter().map(|s| s.delay).chain([c.base]).min().unwrap_or(c.base);
            let steps = self.trace_range.map_or(steps, |range| range.0);
            self.latest = None;
            return (end + if drawn.is_some() { least.min(steps) } else { steps }, Time::NEVER);
        }
        let stalled = self.stalls.first_outside(start) - start;
        let more = c
            .added
            .iter()
            .filter(|a| Time::ZERO + a.from <= start && start < Time::ZERO + a.from + a.length);
        for extra in more.map(|a| a.extra).chain([stalled]) {
            (least, most) = (least + extra, most + extra);
        }
        let (earliest, latest) = (end + least, end + most + self.scripted);
        if !in_order(c) || self.constant {
            return (earliest, latest);
        }
        // A frame that would overtake or meet the previous one arrives one serialization time after
        // it, with a delay trace together with it.
        let gap = if c.rows.is_some() { Duration::ZERO } else { end - start };
        match self.latest {
            Some(before) if earliest == latest => {
                let at =
                    if before == Time::ZERO || earliest > before { earliest } else { before + gap };
                self.latest = Some(at);
                (at, at)
            }
            _ => {
                self.latest = None;
                (earliest, Time::NEVER)
            }
        }
    }
}
