//! Packets of scripts as bytes, and back.

use std::collections::HashMap;
use std::net::SocketAddr;

use etherparse::TcpHeader;
use lasthop::segment::Flags;
use lasthop_wire::options::TcpOption;
use lasthop_wire::{Addressing, TcpPacket, assemble};

use super::language::Packet;

/// Initial sequence number of the peer whose part the script has.
const PEER: u32 = 0xffff_fc00;

/// The numbers of a connection: scripts count from the initial ones.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Initial sequence number of the host.
    pub host: u32,
    /// Timestamps of the host, by those of the script.
    stamps: HashMap<u32, u32>,
    /// The last one, and the last window.
    last_stamp: u32,
    window: u16,
}

impl Numbers {
    /// The bytes of a packet that the script sends.
    pub fn packet(&mut self, packet: &Packet, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
        self.window = packet.window.map_or(self.window, |window| window as u16);
        let seq = PEER.wrapping_add(packet.seq as u32);
        let mut tcp = TcpHeader::new(from.port(), to.port(), seq, self.window);
        tcp.acknowledgment_number = self.host.wrapping_add(packet.ack.unwrap_or(0) as u32);
        (tcp.syn, tcp.fin, tcp.rst) = (packet.has('S'), packet.has('F'), packet.has('R'));
        (tcp.ack, tcp.psh) = (packet.has('.'), packet.has('P'));
        (tcp.ece, tcp.cwr) = (packet.has('E'), packet.has('W'));
        tcp.set_options_raw(&self.options(packet)).expect("options fit");
        let addressing = Addressing {
            source: from,
            destination: to,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        };
        assemble(&addressing, &tcp, &vec![0; packet.len as usize])
    }

    fn options(&self, packet: &Packet) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(mss) = packet.option("mss") {
            bytes.extend([2, 4]);
            bytes.extend((mss as u16).to_be_bytes());
        }
        if let Some(shift) = packet.option("wscale") {
            bytes.extend([3, 3, shift as u8]);
        }
        if packet.options.contains("sackOK") {
            bytes.extend([4, 2]);
        }
        if let Some((value, echo)) = packet.stamps() {
            // A script echoes what the host has sent in it.
            let echo = match echo {
                0 => 0,
                echo => self.stamps.get(&echo).copied().unwrap_or(self.last_stamp),
            };
            bytes.extend([8, 10]);
            bytes.extend(value.to_be_bytes());
            bytes.extend(echo.to_be_bytes());
        }
        let blocks = packet.sack();
        if !blocks.is_empty() {
            bytes.extend([5, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                for number in [start, end] {
                    bytes.extend(self.host.wrapping_add(number as u32).to_be_bytes());
                }
            }
        }
        bytes.resize(bytes.len().next_multiple_of(4), 1);
        bytes
    }

    /// What of a packet of the host is not as the script expects; sequence number and length of
    /// data are compared elsewhere.
    pub fn differs(&mut self, expected: &Packet, sent: &TcpPacket<'_>) -> Option<String> {
        let flags = sent.flags();
        if expected.has('S') {
            self.host = sent.seq;
        }
        let letters = [
            ('S', Flags::SYN),
            ('F', Flags::FIN),
            ('R', Flags::RST),
            ('.', Flags::ACK),
            ('E', Flags::ECE),
            ('W', Flags::CWR),
        ];
        let found: String = letters.iter().filter(|l| flags.has(l.1)).map(|l| l.0).collect();
        if letters.iter().any(|l| flags.has(l.1) != expected.has(l.0)) {
            return Some(format!("flags {found}"));
        }
        if let Some(ack) = expected.ack.filter(|_| expected.has('.')) {
            let number = sent.ack.wrapping_sub(PEER);
            if number != ack as u32 {
                return Some(format!("ack {number}"));
            }
        }
        if expected.window == Some(0) && sent.window != 0 {
            return Some(format!("win {}", sent.window));
        }
        self.options_differ(expected, sent)
    }

    fn options_differ(&mut self, expected: &Packet, sent: &TcpPacket<'_>) -> Option<String> {
        let stamps = sent.timestamps();
        if let Some((value, _)) = stamps {
            self.last_stamp = value;
        }
        if expected.options.contains("...") {
            return None;
        }
        if let (Some((value, echo)), Some((sent_value, sent_echo))) = (expected.stamps(), stamps) {
            self.stamps.insert(value, sent_value);
            if echo != sent_echo {
                return Some(format!("TS ecr {sent_echo}"));
            }
        }
        if expected.stamps().is_some() != stamps.is_some() {
            return Some(format!("timestamps {stamps:?}"));
        }
        let (mut mss, mut permits, mut blocks) = (None, false, Vec::new());
        for option in sent.options().map_while(Result::ok) {
            match option {
                TcpOption::MaximumSegmentSize(size) => mss = Some(u32::from(size)),
                TcpOption::SackPermitted => permits = true,
                TcpOption::Sack(found) => {
                    let number = |n: u32| u64::from(n.wrapping_sub(PEER));
                    blocks.extend(found.as_slice().iter().map(|b| (number(b.0), number(b.1))));
                }
                _ => {}
            }
        }
        if mss != expected.option("mss") || permits != expected.options.contains("sackOK") {
            return Some(format!("mss {mss:?}, sackOK {permits}"));
        }
        (blocks != expected.sack()).then(|| format!("sack {blocks:?}"))
    }
}
