//! The options of the last hop: `--rate`, `--down`, `--up`, `--rtt`, `--loss`, `--queue`, `--mtu`.
//! They replace `[last_hop]`, or change the radio link of a network, which must be resolved for it.

use std::borrow::Cow;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::network::{Network, Role};
use crate::options::set::{cannot, child, has_links, member, set_cell};
use crate::options::{LastHopOptions, Overrides};
use crate::parts::file::{File, check, schema};
use crate::resolve::defaults::fill;
use crate::resolve::resolve;
use crate::text::errors::{ErrorKind, ScenarioError};
use crate::text::files::Traces;
use crate::text::tree::{Item, Tree, table_mut};
use lasthop_core::units::{Duration, Quantity};

/// Applies the options of the last hop to `[last_hop]`, or to the radio link of a network.
pub fn last_hop<'a>(
    tree: &mut Tree<'a>,
    overrides: &'a Overrides,
    known: &mut Traces<'_>,
) -> Result<(), ScenarioError> {
    let options = &overrides.last_hop;
    if has_links(tree) {
        return radio_link(tree, overrides, known);
    }
    let mut given: Vec<(&str, &[&str], Item<'a>)> = Vec::new();
    if let Some(rate) = &options.rate {
        given.push((
            "rate",
            &["down", "up", "down_rate", "up_rate", "start"],
            tree.value("--rate", rate)?,
        ));
    }
    let traces: [(&str, &str, &Option<PathBuf>, &[&str]); 2] = [
        ("--down", "down", &options.down, &["down_rate"]),
        ("--up", "up", &options.up, &["up_rate"]),
    ];
    for (option, key, path, replaced) in traces {
        if let Some(path) = path {
            given.push((key, replaced, tree.text_value(option, file_name(option, path)?)));
        }
    }
    let texts: [(&str, &str, &Option<String>, &[&str]); 4] = [
        ("--rtt", "rtt", &options.rtt, &["delay"]),
        ("--loss", "loss", &options.loss, &[]),
        ("--queue", "queue", &options.queue, &[]),
        ("--mtu", "mtu", &options.mtu, &[]),
    ];
    for (option, key, text, replaced) in texts {
        if let Some(text) = text {
            given.push((key, replaced, tree.value(option, text)?));
        }
    }
    for (key, replaced, value) in given {
        let table = child(tree.root(), "last_hop", &value, || DeValue::Table(DeTable::new()));
        // Values that are not tables are refused when the file is read.
        let Some(table) = table_mut(table) else { continue };
        replaced.iter().for_each(|key| drop(table.remove(*key)));
        table.insert(Spanned::new(value.span(), Cow::Owned(key.to_string())), value);
    }
    Ok(())
}

fn file_name(option: &str, path: &std::path::Path) -> Result<String, ScenarioError> {
    let name = path.to_str().map(str::to_string);
    name.ok_or_else(|| {
        let words = format!("the name of the file is not valid UTF-8: {}", path.display());
        ScenarioError::of_option(option, cannot(words))
    })
}

/// The options for the radio link: the one with `radio = true`, or a scenario's only cell.
fn radio_link<'a>(
    tree: &mut Tree<'a>,
    overrides: &'a Overrides,
    traces: &mut Traces<'_>,
) -> Result<(), ScenarioError> {
    let options = &overrides.last_hop;
    let file: File = tree.read(schema)?;
    check(&file, tree)?;
    let has_radio = file.link.iter().any(|l| l.radio);
    let is_cell = options.down.is_none() && options.up.is_none() && options.mtu.is_none();
    if file.cell.len() == 1 && !has_radio && is_cell {
        set_only_cell(tree, options)?;
        if options.rtt.is_none() {
            return Ok(());
        }
        let network = resolve(&mut fill(file, overrides, tree, traces)?, tree, traces)?;
        return spread_rtt(tree, overrides, &network);
    }
    let radio = index_of_radio_link(&file, options)?;
    for (option, key, text) in [
        ("--rate", "rate", &options.rate),
        ("--loss", "loss", &options.loss),
        ("--queue", "queue", &options.queue),
        ("--mtu", "mtu", &options.mtu),
    ] {
        if let Some(text) = text {
            let value = tree.value(option, text)?;
            replace(tree, radio, key, value);
        }
    }
    if options.down.is_none() && options.up.is_none() && options.rtt.is_none() {
        return Ok(());
    }
    // With the options that are set by now.
    let file = tree.read(schema)?;
    let network = resolve(&mut fill(file, overrides, tree, traces)?, tree, traces)?;
    let down_is_forward =
        network.nodes[usize::from(network.links[2 * radio].to)].role == Role::Station;
    for (option, path, forward) in
        [("--down", &options.down, down_is_forward), ("--up", &options.up, !down_is_forward)]
    {
        if let Some(path) = path {
            let name = tree.text_value(option, file_name(option, path)?);
            set_trace(tree, radio, if forward { "forward" } else { "backward" }, name);
        }
    }
    spread_rtt(tree, overrides, &network)
}

