//! Datagrams of the mobile to the network outside: a socket there for each pair of ends. What the
//! sockets receive, and errors about what they have sent, become packets again.

#![allow(unsafe_code, reason = "epoll, which the standard library does not have")]

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use lasthop::units::{Duration, Time};
use lasthop_wire::datagram::{Datagram, Unreachable, datagram, unreachable};

use super::outside::Outside;
use crate::device::{Device, MTU, Sent};
use lasthop::segment::Notice;
use lasthop_endpoint::ConnectionId;

/// Sockets at a time; the one that was idle longest is closed for a new one.
pub(super) const MOST: usize = 256;
/// Idle time after which a socket is closed: at least two minutes (RFC 4787, section 4.3).
const IDLE: Duration = Duration::secs(120);
/// Sockets that one call of epoll reports.
const EVENTS: usize = 64;
/// The event of the wrapped device.
const DEVICE: u64 = u64::MAX;

/// Ends of a flow of datagrams: the mobile's, and the one that it sends to.
type Key = (SocketAddr, SocketAddr);

/// A socket outside.
struct Flow {
    socket: UdpSocket,
    key: Key,
    used: Time,
    /// The last packet sent, for errors about it.
    last: Vec<u8>,
}

/// The device of the server's end, without the datagrams, which go outside.
pub struct WithDatagrams<D> {
    device: D,
    outside: Outside,
    epoll: Epoll,
    flows: HashMap<u64, Flow>,
    numbers: HashMap<Key, u64>,
    opened: u64,
    /// Sockets that have something to be read.
    ready: VecDeque<u64>,
    /// Packets for the mobile that came up while one was written.
    errors: VecDeque<Vec<u8>>,
    packet: Vec<u8>,
    buffer: Vec<u8>,
    carried: u64,
    dropped: u64,
}

impl<D: Device> WithDatagrams<D> {
    /// Wraps a device; sockets are opened in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// If the kernel has no epoll.
    pub fn new(device: D, outside: Outside) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        if let Some(fd) = device.fd() {
            epoll.add(fd.as_raw_fd(), DEVICE)?;
        }
        Ok(WithDatagrams {
            device,
            outside,
            epoll,
            flows: HashMap::new(),
            numbers: HashMap::new(),
            opened: 0,
            ready: VecDeque::new(),
            errors: VecDeque::new(),
            packet: Vec::new(),
            buffer: vec![0; 1 << 16],
            carried: 0,
            dropped: 0,
        })
    }

    /// Datagrams sent and received, and those that could not be carried.
    pub fn counts(&self) -> (u64, u64) {
        (self.carried, self.dropped)
    }

    /// Sends a datagram of the mobile outside.
    fn send(&mut self, now: Time, key: Key, payload: &[u8], packet: &[u8]) {
        let number = match self.numbers.get(&key) {
            Some(&number) => number,
            None => match self.open(now, key) {
                Ok(number) => number,
                Err(e) => {
                    self.dropped += 1;
                    let is_network = matches!(
                        e.kind(),
                        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable
                    );
                    let error = is_network.then(|| unreachable(packet, Unreachable::Network));
                    self.errors.extend(error.flatten());
                    return;
                }
            },
        };
        let Some(flow) = self.flows.get_mut(&number) else { return };
        flow.used = now;
        flow.last.clear();
        flow.last.extend_from_slice(packet);
        match flow.socket.send(payload) {
            Ok(_) => self.carried += 1,
            // An earlier datagram was refused; the error has not been read yet.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                self.errors.extend(unreachable(packet, Unreachable::Port));
            }
            Err(_) => self.dropped += 1,
        }
    }

    fn open(&mut self, now: Time, key: Key) -> io::Result<u64> {
        if self.flows.len() >= MOST {
            let idle = self.flows.iter().min_by_key(|(_, flow)| flow.used).map(|(&n, _)| n);
            idle.into_iter().for_each(|n| self.close(n));
        }
        self.flows.retain(|_, flow| now.since(flow.used) < IDLE);
        let open = &self.flows;
        self.numbers.retain(|_, n| open.contains_key(n));
        let any: SocketAddr = match key.1 {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.set_nonblocking(true)?;
        socket.connect(self.outside.address(key.1))?;
        let number = self.opened;
        self.epoll.add(socket.as_raw_fd(), number)?;
        self.opened += 1;
        self.numbers.insert(key, number);
        self.flows.insert(number, Flow { socket, key, used: now, last: Vec::new() });
        Ok(number)
    }

    fn close(&mut self, number: u64) {
        if let Some(flow) = self.flows.remove(&number) {
            self.numbers.remove(&flow.key);
        }
    }

    /// The next packet for the mobile from a socket.
    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        if self.flows.is_empty() {
            return None;
        }
        if self.ready.is_empty() {
            self.epoll.ready(&mut self.ready);
        }
        while let Some(number) = self.ready.pop_front() {
            let Some(flow) = self.flows.get_mut(&number) else { continue };
            flow.used = now;
            match flow.socket.recv(&mut self.buffer) {
                Ok(length) => {
                    let payload = self.buffer.get(..length).unwrap_or_default();
                    let (destination, source) = flow.key;
                    let packet = Datagram { source, destination, payload }.packet();
                    if packet.len() <= MTU {
                        self.carried += 1;
                        return Some(packet);
                    }
                    self.dropped += 1;
                }
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                    if let Some(error) = unreachable(&flow.last, Unreachable::Port) {
                        return Some(error);
                    }
                }
                Err(_) => {}
            }
        }
        None
    }
}

