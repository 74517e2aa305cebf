//! No sender is ever stuck.

mod support;

use std::sync::atomic::AtomicBool;

use lasthop::scenario::network::App;
use lasthop::units::Duration;
use proptest::prelude::*;
use support::random::{Case, Conditions, any_network, cases};

proptest! {
    #![proptest_config(cases(20_000))]

    /// With loss below 30 % every transfer comes to its end.
    #[test]
    fn every_transfer_completes_on_passable_links(Case(mut network) in any_network(Conditions::Passable), seed in 0u64..1000) {
        // Nearly all are done within minutes. Those that measure (RNF's controller) go on until the
        // run ends, and days of waiting cost much.
        let patience = std::mem::replace(&mut network.duration, Duration::secs(2000));
        let mut result = lasthop_sim::run(&network, seed, (), &AtomicBool::new(false)).unwrap();
        if result.flows.iter().any(|f| f.completed_s.is_none()) {
            network.duration = patience;
            result = lasthop_sim::run(&network, seed, (), &AtomicBool::new(false)).unwrap();
        }
        for (flow, config) in result.flows.iter().zip(&network.flows) {
            let App::Transfer { size } = config.app else { continue };
            prop_assert!(flow.completed_s.is_some(), "{} got {} of {size} bytes", config.scheme.label, flow.delivered_bytes);
            prop_assert_eq!(flow.delivered_bytes, size);
        }
    }
}
