//! Changes by the command line.

use super::*;
use crate::LastHopOptions;
use crate::network::{App, Network};
use lasthop_channel::air::config::{DelayConfig, DrawIndex, LossConfig, RateConfig, TraceStart};
use lasthop_core::units::{Duration, QueueLimit, Rate, Share, Size};
use lasthop_schemes::catalogue::SchemeChoice;

#[track_caller]
fn set(text: &str, pairs: &[(&str, &str)]) -> Network {
    load_with(text, &sets(pairs)).unwrap_or_else(|e| panic!("{e}")).network
}

#[track_caller]
fn refused(text: &str, key: &str, value: &str) -> String {
    load_with(text, &sets(&[(key, value)])).map(|_| ()).unwrap_err().to_string()
}

fn last_hop(options: LastHopOptions) -> Overrides {
    Overrides { last_hop: options, ..Overrides::default() }
}

fn text(s: &str) -> Option<String> {
    Some(s.to_string())
}

#[test]
fn values_need_no_quotes() {
    let n = set(
        LONG,
        &[
            ("duration", "30 s"),
            ("tcp.min_rto", "\"200 ms\""),
            ("tcp.limited_transmit", "false"),
            ("tcp.dupack_threshold", "6"),
            ("title", "a b"),
        ],
    );
    assert_eq!((n.duration, n.title.as_str()), (Duration::secs(30), "a b"));
    let p = &n.flows[0].profile;
    assert_eq!(
        (p.min_rto, p.limited_transmit, p.dupack_threshold),
        (Duration::millis(200), false, 6)
    );
    assert_eq!(set("", &[("tcp.profile", "ns-2.30")]).flows[0].segment, 1000);
}

#[test]
fn keys_of_the_last_hop_go_by_themselves() {
    let (bare, full) = (
        set("", &[("loss", "2 %"), ("rtt", "80 ms"), ("arq.kind", "stop-and-wait")]),
        [
            ("last_hop.loss", "2 %"),
            ("last_hop.rtt", "80 ms"),
            ("last_hop.arq.kind", "stop-and-wait"),
        ],
    );
    assert_eq!(format!("{bare:?}"), format!("{:?}", set("", &full)));
    assert!(
        refused(LONG, "loss", "2 %").contains("--set loss: of which link? Write `link.NAME.loss`"),
        "{}",
        refused(LONG, "loss", "2 %")
    );
    assert!(refused(LONG, "rtt", "2 s").contains("unknown key `rtt`"));
}

/// Link-layer retransmission is a key of each direction, like the rate.
#[test]
fn arq_is_set_for_both_directions_and_in_the_short_form() {
    let text = "[[link]]\nbetween = [\"server\", \"phone\"]\nrate = \"1 Mbps\"\nradio = true\n\
                arq = { kind = \"stop-and-wait\", attempts = 3 }\n\
                forward.arq = { kind = \"stop-and-wait\", attempts = 5 }";
    let n = set(text, &[("link.1.arq.attempts", "7")]);
    let attempts = |link: usize| n.links[link].arq.as_ref().map(|arq| arq.attempts);
    assert_eq!((attempts(0), attempts(1)), (Some(7), Some(7)));

    let short = set(SHORT, &[("link.radio.arq.kind", "stop-and-wait")]);
    assert!(short.links[2].arq.is_some());
    assert!(refused(SHORT, "link.radio.rate", "1 Mbps").contains("the scenario has no [[link]]"));
}

