//! CUBIC: the window grows with the cube of the time since the last reduction, not with the number
//! of round trips.
//!
//! Source: RFC 9438, slow start by HyStart++ (RFC 9406). Default of Linux, Windows and Apple's
//! systems. Deployed at: the sender. Wire: nothing.
//!
//! After a reduction to 0.7 of the window, the curve C (t − K)³ + Wmax reaches Wmax, the window at
//! the loss, after K seconds: growth is fast at first, then slow (concave region), and beyond Wmax
//! it accelerates again (convex region). If Reno would have a larger window at this time (short
//! round trips, small windows), cwnd follows that estimate instead (Reno-friendly region).
//!
//! Assumes that every loss indicates congestion. Bad at: random loss (the rate falls with p^-0.75);
//! it fills any buffer; jitter of a few milliseconds ends the slow start of HyStart++ early.
//!
//! An ACK of several segments counts as that number of ACKs in every region, as in Linux: the RFC
//! counts ACKs and leaves byte counting open.
//!
//! Under the profile `linux` the window is computed as in the kernel, in whole segments (`tcp.cubic
//! = "linux"`).

mod hystart;
mod linux;
mod settings;

use crate::catalogue::{AnyWindow, Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use crate::cubic::linux::Kernel;
pub use crate::cubic::settings::Cubic;
use crate::cubic::settings::Parameters;
use crate::shared::hystart::HyStart;
use lasthop_core::units::{Duration, Share, Time};
use lasthop_tcp::profile::CubicForm;
use lasthop_tcp::recovery::Recovery;
use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Start, Window, WindowRule, limit_to, window_rule,
};

impl SchemeConfig for Cubic {
    const ENTRY: Entry = Entry {
        name: "cubic",
        family: Family::EndToEnd,
        group: Some(Group::Today),
        summary: "grows with the cube of time around the window of the last loss; what most hosts \
                  run",
        paper: "RFC 9438",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &[
            "every loss means congestion",
            "round-trip times are steady while a connection starts (HyStart++)",
        ],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if !(self.c > 0.0 && self.c <= 100.0) {
            return Err(format!("c must be above 0 and at most 100 segments/s³, found {}", self.c));
        }
        if !(0.1..1.0).contains(&self.beta.0) {
            return Err(format!(
                "beta must be at least 10 % and below 100 %, found {}",
                self.beta.0
            ));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(CubicWindow::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::LINUX))
    }
}

/// An epoch of congestion avoidance; windows in segments, time in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Epoch {
    /// Start of the epoch, postponed by the time in which the application limited the sender.
    start: Time,
    k: f64,
    w_max: f64,
    /// Estimate of Reno's window.
    w_est: f64,
}

/// The state that a reduction overwrites, for an undo (RFC 9438, section 4.9).
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    /// Windows in segments.
    w_max: f64,
    cwnd_prior: f64,
    /// Set in congestion avoidance.
    epoch: Option<Epoch>,
    /// No loss has set Wmax: the next epoch starts there, with K = 0 (sections 4.8 and 4.10).
    at_plateau: bool,
    /// Set in the first slow start.
    hystart: Option<HyStart>,
}

/// The state before the last reduction, and the kind of that.
#[derive(Clone, Copy, Debug)]
struct Memory {
    state: State,
    seq: u64,
    kind: LossKind,
    mss: f64,
}

/// The last ACK of new data.
#[derive(Clone, Copy, Debug)]
struct LastAck {
    at: Time,
    /// True if the window limited the sender then.
    limited: bool,
    /// True if it left nothing in flight.
    idle: bool,
}

/// CUBIC's window rule.
#[derive(Clone, Debug)]
pub struct CubicWindow {
    settings: Parameters,
    state: State,
    /// Boxed: the kernel's arithmetic has none.
    memory: Option<Box<Memory>>,
    last: Option<LastAck>,
    /// The kernel's arithmetic; if set, it replaces `state`.
    kernel: Option<Box<Kernel>>,
}

impl CubicWindow {
    /// A rule with these settings.
    pub fn new(settings: &Cubic) -> Self {
        let hystart = settings.hystart.then(HyStart::default);
        let state = State { w_max: 0.0, cwnd_prior: 0.0, epoch: None, at_plateau: true, hystart };
        let settings = Parameters::from(settings);
        CubicWindow { settings, state, memory: None, last: None, kernel: None }
    }

