//! Segmentation offload: segments that leave together are one frame (Linux TSO, GSO and GRO;
//! profile key `segmentation_offload`).
//!
//! The sender hands several full segments down at once. They pass an emulator on the sending host,
//! and every link here, as one frame: one loss, one place in a queue, one arrival, one ACK. The
//! scoreboard has one entry for a frame, as Linux has one `sk_buff`, so that it is marked lost,
//! sampled and sent again as a whole. Linux splits a frame that is sent again if cwnd has room for
//! a part of it only (`tcp_fragment`), and probes the tail with its last segment alone; here both
//! send the whole frame.

use crate::recovery::sack_state::{Phase, SackState};
use crate::sender::Sender;
use crate::window::WindowRule;
use lasthop_core::units::{Duration, Rate, Time};

/// Payload bytes of a frame at most: 64 KiB less the largest header (`GSO_LEGACY_MAX_SIZE`,
/// `MAX_TCP_HEADER`).
const MAX_FRAME: f64 = 65_535.0 - 320.0;
/// Segments of a frame at least, where so many may be sent (sysctl `net.ipv4.tcp_min_tso_segs`).
const MIN_SEGMENTS: u32 = 2;
/// After this time without a frame the next one is not put off.
const RECENT: Duration = Duration::millis(1);

/// Payload bytes of a frame at this rate: what 1/1024 s takes and, where the round trip is short,
/// 64 KiB halved for each 512 us of it; whole segments of `mss` bytes, at least `min_segments`
/// (Linux `tcp_tso_autosize`, `bbr_tso_segs_generic`).
pub fn autosize(rate: Rate, min_rtt: Option<Duration>, mss: f64, min_segments: u32) -> f64 {
    let halvings = min_rtt.map_or(u64::MAX, |rtt| rtt.0 / 512_000);
    let short = if halvings < 32 { 65_536 >> halvings } else { 0 };
    let bytes = ((rate.0 / 8 / 1024 + short) as f64).min(MAX_FRAME);
    mss * libm::floor(bytes / mss).max(f64::from(min_segments))
}

impl<W: WindowRule> Sender<W> {
    /// Payload bytes of the next frame of new data, of which `room` bytes fit into the window:
    /// whole segments, at least one, and at most half of cwnd (Linux `tcp_cwnd_test`).
    pub(super) fn frame_bytes(&self, room: u64, s: &SackState) -> u32 {
        let mss = u64::from(self.config.mss.max(1));
        let usable = self.rwnd.saturating_sub(self.snd_nxt - self.snd_una);
        let half = self.window.bytes(0.0) / 2;
        let most = u64::from(self.largest_frame(s)).min(room).min(usable).min(half);
        (most / mss * mss).max(mss) as u32
    }

    /// New data wait, although `room` bytes fit into the window, for the next ACK to make room for
    /// a whole frame (Linux `tcp_tso_should_defer`). Not in recovery, not 1 ms after the last frame
    /// might have been followed, not if a third of the window is free, and not if no ACK is to be
    /// expected within half of the round-trip time.
    pub(super) fn defers(&self, now: Time, room: u64, s: &SackState) -> bool {
        let last = self.pacer.as_ref().map_or(self.last_sent, |p| p.next());
        if s.phase != Phase::Open || now > last + RECENT {
            return false;
        }
        let room = room.min(self.rwnd.saturating_sub(self.snd_nxt - self.snd_una));
        let third = self.rwnd.min(self.window.bytes(0.0)) / 3;
        let all = self.written.saturating_sub(self.snd_nxt);
        if room >= u64::from(self.largest_frame(s)).min(all).min(third) {
            return false;
        }
        let (Some(head), Some(srtt)) = (self.board.at(0), self.rto.srtt()) else { return false };
        now - head.last_sent >= Duration(srtt.0 / 2)
    }

    fn largest_frame(&self, s: &SackState) -> u32 {
        self.rule.burst().unwrap_or_else(|| {
            let rate = self.rule.pacing().unwrap_or_else(|| self.rate_by_window());
            autosize(rate, s.rack.min_rtt(), f64::from(self.config.mss.max(1)), MIN_SEGMENTS) as u32
        })
    }

    /// The rate of a sender that does not pace: 1.2 windows in a round trip, 2 in the first half of
    /// slow start (Linux `tcp_update_pacing_rate`).
    fn rate_by_window(&self) -> Rate {
        let Some(srtt) = self.rto.srtt().filter(|s| *s > Duration::ZERO) else {
            return Rate(u64::MAX);
        };
        let share = if self.window.cwnd < self.window.ssthresh / 2.0 { 2.0 } else { 1.2 };
        Rate((8.0 * share * self.window.cwnd.max(self.flight() as f64) / srtt.as_secs()) as u64)
    }

    /// Header bytes of all segments of a frame but the first: each has its own on the wire, and
    /// queues and rates count them (Linux `qdisc_pkt_len_init`).
    pub(super) fn further_headers(&self, len: u32) -> u32 {
        let stamp = if self.profile.timestamps { self.profile.timestamp_bytes } else { 0 };
        (len.div_ceil(self.config.mss.max(1)).max(1) - 1) * (self.config.headers + stamp)
    }

    /// Segments that `bytes` of payload make.
    pub(super) fn segments_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.config.mss.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 Mbit/s are 1220 bytes in 1/1024 s, 50 Mbit/s 6103. 2 ms are three times 512 us: 64 KiB /
    /// 8; 2.048 ms four times.
    #[test]
    fn frames_are_larger_where_the_round_trip_is_short() {
        let segments = |mbps: u64, rtt_us: u64| {
            autosize(Rate(mbps * 1_000_000), Some(Duration::micros(rtt_us)), 1448.0, 2) / 1448.0
        };
        assert_eq!(
            [segments(10, 80_000), segments(50, 80_000), segments(1, 80_000)],
            [2.0, 4.0, 2.0]
        );
        assert_eq!([segments(10, 2000), segments(50, 2000), segments(10, 2048)], [6.0, 9.0, 3.0]);
        assert_eq!(
            [segments(10, 500), segments(10_000, 80_000)],
            [45.0, 45.0],
            "64 KiB less the headers"
        );
        assert_eq!(autosize(Rate(10_000_000), None, 1448.0, 2), 2896.0);
        assert_eq!(autosize(Rate(10_000_000), Some(Duration::millis(80)), 2896.0, 1), 2896.0);
    }
}
