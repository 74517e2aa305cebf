//! F-RTO: after a timeout, two new segments show whether the timeout was spurious.
//!
//! Source: RFC 5682 (P. Sarolahti, M. Kojo, K. Yamamoto, M. Hata 2009; first RFC 4138, 2005).
//! Deployed in Linux. Idea: after a timeout the first segment is retransmitted. If the next ACK
//! advances, two new segments follow instead of retransmissions; if the ACK after it advances too,
//! it acknowledges data that were never retransmitted, and the timeout was spurious. A duplicate
//! ACK shows that the timeout was right. With SACK, blocks that report original segments count as
//! well. Response: that of RFC 4015 (window restored in slow start without a burst, a more
//! conservative timer, no go-back-N); over RACK as in Linux, which restores the whole window. A
//! timeout that repeats before any ACK has arrived is evaluated together with the first, as in
//! Linux; RFC 5682 leaves it to the usual recovery. Deployed at: the sender. Wire: nothing. Bad at:
//! senders without new data to send, or whose receiver has no room for them; spurious fast
//! retransmits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use crate::shared::base::Base;
use lasthop_tcp::recovery::Recovery;

/// Settings of F-RTO.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FRto {
    /// The recovery to which it is added: "reno" or "newreno" (basic F-RTO, RFC 5682 section 2), or
    /// "sack" (SACK-enhanced, section 3).
    pub base: Base,
}

impl Default for FRto {
    fn default() -> Self {
        FRto { base: Base::Reno }
    }
}

impl SchemeConfig for FRto {
    const ENTRY: Entry = Entry {
        name: "f-rto",
        family: Family::EndToEnd,
        group: Some(Group::SpuriousLoss),
        summary: "sends new data after a timeout, and takes the timeout back if their ACKs show \
                  that nothing was lost",
        paper: "RFC 5682",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &[
            "there are new data to send and the receiver has room for them",
            "every loss means congestion",
        ],
        ..Entry::DEFAULT
    };

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(Recovery { f_rto: true, ..self.base.recovery() }))
    }
}

#[cfg(test)]
mod tests {
    use crate::catalogue::SchemeChoice;
    use lasthop_tcp::profile::{Profile, ProfileName};

    #[test]
    fn it_is_basic_over_reno_and_enhanced_over_sack() {
        let part = |scheme: &str| {
            SchemeChoice::parse(scheme).unwrap().sender(&Profile::named(ProfileName::Linux))
        };
        assert_eq!(part("f-rto").recovery.to_string(), "reno+f-rto");
        assert!(!part("f-rto").needs.sack && !part("f-rto").needs.timestamps);
        assert_eq!(part("f-rto:base=sack").recovery.to_string(), "sack+f-rto");
        assert!(part("f-rto:base=sack").needs.sack);
    }
}
