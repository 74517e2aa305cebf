//! Prints what a packet costs in the chain, without devices and waiting: nanoseconds per packet of
//! a bulk download over a link of 10 Gbit/s and 2 ms, with and without an agent; least of nine
//! transfers.
//!
//! `cargo run --release -p lasthop-live --example packet_cost`

use std::fs::File;
use std::hint::black_box;
use std::io::{Error, Read};
use std::net::SocketAddrV4;
use std::path::Path;
use std::time::Instant;

use lasthop::scenario::network::Network;
use lasthop::scenario::{Files, Overrides, load};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::{Flags, Segment};
use lasthop::units::Time;
use lasthop_live::chain::{Chain, End, Release};
use lasthop_wire::{Endpoints, Side, render};

const SEGMENTS: u64 = 20_000;
const SEGMENT: u32 = 1448;
/// Time between segments: 9.7 Gbit/s.
const SPACING: u64 = 1_200;

struct Disk;

impl Files for Disk {
    fn open(&self, path: &Path) -> Result<Box<dyn Read>, Error> {
        Ok(Box::new(File::open(path)?))
    }
}

/// The packets of a download: its segments, and an ACK for every second of them.
struct Transfer {
    data: Vec<Vec<u8>>,
    acks: Vec<Vec<u8>>,
}

impl Transfer {
    fn new() -> Self {
        let side = |address: [u8; 4], port| Side {
            address: SocketAddrV4::new(address.into(), port),
            isn: 0,
            window_scale: 0,
        };
        let sender = side([100, 64, 0, 1], 8000);
        let receiver = side([100, 64, 0, 2], 40_000);
        let endpoints = Endpoints { sender, receiver, mss: SEGMENT as u16 };
        let data = |i: u64| Segment {
            seq: i * u64::from(SEGMENT),
            len: SEGMENT,
            window: 60_000,
            forward: true,
            flags: Flags::ACK,
            ..Segment::default()
        };
        let ack = |i: u64| Segment {
            ack: 2 * (i + 1) * u64::from(SEGMENT),
            window: 60_000,
            forward: false,
            flags: Flags::ACK,
            ..Segment::default()
        };
        Transfer {
            data: (0..SEGMENTS).map(|i| render(&data(i), &endpoints)).collect(),
            acks: (0..SEGMENTS / 2).map(|i| render(&ack(i), &endpoints)).collect(),
        }
    }

    /// Passes the packets through a chain; returns their number.
    fn through(&self, chain: &mut Chain) -> usize {
        let (mut delivered, mut returned) = (0, 0);
        let mut out: Vec<Release> = Vec::new();
        for (i, data) in self.data.iter().enumerate() {
            let now = Time(i as u64 * SPACING);
            chain.packet(now, End::Server, data, &mut out);
            let arrived = out.drain(..).filter(|r| black_box(r).end == End::Mobile).count();
            for _ in 0..arrived {
                delivered += 1;
                if delivered % 2 == 0 {
                    chain.packet(now, End::Mobile, &self.acks[returned], &mut out);
                    returned += 1;
                }
            }
        }
        self.data.len() + returned
    }
}

fn main() {
    let text = "[last_hop]\nrate = \"10 Gbps\"\nrtt = \"2 ms\"\nqueue = \"4000 packets\"\n";
    let loaded = load(text, None, &Overrides::default(), &Disk);
    let network: Network = loaded.expect("a scenario").network;
    let transfer = Transfer::new();
    for scheme in ["none", "snoop", "packet-control"] {
        let choice = (scheme != "none").then(|| SchemeChoice::parse(scheme).expect("a scheme"));
        let mut least = f64::INFINITY;
        for _ in 0..9 {
            let mut chain = Chain::new(&network, choice.as_ref(), 1).expect("a chain");
            let start = Instant::now();
            let packets = transfer.through(&mut chain);
            least = least.min(start.elapsed().as_nanos() as f64 / packets as f64);
        }
        println!("{scheme:<16}{least:.0} ns per packet");
    }
}
