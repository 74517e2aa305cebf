//! Prague: the scalable sender of L4S, which reduces its window in proportion to the share of
//! marked segments.
//!
//! Source: draft-briscoe-iccrg-prague-congestion-control-04, RFC 9331 (section 4) and L4STeam's
//! Linux (`tcp_prague.c`, version 0.6), whose constants these are.
//! Deployed at: the sender, and at receivers with AccECN.
//! Wire: data are ECT(1), and ACKs count marks (AccECN, RFC 9768).
//!
//! alpha, an EWMA with gain 1/16 of the share of marked segments in a round trip, begins as 1, with
//! the first mark. At most once in a round trip, a mark reduces cwnd by alpha / 2 (DCTCP, RFC 8257,
//! section 3.3). Each segment that is delivered without a mark adds 1 / cwnd segments, during the
//! reduction as well, so that cwnd settles where two segments of a round trip are marked. Slow
//! start ends with the first mark. A loss halves cwnd. Segments are paced at cwnd / srtt, twice
//! that in slow start, in bursts of at most 0.25 ms.
//!
//! RTT independence: after 500 round trips, a flow of less than `rtt_target` grows as one of that
//! round-trip time would, and updates alpha and reduces once in it, so that its rate is the same.
//!
//! Fallback: without AccECN, it is Reno with the ECN of RFC 3168. With `classic_fallback` (off in
//! Linux), a score rises with the mean deviation of the round-trip time above 0.75 ms and with the
//! queueing delay above 2 ms, as behind an AQM that marks ECT(1) no sooner than it drops; from a
//! score of 8 on, alpha is at least 0.6 times what exceeds it, up to that of a classic sender.
//!
//! Assumes queues that mark ECT(1) from about 1 ms of delay on (DualPI2, or FQ-CoDel with a
//! threshold). Bad at: bottlenecks with one queue and classic ECN, where it takes most of the rate
//! of others unless the fallback is on; links that deliver in bursts of more than the threshold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::units::{Duration, Rate, Time};
use lasthop_tcp::recovery::Recovery;
use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Needs, Start, Window, WindowRule, window_rule,
};

/// Settings of Prague.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Prague {
    /// Round-trip time up to which the rate does not depend on it; 0 switches this off. Default:
    /// 25 ms, as in Linux (`prague_rtt_target`).
    pub rtt_target: Duration,
    /// Round trips after slow start before that begins. Default: 500, as in Linux
    /// (`prague_rtt_transition`).
    pub rtt_transition: u32,
    /// Reduces nearly as a classic sender would where the AQM seems to be a classic one. Default:
    /// false, as in Linux (`prague_ecn_fallback`).
    pub classic_fallback: bool,
    /// Loss recovery under the rule, such as "rack+prr+f-rto"; unset: the profile's, or Linux' if
    /// the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for Prague {
    fn default() -> Self {
        Prague {
            rtt_target: Duration::millis(25),
            rtt_transition: 500,
            classic_fallback: false,
            recovery: None,
        }
    }
}

impl SchemeConfig for Prague {
    const ENTRY: Entry = Entry {
        name: "prague",
        family: Family::EndToEnd,
        group: Some(Group::Today),
        summary: "reduces in proportion to the share of marked segments, with ECT(1) and AccECN",
        paper: "draft-briscoe-iccrg-prague-congestion-control-04",
        changes: Footprint { sender: true, receiver: true, ..Footprint::NONE },
        assumptions: &["queues mark ECT(1) from about 1 ms of delay on", "receivers have AccECN"],
        ..Entry::DEFAULT
    };

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(PragueWindow::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::LINUX))
    }

    fn needs(&self) -> Needs {
        Needs { l4s: true, ..Needs::default() }
    }
}

/// Gain of alpha (`PRAGUE_SHIFT_G`).
const GAIN: f64 = 1.0 / 16.0;
/// Smallest cwnd, segments (`MIN_CWND`).
const MIN_SEGMENTS: f64 = 2.0;
/// Round-trip time above which growth is never scaled (`MAX_SCALED_RTT`).
const MAX_SCALED_RTT: Duration = Duration::millis(100);
/// Time for which segments may leave together, seconds (`prague_burst_shift`).
const BURST: f64 = 1.0 / 4096.0;

/// How likely the AQM is a classic one (`prague_classic_ecn_detection`). Times in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Detector {
    score: f64,
    min: f64,
    smoothed: f64,
    deviation: f64,
}

