//! SNACK-Snoop: the station requests missing segments, and the base station retransmits them from
//! its cache.
//!
//! Source: paul2005, one slide ("new snoop"); unspecified details are taken from Snoop and from
//! SCPS-TP's SNACK.
//!
//! Deployed at: the base station and the station.
//!
//! Wire: TCP option 21 on ACKs (see `snack`), the explicit loss notification bit.
//!
//! Idea: Snoop learns of one loss at a time, from duplicate ACKs. Here the receiver lists its holes
//! (SNACK, 50 ms after it detects them), and the base station retransmits all of them that are in
//! its cache, except those whose local copy may still be in flight. Duplicate ACKs for a cached
//! segment are suppressed: it was lost on the radio link. Duplicate ACKs for segments that never
//! arrived at the base station, or that its queue dropped, indicate congestion and are forwarded.
//! When the local attempts are used up, the ACK is forwarded with the ELN bit, for senders that
//! accept ELN. Cache and timer are those of Snoop.
//!
//! Assumes: the assumptions of Snoop, and a station that can be modified.
//!
//! Bad at: all that Snoop is bad at, in particular SACK senders (an ACK of new data shows them the
//! remaining holes); the delay of the SNACK is added to each local retransmission.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{AnyAgent, Bound, Entry, Family, Footprint, SchemeConfig};
use crate::snack::{DELAY, SnackReceiver};
use crate::snoop::{Snoop, SnoopAgent, cache_bound};
use lasthop_core::role::Role;
use lasthop_core::segment::Direction;
use lasthop_core::units::{Duration, Size};
use lasthop_tcp::receiver::ReceiverRule;

/// Settings of SNACK-Snoop.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SnackSnoop {
    /// Age of a hole at which the station requests it, and minimum time between requests for it (50
    /// ms: paul2005).
    pub delay: Duration,
    /// Segments cached per flow. Default: 100; under profile linux twice the bandwidth-delay
    /// product of the path if that is more.
    #[schemars(extend("unit" = "packets"))]
    pub cache_packets: Option<u32>,
    /// Bytes cached for all flows together, headers included.
    #[schemars(extend("unit" = "bytes"))]
    pub cache_bytes: u64,
    /// Maximum number of flows with state; the least recently active one is evicted.
    #[schemars(extend("unit" = "flows"))]
    pub max_flows: u32,
    /// Minimum of the local retransmission timer.
    pub tick: Duration,
    /// Maximum number of local retransmissions of a segment; after that its duplicate ACKs are
    /// forwarded to the sender.
    pub max_retransmissions: u32,
    /// Sender to use; empty: the profile's default.
    pub sender: String,
}

impl Default for SnackSnoop {
    fn default() -> Self {
        let Snoop {
            cache_packets, cache_bytes, max_flows, tick, max_retransmissions, sender, ..
        } = Snoop::default();
        SnackSnoop {
            delay: DELAY,
            cache_packets,
            cache_bytes,
            max_flows,
            tick,
            max_retransmissions,
            sender,
        }
    }
}

impl SnackSnoop {
    /// Settings of the cache and its timer.
    fn snoop(&self) -> Snoop {
        let SnackSnoop { cache_packets, cache_bytes, max_flows, tick, max_retransmissions, .. } =
            *self;
        Snoop {
            cache_packets,
            cache_bytes,
            max_flows,
            tick,
            max_retransmissions,
            ..Snoop::default()
        }
    }
}

impl SchemeConfig for SnackSnoop {
    const ENTRY: Entry = Entry {
        name: "snack-snoop",
        family: Family::LinkLayer,
        summary: "the station requests missing segments; the base station retransmits them from \
                  its cache and hides the duplicate ACKs",
        paper: "paul2005 (one slide)",
        changes: Footprint { base_station: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "TCP headers are readable at the base station",
            "data and ACKs pass the same base station",
            "the last hop keeps the order and does not repair losses itself",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        self.snoop().check()
    }

    fn receiver(&self) -> Option<Box<dyn ReceiverRule>> {
        Some(Box::new(SnackReceiver::new(self.delay)))
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(SnoopAgent::by_snack(self.snoop(), Direction::Downlink)))
    }

    fn bounds(&self) -> Vec<Bound> {
        vec![cache_bound(self.cache_packets)]
    }

    fn set_bound(&mut self, setting: &str, value: Size) {
        if let ("cache_packets", Size::Segments(packets)) = (setting, value) {
            self.cache_packets = Some(packets as u32);
        }
    }

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}
