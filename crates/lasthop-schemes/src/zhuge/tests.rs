//! Hand-made sequences of events: times in ms, numbers of segments.

use super::*;
use lasthop_core::agent::BlankView;
use lasthop_core::segment::{Options, Payload};

fn ms(time: u64) -> Time {
    Time(time * 1_000_000)
}

fn data(number: u64) -> Segment {
    Segment {
        seq: 1000 * number,
        len: 1000,
        size: 1040,
        forward: true,
        flags: Flags::ACK,
        ..Segment::default()
    }
}

fn ack(number: u64) -> Segment {
    let payload = Payload(number as u32);
    Segment { ack: 1000 * number, size: 40, flags: Flags::ACK, payload, ..Segment::default() }
}

/// The agent, and what it has released: time in ms and number of each ACK.
struct Bench {
    agent: ZhugeAgent,
    timer: Option<Time>,
    released: Vec<(u64, u64)>,
}

impl Bench {
    fn new(config: Zhuge) -> Bench {
        Bench { agent: ZhugeAgent::new(config), timer: None, released: Vec::new() }
    }

    fn call<T>(&mut self, now: Time, f: impl FnOnce(&mut ZhugeAgent, &mut Context<'_>) -> T) -> T {
        let mut actions = Vec::new();
        let (options, node_view) = (&Options::NONE, &BlankView);
        let mut ctx = Context { now, options, node_view, actions: &mut actions };
        let result = f(&mut self.agent, &mut ctx);
        for action in actions {
            match action {
                Action::Forward(Direction::Uplink, segment) => {
                    self.released.push((now.0 / 1_000_000, segment.ack / 1000));
                }
                Action::Wake(_, at) => self.timer = Some(at),
                Action::Release(_) => {}
                other => panic!("{other:?}"),
            }
        }
        result
    }

    /// Lets the timer expire that is due by this time.
    fn until(&mut self, now: Time) {
        while let Some(at) = self.timer.filter(|&at| at <= now) {
            self.timer = None;
            self.call(at, |agent, ctx| agent.on_timer(ctx, 0));
        }
    }

    fn data(&mut self, at: u64, number: u64) {
        self.until(ms(at));
        let verdict = self
            .call(ms(at), |agent, ctx| agent.on_segment(ctx, Direction::Downlink, &data(number)));
        assert_eq!(verdict, Verdict::Forward);
    }

    fn link(&mut self, at: u64, event: LinkEvent, number: u64) {
        self.until(ms(at));
        self.call(ms(at), |agent, ctx| {
            agent.on_link_event(ctx, Direction::Downlink, event, &data(number));
        });
    }

    fn ack(&mut self, at: u64, segment: &Segment) -> Verdict {
        self.until(ms(at));
        let verdict =
            self.call(ms(at), |agent, ctx| agent.on_segment(ctx, Direction::Uplink, segment));
        if verdict == Verdict::Forward {
            self.released.push((at, segment.ack / 1000));
        }
        verdict
    }

    fn predicted_us(&self) -> u64 {
        let state = self.agent.flows.get(0).unwrap();
        state.fortune.last.unwrap().1.0 / 1000
    }
}

/// A packet each 2 ms, which is served in 2 ms, from 0 to 20 ms.
fn steady(config: Zhuge) -> Bench {
    let mut bench = Bench::new(config);
    for number in 0..10 {
        bench.data(2 * number, number);
        bench.link(2 * number + 2, LinkEvent::Dequeued, number);
    }
    bench
}

#[test]
fn the_delay_is_that_of_the_queue_its_head_and_a_departure() {
    let mut bench = steady(Zhuge { aggregate: Duration::ZERO, ..Zhuge::default() });
    // Nothing waits: one departure each 2 ms.
    bench.data(20, 10);
    assert_eq!(bench.predicted_us(), 2000);
    // One packet has waited for 2 ms: 1040 bytes at 10400 bytes in 22 ms, and 22 ms in 10 parts.
    bench.data(22, 11);
    assert_eq!(bench.predicted_us(), 2200 + 2000 + 2200);
    // 8 ms later the same two, at 10400 bytes in 30 ms.
    bench.data(30, 12);
    assert_eq!(bench.predicted_us(), 6000 + 10_000 + 3000);
    // Dropped packets do not wait, and are not served.
    bench.link(30, LinkEvent::Refused, 11);
    bench.link(30, LinkEvent::Refused, 12);
    bench.data(30, 13);
    assert_eq!(bench.predicted_us(), 3000 + 10_000 + 3000);
}

#[test]
fn the_rate_is_that_of_the_window_and_not_of_idle_times() {
    let mut bench = steady(Zhuge::default());
    bench.data(5000, 10);
    bench.link(5004, LinkEvent::Dequeued, 10);
    bench.data(5004, 11);
    assert_eq!(bench.predicted_us(), 4000);
}

#[test]
fn a_queue_of_one_aggregate_counts_while_it_drains() {
    let mut bench = steady(Zhuge::default());
    bench.data(20, 10);
    bench.data(20, 11);
    assert_eq!(bench.predicted_us(), 2000);
    bench.data(20, 12);
    assert_eq!(bench.predicted_us(), 2000);
    bench.link(20, LinkEvent::Dequeued, 10);
    bench.link(20, LinkEvent::Dequeued, 11);
    bench.data(20, 13);
    assert!(bench.predicted_us() > 2000, "{}", bench.predicted_us());
}

#[test]
fn acks_are_delayed_by_what_the_prediction_rises_and_keep_their_order() {
    let mut bench = steady(Zhuge { aggregate: Duration::ZERO, ..Zhuge::default() });
    assert_eq!(bench.ack(20, &ack(1)), Verdict::Forward);
    // The link stops; data go on arriving.
    for at in [20, 24, 28, 32, 36] {
        bench.data(at, at);
    }
    assert_eq!(bench.ack(37, &ack(2)), Verdict::Keep);
    assert_eq!(bench.ack(38, &ack(3)), Verdict::Keep);
    assert_eq!(bench.ack(39, &ack(4)), Verdict::Keep);
    bench.until(ms(100));
    let numbers: Vec<u64> = bench.released.iter().map(|r| r.1).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let delays: Vec<u64> =
        bench.released.iter().zip([20, 37, 38, 39]).map(|(r, at)| r.0 - at).collect();
    assert_eq!(delays[0], 0);
    assert!(delays[1] >= 1 && delays.is_sorted() && delays[3] <= 10, "{delays:?}");
    assert!(bench.released.is_sorted());
    // Rises are forgotten.
    assert_eq!(bench.ack(200, &ack(5)), Verdict::Forward);
}

#[test]
fn falls_cancel_rises() {
    let config = Zhuge::default();
    let (mut changes, draws) = (PredictionHistory::default(), Stream::new(0, "test"));
    let span = |ms: u64| Duration::millis(ms);
    assert_eq!(changes.draw(ms(0), &config, draws), None);
    changes.note(ms(0), (span(2), span(6)), &config);
    assert_eq!(changes.draw(ms(1), &config, draws), Some(span(4)));
    changes.note(ms(1), (span(6), span(1)), &config);
    assert_eq!(changes.draw(ms(1), &config, draws), Some(span(0)));
    assert_eq!(changes.draw(ms(2), &config, draws), Some(span(3)));
    assert_eq!(changes.draw(ms(2), &config, draws), Some(span(4)));
    // Not more than the longest delay, and not from the time before the window.
    changes.note(ms(41), (span(0), span(60)), &config);
    assert_eq!(changes.draw(ms(41), &config, draws), Some(config.max_hold));
}

#[test]
fn acks_that_cannot_be_held_release_the_others() {
    let mut bench = steady(Zhuge { aggregate: Duration::ZERO, ..Zhuge::default() });
    for at in [20, 24, 28, 32, 36] {
        bench.data(at, at);
    }
    bench.ack(36, &ack(1));
    assert_eq!(bench.ack(37, &ack(2)), Verdict::Keep);
    let sack = Segment { flags: Flags::ACK.with(Flags::SACK), ..ack(3) };
    assert_eq!(bench.ack(37, &sack), Verdict::Forward);
    assert_eq!(bench.released.iter().map(|r| r.1).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(bench.agent.flows.get(0).unwrap().held.len(), 0);
}
