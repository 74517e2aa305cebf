//! Fills in the defaults of a scenario and lists what was assumed.

use std::path::Path as FilePath;

use super::roles::{default_ends, roles};
use crate::network::FlowRole;
use crate::options::Overrides;
use crate::parts::file::File;
use crate::parts::flow::FlowSpec;
use crate::parts::last_hop;
use crate::parts::node::NodeNames;
use crate::parts::queue::default_packets;
use crate::parts::tcp::{ReceiveWindow, check_timers, default_window, scheme_text};
use crate::parts::{cell, link};
use crate::text::errors::{ErrorKind, ScenarioError};
use crate::text::files::Traces;
use crate::text::tree::{Path, Tree};
use lasthop_core::units::{Duration, Size};
use lasthop_schemes::catalogue::{ProfileKeys, SchemeChoice};
use lasthop_tcp::profile::{Profile, ProfileName};

/// A scenario with all values filled in.
#[derive(Clone, Debug)]
pub struct Filled {
    /// The file, with links instead of `[last_hop]` and every default in its place.
    pub file: File,
    /// The scheme of all flows without a scheme.
    pub scheme: SchemeChoice,
    /// True if that scheme comes from the command line.
    pub scheme_is_option: bool,
    /// What was assumed, one sentence each.
    pub assumed: Vec<String>,
}

const DEFAULT_DURATION: Duration = Duration::secs(60);

/// Fills in a checked file. `overrides` has the scheme of the command line and `--upload`.
pub fn fill(
    mut file: File,
    overrides: &Overrides,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
) -> Result<Filled, ScenarioError> {
    let scheme = overrides.scheme.as_ref();
    let mut assumed = Vec::new();
    file.tcp.settle_receive_window();
    file.flow.iter_mut().for_each(FlowSpec::settle_receive_window);
    file.title.get_or_insert_with(|| title_of(tree.name()));
    file.duration.get_or_insert(DEFAULT_DURATION);
    expand_last_hop(&mut file, tree, traces, &mut assumed)?;
    let profile = file.tcp.keys.profile();
    fill_links(&mut file, profile.profile, &mut assumed);
    fill_ends(&mut file, tree, &mut assumed)?;
    overrides.flows.swap_ends(&mut file);
    file.node = roles(&file, tree)?;
    let uses_tcp_profile = file.flow.iter().any(|f| f.keys.profile.is_none());
    if file.tcp.keys.profile.is_none() && uses_tcp_profile {
        assumed.push(format!("profile {}: none is given", word(profile.profile)));
    }
    let scheme_is_option = scheme.is_some();
    let given = scheme.is_some()
        || file.tcp.scheme.is_some()
        || file.flow.iter().all(|f| f.scheme.is_some());
    let of_file = match &file.tcp.scheme {
        Some(text) => tree
            .scheme(text)
            .map_err(|e| tree.error(&Path::key("tcp").at("scheme"), ErrorKind::Scheme(e)))?,
        None => SchemeChoice::of_profile(&profile),
    };
    // The scheme that is compared replaces that of candidates only.
    for flow in file.flow.iter_mut().filter(|f| f.role() != FlowRole::Candidate) {
        if flow.scheme.is_none() && !flow.app.is_datagrams() {
            flow.scheme = Some(scheme_text(&of_file));
        }
    }
    let scheme = scheme.cloned().unwrap_or(of_file);
    if !given {
        assumed.push(format!("scheme {}: none is given", scheme.label));
    }
    fill_flows(&mut file, tree)?;
    if scheme_is_option {
        check_scheme_is_used(&file, &scheme, &profile)?;
    }
    check_timers(&profile, &Path::key("tcp"), tree)?;
    file.tcp.keys = ProfileKeys::of(&profile);
    file.tcp.receive_window.get_or_insert(ReceiveWindow::of(default_window(profile.profile)));
    file.tcp.scheme = Some(scheme_text(&scheme));
    Ok(Filled { file, scheme, scheme_is_option, assumed })
}

/// Links in place of `[last_hop]`, and of a file without links and cells.
fn expand_last_hop(
    file: &mut File,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
    assumed: &mut Vec<String>,
) -> Result<(), ScenarioError> {
    if !(file.link.is_empty() && file.cell.is_empty()) {
        let other = if file.link.is_empty() { "[[cell]]" } else { "[[link]]" };
        return if file.last_hop.is_none() {
            Ok(())
        } else {
            let message = format!("a scenario has either [last_hop] or {other}, not both");
            Err(tree.conflict(&Path::key("last_hop"), message))
        };
    }
    let short = file.last_hop.take().unwrap_or_default();
    file.link = last_hop::expand(short, tree, traces, assumed)?;
    Ok(())
}

