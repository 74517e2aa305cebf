//! TCP NewReno: Reno that remains in fast recovery through partial ACKs.
//!
//! Source: RFC 6582. Deployed at: the sender. Wire: nothing. Switches of the profile decide whether
//! each partial ACK restarts the timer, and whether it deflates the window. Bad at: many losses per
//! window (one retransmission per round trip).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};

/// Settings of NewReno: none.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Newreno {}

impl SchemeConfig for Newreno {
    const ENTRY: Entry = Entry {
        name: "newreno",
        family: Family::EndToEnd,
        group: Some(Group::LossRecovery),
        summary: "Reno that repairs several losses of one window, one per round trip",
        paper: "RFC 6582",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &["every loss means congestion"],
        ..Entry::DEFAULT
    };

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(Recovery::of(RecoveryKind::Newreno)))
    }
}
