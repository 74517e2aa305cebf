//! BBR version 3: BBR that limits its volume in flight when the loss rate is high, and probes less
//! often.
//!
//! Source: draft-ietf-ccwg-bbr-06 (July 2026). Deployed at: the sender, which must pace; at Google.
//! Wire: nothing.
//!
//! The model is that of version 1, bandwidth and smallest round-trip time, with two kinds of
//! bounds. The long-term bound is the volume in flight at which a probe lost more than 2 %
//! (`inflight_hi`); the short-term bounds (`bw_lo`, `inflight_lo`) follow what is delivered in a
//! round with any loss, with a reduction of at most 30 % each, and are cleared before the next
//! probe. Probing goes Down (0.9 of the
//! bandwidth, until the queue is drained) → Cruise (1.0, for 2 to 3 s, or as long as Reno would
//! need) → Refill (1.0 without the short-term bounds, one round) → Up (1.25, until the bandwidth
//! stops growing or losses come). After a probe that lost too much the next one stops as soon as
//! the long-term bound is reached; a full probe follows only if that one loses nothing. ProbeRTT
//! halves the volume in flight every 5 s for 200 ms.
//!
//! Assumes that up to 2 % of loss is noise. Bad at: random loss above that, any loss with
//! fewer than 50 segments in flight, of which one is more than 2 % (in Cruise the rate falls round
//! by round to the delivered rate, and each probe ends early), and rates that change faster than
//! it probes.
//!
//! The draft draws the time in Cruise at random; here the draws depend on the number of the flow,
//! or on the seed in runs that draw the starts of flows.
//! A congestion mark (ECN) counts as one lost segment with the draft's rules, which leave it open.
//!
//! # Where Linux differs from the draft
//!
//! Compared with google/bbr, branch v3. Under profile `linux` Linux is followed, otherwise the
//! draft; the setting `rules` chooses one of the two.
//!
//! | what | draft | Linux | Linux' function |
//! | --- | --- | --- | --- |
//! | bytes that leave together | a millisecond's; a segment below 1.2 Mbit/s | a millisecond's and 64 KiB halved for each 512 us of the round trip, two segments at least | `bbr_tso_segs_generic` |
//! | pipe | bandwidth by round trip | the same in whole segments; where it says how often to probe, with room for three bursts | `bbr_bdp`, `bbr_target_inflight` |
//! | too much lost | more than 2 % | more than 5/256 in whole segments | `bbr_is_inflight_too_high` |
//! | looked for in | lost segments | delivered ones too: the bound falls to what was in flight as they left | `bbr_adapt_upper_bounds` |
//! | bound, if more than that was lost before the segment | what solves the equation | what was in flight before it | `bbr_inflight_hi_from_lost_skb` |
//! | growth of the bandwidth | of rounds | of ACKs | `bbr_check_full_bw_reached` |
//! | Startup ends on loss | of six ranges | found by six ACKs, not by timers, within a recovery | `bbr_check_loss_too_high_in_startup` |
//! | Drain ends | after three rounds at the latest | by what is in flight alone | `bbr_check_drain` |
//! | in flight, where Up and Down end | now | before the ACK, when the next burst leaves | `bbr_packets_in_net_at_edt` |
//! | pacing in Down | 0.9 | 0.906 | `bbr_pacing_gain` |
//! | `inflight_lo` in Cruise | | at most `inflight_hi` | `bbr_start_bw_probe_cruise` |
//! | ACK aggregation | of ten rounds | of five to ten, at most what 100 ms take | `bbr_update_ack_aggregation`, `bbr_ack_aggregation_cwnd` |
//! | cwnd after a loss | comes back after each recovery | after a timeout only | `bbr_set_state` |
//! | recovery right after a timeout | | begins with the window before that | `bbr_exit_loss_recovery` |
//! | congestion mark | as one lost segment | ignored, unless the route says otherwise | `bbr_can_use_ecn` |
//! | reductions and headroom | | in whole segments, rounded down | `bbr_loss_lower_bounds`, `bbr_inflight_with_headroom` |
//! | timeout | | a missing `inflight_lo` becomes the window before it; growth is looked for from the start | `bbr_set_state` |
//! | loss repaired by a tail loss probe, in Up | a round with loss | one lost segment | `bbr_run_loss_probe_recovery` |
//! | spurious loss | Startup or Up come back | cwnd and the bounds alone, as they were when the first segments had been marked lost | `bbr_undo_cwnd` |
//! | loss that ends a probe | its round is forgotten | its ACK marks the round in which Down begins | `bbr_update_congestion_signals` |
//! | smallest round-trip time | renewed by a smaller one | by an equal one too | `bbr_update_min_rtt` |
//! | cwnd after ProbeRTT | that before it | a larger one saved at the last loss too | `bbr_save_cwnd` |
//!
//! With both rules, whether the long-term bound is reached is judged by the volume in flight before
//! the ACK: after the ACK, a sender limited by the bound is always below it. `drain_gain` is Linux'
//! by default.
//!
//! # Comparison with Linux
//!
//! `docs/fidelity-bbr3.md` repeats the published cells of real Linux with profile `linux` and
//! `segmentation_offload`. `tcp_bbr.c` and `tcp_rate.c` were compared line by line: the table
//! above has the differences. Not modelled: the fast path of application-limited senders, the
//! filter that lasts while a tail loss probe is answered (`is_acking_tlp_retrans_seq`), ECN on
//! routes that allow it, and clocks of 4 ms.
//!
//! Offload is off by default, also under profile `linux`. Which frames a link sees is a property
//! of the path: a network card splits before the wire, and a device without offload (TUN) gets
//! single segments. Real Linux over such a device agrees with `linux` as it is
//! (`docs/validation.md`); with offload Reno and CUBIC would be much faster there.
//!
//! # Example test cases of the draft
//!
//! Appendix A, each a test in `bbr3/draft.rs`.
//!
//! | case | what | result |
//! | --- | --- | --- |
//! | A.1 | Startup ends on a plateau | passes |
//! | A.2 | Startup ends on loss, application-limited | passes; `full_bw_now` stays false: section 5.3.1.3 sets `full_bw_reached` only |
//! | A.3 | Drain ends by what is in flight | passes, with `drain_gain = 0.5` |
//! | A.4 | Drain ends after three rounds | passes for a fall to 30 %; after the case's 10 % a gain of 0.5 drains the queue before |
//! | A.5 | Up ends on a plateau | passes |
//! | A.6 | Up ends on loss, application-limited | passes; the long-term bound stays, as HandleInflightTooHigh says |
//! | A.7 | neither ends without loss, application-limited | passes, up to ProbeRTT, which every state gives way to (section 5.3.4) |
//! | A.8 | Down ends with headroom | passes |
//! | A.9 | Down ends after its longest time | passes |
//! | A.10 | ProbeRTT | passes |
//! | A.11 | no ProbeRTT after an idle time | passes |
//! | A.12 | Startup behind aggregation | passes |
//! | A.13 | Cruise behind aggregation | passes |
//! | A.14 | a pipe of less than a segment | passes |
//! | A.15 | ten times the bandwidth | passes |
//! | A.16 | a tenth of the bandwidth | passes |
//! | A.17 | a token bucket | passes |
//! | A.18 | spurious fast recovery | passes; Up comes back by way of Refill, as section 5.5.11.2 says |
//! | A.19 | spurious timeout | passes, likewise |
//! | A.20 | ProbeRTT in Startup | passes |
//! | A.21 | loss in Up below a long-term bound | passes |
//! | A.22 | application-limited in Refill | passes |

