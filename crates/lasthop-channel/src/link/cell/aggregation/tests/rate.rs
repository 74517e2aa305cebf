//! Rate rules beside the best of all fixed MCSs, and retry chains.

use super::{Bench, mac, station, wifi};
use crate::link::cell::aggregation::minstrel::{Choice, Minstrel};
use crate::link::cell::config::StationConfig;
use crate::link::cell::phy::Generation;
use crate::link::cell::wifi::{RateRule, Wifi};
use lasthop_core::units::{Duration, Time};

fn bench(generation: Generation, mcs: u32, rate_rule: RateRule, snr_db: f64) -> Bench {
    let noisy = StationConfig { snr_db: Some(snr_db), ..station(1) };
    let wifi = Wifi { rate_rule, mcs, ..wifi(generation) };
    Bench::new(mac(), wifi, vec![station(0), noisy], 1538)
}

fn throughput(generation: Generation, mcs: u32, rate_rule: RateRule, snr_db: f64) -> f64 {
    bench(generation, mcs, rate_rule, snr_db).saturated(1, 200, 1472, 3)
}

/// What is missing is the price of the probes: a probe of a faster MCS that fails costs its time,
/// its retries with RTS, and a larger back-off.
#[test]
fn minstrel_has_nearly_the_throughput_of_the_best_mcs() {
    for generation in [Generation::Ht, Generation::Vht, Generation::He] {
        let mut shares = vec![];
        for snr_db in (4..34).step_by(2) {
            let snr = f64::from(snr_db);
            let best = (0..=generation.largest_mcs())
                .filter(|&mcs| wifi(generation).phy(mcs).check().is_ok())
                .map(|mcs| throughput(generation, mcs, RateRule::Fixed, snr))
                .fold(0.0, f64::max);
            let share = throughput(generation, 7, RateRule::MinstrelHt, snr) / best;
            assert!((0.85..1.01).contains(&share), "{generation:?} {snr} dB: {share}");
            shares.push(share);
        }
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!(mean > 0.93, "{generation:?}: {mean}");
    }
}

/// Sends aggregates of 20 MPDUs every 2 ms for `ms` milliseconds; MCSs up to `most` have no losses,
/// the others no answers. Returns the choices.
fn send(minstrel: &mut Minstrel, start: u64, ms: u64, most: usize) -> Vec<Choice> {
    let times = (start..start + ms).step_by(2).map(|ms| Time::ZERO + Duration::millis(ms));
    let step = |now| {
        let choice = minstrel.choose(now);
        let mpdus = if choice.probe { 1 } else { 20 };
        minstrel.sent(now, choice.mcs, mpdus, (choice.mcs <= most).then_some(mpdus));
        choice
    };
    times.map(step).collect()
}

#[test]
fn minstrel_follows_the_channel_up_and_down() {
    let mut minstrel = Minstrel::new(&wifi(Generation::Ht), 15, 1, "ap to phone");
    let usual = |choices: &[Choice]| {
        let data: Vec<usize> = choices.iter().filter(|c| !c.probe).map(|c| c.mcs).collect();
        data[data.len() * 3 / 4..].to_vec()
    };
    let up = send(&mut minstrel, 0, 2_000, 5);
    assert!(usual(&up).iter().all(|&mcs| mcs == 5), "{up:?}");
    // A probe of MCS 6 or 7 has no answer; its MPDU follows with the second best MCS and RTS.
    let failed = up[..up.len() - 1].iter().rposition(|c| c.mcs > 5).unwrap();
    let retry = Choice { mcs: 4, probe: true, protect: true };
    assert_eq!(up[failed + 1], retry);
    // A probe every 20 ms at most.
    assert!(up.iter().filter(|c| c.probe && !c.protect).count() <= 100);
    let down = send(&mut minstrel, 2_000, 2_000, 2);
    assert!(usual(&down).iter().all(|&mcs| mcs == 2), "{down:?}");
}

#[test]
fn an_mcs_is_retried_for_six_milliseconds() {
    let mut minstrel = Minstrel::new(&wifi(Generation::Ht), 15, 1, "ap to phone");
    send(&mut minstrel, 0, 2_000, 7);
    // 20 packets of 1200 bytes at 65 Mbit/s take 3.0 ms: two transmissions have more than 6 ms,
    // with MCS 7, then with MCS 6, then again with MCS 7, the most reliable.
    let now = Time::ZERO + Duration::millis(2_000);
    minstrel.choose(now);
    minstrel.sent(now, 7, 20, Some(20));
    let chain: Vec<usize> = (0..8)
        .map(|_| {
            let choice = minstrel.choose(now);
            minstrel.sent(now, choice.mcs, 20, None);
            choice.mcs
        })
        .collect();
    assert_eq!(chain, [7, 7, 6, 6, 7, 7, 7, 7]);
}

#[test]
fn a_fixed_mcs_falls_back_until_there_is_an_answer() {
    let noisy = StationConfig { snr_db: Some(19.0), ..station(1) };
    let run = |fallback| {
        let wifi = Wifi { fallback, ..wifi(Generation::Ht) };
        let mut b = Bench::new(mac(), wifi, vec![station(0), noisy.clone()], 1538);
        (0..400).for_each(|_| b.offer(Time::ZERO, 1));
        b.run();
        b
    };
    assert_eq!(run(0).delivered.len(), 0, "MCS 7 does not suit 19 dB");
    let b = run(1);
    assert_eq!(b.delivered.len(), 400);
    // MCS 4 does, in every fourth transmission.
    let mut answered: Vec<(Time, bool)> =
        b.ended.iter().map(|(a, e)| (a.start, e.received)).collect();
    answered.dedup();
    assert!(answered.iter().zip((1..=4).cycle()).all(|((_, r), n)| *r == (n == 4)), "{answered:?}");
}
