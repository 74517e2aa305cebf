//! BBR version 3: BBR that takes much loss for a sign of too much in flight, and probes less often.
//!
//! Source: draft-ietf-ccwg-bbr (revisions 00 to 04, which the published Linux and QUIC implementations follow). Deployed at: the
//! sender, which must pace; at Google. Wire: nothing.
//!
//! The model is version 1's, bandwidth and smallest round-trip time, with two bounds on top. The long-term one is what was in
//! flight when probing lost more than 2 % (`inflight_hi`); the short-term ones (`bw_lo`, `inflight_lo`) follow what is delivered
//! in a round with any loss, by at most 30 % each, and are forgotten before the next probe. Probing goes Down (0.9 of the
//! bandwidth, until the queue is drained) → Cruise (1.0, for 2 to 3 s, or as long as Reno would need) → Refill (1.0 without the
//! short-term bounds, one round) → Up (1.25, until the bandwidth stops growing or losses come). ProbeRTT halves what is in
//! flight every 5 s for 200 ms.
//!
//! Assumes that up to 2 % of loss is noise. Bad at: random loss above that (in Cruise the rate falls round by round to what is
//! delivered, and each probe ends early), rates that change faster than it probes.
//!
//! The draft draws at random how long to cruise; here the draws follow from the flow's number. ECN is answered as one lost
//! segment is, since the draft leaves it open.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::random::Stream;
use crate::schemes::catalogue::{AnyWindow, Changes, Entry, Family, Group, RecoverySlot, SchemeConfig};
use crate::schemes::end_to_end::bbr_model::{Aggregation, PacingRate, PacketRounds, WindowedMax};
use crate::tcp::rate::RateSample;
use crate::tcp::recovery::Recovery;
use crate::tcp::window::{Ack, Loss, LossKind, Lost, Needs, Said, Start, Window, WindowRule};
use crate::units::{Duration, Rate, Share, Time};

/// Settings of BBR version 3.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Bbr3 {
    /// Loss of a round trip above which there was too much in flight (2 %).
    pub loss_threshold: Share,
    /// What a round with loss leaves of the short-term bounds at least (0.7).
    pub beta: Share,
    /// Share of the long-term bound that is left to others between probes (0.15).
    pub headroom: Share,
    /// Pacing gain in Drain (0.35 in the implementations; later revisions of the draft have 0.5).
    pub drain_gain: f64,
    /// Time between two ProbeRTTs (5 s; later revisions of the draft have 10 s).
    pub probe_rtt_interval: Duration,
    /// Loss recovery under the rule, such as "rack+prr+f-rto"; unset: the profile's, or where that has none Linux'.
    pub recovery: Option<Recovery>,
}

impl Default for Bbr3 {
    fn default() -> Self {
        Bbr3 {
            loss_threshold: Share(0.02),
            beta: Share(0.7),
            headroom: Share(0.15),
            drain_gain: 0.35,
            probe_rtt_interval: Duration::secs(5),
            recovery: None,
        }
    }
}

impl SchemeConfig for Bbr3 {
    const ENTRY: Entry = Entry {
        name: "bbr3",
        family: Family::EndToEnd,
        group: Some(Group::Today),
        summary: "BBR that keeps below what lost more than 2 % and probes more rarely",
        paper: "draft-ietf-ccwg-bbr",
        changes: Changes { sender: true, ..Changes::NOTHING },
        assumptions: &["losses above 2 % mean congestion", "the bandwidth changes slower than in seconds"],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        for (name, Share(share)) in [("loss_threshold", self.loss_threshold), ("beta", self.beta), ("headroom", self.headroom)] {
            if !(0.0..1.0).contains(&share) {
                return Err(format!("{name} must be below 100 %, found {share}"));
            }
        }
        if !(self.drain_gain > 0.0 && self.drain_gain < 1.0) {
            return Err(format!("drain_gain must be between 0 and 1, found {}", self.drain_gain));
        }
        if self.probe_rtt_interval < Duration::secs(1) {
            return Err(format!("probe_rtt_interval must be at least 1 s, found {}", self.probe_rtt_interval));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::Bbr3(Box::new(Bbr3Window::new(self))))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::LINUX))
    }

    fn needs(&self) -> Needs {
        Needs { rate_samples: true, every_ack: true, every_send: true, pacing: true, ..Needs::default() }
    }
}

