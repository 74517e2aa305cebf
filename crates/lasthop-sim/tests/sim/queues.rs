//! Queue disciplines on links and their effects, under the verifier.

use std::sync::Arc;

use crate::support::*;
use lasthop::agent::{Agent, Context, Verdict};
use lasthop::queue::cake::Cake;
use lasthop::queue::codel::Codel;
use lasthop::queue::cw_marking::CwMarking;
use lasthop::queue::drop_head::DropHead;
use lasthop::queue::fq_codel::FqCodel;
use lasthop::queue::pie::Pie;
use lasthop::queue::red::Red;
use lasthop::queue::step_marking::StepMarking;
use lasthop::queue::two_priority::TwoPriority;
use lasthop::queue::{
    Discipline, ForeignQueue, Frame, Load, Outcome, QueueConfig, QueueDiscipline, drop_reason,
};
use lasthop::role::Role;
use lasthop::scenario::network::{App, Flow, Network};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::{Direction, Flags, Segment};
use lasthop::tcp::profile::{InitialSsthresh, ProfileName};
use lasthop::traffic::Cbr;
use lasthop::units::{Duration, QueueLimit, Rate, Share, Size, Time};
use lasthop_sim::events::Kind;

fn managed(limit: u64, discipline: Discipline) -> QueueConfig {
    QueueConfig { limit: Some(QueueLimit::Packets(limit)), discipline }
}

/// A bulk flow of newreno over the radio link of 1 Mbit/s with this queue, receive window 4 MiB.
fn bulk(queue: QueueConfig, ecn: bool, seconds: u64) -> Network {
    let mut f = flow("newreno", ProfileName::Rfc, App::Bulk);
    f.receive_window = Size::Bytes(4 << 20);
    f.profile.ecn = ecn;
    let mut net = last_hop(vec![f], Duration::secs(seconds));
    net.links[DOWN].queue = queue;
    net.measure_from = Duration::secs(5);
    net
}

fn named(mut f: Flow, name: &str) -> Flow {
    f.name = name.into();
    f
}

/// A full buffer of 200 frames takes 1.7 s, and on average it is half full. CoDel holds the delay
/// near its target and the link busy.
#[test]
fn codel_limits_the_delay_of_a_long_buffer() {
    let drop_tail = watch(&bulk(packets(200), false, 60), 1).result;
    let codel =
        watch(&bulk(managed(200, Discipline::Codel(Codel::default())), false, 60), 1).result;
    let (long, short) = (
        drop_tail.links[DOWN].queue_delay_s.p50.unwrap(),
        codel.links[DOWN].queue_delay_s.p50.unwrap(),
    );
    assert!(long > 0.4 && short < 0.03, "{long} {short}");
    assert!(codel.links[DOWN].utilisation.unwrap() > 0.85);
}

/// The same with PIE, whose target is 15 ms.
#[test]
fn pie_limits_the_delay_of_a_long_buffer() {
    let pie = watch(&bulk(managed(200, Discipline::Pie(Pie::default())), false, 60), 1).result;
    let delay = pie.links[DOWN].queue_delay_s.p50.unwrap();
    assert!(delay < 0.045, "{delay}");
    assert!(pie.links[DOWN].utilisation.unwrap() > 0.8, "{:?}", pie.links[DOWN]);
}

/// The same with CAKE. A frame takes 8.4 ms, so that the target is 12.6 ms.
#[test]
fn cake_limits_the_delay_of_a_long_buffer() {
    let cake = watch(&bulk(managed(200, Discipline::Cake(Cake::default())), false, 60), 1).result;
    let delay = cake.links[DOWN].queue_delay_s.p50.unwrap();
    assert!(delay < 0.05, "{delay}");
    assert!(cake.links[DOWN].utilisation.unwrap() > 0.85, "{:?}", cake.links[DOWN]);
}

