//! A sender with a malicious receiver: arbitrary ACKs, SACK blocks, notices and times.

use lasthop::schemes::catalogue::AnyWindow;
use lasthop::segment::{Block, Flags, Notice, NoticeKind, Options, Segment};
use lasthop::snack::Snack;
use lasthop::tcp::profile::Profile;
use lasthop::tcp::sender::{Sender, SenderConfig, State, timestamp};
use lasthop::units::{Duration, Time};

use crate::endpoints::{Sent, variant};
use crate::input::Input;

const SEGMENT_SIZES: [u32; 6] = [1000, 1460, 536, 100, 1, 60_000];
/// The largest receive window, segments.
const MAX_SEGMENTS: u64 = 160;
const MAX_STEPS: u32 = 400;
/// Limit on timers that expire at one instant: retransmission, pacing and those that they set.
const MAX_TIMERS: u32 = 64;

/// The input gives scheme and profile, segment size and receive window, then steps until it ends.
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

struct Case {
    sender: Sender<AnyWindow>,
    profile: &'static Profile,
    mss: u32,
    now: Time,
    /// Receive window that ACKs advertise, bytes.
    window: u32,
    /// Highest right window edge advertised by any ACK (exclusive stream offset).
    window_edge: u64,
    largest_window: u64,
    una: u64,
    is_held: bool,
    stamps: Vec<u32>,
    out: Sent,
}

impl Case {
    fn new(input: &mut Input<'_>) -> Case {
        let variant = variant(input);
        let mss = *input.choose(&SEGMENT_SIZES);
        let window = u64::from(mss) * input.up_to(MAX_SEGMENTS);
        let config = SenderConfig {
            flow: 1,
            to: 0,
            mss,
            headers: 40,
            receive_window: window,
            recovery: variant.part.recovery,
            needs: variant.part.needs,
            clock_phase: Duration(u64::from(input.value::<u16>())),
            draw: 1,
        };
        let mut case = Case {
            sender: Sender::new(config, &variant.profile, variant.part.window()),
            profile: &variant.profile,
            mss,
            now: Time::ZERO,
            window: window as u32,
            window_edge: window,
            largest_window: window,
            una: 0,
            is_held: false,
            stamps: Vec::new(),
            out: Sent::default(),
        };
        case.sender.open(case.now, &mut case.out);
        case.now += Duration::millis(100);
        let written = u64::from(mss) * u64::from(input.value::<u16>());
        case.sender.write(case.now, written, &mut case.out);
        case.ack(0, Flags::SYN, &Options::NONE);
        case
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let span = input.value::<u8>();
        self.advance(Duration(u64::from(span & 7) << (5 * (span >> 3 & 7))));
        let mss = u64::from(self.mss);
        let una = self.sender.snd_una();
        match input.value::<u8>() % 16 {
            0..=2 => {
                let ack = (una + mss * input.up_to(8)).min(self.sender.snd_max());
                self.ack(ack, Flags::NONE, &Options::NONE);
            }
            3 => {
                for _ in 0..=input.up_to(5) {
                    self.ack(una, Flags::NONE, &Options::NONE);
                }
            }
            4 | 5 => self.selective(input),
            6 => self.fire(),
            7 => self.scheme_options(input),
            8 => self.notice(input),
            9 => self.hostile(input),
            10 => self.window = (input.up_to(MAX_SEGMENTS * 4) * mss / 4) as u32,
            11 => self.sender.write(self.now, mss * input.up_to(40), &mut self.out),
            12 => self.relay(input),
            13 => self.sender.write(self.now, u64::MAX, &mut self.out),
            14 => self.ack(self.sender.snd_max(), Flags::ECE, &Options::NONE),
            _ => self.end(input),
        }
        self.check();
    }

    /// Advances the time and fires the timers that expire.
    fn advance(&mut self, span: Duration) {
        let to = self.now + span;
        for _ in 0..8 {
            if self.sender.deadline().0 > to {
                break;
            }
            self.fire();
        }
        self.now = self.now.max(to);
    }

