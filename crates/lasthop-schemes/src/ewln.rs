//! EWLN: explicit wireless loss notification, HACK's idea without SACK.
//!
//! Source: named in yun2009, section 2.1, as based on an idea like HACK's; the paper gives no
//! rules. Built as HACK over NewReno: the receiver's ELN ACK names the damaged segment, the sender
//! retransmits it without a reduction, and the duplicate ACKs that follow count as usual. That the
//! ACK names the segment, in addition to a reserved bit, is our choice.
//!
//! Bad at: what HACK is bad at, and several losses in one round trip.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::balakrishnan_eln;
use crate::catalogue::{AnyAgent, Entry, Family, Group, RecoverySlot, SchemeConfig};
use crate::hack::{ASSUMPTIONS, CHANGES, HackAgent, ROLES};
use lasthop_core::role::Role;
use lasthop_tcp::recovery::{Recovery, RecoveryKind};

/// Settings of EWLN.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ewln {}

impl SchemeConfig for Ewln {
    const ENTRY: Entry = Entry {
        name: "ewln",
        family: Family::EndToEnd,
        group: Some(Group::ExplicitNotification),
        summary: "explicit wireless loss notification: HACK over NewReno",
        paper: "named in yun2009 (reconstructed)",
        changes: CHANGES,
        assumptions: ASSUMPTIONS,
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(Recovery {
            hints: Some(balakrishnan_eln::HINTS.rules()),
            ..Recovery::of(RecoveryKind::Newreno)
        }))
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(HackAgent::default()))
    }

    fn agent_roles(&self) -> &[Role] {
        ROLES
    }
}
