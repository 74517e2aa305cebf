//! What fills the slots: built-in window rules, receiver rules and agents by enum, with one boxed
//! variant for foreign ones.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::recovery::RecoverySetting;
use crate::shared::link_watch::LinkWatch;
use lasthop_core::agent::{Agent, Context, LinkChange, LinkEvent, Subscriptions, Verdict};
use lasthop_core::role::Role;
use lasthop_core::segment::{Direction, Flags, FlowId, Notice, Segment};
use lasthop_core::units::{Rate, Time};
use lasthop_tcp::recovery::Recovery;
use lasthop_tcp::window::{Ack, Loss, LossClass, Lost, Needs, Report, Start, Window, WindowRule};

/// How a scheme stands to the recovery under its window rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoverySlot {
    /// This one, whatever the profile says: it is what the scheme is about, or it was set.
    Fixed(Recovery),
    /// That of the scheme's paper; a profile that has a recovery (`linux`) puts that in its
    /// place.
    Paper(Recovery),
    /// One under the ns-2 profiles, another one under the rest.
    ByProfile {
        /// ns-2's.
        ns2: Recovery,
        /// That of the others.
        other: Recovery,
    },
}

impl RecoverySlot {
    /// The recovery itself, outside of the ns-2 profiles.
    pub fn recovery(self) -> Recovery {
        match self {
            RecoverySlot::Fixed(r)
            | RecoverySlot::Paper(r)
            | RecoverySlot::ByProfile { other: r, .. } => r,
        }
    }

    /// What was set, otherwise that of the paper.
    pub fn chosen(set: Option<RecoverySetting>, paper: Recovery) -> RecoverySlot {
        set.map_or(RecoverySlot::Paper(paper), |set| RecoverySlot::Fixed(set.0))
    }
}

/// A window rule from outside the core (another crate, Python): its name and a factory.
#[derive(Clone)]
pub struct ForeignWindow {
    /// Its name in reports.
    pub name: String,
    /// Its settings, for reports.
    pub settings: Map<String, Value>,
    /// Makes one for each flow.
    pub make: Arc<dyn Fn() -> Box<dyn WindowRule> + Send + Sync>,
    /// What it needs of the connection.
    pub needs: Needs,
    /// The recovery under it.
    pub recovery: RecoverySlot,
}

impl fmt::Debug for ForeignWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignWindow({}, {:?})", self.name, self.settings)
    }
}

macro_rules! windows {
    ($($module:ident)*) => { pastey::paste! {
        /// Any window rule: built-in ones by enum, one boxed variant for foreign ones.
        pub enum AnyWindow {
            $(
                #[doc = concat!("That of `", stringify!($module), "`.")]
                [<$module:camel>](Box<crate::$module::[<$module:camel Window>]>),
            )*
            /// From another crate or from Python.
            Foreign(Box<dyn WindowRule>),
        }

        $(
            impl From<crate::$module::[<$module:camel Window>]> for AnyWindow {
                fn from(rule: crate::$module::[<$module:camel Window>]) -> AnyWindow {
                    AnyWindow::[<$module:camel>](Box::new(rule))
                }
            }
        )*

        macro_rules! each_window {
            ($self:ident, $w:ident => $e:expr) => {
                match $self {
                    $(AnyWindow::[<$module:camel>]($w) => $e,)*
                    AnyWindow::Foreign($w) => $e,
                }
            };
        }
    } };
}
macro_rules! window_list {
    ($($list:tt)*) => { with_windows! { windows: [] $($list)* } };
}
with_schemes!(window_list);

