//! I-TCP: splits the connection at the base station.
//!
//! Source: A. Bakre, B. R. Badrinath, "I-TCP: Indirect TCP for Mobile Hosts", ICDCS 1995; zeng2006
//! section 2.2.
//!
//! Deployed at: the base station.
//!
//! Wire: unchanged, but there are two connections. The base station acknowledges data when it
//! *receives* them, so end-to-end semantics are lost; `ack_on_delivery` shows the cost of
//! preserving them.
//!
//! Bad at: a base station that fails after its ACK; handovers, which must transfer two sockets and
//! their buffers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Bound, Entry, Family, Footprint, SchemeConfig};
use crate::shared::relay_buffer::{PUBLISHED, check_buffer};
use lasthop_core::leg::{Capabilities, LegEvent, Relay, SplitConnection};
use lasthop_core::role::Role;
use lasthop_core::units::{Size, Time};
use lasthop_tcp::sender::Limit;

/// Settings of I-TCP.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ITcp {
    /// Buffer of the base station per flow: bytes received and not yet acknowledged by the mobile.
    /// The free part is the receive window of the server's leg. Default: 64000 B. Under profile
    /// linux, if larger: twice the bandwidth-delay product of the path.
    pub buffer: Option<Size>,
    /// Acknowledge data to the server only after the mobile has acknowledged them.
    pub ack_on_delivery: bool,
    /// Sender of both legs; empty: the profile's default.
    pub sender: String,
}

impl SchemeConfig for ITcp {
    const ENTRY: Entry = Entry {
        name: "i-tcp",
        family: Family::Split,
        summary: "splits the connection at the base station; each leg recovers its own losses",
        paper: "Bakre and Badrinath 1995",
        changes: Footprint { base_station: true, ..Footprint::NONE },
        assumptions: &[
            "the base station does not fail",
            "the application does not need end-to-end acknowledgments",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        check_buffer(self.buffer)
    }

    fn relay(&self) -> Option<Box<dyn Relay>> {
        Some(Box::new(ITcpRelay::new(self.buffer.unwrap_or(PUBLISHED), self.ack_on_delivery)))
    }

    fn bounds(&self) -> Vec<Bound> {
        vec![Bound::of_path(Limit::RelayBuffer, "buffer", self.buffer, PUBLISHED)]
    }

    fn set_bound(&mut self, setting: &str, value: Size) {
        if setting == "buffer" {
            self.buffer = Some(value);
        }
    }

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// The relay at the base station.
pub(super) struct ITcpRelay {
    buffer: u64,
    ack_on_delivery: bool,
    moved: u64,
    peak: u64,
}

impl ITcpRelay {
    /// A relay with a buffer of `buffer` bytes.
    pub(super) fn new(buffer: Size, ack_on_delivery: bool) -> ITcpRelay {
        ITcpRelay { buffer: buffer.bytes(1), ack_on_delivery, moved: 0, peak: 0 }
    }
}

impl Relay for ITcpRelay {
    fn needs(&self) -> Capabilities {
        Capabilities {
            window: false,
            receive_window: true,
            acknowledge: self.ack_on_delivery,
            hold: false,
        }
    }

    fn receive_window(&self) -> Option<u64> {
        Some(self.buffer)
    }

    fn on_event(&mut self, _now: Time, event: LegEvent, legs: &mut dyn SplitConnection) {
        match event {
            LegEvent::Open => {
                if self.ack_on_delivery {
                    legs.acknowledge_up_to(0);
                }
            }
            LegEvent::Readable => self.moved += legs.transfer(u64::MAX),
            LegEvent::Acknowledged(offset) => {
                if self.ack_on_delivery {
                    legs.acknowledge_up_to(offset);
                }
            }
            LegEvent::HalfClosed => {
                self.moved += legs.transfer(u64::MAX);
                legs.half_close();
            }
            LegEvent::Reset(side) => legs.reset(side.other()),
            LegEvent::Timer | LegEvent::Notice(_) => {}
        }
        let held = legs.readable() + legs.unacknowledged();
        self.peak = self.peak.max(held);
        legs.set_receive_window(self.buffer.saturating_sub(held));
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("bytes_relayed", self.moved), ("buffer_peak_bytes", self.peak)]
    }
}
