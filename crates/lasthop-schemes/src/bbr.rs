//! BBR version 1: paces at the measured delivery rate of the path, and keeps about two
//! bandwidth-delay products in flight.
//!
//! Source: Cardwell, Cheng, Gunn, Hassas Yeganeh and Jacobson, ACM Queue 14(5), 2016; for details
//! that the article does not give, Linux' `tcp_bbr.c`. Deployed at: the sender, which must pace; in
//! Linux, at Google and many content networks. Wire: nothing.
//!
//! The bandwidth is the largest delivery rate of ten round trips, the path's delay the smallest
//! round-trip time of ten seconds. Startup doubles the rate until three rounds have brought less
//! than 25 % more, Drain empties the queue that Startup built, ProbeBW paces at 1.25, 0.75 and six
//! times 1.0 of the bandwidth in turn, one phase per round trip. If no smaller round-trip time is
//! measured for ten seconds, ProbeRTT keeps four segments in flight for 200 ms. In the first round
//! of recovery the sender sends only what is delivered; a loss changes neither rate nor model. Two
//! intervals of at least four rounds with 20 % loss and the same rate indicate a policer, whose
//! rate is then used for 48 rounds.
//!
//! Assumes that the bandwidth changes slower than ten round trips, and that a standing queue is not
//! needed. Bad at: radio links whose rate falls quickly, aggregated ACKs, sharing shallow buffers
//! with others (high loss) and deep ones with other BBR flows.
//!
//! Linux draws the phase in which ProbeBW begins; here it is computed from the flow's number (or
//! from the seed, in runs that draw the starts of flows), so that a run can be repeated and flows
//! differ. Segments leave one at a time or in pairs (`tcp/pacing.rs`), so the allowance for three
//! bursts is smaller than that of a kernel with segmentation offload.

pub(super) mod model;
mod policer;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bbr::model::{
    Aggregation, Departure, FullPipe, PacingRate, PacketRounds, Stay, WindowedMax, ceil, larger,
    smaller,
};
use crate::bbr::policer::Policer;
use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::units::{Duration, Rate, Time};
use lasthop_tcp::rate::RateSample;
use lasthop_tcp::recovery::Recovery;
use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Lost, Needs, Start, Window, WindowRule, window_rule,
};

/// Settings of BBR.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Bbr {
    /// Loss recovery under the rule, such as "rack+prr+f-rto"; unset: the profile's, or Linux' if
    /// the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl SchemeConfig for Bbr {
    const ENTRY: Entry = Entry {
        name: "bbr",
        family: Family::EndToEnd,
        group: Some(Group::Today),
        summary: "paces at the measured bandwidth of the path and does not mind losses",
        paper: "Cardwell et al., ACM Queue 14(5), 2016; Linux' tcp_bbr.c",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &[
            "the bandwidth changes slower than ten round trips",
            "losses say little about congestion",
        ],
        ..Entry::DEFAULT
    };

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(BbrWindow::default()))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::LINUX))
    }

    fn needs(&self) -> Needs {
        Needs { rate_samples: true, ..Needs::default() }
    }
}

/// 2 / ln 2: the smallest gain with which the rate doubles in each round.
const HIGH_GAIN: f64 = 2.885;
const CWND_GAIN: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Rounds over which the maximum bandwidth is taken: one cycle and two.
const BANDWIDTH_ROUNDS: u64 = 10;
const MIN_RTT_AGE: Duration = Duration::secs(10);
/// Smallest cwnd, segments: with delayed ACKs two are in flight in each direction.
const MIN_SEGMENTS: f64 = 4.0;
/// Rounds in each half of the ACK aggregation filter, and the time that aggregation may add to
/// cwnd.
const AGGREGATION_ROUNDS: u64 = 5;
const AGGREGATION_TIME: f64 = 0.1;

/// State of BBR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Doubles the rate in each round.
    Startup,
    /// Drains the queue that Startup built.
    Drain,
    /// Cycles around the bandwidth; the value is the phase.
    ProbeBw(usize),
    /// Keeps few segments in flight to measure the round-trip time.
    ProbeRtt,
}