const STARTUP_GAIN: f64 = 2.77;
const CWND_GAIN: f64 = 2.0;
const UP_CWND_GAIN: f64 = 2.25;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
const MIN_RTT_AGE: Duration = Duration::secs(10);
const PROBE_RTT_TIME: Duration = Duration::millis(200);
const MIN_SEGMENTS: f64 = 4.0;
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Lost ranges in a round that end Startup, if the loss is high.
const STARTUP_LOSSES: u32 = 6;
const DRAIN_ROUNDS: u64 = 3;
/// Rounds after which Reno would have had its turn.
const RENO_ROUNDS: f64 = 63.0;
const AGGREGATION_ROUNDS: u64 = 10;

/// Where BBR stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Doubles the rate in each round.
    Startup,
    /// Empties the queue that this made.
    Drain,
    /// ProbeBW: slower than the path.
    Down,
    /// ProbeBW: as fast as the path.
    Cruise,
    /// ProbeBW: fills the pipe for the probe.
    Refill,
    /// ProbeBW: faster than the path.
    Up,
    /// Keeps half a pipe in flight to see the round-trip time.
    ProbeRtt,
}

/// What the ACKs that come in tell of (draft, `ack_phase`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feedback {
    None,
    Refilling,
    Starting,
    Probing,
    Stopping,
}

/// What a spurious recovery brings back.
#[derive(Clone, Copy, Debug)]
struct Undo {
    from: Option<Mode>,
    bw_lo: f64,
    inflight_lo: f64,
    inflight_hi: f64,
}

/// BBR version 3's window rule. Volumes in bytes, rates in bytes per second; names as in the draft.
#[derive(Clone, Debug)]
pub struct Bbr3Window {
    settings: Bbr3,
    mode: Mode,
    mss: f64,
    sack: bool,
    draws: Stream,
    drawn: u64,
    initial_cwnd: f64,
    pacing: PacingRate,
    rounds: PacketRounds,
    /// The largest delivery rates of the cycle before and of this one.
    max_bw: [f64; 2],
    bw: f64,
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    probe_rtt_min: Option<Duration>,
    probe_rtt_min_at: Time,
    probe_rtt_expired: bool,
    probe_rtt_end: Option<Time>,
    probe_rtt_round: bool,
    full_bw: f64,
    full_bw_count: u32,
    full_bw_now: bool,
    full_bw_reached: bool,
    drain_round: u64,
    bw_lo: f64,
    inflight_lo: f64,
    inflight_hi: f64,
    bw_latest: f64,
    inflight_latest: f64,
    loss_in_round: bool,
    loss_round_delivered: u64,
    loss_round_start: bool,
    loss_ranges: u32,
    last_lost_end: u64,
    feedback: Feedback,
    probe_samples: bool,
    probe_wait: Duration,
    cycle_at: Time,
    rounds_since_probe: u64,
    up_rounds: u32,
    up_acked: f64,
    up_per_increase: f64,
    prior_cwnd: f64,
    /// The end of the loss episode, and the round in which it began.
    episode: Option<(u64, u64)>,
    undo: Undo,
    idle_restart: bool,
    aggregation: Aggregation,
    excess: WindowedMax,
    limited_round: Option<u64>,
    delivered: u64,
    in_flight: u64,
}

impl Bbr3Window {
    /// A rule with these settings.
    pub fn new(settings: &Bbr3) -> Self {
        Bbr3Window {
            settings: settings.clone(),
            mode: Mode::Startup,
            mss: 0.0,
            sack: true,
            draws: Stream::new(0, "bbr3 probe wait"),
            drawn: 0,
            initial_cwnd: 0.0,
            pacing: PacingRate::default(),
            rounds: PacketRounds::default(),
            max_bw: [0.0; 2],
            bw: 0.0,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probe_rtt_min: None,
            probe_rtt_min_at: Time::ZERO,
            probe_rtt_expired: false,
            probe_rtt_end: None,
            probe_rtt_round: false,
            full_bw: 0.0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            drain_round: 0,
            bw_lo: f64::INFINITY,
            inflight_lo: f64::INFINITY,
            inflight_hi: f64::INFINITY,
            bw_latest: 0.0,
            inflight_latest: 0.0,
            loss_in_round: false,
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_ranges: 0,
            last_lost_end: 0,
            feedback: Feedback::None,
            probe_samples: false,
            probe_wait: Duration::ZERO,
            cycle_at: Time::ZERO,
            rounds_since_probe: 0,
            up_rounds: 0,
            up_acked: 0.0,
            up_per_increase: f64::INFINITY,
            prior_cwnd: 0.0,
            episode: None,
            undo: Undo { from: None, bw_lo: f64::INFINITY, inflight_lo: f64::INFINITY, inflight_hi: f64::INFINITY },
            idle_restart: false,
            aggregation: Aggregation::new(Time::ZERO),
            excess: WindowedMax::default(),
            limited_round: None,
            delivered: 0,
            in_flight: 0,
        }
    }

