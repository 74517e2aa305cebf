//! Schemes that estimate what the path holds: Vegas, Veno, Westwood, Westwood+, TIBET.

mod support;

use std::sync::{Arc, Mutex};

use lasthop::schemes::catalogue::{ForeignWindow, RecoverySlot, Scheme, SchemeChoice};
use lasthop::tcp::recovery::{Recovery, RecoveryKind};
use lasthop::tcp::window::{Ack, Needs, Window, WindowRule, grow};
use lasthop::units::Duration;
use support::*;

/// Reno that writes down what each ACK says.
struct Witness(Arc<Mutex<Vec<Ack>>>);

impl WindowRule for Witness {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }
    fn on_any_ack(&mut self, _: &mut Window, ack: &Ack) {
        self.0.lock().unwrap().push(*ack);
    }
}

/// The ACKs of a transfer of 60 segments that loses segment 15 once.
fn acks_seen(timestamps: bool) -> Vec<Ack> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let witness = seen.clone();
    let make = ForeignWindow {
        name: "witness".into(),
        make: Arc::new(move || Box::new(Witness(witness.clone()))),
        needs: Needs { every_ack: true, ..Needs::default() },
        recovery: RecoverySlot::Fixed(Recovery::of(RecoveryKind::Newreno)),
    };
    let mut network = last_hop(vec![rfc("reno", 60)], Duration::secs(60));
    network.flows[0].scheme = SchemeChoice { label: "witness".into(), scheme: Scheme::ForeignWindow(make) };
    network.flows[0].profile.timestamps = timestamps;
    network.links[DOWN].loss = lose(&["15:1"], &[]);
    watch(&network, 1);
    let acks = seen.lock().unwrap().clone();
    assert!(acks.len() >= 60);
    acks
}

/// Without timestamps too each ACK of new data gives a round-trip time, save that of the segment sent twice.
#[test]
fn each_ack_gives_a_round_trip_time_for_rules_that_ask() {
    for timestamps in [false, true] {
        let acks = acks_seen(timestamps);
        let new = || acks.iter().filter(|a| a.bytes > 0);
        let without: Vec<u64> = new().filter(|a| a.rtt.is_none()).map(|a| a.bytes).collect();
        if timestamps {
            assert!(without.is_empty());
        } else {
            // That ACK closes the hole, so it covers more than the one segment.
            assert!(without.iter().filter(|b| **b > 1000).count() == 1, "{without:?}");
        }
        assert!(acks.iter().all(|a| a.bytes > 0 || a.rtt.is_none()));
        // 100 ms of delay and the serialisation of a segment and its ACK; all ten of the first flight queue behind each other.
        let first: Vec<f64> = new().filter_map(|a| a.rtt).take(10).map(|r| r.as_secs()).collect();
        assert!(first.windows(2).all(|w| w[1] > w[0] + 0.007), "{first:?}");
        assert!((0.1095..0.1105).contains(&first[0]), "{first:?}");
    }
}

/// Deliveries add up to what was acknowledged, however the ACKs come.
#[test]
fn deliveries_add_up() {
    let acks = acks_seen(false);
    // The FIN counts for one byte.
    assert_eq!(acks.iter().map(|a| a.bytes).sum::<u64>(), 60_001);
    assert_eq!(acks.iter().map(|a| a.delivered).sum::<u64>(), 60_001);
}
