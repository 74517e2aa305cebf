//! Cells with aggregation against closed forms; the tests fill the queues of the stations.

mod pairs;
mod rate;
mod reorder;
mod sharing;

use super::*;
use crate::air::config::{LossConfig, OutageConfig};
use crate::link::cell::config::StationConfig;
use crate::link::cell::error_rate;
use crate::link::cell::mac::{AfterCollision, MacName};
use crate::link::cell::phy::{Generation, Width};
use crate::link::cell::report::End;
use crate::link::cell::wifi::{AccessCategory, RateRule, Wifi};
use crate::queue::{Headers, QueueConfig};
use lasthop_core::segment::{Flags, Handle};
use lasthop_core::units::{QueueLimit, Share, Size};

/// All frames go to station 0, those of station 0 to station 1. All handles have the same segment.
struct ToFirst(Segment);

impl Headers for ToFirst {
    fn segment(&self, _: Handle) -> &Segment {
        &self.0
    }
}

impl Freight for ToFirst {
    fn receiver(&self, station: usize, _: Handle) -> usize {
        usize::from(station == 0)
    }
}

fn station(node: u16) -> StationConfig {
    StationConfig {
        node,
        queue: QueueConfig::drop_tail(QueueLimit::Packets(1_000)),
        overhead: 0,
        down: LossConfig::None,
        up: LossConfig::None,
        outages: vec![],
        mcs: None,
        snr_db: None,
    }
}

fn wifi(generation: Generation) -> Wifi {
    let wifi = Wifi::new(generation, AccessCategory::BestEffort);
    Wifi { width: Width::Mhz20, beacon_interval: Duration::ZERO, ..wifi }
}

fn ht() -> Wifi {
    wifi(Generation::Ht)
}

fn mac() -> Mac {
    Mac::named(MacName::Dot11n)
}

struct Bench {
    cell: AggregatingCell,
    freight: ToFirst,
    outcomes: Vec<Outcome>,
    next: Handle,
    bytes: u32,
    /// Packets that have gone up the stack, with their sender, and all ends of attempts.
    delivered: Vec<(usize, Handle)>,
    ended: Vec<(Attempt, End)>,
}

impl Bench {
    /// Frames have `bytes` bytes, MAC header included.
    fn new(mac: Mac, wifi: Wifi, stations: Vec<StationConfig>, bytes: u32) -> Bench {
        Bench::with_others(mac, wifi, vec![], stations, bytes)
    }

    /// The same, with other networks.
    fn with_others(
        mac: Mac,
        wifi: Wifi,
        busy: Vec<OutageConfig>,
        stations: Vec<StationConfig>,
        bytes: u32,
    ) -> Bench {
        let names: Vec<String> = (0..stations.len()).map(|i| format!("s{i}")).collect();
        let config = CellConfig { name: "cell".into(), mac, wifi: Some(wifi), busy, stations };
        let cell = AggregatingCell::new(&config, &names, 1, 1460).unwrap().unwrap();
        Bench {
            cell,
            freight: ToFirst(Segment { len: 1472, size: 1500, ..Segment::default() }),
            outcomes: vec![],
            next: 0,
            bytes,
            delivered: vec![],
            ended: vec![],
        }
    }

    fn offer(&mut self, at: Time, station: usize) {
        let (handle, bytes) = (self.next, self.bytes);
        self.next += 1;
        let frame = Frame { handle, bytes, flow: 0, flags: Flags::NONE, to: 0, from: 0, at };
        let stations = (station, usize::from(station == 0));
        self.cell.offer(at, stations, frame, &self.freight, &mut self.outcomes);
    }

    /// Processes the next event; returns its time.
    fn step(&mut self) -> Option<Time> {
        let at = self.cell.next_event().0;
        if at == Time::NEVER {
            return None;
        }
        let mut reports = vec![];
        let first = self.cell.fire(at, &self.freight, &mut reports, &mut self.outcomes);
        for report in first.map(|d| d.report()).into_iter().chain(reports) {
            let report = match report {
                Report::Delivered(delivery) => delivery.report(),
                other => other,
            };
            match report {
                Report::Delivered(_) | Report::Started(_) | Report::Used(_) => {}
                Report::Ended(attempt, end) => {
                    if end.arrives {
                        self.delivered.push((attempt.station, attempt.frame.handle));
                    }
                    self.ended.push((attempt, end));
                }
                Report::Released { attempt, .. } => {
                    self.delivered.push((attempt.station, attempt.frame.handle));
                }
            }
        }
        Some(at)
    }

