//! What a sender does about hints of the link layer, which enter as a [`LossHint`] whatever notice
//! or flag carried them. The numbers are a scheme's ([`HintEntry`]).
//!
//! * "The link layer begins to retransmit this segment" (ERSN): the segment is *held*. While that
//!   lasts, neither duplicate ACKs nor the retransmission timer take it for lost: a timer that
//!   fires for it is set again without back-off, a few times. A hold ends with the segment's
//!   delivery, with an ELN, or after the time of some timeouts ([`HintRules::holds`]).
//! * "The link layer has given this segment up" (ELN): it is sent again at once, and the window
//!   stays as it is. An unbroken run of ELNs, without anything being delivered between them, means
//!   that the station is out of reach: then only every other ELN is answered, so that the rate
//!   decays, and the timer sends one segment as a probe, with back-off, without touching the
//!   window.
//! * A SNACK, "this is missing here" (SCPS-TP): each hole is sent again at once, and the window
//!   stays as it is; duplicate ACKs and the timer say what they always say. With ELN it is word of
//!   losses of the radio. Once in a round trip for each segment.
//!
//! A hint counts once for each transmission of a segment in flight, and only if it was made after
//! that transmission (its stamp says so; on the wire, the timestamp that it echoes). Anything else
//! is ignored and counted: it is late, or forged.

use std::fmt;

use crate::scoreboard::{Marks, Scoreboard, Sent};
use lasthop_core::segment::{Flags, Notice, NoticeKind, Segment};
use lasthop_core::units::{Duration, Time};

/// How a scheme responds to hints of the link layer, by a name.
///
/// # Examples
///
/// ```
/// use lasthop_tcp::recovery::{AfterHint, HintEntry, Recovery, RecoveryKind, Vocabulary};
///
/// static HINTS: HintEntry =
///     HintEntry { name: "told", run: 2, holds: 3, after: AfterHint::Nothing };
/// static WORDS: Vocabulary = Vocabulary { hints: &[&HINTS], ..Vocabulary::RFC };
///
/// let recovery = WORDS.parse("sack+told=1/3")?;
/// assert_eq!(recovery.hints.unwrap().run, 1);
/// assert_eq!(recovery.to_string(), "sack+told=1/3");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintEntry {
    /// The word of the text form.
    pub name: &'static str,
    /// [`HintRules::run`] without numbers in the text form.
    pub run: u32,
    /// [`HintRules::holds`] without numbers in the text form.
    pub holds: u32,
    /// What duplicate ACKs for a segment mean that was sent again on an ELN.
    pub after: AfterHint,
}

impl HintEntry {
    /// The response with the numbers of the entry.
    pub const fn rules(&'static self) -> HintRules {
        HintRules { entry: self, run: self.run, holds: self.holds }
    }

    /// Reads an addition `name` or `name=RUN/HOLDS`; `None` if `text` is another one.
    ///
    /// # Errors
    ///
    /// If the numbers are missing; the message shows the form.
    pub fn parse(&'static self, text: &str) -> Option<Result<HintRules, String>> {
        let Some((name, numbers)) = text.split_once('=') else {
            return (text == self.name).then(|| Ok(self.rules()));
        };
        if name != self.name {
            return None;
        }
        let rules = numbers.split_once('/').and_then(|(run, holds)| {
            Some(HintRules { entry: self, run: run.parse().ok()?, holds: holds.parse().ok()? })
        });
        Some(rules.ok_or_else(|| {
            format!(
                "`{text}` is not of the form {name}=2/3: ELNs in a row that noise may bring, \
                 timeouts put off"
            )
        }))
    }
}

/// The response of a recovery to hints of the link layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintRules {
    /// The scheme's entry.
    pub entry: &'static HintEntry,
    /// ELNs in a row that noise may bring; more mean a disconnection. `u32::MAX`: each one is
    /// answered, whatever the run.
    pub run: u32,
    /// How many timeouts in a row are put off for a segment that the link layer is sending again.
    pub holds: u32,
}

impl fmt::Display for HintRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HintRules { entry, run, holds } = self;
        f.write_str(entry.name)?;
        if *self == entry.rules() { Ok(()) } else { write!(f, "={run}/{holds}") }
    }
}

/// What duplicate ACKs for a segment mean that was sent again on an ELN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterHint {
    /// Nothing: it is under way. Other losses are found as usual.
    Nothing,
    /// Congestion, as without the ELN: three of them cost a reduction.
    Congestion,
    /// Nothing, and no other loss is found either until it is delivered or a timeout's time is
    /// over.
    Shield,
}

