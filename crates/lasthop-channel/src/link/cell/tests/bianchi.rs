//! Saturated stations beside Bianchi's model, ns-2 and ns-3's tables of the model.

use super::*;

/// Bianchi's model (2000) with a limit of attempts: a back-off of `values` · 2^i values from 0 on,
/// and one slot for the attempt. The probability that a station sends in a slot is found by
/// bisection.
struct Bianchi {
    stations: f64,
    /// Values that the first back-off can take, and how often the window doubles.
    values: f64,
    stages: i32,
    attempts: i32,
}

impl Bianchi {
    fn tau(&self, p: f64) -> f64 {
        let sum =
            |of: &dyn Fn(i32) -> f64| (0..self.attempts).map(|i| p.powi(i) * of(i)).sum::<f64>();
        sum(&|_| 1.0) / sum(&|i| (self.values + 1.0) * 2f64.powi(i.min(self.stages)) / 2.0)
    }

    /// Probability that a slot has a sender, and that it has one alone.
    fn solve(&self) -> (f64, f64) {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..200 {
            let tau: f64 = (low + high) / 2.0;
            let p = 1.0 - (1.0 - tau).powf(self.stations - 1.0);
            if self.tau(p) > tau { low = tau } else { high = tau }
        }
        let tau = low;
        (
            1.0 - (1.0 - tau).powf(self.stations),
            self.stations * tau * (1.0 - tau).powf(self.stations - 1.0),
        )
    }

    fn throughput(&self, success: f64, collision: f64) -> f64 {
        let (any, one) = self.solve();
        8000.0 * one / ((1.0 - any) * 20e-6 + one * success + (any - one) * collision)
    }
}

/// Stations that always have a frame of `size` bytes: bit/s of payload.
fn saturated(mac: Mac, n: u16, size: u32, seconds: u64, seed: u64) -> f64 {
    let mut b = Bench::new(mac, (0..=n).map(station).collect(), seed);
    (1..=usize::from(n)).for_each(|i| (0..2).for_each(|_| b.offer(us(0), i, size)));
    let (mut bits, end) = (0.0, us(seconds * 1_000_000));
    while let Some((at, ended)) = b.step().filter(|s| s.0 < end) {
        for (attempt, how) in ended {
            bits += if how.arrives { 8.0 * f64::from(size) } else { 0.0 };
            if how.last() {
                b.offer(at, attempt.station, size);
            }
        }
    }
    bits / seconds as f64
}

/// Throughput of ns-2.35 in kbit/s (8 runs of 30 s, 1000 bytes at 11 Mbit/s, link ACKs at 1 Mbit/s,
/// seven attempts).
const NS2_SATURATION: [(u16, f64); 5] =
    [(1, 4974.0), (2, 5251.8), (5, 5161.3), (10, 4870.0), (20, 4493.0)];

#[test]
fn saturation_throughput_is_that_of_ns2_and_of_bianchis_model() {
    let rules = [
        (AfterCollision::Ns2, 364.0 + 50.0),
        (AfterCollision::Eifs, 364.0),
        (AfterCollision::Difs, 50.0),
    ];
    for (after_collision, wait) in rules {
        for (n, ns2) in NS2_SATURATION {
            let mac =
                Mac { after_collision, backoff_includes_cw: false, access: Access::Ns2, ..mac() };
            let ours =
                (1..=4).map(|seed| saturated(mac.clone(), n, 1000, 15, seed)).sum::<f64>() / 4.0;
            let model = Bianchi { stations: f64::from(n), values: 31.0, stages: 5, attempts: 7 };
            let model =
                model.throughput((944.0 + 10.0 + 304.0 + 50.0) * 1e-6, (944.0 + wait) * 1e-6);
            assert!(
                (ours / model - 1.0).abs() < 0.02,
                "{after_collision:?}, {n} stations: {ours:.0}, by the model {model:.0}"
            );
            if after_collision == AfterCollision::Ns2 {
                assert!(
                    (ours / ns2 / 1e3 - 1.0).abs() < 0.02,
                    "{n} stations: {ours:.0}, ns-2 {ns2}"
                );
            }
        }
    }
}

/// Throughput by Bianchi's model for 802.11a and 802.11g in ns-3's example `wifi-bianchi`, Mbit/s:
/// the rate, and 5, 10, 25 and 50 stations with EIFS and with DIFS after collisions. A packet has
/// 1500 bytes. As ns-3 does, the test takes the table that is closer.
const NS3_BIANCHI: [(u64, [f64; 4], [f64; 4]); 4] = [
    (6, [4.6899, 4.3197, 3.8478, 3.4711], [4.7087, 4.3453, 3.8802, 3.5071]),
    (12, [8.8972, 8.2154, 7.3329, 6.6225], [8.9515, 8.2901, 7.4274, 6.7278]),
    (24, [16.0836, 14.9153, 13.3595, 12.0889], [16.2470, 15.1426, 13.6496, 12.4144]),
    (54, [29.2861, 27.3763, 24.6808, 22.4162], [29.8324, 28.1519, 25.6896, 23.5618]),
];

#[test]
fn throughputs_of_802_11a_and_g_are_those_of_ns3s_tables_of_bianchis_model() {
    for (name, rate, eifs, difs) in [MacName::Dot11a, MacName::Dot11g]
        .into_iter()
        .flat_map(|name| NS3_BIANCHI.map(|(rate, eifs, difs)| (name, rate, eifs, difs)))
    {
        let mac =
            Mac { data_rate: Rate(rate * 1_000_000), attempts: 1_000_000, ..Mac::named(name) };
        for (k, n) in [5, 10, 25, 50].into_iter().enumerate() {
            // The offered frame has 34 bytes of header, and that of ns-3 36.
            let ours = saturated(mac.clone(), n, 1502, 10, 1) * 1e-6 * 1500.0 / 1502.0;
            let apart = |table: [f64; 4]| ours / table[k] - 1.0;
            let least =
                if apart(eifs).abs() < apart(difs).abs() { apart(eifs) } else { apart(difs) };
            assert!(least.abs() < 0.015, "{name:?}, {rate} Mbit/s, {n} stations: {least:+.4}");
        }
    }
}
