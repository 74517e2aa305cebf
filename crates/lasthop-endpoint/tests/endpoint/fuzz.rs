//! Packets of somebody who does not see the connection, and packets of the peer that are changed on
//! the way: no call panics, what is delivered was sent, and the connection works afterwards.

use crate::common::{CLIENT, Link, SECRETS, SERVER, address, linux};
use etherparse::TcpHeader;
use lasthop::random;
use lasthop::units::Duration;
use lasthop_endpoint::TcpState;
use lasthop_wire::{Addressing, assemble, parse};

/// Packets of each test; `LASTHOP_FUZZ_PACKETS` says another number.
fn packets() -> u64 {
    let number = std::env::var("LASTHOP_FUZZ_PACKETS").ok();
    number.map_or(450_000, |text| text.parse().expect("a number of packets"))
}

/// Byte `i` of the client's stream.
fn byte(i: usize) -> u8 {
    ((i * 31) ^ (i >> 8)) as u8
}

struct Draws(random::Stream, u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.1 += 1;
        self.0.bits(self.1) % limit
    }

    fn bits(&mut self) -> u64 {
        self.1 += 1;
        self.0.bits(self.1)
    }
}

/// A packet with the addresses of the connection and everything else drawn, except that no number
/// is one that a blind attacker would have to guess: the sequence number is not within the window
/// of an end, or the ACK number is not of what it may acknowledge.
fn blind(draws: &mut Draws, to: usize, expected: u32, sent: u32) -> Vec<u8> {
    let is_reset = draws.below(4) == 0;
    // 64 MiB beyond what is expected, or anywhere but within 16 MiB of it.
    let away = |draws: &mut Draws, number: u32| {
        number.wrapping_add((1 << 24) + draws.below((1 << 32) - (1 << 25)) as u32)
    };
    let guesses_seq = !is_reset && draws.below(2) == 0;
    let seq = if guesses_seq {
        expected.wrapping_add(draws.below(3000) as u32)
    } else {
        away(draws, expected)
    };
    let ack = if guesses_seq { away(draws, sent) } else { draws.bits() as u32 };
    let mut tcp = TcpHeader::new(0, 0, seq, draws.bits() as u16);
    tcp.acknowledgment_number = ack;
    let flags = draws.bits();
    (tcp.fin, tcp.syn, tcp.ack) = (flags & 1 != 0, flags & 6 == 6, flags & 8 != 0);
    (tcp.psh, tcp.urg, tcp.ece, tcp.cwr) =
        (flags & 16 != 0, flags & 32 != 0, flags & 64 != 0, flags & 128 != 0);
    tcp.rst = is_reset;
    let options: Vec<u8> = match draws.below(3) {
        0 => Vec::new(),
        1 => (0..4 * draws.below(11)).map(|_| draws.bits() as u8).collect(),
        _ => {
            let value = (draws.bits() as u32).to_be_bytes();
            [&[1, 1, 8, 10][..], &value, &value].concat()
        }
    };
    tcp.set_options_raw(&options).unwrap_or_default();
    let payload = vec![0xee; draws.below(3) as usize * 700];
    let addressing = Addressing {
        source: address(1 - to, false),
        destination: address(to, false),
        hop_limit: 64,
        traffic_class: draws.bits() as u8,
        flow_label: 0,
    };
    assemble(&addressing, &tcp, &payload)
}

/// The next sequence number of each end, from the last packet that it has sent.
fn sequence_numbers(link: &Link) -> [u32; 2] {
    [CLIENT, SERVER].map(|end| {
        let last = link.passed.iter().rev().find(|p| p.1 == end).unwrap();
        let tcp = parse(&last.2).unwrap();
        tcp.seq.wrapping_add(tcp.payload_len)
    })
}

/// A transfer goes on while blind packets arrive at both ends, in batches.
#[test]
fn blind_packets_neither_end_nor_change_a_connection() {
    let mut link = Link::established(linux(), linux());
    let mut draws = Draws(random::Stream::new(1, "blind"), 0);
    let (mut written, mut read) = (0, 0);
    for round in 0..packets() / 1000 {
        let bytes: Vec<u8> = (written..written + 5000).map(byte).collect();
        written += link.write(CLIENT, &bytes);
        link.run_for(Duration::millis(draws.below(40)));
        let next = sequence_numbers(&link);
        for _ in 0..500 {
            for to in [CLIENT, SERVER] {
                let packet = blind(&mut draws, to, next[1 - to], next[to]);
                let now = link.now;
                link.end(to).packet(now, &packet);
            }
        }
        link.run_for(Duration::millis(100));
        for got in link.read(SERVER) {
            assert_eq!(got, byte(read), "byte {read}, round {round}");
            read += 1;
        }
        assert_eq!(link.end(CLIENT).readable(), 0);
        link.passed.drain(..link.passed.len().saturating_sub(200));
    }
    link.run_for(Duration::secs(5));
    read += link.read(SERVER).len();
    assert_eq!(
        (read, link.state(CLIENT), link.state(SERVER)),
        (written, TcpState::Established, TcpState::Established)
    );
}

