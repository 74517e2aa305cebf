//! Test bench of two connections with a relay between them. Instead of links and queues it has
//! channels that lose, delay, duplicate and reorder segments.
//!
//! It is fast enough for thousands of cases, and supports operations that scenarios lack: reset a
//! connection, stop reading, remove an end host.

mod leg;

use std::collections::BTreeMap;

use lasthop::leg::{Capabilities, LegEvent, Relay, Side, SplitConnection};
use lasthop::random::Stream;
use lasthop::schemes::catalogue::{AnyWindow, SchemeChoice, SenderPart};
use lasthop::segment::{Flags, Notice, NoticeKind, Options, Segment};
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::tcp::receiver::{Receiver, ReceiverConfig};
use lasthop::tcp::sender::{Output, SendReason, Sender, SenderConfig, State};
use lasthop::units::{Duration, Size, Time};

use leg::LegControl;

/// Payload bytes of a full segment.
const MSS: u32 = 1000;

/// Time until which a case runs after a reset or the loss of an end host.
const PATIENCE: Time = Time(300_000_000_000);

/// A scheduled operation of an end host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    /// The server (inbound) or the mobile (outbound) resets the connection.
    Reset(Side),
    /// The server or the mobile disappears without closing the connection.
    Vanish(Side),
    /// The mobile's application stops (false) or resumes (true) reading.
    Read(bool),
    /// The server writes this many further bytes.
    Write(u64),
}

/// Parameters of a channel in one direction.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// Loss probability.
    pub loss: f64,
    /// Probability that a segment is duplicated.
    pub duplicates: f64,
    /// Minimum delay.
    pub delay: Duration,
    /// Maximum additional random delay per segment; it reorders segments.
    pub jitter: Duration,
}

/// A test case: scheme, endpoints, channels and events.
#[derive(Clone, Debug)]
pub struct Case {
    /// The relay's scheme in short form.
    pub scheme: String,
    /// Profile of the endpoints.
    pub profile: ProfileName,
    /// Bytes that the server writes at the start.
    pub size: u64,
    /// The mobile's receive buffer, bytes.
    pub buffer: u64,
    /// Channels: server to relay and back, relay to mobile and back.
    pub channels: [Channel; 4],
    /// Outages of the radio link: start, length, and whether the relay is notified.
    pub outages: Vec<(Duration, Duration, bool)>,
    /// Operations with their times.
    pub operations: Vec<(Duration, Operation)>,
    /// Seed of all random draws.
    pub seed: u64,
}

/// Limit on steps. A relay that probes a mobile every millisecond takes three steps per probe.
const MAX_STEPS: u32 = 1_500_000;

enum BenchEvent {
    Arrives(usize, Segment, Options),
    Operate(Operation),
    Notified(Notice),
}

/// The channels with the segments in transit, and all scheduled events.
struct Network {
    now: Time,
    channels: [Channel; 4],
    outages: Vec<(Time, Time)>,
    stream: Stream,
    draws: u64,
    order: u64,
    events: BTreeMap<(Time, u64), BenchEvent>,
}

impl Network {
    fn draw(&mut self) -> f64 {
        self.draws += 1;
        self.stream.uniform(self.draws)
    }

    fn at(&mut self, time: Time, what: BenchEvent) {
        self.order += 1;
        self.events.insert((time, self.order), what);
    }

    fn put(&mut self, channel: usize, segment: Segment, options: &Options) {
        let Channel { loss, duplicates, delay, jitter } = self.channels[channel];
        let now = self.now;
        let outages =
            channel >= 2 && self.outages.iter().any(|&(from, to)| from <= now && now < to);
        let copies =
            if self.draw() < loss || outages { 0 } else { 1 + u32::from(self.draw() < duplicates) };
        for _ in 0..copies {
            let late = (self.draw() * jitter.0 as f64) as u64;
            self.at(now + delay + Duration(late), BenchEvent::Arrives(channel, segment, *options));
        }
    }
}

/// A channel as the output of a sender or receiver.
struct ChannelOutput<'a>(&'a mut Network, usize);

impl Output for ChannelOutput<'_> {
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
    min_rtt: Option<Duration>,
}

/// The bench.
pub struct Bench {
    network: Network,
    legs: [Connection; 2],
    relay: Option<Box<dyn Relay>>,
    wake: Option<Time>,
    moved: u64,
    /// Bytes that the server's program writes; its send buffer may not have room for all yet.
    pub written: u64,
    /// Bytes read by the mobile's application.
    pub delivered: u64,
    reads: bool,
    vanished: [bool; 2],
    buffer: u64,
    end_to_end_semantics: bool,
}

