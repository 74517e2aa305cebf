use super::*;
use proptest::prelude::*;

fn sample(prior_delivered: u64, total_delivered: u64) -> RateSample {
    RateSample {
        rate: 1.0,
        delivered: 1,
        interval: Duration::millis(1),
        prior_delivered,
        total_delivered,
        app_limited: false,
        tx_in_flight: 0,
        rtt: None,
        lost: 0,
        newly_lost: 0,
    }
}

#[test]
fn a_round_ends_with_the_first_segment_sent_after_its_beginning() {
    let mut r = PacketRounds::default();
    let mut starts = |prior, total| {
        r.on_ack(Some(&sample(prior, total)));
        (r.started, r.count)
    };
    assert_eq!(starts(0, 1000), (true, 1));
    assert_eq!(starts(0, 2000), (false, 1));
    assert_eq!(starts(1000, 3000), (true, 2));
    assert_eq!(starts(2000, 4000), (false, 2));
    r.restart(9000);
    r.on_ack(Some(&sample(8000, 10_000)));
    assert!(!r.started);
    r.on_ack(None);
    assert!(!r.started);
}

#[test]
fn aggregation_counts_what_comes_faster_than_the_bandwidth() {
    let ms = |t: u64| Time(t * 1_000_000);
    let mut a = Aggregation::new(ms(0));
    // 100 kB/s is 1000 bytes in 10 ms. Nothing for 50 ms, then five segments at once.
    let at_once: Vec<f64> = (0..5).map(|_| a.on_ack(ms(50), 1000, 100_000.0, 1e9)).collect();
    assert_eq!(at_once, [1000.0, 2000.0, 3000.0, 4000.0, 5000.0]);
    assert_eq!(a.on_ack(ms(60), 1000, 100_000.0, 1e9), 5000.0);
    assert_eq!(a.on_ack(ms(60), 1000, 100_000.0, 2500.0), 2500.0, "not above cwnd");
    assert_eq!(a.on_ack(ms(500), 1000, 100_000.0, 1e9), 1000.0, "a new stretch");
}

#[test]
fn pacing_starts_with_a_window_for_each_round_trip() {
    let mut p = PacingRate::default();
    p.start(2.0, 10_000.0, Some(Duration::millis(100)), 1000.0);
    // 2 · 10 kB / 100 ms · 99 % = 198 kB/s
    assert_eq!(p.get(), Rate(1_584_000));
    p.raise(1.0, 100_000.0);
    assert_eq!((p.get(), p.quantum()), (Rate(1_584_000), 2000.0));
    p.set(1.0, 100_000.0);
    assert_eq!((p.get(), p.quantum()), (Rate(792_000), 1000.0));
    p.set(1.0, 0.0);
    assert_eq!(p.get(), Rate(1), "never nothing");
}

proptest! {
    #[test]
    fn the_maximum_is_that_of_the_window(
        steps in prop::collection::vec((0u64..20, 0u32..1000), 1..200),
        window in 1u64..15,
    ) {
        let (mut m, mut now, mut all) = (WindowedMax::default(), 0, Vec::new());
        for (dt, value) in steps {
            now += dt;
            all.push((now, value));
            m.update(now, window, f64::from(value));
            let recent = all.iter().filter(|(t, _)| t + window >= now);
            let expected = recent.map(|v| v.1).max().unwrap();
            prop_assert_eq!(m.get(), f64::from(expected));
        }
    }
}