/// Rate, loss and queue of the first cell.
fn set_only_cell<'a>(
    tree: &mut Tree<'a>,
    options: &'a LastHopOptions,
) -> Result<(), ScenarioError> {
    for (option, key, text) in [
        ("--rate", "data_rate", &options.rate),
        ("--loss", "loss", &options.loss),
        ("--queue", "queue", &options.queue),
    ] {
        if let Some(text) = text {
            let value = tree.value(option, text)?;
            let of_option = |kind| ScenarioError::of_option(option, kind);
            let cell = member(tree.root(), "cell", "1", &value).map_err(of_option)?;
            let table =
                table_mut(cell).ok_or_else(|| of_option(cannot("the cell is not a table")))?;
            set_cell(table, &[key], value).map_err(of_option)?;
        }
    }
    Ok(())
}

/// The only link with `radio = true`. Any link will do if no option is about the radio link.
fn index_of_radio_link(file: &File, options: &LastHopOptions) -> Result<usize, ScenarioError> {
    let given = [
        ("--down", options.down.is_some()),
        ("--up", options.up.is_some()),
        ("--rate", options.rate.is_some()),
        ("--loss", options.loss.is_some()),
        ("--queue", options.queue.is_some()),
        ("--mtu", options.mtu.is_some()),
    ];
    let mut radio = (0..file.link.len()).filter(|&i| file.link[i].radio);
    match (radio.next(), radio.next(), given.iter().find(|g| g.1)) {
        (Some(i), None, _) => Ok(i),
        (_, _, None) => Ok(0),
        (found, _, Some((option, _))) => {
            let found = if found.is_some() { "several" } else { "none" };
            let words = format!(
                "needs one link with radio = true, and the scenario has {found}; use --set \
                 link.NAME.… or --set cell.NAME.… instead"
            );
            Err(ScenarioError::of_option(option, cannot(words)))
        }
    }
}

/// Splits a round-trip time evenly over the links of the paths; cells have no delay.
fn spread_rtt<'a>(
    tree: &mut Tree<'a>,
    overrides: &Overrides,
    network: &Network,
) -> Result<(), ScenarioError> {
    let Some(rtt) = &overrides.last_hop.rtt else { return Ok(()) };
    let rtt =
        Duration::parse(rtt).map_err(|e| ScenarioError::of_option("--rtt", ErrorKind::Value(e)))?;
    let mut hops: Vec<Option<usize>> =
        vec![None; network.links.iter().filter(|l| l.cell.is_none()).count() / 2];
    for flow in &network.flows {
        let path = network.path(flow.from, flow.to);
        let path: Vec<usize> =
            path.into_iter().filter(|&l| network.links[l].cell.is_none()).collect();
        for link in &path {
            if hops[link / 2].replace(path.len()).is_some_and(|other| other != path.len()) {
                let message = "flows have paths of different lengths over one link, so no delays \
                               give all of them this time; use --set link.NAME.delay";
                return Err(ScenarioError::of_option("--rtt", cannot(message)));
            }
        }
    }
    if hops.iter().all(Option::is_none) {
        let words = "the flows cross no [[link]], and a cell has no delay";
        return Err(ScenarioError::of_option("--rtt", cannot(words)));
    }
    for (link, hops) in hops.into_iter().enumerate() {
        if let Some(hops) = hops {
            let value = tree.text_value("--rtt", Duration(rtt.0 / (2 * hops as u64)).text());
            replace(tree, link, "delay", value);
        }
    }
    Ok(())
}

/// Sets a key of a link for both directions and removes those of the single directions.
fn replace<'a>(tree: &mut Tree<'a>, link: usize, key: &str, value: Item<'a>) {
    let Some(table) = link_table(tree, link) else { return };
    for direction in ["forward", "backward"] {
        if let Some(table) = table.get_mut(direction).and_then(table_mut) {
            table.remove(key);
        }
    }
    table.insert(Spanned::new(value.span(), Cow::Owned(key.to_string())), value);
}

/// Makes a trace the rate of one direction of a link.
fn set_trace<'a>(tree: &mut Tree<'a>, link: usize, direction: &str, name: Item<'a>) {
    let Some(table) = link_table(tree, link) else { return };
    let span = name.span();
    let below = child(table, direction, &name, || DeValue::Table(DeTable::new()));
    let Some(below) = table_mut(below) else { return };
    let rate = DeTable::from_iter([(Spanned::new(span.clone(), Cow::Borrowed("trace")), name)]);
    below.insert(
        Spanned::new(span.clone(), Cow::Borrowed("rate")),
        Spanned::new(span, DeValue::Table(rate)),
    );
}

fn link_table<'t, 'a>(tree: &'t mut Tree<'a>, link: usize) -> Option<&'t mut DeTable<'a>> {
    match tree.root().get_mut("link")?.get_mut() {
        DeValue::Array(links) => links.get_mut(link).and_then(table_mut),
        _ => None,
    }
}
