//! Capture writer and reader: round trips, corrupt input, and Wireshark's tools if installed.

use std::io::{self, Write};
use std::net::SocketAddrV4;
use std::process::Command;

use lasthop::segment::{Flags, Payload, Segment};
use lasthop::units::Time;
use lasthop_wire::{
    CaptureReader, CaptureWriter, Endpoints, Interface, LinkType, Packet, ReadError, Side,
    WriteError, render,
};
use proptest::prelude::*;

fn sample() -> Vec<u8> {
    let interfaces =
        [Interface::new("bs:in", "before the agent"), Interface::new("bs:out", "after the agent")];
    let mut writer = CaptureWriter::new(Vec::new(), &interfaces).unwrap();
    writer.write(0, Time(1_500_000_001), b"abc", None).unwrap();
    writer.write(1, Time(u64::MAX), b"", Some("dropped: Größe")).unwrap();
    writer.write_cut(0, Time(3), &[7; 96], 1500, None).unwrap();
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<(Vec<Interface>, Vec<Packet>), ReadError> {
    let mut reader = CaptureReader::new(bytes)?;
    let mut packets = Vec::new();
    while let Some(p) = reader.next_packet()? {
        packets.push(p);
    }
    Ok((reader.interfaces().to_vec(), packets))
}

#[test]
fn captures_round_trip() {
    let (interfaces, packets) = read(&sample()).unwrap();
    assert_eq!(interfaces.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["bs:in", "bs:out"]);
    assert_eq!(
        (interfaces[1].description.as_str(), interfaces[1].link_type),
        ("after the agent", LinkType::RAW)
    );
    let expected = [
        Packet {
            interface: 0,
            time: Time(1_500_000_001),
            data: b"abc".to_vec(),
            original_len: 3,
            comment: None,
        },
        Packet {
            interface: 1,
            time: Time(u64::MAX),
            data: vec![],
            original_len: 0,
            comment: Some("dropped: Größe".into()),
        },
        Packet {
            interface: 0,
            time: Time(3),
            data: vec![7; 96],
            original_len: 1500,
            comment: None,
        },
    ];
    assert_eq!(packets, expected);
}

#[test]
fn long_comments_are_truncated_at_character_boundaries() {
    let mut writer = CaptureWriter::new(Vec::new(), &[Interface::new("a", "")]).unwrap();
    writer.write(0, Time(0), b"x", Some(&"ü".repeat(40_000))).unwrap();
    let (_, packets) = read(&writer.finish().unwrap()).unwrap();
    assert_eq!(packets[0].comment.as_deref(), Some("ü".repeat(32_767).as_str()));
}

/// A pcapng block in big-endian order.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() + 12) as u32;
    [&kind.to_be_bytes()[..], &length.to_be_bytes(), body, &length.to_be_bytes()].concat()
}

fn section() -> Vec<u8> {
    block(0x0a0d_0d0a, &[&0x1a2b_3c4du32.to_be_bytes()[..], &[0, 1, 0, 0], &[0xff; 8]].concat())
}

fn interface(link_type: u16, options: &[u8]) -> Vec<u8> {
    block(1, &[&link_type.to_be_bytes()[..], &[0; 6], options].concat())
}

fn packet(kind: u32, interface: [u8; 4], time: u64, data: &[u8; 4]) -> Vec<u8> {
    block(
        kind,
        &[&interface[..], &time.to_be_bytes(), &4u32.to_be_bytes(), &4u32.to_be_bytes(), data]
            .concat(),
    )
}

#[test]
fn reads_time_resolutions_offsets_sections_and_obsolete_blocks() {
    let milliseconds = [0, 9, 0, 1, 3, 0, 0, 0];
    let binary = [0, 9, 0, 1, 0x8a, 0, 0, 0];
    let offset = [0, 14, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2];
    let capture = [
        section(),
        interface(1, &[]),
        interface(113, &milliseconds),
        packet(6, [0, 0, 0, 0], 1_000_001, b"usec"),
        packet(6, [0, 0, 0, 1], 1_001, b"msec"),
        block(0xbad, b"whatever"),
        section(),
        interface(101, &[&binary[..], &offset].concat()),
        packet(6, [0, 0, 0, 0], 1024 + 512, b"2^10"),
        packet(2, [0, 0, 0, 9], 1024, b"old "),
    ]
    .concat();
    let (interfaces, packets) = read(&capture).unwrap();
    assert_eq!(interfaces.iter().map(|i| i.link_type.0).collect::<Vec<_>>(), [1, 113, 101]);
    let seen: Vec<_> = packets.iter().map(|p| (p.interface, p.time.0)).collect();
    assert_eq!(
        seen,
        [(0, 1_000_001_000), (1, 1_001_000_000), (2, 3_500_000_000), (2, 3_000_000_000)]
    );
}

