//! CUBIC as Linux computes it (6.18, `net/ipv4/tcp_cubic.c`): whole segments and a clock of 4 ms.
//!
//! Differences from RFC 9438: W_est always grows with its first alpha (the RFC's becomes 1 beyond
//! the window of the loss), the curve is evaluated `delay_min` ahead instead of SRTT and at most
//! once a tick, every quotient is truncated, a timeout resets W_max, and an undo restores the
//! window but not the curve.

use super::hystart::HyStart;
use super::settings::Parameters;
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::window::{Ack, Loss, LossKind, Window};

/// Ticks of the clock in a second (CONFIG_HZ of most distributions) and nanoseconds of each
/// (`tcp_jiffies32`).
const HZ: u64 = 250;
const TICK: u64 = 1_000_000_000 / HZ;
/// Fractions of beta and of the clock of the curve: 1024 in one, or in a second
/// (`BICTCP_BETA_SCALE`, `BICTCP_HZ`).
const SCALE: u64 = 1024;

/// The constants that the module derives from its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Constants {
    /// beta in 1024ths (717).
    beta: u64,
    /// C in 1024ths of a segment per s³ (410).
    slope: u64,
    /// Eight times the windows to be acknowledged for each segment of W_est, 1/alpha (15).
    friendliness: u64,
    fast_convergence: bool,
}

/// An epoch of congestion avoidance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Epoch {
    /// Start, in ticks.
    start: u64,
    /// K in 1024ths of a second.
    k: u64,
    /// Inflection point of the curve, segments (`bic_origin_point`).
    origin: u64,
    /// W_est, segments (`tcp_cwnd`), and segments acknowledged towards the next one (`ack_cnt`).
    w_est: u64,
    acked: u64,
}

/// The last ACK: when the newest segment that it delivered had been sent, and whether nothing was
/// left in flight.
#[derive(Clone, Copy, Debug)]
struct LastAck {
    sent: Time,
    idle: bool,
}

/// State of a connection; windows in segments.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    constants: Constants,
    /// Segments to be acknowledged for one more of cwnd (`cnt`), and how many have been
    /// (`snd_cwnd_cnt`).
    per_segment: u64,
    count: u64,
    /// Window of the last loss, 0 if there was none (`last_max_cwnd`).
    w_max: u64,
    /// The window and the tick for which `per_segment` was computed.
    computed: (u64, u64),
    epoch: Option<Epoch>,
    /// Smallest round-trip time.
    delay_min: Option<Duration>,
    hystart: Option<HyStart>,
    last: Option<LastAck>,
    /// First segment of the last timeout.
    timeout_of: Option<u64>,
}

fn tick(now: Time) -> u64 {
    now.0 / TICK
}

/// The cube root, truncated. (The module's table and one step of Newton's method have an error of
/// 0.2 % on average.)
fn cube_root(a: u64) -> u64 {
    let mut root = libm::cbrt(a as f64) as u64;
    while u128::from(root).pow(3) > u128::from(a) {
        root -= 1;
    }
    while u128::from(root + 1).pow(3) <= u128::from(a) {
        root += 1;
    }
    root
}

/// The largest cwnd in segments: the kernel's `snd_cwnd` has 32 bits.
const MAX_CWND: u64 = u32::MAX as u64;

/// cwnd in whole segments.
fn segments(bytes: f64, mss: f64) -> u64 {
    ((bytes / mss + 1e-9) as u64).clamp(1, MAX_CWND)
}

impl Kernel {
    /// At the start of a connection.
    pub(super) fn new(settings: &Parameters, now: Time) -> Self {
        let beta = libm::round(settings.beta.0 * SCALE as f64) as u64;
        let slope = 10 * (libm::round(settings.c * SCALE as f64 / 10.0) as u64).max(1);
        let friendliness = 8 * (SCALE + beta) / 3 / (SCALE - beta).max(1);
        Kernel {
            constants: Constants {
                beta,
                slope,
                friendliness,
                fast_convergence: settings.fast_convergence,
            },
            per_segment: 0,
            count: 0,
            w_max: 0,
            computed: (0, 0),
            epoch: None,
            delay_min: None,
            hystart: settings.hystart.then(|| HyStart::new(now)),
            last: None,
            timeout_of: None,
        }
    }

