use super::reading::round_trip;
use crate::network::Network;
use lasthop_core::units::Size;

const GEO: &str = "[last_hop]\nrate = \"50 Mbps\"\nrtt = \"600 ms\"\n";

/// The assumed settings that bound throughput.
fn assumed_bounds(n: &Network) -> Vec<&str> {
    let of_a_scheme = |line: &str| n.flows.iter().any(|f| line.starts_with(f.scheme.scheme.name()));
    n.assumed.iter().map(String::as_str).filter(|line| of_a_scheme(line)).collect()
}

fn settings(network: &Network, flow: usize) -> serde_json::Map<String, serde_json::Value> {
    network.flows[flow].scheme.scheme.settings()
}

fn of(scheme: &str, more: &str) -> Network {
    round_trip(&format!("{GEO}[tcp]\nscheme = {scheme}\n{more}")).network
}

#[test]
fn buffers_of_relays_follow_the_path_under_linux() {
    // 2 x 50 Mbit/s x 0.6 s.
    for scheme in ["i-tcp", "mtcp:second=tcp", "rnf"] {
        let n = of(&format!("\"{scheme}\""), "");
        assert_eq!(settings(&n, 0)["buffer"], "7500000 B", "{scheme}");
        let name = scheme.split(':').next().unwrap();
        let line = format!(
            "{name} buffer 7500000 B: none is given; 2 x the bandwidth-delay product of the path \
             (50 Mbps, 600 ms)"
        );
        assert!(assumed_bounds(&n).contains(&line.as_str()), "{:?}", assumed_bounds(&n));
    }
    let n = of("\"snoop\"", "");
    assert_eq!(settings(&n, 0)["cache_packets"], 5180);
    assert_eq!(settings(&of("\"snack-snoop\"", ""), 0)["cache_packets"], 5180);
}

/// 3 x 32 segments of 1448 bytes: more data in the relay would not make the window larger.
#[test]
fn a_fixed_window_needs_no_larger_buffer() {
    for scheme in ["mtcp", "m-tcp"] {
        assert_eq!(
            settings(&of(&format!("\"{scheme}\""), ""), 0)["buffer"],
            "139008 B",
            "{scheme}"
        );
    }
    assert_eq!(settings(&of("\"m-tcp:window=10MB\"", ""), 0)["buffer"], "7500000 B");
}

#[test]
fn other_profiles_keep_the_published_values() {
    for profile in ["rfc", "ns-2.35", "ns-2.26"] {
        let n = of("\"i-tcp\"", &format!("profile = \"{profile}\""));
        assert_eq!(settings(&n, 0)["buffer"], "64000 B", "{profile}");
        assert_eq!(assumed_bounds(&n), ["i-tcp buffer 64000 B: none is given"]);
        assert_eq!(
            settings(&of("\"snoop\"", &format!("profile = \"{profile}\"")), 0)["cache_packets"],
            100
        );
    }
    assert_eq!(settings(&of("\"rnf\"", "profile = \"rfc\""), 0)["buffer"], "256000 B");
}

#[test]
fn a_short_path_keeps_them_too() {
    let n = round_trip("[last_hop]\nrate = \"1 Mbps\"\nrtt = \"40 ms\"\n[tcp]\nscheme = \"i-tcp\"")
        .network;
    assert_eq!(settings(&n, 0)["buffer"], "64000 B");
    let line = "i-tcp buffer 64000 B: none is given; at least 2 x the bandwidth-delay product of \
                the path (1 Mbps, 40 ms)";
    assert_eq!(assumed_bounds(&n), [line]);
}

#[test]
fn what_is_given_wins() {
    let n = of("\"i-tcp:buffer=64000B\"", "");
    assert_eq!(
        (settings(&n, 0)["buffer"].as_str(), assumed_bounds(&n).len()),
        (Some("64000 B"), 0)
    );
    let n = of("{ name = \"snoop\", cache_packets = 7 }", "");
    assert_eq!((settings(&n, 0)["cache_packets"].as_u64(), assumed_bounds(&n).len()), (Some(7), 0));
    let n = of("{ name = \"m-tcp\", window = \"100 segments\" }", "");
    assert_eq!(assumed_bounds(&n).len(), 1, "its buffer: {:?}", assumed_bounds(&n));
}

