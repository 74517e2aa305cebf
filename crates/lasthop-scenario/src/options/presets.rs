//! Named traffic for `--traffic`: the flows behind each name.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeArray, DeValue};

use crate::network::FlowRole;
use crate::parts::flow::FlowSpec;
use crate::text::errors::{ErrorKind, ScenarioError};
use crate::text::tree::{Item, Tree};
use lasthop_core::diagnostics::hint;

/// Option of the command line that names presets.
const OPTION: &str = "--traffic";

/// Named traffic.
struct Preset {
    name: &'static str,
    /// A list of its `[[flow]]` tables.
    flows: &'static str,
    /// Names of those that run from the station to the server.
    uplink: &'static [&'static str],
}

/// All presets, in the order of the documentation, which also has their sources.
const PRESETS: [Preset; 9] = [
    Preset { name: "bulk", flows: r#"[{ name = "bulk", role = "candidate" }]"#, uplink: &[] },
    Preset {
        name: "upload",
        flows: r#"[{ name = "upload", role = "candidate" }]"#,
        uplink: &["upload"],
    },
    Preset {
        name: "rrul",
        flows: r#"[
            { name = "down", role = "candidate", count = 4 },
            { name = "up", role = "candidate", count = 4 },
            { name = "ping", role = "probe", app = "ping" },
        ]"#,
        uplink: &["up"],
    },
    Preset {
        name: "web",
        flows: r#"[{ name = "web", role = "probe", app = { kind = "session", think = "3 s",
            pages = [
            ["527 kB", "527 kB", "613 kB", "131 kB", "78 kB", "18 kB"],
            ["527 kB", "527 kB", "613 kB", "131 kB", "78 kB", "18 kB"],
            ["527 kB", "527 kB", "613 kB", "131 kB", "78 kB", "18 kB"],
            ["527 kB", "527 kB", "613 kB", "131 kB", "78 kB", "18 kB"],
            ["527 kB", "527 kB", "613 kB", "131 kB", "78 kB", "18 kB"],
            ["527 kB", "527 kB", "613 kB", "131 kB", "78 kB", "18 kB"],
            ["527 kB", "527 kB", "613 kB", "131 kB", "78 kB", "18 kB"],
            ["527 kB", "527 kB", "613 kB", "131 kB", "78 kB", "18 kB"],
            ["527 kB", "527 kB", "613 kB", "131 kB", "78 kB", "18 kB"],
            ["527 kB", "527 kB", "613 kB", "131 kB", "78 kB", "18 kB"],
        ] } }]"#,
        uplink: &[],
    },
    Preset {
        name: "short",
        flows: r#"[{ name = "short", role = "probe", app = { kind = "poisson", load = "20 %",
            size = { distribution = "pareto", mean = "50 kB", shape = 1.5 } } }]"#,
        uplink: &[],
    },
    Preset {
        name: "requests",
        flows: r#"[{ name = "requests", role = "probe",
            app = { kind = "requests", response = "20 kB", think = "500 ms" } }]"#,
        uplink: &[],
    },
    Preset {
        name: "video",
        flows: r#"[{ name = "video", role = "probe", app = { kind = "video" } }]"#,
        uplink: &[],
    },
    Preset {
        name: "call",
        flows: r#"[
            { name = "call down", role = "probe", app = { kind = "call" } },
            { name = "call up", role = "probe", app = { kind = "call" } },
        ]"#,
        uplink: &["call up"],
    },
    Preset {
        name: "ping",
        flows: r#"[{ name = "ping", role = "probe", app = "ping" }]"#,
        uplink: &[],
    },
];

/// The presets that a text names, such as "web+bulk".
fn named(text: &str) -> Result<Vec<&'static Preset>, ScenarioError> {
    let wrong = |message: String| ScenarioError::of_option(OPTION, ErrorKind::Option(message));
    let all = || PRESETS.iter().map(|p| p.name);
    let mut found: Vec<&Preset> = Vec::new();
    for name in text.split('+').map(str::trim) {
        let Some(preset) = PRESETS.iter().find(|p| p.name == name) else {
            let list = all().collect::<Vec<_>>().join(", ");
            return Err(wrong(format!(
                "there is no traffic `{name}`{}; there are {list}, joined by +, such as web+bulk",
                hint(name, all())
            )));
        };
        if found.iter().any(|p| p.name == name) {
            return Err(wrong(format!("`{name}` is named twice")));
        }
        found.push(preset);
    }
    Ok(found)
}

/// Replaces the flows of a file by those of the presets that a text names, such as "web+bulk".
///
/// # Errors
///
/// For an unknown name, with the list of all names.
pub fn apply(tree: &mut Tree<'_>, text: &str) -> Result<(), ScenarioError> {
    let mut flows = DeArray::new();
    let mut span = 0..0;
    for preset in named(text)? {
        let mut list = tree.value(OPTION, preset.flows)?;
        span = list.span();
        let DeValue::Array(tables) = list.get_mut() else { continue };
        for table in std::mem::replace(tables, DeArray::new()) {
            // The ping of two presets is one flow.
            if flows.iter().all(|known| name_of(known) != name_of(&table)) {
                flows.push(table);
            }
        }
    }
    let key = Spanned::new(span.clone(), Cow::Borrowed("flow"));
    tree.root().insert(key, Spanned::new(span, DeValue::Array(flows)));
    Ok(())
}

fn name_of<'t>(flow: &'t Item<'_>) -> Option<&'t str> {
    flow.get_ref().get("name")?.get_ref().as_str()
}

/// Without a candidate among the flows of the presets, those over TCP are candidates.
pub fn settle_roles(flows: &mut [FlowSpec]) {
    if flows.iter().all(|f| f.role() != FlowRole::Candidate) {
        let probes = flows.iter_mut().filter(|f| f.role == Some(FlowRole::Probe));
        for flow in probes.filter(|f| f.scheme.is_none() && !f.app.is_datagrams()) {
            flow.role = Some(FlowRole::Candidate);
        }
    }
}

/// True for a flow of the presets that runs from the station to the server.
pub fn is_uplink(text: &str, flow: &FlowSpec) -> bool {
    let name = flow.name.as_deref().unwrap_or_default();
    named(text).is_ok_and(|found| found.iter().any(|p| p.uplink.contains(&name)))
}

/// Names of all presets.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|p| p.name)
}
