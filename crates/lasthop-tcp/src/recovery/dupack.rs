//! Loss recovery by duplicate ACKs: Tahoe, Reno, NewReno, and what a timeout does.

use crate::profile::{GrowthBase, IdleRestart, NewRenoTimer};
use crate::recovery::RecoveryKind;
use crate::scoreboard::Marks;
use crate::sender::{LastAction, Output, SendReason, Sender, bytes_of, timestamp};
use crate::window::{LossKind, WindowRule};
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::{Duration, Time};

impl<W: WindowRule> Sender<W> {
    #[inline]
    pub(crate) fn on_dupack_ack(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        let same_window = u64::from(segment.window) == self.rwnd;
        if segment.ack >= self.snd_una {
            self.set_rwnd(u64::from(segment.window));
        }
        if segment.ack > self.snd_una {
            if self.additions.is_some() {
                self.new_ack_with_additions(now, segment, out);
            } else if self.last_action == LastAction::DuplicateAcks || self.inflation > 0.0 {
                self.new_ack_after_reduction(now, segment, out);
            } else {
                self.new_ack(now, segment, false);
            }
        } else if segment.ack == self.snd_una
            && segment.is_duplicate_ack(same_window)
            && self.snd_una < self.snd_max
            && !segment.flags.has(Flags::ELN.with(Flags::NAMED))
        {
            self.duplicate_ack(now, segment, out);
        }
        self.send_after_ack(now, out);
    }

    /// ns-2 sends nothing by the window between the first duplicate ACK and the threshold, except
    /// in Tahoe.
    #[inline]
    pub(crate) fn send_after_ack(&mut self, now: Time, out: &mut impl Output) {
        let mut limit = u32::MAX;
        if self.dupacks != 0 && self.config.recovery.kind != RecoveryKind::Tahoe {
            if self.dupacks < self.profile.dupack_threshold {
                return;
            }
            if self.config.recovery.kind == RecoveryKind::Newreno && self.profile.recovery_burst > 0
            {
                limit = self.profile.recovery_burst;
            }
        }
        if self.profile.timeout_burst > 0 && self.snd_nxt < self.snd_max {
            limit = limit.min(self.profile.timeout_burst);
        }
        self.fill(now, limit, SendReason::Recovery, out);
    }

    /// An ACK of new data after a fast retransmit: a partial one, or the end of recovery, or later.
    #[inline(never)]
    pub(super) fn new_ack_after_reduction(
        &mut self,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) {
        if self.config.recovery.kind == RecoveryKind::Newreno && self.is_partial(segment.ack) {
            return self.partial_ack(now, segment, out);
        }
        let recovering = self.inflation > 0.0 || self.in_recovery();
        if recovering {
            self.leave_recovery();
        }
        self.new_ack(now, segment, recovering);
    }

    /// An ACK of new data that is not a partial one. If the sender was `recovering`, that ends with
    /// it.
    #[inline(always)]
    pub(super) fn new_ack(&mut self, now: Time, segment: &Segment, recovering: bool) {
        let limited = self.is_cwnd_limited(self.flight());
        let (bytes, rtt) = self.take_new(now, segment);
        if recovering && self.cwnd_preserved {
            self.window.cwnd = self.target;
        } else if recovering && self.profile.exit_sets_cwnd && !self.rule.steers_recovery() {
            let mss = f64::from(self.config.mss);
            self.window.cwnd = self.window.ssthresh.min((self.flight() as f64).max(mss) + mss);
        }
        if (!recovering || self.profile.exit_ack_opens_window) && limited && !self.is_echo(segment)
        {
            let ack = self.report(now, segment, bytes, rtt, recovering);
            self.rule.on_ack(&mut self.window, &ack);
        }
        if recovering {
            self.rule.on_recovered(&mut self.window, now);
        }
        self.check_done();
    }

