//! The data receiver: reassembly, ACKs, and the receive window.

mod acks;
mod claims;
mod compression;
mod discard;
mod growth;
mod handshake;
mod linux_acks;
mod misbehaviour;
mod opening;
mod plain;
mod reason;
mod reset;
pub(crate) mod rule;
mod syn;
mod window;

pub use misbehaviour::Misbehaviour;
pub use reason::Discard;
pub use rule::{Held, ReceiverConfig, ReceiverRule, Reply};

use self::compression::{Compression, DataArrived, MOST_RANGES};
use self::growth::{Arrived, WindowGrowth, since_stamp};
use self::linux_acks::{LinuxAcks, Taken as DataTaken, When};
use self::syn::Opening;
use crate::accurate_ecn::MarkEcho;
use crate::loss::LossClass;
use crate::profile::{DelayedAckRule, Profile, SequenceCheck, WindowUpdate};
use crate::reassembly::Reassembly;
use crate::sender::config::Output;
use crate::syn_acks::SynAcks;
use crate::timestamps::{Paws, timestamp};
use lasthop_core::segment::{Block, Flags, Notice, NoticeKind, Segment};
use lasthop_core::snack::Snack;
use lasthop_core::units::{Duration, Time};

/// A TCP data receiver.
pub struct Receiver {
    config: ReceiverConfig,
    delay: Option<Duration>,
    delay_rule: DelayedAckRule,
    /// The ACK engine of Linux, if that says what is delayed.
    linux_acks: Option<Box<LinuxAcks>>,
    /// The deadline is that of compressed SACKs.
    compressing: bool,
    timestamps: bool,
    ack_bytes: u32,
    full_handshake: bool,
    rcv_nxt: u64,
    /// What arrived above rcv_nxt.
    ahead: Reassembly,
    /// Blocks that fit into an ACK, bytes that the option takes besides them, and whether
    /// duplicates are reported; 0 blocks without SACK.
    sack_blocks: usize,
    sack_bytes: u32,
    dsack: bool,
    /// A duplicate that the next ACK reports.
    duplicate: Option<Block>,
    /// The scheme's part, if it has one.
    rule: Option<Box<dyn ReceiverRule>>,
    /// What it adds to the next ACK.
    marks: Flags,
    reported: u32,
    /// The segment that the next ACK names, if its flags say that it does.
    named: u64,
    /// What the next ACK asks for.
    snack: Snack,
    /// When the rule wants to be called, and when that was decided.
    wake: (Time, Time),
    /// What it feeds back of marks.
    echo: MarkEcho,
    /// In-order bytes that the application has not read (manual reading only).
    unread: u64,
    /// What the buffer is limited to now (relays), bytes.
    window_limit: u64,
    /// How far the window has grown, if it follows the sender.
    growth: Option<Box<WindowGrowth>>,
    /// Which ACKs with SACK blocks are held back, if some are.
    compression: Option<Box<Compression>>,
    /// Right edge of the window as last advertised.
    edge: u64,
    /// The edge moves by at least as much at a time, bytes (an application that reads slowly).
    edge_step: u64,
    /// Acknowledge no further than this.
    ack_limit: u64,
    /// The window is closed, whatever there is room for.
    shut: bool,
    pending: bool,
    deadline: Time,
    armed: Time,
    paws: Paws,
    sequence_check: SequenceCheck,
    window_update: WindowUpdate,
    challenge_acks: bool,
    invalid_ratelimit: Duration,
    /// The last ACK to which that limit applies.
    last_invalid: Option<Time>,
    last_ack: u64,
    fin_at: Option<u64>,
    open: bool,
    /// The timer of the SYN-ACK, if the receiver retransmits it.
    syn_acks: Option<SynAcks>,
    /// The SYN of an active open, if this end opens the connection.
    opening: Option<Box<Opening>>,
    /// What it claims against the truth.
    misbehaviour: Option<Misbehaviour>,
    /// Broken off, by either side.
    reset: bool,
    /// Open, every segment acknowledged at once, read at once, no FIN seen.
    usual: bool,
    /// Open, read at once, no FIN seen, nothing missing or to be echoed, and ACKs are those of
    /// Linux, or there are no timestamps.
    plain: bool,
    /// As `plain`, but something may be missing. Without Linux' ACKs, what has arrived beyond it is
    /// not reported.
    plain_beyond: bool,
    /// The window that the buffer has room for while `plain` or `plain_beyond` holds.
    plain_window: u64,
    duplicates: u64,
}