    /// Advances to the next deadline and fires all timers of that instant.
    fn fire(&mut self) {
        let due = self.sender.deadline().0;
        if due == Time::NEVER {
            return self.sender.on_timer(self.now, &mut self.out);
        }
        self.now = self.now.max(due);
        let mut fired = 0;
        while self.sender.deadline().0 <= self.now {
            fired += 1;
            assert!(fired <= MAX_TIMERS, "endless timers at {:?}", self.now);
            self.sender.on_timer(self.now, &mut self.out);
            self.check();
        }
    }

    /// An ACK as a receiver sends it, with the timestamp of a sent segment as TSecr.
    fn ack(&mut self, ack: u64, flags: Flags, options: &Options) {
        let stamps = if self.profile.timestamps { Flags::TIMESTAMPS } else { Flags::NONE };
        let segment = Segment {
            ack,
            flow: 1,
            size: 40,
            window: self.window,
            ts_value: timestamp(self.now),
            ts_echo: self.stamps.last().copied().unwrap_or_default(),
            flags: Flags::ACK.with(flags).with(stamps),
            ..Segment::default()
        };
        self.deliver(&segment, options);
    }

    fn deliver(&mut self, segment: &Segment, options: &Options) {
        let sent = self.sender.snd_una()..=self.sender.snd_max();
        self.sender.on_segment(self.now, segment, options, &mut self.out);
        let window = u64::from(segment.window);
        self.largest_window = self.largest_window.max(window);
        // While a program writes, the ACK waits, and with it snd_una.
        let waiting = if sent.contains(&segment.ack) { segment.ack } else { 0 };
        self.window_edge = self.window_edge.max(self.sender.snd_una().max(waiting) + window);
        self.check();
    }

    /// A range of bytes near snd_una, not always within the bytes sent.
    fn range(&self, input: &mut Input<'_>) -> Block {
        let mss = u64::from(self.mss);
        let start = self.sender.snd_una() + mss * input.up_to(63);
        let odd = u64::from(input.value::<u8>());
        let partial = if odd < 240 { 0 } else { odd };
        let end = start + mss * input.up_to(15) + partial;
        Block { start: (start + partial).saturating_sub(16 * partial), end }
    }

    fn selective(&mut self, input: &mut Input<'_>) {
        let mut options = Options::NONE;
        let mut flags = Flags::SACK;
        for _ in 0..=input.up_to(3) {
            let block = self.range(input);
            options.sack.push(block.start, block.end);
        }
        if input.up_to(3) == 0 {
            flags = flags.with(Flags::DSACK);
        }
        let ack = self.sender.snd_una() + u64::from(self.mss) * input.up_to(2);
        self.ack(ack.min(self.sender.snd_max()), flags, &options);
    }

    /// An ACK with scheme-specific options.
    fn scheme_options(&mut self, input: &mut Input<'_>) {
        let kinds = [Flags::ELN, Flags::NAMED, Flags::REPORT, Flags::SNACK];
        let mut flags = *input.choose(&kinds);
        if input.up_to(1) == 1 {
            flags = flags.with(*input.choose(&kinds));
        }
        let holes = [self.range(input), self.range(input), self.range(input)];
        let options = Options {
            named: self.range(input).start,
            report: input.value(),
            snack: Snack::of(holes.into_iter(), self.mss).unwrap_or(Snack::NONE),
            ..Options::NONE
        };
        let ack = self.sender.snd_una() + u64::from(self.mss) * input.up_to(1);
        self.ack(ack.min(self.sender.snd_max()), flags, &options);
    }

    fn notice(&mut self, input: &mut Input<'_>) {
        let kind = *input.choose(&NoticeKind::ALL);
        let value = match input.up_to(3) {
            0 => input.up_to(1),
            1 => self.range(input).start,
            2 => u64::from(input.value::<u32>()),
            _ => input.value(),
        };
        let ago = input.value::<u64>() >> 20 >> input.up_to(43);
        let notice = Notice { kind, flow: 1, value, stamp: Time(self.now.0.saturating_sub(ago)) };
        self.sender.on_notice(self.now, &notice, &mut self.out);
        if kind == NoticeKind::Link && value > 0 && self.profile.notices.is_some() {
            // TCP-F: the route is re-established.
            self.is_held = false;
        }
    }

