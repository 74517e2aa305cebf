//! HACK-fixed: HACK whose sender does not treat the duplicate ACKs after an ELN as congestion.
//!
//! Source: yun2009, section 5.3 and figure 14, which names it and gives no rules; these are a
//! reconstruction. While the retransmission of a segment that an ELN named is in flight, no
//! duplicate ACK for it counts, and no other loss of the window is detected either, until it is
//! acknowledged or an RTO has passed. This makes it aggressive, as the paper says: congestion
//! losses in the same window as a loss of the radio cause no reduction. Everything else: `hack`.
//!
//! Bad at: a mix of the radio's losses and congestion; whatever HACK is bad at.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{AnyAgent, Entry, Family, Group, RecoverySlot, SchemeConfig};
use crate::hack::{ASSUMPTIONS, CHANGES, HackAgent, ROLES};
use lasthop_core::role::Role;
use lasthop_tcp::recovery::{AfterHint, HintEntry, Recovery, RecoveryKind};

/// As [`balakrishnan_eln::HINTS`](crate::balakrishnan_eln::HINTS), with a shield (`+eln-shield`).
pub static HINTS: HintEntry =
    HintEntry { name: "eln-shield", run: u32::MAX, holds: 3, after: AfterHint::Shield };

/// Settings of HACK-fixed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HackFixed {}

impl SchemeConfig for HackFixed {
    const ENTRY: Entry = Entry {
        name: "hack-fixed",
        family: Family::EndToEnd,
        group: Some(Group::ExplicitNotification),
        summary: "HACK with a shield against the duplicate ACKs that follow a loss of the radio",
        paper: "yun2009, section 5.3 (reconstructed)",
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