#[test]
fn links_flows_and_nodes_have_names_and_numbers() {
    let n = set(
        LONG,
        &[
            ("link.radio.rate", "1 Mbps"),
            ("link.1.delay", "1 ms"),
            ("flow.1.app", "{ kind = \"transfer\", size = \"150 kB\" }"),
            ("flow.1.count", "2"),
        ],
    );
    assert_eq!(
        (&n.links[3].rate, n.links[1].delay.base),
        (&RateConfig::Constant(Rate(1_000_000)), Duration::millis(1))
    );
    assert_eq!((n.flows.len(), &n.flows[1].app), (2, &App::Transfer { size: 150_000 }));
    let n = set(
        "[[flow]]\nname = \"up\"\nfrom = \"phone\"\nto = \"server\"\n[[node]]\nname = \"bs\"",
        &[("flow.up.segment", "500 B"), ("node.bs.role", "proxy")],
    );
    assert_eq!((n.flows[0].segment, format!("{:?}", n.nodes[0].role)), (500, "Proxy".into()));
    // The default flow of a file without flows.
    assert_eq!(set("", &[("flow.1.segment", "500 B")]).flows[0].segment, 500);
}

#[test]
fn short_forms_open_up() {
    let loss = |n: &Network, i: usize| n.links[i].loss.clone();
    let file = "[[link]]\nname = \"r\"\nbetween = [\"server\", \"phone\"]\nrate = \"1 Mbps\"\n";
    let n = set(
        &format!("{file}loss = \"1 %\""),
        &[("link.r.loss.index", "frame"), ("link.r.loss.rate", "2%")],
    );
    let expected = LossConfig::Uniform {
        rate: Share(0.02),
        index: DrawIndex::Frame,
        slot: Duration::micros(500),
    };
    assert_eq!((loss(&n, 0), loss(&n, 1)), (expected.clone(), expected));
    let n = set(file, &[("link.r.loss.rate", "0.03")]);
    assert_eq!(loss(&n, 0), LossConfig::uniform(Share(0.03)));
    let n = set(&format!("{file}loss = \"1 %\""), &[("link.r.forward.loss.rate", "2 %")]);
    assert_eq!(
        (loss(&n, 0), loss(&n, 1)),
        (LossConfig::uniform(Share(0.02)), LossConfig::uniform(Share(0.01)))
    );
    let n = set(
        &format!("{file}delay = \"1 s\"\nqueue = \"60 kB\""),
        &[("link.r.delay.from", "5 s"), ("link.r.queue.packets", "7")],
    );
    assert_eq!(
        (n.links[0].delay.base, n.links[0].delay.from, n.links[0].queue.limit),
        (Duration::secs(1), Duration::secs(5), Some(QueueLimit::Packets(7)))
    );
    let n = set(
        &format!(
            "{file}queue = {{ bytes = 9 }}\noutage = [{{ from = \"5 s\", length = \"6 s\" }}]"
        ),
        &[("link.r.queue.packets", "7"), ("link.r.outage.1.length", "2 s")],
    );
    assert_eq!(
        (n.links[0].queue.limit, n.links[1].outages[0].length),
        (Some(QueueLimit::Packets(7)), Duration::secs(2))
    );
    let n = set(
        file,
        &[
            ("link.r.rate.trace", "my.down"),
            ("link.r.rate.start", "3 s"),
            ("tcp.scheme", "newreno"),
        ],
    );
    assert_eq!(
        n.links[1].rate,
        RateConfig::Trace { trace: "my.down".into(), start: TraceStart::At(Duration::secs(3)) }
    );
    let n = set(SHORT, &[("last_hop.loss.rate", "5 %"), ("last_hop.loss.slot", "1 ms")]);
    assert_eq!(
        loss(&n, 3),
        LossConfig::Uniform {
            rate: Share(0.05),
            index: DrawIndex::Slot,
            slot: Duration::millis(1)
        }
    );
}

#[test]
fn what_is_set_for_a_link_holds_in_both_directions() {
    let n = set(LONG, &[("link.radio.loss.rate", "7 %")]);
    assert_eq!(
        (&n.links[2].loss, &n.links[3].loss),
        (&LossConfig::uniform(Share(0.07)), &LossConfig::uniform(Share(0.07)))
    );
    let n = set(LONG, &[("link.radio.forward.loss.rate", "7 %")]);
    assert_eq!(
        (&n.links[2].loss, &n.links[3].loss),
        (&LossConfig::uniform(Share(0.07)), &LossConfig::None)
    );
}

