//! An endpoint is the connection that is simulated: given what arrives at an end of a simulated
//! connection, it sends the same segments at the same times, to the nanosecond.

use std::net::SocketAddr;

use crate::common::simulated::{Ends, network, simulate};
use crate::common::{CLIENT, SERVER, address};
use etherparse::TcpHeader;
use lasthop::scenario::network::{Flow, Network};
use lasthop::segment::{Flags, Options, Segment};
use lasthop::traffic::App;
use lasthop::units::Time;
use lasthop_endpoint::isn::Secrets;
use lasthop_endpoint::{Endpoint, Settings};
use lasthop_wire::options::{OptionBytes, TcpOption};
use lasthop_wire::render::filler;
use lasthop_wire::{Addressing, Numbering, assemble, parse};

/// Initial sequence numbers: both streams cross the wrap.
const ISN: [u32; 2] = [u32::MAX - 3000, u32::MAX];

/// The packet of a simulated segment. A SYN offers what the profile uses.
fn packet(flow: &Flow, from: usize, segment: &Segment, options: &Options) -> Vec<u8> {
    let numbering = Numbering {
        seq_zero: ISN[from].wrapping_add(1),
        ack_zero: ISN[1 - from].wrapping_add(1),
        window_scale: 0,
    };
    let mut segment = *segment;
    if from == SERVER || !segment.flags.has(Flags::SYN) {
        segment.flags = segment.flags.with(Flags::ACK);
    }
    let mut tcp = numbering.tcp_header_with(&segment, options);
    if segment.flags.has(Flags::SYN) {
        offer(flow, &segment, &mut tcp);
    }
    let addressing = Addressing {
        source: address(from, false),
        destination: address(1 - from, false),
        hop_limit: 64,
        traffic_class: if segment.flags.has(Flags::CE) { 3 } else { 0 },
        flow_label: 0,
    };
    assemble(&addressing, &tcp, &filler(segment.seq, segment.len as usize))
}

fn offer(flow: &Flow, segment: &Segment, tcp: &mut TcpHeader) {
    let profile = flow.scheme.sender(&flow.profile).profile(&flow.profile);
    let stamps = TcpOption::Timestamps { value: segment.ts_value, echo: segment.ts_echo };
    let mss = flow.segment + if profile.timestamps { 12 } else { 0 };
    let mut options = OptionBytes::default();
    options.push(TcpOption::MaximumSegmentSize(mss as u16)).unwrap();
    options.push(TcpOption::WindowScale(0)).unwrap();
    if profile.sack {
        options.push(TcpOption::SackPermitted).unwrap();
    }
    if profile.timestamps {
        options.push(stamps).unwrap();
    }
    tcp.set_options_raw(options.padded()).unwrap();
    (tcp.ece, tcp.cwr) = (profile.ecn, profile.ecn && !tcp.ack);
}

/// What identifies a packet: its time, numbers, flags, window, payload, timestamps and SACK blocks.
/// PSH, and the FIN and its number in ACKs, are not simulated; nor are the windows of a sender and
/// what a SYN offers.
#[derive(Debug, PartialEq)]
struct Sent {
    at: Time,
    seq: u32,
    ack: u32,
    flags: u16,
    window: Option<u16>,
    len: u32,
    stamps: Option<(u32, u32)>,
    sack: Vec<(u32, u32)>,
}

fn sent(at: Time, from: usize, packet: &[u8], closed: bool) -> Sent {
    let tcp = parse(packet).unwrap();
    let is_syn = tcp.flag_bits & 2 != 0;
    let sack = tcp.options().flatten().find_map(|o| match o {
        TcpOption::Sack(blocks) => Some(blocks.as_slice().to_vec()),
        _ => None,
    });
    let ignored = if from == SERVER { 0x9 } else { 0x8 } | if is_syn { 0xc0 } else { 0 };
    Sent {
        at,
        seq: tcp.seq,
        // The simulated sender does not acknowledge the FIN of the peer by its number.
        ack: if closed { 0 } else { tcp.ack },
        flags: tcp.flag_bits & !ignored,
        window: (from == SERVER && !is_syn).then_some(tcp.window),
        len: tcp.payload_len,
        stamps: tcp.timestamps(),
        sack: sack.unwrap_or_default(),
    }
}

/// One end of the simulated connection as an endpoint.
struct Replayed {
    endpoint: Option<Endpoint>,
    which: usize,
    sent: Vec<(Time, Vec<u8>)>,
}

impl Replayed {
    fn collect(&mut self, now: Time) {
        while let Some(packet) = self.endpoint.as_mut().and_then(Endpoint::outgoing) {
            self.sent.push((now, packet));
        }
    }

    /// Timers come before what arrives at the same time: they were set before it left.
    fn run_until(&mut self, time: Time) {
        while let Some(next) = self.endpoint.as_ref().map(Endpoint::next).filter(|n| *n <= time) {
            self.endpoint.as_mut().unwrap().timer(next);
            self.collect(next);
        }
    }

