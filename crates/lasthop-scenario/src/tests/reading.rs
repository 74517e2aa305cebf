use super::*;
use crate::network::{App, Network, Role};
use crate::schema;
use lasthop_channel::air::config::{
    DelayConfig, LossConfig, OutageRule, PeriodLength, RandomStart, RateConfig, TraceStart,
};
use lasthop_channel::air::loss::{MarkovChain, Mta};
use lasthop_channel::link::arq::{ArqConfig, ArqKind};
use lasthop_core::traffic::Web;
use lasthop_core::units::{Duration, QueueLimit, Rate, Share, Size};

fn roles(network: &Network) -> Vec<(&str, Role)> {
    network.nodes.iter().map(|n| (n.name.as_str(), n.role)).collect()
}

/// The filled scenario loads to the same network and fills to the same text.
#[track_caller]
pub(super) fn round_trip(text: &str) -> Loaded {
    let first = loaded(text);
    let again = load(&first.filled, None, &Overrides::default(), &Memory)
        .unwrap_or_else(|e| panic!("{e}\n{}", first.filled));
    assert_eq!(first.filled, again.filled);
    assert_eq!(again.network.assumed, Vec::<String>::new());
    let network = Network { assumed: vec![], ..first.network.clone() };
    assert_eq!(format!("{network:?}"), format!("{:?}", again.network));
    first
}

#[test]
fn the_long_form() {
    let loaded = round_trip(LONG);
    let n = &loaded.network;
    assert_eq!(
        (n.title.as_str(), n.duration),
        ("TCP over a cellular last hop with delay variation", Duration::secs(20))
    );
    assert_eq!(
        roles(n),
        [("server", Role::Server), ("bs", Role::BaseStation), ("phone", Role::Station)]
    );
    assert_eq!(
        n.links.iter().map(|l| (l.from, l.to)).collect::<Vec<_>>(),
        [(0, 1), (1, 0), (1, 2), (2, 1)]
    );
    assert_eq!(n.links[0].queue.limit, Some(QueueLimit::Packets(49)));
    assert_eq!(n.links[2].loss, LossConfig::uniform(Share(0.01)));
    assert_eq!(n.links[3].loss, LossConfig::None);
    assert_eq!(n.links[3].delay.from, Duration::millis(500));
    assert_eq!(n.path(0, 2), [0, 2]);
    assert_eq!(n.path(2, 0), [3, 1]);
    let flow = &n.flows[0];
    assert_eq!((flow.segment, flow.headers, flow.receive_window), (1000, 40, Size::Segments(20.0)));
    assert_eq!((flow.profile.min_rto, flow.scheme.label.as_str()), (Duration::secs(1), "reno"));
    assert_eq!(n.base_station_for(flow), Some(1));
    assert_eq!(n.assumed, ["queue of radio: 49 packets wait, the default of profile ns-2.26"]);
}

#[test]
fn the_short_form() {
    let n = round_trip(SHORT).network;
    assert_eq!(
        roles(&n),
        [("server", Role::Server), ("bs", Role::BaseStation), ("phone", Role::Station)]
    );
    assert_eq!(
        (n.links[0].name.as_str(), n.links[0].queue.limit, n.links[0].radio),
        ("wired", None, false)
    );
    let radio = &n.links[2];
    assert_eq!(
        (radio.name.as_str(), radio.queue.limit, radio.radio),
        ("radio", Some(QueueLimit::Packets(250)), true)
    );
    assert_eq!(
        radio.rate,
        RateConfig::Trace {
            trace: "my.down".into(),
            start: TraceStart::Named(RandomStart::Random)
        }
    );
    assert_eq!(n.links[3].trace.as_ref().unwrap().mean_rate(), Rate(1_200_000));
    assert!(n.links.iter().all(|l| l.delay == DelayConfig::constant(Duration::millis(10))));
    assert_eq!(
        (n.flows.len(), n.flows[0].segment, n.flows[0].receive_window),
        (1, 1448, Size::Bytes(20 << 20))
    );
    assert_eq!(n.assumed.len(), 3, "{:?}", n.assumed);
}

#[test]
fn nothing_at_all_is_a_small_last_hop() {
    let n = round_trip("").network;
    assert_eq!((n.title.as_str(), n.duration), ("lab", Duration::secs(60)));
    assert_eq!(n.links[2].rate, RateConfig::Constant(Rate(10_000_000)));
    let assumed = n.assumed.join("\n");
    for part in [
        "10 Mbps",
        "40 ms",
        "one bulk flow from server to phone",
        "profile linux",
        "scheme cubic",
        "250 packets",
    ] {
        assert!(assumed.contains(part), "{part} is not in:\n{assumed}");
    }
}

