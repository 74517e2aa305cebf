//! TCP-ELN: explicit loss notification by the receiver, over SACK.
//!
//! Source: Buchholcz, Ziegler and Van Do, "TCP-ELN: on the protocol aspects and performance of
//! explicit loss notification for TCP over wireless networks", WICON 2005, as described in yun2009
//! (section 2.1): an idea like HACK's. Built as HACK whose sender knows that the retransmission is
//! in flight: duplicate ACKs for it do not count, other losses are detected as usual.
//!
//! Bad at: what HACK is bad at, except for the duplicate ACKs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{AnyAgent, Entry, Family, Group, RecoverySlot, SchemeConfig};
use crate::hack::{ASSUMPTIONS, CHANGES, HackAgent, ROLES};
use lasthop_core::role::Role;
use lasthop_tcp::recovery::{AfterHint, HintEntry, Recovery, RecoveryKind};

/// Each ELN is answered, whatever the run, and duplicate ACKs for what was sent again on one mean
/// nothing (`+eln-trust`).
pub static HINTS: HintEntry =
    HintEntry { name: "eln-trust", run: u32::MAX, holds: 3, after: AfterHint::Nothing };

/// Settings of TCP-ELN.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpEln {}

impl SchemeConfig for TcpEln {
    const ENTRY: Entry = Entry {
        name: "tcp-eln",
        family: Family::EndToEnd,
        group: Some(Group::ExplicitNotification),
        summary: "the receiver names damaged segments; duplicate ACKs for what was sent again do \
                  not count",
        paper: "Buchholcz et al., WICON 2005 (by what yun2009 tells)",
        changes: CHANGES,
        assumptions: ASSUMPTIONS,
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(Recovery {
            hints: Some(HINTS.rules()),
            ..Recovery::of(RecoveryKind::Sack)
        }))
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(HackAgent::default()))
    }

    fn agent_roles(&self) -> &[Role] {
        ROLES
    }
}