/// What the link layer reports about a segment, whatever the notice or flag that carried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossHint {
    /// What it reports.
    pub kind: HintKind,
    /// First byte of the segment.
    pub seq: u64,
    /// When the report was made.
    pub made: Time,
}

/// What a [`LossHint`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintKind {
    /// The link layer begins to retransmit the segment (ERSN).
    Retransmitting,
    /// The link layer has given the segment up (ELN).
    GivenUp,
}

impl LossHint {
    /// The hint of a notice, if it is one.
    pub fn of(notice: &Notice) -> Option<LossHint> {
        let kind = match notice.kind {
            NoticeKind::Ersn => HintKind::Retransmitting,
            NoticeKind::Eln => HintKind::GivenUp,
            _ => return None,
        };
        Some(LossHint { kind, seq: notice.value, made: notice.stamp })
    }
}

/// What the expiry of the retransmission timer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutMeans {
    /// Congestion, as usual.
    Congestion,
    /// Nothing: the link layer retransmits the first segment.
    LinkAtWork,
    /// The station is out of reach: one segment probes the path, and the window is preserved.
    Disconnected,
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

/// What a sender knows from the link layer.
#[derive(Clone, Debug)]
pub struct LinkHints {
    rules: HintRules,
    held: Vec<Held>,
    /// In the order of sending.
    notified: Vec<Notified>,
    /// ELNs since something was delivered.
    run: u32,
    /// Timeouts put off in a row.
    waits: u32,
    /// The segment that the last ELN ACK without a name was about.
    unnamed: Option<u64>,
}

/// True if `a` was sent after `b`, each given by its time of sending and its offset.
pub fn is_after(a: (Time, u64), b: (Time, u64)) -> bool {
    a > b
}

impl LinkHints {
    /// Nothing is known yet.
    pub fn new(rules: HintRules) -> LinkHints {
        LinkHints { rules, held: Vec::new(), notified: Vec::new(), run: 0, waits: 0, unnamed: None }
    }

