//! Relays of split schemes neither lose nor duplicate bytes, for any events on either leg.

mod bench;

use bench::{Bench, Case, Channel, Operation};
use lasthop::leg::Side;
use lasthop::tcp::profile::ProfileName;
use lasthop::units::Duration;
use proptest::prelude::*;

fn ms(t: u64) -> Duration {
    Duration::millis(t)
}

fn channel() -> impl Strategy<Value = Channel> {
    let share = |max: f64| prop_oneof![2 => Just(0.0), 1 => 0.0..max];
    (share(0.25), share(0.3), 1u64..120, prop_oneof![Just(0u64), 1u64..200]).prop_map(
        |(loss, duplicates, delay, jitter)| Channel {
            loss,
            duplicates,
            delay: ms(delay),
            jitter: ms(jitter),
        },
    )
}

fn scheme() -> impl Strategy<Value = String> {
    let sender = prop_oneof![
        Just("reno"),
        Just("newreno"),
        Just("sack"),
        Just("rack"),
        Just("cubic"),
        Just("bbr")
    ];
    let buffer = || prop_oneof![1 => 300u64..2000, 3 => 2000u64..40_000];
    prop_oneof![
        (buffer(), any::<bool>(), sender.clone()).prop_map(|(b, late, sender)| {
            format!("i-tcp:buffer={b}B:ack_on_delivery={late}:sender={sender}")
        }),
        (buffer(), 1u64..3000, 1u64..40, prop_oneof![Just(0u64), 1u64..1500], sender.clone())
            .prop_map(|(b, w, n, s, sender)| {
                let window = format!("withhold={w}B:window={n} segments:silence={s}ms");
                format!("m-tcp:buffer={b}B:{window}:sender={sender}")
            }),
        (buffer(), any::<bool>(), 1u64..40, 1u32..5, sender.clone()).prop_map(
            |(b, srp, n, t, sender)| {
                let second = if srp { "srp" } else { "tcp" };
                let second = format!("second={second}:window={n} segments:timer={t}");
                format!("mtcp:buffer={b}B:{second}:sender={sender}")
            }
        ),
        (buffer(), 0u64..20, any::<[bool; 2]>(), sender).prop_map(
            |(b, q, [resend, steer], sender)| {
                let proxy = format!("queue={q} segments:resend={resend}:steer_server={steer}");
                format!("rnf:buffer={b}B:{proxy}:sender={sender}")
            }
        ),
    ]
}

fn operations() -> impl Strategy<Value = Vec<(Duration, Operation)>> {
    let at = || (0u64..6000).prop_map(ms);
    let side = || prop_oneof![Just(Side::Inbound), Just(Side::Outbound)];
    let pause = (at(), 1u64..4000).prop_map(|(from, length)| {
        vec![(from, Operation::Read(false)), (from + ms(length), Operation::Read(true))]
    });
    let ends = prop_oneof![
        5 => Just(vec![]),
        1 => (at(), side()).prop_map(|(at, side)| vec![(at, Operation::Reset(side))]),
        1 => (at(), side()).prop_map(|(at, side)| vec![(at, Operation::Vanish(side))]),
    ];
    let late = prop::option::weighted(0.3, (at(), 1u64..20_000))
        .prop_map(|w| w.map(|(at, n)| (at, Operation::Write(n))));
    (prop::option::weighted(0.3, pause), late, ends).prop_map(|(pause, late, ends)| {
        pause.unwrap_or_default().into_iter().chain(late).chain(ends).collect()
    })
}

fn case() -> impl Strategy<Value = Case> {
    let profile = prop_oneof![
        2 => Just(ProfileName::Rfc),
        2 => Just(ProfileName::Linux),
        1 => Just(ProfileName::Ns235)
    ];
    let outages =
        prop::collection::vec((0u64..5000, 1u64..4000, any::<bool>()), 0..2).prop_map(|spans| {
            spans
                .into_iter()
                .map(|(from, length, notified)| (ms(from), ms(length), notified))
                .collect()
        });
    let channels = [channel(), channel(), channel(), channel()];
    (scheme(), profile, 1u64..40_000, 500u64..40_000, channels, outages, operations(), any::<u64>())
        .prop_map(|(scheme, profile, size, buffer, channels, outages, operations, seed)| Case {
            scheme,
            profile,
            size,
            buffer,
            channels,
            outages,
            operations,
            seed,
        })
}

