//! Changes of a scenario by the command line: `--set KEY=VALUE` and the options of the last hop.

use std::borrow::Cow;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::check::check;
use crate::defaults::{Traces, fill};
use crate::errors::{ErrorKind, ScenarioError};
use crate::file::File;
use crate::flow_roles::FlowOptions;
use crate::keys;
use crate::load::schema;
use crate::network::{Network, Role};
use crate::presets;
use crate::resolve::resolve;
use crate::tree::{Item, Path, Tree, table_mut};
use lasthop_core::units::{Duration, Quantity};
use lasthop_schemes::catalogue::{SchemeChoice, split_short};

/// Options of the command line that change a scenario.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--set KEY=VALUE`, in order. KEY is a dotted path; links, cells, flows and nodes by name or
    /// by number from 1.
    pub set: Vec<(String, String)>,
    /// `--scheme`: replaces the scheme of `[tcp]`, but not that of a flow.
    pub scheme: Option<SchemeChoice>,
    /// `--down`, `--up`, `--rtt`, `--loss`, `--rate`, `--queue`, `--mtu`.
    pub last_hop: LastHopOptions,
    /// `--traffic`, `--against`, `--flows`, `--start`, `--upload`, `--duration`.
    pub flows: FlowOptions,
    /// The starts of flows and the places in traces are drawn by seed if nothing else is random
    /// and the file does not say `random_starts`: for hosts that compare runs.
    pub draw_starts: bool,
}

/// The last hop on the command line: it replaces a file, or changes the last hop or radio link of
/// the file.
#[derive(Clone, Debug, Default)]
pub struct LastHopOptions {
    /// Trace of the downlink, relative to the current folder.
    pub down: Option<PathBuf>,
    /// Trace of the uplink, relative to the current folder.
    pub up: Option<PathBuf>,
    /// Round-trip time.
    pub rtt: Option<String>,
    /// Loss, per direction.
    pub loss: Option<String>,
    /// Rate, both directions.
    pub rate: Option<String>,
    /// Queues at both ends.
    pub queue: Option<String>,
    /// Largest IP packet, both directions.
    pub mtu: Option<String>,
}

impl LastHopOptions {
    /// True if no option is given.
    pub fn is_empty(&self) -> bool {
        [&self.rtt, &self.loss, &self.rate, &self.queue, &self.mtu].iter().all(|o| o.is_none())
            && self.down.is_none()
            && self.up.is_none()
    }
}

/// Larger than the depth of any key of a scenario.
const MAX_DEPTH: usize = 16;

/// Sets one key, as `--set` does.
pub fn set<'a>(tree: &mut Tree<'a>, key: &str, value: &'a str) -> Result<(), ScenarioError> {
    let option = format!("--set {key}");
    let failed = |kind: ErrorKind| ScenarioError::of_option(&option, kind);
    let mut words: Vec<&str> = key.split('.').map(|w| w.trim().trim_matches('"')).collect();
    if words.iter().any(|w| w.is_empty()) || words.len() > MAX_DEPTH {
        return Err(failed(ErrorKind::Option(
            "expected a key such as `duration`, `tcp.min_rto` or `link.radio.loss.rate`".into(),
        )));
    }
    let value = tree.value(&option, value)?;
    let short_form = !has_links(tree);
    let root = tree.root();
    // The short form also accepts the name of its radio link. Its rate is not a key of the link,
    // because `rate`, `down` and `up` of the last hop replace each other.
    if let (true, ["link", "radio", key, ..]) = (short_form, &words[..])
        && *key != "rate"
        && keys::has(&keys::DIRECTION, key)
        && keys::has(&keys::LAST_HOP, key)
    {
        words.splice(..2, ["last_hop"]);
    }
    match words[0] {
        key if short_form && keys::has(&keys::LAST_HOP, key) => words.insert(0, "last_hop"),
        key if keys::has(&keys::DIRECTION, key) => {
            return Err(failed(ErrorKind::Option(format!(
                "of which link? Write `link.NAME.{key}`, with its name or number"
            ))));
        }
        _ => {}
    }
    if let [kind @ ("link" | "flow" | "node" | "cell"), which, rest @ ..] = &words[..] {
        let item = member(root, kind, which, &value).map_err(failed)?;
        if rest.is_empty() {
            *item = value;
            return Ok(());
        }
        let table = table_mut(item)
            .ok_or_else(|| failed(cannot(format!("`{kind}` number {which} is not a table"))))?;
        return match *kind {
            "link" => set_link(table, rest, value),
            "cell" => set_cell(table, rest, value),
            _ => put(table, rest, value),
        }
        .map_err(failed);
    }
    put(root, &words, value).map_err(failed)
}

