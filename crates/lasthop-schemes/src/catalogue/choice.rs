//! A scheme by name: `name:key=value` on the command line, a table in a file.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::scheme::{Scheme, all, by_name};
use super::slots::{AnyWindow, ForeignAgent, ForeignWindow, RecoverySlot};
use lasthop_core::agent::Agent;
use lasthop_core::diagnostics::hint;
use lasthop_core::role::Role;
use lasthop_tcp::profile::{DefaultRecovery, PapersOwn, Profile};
use lasthop_tcp::receiver::ReceiverRule;
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::window::{Needs, WindowRule};

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
        SchemeChoice { label: "newreno".into(), scheme: Scheme::Newreno(Default::default()) }
    }
}

/// The schemes that a host has besides those of the catalogue, such as classes in Python.
///
/// # Examples
///
/// A host that has a name for settings that it uses often:
///
/// ```
/// use lasthop_schemes::catalogue::{ForeignSchemes, SchemeChoice};
/// use serde_json::{Map, Value};
///
/// struct Presets;
///
/// impl ForeignSchemes for Presets {
///     fn find(
///         &self,
///         name: &str,
///         settings: &Map<String, Value>,
///     ) -> Option<Result<SchemeChoice, String>> {
///         if name != "patient" {
///             return None;
///         }
///         if !settings.is_empty() {
///             return Some(Err("scheme \"patient\" has no settings".into()));
///         }
///         Some(SchemeChoice::parse("packet-control:dupack_threshold=12"))
///     }
/// }
///
/// let choice = SchemeChoice::parse_with("patient", &Presets).unwrap();
/// assert_eq!(choice.scheme.name(), "packet-control");
/// assert!(SchemeChoice::parse_with("patient:factor=2", &Presets).is_err());
/// // Schemes of the catalogue are found as without a host.
/// assert!(SchemeChoice::parse_with("newreno", &Presets).is_ok());
/// ```
pub trait ForeignSchemes {
    /// The scheme with this name and these settings; `None` if the host has none of this name. Its
    /// label is used if the text gives none.
    ///
    /// # Errors
    ///
    /// A message if the name is one of the host's, but the scheme cannot be made.
    fn find(
        &self,
        name: &str,
        settings: &Map<String, Value>,
    ) -> Option<Result<SchemeChoice, String>>;
}

/// No schemes but those of the catalogue.
impl ForeignSchemes for () {
    fn find(&self, _: &str, _: &Map<String, Value>) -> Option<Result<SchemeChoice, String>> {
        None
    }
}

/// The form of a scheme in a file: a short form or a table.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a scheme such as \"reno\", \"packet-control:dupack_threshold=12\" or { \
                 name = \"packet-control\", dupack_threshold = 12 }"
)]
pub enum SchemeText {
    /// "packet-control:dupack_threshold=12".
    Short(String),
    /// `{ name = "packet-control", dupack_threshold = 12, label = "D = 12" }`.
    Table(Map<String, Value>),
}

impl SchemeChoice {
    /// A window rule from outside the core, without settings; `name` is also its label.
    pub fn of_rule(
        name: &str,
        needs: Needs,
        recovery: RecoverySlot,
        make: impl Fn() -> Box<dyn WindowRule> + Send + Sync + 'static,
    ) -> SchemeChoice {
        let settings = Map::new();
        let rule =
            ForeignWindow { name: name.into(), settings, make: Arc::new(make), needs, recovery };
        SchemeChoice { label: name.into(), scheme: Scheme::ForeignWindow(rule) }
    }

    /// An agent from outside the core, without settings, at the nodes with these roles; its flows
    /// have the sender of the profile.
    pub fn of_agent(
        name: &str,
        roles: &[Role],
        make: impl Fn() -> Box<dyn Agent> + Send + Sync + 'static,
    ) -> SchemeChoice {
        let (settings, roles) = (Map::new(), roles.to_vec());
        let agent =
            ForeignAgent { name: name.into(), settings, sender: None, roles, make: Arc::new(make) };
        SchemeChoice { label: name.into(), scheme: Scheme::ForeignAgent(agent) }
    }