/// Runs a case to its end.
fn run_case(case: &Case) -> Result<(), String> {
    let mut bench = Bench::new(case);
    bench.run()?;
    let vanished = case.operations.iter().any(|d| matches!(d.1, Operation::Vanish(_)));
    if !vanished && !bench.is_reset() && bench.delivered != bench.written {
        return Err(format!("only {} of {} bytes were delivered", bench.delivered, bench.written));
    }
    // Bytes acknowledged to the server but not delivered are lost with the relay's buffer.
    let lost = bench.acknowledged_undelivered();
    if lost > 0 && !vanished && !bench.is_reset() {
        return Err(format!("{lost} bytes were acknowledged and never delivered"));
    }
    Ok(())
}

/// A case without losses: 200,000 bytes, RTTs of 20 ms and 100 ms.
fn run_without_loss(scheme: &str, operations: Vec<(Duration, Operation)>) -> Bench {
    let channel = |delay| Channel { loss: 0.0, duplicates: 0.0, delay: ms(delay), jitter: ms(0) };
    let channels = [channel(10), channel(10), channel(50), channel(50)];
    let case = Case {
        scheme: scheme.into(),
        profile: ProfileName::Rfc,
        size: 200_000,
        buffer: 20_000,
        channels,
        outages: vec![],
        operations,
        seed: 1,
    };
    let mut bench = Bench::new(&case);
    bench.run().unwrap();
    bench
}

/// A relay that acknowledges data on receipt loses its buffer if the mobile disappears; a relay
/// that waits for the mobile's ACK loses nothing.
#[test]
fn acknowledged_but_undelivered_bytes_are_counted() {
    for operation in [Operation::Vanish(Side::Outbound), Operation::Reset(Side::Outbound)] {
        let lost = |scheme: &str| {
            let bench = run_without_loss(scheme, vec![(ms(250), operation)]);
            assert!(bench.delivered < 200_000, "{scheme}");
            bench.acknowledged_undelivered()
        };
        assert!(lost("i-tcp") > 5_000 && lost("mtcp") > 5_000 && lost("rnf") > 5_000);
        assert_eq!((lost("i-tcp:ack_on_delivery=true"), lost("m-tcp")), (0, 0));
    }
}

/// A reset of either side is relayed to the other. If the server disappears, the mobile gets all
/// data that it had sent.
#[test]
fn resets_are_relayed() {
    for scheme in ["i-tcp", "i-tcp:ack_on_delivery=true", "mtcp", "m-tcp", "rnf"] {
        for side in [Side::Inbound, Side::Outbound] {
            let bench = run_without_loss(scheme, vec![(ms(250), Operation::Reset(side))]);
            assert_eq!(bench.resets(), [true; 2], "{scheme} {side:?}");
            assert!(bench.delivered < 200_000);
        }
        let bench = run_without_loss(scheme, vec![(ms(250), Operation::Vanish(Side::Inbound))]);
        assert!(
            bench.delivered > 0 && bench.delivered < 200_000 && bench.held() == 0,
            "{scheme} {}",
            bench.held()
        );
        assert_eq!(run_without_loss(scheme, vec![]).delivered, 200_000);
        // The mobile's window, and therefore the relay's, is closed for three seconds.
        let read = [(ms(150), Operation::Read(false)), (ms(3150), Operation::Read(true))];
        assert_eq!(run_without_loss(scheme, read.to_vec()).delivered, 200_000);
    }
}

/// `make test-rest` and `make test-long` run five times as many as `make test`.
fn cases() -> u32 {
    let usual = if std::env::var_os("LASTHOP_LONG_TESTS").is_some() { 10_000 } else { 2_000 };
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 500,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_byte_is_conserved(case in case()) {
        run_case(&case).map_err(TestCaseError::fail)?;
    }
}
