//! MTCP: splits the connection at the base station; the leg to the mobile can use a protocol
//! designed for a lossy hop.
//!
//! Source: R. Yavatkar, N. Bhagawat, "Improving End-to-End Performance of TCP over Mobile
//! Internetworks", IEEE Workshop on Mobile Computing Systems and Applications, 1994; paul2005 names
//! it. (Not M-TCP, which is by Brown and Singh.)
//!
//! Idea: a session layer joins two connections at the base station, as in I-TCP. The second one is
//! an ordinary TCP or SRP, a selective-repeat protocol: a fixed window, no congestion control, and
//! each lost segment is retransmitted individually, as soon as a segment sent after it is
//! acknowledged or when its timer expires. The sources give no numbers: window and timer are our
//! choice. SRP is built from TCP mechanisms: SACK is its bitmap, the timestamps option identifies
//! the acknowledged copy, and the mobile acknowledges each segment immediately. The window counts
//! segments in flight; data that the mobile stores out of order are limited by its receive window.
//!
//! Deployed at: the base station; SRP also at the mobile.
//!
//! Wire: between these two, with SRP, SACK and timestamps.
//!
//! Assumes: the base station does not fail, and no other flow needs the capacity that SRP uses on
//! the radio link.
//!
//! Bad at: end-to-end semantics (the base station acknowledges data when it receives them),
//! handovers, outages (SRP retransmits all segments in flight every two RTTs without backing off),
//! queues that overflow under its window.

mod selective_repeat;

pub use selective_repeat::DETECTOR;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{AnyWindow, Bound, Entry, Family, Footprint, SchemeConfig};
use crate::i_tcp::ITcpRelay;
use crate::rnf::RnfWindow;
use crate::shared::relay_buffer::{PUBLISHED, WINDOW, check_buffer};
use lasthop_core::leg::{Capabilities, LegEvent, Relay, SplitConnection};
use lasthop_core::role::Role;
use lasthop_core::units::{Size, Time};
use lasthop_tcp::profile::{DelayedAck, Profile};
use lasthop_tcp::recovery::{Recovery, RecoveryKind, compatible};
use lasthop_tcp::sender::Limit;

/// Protocol of the leg to the mobile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecondLeg {
    /// TCP, as on the server's leg.
    Tcp,
    /// The selective-repeat protocol.
    Srp,
}

/// Settings of MTCP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mtcp {
    /// Protocol of the leg to the mobile: "tcp", or "srp", the selective-repeat protocol.
    pub second: SecondLeg,
    /// Window of SRP (our choice; the sources give none). Default: 32 segments.
    pub window: Option<Size>,
    /// Retransmission timeout of SRP, in RTTs of the leg to the mobile (our choice; the sources
    /// give none).
    pub timer: u32,
    /// Buffer of the base station per flow: bytes received and not yet acknowledged by the mobile.
    /// The free part is the receive window of the server's leg. Default: 64000 B. Under profile
    /// linux, if larger: twice the bandwidth-delay product of the path, but at most three times
    /// `window`.
    pub buffer: Option<Size>,
    /// Sender of the TCP legs; empty: the profile's default.
    pub sender: String,
}

impl Default for Mtcp {
    fn default() -> Self {
        Mtcp {
            second: SecondLeg::Srp,
            window: None,
            timer: selective_repeat::TIMER,
            buffer: None,
            sender: String::new(),
        }
    }
}

impl Mtcp {
    fn repeat(&self) -> Recovery {
        Recovery { setting: self.timer, ..Recovery::of(RecoveryKind::Scheme(&DETECTOR)) }
    }

    fn is_srp(&self) -> bool {
        self.second == SecondLeg::Srp
    }
}

