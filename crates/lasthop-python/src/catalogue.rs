//! The catalogue as JSON.

use lasthop::schemes::catalogue::{AnyWindow, RecoverySlot, Scheme, all, settings};
use serde_json::{Map, Value, json};

/// All schemes in catalogue order.
pub fn json() -> Value {
    Value::Array(all().iter().filter_map(entry).collect())
}

fn entry(scheme: &Scheme) -> Option<Value> {
    let e = scheme.entry()?;
    Some(json!({
        "name": e.name,
        "family": e.family,
        "group": e.group,
        "summary": e.summary,
        "paper": e.paper,
        "slots": slots(scheme),
        "changes": e.changes,
        "settings": settings(scheme),
        "assumptions": e.assumptions,
        "evidence": [],
        "unsafe": e.unsafe_.is_some(),
        "unsafe_where": e.unsafe_,
        "simulation_only": e.simulation_only,
    }))
}

/// The components that the scheme provides: window rule, recovery, receiver, agent, relay.
fn slots(scheme: &Scheme) -> Map<String, Value> {
    let mut slots = Map::new();
    if let (Some(_), Some(recovery)) = (scheme.window(), scheme.recovery()) {
        let window = if matches!(scheme.window(), Some(AnyWindow::Reno(_))) {
            "reno"
        } else {
            scheme.name()
        };
        slots.insert("window".into(), window.into());
        let (RecoverySlot::Fixed(r)
        | RecoverySlot::Paper(r)
        | RecoverySlot::ByProfile { other: r, .. }) = recovery;
        slots.insert("recovery".into(), r.to_string().into());
    }
    if scheme.receiver().is_some() {
        slots.insert("receiver".into(), scheme.name().into());
    }
    if scheme.agent().is_some() {
        slots.insert("agent".into(), scheme.name().into());
    }
    if scheme.relay().is_some() {
        slots.insert("relay".into(), scheme.name().into());
    }
    slots
}
