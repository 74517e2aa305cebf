//! TCP Tahoe: slow start, congestion avoidance and fast retransmit, without fast recovery.
//!
//! Source: V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988; rules as in ns-2's
//! `Agent/TCP`. Deployed at: the sender. Wire: nothing. Bad at: any loss; going back to slow start
//! sends delivered data again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};

/// Settings of Tahoe: none.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Tahoe {}

impl SchemeConfig for Tahoe {
    const ENTRY: Entry = Entry {
        name: "tahoe",
        family: Family::EndToEnd,
        group: Some(Group::LossRecovery),
        summary: "slow start, congestion avoidance and fast retransmit; every loss restarts slow \
                  start",
        paper: "Jacobson 1988",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &["every loss means congestion"],
        ..Entry::DEFAULT
    };

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(Recovery::of(RecoveryKind::Tahoe)))
    }
}
