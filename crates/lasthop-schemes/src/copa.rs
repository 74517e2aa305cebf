//! Copa: steers its rate towards a target that falls as the queueing delay rises.
//!
//! Source: Arun and Balakrishnan, "Copa: practical delay-based congestion control for the
//! Internet", NSDI 2018; where the paper leaves details open, as the authors' version in mvfst.
//! Deployed at: the sender. Wire: nothing.
//!
//! The queueing delay is dq = RTTstanding - RTTmin: the smallest round-trip time of the last half
//! of the smoothed one (which ACK compression does not disturb), less the smallest of the last
//! 10 s. The target rate is 1 / (delta dq) segments per second (section 2, equation 1). With each
//! ACK cwnd grows by v / (delta cwnd) segments if cwnd / RTTstanding is below the target, and else
//! shrinks by as much. The velocity v doubles in each round trip once the direction of cwnd has
//! been the same for three, and is 1 after a change. Slow start doubles cwnd in each round trip
//! until the rate exceeds the target. Segments are paced at 2 cwnd / RTTstanding.
//!
//! Alone, Copa empties the queue once in five round trips. If dq has not been below a tenth of its
//! range (RTTmax of the last four round trips, less RTTmin) for five round trips, something else
//! fills the queue, and Copa competes (section 2.2): 1 / delta grows by one in each round trip
//! without a loss and is halved by a loss, but stays at least that of the default mode. Losses
//! change nothing else, except that a timeout closes the window as usual.
//!
//! Assumes that the smallest round-trip time of 10 s is that of the path without queues. Bad at:
//! delay that varies for other reasons (radio links with retransmission, grants of uplinks, Wi-Fi
//! aggregation), which it takes for a queue. Delayed ACKs make RTTmin, which is that of the first
//! ACKs, a segment too short: a Copa that is alone can then take its own queue for another's and
//! compete with itself, with a queue that grows until there is a loss.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::units::{Duration, Rate, Time};
use lasthop_tcp::recovery::Recovery;
use lasthop_tcp::window::{Ack, Loss, LossClass, LossKind, Start, Window, WindowRule, window_rule};

/// Settings of Copa.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Copa {
    /// Weight of delay against rate in the default mode: about 1.25 / delta segments wait.
    pub delta: f64,
    /// Competes where something else fills the queue.
    pub competes: bool,
    /// Loss recovery under the rule, such as "rack+prr+f-rto"; unset: the profile's, or Linux' if
    /// the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for Copa {
    fn default() -> Self {
        Copa { delta: 0.5, competes: true, recovery: None }
    }
}

impl SchemeConfig for Copa {
    const ENTRY: Entry = Entry {
        name: "copa",
        family: Family::EndToEnd,
        group: Some(Group::Today),
        summary: "steers to a rate that is inversely proportional to the queueing delay",
        paper: "Arun and Balakrishnan, NSDI 2018",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &[
            "the smallest round-trip time of 10 s is that of the empty path",
            "delay varies by queueing only",
        ],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if self.delta > 0.0 && self.delta <= 10.0 {
            return Ok(());
        }
        Err(format!("delta must be above 0 and at most 10, found {}", self.delta))
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(CopaWindow::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::LINUX))
    }
}

/// Time over which the smallest round-trip time is that of the path.
const MIN_RTT_AGE: Duration = Duration::secs(10);
/// Round trips over which the largest round-trip time is taken, and those after which a queue that
/// was never nearly empty is another's.
const MAX_RTT_ROUNDS: u64 = 4;
const FULL_ROUNDS: u64 = 5;
/// A queue is nearly empty below this share of its range.
const NEARLY_EMPTY: f64 = 0.1;
/// Rounds with the same direction from which on the velocity doubles.
const SAME_DIRECTION: u32 = 3;
/// Smallest cwnd, segments.
const MIN_SEGMENTS: f64 = 2.0;

/// Samples of the last while, of which only those are kept that can still become the smallest.
#[derive(Clone, Debug, Default)]
struct RecentMin(VecDeque<(Time, Duration)>);

