//! Turns a filled scenario into a network: names into indices, files into traces; checks the
//! conditions between its parts.

pub mod bounds;
pub mod defaults;
mod endpoints;
pub mod queue_limits;
pub mod random_starts;
mod roles;
pub mod routes;
mod segment_sizes;

use std::collections::HashSet;

use crate::network::{App, Flow, Handover, Network, Node, Opener, Role};
use crate::parts::app::{self, AppSpec, client, poisson, session};
use crate::parts::cell;
use crate::parts::file::File;
use crate::parts::flow::FlowSpec;
use crate::parts::link;
use crate::parts::node::{HandoverSpec, HandoverState};
use crate::parts::random_starts::RandomStarts;
use crate::parts::tcp::check_windows;
use crate::text::errors::{ErrorKind, ScenarioError};
use crate::text::files::Traces;
use crate::text::tree::{Path, Tree};
use defaults::Filled;
use endpoints::{ends, ends_in_turn, no_such_node};
use lasthop_core::segment::NodeId;
use lasthop_core::units::{Duration, Rate, Size};
use lasthop_schemes::catalogue::SchemeChoice;
use routes::Arcs;

/// The network of a filled scenario, whose segment sizes are settled.
pub fn resolve(
    filled: &mut Filled,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
) -> Result<Network, ScenarioError> {
    let file = &filled.file;
    let mut network = Network {
        title: file.title.clone().unwrap_or_default(),
        // `defaults` has filled it in.
        duration: file.duration.unwrap_or(Duration::ZERO),
        measure_from: file.measure.from,
        random_starts: file.random_starts.map_or(Duration::ZERO, RandomStarts::range),
        nodes: file
            .node
            .iter()
            .map(|n| Node { name: n.name.clone(), role: n.role.unwrap_or(Role::Router) })
            .collect(),
        links: Vec::new(),
        cells: Vec::new(),
        next_hop: Vec::new(),
        flows: Vec::new(),
        sessions: Vec::new(),
        handovers: Vec::new(),
        assumed: filled.assumed.clone(),
    };
    if network.measure_from >= network.duration {
        let message = format!(
            "nothing is left to measure: it must be before the end at {}",
            network.duration
        );
        return Err(tree.wrong(&Path::key("measure").at("from"), message));
    }
    for (i, spec) in file.link.iter().enumerate() {
        link::add(&mut network, spec, i, tree, traces)?;
    }
    for (i, spec) in file.cell.iter().enumerate() {
        cell::add(&mut network, spec, i);
        read_losses(&mut network, i, tree, traces)?;
    }
    check_linked(file, tree)?;
    add_routes(&mut network, &file.flow);
    segment_sizes::settle(&mut network, filled, tree)?;
    let (filled, file) = (&*filled, &filled.file);
    for (i, flow) in file.flow.iter().enumerate() {
        add_flows(&mut network, flow, i, filled, tree, traces)?;
    }
    random_starts::check(&network, tree)?;
    for (i, spec) in file.handover.iter().enumerate() {
        add_handover(&mut network, spec, i, tree)?;
    }
    link::check_bursts(&network, tree)?;
    if let Some(name) = duplicate_name(&network) {
        return Err(tree.error(&Path::key("flow"), ErrorKind::DuplicateName { what: "flow", name }));
    }
    Ok(network)
}

/// Reads the traces of loss of the cell that was added last, the file's cell `i`.
fn read_losses(
    network: &mut Network,
    i: usize,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
) -> Result<(), ScenarioError> {
    let at = Path::key("cell").at(i).at("loss");
    let stations = network.cells.last_mut().map(|c| &mut c.stations);
    for station in stations.into_iter().flatten() {
        for loss in [&mut station.down, &mut station.up] {
            traces.read_loss(loss).map_err(|e| tree.error(&at, e))?;
        }
    }
    Ok(())
}

/// Each node is at a link or in a cell.
fn check_linked(file: &File, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let ends = file.link.iter().flat_map(|l| &l.between);
    let known: Vec<&String> = ends.chain(file.cell.iter().flat_map(|c| &c.members)).collect();
    let linked: HashSet<&String> = known.iter().copied().collect();
    let Some(i) = file.node.iter().position(|node| !linked.contains(&node.name)) else {
        return Ok(());
    };
    let name = file.node[i].name.clone();
    let kind = ErrorKind::NotLinked { name, known: known.into_iter().cloned().collect() };
    Err(tree.error(&Path::key("node").at(i), kind))
}

