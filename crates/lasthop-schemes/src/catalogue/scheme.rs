//! What a scheme says of itself and provides, and the schemes of the registry.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::slots::{AnyAgent, AnyWindow, ForeignAgent, ForeignWindow, RecoverySlot};
use lasthop_core::diagnostics::{Mistake, hint};
use lasthop_core::framing::AnyFraming;
use lasthop_core::leg::Relay;
use lasthop_core::role::Role;
use lasthop_core::units::Size;
use lasthop_tcp::profile::Profile;
use lasthop_tcp::receiver::ReceiverRule;
use lasthop_tcp::recovery::Recovery;
use lasthop_tcp::sender::Limit;
use lasthop_tcp::window::Needs;

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

/// A family of schemes: it has a panel in figures and a heading in lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Finds and repairs losses; every loss means congestion.
    LossRecovery,
    /// Tells reordering and delay spikes from losses, or takes back what it did about them.
    SpuriousLoss,
    /// Sets the window after a loss to what it measured the path to carry.
    BandwidthEstimation,
    /// Steers by delay, or tells by delay, jitter or marks whether a loss was congestion.
    LossDiscrimination,
    /// Is told which losses are the radio's, by the link layer or by the receiver.
    ExplicitNotification,
    /// What operating systems and content networks run today.
    Today,
}

/// What a scheme changes, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Footprint {
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

impl Footprint {
    /// Changes nothing.
    pub const NONE: Footprint = Footprint {
        sender: false,
        receiver: false,
        base_station: false,
        link: false,
        proxy: false,
        wire: false,
    };
}

/// What the catalogue says of a scheme.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name.
    pub name: &'static str,
    /// Family.
    pub family: Family,
    /// Group within the family; every end-to-end scheme has one.
    pub group: Option<Group>,
    /// One line.
    pub summary: &'static str,
    /// Source.
    pub paper: &'static str,
    /// What it changes.
    pub changes: Footprint,
    /// What must hold for it to work well.
    pub assumptions: &'static [&'static str],
    /// The role that a scenario must have a node for.
    pub role: Option<Role>,
    /// Where it harms others, and why: "outside a private LAN: …". `None` for what may be let loose
    /// anywhere.
    pub unsafe_: Option<&'static str>,
    /// Needs knowledge that only a simulator has.
    pub simulation_only: bool,
}

impl Entry {
    /// What an entry need not say.
    pub const DEFAULT: Entry = Entry {
        name: "",
        family: Family::EndToEnd,
        group: None,
        summary: "",
        paper: "",
        changes: Footprint::NONE,
        assumptions: &[],
        role: None,
        unsafe_: None,
        simulation_only: false,
    };
}

/// A setting that bounds the throughput of a flow whose path holds more: a relay's buffer, an
/// agent's cache, a fixed window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// What limits the flow while it binds.
    pub limit: Limit,
    /// Name of the setting.
    pub setting: &'static str,
    /// Its value.
    pub value: Size,
    /// It was given; otherwise it is the default.
    pub given: bool,
    /// Its default follows the path where the profile does not ask for the published value.
    pub follows_path: bool,
}

impl Bound {
    /// A setting whose default follows the path.
    pub fn of_path(
        limit: Limit,
        setting: &'static str,
        given: Option<Size>,
        published: Size,
    ) -> Bound {
        Bound {
            limit,
            setting,
            value: given.unwrap_or(published),
            given: given.is_some(),
            follows_path: true,
        }
    }

    /// A setting with one default.
    pub fn fixed(
        limit: Limit,
        setting: &'static str,
        given: Option<Size>,
        published: Size,
    ) -> Bound {
        Bound { follows_path: false, ..Bound::of_path(limit, setting, given, published) }
    }
}