    /// Where it stands.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    fn max_bw(&self) -> f64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => STARTUP_GAIN,
            Mode::Drain => self.settings.drain_gain,
            Mode::Down => 0.9,
            Mode::Up => 1.25,
            Mode::Cruise | Mode::Refill | Mode::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.mode {
            Mode::Up => UP_CWND_GAIN,
            Mode::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => CWND_GAIN,
        }
    }

    fn probing_bw(&self) -> bool {
        matches!(self.mode, Mode::Down | Mode::Cruise | Mode::Refill | Mode::Up)
    }

    fn bdp(&self, bandwidth: f64, gain: f64) -> f64 {
        self.min_rtt.map_or(self.initial_cwnd, |rtt| gain * bandwidth * rtt.as_secs())
    }

    /// Room for three bursts and for delayed ACKs, and two segments more where the rate is probed.
    fn with_bursts(&self, bytes: f64) -> f64 {
        let least = self.mss * MIN_SEGMENTS.max(3.0 * self.pacing.quantum());
        bytes.max(least) + if self.mode == Mode::Up { 2.0 * self.mss } else { 0.0 }
    }

    fn inflight(&self, bandwidth: f64, gain: f64) -> f64 {
        self.with_bursts(self.bdp(bandwidth, gain))
    }

    fn inflight_with_headroom(&self) -> f64 {
        let headroom = self.mss.max(self.settings.headroom.0 * self.inflight_hi);
        if self.inflight_hi.is_finite() { (self.inflight_hi - headroom).max(MIN_SEGMENTS * self.mss) } else { f64::INFINITY }
    }

    fn target_inflight(&self, cwnd: f64) -> f64 {
        self.bdp(self.bw, 1.0).min(cwnd)
    }

    fn cwnd_limited(&self) -> bool {
        self.limited_round.is_some_and(|r| r + 1 >= self.rounds.count)
    }

    fn too_high(&self, lost: u64, tx_in_flight: u64) -> bool {
        lost as f64 > tx_in_flight as f64 * self.settings.loss_threshold.0 || (lost > 0 && !self.sack)
    }

    // Measuring: draft, "Updating the Model".

    fn update_latest(&mut self, sample: Option<&RateSample>) {
        self.loss_round_start = false;
        let Some(s) = sample else { return };
        self.bw_latest = self.bw_latest.max(s.rate);
        self.inflight_latest = self.inflight_latest.max(s.delivered as f64);
        if s.prior_delivered >= self.loss_round_delivered {
            (self.loss_round_delivered, self.loss_round_start) = (self.delivered, true);
        }
    }

    fn update_max_bw(&mut self, sample: Option<&RateSample>) {
        self.rounds.on_ack(sample);
        self.rounds_since_probe += u64::from(self.rounds.started);
        if let Some(s) = sample.filter(|s| !s.app_limited || s.rate >= self.max_bw()) {
            self.max_bw[1] = self.max_bw[1].max(s.rate);
        }
    }

    /// Once a round, if something was lost in it: the short-term bounds come down to what is delivered.
    fn adapt_lower_bounds(&mut self, cwnd: f64) {
        if !self.loss_round_start {
            return;
        }
        let probing = matches!(self.mode, Mode::Startup | Mode::Refill | Mode::Up);
        if self.loss_in_round && !probing {
            let Share(beta) = self.settings.beta;
            let bw_lo = if self.bw_lo.is_finite() { self.bw_lo } else { self.max_bw() };
            let inflight_lo = if self.inflight_lo.is_finite() { self.inflight_lo } else { cwnd };
            self.bw_lo = self.bw_latest.max(beta * bw_lo);
            self.inflight_lo = self.inflight_latest.max(beta * inflight_lo);
        }
    }

    fn reset_short_term(&mut self) {
        (self.bw_lo, self.inflight_lo) = (f64::INFINITY, f64::INFINITY);
    }

    fn reset_congestion(&mut self) {
        (self.loss_in_round, self.bw_latest, self.inflight_latest) = (false, 0.0, 0.0);
    }

    fn update_aggregation(&mut self, ack: &Ack, cwnd: f64) {
        let excess = self.aggregation.on_ack(ack.now, ack.delivered, self.bw, cwnd);
        let rounds = if self.full_bw_reached { AGGREGATION_ROUNDS } else { 1 };
        self.excess.update(self.rounds.count, rounds, excess);
    }

    // Startup and Drain.

    fn reset_full_bw(&mut self, rate: f64) {
        (self.full_bw, self.full_bw_count, self.full_bw_now) = (rate, 0, false);
    }

    fn check_full_bw(&mut self, sample: Option<&RateSample>) {
        let Some(s) = sample.filter(|s| !s.app_limited && self.rounds.started && !self.full_bw_now) else { return };
        if s.rate >= FULL_GROWTH * self.full_bw {
            return self.reset_full_bw(s.rate);
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= FULL_ROUNDS;
        self.full_bw_reached |= self.full_bw_now;
    }

    fn check_startup(&mut self, sample: Option<&RateSample>) {
        if self.mode != Mode::Startup {
            return;
        }
        let round_in_recovery = self.episode.is_some_and(|(_, began)| self.rounds.count > began);
        let enough = if self.sack { self.loss_round_start && round_in_recovery && self.loss_ranges >= STARTUP_LOSSES } else { self.loss_in_round };
        if enough && sample.is_some_and(|s| self.too_high(s.lost, s.tx_in_flight)) {
            self.undo.from = Some(Mode::Startup);
            self.full_bw_reached = true;
            self.inflight_hi = self.bdp(self.bw, 1.0).max(self.inflight_latest);
        }
        if self.full_bw_reached {
            (self.mode, self.drain_round) = (Mode::Drain, self.rounds.count);
        }
    }

    fn check_drain(&mut self, now: Time) {
        let drained = self.in_flight as f64 <= self.inflight(self.bw, 1.0) || self.rounds.count > self.drain_round + DRAIN_ROUNDS;
        if self.mode == Mode::Drain && drained {
            self.start_down(now);
        }
    }

    // ProbeBW.

    fn start_down(&mut self, now: Time) {
        self.reset_congestion();
        self.up_per_increase = f64::INFINITY;
        self.rounds_since_probe = self.draws.bits(2 * self.drawn) & 1;
        self.probe_wait = Duration::secs(2) + Duration::from_secs_f64(self.draws.uniform(2 * self.drawn + 1));
        self.drawn += 1;
        (self.cycle_at, self.feedback, self.mode) = (now, Feedback::Stopping, Mode::Down);
        self.rounds.restart(self.delivered);
    }

    fn start_refill(&mut self) {
        self.reset_short_term();
        (self.up_rounds, self.up_acked) = (0, 0.0);
        (self.feedback, self.mode) = (Feedback::Refilling, Mode::Refill);
        self.rounds.restart(self.delivered);
    }

    fn start_up(&mut self, sample: Option<&RateSample>, cwnd: f64) {
        (self.feedback, self.mode) = (Feedback::Starting, Mode::Up);
        self.rounds.restart(self.delivered);
        self.reset_full_bw(sample.map_or(0.0, |s| s.rate));
        self.raise_slope(cwnd);
    }

    fn update_cycle(&mut self, now: Time, ack: &Ack, cwnd: f64) {
        let sample = ack.rate.as_ref();
        if !self.full_bw_reached {
            return;
        }
        self.adapt_upper_bounds(now, ack, cwnd);
        match self.mode {
            Mode::Down | Mode::Cruise if self.time_to_probe(now, cwnd) => self.start_refill(),
            Mode::Down if self.time_to_cruise() => self.mode = Mode::Cruise,
            Mode::Refill if self.rounds.started => {
                self.probe_samples = true;
                self.start_up(sample, cwnd);
            }
            Mode::Up => {
                if self.time_to_go_down(sample, cwnd) {
                    self.start_down(now);
                }
            }
            _ => {}
        }
    }

    fn time_to_probe(&self, now: Time, cwnd: f64) -> bool {
        let reno = (self.target_inflight(cwnd) / self.mss).min(RENO_ROUNDS);
        now > self.cycle_at + self.probe_wait || self.rounds_since_probe as f64 >= reno
    }

    fn time_to_cruise(&self) -> bool {
        let in_flight = self.in_flight as f64;
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(self.max_bw(), 1.0)
    }

    fn time_to_go_down(&mut self, sample: Option<&RateSample>, cwnd: f64) -> bool {
        if self.cwnd_limited() && cwnd >= self.inflight_hi {
            // The bound, not the path, limits the rate.
            self.reset_full_bw(sample.map_or(0.0, |s| s.rate));
            return false;
        }
        self.full_bw_now
    }

    /// The long-term bound: down after a probe that lost too much, up while probing goes well.
    fn adapt_upper_bounds(&mut self, now: Time, ack: &Ack, cwnd: f64) {
        let app_limited = ack.rate.is_some_and(|s| s.app_limited);
        if self.rounds.started && self.feedback == Feedback::Starting {
            self.feedback = Feedback::Probing;
        }
        if self.rounds.started && self.feedback == Feedback::Stopping {
            (self.probe_samples, self.feedback) = (false, Feedback::None);
            if self.probing_bw() && !app_limited {
                // A new cycle: the bandwidth of the one before the last is forgotten.
                self.max_bw = [self.max_bw[1], 0.0];
            }
        }
        let Some(s) = ack.rate else { return };
        if self.too_high(s.lost, s.tx_in_flight) {
            if self.probe_samples {
                self.handle_too_high(now, s.tx_in_flight as f64, s.app_limited, cwnd);
            }
        } else if self.inflight_hi.is_finite() {
            self.inflight_hi = self.inflight_hi.max(s.tx_in_flight as f64);
            if self.mode == Mode::Up {
                self.probe_upward(ack.delivered as f64, cwnd);
            }
        }
    }

    fn handle_too_high(&mut self, now: Time, tx_in_flight: f64, app_limited: bool, cwnd: f64) {
        self.probe_samples = false;
        if !app_limited {
            self.inflight_hi = tx_in_flight.max(self.target_inflight(cwnd) * self.settings.beta.0);
        }
        if self.mode == Mode::Up {
            self.undo.from = Some(Mode::Up);
            self.start_down(now);
        }
    }

    /// By 1, 2, 4 … segments in each round.
    fn raise_slope(&mut self, cwnd: f64) {
        let growth = libm::exp2(f64::from(self.up_rounds));
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_per_increase = (cwnd / growth).max(self.mss);
    }

    fn probe_upward(&mut self, acked: f64, cwnd: f64) {
        if !self.cwnd_limited() || cwnd < self.inflight_hi {
            return;
        }
        self.up_acked += acked;
        if self.up_acked >= self.up_per_increase {
            let delta = libm::floor(self.up_acked / self.up_per_increase);
            self.up_acked -= delta * self.up_per_increase;
            self.inflight_hi += delta * self.mss;
        }
        if self.rounds.started {
            self.raise_slope(cwnd);
        }
    }

    // ProbeRTT.

    fn update_min_rtt(&mut self, now: Time, rtt: Option<Duration>) {
        self.probe_rtt_expired = now > self.probe_rtt_min_at + self.settings.probe_rtt_interval;
        if let Some(rtt) = rtt
            && (self.probe_rtt_expired || self.probe_rtt_min.is_none_or(|m| rtt < m))
        {
            (self.probe_rtt_min, self.probe_rtt_min_at) = (Some(rtt), now);
        }
        let expired = now > self.min_rtt_at + MIN_RTT_AGE;
        if let Some(min) = self.probe_rtt_min
            && (expired || self.min_rtt.is_none_or(|m| min < m))
        {
            (self.min_rtt, self.min_rtt_at) = (Some(min), self.probe_rtt_min_at);
        }
    }

    fn check_probe_rtt(&mut self, window: &mut Window, ack: &Ack) {
        if self.mode != Mode::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd(window);
            (self.mode, self.probe_rtt_end, self.feedback) = (Mode::ProbeRtt, None, Feedback::Stopping);
            self.rounds.restart(self.delivered);
        }
        if self.mode == Mode::ProbeRtt {
            if self.probe_rtt_end.is_none() {
                if self.in_flight as f64 <= self.probe_rtt_cwnd() {
                    (self.probe_rtt_end, self.probe_rtt_round) = (Some(ack.now + PROBE_RTT_TIME), false);
                    self.rounds.restart(self.delivered);
                }
            } else {
                self.probe_rtt_round |= self.rounds.started;
                if self.probe_rtt_round {
                    self.check_probe_rtt_done(window, ack.now);
                }
            }
        }
        self.idle_restart &= ack.delivered == 0;
    }

    fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp(self.bw, PROBE_RTT_CWND_GAIN).max(MIN_SEGMENTS * self.mss)
    }

    fn check_probe_rtt_done(&mut self, window: &mut Window, now: Time) {
        if self.probe_rtt_end.is_some_and(|end| now > end) {
            self.probe_rtt_min_at = now;
            window.cwnd = window.cwnd.max(self.prior_cwnd);
            self.reset_short_term();
            if self.full_bw_reached {
                self.start_down(now);
                self.mode = Mode::Cruise;
            } else {
                self.mode = Mode::Startup;
            }
        }
    }

    // Control.

    fn save_cwnd(&mut self, window: &Window) {
        let good = self.episode.is_none() && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if good { window.cwnd } else { self.prior_cwnd.max(window.cwnd) };
    }

    fn set_cwnd(&mut self, window: &mut Window, acked: f64) {
        let excess = self.excess.get();
        let most = self.with_bursts(self.bdp(self.bw, self.cwnd_gain()) + excess);
        let cwnd = &mut window.cwnd;
        if self.full_bw_reached {
            *cwnd = (*cwnd + acked).min(most);
        } else if *cwnd < most || (self.delivered as f64) < self.initial_cwnd {
            *cwnd += acked;
        }
        *cwnd = cwnd.max(MIN_SEGMENTS * self.mss);
        if self.mode == Mode::ProbeRtt {
            *cwnd = cwnd.min(self.probe_rtt_cwnd());
        }
        let cap = match self.mode {
            Mode::Down | Mode::Refill | Mode::Up => self.inflight_hi,
            Mode::ProbeRtt | Mode::Cruise => self.inflight_with_headroom(),
            Mode::Startup | Mode::Drain => f64::INFINITY,
        };
        *cwnd = cwnd.min(cap.min(self.inflight_lo).max(MIN_SEGMENTS * self.mss));
    }

    fn note_loss(&mut self, delivered: u64) {
        if !self.loss_in_round {
            self.loss_round_delivered = delivered;
            self.undo = Undo { from: None, bw_lo: self.bw_lo, inflight_lo: self.inflight_lo, inflight_hi: self.inflight_hi };
        }
        self.loss_in_round = true;
    }
}

