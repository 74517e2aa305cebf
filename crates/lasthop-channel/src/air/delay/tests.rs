//! Tests of delays.

use super::*;
use crate::air::config::{AddedDelay, DelayStep, DrawIndex, RateConfig, RateStep, Span};
use crate::air::loss::testing::frame;
use crate::air::rate::RateProcess;
use lasthop_core::units::Rate;

const MS: u64 = 1_000_000;

fn arrival(delay: &mut DelayProcess, start: Time, end: Time, ordinal: u64) -> Time {
    delay.arrival(&Frame { start, ..frame(start, ordinal, 1040) }, end)
}

fn ms(t: u64) -> Time {
    Time(t * MS)
}

fn process(config: DelayConfig) -> DelayProcess {
    DelayProcess::new(&config, 1, "test").unwrap()
}

fn base(base: u64) -> DelayConfig {
    DelayConfig::constant(Duration::millis(base))
}

fn span(from: u64, length: u64) -> Span {
    Span { from: Duration::millis(from), length: Duration::millis(length) }
}

#[test]
fn a_constant_delay_is_known() {
    let mut delay = process(base(170));
    assert_eq!(
        (delay.constant(), delay.may_reorder(), delay.is_random()),
        (Some(Duration::millis(170)), false, false)
    );
    assert_eq!(arrival(&mut delay, ms(1), ms(3), 0), ms(173));
}

fn traced(rows: &[(u64, f64)]) -> DelayConfig {
    let rows = rows.iter().map(|&(t, delay)| (t * MS, delay)).collect();
    DelayConfig {
        trace: Some("my.delay".into()),
        rows: super::super::series::Series::of(rows).map(std::sync::Arc::new),
        ..base(7)
    }
}

#[test]
fn a_trace_gives_the_delay_of_the_time_at_which_a_frame_starts() {
    let rows = [(0, 50.0), (100, 20.0), (130, 60.5)];
    let send = |config: &DelayConfig| {
        let mut delay = process(config.clone());
        let half = [0, 90, 95, 100, 110, 120, 130, 160];
        let arrival = |&t: &u64| arrival(&mut delay, ms(t), ms(t + 1), 0).0 * 2 / MS;
        half.iter().map(arrival).map(|half_ms| half_ms as f64 / 2.0).collect::<Vec<_>>()
    };
    let config = traced(&rows);
    // The trace starts over at 160 ms.
    let held = [51.0, 141.0, 146.0, 146.0, 146.0, 146.0, 191.5, 211.0];
    assert_eq!(send(&config), held, "no frame overtakes, and frames arrive together");
    let reordered = [51.0, 141.0, 146.0, 121.0, 131.0, 141.0, 191.5, 211.0];
    assert_eq!(send(&DelayConfig { reorder: true, ..config.clone() }), reordered);
    let later = TraceStart::At(Duration::millis(100));
    let delay = process(DelayConfig { start: later, ..config.clone() });
    assert_eq!((delay.mean_at(ms(0)), delay.may_reorder()), (Duration::millis(20), false));
    let random = TraceStart::Named(RandomStart::Random);
    assert!(process(DelayConfig { start: random, ..config.clone() }).is_random());
    assert!(!process(config).is_random());
}

#[test]
fn keys_that_do_not_go_with_a_trace_are_errors() {
    let error = |config| DelayProcess::new(&config, 1, "test").unwrap_err();
    assert!(error(DelayConfig { reorder: true, ..base(7) }).contains("needs a delay trace"));
    let step = DelayStep { at: Duration::ZERO, delay: Duration::ZERO };
    assert!(error(DelayConfig { steps: vec![step], ..traced(&[(0, 1.0)]) }).contains("steps"));
}

