//! Two connections and a relay between them on a bench: no links, no queues, only an air that
//! loses, delays, repeats and overtakes.
//!
//! It is quick enough for thousands of cases, and can do what no scenario says: reset a connection,
//! stop reading, take an end away.

use std::collections::BTreeMap;

use lasthop::leg::{Capabilities, LegEvent, Relay, Side, SplitConnection};
use lasthop::random::Stream;
use lasthop::schemes::catalogue::{AnyWindow, SchemeChoice, SenderPart};
use lasthop::segment::{Flags, Notice, NoticeKind, Options, Segment};
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::tcp::receiver::{Receiver, ReceiverConfig};
use lasthop::tcp::sender::{Output, SendReason, Sender, SenderConfig, State};
use lasthop::units::{Duration, Size, Time};

/// Payload bytes of a full segment.
const MSS: u32 = 1000;

/// So long it is looked at what is left after a reset, or when somebody is gone.
const PATIENCE: Time = Time(300_000_000_000);

/// Who does something at a certain time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    /// The server, or the mobile, breaks the connection off.
    Reset(Side),
    /// One of them is gone for good, without a word.
    Vanish(Side),
    /// The mobile's application stops reading, or goes on.
    Read(bool),
    /// The server writes so many bytes more.
    Write(u64),
}

/// How a way through the air is.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// Share of segments lost.
    pub loss: f64,
    /// Share of segments that come twice.
    pub twice: f64,
    /// Delay.
    pub delay: Duration,
    /// Up to so much more, drawn for each segment: later ones overtake.
    pub jitter: Duration,
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The scheme of the relay, as on a command line.
    pub scheme: String,
    /// What the endpoints do.
    pub profile: ProfileName,
    /// Bytes that the server writes at first.
    pub size: u64,
    /// The mobile's buffer.
    pub buffer: u64,
    /// Server to relay, back; relay to mobile, back.
    pub channels: [Channel; 4],
    /// Spans in which the radio loses everything, and whether the relay is told.
    pub outages: Vec<(Duration, Duration, bool)>,
    /// What happens when.
    pub deeds: Vec<(Duration, Deed)>,
    /// Seed of all draws.
    pub seed: u64,
}

/// A relay that asks each millisecond for a mobile that is gone takes three steps for it.
const MOST_STEPS: u32 = 1_500_000;

enum BenchEvent {
    Arrives(usize, Segment, Options),
    Does(Deed),
    Told(Notice),
}

/// What is on its way.
struct Air {
    now: Time,
    channels: [Channel; 4],
    away: Vec<(Time, Time)>,
    stream: Stream,
    draws: u64,
    order: u64,
    events: BTreeMap<(Time, u64), BenchEvent>,
}

impl Air {
    fn draw(&mut self) -> f64 {
        self.draws += 1;
        self.stream.uniform(self.draws)
    }

    fn at(&mut self, time: Time, what: BenchEvent) {
        self.order += 1;
        self.events.insert((time, self.order), what);
    }

    fn put(&mut self, channel: usize, segment: Segment, options: &Options) {
        let Channel { loss, twice, delay, jitter } = self.channels[channel];
        let now = self.now;
        let away = channel >= 2 && self.away.iter().any(|&(from, to)| from <= now && now < to);
        let copies =
            if self.draw() < loss || away { 0 } else { 1 + u32::from(self.draw() < twice) };
        for _ in 0..copies {
            let late = (self.draw() * jitter.0 as f64) as u64;
            self.at(now + delay + Duration(late), BenchEvent::Arrives(channel, segment, *options));
        }
    }
}

/// A way as a sender or receiver uses it.
struct Into<'a>(&'a mut Air, usize);

impl Output for Into<'_> {
    fn send(&mut self, segment: Segment, reason: SendReason) {
        self.send_with(segment, &Options::NONE, reason);
    }
    fn send_with(&mut self, segment: Segment, options: &Options, _: SendReason) {
        self.0.put(self.1, segment, options);
    }
}

struct Connection {
    sender: Sender<AnyWindow>,
    receiver: Receiver,
    least: Option<Duration>,
}

