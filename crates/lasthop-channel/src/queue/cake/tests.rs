//! Tests of CAKE with a single queue.

use super::*;
use crate::queue::testing::{Bench, ECT, FACTS, PLAIN, at};
use lasthop_core::units::Rate;
use proptest::collection::vec;
use proptest::prelude::*;

/// A link of 12 Mbit/s, where a frame of 1000 bytes takes 0.67 ms.
const FAST: LinkFacts<'static> = LinkFacts { rate: Rate(12_000_000), ..FACTS };

fn bench(settings: Cake) -> Bench<CakeQueue> {
    Bench::new(settings.build(None, &FAST))
}

#[test]
fn the_quantum_follows_the_rate() {
    let quantum = |rate| {
        let facts = LinkFacts { rate: Rate(rate), ..FACTS };
        Cake::default().build(None, &facts).quantum
    };
    let quanta = [0, 800_000, 12_000_000, 1_000_000_000].map(quantum);
    assert_eq!(quanta, [1514.0, 300.0, 366.0, 1514.0]);
}

/// One frame leaves in each millisecond, so that the frame at 6 ms is the first that waited
/// longer than the target. The first drop is an interval later, the others 100 / 2^0.5 ms and
/// 100 / 3^0.5 ms apart: at 106, 176.7, 234.4, 284.4 ms.
#[test]
fn cobalt_drops_as_codel_does() {
    for (flags, ecn) in [(PLAIN, true), (ECT, true), (ECT, false)] {
        let mut b = bench(Cake { ecn, ..Cake::default() });
        b.offer_all(0, 2000, flags);
        let mut times = Vec::new();
        for ms in 0..300 {
            let before = b.outcomes.len();
            b.take(ms);
            times.extend(std::iter::repeat_n(ms, b.outcomes.len() - before));
        }
        assert_eq!(times, [106, 177, 235, 285]);
        assert_eq!(b.marked().len(), if ecn && flags == ECT { 4 } else { 0 });
        assert!(b.dropped().iter().all(|d| d.1 == drop_reason::COBALT));
    }
}

#[test]
fn blue_answers_a_full_queue() {
    let mut b = Bench::new(Cake::default().build(Some(QueueLimit::Packets(20)), &FAST));
    (0..1000).for_each(|ms| b.offer(ms, ms as u32, ECT));
    let dropped = b.dropped();
    assert!(dropped.len() == 980 && dropped.iter().all(|d| d.1 == drop_reason::FATTEST));
    assert!(b.queue.flows.iter().any(|f| f.cobalt.probability() > 0.5));
    b.take_all(1000);
    assert!(b.dropped()[980..].iter().any(|d| d.1 == drop_reason::BLUE));
}

/// How many of `n` frames each of these groups of flows sends, of which each has a number of flows
/// between two hosts, all of them busy.
fn shares(isolation: Isolation, n: usize, groups: &[(u32, [u16; 2])]) -> Vec<usize> {
    let mut b = bench(Cake { isolation, rtt: Duration::secs(60), ..Cake::default() });
    let mut group_of = Vec::new();
    let flows =
        groups.iter().enumerate().flat_map(|(g, &(n, ends))| (0..n).map(move |_| (g, ends)));
    for (flow, (group, ends)) in flows.enumerate() {
        for _ in 0..n + 100 {
            b.offer_between(0, group_of.len() as u32, flow as u32, ends);
            group_of.push(group);
        }
    }
    let mut sent = vec![0; groups.len()];
    (0..n).filter_map(|_| b.take(1)).for_each(|handle| sent[group_of[handle as usize]] += 1);
    sent
}

/// Checks that the groups have these shares of 900 frames, up to 4 %.
fn expect(isolation: Isolation, groups: &[(u32, [u16; 2])], shares_of_900: &[usize]) {
    let sent = shares(isolation, 900, groups);
    let close = sent.iter().zip(shares_of_900).all(|(n, of)| n.abs_diff(*of) <= of / 25 + 5);
    assert!(close, "{isolation:?}: {sent:?} instead of {shares_of_900:?}");
}

/// One flow of host 1 beside eight of host 2, to a server each, and from them.
#[test]
fn hosts_have_equal_shares() {
    let up = [(1, [1, 3]), (8, [2, 4])];
    let down = up.map(|(n, [from, to])| (n, [to, from]));
    for mode in Isolation::ALL {
        let of_900 = match mode {
            // One queue is first in, first out: all are frames of the flow that came first.
            Isolation::Flowblind => [900, 0],
            Isolation::Flows => [100, 800],
            _ => [450, 450],
        };
        expect(mode, &up, &of_900);
        expect(mode, &down, &of_900);
    }
}

