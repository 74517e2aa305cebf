//! Spurious retransmissions and timeouts, and timeouts by ACK loss: recounted from the events of
//! random networks, with and without agents, and in cases where the right counts are evident.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::random::{Case, Conditions, any_network, cases};
use crate::support::*;
use lasthop::air::config::{DelayConfig, OutageRule, ScriptedDelay};
use lasthop::scenario::network::{App, Network};
use lasthop::segment::{Flags, Segment};
use lasthop::units::Duration;
use lasthop_sim::events::Kind;
use proptest::prelude::*;

/// Spurious retransmissions and timeouts, and timeouts by ACK loss.
type Counts = (u64, u64, u64);

/// First sequence number and the one after the last one, with an ISN of 0.
fn numbers(s: &Segment) -> (u64, u64) {
    if s.flags.has(Flags::SYN) {
        return (0, 1);
    }
    (s.seq.saturating_add(1), s.end().saturating_add(1))
}

/// The events of a connection in which the fates of its segments are looked up.
#[derive(Default)]
struct Fates<'a> {
    /// Copies that arrived: index of the event, numbers, packet number.
    arrivals: Vec<(usize, (u64, u64), u64)>,
    /// Index of the sending of each packet.
    sent: BTreeMap<u64, usize>,
    /// ACKs in the order of sending: index of the event, number, packet number.
    acks: Vec<(usize, u64, u64)>,
    acks_arrived: BTreeSet<u64>,
    acks_lost: BTreeSet<u64>,
    /// ACKs that a queue removed, and the one that made each redundant.
    replaced: BTreeMap<u64, u64>,
    retransmissions: Vec<(usize, &'a Seen)>,
}

