use super::*;
use crate::schemes::link_layer::pacing_bench::{Bench, RATE};
use proptest::prelude::*;

fn bench(settings: &str, rate: Option<Rate>) -> Bench<RateControlAgent> {
    let config: RateControl = toml::from_str(settings).unwrap();
    config.check().unwrap();
    Bench::new(RateControlAgent::new(config), rate)
}

/// The handshake: the first data come 60 ms after the answer to the SYN, and their ACK 100 ms
/// later. 50 segments in 1 s.
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

/// 50 segments a second and a round trip of 60 + 100 ms: 8 segments, and two more. The SYN's window
/// is the receiver's.
#[test]
fn the_window_is_rate_times_round_trip() {
    let mut b = opened("", Some(RATE));
    assert_eq!(windows(&b), [5, 10]);
    b.ack(200, 2);
    assert_eq!(windows(&b), [5, 10, 10]);
    assert_eq!(windows(&opened("slack = 0", Some(RATE))), [5, 8]);
    assert_eq!(
        windows(&opened("rate = \"100 kbps\"\nslack = 0", None)),
        [5, 4],
        "12.5 kB/s make 2; the sender may have sent 5"
    );
    assert_eq!(windows(&opened("window = false", Some(RATE))), [5, 100]);
    assert_eq!(windows(&opened("", None)), [5, 100], "no rate, no window");
    assert_eq!(b.agent.counters()[2], ("windows_rewritten", 2));
}

/// A longer round trip changes nothing, for it is the queue's; a shorter one does.
#[test]
fn the_shortest_round_trip_counts() {
    let mut b = opened("", Some(RATE));
    (1..4).for_each(|k| b.data(200 + k, k));
    b.ack(600, 4);
    assert_eq!(windows(&b).last(), Some(&10));
    b.data(650, 4);
    b.ack(700, 5);
    assert_eq!(
        windows(&b).last(),
        Some(&9),
        "5.5 and 2, but the sender may send up to 14 already: 14 less 5 is 9"
    );
    let mut b = opened("shortest_rtt = false", Some(RATE));
    (1..4).for_each(|k| b.data(200 + k, k));
    b.ack(600, 4);
    assert!(windows(&b).last() > Some(&10), "{:?}", windows(&b));
}

#[test]
fn a_window_is_neither_enlarged_nor_taken_back() {
    let mut b = opened("slack = 0", Some(RATE));
    // The receiver offers less.
    b.window = 3;
    b.ack(300, 2);
    assert_eq!(windows(&b).last(), Some(&3));
    // A closed window is the receiver's word.
    b.window = 0;
    b.ack(400, 3);
    assert_eq!(windows(&b).last(), Some(&0));
    b.window = 100;
    b.ack(500, 4);
    assert_eq!(windows(&b).last(), Some(&8));
    // An old ACK is let alone.
    b.ack(600, 1);
    assert_eq!(windows(&b).last(), Some(&100));
    // Least: two segments.
    assert_eq!(windows(&opened("rate = \"1 kbps\"\nslack = 0", None)), [5, 4]);
    let mut b = opened("rate = \"1 kbps\"\nslack = 0\npacing = false", None);
    (1..9).for_each(|k| b.ack(200 + k, k));
    assert_eq!(windows(&b)[2..], [4, 3, 2, 2, 2, 2, 2, 2]);
}

#[test]
fn acks_come_at_the_rate() {
    let mut b = opened("", Some(RATE));
    (1..30).for_each(|k| b.data(165, k));
    (2..7).for_each(|k| b.ack(200, k));
    assert_eq!(b.until(500).since(200), [(200, 2), (220, 3), (240, 4), (260, 5), (280, 6)]);
    let mut b = opened("pacing = false", Some(RATE));
    (2..7).for_each(|k| b.ack(200, k));
    assert_eq!(b.since(200).len(), 5);
}

#[test]
fn state_moves() {
    let mut b = opened("", Some(RATE));
    let state = b.agent.export(1).unwrap();
    let mut other = bench("", Some(RATE));
    assert!(other.agent.import(1, &state) && !other.agent.import(1, &state[..39]));
    other.data(200, 9);
    other.ack(300, 2);
    assert_eq!(windows(&other), [10]);
    assert!(toml::from_str::<RateControl>("rate = \"0 bps\"").unwrap().check().is_err());
}

proptest! {
    /// Every ACK goes on, in order; its window is at most the receiver's; and the edge of what may
    /// be sent never goes back but where the receiver's own does.
    #[test]
    fn the_edge_never_goes_back(steps in prop::collection::vec((0u64..300, 0u64..3, 0u8..30), 1..200), rate in 1_000u64..5_000_000) {
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
        // In whole segments: a window is cut off to bytes, and shown in segments.
        prop_assert!(b.seen.windows(2).all(|w| w[1].ack + w[1].window + 1 >= w[0].ack + w[0].window));
    }
}