    fn run(&mut self) {
        while self.step().is_some() {}
    }

    /// A packet arrives at station 1 in each interval, from an empty cell on. Returns the
    /// throughput of packets of `payload` bytes, Mbit/s.
    fn at_constant_rate(&mut self, interval: Duration, payload: u32, seconds: u64) -> f64 {
        let end = Time::ZERO + Duration::secs(seconds);
        let mut next = Time::ZERO;
        while next < end {
            while self.cell.next_event().0 < next {
                self.step();
            }
            self.offer(next, 1);
            next += interval;
        }
        self.delivered.len() as f64 * f64::from(payload) * 8.0 / seconds as f64 / 1e6
    }

    /// Stations from `first` on always have `backlog` frames. Returns the throughput of packets of
    /// `payload` bytes after a warm-up of 0.2 s, Mbit/s.
    fn saturated(&mut self, first: usize, backlog: u64, payload: u32, seconds: u64) -> f64 {
        let stations = self.cell.stations.len();
        let fill = |b: &mut Bench, at: Time| {
            for i in first..stations {
                for _ in b.cell.queue(i).0..backlog {
                    b.offer(at, i);
                }
            }
        };
        fill(self, Time::ZERO);
        let warm = Time::ZERO + Duration::millis(200);
        let end = warm + Duration::secs(seconds);
        let mut before = 0;
        while let Some(at) = self.step().filter(|&at| at < end) {
            if at < warm {
                before = self.delivered.len();
            }
            fill(self, at);
        }
        let packets = (self.delivered.len() - before) as f64;
        let shares = self.cell.air_time(self.cell.air_time.until);
        assert_eq!(shares.sum(), shares.until - Time::ZERO);
        packets * f64::from(payload) * 8.0 / seconds as f64 / 1e6
    }
}

fn assert_within(value: f64, expected: f64, share: f64, of: &str) {
    assert!((value / expected - 1.0).abs() < share, "{of}: {value} instead of {expected}");
}

/// Microseconds of the parts of an exchange at 65 Mbit/s: HT preamble and symbols, the answer at 24
/// Mbit/s.
fn ht_cycle(psdu: u64, answer: u64) -> f64 {
    let symbols = (16 + 8 * psdu + 6).div_ceil(260);
    let backoff = 7.5 * 9.0;
    43.0 + backoff + 36.0 + 4.0 * symbols as f64 + 16.0 + answer as f64
}

#[test]
fn one_sender_has_the_throughput_of_the_closed_form() {
    let throughput = |wifi: Wifi| {
        let mut b = Bench::new(mac(), wifi, vec![station(0), station(1)], 1538);
        b.saturated(1, 200, 1472, 10)
    };
    let ht = wifi(Generation::Ht);
    // 28 subframes of 1544 bytes fit into 5.484 ms.
    let aggregated = 28.0 * 1472.0 * 8.0 / ht_cycle(28 * 1544 - 2, 32);
    assert_within(throughput(ht.clone()), aggregated, 0.005, "A-MPDU");
    let single = Wifi { ampdu: Size::Bytes(0), ..ht.clone() };
    assert_within(throughput(single.clone()), 1472.0 * 8.0 / ht_cycle(1538, 28), 0.005, "single");
    // Five packets of 1524 bytes, subframe header included, in an A-MSDU.
    let amsdu = Wifi { amsdu: Size::Bytes(7935), ..single };
    let closed = 5.0 * 1472.0 * 8.0 / ht_cycle(30 + 5 * 1524 - 2, 28);
    assert_within(throughput(amsdu), closed, 0.005, "A-MSDU");
    // Ten MPDUs of two packets.
    let both = Wifi { ampdu: Size::Bytes(32_768), amsdu: Size::Bytes(3839), ..ht };
    let closed = 20.0 * 1472.0 * 8.0 / ht_cycle(10 * 3080 - 2, 32);
    assert_within(throughput(both), closed, 0.005, "A-MPDU of A-MSDUs");
}

