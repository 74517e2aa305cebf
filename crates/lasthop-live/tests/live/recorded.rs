//! Replays of recorded packets: a transfer of Linux's TCP, and simulated packets with other link
//! types.

use crate::wrappers::{ALL, Wrapper};
use lasthop::agent::{Agent, Context, Verdict};
use lasthop::role::Role;
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::{Direction, Flags, Payload, Segment};
use lasthop::units::Time;
use lasthop_live::{ReplayError, ReplayOptions, Summary, replay};
use lasthop_wire::{
    CaptureReader, CaptureWriter, Endpoints, Interface, LinkType, Packet, Side, innermost, parse,
    render,
};

/// A transfer of 60,000 bytes from 10.77.0.1 to 10.77.0.2 between network namespaces of Linux 6.18
/// over a lossy relay, recorded by tcpdump before the relay (see namespaces.py): Ethernet,
/// nanosecond timestamps, snapshot length 128 bytes.
const LINUX: &[u8] = include_bytes!("data/linux.pcap");

/// The start of a connection in GTP-U, as on a base station's interface S1-U.
const GTP_U: &[u8] = include_bytes!("data/gtpu.pcap");

/// A transfer whose SYN-ACK was captured 0.26 ms before its SYN.
const SYN_ACK_FIRST: &[u8] = include_bytes!("data/synack-first.pcap");

fn run(input: &[u8], scheme: &str, mobile: &str) -> Result<(Summary, Vec<Packet>), ReplayError> {
    run_choice(input, SchemeChoice::parse(scheme).unwrap(), mobile)
}

fn run_choice(
    input: &[u8],
    scheme: SchemeChoice,
    mobile: &str,
) -> Result<(Summary, Vec<Packet>), ReplayError> {
    let options = ReplayOptions { mobile: mobile.parse().unwrap(), scheme, interface: None };
    let mut out = Vec::new();
    let summary = replay(input, &mut out, &options)?;
    Ok((summary, packets(&out)))
}

fn packets(capture: &[u8]) -> Vec<Packet> {
    let mut reader = CaptureReader::new(capture).unwrap();
    std::iter::from_fn(|| reader.next_packet().unwrap()).collect()
}

fn ack_of(packet: &Packet) -> u32 {
    parse(&packet.data[14..]).unwrap().ack
}

#[test]
fn packet_control_drops_duplicate_acks_of_linux() {
    let (summary, out) = run(LINUX, "packet-control", "10.77.0.2").unwrap();
    let input = packets(LINUX);
    assert_eq!(
        (summary.packets as usize, summary.tcp as usize, summary.flows),
        (input.len(), input.len(), 1)
    );
    assert!(summary.cut_short > 40 && summary.untouched.is_empty(), "{summary}");
    // The output is a subsequence of the input.
    let mut rest = input.iter();
    assert!(out.iter().all(|p| {
        rest.any(|q| (q.time, &q.data, q.original_len) == (p.time, &p.data, p.original_len))
    }));
    // The expected count: of consecutive pure ACKs with the same acknowledgment number and window,
    // every second one is dropped.
    let up = |p: &&Packet| {
        parse(&p.data[14..]).unwrap().addressing.source.ip().to_string() == "10.77.0.2"
    };
    let mut last = None;
    let (mut run_length, mut thinned) = (0, 0);
    for p in input.iter().filter(up) {
        let now = Some((ack_of(p), parse(&p.data[14..]).unwrap().window));
        run_length = if now == last { run_length + 1 } else { 0 };
        thinned += u64::from(run_length % 2 == 1);
        last = now;
    }
    assert!(thinned > 5);
    assert_eq!(summary.dropped["duplicate ACK thinned"], thinned, "{summary}");
}