impl<'a> Fates<'a> {
    fn of(log: &'a [Seen], connection: u32) -> Fates<'a> {
        let mut fates = Fates::default();
        let mut offered = 0;
        for (i, e) in log.iter().enumerate() {
            let other = Flags::DATAGRAM.with(Flags::NOTICE);
            let Some(s) = e.segment.filter(|s| s.flow == connection && !s.flags.any(other)) else {
                continue;
            };
            let (first, end) = numbers(&s);
            let is_copy = matches!(e.kind, Kind::AgentInjected | Kind::Duplicated);
            if s.forward && (is_copy || e.kind == Kind::DataSent) {
                fates.sent.insert(s.id, i);
            }
            match e.kind {
                Kind::DataSent if s.attempt > 1 => fates.retransmissions.push((i, e)),
                Kind::DataReceived if end > first => {
                    fates.arrivals.push((i, (first, end), s.id));
                }
                // An old copy of what the receiver has, discarded for its timestamp.
                Kind::Discarded if end > first && fates.arrived_before(i, (first, end)) => {
                    fates.arrivals.push((i, (first, end), s.id));
                }
                _ if s.forward || !s.flags.has(Flags::ACK) => {}
                Kind::AckSent | Kind::AgentInjected | Kind::Duplicated => {
                    fates.acks.push((i, s.ack + 1, s.id))
                }
                Kind::Enqueued => offered = s.id,
                Kind::Filtered => drop(fates.replaced.insert(s.id, offered)),
                Kind::AckReceived => drop(fates.acks_arrived.insert(s.id)),
                Kind::LostOnAir | Kind::DroppedAtQueue | Kind::Corrupted => {
                    fates.acks_lost.insert(s.id);
                }
                _ => {}
            }
        }
        fates
    }

    /// Everything from `first` to `end` had arrived before event `i`, perhaps in other segments.
    fn arrived_before(&self, i: usize, (mut first, end): (u64, u64)) -> bool {
        let mut arrived: Vec<_> =
            self.arrivals.iter().take_while(|a| a.0 < i).map(|a| a.1).collect();
        arrived.sort_unstable();
        for (from, to) in arrived {
            first = if from <= first { first.max(to) } else { first };
        }
        first >= end
    }

    /// ACKs for what is below `end` were sent before event `i`, and all of them were lost.
    fn all_acks_lost(&self, i: usize, end: u64) -> bool {
        let mut acks = self.acks.iter().filter(|a| a.0 < i && a.1 >= end).peekable();
        let lost = |mut id| {
            while let Some(by) = self.replaced.get(&id) {
                id = *by;
            }
            self.acks_lost.contains(&id) && !self.acks_arrived.contains(&id)
        };
        acks.peek().is_some() && acks.all(|(.., id)| lost(*id))
    }

    fn recount(&self) -> Counts {
        let mut counts = Counts::default();
        for (i, e) in &self.retransmissions {
            let s = e.segment();
            let (first, end) = numbers(&s);
            let before = self.arrived_before(*i, (first, end));
            let earlier = |a: &(_, (u64, u64), u64)| a.1.0 == first && self.sent[&a.2] < *i;
            if !before && !self.arrivals.iter().any(earlier) {
                continue;
            }
            counts.0 += 1;
            let syn = s.flags.has(Flags::SYN) && !s.flags.has(Flags::ACK);
            if e.reason == "timeout" || syn {
                let ack_loss = before && self.all_acks_lost(*i, end);
                *(if ack_loss { &mut counts.2 } else { &mut counts.1 }) += 1;
            }
        }
        counts
    }
}

/// The counts of each TCP flow by the run, and recounted.
fn compared(network: &Network, seed: u64) -> Vec<(Counts, Counts)> {
    let Watched { result, log } = watch(network, seed);
    let mut compared = Vec::new();
    for (f, flow) in result.flows.iter().enumerate().filter(|(_, flow)| flow.scheme.is_some()) {
        let of_flow = log.0.iter().filter(|e| e.flow == f as u32 && e.kind == Kind::DataSent);
        let Some(connection) = of_flow.filter_map(|e| Some(e.segment?.flow)).min() else {
            continue;
        };
        let counted =
            (flow.retransmissions.spurious, flow.timeouts.spurious, flow.timeouts.ack_loss);
        compared.push((counted, Fates::of(&log.0, connection).recount()));
    }
    compared
}

proptest! {
    #![proptest_config(cases(4000))]

    /// The counts are those of a recount that looks up in the events what became of each copy and
    /// of each ACK.
    #[test]
    fn a_recount_from_the_events_agrees(
        Case(mut network) in any_network(Conditions::Any),
        seed in 0u64..1000,
    ) {
        network.measure_from = Duration::ZERO;
        for (counted, recounted) in compared(&network, seed) {
            prop_assert_eq!(counted, recounted);
        }
    }
}

/// A transfer of one flow by rfc's sender, and its counts.
fn transfer(scheme: &str, segments: u64, change: impl FnOnce(&mut Network)) -> (Network, Counts) {
    let mut flow = rfc(scheme, segments);
    flow.app = App::Transfer { size: 1000 * segments };
    flow.profile.full_handshake = true;
    let mut network = last_hop(vec![flow], Duration::secs(60));
    change(&mut network);
    let compared = compared(&network, 1);
    let (counted, recounted) = compared[0];
    assert_eq!(counted, recounted);
    (network, counted)
}

/// The round trip is longer than the timeout: the first SYN arrives, and so does its answer.
#[test]
fn timeouts_of_a_syn_that_arrives_are_spurious() {
    let (network, counted) = transfer("newreno", 5, |net| {
        net.links[DOWN].delay = DelayConfig::constant(ms(2000));
        net.links[UP].delay = DelayConfig::constant(ms(2000));
    });
    let timeouts = watch(&network, 1).result.flows[0].timeouts;
    assert!(timeouts.total >= 2 && timeouts.spurious == timeouts.total, "{timeouts:?}");
    assert_eq!(counted.2, 0);
    assert_eq!(json(&network, 1), to_json(&watch(&network, 1).result), "computed in advance");
}

#[test]
fn a_lost_answer_to_the_syn_is_ack_loss() {
    let (network, counted) = transfer("newreno", 5, |net| net.links[UP].loss = lose(&[], &[1]));
    assert_eq!(counted, (1, 0, 1));
    assert_eq!(json(&network, 1), to_json(&watch(&network, 1).result), "computed in advance");
}

#[test]
fn a_lost_ack_of_the_fin_is_ack_loss() {
    for with_data in [false, true] {
        let (network, counted) = transfer("newreno", 1, |net| {
            net.flows[0].profile.fin_with_data = with_data;
            // The ACK of the data before the FIN leaves at 159.9 ms.
            let from = if with_data { 155 } else { 160 };
            net.links[UP].outages = vec![outage(from, 100, OutageRule::LostAtSending)];
        });
        assert_eq!(counted, (1, 0, 1), "FIN with the data: {with_data}");
        assert_eq!(json(&network, 1), to_json(&watch(&network, 1).result), "computed in advance");
    }
}

/// The first copy of a segment arrives after the retransmission that has overtaken it, and the
/// receiver discards it for its timestamp: it was not lost, so the timeout was spurious.
#[test]
fn a_copy_that_arrives_old_makes_its_retransmission_spurious() {
    let (network, counted) = transfer("newreno", 1, |net| {
        net.flows[0].profile.timestamps = true;
        let data = vec!["1:1 + 2 s".into()];
        net.links[DOWN].delay.scripted = Some(ScriptedDelay { data, acks: vec![] });
    });
    let log = watch(&network, 1).log;
    let discarded: Vec<_> = log.of(Kind::Discarded).map(|e| (e.number(), e.reason)).collect();
    assert_eq!(discarded, [(1, "old_timestamp")]);
    assert_eq!(counted, (2, 1, 0), "the FIN is repeated too");
    assert_eq!(json(&network, 1), to_json(&watch(&network, 1).result), "computed in advance");
}

/// All answers to the SYN are lost until the receiver has forgotten it, at 5 s: the SYN that is
/// repeated at 7 s had arrived all the same.
#[test]
fn a_syn_that_the_receiver_has_forgotten_had_arrived() {
    let (network, counted) = transfer("newreno", 5, |net| {
        net.flows[0].profile.synack_retries = 1;
        net.links[UP].outages = vec![outage(0, 8000, OutageRule::LostAtSending)];
    });
    assert_eq!(counted, (3, 0, 3));
    assert_eq!(json(&network, 1), to_json(&watch(&network, 1).result), "computed in advance");
}

/// Data that come to a connection which the receiver has forgotten are discarded and answered with
/// a reset: their retransmissions were not spurious.
#[test]
fn data_for_a_forgotten_connection_do_not_arrive() {
    let (network, counted) = transfer("newreno", 2, |net| {
        net.flows[0].profile.synack_retries = 1;
        net.links[DOWN].outages = vec![outage(100, 20_000, OutageRule::Held)];
    });
    let run = watch(&network, 1);
    let reasons: BTreeSet<_> = run.log.of(Kind::Discarded).map(|e| e.reason).collect();
    assert_eq!(reasons, BTreeSet::from(["no_connection"]));
    let flow = &run.result.flows[0];
    assert!(flow.retransmissions.total >= 3 && flow.discarded.no_connection >= 5, "{flow:?}");
    assert_eq!((flow.delivered_bytes, counted), (0, (0, 0, 0)));
    assert_eq!(json(&network, 1), to_json(&run.result), "computed in advance");
}

/// M-TCP's relay acknowledges the last byte only when the mobile has it. The server's timeouts in
/// an interruption of the radio link are spurious: no ACK was lost.
#[test]
fn an_ack_that_a_relay_withholds_is_not_lost() {
    let (network, counted) = transfer("m-tcp:sender=newreno", 400, |net| {
        net.links[DOWN].outages = vec![outage(500, 20_000, OutageRule::Held)];
        net.links[UP].outages = net.links[DOWN].outages.clone();
    });
    let timeouts = watch(&network, 1).result.flows[0].timeouts;
    assert!(timeouts.ack_loss == 0 && counted.2 == 0, "{timeouts:?}");
}
