//! Arrival times of frames.

use super::config::{
    DelayConfig, DelayDistribution, DelayRow, DelayTable, RandomStart, TraceStart,
};
use super::draws::Draws;
use super::loss::Frame;
use super::playback::Playback;
use super::script::Script;
use super::spans::Spans;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Share, Time};

/// The propagation delay of a one-way link.
///
/// The delay of a frame is decided when its serialisation starts; later changes do not affect it.
/// This is the rule of ns-2's DelayLink: a frame with a shorter delay overtakes. With `in_order` no
/// frame overtakes (ns-2's `avoidReordering_`). With a delay trace, a frame that would overtake
/// arrives with the frame before it, unless the config allows reordering: a link that is busy all
/// the time then follows a delay that becomes shorter.
#[derive(Clone, Debug)]
pub struct DelayProcess {
    base: Duration,
    /// `None` if the delay is always `base`.
    variable: Option<Box<Variable>>,
    in_order: bool,
}

#[derive(Clone, Debug)]
struct Variable {
    stream: Stream,
    draws: Draws,
    source: Source,
    trace: Option<Playback>,
    /// True if the start in the trace depends on the seed.
    random_start: bool,
    draws_from: Time,
    /// In order of time.
    steps: Vec<(Time, Duration)>,
    /// Number of steps that have passed.
    passed: usize,
    stalls: Spans,
    added: Vec<(Time, Time, Duration)>,
    script: Script<Duration>,
    /// Latest arrival so far.
    latest: Time,
}

/// Source of the delay of a frame if it is drawn.
#[derive(Clone, Debug)]
enum Source {
    None,
    /// Upper end of the cumulative share, and the row.
    Table(Vec<(f64, DelayRow)>),
    Distribution(DelayDistribution),
}

impl DelayProcess {
    /// The process of a link direction with this `name` ("server>phone"), which addresses the
    /// draws.
    ///
    /// # Errors
    ///
    /// If a value of the config is outside of its range.
    pub fn new(config: &DelayConfig, seed: u64, name: &str) -> Result<DelayProcess, String> {
        check_trace(config)?;
        let source = Source::new(config)?;
        let random_start = matches!(config.start, TraceStart::Named(RandomStart::Random));
        let trace = config.rows.clone().map(|rows| Playback::new(rows, &config.start, seed));
        let mut steps: Vec<_> = config.steps.iter().map(|s| (Time(s.at.0), s.delay)).collect();
        steps.sort_by_key(|s| s.0);
        let stalls = Spans::new(config.stalls.iter().map(|s| (s.from, s.length)));
        let added: Vec<_> = config
            .added
            .iter()
            .map(|a| (Time(a.from.0), Time(a.from.0) + a.length, a.extra))
            .collect();
        let script = config.scripted.as_ref().map_or(Ok(Script::default()), Script::of_delays)?;
        let constant = matches!(source, Source::None)
            && trace.is_none()
            && steps.is_empty()
            && stalls.is_empty()
            && added.is_empty()
            && script.is_empty();
        let draws = Draws::new(config.index, config.slot)?;
        let variable = || Variable {
            stream: Stream::new(seed, &["delay ", name].concat()),
            draws,
            source,
            trace,
            random_start,
            draws_from: Time(config.from.0),
            steps,
            passed: 0,
            stalls,
            added,
            script,
            latest: Time::ZERO,
        };
        Ok(DelayProcess {
            base: config.base,
            variable: (!constant).then(|| Box::new(variable())),
            in_order: config.in_order || (config.trace.is_some() && !config.reorder),
        })
    }

