//! The proxy steered by the radio network controller (RNF) in a network: the control loop of the
//! queue, outages, several flows.

use crate::support::*;
use lasthop::air::config::{LossConfig, OutageRule, RateConfig, TraceStart};
use lasthop::scenario::network::{App, Flow, Link, Network, Role};
use lasthop::segment::NoticeKind;
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Share, Size};
use lasthop_sim::events::Kind;

const RADIO: usize = 4;
/// Link from the controller to the proxy.
const BACK: usize = 3;

fn to_phone(scheme: &str, app: App) -> Flow {
    Flow {
        to: 3,
        receive_window: Size::Segments(10_000.0),
        ..flow(scheme, ProfileName::Ns235, app)
    }
}

/// Server, proxy, controller and terminal of janevski2009; the terminal's 15 ms are included in the
/// uplink delay.
fn radio_network(rate: RateConfig, flows: Vec<Flow>, duration: u64) -> Network {
    let wired = |from, to, delay| link(from, to, mbps(10.0), ms(delay));
    let links = vec![
        wired(0, 1, 15),
        wired(1, 0, 15),
        wired(1, 2, 6),
        wired(2, 1, 6),
        Link { radio: true, queue: packets(10_000), ..link(2, 3, rate, ms(25)) },
        Link { radio: true, ..link(3, 2, mbps(2.0), ms(40)) },
    ];
    network(
        &[Role::Server, Role::Proxy, Role::Rnc, Role::Station],
        links,
        flows,
        Duration::secs(duration),
    )
}

/// Queue lengths reported by the controller, in packets.
fn reports(run: &Watched) -> Vec<f64> {
    let queue = run.log.of(Kind::NoticeSent).filter(|e| e.reason == NoticeKind::Queue.name());
    queue.map(|e| e.segment().ack as f64 / 1040.0).collect()
}

fn counter(run: &Watched, name: &str) -> u64 {
    run.result
        .agents
        .iter()
        .find_map(|a| a.counters.get(name))
        .unwrap_or_else(|| panic!("no counter {name}"))
        .as_u64()
        .unwrap()
}

/// e(k+1) = (1 - K) e(k) on a saturated link of constant rate. It sends 250 packets per second, so
/// that each report falls at the same position within a packet. A wrong value of the empty round
/// trip causes the initial error.
#[test]
fn the_error_of_the_queue_follows_the_gain() {
    for (gain, first) in [("0.25", "157 ms"), ("0.5", "157 ms"), ("1", "157 ms"), ("1.5", "127 ms")]
    {
        let scheme = format!("rnf:gain={gain}:round_trip={first}");
        let run = watch(&radio_network(mbps(2.08), vec![to_phone(&scheme, App::Bulk)], 25), 1);
        let k: f64 = gain.parse().unwrap();
        // The first reports are sent while the server is still in slow start.
        let errors: Vec<f64> = reports(&run)[3..].iter().map(|q| 15.0 - q).collect();
        assert!(k > 0.4 || errors[0].abs() > 4.0, "{gain}: {errors:?}");
        for pair in errors.windows(2) {
            assert!((pair[1] - (1.0 - k) * pair[0]).abs() <= 1.0, "K = {gain}: {errors:?}");
        }
        assert!(errors[errors.len() - 1].abs() <= 1.5, "K = {gain}: {errors:?}");
    }
}

/// With a gain above 2 the queue does not converge.
#[test]
fn a_gain_above_two_oscillates() {
    let worst = |gain: &str| {
        let scheme = format!("rnf:gain={gain}:round_trip=157ms");
        let run = watch(&radio_network(mbps(2.0), vec![to_phone(&scheme, App::Bulk)], 40), 1);
        reports(&run)[25..].iter().map(|q| (q - 15.0).abs()).fold(0.0, f64::max)
    };
    assert!(worst("1.5") < 3.0, "{}", worst("1.5"));
    assert!(worst("2.3") > 10.0, "{}", worst("2.3"));
}