#[test]
fn a_fixed_window_is_noted_and_stays() {
    let n = of("\"m-tcp\"", "");
    assert_eq!(settings(&n, 0)["window"], "32 segments");
    assert_eq!(assumed_bounds(&n)[1], "m-tcp window 32 segments: none is given");
}

/// Flows of one scheme may share an agent: the longest path determines the value.
#[test]
fn flows_of_one_scheme_have_one_value() {
    let text = r#"
        duration = "10 s"
        [[node]]
        name = "bs"
        role = "base-station"
        [[link]]
        between = ["near", "bs"]
        rate = "1 Gbps"
        delay = "1 ms"
        [[link]]
        between = ["far", "bs"]
        rate = "1 Gbps"
        delay = "200 ms"
        [[link]]
        between = ["bs", "phone"]
        rate = "50 Mbps"
        delay = "99 ms"
        radio = true
        [[flow]]
        from = "near"
        to = "phone"
        scheme = "i-tcp"
        [[flow]]
        from = "far"
        to = "phone"
        scheme = "i-tcp"
        [[flow]]
        from = "far"
        to = "phone"
        scheme = { name = "i-tcp", buffer = "1000 B", label = "small" }
        [[flow]]
        from = "far"
        to = "phone"
        scheme = "cubic"
    "#;
    let n = round_trip(text).network;
    let buffers: Vec<_> = (0..3).map(|f| settings(&n, f)["buffer"].clone()).collect();
    assert_eq!(buffers, ["7475000 B", "7475000 B", "1000 B"]);
    assert_eq!(assumed_bounds(&n).len(), 1, "{:?}", assumed_bounds(&n));
}

#[test]
fn a_trace_counts_with_its_mean() {
    let n =
        round_trip("[last_hop]\ndown = \"my.down\"\nrtt = \"600 ms\"\n[tcp]\nscheme = \"i-tcp\"")
            .network;
    // 12 Mbit/s.
    assert_eq!(settings(&n, 0)["buffer"], "1800000 B");
}

/// A default receive window that the path can exceed is listed; one that it cannot exceed, or that
/// is given, is not.
#[test]
fn a_receive_window_that_may_bind_is_noted() {
    let noted = |text: &str| {
        round_trip(text).network.assumed.iter().filter(|a| a.contains("receive window")).count()
    };
    assert_eq!(noted(GEO), 0);
    assert_eq!(noted("[last_hop]\nrate = \"400 Mbps\"\nrtt = \"600 ms\""), 1);
    assert_eq!(
        noted(
            "[last_hop]\nrate = \"200 Mbps\"\nrtt = \"600 ms\"\n[tcp]\nreceive_window = \"4 MiB\""
        ),
        0
    );
    assert_eq!(
        noted(
            "[last_hop]\nrate = \"200 Mbps\"\nrtt = \"600 ms\"\n[[flow]]\nreceive_window = \"4 \
             MiB\""
        ),
        0
    );
    let n = round_trip("[tcp]\nprofile = \"ns-2.35\"").network;
    assert!(
        n.assumed.contains(
            &"receive window 20 segments: none is given; the path and its queue can hold more"
                .to_string()
        ),
        "{:?}",
        n.assumed
    );
}

#[test]
fn a_flow_names_what_bounds_it() {
    let n = of("\"i-tcp\"", "");
    let bounds = n.flows[0].bounds();
    assert_eq!(
        bounds.iter().map(|b| b.setting.as_str()).collect::<Vec<_>>(),
        ["i-tcp:buffer", "tcp.receive_window"]
    );
    assert_eq!(bounds[1].value, Size::Bytes(20 << 20));
}

/// Queue limits above any possible occupancy are no limit, and do not overflow.
#[test]
fn the_largest_queue_limit_is_no_overflow() {
    let huge = "[last_hop]\nrate = \"2 Mbps\"\nqueue = \"11666666666666666666666666 \
                packets\"\n[tcp]\nscheme = \"i-tcp\"";
    let n = round_trip(huge).network;
    assert!(n.assumed.iter().any(|line| line.starts_with("receive window")), "{:?}", n.assumed);
}