/// Refuses a scheme of the command line that no flow uses, because it would have no effect. A
/// `[[flow]]` with `count = 0` counts as a user. If there are only datagrams, the default scheme
/// may be named.
fn check_scheme_is_used(
    file: &File,
    scheme: &SchemeChoice,
    profile: &Profile,
) -> Result<(), ScenarioError> {
    if file.flow.iter().any(|f| f.role() == FlowRole::Candidate) {
        return Ok(());
    }
    let holds_anyway =
        file.tcp.scheme.is_none() && scheme.label == SchemeChoice::of_profile(profile).label;
    if holds_anyway && file.flow.iter().all(|f| f.app.is_datagrams()) {
        return Ok(());
    }
    let name =
        |(i, f): (usize, &FlowSpec)| f.name.clone().unwrap_or_else(|| format!("flow {}", i + 1));
    let names: Vec<String> = file.flow.iter().enumerate().map(name).collect();
    let message = format!(
        "no flow uses `{}`: {} {} or {} datagrams, so no flow is a candidate; leave `scheme` out \
         of the [[flow]] that shall take it, or give it role = \"candidate\"",
        scheme.label,
        names.join(", "),
        if names.len() == 1 { "fixes its scheme" } else { "fix their scheme" },
        if names.len() == 1 { "sends" } else { "send" },
    );
    Err(ScenarioError::of_option("--scheme", ErrorKind::Option(message)))
}

fn title_of(name: &str) -> String {
    FilePath::new(name)
        .file_stem()
        .map_or_else(|| name.to_string(), |stem| stem.to_string_lossy().into_owned())
}

fn word(profile: ProfileName) -> String {
    serde_json::to_value(profile)
        .ok()
        .and_then(|v| v.as_str().map(str::to_string))
        .unwrap_or_default()
}

/// The ends of every flow; a scenario without flows gets one.
fn fill_ends(
    file: &mut File,
    tree: &Tree<'_>,
    assumed: &mut Vec<String>,
) -> Result<(), ScenarioError> {
    let ends = default_ends(file);
    let implied = file.flow.is_empty();
    if implied {
        file.flow.push(FlowSpec { count: 1, each: 1, ..FlowSpec::default() });
    }
    for (i, flow) in file.flow.iter_mut().enumerate() {
        for (end, default, key, role) in [
            (&mut flow.from, &ends.server, "from", "server"),
            (&mut flow.to, &ends.station, "to", "station"),
        ] {
            if end.is_some() {
                continue;
            }
            let unknown = || {
                let message = format!(
                    "there is no [[flow]] with `{key}`, and no node is known as the {role} (by \
                     its role or its name); write [[flow]] from = \"…\", to = \"…\""
                );
                if implied {
                    tree.whole(ErrorKind::Missing(message))
                } else {
                    tree.missing(
                        &Path::key("flow").at(i),
                        format!("the key `{key}` is missing, and no node is known as the {role}"),
                    )
                }
            };
            *end = Some(NodeNames::One(default.clone().ok_or_else(unknown)?));
        }
    }
    if implied {
        let name =
            |end: &Option<NodeNames>| end.as_ref().map(NodeNames::to_string).unwrap_or_default();
        assumed.push(format!(
            "one bulk flow from {} to {}: no flow is given",
            name(&file.flow[0].from),
            name(&file.flow[0].to)
        ));
    }
    Ok(())
}

fn fill_flows(file: &mut File, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let tcp = file.tcp.clone();
    for (i, flow) in file.flow.iter_mut().enumerate() {
        let profile = flow.keys.over(&tcp.keys).profile();
        flow.headers.get_or_insert(Size::Bytes(40));
        if flow.receive_window.is_none() && tcp.receive_window.is_none() {
            flow.receive_window = Some(ReceiveWindow::of(default_window(profile.profile)));
        }
        if let Some(text) = &flow.scheme {
            let at = Path::key("flow").at(i).at("scheme");
            flow.scheme = Some(scheme_text(
                &tree.scheme(text).map_err(|e| tree.error(&at, ErrorKind::Scheme(e)))?,
            ));
        }
        // A flow that changes one value gets all of them, because `[tcp]` will have all of them.
        if flow.keys != ProfileKeys::default() {
            check_timers(&profile, &Path::key("flow").at(i), tree)?;
            flow.keys = ProfileKeys::of(&profile);
        }
    }
    Ok(())
}

/// Fills in links and cells, and lists the queues that are assumed.
fn fill_links(file: &mut File, profile: ProfileName, assumed: &mut Vec<String>) {
    let packets = default_packets(profile);
    let mut without = Vec::new();
    for (i, link) in file.link.iter_mut().enumerate() {
        if link::fill(link, packets) {
            without.push(link.name.clone().unwrap_or_else(|| format!("link {}", i + 1)));
        }
    }
    for (i, cell) in file.cell.iter_mut().enumerate() {
        if cell::fill(cell, packets) {
            without.push(cell.label(i));
        }
    }
    if !without.is_empty() {
        let of = without.join(", ");
        assumed.push(format!(
            "queue of {of}: {packets} packets wait, the default of profile {}",
            word(profile)
        ));
    }
}
