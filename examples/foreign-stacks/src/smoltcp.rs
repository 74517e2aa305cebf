//! smoltcp: its TCP over IPv4, both ends whole. Its datagrams are IP packets.

use std::collections::VecDeque;
use std::time::Duration;

use lasthop_testbed::{Datagram, Endpoint};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

pub use smoltcp::socket::tcp::CongestionControl;

/// The queues between an interface and the link.
#[derive(Default)]
struct Queues {
    arrived: VecDeque<Vec<u8>>,
    sent: VecDeque<Vec<u8>>,
}

/// A packet that has arrived.
struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

/// Room for a packet to send.
struct Sending<'a>(&'a mut VecDeque<Vec<u8>>);

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut packet = vec![0; len];
        let result = write(&mut packet);
        self.0.push_back(packet);
        result
    }
}

impl Device for Queues {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_>)> {
        let packet = self.arrived.pop_front()?;
        Some((Received(packet), Sending(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        capabilities
    }
}

/// What the application of an end does.
#[derive(Clone, Copy, Debug)]
enum App {
    /// Writes this number of bytes, then closes the connection.
    Send(usize),
    /// Reads to the end: bytes so far, and when the other end closed.
    Receive(u64, Option<Duration>),
}

/// One end of a TCP connection.
pub struct End {
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    queues: Queues,
    app: App,
    /// The last time at which everything was done.
    polled: Option<Duration>,
}

/// Bytes of the buffers of a socket.
const BUFFER: usize = 4 << 20;
const PORT: u16 = 80;

fn address(last: u8) -> IpAddress {
    IpAddress::v4(10, 0, 0, last)
}

/// smoltcp counts microseconds.
fn instant(now: Duration) -> Instant {
    Instant::from_micros(now.as_micros() as i64)
}

impl End {
    fn new(last: u8, app: App) -> End {
        let (mut queues, mut config) = (Queues::default(), Config::new(HardwareAddress::Ip));
        config.random_seed = u64::from(last);
        let mut interface = Interface::new(config, &mut queues, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // An empty list has room for one address.
            let _ = addresses.push(IpCidr::new(address(last), 24));
        });
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(Socket::new(buffer(), buffer()));
        End { interface, sockets, socket, queues, app, polled: None }
    }

    /// The socket.
    pub fn socket(&self) -> &Socket<'static> {
        self.sockets.get(self.socket)
    }

    /// Acknowledges this much later; `None`: at once.
    pub fn set_ack_delay(&mut self, delay: Option<Duration>) {
        let delay = delay.map(|d| smoltcp::time::Duration::from_micros(d.as_micros() as u64));
        self.sockets.get_mut::<Socket>(self.socket).set_ack_delay(delay);
    }

    /// Bytes that the application has read.
    pub fn received(&self) -> u64 {
        if let App::Receive(bytes, _) = self.app { bytes } else { 0 }
    }

    /// When it had read everything, since the start of the run.
    pub fn finished_at(&self) -> Option<Duration> {
        if let App::Receive(_, at) = self.app { at } else { None }
    }

    /// Lets the stack and its application do what there is to do now.
    fn poll(&mut self, now: Duration) {
        self.polled = Some(now);
        self.interface.poll(instant(now), &mut self.queues, &mut self.sockets);
        let socket = self.sockets.get_mut::<Socket>(self.socket);
        match &mut self.app {
            App::Send(left) => {
                while *left > 0 && socket.can_send() {
                    let chunk = [0; 16_384];
                    // It can send, so this is no error.
                    *left -= socket.send_slice(&chunk[..chunk.len().min(*left)]).unwrap_or(0);
                }
                if *left == 0 && socket.may_send() {
                    socket.close();
                }
            }
            App::Receive(bytes, finished_at) => {
                while let Ok(count @ 1..) = socket.recv(|data| (data.len(), data.len())) {
                    *bytes += count as u64;
                }
                if *bytes > 0 && !socket.may_recv() {
                    finished_at.get_or_insert(now);
                    socket.close();
                }
            }
        }
        self.interface.poll(instant(now), &mut self.queues, &mut self.sockets);
    }
}

impl Endpoint for End {
    fn handle(&mut self, datagram: Datagram, now: Duration) {
        self.queues.arrived.push_back(datagram.bytes);
        self.poll(now);
    }

    fn poll_transmit(&mut self, now: Duration) -> Option<Datagram> {
        if self.polled != Some(now) {
            self.poll(now);
        }
        self.queues.sent.pop_front().map(Datagram::new)
    }

    fn next_timeout(&mut self) -> Option<Duration> {
        let now = self.polled.unwrap_or_default();
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        let at = Duration::from_micros(u64::try_from(at.total_micros()).unwrap_or(0));
        // All that is due now has been done: a socket that still wants to be polled now waits for
        // something else.
        Some(if at > now { at } else { now + Duration::from_millis(1) })
    }
}

/// The two ends of a download of this number of bytes: the server, which sends, and the client,
/// which connects when its flow starts.
///
/// # Panics
///
/// Never: the sockets are new.
pub fn download(bytes: usize, control: CongestionControl) -> (End, End) {
    let (mut server, mut client) =
        (End::new(1, App::Send(bytes)), End::new(2, App::Receive(0, None)));
    for end in [&mut server, &mut client] {
        let socket = end.sockets.get_mut::<Socket>(end.socket);
        socket.set_congestion_control(control);
    }
    let socket = server.sockets.get_mut::<Socket>(server.socket);
    socket.listen(PORT).expect("a new socket listens");
    let socket = client.sockets.get_mut::<Socket>(client.socket);
    let remote = (address(1), PORT);
    socket.connect(client.interface.context(), remote, 50_000).expect("a new socket connects");
    (server, client)
}
