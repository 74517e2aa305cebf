//! SNACK-Snoop: the station asks for what it misses, and the base station repairs all of that from
//! its cache.
//!
//! Source: paul2005, one slide ("new snoop"); what that leaves open is filled in from Snoop and
//! from SCPS-TP's SNACK. Deployed at: the base station and the station. Wire: TCP option 21 on ACKs
//! (see `snack`), the bit of an explicit loss notification.
//!
//! Idea: Snoop learns of one loss at a time, from duplicate ACKs. Here the receiver lists its holes
//! (SNACK, 50 ms after it has seen them), and the base station sends again all of them that are in
//! its cache, none while its copy may be under way. Duplicate ACKs for a cached segment go no
//! further: the radio lost it. Those for what never came, or was dropped by the base station's own
//! queue, are word of congestion and go on. When the local attempts are used up, the ACK goes on
//! with the ELN bit, for a sender that heeds it. The cache and its timer are Snoop's. Assumes: what
//! Snoop does, and a station that can be changed. Bad at: what Snoop is bad at, SACK senders above
//! all (an ACK of new data shows them what is still missing behind it); the delay of the SNACK
//! comes on top of each repair.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::snoop::{CACHE_PACKETS, Snoop, SnoopAgent};
use crate::role::Role;
use crate::schemes::catalogue::{AnyAgent, Bound, Entry, Family, Footprint, SchemeConfig};
use crate::schemes::end_to_end::snack::{DELAY, SnackReceiver};
use crate::segment::Direction;
use crate::tcp::receiver::ReceiverRule;
use crate::tcp::sender::Limit;
use crate::units::{Duration, Size};

/// Settings of SNACK-Snoop.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SnackSnoop {
    /// The station asks for a hole when it is so old, and again so much later at the earliest (50
    /// ms: paul2005).
    pub delay: Duration,
    /// Segments cached per flow. Default: 100; under profile linux twice the bandwidth-delay
    /// product of the path if that is more.
    #[schemars(extend("unit" = "packets"))]
    pub cache_packets: Option<u32>,
    /// Bytes cached for all flows together, headers included.
    #[schemars(extend("unit" = "bytes"))]
    pub cache_bytes: u64,
    /// Flows for which state is held; the one without data longest goes first.
    #[schemars(extend("unit" = "flows"))]
    pub max_flows: u32,
    /// The local timer is never shorter than this.
    pub tick: Duration,
    /// Local retransmissions of one segment; then its duplicate ACKs go on to the sender.
    pub max_retransmissions: u32,
    /// Sender to run over; empty: the profile's.
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
    /// The cache and its timer.
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
        summary: "the station asks for what it misses; the base station repairs that from its \
                  cache and hides the duplicate ACKs",
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
        Some(AnyAgent::Snoop(SnoopAgent::asked(self.snoop(), Direction::Downlink)))
    }

    fn bounds(&self) -> Vec<Bound> {
        let given = self.cache_packets.map(|n| Size::Segments(f64::from(n)));
        vec![Bound::of_path(
            Limit::AgentCache,
            "cache_packets",
            given,
            Size::Segments(f64::from(CACHE_PACKETS)),
        )]
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