    /// Takes an ACK of new data in: the bytes by which the window may open and its round-trip time.
    /// The window is left as it is.
    #[inline(always)]
    pub(super) fn take_new(&mut self, now: Time, segment: &Segment) -> (u64, Option<Duration>) {
        self.partial_seen = false;
        self.dupacks = 0;
        self.limited = 0;
        let bytes = segment.ack - self.snd_una;
        let newest =
            if self.config.needs.every_ack { self.newest_rtt(now, segment.ack) } else { None };
        self.advance(segment.ack);
        let timed = self.sample(now, segment);
        let rtt = newest.or(timed);
        self.rearm_after_ack(now);
        let delivered = self.tell_delivery(now, segment, bytes, rtt);
        (if self.profile.growth_base == GrowthBase::Delivered { delivered } else { bytes }, rtt)
    }

    /// In fast recovery, as far as the last reduction tells.
    pub(super) fn in_recovery(&self) -> bool {
        self.last_action == LastAction::DuplicateAcks
            && self.config.recovery.kind != RecoveryKind::Tahoe
            && self.recover.is_some_and(|r| self.snd_una <= r)
    }

    fn leave_recovery(&mut self) {
        if self.last_action == LastAction::DuplicateAcks
            && (self.inflation > 0.0 || self.profile.exit_sets_cwnd)
        {
            self.last_action = LastAction::Exited;
        }
        self.inflation = 0.0;
    }

    #[inline]
    pub(super) fn advance(&mut self, ack: u64) {
        self.snd_una = ack;
        self.snd_nxt = self.snd_nxt.max(ack);
        if self.elsn.is_some() {
            self.tell_deliveries(ack);
        }
        self.board.acknowledge(ack);
    }

    /// Round-trip time: from the timestamp, or of the one segment being timed (Karn's rule: none
    /// that was sent again).
    #[inline(always)]
    pub(super) fn sample(&mut self, now: Time, segment: &Segment) -> Option<Duration> {
        let mut rtt = None;
        if segment.flags.has(Flags::TIMESTAMPS) && self.profile.timestamps {
            let micros = timestamp(now).wrapping_sub(segment.ts_echo);
            let sample = Duration::micros(u64::from(micros));
            self.take_rtt(now, sample, now - sample, true);
            self.rto.end_back_off();
            rtt = Some(sample);
        }
        if let Some((end, sent)) = self.timing
            && segment.ack >= end
        {
            self.timing = None;
            self.rto.end_back_off();
            if rtt.is_none() {
                rtt = Some(now - sent);
                self.take_rtt(now, now - sent, sent, false);
            }
        }
        rtt
    }

    /// NewReno: an ACK of new data below `recover`, in recovery.
    #[inline]
    fn is_partial(&self, ack: u64) -> bool {
        self.last_action == LastAction::DuplicateAcks && self.recover.is_some_and(|r| ack < r)
    }

    /// RFC 6582, section 3.2 step 5.
    #[inline(never)]
    fn partial_ack(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        let mss = f64::from(self.config.mss);
        let bytes = (segment.ack - self.snd_una) as f64;
        let first = !self.partial_seen;
        self.partial_seen = true;
        if !self.profile.partial_window_deflation {
            self.inflation = 0.0;
        } else {
            // What is inflated goes first, cwnd only when that is used up; one segment comes back
            // for the one now sent.
            let from_inflation = bytes.min(self.inflation);
            self.inflation -= from_inflation;
            if !self.rule.steers_recovery() {
                self.window.cwnd = (self.window.cwnd - (bytes - from_inflation)).max(mss);
            }
            if bytes >= mss {
                self.inflation += mss;
            }
        }
        self.advance(segment.ack);
        self.note_lost(now, self.snd_una);
        self.tell_delivery(now, segment, bytes as u64, None);
        if self.timing.is_some_and(|(end, _)| segment.ack >= end) {
            self.timing = None;
            self.rto.end_back_off();
        }
        if first || self.profile.newreno_timer == NewRenoTimer::SlowButSteady {
            self.arm(now);
        }
        if !self.knows_of_copy(now) {
            self.retransmit(now, self.snd_una, SendReason::Recovery, out);
        }
    }

