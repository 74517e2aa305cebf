//! Named traffic: flows, roles and directions.

use super::{load_with, loaded};
use crate::network::App;
use crate::options::preset_names;
use crate::{FlowOptions, FlowRole, Loaded, Overrides, ScenarioError};
use lasthop_core::traffic::Adaptation;

const HOP: &str = "[last_hop]\nrate = \"10 Mbps\"\n";

fn with_traffic(text: &str, traffic: &str, set: &[(&str, &str)]) -> Result<Loaded, ScenarioError> {
    let flows = FlowOptions { traffic: Some(traffic.into()), ..FlowOptions::default() };
    let set = set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let overrides = Overrides { flows, set, ..Overrides::default() };
    load_with(text, &overrides)
}

/// Name, role, and whether it runs to the server, of each `[[flow]]`.
fn flows(traffic: &str) -> Vec<(String, FlowRole, bool)> {
    let network = with_traffic(HOP, traffic, &[]).unwrap().network;
    let mut found: Vec<(String, FlowRole, bool)> = Vec::new();
    for flow in &network.flows {
        let is_up = network.nodes[usize::from(flow.to)].name == "server";
        if found.last().is_none_or(|f| f.0 != flow.group) {
            found.push((flow.group.clone(), flow.role, is_up));
        }
    }
    found
}

#[test]
fn each_preset_has_flows() {
    for name in preset_names() {
        let found = with_traffic(HOP, name, &[]).unwrap();
        assert!(!found.network.flows.is_empty(), "{name}");
        assert_eq!(loaded(&found.filled).filled, found.filled, "{name}");
    }
}

#[test]
fn bulk_is_the_candidate_beside_others() {
    use FlowRole::{Candidate, Probe};
    let expected = [("web", Probe, false), ("bulk", Candidate, false)];
    assert_eq!(flows("web+bulk"), expected.map(|(n, r, up)| (n.to_string(), r, up)));
    assert_eq!(flows("web")[0].1, Candidate);
    let expected =
        [("video", Candidate, false), ("call down", Probe, false), ("call up", Probe, true)];
    assert_eq!(flows("video+call"), expected.map(|(n, r, up)| (n.to_string(), r, up)));
    // The ping of both is one flow.
    let expected = [("down", Candidate, false), ("up", Candidate, true), ("ping", Probe, false)];
    assert_eq!(flows("rrul+ping"), expected.map(|(n, r, up)| (n.to_string(), r, up)));
}

#[test]
fn presets_replace_the_flows_of_a_file_and_can_be_changed() {
    let text = format!("{HOP}[[flow]]\nname = \"own\"\n");
    let set = [("flow.video.app.adaptation", "rate"), ("flow.video.role", "background")];
    let network = with_traffic(&text, "video+upload", &set).unwrap().network;
    assert_eq!(network.flows.len(), 2);
    assert_eq!(network.flows[0].role, FlowRole::Background);
    let App::Video { video, .. } = &network.flows[0].app else { panic!() };
    assert_eq!(video.adaptation, Adaptation::Rate);
}

#[test]
fn unknown_names_are_refused_with_the_list() {
    let message = with_traffic(HOP, "web+bluk", &[]).unwrap_err().to_string();
    assert!(preset_names().all(|name| message.contains(name)), "{message}");
    assert!(message.contains("did you mean `bulk`?"), "{message}");
    let message = |traffic| with_traffic(HOP, traffic, &[]).unwrap_err().to_string();
    assert!(message("bulk+bulk").contains("named twice"));
    assert!(message("").contains("there is no traffic ``"));
    assert!(message("web+").contains("there is no traffic ``"));
}
