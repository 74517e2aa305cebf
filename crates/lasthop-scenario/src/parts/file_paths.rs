//! The files that a scenario names: traces, sizes of transfers, schemes in Python. Their paths are
//! relative to the folder of the scenario.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path as FilePath;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::text::tree::{Item, Tree, table_mut};

/// Makes the paths of trace files and of schemes in Python in the file relative to `folder`.
/// Paths of the command line do not change.
pub fn join_paths(tree: &mut Tree<'_>, folder: &FilePath) {
    let file = tree.file();
    join_schemes(tree, folder, &file);
    let last_hop = tree.root().get_mut("last_hop").and_then(|i| table_mut(i));
    if let Some(table) = last_hop {
        join(table, &["down", "up"], folder, &file);
        join_traces(table, folder, &file);
    }
    if let Some(DeValue::Array(cells)) = tree.root().get_mut("cell").map(|i| i.get_mut()) {
        for cell in cells.iter_mut().filter_map(table_mut) {
            join_directions(cell, &["down", "up"], folder, &file);
            let Some(DeValue::Array(stations)) = cell.get_mut("station").map(|i| i.get_mut())
            else {
                continue;
            };
            for station in stations.iter_mut().filter_map(table_mut) {
                join_directions(station, &["down", "up"], folder, &file);
            }
        }
    }
    if let Some(DeValue::Array(flows)) = tree.root().get_mut("flow").map(|i| i.get_mut()) {
        for flow in flows.iter_mut().filter_map(table_mut) {
            let Some(app) = flow.get_mut("app").and_then(|i| table_mut(i)) else { continue };
            for key in ["size", "response"] {
                if let Some(sizes) = app.get_mut(key).and_then(|i| table_mut(i)) {
                    join(sizes, &["file"], folder, &file);
                }
            }
        }
    }
    let Some(DeValue::Array(links)) = tree.root().get_mut("link").map(|i| i.get_mut()) else {
        return;
    };
    for link in links.iter_mut().filter_map(table_mut) {
        join_directions(link, &["forward", "backward"], folder, &file);
    }
}

/// Adds the word `model = "trace"` to the tables of losses that have a trace and no model.
pub fn name_loss_traces(tree: &mut Tree<'_>) {
    name_in(tree.root());
}

fn join_schemes(tree: &mut Tree<'_>, folder: &FilePath, file: &Range<usize>) {
    let root = tree.root();
    for (table, list) in [("experiment", "schemes"), ("", "flow")] {
        let holder = match table {
            "" => Some(&mut *root),
            name => root.get_mut(name).and_then(table_mut),
        };
        let items = holder.and_then(|t| t.get_mut(list)).map(Spanned::get_mut);
        let Some(DeValue::Array(items)) = items else { continue };
        for item in items.iter_mut() {
            let scheme = match list {
                "flow" => table_mut(item).and_then(|flow| flow.get_mut("scheme")),
                _ => Some(item),
            };
            if let Some(scheme) = scheme {
                join_scheme(scheme, folder, file);
            }
        }
    }
    if let Some(tcp) = root.get_mut("tcp").and_then(table_mut)
        && let Some(scheme) = tcp.get_mut("scheme")
    {
        join_scheme(scheme, folder, file);
    }
}

fn join(table: &mut DeTable<'_>, keys: &[&str], folder: &FilePath, file: &Range<usize>) {
    for key in keys {
        let Some(item) = table.get_mut(*key) else { continue };
        let in_file = file.contains(&item.span().start);
        if let (true, DeValue::String(path)) = (in_file, item.get_mut()) {
            *path = Cow::Owned(folder.join(path.as_ref()).to_string_lossy().into_owned());
        }
    }
}

fn name_in(table: &mut DeTable<'_>) {
    for (key, below) in table.iter_mut() {
        name_below(below);
        let is_loss = ["loss", "ack_loss"].contains(&key.get_ref().as_ref());
        let Some(loss) = table_mut(below).filter(|_| is_loss) else { continue };
        let Some(span) = loss.get("trace").map(|i| i.span()) else { continue };
        if !loss.contains_key("model") {
            let model = Spanned::new(span.clone(), DeValue::String("trace".into()));
            loss.insert(Spanned::new(span, Cow::Borrowed("model")), model);
        }
    }
}

fn name_below(item: &mut Item<'_>) {
    match item.get_mut() {
        DeValue::Table(table) => name_in(table),
        DeValue::Array(items) => items.iter_mut().for_each(name_below),
        _ => {}
    }
}

/// Makes the traces of a link or station, and of its directions, relative to `folder`.
fn join_directions(
    table: &mut DeTable<'_>,
    directions: &[&str],
    folder: &FilePath,
    file: &Range<usize>,
) {
    join_traces(table, folder, file);
    for direction in directions {
        if let Some(below) = table.get_mut(*direction).and_then(table_mut) {
            join_traces(below, folder, file);
        }
    }
}

/// Makes the traces of rate, delay and loss relative to `folder`.
fn join_traces(table: &mut DeTable<'_>, folder: &FilePath, file: &Range<usize>) {
    for key in ["rate", "down_rate", "up_rate", "delay", "loss"] {
        if let Some(below) = table.get_mut(key).and_then(table_mut) {
            join(below, &["trace"], folder, file);
        }
    }
}

/// Makes the file of a scheme in Python relative to `folder`.
fn join_scheme(item: &mut Item<'_>, folder: &FilePath, file: &Range<usize>) {
    let name = match item.get_ref() {
        DeValue::Table(_) => table_mut(item).and_then(|t| t.get_mut("name")),
        _ => Some(item),
    };
    let Some(name) = name.filter(|n| file.contains(&n.span().start)) else { return };
    if let DeValue::String(text) = name.get_mut()
        && text.contains(".py:")
    {
        *text = Cow::Owned(folder.join(text.as_ref()).to_string_lossy().into_owned());
    }
}
