//! TCP-F: the network tells the sender when its route has failed and when there is one again; in
//! between it does nothing.
//!
//! Source: K. Chandran, S. Raghunathan, S. Venkatesan, R. Prakash, "A feedback-based scheme for
//! improving TCP performance in ad hoc wireless networks", 1998; noor names the two notifications.
//! Idea: at a route failure notification (RFN) the sender freezes: it sends nothing, its timers
//! stop, and cwnd, ssthresh and RTO stay as they are. At the route re-establishment notification
//! (RRN) it sends again whatever is not acknowledged and goes on from there. If none comes it wakes
//! by itself after a time, as an ordinary sender. Here the node at the last hop sends them, when
//! the link to the receiver goes down and when it is up again. Deployed at: that node and the
//! sender. Wire: the two notices.
//!
//! Assumes that the node learns of failures, and that the notices arrive: a lost RFN leaves
//! everything to the timer, a lost RRN costs `wait`. Bad at: losses while the route stands, of
//! which nothing is told; short failures, after which everything is sent again that the queue
//! before the link has kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::role::Role;
use crate::schemes::catalogue::{AnyAgent, Entry, Family, Footprint, SchemeConfig};
use crate::schemes::link_layer::link_watch::LinkWatch;
use crate::tcp::profile::Profile;
use crate::units::Duration;

/// Settings of TCP-F.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpF {
    /// A frozen sender wakes by itself after so long (the source says: longer than a route takes to
    /// be found; a choice).
    pub wait: Duration,
    /// Sender to run over; empty: the profile's.
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
        summary: "freezes the sender from the notification that its route has failed to the one \
                  that it stands again",
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
        profile.freeze = self.wait;
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::LinkWatch(LinkWatch::new(true)))
    }

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_of_nothing_is_refused() {
        assert!(TcpF { wait: Duration::ZERO, ..TcpF::default() }.check().is_err());
        assert!(TcpF::default().check().is_ok());
    }
}
