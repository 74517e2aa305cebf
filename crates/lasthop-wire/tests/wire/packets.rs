//! Rendering, parsing and patching of segments.

use std::net::SocketAddrV4;

use lasthop::segment::{Block, Flags, Notice, NoticeKind, Options, Payload, SackBlocks, Segment};
use lasthop::snack::Snack;
use lasthop::units::Time;
use lasthop_wire::options::{EXPERIMENTAL, NAMED_ID, REPORT_ID, TcpOption, options};
use lasthop_wire::render::{filler, window_scale_for};
use lasthop_wire::snack::read_snack;
use lasthop_wire::{
    Addressing, Endpoints, NotTcp, Patch, Side, assemble, parse, patch, render, render_with,
};
use proptest::prelude::*;

fn endpoints(window_scale: u8) -> Endpoints {
    let side = |address: &str, isn| Side {
        address: address.parse::<SocketAddrV4>().unwrap(),
        isn,
        window_scale,
    };
    Endpoints {
        sender: side("10.0.0.1:5000", 1_000_000),
        receiver: side("10.0.0.2:80", u32::MAX - 10),
        mss: 1000,
    }
}

fn segment(forward: bool, seq: u64, len: u32, ack: u64, flags: Flags) -> Segment {
    Segment {
        seq,
        ack,
        id: 7,
        flow: 1,
        len,
        size: len + 40,
        window: 20_000,
        ts_value: 11,
        ts_echo: 22,
        payload: Payload::NONE,
        to: 3,
        flags,
        attempt: 1,
        forward,
    }
}

/// True if the one's complement sum over pseudo-header and segment is 0xffff, that is, if the
/// checksum is valid (RFC 9293 section 3.1).
fn checksum_is_valid(packet: &[u8]) -> bool {
    let v6 = packet[0] >> 4 == 6;
    let (addresses, at) =
        if v6 { (&packet[8..40], 40) } else { (&packet[12..20], usize::from(packet[0] & 15) * 4) };
    let protocol = u32::from(if v6 { packet[6] } else { packet[9] });
    let words = |b: &[u8]| {
        b.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum::<u32>()
    };
    let fold = |mut s: u32| {
        while s > 0xffff {
            s = (s & 0xffff) + (s >> 16);
        }
        s
    };
    let ip_header_is_valid = v6 || fold(words(&packet[..at])) == 0xffff;
    ip_header_is_valid
        && fold(
            fold(words(addresses))
                + protocol
                + (packet.len() - at) as u32
                + fold(words(&packet[at..])),
        ) == 0xffff
}

/// An ACK with SNACK for 5000 to 7000 and 8000 to 9000, a report of 961 and a SACK block.
#[test]
fn renders_and_parses_all_options() {
    let holes = [(5000, 7000), (8000, 9000)].map(|(start, end)| Block { start, end });
    let mut options = Options {
        named: 9000,
        report: 961,
        snack: Snack::of(holes.into_iter(), 1000).unwrap(),
        ..Options::NONE
    };
    options.sack.push(7000, 8000);
    let with = |flags| {
        render_with(&segment(false, 0, 0, 5000, Flags::ACK.with(flags)), &options, &endpoints(0))
    };
    let with_snack = with(Flags::SNACK);
    assert!(checksum_is_valid(&with_snack));
    assert_eq!(with_snack[40..], [21, 7, 0, 0, 0, 2, 0b1010_0000, 0]);
    assert_eq!(
        with(Flags::NONE),
        render(&segment(false, 0, 0, 5000, Flags::ACK), &endpoints(0)),
        "options without their flag are not rendered"
    );
    let all = with(Flags::SNACK.with(Flags::SACK).with(Flags::NAMED).with(Flags::REPORT));
    let found: Vec<_> = parse(&all)
        .unwrap()
        .options()
        .map(Result::unwrap)
        .filter(|o| *o != TcpOption::NoOperation)
        .collect();
    let experimental = |id, data| TcpOption::Experimental { kind: EXPERIMENTAL, id, data };
    let (named, report) = (1_009_001_u32.to_be_bytes(), 961_u32.to_be_bytes());
    let sack = lasthop_wire::options::SackBlocks::new(&[(1_007_001, 1_008_001)]);
    assert_eq!(
        found[1..],
        [experimental(NAMED_ID, &named), experimental(REPORT_ID, &report), TcpOption::Sack(sack)]
    );
    assert_eq!(read_snack(found[0], 5000, 1000), Some(options.snack));
    assert_eq!(parse(&all).unwrap().segment_options(5000, 1000), (Flags::OPTIONS, options));
    assert_eq!(
        parse(&with(Flags::NONE)).unwrap().segment_options(5000, 1000),
        (Flags::NONE, Options::NONE)
    );
    let unknown_mss = parse(&with_snack).unwrap().segment_options(5000, 0);
    assert_eq!(unknown_mss.0, Flags::NONE, "SNACK needs the segment size");
}

