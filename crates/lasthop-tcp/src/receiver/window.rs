//! The window of a receiver, and how a relay controls window and ACK number.

use super::Receiver;
use crate::profile::WindowUpdate;
use crate::sender::config::Output;
use lasthop_core::units::Time;

#[allow(clippy::multiple_inherent_impl, reason = "the ACKs and the window are files apart")]
impl Receiver {
    /// In-order bytes not yet read (manual reading).
    pub fn unread(&self) -> u64 {
        self.unread
    }

    /// Segments that brought nothing new.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// What the buffer has left.
    #[inline]
    pub(super) fn window(&self) -> u64 {
        let room = self.window_limit.min(self.config.buffer.saturating_sub(self.unread));
        let held = if self.is_optimistic() { 0 } else { self.ahead.bytes() };
        self.growth.as_ref().map_or(room, |g| room.min(g.window(held + self.unread)))
    }

    /// The receiver of an application that reads by [`Self::read`], not when data arrive. What it
    /// reads makes room again, without a relay that limits the window; a window that grows follows
    /// what is read. The right edge of the window moves by a segment at least, or by half of the
    /// buffer (RFC 9293, section 3.8.6.2.2).
    pub fn with_manual_reading(mut self) -> Self {
        self.config.manual_read = true;
        self.window_limit = u64::MAX;
        self.edge_step = u64::from(self.config.mss).min(self.config.buffer / 2).max(1);
        self
    }

    /// What arrives is read by [`Self::read`].
    pub fn is_read_manually(&self) -> bool {
        self.config.manual_read
    }

    /// The application reads `bytes` (manual reading). If the window opens by enough, an ACK is
    /// sent at once.
    pub fn read(&mut self, now: Time, bytes: u64, mss: u32, out: &mut impl Output) {
        self.unread -= bytes.min(self.unread);
        self.update_window(now, mss, out);
    }

    /// The window that the SYN is answered with, if it is less than the buffer (relays).
    pub fn begin_with(&mut self, bytes: u64) {
        self.window_limit = self.window_limit.min(bytes);
        self.edge = self.edge.min(bytes);
    }

    /// Limits the advertised window (relays).
    pub fn set_window_limit(&mut self, now: Time, bytes: u64, mss: u32, out: &mut impl Output) {
        self.window_limit = bytes;
        self.leave_plain();
        self.update_window(now, mss, out);
    }

    /// The limit that a relay has set to the advertised window; `None` while the relay has closed
    /// it.
    pub fn window_limit(&self) -> Option<u64> {
        (!self.shut).then_some(self.window_limit)
    }

    /// Right edge of the window as last advertised, as an offset in the stream.
    pub fn right_edge(&self) -> u64 {
        self.edge
    }

    /// The ACK number of the last ACK, as an offset in the stream without the FIN.
    pub fn last_ack(&self) -> u64 {
        self.last_ack
    }

    /// Its buffer: the largest window that it advertises.
    pub fn buffer(&self) -> u64 {
        self.config.buffer
    }

    /// A larger window is advertised at once if it is large enough.
    pub(super) fn update_window(&mut self, now: Time, mss: u32, out: &mut impl Output) {
        if self.open && self.is_news(self.window(), mss) {
            self.ack_now(now, out);
        }
    }

    /// True if a window of `bytes` is worth an ACK.
    fn is_news(&self, bytes: u64, mss: u32) -> bool {
        match self.window_update {
            WindowUpdate::TwoSegments => {
                let grown = (self.rcv_nxt + bytes).saturating_sub(self.edge);
                grown >= (2 * u64::from(mss)).min(self.config.buffer / 2).max(1)
            }
            WindowUpdate::Doubled => {
                let left = self.edge.saturating_sub(self.rcv_nxt);
                let most = self.growth.as_ref().map_or(self.config.buffer, |g| g.room());
                2 * left <= most && bytes >= (2 * left).max(u64::from(mss).min(most / 2)).max(1)
            }
        }
    }

    /// Acknowledges at most up to `offset` from now on (relays); at once if that is more than
    /// before.
    pub fn acknowledge_up_to(&mut self, now: Time, offset: u64, out: &mut impl Output) {
        let news = offset.min(self.rcv_nxt) > self.ack_limit.min(self.rcv_nxt);
        self.ack_limit = offset;
        self.leave_plain();
        if news && self.open {
            self.ack_now(now, out);
        }
    }

    /// An ACK of what came in order would repeat the last one: the relay withholds the number, and
    /// the sender would take a duplicate ACK for a loss.
    pub(super) fn withholds(&self, clean: bool) -> bool {
        clean && self.rcv_nxt > self.ack_limit && self.last_ack >= self.ack_limit
    }

    /// Acknowledges up to `offset` with a closed window (relays). Data that were offered
    /// before are still accepted.
    pub fn close_window(&mut self, now: Time, offset: u64, out: &mut impl Output) {
        (self.ack_limit, self.shut) = (offset, true);
        self.leave_plain();
        if self.open {
            self.ack_now(now, out);
        }
    }

    /// Opens the window again and acknowledges up to `offset`.
    pub fn open_window(&mut self, now: Time, offset: u64, out: &mut impl Output) {
        self.ack_limit = offset;
        self.leave_plain();
        if std::mem::take(&mut self.shut) && self.open {
            self.ack_now(now, out);
        }
    }
}
