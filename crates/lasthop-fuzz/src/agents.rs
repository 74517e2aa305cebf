//! Agents and relays under malicious segments, link events, notices and times.

use std::sync::LazyLock;

use lasthop::agent::{
    Action, Agent, Context, LinkChange, LinkEvent, NodeView, QueueState, Verdict,
};
use lasthop::schemes::catalogue::{AnyAgent, SchemeChoice, all};
use lasthop::segment::{Direction, Flags, Notice, NoticeKind, Options, Payload, Segment};
use lasthop::snack::Snack;
use lasthop::units::{Duration, Rate, Time};
use lasthop_live::store::Store;
use lasthop_live::timers::Timers;

use crate::input::Input;

const MSS: u64 = 1000;
const FLOWS: usize = 3;
const MAX_STEPS: usize = 300;
/// Limit on timers that expire at one instant, over all flows.
const MAX_TIMERS: usize = 2000;
/// Limit on the state of an agent, payloads included, bytes.
const MAX_STATE: usize = 1 << 25;

/// Every scheme with an agent, and some with settings that reach other code paths.
static SCHEMES: LazyLock<Vec<SchemeChoice>> = LazyLock::new(|| {
    let names = all().into_iter().filter(|s| s.agent().is_some()).map(|s| s.name().to_string());
    let set = ["snoop:cache_packets=4:max_flows=2", "packet-control:max_flows=1"];
    let texts = names.chain(set.map(str::to_string));
    texts.map(|text| SchemeChoice::parse(&text).expect("a scheme")).collect()
});

/// The input selects agent or relay, scheme and role, then steps until it ends.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    if input.value::<u8>() % 4 == 3 {
        return crate::relays::run(&mut input);
    }
    let mut node = Node::new(&mut input);
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        node.step(&mut input);
    }
}

/// Queue lengths and rates, set by the input.
#[derive(Default)]
struct View {
    queue: QueueState,
    rate: Option<Rate>,
}

impl NodeView for View {
    fn queue(&self, _: Direction) -> QueueState {
        self.queue
    }

    fn rate(&self, _: Direction) -> Option<Rate> {
        self.rate
    }
}

/// The node that hosts the agent, with its payloads and timers.
struct Node {
    agent: AnyAgent,
    now: Time,
    store: Store<()>,
    timers: Timers,
    view: View,
    /// Per flow and direction: offsets sent and acknowledged.
    flows: [[Stream; 2]; FLOWS],
    /// Forwarded segments, for later link events.
    forwarded: Vec<(Direction, Segment)>,
    exported: Vec<Vec<u8>>,
    counters: usize,
    steps: usize,
}

#[derive(Clone, Copy, Default)]
struct Stream {
    next: u64,
    acked: u64,
}