/// RFC 2883, section 4: below the ACK number, or within the second block.
#[test]
fn a_first_block_that_reports_a_duplicate_is_d_sack() {
    let flags = |blocks: &[(u64, u64)]| {
        let mut options = Options::NONE;
        blocks.iter().for_each(|&(start, end)| options.sack.push(start, end));
        let ack = segment(false, 0, 0, 5000, Flags::ACK.with(Flags::SACK));
        let bytes = render_with(&ack, &options, &endpoints(0));
        parse(&bytes).unwrap().segment_options(5000, 1000).0
    };
    let duplicate = Flags::SACK.with(Flags::DSACK);
    assert_eq!(flags(&[(4000, 5000)]), duplicate);
    assert_eq!(flags(&[(4000, 5000), (7000, 9000)]), duplicate);
    assert_eq!(flags(&[(7000, 8000), (7000, 9000)]), duplicate);
    assert_eq!(flags(&[(7000, 8000)]), Flags::SACK);
    assert_eq!(flags(&[(7000, 8000), (9000, 10_000)]), Flags::SACK);
}

/// Three SACK blocks fit with timestamps, two with timestamps and a report.
#[test]
fn sack_blocks_are_limited_by_option_space() {
    let mut sack = SackBlocks::NONE;
    (0..4).for_each(|i| sack.push(2000 * i + 1000, 2000 * i + 2000));
    let blocks = |flags: Flags| {
        let ack = segment(false, 0, 0, 0, Flags::ACK.with(Flags::SACK).with(flags));
        let bytes = render_with(&ack, &Options { sack, ..Options::NONE }, &endpoints(0));
        let found =
            parse(&bytes).unwrap().options().flatten().find_map(|o| {
                if let TcpOption::Sack(s) = o { Some(s.as_slice().len()) } else { None }
            });
        found.unwrap_or(0)
    };
    assert_eq!(
        [Flags::NONE, Flags::TIMESTAMPS, Flags::TIMESTAMPS.with(Flags::REPORT)].map(blocks),
        [4, 3, 2]
    );
}

