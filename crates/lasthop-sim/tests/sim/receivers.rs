//! Receivers that are computed in advance: a run has the same result as one in which each arrival
//! is an event.

use std::cell::Cell;
use std::sync::atomic::AtomicBool;

use crate::support::random::{Case, Conditions, any_network, cases};
use crate::support::*;
use lasthop::air::config::{DelayConfig, LossConfig, TraceStart};
use lasthop::queue::QueueConfig;
use lasthop::scenario::network::{App, Network};
use lasthop::tcp::profile::{DelayedAck, ProfileName};
use lasthop::units::{Duration, QueueLimit, Share, Size};
use lasthop_sim::Options;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const SENDERS: [&str; 16] = [
    "reno",
    "newreno",
    "tahoe",
    "sack",
    "fack",
    "rack",
    "eifel",
    "f-rto",
    "ncr",
    "vegas",
    "westwood",
    "santa-cruz",
    "cubic",
    "bbr",
    "reno:recovery=sack-ns2",
    "reno:recovery=rack+prr+dsack-undo",
];

/// Schemes with an agent between the ends, and one without.
const AGENTS: [&str; 9] = [
    "snoop:sender=newreno",
    "snoop:sender=cubic:cache_packets=9:expected_slack=0:tick=3ms",
    "snoop:sender=sack:max_retransmissions=1:uplink=true",
    "snack-snoop:delay=5ms:max_retransmissions=1:cache_packets=5",
    "balakrishnan-eln:ranges=1:max_flows=1:recovery=sack+eln",
    "ack-pacing:rate=measured:stall=7ms:max_acks=9:max_hold=70ms:sender=sack",
    "rate-control:rate=400kbps:max_acks=20:max_hold=90ms:sender=cubic",
    "zhuge:aggregate=2ms:max_acks=5:max_flows=1:sender=newreno",
    "reno",
];

/// Networks in which receivers may be computed in advance: TCP in one direction.
fn any_one_way_network(of: &'static [&'static str]) -> impl Strategy<Value = Case> {
    let scheme_of_flow = prop::collection::vec(0usize..of.len(), 4);
    let queues = prop::collection::vec(prop::option::weighted(0.8, 0u64..40), 6);
    let switches = (any::<bool>(), 0u8..4, prop::bool::weighted(0.8), any::<[bool; 3]>());
    // Round numbers, so that events coincide.
    let rates = prop::option::weighted(0.6, prop::collection::vec((0usize..4, 0u64..30), 6));
    (any_network(Conditions::Any), scheme_of_flow, queues, switches, rates).prop_map(
        |(Case(mut net), schemes, queues, (up, spared, drop_tail, b), rates)| {
            let (station, last) = (net.nodes.len() as u16 - 1, net.flows.len() - 1);
            for (i, f) in net.flows.iter_mut().enumerate() {
                (f.from, f.to) = if up { (station, 0) } else { (0, station) };
                f.scheme = scheme(of[schemes[i % schemes.len()]]);
                (f.loss, f.ack_loss) = (LossConfig::None, LossConfig::None);
                if f.app.is_datagrams() || matches!(f.app, App::Web(_)) {
                    f.app = if b[0] { App::Bulk } else { App::Transfer { size: 40_000 } };
                }
                if matches!(f.app, App::Transfer { .. }) {
                    f.stop = None;
                }
                if i < last || spared > 1 {
                    f.profile.delayed_ack = DelayedAck::Switch(b[1] && i % 2 == 0 || b[2]);
                }
                if spared > 0 {
                    f.profile.segmentation_offload = false;
                }
            }
            for (l, &(rate, delay)) in net.links.iter_mut().zip(rates.iter().flatten()) {
                l.rate = mbps([0.5, 1.0, 2.0, 10.0][rate]);
                (l.delay, l.trace, l.outages) =
                    (DelayConfig::constant(ms(delay)), None, Vec::new());
            }
            if rates.is_some() {
                for f in &mut net.flows {
                    (f.profile.timestamps, f.profile.ecn) = (b[2] && b[1], b[1] && b[0]);
                    f.app = if spared < 3 { App::Bulk } else { f.app.clone() };
                }
            }
            if drop_tail {
                for (l, n) in net.links.iter_mut().zip(queues) {
                    l.arq = None;
                    let limit = n.map(QueueLimit::Packets);
                    l.queue =
                        QueueConfig { limit, ..QueueConfig::drop_tail(QueueLimit::Packets(1)) };
                    if b[1] {
                        l.loss = LossConfig::uniform(Share(if b[2] { 0.02 } else { 0.0 }));
                    }
                }
            }
            Case(net)
        },
    )
}

fn result(network: &Network, seed: u64, receivers_by_event: bool) -> String {
    let options = Options { receivers_by_event, ..Options::default() };
    let cancel = AtomicBool::new(false);
    to_json(&lasthop_sim::run_with(network, seed, (), &cancel, options).unwrap())
}

/// True if a receiver of the network is computed in advance.
fn any_in_advance(network: &Network) -> bool {
    lasthop_sim::explain(network, false).unwrap().receivers.iter().any(|r| r.in_advance)
}