#[test]
fn the_radio_link_of_the_short_form_goes_by_its_name() {
    let n = set(SHORT, &[("link.radio.loss.rate", "7 %"), ("link.radio.queue", "5 packets")]);
    assert_eq!(
        (&n.links[2].loss, n.links[3].queue.limit),
        (&LossConfig::uniform(Share(0.07)), Some(QueueLimit::Packets(5)))
    );
    let options = LastHopOptions { loss: text("1%"), ..Default::default() };
    let overrides = Overrides { last_hop: options, ..sets(&[("link.radio.loss.rate", "9 %")]) };
    assert_eq!(
        load_with("", &overrides).unwrap().network.links[2].loss,
        LossConfig::uniform(Share(0.09))
    );
    assert_eq!(
        load_with(LONG, &overrides).unwrap().network.links[3].loss,
        LossConfig::uniform(Share(0.09))
    );
}

#[test]
fn settings_of_a_scheme() {
    let file = |scheme: &str| format!("[tcp]\nscheme = {scheme}");
    for scheme in [
        "\"packet-control\"",
        "\"packet-control:dupack_threshold=6\"",
        "{ name = \"packet-control\" }",
    ] {
        let n = set(&file(scheme), &[("tcp.scheme.dupack_threshold", "12")]);
        assert_eq!(n.flows[0].scheme.scheme.settings()["dupack_threshold"], 12, "{scheme}");
    }
    let n = set(
        &file("\"packet-control\""),
        &[("tcp.scheme.sender", "reno:recovery=newreno"), ("tcp.scheme.strict", "true")],
    );
    assert_eq!(
        n.flows[0].scheme.label,
        "packet-control:sender=(reno:recovery=newreno):strict=true"
    );
    let both = Overrides {
        scheme: Some(SchemeChoice::parse("reno").unwrap()),
        ..sets(&[("tcp.scheme.strict", "true")])
    };
    let message = load_with("", &both).map(|_| ()).unwrap_err().to_string();
    assert!(message.contains("--scheme NAME:KEY=VALUE"), "{message}");
}

#[test]
fn the_scheme_of_the_command_line_spares_flows_that_name_theirs() {
    let text = "[tcp]\nscheme = \"reno\"\n[[flow]]\n[[flow]]\nscheme = \"tahoe\"";
    let overrides =
        Overrides { scheme: Some(SchemeChoice::parse("snoop").unwrap()), ..Overrides::default() };
    let loaded = load_with(text, &overrides).unwrap();
    let labels = |n: &Network| n.flows.iter().map(|f| f.scheme.label.clone()).collect::<Vec<_>>();
    assert_eq!(labels(&loaded.network), ["snoop", "tahoe"]);
    let overrides =
        Overrides { scheme: Some(SchemeChoice::parse("newreno").unwrap()), ..Overrides::default() };
    assert_eq!(
        labels(&load_with(&loaded.filled, &overrides).unwrap().network),
        ["newreno", "tahoe"]
    );
}

