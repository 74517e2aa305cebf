//! Turns a filled scenario into a network: names into indices, files into traces; checks the
//! conditions between its parts.

use std::collections::HashSet;

use crate::apps::{self, AppSpec};
use crate::arrivals;
use crate::cells;
use crate::check::MAX_WINDOW;
use crate::clients;
use crate::defaults::{Filled, Traces};
use crate::endpoints::NodeNames;
use crate::errors::{ErrorKind, ScenarioError};
use crate::file::{File, FlowSpec, HandoverSpec, HandoverState, LinkSpec, PathSpec};
use crate::network::{App, Flow, Handover, Link, Network, Node, Role};
use crate::random_starts::{self, RandomStarts};
use crate::routes::Arcs;
use crate::segment_sizes;
use crate::sessions;
use crate::tree::{Path, Tree};
use lasthop_channel::air::config::RateConfig;
use lasthop_core::segment::NodeId;
use lasthop_core::units::{Duration, Quantity, Rate, Size};
use lasthop_schemes::catalogue::SchemeChoice;
use lasthop_tcp::profile::InitialSsthresh;

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
    for (i, link) in file.link.iter().enumerate() {
        add_link(&mut network, link, i, tree, traces)?;
    }
    for (i, cell) in file.cell.iter().enumerate() {
        cells::add(&mut network, cell, i);
        let at = Path::key("cell").at(i).at("loss");
        let stations = network.cells.last_mut().map(|c| &mut c.stations);
        for station in stations.into_iter().flatten() {
            for loss in [&mut station.down, &mut station.up] {
                traces.read_loss(loss).map_err(|e| tree.error(&at, e))?;
            }
        }
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
    check_bursts(&network, tree)?;
    if let Some(name) = duplicate_name(&network) {
        return Err(tree.error(&Path::key("flow"), ErrorKind::DuplicateName { what: "flow", name }));
    }
    Ok(network)
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
        used.iter().filter_map(|arc| arcs.place(*arc)).for_each(|p| cells::add_pair(network, p));
    }
    network.next_hop = table;
}