    /// Each ACK: the smallest round-trip time, HyStart, and the time in which nothing was sent
    /// (`cubictcp_acked`, `cubictcp_cwnd_event`).
    pub(super) fn on_any_ack(&mut self, window: &mut Window, ack: &Ack) {
        if ack.delivered == 0 {
            return;
        }
        self.skip_idle_time(ack);
        // Outside of slow start only the smallest round-trip time matters.
        let is_smallest = || ack.rtt < self.delay_min || self.delay_min.is_none();
        if !window.slow_start() && !is_smallest() {
            return;
        }
        // Right after a reduction the queue has not drained.
        let recent = self.epoch.is_some_and(|e| tick(ack.now) < e.start + HZ);
        let Some(rtt) = ack.rtt.filter(|_| !recent) else { return };
        let delay = self.delay_min.map_or(rtt, |d| d.min(rtt)).max(Duration::micros(1));
        self.delay_min = Some(delay);
        if let Some(hystart) = self.hystart.as_mut().filter(|_| window.slow_start()) {
            hystart.on_ack(window, ack, rtt, delay);
        }
    }

    /// Sending after nothing was in flight postpones the epoch by the time since the segment
    /// before.
    fn skip_idle_time(&mut self, ack: &Ack) {
        let sent = ack.now - ack.rtt.unwrap_or_default();
        if let (Some(last), Some(epoch)) =
            (self.last.filter(|l| l.idle && sent > l.sent), &mut self.epoch)
        {
            epoch.start = (epoch.start + tick(sent) - tick(last.sent)).min(tick(ack.now));
        }
        self.last = Some(LastAck { sent, idle: ack.flight == 0 });
    }

