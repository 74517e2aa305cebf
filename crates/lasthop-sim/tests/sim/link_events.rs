//! Link events that agents receive, and the notices that they send.

use std::sync::{Arc, Mutex};

use crate::support::cells::{dot11b, wlan};
use crate::support::*;
use lasthop::agent::{Agent, Context, Destination, LinkChange, LinkEvent, Subscriptions, Verdict};
use lasthop::air::config::OutageRule;
use lasthop::link::cell::mac::{Mac, MacName};
use lasthop::link::cell::phy::Generation;
use lasthop::link::cell::wifi::{AccessCategory, Wifi};
use lasthop::role::Role;
use lasthop::scenario::network::Network;
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::{Direction, FlowId, Notice, NoticeKind, Segment};
use lasthop::units::{Duration, Rate, Time};
use lasthop_sim::events::Kind;

type EventLog = Arc<Mutex<Vec<(Time, Direction, LinkEvent, u64)>>>;

/// Records the link events of data segments; sends a notice to `to` for each discard.
struct Subscriber {
    events: EventLog,
    to: Option<Destination>,
    /// Queue lengths, frames, read at each event: in the segment's direction and in the other one.
    queues: Arc<Mutex<Vec<[u64; 2]>>>,
    notices: Arc<Mutex<Vec<Notice>>>,
}

impl Agent for Subscriber {
    fn on_segment(&mut self, _: &mut Context<'_>, _: Direction, _: &Segment) -> Verdict {
        Verdict::Forward
    }
    fn subscribes(&self) -> Subscriptions {
        Subscriptions::SENDING
    }
    fn on_link_event(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        event: LinkEvent,
        segment: &Segment,
    ) {
        if segment.len == 0 {
            return;
        }
        self.events.lock().unwrap().push((ctx.now, direction, event, segment.seq));
        self.queues
            .lock()
            .unwrap()
            .push([direction, direction.reverse()].map(|d| ctx.node_view.queue(d).packets));
        if let (LinkEvent::Discarded, Some(to)) = (event, self.to) {
            ctx.notify(
                Notice {
                    kind: NoticeKind::Eln,
                    flow: segment.flow,
                    value: segment.seq,
                    stamp: Time::ZERO,
                },
                to,
            );
        }
    }
    fn on_notice(&mut self, _: &mut Context<'_>, notice: &Notice) {
        self.notices.lock().unwrap().push(*notice);
    }
}

struct Recordings {
    events: EventLog,
    queues: Arc<Mutex<Vec<[u64; 2]>>>,
    notices: Arc<Mutex<Vec<Notice>>>,
}

/// Installs a subscriber for the first flow at each node with one of these roles.
fn subscribe(network: &mut Network, roles: &[Role], to: Option<Destination>) -> Recordings {
    let bench =
        Recordings { events: EventLog::default(), queues: Arc::default(), notices: Arc::default() };
    let (events, queues, notices) =
        (bench.events.clone(), bench.queues.clone(), bench.notices.clone());
    network.flows[0].scheme = SchemeChoice::of_agent("subscriber", roles, move || {
        Box::new(Subscriber {
            events: events.clone(),
            to,
            queues: queues.clone(),
            notices: notices.clone(),
        })
    });
    bench
}

/// A frame of 1040 bytes takes 8.32 ms at 1 Mbit/s.
const AIR: Duration = Duration(8_320_000);

#[test]
fn a_lossy_link_is_a_link_with_one_attempt() {
    let mut network = last_hop(vec![rfc("newreno", 20)], Duration::secs(20));
    network.links[DOWN].loss = lose(&["5:1"], &[]);
    let bench = subscribe(&mut network, &[Role::BaseStation], Some(Destination::Sender));
    let run = watch(&network, 1);
    let events = bench.events.lock().unwrap();
    let of =
        |seq: u64| events.iter().filter(|h| h.3 == seq).map(|h| (h.0, h.2)).collect::<Vec<_>>();
    let (first, lost) = (of(0), of(4000));
    let start = first[0].0;
    let sent = |start: Time| {
        vec![(start, LinkEvent::Dequeued), (start, LinkEvent::AttemptStarted { attempt: 1 })]
    };
    assert_eq!(
        first,
        [sent(start), vec![(start + AIR, LinkEvent::Delivered { attempts: 1 })]].concat()
    );
    // Lost once, at the end of its air time; then retransmitted.
    let (start, retransmission) = (lost[0].0, lost[4].0);
    let failed = vec![
        (start + AIR, LinkEvent::AttemptFailed { attempt: 1 }),
        (start + AIR, LinkEvent::Discarded),
    ];
    assert_eq!(lost[..4], [sent(start), failed].concat());
    assert_eq!(
        lost[4..],
        [sent(retransmission), vec![(retransmission + AIR, LinkEvent::Delivered { attempts: 1 })]]
            .concat()
    );
    assert!(events.iter().all(|h| h.1 == Direction::Downlink));
    // The notice crosses the wired link: 40 bytes at 10 Mbit/s and 10 ms.
    let notices: Vec<_> = run.log.of(Kind::NoticeReceived).collect();
    assert_eq!(notices.len(), 1);
    assert_eq!((notices[0].t, notices[0].node), ((start + AIR + ms(10) + Duration(32_000)).0, 0));
    let segment = notices[0].segment.unwrap();
    assert_eq!(
        (segment.notice().unwrap().value, segment.notice().unwrap().stamp),
        (4000, start + AIR)
    );
}

