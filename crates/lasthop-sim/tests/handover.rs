//! Handovers: what moves, what it costs, and what is lost if the state does not come along.

mod support;

use lasthop::air::config::LossConfig;
use lasthop::scenario::network::{App, Handover, Network};
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Rate, Share};
use lasthop_sim::result::HandoverResult;
use support::*;

/// At 10 s another base station takes over, over a line of 10 Mbit/s and 20 ms; 1 % of the data are
/// lost on the radio.
fn network_of(scheme: &str, moved: bool) -> Network {
    let mut network = last_hop(vec![flow(scheme, ProfileName::Rfc, App::Bulk)], Duration::secs(30));
    network.links[DOWN].loss = LossConfig::uniform(Share(0.01));
    network.handovers = vec![Handover {
        node: 1,
        at: Duration::secs(10),
        rate: Rate(10_000_000),
        delay: ms(20),
        moved,
    }];
    network
}

fn handed_over(scheme: &str, moved: bool) -> (HandoverResult, Watched) {
    let run = watch(&network_of(scheme, moved), 1);
    assert_eq!(to_json(&run.result), json(&network_of(scheme, moved), 1), "chained");
    (run.result.handovers[0].clone(), run)
}

#[test]
fn the_state_takes_its_time_and_everything_waits_for_it() {
    for (scheme, least, most) in
        [("packet-control", 16, 400), ("snoop", 40, 40), ("i-tcp:buffer=60000B", 20_000, 61_000)]
    {
        let (handover, run) = handed_over(scheme, true);
        assert!(
            handover.moved_bytes >= least && handover.moved_bytes <= most,
            "{scheme}: {handover:?}"
        );
        let took = 0.02 + handover.moved_bytes as f64 * 8.0 / 1e7;
        assert!(close(handover.took_s, took), "{scheme}: {handover:?}");
        assert!(
            handover.gap_s >= took - 0.01 && handover.gap_s < took + 1.5,
            "{scheme}: {handover:?}"
        );
        let later =
            run.log.of(lasthop_sim::events::Kind::Delivered).filter(|e| e.secs() > 12.0).count();
        assert!(later > 500, "{scheme}: {later}");
    }
}

#[test]
fn without_its_state_an_agent_begins_anew_and_a_split_connection_is_dead() {
    let (handover, run) = handed_over("snoop", false);
    assert_eq!((handover.moved_bytes, handover.took_s), (0, 0.0));
    let later = |run: &Watched| {
        run.log.of(lasthop_sim::events::Kind::Delivered).filter(|e| e.secs() > 12.0).count()
    };
    assert!(later(&run) > 500);
    let (handover, run) = handed_over("i-tcp", false);
    assert_eq!((handover.moved_bytes, later(&run)), (0, 0));
    assert!(
        run.result.flows[0].acknowledged_undelivered_bytes.unwrap() > 10_000,
        "{:?}",
        run.result.flows
    );
}

/// A handover at a node that keeps nothing costs the line's delay.
#[test]
fn without_any_state_it_is_the_delay() {
    let (handover, _) = handed_over("newreno", true);
    assert_eq!((handover.moved_bytes, handover.took_s), (0, 0.02));
    let plain = Network { handovers: vec![], ..network_of("newreno", true) };
    assert!(watch(&plain, 1).result.handovers.is_empty());
}
