//! Starts of flows and places in traces that are drawn by seed.

use super::*;
use crate::network::Network;
use crate::{NoStarts, RandomStarts};
use lasthop_core::units::Duration;

const DUEL: &str = "last_hop.rate = \"10 Mbps\"\n[[flow]]\nname = \"a\"\ncount = 2\n";
const TRACE: &str = "last_hop = { down = \"my.down\", rtt = \"40 ms\" }\n";

/// Loads a text for a host that compares runs.
#[track_caller]
fn compared(text: &str) -> Loaded {
    let overrides = Overrides { draw_starts: true, ..Overrides::default() };
    load_with(text, &overrides).unwrap_or_else(|e| panic!("{e}"))
}

/// The starts of all flows with a seed, in seconds.
fn starts(network: &Network, seed: u64) -> Vec<f64> {
    network.for_seed(seed).flows.iter().map(|f| f.start.as_secs()).collect()
}

/// The assumptions that this module adds.
fn assumed(loaded: &Loaded) -> Vec<&String> {
    loaded.network.assumed.iter().filter(|line| line.contains("random_starts")).collect()
}

#[test]
fn nothing_is_drawn_unless_the_host_asks() {
    for text in [DUEL, TRACE] {
        let found = loaded(text);
        assert!(!found.network.is_random() && assumed(&found).is_empty());
        assert_eq!(starts(&found.network, 1), starts(&found.network, 2));
    }
}

#[test]
fn flows_that_share_a_link_get_drawn_starts() {
    let found = compared(DUEL);
    assert!(found.network.is_random());
    assert_eq!(found.network.random_starts, Duration::secs(1));
    let [line] = assumed(&found)[..] else { panic!("{:?}", found.network.assumed) };
    assert!(line.starts_with("each flow starts up to 1 s after its start time, drawn by seed"));
    // The draws are uniform and independent.
    let all: Vec<Vec<f64>> = (1..=2000).map(|seed| starts(&found.network, seed)).collect();
    for flow in 0..2 {
        let mean = all.iter().map(|s| s[flow]).sum::<f64>() / 2000.0;
        assert!((mean - 0.5).abs() < 4.0 * (1.0_f64 / 12.0 / 2000.0).sqrt(), "{mean}");
        assert!(all.iter().all(|s| (0.0..1.0).contains(&s[flow])));
    }
    let first = all.iter().filter(|s| s[0] < s[1]).count();
    assert!((910..=1090).contains(&first), "the first flow starts first in {first} of 2000 runs");
    let both = all.iter().map(|s| (s[0] - 0.5) * (s[1] - 0.5)).sum::<f64>() / 2000.0;
    assert!(both.abs() < 4.0 / 12.0 / 2000.0_f64.sqrt(), "{both}");
}

#[test]
fn the_filled_file_has_the_draws() {
    for text in [DUEL, TRACE, &format!("{TRACE}[[flow]]\ncount = 3\n")] {
        let found = compared(text);
        let again = loaded(&found.filled);
        assert_eq!(again.filled, found.filled);
        assert!(again.network.is_random());
        for seed in 1..5 {
            assert_eq!(starts(&again.network, seed), starts(&found.network, seed));
        }
    }
}

#[test]
fn the_draws_depend_on_seed_and_name_only() {
    let found = compared(DUEL).network;
    let other =
        compared(&DUEL.replace("count = 2", "count = 2\n[[flow]]\nname = \"b\"\nscheme = \"bbr\""));
    assert_eq!(starts(&found, 3)[..], starts(&other.network, 3)[..2]);
    assert_ne!(starts(&found, 3), starts(&found, 4));
    let drawn = found.for_seed(3);
    assert_eq!(starts(&drawn, 3), starts(&found, 3), "a drawn network does not change");
}

#[test]
fn a_trace_without_a_start_begins_at_a_random_place() {
    let one = compared(TRACE);
    assert!(one.network.is_random());
    assert!(one.filled.contains("start = \"random\""), "{}", one.filled);
    assert_eq!(starts(&one.network, 1), [0.0], "a flow alone starts at its start");
    assert!(assumed(&one)[0].contains("a place in the trace drawn by seed"));
    let two = compared(&format!("{TRACE}[[flow]]\ncount = 2\n"));
    assert_eq!((assumed(&two).len(), starts(&two.network, 1).contains(&0.0)), (2, false));
    let link = "[[link]]\nbetween = [\"server\", \"phone\"]\nforward.rate = { trace = \"my.down\" \
                START }\nbackward.rate = \"1 Mbps\"\n";
    assert!(compared(&link.replace("START", "")).network.is_random());
    assert!(!compared(&link.replace("START", ", start = \"2 ms\"")).network.is_random());
    let given = "last_hop = { down = \"my.down\", start = \"2 ms\" }\n";
    assert!(!compared(given).network.is_random(), "a start that is given stays");
    let pair = compared(&format!("{given}[[flow]]\ncount = 2\n"));
    assert!(
        pair.network.is_random() && pair.filled.contains("start = \"2 ms\""),
        "{}",
        pair.filled
    );
}