impl Receiver {
    /// A listening receiver.
    pub fn new(
        config: ReceiverConfig,
        profile: &Profile,
        rule: Option<Box<dyn ReceiverRule>>,
    ) -> Self {
        // A timestamp takes the room of one block (RFC 2018, section 3).
        let most = profile.max_sack_blocks.min(if profile.timestamps { 3 } else { 4 });
        // A relay's window says what its buffer has room for.
        let grows = profile.receive_window_grows && !config.manual_read;
        let growth = grows.then(|| {
            let growth = WindowGrowth::new(config.buffer, profile.receive_rtt, profile.sack);
            Box::new(growth.with_segments(config.mss.into()))
        });
        let first = growth.as_ref().map_or(config.buffer, |g| g.offered());
        let linux_delay = profile
            .delayed_ack
            .limit()
            .filter(|_| profile.delayed_ack_rule == DelayedAckRule::Linux);
        Receiver {
            delay: profile.delayed_ack.limit(),
            delay_rule: profile.delayed_ack_rule,
            linux_acks: linux_delay.map(|delay| Box::new(LinuxAcks::new(delay))),
            compressing: false,
            timestamps: profile.timestamps,
            ack_bytes: if profile.timestamps { profile.timestamp_ack_bytes } else { 0 },
            full_handshake: profile.full_handshake,
            window_limit: config.buffer,
            edge: first,
            edge_step: 0,
            growth,
            compression: (profile.sack_compression && profile.sack).then(Box::default),
            config,
            rcv_nxt: 0,
            ahead: Reassembly::remembering(if profile.sack_forgets {
                most as usize
            } else {
                usize::MAX
            }),
            sack_blocks: if profile.sack { most as usize } else { 0 },
            sack_bytes: profile.sack_option_bytes,
            dsack: profile.dsack,
            duplicate: None,
            rule,
            marks: Flags::NONE,
            reported: 0,
            named: 0,
            snack: Snack::NONE,
            wake: (Time::NEVER, Time::ZERO),
            echo: MarkEcho::new(profile),
            unread: 0,
            ack_limit: u64::MAX,
            shut: false,
            pending: false,
            deadline: Time::NEVER,
            armed: Time::ZERO,
            paws: Paws::new(profile),
            sequence_check: profile.sequence_check,
            window_update: profile.window_update,
            challenge_acks: profile.challenge_acks,
            invalid_ratelimit: profile.invalid_ratelimit,
            last_invalid: None,
            last_ack: 0,
            fin_at: None,
            open: false,
            syn_acks: (profile.synack_retries > 0).then(|| SynAcks::new(profile)),
            opening: None,
            misbehaviour: None,
            reset: false,
            usual: false,
            plain: false,
            plain_beyond: false,
            plain_window: 0,
            duplicates: 0,
        }
    }

    /// A segment from the sender. Returns the in-order bytes that it makes available: (first
    /// offset, count).
    #[inline]
    pub fn on_segment(
        &mut self,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) -> (u64, u64) {
        let discard = self.discards(now, segment);
        self.on_judged_segment(now, segment, discard, out)
    }

    /// As [`on_segment`](Receiver::on_segment), for a host that has called
    /// [`discards`](Receiver::discards) for the same segment and time: `discard` is its answer.
    #[inline]
    pub fn on_judged_segment(
        &mut self,
        now: Time,
        segment: &Segment,
        discard: Option<Discard>,
        out: &mut impl Output,
    ) -> (u64, u64) {
        let before = self.rcv_nxt;
        let next = before + u64::from(segment.len);
        let in_order = segment.flags.without(Flags::ECT.with(Flags::ECT1)) == Flags::ACK
            && segment.seq == before
            && segment.len > 0
            && next <= self.edge;
        if in_order && self.usual && self.ahead.is_empty() {
            self.rcv_nxt = next;
            self.acknowledge(now, Flags::NONE, out);
            return (before, next - before);
        }
        if self.reports_beyond() && self.expects_segment(segment) {
            self.take_plain_segment(now, segment, out);
            return (before, next - before);
        }
        self.on_other_segment(now, segment, discard, out)
    }

    /// Any segment but the next one in the usual course of things.
    #[inline(never)]
    fn on_other_segment(
        &mut self,
        now: Time,
        segment: &Segment,
        discard: Option<Discard>,
        out: &mut impl Output,
    ) -> (u64, u64) {
        let in_order = self.process_other_segment(now, segment, discard, out);
        self.update_plain();
        in_order
    }

