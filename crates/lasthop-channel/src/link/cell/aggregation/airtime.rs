//! The airtime queue limit (AQL): packets leave the queue discipline as long as the estimated air
//! time of those that have left it and are not acknowledged is below a limit.
//!
//! Source: Linux (5.15) net/mac80211: `ieee80211_txq_airtime_check` (tx.c), limits of 5 and 12 ms
//! for each receiver and of 24 ms for all (`IEEE80211_DEFAULT_AQL_TXQ_LIMIT_L`, `…_H`,
//! `IEEE80211_AQL_THRESHOLD`); `ieee80211_calc_expected_tx_airtime` (airtime.c). The kernel
//! estimates a packet when it leaves the queue; here the estimate follows the MCS.

use crate::link::cell::phy::{Generation, Phy};
use crate::link::cell::wifi::Wifi;
use crate::queue::Frame;
use lasthop_core::units::Duration;

/// Limit for each receiver while all receivers together are below the threshold.
const HIGH: Duration = Duration(12_000_000);
const THRESHOLD: Duration = Duration(24_000_000);
/// Bytes of the packet for which the kernel has durations (`AVG_PKT_SIZE`).
const PACKET_BYTES: u64 = 1_024;

/// Packets of a session that have left the queue and are not finished.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    pub packets: u64,
    pub bytes: u64,
}

impl Pending {
    /// A frame leaves the queue.
    #[inline]
    pub(super) fn add(&mut self, frame: Option<&Frame>) {
        if let Some(frame) = frame {
            self.packets += 1;
            self.bytes += u64::from(frame.bytes);
        }
    }

    /// A frame is finished.
    #[inline]
    pub(super) fn remove(&mut self, frame: &Frame) {
        self.packets -= 1;
        self.bytes -= u64::from(frame.bytes);
    }

    /// Estimated air time, with the share of a packet in the overhead of an aggregate of typical
    /// length.
    pub(super) fn air_time(self, phy: &Phy) -> Duration {
        let rate = phy.rate().0;
        let per_packet = PACKET_BYTES * 8 * 1_000_000 / rate;
        let shift = match per_packet {
            401.. => 1,
            251..=400 => 2,
            151..=250 => 3,
            71..=150 => 4,
            21..=70 => 5,
            _ if phy.generation == Generation::He => 6,
            _ => 5,
        };
        let overhead = 36_000 + 4_000 * u64::from(phy.streams);
        Duration(self.bytes * 8_000_000_000 / rate + self.packets * (overhead >> shift))
    }
}

/// The airtime queue limit of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct AirtimeLimit {
    low: Duration,
    high: Duration,
}

impl AirtimeLimit {
    /// `None`: packets stay in the queue until they are sent.
    pub(super) fn new(wifi: &Wifi) -> Option<AirtimeLimit> {
        let low = wifi.airtime_queue_limit;
        (low > Duration::ZERO).then_some(AirtimeLimit { low, high: low.max(HIGH) })
    }

    /// True if one more packet may leave the queue for a receiver with this estimate; `others` is
    /// that of the other receivers.
    pub(super) fn allows(self, own: Duration, others: impl FnOnce() -> Duration) -> bool {
        own < self.low || (own < self.high && own + others() < THRESHOLD)
    }
}
