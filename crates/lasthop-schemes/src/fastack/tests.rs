//! Hand-made sequences of events. In all of them the client has at the link layer what the access
//! point acknowledges, and segments are 1000 bytes long.

use std::collections::BTreeMap;

use super::*;
use lasthop_core::agent::BlankView;
use lasthop_core::segment::Options;

/// The agent, its log and what it holds.
struct Bench {
    agent: FastackAgent,
    now: Time,
    /// Numbers that the link layer has reported, in segments.
    reported: BTreeMap<u64, ()>,
    /// ACKs of the agent as "number/window" (window in segments), local retransmissions as
    /// "+number".
    log: Vec<String>,
    held: BTreeMap<u32, ()>,
    timer: Option<Time>,
    payload: u32,
    /// Timestamps that the ACKs of the agent echo.
    echoes: Vec<u32>,
}

impl Bench {
    fn new(config: Fastack) -> Bench {
        let mut bench = Bench {
            agent: FastackAgent::new(config),
            now: Time(0),
            reported: BTreeMap::new(),
            log: Vec::new(),
            held: BTreeMap::new(),
            timer: None,
            payload: 0,
            echoes: Vec::new(),
        };
        // The end of the handshake.
        bench.flags(Direction::Downlink, Flags::SYN.with(Flags::ACK));
        bench
    }

    /// After the handshake: data 0 has arrived, and the client has acknowledged nothing.
    fn begun(config: Fastack) -> Bench {
        let mut bench = Bench::new(config);
        bench.data(0);
        bench.ack(0, 100);
        bench
    }

    fn call<T>(&mut self, f: impl FnOnce(&mut FastackAgent, &mut Context<'_>) -> T) -> T {
        let mut actions = Vec::new();
        let (options, node_view) = (&Options::NONE, &BlankView);
        let mut ctx = Context { now: self.now, options, node_view, actions: &mut actions };
        let result = f(&mut self.agent, &mut ctx);
        for action in actions {
            match action {
                Action::Retain(p) => assert_eq!(self.held.insert(p.0, ()), None),
                Action::Release(p) => assert!(self.held.remove(&p.0).is_some(), "not held"),
                Action::Wake(0, at) => self.timer = Some(at),
                Action::Cancel(0) => self.timer = None,
                Action::Inject(Direction::Uplink, s) => {
                    assert!((0..s.ack / 1000).all(|n| self.reported.contains_key(&n)), "{s:?}");
                    assert_eq!((s.len, s.payload, s.forward), (0, Payload::NONE, false));
                    self.echoes.push(s.ts_echo);
                    let marks = if s.flags.has(Flags::ECE) { "e" } else { "" };
                    self.log.push(format!("{}/{}{marks}", s.ack / 1000, s.window / 1000));
                }
                Action::Inject(Direction::Downlink, s) => {
                    assert!(self.held.contains_key(&s.payload.0), "a payload that is not held");
                    self.log.push(format!("+{}", s.seq / 1000));
                }
                other => panic!("{other:?}"),
            }
        }
        let state = self.agent.flows.get(0);
        let stored: Vec<u32> =
            state.into_iter().flat_map(|s| s.cache.values()).map(|c| c.segment.payload.0).collect();
        let mut sorted = stored.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().eq(self.held.keys()), "retained payloads are those of the cache");
        assert_eq!(self.agent.room.held(), 1040 * stored.len() as u64);
        result
    }

    fn flags(&mut self, direction: Direction, flags: Flags) {
        let forward = direction == Direction::Downlink;
        let segment = Segment { size: 40, flags, forward, ..Segment::default() };
        let verdict = self.call(|agent, ctx| agent.on_segment(ctx, direction, &segment));
        assert_eq!(verdict, Verdict::Forward);
    }

    fn segment(&self, number: u64) -> Segment {
        Segment {
            seq: 1000 * number,
            len: 1000,
            size: 1040,
            ts_value: 7000 + number as u32,
            payload: Payload(self.payload),
            forward: true,
            flags: Flags::ACK.with(Flags::TIMESTAMPS),
            ..Segment::default()
        }
    }

