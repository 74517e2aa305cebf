//! What keeps a sender from sending its next new byte.

use serde::{Deserialize, Serialize};

use crate::window::Window;

/// What keeps a flow from sending its next new byte.
///
/// A sender alone knows `Application` to `Outage`; a host adds what stands between the ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Nothing to send: the application has written nothing more.
    #[default]
    Application,
    /// The SYN is not answered yet.
    Handshake,
    /// The congestion window, loss recovery included.
    Cwnd,
    /// The pacing rate: the window has room, and the next segment waits for its time.
    Pacing,
    /// The receive window that was advertised.
    ReceiveWindow,
    /// The send buffer: it is full of data that are not acknowledged, and the program waits.
    SendBuffer,
    /// A notice of a link outage has frozen the sender.
    Outage,
    /// The buffer of a relay.
    RelayBuffer,
    /// The cache of an agent.
    AgentCache,
}

impl Limit {
    /// How many there are.
    pub const COUNT: usize = 9;
}

/// How much of cwnd the sender has used in this round trip (Linux `tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
pub struct CwndUsage {
    /// cwnd was full after a transmission.
    full: bool,
    /// The most segments out while it was not full (`max_packets_out`).
    most_out: usize,
    /// The round trip ends when this byte is acknowledged.
    until: u64,
}

impl CwndUsage {
    /// After sending: cwnd is full, or not, with `out` segments in flight.
    #[inline]
    pub fn note(&mut self, full: bool, out: usize, snd_una: u64, snd_nxt: u64) {
        if snd_una >= self.until || full || (!self.full && out > self.most_out) {
            *self = CwndUsage { full, most_out: out, until: snd_nxt };
        }
    }

    /// cwnd was full, or in slow start at least half of it was used.
    #[inline]
    pub fn is_limited(&self, window: Window, mss: u32) -> bool {
        let twice = 2.0 * self.most_out as f64 * f64::from(mss);
        self.full || (window.slow_start() && window.cwnd < twice)
    }
}
