//! What is counted of a flow in the measured time.

use lasthop::histogram::Histogram;
use lasthop::units::Time;

/// Measurements of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowStats {
    /// In-order payload bytes delivered in the measured time.
    pub delivered: u64,
    /// When the first byte was delivered.
    pub first_byte: Option<Time>,
    /// Round-trip time samples in the measured time.
    pub rtt: Histogram,
    /// Delay of each byte from its write to its delivery.
    pub delay: Histogram,
    /// Datagrams sent in the measured time.
    pub datagrams: u64,
}