/// The bench.
pub struct Bench {
    air: Air,
    legs: [Connection; 2],
    relay: Option<Box<dyn Relay>>,
    wake: Option<Time>,
    moved: u64,
    /// Bytes that the server has written.
    pub written: u64,
    /// Bytes that the mobile's application could read, in order.
    pub delivered: u64,
    reads: bool,
    gone: [bool; 2],
    buffer: u64,
    keeps_semantics: bool,
}

struct Hands<'a> {
    air: &'a mut Air,
    legs: &'a mut [Connection; 2],
    wake: &'a mut Option<Time>,
    moved: &'a mut u64,
}

impl Hands<'_> {
    fn receiver(&mut self) -> (&mut Receiver, Time, Into<'_>) {
        let now = self.air.now;
        (&mut self.legs[0].receiver, now, Into(self.air, 1))
    }

    fn sender(&mut self) -> (&mut Sender<AnyWindow>, Time, Into<'_>) {
        let now = self.air.now;
        (&mut self.legs[1].sender, now, Into(self.air, 2))
    }
}

impl SplitConnection for Hands<'_> {
    fn capabilities(&self) -> Capabilities {
        Capabilities { window: true, receive_window: true, acknowledge: true, hold: true }
    }
    fn readable(&self) -> u64 {
        self.legs[0].receiver.unread()
    }
    fn unacknowledged(&self) -> u64 {
        let sender = &self.legs[1].sender;
        sender.written() - sender.snd_una().min(sender.written())
    }
    fn in_flight(&self) -> u64 {
        self.legs[1].sender.flight()
    }
    fn segment(&self) -> (u32, u32) {
        (MSS, self.legs[1].sender.full_size())
    }
    fn round_trip(&self, side: Side) -> Option<Duration> {
        self.legs[usize::from(side == Side::Outbound)].least
    }
    fn transfer(&mut self, bytes: u64) -> u64 {
        let n = bytes.min(self.readable());
        if n > 0 {
            let (receiver, now, mut out) = self.receiver();
            receiver.read(now, n, MSS, &mut out);
            let (sender, now, mut out) = self.sender();
            sender.write(now, n, &mut out);
            *self.moved += n;
        }
        n
    }
    fn set_receive_window(&mut self, bytes: u64) {
        let (receiver, now, mut out) = self.receiver();
        receiver.set_window_limit(now, bytes, MSS, &mut out);
    }
    fn acknowledge_up_to(&mut self, offset: u64) {
        let (receiver, now, mut out) = self.receiver();
        receiver.acknowledge_up_to(now, offset, &mut out);
    }
    fn close_window(&mut self, offset: u64) {
        let (receiver, now, mut out) = self.receiver();
        receiver.close_window(now, offset, &mut out);
    }
    fn open_window(&mut self, offset: u64) {
        let (receiver, now, mut out) = self.receiver();
        receiver.open_window(now, offset, &mut out);
    }
    fn wake(&mut self, at: Time) {
        *self.wake = Some(at.max(self.air.now));
    }
    fn set_window(&mut self, bytes: u64) {
        let (sender, now, mut out) = self.sender();
        sender.set_window(now, bytes, &mut out);
    }
    fn hold(&mut self) {
        self.legs[1].sender.hold();
    }
    fn resume(&mut self, lost: u64) {
        let (sender, now, mut out) = self.sender();
        sender.resume(now, lost, &mut out);
    }
    fn half_close(&mut self) {
        let (sender, now, mut out) = self.sender();
        sender.close(now, &mut out);
    }
    fn reset(&mut self, side: Side) {
        match side {
            Side::Inbound => {
                let (receiver, _, mut out) = self.receiver();
                receiver.reset(&mut out);
            }
            Side::Outbound => {
                let (sender, now, mut out) = self.sender();
                sender.reset(now, &mut out);
            }
        }
    }
}

