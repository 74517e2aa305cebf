//! A chain gives the simulator's result: the packets that the simulated ends send are rendered and
//! passed to a chain at their times; all of them must be lost, dropped and delivered as in the
//! simulation, to the nanosecond. What the ends send depends only on what arrives, so that the
//! closed loops are equal too.

use std::net::SocketAddrV4;

use crate::simulated::{self, Ends};
use lasthop::role::Role;
use lasthop::scenario::network::Network;
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::{Flags, Options, Segment};
use lasthop::units::Time;
use lasthop_live::chain::{Chain, End, HopCounters, Release};
use lasthop_sim::RunResult;
use lasthop_wire::datagram::Datagram;
use lasthop_wire::options::TcpOption;
use lasthop_wire::{Endpoints, Side, parse, render_with};

/// Initial sequence number of the server.
const ISN: u32 = u32::MAX - 3000;

/// A network from the text of a scenario file; traces are those that the package contains.
fn network(text: &str) -> Network {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/lasthop/data/traces/");
    simulated::network(&text.replace("TRACES/", data))
}

fn simulate(network: &Network, seed: u64) -> (Ends<End>, RunResult) {
    simulated::simulate(network, seed, [End::Server, End::Mobile])
}

/// The bytes of a simulated segment. Connections differ in their ports; windows are not scaled.
fn bytes(network: &Network, segment: &Segment, options: &Options) -> Vec<u8> {
    let flow = &network.flows[segment.flow as usize];
    let side = |address: &str, port: u16, isn: u32| Side {
        address: SocketAddrV4::new(address.parse().unwrap(), port),
        isn,
        window_scale: 0,
    };
    let from_server = network.nodes[usize::from(flow.from)].role != Role::Station;
    let server = side("10.0.0.1", 5000 + segment.flow as u16, ISN);
    let mobile = side("10.9.0.2", 80, 1 << 31);
    let (sender, receiver) = if from_server { (server, mobile) } else { (mobile, server) };
    let endpoints = Endpoints { sender, receiver, mss: flow.segment as u16 };
    let packet = render_with(segment, options, &endpoints);
    // A rendered SYN has more options than the simulated one, and the options of an ACK that is in
    // flight at the end of the simulation are not known.
    let differs = segment.flags.has(Flags::SYN) || *options == Options::NONE;
    assert!(differs || packet.len() as u32 == segment.size, "{segment:?}: {}", packet.len());
    packet
}

/// What identifies a packet at an end: time (not of a SYN), sequence number, acknowledgment number,
/// window, payload, flags.
type Exit = (Time, bool, u32, u32, u16, u32, u16);

fn exit(at: Time, end: End, bytes: &[u8]) -> Exit {
    let tcp = parse(bytes).unwrap();
    let mark = u16::from(tcp.addressing.traffic_class & 3 == 3) << 15;
    let flags = tcp.flag_bits | mark;
    let at = if flags & 2 == 0 { at } else { Time::ZERO };
    (at, end == End::Server, tcp.seq, tcp.ack, tcp.window, tcp.payload_len, flags)
}

/// Runs a scenario in the simulator and in a chain, which is asked for its events late by `late`.
fn compare(text: &str, scheme: Option<&str>, seed: u64, late: u64) {
    let network = network(text);
    let (ends, result) = simulate(&network, seed);
    let mut simulated: Vec<Exit> = ends
        .exits
        .iter()
        .map(|(t, end, s)| {
            let mark = if s.flags.has(Flags::CE) { Flags::CE } else { Flags::NONE };
            let segment = Segment { flags: s.flags.with(mark), ..*s };
            exit(*t, *end, &bytes(&network, &segment, &ends.options(s)))
        })
        .collect();
    let choice = scheme.map(|s| SchemeChoice::parse(s).unwrap());
    let mut chain = Chain::new(&network, choice.as_ref(), seed).unwrap();
    let mut out: Vec<Release> = Vec::new();
    let mut clock = 0;
    for (t, end, segment) in &ends.entries {
        // The host looks at the chain only each `late` nanoseconds, and when a packet comes.
        while late > 0 && clock + late < t.0 {
            clock += late;
            chain.step(Time(clock), &mut out);
        }
        chain.packet(*t, *end, &bytes(&network, segment, &ends.options(segment)), &mut out);
    }
    let end = Time::ZERO + network.duration;
    // What arrives at the end itself is not counted.
    chain.step(Time(end.0 - 1), &mut out);
    for hop in chain.hops() {
        let ended = hop.delivered + hop.lost + hop.dropped + hop.filtered;
        assert_eq!(hop.offered, ended + hop.in_transit, "{}", hop.name);
    }
    chain.step(end, &mut out);
    let mut live: Vec<Exit> =
        out.iter().filter(|r| r.due < end).map(|r| exit(r.due, r.end, &r.bytes)).collect();
    live.sort();
    simulated.sort();
    assert!(simulated.len() > 500, "{} packets", simulated.len());
    for (i, (a, b)) in live.iter().zip(&simulated).enumerate() {
        assert_eq!(a, b, "packet {i} of {} (live, simulated)", simulated.len());
    }
    assert_eq!(live.len(), simulated.len());
    for hop in chain.hops() {
        let HopCounters { name, offered, lost, dropped, filtered, marked, .. } = hop;
        let link = result.links.iter().find(|l| format!("{}>{}", l.from, l.to) == name).unwrap();
        assert_eq!(
            (offered, lost, dropped, marked),
            (link.offered_frames, link.lost_on_air, link.dropped_at_queue, link.marked_frames),
            "{name}"
        );
        assert_eq!(link.filtered_frames.unwrap_or(0), filtered, "{name}");
    }
    for (agent, live) in result.agents.iter().zip(chain.agents()) {
        assert!(live.decisions().missing == 0);
        for (name, value) in live.counters() {
            assert_eq!(agent.counters[name], value, "{name}");
        }
    }
    assert_eq!(result.agents.len(), chain.agents().count());
}