impl Detector {
    /// Score up to which the AQM is one of L4S, and range above it in which the response changes
    /// (`L_STICKY`, `CLASSIC_ECN`).
    const L4S: f64 = 8.0;
    const RANGE: f64 = 1.0;
    /// Mean deviation and queueing delay that say nothing, and their weights (`V0_LG`, `D0_LG`).
    const DEVIATION: f64 = 750e-6;
    const DELAY: f64 = 2e-3;
    const WEIGHT: f64 = 0.5;

    /// A round-trip time, with a gain that falls with the window in segments
    /// (`prague_update_rtt_scaling`).
    fn sample(&mut self, rtt: f64, window: f64) {
        if self.smoothed == 0.0 {
            (self.min, self.smoothed) = (rtt, rtt);
            return;
        }
        self.min = self.min.min(rtt);
        let log = libm::floor(libm::log2(window.clamp(2.0, 1e6)));
        let shift = (log + libm::floor(log / 2.0) + 1.0).min(18.0);
        let error = rtt - self.smoothed;
        self.smoothed += error / libm::exp2(shift);
        self.deviation += (error.abs() - self.deviation) / libm::exp2(shift + 1.0);
    }

    /// Once for each update of alpha.
    fn update(&mut self) {
        let of = |time: f64, of: f64| Self::WEIGHT * libm::log2(time.max(1e-6) / of);
        self.score += of(self.deviation, Self::DEVIATION);
        self.score += of(self.smoothed - self.min, Self::DELAY).max(0.0);
        self.score = self.score.clamp(0.0, 2.0 * Self::L4S + Self::RANGE);
    }

    /// The least alpha (`prague_classic_ecn_fallback`).
    fn least_alpha(&self) -> f64 {
        0.625 * (self.score - Self::L4S).clamp(0.0, Self::RANGE)
    }
}

/// Prague's window rule.
#[derive(Clone, Debug)]
pub struct PragueWindow {
    settings: Prague,
    is_accurate: bool,
    alpha: f64,
    /// A mark was seen.
    saw_mark: bool,
    /// The window that cwnd approaches by a segment for each ACK, bytes (`frac_cwnd`).
    target: f64,
    target_before_loss: f64,
    /// Losses before this byte are being repaired.
    lost_until: Option<u64>,
    /// The round ends with the ACK of this byte.
    round_end: u64,
    /// Rounds since slow start.
    rounds: u32,
    alpha_at: Time,
    reduced_at: Option<Time>,
    /// Segments delivered and marked since alpha was updated.
    delivered: f64,
    marked: f64,
    srtt: Duration,
    detector: Detector,
    rate: Option<Rate>,
    mss: f64,
}

impl PragueWindow {
    /// A rule with these settings.
    pub fn new(settings: &Prague) -> PragueWindow {
        PragueWindow {
            settings: settings.clone(),
            is_accurate: false,
            alpha: 1.0,
            saw_mark: false,
            target: 0.0,
            target_before_loss: 0.0,
            lost_until: None,
            round_end: 0,
            rounds: 0,
            alpha_at: Time::ZERO,
            reduced_at: None,
            delivered: 0.0,
            marked: 0.0,
            srtt: Duration::ZERO,
            detector: Detector::default(),
            rate: None,
            mss: 1.0,
        }
    }

    /// EWMA of the share of marked segments.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The rate does not depend on the round-trip time.
    fn is_independent(&self, window: &Window) -> bool {
        self.settings.rtt_target > Duration::ZERO
            && !window.slow_start()
            && self.rounds >= self.settings.rtt_transition
    }

    /// Segments that a window without marks adds (`prague_rate_scaled_ai_ack_increase`).
    fn increase(&self, window: &Window) -> f64 {
        let target = self.settings.rtt_target;
        let scales = self.is_independent(window) && self.srtt < target.min(MAX_SCALED_RTT);
        let ratio = self.srtt.as_secs() / target.as_secs();
        if scales { ratio * ratio } else { 1.0 }
    }

    /// Growth by the segments that were delivered without a mark.
    fn grow(&mut self, window: &mut Window, unmarked: f64) {
        let mut unmarked = unmarked;
        if window.slow_start() {
            let room = ((window.ssthresh - window.cwnd) / self.mss).max(0.0);
            let step = unmarked.min(libm::ceil(room));
            window.cwnd += step * self.mss;
            self.target = window.cwnd;
            unmarked -= step;
        }
        let cwnd = libm::ceil(self.target / self.mss).max(1.0);
        self.target += unmarked * self.increase(window) / cwnd * self.mss;
    }