    fn data(&mut self, number: u64) -> Verdict {
        self.payload += 1;
        let segment = self.segment(number);
        self.call(|agent, ctx| agent.on_segment(ctx, Direction::Downlink, &segment))
    }

    /// Data that are forwarded.
    fn arrive(&mut self, number: u64) {
        assert_eq!(self.data(number), Verdict::Forward);
    }

    /// The link layer reports a segment.
    fn delivered(&mut self, number: u64) {
        self.reported.insert(number, ());
        let (segment, event) = (self.segment(number), LinkEvent::Delivered { attempts: 1 });
        self.call(|agent, ctx| agent.on_link_event(ctx, Direction::Downlink, event, &segment));
    }

    fn client(&mut self, segment: Segment) -> Verdict {
        self.call(|agent, ctx| agent.on_segment(ctx, Direction::Uplink, &segment))
    }

    fn ack(&mut self, number: u64, window: u32) -> Verdict {
        let flags = Flags::ACK.with(Flags::TIMESTAMPS);
        self.client(Segment { flags, ..client_ack(number, window) })
    }

    fn log(&mut self) -> String {
        std::mem::take(&mut self.log).join(" ")
    }
}

fn client_ack(number: u64, window: u32) -> Segment {
    Segment {
        ack: 1000 * number,
        window: 1000 * window,
        size: 52,
        ts_value: 9000,
        flags: Flags::ACK,
        // The host's packet, which is gone after this call.
        payload: Payload(1 << 20),
        ..Segment::default()
    }
}

const SUPPRESSED: Verdict = Verdict::Drop("acknowledged before");
const REPAIRED: Verdict = Verdict::Drop("duplicate ACK, repaired locally");

#[test]
fn the_report_of_the_link_layer_is_the_ack_and_that_of_the_client_is_dropped() {
    let mut b = Bench::begun(Fastack::default());
    (1..4).for_each(|n| b.arrive(n));
    assert_eq!(b.log(), "", "nothing is reported yet");
    (0..3).for_each(|n| b.delivered(n));
    // The window ends where that of the client does.
    assert_eq!(b.log(), "1/99 2/98 3/97");
    assert_eq!(b.ack(2, 100), SUPPRESSED);
    b.delivered(3);
    assert_eq!(b.log(), "4/98");
    assert_eq!(b.held.len(), 2);
    assert_eq!(b.ack(4, 100), SUPPRESSED);
    assert_eq!((b.log().as_str(), b.held.len(), b.timer), ("", 0, None));
}

#[test]
fn a_gap_in_the_block_ack_is_not_acknowledged() {
    let mut b = Bench::begun(Fastack::default());
    (1..5).for_each(|n| b.arrive(n));
    [0, 2, 3].into_iter().for_each(|n| b.delivered(n));
    assert_eq!(b.log(), "1/99");
    b.delivered(1);
    assert_eq!(b.log(), "4/96");
    // Of the segment that closes the gap, as RFC 7323 asks of a receiver.
    assert_eq!(b.echoes, [7000, 7001]);
}

#[test]
fn data_lost_before_the_access_point_are_left_to_the_sender() {
    let mut b = Bench::begun(Fastack::default());
    [2, 3].into_iter().for_each(|n| b.arrive(n));
    [0, 2, 3].into_iter().for_each(|n| b.delivered(n));
    assert_eq!(b.log(), "1/99");
    assert_eq!(b.ack(1, 100), SUPPRESSED);
    // The duplicate ACKs with their SACK blocks reach the sender.
    for _ in 0..4 {
        assert_eq!(b.ack(1, 100), Verdict::Forward);
    }
    assert_eq!(b.data(1), Verdict::Forward);
    b.delivered(1);
    assert_eq!((b.log().as_str(), b.ack(4, 100)), ("", Verdict::Forward));
}

