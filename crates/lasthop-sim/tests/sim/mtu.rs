//! No packet on a link is larger than its MTU, whatever the profile, the application and the
//! direction; full segments are as large as it.

use std::sync::atomic::AtomicBool;

use lasthop_sim::events::{Event, Observer};
use lasthop_sim::verifier::Verifier;
use proptest::prelude::*;

use crate::support::network_of;
use crate::support::random::cases;

/// The largest packet that was seen anywhere, bytes.
#[derive(Default)]
struct Largest(u32);

impl Observer for Largest {
    fn on_event(&mut self, e: &Event<'_>) {
        self.0 = self.0.max(e.segment.map_or(0, |s| s.size));
    }
}

/// The largest packet of a flow over a link with this MTU; `--scheme` as given.
fn largest(mtu: u32, profile: &str, scheme: &str, flow: &str) -> u32 {
    let text = format!(
        "duration = '3 s'\n\
         [last_hop]\nrate = '2 Mbps'\nloss = '2 %'\nmtu = '{mtu} B'\n\
         [tcp]\nprofile = '{profile}'\nscheme = '{scheme}'\n[[flow]]\n{flow}"
    );
    let network = network_of(&text);
    let mut observers = (Verifier::new(&network), Largest::default());
    let result = lasthop_sim::run(&network, 1, &mut observers, &AtomicBool::new(false)).unwrap();
    observers.0.finish_with(&result).unwrap_or_else(|e| panic!("{e:?}"));
    observers.1.0
}

#[test]
fn full_segments_have_the_size_of_the_mtu() {
    for upload in ["", "from = 'phone'\nto = 'server'"] {
        for (profile, size) in [("linux", 1400), ("rfc", 1388), ("ns-2.35", 1040)] {
            assert_eq!(largest(1400, profile, "newreno", upload), size, "{profile}");
        }
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn no_packet_is_larger_than_the_mtu(
        mtu in 460_u32..2000,
        profile in prop::sample::select(vec!["linux", "rfc", "ns-2.35", "ns-2.26"]),
        scheme in prop::sample::select(vec!["cubic", "newreno", "eifel", "snoop", "bbr", "i-tcp"]),
        app in prop::sample::select(vec![
            "app = 'bulk'",
            "app = { kind = 'transfer', size = '50 kB' }",
            "app = { kind = 'requests', response = '20 kB' }",
            "app = { kind = 'cbr', rate = '500 kbps' }",
            "app = 'call'",
            "app = 'ping'",
        ]),
    ) {
        let is_datagrams = ["cbr", "call", "ping"].iter().any(|kind| app.contains(kind));
        let scheme = if is_datagrams { "newreno" } else { scheme };
        let largest = largest(mtu, profile, scheme, app);
        prop_assert!(largest <= mtu, "{largest} > {mtu}: {profile}, {scheme}, {app}");
    }
}