impl Bench {
    /// The state before the server's SYN.
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
                draw: u64::from(flow),
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
                min_rtt: None,
            }
        };
        let (first, (second, beyond)) = (choice.sender(&profile), choice.outbound(&profile));
        let mut legs = [
            connect(0, buffer, &first, &first.profile(&profile)),
            connect(1, case.buffer, &second, &beyond.without_send_buffer()),
        ];
        if let Some(bytes) = relay.first_window() {
            legs[0].receiver.begin_with(bytes);
        }
        if let Some(rule) = choice.scheme.outbound_window() {
            legs[1].sender.replace_rule(rule);
        }
        let span =
            |from: Duration, length: Duration| (Time::ZERO + from, Time::ZERO + from + length);
        let network = Network {
            now: Time::ZERO,
            channels: case.channels,
            outages: case.outages.iter().map(|o| span(o.0, o.1)).collect(),
            stream: Stream::new(case.seed, "bench"),
            draws: 0,
            order: 0,
            events: BTreeMap::new(),
        };
        let buffer = relay.receive_window().unwrap_or(window);
        let end_to_end_semantics =
            case.scheme.starts_with("m-tcp") || case.scheme.contains("ack_on_delivery=true");
        let vanished = [false; 2];
        let mut bench = Bench {
            network,
            legs,
            relay: Some(relay),
            wake: None,
            moved: 0,
            written: 0,
            delivered: 0,
            reads: true,
            vanished,
            buffer,
            end_to_end_semantics,
        };
        bench.plan(case);
        bench
    }

    fn plan(&mut self, case: &Case) {
        self.network.at(Time::ZERO, BenchEvent::Operate(Operation::Write(case.size)));
        for &(at, operation) in &case.operations {
            self.network.at(Time::ZERO + at, BenchEvent::Operate(operation));
        }
        let notice = |kind, value, at| Notice { kind, flow: 1, value, stamp: at };
        for &(from, length, notified) in &case.outages {
            let (down, up) = (Time::ZERO + from, Time::ZERO + from + length);
            if case.scheme.starts_with("rnf") {
                // A controller repeats its reports in case of losses.
                self.network.at(down, BenchEvent::Notified(notice(NoticeKind::Bandwidth, 0, down)));
                for repetition in 0..3 {
                    let at = up + Duration::secs(1) * repetition;
                    self.network
                        .at(at, BenchEvent::Notified(notice(NoticeKind::Bandwidth, 1_000_000, at)));
                    self.network.at(
                        at,
                        BenchEvent::Notified(notice(NoticeKind::Queue, case.seed % 7 * 1000, at)),
                    );
                }
            } else if notified {
                self.network.at(down, BenchEvent::Notified(notice(NoticeKind::Link, 0, down)));
                self.network.at(up, BenchEvent::Notified(notice(NoticeKind::Link, 1, up)));
            }
        }
    }

    /// Index and time of the earliest timer.
    fn timer(&self) -> (usize, Time) {
        let at = |end: usize| if self.vanished[end] { Time::NEVER } else { Time::ZERO };
        let due = [
            self.legs[0].sender.deadline().0.max(at(0)),
            self.legs[0].receiver.deadline().0,
            self.legs[1].sender.deadline().0,
            self.legs[1].receiver.deadline().0.max(at(1)),
            self.wake.unwrap_or(Time::NEVER),
        ];
        (0..5).map(|i| (i, due[i])).min_by_key(|d| d.1).unwrap_or((0, Time::NEVER))
    }

    /// Processes events until none is left or the step limit is reached. Fails with the first
    /// violated invariant.
    pub fn run(&mut self) -> Result<(), String> {
        for _ in 0..MAX_STEPS {
            let (who, due) = self.timer();
            let next = self.network.events.first_key_value().map(|(&(t, _), _)| t);
            if due == Time::NEVER && next.is_none() {
                return Ok(());
            }
            if next.is_none_or(|n| due < n) {
                self.network.now = due.max(self.network.now);
                self.fire_timer(who);
            } else if let Some(((t, _), what)) = self.network.events.pop_first() {
                self.network.now = t;
                self.process_event(what);
            }
            self.check().map_err(|e| format!("at {:.3} s: {e}", self.network.now.as_secs()))?;
            if self.is_finished() {
                return Ok(());
            }
        }
        Err(format!(
            "step limit reached at {:.0} s, {} of {} bytes delivered",
            self.network.now.as_secs(),
            self.delivered,
            self.written
        ))
    }

    fn fire_timer(&mut self, who: usize) {
        let now = self.network.now;
        match who {
            0 => self.legs[0].sender.on_timer(now, &mut ChannelOutput(&mut self.network, 0)),
            1 => self.legs[0].receiver.on_timer(now, &mut ChannelOutput(&mut self.network, 1)),
            2 => self.legs[1].sender.on_timer(now, &mut ChannelOutput(&mut self.network, 2)),
            3 => self.legs[1].receiver.on_timer(now, &mut ChannelOutput(&mut self.network, 3)),
            _ => {
                self.wake = None;
                self.notify_relay(LegEvent::Timer);
            }
        }
    }

    fn notify_relay(&mut self, event: LegEvent) {
        let Some(mut relay) = self.relay.take() else { return };
        let mut control = LegControl {
            network: &mut self.network,
            legs: &mut self.legs,
            wake: &mut self.wake,
            moved: &mut self.moved,
        };
        relay.on_event(control.network.now, event, &mut control);
        self.relay = Some(relay);
    }

    fn process_event(&mut self, what: BenchEvent) {
        let now = self.network.now;
        match what {
            BenchEvent::Arrives(channel, segment, options) => {
                self.on_arrival(channel, &segment, &options)
            }
            BenchEvent::Notified(notice) => {
                self.legs[1].sender.on_notice(
                    now,
                    &notice,
                    &mut ChannelOutput(&mut self.network, 2),
                );
                self.notify_relay(LegEvent::Notice(notice));
            }
            BenchEvent::Operate(Operation::Vanish(side)) => {
                self.vanished[usize::from(side == Side::Outbound)] = true
            }
            BenchEvent::Operate(_) if self.vanished[0] && self.vanished[1] => {}
            BenchEvent::Operate(Operation::Write(bytes)) if !self.vanished[0] => {
                let server = &mut self.legs[0].sender;
                server.open(now, &mut ChannelOutput(&mut self.network, 0));
                if server.state() != State::Closed {
                    server.write(now, bytes, &mut ChannelOutput(&mut self.network, 0));
                    self.written += bytes;
                }
                let last = !self
                    .network
                    .events
                    .values()
                    .any(|w| matches!(w, BenchEvent::Operate(Operation::Write(_))));
                if last {
                    self.legs[0].sender.close(now, &mut ChannelOutput(&mut self.network, 0));
                }
            }
            BenchEvent::Operate(Operation::Read(on)) if !self.vanished[1] => {
                self.reads = on;
                self.read();
            }
            BenchEvent::Operate(Operation::Reset(Side::Inbound)) if !self.vanished[0] => {
                self.legs[0].sender.reset(now, &mut ChannelOutput(&mut self.network, 0))
            }
            BenchEvent::Operate(Operation::Reset(Side::Outbound)) if !self.vanished[1] => {
                self.legs[1].receiver.reset(now, &mut ChannelOutput(&mut self.network, 3))
            }
            BenchEvent::Operate(_) => {}
        }
    }

    fn read(&mut self) {
        let now = self.network.now;
        let waiting = self.legs[1].receiver.unread();
        if self.reads && waiting > 0 {
            let receiver = &mut self.legs[1].receiver;
            receiver.set_window_limit(now, u64::MAX, MSS, &mut ChannelOutput(&mut self.network, 3));
            receiver.read(now, waiting, MSS, &mut ChannelOutput(&mut self.network, 3));
        }
    }

    fn on_arrival(&mut self, channel: usize, segment: &Segment, options: &Options) {
        let now = self.network.now;
        let reset = segment.flags.has(Flags::RST);
        match channel {
            0 => {
                let (_, count) = self.legs[0].receiver.on_segment(
                    now,
                    segment,
                    &mut ChannelOutput(&mut self.network, 1),
                );
                let finished = self.legs[0].receiver.finished();
                match (reset, finished, count) {
                    (true, ..) => self.notify_relay(LegEvent::Reset(Side::Inbound)),
                    (_, true, _) => self.notify_relay(LegEvent::HalfClosed),
                    (_, _, 0) => {}
                    _ => self.notify_relay(LegEvent::Readable),
                }
            }
            2 if !self.vanished[1] => {
                let (_, count) = self.legs[1].receiver.on_segment(
                    now,
                    segment,
                    &mut ChannelOutput(&mut self.network, 3),
                );
                self.delivered += count;
                self.read();
            }
            1 if !self.vanished[0] => {
                self.sender_input(0, segment, options);
                let open = self.legs[0].sender.state() == State::Established;
                if open
                    && self.legs[1].sender.state() == State::Closed
                    && !self.legs[1].sender.is_reset()
                {
                    self.legs[1].sender.open(now, &mut ChannelOutput(&mut self.network, 2));
                    self.notify_relay(LegEvent::Open);
                }
            }
            3 => {
                self.sender_input(1, segment, options);
                let event = if reset {
                    LegEvent::Reset(Side::Outbound)
                } else {
                    LegEvent::Acknowledged(self.legs[1].sender.snd_una())
                };
                self.notify_relay(event);
            }
            _ => {}
        }
    }

    fn sender_input(&mut self, leg: usize, segment: &Segment, options: &Options) {
        let connection = &mut self.legs[leg];
        connection.sender.on_segment(
            self.network.now,
            segment,
            options,
            &mut ChannelOutput(&mut self.network, 2 * leg),
        );
        if let Some(rtt) = connection.sender.take_last_rtt() {
            connection.min_rtt = Some(connection.min_rtt.map_or(rtt, |l| l.min(rtt)));
        }
    }

    /// Bytes buffered by the relay: received and not acknowledged by the mobile.
    pub fn held(&self) -> u64 {
        let out = &self.legs[1].sender;
        self.legs[0].receiver.unread() + out.written() - out.snd_una().min(out.written())
    }

    /// Bytes acknowledged to the server and not delivered to the mobile.
    pub fn acknowledged_undelivered(&self) -> u64 {
        self.legs[0].sender.snd_una().min(self.written).saturating_sub(self.delivered)
    }

    /// True if either side has reset the connection.
    pub fn is_reset(&self) -> bool {
        self.legs.iter().any(|l| l.sender.is_reset())
    }

    /// Whether the server's and the mobile's connection are reset.
    pub fn resets(&self) -> [bool; 2] {
        [self.legs[0].sender.is_reset(), self.legs[1].receiver.is_reset()]
    }

    /// True if all data are delivered and acknowledged, or, after a reset or the loss of an end
    /// host, if `PATIENCE` is over.
    fn is_finished(&self) -> bool {
        let writes = self
            .network
            .events
            .values()
            .any(|w| matches!(w, BenchEvent::Operate(Operation::Write(_))));
        let done =
            self.legs[0].sender.state() == State::Done && self.delivered == self.written && !writes;
        let broken = self.is_reset() || self.vanished.contains(&true);
        done || (broken && self.network.now > PATIENCE)
    }

    /// Checks the invariants.
    fn check(&self) -> Result<(), String> {
        let [inbound, outbound] = &self.legs;
        let received = inbound.receiver.rcv_nxt();
        let require =
            |holds: bool, what: &dyn Fn() -> String| if holds { Ok(()) } else { Err(what()) };
        require(received <= self.written, &|| {
            format!("{received} bytes received of {} written", self.written)
        })?;
        require(received == self.moved + inbound.receiver.unread(), &|| {
            format!(
                "{received} received, {} transferred, {} unread",
                self.moved,
                inbound.receiver.unread()
            )
        })?;
        require(outbound.sender.written() == self.moved, &|| {
            format!("{} transferred, but {} written", self.moved, outbound.sender.written())
        })?;
        let at_mobile = outbound.receiver.rcv_nxt();
        require(at_mobile == self.delivered, &|| {
            format!("{at_mobile} received by the mobile, but {} delivered", self.delivered)
        })?;
        require(at_mobile <= self.moved, &|| {
            format!("{at_mobile} delivered of {} transferred", self.moved)
        })?;
        let acknowledged = |leg: &Connection| leg.sender.snd_una().min(leg.sender.written());
        require(acknowledged(inbound) <= received, &|| {
            "bytes acknowledged to the server that the relay never received".into()
        })?;
        require(acknowledged(outbound) <= at_mobile, &|| {
            "bytes acknowledged to the relay that the mobile never received".into()
        })?;
        require(self.held() <= self.buffer, &|| {
            format!("the relay holds {} bytes, limit {}", self.held(), self.buffer)
        })?;
        let undelivered = self.acknowledged_undelivered();
        require(!self.end_to_end_semantics || undelivered == 0, &|| {
            format!("{undelivered} bytes were acknowledged and not delivered")
        })?;
        require(undelivered <= self.held(), &|| {
            format!("{undelivered} bytes acknowledged, neither delivered nor held")
        })
    }
}