#[test]
fn an_uplink_without_a_trace_has_the_mean_rate_of_the_downlink() {
    let n = round_trip("[last_hop]\ndown = \"my.down\"").network;
    assert_eq!(n.links[3].rate, RateConfig::Constant(Rate(12_000_000)));
    assert!(n.assumed[0].starts_with("uplink 12 Mbps"), "{:?}", n.assumed);
    let n = round_trip("[last_hop]\ndown = \"my.down\"\nrate = \"1 Mbps\"").network;
    assert_eq!(n.links[3].rate, RateConfig::Constant(Rate(1_000_000)));
}

#[test]
fn odd_numbers_survive() {
    let n = round_trip(
        "[last_hop]\nloss = 0.3333333333333333\nrate = \"10000 Gbps\"\nrtt = \"33.333333333 ms\"",
    )
    .network;
    assert_eq!(n.links[2].loss, LossConfig::uniform(Share(0.3333333333333333)));
    assert_eq!(n.links[0].delay.base, Duration(8_333_333));
}

#[test]
fn delay_and_loss_traces_are_read_beside_a_rate_or_a_trace_of_it() {
    let rows = |loss: &LossConfig| match loss {
        LossConfig::Trace(model) => model.rows.clone().map(|rows| rows.range()),
        _ => None,
    };
    let text = "[last_hop]\ndown = \"my.down\"\ndelay = { trace = \"my.delay\", start = \"random\" \
                }\nloss = { trace = \"my.loss\" }";
    let n = round_trip(text).network;
    for link in &n.links[2..] {
        assert_eq!(link.delay.rows.as_ref().map(|r| r.range()), Some((20.0, 35.5)));
        assert_eq!(rows(&link.loss), Some((0.0, 0.25)));
    }
    let text = "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbps\"\ndelay.trace = \"my.delay\"\n\
                backward.loss = { model = \"trace\", trace = \"my.loss\", start = \"1 s\" }\n\
                [[flow]]\nfrom = \"a\"\nto = \"b\"";
    let origin = Some(Path::new("lab/x.toml"));
    let n = load(text, origin, &Overrides::default(), &Memory).unwrap().network;
    assert_eq!(n.links[0].delay.trace.as_deref(), Some(Path::new("lab/my.delay")));
    assert_eq!((rows(&n.links[0].loss), rows(&n.links[1].loss)), (None, Some((0.0, 0.25))));

    let message =
        |text: &str| load(text, None, &Overrides::default(), &Memory).unwrap_err().to_string();
    let missing = message("[last_hop]\nrate = \"1 Mbps\"\ndelay = { trace = \"none\" }");
    assert!(missing.contains("last_hop.delay.trace: cannot open the trace none"), "{missing}");
    let swapped = message("[last_hop]\nrate = \"1 Mbps\"\nloss = { trace = \"my.delay\" }");
    assert!(swapped.contains("a probability from 0 to 1"), "{swapped}");
    let flow = message(
        "[last_hop]\nrate = \"1 Mbps\"\n[[flow]]\nfrom = \"server\"\nto = \"phone\"\n\
         loss = { trace = \"my.loss\" }",
    );
    assert!(flow.contains("a loss trace belongs to a link"), "{flow}");
}

#[test]
fn paths_are_relative_to_the_file() {
    let text = "[[link]]\nbetween = [\"a\", \"b\"]\nrate = { trace = \"my.down\" }\nbackward.rate \
                = { trace = \"my.up\", start = \"5 s\" }\n[[flow]]\nfrom = \"a\"\nto = \"b\"";
    let n =
        load(text, Some(Path::new("lab/x.toml")), &Overrides::default(), &Memory).unwrap().network;
    assert_eq!(
        n.links[0].rate,
        RateConfig::Trace { trace: "lab/my.down".into(), start: TraceStart::At(Duration::ZERO) }
    );
    assert_eq!(n.links[1].trace.as_ref().unwrap().period(), Duration::millis(20));
    let n = load(
        "",
        None,
        &Overrides {
            last_hop: crate::LastHopOptions { down: Some("my.down".into()), ..Default::default() },
            ..Overrides::default()
        },
        &Memory,
    );
    assert!(n.is_ok());
}