impl RecentMin {
    /// The smallest of the samples that are not older than `age`, this one included.
    fn add(&mut self, now: Time, sample: Duration, age: Duration) -> Duration {
        while self.0.back().is_some_and(|last| last.1 >= sample) {
            self.0.pop_back();
        }
        self.0.push_back((now, sample));
        while self.0.front().is_some_and(|first| now.since(first.0) > age) {
            self.0.pop_front();
        }
        self.0.front().map_or(sample, |first| first.1)
    }
}

/// What Copa knows of the path.
#[derive(Clone, Copy, Debug)]
struct Delays {
    standing: f64,
    /// Queueing delay, seconds.
    queueing: f64,
}

/// Copa's window rule. Rates in segments per second, times in seconds.
#[derive(Clone, Debug)]
pub struct CopaWindow {
    default_delta: f64,
    competes: bool,
    /// 1 / delta of the mode that is in force.
    weight: f64,
    mins: RecentMin,
    standing: RecentMin,
    /// The largest round-trip time of each of the last rounds.
    maxima: [Duration; MAX_RTT_ROUNDS as usize],
    delays: Option<Delays>,
    slow_start: bool,
    velocity: f64,
    rising: bool,
    /// Rounds for which the direction has been the same.
    same: u32,
    /// The round ends with the ACK that passes this byte.
    round_end: u64,
    round: u64,
    cwnd_before: f64,
    /// The last round in which the queue was nearly empty.
    empty_in: u64,
    lost_in_round: bool,
    rate: Option<Rate>,
}

impl CopaWindow {
    /// A rule with these settings.
    pub fn new(settings: &Copa) -> CopaWindow {
        CopaWindow {
            default_delta: settings.delta,
            competes: settings.competes,
            weight: 1.0 / settings.delta,
            mins: RecentMin::default(),
            standing: RecentMin::default(),
            maxima: [Duration::ZERO; MAX_RTT_ROUNDS as usize],
            delays: None,
            slow_start: true,
            velocity: 1.0,
            rising: true,
            same: 0,
            round_end: 0,
            round: 0,
            cwnd_before: 0.0,
            empty_in: 0,
            lost_in_round: false,
            rate: None,
        }
    }

    /// delta of the mode that is in force.
    pub fn delta(&self) -> f64 {
        1.0 / self.weight
    }

    fn measure(&mut self, ack: &Ack, rtt: Duration) {
        let min = self.mins.add(ack.now, rtt, MIN_RTT_AGE);
        let srtt = ack.srtt.unwrap_or(rtt);
        let standing = self.standing.add(ack.now, rtt, Duration(srtt.0 / 2));
        let max = &mut self.maxima[(self.round % MAX_RTT_ROUNDS) as usize];
        *max = rtt.max(*max);
        let queueing = seconds(standing.saturating_sub(min));
        self.delays = Some(Delays { standing: seconds(standing), queueing });
        let max = self.maxima.iter().copied().max().unwrap_or(rtt);
        if queueing < NEARLY_EMPTY * seconds(max.saturating_sub(min)) || standing == min {
            self.empty_in = self.round;
        }
    }

    /// Once in a round trip: the direction of cwnd, the velocity, and the mode (sections 2.1, 2.2).
    fn end_of_round(&mut self, window: &Window) {
        let rising = window.cwnd > self.cwnd_before;
        if rising == self.rising && !self.slow_start {
            self.same += 1;
            self.velocity *= if self.same >= SAME_DIRECTION { 2.0 } else { 1.0 };
        } else {
            self.turn(rising);
        }
        self.cwnd_before = window.cwnd;
        self.round += 1;
        self.maxima[(self.round % MAX_RTT_ROUNDS) as usize] = Duration::ZERO;
        let least = 1.0 / self.default_delta;
        if !self.competes || self.round - self.empty_in <= FULL_ROUNDS {
            self.weight = least;
        } else if !self.lost_in_round {
            self.weight += 1.0;
        }
        self.lost_in_round = false;
    }

    fn turn(&mut self, rising: bool) {
        (self.rising, self.same, self.velocity) = (rising, 0, 1.0);
    }