/// The same with one server: only the side of the hosts tells them apart, and triple isolation
/// counts all nine flows of the server.
#[test]
fn flows_to_one_server_have_equal_shares_under_triple_isolation() {
    use Isolation::{Dsthost, DualDsthost, DualSrchost, Flows, Hosts, Srchost, TripleIsolate};
    let (by_host, by_flow, first) = ([450, 450], [100, 800], [900, 0]);
    let up = [(1, [1, 3]), (8, [2, 3])];
    let down = up.map(|(n, [from, to])| (n, [to, from]));
    for (mode, of_up, of_down) in [
        (Srchost, by_host, first),
        (Dsthost, first, by_host),
        (Hosts, by_host, by_host),
        (Flows, by_flow, by_flow),
        (DualSrchost, by_host, by_flow),
        (DualDsthost, by_flow, by_host),
        (TripleIsolate, by_flow, by_flow),
    ] {
        expect(mode, &up, &of_up);
        expect(mode, &down, &of_down);
    }
}

#[test]
fn flows_of_a_host_have_equal_shares() {
    let by_destination = |n: u32, to: u16| (n, [0, to]);
    let groups = [by_destination(1, 0), by_destination(2, 1), by_destination(8, 2)];
    expect(Isolation::DualDsthost, &groups, &[300, 300, 300]);
    // Host 1 has a flow to host 5 and one to host 6, which has three others from host 2.
    let groups = [(1, [1, 5]), (1, [1, 6]), (3, [2, 6])];
    expect(Isolation::DualSrchost, &groups, &[225, 225, 450]);
    // Quanta are divided by 2, 4 and 4.
    expect(Isolation::TripleIsolate, &groups, &[300, 150, 450]);
}

/// With one way instead of 8, 11 of 150 flows would share a queue in the mean (150^2 / 2048).
#[test]
fn flows_do_not_share_queues() {
    let mut b = bench(Cake::default());
    (0..150).for_each(|flow| b.offer_to(0, flow, flow, 0));
    let used = b.queue.flows.iter().filter(|f| f.fifo.load().packets > 0).count();
    assert_eq!(used, 150);
    // Few flows get their queue again after it was free.
    b.take_all(0);
    (0..150).for_each(|flow| b.offer_to(1, flow, flow, 0));
    assert_eq!(b.take_all(1).len(), 150);
}

#[test]
fn a_sparse_flow_goes_first() {
    let mut b = bench(Cake::default());
    (0..50).for_each(|i| b.offer_to(0, i, 0, 0));
    b.take(0);
    b.take(1);
    b.offer_to(1, 100, 1, 0);
    assert_eq!(b.take(2), Some(100));
    assert_eq!(b.take(3), Some(2));
}

/// A frame that finds the link idle is sent, however small the limit is.
#[test]
fn an_idle_link_sends_what_exceeds_the_limit() {
    let mut b = Bench::new(Cake::default().build(Some(QueueLimit::Bytes(1)), &FAST));
    assert!((0..100).all(|i| b.pass(10 * i, 0, PLAIN)));
    assert!(b.outcomes.is_empty());
    b.offer(2000, 1, PLAIN);
    assert_eq!(b.dropped(), [(1, drop_reason::FATTEST)]);
}

#[test]
fn counts_of_busy_flows_balance() {
    let mut b = bench(Cake::default());
    for round in 0..200_u64 {
        for i in 0..40 {
            b.offer_to(round * 50, i, i % 7, (i % 3) as u16);
        }
        let left = if round % 3 == 0 { 0 } else { 10 };
        while b.queue.load().packets > left {
            b.take(round * 50 + 1);
        }
    }
    b.take_all(20_000);
    assert_eq!(b.take(20_000), None);
    for i in 0..1500 {
        assert!(b.pass(20_001 + 10 * i, 1, PLAIN));
    }
    assert!(b.queue.busy.total() <= 1, "{:?}", b.queue.busy);
    let listed = b.queue.new.len() + b.queue.old.len() + b.queue.decaying.len();
    let placed = b.queue.flows.iter().filter(|f| f.place != Place::Nowhere).count();
    assert_eq!(listed, placed);
}

#[test]
fn invalid_settings_are_rejected() {
    let key = |cake: Cake| cake.check().map_err(|e| e.0);
    assert_eq!(key(Cake::default()), Ok(()));
    assert_eq!(key(Cake { target: Duration::ZERO, ..Cake::default() }), Err("target"));
    assert_eq!(key(Cake { rtt: Duration::millis(5), ..Cake::default() }), Err("rtt"));
}

/// A frame arrives, of a flow between two hosts and of some length, or the link becomes free.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrives { flow: u32, bytes: u32 },
    Leaves,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let arrives = (0..12_u32, 40..1514_u32).prop_map(|(flow, bytes)| Step::Arrives { flow, bytes });
    vec(prop_oneof![3 => arrives, 2 => Just(Step::Leaves)], 1..400)
}

fn isolation() -> impl Strategy<Value = Isolation> {
    (0..Isolation::ALL.len()).prop_map(|i| Isolation::ALL[i])
}

