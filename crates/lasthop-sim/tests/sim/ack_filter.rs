//! The ACK filter of CAKE on links and in cells, under the verifier.

use crate::support::cells::{down, up, wlan};
use crate::support::*;
use lasthop::link::cell::mac::{Mac, MacName};
use lasthop::queue::cake::Cake;
use lasthop::queue::{AckFilter, Discipline, QueueConfig};
use lasthop::scenario::network::{App, Network};
use lasthop::segment::{Flags, Options, Segment};
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Size, Time};
use lasthop_sim::events::{Event, Kind, Observer};
use lasthop_sim::verifier::Verifier;

fn cake(ack_filter: AckFilter) -> QueueConfig {
    QueueConfig {
        limit: None,
        discipline: Discipline::Cake(Cake { ack_filter, ..Cake::default() }),
    }
}

/// A bulk flow over 50 Mbit/s, whose ACKs have 300 kbit/s.
fn asymmetric(filter: AckFilter, seconds: u64) -> Network {
    let mut flow = flow("cubic", ProfileName::Linux, App::Bulk);
    flow.receive_window = Size::Bytes(8 << 20);
    let mut net = last_hop(vec![flow], Duration::secs(seconds));
    for l in &mut net.links {
        (l.rate, l.queue) = (mbps(50.0), packets(300));
    }
    net.links[UP].rate = mbps(0.3);
    net.links[UP].queue = cake(filter);
    net
}

/// Without the filter COBALT drops ACKs, and the sender waits for those in the queue.
#[test]
fn the_filter_keeps_acks_from_limiting_the_downlink() {
    let runs = AckFilter::ALL.map(|filter| watch(&asymmetric(filter, 15), 1));
    let [off, on, aggressive] = &runs;
    for (run, filter) in runs.iter().zip(AckFilter::ALL) {
        let link = &run.result.links[UP];
        let filtered = run.log.count(Kind::Filtered) as u64;
        let expected = (filter != AckFilter::Off).then_some(filtered);
        assert_eq!(link.filtered_frames, expected);
        let bits: f64 = run.log.of(Kind::Filtered).map(|e| 8.0 * f64::from(e.segment().size)).sum();
        assert_eq!(run.result.traffic_bits.filtered as f64, bits);
        assert_eq!(run.result.flows[0].timeouts.ack_loss, 0);
    }
    let links = |run: &Watched| run.result.links[UP].clone();
    assert!(links(off).dropped_at_queue > 100, "{:?}", links(off));
    for run in [on, aggressive] {
        assert!(links(run).filtered_frames > Some(1000), "{:?}", links(run));
        assert!(links(run).dropped_at_queue < links(off).dropped_at_queue / 10);
    }
    let delay = |run: &Watched| links(run).queue_delay_s.mean.unwrap();
    assert!(delay(on) < delay(off) && delay(aggressive) < delay(on));
    let goodput = |run: &Watched| run.result.flows[0].goodput_bps;
    assert!(goodput(on) > goodput(off), "{} {}", goodput(on), goodput(off));
}

/// The station's ACKs wait for the medium, which the frames of the access point occupy.
#[test]
fn a_station_of_a_cell_may_filter() {
    let mut flow = flow("newreno", ProfileName::Ns235, App::Bulk);
    (flow.to, flow.receive_window) = (2, Size::Segments(1000.0));
    let mac = Mac::named(MacName::Dot11b);
    let mut net = wlan(mac, 1, ms(20), vec![flow], Duration::secs(20));
    net.cells[0].stations[1].queue = cake(AckFilter::Aggressive);
    let run = watch(&net, 1);
    let filtered = run.log.count(Kind::Filtered) as u64;
    assert!(filtered > 10, "{filtered}");
    assert_eq!(run.result.links[up(1)].filtered_frames, Some(filtered));
    assert_eq!(run.result.links[down(1)].filtered_frames, None);
}

/// The violations that the verifier finds in these events.
fn violations(net: &Network, events: &[Seen]) -> String {
    let mut v = Verifier::new(net);
    for e in events {
        let Seen { node, link, flow, kind, reason, value, .. } = *e;
        let (t, segment, options) = (Time(e.t), e.segment.as_ref(), &Options::NONE);
        v.on_event(&Event { t, node, link, flow, kind, segment, options, reason, value });
    }
    v.finish().err().unwrap_or_default().join("\n")
}

#[test]
fn the_verifier_detects_acks_that_were_not_redundant() {
    let [off, on, aggressive] = AckFilter::ALL.map(|filter| asymmetric(filter, 5));
    let events = watch(&aggressive, 1).log.0;
    let i = events.iter().position(|e| e.kind == Kind::Filtered).unwrap();
    let changed = |change: &dyn Fn(&mut Vec<Seen>)| {
        let mut events = events.clone();
        change(&mut events);
        violations(&aggressive, &events)
    };
    let expect = |text: &str, found: String| {
        assert!(found.contains(text), "expected \"{text}\", found:\n{found}")
    };
    expect("which does not make it redundant", violations(&off, &events));
    expect("which does not make it redundant", violations(&on, &events));
    expect("is not in this queue", changed(&|e| e.insert(i, e[i].clone())));
    // The ACK that arrived acknowledges less, or the one that is removed is no pure ACK.
    let everywhere = |id: u64, change: fn(&mut Segment)| {
        changed(&|events| {
            let segments = events.iter_mut().filter_map(|e| e.segment.as_mut());
            segments.filter(|s| s.id == id).for_each(change);
        })
    };
    let arriving = (0..i).rev().find(|&k| events[k].link == Some(UP as u32)).unwrap();
    let text = "which does not make it redundant";
    expect(text, everywhere(events[arriving].segment().id, |s| s.ack = 0));
    for flag in [Flags::FIN, Flags::SYN, Flags::AE, Flags::NAMED] {
        let id = events[i].segment().id;
        let found = changed(&|events| {
            let segments = events.iter_mut().filter_map(|e| e.segment.as_mut());
            segments.filter(|s| s.id == id).for_each(|s| s.flags = s.flags.with(flag));
        });
        expect(text, found);
    }
    // Without its end the frame has vanished.
    assert!(!changed(&|e| _ = e.remove(i)).is_empty());
}
