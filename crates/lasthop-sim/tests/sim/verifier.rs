//! The verifier detects violations: the events of a valid run are tampered with, one at a time.

use crate::support::cells::{dot11b, down, wlan};
use crate::support::*;
use lasthop::air::config::{LossConfig, OutageRule, RandomStart, TraceStart};
use lasthop::air::loss::BitErrors;
use lasthop::link::cell::mac::Mac;
use lasthop::scenario::network::{App, Network};
use lasthop::segment::Flags;
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Rate, Share};
use lasthop_sim::events::Kind;

/// A run with losses, an agent that drops, injects and forwards, a short queue and an outage.
fn scenario() -> Network {
    let mut flow = rfc("snoop:tick=50ms", 300);
    flow.profile.initial_ssthresh =
        lasthop::tcp::profile::InitialSsthresh::Size(lasthop::units::Size::Segments(40.0));
    let mut network = last_hop(vec![flow], Duration::secs(60));
    network.links[DOWN].loss = LossConfig::uniform(Share(0.04));
    network.links[DOWN].queue = packets(9);
    network.links[DOWN].outages = vec![outage(1000, 300, OutageRule::LostAtArrival)];
    network
}

/// Changes the `n`-th event selected by `which` and returns the violations found.
fn tampered(which: impl Fn(&Seen) -> bool, n: usize, change: impl Fn(&mut Seen)) -> String {
    tampered_in(scenario(), which, n, change)
}

fn tampered_in(
    network: Network,
    which: impl Fn(&Seen) -> bool,
    n: usize,
    change: impl Fn(&mut Seen),
) -> String {
    let mut events = watch(&network, 2).log.0;
    let i =
        (0..events.len()).filter(|&i| which(&events[i])).nth(n).expect("the run has such an event");
    change(&mut events[i]);
    violations(&network, &events).join("\n")
}

fn on_segment(e: &mut Seen, change: impl Fn(&mut lasthop::segment::Segment)) {
    let mut s = e.segment();
    change(&mut s);
    e.segment = Some(s);
}

#[test]
fn a_valid_run_has_no_violations() {
    let network = scenario();
    let log = watch(&network, 2).log;
    for kind in [
        Kind::LostOnAir,
        Kind::DroppedAtQueue,
        Kind::AgentInjected,
        Kind::AgentDropped,
        Kind::FastRetransmit,
        Kind::Timeout,
    ] {
        assert!(log.count(kind) > 0, "the run must contain {kind:?}");
    }
    assert!(violations(&network, &log.0).is_empty());
}

#[test]
fn tampering_with_links_is_detected() {
    let radio = |kind| move |e: &Seen| e.kind == kind && e.link == Some(DOWN as u32);
    let of = |kind| move |e: &Seen| e.kind == kind;
    let data = |kind| move |e: &Seen| e.kind == kind && e.number() > 0;
    let expect = |text: &str, found: String| {
        assert!(found.contains(text), "expected \"{text}\", found:\n{found}")
    };
    expect(
        "is not in the network",
        tampered(radio(Kind::Arrived), 20, |e| on_segment(e, |s| s.id = 1_000_000)),
    );
    expect(
        "does not have a new number",
        tampered(data(Kind::DataSent), 20, |e| on_segment(e, |s| s.id -= 30)),
    );
    expect(
        "changed in transit",
        tampered(radio(Kind::Arrived), 20, |e| on_segment(e, |s| s.seq += 1)),
    );
    expect(
        "changed in transit",
        tampered(of(Kind::AgentForwarded), 20, |e| on_segment(e, |s| s.len += 1)),
    );
    expect(
        "arrives at node 1, but link 2 ends at 2",
        tampered(radio(Kind::Arrived), 20, |e| e.node = 1),
    );
    expect("but it is at", tampered(radio(Kind::Arrived), 20, |e| e.link = Some(0)));
    expect(
        "arrives outside the possible interval",
        tampered(radio(Kind::Arrived), 20, |e| e.t -= 1),
    );
    expect(
        "arrives outside the possible interval",
        tampered(radio(Kind::Arrived), 20, |e| e.t += 1),
    );
    expect("goes back in time", tampered(of(Kind::DataReceived), 20, |e| e.t -= 1));
    expect(
        "a time other than the end of its air time",
        tampered(radio(Kind::LostOnAir), 0, |e| e.t += 1),
    );
    expect(
        "its route is",
        tampered(
            |e| e.kind == Kind::Enqueued && e.link == Some(DOWN as u32),
            20,
            |e| e.link = Some(0),
        ),
    );
    expect(
        "frames are reported as queued",
        tampered(radio(Kind::Enqueued), 60, |e| e.value += 1.0),
    );
    expect("are delivered", tampered(of(Kind::Delivered), 10, |e| e.value += 1.0));
    expect("are delivered", tampered(of(Kind::Delivered), 10, |e| e.value -= 1.0));
    expect("ends at node", tampered(of(Kind::DataReceived), 10, |e| e.node = 0));
    expect("the link cannot lose frames at that time", {
        let mut network = scenario();
        let events = watch(&network, 2).log.0;
        network.links[DOWN].loss = LossConfig::None;
        violations(&network, &events).join("\n")
    });
    expect("although the link is down", {
        let mut network = scenario();
        let events = watch(&network, 2).log.0;
        network.links[DOWN].outages[0].from = Duration::millis(500);
        violations(&network, &events).join("\n")
    });
    expect("accepted by a full queue", {
        let mut network = scenario();
        let events = watch(&network, 2).log.0;
        network.links[DOWN].queue = packets(8);
        violations(&network, &events).join("\n")
    });
    expect("but there is room", {
        let mut network = scenario();
        let events = watch(&network, 2).log.0;
        network.links[DOWN].queue = packets(10);
        violations(&network, &events).join("\n")
    });
}