/// The intervals that ns-3's examples `wifi-aggregation` and `wifi-txop-aggregation` check in their
/// own results (ns-3-dev, July 2026): 802.11n, MCS 7, 20 MHz, UDP packets of 1472 bytes, with
/// beacons.
#[test]
fn throughputs_lie_in_the_intervals_of_ns3s_own_checks() {
    let throughput = |ampdu: u64, amsdu: u64, txop_us: u64| {
        let wifi = Wifi {
            ampdu: Size::Bytes(ampdu),
            amsdu: Size::Bytes(amsdu),
            txop_limit: Duration::micros(txop_us),
            ..Wifi::new(Generation::Ht, AccessCategory::BestEffort)
        };
        let mut b = Bench::new(mac(), wifi, vec![station(0), station(1)], 1538);
        b.at_constant_rate(Duration::micros(100), 1472, 10)
    };
    let cases = [
        (65_535, 0, 0, 59.0..=60.0),
        (0, 0, 0, 30.0..=31.0),
        (0, 7935, 0, 51.0..=52.0),
        (32_768, 3839, 0, 58.0..=59.0),
        (65_535, 0, 3520, 57.5..=58.5),
        (0, 0, 3520, 38.0..=39.0),
        (0, 7935, 3520, 52.0..=53.0),
        (32_768, 3839, 3520, 58.0..=59.0),
    ];
    for (ampdu, amsdu, txop_us, expected) in cases {
        let measured = throughput(ampdu, amsdu, txop_us);
        assert!(expected.contains(&measured), "{ampdu} {amsdu} {txop_us}: {measured}");
    }
}

#[test]
fn vht_and_he_have_the_throughput_of_the_closed_form() {
    for (generation, mcs, window) in [(Generation::Vht, 8, 64.0), (Generation::He, 11, 256.0)] {
        let wifi = Wifi { width: Width::Mhz80, streams: 2, mcs, ..wifi(generation) };
        let phy = wifi.phy(mcs);
        let most = (phy.most_bytes(wifi.ppdu_limit) / 1544) as f64;
        let count = f64::min(window, most);
        let bitmap = if window > 64.0 { 48.0 } else { 32.0 };
        let data = phy.ppdu(count as u64 * 1544 - 2).as_secs() * 1e6;
        let answer = 20.0
            + 4.0
                * ((22.0 + 8.0 * (24.0 + if window > 64.0 { 32.0 } else { 8.0 })) / 96.0_f64)
                    .ceil();
        assert!(answer <= bitmap);
        let closed = count * 1472.0 * 8.0 / (43.0 + 67.5 + data + 16.0 + answer);
        let mut b = Bench::new(mac(), wifi, vec![station(0), station(1)], 1538);
        assert_within(b.saturated(1, 600, 1472, 4), closed, 0.01, &format!("{generation:?}"));
    }
}

/// Saturation throughput of `n` stations by Bianchi's model (IEEE JSAC 18(3), 2000), Mbit/s, with
/// the durations of a success and of a collision in microseconds, the interframe space after it
/// included, for slots of the DCF: a station that draws a back-off of 0 sends before all others,
/// whose counters are at least 1 (Tinnirello, Bianchi and Xiao, IEEE Trans. Veh. Technol. 59(3),
/// 2010).
///
/// It assumes that attempts are not limited, that all stations, also those that have collided, wait
/// equally long after a collision, and that each access is one exchange without RTS. It has no term
/// for a TXOP of several exchanges and its CF-End, nor for waits that differ between stations.
fn bianchi(n: f64, bits: f64, success: f64, collision: f64) -> f64 {
    let windows: Vec<f64> = (0..=6).map(|i| 16.0 * f64::powi(2.0, i)).collect();
    let next = |i: usize| windows[(i + 1).min(6)];
    // Attempts by stage at collision probability p; attempts per slot; the share of colliding
    // stations whose next draw is 0.
    let chain = |p: f64| {
        let mut at = vec![1.0];
        for i in 0..6 {
            at.push(at[i] * p * (1.0 - 1.0 / next(i)));
        }
        at[6] /= 1.0 - p * (1.0 - 1.0 / windows[6]);
        let attempts: f64 = at.iter().sum();
        let slots: f64 = at.iter().zip(&windows).map(|(a, w)| a * w / 2.0).sum();
        let zeros: f64 = at.iter().enumerate().map(|(i, a)| a / next(i)).sum();
        (attempts / slots, zeros / attempts)
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let tau: f64 = (low + high) / 2.0;
        let (reached, _) = chain(1.0 - (1.0 - tau).powf(n - 1.0));
        if reached > tau {
            low = tau;
        } else {
            high = tau;
        }
    }
    let tau: f64 = low;
    let (_, zeros) = chain(1.0 - (1.0 - tau).powf(n - 1.0));
    let any = 1.0 - (1.0 - tau).powf(n);
    let one = n * tau * (1.0 - tau).powf(n - 1.0);
    let successes = (one + (n * tau - one) * zeros) / (1.0 - 1.0 / windows[0]);
    let time = 9.0 + successes * success + (any - one) * collision;
    successes * bits / time
}

