//! RACK-TLP: loss detection by time, and a probe for losses at the end of a transfer.
//!
//! Source: RFC 8985. Idea: a segment is lost if one that was sent later has arrived and more than a
//! round trip and a reordering window have passed since it was sent. The window is a quarter of the
//! smallest round-trip time, and D-SACK widens it up to one SRTT. If no ACK arrives for two round
//! trips, a probe is sent before the timer expires. Deployed at: sender and receiver (SACK). Wire:
//! SACK options. Window rule: Reno's. Bad at: reordering that lasts longer than one SRTT.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};

/// Settings of RACK-TLP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rack {
    /// Proportional rate reduction (RFC 9937), as RFC 8985 section 9.3 advises.
    pub prr: bool,
    /// Forward RTO recovery (RFC 5682).
    pub f_rto: bool,
    /// Undo a reduction if all its retransmissions were reported as duplicates (RFC 2883; as Linux
    /// does).
    pub dsack_undo: bool,
}

impl Default for Rack {
    fn default() -> Self {
        Rack { prr: true, f_rto: false, dsack_undo: false }
    }
}

impl SchemeConfig for Rack {
    const ENTRY: Entry = Entry {
        name: "rack",
        family: Family::EndToEnd,
        group: Some(Group::LossRecovery),
        summary: "finds losses by time instead of counting duplicate ACKs, and probes for losses \
                  at the end",
        paper: "RFC 8985",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "every loss means congestion",
            "reordering lasts shorter than one round trip",
        ],
        ..Entry::DEFAULT
    };

    fn recovery(&self) -> Option<RecoverySlot> {
        let Rack { prr, f_rto, dsack_undo } = *self;
        Some(RecoverySlot::Fixed(Recovery {
            prr,
            f_rto,
            dsack_undo,
            ..Recovery::of(RecoveryKind::Rack)
        }))
    }
}