    /// Arrival of a frame whose serialisation lasts until `end`. Call it once for each frame, in
    /// order of start.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_channel::air::config::DelayConfig;
    /// use lasthop_channel::air::delay::DelayProcess;
    /// use lasthop_channel::air::loss::Frame;
    /// use lasthop_core::segment::Segment;
    /// use lasthop_core::units::{Duration, Time};
    ///
    /// let config = DelayConfig::constant(Duration::millis(20));
    /// let mut delay = DelayProcess::new(&config, 1, "server>phone").unwrap();
    /// let segment = Segment::default();
    /// let frame =
    ///     Frame { start: Time::ZERO, ordinal: 0, bytes: 1040, mss: 1000, segment: &segment };
    /// // The frame is serialised until 8 ms.
    /// assert_eq!(delay.arrival(&frame, Time(8_000_000)), Time(28_000_000));
    /// ```
    #[inline]
    pub fn arrival(&mut self, frame: &Frame, end: Time) -> Time {
        let Some(variable) = &mut self.variable else { return end + self.base };
        let arrival = end + variable.delay(self.base, frame);
        if self.in_order { variable.behind_others(arrival, (frame.start, end)) } else { arrival }
    }

    /// Delays are drawn from the start on, nothing is added to them, and no frame overtakes.
    pub fn is_drawn_in_order(&self) -> bool {
        self.in_order && self.variable.as_ref().is_some_and(|v| v.is_drawn())
    }

    /// The same arrival where the delay is constant or [drawn](Self::is_drawn_in_order), of the
    /// frame `ordinal` whose serialisation lasts from `start` until `end`.
    #[inline(always)]
    pub fn drawn_arrival(&mut self, ordinal: u64, (start, end): (Time, Time)) -> Time {
        let Some(variable) = &mut self.variable else { return end + self.base };
        let index = variable.draws.next(start, ordinal);
        let arrival = end + variable.source.draw(variable.stream, index);
        variable.behind_others(arrival, (start, end))
    }

    /// The delay, if it is constant.
    pub fn constant(&self) -> Option<Duration> {
        self.variable.is_none().then_some(self.base)
    }

    /// Mean delay of frames that start at `t`, stalls excluded.
    pub fn mean_at(&self, t: Time) -> Duration {
        let Some(variable) = &self.variable else { return self.base };
        let step = variable.steps.iter().rev().find(|s| s.0 <= t).map_or(self.base, |s| s.1);
        let step = variable.trace.as_ref().map_or(step, |trace| milliseconds(trace.value_at(t)));
        let drawn = variable.source.mean().filter(|_| t >= variable.draws_from);
        let added = variable.added.iter().filter(|a| a.0 <= t && t < a.1);
        added.fold(drawn.unwrap_or(step), |delay, a| delay + a.2)
    }

    /// True if a frame may arrive before one that was sent earlier.
    pub fn may_reorder(&self) -> bool {
        self.variable.is_some() && !self.in_order
    }

    /// True if arrivals depend on the seed.
    pub fn is_random(&self) -> bool {
        self.variable.as_ref().is_some_and(|v| {
            !matches!(v.source, Source::None) || v.trace.is_some() && v.random_start
        })
    }
}

impl Variable {
    /// The delay is drawn, always, and nothing is added to it.
    fn is_drawn(&self) -> bool {
        !matches!(self.source, Source::None)
            && self.draws_from == Time::ZERO
            && self.trace.is_none()
            && self.stalls.is_empty()
            && self.added.is_empty()
            && self.script.is_empty()
    }

    /// A frame that would arrive at `arrival` arrives behind all others.
    #[inline(always)]
    fn behind_others(&mut self, arrival: Time, (start, end): (Time, Time)) -> Time {
        // ns-2 does not separate two arrivals at the same time; here they are one serialisation
        // time apart as well, so that frames released by a stall arrive as from a link.
        let first = self.latest == Time::ZERO;
        self.latest = if first || arrival > self.latest {
            arrival
        } else {
            // A trace moves whole spans of frames, which arrive together.
            let gap = if self.trace.is_some() { Duration::ZERO } else { end - start };
            self.latest + gap
        };
        self.latest
    }

