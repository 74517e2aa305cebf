//! What a sender does about notices of the link layer: explicit link status notification (yun2009,
//! sections 3 and 4).
//!
//! * ERSN, "the link layer begins to send this segment again": the segment is *held*. While that
//!   lasts, neither duplicate ACKs nor the retransmission timer take it for lost: a timer that
//!   fires for it is set again without back-off, a few times. A hold ends with the segment's
//!   delivery, with an ELN, or after so many timeouts' time.
//! * ELN, "the link layer has given this segment up": it is sent again at once, and the window
//!   stays as it is. An unbroken run of ELNs, without anything being delivered between them, means
//!   that the station is out of reach: then only every other ELN is answered, so that the rate
//!   decays, and the timer sends one segment as a probe, with back-off, without touching the
//!   window.
//!
//! * A SNACK, "this is missing here" (SCPS-TP): each hole is sent again at once, and the window
//!   stays as it is; duplicate ACKs and the timer say what they always say. With ELN it is word of
//!   losses of the radio. Once in a round trip for each segment.
//!
//! A notice counts once for each transmission of a segment in flight, and only if it was made after
//! that transmission (its stamp says so; on the wire, the timestamp that it echoes). Anything else
//! is ignored and counted: it is late, or forged.

use crate::recovery::RecoveryKind;
use crate::recovery::sack_state::SackState;
use crate::scoreboard::{Marks, Scoreboard, Sent};
use crate::sender::{Output, SendReason, Sender, State};
use crate::window::{LossClass, WindowRule};
use lasthop_core::segment::{Flags, Notice, NoticeKind, Segment};
use lasthop_core::snack::Snack;
use lasthop_core::units::{Duration, Time};

/// Numbers of the answer to notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElsnRules {
    /// ELNs in a row that noise may bring; more mean a disconnection (N of yun2009, section 4.2).
    pub run: u32,
    /// How many timeouts in a row are put off for a segment that the link layer is sending again.
    pub holds: u32,
    /// What duplicate ACKs for a segment mean that was sent again on an ELN.
    pub after: AfterEln,
}

/// What duplicate ACKs for a segment mean that was sent again on an ELN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterEln {
    /// Nothing: it is under way. Other losses are found as usual.
    Nothing,
    /// Congestion, as without the ELN: three of them cost a reduction (TCP HACK).
    Congestion,
    /// Nothing, and no other loss is found either until it is delivered or a timeout's time is over
    /// (HACK-fixed).
    Shield,
}

impl ElsnRules {
    /// Two ELNs in a row (yun2009, section 4.2: for frame errors of 20 % and one attempt), three
    /// timeouts.
    pub const DEFAULT: ElsnRules = ElsnRules { run: 2, holds: 3, after: AfterEln::Nothing };
    /// A sender that answers each ELN, whatever the run.
    pub const PLAIN: ElsnRules = ElsnRules { run: u32::MAX, holds: 3, after: AfterEln::Congestion };
    /// One that also takes duplicate ACKs of what it sent again for nothing: the packet list, which
    /// goes by the order of sending.
    pub const TRUST: ElsnRules = ElsnRules { run: u32::MAX, ..ElsnRules::DEFAULT };
    /// As the plain one, with a shield.
    pub const SHIELD: ElsnRules = ElsnRules { after: AfterEln::Shield, ..ElsnRules::PLAIN };
}

/// A segment that the link layer is sending again.
#[derive(Clone, Copy, Debug)]
struct Held {
    seq: u64,
    until: Time,
}

/// A segment that an ELN named and whose delivery is not known yet.
#[derive(Clone, Copy, Debug)]
struct Notified {
    seq: u64,
    /// When it was sent again: its place in the order of sending. `None` while it waits for that.
    at: Option<Time>,
    /// Segments sent after that which have been delivered.
    behind: u32,
}

/// What a sender that listens to the link layer keeps of it.
#[derive(Clone, Debug)]
pub(crate) struct Elsn {
    rules: ElsnRules,
    held: Vec<Held>,
    /// In the order of sending.
    notified: Vec<Notified>,
    /// ELNs since something was delivered.
    run: u32,
    /// Timeouts put off in a row.
    waits: u32,
    /// The segment that the last duplicate ACK was counted against.
    counted: Option<u64>,
    /// The segment that the last ELN ACK without a name was about.
    unnamed: Option<u64>,
}