#[test]
fn reads_legacy_pcap_of_both_byte_orders_and_resolutions() {
    for (magic, unit) in [(0xa1b2_c3d4u32, 1000), (0xa1b2_3c4d, 1)] {
        let words = |big: bool, words: &[u32]| {
            words
                .iter()
                .flat_map(|w| if big { w.to_be_bytes() } else { w.to_le_bytes() })
                .collect::<Vec<u8>>()
        };
        for big in [false, true] {
            // The version is two 16-bit words; the reader ignores it.
            let head = words(big, &[magic, 0x0002_0004, 0, 0, 65_535, 1]);
            let record = words(big, &[2, 5, 3, 1500]);
            let (interfaces, packets) = read(&[head.as_slice(), &record, b"abc"].concat()).unwrap();
            assert_eq!(interfaces[0].link_type, LinkType::ETHERNET);
            let expected = Packet {
                interface: 0,
                time: Time(2_000_000_000 + 5 * unit),
                data: b"abc".to_vec(),
                original_len: 1500,
                comment: None,
            };
            assert_eq!(packets, [expected]);
            let cut = [head.as_slice(), &record, b"ab"].concat();
            assert_eq!(
                read(&cut).unwrap_err().to_string(),
                "the capture is cut off: it ends within the block that begins at byte 24"
            );
        }
    }
}

#[test]
fn invalid_input_gives_a_one_line_error() {
    let text = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert_eq!(text(b""), "the capture is empty: the file has no bytes");
    assert_eq!(text(b"duration = \"20 s\""), "not a capture: neither pcapng nor pcap");
    assert_eq!(text(b"\x0a"), "not a capture: neither pcapng nor pcap");
    assert_eq!(
        text(b"\x1f\x8b\x08\x00"),
        "not a capture but a compressed file: decompress it first"
    );
    let whole = sample();
    assert_eq!(
        text(&whole[..whole.len() - 1]),
        format!(
            "the capture is cut off: it ends within the block that begins at byte {}",
            whole.len() - 128
        )
    );
    let no_interface = [section(), packet(6, [0, 0, 0, 0], 1, b"abcd")].concat();
    assert!(
        text(&no_interface)
            .starts_with("the capture is damaged: a packet of an interface that is not described")
    );
    let simple = [section(), interface(1, &[]), block(3, &[0, 0, 0, 0])].concat();
    assert!(text(&simple).contains("without a timestamp"));
    let odd = [section(), interface(1, &[0, 9, 0, 1, 0x7f, 0, 0, 0])].concat();
    assert!(text(&odd).contains("time resolution"));
    let mut lengths = sample();
    let end = lengths.len();
    lengths[end - 4] ^= 4;
    assert!(text(&lengths).contains("two different lengths"));
}

#[test]
fn every_prefix_is_read_or_rejected() {
    let whole = sample();
    let full = read(&whole).unwrap().1.len();
    let ends = (0..=whole.len()).filter(|&n| read(&whole[..n]).is_ok()).count();
    // A prefix is valid if it ends with a block: the section, two interfaces, the packets.
    assert_eq!(ends, 3 + full);
}

