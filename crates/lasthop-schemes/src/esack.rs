//! ESACK: a SACK sender that the link layer notifies of the segments that the radio has lost.
//!
//! Source: J.-H. Yun, "Cross-layer explicit link status notification to improve TCP performance in
//! wireless networks", EURASIP JWCN 2009 (yun2009), section 4. Deployed at: the sender (and a
//! receiver with SACK). Wire: notices in the form of ACKs, made by `ll-elsn` at the node whose link
//! layer retransmits. The window rule is Reno's.
//!
//! A segment that an ELN names is retransmitted at once, without a reduction. From then on
//! it counts as the last segment sent: it is marked lost again only if segments sent after it are
//! delivered first. A gap among the others is detected as usual and costs one reduction. A segment
//! that an ERSN names is not marked lost while the link layer retransmits it; the timer is
//! postponed. More ELNs in a row than random losses cause mean a disconnection: the sender responds
//! to every other one, so that the rate decays, and keeps its window for the station's return. Any
//! delivery ends a run, also by SACK: the paper speaks of successive packets, and at 20 % loss a
//! hole would otherwise cause more than two ELNs in every round trip.
//!
//! Without notices it is `sack`, segment for segment. Which notices count: `recovery/hints.rs` in
//! `lasthop-tcp`. Assumes that notices are true and reach the sender. Bad at: reordering in the
//! network, as any SACK; bursts of loss longer than `tolerated_run`, which look like a
//! disconnection; false notices.

mod sending_order;

pub use sending_order::{DETECTOR, HINTS};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use lasthop_tcp::recovery::{HintRules, Recovery, RecoveryKind};

/// Settings of ESACK.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Esack {
    /// ELNs in a row, without a delivery between them, that are treated as random losses (N of
    /// yun2009, section 4.2): the largest for which N + 1 have a probability below 1 %, p^(M(N+1))
    /// with frame errors p and M attempts. 2 is that of 20 % and one attempt; 1000000 is no limit.
    #[schemars(extend("unit" = "ELNs"))]
    pub tolerated_run: u32,
    /// Timeouts in a row that are postponed for a segment that an ERSN named; the segment is not
    /// marked lost for this multiple of the RTO. The paper does not give the number.
    #[schemars(extend("unit" = "timeouts"))]
    pub hold_timeouts: u32,
    /// Proportional rate reduction (RFC 9937) instead of the immediate halving of RFC 6675.
    pub prr: bool,
}

impl Default for Esack {
    fn default() -> Self {
        Esack { tolerated_run: HINTS.run, hold_timeouts: HINTS.holds, prr: false }
    }
}

impl SchemeConfig for Esack {
    const ENTRY: Entry = Entry {
        name: "esack",
        family: Family::EndToEnd,
        group: Some(Group::ExplicitNotification),
        summary: "a SACK sender that sends again what the link layer says is lost, without \
                  reducing, and counts in the order of sending",
        paper: "yun2009, section 4",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "a link layer that sends notices (ll-elsn)",
            "notices are true",
            "the network does not reorder",
        ],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        for (key, value, most) in [
            ("tolerated_run", self.tolerated_run, 1_000_000),
            ("hold_timeouts", self.hold_timeouts, 1000),
        ] {
            if value > most {
                return Err(format!("{key} must be at most {most}, found {value}"));
            }
        }
        Ok(())
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        let rules = HintRules { entry: &HINTS, run: self.tolerated_run, holds: self.hold_timeouts };
        Some(RecoverySlot::Fixed(Recovery {
            prr: self.prr,
            hints: Some(rules),
            ..Recovery::of(RecoveryKind::Scheme(&DETECTOR))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::SchemeChoice;
    use lasthop_tcp::profile::{Profile, ProfileName};

    /// The paper's example: two and three failures in a row have 4 % and 0.8 % at 20 % and one
    /// attempt, so two are tolerated.
    #[test]
    fn the_tolerated_run_is_that_of_the_papers_example() {
        let run_has =
            |p: f64, attempts: i32, run: u32| libm::pow(p, f64::from(attempts) * f64::from(run));
        assert!(
            (run_has(0.2, 1, 2) - 0.04).abs() < 1e-12 && (run_has(0.2, 1, 3) - 0.008).abs() < 1e-12
        );
        let tolerated =
            |p, attempts| (0..).find(|run| run_has(p, attempts, run + 1) < 0.01).unwrap_or(0);
        assert_eq!(Esack::default().tolerated_run, tolerated(0.2, 1));
        assert_eq!((tolerated(0.05, 1), tolerated(0.2, 3), tolerated(0.5, 1)), (1, 0, 6));
    }

    #[test]
    fn the_recovery_is_its_own_under_every_profile() {
        let recovery = |scheme: &str, profile| {
            SchemeChoice::parse(scheme)
                .unwrap()
                .sender(&Profile::named(profile))
                .recovery
                .to_string()
        };
        for profile in [ProfileName::Rfc, ProfileName::Linux, ProfileName::Ns235] {
            assert_eq!(recovery("esack", profile), "esack");
            assert_eq!(recovery("esack:tolerated_run=1:prr=true", profile), "esack+prr+elsn=1/3");
        }
        assert!(
            SchemeChoice::parse("esack:tolerated_run=1000001")
                .unwrap_err()
                .contains("at most 1000000")
        );
        assert!(
            SchemeChoice::parse("esack:hold_timeouts=1001").unwrap_err().contains("at most 1000")
        );
    }
}