/// ns-2.35: ten packets of 1000 bytes, one every 10 ms; 1 Mbit/s, 4 Mbit/s from 73 ms; delay
/// 100 ms, 20 ms from 35 ms, 200 ms from 55 ms.
fn ns2_arrivals(in_order: bool) -> Vec<u64> {
    let step = |at, delay| DelayStep { at: Duration::millis(at), delay: Duration::millis(delay) };
    let mut delay =
        process(DelayConfig { steps: vec![step(35, 20), step(55, 200)], in_order, ..base(100) });
    assert_eq!(
        (delay.constant(), delay.may_reorder(), delay.is_random()),
        (None, !in_order, false)
    );
    let step = |at, rate| RateStep { at: Duration::millis(at), rate: Rate(rate) };
    let schedule = vec![step(0, 1_000_000), step(73, 4_000_000)];
    let mut rate = RateProcess::new(&RateConfig::Schedule { schedule }, None, &[], Duration::ZERO);
    let arrivals = (0..10).map(|i| {
        let (start, end) = rate.serialize(ms(10 * i), 1000);
        arrival(&mut delay, start, end, i)
    });
    arrivals.map(|t| t.0 / MS).collect()
}

#[test]
fn a_changed_delay_holds_for_frames_that_start_after_it() {
    assert_eq!(ns2_arrivals(false), [108, 118, 128, 138, 68, 78, 268, 278, 282, 292]);
}

#[test]
fn in_order_nothing_overtakes() {
    assert_eq!(ns2_arrivals(true), [108, 118, 128, 138, 146, 154, 268, 278, 282, 292]);
}

#[test]
fn a_stall_keeps_frames_until_its_end() {
    let config = DelayConfig { stalls: vec![span(50, 40)], ..base(100) };
    let arrivals = |config| {
        let mut delay = process(config);
        [40, 50, 60, 89, 90].map(|t| arrival(&mut delay, ms(t), ms(t + 8), 0).0 / MS)
    };
    assert_eq!(arrivals(config.clone()), [148, 198, 198, 198, 198]);
    // One serialisation time apart, as from a link.
    assert_eq!(arrivals(DelayConfig { in_order: true, ..config }), [148, 198, 206, 214, 222]);
}

#[test]
fn added_delays_add_up() {
    let added = |from, length, extra| AddedDelay {
        from: Duration::millis(from),
        length: Duration::millis(length),
        extra: Duration::millis(extra),
    };
    let mut delay =
        process(DelayConfig { added: vec![added(10, 20, 5), added(20, 20, 7)], ..base(100) });
    assert_eq!(
        [9, 10, 20, 29, 30, 40].map(|t| (arrival(&mut delay, ms(t), ms(t), 0) - ms(t)).0 / MS),
        [100, 105, 112, 112, 107, 100]
    );
}

fn named(name: &str) -> DelayConfig {
    DelayConfig {
        table: Some(DelayTable::Named(name.into())),
        index: DrawIndex::Frame,
        ..base(170)
    }
}

fn delays_ms(config: DelayConfig, n: u64) -> Vec<f64> {
    let mut delay = process(config);
    (0..n)
        .map(|i| arrival(&mut delay, Time(i), Time(i), i).0.saturating_sub(i) as f64 / 1e6)
        .collect()
}

fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt())
}

#[test]
fn the_table_of_the_thesis_is_drawn_from() {
    let delays = delays_ms(named("zeng2006"), 200_000);
    let share = |from: f64, to: f64| {
        delays.iter().filter(|&&d| from <= d && d < to).count() as f64 / delays.len() as f64
    };
    for (row, expected) in [
        ((153.0, 195.0), 0.8),
        ((195.0, 225.0), 0.1),
        ((225.0, 297.0), 0.08),
        ((297.0, 621.0), 0.02),
    ] {
        assert!((share(row.0, row.1) - expected).abs() < 0.004, "{row:?}");
        // uniform inside the row
        let middle = (row.0 + row.1) / 2.0;
        assert!((share(row.0, middle) / share(row.0, row.1) - 0.5).abs() < 0.03, "{row:?}");
    }
    // 0.8 × 174 + 0.1 × 210 + 0.08 × 261 + 0.02 × 459
    assert!((moments(&delays).0 - 190.26).abs() < 0.5);
}

