//! Test bench for agents that space ACKs: a base station with clock and timers that records the
//! ACKs forwarded to the sender. Segments have 1000 bytes and 40 bytes of headers, and take 20 ms
//! on the link at the default rate.

use std::collections::BTreeMap;

use lasthop_core::agent::{Action, Agent, Context, NodeView, QueueState, Verdict};
use lasthop_core::segment::{Direction, Flags, Options, Payload, Segment};
use lasthop_core::units::{Duration, Rate, Time};

/// A segment of 1040 bytes takes 20 ms.
pub const RATE: Rate = Rate(416_000);

pub struct Link(Option<Rate>);

impl NodeView for Link {
    fn queue(&self, _: Direction) -> QueueState {
        QueueState::default()
    }
    fn rate(&self, _: Direction) -> Option<Rate> {
        self.0
    }
}

/// An ACK that was forwarded to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub ms: u64,
    /// Unit: segments.
    pub ack: u64,
    /// Unit: segments.
    pub window: u64,
    pub id: u64,
}

pub struct Bench<A> {
    pub agent: A,
    pub link: Link,
    pub now: Time,
    pub timers: BTreeMap<u32, Time>,
    pub held: BTreeMap<u32, u64>,
    pub ids: u64,
    pub flow: u32,
    /// Receive window, segments.
    pub window: u32,
    pub seen: Vec<Seen>,
}

impl<A: Agent> Bench<A> {
    pub fn new(agent: A, rate: Option<Rate>) -> Self {
        let (timers, held) = (BTreeMap::new(), BTreeMap::new());
        Bench {
            agent,
            link: Link(rate),
            now: Time::ZERO,
            timers,
            held,
            ids: 0,
            flow: 1,
            window: 100,
            seen: Vec::new(),
        }
    }

    fn call<T>(&mut self, f: impl FnOnce(&mut A, &mut Context<'_>) -> T) -> (T, Vec<Action>) {
        let mut actions = Vec::new();
        let answer = f(
            &mut self.agent,
            &mut Context {
                now: self.now,
                options: &Options::NONE,
                node_view: &self.link,
                actions: &mut actions,
            },
        );
        (answer, actions)
    }

    fn arrives(&mut self, s: &Segment) {
        self.seen.push(Seen {
            ms: self.now.0 / 1_000_000,
            ack: s.ack / 1000,
            window: u64::from(s.window) / 1000,
            id: s.id,
        });
    }

    fn execute(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Forward(Direction::Uplink, s) => {
                    assert!(self.held.contains_key(&s.payload.0), "a forwarded ACK must be held");
                    self.arrives(&s);
                }
                Action::Release(p) => {
                    assert!(self.held.remove(&p.0).is_some(), "released a payload that is not held")
                }
                Action::Wake(id, at) => {
                    self.timers.insert(id, at);
                }
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    /// Advances the time and fires the timers that expire.
    pub fn until(&mut self, ms: u64) -> &mut Self {
        let end = Time::ZERO + Duration::millis(ms);
        while let Some((&id, &at)) = self.timers.iter().filter(|t| *t.1 <= end).min_by_key(|t| t.1)
        {
            self.timers.remove(&id);
            self.now = self.now.max(at);
            let (_, actions) = self.call(|agent, ctx| agent.on_timer(ctx, id));
            self.execute(actions);
        }
        self.now = end;
        self
    }

    pub fn feed(&mut self, direction: Direction, segment: Segment) {
        self.ids += 1;
        let s = Segment {
            payload: Payload(self.ids as u32),
            id: self.ids,
            flow: self.flow,
            attempt: 1,
            ..segment
        };
        let (verdict, actions) = self.call(|agent, ctx| agent.on_segment(ctx, direction, &s));
        if verdict == Verdict::Keep {
            self.held.insert(s.payload.0, s.id);
        }
        self.execute(actions);
        match verdict {
            Verdict::Forward if direction == Direction::Uplink => self.arrives(&s),
            Verdict::Rewrite(edit) => self.arrives(&Segment {
                window: edit.window.unwrap_or(s.window),
                ack: edit.ack.unwrap_or(s.ack),
                ..s
            }),
            Verdict::Drop(why) => panic!("unexpected drop: {why}"),
            _ => {}
        }
    }

    /// Segment `k` (from 0) arrives from the sender.
    pub fn data(&mut self, ms: u64, k: u64) {
        self.until(ms).feed(
            Direction::Downlink,
            Segment {
                seq: 1000 * k,
                len: 1000,
                size: 1040,
                flags: Flags::ACK,
                forward: true,
                ..Segment::default()
            },
        );
    }

    /// An ACK for `k` segments arrives from the mobile.
    pub fn ack(&mut self, ms: u64, k: u64) {
        self.marked(ms, k, Flags::NONE);
    }

    /// An ACK for `k` segments with further flags arrives from the mobile.
    pub fn marked(&mut self, ms: u64, k: u64, flags: Flags) {
        let window = 1000 * self.window;
        self.until(ms).feed(
            Direction::Uplink,
            Segment {
                ack: 1000 * k,
                size: 40,
                window,
                flags: Flags::ACK.with(flags),
                ..Segment::default()
            },
        );
    }

    /// ACKs forwarded since this time, as milliseconds and acknowledgment numbers.
    pub fn since(&self, ms: u64) -> Vec<(u64, u64)> {
        self.seen.iter().filter(|s| s.ms >= ms).map(|s| (s.ms, s.ack)).collect()
    }

    /// Number of held ACKs.
    pub fn waiting(&self) -> usize {
        self.held.len()
    }

    /// Sends segments 0 to `n` - 1, which are acknowledged individually 20 ms apart. Returns the
    /// arrival time of the last ACK.
    pub fn calm(&mut self, n: u64) -> u64 {
        for k in 0..n {
            self.data(20 * k, k);
            self.ack(20 * k + 10, k + 1);
        }
        20 * (n - 1) + 10
    }
}
