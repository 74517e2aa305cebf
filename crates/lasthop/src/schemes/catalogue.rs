//! The catalogue: the one list of schemes, read by the command line, the docs, the tests and the reports.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::agent::{Agent, Context, Verdict};
use crate::leg::Relay;
use crate::role::Role;
use crate::schemes::end_to_end::{newreno::Newreno, reno::Reno, reno::RenoWindow, tahoe::Tahoe};
use crate::schemes::link_layer::{packet_control, packet_control::PacketControl, snoop, snoop::Snoop};
use crate::schemes::split::i_tcp::ITcp;
use crate::segment::{Direction, Segment};
use crate::tcp::window::{Ack, Loss, RecoveryKind, Window, WindowRule};
use crate::units::Time;

/// The papers' taxonomy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Changes the end hosts.
    EndToEnd,
    /// Works at the base station under the connection.
    LinkLayer,
    /// Cuts the connection in two.
    Split,
}

/// What a scheme changes, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// The data sender.
    pub sender: bool,
    /// The data receiver.
    pub receiver: bool,
    /// The base station.
    pub base_station: bool,
    /// The radio link.
    pub link: bool,
    /// A proxy.
    pub proxy: bool,
    /// What is on the wire.
    pub wire: bool,
}

impl Changes {
    /// Changes nothing.
    pub const NOTHING: Changes = Changes { sender: false, receiver: false, base_station: false, link: false, proxy: false, wire: false };
}

/// What the catalogue says of a scheme.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name.
    pub name: &'static str,
    /// Family.
    pub family: Family,
    /// One line.
    pub summary: &'static str,
    /// Source.
    pub paper: &'static str,
    /// What it changes.
    pub changes: Changes,
    /// What must hold for it to work well.
    pub assumptions: &'static [&'static str],
    /// The role that a scenario must have a node for.
    pub role: Option<Role>,
    /// Harms others on a shared network.
    pub unsafe_: bool,
    /// Needs knowledge that only a simulator has.
    pub simulation_only: bool,
}

impl Entry {
    /// What an entry need not say.
    pub const DEFAULT: Entry = Entry {
        name: "",
        family: Family::EndToEnd,
        summary: "",
        paper: "",
        changes: Changes::NOTHING,
        assumptions: &[],
        role: None,
        unsafe_: false,
        simulation_only: false,
    };
}

/// The settings of a scheme: factory, docs and schema at once.
pub trait SchemeConfig: Default + Clone + PartialEq + Serialize + DeserializeOwned + JsonSchema {
    /// Its line in the catalogue.
    const ENTRY: Entry;

    /// Checks values against each other; the message names the setting and what is allowed.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// The sender's slots, if the scheme fills them.
    fn sender(&self) -> Option<SenderPart> {
        None
    }

    /// The agent, if it has one.
    fn agent(&self) -> Option<AnyAgent> {
        None
    }

    /// The relay, if it has one.
    fn relay(&self) -> Option<Box<dyn Relay>> {
        None
    }

    /// The sender to run over, if the settings name one ("newreno", "reno:recovery=newreno").
    fn over(&self) -> Option<&str> {
        None
    }
}

/// What a scheme puts into a sender.
#[derive(Clone, Debug)]
pub struct SenderPart {
    /// Window rule.
    pub window: WindowKind,
    /// Loss recovery.
    pub recovery: RecoveryKind,
}

/// Window rules, as values to build them from.
#[derive(Clone, Debug)]
pub enum WindowKind {
    /// Reno's.
    Reno,
    /// One defined outside the core.
    Foreign(ForeignWindow),
}

/// A window rule from outside the core (another crate, Python): its name and a factory.
#[derive(Clone)]
pub struct ForeignWindow {
    /// Its name in reports.
    pub name: String,
    /// Makes one for each flow.
    pub make: Arc<dyn Fn() -> Box<dyn WindowRule> + Send + Sync>,
}

impl fmt::Debug for ForeignWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignWindow({})", self.name)
    }
}

/// Any window rule: built-in ones by enum, one boxed variant for foreign ones.
pub enum AnyWindow {
    /// Reno's.
    Reno(RenoWindow),
    /// From outside the core.
    Foreign(Box<dyn WindowRule>),
}

impl WindowKind {
    /// A rule for one flow.
    pub fn build(&self) -> AnyWindow {
        match self {
            WindowKind::Reno => AnyWindow::Reno(RenoWindow),
            WindowKind::Foreign(f) => AnyWindow::Foreign((f.make)()),
        }
    }

    /// Its name in reports.
    pub fn name(&self) -> &str {
        match self {
            WindowKind::Reno => "reno",
            WindowKind::Foreign(f) => &f.name,
        }
    }
}