#[test]
fn handshake_and_data_have_tcp_sequence_numbers() {
    let ends = endpoints(7);
    let syn = render(&segment(true, 0, 0, 0, Flags::SYN), &ends);
    let p = parse(&syn).unwrap();
    assert_eq!((p.seq, p.ack, p.flag_bits, p.window, p.total_len), (1_000_000, 0, 2, 20_000, 48));
    assert!(p.options().any(|o| o == Ok(TcpOption::WindowScale(7))));
    assert!(p.options().any(|o| o == Ok(TcpOption::MaximumSegmentSize(1000))));

    let answer = render(&segment(false, 0, 0, 0, Flags::SYN.with(Flags::ACK)), &ends);
    let p = parse(&answer).unwrap();
    assert_eq!((p.seq, p.ack, p.flag_bits), (u32::MAX - 10, 1_000_001, 18));
    assert_eq!(p.addressing.source, "10.0.0.2:80".parse().unwrap());

    let data = render(&segment(true, 1 << 32, 1000, 5, Flags::ACK), &ends);
    let p = parse(&data).unwrap();
    assert_eq!((p.seq, p.ack), (1_000_001, u32::MAX - 10 + 6));
    assert_eq!((p.window, p.payload_len, p.payload.len(), p.total_len), (156, 1000, 1000, 1040));
    assert_eq!((data[8], data[4..8].to_vec()), (64, vec![0, 0, 0x40, 0]));

    let ack = render(
        &segment(false, 0, 0, 1000, Flags::ACK.with(Flags::TIMESTAMPS).with(Flags::CE)),
        &ends,
    );
    let p = parse(&ack).unwrap();
    assert_eq!(
        (p.timestamps(), p.flags()),
        (Some((11, 22)), Flags::ACK.with(Flags::TIMESTAMPS).with(Flags::CE))
    );
    for packet in [syn, answer, data, ack] {
        assert!(checksum_is_valid(&packet));
    }
}

/// RFC 9768, section 3.2.1: AE is the lowest reserved bit of RFC 9293, which was NS; with CWR and
/// ECE it is the count.
#[test]
fn the_count_of_accurate_ecn_is_in_the_header() {
    for (flags, bits) in [
        (Flags::AE, 0x110),
        (Flags::AE.with(Flags::ECE), 0x150),
        (Flags::AE.with(Flags::CWR).with(Flags::ECE), 0x1d0),
    ] {
        let ack = segment(false, 0, 0, 1000, Flags::ACK.with(flags));
        let packet = render(&ack, &endpoints(0));
        let tcp = parse(&packet).unwrap();
        assert_eq!((tcp.flag_bits, tcp.flags()), (bits, ack.flags));
    }
}

/// An ACK with anything else is not removed by a filter of ACKs.
#[test]
fn an_ordinary_ack_has_no_other_flags_and_options() {
    let is_ordinary = |packet: &[u8]| parse(packet).unwrap().is_ordinary_ack();
    let flags = Flags::ACK.with(Flags::TIMESTAMPS);
    let ordinary = render(&segment(false, 0, 0, 1000, flags), &endpoints(0));
    assert!(is_ordinary(&ordinary));
    let mut sack = Options::NONE;
    sack.sack.push(2000, 3000);
    let with_blocks = segment(false, 0, 0, 1000, flags.with(Flags::SACK));
    assert!(is_ordinary(&render_with(&with_blocks, &sack, &endpoints(0))));
    // FIN, SYN, RST, PSH, URG, and the reserved bits; ECE and CWR are ordinary.
    for (byte, bits) in [(33, 0x01), (33, 0x02), (33, 0x04), (33, 0x08), (33, 0x20), (32, 0x01)] {
        let mut packet = ordinary.clone();
        packet[byte] |= bits;
        assert!(!is_ordinary(&packet), "{byte}: {bits:#x}");
    }
    let mut echo = ordinary.clone();
    echo[33] |= 0xc0;
    assert!(is_ordinary(&echo));
    // The timestamps become an unknown option of the same length.
    let mut unknown = ordinary.clone();
    let at = unknown[40..].windows(2).position(|w| w == [8, 10]).unwrap() + 40;
    unknown[at] = 99;
    assert!(!is_ordinary(&unknown));
    unknown[at] = 19;
    assert!(is_ordinary(&unknown), "MD5 signature");
}

/// RFC 9331, section 4.1: ECT(1) identifies L4S.
#[test]
fn the_code_point_of_a_packet_is_its_capability() {
    let mut packet = render(&segment(true, 0, 1000, 0, Flags::ACK), &endpoints(0));
    let l4s = Flags::ECT.with(Flags::ECT1);
    for (field, flags) in [(0, Flags::NONE), (1, l4s), (2, Flags::ECT), (3, Flags::ECT)] {
        packet[1] = field;
        let tcp = parse(&packet).unwrap();
        assert_eq!(tcp.capability(), flags);
        assert_eq!(tcp.flags().has(Flags::CE), field == 3);
    }
}

