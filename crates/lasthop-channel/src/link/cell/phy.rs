//! The OFDM PHYs of 802.11n (HT), 802.11ac (VHT) and 802.11ax (HE SU): bits per symbol, data rates
//! and durations of PPDUs.
//!
//! Source: IEEE 802.11-2020, clauses 17 (OFDM), 19 (HT) and 21 (VHT); IEEE 802.11ax-2021, clause
//! 27 (HE). HT PPDUs have the mixed format, HE PPDUs the HE SU format without packet extension.
//! Times are those of 5 GHz, without the signal extension of 2.4 GHz.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use lasthop_core::units::{Duration, Rate};

/// The generation of the PHY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// High throughput, 802.11n.
    Ht,
    /// Very high throughput, 802.11ac.
    Vht,
    /// High efficiency, 802.11ax.
    He,
}

/// Width of the channel.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
pub enum Width {
    /// 20 MHz.
    #[serde(rename = "20 MHz")]
    Mhz20,
    /// 40 MHz.
    #[serde(rename = "40 MHz")]
    Mhz40,
    /// 80 MHz ("802.11ac" and "802.11ax").
    #[serde(rename = "80 MHz")]
    Mhz80,
    /// 160 MHz ("802.11ac" and "802.11ax").
    #[serde(rename = "160 MHz")]
    Mhz160,
}

/// Coded bits per subcarrier, and the coding rate as a fraction, of each MCS (802.11-2020, tables
/// 19-27 and 21-29; 802.11ax-2021, table 27-54).
pub(super) const SCHEMES: [(u64, u64, u64); 12] = [
    (1, 1, 2),
    (2, 1, 2),
    (2, 3, 4),
    (4, 1, 2),
    (4, 3, 4),
    (6, 2, 3),
    (6, 3, 4),
    (6, 5, 6),
    (8, 3, 4),
    (8, 5, 6),
    (10, 3, 4),
    (10, 5, 6),
];

/// Longest PPDU (aPPDUMaxTime: 802.11-2020, tables 19-25 and 21-28; 802.11ax-2021, table 27-53).
pub const LONGEST_PPDU: Duration = Duration(5_484_000);
/// Preamble and SIGNAL field of a PPDU at a legacy rate (802.11-2020, 17.3.2).
pub const LEGACY_PREAMBLE: Duration = Duration(20_000);
/// SERVICE field and tail bits of a convolutional encoder.
const SERVICE_BITS: u64 = 16;
const TAIL_BITS: u64 = 6;
/// Rates of 802.11a and 802.11g (802.11-2020, table 17-4), the legacy rates of their successors.
pub const LEGACY_RATES: [Rate; 8] = [
    Rate(6_000_000),
    Rate(9_000_000),
    Rate(12_000_000),
    Rate(18_000_000),
    Rate(24_000_000),
    Rate(36_000_000),
    Rate(48_000_000),
    Rate(54_000_000),
];
/// Those that every station supports (802.11-2020, 17.2.3.3).
const MANDATORY: [Rate; 3] = [LEGACY_RATES[0], LEGACY_RATES[2], LEGACY_RATES[4]];
/// Symbol of OFDM with a guard interval of 0.8 µs.
const LEGACY_SYMBOL: Duration = Duration(4_000);

impl Generation {
    /// Largest MCS index per spatial stream.
    pub fn largest_mcs(self) -> u32 {
        [7, 9, 11][self as usize]
    }

    /// Largest number of spatial streams.
    pub fn most_streams(self) -> u32 {
        [4, 8, 8][self as usize]
    }

    /// Guard intervals that may be used, nanoseconds.
    pub fn guard_intervals(self) -> &'static [u64] {
        if self == Generation::He { &[800, 1600, 3200] } else { &[400, 800] }
    }

    /// Data subcarriers; `None` if the generation has no such channel.
    fn subcarriers(self, width: Width) -> Option<u64> {
        let counts: &[u64] = match self {
            Generation::Ht => &[52, 108],
            Generation::Vht => &[52, 108, 234, 468],
            Generation::He => &[234, 468, 980, 1960],
        };
        counts.get(width as usize).copied()
    }
}

/// How data are sent: all that their rate depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phy {
    /// Generation.
    pub generation: Generation,
    /// Width of the channel.
    pub width: Width,
    /// Number of spatial streams.
    pub streams: u32,
    /// Index of modulation and coding, per stream.
    pub mcs: u32,
    /// Guard interval.
    pub guard: Duration,
}