/// The sending rate follows a change of the link rate within a round trip, instead of report by
/// report.
#[test]
fn the_sending_rate_follows_a_change_of_the_link_rate() {
    let rate = schedule(&[(0, 2_000_000), (6000, 5_250_000), (12_000, 1_000_000)]);
    let run = watch(&radio_network(rate, vec![to_phone("rnf", App::Bulk)], 20), 1);
    let delivered = |from: f64, to: f64| -> f64 {
        run.log
            .of(Kind::Delivered)
            .filter(|e| e.secs() > from && e.secs() <= to)
            .map(|e| e.value)
            .sum::<f64>()
            * 8.0
            / (to - from)
    };
    // Of 1040 bytes on the air 1000 are payload.
    assert!((delivered(3.0, 6.0) / 2e6 - 1000.0 / 1040.0).abs() < 0.01, "{}", delivered(3.0, 6.0));
    assert!(delivered(6.3, 12.0) > 0.98 * 5.25e6 / 1.04, "{}", delivered(6.3, 12.0));
    let queue = reports(&run);
    assert!(queue[14..].iter().all(|q| (*q - 15.0).abs() <= 2.0), "{queue:?}");
}

/// An outage with held frames costs only its length; one that loses frames costs in addition what
/// it lost, which is retransmitted at once.
#[test]
fn outages_cost_their_length_and_no_timeout() {
    let finish = |scheme: &str, outage_rule: Option<OutageRule>| {
        let mut network =
            radio_network(mbps(2.0), vec![to_phone(scheme, App::Transfer { size: 3_000_000 })], 60);
        for l in [RADIO, RADIO + 1] {
            network.links[l].outages =
                outage_rule.map(|rule| outage(5000, 7000, rule)).into_iter().collect();
        }
        let run = watch(&network, 1);
        (run.result.flows[0].completed_s.unwrap(), run)
    };
    let (without, _) = finish("rnf", None);
    let (stalled, run) = finish("rnf", Some(OutageRule::Held));
    assert!((stalled - without - 7.0).abs() < 0.05, "{without} {stalled}");
    let outbound = |run: &Watched| {
        (counter(run, "outbound_retransmissions"), counter(run, "outbound_timeouts"))
    };
    assert_eq!((outbound(&run), counter(&run, "outages")), ((0, 0), 1));
    let (lossy, run) = finish("rnf", Some(OutageRule::LostAtArrival));
    assert!(lossy - without > 7.0 && lossy - without < 7.4, "{without} {lossy}");
    let outbound_counts = outbound(&run);
    let (retransmissions, timeouts) = outbound_counts;
    assert!(retransmissions > 20 && retransmissions < 60 && timeouts == 0, "{outbound_counts:?}");
    // Without `resend` the relay waits for its timer, which was held: it fires soon after the
    // outage.
    let (by_timer, run) = finish("rnf:resend=false", Some(OutageRule::LostAtArrival));
    assert!(by_timer > lossy + 0.1 && outbound(&run).1 > 0, "{by_timer} {lossy}");
    let (reno, _) = finish("reno", Some(OutageRule::LostAtArrival));
    assert!(reno > lossy + 1.0, "{reno} {lossy}");
}

/// A report replaces a lost one: with half of the notices lost, the rate is still followed.
#[test]
fn later_reports_replace_lost_notices() {
    let rate = || schedule(&[(0, 2_000_000), (5000, 4_000_000)]);
    let run = |loss: LossConfig, scheme: &str| {
        let mut network = radio_network(rate(), vec![to_phone(scheme, App::Bulk)], 15);
        network.links[BACK].loss = loss;
        watch(&network, 1)
    };
    let half = LossConfig::uniform(Share(0.5));
    let lossy = run(half, "rnf");
    let notices = |r: &Watched| (r.log.count(Kind::NoticeSent), r.log.count(Kind::NoticeReceived));
    let (sent, received) = notices(&lossy);
    assert!(received < sent * 3 / 4, "{sent} {received}");
    let late = |r: &Watched| {
        r.log.of(Kind::Delivered).filter(|e| e.secs() > 10.0).map(|e| e.value).sum::<f64>() * 8.0
            / 5.0
    };
    assert!(late(&lossy) > 3.6e6, "{}", late(&lossy));
}