    /// cwnd moves towards the target, by a segment for each ACK.
    fn adjust(&self, window: &mut Window) {
        let whole = libm::ceil(self.target / self.mss - 1e-9) * self.mss;
        if window.cwnd > whole && window.cwnd > MIN_SEGMENTS * self.mss {
            window.cwnd = (window.cwnd - self.mss).max(whole);
        } else if window.cwnd < whole {
            window.cwnd = (window.cwnd + self.mss).min(whole);
        }
    }

    /// A round ends: alpha is updated, once in the round-trip time that counts.
    fn end_round(&mut self, window: &Window, ack: &Ack) {
        let waits =
            self.is_independent(window) && ack.now.since(self.alpha_at) < self.settings.rtt_target;
        if waits {
            return;
        }
        if self.saw_mark {
            if self.settings.classic_fallback {
                self.detector.update();
            }
            let share = (self.marked / self.delivered.max(1.0)).min(1.0);
            self.alpha += GAIN * (share - self.alpha);
            self.alpha_at = ack.now;
        }
        (self.delivered, self.marked, self.round_end) = (0.0, 0.0, ack.snd_max);
        self.rounds += u32::from(!window.slow_start());
    }

    fn pace(&mut self, window: &Window) {
        if self.srtt == Duration::ZERO {
            return;
        }
        let factor = if window.cwnd < window.ssthresh / 2.0 { 2.0 } else { 1.0 };
        self.rate = Some(Rate((factor * 8.0 * self.target / self.srtt.as_secs()) as u64));
    }

    fn lower(&mut self, window: &mut Window, share: f64) {
        self.target = (self.target * (1.0 - share)).max(MIN_SEGMENTS * self.mss);
        window.ssthresh = self.target;
    }
}

/// The sender makes use of its window: at least half of it.
fn limited_by_window(window: &Window, ack: &Ack) -> bool {
    2.0 * (ack.flight + ack.delivered) as f64 >= window.cwnd
}

#[window_rule]
impl WindowRule for PragueWindow {
    fn on_established(&mut self, window: &mut Window, start: &Start) {
        self.is_accurate = start.accurate_ecn;
        self.mss = f64::from(start.mss);
        self.target = window.cwnd;
        self.srtt = start.rtt.unwrap_or_default();
        self.pace(window);
    }

    fn on_ack(&mut self, _window: &mut Window, _ack: &Ack) {}

    fn on_any_ack(&mut self, window: &mut Window, ack: &Ack) {
        self.srtt = ack.srtt.unwrap_or(self.srtt);
        if self.settings.classic_fallback
            && let Some(rtt) = ack.rtt
        {
            self.detector.sample(rtt.as_secs(), window.ssthresh.min(window.cwnd) / self.mss);
        }
        let delivered = ack.delivered as f64 / self.mss;
        let marked = f64::from(ack.marked).min(delivered);
        self.delivered += delivered;
        self.marked += marked;
        self.saw_mark |= ack.marked > 0;
        if self.lost_until.is_some_and(|until| ack.snd_una >= until) {
            self.lost_until = None;
        }
        let answered = if self.is_accurate { 0.0 } else { f64::from(u8::from(ack.ece)) };
        let unmarked = (delivered - marked) * (1.0 - answered);
        if unmarked > 0.0 && self.lost_until.is_none() && limited_by_window(window, ack) {
            self.grow(window, unmarked);
        }
        self.adjust(window);
        if ack.snd_una >= self.round_end {
            self.end_round(window, ack);
        }
        self.pace(window);
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        if loss.kind == LossKind::Ecn {
            if !self.is_accurate {
                self.lower(window, 0.5);
                return LossClass::Unclassified;
            }
            let too_soon = self.is_independent(window)
                && self.reduced_at.is_some_and(|at| loss.now.since(at) < self.settings.rtt_target);
            if !too_soon {
                self.reduced_at = Some(loss.now);
                self.lower(window, self.alpha.max(self.detector.least_alpha()) / 2.0);
            }
            return LossClass::Unclassified;
        }
        self.target_before_loss = self.target;
        self.lost_until = Some(loss.snd_max);
        self.lower(window, 0.5);
        if loss.kind == LossKind::Timeout {
            window.cwnd = loss.loss_window;
        }
        LossClass::Unclassified
    }