impl Phy {
    /// Checks that the standard has this combination.
    ///
    /// # Errors
    ///
    /// The key and a message that states what is allowed.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let g = self.generation;
        if g.subcarriers(self.width).is_none() {
            return Err(("width", "802.11n has channels of 20 and 40 MHz".into()));
        }
        if !(1..=g.most_streams()).contains(&self.streams) {
            let message =
                format!("must lie between 1 and {}, found {}", g.most_streams(), self.streams);
            return Err(("streams", message));
        }
        if self.mcs > g.largest_mcs() {
            let message = format!(
                "must lie between 0 and {} (per spatial stream), found {}",
                g.largest_mcs(),
                self.mcs
            );
            return Err(("mcs", message));
        }
        if !g.guard_intervals().contains(&self.guard.0) {
            let names: Vec<String> =
                g.guard_intervals().iter().map(|&t| Duration(t).to_string()).collect();
            let message = format!("must be one of {}, found {}", names.join(", "), self.guard);
            return Err(("guard_interval", message));
        }
        if self.is_excluded() {
            let message = format!(
                "802.11ac has no MCS {} with this width and {} spatial streams",
                self.mcs, self.streams
            );
            return Err(("mcs", message));
        }
        Ok(())
    }

    /// Combinations whose symbols have no whole number of bits per encoder (802.11-2020, 21.5).
    fn is_excluded(&self) -> bool {
        let streams = self.streams;
        self.generation == Generation::Vht
            && match (self.width, self.mcs) {
                (Width::Mhz20, 9) => !streams.is_multiple_of(3),
                (Width::Mhz80, 6) => streams == 3 || streams == 7,
                (Width::Mhz80, 9) => streams == 6,
                (Width::Mhz160, 9) => streams == 3,
                _ => false,
            }
    }

    /// Data bits per symbol (N_DBPS).
    pub fn bits_per_symbol(&self) -> u64 {
        let (bits, numerator, denominator) = SCHEMES[(self.mcs as usize).min(SCHEMES.len() - 1)];
        let subcarriers = self.generation.subcarriers(self.width).unwrap_or(52);
        subcarriers * bits * u64::from(self.streams) * numerator / denominator
    }

    /// Duration of a symbol, guard interval included.
    pub fn symbol(&self) -> Duration {
        Duration(if self.generation == Generation::He { 12_800 } else { 3_200 }) + self.guard
    }

    /// Data rate.
    pub fn rate(&self) -> Rate {
        Rate(self.bits_per_symbol() * 1_000_000_000 / self.symbol().0)
    }

    /// Convolutional encoders, each of which adds tail bits (802.11-2020, tables 19-27 to 19-41 and
    /// 21-29 to 21-60). HE has none: it is coded by LDPC except in narrow channels, where one tail
    /// is added (802.11ax-2021, 27.3.12.5).
    fn encoders(&self) -> u64 {
        let bits = self.bits_per_symbol();
        match self.generation {
            Generation::Ht => bits.div_ceil(1_200),
            Generation::Vht => bits.div_ceil(2_160),
            Generation::He => 1,
        }
    }

    /// Preamble and header: of HT (802.11-2020, 19.3.2), of VHT (21.3.2), of HE SU (802.11ax-2021,
    /// 27.3.4; an LTF of 6.4 µs, with a guard interval of 3.2 µs of 12.8 µs).
    pub fn preamble(&self) -> Duration {
        let streams = u64::from(self.streams);
        let ltfs = if streams <= 2 { streams } else { streams.next_multiple_of(2) };
        let (fixed, ltf) = match self.generation {
            Generation::Ht => (20_000 + 8_000 + 4_000, 4_000),
            Generation::Vht => (20_000 + 8_000 + 4_000 + 4_000, 4_000),
            Generation::He => {
                let ltf = if self.guard.0 == 3_200 { 12_800 } else { 6_400 };
                (20_000 + 4_000 + 8_000 + 4_000, ltf + self.guard.0)
            }
        };
        Duration(fixed + ltf * ltfs)
    }

    /// What the duration of its PPDUs depends on.
    pub fn ppdu_format(&self) -> PpduFormat {
        PpduFormat {
            preamble: self.preamble(),
            symbol: self.symbol(),
            bits_per_symbol: self.bits_per_symbol(),
            fixed_bits: SERVICE_BITS + TAIL_BITS * self.encoders(),
            multiple: Duration(if self.guard.0 == 400 { 4_000 } else { 1 }),
        }
    }

    /// See [`PpduFormat::ppdu`].
    pub fn ppdu(&self, bytes: u64) -> Duration {
        self.ppdu_format().ppdu(bytes)
    }

    /// See [`PpduFormat::most_bytes`].
    pub fn most_bytes(&self, duration: Duration) -> u64 {
        self.ppdu_format().most_bytes(duration)
    }

    /// Rate of the frames that answer data sent like this: the highest mandatory legacy rate that
    /// is at most `basic` and the non-HT reference rate, which has the same modulation and coding
    /// (802.11-2020, 10.6.6.5.2 and 10.6.11).
    pub fn control_rate(&self, basic: Rate) -> Rate {
        let reference = match self.mcs {
            0 => Rate(6_000_000),
            1 => Rate(12_000_000),
            2 => Rate(18_000_000),
            _ => Rate(24_000_000),
        };
        mandatory_rate(reference.min(basic))
    }
}

