//! Durations of frame exchanges: data, their answers, and the waits after them.
//!
//! Source: IEEE 802.11-2020, 9.3.1 (control frames), 9.7.1 (A-MPDU), 10.3.2 (interframe spaces).

use crate::link::cell::config::CellConfig;
use crate::link::cell::mac::{ACK_BYTES, Access, AfterCollision, RTS_BYTES};
use crate::link::cell::phy::{
    Generation, LEGACY_PREAMBLE, Phy, PpduFormat, legacy_ppdu, lowest_rate,
};
use lasthop_core::units::Duration;

/// Bytes of a BlockAckReq and a CF-End (9.3.1.7, 9.3.1.5).
const REQUEST_BYTES: u64 = 24;
const CF_END_BYTES: u64 = 20;
/// Bytes of a compressed block acknowledgement without its bitmap (9.3.1.8.2).
const BLOCK_ACK_BYTES: u64 = 24;
/// Bytes of a beacon: header and fixed fields, and the elements of an access point with WPA2, EDCA
/// parameters and its capabilities.
const BEACON_BYTES: u64 = 200;
/// Delimiter of an MPDU in an aggregate.
pub(super) const DELIMITER: u64 = 4;

/// Durations that depend on the MCS.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByMcs {
    pub phy: Phy,
    pub format: PpduFormat,
    /// Most bytes of the PSDU in a first exchange, the answer included: of one MPDU, and of an
    /// aggregate.
    pub first_most: (u64, u64),
    pub ack: Duration,
    pub block_ack: Duration,
    pub rts: Duration,
    pub cts: Duration,
    pub request: Duration,
}

/// The durations of a cell.
#[derive(Clone, Debug)]
pub(super) struct Durations {
    pub by_mcs: Vec<ByMcs>,
    pub generation: Generation,
    pub sifs: Duration,
    /// Interframe space before a beacon.
    pub pifs: Duration,
    /// Arbitration interframe space.
    pub aifs: Duration,
    /// Wait of a station that has received a damaged frame.
    pub garbled: Duration,
    /// Wait of a station that has sensed a collision of others.
    pub collided: Duration,
    /// Wait of a station whose frame was not answered, from the end of the frame.
    pub unanswered: Duration,
    pub cf_end: Duration,
    pub beacon: Duration,
    pub ppdu_limit: Duration,
    pub txop_limit: Duration,
}

impl Durations {
    /// `None` for a cell without aggregation.
    pub(super) fn new(config: &CellConfig) -> Option<Durations> {
        let wifi = config.wifi.as_ref()?;
        let mac = &config.mac;
        let bitmap = if wifi.block_ack_window > 64 { 32 } else { 8 };
        let by_mcs = |mcs: u32| {
            let phy = wifi.phy(mcs);
            let rate = phy.control_rate(mac.basic_rate);
            let ack = legacy_ppdu(ACK_BYTES.into(), rate);
            let block_ack = legacy_ppdu(BLOCK_ACK_BYTES + bitmap, rate);
            let format = phy.ppdu_format();
            let most = |answer| {
                let txop = (wifi.txop_limit > Duration::ZERO).then_some(wifi.txop_limit);
                let left = txop.map_or(Duration::MAX, |t| t.saturating_sub(mac.sifs + answer));
                format.most_bytes(left.min(wifi.ppdu_limit))
            };
            ByMcs {
                phy,
                format,
                first_most: (most(ack), most(block_ack)),
                ack,
                block_ack,
                rts: legacy_ppdu(RTS_BYTES.into(), rate),
                cts: legacy_ppdu(ACK_BYTES.into(), rate),
                request: legacy_ppdu(REQUEST_BYTES, rate),
            }
        };
        let aifs = mac.sifs + mac.slot * u64::from(wifi.aifsn);
        // EIFS: SIFS, an ACK at the lowest rate, AIFS (10.3.2.3.7). ACK timeout: 10.3.2.11.
        let eifs = mac.sifs + legacy_ppdu(ACK_BYTES.into(), lowest_rate()) + aifs;
        let ack_timeout = mac.sifs + mac.slot + LEGACY_PREAMBLE;
        let (garbled, unanswered) = match mac.after_collision {
            AfterCollision::Difs => (aifs, aifs),
            AfterCollision::Eifs => (eifs, eifs),
            AfterCollision::AckTimeout | AfterCollision::Ns2 => (eifs, ack_timeout + aifs),
        };
        // In ns-3, no station detects the preambles of frames that begin together, and without a
        // reception there is no error after which it would wait for EIFS.
        let is_ns3 = mac.access == Access::Ns3;
        let ignored = is_ns3 && mac.after_collision == AfterCollision::AckTimeout;
        Some(Durations {
            by_mcs: (0..=wifi.generation.largest_mcs()).map(by_mcs).collect(),
            generation: wifi.generation,
            sifs: mac.sifs,
            pifs: mac.sifs + mac.slot,
            aifs,
            garbled,
            collided: if ignored { aifs } else { garbled },
            unanswered,
            cf_end: legacy_ppdu(CF_END_BYTES, lowest_rate()),
            beacon: legacy_ppdu(BEACON_BYTES, lowest_rate()),
            ppdu_limit: wifi.ppdu_limit,
            txop_limit: wifi.txop_limit,
        })
    }

    #[inline]
    pub(super) fn of(&self, mcs: usize) -> &ByMcs {
        &self.by_mcs[mcs.min(self.by_mcs.len() - 1)]
    }

    /// Longest A-MSDU: in an aggregate, an MPDU of HT has at most 4095 bytes (9.7.3).
    pub(super) fn most_amsdu(&self, amsdu: u32, ampdu: u64) -> u32 {
        let limited = self.generation == Generation::Ht && ampdu > 0;
        if limited { amsdu.min(4_095 - 30) } else { amsdu }
    }

    /// Bytes of a PSDU with one MPDU: VHT and HE send it as an aggregate of one (10.12.8).
    #[inline]
    pub(super) fn single(&self, mpdu: u32) -> u64 {
        let alone = u64::from(mpdu);
        if self.generation == Generation::Ht { alone } else { alone + DELIMITER }
    }
}