/// A disk with this many bytes of free space.
struct Disk(usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.min(bytes.len()) {
            0 => Err(io::Error::new(io::ErrorKind::StorageFull, "No space left on device")),
            n => {
                self.0 -= n;
                Ok(n)
            }
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn full_disk_returns_an_error() {
    let mut writer = CaptureWriter::new(Disk(100_000), &[Interface::new("a", "b")]).unwrap();
    let failed = (0..200).find_map(|i| writer.write(0, Time(i), &[0; 1000], None).err());
    assert_eq!(failed.unwrap().to_string(), "cannot write the capture: No space left on device");
    let writer = CaptureWriter::new(Disk(10), &[]).unwrap();
    assert!(matches!(writer.finish(), Err(WriteError::Io(_))));
    let mut writer = CaptureWriter::new(Vec::new(), &[]).unwrap();
    assert!(matches!(writer.write(0, Time(0), b"", None), Err(WriteError::NoInterface(0))));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_or_rejected(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        magic in 0usize..6,
    ) {
        let heads: [&[u8]; 6] = [
            &[],
            &sample()[..48],
            &[0xd4, 0xc3, 0xb2, 0xa1],
            &[0xa1, 0xb2, 0xc3, 0xd4],
            &[0x4d, 0x3c, 0xb2, 0xa1],
            &sample()[..200],
        ];
        let _ = read(&[heads[magic], &bytes].concat());
    }

    #[test]
    fn corrupt_captures_are_read_or_rejected(
        edits in proptest::collection::vec((0usize..500, any::<u8>()), 1..6),
    ) {
        let mut bytes = sample();
        for (at, value) in edits {
            if let Some(b) = bytes.get_mut(at) {
                *b = value;
            }
        }
        let _ = read(&bytes);
    }
}

/// Standard output and standard error of a tool.
fn run(tool: &str, arguments: &[&str]) -> (String, String) {
    let out = Command::new(tool).args(arguments).output().unwrap();
    (
        String::from_utf8_lossy(&out.stdout).into_owned(),
        String::from_utf8_lossy(&out.stderr).into_owned(),
    )
}

/// tshark decodes the capture without warnings: checksums, relative sequence numbers, scaled
/// windows, comments, interfaces.
#[test]
#[ignore = "needs tshark"]
fn wireshark_reads_written_captures() {
    let side = |address: &str, isn| Side {
        address: address.parse::<SocketAddrV4>().unwrap(),
        isn,
        window_scale: 7,
    };
    let ends = Endpoints {
        sender: side("10.0.0.1:5000", u32::MAX - 500),
        receiver: side("10.0.0.2:80", 77),
        mss: 1000,
    };
    let base = Segment {
        seq: 0,
        ack: 0,
        id: 0,
        flow: 1,
        len: 0,
        size: 40,
        window: 262_144,
        ts_value: 0,
        ts_echo: 0,
        payload: Payload::NONE,
        to: 0,
        flags: Flags::ACK,
        attempt: 1,
        forward: true,
    };
    let segments = [
        Segment { flags: Flags::SYN, ..base },
        Segment { flags: Flags::SYN.with(Flags::ACK), forward: false, ..base },
        Segment { len: 1000, ..base },
        Segment { seq: 1000, len: 999, ..base },
        Segment { ack: 1999, forward: false, ..base },
        Segment { seq: 1999, flags: Flags::ACK.with(Flags::FIN), ..base },
        Segment { len: 300, flags: Flags::DATAGRAM, ..base },
    ];
    let mut writer = CaptureWriter::new(
        Vec::new(),
        &[Interface::new("server", "hop 1"), Interface::new("bs:in", "agent")],
    )
    .unwrap();
    for (i, s) in segments.iter().enumerate() {
        writer
            .write(
                i % 2,
                Time(i as u64 * 1_000_000_001),
                &render(s, &ends),
                (i == 3).then_some("lost on the air"),
            )
            .unwrap();
    }
    let file = std::env::temp_dir().join(format!("lasthop-wire-{}.pcapng", std::process::id()));
    std::fs::write(&file, writer.finish().unwrap()).unwrap();
    let name = file.to_str().unwrap();
    let fields = [
        "frame.interface_name",
        "tcp.seq",
        "tcp.ack",
        "tcp.window_size",
        "ip.checksum.status",
        "tcp.checksum.status",
        "udp.checksum.status",
    ];
    let mut arguments = vec![
        "-r",
        name,
        "-o",
        "ip.check_checksum:TRUE",
        "-o",
        "tcp.check_checksum:TRUE",
        "-o",
        "udp.check_checksum:TRUE",
        "-T",
        "fields",
    ];
    fields.iter().for_each(|f| arguments.extend(["-e", f]));
    arguments.extend([
        "-e",
        "frame.comment",
        "-e",
        "frame.time_epoch",
        "-e",
        "_ws.expert.severity",
    ]);
    let (out, _) = run("tshark", &arguments);
    // Of the package of tshark.
    let (about, complaints) = run("capinfos", &["-M", name]);
    std::fs::remove_file(&file).unwrap();
    let rows: Vec<Vec<&str>> = out.lines().map(|l| l.split('\t').collect()).collect();
    let column = |i: usize| rows.iter().map(|r| r[i]).collect::<Vec<_>>();
    assert_eq!(column(0), ["server", "bs:in", "server", "bs:in", "server", "bs:in", "server"]);
    assert_eq!(column(1), ["0", "0", "1", "1001", "1", "2000", ""]);
    assert_eq!(column(2), ["0", "1", "1", "1", "2000", "1", ""]);
    assert_eq!(column(3), ["65535", "65535", "262144", "262144", "262144", "262144", ""]);
    assert_eq!((column(4), column(5)), (vec!["1"; 7], [["1"; 6].as_slice(), &[""]].concat()));
    assert_eq!((column(6)[6], column(7)[3]), ("1", "lost on the air"));
    assert!(column(8)[6].ends_with("6.000000006"), "{:?}", column(8));
    // Expert info must hold no warnings (6291456) and no errors (8388608).
    assert!(!out.contains("6291456") && !out.contains("8388608"), "{out}");
    assert!(
        about.contains("Number of packets:   7")
            && about.contains("Interface #1 info")
            && about.contains("lasthop "),
        "{about}"
    );
    assert_eq!(complaints, "");
}