/// What the duration of a PPDU depends on, besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PpduFormat {
    preamble: Duration,
    symbol: Duration,
    bits_per_symbol: u64,
    /// SERVICE field and tail bits.
    fixed_bits: u64,
    /// The duration of the data is a multiple of this.
    multiple: Duration,
}

impl PpduFormat {
    /// Duration of a PPDU of `bytes` bytes. With the short guard interval of HT and VHT it is a
    /// multiple of 4 µs (802.11-2020, 19.4.3 and 21.4.3).
    #[inline]
    pub fn ppdu(&self, bytes: u64) -> Duration {
        let bits = self.fixed_bits + 8 * bytes;
        let data = bits.div_ceil(self.bits_per_symbol) * self.symbol.0;
        self.preamble + Duration(data.next_multiple_of(self.multiple.0))
    }

    /// Most bytes that a PPDU of at most this duration can carry; 0 if not even one.
    pub fn most_bytes(&self, duration: Duration) -> u64 {
        let data = duration.saturating_sub(self.preamble).0;
        let whole = data - data % self.multiple.0;
        let bits = whole / self.symbol.0 * self.bits_per_symbol;
        bits.saturating_sub(self.fixed_bits) / 8
    }
}

/// The highest rate of at most `most` that every station supports.
pub fn mandatory_rate(most: Rate) -> Rate {
    MANDATORY.into_iter().rev().find(|&rate| rate <= most).unwrap_or(MANDATORY[0])
}

/// Duration of a PPDU of `bytes` bytes at a legacy rate (802.11-2020, 17.4.3).
pub fn legacy_ppdu(bytes: u64, rate: Rate) -> Duration {
    let bits_per_symbol = rate.0 * LEGACY_SYMBOL.0 / 1_000_000_000;
    let symbols = (SERVICE_BITS + 8 * bytes + TAIL_BITS).div_ceil(bits_per_symbol.max(1));
    LEGACY_PREAMBLE + LEGACY_SYMBOL * symbols
}

