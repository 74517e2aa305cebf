//! Relays at a node of a chain, in memory: the kernels at both ends are hosts of endpoints.

use std::fs::File;
use std::hash::RandomState;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

use lasthop::scenario::{Files, Overrides, load};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::units::{Duration, Time};
use lasthop_endpoint::{ConnectionId, End, Host, Listening, Settings, TcpState};
use lasthop_live::chain::{self, Chain, Release, draw_by_frame};

const RELAYS: [&str; 5] = ["i-tcp", "i-tcp:ack_on_delivery=true", "mtcp", "m-tcp", "rnf"];

struct Disk;

impl Files for Disk {
    fn open(&self, path: &Path) -> std::io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }
}

/// The kernels of server and mobile, and the chain between them.
struct Bench {
    server: Host,
    mobile: Host,
    chain: Chain,
    out: Vec<Release>,
    now: Time,
}

fn address(host: u8, port: u16, v6: bool) -> SocketAddr {
    match v6 {
        false => SocketAddr::new([100, 64, 0, host].into(), port),
        true => SocketAddr::new([0xfd00, 0, 0, 0, 0, 0, 0, host.into()].into(), port),
    }
}

fn mirrored(id: ConnectionId) -> ConnectionId {
    ConnectionId { local: id.remote, remote: id.local }
}

impl Bench {
    fn new(scheme: &str, last_hop: &str) -> Bench {
        let text = format!("last_hop = {{ {last_hop} }}\n[[flow]]\nscheme = '{scheme}'");
        let loaded = load(&text, None, &Overrides::default(), &Disk);
        let mut network = loaded.unwrap_or_else(|e| panic!("{e}")).network;
        draw_by_frame(&mut network);
        let choice = network.flows[0].scheme.clone();
        let kernel = || {
            let cubic = SchemeChoice::parse("cubic").unwrap();
            let profile = Profile::named(ProfileName::Linux).without_send_buffer();
            Settings { receive_buffer: 1 << 20, ..Settings::new(cubic, profile) }
        };
        let listening =
            |host, port| Listening::At([false, true].map(|v6| address(host, port, v6)).into());
        Bench {
            server: Host::new(kernel(), listening(1, 80), RandomState::new()),
            mobile: Host::new(kernel(), listening(2, 22), RandomState::new()),
            chain: Chain::new(&network, Some(&choice), 1).unwrap(),
            out: Vec::new(),
            now: Time::ZERO,
        }
    }