mod bounds;
mod cycle;
#[cfg(test)]
mod draft;
mod linux;
mod linux_phases;
#[cfg(test)]
mod linux_tests;
mod probe_rtt;
mod rule;
mod rules;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bbr::model::{
    Aggregation, FullPipe, PacingRate, PacketRounds, Stay, WindowedMax, larger, smaller,
};
use crate::bbr3::bounds::{Bounds, Limits};
use crate::bbr3::rules::LinuxState;
pub use crate::bbr3::rules::Rules;
use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Rate, Share, Time};
use lasthop_tcp::profile::ProfileName;
use lasthop_tcp::rate::RateSample;
use lasthop_tcp::recovery::Recovery;
use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Lost, Needs, Start, Window, WindowRule, window_rule,
};

/// Settings of BBR version 3.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Bbr3 {
    /// Loss rate of a round trip above which too much was in flight (2 %).
    pub loss_threshold: Share,
    /// Smallest factor by which a round with loss reduces the short-term bounds (0.7).
    pub beta: Share,
    /// Share of the long-term bound that is left to other flows between probes (0.15).
    pub headroom: Share,
    /// Pacing gain in Drain (0.35 in Linux, 0.5 in the draft).
    pub drain_gain: f64,
    /// Time between two ProbeRTTs (5 s).
    pub probe_rtt_interval: Duration,
    /// The rules to follow where the draft and Linux differ; unset: Linux under profile `linux`,
    /// otherwise the draft.
    pub rules: Option<Rules>,
    /// Smallest burst in segments under Linux' rules (2, the sysctl `net.ipv4.tcp_min_tso_segs`).
    pub min_tso_segs: u32,
    /// Loss recovery under the rule, such as "rack+prr+f-rto"; unset: the profile's, or Linux' if
    /// the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for Bbr3 {
    fn default() -> Self {
        Bbr3 {
            loss_threshold: Share(0.02),
            beta: Share(0.7),
            headroom: Share(0.15),
            drain_gain: 0.35,
            probe_rtt_interval: Duration::secs(5),
            rules: None,
            min_tso_segs: 2,
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
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &[
            "losses above 2 % mean congestion",
            "the bandwidth changes slower than in seconds",
        ],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        for (name, Share(share)) in [
            ("loss_threshold", self.loss_threshold),
            ("beta", self.beta),
            ("headroom", self.headroom),
        ] {
            if !(0.0..1.0).contains(&share) {
                return Err(format!("{name} must be below 100 %, found {share}"));
            }
        }
        if !(self.drain_gain > 0.0 && self.drain_gain < 1.0) {
            return Err(format!("drain_gain must be between 0 and 1, found {}", self.drain_gain));
        }
        if self.probe_rtt_interval < Duration::secs(1) {
            return Err(format!(
                "probe_rtt_interval must be at least 1 s, found {}",
                self.probe_rtt_interval
            ));
        }
        if self.min_tso_segs == 0 {
            return Err("min_tso_segs must be at least 1, found 0".into());
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(Bbr3Window::new(self)))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::LINUX))
    }

    fn needs(&self) -> Needs {
        Needs { rate_samples: true, ..Needs::default() }
    }
}