impl WindowRule for AnyWindow {
    fn methods(&self) -> &[&'static str] {
        each_window!(self, w => w.methods())
    }
    #[inline]
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        each_window!(self, w => w.on_ack(window, ack));
    }
    fn grows_as_reno(&self) -> bool {
        each_window!(self, w => w.grows_as_reno())
    }
    fn on_established(&mut self, window: &mut Window, start: &Start) {
        each_window!(self, w => w.on_established(window, start));
    }
    fn on_any_ack(&mut self, window: &mut Window, ack: &Ack) {
        each_window!(self, w => w.on_any_ack(window, ack));
    }
    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        each_window!(self, w => w.on_loss(window, loss))
    }
    fn on_lost(&mut self, window: &mut Window, lost: &Lost) {
        each_window!(self, w => w.on_lost(window, lost));
    }
    fn on_dupack(&mut self, window: &mut Window, now: Time, count: u32) {
        each_window!(self, w => w.on_dupack(window, now, count));
    }
    fn on_recovered(&mut self, window: &mut Window, now: Time) {
        each_window!(self, w => w.on_recovered(window, now));
    }
    fn on_undo(&mut self, window: &mut Window, before: &Window, now: Time) {
        each_window!(self, w => w.on_undo(window, before, now));
    }
    fn on_sent(&mut self, window: &mut Window, now: Time, bytes: u32, flight: u64) {
        each_window!(self, w => w.on_sent(window, now, bytes, flight));
    }
    fn marks(&mut self, index: u64) -> Flags {
        each_window!(self, w => w.marks(index))
    }
    fn classifies(&self) -> bool {
        each_window!(self, w => w.classifies())
    }
    fn on_report(&mut self, window: &mut Window, report: &Report) {
        each_window!(self, w => w.on_report(window, report));
    }
    fn reports_alone(&self) -> bool {
        each_window!(self, w => w.reports_alone())
    }
    fn on_steered(&mut self, window: &mut Window, bytes: u64) {
        each_window!(self, w => w.on_steered(window, bytes));
    }
    fn on_notice(&mut self, window: &mut Window, now: Time, notice: &Notice) {
        each_window!(self, w => w.on_notice(window, now, notice));
    }
    fn pacing(&self) -> Option<Rate> {
        each_window!(self, w => w.pacing())
    }
    fn burst(&self) -> Option<u32> {
        each_window!(self, w => w.burst())
    }
    fn send_buffer_windows(&self) -> u64 {
        each_window!(self, w => w.send_buffer_windows())
    }
    fn deadline(&self) -> Time {
        each_window!(self, w => w.deadline())
    }
    fn on_timer(&mut self, window: &mut Window, now: Time) {
        each_window!(self, w => w.on_timer(window, now));
    }
    fn on_cwnd_limited(&mut self) {
        each_window!(self, w => w.on_cwnd_limited())
    }
    fn is_app_limited_by_rule(&self) -> bool {
        each_window!(self, w => w.is_app_limited_by_rule())
    }
    fn steers_recovery(&self) -> bool {
        each_window!(self, w => w.steers_recovery())
    }
}

macro_rules! agents {
    ($($module:ident)*) => { pastey::paste! {
        /// Any agent: built-in ones by enum, one boxed variant for foreign ones.
        pub enum AnyAgent {
            $(
                #[doc = concat!("That of `", stringify!($module), "`.")]
                [<$module:camel>](crate::$module::[<$module:camel Agent>]),
            )*
            /// The link-state notifier, which several schemes install.
            LinkWatch(LinkWatch),
            /// From another crate or from Python.
            Foreign(Box<dyn Agent>),
        }

        $(
            impl From<crate::$module::[<$module:camel Agent>]> for AnyAgent {
                fn from(agent: crate::$module::[<$module:camel Agent>]) -> AnyAgent {
                    AnyAgent::[<$module:camel>](agent)
                }
            }
        )*

        macro_rules! each_agent {
            ($self:ident, $a:ident => $e:expr) => {
                match $self {
                    $(AnyAgent::[<$module:camel>]($a) => $e,)*
                    AnyAgent::LinkWatch($a) => $e,
                    AnyAgent::Foreign($a) => $e,
                }
            };
        }
    } };
}
macro_rules! agent_list {
    ($($list:tt)*) => { with_agents! { agents: [] $($list)* } };
}
with_schemes!(agent_list);

impl From<LinkWatch> for AnyAgent {
    fn from(agent: LinkWatch) -> AnyAgent {
        AnyAgent::LinkWatch(agent)
    }
}

