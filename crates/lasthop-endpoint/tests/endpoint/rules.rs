//! One test for each rule of a connection; the names of the sections are those of the RFCs.

use crate::common::{CLIENT, Faults, Link, SECRETS, SERVER, address, linux, settings};
use etherparse::TcpHeader;
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Time};
use lasthop_endpoint::{End, Endpoint, KeepAlive, TcpState};
use lasthop_wire::options::{OptionBytes, TcpOption};
use lasthop_wire::path_mtu::{TooLarge, too_large};
use lasthop_wire::{Addressing, assemble, icmp_error, parse};

const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;
const PSH: u16 = 8;
const ACK: u16 = 16;

/// What a forged packet says; numbers are those of the header.
#[derive(Clone, Default)]
struct Forged<'a> {
    seq: u32,
    ack: u32,
    flags: u16,
    window: u16,
    options: &'a [TcpOption<'a>],
    payload: &'a [u8],
}

impl Forged<'_> {
    /// The packet for an end, from the other one's address.
    fn to(&self, end: usize) -> Vec<u8> {
        let mut tcp = TcpHeader::new(0, 0, self.seq, self.window);
        tcp.acknowledgment_number = self.ack;
        let flag = |bit| self.flags & bit != 0;
        (tcp.fin, tcp.syn, tcp.rst, tcp.ack) = (flag(FIN), flag(SYN), flag(RST), flag(ACK));
        let mut options = OptionBytes::default();
        self.options.iter().for_each(|o| options.push(*o).unwrap());
        tcp.set_options_raw(options.padded()).unwrap();
        let addressing = Addressing {
            source: address(1 - end, false),
            destination: address(end, false),
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        };
        assemble(&addressing, &tcp, self.payload)
    }
}

/// Flags, sequence and ACK number of a packet.
fn numbers(packet: &[u8]) -> (u16, u32, u32) {
    let tcp = parse(packet).unwrap();
    (tcp.flag_bits & !PSH, tcp.seq, tcp.ack)
}

/// The next sequence numbers of both ends of a connection that has carried nothing.
fn next() -> [u32; 2] {
    SECRETS.map(|s| s.isn.wrapping_add(1))
}

fn mss_of(packet: &[u8]) -> Option<u16> {
    parse(packet).unwrap().options().flatten().find_map(|o| match o {
        TcpOption::MaximumSegmentSize(mss) => Some(mss),
        _ => None,
    })
}

