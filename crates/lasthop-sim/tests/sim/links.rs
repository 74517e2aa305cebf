//! Links, exact to the nanosecond: departures computed by hand, and traces that give every
//! opportunity exactly once.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::support::*;
use lasthop::air::config::{OutageRule, TraceStart};
use lasthop::air::trace::Trace;
use lasthop::queue::QueueConfig;
use lasthop::scenario::network::{App, Flow, Link, Network, Role};
use lasthop::tcp::profile::ProfileName;
use lasthop::traffic::Cbr;
use lasthop::units::{Duration, Rate};
use lasthop_sim::events::Kind;

const MS: u64 = 1_000_000;

/// Datagrams of 1000 + 250 bytes, one every `spacing` ms, over one link.
fn datagrams(link: Link, spacing: u64, stop: u64) -> Network {
    let app = App::Cbr(Cbr { rate: Rate(1000 * 8 * 1000 / spacing) });
    let flow =
        Flow { to: 1, headers: 250, stop: Some(ms(stop)), ..flow("reno", ProfileName::Rfc, app) };
    network(&[Role::Server, Role::Station], vec![link], vec![flow], Duration::secs(10))
}

/// Number of the datagram from 0, and its arrival in ms.
fn arrivals(network: &Network) -> Vec<(u64, f64)> {
    let run = watch(network, 1);
    run.log.of(Kind::Arrived).map(|e| (e.segment().seq / 1000, e.t as f64 / 1e6)).collect()
}

/// 1250 bytes take 10 ms; a datagram arrives every 4 ms; two may be queued. Number 5 arrives at 20
/// ms, the instant at which number 1 has left, and finds room: the departure has the earlier
/// trigger time, 10 ms against 16 ms.
#[test]
fn ten_departures_by_hand() {
    let l = Link { queue: packets(2), ..link(0, 1, mbps(1.0), ms(10)) };
    let by_hand = [
        (0, 20.0),
        (1, 30.0),
        (2, 40.0),
        (3, 50.0),
        (5, 60.0),
        (8, 70.0),
        (10, 80.0),
        (13, 90.0),
        (15, 100.0),
        (18, 110.0),
    ];
    assert_eq!(arrivals(&datagrams(l, 4, 5000))[..10], by_hand);
}

/// The same limit in bytes: 2600 bytes are two frames, not three.
#[test]
fn a_limit_in_bytes_holds_whole_frames() {
    let l = |limit| Link { queue: QueueConfig::drop_tail(limit), ..link(0, 1, mbps(1.0), ms(10)) };
    let bytes = arrivals(&datagrams(l(lasthop::units::QueueLimit::Bytes(2600)), 4, 1000));
    assert_eq!(bytes, arrivals(&datagrams(l(lasthop::units::QueueLimit::Packets(2)), 4, 1000)));
    assert_ne!(bytes, arrivals(&datagrams(l(lasthop::units::QueueLimit::Bytes(2499)), 4, 1000)));
}

/// 10 ms each at 1 Mbit/s, 5 ms at 2 Mbit/s; down from 25 to 40 ms and from 47 to 50 ms.
#[test]
fn departures_through_an_outage_by_hand() {
    let outages = vec![outage(25, 15, OutageRule::Held), outage(47, 3, OutageRule::Held)];
    let l = Link { outages, ..link(0, 1, schedule(&[(0, 1_000_000), (30, 2_000_000)]), ms(0)) };
    // Number 2 starts at 20 ms at the old rate, pauses at 25 ms with 5 ms left and ends at 45 ms.
    // Number 3 starts then, takes 5 ms at the new rate and pauses from 47 to 50 ms.
    let by_hand = [(0, 10.0), (1, 20.0), (2, 45.0), (3, 53.0), (4, 58.0), (5, 63.0)];
    assert_eq!(arrivals(&datagrams(l, 10, 60))[..6], by_hand);
}

