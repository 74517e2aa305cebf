//! Roles of flows, lists of start times, and the options about flows.

use super::{load_with, loaded, mistake};
use crate::network::Network;
use crate::{FlowOptions, FlowRole, Loaded, Overrides};
use lasthop_core::units::Duration;
use lasthop_schemes::catalogue::SchemeChoice;

const HOP: &str = "duration = \"10 s\"\n[last_hop]\nrate = \"8 Mbps\"\nrtt = \"40 ms\"\n";

fn with_flows(flows: &str) -> String {
    format!("{HOP}{flows}")
}

fn overrides(flows: FlowOptions) -> Overrides {
    let scheme = Some(SchemeChoice::parse("bbr").unwrap());
    Overrides { scheme, flows, ..Overrides::default() }
}

fn options(text: &str, flows: FlowOptions) -> Loaded {
    load_with(text, &overrides(flows)).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(text: &str, flows: FlowOptions) -> String {
    load_with(text, &overrides(flows)).map(|_| ()).unwrap_err().to_string()
}

fn described(loaded: &Loaded) -> Vec<(&str, FlowRole, &str)> {
    let flows = loaded.network.flows.iter();
    flows.map(|f| (f.name.as_str(), f.role, f.scheme.label.as_str())).collect()
}

fn against(schemes: &[&str]) -> FlowOptions {
    let against = schemes.iter().map(ToString::to_string).collect();
    FlowOptions { against, ..FlowOptions::default() }
}

#[test]
fn without_a_role_tcp_without_a_scheme_is_a_candidate() {
    let text = with_flows(
        "[[flow]]\nname = \"a\"\n[[flow]]\nname = \"b\"\nscheme = \"reno\"\n[[flow]]\nname = \
         \"c\"\napp = { kind = \"cbr\", rate = \"1 Mbps\" }\n",
    );
    let roles: Vec<_> = loaded(&text).network.flows.iter().map(|f| f.role).collect();
    assert_eq!(roles, [FlowRole::Candidate, FlowRole::Background, FlowRole::Background]);
}

#[test]
fn the_compared_scheme_goes_to_candidates_only() {
    let text = with_flows(
        "[[flow]]\nname = \"a\"\nrole = \"candidate\"\n[[flow]]\nname = \"b\"\nrole = \
         \"competitor\"\n[tcp]\nscheme = \"westwood\"\n",
    );
    let found = options(&text, FlowOptions::default());
    let expected = [("a", FlowRole::Candidate, "bbr"), ("b", FlowRole::Competitor, "westwood")];
    assert_eq!(described(&found), expected);
    // The filled file has the same network.
    assert_eq!(described(&loaded(&found.filled)), expected);
    let all = text.replace("candidate", "probe");
    let message = refused(&all, FlowOptions::default());
    assert!(message.contains("no flow uses `bbr`") && message.contains("no flow is a candidate"));
}

#[test]
fn roles_that_do_not_fit_are_refused() {
    let fixed = with_flows("[[flow]]\nrole = \"candidate\"\nscheme = \"reno\"\n");
    assert!(mistake(&fixed).contains("leave `scheme` out"));
    let cbr = "[[flow]]\nrole = \"candidate\"\napp = { kind = \"cbr\", rate = \"1 Mbps\" }\n";
    assert!(mistake(&with_flows(cbr)).contains("datagrams have no scheme"));
    let unknown = mistake(&with_flows("[[flow]]\nrole = \"rival\"\n"));
    assert!(unknown.contains("competitor") && unknown.contains("background"), "{unknown}");
}

#[test]
fn several_flows_may_each_have_a_start() {
    let text = with_flows("[[flow]]\ncount = 3\nstart = [\"0 s\", \"2 s\", \"5 s\"]\n");
    let starts: Vec<_> = loaded(&text).network.flows.iter().map(|f| f.start).collect();
    assert_eq!(starts, [0, 2, 5].map(Duration::secs));
    let few = mistake(&text.replace("count = 3", "count = 2"));
    assert!(few.contains("2 start times, one for each flow, found 3"), "{few}");
    let both = mistake(&text.replace("count = 3", "count = 3\nstagger = \"1 s\""));
    assert!(both.contains("a list has the start of each flow"), "{both}");
    let late = mistake(&text.replace("5 s\"]", "50 s\"]"));
    assert!(late.contains("after the run ends"), "{late}");
}

#[test]
fn options_add_flows() {
    let two = FlowOptions {
        flows: Some(2),
        starts: vec!["0 s".into(), "3 s".into(), "4 s".into()],
        ..against(&["cubic", "reno", "cubic"])
    };
    let found = options(HOP, two.clone());
    assert_eq!(
        described(&found),
        [
            ("candidate 1", FlowRole::Candidate, "bbr"),
            ("candidate 2", FlowRole::Candidate, "bbr"),
            ("cubic 1", FlowRole::Competitor, "cubic"),
            ("cubic 2", FlowRole::Competitor, "cubic"),
            ("reno", FlowRole::Competitor, "reno"),
        ]
    );
    let starts: Vec<_> = found.network.flows.iter().map(|f| f.start).collect();
    assert_eq!(starts, [0, 3, 4, 0, 0].map(Duration::secs));
    assert_eq!(described(&loaded(&found.filled)), described(&found));
    let nodes = |l: &Loaded| (l.network.flows[0].from, l.network.flows[4].from);
    let up = options(HOP, FlowOptions { upload: true, ..two });
    assert_eq!(nodes(&up), {
        let f = &found.network.flows;
        (f[0].to, f[4].to)
    });
    let long = FlowOptions { duration: Some("90 s".into()), ..FlowOptions::default() };
    assert_eq!(options(HOP, long).network.duration, Duration::secs(90));
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let none = with_flows("[[flow]]\nname = \"b\"\nscheme = \"reno\"\n");
    assert!(refused(&none, against(&["cubic"])).contains("the scenario has no candidate"));
    let several = with_flows("[[flow]]\n[[flow]]\n");
    let flows = |n| FlowOptions { flows: Some(n), ..FlowOptions::default() };
    assert!(refused(&several, flows(2)).contains("flow.NAME.count=2"));
    assert!(refused(HOP, flows(0)).contains("--flows: expected at least 1"));
    assert!(refused(HOP, against(&["cubicc"])).contains("--against"));
    let starts = |list: &[&str]| {
        let starts = list.iter().map(ToString::to_string).collect();
        FlowOptions { starts, ..FlowOptions::default() }
    };
    let many = refused(HOP, starts(&["1 s", "2 s"]));
    assert!(many.contains("--start: 2 start times for 1 flow;"), "{many}");
    assert!(refused(HOP, starts(&["1 kB"])).contains("--start"));
    // Without room for a start of each.
    let many = refused("[[flow]]\ncount = 4000000000", starts(&["1 s"]));
    assert!(many.contains("more than 10000 flows"), "{many}");
    let zero = FlowOptions { duration: Some("0 s".into()), ..FlowOptions::default() };
    assert!(refused(HOP, zero).contains("--duration"));
}

#[test]
fn the_network_without_candidates_keeps_the_other_flows() {
    let text = with_flows(
        r#"
[[flow]]
[[flow]]
scheme = "reno"
role = "probe"
app = { kind = "session", pages = ["9 kB", "8 kB"], think = "1 s" }
[[flow]]
app = { kind = "session", pages = ["7 kB"] }
[[flow]]
scheme = "reno"
"#,
    );
    let network = loaded(&text).network;
    let solo = network.without_candidates().unwrap();
    let names = |n: &Network| n.flows.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&network).len(), 5);
    let kept =
        network.flows.iter().filter(|f| f.role != FlowRole::Candidate).map(|f| f.name.clone());
    assert_eq!(names(&solo), kept.collect::<Vec<_>>());
    assert_eq!(solo.sessions.len(), 1);
    assert_eq!(solo.sessions[0].pages, [0..1, 1..2]);
    assert!(loaded(HOP).network.without_candidates().is_none());
    assert!(solo.without_candidates().is_none());
}

#[test]
fn a_transfer_has_a_time_on_the_empty_path() {
    let text = with_flows(
        "[[flow]]\nsegment = \"1000 B\"\napp = { kind = \"transfer\", size = \"100 kB\" }\n",
    );
    let network = loaded(&text).network;
    // A round trip and a one-way delay, then 100 segments of 1040 bytes at 8 Mbit/s.
    let seconds = network.empty_path_s(&network.flows[0]).unwrap();
    assert!((seconds - (0.06 + 0.104)).abs() < 1e-9, "{seconds}");
    let bulk = loaded(HOP).network;
    assert_eq!(bulk.empty_path_s(&bulk.flows[0]), None);
}
