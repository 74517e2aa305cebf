//! M-TCP: behaviour of the server while the mobile is out of reach.

use std::sync::atomic::AtomicBool;

use crate::support::random::{cases, never_gives_up};
use crate::support::*;
use lasthop::air::config::{LossConfig, OutageConfig, OutageRule};
use lasthop::scenario::network::{App, Flow, Network};
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Size, Time};
use lasthop_sim::Options;
use lasthop_sim::events::Kind;
use lasthop_sim::simulation::Simulation;
use lasthop_sim::verifier::Verifier;
use proptest::prelude::*;

/// Server – 10 Mbit/s, 10 ms – base station – 1 Mbit/s, 40 ms – station. The station is
/// out of reach for `seconds` from 5 s on.
fn away(scheme: &str, profile: ProfileName, seconds: u64, frames: OutageRule) -> Network {
    let bulk = Flow { receive_window: Size::Bytes(64_000), ..flow(scheme, profile, App::Bulk) };
    let mut network = last_hop(vec![bulk], Duration::secs(seconds + 15));
    for l in [DOWN, UP] {
        network.links[l].outages =
            vec![OutageConfig { from: Duration::secs(5), length: Duration::secs(seconds), frames }];
    }
    network
}

const OUT: Time = Time(5_000_000_000);

/// Times and values of the events of one kind at the server's sender, from `from` on.
fn server(run: &Watched, kind: Kind, from: Time) -> Vec<(u64, f64)> {
    run.log.of(kind).filter(|e| e.node == 0 && e.t >= from.0).map(|e| (e.t, e.value)).collect()
}

/// The server's cwnd in bytes at `at`.
fn cwnd(run: &Watched, at: Time) -> f64 {
    run.log.of(Kind::Cwnd).take_while(|e| e.t <= at.0).filter(|e| e.node == 0).last().unwrap().value
}

/// When the server first sent new data after `from`.
fn resumes(run: &Watched, from: Time) -> Time {
    Time(run.log.of(Kind::DataSent).find(|e| e.node == 0 && e.t >= from.0).unwrap().t)
}

#[test]
fn the_server_preserves_its_cwnd_and_resumes_within_a_round_trip() {
    for seconds in [1, 2, 6, 20, 60] {
        for frames in [OutageRule::LostAtSending, OutageRule::Held] {
            let run = watch(&away("m-tcp", ProfileName::Rfc, seconds, frames), 1);
            let back = OUT + Duration::secs(seconds);
            let what = format!("{seconds} s, {frames:?}");
            let flow = &run.result.flows[0];
            assert_eq!(
                (flow.timeouts.total, flow.fast_retransmits.total, flow.cwnd_reductions),
                (0, 0, 0),
                "{what}"
            );
            assert!(server(&run, Kind::Timeout, Time::ZERO).is_empty(), "{what}");
            assert!(cwnd(&run, back) >= cwnd(&run, OUT), "{what}");
            // The relay opens the window at once, and the server learns of it 10 ms later. A round
            // trip to the base station takes 20 ms.
            assert!(
                resumes(&run, back + ms(1)) <= back + ms(30),
                "{what}: {:?}",
                resumes(&run, back + ms(1))
            );
            // During the outage nothing is delivered; after it the link is fully used.
            let delivered = |from: Time, to: Time| {
                run.log
                    .of(Kind::Delivered)
                    .filter(|e| e.t >= from.0 && e.t < to.0)
                    .map(|e| e.value)
                    .sum::<f64>()
            };
            assert_eq!(delivered(OUT + ms(100), back), 0.0, "{what}");
            let after = delivered(back + Duration::secs(1), back + Duration::secs(9)) * 8.0 / 8e6;
            assert!(after > 0.9, "{what}: {after}");
        }
    }
}

