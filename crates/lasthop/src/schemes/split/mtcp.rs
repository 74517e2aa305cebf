//! MTCP: the connection is cut at the base station, and the leg to the mobile may be a protocol
//! made for a lossy hop.
//!
//! Source: R. Yavatkar, N. Bhagawat, "Improving End-to-End Performance of TCP over Mobile
//! Internetworks", IEEE Workshop on Mobile Computing Systems and Applications, 1994; paul2005 names
//! it. (Not M-TCP, which is Brown and Singh's.) Idea: a session layer joins two connections at the
//! base station, as in I-TCP. The second one is an ordinary TCP, or SRP, a selective-repeat
//! protocol: a fixed window, no congestion control, and each lost segment sent again alone, as soon
//! as one sent after it is reported, or when its own timer expires. The sources give the idea and
//! no numbers: window and timer are choices. SRP is put together from what a TCP has: SACK is its
//! bitmap, the timestamps option tells which copy is answered, and the mobile answers each segment
//! at once. Its window counts what is under way; what the mobile holds out of order is limited by
//! its receive window. Deployed at: the base station; SRP at the mobile too. Wire: between these
//! two, with SRP, SACK and timestamps. Assumes: the base station does not fail, and no one else
//! needs the room that SRP takes on the radio link. Bad at: end-to-end semantics (the base station
//! acknowledges data when it receives them), handoffs, outages (SRP repeats all that is under way
//! every two round trips, without backing off), queues that its window overflows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::leg::{Capabilities, LegEvent, Relay, SplitConnection};
use crate::role::Role;
use crate::schemes::catalogue::{AnyWindow, Bound, Entry, Family, Footprint, SchemeConfig};
use crate::schemes::split::i_tcp::ITcpRelay;
use crate::schemes::split::rnf::SteeredWindow;
use crate::schemes::split::{PUBLISHED, WINDOW, check_buffer};
use crate::tcp::profile::{DelayedAck, Profile};
use crate::tcp::recovery::{Recovery, RecoveryKind};
use crate::tcp::sender::Limit;
use crate::units::{Size, Time};

/// What runs on the leg to the mobile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecondLeg {
    /// The TCP of the flow.
    Tcp,
    /// The selective-repeat protocol.
    Srp,
}

/// Settings of MTCP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mtcp {
    /// What runs on the leg to the mobile: "tcp", or "srp", the selective-repeat protocol.
    pub second: SecondLeg,
    /// Window of SRP (a choice; the sources give none). Default: 32 segments.
    pub window: Option<Size>,
    /// Round-trip times of the leg to the mobile after which SRP sends a segment again (a choice;
    /// the sources give none).
    pub timer: u32,
    /// Bytes that the base station holds for a flow, received and not yet acknowledged by the
    /// mobile. The wired leg's receive window is what is left of it. Default: 64000 B; under
    /// profile linux twice the bandwidth-delay product of the path, or three times `window` where
    /// that is less, if that is more.
    pub buffer: Option<Size>,
    /// Sender of the TCP legs; empty: the profile's.
    pub sender: String,
}

impl Default for Mtcp {
    fn default() -> Self {
        Mtcp { second: SecondLeg::Srp, window: None, timer: 2, buffer: None, sender: String::new() }
    }
}

impl Mtcp {
    fn repeat(&self) -> Recovery {
        Recovery { timer: self.timer, ..Recovery::of(RecoveryKind::SelectiveRepeat) }
    }

    fn is_srp(&self) -> bool {
        self.second == SecondLeg::Srp
    }
}

impl SchemeConfig for Mtcp {
    const ENTRY: Entry = Entry {
        name: "mtcp",
        family: Family::Split,
        summary: "cuts the connection at the base station; a selective-repeat protocol, or TCP, \
                  goes on to the mobile",
        paper: "Yavatkar and Bhagawat 1994",
        changes: Footprint { base_station: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "the base station does not fail",
            "the application does not need end-to-end acknowledgments",
            "nobody else needs the room that SRP takes on the radio link",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        check_buffer(self.buffer)?;
        if self.window.is_some_and(|w| w.bytes(1000) == 0) {
            return Err("window must be above 0".into());
        }
        self.repeat().check()
    }

    fn relay(&self) -> Option<Box<dyn Relay>> {
        let window = self.is_srp().then_some(self.window.unwrap_or(WINDOW));
        Some(Box::new(MtcpRelay {
            relay: ITcpRelay::new(self.buffer.unwrap_or(PUBLISHED), false),
            window,
        }))
    }

    fn outbound_window(&self) -> Option<AnyWindow> {
        self.is_srp().then(|| AnyWindow::Steered(SteeredWindow::default()))
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

/// I-TCP's relay, that opens SRP's window.
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
    use crate::schemes::catalogue::SchemeChoice;
    use crate::tcp::profile::ProfileName;

    const PROFILES: [ProfileName; 3] = [ProfileName::Linux, ProfileName::Rfc, ProfileName::Ns235];

    #[test]
    fn srp_is_selective_repeat_with_stamped_and_undelayed_acks_in_every_profile() {
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
            // The server's leg is the profile's.
            let first = choice.sender(&profile);
            assert_ne!(first.recovery, part.recovery);
            assert_eq!(first.profile(&profile).timestamps, profile.timestamps);
        }
    }

    #[test]
    fn tcp_on_the_second_leg_is_the_same_as_on_the_first() {
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
    fn mistakes_are_named() {
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
