//! The Eifel algorithm (Ludwig and Katz 2000; RFC 3522, RFC 4015): a timestamp tells whether an ACK
//! answers the original transmission or a retransmission.

use super::evidence::{After, Before, Evidence};
use crate::recovery::config::Eifel;
use crate::timestamps::timestamp;
use crate::window::Window;
use lasthop_core::units::{Duration, Time};

/// A reduction that may be spurious, until an ACK decides.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// The window before it.
    before: Window,
    /// max(flight, ssthresh) before it (RFC 4015, step 0).
    pipe_prev: f64,
    /// SRTT + 2 G and RTTVAR before it.
    rtt_prev: Option<(Duration, Duration)>,
    /// The timestamp of the first retransmission: further ones do not overwrite it (RFC 3522,
    /// section 3.2 step 2).
    stamp: u32,
    /// How often the first segment was retransmitted.
    retransmissions: u32,
    timeout: bool,
    /// snd_max at the reduction: what lies above is new data.
    snd_max: u64,
    /// No ACK of new data has come since.
    open: bool,
}

/// `a` is earlier than `b` on a clock that wraps.
fn earlier(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Reduction {
    /// A reduction that is about to be made.
    pub fn new(now: Time, timeout: bool, before: &Before) -> Reduction {
        Reduction {
            before: before.window,
            pipe_prev: (before.flight as f64).max(before.window.ssthresh),
            rtt_prev: before.rtt,
            stamp: timestamp(now),
            retransmissions: 1,
            timeout,
            snd_max: before.snd_max,
            open: true,
        }
    }

    /// No ACK of new data has come since.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// A further reduction before any ACK of new data.
    pub fn repeat(&mut self, timeout: bool) {
        self.retransmissions += 1;
        self.timeout |= timeout;
    }

    /// An ACK of new data. True if it is the first one.
    pub fn close(&mut self) -> bool {
        std::mem::take(&mut self.open)
    }

    /// It was, or became, that of a timeout.
    pub fn was_timeout(&self) -> bool {
        self.timeout
    }

    /// The estimates to restart from, and the byte above which data count for that.
    pub fn estimates(&self) -> Option<(u64, (Duration, Duration))> {
        self.rtt_prev.map(|previous| (self.snd_max, previous))
    }

    /// The first ACK of new data after the retransmission answers an earlier transmission (RFC
    /// 3522, section 3.2).
    pub fn is_refuted(&self, eifel: Eifel, dsack_seen: bool, ack: &Evidence, snd_max: u64) -> bool {
        let older = ack.echo.is_some_and(|echo| earlier(echo, self.stamp));
        // Step 5: an ACK that covers everything could be the answer to a retransmission, if the
        // ACKs of the originals were lost. A receiver that reports duplicates would have said so.
        let no_doubt = !ack.dsack && (dsack_seen || ack.ack < snd_max);
        match eifel {
            Eifel::Off => false,
            Eifel::Original => older,
            Eifel::Rfc => older && no_doubt,
        }
    }

    /// RFC 4015, step 8: the flight and what was just acknowledged, in slow start up to what had
    /// been in flight. The original Eifel restores the whole window, half of it after a second
    /// timeout in a row, nothing after a third. Linux (`restores_all`) restores the whole window.
    pub fn window_to_restore(&self, eifel: Eifel, restores_all: bool, after: &After) -> Window {
        let mss = f64::from(after.mss);
        if eifel == Eifel::Original {
            return match self.retransmissions {
                1 => self.before,
                2 => Window {
                    cwnd: (self.before.cwnd / 2.0).max(mss),
                    ssthresh: (self.before.ssthresh / 2.0).max(2.0 * mss),
                },
                _ => after.window,
            };
        }
        if restores_all {
            return self.before;
        }
        let cwnd = (after.flight + after.acked.min(after.initial_window)) as f64;
        Window { cwnd, ssthresh: self.pipe_prev }
    }
}