impl Agent for AnyAgent {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        each_agent!(self, a => a.on_segment(ctx, direction, segment))
    }
    fn on_timer(&mut self, ctx: &mut Context<'_>, id: u32) {
        each_agent!(self, a => a.on_timer(ctx, id));
    }
    fn is_passive(&self) -> bool {
        each_agent!(self, a => a.is_passive())
    }
    fn sends_acks(&self) -> bool {
        each_agent!(self, a => a.sends_acks())
    }
    fn subscribes(&self) -> Subscriptions {
        each_agent!(self, a => a.subscribes())
    }
    fn on_link_event(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        event: LinkEvent,
        segment: &Segment,
    ) {
        each_agent!(self, a => a.on_link_event(ctx, direction, event, segment));
    }
    fn on_link_change(
        &mut self,
        ctx: &mut Context<'_>,
        flow: FlowId,
        direction: Direction,
        change: LinkChange,
    ) {
        each_agent!(self, a => a.on_link_change(ctx, flow, direction, change));
    }
    fn on_notice(&mut self, ctx: &mut Context<'_>, notice: &Notice) {
        each_agent!(self, a => a.on_notice(ctx, notice));
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        each_agent!(self, a => a.counters())
    }
    #[inline]
    fn cache_binds(&self, flow: FlowId) -> bool {
        each_agent!(self, a => a.cache_binds(flow))
    }
    fn state_bytes(&self) -> usize {
        each_agent!(self, a => a.state_bytes())
    }
    fn export(&mut self, flow: FlowId) -> Option<Vec<u8>> {
        each_agent!(self, a => a.export(flow))
    }
    fn import(&mut self, flow: FlowId, state: &[u8]) -> bool {
        each_agent!(self, a => a.import(flow, state))
    }
}

/// An agent from outside the core: its name and a factory.
#[derive(Clone)]
pub struct ForeignAgent {
    /// Its name in reports.
    pub name: String,
    /// Its settings, for reports.
    pub settings: Map<String, Value>,
    /// The sender to run over ("newreno"); `None`: the profile's.
    pub sender: Option<String>,
    /// The roles of the nodes that it stands at; one of each on the path of a flow.
    pub roles: Vec<Role>,
    /// Makes one for a node.
    pub make: Arc<dyn Fn() -> Box<dyn Agent> + Send + Sync>,
}

impl fmt::Debug for ForeignAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignAgent({}, {:?}, {:?})", self.name, self.settings, self.sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::SchemeChoice;
    use lasthop_tcp::window::{Hooks, grow};

    /// A rule that says so opens the window as [`grow`] does: below and above ssthresh, by bytes,
    /// by ACKs and in whole segments.
    #[test]
    fn rules_that_grow_as_reno_do() {
        let mut rule = AnyWindow::from(crate::reno::RenoWindow);
        assert!(rule.grows_as_reno());
        for (cwnd, by_bytes, whole_segments) in [
            (2000.0, false, false),
            (9000.0, false, false),
            (9000.0, true, false),
            (9000.0, true, true),
        ] {
            let window = Window { cwnd, ssthresh: 5000.0 };
            let ack = Ack { by_bytes, whole_segments, ..crate::testing::harness::ack() };
            let (mut a, mut b) = (window, window);
            rule.on_ack(&mut a, &ack);
            grow(&mut b, &ack);
            assert_eq!(a, b);
        }
    }

    #[test]
    fn the_methods_of_a_rule_decide_what_the_sender_calls() {
        let hooks = |scheme: &str| {
            let choice = SchemeChoice::parse(scheme).unwrap();
            Hooks::of(choice.scheme.window().unwrap().methods())
        };
        let none = Hooks::default();
        let every_ack = Hooks { every_ack: true, ..none };
        let model = Hooks { every_send: true, pacing: true, rate_samples: true, ..every_ack };
        for (scheme, expected) in [
            ("reno", none),
            ("vegas", every_ack),
            ("cubic", every_ack),
            ("tibet", Hooks { every_send: true, ..every_ack }),
            ("casablanca", Hooks { marks: true, ..none }),
            ("wtcp", Hooks { pacing: true, ..none }),
            ("bbr", model),
            ("bbr3", model),
        ] {
            assert_eq!(hooks(scheme), expected, "{scheme}");
        }
    }
}
