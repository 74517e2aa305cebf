use super::*;
use crate::testing::pacing_bench::{Bench, RATE, Seen};
use proptest::prelude::*;

fn bench(settings: &str, rate: Option<Rate>) -> Bench<RateControlAgent> {
    let config: RateControl = crate::testing::settings(settings);
    config.check().unwrap();
    Bench::new(RateControlAgent::new(config), rate)
}

/// After the handshake: the first data arrive 60 ms after the SYN-ACK, their ACK 100 ms later. The
/// link carries 50 segments in 1 s.
fn opened(settings: &str, rate: Option<Rate>) -> Bench<RateControlAgent> {
    let mut b = bench(settings, rate);
    b.window = 5;
    b.marked(0, 0, Flags::SYN);
    b.window = 100;
    b.data(60, 0);
    b.ack(160, 1);
    b
}

fn windows(b: &Bench<RateControlAgent>) -> Vec<u64> {
    b.seen.iter().map(|s| s.window).collect()
}

/// 50 segments/s × an RTT of 60 + 100 ms give 8 segments, plus a slack of 2. The window of the
/// SYN-ACK is the receiver's.
#[test]
fn window_is_rate_times_rtt() {
    let mut b = opened("", Some(RATE));
    assert_eq!(windows(&b), [5, 10]);
    b.ack(200, 2);
    assert_eq!(windows(&b), [5, 10, 10]);
    assert_eq!(windows(&opened("slack = 0", Some(RATE))), [5, 8]);
    assert_eq!(
        windows(&opened("rate = \"100 kbps\"\nslack = 0", None)),
        [5, 4],
        "12.5 kB/s give 2 segments, but the sender may have sent 5"
    );
    assert_eq!(windows(&opened("window = false", Some(RATE))), [5, 100]);
    assert_eq!(windows(&opened("", None)), [5, 100], "without a rate the window is unchanged");
    assert_eq!(b.agent.counters()[2], ("windows_rewritten", 2));
}

/// A longer RTT changes nothing, because it is due to the queue; a shorter one reduces the window.
#[test]
fn window_uses_the_minimum_rtt() {
    let mut b = opened("", Some(RATE));
    (1..4).for_each(|k| b.data(200 + k, k));
    b.ack(600, 4);
    assert_eq!(windows(&b).last(), Some(&10));
    b.data(650, 4);
    b.ack(700, 5);
    assert_eq!(
        windows(&b).last(),
        Some(&9),
        "5.5 plus 2 segments, but the window edge of 14 must not move back: 14 - 5 = 9"
    );
    let mut b = opened("shortest_rtt = false", Some(RATE));
    (1..4).for_each(|k| b.data(200 + k, k));
    b.ack(600, 4);
    assert!(windows(&b).last() > Some(&10), "{:?}", windows(&b));
}

#[test]
fn window_is_not_enlarged_and_its_edge_does_not_move_back() {
    let mut b = opened("slack = 0", Some(RATE));
    // The receiver's window is smaller.
    b.window = 3;
    b.ack(300, 2);
    assert_eq!(windows(&b).last(), Some(&3));
    // A zero window is not changed.
    b.window = 0;
    b.ack(400, 3);
    assert_eq!(windows(&b).last(), Some(&0));
    b.window = 100;
    b.ack(500, 4);
    assert_eq!(windows(&b).last(), Some(&8));
    // An old ACK is not changed.
    b.ack(600, 1);
    assert_eq!(windows(&b).last(), Some(&100));
    // The minimum window is two segments.
    assert_eq!(windows(&opened("rate = \"1 kbps\"\nslack = 0", None)), [5, 4]);
    let mut b = opened("rate = \"1 kbps\"\nslack = 0\npacing = false", None);
    (1..9).for_each(|k| b.ack(200 + k, k));
    assert_eq!(windows(&b)[2..], [4, 3, 2, 2, 2, 2, 2, 2]);
}

#[test]
fn acks_are_spaced_at_the_rate() {
    let mut b = opened("", Some(RATE));
    (1..30).for_each(|k| b.data(165, k));
    (2..7).for_each(|k| b.ack(200, k));
    assert_eq!(b.until(500).since(200), [(200, 2), (220, 3), (240, 4), (260, 5), (280, 6)]);
    let mut b = opened("pacing = false", Some(RATE));
    (2..7).for_each(|k| b.ack(200, k));
    assert_eq!(b.since(200).len(), 5);
}

#[test]
fn state_can_be_exported_and_imported() {
    let mut b = opened("", Some(RATE));
    let state = b.agent.export(1).unwrap();
    let mut other = bench("", Some(RATE));
    assert!(other.agent.import(1, &state) && !other.agent.import(1, &state[..39]));
    other.data(200, 9);
    other.ack(300, 2);
    assert_eq!(windows(&other), [10]);
    assert!(crate::testing::settings::<RateControl>("rate = \"0 bps\"").check().is_err());
}

proptest! {
    /// Every ACK is forwarded, in order. Its window is at most the receiver's, and the window edge
    /// does not move back unless the receiver's does.
    #[test]
    fn window_edge_never_moves_back(
        steps in prop::collection::vec((0u64..300, 0u64..3, 0u8..30), 1..200),
        rate in 1_000u64..5_000_000,
    ) {
        let mut b = bench("max_hold = \"300 ms\"", Some(Rate(rate)));
        b.window = 40;
        b.marked(0, 0, Flags::SYN);
        let (mut t, mut k, mut n) = (0, 0, 1);
        for (gap, new, kind) in steps {
            t += if kind < 20 { gap / 50 } else { gap };
            k += new;
            b.data(t, k + 5);
            b.marked(t, k, if kind == 29 { Flags::SACK } else { Flags::NONE });
            n += 1;
        }
        b.until(t + 300);
        prop_assert_eq!((b.seen.len(), b.waiting()), (n, 0));
        prop_assert!(b.seen.iter().map(|s| s.id).is_sorted());
        prop_assert!(b.seen.iter().all(|s| s.window <= 40 && s.window >= 2));
        // Tolerance of one segment: windows are rounded down to whole segments here.
        let edge = |s: &Seen| s.ack + s.window;
        prop_assert!(b.seen.windows(2).all(|w| edge(&w[1]) + 1 >= edge(&w[0])));
    }
}