impl WindowRule for AnyWindow {
    #[inline]
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        match self {
            AnyWindow::Reno(r) => r.on_ack(window, ack),
            AnyWindow::Foreign(r) => r.on_ack(window, ack),
        }
    }
    fn on_loss(&mut self, window: &mut Window, loss: &Loss) {
        match self {
            AnyWindow::Reno(r) => r.on_loss(window, loss),
            AnyWindow::Foreign(r) => r.on_loss(window, loss),
        }
    }
    fn on_dupack(&mut self, window: &mut Window, now: Time, count: u32) {
        match self {
            AnyWindow::Reno(r) => r.on_dupack(window, now, count),
            AnyWindow::Foreign(r) => r.on_dupack(window, now, count),
        }
    }
    fn on_recovered(&mut self, window: &mut Window, now: Time) {
        match self {
            AnyWindow::Reno(r) => r.on_recovered(window, now),
            AnyWindow::Foreign(r) => r.on_recovered(window, now),
        }
    }
}

/// Any agent: built-in ones by enum, one boxed variant for foreign ones.
pub enum AnyAgent {
    /// TCP packet control.
    PacketControl(packet_control::PacketControlAgent),
    /// Snoop.
    Snoop(snoop::SnoopAgent),
    /// From outside the core.
    Foreign(Box<dyn Agent>),
}

macro_rules! each_agent {
    ($self:ident, $a:ident => $e:expr) => {
        match $self {
            AnyAgent::PacketControl($a) => $e,
            AnyAgent::Snoop($a) => $e,
            AnyAgent::Foreign($a) => $e,
        }
    };
}

impl Agent for AnyAgent {
    fn on_segment(&mut self, ctx: &mut Context<'_>, direction: Direction, segment: &Segment) -> Verdict {
        each_agent!(self, a => a.on_segment(ctx, direction, segment))
    }
    fn on_timer(&mut self, ctx: &mut Context<'_>, id: u32) {
        each_agent!(self, a => a.on_timer(ctx, id));
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        each_agent!(self, a => a.counters())
    }
    fn state_bytes(&self) -> usize {
        each_agent!(self, a => a.state_bytes())
    }
    fn export(&mut self, flow: crate::segment::FlowId) -> Option<Vec<u8>> {
        each_agent!(self, a => a.export(flow))
    }
    fn import(&mut self, flow: crate::segment::FlowId, state: &[u8]) -> bool {
        each_agent!(self, a => a.import(flow, state))
    }
}

/// An agent from outside the core: its name and a factory.
#[derive(Clone)]
pub struct ForeignAgent {
    /// Its name in reports.
    pub name: String,
    /// Makes one for the base station.
    pub make: Arc<dyn Fn() -> Box<dyn Agent> + Send + Sync>,
}

impl fmt::Debug for ForeignAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignAgent({})", self.name)
    }
}

macro_rules! catalogue {
    ($($variant:ident),*) => {
        /// A scheme with its settings.
        #[derive(Clone, Debug)]
        pub enum Scheme {
            $(#[doc = concat!("`", stringify!($variant), "`.")] $variant($variant),)*
            /// A window rule from outside the core, over NewReno's recovery unless `recovery` says otherwise.
            ForeignWindow(ForeignWindow, RecoveryKind),
            /// An agent from outside the core.
            ForeignAgent(ForeignAgent),
        }

        /// All schemes of the catalogue, with their default settings.
        pub fn all() -> Vec<Scheme> {
            vec![$(Scheme::$variant($variant::default())),*]
        }

        fn by_name(name: &str, settings: Value) -> Option<Result<Scheme, String>> {
            match name {
                $(n if n == $variant::ENTRY.name => Some(read::<$variant>(settings).map(Scheme::$variant)),)*
                _ => None,
            }
        }

        macro_rules! each_scheme {
            ($s:expr, $c:ident => $e:expr, $w:pat => $fw:expr, $a:pat => $fa:expr) => {
                match $s {
                    $(Scheme::$variant($c) => $e,)*
                    Scheme::ForeignWindow($w, _) => $fw,
                    Scheme::ForeignAgent($a) => $fa,
                }
            };
        }
        // The settings' schemas, for the schema of the scenario file and the catalogue.
        fn schema_of(name: &str) -> Value {
            match name {
                $(n if n == $variant::ENTRY.name => schemars::schema_for!($variant).to_value(),)*
                _ => Value::Null,
            }
        }
    };
}
catalogue!(Tahoe, Reno, Newreno, PacketControl, Snoop, ITcp);

fn read<C: SchemeConfig>(settings: Value) -> Result<C, String> {
    let allowed: Vec<String> = match serde_json::to_value(C::default()) {
        Ok(Value::Object(m)) => m.keys().cloned().collect(),
        _ => Vec::new(),
    };
    let name = C::ENTRY.name;
    if let Value::Object(m) = &settings {
        for key in m.keys() {
            if !allowed.contains(key) {
                let hint = closest(key, allowed.iter().map(String::as_str)).map(|k| format!(" (did you mean `{k}`?)")).unwrap_or_default();
                let list = if allowed.is_empty() { "it has none".to_string() } else { format!("allowed: {}", allowed.join(", ")) };
                return Err(format!("scheme `{name}` has no setting `{key}`{hint}; {list}"));
            }
        }
    }
    let config: C = serde_json::from_value(settings).map_err(|e| format!("scheme `{name}`: {e}"))?;
    config.check().map_err(|e| format!("scheme `{name}`: {e}"))?;
    if let Some(over) = config.over() {
        let sender = SchemeChoice::parse(over).map_err(|e| format!("scheme `{name}`: sender: {e}"))?;
        if sender.scheme.sender_part().is_none() {
            return Err(format!("scheme `{name}`: sender = \"{over}\" is not a sender-side scheme"));
        }
    }
    Ok(config)
}

/// The candidate closest to `word`, if one is close enough to be what was meant.
pub fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates.map(|c| (distance(word, c), c)).min().filter(|(d, c)| *d <= (c.len().max(word.len()) / 3).max(1)).map(|(_, c)| c)
}

