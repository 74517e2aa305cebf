//! `[[cell]]` in scenario files.

use super::*;
use crate::LastHopOptions;
use crate::network::{Cell, Network, Role};
use crate::resolve::routes::Arcs;
use lasthop_channel::air::config::LossConfig;
use lasthop_channel::air::loss::{FrameErrors, TwoState};
use lasthop_channel::link::cell::mac::{Access, AfterCollision, MacName, Preamble, PreambleName};
use lasthop_channel::queue::QueueConfig;
use lasthop_core::units::{Duration, QueueLimit, Rate, Share, Size};

const WLAN: &str = r#"
duration = "10 s"
[[link]]
between = ["server", "ap"]
rate = "10 Mbps"
[[cell]]
name = "wlan"
members = ["ap", "sta1", "sta2"]
attempts = 3
loss = "1 %"
queue = "40 packets"
up.loss = "none"
[[cell.station]]
name = "sta2"
loss = { model = "frame-errors", rate = "9 %" }
queue = "10 packets"
overhead = "20 B"
[[flow]]
from = "server"
to = "sta1"
[[flow]]
from = "sta2"
to = "server"
"#;

fn networks(text: &str, sets_: &[(&str, &str)]) -> Network {
    load_with(text, &sets(sets_)).unwrap_or_else(|e| panic!("{e}")).network
}

#[test]
fn a_cell_is_links_between_its_members() {
    let loaded = loaded(WLAN);
    let n = &loaded.network;
    let names = |i: u16| n.nodes[usize::from(i)].name.as_str();
    let links: Vec<_> = n
        .links
        .iter()
        .map(|l| (names(l.from), names(l.to), l.radio, l.cell.map(|p| (p.from, p.to))))
        .collect();
    let wired = [("server", "ap", false, None), ("ap", "server", false, None)];
    let radio = [
        ("ap", "sta1", true, Some((0, 1))),
        ("ap", "sta2", true, Some((0, 2))),
        ("sta1", "ap", true, Some((1, 0))),
        ("sta2", "ap", true, Some((2, 0))),
    ];
    // No links between stations.
    assert_eq!(links, wired.into_iter().chain(radio).collect::<Vec<_>>());
    assert_eq!(n.path(0, 2), [0, 2]);
    assert_eq!(n.path(3, 0), [5, 1]);
    let roles: Vec<_> = n.nodes.iter().map(|n| n.role).collect();
    assert_eq!(roles, [Role::Server, Role::BaseStation, Role::Station, Role::Station]);
    assert_eq!(n.links[5].overhead, 36 + 20);
    let cell = &n.cells[0];
    assert_eq!(
        (cell.mac.attempts, cell.mac.data_rate, cell.mac.basic_rate),
        (3, Rate(11_000_000), Rate(2_000_000))
    );
    assert_eq!(
        (cell.mac.access, cell.mac.after_collision),
        (Access::Idle, AfterCollision::AckTimeout)
    );
}

#[test]
fn each_station_has_its_own_air_and_queue() {
    let n = loaded(WLAN).network;
    let [ap, sta1, sta2] = &n.cells[0].stations[..] else { panic!("three members") };
    assert_eq!((&ap.down, &ap.up), (&LossConfig::None, &LossConfig::None));
    assert_eq!((&sta1.down, &sta1.up), (&LossConfig::uniform(Share(0.01)), &LossConfig::None));
    assert!(
        matches!(
            &sta2.down,
            LossConfig::FrameErrors(FrameErrors {
                rate: Share(0.09),
                bytes: Size::Bytes(1100),
                ..
            })
        ) && sta2.down == sta2.up
    );
    let queues = [ap, sta1, sta2].map(|s| s.queue.clone());
    assert_eq!(queues, [40, 40, 10].map(|n| QueueConfig::drop_tail(QueueLimit::Packets(n))));
}