/// Fails if a result depends on it, or if less than this share of the cases shows that.
fn results_are_the_same(schemes: &'static [&'static str], share: f64) {
    let in_advance = Cell::new(0u32);
    let config = cases(3000);
    let all = config.cases;
    let networks = (any_one_way_network(schemes), 0u64..1000);
    let mut runner = TestRunner::new(config);
    let checked = runner.run(&networks, |(Case(network), seed)| {
        in_advance.set(in_advance.get() + u32::from(any_in_advance(&network)));
        prop_assert_eq!(result(&network, seed, false), result(&network, seed, true));
        Ok(())
    });
    checked.unwrap_or_else(|e| panic!("{e}"));
    let shown = f64::from(in_advance.get());
    assert!(shown > share * f64::from(all), "only {shown} of {all} cases");
}

#[test]
fn results_do_not_depend_on_the_receivers_being_computed_in_advance() {
    results_are_the_same(&SENDERS, 0.25);
}

/// Agents between the ends see each segment and each ACK at its time, and send copies.
#[test]
fn nor_do_they_where_agents_are_between_the_ends() {
    results_are_the_same(&AGENTS, 0.15);
}

/// A hundred flows with losses in both directions, measured after a start-up time: with an ACK for
/// each segment, with delayed ACKs, with those of Linux.
#[test]
fn many_flows_with_losses_in_both_directions() {
    for profile in [ProfileName::Ns235, ProfileName::Rfc, ProfileName::Linux] {
        let mut flows = vec![flow("newreno", profile, App::Bulk); 100];
        for (i, f) in flows.iter_mut().enumerate() {
            (f.name, f.start) = (format!("flow {i}"), ms(7 * i as u64));
            f.profile.segmentation_offload = false;
        }
        let mut net = last_hop(flows, Duration::secs(30));
        net.measure_from = ms(1234);
        net.links[DOWN].queue = packets(30);
        net.links[DOWN].loss = LossConfig::uniform(Share(0.01));
        net.links[UP].loss = LossConfig::uniform(Share(0.02));
        assert!(any_in_advance(&net));
        assert_eq!(result(&net, 3, false), result(&net, 3, true));
    }
}

/// Two flows of different rates with delayed ACKs, without losses: timers of one receiver are due
/// between arrivals at the other.
#[test]
fn delayed_acks_between_the_arrivals_of_another_flow() {
    for (window, wait) in [(1.0, 200), (3.0, 40), (4.0, 1), (7.0, 33)] {
        let mut flows = vec![flow("reno", ProfileName::Rfc, App::Bulk); 2];
        for (i, f) in flows.iter_mut().enumerate() {
            (f.name, f.start) = (format!("flow {i}"), ms(13 * i as u64));
            f.profile.delayed_ack = DelayedAck::AtMost(ms(wait));
            f.receive_window = Size::Segments([window, 40.0][i]);
        }
        let net = last_hop(flows, Duration::secs(20));
        assert!(any_in_advance(&net));
        assert_eq!(result(&net, 1, false), result(&net, 1, true));
    }
}

/// Links that follow a trace, and losses: frames take the fast path over links whose
/// rate varies.
#[test]
fn flows_over_links_whose_rate_varies() {
    let linux = ProfileName::Linux;
    let cases = [(ProfileName::Ns235, 0.0), (ProfileName::Rfc, 0.01), (linux, 0.0), (linux, 0.01)];
    for (profile, loss) in cases {
        let mut flows = vec![flow("newreno", profile, App::Bulk); 3];
        for (i, f) in flows.iter_mut().enumerate() {
            (f.name, f.start) = (format!("flow {i}"), ms(7 * i as u64));
            f.profile.segmentation_offload = false;
        }
        for varies in [[DOWN, DOWN], [UP, UP], [DOWN, UP]] {
            let mut net = last_hop(flows.clone(), Duration::secs(20));
            net.links[DOWN].loss = LossConfig::uniform(Share(loss));
            for l in varies {
                let trace = trace(&[0, 1, 1, 2, 9, 14, 15, 15, 30, 31]);
                net.links[l] = traced(net.links[l].clone(), trace, TraceStart::default());
            }
            assert!(any_in_advance(&net));
            assert_eq!(result(&net, 1, false), result(&net, 1, true));
        }
    }
}

/// The plan says why: an observer, agents, ACKs that share their link with data.
#[test]
fn the_plan_says_which_receivers_are_computed_in_advance() {
    let bulk = |scheme| flow(scheme, ProfileName::Ns235, App::Bulk);
    let plan = |net: &Network, observed| {
        let plan = lasthop_sim::explain(net, observed).unwrap();
        plan.receivers.iter().map(|r| (r.in_advance, r.why.clone())).collect::<Vec<_>>()
    };
    let one = last_hop(vec![bulk("reno")], Duration::secs(1));
    assert!(plan(&one, false)[0].0);
    assert!(!plan(&one, true)[0].0);
    let with = |scheme| plan(&last_hop(vec![bulk(scheme)], Duration::secs(1)), false);
    assert!(with("snoop")[0].0);
    assert!(with("snoop:uplink=true")[0].1.starts_with("an agent at its node"));
    assert!(with("fastack")[0].1.starts_with("an agent sends ACKs"));
    let mut back = bulk("reno");
    (back.from, back.to, back.name) = (back.to, back.from, "back".into());
    let both = last_hop(vec![bulk("reno"), back], Duration::secs(1));
    assert!(plan(&both, false).iter().all(|r| !r.0 && r.1.contains("carries other frames")));
}
