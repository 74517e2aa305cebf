//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation-02).

use crate::units::Duration;

/// How fast the network delivered between two moments of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Bytes per second.
    pub rate: f64,
    /// Bytes delivered in the interval.
    pub delivered: u64,
    /// The interval: the longer of that of sending and that of acknowledging.
    pub interval: Duration,
    /// Bytes that the connection had delivered when the segment acknowledged last was sent: tells round trips.
    pub prior_delivered: u64,
    /// Bytes that the connection has delivered by now.
    pub total_delivered: u64,
    /// The application did not keep the pipe full.
    pub app_limited: bool,
    /// Bytes in flight when that segment had been sent, itself included.
    pub tx_in_flight: u64,
    /// Round-trip time of that segment, if it was sent only once.
    pub rtt: Option<Duration>,
    /// Bytes found lost between then and now.
    pub lost: u64,
    /// Bytes found lost by this ACK.
    pub newly_lost: u64,
}
