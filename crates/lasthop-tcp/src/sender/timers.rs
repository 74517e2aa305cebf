//! The timers: retransmission, the probe of a closed window, idle restart, and when to be woken for
//! all of them.

use super::{Output, SendReason, Sender, State};
use crate::profile::{IdleRestart, PersistRule};
use crate::window::WindowRule;
use lasthop_core::segment::Flags;
use lasthop_core::units::{Duration, Time};

impl<W: WindowRule> Sender<W> {
    /// The deadline has come.
    pub fn on_timer(&mut self, now: Time, out: &mut impl Output) {
        if self.held {
            return self.on_timer_while_held(now, out);
        }
        if now >= self.aux_deadline {
            self.aux_deadline = Time::NEVER;
            self.check_app_limited();
            if self.is_shut_out() {
                // Nothing is looked for or probed for behind a closed window; the ACK that opens it
                // sets these timers again.
            } else if self.sack.is_some() {
                self.on_sack_timer(now, out);
            } else if self.sack_ns2.is_some() {
                self.fill_sack_ns2(now, SendReason::Recovery, out);
            } else {
                self.on_response_timer(now, out);
                self.send_after_ack(now, out);
            }
        }
        if now < self.deadline {
            return;
        }
        self.deadline = Time::NEVER;
        self.check_app_limited();
        if let Some(probes) = self.persist {
            let room = u64::from(self.config.mss)
                .min(self.rwnd)
                .min(self.written - self.snd_nxt.min(self.written));
            if room > 0 && self.snd_nxt < self.snd_max {
                // What a timeout has gone back to was inside the window once.
                self.send_next(now, u64::MAX, SendReason::Recovery, out);
                return;
            }
            if room > 0 && self.flight() + room > self.rwnd {
                // It is full of what is in flight, and not closed.
                return self.watch_zero_window(now);
            }
            if room > 0 {
                // A window that stays below half of what it was is used as it is in the end (RFC
                // 1122, section 4.2.3.4).
                return self.emit(now, room as u32, false, SendReason::New, out);
            }
            self.persist = Some(probes + 1);
            self.counters.probes += 1;
            self.send_control(self.snd_una.wrapping_sub(1), Flags::ACK, now, out);
            let doublings = if self.profile.persist_doubles_at_once {
                (probes + 1).min(10)
            } else {
                probes.min(6)
            };
            let wait = Duration(self.rto.rto().0 << doublings).min(self.profile.max_rto);
            self.arm_at(now, wait);
        } else if self.state == State::SynSent {
            self.on_syn_timeout(now, out);
        } else if self.state == State::Established {
            if self.sack.is_some() {
                self.on_sack_timeout(now, out);
            } else if self.sack_ns2.is_some() {
                self.on_sack_ns2_timeout(now, out);
            } else {
                self.on_dupack_timeout(now, out);
            }
        }
    }

    /// When `on_timer` wants to be called, and when that was decided.
    #[inline]
    pub fn deadline(&self) -> (Time, Time) {
        if self.aux_deadline < self.deadline {
            (self.aux_deadline, self.aux_armed)
        } else {
            (self.deadline, self.armed)
        }
    }

    /// When the retransmission timer is due.
    pub(crate) fn rto_deadline(&self) -> Time {
        self.deadline
    }

    /// The earliest deadline of pacing and of what is added to the recovery.
    pub(crate) fn other_deadline(&self) -> Time {
        self.pacing_deadline().min(self.response_due()).min(self.frozen_until)
    }

    /// Sets the earliest of the other deadlines; one that has passed while the sender was held is
    /// due now.
    pub(crate) fn set_aux_deadline(&mut self, now: Time, at: Time) {
        let at = at.max(now);
        if at != self.aux_deadline {
            (self.aux_deadline, self.aux_armed) = (at, now);
        }
    }

    /// (Re)starts the retransmission timer.
    #[inline]
    pub(crate) fn arm(&mut self, now: Time) {
        self.persist = None;
        self.arm_at(now, self.rto.rto());
    }

    #[inline]
    pub(super) fn arm_at(&mut self, now: Time, wait: Duration) {
        self.deadline = now + wait;
        self.armed = now;
    }

    /// After an ACK: the timer runs on if something is outstanding, and in ns-2 always (rule 12).
    #[inline]
    pub(crate) fn rearm_after_ack(&mut self, now: Time) {
        if self.snd_una < self.snd_max || self.profile.idle_restart == IdleRestart::Timer {
            self.arm(now);
        } else {
            // A window that was closed over the data in flight is probed anew if it still is.
            (self.deadline, self.persist) = (Time::NEVER, None);
        }
    }

    /// The receiver has closed its window, and this sender waits with what it has in flight.
    pub(crate) fn is_shut_out(&self) -> bool {
        self.persist.is_some() && self.rwnd == 0 && self.snd_una < self.snd_max
    }

    /// After sending what could be sent: a closed window is probed.
    #[inline(always)]
    pub(crate) fn watch_window(&mut self, now: Time) {
        if self.rwnd < u64::from(self.config.mss) || self.persist.is_some() {
            self.watch_zero_window(now);
        }
    }

    /// A closed receive window with nothing in flight, or with whatever is: probe it (RFC 1122,
    /// section 4.2.2.17).
    #[inline(never)]
    pub(crate) fn watch_zero_window(&mut self, now: Time) {
        let wants = self.written > self.snd_max || self.snd_nxt < self.snd_max;
        let in_flight = self.snd_una < self.snd_max;
        let shut = self.rwnd == 0
            && in_flight
            && self.profile.persist == PersistRule::Always
            && self.state == State::Established;
        let blocked = shut || (self.rwnd < u64::from(self.config.mss) && wants && !in_flight);
        match (blocked, self.persist) {
            (true, None) => {
                self.persist = Some(0);
                self.aux_deadline = Time::NEVER;
                self.arm_at(now, self.rto.rto());
            }
            (false, Some(_)) => {
                self.persist = None;
                self.deadline = Time::NEVER;
                if in_flight {
                    // What waited behind the closed window gives no round-trip time.
                    self.timing = None;
                    self.rtt_from = now;
                    self.arm(now);
                }
            }
            _ => {}
        }
    }

    /// RFC 5681, section 4.1: after an RTO without sending, cwnd restarts.
    pub(super) fn restart_if_idle(&mut self, now: Time) {
        let idle = self.snd_una == self.snd_max
            && self.snd_max > 0
            && now - self.last_sent > self.rto.rto();
        if !idle || self.rule.steers_recovery() {
            return;
        }
        let (cwnd, restart) =
            (self.window.cwnd, self.profile.restart_window.bytes(self.config.mss) as f64);
        match self.profile.idle_restart {
            IdleRestart::Rto => self.window.cwnd = cwnd.min(restart),
            IdleRestart::HalvedPerRto => self.halve_per_rto(now, restart.min(cwnd)),
            IdleRestart::Off | IdleRestart::Timer => {}
        }
    }

    fn halve_per_rto(&mut self, now: Time, least: f64) {
        let mss = f64::from(self.config.mss);
        self.window.ssthresh =
            self.window.ssthresh.max(libm::floor(0.75 * self.window.cwnd / mss) * mss);
        let mut idle = (now - self.last_sent).saturating_sub(self.rto.rto());
        while idle > Duration::ZERO && self.window.cwnd > least {
            self.window.cwnd = libm::floor(self.window.cwnd / 2.0 / mss) * mss;
            idle = idle.saturating_sub(self.rto.rto());
        }
        self.window.cwnd = self.window.cwnd.max(least);
    }
}