/// True if `a` was sent after `b`, each given by its time of sending and its offset.
fn is_after(a: (Time, u64), b: (Time, u64)) -> bool {
    a > b
}

impl Elsn {
    pub(crate) fn new(rules: ElsnRules) -> Elsn {
        Elsn {
            rules,
            held: Vec::new(),
            notified: Vec::new(),
            run: 0,
            waits: 0,
            counted: None,
            unnamed: None,
        }
    }

    /// Nothing has been heard that still matters: everything goes as without notices.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.held.is_empty() && self.notified.is_empty()
    }

    /// More ELNs in a row than noise brings: the station is out of reach.
    fn is_disconnected(&self) -> bool {
        self.run > self.rules.run
    }

    /// A segment is delivered, acknowledged or SACKed.
    pub(super) fn on_delivered(&mut self, sent: &Sent) {
        (self.run, self.waits) = (0, 0);
        if self.is_quiet() {
            return;
        }
        self.held.retain(|h| h.seq != sent.seq);
        self.notified.retain(|n| n.seq != sent.seq);
        for n in &mut self.notified {
            let earlier = n.at.is_some_and(|at| is_after((sent.last_sent, sent.seq), (at, n.seq)));
            n.behind += u32::from(earlier);
        }
    }

    /// A segment is sent again: its place is now the last one.
    pub(super) fn on_resent(&mut self, seq: u64, now: Time) {
        if let Some(i) = self.notified.iter().position(|n| n.seq == seq) {
            self.notified.remove(i);
            self.notified.push(Notified { seq, at: Some(now), behind: 0 });
        }
    }

    /// Everything is lost and will be sent again: what was heard no longer matters.
    pub(super) fn forget(&mut self) {
        self.held.clear();
        self.notified.clear();
        self.waits = 0;
        (self.counted, self.unnamed) = (None, None);
    }

    /// Notified segments whose copies are overtaken by `threshold` delivered ones: that is
    /// congestion.
    pub(super) fn take_overtaken(&mut self, threshold: u32) -> Option<u64> {
        let i = self.notified.iter().position(|n| n.behind >= threshold)?;
        Some(self.notified.remove(i).seq)
    }

    /// An ELN has named the segment at `seq`.
    pub(super) fn has_notified(&self, seq: u64) -> bool {
        self.notified.iter().any(|n| n.seq == seq)
    }

    /// Bytes that an ELN named and that wait to be sent again. They are no reason to reduce.
    pub(super) fn pardoned(&self, board: &Scoreboard) -> u64 {
        let waiting = |n: &Notified| {
            board
                .get(n.seq)
                .filter(|s| n.at.is_none() && !s.marks.any(Marks::RESENT.with(Marks::SACKED)))
        };
        self.notified.iter().filter_map(waiting).map(|s| s.end() - s.seq).sum()
    }

    /// FirstUnsacked: of the segments not SACKed the one sent (or sent again) first.
    fn first_unsacked(&self, board: &Scoreboard) -> Option<Sent> {
        let again = self.notified.iter().filter(|n| n.at.is_some()).find_map(|n| board.get(n.seq));
        let once = board
            .iter()
            .find(|s| !s.marks.any(Marks::SACKED.with(Marks::RESENT)) && !self.waits_for(s.seq))
            .copied();
        match (once, again) {
            (Some(a), Some(b)) => {
                Some(if is_after((a.last_sent, a.seq), (b.last_sent, b.seq)) { b } else { a })
            }
            (a, b) => a.or(b),
        }
    }

    /// An ELN named it and it has not been sent again.
    fn waits_for(&self, seq: u64) -> bool {
        self.notified.iter().any(|n| n.seq == seq && n.at.is_none())
    }

    /// What a duplicate ACK with SACK news makes of the count (yun2009, Algorithm 1). `newest` is
    /// the last one sent of the segments that it reports.
    pub(super) fn count(
        &mut self,
        dupacks: u32,
        board: &Scoreboard,
        high_sacked: u64,
        newest: Option<(Time, u64)>,
    ) -> u32 {
        let Some(first) = self.first_unsacked(board) else { return dupacks };
        let una = board.at(0).map_or(first.seq, |s| s.seq);
        // Against what was sent again counts only what was sent after that: the ACK of anything
        // before tells nothing of it.
        let news = first.transmissions == 1
            || newest.is_some_and(|n| is_after(n, (first.last_sent, first.seq)));
        if first.marks.any(Marks::HELD) || !news || (first.seq != una && first.seq >= high_sacked) {
            return dupacks;
        }
        let changed = first.seq != una && self.counted != Some(first.seq);
        self.counted = Some(first.seq);
        if changed { 1 } else { dupacks + 1 }
    }

    /// The first segment was sent again on an ELN, and so many duplicate ACKs are taken for
    /// congestion all the same, or since its shield has worn out. Once for each.
    pub(super) fn confirms_congestion(&mut self, first: u64) -> bool {
        if self.rules.after == AfterEln::Nothing {
            return false;
        }
        let before = self.notified.len();
        self.notified.retain(|n| n.seq != first || n.at.is_none());
        self.notified.len() < before
    }

    /// A copy that answered a notice is under way: sent less than `rto` ago.
    fn is_under_way(&self, seq: u64, now: Time, rto: Duration) -> bool {
        self.notified.iter().any(|n| n.seq == seq && n.at.is_some_and(|at| now < at + rto))
    }

    /// Nothing is to be found lost: the first segment was sent again on an ELN, less than `rto`
    /// ago.
    pub(super) fn suppresses_detection(&self, first: u64, now: Time, rto: Duration) -> bool {
        self.rules.after == AfterEln::Shield && self.is_under_way(first, now, rto)
    }

    /// The segment that the duplicate ACKs counted are about, if it was sent once.
    pub(super) fn accused(&self) -> Option<u64> {
        self.counted.filter(|seq| self.notified.iter().all(|n| n.seq != *seq))
    }
}