#[test]
fn windows_below_64_kib_are_exact() {
    assert_eq!([0, 65_535, 65_536, 1 << 20, u64::MAX].map(window_scale_for), [0, 0, 1, 5, 14]);
    let exact = render(&segment(false, 0, 0, 0, Flags::ACK), &endpoints(window_scale_for(20_000)));
    assert_eq!(parse(&exact).unwrap().window, 20_000);
}

#[test]
fn payload_encodes_its_stream_offset() {
    assert_eq!(
        filler(0, 64),
        b"000000000000000\n000000000000010\n000000000000020\n000000000000030\n"
    );
    assert_eq!(filler(0x1234_5678_9abc_def0 + 14, 4), b"0\n23");
    assert_eq!(filler(u64::MAX, 3), b"\n00");
    let whole = render(&segment(true, 0, 500, 0, Flags::ACK), &endpoints(0));
    let part = render(&segment(true, 123, 300, 0, Flags::ACK), &endpoints(0));
    assert_eq!(parse(&whole).unwrap().payload[123..423], *parse(&part).unwrap().payload);
}

#[test]
fn datagrams_become_udp_and_oversized_packets_are_truncated() {
    let udp = render(&segment(true, 0, 100, 0, Flags::DATAGRAM), &endpoints(0));
    assert_eq!(
        (udp.len(), udp[9], checksum_is_valid(&udp), parse(&udp)),
        (128, 17, true, Err(NotTcp::OtherProtocol))
    );
    for flags in [Flags::ACK, Flags::DATAGRAM] {
        assert_eq!(render(&segment(true, 0, 1 << 20, 0, flags), &endpoints(0)).len(), 65_535);
    }
}

fn ipv6() -> Vec<u8> {
    let addressing = Addressing {
        source: "[2001:db8::1]:443".parse().unwrap(),
        destination: "[2001:db8::2]:50000".parse().unwrap(),
        hop_limit: 55,
        traffic_class: 0x2a,
        flow_label: 0x12345,
    };
    assemble(
        &addressing,
        &endpoints(0).numbering(true).tcp_header(&segment(true, 0, 0, 9, Flags::ACK)),
        b"hello",
    )
}

/// IPv6 with `extension` between the IP and the TCP header; `first` is its protocol number.
fn extended(first: u8, extension: &[u8]) -> Vec<u8> {
    let mut p = ipv6();
    p[6] = first;
    p.splice(40..40, extension.iter().copied());
    let length = (p.len() - 40) as u16;
    p[4..6].copy_from_slice(&length.to_be_bytes());
    p
}