    /// No hint matters now: recovery works as without hints.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.held.is_empty() && self.notified.is_empty()
    }

    /// More ELNs in a row than noise brings: the station is out of reach.
    fn is_disconnected(&self) -> bool {
        self.run > self.rules.run
    }

    /// A segment is delivered, acknowledged or SACKed.
    pub fn on_delivered(&mut self, sent: &Sent) {
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
    pub fn on_resent(&mut self, seq: u64, now: Time) {
        if let Some(i) = self.notified.iter().position(|n| n.seq == seq) {
            self.notified.remove(i);
            self.notified.push(Notified { seq, at: Some(now), behind: 0 });
        }
    }

    /// Everything is lost and will be retransmitted: earlier hints no longer matter.
    pub fn forget(&mut self) {
        self.held.clear();
        self.notified.clear();
        self.waits = 0;
        self.unnamed = None;
    }

    /// Notified segments whose copies are overtaken by `threshold` delivered ones: that is
    /// congestion.
    pub fn take_overtaken(&mut self, threshold: u32) -> Option<u64> {
        let i = self.notified.iter().position(|n| n.behind >= threshold)?;
        Some(self.notified.remove(i).seq)
    }

    /// The segments that an ELN named and whose delivery is not known, in the order of
    /// transmission: first byte, and the time of the retransmission unless that is yet to come.
    pub fn notified(&self) -> impl Iterator<Item = (u64, Option<Time>)> {
        self.notified.iter().map(|n| (n.seq, n.at))
    }

    /// An ELN has named the segment at `seq`.
    pub fn has_notified(&self, seq: u64) -> bool {
        self.notified.iter().any(|n| n.seq == seq)
    }

    /// Bytes that an ELN named and that wait to be sent again. They are no reason to reduce.
    pub fn pardoned(&self, board: &Scoreboard) -> u64 {
        let waiting = |n: &Notified| {
            board
                .get(n.seq)
                .filter(|s| n.at.is_none() && !s.marks.any(Marks::RESENT.with(Marks::SACKED)))
        };
        self.notified.iter().filter_map(waiting).map(|s| s.end() - s.seq).sum()
    }

    /// The first segment was retransmitted on an ELN, and duplicate ACKs mean congestion all the
    /// same, or since its shield has expired. Once for each segment.
    pub fn confirms_congestion(&mut self, first: u64) -> bool {
        if self.rules.entry.after == AfterHint::Nothing {
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
    pub fn suppresses_detection(&self, first: u64, now: Time, rto: Duration) -> bool {
        self.rules.entry.after == AfterHint::Shield && self.is_under_way(first, now, rto)
    }

    /// The hint applies: it is about a segment in flight that was last sent before the hint was
    /// made, is not SACKed, and has not been reported for this transmission. Marks the segment.
    /// `snd_nxt`: what lies above will be retransmitted anyway, after a timeout without SACK.
    pub fn accept(
        hint: &LossHint,
        board: &mut Scoreboard,
        now: Time,
        snd_nxt: u64,
    ) -> Option<Sent> {
        let mark = match hint.kind {
            HintKind::Retransmitting => Marks::ANNOUNCED,
            HintKind::GivenUp => Marks::REPORTED,
        };
        let applies = |s: &&mut Sent| {
            s.seq < snd_nxt
                && hint.made > s.last_sent
                && hint.made <= now
                && !s.marks.any(Marks::SACKED.with(mark).with(Marks::REPORTED))
        };
        let segment = board.find(hint.seq).filter(applies)?;
        segment.marks = segment.marks.with(mark);
        Some(*segment)
    }

    /// The link layer retransmits the segment at `seq`: it is held for some timeouts of `rto`.
    pub fn hold(&mut self, board: &mut Scoreboard, seq: u64, now: Time, rto: Duration) {
        let until = (0..self.rules.holds).fold(now, |t, _| t + rto);
        self.held.push(Held { seq, until });
        if let Some(sent) = board.find(seq) {
            sent.marks = sent.marks.with(Marks::HELD);
        }
    }

    /// The link layer has given a segment up. True if the segment is retransmitted at once: beyond
    /// the run that noise may bring only every other one is, beginning with the second.
    pub fn answers(&mut self) -> bool {
        self.run = self.run.saturating_add(1);
        !self.is_disconnected() || (self.run - self.rules.run).is_multiple_of(2)
    }

    /// The last copy of the segment at `seq` is known to be lost.
    pub fn on_given_up(&mut self, seq: u64) {
        self.held.retain(|h| h.seq != seq);
        self.notified.retain(|n| n.seq != seq);
        self.notified.push(Notified { seq, at: None, behind: 0 });
    }

    /// An ELN ACK that names no segment is about the one that it asks for, and is answered once for
    /// each (ns-2's `eln_last_rxmit_`): the next one may be of a packet that was in flight before
    /// the copy.
    pub fn first_unnamed(&mut self, ack: u64) -> bool {
        self.unnamed.replace(ack) != Some(ack)
    }

    /// Ends the holds that have lasted long enough. The lowest segment whose hold ended; `u64::MAX`
    /// if none has. `None` if there are no holds.
    pub fn end_holds(&mut self, board: &mut Scoreboard, now: Time) -> Option<u64> {
        if self.held.is_empty() {
            return None;
        }
        let mut lowest = u64::MAX;
        self.held.retain(|h| {
            let lasts = h.until > now;
            if !lasts && let Some(sent) = board.find(h.seq) {
                sent.marks = sent.marks.without(Marks::HELD);
                lowest = lowest.min(h.seq);
            }
            lasts
        });
        Some(lowest)
    }

    /// `ack` acknowledges what lies below it (senders without SACK).
    pub fn on_acknowledged(&mut self, board: &Scoreboard, ack: u64) {
        for sent in board.iter().take_while(|s| s.end() <= ack) {
            self.on_delivered(sent);
        }
    }

    /// A copy of the segment at `seq`, which answered a hint, is in flight: a partial ACK that asks
    /// for the segment is no reason for another one.
    pub fn has_copy_in_flight(&self, seq: u64, now: Time, rto: Duration) -> bool {
        self.is_under_way(seq, now, rto)
    }

    /// An ACK that itself reports a loss is no duplicate that means congestion, nor is one that
    /// asks for a shielded segment.
    pub fn excuses(&self, segment: &Segment, first: u64, now: Time, rto: Duration) -> bool {
        segment.flags.any(Flags::ELN.with(Flags::SNACK))
            || self.suppresses_detection(first, now, rto)
    }

    /// The retransmission timer has expired while segments are in flight.
    pub fn on_timeout(&mut self, board: &Scoreboard) -> TimeoutMeans {
        if self.is_disconnected() {
            return TimeoutMeans::Disconnected;
        }
        let held = board.at(0).is_some_and(|s| s.marks.any(Marks::HELD));
        if held && self.waits < self.rules.holds {
            self.waits += 1;
            return TimeoutMeans::LinkAtWork;
        }
        self.forget();
        TimeoutMeans::Congestion
    }
}
