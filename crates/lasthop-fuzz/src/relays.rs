//! Relays between two TCP endpoints; the server and the mobile are malicious.

use lasthop::leg::{Capabilities, LegEvent, Relay, Side, SplitConnection};
use lasthop::schemes::catalogue::AnyWindow;
use lasthop::segment::{Flags, Notice, NoticeKind, Options, Segment};
use lasthop::tcp::receiver::{Receiver, ReceiverConfig};
use lasthop::tcp::sender::{Sender, SenderConfig, State};
use lasthop::units::{Duration, Time};

use crate::endpoints::{Sent, Variant, relays};
use crate::input::Input;

const MSS: u32 = 1000;
const MAX_STEPS: usize = 300;
/// Limit on timers that expire at one instant.
const MAX_TIMERS: u32 = 64;

/// The input gives scheme, profile and round-trip times, then steps until it ends.
pub(crate) fn run(input: &mut Input<'_>) {
    let mut case = Case::new(input);
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        case.step(input);
    }
}

/// The two connections that the relay controls.
struct Connections {
    now: Time,
    receiver: Receiver,
    sender: Sender<AnyWindow>,
    wake: Time,
    moved: u64,
    round_trips: [Option<Duration>; 2],
    out: Sent,
}

impl SplitConnection for Connections {
    fn capabilities(&self) -> Capabilities {
        Capabilities { window: true, receive_window: true, acknowledge: true, hold: true }
    }
    fn readable(&self) -> u64 {
        self.receiver.unread()
    }
    fn unacknowledged(&self) -> u64 {
        self.sender.written() - self.sender.snd_una().min(self.sender.written())
    }
    fn in_flight(&self) -> u64 {
        self.sender.flight()
    }
    fn segment(&self) -> (u32, u32) {
        (MSS, self.sender.full_size())
    }
    fn round_trip(&self, side: Side) -> Option<Duration> {
        self.round_trips[usize::from(side == Side::Outbound)]
    }
    fn transfer(&mut self, bytes: u64) -> u64 {
        let count = bytes.min(self.readable());
        if count > 0 {
            self.receiver.read(self.now, count, MSS, &mut self.out);
            self.sender.write(self.now, count, &mut self.out);
            self.moved += count;
        }
        count
    }
    fn set_receive_window(&mut self, bytes: u64) {
        self.receiver.set_window_limit(self.now, bytes, MSS, &mut self.out);
    }
    fn acknowledge_up_to(&mut self, offset: u64) {
        self.receiver.acknowledge_up_to(self.now, offset, &mut self.out);
    }
    fn close_window(&mut self, offset: u64) {
        self.receiver.close_window(self.now, offset, &mut self.out);
    }
    fn open_window(&mut self, offset: u64) {
        self.receiver.open_window(self.now, offset, &mut self.out);
    }
    fn wake(&mut self, at: Time) {
        self.wake = at.max(self.now);
    }
    fn set_window(&mut self, bytes: u64) {
        self.sender.set_window(self.now, bytes, &mut self.out);
    }
    fn hold(&mut self) {
        self.sender.hold();
    }
    fn resume(&mut self, lost: u64) {
        self.sender.resume(self.now, lost, &mut self.out);
    }
    fn half_close(&mut self) {
        self.sender.close(self.now, &mut self.out);
    }
    fn reset(&mut self, side: Side) {
        match side {
            Side::Inbound => self.receiver.reset(self.now, &mut self.out),
            Side::Outbound => self.sender.reset(self.now, &mut self.out),
        }
    }
}

struct Case {
    relay: Box<dyn Relay>,
    connections: Connections,
    /// Buffer limit of the relay, bytes.
    buffer: u64,
    /// Window that the mobile advertises, bytes.
    window: u32,
}

impl Case {
    fn new(input: &mut Input<'_>) -> Case {
        let variant: &Variant = input.choose::<&Variant>(relays());
        let scheme = &variant.choice.scheme;
        let mut relay = scheme.relay().expect("chosen for its relay");
        let limit = relay.receive_window();
        let buffer = limit.unwrap_or(u64::MAX).min(64 * u64::from(MSS));
        let config =
            ReceiverConfig { flow: 0, to: 0, headers: 40, mss: MSS, buffer, manual_read: true };
        let mut receiver = Receiver::new(config, &variant.profile, variant.part.receiver());
        if let Some(bytes) = relay.first_window() {
            receiver.begin_with(bytes);
        }
        let (part, profile) = variant.choice.outbound(&variant.base);
        let config = SenderConfig {
            flow: 1,
            to: 0,
            mss: MSS,
            headers: 40,
            receive_window: buffer,
            recovery: part.recovery,
            needs: part.needs,
            clock_phase: Duration::ZERO,
            draw: 1,
        };
        let rule = scheme.outbound_window().unwrap_or_else(|| part.window());
        let mut round_trip = || Some(Duration(input.value::<u64>() >> 24)).filter(|d| d.0 > 0);
        let mut connections = Connections {
            now: Time::ZERO,
            receiver,
            sender: Sender::new(config, &profile, rule),
            wake: Time::NEVER,
            moved: 0,
            round_trips: [round_trip(), round_trip()],
            out: Sent::default(),
        };
        let syn = Segment { flags: Flags::SYN, ..Segment::default() };
        connections.receiver.on_segment(connections.now, &syn, &mut connections.out);
        connections.sender.open(connections.now, &mut connections.out);
        relay.on_event(connections.now, LegEvent::Open, &mut connections);
        let mut case =
            Case { relay, connections, buffer: limit.unwrap_or(buffer), window: buffer as u32 };
        case.check();
        case
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let span = input.value::<u8>();
        self.advance(Duration(u64::from(span & 7) << (5 * (span >> 3 & 7))));
        let mss = u64::from(MSS);
        let next = self.connections.receiver.rcv_nxt();
        match input.value::<u8>() % 16 {
            0..=2 => self.data(next, mss, Flags::NONE),
            3 => self.data(next + mss * input.up_to(12), mss, Flags::NONE),
            4 => self.data(input.value::<u64>() >> input.up_to(63), input.up_to(mss), Flags::NONE),
            5 => self.data(next, 0, if input.up_to(7) == 0 { Flags::FIN } else { Flags::NONE }),
            6..=8 => {
                let una = self.connections.sender.snd_una();
                let ack = (una + mss * input.up_to(6)).min(self.connections.sender.snd_max());
                self.ack(ack, Flags::NONE);
            }
            9 => self.ack(input.value::<u64>() >> input.up_to(63), Flags(input.value())),
            10 => self.window = (input.up_to(200) * u64::from(MSS) / 2) as u32,
            11 => self.ack(0, Flags::SYN),
            12 | 13 => self.notice(input),
            14 => self.advance(Duration::millis(u64::from(input.value::<u16>()))),
            _ => self.reset(input),
        }
    }