impl Bench {
    /// Everything as it is before the server's SYN.
    pub fn new(case: &Case) -> Bench {
        let choice = SchemeChoice::parse(&case.scheme).unwrap();
        let relay = choice.scheme.relay().unwrap();
        let profile = Profile::named(case.profile);
        let window = Size::Segments(64.0).bytes(MSS);
        let buffer = relay.receive_window().map_or(window, |b| b.min(window));
        let connect = |flow: u32, buffer: u64, part: &SenderPart, profile: &Profile| {
            let config = SenderConfig {
                flow,
                to: 0,
                mss: MSS,
                headers: 40,
                receive_window: buffer,
                recovery: part.recovery,
                needs: part.needs,
                clock_phase: Duration::ZERO,
            };
            Connection {
                sender: Sender::new(config, profile, part.window()),
                receiver: Receiver::new(
                    ReceiverConfig {
                        flow,
                        to: 0,
                        headers: 40,
                        mss: MSS,
                        buffer,
                        manual_read: true,
                    },
                    profile,
                    part.receiver(),
                ),
                least: None,
            }
        };
        let (first, (second, beyond)) = (choice.sender(&profile), choice.outbound(&profile));
        let mut legs = [
            connect(0, buffer, &first, &first.profile(&profile)),
            connect(1, case.buffer, &second, &beyond),
        ];
        if let Some(bytes) = relay.first_window() {
            legs[0].receiver.begin_with(bytes);
        }
        if let Some(rule) = choice.scheme.outbound_window() {
            legs[1].sender.replace_rule(rule);
        }
        let span =
            |from: Duration, length: Duration| (Time::ZERO + from, Time::ZERO + from + length);
        let air = Air {
            now: Time::ZERO,
            channels: case.channels,
            away: case.outages.iter().map(|o| span(o.0, o.1)).collect(),
            stream: Stream::new(case.seed, "bench"),
            draws: 0,
            order: 0,
            events: BTreeMap::new(),
        };
        let buffer = relay.receive_window().unwrap_or(window);
        let keeps_semantics =
            case.scheme.starts_with("m-tcp") || case.scheme.contains("ack_on_delivery=true");
        let gone = [false; 2];
        let mut bench = Bench {
            air,
            legs,
            relay: Some(relay),
            wake: None,
            moved: 0,
            written: 0,
            delivered: 0,
            reads: true,
            gone,
            buffer,
            keeps_semantics,
        };
        bench.plan(case);
        bench
    }

    fn plan(&mut self, case: &Case) {
        self.air.at(Time::ZERO, BenchEvent::Does(Deed::Write(case.size)));
        for &(at, deed) in &case.deeds {
            self.air.at(Time::ZERO + at, BenchEvent::Does(deed));
        }
        let word = |kind, value, at| Notice { kind, flow: 1, value, stamp: at };
        for &(from, length, told) in &case.outages {
            let (down, up) = (Time::ZERO + from, Time::ZERO + from + length);
            if case.scheme.starts_with("rnf") {
                // A controller says it again until it is heard.
                self.air.at(down, BenchEvent::Told(word(NoticeKind::Bandwidth, 0, down)));
                for again in 0..3 {
                    let at = up + Duration::secs(1) * again;
                    self.air.at(at, BenchEvent::Told(word(NoticeKind::Bandwidth, 1_000_000, at)));
                    self.air.at(
                        at,
                        BenchEvent::Told(word(NoticeKind::Queue, case.seed % 7 * 1000, at)),
                    );
                }
            } else if told {
                self.air.at(down, BenchEvent::Told(word(NoticeKind::Link, 0, down)));
                self.air.at(up, BenchEvent::Told(word(NoticeKind::Link, 1, up)));
            }
        }
    }

    /// The earliest of the timers: whose, and when.
    fn timer(&self) -> (usize, Time) {
        let at = |end: usize| if self.gone[end] { Time::NEVER } else { Time::ZERO };
        let due = [
            self.legs[0].sender.deadline().0.max(at(0)),
            self.legs[0].receiver.deadline().0,
            self.legs[1].sender.deadline().0,
            self.legs[1].receiver.deadline().0.max(at(1)),
            self.wake.unwrap_or(Time::NEVER),
        ];
        (0..5).map(|i| (i, due[i])).min_by_key(|d| d.1).unwrap_or((0, Time::NEVER))
    }

    /// One thing after the other until nothing happens any more or it lasts too long. What did not
    /// hold, if anything.
    pub fn run(&mut self) -> Result<(), String> {
        for _ in 0..MOST_STEPS {
            let (who, due) = self.timer();
            let next = self.air.events.first_key_value().map(|(&(t, _), _)| t);
            if due == Time::NEVER && next.is_none() {
                return Ok(());
            }
            if next.is_none_or(|n| due < n) {
                self.air.now = due.max(self.air.now);
                self.serve(who);
            } else if let Some(((t, _), what)) = self.air.events.pop_first() {
                self.air.now = t;
                self.deal_with(what);
            }
            self.check().map_err(|e| format!("at {:.3} s: {e}", self.air.now.as_secs()))?;
            if self.is_over() {
                return Ok(());
            }
        }
        Err(format!(
            "it does not come to an end: {:.0} s, {} of {} bytes",
            self.air.now.as_secs(),
            self.delivered,
            self.written
        ))
    }

