//! The confusion matrix: a scheme's classification of losses against the ground truth.

use crate::support::*;
use lasthop::air::config::Span;
use lasthop::scenario::network::Network;
use lasthop::schemes::catalogue::{RecoverySlot, SchemeChoice};
use lasthop::tcp::recovery::{Recovery, RecoveryKind};
use lasthop::tcp::window::{
    Ack, Loss, LossClass, LossKind, Needs, Window, WindowRule, grow, halve, window_rule,
};
use lasthop::units::{Duration, Size};
use lasthop_sim::events::Kind;

/// Reno that classifies every loss: `classify` gets the segment's number from 1.
struct Classifier {
    classify: fn(u64) -> LossClass,
}

#[window_rule]
impl WindowRule for Classifier {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }
    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        let class = (self.classify)(loss.seq / 1000 + 1);
        if class == LossClass::Congestion || loss.kind == LossKind::Timeout {
            halve(window, loss);
        }
        class
    }
    fn classifies(&self) -> bool {
        true
    }
}

/// A transfer of 300 segments by such a sender with a window of 20 segments.
fn network(classify: fn(u64) -> LossClass) -> Network {
    let recovery = RecoverySlot::Fixed(Recovery::of(RecoveryKind::Newreno));
    let mut flow = rfc("reno", 300);
    flow.scheme = SchemeChoice::of_rule("classifier", Needs::default(), recovery, move || {
        Box::new(Classifier { classify })
    });
    flow.receive_window = Size::Segments(20.0);
    last_hop(vec![flow], Duration::secs(100))
}

/// Rows of verdicts [wireless, congestion] for the true classes wireless, congestion and not lost;
/// and the accuracy.
fn matrix(run: &Watched) -> ([[u64; 2]; 3], Option<f64>) {
    let flow = &run.result.classifier.as_ref().unwrap().flows[0];
    assert_eq!((flow.id.as_str(), flow.scheme.as_str()), ("flow 1", "classifier"));
    let m = flow.matrix;
    ([m.wireless, m.congestion, m.not_lost].map(|v| [v.wireless, v.congestion]), flow.accuracy)
}

#[test]
fn radio_losses_are_counted_as_classified_correctly_or_not() {
    let mut network =
        network(|n| if n == 120 { LossClass::Congestion } else { LossClass::Wireless });
    network.links[DOWN].loss = lose(&["50:1", "120:1", "200:1"], &[]);
    let run = watch(&network, 1);
    assert_eq!(matrix(&run), ([[2, 1], [0, 0], [0, 0]], Some(2.0 / 3.0)));
    // Losses classified as wireless did not reduce cwnd.
    assert_eq!(
        (run.result.flows[0].fast_retransmits.total, run.result.flows[0].cwnd_reductions),
        (3, 1)
    );
    // Losses before the measured time do not count.
    network.measure_from =
        Duration::from_secs_f64(run.log.of(Kind::FastRetransmit).nth(1).unwrap().secs() + 0.001);
    assert_eq!(matrix(&watch(&network, 1)), ([[1, 0], [0, 0], [0, 0]], Some(1.0)));
}

/// A queue of six frames for a window of 20: the events show what the queue dropped. A segment is
/// lost if all its copies were.
#[test]
fn queue_drops_count_as_congestion() {
    let mut network =
        network(|n| if n % 2 == 0 { LossClass::Wireless } else { LossClass::Congestion });
    network.links[DOWN].queue = packets(6);
    let run = watch(&network, 1);
    let before = |kind: Kind, n: u64, t: u64| {
        run.log.of(kind).filter(|e| e.number() == n && e.t < t).count()
    };
    let mut expected = [[0; 2]; 3];
    for e in run
        .log
        .of(Kind::DataSent)
        .filter(|e| e.number() > 0 && ["fast retransmit", "timeout"].contains(&e.reason))
    {
        let lost = before(Kind::DroppedAtQueue, e.number(), e.t)
            == before(Kind::DataSent, e.number(), e.t);
        expected[if lost { 1 } else { 2 }][e.number() as usize % 2] += 1;
    }
    let [_, [even, odd], _] = expected;
    assert!(odd > 0 && even > 0, "{expected:?}");
    assert_eq!(matrix(&run), (expected, Some(odd as f64 / (odd + even) as f64)));
}

