use proptest::prelude::*;

use super::*;
use crate::air::config::{DelayConfig, DelayDistribution, LossConfig, RateConfig, RateStep};
use crate::link::arq::{ArqConfig, ArqKind};
use crate::link::config::LinkConfig;
use crate::queue::{Discipline, QueueConfig};
use crate::sample::Sample;
use lasthop_core::units::{Duration, QueueLimit, Rate, Share};

const END: Time = Time(u64::MAX - 1);

fn config(
    queue: QueueConfig,
    rate: RateConfig,
    delay: DelayConfig,
    loss: LossConfig,
) -> LinkConfig {
    LinkConfig {
        name: "radio".into(),
        from: 0,
        to: 1,
        radio: true,
        overhead: 14,
        queue,
        rate,
        trace: None,
        delay,
        loss,
        outages: vec![],
        arq: None,
        shaper: None,
        impairments: Default::default(),
        mtu: None,
        cell: None,
    }
}

fn link(config: &LinkConfig) -> Link {
    let end = Time(3_600_000_000_000);
    Link::new(config, "a>b", 7, Duration::ZERO, 1460, Time::ZERO, end).unwrap()
}

/// A link whose attempts are events.
fn watched(link: Link) -> Drive {
    Drive::new(link, Subscriptions::SENDING, Subscriptions::NONE).unwrap()
}

fn unwatched(link: Link) -> Drive {
    Drive::new(link, Subscriptions::NONE, Subscriptions::NONE).unwrap()
}

/// A frame: when it comes, its size, and whether its transport is ECN-capable.
type Input = (Time, u32, bool);

fn segment(&(_, size, ecn): &Input) -> Segment {
    let flags = if ecn { Flags::ACK.with(Flags::ECT) } else { Flags::ACK };
    Segment { size, len: size.saturating_sub(40), forward: true, flags, ..Segment::default() }
}

/// The events of a host that takes each event at its time.
fn punctual(mut drive: Drive, inputs: &[Input]) -> Vec<Event> {
    let mut events = Vec::new();
    for (handle, input) in (100..).zip(inputs) {
        while drive.next() < input.0 {
            events.extend(drive.step(drive.next()));
        }
        drive.input(input.0, input.0, handle, &segment(input));
    }
    while drive.next() < Time::NEVER {
        events.extend(drive.step(drive.next()));
    }
    assert_eq!(drive.free.len(), drive.slots.len(), "the link has forgotten all frames");
    events
}

/// The events of a host that looks at the link only when all frames have come.
fn late(mut drive: Drive, inputs: &[Input]) -> Vec<Event> {
    for (handle, input) in (100..).zip(inputs) {
        drive.input(input.0, input.0, handle, &segment(input));
    }
    std::iter::from_fn(|| drive.step(END)).collect()
}

/// How the frames end, without what agents are told on the way.
fn ends(events: &[Event]) -> Vec<(Time, Handle, EventKind)> {
    let is_end =
        |e: &&Event| matches!(e.kind, EventKind::Arrived | EventKind::Lost | EventKind::Refused(_));
    let mut ends: Vec<_> = events.iter().filter(is_end).map(|e| (e.at, e.handle, e.kind)).collect();
    ends.sort_by_key(|e| (e.0, e.1));
    ends
}

/// What the link itself computes for these frames, on a link whose departures are computed.
fn computed(mut link: Link, inputs: &[Input]) -> Vec<(Time, Handle, EventKind)> {
    let mut ends = Vec::new();
    for (handle, input) in (100..).zip(inputs) {
        let now = input.0;
        let segment = segment(input);
        let plan = match link.offer(now, now, segment.size) {
            Offered::Admitted => link.plan(now, now, &segment),
            Offered::Served => link.plan_service(now, &segment, None, Subscriptions::NONE),
            Offered::Refused => {
                ends.push((now, handle, EventKind::Refused(drop_reason::FULL)));
                continue;
            }
            Offered::Evented => panic!("departures are computed"),
        };
        let arrived = (plan.arrival, handle, EventKind::Arrived);
        ends.push(if plan.lost { (plan.end, handle, EventKind::Lost) } else { arrived });
    }
    ends.sort_by_key(|e| (e.0, e.1));
    ends
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let gap = prop_oneof![1 => Just(0), 3 => 0..3_000_000_u64, 1 => 0..60_000_000_u64];
    prop::collection::vec((gap, 40..1500_u32, any::<bool>()), 1..80).prop_map(|frames| {
        let mut now = Time::ZERO;
        let mut at = |gap: u64| {
            now += Duration(gap);
            now
        };
        frames.into_iter().map(|(gap, size, ecn)| (at(gap), size, ecn)).collect()
    })
}

