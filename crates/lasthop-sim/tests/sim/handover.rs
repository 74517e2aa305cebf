//! Handovers: the state transferred, its duration, and the effect of lost state.

use crate::support::*;
use lasthop::air::config::LossConfig;
use lasthop::scenario::network::{App, Handover, Network};
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Rate, Share};
use lasthop_sim::result::HandoverResult;

/// At 10 s another base station takes over; the state is transferred at 10 Mbit/s with a delay of
/// 20 ms. The radio link loses 1 % of the data.
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
fn frames_are_held_until_the_state_is_transferred() {
    for (scheme, least, most) in
        [("packet-control", 16, 400), ("snoop", 40, 40), ("i-tcp:buffer=60000B", 20_000, 61_000)]
    {
        let (handover, run) = handed_over(scheme, true);
        assert!(
            handover.moved_bytes >= least && handover.moved_bytes <= most,
            "{scheme}: {handover:?}"
        );
        let transfer_time = 0.02 + handover.moved_bytes as f64 * 8.0 / 1e7;
        assert!(close(handover.took_s, transfer_time), "{scheme}: {handover:?}");
        assert!(
            handover.gap_s >= transfer_time - 0.01 && handover.gap_s < transfer_time + 1.5,
            "{scheme}: {handover:?}"
        );
        let later =
            run.log.of(lasthop_sim::events::Kind::Delivered).filter(|e| e.secs() > 12.0).count();
        assert!(later > 500, "{scheme}: {later}");
    }
}

#[test]
fn without_its_state_an_agent_restarts_and_a_split_connection_fails() {
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

/// A handover of a node without state takes the delay of the transfer.
#[test]
fn without_state_a_handover_takes_the_delay() {
    let (handover, _) = handed_over("newreno", true);
    assert_eq!((handover.moved_bytes, handover.took_s), (0, 0.02));
    let plain = Network { handovers: vec![], ..network_of("newreno", true) };
    assert!(watch(&plain, 1).result.handovers.is_empty());
}
