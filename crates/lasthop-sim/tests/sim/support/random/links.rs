//! Random links: their rates, losses, delays, queues and link layers.

use std::sync::Arc;

use lasthop::air::config::{
    AddedDelay, DelayConfig, DelayDistribution, DelayRow, DelayStep, DelayTable, DrawIndex,
    LossConfig, OutageRule, RandomStart, RateConfig, ScriptedDelay, Span, TraceStart,
};
use lasthop::air::series::Series;
use lasthop::air::token_bucket::TokenBucketConfig;
use lasthop::link::impairment;
use lasthop::queue::{Discipline, QueueConfig};
use lasthop::sample::Sample;
use lasthop::scenario::network::Link;
use lasthop::units::{Duration, QueueLimit, Rate, Share, Size};
use proptest::prelude::*;

use super::super::{link, ms, outage, schedule, trace, traced};
use super::Conditions;

fn rate() -> impl Strategy<Value = RateConfig> {
    let steps = prop::collection::vec(
        (1u64..4000, prop_oneof![1 => Just(0u64), 3 => 100_000u64..5_000_000]),
        0..4,
    );
    prop_oneof![
        4 => (64_000u64..10_000_000).prop_map(|r| RateConfig::Constant(Rate(r))),
        // Rates at which serialization times are round, so that events coincide.
        2 => prop_oneof![Just(1_000_000u64), Just(2_000_000), Just(8_000_000)]
            .prop_map(|r| RateConfig::Constant(Rate(r))),
        2 => steps.prop_map(|mut steps| {
            steps.sort();
            // The last rate is not zero.
            steps.push((5000, 1_000_000));
            steps.insert(0, (0, 500_000));
            schedule(&steps)
        }),
    ]
}

pub fn loss(conditions: Conditions) -> BoxedStrategy<LossConfig> {
    let worst = if conditions == Conditions::Any { 1.0 } else { 0.3 };
    let index = prop_oneof![Just(DrawIndex::Slot), Just(DrawIndex::Frame), Just(DrawIndex::Block)];
    let slot = (1u64..20).prop_map(ms);
    let light = (0.0..0.1f64, index, slot).prop_map(|(rate, index, slot)| LossConfig::Uniform {
        rate: Share(rate),
        index,
        slot,
    });
    let any_model = (prop::collection::vec(0.0..1.0f64, 8), any::<prop::sample::Index>()).prop_map(
        move |(numbers, i)| i.get(&LossConfig::samples(&Sample::new(&numbers, worst))).clone(),
    );
    prop_oneof![4 => Just(LossConfig::None), 2 => light, 7 => any_model].boxed()
}

fn delay() -> impl Strategy<Value = DelayConfig> {
    let t = |most: u64| (0..most).prop_map(ms);
    let span = (0u64..6000, 1u64..800)
        .prop_map(|(from, length)| Span { from: ms(from), length: ms(length) });
    let added = (0u64..6000, 1u64..800, 1u64..900).prop_map(|(from, length, extra)| AddedDelay {
        from: ms(from),
        length: ms(length),
        extra: ms(extra),
    });
    let step =
        (0u64..6000, 0u64..200).prop_map(|(at, delay)| DelayStep { at: ms(at), delay: ms(delay) });
    let scripted = (1u64..40, 1u64..3, 0u64..300, 1u64..20, 0u64..300).prop_map(
        |(segment, crossing, extra, ack, ack_extra)| ScriptedDelay {
            data: vec![format!("{segment}:{crossing} + {extra} ms")],
            acks: vec![format!("{ack} + {ack_extra} ms")],
        },
    );
    let drawn = prop_oneof![
        Just((Some(DelayTable::Named("zeng2006".into())), None)),
        (0u64..50, 1u64..200).prop_map(|(from, more)| {
            let row = |share, from, to: u64| DelayRow {
                share: Share(share),
                from: ms(from),
                to: Some(ms(to)),
                mean: None,
            };
            let late = row(0.3, from + 5, from + 5 + more);
            let late = match more % 2 {
                0 => DelayRow { to: None, mean: Some(ms(more)), ..late },
                _ => late,
            };
            (Some(DelayTable::Rows(vec![row(0.7, from, from + 5), late])), None)
        }),
        (0u64..50, 1u64..100).prop_map(|(from, more)| (
            None,
            Some(DelayDistribution::Uniform { from: ms(from), to: ms(from + more) })
        )),
        (5u64..80, 1u64..40).prop_map(|(mean, sd)| (
            None,
            Some(DelayDistribution::Normal { mean: ms(mean), sd: ms(sd) })
        )),
        (0u64..50, 1u64..40).prop_map(|(min, mean)| (
            None,
            Some(DelayDistribution::Exponential { min: ms(min), mean: ms(mean) })
        )),
        (0u64..50, 1u64..40).prop_map(|(min, mean)| (
            None,
            Some(DelayDistribution::Pareto { min: ms(min), mean: ms(mean), shape: 2.5 })
        )),
    ];
    let traced = (prop::collection::vec((1u64..2000, 0u64..150), 1..6), any::<[bool; 3]>());
    let traced = traced.prop_map(|(rows, [random, reorder, added])| {
        let mut time = 0;
        let rows = rows.iter().map(|&(step, delay)| {
            time += step;
            (ms(time).0, delay as f64)
        });
        let added = added.then(|| AddedDelay { from: ms(500), length: ms(300), extra: ms(40) });
        DelayConfig {
            trace: Some("sample.delay".into()),
            rows: Series::of(rows.collect()).map(Arc::new),
            start: if random {
                TraceStart::Named(RandomStart::Random)
            } else {
                TraceStart::At(ms(700))
            },
            reorder,
            added: added.into_iter().collect(),
            ..DelayConfig::constant(ms(20))
        }
    });
    let config = (
        t(150),
        prop::option::weighted(0.3, drawn),
        t(1000),
        prop::collection::vec(step, 0..3),
        prop::collection::vec(span, 0..2),
        prop::collection::vec(added, 0..2),
        prop::option::weighted(0.2, scripted),
        any::<bool>(),
        any::<bool>(),
    );
    let variable =
        config.prop_map(|(base, drawn, from, steps, stalls, added, scripted, sorted, slot)| {
            let (table, distribution) = drawn.unwrap_or((None, None));
            let index = if slot { DrawIndex::Slot } else { DrawIndex::Frame };
            DelayConfig {
                base,
                table,
                distribution,
                from,
                steps,
                stalls,
                added,
                scripted,
                in_order: sorted,
                index,
                slot: Duration::micros(500),
                ..DelayConfig::constant(base)
            }
        });
    prop_oneof![3 => t(150).prop_map(DelayConfig::constant), 2 => variable, 1 => traced]
}

