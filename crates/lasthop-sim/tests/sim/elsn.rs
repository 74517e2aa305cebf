//! LL-ELSN and ESACK on simulated links.

use std::sync::atomic::AtomicBool;

use crate::support::random::{Case, Conditions, any_network, cases};
use crate::support::*;
use lasthop::air::config::{LossConfig, OutageRule};
use lasthop::link::arq::{ArqConfig, ArqKind};
use lasthop::scenario::network::{App, Network};
use lasthop::segment::NoticeKind;
use lasthop::units::{Duration, Share};
use lasthop_sim::events::Kind;
use proptest::prelude::*;

/// A radio link that loses these attempts ("segment:attempt").
fn radio(scheme: &str, segments: u64, lost: &[&str], arq: Option<(u32, u64)>) -> Network {
    let mut network = last_hop(vec![rfc(scheme, segments)], Duration::secs(100));
    network.links[DOWN].loss = lose(lost, &[]);
    network.links[DOWN].arq = arq.map(|(attempts, delay)| ArqConfig {
        kind: ArqKind::StopAndWait,
        attempts,
        delay: ms(delay),
        in_order: true,
        fragments: 1,
    });
    network
}

fn notices(run: &Watched, kind: Kind) -> Vec<(NoticeKind, u64)> {
    let notice = |e: &Seen| e.segment().notice().map(|n| (n.kind, n.value / 1000 + 1)).unwrap();
    run.log.of(kind).map(notice).collect()
}

fn counter(run: &Watched, agent: usize, name: &str) -> u64 {
    run.result.agents[agent].counters[name].as_u64().unwrap()
}

/// With one attempt there is an ELN for each loss and never an ERSN. The sender retransmits, and
/// its cwnd is preserved.
#[test]
fn a_loss_is_notified_and_repaired_without_a_reduction() {
    let run = watch(&radio("ll-elsn", 200, &["20:1", "50:1", "51:1", "90:1"], None), 1);
    assert_eq!(notices(&run, Kind::NoticeReceived), [20, 50, 51, 90].map(|n| (NoticeKind::Eln, n)));
    assert_eq!(run.repairs(), [4, 0, 0, 0]);
    let flow = &run.result.flows[0];
    let notices = flow.notices.unwrap();
    assert_eq!((notices.ersn, notices.eln, notices.ignored), (0, 4, 0));
    assert_eq!(
        (
            counter(&run, 0, "ersn_sent"),
            counter(&run, 0, "eln_sent"),
            counter(&run, 0, "state_bytes")
        ),
        (0, 4, 0)
    );
    // Each loss is classified correctly.
    let matrix = run.result.classifier.as_ref().unwrap().flows[0].matrix;
    assert_eq!(
        (matrix.wireless.wireless, matrix.wireless.congestion, matrix.not_lost.wireless),
        (4, 0, 0)
    );
    // SACK reduces cwnd for the same losses.
    let sack = watch(&radio("sack", 200, &["20:1", "50:1", "51:1", "90:1"], None), 1);
    assert!(sack.result.flows[0].cwnd_reductions >= 2);
}

/// With more attempts there is an ERSN when the second begins, and an ELN when the last has failed.
#[test]
fn the_start_of_link_retransmission_is_notified_once() {
    let run =
        watch(&radio("ll-elsn", 100, &["20:1", "20:2", "40:1", "40:2", "40:3"], Some((3, 100))), 1);
    let expected = [(NoticeKind::Ersn, 20), (NoticeKind::Ersn, 40), (NoticeKind::Eln, 40)];
    assert_eq!(notices(&run, Kind::NoticeReceived), expected);
    let second =
        |n| run.log.of(Kind::AttemptFailed).find(|e| e.number() == n).unwrap().secs() + 0.1;
    let sent: Vec<f64> = run.log.of(Kind::NoticeSent).map(|e| e.secs()).collect();
    assert!(close(sent[0], second(20)) && close(sent[1], second(40)), "{sent:?}");
    assert_eq!(run.result.flows[0].cwnd_reductions, 0);
    let silent = watch(
        &radio("ll-elsn:ersn=false", 100, &["20:1", "40:1", "40:2", "40:3"], Some((3, 100))),
        1,
    );
    assert_eq!(notices(&silent, Kind::NoticeReceived), [(NoticeKind::Eln, 40)]);
}

