//! Differences of Linux from the draft (google/bbr, branch v3, `net/ipv4/tcp_bbr.c`): `rules =
//! "linux"`.

use super::{Bbr3Window, Mode, Rules, STARTUP_LOSSES, cycle};
use crate::bbr::model::{larger, smaller};
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::offload::autosize;
use lasthop_tcp::pacing::after_credit;
use lasthop_tcp::rate::RateSample;
use lasthop_tcp::window::{Loss, LossKind, Window};

/// Time for which ACK aggregation may add to cwnd (`bbr_extra_acked_max_us`).
const MAX_AGGREGATION: Duration = Duration::millis(100);

/// State that only Linux has.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxState {
    /// The earliest departure time of the next segment (`tcp_wstamp_ns`).
    pub departure: Time,
    /// True if a segment was marked lost since the last ACK.
    pub found_lost: bool,
    /// ACKs of this round with losses (`loss_events_in_round`).
    pub loss_events: u32,
    /// The present episode began with a timeout (`TCP_CA_Loss`).
    pub timed_out: bool,
}

impl Rules {
    /// Pacing gain in Down.
    pub fn down_gain(self) -> f64 {
        match self {
            Rules::Draft => 0.9,
            Rules::Linux => 232.0 / 256.0,
        }
    }
}

/// Bytes sent as one burst.
pub(super) fn quantum(bbr: &Bbr3Window) -> f64 {
    if bbr.is_linux() {
        autosize(bbr.pacing.get(), bbr.min_rtt, bbr.mss, bbr.settings.min_tso_segs)
    } else {
        bbr.pacing.quantum()
    }
}

/// Linux counts whole segments, rounded up (`bbr_bdp`).
pub(super) fn whole(bbr: &Bbr3Window, bytes: f64) -> f64 {
    if bbr.is_linux() { bbr.mss * libm::ceil(bytes / bbr.mss) } else { bytes }
}

/// ACK aggregation beyond the bandwidth, bounded (`bbr_ack_aggregation_cwnd`).
pub(super) fn excess(bbr: &Bbr3Window) -> f64 {
    smaller(bbr.excess.get(), bbr.bw * MAX_AGGREGATION.as_secs())
}

/// Computes the departure time of the next burst after `bytes` are sent
/// (`tcp_update_skb_after_send`).
pub(super) fn note_departure(bbr: &mut Bbr3Window, now: Time, bytes: u32) {
    let mut gap = bbr.pacing.get().time_for(u64::from(bytes));
    if f64::from(bytes) > bbr.mss {
        gap = after_credit(gap, now.since(bbr.linux.departure));
    }
    bbr.linux.departure = bbr.linux.departure.max(now) + gap;
}

/// `in_flight` at the departure of the next burst, that one included while the rate is probed
/// (`bbr_packets_in_net_at_edt`).
pub(super) fn in_net_at_departure(bbr: &Bbr3Window, in_flight: u64, now: Time) -> f64 {
    let delivered = bbr.bw * bbr.linux.departure.max(now).since(now).as_secs();
    let leaving = if bbr.pacing_gain() > 1.0 { quantum(bbr) } else { 0.0 };
    larger(in_flight as f64 + leaving - delivered, 0.0)
}

/// Startup ends when the bandwidth stops growing, or when six ACKs of a round in recovery have
/// reported losses and the loss rate is too high (`bbr_check_loss_too_high_in_startup`).
pub(super) fn check_startup(bbr: &mut Bbr3Window, sample: Option<&RateSample>) {
    bbr.linux.loss_events += u32::from(bbr.linux.found_lost);
    let recovering = bbr.episode.is_some() && !bbr.linux.timed_out;
    let lossy = sample.is_some_and(|s| bbr.bounds.too_high(s.lost, s.tx_in_flight));
    if bbr.bounds.round_ended && recovering && bbr.linux.loss_events >= STARTUP_LOSSES && lossy {
        bbr.full.ever = true;
        bbr.bounds.end_startup(bbr.inflight(bbr.max_bw()));
    }
    if bbr.bounds.round_ended {
        bbr.linux.loss_events = 0;
    }
    if bbr.full.ever {
        bbr.mode = Mode::Drain;
        bbr.bounds.forget_round();
    }
}

/// Drain ends by the volume in flight only (`bbr_check_drain`).
pub(super) fn check_drain(bbr: &mut Bbr3Window, now: Time) {
    if in_net_at_departure(bbr, bbr.in_flight, now) <= bbr.inflight(bbr.max_bw()) {
        cycle::start_down(bbr, now);
    }
}

/// A timeout, or a loss repaired by a tail loss probe (`bbr_set_state`,
/// `bbr_run_loss_probe_recovery`).
pub(super) fn on_loss(bbr: &mut Bbr3Window, window: &Window, loss: &Loss) {
    if loss.kind == LossKind::Timeout {
        bbr.linux.timed_out = true;
        bbr.full.restart(0.0);
        let probing = matches!(bbr.mode, Mode::Startup | Mode::Refill | Mode::Up);
        if !probing && bbr.bounds.inflight_lo.is_infinite() {
            bbr.bounds.inflight_lo = larger(window.cwnd, bbr.prior_cwnd);
        }
    } else if !bbr.linux.found_lost && bbr.probe_samples {
        let in_flight = bbr.bounds.inflight_latest() + bbr.mss;
        if bbr.bounds.too_high(bbr.mss as u64, in_flight as u64) {
            cycle::end_probe(bbr, loss.now, in_flight, false, window.cwnd);
        }
    }
}
