//! Schemes in the simulator: which segments an agent changes, and schemes defined outside the core.

use crate::support::*;
use lasthop::agent::{Agent, Context, Verdict};
use lasthop::air::config::{DelayConfig, DelayTable, DrawIndex, LossConfig, OutageRule};
use lasthop::role::Role;
use lasthop::scenario::network::{App, Network};
use lasthop::schemes::catalogue::{RecoverySlot, SchemeChoice};
use lasthop::segment::{Direction, Segment};
use lasthop::tcp::profile::ProfileName;
use lasthop::tcp::recovery::{Recovery, RecoveryKind};
use lasthop::tcp::window::{Ack, Loss, LossClass, Needs, Window, WindowRule, window_rule};
use lasthop::units::{Duration, Share};
use lasthop_sim::events::Kind;

/// The network of zeng2006, a thesis: 1 Mbit/s and 5 ms, then 250 kbit/s with delays from its
/// table, and loss in both directions.
fn thesis(scheme: &str, index: DrawIndex) -> Network {
    let mut network =
        last_hop(vec![flow(scheme, ProfileName::Ns226, App::Bulk)], Duration::secs(60));
    network.flows[0].receive_window = lasthop::units::Size::Segments(20.0);
    for l in [DOWN, UP] {
        network.links[l].rate = mbps(0.25);
        network.links[l].delay = DelayConfig {
            table: Some(DelayTable::Named("zeng2006".into())),
            index,
            ..DelayConfig::constant(ms(170))
        };
        network.links[l].loss =
            LossConfig::Uniform { rate: Share(0.02), index, slot: Duration::micros(500) };
    }
    network
}

/// The segments that the sender sends, without packet numbers.
fn data_sent(log: &Log) -> Vec<Seen> {
    let mut sent: Vec<Seen> = log.of(Kind::DataSent).cloned().collect();
    sent.iter_mut().for_each(|e| e.segment = Some(Segment { id: 0, ..e.segment() }));
    sent
}

/// Runs are paired: all schemes see the same channel realisation.
#[test]
fn packet_control_that_filters_nothing_changes_nothing() {
    for index in [DrawIndex::Slot, DrawIndex::Frame] {
        for seed in 1..=5 {
            let plain = watch(&thesis("reno", index), seed);
            let control = watch(
                &thesis("packet-control:dupack_threshold=3:data_filter=false:sender=reno", index),
                seed,
            );
            assert!(data_sent(&plain.log).len() > 200);
            assert_eq!(data_sent(&plain.log), data_sent(&control.log), "{index:?}, seed {seed}");
        }
    }
}

#[test]
fn the_data_filter_changes_nothing_before_it_drops_a_segment() {
    for index in [DrawIndex::Slot, DrawIndex::Frame] {
        let mut dropped_something = 0;
        for seed in 1..=8 {
            let plain = watch(&thesis("reno", index), seed);
            let control =
                watch(&thesis("packet-control:dupack_threshold=3:sender=reno", index), seed);
            let first = control
                .log
                .of(Kind::AgentDropped)
                .find(|e| e.segment().forward)
                .map_or(u64::MAX, |e| e.t);
            let before = |log: &Log| {
                data_sent(log).into_iter().take_while(|e| e.t <= first).collect::<Vec<_>>()
            };
            assert_eq!(before(&plain.log), before(&control.log), "{index:?}, seed {seed}");
            dropped_something +=
                u32::from(first < u64::MAX && data_sent(&plain.log) != data_sent(&control.log));
        }
        assert!(dropped_something > 0, "the filter makes a difference afterwards");
    }
}

/// Snoop hides radio losses: the sender neither times out nor reduces cwnd.
#[test]
fn snoop_hides_radio_losses_from_the_sender() {
    let run = |scheme: &str| {
        let mut network = last_hop(vec![rfc(scheme, 300)], Duration::secs(100));
        network.flows[0].receive_window = lasthop::units::Size::Segments(20.0);
        network.links[DOWN].loss = lose(&["50:1", "120:1", "200:1"], &[]);
        watch(&network, 1).result
    };
    let (plain, snoop) = (run("newreno"), run("snoop:sender=newreno"));
    assert_eq!(
        (plain.flows[0].fast_retransmits.total, snoop.flows[0].fast_retransmits.total),
        (3, 0)
    );
    assert_eq!(snoop.agents[0].counters["local_retransmissions"], 3);
    assert!(snoop.flows[0].completed_s < plain.flows[0].completed_s);
}

/// I-TCP retransmits radio losses from the base station.
#[test]
fn i_tcp_retransmits_at_the_base_station() {
    let mut network = last_hop(vec![rfc("i-tcp:sender=reno", 300)], Duration::secs(100));
    network.links[DOWN].loss = lose(&["50:1", "120:1"], &[]);
    let run = watch(&network, 1);
    assert_eq!(
        (run.result.flows[0].retransmissions.total, run.result.flows[0].delivered_bytes),
        (0, 300_000)
    );
    assert_eq!(run.result.agents[0].counters["outbound_retransmissions"], 2);
    assert_eq!(run.result.agents[0].counters["bytes_relayed"], 300_000);
}