/// Edit distance (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

impl Scheme {
    /// Its line in the catalogue; `None` for foreign ones.
    pub fn entry(&self) -> Option<&'static Entry> {
        fn of<C: SchemeConfig>(_: &C) -> Option<&'static Entry> {
            struct Holder<C>(std::marker::PhantomData<C>);
            impl<C: SchemeConfig> Holder<C> {
                const E: &'static Entry = &C::ENTRY;
            }
            Some(Holder::<C>::E)
        }
        each_scheme!(self, c => of(c), _ => None, _ => None)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        each_scheme!(self, c => name_of(c), w => &w.name, a => &a.name)
    }

    /// The sender's slots that the scheme itself fills.
    pub fn sender_part(&self) -> Option<SenderPart> {
        if let Scheme::ForeignWindow(w, recovery) = self {
            return Some(SenderPart { window: WindowKind::Foreign(w.clone()), recovery: *recovery });
        }
        each_scheme!(self, c => c.sender(), _ => None, _ => None)
    }

    /// The agent that the scheme installs.
    pub fn agent(&self) -> Option<AnyAgent> {
        each_scheme!(self, c => c.agent(), _ => None, a => Some(AnyAgent::Foreign((a.make)())))
    }

    /// The relay that the scheme installs.
    pub fn relay(&self) -> Option<Box<dyn Relay>> {
        each_scheme!(self, c => c.relay(), _ => None, _ => None)
    }

    /// The settings as JSON.
    pub fn settings(&self) -> Map<String, Value> {
        let value = each_scheme!(self, c => serde_json::to_value(c).unwrap_or_default(), _ => Value::Null, _ => Value::Null);
        match value {
            Value::Object(m) => m,
            _ => Map::new(),
        }
    }

    /// The role that a scenario must have a node for.
    pub fn role(&self) -> Option<Role> {
        match self {
            Scheme::ForeignAgent(_) => Some(Role::BaseStation),
            _ => self.entry().and_then(|e| e.role),
        }
    }
}

fn name_of<C: SchemeConfig>(_: &C) -> &'static str {
    C::ENTRY.name
}

/// A scheme as a scenario or a command line names it.
#[derive(Clone, Debug)]
pub struct SchemeChoice {
    /// Unique in a comparison: the short form unless one was given.
    pub label: String,
    /// The scheme.
    pub scheme: Scheme,
}

impl Default for SchemeChoice {
    fn default() -> Self {
        SchemeChoice { label: "newreno".into(), scheme: Scheme::Newreno(Newreno::default()) }
    }
}

/// The form of a scheme in a file: a short form or a table.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a scheme such as \"reno\", \"packet-control:dupack_threshold=12\" or { name = \"packet-control\", dupack_threshold = 12 }"
)]
pub enum SchemeText {
    /// "packet-control:dupack_threshold=12".
    Short(String),
    /// `{ name = "packet-control", dupack_threshold = 12, label = "D = 12" }`.
    Table(Map<String, Value>),
}