/// With ECN nothing is lost or retransmitted, but cwnd is reduced all the same.
#[test]
fn marks_replace_losses() {
    let red = Red { ecn: true, w_q: Share(0.02), ..Red::default() };
    let codel = Codel { ecn: true, ..Codel::default() };
    for discipline in
        [Discipline::Red(red), Discipline::Codel(codel), Discipline::FqCodel(FqCodel::default())]
    {
        // Slow start would fill any buffer before the first mark reaches the sender.
        let with = |ecn| {
            let mut net = bulk(managed(400, discipline.clone()), ecn, 40);
            net.flows[0].profile.initial_ssthresh = InitialSsthresh::Size(Size::Segments(15.0));
            watch(&net, 1).result
        };
        let (marked, dropped) = (with(true), with(false));
        let (flow, link) = (&marked.flows[0], &marked.links[DOWN]);
        assert!(link.marked_frames > 5 && flow.cwnd_reductions > 3, "{discipline:?} {link:?}");
        assert_eq!((link.dropped_at_queue, flow.retransmissions.total), (0, 0), "{discipline:?}");
        assert_eq!(dropped.links[DOWN].marked_frames, 0);
        assert!(
            dropped.links[DOWN].dropped_at_queue > 5 && dropped.flows[0].retransmissions.total > 5,
            "{discipline:?}"
        );
    }
}

/// Disciplines that only mark forward packets without ECN: for these they are DropTail, event for
/// event.
#[test]
fn marking_queues_are_drop_tail_without_ecn() {
    let same_events = |queue: QueueConfig| {
        let log = watch(&bulk(queue, false, 20), 1).log;
        log.0.into_iter().filter(|e| e.kind != Kind::Dequeued).collect::<Vec<Seen>>()
    };
    let drop_tail = same_events(packets(20));
    for discipline in [
        Discipline::StepMarking(StepMarking::default()),
        Discipline::CwMarking(CwMarking::default()),
    ] {
        assert!(same_events(managed(20, discipline)) == drop_tail);
    }
}

/// A stream of 20 datagrams a second competes with a bulk transfer. Behind FQ-CoDel it waits for
/// one or two frames, never for the bulk flow's queue.
#[test]
fn fq_codel_isolates_a_low_rate_flow() {
    let delay = |queue| {
        let mut net = bulk(queue, false, 60);
        let low_rate = Flow {
            segment: 100,
            ..flow("reno", ProfileName::Rfc, App::Cbr(Cbr { rate: Rate(16_000) }))
        };
        net.flows.push(named(low_rate, "flow 2"));
        watch(&net, 1).result.flows[1].one_way_delay_s.p99.unwrap()
    };
    let (fifo, fq) =
        (delay(packets(200)), delay(managed(200, Discipline::FqCodel(FqCodel::default()))));
    // 50 ms of propagation, 1.2 ms on the link itself, and one frame of the bulk flow of 8.3 ms.
    assert!(fifo > 0.5 && fq < 0.075, "{fifo} {fq}");
}

/// Round-trip times of 100 and 300 ms: behind a FIFO the near flow takes most of the capacity,
/// behind FQ-CoDel half.
#[test]
fn fq_codel_is_fair_to_a_distant_flow() {
    let shares = |queue: QueueConfig| {
        let net = bulk(queue, false, 120);
        let far = named(net.flows[0].clone(), "flow 2");
        let mut net = Network { flows: vec![net.flows[0].clone(), far], ..net };
        // The second flow has a separate wired link.
        let roles = [Role::Server, Role::BaseStation, Role::Station, Role::Server];
        net.links.push(link(3, 1, mbps(10.0), ms(110)));
        net.links.push(link(1, 3, mbps(10.0), ms(110)));
        net.flows[1].from = 3;
        let net = Network {
            measure_from: Duration::secs(20),
            ..network(&roles, net.links, net.flows, net.duration)
        };
        let flows = watch(&net, 1).result.flows;
        flows[0].goodput_bps / flows[1].goodput_bps
    };
    let (fifo, fq) =
        (shares(packets(12)), shares(managed(200, Discipline::FqCodel(FqCodel::default()))));
    assert!(fifo > 1.8, "{fifo}");
    assert!((0.8..1.3).contains(&fq), "{fq}");
}

