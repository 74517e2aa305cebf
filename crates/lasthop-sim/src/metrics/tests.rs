use serde_json::json;

use super::flows::HARM;
use super::*;

/// A run with these flows, given as changes of a bulk flow, over two radio links.
fn run(flows: &[serde_json::Value]) -> RunResult {
    let times = json!({ "mean": 0.1, "p50": 0.1, "p95": 0.2, "p99": 0.3 });
    let flow = |changes: &serde_json::Value| {
        let mut flow = json!({
            "id": "flow 1", "group": "flow 1", "role": "candidate", "app": "bulk",
            "from": "server", "to": "phone", "scheme": "reno", "slots": "",
            "goodput_bps": 100.0, "delivered_bytes": 125, "sent_segments": 100,
            "retransmissions": { "total": 4, "spurious": 1 },
            "timeouts": { "total": 4, "spurious": 1, "ack_loss": 0 },
            "fast_retransmits": { "total": 4, "spurious": 1 }, "cwnd_reductions": 5,
            "rtt_s": times, "one_way_delay_s": times,
        });
        let table = flow.as_object_mut().unwrap();
        table.extend(changes.as_object().unwrap().clone());
        flow
    };
    let link = |from, to, busy: f64| {
        json!({
            "from": from, "to": to, "radio": true, "offered_frames": 100, "delivered_frames": 99,
            "lost_on_air": 1, "dropped_at_queue": 0, "marked_frames": 2, "utilisation": 0.5,
            "capacity_bps": 2e6, "busy_s": busy, "queue_delay_s": times,
        })
    };
    let run = json!({
        "lasthop": "0", "scenario": "", "scheme": "reno", "seed": 1, "duration_s": 10.0,
        "measured_s": 10.0, "warnings": [], "classifier": null,
        "flows": flows.iter().map(flow).collect::<Vec<_>>(),
        "links": [link("phone", "bs", 1.0), link("bs", "phone", 3.0)],
        "agents": [{ "node": "bs", "scheme": "snoop:x=1", "counters": { "local": 3 } }],
        "traffic_bits": {
            "before": 0, "offered": 4000, "injected": 0, "data": 2000, "duplicates": 0, "acks": 0,
            "control": 0, "bit_errors": 400, "collisions": 200, "queue_drops": 0, "at_agents": 0,
            "in_flight": 0,
        },
    });
    serde_json::from_value(run).unwrap()
}

fn value_of(run: &RunResult, name: &str) -> Option<f64> {
    Metrics::new(&[name]).values(run, None).next().filter(|v| !v.is_nan())
}

#[test]
fn values_of_a_run_add_up_over_flows_and_links() {
    let two = run(&[json!({ "goodput_bps": 300.0 }), json!({})]);
    for (name, value) in [
        ("goodput_bps", 200.0),
        ("retransmissions", 8.0),
        ("spurious_share", 0.25),
        ("lost_on_air", 2.0),
        ("radio_airtime_per_byte_s", 4.0 / 250.0),
        ("slowest_goodput_bps", 100.0),
        ("jain", 0.8),
        ("contention_loss_ratio", 0.05),
        ("bit_error_loss_ratio", 0.1),
        ("cumulative_throughput_bps", 200.0),
        ("one_way_delay_s_p95", 0.2),
        ("radio_capacity_bps", 2e6),
    ] {
        assert_eq!(value_of(&two, name), Some(value), "{name}");
    }
    for name in ["completed_s", "burst_segments", "classifier_accuracy", "limited_by_cwnd", "x"] {
        assert_eq!(value_of(&two, name), None, "{name}");
    }
}

#[test]
fn jains_index_is_one_for_equal_flows_and_unknown_without_goodput() {
    let flows =
        |rates: &[f64]| run(&rates.iter().map(|r| json!({ "goodput_bps": r })).collect::<Vec<_>>());
    assert_eq!(value_of(&flows(&[1.0, 1.0, 0.0, 0.0]), "jain"), Some(0.5));
    assert_eq!(value_of(&flows(&[0.0]), "jain"), None);
    assert_eq!(value_of(&flows(&[0.1 + 0.2]), "jain"), Some(1.0));
    assert_eq!(value_of(&flows(&[0.1 + 0.2]), "groups.flow 1.jain"), None);
}

