//! Networks whose last hop is a cell.

use lasthop::air::config::{LossConfig, OutageRule};
use lasthop::link::cell::config::{CellConfig, Place, StationConfig};
use lasthop::link::cell::mac::{Access, AfterCollision, Mac, MacName, Preamble, PreambleName};
use lasthop::link::cell::phy::{Generation, LEGACY_RATES, Width};
use lasthop::link::cell::wifi::{AccessCategory, RateRule, Scheduling, Wifi};
use lasthop::scenario::network::{Flow, Link, Network, Role};
use lasthop::units::{Duration, Rate, Size};
use proptest::prelude::*;

use super::random::{Case, Conditions, any_flow, any_link, loss, queue};
use super::{link, mbps, ms, network, outage, packets, scheme};

/// Node of the access point.
pub const AP: u16 = 1;

pub fn station(node: u16) -> StationConfig {
    StationConfig {
        node,
        queue: packets(49),
        overhead: 0,
        down: LossConfig::None,
        up: LossConfig::None,
        outages: vec![],
        mcs: None,
        snr_db: None,
    }
}

/// 802.11b as in the standard.
pub fn dot11b() -> Mac {
    Mac::named(MacName::Dot11b)
}

/// 802.11b as in ns-2.
pub fn ns2_mac(attempts: u32) -> Mac {
    Mac {
        attempts,
        basic_rate: Rate(11_000_000),
        overhead: Size::Bytes(34),
        access: Access::Ns2,
        after_collision: AfterCollision::Ns2,
        backoff_includes_cw: false,
        ..dot11b()
    }
}

/// Link from the access point to a station, counted from 1.
pub fn down(station: usize) -> usize {
    2 * station
}

/// Link from a station to the access point.
pub fn up(station: usize) -> usize {
    2 * station + 1
}

/// Server – 10 Mbit/s, `delay` – access point – `stations` stations, which are the nodes from
/// 2 on.
pub fn wlan(
    mac: Mac,
    stations: u16,
    delay: Duration,
    flows: Vec<Flow>,
    duration: Duration,
) -> Network {
    let wired = |a, b| Link { queue: packets(49), ..link(a, b, mbps(10.0), delay) };
    let members = (AP..=AP + stations).map(station).collect();
    let cell = CellConfig { name: "wlan".into(), mac, wifi: None, busy: vec![], stations: members };
    with_cell([wired(0, AP), wired(AP, 0)], cell, flows, duration)
}

fn with_cell(wired: [Link; 2], cell: CellConfig, flows: Vec<Flow>, duration: Duration) -> Network {
    let overhead = |s: u32| cell.mac.overhead.bytes(1) as u32 + cell.stations[s as usize].overhead;
    let stations = cell.stations.len() as u32 - 1;
    let mut links = Vec::from(wired);
    for s in 1..=stations {
        for (from, to) in [(0, s), (s, 0)] {
            let pair = link(AP + from as u16, AP + to as u16, mbps(11.0), ms(0));
            links.push(Link {
                radio: true,
                overhead: overhead(from),
                cell: Some(Place { cell: 0, from, to }),
                ..pair
            });
        }
    }
    let roles: Vec<Role> = [Role::Server, Role::BaseStation]
        .into_iter()
        .chain((0..stations).map(|_| Role::Station))
        .collect();
    Network { cells: vec![cell], ..network(&roles, links, flows, duration) }
}

