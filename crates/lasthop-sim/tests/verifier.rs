//! The verifier finds what it is made for: the events of a sound run are tampered with, one at a
//! time.

mod support;

use lasthop::air::config::{LossConfig, OutageRule, RandomStart, TraceStart};
use lasthop::link::cell::mac::Mac;
use lasthop::scenario::network::{App, Network};
use lasthop::segment::{Flags, Options};
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Rate, Share, Time};
use lasthop_sim::events::{Event, Kind, Observer};
use lasthop_sim::verifier::Verifier;
use support::cells::{dot11b, down, wlan};
use support::*;

/// Losses, an agent that drops, injects and forwards, a short queue and an outage.
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

fn violations(network: &Network, events: &[Seen]) -> Vec<String> {
    let mut v = Verifier::new(network);
    for e in events {
        let (t, segment) = (Time(e.t), e.segment.as_ref());
        let (node, kind, options) = (e.node, e.kind, &Options::NONE);
        v.on_event(&Event {
            t,
            node,
            link: e.link,
            flow: e.flow,
            kind,
            segment,
            options,
            reason: e.reason,
            value: e.value,
        });
    }
    v.finish().err().unwrap_or_default()
}

/// Changes the `n`-th event that `which` picks and gives what the verifier says.
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
        (0..events.len()).filter(|&i| which(&events[i])).nth(n).expect("there is such an event");
    change(&mut events[i]);
    violations(&network, &events).join("\n")
}

fn on_segment(e: &mut Seen, change: impl Fn(&mut lasthop::segment::Segment)) {
    let mut s = e.segment();
    change(&mut s);
    e.segment = Some(s);
}

#[test]
fn a_sound_run_is_sound() {
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
        assert!(log.count(kind) > 0, "{kind:?} belongs into the test");
    }
    assert!(violations(&network, &log.0).is_empty());
}

#[test]
fn each_kind_of_tampering_is_found() {
    let radio = |kind| move |e: &Seen| e.kind == kind && e.link == Some(DOWN as u32);
    let of = |kind| move |e: &Seen| e.kind == kind;
    let data = |kind| move |e: &Seen| e.kind == kind && e.number() > 0;
    let says = |text: &str, said: String| {
        assert!(said.contains(text), "expected \"{text}\", found:\n{said}")
    };
    says(
        "out of thin air",
        tampered(radio(Kind::Arrived), 20, |e| on_segment(e, |s| s.id = 1_000_000)),
    );
    says(
        "number that was used before",
        tampered(data(Kind::DataSent), 20, |e| on_segment(e, |s| s.id -= 30)),
    );
    says(
        "changed on its way",
        tampered(radio(Kind::Arrived), 20, |e| on_segment(e, |s| s.seq += 1)),
    );
    says(
        "changed on its way",
        tampered(of(Kind::AgentForwarded), 20, |e| on_segment(e, |s| s.len += 1)),
    );
    says(
        "arrives at node 1, but link 2 ends at 2",
        tampered(radio(Kind::Arrived), 20, |e| e.node = 1),
    );
    says("but it is at", tampered(radio(Kind::Arrived), 20, |e| e.link = Some(0)));
    says("arrives when it cannot", tampered(radio(Kind::Arrived), 20, |e| e.t -= 1));
    says("arrives when it cannot", tampered(radio(Kind::Arrived), 20, |e| e.t += 1));
    says("goes back in time", tampered(of(Kind::DataReceived), 20, |e| e.t -= 1));
    says(
        "another time than the end of its air time",
        tampered(radio(Kind::LostOnAir), 0, |e| e.t += 1),
    );
    says(
        "its route is",
        tampered(
            |e| e.kind == Kind::Enqueued && e.link == Some(DOWN as u32),
            20,
            |e| e.link = Some(0),
        ),
    );
    says("frames are said to wait", tampered(radio(Kind::Enqueued), 60, |e| e.value += 1.0));
    says("are delivered", tampered(of(Kind::Delivered), 10, |e| e.value += 1.0));
    says("are delivered", tampered(of(Kind::Delivered), 10, |e| e.value -= 1.0));
    says("ends at node", tampered(of(Kind::DataReceived), 10, |e| e.node = 0));
    says("is lost without a reason", {
        let mut network = scenario();
        let events = watch(&network, 2).log.0;
        network.links[DOWN].loss = LossConfig::None;
        violations(&network, &events).join("\n")
    });
    says("although the link is down", {
        let mut network = scenario();
        let events = watch(&network, 2).log.0;
        network.links[DOWN].outages[0].from = Duration::millis(500);
        violations(&network, &events).join("\n")
    });
    says("into a full queue", {
        let mut network = scenario();
        let events = watch(&network, 2).log.0;
        network.links[DOWN].queue = packets(8);
        violations(&network, &events).join("\n")
    });
    says("but there is room", {
        let mut network = scenario();
        let events = watch(&network, 2).log.0;
        network.links[DOWN].queue = packets(10);
        violations(&network, &events).join("\n")
    });
}