#[test]
fn snoop_retransmits_losses_of_linux() {
    let (summary, out) = run(
        LINUX,
        "snoop:tick=1ms:initial_srtt=100us:initial_rttvar=0s:first_dupack_passes=false",
        "10.77.0.2",
    )
    .unwrap();
    assert!(summary.injected > 0 && summary.not_injected == 0, "{summary}");
    let injected: Vec<&Packet> =
        out.iter().filter(|p| p.comment.as_deref() == Some("lasthop: injected")).collect();
    assert_eq!(injected.len() as u64, summary.injected);
    // Each is a copy of a packet that the server sent, with the truncation of the capture.
    let input = packets(LINUX);
    assert!(
        injected
            .iter()
            .all(|p| p.original_len > 128
                && input.iter().any(|q| q.data == p.data && q.time < p.time))
    );
}

/// A handshake, data, duplicate ACKs, and a retransmission of acknowledged data that packet control
/// answers.
fn traffic() -> Vec<(Direction, Vec<u8>)> {
    let side =
        |address: &str, isn| Side { address: address.parse().unwrap(), isn, window_scale: 3 };
    let ends =
        Endpoints { sender: side("10.0.0.1:5000", 5), receiver: side("10.9.0.2:80", 6), mss: 1000 };
    let s = |forward, seq, len, ack, flags| Segment {
        seq,
        ack,
        id: 0,
        flow: 1,
        len,
        size: len + 40,
        window: 8000,
        ts_value: 9,
        ts_echo: 8,
        payload: Payload::NONE,
        to: 0,
        flags,
        attempt: 1,
        forward,
    };
    let stamped = Flags::ACK.with(Flags::TIMESTAMPS);
    let mut all =
        vec![s(true, 0, 0, 0, Flags::SYN), s(false, 0, 0, 0, Flags::SYN.with(Flags::ACK))];
    all.extend((0..4).map(|i| s(true, i * 1000, 1000, 0, stamped)));
    all.extend([1000, 4000, 4000, 4000].map(|ack| s(false, 0, 0, ack, stamped)));
    all.extend([0, 0, 0, 0].map(|seq| s(true, seq, 1000, 0, stamped)));
    all.iter()
        .map(|s| {
            (if s.forward { Direction::Downlink } else { Direction::Uplink }, render(s, &ends))
        })
        .collect()
}

