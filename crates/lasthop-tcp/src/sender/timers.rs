//! The timers of a sender: retransmission, zero-window probe, and one deadline for everything else
//! (pacing, recovery, a held sender); with the estimates that they are derived from.

use crate::profile::Profile;
use crate::rto::{Bytes, RtoEstimator};
use crate::ticks::{LastExpiry, Ticks};
use lasthop_core::units::{Duration, Time};

/// Deadlines and round-trip times of one connection.
#[derive(Clone, Debug)]
pub struct Timers {
    rto: RtoEstimator,
    ticks: Ticks,
    last_expiry: LastExpiry,
    /// The one segment being timed: (its end, when it was sent).
    timing: Option<(u64, Time)>,
    /// The retransmission timer or the zero-window probe, and when it was set.
    deadline: Time,
    armed: Time,
    /// The earliest of the other deadlines, and when it was set.
    aux_deadline: Time,
    aux_armed: Time,
    /// The deadline is that of a zero-window probe; the number of probes sent.
    persist: Option<u32>,
    /// Zero-window probes since the last ACK (Linux `icsk_probes_out`).
    unanswered_probes: u32,
    /// When a sender that a notice holds continues without another one; `NEVER` if none holds it.
    held_until: Time,
    /// Segments sent before this time give no round-trip time.
    rtt_from: Time,
    last_rtt: Option<Duration>,
    /// The first round-trip time of data above this byte restarts the estimates from these (RFC
    /// 4015, step 9).
    reseed: Option<Box<(u64, (Duration, Duration))>>,
}

impl Timers {
    /// No timer runs.
    pub fn new(profile: &Profile, clock_phase: Duration) -> Timers {
        Timers {
            rto: RtoEstimator::new(profile, clock_phase),
            ticks: Ticks::new(profile, clock_phase),
            last_expiry: LastExpiry::default(),
            timing: None,
            deadline: Time::NEVER,
            armed: Time::ZERO,
            aux_deadline: Time::NEVER,
            aux_armed: Time::ZERO,
            persist: None,
            unanswered_probes: 0,
            held_until: Time::NEVER,
            rtt_from: Time::ZERO,
            last_rtt: None,
            reseed: None,
        }
    }

    /// The estimates.
    #[inline]
    pub fn rto(&self) -> &RtoEstimator {
        &self.rto
    }

    /// When timers expire.
    #[inline]
    pub fn ticks(&self) -> Ticks {
        self.ticks
    }

    /// Doubles the retransmission timeout.
    pub fn back_off(&mut self) {
        self.rto.back_off();
    }

    /// Ends the back-off of the retransmission timeout.
    #[inline]
    pub fn end_back_off(&mut self) {
        self.rto.end_back_off();
    }

    /// The SYN was lost (RFC 6298, section 5.7).
    pub fn after_syn_loss(&mut self) {
        self.rto.after_syn_loss();
    }

    /// The earliest deadline, and when it was set.
    #[inline]
    pub fn deadline(&self) -> (Time, Time) {
        if self.aux_deadline < self.deadline {
            (self.aux_deadline, self.aux_armed)
        } else {
            (self.deadline, self.armed)
        }
    }

    /// When the retransmission timer expires, and when it was set.
    #[inline(always)]
    pub fn rto_timer(&self) -> (Time, Time) {
        (self.deadline, self.armed)
    }

    /// When the retransmission timer expires.
    pub fn rto_deadline(&self) -> Time {
        self.deadline
    }

    /// (Re)starts the retransmission timer.
    #[inline]
    pub fn arm(&mut self, now: Time) {
        self.persist = None;
        self.arm_at(now, self.rto.rto());
    }

    /// No timer but that of retransmissions runs.
    pub fn is_plain(&self) -> bool {
        self.persist.is_none() && self.aux_deadline == Time::NEVER
    }

    /// (Re)starts the retransmission timer, where no other timer runs.
    #[inline(always)]
    pub fn arm_plain(&mut self, now: Time) {
        self.arm_at(now, self.rto.rto());
    }

    /// As [`arm`](Self::arm), with an ACK: usually in the tick of the one before.
    #[inline]
    pub fn rearm(&mut self, now: Time) {
        self.persist = None;
        self.deadline = self.ticks.expiry_as(&mut self.last_expiry, now, self.rto.rto());
        self.armed = now;
    }

    /// Sets the deadline `wait` from now, and leaves open which timer it is.
    #[inline]
    pub fn arm_at(&mut self, now: Time, wait: Duration) {
        self.deadline = self.ticks.expiry(now, wait);
        self.armed = now;
    }

    /// A segment leaves: (re)starts the retransmission timer if it does not run.
    #[inline(always)]
    pub fn on_sent(&mut self, now: Time, nothing_outstanding: bool) {
        if self.deadline == Time::NEVER || nothing_outstanding || self.persist.is_some() {
            self.arm(now);
        }
    }

    /// A segment is retransmitted: starts the retransmission timer if no timer runs.
    #[inline]
    pub fn on_retransmitted(&mut self, now: Time) {
        if self.deadline == Time::NEVER {
            self.arm(now);
        }
    }

    /// Sets the deadline itself (of a SYN-ACK).
    pub fn set_deadline(&mut self, now: Time, due: Time) {
        (self.deadline, self.armed) = (due, now);
    }

