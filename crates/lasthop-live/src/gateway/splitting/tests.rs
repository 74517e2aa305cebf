use std::hash::RandomState;
use std::net::SocketAddr;

use lasthop_endpoint::{Host, Listening};
use lasthop_wire::assemble;

use super::*;
use crate::gateway::{Part, part_of};

/// Server and mobile on both sides of a node, without delay.
struct Bed {
    server: Host,
    mobile: Host,
    node: Splitting,
    now: Time,
    /// Initial sequence numbers of the server's SYN-ACKs: as it sends them, and as they arrive.
    answers: Vec<[u32; 2]>,
    passed: u64,
}

fn address(is_v6: bool, host: u8, port: u16) -> SocketAddr {
    match is_v6 {
        true => SocketAddr::new([0xfd00, 0, 0, 0, 0, 0, 0, host.into()].into(), port),
        false => SocketAddr::new([192, 0, 2, host].into(), port),
    }
}

fn choice(text: &str) -> SchemeChoice {
    SchemeChoice::parse(text).unwrap()
}

fn node(scheme: &str, max_connections: usize) -> Splitting {
    let scheme = choice(scheme);
    let Ok(Part::Relay(relay)) = part_of(&scheme.scheme, true) else { panic!("no relay") };
    Splitting::new(&scheme, relay.as_ref(), max_connections)
}

impl Bed {
    fn new(scheme: &str, is_v6: bool, max_connections: usize) -> Bed {
        let kernel = Settings { mtu: 1400, ..settings() };
        let listening = Listening::At([address(is_v6, 1, 80)].into());
        Bed {
            server: Host::new(settings(), listening, RandomState::new()),
            mobile: Host::new(kernel, Listening::Nowhere, RandomState::new()),
            node: node(scheme, max_connections),
            now: Time::ZERO,
            answers: Vec::new(),
            passed: 0,
        }
    }

    /// Carries packets until none is left.
    fn exchange(&mut self) {
        loop {
            let (direction, bytes) = match (self.server.outgoing(), self.mobile.outgoing()) {
                (Some(bytes), mobile) => {
                    if let Some(bytes) = mobile {
                        self.forward(Direction::Uplink, &bytes);
                    }
                    (Direction::Downlink, bytes)
                }
                (None, Some(bytes)) => (Direction::Uplink, bytes),
                (None, None) => return,
            };
            self.forward(direction, &bytes);
        }
    }

    fn forward(&mut self, direction: Direction, bytes: &[u8]) {
        let tcp = parse(bytes).unwrap();
        let answers = direction == Direction::Downlink && tcp.flags().has(Flags::SYN);
        if answers {
            self.answers.push([tcp.seq, 0]);
        }
        let given = Given { bytes, is_gso: false, lacks_checksum: false };
        let mut out = Vec::new();
        if self.node.packet(self.now, direction, given, &mut out) == Fate::Accepted {
            self.passed += 1;
            self.deliver(direction, bytes);
        }
        for injected in out {
            self.deliver(injected.direction, &injected.bytes);
        }
    }

    fn deliver(&mut self, direction: Direction, bytes: &[u8]) {
        let tcp = parse(bytes).unwrap();
        match direction {
            Direction::Downlink => {
                if let Some(answer) = self.answers.last_mut().filter(|a| a[1] == 0) {
                    assert!(tcp.flags().has(Flags::SYN.with(Flags::ACK)));
                    answer[1] = tcp.seq;
                }
                self.mobile.packet(self.now, bytes);
            }
            Direction::Uplink => self.server.packet(self.now, bytes),
        }
    }

    fn open(&mut self, is_v6: bool, port: u16) -> ConnectionId {
        let (from, to) = (address(is_v6, 2, port), address(is_v6, 1, 80));
        let id = self.mobile.connect(self.now, from, to).unwrap();
        self.exchange();
        id
    }

    /// The server sends data on this connection of the mobile, which reads them.
    fn download(&mut self, id: ConnectionId) {
        let data: Vec<u8> = (0..200_000_u32).map(|i| (i * 7) as u8).collect();
        let (mut sent, mut got) = (0, Vec::new());
        for _ in 0..20 {
            let now = self.now;
            sent += self.server.with(mirrored(id), |c| c.write(now, &data[sent..])).unwrap();
            self.wait();
            let mut part = vec![0; data.len()];
            let count = self.mobile.with(id, |c| c.read(self.now, &mut part)).unwrap();
            got.extend_from_slice(&part[..count]);
        }
        assert!(got == data, "{} of {} bytes", got.len(), data.len());
    }

    /// Runs all timers of the next second.
    fn wait(&mut self) {
        let until = self.now + Duration::secs(1);
        loop {
            self.exchange();
            let next = self.server.next().min(self.mobile.next()).min(self.node.next());
            if next > until {
                break;
            }
            self.now = next;
            self.server.timer(next);
            self.mobile.timer(next);
            let mut out = Vec::new();
            self.node.step(next, &mut out);
            for injected in out {
                self.deliver(injected.direction, &injected.bytes);
            }
        }
        self.now = until;
    }
}

fn settings() -> Settings {
    Settings::new(choice("cubic"), Profile::named(ProfileName::Linux))
}

fn mirrored(id: ConnectionId) -> ConnectionId {
    ConnectionId { local: id.remote, remote: id.local }
}