impl<W: WindowRule> Sender<W> {
    /// A notice of the link layer.
    #[inline(never)]
    pub(crate) fn on_link_notice(&mut self, now: Time, notice: &Notice, out: &mut impl Output) {
        if self.elsn.is_none() || self.state != State::Established {
            return;
        }
        let known = |s: &&mut Sent| {
            notice.stamp > s.last_sent && notice.stamp <= now && !s.marks.any(Marks::SACKED)
        };
        // After a timeout without SACK everything from snd_nxt on goes out again by itself.
        let named = self.board.find(notice.value).filter(|s| s.seq < self.snd_nxt).filter(known);
        let mark = if notice.kind == NoticeKind::Ersn { Marks::ANNOUNCED } else { Marks::REPORTED };
        let Some(segment) = named.filter(|s| !s.marks.any(mark.with(Marks::REPORTED))) else {
            self.counters.notices_ignored += 1;
            return;
        };
        segment.marks = segment.marks.with(mark);
        let segment = *segment;
        match notice.kind {
            NoticeKind::Ersn => self.hold_segment(now, segment.seq),
            _ => self.on_eln(now, &segment, out),
        }
    }

    /// An ACK tells of a segment that the receiver got damaged. The ACK does not say when that was
    /// sent: an answer cannot come sooner than half of a round trip after the last sending, so one
    /// that does is about an earlier copy.
    pub(crate) fn on_eln_ack(&mut self, now: Time, seq: u64, out: &mut impl Output) {
        let half = Duration(self.rto.srtt().unwrap_or_default().0 / 2);
        let stamp = Time(now.0.saturating_sub(half.0));
        self.on_link_notice(
            now,
            &Notice { kind: NoticeKind::Eln, flow: self.config.flow, value: seq, stamp },
            out,
        );
    }

    /// An ELN ACK that names nothing is about the segment that it asks for, and is answered once
    /// for each (ns-2's `eln_last_rxmit_`): the next one may be of a packet that was under way
    /// before the copy.
    pub(crate) fn first_unnamed(&mut self, ack: u64) -> Option<u64> {
        let first = self.elsn.as_mut().is_none_or(|e| e.unnamed.replace(ack) != Some(ack));
        first.then_some(ack)
    }

