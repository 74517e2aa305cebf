//! Receiving applications that read slowly: closed windows, window updates, probes.

use std::sync::atomic::AtomicBool;

use crate::support::random::{Case, Conditions, any_network, cases};
use crate::support::*;
use lasthop::scenario::network::{App, Flow, Network};
use lasthop::scenario::{ReaderSpec, ReadingPause};
use lasthop::segment::{Flags, Segment};
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Rate, Size};
use lasthop_sim::events::Kind;
use lasthop_sim::result::FlowResult;
use proptest::prelude::*;

fn at_rate(kbps: u64) -> Option<ReaderSpec> {
    Some(ReaderSpec { rate: Some(Rate(kbps * 1000)), pauses: Vec::new() })
}

fn pausing(from: u64, length: u64) -> Option<ReaderSpec> {
    let pause = ReadingPause { from: ms(from), length: ms(length) };
    Some(ReaderSpec { rate: None, pauses: vec![pause] })
}

/// 100 segments over the last hop of 1 Mbit/s and 100 ms, with a buffer of 10 segments.
fn transfer(reader: Option<ReaderSpec>) -> Network {
    let flow = Flow { reader, receive_window: Size::Segments(10.0), ..rfc("newreno", 100) };
    last_hop(vec![flow], Duration::secs(60))
}

/// The ACKs of the receiver. (The sender's probes are ACKs, too.)
fn acks(log: &Log) -> impl Iterator<Item = (u64, Segment)> {
    log.of(Kind::AckSent).filter(|e| e.node == 2).filter_map(|e| Some((e.t, e.segment?)))
}

/// The bytes that the application had read at `ms`.
fn read_at(run: &Watched, ms: u64) -> u64 {
    run.log.of(Kind::Delivered).filter(|e| e.t <= ms * 1_000_000).map(|e| e.value as u64).sum()
}

#[test]
fn goodput_and_completion_are_those_of_the_reader() {
    let run = watch(&transfer(at_rate(200)), 1);
    let flow = &run.result.flows[0];
    // The first byte is there after 2 round trips; 100 segments of 8000 bits take 4 s to process,
    // and the last one counts when it is read.
    let first = run.log.of(Kind::Delivered).next().unwrap().secs();
    let completed = flow.completed_s.unwrap();
    assert!((completed - first - 99.0 * 0.04).abs() < 1e-6, "{first} {completed}");
    assert!(run.log.of(Kind::Delivered).all(|e| e.value <= 1000.0));
    let limits = flow.limited_by.unwrap();
    assert!(limits.receive_window > 0.6, "{limits:?}");
    assert_eq!((flow.timeouts.total, flow.retransmissions.total), (0, 0));
    // Up to ten segments wait in the buffer for 40 ms each.
    let fast = &watch(&transfer(None), 1).result.flows[0];
    assert!(fast.completed_s.unwrap() < completed);
    let p50 = |f: &FlowResult| f.one_way_delay_s.p50.unwrap();
    assert!(p50(flow) > p50(fast) + 0.3, "{} {}", p50(flow), p50(fast));
}

#[test]
fn a_pause_closes_the_window_and_an_update_opens_it() {
    let run = watch(&transfer(pausing(500, 2000)), 1);
    assert_eq!(read_at(&run, 499), read_at(&run, 2499));
    // What had arrived is read at once.
    assert_eq!(read_at(&run, 2500), read_at(&run, 499) + 10_000);
    assert!(acks(&run.log).any(|a| a.1.window == 0), "the window closes");
    let (at, update) = acks(&run.log).find(|a| a.0 >= 2_500_000_000).unwrap();
    assert_eq!((at, update.window), (2_500_000_000, 10_000));
    assert!(run.result.flows[0].completed_s.unwrap() < 4.0);
}

/// The sender probes the closed window until the update arrives in the answer to a probe.
#[test]
fn a_probe_repairs_a_lost_window_update() {
    for profile in [ProfileName::Rfc, ProfileName::Linux, ProfileName::Ns235] {
        let mut network = transfer(pausing(500, 2000));
        let flow = &mut network.flows[0];
        *flow = Flow { profile: lasthop::tcp::profile::Profile::named(profile), ..flow.clone() };
        let run = watch(&network, 1);
        let completed = run.result.flows[0].completed_s.unwrap();
        let before = acks(&run.log).take_while(|a| a.0 < 2_500_000_000).count();
        let update = 1 + before as u64;
        network.links[UP].loss = lose(&[], &[update]);
        let run = watch(&network, 1);
        let lost = run.log.of(Kind::LostOnAir).next().unwrap().segment.unwrap();
        assert!(lost.window == 10_000 && lost.len == 0, "{profile:?}: {lost:?}");
        let later = run.result.flows[0].completed_s.unwrap();
        assert!(later > completed, "{profile:?}: {completed} {later}");
        let sent = run.log.0.iter().filter(|e| e.node == 0 && e.t > 2_500_000_000);
        let mut sent = sent.filter(|e| matches!(e.kind, Kind::AckSent | Kind::DataSent));
        let probe = sent.next().unwrap();
        assert_eq!(probe.segment.unwrap().len, 0, "{profile:?}: a probe, not data");
    }
}