    /// Stops the retransmission timer.
    pub fn stop(&mut self) {
        self.deadline = Time::NEVER;
    }

    /// Stops the retransmission timer and the zero-window probe.
    #[inline]
    pub fn stop_and_end_persist(&mut self) {
        // A window that was closed over the data in flight is probed from the start if it still is.
        (self.deadline, self.persist) = (Time::NEVER, None);
    }

    /// Stops all timers.
    pub fn stop_all(&mut self) {
        (self.deadline, self.aux_deadline) = (Time::NEVER, Time::NEVER);
    }

    /// Sets the earliest of the other deadlines; one that has passed while the sender was held
    /// expires now.
    #[inline]
    pub fn set_aux_deadline(&mut self, now: Time, at: Time) {
        let at = at.max(now);
        if at != self.aux_deadline {
            (self.aux_deadline, self.aux_armed) = (at, now);
        }
    }

    /// The same, unless an earlier one is set.
    pub fn bring_forward_aux(&mut self, now: Time, at: Time) {
        if at < self.aux_deadline {
            self.set_aux_deadline(now, at);
        }
    }

    /// Clears the earliest of the other deadlines if it has come.
    pub fn take_aux(&mut self, now: Time) -> bool {
        let due = now >= self.aux_deadline;
        if due {
            self.aux_deadline = Time::NEVER;
        }
        due
    }

    /// Zero-window probes sent, if the sender persists.
    #[inline]
    pub fn persist(&self) -> Option<u32> {
        self.persist
    }

    /// Sets the number of zero-window probes sent.
    pub fn set_persist(&mut self, probes: Option<u32>) {
        self.persist = probes;
    }

    /// Another zero-window probe is sent.
    pub fn count_probe(&mut self) {
        self.unanswered_probes += 1;
    }

    /// An ACK answers the probes.
    #[inline]
    pub fn probes_answered(&mut self) {
        self.unanswered_probes = 0;
    }

    /// Zero-window probes since the last ACK.
    pub fn unanswered_probes(&self) -> u32 {
        self.unanswered_probes
    }

    /// Begins to persist: the first probe is sent after a retransmission timeout.
    pub fn begin_persist(&mut self, now: Time) {
        self.persist = Some(0);
        self.aux_deadline = Time::NEVER;
        self.arm_at(now, self.rto.rto());
    }

    /// When a sender that a notice holds continues without another one.
    pub fn held_until(&self) -> Time {
        self.held_until
    }

    /// Sets when a sender that a notice holds continues without another one.
    pub fn set_held_until(&mut self, at: Time) {
        self.held_until = at;
    }

    /// Times the segment that ends at `end`, unless another one is being timed.
    #[inline(always)]
    pub fn time_segment(&mut self, end: u64, now: Time) {
        if self.timing.is_none() {
            self.timing = Some((end, now));
        }
    }

    /// No segment is being timed.
    pub fn stop_timing(&mut self) {
        self.timing = None;
    }

    /// A segment that ends above `seq` is no longer timed: its ACK waits for that of the
    /// retransmission at `seq`.
    pub fn stop_timing_above(&mut self, seq: u64) {
        self.timing = self.timing.filter(|t| t.0 <= seq);
    }

    /// Segments sent before `now` give no round-trip time.
    pub fn ignore_rtt_before(&mut self, now: Time) {
        self.timing = None;
        self.rtt_from = now;
    }

    /// A segment is being timed that `ack` covers.
    #[inline(always)]
    pub fn times_up_to(&self, ack: u64) -> bool {
        self.timing.is_some_and(|t| ack >= t.0)
    }

    /// Ends the timing of the timed segment if `ack` covers it; when it was sent.
    #[inline]
    pub fn take_timed(&mut self, ack: u64) -> Option<Time> {
        let (_, sent) = self.timing.take_if(|t| ack >= t.0)?;
        self.rto.end_back_off();
        Some(sent)
    }

    /// A round-trip time sample of a segment sent at `sent`; `exact` if a timestamp gave it.
    #[inline]
    pub fn sample_rtt(&mut self, rtt: Duration, sent: Time, exact: bool, bytes: Bytes) {
        self.last_rtt = Some(rtt);
        if sent < self.rtt_from {
            return;
        }
        if self.reseed.is_some() && self.reseeds(rtt, bytes) {
            return;
        }
        self.rto.sample(rtt, sent, exact, bytes);
    }

    /// Restarts the estimates with this round-trip time, if its data lie above the byte for that.
    #[cold]
    #[inline(never)]
    fn reseeds(&mut self, rtt: Duration, bytes: Bytes) -> bool {
        let due = self.reseed.take_if(|reseed| bytes.snd_una > reseed.0);
        due.map(|reseed| self.rto.reseed(reseed.1, rtt)).is_some()
    }

    /// The first round-trip time of data above `above` restarts the estimates from `previous`.
    pub fn reseed_above(&mut self, above: u64, previous: (Duration, Duration)) {
        self.reseed = Some(Box::new((above, previous)));
    }

    /// The last round-trip time sample, if [`Self::take_last_rtt`] has not taken it.
    pub fn last_rtt(&self) -> Option<Duration> {
        self.last_rtt
    }

    /// The last round-trip time sample, once.
    #[inline]
    pub fn take_last_rtt(&mut self) -> Option<Duration> {
        self.last_rtt.take()
    }
}
