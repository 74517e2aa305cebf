//! Where recovery by duplicate ACKs meets its additions.

use crate::recovery::spurious::{News, Verdict};
use crate::sender::{LastAction, Output, SendReason, Sender};
use crate::window::WindowRule;
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::Time;

impl<W: WindowRule> Sender<W> {
    /// An ACK of new data.
    #[inline(never)]
    pub(super) fn new_ack_with_additions(
        &mut self,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) {
        let news = self.news(segment);
        let verdict = self.judge(&news);
        self.sample_fine_timer(now, segment.ack);
        self.end_response_wait(now);
        if verdict == Verdict::Spurious {
            self.take_new(now, segment);
            self.restore(now, news.acked, news.ece);
            self.check_done();
        } else if self.extended() {
            self.take_new(now, segment);
            self.end_extended(false);
            self.check_done();
        } else if self.last_action == LastAction::DuplicateAcks || self.inflation > 0.0 {
            self.new_ack_after_reduction(now, segment, out);
        } else {
            self.new_ack(now, segment, false);
        }
        match verdict {
            Verdict::SendNew => self.send_two_new(now, out),
            Verdict::Confirmed => self.go_back(),
            Verdict::Usual | Verdict::Spurious => {}
        }
        self.check_fine_timer(now, out);
    }

    /// A duplicate ACK. True if it has been dealt with.
    #[inline(never)]
    pub(super) fn duplicate_with_additions(
        &mut self,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) -> bool {
        if self.judge(&self.news(segment)) == Verdict::Confirmed {
            self.go_back();
            return true;
        }
        let recovery = self.config.recovery;
        if recovery.fine_timer {
            return self.retransmit_overdue(now, segment, out);
        }
        if !self.open_to_loss() || (recovery.ncr.is_none() && !recovery.dcr) {
            return false;
        }
        if recovery.ncr.is_none() {
            if self.wait_for_repair(now) {
                self.respond(now, out);
            } else {
                self.send_one_new(now, out);
                self.set_aux_deadline(now, self.other_deadline());
            }
            return true;
        }
        self.begin_extended(self.flight());
        if self.dupacks < self.loss_threshold() {
            let delivered = u64::from(self.dupacks) * u64::from(self.config.mss);
            // What was sent meanwhile is in the network, too.
            self.extended_transmit(now, self.flight().saturating_sub(delivered), out);
        } else {
            self.leave_extended();
            self.fast_retransmit(now, segment.flags, out);
        }
        true
    }

    /// The wait for a repair by the link is over (DCR): fast retransmit and reduction.
    pub(super) fn respond(&mut self, now: Time, out: &mut impl Output) {
        self.end_response_wait(now);
        if self.open_to_loss() && self.snd_una < self.snd_max {
            self.fast_retransmit(now, Flags::NONE, out);
            self.dupacks = self.dupacks.max(self.profile.dupack_threshold);
            self.fill_window(now, u32::MAX, SendReason::Recovery, out);
        }
    }

    /// The retransmission timer fired and the window was reduced. True if only the first segment is
    /// to be sent again.
    pub(super) fn timeout_with_additions(&mut self, now: Time, recovering: bool) -> bool {
        self.leave_extended();
        self.end_response_wait(now);
        self.fine_timer_cut(now);
        self.enter_f_rto(recovering)
    }

    /// F-RTO, step 3a: everything outstanding is sent again in slow start.
    fn go_back(&mut self) {
        self.dupacks = 0;
        self.snd_nxt = self.snd_una;
        self.confirm_timeout();
    }

    fn end_response_wait(&mut self, now: Time) {
        if self.config.recovery.dcr {
            self.end_wait();
            self.set_aux_deadline(now, self.other_deadline());
        }
    }

    /// Outside of recovery, and free to begin one.
    fn open_to_loss(&self) -> bool {
        self.inflation == 0.0 && !self.in_recovery() && self.may_fast_retransmit()
    }

    fn news(&self, segment: &Segment) -> News {
        let stamped = self.profile.timestamps && segment.flags.has(Flags::TIMESTAMPS);
        let mut place = 0;
        let fresh = loop {
            match self.board.at(place).filter(|s| s.end() <= segment.ack) {
                Some(sent) if sent.transmissions == 1 => break Some(sent.end()),
                Some(_) => place += 1,
                None => break None,
            }
        };
        News {
            ack: segment.ack,
            acked: segment.ack - self.snd_una,
            fresh_end: fresh,
            highest: segment.ack,
            echo: stamped.then_some(segment.ts_echo),
            ece: segment.flags.has(Flags::ECE),
            dsack: segment.flags.has(Flags::DSACK),
        }
    }
}