/// The link, flow or node with this name or number.
fn member<'t, 'a>(
    root: &'t mut DeTable<'a>,
    kind: &str,
    which: &str,
    value: &Item<'a>,
) -> Result<&'t mut Item<'a>, ErrorKind> {
    let list = child(root, kind, value, || DeValue::Array(DeArray::new()));
    let DeValue::Array(items) = list.get_mut() else {
        return Err(cannot(format!("`{kind}` is not an array of tables: write [[{kind}]]")));
    };
    // A file without flows gets one by default, which can be changed too.
    if kind == "flow" && items.is_empty() && which == "1" {
        items.push(Spanned::new(value.span(), DeValue::Table(DeTable::new())));
    }
    let names: Vec<Option<String>> = items
        .iter()
        .map(|i| i.get_ref().get("name").and_then(|n| n.get_ref().as_str()).map(str::to_string))
        .collect();
    let found = names
        .iter()
        .position(|n| n.as_deref() == Some(which))
        .or_else(|| which.parse::<usize>().ok()?.checked_sub(1));
    match found.and_then(|i| items.get_mut(i)) {
        Some(item) => Ok(item),
        None => {
            let number = |(i, name): (usize, Option<String>)| name.unwrap_or((i + 1).to_string());
            Err(ErrorKind::NoSuchItem {
                what: kind.to_string(),
                name: which.to_string(),
                known: names.into_iter().enumerate().map(number).collect(),
            })
        }
    }
}

/// An option that the scenario cannot take.
fn cannot(words: impl Into<String>) -> ErrorKind {
    ErrorKind::Option(words.into())
}

/// Sets a key of a link. A value for both directions replaces those of the single directions.
fn set_link<'a>(link: &mut DeTable<'a>, words: &[&str], value: Item<'a>) -> Result<(), ErrorKind> {
    match words {
        [direction @ ("forward" | "backward"), key, deeper @ ..] => {
            let inherited = link.get(*key).filter(|_| !deeper.is_empty()).cloned();
            let table = child(link, direction, &value, || DeValue::Table(DeTable::new()));
            let table =
                table_mut(table).ok_or_else(|| cannot(format!("`{direction}` is not a table")))?;
            if let (Some(item), false) = (inherited, table.contains_key(*key)) {
                table.insert(Spanned::new(value.span(), Cow::Owned(key.to_string())), item);
            }
            put(table, &words[1..], value)
        }
        [key, ..] => {
            if keys::has(&keys::DIRECTION, key) {
                for direction in ["forward", "backward"] {
                    if let Some(table) =
                        link.get_mut(direction).and_then(table_mut).filter(|t| t.contains_key(*key))
                    {
                        put(table, words, value.clone())?;
                    }
                }
            }
            put(link, words, value)
        }
        [] => Ok(()),
    }
}

