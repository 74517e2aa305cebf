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
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (wired, hop, secs, nf, window, q, loss): (u64, u64, u64, usize, f64, u64, f64) =
        match a[1].as_str() {
            "1" => (10, 2, 2000, 1, 100., 149, 0.),
            "2" => (10, 2, 2000, 1, 100., 149, 0.01),
            "5" => (10, 11, 2000, 1, 100., 149, 0.),
            "3" => (1000, 100, 100, 1, 1100., 1499, 0.),
            _ => (1000, 100, 100, 100, 100., 999, 0.),
        };
    let mult: u64 = a.get(2).map_or(1, |s| s.parse().unwrap());
    let scheme = a.get(3).map_or("reno", String::as_str);
    let profile = match a.get(4).map(String::as_str) {
        Some("linux") => ProfileName::Linux,
        Some("rfc") => ProfileName::Rfc,
        _ => ProfileName::Ns235,
    };
    let link = |name: &str, from, to, r: u64, q: u64, loss: LossConfig| Link {
        name: name.into(),
        from,
        to,
        radio: name == "radio",
        overhead: 0,
        queue: QueueConfig::drop_tail(QueueLimit::Packets(q)),
        rate: RateConfig::Constant(Rate(r * 1_000_000)),
        trace: None,
        delay: DelayConfig::constant(Duration::millis(20)),
        loss,
        outages: vec![],
        arq: None,
        cell: None,
    };
    let l = if loss > 0. {
        LossConfig::Uniform {
            rate: Share(loss),
            index: DrawIndex::Frame,
            slot: Duration::millis(1),
        }
    } else {
        LossConfig::None
    };
    let flows = (0..nf)
        .map(|i| Flow {
            name: format!("f{i}"),
            group: "f0".into(),
            role: Default::default(),
            from: 0,
            to: 2,
            app: App::Bulk,
            start: Duration::millis(10 * i as u64),
            stop: None,
            segment: 1000,
            headers: 40,
            receive_window: Size::Segments(window),
            profile: Profile::named(profile),
            scheme: SchemeChoice::parse(scheme).unwrap(),
            loss: LossConfig::None,
            ack_loss: LossConfig::None,
            is_arrival: false,
        })
        .collect();
    let in_cell = |from, to, l: Link| {
        if a[1] == "5" {
            Link { overhead: 36, cell: Some(Place { cell: 0, from, to }), ..l }
        } else {
            l
        }
    };
    let station = |node, q| StationConfig {
        node,
        queue: QueueConfig::drop_tail(QueueLimit::Packets(q)),
        overhead: 0,
        down: LossConfig::None,
        up: LossConfig::None,
        outages: vec![],
    };
    let cell = Cell {
        name: "wlan".into(),
        mac: Mac::named(MacName::Dot11b),
        stations: vec![station(1, q), station(2, q)],
    };
    let n = Network {
        title: "speed".into(),
        duration: Duration::secs(secs * mult),
        measure_from: Duration::ZERO,
        nodes: [("fh", Role::Server), ("bs", Role::BaseStation), ("mh", Role::Station)]
            .map(|(n, role)| Node { name: n.into(), role })
            .to_vec(),
        cells: if a[1] == "5" { vec![cell] } else { vec![] },
        sessions: vec![],
        handovers: vec![],
        links: vec![
            link("wired", 0, 1, wired, 99999, LossConfig::None),
            link("wired", 1, 0, wired, 99999, LossConfig::None),
            in_cell(0, 1, link("radio", 1, 2, hop, q, l)),
            in_cell(1, 0, link("radio", 2, 1, hop, 99999, LossConfig::None)),
        ],
        next_hop: vec![
            vec![None, Some(0), Some(0)],
            vec![Some(1), None, Some(2)],
            vec![Some(3), Some(3), None],
        ],
        flows,
        assumed: vec![],
    };
    let t = std::time::Instant::now();
    let r = lasthop_sim::run(&n, 1, (), &AtomicBool::new(false)).unwrap();
    let s = t.elapsed().as_secs_f64();
    let d: u64 = r.flows.iter().map(|f| f.delivered_bytes / 1000).sum();
    println!(
        "{d} packets {:.3} s {:.1} ns/packet {:.2} M/s retx {} to {}",
        s,
        s * 1e9 / d as f64,
        d as f64 / s / 1e6,
        r.flows[0].retransmissions.total,
        r.flows[0].timeouts.total
    );
}