#[test]
fn mistakes_name_the_option() {
    let cases = [
        ("duration", "5", "--set duration: the number 5 needs a unit"),
        ("duration", "", "--set duration: expected a time"),
        ("durtion", "5 s", "--set durtion: unknown key `durtion` (did you mean `duration`?)"),
        (
            "link.radio.loss.rate",
            "120 %",
            "--set link.radio.loss.rate: link.radio.forward.loss.rate: a share must lie between 0 \
             % and 100 %",
        ),
        (
            "link.1.loss",
            "{ model = \"uniform\", rte = \"1 %\" }",
            "--set link.1.loss: link.1.loss.rte: unknown key `rte`",
        ),
        ("link.radio.loss", "{ model = ", "--set link.radio.loss: not a valid value"),
        (
            "link.radoi.rate",
            "1 Mbps",
            "--set link.radoi.rate: there is no link `radoi` (did you mean `radio`?); the \
             scenario has: 1, radio",
        ),
        ("link.3.rate", "1 Mbps", "--set link.3.rate: there is no link `3`"),
        ("link.0.rate", "1 Mbps", "--set link.0.rate: there is no link `0`"),
        ("flow.2.start", "1 s", "--set flow.2.start: there is no flow `2`"),
        ("duration.x", "1 s", "--set duration.x: `duration` has no keys below it"),
        ("tcp..min_rto", "1 s", "--set tcp..min_rto: expected a key such as"),
        ("tcp.max_rto", "10 ms", "--set tcp.max_rto: must not be below min_rto = 1 s"),
        (
            "tcp.scheme",
            "packet-contol",
            "--set tcp.scheme: there is no scheme `packet-contol` (did you mean `packet-control`?)",
        ),
        ("flow.1.to", "fone", "--set flow.1.to: there is no node `fone`"),
        (
            "link.radio.rate.trace",
            "no.down",
            "--set link.radio.rate.trace: cannot open the trace no.down",
        ),
    ];
    for (key, value, expected) in cases {
        let found = refused(LONG, key, value);
        assert!(found.starts_with(expected), "expected: {expected}\nfound:    {found}");
    }
    let deep = vec!["a"; 10_000].join(".");
    assert!(refused(LONG, &deep, "1").contains("expected a key such as"));
}

#[test]
fn a_file_without_what_an_option_names_is_refused() {
    for file in ["", SHORT] {
        assert!(
            refused(file, "link.radio.rate", "1 Mbps")
                .contains("has no [[link]] `radio`; its last hop is set by `last_hop.rate`")
        );
    }
    let overrides =
        Overrides { scheme: Some(SchemeChoice::parse("snoop").unwrap()), ..Overrides::default() };
    let wired = LONG.replace("radio = true", "");
    let message = load_with(&wired, &overrides).map(|_| ()).unwrap_err().to_string();
    assert!(
        message.starts_with("--scheme: the scheme `snoop` needs a node with the role base-station"),
        "{message}"
    );
}

#[test]
fn the_command_line_alone() {
    let options = LastHopOptions {
        down: Some("my.down".into()),
        rtt: text("100ms"),
        loss: text("2%"),
        queue: text("unlimited"),
        ..Default::default()
    };
    let n = load("", None, &last_hop(options), &Memory).unwrap().network;
    assert_eq!(
        (n.links[2].trace.is_some(), &n.links[3].rate),
        (true, &RateConfig::Constant(Rate(12_000_000)))
    );
    assert_eq!(
        (&n.links[0].delay, n.links[2].queue.limit),
        (&DelayConfig::constant(Duration::millis(25)), None)
    );
    assert_eq!(n.links[3].loss, LossConfig::uniform(Share(0.02)));
}

#[test]
fn options_replace_what_the_short_form_says() {
    let n =
        load_with(SHORT, &last_hop(LastHopOptions { rate: text("2 Mbps"), ..Default::default() }))
            .unwrap()
            .network;
    assert_eq!(
        (&n.links[2].rate, &n.links[3].rate),
        (&RateConfig::Constant(Rate(2_000_000)), &RateConfig::Constant(Rate(2_000_000)))
    );
    let file = "[last_hop]\ndown_rate = \"1 Mbps\"\nup_rate = \"2 Mbps\"\ndelay = \"1 s\"";
    let n = load(
        file,
        Some(Path::new("lab/x.toml")),
        &last_hop(LastHopOptions {
            down: Some("my.down".into()),
            rtt: text("8 ms"),
            ..Default::default()
        }),
        &Memory,
    );
    let n = n.unwrap().network;
    assert_eq!(
        n.links[2].rate,
        RateConfig::Trace { trace: "my.down".into(), start: TraceStart::default() }
    );
    assert_eq!(
        (&n.links[3].rate, n.links[2].delay.base),
        (&RateConfig::Constant(Rate(2_000_000)), Duration::millis(2))
    );
}