#[test]
fn both_connections_have_the_same_numbers_and_the_smaller_segments() {
    for is_v6 in [false, true] {
        let mut bed = Bed::new("i-tcp", is_v6, 100);
        let id = bed.open(is_v6, 5000);
        let beyond = bed.server.accept().unwrap();
        assert_eq!(beyond, mirrored(id), "the server sees the mobile's address");
        assert_eq!(bed.answers[0][0], bed.answers[0][1]);
        let mobile = bed.mobile.get(id).unwrap();
        let server = bed.server.get(beyond).unwrap();
        assert_eq!(mobile.segment(), server.segment());
        assert_eq!(server.segment(), 1400 - if is_v6 { 60 } else { 40 } - 12);
        bed.download(id);
        assert_eq!((bed.node.tally().seen, bed.passed), (1, 0));
    }
}

/// MTCP's protocol for the second leg needs SACK and timestamps. A mobile without them gets TCP.
#[test]
fn the_second_leg_of_mtcp_works_with_every_mobile() {
    for options in [true, false] {
        let mut bed = Bed::new("mtcp", false, 100);
        let mut profile = Profile::named(ProfileName::Linux);
        (profile.sack, profile.timestamps) = (options, options);
        let plain = Settings::new(choice("newreno"), profile);
        bed.mobile = Host::new(plain, Listening::Nowhere, RandomState::new());
        let id = bed.open(false, 5000);
        let beyond = bed.server.accept().unwrap();
        // The same payload, whatever options there are.
        let segment = |host: &Host, id| host.get(id).unwrap().segment();
        assert_eq!((segment(&bed.server, beyond), segment(&bed.mobile, id)), (1448, 1448));
        bed.download(id);
    }
}

#[test]
fn what_did_not_begin_here_passes() {
    let mut bed = Bed::new("i-tcp", false, 2);
    for port in 5000..5004 {
        bed.open(false, port);
    }
    let tally = bed.node.tally();
    assert_eq!((tally.seen, tally.connections), (2, 2));
    // SYN of the other two; their SYN-ACK and ACK.
    assert_eq!(tally.counts.untouched[FULL], 2);
    assert_eq!(tally.counts.untouched[NO_HANDSHAKE], 4);
    for _ in 0..4 {
        assert!(bed.server.accept().is_some());
    }
}

#[test]
fn a_port_that_is_closed_refuses() {
    let mut bed = Bed::new("m-tcp", false, 100);
    let id = bed.mobile.connect(bed.now, address(false, 2, 5000), address(false, 1, 81)).unwrap();
    bed.exchange();
    let end = bed.mobile.get(id).unwrap().end();
    assert_eq!(end, Some(lasthop_endpoint::End::Refused));
    assert_eq!((bed.node.tally().seen, bed.node.tally().connections), (0, 0));
}

/// A packet that the kernel has still to segment, whose checksum is not complete.
#[test]
fn merged_segments_are_taken_whole() {
    let mut bed = Bed::new("i-tcp", false, 100);
    let id = bed.open(false, 5000);
    let beyond = bed.server.accept().unwrap();
    let data: Vec<u8> = (0..10_000_u32).map(|i| (i * 13) as u8).collect();
    bed.server.with(beyond, |c| c.write(bed.now, &data));
    let first = bed.server.outgoing().unwrap();
    while bed.server.outgoing().is_some() {}
    let tcp = parse(&first).unwrap();
    let mut header = etherparse::TcpHeader::new(80, 5000, tcp.seq, 500);
    (header.ack, header.acknowledgment_number) = (true, tcp.ack);
    let (value, echo) = tcp.timestamps().unwrap();
    header.set_options(&[etherparse::TcpOptionElement::Timestamp(value, echo)]).unwrap();
    let mut merged = assemble(&tcp.addressing, &header, &data);
    let sum = tcp.tcp_at + 16;
    merged[sum] ^= 0x55;
    let mut out = Vec::new();
    for (is_gso, taken) in [(false, 0), (true, data.len())] {
        let given = Given { bytes: &merged, is_gso, lacks_checksum: is_gso };
        assert_eq!(bed.node.packet(bed.now, Direction::Downlink, given, &mut out), Fate::Dropped);
        for injected in out.drain(..) {
            bed.deliver(injected.direction, &injected.bytes);
        }
        bed.exchange();
        assert_eq!(bed.mobile.get(id).unwrap().readable(), taken, "{is_gso}");
    }
    let mut got = vec![0; data.len()];
    bed.mobile.with(id, |c| c.read(bed.now, &mut got));
    assert!(got == data);
}

#[test]
fn connections_share_what_the_radio_link_reports() {
    let mut bed = Bed::new("rnf", false, 100);
    for port in 5000..5002 {
        bed.open(false, port);
        let beyond = bed.server.accept().unwrap();
        bed.server.with(beyond, |c| c.write(bed.now, &[0; 50_000]));
    }
    let mut out = Vec::new();
    for report in ["rate=8000000 queue=20000", "rate=0 mobile=192.0.2.2", "queue=9 mobile=::1"] {
        bed.node.radio(bed.now, &RadioReport::read(report).unwrap(), &mut out);
    }
    let counters = bed.node.tally().agent;
    let counter = |name| counters.iter().find(|c| c.0 == name).unwrap().1;
    assert_eq!((counter("rate_notices"), counter("queue_notices")), (4, 2));
    assert_eq!(counter("outages"), 2);
}

#[test]
fn all_connections_can_be_reset() {
    let mut bed = Bed::new("i-tcp", false, 100);
    let id = bed.open(false, 5000);
    let beyond = bed.server.accept().unwrap();
    let mut out = Vec::new();
    bed.node.reset(bed.now, &mut out);
    for injected in out {
        bed.deliver(injected.direction, &injected.bytes);
    }
    let reset = Some(lasthop_endpoint::End::Reset);
    assert_eq!(bed.mobile.get(id).unwrap().end(), reset);
    assert_eq!(bed.server.get(beyond).unwrap().end(), reset);
    assert_eq!((bed.node.tally().connections, bed.node.tally().agent.last().unwrap().1), (0, 1));
}