/// Without link events the base station detects the outage by the mobile's silence, in less than
/// the smallest timeout of 1 s.
#[test]
fn silence_of_the_mobile_is_detected() {
    for seconds in [2, 6, 20] {
        let run = watch(
            &away("m-tcp:link_events=false", ProfileName::Rfc, seconds, OutageRule::LostAtSending),
            1,
        );
        let server_timeouts = server(&run, Kind::Timeout, Time::ZERO).len();
        assert_eq!(server_timeouts, 0, "{seconds} s");
        assert!(cwnd(&run, OUT + Duration::secs(seconds)) >= cwnd(&run, OUT));
    }
    // The mobile is probed each half second and answers when it is back.
    for seconds in [2, 20, 60] {
        let run = watch(
            &away("m-tcp:link_events=false", ProfileName::Rfc, seconds, OutageRule::LostAtSending),
            1,
        );
        let back = OUT + Duration::secs(seconds);
        let new = run
            .log
            .of(Kind::DataSent)
            .find(|e| e.node == 0 && e.t >= back.0 && e.reason == "new")
            .unwrap();
        assert!(Time(new.t) <= back + ms(500 + 250), "{seconds} s: {:?}", Time(new.t) - back);
    }
    // A limit of silence of twice the smallest timeout is too long.
    let run = watch(
        &away("m-tcp:link_events=false:silence=2s", ProfileName::Rfc, 6, OutageRule::LostAtSending),
        1,
    );
    assert!(!server(&run, Kind::Timeout, Time::ZERO).is_empty());
}

/// cwnd in segments and RTO of the server at `at`.
fn state(network: &Network, at: Time) -> (f64, Duration) {
    let network = Network { duration: at - Time::ZERO, ..network.clone() };
    let mut simulation = Simulation::new(&network, 1, (), Options::default()).unwrap();
    assert!(simulation.run(&AtomicBool::new(false)));
    let sender = simulation.connections()[0].sender();
    (sender.window().cwnd / 1000.0, sender.rto().rto())
}

/// Time until everything in flight when the window closed has been acknowledged.
const SETTLED: Duration = Duration::millis(200);

#[test]
fn through_a_disconnection_cwnd_and_rto_do_not_change() {
    for sender in ["newreno", "sack", "rack", "cubic"] {
        for (link_events, after) in [("true", Duration::ZERO), ("false", ms(500))] {
            for seconds in [1, 3, 10, 60] {
                let scheme = format!("m-tcp:link_events={link_events}:sender={sender}");
                let network = away(&scheme, ProfileName::Rfc, seconds, OutageRule::LostAtSending);
                let back = OUT + Duration::secs(seconds);
                assert_eq!(
                    state(&network, OUT + after + SETTLED),
                    state(&network, back),
                    "{scheme}, {seconds} s"
                );
            }
        }
    }
}

/// A table row for a disconnection of `seconds`: timeouts of the server, its cwnd and RTO before
/// and at the end of the disconnection, and the time until the server sends new data.
fn row(name: &str, scheme: &str, profile: ProfileName, seconds: u64) -> String {
    let network = away(scheme, profile, seconds, OutageRule::LostAtSending);
    let run = watch(&network, 1);
    let back = OUT + Duration::secs(seconds);
    let ((before, rto_before), (after, rto_after)) = (state(&network, OUT), state(&network, back));
    let timeouts = server(&run, Kind::Timeout, OUT).into_iter().filter(|t| t.0 < back.0).count();
    // Retransmissions do not count as new data.
    let new = run
        .log
        .of(Kind::DataSent)
        .find(|e| e.node == 0 && e.t >= back.0 && e.reason == "new")
        .map(|e| e.t - back.0);
    let resumes = new.map_or("not in 15 s".into(), |t| format!("{} ms", t / 1_000_000));
    let (before_ms, after_ms) = (rto_before.0 / 1_000_000, rto_after.0 / 1_000_000);
    format!(
        "| {name} | {seconds} s | {timeouts} | {before:.1} | {after:.1} | {before_ms} ms | \
         {after_ms} ms | {resumes} |\n"
    )
}

