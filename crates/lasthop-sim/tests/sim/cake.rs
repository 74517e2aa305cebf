//! CAKE's fairness between hosts, in uploads and downloads of TCP: one flow of a host beside eight
//! of another, through a home gateway.

use crate::support::{network_of, watch};

/// The hosts `a` and `b` behind a gateway, whose access link of 20 Mbit/s has these queues (keys of
/// their table); two servers.
fn home(queue: &str, flows: &str) -> String {
    let link = |name: &str, between: &str, rate: &str, queue: &str| {
        format!(
            "[[link]]\nname = '{name}'\nbetween = [{between}]\nrate = '{rate}'\ndelay = '1 ms'\n\
             queue = {queue}\n"
        )
    };
    let nodes = [
        ("near", "server"),
        ("far", "server"),
        ("exchange", "router"),
        ("home", "base-station"),
        ("a", "station"),
        ("b", "station"),
    ];
    let mut text = "duration = '20 s'\nmeasure = { from = '5 s' }\n".to_string();
    for (name, role) in nodes {
        text += &format!("[[node]]\nname = '{name}'\nrole = '{role}'\n");
    }
    let cake = format!("{{ discipline = 'cake'{queue} }}");
    text += &link("near", "'near', 'exchange'", "300 Mbps", "'1000 packets'");
    text += &link("far", "'far', 'exchange'", "300 Mbps", "'1000 packets'");
    text += &link("access", "'exchange', 'home'", "20 Mbps", &cake);
    text += &link("first", "'home', 'a'", "300 Mbps", "'1000 packets'");
    text += &link("second", "'home', 'b'", "300 Mbps", "'1000 packets'");
    text + flows + "[tcp]\nprofile = 'linux'\nscheme = 'cubic'\n"
}

/// One bulk flow from `one[0]` to `one[1]`, eight from `many[0]` to `many[1]`.
fn one_and_eight(one: [&str; 2], many: [&str; 2]) -> String {
    let flow = |[from, to]: [&str; 2], count: u32| {
        format!(
            "[[flow]]\nname = '{from}-{to}'\nfrom = '{from}'\nto = '{to}'\napp = 'bulk'\n\
             count = {count}\n"
        )
    };
    flow(one, 1) + &flow(many, 8)
}

/// The share of the host with one flow in the goodput of both.
fn share_of_one(queue: &str, flows: &str) -> f64 {
    let goodputs: Vec<f64> = watch(&network_of(&home(queue, flows)), 1)
        .result
        .flows
        .iter()
        .map(|f| f.goodput_bps)
        .collect();
    assert_eq!(goodputs.len(), 9);
    goodputs[0] / goodputs.iter().sum::<f64>()
}

const HALF: f64 = 0.5;
const NINTH: f64 = 1.0 / 9.0;

/// Checks the share of the host with one flow, within 4 %, with each of these settings.
fn expect(flows: &str, settings: &[&str], share: f64) {
    for queue in settings {
        let found = share_of_one(queue, flows);
        assert!((found / share - 1.0).abs() < 0.04, "{queue}: {found} instead of {share}");
    }
}

const DUAL_SRCHOST: &str = ", isolation = 'dual-srchost'";
const DUAL_DSTHOST: &str = ", isolation = 'dual-dsthost'";
const FLOWS: &str = ", isolation = 'flows'";
/// Triple isolation, as in Linux.
const DEFAULT: &str = "";

#[test]
fn uploads_share_the_link_by_hosts() {
    let flows = one_and_eight(["a", "near"], ["b", "far"]);
    expect(&flows, &[DEFAULT, DUAL_SRCHOST, DUAL_DSTHOST], HALF);
    expect(&flows, &[FLOWS], NINTH);
}

#[test]
fn downloads_share_the_link_by_hosts() {
    let flows = one_and_eight(["near", "a"], ["far", "b"]);
    expect(&flows, &[DEFAULT, DUAL_SRCHOST, DUAL_DSTHOST], HALF);
    expect(&flows, &[FLOWS], NINTH);
}

/// All nine flows have one server, so that only the side of `a` and `b` tells the hosts apart.
#[test]
fn with_one_server_the_side_of_the_hosts_must_be_given() {
    let up = one_and_eight(["a", "near"], ["b", "near"]);
    expect(&up, &[DUAL_SRCHOST], HALF);
    expect(&up, &[DEFAULT, DUAL_DSTHOST, FLOWS], NINTH);
    let down = one_and_eight(["near", "a"], ["near", "b"]);
    expect(&down, &[DUAL_DSTHOST], HALF);
    expect(&down, &[DEFAULT, DUAL_SRCHOST, FLOWS], NINTH);
}

/// ACKs of downloads have 600 kbit/s, of which they need 350 kbit/s in the mean (one ACK of 52 B
/// for two segments), so that only bursts of them wait. At lower rates the ACKs limit the flows and
/// the hosts' shares differ: at 200 kbit/s the host with one flow has 0.205 with the aggressive
/// filter.
#[test]
fn the_ack_filter_leaves_the_shares_of_hosts() {
    let flows = one_and_eight(["near", "a"], ["far", "b"]);
    for (filter, isolation, share) in [
        ("on", "triple-isolate", HALF),
        ("aggressive", "triple-isolate", HALF),
        ("aggressive", "flows", NINTH),
    ] {
        let queue = format!(", isolation = '{isolation}', ack_filter = '{filter}'");
        let slow = "backward = { rate = '600 kbps' }\n[[link]]\nname = 'first'";
        let text = home(&queue, &flows).replace("[[link]]\nname = 'first'", slow);
        let result = watch(&network_of(&text), 1).result;
        let filtered: u64 = result.links.iter().filter_map(|l| l.filtered_frames).sum();
        assert!(filtered > 50, "{filtered}");
        let goodputs: Vec<f64> = result.flows.iter().map(|f| f.goodput_bps).collect();
        let found = goodputs[0] / goodputs.iter().sum::<f64>();
        assert!((found / share - 1.0).abs() < 0.04, "{filter}, {isolation}: {found}");
    }
}