#[test]
fn link_headers_are_preserved() {
    let down = Direction::Downlink;
    let ethernet = |d| if d == down { *b"mobileserver" } else { *b"servermobile" };
    type Header<'a> = &'a dyn Fn(Direction) -> Vec<u8>;
    let links: [(LinkType, Header<'_>); 6] = [
        (LinkType::RAW, &|_| Vec::new()),
        (LinkType::ETHERNET, &|d| [&ethernet(d)[..], &[8, 0]].concat()),
        (LinkType::ETHERNET, &|d| [&ethernet(d)[..], &[0x81, 0, 0, 42, 8, 0]].concat()),
        (LinkType::LINUX_SLL, &|d| [&[0, u8::from(d == down) * 4][..], &[0; 12], &[8, 0]].concat()),
        (LinkType::LINUX_SLL2, &|d| [&[8, 0][..], &[0; 16], &[u8::from(d == down), 0]].concat()),
        (LinkType::NULL, &|_| vec![2, 0, 0, 0]),
    ];
    let mut plain = None;
    for (link_type, header) in links {
        let mut writer = CaptureWriter::new(
            Vec::new(),
            &[Interface { link_type, ..Interface::new("wlan0", "") }],
        )
        .unwrap();
        for (i, (direction, packet)) in traffic().iter().enumerate() {
            writer
                .write(0, Time(i as u64), &[header(*direction), packet.clone()].concat(), None)
                .unwrap();
        }
        let (summary, out) = run(&writer.finish().unwrap(), "packet-control", "10.9.0.2").unwrap();
        assert_eq!((summary.injected, summary.dropped.values().sum::<u64>()), (2, 5), "{summary}");
        let stripped: Vec<Vec<u8>> = out
            .iter()
            .map(|p| {
                let at = innermost(link_type, &p.data).unwrap().ip_at;
                let to_mobile = parse(&p.data[at..]).unwrap().addressing.destination.port() == 80;
                assert_eq!(
                    p.data[..at],
                    header(if to_mobile { down } else { Direction::Uplink }),
                    "{link_type:?}"
                );
                p.data[at..].to_vec()
            })
            .collect();
        assert_eq!(plain.get_or_insert(stripped.clone()), &stripped, "{link_type:?}");
    }
    // Generated ACKs equal those of the mobile except for TSecr, which is the TSval of the data
    // they acknowledge.
    let fields = |p: &[u8]| (p.len(), parse(p).unwrap().ack, parse(p).unwrap().timestamps());
    let mobile_ack = fields(&traffic()[7].1);
    assert_eq!(mobile_ack.2, Some((9, 8)));
    let count_with_echo = |echo| {
        plain
            .iter()
            .flatten()
            .filter(|p| fields(p) == (mobile_ack.0, mobile_ack.1, Some((9, echo))))
            .count()
    };
    assert_eq!((count_with_echo(8), count_with_echo(9)), (2, 2));
}

#[test]
fn agents_see_inside_a_recorded_gtp_tunnel() {
    let (summary, out) = run(GTP_U, "snoop", "10.0.88.85").unwrap();
    assert_eq!((summary.packets, summary.tcp, summary.flows), (39, 39, 1), "{summary}");
    assert_eq!(summary.encapsulations, [("GTP-U".to_string(), 39)].into());
    assert!(summary.untouched.is_empty() && summary.nothing_shown.is_none());
    assert!(summary.to_string().contains("of these, inside    39 GTP-U"), "{summary}");
    let forwarded: Vec<Packet> = out.into_iter().filter(|p| p.comment.is_none()).collect();
    let is_subset = forwarded.iter().all(|p| packets(GTP_U).iter().any(|q| q.data == p.data));
    assert!(is_subset && !forwarded.is_empty());
}

#[test]
fn a_syn_ack_captured_before_its_syn_is_of_the_same_flow() {
    let (summary, _) = run(SYN_ACK_FIRST, "snoop", "198.51.100.2").unwrap();
    assert_eq!((summary.tcp, summary.flows), (18, 1), "{summary}");
}

/// Work grows with the number of interfaces, not with its square: this capture of 200,000 would
/// take longer than a minute.
#[test]
fn captures_may_have_many_interfaces() {
    let interfaces: Vec<Interface> =
        (0..200_000).map(|i| Interface::new(format!("if{i}"), "")).collect();
    let capture = |used: &[usize]| {
        let mut writer = CaptureWriter::new(Vec::new(), &interfaces).unwrap();
        used.iter().for_each(|&i| writer.write(i, Time(1), &traffic()[0].1, None).unwrap());
        writer.finish().unwrap()
    };
    assert_eq!(run(&capture(&[150_000]), "snoop", "10.9.0.2").unwrap().0.tcp, 1);
    let error = run(&capture(&[1, 150_000]), "snoop", "10.9.0.2").unwrap_err().to_string();
    assert!(error.ends_with(r#", "if18", "if19", and 199980 more"#), "{error}");
}

/// A capture of these packets in an encapsulation.
fn wrapped(wrapper: &Wrapper, packets: &[(Direction, Vec<u8>)]) -> Vec<u8> {
    let interface = Interface { link_type: wrapper.link_type, ..Interface::new("s1u", "") };
    let mut writer = CaptureWriter::new(Vec::new(), &[interface]).unwrap();
    for (i, (direction, packet)) in packets.iter().enumerate() {
        let frame = (wrapper.wrap)(packet, *direction == Direction::Downlink);
        writer.write(0, Time(i as u64), &frame, None).unwrap();
    }
    writer.finish().unwrap()
}

/// The agent decides as without the encapsulation, and what it forwards, changes or makes is in the
/// headers of its direction, with right lengths and checksums.
#[test]
fn agents_see_inside_tunnels_and_their_packets_are_in_the_same_tunnels() {
    let mut injected = 0;
    for scheme in ["packet-control", "snoop", "ack-pacing"] {
        let (plain_summary, plain) =
            run(&wrapped(&ALL[0], &traffic()), scheme, "10.9.0.2").unwrap();
        for wrapper in &ALL {
            let (summary, out) = run(&wrapped(wrapper, &traffic()), scheme, "10.9.0.2").unwrap();
            let names = match wrapper.names {
                "" => Default::default(),
                names => [(names.to_string(), summary.tcp)].into(),
            };
            assert_eq!(summary.encapsulations, names);
            assert_eq!(summary.agent, plain_summary.agent, "{}", wrapper.names);
            assert_eq!(out.len(), plain.len());
            for (packet, inner) in out.iter().zip(&plain) {
                let down = parse(&inner.data).unwrap().addressing.destination.port() == 80;
                assert_eq!(packet.data, (wrapper.wrap)(&inner.data, down), "{}", wrapper.names);
                assert_eq!((packet.time, &packet.comment), (inner.time, &inner.comment));
            }
            injected += summary.injected;
        }
    }
    assert!(injected > 50);
}

/// An agent that acknowledges data itself.
struct Acknowledging;

impl Agent for Acknowledging {
    fn on_segment(&mut self, ctx: &mut Context<'_>, _: Direction, segment: &Segment) -> Verdict {
        if segment.len > 0 {
            let ack = segment.seq + u64::from(segment.len);
            let made = Segment { seq: 0, ack, len: 0, size: 40, forward: false, ..*segment };
            ctx.inject(Direction::Uplink, Segment { payload: Payload::NONE, ..made });
        }
        Verdict::Forward
    }
}

#[test]
fn an_agents_packet_for_a_tunnel_that_was_not_seen_is_counted() {
    // Without the mobile's packets nobody knows the tunnel of the uplink.
    let downlink: Vec<_> =
        traffic().into_iter().filter(|(d, _)| *d == Direction::Downlink).collect();
    let find = |names| ALL.iter().find(|w| w.names == names).unwrap();
    let choice =
        SchemeChoice::of_agent("acknowledging", &[Role::BaseStation], || Box::new(Acknowledging));
    for (names, written) in [("PPPoE", true), ("GTP-U", false), ("MPLS", false)] {
        let capture = wrapped(find(names), &downlink);
        let (summary, _) = run_choice(&capture, choice.clone(), "10.9.0.2").unwrap();
        let notes = summary.notes.join("\n");
        let counts = (summary.injected > 0, summary.not_injected > 0);
        assert_eq!(counts, (written, !written), "{names}: {summary}");
        assert_eq!(notes.contains("no packet of their direction shows"), !written, "{notes}");
    }
}

#[test]
fn what_was_not_looked_into_is_said() {
    let esp = |packet: &[u8]| {
        let mut esp = packet.to_vec();
        esp[9] = 50;
        esp
    };
    let hidden: Vec<_> = traffic().iter().map(|(d, p)| (*d, esp(p))).collect();
    let (summary, out) = run(&wrapped(&ALL[0], &hidden), "snoop", "10.9.0.2").unwrap();
    assert_eq!((summary.untouched["ESP"], out.len()), (14, 14));
    assert!(summary.notes.contains(&"14 packets are ESP: not looked into".into()), "{summary}");
    assert_eq!(
        summary.nothing_shown.unwrap(),
        "the agent processed nothing: none of the 14 packets was found to be TCP to or from the \
         mobile 10.9.0.2 (14 ESP); not looked into: 14 ESP"
    );

    let (summary, _) = run(&wrapped(&ALL[16], &traffic()), "snoop", "10.9.0.3").unwrap();
    let reason = summary.nothing_shown.unwrap();
    assert!(reason.ends_with("; addresses of TCP packets: 10.0.0.1, 10.9.0.2"), "{reason}");

    let mut mixed = traffic();
    mixed[5].1[6] = 0x20;
    mixed[6].1 = esp(&mixed[6].1);
    let (summary, _) = run(&wrapped(&ALL[16], &mixed), "snoop", "10.9.0.2").unwrap();
    assert_eq!((summary.tcp, &summary.nothing_shown), (12, &None));
    for note in ["1 packet is ESP: not looked into", "1 packet is IP fragments: not looked into"] {
        assert!(summary.notes.iter().any(|n| n.starts_with(note)), "{summary}");
    }
}

#[test]
fn merged_segments_are_rejected_with_the_packet_number() {
    let mut all = traffic();
    let side =
        |address: &str, isn| Side { address: address.parse().unwrap(), isn, window_scale: 3 };
    let ends =
        Endpoints { sender: side("10.0.0.1:5000", 5), receiver: side("10.9.0.2:80", 6), mss: 1000 };
    let mut p = parse(&all[5].1).unwrap().payload_len;
    p *= 3;
    let merged = Segment {
        seq: 4000,
        ack: 0,
        id: 0,
        flow: 1,
        len: p,
        size: 0,
        window: 0,
        ts_value: 0,
        ts_echo: 0,
        payload: Payload::NONE,
        to: 0,
        flags: Flags::ACK,
        attempt: 1,
        forward: true,
    };
    all.insert(6, (Direction::Downlink, render(&merged, &ends)));
    let mut writer = CaptureWriter::new(Vec::new(), &[Interface::new("wlan0", "")]).unwrap();
    for (i, (_, packet)) in all.iter().enumerate() {
        writer.write(0, Time(i as u64), packet, None).unwrap();
    }
    let error =
        run(&writer.finish().unwrap(), "packet-control", "10.9.0.2").unwrap_err().to_string();
    assert_eq!(
        error,
        "packet 7 carries 3000 bytes of payload, more than 1000: segmentation offload merged \
         several packets before the capture; repeat the capture after `ethtool -K IFACE gro off \
         gso off tso off`"
    );
}

/// Interface names come from the capture file; control characters must not reach a terminal.
#[test]
fn interface_names_are_shown_escaped() {
    let capture = |link_types: &[u16]| {
        let interface = |&n: &u16| Interface {
            link_type: LinkType(n),
            ..Interface::new(format!("\u{1b}[2Jeth{n}"), "")
        };
        let interfaces: Vec<Interface> = link_types.iter().map(interface).collect();
        let mut writer = CaptureWriter::new(Vec::new(), &interfaces).unwrap();
        (0..link_types.len()).for_each(|i| writer.write(i, Time(1), &[0; 60], None).unwrap());
        writer.finish().unwrap()
    };
    for link_types in [&[187][..], &[1, 101]] {
        let message = run(&capture(link_types), "snoop", "10.77.0.2").unwrap_err().to_string();
        assert!(
            message.contains(r#""\u{1b}[2Jeth1"#) && !message.contains('\u{1b}'),
            "{message:?}"
        );
    }
    let summary = run(&capture(&[1]), "snoop", "10.77.0.2").unwrap().0;
    assert!(summary.to_string().contains(r#"interface "\u{1b}[2Jeth1""#), "{summary}");
}

/// Agents of split schemes only report to their relay, which does not exist in a replay. RNF's
/// agent would report every period until its queue is empty, which never occurs in a recording.
#[test]
fn split_schemes_are_rejected() {
    for scheme in ["rnf", "m-tcp", "i-tcp"] {
        let error = run(LINUX, scheme, "10.77.0.2").unwrap_err().to_string();
        let (rejection, known) = error.split_once("schemes with such an agent: ").unwrap();
        assert!(
            rejection.contains(&format!("`{scheme}` has no agent")) && known.contains("snoop"),
            "{error}"
        );
        assert!(!known.contains("rnf") && !known.contains("m-tcp"), "{error}");
    }
}
