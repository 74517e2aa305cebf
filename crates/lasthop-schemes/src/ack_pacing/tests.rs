use super::*;
use crate::testing::pacing_bench::{Bench, RATE};
use proptest::prelude::*;

fn bench(settings: &str, rate: Option<Rate>) -> Bench<AckPacingAgent> {
    let config: AckPacing = crate::testing::settings(settings);
    config.check().unwrap();
    Bench::new(AckPacingAgent::new(config), rate)
}

/// Twenty segments without stall, then forty more in flight, whose ACKs begin after a stall of
/// `silence` ms.
fn stalled(settings: &str, rate: Option<Rate>, silence: u64) -> (Bench<AckPacingAgent>, u64) {
    let mut b = bench(settings, rate);
    let last = b.calm(20);
    assert_eq!(b.since(0).len(), 20);
    (20..60).for_each(|k| b.data(last + 1, k));
    (b, last + silence)
}

/// zeng2006 chapter 5: the fourth ACK within one mean gap indicates ACK compression. From it on
/// each ACK is held for the time that the data it releases take on the radio link.
#[test]
fn acks_after_a_stall_are_spaced() {
    let (mut b, t) = stalled("", Some(RATE), 600);
    (0..10).for_each(|i| b.ack(t + i, 21 + i));
    b.until(t + 1000);
    let expected = [
        (0, 21),
        (1, 22),
        (2, 23),
        (22, 24),
        (42, 25),
        (62, 26),
        (82, 27),
        (102, 28),
        (122, 29),
        (142, 30),
    ];
    assert_eq!(b.since(t), expected.map(|(ms, k)| (t + ms, k)));
    assert_eq!(b.agent.counters()[..3], [("acks_held", 7), ("most_held", 7), ("trains", 1)]);
    // ACKs that arrive at the normal pace are forwarded.
    (0..5).for_each(|i| b.ack(t + 1000 + 20 * i, 31 + i));
    assert_eq!(b.since(t + 1000), (0..5).map(|i| (t + 1000 + 20 * i, 31 + i)).collect::<Vec<_>>());
    assert_eq!(b.agent.counters()[2], ("trains", 1));
}

#[test]
fn short_gaps_and_slow_acks_are_not_held() {
    let (mut b, t) = stalled("", Some(RATE), 190);
    (0..10).for_each(|i| b.ack(t + i, 21 + i));
    assert_eq!(b.since(t), (0..10).map(|i| (t + i, 21 + i)).collect::<Vec<_>>());
    let (mut b, t) = stalled("", Some(RATE), 600);
    (0..10).for_each(|i| b.ack(t + 10 * i, 21 + i));
    assert_eq!(b.since(t).len(), 10, "every second gap exceeds the mean gap");
    assert_eq!(b.agent.counters()[0], ("acks_held", 0));
    // Without stall detection they are held.
    let (mut b, t) = stalled("detect = false", Some(RATE), 190);
    (0..4).for_each(|i| b.ack(t + i, 21 + i));
    assert_eq!(
        b.until(t + 500).since(t),
        [(0, 21), (20, 22), (40, 23), (60, 24)].map(|(ms, k)| (t + ms, k))
    );
}

#[test]
fn acks_are_not_reordered() {
    // A duplicate ACK is forwarded with the ACK that it repeats, an old ACK in order.
    let (mut b, t) = stalled("", Some(RATE), 600);
    for (i, k) in [21, 22, 23, 24, 25, 25, 24, 26].into_iter().enumerate() {
        b.ack(t + i as u64, k);
    }
    assert_eq!(
        b.until(t + 500).since(t + 10),
        [(22, 24), (42, 25), (42, 25), (42, 24), (62, 26)].map(|(ms, k)| (t + ms, k))
    );
    // An ACK with further information releases all held ones.
    for flag in [Flags::SACK, Flags::ECE, Flags::ELN, Flags::FIN, Flags::RST] {
        let (mut b, t) = stalled("", Some(RATE), 600);
        (0..6).for_each(|i| b.ack(t + i, 21 + i));
        b.marked(t + 9, 27, flag);
        assert_eq!(
            b.since(t + 9),
            [(t + 9, 24), (t + 9, 25), (t + 9, 26), (t + 9, 27)],
            "{flag:?}"
        );
        assert_eq!(b.waiting(), 0);
    }
}