/// On a link with fragmentation: one ERSN for a frame, at the first retransmission of a fragment,
/// and one ELN for all its fragments (yun2009, section 3.1).
#[test]
fn fragments_make_one_ersn_and_one_eln() {
    let cut = |scheme: &str, lost: &[&str], attempts: u32| {
        let mut network = radio(scheme, 100, lost, Some((attempts, 30)));
        network.links[DOWN].arq.as_mut().unwrap().fragments = 3;
        watch(&network, 1)
    };
    // Of segment 20 the first and the third fragment are lost once each; of segment 40 the second
    // is lost until it is discarded.
    let run = cut("ll-elsn", &["20:1", "20:4", "40:2", "40:3", "40:4"], 3);
    let expected = [(NoticeKind::Ersn, 20), (NoticeKind::Ersn, 40), (NoticeKind::Eln, 40)];
    assert_eq!(notices(&run, Kind::NoticeReceived), expected);
    let failed: Vec<_> = run.log.of(Kind::AttemptFailed).map(|e| (e.number(), e.value)).collect();
    assert_eq!(failed, [(20, 1.0), (20, 2.0), (40, 1.0), (40, 2.0), (40, 3.0)]);
    assert_eq!(run.log.of(Kind::LostOnAir).map(|e| e.number()).collect::<Vec<_>>(), [40]);
    let flow = &run.result.flows[0];
    assert_eq!((flow.retransmissions.total, flow.cwnd_reductions, flow.timeouts.total), (1, 0, 0));
    // Without link-layer retransmission there is no ERSN, whichever fragment is lost.
    let once = cut("ll-elsn", &["20:3", "40:1"], 1);
    assert_eq!(
        notices(&once, Kind::NoticeReceived),
        [(NoticeKind::Eln, 20), (NoticeKind::Eln, 40)]
    );
}

/// Slow link-layer retransmission makes the timer of a plain sender fire. A sender that receives an
/// ERSN waits (yun2009, figure 13).
#[test]
fn an_ersn_saves_a_spurious_timeout() {
    let lost = ["20:1", "20:2", "20:3", "20:4", "20:5"];
    let slow = |scheme: &str| {
        let mut network = radio(scheme, 100, &lost, Some((6, 150)));
        network.flows[0].profile.min_rto = ms(200);
        watch(&network, 1)
    };
    let (notified, plain) = (slow("ll-elsn"), slow("sack"));
    assert!(plain.result.flows[0].timeouts.spurious > 0);
    assert_eq!(
        (notified.result.flows[0].timeouts.total, notified.result.flows[0].cwnd_reductions),
        (0, 0)
    );
    assert!(notified.result.flows[0].notices.unwrap().held_timeouts > 0);
    assert_eq!(notified.result.flows[0].retransmissions.total, 0);
}

/// The ELN is lost on the wired link: one reduction.
#[test]
fn a_lost_eln_costs_one_reduction() {
    let mut network = radio("ll-elsn", 200, &["100:1"], None);
    let sent = watch(&network, 1).log.of(Kind::NoticeSent).next().unwrap().t;
    network.links[1].outages = vec![outage(sent / 1_000_000 - 1, 2, OutageRule::LostAtSending)];
    let run = watch(&network, 1);
    assert_eq!(
        (notices(&run, Kind::NoticeSent).len(), notices(&run, Kind::NoticeReceived).len()),
        (1, 0)
    );
    let flow = &run.result.flows[0];
    assert_eq!((flow.cwnd_reductions, flow.fast_retransmits.total, flow.timeouts.total), (1, 1, 0));
}

/// Uplink data: the station's own stack is notified at the instant of the loss.
#[test]
fn uplink_the_station_notifies_its_own_stack() {
    let mut network = radio("ll-elsn", 100, &[], None);
    (network.flows[0].from, network.flows[0].to) = (2, 0);
    network.links[UP].loss = lose(&["30:1", "31:1"], &[]);
    let run = watch(&network, 1);
    let lost: Vec<u64> = run.log.of(Kind::LostOnAir).map(|e| e.t).collect();
    let received: Vec<(u64, u16)> =
        run.log.of(Kind::NoticeReceived).map(|e| (e.t, e.node)).collect();
    assert_eq!(received, [(lost[0], 2), (lost[1], 2)]);
    let flow = &run.result.flows[0];
    assert_eq!((flow.retransmissions.total, flow.cwnd_reductions), (2, 0));
}

/// The station is out of reach from 10 s on (yun2009, figure 16): the sending rate falls to the
/// probes of the timer. When the station returns the rate recovers.
#[test]
fn the_sending_rate_falls_during_a_disconnection() {
    let mut network = last_hop(vec![rfc("ll-elsn", 1)], Duration::secs(60));
    network.flows[0].app = App::Bulk;
    network.links[DOWN].outages = vec![outage(10_000, 30_000, OutageRule::LostAtSending)];
    network.links[DOWN].queue = packets(50);
    let run = watch(&network, 1);
    let sent = |from: f64, to: f64| {
        run.log.of(Kind::DataSent).filter(|e| (from..to).contains(&e.secs())).count()
    };
    let usual = sent(8.0, 9.0);
    assert!(usual > 100);
    assert!(
        sent(12.0, 13.0) < usual / 2 && sent(20.0, 40.0) < 10,
        "{} {}",
        sent(12.0, 13.0),
        sent(20.0, 40.0)
    );
    assert!(sent(58.0, 59.0) > 100, "{}", sent(58.0, 59.0));
    let cwnd = |t: f64| run.log.of(Kind::Cwnd).filter(|e| e.secs() < t).last().unwrap().value;
    assert!(cwnd(39.0) >= cwnd(10.0), "cwnd is not reduced during the outage");
}