    fn process_other_segment(
        &mut self,
        now: Time,
        segment: &Segment,
        discard: Option<Discard>,
        out: &mut impl Output,
    ) -> (u64, u64) {
        let before = self.rcv_nxt;
        if discard == Some(Discard::NoConnection) {
            self.send_reset(out);
        } else if let Some(discard) = discard.filter(|d| !self.is_shown_to_rule(*d)) {
            self.on_confirmed();
            self.on_discard(now, segment, discard, out);
        } else if self.reset || segment.flags.has(Flags::RST) {
            self.on_stray(segment, out);
        } else if segment.flags.has(Flags::SYN) {
            match self.opening {
                Some(_) => self.on_syn_ack(now, segment, out),
                None => self.on_syn(now, segment, out),
            }
        } else if self.open {
            self.on_confirmed();
            self.on_data(now, segment, discard.is_some(), out);
        }
        (before, self.rcv_nxt - before)
    }

    /// A segment of the open connection. `beyond`: its data end beyond the window or after the FIN.
    fn on_data(&mut self, now: Time, segment: &Segment, beyond: bool, out: &mut impl Output) {
        if let Some(acks) = &mut self.linux_acks {
            acks.on_established(now);
        }
        let (start, end) = (segment.seq, segment.seq.wrapping_add(u64::from(segment.len)));
        let expected = self.next_expected();
        let bare = segment.len == 0 && !segment.flags.has(Flags::FIN);
        // RFC 7323, section 4.3: the stamp of the first segment not yet acknowledged is the one to
        // echo.
        if segment.flags.has(Flags::TIMESTAMPS) && start <= self.last_ack {
            self.paws.update(now, segment.ts_value, bare, end >= self.last_ack);
        }
        if bare {
            return self.on_bare_ack(now, start, out);
        }
        let silent = self.ask_rule(now, segment, out);
        let segments = segment.len.div_ceil(self.config.mss.max(1)).max(1);
        let congested = self.echo.on_segment(segment.flags, segments);
        let fin = !beyond && self.takes_fin(segment, end);
        if beyond || (segment.len == 0 && !fin) {
            // Beyond the window or the end of the data, or nothing: answered.
            return self.ack_now(now, out);
        }
        let before = self.rcv_nxt;
        let clean = start == before && self.ahead.is_empty();
        let ranges = if self.compression.is_some() { self.ahead.ranges() } else { 0 };
        let duplicates = self.duplicates;
        self.take(start, end + u64::from(fin), expected);
        if self.config.manual_read {
            // What has come takes its room until it is read: the right edge of the window never
            // moves back.
            let came = self.rcv_nxt - before;
            self.unread += came;
            self.window_limit = self.window_limit.saturating_sub(came);
        }
        let stamp = if segment.flags.has(Flags::TIMESTAMPS) { segment.ts_echo } else { 0 };
        let grew = self.duplicates == duplicates
            && self.grow_window(now, segment.len, stamp, start > before, self.rcv_nxt - before);
        let arrived = DataArrived { now, end, len: segment.len, stamp, clean, grew, ranges };
        let wait = self.ack_wait(&arrived);
        let quiet = silent || self.withholds(clean);
        self.answer(now, segment, quiet, congested, wait, out);
    }

    /// The ACK of a segment that has been taken in: at once, after a while (`wait`), or, if
    /// `quiet`, none. A FIN, a change of the ECN echo, and holes to be asked for do not wait.
    fn answer(
        &mut self,
        now: Time,
        segment: &Segment,
        quiet: bool,
        congested: bool,
        wait: Option<Duration>,
        out: &mut impl Output,
    ) {
        let fin = self.finished();
        let urgent = self.ask_for_holes(now, Some(segment)) || congested || fin;
        match (self.delay, wait) {
            _ if quiet && !urgent => {}
            (Some(_), Some(due)) if !urgent => self.delay_ack(now, due),
            _ => self.ack_now(now, out),
        }
    }

    /// True if the segment, whose data end at `end`, has the FIN. None counts that contradicts what
    /// has arrived.
    fn takes_fin(&mut self, segment: &Segment, end: u64) -> bool {
        if !segment.flags.has(Flags::FIN) {
            return false;
        }
        if self.fin_at.is_none() && end >= self.ahead.highest().unwrap_or(self.rcv_nxt) {
            self.fin_at = Some(end);
            self.usual = false;
        }
        self.fin_at == Some(end)
    }