#[test]
fn outages_may_come_again_and_again() {
    let outage = r#"outage = [
  { from = "5 s", length = "2 s", every = "10 s", times = 3, frames = "lost-at-sending" },
  { from = "40 s", length = "1 s" },
]"#;
    let n = round_trip(&format!("[last_hop]\n{outage}")).network;
    let spans: Vec<_> = n.links[2].outages.iter().map(|o| (o.from, o.length, o.frames)).collect();
    let secs = Duration::secs;
    let lost = OutageRule::LostAtSending;
    assert_eq!(
        spans,
        [
            (secs(5), secs(2), lost),
            (secs(15), secs(2), lost),
            (secs(25), secs(2), lost),
            (secs(40), secs(1), OutageRule::Held)
        ]
    );
    let one =
        "[last_hop]\noutage = { from = \"5 s\", length = \"2 s\", every = \"10 s\", times = 2 }";
    assert_eq!(round_trip(one).network.links[2].outages.len(), 2);
    let longer = load_with(one, &sets(&[("last_hop.outage.length", "3s")])).unwrap().network;
    assert!(longer.links[2].outages.iter().all(|o| o.length == secs(3)));
}

/// Each object of a page is a separate transfer, and the click for the next page aborts the page
/// before.
#[test]
fn a_session_is_a_transfer_for_each_object() {
    let app = r#"{ kind = "session", every = "5 s", abort = true, pages = [
  "500 kB", ["20 kB", "3 segments"], "270 kB"] }"#;
    let n = round_trip(&format!(
        "[[flow]]\nname = \"page\"\nstart = \"1 s\"\nsegment = \"1000 B\"\napp = {app}"
    ))
    .network;
    let flows: Vec<_> =
        n.flows.iter().map(|f| (f.name.as_str(), f.app.clone(), f.start, f.stop)).collect();
    let secs = Duration::secs;
    let of = |size| App::Transfer { size };
    assert_eq!(
        flows,
        [
            ("page 1", of(500_000), secs(1), Some(secs(6))),
            ("page 2.1", of(20_000), secs(6), Some(secs(11))),
            ("page 2.2", of(3_000), secs(6), Some(secs(11))),
            ("page 3", of(270_000), secs(11), None),
        ]
    );
    assert_eq!(n.sessions.len(), 1);
    assert_eq!((&n.sessions[0].pages[..], n.sessions[0].think), (&[0..1, 1..3, 3..4][..], None));
}

#[test]
fn several_users_have_a_session_each() {
    let app = r#"{ kind = "session", pages = ["5 kB", "6 kB"], think = "2 s" }"#;
    let n = round_trip(&format!(
        "[[flow]]\nname = \"user\"\ncount = 2\nstagger = \"1 s\"\napp = {app}"
    ))
    .network;
    let names: Vec<_> = n.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["user 1 1", "user 1 2", "user 2 1", "user 2 2"]);
    assert_eq!(
        n.sessions.iter().map(|s| (s.name.as_str(), s.think)).collect::<Vec<_>>(),
        [("user 1", Some(Duration::secs(2))), ("user 2", Some(Duration::secs(2)))]
    );
    assert_eq!(n.flows[2].start, Duration::secs(1));
}

#[test]
fn the_short_form_takes_each_form_of_a_rate() {
    let steps =
        r#"{ schedule = [{ at = "0 s", rate = "2 Mbps" }, { at = "7 s", rate = "300 Mbps" }] }"#;
    let n = round_trip(&format!("last_hop = {{ rate = {steps}, rtt = \"40 ms\" }}")).network;
    let RateConfig::Schedule { schedule } = &n.links[2].rate else { panic!("{:?}", n.links[2]) };
    assert_eq!(
        schedule.iter().map(|s| s.rate).collect::<Vec<_>>(),
        [2, 300].map(|r| Rate(r * 1_000_000))
    );
    assert_eq!(n.links[2].rate, n.links[3].rate);
    // The wired link is never the bottleneck, also at the highest rate.
    assert_eq!(n.links[0].rate, RateConfig::Constant(Rate(3_000_000_000)));

    let own = format!("[last_hop]\ndown_rate = {steps}\nup_rate = {{ trace = \"my.up\" }}\n");
    let n = round_trip(&own).network;
    assert!(matches!(n.links[2].rate, RateConfig::Schedule { .. }));
    let RateConfig::Trace { trace, start } = &n.links[3].rate else { panic!("{:?}", n.links[3]) };
    assert_eq!(trace.to_str(), Some("my.up"));
    assert_eq!(*start, TraceStart::At(Duration::ZERO));

    let empty = mistake("last_hop = { rate = { schedule = [] } }");
    assert!(empty.contains("last_hop.rate.schedule: the first step must be at 0 s"), "{empty}");
    let missing = mistake("last_hop = { up_rate = { trace = \"no.up\" } }");
    assert!(missing.contains("last_hop.up_rate.trace: cannot open the trace no.up"), "{missing}");
}

