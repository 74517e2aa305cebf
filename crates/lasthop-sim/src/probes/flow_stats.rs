//! What is counted of a flow in the measured time.

use lasthop::histogram::Histogram;
use lasthop::tcp::receiver::Discard;
use lasthop::units::Time;

use super::calls::CallStats;
use super::frames::FrameStats;
use super::requests::RequestStats;

/// Measurements of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowStats {
    /// In-order payload bytes delivered in the measured time.
    pub delivered: u64,
    /// Segments that receivers discarded in the measured time, by the number of the reason.
    pub discarded: [u64; Discard::ALL.len()],
    /// When the first byte was delivered.
    pub first_byte: Option<Time>,
    /// Round-trip time samples in the measured time.
    pub rtt: Histogram,
    /// Delay of each byte from its write to its delivery.
    pub delay: Histogram,
    /// Datagrams sent in the measured time.
    pub datagrams: u64,
}

/// What is measured of the user of a flow. Most flows have nothing of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserStats {
    /// Of a call.
    pub call: Option<Box<CallStats>>,
    /// Of a medium with frames.
    pub frames: Option<Box<FrameStats>>,
    /// Of a client.
    pub requests: Option<Box<RequestStats>>,
}
