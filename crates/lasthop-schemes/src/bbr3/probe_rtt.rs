//! The smallest round-trip time, and ProbeRTT, which measures it (draft-ietf-ccwg-bbr-06, section
//! 5.3.4).

use super::{Bbr3Window, Feedback, MIN_RTT_AGE, Mode, PROBE_RTT_CWND_GAIN};
use crate::bbr::model::{Stay, larger};
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::window::{Ack, Window};

impl Bbr3Window {
    pub(super) fn update_min_rtt(&mut self, now: Time, rtt: Option<Duration>) {
        self.probe_rtt_due = now > self.probe_rtt_min_at + self.settings.probe_rtt_interval;
        if let Some(rtt) = rtt
            && (self.probe_rtt_due || self.probe_rtt_min.is_none_or(|m| rtt < m))
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

    pub(super) fn check_probe_rtt(&mut self, window: &mut Window, ack: &Ack) {
        if self.mode != Mode::ProbeRtt && self.probe_rtt_due && !self.idle_restart {
            self.save_cwnd(window);
            (self.mode, self.stay, self.feedback) =
                (Mode::ProbeRtt, Stay::default(), Feedback::Stopping);
            self.rounds.restart(self.delivered);
        }
        let low = self.in_flight as f64 <= self.probe_rtt_cwnd();
        if self.mode == Mode::ProbeRtt
            && self.stay.on_ack(ack.now, low, &mut self.rounds, self.delivered)
        {
            self.leave_probe_rtt(window, ack.now);
        }
        self.idle_restart &= ack.delivered == 0;
    }

    pub(super) fn probe_rtt_cwnd(&self) -> f64 {
        larger(self.bdp(self.bw, PROBE_RTT_CWND_GAIN), self.least())
    }

    pub(super) fn leave_probe_rtt(&mut self, window: &mut Window, now: Time) {
        self.probe_rtt_min_at = now;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        self.bounds.forget_short_term();
        self.mode = Mode::Startup;
        if self.full.ever {
            // The queue is empty: no time in Down is needed.
            self.start_down(now);
            self.mode = Mode::Cruise;
        }
    }
}