/// Windows below 64 KiB: the packets are rendered without window scaling.
const WINDOW: &str = "tcp = { receive_window = '60000 B' }";

fn scenario(last_hop: &str, more: &str) -> String {
    format!("duration = '20 s'\nlast_hop = {{ {last_hop} }}\n{WINDOW}\n{more}\n")
}

macro_rules! chain_equals_simulation {
    ($($name:ident: $last_hop:expr, $more:expr, $scheme:expr;)*) => {
        mod chain_equals_simulation {
            use super::{compare, scenario};
            $(
                #[test]
                fn $name() {
                    let text = scenario($last_hop, $more);
                    compare(&text, $scheme, 1, 0);
                    compare(&text, $scheme, 2, 7_000_000);
                }
            )*
        }
    };
}

chain_equals_simulation! {
    with_random_losses: "rate = '5 Mbps', rtt = '40 ms', loss = '1 %'", "", None;
    with_a_short_queue: "rate = '3 Mbps', rtt = '60 ms', queue = '10 packets'", "", None;
    with_scripted_delays_and_losses:
        "rate = '5 Mbps', rtt = '40 ms', loss = { model = 'scripted', data = ['40:1'] }, \
         delay = { base = '10 ms', scripted = { data = ['25:1 + 50 ms', '40:2 + 20 ms'], \
         acks = ['30 + 20 ms'] } }", "", None;
    with_traces:
        "down = 'TRACES/synthetic-lte.down', up = 'TRACES/synthetic-lte.up', rtt = '40 ms', \
         loss = '1 %'", "", None;
    with_link_retransmission:
        "rate = '5 Mbps', rtt = '40 ms', loss = '5 %', arq = { kind = 'selective-repeat' }", "",
        None;
    with_a_two_state_channel:
        "rate = '5 Mbps', rtt = '40 ms', loss = { model = 'two-state', good = '2 s', \
         bad = '100 ms', bad_rate = 0.0001 }", "", None;
    with_outages:
        "rate = '5 Mbps', rtt = '40 ms', outage = { from = '3 s', length = '2 s' }", "", None;
    with_red:
        "rate = '5 Mbps', rtt = '40 ms', queue = { discipline = 'red', packets = 60 }", "", None;
    with_codel:
        "rate = '5 Mbps', rtt = '40 ms', queue = { discipline = 'codel', packets = 60 }", "", None;
    // With constant delays the ACK clock makes an ACK arrive in the nanosecond in which another one
    // departs. The simulator then takes the arrival first if its trigger is older; a chain does not
    // know when the sender of a real packet was triggered.
    with_an_ack_filter:
        "down_rate = '20 Mbps', up_rate = '100 kbps', loss = '1 %', queue = { discipline = 'cake', \
         ack_filter = 'on' }, delay = { distribution = { kind = 'uniform', from = '20 ms', \
         to = '21 ms' }, in_order = true }", "", None;
    with_an_aggressive_ack_filter:
        "down_rate = '20 Mbps', up_rate = '100 kbps', loss = '1 %', queue = { discipline = 'cake', \
         ack_filter = 'aggressive' }, delay = { distribution = { kind = 'uniform', from = '20 ms', \
         to = '21 ms' }, in_order = true }", "", None;
    with_snoop:
        "rate = '5 Mbps', rtt = '40 ms', loss = '2 %'", "[[flow]]\nscheme = 'snoop'",
        Some("snoop");
    with_packet_control:
        "rate = '5 Mbps', rtt = '40 ms', loss = '2 %'", "[[flow]]\nscheme = 'packet-control'",
        Some("packet-control");
    with_a_shaper:
        "rate = '20 Mbps', rtt = '40 ms', shaper = { rate = '3 Mbps', burst = '20 kB' }", "", None;
    with_a_policer:
        "rate = '20 Mbps', rtt = '40 ms', policer = { rate = '3 Mbps', burst = '20 kB' }", "", None;
    with_an_mtu:
        "rate = '5 Mbps', rtt = '40 ms', loss = '1 %', mtu = '600 B'", "", None;
    with_an_upload:
        "rate = '5 Mbps', rtt = '40 ms', loss = '1 %'",
        "[[flow]]\nfrom = 'phone'\nto = 'server'", None;
}