/// A loss episode, until everything sent before it is acknowledged.
#[derive(Clone, Copy, Debug)]
struct Episode {
    end: u64,
    timeout: bool,
    /// True until the first ACK of the episode.
    new: bool,
    /// True in its first round, unless a timeout began it: packet conservation.
    conserving: bool,
}

/// BBR's window rule. Volumes in bytes, rates in bytes per second.
#[derive(Clone, Debug)]
pub struct BbrWindow {
    mode: Mode,
    mss: f64,
    phase: usize,
    initial_cwnd: f64,
    pacing: PacingRate,
    paced_by_rtt: bool,
    rounds: PacketRounds,
    bandwidth: WindowedMax,
    policer: Policer,
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    stay: Stay,
    cycle_at: Time,
    full: FullPipe,
    prior_cwnd: f64,
    episode: Option<Episode>,
    idle_restart: bool,
    aggregation: Aggregation,
    excess: [f64; 2],
    excess_rounds: u64,
    departure: Departure,
    delivered: u64,
    in_flight: u64,
    /// Bytes that this ACK has found lost, and when; those that a timer finds are of no ACK (Linux
    /// `rs->losses`). Bytes lost in total.
    newly_lost: u64,
    lost_at: Time,
    lost: u64,
    /// Cached targets of cwnd and of the volume in flight, with the values from which they were
    /// computed; these seldom change between ACKs.
    window_target: (Option<Basis>, f64),
    cycle_target: (Option<Basis>, f64),
}

/// The values from which a target is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Basis {
    bandwidth: f64,
    gain: f64,
    excess: f64,
    rtt: Option<Duration>,
    quantum: f64,
    probing: bool,
}

impl BbrWindow {
    /// A rule for one flow.
    pub fn new() -> Self {
        BbrWindow {
            mode: Mode::Startup,
            mss: 0.0,
            phase: 0,
            initial_cwnd: 0.0,
            pacing: PacingRate::default(),
            paced_by_rtt: false,
            rounds: PacketRounds::default(),
            bandwidth: WindowedMax::default(),
            policer: Policer::default(),
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            stay: Stay::default(),
            cycle_at: Time::ZERO,
            full: FullPipe::default(),
            prior_cwnd: 0.0,
            episode: None,
            idle_restart: false,
            aggregation: Aggregation::new(Time::ZERO),
            excess: [0.0; 2],
            excess_rounds: 0,
            departure: Departure::default(),
            delivered: 0,
            in_flight: 0,
            newly_lost: 0,
            lost_at: Time::ZERO,
            lost: 0,
            window_target: (None, 0.0),
            cycle_target: (None, 0.0),
        }
    }