    /// The current epoch, or a new one that starts at `cwnd` segments.
    fn epoch(&mut self, now: Time, cwnd: f64) -> Epoch {
        let state = &mut self.state;
        if let Some(epoch) = state.epoch {
            return epoch;
        }
        if std::mem::replace(&mut state.at_plateau, false) {
            state.w_max = cwnd;
            state.cwnd_prior = state.cwnd_prior.max(cwnd);
        }
        let k = libm::cbrt((state.w_max - cwnd).max(0.0) / self.settings.c);
        Epoch { start: now, k, w_max: state.w_max.max(cwnd), w_est: cwnd }
    }

    /// Congestion avoidance (sections 4.2 to 4.5): the window after an ACK of `acked` segments,
    /// from `cwnd`.
    fn avoid(&mut self, now: Time, srtt: Duration, cwnd: f64, acked: f64) -> f64 {
        let Share(beta) = self.settings.beta;
        let mut epoch = self.epoch(now, cwnd);
        let curve = |t: f64| {
            let d = t - epoch.k;
            self.settings.c * d * d * d + epoch.w_max
        };
        let t = now.since(epoch.start).as_secs();
        let (w_cubic, target) = (curve(t), curve(t + srtt.as_secs()).clamp(cwnd, 1.5 * cwnd));
        let alpha = if epoch.w_est >= self.state.cwnd_prior {
            1.0
        } else {
            3.0 * (1.0 - beta) / (1.0 + beta)
        };
        epoch.w_est += alpha * acked / cwnd;
        self.state.epoch = Some(epoch);
        if w_cubic < epoch.w_est {
            cwnd.max(epoch.w_est)
        } else {
            cwnd + (target - cwnd) / cwnd * acked
        }
    }

    /// The part of the time since the last ACK in which the window did not limit the sender; the
    /// curve excludes it (section 4.2).
    fn unlimited_time(&self, ack: &Ack) -> Duration {
        match self.last {
            Some(last) if !last.limited => ack.now.since(last.at),
            // Until the next segment was sent.
            Some(last) if last.idle => {
                (ack.now - ack.rtt.unwrap_or(ack.now.since(last.at))).since(last.at)
            }
            _ => Duration::ZERO,
        }
    }
}

#[window_rule]
impl WindowRule for CubicWindow {
    fn on_established(&mut self, _window: &mut Window, start: &Start) {
        self.kernel = (start.cubic == CubicForm::Linux)
            .then(|| Box::new(Kernel::new(&self.settings, start.now)));
    }

    fn on_any_ack(&mut self, window: &mut Window, ack: &Ack) {
        if let Some(kernel) = &mut self.kernel {
            return kernel.on_any_ack(window, ack);
        }
        if ack.bytes == 0 {
            return;
        }
        let unlimited = self.unlimited_time(ack);
        if let Some(epoch) = &mut self.state.epoch {
            epoch.start += unlimited;
        }
        self.last = Some(LastAck { at: ack.now, limited: false, idle: ack.flight == 0 });
        if let Some(hystart) = self.state.hystart.as_mut().filter(|_| window.slow_start()) {
            hystart.on_ack(window, ack);
        }
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        if let Some(kernel) = &mut self.kernel {
            return kernel.on_ack(window, ack);
        }
        // A profile may open the window although the application limits the sender; this curve must
        // not (section 4.6).
        if ack.flight + ack.bytes.max(ack.delivered) + u64::from(ack.mss) <= window.cwnd as u64 {
            return;
        }
        if let Some(last) = &mut self.last {
            last.limited = true;
        }
        let (mss, bytes) = (f64::from(ack.mss), ack.bytes as f64);
        if window.slow_start() {
            let growth = match &self.state.hystart {
                Some(hystart) => hystart.growth(ack),
                None if ack.by_bytes => bytes,
                None => mss.min(bytes),
            };
            window.cwnd = (window.cwnd + growth).min(window.ssthresh);
        } else {
            window.cwnd = mss
                * self.avoid(ack.now, ack.srtt.unwrap_or_default(), window.cwnd / mss, bytes / mss);
        }
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        if let Some(kernel) = &mut self.kernel {
            kernel.on_loss(window, loss);
            return LossClass::Unclassified;
        }
        let again = self.memory.as_ref().is_some_and(|m| {
            (m.seq, m.kind, loss.kind) == (loss.seq, LossKind::Timeout, LossKind::Timeout)
        });
        if again {
            // A repeated timeout of the same segment: ssthresh does not change (RFC 5681, section
            // 3.1), nor does the state for an undo.
            window.cwnd = loss.loss_window;
            return LossClass::Unclassified;
        }
        let (mss, Share(beta)) = (f64::from(loss.mss), self.settings.beta);
        let memory = Memory { state: self.state, seq: loss.seq, kind: loss.kind, mss };
        self.memory = Some(Box::new(memory));
        let cwnd = window.cwnd / mss;
        let state = &mut self.state;
        let converging = self.settings.fast_convergence && cwnd < state.w_max;
        state.w_max = if converging { cwnd * (1.0 + beta) / 2.0 } else { cwnd };
        state.cwnd_prior = cwnd;
        (state.epoch, state.hystart, state.at_plateau) =
            (None, None, loss.kind == LossKind::Timeout);
        let (before, left) = (window.cwnd, loss.base() * beta);
        limit_to(window, loss, left);
        if loss.kind == LossKind::Ecn && !loss.whole_segments {
            window.cwnd = left.clamp(mss, before.max(mss));
        }
        LossClass::Unclassified
    }