/// Random losses: the goodput is more than twice that of SACK.
#[test]
fn random_losses_do_not_reduce_cwnd() {
    let run = |scheme: &str| {
        let mut network = last_hop(vec![rfc(scheme, 1)], Duration::secs(100));
        network.flows[0].app = App::Bulk;
        network.links[DOWN].loss = LossConfig::uniform(Share(0.05));
        network.links[DOWN].queue = packets(50);
        watch(&network, 1).result
    };
    let (notified, sack) = (run("ll-elsn"), run("sack"));
    assert!(
        notified.flows[0].goodput_bps > 2.0 * sack.flows[0].goodput_bps,
        "{} {}",
        notified.flows[0].goodput_bps,
        sack.flows[0].goodput_bps
    );
    assert!(
        notified.flows[0].goodput_bps > 0.85e6,
        "of the 0.914 Mbit/s that 5 % loss leave: {}",
        notified.flows[0].goodput_bps
    );
}

/// Makes all flows go in one direction, over links that lose no data on the air; ACKs may be lost.
fn without_data_losses(mut network: Network, up: bool) -> Network {
    let far = network.nodes.len() as u16 - 1;
    for flow in &mut network.flows {
        (flow.from, flow.to) = if up { (far, 0) } else { (0, far) };
    }
    for (i, link) in network.links.iter_mut().enumerate() {
        if (i % 2 == 1) == up {
            link.loss = LossConfig::None;
            link.outages.retain(|o| o.frames == OutageRule::Held);
        }
    }
    network
}

proptest! {
    #![proptest_config(cases(1500))]

    /// Without radio losses of data ESACK sends the same segments as SACK, whether ACKs are lost or
    /// reordered or not.
    #[test]
    fn without_radio_losses_esack_equals_sack(
        Case(network) in any_network(Conditions::Any),
        up: bool,
        prr: bool,
        seed in 0u64..1000,
    ) {
        let mut network = without_data_losses(network, up);
        let mut sent = |scheme_text: String| {
            network.flows.iter_mut().for_each(|f| f.scheme = scheme(&scheme_text));
            let mut log = Log::default();
            let cancel = AtomicBool::new(false);
            let result = lasthop_sim::run(&network, seed, &mut log, &cancel).unwrap();
            let sent = log.of(Kind::DataSent).map(|e| {
                let s = e.segment();
                (e.t, e.flow, s.seq, s.len, s.attempt)
            });
            let counts = result.flows.iter().map(|f| {
                let (timeouts, fast) = (f.timeouts.total, f.fast_retransmits.total);
                (timeouts, fast, f.cwnd_reductions, f.delivered_bytes)
            });
            let (sent, counts): (Vec<_>, Vec<_>) = (sent.collect(), counts.collect());
            (sent, counts, log.count(Kind::NoticeSent))
        };
        let sack = sent(format!("sack:flavour=rfc6675:prr={prr}"));
        let esack = sent(format!("esack:prr={prr}"));
        let ll_elsn = sent(format!("ll-elsn:sender=(esack:prr={prr})"));
        prop_assert_eq!(&sack, &esack);
        prop_assert_eq!(&sack, &ll_elsn);
    }

    /// With one attempt no ERSN is sent, and an agent sends an ELN for each data frame lost on its
    /// link. The verifier finds no violations.
    #[test]
    fn with_one_attempt_there_is_no_ersn(
        Case(mut network) in any_network(Conditions::Any),
        seed in 0u64..1000,
    ) {
        network.flows.iter_mut().for_each(|f| f.scheme = scheme("ll-elsn"));
        let run = watch(&network, seed);
        let n = network.nodes.len() as u16;
        prop_assert!(notices(&run, Kind::NoticeSent).iter().all(|s| s.0 == NoticeKind::Eln));
        let elns = run.log.count(Kind::NoticeSent);
        let lost = run.log.of(Kind::LostOnAir);
        let data = lost
            .filter(|e| e.node >= n - 2 && e.segment().forward && e.number() > 0)
            .filter(|e| !e.segment().flags.has(lasthop::segment::Flags::DATAGRAM))
            .count();
        prop_assert_eq!(elns, data);
        for agent in &run.result.agents {
            let (ersn, state) = (&agent.counters["ersn_sent"], &agent.counters["state_bytes"]);
            prop_assert_eq!((ersn, state), (&0.into(), &0.into()));
        }
    }
}