#[test]
fn tampering_with_tcp_is_detected() {
    let expect = |text: &str, found: String| {
        assert!(found.contains(text), "expected \"{text}\", found:\n{found}")
    };
    // All events of a packet are changed alike, so that only TCP's own rules are violated.
    let everywhere = |pick: &dyn Fn(&Seen) -> bool,
                      change: &dyn Fn(&mut lasthop::segment::Segment)| {
        let network = scenario();
        let mut events = watch(&network, 2).log.0;
        let id = events.iter().filter(|e| pick(e)).nth(12).unwrap().segment().id;
        events
            .iter_mut()
            .filter(|e| e.segment.is_some_and(|s| s.id == id))
            .for_each(|e| on_segment(e, change));
        violations(&network, &events).join("\n")
    };
    let ack = |e: &Seen| e.kind == Kind::AckReceived && !e.segment().flags.has(Flags::SYN);
    let data = |e: &Seen| e.kind == Kind::DataSent && e.number() > 0;
    expect("has arrived in order", everywhere(&ack, &|s| s.ack += 1));
    expect("is next", everywhere(&data, &|s| s.seq += 1000));
    expect("a frame has at most 1000", everywhere(&data, &|s| s.len += 1000));
    expect("the receive window ends at", everywhere(&ack, &|s| s.window = 500));
    expect("the application wrote", {
        let mut network = scenario();
        let events = watch(&network, 2).log.0;
        network.flows[0].app = lasthop::scenario::network::App::Transfer { size: 299_999 };
        violations(&network, &events).join("\n")
    });
    let cwnd_after = |kind: Kind| {
        let network = scenario();
        let mut events = watch(&network, 2).log.0;
        let i = (0..events.len()).rfind(|&i| events[i].kind == kind).unwrap();
        let c = (i..events.len()).find(|&i| events[i].kind == Kind::Cwnd).unwrap();
        events[c].value = 1e9;
        violations(&network, &events).join("\n")
    };
    expect("on a loss at", cwnd_after(Kind::FastRetransmit));
    expect("on a loss at", cwnd_after(Kind::Timeout));
    expect("cwnd falls to 999 bytes", tampered(|e| e.kind == Kind::Cwnd, 9, |e| e.value = 999.0));
}

