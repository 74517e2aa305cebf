//! Relays of split schemes conserve every byte, whatever happens to either leg.

mod bench;

use bench::{Bench, Case, Channel, Deed};
use lasthop::leg::Side;
use lasthop::tcp::profile::ProfileName;
use lasthop::units::Duration;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn ms(t: u64) -> Duration {
    Duration::millis(t)
}

fn channel() -> impl Strategy<Value = Channel> {
    let share = |most: f64| prop_oneof![2 => Just(0.0), 1 => 0.0..most];
    (share(0.25), share(0.3), 1u64..120, prop_oneof![Just(0u64), 1u64..200]).prop_map(
        |(loss, twice, delay, jitter)| Channel {
            loss,
            twice,
            delay: ms(delay),
            jitter: ms(jitter),
        },
    )
}

fn scheme() -> impl Strategy<Value = String> {
    let over = prop_oneof![
        Just("reno"),
        Just("newreno"),
        Just("sack"),
        Just("rack"),
        Just("cubic"),
        Just("bbr")
    ];
    let buffer = || prop_oneof![1 => 300u64..2000, 3 => 2000u64..40_000];
    prop_oneof![
        (buffer(), any::<bool>(), over.clone()).prop_map(|(b, late, over)| format!(
            "i-tcp:buffer={b}B:ack_on_delivery={late}:sender={over}"
        )),
        (buffer(), 1u64..3000, 1u64..40, prop_oneof![Just(0u64), 1u64..1500], over.clone())
            .prop_map(|(b, w, n, s, over)| format!(
                "m-tcp:buffer={b}B:withhold={w}B:window={n} segments:silence={s}ms:sender={over}"
            )),
        (buffer(), any::<bool>(), 1u64..40, 1u32..5, over.clone()).prop_map(
            |(b, srp, n, t, over)| {
                let second = if srp { "srp" } else { "tcp" };
                format!(
                    "mtcp:buffer={b}B:second={second}:window={n} segments:timer={t}:sender={over}"
                )
            }
        ),
        (buffer(), 0u64..20, any::<[bool; 2]>(), over).prop_map(
            |(b, q, [again, steer], over)| format!(
                "rnf:buffer={b}B:queue={q} \
                 segments:resend={again}:steer_server={steer}:sender={over}"
            )
        ),
    ]
}

fn deeds() -> impl Strategy<Value = Vec<(Duration, Deed)>> {
    let at = || (0u64..6000).prop_map(ms);
    let side = || prop_oneof![Just(Side::Inbound), Just(Side::Outbound)];
    let pause = (at(), 1u64..4000).prop_map(|(from, length)| {
        vec![(from, Deed::Read(false)), (from + ms(length), Deed::Read(true))]
    });
    let ends = prop_oneof![
        5 => Just(vec![]),
        1 => (at(), side()).prop_map(|(at, side)| vec![(at, Deed::Reset(side))]),
        1 => (at(), side()).prop_map(|(at, side)| vec![(at, Deed::Vanish(side))]),
    ];
    let late = prop::option::weighted(0.3, (at(), 1u64..20_000))
        .prop_map(|w| w.map(|(at, n)| (at, Deed::Write(n))));
    (prop::option::weighted(0.3, pause), late, ends).prop_map(|(pause, late, ends)| {
        pause.unwrap_or_default().into_iter().chain(late).chain(ends).collect()
    })
}

fn case() -> impl Strategy<Value = Case> {
    let profile = prop_oneof![2 => Just(ProfileName::Rfc), 2 => Just(ProfileName::Linux), 1 => Just(ProfileName::Ns235)];
    let outages =
        prop::collection::vec((0u64..5000, 1u64..4000, any::<bool>()), 0..2).prop_map(|spans| {
            spans.into_iter().map(|(from, length, told)| (ms(from), ms(length), told)).collect()
        });
    let channels = [channel(), channel(), channel(), channel()];
    (scheme(), profile, 1u64..40_000, 500u64..40_000, channels, outages, deeds(), any::<u64>())
        .prop_map(|(scheme, profile, size, buffer, channels, outages, deeds, seed)| Case {
            scheme,
            profile,
            size,
            buffer,
            channels,
            outages,
            deeds,
            seed,
        })
}

/// Plays a case to its end.
fn play(case: &Case) -> Result<(), String> {
    let mut bench = Bench::new(case);
    bench.run()?;
    let vanished = case.deeds.iter().any(|d| matches!(d.1, Deed::Vanish(_)));
    if !vanished && !bench.is_reset() && bench.delivered != bench.written {
        return Err(format!("it ends with {} of {} bytes", bench.delivered, bench.written));
    }
    // What the server holds for delivered and is not is what is lost with the relay's buffer.
    let lost = bench.acknowledged_undelivered();
    if lost > 0 && !vanished && !bench.is_reset() {
        return Err(format!("{lost} bytes were acknowledged and never delivered"));
    }
    Ok(())
}

/// A clean case: 200 000 bytes, 20 ms and 100 ms.
fn clean(scheme: &str, deeds: Vec<(Duration, Deed)>) -> Bench {
    let channel = |delay| Channel { loss: 0.0, twice: 0.0, delay: ms(delay), jitter: ms(0) };
    let channels = [channel(10), channel(10), channel(50), channel(50)];
    let case = Case {
        scheme: scheme.into(),
        profile: ProfileName::Rfc,
        size: 200_000,
        buffer: 20_000,
        channels,
        outages: vec![],
        deeds,
        seed: 1,
    };
    let mut bench = Bench::new(&case);
    bench.run().unwrap();
    bench
}

/// Who acknowledges what it receives loses what it holds when the mobile is gone, and says how
/// much; who waits for the mobile loses nothing.
#[test]
fn what_was_acknowledged_and_never_delivered_is_counted() {
    for deed in [Deed::Vanish(Side::Outbound), Deed::Reset(Side::Outbound)] {
        let lost = |scheme: &str| {
            let bench = clean(scheme, vec![(ms(250), deed)]);
            assert!(bench.delivered < 200_000, "{scheme}");
            bench.acknowledged_undelivered()
        };
        assert!(lost("i-tcp") > 5_000 && lost("mtcp") > 5_000 && lost("rnf") > 5_000);
        assert_eq!((lost("i-tcp:ack_on_delivery=true"), lost("m-tcp")), (0, 0));
    }
}

/// A reset of either side is relayed to the other; a server that is gone leaves the mobile with all
/// that it had sent.
#[test]
fn a_reset_is_relayed() {
    for scheme in ["i-tcp", "i-tcp:ack_on_delivery=true", "mtcp", "m-tcp", "rnf"] {
        for side in [Side::Inbound, Side::Outbound] {
            let bench = clean(scheme, vec![(ms(250), Deed::Reset(side))]);
            assert_eq!(bench.resets(), [true; 2], "{scheme} {side:?}");
            assert!(bench.delivered < 200_000);
        }
        let bench = clean(scheme, vec![(ms(250), Deed::Vanish(Side::Inbound))]);
        assert!(
            bench.delivered > 0 && bench.delivered < 200_000 && bench.held() == 0,
            "{scheme} {}",
            bench.held()
        );
        assert_eq!(clean(scheme, vec![]).delivered, 200_000);
        // The mobile's window closes for three seconds, and the relay's behind it.
        let read = [(ms(150), Deed::Read(false)), (ms(3150), Deed::Read(true))];
        assert_eq!(clean(scheme, read.to_vec()).delivered, 200_000);
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), rng_seed: RngSeed::Fixed(1), failure_persistence: None, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_conserved(case in case()) {
        play(&case).map_err(TestCaseError::fail)?;
    }
}
