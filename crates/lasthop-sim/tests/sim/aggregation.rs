//! Cells with aggregation: 802.11n, 802.11ac, 802.11ax.

use std::sync::atomic::AtomicBool;

use crate::support::cells::{AP, any_aggregating_wlan, wlan};
use crate::support::elsewhere::check_stream_elsewhere;
use crate::support::random::{Case, Conditions, cases};
use crate::support::verified::verified;
use crate::support::{flow, ms, packets, watch};
use lasthop::air::config::LossConfig;
use lasthop::link::cell::mac::{Mac, MacName};
use lasthop::link::cell::phy::Generation;
use lasthop::link::cell::wifi::{AccessCategory, Wifi};
use lasthop::scenario::network::{App, Flow, Network};
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Rate, Share, Size};
use proptest::prelude::*;

/// Downloads of `stations` stations in a cell of 802.11n at 65 Mbit/s, behind a faster link, for 4
/// s.
fn downloads(stations: u16, loss: f64) -> Network {
    let flow = |s: u16| Flow {
        from: 0,
        to: AP + 1 + s,
        receive_window: Size::Segments(10_000.0),
        ..flow("cubic", ProfileName::Linux, App::Bulk)
    };
    let flows = (0..stations).map(flow).collect();
    let mut net = wlan(Mac::named(MacName::Dot11n), stations, ms(5), flows, ms(4_000));
    net.links[0].queue = packets(1_000);
    net.links[0].rate = lasthop::air::config::RateConfig::Constant(Rate(1_000_000_000));
    let cell = &mut net.cells[0];
    cell.wifi = Some(Wifi::new(Generation::Ht, AccessCategory::BestEffort));
    for station in &mut cell.stations {
        station.queue = packets(500);
        (station.down, station.up) =
            (LossConfig::uniform(Share(loss)), LossConfig::uniform(Share(loss)));
    }
    net
}

#[test]
fn a_download_uses_most_of_the_rate_and_stations_share_it() {
    let goodput = |net: &Network| {
        let result = watch(net, 1).result;
        result.flows.iter().map(|f| f.goodput_bps / 1e6).collect::<Vec<_>>()
    };
    let alone = goodput(&downloads(1, 0.0))[0];
    assert!((35.0..60.0).contains(&alone), "{alone} Mbit/s of 65");
    let lossy = goodput(&downloads(1, 0.1))[0];
    assert!((25.0..alone).contains(&lossy), "{lossy} of {alone} Mbit/s");
    let three: f64 = goodput(&downloads(3, 0.0)).iter().sum();
    assert!((0.7 * alone..60.0).contains(&three), "{three} Mbit/s");
}

/// A station that finds the medium idle sends at the next slot boundary (IEEE 802.11-2020,
/// 10.23.2.4). With one attempt per frame and without random delays, the SYNs of two stations
/// collide again at each timeout.
#[test]
fn syns_of_the_same_instant_collide_for_ever_where_a_frame_has_one_attempt() {
    let upload = |s: u16, start: u64| Flow {
        from: AP + 1 + s,
        to: 0,
        start: ms(start),
        ..flow("reno", ProfileName::Ns230, App::Transfer { size: 20_000 })
    };
    let completed = |apart: u64| {
        let mut net = downloads(2, 0.0);
        net.flows = vec![upload(0, 219), upload(1, 219 + apart)];
        net.cells[0].mac.attempts = 1;
        net.duration = Duration::secs(10_000);
        let flows = watch(&net, 1).result.flows;
        flows.iter().filter(|f| f.completed_s.is_some()).count()
    };
    assert_eq!((completed(0), completed(1)), (0, 2));
}

proptest! {
    #![proptest_config(cases(600))]

    /// The verifier finds no violations, every bit is accounted for, and observers do not change
    /// the run.
    #[test]
    fn random_cells_with_aggregation_have_no_violations(
        Case(network) in any_aggregating_wlan(Conditions::Any),
        seed in 0u64..1000,
    ) {
        let run = verified(&network, seed)?;
        run.check()?;
        // Each window of a session.
        run.check_pool(64 * network.cells[0].stations.len() as u64)?;
        run.check_unobserved(&network, seed)?;
    }
}

proptest! {
    #![proptest_config(cases(150))]

    /// Events of a cell that are handled in one go, or one by one because others come between.
    #[test]
    fn a_cell_with_aggregation_does_not_depend_on_a_stream_elsewhere(
        Case(network) in any_aggregating_wlan(Conditions::Any),
        seed in 0u64..1000,
    ) {
        check_stream_elsewhere(&network, seed)?;
    }
}

proptest! {
    #![proptest_config(cases(100))]

    /// Every transfer completes.
    #[test]
    fn transfers_complete_over_aggregates(
        Case(network) in any_aggregating_wlan(Conditions::Passable),
        seed in 0u64..1000,
    ) {
        let result =
            lasthop_sim::run(&network, seed, (), &AtomicBool::new(false)).unwrap();
        for (flow, config) in result.flows.iter().zip(&network.flows) {
            let App::Transfer { size } = config.app else { continue };
            prop_assert_eq!(flow.delivered_bytes, size, "{:?}", flow);
        }
    }
}