/// The settings of a scheme: they construct its components, and document it for the schema.
///
/// # Examples
///
/// ```
/// use lasthop_schemes::catalogue::SchemeConfig;
/// use lasthop_schemes::cubic::Cubic;
///
/// let settings = Cubic::default();
/// assert_eq!(Cubic::ENTRY.name, "cubic");
/// assert_eq!(settings.check(), Ok(()));
/// // CUBIC is a window rule; it has no agent.
/// assert!(settings.window().is_some() && settings.agent().is_none());
/// ```
pub trait SchemeConfig:
    Default + Clone + PartialEq + Serialize + DeserializeOwned + JsonSchema
{
    /// The entry of the scheme in the catalogue.
    const ENTRY: Entry;

    /// Checks the settings against each other.
    ///
    /// # Errors
    ///
    /// A message that names the setting and what is allowed.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// A window rule for one flow, if it has one; by default RFC 5681's for end-to-end schemes.
    fn window(&self) -> Option<AnyWindow> {
        (Self::ENTRY.family == Family::EndToEnd).then(|| AnyWindow::Reno(Box::default()))
    }

    /// The loss recovery that the scheme prescribes or proposes, if it does.
    fn recovery(&self) -> Option<RecoverySlot> {
        None
    }

    /// Requirements of the window rule and the recovery on the connection.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// The receiver rule for one flow, if the scheme has one.
    fn receiver(&self) -> Option<Box<dyn ReceiverRule>> {
        None
    }

    /// The agent, if it has one.
    fn agent(&self) -> Option<AnyAgent> {
        None
    }

    /// The agent for a node with this role, if it depends on the role.
    fn agent_at(&self, _role: Role) -> Option<AnyAgent> {
        self.agent()
    }

    /// Roles of the nodes with an agent: every node with one of them on the path of a flow.
    fn agent_roles(&self) -> &[Role] {
        &[Role::BaseStation]
    }

    /// The fragmentation of its flows' data on the last hop, if the scheme requires it.
    fn framing(&self) -> Option<AnyFraming> {
        None
    }

    /// The relay, if it has one.
    fn relay(&self) -> Option<Box<dyn Relay>> {
        None
    }

    /// Roles of the nodes that can have the relay: it runs at the first such node on a flow's path.
    fn relay_roles(&self) -> &[Role] {
        &[Role::BaseStation]
    }

    /// The window rule of the relay's outbound leg for one flow, if the scheme has a separate one.
    fn outbound_window(&self) -> Option<AnyWindow> {
        None
    }

    /// The recovery of the relay's outbound leg, if that is not the flow's.
    fn outbound_recovery(&self) -> Option<Recovery> {
        None
    }

    /// Changes the constants and switches of the relay's outbound leg.
    fn override_outbound_profile(&self, _profile: &mut Profile) {}

    /// The settings that bound the throughput of its flows.
    fn bounds(&self) -> Vec<Bound> {
        Vec::new()
    }

    /// Sets one of them.
    fn set_bound(&mut self, _setting: &str, _value: Size) {}

    /// It offers the sender smaller receive windows than there is room for.
    const STEERS_RECEIVE_WINDOW: bool = false;

    /// The agent stands only at that of its nodes on a flow's path which is nearest to the station.
    const SINGLETON_ON_PATH: bool = false;

    /// Changes the constants and switches of its flows to what the scheme prescribes, whatever the
    /// profile says.
    fn override_profile(&self, _profile: &mut Profile) {}

    /// The sender to run over, if the settings name one ("newreno", "reno:recovery=newreno").
    fn base_sender(&self) -> Option<&str> {
        None
    }

    /// True if that sender has to accept notices of the link layer.
    const NEEDS_ELN_SENDER: bool = false;

    /// True if the agent can do nothing without the link layer's reports of departures or arrivals.
    const NEEDS_LINK_REPORTS: bool = false;
}