/// The base station fails: bytes that it acknowledged but did not deliver are lost, unknown to the
/// server.
#[test]
fn bytes_acknowledged_by_a_failed_base_station_are_lost() {
    let lost = |scheme: &str| {
        let mut network =
            last_hop(vec![flow(scheme, ProfileName::Rfc, App::Bulk)], Duration::secs(40));
        for link in &mut network.links {
            link.outages = vec![outage(10_000, 30_000, OutageRule::LostAtArrival)];
        }
        watch(&network, 1).result.flows[0].acknowledged_undelivered_bytes
    };
    let undelivered = lost("i-tcp").unwrap();
    assert!(undelivered > 40_000 && undelivered <= 64_000, "{undelivered}");
    assert_eq!(lost("i-tcp:ack_on_delivery=true"), Some(0));
    assert_eq!(lost("snoop"), None);
}

/// A window rule defined here: half a segment per ACK, and at most four segments.
struct FourSegments;

#[window_rule]
impl WindowRule for FourSegments {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        window.cwnd = (window.cwnd + f64::from(ack.mss) / 2.0).min(4.0 * f64::from(ack.mss));
    }
    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        window.cwnd = f64::from(loss.mss);
        window.ssthresh = 2.0 * f64::from(loss.mss);
        LossClass::Unclassified
    }
}

#[test]
fn a_window_rule_from_outside_the_core_runs() {
    let recovery = RecoverySlot::Fixed(Recovery::of(RecoveryKind::Newreno));
    let mut network = last_hop(vec![rfc("reno", 200)], Duration::secs(100));
    network.flows[0].scheme =
        SchemeChoice::of_rule("four", Needs::default(), recovery, || Box::new(FourSegments));
    network.flows[0].profile.initial_window = lasthop::units::Size::Segments(1.0);
    let run = watch(&network, 1);
    assert_eq!(
        (run.result.scheme.as_str(), run.result.flows[0].delivered_bytes),
        ("four", 200_000)
    );
    assert!(
        run.result.flows[0].slots.contains("window four, recovery newreno"),
        "{}",
        run.result.flows[0].slots
    );
    assert_eq!(run.log.values(Kind::Cwnd), [1500.0, 2000.0, 2500.0, 3000.0, 3500.0, 4000.0]);
    network.links[DOWN].loss = lose(&["100:1"], &[]);
    assert!(watch(&network, 1).log.values(Kind::Cwnd).contains(&1000.0), "on_loss is called");
}

/// Drops or retains every tenth data segment and sends a copy 1 ms later.
#[derive(Default)]
struct TenthLate {
    seen: u64,
    copies: Vec<Segment>,
    sent: u64,
}

impl Agent for TenthLate {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        if direction == Direction::Uplink || segment.len == 0 {
            return Verdict::Forward;
        }
        self.seen += 1;
        if !self.seen.is_multiple_of(10) {
            return Verdict::Forward;
        }
        self.copies.push(*segment);
        ctx.wake(self.seen as u32, ctx.now + Duration::millis(1));
        if self.seen.is_multiple_of(20) { Verdict::Keep } else { Verdict::Drop("every tenth") }
    }
    fn on_timer(&mut self, ctx: &mut Context<'_>, _: u32) {
        self.sent += 1;
        let segment = self.copies.remove(0);
        ctx.inject(Direction::Downlink, segment);
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("seen", self.seen), ("sent_late", self.sent)]
    }
}

#[test]
fn an_agent_from_outside_the_core_runs() {
    let mut network = last_hop(vec![rfc("reno", 200)], Duration::secs(100));
    network.flows[0].scheme =
        SchemeChoice::of_agent("mine", &[Role::BaseStation], || Box::new(TenthLate::default()));
    let run = watch(&network, 1);
    assert_eq!(run.result.flows[0].delivered_bytes, 200_000);
    let agent = &run.result.agents[0];
    assert_eq!((agent.node.as_str(), agent.scheme.as_str()), ("n1", "mine"));
    let seen = agent.counters["seen"].as_u64().unwrap();
    assert!(seen >= 200 && agent.counters["sent_late"] == seen / 10);
    assert_eq!(run.log.count(Kind::AgentInjected) as u64, seen / 10);
    // A delay of 1 ms is too short for reordering: nothing was retransmitted.
    assert_eq!(run.result.flows[0].retransmissions.total, 0);
}

/// Two flows of different schemes at one base station: an agent sees only the flow of its scheme.
#[test]
fn an_agent_sees_the_flows_of_its_own_scheme_only() {
    let mut other = rfc("newreno", 100);
    other.name = "flow 2".into();
    let network = last_hop(vec![rfc("snoop", 100), other], Duration::secs(100));
    let run = watch(&network, 1);
    assert!(run.log.of(Kind::AgentIn).all(|e| e.flow == 0));
    assert_eq!(run.result.agents[0].counters["cached"], 100);
}