/// docs/disconnection.md contains the table measured here.
#[test]
fn the_table_in_the_documentation_is_up_to_date() {
    let cases = [
        ("`m-tcp`, profile `rfc`", "m-tcp:sender=newreno", ProfileName::Rfc),
        (
            "`m-tcp`, `rfc`, by silence alone",
            "m-tcp:sender=newreno:link_events=false",
            ProfileName::Rfc,
        ),
        ("`m-tcp`, profile `linux`", "m-tcp:sender=newreno", ProfileName::Linux),
        ("no relay, profile `rfc`", "newreno", ProfileName::Rfc),
        ("no relay, profile `linux`", "newreno", ProfileName::Linux),
    ];
    let mut table = String::new();
    for (name, scheme, profile) in cases {
        for seconds in [1, 6, 20, 60] {
            table += &row(name, scheme, profile, seconds);
        }
    }
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/disconnection.md"
    ))
    .unwrap_or_default();
    assert!(text.contains(&table), "measured now:\n{table}");
}

/// A server whose retransmission timer keeps running (Linux) reduces its window all the same.
#[test]
fn a_server_that_does_not_persist_with_data_in_flight_reduces_cwnd() {
    let run =
        watch(&away("m-tcp:sender=newreno", ProfileName::Linux, 6, OutageRule::LostAtSending), 1);
    assert!(!server(&run, Kind::Timeout, Time::ZERO).is_empty());
    let persists = |scheme: &str| {
        watch(&away(scheme, ProfileName::Rfc, 6, OutageRule::LostAtSending), 1).result.flows[0]
            .goodput_bps
    };
    assert!(
        persists("m-tcp") > persists("newreno"),
        "{} {}",
        persists("m-tcp"),
        persists("newreno")
    );
}

#[test]
fn without_an_outage_it_only_relays() {
    let run = watch(&last_hop(vec![rfc("m-tcp", 300)], Duration::secs(30)), 1);
    assert_eq!(run.result.flows[0].delivered_bytes, 300_000);
    assert_eq!((run.result.flows[0].timeouts.total, run.result.flows[0].cwnd_reductions), (0, 0));
}

proptest! {
    #![proptest_config(cases(150))]

    /// Bytes acknowledged to the server have arrived at the mobile, and every byte is delivered
    /// once, whatever is lost, held or reordered.
    #[test]
    fn bytes_are_conserved(
        scheme in prop_oneof![
            Just("m-tcp"),
            Just("m-tcp:link_events=false"),
            Just("m-tcp:withhold=1000B"),
            Just("i-tcp"),
            Just("i-tcp:ack_on_delivery=true")
        ],
        profile in prop_oneof![
            Just(ProfileName::Rfc),
            Just(ProfileName::Linux),
            Just(ProfileName::Ns235)
        ],
        loss in (0.0..0.2f64, 0.0..0.2f64, 0.0..0.05f64),
        spans in prop::collection::vec((0u64..20_000, 1u64..8000, any::<bool>()), 0..4),
        segments in 1u64..120,
        seed in 0u64..1000,
    ) {
        let transfer = App::Transfer { size: segments * 777 };
        let mut sized =
            Flow { receive_window: Size::Segments(30.0), ..flow(scheme, profile, transfer) };
        never_gives_up(&mut sized.profile);
        let mut network = last_hop(vec![sized], Duration::secs(100_000));
        for (l, rate) in [(DOWN, loss.0), (UP, loss.1), (0, loss.2)] {
            network.links[l].loss = LossConfig::uniform(lasthop::units::Share(rate));
        }
        let mut at = 0;
        for l in [DOWN, UP] {
            network.links[l].outages.clear();
        }
        for (pause, length, held) in spans {
            let frames = if held { OutageRule::Held } else { OutageRule::LostAtSending };
            let span = OutageConfig { from: ms(at + pause), length: ms(length), frames };
            [DOWN, UP].into_iter().for_each(|l| network.links[l].outages.push(span.clone()));
            at += pause + length + 1;
        }
        let mut verifier = Verifier::new(&network);
        let result =
            lasthop_sim::run(&network, seed, &mut verifier, &AtomicBool::new(false)).unwrap();
        verifier.finish_with(&result).map_err(|v| TestCaseError::fail(v.join("\n")))?;
        prop_assert_eq!(result.flows[0].delivered_bytes, segments * 777);
    }
}