fn losses() -> impl Strategy<Value = LossConfig> {
    (prop::collection::vec(0.0..1.0f64, 8), any::<prop::sample::Index>())
        .prop_map(|(numbers, i)| i.get(&LossConfig::samples(&Sample::new(&numbers, 0.5))).clone())
}

fn rates() -> impl Strategy<Value = RateConfig> {
    let rate = || (100_000..20_000_000_u64).prop_map(Rate);
    let schedule = (rate(), 1..200_u64, rate()).prop_map(|(first, at, last)| {
        let step = |ms, rate| RateStep { at: Duration::millis(ms), rate };
        let schedule = vec![step(0, first), step(at, Rate(0)), step(at + 50, last)];
        RateConfig::Schedule { schedule }
    });
    prop_oneof![2 => rate().prop_map(RateConfig::Constant), 1 => schedule]
}

fn delays() -> impl Strategy<Value = DelayConfig> {
    (0..50_u64, any::<bool>()).prop_map(|(ms, varies)| {
        let base = DelayConfig::constant(Duration::millis(ms));
        let (from, to) = (Duration::ZERO, Duration::millis(2 * ms));
        let distribution = varies.then_some(DelayDistribution::Uniform { from, to });
        DelayConfig { distribution, ..base }
    })
}

fn drop_tail() -> impl Strategy<Value = QueueConfig> {
    prop_oneof![
        (0..20_u64).prop_map(|n| QueueConfig::drop_tail(QueueLimit::Packets(n))),
        (1500..20_000_u64).prop_map(|n| QueueConfig::drop_tail(QueueLimit::Bytes(n))),
        Just(QueueConfig::UNLIMITED),
    ]
}

fn disciplines() -> impl Strategy<Value = QueueConfig> {
    let numbers = prop::collection::vec(0.0..1.0f64, 12);
    (1..20_u64, numbers, any::<prop::sample::Index>()).prop_map(|(limit, numbers, i)| QueueConfig {
        limit: Some(QueueLimit::Packets(limit)),
        discipline: i.get(&Discipline::samples(&Sample::new(&numbers, 1.0))).clone(),
    })
}

fn retransmission(kind: ArqKind) -> impl Strategy<Value = ArqConfig> {
    (1..4_u32, 0..10_u64, any::<bool>()).prop_map(move |(attempts, delay, in_order)| ArqConfig {
        kind,
        attempts,
        delay: Duration::millis(delay),
        in_order,
        fragments: 1,
    })
}