    fn on_undo(&mut self, window: &mut Window, before: &Window, _now: Time) {
        if self.kernel.is_some() {
            // Linux `tcp_reno_undo_cwnd`: a new epoch starts at the current window.
            window.cwnd = window.cwnd.max(before.cwnd);
            window.ssthresh = window.ssthresh.max(before.ssthresh);
            return;
        }
        // After that the window is larger than before the loss, and the newer state is the better
        // one (section 4.9.2).
        let Some(memory) =
            self.memory.take().filter(|m| window.cwnd < self.state.cwnd_prior * m.mss)
        else {
            return;
        };
        self.state = memory.state;
        window.cwnd = window.cwnd.max(before.cwnd);
        window.ssthresh = window.ssthresh.max(before.ssthresh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{MSS, ack, drive, loss, segments, steps, timeout, window};
    use lasthop_tcp::profile::HalvingBase;
    use proptest::prelude::*;

    fn rule() -> CubicWindow {
        CubicWindow::new(&Cubic { hystart: false, ..Cubic::default() })
    }

    fn ms(t: f64) -> Time {
        Time((t * 1e6) as u64)
    }

    /// An ACK of one segment at `t` ms with round-trip time `rtt` ms, to a sender that its window
    /// limits.
    fn see(rule: &mut CubicWindow, w: &mut Window, t: f64, rtt: u64) {
        let rtt = Duration::millis(rtt);
        let a = Ack { now: ms(t), srtt: Some(rtt), rtt: Some(rtt), flight: w.cwnd as u64, ..ack() };
        rule.on_any_ack(w, &a);
        rule.on_ack(w, &a);
    }

    /// After a loss at 100 segments the window is 70.
    fn after_loss() -> (CubicWindow, Window) {
        let (mut r, mut w) = (rule(), window(100.0, 50.0));
        r.on_loss(&mut w, &loss(100));
        (r, w)
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    /// beta applies once: not 49 % (twice) nor 59.5 % (with the factor of fast convergence).
    #[test]
    fn a_loss_leaves_seventy_per_cent_and_a_timeout_one_segment() {
        let (_, w) = after_loss();
        assert_eq!(segments(&w), (70.0, 70.0));
        let (mut r, mut w) = (rule(), window(100.0, 50.0));
        r.on_loss(&mut w, &timeout(100));
        assert_eq!(segments(&w), (1.0, 70.0));
        // The profile chooses what is reduced: here 40 segments were in flight.
        for (halving, left) in [(HalvingBase::FlightSize, 28.0), (HalvingBase::Window, 70.0)] {
            let (mut r, mut w) = (rule(), window(100.0, 50.0));
            r.on_loss(&mut w, &Loss { halving, window: 100.0 * MSS, ..loss(40) });
            assert_eq!(segments(&w), (left, left));
        }
    }

    /// An ECN echo may leave one segment, a loss leaves two (section 4.6).
    #[test]
    fn the_smallest_windows() {
        for (kind, cwnd) in
            [(LossKind::DuplicateAcks, 2.0), (LossKind::Ecn, 1.4), (LossKind::Timeout, 1.0)]
        {
            let (mut r, mut w) = (rule(), window(2.0, 50.0));
            r.on_loss(&mut w, &Loss { kind, ..loss(2) });
            assert_eq!(segments(&w), (cwnd, 2.0), "{kind:?}");
        }
    }

    /// K = cbrt((100 - 70) / 0.4) = cbrt(75) = 4.217163 s.
    #[test]
    fn the_curve_comes_back_to_the_window_of_the_loss_after_k_seconds() {
        let (mut r, mut w) = after_loss();
        see(&mut r, &mut w, 0.0, 100);
        let epoch = r.state.epoch.unwrap();
        assert!(near(epoch.k, 4.2171633265) && near(epoch.w_max, 100.0), "{epoch:?}");
    }

    /// alpha = 3 · 0.3 / 1.7 = 0.529412. At t = 0 the curve is at 70, the estimate for Reno at 70 +
    /// alpha / 70.
    #[test]
    fn reno_friendly_region() {
        let (mut r, mut w) = after_loss();
        see(&mut r, &mut w, 0.0, 10);
        assert!(near(segments(&w).0, 70.0 + 0.5294117647 / 70.0), "{w:?}");
        // The estimate has reached the window of the loss: from then on it grows like Reno, by a
        // segment per window.
        r.state.epoch.as_mut().unwrap().w_est = 100.0;
        w.cwnd = 100.0 * MSS;
        see(&mut r, &mut w, 10.0, 10);
        assert!(near(segments(&w).0, 100.01), "{w:?}");
    }

    /// After one second, with a round trip of 100 ms, the curve is at 86.6808 and will be at
    /// 87.8846.
    #[test]
    fn concave_region() {
        let (mut r, mut w) = after_loss();
        see(&mut r, &mut w, 0.0, 100);
        see(&mut r, &mut w, 1000.0, 100);
        // From 70.007563, what the first ACK made of 70.
        assert!(near(segments(&w).0, 70.2629213157), "{w:?}");
    }

    /// After six seconds the curve is at 102.2667 and will be at 102.6699.
    #[test]
    fn convex_region() {
        let (mut r, mut w) = after_loss();
        see(&mut r, &mut w, 0.0, 100);
        w.cwnd = 101.0 * MSS;
        see(&mut r, &mut w, 6000.0, 100);
        assert!(near(segments(&w).0, 101.0165338425), "{w:?}");
        // Growth is at most half a segment for each segment acknowledged.
        see(&mut r, &mut w, 60_000.0, 100);
        assert!(near(segments(&w).0, 101.5165338425), "{w:?}");
    }

    #[test]
    fn an_ack_of_two_segments_counts_twice() {
        let (mut r, mut w) = after_loss();
        see(&mut r, &mut w, 0.0, 100);
        let before = w.cwnd;
        let a = Ack {
            now: ms(1000.0),
            bytes: 2000,
            srtt: Some(Duration::millis(100)),
            flight: w.cwnd as u64,
            ..ack()
        };
        r.on_ack(&mut w, &a);
        assert!(near((w.cwnd - before) / MSS, 2.0 * (70.2629213157 - 70.0075630252)), "{w:?}");
    }

    /// Lost at 100, then at 80 before the window has reached Wmax: Wmax = 80 · 1.7 / 2 = 68, below
    /// 80.
    #[test]
    fn fast_convergence_gives_way_to_a_newcomer() {
        for (fast_convergence, w_max) in [(true, 68.0), (false, 80.0)] {
            let mut r = CubicWindow::new(&Cubic { fast_convergence, ..Cubic::default() });
            let mut w = window(100.0, 50.0);
            r.on_loss(&mut w, &loss(100));
            w.cwnd = 80.0 * MSS;
            r.on_loss(&mut w, &loss(80));
            assert!(
                near(r.state.w_max, w_max)
                    && near(r.state.cwnd_prior, 80.0)
                    && near(w.cwnd, 56.0 * MSS),
                "{r:?}"
            );
        }
    }

    /// After a timeout the curve starts at its plateau (section 4.8), and after a slow start
    /// without a loss as well (4.10).
    #[test]
    fn without_a_known_plateau_the_curve_starts_at_one() {
        let (mut r, mut w) = (rule(), window(100.0, 50.0));
        r.on_loss(&mut w, &timeout(100));
        w.cwnd = 70.0 * MSS;
        see(&mut r, &mut w, 5000.0, 100);
        let e = r.state.epoch.unwrap();
        assert_eq!((e.k, e.w_max, r.state.cwnd_prior), (0.0, 70.0, 100.0));
        let (mut r, mut w) = (rule(), window(40.0, 40.0));
        see(&mut r, &mut w, 5000.0, 100);
        let e = r.state.epoch.unwrap();
        assert_eq!((e.k, e.w_max, r.state.cwnd_prior), (0.0, 40.0, 40.0));
        assert!(near(segments(&w).0, 40.0 + 1.0 / 40.0), "like Reno at first: {w:?}");
    }

    /// A repeated timeout of the same segment: ssthresh does not change (RFC 5681, section 3.1).
    #[test]
    fn a_second_timeout_of_a_segment_reduces_no_further() {
        let (mut r, mut w) = (rule(), window(100.0, 50.0));
        r.on_loss(&mut w, &Loss { seq: 7000, ..timeout(100) });
        r.on_loss(&mut w, &Loss { seq: 7000, window: MSS, ..timeout(1) });
        assert_eq!((segments(&w), r.state.cwnd_prior), ((1.0, 70.0), 100.0));
        r.on_undo(&mut w, &window(100.0, 50.0), ms(1.0));
        assert_eq!(segments(&w), (100.0, 70.0));
    }

    /// Section 4.9: an undo restores state and window, unless the window is larger than before the
    /// loss.
    #[test]
    fn an_uncalled_for_reduction_is_undone_whole() {
        let (mut r, mut w) = after_loss();
        see(&mut r, &mut w, 0.0, 100);
        see(&mut r, &mut w, 1000.0, 100);
        let (state, before) = (r.state, w);
        r.on_loss(&mut w, &loss(70));
        assert!(r.state != state);
        r.on_undo(&mut w, &before, ms(1100.0));
        assert_eq!((r.state, w), (state, before));
        r.on_loss(&mut w, &loss(70));
        w.cwnd = 90.0 * MSS;
        let outgrown = r.state;
        r.on_undo(&mut w, &before, ms(9000.0));
        assert_eq!((r.state, segments(&w).0), (outgrown, 90.0));
    }

    /// Three seconds in which the application had nothing to send are excluded from the curve.
    #[test]
    fn time_that_the_application_wasted_does_not_count() {
        let (mut r, mut w) = after_loss();
        see(&mut r, &mut w, 0.0, 100);
        // Five segments in flight and seventy allowed: not limited.
        let few = Ack { now: ms(500.0), flight: 5000, rtt: Some(Duration::millis(100)), ..ack() };
        r.on_any_ack(&mut w, &few);
        r.on_ack(&mut w, &few);
        assert!(near(segments(&w).0, 70.0075630252), "the window does not open: {w:?}");
        see(&mut r, &mut w, 3500.0, 100);
        assert_eq!(r.state.epoch.unwrap().start, ms(3000.0));
        // This ACK left nothing in flight although the window had been full; sending resumed 100 ms
        // before the next ACK.
        r.on_any_ack(&mut w, &Ack { now: ms(4000.0), flight: 0, ..ack() });
        r.last.as_mut().unwrap().limited = true;
        see(&mut r, &mut w, 6100.0, 100);
        assert_eq!(r.state.epoch.unwrap().start, ms(5000.0));
    }

    #[test]
    fn slow_start_doubles_and_stops_at_ssthresh() {
        let (mut r, mut w) = (rule(), window(10.0, 12.5));
        for cwnd in [11.0, 12.0, 12.5] {
            see(&mut r, &mut w, 0.0, 100);
            assert_eq!(segments(&w).0, cwnd);
        }
        // With HyStart++ an ACK of three segments opens the window by three (RFC 9406, section
        // 4.2).
        let mut r = CubicWindow::new(&Cubic::default());
        let mut w = window(10.0, f64::INFINITY);
        r.on_ack(&mut w, &Ack { bytes: 3000, flight: 10_000, ..ack() });
        assert_eq!(segments(&w).0, 13.0);
    }

    #[test]
    fn settings_are_checked() {
        let check = |c, beta| Cubic { c, beta: Share(beta), ..Cubic::default() }.check();
        assert!(check(0.4, 0.7).is_ok());
        assert!(
            check(0.0, 0.7).unwrap_err().starts_with("c must") && check(f64::NAN, 0.7).is_err()
        );
        assert!(check(0.4, 1.0).unwrap_err().starts_with("beta must") && check(0.4, 0.0).is_err());
    }

    proptest! {
        #[test]
        fn any_course_keeps_a_sane_window(steps in steps(), hystart in any::<bool>()) {
            let settings = Cubic { hystart, ..Cubic::default() };
            drive(CubicWindow::new(&settings), settings.needs(), &steps);
        }
    }
}
