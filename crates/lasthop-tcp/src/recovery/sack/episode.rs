//! Episodes: how a recovery begins, what the window does in it, how it ends or is undone.

use super::arrival::Arrival;
use super::{Phase, SackRecovery};
use crate::profile::HalvingBase;
use crate::recovery::prr::Prr;
use crate::recovery::spurious::dsack::Undo;
use crate::scoreboard::{Marks, Sent};
use crate::sender::config::{Output, SendReason};
use crate::sender::stream::Stream;
use crate::timestamps::timestamp;
use crate::window::{LossClass, LossKind, Window, WindowRule};
use lasthop_core::segment::{Block, Flags, Segment};
use lasthop_core::units::{Duration, Time};

/// Nanoseconds of a tick of Linux's timestamp clock.
const MILLISECOND: u64 = 1_000_000;

#[allow(
    clippy::multiple_inherent_impl,
    reason = "one file for each input: ACKs, episodes, sending, timers"
)]
impl SackRecovery {
    /// The window rule reduces its window.
    pub(super) fn reduce<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        kind: LossKind,
        flags: Flags,
        pipe: Option<u64>,
        out: &mut impl Output,
    ) {
        if let Some(a) = &mut self.additions {
            a.remember(stream, now, kind);
        }
        // With a reduction for each loss, a second loss of one window halves what the first has
        // left.
        let within_window = self.reduces_for_each_loss();
        stream.reduce(now, kind, flags, pipe, within_window, out);
    }

    /// The same for a timeout. If it `keeps` ssthresh, an undo restores the window from before the
    /// first reduction.
    pub(super) fn reduce_by_timeout<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        pipe: u64,
        keeps: bool,
        out: &mut impl Output,
    ) {
        let ssthresh = stream.window().ssthresh;
        if keeps {
            stream.reduce(now, LossKind::Timeout, Flags::NONE, Some(pipe), false, out);
            stream.congestion_mut().set_ssthresh(ssthresh);
        } else {
            self.reduce(stream, now, LossKind::Timeout, Flags::NONE, Some(pipe), out);
        }
        if stream.profile().whole_segments && !stream.congestion().steers_recovery() {
            // Linux `tcp_enter_loss`: room for one segment beside those sent too recently.
            let recent = self.pipe(stream.flight()) as f64;
            let cwnd = stream.window().cwnd + recent;
            stream.congestion_mut().set_cwnd(cwnd);
        }
    }

    /// RFC 6675, section 5, step 4: one reduction for all that is lost of what has been sent by
    /// now.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_recovery<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        arrival: &Arrival,
        out: &mut impl Output,
    ) {
        let (before, una) = (stream.window(), stream.snd_una());
        self.forget_copies(stream);
        // A reduction for an ECN echo continues as this one, and cannot be undone.
        let reducing = self.leave_cwr();
        self.undo = reducing.is_none().then_some(Undo::new(before, una));
        self.board.rack_mut().forget_probe();
        stream.counters_mut().fast_retransmits += u64::from(self.board.waiting() > 0);
        self.end_deferral();
        let pipe = self.pipe(stream.flight());
        self.reduce(stream, now, LossKind::DuplicateAcks, segment.flags, Some(pipe), out);
        if self.hints.is_some() {
            self.classify_as_congestion(stream, out);
        }
        // ssthresh is at least two segments; that is no reason to grow.
        let reduced = stream.window().cwnd.min(before.cwnd);
        self.target = reducing.map_or(reduced, |p| p.target());
        if self.reduces_for_each_loss() {
            // Halved once for each loss it would soon be nothing.
            self.target = self.target.max(f64::from(stream.mss()));
        }
        stream.congestion_mut().set_cwnd(self.target);
        // With a reduction for each loss, a recovery is for the segments that are lost, not for all
        // that were in flight.
        self.recovery_point = match (self.reduces_for_each_loss(), self.phase) {
            (false, _) => stream.snd_max(),
            (true, Phase::Recovery) => self.recovery_point,
            (true, _) => una,
        };
        self.phase = Phase::Recovery;
        // Nothing is retransmitted that was retransmitted in the recovery before.
        let lost_before = self.board.waiting() == 0 && self.has_lost_data(stream);
        let high = if lost_before { self.board.high_resent().max(una) } else { una };
        self.board.set_high_resent(high);
        self.rescued = None;
        self.prr = self.prr_from(stream, before, pipe, arrival, reducing);
        if self.board.waiting() == 0 && !lost_before {
            // The loss was repaired by a probe: there is nothing to repair, only to reduce.
            self.end_episode(stream, now);
        } else {
            if self.prr.is_none() {
                // RFC 6675, section 5, step 4.3: the first segment is retransmitted whatever the
                // pipe is.
                self.retransmit_first(stream, now, SendReason::FastRetransmit, out);
            }
            self.recovery_point = self.recovery_point.max(self.board.high_resent());
            // The first segment is retransmitted now in either case: its copy has a whole timeout.
            stream.timers_mut().arm(now);
        }
    }

    /// The proportional rate reduction of a recovery that begins, if it has one.
    fn prr_from<W: WindowRule>(
        &self,
        stream: &Stream<W>,
        before: Window,
        pipe: u64,
        arrival: &Arrival,
        reducing: Option<Prr>,
    ) -> Option<Prr> {
        if self.recovery.prr_dupacks {
            return Some(Prr::new(self.target, pipe));
        }
        if !self.recovery.prr {
            return self.prr;
        }
        let flight = stream.flight() + arrival.acked;
        let from = match stream.profile().prr_base {
            HalvingBase::Cwnd | HalvingBase::Window => before.bytes(0.0),
            HalvingBase::FlightSize => flight.saturating_sub(self.board.sacked() - arrival.sacked),
        };
        let prr = reducing.unwrap_or(Prr::new(self.target, from));
        Some(if stream.profile().whole_segments { prr.in_segments() } else { prr })
    }

    /// cwnd after an ACK that delivers `delivered` bytes; `safe` if it moved snd_una and reported
    /// no further loss.
    pub(super) fn apply_prr<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        delivered: u64,
        safe: bool,
    ) {
        if self.is_reducing() && !stream.congestion().steers_recovery() {
            self.set_cwnd_by_prr(stream, delivered, safe);
        }
    }

    #[inline(never)]
    fn set_cwnd_by_prr<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        delivered: u64,
        safe: bool,
    ) {
        if delivered == 0 && stream.profile().whole_segments {
            // Linux `tcp_cwnd_reduction`: an ACK that delivers nothing changes nothing.
            return;
        }
        let (pipe, mss) = (self.pipe(stream.flight()), stream.mss());
        if let Some(prr) = &mut self.prr {
            let cwnd = prr.on_ack(delivered, pipe, safe, mss).max(f64::from(mss));
            stream.congestion_mut().set_cwnd(cwnd);
        }
    }

    /// The same as ns-3.44 does it: an ACK that reports something by SACK is taken for a duplicate
    /// ACK, one that moves snd_una for a partial ACK, and one that does both is counted twice.
    #[cold]
    #[inline(never)]
    pub(super) fn reduce_by_dupacks<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        arrival: &Arrival,
        advanced: bool,
    ) {
        if self.phase != Phase::Recovery || stream.congestion().steers_recovery() {
            return;
        }
        let (pipe, mss) = (self.pipe(stream.flight()), stream.mss());
        let Some(prr) = &mut self.prr else { return };
        for duplicate in
            [true, false].into_iter().filter(|d| if *d { arrival.sacked > 0 } else { advanced })
        {
            let delivered = prr.counted_twice(arrival.delivered, duplicate, mss);
            if delivered > 0 {
                let cwnd = prr.on_ack(delivered, pipe, advanced, mss).max(f64::from(mss));
                stream.congestion_mut().set_cwnd(cwnd);
            }
        }
    }

    /// Everything outstanding at its beginning is acknowledged.
    #[cold]
    #[inline(never)]
    pub(super) fn end_episode<W: WindowRule>(&mut self, stream: &mut Stream<W>, now: Time) {
        let was = std::mem::replace(&mut self.phase, Phase::Open);
        self.prr = None;
        self.board.rack_mut().on_recovered();
        if was == Phase::Recovery {
            if !stream.congestion().steers_recovery() {
                stream.congestion_mut().set_cwnd(self.target);
            }
            stream.congestion_mut().on_recovered(now);
        }
    }

    // Reductions for ECN echoes.

    /// An ECN echo: one reduction, in proportion to what is delivered if the profile says so, until
    /// all that had been sent by now is acknowledged (Linux `tcp_enter_cwr`).
    pub fn on_ecn_echo<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        ack: u64,
        proportional: bool,
        out: &mut impl Output,
    ) {
        if self.phase != Phase::Open {
            return;
        }
        self.end_cwr(stream, ack);
        let before = stream.window();
        self.reduce(stream, now, LossKind::Ecn, Flags::ECE, None, out);
        let target = stream.window().cwnd;
        if !proportional
            || !self.recovery.prr
            || target >= before.cwnd
            || stream.congestion().steers_recovery()
        {
            return;
        }
        let prr = Prr::new(target, before.bytes(0.0));
        self.prr = Some(if stream.profile().whole_segments { prr.in_segments() } else { prr });
        self.cwr_until = Some(stream.snd_max());
        stream.congestion_mut().set_cwnd(before.cwnd);
    }

    /// An ACK up to `ack`, past what had been sent when an ECN echo began to reduce the window,
    /// ends that (Linux `tcp_end_cwnd_reduction`).
    pub(super) fn end_cwr<W: WindowRule>(&mut self, stream: &mut Stream<W>, ack: u64) {
        if self.cwr_until.is_some_and(|until| ack > until) {
            self.complete_cwr(stream);
        }
    }

    #[cold]
    #[inline(never)]
    fn complete_cwr<W: WindowRule>(&mut self, stream: &mut Stream<W>) {
        if let Some(prr) = self.leave_cwr() {
            stream.congestion_mut().set_cwnd(prr.target());
        }
    }

    // Undo.

    /// A D-SACK block: RACK's window grows, and a reduction all of whose retransmissions were
    /// spurious is undone.
    #[cold]
    #[inline(never)]
    pub(super) fn on_duplicate_report<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        duplicate: Block,
    ) {
        self.board.rack_mut().on_dsack(stream.snd_una(), stream.snd_max());
        if !self.recovery.dsack_undo {
            return;
        }
        if let Some(undo) = self.undo.take_if(|undo| undo.on_duplicate(duplicate)) {
            self.undo(stream, now, &undo.before());
        }
    }

    /// Outside of a recovery, and as one begins: what is retransmitted next is the first copy
    /// again, unless one is in flight or snd_una itself has been retransmitted (Linux
    /// `tcp_retrans_stamp_cleanup`).
    pub(super) fn forget_copies<W: WindowRule>(&mut self, stream: &Stream<W>) {
        if self.first_copy.is_some() {
            self.look_for_copies(stream);
        }
    }

    #[inline(never)]
    fn look_for_copies<W: WindowRule>(&mut self, stream: &Stream<W>) {
        let board = stream.board();
        let again = board.at(0).is_some_and(|first| first.transmissions > 1);
        if !again && !board.iter().any(|sent| sent.marks.any(Marks::RESENT)) {
            self.first_copy = None;
        }
    }

    /// An ACK of new data echoes the stamp of something sent before the first retransmission (Linux
    /// `tcp_packet_delayed`, in milliseconds), so that the last reduction may have been spurious.
    pub(super) fn is_delayed<W: WindowRule>(&self, stream: &Stream<W>, arrival: &Arrival) -> bool {
        if !stream.profile().timestamp_undo
            || !self.recovery.dsack_undo
            || self.undo.is_none()
            || arrival.acked == 0
        {
            return false;
        }
        let Some(copy) = self.first_copy else { return true };
        arrival.echo.is_some_and(|echo| {
            let age = Duration::micros(u64::from(timestamp(arrival.now).wrapping_sub(echo)));
            let sent = Time(arrival.now.0.saturating_sub(age.0));
            sent.0 / MILLISECOND < copy.0 / MILLISECOND
        })
    }

    /// Such an ACK before the end of the recovery, or after a timeout: the reduction is undone, in
    /// a recovery only if no retransmission is in flight; otherwise only new data are sent
    /// (`tcp_try_undo_partial`, `tcp_try_undo_loss`).
    pub(super) fn undo_if_delayed<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        arrival: &Arrival,
    ) {
        let una = stream.snd_una();
        let ends = self.phase == Phase::Recovery && una >= self.recovery_point;
        if self.phase != Phase::Open && !ends && self.is_delayed(stream, arrival) {
            self.undo_delayed(stream, now, arrival);
        }
    }

    #[cold]
    #[inline(never)]
    fn undo_delayed<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        arrival: &Arrival,
    ) {
        let una = stream.snd_una();
        if self.phase == Phase::Recovery {
            self.board.rack_mut().note_late(una - arrival.acked);
            let copy = |sent: &Sent| sent.marks.any(Marks::RESENT);
            if stream.board().iter().any(copy) {
                self.only_new = true;
                return;
            }
        }
        if let Some(undo) = self.undo.take() {
            self.undo(stream, now, &undo.before());
        }
    }

    /// Such an ACK at the end of the recovery: what else is lost remains so
    /// (`tcp_try_undo_recovery`).
    #[cold]
    #[inline(never)]
    pub(super) fn undo_at_end<W: WindowRule>(&mut self, stream: &mut Stream<W>, now: Time) {
        (self.phase, self.prr) = (Phase::Open, None);
        if let Some(undo) = self.undo.take() {
            stream.counters_mut().undone += 1;
            stream.congestion_mut().on_undo(&undo.before(), now);
        }
    }

    /// The last reduction was spurious: the window `before` it is restored, and what was considered
    /// lost no longer is.
    #[cold]
    #[inline(never)]
    fn undo<W: WindowRule>(&mut self, stream: &mut Stream<W>, now: Time, before: &Window) {
        self.board.lose_nothing(stream.board_mut());
        stream.congestion_mut().note_none_lost();
        if let Some(a) = &mut self.additions {
            a.spurious_mut().settle();
        }
        (self.phase, self.prr, self.cwr_until) = (Phase::Open, None, None);
        stream.counters_mut().undone += 1;
        stream.congestion_mut().on_undo(before, now);
    }

    /// A loss that no hint reported is classified as congestion.
    fn classify_as_congestion<W: WindowRule>(&mut self, stream: &Stream<W>, out: &mut impl Output) {
        let first = self.board.first_waiting(stream.board());
        let lost = first.and_then(|place| stream.board().at(place));
        if let Some(lost) = lost.filter(|l| l.len > 0) {
            out.classified(lost.seq, lost.transmissions, LossClass::Congestion);
        }
    }
}