#[test]
fn a_filled_cell_loads_to_the_same_network() {
    let lan = "[[cell]]\nmembers = [\"a\", \"b\"]\nmac = \"csma-lan\"\nloss = \"2 \
               %\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"";
    let aggregating = "[[cell]]\nmembers = [\"a\", \"b\"]\nmac = \"802.11ac\"\nmcs = 8\n\
                       access_category = \"VI\"\nscheduling = \"airtime\"\n[[cell.station]]\n\
                       name = \"b\"\nmcs = 1\n[[flow]]\nfrom = \"a\"\nto = \"b\"";
    for text in [WLAN, lan, aggregating] {
        let first = loaded(text);
        let again = load(&first.filled, None, &Overrides::default(), &Memory)
            .unwrap_or_else(|e| panic!("{e}\n{}", first.filled));
        assert_eq!(first.filled, again.filled);
        assert_eq!(format!("{:?}", first.network.links), format!("{:?}", again.network.links));
        assert_eq!(format!("{:?}", first.network.cells), format!("{:?}", again.network.cells));
        assert_eq!(again.network.assumed, Vec::<String>::new());
    }
}

#[test]
fn the_access_category_and_the_mcs_give_the_values_of_a_wifi_cell() {
    let n = loaded(
        "[[cell]]\nmembers = [\"a\", \"b\"]\nmac = \"802.11ac\"\nwidth = \"80 MHz\"\nstreams = 2\n\
         guard_interval = \"0.4 us\"\naccess_category = \"VO\"\ncw_max = 31\n[[cell.station]]\n\
         name = \"b\"\nmcs = 9\n[[flow]]\nfrom = \"a\"\nto = \"b\"",
    )
    .network;
    let cell: &Cell = &n.cells[0];
    let wifi = cell.wifi.as_ref().unwrap();
    assert_eq!((cell.mac.cw_min, cell.mac.cw_max, wifi.aifsn), (3, 31, 2));
    assert_eq!(wifi.txop_limit, Duration::micros(1_504));
    // SIFS and two slots; the rate of the fastest station.
    assert_eq!((cell.mac.difs, cell.mac.data_rate.0 / 100_000), (Duration::micros(34), 8_666));
    assert_eq!(cell.stations.iter().map(|s| s.mcs).collect::<Vec<_>>(), [None, Some(9)]);
    assert!(cell.stations.iter().all(|s| s.up == LossConfig::None));
}

#[test]
fn a_lan_has_no_access_point() {
    let n = loaded(
        "[[cell]]\nmembers = [\"a\", \"b\", \"c\"]\nmac = \"csma-lan\"\nloss = \"2 \
         %\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"",
    )
    .network;
    let cell: &Cell = &n.cells[0];
    assert_eq!((cell.mac.mac, cell.mac.link_acks, cell.mac.attempts), (MacName::CsmaLan, false, 1));
    // Each frame has one loss process, where it is received.
    assert!(
        cell.stations
            .iter()
            .all(|s| s.down == LossConfig::uniform(Share(0.02)) && s.up == LossConfig::None)
    );
    assert_eq!(
        n.nodes.iter().map(|n| n.role).collect::<Vec<_>>(),
        [Role::Server, Role::Server, Role::Router]
    );
    assert_eq!(n.assumed[0], "queue of cell 1: 250 packets wait, the default of profile linux");
}

#[test]
fn one_station_needs_no_flow() {
    let text = "[[link]]\nbetween = [\"server\", \"ap\"]\nrate = \"10 Mbps\"\n[[cell]]\nmembers = \
                [\"ap\", \"laptop\"]\nqueue = \"9 packets\"";
    let n = loaded(text).network;
    assert_eq!(n.flows.iter().map(|f| (f.from, f.to)).collect::<Vec<_>>(), [(0, 2)]);
    assert_eq!(n.nodes[2].role, Role::Station);
    // The access point may be the server.
    let n = loaded("[[cell]]\nmembers = [\"server\", \"phone\"]\n").network;
    assert_eq!(
        n.nodes.iter().map(|n| n.role).collect::<Vec<_>>(),
        [Role::BaseStation, Role::Station]
    );
}

