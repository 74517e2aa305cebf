//! Programs whose TCP ends at an own end of a link, in memory: the kernels are hosts of endpoints.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::RandomState;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::units::{Duration, Time};
use lasthop_endpoint::{ConnectionId, End, Host, Listening, Settings, TcpState};
use lasthop_live::device::own_end::OwnEnd;
use lasthop_live::device::{Device, Sent};
use lasthop_live::split::Side;
use lasthop_wire::datagram::Datagram;
use lasthop_wire::parse;

fn settings() -> Settings {
    Settings::new(SchemeChoice::parse("reno").unwrap(), Profile::named(ProfileName::Linux))
}

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new([100, 64, 0, host].into(), port)
}

/// The two queues of a device.
#[derive(Clone, Default)]
struct Queues(Rc<RefCell<[VecDeque<Vec<u8>>; 2]>>);

struct Wire(Queues, Vec<u8>);

impl Device for Wire {
    fn read(&mut self, _: Time) -> io::Result<Option<&[u8]>> {
        let Some(packet) = self.0.0.borrow_mut()[0].pop_front() else { return Ok(None) };
        self.1 = packet;
        Ok(Some(&self.1))
    }

    fn write(&mut self, _: Time, packet: &[u8]) -> Sent {
        self.0.0.borrow_mut()[1].push_back(packet.to_vec());
        Sent::Sent
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The kernel of the server (100.64.0.1), its own end, and the mobile (100.64.0.2) 20 ms away.
struct Link {
    server: Host,
    queues: Queues,
    end: OwnEnd<Wire>,
    mobile: Host,
    travelling: VecDeque<(Time, bool, Vec<u8>)>,
    number: u64,
    now: Time,
}

impl Link {
    fn new() -> Link {
        let queues = Queues::default();
        let listening = |a| Listening::At([a].into());
        Link {
            server: Host::new(settings(), listening(address(1, 80)), RandomState::new()),
            end: OwnEnd::new(Wire(queues.clone(), Vec::new()), Side::Mobile, settings()),
            queues,
            mobile: Host::new(settings(), listening(address(2, 22)), RandomState::new()),
            travelling: VecDeque::new(),
            number: 0,
            now: Time::ZERO,
        }
    }

    fn exchange(&mut self) {
        loop {
            let mut idle = true;
            while let Some(packet) = self.server.outgoing() {
                self.queues.0.borrow_mut()[0].push_back(packet);
            }
            while let Some(packet) = self.end.read(self.now).unwrap().map(<[u8]>::to_vec) {
                self.transmit(true, packet);
                idle = false;
            }
            loop {
                let Some(packet) = self.queues.0.borrow_mut()[1].pop_front() else { break };
                self.server.packet(self.now, &packet);
                idle = false;
            }
            while let Some(packet) = self.mobile.outgoing() {
                self.transmit(false, packet);
            }
            if idle {
                return;
            }
        }
    }

    /// Every fiftieth packet is lost.
    fn transmit(&mut self, down: bool, packet: Vec<u8>) {
        self.number += 1;
        if !self.number.is_multiple_of(50) {
            self.travelling.push_back((self.now + Duration::millis(20), down, packet));
        }
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.exchange();
            let arrival = self.travelling.front().map_or(Time::NEVER, |p| p.0);
            let next = [self.server.next(), self.end.next(), self.mobile.next(), arrival];
            let next = next.into_iter().min().unwrap();
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            self.server.timer(self.now);
            self.mobile.timer(self.now);
            while self.travelling.front().is_some_and(|p| p.0 <= self.now) {
                let Some((_, down, packet)) = self.travelling.pop_front() else { break };
                match down {
                    true => self.mobile.packet(self.now, &packet),
                    false => assert_eq!(self.end.write(self.now, &packet), Sent::Sent),
                }
            }
        }
        self.now = until;
    }
}

fn mirrored(id: ConnectionId) -> ConnectionId {
    ConnectionId { local: id.remote, remote: id.local }
}

/// Sends a megabyte from one host to the other, and closes; what arrives.
fn transfer(
    link: &mut Link,
    from: fn(&mut Link) -> &mut Host,
    id: ConnectionId,
    to: fn(&mut Link) -> &mut Host,
) -> Vec<u8> {
    let bytes: Vec<u8> = (0..1_000_000).map(|i| (i % 251) as u8).collect();
    let (mut written, mut read) = (0, Vec::new());
    for _ in 0..3000 {
        let now = link.now;
        written += from(link).with(id, |c| c.write(now, &bytes[written..])).unwrap_or(0);
        if written == bytes.len() {
            from(link).with(id, |c| c.close(now));
        }
        let mut block = [0; 50_000];
        let count = to(link).with(mirrored(id), |c| c.read(now, &mut block)).unwrap_or(0);
        read.extend_from_slice(&block[..count]);
        link.run_for(Duration::millis(10));
    }
    assert!(read == bytes, "{} of {}", read.len(), bytes.len());
    read
}

#[test]
fn data_pass_in_both_directions_and_both_ends_keep_their_addresses() {
    let mut link = Link::new();
    let id = link.mobile.connect(link.now, address(2, 5000), address(1, 80)).unwrap();
    link.run_for(Duration::millis(100));
    assert_eq!(link.server.accept(), Some(mirrored(id)));
    transfer(&mut link, |l| &mut l.server, mirrored(id), |l| &mut l.mobile);
    // The other direction is still open.
    assert_eq!(link.mobile.get(id).map(|c| c.state()), Some(TcpState::CloseWait));
    transfer(&mut link, |l| &mut l.mobile, id, |l| &mut l.server);
    link.run_for(Duration::secs(130));
    assert_eq!(link.mobile.get(id).unwrap().end(), Some(End::Closed));
    assert_eq!(link.server.get(mirrored(id)).unwrap().end(), Some(End::Closed));
    assert_eq!((link.end.connections(), link.end.next()), (1, Time::NEVER));
}

#[test]
fn the_server_may_open_the_connection() {
    let mut link = Link::new();
    let id = link.server.connect(link.now, address(1, 5000), address(2, 22)).unwrap();
    link.run_for(Duration::millis(200));
    assert_eq!(link.mobile.accept(), Some(mirrored(id)));
    transfer(&mut link, |l| &mut l.mobile, mirrored(id), |l| &mut l.server);
}

#[test]
fn closed_ports_refuse_and_resets_pass() {
    let mut link = Link::new();
    let refused = link.mobile.connect(link.now, address(2, 5000), address(1, 81)).unwrap();
    link.run_for(Duration::millis(100));
    assert_eq!(link.mobile.get(refused).unwrap().end(), Some(End::Refused));
    let id = link.mobile.connect(link.now, address(2, 5001), address(1, 80)).unwrap();
    link.run_for(Duration::millis(100));
    link.server.with(mirrored(id), |c| c.abort(link.now));
    link.run_for(Duration::millis(100));
    assert_eq!(link.mobile.get(id).unwrap().end(), Some(End::Reset));
    assert_eq!(link.end.next(), Time::NEVER);
}

#[test]
fn a_connection_whose_client_goes_away_while_it_is_opened_is_reset() {
    let mut link = Link::new();
    // The server's end asks the mobile, whose answer comes after 40 ms, when nobody waits for it.
    let id = link.server.connect(link.now, address(1, 5000), address(2, 22)).unwrap();
    link.run_for(Duration::millis(10));
    let _ = link.server.with(id, |c| c.abort(link.now));
    link.server.release(link.now, id);
    link.run_for(Duration::millis(200));
    let accepted = link.mobile.accept().unwrap();
    assert_eq!(link.mobile.get(accepted).unwrap().end(), Some(End::Reset));
    assert_eq!(link.end.next(), Time::NEVER);

    // The mobile asks the server, which accepts at once.
    let id = link.mobile.connect(link.now, address(2, 5000), address(1, 80)).unwrap();
    link.run_for(Duration::millis(10));
    let _ = link.mobile.with(id, |c| c.abort(link.now));
    link.mobile.release(link.now, id);
    link.run_for(Duration::millis(200));
    let accepted = link.server.accept().unwrap();
    assert_eq!(link.server.get(accepted).unwrap().end(), Some(End::Reset));
    assert_eq!(link.end.next(), Time::NEVER);
}

#[test]
fn other_protocols_pass() {
    let mut link = Link::new();
    let datagram = Datagram { source: address(2, 9), destination: address(1, 53), payload: b"x" };
    link.end.write(link.now, &datagram.packet());
    assert_eq!(link.queues.0.borrow_mut()[1].pop_front(), Some(datagram.packet()));
    link.queues.0.borrow_mut()[0].push_back(datagram.packet());
    let passed = link.end.read(link.now).unwrap().map(<[u8]>::to_vec);
    assert_eq!(passed, Some(datagram.packet()));
    assert!(parse(&datagram.packet()).is_err());
}