    fn packet(&mut self, now: Time, packet: &[u8], settings: &Settings) {
        match &mut self.endpoint {
            Some(endpoint) => endpoint.packet(now, packet),
            None => {
                let secrets = Secrets { isn: ISN[self.which], timestamp_offset: 0 };
                self.endpoint = Endpoint::accept(now, settings.clone().into(), packet, secrets);
            }
        }
        self.collect(now);
    }
}

/// Gives an endpoint what arrives at an end of the simulation, and compares what both send.
fn compare(network: &Network, ends: &Ends<usize>, seed: u64, which: usize) -> usize {
    let flow = &network.flows[0];
    let App::Transfer { size } = flow.app else { panic!("a transfer") };
    let mut settings = Settings::of_flow(flow, seed);
    (settings.send_buffer, settings.reads_at_once) = (size as usize, true);
    let addresses: [SocketAddr; 2] = [CLIENT, SERVER].map(|end| address(end, false));
    let mut replayed = Replayed { endpoint: None, which, sent: Vec::new() };
    if which == CLIENT {
        let secrets = Secrets { isn: ISN[CLIENT], timestamp_offset: 0 };
        let [from, to] = addresses;
        let mut client = Endpoint::connect(Time::ZERO, settings.clone().into(), from, to, secrets);
        assert_eq!(client.write(Time::ZERO, &filler(0, size as usize)), size as usize);
        client.close(Time::ZERO);
        replayed.endpoint = Some(client);
        replayed.collect(Time::ZERO);
    }
    for (t, _, segment) in ends.exits.iter().filter(|e| e.1 == which) {
        replayed.run_until(*t);
        replayed.packet(*t, &packet(flow, 1 - which, segment, &ends.options(segment)), &settings);
    }
    replayed.run_until(Time::ZERO + network.duration);
    let is_fin = |e: &&(Time, usize, Segment)| e.1 == which && e.2.flags.has(Flags::FIN);
    let closed = ends.exits.iter().find(is_fin).map_or(Time::NEVER, |e| e.0);
    let closed = |t: Time| which == CLIENT && t >= closed;
    let simulated: Vec<Sent> = ends
        .entries
        .iter()
        .filter(|e| e.1 == which)
        .map(|(t, from, s)| sent(*t, *from, &packet(flow, *from, s, &ends.options(s)), closed(*t)))
        .collect();
    let live: Vec<Sent> =
        replayed.sent.iter().map(|(t, p)| sent(*t, which, p, closed(*t))).collect();
    for (i, (a, b)) in live.iter().zip(&simulated).enumerate() {
        assert_eq!(a, b, "packet {i} of {} at end {which} (endpoint, simulated)", simulated.len());
    }
    assert_eq!(live.len(), simulated.len());
    let endpoint = replayed.endpoint.unwrap();
    if which == SERVER {
        assert_eq!(endpoint.readable() as u64, size);
    }
    simulated.len()
}

/// The scheme, the profile and the link of each run. Windows below 64 KiB are not scaled.
const RUNS: [(&str, &str, &str); 9] = [
    ("reno", "linux", "rate = '5 Mbps', rtt = '40 ms', loss = '2 %'"),
    ("cubic", "linux", "rate = '5 Mbps', rtt = '40 ms', loss = '2 %'"),
    ("cubic", "linux", "rate = '2 Mbps', rtt = '200 ms', queue = '6 packets'"),
    ("bbr", "linux", "rate = '5 Mbps', rtt = '40 ms', loss = '2 %'"),
    ("noor-eaer", "linux", "rate = '5 Mbps', rtt = '40 ms', loss = '2 %'"),
    ("eifel", "linux", "rate = '5 Mbps', rtt = '40 ms', loss = '2 %'"),
    ("veno", "rfc", "rate = '5 Mbps', rtt = '83 ms', loss = '1 %'"),
    ("westwood", "rfc", "rate = '1 Mbps', rtt = '83 ms', loss = '3 %'"),
    (
        "newreno",
        "rfc",
        "rate = '7.3 Mbps', rtt = '23 ms', outage = { from = '1 s', length = '2 s' }",
    ),
];

#[test]
fn an_endpoint_is_the_simulated_connection() {
    let mut packets = 0;
    for (scheme, profile, link) in RUNS {
        let text = format!(
            "duration = '40 s'\nlast_hop = {{ {link} }}\ntcp = {{ profile = '{profile}', \
             receive_window = '60000 B' }}\n[[flow]]\n\
             app = {{ kind = 'transfer', size = '1 MB' }}\n\
             scheme = '{scheme}'"
        );
        let network = network(&text);
        for seed in [1, 2] {
            // The data sender is the client here: it opens the connection.
            let (ends, _) = simulate(&network, seed, [CLIENT, SERVER]);
            for which in [CLIENT, SERVER] {
                packets += compare(&network, &ends, seed, which);
            }
        }
    }
    assert!(packets > 15_000, "{packets} packets");
}