    /// The receiver asks for what it misses. No more than a window goes out at once, and nothing
    /// whose copy can still be under way: what is left is asked for again.
    #[inline(never)]
    pub(crate) fn on_snack(
        &mut self,
        now: Time,
        segment: &Segment,
        snack: &Snack,
        out: &mut impl Output,
    ) {
        if self.elsn.is_none() || self.state != State::Established {
            return;
        }
        // The smoothed one is too short while a queue fills: the copies would be asked for before
        // they can have come.
        let round_trip =
            self.rto.srtt().unwrap_or_default() + self.rto.rttvar().unwrap_or_default() * 4;
        let mut room = self.window.cwnd;
        let mut answered = false;
        for hole in snack.holes() {
            let mut seq = hole.start.max(segment.ack);
            // After a timeout without SACK everything from snd_nxt on goes out again by itself.
            while let Some(sent) =
                self.board.get(seq).filter(|s| s.seq < hole.end.min(self.snd_nxt) && room > 0.0)
            {
                seq = sent.end();
                let under_way = sent.transmissions > 1 && now < sent.last_sent + round_trip;
                if under_way || sent.marks.any(Marks::SACKED) {
                    continue;
                }
                room -= (sent.end() - sent.seq) as f64;
                if segment.flags.has(Flags::ELN) {
                    out.classified(sent.seq, sent.transmissions, LossClass::Wireless);
                }
                self.give_up(now, sent.seq, true, out);
                answered = true;
            }
        }
        if answered {
            self.arm(now);
        }
    }

    /// A partial ACK asks for the first segment, and a copy of that, which answered a notice, is
    /// under way.
    pub(super) fn knows_of_copy(&self, now: Time) -> bool {
        self.elsn.as_ref().is_some_and(|e| e.is_under_way(self.snd_una, now, self.rto.rto()))
    }

    /// An ACK that tells of a loss by itself is no duplicate that tells of congestion, nor is one
    /// that asks for a shielded segment.
    pub(super) fn is_excused(&self, now: Time, segment: &Segment) -> bool {
        self.elsn.as_ref().is_some_and(|e| {
            segment.flags.any(Flags::ELN.with(Flags::SNACK))
                || e.suppresses_detection(self.snd_una, now, self.rto.rto())
        })
    }

    fn hold_segment(&mut self, now: Time, seq: u64) {
        self.counters.ersn += 1;
        let wait = self.rto.rto();
        let Some(elsn) = &mut self.elsn else { return };
        let until = (0..elsn.rules.holds).fold(now, |t, _| t + wait);
        elsn.held.push(Held { seq, until });
        if let Some(sent) = self.board.find(seq) {
            sent.marks = sent.marks.with(Marks::HELD);
        }
    }

    fn on_eln(&mut self, now: Time, segment: &Sent, out: &mut impl Output) {
        self.counters.eln += 1;
        let seq = segment.seq;
        let Some(elsn) = &mut self.elsn else { return };
        elsn.run = elsn.run.saturating_add(1);
        // Beyond the run that noise may bring every other one is answered, beginning with the
        // second.
        let answered = !elsn.is_disconnected() || (elsn.run - elsn.rules.run).is_multiple_of(2);
        out.classified(seq, segment.transmissions, LossClass::Wireless);
        self.give_up(now, seq, answered, out);
    }

    /// The last copy of a segment is known to be lost. It is sent again, if that is the answer.
    fn give_up(&mut self, now: Time, seq: u64, answered: bool, out: &mut impl Output) {
        let Some(elsn) = &mut self.elsn else { return };
        elsn.held.retain(|h| h.seq != seq);
        elsn.notified.retain(|n| n.seq != seq);
        elsn.notified.push(Notified { seq, at: None, behind: 0 });
        let mut state = self.sack.take();
        if let Some(s) = &mut state {
            s.lose_reported(&mut self.board, seq);
            if seq == self.snd_una && self.config.recovery.kind == RecoveryKind::Esack {
                // They were about the copy that is known to be lost now.
                (s.dupacks, self.dupacks) = (0, 0);
            }
        }
        if answered {
            self.send_notified(now, seq, SendReason::Notified, state.as_deref_mut(), out);
        }
        self.sack = state;
    }