#[test]
fn random_drops_depend_on_the_seed_only() {
    let red = managed(60, Discipline::Red(Red { w_q: Share(0.02), ..Red::default() }));
    let net = bulk(red, false, 20);
    assert_eq!(json(&net, 1), json(&net, 1));
    assert_ne!(json(&net, 1).replace("\"seed\":1,", ""), json(&net, 2).replace("\"seed\":2,", ""));
    let fq = bulk(managed(60, Discipline::FqCodel(FqCodel::default())), false, 20);
    assert_eq!(json(&fq, 1).replace("\"seed\":1,", ""), json(&fq, 2).replace("\"seed\":2,", ""));
}

/// Last come, first served; every tenth frame is dropped as it leaves.
#[derive(Default)]
struct Stack {
    frames: Vec<Frame>,
    served: u64,
}

impl QueueDiscipline for Stack {
    fn enqueue(&mut self, _now: Time, frame: Frame, _outcomes: &mut Vec<Outcome>) {
        self.frames.push(frame);
    }
    fn dequeue(&mut self, _now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        self.served += 1;
        if self.served.is_multiple_of(10)
            && let Some(frame) = self.frames.pop()
        {
            frame.drop("tenth", outcomes);
        }
        self.frames.pop()
    }
    fn load(&self) -> Load {
        Load {
            packets: self.frames.len() as u64,
            bytes: self.frames.iter().map(|f| u64::from(f.bytes)).sum(),
        }
    }
}

#[test]
fn a_discipline_from_outside_the_core() {
    let make =
        ForeignQueue { name: "stack".into(), make: Arc::new(|_| Box::new(Stack::default())) };
    let run = watch(
        &bulk(QueueConfig { limit: None, discipline: Discipline::Foreign(make) }, false, 30),
        1,
    );
    assert!(
        run.result.links[DOWN].dropped_at_queue > 10
            && run.result.flows[0].delivered_bytes > 100_000
    );
    assert!(run.log.of(Kind::DroppedAtQueue).all(|e| e.reason == "tenth"));
}

/// Events of queues are checked: the events of a valid run are tampered with, one at a time.
#[test]
fn the_verifier_detects_violations_of_a_queue() {
    let codel =
        |ecn| bulk(managed(60, Discipline::Codel(Codel { ecn, ..Codel::default() })), ecn, 20);
    let tampered = |net: &Network, kind: Kind, change: &dyn Fn(&mut Vec<Seen>, usize)| {
        let mut events = watch(net, 1).log.0;
        let i = (0..events.len())
            .filter(|&i| events[i].kind == kind && events[i].link == Some(DOWN as u32))
            .nth(5)
            .expect("the run has such events");
        change(&mut events, i);
        violations(net, &events)
    };
    let expect = |text: &str, found: Vec<String>| {
        assert!(found.iter().any(|f| f.contains(text)), "expected \"{text}\", found {found:#?}")
    };
    let (drops, marks) = (codel(false), codel(true));
    expect(
        "the discipline does not allow",
        tampered(&drops, Kind::DroppedAtQueue, &|e, i| e[i].reason = drop_reason::RED_EARLY),
    );
    expect(
        "the discipline does not allow",
        tampered(&drops, Kind::DroppedAtQueue, &|e, i| e[i].reason = drop_reason::FULL),
    );
    expect(
        "is not in this queue",
        tampered(&drops, Kind::DroppedAtQueue, &|e, i| e.insert(i, e[i].clone())),
    );
    expect(
        "is not in this queue",
        tampered(&drops, Kind::Dequeued, &|e, i| e.insert(i, e[i].clone())),
    );
    expect(
        "is reported to have waited",
        tampered(&drops, Kind::Dequeued, &|e, i| e[i].value += 0.001),
    );
    expect("but was not sent", tampered(&drops, Kind::Dequeued, &|e, i| _ = e.remove(i)));
    expect(
        "frames are queued, but the link is idle",
        tampered(&drops, Kind::Dequeued, &|e, i| _ = e.remove(i)),
    );
    expect(
        "frames are reported as queued",
        tampered(&drops, Kind::Enqueued, &|e, i| e[i].value += 1.0),
    );
    expect("changed in transit", tampered(&marks, Kind::Marked, &|e, i| _ = e.remove(i)));
    expect("the discipline does not allow", violations(&drops, &watch(&marks, 1).log.0));
    let mut shorter = drops.clone();
    shorter.links[DOWN].queue.limit = Some(QueueLimit::Packets(3));
    expect("exceeds the limit", violations(&shorter, &watch(&drops, 1).log.0));
    // A frame overtakes another one of its flow: two departures are exchanged.
    expect("overtakes", {
        let mut events = watch(&drops, 1).log.0;
        let of =
            |e: &Seen| e.kind == Kind::Dequeued && e.link == Some(DOWN as u32) && e.value > 0.02;
        let i =
            (0..events.len()).filter(|&i| of(&events[i])).nth(5).expect("the run has such events");
        let j = (i + 1..events.len())
            .find(|&j| of(&events[j]))
            .expect("the run has another such event");
        let (a, b) = (events[i].segment, events[j].segment);
        (events[i].segment, events[j].segment) = (b, a);
        violations(&drops, &events)
    });
}

