//! Active open by the data receiver, as a client that downloads: its SYN and its retransmissions
//! (Linux `tcp_connect`, `tcp_retransmit_timer`, `tcp_rcv_synsent_state_process`).

use super::Receiver;
use super::syn::{Opening, Phase};
use crate::profile::Profile;
use crate::sender::config::{GaveUp, Output, SendReason};
use crate::timestamps::timestamp;
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::{Duration, Time};

#[allow(clippy::multiple_inherent_impl, reason = "the active open is a file apart")]
impl Receiver {
    /// Lets this end open the connection, under the same profile. `clock_phase`: where its clock
    /// stands at time zero ([`clock_phase`](crate::ticks::clock_phase)).
    pub fn with_active_open(mut self, profile: &Profile, clock_phase: Duration) -> Self {
        self.opening = Some(Box::new(Opening::new(profile, clock_phase)));
        self
    }

    /// It opens the connection itself.
    pub fn opens_actively(&self) -> bool {
        self.opening.is_some()
    }

    /// Sends the SYN, if this end opens the connection and has not begun to.
    pub fn open(&mut self, now: Time, out: &mut impl Output) {
        if !self.reset && self.opening.as_ref().is_some_and(|o| o.phase == Phase::Closed) {
            self.send_syn(now, 0, out);
        }
    }

    /// The connection is established.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// When the SYN was given up; `None` if it was not.
    pub fn gave_up(&self) -> Option<GaveUp> {
        match self.opening.as_ref()?.phase {
            Phase::GaveUp(at) => Some(GaveUp::NotConnected(at)),
            Phase::Closed | Phase::SynSent(_) | Phase::Established => None,
        }
    }

    /// The application gives up a connection that is not established: nothing more is sent, and a
    /// late SYN-ACK is answered with a reset.
    pub fn abort_opening(&mut self) {
        let waits = |o: &Opening| matches!(o.phase, Phase::Closed | Phase::SynSent(_));
        if self.opening.as_deref().is_some_and(waits) {
            self.forget();
        }
    }

    /// A SYN is unanswered and its timer runs.
    pub(super) fn is_connecting(&self) -> bool {
        !self.reset && self.opening.as_ref().is_some_and(|o| matches!(o.phase, Phase::SynSent(_)))
    }

    /// A segment with a SYN, where this end opens the connection: the SYN-ACK, or its
    /// retransmission because the ACK of the first one was lost.
    #[cold]
    pub(super) fn on_syn_ack(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        let Some(opening) = self.opening.as_mut().filter(|_| segment.flags.has(Flags::ACK)) else {
            return;
        };
        match opening.phase {
            Phase::SynSent(_) => {
                opening.phase = Phase::Established;
                // The echo identifies the SYN that was answered (`tcp_ack_update_rtt`).
                let stamped = segment.flags.has(Flags::TIMESTAMPS);
                let since = timestamp(now).wrapping_sub(segment.ts_echo);
                let rtt = Duration::micros(u64::from(since));
                let sent = if stamped { Time(now.0.saturating_sub(rtt.0)) } else { opening.sent };
                self.deadline = Time::NEVER;
                self.begin(now, segment, sent);
                self.send_ack(now, Flags::NONE, out);
            }
            Phase::Established => self.ack_now(now, out),
            Phase::Closed | Phase::GaveUp(_) => {}
        }
    }

    /// The SYN was not answered in time.
    #[cold]
    pub(super) fn on_syn_timeout(&mut self, now: Time, out: &mut impl Output) {
        self.deadline = Time::NEVER;
        let Some(opening) = &mut self.opening else { return };
        let Phase::SynSent(timeouts) = opening.phase else { return };
        if opening.retries > 0 && timeouts >= opening.retries.saturating_add(opening.linear) {
            opening.phase = Phase::GaveUp(now);
            return self.forget();
        }
        self.send_syn(now, timeouts + 1, out);
    }

    fn send_syn(&mut self, now: Time, timeouts: u32, out: &mut impl Output) {
        let Some(opening) = &mut self.opening else { return };
        (opening.phase, opening.sent) = (Phase::SynSent(timeouts), now);
        (self.deadline, self.armed) = (opening.expiry(now, timeouts), now);
        let (flags, stamp) = match self.timestamps {
            true => (Flags::SYN.with(Flags::TIMESTAMPS), timestamp(now)),
            false => (Flags::SYN, 0),
        };
        let segment = Segment {
            flow: self.config.flow,
            to: self.config.to,
            size: self.config.headers + self.ack_bytes,
            window: u32::try_from(self.edge).unwrap_or(u32::MAX),
            ts_value: stamp,
            flags,
            attempt: u16::try_from(timeouts).unwrap_or(u16::MAX).saturating_add(1),
            ..Segment::default()
        };
        out.send(segment, SendReason::Control);
    }
}
