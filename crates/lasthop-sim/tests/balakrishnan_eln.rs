//! ELN of Balakrishnan and Katz on simulated links, data going down and up.

mod support;

use lasthop::scenario::network::Network;
use lasthop::segment::Flags;
use lasthop::units::Duration;
use lasthop_sim::events::Kind;
use support::*;

/// The radio link loses these sendings of data that go down, or up.
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

/// Every loss is told by the first duplicate ACK and repaired, and the window stays. NewReno alone
/// halves it.
#[test]
fn losses_of_the_radio_leave_the_window_alone() {
    // Of two in a row SACK finds the second by itself, before the base station can tell.
    let neighbours: &[&str] = &["20:1", "50:1", "90:1", "91:1"];
    for up in [false, true] {
        for (recovery, lost) in
            [("newreno+eln", neighbours), ("reno+eln", neighbours), ("sack+eln", &neighbours[..3])]
        {
            let run = watch(&radio(&format!("balakrishnan-eln:recovery={recovery}"), up, lost), 1);
            let flow = &run.result.flows[0];
            let counts = [
                flow.retransmissions.total,
                flow.retransmissions.spurious,
                flow.timeouts.total,
                flow.cwnd_reductions,
            ];
            assert_eq!(
                (counts, flow.notices.unwrap().eln),
                ([lost.len() as u64, 0, 0, 0], lost.len() as u64),
                "{recovery} up {up}"
            );
            assert!(counter(&run, "acks_marked") >= lost.len() as u64);
        }
        assert!(watch(&radio("newreno", up, neighbours), 1).result.flows[0].cwnd_reductions >= 2);
    }
}

/// What the base station's own queue drops was never on the radio: its ACKs are not marked, and the
/// sender halves. (Marked are those that still come when the copy has crossed.)
#[test]
fn drops_of_the_queue_are_congestion() {
    let mut network = radio("balakrishnan-eln", false, &[]);
    network.links[DOWN].queue = packets(8);
    let run = watch(&network, 1);
    assert!(run.log.count(Kind::DroppedAtQueue) > 0);
    let again = run.log.of(Kind::DataSent).find(|e| e.segment().attempt > 1).unwrap().t;
    let marked = run.log.of(Kind::AckReceived).find(|e| e.segment().flags.has(Flags::ELN));
    assert!(marked.is_none_or(|e| e.t > again));
    assert!(run.result.flows[0].cwnd_reductions > 0);
}

/// The copy is lost as well: no ACK tells of that, and the timer finds it, once.
#[test]
fn a_lost_copy_is_found_by_the_timer() {
    let run = watch(&radio("balakrishnan-eln", false, &["50:1", "50:2"]), 1);
    let flow = &run.result.flows[0];
    assert_eq!((flow.timeouts.total, flow.delivered_bytes), (1, 200_000));
}

/// The mark is made at the base station and arrives at the sender.
#[test]
fn marks_are_made_by_the_base_station() {
    let run = watch(&radio("balakrishnan-eln", false, &["50:1"]), 1);
    let marked = |node: u16| {
        run.log
            .of(Kind::AckReceived)
            .filter(|e| e.node == node && e.segment().flags.has(Flags::ELN))
            .count() as u64
    };
    assert!(marked(0) > 0 && marked(0) == counter(&run, "acks_marked"));
}