#[test]
fn while_the_sender_repairs_the_acks_are_those_of_the_client() {
    let mut b = Bench::begun(Fastack::default());
    (2..9).for_each(|n| b.arrive(n));
    [0, 2].into_iter().for_each(|n| b.delivered(n));
    assert_eq!((b.log().as_str(), b.ack(1, 100)), ("1/99", SUPPRESSED));
    assert_eq!(b.ack(1, 100), Verdict::Forward);
    // An aggregate with the retransmission, of which 3 is missing: RACK would take 4 to 8, which
    // were sent before the retransmission and are on their way to the client's TCP, for lost.
    assert_eq!(b.data(1), Verdict::Forward);
    [4, 5, 6, 7, 8, 1].into_iter().for_each(|n| b.delivered(n));
    assert_eq!(b.log(), "", "no ACK up to 3");
    assert_eq!(b.ack(3, 100), Verdict::Forward);
    b.delivered(3);
    assert_eq!((b.log().as_str(), b.ack(9, 100)), ("", Verdict::Forward));
    b.arrive(9);
    b.delivered(9);
    assert_eq!(b.log(), "10/99", "the end of the repair");
}

#[test]
fn data_that_the_queue_drops_or_the_link_layer_gives_up_are_left_to_the_sender() {
    let mut b = Bench::begun(Fastack::default());
    (1..4).for_each(|n| b.arrive(n));
    [0, 2, 3].into_iter().for_each(|n| b.delivered(n));
    assert_eq!((b.log().as_str(), b.ack(1, 100)), ("1/99", SUPPRESSED));
    for _ in 0..4 {
        assert_eq!(b.ack(1, 100), Verdict::Forward);
    }
    assert_eq!(b.log(), "", "no copy from the cache, which would hide congestion");
    assert_eq!(b.data(1), Verdict::Forward);
    b.delivered(1);
    assert_eq!((b.log().as_str(), b.ack(4, 100)), ("", Verdict::Forward));
}

#[test]
fn data_lost_above_the_link_layer_are_retransmitted_from_the_cache() {
    let mut b = Bench::begun(Fastack::default());
    (1..6).for_each(|n| b.arrive(n));
    (0..6).for_each(|n| b.delivered(n));
    assert_eq!(b.log(), "1/99 2/98 3/97 4/96 5/95 6/94");
    // The client's stack lacks 1 and 3; the sender must not learn of it.
    assert_eq!(b.ack(1, 100), SUPPRESSED);
    // The client may have sent these before the data arrived.
    for _ in 0..3 {
        assert_eq!(b.ack(1, 100), REPAIRED);
    }
    assert_eq!(b.log(), "");
    b.now = Time(51_000_000);
    for _ in 0..3 {
        assert_eq!(b.ack(1, 100), REPAIRED);
    }
    assert_eq!(b.log(), "+1");
    assert_eq!(b.ack(3, 100), SUPPRESSED);
    assert_eq!(b.log(), "+3", "the next one at once, as after a partial ACK");
    assert_eq!(b.ack(6, 100), SUPPRESSED);
    assert_eq!((b.log().as_str(), b.held.len()), ("", 0));
}

#[test]
fn a_timer_repairs_what_no_duplicate_ack_tells() {
    let mut b = Bench::begun(Fastack::default());
    b.delivered(0);
    assert_eq!(b.log(), "1/99");
    let first = b.timer.unwrap();
    assert_eq!(first, Time(200_000_000));
    for n in 0..10 {
        b.now = b.timer.unwrap_or_else(|| panic!("no timer after {n}"));
        b.call(|agent, ctx| agent.on_timer(ctx, 0));
        assert_eq!(b.log(), "+0");
    }
    // The client has gone.
    assert_eq!(b.timer, None);
    assert_eq!(b.ack(1, 100), SUPPRESSED);
    assert_eq!(b.held.len(), 0);
}

#[test]
fn the_sender_repeats_what_was_acknowledged() {
    let mut b = Bench::begun(Fastack::default());
    b.delivered(0);
    b.log();
    assert_eq!(b.data(0), Verdict::Drop("acknowledged before"));
    assert_eq!(b.log(), "1/99");
    // The client has it too: its answer is as good.
    assert_eq!(b.ack(1, 100), SUPPRESSED);
    assert_eq!(b.data(0), Verdict::Forward);
}