macro_rules! catalogue {
    ($($variant:ident in $module:ident,)*) => {
        $(use crate::$module::$variant;)*

        /// A scheme with its settings.
        #[derive(Clone, Debug)]
        pub enum Scheme {
            $(#[doc = concat!("`", stringify!($variant), "`.")] $variant($variant),)*
            /// A window rule from another crate or from Python.
            ForeignWindow(ForeignWindow),
            /// An agent from another crate or from Python.
            ForeignAgent(ForeignAgent),
        }

        /// All schemes of the catalogue, with their default settings.
        pub fn all() -> Vec<Scheme> {
            vec![$(Scheme::$variant($variant::default())),*]
        }

        pub(super) fn by_name(name: &str, settings: Value) -> Option<Result<Scheme, String>> {
            match name {
                $(n if n == $variant::ENTRY.name => {
                    Some(read::<$variant>(settings).map(Scheme::$variant))
                })*
                _ => None,
            }
        }

        macro_rules! each_scheme {
            ($s:expr, $c:ident => $e:expr, $w:pat => $fw:expr, $a:pat => $fa:expr) => {
                match $s {
                    $(Scheme::$variant($c) => $e,)*
                    Scheme::ForeignWindow($w) => $fw,
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
macro_rules! entries {
    ($($list:tt)*) => { with_settings! { catalogue: [] $($list)* } };
}
with_schemes!(entries);

/// The settings of a scheme. What does not depend on their type is in other functions, so that it
/// is compiled once and not for each scheme.
fn read<C: SchemeConfig>(settings: Value) -> Result<C, String> {
    let name = C::ENTRY.name;
    check_keys(name, &settings, serde_json::to_value(C::default()).unwrap_or_default())?;
    let parse = |settings: Value| serde_json::from_value::<C>(settings).map_err(|e| e.to_string());
    let config = parse(settings.clone()).map_err(|message| {
        let fault = |alone: Value| parse(alone).err();
        format!("scheme `{name}`: {}", at_fault(settings, message, &fault))
    })?;
    config.check().map_err(|e| format!("scheme `{name}`: {e}"))?;
    Ok(config)
}

/// Checks that a scheme has all these settings; `default` are all that it has.
fn check_keys(name: &str, settings: &Value, default: Value) -> Result<(), String> {
    let allowed: Vec<String> = match default {
        Value::Object(m) => m.into_iter().map(|(key, _)| key).collect(),
        _ => Vec::new(),
    };
    let Value::Object(settings) = settings else { return Ok(()) };
    let Some(key) = settings.keys().find(|key| !allowed.contains(key)) else { return Ok(()) };
    let hint = hint(key, allowed.iter().map(String::as_str));
    let list = if allowed.is_empty() {
        "it has none".to_string()
    } else {
        format!("allowed: {}", allowed.join(", "))
    };
    Err(format!("scheme `{name}` has no setting `{key}`{hint}; {list}"))
}

/// The setting that cannot be read, and why; `fault`: what is wrong with some of them alone.
fn at_fault(settings: Value, message: String, fault: &dyn Fn(Value) -> Option<String>) -> String {
    let Value::Object(settings) = settings else { return message };
    let alone = |(key, value): (String, Value)| {
        let message = fault(serde_json::json!({ &key: value }))?;
        Some(format!("{key}: {}", Mistake::from_serde(&message)))
    };
    settings.into_iter().find_map(alone).unwrap_or(message)
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

    /// A window rule for one flow, if the scheme has one.
    pub fn window(&self) -> Option<AnyWindow> {
        each_scheme!(self, c => c.window(), w => Some(AnyWindow::Foreign((w.make)())), _ => None)
    }

    /// The recovery under its window rule.
    pub fn recovery(&self) -> Option<RecoverySlot> {
        each_scheme!(self, c => c.recovery(), w => Some(w.recovery), _ => None)
    }

    /// What it needs of the connection.
    pub fn needs(&self) -> Needs {
        each_scheme!(self, c => c.needs(), w => w.needs, _ => Needs::default())
    }

    /// The receiver rule for one flow, if the scheme has one.
    pub fn receiver(&self) -> Option<Box<dyn ReceiverRule>> {
        each_scheme!(self, c => c.receiver(), _ => None, _ => None)
    }

    /// Changes the constants and switches of its flows.
    pub fn override_profile(&self, profile: &mut Profile) {
        each_scheme!(self, c => c.override_profile(profile), _ => {}, _ => {});
    }

    /// The sender that the settings name.
    pub(super) fn base_sender(&self) -> Option<&str> {
        each_scheme!(self, c => c.base_sender(), _ => None, a => a.sender.as_deref())
    }

    /// That sender has to accept notices of the link layer.
    pub(super) fn needs_eln_sender(&self) -> bool {
        fn of<C: SchemeConfig>(_: &C) -> bool {
            C::NEEDS_ELN_SENDER
        }
        each_scheme!(self, c => of(c), _ => false, _ => false)
    }

    /// The agent can do nothing without the link layer's reports of departures or arrivals.
    pub fn needs_link_reports(&self) -> bool {
        fn of<C: SchemeConfig>(_: &C) -> bool {
            C::NEEDS_LINK_REPORTS
        }
        each_scheme!(self, c => of(c), _ => false, _ => false)
    }

    /// The agent that the scheme installs.
    pub fn agent(&self) -> Option<AnyAgent> {
        each_scheme!(self, c => c.agent(), _ => None, a => Some(AnyAgent::Foreign((a.make)())))
    }

    /// The agent that the scheme installs at a node with this role.
    pub fn agent_at(&self, role: Role) -> Option<AnyAgent> {
        each_scheme!(
            self,
            c => c.agent_at(role),
            _ => None,
            a => Some(AnyAgent::Foreign((a.make)()))
        )
    }

    /// The roles of the nodes that its agents stand at; none without an agent.
    pub fn agent_roles(&self) -> &[Role] {
        each_scheme!(
            self,
            c => if c.agent().is_some() { c.agent_roles() } else { &[] },
            _ => &[],
            a => &a.roles
        )
    }

    /// The fragmentation of its flows' data on the last hop, if the scheme requires it.
    pub fn framing(&self) -> Option<AnyFraming> {
        each_scheme!(self, c => c.framing(), _ => None, _ => None)
    }

    /// The relay that the scheme installs.
    pub fn relay(&self) -> Option<Box<dyn Relay>> {
        each_scheme!(self, c => c.relay(), _ => None, _ => None)
    }

    /// The roles of the nodes that its relay may stand at: at the first of them that a flow's path
    /// has. None without a relay.
    pub fn relay_roles(&self) -> &[Role] {
        if self.relay().is_none() {
            return &[];
        }
        each_scheme!(self, c => c.relay_roles(), _ => &[], _ => &[])
    }

    /// The window rule of the relay's outbound leg for one flow, if the scheme has a separate one.
    pub fn outbound_window(&self) -> Option<AnyWindow> {
        each_scheme!(self, c => c.outbound_window(), _ => None, _ => None)
    }

    /// The recovery of the relay's outbound leg, if that is not the flow's.
    pub fn outbound_recovery(&self) -> Option<Recovery> {
        each_scheme!(self, c => c.outbound_recovery(), _ => None, _ => None)
    }

    /// Changes the constants and switches of the relay's outbound leg.
    pub(super) fn override_outbound_profile(&self, profile: &mut Profile) {
        each_scheme!(self, c => c.override_outbound_profile(profile), _ => {}, _ => {});
    }

    /// The settings that bound the throughput of its flows.
    pub fn bounds(&self) -> Vec<Bound> {
        each_scheme!(self, c => c.bounds(), _ => Vec::new(), _ => Vec::new())
    }

    /// Sets one of them.
    pub fn set_bound(&mut self, setting: &str, value: Size) {
        each_scheme!(self, c => c.set_bound(setting, value), _ => {}, _ => {});
    }

    /// It offers the sender smaller receive windows than there is room for.
    pub fn steers_receive_window(&self) -> bool {
        fn of<C: SchemeConfig>(_: &C) -> bool {
            C::STEERS_RECEIVE_WINDOW
        }
        each_scheme!(self, c => of(c), _ => false, _ => false)
    }

    /// Its agent stands only at that of its nodes on a flow's path which is nearest to the station.
    pub fn one_agent(&self) -> bool {
        fn of<C: SchemeConfig>(_: &C) -> bool {
            C::SINGLETON_ON_PATH
        }
        each_scheme!(self, c => of(c), _ => false, _ => false)
    }

    /// The settings as JSON.
    pub fn settings(&self) -> Map<String, Value> {
        let value = each_scheme!(
            self,
            c => serde_json::to_value(c).unwrap_or_default(),
            w => Value::Object(w.settings.clone()),
            a => Value::Object(a.settings.clone())
        );
        match value {
            Value::Object(m) => m,
            _ => Map::new(),
        }
    }

    /// The role that a scenario must have a node for; of an agent that may stand at several kinds
    /// of nodes one is enough.
    pub fn role(&self) -> Option<Role> {
        match self {
            Scheme::ForeignAgent(a) => a.roles.first().copied(),
            _ => self.entry().and_then(|e| e.role),
        }
    }
}

fn name_of<C: SchemeConfig>(_: &C) -> &'static str {
    C::ENTRY.name
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
    fn every_end_to_end_scheme_has_a_group() {
        for entry in all().iter().filter_map(Scheme::entry) {
            assert_eq!(
                entry.group.is_some(),
                entry.family == Family::EndToEnd,
                "{}: `group` in its ENTRY",
                entry.name
            );
        }
    }
}