#[test]
fn parses_ipv6_extension_headers() {
    let plain = ipv6();
    assert!(checksum_is_valid(&plain));
    let p = parse(&plain).unwrap();
    assert_eq!(
        (p.addressing.hop_limit, p.addressing.traffic_class, p.addressing.flow_label),
        (55, 0x2a, 0x12345)
    );
    assert_eq!((p.payload, p.total_len, p.tcp_at), (&b"hello"[..], 65, 40));
    // Hop-by-hop options (RFC 8200 section 4.3).
    let hop_by_hop = extended(0, &[6, 0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(
        parse(&hop_by_hop).map(|p| (p.tcp_at, p.total_len, p.payload)),
        Ok((48, 73, &b"hello"[..]))
    );
    // A fragment (RFC 8200 section 4.5), and an atomic fragment, which is a complete packet (RFC
    // 6946).
    assert_eq!(parse(&extended(44, &[6, 0, 0, 1, 0, 0, 0, 1])), Err(NotTcp::Fragment));
    assert!(parse(&extended(44, &[6, 0, 0, 0, 0, 0, 0, 1])).is_ok());
    // An authentication header (RFC 4302).
    assert_eq!(
        parse(&extended(51, &[6, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1])),
        Err(NotTcp::OtherProtocol)
    );
}

/// Decodes hexadecimal digits; other characters are ignored.
fn bytes(hex: &str) -> Vec<u8> {
    let hex: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    hex.chunks(2)
        .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn truncated_extension_headers_are_rejected() {
    // Found by fuzzing: hop-by-hop options with a length field of 1992 bytes in a 48-byte packet.
    let found = "67000000000000009c9b0745f9cd008704f7802912080045000044000040004006
                 1a470000000000 28f800910007";
    let hop_by_hop: &[u8] = &[6, 0, 1, 4, 0, 0, 0, 0];
    let authentication: &[u8] = &[6, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    let truncated =
        |first, extension: &[u8], left: usize| extended(first, extension)[..40 + left].to_vec();
    // The IP packet ends within the extension, so the capture is complete.
    let short = |first, extension: &[u8], left: usize| {
        let mut p = truncated(first, extension, left);
        p[4..6].copy_from_slice(&(left as u16).to_be_bytes());
        p
    };
    let second = |first: u8, extension: &[u8]| [&[first, 0, 1, 4, 0, 0, 0, 0], extension].concat();
    assert_eq!(parse(&bytes(found)), Err(NotTcp::OtherProtocol));
    for left in 0..8 {
        for first in [0, 43, 44, 60] {
            assert_eq!(parse(&truncated(first, hop_by_hop, left)), Err(NotTcp::CutShort));
            assert_eq!(parse(&short(first, hop_by_hop, left)), Err(NotTcp::OtherProtocol));
            assert_eq!(
                parse(&truncated(0, &second(60, hop_by_hop), 8 + left)),
                Err(NotTcp::CutShort)
            );
            assert_eq!(
                parse(&short(0, &second(60, hop_by_hop), 8 + left)),
                Err(NotTcp::OtherProtocol)
            );
        }
    }
    for left in 0..12 {
        assert_eq!(parse(&truncated(51, authentication, left)), Err(NotTcp::CutShort));
        assert_eq!(parse(&short(51, authentication, left)), Err(NotTcp::OtherProtocol));
        assert_eq!(
            parse(&truncated(0, &second(51, authentication), 8 + left)),
            Err(NotTcp::CutShort)
        );
        assert_eq!(
            parse(&short(0, &second(51, authentication), 8 + left)),
            Err(NotTcp::OtherProtocol)
        );
    }
    // An authentication header cannot have a length of 0 (RFC 4302 section 2.2).
    let mut nothing = authentication.to_vec();
    nothing[1] = 0;
    assert_eq!(parse(&extended(51, &nothing)), Err(NotTcp::OtherProtocol));
}

#[test]
fn packets_that_are_not_tcp_are_rejected_with_a_reason() {
    let tcp = render(&segment(true, 0, 100, 0, Flags::ACK), &endpoints(0));
    let with = |at: usize, value: u8| {
        let mut p = tcp.clone();
        p[at] = value;
        p
    };
    assert_eq!(parse(&[]), Err(NotTcp::CutShort));
    assert_eq!(parse(&with(0, 0x55)), Err(NotTcp::NotIp));
    assert_eq!(parse(&with(0, 0x44)), Err(NotTcp::NotIp));
    assert_eq!(parse(&with(6, 0x20)), Err(NotTcp::Fragment));
    assert_eq!(parse(&with(7, 1)), Err(NotTcp::Fragment));
    assert_eq!(parse(&with(9, 1)), Err(NotTcp::OtherProtocol));
    assert_eq!(parse(&with(32, 0x40)), Err(NotTcp::Malformed));
    assert_eq!(parse(&tcp[..39]), Err(NotTcp::CutShort));
    // Complete headers are sufficient; padding is not payload.
    let cut = parse(&tcp[..44]).unwrap();
    assert_eq!((cut.payload.len(), cut.payload_len, cut.total_len), (4, 100, 140));
    let padded = [tcp.as_slice(), &[0; 6]].concat();
    assert_eq!(parse(&padded), parse(&tcp));
    // A length field of 0 means more than 64 KiB (TSO).
    let mut tso = [with(2, 0), vec![0; 70_000]].concat();
    tso[3] = 0;
    assert_eq!(parse(&tso).unwrap().payload_len, 70_100);
}

#[test]
fn patched_packet_equals_rendered_packet() {
    let ends = endpoints(0);
    let mut old = render(&segment(false, 0, 0, 1000, Flags::ACK), &ends);
    let new =
        render(&Segment { ack: 5000, window: 0, ..segment(false, 0, 0, 1000, Flags::ACK) }, &ends);
    let numbering = ends.numbering(false);
    patch(
        &mut old,
        Patch {
            ack: Some(numbering.ack_field(5000)),
            window: Some(numbering.window_field(0, false)),
            eln: false,
        },
    )
    .unwrap();
    assert_eq!(old, new);
    assert_eq!(patch(&mut [0x45; 10], Patch::default()), Err(NotTcp::CutShort));
}

proptest! {
    #[test]
    fn parse_and_patch_accept_arbitrary_bytes(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
        version in prop::sample::select(vec![0u8, 0x45, 0x46, 0x60]),
    ) {
        if let Some(first) = bytes.first_mut().filter(|_| version != 0) {
            *first = version;
        }
        let _ = parse(&bytes).map(|p| (p.flags(), p.options().count()));
        let _ = patch(&mut bytes, Patch { ack: Some(1), window: Some(2), eln: true });
    }

    #[test]
    fn parse_accepts_corrupt_and_truncated_packets(
        edits in proptest::collection::vec((0usize..90, any::<u8>()), 0..4),
        cut in 0usize..100,
        v6: bool,
    ) {
        let flags = Flags::ACK.with(Flags::TIMESTAMPS);
        let mut packet = if v6 {
            extended(0, &[6, 0, 1, 4, 0, 0, 0, 0])
        } else {
            render(&segment(true, 0, 40, 0, flags), &endpoints(0))
        };
        for (at, value) in edits {
            if let Some(b) = packet.get_mut(at) {
                *b = value;
            }
        }
        packet.truncate(cut);
        if let Ok(p) = parse(&packet) {
            prop_assert!(p.tcp_at + 20 + p.option_bytes.len() + p.payload.len() <= packet.len());
            prop_assert!(p.payload_len as usize >= p.payload.len());
            prop_assert_eq!(patch(&mut packet, Patch { ack: Some(9), ..Patch::default() }), Ok(()));
        }
    }

    #[test]
    fn segments_round_trip(
        seq in 0u64..1 << 40,
        ack in 0u64..1 << 40,
        len in 0u32..1400,
        bits in 0u32..128,
        window in 0u32..1 << 22,
        scale in 0u8..8,
        stamps: bool,
        forward: bool,
    ) {
        let flags = Flags(bits).without(Flags::SYN).with(Flags::ACK);
        let flags = if stamps { flags.with(Flags::TIMESTAMPS) } else { flags };
        let s = Segment { window, ..segment(forward, seq, len, ack, flags) };
        let ends = endpoints(scale);
        let bytes = render(&s, &ends);
        prop_assert!(checksum_is_valid(&bytes));
        let p = parse(&bytes).unwrap();
        let n = ends.numbering(forward);
        prop_assert_eq!(p.seq.wrapping_sub(n.seq_zero), seq as u32);
        prop_assert_eq!(p.ack.wrapping_sub(n.ack_zero), ack as u32);
        prop_assert_eq!((p.flags(), p.payload_len), (flags, len));
        prop_assert_eq!(u32::from(p.window) << scale, (window >> scale).min(65_535) << scale);
    }

    #[test]
    fn snack_and_sack_options_round_trip(
        ack in 0u64..1 << 40,
        holes in proptest::collection::vec((1u64..9, 1u64..9), 0..20),
        mss in 1u32..1461,
        stamps: bool,
        sack: bool,
    ) {
        let unit = u64::from(mss);
        let mut at = ack;
        let holes = holes.into_iter().map(|(gap, len)| {
            let start = at + (gap - u64::from(at == ack)) * unit;
            at = start + len * unit;
            Block { start, end: at }
        });
        let snack = Snack::of(holes.collect::<Vec<_>>().into_iter(), mss);
        let mut options = Options { snack: snack.unwrap_or(Snack::NONE), ..Options::NONE };
        options.sack.push(at, at + unit);
        let mut flags = if snack.is_some() { Flags::ACK.with(Flags::SNACK) } else { Flags::ACK };
        flags = if stamps { flags.with(Flags::TIMESTAMPS) } else { flags };
        flags = if sack { flags.with(Flags::SACK) } else { flags };
        let bytes = render_with(&segment(false, 0, 0, ack, flags), &options, &endpoints(0));
        prop_assert!(checksum_is_valid(&bytes));
        let packet = parse(&bytes).unwrap();
        prop_assert_eq!(packet.timestamps().is_some(), stamps);
        options.sack = if sack { options.sack } else { SackBlocks::NONE };
        let flags = flags.without(Flags::ACK).without(Flags::TIMESTAMPS);
        prop_assert_eq!(packet.segment_options(ack, mss), (flags, options));
    }

    #[test]
    fn patched_checksums_equal_those_of_a_rendered_packet(
        ack in 0u64..1 << 32,
        window: u16,
        old_ack in 0u64..1 << 32,
        len in 0u32..8,
        eln: bool,
    ) {
        let ends = endpoints(0);
        let mut old = render(&segment(false, 0, len, old_ack, Flags::ACK), &ends);
        let flags = if eln { Flags::ACK.with(Flags::ELN) } else { Flags::ACK };
        let new = Segment { window: u32::from(window), ..segment(false, 0, len, ack, flags) };
        let new = render(&new, &ends);
        let ack = Some(ends.numbering(false).ack_field(ack));
        patch(&mut old, Patch { ack, window: Some(window), eln }).unwrap();
        prop_assert!(checksum_is_valid(&new) && (new[32] & 8 > 0) == eln);
        prop_assert_eq!(old, new);
    }

    #[test]
    fn option_lists_accept_arbitrary_bytes(
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        prop_assert!(options(&bytes).count() <= bytes.len());
    }
}

/// A notice is an ACK to the data sender: the acknowledgment number identifies the segment, two
/// reserved bits the kind.
#[test]
fn notice_is_rendered_as_an_ack() {
    let bytes = |kind| {
        let notice = Notice { kind, flow: 1, value: 5000, stamp: Time(3) };
        render(&Segment::of_notice(&notice, 0), &endpoints(0))
    };
    for (kind, reserved) in [(NoticeKind::Ersn, 0b001), (NoticeKind::Eln, 0b010)] {
        let packet = bytes(kind);
        assert!(checksum_is_valid(&packet), "{kind:?}");
        assert_eq!((packet.len(), packet[32] >> 1 & 7), (40, reserved));
        let tcp = parse(&packet).unwrap();
        assert_eq!(tcp.addressing.destination.to_string(), "10.0.0.1:5000");
        assert_eq!(tcp.ack, 1_000_001 + 5000);
    }
}

#[test]
fn the_ecn_field_says_what_the_flags_do() {
    let ect = Flags::ECT;
    for (flags, field) in
        [(Flags::NONE, 0), (ect, 2), (ect.with(Flags::ECT1), 1), (ect.with(Flags::CE), 3)]
    {
        let packet = render(&segment(true, 0, 1000, 0, flags.with(Flags::ACK)), &endpoints(0));
        let tcp = parse(&packet).unwrap();
        assert_eq!(tcp.addressing.traffic_class, field);
        assert_eq!(tcp.capability(), flags.without(Flags::CE));
        assert_eq!(tcp.flags().has(Flags::CE), flags.has(Flags::CE));
    }
}