impl WindowRule for Bbr3Window {
    fn on_established(&mut self, window: &mut Window, start: &Start) {
        self.mss = f64::from(start.mss);
        self.sack = start.sack;
        self.draws = Stream::new(u64::from(start.flow), "bbr3 probe wait");
        self.initial_cwnd = window.cwnd;
        (self.min_rtt, self.min_rtt_at) = (start.rtt, start.now);
        (self.probe_rtt_min, self.probe_rtt_min_at) = (start.rtt, start.now);
        self.aggregation = Aggregation::new(start.now);
        self.pacing.start(STARTUP_GAIN, window.cwnd, start.rtt);
    }

    fn on_ack(&mut self, _window: &mut Window, _ack: &Ack) {}

    fn on_any_ack(&mut self, window: &mut Window, ack: &Ack) {
        let (now, sample) = (ack.now, ack.rate.as_ref());
        self.delivered = sample.map_or(self.delivered + ack.delivered, |s| s.total_delivered);
        self.in_flight = ack.flight;
        self.update_latest(sample);
        self.update_max_bw(sample);
        self.adapt_lower_bounds(window.cwnd);
        self.update_aggregation(ack, window.cwnd);
        self.check_full_bw(sample);
        self.check_startup(sample);
        if self.loss_round_start {
            (self.loss_in_round, self.loss_ranges) = (false, 0);
        }
        self.check_drain(now);
        self.update_cycle(now, ack, window.cwnd);
        self.update_min_rtt(now, sample.and_then(|s| s.rtt).or(ack.rtt));
        self.check_probe_rtt(window, ack);
        if let Some(s) = sample.filter(|_| self.loss_round_start) {
            (self.bw_latest, self.inflight_latest) = (s.rate, s.delivered as f64);
        }
        self.bw = self.max_bw().min(self.bw_lo);
        if self.episode.is_some_and(|(end, _)| ack.snd_una >= end) {
            self.episode = None;
            window.cwnd = window.cwnd.max(self.prior_cwnd);
        }
        let gain = self.pacing_gain();
        if self.full_bw_reached {
            self.pacing.set(gain, self.bw)
        } else {
            self.pacing.raise(gain, self.bw)
        }
        self.set_cwnd(window, ack.delivered as f64);
    }