#[test]
fn cells_are_set_from_the_command_line() {
    let n = networks(
        WLAN,
        &[
            ("cell.wlan.attempts", "1"),
            ("cell.wlan.loss.rate", "5 %"),
            ("cell.1.preamble", "short"),
            ("cell.wlan.station.sta2.down.loss.rate", "2 %"),
            ("cell.wlan.station.sta1.queue", "7 packets"),
        ],
    );
    let cell = &n.cells[0];
    assert_eq!((cell.mac.attempts, cell.mac.preamble), (1, Preamble::Named(PreambleName::Short)));
    // The override sets both directions, although `up` had another value.
    assert_eq!(
        (&cell.stations[1].down, &cell.stations[1].up),
        (&LossConfig::uniform(Share(0.05)), &LossConfig::uniform(Share(0.05)))
    );
    assert!(matches!(
        cell.stations[2].down,
        LossConfig::FrameErrors(FrameErrors { rate: Share(0.02), .. })
    ));
    assert!(matches!(
        cell.stations[2].up,
        LossConfig::FrameErrors(FrameErrors { rate: Share(0.09), .. })
    ));
    assert_eq!(cell.stations[1].queue, QueueConfig::drop_tail(QueueLimit::Packets(7)));
    // The options of the last hop apply to the only cell.
    let last_hop = LastHopOptions {
        loss: Some("7 %".into()),
        queue: Some("5 packets".into()),
        rtt: Some("30 ms".into()),
        ..Default::default()
    };
    let n = load_with(WLAN, &Overrides { last_hop, ..Overrides::default() }).unwrap().network;
    assert_eq!(
        (&n.cells[0].stations[1].down, &n.cells[0].stations[1].up),
        (&LossConfig::uniform(Share(0.07)), &LossConfig::uniform(Share(0.07)))
    );
    assert_eq!(
        (n.cells[0].stations[0].queue.limit, n.links[0].delay.base),
        (Some(QueueLimit::Packets(5)), Duration::millis(15))
    );
    let wrong = load_with(WLAN, &sets(&[("cell.lan.attempts", "1")])).unwrap_err().to_string();
    assert!(wrong.contains("there is no cell `lan`") && wrong.contains("wlan"), "{wrong}");
    let wrong =
        load_with(WLAN, &sets(&[("cell.wlan.station.sta3.loss", "1 %")])).unwrap_err().to_string();
    assert!(wrong.contains("the node `sta3` is no member of this cell"), "{wrong}");
}

