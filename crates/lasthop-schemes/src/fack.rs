//! FACK: forward acknowledgment.
//!
//! Source: M. Mathis and J. Mahdavi, "Forward Acknowledgment: Refining TCP Congestion Control",
//! SIGCOMM 1996. Idea: the highest byte that SACK reports shows what has left the network;
//! everything below it that is not reported is lost. Recovery begins when more than three segments
//! lie below it. The paper's refinements against a second reduction and a burst (overdamping,
//! rampdown) are left out; proportional rate reduction replaces rampdown. Deployed at: sender and
//! receiver (SACK). Wire: SACK options. Window rule: Reno's. Bad at: reordering, each case of which
//! is treated as a loss.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};

/// Settings of FACK.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fack {
    /// Proportional rate reduction (RFC 9937) instead of an immediate halving.
    pub prr: bool,
}

impl SchemeConfig for Fack {
    const ENTRY: Entry = Entry {
        name: "fack",
        family: Family::EndToEnd,
        group: Some(Group::LossRecovery),
        summary: "takes everything below the highest reported byte for lost, without waiting for \
                  duplicate ACKs",
        paper: "Mathis and Mahdavi 1996",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "every loss means congestion",
            "nothing is reordered by more than three segments",
        ],
        ..Entry::DEFAULT
    };

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(Recovery { prr: self.prr, ..Recovery::of(RecoveryKind::Fack) }))
    }
}
