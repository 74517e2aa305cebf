//! Two ends over a link in memory.

pub mod simulated;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Arc;

use lasthop::random;
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::units::{Duration, Time};
use lasthop_endpoint::isn::Secrets;
use lasthop_endpoint::{Endpoint, Settings, TcpState};
use lasthop_wire::mark_congestion_experienced;

pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

/// Initial sequence numbers close to the wrap, so that every transfer crosses it.
pub const SECRETS: [Secrets; 2] = [
    Secrets { isn: u32::MAX - 3000, timestamp_offset: u32::MAX - 50_000 },
    Secrets { isn: u32::MAX - 100, timestamp_offset: 7 },
];

pub fn address(end: usize, is_v6: bool) -> SocketAddr {
    let text = match (end, is_v6) {
        (CLIENT, false) => "10.0.0.1:5000",
        (_, false) => "10.0.0.2:80",
        (CLIENT, true) => "[fd00::1]:5000",
        (_, true) => "[fd00::2]:80",
    };
    text.parse().unwrap()
}

pub fn settings(scheme: &str, profile: ProfileName) -> Settings {
    Settings::new(SchemeChoice::parse(scheme).unwrap(), Profile::named(profile))
}

pub fn linux() -> Settings {
    settings("cubic", ProfileName::Linux)
}

/// What the link does to packets: drawn by seed.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: f64,
    pub duplicate: f64,
    pub corrupt: f64,
    /// Longest additional delay; above the spacing of packets it reorders them.
    pub jitter: Duration,
    pub seed: u64,
}

impl Faults {
    pub const NONE: Faults =
        Faults { loss: 0.0, duplicate: 0.0, corrupt: 0.0, jitter: Duration::ZERO, seed: 0 };
}

/// When it arrives, a number that makes it unique, where it arrives, and the packet.
type Travelling = (Time, u64, usize, Vec<u8>);

/// The link and its ends: `None` until a SYN has come.
pub struct Link {
    pub now: Time,
    pub ends: [Option<Endpoint>; 2],
    pub delay: Duration,
    pub faults: Faults,
    pub passed: Vec<(Time, usize, Vec<u8>)>,
    /// Packets that never arrive, by who sent them and how many it had sent.
    pub drops: fn(usize, u64) -> bool,
    /// ECN-capable packets are marked.
    pub marks: bool,
    /// Changes packets on their way, with the same arguments as `drops`.
    pub alters: fn(usize, u64, &mut [u8]),
    settings: Arc<Settings>,
    travelling: BinaryHeap<Reverse<Travelling>>,
    sent: [u64; 2],
    number: u64,
}

impl Link {
    /// The client has sent its SYN.
    pub fn new(client: Settings, server: Settings, is_v6: bool) -> Link {
        let (from, to) = (address(CLIENT, is_v6), address(SERVER, is_v6));
        let end = Endpoint::connect(Time::ZERO, client.into(), from, to, SECRETS[CLIENT]);
        Link {
            now: Time::ZERO,
            ends: [Some(end), None],
            delay: Duration::millis(10),
            faults: Faults::NONE,
            passed: Vec::new(),
            drops: |_, _| false,
            marks: false,
            alters: |_, _, _| {},
            settings: server.into(),
            travelling: BinaryHeap::new(),
            sent: [0; 2],
            number: 0,
        }
    }

    /// Both ends send a SYN at once.
    pub fn simultaneous(settings: Settings) -> Link {
        let mut link = Link::new(settings.clone(), settings.clone(), false);
        let (from, to) = (address(SERVER, false), address(CLIENT, false));
        link.ends[SERVER] =
            Some(Endpoint::connect(Time::ZERO, settings.into(), from, to, SECRETS[SERVER]));
        link
    }

    /// The handshake has ended, and every ACK has arrived.
    pub fn established(client: Settings, server: Settings) -> Link {
        let mut link = Link::new(client, server, false);
        link.run_for(Duration::millis(200));
        assert_eq!(
            (link.state(CLIENT), link.state(SERVER)),
            (TcpState::Established, TcpState::Established)
        );
        link
    }