#[test]
fn a_row_with_a_mean_has_an_exponential_tail() {
    let row = |share, from, to, mean| DelayRow {
        share: Share(share),
        from: Duration::millis(from),
        to,
        mean,
    };
    let t = |t| Some(Duration::millis(t));
    let rows = vec![row(0.9, 10, t(10), None), row(0.1, 10, None, t(20))];
    let config = DelayConfig { table: Some(DelayTable::Rows(rows)), ..base(0) };
    assert_eq!(process(config.clone()).mean_at(ms(0)), Duration::millis(12));
    let delays = delays_ms(config, 200_000);
    let late: Vec<f64> = delays.iter().map(|d| d - 10.0).filter(|&d| d > 0.0).collect();
    assert!((late.len() as f64 / delays.len() as f64 - 0.1).abs() < 0.003);
    // Mean and standard deviation of an exponential distribution are equal.
    let (mean, sd) = moments(&late);
    assert!((mean - 20.0).abs() < 0.5 && (sd - 20.0).abs() < 0.6, "{mean} {sd}");
}

#[test]
fn the_mean_is_that_of_the_draws_and_of_what_is_in_force() {
    let mean = |config: DelayConfig, t: u64| process(config).mean_at(ms(t)).0 as f64 / 1e6;
    // 0.8 × 174 + 0.1 × 210 + 0.08 × 261 + 0.02 × 459
    assert!((mean(named("zeng2006"), 0) - 190.26).abs() < 1e-6);
    assert_eq!(mean(DelayConfig { from: Duration::millis(500), ..named("zeng2006") }, 499), 170.0);
    let step = |at, delay| DelayStep { at: Duration::millis(at), delay: Duration::millis(delay) };
    let config = DelayConfig { steps: vec![step(35, 20), step(55, 200)], ..base(100) };
    assert_eq!([34, 35, 54, 55].map(|t| mean(config.clone(), t)), [100.0, 20.0, 20.0, 200.0]);
    let added = AddedDelay {
        from: Duration::millis(10),
        length: Duration::millis(20),
        extra: Duration::millis(5),
    };
    let config = DelayConfig { added: vec![added], stalls: vec![span(0, 100)], ..base(100) };
    assert_eq!([9, 10, 30].map(|t| mean(config.clone(), t)), [100.0, 105.0, 100.0]);
    let t = Duration::millis;
    let of = |d| mean(DelayConfig { distribution: Some(d), ..base(0) }, 0);
    assert_eq!(of(DelayDistribution::Uniform { from: t(10), to: t(20) }), 15.0);
    assert_eq!(of(DelayDistribution::Normal { mean: t(100), sd: t(10) }), 100.0);
    assert_eq!(of(DelayDistribution::Exponential { min: t(50), mean: t(20) }), 70.0);
    assert_eq!(of(DelayDistribution::Pareto { min: t(50), mean: t(20), shape: 6.0 }), 70.0);
}

#[test]
fn draws_begin_when_they_should() {
    let mut delay = process(DelayConfig { from: Duration::millis(500), ..named("zeng2006") });
    assert!(delay.is_random() && delay.may_reorder() && delay.constant().is_none());
    assert!((0..499).all(|t| arrival(&mut delay, ms(t), ms(t), t) == ms(t + 170)));
    assert!((500..600).all(|t| arrival(&mut delay, ms(t), ms(t), t) != ms(t + 170)));
}

#[test]
fn a_slot_has_one_draw_for_whoever_sends_first() {
    let config = DelayConfig { index: DrawIndex::Slot, ..named("zeng2006") };
    let (mut all, mut some) = (process(config.clone()), process(config));
    for i in 0..1000 {
        let expected = arrival(&mut all, ms(i), ms(i), i);
        if i % 3 == 0 {
            assert_eq!(arrival(&mut some, ms(i), ms(i), i / 3), expected);
        }
    }
}

