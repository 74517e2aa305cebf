//! Where recovery on SACK blocks meets its additions.

use crate::recovery::RecoveryKind;
use crate::recovery::prr::Prr;
use crate::recovery::sack_state::{Arrival, Phase, SackState};
use crate::recovery::spurious::{News, Verdict};
use crate::sender::{Output, Sender};
use crate::window::{Window, WindowRule};
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::Time;

/// What the additions make of an ACK.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckSummary {
    /// What it tells about the last reduction.
    pub verdict: Verdict,
    /// The window may grow with it.
    pub grows: bool,
}

impl AckSummary {
    /// Nothing.
    pub const USUAL: AckSummary = AckSummary { verdict: Verdict::Usual, grows: true };
}

impl<W: WindowRule> Sender<W> {
    /// There is an addition to which an ACK may tell something now.
    #[inline]
    pub(super) fn expects_news(&self, segment: &Segment) -> bool {
        self.additions.as_ref().is_some_and(|a| {
            !a.spurious.is_idle()
                || a.ncr.is_some()
                || a.dcr.is_some()
                || segment.flags.has(Flags::DSACK)
        })
    }

    /// An ACK has been taken in.
    #[inline(never)]
    pub(super) fn summarize_ack(
        &mut self,
        now: Time,
        segment: &Segment,
        arrival: &Arrival,
        s: &mut SackState,
    ) -> AckSummary {
        let news = News {
            ack: segment.ack,
            acked: arrival.acked,
            fresh_end: arrival.fresh_end,
            highest: segment.ack.max(s.high_sacked),
            echo: arrival.echo,
            ece: segment.flags.has(Flags::ECE),
            dsack: segment.flags.has(Flags::DSACK),
        };
        let verdict = self.judge(&news);
        if verdict == Verdict::Spurious {
            s.lose_nothing(&mut self.board);
            (s.phase, s.prr, s.undo, s.cwr_until) = (Phase::Open, None, None, None);
            self.restore(now, arrival.acked, news.ece);
        }
        let ended = arrival.acked > 0 && self.end_extended(s.sacked() > 0);
        if arrival.acked > 0 {
            self.end_wait();
        }
        if arrival.sacked > 0 && s.phase == Phase::Open {
            self.begin_extended(self.flight());
            if self.wait_for_repair(now) {
                self.end_wait();
                s.lose_first(&mut self.board);
            }
        }
        AckSummary { verdict, grows: verdict != Verdict::Spurious && !ended }
    }

    /// An ECN echo has made the window rule cut the window, which was `before`: it comes down to
    /// that in proportion to what is delivered, until all that had been sent by now is acknowledged
    /// (Linux `tcp_enter_cwr`).
    pub(super) fn begin_cwr(&mut self, before: Window) {
        let target = self.window.cwnd;
        let Some(s) =
            self.sack.as_mut().filter(|_| self.config.recovery.prr && target < before.cwnd)
        else {
            return;
        };
        if self.rule.steers_recovery() {
            return;
        }
        let prr = Prr::new(target, before.bytes(0.0));
        s.prr = Some(if self.profile.whole_segments { prr.in_segments() } else { prr });
        s.cwr_until = Some(self.snd_max);
        self.window.cwnd = before.cwnd;
    }

    /// An ACK up to `ack`, past what had been sent when an ECN echo began to reduce the window,
    /// ends that (Linux `tcp_end_cwnd_reduction`).
    pub(super) fn end_cwr(&mut self, ack: u64) {
        if let Some(s) = self.sack.as_mut().filter(|s| s.cwr_until.is_some_and(|until| ack > until))
        {
            let prr = s.leave_cwr();
            self.window.cwnd = prr.map_or(self.window.cwnd, |p| p.target);
        }
    }

    /// F-RTO: two new segments, or the usual recovery because the timeout was right (RFC 5682,
    /// section 3.1, steps 2b and 3a).
    pub(super) fn act_on(&mut self, now: Time, verdict: Verdict, out: &mut impl Output) {
        match verdict {
            Verdict::SendNew => self.send_two_new(now, out),
            Verdict::Confirmed => self.confirm_timeout(),
            Verdict::Usual | Verdict::Spurious => {}
        }
    }

    /// New data go out for whatever is delivered, however long a loss is waited for, or while the
    /// radio's are repaired.
    pub(super) fn keeps_ack_clock(&self) -> bool {
        let recovery = &self.config.recovery;
        let repairs = recovery.kind == RecoveryKind::Esack
            && self.elsn.as_ref().is_some_and(|e| !e.is_quiet());
        repairs
            || recovery.dcr
            || recovery.ncr.is_some()
            || matches!(recovery.kind, RecoveryKind::PacketList | RecoveryKind::SelectiveRepeat)
    }

    /// The wait for a repair by the link is over: the first segment is lost, and what SACK says
    /// besides.
    pub(super) fn respond_on_sack(&mut self, now: Time, s: &mut SackState, out: &mut impl Output) {
        self.end_wait();
        if s.phase == Phase::Open && s.sacked() > 0 {
            s.lose_first(&mut self.board);
            self.find_losses(now, s);
            self.begin_recovery(now, &Segment::default(), &Arrival::default(), s, out);
            self.apply_prr(self.delivered_by_timer(), false, s);
            self.send_by_pipe(now, s, out);
        }
    }
}