    fn serve(&mut self, who: usize) {
        let now = self.air.now;
        match who {
            0 => self.legs[0].sender.on_timer(now, &mut Into(&mut self.air, 0)),
            1 => self.legs[0].receiver.on_timer(now, &mut Into(&mut self.air, 1)),
            2 => self.legs[1].sender.on_timer(now, &mut Into(&mut self.air, 2)),
            3 => self.legs[1].receiver.on_timer(now, &mut Into(&mut self.air, 3)),
            _ => {
                self.wake = None;
                self.tell(LegEvent::Timer);
            }
        }
    }

    fn tell(&mut self, event: LegEvent) {
        let Some(mut relay) = self.relay.take() else { return };
        let mut hands = Hands {
            air: &mut self.air,
            legs: &mut self.legs,
            wake: &mut self.wake,
            moved: &mut self.moved,
        };
        relay.on_event(hands.air.now, event, &mut hands);
        self.relay = Some(relay);
    }

    fn deal_with(&mut self, what: BenchEvent) {
        let now = self.air.now;
        match what {
            BenchEvent::Arrives(channel, segment, options) => {
                self.arrives(channel, &segment, &options)
            }
            BenchEvent::Told(notice) => {
                self.legs[1].sender.on_notice(now, &notice, &mut Into(&mut self.air, 2));
                self.tell(LegEvent::Notice(notice));
            }
            BenchEvent::Does(Deed::Vanish(side)) => {
                self.gone[usize::from(side == Side::Outbound)] = true
            }
            BenchEvent::Does(_) if self.gone[0] && self.gone[1] => {}
            BenchEvent::Does(Deed::Write(bytes)) if !self.gone[0] => {
                let server = &mut self.legs[0].sender;
                server.open(now, &mut Into(&mut self.air, 0));
                if server.state() != State::Closed {
                    server.write(now, bytes, &mut Into(&mut self.air, 0));
                    self.written = server.written();
                }
                let last = !self
                    .air
                    .events
                    .values()
                    .any(|w| matches!(w, BenchEvent::Does(Deed::Write(_))));
                if last {
                    self.legs[0].sender.close(now, &mut Into(&mut self.air, 0));
                }
            }
            BenchEvent::Does(Deed::Read(on)) if !self.gone[1] => {
                self.reads = on;
                self.read();
            }
            BenchEvent::Does(Deed::Reset(Side::Inbound)) if !self.gone[0] => {
                self.legs[0].sender.reset(now, &mut Into(&mut self.air, 0))
            }
            BenchEvent::Does(Deed::Reset(Side::Outbound)) if !self.gone[1] => {
                self.legs[1].receiver.reset(&mut Into(&mut self.air, 3))
            }
            BenchEvent::Does(_) => {}
        }
    }

    fn read(&mut self) {
        let now = self.air.now;
        let waiting = self.legs[1].receiver.unread();
        if self.reads && waiting > 0 {
            let receiver = &mut self.legs[1].receiver;
            receiver.set_window_limit(now, u64::MAX, MSS, &mut Into(&mut self.air, 3));
            receiver.read(now, waiting, MSS, &mut Into(&mut self.air, 3));
        }
    }

    fn arrives(&mut self, channel: usize, segment: &Segment, options: &Options) {
        let now = self.air.now;
        let reset = segment.flags.has(Flags::RST);
        match channel {
            0 => {
                let (_, count) =
                    self.legs[0].receiver.on_segment(now, segment, &mut Into(&mut self.air, 1));
                let finished = self.legs[0].receiver.finished();
                match (reset, finished, count) {
                    (true, ..) => self.tell(LegEvent::Reset(Side::Inbound)),
                    (_, true, _) => self.tell(LegEvent::HalfClosed),
                    (_, _, 0) => {}
                    _ => self.tell(LegEvent::Readable),
                }
            }
            2 if !self.gone[1] => {
                let (_, count) =
                    self.legs[1].receiver.on_segment(now, segment, &mut Into(&mut self.air, 3));
                self.delivered += count;
                self.read();
            }
            1 if !self.gone[0] => {
                self.hear(0, segment, options);
                let open = self.legs[0].sender.state() == State::Established;
                if open
                    && self.legs[1].sender.state() == State::Closed
                    && !self.legs[1].sender.is_reset()
                {
                    self.legs[1].sender.open(now, &mut Into(&mut self.air, 2));
                    self.tell(LegEvent::Open);
                }
            }
            3 => {
                self.hear(1, segment, options);
                let event = if reset {
                    LegEvent::Reset(Side::Outbound)
                } else {
                    LegEvent::Acknowledged(self.legs[1].sender.snd_una())
                };
                self.tell(event);
            }
            _ => {}
        }
    }