/// Marks every second data segment as low priority, as a sender of Casablanca would.
#[derive(Default)]
struct EverySecondLow(u64);

impl Agent for EverySecondLow {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        if direction == Direction::Uplink || segment.len == 0 {
            return Verdict::Forward;
        }
        self.0 += 1;
        let low = if self.0.is_multiple_of(2) { Flags::LOW_PRIORITY } else { Flags::NONE };
        ctx.inject(Direction::Downlink, Segment { flags: segment.flags.with(low), ..*segment });
        Verdict::Keep
    }
}

/// Nearly all congestion drops hit low priority; a tail drop would hit both priorities alike.
#[test]
fn low_priority_is_dropped_first() {
    let marking =
        SchemeChoice::of_agent("low", &[Role::BaseStation], || Box::new(EverySecondLow::default()));
    let run = |discipline| {
        let mut net = bulk(managed(10, discipline), false, 60);
        net.flows[0].scheme = marking.clone();
        let log = watch(&net, 1).log;
        let drops: Vec<Seen> = log.of(Kind::DroppedAtQueue).cloned().collect();
        let low = drops.iter().filter(|e| e.segment().flags.has(Flags::LOW_PRIORITY)).count();
        (low, drops.iter().filter(|e| e.reason == drop_reason::PUSHED_OUT).count(), drops.len())
    };
    let (low, pushed_out, all) = run(Discipline::TwoPriority(TwoPriority {}));
    assert!(all > 10 && low == pushed_out && low * 10 >= all * 9, "{low} {pushed_out} of {all}");
    let (low, pushed_out, all) = run(Discipline::Droptail);
    assert!(pushed_out == 0 && low * 4 <= all * 3, "{low} of {all}");
}

/// Lakshman, Neidhardt and Ott 1996: the sender learns of a drop at the head earlier, by the time
/// that the queue takes to drain (50 frames at 1 Mbit/s: 0.4 s).
#[test]
fn a_drop_at_the_head_is_detected_sooner() {
    let delay = |discipline, reason| {
        let log = watch(&bulk(managed(50, discipline), false, 30), 1).log;
        let drops: Vec<Seen> = log.of(Kind::DroppedAtQueue).cloned().collect();
        assert!(!drops.is_empty() && drops.iter().all(|e| e.reason == reason), "{reason}");
        let detected = log.of(Kind::FastRetransmit).find(|e| e.t > drops[0].t).unwrap();
        detected.secs() - drops[0].secs()
    };
    let tail = delay(Discipline::Droptail, drop_reason::FULL);
    let head = delay(Discipline::DropHead(DropHead {}), drop_reason::HEAD);
    assert!((0.3..0.5).contains(&(tail - head)), "{tail} s, {head} s");
}