    fn steer(&mut self, window: &mut Window, ack: &Ack, delays: Delays) {
        let mss = f64::from(ack.mss);
        let cwnd = window.cwnd / mss;
        let rises = cwnd / delays.standing * delays.queueing <= self.weight;
        if self.slow_start && rises {
            window.cwnd += ack.delivered as f64;
            return;
        }
        if self.slow_start {
            self.slow_start = false;
            window.ssthresh = window.cwnd;
            self.turn(false);
        }
        // A velocity that was gained in the other direction does not count.
        if rises != self.rising && self.velocity > 1.0 {
            self.turn(rises);
        }
        let acked = ack.delivered as f64 / mss;
        let step = self.velocity * self.weight * acked / cwnd;
        let cwnd = if rises { cwnd + step.min(acked) } else { cwnd - step.min(acked) };
        window.cwnd = cwnd.max(MIN_SEGMENTS) * mss;
    }
}

/// The sender makes use of its window: at least half of it.
fn limited_by_window(window: &Window, ack: &Ack) -> bool {
    2.0 * (ack.flight + ack.delivered) as f64 >= window.cwnd
}

fn seconds(time: Duration) -> f64 {
    time.0 as f64 / 1e9
}

#[window_rule]
impl WindowRule for CopaWindow {
    fn on_established(&mut self, window: &mut Window, _start: &Start) {
        window.ssthresh = f64::INFINITY;
        self.cwnd_before = window.cwnd;
    }

    fn on_ack(&mut self, _window: &mut Window, _ack: &Ack) {}

    fn on_any_ack(&mut self, window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt.filter(|rtt| *rtt > Duration::ZERO) {
            self.measure(ack, rtt);
        }
        let Some(delays) = self.delays else { return };
        if ack.snd_una > self.round_end {
            self.end_of_round(window);
            self.round_end = ack.snd_max;
        }
        if limited_by_window(window, ack) {
            self.steer(window, ack, delays);
        }
        self.rate = Some(Rate((2.0 * window.cwnd * 8.0 / delays.standing) as u64));
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        if !self.lost_in_round && loss.kind != LossKind::Ecn {
            self.weight = (self.weight / 2.0).max(1.0 / self.default_delta);
            self.lost_in_round = true;
        }
        if loss.kind == LossKind::Timeout {
            window.cwnd = loss.loss_window;
            self.slow_start = false;
            self.turn(true);
        }
        window.ssthresh = window.ssthresh.min(window.cwnd.max(2.0 * f64::from(loss.mss)));
        LossClass::Unclassified
    }

    fn pacing(&self) -> Option<Rate> {
        self.rate
    }

