use super::tests::{fates, frame, mean_burst, share};
use super::*;
use crate::air::config::PeriodLength;

fn chain(states: &[f64], transitions: &[&[f64]], clock: MarkovClock) -> LossConfig {
    let shares = |row: &[f64]| row.iter().map(|p| Share(*p)).collect();
    let transitions = transitions.iter().map(|row| shares(row)).collect();
    LossConfig::MarkovChain {
        states: shares(states),
        transitions,
        clock,
        slot: Duration::micros(500),
    }
}

fn mta(error_free: f64, lossy: f64, errors: &[f64], clock: MarkovClock) -> LossConfig {
    LossConfig::Mta {
        error_free: PeriodLength::Mean(error_free),
        lossy: PeriodLength::Mean(lossy),
        errors: errors.iter().map(|p| Share(*p)).collect(),
        clock,
        slot: Duration::micros(500),
    }
}

const CLOCKS: [MarkovClock; 2] = [MarkovClock::Frame, MarkovClock::Slot];

/// A matrix of two states equals the model `markov`, frame for frame: the rates of paul2005's
/// slides.
#[test]
fn two_states_are_the_two_state_model() {
    let (p, q) = (0.9913, 0.8509);
    for clock in CLOCKS {
        for losses in [[0.0, 1.0], [0.01, 0.4]] {
            let [good_loss, bad_loss] = losses.map(Share);
            let (good_to_good, bad_to_bad, slot) = (Share(p), Share(q), Duration::micros(500));
            let markov =
                LossConfig::Markov { good_to_good, bad_to_bad, good_loss, bad_loss, clock, slot };
            let matrix = chain(&losses, &[&[p, 1.0 - p], &[1.0 - q, q]], clock);
            for gap in [100_000, 500_000, 70_000_000] {
                assert_eq!(
                    fates(&matrix, 3, 200_000, gap),
                    fates(&markov, 3, 200_000, gap),
                    "{clock:?}, {gap} ns"
                );
            }
        }
    }
}

/// For the chain 0 <-> 1 <-> 2, detailed balance gives the stationary shares 10/13, 2/13 and 1/13;
/// state 2 lasts 10 steps.
#[test]
fn a_chain_of_three_states_has_its_stationary_loss() {
    let rows: [&[f64]; 3] = [&[0.99, 0.01, 0.0], &[0.05, 0.9, 0.05], &[0.0, 0.1, 0.9]];
    for clock in CLOCKS {
        let lost = fates(&chain(&[0.0, 0.1, 1.0], &rows, clock), 5, 4_000_000, 500_000);
        let expected = (2.0 * 0.1 + 1.0) / 13.0;
        assert!((share(&lost) - expected).abs() < 0.003, "{} {expected}", share(&lost));
        let bursts = fates(&chain(&[0.0, 0.0, 1.0], &rows, clock), 5, 4_000_000, 500_000);
        assert!((mean_burst(&bursts) - 10.0).abs() < 0.3, "{}", mean_burst(&bursts));
    }
}

#[test]
fn the_state_of_a_chain_does_not_depend_on_who_asks() {
    let cases: [[&[f64]; 3]; 3] = [
        [&[0.99, 0.01, 0.0], &[0.05, 0.9, 0.05], &[0.0, 0.1, 0.9]],
        [&[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0], &[1.0, 0.0, 0.0]],
        [&[0.2, 0.3, 0.5], &[0.5, 0.2, 0.3], &[0.3, 0.5, 0.2]],
    ];
    for rows in cases {
        let config = chain(&[0.0, 0.0, 1.0], &rows, MarkovClock::Slot);
        let always = fates(&config, 11, 100_000, 500_000);
        assert!(share(&always) > 0.05);
        seldom_is(&config, &always);
    }
}

/// Frames in some of the slots have the same fate as frames in all of them, and the end of time
/// does not stop the run.
fn seldom_is(config: &LossConfig, always: &[bool]) {
    let mut seldom = LossProcess::new(config, 11, "test").unwrap();
    let (mut slot, mut gap) = (0, 1);
    while slot < always.len() {
        let start = Time(slot as u64 * 500_000 + 17);
        assert_eq!(seldom.lost(&frame(start, 0, 1)), always[slot], "slot {slot} of {config:?}");
        assert_eq!(seldom.lost(&frame(start, 0, 1)), always[slot], "the same slot again");
        gap = gap * 5 % 1013;
        slot += gap;
    }
    seldom.lost(&frame(Time::NEVER, 0, 1));
}

/// The stationary loss of the order-2 chain: after 00, 01, 10, 11 a frame is lost with 0.2, 0.5,
/// 0.4, 0.75, which balances at 3 : 1 : 1 : 2, so that 3/7 are lost in lossy periods; these take
/// lossy / (lossy + error_free) of the steps.
#[test]
fn mta_loses_its_share_of_lossy_periods() {
    for clock in CLOCKS {
        for (errors, in_lossy) in
            [(&[0.2, 0.5, 0.4, 0.75][..], 3.0 / 7.0), (&[0.3, 0.6], 3.0 / 7.0), (&[0.4], 0.4)]
        {
            let lost = fates(&mta(200.0, 50.0, errors, clock), 7, 4_000_000, 500_000);
            let expected = 0.2 * in_lossy;
            assert!(
                (share(&lost) - expected).abs() < 0.003,
                "{errors:?}: {} {expected}",
                share(&lost)
            );
        }
    }
}