impl<D: Device> Device for WithDatagrams<D> {
    fn read(&mut self, now: Time) -> io::Result<Option<&[u8]>> {
        match self.errors.pop_front().or_else(|| self.receive(now)) {
            Some(packet) => {
                self.packet = packet;
                Ok(Some(&self.packet))
            }
            None => self.device.read(now),
        }
    }

    fn write(&mut self, now: Time, packet: &[u8]) -> Sent {
        match datagram(packet) {
            Some(d) if !d.destination.ip().is_multicast() => {
                self.send(now, (d.source, d.destination), d.payload, packet);
                Sent::Sent
            }
            _ => self.device.write(now, packet),
        }
    }

    fn notice(&mut self, now: Time, id: ConnectionId, notice: &Notice) -> bool {
        self.device.notice(now, id, notice)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.0.as_fd())
    }

    fn next(&self) -> Time {
        if self.errors.is_empty() && self.ready.is_empty() {
            self.device.next()
        } else {
            Time::ZERO
        }
    }

    fn drops(&mut self) -> u64 {
        self.device.drops()
    }
}

/// A set of descriptors.
struct Epoll(OwnedFd);

impl Epoll {
    fn new() -> io::Result<Epoll> {
        // SAFETY: no pointers; the result is checked, and owned by nobody else.
        match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
            fd if fd < 0 => Err(io::Error::last_os_error()),
            fd => Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) })),
        }
    }

    /// Adds a descriptor, which leaves the set when it is closed.
    fn add(&self, fd: RawFd, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number };
        // SAFETY: the event outlives the call.
        let done =
            unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The numbers of those that can be read now, without the device's.
    fn ready(&self, numbers: &mut VecDeque<u64>) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: the array outlives the call, which writes at most its length.
        let found =
            unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), EVENTS as i32, 0) };
        let found = events.iter().take(usize::try_from(found).unwrap_or_default());
        numbers.extend(found.map(|e| e.u64).filter(|&n| n != DEVICE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::memory::Memory;
    use crate::place::addresses;

    fn device() -> WithDatagrams<Memory> {
        let outside = Outside { server: addresses(0, 1) };
        WithDatagrams::new(Memory::default(), outside).unwrap()
    }

    fn wait_for_packet(device: &mut WithDatagrams<Memory>) -> Vec<u8> {
        for _ in 0..60_000 {
            if let Some(packet) = device.read(Time::ZERO).unwrap() {
                return packet.to_vec();
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        panic!("no packet");
    }

    #[test]
    fn datagrams_go_to_the_loopback_address_and_back() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut device = device();
        let source = "100.64.0.2:5000".parse().unwrap();
        let destination =
            SocketAddr::new([100, 64, 0, 1].into(), server.local_addr().unwrap().port());
        let question = Datagram { source, destination, payload: b"question" }.packet();
        assert_eq!(device.write(Time::ZERO, &question), Sent::Sent);
        let mut buffer = [0; 100];
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer.get(..length), Some(&b"question"[..]));
        server.send_to(b"answer", from).unwrap();
        let answer = Datagram { source: destination, destination: source, payload: b"answer" };
        assert_eq!(wait_for_packet(&mut device), answer.packet());
        assert_eq!((device.carried, device.flows.len()), (2, 1));
        // A second port of the mobile has its own socket; idle ones are closed.
        let other =
            Datagram { source: "100.64.0.2:5001".parse().unwrap(), destination, payload: b"" };
        device.write(Time::ZERO + IDLE, &other.packet());
        assert_eq!((device.flows.len(), device.numbers.len()), (1, 1));
    }

    #[test]
    fn a_closed_port_is_reported() {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut device = device();
        let source = "100.64.0.2:5000".parse().unwrap();
        let destination = SocketAddr::new([100, 64, 0, 1].into(), port);
        let packet = Datagram { source, destination, payload: b"question" }.packet();
        device.write(Time::ZERO, &packet);
        let error = unreachable(&packet, Unreachable::Port).unwrap();
        assert_eq!(wait_for_packet(&mut device), error);
    }

    #[test]
    fn there_is_a_limit_to_the_sockets() {
        let mut device = device();
        let destination = "100.64.0.1:9".parse().unwrap();
        for port in 1..=(MOST as u16 + 10) {
            let source = SocketAddr::new([100, 64, 0, 2].into(), port);
            let packet = Datagram { source, destination, payload: b"" }.packet();
            device.write(Time(u64::from(port)), &packet);
        }
        assert!(device.flows.len() <= MOST);
        assert_eq!(device.flows.len(), device.numbers.len());
    }

    #[test]
    fn other_packets_stay_with_the_device() {
        let mut device = device();
        device.write(Time::ZERO, &[0x45, 0, 0, 20]);
        assert_eq!(device.device.written.len(), 1);
    }
}