    /// Takes in the sequence numbers from `start` to `end`, that of a FIN included, and notes which
    /// of them it already had. `expected`: the first that it had not.
    fn take(&mut self, start: u64, end: u64, expected: u64) {
        let highest = self.ahead.highest().unwrap_or(expected);
        let taken = self.ahead.take(start, end, expected);
        self.rcv_nxt = self.fin_at.map_or(taken.next, |fin| taken.next.min(fin));
        self.duplicate = taken.duplicate.filter(|_| self.dsack);
        self.duplicates += u64::from(taken.duplicate == Some(Block { start, end }));
        if self.misbehaviour.is_some() {
            let claimed = self.claimed_duplicate(Block { start, end }, highest);
            self.duplicate = claimed.or(self.duplicate);
        }
    }

    /// How long the ACK of a segment that has just been taken in may wait; `None`: it goes out at
    /// once.
    fn ack_wait(&mut self, arrived: &DataArrived) -> Option<Duration> {
        let &DataArrived { now, end, len, stamp, clean, grew, ranges } = arrived;
        let delay = self.delay?;
        let missing = !self.ahead.is_empty();
        let Some(acks) = &mut self.linux_acks else {
            let may_wait = match self.delay_rule {
                DelayedAckRule::HighestInOrder => end == self.rcv_nxt && !missing,
                DelayedAckRule::Rfc5681 | DelayedAckRule::Linux => clean,
            };
            // Two segments that came as one frame are acknowledged at once (Linux
            // `__tcp_ack_snd_check`).
            if may_wait && !self.pending && len <= self.config.mss {
                return Some(delay);
            }
            self.compression.as_ref()?;
            return self.compress(now, stamp, ranges);
        };
        let taken = DataTaken {
            now,
            len: u64::from(len.min(self.config.mss)),
            window: self.edge.saturating_sub(self.last_ack),
            grew,
            duplicate: self.duplicate.is_some(),
            filled: !missing && self.rcv_nxt > end,
            missing: missing || end > self.rcv_nxt,
            unacknowledged: self.rcv_nxt.saturating_sub(self.last_ack),
        };
        match acks.on_data(&taken) {
            When::Now => None,
            When::Delayed(wait) => Some(wait),
            When::Compressible => self.compress(now, stamp, ranges),
        }
    }

    /// How long the ACK of an arrival that only reports more data beyond a hole is held back (Linux
    /// `__tcp_ack_snd_check`); `None`: not at all. `stamp`: the timestamp that the arrival echoes
    /// (0: none); `ranges`: the ranges beyond holes before it.
    #[inline(always)]
    fn compress(&mut self, now: Time, stamp: u32, ranges: usize) -> Option<Duration> {
        let compression = self.compression.as_mut()?;
        if self.timestamps && stamp != 0 {
            compression.sample(Duration::micros(u64::from(timestamp(now).wrapping_sub(stamp))));
        }
        let one_more = ranges >= MOST_RANGES && self.ahead.ranges() > ranges;
        let advanced = self.rcv_nxt > self.last_ack + u64::from(self.config.mss);
        if self.ahead.is_empty() || self.duplicate.is_some() || one_more || advanced {
            return None;
        }
        // Not as the minimum over an array of both: that was compiled to 500 instructions.
        let by_window = self.growth.as_ref().and_then(|g| g.rtt());
        let by_handshake = self.linux_acks.as_ref().and_then(|a| a.rtt());
        let rtt = match (by_window, by_handshake) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let wait = compression.wait(self.rcv_nxt, rtt)?;
        self.compressing = true;
        Some(wait)
    }

    /// The ACK goes out after `wait`, unless one is due earlier.
    fn delay_ack(&mut self, now: Time, wait: Duration) {
        self.pending = true;
        if now + wait < self.deadline {
            (self.deadline, self.armed) = (now + wait, now);
        }
    }

    /// A segment with `bytes` of payload has been taken in, which echoes `stamp` (0: none), and
    /// `came` bytes are now in order. True if the window that is offered grew.
    #[inline(always)]
    fn grow_window(&mut self, now: Time, bytes: u32, stamp: u32, ahead: bool, came: u64) -> bool {
        let Some(growth) = &mut self.growth else { return false };
        let before = growth.offered();
        let echo = (self.timestamps && stamp != 0).then(|| since_stamp(now, stamp));
        let (len, next) = (u64::from(bytes.min(self.config.mss)), self.rcv_nxt);
        let highest = self.ahead.highest().unwrap_or(next).max(next);
        let held = self.ahead.bytes().saturating_sub(if ahead { len } else { 0 }) + came;
        let read = next - self.unread;
        let window = self.edge.saturating_sub(self.last_ack);
        let frame = u64::from(bytes);
        growth.on_data(&Arrived {
            now,
            len,
            frame,
            next,
            read,
            highest,
            ahead,
            held,
            window,
            echo,
        });
        growth.offered() > before
    }

