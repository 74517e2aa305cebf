//! The settings of Snoop.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::Bound;
use lasthop_core::units::{Duration, Share, Size};
use lasthop_tcp::sender::Limit;

/// Settings of Snoop.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Snoop {
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
    /// Smoothed RTT of the last hop before the first sample.
    pub initial_srtt: Duration,
    /// Mean deviation of the RTT of the last hop before the first sample.
    pub initial_rttvar: Duration,
    /// Gain of the RTT estimator.
    pub gain: Share,
    /// Weight the RTT as ns-2 does: srtt = gain × srtt + (1 - gain) × sample. Off: the gain is the
    /// weight of the sample.
    pub ns2_rtt_weights: bool,
    /// Measure the RTT as ns-2 does: also for retransmitted segments, since their last local
    /// transmission; also for the handshake; and update it after setting the local timer. Off: only
    /// segments sent once over the radio link (Karn's rule), and since the last hole was filled.
    pub ns2_rtt_samples: bool,
    /// Double the local timer with every expiry until a new ACK arrives; ns-2 does not.
    pub backoff: bool,
    /// Maximum number of local retransmissions of a segment, by timer and duplicate ACKs together;
    /// after that duplicate ACKs are forwarded to the sender.
    pub max_retransmissions: u32,
    /// Forward the first duplicate ACK and retransmit at the second, as in ns-2 (RTX_THRESH 1).
    /// Off: retransmit at the first.
    pub first_dupack_passes: bool,
    /// Use one counter of passed duplicate ACKs for all flows and never reset it, as ns-2 does:
    /// after a loss with a single duplicate ACK, the first duplicate ACK of the next loss triggers
    /// the local retransmission. Off: the counter restarts with each segment.
    pub ns2_passing: bool,
    /// Duplicate ACKs suppressed in addition to the number expected at the first count after a new
    /// ACK; ns-2 also counts the lost segment, hence 1.
    #[schemars(extend("unit" = "duplicate ACKs"))]
    pub expected_slack: u32,
    /// Suppress expected duplicate ACKs even after the sender's retransmission or the last local
    /// one, as ns-2 does. Off: forward them, as in the paper.
    pub ns2_suppress_expected: bool,
    /// Detect the sender's retransmissions as ns-2 does: only segments cached before and, of the
    /// others, those below all cached segments; none while the queue is full. Off: every segment
    /// below the highest one seen.
    pub ns2_sender_retransmissions: bool,
    /// Treat a full cache as ns-2 does, whose ring buffer then looks empty: the sender's
    /// retransmissions are not detected, and the first count after a new ACK expects no duplicate
    /// ACKs, so all are forwarded.
    pub ns2_full_cache: bool,
    /// Also run an agent at the station, for uplink data (yun2009, section 5.2).
    pub uplink: bool,
    /// Sender to use; empty: the profile's default.
    pub sender: String,
}

impl Default for Snoop {
    fn default() -> Self {
        Snoop {
            cache_packets: None,
            cache_bytes: 64 << 20,
            max_flows: 4096,
            tick: Duration::millis(100),
            initial_srtt: Duration::millis(100),
            initial_rttvar: Duration::millis(250),
            gain: Share(0.125),
            ns2_rtt_weights: false,
            ns2_rtt_samples: false,
            backoff: true,
            max_retransmissions: 10,
            first_dupack_passes: true,
            ns2_passing: false,
            expected_slack: 1,
            ns2_suppress_expected: false,
            ns2_sender_retransmissions: false,
            ns2_full_cache: false,
            uplink: false,
            sender: String::new(),
        }
    }
}

impl Snoop {
    /// Segments cached per flow.
    pub fn cached_at_most(&self) -> usize {
        self.cache_packets.unwrap_or(CACHE_PACKETS) as usize
    }
}

/// Default number of segments cached per flow.
const CACHE_PACKETS: u32 = 100;

/// The bound of a cache with this setting.
pub fn cache_bound(packets: Option<u32>) -> Bound {
    let size = |n| Size::Segments(f64::from(n));
    let (given, published) = (packets.map(size), size(CACHE_PACKETS));
    Bound::of_path(Limit::AgentCache, "cache_packets", given, published)
}