/// Under one rule frames sent from 10 to 30 ms are lost, under the other those that would arrive
/// then. Their air time is used.
#[test]
fn frames_are_lost_in_an_outage_by_hand() {
    let arrived = |rule| {
        let l = Link { outages: vec![outage(10, 20, rule)], ..link(0, 1, mbps(1.0), ms(15)) };
        arrivals(&datagrams(l, 10, 60))
    };
    assert_eq!(arrived(OutageRule::LostAtSending), [(0, 25.0), (3, 55.0), (4, 65.0), (5, 75.0)]);
    assert_eq!(
        arrived(OutageRule::LostAtArrival),
        [(1, 35.0), (2, 45.0), (3, 55.0), (4, 65.0), (5, 75.0)]
    );
}

/// A CBR source that always has a full frame queued uses every opportunity of every second.
fn every_opportunity(trace: Arc<Trace>, start: Duration, seconds: u64) {
    let times = trace.mean_rate();
    let l = traced(link(1, 2, mbps(1.0), ms(7)), trace.clone(), TraceStart::At(start));
    let app = App::Cbr(Cbr { rate: Rate(times.0 * 8) });
    let f = Flow { segment: 1460, headers: 40, ..flow("reno", ProfileName::Rfc, app) };
    // The source has a lead of two seconds, so that frames are queued even at the highest rate of
    // the trace.
    let mut net = network(
        &ROLES,
        vec![link(0, 1, mbps(100_000.0), ms(0)), l],
        vec![f],
        Duration::secs(seconds),
    );
    net.links[1].outages = vec![outage(0, 2000, OutageRule::Held)];
    let run = watch(&net, 1);
    let mut got = vec![0; seconds as usize];
    for e in run.log.of(Kind::Arrived).filter(|e| e.link == Some(1)) {
        got[((e.t - 7 * MS) / (1000 * MS)) as usize] += 1;
    }
    for (second, &count) in got.iter().enumerate().take(seconds as usize - 1).skip(2) {
        let from = lasthop::units::Time(second as u64 * 1000 * MS) + start;
        assert_eq!(
            count,
            trace.opportunities_between(from, from + Duration::secs(1)),
            "second {second}"
        );
    }
}

#[test]
fn a_saturating_source_gets_the_whole_trace() {
    // The period is 2.345 s, so that the wrap is at another place in each second.
    let mut times: Vec<u32> = (0..900u32).map(|i| i * i % 2346).chain([2345]).collect();
    times.sort_unstable();
    every_opportunity(trace(&times), Duration::millis(1234), 20);
    // The first and the last opportunity of the period coincide.
    every_opportunity(trace(&[0, 0, 3, 500, 500, 500, 1000]), Duration::ZERO, 10);
}

#[test]
fn a_saturating_source_gets_the_whole_shipped_traces() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/lasthop/data/traces");
    let Ok(files) = std::fs::read_dir(folder) else { return };
    let files = files.filter_map(|f| f.ok().map(|f| f.path()));
    for path in files.filter(|p| p.extension().is_some_and(|e| e == "down" || e == "up")) {
        let trace =
            Arc::new(Trace::read(File::open(&path).unwrap(), &path.to_string_lossy()).unwrap());
        // Start before the wrap.
        let start = trace.period().saturating_sub(Duration::secs(5));
        every_opportunity(trace, start, 10);
    }
}

/// There is an opportunity of 1500 bytes every 10 ms. Frames of 1250 bytes, one every 20 ms for 200
/// ms, use 10 x 1250 of the 1500 x 1000 bytes of 10 s: a share of 10 / 1200, which is 83.3 ms.
#[test]
fn the_busy_time_of_a_trace_is_its_used_share() {
    let l = traced(
        link(0, 1, mbps(1.0), ms(0)),
        trace(&(1..=100).map(|i| 10 * i).collect::<Vec<_>>()),
        TraceStart::At(Duration::ZERO),
    );
    let run = watch(&datagrams(l, 20, 199), 1);
    let busy = run.result.links[0].busy_s;
    assert!((busy - 10.0 * 10.0 / 1200.0).abs() < 1e-3, "{busy}");
}