impl SchemeConfig for Mtcp {
    const ENTRY: Entry = Entry {
        name: "mtcp",
        family: Family::Split,
        summary: "splits the connection at the base station; a selective-repeat protocol, or TCP, \
                  serves the mobile",
        paper: "Yavatkar and Bhagawat 1994",
        changes: Footprint { base_station: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "the base station does not fail",
            "the application does not need end-to-end acknowledgments",
            "no other flow needs the capacity that SRP uses on the radio link",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        check_buffer(self.buffer)?;
        if self.window.is_some_and(|w| w.bytes(1000) == 0) {
            return Err("window must be above 0".into());
        }
        compatible::check(&self.repeat())
    }

    fn relay(&self) -> Option<Box<dyn Relay>> {
        let window = self.is_srp().then_some(self.window.unwrap_or(WINDOW));
        Some(Box::new(MtcpRelay {
            relay: ITcpRelay::new(self.buffer.unwrap_or(PUBLISHED), false),
            window,
        }))
    }

    fn outbound_window(&self) -> Option<AnyWindow> {
        self.is_srp().then(|| AnyWindow::from(RnfWindow::default()))
    }

    fn outbound_recovery(&self) -> Option<Recovery> {
        self.is_srp().then(|| self.repeat())
    }

    fn override_outbound_profile(&self, profile: &mut Profile) {
        if self.is_srp() {
            profile.delayed_ack = DelayedAck::Switch(false);
        }
    }

    fn bounds(&self) -> Vec<Bound> {
        let mut bounds = vec![Bound::of_path(Limit::RelayBuffer, "buffer", self.buffer, PUBLISHED)];
        if self.is_srp() {
            bounds.push(Bound::fixed(Limit::Cwnd, "window", self.window, WINDOW));
        }
        bounds
    }

    fn set_bound(&mut self, setting: &str, value: Size) {
        match setting {
            "buffer" => self.buffer = Some(value),
            "window" => self.window = Some(value),
            _ => {}
        }
    }

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// I-TCP's relay, which also sets SRP's window.
struct MtcpRelay {
    relay: ITcpRelay,
    window: Option<Size>,
}

impl Relay for MtcpRelay {
    fn needs(&self) -> Capabilities {
        Capabilities { window: self.window.is_some(), ..self.relay.needs() }
    }

    fn receive_window(&self) -> Option<u64> {
        self.relay.receive_window()
    }

    fn on_event(&mut self, now: Time, event: LegEvent, legs: &mut dyn SplitConnection) {
        if let (LegEvent::Open, Some(window)) = (event, self.window) {
            legs.set_window(window.bytes(legs.segment().0));
        }
        self.relay.on_event(now, event, legs);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.relay.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::SchemeChoice;
    use lasthop_tcp::profile::ProfileName;

    const PROFILES: [ProfileName; 3] = [ProfileName::Linux, ProfileName::Rfc, ProfileName::Ns235];

    #[test]
    fn srp_uses_selective_repeat_timestamps_and_undelayed_acks_in_every_profile() {
        for name in PROFILES {
            let mut profile = Profile::named(name);
            profile.sack = false;
            let choice = SchemeChoice::parse("mtcp:timer=3").unwrap();
            let (part, second) = choice.outbound(&profile);
            assert_eq!(part.recovery.to_string(), "selective-repeat+timer=3", "{name:?}");
            assert!(
                second.sack && second.timestamps && second.delayed_ack.limit().is_none(),
                "{name:?}"
            );
            // The server's leg follows the profile.
            let first = choice.sender(&profile);
            assert_ne!(first.recovery, part.recovery);
            assert_eq!(first.profile(&profile).timestamps, profile.timestamps);
        }
    }

    #[test]
    fn tcp_legs_are_configured_alike() {
        for name in PROFILES {
            let profile = Profile::named(name);
            let choice = SchemeChoice::parse("mtcp:second=tcp:sender=newreno").unwrap();
            let (part, second) = choice.outbound(&profile);
            let first = choice.sender(&profile);
            assert_eq!(
                (part.recovery, part.needs, second),
                (first.recovery, first.needs, first.profile(&profile))
            );
            assert!(choice.scheme.outbound_window().is_none());
        }
    }

    #[test]
    fn invalid_settings_are_rejected() {
        for (text, what) in [
            ("mtcp:second=udp", "tcp"),
            ("mtcp:timer=0", "timer"),
            ("mtcp:window=0 segments", "window"),
            ("mtcp:buffer=0B", "buffer"),
            ("mtcp:buffer=3 segments", "bytes"),
        ] {
            let error = SchemeChoice::parse(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