fn add_handover(
    network: &mut Network,
    spec: &HandoverSpec,
    i: usize,
    tree: &Tree<'_>,
) -> Result<(), ScenarioError> {
    let at = Path::key("handover").at(i);
    let Some(node) = network.node(&spec.node) else {
        return Err(tree.error(&at.at("node"), no_such_node(network, &spec.node)));
    };
    if spec.rate == Rate(0) {
        return Err(tree.wrong(&at.at("rate"), "a rate must be above 0"));
    }
    if network.flows.iter().any(|f| f.from == node || f.to == node) {
        let message = format!(
            "flows begin or end at `{}`; a handover is between nodes in the middle",
            spec.node
        );
        return Err(tree.conflict(&at.at("node"), message));
    }
    network.handovers.push(Handover {
        node,
        at: spec.at,
        rate: spec.rate,
        delay: spec.delay,
        moved: spec.state == HandoverState::Moved,
    });
    Ok(())
}

/// Adds the routes, and a link for each pair of members of a cell that a flow uses.
fn add_routes(network: &mut Network, flows: &[FlowSpec]) {
    let links = network.links.iter().map(|l| (l.from, l.to)).collect();
    let members = network.cells.iter().map(|c| c.stations.iter().map(|s| s.node).collect());
    let arcs = Arcs::new(network.nodes.len(), links, members.collect());
    let mut table = arcs.next_hops();
    if !network.cells.is_empty() {
        let ends = flows.iter().flat_map(|flow| ends_in_turn(network, flow)).collect();
        let used = arcs.used_pairs(&table, &ends);
        arcs.renumber(&mut table, &used);
        used.iter().filter_map(|arc| arcs.place(*arc)).for_each(|p| cell::add_pair(network, p));
    }
    network.next_hop = table;
}

/// A name that two flows have, or that a transfer of a Poisson process may get.
fn duplicate_name(network: &Network) -> Option<String> {
    let is_process = |f: &&Flow| matches!(f.app, App::Poisson { .. });
    let processes: Vec<&Flow> = network.flows.iter().filter(is_process).collect();
    let is_of = |process: &&Flow, name: &str| {
        let number = name.strip_prefix(&process.name).and_then(|rest| rest.strip_prefix(' '));
        number.is_some_and(|n| n.chars().all(|c| c.is_ascii_digit()))
    };
    let mut names = HashSet::new();
    let mut names = network.flows.iter().map(|f| &f.name).filter(|name| {
        !names.insert(*name) || processes.iter().any(|process| is_of(process, name))
    });
    names.next().cloned()
}

/// Checks that a flow's ends differ, that a route connects them, and that it starts before the run
/// ends.
fn check_way(
    network: &Network,
    flow: &Flow,
    at: &Path,
    tree: &Tree<'_>,
) -> Result<(), ScenarioError> {
    let name = |node: NodeId| &network.nodes[usize::from(node)].name;
    if flow.from == flow.to {
        return Err(tree.conflict(
            &at.at("to"),
            format!("a flow runs between two different nodes, found `{}` twice", name(flow.to)),
        ));
    }
    if network.route(flow.from, flow.to).is_none() {
        let (from, to) = (name(flow.from).clone(), name(flow.to).clone());
        return Err(tree.error(at, ErrorKind::NoRoute { from, to }));
    }
    if flow.start >= network.duration {
        return Err(tree.wrong(
            &at.at("start"),
            format!("the flow would start after the run ends at {}", network.duration),
        ));
    }
    Ok(())
}