#[test]
fn missing_and_repeated_events_are_detected() {
    let network = scenario();
    let events = watch(&network, 2).log.0;
    let without = |kind: Kind, n: usize| {
        let mut events = events.clone();
        let i = (0..events.len()).filter(|&i| events[i].kind == kind).nth(n).unwrap();
        events.remove(i);
        violations(&network, &events)
    };
    for kind in [
        Kind::DataSent,
        Kind::AckSent,
        Kind::Enqueued,
        Kind::DroppedAtQueue,
        Kind::LostOnAir,
        Kind::Arrived,
    ] {
        assert!(!without(kind, 3).is_empty(), "{kind:?}");
    }
    for kind in [
        Kind::AgentIn,
        Kind::AgentForwarded,
        Kind::AgentInjected,
        Kind::DataReceived,
        Kind::AckReceived,
        Kind::Delivered,
    ] {
        assert!(!without(kind, 3).is_empty(), "{kind:?}");
    }
    // Repeated events are violations too.
    for kind in [
        Kind::DataSent,
        Kind::Enqueued,
        Kind::LostOnAir,
        Kind::Arrived,
        Kind::DataReceived,
        Kind::Delivered,
        Kind::AgentInjected,
    ] {
        let mut events = events.clone();
        let i = (0..events.len()).filter(|&i| events[i].kind == kind).nth(3).unwrap();
        events.insert(i, events[i].clone());
        assert!(!violations(&network, &events).is_empty(), "{kind:?} twice");
    }
}

/// FastACK at the base station, whose link layer gives frames up.
fn reported() -> Network {
    let mut network = last_hop(vec![rfc("fastack", 300)], Duration::secs(60));
    network.links[DOWN].loss = LossConfig::uniform(Share(0.04));
    network.links[DOWN].queue = packets(9);
    network
}

#[test]
fn agents_acknowledge_what_the_link_layer_has_delivered() {
    let network = reported();
    let events = watch(&network, 2).log.0;
    assert!(violations(&network, &events).is_empty());
    let lost = (0..events.len())
        .find(|&i| events[i].kind == Kind::LostOnAir && events[i].segment().len > 0)
        .unwrap();
    let is_ack =
        |i: &usize| events[*i].kind == Kind::AgentInjected && !events[*i].segment().forward;
    let ack = (0..lost).rfind(is_ack).unwrap();
    let forged = |last: u64| {
        let mut events = events.clone();
        on_segment(&mut events[ack], |s| s.ack = last);
        violations(&network, &events).join("\n")
    };
    // On the link, which loses it.
    let found = forged(events[lost].segment().end());
    assert!(found.contains("does not deliver it"), "{found}");
    // Sent, but not at the base station yet.
    let sent = events[..ack].iter().rfind(|e| e.kind == Kind::DataSent).unwrap();
    let found = forged(sent.segment().end());
    assert!(found.contains("has arrived in order"), "{found}");
}

/// A cell with collisions, bit errors, lost link ACKs and a full queue.
fn cell() -> Network {
    let mut flow = rfc("newreno", 400);
    flow.receive_window = lasthop::units::Size::Segments(200.0);
    let mut network =
        wlan(Mac { attempts: 3, ..dot11b() }, 1, ms(10), vec![flow], Duration::secs(60));
    let loss =
        LossConfig::BitErrors(BitErrors { rate: 3e-5, index: Default::default(), slot: ms(1) });
    (network.cells[0].stations[1].down, network.cells[0].stations[1].up) = (loss.clone(), loss);
    network.cells[0].stations[0].queue = packets(20);
    network.links[down(1)].queue = packets(20);
    network
}

#[test]
fn tampering_with_a_cell_is_detected() {
    let in_cell = |kind| move |e: &Seen| e.kind == kind && e.link == Some(down(1) as u32);
    let failed = |reason: &'static str| {
        move |e: &Seen| in_cell(Kind::AttemptFailed)(e) && e.reason == reason
    };
    let expect = |text: &str, found: String| {
        assert!(found.contains(text), "expected \"{text}\", found:\n{found}")
    };
    let log = watch(&cell(), 2).log;
    assert!(violations(&cell(), &log.0).is_empty());
    for reason in ["air", "collision", "link ACK lost"] {
        assert!(log.0.iter().any(failed(reason)), "the run must contain {reason}");
    }
    assert!(log.count(Kind::LostOnAir) > 0 && log.count(Kind::DroppedAtQueue) > 0);
    expect("overtakes another frame", {
        let events: Vec<Seen> =
            log.0.iter().filter(|e| !(in_cell(Kind::LostOnAir)(e))).cloned().collect();
        violations(&cell(), &events).join("\n")
    });
    expect(
        "when the medium became free",
        tampered_in(cell(), in_cell(Kind::Arrived), 50, |e| e.t -= 300_000),
    );
    expect("1 attempts end", tampered_in(cell(), failed("air"), 2, |e| e.reason = "collision"));
    expect(
        "only some of the attempts",
        tampered_in(cell(), failed("collision"), 2, |e| e.reason = "air"),
    );
    expect("the event says attempt", tampered_in(cell(), failed("air"), 2, |e| e.value += 1.0));
    expect(
        "frames are reported as queued",
        tampered_in(cell(), in_cell(Kind::Enqueued), 100, |e| e.value += 2.0),
    );
    expect("arrives at node 0", tampered_in(cell(), in_cell(Kind::Arrived), 50, |e| e.node = 0));
    expect(
        "is not in the network",
        tampered_in(cell(), in_cell(Kind::Arrived), 50, |e| on_segment(e, |s| s.id = 1_000_000)),
    );
    expect(
        "is discarded before the last attempt",
        tampered_in(cell(), failed("air"), 2, |e| e.kind = Kind::LostOnAir),
    );
    expect("but there is room", {
        let mut network = cell();
        network.cells[0].stations[0].queue = packets(50);
        violations(&network, &log.0).join("\n")
    });
    expect("of 1;", {
        let mut network = cell();
        network.cells[0].mac.attempts = 1;
        violations(&network, &log.0).join("\n")
    });
}