    /// What the scheme makes of a segment with data; true if it wants no ACK.
    fn ask_rule(&mut self, now: Time, segment: &Segment, out: &mut impl Output) -> bool {
        let Some(rule) = &mut self.rule else { return false };
        let highest = self.ahead.highest().unwrap_or(self.rcv_nxt);
        let reply = rule.on_data(now, segment, self.rcv_nxt, highest);
        (self.marks, self.named, self.reported) = (reply.flags, segment.seq, reply.report);
        if reply.said != LossClass::Unclassified && segment.end() <= self.edge {
            (highest..segment.seq)
                .step_by(segment.len.max(1) as usize)
                .for_each(|missing| out.classified(missing, 1, reply.said));
        }
        reply.silent
    }

    /// Lets the scheme ask for what is missing, on the arrival of a segment or by its timer; true
    /// if it does.
    fn ask_for_holes(&mut self, now: Time, segment: Option<&Segment>) -> bool {
        let Some(rule) = &mut self.rule else { return false };
        let held = Held::new(self.rcv_nxt, &self.ahead);
        let asked = match segment {
            Some(segment) => rule.asks(now, segment, &held).map(|snack| (snack, self.marks)),
            None => rule.on_timer(now, &held),
        };
        let due = rule.deadline();
        if due != self.wake.0 {
            self.wake = (due, now);
        }
        let Some((snack, flags)) = asked else { return false };
        (self.snack, self.marks) = (snack, flags.with(Flags::SNACK));
        true
    }

    /// A scheme has a part in it.
    pub fn has_rule(&self) -> bool {
        self.rule.is_some()
    }

    /// It tells causes of losses apart.
    pub fn classifies(&self) -> bool {
        self.rule.as_ref().is_some_and(|rule| rule.classifies())
    }

    /// The next sequence number: a FIN that all data have preceded has one, too (RFC 9293, section
    /// 3.4).
    fn next_expected(&self) -> u64 {
        self.rcv_nxt + u64::from(self.finished())
    }

    /// True if every byte of [start, end) has arrived, the FIN after the last byte included.
    #[inline]
    pub fn has(&self, start: u64, end: u64) -> bool {
        end <= self.next_expected() || self.ahead.has(start.max(self.rcv_nxt), end)
    }

    /// True if everything that occupies sequence numbers in the segment has arrived: its bytes, its
    /// SYN, its FIN.
    pub fn has_segment(&self, segment: &Segment) -> bool {
        if segment.flags.has(Flags::SYN) {
            return self.open || self.has_forgotten();
        }
        self.has(segment.seq, segment.end())
    }

    /// The delayed ACK is due, or the rule's own time has come.
    pub fn on_timer(&mut self, now: Time, out: &mut impl Output) {
        if now >= self.wake.0 {
            self.wake.0 = Time::NEVER;
            if self.ask_for_holes(now, None) {
                self.ack_now(now, out);
            }
        }
        if now >= self.deadline {
            if self.is_connecting() {
                return self.on_syn_timeout(now, out);
            }
            if self.is_answering() {
                return self.on_syn_ack_timeout(now, out);
            }
            if let Some(acks) = self.linux_acks.as_mut().filter(|_| !self.compressing) {
                acks.on_delay_over();
            }
            self.ack_now(now, out);
        }
    }

    /// A notice for this flow. What the radio has lost of it is reported to the sender at once,
    /// with an ACK that says so.
    pub fn on_notice(&mut self, now: Time, notice: &Notice, out: &mut impl Output) {
        let seq = notice.value;
        if notice.kind == NoticeKind::Eln && self.open && seq < self.edge && !self.has(seq, seq + 1)
        {
            (self.marks, self.named) = (Flags::ELN.with(Flags::NAMED), seq);
            self.ack_now(now, out);
        }
    }

    /// When `on_timer` wants to be called, and when that was decided.
    #[inline]
    pub fn deadline(&self) -> (Time, Time) {
        if self.wake.0 < self.deadline { self.wake } else { (self.deadline, self.armed) }
    }

    /// Next byte expected.
    #[inline]
    pub fn rcv_nxt(&self) -> u64 {
        self.rcv_nxt
    }

    /// The sender has closed and everything has arrived.
    pub fn finished(&self) -> bool {
        self.fin_at == Some(self.rcv_nxt)
    }
}

#[cfg(test)]
mod tests;
