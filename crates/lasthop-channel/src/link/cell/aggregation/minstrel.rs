//! Rate adaptation by trial, as Linux does it: minstrel-ht.
//!
//! For each MCS, a filter follows the share of MPDUs that are acknowledged, and from it and the
//! duration of a packet follows the throughput that the MCS would have. Every 50 ms the MCSs are
//! ranked: data start with the one of the best throughput, go on with the second best after
//! transmissions without an answer, and then with the most reliable one (the retry chain). Every 20
//! ms, one MPDU tries another MCS.
//!
//! There is one group of rates, since all data of a cell have the same width, streams and guard
//! interval; the kernel also tries fewer streams. A probe is one MPDU, as drivers of the mt76
//! family send it; its retries are that MPDU alone. Linux leaves the rates of 802.11ax to the
//! devices; here they are chosen in the same way. Retries after the first MCS of the chain have an
//! RTS.
//!
//! Source: Linux (5.15) net/mac80211/rc80211_minstrel_ht.c and .h, functions in the comments below;
//! D. Xia, J. Hart and Q. Fu, "Evaluation of the Minstrel rate adaptation algorithm in IEEE 802.11g
//! WLANs" (ICC 2013), describes its predecessor.

use crate::link::cell::mac::ACK_BYTES;
use crate::link::cell::phy::{legacy_ppdu, lowest_rate};
use crate::link::cell::wifi::Wifi;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Time};

/// Time between rankings (`update_interval`) and between probes (`MINSTREL_SAMPLE_INTERVAL`).
const UPDATE: Duration = Duration(50_000_000);
const SAMPLE: Duration = Duration(20_000_000);
/// MCSs that are kept by throughput (`MAX_THR_RATES`), and probes of one kind that wait
/// (`MINSTREL_SAMPLE_RATES`).
const BEST: usize = 4;
const SAMPLES: usize = 5;
/// Bytes of an average packet, and packets of an average aggregate, for the duration of a packet.
const PACKET_BYTES: u64 = 1_200;
const AGGREGATE: u64 = 16;
/// Weight of the past in the mean length of aggregates (`EWMA_LEVEL` / `EWMA_DIV`).
const LENGTH_WEIGHT: f64 = 0.75;
/// The low-pass filter of probabilities with a period of 16: weights of the last two values
/// (`MINSTREL_AVG_COEFF2`, `MINSTREL_AVG_COEFF3`).
const LAST: f64 = 5_273.0 / 4_096.0;
const BEFORE: f64 = -2_350.0 / 4_096.0;
/// Time for the retries of one MCS (`segment_size`), their largest number, and the largest
/// contention window that is reckoned with.
const SEGMENT: f64 = 6e6;
const MAX_RETRIES: u32 = 7;
const CW_MAX: u32 = 1_023;

/// Statistics of an MCS.
#[derive(Clone, Debug, Default)]
struct Statistics {
    /// Duration of an average packet in an aggregate, nanoseconds.
    duration: f64,
    /// MPDUs sent and acknowledged since the last ranking.
    attempts: u32,
    successes: u32,
    /// It has been tried.
    tried: bool,
    /// The filtered share of acknowledged MPDUs, and the value before.
    probability: f64,
    before: f64,
}

impl Statistics {
    /// Updates the probability (`minstrel_ht_calc_rate_stats`, `minstrel_filter_avg_add`).
    fn update(&mut self) {
        if self.attempts == 0 {
            return;
        }
        let share = (f64::from(self.successes) / f64::from(self.attempts)).max(1.0 / 4_096.0);
        let last = self.probability;
        if last == 0.0 {
            (self.probability, self.before) = (share, share);
        } else {
            let filtered = (1.0 - LAST - BEFORE) * share + LAST * last + BEFORE * self.before;
            (self.probability, self.before) = (filtered.clamp(1.0 / 4_096.0, 1.0), last);
        }
        (self.attempts, self.successes, self.tried) = (0, 0, true);
    }
}