    /// A segment with any fields.
    fn hostile(&mut self, input: &mut Input<'_>) {
        let mut options = Options { named: input.value(), report: input.value(), ..Options::NONE };
        (0..input.up_to(4)).for_each(|_| options.sack.push(input.value(), input.value()));
        options.snack = Snack {
            start: input.value(),
            blocks: input.value(),
            unit: input.value(),
            more: input.value(),
        };
        let segment = Segment {
            seq: input.value(),
            ack: input.value::<u64>() >> input.up_to(63),
            flow: 1,
            len: input.value(),
            window: (input.up_to(MAX_SEGMENTS) * u64::from(self.mss)) as u32,
            ts_value: input.value(),
            ts_echo: input.value(),
            // Only `end` sends resets, because the connection ends with one.
            flags: Flags(input.value()).without(Flags::RST),
            ..Segment::default()
        };
        self.deliver(&segment, &options);
    }

    /// Calls that a relay makes on the sender of its outbound connection.
    fn relay(&mut self, input: &mut Input<'_>) {
        let mss = u64::from(self.mss);
        match input.up_to(3) {
            0 => {
                self.sender.hold();
                self.is_held = true;
            }
            1 | 2 => {
                self.sender.resume(self.now, input.up_to(200) * mss, &mut self.out);
                self.is_held = false;
            }
            _ => {
                let bytes = input.value::<u64>() >> input.up_to(63);
                self.sender.set_window(self.now, bytes, &mut self.out);
            }
        }
    }

    fn end(&mut self, input: &mut Input<'_>) {
        match input.value::<u8>() {
            0..=9 => self.sender.reset(self.now, &mut self.out),
            10..=19 => {
                let reset = Segment { flags: Flags::RST, ..Segment::default() };
                self.deliver(&reset, &Options::NONE);
            }
            20..=99 => self.sender.close(self.now, &mut self.out),
            100..=119 => self.sender.stop(),
            _ => self.advance(Duration::secs(u64::from(input.value::<u16>()))),
        }
    }

    fn check(&mut self) {
        let sender = &self.sender;
        let (window, una) = (sender.window(), sender.snd_una());
        let is_valid = |x: f64| x >= 0.0 && !x.is_nan();
        assert!(window.cwnd.is_finite() && is_valid(window.cwnd), "cwnd is {}", window.cwnd);
        assert!(is_valid(window.ssthresh), "ssthresh is {}", window.ssthresh);
        assert!(una >= self.una && una <= sender.snd_max(), "invalid snd_una {una}");
        self.una = una;
        let outstanding = sender.state() == State::Established && una < sender.snd_max();
        let timer = sender.deadline().0;
        assert!(
            !outstanding || self.is_held || timer != Time::NEVER,
            "data in flight, but no timer is set"
        );
        let max = 2 * self.largest_window / u64::from(self.mss) + 8;
        let data = self.out.0.iter().filter(|s| s.0.len > 0).count() as u64;
        assert!(data <= max, "{data} segments sent in one step, limit {max}");
        for (segment, _) in self.out.0.drain(..) {
            if segment.len > 0 || segment.flags.has(Flags::SYN) {
                self.stamps.push(segment.ts_value);
            }
            let fin = u64::from(segment.flags.has(Flags::FIN));
            if segment.len == 0 && fin == 0 {
                continue;
            }
            let end = segment.end();
            assert!(segment.len <= self.mss, "{} bytes in a segment", segment.len);
            assert!(end <= sender.snd_max(), "{end} sent beyond snd_max");
            assert!(
                end - fin <= self.window_edge,
                "{end} is beyond the window edge {}",
                self.window_edge
            );
            assert!(end - fin <= sender.written(), "{end} sent beyond the data written");
        }
    }
}