/// Sets a key of a cell, or of one of its stations. As with links, a loss for both directions
/// replaces those of the single directions.
fn set_cell<'a>(cell: &mut DeTable<'a>, words: &[&str], value: Item<'a>) -> Result<(), ErrorKind> {
    match words {
        ["station", which, rest @ ..] if !rest.is_empty() => {
            let number = which.parse::<usize>().is_ok();
            if !number && !has_named(cell.get("station"), which) {
                let list = child(cell, "station", &value, || DeValue::Array(DeArray::new()));
                let DeValue::Array(stations) = list.get_mut() else {
                    return Err(cannot("`station` is not an array of tables"));
                };
                let name =
                    Spanned::new(value.span(), DeValue::String(Cow::Owned(which.to_string())));
                let table =
                    DeTable::from_iter([(Spanned::new(value.span(), Cow::Borrowed("name")), name)]);
                stations.push(Spanned::new(value.span(), DeValue::Table(table)));
            }
            let station = table_mut(member(cell, "station", which, &value)?)
                .ok_or_else(|| cannot(format!("station `{which}` is not a table")))?;
            set_directions(station, rest, value)
        }
        _ => set_directions(cell, words, value),
    }
}

fn has_named(list: Option<&Item<'_>>, name: &str) -> bool {
    let items = list.and_then(|l| l.get_ref().as_array());
    items
        .into_iter()
        .flatten()
        .any(|i| i.get_ref().get("name").is_some_and(|n| n.get_ref().as_str() == Some(name)))
}

fn set_directions<'a>(
    table: &mut DeTable<'a>,
    words: &[&str],
    value: Item<'a>,
) -> Result<(), ErrorKind> {
    match words {
        [direction @ ("down" | "up"), "loss", _, ..] => {
            let inherited = table.get("loss").cloned();
            let below =
                table_mut(child(table, direction, &value, || DeValue::Table(DeTable::new())));
            let below = below.ok_or_else(|| cannot(format!("`{direction}` is not a table")))?;
            if let (Some(item), false) = (inherited, below.contains_key("loss")) {
                below.insert(Spanned::new(value.span(), Cow::Borrowed("loss")), item);
            }
            put(below, &words[1..], value)
        }
        ["loss", ..] => {
            for direction in ["down", "up"] {
                if let Some(below) =
                    table.get_mut(direction).and_then(table_mut).filter(|t| t.contains_key("loss"))
                {
                    put(below, words, value.clone())?;
                }
            }
            put(table, words, value)
        }
        _ => put(table, words, value),
    }
}

/// Sets the value below a table; short forms become tables where necessary.
fn put<'a>(table: &mut DeTable<'a>, words: &[&str], value: Item<'a>) -> Result<(), ErrorKind> {
    let Some((word, rest)) = words.split_first() else { return Ok(()) };
    if rest.is_empty() {
        table.insert(Spanned::new(value.span(), Cow::Owned(word.to_string())), value);
        return Ok(());
    }
    let item = child(table, word, &value, || DeValue::Table(DeTable::new()));
    if let ("scheme", [setting], DeValue::String(short)) = (*word, rest, item.get_ref()) {
        let short = with_setting(short, setting, &value)?;
        *item = Spanned::new(value.span(), DeValue::String(Cow::Owned(short)));
        return Ok(());
    }
    open(word, item);
    match item.get_mut() {
        DeValue::Table(below) => {
            match (*word, rest[0]) {
                ("loss", "rate" | "index" | "slot") if !below.contains_key("model") => {
                    let model = Spanned::new(value.span(), DeValue::String("uniform".into()));
                    below.insert(Spanned::new(value.span(), Cow::Borrowed("model")), model);
                }
                // A queue has one limit; the new one replaces the other one.
                ("queue", limit) if QUEUE_LIMITS.contains(&limit) => {
                    QUEUE_LIMITS.iter().for_each(|key| drop(below.remove(*key)));
                }
                ("loss", "trace") => {
                    let model = Spanned::new(value.span(), DeValue::String("trace".into()));
                    below.insert(Spanned::new(value.span(), Cow::Borrowed("model")), model);
                    // The probability comes from the file now.
                    below.remove("rate");
                }
                _ => {}
            }
            put(below, rest, value)
        }
        DeValue::Array(items) => {
            let count = items.len();
            let number = rest[0].parse::<usize>().ok().and_then(|n| n.checked_sub(1));
            let item = number.and_then(|n| items.get_mut(n)).ok_or_else(|| {
                cannot(format!("`{word}` has {count} items; `{}` is none of them", rest[0]))
            })?;
            match (&rest[1..], item.get_mut()) {
                ([], _) => *item = value,
                (deeper, DeValue::Table(below)) => return put(below, deeper, value),
                _ => return Err(cannot(format!("item {} of `{word}` has no keys", rest[0]))),
            }
            Ok(())
        }
        _ => Err(cannot(format!(
            "`{word}` has no keys below it, so `{}` cannot be set",
            rest.join(".")
        ))),
    }
}