    /// The scheme of a scenario that names none.
    pub fn of_profile(profile: &Profile) -> SchemeChoice {
        SchemeChoice::parse(profile.default_scheme()).unwrap_or_default()
    }

    /// Reads `name` or `name:key=value:key=value`.
    ///
    /// # Errors
    ///
    /// If there is no such scheme or setting, or a value is not allowed; the message names what is.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_schemes::catalogue::SchemeChoice;
    ///
    /// let choice = SchemeChoice::parse("packet-control:dupack_threshold=6").unwrap();
    /// assert_eq!(choice.scheme.name(), "packet-control");
    /// // The error of a misspelt name suggests the closest one.
    /// assert!(SchemeChoice::parse("newrino").unwrap_err().contains("newreno"));
    /// ```
    pub fn parse(text: &str) -> Result<SchemeChoice, String> {
        SchemeChoice::parse_with(text, &())
    }

    /// Reads `name` or `name:key=value:key=value`, the name of a scheme of the catalogue or of
    /// `foreign`; a name that begins with a file of Python contains a colon (`mine.py:Mine`).
    ///
    /// # Errors
    ///
    /// As [`SchemeChoice::parse`], or the error of `foreign`.
    pub fn parse_with(text: &str, foreign: &dyn ForeignSchemes) -> Result<SchemeChoice, String> {
        let mut parts = split_short(text.trim()).into_iter();
        let mut name = parts.next().unwrap_or_default();
        if name.ends_with(".py")
            && let Some(class) = parts.next()
        {
            name = format!("{name}:{class}");
        }
        let mut settings = Map::new();
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                return Err(format!(
                    "scheme \"{text}\": expected key=value after the colon, found \"{part}\""
                ));
            };
            settings.insert(key.trim().to_string(), value_of(value.trim()));
        }
        SchemeChoice::build(&name, settings, Some(text.trim()), foreign)
    }

    /// Reads either form.
    ///
    /// # Errors
    ///
    /// As [`SchemeChoice::parse_with`].
    pub fn from_text(
        text: &SchemeText,
        foreign: &dyn ForeignSchemes,
    ) -> Result<SchemeChoice, String> {
        match text {
            SchemeText::Short(s) => SchemeChoice::parse_with(s, foreign),
            SchemeText::Table(t) => {
                let mut settings = t.clone();
                let Some(Value::String(name)) = settings.shift_remove("name") else {
                    return Err("a scheme table needs `name = \"…\"`".into());
                };
                SchemeChoice::build(&name, settings, None, foreign)
            }
        }
    }

    fn build(
        name: &str,
        mut settings: Map<String, Value>,
        short: Option<&str>,
        foreign: &dyn ForeignSchemes,
    ) -> Result<SchemeChoice, String> {
        let label = match settings.shift_remove("label") {
            Some(Value::String(s)) => Some(s),
            Some(v) => return Err(format!("scheme `{name}`: label must be a string, found {v}")),
            None => None,
        };
        if let Some(found) = foreign.find(name, &settings) {
            let found = found?;
            return Ok(SchemeChoice { label: label.unwrap_or(found.label), ..found });
        }
        let given = settings.clone();
        let Some(scheme) = by_name(name, Value::Object(settings)) else {
            let names: Vec<&'static str> =
                all().iter().filter_map(|s| s.entry().map(|e| e.name)).collect();
            let hint = hint(name, names.iter().copied());
            return Err(format!("there is no scheme `{name}`{hint}; known: {}", names.join(", ")));
        };
        let label =
            label.or_else(|| short.map(str::to_string)).unwrap_or_else(|| short_form(name, &given));
        let scheme = scheme?;
        check_sender(&scheme)?;
        Ok(SchemeChoice { label, scheme })
    }

    /// Window rule, recovery and needs of the sender under this profile.
    pub fn sender(&self, profile: &Profile) -> SenderPart {
        let over = self.scheme.base_sender().or(self
            .scheme
            .recovery()
            .is_none()
            .then_some(profile.default_scheme()));
        let scheme = over
            .and_then(|o| SchemeChoice::parse(o).ok())
            .map_or_else(|| self.scheme.clone(), |c| c.scheme);
        let slot =
            scheme.recovery().unwrap_or(RecoverySlot::Paper(Recovery::of(RecoveryKind::Newreno)));
        let mut recovery = match slot {
            RecoverySlot::Fixed(recovery) => recovery,
            RecoverySlot::ByProfile { ns2, other } => {
                if profile.profile.is_ns2() {
                    ns2
                } else {
                    other
                }
            }
            RecoverySlot::Paper(recovery) => match profile.recovery {
                DefaultRecovery::Named(PapersOwn::Paper) => recovery,
                DefaultRecovery::This(recovery) => recovery,
            },
        };
        if !profile.sack {
            recovery = recovery.without_sack();
        }
        let receiver =
            if self.scheme.receiver().is_some() { self.scheme.clone() } else { scheme.clone() };
        let needs = with_recovery(scheme.needs(), &recovery);
        SenderPart { scheme, recovery, needs, receiver, outer: self.scheme.clone() }
    }

    /// The sender of the relay's outbound leg, and that leg's profile.
    pub fn outbound(&self, profile: &Profile) -> (SenderPart, Profile) {
        let mut part = self.sender(profile);
        if let Some(recovery) = self.scheme.outbound_recovery() {
            (part.needs, part.recovery) = (with_recovery(part.needs, &recovery), recovery);
        }
        let mut profile = part.profile(profile);
        self.scheme.override_outbound_profile(&mut profile);
        (part, profile)
    }
}

