//! `--set KEY=VALUE`: one value of the tree changes.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::parts::{last_hop, link};
use crate::text::errors::{ErrorKind, ScenarioError};
use crate::text::keys;
use crate::text::tree::{Item, Path, Tree, table_mut};
use lasthop_schemes::catalogue::split_short;

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
        && keys::has(&link::DIRECTION, key)
        && keys::has(&last_hop::KEYS, key)
    {
        words.splice(..2, ["last_hop"]);
    }
    match words[0] {
        key if short_form && keys::has(&last_hop::KEYS, key) => words.insert(0, "last_hop"),
        key if keys::has(&link::DIRECTION, key) => {
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
pub fn member<'t, 'a>(
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
pub fn cannot(words: impl Into<String>) -> ErrorKind {
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
            if keys::has(&link::DIRECTION, key) {
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
pub fn set_cell<'a>(
    cell: &mut DeTable<'a>,
    words: &[&str],
    value: Item<'a>,
) -> Result<(), ErrorKind> {
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
pub fn child<'t, 'a>(
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

/// True if the scenario has links or cells instead of `[last_hop]`.
pub fn has_links(tree: &Tree<'_>) -> bool {
    let filled = |key: &str| {
        tree.get(&Path::key(key))
            .is_some_and(|l| l.get_ref().as_array().is_some_and(|l| !l.is_empty()))
    };
    filled("link") || filled("cell")
}