const MANY: &str = r#"
[[node]]
name = "r"
role = "proxy"
[[link]]
between = ["s1", "r"]
rate = { schedule = [
  { at = "0 s", rate = "2 Mbps" }, { at = "7.5 s", rate = "0 bps" },
  { at = "22 s", rate = "4.5 Mbps" },
] }
queue = "60 kB"
overhead = "14 B"
[[link]]
between = ["s2", "r"]
rate = "1 Gbps"
queue = "unlimited"
delay = "1 ms"
[[link]]
name = "air"
radio = true
between = ["r", "bs"]
rate = "2 Mbps"
outage = { from = "5 s", length = "6 s", frames = "lost-at-arrival" }
arq = { kind = "selective-repeat", attempts = 4, delay = "100 ms" }
loss = 0.02
delay = { base = "25 ms", stalls = [{ from = "5 s", length = "6 s" }], in_order = true }
backward = { rate = "1 Mbps", outage = [
  { from = "1 s", length = "1 s" }, { from = "9 s", length = "1 s" },
] }
[[flow]]
name = "web"
from = "s1"
to = "bs"
count = 3
app = { kind = "web", mean_size = "12 kB", mean_pause = "5 s" }
[[flow]]
from = "s2"
to = "bs"
app = { kind = "transfer", size = "150 kB" }
scheme = { name = "reno", label = "the old one" }
profile = "ns-2.35"
min_rto = "0.2 s"
start = "1 s"
stop = "30 s"
[[flow]]
from = "bs"
to = "s2"
app = { kind = "cbr", rate = "512 kbps" }
[[flow]]
from = "s2"
to = "bs"
app = { kind = "on-off", mean_on = "1 s", mean_off = "1 s" }
dupack_threshold = 5
[tcp]
max_rto = "30 s"
initial_ssthresh = "receive-window"
delayed_ack = "100 ms"
sack = false
[experiment]
schemes = ["reno", { name = "packet-control", dupack_threshold = 12, label = "D = 12" }]
seeds = 30
[experiment.vary]
"link.air.loss.rate" = ["0 %", 0.01]
"tcp.limited_transmit" = [true, false]
"flow.1.app" = [{ kind = "bulk" }]
[plot]
kind = "series"
x = "t"
[[claim]]
id = "more"
value = 0.3
"#;

#[test]
fn everything_the_format_has() {
    let loaded = round_trip(MANY);
    let n = &loaded.network;
    assert_eq!(
        n.nodes.iter().map(|n| n.name.as_str()).collect::<Vec<_>>(),
        ["r", "s1", "s2", "bs"]
    );
    assert_eq!(roles(n)[3], ("bs", Role::Station));
    assert_eq!(
        (n.links[0].queue.limit, n.links[2].queue.limit, n.links[0].overhead),
        (Some(QueueLimit::Bytes(60_000)), None, 14)
    );
    assert_eq!((n.links[4].outages.len(), n.links[5].outages.len()), (1, 2));
    let arq = ArqConfig {
        kind: ArqKind::SelectiveRepeat,
        attempts: 4,
        delay: Duration::millis(100),
        in_order: true,
        fragments: 1,
    };
    assert_eq!((&n.links[4].arq, &n.links[0].arq), (&Some(arq), &None));
    assert_eq!(n.links[5].loss, LossConfig::uniform(Share(0.02)));
    assert_eq!(n.links[5].rate, RateConfig::Constant(Rate(1_000_000)));
    let names: Vec<&str> = n.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["web 1", "web 2", "web 3", "flow 4", "flow 5", "flow 6"]);
    assert_eq!(
        n.flows[0].app,
        App::Web(Web { mean_size: Size::Bytes(12_000), shape: 1.5, mean_pause: Duration::secs(5) })
    );
    assert_eq!((n.flows[0].profile.max_rto, n.flows[0].segment), (Duration::secs(30), 1448));
    let own = &n.flows[3];
    assert_eq!(
        (own.scheme.label.as_str(), own.segment, own.receive_window),
        ("the old one", 1000, Size::Segments(20.0))
    );
    assert_eq!(
        (own.profile.max_rto, own.profile.min_rto, own.profile.integer_ssthresh),
        (Duration::secs(30), Duration::millis(200), true)
    );
    assert_eq!((n.flows[5].profile.dupack_threshold, n.flows[4].profile.dupack_threshold), (5, 3));
    let e = &loaded.experiment;
    assert_eq!(e.schemes.iter().map(|s| s.label.as_str()).collect::<Vec<_>>(), ["reno", "D = 12"]);
    assert_eq!(e.vary[0].values, ["0 %", "0.01"]);
    assert_eq!(e.vary[2].values, ["{ kind = \"bulk\" }"]);
    assert_eq!(
        (e.seeds, e.claims.len(), e.plot.as_ref().unwrap()["kind"].as_str()),
        (Some(30), 1, Some("series"))
    );
}

