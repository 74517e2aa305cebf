//! What the file of a scheme uses: it begins with `use crate::prelude::*;`.
//!
//! # Examples
//!
//! The smallest file with a window rule. Together with `mine { window },` in `registry.rs`, it is a
//! scheme of the catalogue. The names `Mine` and `MineWindow` follow from the file's name,
//! `mine.rs`; an agent would be `MineAgent`, with `mine { agent },` and `fn agent`:
//!
//! ```
//! # use lasthop_schemes::prelude::*;
//! /// Settings of mine.
//! #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
//! #[serde(deny_unknown_fields, default)]
//! pub struct Mine {
//!     /// Loss recovery under the rule, such as "rack+prr+f-rto"; unset: the profile's, or
//!     /// "newreno" if the profile has none.
//!     pub recovery: Option<RecoverySetting>,
//! }
//!
//! impl SchemeConfig for Mine {
//!     const ENTRY: Entry = Entry {
//!         name: "mine",
//!         family: Family::EndToEnd,
//!         group: Some(Group::LossRecovery),
//!         summary: "keeps 70 % of the window after a loss",
//!         paper: "RFC 5681",
//!         changes: Footprint { sender: true, ..Footprint::NONE },
//!         assumptions: &["every loss means congestion"],
//!         ..Entry::DEFAULT
//!     };
//!
//!     fn window(&self) -> Option<AnyWindow> {
//!         Some(AnyWindow::from(MineWindow))
//!     }
//!
//!     fn recovery(&self) -> Option<RecoverySlot> {
//!         Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Newreno)))
//!     }
//! }
//!
//! /// The window rule of mine.
//! pub struct MineWindow;
//!
//! #[window_rule]
//! impl WindowRule for MineWindow {
//!     fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
//!         grow(window, ack);
//!     }
//!
//!     fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
//!         reduce_to(window, loss, 0.7 * loss.base());
//!         LossClass::Unclassified
//!     }
//! }
//! # // In the crate, the registry makes this.
//! # impl From<MineWindow> for AnyWindow {
//! #     fn from(rule: MineWindow) -> AnyWindow {
//! #         AnyWindow::Foreign(Box::new(rule))
//! #     }
//! # }
//! # let mine = Mine::default();
//! # assert!(mine.window().is_some() && mine.recovery().is_some());
//! # assert_eq!(serde_json::to_value(&mine).unwrap(), serde_json::json!({ "recovery": null }));
//! ```

pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};

pub use crate::catalogue::{
    AnyAgent, AnyWindow, Bound, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot,
    SchemeConfig,
};
pub use lasthop_core::agent::{
    Action, Agent, Context, Destination, FlowTable, LinkChange, LinkEvent, Rewrite, Subscriptions,
    Verdict,
};
pub use lasthop_core::role::Role;
pub use lasthop_core::segment::{Direction, Flags, FlowId, Notice, NoticeKind, Segment};
pub use lasthop_core::units::{Duration, Rate, Share, Size, Time};
pub use lasthop_tcp::profile::Profile;
pub use lasthop_tcp::rate::RateSample;
pub use lasthop_tcp::recovery::{Recovery, RecoveryKind};
pub use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Lost, Needs, Report, Stamps, Start, Window, WindowRule, grow,
    halve, halve_unless, limit_to, reduce_to, window_rule,
};