fn endless() -> lasthop::scenario::network::Flow {
    flow("newreno", ProfileName::Rfc, App::Bulk)
}

/// The events violate no other rule, but the link could not have carried the bytes.
#[test]
fn more_than_the_capacity_of_a_link_is_detected() {
    // The phase is random, so the times of single frames cannot be predicted.
    let every = |step: u32| trace(&(1..=100).map(|i| i * step).collect::<Vec<_>>());
    let over = |times| {
        let mut net = last_hop(vec![endless()], Duration::secs(20));
        net.links[DOWN] =
            traced(net.links[DOWN].clone(), times, TraceStart::Named(RandomStart::Random));
        net
    };
    let (original, slower) = (over(every(10)), over(every(20)));
    let events = watch(&original, 3).log.0;
    assert_eq!(violations(&original, &events), Vec::<String>::new());
    let found = violations(&slower, &events);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains(
            "bytes were delivered over link 2, which can carry 1500000 bytes in the measured time"
        ),
        "{}",
        found[0]
    );
}

/// Bytes queued when measuring began may be delivered on top of the capacity, others may not.
#[test]
fn bytes_outstanding_when_measuring_began_may_exceed_the_capacity() {
    // The last 300 ms begin with 64 segments at the radio link, which takes 8.3 ms for each.
    let mut net = last_hop(vec![endless()], Duration::secs(20));
    net.measure_from = Duration::millis(19_700);
    let watched = watch(&net, 2);
    let delivered = watched.result.flows[0].delivered_bytes;
    assert!(delivered > 35_000, "{delivered}");
    let capacity = |net: &Network| {
        violations(net, &watched.log.0)
            .iter()
            .any(|v| v.contains("bytes were delivered over link 2"))
    };
    let stop_link = |net: &mut Network, from: u64| {
        net.measure_from = Duration::millis(from);
        net.links[DOWN].outages = vec![outage(from, 20_000 - from, OutageRule::Held)];
    };
    // A link that is down for the whole measured time may still deliver the frames that were in
    // transit when measuring began, but no others.
    stop_link(&mut net, 19_700);
    assert!(!capacity(&net));
    stop_link(&mut net, 15_000);
    assert!(capacity(&net));
}

#[test]
fn more_than_the_capacity_of_a_cell_is_detected() {
    let mut net = wlan(
        Mac { link_acks: false, attempts: 1, ..dot11b() },
        1,
        ms(10),
        vec![rfc("newreno", 300)],
        Duration::secs(5),
    );
    let events = watch(&net, 1).log.0;
    net.cells[0].mac.data_rate = Rate(100_000);
    assert!(
        violations(&net, &events).iter().any(|v| v.contains("bytes were delivered over cell 0")),
        "{:?}",
        violations(&net, &events)
    );
}

/// The sender discards an ACK with an older timestamp (PAWS, RFC 7323, section 5), here at node 0.
#[test]
fn the_window_of_an_overtaken_ack_is_not_in_force() {
    let closed = |age: u32| {
        let is_ack = |e: &Seen| e.kind == Kind::AckReceived && e.node == 0;
        tampered(is_ack, 20, |e| {
            on_segment(e, |s| {
                s.window = 1;
                s.ts_value = s.ts_value.wrapping_sub(age);
            });
        })
    };
    assert!(closed(0).contains("the receive window ends at"));
    assert!(!closed(1_000_000).contains("the receive window ends at"));
}
