//! Receivers that lie to their senders.

use crate::support::random::{Case, Conditions, any_network, cases};
use crate::support::*;
use lasthop::air::config::LossConfig;
use lasthop::scenario::network::{App, Flow, Network};
use lasthop::tcp::profile::ProfileName;
use lasthop::tcp::receiver::Misbehaviour;
use lasthop::units::{Duration, Share};
use lasthop_sim::events::Kind;
use proptest::prelude::*;

/// A bulk flow over the last hop of 1 Mbit/s and 100 ms with 2 % loss, under `linux`.
fn lossy(misbehaviour: Option<Misbehaviour>) -> Network {
    let flow = Flow { misbehaviour, ..flow("reno", ProfileName::Linux, App::Bulk) };
    let mut network = last_hop(vec![flow], Duration::secs(60));
    network.links[2].loss = LossConfig::uniform(Share(0.02));
    network
}

#[test]
fn who_acknowledges_optimistically_hides_losses_and_never_gets_the_data() {
    let honest = watch(&lossy(None), 1).result;
    let run = watch(&lossy(Some(Misbehaviour::OptimisticAcks)), 1);
    let flow = &run.result.flows[0];
    assert!(honest.flows[0].retransmissions.total > 10);
    assert_eq!((flow.retransmissions.total, flow.timeouts.total), (0, 0));
    // What is delivered in order ends at the first loss.
    assert!(flow.delivered_bytes < honest.flows[0].delivered_bytes / 4);
}

/// The FIN arrives behind a hole: it is acknowledged, too.
#[test]
fn an_optimistic_ack_covers_a_fin_that_has_arrived() {
    let mut network = lossy(Some(Misbehaviour::OptimisticAcks));
    network.flows[0].app = App::Transfer { size: 20_500 };
    network.flows[0].profile.fin_with_data = false;
    network.links[2].loss = lose(&["21:1"], &[]);
    let run = watch(&network, 1);
    let last = run.log.of(Kind::AckSent).map(|e| e.segment().ack).max();
    assert_eq!((last, run.result.flows[0].delivered_bytes), (Some(20_501), 20_000));
}

#[test]
fn false_duplicates_undo_the_reaction_to_losses() {
    let undone = |misbehaviour| watch(&lossy(misbehaviour), 1).log.of(Kind::Undone).count();
    assert_eq!(undone(None), 0);
    assert!(undone(Some(Misbehaviour::FalseDsack)) > 5);
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn a_verifier_that_knows_of_the_lie_finds_no_fault(
        Case(mut network) in any_network(Conditions::Any),
        seed in 0u64..1000,
        optimistic in any::<bool>(),
    ) {
        let lie = if optimistic { Misbehaviour::OptimisticAcks } else { Misbehaviour::FalseDsack };
        for flow in network.flows.iter_mut().filter(|f| !f.app.is_datagrams()) {
            flow.misbehaviour = Some(lie);
        }
        prop_assert_eq!(watch(&network, seed).result.traffic_bits.balance(), 0);
    }
}
