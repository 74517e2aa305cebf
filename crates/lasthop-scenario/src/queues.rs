//! The forms of a queue in a file: "49 packets", "60 kB", "unlimited", "codel", or a table with a
//! discipline and its settings.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::keys::keys_of;
use crate::shorthand::Form;
use lasthop_channel::queue::{Discipline, QueueConfig};
use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::{Quantity, QueueLimit};

/// Keys that every queue table has.
static COMMON: LazyLock<Vec<String>> =
    LazyLock::new(|| std::iter::once("discipline".to_string()).chain(keys_of::<Limit>()).collect());

/// Short forms that are not a limit, for messages.
const OTHER_FORMS: &str =
    "\"unlimited\", \"codel\", \"fq-codel\" and \"red 250 packets\" are allowed too";

impl Form for QueueConfig {
    type Table = Map<String, Value>;
    const EXPECTED: &'static str = "a queue limit such as \"49 packets\", \"60 kB\", \
                                    \"unlimited\" or { discipline = \"droptail\", packets = 49 }";
    fn short(text: &str) -> Result<Self, Mistake> {
        if text.trim() == "unlimited" {
            return Ok(QueueConfig::UNLIMITED);
        }
        if let Some(queue) = short_discipline(text) {
            return queue;
        }
        QueueLimit::parse(text)
            .map(QueueConfig::drop_tail)
            .map_err(|e| format!("{e}; {OTHER_FORMS}").into())
    }
    fn table(mut table: Self::Table) -> Result<Self, Mistake> {
        let name = table.get("discipline").cloned().unwrap_or_else(|| "droptail".into());
        let with_defaults = discipline(Map::from_iter([("discipline".to_string(), name.clone())]))?;
        check_keys(&table, &with_defaults.settings().map_err(from_serde)?)?;
        let limit = limit(table.remove("packets"), table.remove("bytes"))?;
        table.insert("discipline".into(), name);
        let queue = QueueConfig { limit, discipline: discipline(table)? }.filled();
        if queue.limit.is_none() {
            return Err("a queue table needs `packets = N` or `bytes = N`; without a limit write \
                        queue = \"unlimited\""
                .into());
        }
        Ok(queue)
    }
}

/// Reads "codel" or "red 250 packets": a discipline with its default settings, and a limit unless
/// the discipline has one. `None` if the text does not begin with the name of a discipline.
fn short_discipline(text: &str) -> Option<Result<QueueConfig, Mistake>> {
    let (name, rest) = match text.trim().split_once(' ') {
        Some((name, rest)) => (name, Some(rest)),
        None => (text.trim(), None),
    };
    let named = Map::from_iter([("discipline".to_string(), Value::from(name))]);
    let discipline = discipline(named).ok()?;
    let limit = match rest.map(QueueLimit::parse).transpose() {
        Ok(limit) => limit,
        Err(e) => return Some(Err(e.into())),
    };
    let queue = QueueConfig { limit, discipline }.filled();
    Some(if queue.limit.is_some() {
        Ok(queue)
    } else {
        Err(format!("the queue needs a limit: write \"{name} 250 packets\"").into())
    })
}

/// Refuses keys that are neither settings of the discipline nor keys of all queues.
fn check_keys(table: &Map<String, Value>, settings: &Map<String, Value>) -> Result<(), Mistake> {
    let own = settings.keys().filter(|key| !COMMON.contains(key));
    let allowed: Vec<String> = COMMON.iter().chain(own).cloned().collect();
    match table.keys().find(|key| !allowed.contains(key)) {
        None => Ok(()),
        Some(key) => Err(Mistake::UnknownKey { key: key.clone(), allowed: Some(allowed) }),
    }
}

fn discipline(table: Map<String, Value>) -> Result<Discipline, Mistake> {
    Discipline::deserialize(Value::Object(table)).map_err(from_serde)
}

fn from_serde(error: serde_json::Error) -> Mistake {
    Mistake::from_serde(&error.to_string())
}

fn limit(packets: Option<Value>, bytes: Option<Value>) -> Result<Option<QueueLimit>, Mistake> {
    let number = |value: Option<Value>| value.map(u64::deserialize).transpose().map_err(from_serde);
    match (number(packets)?, number(bytes)?) {
        (Some(_), Some(_)) => Err("a queue has a limit in packets or in bytes, not both".into()),
        (Some(n), None) => Ok(Some(QueueLimit::Packets(n))),
        (None, Some(n)) => Ok(Some(QueueLimit::Bytes(n))),
        (None, None) => Ok(None),
    }
}

/// Queue: "49 packets", "60 kB", "unlimited", a discipline such as "codel" or "red 250 packets",
/// or a table.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "the schema is derived from it")]
pub enum QueueForm {
    /// Short form: the limit of a DropTail queue, or a discipline and its limit.
    Short(String),
    /// DropTail; the discipline need not be named.
    Limit(Limit),
    /// A discipline with its settings.
    Managed(Managed),
}

/// The limit of a queue.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code, reason = "the schema is derived from it")]
pub struct Limit {
    /// Limit in frames, without the one being sent.
    packets: Option<u64>,
    /// Limit in bytes.
    bytes: Option<u64>,
}

/// A queue with a discipline.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "the schema is derived from it")]
pub struct Managed {
    /// Limit in frames, without the one being sent. Default: that of the discipline, if it has one.
    packets: Option<u64>,
    /// Limit in bytes.
    bytes: Option<u64>,
    /// Discipline and settings.
    #[serde(flatten)]
    discipline: Discipline,
}