    fn on_lost(&mut self, window: &mut Window, lost: &Lost) {
        self.in_flight = self.in_flight.saturating_sub(lost.bytes);
        self.note_loss(lost.delivered);
        self.loss_ranges += u32::from(lost.seq != self.last_lost_end);
        self.last_lost_end = lost.seq + lost.bytes;
        if self.probe_samples && self.too_high(lost.lost, lost.tx_in_flight) {
            // Where in this segment the loss has passed the threshold.
            let Share(threshold) = self.settings.loss_threshold;
            let before = lost.tx_in_flight as f64 - lost.bytes as f64;
            let lost_before = lost.lost as f64 - lost.bytes as f64;
            let prefix = ((threshold * before - lost_before) / (1.0 - threshold)).max(0.0);
            self.handle_too_high(lost.now, before.max(0.0) + prefix, lost.app_limited, window.cwnd);
        }
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> Said {
        self.note_loss(self.delivered);
        if loss.kind == LossKind::Ecn {
            return Said::Nothing;
        }
        self.save_cwnd(window);
        self.episode = Some((loss.snd_max, self.rounds.count));
        if loss.kind == LossKind::Timeout {
            window.cwnd = window.cwnd.min(self.in_flight as f64 + self.mss);
        }
        Said::Nothing
    }

    fn on_undo(&mut self, window: &mut Window, _before: &Window, _now: Time) {
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        (self.loss_in_round, self.episode) = (false, None);
        self.reset_full_bw(0.0);
        let undo = self.undo;
        self.bw_lo = self.bw_lo.max(undo.bw_lo);
        self.inflight_lo = self.inflight_lo.max(undo.inflight_lo);
        self.inflight_hi = self.inflight_hi.max(undo.inflight_hi);
        match undo.from {
            Some(Mode::Startup) if self.mode != Mode::Startup => {
                self.full_bw_reached = false;
                if self.mode != Mode::ProbeRtt {
                    self.mode = Mode::Startup;
                }
            }
            Some(Mode::Up) if !matches!(self.mode, Mode::Up | Mode::ProbeRtt) => self.start_refill(),
            _ => {}
        }
        self.undo.from = None;
    }

    fn on_sent(&mut self, window: &mut Window, now: Time, bytes: u32, flight: u64) {
        self.in_flight = flight;
        if flight as f64 + self.mss > window.cwnd {
            self.limited_round = Some(self.rounds.count);
        }
        if flight > u64::from(bytes) || self.delivered == 0 {
            return;
        }
        // After an idle time: at the bandwidth, no faster.
        self.idle_restart = true;
        self.aggregation = Aggregation::new(now);
        if self.probing_bw() {
            self.pacing.set(1.0, self.bw);
        } else if self.mode == Mode::ProbeRtt {
            self.check_probe_rtt_done(window, now);
        }
    }

    fn pacing(&self) -> Option<Rate> {
        Some(self.pacing.get())
    }

    fn holds_back(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn steers_recovery(&self) -> bool {
        true
    }
}