/// The lowest legacy rate.
pub fn lowest_rate() -> Rate {
    MANDATORY[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phy(generation: Generation, width: Width, streams: u32, mcs: u32, guard: u64) -> Phy {
        Phy { generation, width, streams, mcs, guard: Duration(guard) }
    }

    /// Rates in units of 100 kbit/s, rounded as the tables of the standard round them.
    fn rates(generation: Generation, width: Width, streams: u32, guard: u64) -> Vec<u64> {
        (0..=generation.largest_mcs())
            .map(|mcs| phy(generation, width, streams, mcs, guard))
            .filter(|p| p.check().is_ok())
            .map(|p| (p.rate().0 + 50_000) / 100_000)
            .collect()
    }

    #[test]
    fn rates_are_those_of_the_tables_of_the_standard() {
        use Generation::{He, Ht, Vht};
        let ht = [65, 130, 195, 260, 390, 520, 585, 650];
        assert_eq!(rates(Ht, Width::Mhz20, 1, 800), ht);
        let short = [72, 144, 217, 289, 433, 578, 650, 722];
        assert_eq!(rates(Ht, Width::Mhz20, 1, 400), short);
        let wide = [600, 1200, 1800, 2400, 3600, 4800, 5400, 6000];
        assert_eq!(rates(Ht, Width::Mhz40, 4, 400), wide);
        let vht = [293, 585, 878, 1170, 1755, 2340, 2633, 2925, 3510, 3900];
        assert_eq!(rates(Vht, Width::Mhz80, 1, 800), vht);
        let vht160 = [1300, 2600, 3900, 5200, 7800, 10400, 11700, 13000, 15600, 17333];
        assert_eq!(rates(Vht, Width::Mhz160, 2, 400), vht160);
        let vht20 = [65, 130, 195, 260, 390, 520, 585, 650, 780];
        assert_eq!(rates(Vht, Width::Mhz20, 1, 800), vht20);
        let he20 = [86, 172, 258, 344, 516, 688, 774, 860, 1032, 1147, 1290, 1434];
        assert_eq!(rates(He, Width::Mhz20, 1, 800), he20);
        let he80 = [340, 681, 1021, 1361, 2042, 2722, 3063, 3403, 4083, 4537, 5104, 5671];
        assert_eq!(rates(He, Width::Mhz80, 1, 1600), he80);
        let he160 = [613, 1225, 1838, 2450, 3675, 4900, 5513, 6125, 7350, 8166, 9188, 10208];
        assert_eq!(rates(He, Width::Mhz160, 1, 3200), he160);
    }

    #[test]
    fn the_standard_has_no_mcs_with_part_of_a_bit() {
        let excluded = |width, mcs| {
            let one = |s: &u32| phy(Generation::Vht, width, *s, mcs, 800).check().is_err();
            (1..=8).filter(one).collect::<Vec<_>>()
        };
        assert_eq!(excluded(Width::Mhz20, 9), [1, 2, 4, 5, 7, 8]);
        assert_eq!(excluded(Width::Mhz80, 6), [3, 7]);
        assert_eq!(excluded(Width::Mhz80, 9), [6]);
        assert_eq!(excluded(Width::Mhz160, 9), [3]);
    }

    #[test]
    fn durations_follow_the_equations_of_the_standard() {
        let us = |p: Phy, bytes| p.ppdu(bytes).0;
        let ht = phy(Generation::Ht, Width::Mhz20, 1, 7, 800);
        // 36 µs and ceil((16 + 8 · 1538 + 6) / 260) = 48 symbols.
        assert_eq!(us(ht, 1538), 36_000 + 48 * 4_000);
        let short = Phy { guard: Duration(400), ..ht };
        // 48 · 3.6 µs = 172.8 µs, rounded up to a multiple of 4 µs.
        assert_eq!(us(short, 1538), 36_000 + 176_000);
        let two = phy(Generation::Vht, Width::Mhz80, 2, 9, 800);
        assert_eq!(us(two, 1538), 20_000 + 8_000 + 4_000 + 8_000 + 4_000 + 4_000 * 4);
        let he = phy(Generation::He, Width::Mhz20, 1, 11, 800);
        assert_eq!(us(he, 1538), 36_000 + 7_200 + 7 * 13_600);
        assert_eq!(legacy_ppdu(14, Rate(24_000_000)).0, 28_000);
        assert_eq!(legacy_ppdu(14, Rate(6_000_000)).0, 44_000);
        assert_eq!(legacy_ppdu(32, Rate(24_000_000)).0, 32_000);
    }

    #[test]
    fn most_bytes_is_the_inverse_of_the_duration() {
        for (g, guard) in [(Generation::Ht, 400), (Generation::Vht, 800), (Generation::He, 1600)] {
            for mcs in 0..=7 {
                let p = phy(g, Width::Mhz40, 2, mcs, guard);
                for limit in [60_000, 101_300, 3_472_000, LONGEST_PPDU.0] {
                    let bytes = p.most_bytes(Duration(limit));
                    assert!(bytes == 0 || p.ppdu(bytes).0 <= limit, "{p:?} {limit} {bytes}");
                    assert!(p.ppdu(bytes + 1).0 > limit, "{p:?} {limit} {bytes}");
                }
            }
        }
    }

    #[test]
    fn answers_have_the_rate_of_the_same_modulation() {
        let rate = |mcs, basic: u64| {
            phy(Generation::He, Width::Mhz20, 1, mcs, 800).control_rate(Rate(basic * 1_000_000)).0
        };
        assert_eq!([0, 1, 2, 3, 11].map(|mcs| rate(mcs, 24) / 1_000_000), [6, 12, 12, 24, 24]);
        assert_eq!([rate(11, 6), rate(11, 18)].map(|r| r / 1_000_000), [6, 12]);
    }
}
