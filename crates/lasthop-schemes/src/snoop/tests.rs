//! Scripted tests of the agent on a test host that tracks payloads and timers.

use super::flow::Uncached;
use super::*;
use Direction::{Downlink, Uplink};
use lasthop_core::agent::{Action, NodeView, QueueState};
use lasthop_core::segment::{Block, Options, Payload};
use lasthop_core::snack::Snack;
use lasthop_core::units::{Rate, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

struct Queue(bool);
impl NodeView for Queue {
    fn queue(&self, _: Direction) -> QueueState {
        QueueState { full: self.0, ..QueueState::default() }
    }
    fn rate(&self, _: Direction) -> Option<Rate> {
        None
    }
}

/// Drives the agent, tracks payloads and timers as a host does, and logs the agent's actions.
struct Bench {
    agent: SnoopAgent,
    ahead: Direction,
    queue: Queue,
    now: Time,
    flow: u32,
    payloads: u32,
    held: BTreeMap<u32, u64>,
    timers: BTreeMap<u32, Time>,
    options: Options,
    log: String,
}

impl Bench {
    /// Settings that begin with the line `snack` select SNACK-Snoop's agent.
    fn new(settings: &str, ahead: Direction) -> Bench {
        let rest = settings.strip_prefix("snack\n");
        let config: Snoop = crate::testing::settings(rest.unwrap_or(settings));
        config.check().unwrap();
        let make = if rest.is_some() { SnoopAgent::by_snack } else { SnoopAgent::new };
        let (agent, held, timers) = (make(config, ahead), BTreeMap::new(), BTreeMap::new());
        Bench {
            agent,
            ahead,
            queue: Queue(false),
            now: Time::ZERO,
            flow: 1,
            payloads: 0,
            held,
            timers,
            options: Options::NONE,
            log: String::new(),
        }
    }

    fn call<R>(&mut self, f: impl FnOnce(&mut SnoopAgent, &mut Context<'_>) -> R) -> R {
        let mut actions = Vec::new();
        let answer = f(
            &mut self.agent,
            &mut Context {
                now: self.now,
                options: &self.options,
                node_view: &self.queue,
                actions: &mut actions,
            },
        );
        for action in actions {
            match action {
                Action::Retain(p) => assert_eq!(self.held.insert(p.0, 0), None),
                Action::Release(p) => {
                    assert!(self.held.remove(&p.0).is_some(), "released a payload that is not held")
                }
                Action::Wake(id, at) => drop(self.timers.insert(id, at)),
                Action::Cancel(id) => drop(self.timers.remove(&id)),
                Action::Notify(..) | Action::Forward(..) => {
                    panic!("Snoop sends no notices and holds no segment back")
                }
                Action::Inject(direction, s) => {
                    assert!(
                        direction == self.ahead && self.held.contains_key(&s.payload.0),
                        "injected a payload that is not held"
                    );
                    self.log += &format!("+{}", s.seq / 1000);
                }
            }
        }
        // Invariants: the retained payloads are those of the cache, the cache is sorted and within
        // its limits, and its head is not acknowledged.
        let (a, mut held) = (&self.agent, BTreeMap::new());
        for (_, s) in a.flows.iter() {
            held.extend(s.cache.iter().map(|c| (c.segment.payload.0, u64::from(c.segment.size))));
            assert!(
                s.cache.iter().map(|c| c.segment.seq).is_sorted()
                    && s.cache.len() <= a.config.cached_at_most()
            );
            assert!(s.cache.head().is_none_or(|c| s.last_ack.is_none_or(|l| c.segment.end() > l)));
        }
        assert!(
            held.keys().eq(self.held.keys())
                && a.room.held() == held.values().sum::<u64>()
                && a.room.held() <= a.config.cache_bytes
        );
        assert_eq!(
            a.state_bytes(),
            a.flows.len() * (size_of::<FlowState>() - size_of::<Uncached>())
                + held.len() * size_of::<Cached>()
                + a.room.held() as usize
        );
        answer
    }

    /// Passes a segment with a new payload handle; `seq` and `ack` are in segments of 1000 bytes.
    fn feed(
        &mut self,
        direction: Direction,
        seq: u64,
        len: u32,
        ack: u64,
        window: u32,
        flags: Flags,
    ) -> Verdict {
        self.payloads += 1;
        let (payload, flags, size, flow) =
            (Payload(self.payloads), flags.with(Flags::ACK), len + 40, self.flow);
        let (seq, ack, forward) = (seq * 1000, ack * 1000, direction == self.ahead);
        let s = Segment {
            seq,
            ack,
            flow,
            len,
            size,
            window,
            payload,
            flags,
            attempt: 1,
            forward,
            ..Segment::default()
        };
        self.call(|agent, ctx| agent.on_segment(ctx, direction, &s))
    }

    /// The next timer fires.
    fn fire(&mut self) {
        let Some((&id, &at)) = self.timers.iter().min_by_key(|t| t.1) else { return };
        self.timers.remove(&id);
        self.now = self.now.max(at);
        self.call(|agent, ctx| agent.on_timer(ctx, id));
        self.log += &format!("@{}", self.now.0 / 1_000_000);
    }

    /// An ACK for segment `k` with a SNACK for the segments of `map`, bit 0 for `k`.
    fn snack(&mut self, k: u64, map: u64) {
        let holes = (0..16)
            .filter(|i| map >> i & 1 == 1)
            .map(|i| Block { start: (k + i) * 1000, end: (k + i + 1) * 1000 });
        self.options.snack = Snack::of(holes, 1000).unwrap_or_default();
        let verdict = self.feed(self.ahead.reverse(), 0, 0, k, 9, Flags::SNACK);
        self.options = Options::NONE;
        self.log.push(match verdict {
            Verdict::Forward => 'f',
            Verdict::Drop(_) => 's',
            _ => 'e',
        });
    }

    /// Runs a script and returns the log: f forwarded, s suppressed, e marked with ELN, +k segment
    /// k injected.
    ///
    /// `d3-9` segments 3 to 9 from the fixed host (`l3` of double length), `a3*6` six ACKs with
    /// number 3, `w3` an ACK with another window, `b3*6` six ACKs with SACK blocks and different
    /// windows, `s3-15` an ACK with SNACK for segments 3, 5 and 7 (hexadecimal bitmap, bit 0 is
    /// segment 3), `p3` an ACK with payload, `z3` an ACK with zero window, `t` the next timer fires
    /// (logs its time in ms), `m50` 50 ms pass, `q` toggles whether the queue is full, `u3` the
    /// queue drops segment 3 later, `h` SYN, `k` SYN-ACK, `r` reset, `v2` continue with flow 2, `x`
    /// handover, `=` logs the number of payloads held.
    fn run(&mut self, script: &str) -> String {
        for word in script.split_whitespace() {
            let (kind, rest) = word.split_at(1);
            let (first, second) = rest.split_once(['-', '*']).unwrap_or((rest, ""));
            let k: u64 = first.parse().unwrap_or(0);
            let n: u64 = second.parse().unwrap_or(if kind == "d" { k } else { 1 });
            let (len, window) = (
                100 * u32::from(kind == "p"),
                9 - u32::from(kind == "w") - 9 * u32::from(kind == "z"),
            );
            match kind {
                "d" => (k..=n).for_each(|k| {
                    assert_eq!(self.feed(self.ahead, k, 1000, 0, 9, Flags::NONE), Verdict::Forward)
                }),
                "l" => drop(self.feed(self.ahead, k, 2000, 0, 9, Flags::NONE)),
                "t" => self.fire(),
                "m" => self.now += Duration::millis(k),
                "q" => self.queue.0 = !self.queue.0,
                "u" => {
                    let (seq, flow, ahead) = (1000 * k, self.flow, self.ahead);
                    let dropped =
                        Segment { seq, len: 1000, size: 1040, flow, ..Segment::default() };
                    self.call(|agent, ctx| {
                        agent.on_link_event(ctx, ahead, LinkEvent::Refused, &dropped)
                    });
                }
                "s" => self.snack(k, u64::from_str_radix(second, 16).unwrap_or(1)),
                "h" => drop(self.feed(self.ahead, 0, 0, 0, 9, Flags::SYN)),
                "k" => drop(self.feed(self.ahead.reverse(), 0, 0, 0, 9, Flags::SYN)),
                "r" => drop(self.feed(self.ahead.reverse(), 0, 0, 0, 9, Flags::RST)),
                "v" => self.flow = k as u32,
                "x" => {
                    let moved = self.agent.export(self.flow);
                    assert!(moved.is_none_or(|m| self.agent.import(self.flow, &m)
                        && !self.agent.import(self.flow, &m[1..])));
                    self.call(|agent, ctx| agent.release_leaving(ctx));
                }
                "=" => self.log += &format!("={}", self.held.len()),
                _ => (0..n).for_each(|i| {
                    let (window, flags) = if kind == "b" {
                        (10 + i as u32, Flags::SACK)
                    } else {
                        (window, Flags::NONE)
                    };
                    let verdict = self.feed(self.ahead.reverse(), 0, len, k, window, flags);
                    if matches!(verdict, Verdict::Rewrite(_)) {
                        return self.log.push('e');
                    }
                    let forwarded = verdict == Verdict::Forward;
                    assert!(forwarded || "abw".contains(kind), "only pure duplicates are dropped");
                    self.log.push(if forwarded { 'f' } else { 's' });
                }),
            }
        }
        std::mem::take(&mut self.log)
    }
}

/// A rule, its settings, a script, and the expected log.
type Rule = (&'static str, &'static str, &'static str, &'static str);

const RULES: &[Rule] = &[
    (
        "a loss is retransmitted and its duplicate ACKs suppressed",
        "",
        "d0-9 a1 a3 a3*6 = a10 =",
        "fff+3sssss=7f=0",
    ),
    (
        "duplicate ACKs with changing window (buffer auto-tuning)",
        "",
        "d0-9 a1 a3 b3*6 = a10 =",
        "fff+3sssss=7f=0",
    ),
    ("the first duplicate ACK may trigger it", "first_dupack_passes = false", "d0-3 a0*3", "+0sss"),
    ("as many are suppressed as are expected", "expected_slack = 0", "d0-6 a0*8", "f+0sssssff"),
    ("ns-2 expects one more", "", "d0-6 a0*9", "f+0ssssssff"),
    ("more than segments sent: one more retransmission", "", "d0 a0*4", "f+0s+0sf"),
    ("old ACKs are forwarded", "", "d0-9 a5 a3*5", "ffffff"),
    (
        "duplicate ACKs are forwarded after a sender's retransmission",
        "",
        "d0-9 a3*3 d3 a3*5 a10 =",
        "ff+3sffffff=0",
    ),
    (
        "but not in ns-2 for expected ones",
        "ns2_suppress_expected = true",
        "d0-9 a3*4 d3 a3*3",
        "ff+3sssss",
    ),
    (
        "lost upstream: not cached, then a sender's retransmission",
        "",
        "d0-2 d4-9 a3*4 d3 a3*5",
        "fffffffff",
    ),
    ("lost in the queue of this node", "", "d0-2 q d3 q d4-9 a3*4 = d3 = a3*4", "ffff=6=7ffff"),
    ("a lost retransmission: the timer", "", "d0-9 a3 m50 d3 t", "f+3@1150"),
    ("a full cache", "cache_packets = 4", "d0-9 = a4*4 d10 =", "=4ffff=1"),
    ("a full cache in bytes", "cache_bytes = 4000", "d0-9 =", "=3"),
    ("the timer retransmits, and backs off", "", "d0-2 t t a1 t", "+0@1100+0@3300f+1@4400"),
    ("the timer is for the next expected segment", "", "d1-3 t v2 d0 d2-3 a1 t", "@1100f@2200"),
    (
        "it gives up; as in ns-2, no backoff",
        "max_retransmissions = 2\nbackoff = false",
        "d0-9 t t t a0*4 d0 t",
        "+0@1100+0@2200@3300ffff+0@4400",
    ),
    (
        "minimum of the timer",
        "initial_srtt = \"1 ms\"\ninitial_rttvar = \"0 s\"",
        "d0-2 t",
        "+0@100",
    ),
    // 0.1 s and a sample of 0.2 s: 0.1125 and 0.25 + (0.0875 - 0.25) / 8, or 0.1875 and 0.25 +
    // (0.0125 - 0.25) / 8.
    ("RTT", "", "d0-1 m200 a1 t", "f+1@1231"),
    ("RTT with the weights of ns-2", "ns2_rtt_weights = true", "d0-1 m200 a1 t", "f+1@1268"),
    ("Karn's rule", "backoff = false", "d0-1 t m500 a1 t", "+0@1100f+1@2700"),
    ("data behind a hole give no sample", "", "d0-3 t m5000 a4 d4-5 t", "+0@1100f+4@7200"),
    ("nor behind one that the sender fills", "", "d0-2 d4-9 a3 m5000 d3 a10 d10 t", "ff+10@6100"),
    (
        "not duplicates: window update, payload, answer to a probe",
        "",
        "d0-9 a3 w3 a3 p3*3 z3*4",
        "ffffffffff",
    ),
    ("payload counts as a new ACK", "", "d0-9 p4 =", "f=6"),
    ("reset", "", "d0-9 r = a0*5", "=0fffff"),
    (
        "an evicted flow releases its segments",
        "max_flows = 1",
        "d0-9 v2 d0 = v1 a0*3 t t",
        "=1fff+0@1100+0@3300",
    ),
    ("dropped by the queue later", "", "d0-9 u3 = a3*4 d3 u3 = a3*3", "=9ffff=6fff"),
    ("and its second copy", "", "d0-9 u3 d3 = u3 = t", "=10=9+0@1100"),
    ("a local copy dropped by the queue", "", "d0-9 a3*3 u3 = a10", "ff+3s=7f"),
    ("the last one dropped by the queue: no timer", "", "d0 u0 t =", "=0"),
    // The first of the two losses causes one duplicate ACK, which is forwarded.
    (
        "ns-2 never resets its counter of forwarded ones",
        "ns2_passing = true",
        "d0-9 a1 a1 a4 a4 a4 a4",
        "fff+4sss",
    ),
    ("which is common to all flows", "ns2_passing = true", "d0-9 a0 v2 d0-3 a0 a0", "f+0ss"),
    ("otherwise the counter restarts", "", "d0-9 a1 a1 a4 a4 a4 v2 d0-3 a0 a0", "ffff+4sf+0s"),
    (
        "ns-2 retransmits again after a sender's retransmission",
        "ns2_suppress_expected = true",
        "d0 a0*2 d0 a0*2",
        "f+0s+0s+0s",
    ),
    (
        "ns-2's sender retransmissions: only below the cache",
        "ns2_sender_retransmissions = true",
        "d0-2 d5-9 d3-4 a3*3 a4*3 =",
        "ff+3sff+4s=6",
    ),
    (
        "ns-2's sender retransmissions: not the highest segment",
        "ns2_sender_retransmissions = true",
        "d0-4 q d5 q d5 a5*3",
        "ff+5s",
    ),
    (
        "ns-2's sender retransmissions: not with a full queue",
        "ns2_sender_retransmissions = true",
        "d0-9 q d0 q a0*3",
        "f+0ss",
    ),
    (
        "ns-2's full cache expects nothing",
        "cache_packets = 4\nns2_full_cache = true",
        "d0-9 a0*4",
        "f+0sff",
    ),
    (
        "ns-2's full cache detects no sender retransmission",
        "cache_packets = 4\nns2_full_cache = true",
        "d0-9 d0 a0*2",
        "f+0s",
    ),
    // The handshake's 0.2 s give srtt 0.1875 s and deviation 0.2203 s: 1.06875 s. The sample of
    // 0.5 s from the local retransmission affects the timer after the next one: 1.2516 s.
    (
        "ns-2's samples",
        "ns2_rtt_weights = true\nns2_rtt_samples = true\nbackoff = false",
        "h m200 k d0-2 t m500 a1 t m700 a2 t",
        "+0@1268f+1@2837f+2@4789",
    ),
    (
        "SNACK: all holes at once, duplicate ACKs suppressed",
        "snack\n",
        "d0-9 a1 a3 a3 s3-15 a3*2 a10 =",
        "ffs+3+5+7sssf=0",
    ),
    ("SNACK: once per RTT", "snack\n", "d0-9 a0 s0-1 m1090 s0-1 m10 s0-1", "s+0ss+0s"),
    (
        "SNACK: a segment that never arrived is congestion",
        "snack\n",
        "d0-2 d4-9 a3*2 s3-1 a3",
        "ffff",
    ),
    ("SNACK: so is a drop in the queue", "snack\n", "d0-9 u3 a3*2 s3-1", "fff"),
    (
        "SNACK: some holes cached, duplicate ACKs for others forwarded",
        "snack\n",
        "d0-4 d6-9 a3*2 s3-5 a5*3",
        "fs+3sfff",
    ),
    ("SNACK: a new ACK is forwarded", "snack\n", "d0-9 a1 s3-1", "f+3f"),
    (
        "SNACK: duplicate ACKs are forwarded after a sender's retransmission",
        "snack\n",
        "d0-9 a3*2 d3 a3*2",
        "fsff",
    ),
    (
        "SNACK: attempts used up, marked with ELN",
        "snack\nmax_retransmissions = 1",
        "d0-9 a3 s3-1 m1100 s3-1 a3",
        "f+3see",
    ),
    ("SNACK: the timer is Snoop's", "snack\n", "d0-2 t a1", "+0@1100f"),
    ("SNACK is ignored by Snoop", "", "d0-9 a3 s3-15", "ff"),
    (
        "a handed-over flow has its sequence state",
        "",
        "d0-9 a3 x = a3*3 d10-12 a10*3",
        "f=0fffff+10s",
    ),
];

/// At the base station, and at the station for uplink data.
#[test]
fn agent_follows_the_rules() {
    let mut wrong = String::new();
    for (rule, settings, script, log) in RULES {
        for ahead in [Downlink, Uplink] {
            let found = Bench::new(settings, ahead).run(script);
            if found != *log {
                wrong += &format!("{rule}, {ahead:?}: found {found}, expected {log}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Data in the other direction are ignored.
#[test]
fn other_direction_is_forwarded() {
    let mut b = Bench::new("", Downlink);
    b.run("d0-9");
    for n in 0..10 {
        let data = Segment {
            seq: 1000 * n,
            len: 1000,
            size: 1040,
            flags: Flags::ACK,
            flow: 2,
            forward: true,
            ..Segment::default()
        };
        let ack = Segment { ack: 0, flow: 2, flags: Flags::ACK, window: 9, ..Segment::default() };
        assert_eq!(b.call(|agent, ctx| agent.on_segment(ctx, Uplink, &data)), Verdict::Forward);
        assert_eq!(b.call(|agent, ctx| agent.on_segment(ctx, Downlink, &ack)), Verdict::Forward);
    }
    assert_eq!(b.agent.flows.len(), 1);
}

/// For any number of flows and segments, the state is within the configured limits.
#[test]
fn state_is_bounded() {
    let mut b = Bench::new("max_flows = 5\ncache_packets = 8\ncache_bytes = 30000", Downlink);
    let max = 5 * (size_of::<FlowState>() + 8 * size_of::<Cached>()) + 30_000;
    for flow in 0..200 {
        b.run(&format!("v{flow} d0-20 a3*2 a1"));
        assert!(
            b.agent.flows.len() <= 5 && b.agent.state_bytes() <= max,
            "{} bytes after flow {flow}",
            b.agent.state_bytes()
        );
    }
    // The bound is at most twice the actual state.
    assert!(b.agent.state_bytes() > max / 2 && b.agent.flows.evicted() == 195);
}

proptest! {
    /// For arbitrary scripts, every retained payload is in the cache or was released (see `call`).
    #[test]
    fn payloads_balance(
        words in prop::collection::vec(
            ("[ddddlaaaaasswpztmqurvxhk]", 0..12u64, 0..12u64),
            0..300,
        ),
        passes: bool,
        ns2: bool,
        up: bool,
        by_snack: bool,
    ) {
        let settings = format!(
            "{}max_flows = 3\ncache_packets = 6\ncache_bytes = 9000\nmax_retransmissions = 3\n\
             first_dupack_passes = {passes}\nns2_suppress_expected = {ns2}\nns2_passing = {ns2}\n\
             ns2_sender_retransmissions = {ns2}\nns2_rtt_samples = {ns2}\nns2_full_cache = {ns2}",
            if by_snack { "snack\n" } else { "" }
        );
        let mut b = Bench::new(&settings, if up { Uplink } else { Downlink });
        for (kind, k, n) in &words {
            let separator = if kind == "d" { "-" } else { "*" };
            b.run(&format!("{kind}{k}{separator}{n}"));
        }
        (0..12).for_each(|flow| drop(b.run(&format!("v{flow} r"))));
        prop_assert!(b.held.is_empty());
    }
}