#[test]
fn dropped_frames_are_reported() {
    let mut network = last_hop(vec![rfc("newreno", 100)], Duration::secs(60));
    network.links[DOWN].queue = packets(2);
    let bench = subscribe(&mut network, &[Role::BaseStation], None);
    let run = watch(&network, 1);
    let refused =
        bench.events.lock().unwrap().iter().filter(|h| h.2 == LinkEvent::Refused).count() as u64;
    assert!(refused > 0);
    assert_eq!(refused, run.result.links[DOWN].dropped_at_queue);
}

/// The station sends: its agent is between its stack and its only link.
#[test]
fn an_agent_in_the_stations_own_stack_reaches_it_at_once() {
    let mut flow = rfc("newreno", 20);
    (flow.from, flow.to) = (2, 0);
    let mut network = last_hop(vec![flow], Duration::secs(20));
    network.links[UP].loss = lose(&["5:1"], &[]);
    let bench = subscribe(&mut network, &[Role::Station], Some(Destination::Sender));
    let run = watch(&network, 1);
    let events = bench.events.lock().unwrap();
    assert!(events.iter().all(|h| h.1 == Direction::Uplink));
    let discarded = events.iter().find(|h| h.2 == LinkEvent::Discarded).unwrap();
    let notices: Vec<_> = run.log.of(Kind::NoticeReceived).map(|e| (e.t, e.node)).collect();
    assert_eq!((notices, discarded.3), (vec![(discarded.0.0, 2)], 4000));
    assert_eq!(run.result.agents[0].node, "n2");
    // The uplink queue fills up; the station has no queue in the other direction.
    let queues = bench.queues.lock().unwrap();
    assert!(queues.iter().any(|q| q[0] > 1) && queues.iter().all(|q| q[1] == 0));
}

#[test]
fn notices_go_to_the_agent_at_a_role() {
    let mut network = last_hop(vec![rfc("newreno", 20)], Duration::secs(20));
    network.links[DOWN].loss = lose(&["5:1"], &[]);
    let bench = subscribe(
        &mut network,
        &[Role::BaseStation, Role::Station],
        Some(Destination::Agent(Role::Station)),
    );
    let run = watch(&network, 1);
    let notices = bench.notices.lock().unwrap();
    assert_eq!(notices.iter().map(|n| n.value).collect::<Vec<_>>(), [4000]);
    assert_eq!(run.log.of(Kind::NoticeReceived).map(|e| e.node).collect::<Vec<_>>(), [2]);
}

/// Records the state changes of its links.
struct LinkStateRecorder(Arc<Mutex<Vec<(u64, Direction, LinkChange)>>>);

impl Agent for LinkStateRecorder {
    fn on_segment(&mut self, _: &mut Context<'_>, _: Direction, _: &Segment) -> Verdict {
        Verdict::Forward
    }
    fn subscribes(&self) -> Subscriptions {
        Subscriptions::CHANGES
    }
    fn on_link_change(
        &mut self,
        ctx: &mut Context<'_>,
        flow: FlowId,
        direction: Direction,
        change: LinkChange,
    ) {
        assert_eq!(flow, 0);
        self.0.lock().unwrap().push((ctx.now.0 / 1_000_000, direction, change));
    }
}