/// noor's LAN: pairs of nodes with three connections each, each with separate bit errors.
#[test]
fn pairs_of_nodes_have_connections_with_separate_bit_errors() {
    let text = r#"
[[cell]]
name = "lan"
mac = "csma-lan"
members = ["n{1..6}"]
[[flow]]
name = "session"
from = "n{1..5..2}"
to = ["n{2..6..2}"]
count = 9
each = 3
start = "10 ms"
stagger = "20 ms"
app = { kind = "on-off", mean_on = "1 s", mean_off = "1 s", rate = "16 kbps" }
loss = { model = "two-state", good = "1 s", bad = "0.33 s", good_rate = 1e-6, bad_rate = 1e-3 }
ack_loss = "none"
"#;
    let loaded = load_with(text, &Overrides::default()).unwrap();
    let n = &loaded.network;
    assert_eq!(
        (n.nodes.len(), n.links.len(), n.flows.len()),
        (6, 6, 9),
        "a pair of links for each pair of nodes that talk"
    );
    let routes: Vec<_> = n.flows.iter().map(|f| (f.from, f.to, f.start.0 / 1_000_000)).collect();
    assert_eq!(routes[..4], [(0, 1, 10), (0, 1, 10), (0, 1, 10), (2, 3, 30)]);
    assert_eq!((n.flows[8].name.as_str(), routes[8]), ("session 9", (4, 5, 50)));
    assert!(matches!(n.flows[0].loss, LossConfig::TwoState(TwoState { bad_rate: 1e-3, .. })));
    assert_eq!(n.flows[0].ack_loss, LossConfig::None);
    assert_eq!(
        load_with(&loaded.filled, &Overrides::default()).unwrap().filled,
        loaded.filled,
        "the filled-in file says the same"
    );
    let set = load_with(
        text,
        &sets(&[("flow.session.loss.bad_rate", "1e-5"), ("flow.session.count", "3")]),
    )
    .unwrap()
    .network;
    assert!(matches!(set.flows[2].loss, LossConfig::TwoState(TwoState { bad_rate: 1e-5, .. })));
    let mistake = |from: &str, to: &str| {
        load_with(&text.replace(from, to), &Overrides::default()).unwrap_err().to_string()
    };
    assert!(mistake("n{1..6}", "n{1..x}").contains("names in a row such as"));
    assert!(mistake("each = 3", "each = 0").contains("at least 1"));
    assert!(
        mistake("bad_rate = 1e-3", "bad_rate = 2.0").contains("bad_rate must lie between 0 and 1")
    );
    assert!(mistake("rate = \"16 kbps\"", "rate = \"0 bps\"").contains("above 0"));
    assert!(
        mistake(
            "{ kind = \"on-off\", mean_on = \"1 s\", mean_off = \"1 s\", rate",
            "{ kind = \"cbr\", rate"
        )
        .contains("sends datagrams")
    );
}

/// The route by the definition: of all arcs of a node, pairs of members included, the first that
/// leads one hop nearer.
fn next_hop(arcs: &[(u16, u16)], nodes: u16, from: u16, to: u16) -> Option<u32> {
    let mut hops = vec![u32::MAX; usize::from(nodes)];
    hops[usize::from(to)] = 0;
    for _ in 0..nodes {
        for &(a, b) in arcs {
            let (a, b) = (usize::from(a), usize::from(b));
            hops[a] = hops[a].min(hops[b].saturating_add(1));
        }
    }
    let own = hops[usize::from(from)];
    let nearer =
        |&(a, b): &(u16, u16)| a == from && hops[usize::from(b)].checked_add(1) == Some(own);
    arcs.iter().position(nearer).map(|i| i as u32)
}

#[test]
fn routes_over_cells_are_those_over_all_pairs_of_members() {
    let mut state = 1u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for _ in 0..200 {
        let nodes = 2 + draw(9);
        let links: Vec<(u16, u16)> = (0..draw(8))
            .map(|_| (draw(nodes) as u16, draw(nodes) as u16))
            .filter(|(a, b)| a != b)
            .collect();
        let cells: Vec<Vec<u16>> = (0..draw(4))
            .map(|_| {
                let (first, size) = (draw(nodes), 2 + draw(nodes - 1));
                (first..first + size).map(|n| (n % nodes) as u16).collect()
            })
            .collect();
        let mut all = links.clone();
        for cell in &cells {
            let pairs = cell.iter().flat_map(|a| cell.iter().map(move |b| (*a, *b)));
            all.extend(pairs.filter(|(a, b)| a != b));
        }
        let table = Arcs::new(nodes, links, cells).next_hops();
        for (from, to) in (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))) {
            let found = if from == to { None } else { table[from][to] };
            let expected = next_hop(&all, nodes as u16, from as u16, to as u16);
            assert_eq!(found, expected.filter(|_| from != to), "{from} to {to}: {all:?}");
        }
    }
}

#[test]
fn a_cell_may_have_two_thousand_stations() {
    let text = "duration = \"1 s\"\n[[cell]]\nmembers = [\"ap\", \"n{1..2000}\"]\n\
                [[flow]]\nfrom = \"ap\"\nto = [\"n{1..2000}\"]\ncount = 2000\n";
    let n = networks(text, &[]);
    assert_eq!((n.links.len(), n.flows.len()), (4000, 2000));
    assert_eq!(n.path(0, 2000).len(), 1);
}
