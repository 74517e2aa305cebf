//! The forms of a queue in a file: "49 packets", "60 kB", "100 ms", "2 BDP", "unlimited", "codel",
//! or a table with a discipline and its settings.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::checks::Checked;
use crate::text::errors::ScenarioError;
use crate::text::keys::keys_of;
use crate::text::shorthand::Form;
use crate::text::tree::{Path, Tree};
use lasthop_channel::queue::{Discipline, Fault, QueueConfig};
use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::{Duration, Quantity, QueueLimit};
use lasthop_tcp::profile::ProfileName;

/// Keys that every queue table has.
static COMMON: LazyLock<Vec<String>> =
    LazyLock::new(|| std::iter::once("discipline".to_string()).chain(keys_of::<Limit>()).collect());

/// Short forms that are not a limit in packets or bytes, for messages.
const OTHER_FORMS: &str = "\"100 ms\", \"2 BDP\", \"unlimited\", \"codel\", \"fq-codel\" and \
                           \"red 250 packets\" are allowed too";

/// A queue as a file has it: its limit may depend on the link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueSpec {
    /// The queue; without a limit as long as `relative` has it.
    pub config: QueueConfig,
    /// A limit from which the bytes follow once the network is known.
    pub relative: Option<RelativeLimit>,
}

/// A queue limit that depends on the rate of the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RelativeLimit {
    /// What the link sends in this time.
    Time(Duration),
    /// A multiple of the bandwidth-delay product.
    Products(f64),
}

impl RelativeLimit {
    /// Reads "100 ms" or "2 BDP"; `None` if the text is in neither form.
    fn parse(text: &str) -> Option<RelativeLimit> {
        let text = text.trim();
        let products = text.strip_suffix("BDP").or_else(|| text.strip_suffix("bdp"));
        match products {
            Some(number) => number.trim().parse().ok().map(RelativeLimit::Products),
            None => Duration::parse(text).ok().map(RelativeLimit::Time),
        }
    }

    /// The limit as the short form has it.
    pub fn text(self) -> String {
        match self {
            RelativeLimit::Time(time) => time.text(),
            RelativeLimit::Products(n) => format!("{n} BDP"),
        }
    }

    /// Checks that the limit is a positive number.
    fn check(self) -> Result<(), Fault> {
        match self {
            RelativeLimit::Time(Duration::ZERO) => Err(("time", ZERO.into())),
            RelativeLimit::Products(n) if !(n > 0.0 && n <= MAX_PRODUCTS) => Err((
                "bdp",
                format!("expected a number above 0, at most {MAX_PRODUCTS}, found {n}"),
            )),
            _ => Ok(()),
        }
    }
}

const ZERO: &str =
    "a limit of 0 s can hold no frame; write \"0 packets\" for a link without a queue";

/// The highest multiple of a bandwidth-delay product.
const MAX_PRODUCTS: f64 = 1e6;

impl QueueSpec {
    /// Checks the settings for consistency.
    ///
    /// # Errors
    ///
    /// The key and a message that states what is allowed.
    pub fn check(&self) -> Result<(), Fault> {
        self.relative.map_or(Ok(()), RelativeLimit::check)?;
        self.config.check()
    }
}

impl From<QueueConfig> for QueueSpec {
    fn from(config: QueueConfig) -> QueueSpec {
        QueueSpec { config, relative: None }
    }
}

impl Serialize for QueueSpec {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Some(limit) = self.relative else { return self.config.serialize(s) };
        let mut table = self.config.discipline.settings().map_err(serde::ser::Error::custom)?;
        match limit {
            RelativeLimit::Time(time) => table.insert("time".into(), time.text().into()),
            RelativeLimit::Products(n) => table.insert("bdp".into(), n.into()),
        };
        table.serialize(s)
    }
}

impl Form for QueueSpec {
    type Table = Map<String, Value>;
    const EXPECTED: &'static str = "a queue limit such as \"49 packets\", \"60 kB\", \"100 ms\", \
                                    \"2 BDP\", \"unlimited\" or { discipline = \"droptail\", \
                                    packets = 49 }";
    fn short(text: &str) -> Result<Self, Mistake> {
        if text.trim() == "unlimited" {
            return Ok(QueueConfig::UNLIMITED.into());
        }
        if let Some(queue) = short_discipline(text) {
            return queue;
        }
        if let Some(limit) = RelativeLimit::parse(text) {
            return Ok(QueueSpec { relative: Some(limit), ..QueueSpec::default() });
        }
        QueueLimit::parse(text)
            .map(|limit| QueueConfig::drop_tail(limit).into())
            .map_err(|e| format!("{e}; {OTHER_FORMS}").into())
    }
    fn table(mut table: Self::Table) -> Result<Self, Mistake> {
        let name = table.get("discipline").cloned().unwrap_or_else(|| "droptail".into());
        let with_defaults = discipline(Map::from_iter([("discipline".to_string(), name.clone())]))?;
        check_keys(&table, &with_defaults.settings().map_err(from_serde)?)?;
        let (limit, relative) = limit(&mut table)?;
        table.insert("discipline".into(), name);
        spec(limit, relative, discipline(table)?).ok_or_else(|| {
            "a queue table needs `packets = N`, `bytes = N`, `time = \"100 ms\"` or `bdp = 2`; \
             without a limit write queue = \"unlimited\""
                .into()
        })
    }
}

