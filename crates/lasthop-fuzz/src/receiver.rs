//! A receiver with a malicious sender: arbitrary segments, notices, times and calls of a relay.
//!
//! The reference model stores only the ranges of bytes that arrived inside the window.

use lasthop::segment::{Block, Flags, Notice, NoticeKind, Options, Segment};
use lasthop::tcp::profile::SequenceCheck;
use lasthop::tcp::receiver::{Receiver, ReceiverConfig};
use lasthop::units::{Duration, Time};

use crate::endpoints::{Sent, variant};
use crate::input::Input;

const MSS: u64 = 1000;
const MAX_STEPS: u32 = 400;
/// Limit on the ACKs that one segment or timer triggers.
const MAX_ACKS: usize = 4;

/// The input gives scheme and profile, buffer and read mode, then steps until it ends.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut case = Case::new(&mut input);
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        case.step(&mut input);
    }
}

/// Received bytes: sorted ranges that neither overlap nor touch.
#[derive(Default)]
struct Arrived(Vec<Block>);

impl Arrived {
    fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (mut merged, mut disjoint) = (Block { start, end }, Vec::new());
        for b in self.0.drain(..) {
            if b.end < merged.start || merged.end < b.start {
                disjoint.push(b);
            } else {
                merged = Block { start: b.start.min(merged.start), end: b.end.max(merged.end) };
            }
        }
        disjoint.push(merged);
        disjoint.sort_unstable_by_key(|b| b.start);
        self.0 = disjoint;
    }

    fn highest(&self) -> u64 {
        self.0.last().map_or(0, |b| b.end)
    }

    fn has(&self, block: Block) -> bool {
        self.0.iter().any(|b| b.start <= block.start && block.end <= b.end)
    }

    /// The first missing byte.
    fn next(&self) -> u64 {
        self.0.first().filter(|b| b.start == 0).map_or(0, |b| b.end)
    }
}

struct Case {
    receiver: Receiver,
    manual: bool,
    sequence_check: SequenceCheck,
    now: Time,
    /// The sequence number of a FIN included.
    arrived: Arrived,
    /// Where the data end.
    end: u64,
    /// Highest right window edge advertised by any ACK (exclusive stream offset).
    window_edge: u64,
    next: u64,
    open: bool,
    out: Sent,
}

impl Case {
    fn new(input: &mut Input<'_>) -> Case {
        let variant = variant(input);
        let buffer = input.up_to(400) * MSS / 4;
        let manual_read = input.up_to(3) == 0;
        let config =
            ReceiverConfig { flow: 1, to: 0, headers: 40, mss: MSS as u32, buffer, manual_read };
        let rule = variant.part.receiver();
        let mut case = Case {
            receiver: Receiver::new(config, &variant.profile, rule),
            manual: manual_read,
            sequence_check: variant.profile.sequence_check,
            now: Time(u64::from(input.value::<u16>())),
            arrived: Arrived::default(),
            end: u64::MAX,
            window_edge: buffer,
            next: 0,
            open: false,
            out: Sent::default(),
        };
        if manual_read && input.up_to(3) == 0 {
            let first = input.up_to(buffer);
            case.receiver.begin_with(first);
            case.window_edge = first;
        }
        if input.up_to(7) < 7 {
            case.deliver(Segment { flags: Flags::SYN, ..Segment::default() });
        }
        case
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let span = input.value::<u8>();
        self.advance(Duration(u64::from(span & 7) << (5 * (span >> 3 & 7))));
        let next = self.receiver.rcv_nxt();
        match input.value::<u8>() % 16 {
            0..=2 => {
                let flags = self.flags(input);
                self.data(next, MSS, flags);
            }
            3 | 4 => {
                let (start, flags) = (next + MSS * input.up_to(20), self.flags(input));
                self.data(start, MSS, flags);
            }
            5 => {
                let (start, flags) = (next.saturating_sub(MSS * input.up_to(8)), self.flags(input));
                self.data(start, MSS * input.up_to(12), flags);
            }
            6 => {
                let (start, length) = (next + input.up_to(4 * MSS), input.up_to(3 * MSS));
                let flags = self.flags(input);
                self.data(start, length, flags);
            }
            7 => self.fire(),
            8 => self.notice(input),
            9 => self.hostile(input),
            10 | 11 => self.relay(input),
            12 => self.data(next, 0, Flags::NONE),
            13 => self.data(next.wrapping_sub(1), 0, Flags::NONE),
            14 => self.data(next + MSS * input.up_to(2), MSS * input.up_to(1), Flags::FIN),
            _ => match input.value::<u8>() {
                0..=7 => self.deliver(Segment { flags: Flags::RST, ..Segment::default() }),
                8..=15 => {
                    self.receiver.reset(self.now, &mut self.out);
                    self.check();
                }
                _ => self.deliver(Segment { flags: Flags::SYN, ..Segment::default() }),
            },
        }
    }

