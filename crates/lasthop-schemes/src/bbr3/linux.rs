//! Differences of Linux from the draft (google/bbr, branch v3, `net/ipv4/tcp_bbr.c`): `rules =
//! "linux"`. How it counts and paces; `linux_phases.rs` has the phases.

use super::Bbr3Window;
use crate::bbr::model::smaller;
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::offload::autosize;
use lasthop_tcp::rate::RateSample;
use lasthop_tcp::window::Ack;

/// Time for which ACK aggregation may add to cwnd (`bbr_extra_acked_max_us`).
const MAX_AGGREGATION: Duration = Duration::millis(100);
/// Rounds of a window of ACK aggregation (`bbr_extra_acked_win_rtts`).
const AGGREGATION_WINDOW: u32 = 5;

/// Bytes sent as one burst.
pub(super) fn quantum(bbr: &Bbr3Window) -> f64 {
    if bbr.is_linux() {
        let (basis, bytes) = bbr.linux.quantum;
        if basis == (bbr.pacing.get(), bbr.min_rtt) { bytes } else { compute_quantum(bbr) }
    } else {
        bbr.pacing.quantum()
    }
}

fn compute_quantum(bbr: &Bbr3Window) -> f64 {
    autosize(bbr.pacing.get(), bbr.min_rtt, bbr.mss, bbr.settings.min_tso_segs)
}

/// Stores the quantum, which is asked for with each segment and seldom changes between ACKs.
pub(super) fn store_quantum(bbr: &mut Bbr3Window) {
    let basis = (bbr.pacing.get(), bbr.min_rtt);
    if bbr.linux.quantum.0 != basis {
        bbr.linux.quantum = (basis, compute_quantum(bbr));
    }
}

/// Linux counts whole segments, rounded up (`bbr_bdp`).
pub(super) fn whole(bbr: &Bbr3Window, bytes: f64) -> f64 {
    if bbr.is_linux() { bbr.mss * libm::ceil(bytes / bbr.mss) } else { bytes }
}

/// What is delivered in an interval, in whole segments.
fn floor(bbr: &Bbr3Window, bytes: f64) -> f64 {
    bbr.mss * libm::floor(bytes / bbr.mss)
}

/// ACK aggregation beyond the bandwidth, bounded (`bbr_ack_aggregation_cwnd`).
pub(super) fn excess(bbr: &Bbr3Window) -> f64 {
    smaller(bbr.linux.extra_acked.get(), floor(bbr, bbr.bw * MAX_AGGREGATION.as_secs()))
}

/// An ACK with losses marks its round, also if one of the losses has ended a probe and thereby
/// reset the mark (`bbr_update_congestion_signals`).
pub(super) fn note_losses(bbr: &mut Bbr3Window, sample: Option<&RateSample>) {
    bbr.bounds.loss_in_round |= sample.is_some_and(|s| s.newly_lost > 0);
}

/// The bandwidth that holds from this ACK on, and ACK aggregation beyond it in two windows of five
/// rounds, one each in Startup (`bbr_update_ack_aggregation`).
pub(super) fn measure_aggregation(bbr: &mut Bbr3Window, ack: &Ack, cwnd: f64) {
    bbr.bw = smaller(bbr.max_bw(), bbr.bounds.bw_lo);
    if ack.rate.is_some() && ack.delivered > 0 {
        let window = if bbr.full.ever { AGGREGATION_WINDOW } else { 1 };
        let excess = bbr.aggregation.on_ack(ack.now, ack.delivered, bbr.bw, cwnd);
        bbr.linux.extra_acked.add(excess, bbr.rounds.started, window);
    }
}

/// Computes the departure time of the next burst after `bytes` are sent.
pub(super) fn note_departure(bbr: &mut Bbr3Window, now: Time, bytes: u32) {
    let (rate, mss) = (bbr.pacing.get(), bbr.mss);
    bbr.linux.departure.on_sent(now, bytes, rate, mss);
}

/// `in_flight` at the departure of the next burst, that one included while the rate is probed
/// (`bbr_packets_in_net_at_edt`).
pub(super) fn in_net_at_departure(bbr: &Bbr3Window, in_flight: u64, now: Time) -> f64 {
    let leaving = if bbr.pacing_gain() > 1.0 { quantum(bbr) } else { 0.0 };
    bbr.linux.departure.in_net(in_flight as f64, leaving, bbr.bw, bbr.mss, now)
}