/// The ends of the flows of a `[[flow]]`; none if a node is unknown, which is reported later.
pub(crate) fn ends_in_turn(network: &Network, spec: &FlowSpec) -> Vec<(NodeId, NodeId)> {
    let nodes = |names: &Option<NodeNames>| -> Option<Vec<NodeId>> {
        names.iter().flat_map(NodeNames::as_slice).map(|name| network.node(name)).collect()
    };
    let (Some(froms), Some(tos)) = (nodes(&spec.from), nodes(&spec.to)) else { return Vec::new() };
    if froms.is_empty() || tos.is_empty() {
        return Vec::new();
    }
    let turns = u64::from(spec.count).div_ceil(u64::from(spec.each.max(1))) as usize;
    (0..turns).map(|turn| (froms[turn % froms.len()], tos[turn % tos.len()])).collect()
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

/// Adds both directions of a link.
fn add_link(
    network: &mut Network,
    spec: &LinkSpec,
    i: usize,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
) -> Result<(), ScenarioError> {
    let name = spec.name.clone().unwrap_or_else(|| format!("link {}", i + 1));
    let at = Path::key("link").at(i);
    // The list of nodes contains every node that a link names.
    let [from, to] =
        [&spec.between[0], &spec.between[1]].map(|n| network.node(n).unwrap_or_default());
    for (own, word, from, to) in
        [(&spec.forward, "forward", from, to), (&spec.backward, "backward", to, from)]
    {
        let PathSpec {
            rate,
            delay,
            queue,
            loss,
            overhead,
            mtu,
            outage,
            arq,
            shaper,
            policer,
            duplicate,
            corrupt,
        } = own.over(&spec.both);
        let (Some(rate), Some(delay)) = (rate, delay) else {
            return Err(tree.missing(&at, "the link has no rate; write rate = \"1 Mbps\""));
        };
        let (mut delay, mut loss) = (delay, loss.unwrap_or_default());
        let place = |is_own: bool| match is_own {
            true => at.at(word),
            false if tree.get(&at).is_none() => Path::key("last_hop"),
            false => at.clone(),
        };
        traces
            .read_delay(&mut delay)
            .map_err(|e| tree.error(&place(own.delay.is_some()).at("delay").at("trace"), e))?;
        traces
            .read_loss(&mut loss)
            .map_err(|e| tree.error(&place(own.loss.is_some()).at("loss").at("trace"), e))?;
        let trace = match &rate {
            RateConfig::Trace { trace, .. } => {
                let here = place(own.rate.is_some());
                Some(traces.get(trace).map_err(|e| tree.error(&here.at("rate").at("trace"), e))?)
            }
            _ => None,
        };
        network.links.push(Link {
            name: name.clone(),
            from,
            to,
            radio: spec.radio,
            overhead: overhead.map_or(0, |o| o.bytes(1) as u32),
            mtu: mtu.map(|m| m.bytes(1) as u32),
            queue: queue.map(|q| q.config).unwrap_or_default(),
            rate,
            trace,
            delay,
            loss,
            outages: outage.unwrap_or_default(),
            arq,
            shaper,
            policer,
            duplicate,
            corrupt,
            cell: None,
        });
    }
    Ok(())
}

/// Checks that token buckets hold the packets of the flows that cross them: larger ones would never
/// pass.
fn check_bursts(network: &Network, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    for flow in &network.flows {
        let back = network.path(flow.to, flow.from);
        let back = back.into_iter().map(|l| (l, flow.headers));
        let there = network.path(flow.from, flow.to).into_iter();
        for (l, packet) in there.map(|l| (l, flow.segment + flow.headers)).chain(back) {
            let link = &network.links[l];
            for (key, bucket) in [("shaper", link.shaper), ("policer", link.policer)] {
                let frame = u64::from(packet + link.overhead);
                if let Some(bucket) = bucket.filter(|b| b.burst_bytes() < frame) {
                    let message = format!(
                        "the burst of {} B holds no packet of `{}`, which has {frame} B on this \
                         link",
                        bucket.burst_bytes(),
                        flow.name
                    );
                    return Err(tree.wrong(&bucket_path(tree, l, key), message));
                }
            }
        }
    }
    Ok(())
}

/// Where the file has a token bucket of the one-way link `l`.
fn bucket_path(tree: &Tree<'_>, l: usize, key: &str) -> Path {
    let link = Path::key("link").at(l / 2);
    let direction = link.at(if l.is_multiple_of(2) { "forward" } else { "backward" });
    let places = [direction, link, Path::key("last_hop")].map(|at| at.at(key));
    let given = places.iter().find(|at| tree.get(at).is_some());
    given.unwrap_or(&places[1]).at("burst")
}

/// The nodes that the flows of a `[[flow]]` use in turn.
fn ends(
    network: &Network,
    names: &Option<NodeNames>,
    at: &Path,
    tree: &Tree<'_>,
) -> Result<Vec<NodeId>, ScenarioError> {
    let node = |name: &String| {
        network.node(name).ok_or_else(|| tree.error(at, no_such_node(network, name)))
    };
    names.iter().flat_map(NodeNames::as_slice).map(node).collect()
}

fn no_such_node(network: &Network, name: &str) -> ErrorKind {
    let known = network.nodes.iter().map(|n| n.name.clone()).collect();
    ErrorKind::NoSuchNode { name: name.to_string(), known }
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
    if let Some(app) = clients::resolve(&spec.app, flow.segment, &at, tree, traces)? {
        flow.app = app;
    }
    check_windows(&flow, &at, tree)?;
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
        if let Some(app) = arrivals::resolve(network, &flow, &spec.app, &at, tree, traces)? {
            flow.app = app;
        }
        match &spec.app {
            app @ AppSpec::Session { .. } => sessions::add(network, &flow, app, &at, tree)?,
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
        app: apps::resolve(&spec.app, segment),
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
        is_arrival: false,
        draw: None,
    }
}

/// Checks that windows are above zero and fit TCP, also those given in segments.
fn check_windows(flow: &Flow, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let p = &flow.profile;
    let initial_ssthresh = match p.initial_ssthresh {
        InitialSsthresh::Size(size) => size,
        InitialSsthresh::Named(_) => Size::Segments(1.0),
    };
    let windows = [
        ("receive_window", flow.receive_window),
        ("initial_window", p.initial_window),
        ("syn_loss_window", p.syn_loss_window),
        ("syn_losses_window", p.syn_losses_window),
        ("loss_window", p.loss_window),
        ("restart_window", p.restart_window),
        ("initial_ssthresh", initial_ssthresh),
    ];
    for (key, size) in windows {
        let own = at.at(key);
        let place = if tree.get(&own).is_some() { own } else { Path::key("tcp").at(key) };
        match size.bytes(flow.segment) {
            0 => {
                return Err(tree.wrong(
                    &place,
                    format!("a window must be above 0, found \"{}\"", size.text()),
                ));
            }
            n if n > MAX_WINDOW => {
                return Err(tree.wrong(
                    &place,
                    format!("a window has at most 1 GiB (RFC 7323), found \"{}\"", size.text()),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that a scheme that works at a node with a role has such a node on the path.
fn check_role(network: &Network, flow: &Flow) -> Result<(), ErrorKind> {
    let Some(role) = flow.scheme.scheme.role().filter(|_| flow.app.datagrams().is_none()) else {
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