#[test]
fn tampering_with_tcp_is_found() {
    let says = |text: &str, said: String| {
        assert!(said.contains(text), "expected \"{text}\", found:\n{said}")
    };
    // The whole life of a packet is changed, so that only TCP's own rules are broken.
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
    says("has arrived in order", everywhere(&ack, &|s| s.ack += 1));
    says("would be next", everywhere(&data, &|s| s.seq += 1000));
    says("a full segment has 1000", everywhere(&data, &|s| s.len += 1000));
    says("the receiver's window ends at", everywhere(&ack, &|s| s.window = 500));
    says("the application wrote", {
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
    says("on a loss at", cwnd_after(Kind::FastRetransmit));
    says("on a loss at", cwnd_after(Kind::Timeout));
    says("cwnd falls to 999 bytes", tampered(|e| e.kind == Kind::Cwnd, 9, |e| e.value = 999.0));
}

#[test]
fn what_vanishes_is_missed() {
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
    // Twice is as bad.
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

/// Collisions, bit errors, lost link ACKs, a full queue.
fn cell() -> Network {
    let mut flow = rfc("newreno", 400);
    flow.receive_window = lasthop::units::Size::Segments(200.0);
    let mut network =
        wlan(Mac { attempts: 3, ..dot11b() }, 1, ms(10), vec![flow], Duration::secs(60));
    let loss = LossConfig::BitErrors { rate: 3e-5, index: Default::default(), slot: ms(1) };
    (network.cells[0].stations[1].down, network.cells[0].stations[1].up) = (loss.clone(), loss);
    network.cells[0].stations[0].queue = packets(20);
    network.links[down(1)].queue = packets(20);
    network
}

#[test]
fn tampering_with_a_cell_is_found() {
    let in_cell = |kind| move |e: &Seen| e.kind == kind && e.link == Some(down(1) as u32);
    let failed = |reason: &'static str| {
        move |e: &Seen| in_cell(Kind::AttemptFailed)(e) && e.reason == reason
    };
    let says = |text: &str, said: String| {
        assert!(said.contains(text), "expected \"{text}\", found:\n{said}")
    };
    let log = watch(&cell(), 2).log;
    assert!(violations(&cell(), &log.0).is_empty());
    for reason in ["air", "collision", "link ACK lost"] {
        assert!(log.0.iter().any(failed(reason)), "{reason} belongs into the test");
    }
    assert!(log.count(Kind::LostOnAir) > 0 && log.count(Kind::DroppedAtQueue) > 0);
    says("overtakes another frame", {
        let events: Vec<Seen> =
            log.0.iter().filter(|e| !(in_cell(Kind::LostOnAir)(e))).cloned().collect();
        violations(&cell(), &events).join("\n")
    });
    says(
        "when the medium was free",
        tampered_in(cell(), in_cell(Kind::Arrived), 50, |e| e.t -= 300_000),
    );
    says("1 stations send", tampered_in(cell(), failed("air"), 2, |e| e.reason = "collision"));
    says(
        "some of those who send",
        tampered_in(cell(), failed("collision"), 2, |e| e.reason = "air"),
    );
    says("it is said to be number", tampered_in(cell(), failed("air"), 2, |e| e.value += 1.0));
    says(
        "frames are said to wait",
        tampered_in(cell(), in_cell(Kind::Enqueued), 100, |e| e.value += 2.0),
    );
    says("arrives at node 0", tampered_in(cell(), in_cell(Kind::Arrived), 50, |e| e.node = 0));
    says(
        "out of thin air",
        tampered_in(cell(), in_cell(Kind::Arrived), 50, |e| on_segment(e, |s| s.id = 1_000_000)),
    );
    says(
        "is given up before the last attempt",
        tampered_in(cell(), failed("air"), 2, |e| e.kind = Kind::LostOnAir),
    );
    says("but there is room", {
        let mut network = cell();
        network.cells[0].stations[0].queue = packets(50);
        violations(&network, &log.0).join("\n")
    });
    says("of 1;", {
        let mut network = cell();
        network.cells[0].mac.attempts = 1;
        violations(&network, &log.0).join("\n")
    });
}

fn endless() -> lasthop::scenario::network::Flow {
    flow("newreno", ProfileName::Rfc, App::Bulk)
}

/// A network whose events no other rule of the verifier objects to, though the link could not have
/// carried them.
#[test]
fn more_than_a_link_can_carry_is_found() {
    // The phase is drawn: of single frames nothing can be foretold.
    let every = |step: u32| trace(&(1..=100).map(|i| i * step).collect::<Vec<_>>());
    let over = |times| {
        let mut net = last_hop(vec![endless()], Duration::secs(20));
        net.links[DOWN] =
            traced(net.links[DOWN].clone(), times, TraceStart::Named(RandomStart::Random));
        net
    };
    let (true_one, slower) = (over(every(10)), over(every(20)));
    let events = watch(&true_one, 3).log.0;
    assert_eq!(violations(&true_one, &events), Vec::<String>::new());
    let found = violations(&slower, &events);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains(
            "bytes were delivered over link 2, which can carry 1500000 in the measured time"
        ),
        "{}",
        found[0]
    );
}

/// What was queued when measuring began comes on top of the capacity; what was not does not.
#[test]
fn what_was_outstanding_when_measuring_began_is_allowed() {
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
    let stand_still = |net: &mut Network, from: u64| {
        net.measure_from = Duration::millis(from);
        net.links[DOWN].outages = vec![outage(from, 20_000 - from, OutageRule::Held)];
    };
    // A link that stands still all the time may still hand over what was under way when measuring
    // began, and no more.
    stand_still(&mut net, 19_700);
    assert!(!capacity(&net));
    stand_still(&mut net, 15_000);
    assert!(capacity(&net));
}

#[test]
fn more_than_a_cell_can_carry_is_found() {
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