/// Two flows of a terminal have half its rate each, and queue no more than each of them wants;
/// another terminal has a separate rate.
#[test]
fn flows_of_a_terminal_share_its_rate() {
    let wired = |from, to, delay| link(from, to, mbps(20.0), ms(delay));
    let radio = |from, to, rate| Link {
        radio: true,
        queue: packets(1000),
        ..link(from, to, mbps(rate), ms(25))
    };
    let links = vec![
        wired(0, 1, 15),
        wired(1, 0, 15),
        wired(1, 2, 6),
        wired(2, 1, 6),
        radio(2, 3, 4.0),
        radio(3, 2, 4.0),
        radio(2, 4, 2.0),
        radio(4, 2, 2.0),
    ];
    let flow_to = |name: &str, to, start| Flow {
        name: name.into(),
        to,
        start: Duration::secs(start),
        ..to_phone("rnf", App::Bulk)
    };
    let flows = vec![flow_to("a", 3, 0), flow_to("b", 3, 4), flow_to("c", 4, 0)];
    let roles = [Role::Server, Role::Proxy, Role::Rnc, Role::Station, Role::Station];
    let network = Network {
        measure_from: Duration::secs(10),
        ..network(&roles, links, flows, Duration::secs(30))
    };
    let run = watch(&network, 1);
    let goodput: Vec<f64> = run.result.flows.iter().map(|f| f.goodput_bps / 1e6 * 1.04).collect();
    for (found, expected) in goodput.iter().zip([2.0, 2.0, 2.0]) {
        assert!((found - expected).abs() < 0.1, "{goodput:?}");
    }
    let peak: Vec<_> =
        [4, 6].iter().map(|&l| run.result.links[l].queue_peak_frames.unwrap()).collect();
    assert!(peak[0] >= 28 && peak[0] < 40 && peak[1] >= 14 && peak[1] < 22, "{peak:?}");
}

/// The proxy may be the base station: its reports concern the radio link and do not leave the node.
#[test]
fn a_proxy_at_its_controller_reports_only_the_radio_link() {
    let links = vec![
        link(0, 1, mbps(10.0), ms(15)),
        link(1, 0, mbps(10.0), ms(15)),
        Link { radio: true, queue: packets(1000), ..link(1, 2, mbps(2.0), ms(25)) },
        Link { radio: true, ..link(2, 1, mbps(2.0), ms(25)) },
    ];
    let flows = vec![Flow { to: 2, ..to_phone("rnf", App::Transfer { size: 400_000 }) }];
    let run = watch(
        &network(
            &[Role::Server, Role::BaseStation, Role::Station],
            links,
            flows,
            Duration::secs(10),
        ),
        1,
    );
    assert!(run.result.flows[0].completed_s.is_some());
    let notices = |kind| run.log.of(kind).map(|e| e.node).collect::<Vec<_>>();
    assert!(notices(Kind::NoticeSent).len() >= 2);
    assert!(notices(Kind::NoticeReceived).iter().all(|&n| n == 1));
}

/// With a queue limit hardly above the target the link drops frames, and the flow continues.
#[test]
fn queue_limits_near_the_target_are_tolerated() {
    for limit in [8, 10, 15] {
        let mut network = radio_network(
            mbps(2.0),
            vec![to_phone("rnf:queue=5 segments:sender=reno", App::Bulk)],
            60,
        );
        network.links[RADIO].queue = packets(limit);
        let goodput = watch(&network, 1).result.flows[0].goodput_bps;
        assert!(goodput > 1.2e6, "{limit}: {goodput}");
    }
}

/// The proxy buffers no more than its limit, and the window offered to the server depends on the
/// queue.
#[test]
fn the_buffer_of_the_proxy_is_bounded() {
    let peak = |scheme: &str| {
        let run = watch(&radio_network(mbps(0.5), vec![to_phone(scheme, App::Bulk)], 30), 1);
        counter(&run, "buffer_peak_bytes")
    };
    assert!(peak("rnf:buffer=50000B:steer_server=false") <= 50_000);
    assert!(peak("rnf:steer_server=false") > 200_000);
    assert!(peak("rnf") < 40_000, "{}", peak("rnf"));
}

/// A transfer is aborted: the proxy discards its buffer; segments beyond the proxy are still
/// carried.
#[test]
fn a_second_click_aborts_the_first_transfer() {
    let first = Flow {
        stop: Some(Duration::millis(1250)),
        name: "first".into(),
        ..to_phone("rnf", App::Transfer { size: 500_000 })
    };
    let second = Flow {
        start: Duration::millis(1250),
        name: "second".into(),
        ..to_phone("rnf", App::Transfer { size: 320_000 })
    };
    let run = watch(&radio_network(mbps(2.0), vec![first, second], 20), 1);
    let [first, second] = &run.result.flows[..] else { panic!() };
    assert_eq!((first.completed_s, second.delivered_bytes), (None, 320_000));
    assert!(
        first.delivered_bytes > 50_000 && first.delivered_bytes < 320_000,
        "{}",
        first.delivered_bytes
    );
    assert!(second.completed_s.is_some() && second.first_byte_s.unwrap() > 0.1, "{second:?}");
    let last = run.log.of(Kind::DataSent).filter(|e| e.flow == 0).last().unwrap().secs();
    assert!(last <= 1.25, "{last}");
}