/// The same by the model as it was published, in which each station counts down by one in each
/// slot, idle or busy, as EDCA does.
fn bianchi_edca(n: f64, bits: f64, success: f64, collision: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let tau: f64 = (low + high) / 2.0;
        let p = 1.0 - (1.0 - tau).powf(n - 1.0);
        let doubled: f64 = (0..6).map(|i| f64::powi(2.0 * p, i)).sum();
        if 2.0 / (17.0 + p * 16.0 * doubled) > tau {
            low = tau;
        } else {
            high = tau;
        }
    }
    let tau: f64 = low;
    let any = 1.0 - (1.0 - tau).powf(n);
    let one = n * tau * (1.0 - tau).powf(n - 1.0);
    one * bits / (9.0 * (1.0 - any) + one * success + (any - one) * collision)
}

#[test]
fn saturated_stations_have_the_throughput_of_bianchis_model_as_published() {
    compare_with(bianchi_edca, Access::Idle);
    compare_with(bianchi_edca, Access::Ns3);
}

#[test]
fn with_the_slots_of_the_dcf_a_back_off_of_0_is_sent_before_all_others() {
    compare_with(bianchi, Access::Ns2);
}

/// Seconds in which saturated stations with this throughput, Mbit/s, send 20,000 times: then a
/// deviation of 1.5 % is more than two standard errors.
fn seconds(throughput: f64, bits: f64) -> u64 {
    (20_000.0 * bits / (throughput * 1e6)).ceil() as u64
}

fn compare_with(model: impl Fn(f64, f64, f64, f64) -> f64, access: Access) {
    let after_collision = AfterCollision::Difs;
    let mac = Mac { attempts: 1_000_000, after_collision, access, ..mac() };
    // Generation, MCS, longest A-MPDU and its packets, length of the PSDU, answer.
    let cases = [
        (Generation::Ht, 0, 0, 1.0, 1538, 44.0),
        (Generation::Ht, 4, 0, 1.0, 1538, 28.0),
        (Generation::Ht, 7, 0, 1.0, 1538, 28.0),
        (Generation::Ht, 7, 8 * 1544, 8.0, 8 * 1544 - 2, 32.0),
        (Generation::Vht, 8, 0, 1.0, 1538 + 4, 28.0),
        (Generation::He, 11, 0, 1.0, 1538 + 4, 28.0),
        (Generation::He, 11, 8 * 1544, 8.0, 8 * 1544 - 2, 40.0),
    ];
    // The models have no BlockAckReq after a collision, as ns-3 sends it for aggregates.
    let modelled = |&(_, _, ampdu, ..): &(_, _, u64, _, _, _)| access != Access::Ns3 || ampdu == 0;
    for (generation, mcs, ampdu, packets, psdu, answer) in cases.into_iter().filter(modelled) {
        let wifi = Wifi { mcs, aifsn: 2, ampdu: Size::Bytes(ampdu), ..wifi(generation) };
        let data = wifi.phy(mcs).ppdu(psdu).as_secs() * 1e6;
        // The numbers between take as long; `make test-long` has them.
        let long = std::env::var_os("LASTHOP_LONG_TESTS").is_some();
        let numbers: &[u16] = if long { &[5, 10, 25, 50] } else { &[5, 50] };
        for &n in numbers {
            let stations = (0..=n).map(station).collect();
            let mut b = Bench::new(mac.clone(), wifi.clone(), stations, 1538);
            let success = data + 16.0 + answer + 34.0;
            let model = model(f64::from(n), packets * 12_000.0, success, data + 34.0);
            let measured = b.saturated(1, 20, 1500, seconds(model, packets * 12_000.0));
            let of =
                format!("{access:?}, {generation:?} MCS {mcs}, {n} stations, {packets} packets");
            assert_within(measured, model, 0.015, &of);
        }
    }
}