#[test]
fn a_receive_window_has_a_table_that_says_whether_it_grows() {
    let window = |text: &str| {
        let n = round_trip(text).network;
        (n.flows[0].receive_window, n.flows[0].profile.receive_window_grows)
    };
    let default = Size::Bytes(4 << 20);
    assert_eq!(window("[tcp]"), (Size::Bytes(20 << 20), true));
    assert_eq!(window("[tcp]\nprofile = \"rfc\""), (default, false));
    assert_eq!(
        window("[tcp]\nprofile = \"rfc\"\nreceive_window = { grows = true }"),
        (default, true)
    );
    let small = Size::Segments(30.0);
    assert_eq!(
        window("[tcp]\nreceive_window = { size = \"30 segments\", grows = false }"),
        (small, false)
    );
    assert_eq!(window("[tcp]\nreceive_window = \"30 segments\""), (small, true));
    assert_eq!(
        window(
            "[tcp]\nreceive_window = \"30 segments\"\n[[flow]]\nreceive_window = { grows = false }"
        ),
        (small, false)
    );
}

#[test]
fn a_flow_with_its_own_profile_keeps_what_tcp_says_of_single_values() {
    let n = round_trip(
        "[tcp]\nprofile = \"ns-2.26\"\n[[flow]]\nprofile = \"rfc\"\n[[flow]]\nmin_rto = \"2 s\"",
    )
    .network;
    assert_eq!((n.flows[0].profile.full_handshake, n.flows[0].segment), (true, 1448));
    assert_eq!(n.flows[0].receive_window, Size::Bytes(4 << 20));
    assert_eq!(
        (n.flows[1].profile.min_rto, n.flows[1].profile.integer_ssthresh),
        (Duration::secs(2), true)
    );
}

#[test]
fn routes_take_the_fewest_hops_and_of_equals_the_first_link() {
    let link =
        |a: &str, b: &str| format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"1 Mbps\"\n");
    let text = [
        link("a", "b"),
        link("b", "d"),
        link("a", "c"),
        link("c", "d"),
        link("d", "e"),
        link("d", "e"),
    ]
    .concat();
    let n = loaded(&format!("{text}[[flow]]\nfrom = \"a\"\nto = \"e\"")).network;
    let node = |name| n.node(name).unwrap();
    assert_eq!(n.path(node("a"), node("e")), [0, 2, 8]);
    assert_eq!(n.path(node("e"), node("a")), [9, 3, 1]);
    assert_eq!(n.path(node("a"), node("a")), [] as [usize; 0]);
}

/// docs/scenario.md, losses: the chain of several states and the channel of Markov-based Trace
/// Analysis.
#[test]
fn chains_of_losses_are_read() {
    let chain = r#"{ model = "markov-chain", clock = "slot", slot = "10 ms", states = [
  "0 %", "10 %", 1], transitions = [
  [0.99, 0.01, 0], ["5 %", "90 %", "5 %"], [0, 0.1, 0.9]] }"#;
    let n = round_trip(&format!("[last_hop]\nloss = {chain}\n")).network;
    let LossConfig::MarkovChain(MarkovChain { states, transitions, .. }) = &n.links[2].loss else {
        panic!("{:?}", n.links[2].loss)
    };
    assert_eq!(
        (states[1], transitions[1][2], transitions[2][2]),
        (Share(0.1), Share(0.05), Share(0.9))
    );
    let mta = r#"{ model = "mta", clock = "frame", error_free = 200, lossy = [
  1, 4.5, 60], errors = ["20 %", 0.5, 0.4, 0.75] }"#;
    let n = round_trip(&format!("[last_hop]\nloss = {mta}\n")).network;
    let LossConfig::Mta(Mta { error_free, lossy, errors, .. }) = &n.links[2].loss else {
        panic!("{:?}", n.links[2].loss)
    };
    assert_eq!((error_free, errors.len()), (&PeriodLength::Mean(200.0), 4));
    assert_eq!(lossy, &PeriodLength::Quantiles(vec![1.0, 4.5, 60.0]));
}