/// A scenario without a controller is rejected; the error names the missing role.
#[test]
fn a_missing_role_is_an_error() {
    let mut network = radio_network(mbps(2.0), vec![to_phone("rnf", App::Bulk)], 5);
    network.nodes[2].role = Role::Router;
    let run = |network: &Network| {
        lasthop_sim::run(network, 1, (), &std::sync::atomic::AtomicBool::new(false))
            .map_err(|e| e.to_string())
    };
    assert!(run(&network).unwrap_err().contains("`radio network controller`"));
    network.nodes[2].role = Role::BaseStation;
    assert!(run(&network).is_ok());
    // The base station is then the proxy too.
    network.nodes[1].role = Role::Router;
    let result = run(&network).unwrap();
    assert!(result.agents.iter().all(|a| a.node == "n2"), "{:?}", result.agents);
    network.nodes[2].role = Role::Router;
    assert!(run(&network).unwrap_err().contains("`proxy`"));
}

/// On a recorded trace the controller measures the link rate.
#[test]
fn the_rate_of_a_recorded_trace_is_measured() {
    // Two packets every 6 ms for three seconds, then one.
    let times: Vec<u32> =
        (0..2000).flat_map(|i| if i < 500 { vec![6 * i, 6 * i] } else { vec![6 * i] }).collect();
    let mut network = radio_network(mbps(2.0), vec![to_phone("rnf", App::Bulk)], 12);
    network.links[RADIO] =
        traced(network.links[RADIO].clone(), trace(&times), TraceStart::At(Duration::ZERO));
    let run = watch(&network, 1);
    let radio = &run.result.links[RADIO];
    assert!(radio.utilisation.unwrap() > 0.9, "{radio:?}");
    // Includes slow start before the first report.
    assert!(
        radio.queue_delay_s.p95.unwrap() < 0.3 && radio.queue_delay_s.mean.unwrap() < 0.1,
        "{radio:?}"
    );
}

/// The verifier finds no violations under random conditions: losses, short queues, outages of all
/// kinds, several flows, lost notices.
#[test]
fn random_conditions_cause_no_violations() {
    let draws = lasthop::random::Stream::new(1, "rnf conditions");
    for case in 0..60 {
        let draw =
            |i: u64, least: f64, most: f64| least + (most - least) * draws.uniform(case * 16 + i);
        let rate = schedule(&[
            (0, draw(0, 2e5, 6e6) as u64),
            (draw(1, 1e3, 9e3) as u64, 0),
            (draw(2, 9e3, 12e3) as u64, draw(3, 1e5, 1e7) as u64),
        ]);
        let scheme =
            ["rnf", "rnf:sender=sack", "rnf:sender=cubic", "rnf:gain=2.5:repeat_rate=false"]
                [case as usize % 4];
        let profile = [ProfileName::Ns235, ProfileName::Rfc, ProfileName::Linux][case as usize % 3];
        let bulk = Flow {
            profile: lasthop::tcp::profile::Profile::named(profile),
            ..to_phone(scheme, App::Bulk)
        };
        let size = draw(4, 1e3, 1e6) as u64;
        let stop = (case % 2 == 0).then_some(Duration::secs(14));
        let transfer = Flow {
            name: "b".into(),
            start: Duration::secs(3),
            app: App::Transfer { size },
            stop,
            ..bulk.clone()
        };
        let mut network = radio_network(rate, vec![bulk, transfer], 20);
        for l in [RADIO, RADIO + 1, BACK] {
            network.links[l].loss = LossConfig::uniform(Share(draw(5, 0.0, 0.05)));
            network.links[l].queue = packets(draw(6, 2.0, 60.0) as u64);
        }
        let rule = [OutageRule::Held, OutageRule::LostAtSending, OutageRule::LostAtArrival]
            [case as usize % 3];
        network.links[RADIO].outages =
            vec![outage(draw(7, 4e3, 18e3) as u64, draw(8, 1.0, 3e3) as u64, rule)];
        let run = watch(&network, case);
        assert!(run.result.flows[0].delivered_bytes > 0, "{case}");
    }
}