    /// Flags of a data segment besides ACK.
    fn flags(&self, input: &mut Input<'_>) -> Flags {
        let kinds = [
            Flags::NONE,
            Flags::TIMESTAMPS,
            Flags::CE,
            Flags::CWR,
            Flags::ECT,
            Flags::LOW_PRIORITY,
            Flags::TIMESTAMPS.with(Flags::CE),
        ];
        *input.choose(&kinds)
    }

    fn data(&mut self, seq: u64, length: u64, flags: Flags) {
        let (len, ts_value) = (length as u32, (self.now.0 / 1000) as u32);
        let flags = Flags::ACK.with(flags);
        self.deliver(Segment {
            seq,
            len,
            size: len + 40,
            ts_value,
            flags,
            attempt: 1,
            forward: true,
            flow: 1,
            ..Segment::default()
        });
    }

    /// Delivers a segment to the receiver and to the model.
    fn deliver(&mut self, segment: Segment) {
        let before = self.receiver.rcv_nxt();
        let (start, end) = (segment.seq, segment.seq.saturating_add(u64::from(segment.len)));
        let counts = self.open
            && !self.receiver.is_reset()
            && !segment.flags.any(Flags::RST.with(Flags::SYN));
        let discard = self.receiver.discards(self.now, &segment);
        let offered = end <= self.window_edge.min(self.end);
        // With nothing unread Linux accepts more than it has offered.
        let accepted = match self.sequence_check {
            SequenceCheck::WithinWindow => offered,
            SequenceCheck::Linux => discard.is_none() && end <= self.end,
        };
        assert!(!counts || !offered || accepted, "{segment:?} was offered: {discard:?}");
        if counts && accepted {
            let fin = segment.flags.has(Flags::FIN);
            if fin && self.end == u64::MAX && end >= self.arrived.highest() {
                self.end = end;
            }
            self.arrived.add(start, end + u64::from(fin && end == self.end));
        }
        let reset = segment.flags.has(Flags::RST) && discard.is_none();
        let ended = self.receiver.is_reset() || reset;
        self.open = !ended && (self.open || segment.flags.has(Flags::SYN));
        let (first, count) = self.receiver.on_segment(self.now, &segment, &mut self.out);
        assert_eq!((first, first + count), (before, self.receiver.rcv_nxt()));
        if counts {
            let next = self.arrived.next().min(self.end);
            assert_eq!(self.receiver.rcv_nxt(), next, "after {segment:?}");
        }
        self.check();
    }

    fn advance(&mut self, span: Duration) {
        let to = self.now + span;
        for _ in 0..8 {
            if self.receiver.deadline().0 > to {
                break;
            }
            self.fire();
        }
        self.now = self.now.max(to);
    }

    fn fire(&mut self) {
        let due = self.receiver.deadline().0;
        if due == Time::NEVER {
            return;
        }
        self.now = self.now.max(due);
        let mut fired = 0;
        while self.receiver.deadline().0 <= self.now {
            fired += 1;
            assert!(fired <= 64, "endless timers at {:?}", self.now);
            self.receiver.on_timer(self.now, &mut self.out);
            self.open &= !self.receiver.has_forgotten();
            self.check();
        }
    }