#[test]
fn nothing_is_drawn_where_it_makes_no_difference() {
    let two_links = "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"2 Mbps\"\n[[link]]\nbetween = \
                     [\"c\", \"d\"]\nrate = \"2 Mbps\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n\
                     [[flow]]\nfrom = \"c\"\nto = \"d\"\n";
    let user = "last_hop.rate = \"10 Mbps\"\n[[flow]]\napp = { kind = \"session\", pages = \
                [[\"20 kB\", \"30 kB\"], \"20 kB\"], every = \"5 s\" }\n";
    for text in ["last_hop.rate = \"10 Mbps\"\n", two_links, user] {
        let found = compared(text);
        assert!(!found.network.is_random() && found.filled == loaded(text).filled, "{text}");
    }
}

#[test]
fn nothing_is_drawn_besides_a_random_process_or_against_the_file() {
    let claim = format!("{DUEL}[[claim]]\nid = \"x\"\n");
    let loss = format!("{DUEL}[[flow]]\nloss = \"1 %\"\n");
    let none = format!("random_starts = \"none\"\n{DUEL}");
    for text in [claim, loss, none] {
        let found = compared(&text);
        assert_eq!(found.network.random_starts, Duration::ZERO, "{text}");
        assert_eq!(found.filled, loaded(&text).filled);
        assert!(assumed(&found).is_empty());
    }
}

#[test]
fn the_key_gives_the_range() {
    let found = loaded(&format!("random_starts = \"3 s\"\n{TRACE}[[flow]]\ncount = 2\n"));
    assert_eq!(found.network.random_starts, Duration::secs(3));
    assert!(found.filled.contains("start = \"random\"") && assumed(&found).is_empty());
    assert!((1..20).any(|seed| starts(&found.network, seed)[0] > 1.5));
    let off =
        load_with(DUEL, &Overrides { draw_starts: true, ..sets(&[("random_starts", "none")]) });
    assert!(!off.unwrap().network.is_random());
    assert_eq!(RandomStarts::Named(NoStarts::None).range(), Duration::ZERO);
}

#[test]
fn the_default_range_is_ten_round_trips_within_bounds() {
    let range = |more: &str, rtt: &str| {
        compared(&format!("{more}\nlast_hop.rtt = \"{rtt}\"\n[[flow]]\ncount = 2\n"))
            .network
            .random_starts
    };
    assert_eq!(range("", "20 ms"), Duration::secs(1));
    assert_eq!(range("", "600 ms"), Duration::secs(6));
    assert_eq!(range("duration = \"5 s\"", "20 ms"), Duration::millis(500));
}

#[test]
fn a_session_moves_as_a_whole() {
    let text = "last_hop.rate = \"10 Mbps\"\n[[flow]]\nname = \"bulk\"\n[[flow]]\nname = \
                \"user\"\nstart = \"2 s\"\napp = { kind = \"session\", pages = [[\"20 kB\", \
                \"30 kB\"], \"20 kB\"], every = \"5 s\", abort = true }\n";
    let network = compared(text).network;
    let drawn = network.for_seed(1);
    let later = drawn.flows[1].start.as_secs() - 2.0;
    assert!((0.0..1.0).contains(&later) && later > 0.0);
    let starts: Vec<f64> = drawn.flows.iter().map(|f| f.start.as_secs() - later).collect();
    for (found, wanted) in starts[1..].iter().zip([2.0, 2.0, 7.0]) {
        assert!((found - wanted).abs() < 1e-9, "{starts:?}");
    }
    assert_eq!(drawn.flows[1].stop, Some(drawn.flows[3].start), "the next click ends the page");
}

#[test]
fn a_flow_starts_before_the_run_ends() {
    let text = format!("duration = \"5 s\"\nrandom_starts = \"5 s\"\n{DUEL}");
    let message = mistake(&text);
    assert!(message.contains("random_starts"), "{message}");
    assert!(message.contains("must be below 5 s: flow `a 1` starts at 0 s and ends at 5 s"));
    assert!(mistake(&format!("random_starts = \"soon\"\n{DUEL}")).contains("\"none\" is allowed"));
}
