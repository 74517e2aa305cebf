//! The airtime queue limit, and other networks on the medium.

use super::{Bench, assert_within, mac, station, wifi};
use crate::air::config::{OutageConfig, OutageRule};
use crate::link::cell::aggregation::AggregatingCell;
use crate::link::cell::config::CellConfig;
use crate::link::cell::phy::Generation;
use crate::link::cell::wifi::Wifi;
use lasthop_core::units::{Duration, Time};

fn limited(limit: Duration) -> Bench {
    let wifi = Wifi { airtime_queue_limit: limit, ..wifi(Generation::Ht) };
    Bench::new(mac(), wifi, vec![station(0), station(1)], 1538)
}

#[test]
fn packets_leave_the_queue_as_far_as_their_air_time_allows() {
    // One packet of 1538 bytes at 65 Mbit/s takes 189.3 µs, and 1/16 of an overhead of 40 µs: the
    // kernel assumes 16 packets where 1024 bytes take 126 µs.
    let packet = 1538.0 * 8.0 / 65.0 + 40.0 / 16.0;
    for (ms, limit) in [(5, 12_000.0), (12, 12_000.0), (40, 40_000.0)] {
        let mut b = limited(Duration::millis(ms));
        (0..400).for_each(|_| b.offer(Time::ZERO, 1));
        let most = f64::ceil(limit / packet) as u64;
        assert_eq!(400 - b.cell.queue(1).0, most, "{ms} ms");
        while b.cell.queue(1).0 > 0 {
            b.step();
            let out = b.cell.stations[1].sessions[0].pending.packets;
            assert!(out <= most, "{ms} ms: {out}");
        }
        b.run();
        assert_eq!(b.delivered.len(), 400);
        let pending = b.cell.stations[1].sessions[0].pending;
        assert_eq!((pending.packets, pending.bytes), (0, 0));
    }
}

#[test]
fn an_airtime_queue_limit_costs_no_throughput() {
    let throughput = |limit| limited(limit).saturated(1, 200, 1472, 4);
    let free = throughput(Duration::ZERO);
    assert_within(throughput(Duration::millis(5)), free, 0.001, "5 ms");
}

#[test]
fn other_networks_take_their_spans_and_nothing_is_sent_in_them() {
    let wifi = wifi(Generation::Ht);
    let clean = Bench::new(mac(), wifi.clone(), vec![station(0), station(1)], 1538)
        .saturated(1, 200, 1472, 4);
    let mut b = Bench::new(mac(), wifi.clone(), vec![station(0), station(1)], 1538);
    let span = |k: u64| OutageConfig {
        from: Duration::millis(100 * k),
        length: Duration::millis(40),
        frames: OutageRule::Held,
    };
    let config = CellConfig {
        name: "cell".into(),
        mac: mac(),
        wifi: Some(wifi),
        busy: (0..50).map(span).collect(),
        stations: vec![station(0), station(1)],
    };
    let names = ["s0".to_string(), "s1".to_string()];
    b.cell = AggregatingCell::new(&config, &names, 1, 1460).unwrap().unwrap();
    let shared = b.saturated(1, 200, 1472, 4);
    // An exchange that is going on shortens a span: by half of 5.5 ms on average.
    assert!((0.60..0.64).contains(&(shared / clean)), "{shared} of {clean} Mbit/s");
    let others = b.cell.air_time.others.as_secs();
    assert!((4.2 * 0.355..4.2 * 0.40).contains(&others), "{others} s");
    // Starts lie outside of the spans.
    let starts = b.ended.iter().map(|(a, _)| a.start.0 % 100_000_000);
    assert!(starts.min() >= Some(40_000_000));
}