#[test]
fn a_window_that_opens_and_marks_are_told() {
    let mut b = Bench::begun(Fastack::default());
    b.ack(0, 2);
    b.data(1);
    (0..2).for_each(|n| b.delivered(n));
    assert_eq!(b.log(), "1/1 2/0");
    assert_eq!((b.ack(1, 1), b.log().as_str()), (SUPPRESSED, ""));
    assert_eq!((b.ack(2, 0), b.log().as_str()), (SUPPRESSED, ""));
    // Of a window probe, which the client's TCP discards, the link layer's ACK says nothing.
    b.data(2);
    b.delivered(2);
    assert_eq!((b.log().as_str(), b.ack(2, 0)), ("", Verdict::Forward));
    assert_eq!(b.ack(2, 30), Verdict::Forward);
    b.delivered(2);
    assert_eq!(b.log(), "3/29");
    let marked = |number| Segment { flags: Flags::ACK.with(Flags::ECE), ..client_ack(number, 30) };
    b.log();
    b.data(3);
    b.delivered(3);
    assert_eq!(b.log(), "4/28");
    assert_eq!(b.client(marked(3)), SUPPRESSED);
    assert_eq!(b.log(), "4/29e");
    b.data(4);
    b.delivered(4);
    assert_eq!(b.log(), "5/28e");
}

#[test]
fn segments_of_the_client_with_data_are_forwarded() {
    let mut b = Bench::begun(Fastack::default());
    b.delivered(0);
    let request = Segment { len: 300, size: 352, ..client_ack(0, 100) };
    let changed = Rewrite { ack: Some(1000), window: Some(99_000), eln: false };
    assert_eq!(b.client(request), Verdict::Rewrite(changed));
    let fin = Segment { flags: Flags::ACK.with(Flags::FIN), ..client_ack(0, 100) };
    assert_eq!(b.client(fin), Verdict::Rewrite(changed));
}

#[test]
fn what_is_not_in_the_cache_is_left_to_the_client() {
    let mut b = Bench::begun(Fastack { cache_packets: 2, ..Fastack::default() });
    (1..4).for_each(|n| assert_eq!(b.data(n), Verdict::Forward));
    (0..4).for_each(|n| b.delivered(n));
    assert_eq!(b.log(), "1/99 2/98");
    assert_eq!(b.ack(4, 100), Verdict::Forward);
    assert_eq!(b.held.len(), 0);
}

#[test]
fn settings_say_when_and_how_often_it_acknowledges() {
    let mut b = Bench::begun(Fastack { after_bytes: 2000, ..Fastack::default() });
    (1..6).for_each(|n| b.arrive(n));
    (0..3).for_each(|n| b.delivered(n));
    assert_eq!((b.log().as_str(), b.ack(2, 100)), ("", Verdict::Forward));
    b.delivered(3);
    assert_eq!(b.log(), "4/98");
    let mut b = Bench::begun(Fastack { ack_every: 2, ..Fastack::default() });
    (1..4).for_each(|n| b.arrive(n));
    (0..3).for_each(|n| b.delivered(n));
    assert_eq!((b.log().as_str(), b.ack(3, 100)), ("2/98", Verdict::Forward));
    let mut b = Bench::begun(Fastack { reduce_window: false, ..Fastack::default() });
    b.delivered(0);
    assert_eq!(b.log(), "1/100");
}

#[test]
fn a_connection_in_its_middle_begins_with_an_ack_of_the_client() {
    let mut b = Bench::new(Fastack::default());
    b.data(5);
    b.delivered(5);
    assert_eq!(b.log(), "", "what the client lacks is not known");
    assert_eq!(b.ack(5, 100), Verdict::Forward);
    b.reported.extend((0..5).map(|n| (n, ())));
    b.data(6);
    b.delivered(6);
    assert_eq!(b.log(), "7/98");
    // A reset ends it.
    b.flags(Direction::Uplink, Flags::RST);
    assert_eq!(b.held.len(), 0);
}