/// A stall of three seconds lets the timer fire although nothing is lost.
#[test]
fn delayed_segments_do_not_count_as_lost() {
    let mut network = network(|_| LossClass::Wireless);
    network.links[DOWN].delay.in_order = true;
    network.links[DOWN].delay.stalls = vec![Span { from: ms(1000), length: ms(3000) }];
    let run = watch(&network, 1);
    let timeouts = run.result.flows[0].timeouts;
    assert!(timeouts.total > 0 && timeouts.spurious == timeouts.total, "{timeouts:?}");
    let ([wireless, congestion, [late, 0]], None) = matrix(&run) else {
        panic!("{:?}", matrix(&run))
    };
    assert_eq!((wireless, congestion), ([0, 0], [0, 0]));
    assert!(late >= timeouts.total, "{late} of {timeouts:?}");
}

/// A retransmission is in transit while the first copy is lost: the segment no longer counts as
/// lost.
#[test]
fn a_segment_counts_as_lost_if_all_its_copies_are() {
    let mut network = network(|_| LossClass::Congestion);
    network.flows[0].profile.min_rto = ms(200);
    network.links[DOWN].loss = lose(&["50:1"], &[]);
    let first = watch(&network, 1).log.of(Kind::FastRetransmit).next().unwrap().t;
    network.links[DOWN].delay.in_order = true;
    network.links[DOWN].delay.stalls = vec![Span { from: Duration(first), length: ms(2000) }];
    let run = watch(&network, 1);
    let ([wireless, congestion, [0, late]], Some(0.0)) = matrix(&run) else {
        panic!("{:?}", matrix(&run))
    };
    assert_eq!((wireless, congestion), ([0, 1], [0, 0]), "the fast retransmit");
    assert!(late > 0, "the timeouts after it");
}

/// Classifications by a receiver count like those of a sender, for each segment of a burst
/// separately. A lost SNACK is repeated.
#[test]
fn classifications_by_a_receiver_count() {
    let mut flow = rfc("selective-tcp", 300);
    flow.scheme.label = "classifier".into();
    flow.receive_window = Size::Segments(20.0);
    let mut network = last_hop(vec![flow], Duration::secs(100));
    network.links[DOWN].loss = lose(&["50:1", "120:1", "121:1", "200:1"], &[]);
    let repaired = |network: &Network| {
        let run = watch(network, 1);
        assert_eq!(matrix(&run), ([[4, 0], [0, 0], [0, 0]], Some(1.0)));
        let flow = &run.result.flows[0];
        assert_eq!(
            (flow.cwnd_reductions, flow.timeouts.total, flow.fast_retransmits.total),
            (0, 0, 0)
        );
        flow.completed_s.unwrap()
    };
    let received = repaired(&network);
    // The ACK of the SYN is number 1, that of segment 49 is number 50, and the next one requests
    // segment 50.
    network.links[UP].loss = lose(&[], &[51]);
    let repeated = repaired(&network);
    assert!(repeated > received && repeated < received + 0.2, "{received} s, {repeated} s");
}

#[test]
fn without_a_classifier_there_is_no_matrix() {
    let mut network = last_hop(vec![rfc("newreno", 100)], Duration::secs(100));
    network.links[DOWN].loss = lose(&["50:1"], &[]);
    assert!(watch(&network, 1).result.classifier.is_none());
    assert!(json(&network, 1).contains("\"classifier\":null"));
}

#[test]
fn the_json_has_verdicts_within_true_classes() {
    let mut network = network(|_| LossClass::Wireless);
    network.links[DOWN].loss = lose(&["50:1"], &[]);
    let zero = r#"{"wireless":0,"congestion":0}"#;
    let matrix = format!(
        r#"{{"wireless":{{"wireless":1,"congestion":0}},"congestion":{zero},"not_lost":{zero}}}"#
    );
    let flow =
        format!(r#"{{"id":"flow 1","scheme":"classifier","matrix":{matrix},"accuracy":1.0}}"#);
    let expected = format!(r#""classifier":{{"flows":[{flow}]}}"#);
    assert!(json(&network, 1).contains(&expected), "{}", json(&network, 1));
}