/// Lossy periods in which every frame is lost are the two-state channel: share and burst length of
/// paul2005's slides.
#[test]
fn mta_without_good_frames_in_lossy_periods_is_the_two_state_channel() {
    let (p, q) = (0.9913, 0.8509);
    let lost = fates(
        &mta(1.0 / (1.0 - p), 1.0 / (1.0 - q), &[1.0, 1.0], MarkovClock::Frame),
        3,
        4_000_000,
        1,
    );
    assert!((share(&lost) - (1.0 - p) / (2.0 - p - q)).abs() < 0.0008, "{}", share(&lost));
    assert!((mean_burst(&lost) - 1.0 / (1.0 - q)).abs() < 0.12, "{}", mean_burst(&lost));
    let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count();
    let singles = lost.windows(3).filter(|w| !w[0] && w[1] && !w[2]).count();
    assert!((singles as f64 / bursts as f64 - (1.0 - q)).abs() < 0.01, "geometric lengths");
}

#[test]
fn mta_draws_measured_lengths() {
    let lengths = |q: &[f64]| PeriodLength::Quantiles(q.to_vec());
    let config = LossConfig::Mta {
        error_free: lengths(&[10.0, 20.0, 110.0]),
        lossy: lengths(&[4.0, 4.0]),
        errors: vec![Share(1.0)],
        clock: MarkovClock::Frame,
        slot: Duration::micros(500),
    };
    let lost = fates(&config, 3, 1_000_000, 1);
    assert!((mean_burst(&lost) - 4.0).abs() < 1e-3, "{}", mean_burst(&lost));
    // Half of the lengths lie between 10 and 20, half between 20 and 110: 40 on average.
    assert!((share(&lost) - 4.0 / 44.0).abs() < 0.001, "{}", share(&lost));
    assert!(!lost[..10].contains(&true), "the shortest period comes first");
}

#[test]
fn the_fate_of_a_slot_under_mta_does_not_depend_on_who_asks() {
    let config = mta(90.0, 30.0, &[0.2, 0.5, 0.4, 0.75], MarkovClock::Slot);
    let always = fates(&config, 11, 100_000, 500_000);
    seldom_is(&config, &always);
}

#[test]
fn mistakes_in_chains_are_errors() {
    let wrong = |config: LossConfig| LossProcess::new(&config, 1, "test").unwrap_err();
    let frame = MarkovClock::Frame;
    assert!(wrong(chain(&[0.1], &[&[1.0]], frame)).contains("2 to 64"));
    assert!(wrong(chain(&[0.0, 1.0], &[&[0.5, 0.5]], frame)).contains("2 rows of 2"));
    assert!(
        wrong(chain(&[0.0, 1.0], &[&[0.5, 0.5], &[0.5, 0.4]], frame))
            .contains("row 2 of transitions must add up to 1, found 0.9")
    );
    assert!(
        wrong(chain(&[0.0, 1.5], &[&[0.5, 0.5], &[0.5, 0.5]], frame))
            .contains("states must lie between 0 and 1")
    );
    assert!(
        wrong(mta(0.5, 2.0, &[1.0], frame)).contains("error_free must be a mean of at least 1")
    );
    assert!(wrong(mta(5.0, f64::NAN, &[1.0], frame)).contains("lossy must be"));
    assert!(wrong(mta(5.0, 2.0, &[1.0, 0.5, 0.2], frame)).contains("2^k"));
    assert!(wrong(mta(5.0, 2.0, &[], frame)).contains("2^k"));
}

#[test]
fn randomness_of_chains_is_known() {
    let random = |config| LossProcess::new(&config, 1, "test").unwrap().is_random();
    let frame = MarkovClock::Frame;
    let halves: [&[f64]; 2] = [&[0.5, 0.5], &[0.5, 0.5]];
    let flips: [&[f64]; 2] = [&[0.0, 1.0], &[1.0, 0.0]];
    let lasting: [&[f64]; 2] = [&[1.0, 0.0], &[0.5, 0.5]];
    assert!(
        random(chain(&[0.0, 1.0], &halves, frame)) && random(chain(&[0.5, 0.5], &flips, frame))
    );
    assert!(
        !random(chain(&[1.0, 1.0], &halves, frame)) && !random(chain(&[0.0, 1.0], &flips, frame))
    );
    assert!(!random(chain(&[0.0, 0.5], &lasting, frame)), "the second state is never reached");
    assert!(random(mta(5.0, 2.0, &[0.0, 0.5], frame)) && !random(mta(5.0, 2.0, &[0.0], frame)));
}