#[test]
fn what_is_drawn_makes_a_network_random() {
    let random = |text: &str| loaded(text).network.is_random();
    let flow = |loss: &str| {
        format!(
            "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"2 Mbps\"\n[[flow]]\nfrom = \"a\"\nto = \
             \"b\"\n{loss}"
        )
    };
    assert!(!random(&flow("")));
    assert!(random(&flow("loss = \"2 %\"")));
    assert!(random(&flow("ack_loss = \"2 %\"")));
    assert!(!random(&flow("loss = \"0 %\"")));
    assert!(random(
        "[[flow]]\napp = { kind = \"on-off\", rate = \"1 Mbps\", mean_on = \"1 s\", mean_off = \
         \"1 s\" }"
    ));
}

#[test]
fn the_schema_describes_the_format() {
    let schema = schema();
    for key in ["last_hop", "link", "flow", "tcp", "measure", "experiment", "sweep"] {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
    let text = schema.to_string();
    for part in ["receive_window", "dupack_threshold", "zeng2006", "base-station", "droptail"] {
        assert!(text.contains(part), "{part}");
    }
}

/// Flows use the nodes of a list in turn, and start one after the other.
#[test]
fn flows_take_nodes_in_turn() {
    let text = r#"
duration = "10 s"
[[node]]
name = "bs"
role = "base-station"
[[link]]
between = ["server", "bs"]
rate = "1 Mbps"
delay = "1 ms"
[[link]]
between = ["bs", "a"]
rate = "1 Mbps"
delay = "1 ms"
[[link]]
between = ["bs", "b"]
rate = "1 Mbps"
delay = "1 ms"
[[flow]]
from = "server"
to = ["a", "b"]
count = 3
start = "1 s"
stagger = "10 ms"
"#;
    let loaded = round_trip(text);
    let flows = &loaded.network.flows;
    let to: Vec<&str> =
        flows.iter().map(|f| loaded.network.nodes[usize::from(f.to)].name.as_str()).collect();
    assert_eq!(to, ["a", "b", "a"]);
    assert_eq!(
        flows.iter().map(|f| f.start).collect::<Vec<_>>(),
        [1000, 1010, 1020].map(Duration::millis)
    );
}

/// A discipline may be named without a table.
#[test]
fn short_forms_of_queues() {
    let queue = |text: &str| {
        loaded(&format!("[last_hop]\nqueue = {text}\n")).network.links[2].queue.clone()
    };
    for (short, table) in [
        ("\"codel\"", "{ discipline = \"codel\" }"),
        ("\"fq-codel\"", "{ discipline = \"fq-codel\" }"),
        ("\"fq-codel 90 packets\"", "{ discipline = \"fq-codel\", packets = 90 }"),
        ("\"red 60 kB\"", "{ discipline = \"red\", bytes = 60000 }"),
        ("\"droptail 9 packets\"", "{ packets = 9 }"),
    ] {
        assert_eq!(queue(short), queue(table), "{short}");
    }
    let wrong = |text: &str| mistake(&format!("[last_hop]\nqueue = {text}\n"));
    assert!(wrong("\"red\"").contains("write \"red 250 packets\""));
    assert!(wrong("\"red 9 furlongs\"").contains("furlongs"));
    assert!(wrong("\"coddle\"").contains("\"codel\""));
}

/// The number of nodes is known before anything is done for each of them.
#[test]
fn more_nodes_than_allowed_are_refused() {
    let link = |i: usize| {
        format!("[[link]]\nname = \"l{i}\"\nbetween = [\"n{i}\", \"m{i}\"]\nrate = \"1 Mbps\"\n")
    };
    let text: String = (0..10_000).map(link).collect();
    let message = mistake(&format!("duration = \"1 s\"\n{text}"));
    assert!(message.ends_with("20000 nodes are more than the 4000 allowed"), "{message}");
}