/// Adds the flows of one `[[flow]]`.
fn add_flows(
    network: &mut Network,
    spec: &FlowSpec,
    i: usize,
    filled: &Filled,
    tree: &Tree<'_>,
    traces: &Traces<'_>,
) -> Result<(), ScenarioError> {
    let at = Path::key("flow").at(i);
    let (froms, tos) = (
        ends(network, &spec.from, &at.at("from"), tree)?,
        ends(network, &spec.to, &at.at("to"), tree)?,
    );
    let own = spec
        .scheme
        .as_ref()
        .map(|text| tree.scheme(text))
        .transpose()
        .map_err(|e| tree.error(&at.at("scheme"), ErrorKind::Scheme(e)))?;
    let mut flow = first_flow(network, spec, filled, own.as_ref());
    match &spec.app {
        AppSpec::Requests(spec) => {
            flow.app = client::requests(spec, flow.segment, &at, tree, traces)?;
        }
        AppSpec::Video(spec) => flow.app = client::video(spec, flow.segment),
        _ => {}
    }
    check_windows(&flow, &at, tree)?;
    check_opener(&flow, &at, tree)?;
    for n in 1..=spec.count {
        let turn = ((n - 1) / spec.each.max(1)) as usize;
        (flow.from, flow.to) = (froms[turn % froms.len()], tos[turn % tos.len()]);
        flow.start = spec.start.of(turn) + spec.stagger.unwrap_or_default() * turn as u64;
        check_way(network, &flow, &at, tree)?;
        check_role(network, &flow).map_err(|kind| match own {
            Some(_) => tree.error(&at.at("scheme"), kind),
            None if filled.scheme_is_option => ScenarioError::of_option("--scheme", kind),
            None => tree.error(&Path::key("tcp").at("scheme"), kind),
        })?;
        flow.name = match &spec.name {
            None => format!("flow {}", network.flows.len() + 1),
            Some(name) if spec.count == 1 => name.clone(),
            Some(name) => format!("{name} {n}"),
        };
        if let AppSpec::Poisson(spec) = &spec.app {
            flow.app = poisson::resolve(network, &flow, spec, &at, tree, traces)?;
        }
        match &spec.app {
            AppSpec::Session(spec) => session::add(network, &flow, spec, &at, tree)?,
            _ => network.flows.push(flow.clone()),
        }
    }
    Ok(())
}

/// The first flow of a `[[flow]]`, without its nodes and its name. `own`: the scheme that it names.
fn first_flow(
    network: &Network,
    spec: &FlowSpec,
    filled: &Filled,
    own: Option<&SchemeChoice>,
) -> Flow {
    let tcp = &filled.file.tcp;
    let keys = if spec.keys.profile.is_some() { &spec.keys } else { &tcp.keys };
    let segment = spec.segment.map_or(1, |s| s.bytes(1) as u32);
    Flow {
        name: String::new(),
        group: spec.name.clone().unwrap_or_else(|| format!("flow {}", network.flows.len() + 1)),
        role: spec.role(),
        from: 0,
        to: 0,
        app: app::resolve(&spec.app, segment),
        start: spec.start.first(),
        stop: spec.stop,
        segment,
        headers: spec.headers.map_or(40, |h| h.bytes(1) as u32),
        receive_window: spec
            .receive_window
            .or(tcp.receive_window)
            .and_then(|w| w.size)
            .unwrap_or(Size::Segments(20.0)),
        profile: keys.profile(),
        scheme: own.unwrap_or(&filled.scheme).clone(),
        loss: spec.loss.clone().unwrap_or_default(),
        ack_loss: spec.ack_loss.clone().or_else(|| spec.loss.clone()).unwrap_or_default(),
        reader: spec.reader.clone(),
        opens: spec.opens.unwrap_or_default(),
        misbehaviour: spec.misbehaviour,
        is_arrival: false,
        draw: None,
    }
}

/// Checks that the receiver can open the connection, if it is to.
fn check_opener(flow: &Flow, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    if flow.opens == Opener::Sender {
        return Ok(());
    }
    let at = at.at("opens");
    if !flow.profile.full_handshake {
        let message = "a receiver opens with a three-way handshake; set full_handshake = true";
        return Err(tree.conflict(&at, message));
    }
    if flow.scheme.scheme.relay().is_some() {
        let message = format!(
            "the scheme `{}` divides the connection at a relay, which the data's sender opens",
            flow.scheme.scheme.name()
        );
        return Err(tree.conflict(&at, message));
    }
    Ok(())
}

/// Checks that a scheme that works at a node with a role has such a node on the path.
fn check_role(network: &Network, flow: &Flow) -> Result<(), ErrorKind> {
    let Some(role) = flow.scheme.scheme.role().filter(|_| !flow.app.is_datagrams()) else {
        return Ok(());
    };
    let relay_roles = flow.scheme.scheme.relay_roles();
    if std::iter::once(&role)
        .chain(relay_roles)
        .any(|&role| network.with_role(flow, role).is_some())
    {
        return Ok(());
    }
    let name = |node: NodeId| network.nodes[usize::from(node)].name.clone();
    let word = serde_json::to_value(role).ok().and_then(|v| v.as_str().map(str::to_string));
    Err(ErrorKind::NoRole {
        scheme: flow.scheme.scheme.name().to_string(),
        role: word.unwrap_or_default(),
        of_radio: matches!(role, Role::BaseStation | Role::Station),
        from: name(flow.from),
        to: name(flow.to),
    })
}