#[test]
fn parts_are_found_by_name_and_nested_key() {
    let goodputs = [("old 1", 100.0), ("old 2", 300.0), ("older", 1e6)];
    let flows = goodputs.map(|(id, goodput)| json!({ "id": id, "goodput_bps": goodput }));
    let mut run = run(&flows);
    let click = |id, done: Option<f64>| {
        let times = json!({ "id": id, "objects": 1, "bytes": 9, "completed_s": done });
        let mut table = times.as_object().unwrap().clone();
        table.insert("broken_off".into(), false.into());
        serde_json::from_value(table.into()).unwrap()
    };
    run.clicks = vec![
        click("page 1", Some(1.0)),
        click("page 2", Some(3.0)),
        click("pages 1", Some(9.0)),
        click("page 3", None),
    ];
    for (name, value) in [
        ("flows.old.goodput_bps", Some(200.0)),
        ("flows.old.timeouts.spurious", Some(1.0)),
        ("flows.new.goodput_bps", None),
        ("agents.snoop.local", Some(3.0)),
        ("agents.reno.local", None),
        ("links.bs>phone.lost_on_air", Some(1.0)),
        ("agents.snoop.local / links.bs>phone.offered_frames", Some(0.03)),
        ("agents.snoop.local / links.bs>phone.dropped_at_queue", None),
        ("clicks.page.completed_s", Some(2.0)),
        ("clicks.page 2.completed_s", Some(3.0)),
        ("clicks.page.broken_off", Some(0.0)),
    ] {
        assert_eq!(value_of(&run, name), value, "{name}");
    }
}

#[test]
fn an_incomplete_transfer_takes_longer_than_every_complete_one() {
    let transfer = |done: Option<f64>, arrived: f64| {
        json!({
            "group": "a.b", "role": "competitor", "app": "transfer", "completed_s": done,
            "arrived_s": arrived, "empty_path_s": 0.5,
        })
    };
    // The last one does not arrive in the run.
    let run = run(&[
        transfer(Some(3.0), 0.0),
        transfer(None, 1.0),
        transfer(Some(1.0), 2.0),
        transfer(None, 10.0),
    ]);
    for (key, value) in [
        ("completed_s_p50", Some(3.0)),
        ("completed_s_p95", None),
        ("slowdown_p50", Some(6.0)),
        ("completed_share", Some(2.0 / 3.0)),
        ("goodput_share", Some(1.0)),
        ("harm_goodput", None),
    ] {
        assert_eq!(value_of(&run, &format!("groups.a.b.{key}")), value, "{key}");
        assert_eq!(value_of(&run, &format!("roles.competitor.{key}")), value, "{key}");
        assert_eq!(value_of(&run, &format!("roles.probe.{key}")), None, "{key}");
    }
}

#[test]
fn harm_is_the_lost_share_of_the_better_value() {
    let [goodput, delay, _] = HARM else { panic!("three kinds") };
    assert_eq!(goodput.of(Some(10.0), Some(4.0)), Some(0.6));
    assert_eq!(goodput.of(Some(10.0), Some(12.0)), Some(-0.2));
    assert_eq!(goodput.of(Some(0.0), Some(4.0)), None);
    assert_eq!(delay.of(Some(0.25), Some(1.0)), Some(0.75));
    assert_eq!(delay.of(None, Some(0.4)), None);

    let flow = |group, goodput: u64| {
        json!({ "group": group, "role": if group == "a" { "candidate" } else { "competitor" },
            "delivered_bytes": goodput })
    };
    let (beside, alone) = (run(&[flow("a", 75), flow("b", 25)]), run(&[flow("b", 100)]));
    let names = ["groups.b.harm_goodput", "roles.competitor.harm_goodput", "groups.a.harm_goodput"];
    let metrics = Metrics::new(&names);
    assert!(metrics.needs_alone() && !Metrics::new(&["jain"]).needs_alone());
    let found: Vec<f64> = metrics.values(&beside, Some(&alone)).collect();
    assert_eq!(found[..2], [0.75, 0.75]);
    assert!(found[2].is_nan());
    assert_eq!(flows::Members::names(&beside).len(), 4);
}