    #[inline(never)]
    fn duplicate_ack(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        if self.elsn.is_some() {
            self.end_holds(now, None);
            if self.is_excused(now, segment)
                || self.board.at(0).is_some_and(|s| s.marks.any(Marks::HELD))
            {
                return;
            }
        }
        self.dupacks += 1;
        self.tell_delivery(now, segment, 0, None);
        self.rule.on_dupack(&mut self.window, now, self.dupacks);
        if self.additions.is_some() && self.duplicate_with_additions(now, segment, out) {
            return;
        }
        let threshold = self.profile.dupack_threshold;
        let mss = f64::from(self.config.mss);
        let tahoe = self.config.recovery.kind == RecoveryKind::Tahoe;
        if self.dupacks == threshold {
            if self.may_fast_retransmit() {
                self.fast_retransmit(now, segment.flags, out);
            }
            if self.profile.inflate_when_blocked && self.profile.inflate && !tahoe {
                self.inflation = f64::from(threshold) * mss;
            }
        } else if self.dupacks > threshold {
            if !tahoe
                && self.profile.inflate
                && (self.profile.inflate_when_blocked
                    || self.last_action == LastAction::DuplicateAcks)
            {
                self.inflation += mss;
            }
        } else {
            self.limited_transmit(now, out);
        }
    }

    /// The guard against a second reduction for one window (ns-2 rules 4 and 11; RFC 6582, section
    /// 3.2 step 2).
    pub(super) fn may_fast_retransmit(&self) -> bool {
        !self.profile.guard_after_rto
            || self.recover.is_none_or(|recover| self.snd_una > recover)
            || self.reno_may_halve_again()
    }

    /// Reno before the `Exited` state had an effect in ns-2: the last reduction was a fast
    /// retransmit, over or not.
    fn reno_may_halve_again(&self) -> bool {
        self.profile.reno_halves_again
            && self.config.recovery.kind == RecoveryKind::Reno
            && matches!(self.last_action, LastAction::DuplicateAcks | LastAction::Exited)
    }

    pub(super) fn fast_retransmit(&mut self, now: Time, flags: Flags, out: &mut impl Output) {
        self.recover = Some(self.snd_max);
        self.last_action = LastAction::DuplicateAcks;
        self.counters.fast_retransmits += 1;
        self.note_lost(now, self.snd_una);
        self.reduce(now, LossKind::DuplicateAcks, flags, None, out);
        self.timing = None;
        self.arm(now);
        if self.config.recovery.kind == RecoveryKind::Tahoe {
            self.window.cwnd = f64::from(self.config.mss);
            self.snd_nxt = self.snd_una;
            self.fill_window(now, 1, SendReason::FastRetransmit, out);
            return;
        }
        self.target = self.window.cwnd;
        self.retransmit(now, self.snd_una, SendReason::FastRetransmit, out);
        // As many segments have left the network.
        if self.profile.inflate {
            self.inflation = f64::from(self.dupacks) * f64::from(self.config.mss);
        }
    }

    /// The timer fired and nothing is outstanding, as in ns-2 (rule 12). Nothing is lost, so
    /// nothing is backed off or repaired.
    pub(super) fn idle_timeout(&mut self, now: Time) -> bool {
        let idle = self.snd_una == self.snd_max;
        if idle && self.profile.idle_restart == IdleRestart::Timer {
            self.recover = Some(self.snd_max);
            if !self.rule.steers_recovery() {
                self.window.cwnd = bytes_of(self.profile.restart_window, self.config.mss);
            }
            self.arm(now);
            self.timing = None;
        }
        idle
    }

    /// The retransmission timer fired (RFC 6298, rules 5.4 to 5.6; RFC 5681, section 3.1).
    pub(crate) fn on_dupack_timeout(&mut self, now: Time, out: &mut impl Output) {
        if self.elsn.is_some() && self.timeout_is_forborne(now, out) {
            return;
        }
        self.inflation = 0.0;
        self.dupacks = 0;
        self.last_action = LastAction::Timeout;
        if self.idle_timeout(now) {
            return;
        }
        let recovering = self.recover.replace(self.snd_max).is_some_and(|r| self.snd_una < r);
        self.counters.timeouts += 1;
        self.note_all_lost(now);
        self.reduce(now, LossKind::Timeout, Flags::NONE, None, out);
        let first_only = (self.additions.is_some() && self.timeout_with_additions(now, recovering))
            || self.profile.timeout_burst > 0;
        self.rto.back_off();
        self.arm(now);
        self.snd_nxt = self.snd_una;
        self.timing = None;
        self.fill_window(now, if first_only { 1 } else { u32::MAX }, SendReason::Timeout, out);
    }
}