#[test]
fn options_change_the_radio_link_of_a_network() {
    let options = LastHopOptions {
        down: Some("my.down".into()),
        rtt: text("100 ms"),
        loss: text("3 %"),
        queue: text("9 kB"),
        ..Default::default()
    };
    let n = load_with(LONG, &last_hop(options)).unwrap().network;
    assert_eq!(
        (n.links[2].trace.is_some(), &n.links[3].rate),
        (true, &RateConfig::Constant(Rate(250_000)))
    );
    assert!(n.links.iter().all(|l| l.delay == DelayConfig::constant(Duration::millis(25))));
    assert_eq!(
        (&n.links[2].loss, &n.links[0].loss),
        (&LossConfig::uniform(Share(0.03)), &LossConfig::None)
    );
    assert_eq!(
        (&n.links[3].loss, n.links[2].queue.limit),
        (&LossConfig::uniform(Share(0.03)), Some(QueueLimit::Bytes(9000)))
    );
    // The same link with its nodes exchanged: down is the direction to the phone.
    let turned = LONG.replace("[\"bs\", \"phone\"]", "[\"phone\", \"bs\"]");
    let n = load_with(
        &turned,
        &last_hop(LastHopOptions { down: Some("my.down".into()), ..Default::default() }),
    )
    .unwrap()
    .network;
    assert!(n.links[2].trace.is_none() && n.links[3].trace.is_some());
    assert_eq!(n.nodes[usize::from(n.links[3].to)].name, "phone");
}

#[test]
fn mistakes_in_options_name_them() {
    let message = |text: &str, options| {
        load_with(text, &last_hop(options)).map(|_| ()).unwrap_err().to_string()
    };
    let no_radio = LONG.replace("radio = true", "");
    assert!(
        message(&no_radio, LastHopOptions { loss: text("1 %"), ..Default::default() })
            .starts_with("--loss: needs one link with radio = true, and the scenario has none")
    );
    for file in ["", LONG] {
        assert!(
            message(file, LastHopOptions { loss: text("200 %"), ..Default::default() })
                .starts_with("--loss: ")
        );
        assert!(
            message(file, LastHopOptions { rtt: text("200"), ..Default::default() })
                .contains("--rtt: ")
        );
        let found =
            message(file, LastHopOptions { down: Some("no.down".into()), ..Default::default() });
        let rate =
            message(file, LastHopOptions { down: Some("1 Mbps".into()), ..Default::default() });
        assert!(rate.contains("a constant rate belongs in the key `rate`"), "{rate}");
        assert!(!found.contains("constant"), "{found}");
        assert!(
            found.starts_with("--down: ") && found.contains("cannot open the trace no.down"),
            "{found}"
        );
    }
    assert!(
        message("", LastHopOptions { rate: text("5"), ..Default::default() })
            .starts_with("--rate: last_hop.rate: the number 5 needs a unit")
    );
}

#[test]
fn sizes_in_segments_are_those_of_the_flow() {
    let n = set(
        LONG,
        &[
            ("flow.1.app", "{ kind = \"transfer\", size = \"10 segments\" }"),
            ("flow.1.segment", "500 B"),
        ],
    );
    assert_eq!(
        (&n.flows[0].app, n.flows[0].receive_window),
        (&App::Transfer { size: 5000 }, Size::Segments(20.0))
    );
}

#[test]
fn a_scheme_that_no_flow_could_take_is_refused() {
    let bbr =
        || Overrides { scheme: Some(SchemeChoice::parse("bbr").unwrap()), ..Overrides::default() };
    let fixed = "[[flow]]\nname = \"data\"\nscheme = \"reno\"\n[[flow]]\nname = \"call\"\napp = { \
                 kind = \"cbr\", rate = \"64 kbps\" }\n";
    let found = load_with(fixed, &bbr()).map(|_| ()).unwrap_err().to_string();
    assert!(
        found.starts_with(
            "--scheme: no flow uses `bbr`: data, call fix their scheme or send datagrams"
        ),
        "{found}"
    );
    assert!(load_with(fixed, &Overrides::default()).is_ok());
    assert!(load_with(&format!("{fixed}[[flow]]\ncount = 0\n"), &bbr()).is_ok());
}