    #[inline]
    fn delay(&mut self, base: Duration, frame: &Frame) -> Duration {
        let start = frame.start;
        while self.steps.get(self.passed).is_some_and(|s| s.0 <= start) {
            self.passed += 1;
        }
        let mut delay = self.passed.checked_sub(1).map_or(base, |i| self.steps[i].1);
        if let Some(trace) = &self.trace {
            delay = milliseconds(trace.value_at(start));
        }
        if !matches!(self.source, Source::None) && start >= self.draws_from {
            let index = self.draws.next(start, frame.ordinal);
            delay = self.source.draw(self.stream, index);
        }
        if let Some(end) = self.stalls.end_of(start) {
            delay = delay + (end - start);
        }
        let added = self.added.iter().filter(|a| a.0 <= start && start < a.1);
        delay = added.fold(delay, |delay, a| delay + a.2);
        if self.script.is_empty() {
            return delay;
        }
        self.script.next(frame.segment, frame.mss).map_or(delay, |extra| delay + *extra)
    }
}

/// Refuses keys that do not go with a trace, or only with one.
fn check_trace(config: &DelayConfig) -> Result<(), String> {
    if config.trace.is_none() {
        let key = if config.reorder { Some("reorder") } else { None };
        let key = key.or((!config.start.is_zero()).then_some("start"));
        return key
            .map_or(Ok(()), |key| Err(format!("`{key}` needs a delay trace: trace = \"FILE\"")));
    }
    if config.table.is_some() || config.distribution.is_some() || !config.steps.is_empty() {
        return Err("a delay has a trace, or a table, a distribution or steps, not both".into());
    }
    if config.in_order && config.reorder {
        return Err("`in_order` and `reorder` contradict each other".into());
    }
    Ok(())
}

/// Table 1 of Zeng's thesis (2006): one-way delay of CDMA 1xRTT at walking speed, from the round
/// trip times of Luo and Fapojuwo.
const ZENG2006: [(f64, u64, u64); 4] =
    [(0.80, 153, 195), (0.10, 195, 225), (0.08, 225, 297), (0.02, 297, 621)];

impl Source {
    fn new(config: &DelayConfig) -> Result<Source, String> {
        match (&config.table, &config.distribution) {
            (None, None) => Ok(Source::None),
            (Some(_), Some(_)) => Err("a delay has a table or a distribution, not both".into()),
            (Some(DelayTable::Named(name)), None) if name == "zeng2006" => {
                let row = |&(share, from, to): &(f64, u64, u64)| DelayRow {
                    share: Share(share),
                    from: Duration::millis(from),
                    to: Some(Duration::millis(to)),
                    mean: None,
                };
                Source::table(&ZENG2006.iter().map(row).collect::<Vec<_>>())
            }
            (Some(DelayTable::Named(name)), None) => Err(format!(
                "there is no built-in delay table {name:?}; the one there is: \"zeng2006\""
            )),
            (Some(DelayTable::Rows(rows)), None) => Source::table(rows),
            (None, Some(distribution)) => Source::distribution(distribution),
        }
    }

    fn table(rows: &[DelayRow]) -> Result<Source, String> {
        rows.iter().try_for_each(check_row)?;
        let mut sum = 0.0;
        let cumulated = rows.iter().map(|row| {
            sum += row.share.0;
            (sum, row.clone())
        });
        let mut rows: Vec<_> = cumulated.collect();
        if (sum - 1.0).abs() > 1e-6 || sum.is_nan() {
            return Err(format!(
                "the shares of a delay table must add up to 100 %, found {:.4} %",
                sum * 100.0
            ));
        }
        rows.retain(|r| r.1.share.0 > 0.0);
        Ok(Source::Table(rows))
    }

    fn distribution(distribution: &DelayDistribution) -> Result<Source, String> {
        match distribution {
            DelayDistribution::Uniform { from, to } if from > to => Err(format!(
                "a uniform delay goes from the smaller delay to the larger, found {from} to {to}"
            )),
            DelayDistribution::Pareto { shape, .. } if !(*shape > 1.0 && shape.is_finite()) => {
                Err(format!(
                    "the shape of a Pareto delay must be above 1, else it has no mean; found \
                     {shape}"
                ))
            }
            other => Ok(Source::Distribution(other.clone())),
        }
    }