fn any_mac() -> impl Strategy<Value = Mac> {
    let access = prop_oneof![Just(Access::Idle), Just(Access::Ns2), Just(Access::Ns3)];
    let after = prop_oneof![
        Just(AfterCollision::AckTimeout),
        Just(AfterCollision::Eifs),
        Just(AfterCollision::Difs),
        Just(AfterCollision::Ns2)
    ];
    let preamble = prop_oneof![
        2 => Just(Preamble::Named(PreambleName::Long)),
        1 => Just(Preamble::Named(PreambleName::Short)),
        1 => (0u64..300).prop_map(|t| Preamble::Takes(Duration::micros(t))),
    ];
    let windows = (1u32..40, 0u32..100);
    let rates = (1_000_000u64..20_000_000, 2_000_000u64..11_000_000);
    let threshold = prop_oneof![2 => Just(2347u64), 1 => 0u64..1200];
    (access, after, preamble, windows, rates, (1u32..8, threshold, 0u64..60), any::<[bool; 4]>())
        .prop_map(
            |(
                access,
                after_collision,
                preamble,
                (cw_min, more),
                (data, basic),
                (attempts, threshold, overhead),
                b,
            )| {
                let link_acks = b[0] || b[1];
                let name = [MacName::Dot11a, MacName::Dot11g, MacName::Dot11b, MacName::Dot11b];
                let mac = name[data as usize % 4];
                let legacy = mac.has_legacy_rates().then(|| LEGACY_RATES[data as usize % 8]);
                Mac {
                    mac,
                    access,
                    after_collision,
                    preamble,
                    cw_min,
                    cw_max: cw_min + more,
                    data_rate: legacy.unwrap_or(Rate(data)),
                    basic_rate: Rate(basic),
                    attempts: if link_acks { attempts } else { 1 },
                    rts_threshold: Size::Bytes(threshold),
                    overhead: Size::Bytes(overhead),
                    link_acks,
                    delay: Duration::micros(if b[2] { overhead.min(50) } else { 0 }),
                    backoff_includes_cw: b[2],
                    ..dot11b()
                }
            },
        )
}

fn any_station(conditions: Conditions) -> impl Strategy<Value = StationConfig> {
    let rules = prop_oneof![Just(OutageRule::LostAtSending), Just(OutageRule::LostAtArrival)];
    let outages = prop::collection::vec((0u64..6000, 1u64..1500, rules), 0..2);
    (
        loss(conditions),
        loss(conditions),
        queue(),
        prop_oneof![2 => Just(0u32), 1 => Just(20)],
        prop::option::weighted(0.2, outages),
    )
        .prop_map(|(down, up, queue, overhead, outages)| {
            let outages = outages
                .unwrap_or_default()
                .into_iter()
                .map(|(from, length, rule)| outage(from, length, rule))
                .collect();
            StationConfig { node: 0, queue, overhead, down, up, outages, mcs: None, snr_db: None }
        })
}

/// Server, access point and one to three stations, with one to four flows, each up or down.
pub fn any_wlan(conditions: Conditions) -> impl Strategy<Value = Case> {
    wlan_of(conditions, || any_mac().prop_map(|mac| (mac, None)))
}

/// The same with a cell of 802.11n, 802.11ac or 802.11ax.
pub fn any_aggregating_wlan(conditions: Conditions) -> impl Strategy<Value = Case> {
    let noise = prop::option::weighted(0.3, 5.0..30.0);
    let busy = prop::collection::vec((0u64..5_000, 1u64..300), 0..4);
    let cases =
        wlan_of(conditions, move || any_wifi(conditions).prop_map(|(mac, wifi)| (mac, Some(wifi))));
    (cases, noise, busy).prop_map(move |(Case(mut net), noise, busy)| {
        let span = |(from, length)| outage(from, length, OutageRule::Held);
        net.cells[0].busy = busy.into_iter().map(span).collect();
        if conditions == Conditions::Any {
            net.cells[0].stations[1].snr_db = noise;
        }
        Case(net)
    })
}