/// What is needed of a connection, with what this recovery needs.
fn with_recovery(needs: Needs, recovery: &Recovery) -> Needs {
    let timestamps = needs.timestamps || recovery.needs_timestamps();
    Needs { sack: recovery.uses_sack(), timestamps, ..needs }
}

/// What a sender runs: which scheme's window rule, over which recovery.
#[derive(Clone, Debug)]
pub struct SenderPart {
    /// The scheme whose window rule it is.
    pub scheme: Scheme,
    /// Loss recovery.
    pub recovery: Recovery,
    /// What both need of the connection.
    pub needs: Needs,
    /// The scheme whose receiver it is: that of the agent, if it has one.
    pub receiver: Scheme,
    /// The scheme that was chosen: the same, or one that runs over it.
    pub outer: Scheme,
}

impl SenderPart {
    /// Name of the window rule in reports.
    pub fn window_name(&self) -> &str {
        match &self.scheme {
            // Not asked for a rule: one is made for each flow and for nothing else.
            Scheme::ForeignWindow(rule) => &rule.name,
            scheme => match scheme.window() {
                Some(AnyWindow::Reno(_)) | None => "reno",
                Some(_) => scheme.name(),
            },
        }
    }

    /// A window rule for one flow.
    pub fn window(&self) -> AnyWindow {
        self.scheme.window().unwrap_or(AnyWindow::Reno(Box::default()))
    }

    /// What the receiver does besides TCP's own, for one flow.
    pub fn receiver(&self) -> Option<Box<dyn ReceiverRule>> {
        let rule = self.receiver.receiver();
        match self.recovery.kind {
            RecoveryKind::Scheme(entry) => (entry.receiver)(self.recovery.setting, rule),
            _ => rule,
        }
    }

