//! TCP-F: the network notifies the sender when its route fails and when a route exists again.
//! Between the two notifications the sender is frozen.
//!
//! Source: K. Chandran, S. Raghunathan, S. Venkatesan, R. Prakash, "A feedback-based scheme for
//! improving TCP performance in ad hoc wireless networks", 1998; noor names the two notifications.
//!
//! Idea: at a route failure notification (RFN) the sender freezes: it sends nothing, its timers
//! stop, and cwnd, ssthresh and RTO do not change. At the route re-establishment notification (RRN)
//! it retransmits all unacknowledged data and continues from there. If no RRN arrives, it resumes
//! after a timeout as an ordinary sender. Here the node at the last hop sends the notifications
//! when the link to the receiver goes down and when it is up again.
//!
//! Deployed at: that node and the sender.
//!
//! Wire: the two notices.
//!
//! Assumes: the node detects failures, and the notices arrive. After a lost RFN only the
//! retransmission timer detects the failure; a lost RRN costs `wait`.
//!
//! Bad at: losses while the route is up, which are not notified; short failures, after which the
//! sender retransmits all data, including those that the queue before the link has stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{AnyAgent, Entry, Family, Footprint, SchemeConfig};
use crate::shared::freeze;
use crate::shared::link_watch::LinkWatch;
use lasthop_core::role::Role;
use lasthop_core::units::Duration;
use lasthop_tcp::profile::Profile;

/// Settings of TCP-F.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpF {
    /// Time after which a frozen sender resumes without a notification. The source requires it to
    /// be longer than a route discovery; the default is our choice.
    pub wait: Duration,
    /// Sender to use; empty: the profile's default.
    pub sender: String,
}

impl Default for TcpF {
    fn default() -> Self {
        TcpF { wait: Duration::secs(10), sender: String::new() }
    }
}

impl SchemeConfig for TcpF {
    const ENTRY: Entry = Entry {
        name: "tcp-f",
        family: Family::LinkLayer,
        summary: "freezes the sender from a route failure notification until the route is \
                  re-established",
        paper: "Chandran et al. 1998",
        changes: Footprint { sender: true, base_station: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "the base station learns when its link to the mobile goes down and comes up",
            "the notifications arrive",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if self.wait == Duration::ZERO { Err("wait must be above 0 s".into()) } else { Ok(()) }
    }

    fn override_profile(&self, profile: &mut Profile) {
        freeze::set(profile, self.wait);
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(LinkWatch::new(true)))
    }

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_of_zero_is_rejected() {
        assert!(TcpF { wait: Duration::ZERO, ..TcpF::default() }.check().is_err());
        assert!(TcpF::default().check().is_ok());
    }
}
