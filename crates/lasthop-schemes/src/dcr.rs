//! TCP-DCR: a sender that waits a round trip before it treats duplicate ACKs as a congestion loss.
//!
//! Source: Bhandarkar, Sadry, Reddy and Vaidya, "TCP-DCR: a novel protocol for tolerating wireless
//! channel errors", IEEE Transactions on Mobile Computing 4(5), 2005; as yun2009, section 2.3,
//! compares it. Deployed at: the sender. Wire: nothing.
//!
//! The first duplicate ACK starts a timer of one round trip. Until it ends each duplicate ACK sends
//! one new segment, so that the ACK clock continues; cwnd does not change. If new data are
//! acknowledged by then, the radio's link layer has repaired the loss and the sender continues as
//! before. Otherwise the segment is retransmitted and the window halved, as in the recovery to
//! which DCR is added. The window rule is Reno's.
//!
//! Assumes that the link layer repairs its losses within a round trip. Bad at: real congestion, to
//! which it responds a round trip late; losses that the link layer does not repair; windows too
//! small for duplicate ACKs to continue until the retransmission timer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use crate::shared::base::Base;
use lasthop_tcp::recovery::Recovery;

/// Settings of DCR.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Dcr {
    /// The recovery to which it is added: "newreno", "reno" or "sack".
    pub base: Base,
}

impl Default for Dcr {
    fn default() -> Self {
        Dcr { base: Base::Newreno }
    }
}

impl SchemeConfig for Dcr {
    const ENTRY: Entry = Entry {
        name: "dcr",
        family: Family::EndToEnd,
        group: Some(Group::SpuriousLoss),
        summary: "waits a round trip after the first duplicate ACK, so that the link layer can \
                  repair the loss",
        paper: "Bhandarkar et al., IEEE TMC 4(5), 2005",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: &["the link layer repairs its losses within a round trip"],
        ..Entry::DEFAULT
    };

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(Recovery { dcr: true, ..self.base.recovery() }))
    }
}

#[cfg(test)]
mod tests {
    use crate::catalogue::SchemeChoice;
    use lasthop_tcp::profile::{Profile, ProfileName};

    #[test]
    fn it_waits_under_every_profile_and_over_every_base() {
        let recovery = |scheme: &str, profile| {
            SchemeChoice::parse(scheme)
                .unwrap()
                .sender(&Profile::named(profile))
                .recovery
                .to_string()
        };
        for profile in [ProfileName::Rfc, ProfileName::Linux, ProfileName::Ns235] {
            assert_eq!(recovery("dcr", profile), "newreno+dcr");
            assert_eq!(recovery("dcr:base=sack", profile), "sack+dcr");
        }
        assert!(SchemeChoice::parse("dcr:base=tahoe").is_err());
    }
}