    /// Mean of the draws, if delays are drawn.
    fn mean(&self) -> Option<Duration> {
        match self {
            Source::None => None,
            Source::Table(rows) => {
                Some(nanoseconds(rows.iter().map(|(_, r)| r.share.0 * mean_of(r).0 as f64).sum()))
            }
            Source::Distribution(d) => Some(match d {
                DelayDistribution::Uniform { from, to } => between(*from, *to, 0.5),
                DelayDistribution::Normal { mean, .. } => *mean,
                DelayDistribution::Exponential { min, mean }
                | DelayDistribution::Pareto { min, mean, .. } => *min + *mean,
            }),
        }
    }

    #[inline(always)]
    fn draw(&self, stream: Stream, index: u64) -> Duration {
        match self {
            Source::Distribution(DelayDistribution::Uniform { from, to }) => {
                between(*from, *to, stream.uniform(index))
            }
            other => other.draw_other(stream, index),
        }
    }

    /// The same, if the distribution is not uniform.
    #[inline(never)]
    fn draw_other(&self, stream: Stream, index: u64) -> Duration {
        match self {
            Source::None => Duration::ZERO,
            Source::Table(rows) => {
                let draw = stream.uniform(index);
                // The last row also covers the rounding error of the sum.
                let found = rows.iter().find(|r| draw < r.0).or(rows.last());
                found.map_or(Duration::ZERO, |(upper, row)| {
                    quantile(row, 1.0 - ((upper - draw) / row.share.0).clamp(0.0, 1.0))
                })
            }
            Source::Distribution(d) => match d {
                DelayDistribution::Uniform { from, to } => {
                    between(*from, *to, stream.uniform(index))
                }
                DelayDistribution::Normal { mean, sd } => {
                    nanoseconds(mean.0 as f64 + sd.0 as f64 * stream.normal(index))
                }
                DelayDistribution::Exponential { min, mean } => {
                    *min + nanoseconds(stream.exponential(index, mean.0 as f64))
                }
                DelayDistribution::Pareto { min, mean, shape } => {
                    *min + nanoseconds(stream.pareto(index, mean.0 as f64, *shape))
                }
            },
        }
    }
}

/// A row has a largest delay, or the mean of a tail.
fn check_row(row: &DelayRow) -> Result<(), String> {
    match (row.to, row.mean) {
        (Some(to), None) if row.from > to => Err(format!(
            "a row of a delay table goes from the smaller delay to the larger, found {} to {to}",
            row.from
        )),
        (Some(_), None) | (None, Some(_)) => Ok(()),
        _ => Err("a row of a delay table has either `to`, its largest delay, or `mean`, that of \
                  an exponential tail"
            .into()),
    }
}

/// The mean delay of a row.
fn mean_of(row: &DelayRow) -> Duration {
    row.mean.map_or_else(|| quantile(row, 0.5), |mean| row.from + mean)
}

/// The delay of a row that a share of its frames does not exceed.
fn quantile(row: &DelayRow, share: f64) -> Duration {
    match row.mean {
        Some(mean) => {
            let beyond = (1.0 - share).max(f64::EPSILON / 2.0);
            row.from + nanoseconds(-(mean.0 as f64) * libm::log(beyond))
        }
        None => between(row.from, row.to.unwrap_or(row.from), share),
    }
}

/// Rounded; negative and NaN give zero.
fn nanoseconds(ns: f64) -> Duration {
    Duration((ns + 0.5) as u64)
}

/// A value of a delay trace as a time.
pub fn milliseconds(ms: f64) -> Duration {
    nanoseconds(ms * 1e6)
}

fn between(from: Duration, to: Duration, share: f64) -> Duration {
    from + nanoseconds(to.saturating_sub(from).0 as f64 * share)
}

#[cfg(test)]
mod tests;