/// A queue with this limit, or with that of its discipline; `None` if it has neither.
fn spec(
    limit: Option<QueueLimit>,
    relative: Option<RelativeLimit>,
    discipline: Discipline,
) -> Option<QueueSpec> {
    let config = QueueConfig { limit, discipline };
    if relative.is_some() {
        return Some(QueueSpec { config, relative });
    }
    let config = config.filled();
    config.limit.is_some().then(|| config.into())
}

/// Reads "codel" or "red 250 packets": a discipline with its default settings, and a limit unless
/// the discipline has one. `None` if the text does not begin with the name of a discipline.
fn short_discipline(text: &str) -> Option<Result<QueueSpec, Mistake>> {
    let (name, rest) = match text.trim().split_once(' ') {
        Some((name, rest)) => (name, Some(rest)),
        None => (text.trim(), None),
    };
    let named = Map::from_iter([("discipline".to_string(), Value::from(name))]);
    let discipline = discipline(named).ok()?;
    let relative = rest.and_then(RelativeLimit::parse);
    let limit = match rest.filter(|_| relative.is_none()).map(QueueLimit::parse).transpose() {
        Ok(limit) => limit,
        Err(e) => {
            return Some(Err(format!("{e}; \"100 ms\" and \"2 BDP\" are allowed too").into()));
        }
    };
    Some(
        spec(limit, relative, discipline)
            .ok_or_else(|| format!("the queue needs a limit: write \"{name} 250 packets\"").into()),
    )
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

/// Takes the limit out of a table.
fn limit(
    table: &mut Map<String, Value>,
) -> Result<(Option<QueueLimit>, Option<RelativeLimit>), Mistake> {
    let Limit { packets, bytes, time, bdp } = Limit {
        packets: take(table, "packets")?,
        bytes: take(table, "bytes")?,
        time: take(table, "time")?,
        bdp: take(table, "bdp")?,
    };
    match (packets, bytes, time, bdp) {
        (Some(n), None, None, None) => Ok((Some(QueueLimit::Packets(n)), None)),
        (None, Some(n), None, None) => Ok((Some(QueueLimit::Bytes(n)), None)),
        (None, None, Some(time), None) => Ok((None, Some(RelativeLimit::Time(time)))),
        (None, None, None, Some(n)) => Ok((None, Some(RelativeLimit::Products(n)))),
        (None, None, None, None) => Ok((None, None)),
        _ => Err("a queue has one limit: in packets, in bytes, as a time or in BDP".into()),
    }
}

fn take<T: DeserializeOwned>(
    table: &mut Map<String, Value>,
    key: &str,
) -> Result<Option<T>, Mistake> {
    table.remove(key).map(T::deserialize).transpose().map_err(from_serde)
}

/// Queue: "49 packets", "60 kB", "100 ms", "2 BDP", "unlimited", a discipline such as "codel" or
/// "red 250 packets", or a table.
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
    /// Limit as a time: what the link sends in it.
    time: Option<Duration>,
    /// Limit as a multiple of the bandwidth-delay product.
    bdp: Option<f64>,
}

/// A queue with a discipline.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "the schema is derived from it")]
pub struct Managed {
    /// Limit in frames, without the one being sent. Default: that of the discipline, if it has one.
    packets: Option<u64>,
    /// Limit in bytes.
    bytes: Option<u64>,
    /// Limit as a time: what the link sends in it.
    time: Option<Duration>,
    /// Limit as a multiple of the bandwidth-delay product.
    bdp: Option<f64>,
    /// Discipline and settings.
    #[serde(flatten)]
    discipline: Discipline,
}

/// Checks the queue of a link or station at `at`.
pub fn check_queue(queue: Option<&QueueSpec>, at: &Path, tree: &Tree<'_>) -> Checked {
    let Some(queue) = queue else { return Ok(()) };
    queue.check().map_err(|fault| queue_fault(fault, at, tree))
}

/// A fault of the queue of a link or station at `at`.
pub fn queue_fault((key, message): Fault, at: &Path, tree: &Tree<'_>) -> ScenarioError {
    let here = at.at("queue");
    let is_table = tree.get(&here).is_some_and(|item| item.get_ref().is_table());
    tree.wrong(&if is_table { here.at(key) } else { here.clone() }, message)
}

/// Packets of the default queue of a profile.
pub fn default_packets(profile: ProfileName) -> u64 {
    if profile.is_ns2() { 49 } else { 250 }
}
