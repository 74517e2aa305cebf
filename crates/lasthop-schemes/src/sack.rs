//! SACK: recovery of several losses in one round trip, by the ranges that the receiver reports.
//!
//! Source: RFC 2018 (blocks), RFC 6675 (recovery), RFC 2883 (duplicates); flavour `ns2-sack1` as in
//! ns-2's `TCP/Sack1`. Idea: the receiver reports which ranges have arrived, so the sender knows
//! the holes and how much is in the pipe. Deployed at: sender and receiver. Wire: SACK-permitted
//! and SACK options. Window rule: Reno's. Bad at: classifying losses; windows of fewer than four
//! segments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};

/// Settings of SACK.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sack {
    /// Variant of SACK recovery; unset: ns-2's under the ns-2 profiles, otherwise that of RFC 6675.
    pub flavour: Option<Flavour>,
    /// Proportional rate reduction (RFC 9937) instead of the immediate halving of RFC 6675.
    pub prr: bool,
    /// Undo a reduction if all its retransmissions were reported as duplicates (RFC 2883; as Linux
    /// does).
    pub dsack_undo: bool,
}

/// Flavours of SACK recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Flavour {
    /// RFC 6675.
    Rfc6675,
    /// ns-2's `TCP/Sack1`: the pipe falls by one segment for each duplicate ACK, no rescue
    /// retransmission.
    Ns2Sack1,
}

impl SchemeConfig for Sack {
    const ENTRY: Entry = Entry {
        name: "sack",
        family: Family::EndToEnd,
        group: Some(Group::LossRecovery),
        summary: "repairs several losses in one round trip, by the ranges that the receiver \
                  reports",
        paper: "RFC 2018, RFC 6675",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "every loss means congestion",
            "the receiver does not take back what it has reported",
        ],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if self.flavour == Some(Flavour::Ns2Sack1) && (self.prr || self.dsack_undo) {
            return Err("prr and dsack_undo go with flavour = \"rfc6675\"".into());
        }
        Ok(())
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        let rfc = Recovery {
            prr: self.prr,
            dsack_undo: self.dsack_undo,
            ..Recovery::of(RecoveryKind::Sack)
        };
        let ns2 = Recovery::of(RecoveryKind::SackNs2);
        Some(match self.flavour {
            Some(Flavour::Rfc6675) => RecoverySlot::Fixed(rfc),
            Some(Flavour::Ns2Sack1) => RecoverySlot::Fixed(ns2),
            None if self.prr || self.dsack_undo => RecoverySlot::Fixed(rfc),
            None => RecoverySlot::ByProfile { ns2, other: rfc },
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::catalogue::SchemeChoice;
    use lasthop_tcp::profile::{Profile, ProfileName};

    #[test]
    fn the_flavour_follows_the_profile_unless_it_is_set() {
        let recovery = |scheme: &str, profile| {
            SchemeChoice::parse(scheme)
                .unwrap()
                .sender(&Profile::named(profile))
                .recovery
                .to_string()
        };
        assert_eq!(recovery("sack", ProfileName::Ns235), "sack-ns2");
        assert_eq!(recovery("sack", ProfileName::Linux), "sack");
        assert_eq!(recovery("sack:flavour=rfc6675", ProfileName::Ns235), "sack");
        assert_eq!(
            recovery("sack:prr=true:dsack_undo=true", ProfileName::Rfc),
            "sack+prr+dsack-undo"
        );
        assert!(SchemeChoice::parse("sack:flavour=ns2-sack1:prr=true").is_err());
    }
}