fn any_retransmission() -> impl Strategy<Value = Option<ArqConfig>> {
    prop_oneof![
        Just(None),
        retransmission(ArqKind::StopAndWait).prop_map(Some),
        retransmission(ArqKind::SelectiveRepeat).prop_map(Some),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whether a queue is full is what its state says; that the state is not asked for changes
    /// nothing.
    #[test]
    fn a_queue_is_full_if_its_state_says_so(
        queue in prop_oneof![drop_tail(), disciplines()], rate in rates(), delay in delays(),
        loss in losses(), inputs in inputs(),
    ) {
        let config = config(queue, rate, delay, loss);
        let drives = || unwatched(link(&config));
        let (mut by_state, mut by_question) = (drives(), drives());
        for (handle, input) in (100..).zip(&inputs) {
            while by_state.next() < input.0 {
                let at = by_state.next();
                prop_assert_eq!(by_state.step(at), by_question.step(at));
            }
            let full = by_question.link.is_full(input.0, input.0);
            prop_assert_eq!(full, by_state.queue(input.0, input.0).2);
            by_state.input(input.0, input.0, handle, &segment(input));
            by_question.input(input.0, input.0, handle, &segment(input));
        }
    }

    /// With computed departures, with an event for each departure or each attempt, and by the
    /// link's own plan, frames end in the same way at the same time.
    #[test]
    fn a_drop_tail_link_ends_frames_as_it_computes(
        queue in drop_tail(), rate in rates(), delay in delays(), loss in losses(),
        inputs in inputs(),
    ) {
        let config = config(queue, rate, delay, loss);
        let expected = computed(link(&config), &inputs);
        let mut evented = link(&config);
        evented.make_evented();
        prop_assert_eq!(&ends(&punctual(unwatched(link(&config)), &inputs)), &expected);
        prop_assert_eq!(&ends(&punctual(unwatched(evented), &inputs)), &expected);
        prop_assert_eq!(&ends(&punctual(watched(link(&config)), &inputs)), &expected);
    }

    /// Stop and wait, step by step and computed in advance.
    #[test]
    fn stop_and_wait_ends_frames_as_it_computes(
        queue in drop_tail(), rate in 100_000..20_000_000_u64, ms in 0..50_u64, loss in losses(),
        arq in retransmission(ArqKind::StopAndWait), inputs in inputs(),
    ) {
        let delay = DelayConfig::constant(Duration::millis(ms));
        let config = LinkConfig {
            arq: Some(arq),
            ..config(queue, RateConfig::Constant(Rate(rate)), delay, loss)
        };
        let mut precomputed = link(&config);
        precomputed.precompute_retransmissions();
        let expected = computed(precomputed, &inputs);
        prop_assert_eq!(&ends(&punctual(watched(link(&config)), &inputs)), &expected);
        prop_assert_eq!(&ends(&punctual(unwatched(link(&config)), &inputs)), &expected);
    }

    /// A late host gets the same events, with the same times, in the same order; each frame ends
    /// once; events are in order of time.
    #[test]
    fn events_do_not_depend_on_when_the_host_looks(
        queue in prop_oneof![drop_tail(), disciplines()], rate in rates(), delay in delays(),
        loss in losses(), arq in any_retransmission(), subscribed in any::<[bool; 2]>(),
        inputs in inputs(),
    ) {
        let config = LinkConfig { arq, ..config(queue, rate, delay, loss) };
        let [sender, receiver] = subscribed;
        let sender = if sender { Subscriptions::SENDING } else { Subscriptions::NONE };
        let receiver = if receiver { Subscriptions::DAMAGED } else { Subscriptions::NONE };
        let drive = || Drive::new(link(&config), sender, receiver).unwrap();
        let events = punctual(drive(), &inputs);
        prop_assert_eq!(&late(drive(), &inputs), &events);
        prop_assert!(events.is_sorted_by_key(|e| e.at));
        let mut ended: Vec<Handle> = ends(&events).iter().map(|e| e.1).collect();
        ended.sort_unstable();
        prop_assert_eq!(ended, (100..).take(inputs.len()).collect::<Vec<_>>());
    }
}

fn plain(loss: LossConfig) -> LinkConfig {
    let delay = DelayConfig::constant(Duration::millis(20));
    config(QueueConfig::UNLIMITED, RateConfig::Constant(Rate(8_000_000)), delay, loss)
}

/// 986 bytes and 14 bytes of overhead take 1 ms.
#[test]
fn attempts_are_told_one_by_one() {
    let arq = ArqConfig {
        kind: ArqKind::StopAndWait,
        attempts: 2,
        delay: Duration::millis(3),
        in_order: false,
        fragments: 1,
    };
    let config = LinkConfig { arq: Some(arq), ..plain(LossConfig::uniform(Share(1.0))) };
    let events = punctual(watched(link(&config)), &[(Time::ZERO, 986, false)]);
    let told = |ms: u64, event| (Time(ms * 1_000_000), EventKind::Told(event));
    let expected = [
        told(0, LinkEvent::Dequeued),
        told(0, LinkEvent::AttemptStarted { attempt: 1 }),
        told(1, LinkEvent::AttemptFailed { attempt: 1 }),
        told(4, LinkEvent::AttemptStarted { attempt: 2 }),
        told(5, LinkEvent::AttemptFailed { attempt: 2 }),
        (Time(5_000_000), EventKind::Lost),
    ];
    assert_eq!(events.iter().map(|e| (e.at, e.kind)).collect::<Vec<_>>(), expected);
    assert!(events.iter().all(|e| e.handle == 100));
}

#[test]
fn the_receiver_is_told_of_a_damaged_frame_after_its_loss() {
    let link = link(&plain(LossConfig::uniform(Share(1.0))));
    let drive = Drive::new(link, Subscriptions::NONE, Subscriptions::DAMAGED).unwrap();
    let events = punctual(drive, &[(Time::ZERO, 986, false)]);
    let kinds: Vec<_> = events.iter().map(|e| (e.at.0 / 1_000_000, e.handle, e.kind)).collect();
    assert_eq!(kinds[0], (1, 100, EventKind::Lost));
    assert!(
        matches!(kinds[1], (21, 100, EventKind::ToldReceiver(LinkEvent::Damaged { .. }))),
        "{kinds:?}"
    );
    assert_eq!(kinds.len(), 2);
}

#[test]
fn a_link_of_a_cell_is_refused() {
    let place = crate::link::cell::config::Place { cell: 0, from: 0, to: 1 };
    let config = LinkConfig { cell: Some(place), ..plain(LossConfig::None) };
    assert!(Drive::new(link(&config), Subscriptions::NONE, Subscriptions::NONE).is_err());
}