#[test]
fn delay_and_number_of_held_acks_are_bounded() {
    let (mut b, t) = stalled("max_hold = \"50 ms\"", Some(RATE), 600);
    (0..10).for_each(|i| b.ack(t + i, 21 + i));
    assert_eq!(
        b.until(t + 500).since(t + 3),
        [(22, 24), (42, 25), (55, 26), (56, 27), (57, 28), (58, 29), (59, 30)]
            .map(|(ms, k)| (t + ms, k))
    );
    let (mut b, t) = stalled("max_acks = 3", Some(RATE), 600);
    (0..8).for_each(|i| b.ack(t + i, 21 + i));
    assert_eq!(b.since(t + 3), [(t + 6, 24), (t + 7, 25)]);
    assert_eq!((b.waiting(), b.agent.counters()[1]), (3, ("most_held", 3)));
}

#[test]
fn rate_is_the_links_share_or_the_measured_one() {
    let spaces = |b: &mut Bench<AckPacingAgent>, t: u64| {
        (0..6).for_each(|i| b.ack(t + i, 21 + i));
        let seen = b.until(t + 500).since(t + 3);
        seen.windows(2).map(|w| w[1].0 - w[0].0).collect::<Vec<_>>()
    };
    // Another flow with data outstanding gets half of the rate.
    let (mut b, t) = stalled("", Some(RATE), 600);
    b.flow = 2;
    b.data(t - 1, 0);
    b.flow = 1;
    assert_eq!(spaces(&mut b, t), [40, 40]);
    // The link is twice as fast.
    let (mut b, t) = stalled("", Some(Rate(2 * RATE.0)), 600);
    assert_eq!(spaces(&mut b, t), [10, 10]);
    // Before the stall an ACK for one segment arrived every 20 ms, independent of the link's rate.
    for (settings, rate) in [("rate = \"measured\"", Some(Rate(5 * RATE.0))), ("", None)] {
        let (mut b, t) = stalled(settings, rate, 600);
        assert_eq!(spaces(&mut b, t), [20, 20], "{settings} {rate:?}");
    }
}

#[test]
fn removed_flows_release_their_acks() {
    let (mut b, t) = stalled("max_flows = 1", Some(RATE), 600);
    (0..6).for_each(|i| b.ack(t + i, 21 + i));
    b.flow = 2;
    b.data(t + 6, 0);
    assert_eq!(b.since(t + 3), [(t + 6, 24), (t + 6, 25), (t + 6, 26)]);
    assert_eq!((b.waiting(), b.agent.counters()[4]), (0, ("flows_evicted", 1)));
    // A handover transfers the estimates.
    let (mut b, t) = stalled("", Some(RATE), 600);
    let state = b.agent.export(1).unwrap();
    let mut other = bench("", None);
    assert!(
        other.agent.import(1, &state)
            && !other.agent.import(1, &state[1..])
            && !other.agent.import(1, &[])
    );
    other.ack(t - 590, 20);
    (0..6).for_each(|i| other.ack(t + i, 21 + i));
    assert_eq!(other.until(t + 500).since(t + 3), [(t + 22, 24), (t + 42, 25), (t + 62, 26)]);
}

proptest! {
    /// Every ACK is forwarded, in order, after at most `max_hold`.
    #[test]
    fn every_ack_is_forwarded_in_order(
        steps in prop::collection::vec((0u64..400, 0u64..3, 0u8..30), 1..200),
        detect: bool,
        rate in prop::option::of(1u64..5_000_000),
    ) {
        let settings = format!("detect = {detect}\nmax_hold = \"300 ms\"\nmax_acks = 20");
        let mut b = bench(&settings, rate.map(Rate));
        let (mut t, mut k, mut arrived) = (0, 0, Vec::new());
        for (gap, new, kind) in steps {
            // Most arrivals are close together.
            t += if kind < 20 { gap / 100 } else { gap };
            k += new;
            b.data(t, k + 5);
            b.marked(t, k, if kind == 29 { Flags::SACK } else { Flags::NONE });
            arrived.push((t, k));
        }
        b.until(t + 300);
        prop_assert_eq!(b.waiting(), 0);
        prop_assert!(b.seen.iter().map(|s| s.ack).eq(arrived.iter().map(|c| c.1)));
        prop_assert!(b.seen.iter().zip(&arrived).all(|(s, c)| s.ms >= c.0 && s.ms <= c.0 + 300));
        prop_assert!(b.seen.iter().map(|s| s.id).is_sorted());
    }
}