/// Kinds of probes (`minstrel_sample_type`).
#[derive(Clone, Copy, Debug)]
enum Probe {
    /// The next faster MCS.
    Increment,
    /// Any faster MCS.
    Jump,
    /// One that is slower than the fastest of the chain and faster than its slowest.
    Slow,
}

/// The order of probes (`minstrel_sample_seq`).
const SEQUENCE: [Probe; 6] =
    [Probe::Increment, Probe::Jump, Probe::Increment, Probe::Jump, Probe::Increment, Probe::Slow];

/// How an exchange is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// MCS of the data.
    pub mcs: usize,
    /// Send one MPDU only.
    pub probe: bool,
    /// Begin with RTS and CTS, whatever the length.
    pub protect: bool,
}

/// The rate adaptation of one station for one receiver.
pub(super) struct Minstrel {
    /// By MCS; `None` if the standard has no such MCS with these widths and streams.
    rates: Vec<Option<Statistics>>,
    /// Preamble, SIFS and answer, nanoseconds; the same with RTS and CTS.
    overhead: f64,
    overhead_rts: f64,
    cw_min: u32,
    /// Mean number of MPDUs of an aggregate; MPDUs and transmissions since the last ranking.
    mean_length: f64,
    mpdus: u32,
    transmissions: u32,
    /// The retry chain: MCS and number of transmissions.
    chain: [(usize, u32); 3],
    ranked: Time,
    /// Time of the next probe, and the probes that wait.
    next_probe: Time,
    waiting: [Vec<usize>; 3],
    sequence: usize,
    /// The order in which MCSs are tried (`sample_table`), and the place in it.
    order: Vec<usize>,
    place: usize,
    /// The probe of the current exchange and its retries.
    probe: Option<usize>,
    /// Transmissions without an answer in sequence.
    unanswered: u32,
}

impl Minstrel {
    /// Nothing is known: data start with MCS 0. `name` and the seed address the draws.
    pub(super) fn new(wifi: &Wifi, cw_min: u32, seed: u64, name: &str) -> Minstrel {
        let statistics = |mcs: u32| {
            let phy = wifi.phy(mcs);
            let bits = PACKET_BYTES * AGGREGATE * 8;
            let symbols = bits.div_ceil(phy.bits_per_symbol());
            let duration = (symbols * phy.symbol().0) as f64 / AGGREGATE as f64;
            phy.check().is_ok().then(|| Statistics { duration, ..Statistics::default() })
        };
        let count = wifi.generation.largest_mcs() as usize + 1;
        let stream = Stream::new(seed, &format!("minstrel {name}"));
        // SIFS and a frame at the lowest rate; the data count as their preamble
        // (`minstrel_ht_update_caps`).
        let sifs = 16_000.0;
        let answer = sifs + legacy_ppdu(ACK_BYTES.into(), lowest_rate()).0 as f64;
        let overhead = sifs + legacy_ppdu(4, lowest_rate()).0 as f64 + answer;
        let mut minstrel = Minstrel {
            rates: (0..count as u32).map(statistics).collect(),
            overhead,
            overhead_rts: overhead + 2.0 * answer,
            cw_min,
            mean_length: 1.0,
            mpdus: 0,
            transmissions: 0,
            chain: [(0, 1); 3],
            ranked: Time::ZERO,
            next_probe: Time::ZERO,
            waiting: [const { Vec::new() }; 3],
            sequence: 0,
            order: permutations(count, &stream),
            place: 0,
            probe: None,
            unanswered: 0,
        };
        minstrel.rank(Time::ZERO);
        minstrel
    }