const STARTUP_GAIN: f64 = 2.77;
const CWND_GAIN: f64 = 2.0;
const UP_CWND_GAIN: f64 = 2.25;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
const MIN_RTT_AGE: Duration = Duration::secs(10);
const MIN_SEGMENTS: f64 = 4.0;
/// Lost ranges in a round that end Startup, if the loss is high.
const STARTUP_LOSSES: u32 = 6;
const DRAIN_ROUNDS: u64 = 3;
/// Rounds between two losses of Reno.
const RENO_ROUNDS: f64 = 63.0;
const AGGREGATION_ROUNDS: u64 = 10;

/// State of BBR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Doubles the rate in each round.
    Startup,
    /// Drains the queue that Startup built.
    Drain,
    /// ProbeBW: paces below the bandwidth.
    Down,
    /// ProbeBW: paces at the bandwidth.
    Cruise,
    /// ProbeBW: fills the pipe before the probe.
    Refill,
    /// ProbeBW: paces above the bandwidth.
    Up,
    /// Keeps half a BDP in flight to measure the round-trip time.
    ProbeRtt,
}

/// What the arriving ACKs report (the draft's `ack_phase`, without the phases that have no effect).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feedback {
    /// No probe, or one in progress.
    Other,
    /// The end of a probe.
    Stopping,
}