    pub fn end(&mut self, end: usize) -> &mut Endpoint {
        self.ends[end].as_mut().unwrap()
    }

    pub fn state(&self, end: usize) -> TcpState {
        self.ends[end].as_ref().map_or(TcpState::Closed, Endpoint::state)
    }

    pub fn write(&mut self, end: usize, bytes: &[u8]) -> usize {
        let now = self.now;
        self.end(end).write(now, bytes)
    }

    pub fn close(&mut self, end: usize) {
        let now = self.now;
        self.end(end).close(now);
    }

    pub fn read(&mut self, end: usize) -> Vec<u8> {
        let now = self.now;
        let mut bytes = vec![0; self.end(end).readable()];
        let count = self.end(end).read(now, &mut bytes);
        assert_eq!(count, bytes.len());
        bytes
    }

    /// A packet from nowhere for an end; what it answers.
    pub fn inject(&mut self, end: usize, packet: &[u8]) -> Vec<Vec<u8>> {
        self.collect();
        let now = self.now;
        self.end(end).packet(now, packet);
        let answers: Vec<_> = std::iter::from_fn(|| self.end(end).outgoing()).collect();
        answers.iter().for_each(|p| self.transmit(end, p.clone()));
        answers
    }

    /// The packets that an end has sent, since the beginning.
    pub fn sent_by(&self, end: usize) -> Vec<Vec<u8>> {
        self.passed.iter().filter(|p| p.1 == end).map(|p| p.2.clone()).collect()
    }

    fn draw(&mut self) -> f64 {
        self.number += 1;
        random::Stream::new(self.faults.seed, "test link").uniform(self.number)
    }

    fn collect(&mut self) {
        for end in [CLIENT, SERVER] {
            while let Some(packet) = self.ends[end].as_mut().and_then(Endpoint::outgoing) {
                self.transmit(end, packet);
            }
        }
    }

    fn transmit(&mut self, from: usize, mut packet: Vec<u8>) {
        self.passed.push((self.now, from, packet.clone()));
        self.sent[from] += 1;
        if self.marks && packet[0] >> 4 == 4 && packet[1] & 3 != 0 {
            mark_congestion_experienced(&mut packet);
        }
        (self.alters)(from, self.sent[from], &mut packet);
        let copies = 1 + u32::from(self.draw() < self.faults.duplicate);
        if self.draw() < self.faults.loss || (self.drops)(from, self.sent[from]) {
            return;
        }
        if self.draw() < self.faults.corrupt {
            let at = (self.draw() * packet.len() as f64) as usize;
            packet[at] ^= 1 << (self.draw() * 8.0) as u32;
        }
        for _ in 0..copies {
            let jitter = Duration((self.draw() * self.faults.jitter.0 as f64) as u64);
            let at = self.now + self.delay + jitter;
            self.travelling.push(Reverse((at, self.number, 1 - from, packet.clone())));
        }
    }

    /// The next event: time goes on to it. False if there is none before `until`.
    pub fn step(&mut self, until: Time) -> bool {
        self.collect();
        let arrival = self.travelling.peek().map_or(Time::NEVER, |p| p.0.0);
        let timer = |end: &Option<Endpoint>| end.as_ref().map_or(Time::NEVER, Endpoint::next);
        let timers = [timer(&self.ends[0]), timer(&self.ends[1])];
        let at = arrival.min(timers[0]).min(timers[1]);
        if at == Time::NEVER || at > until {
            return false;
        }
        self.now = self.now.max(at);
        let now = self.now;
        if arrival == at {
            let Some(Reverse((_, _, to, packet))) = self.travelling.pop() else { return false };
            match &mut self.ends[to] {
                Some(end) => end.packet(now, &packet),
                None => {
                    let settings = self.settings.clone();
                    self.ends[to] = Endpoint::accept(now, settings, &packet, SECRETS[to]);
                }
            }
        } else {
            let end = usize::from(timers[0] != at);
            self.end(end).timer(now);
            assert!(self.end(end).next() > now, "a timer is due again at the same instant");
        }
        self.collect();
        true
    }

    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
        self.now = until;
    }
}