    fn steers_recovery(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{Exempt, ack, drive_except, loss, start, steps, timeout, window};
    use proptest::prelude::*;

    /// A rule on a path of 100 ms, and the bytes it has sent.
    struct Path {
        rule: CopaWindow,
        window: Window,
        sent: u64,
        now: Time,
    }

    impl Path {
        fn new(settings: &Copa, cwnd: f64) -> Path {
            let mut path = Path {
                rule: CopaWindow::new(settings),
                window: window(cwnd, 1e9),
                sent: cwnd as u64 * 1000,
                now: Time::ZERO,
            };
            path.rule.on_established(&mut path.window, &start());
            path
        }

        /// A window of ACKs with this round-trip time.
        fn round(&mut self, rtt: u64) -> f64 {
            let n = (self.window.cwnd / 1000.0) as u64;
            for i in 1..=n {
                self.now += Duration(rtt * 1_000_000 / n);
                let a = Ack {
                    now: self.now,
                    rtt: Some(Duration::millis(rtt)),
                    srtt: Some(Duration::millis(rtt)),
                    snd_una: self.sent - (n - i) * 1000,
                    snd_max: self.sent + i * 1000,
                    flight: n * 1000,
                    ..ack()
                };
                self.rule.on_any_ack(&mut self.window, &a);
            }
            self.sent += n * 1000;
            self.window.cwnd / 1000.0
        }
    }

    fn default_path(cwnd: f64) -> Path {
        Path::new(&Copa::default(), cwnd)
    }

    /// At dq = 20 ms the target is 1 / (0.5 × 0.02) = 100 segments per second: 12 segments in a
    /// round trip of 120 ms.
    #[test]
    fn slow_start_ends_when_the_rate_exceeds_the_target() {
        let mut path = default_path(5.0);
        assert_eq!(path.round(100), 10.0);
        assert!(path.rule.slow_start);
        let cwnd = path.round(120);
        assert!(!path.rule.slow_start && (11.0..17.0).contains(&cwnd), "{cwnd}");
        let cwnd = path.round(120);
        assert!((9.0..15.0).contains(&cwnd), "{cwnd}");
    }

    /// v / (delta cwnd) per ACK: 2 segments in a round trip, twice as many in each once the
    /// direction has been the same for three.
    #[test]
    fn the_velocity_doubles_after_three_rounds() {
        let mut path = default_path(50.0);
        path.round(100);
        path.rule.slow_start = false;
        path.rule.turn(true);
        let mut steps = vec![];
        for _ in 0..7 {
            let before = path.window.cwnd / 1000.0;
            steps.push(path.round(100) - before);
        }
        assert!(steps[..2].iter().all(|step| (step / 2.0 - 1.0).abs() < 0.05), "{steps:?}");
        assert!(steps[3..].windows(2).all(|s| (1.7..2.1).contains(&(s[1] / s[0]))), "{steps:?}");
        // The other direction begins with 1 again, once the old samples are forgotten.
        let before = path.round(400);
        let after = path.round(400);
        assert!((before - after - 2.0).abs() < 0.4, "{before} {after}");
    }

    #[test]
    fn a_loss_changes_nothing_and_a_timeout_closes_the_window() {
        let mut path = default_path(20.0);
        path.round(100);
        let before = path.window.cwnd;
        path.rule.on_loss(&mut path.window, &loss(20));
        assert_eq!(path.window.cwnd, before);
        path.rule.on_loss(&mut path.window, &timeout(20));
        assert_eq!(path.window.cwnd, 1000.0);
    }

    /// The queue is never below 300 ms after a start at 100 ms: another fills it.
    #[test]
    fn a_queue_that_never_empties_is_competed_with() {
        let mut path = default_path(20.0);
        path.round(100);
        let deltas: Vec<f64> = (0..10)
            .map(|_| {
                path.round(400);
                path.rule.delta()
            })
            .collect();
        assert!(deltas[..5].iter().all(|d| *d == 0.5), "{deltas:?}");
        assert!((deltas[9] - 1.0 / 6.0).abs() < 0.05, "{deltas:?}");
        let before = path.rule.weight;
        path.rule.on_loss(&mut path.window, &loss(20));
        assert_eq!(path.rule.weight, before / 2.0);
        // Nearly empty again: the default mode.
        (0..3).for_each(|_| assert!(path.round(101) > 0.0));
        assert_eq!(path.rule.delta(), 0.5);
        let mut meek = Path::new(&Copa { competes: false, ..Copa::default() }, 20.0);
        meek.round(100);
        (0..10).for_each(|_| assert!(meek.round(400) > 0.0));
        assert_eq!(meek.rule.delta(), 0.5);
    }

    #[test]
    fn the_standing_round_trip_time_is_the_smallest_of_half_a_round_trip() {
        let mut recent = RecentMin::default();
        let age = Duration::millis(50);
        let at = |ms: u64| Time(ms * 1_000_000);
        assert_eq!(recent.add(at(0), Duration::millis(100), age), Duration::millis(100));
        assert_eq!(recent.add(at(40), Duration::millis(140), age), Duration::millis(100));
        assert_eq!(recent.add(at(51), Duration::millis(130), age), Duration::millis(130));
        assert_eq!(recent.0.len(), 1);
    }

    #[test]
    fn settings_are_checked() {
        for delta in [0.0, -1.0, f64::NAN, 11.0] {
            assert!(Copa { delta, ..Copa::default() }.check().is_err());
        }
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps()) {
            let exempt = [Exempt::Growth, Exempt::Reduction];
            drive_except(&exempt, CopaWindow::new(&Copa::default()), Default::default(), &steps);
        }
    }
}