    fn hear(&mut self, leg: usize, segment: &Segment, options: &Options) {
        let connection = &mut self.legs[leg];
        connection.sender.on_segment(
            self.air.now,
            segment,
            options,
            &mut Into(&mut self.air, 2 * leg),
        );
        if let Some(rtt) = connection.sender.take_last_rtt() {
            connection.least = Some(connection.least.map_or(rtt, |l| l.min(rtt)));
        }
    }

    /// What the relay holds: bytes that have come and are not acknowledged beyond.
    pub fn held(&self) -> u64 {
        let out = &self.legs[1].sender;
        self.legs[0].receiver.unread() + out.written() - out.snd_una().min(out.written())
    }

    /// Bytes that the server takes for delivered and the mobile never got, so far.
    pub fn acknowledged_undelivered(&self) -> u64 {
        self.legs[0].sender.snd_una().min(self.written).saturating_sub(self.delivered)
    }

    /// Either side has broken the connection off.
    pub fn is_reset(&self) -> bool {
        self.legs.iter().any(|l| l.sender.is_reset())
    }

    /// Whether the server knows of a reset, or made it, and the mobile.
    pub fn resets(&self) -> [bool; 2] {
        [self.legs[0].sender.is_reset(), self.legs[1].receiver.is_reset()]
    }

    /// All that is written has arrived and the server knows; or somebody is not there any more, and
    /// what will be said of that has been.
    fn is_over(&self) -> bool {
        let writes =
            self.air.events.values().any(|w| matches!(w, BenchEvent::Does(Deed::Write(_))));
        let done =
            self.legs[0].sender.state() == State::Done && self.delivered == self.written && !writes;
        let broken = self.is_reset() || self.gone.contains(&true);
        done || (broken && self.air.now > PATIENCE)
    }

    /// What holds at every instant.
    fn check(&self) -> Result<(), String> {
        let [inbound, outbound] = &self.legs;
        let came = inbound.receiver.rcv_nxt();
        let demand =
            |holds: bool, what: &dyn Fn() -> String| if holds { Ok(()) } else { Err(what()) };
        demand(came <= self.written, &|| format!("{came} bytes have come of {}", self.written))?;
        demand(came == self.moved + inbound.receiver.unread(), &|| {
            format!("{came} came, {} went on, {} wait", self.moved, inbound.receiver.unread())
        })?;
        demand(outbound.sender.written() == self.moved, &|| {
            format!("{} went on and {} is written", self.moved, outbound.sender.written())
        })?;
        let got = outbound.receiver.rcv_nxt();
        demand(got == self.delivered, &|| format!("{got} and {} delivered", self.delivered))?;
        demand(got <= self.moved, &|| format!("{got} delivered of {} that went on", self.moved))?;
        let acknowledged = |leg: &Connection| leg.sender.snd_una().min(leg.sender.written());
        demand(acknowledged(inbound) <= came, &|| {
            "the server knows of bytes that never came".into()
        })?;
        demand(acknowledged(outbound) <= got, &|| {
            "the relay knows of bytes that never came".into()
        })?;
        demand(self.held() <= self.buffer, &|| {
            format!("the relay holds {} of {} bytes", self.held(), self.buffer)
        })?;
        let undelivered = self.acknowledged_undelivered();
        demand(!self.keeps_semantics || undelivered == 0, &|| {
            format!("{undelivered} bytes were acknowledged and not delivered")
        })?;
        demand(undelivered <= self.held(), &|| {
            format!("{undelivered} bytes are acknowledged, neither delivered nor held")
        })
    }
}