#[test]
fn link_state_changes_are_reported() {
    let mut network = last_hop(vec![rfc("newreno", 2000)], Duration::secs(20));
    network.links[DOWN].rate =
        schedule(&[(0, 1_000_000), (3000, 500_000), (5000, 0), (6000, 500_000), (8000, 2_000_000)]);
    network.links[DOWN].outages =
        vec![outage(10_000, 500, OutageRule::LostAtArrival), outage(10_300, 700, OutageRule::Held)];
    network.links[UP].outages = vec![outage(7000, 250, OutageRule::LostAtSending)];
    let changes = Arc::new(Mutex::new(Vec::new()));
    let to = changes.clone();
    let roles = [Role::BaseStation, Role::Station];
    network.flows[0].scheme = SchemeChoice::of_agent("link-state", &roles, move || {
        Box::new(LinkStateRecorder(to.clone()))
    });
    let plain = { watch(&network, 1).result.flows.remove(0).delivered_bytes };
    assert!(plain > 0);
    let mut changes = std::mem::take(&mut *changes.lock().unwrap());
    // The station reports its uplink; the base station's link to the server never changes.
    let up: Vec<_> =
        changes.extract_if(.., |h| h.1 == Direction::Uplink).map(|h| (h.0, h.2)).collect();
    assert_eq!(up, [(7000, LinkChange::Down), (7250, LinkChange::Up)]);
    let down: Vec<_> = changes.into_iter().map(|h| (h.0, h.2)).collect();
    let (half, two) = (LinkChange::Rate(Rate(500_000)), LinkChange::Rate(Rate(2_000_000)));
    let steps =
        [(3000, half), (5000, LinkChange::Down), (6000, LinkChange::Up), (6000, half), (8000, two)];
    let outage = [(10_000, LinkChange::Down), (11_000, LinkChange::Up), (11_000, two)];
    assert_eq!(down, [&steps[..], &outage[..]].concat());
}

/// Subscribing to link events does not change the run.
#[test]
fn a_subscription_alone_changes_nothing() {
    for seed in 1..4 {
        let mut network = last_hop(vec![rfc("newreno", 400)], Duration::secs(60));
        network.links[DOWN].loss =
            lasthop::air::config::LossConfig::uniform(lasthop::units::Share(0.03));
        network.links[DOWN].queue = packets(10);
        let plain = watch(&network, seed).result.flows.remove(0);
        subscribe(&mut network, &[Role::BaseStation, Role::Station], None);
        let subscribed = watch(&network, seed).result.flows.remove(0);
        assert_eq!(
            (plain.completed_s, plain.sent_segments, plain.timeouts.total),
            (subscribed.completed_s, subscribed.sent_segments, subscribed.timeouts.total)
        );
    }
}

/// Counts damaged data segments at its node, with readable headers and without, and records their
/// times.
struct DamagedFrames {
    seen: Arc<Mutex<(u64, u64, Vec<Time>)>>,
}

impl Agent for DamagedFrames {
    fn on_segment(&mut self, _: &mut Context<'_>, _: Direction, _: &Segment) -> Verdict {
        Verdict::Forward
    }
    fn subscribes(&self) -> Subscriptions {
        Subscriptions::DAMAGED
    }
    fn on_link_event(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        event: LinkEvent,
        segment: &Segment,
    ) {
        let LinkEvent::Damaged { header_readable } = event else { panic!("{event:?}") };
        assert!(direction == Direction::Downlink && segment.len > 0);
        let mut seen = self.seen.lock().unwrap();
        if header_readable {
            seen.0 += 1
        } else {
            seen.1 += 1
        }
        seen.2.push(ctx.now);
    }
}

/// A frame of 1040 bytes is lost with probability 10 %, so its 40 bytes of headers are damaged with
/// probability 1 - 0.9^(40 / 1040) = 0.40 %, which is 4.04 % of the losses. A damaged frame arrives
/// at the time at which it would have arrived undamaged, 40 ms after the end of its air time.
#[test]
fn damaged_frames_arrive_and_most_have_readable_headers() {
    let mut network = last_hop(vec![rfc("newreno", 60_000)], Duration::secs(20_000));
    network.links[DOWN].loss =
        lasthop::air::config::LossConfig::uniform(lasthop::units::Share(0.1));
    let seen = Arc::new(Mutex::new((0, 0, Vec::new())));
    let handed = seen.clone();
    network.flows[0].scheme = SchemeChoice::of_agent("reader", &[Role::Station], move || {
        Box::new(DamagedFrames { seen: handed.clone() })
    });
    let run = watch(&network, 1);
    let seen = seen.lock().unwrap();
    let lost: Vec<_> = run.log.of(Kind::LostOnAir).map(|e| e.t).collect();
    assert_eq!(seen.0 + seen.1, lost.len() as u64);
    assert_eq!(seen.2[0], Time(lost[0]) + ms(40));
    let share = seen.1 as f64 / lost.len() as f64;
    assert!((share - 0.0404).abs() < 0.008, "{share} of {}", lost.len());
}

