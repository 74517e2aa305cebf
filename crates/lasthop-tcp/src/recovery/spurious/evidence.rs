//! What the detection of spurious reductions gets and answers: an ACK, the sender before and after
//! a reduction, the verdict, and what is restored.

use crate::window::Window;
use lasthop_core::units::Duration;

/// What an ACK says about the last reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: recovery continues as usual.
    Usual,
    /// It was spurious.
    Spurious,
    /// F-RTO, step 2b: two new segments instead of retransmissions, then wait for the next ACK.
    SendNew,
    /// F-RTO, step 3a: the timeout was not spurious.
    Confirmed,
}

/// An ACK as the detection sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// The ACK number.
    pub ack: u64,
    /// Bytes that it newly acknowledges.
    pub acked: u64,
    /// The lowest end of a segment, sent once, that it newly acknowledges or SACKs.
    pub fresh_end: Option<u64>,
    /// The highest byte acknowledged or SACKed.
    pub highest: u64,
    /// The timestamp that it echoes.
    pub echo: Option<u32>,
    /// It carries an ECN echo.
    pub ece: bool,
    /// It reports a duplicate (RFC 2883).
    pub dsack: bool,
}

/// The sender before a reduction.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// cwnd and ssthresh.
    pub window: Window,
    /// Bytes in flight.
    pub flight: u64,
    /// The byte after the last one sent.
    pub snd_max: u64,
    /// SRTT + 2 G and RTTVAR.
    pub rtt: Option<(Duration, Duration)>,
}

/// The sender when a reduction has been found spurious, and the ACK that shows it is processed.
#[derive(Clone, Copy, Debug)]
pub struct After {
    /// cwnd and ssthresh.
    pub window: Window,
    /// Bytes in flight.
    pub flight: u64,
    /// Bytes that the ACK acknowledged.
    pub acked: u64,
    /// The initial window in bytes.
    pub initial_window: u64,
    /// Maximum segment size in bytes.
    pub mss: u32,
}

/// What is restored after a spurious reduction.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// cwnd and ssthresh.
    pub window: Window,
    /// The first round-trip time of data above this byte restarts the estimates from these (RFC
    /// 4015, step 9).
    pub reseed: Option<(u64, (Duration, Duration))>,
}