fn any_wifi(conditions: Conditions) -> impl Strategy<Value = (Mac, Wifi)> {
    let generation = prop_oneof![
        Just((Generation::Ht, MacName::Dot11n)),
        Just((Generation::Vht, MacName::Dot11ac)),
        Just((Generation::He, MacName::Dot11ax))
    ];
    let width = prop_oneof![Just(Width::Mhz20), Just(Width::Mhz40)];
    let category = prop_oneof![
        3 => Just(AccessCategory::BestEffort),
        1 => Just(AccessCategory::Background),
        1 => Just(AccessCategory::Video),
        1 => Just(AccessCategory::Voice)
    ];
    let sizes = (
        prop_oneof![Just(0u64), 1_000u64..70_000, Just(1_048_575)],
        prop_oneof![2 => Just(0u64), 1 => 2_000u64..8_000],
        prop_oneof![2 => Just(7_000_000u64), 1 => 0u64..20_000],
    );
    let txop = prop_oneof![2 => Just(0u64), 1 => 400u64..4_000];
    let limits = (1u32..65, 300u64..5_485, txop, prop_oneof![Just(0u64), 100u64..20_000]);
    let after = prop_oneof![
        2 => Just(AfterCollision::AckTimeout),
        1 => Just(AfterCollision::Eifs),
        1 => Just(AfterCollision::Difs)
    ];
    let access = prop_oneof![2 => Just(Access::Idle), 1 => Just(Access::Ns3)];
    let rule = prop_oneof![
        2 => Just((RateRule::Fixed, 0)),
        1 => (0u32..4).prop_map(|n| (RateRule::Ideal, n)),
        2 => Just((RateRule::MinstrelHt, 0))
    ];
    let shape = (generation, width, 0u32..8, 1u32..3, category);
    (shape, sizes, limits, (after, access, rule), (1u32..8, any::<[bool; 4]>())).prop_map(
        move |(
            ((generation, name), width, mcs, streams, category),
            (ampdu, amsdu, rts_threshold),
            (window, ppdu_limit, txop_limit, aql),
            (after_collision, access, (rate_rule, fallback)),
            (attempts, b),
        )| {
            // A network without an end would have beacons without an end.
            let beacons = b[0] && conditions == Conditions::Any;
            let wifi = Wifi {
                width,
                streams,
                mcs,
                ampdu: Size::Bytes(ampdu),
                amsdu: Size::Bytes(amsdu),
                block_ack_window: window,
                block_ack_retry_limit: b[3],
                ppdu_limit: Duration::micros(ppdu_limit),
                txop_limit: Duration::micros(txop_limit),
                beacon_interval: Duration::micros(if beacons { 102_400 } else { 0 }),
                rate_rule,
                fallback,
                airtime_queue_limit: Duration::micros(if b[1] { aql } else { 0 }),
                scheduling: if b[1] { Scheduling::Airtime } else { Scheduling::Fifo },
                ..Wifi::new(generation, category)
            };
            let (_, cw_min, cw_max, _) = category.parameters();
            let mac = Mac {
                data_rate: wifi.phy(mcs).rate(),
                rts_threshold: Size::Bytes(rts_threshold),
                attempts,
                after_collision,
                access,
                cw_min,
                cw_max,
                backoff_includes_cw: b[2],
                ..Mac::named(name)
            };
            (mac, wifi)
        },
    )
}

fn wlan_of<S>(conditions: Conditions, mac: impl Fn() -> S) -> impl Strategy<Value = Case>
where
    S: Strategy<Value = (Mac, Option<Wifi>)>,
{
    (1u16..4).prop_flat_map(move |n| {
        let wired = [any_link(conditions), any_link(conditions)];
        let flows = prop::collection::vec((any_flow(conditions, AP + 1), 0..n), 1..5);
        (
            wired,
            mac(),
            prop::collection::vec(any_station(conditions), usize::from(n) + 1),
            flows,
            1000u64..6000,
        )
            .prop_map(move |(mut wired, (mac, wifi), mut stations, flows, duration)| {
                for (l, (a, b)) in wired.iter_mut().zip([(0, AP), (AP, 0)]) {
                    (l.from, l.to, l.name) = (a, b, "wired".into());
                }
                for (i, s) in stations.iter_mut().enumerate() {
                    s.node = AP + i as u16;
                }
                // Two stations that find the medium idle send at once. If their flows, which begin
                // at whole milliseconds, began at the same instant, equal timers would repeat the
                // collision for ever where a frame has one attempt.
                let passable = conditions == Conditions::Passable;
                let of_station = |(i, (flow, s)): (usize, (Flow, u16))| {
                    let at = |node| if node == AP + 1 { AP + 1 + s } else { node };
                    // These tests are about cells; BBR is tested on point-to-point links.
                    let choice = if flow.scheme.label.contains("bbr") {
                        scheme("sack")
                    } else {
                        flow.scheme.clone()
                    };
                    Flow {
                        name: format!("flow {}", i + 1),
                        from: at(flow.from),
                        to: at(flow.to),
                        scheme: choice,
                        start: flow.start
                            + Duration::micros(if passable { 250 * i as u64 } else { 0 }),
                        ..flow
                    }
                };
                let flows = flows.into_iter().enumerate().map(of_station).collect();
                let cell = CellConfig { name: "wlan".into(), mac, wifi, busy: vec![], stations };
                let mut net = with_cell(wired, cell, flows, ms(duration));
                if passable {
                    net.duration = Duration::secs(1_000_000);
                }
                Case(net)
            })
    })
}
