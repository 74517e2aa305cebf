//! The smallest round-trip time, and ProbeRTT, which measures it (draft-ietf-ccwg-bbr-06, section
//! 5.3.4).

use super::{Bbr3Window, Feedback, MIN_RTT_AGE, Mode, PROBE_RTT_CWND_GAIN, cycle};
use crate::bbr::model::{Stay, larger};
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::window::{Ack, Window};

pub(super) fn update_min_rtt(bbr: &mut Bbr3Window, now: Time, rtt: Option<Duration>) {
    bbr.probe_rtt_due = now > bbr.probe_rtt_min_at + bbr.settings.probe_rtt_interval;
    if let Some(rtt) = rtt
        && (bbr.probe_rtt_due || bbr.probe_rtt_min.is_none_or(|m| rtt < m))
    {
        (bbr.probe_rtt_min, bbr.probe_rtt_min_at) = (Some(rtt), now);
    }
    let expired = now > bbr.min_rtt_at + MIN_RTT_AGE;
    if let Some(min) = bbr.probe_rtt_min
        && (expired || bbr.min_rtt.is_none_or(|m| min < m || (bbr.is_linux() && min == m)))
    {
        (bbr.min_rtt, bbr.min_rtt_at) = (Some(min), bbr.probe_rtt_min_at);
    }
}

pub(super) fn check(bbr: &mut Bbr3Window, window: &mut Window, ack: &Ack) {
    if bbr.mode != Mode::ProbeRtt && bbr.probe_rtt_due && !bbr.idle_restart {
        if bbr.is_linux() {
            // The state is set first, so that a smaller cwnd than the saved one is not saved.
            bbr.mode = Mode::ProbeRtt;
        }
        bbr.save_cwnd(window);
        (bbr.mode, bbr.stay, bbr.feedback) = (Mode::ProbeRtt, Stay::default(), Feedback::Stopping);
        bbr.rounds.restart(bbr.delivered);
    }
    let low = bbr.in_flight as f64 <= cwnd(bbr);
    if bbr.mode == Mode::ProbeRtt && bbr.stay.on_ack(ack.now, low, &mut bbr.rounds, bbr.delivered) {
        leave(bbr, window, ack.now);
    }
    bbr.idle_restart &= ack.delivered == 0;
}

pub(super) fn cwnd(bbr: &Bbr3Window) -> f64 {
    larger(bbr.bdp(bbr.bw, PROBE_RTT_CWND_GAIN), bbr.least())
}

pub(super) fn leave(bbr: &mut Bbr3Window, window: &mut Window, now: Time) {
    bbr.probe_rtt_min_at = now;
    window.cwnd = window.cwnd.max(bbr.prior_cwnd);
    bbr.bounds.forget_short_term();
    bbr.mode = Mode::Startup;
    if bbr.full.ever {
        // The queue is empty: no time in Down is needed.
        cycle::start_down(bbr, now);
        bbr.mode = Mode::Cruise;
    }
}
