//! ELN of Balakrishnan and Katz on simulated links, downlink and uplink.

use crate::support::*;
use lasthop::scenario::network::Network;
use lasthop::segment::Flags;
use lasthop::units::Duration;
use lasthop_sim::events::Kind;

/// The radio link loses these transmissions of data, uplink or downlink.
fn radio(scheme: &str, up: bool, lost: &[&str]) -> Network {
    let mut network = last_hop(vec![rfc(scheme, 200)], Duration::secs(100));
    if up {
        (network.flows[0].from, network.flows[0].to) = (2, 0);
    }
    network.links[if up { UP } else { DOWN }].loss = lose(lost, &[]);
    network
}

fn counter(run: &Watched, name: &str) -> u64 {
    run.result.agents[0].counters[name].as_u64().unwrap()
}

/// The first duplicate ACK notifies the sender of each loss, which is repaired without a reduction.
/// NewReno alone reduces cwnd.
#[test]
fn radio_losses_do_not_reduce_cwnd() {
    // Of two consecutive losses SACK detects the second before the base station can mark an ACK.
    let neighbours: &[&str] = &["20:1", "50:1", "90:1", "91:1"];
    for up in [false, true] {
        for (recovery, lost) in
            [("newreno+eln", neighbours), ("reno+eln", neighbours), ("sack+eln", &neighbours[..3])]
        {
            let run = watch(&radio(&format!("balakrishnan-eln:recovery={recovery}"), up, lost), 1);
            assert_eq!(
                (run.repairs(), run.result.flows[0].notices.unwrap().eln),
                ([lost.len() as u64, 0, 0, 0], lost.len() as u64),
                "{recovery} up {up}"
            );
            assert!(counter(&run, "acks_marked") >= lost.len() as u64);
        }
        assert!(watch(&radio("newreno", up, neighbours), 1).result.flows[0].cwnd_reductions >= 2);
    }
}

/// A segment dropped by the base station's queue was never on the air: its ACKs are not marked, and
/// the sender reduces cwnd. (ACKs that arrive after the retransmission has crossed the base station
/// may be marked.)
#[test]
fn queue_drops_reduce_cwnd() {
    let mut network = radio("balakrishnan-eln", false, &[]);
    network.links[DOWN].queue = packets(8);
    let run = watch(&network, 1);
    assert!(run.log.count(Kind::DroppedAtQueue) > 0);
    let retransmitted = run.log.of(Kind::DataSent).find(|e| e.segment().attempt > 1).unwrap().t;
    let marked = run.log.of(Kind::AckReceived).find(|e| e.segment().flags.has(Flags::ELN));
    assert!(marked.is_none_or(|e| e.t > retransmitted));
    assert!(run.result.flows[0].cwnd_reductions > 0);
}

/// The retransmission is lost as well: no ACK indicates that, and the timer repairs it once.
#[test]
fn a_lost_retransmission_is_repaired_by_the_timer() {
    let run = watch(&radio("balakrishnan-eln", false, &["50:1", "50:2"]), 1);
    let flow = &run.result.flows[0];
    assert_eq!((flow.timeouts.total, flow.delivered_bytes), (1, 200_000));
}

/// The base station marks ACKs, and the marks reach the sender.
#[test]
fn the_base_station_marks_acks() {
    let run = watch(&radio("balakrishnan-eln", false, &["50:1"]), 1);
    let marked = |node: u16| {
        run.log
            .of(Kind::AckReceived)
            .filter(|e| e.node == node && e.segment().flags.has(Flags::ELN))
            .count() as u64
    };
    assert!(marked(0) > 0 && marked(0) == counter(&run, "acks_marked"));
}
