//! What a relay reads and controls of the ends of a split connection.

use lasthop::units::{Duration, Time};

use super::Endpoint;

#[allow(clippy::multiple_inherent_impl, reason = "one file for each task of a connection")]
impl Endpoint {
    /// Bytes of the peer that have arrived in order since the connection was opened.
    pub fn received(&self) -> u64 {
        self.receiver.as_ref().map_or(0, |receiver| receiver.rcv_nxt())
    }

    /// The peer has closed its direction; some data may not have been read.
    pub fn peer_has_closed(&self) -> bool {
        self.has_received_fin()
    }

    /// Bytes that the application has written and the peer has not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.written - self.acknowledged()
    }

    /// Stream offset up to which the peer has acknowledged; the FIN counts as a byte.
    pub fn acknowledged_offset(&self) -> u64 {
        self.sender.snd_una()
    }

    /// Bytes in flight to the peer.
    pub fn in_flight(&self) -> u64 {
        self.sender.flight()
    }

    /// Bytes of a full segment as a packet.
    pub fn full_size(&self) -> u32 {
        self.sender.full_size()
    }

    /// The smallest round-trip time measured; `None` before the first sample.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// Limits the window that is advertised, bytes.
    pub fn set_receive_window(&mut self, now: Time, bytes: u64) {
        let mss = self.segment();
        self.with_receiver(now, |receiver, port| receiver.set_window_limit(now, bytes, mss, port));
        self.settle(now);
    }

    /// Acknowledges no further than this offset from now on.
    pub fn acknowledge_up_to(&mut self, now: Time, offset: u64) {
        self.with_receiver(now, |receiver, port| receiver.acknowledge_up_to(now, offset, port));
        self.settle(now);
    }

    /// Acknowledges up to this offset with a closed window.
    pub fn close_window(&mut self, now: Time, offset: u64) {
        self.with_receiver(now, |receiver, port| receiver.close_window(now, offset, port));
        self.settle(now);
    }

    /// Opens the window again, and acknowledges up to this offset.
    pub fn open_window(&mut self, now: Time, offset: u64) {
        self.with_receiver(now, |receiver, port| receiver.open_window(now, offset, port));
        self.settle(now);
    }

    /// Sets the congestion window, bytes.
    pub fn set_window(&mut self, now: Time, bytes: u64) {
        self.with_sender(|sender, port| sender.set_window(now, bytes, port));
        self.settle(now);
    }

    /// Freezes the sender and its timers.
    pub fn hold(&mut self) {
        self.sender.hold();
    }

    /// Lets a held sender continue; the first `lost` bytes in flight are retransmitted at once.
    pub fn resume(&mut self, now: Time, lost: u64) {
        self.with_sender(|sender, port| sender.resume(now, lost, port));
        self.settle(now);
    }
}
