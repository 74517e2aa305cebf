//! Many connections of one host.

use std::hash::RandomState;
use std::net::SocketAddr;

use crate::common::{linux, settings};
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Time};
use lasthop_endpoint::{ConnectionId, End, Host, Listening, Settings, TcpState};
use lasthop_wire::parse;

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new([10, 0, 0, host].into(), port)
}

fn server() -> Listening {
    Listening::At([address(2, 80)].into())
}

/// Two hosts whose packets arrive at once.
struct Hosts {
    client: Host,
    server: Host,
    now: Time,
}

impl Hosts {
    fn new(settings: Settings) -> Hosts {
        let key = RandomState::new;
        Hosts {
            client: Host::new(settings.clone(), Listening::Nowhere, key()),
            server: Host::new(settings, server(), key()),
            now: Time::ZERO,
        }
    }

    fn exchange(&mut self) {
        loop {
            let Some(packet) = self.client.outgoing() else {
                let Some(packet) = self.server.outgoing() else { return };
                self.client.packet(self.now, &packet);
                continue;
            };
            self.server.packet(self.now, &packet);
        }
    }

    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.exchange();
            let next = self.client.next().min(self.server.next());
            if next > until {
                break;
            }
            self.now = next;
            self.client.timer(next);
            self.server.timer(next);
        }
        self.now = until;
    }
}

fn mirrored(id: ConnectionId) -> ConnectionId {
    ConnectionId { local: id.remote, remote: id.local }
}

/// Opened, used and closed by either end, 10,000 connections leave nothing behind.
#[test]
fn connections_leave_no_state() {
    let mut hosts = Hosts::new(settings("reno", ProfileName::Rfc));
    for round in 0..10_000_u32 {
        let local = address(1, 1024 + (round % 5000) as u16);
        let id = hosts.client.connect(hosts.now, local, address(2, 80)).unwrap();
        hosts.exchange();
        let accepted = hosts.server.accept().unwrap();
        assert_eq!(accepted, mirrored(id));
        let now = hosts.now;
        hosts.client.with(id, |c| c.write(now, b"request")).unwrap();
        hosts.exchange();
        let mut bytes = [0; 9];
        assert_eq!(hosts.server.with(accepted, |c| c.read(now, &mut bytes)), Some(7));
        match round % 3 {
            0 => hosts.client.release(now, id),
            1 => hosts.server.release(now, accepted),
            _ => hosts.client.with(id, |c| c.abort(now)).unwrap(),
        }
        hosts.exchange();
        hosts.client.release(now, id);
        hosts.server.release(now, accepted);
        hosts.exchange();
        if round % 4000 == 3999 {
            hosts.wait(Duration::secs(61));
            assert!(hosts.client.is_empty() && hosts.server.is_empty());
        }
    }
    hosts.wait(Duration::secs(61));
    assert_eq!((hosts.client.len(), hosts.server.len()), (0, 0));
    assert_eq!((hosts.client.next(), hosts.server.next()), (Time::NEVER, Time::NEVER));
    assert_eq!((hosts.server.accept(), hosts.server.outgoing()), (None, None));
}

/// RFC 9293, section 3.10.7.1.
#[test]
fn closed_ports_are_answered_with_a_reset() {
    let mut hosts = Hosts::new(linux());
    let id = hosts.client.connect(Time::ZERO, address(1, 1024), address(2, 81)).unwrap();
    let syn = hosts.client.outgoing().unwrap();
    hosts.server.packet(Time::ZERO, &syn);
    let reset = hosts.server.outgoing().unwrap();
    let (sent, answer) = (parse(&syn).unwrap(), parse(&reset).unwrap());
    assert_eq!((answer.flag_bits, answer.seq, answer.ack), (0x14, 0, sent.seq.wrapping_add(1)));
    hosts.client.packet(Time::ZERO, &reset);
    assert_eq!(hosts.client.get(id).map(|c| c.state()), Some(TcpState::Closed));
    // A reset is not answered.
    hosts.server.packet(Time::ZERO, &reset);
    hosts.client.packet(Time::ZERO, &reset);
    assert_eq!((hosts.server.outgoing(), hosts.client.outgoing()), (None, None));
}

/// A host that has lost its memory answers the challenge with the reset that is believed (RFC 5961,
/// section 4.2).
#[test]
fn a_peer_that_has_restarted_can_connect_again() {
    let mut hosts = Hosts::new(linux());
    let (from, to) = (address(1, 1024), address(2, 80));
    hosts.client.connect(hosts.now, from, to).unwrap();
    hosts.wait(Duration::millis(10));
    assert_eq!(hosts.server.len(), 1);
    hosts.client = Host::new(linux(), Listening::Nowhere, RandomState::new());
    let id = hosts.client.connect(hosts.now, from, to).unwrap();
    hosts.wait(Duration::millis(10));
    // The old connection has ended, and the application at the server takes note of it.
    let old = mirrored(id);
    assert_eq!(hosts.server.get(old).map(|c| c.end()), Some(Some(End::Reset)));
    hosts.server.release(hosts.now, old);
    hosts.wait(Duration::secs(3));
    assert_eq!(hosts.client.get(id).map(|c| c.state()), Some(TcpState::Established));
}

/// The SYNs of a flood that nobody confirms take a bounded number of connections, for a minute.
#[test]
fn a_flood_of_syns_takes_bounded_room() {
    let mut hosts = Hosts::new(linux());
    let mut flood = Host::new(linux(), Listening::Nowhere, RandomState::new());
    for i in 0..3000 {
        let from = address(3 + (i / 60_000) as u8, 1000 + i as u16);
        flood.connect(Time::ZERO, from, address(2, 80)).unwrap();
        hosts.server.packet(Time::ZERO, &flood.outgoing().unwrap());
        while hosts.server.outgoing().is_some() {}
    }
    assert_eq!(hosts.server.len(), 1024);
    let end = Time::ZERO + Duration::secs(100);
    while hosts.server.next() < end {
        let next = hosts.server.next();
        hosts.server.timer(next);
    }
    assert!(hosts.server.is_empty());
    assert_eq!(hosts.server.accept(), None);
}

/// RFC 9293, section 3.6.1: a connection in TIME-WAIT gives way to a new one.
#[test]
fn a_port_can_be_used_again_during_time_wait() {
    let mut hosts = Hosts::new(linux());
    let (from, to) = (address(1, 1024), address(2, 80));
    let id = hosts.client.connect(hosts.now, from, to).unwrap();
    hosts.exchange();
    hosts.server.release(hosts.now, mirrored(id));
    hosts.exchange();
    hosts.client.release(hosts.now, id);
    hosts.exchange();
    assert_eq!(hosts.server.get(mirrored(id)).map(|c| c.state()), Some(TcpState::TimeWait));
    hosts.wait(Duration::millis(100));
    let id = hosts.client.connect(hosts.now, from, to).unwrap();
    hosts.exchange();
    assert_eq!(hosts.client.get(id).map(|c| c.state()), Some(TcpState::Established));
}
