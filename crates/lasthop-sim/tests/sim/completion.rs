//! Every transfer completes: no sender stalls forever.

use std::sync::atomic::AtomicBool;

use crate::support::random::{Case, Conditions, any_network, cases};
use lasthop::scenario::network::App;
use lasthop::units::Duration;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(20_000))]

    /// With loss below 30 % every transfer completes.
    #[test]
    fn every_transfer_completes_on_passable_links(
        Case(mut network) in any_network(Conditions::Passable),
        seed in 0u64..1000,
    ) {
        // Nearly all transfers complete within minutes. Runs with periodic measurements (RNF's
        // controller) continue to the end of the run, and simulating days of idle time is slow.
        let full_duration = std::mem::replace(&mut network.duration, Duration::secs(2000));
        let mut result = lasthop_sim::run(&network, seed, (), &AtomicBool::new(false)).unwrap();
        if result.flows.iter().any(|f| f.completed_s.is_none()) {
            network.duration = full_duration;
            result = lasthop_sim::run(&network, seed, (), &AtomicBool::new(false)).unwrap();
        }
        for (flow, config) in result.flows.iter().zip(&network.flows) {
            let App::Transfer { size } = config.app else { continue };
            let delivered = flow.delivered_bytes;
            prop_assert!(
                flow.completed_s.is_some(),
                "{} delivered {delivered} of {size} bytes",
                config.scheme.label
            );
            prop_assert_eq!(delivered, size);
        }
    }
}