/// BBR version 3's window rule. Volumes in bytes, rates in bytes per second.
#[derive(Clone, Debug)]
pub struct Bbr3Window {
    settings: Bbr3,
    rules: Rules,
    mode: Mode,
    mss: f64,
    draws: Stream,
    drawn: u64,
    initial_cwnd: f64,
    pacing: PacingRate,
    rounds: PacketRounds,
    full: FullPipe,
    bounds: Bounds,
    /// The largest delivery rates of the previous cycle and of this one.
    max_bw: [f64; 2],
    bw: f64,
    /// The smallest round-trip time of ten seconds, and since the last ProbeRTT.
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    probe_rtt_min: Option<Duration>,
    probe_rtt_min_at: Time,
    probe_rtt_due: bool,
    stay: Stay,
    drain_round: u64,
    feedback: Feedback,
    /// ACKs report a probe in which no loss has been processed.
    probe_samples: bool,
    /// The loss of the last probe was above the threshold.
    prev_probe_too_high: bool,
    /// The last probe ended at the long-term bound, before a loss.
    prev_probe_precautionary: bool,
    probe_wait: Duration,
    cycle_at: Time,
    rounds_since_probe: u64,
    prior_cwnd: f64,
    /// The end of the loss episode, and the round in which it began.
    episode: Option<(u64, u64)>,
    /// The state that a loss ended; the bounds before the loss are saved too.
    left: Option<Mode>,
    remembered: bool,
    idle_restart: bool,
    aggregation: Aggregation,
    excess: WindowedMax,
    /// The last round in which the window limited the sender.
    limited_round: Option<u64>,
    delivered: u64,
    in_flight: u64,
    /// Bytes in flight before the ACK that is being processed.
    prior_in_flight: u64,
    /// State that only Linux has.
    linux: LinuxState,
}

impl Bbr3Window {
    #[inline]
    fn is_linux(&self) -> bool {
        self.rules == Rules::Linux
    }

    /// A rule with these settings.
    pub fn new(settings: &Bbr3) -> Self {
        let limits = Limits {
            loss_threshold: settings.loss_threshold.0,
            beta: settings.beta.0,
            headroom: settings.headroom.0,
        };
        Bbr3Window {
            settings: settings.clone(),
            rules: settings.rules.unwrap_or_default(),
            mode: Mode::Startup,
            mss: 0.0,
            draws: Stream::new(0, ""),
            drawn: 0,
            initial_cwnd: 0.0,
            pacing: PacingRate::default(),
            rounds: PacketRounds::default(),
            full: FullPipe::default(),
            bounds: Bounds::new(limits),
            max_bw: [0.0; 2],
            bw: 0.0,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probe_rtt_min: None,
            probe_rtt_min_at: Time::ZERO,
            probe_rtt_due: false,
            stay: Stay::default(),
            drain_round: 0,
            feedback: Feedback::Other,
            probe_samples: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            probe_wait: Duration::ZERO,
            cycle_at: Time::ZERO,
            rounds_since_probe: 0,
            prior_cwnd: 0.0,
            episode: None,
            left: None,
            remembered: false,
            idle_restart: false,
            aggregation: Aggregation::new(Time::ZERO),
            excess: WindowedMax::default(),
            limited_round: None,
            delivered: 0,
            in_flight: 0,
            prior_in_flight: 0,
            linux: LinuxState::default(),
        }
    }

    /// The current state.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    fn max_bw(&self) -> f64 {
        larger(self.max_bw[0], self.max_bw[1])
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => STARTUP_GAIN,
            Mode::Drain => self.settings.drain_gain,
            Mode::Down => self.rules.down_gain(),
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

    fn least(&self) -> f64 {
        MIN_SEGMENTS * self.mss
    }

    fn bdp(&self, bandwidth: f64, gain: f64) -> f64 {
        self.min_rtt
            .map_or(self.initial_cwnd, |rtt| linux::whole(self, gain * bandwidth * rtt.as_secs()))
    }

    /// Allowance for three bursts and for delayed ACKs, and two segments more while the rate is
    /// probed.
    fn with_bursts(&self, bytes: f64) -> f64 {
        let bursts = 3.0 * linux::quantum(self);
        larger(larger(bytes, bursts), self.least())
            + if self.mode == Mode::Up { 2.0 * self.mss } else { 0.0 }
    }

    fn inflight(&self, bandwidth: f64) -> f64 {
        self.with_bursts(self.bdp(bandwidth, 1.0))
    }

    fn target(&self, cwnd: f64) -> f64 {
        smaller(if self.is_linux() { self.inflight(self.bw) } else { self.bdp(self.bw, 1.0) }, cwnd)
    }

    fn cwnd_limited(&self) -> bool {
        self.limited_round.is_some_and(|r| r + 1 >= self.rounds.count)
    }