    /// The current state.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    fn bw(&self) -> f64 {
        self.policer.rate().unwrap_or(self.bandwidth.get())
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => 1.0 / HIGH_GAIN,
            Mode::ProbeBw(_) if self.policer.rate().is_some() => 1.0,
            Mode::ProbeBw(phase) => CYCLE[phase],
            Mode::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw(_) => CWND_GAIN,
            Mode::ProbeRtt => 1.0,
        }
    }

    fn basis(&self, bandwidth: f64, gain: f64, excess: f64) -> Basis {
        Basis {
            bandwidth,
            gain,
            excess,
            rtt: self.min_rtt,
            quantum: self.pacing.quantum(),
            probing: self.mode == Mode::ProbeBw(0),
        }
    }

    /// `gain` bandwidth-delay products in whole segments (the initial window while there is no
    /// round-trip time), plus an allowance for three bursts; an even number of segments, and two
    /// more in the probing phase.
    #[inline(never)]
    fn compute(&self, basis: &Basis) -> f64 {
        let bdp = match basis.rtt {
            Some(rtt) => ceil(basis.gain * basis.bandwidth * rtt.as_secs() / self.mss) * self.mss,
            None => self.initial_cwnd,
        };
        let segments = (bdp + basis.excess + 3.0 * basis.quantum) / self.mss;
        let even = ((segments as i64).saturating_add(1) & !1) as f64;
        self.mss * (even + if basis.probing { 2.0 } else { 0.0 })
    }

    /// Target of the volume in flight at this gain.
    fn target(&mut self, gain: f64) -> f64 {
        let basis = self.basis(self.bandwidth.get(), gain, 0.0);
        if self.cycle_target.0 != Some(basis) {
            self.cycle_target = (Some(basis), self.compute(&basis));
        }
        self.cycle_target.1
    }

    fn update_bandwidth(&mut self, ack: &Ack) {
        self.rounds.on_ack(ack.rate.as_ref());
        let Some(s) = &ack.rate else { return };
        if self.rounds.started {
            self.end_conservation();
        }
        self.sample_policer(ack.now, s.app_limited);
        if !s.app_limited || s.rate >= self.bandwidth.get() {
            self.bandwidth.update(self.rounds.count, BANDWIDTH_ROUNDS, s.rate);
        }
    }

    fn end_conservation(&mut self) {
        if let Some(e) = &mut self.episode {
            e.conserving = false;
        }
    }

    fn sample_policer(&mut self, now: Time, app_limited: bool) {
        let in_cycle = matches!(self.mode, Mode::ProbeBw(_));
        let losses = self.newly_lost > 0;
        if self.policer.sample(
            now,
            self.rounds.started,
            in_cycle,
            losses,
            app_limited,
            self.delivered,
            self.lost,
        ) {
            self.enter_probe_bw(now);
        }
    }

    fn update_aggregation(&mut self, ack: &Ack, cwnd: f64) {
        if ack.rate.is_none() || ack.delivered == 0 {
            return;
        }
        if self.rounds.started {
            self.excess_rounds += 1;
            if self.excess_rounds >= AGGREGATION_ROUNDS {
                self.excess_rounds = 0;
                self.excess = [0.0, self.excess[0]];
            }
        }
        let excess = self.aggregation.on_ack(ack.now, ack.delivered, self.bw(), cwnd);
        self.excess[0] = larger(self.excess[0], excess);
    }

    fn update_cycle(&mut self, now: Time, before: f64) {
        let Mode::ProbeBw(phase) = self.mode else { return };
        let whole = self.min_rtt.is_some_and(|rtt| now.since(self.cycle_at) > rtt);
        let gain = self.pacing_gain();
        let next = if gain > 1.0 {
            let in_flight = self.in_net(before, self.pacing.quantum(), now);
            whole && (self.newly_lost > 0 || in_flight >= self.target(gain))
        } else if gain < 1.0 {
            whole || self.in_net(before, 0.0, now) <= self.target(1.0)
        } else {
            whole
        };
        if next {
            (self.mode, self.cycle_at) = (Mode::ProbeBw((phase + 1) % CYCLE.len()), now);
        }
    }

    /// Bytes in the network when the next segment leaves.
    fn in_net(&self, in_flight: f64, leaving: f64, now: Time) -> f64 {
        self.departure.in_net(in_flight, leaving, self.bw(), self.mss, now)
    }

    fn enter_probe_bw(&mut self, now: Time) {
        // Not at 0.75: there is no queue to drain.
        let phase = if self.phase == 0 { 0 } else { CYCLE.len() - self.phase };
        (self.mode, self.cycle_at) = (Mode::ProbeBw(phase), now);
    }

    #[inline(never)]
    fn check_drain(&mut self, window: &mut Window, ack: &Ack) {
        if self.mode == Mode::Startup && self.full.ever {
            self.mode = Mode::Drain;
            window.ssthresh = self.target(1.0);
        }
        if self.mode == Mode::Drain
            && self.in_net(ack.flight as f64, 0.0, ack.now) <= self.target(1.0)
        {
            self.enter_probe_bw(ack.now);
        }
    }

    fn update_min_rtt(&mut self, window: &mut Window, ack: &Ack) {
        let now = ack.now;
        let expired = now > self.min_rtt_at + MIN_RTT_AGE;
        if let Some(rtt) = ack.rate.and_then(|s| s.rtt).or(ack.rtt)
            && (expired || self.min_rtt.is_none_or(|m| rtt < m))
        {
            (self.min_rtt, self.min_rtt_at) = (Some(rtt), now);
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            // In this order: a smaller cwnd than the saved one is not saved (`bbr_update_min_rtt`).
            (self.mode, self.stay) = (Mode::ProbeRtt, Stay::default());
            self.save_cwnd(window);
        }
        if self.mode == Mode::ProbeRtt {
            self.stay_in_probe_rtt(window, ack);
        }
        self.idle_restart &= ack.delivered == 0;
    }

    #[cold]
    #[inline(never)]
    fn stay_in_probe_rtt(&mut self, window: &mut Window, ack: &Ack) {
        let low = ack.flight as f64 <= MIN_SEGMENTS * self.mss;
        if self.stay.on_ack(ack.now, low, &mut self.rounds, self.delivered) {
            self.leave_probe_rtt(window, ack.now);
        }
    }

    fn leave_probe_rtt(&mut self, window: &mut Window, now: Time) {
        self.min_rtt_at = now;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        if self.full.ever {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// Saves cwnd, unless recovery or ProbeRTT has reduced it.
    fn save_cwnd(&mut self, window: &Window) {
        let good = self.episode.is_none() && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if good { window.cwnd } else { self.prior_cwnd.max(window.cwnd) };
    }

    fn set_pacing(&mut self, srtt: Option<Duration>, cwnd: f64) {
        if !self.paced_by_rtt && srtt.is_some() {
            self.paced_by_rtt = true;
            self.pacing.start(HIGH_GAIN, cwnd, srtt, self.mss);
        }
        let (gain, bw) = (self.pacing_gain(), self.bw());
        if self.full.ever { self.pacing.set(gain, bw) } else { self.pacing.raise(gain, bw) }
    }

    fn set_cwnd(&mut self, window: &mut Window, ack: &Ack) {
        let acked = ack.delivered as f64;
        if acked > 0.0 {
            let (cwnd, conserving) = self.recover_or_restore(window.cwnd, ack);
            window.cwnd = if conserving { cwnd } else { self.towards_target(cwnd, acked) };
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(MIN_SEGMENTS * self.mss);
        }
    }

    fn towards_target(&mut self, cwnd: f64, acked: f64) -> f64 {
        let bw = self.bw();
        let excess = if self.full.ever {
            smaller(larger(self.excess[0], self.excess[1]), bw * AGGREGATION_TIME)
        } else {
            0.0
        };
        let basis = self.basis(bw, self.cwnd_gain(), excess);
        if self.window_target.0 != Some(basis) {
            self.window_target = (Some(basis), self.compute(&basis));
        }
        let target = self.window_target.1;
        let cwnd = if self.full.ever {
            smaller(cwnd + acked, target)
        } else if cwnd < target || (self.delivered as f64) < self.initial_cwnd {
            cwnd + acked
        } else {
            cwnd
        };
        larger(cwnd, MIN_SEGMENTS * self.mss)
    }

    /// Packet conservation in the first round of recovery; at its end the saved window is restored.
    fn recover_or_restore(&mut self, cwnd: f64, ack: &Ack) -> (f64, bool) {
        let conserved = (ack.flight + ack.delivered) as f64;
        let mut cwnd = (cwnd - self.newly_lost as f64).max(self.mss);
        match &mut self.episode {
            None => return (cwnd, false),
            Some(e) if ack.snd_una >= e.end => {
                self.episode = None;
                return (cwnd.max(self.prior_cwnd), false);
            }
            Some(e) if e.new => {
                (e.new, e.conserving) = (false, !e.timeout);
                if e.conserving {
                    self.rounds.restart(self.delivered);
                    // With counts in whole segments it would be at least one.
                    cwnd = conserved.max(self.mss);
                }
            }
            Some(_) => {}
        }
        if self.episode.is_some_and(|e| e.conserving) {
            (cwnd.max(conserved), true)
        } else {
            (cwnd, false)
        }
    }

    fn take(&mut self, sample: Option<&RateSample>, ack: &Ack) {
        self.delivered = sample.map_or(self.delivered + ack.delivered, |s| s.total_delivered);
        self.in_flight = ack.flight;
    }
}

impl Default for BbrWindow {
    fn default() -> Self {
        BbrWindow::new()
    }
}

#[window_rule]
impl WindowRule for BbrWindow {
    fn on_established(&mut self, window: &mut Window, start: &Start) {
        self.mss = f64::from(start.mss);
        self.phase = (start.draw % 7) as usize;
        self.initial_cwnd = window.cwnd;
        (self.min_rtt, self.min_rtt_at) = (start.rtt, start.now);
        self.paced_by_rtt = start.rtt.is_some();
        self.pacing.start(HIGH_GAIN, window.cwnd, start.rtt, self.mss);
        self.aggregation = Aggregation::new(start.now);
    }

    fn on_ack(&mut self, _window: &mut Window, _ack: &Ack) {}

    // Apart from the other rules, whose code would lie between.
    #[inline(never)]
    fn on_any_ack(&mut self, window: &mut Window, ack: &Ack) {
        if self.lost_at != ack.now {
            self.newly_lost = 0;
        }
        let before = (ack.flight + ack.delivered + self.newly_lost) as f64;
        self.take(ack.rate.as_ref(), ack);
        self.update_bandwidth(ack);
        self.update_aggregation(ack, window.cwnd);
        self.update_cycle(ack.now, before);
        if self.rounds.started && !self.full.ever && ack.rate.is_some_and(|s| !s.app_limited) {
            self.full.check(self.bandwidth.get());
        }
        if matches!(self.mode, Mode::Startup | Mode::Drain) {
            self.check_drain(window, ack);
        }
        self.update_min_rtt(window, ack);
        self.set_pacing(ack.srtt, window.cwnd);
        self.set_cwnd(window, ack);
        self.newly_lost = 0;
    }

    fn on_lost(&mut self, _window: &mut Window, lost: &Lost) {
        let same = std::mem::replace(&mut self.lost_at, lost.now) == lost.now;
        self.newly_lost = lost.bytes + if same { self.newly_lost } else { 0 };
        self.lost += lost.bytes;
        self.in_flight = self.in_flight.saturating_sub(lost.bytes);
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        if loss.kind == LossKind::Ecn {
            return LossClass::Unclassified;
        }
        let timeout = loss.kind == LossKind::Timeout;
        let recovering = self.episode.filter(|e| !e.timeout);
        if !timeout || self.episode.is_none() {
            // A timeout within an episode saves nothing (`tcp_enter_loss`).
            self.save_cwnd(window);
        }
        if let Some(e) = recovering.filter(|_| !timeout) {
            // The ACK that ends a recovery begins another: for BBR it is the same
            // (`prev_ca_state`).
            self.episode = Some(Episode { end: loss.snd_max, ..e });
            return LossClass::Unclassified;
        }
        self.episode = Some(Episode { end: loss.snd_max, timeout, new: true, conserving: false });
        if timeout {
            // Until the next ACK: the volume in flight and one segment (`tcp_enter_loss`). RACK's
            // timer leaves cwnd as it is (`tcp_rack_reo_timeout`, for rules with `cong_control`).
            window.cwnd = window.cwnd.min(self.in_flight as f64 + self.mss);
            self.full.restart(0.0);
            self.rounds.started = true;
            self.sample_policer(loss.now, false);
        }
        LossClass::Unclassified
    }

    fn on_undo(&mut self, window: &mut Window, _before: &Window, _now: Time) {
        self.full.restart(0.0);
        (self.episode, self.policer) = (None, Policer::default());
        window.cwnd = window.cwnd.max(self.prior_cwnd);
    }

    fn on_sent(&mut self, window: &mut Window, now: Time, bytes: u32, flight: u64) {
        self.in_flight = flight;
        self.departure.on_sent(now, bytes, self.pacing.get(), self.mss);
        if flight > u64::from(bytes) || self.delivered == 0 {
            return;
        }
        // After an idle time the sender paces at the bandwidth.
        self.idle_restart = true;
        self.aggregation = Aggregation::new(now);
        match self.mode {
            Mode::ProbeBw(_) => self.pacing.set(1.0, self.bw()),
            Mode::ProbeRtt if self.stay.over(now) => self.leave_probe_rtt(window, now),
            _ => {}
        }
    }

    fn pacing(&self) -> Option<Rate> {
        Some(self.pacing.get())
    }

    /// Three (`bbr_sndbuf_expand`).
    fn send_buffer_windows(&self) -> u64 {
        3
    }

    fn is_app_limited_by_rule(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn steers_recovery(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
