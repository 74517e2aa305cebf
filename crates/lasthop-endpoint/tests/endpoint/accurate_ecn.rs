//! AccECN (RFC 9768) on packets: negotiation, fallback, counts.

use lasthop::tcp::profile::ProfileName;
use lasthop::units::Duration;
use lasthop_wire::parse;

use crate::common::{CLIENT, Link, SERVER, linux, settings};

/// The three bits AE, CWR and ECE of a packet, and its ECN field.
fn marks(packet: &[u8]) -> (u16, u8) {
    let tcp = parse(packet).unwrap();
    (tcp.flag_bits >> 6 & 7, tcp.addressing.traffic_class & 3)
}

/// RFC 9768, sections 3.1 and 3.2.2.
#[test]
fn accecn_is_used_if_both_ends_ask_for_it() {
    let accurate = || {
        let mut settings = linux();
        let profile = &mut settings.profile;
        (profile.ecn, profile.accurate_ecn, profile.l4s) = (true, true, true);
        settings
    };
    let classic = || {
        let mut settings = linux();
        settings.profile.ecn = true;
        settings
    };
    // Bits of SYN, SYN-ACK, the ACK of that and later ACKs; ECN field of data.
    for (client, server, bits, field) in [
        (accurate(), accurate(), [7, 2, 2, 5], 1),
        (accurate(), classic(), [7, 1, 0, 0], 2),
        (classic(), accurate(), [3, 1, 0, 0], 2),
        (accurate(), linux(), [7, 0, 0, 0], 0),
        (linux(), accurate(), [0, 0, 0, 0], 0),
    ] {
        let mut link = Link::established(client, server);
        link.write(SERVER, &[1; 30_000]);
        link.run_for(Duration::secs(1));
        let (ours, theirs) = (link.sent_by(CLIENT), link.sent_by(SERVER));
        let last = ours.last().unwrap();
        let handshake = [&ours[0], &theirs[0], &ours[1], last].map(|p| marks(p));
        assert_eq!(handshake.map(|m| m.0), bits);
        assert_eq!(handshake.map(|m| m.1), [0; 4]);
        let data: Vec<&Vec<u8>> =
            theirs.iter().filter(|p| parse(p).unwrap().payload_len > 0).collect();
        assert!(data.len() >= 20 && data.iter().all(|p| marks(p).1 == field), "{bits:?}");
        // A data segment has the count of its end, too.
        assert!(bits[3] == 0 || data.iter().all(|p| marks(p).0 == bits[3]), "{bits:?}");
        assert_eq!(link.end(SERVER).sender_counters().reductions, 0, "{bits:?}");
    }
}

/// Section 3.2.2: the count of marked packets, and a sender that reduces by it.
#[test]
fn marked_packets_are_counted() {
    let prague = || settings("prague", ProfileName::Linux);
    let mut link = Link::established(prague(), prague());
    link.marks = true;
    link.write(SERVER, &[1; 30_000]);
    link.run_for(Duration::secs(1));
    let data = link.sent_by(SERVER).iter().filter(|p| parse(p).unwrap().payload_len > 0).count();
    let last = link.sent_by(CLIENT).last().map(|p| marks(p).0).unwrap();
    assert_eq!(usize::from(last), (5 + data) % 8);
    assert!(link.end(SERVER).sender_counters().reductions > 0);
}

/// Section 3.1.4: two SYNs offer AccECN; if they are lost, the third one offers no ECN.
#[test]
fn the_third_syn_does_without() {
    let settings = || settings("prague", ProfileName::Linux);
    let mut link = Link::new(settings(), settings(), false);
    link.drops = |from, sent| from == CLIENT && sent <= 2;
    link.run_for(Duration::secs(10));
    let syns = link.sent_by(CLIENT);
    assert_eq!([&syns[0], &syns[1], &syns[2]].map(|p| marks(p).0), [7, 7, 0]);
    link.write(SERVER, &[1; 3000]);
    link.run_for(Duration::secs(1));
    assert!(link.sent_by(SERVER).iter().all(|p| marks(p) == (0, 0)));
}

/// Sets the three bits of an IPv4 packet to 0, as some middleboxes do, and corrects the checksum
/// (RFC 1624).
fn clear_count(packet: &mut [u8]) {
    let at = usize::from(packet[0] & 15) * 4 + 12;
    let word = |p: &[u8], i: usize| u32::from(u16::from_be_bytes([p[i], p[i + 1]]));
    let before = word(packet, at);
    packet[at] &= !1;
    packet[at + 1] &= !0xc0;
    let sum = (!word(packet, at + 4) & 0xffff) + (!before & 0xffff) + word(packet, at);
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    packet[at + 4..at + 6].copy_from_slice(&checksum.to_be_bytes());
}

/// Section 3.2.2.1, notes 1 and 2 of table 4: after an ACK of the SYN-ACK without any of the bits,
/// the server sends no ECN-capable packets and ignores the counts, but goes on to count itself.
#[test]
fn a_server_whose_syn_ack_is_acknowledged_without_bits_does_without_ecn() {
    let prague = || settings("prague", ProfileName::Linux);
    let mut link = Link::new(prague(), prague(), false);
    link.marks = true;
    link.alters = |from, sent, packet| {
        if from == CLIENT && sent == 2 {
            clear_count(packet);
        }
    };
    link.run_for(Duration::secs(1));
    link.write(SERVER, &[1; 30_000]);
    link.run_for(Duration::secs(1));
    link.write(CLIENT, &[1; 30_000]);
    link.run_for(Duration::secs(1));
    let with_data = |link: &Link, end: usize| -> Vec<(u16, u8)> {
        let sent = link.sent_by(end);
        sent.iter().filter(|p| parse(p).unwrap().payload_len > 0).map(|p| marks(p)).collect()
    };
    let data = with_data(&link, SERVER);
    assert!(data.len() >= 20 && data.iter().all(|m| m.1 == 0), "{data:?}");
    assert_eq!(link.end(SERVER).sender_counters().reductions, 0);
    // The client has not seen the middlebox: its data are marked, and counted by the server.
    let data = with_data(&link, CLIENT);
    assert!(data.len() >= 20 && data.iter().all(|m| m.1 == 1), "{data:?}");
    let count = link.sent_by(SERVER).last().map(|p| marks(p).0).unwrap();
    assert_eq!(usize::from(count), (5 + data.len()) % 8);
}
