//! Eifel: detects spurious retransmissions and undoes their effects.
//!
//! Source: R. Ludwig and R. H. Katz, "The Eifel Algorithm", CCR 30(1), 2000; detection RFC 3522,
//! response RFC 4015. Idea: the timestamp that the first ACK after a retransmission echoes
//! identifies the copy that it acknowledges. If that is an earlier copy, the retransmission was
//! spurious: the window is restored and the sender continues with new data instead of
//! retransmitting everything in flight (go-back-N). Deployed at: the sender; the receiver must
//! support timestamps. Wire: the timestamps option (12 bytes a segment). Variants: `original`
//! restores cwnd and ssthresh completely (half after a second timeout in a row, nothing after a
//! third). `rfc` continues in slow start without a burst, makes the timer more conservative after a
//! spurious timeout, and does nothing if the ACK could be that of a retransmission because it
//! covers everything. RFC 4015 responds to spurious timeouts only; a spurious fast retransmit has
//! the same response here. No variant raises the duplicate threshold. Bad at: hosts without
//! timestamps; real losses among the delayed segments (their duplicate ACKs arrive after the undo);
//! bursts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use crate::shared::base::Base;
use lasthop_tcp::recovery::{self, Recovery};

/// Settings of Eifel.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Eifel {
    /// The variant of the algorithm.
    pub variant: Variant,
    /// The recovery to which it is added: "reno", "newreno" or "sack".
    pub base: Base,
}

impl Default for Eifel {
    fn default() -> Self {
        Eifel { variant: Variant::Rfc, base: Base::Reno }
    }
}

/// Variants of Eifel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Ludwig and Katz 2000.
    Original,
    /// RFC 3522 and RFC 4015.
    Rfc,
}

impl SchemeConfig for Eifel {
    const ENTRY: Entry = Entry {
        name: "eifel",
        family: Family::EndToEnd,
        group: Some(Group::SpuriousLoss),
        summary: "takes a retransmission back when a timestamp shows that it was needless",
        paper: "Ludwig and Katz 2000; RFC 3522, RFC 4015",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &["both ends support timestamps", "every loss means congestion"],
        ..Entry::DEFAULT
    };

    fn recovery(&self) -> Option<RecoverySlot> {
        let eifel = match self.variant {
            Variant::Original => recovery::Eifel::Original,
            Variant::Rfc => recovery::Eifel::Rfc,
        };
        Some(RecoverySlot::Fixed(Recovery { eifel, ..self.base.recovery() }))
    }
}

#[cfg(test)]
mod tests {
    use crate::catalogue::SchemeChoice;
    use lasthop_tcp::profile::{Profile, ProfileName};

    #[test]
    fn it_brings_timestamps_whatever_the_profile_says() {
        for name in [ProfileName::Rfc, ProfileName::Ns226, ProfileName::Linux] {
            let profile = Profile::named(name);
            let part = SchemeChoice::parse("eifel").unwrap().sender(&profile);
            assert_eq!(part.recovery.to_string(), "reno+eifel");
            assert!(part.profile(&profile).timestamps);
        }
    }

    #[test]
    fn settings_choose_variant_and_base() {
        let recovery = |scheme: &str| {
            SchemeChoice::parse(scheme)
                .unwrap()
                .sender(&Profile::named(ProfileName::Rfc))
                .recovery
                .to_string()
        };
        assert_eq!(recovery("eifel:variant=original"), "reno+eifel-original");
        assert_eq!(recovery("eifel:base=sack"), "sack+eifel");
        assert!(SchemeChoice::parse("eifel:variant=rcf").unwrap_err().contains("rfc"));
    }
}