    /// How the next exchange is sent (`minstrel_ht_get_rate`).
    pub(super) fn choose(&mut self, now: Time) -> Choice {
        if self.unanswered == 0 {
            self.probe = None;
            if now >= self.next_probe {
                self.next_probe = now + SAMPLE;
                self.probe = self.next_probe();
            }
        }
        let [first, second, last] = self.chain;
        let first = self.probe.map_or(first, |mcs| (mcs, 1));
        let mut left = self.unanswered;
        for (i, (mcs, tries)) in [first, second, last].into_iter().enumerate() {
            if left < tries {
                return Choice { mcs, probe: self.probe.is_some(), protect: i > 0 };
            }
            left -= tries;
        }
        // The chain is over: the driver begins again.
        self.unanswered = 0;
        self.choose(now)
    }

    /// Data of `mpdus` MPDUs have been sent with an MCS, and `acknowledged` of them are
    /// acknowledged; `None`: there was no answer (`minstrel_ht_tx_status`).
    pub(super) fn sent(&mut self, now: Time, mcs: usize, mpdus: u32, acknowledged: Option<u32>) {
        self.unanswered = if acknowledged.is_some() { 0 } else { self.unanswered + 1 };
        (self.mpdus, self.transmissions) = (self.mpdus + mpdus, self.transmissions + 1);
        if let Some(rate) = self.rates.get_mut(mcs).and_then(Option::as_mut) {
            rate.attempts += mpdus;
            rate.successes += acknowledged.unwrap_or(0);
        }
        if now > self.ranked + UPDATE {
            self.rank(now);
        }
    }

    fn duration(&self, mcs: usize) -> f64 {
        self.rates[mcs].as_ref().map_or(f64::INFINITY, |r| r.duration)
    }

    fn probability(&self, mcs: usize) -> f64 {
        self.rates[mcs].as_ref().map_or(0.0, |r| r.probability)
    }

    /// Throughput in packets per nanosecond (`minstrel_ht_get_tp_avg`): losses below 10 % may be
    /// collisions, and an MCS that loses more than 90 % has none.
    fn throughput(&self, mcs: usize) -> f64 {
        let probability = self.probability(mcs);
        if probability < 0.1 {
            return 0.0;
        }
        // The kernel counts whole MPDUs.
        let overhead = self.overhead / self.mean_length.floor();
        probability.min(0.9) / (overhead + self.duration(mcs))
    }

    /// Ranks the MCSs (`minstrel_ht_update_stats`).
    fn rank(&mut self, now: Time) {
        if self.transmissions > 0 {
            let mean = f64::from(self.mpdus) / f64::from(self.transmissions);
            self.mean_length = LENGTH_WEIGHT * self.mean_length + (1.0 - LENGTH_WEIGHT) * mean;
            (self.mpdus, self.transmissions) = (0, 0);
        }
        let mut best = [0; BEST];
        // An MCS that has not been tried is as reliable as the faster ones.
        let mut least: f64 = 0.0;
        for mcs in (0..self.rates.len()).rev() {
            let Some(rate) = &mut self.rates[mcs] else { continue };
            rate.update();
            if rate.tried {
                least = least.max(rate.probability);
            } else {
                rate.probability = rate.probability.max(least);
            }
            if self.throughput(mcs) > 0.0 {
                self.insert(&mut best, mcs);
            }
        }
        let reliable = self.most_reliable(best[0]);
        self.chain = [best[0], best[1], reliable].map(|mcs| (mcs, 0));
        for i in 0..self.chain.len() {
            let mcs = self.chain[i].0;
            self.chain[i].1 = self.tries(mcs, i > 0);
        }
        self.refill([best[0], best[1], reliable]);
        (self.ranked, self.next_probe) = (now, now);
    }

    /// Inserts an MCS by throughput, and by probability where that is the same
    /// (`minstrel_ht_sort_best_tp_rates`).
    fn insert(&self, best: &mut [usize; BEST], mcs: usize) {
        let key = |mcs: usize| (self.throughput(mcs), self.probability(mcs));
        let place = best.iter().rposition(|&other| key(mcs) <= key(other)).map_or(0, |i| i + 1);
        if place < BEST {
            best[place..].rotate_right(1);
            best[place] = mcs;
        }
    }