pub fn queue() -> impl Strategy<Value = QueueConfig> {
    let limit = prop_oneof![
        2 => Just(None),
        3 => (0u64..40).prop_map(|n| Some(QueueLimit::Packets(n))),
        2 => (0u64..40_000).prop_map(|n| Some(QueueLimit::Bytes(n))),
    ];
    prop_oneof![
        2 => limit.prop_map(|limit| QueueConfig { limit, ..QueueConfig::UNLIMITED }),
        1 => managed_queue(),
    ]
}

/// Every discipline except DropTail, with settings.
pub fn managed_queue() -> impl Strategy<Value = QueueConfig> {
    let limit = prop_oneof![
        1 => Just(None),
        4 => (1u64..40).prop_map(|n| Some(QueueLimit::Packets(n))),
        2 => (1u64..40_000).prop_map(|n| Some(QueueLimit::Bytes(n))),
    ];
    let discipline = (prop::collection::vec(0.0..1.0f64, 12), any::<prop::sample::Index>())
        .prop_map(|(numbers, i)| i.get(&Discipline::samples(&Sample::new(&numbers, 1.0))).clone());
    (limit, discipline).prop_map(|(limit, discipline)| QueueConfig { limit, discipline })
}

type Impairments =
    (Option<TokenBucketConfig>, Option<TokenBucketConfig>, Option<Share>, Option<Share>);

/// Token buckets, copies and bit errors; most links have none of them, so that they can be computed
/// in advance.
fn impairments() -> impl Strategy<Value = Impairments> {
    let bucket = || {
        (100_000u64..5_000_000, 2_000u64..40_000).prop_map(|(rate, burst)| TokenBucketConfig {
            rate: Rate(rate),
            burst: Size::Bytes(burst),
        })
    };
    let share = || (0.0..0.1f64).prop_map(Share);
    let some = (
        prop::option::of(bucket()),
        prop::option::of(bucket()),
        prop::option::of(share()),
        prop::option::of(share()),
    );
    prop_oneof![9 => Just((None, None, None, None)), 1 => some]
}

pub fn any_link(conditions: Conditions) -> impl Strategy<Value = Link> {
    let rules = prop_oneof![
        Just(OutageRule::Held),
        Just(OutageRule::LostAtSending),
        Just(OutageRule::LostAtArrival)
    ];
    let outages = prop::collection::vec((0u64..6000, 1u64..1500, rules), 0..3);
    let times = prop::collection::vec(0u32..40, 1..40);
    let start = prop_oneof![
        2 => (0u64..500).prop_map(|t| TraceStart::At(ms(t))),
        1 => Just(TraceStart::Named(RandomStart::Random)),
    ];
    let trace_of = prop::option::weighted(0.25, (times, start));
    (
        rate(),
        trace_of,
        delay(),
        loss(conditions),
        queue(),
        prop_oneof![Just(0u32), Just(64)],
        prop::option::weighted(0.3, outages),
        impairments(),
    )
        .prop_map(|(rate, trace_of, delay, loss, queue, overhead, outages, impaired)| {
            let outages = outages
                .unwrap_or_default()
                .into_iter()
                .map(|(from, length, rule)| outage(from, length, rule))
                .collect();
            let (shaper, policer, duplicate, corrupt) = impaired;
            let l =
                Link { delay, loss, queue, overhead, outages, ..link(0, 0, rate, Duration::ZERO) };
            let impairments = impairment::Impairments { policer, duplicate, corrupt };
            let l = Link { shaper, impairments, ..l };
            let Some((gaps, start)) = trace_of else { return l };
            let mut times: Vec<u32> = gaps
                .iter()
                .scan(0, |t, gap| {
                    *t += gap;
                    Some(*t)
                })
                .collect();
            times.push(times.last().map_or(1, |t| t + 1));
            traced(l, trace(&times), start)
        })
}
