//! Token buckets, copies and undetected bit errors of links, in whole runs. `watch` runs the
//! verifier, which predicts each drop of a policer and each start behind a shaper.

use crate::support::*;
use lasthop::air::token_bucket::TokenBucketConfig;
use lasthop::link::impairment::Impairments;
use lasthop::scenario::network::{App, Flow, Link, Network, Role};
use lasthop::tcp::profile::ProfileName;
use lasthop::traffic::Cbr;
use lasthop::units::{Duration, Rate, Share, Size};
use lasthop_sim::events::Kind;

/// 1 Mbps and 3750 bytes: three frames of `datagrams`.
const BUCKET: Option<TokenBucketConfig> =
    Some(TokenBucketConfig { rate: Rate(1_000_000), burst: Size::Bytes(3750) });

/// Datagrams of 1250 bytes, one each millisecond for a second, over one link.
fn datagrams(link: Link) -> Network {
    let app = App::Cbr(Cbr { rate: Rate(8_000_000) });
    let flow =
        Flow { to: 1, headers: 250, stop: Some(ms(1000)), ..flow("reno", ProfileName::Rfc, app) };
    network(&[Role::Server, Role::Station], vec![link], vec![flow], Duration::secs(10))
}

/// A transfer over a last hop whose links have these impairments.
fn impaired(impairments: Impairments) -> Network {
    let mut network = last_hop(vec![rfc("newreno", 300)], Duration::secs(60));
    network.links.iter_mut().for_each(|l| l.impairments = impairments.clone());
    network
}

#[test]
fn a_shaper_sends_its_burst_at_the_rate_of_the_line() {
    let link = Link { shaper: BUCKET, ..link(0, 1, mbps(10.0), ms(10)) };
    let run = watch(&datagrams(link), 1);
    let arrivals: Vec<f64> = run.log.of(Kind::Arrived).map(|e| e.t as f64 / 1e6).collect();
    // 30 000 bits at once; at 2 ms 2000 bits are left, and 10 000 are there at 10 ms.
    assert_eq!(arrivals[..6], [11.0, 12.0, 13.0, 21.0, 31.0, 41.0]);
    assert_eq!(run.result.traffic_bits.balance(), 0);
}

#[test]
fn a_policer_passes_its_burst_and_its_rate() {
    let impairments = Impairments { policer: BUCKET, ..Impairments::default() };
    let link = Link { impairments, ..link(0, 1, mbps(100.0), ms(10)) };
    let run = watch(&datagrams(link), 1);
    let link = &run.result.links[0];
    // In 999 ms 999 000 bits arrive besides the 30 000 of the burst: 102 frames of 10 000.
    assert_eq!((link.offered_frames, link.delivered_frames), (1000, 102));
    assert_eq!((link.dropped_at_queue, link.dropped_by_policer), (898, Some(898)));
    let mut drops = run.log.of(Kind::DroppedAtQueue);
    assert!(drops.all(|e| e.reason == "policer"));
    assert_eq!(run.result.traffic_bits.queue_drops, 898 * 10_000);
    assert_eq!(run.result.traffic_bits.balance(), 0);
}

#[test]
fn a_link_duplicates_every_frame() {
    let run =
        watch(&impaired(Impairments { duplicate: Some(Share(1.0)), ..Impairments::default() }), 1);
    for link in &run.result.links {
        let copies = link.duplicated_frames.unwrap();
        assert!(copies > 0 && link.offered_frames == 2 * copies, "{link:?}");
    }
    assert!(run.result.flows[0].completed_s.is_some());
    let traffic = &run.result.traffic_bits;
    assert!(traffic.duplicated_by_link > 0 && traffic.duplicates > 0);
    assert_eq!(traffic.balance(), 0);
}

#[test]
fn frames_with_bit_errors_arrive_and_are_discarded() {
    let run =
        watch(&impaired(Impairments { corrupt: Some(Share(0.02)), ..Impairments::default() }), 1);
    let (traffic, links) = (&run.result.traffic_bits, &run.result.links);
    assert!(run.result.flows[0].completed_s.is_some());
    assert!(links.iter().all(|l| l.lost_on_air == 0));
    let corrupted: u64 = links.iter().filter_map(|l| l.corrupted_frames).sum();
    let discarded = run.log.count(Kind::Corrupted) as u64;
    // A packet may be hit on both links.
    assert!(discarded > 0 && discarded <= corrupted, "{discarded} of {corrupted}");
    assert!(traffic.corrupted > 0 && traffic.bit_errors == 0);
    assert_eq!(traffic.balance(), 0);
}

/// The n-th frame of a link is duplicated under one scheme as under the other.
#[test]
fn schemes_have_the_same_draws() {
    let copied = |scheme: &str| {
        let mut network = last_hop(vec![rfc(scheme, 300)], Duration::secs(60));
        network.links[DOWN].impairments.duplicate = Some(Share(0.1));
        let run = watch(&network, 7);
        let frames = run.log.0.iter().filter(|e| e.link == Some(DOWN as u32));
        let frames = frames.filter(|e| [Kind::Enqueued, Kind::Duplicated].contains(&e.kind));
        let mut originals = 0;
        let mut copies = Vec::new();
        for e in frames {
            match e.kind {
                Kind::Duplicated => copies.push(originals),
                _ => originals += 1,
            }
        }
        // A copy is enqueued too.
        copies.iter().enumerate().map(|(i, n)| n - i).take(20).collect::<Vec<usize>>()
    };
    let first = copied("reno");
    assert_eq!(first.len(), 20);
    assert_eq!(first, copied("cubic"));
}