/// The hosts of a flow.
fn ends(flow: u32) -> (u16, u16) {
    ((flow / 5) as u16, (3 + flow % 4) as u16)
}

/// Checks what holds between any two steps.
fn check_state(queue: &CakeQueue) -> Result<(), TestCaseError> {
    let in_place = |place| queue.flows.iter().filter(|f| f.place == place).count();
    prop_assert_eq!(queue.busy.total() as usize, in_place(Place::Bulk));
    let listed = queue.new.len() + queue.old.len() + queue.decaying.len();
    prop_assert_eq!(listed, QUEUES - in_place(Place::Nowhere));
    let load = queue.flows.iter().fold(Load::default(), |sum, f| sum.plus(f.fifo.load()));
    prop_assert_eq!(load, queue.load);
    for flow in queue.flows.iter().filter(|f| f.place != Place::Nowhere) {
        // A flow sends one frame more than it has credit for, at most.
        let bounds = -1514.0..=queue.quantum;
        prop_assert!(bounds.contains(&flow.credit), "credit {}", flow.credit);
        let waits = flow.fifo.load().packets > 0;
        prop_assert!(!waits || matches!(flow.place, Place::Sparse | Place::Bulk));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Each frame leaves once, and those of a flow in order; the lists, the counts of busy flows
    /// and the credit of each flow agree.
    #[test]
    fn frames_are_conserved(
        isolation in isolation(),
        packets in 1..60_u64,
        steps in steps(),
    ) {
        let settings = Cake { isolation, rtt: Duration::millis(10), ..Cake::default() };
        let mut b = Bench::new(settings.build(Some(QueueLimit::Packets(packets)), &FAST));
        let mut frames = Vec::new();
        let mut sent = Vec::new();
        for (ms, step) in (0..).zip(steps) {
            match step {
                Step::Arrives { flow, bytes } => {
                    let ((from, to), handle, now) = (ends(flow), frames.len() as u32, at(ms));
                    let frame = Frame { handle, bytes, flow, from, to, at: now, flags: PLAIN };
                    frames.push(flow);
                    b.queue.enqueue(now, frame, &mut b.outcomes);
                }
                Step::Leaves => sent.extend(b.take(ms)),
            }
            check_state(&b.queue)?;
        }
        sent.extend(b.take_all(1000));
        for flow in 0..12 {
            let of_flow = sent.iter().filter(|&&h| frames[h as usize] == flow);
            prop_assert!(of_flow.is_sorted(), "flow {}", flow);
        }
        let dropped = b.dropped().into_iter().map(|d| d.0);
        let mut left: Vec<u32> = sent.iter().copied().chain(dropped).collect();
        left.sort_unstable();
        prop_assert!(left.into_iter().eq(0..frames.len() as u32));
    }

    /// Busy flows get bytes in inverse proportion to their hosts' loads, up to a quantum and a
    /// frame of each, so that none is starved.
    #[test]
    fn busy_flows_share_the_link_by_the_loads_of_their_hosts(
        mode in 4..Isolation::ALL.len(),
        lengths in vec(40..1514_u32, 2..9),
        n in 1000..1500_usize,
    ) {
        let isolation = Isolation::ALL[mode];
        let mut b = bench(Cake { isolation, rtt: Duration::secs(60), ..Cake::default() });
        for (flow, &bytes) in (0..).zip(&lengths) {
            let (from, to) = ends(flow);
            for _ in 0..n {
                let frame = Frame { handle: flow, bytes, flow, from, to, ..Frame::default() };
                b.queue.enqueue(at(0), frame, &mut b.outcomes);
            }
        }
        // A flow is busy when it has used its first quantum, which is 10 frames at most.
        (0..10 * lengths.len()).for_each(|_| assert!(b.take(1).is_some()));
        prop_assert_eq!(b.queue.busy.total() as usize, lengths.len());
        let loads: Vec<f64> = (0..lengths.len() as u32)
            .map(|flow| {
                let (from, to) = ends(flow);
                f64::from(b.queue.busy.host_load(isolation, Hosts { from, to }))
            })
            .collect();
        let mut sent = vec![0.0; lengths.len()];
        for _ in 0..n / 2 {
            let flow = b.take(1).unwrap() as usize;
            sent[flow] += f64::from(lengths[flow]);
        }
        for (i, j) in (0..sent.len()).flat_map(|i| (0..sent.len()).map(move |j| (i, j))) {
            let ahead = sent[i] * loads[i] - sent[j] * loads[j];
            // One round, and what both have borrowed or left before and after.
            let borrowed = |k: usize| b.queue.quantum + loads[k] * f64::from(lengths[k]);
            let bound = b.queue.quantum + borrowed(i) + borrowed(j);
            prop_assert!(ahead <= bound, "{} B > {} B: {:?} {:?}", ahead, bound, sent, loads);
        }
    }
}