    fn exchange(&mut self) {
        let now = self.now;
        loop {
            let packet = self.server.outgoing().map(|p| (chain::End::Server, p));
            let packet = packet.or_else(|| Some((chain::End::Mobile, self.mobile.outgoing()?)));
            let is_last = packet.is_none();
            match packet {
                Some((end, packet)) => self.chain.packet(now, end, &packet, &mut self.out),
                None => self.chain.step(now, &mut self.out),
            }
            if self.out.is_empty() && is_last {
                break;
            }
            for release in self.out.drain(..) {
                match release.end {
                    chain::End::Server => self.server.packet(now, &release.bytes),
                    chain::End::Mobile => self.mobile.packet(now, &release.bytes),
                }
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.exchange();
            let next = [self.server.next(), self.mobile.next(), self.chain.next()];
            let next = next.into_iter().min().unwrap().max(self.now);
            if next > until {
                break;
            }
            self.now = next;
            self.server.timer(next);
            self.mobile.timer(next);
        }
        self.now = until;
    }

    /// The mobile asks for a connection; its two ends.
    fn connect(&mut self, v6: bool) -> ConnectionId {
        let (from, to) = (address(2, 5000, v6), address(1, 80, v6));
        let id = self.mobile.connect(self.now, from, to).unwrap();
        self.run_for(Duration::secs(2));
        assert_eq!(self.server.accept(), Some(mirrored(id)));
        id
    }

    /// Sends bytes from one end to the other, and half-closes.
    fn transfer(&mut self, id: ConnectionId, down: bool, count: usize) {
        let bytes: Vec<u8> = (0..count).map(|i| (i % 251) as u8).collect();
        let (mut written, mut read, mut at_end) = (0, Vec::new(), false);
        for _ in 0..3000 {
            let now = self.now;
            let (from, to, here, there) = match down {
                true => (&mut self.server, &mut self.mobile, mirrored(id), id),
                false => (&mut self.mobile, &mut self.server, id, mirrored(id)),
            };
            written += from.with(here, |c| c.write(now, &bytes[written..])).unwrap_or(0);
            if written == bytes.len() {
                from.with(here, |c| c.close(now));
            }
            let mut block = [0; 50_000];
            let count = to.with(there, |c| c.read(now, &mut block)).unwrap_or(0);
            read.extend_from_slice(&block[..count]);
            at_end = to.get(there).is_some_and(|c| c.is_at_end());
            if at_end {
                break;
            }
            self.run_for(Duration::millis(10));
        }
        assert!(read == bytes && at_end, "{} of {}", read.len(), bytes.len());
    }

    fn relayed(&self) -> Vec<Vec<(&'static str, u64)>> {
        self.chain.relay_counters().unwrap()
    }
}

#[test]
fn both_directions_arrive_whole_through_each_relay_and_nothing_is_left() {
    for (i, scheme) in RELAYS.into_iter().enumerate() {
        let mut bench = Bench::new(scheme, "rate = '20 Mbps', rtt = '40 ms', loss = '2 %'");
        let id = bench.connect(i % 2 == 0);
        bench.transfer(id, true, 300_000);
        // The other direction is still open.
        assert_eq!(bench.mobile.get(id).unwrap().state(), TcpState::CloseWait, "{scheme}");
        bench.transfer(id, false, 300_000);
        bench.run_for(Duration::secs(130));
        assert_eq!(bench.mobile.get(id).unwrap().end(), Some(End::Closed), "{scheme}");
        assert_eq!(bench.server.get(mirrored(id)).unwrap().end(), Some(End::Closed), "{scheme}");
        if let [counters] = &bench.relayed()[..]
            && let Some(moved) = counters.iter().find(|c| c.0 == "bytes_relayed")
        {
            assert_eq!(moved.1, 300_000, "{scheme}");
        }
    }
}

#[test]
fn a_closed_port_refuses_and_a_reset_passes() {
    for scheme in RELAYS {
        let mut bench = Bench::new(scheme, "rate = '20 Mbps', rtt = '40 ms'");
        let (from, to) = (address(2, 5001, false), address(1, 81, false));
        let refused = bench.mobile.connect(bench.now, from, to).unwrap();
        bench.run_for(Duration::millis(20));
        // The relay does not answer in the place of the server.
        assert_eq!(bench.mobile.get(refused).unwrap().state(), TcpState::SynSent, "{scheme}");
        bench.run_for(Duration::millis(200));
        assert_eq!(bench.mobile.get(refused).unwrap().end(), Some(End::Refused), "{scheme}");
        let id = bench.connect(false);
        bench.server.with(mirrored(id), |c| c.abort(bench.now));
        bench.run_for(Duration::millis(200));
        assert_eq!(bench.mobile.get(id).unwrap().end(), Some(End::Reset), "{scheme}");
        assert_eq!(bench.relayed().len(), 1, "{scheme}");
        bench.run_for(Duration::secs(1));
        assert!(bench.chain.next() > bench.now + Duration::secs(100), "{scheme}");
    }
}

#[test]
fn a_slow_reader_holds_the_sender_back() {
    for scheme in ["i-tcp", "mtcp", "m-tcp", "rnf"] {
        let scheme = format!("{scheme}:buffer=100kB");
        let mut bench = Bench::new(&scheme, "rate = '20 Mbps', rtt = '40 ms'");
        let id = bench.connect(false);
        let now = bench.now;
        let accepted = bench.server.with(mirrored(id), |c| c.write(now, &vec![7; 3_000_000]));
        assert_eq!(accepted, Some(3_000_000));
        bench.run_for(Duration::secs(5));
        // The mobile has a full window and the relay a full buffer.
        let acknowledged = bench.server.get(mirrored(id)).unwrap().acknowledged();
        let delivered = bench.mobile.get(id).unwrap().readable() as u64;
        // M-TCP acknowledges no more than the mobile has.
        let held = acknowledged.saturating_sub(delivered);
        assert!(held <= 100_000, "{scheme}: {held} bytes, {:?}", bench.relayed());
        assert!((64_000..400_000).contains(&acknowledged), "{scheme}: {acknowledged} bytes");
    }
}

#[test]
fn m_tcp_learns_that_the_link_is_down() {
    let outage = "outage = { from = '3 s', length = '3 s' }";
    let hop = format!("rate = '5 Mbps', rtt = '40 ms', {outage}");
    let mut bench = Bench::new("m-tcp", &hop);
    let id = bench.connect(false);
    bench.transfer(id, true, 3_000_000);
    let counters = bench.relayed().remove(0);
    let of = |name| counters.iter().find(|c| c.0 == name).unwrap().1;
    assert!(of("disconnections") > 0, "{counters:?}");
}

#[test]
fn rnf_learns_of_the_rate_while_the_connection_is_opened() {
    let mut bench = Bench::new("rnf", "rate = '20 Mbps', rtt = '40 ms'");
    let (from, to) = (address(2, 5000, false), address(1, 80, false));
    let id = bench.mobile.connect(bench.now, from, to).unwrap();
    // Before any data, and before the first period of its controller, a second, has ended.
    bench.run_for(Duration::millis(200));
    assert_eq!(bench.mobile.get(id).unwrap().state(), TcpState::Established);
    let counters = bench.relayed().remove(0);
    assert!(counters.contains(&("rate_notices", 1)), "{counters:?}");
}