    fn measure(&mut self, ack: &Ack, cwnd: f64) {
        let sample = ack.rate.as_ref();
        self.delivered = sample.map_or(self.delivered + ack.delivered, |s| s.total_delivered);
        self.in_flight = ack.flight;
        self.bounds.on_ack(sample);
        self.rounds.on_ack(sample);
        self.rounds_since_probe += u64::from(self.rounds.started);
        if let Some(s) = sample.filter(|s| !s.app_limited || s.rate >= self.max_bw()) {
            self.max_bw[1] = larger(self.max_bw[1], s.rate);
        }
        if self.is_linux() {
            linux::note_losses(self, sample);
        }
        let probing = matches!(self.mode, Mode::Startup | Mode::Refill | Mode::Up);
        if self.bounds.round_ended && self.bounds.loss_in_round && !probing {
            self.bounds.adapt_lower_bounds(self.max_bw(), cwnd);
        }
        if self.is_linux() {
            linux::measure_aggregation(self, ack, cwnd);
        } else {
            let excess = self.aggregation.on_ack(ack.now, ack.delivered, self.bw, cwnd);
            let rounds = if self.full.ever { AGGREGATION_ROUNDS } else { 1 };
            self.excess.update(self.rounds.count, rounds, excess);
        }
        if let Some(s) =
            sample.filter(|s| (self.rounds.started || self.is_linux()) && !s.app_limited)
        {
            self.full.check_each(s.rate, self.rounds.started);
        }
    }

    /// Startup ends when the bandwidth stops growing, or after a round of recovery with high loss
    /// in several ranges.
    fn check_startup(&mut self, sample: Option<&RateSample>) {
        let lossy = sample.is_some_and(|s| self.bounds.too_high(s.lost, s.tx_in_flight))
            && self.episode.is_some();
        let lasting = self.bounds.round_ended
            && self.episode.is_some_and(|(_, began)| self.rounds.count > began);
        if lossy && (!self.bounds.sack || (lasting && self.bounds.ranges >= STARTUP_LOSSES)) {
            (self.left, self.full.ever) = (Some(Mode::Startup), true);
            self.bounds.end_startup(self.bdp(self.bw, 1.0));
        }
        if self.full.ever {
            (self.mode, self.drain_round) = (Mode::Drain, self.rounds.count);
        }
    }

    fn check_drain(&mut self, now: Time) {
        if self.is_linux() {
            return linux_phases::check_drain(self, now);
        }
        let drained = self.in_flight as f64 <= self.inflight(self.bw);
        if drained || self.rounds.count > self.drain_round + DRAIN_ROUNDS {
            cycle::start_down(self, now);
        }
    }

    /// Saves cwnd, unless recovery or ProbeRTT has reduced it.
    fn save_cwnd(&mut self, window: &Window) {
        let good = self.episode.is_none() && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if good { window.cwnd } else { self.prior_cwnd.max(window.cwnd) };
    }

    /// The first loss of an episode: saves the state for an undo.
    fn remember(&mut self) {
        if !std::mem::replace(&mut self.remembered, true) {
            self.bounds.remember();
            self.left = None;
        }
    }

    fn set_cwnd(&self, cwnd: f64, acked: f64) -> f64 {
        let excess = if self.is_linux() { linux::excess(self) } else { self.excess.get() };
        let most = self.with_bursts(self.bdp(self.bw, self.cwnd_gain()) + excess);
        let early = if self.is_linux() {
            cwnd < 2.0 * self.initial_cwnd
        } else {
            (self.delivered as f64) < self.initial_cwnd
        };
        let grown = if self.is_linux() && acked == 0.0 {
            cwnd
        } else if self.full.ever {
            smaller(cwnd + acked, most)
        } else if cwnd < most || early {
            cwnd + acked
        } else {
            cwnd
        };
        let cap = match self.mode {
            Mode::Startup | Mode::Drain => f64::INFINITY,
            Mode::Down | Mode::Refill | Mode::Up => self.bounds.inflight_hi,
            Mode::Cruise => self.bounds.with_headroom(self.mss, self.least()),
            Mode::ProbeRtt => {
                self.bounds.with_headroom(self.mss, self.least()).min(probe_rtt::cwnd(self))
            }
        };
        larger(smaller(grown, smaller(cap, self.bounds.inflight_lo)), self.least())
    }
}