impl Node {
    fn new(input: &mut Input<'_>) -> Node {
        let scheme = &input.choose(&SCHEMES).scheme;
        let role = *input.choose(scheme.agent_roles());
        let agent = scheme.agent_at(role).or(scheme.agent()).expect("chosen for its agent");
        Node {
            counters: agent.counters().len(),
            agent,
            now: Time::ZERO,
            store: Store::default(),
            timers: Timers::default(),
            view: View::default(),
            flows: Default::default(),
            forwarded: Vec::new(),
            exported: Vec::new(),
            steps: 0,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        self.steps += 1;
        let span = input.value::<u8>();
        self.advance(self.now + Duration(u64::from(span & 7) << (5 * (span >> 3 & 7))));
        match input.value::<u8>() % 16 {
            0..=6 => self.segment(input),
            7 => self.hostile(input),
            8..=10 => self.link_event(input),
            11 => self.link_change(input),
            12 => self.notice(input),
            13 => self.change_view(input),
            14 => self.advance(self.now + Duration::millis(u64::from(input.value::<u16>()))),
            _ => self.hand_over(input),
        }
        assert_eq!(self.agent.counters().len(), self.counters);
        assert!(self.agent.state_bytes() <= MAX_STATE, "{} B", self.agent.state_bytes());
    }

    /// Calls the agent; the caller must execute the returned actions.
    fn call<T>(
        &mut self,
        options: &Options,
        call: impl FnOnce(&mut AnyAgent, &mut Context<'_>) -> T,
    ) -> (T, Vec<Action>) {
        let mut actions = Vec::new();
        let (now, node_view) = (self.now, &self.view);
        let mut context = Context { now, options, node_view, actions: &mut actions };
        let answer = call(&mut self.agent, &mut context);
        let max = 64 + 8 * self.steps;
        assert!(actions.len() <= max, "{} actions in one call", actions.len());
        (answer, actions)
    }

    /// Calls a method of the agent that returns nothing, and executes its actions.
    fn notify_agent(&mut self, call: impl FnOnce(&mut AnyAgent, &mut Context<'_>)) {
        let ((), actions) = self.call(&Options::NONE, call);
        self.execute(actions);
    }

    fn execute(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Inject(_, segment) | Action::Forward(_, segment) => {
                    let is_held = segment.payload == Payload::NONE || self.has(segment.payload);
                    assert!(is_held, "the payload of {segment:?} is not held");
                }
                Action::Wake(id, at) => self.timers.set(self.now, id, at),
                Action::Cancel(id) => self.timers.cancel(id),
                Action::Retain(payload) => {
                    assert!(self.has(payload), "{payload:?} is retained and not held");
                    self.store.retain(payload);
                }
                Action::Release(payload) => {
                    assert!(self.has(payload), "{payload:?} is released and not held");
                    self.store.release(payload);
                }
                Action::Notify(notice, _) => assert_eq!(notice.stamp, self.now),
            }
        }
    }

    fn has(&self, payload: Payload) -> bool {
        self.store.get(payload).is_some()
    }

    /// Advances the time and fires the timers that expire.
    fn advance(&mut self, to: Time) {
        let (mut at, mut fired) = (self.now, 0);
        // Bounds the run time for agents with periodic timers.
        for _ in 0..MAX_TIMERS {
            let Some((due, id)) = self.timers.due(to) else { break };
            fired = if due == at { fired + 1 } else { 0 };
            assert!(fired < MAX_TIMERS - 1, "endless timers at {due:?}");
            at = due;
            self.now = due;
            self.notify_agent(|agent, context| agent.on_timer(context, id));
        }
        self.now = self.now.max(to);
    }

    fn pass_to_agent(&mut self, direction: Direction, segment: Segment, options: &Options) {
        let payload = self.store.put(());
        let segment = Segment { payload, ..segment };
        let (verdict, actions) =
            self.call(options, |agent, context| agent.on_segment(context, direction, &segment));
        match verdict {
            // The agent's reference; the host's reference is released below.
            Verdict::Keep => self.store.retain(payload),
            Verdict::Drop(reason) => assert!(!reason.is_empty()),
            Verdict::Forward | Verdict::Rewrite(_) => self.forwarded.push((direction, segment)),
        }
        self.execute(actions);
        self.store.release(payload);
    }

    /// A plausible segment of a connection: new data, retransmission, ACK, SYN, FIN.
    fn segment(&mut self, input: &mut Input<'_>) {
        let (flow, down) = (input.up_to(FLOWS as u64 - 1) as usize, input.up_to(3) != 3);
        let [own, other] = if down { [0, 1] } else { [1, 0] };
        let kind = input.value::<u8>() % 16;
        let peer = self.flows[flow][other];
        let stream = &mut self.flows[flow][own];
        let (mut seq, mut len, mut flags) = (stream.next, 0, Flags::ACK);
        match kind {
            0..=5 => {
                seq += MSS * (input.up_to(9) / 8);
                len = MSS;
            }
            6 | 7 => (seq, len) = (seq.saturating_sub(MSS * input.up_to(12)), MSS),
            8..=11 => stream.acked = peer.next.min(stream.acked + MSS * input.up_to(3)),
            12 => flags = *input.choose(&[Flags::SYN, Flags::SYN.with(Flags::ACK), Flags::RST]),
            13 => flags = Flags::ACK.with(Flags::FIN),
            14 => len = input.up_to(MSS),
            _ => flags = Flags::ACK.with(Flags(input.value())).without(Flags::RST),
        }
        stream.next = stream.next.max(seq + len);
        let options = self.options(input, peer.next);
        if input.up_to(3) == 0 {
            flags = flags.with(*input.choose(&[Flags::SACK, Flags::TIMESTAMPS, Flags::OPTIONS]));
        }
        let segment = Segment {
            seq,
            ack: self.flows[flow][own].acked,
            flow: flow as u32,
            len: len as u32,
            size: len as u32 + 40,
            window: MSS as u32 * input.up_to(40) as u32,
            ts_value: (self.now.0 / 1000) as u32,
            ts_echo: input.value(),
            flags,
            attempt: 1,
            forward: down,
            ..Segment::default()
        };
        self.pass_to_agent(direction(down), segment, &options);
    }

    fn options(&self, input: &mut Input<'_>, near: u64) -> Options {
        let mut options = Options::NONE;
        if input.up_to(1) == 0 {
            return options;
        }
        let mut offset = |max| near.saturating_sub(MSS * input.up_to(max));
        for _ in 0..3 {
            let start = offset(20);
            options.sack.push(start, start + MSS);
        }
        options.named = offset(20);
        let start = offset(20);
        options.snack = Snack { start, blocks: 1, unit: MSS as u32, more: start };
        options
    }

    /// A segment with arbitrary fields.
    fn hostile(&mut self, input: &mut Input<'_>) {
        let mut options = Options { named: input.value(), report: input.value(), ..Options::NONE };
        (0..input.up_to(4)).for_each(|_| options.sack.push(input.value(), input.value()));
        let segment = Segment {
            seq: input.value::<u64>() >> input.up_to(63),
            ack: input.value::<u64>() >> input.up_to(63),
            flow: input.value::<u8>().into(),
            len: input.value::<u16>().into(),
            size: u32::from(input.value::<u16>()) + 40,
            window: input.value(),
            ts_value: input.value(),
            ts_echo: input.value(),
            flags: Flags(input.value()),
            attempt: input.value(),
            forward: input.up_to(1) == 1,
            ..Segment::default()
        };
        self.pass_to_agent(direction(segment.forward), segment, &options);
    }

    /// A link event for a forwarded segment, or for an unknown one.
    fn link_event(&mut self, input: &mut Input<'_>) {
        let back = 1 + input.up_to(9) as usize;
        let unknown =
            (Direction::Downlink, Segment { len: 1000, size: 1040, ..Segment::default() });
        let place = self.forwarded.len().checked_sub(back);
        let (direction, segment) = place.map_or(unknown, |i| self.forwarded[i]);
        let number = 1 + input.up_to(20) as u32;
        let events = [
            LinkEvent::Refused,
            LinkEvent::Dequeued,
            LinkEvent::AttemptStarted { attempt: number },
            LinkEvent::AttemptFailed { attempt: number },
            LinkEvent::Discarded,
            LinkEvent::Delivered { attempts: number },
            LinkEvent::Damaged { header_readable: number.is_multiple_of(2) },
            LinkEvent::Incomplete,
        ];
        let event = *input.choose(&events);
        // Link events carry no payload handle.
        let segment = Segment { payload: Payload::NONE, ..segment };
        self.notify_agent(|agent, context| {
            agent.on_link_event(context, direction, event, &segment)
        });
    }

    fn link_change(&mut self, input: &mut Input<'_>) {
        let (flow, down) = (input.up_to(FLOWS as u64) as u32, input.up_to(1) == 1);
        let rate = Rate(input.value::<u64>() >> input.up_to(63));
        let change = *input.choose(&[LinkChange::Down, LinkChange::Up, LinkChange::Rate(rate)]);
        let direction = direction(down);
        self.notify_agent(|agent, context| agent.on_link_change(context, flow, direction, change));
    }

    fn notice(&mut self, input: &mut Input<'_>) {
        let kind = *input.choose(&NoticeKind::ALL);
        let flow = input.up_to(FLOWS as u64) as u32;
        let value = input.value::<u64>() >> input.up_to(63);
        let notice = Notice { kind, flow, value, stamp: self.now };
        self.notify_agent(|agent, context| agent.on_notice(context, &notice));
    }

    /// Changes the node's queue lengths and rates.
    fn change_view(&mut self, input: &mut Input<'_>) {
        let packets = input.value::<u64>() >> input.up_to(63);
        let bytes = packets.saturating_mul(1040);
        self.view.queue = QueueState { packets, bytes, full: input.up_to(1) == 1 };
        let rate = Rate(input.value::<u64>() >> input.up_to(63));
        self.view.rate = Some(rate).filter(|_| input.up_to(2) > 0);
    }

    /// Exports state, imports exported state, or imports arbitrary bytes.
    fn hand_over(&mut self, input: &mut Input<'_>) {
        let flow = input.up_to(FLOWS as u64) as u32;
        match input.up_to(3) {
            0 => self.exported.extend(self.agent.export(flow)),
            1 | 2 => {
                if let Some(state) = self.exported.pop() {
                    assert!(self.agent.import(flow, &state), "exported state is rejected");
                }
            }
            _ => {
                let bytes: Vec<u8> = (0..input.up_to(80)).map(|_| input.value()).collect();
                self.agent.import(flow, &bytes);
            }
        }
    }
}

fn direction(down: bool) -> Direction {
    if down { Direction::Downlink } else { Direction::Uplink }
}
