//! Bit errors of OFDM data by signal-to-noise ratio: uncoded errors of Gray-mapped BPSK, QPSK and
//! QAM in white noise, and the union bound of the convolutional code of 802.11 with hard decisions.
//!
//! Source: G. Pei and T. Henderson, "Validation of OFDM error rate model in ns-3" (2010), the model
//! that ns-3 calls `NistErrorRateModel`; distance spectra of the punctured codes: P. Frenger, P.
//! Orten and T. Ottosson, "Multi-rate convolutional codes" (1998), rate 5/6: D. Haccoun and G.
//! Bégin, IEEE Trans. Commun. 37(11), 1989. The bound is close for error rates of interest, and
//! above 1 where it says nothing; LDPC codes and fading are not modelled.

use super::phy::{Phy, SCHEMES};
use super::wifi::Wifi;

/// Of a code of rate k/n: k, the smallest distance, its step, and the numbers of bit errors on
/// paths of these distances.
type Spectrum = (f64, i32, i32, &'static [f64]);

const HALF: Spectrum = (
    1.0,
    10,
    2,
    &[36.0, 211.0, 1404.0, 11_633.0, 77_433.0, 502_690.0, 3_322_763.0, 21_292_910.0, 134_365_911.0],
);
const TWO_THIRDS: Spectrum = (
    2.0,
    6,
    1,
    &[3.0, 70.0, 285.0, 1276.0, 6160.0, 27_128.0, 117_019.0, 498_860.0, 2_103_891.0, 8_784_123.0],
);
const THREE_QUARTERS: Spectrum = (
    3.0,
    5,
    1,
    &[
        42.0,
        201.0,
        1492.0,
        10_469.0,
        62_935.0,
        379_644.0,
        2_253_373.0,
        13_073_811.0,
        75_152_755.0,
        428_005_675.0,
    ],
);
const FIVE_SIXTHS: Spectrum = (
    5.0,
    4,
    1,
    &[
        92.0,
        528.0,
        8694.0,
        79_453.0,
        792_114.0,
        7_375_573.0,
        67_884_974.0,
        610_875_423.0,
        5_427_275_376.0,
        47_664_215_639.0,
    ],
);

/// Packet error rate up to which the rate rule "ideal" takes an MCS, and the packet.
const IDEAL_ERROR_RATE: f64 = 0.01;
const IDEAL_BYTES: u32 = 1_538;

/// Probability of an uncoded bit error at an SNR (a ratio) with `bits` bits per subcarrier.
fn uncoded(snr: f64, bits: u64) -> f64 {
    if bits == 1 {
        return 0.5 * libm::erfc(snr.sqrt());
    }
    let points = f64::powi(2.0, bits as i32);
    let neighbours = 2.0 * (1.0 - 1.0 / points.sqrt()) / bits as f64;
    neighbours * libm::erfc((1.5 * snr / (points - 1.0)).sqrt())
}

/// Probability of a bit error after decoding with an MCS at an SNR of `snr_db` dB per subcarrier
/// and stream, at most 1.
pub fn bit_error_rate(mcs: u32, snr_db: f64) -> f64 {
    let (bits, numerator, denominator) = SCHEMES[(mcs as usize).min(SCHEMES.len() - 1)];
    let (k, first, step, errors) = match (numerator, denominator) {
        (1, 2) => HALF,
        (2, 3) => TWO_THIRDS,
        (3, 4) => THREE_QUARTERS,
        _ => FIVE_SIXTHS,
    };
    let p = uncoded(libm::pow(10.0, snr_db / 10.0), bits);
    let d = (4.0 * p * (1.0 - p)).sqrt();
    let paths = errors.iter().zip(0..).map(|(&n, i)| n * d.powi(first + step * i));
    (paths.sum::<f64>() / (2.0 * k)).min(1.0)
}

/// Logarithm of the probability that a bit has no error.
pub(super) fn log_success(mcs: u32, snr_db: f64) -> f64 {
    libm::log1p(-bit_error_rate(mcs, snr_db))
}

/// Probability that an MPDU of `bytes` bytes has no error.
pub(super) fn success(log_success: f64, bytes: u32) -> f64 {
    libm::exp(8.0 * f64::from(bytes) * log_success)
}

/// The rate rule "ideal": the fastest MCS with which at most 1 % of full-sized packets have errors,
/// or the slowest.
pub(super) fn ideal_mcs(wifi: &Wifi, snr_db: f64) -> u32 {
    let suits = |&mcs: &u32| {
        let phy: Phy = wifi.phy(mcs);
        phy.check().is_ok()
            && success(log_success(mcs, snr_db), IDEAL_BYTES) >= 1.0 - IDEAL_ERROR_RATE
    };
    (0..=wifi.generation.largest_mcs()).rev().find(suits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::cell::phy::Generation;
    use crate::link::cell::wifi::AccessCategory;

    #[test]
    fn uncoded_errors_are_those_of_the_textbook() {
        // BPSK in white noise at 9.6 dB: 1e-5 (Proakis, Digital Communications, 5.2).
        let bpsk = uncoded(libm::pow(10.0, 0.96), 1);
        assert!((bpsk / 1e-5 - 1.0).abs() < 0.05, "{bpsk}");
        // QPSK has the bit errors of BPSK at half the SNR per symbol.
        let snr = libm::pow(10.0, 0.7);
        assert!((uncoded(2.0 * snr, 2) / uncoded(snr, 1) - 1.0).abs() < 1e-12);
        // 16-QAM: 3/8 erfc(sqrt(snr / 10)).
        let expected = 0.375 * libm::erfc(1.0);
        assert!((uncoded(10.0, 4) / expected - 1.0).abs() < 1e-12);
    }

    #[test]
    fn errors_fall_with_the_snr_and_rise_with_the_mcs_of_one_modulation() {
        for mcs in 0..12 {
            let at = |db: i32| bit_error_rate(mcs, f64::from(db));
            assert!((0..50).all(|db| at(db) >= at(db + 1)), "{mcs}");
            assert!(at(60) < 1e-12 && at(-10) == 1.0);
        }
        for (slow, fast) in [(1, 2), (3, 4), (5, 6), (6, 7), (8, 9), (10, 11)] {
            let db = 10.0 + 2.5 * f64::from(slow);
            assert!(bit_error_rate(slow, db) <= bit_error_rate(fast, db), "{slow}");
        }
    }

    #[test]
    fn the_ideal_rule_takes_the_fastest_mcs_that_suits() {
        let wifi = Wifi::new(Generation::Vht, AccessCategory::BestEffort);
        let at = |db| ideal_mcs(&wifi, db);
        assert_eq!((at(-5.0), at(60.0)), (0, 9));
        let all: Vec<u32> = (0..40).map(|db| at(f64::from(db))).collect();
        assert!(all.is_sorted(), "{all:?}");
        for db in [8.0, 15.0, 22.0, 30.0] {
            let mcs = at(db);
            assert!(success(log_success(mcs, db), 1538) >= 0.99);
            assert!(success(log_success(mcs + 1, db), 1538) < 0.99);
        }
    }
}