/// In a cell an attempt begins when the station gains the medium, and fails at the end of its air
/// time if no link ACK follows.
#[test]
fn attempts_in_a_cell_are_reported() {
    let mut network = wlan(
        Mac { attempts: 2, ..dot11b() },
        1,
        ms(10),
        vec![rfc("newreno", 20)],
        Duration::secs(20),
    );
    // The link layer loses segment 5 once and discards segment 9.
    network.cells[0].stations[1].down = lose(&["5:1", "9:1", "9:2"], &[]);
    let bench = subscribe(&mut network, &[Role::BaseStation], Some(Destination::Sender));
    let run = watch(&network, 1);
    let events = bench.events.lock().unwrap();
    let of = |number: u64| {
        events.iter().filter(|h| h.3 == (number - 1) * 1000).map(|h| (h.0, h.2)).collect::<Vec<_>>()
    };
    let kinds = |list: &[(Time, LinkEvent)]| list.iter().map(|e| e.1).collect::<Vec<_>>();
    let (started, failed) = (
        |attempt| LinkEvent::AttemptStarted { attempt },
        |attempt| LinkEvent::AttemptFailed { attempt },
    );
    let fifth = of(5);
    assert_eq!(
        kinds(&fifth),
        [
            LinkEvent::Dequeued,
            started(1),
            failed(1),
            started(2),
            LinkEvent::Delivered { attempts: 2 }
        ]
    );
    // A preamble, and 1076 bytes at 11 Mbit/s; then at least the ACK timeout and DIFS.
    let air = Duration(192_000 + 782_545);
    assert_eq!((fifth[0].0, fifth[2].0), (fifth[1].0, fifth[1].0 + air));
    assert!(
        fifth[3].0 >= fifth[2].0 + Duration::micros(222 + 50) && fifth[4].0 == fifth[3].0 + air
    );
    let ninth = of(9);
    assert_eq!(
        kinds(&ninth)[..6],
        [LinkEvent::Dequeued, started(1), failed(1), started(2), failed(2), LinkEvent::Discarded]
    );
    // The sender's retransmission succeeds; the notice has reached the sender.
    assert_eq!(
        kinds(&ninth)[6..],
        [LinkEvent::Dequeued, started(1), LinkEvent::Delivered { attempts: 1 }]
    );
    let notices: Vec<_> =
        run.log.of(Kind::NoticeReceived).map(|e| (e.node, e.segment().ack)).collect();
    assert_eq!(notices, [(0, 8000)]);
    assert_eq!(run.log.of(Kind::LostOnAir).filter(|e| e.number() == 9).count(), 1);
}

/// In a cell with aggregation, each MPDU has its attempts and its own end.
#[test]
fn attempts_of_mpdus_are_reported() {
    let mac = Mac { attempts: 2, ..Mac::named(MacName::Dot11n) };
    let mut network = wlan(mac, 1, ms(10), vec![rfc("newreno", 20)], Duration::secs(20));
    network.cells[0].wifi = Some(Wifi::new(Generation::Ht, AccessCategory::BestEffort));
    network.cells[0].stations[1].down = lose(&["5:1", "9:1", "9:2"], &[]);
    let bench = subscribe(&mut network, &[Role::BaseStation], Some(Destination::Sender));
    let run = watch(&network, 1);
    let events = bench.events.lock().unwrap();
    let of = |number: u64| {
        events.iter().filter(|h| h.3 == (number - 1) * 1000).map(|h| h.2).collect::<Vec<_>>()
    };
    let (started, failed) = (
        |attempt| LinkEvent::AttemptStarted { attempt },
        |attempt| LinkEvent::AttemptFailed { attempt },
    );
    assert_eq!(
        of(5),
        [
            LinkEvent::Dequeued,
            started(1),
            failed(1),
            started(2),
            LinkEvent::Delivered { attempts: 2 }
        ]
    );
    assert_eq!(
        of(9),
        [
            LinkEvent::Dequeued,
            started(1),
            failed(1),
            started(2),
            failed(2),
            LinkEvent::Discarded,
            LinkEvent::Dequeued,
            started(1),
            LinkEvent::Delivered { attempts: 1 }
        ]
    );
    assert_eq!(run.log.of(Kind::LostOnAir).filter(|e| e.number() == 9).count(), 1);
}
