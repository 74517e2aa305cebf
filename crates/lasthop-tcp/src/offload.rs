//! Segmentation offload: segments that leave together are one frame (Linux TSO, GSO and GRO;
//! profile key `segmentation_offload`).
//!
//! The sender hands several full segments down at once. They pass an emulator on the sending host,
//! and every link here, as one frame: one loss, one place in a queue, one arrival, one ACK. The
//! scoreboard has one entry for a frame, as Linux has one `sk_buff`, so that it is marked lost,
//! sampled and sent again as a whole. Linux splits a frame that is sent again if cwnd has room for
//! a part of it only (`tcp_fragment`), and probes the tail with its last segment alone; here both
//! send the whole frame.

use lasthop_core::units::{Duration, Rate};

/// Payload bytes of a frame at most: 64 KiB less the largest header (`GSO_LEGACY_MAX_SIZE`,
/// `MAX_TCP_HEADER`).
const MAX_FRAME: f64 = 65_535.0 - 320.0;
/// Payload bytes of a frame at this rate: what 1/1024 s takes and, where the round trip is short,
/// 64 KiB halved for each 512 us of it; whole segments of `mss` bytes, at least `min_segments`
/// (Linux `tcp_tso_autosize`, `bbr_tso_segs_generic`).
pub fn autosize(rate: Rate, min_rtt: Option<Duration>, mss: f64, min_segments: u32) -> f64 {
    let halvings = min_rtt.map_or(u64::MAX, |rtt| rtt.0 / 512_000);
    let short = if halvings < 32 { 65_536 >> halvings } else { 0 };
    let bytes = ((rate.0 / 8 / 1024 + short) as f64).min(MAX_FRAME);
    // Neither negative nor above 65,535: the conversion rounds down.
    mss * f64::from(((bytes / mss) as u32).max(min_segments))
}

/// A rate at which [`autosize`] gives more than `bytes`, however long the round trip; `None` if
/// there is none.
#[inline]
pub fn rate_above(bytes: u64, mss: u64) -> Option<Rate> {
    // Rounded down to whole segments it is still more.
    let enough = bytes + mss;
    (enough as f64 <= MAX_FRAME).then_some(Rate(8 * 1024 * enough))
}

/// `bits` in `seconds` are at least `rate`, told without a division; false also if only a division
/// would tell.
#[inline]
pub fn surely_reaches(bits: f64, seconds: f64, rate: Rate) -> bool {
    // Above the rounded product, so not below the exact one; then the quotient, rounded, is not
    // below the rate either, which is a whole number.
    bits > rate.0 as f64 * seconds
}

/// The rate below which [`autosize`] gives `min_segments`; `None` where the round trip is so short
/// that it matters.
#[inline]
pub fn rate_of_more(mss: u64, min_segments: u32, min_rtt: Option<Duration>) -> Option<Rate> {
    let long = min_rtt.is_none_or(|rtt| rtt.0 >= 32 * 512_000);
    long.then_some(Rate(8 * 1024 * mss * (u64::from(min_segments) + 1)))
}

/// `bits` in `seconds` are less than `rate`, told without a division; false also if only a division
/// would tell.
#[inline]
pub fn surely_stays_below(bits: f64, seconds: f64, rate: Rate) -> bool {
    // Below the rounded product, so not above the exact one; then the quotient, rounded, is not
    // above the rate less 1.
    bits < (rate.0.saturating_sub(1)) as f64 * seconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A segment size, a factor near 1, a smoothed RTT in s, and the smallest RTT if there is one.
    fn path() -> impl Strategy<Value = (u64, f64, f64, Option<Duration>)> {
        let min_rtt = prop::option::of((0u64..100_000).prop_map(Duration::micros));
        let rtt = (1u64..10_000_000).prop_map(|us| Duration::micros(us).as_secs());
        (1u64..9000, 0.999_999..1.000_001f64, rtt, min_rtt)
    }

    proptest! {
        /// What is said without dividing is what the division gives.
        #[test]
        fn a_frame_that_is_surely_larger_is_larger(
            bytes in 0u64..70_000, (mss, factor, rtt, min_rtt) in path(),
        ) {
            if let Some(rate) = rate_above(bytes, mss) {
                let exact = rate.0 as f64 * rtt;
                for bits in [exact * factor, exact, exact.next_up()] {
                    let quotient = Rate((bits / rtt) as u64);
                    if surely_reaches(bits, rtt, rate) {
                        prop_assert!(quotient >= rate);
                        prop_assert!(autosize(quotient, min_rtt, mss as f64, 2) > bytes as f64);
                    }
                }
                prop_assert!(surely_reaches(exact.next_up(), rtt, rate));
            } else {
                prop_assert!((bytes + mss) as f64 > MAX_FRAME);
            }
        }

        #[test]
        fn a_frame_that_is_surely_the_smallest_is_the_smallest(
            (mss, factor, rtt, min_rtt) in path(),
        ) {
            if let Some(rate) = rate_of_more(mss, 2, min_rtt) {
                let exact = rate.0 as f64 * rtt;
                for bits in [exact * factor, exact, exact.next_down()] {
                    if surely_stays_below(bits, rtt, rate) {
                        let quotient = Rate((bits / rtt) as u64);
                        prop_assert!(quotient < rate);
                        let bytes = autosize(quotient, min_rtt, mss as f64, 2);
                        prop_assert_eq!(bytes, 2.0 * mss as f64);
                    }
                }
                prop_assert!(surely_stays_below(exact * 0.99, rtt, rate) || rate.0 < 200);
            }
        }
    }

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
