//! Measures the four cases of the speed comparison, and a fifth whose last hop is an 802.11b cell,
//! without start-up: `cargo run --release --example speed CASE [FACTOR [SCHEME [PROFILE]]]`.

use lasthop::air::config::*;
use lasthop::link::cell::config::{Place, StationConfig};
use lasthop::link::cell::mac::{Mac, MacName};
use lasthop::queue::QueueConfig;
use lasthop::scenario::network::*;
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::tcp::profile::*;
use lasthop::units::*;
use std::sync::atomic::AtomicBool;

/// A case of the comparison: a wired link and a radio link.
struct Case {
    /// Rates in Mbit/s.
    wired: u64,
    radio: u64,
    seconds: u64,
    flows: usize,
    /// Receive window in segments.
    window: f64,
    /// Packets that wait at most at the radio link.
    queue: u64,
    loss: f64,
    in_cell: bool,
}

impl Case {
    fn named(name: &str) -> Case {
        let slow = Case {
            wired: 10,
            radio: 2,
            seconds: 2000,
            flows: 1,
            window: 100.0,
            queue: 149,
            loss: 0.0,
            in_cell: false,
        };
        let fast = Case { wired: 1000, radio: 100, seconds: 100, ..slow };
        match name {
            "1" => slow,
            "2" => Case { loss: 0.01, ..slow },
            "5" => Case { radio: 11, in_cell: true, ..slow },
            "3" => Case { window: 1100.0, queue: 1499, ..fast },
            _ => Case { flows: 100, queue: 999, ..fast },
        }
    }

    fn links(&self) -> Vec<Link> {
        let link = |name: &str, (from, to), mbps: u64, queue| Link {
            name: name.into(),
            from,
            to,
            radio: name == "radio",
            overhead: 0,
            queue: QueueConfig::drop_tail(QueueLimit::Packets(queue)),
            rate: RateConfig::Constant(Rate(mbps * 1_000_000)),
            trace: None,
            delay: DelayConfig::constant(Duration::millis(20)),
            loss: LossConfig::None,
            outages: vec![],
            arq: None,
            shaper: None,
            impairments: Default::default(),
            mtu: None,
            cell: None,
        };
        let in_cell = |from, to, link: Link| match self.in_cell {
            true => Link { overhead: 36, cell: Some(Place { cell: 0, from, to }), ..link },
            false => link,
        };
        let mut downlink = link("radio", (1, 2), self.radio, self.queue);
        if self.loss > 0.0 {
            downlink.loss = LossConfig::Uniform {
                rate: Share(self.loss),
                index: DrawIndex::Frame,
                slot: Duration::millis(1),
            };
        }
        vec![
            link("wired", (0, 1), self.wired, 99999),
            link("wired", (1, 0), self.wired, 99999),
            in_cell(0, 1, downlink),
            in_cell(1, 0, link("radio", (2, 1), self.radio, 99999)),
        ]
    }

    fn cells(&self) -> Vec<Cell> {
        if !self.in_cell {
            return vec![];
        }
        let station = |node| StationConfig {
            node,
            queue: QueueConfig::drop_tail(QueueLimit::Packets(self.queue)),
            overhead: 0,
            down: LossConfig::None,
            up: LossConfig::None,
            outages: vec![],
            mcs: None,
            snr_db: None,
        };
        vec![Cell {
            name: "wlan".into(),
            mac: Mac::named(MacName::Dot11b),
            busy: vec![],
            wifi: None,
            stations: vec![station(1), station(2)],
        }]
    }

    fn flow(&self, number: usize, profile: ProfileName, scheme: &str) -> Flow {
        Flow {
            name: format!("f{number}"),
            group: "f0".into(),
            role: Default::default(),
            from: 0,
            to: 2,
            app: App::Bulk,
            start: Duration::millis(10 * number as u64),
            stop: None,
            segment: 1000,
            headers: 40,
            receive_window: Size::Segments(self.window),
            profile: Profile::named(profile),
            scheme: SchemeChoice::parse(scheme).unwrap(),
            loss: LossConfig::None,
            ack_loss: LossConfig::None,
            reader: None,
            opens: Default::default(),
            misbehaviour: None,
            is_arrival: false,
            draw: None,
        }
    }

    fn network(&self, factor: u64, profile: ProfileName, scheme: &str) -> Network {
        Network {
            title: "speed".into(),
            duration: Duration::secs(self.seconds * factor),
            measure_from: Duration::ZERO,
            random_starts: Duration::ZERO,
            nodes: [("fh", Role::Server), ("bs", Role::BaseStation), ("mh", Role::Station)]
                .map(|(n, role)| Node { name: n.into(), role })
                .to_vec(),
            cells: self.cells(),
            sessions: vec![],
            handovers: vec![],
            links: self.links(),
            next_hop: vec![
                vec![None, Some(0), Some(0)],
                vec![Some(1), None, Some(2)],
                vec![Some(3), Some(3), None],
            ],
            flows: (0..self.flows).map(|i| self.flow(i, profile, scheme)).collect(),
            assumed: vec![],
        }
    }
}

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let factor = a.get(2).map_or(1, |s| s.parse().unwrap());
    let scheme = a.get(3).map_or("reno", String::as_str);
    let profile = match a.get(4).map(String::as_str) {
        Some("linux") => ProfileName::Linux,
        Some("rfc") => ProfileName::Rfc,
        _ => ProfileName::Ns235,
    };
    let network = Case::named(&a[1]).network(factor, profile, scheme);
    let start = std::time::Instant::now();
    let result = lasthop_sim::run(&network, 1, (), &AtomicBool::new(false)).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let packets: u64 = result.flows.iter().map(|f| f.delivered_bytes / 1000).sum();
    println!(
        "{packets} packets {:.3} s {:.1} ns/packet {:.2} M/s retx {} to {}",
        seconds,
        seconds * 1e9 / packets as f64,
        packets as f64 / seconds / 1e6,
        result.flows[0].retransmissions.total,
        result.flows[0].timeouts.total
    );
}