/// A connection whose peer has sent this SYN, and the SYN-ACK.
fn accepted(options: &[TcpOption<'_>]) -> (Endpoint, Vec<u8>) {
    let syn = Forged {
        seq: SECRETS[CLIENT].isn,
        flags: SYN,
        window: 60_000,
        options,
        ..Forged::default()
    };
    let settings = linux().into();
    let mut server =
        Endpoint::accept(Time::ZERO, settings, &syn.to(SERVER), SECRETS[SERVER]).unwrap();
    let syn_ack = server.outgoing().unwrap();
    let ack = Forged {
        seq: next()[CLIENT],
        ack: next()[SERVER],
        flags: ACK,
        window: 60_000,
        ..Forged::default()
    };
    server.packet(Time::ZERO + Duration::millis(20), &ack.to(SERVER));
    (server, syn_ack)
}

// RFC 9293, section 3.5: opening.

#[test]
fn both_ends_may_open_at_once() {
    let mut link = Link::simultaneous(linux());
    link.run_for(Duration::secs(1));
    assert_eq!(
        (link.state(CLIENT), link.state(SERVER)),
        (TcpState::Established, TcpState::Established)
    );
    link.write(CLIENT, b"one");
    link.write(SERVER, b"two");
    link.run_for(Duration::secs(1));
    assert_eq!((link.read(SERVER), link.read(CLIENT)), (b"one".to_vec(), b"two".to_vec()));
}

#[test]
fn lost_syns_and_syn_acks_are_sent_again() {
    let drops: [fn(usize, u64) -> bool; 3] = [
        |from, number| from == CLIENT && number <= 2,
        |from, number| from == SERVER && number <= 2,
        // The third packet of the handshake: the first data confirm the SYN-ACK.
        |from, number| from == CLIENT && number == 2,
    ];
    for drop in drops {
        let mut link = Link::new(linux(), linux(), false);
        link.drops = drop;
        link.write(CLIENT, b"data");
        link.run_for(Duration::secs(10));
        assert_eq!(link.state(SERVER), TcpState::Established);
        assert_eq!(link.read(SERVER), b"data");
    }
}

/// RFC 9293, section 3.8.3 (R2): Linux sends the SYN eleven times, the SYN-ACK six times.
#[test]
fn a_peer_that_never_answers_is_given_up() {
    let mut link = Link::new(linux(), linux(), false);
    link.drops = |from, _| from == CLIENT;
    link.run_for(Duration::secs(600));
    assert_eq!((link.end(CLIENT).end(), link.sent_by(CLIENT).len()), (Some(End::TimedOut), 11));
    let mut link = Link::new(linux(), linux(), false);
    link.drops = |from, number| from == SERVER || number > 1;
    link.run_for(Duration::secs(600));
    assert_eq!((link.end(SERVER).end(), link.sent_by(SERVER).len()), (Some(End::TimedOut), 6));
}

#[test]
fn data_without_an_answer_are_given_up_after_tcp_retries2() {
    let mut link = Link::established(linux(), linux());
    link.drops = |_, _| true;
    link.write(CLIENT, b"data");
    link.run_for(Duration::secs(900));
    assert_eq!(link.state(CLIENT), TcpState::Established);
    link.run_for(Duration::secs(300));
    assert_eq!(link.end(CLIENT).end(), Some(End::TimedOut));
    assert_eq!(link.end(CLIENT).next(), Time::NEVER);
}

#[test]
fn only_an_ack_of_the_syn_is_believed_in_syn_sent() {
    let mut link = Link::new(linux(), linux(), false);
    link.drops = |_, _| true;
    let (syn, data) = (SECRETS[CLIENT].isn, next()[CLIENT]);
    // RFC 9293, section 3.10.7.3: an ACK of something else is answered with a reset.
    for wrong in [syn, data.wrapping_add(1), 77] {
        let packet = Forged { seq: 5, ack: wrong, flags: SYN | ACK, ..Forged::default() };
        let answers = link.inject(CLIENT, &packet.to(CLIENT));
        assert_eq!(answers.iter().map(|p| numbers(p)).collect::<Vec<_>>(), [(RST, wrong, 0)]);
        let reset = Forged { seq: 5, ack: wrong, flags: RST | ACK, ..Forged::default() };
        assert!(link.inject(CLIENT, &reset.to(CLIENT)).is_empty());
    }
    let blind = Forged { seq: 5, flags: RST, ..Forged::default() };
    link.inject(CLIENT, &blind.to(CLIENT));
    assert_eq!(link.state(CLIENT), TcpState::SynSent);
    let refused = Forged { ack: data, flags: RST | ACK, ..Forged::default() };
    link.inject(CLIENT, &refused.to(CLIENT));
    assert_eq!(link.end(CLIENT).end(), Some(End::Refused));
}

#[test]
fn in_syn_received_a_wrong_ack_is_answered_with_a_reset() {
    let mut link = Link::new(linux(), linux(), false);
    link.drops = |from, number| from == SERVER || number > 1;
    link.run_for(Duration::millis(15));
    let [client, server] = next();
    let stamps = [TcpOption::Timestamps { value: 60_000_000, echo: 0 }];
    let wrong =
        Forged { seq: client, ack: server + 9, flags: ACK, options: &stamps, ..Forged::default() };
    let answers = link.inject(SERVER, &wrong.to(SERVER));
    assert_eq!(answers.iter().map(|p| numbers(p)).collect::<Vec<_>>(), [(RST, server + 9, 0)]);
    assert_eq!(link.state(SERVER), TcpState::SynReceived);
}

// What the peer's SYN decides.

/// RFC 9293, section 3.7.1; RFC 6691; RFC 7323; RFC 2018: each option alone, and none.
#[test]
fn options_are_used_if_both_ends_offer_them() {
    let offers = [
        (vec![], 536),
        (vec![TcpOption::MaximumSegmentSize(1000)], 1000),
        (vec![TcpOption::MaximumSegmentSize(9000), TcpOption::SackPermitted], 1460),
        (vec![TcpOption::MaximumSegmentSize(536), TcpOption::WindowScale(3)], 536),
    ];
    for (offer, segment) in offers {
        let (mut server, syn_ack) = accepted(&offer);
        assert_eq!(server.state(), TcpState::Established);
        let answered: Vec<_> = parse(&syn_ack).unwrap().options().flatten().collect();
        let permits = |list: &[TcpOption<'_>]| list.contains(&TcpOption::SackPermitted);
        let stamped =
            |list: &[TcpOption<'_>]| list.iter().any(|o| matches!(o, TcpOption::Timestamps { .. }));
        assert_eq!(permits(&answered), permits(&offer));
        assert_eq!(stamped(&answered), stamped(&offer));
        assert_eq!(mss_of(&syn_ack), Some(1460));
        server.write(Time::ZERO + Duration::millis(30), &[1; 5000]);
        let data = server.outgoing().unwrap();
        assert_eq!(parse(&data).unwrap().payload_len, segment, "{offer:?}");
        // Without scaling the window field is the window, up to its largest value.
        let scaled = offer.iter().any(|o| matches!(o, TcpOption::WindowScale(_)));
        assert_eq!(parse(&data).unwrap().window < u16::MAX, scaled);
    }
}

/// The largest segment leaves room for the options that are used.
#[test]
fn timestamps_take_their_room_from_the_payload() {
    let mut link = Link::established(linux(), linux());
    link.write(CLIENT, &[1; 5000]);
    link.run_for(Duration::secs(1));
    let largest = link.sent_by(CLIENT).iter().map(Vec::len).max();
    assert_eq!(largest, Some(1500));
    assert_eq!(link.end(CLIENT).segment(), 1448);
    assert_eq!(link.read(SERVER).len(), 5000);
}

#[test]
fn profiles_without_options_interoperate_with_those_that_have_them() {
    for (a, b) in [(ProfileName::Ns235, ProfileName::Linux), (ProfileName::Linux, ProfileName::Rfc)]
    {
        for (client, server) in [(a, b), (b, a)] {
            let mut link = Link::new(settings("cubic", client), settings("reno", server), false);
            link.faults = Faults { loss: 0.05, seed: 3, ..Faults::NONE };
            let bytes: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
            link.write(CLIENT, &bytes);
            let mut read = Vec::new();
            while read.len() < bytes.len() {
                link.run_for(Duration::millis(50));
                read.extend(link.read(SERVER));
                assert!(link.now < Time::ZERO + Duration::secs(60), "{client:?} {server:?}");
            }
            assert!(read == bytes, "{client:?} {server:?}");
        }
    }
}

/// RFC 3168, section 6.1.1.
#[test]
fn ecn_is_used_if_both_ends_ask_for_it() {
    let ecn = || {
        let mut settings = linux();
        settings.profile.ecn = true;
        settings
    };
    for (client, server, used) in
        [(ecn(), ecn(), true), (ecn(), linux(), false), (linux(), ecn(), false)]
    {
        let mut link = Link::established(client, server);
        link.write(CLIENT, &[1; 3000]);
        link.run_for(Duration::secs(1));
        let mut sent = link.sent_by(CLIENT);
        sent.retain(|p| parse(p).unwrap().payload_len > 0);
        assert!(sent.iter().all(|p| (parse(p).unwrap().addressing.traffic_class == 2) == used));
    }
}

// RFC 9293, section 3.6: closing.

#[test]
fn fins_that_cross_lead_both_ends_to_time_wait() {
    let mut link = Link::established(linux(), linux());
    link.close(CLIENT);
    link.close(SERVER);
    link.run_for(Duration::millis(15));
    assert_eq!((link.state(CLIENT), link.state(SERVER)), (TcpState::Closing, TcpState::Closing));
    link.run_for(Duration::secs(1));
    assert_eq!((link.state(CLIENT), link.state(SERVER)), (TcpState::TimeWait, TcpState::TimeWait));
    link.run_for(Duration::secs(60));
    assert_eq!([CLIENT, SERVER].map(|i| link.end(i).end()), [Some(End::Closed); 2]);
}

#[test]
fn states_have_the_names_of_the_rfc() {
    let mut link = Link::established(linux(), linux());
    link.close(CLIENT);
    assert_eq!(link.state(CLIENT), TcpState::FinWait1);
    link.run_for(Duration::secs(1));
    assert_eq!((link.state(CLIENT), link.state(SERVER)), (TcpState::FinWait2, TcpState::CloseWait));
    link.close(SERVER);
    assert_eq!(link.state(SERVER), TcpState::LastAck);
    link.run_for(Duration::secs(1));
    assert_eq!((link.state(CLIENT), link.state(SERVER)), (TcpState::TimeWait, TcpState::Closed));
}

/// Section 3.10.7.4: a repeated FIN is acknowledged again; RFC 1337: a reset changes nothing.
#[test]
fn time_wait_answers_fins_and_ignores_resets() {
    let mut link = Link::established(linux(), linux());
    link.close(CLIENT);
    link.run_for(Duration::secs(1));
    link.close(SERVER);
    link.run_for(Duration::secs(1));
    let fin = link.sent_by(SERVER).into_iter().find(|p| numbers(p).0 & FIN != 0).unwrap();
    let [client, server] = next();
    link.run_for(Duration::secs(50));
    let answers = link.inject(CLIENT, &fin);
    assert_eq!(numbers(&answers[0]), (ACK, client + 1, server + 1));
    let reset = Forged { seq: server + 1, flags: RST, ..Forged::default() };
    link.inject(CLIENT, &reset.to(CLIENT));
    // It waits for 60 s again.
    link.run_for(Duration::secs(50));
    assert_eq!(link.state(CLIENT), TcpState::TimeWait);
    link.run_for(Duration::secs(10));
    assert_eq!(link.state(CLIENT), TcpState::Closed);
}

#[test]
fn an_aborted_connection_resets_the_peer() {
    let mut link = Link::established(linux(), linux());
    link.write(CLIENT, &[1; 100]);
    let now = link.now;
    link.end(CLIENT).abort(now);
    link.run_for(Duration::secs(1));
    assert_eq!(link.end(CLIENT).end(), Some(End::Aborted));
    assert_eq!(link.end(SERVER).end(), Some(End::Reset));
}

// RFC 9293, section 3.8.6: the window.

/// A reader that does not read closes the window; probes find out when it opens again, even if the
/// window update is lost.
#[test]
fn a_closed_window_is_probed_until_it_opens() {
    for profile in [ProfileName::Linux, ProfileName::Rfc] {
        let small = || {
            let mut settings = settings("cubic", profile);
            settings.receive_buffer = 10_000;
            settings
        };
        let mut link = Link::established(small(), small());
        link.write(CLIENT, &[5; 30_000]);
        link.run_for(Duration::secs(100));
        assert!((9000..=10_000).contains(&link.end(SERVER).readable()));
        assert_eq!(parse(link.sent_by(SERVER).last().unwrap()).unwrap().window, 0);
        assert!(link.end(CLIENT).sender_counters().probes > 3);
        link.drops = |from, _| from == SERVER;
        let first = link.read(SERVER).len();
        link.run_for(Duration::millis(100));
        link.drops = |_, _| false;
        let mut total = first;
        for _ in 0..20 {
            link.run_for(Duration::secs(100));
            total += link.read(SERVER).len();
        }
        assert_eq!(total, 30_000, "{profile:?}");
    }
}

/// The right edge never moves back (section 3.8.6), and no more is sent than fits.
#[test]
fn no_byte_is_sent_beyond_the_window() {
    let mut small = linux();
    small.receive_buffer = 5000;
    let mut link = Link::established(linux(), small);
    link.write(CLIENT, &[5; 100_000]);
    let mut edge = 0;
    for _ in 0..2000 {
        link.run_for(Duration::millis(7));
        link.read(SERVER);
    }
    let isn = [CLIENT, SERVER].map(|i| next()[i]);
    for (_, from, packet) in &link.passed {
        let tcp = parse(packet).unwrap();
        if tcp.flag_bits & SYN != 0 {
            continue;
        }
        if *from == SERVER {
            let right = tcp.ack.wrapping_sub(isn[CLIENT]) + u32::from(tcp.window);
            assert!(right >= edge);
            edge = right;
        } else if edge > 0 {
            let end = tcp.seq.wrapping_sub(isn[CLIENT]) + tcp.payload_len;
            assert!(end <= edge, "{end} {edge}");
        }
    }
}

// RFC 5961: blind attacks.

/// Sections 3.2, 4.2 and 5.2: resets, SYNs and data of somebody who does not see the connection
/// neither end nor change it.
#[test]
fn blind_resets_syns_and_data_change_nothing() {
    let mut link = Link::established(linux(), linux());
    let [client, server] = next();
    let attacks = [
        // A reset within the window is challenged, one outside is ignored.
        (Forged { seq: client + 1, flags: RST, ..Forged::default() }, true),
        (Forged { seq: client.wrapping_sub(1), flags: RST, ..Forged::default() }, false),
        (Forged { seq: client.wrapping_add(1 << 30), flags: RST, ..Forged::default() }, false),
        // SYNs are challenged, whatever their number is.
        (Forged { seq: client, flags: SYN, ..Forged::default() }, true),
        (Forged { seq: 7, flags: SYN, ..Forged::default() }, true),
        (Forged { seq: client, ack: server, flags: SYN | ACK, ..Forged::default() }, true),
    ];
    for (forged, challenged) in attacks {
        link.run_for(Duration::secs(1));
        let answers = link.inject(SERVER, &forged.to(SERVER));
        assert_eq!(answers.len(), usize::from(challenged), "{:x} {}", forged.flags, forged.seq);
        answers.iter().for_each(|p| assert_eq!(numbers(p), (ACK, server, client)));
    }
    let now = [TcpOption::Timestamps { value: 900_000_000, echo: 0 }];
    let data =
        |seq, ack, options| Forged { seq, ack, flags: ACK, options, payload: b"evil", window: 0 };
    for forged in [
        // Without a timestamp, outside of the window, with an ACK number of data never sent or
        // older than the largest window; a window of 0 in them does not stop the sender.
        data(client, server, &[]),
        data(client.wrapping_sub(5), server, &now),
        data(client.wrapping_add(1 << 30), server, &now),
        data(client, server + 1, &now),
        data(client, server.wrapping_sub(1 << 30), &now),
    ] {
        link.run_for(Duration::secs(1));
        link.inject(SERVER, &forged.to(SERVER));
        assert_eq!(link.end(SERVER).readable(), 0);
    }
    link.write(CLIENT, b"from the client");
    link.write(SERVER, b"from the server");
    link.run_for(Duration::secs(1));
    assert_eq!(link.read(SERVER), b"from the client");
    assert_eq!(link.read(CLIENT), b"from the server");
    assert_eq!(
        (link.state(CLIENT), link.state(SERVER)),
        (TcpState::Established, TcpState::Established)
    );
}

/// Section 7: challenge ACKs are limited, so that nobody can make an end send many of them.
#[test]
fn challenge_acks_are_limited() {
    let mut link = Link::established(linux(), linux());
    let reset = Forged { seq: next()[CLIENT] + 1, flags: RST, ..Forged::default() }.to(SERVER);
    let mut answers = 0;
    for _ in 0..1000 {
        link.run_for(Duration::millis(1));
        answers += link.inject(SERVER, &reset).len();
    }
    assert!(answers <= 2, "{answers}");
}

/// Section 3.2: the real peer's reset ends the connection.
#[test]
fn a_reset_with_the_next_number_ends_the_connection() {
    let mut link = Link::established(linux(), linux());
    let reset = Forged { seq: next()[CLIENT], flags: RST, ..Forged::default() };
    link.inject(SERVER, &reset.to(SERVER));
    assert_eq!(link.end(SERVER).end(), Some(End::Reset));
    assert_eq!(link.end(SERVER).next(), Time::NEVER);
}

#[test]
fn packets_with_wrong_checksums_or_lengths_are_ignored() {
    let mut link = Link::established(linux(), linux());
    let reset = Forged { seq: next()[CLIENT], flags: RST, ..Forged::default() }.to(SERVER);
    for at in 0..reset.len() {
        let mut damaged = reset.clone();
        damaged[at] ^= 0x10;
        link.inject(SERVER, &damaged);
        link.inject(SERVER, &reset[..at]);
    }
    assert_eq!(link.state(SERVER), TcpState::Established);
}

// RFC 7323, section 5: PAWS.

#[test]
fn a_segment_with_an_old_timestamp_is_discarded_and_answered() {
    let mut link = Link::established(linux(), linux());
    link.run_for(Duration::secs(10));
    link.write(CLIENT, b"first");
    link.run_for(Duration::secs(1));
    let [client, server] = next();
    let value = parse(link.sent_by(CLIENT).last().unwrap()).unwrap().timestamps().unwrap().0;
    let stamps = [5_000_000, 2, 1]
        .map(|age| [TcpOption::Timestamps { value: value.wrapping_sub(age), echo: 0 }]);
    let data = |options| Forged {
        seq: client + 5,
        ack: server,
        flags: ACK,
        options,
        payload: b"again",
        window: 900,
    };
    assert_eq!(link.read(SERVER), b"first");
    // A tick of the peer's clock is forgiven, whatever that is (`TCP_PAWS_WINDOW`).
    for options in &stamps[..2] {
        let answers = link.inject(SERVER, &data(options).to(SERVER));
        let answers: Vec<_> = answers.iter().map(|p| numbers(p)).collect();
        assert_eq!(answers, [(ACK, server, client + 5)], "{options:?}");
        assert_eq!(link.read(SERVER), b"");
    }
    link.inject(SERVER, &data(&stamps[2]).to(SERVER));
    assert_eq!(link.read(SERVER), b"again");
}

// RFC 1191, RFC 5927: ICMP errors.

#[test]
fn a_path_with_a_smaller_mtu_gets_smaller_packets() {
    let mut link = Link::established(linux(), linux());
    link.drops = |from, number| from == CLIENT && (3..=6).contains(&number);
    let bytes: Vec<u8> = (0..50_000).map(|i| (i % 251) as u8).collect();
    link.write(CLIENT, &bytes);
    link.step(Time::NEVER);
    let large = link.sent_by(CLIENT).into_iter().find(|p| p.len() == 1500).unwrap();
    let TooLarge::Error(error) = too_large(&large, 1000) else { panic!("no error") };
    // One about a segment that is not in flight is not believed.
    let mut forged = icmp_error(&error).unwrap();
    forged.seq = forged.seq.wrapping_sub(1 << 20);
    link.end(CLIENT).icmp(Time::ZERO, &forged);
    assert_eq!(link.end(CLIENT).counters().icmp, 0);
    let now = link.now;
    link.end(CLIENT).icmp(now, &icmp_error(&error).unwrap());
    let before = link.passed.len();
    link.run_for(Duration::secs(20));
    let later = link.passed.iter().skip(before).filter(|p| p.1 == CLIENT);
    assert_eq!(later.map(|p| p.2.len()).max(), Some(1000));
    assert!(link.read(SERVER) == bytes);
}

/// RFC 5927, section 5.2: an error ends an attempt to connect, never a connection.
#[test]
fn unreachable_ends_only_an_attempt_to_connect() {
    use lasthop_wire::{IcmpError, Problem};
    let error = |seq, hard| IcmpError {
        problem: Problem::Unreachable { hard },
        source: address(CLIENT, false),
        destination: address(SERVER, false),
        seq,
    };
    let mut link = Link::new(linux(), linux(), false);
    link.end(CLIENT).icmp(Time::ZERO, &error(SECRETS[CLIENT].isn.wrapping_add(9), true));
    link.end(CLIENT).icmp(Time::ZERO, &error(SECRETS[CLIENT].isn, false));
    assert_eq!(link.state(CLIENT), TcpState::SynSent);
    link.end(CLIENT).icmp(Time::ZERO, &error(SECRETS[CLIENT].isn, true));
    assert_eq!(link.end(CLIENT).end(), Some(End::Unreachable));
    let mut link = Link::established(linux(), linux());
    link.write(CLIENT, b"data");
    link.end(CLIENT).icmp(Time::ZERO, &error(next()[CLIENT], true));
    assert_eq!((link.state(CLIENT), link.end(CLIENT).counters().icmp), (TcpState::Established, 1));
}

// RFC 9293, section 3.8.4: keep-alive.

#[test]
fn an_idle_connection_is_probed_and_a_dead_peer_given_up() {
    let mut client = linux();
    let secs = Duration::secs;
    client.keep_alive = Some(KeepAlive { idle: secs(100), interval: secs(10), probes: 3 });
    let mut link = Link::established(client, linux());
    link.run_for(secs(1000));
    let probes = link.sent_by(CLIENT).len() - 2;
    assert!((9..=10).contains(&probes), "{probes}");
    assert_eq!(link.state(CLIENT), TcpState::Established);
    link.drops = |_, _| true;
    link.run_for(secs(300));
    assert_eq!(link.end(CLIENT).end(), Some(End::TimedOut));
}

/// RFC 9293, section 3.8.6.3: a response to a request carries its ACK.
#[test]
fn answers_carry_the_ack_of_what_they_answer() {
    let mut link =
        Link::established(settings("reno", ProfileName::Rfc), settings("reno", ProfileName::Rfc));
    link.write(CLIENT, b"request");
    let before = link.sent_by(SERVER).len();
    link.run_for(Duration::millis(15));
    link.write(SERVER, b"answer");
    link.run_for(Duration::millis(15));
    let sent = link.sent_by(SERVER);
    assert_eq!(sent.len() - before, 1);
    assert_eq!(
        numbers(sent.last().unwrap()),
        (ACK, next()[SERVER], next()[CLIENT].wrapping_add(7))
    );
}
