//! Poisson processes of transfers: keys, and the flows that arrive with a seed.

use super::*;
use crate::network::{App, Network};
use lasthop_core::units::Duration;

/// A Poisson process called `web` on a last hop of 10 Mbit/s for 1000 s.
fn network(app: &str, more: &str) -> Network {
    round_trip(&format!(
        "duration = \"1000 s\"\nlast_hop.rate = \"10 Mbps\"\n[[flow]]\nname = \"web\"\n\
         app = {{ kind = \"poisson\", {app} }}\n{more}"
    ))
}

/// Loads a text, and its filled form, which must give the same network.
fn round_trip(text: &str) -> Network {
    let first = loaded(text);
    let again = loaded(&first.filled);
    assert_eq!(again.filled, first.filled);
    assert_eq!(format!("{:?}", again.network.flows), format!("{:?}", first.network.flows));
    first.network
}

/// Start and size of all flows with a seed.
fn arrivals(network: &Network, seed: u64) -> Vec<(f64, u64)> {
    let found = network.for_seed(seed);
    assert!(found.flows.iter().all(|f| f.is_arrival && f.group == "web"));
    found
        .flows
        .iter()
        .map(|f| match f.app {
            App::Transfer { size } => (f.start.as_secs(), size),
            ref other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn arrivals_are_a_poisson_process() {
    let network = network("size = \"20 kB\", every = \"500 ms\"", "");
    assert!(network.is_random() && network.flows.len() == 1);
    let counts: Vec<f64> = (1..=200).map(|s| arrivals(&network, s).len() as f64).collect();
    let mean = counts.iter().sum::<f64>() / 200.0;
    let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 199.0;
    // 2000 are expected; the variance of a Poisson number is its mean.
    assert!((mean - 2000.0).abs() < 4.0 * (2000.0_f64 / 200.0).sqrt(), "{mean}");
    assert!((0.7..1.4).contains(&(variance / mean)), "{variance}");
    let times = arrivals(&network, 1);
    let gaps: Vec<f64> = times.windows(2).map(|t| t[1].0 - t[0].0).collect();
    let longer = gaps.iter().filter(|g| **g > 1.0).count() as f64 / gaps.len() as f64;
    assert!((longer - (-2.0_f64).exp()).abs() < 0.03, "{longer}");
}

#[test]
fn the_load_sets_the_time_between_arrivals() {
    let gap = |app: &str| match network(app, "").flows[0].app {
        App::Poisson { mean_gap, .. } => mean_gap,
        ref other => panic!("{other:?}"),
    };
    // 250 kB are 2 Mbit.
    assert_eq!(gap("size = \"250 kB\", load = \"2 Mbps\""), Duration::secs(1));
    assert_eq!(gap("size = \"250 kB\", load = \"50 %\""), Duration::millis(400));
    assert_eq!(gap("size = \"250 kB\", load = 0.5"), Duration::millis(400));
    let bytes = |seed| {
        let network = network("size = \"web-search\", load = \"4 Mbps\"", "");
        arrivals(&network, seed).iter().map(|a| a.1).sum::<u64>() as f64
    };
    let mean = (1..=40).map(bytes).sum::<f64>() / 40.0;
    assert!((mean * 8.0 / 1000.0 / 4e6 - 1.0).abs() < 0.05, "{mean}");
}

#[test]
fn seeds_and_names_select_the_arrivals_and_schemes_do_not() {
    let app = "size = { distribution = \"exponential\", mean = \"9 kB\" }, every = \"5 s\"";
    let found = network(app, "");
    assert_eq!(arrivals(&found, 3), arrivals(&network(app, "scheme = \"bbr\""), 3));
    assert_ne!(arrivals(&found, 3), arrivals(&found, 4));
    let two = network(app, "count = 2").for_seed(3).into_owned();
    assert!(two.flows.iter().any(|f| f.name == "web 1 2"));
    assert!(two.flows.iter().any(|f| f.name == "web 2 2"));
    // The network of a seed is final.
    assert_eq!(two.for_seed(9).flows.len(), two.flows.len());
}

#[test]
fn transfers_arrive_between_start_and_stop() {
    let app = "size = \"1 segment\", every = \"1 s\"";
    let network = network(app, "start = \"100 s\"\nstop = \"300 s\"");
    let times = arrivals(&network, 1);
    assert!(times.iter().all(|t| (100.0..300.0).contains(&t.0)), "{times:?}");
    assert!((150..260).contains(&times.len()));
    assert!(network.for_seed(1).flows.iter().all(|f| f.stop.is_none()));
}

#[test]
fn a_process_without_arrivals_has_a_transfer_that_never_starts() {
    let app = "size = \"9 kB\", every = \"11 d\"";
    let network = network(app, "stop = \"1 s\"");
    let times = arrivals(&network, 1);
    assert!(matches!(times[..], [(start, _)] if start >= 1000.0), "{times:?}");
}

/// Pages of a session behind a process still belong to the session's flows.
#[test]
fn sessions_follow_their_flows() {
    let network = round_trip(
        "[[flow]]\nname = \"web\"\napp = { kind = \"poisson\", size = \"9 kB\", every = \"1 s\" }\n\
         [[flow]]\nname = \"page\"\napp = { kind = \"session\", pages = [\"5 kB\", \"6 kB\"], \
         think = \"2 s\" }",
    );
    let found = network.for_seed(1);
    let names: Vec<&str> = found.sessions[0]
        .pages
        .iter()
        .flat_map(|page| &found.flows[page.clone()])
        .map(|f| f.name.as_str())
        .collect();
    assert_eq!(names, ["page 1", "page 2"]);
}

#[test]
fn sizes_come_from_a_file() {
    let network =
        network("size = { distribution = \"file\", file = \"lab/sizes\" }, every = \"1 s\"", "");
    let sizes: Vec<u64> = arrivals(&network, 1).iter().map(|a| a.1).collect();
    assert!(sizes.iter().all(|s| [700, 900].contains(s)));
    assert!(sizes.contains(&700) && sizes.contains(&900));
}