/// Real packets with changed bytes, whose checksums are right again, at any time of a connection:
/// whatever becomes of it, nothing panics and timers come to an end.
#[test]
fn changed_packets_do_not_panic() {
    let mut draws = Draws(random::Stream::new(2, "changed"), 0);
    let (mut sent, all) = (0, packets());
    while sent < all {
        let mut link = Link::new(linux(), linux(), false);
        let mut stored: Vec<(usize, Vec<u8>)> = Vec::new();
        for _ in 0..60 {
            for end in [CLIENT, SERVER] {
                if link.ends[end].is_some() {
                    link.write(end, &[1; 3000]);
                    link.read(end);
                    if draws.below(40) == 0 {
                        link.close(end);
                    }
                }
            }
            link.run_for(Duration::millis(draws.below(30)));
            stored.extend(link.passed.drain(..).map(|(_, from, packet)| (1 - from, packet)));
            for _ in 0..20 {
                let (to, packet) = &stored[draws.below(stored.len() as u64) as usize];
                if link.ends[*to].is_some() {
                    let changed = change(&mut draws, packet);
                    let now = link.now;
                    link.end(*to).packet(now, &changed);
                    sent += 1;
                }
            }
        }
        link.passed.clear();
    }
}

/// A copy with a few changed bytes of the TCP header, and valid checksums.
fn change(draws: &mut Draws, packet: &[u8]) -> Vec<u8> {
    let Ok(tcp) = parse(packet) else { return packet.to_vec() };
    let Ok((mut header, _)) = TcpHeader::from_slice(&packet[tcp.tcp_at..]) else {
        return packet.to_vec();
    };
    let mut payload = tcp.payload.to_vec();
    for _ in 0..=draws.below(3) {
        let near = draws.below(5000) as u32;
        match draws.below(9) {
            0 => {
                header.sequence_number =
                    header.sequence_number.wrapping_add(near).wrapping_sub(2500)
            }
            1 => {
                header.acknowledgment_number =
                    header.acknowledgment_number.wrapping_add(near).wrapping_sub(2500)
            }
            2 => header.sequence_number = draws.bits() as u32,
            3 => header.acknowledgment_number = draws.bits() as u32,
            4 => header.window_size = draws.bits() as u16,
            5 => header.fin ^= true,
            6 => match draws.below(30) {
                0 => header.rst ^= true,
                1 => header.syn ^= true,
                _ => header.ack ^= true,
            },
            7 => payload = vec![3; draws.below(4000) as usize],
            _ => {
                let mut options: Vec<u8> = header.options.to_vec();
                let count = options.len() as u64;
                if count > 0 {
                    options[draws.below(count) as usize] = draws.bits() as u8;
                } else {
                    options = (0..8).map(|_| draws.bits() as u8).collect();
                }
                header.set_options_raw(&options).unwrap_or_default();
            }
        }
    }
    assemble(&tcp.addressing, &header, &payload)
}

/// Arbitrary bytes, and pieces of packets.
#[test]
fn arbitrary_bytes_are_ignored() {
    let mut link = Link::established(linux(), linux());
    let mut draws = Draws(random::Stream::new(3, "arbitrary"), 0);
    let real = link.sent_by(CLIENT).last().unwrap().clone();
    let all = packets() / 3;
    for _ in 0..all {
        let mut packet: Vec<u8> = (0..draws.below(80)).map(|_| draws.bits() as u8).collect();
        if draws.below(2) == 0 {
            packet = real.clone();
            packet.truncate(draws.below(real.len() as u64) as usize);
        } else if let Some(first) = packet.first_mut() {
            *first = if draws.below(2) == 0 { 0x45 } else { 0x60 };
        }
        let now = link.now;
        link.end(SERVER).packet(now, &packet);
    }
    assert_eq!(link.end(SERVER).counters().invalid, all);
    assert_eq!((link.state(SERVER), SECRETS.len()), (TcpState::Established, 2));
}