    fn notify_relay(&mut self, event: LegEvent) {
        self.relay.on_event(self.connections.now, event, &mut self.connections);
        self.check();
    }

    fn data(&mut self, seq: u64, length: u64, flags: Flags) {
        let flags = Flags::ACK.with(flags);
        let segment = Segment { seq, len: length as u32, flags, ..Segment::default() };
        let connections = &mut self.connections;
        let (_, count) =
            connections.receiver.on_segment(connections.now, &segment, &mut connections.out);
        let finished = connections.receiver.finished();
        match (finished, count) {
            (true, _) => self.notify_relay(LegEvent::HalfClosed),
            (_, 0) => self.check(),
            _ => self.notify_relay(LegEvent::Readable),
        }
    }

    fn ack(&mut self, ack: u64, flags: Flags) {
        let flags = Flags::ACK.with(flags).without(Flags::RST);
        let segment = Segment { ack, flags, window: self.window, ..Segment::default() };
        let connections = &mut self.connections;
        connections.sender.on_segment(
            connections.now,
            &segment,
            &Options::NONE,
            &mut connections.out,
        );
        self.notify_relay(LegEvent::Acknowledged(self.connections.sender.snd_una()));
    }

    fn notice(&mut self, input: &mut Input<'_>) {
        let kind = *input.choose(&NoticeKind::ALL);
        let flag = input.up_to(1);
        let value =
            if input.up_to(1) == 0 { flag } else { input.value::<u64>() >> input.up_to(63) };
        let notice = Notice { kind, flow: 1, value, stamp: self.connections.now };
        let connections = &mut self.connections;
        connections.sender.on_notice(connections.now, &notice, &mut connections.out);
        self.notify_relay(LegEvent::Notice(notice));
    }

    fn reset(&mut self, input: &mut Input<'_>) {
        let connections = &mut self.connections;
        let reset = Segment { flags: Flags::RST, ..Segment::default() };
        match input.value::<u8>() {
            0..=15 => {
                connections.receiver.on_segment(connections.now, &reset, &mut connections.out);
                self.notify_relay(LegEvent::Reset(Side::Inbound));
            }
            16..=31 => {
                connections.sender.on_segment(
                    connections.now,
                    &reset,
                    &Options::NONE,
                    &mut connections.out,
                );
                self.notify_relay(LegEvent::Reset(Side::Outbound));
            }
            _ => self.advance(Duration::secs(u64::from(input.value::<u8>()))),
        }
    }

    /// Advances the time and fires the timers that expire.
    fn advance(&mut self, span: Duration) {
        let to = self.connections.now + span;
        let (mut at, mut fired) = (Time::NEVER, 0);
        for _ in 0..4 * MAX_TIMERS {
            let connections = &mut self.connections;
            let (sender, receiver) =
                (connections.sender.deadline().0, connections.receiver.deadline().0);
            let due = sender.min(receiver).min(connections.wake);
            if due > to || due == Time::NEVER {
                break;
            }
            connections.now = connections.now.max(due);
            fired = if at == connections.now { fired + 1 } else { 0 };
            at = connections.now;
            assert!(fired < MAX_TIMERS, "endless timers at {at:?}");
            if due == sender {
                connections.sender.on_timer(connections.now, &mut connections.out);
            } else if due == receiver {
                connections.receiver.on_timer(connections.now, &mut connections.out);
            } else {
                connections.wake = Time::NEVER;
                self.notify_relay(LegEvent::Timer);
            }
            self.check();
        }
        self.connections.now = self.connections.now.max(to);
    }

    fn check(&mut self) {
        let connections = &mut self.connections;
        connections.out.0.clear();
        let (received, unread) = (connections.receiver.rcv_nxt(), connections.receiver.unread());
        assert_eq!(received, connections.moved + unread, "the relay created or lost bytes");
        let written = connections.sender.written();
        assert!(written <= connections.moved, "{written} written of {} moved", connections.moved);
        let acknowledged = connections.sender.snd_una().min(written);
        let (held, buffer) = (unread + written - acknowledged, self.buffer);
        assert!(held <= buffer, "the relay holds {held} bytes, limit {buffer}");
        let window = connections.sender.window();
        assert!(window.cwnd.is_finite() && window.cwnd >= 0.0, "cwnd is {}", window.cwnd);
        let closed = connections.sender.is_reset() || connections.sender.state() == State::Closed;
        assert!(closed || acknowledged <= connections.sender.snd_max());
    }
}
