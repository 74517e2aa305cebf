//! Roles of nodes that the file does not give.

use crate::network::Role;
use crate::parts::file::{File, node_names};
use crate::parts::node::NodeSpec;
use crate::text::errors::ScenarioError;
use crate::text::tree::{Path, Tree};

/// The ends of a flow that does not name them: server and station.
#[derive(Clone, Debug, Default)]
pub struct DefaultEnds {
    /// The sender of data.
    pub server: Option<String>,
    /// The receiver of data.
    pub station: Option<String>,
}

/// Finds server and station: by role, by name, by position in the graph.
pub fn default_ends(file: &File) -> DefaultEnds {
    let names = node_names(file);
    let by_role = |role| {
        let mut nodes = file.node.iter().filter(|n| n.role == Some(role));
        nodes.next().filter(|_| nodes.next().is_none()).map(|n| n.name.clone())
    };
    let by_name = |name: &str| names.iter().find(|n| *n == name).cloned();
    let mut radio = file.link.iter().filter(|l| l.radio);
    let station = by_role(Role::Station).or_else(|| by_name("phone")).or_else(|| {
        match (radio.next(), radio.next()) {
            (Some(link), None) if file.cell.is_empty() => {
                Some(link.between[mobile_end(file, &link.between)].clone())
            }
            (None, None) => only_station(file),
            _ => None,
        }
    });
    let server = by_role(Role::Server).or_else(|| by_name("server")).or_else(|| {
        let mut leaves =
            names.iter().filter(|n| degree(file, n) == 1 && Some(*n) != station.as_ref());
        leaves.next().filter(|_| leaves.next().is_none()).cloned()
    });
    DefaultEnds { server, station }
}

/// The station of the only cell, if it has exactly one.
fn only_station(file: &File) -> Option<String> {
    match (&file.cell[..], file.cell.first()?.members.get(1)) {
        ([cell], Some(station)) if cell.members.len() == 2 && cell.access_point().is_some() => {
            Some(station.clone())
        }
        _ => None,
    }
}

fn degree(file: &File, node: &str) -> usize {
    file.link
        .iter()
        .flat_map(|l| &l.between)
        .chain(file.cell.iter().flat_map(|c| &c.members))
        .filter(|n| *n == node)
        .count()
}

/// Which end of the radio link is the mobile one: the end of more flows, then the one with fewer
/// links, then the second.
fn mobile_end(file: &File, between: &[String]) -> usize {
    let flows = |node: &str| {
        file.flow
            .iter()
            .filter(|f| [&f.from, &f.to].into_iter().flatten().any(|end| end.has(node)))
            .count()
    };
    let receives = |node: &str| {
        file.flow.iter().filter(|f| f.to.as_ref().is_some_and(|end| end.has(node))).count()
    };
    let rank = |i: usize| {
        (flows(&between[i]), usize::MAX - degree(file, &between[i]), receives(&between[i]))
    };
    usize::from(rank(1) >= rank(0))
}

/// All nodes with their roles. The ends of flows must be filled in.
pub fn roles(file: &File, tree: &Tree<'_>) -> Result<Vec<NodeSpec>, ScenarioError> {
    let names = node_names(file);
    let mut roles: Vec<Option<Role>> = names
        .iter()
        .map(|name| file.node.iter().find(|n| n.name == *name).and_then(|n| n.role))
        .collect();
    let index = |name: &str| names.iter().position(|n| n == name);
    let open: Vec<usize> = (0..file.link.len())
        .filter(|&i| {
            file.link[i].radio
                && file.link[i].between.iter().any(|n| index(n).is_some_and(|n| roles[n].is_none()))
        })
        .collect();
    if let [first, second, ..] = open[..] {
        let name =
            |i: usize| file.link[i].name.clone().unwrap_or_else(|| format!("link {}", i + 1));
        let message = format!(
            "two links are marked radio = true ({} and {}), so it is not clear which node is the \
             base station; give the ends of both a role, such as [[node]] name = \"{}\", role = \
             \"base-station\"",
            name(first),
            name(second),
            file.link[first].between[0]
        );
        return Err(tree.conflict(&Path::key("link").at(second).at("radio"), message));
    }
    for i in open {
        let between = &file.link[i].between;
        let [Some(a), Some(b)] = [index(&between[0]), index(&between[1])] else { continue };
        let mobile = match (roles[a], roles[b]) {
            (Some(Role::Station), _) => 0,
            (_, Some(Role::Station)) => 1,
            (Some(_), None) => 1,
            (None, Some(_)) => 0,
            _ => mobile_end(file, between),
        };
        let (mobile, fixed) = if mobile == 0 { (a, b) } else { (b, a) };
        roles[mobile].get_or_insert(Role::Station);
        roles[fixed].get_or_insert(Role::BaseStation);
    }
    for cell in file.cell.iter().filter(|c| c.access_point().is_some()) {
        for (i, member) in cell.members.iter().enumerate() {
            let role = if i == 0 { Role::BaseStation } else { Role::Station };
            if let Some(n) = index(member) {
                roles[n].get_or_insert(role);
            }
        }
    }
    let is_end = |name: &String| {
        file.flow.iter().any(|f| [&f.from, &f.to].into_iter().flatten().any(|end| end.has(name)))
    };
    let nodes = names.iter().zip(roles).map(|(name, role)| {
        let rest = if is_end(name) { Role::Server } else { Role::Router };
        NodeSpec { name: name.clone(), role: Some(role.unwrap_or(rest)) }
    });
    Ok(nodes.collect())
}