    /// The profile with what the slots need switched on, and with what the scheme prescribes.
    pub fn profile(&self, profile: &Profile) -> Profile {
        let needs = self.needs;
        let mut profile = Profile {
            timestamps: profile.timestamps || needs.timestamps,
            ecn: profile.ecn || needs.ecn || needs.l4s,
            accurate_ecn: profile.accurate_ecn || needs.l4s,
            l4s: profile.l4s || needs.l4s,
            sack: needs.sack,
            ..profile.clone()
        };
        self.scheme.override_profile(&mut profile);
        self.outer.override_profile(&mut profile);
        profile
    }
}

/// The sender that a scheme runs over, if its settings name one, exists and suits it.
fn check_sender(scheme: &Scheme) -> Result<(), String> {
    let (Some(over), name) = (scheme.base_sender(), scheme.name()) else { return Ok(()) };
    let sender = SchemeChoice::parse(over).map_err(|e| format!("scheme `{name}`: sender: {e}"))?;
    let Some(slot) = sender.scheme.recovery() else {
        return Err(format!("scheme `{name}`: sender = \"{over}\" is not a sender-side scheme"));
    };
    if scheme.needs_eln_sender() && !slot.recovery().accepts_eln() {
        return Err(format!(
            "scheme `{name}`: sender = \"{over}\" does not accept notices of the link layer; use \
             esack, or a sender with a recovery that ends in +elsn, such as \
             (reno:recovery=sack+elsn)"
        ));
    }
    Ok(())
}

fn short_form(name: &str, settings: &Map<String, Value>) -> String {
    let mut s = name.to_string();
    for (k, v) in settings {
        let v = v.as_str().map_or_else(|| v.to_string(), str::to_string);
        s.push_str(&format!(":{k}={v}"));
    }
    s
}

/// Splits at colons outside of brackets, so that `sender=reno:recovery=newreno` is written
/// `sender=(reno:recovery=newreno)`.
pub fn split_short(text: &str) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_tcp::profile::ProfileName;

    #[test]
    fn short_forms_are_read_and_mistakes_named() {
        let c = SchemeChoice::parse("packet-control:dupack_threshold=12").unwrap();
        assert_eq!(c.label, "packet-control:dupack_threshold=12");
        assert_eq!(c.scheme.settings()["dupack_threshold"], 12);
        assert!(
            SchemeChoice::parse("packet-contol")
                .unwrap_err()
                .contains("did you mean `packet-control`")
        );
        assert!(
            SchemeChoice::parse("packet-control:dupack_treshold=12")
                .unwrap_err()
                .contains("did you mean `dupack_threshold`")
        );
        assert!(
            SchemeChoice::parse("packet-control:dupack_threshold=2")
                .unwrap_err()
                .contains("at least 3")
        );
        let wrong = SchemeChoice::parse("snoop:max_flows=7:cache_packets=x").unwrap_err();
        assert_eq!(
            wrong,
            "scheme `snoop`: cache_packets: expected a whole number, not negative, found the \
             string \"x\""
        );
    }

    #[test]
    fn an_agent_runs_over_the_sender_that_is_set() {
        let recovery = |scheme: &str, profile| {
            let profile = Profile::named(profile);
            SchemeChoice::parse(scheme).unwrap().sender(&profile).recovery
        };
        assert_eq!(recovery("snoop", ProfileName::Rfc), Recovery::of(RecoveryKind::Newreno));
        assert_eq!(
            recovery("snoop:sender=reno", ProfileName::Rfc),
            Recovery::of(RecoveryKind::Reno)
        );
        // A profile's recovery replaces that of the window rule, unless one is set.
        assert_eq!(recovery("snoop:sender=reno", ProfileName::Linux), Recovery::LINUX);
        assert_eq!(
            recovery("reno:recovery=reno", ProfileName::Linux),
            Recovery::of(RecoveryKind::Reno)
        );
        assert_eq!(recovery("newreno", ProfileName::Linux), Recovery::of(RecoveryKind::Newreno));
        assert!(
            SchemeChoice::parse("snoop:sender=snoop")
                .unwrap_err()
                .contains("not a sender-side scheme")
        );
    }
}