/// RFC 9293, section 3.8.6.2.2: the right edge of the window moves by a segment at least, also in
/// the answers to probes.
#[test]
fn the_window_never_grows_by_less_than_a_segment() {
    let mut network = transfer(Some(ReaderSpec {
        rate: Some(Rate(40_000)),
        pauses: vec![ReadingPause { from: ms(3000), length: ms(3000) }],
    }));
    network.flows[0].segment = 700;
    let run = watch(&network, 1);
    let edges = acks(&run.log).map(|(_, s)| s).filter(|s| !s.flags.has(Flags::FIN));
    let edges: Vec<u64> = edges.map(|s| s.ack + u64::from(s.window)).collect();
    assert!(edges.windows(2).all(|e| e[1] == e[0] || e[1] >= e[0] + 700), "{edges:?}");
    assert!(run.result.flows[0].completed_s.is_some());
}

/// Profile `linux`: the window grows with what the application reads in a round trip.
#[test]
fn a_window_that_grows_follows_the_reader() {
    let largest = |reader| {
        let app = App::Transfer { size: 3_000_000 };
        let flow = Flow {
            reader,
            receive_window: Size::Bytes(4 << 20),
            ..flow("cubic", ProfileName::Linux, app)
        };
        let mut network = last_hop(vec![flow], Duration::secs(5));
        for link in &mut network.links {
            link.rate = mbps(20.0);
        }
        let run = watch(&network, 1);
        run.log.of(Kind::AckSent).map(|e| e.segment.unwrap().window).max().unwrap()
    };
    let (slow, stopped, fast) = (largest(at_rate(500)), largest(pausing(0, 5000)), largest(None));
    assert!(slow <= 81_920 && stopped <= 81_920, "{slow} {stopped}");
    assert!(fast > 200_000, "{fast}");
}

#[test]
fn a_reader_behind_a_relay_slows_the_relay() {
    let mut network = transfer(at_rate(200));
    network.flows[0].scheme = scheme("i-tcp");
    let run = watch(&network, 1);
    assert!(run.result.flows[0].completed_s.unwrap() > 4.0);
}

proptest! {
    #![proptest_config(cases(400))]

    /// No sender stalls forever because its receiver reads slowly.
    #[test]
    fn every_transfer_to_a_slow_reader_completes(
        Case(mut network) in any_network(Conditions::Passable),
        seed in 0u64..1000,
        rate in prop::option::of(20_000u64..2_000_000),
        starts in prop::collection::vec((0u64..5000, 1u64..5000), 1..4),
    ) {
        let mut pauses = Vec::new();
        let mut from = Duration::ZERO;
        for (gap, length) in starts {
            pauses.push(ReadingPause { from: from + ms(gap), length: ms(length) });
            from = from + ms(gap + length);
        }
        let reader = Some(ReaderSpec { rate: rate.map(Rate), pauses });
        let is_tcp = |f: &&mut Flow| !f.app.is_datagrams();
        network.flows.iter_mut().filter(is_tcp).for_each(|f| f.reader = reader.clone());
        let full_duration = std::mem::replace(&mut network.duration, Duration::secs(2000));
        let mut result = lasthop_sim::run(&network, seed, (), &AtomicBool::new(false)).unwrap();
        if result.flows.iter().any(|f| f.completed_s.is_none()) {
            network.duration = full_duration;
            result = lasthop_sim::run(&network, seed, (), &AtomicBool::new(false)).unwrap();
        }
        for (flow, config) in result.flows.iter().zip(&network.flows) {
            let App::Transfer { size } = config.app else { continue };
            prop_assert!(flow.completed_s.is_some(), "{} stalls", config.scheme.label);
            prop_assert_eq!(flow.delivered_bytes, size);
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    /// The verifier finds no violations, and every bit is accounted for.
    #[test]
    fn runs_with_slow_readers_have_no_violations(
        Case(mut network) in any_network(Conditions::Any),
        seed in 0u64..1000,
        rate in 5_000u64..500_000,
    ) {
        let reader = ReaderSpec { rate: Some(Rate(rate)), pauses: Vec::new() };
        for flow in network.flows.iter_mut().filter(|f| !f.app.is_datagrams()) {
            flow.reader = Some(reader.clone());
        }
        prop_assert_eq!(watch(&network, seed).result.traffic_bits.balance(), 0);
    }
}