/// A copy follows each packet, and each packet has one wrong bit; the counters say so.
#[test]
fn links_duplicate_and_corrupt_real_packets() {
    let network = |keys: &str| network(&scenario(&format!("rate = '5 Mbps', {keys}"), ""));
    let packet: Vec<u8> = {
        let (ends, _) = simulate(&network("rtt = '40 ms'"), 1);
        let (_, _, syn) = ends.entries[0];
        bytes(&network("rtt = '40 ms'"), &syn, &Options::NONE)
    };
    let released = |keys: &str| {
        let mut chain = Chain::new(&network(keys), None, 1).unwrap();
        let mut out: Vec<Release> = Vec::new();
        chain.packet(Time(0), End::Server, &packet, &mut out);
        chain.step(Time(1_000_000_000), &mut out);
        let hops: Vec<HopCounters> = chain.hops().collect();
        (out, hops.iter().map(|h| h.duplicated).sum(), hops.iter().map(|h| h.corrupted).sum())
    };
    let (out, duplicated, corrupted): (_, u64, u64) = released("duplicate = '100 %'");
    assert_eq!((out.len(), duplicated, corrupted), (2, 1, 0));
    assert!(out.iter().all(|release| release.bytes[..] == packet[..]));
    let (out, duplicated, corrupted): (_, u64, u64) = released("corrupt = '100 %'");
    assert_eq!((out.len(), duplicated, corrupted), (1, 0, 1));
    let pairs = out[0].bytes.iter().zip(&packet);
    assert_eq!(pairs.map(|(a, b)| (a ^ b).count_ones()).sum::<u32>(), 1);
}

/// A packet that is too large: its fragments, or an ICMP error to its sender; SYNs ask for segments
/// that fit.
#[test]
fn a_link_carries_no_packet_above_its_mtu() {
    let network = network(&scenario("rate = '5 Mbps', mtu = '600 B'", ""));
    let (ends, _) = simulate(&network, 1);
    let syn = {
        let mut segment = ends.entries[0].2;
        segment.flags = Flags::SYN;
        bytes(&network, &segment, &Options::NONE)
    };
    let (source, destination) = ("10.0.0.1:5000".parse().unwrap(), "10.9.0.2:80".parse().unwrap());
    let mut datagram = Datagram { source, destination, payload: &[7; 1200] }.packet();
    datagram[6] &= !0x40;
    let released = |packet: &[u8], end: End| {
        let mut chain = Chain::new(&network, None, 1).unwrap();
        let mut out: Vec<Release> = Vec::new();
        chain.packet(Time(0), end, packet, &mut out);
        chain.step(Time(1_000_000_000), &mut out);
        assert_eq!(chain.in_flight(), 0);
        (out, chain.hops().map(|h| h.above_mtu).collect::<Vec<_>>())
    };
    let (out, _) = released(&syn, End::Server);
    let mss = |packet: &[u8]| {
        parse(packet).unwrap().options().flatten().find_map(|o| match o {
            TcpOption::MaximumSegmentSize(mss) => Some(mss),
            _ => None,
        })
    };
    assert_eq!(mss(&out[0].bytes), mss(&syn).map(|mss| mss.min(560)));
    // Without "don't fragment": from the base station on in three fragments.
    let (out, above) = released(&datagram, End::Server);
    assert_eq!(out.iter().map(|r| r.bytes.len()).collect::<Vec<_>>(), [596, 596, 76]);
    assert!(out.iter().all(|r| r.end == End::Mobile));
    assert_eq!(above.iter().sum::<u64>(), 1);
    // With it: the base station refuses it, or the mobile's own link at once.
    datagram[6] |= 0x40;
    for (end, at_once) in [(End::Server, false), (End::Mobile, true)] {
        let (out, above) = released(&datagram, end);
        assert_eq!((out.len(), above.iter().sum::<u64>(), out[0].end), (1, 1, end));
        assert_eq!(out[0].bytes[20..28], [3, 4, out[0].bytes[22], out[0].bytes[23], 0, 0, 2, 88]);
        assert_eq!(out[0].due == Time(0), at_once);
    }
}

/// A real program reads what arrives.
#[test]
fn a_simulated_reader_is_refused() {
    let flow = "[[flow]]\nreader = { rate = '1 Mbps' }";
    let network = network(&scenario("rate = '5 Mbps'", flow));
    let error = Chain::new(&network, None, 1).err().unwrap().to_string();
    assert!(error.contains("the `reader` of a flow (here a real program reads)"), "{error}");
}