#[test]
fn distributions_have_their_moments() {
    let t = Duration::millis;
    let of = |distribution| {
        moments(&delays_ms(
            DelayConfig { distribution: Some(distribution), index: DrawIndex::Frame, ..base(0) },
            100_000,
        ))
    };
    let near = |(mean, sd): (f64, f64), expected: (f64, f64)| {
        assert!(
            (mean - expected.0).abs() < 0.02 * expected.0
                && (sd - expected.1).abs() < 0.05 * expected.1,
            "{mean} {sd}, expected {expected:?}"
        );
    };
    near(
        of(DelayDistribution::Uniform { from: t(100), to: t(200) }),
        (150.0, 100.0 / 12_f64.sqrt()),
    );
    near(of(DelayDistribution::Normal { mean: t(100), sd: t(10) }), (100.0, 10.0));
    near(of(DelayDistribution::Exponential { min: t(50), mean: t(20) }), (70.0, 20.0));
    near(
        of(DelayDistribution::Pareto { min: t(50), mean: t(20), shape: 6.0 }),
        (70.0, 20.0 / 24_f64.sqrt()),
    );
    let cut = delays_ms(
        DelayConfig {
            distribution: Some(DelayDistribution::Normal { mean: t(0), sd: t(10) }),
            ..base(0)
        },
        1000,
    );
    assert!(cut.iter().all(|&d| d >= 0.0) && cut.contains(&0.0));
}

#[test]
fn in_order_holds_for_drawn_delays() {
    let mut delay = process(DelayConfig { in_order: true, ..named("zeng2006") });
    assert!(!delay.may_reorder());
    let mut latest = Time::ZERO;
    for i in 0..10_000 {
        let arrival = arrival(&mut delay, ms(8 * i), ms(8 * i + 8), i);
        assert!(arrival > latest);
        latest = arrival;
    }
}

#[test]
fn mistakes_are_errors() {
    let error = |config: DelayConfig| DelayProcess::new(&config, 1, "test").unwrap_err();
    assert_eq!(
        error(named("zeng")),
        "there is no built-in delay table \"zeng\"; the one there is: \"zeng2006\""
    );
    let rows = |rows: &[(f64, u64, u64)]| {
        let row = |r: &(f64, u64, u64)| DelayRow {
            share: Share(r.0),
            from: Duration::millis(r.1),
            to: Some(Duration::millis(r.2)),
            mean: None,
        };
        DelayConfig { table: Some(DelayTable::Rows(rows.iter().map(row).collect())), ..base(0) }
    };
    assert!(error(rows(&[])).contains("100 %"));
    assert_eq!(
        error(rows(&[(0.5, 1, 2), (0.47, 2, 3)])),
        "the shares of a delay table must add up to 100 %, found 97.0000 %"
    );
    assert!(error(rows(&[(1.0, 3, 2)])).contains("found 3 ms to 2 ms"));
    let both = |to, mean| {
        let row = DelayRow { share: Share(1.0), from: Duration::ZERO, to, mean };
        error(DelayConfig { table: Some(DelayTable::Rows(vec![row])), ..base(0) })
    };
    let t = Some(Duration::millis(1));
    assert!(both(t, t).contains("either `to`") && both(None, None).contains("either `to`"));
    assert!(error(rows(&[(f64::NAN, 1, 2)])).contains("100 %"));
    let distribution = |d| DelayConfig { distribution: Some(d), ..base(0) };
    let t = Duration::millis;
    assert!(
        error(distribution(DelayDistribution::Uniform { from: t(2), to: t(1) }))
            .contains("2 ms to 1 ms")
    );
    for shape in [1.0, f64::NAN, f64::INFINITY, -2.0] {
        assert!(
            error(distribution(DelayDistribution::Pareto { min: t(2), mean: t(1), shape }))
                .contains("above 1")
        );
    }
    assert!(
        error(DelayConfig {
            distribution: Some(DelayDistribution::Uniform { from: t(1), to: t(1) }),
            ..named("zeng2006")
        })
        .contains("not both")
    );
    assert!(error(DelayConfig { slot: Duration::ZERO, ..rows(&[(1.0, 1, 2)]) }).contains("slot"));
}
