//! Connections that the data's receiver opens, as a client that downloads.

use std::sync::atomic::AtomicBool;

use crate::support::random::{Case, Conditions, any_network, cases};
use crate::support::*;
use lasthop::air::config::{LossConfig, OutageRule};

use lasthop::scenario::network::{App, Flow, Network, Opener};
use lasthop::segment::Flags;
use lasthop::tcp::profile::ProfileName;
use lasthop::traffic::Sizes;
use lasthop::units::Duration;
use lasthop_sim::events::Kind;
use lasthop_sim::result::Unanswered;
use proptest::prelude::*;

/// A flow of 100 ms round trip under `linux` that its receiver opens.
fn download(app: App) -> Network {
    let flow = Flow { opens: Opener::Receiver, ..flow("cubic", ProfileName::Linux, app) };
    last_hop(vec![flow], Duration::secs(200))
}

fn transfer() -> App {
    App::Transfer { size: 20_000 }
}

/// The packets of the handshake and the first data: who sends them, and their flags.
fn opening(network: &Network) -> Vec<(Kind, f64, Flags)> {
    let log = watch(network, 1).log;
    let all = Flags::SYN.with(Flags::ACK);
    let sent = |e: &&Seen| matches!(e.kind, Kind::DataSent | Kind::AckSent);
    let events = log.0.iter().filter(sent);
    let flags = |f: Flags| Flags(f.0 & all.0);
    events.take(4).map(|e| (e.kind, e.secs(), flags(e.segment().flags))).collect()
}

#[test]
fn the_data_leave_when_the_ack_of_the_syn_ack_arrives() {
    let (syn, ack) = (Flags::SYN, Flags::ACK);
    let found = opening(&download(transfer()));
    let kinds: Vec<_> = found.iter().map(|e| (e.0, e.2)).collect();
    let (by_receiver, by_sender) = (Kind::AckSent, Kind::DataSent);
    let wanted = [(by_receiver, syn), (by_sender, syn.with(ack)), (by_receiver, ack)];
    assert_eq!(kinds[..3], wanted);
    assert_eq!(kinds[3], (by_sender, ack));
    // Each packet answers the one before: half a round trip after it.
    let half = found[1].1 - found[0].1;
    assert!(found.windows(2).all(|w| (w[1].1 - w[0].1 - half).abs() < 0.002), "{found:?}");
}

#[test]
fn the_time_on_the_empty_path_has_two_round_trips() {
    let network = download(transfer());
    let mut upload = network.clone();
    upload.flows[0].opens = Opener::Sender;
    let least = |n: &Network| n.empty_path_s(&n.flows[0]).unwrap();
    let took = |n: &Network| watch(n, 1).result.flows[0].completed_s.unwrap();
    assert!(least(&network) > least(&upload));
    assert!(took(&network) >= least(&network) && took(&upload) >= least(&upload));
}

