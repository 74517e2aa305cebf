//! TCP-F in a network: behaviour of a sender when its route fails.

use crate::support::*;
use lasthop::air::config::{OutageConfig, OutageRule};
use lasthop::scenario::network::{App, Flow};
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Size, Time};
use lasthop_sim::events::Kind;

/// A bulk flow over a link that loses everything for `seconds`, from 5 s on.
fn failing(scheme: &str, seconds: u64) -> Watched {
    let bulk =
        Flow { receive_window: Size::Bytes(64_000), ..flow(scheme, ProfileName::Rfc, App::Bulk) };
    let mut network = last_hop(vec![bulk], Duration::secs(seconds + 15));
    for l in [DOWN, UP] {
        network.links[l].outages = vec![OutageConfig {
            from: Duration::secs(5),
            length: Duration::secs(seconds),
            frames: OutageRule::LostAtSending,
        }];
    }
    watch(&network, 1)
}

/// When the server first sends a segment at or after `from`.
fn sends(run: &Watched, from: Time) -> Time {
    Time(run.log.of(Kind::DataSent).find(|e| e.node == 0 && e.t >= from.0).unwrap().t)
}

/// The notices take 10 ms from the base station. There is no timeout and no reduction, and
/// everything outstanding is retransmitted when the route returns.
#[test]
fn a_failure_costs_its_length_and_no_timeout() {
    for seconds in [1, 4, 9] {
        for sender in ["reno", "newreno", "sack", "cubic"] {
            let run = failing(&format!("tcp-f:sender={sender}"), seconds);
            let back = Time((5 + seconds) * 1_000_000_000);
            let flow = &run.result.flows[0];
            assert_eq!(
                (flow.timeouts.total, flow.cwnd_reductions),
                (0, 0),
                "{sender}, {seconds} s"
            );
            // Segments sent before the notice arrived are in transit; after that nothing is sent.
            assert!(sends(&run, Time(5_020_000_000)) >= back, "{sender}, {seconds} s");
            assert!(sends(&run, back) <= back + ms(11), "{sender}, {seconds} s");
            let plain = &failing(sender, seconds).result.flows[0];
            assert!(
                seconds == 1
                    || (plain.timeouts.total > 0 && flow.delivered_bytes > plain.delivered_bytes),
                "{sender}, {seconds} s"
            );
        }
    }
}

/// The sender leaves the frozen state after ten seconds and continues as an ordinary sender until
/// the notice of the route's return arrives.
#[test]
fn the_frozen_state_ends_after_its_timeout() {
    let run = failing("tcp-f:sender=newreno", 30);
    let flow = &run.result.flows[0];
    assert!(flow.timeouts.total >= 1 && sends(&run, Time(5_020_000_000)) >= Time(15_000_000_000));
}