#[test]
fn the_share_of_lost_packets_is_that_of_independent_attempts() {
    let lossy = StationConfig {
        up: LossConfig::uniform(Share(0.5)),
        queue: QueueConfig::UNLIMITED,
        ..station(1)
    };
    let mac = Mac { attempts: 3, ..mac() };
    let mut b = Bench::new(mac, wifi(Generation::Ht), vec![station(0), lossy], 1538);
    (0..20_000).for_each(|_| b.offer(Time::ZERO, 1));
    b.run();
    let lost = b.ended.iter().filter(|(_, e)| e.loses()).count();
    assert_eq!(lost + b.delivered.len(), 20_000);
    assert_within(lost as f64, 20_000.0 / 8.0, 0.06, "lost packets");
    let attempts = b.ended.len() as f64;
    assert_within(attempts, 20_000.0 * 1.75, 0.02, "attempts");
}

#[test]
fn without_a_retry_limit_every_packet_arrives() {
    let lossy = StationConfig {
        up: LossConfig::uniform(Share(0.5)),
        queue: QueueConfig::UNLIMITED,
        ..station(1)
    };
    let run = |ampdu| {
        let wifi = Wifi { ampdu: Size::Bytes(ampdu), block_ack_retry_limit: false, ..ht() };
        let mac = Mac { attempts: 3, ..mac() };
        let mut b = Bench::new(mac, wifi, vec![station(0), lossy.clone()], 1538);
        (0..20_000).for_each(|_| b.offer(Time::ZERO, 1));
        b.run();
        (b.delivered.len(), b.ended.len() as f64)
    };
    let (delivered, attempts) = run(65_535);
    assert_eq!(delivered, 20_000);
    assert_within(attempts, 20_000.0 * 2.0, 0.02, "attempts");
    // Without block acknowledgements, the limit holds.
    let (delivered, attempts) = run(0);
    assert_within(delivered as f64, 20_000.0 * 7.0 / 8.0, 0.01, "delivered without A-MPDU");
    assert_within(attempts, 20_000.0 * 1.75, 0.02, "attempts without A-MPDU");
}

#[test]
fn without_a_retry_limit_the_contention_window_starts_again_after_as_many_failures() {
    let lossy = StationConfig { up: LossConfig::uniform(Share(1.0)), ..station(1) };
    let wifi = Wifi { block_ack_retry_limit: false, ..ht() };
    let mac = Mac { attempts: 3, backoff_includes_cw: true, ..mac() };
    let mut b = Bench::new(mac, wifi, vec![station(0), lossy], 1538);
    b.offer(Time::ZERO, 1);
    let (mut slots, mut count) = (0.0, 0.0);
    // A step starts a transmission, the next one ends it.
    b.step();
    while count < 30_000.0
        && let (Some(end), Some(start)) = (b.step(), b.step())
    {
        let backoff = (start - end).saturating_sub(b.cell.durations.unanswered);
        (slots, count) = (slots + backoff.0 as f64 / 9_000.0, count + 1.0);
    }
    assert_within(slots / count, (15.0 + 31.0 + 63.0) / 2.0 / 3.0, 0.01, "back-off");
}