#[test]
fn a_lost_syn_is_sent_again_by_the_receiver() {
    let mut network = download(transfer());
    network.links[3].loss = lose(&["0:1", "0:2"], &[]);
    let Watched { result, log } = watch(&network, 1);
    let is_syn = |e: &&Seen| e.kind == Kind::AckSent && e.segment().flags.has(Flags::SYN);
    let syns: Vec<_> =
        log.0.iter().filter(is_syn).map(|e| (e.secs(), e.segment().attempt)).collect();
    assert_eq!(syns.iter().map(|s| s.1).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(
        syns.iter().zip([0.0, 1.0, 2.0]).all(|(s, t)| (t..t + 0.04).contains(&s.0)),
        "{syns:?}"
    );
    assert!(result.flows[0].completed_s.is_some());
    // The sender has lost nothing.
    assert_eq!(result.flows[0].timeouts.total, 0);
}

#[test]
fn a_lost_ack_of_the_syn_ack_is_ack_loss() {
    let mut network = download(transfer());
    network.links[3].loss = lose(&[], &[1]);
    let flow = &watch(&network, 1).result.flows[0];
    assert!(flow.completed_s.unwrap() > 1.0);
    assert_eq!((flow.timeouts.total, flow.timeouts.spurious, flow.timeouts.ack_loss), (1, 0, 1));
    // The second SYN-ACK is answered as a challenge (RFC 5961).
    assert_eq!(flow.discarded.challenged, 1);
}

#[test]
fn a_lost_syn_ack_is_sent_again_by_the_timers_of_both_ends() {
    let mut network = download(transfer());
    network.links[2].loss = lose(&["0:1"], &[]);
    let flow = &watch(&network, 1).result.flows[0];
    assert!(flow.completed_s.is_some());
    assert_eq!(flow.timeouts.spurious, 0);
}

/// `tcp_syn_retries` and `tcp_syn_linear_timeouts`: 1 + 1 + 1 + 1 + 1 + 2 + … + 64 s, and what the
/// ticks of the timer add, as for a sender's SYN.
#[test]
fn a_syn_without_an_answer_is_given_up_by_the_receiver() {
    let mut network = download(transfer());
    network.links[3].outages = vec![outage(0, 199_000, OutageRule::LostAtSending)];
    let Watched { result, log } = watch(&network, 1);
    let flow = &result.flows[0];
    let gave_up = flow.gave_up.unwrap();
    assert_eq!(gave_up.unanswered, Unanswered::Syn);
    let mut upload = network.clone();
    (upload.flows[0].opens, upload.links[2].outages) =
        (Opener::Sender, network.links[3].outages.clone());
    let of_sender = watch(&upload, 1).result.flows[0].gave_up.unwrap().at_s;
    assert!((131.0..139.0).contains(&gave_up.at_s), "{}", gave_up.at_s);
    assert!((131.0..139.0).contains(&of_sender), "{of_sender}");
    assert_eq!((flow.completed_s, flow.delivered_bytes, flow.sent_segments), (None, 0, 0));
    let limits = serde_json::to_value(flow.limited_by).unwrap();
    assert!(limits["handshake"].as_f64().unwrap() > 0.99, "{limits}");
    assert_eq!(log.count(Kind::GaveUp), 1);
}

/// `tcp_synack_retries`: the client is connected, and waits for a server that has forgotten it.
#[test]
fn a_syn_ack_without_an_answer_is_given_up_by_the_sender() {
    let mut network = download(transfer());
    network.links[3].loss = lose(&[], &(1..40).collect::<Vec<_>>());
    let Watched { result, log } = watch(&network, 1);
    let gave_up = result.flows[0].gave_up.unwrap();
    assert_eq!(gave_up.unanswered, Unanswered::SynAck);
    assert!((63.0..66.0).contains(&gave_up.at_s), "{}", gave_up.at_s);
    assert_eq!((result.flows[0].delivered_bytes, log.count(Kind::GaveUp)), (0, 1));
}

/// A client sends its first request with the ACK of the SYN-ACK, two round trips after it began.
#[test]
fn a_request_waits_for_the_connection() {
    let mut network = download(App::Requests {
        request: 400,
        sizes: Sizes::Exponential { mean: 1.0 },
        mean_think: Duration::secs(1000),
    });
    let response = |n: &Network| {
        let requests = watch(n, 1).result.flows[0].requests.clone().unwrap();
        assert_eq!((requests.sent, requests.repeated, requests.answered), (1, 0, 1));
        requests.response_s.mean.unwrap()
    };
    let rtt = response(&network) / 2.0;
    network.links[2].loss = lose(&["0:1"], &[]);
    assert!((response(&network) - 2.0 * rtt - 1.0).abs() < 0.02);
    network.links[2].loss = LossConfig::None;
    network.flows[0].opens = Opener::Sender;
    assert!((response(&network) / 2.0 - rtt).abs() < 0.002);
}

fn opened_by_receivers(network: &mut Network) {
    for flow in &mut network.flows {
        let divided = flow.scheme.scheme.relay().is_some();
        if flow.profile.full_handshake && !divided && !flow.app.is_datagrams() {
            flow.opens = Opener::Receiver;
        }
    }
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn every_download_completes_on_passable_links(
        Case(mut network) in any_network(Conditions::Passable),
        seed in 0u64..1000,
    ) {
        opened_by_receivers(&mut network);
        let full_duration = std::mem::replace(&mut network.duration, Duration::secs(2000));
        let simulate = |n: &Network| lasthop_sim::run(n, seed, (), &AtomicBool::new(false));
        let mut result = simulate(&network).unwrap();
        if result.flows.iter().any(|f| f.completed_s.is_none()) {
            network.duration = full_duration;
            result = simulate(&network).unwrap();
        }
        for flow in &result.flows {
            prop_assert!(flow.completed_s.is_some(), "{}: {}", flow.id, flow.delivered_bytes);
        }
    }

    #[test]
    fn the_verifier_finds_no_fault_in_downloads(
        Case(mut network) in any_network(Conditions::Any),
        seed in 0u64..1000,
    ) {
        opened_by_receivers(&mut network);
        prop_assert_eq!(watch(&network, seed).result.traffic_bits.balance(), 0);
    }
}