    /// An ACK that opens the window (`cubictcp_cong_avoid`).
    pub(super) fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        let mss = f64::from(ack.mss);
        let mut acked = ack.bytes.div_ceil(u64::from(ack.mss)).min(MAX_CWND);
        let mut cwnd = segments(window.cwnd, mss);
        if window.slow_start() {
            let room = libm::ceil(window.ssthresh / mss - cwnd as f64);
            let below = acked.min(room as u64);
            (cwnd, acked) = (cwnd + below, acked - below);
        }
        if acked > 0 {
            self.update(tick(ack.now), cwnd, acked);
            cwnd += self.steps(acked);
        }
        window.cwnd = cwnd.min(MAX_CWND) as f64 * mss;
    }

    /// Segments by which the window opens (`tcp_cong_avoid_ai`).
    fn steps(&mut self, acked: u64) -> u64 {
        let mut steps = 0;
        if self.count >= self.per_segment {
            (self.count, steps) = (0, 1);
        }
        self.count += acked;
        steps += self.count / self.per_segment;
        self.count %= self.per_segment;
        steps
    }

    /// Computes the number of segments to be acknowledged for one more of cwnd (`bictcp_update`).
    fn update(&mut self, now: u64, cwnd: u64, acked: u64) {
        if let Some(epoch) = &mut self.epoch {
            epoch.acked += acked;
        }
        if self.computed.0 == cwnd && now - self.computed.1 <= HZ / 32 {
            return;
        }
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(now, cwnd, acked));
        if self.epoch.is_none() || now != self.computed.1 {
            self.computed = (cwnd, now);
            self.per_segment = self.by_the_curve(&epoch, now, cwnd);
        }
        let enough = (cwnd * self.constants.friendliness) >> 3;
        let steps = epoch.acked.saturating_sub(enough).div_ceil(enough.max(1));
        epoch.acked -= steps * enough.max(1);
        epoch.w_est = (epoch.w_est + steps).min(MAX_CWND);
        if epoch.w_est > cwnd {
            self.per_segment = self.per_segment.min(cwnd / (epoch.w_est - cwnd));
        }
        // At most half a segment for each one acknowledged.
        self.per_segment = self.per_segment.max(2);
        self.epoch = Some(epoch);
    }

    fn begin(&self, now: u64, cwnd: u64, acked: u64) -> Epoch {
        let (k, origin) = match self.w_max.checked_sub(cwnd).filter(|&d| d > 0) {
            None => (0, cwnd),
            Some(distance) => {
                // Only with a C far below the module's does the product need more than 64 bits.
                let cube = ((1u64 << 40) / self.constants.slope).saturating_mul(distance);
                (cube_root(cube), self.w_max)
            }
        };
        Epoch { start: now, k, origin, w_est: cwnd, acked }
    }

    /// By the curve alone, evaluated one smallest round-trip time ahead.
    fn by_the_curve(&self, epoch: &Epoch, now: u64, cwnd: u64) -> u64 {
        let ahead = self.delay_min.map_or(0, |d| d.0.div_ceil(TICK));
        let t = (now.saturating_sub(epoch.start) + ahead) * SCALE / HZ;
        let distance = u128::from(t.abs_diff(epoch.k));
        let cube = distance.saturating_pow(3).saturating_mul(u128::from(self.constants.slope));
        let delta = u64::try_from(cube >> 40).unwrap_or(u64::MAX);
        let target = if t < epoch.k {
            epoch.origin.saturating_sub(delta)
        } else {
            epoch.origin.saturating_add(delta)
        };
        let per_segment = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        // Before the first loss the curve would grow too slowly: 5 % per round trip.
        if self.w_max == 0 { per_segment.min(20) } else { per_segment }
    }

    /// A reduction (`cubictcp_recalc_ssthresh`; after a timeout `cubictcp_state` too).
    pub(super) fn on_loss(&mut self, window: &mut Window, loss: &Loss) {
        let timeout = loss.kind == LossKind::Timeout;
        if timeout && self.timeout_of == Some(loss.seq) {
            window.cwnd = loss.loss_window;
            return;
        }
        let (mss, cwnd) = (f64::from(loss.mss), segments(loss.base(), f64::from(loss.mss)));
        let Constants { beta, fast_convergence, .. } = self.constants;
        self.w_max = if fast_convergence && cwnd < self.w_max {
            cwnd * (SCALE + beta) / (2 * SCALE)
        } else {
            cwnd
        };
        (self.epoch, self.count) = (None, 0);
        window.ssthresh = (cwnd * beta / SCALE).max(2) as f64 * mss;
        window.cwnd =
            if timeout { loss.loss_window } else { window.ssthresh.min(cwnd as f64 * mss) };
        self.timeout_of = timeout.then_some(loss.seq);
        if timeout {
            (self.w_max, self.per_segment, self.computed, self.delay_min) = (0, 0, (0, 0), None);
            if let Some(hystart) = &mut self.hystart {
                hystart.restart(loss.now, loss.snd_max);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cubic::settings::Cubic;
    use crate::testing::harness::{MSS, ack, loss, segments, timeout, window};
    use lasthop_tcp::profile::HalvingBase;
    use proptest::prelude::*;

    fn kernel() -> Kernel {
        let settings = Cubic { hystart: false, ..Cubic::default() };
        Kernel::new(&Parameters::from(&settings), Time::ZERO)
    }

    fn lost(segments: u64) -> Loss {
        Loss { halving: HalvingBase::Cwnd, window: segments as f64 * MSS, ..loss(segments) }
    }

    /// `n` ACKs of a segment each at `ms`.
    fn acks(k: &mut Kernel, w: &mut Window, ms: u64, n: u64) {
        for _ in 0..n {
            let a = Ack {
                now: Time(ms * 1_000_000),
                rtt: Some(Duration::millis(40)),
                flight: 1000,
                ..ack()
            };
            k.on_any_ack(w, &a);
            k.on_ack(w, &a);
        }
    }

    #[test]
    fn constants_are_those_of_the_module() {
        let expected =
            Constants { beta: 717, slope: 410, friendliness: 15, fast_convergence: true };
        assert_eq!(kernel().constants, expected);
    }

    /// 717/1024 of 11 segments are 7.7, and at least two are left.
    #[test]
    fn a_reduction_cuts_off_to_whole_segments() {
        for (before, after) in [(11, 7), (10, 7), (9, 6), (3, 2), (2, 2)] {
            let (mut k, mut w) = (kernel(), window(before as f64, 50.0));
            k.on_loss(&mut w, &lost(before));
            assert_eq!(segments(&w), (after as f64, after as f64), "{before}");
        }
    }

    /// Lost at 11, then at 9: 9 · 1741 / 2048 = 7.65.
    #[test]
    fn fast_convergence_cuts_off_too() {
        let (mut k, mut w) = (kernel(), window(11.0, 50.0));
        k.on_loss(&mut w, &lost(11));
        k.on_loss(&mut w, &lost(9));
        assert_eq!(k.w_max, 7);
    }

    /// Below 20 segments W_est decides: it grows by one for more than 10 · 15 / 8 = 18 acknowledged
    /// segments, the window being 10.
    #[test]
    fn the_reno_friendly_estimate_counts_segments() {
        let (mut k, mut w) = (kernel(), window(10.0, 10.0));
        k.w_max = 10;
        acks(&mut k, &mut w, 1000, 19);
        assert_eq!((k.epoch.map(|e| e.w_est), segments(&w).0), (Some(10), 10.0));
        acks(&mut k, &mut w, 1036, 5);
        assert_eq!(k.epoch.map(|e| e.w_est), Some(11));
        assert_eq!(segments(&w).0, 11.0, "one for ten acknowledged since W_est is ahead: {k:?}");
    }

    /// K: cube root of 2^40 / 410 · 30 is 4316, in 1024ths of a second; for a loss at 100 segments
    /// that left 70.
    #[test]
    fn the_curve_turns_at_the_window_of_the_loss() {
        let (mut k, mut w) = (kernel(), window(100.0, 100.0));
        k.on_loss(&mut w, &lost(100));
        w.cwnd = 70.0 * MSS;
        acks(&mut k, &mut w, 0, 1);
        let e = k.epoch.unwrap();
        assert_eq!((e.k, e.origin, e.w_est), (4316, 100, 70));
        assert_eq!(cube_root(27), 3);
        assert_eq!(cube_root(26), 2);
        assert_eq!(cube_root(u64::MAX), 2_642_245);
    }

    /// With an idle time of one round-trip time between two segments, the curve has not advanced.
    #[test]
    fn idle_time_is_none_of_the_curve() {
        let (mut k, mut w) = (kernel(), window(100.0, 100.0));
        k.on_loss(&mut w, &lost(100));
        w.cwnd = 70.0 * MSS;
        acks(&mut k, &mut w, 0, 1);
        let a = |ms: u64, flight| Ack {
            now: Time(ms * 1_000_000),
            rtt: Some(Duration::millis(40)),
            flight,
            ..ack()
        };
        k.on_any_ack(&mut w, &a(80, 0));
        k.on_any_ack(&mut w, &a(4120, 5000));
        assert_eq!(k.epoch.unwrap().start, 1010, "sent at 40 and at 4080 ms");
    }

    /// A timeout resets W_max; a repeated one of the same segment does not change ssthresh.
    #[test]
    fn a_timeout_resets_w_max() {
        let (mut k, mut w) = (kernel(), window(10.0, 50.0));
        let cut = Loss { halving: HalvingBase::Cwnd, seq: 3000, ..timeout(10) };
        k.on_loss(&mut w, &cut);
        assert_eq!((segments(&w), k.w_max, k.delay_min), ((1.0, 7.0), 0, None));
        k.on_loss(&mut w, &Loss { window: MSS, ..cut });
        assert_eq!(segments(&w), (1.0, 7.0));
    }

    proptest! {
        /// Whole segments always, and at most half a segment for each one acknowledged above
        /// ssthresh.
        #[test]
        fn growth_is_bounded(
            steps in prop::collection::vec((0u64..400, 1u64..9, 0u64..12), 1..300),
        ) {
            let (mut k, mut w, mut now) = (kernel(), window(10.0, 10.0), 0);
            for (ms, n, what) in steps {
                now += ms;
                let before = w;
                if what == 0 {
                    let cut = lost((w.cwnd / MSS) as u64);
                    k.on_loss(&mut w, &cut);
                    prop_assert!(w.cwnd <= before.cwnd);
                } else {
                    let a = Ack {
                        now: Time(now * 1_000_000),
                        bytes: 1000 * n,
                        delivered: 1000 * n,
                        rtt: Some(Duration::millis(ms)),
                        ..ack()
                    };
                    k.on_any_ack(&mut w, &a);
                    k.on_ack(&mut w, &a);
                    prop_assert!(w.cwnd - before.cwnd <= MSS * (n as f64 / 2.0 + 2.0));
                }
                prop_assert_eq!(w.cwnd % MSS, 0.0);
            }
        }
    }
}