impl SchemeChoice {
    /// Reads `name` or `name:key=value:key=value`.
    pub fn parse(text: &str) -> Result<SchemeChoice, String> {
        let mut parts = split_short(text.trim()).into_iter();
        let name = parts.next().unwrap_or_default();
        let mut settings = Map::new();
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                return Err(format!("scheme \"{text}\": expected key=value after the colon, found \"{part}\""));
            };
            settings.insert(key.trim().to_string(), value_of(value.trim()));
        }
        SchemeChoice::build(&name, settings, Some(text.trim()))
    }

    /// Reads either form.
    pub fn from_text(text: &SchemeText) -> Result<SchemeChoice, String> {
        match text {
            SchemeText::Short(s) => SchemeChoice::parse(s),
            SchemeText::Table(t) => {
                let mut settings = t.clone();
                let Some(Value::String(name)) = settings.shift_remove("name") else {
                    return Err("a scheme table needs `name = \"…\"`".into());
                };
                SchemeChoice::build(&name, settings, None)
            }
        }
    }

    fn build(name: &str, mut settings: Map<String, Value>, short: Option<&str>) -> Result<SchemeChoice, String> {
        let label = match settings.shift_remove("label") {
            Some(Value::String(s)) => Some(s),
            Some(v) => return Err(format!("scheme `{name}`: label must be a string, found {v}")),
            None => None,
        };
        let given = settings.clone();
        let Some(scheme) = by_name(name, Value::Object(settings)) else {
            let names: Vec<&'static str> = all().iter().filter_map(|s| s.entry().map(|e| e.name)).collect();
            let hint = closest(name, names.iter().copied()).map(|n| format!(" (did you mean `{n}`?)")).unwrap_or_default();
            return Err(format!("there is no scheme `{name}`{hint}; known: {}", names.join(", ")));
        };
        let label = label.or_else(|| short.map(str::to_string)).unwrap_or_else(|| short_form(name, &given));
        Ok(SchemeChoice { label, scheme: scheme? })
    }

    /// Window rule and recovery of the sender, once the defaults of the flow are known.
    pub fn sender(&self) -> SenderPart {
        let over = self.scheme.settings().get("sender").and_then(Value::as_str).map(str::to_string);
        self.scheme
            .sender_part()
            .or_else(|| SchemeChoice::parse(&over?).ok()?.scheme.sender_part())
            .unwrap_or(SenderPart { window: WindowKind::Reno, recovery: RecoveryKind::Newreno })
    }
}

fn short_form(name: &str, settings: &Map<String, Value>) -> String {
    let mut s = name.to_string();
    for (k, v) in settings {
        let v = v.as_str().map_or_else(|| v.to_string(), str::to_string);
        s.push_str(&format!(":{k}={v}"));
    }
    s
}

/// Splits at colons outside of brackets, so that `sender=reno:recovery=newreno` is written `sender=(reno:recovery=newreno)`.
pub(crate) fn split_short(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ':' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

/// A value as in a TOML file, quotes optional.
fn value_of(text: &str) -> Value {
    let text = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')).unwrap_or(text);
    if let Ok(n) = text.parse::<i64>() {
        return n.into();
    }
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match text.parse::<f64>() {
            Ok(x) if x.is_finite() => serde_json::json!(x),
            _ => Value::String(text.trim_matches(['"', '\'']).to_string()),
        },
    }
}

/// One setting of a scheme.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// Name.
    pub name: String,
    /// Default.
    pub default: Value,
    /// Unit, if it has one.
    pub unit: Option<String>,
    /// What it does.
    pub doc: String,
}

/// The settings of a catalogue scheme, from its config type.
pub fn settings(scheme: &Scheme) -> Vec<Setting> {
    let schema = schema_of(scheme.name());
    scheme
        .settings()
        .into_iter()
        .map(|(name, default)| {
            let property = &schema["properties"][&name];
            let doc = property["description"].as_str().unwrap_or_default().replace('\n', " ");
            let unit = property["unit"].as_str().map(str::to_string);
            Setting { name, default, unit, doc }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_read_and_mistakes_named() {
        let c = SchemeChoice::parse("packet-control:dupack_threshold=12").unwrap();
        assert_eq!(c.label, "packet-control:dupack_threshold=12");
        assert_eq!(c.scheme.settings()["dupack_threshold"], 12);
        assert!(SchemeChoice::parse("packet-contol").unwrap_err().contains("did you mean `packet-control`"));
        assert!(SchemeChoice::parse("packet-control:dupack_treshold=12").unwrap_err().contains("did you mean `dupack_threshold`"));
        assert!(SchemeChoice::parse("packet-control:dupack_threshold=2").unwrap_err().contains("at least 3"));
    }

    #[test]
    fn an_agent_runs_over_the_sender_that_is_set() {
        assert_eq!(SchemeChoice::parse("snoop").unwrap().sender().recovery, RecoveryKind::Newreno);
        assert_eq!(SchemeChoice::parse("snoop:sender=reno").unwrap().sender().recovery, RecoveryKind::Reno);
        assert!(SchemeChoice::parse("snoop:sender=snoop").unwrap_err().contains("not a sender-side scheme"));
    }
}
