//! The reorder buffer: order, retries, and how long it waits.

use super::{Bench, mac, station, wifi};
use crate::air::config::{LossConfig, OutageConfig, OutageRule};
use crate::air::loss::Scripted;
use crate::link::cell::config::StationConfig;
use crate::link::cell::mac::Mac;
use crate::link::cell::phy::Generation;
use crate::queue::QueueConfig;
use lasthop_core::framing::Step;
use lasthop_core::segment::Handle;
use lasthop_core::units::{Duration, Share, Time};

/// A station whose third packet is lost in its first attempt.
fn lossy() -> StationConfig {
    let scripted = Scripted { data: vec!["1:3".into()], acks: vec![], damaged: false };
    StationConfig { up: LossConfig::Scripted(scripted), ..station(1) }
}

#[test]
fn a_lost_mpdu_delays_what_follows_it_and_is_sent_again() {
    let mut b = Bench::new(mac(), wifi(Generation::Ht), vec![station(0), lossy()], 1538);
    // The first frame finds the medium idle and goes alone, the others as an aggregate.
    for _ in 0..6 {
        b.offer(Time::ZERO, 1);
    }
    b.run();
    let order: Vec<Handle> = b.delivered.iter().map(|d| d.1).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
    let failed: Vec<(Handle, u32)> = b
        .ended
        .iter()
        .filter(|(_, e)| e.step == Step::More)
        .map(|(a, _)| (a.frame.handle, a.number))
        .collect();
    assert_eq!(failed.len(), 1);
    assert!(b.ended.iter().any(|(_, e)| e.held));
}

#[test]
fn no_packet_is_lost_before_the_retry_limit_and_the_order_is_kept() {
    for (rate, attempts) in [(0.1, 7), (0.5, 3), (0.9, 2)] {
        let lossy = |i| StationConfig {
            up: LossConfig::uniform(Share(rate)),
            queue: QueueConfig::UNLIMITED,
            ..station(i)
        };
        let mac = Mac { attempts, ..mac() };
        let stations = vec![station(0), lossy(1), lossy(2), lossy(3)];
        let mut b = Bench::new(mac, wifi(Generation::Ht), stations, 1538);
        for k in 0..3_000_u64 {
            b.offer(Time::ZERO, 1 + (k % 3) as usize);
        }
        b.run();
        let lost: Vec<_> = b.ended.iter().filter(|(_, e)| e.loses()).collect();
        // A packet that its receiver has stopped waiting for is lost when it arrives.
        assert!(lost.iter().all(|(a, e)| a.number == attempts || e.received));
        assert_eq!(lost.len() + b.delivered.len(), 3_000, "{rate}");
        for i in 1..4 {
            let of: Vec<_> = b.delivered.iter().filter(|d| d.0 == i).map(|d| d.1).collect();
            assert!(of.is_sorted(), "{rate} {i}");
        }
    }
}

/// The receiver waits for a missing MPDU for 100 ms, as mac80211 does: other networks keep the
/// sender from sending it again.
#[test]
fn the_reorder_buffer_does_not_wait_longer_than_its_timeout() {
    let busy = |length_ms| {
        let (from, length) = (Duration::micros(1_200), Duration::millis(length_ms));
        let others = vec![OutageConfig { from, length, frames: OutageRule::default() }];
        let stations = vec![station(0), lossy()];
        let mut b = Bench::with_others(mac(), wifi(Generation::Ht), others, stations, 1538);
        for _ in 0..6 {
            b.offer(Time::ZERO, 1);
        }
        b.run();
        let order: Vec<Handle> = b.delivered.iter().map(|d| d.1).collect();
        let lost: Vec<Handle> =
            b.ended.iter().filter(|(_, e)| e.loses()).map(|(a, _)| a.frame.handle).collect();
        (order, lost)
    };
    assert_eq!(busy(90), (vec![0, 1, 2, 3, 4, 5], vec![]));
    // The missing one is acknowledged when it arrives, but goes no further.
    let (order, lost) = busy(150);
    assert_eq!(lost.len(), 1);
    assert_eq!(order, (0..6).filter(|h| !lost.contains(h)).collect::<Vec<_>>());
}