/// The keys of a queue that limit it.
const QUEUE_LIMITS: [&str; 4] = ["packets", "bytes", "time", "bdp"];

/// Turns the short form of a value into its table form.
fn open(key: &str, item: &mut Item<'_>) {
    let span = item.span();
    let short = match item.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(n) => n.to_string(),
        DeValue::Float(x) => x.to_string(),
        _ => return,
    };
    let text = |s: String| DeValue::String(Cow::Owned(s));
    let entries: Vec<(String, DeValue<'_>)> = match key {
        "loss" if short.trim() == "none" => vec![],
        "loss" => vec![("model".into(), text("uniform".into())), ("rate".into(), text(short))],
        "delay" => vec![("base".into(), text(short))],
        "queue" | "rate" => vec![],
        "app" => vec![("kind".into(), text(short))],
        _ => return,
    };
    let table = entries
        .into_iter()
        .map(|(k, v)| (Spanned::new(span.clone(), Cow::Owned(k)), Spanned::new(span.clone(), v)))
        .collect();
    *item.get_mut() = DeValue::Table(table);
}

/// The value below `key`, created if it does not exist.
fn child<'t, 'a>(
    table: &'t mut DeTable<'a>,
    key: &str,
    near: &Item<'a>,
    new: impl FnOnce() -> DeValue<'a>,
) -> &'t mut Item<'a> {
    table
        .entry(Spanned::new(near.span(), Cow::Owned(key.to_string())))
        .or_insert_with(|| Spanned::new(near.span(), new()))
}

/// The short form of a scheme with one setting changed.
fn with_setting(short: &str, setting: &str, value: &Item<'_>) -> Result<String, ErrorKind> {
    let value = match value.get_ref() {
        DeValue::String(s) => s.to_string(),
        DeValue::Integer(n) => n.to_string(),
        DeValue::Float(x) => x.to_string(),
        DeValue::Boolean(b) => b.to_string(),
        _ => return Err(cannot("a setting of a scheme is a text, a number, true or false")),
    };
    let value = if value.contains(':') { format!("({value})") } else { value };
    let mut parts = split_short(short);
    parts.retain(|part| part.split_once('=').is_none_or(|(key, _)| key.trim() != setting));
    parts.push(format!("{setting}={value}"));
    Ok(parts.join(":"))
}

/// Applies the command line to the tree: the options of the last hop first, so that `--set` can
/// change them further.
pub fn apply<'a>(
    tree: &mut Tree<'a>,
    overrides: &'a Overrides,
    traces: &mut Traces<'_>,
) -> Result<(), ScenarioError> {
    if let Some(text) = &overrides.flows.traffic {
        presets::apply(tree, text)?;
    }
    if !overrides.last_hop.is_empty() {
        last_hop(tree, overrides, traces)?;
    }
    for (key, value) in &overrides.set {
        if overrides.scheme.is_some() && key.trim().starts_with("tcp.scheme") {
            let message = "--scheme replaces `tcp.scheme`; write the setting behind its name: \
                           --scheme NAME:KEY=VALUE";
            return Err(ScenarioError::of_option(&format!("--set {key}"), cannot(message)));
        }
        set(tree, key, value)?;
    }
    Ok(())
}

fn has_links(tree: &Tree<'_>) -> bool {
    let filled = |key: &str| {
        tree.get(&Path::key(key))
            .is_some_and(|l| l.get_ref().as_array().is_some_and(|l| !l.is_empty()))
    };
    filled("link") || filled("cell")
}

/// Applies the options of the last hop to `[last_hop]`, or to the radio link of a network.
fn last_hop<'a>(
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
