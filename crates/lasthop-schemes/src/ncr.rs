//! Non-congestion robustness: a loss is detected only after duplicate ACKs for a whole window.
//!
//! Source: RFC 4653 (S. Bhandarkar, A. L. N. Reddy, M. Allman, E. Blanton 2006). Idea: reordering,
//! and losses that the link repairs, end within a round trip. So the threshold of three duplicate
//! ACKs grows to about one window, and meanwhile extended limited transmit keeps the ACK clock with
//! new data: one segment for every second one delivered (`careful`) or for each. If the hole is
//! filled in time, nothing changes; otherwise the reduction halves what was in flight at the first
//! duplicate. Deployed at: the sender, with SACK. Wire: nothing new. Without SACK, which the RFC
//! requires, each duplicate ACK counts as one segment. Bad at: real losses, which cost a round trip
//! more; small windows, where the timer expires first; a receive window that leaves no room for new
//! data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use crate::shared::base::Base;
use lasthop_tcp::recovery::Recovery;

/// Settings of NCR.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ncr {
    /// One new segment for every second one delivered (careful extended limited transmit);
    /// otherwise one for each (aggressive). RFC 4653 section 3.1 allows both; careful halves the
    /// rate until the loss is confirmed.
    pub careful: bool,
    /// The recovery to which it is added: "sack" (RFC 4653), "reno" or "newreno".
    pub base: Base,
}

impl Default for Ncr {
    fn default() -> Self {
        Ncr { careful: true, base: Base::Sack }
    }
}

impl SchemeConfig for Ncr {
    const ENTRY: Entry = Entry {
        name: "ncr",
        family: Family::EndToEnd,
        group: Some(Group::SpuriousLoss),
        summary: "believes in a loss only after duplicate ACKs for one window, and sends new data \
                  meanwhile",
        paper: "RFC 4653",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &["reordering ends within a round trip", "every loss means congestion"],
        ..Entry::DEFAULT
    };

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(Recovery { ncr: Some(self.careful), ..self.base.recovery() }))
    }
}

#[cfg(test)]
mod tests {
    use crate::catalogue::SchemeChoice;
    use lasthop_tcp::profile::{Profile, ProfileName};

    #[test]
    fn it_is_careful_and_uses_sack_unless_set() {
        let recovery = |scheme: &str| {
            SchemeChoice::parse(scheme)
                .unwrap()
                .sender(&Profile::named(ProfileName::Ns235))
                .recovery
                .to_string()
        };
        assert_eq!(recovery("ncr"), "sack+ncr");
        assert_eq!(recovery("ncr:careful=false:base=newreno"), "newreno+ncr-aggressive");
    }
}
