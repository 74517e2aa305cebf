//! Bursts of several segments (profile key `tso_defer`), which leave as one frame under
//! `segmentation_offload` (see `tcp/offload.rs`).

use super::Stream;
use crate::offload::{autosize, rate_above, rate_of_more};
use crate::profile::TsoDefer;
use crate::recovery::detect::rack::Rack;
use crate::window::WindowRule;
use lasthop_core::units::{Duration, Time};

/// Segments of a frame at least, if the window allows them (sysctl `net.ipv4.tcp_min_tso_segs`).
const MIN_SEGMENTS: u32 = 2;
/// After this time without a frame the next one is not deferred; nor is one if no ACK is due within
/// it (`NSEC_PER_MSEC`).
const RECENT: Duration = Duration::millis(1);

/// Payload bytes of a frame at most, computed when they are first asked for, since that takes two
/// divisions. Valid until something is sent or acknowledged.
pub struct LargestFrame<'a> {
    rack: Option<&'a Rack>,
    bytes: Option<u32>,
}

impl<'a> LargestFrame<'a> {
    /// Not yet computed; `rack` has the smallest round-trip time.
    #[inline]
    pub fn new(rack: Option<&'a Rack>) -> Self {
        LargestFrame { rack, bytes: None }
    }
}

#[allow(clippy::multiple_inherent_impl, reason = "one file for each task of the stream")]
impl<W: WindowRule> Stream<W> {
    /// Several segments may leave as one frame.
    #[inline]
    pub fn offloads(&self) -> bool {
        self.offload
    }

    /// New data leave in bursts of several segments.
    #[inline]
    pub fn sends_bursts(&self) -> bool {
        self.offload || self.profile.tso_defer != TsoDefer::Off
    }

    /// Payload bytes of the next burst of new data, of which `room` bytes fit into the window:
    /// whole segments, at least one, and at most half of cwnd (Linux `tcp_cwnd_test`).
    pub fn frame_bytes(&self, room: u64, largest: &mut LargestFrame<'_>) -> u32 {
        let mss = u64::from(self.config.mss.max(1));
        let usable = self.rwnd.saturating_sub(self.snd_nxt - self.snd_una);
        let half = self.window().bytes(0.0) / 2;
        let most = room.min(usable).min(half);
        if most < 2 * mss {
            return mss as u32;
        }
        let frame = u64::from(self.largest_frame(largest));
        if frame == 2 * mss {
            return frame as u32;
        }
        (frame.min(most) / mss * mss).max(mss) as u32
    }

    /// New data wait, although `room` bytes fit into the window, for the next ACK to make room for
    /// a whole burst (Linux `tcp_tso_should_defer`). Not 1 ms after the last burst might have been
    /// followed, not if a third of the window is free, and not if no ACK is due soon. (Linux
    /// excepts the FIN only where it fits, and all that fits is sent here.)
    #[inline(always)]
    pub fn defers(&self, now: Time, room: u64, largest: &mut LargestFrame<'_>) -> bool {
        let last = self.congestion.next_departure().unwrap_or(self.last_sent);
        if now > last + RECENT {
            return false;
        }
        let room = room.min(self.rwnd.saturating_sub(self.snd_nxt - self.snd_una));
        let third = self.rwnd.min(self.window().bytes(0.0)) / 3;
        let all = self.written.saturating_sub(self.snd_nxt);
        if room >= all.min(third) {
            return false;
        }
        let (Some(head), Some(srtt)) = (self.board.at(0), self.timers.rto().srtt()) else {
            return false;
        };
        let half = Duration(srtt.0 / 2);
        let is_ack_due = match self.profile.tso_defer {
            TsoDefer::Off => false,
            TsoDefer::HalfRtt => now - head.last_sent >= half,
            TsoDefer::AckDue => head.last_sent + srtt <= now + half.min(RECENT),
        };
        is_ack_due
            && (self.is_frame_surely_above(room, srtt)
                || room < u64::from(self.largest_frame(largest)))
    }

    /// A frame may have more than `bytes`; false also if only a division would tell.
    #[inline(always)]
    fn is_frame_surely_above(&self, bytes: u64, srtt: Duration) -> bool {
        let Some(rate) = rate_above(bytes, u64::from(self.config.mss)) else { return false };
        self.congestion.burst().is_none()
            && self.congestion.surely_sends_at(rate, srtt, self.flight())
    }

    /// A frame has `MIN_SEGMENTS` at most; false also if only a division would tell.
    #[inline(always)]
    fn is_frame_surely_smallest(&self, min_rtt: Option<Duration>) -> bool {
        let more = rate_of_more(u64::from(self.config.mss.max(1)), MIN_SEGMENTS, min_rtt);
        more.zip(self.timers.rto().srtt()).is_some_and(|(rate, srtt)| {
            self.congestion.surely_sends_below(rate, srtt, self.flight())
                && self.congestion.burst().is_none()
        })
    }

    /// Payload bytes of a frame at most.
    #[inline(always)]
    pub(super) fn largest_frame(&self, largest: &mut LargestFrame<'_>) -> u32 {
        if let Some(bytes) = largest.bytes {
            return bytes;
        }
        let min_rtt = largest.rack.and_then(Rack::min_rtt);
        let bytes = if self.is_frame_surely_smallest(min_rtt) {
            MIN_SEGMENTS * self.config.mss.max(1)
        } else {
            self.exact_frame(min_rtt)
        };
        largest.bytes = Some(bytes);
        bytes
    }

    /// The same with a division.
    #[inline(never)]
    fn exact_frame(&self, min_rtt: Option<Duration>) -> u32 {
        self.congestion.burst().unwrap_or_else(|| {
            let rate = self.congestion.sending_rate(self.timers.rto().srtt(), self.flight());
            autosize(rate, min_rtt, f64::from(self.config.mss.max(1)), MIN_SEGMENTS) as u32
        })
    }

    /// Header bytes of all segments of a frame except the first: each has its own header on the
    /// wire, and queues and rates count them (Linux `qdisc_pkt_len_init`).
    #[inline]
    pub fn further_headers(&self, len: u32) -> u32 {
        if len <= self.config.mss { 0 } else { self.headers_beyond_first(len) }
    }

    #[inline(never)]
    fn headers_beyond_first(&self, len: u32) -> u32 {
        let stamp = if self.profile.timestamps { self.profile.timestamp_bytes } else { 0 };
        (len.div_ceil(self.config.mss.max(1)).max(1) - 1) * (self.config.headers + stamp)
    }

    /// Segments of a frame with `len` bytes of payload, if several may leave as one frame.
    #[inline]
    pub fn offloaded_segments(&self, len: u32) -> Option<u32> {
        self.offload.then(|| self.segments_of(u64::from(len)) as u32)
    }

    /// Segments that `bytes` of payload make.
    #[inline(never)]
    pub fn segments_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.config.mss.max(1)))
    }
}