    fn on_undo(&mut self, window: &mut Window, before: &Window, _now: Time) {
        self.target = self.target.max(self.target_before_loss);
        self.lost_until = None;
        window.cwnd = window.cwnd.max(before.cwnd);
        window.ssthresh = window.ssthresh.max(before.ssthresh);
    }

    fn pacing(&self) -> Option<Rate> {
        self.rate
    }

    fn burst(&self) -> Option<u32> {
        let bytes = self.rate.map_or(0.0, |rate| rate.0 as f64 / 8.0 * BURST);
        Some(bytes.max(self.mss) as u32)
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

    /// A rule on a path with this round-trip time, and what it has sent.
    struct Path {
        rule: PragueWindow,
        window: Window,
        rtt: Duration,
        now: Time,
        acked: u64,
        /// Segments since the last mark.
        unmarked: u64,
    }

    impl Path {
        fn new(settings: &Prague, cwnd: f64, ssthresh: f64, rtt: u64) -> Path {
            let mut path = Path {
                rule: PragueWindow::new(settings),
                window: window(cwnd, ssthresh),
                rtt: Duration::millis(rtt),
                now: Time::ZERO,
                acked: 0,
                unmarked: 0,
            };
            let start = Start { accurate_ecn: true, rtt: Some(path.rtt), ..start() };
            path.rule.on_established(&mut path.window, &start);
            path
        }

        /// A window of ACKs, of which every `every`-th reports a mark (0: none does). The first of
        /// them reduces the window.
        fn round(&mut self, every: u64) -> f64 {
            let n = (self.window.cwnd / 1000.0) as u64;
            let mut reduced = false;
            for _ in 0..n {
                self.now += Duration(self.rtt.0 / n);
                self.acked += 1000;
                self.unmarked += 1;
                let is_marked = every > 0 && self.unmarked >= every;
                if is_marked {
                    self.unmarked = 0;
                    if !std::mem::replace(&mut reduced, true) {
                        let mark = Loss { kind: LossKind::Ecn, now: self.now, ..loss(n) };
                        self.rule.on_loss(&mut self.window, &mark);
                    }
                }
                let a = Ack {
                    now: self.now,
                    rtt: Some(self.rtt),
                    srtt: Some(self.rtt),
                    snd_una: self.acked,
                    snd_max: self.acked + n * 1000,
                    flight: n * 1000,
                    marked: u32::from(is_marked),
                    ..ack()
                };
                self.rule.on_any_ack(&mut self.window, &a);
            }
            self.window.cwnd / 1000.0
        }
    }

    /// alpha = F + (1 - F) (15/16)^n after n round trips with a share F of marks.
    #[test]
    fn alpha_is_the_moving_average_of_the_share_of_marks() {
        let mut rule = PragueWindow::new(&Prague::default());
        let w = window(10.0, 5.0);
        for n in 1..=40 {
            (rule.saw_mark, rule.delivered, rule.marked) = (true, 10.0, 2.0);
            rule.end_round(&w, &ack());
            let expected = 0.2 + 0.8 * (15.0f64 / 16.0).powi(n);
            assert!((rule.alpha() - expected).abs() < 1e-12, "{n}: {}", rule.alpha());
        }
        // Before the first mark it stays 1.
        let mut rule = PragueWindow::new(&Prague::default());
        rule.end_round(&w, &ack());
        assert_eq!(rule.alpha(), 1.0);
    }

    /// With a share p of marks, a round trip adds 1 - p segments and takes p / 2 of the window:
    /// they balance at 2 (1 - p) / p segments.
    #[test]
    fn the_window_settles_at_two_marks_in_a_round_trip() {
        for every in [10, 25] {
            let mut path = Path::new(&Prague::default(), 40.0, 20.0, 100);
            for _ in 0..300 {
                path.round(every);
            }
            let mean = (0..200).map(|_| path.round(every)).sum::<f64>() / 200.0;
            let expected = 2.0 * (every as f64 - 1.0);
            assert!((mean / expected - 1.0).abs() < 0.12, "{mean}, expected {expected}");
        }
    }

    #[test]
    fn slow_start_doubles_and_ends_with_the_first_mark() {
        let mut path = Path::new(&Prague::default(), 10.0, 1e9, 100);
        assert_eq!([path.round(0), path.round(0)], [20.0, 40.0]);
        // Paced at twice cwnd / srtt: 800 segments of 1000 bytes per second.
        assert_eq!(path.rule.pacing(), Some(Rate(6_400_000)));
        let after = path.round(30);
        assert!(path.window.ssthresh <= 35_000.0 && after < 60.0, "{after} {:?}", path.window);
        assert!(!path.window.slow_start() || path.window.cwnd < 35_000.0);
    }

    /// Without marks a segment in each round trip; at 5 ms, (5 / 25)^2 of it in as long, from the
    /// 500th round trip on.
    #[test]
    fn short_round_trips_grow_as_the_target_does() {
        for (transition, rtt, expected) in [(0, 5, 0.04), (0, 25, 1.0), (0, 50, 1.0), (500, 5, 1.0)]
        {
            let settings = Prague { rtt_transition: transition, ..Prague::default() };
            let mut path = Path::new(&settings, 40.0, 20.0, rtt);
            path.round(0);
            let before = path.rule.target;
            for _ in 0..10 {
                path.round(0);
            }
            let step = (path.rule.target - before) / 10_000.0;
            assert!((step / expected - 1.0).abs() < 0.13, "{rtt} ms: {step}, expected {expected}");
        }
        // Reductions within the target: one.
        let settings = Prague { rtt_transition: 0, ..Prague::default() };
        let mut path = Path::new(&settings, 40.0, 20.0, 5);
        path.round(0);
        let mark = |ms: u64| Loss { kind: LossKind::Ecn, now: Time(ms * 1_000_000), ..loss(40) };
        let target = |path: &mut Path, ms| {
            path.rule.on_loss(&mut path.window, &mark(ms));
            path.rule.target
        };
        let first = target(&mut path, 100);
        assert_eq!([target(&mut path, 110), target(&mut path, 124)], [first; 2]);
        assert!(target(&mut path, 125) < first);
    }

    #[test]
    fn a_loss_halves_and_a_timeout_closes_the_window() {
        let mut path = Path::new(&Prague::default(), 40.0, 20.0, 100);
        path.rule.on_loss(&mut path.window, &Loss { snd_max: 41_000, ..loss(40) });
        assert_eq!((path.rule.target, path.window.ssthresh), (20_000.0, 20_000.0));
        // The window comes down by a segment for each ACK, and does not grow.
        assert_eq!(path.round(0), 20.0);
        path.rule.on_loss(&mut path.window, &timeout(20));
        assert_eq!((path.rule.target, path.window.cwnd), (10_000.0, 1000.0));
        path.rule.on_undo(&mut path.window, &window(20.0, 20.0), Time::ZERO);
        assert_eq!((path.rule.target, path.window.cwnd), (20_000.0, 20_000.0));
    }

    /// Without AccECN a mark halves, as in Reno.
    #[test]
    fn without_accurate_feedback_it_is_reno() {
        let mut path = Path::new(&Prague::default(), 40.0, 20.0, 100);
        path.rule.is_accurate = false;
        path.rule.alpha = 0.1;
        path.rule.on_loss(&mut path.window, &Loss { kind: LossKind::Ecn, ..loss(40) });
        assert_eq!(path.rule.target, 20_000.0);
    }

    /// A mean deviation of 3 ms scores log2(3 / 0.75) / 2 = 1 in each round trip, and a delay of 8
    /// ms log2(8 / 2) / 2 = 1; a deviation of 0.2 ms lowers the score.
    #[test]
    fn a_classic_aqm_is_recognised_by_its_delay() {
        let mut detector = Detector { min: 0.020, smoothed: 0.028, deviation: 0.003, score: 0.0 };
        let scores: Vec<f64> = (0..10)
            .map(|_| {
                detector.update();
                detector.score
            })
            .collect();
        assert!((scores[0] - 2.0).abs() < 1e-9 && (scores[9] - 17.0).abs() < 1e-9, "{scores:?}");
        assert_eq!(detector.least_alpha(), 0.625);
        (detector.smoothed, detector.deviation) = (0.0205, 0.0002);
        (0..30).for_each(|_| detector.update());
        assert_eq!((detector.score, detector.least_alpha()), (0.0, 0.0));
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps()) {
            let exempt = [Exempt::Growth, Exempt::Reduction];
            let rule = PragueWindow::new(&Prague::default());
            drive_except(&exempt, rule, Default::default(), &steps);
        }
    }
}