    /// The last MCS of the chain: of those that lose at most a quarter the fastest, or the one that
    /// loses least (`minstrel_ht_set_best_prob_rate`).
    fn most_reliable(&self, fastest: usize) -> usize {
        let mut found = 0;
        for mcs in (0..self.rates.len()).filter(|&mcs| self.rates[mcs].is_some()) {
            let probability = self.probability(mcs);
            let is_faster = self.duration(fastest) > self.duration(mcs);
            if is_faster && probability < self.probability(fastest) {
                continue;
            }
            let better = if probability > 0.75 {
                self.throughput(mcs) > self.throughput(found)
            } else {
                probability > self.probability(found)
            };
            if better {
                found = mcs;
            }
        }
        found
    }

    /// Transmissions with an MCS of the chain: as many as fit into 6 ms with their back-offs, but
    /// at least two (`minstrel_calc_retransmit`, `minstrel_ht_set_rate`).
    fn tries(&self, mcs: usize, with_rts: bool) -> u32 {
        if self.probability(mcs) < 0.2 {
            return 2;
        }
        let overhead = if with_rts { self.overhead_rts } else { self.overhead };
        let transmission = overhead + self.duration(mcs) * self.mean_length.floor();
        let (mut cw, mut time, mut tries) = (self.cw_min, 0.0, 0);
        while tries < MAX_RETRIES && (tries < 2 || time < SEGMENT) {
            time += 9_000.0 * f64::from(cw) / 2.0 + transmission;
            cw = (2 * cw + 1).min(CW_MAX);
            tries += u32::from(tries < 2 || time < SEGMENT);
        }
        tries
    }

    /// Chooses the MCSs to be tried until the next ranking (`minstrel_ht_refill_sample_rates`).
    fn refill(&mut self, chain: [usize; 3]) {
        let durations = chain.map(|mcs| self.duration(mcs));
        let fast = durations.into_iter().fold(f64::INFINITY, f64::min);
        let slow = durations.into_iter().fold(0.0, f64::max);
        let mut waiting = std::mem::take(&mut self.waiting);
        for (kind, list) in waiting.iter_mut().enumerate() {
            list.retain(|&mcs| match kind == Probe::Slow as usize {
                true => self.duration(mcs) > fast && self.duration(mcs) < slow,
                false => self.duration(mcs) < fast,
            });
        }
        let next = (0..self.rates.len()).find(|&mcs| self.duration(mcs) < durations[0]);
        let increments = &mut waiting[Probe::Increment as usize];
        increments.extend(next.filter(|mcs| !increments.contains(mcs)));
        for _ in 0..self.rates.len() {
            let mcs = self.order[self.place];
            self.place = (self.place + 1) % self.order.len();
            let duration = self.duration(mcs);
            let kind = if duration < fast { Probe::Jump } else { Probe::Slow };
            let suits = duration < fast || (duration < slow && self.probability(mcs) <= 0.95);
            let list = &mut waiting[kind as usize];
            if suits && list.len() < SAMPLES && !list.contains(&mcs) {
                list.push(mcs);
            }
        }
        self.waiting = waiting;
    }

    /// The MCS to be tried now, if there is one (`minstrel_ht_get_sample_rate`).
    fn next_probe(&mut self) -> Option<usize> {
        let kind = SEQUENCE[self.sequence];
        self.sequence = (self.sequence + 1) % SEQUENCE.len();
        let list = &mut self.waiting[kind as usize];
        (!list.is_empty()).then(|| list.remove(0))
    }
}

/// Ten random permutations of the MCSs, one after the other (`init_sample_table`).
fn permutations(count: usize, stream: &Stream) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::with_capacity(10 * count);
    for column in 0..10 {
        let mut all: Vec<usize> = (0..count).collect();
        for i in (1..count).rev() {
            let draw = stream.uniform((column * count + i) as u64);
            all.swap(i, (draw * (i + 1) as f64) as usize);
        }
        order.extend(all);
    }
    order
}