    /// Sends a segment again without taking it for lost by congestion. It is the last one now in
    /// the order of sending.
    fn send_notified(
        &mut self,
        now: Time,
        seq: u64,
        reason: SendReason,
        state: Option<&mut SackState>,
        out: &mut impl Output,
    ) {
        // What is behind a hole cannot be timed: its ACK waits for the hole.
        self.timing = self.timing.filter(|t| t.0 <= seq);
        self.retransmit(now, seq, reason, out);
        if let Some(s) = state {
            s.resent(&mut self.board, seq, now);
            if let (Some(prr), Some(sent)) = (&mut s.prr, self.board.get(seq)) {
                prr.on_sent(sent.end() - sent.seq);
            }
        }
        if let Some(elsn) = &mut self.elsn {
            elsn.on_resent(seq, now);
        }
        if seq == self.snd_una {
            // The copy has a whole timeout.
            self.arm(now);
        }
    }

    /// ESACK, on a duplicate ACK for a segment that had been SACKed: the receiver has thrown it
    /// away and needs it again (yun2009, Algorithm 1, third case).
    pub(super) fn resend_taken_back(
        &mut self,
        now: Time,
        s: &mut SackState,
        out: &mut impl Output,
    ) {
        let una = self.snd_una;
        if self.config.recovery.kind == RecoveryKind::Esack
            && self.board.at(0).is_some_and(|f| f.marks.any(Marks::SACKED))
        {
            s.take_back(&mut self.board, una);
            s.lose_reported(&mut self.board, una);
            self.send_notified(now, una, SendReason::Recovery, Some(s), out);
        }
    }

    /// Holds that have lasted long enough end.
    pub(super) fn end_holds(&mut self, now: Time, s: Option<&mut SackState>) {
        let Some(elsn) = self.elsn.as_mut().filter(|e| !e.held.is_empty()) else { return };
        let mut lowest = u64::MAX;
        let board = &mut self.board;
        elsn.held.retain(|h| {
            let lasts = h.until > now;
            if !lasts && let Some(sent) = board.find(h.seq) {
                sent.marks = sent.marks.without(Marks::HELD);
                lowest = lowest.min(h.seq);
            }
            lasts
        });
        if let Some(s) = s {
            s.look_again_from(lowest);
        }
    }

    /// A loss that no notice told of is held for one by congestion.
    pub(super) fn say_congestion(&mut self, s: &mut SackState, out: &mut impl Output) {
        if let Some(lost) =
            s.first_waiting(&self.board).and_then(|seq| self.board.get(seq)).filter(|l| l.len > 0)
        {
            out.classified(lost.seq, lost.transmissions, LossClass::Congestion);
        }
    }

    /// `ack` acknowledges what lies below it (senders without SACK).
    pub(super) fn tell_deliveries(&mut self, ack: u64) {
        let Some(elsn) = &mut self.elsn else { return };
        for sent in self.board.iter().take_while(|s| s.end() <= ack) {
            elsn.on_delivered(sent);
        }
    }

    /// The timer has fired: true if that is no sign of congestion, because the link layer is still
    /// at work on the first segment, or nothing has come through for so long that the station must
    /// be out of reach.
    pub(super) fn timeout_is_forborne(&mut self, now: Time, out: &mut impl Output) -> bool {
        let Some(elsn) = self.elsn.as_mut().filter(|_| !self.board.is_empty()) else {
            return false;
        };
        if elsn.is_disconnected() {
            self.counters.timeouts += 1;
            self.rto.back_off();
            let mut state = self.sack.take();
            let una = self.snd_una;
            if let Some(s) = &mut state {
                s.lose_reported(&mut self.board, una);
            }
            self.send_notified(now, una, SendReason::Timeout, state.as_deref_mut(), out);
            self.sack = state;
            return true;
        }
        let held = self.board.at(0).is_some_and(|s| s.marks.any(Marks::HELD));
        if held && elsn.waits < elsn.rules.holds {
            elsn.waits += 1;
            self.counters.timeouts_held += 1;
            self.arm(now);
            return true;
        }
        elsn.forget();
        false
    }
}