    fn notice(&mut self, input: &mut Input<'_>) {
        let kind = *input.choose(&NoticeKind::ALL);
        let near = self.receiver.rcv_nxt() + MSS * input.up_to(30);
        let value = if input.up_to(3) == 0 { input.value() } else { near };
        let notice = Notice { kind, flow: 1, value, stamp: self.now };
        self.receiver.on_notice(self.now, &notice, &mut self.out);
        self.check();
    }

    /// A segment with arbitrary fields.
    fn hostile(&mut self, input: &mut Input<'_>) {
        let segment = Segment {
            seq: input.value::<u64>() >> input.up_to(63),
            ack: input.value(),
            flow: 1,
            len: input.value::<u32>() >> input.up_to(31),
            window: input.value(),
            ts_value: input.value(),
            ts_echo: input.value(),
            flags: Flags(input.value()).without(Flags::RST),
            ..Segment::default()
        };
        self.deliver(segment);
    }

    /// Calls that the application or a relay makes on the receiver.
    fn relay(&mut self, input: &mut Input<'_>) {
        let bytes = input.up_to(120) * MSS / 4;
        let offset = self.receiver.rcv_nxt().saturating_sub(bytes).saturating_add(input.up_to(MSS));
        if !self.manual {
            return;
        }
        let (now, mss, out) = (self.now, MSS as u32, &mut self.out);
        match input.up_to(5) {
            0 | 1 => self.receiver.read(now, bytes, mss, out),
            2 => self.receiver.set_window_limit(now, bytes, mss, out),
            3 => self.receiver.acknowledge_up_to(now, offset, out),
            4 => self.receiver.close_window(now, offset, out),
            _ => self.receiver.open_window(now, offset, out),
        }
        self.check();
    }

    fn check(&mut self) {
        let next = self.receiver.rcv_nxt();
        assert!(next >= self.next, "rcv_nxt decreased from {} to {next}", self.next);
        self.next = next;
        assert!(self.receiver.unread() <= next);
        assert!(self.out.0.len() <= MAX_ACKS, "{} ACKs in one step", self.out.0.len());
        for (ack, options) in std::mem::take(&mut self.out.0) {
            if ack.flags.has(Flags::RST) {
                continue;
            }
            let finished = u64::from(ack.ack > next);
            assert!(ack.ack <= next + u64::from(self.receiver.finished()), "{ack:?}");
            if ack.window > 0 {
                self.window_edge = self.window_edge.max(ack.ack - finished + u64::from(ack.window));
            }
            if ack.flags.has(Flags::SACK) {
                self.check_blocks(&ack, &options);
            }
            if ack.flags.has(Flags::SNACK) {
                let holes = options.snack.holes();
                holes.for_each(|h| assert!(next <= h.start && h.start < h.end, "{h:?}"));
            }
        }
    }

    /// SACK blocks (RFC 2018 section 4) cover only received bytes, lie beyond the acknowledgment
    /// number and are disjoint; a D-SACK block (RFC 2883) covers only received bytes.
    fn check_blocks(&self, ack: &Segment, options: &Options) {
        let blocks = options.sack.as_slice();
        assert!(!blocks.is_empty());
        let duplicates = usize::from(ack.flags.has(Flags::DSACK));
        for (i, &block) in blocks.iter().enumerate() {
            let text = format!("{block:?} of {blocks:?} with ACK {}", ack.ack);
            assert!(block.start < block.end && self.arrived.has(block), "{text}");
            if i >= duplicates {
                assert!(block.start > self.next.min(ack.ack), "{text}");
                let later = &blocks[i + 1..];
                assert!(later.iter().all(|b| b.end < block.start || block.end < b.start), "{text}");
            }
        }
    }
}
