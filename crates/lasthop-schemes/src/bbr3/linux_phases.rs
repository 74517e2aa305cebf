//! Differences of Linux from the draft in the phases: when Startup and Drain end, and what a
//! timeout and a repaired loss do.

use super::linux::in_net_at_departure;
use super::{Bbr3Window, Mode, STARTUP_LOSSES, cycle};
use crate::bbr::model::larger;
use lasthop_core::units::Time;
use lasthop_tcp::window::{Ack, Loss, LossKind, Window};

/// Startup ends when the bandwidth stops growing, or when six ACKs of a round in recovery have
/// reported losses and the loss rate is too high (`bbr_check_loss_too_high_in_startup`). Losses
/// that a timer has found are of no ACK (`rs->losses`), and the ACK that ends recovery is past it.
pub(super) fn check_startup(bbr: &mut Bbr3Window, ack: &Ack) {
    bbr.linux.loss_events += u32::from(bbr.linux.lost_at == Some(ack.now));
    let within = bbr.episode.is_some_and(|(end, _)| ack.snd_una < end);
    let recovering = within && !bbr.linux.timed_out;
    let lossy = ack.rate.is_some_and(|s| bbr.bounds.too_high(s.lost, s.tx_in_flight));
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

/// An episode begins: the state for an undo is saved after the first segments have been marked lost
/// (`tcp_enter_recovery`, `bbr_ssthresh`). A timeout within a recovery saves nothing
/// (`tcp_enter_loss`). A recovery that follows upon a timeout begins with the window before that
/// (`bbr_exit_loss_recovery`).
pub(super) fn save(bbr: &mut Bbr3Window, window: &mut Window, loss: &Loss) {
    if loss.kind != LossKind::Timeout && std::mem::take(&mut bbr.linux.timed_out) {
        window.cwnd = larger(window.cwnd, bbr.prior_cwnd);
    }
    if loss.kind != LossKind::Timeout || bbr.episode.is_none() {
        bbr.bounds.remember();
        bbr.save_cwnd(window);
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
    } else if bbr.linux.lost_at != Some(loss.now) {
        on_repaired(bbr, window, loss);
    }
}

/// A tail loss probe has repaired the loss of a segment.
fn on_repaired(bbr: &mut Bbr3Window, window: &Window, loss: &Loss) {
    bbr.bounds.note_loss(bbr.delivered);
    if bbr.probe_samples {
        let in_flight = bbr.bounds.inflight_latest() + bbr.mss;
        if bbr.bounds.too_high(bbr.mss as u64, in_flight as u64) {
            cycle::end_probe(bbr, loss.now, in_flight, false, window.cwnd);
        }
    }
}