#[test]
fn noise_costs_what_its_packet_error_rate_says_and_the_ideal_rule_avoids_it() {
    let at = |snr_db: f64, rate_rule| {
        let noisy = StationConfig { snr_db: Some(snr_db), ..station(1) };
        let wifi = Wifi { rate_rule, ..wifi(Generation::Ht) };
        let mut b = Bench::new(mac(), wifi, vec![station(0), noisy], 1538);
        let throughput = b.saturated(1, 200, 1472, 5);
        let failed = b.ended.iter().filter(|(_, e)| !e.received).count() as f64;
        (throughput, failed / b.ended.len() as f64)
    };
    for snr_db in [20.4, 20.8, 21.2] {
        let expected = 1.0 - error_rate::success(error_rate::log_success(7, snr_db), 1538);
        let (_, share) = at(snr_db, RateRule::Fixed);
        assert!((share - expected).abs() < 0.02, "{snr_db} dB: {share} instead of {expected}");
    }
    let (clean, none) = at(40.0, RateRule::Fixed);
    let (fixed, _) = at(15.0, RateRule::Fixed);
    let (ideal, few) = at(15.0, RateRule::Ideal);
    assert!(none == 0.0 && few < 0.02 && fixed < 0.1 * clean, "{none} {few} {fixed} {clean}");
    // MCS 3.
    assert_within(ideal, clean * 26.0 / 65.0, 0.01, "ideal");
}

/// Tables of Bianchi's model for 802.11ax without aggregates in ns-3's example `wifi-bianchi`, with
/// EIFS after collisions, for 5, 10, 25 and 50 stations. Their model is the published one, with a
/// preamble of 44 instead of 43.2 µs, an AIFS of three slots after a success and, after a
/// collision, an EIFS that assumes DIFS and an ACK at the rate of the answer. A cell has the EIFS
/// of EDCA instead, with AIFS and an ACK at 6 Mbit/s (802.11-2020, 10.3.7): by the same model, up
/// to 5 % less throughput where the answer is faster.
#[test]
fn throughputs_are_those_of_ns3s_tables_of_bianchis_model() {
    let tables = [
        (0, Width::Mhz20, 44.0, [6.3381, 5.8172, 5.1525, 4.6317]),
        (11, Width::Mhz20, 28.0, [41.8065, 39.2749, 35.4575, 32.2164]),
        (7, Width::Mhz80, 28.0, [53.8362, 50.9837, 46.3407, 42.2678]),
    ];
    let (sifs, difs, slot, slowest_ack) = (16.0, 34.0, 9.0, 44.0);
    let (longer_preamble, propagation) = (0.8, 0.1);
    for (mcs, width, answer, table) in tables {
        let wifi = Wifi { mcs, width, ampdu: Size::Bytes(0), ..wifi(Generation::He) };
        let data = wifi.phy(mcs).ppdu(1538).as_secs() * 1e6;
        let success = data + sifs + answer + difs + slot;
        for (n, expected) in [5, 10, 25, 50].into_iter().zip(table) {
            let of = format!("MCS {mcs}, {n} stations");
            let model = |collision, more| {
                bianchi_edca(f64::from(n), 12_000.0, success + more, data + collision + more)
            };
            let theirs = model(sifs + answer + difs, longer_preamble + propagation);
            assert_within(theirs, expected, 1e-4, &of);
            let own = model(sifs + slowest_ack + difs + slot, 0.0);
            let after_collision = AfterCollision::Eifs;
            let mac = Mac { attempts: 1_000_000, after_collision, ..mac() };
            let stations = (0..=n).map(station).collect();
            let mut b = Bench::new(mac, wifi.clone(), stations, 1538);
            let measured = b.saturated(1, 20, 1500, seconds(own, 12_000.0));
            assert_within(measured, own, 0.015, &of);
            if answer == slowest_ack {
                assert_within(measured, expected, 0.015, &of);
                continue;
            }
            // A shorter EIFS than ours and the slots of EDCA are worth an AIFS of two slots and the
            // slots of DCF.
            let wifi = Wifi { aifsn: 2, ..wifi.clone() };
            let mac =
                Mac { attempts: 1_000_000, after_collision, access: Access::Ns2, ..self::mac() };
            let stations = (0..=n).map(station).collect();
            let mut b = Bench::new(mac, wifi, stations, 1538);
            let measured = b.saturated(1, 20, 1500, 5);
            assert_within(measured, expected, 0.015, &of);
        }
    }
}
