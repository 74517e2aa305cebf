//! What is known of a loss: how it was detected, its class, the lost segment.

use lasthop_core::units::Time;

/// How the sender detected a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// Enough duplicate ACKs, SACK blocks or time (RACK).
    DuplicateAcks,
    /// The retransmission timer.
    Timeout,
    /// An ECN echo: nothing is lost (RFC 3168, section 6.1.2).
    Ecn,
}

/// The class that a window rule assigns to a loss. The confusion matrix compares it with the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossClass {
    /// The rule does not classify losses.
    #[default]
    Unclassified,
    /// A loss of the radio.
    Wireless,
    /// A loss by congestion.
    Congestion,
}

/// A segment that is newly considered lost, for rules that count each loss.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// The current time.
    pub now: Time,
    /// Offset of its first byte.
    pub seq: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes in flight when it had been sent, itself included.
    pub tx_in_flight: u64,
    /// Bytes found lost since it was sent, itself included.
    pub lost: u64,
    /// Bytes that the connection has delivered by now.
    pub delivered: u64,
    /// The application did not keep the pipe full when it was sent.
    pub app_limited: bool,
}
