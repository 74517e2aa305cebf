//! Random networks with all kinds of links, flows and schemes.

use std::fmt;

use lasthop::air::config::{
    AddedDelay, DelayConfig, DelayDistribution, DelayRow, DelayStep, DelayTable, DrawIndex,
    IdleAdvance, LossConfig, MarkovClock, OutageRule, PeriodLength, RandomStart, RateConfig, Span,
    TraceStart,
};
use lasthop::link::arq::{ArqConfig, ArqKind};
use lasthop::queue::codel::Codel;
use lasthop::queue::cw_marking::CwMarking;
use lasthop::queue::fq_codel::FqCodel;
use lasthop::queue::red::Red;
use lasthop::queue::step_marking::StepMarking;
use lasthop::queue::two_priority::TwoPriority;
use lasthop::queue::{Discipline, QueueConfig};
use lasthop::scenario::network::{App, Flow, Link, Network, Role};
use lasthop::tcp::profile::{DelayedAck, IdleRestart, LimitedTransmitRule, Profile, ProfileName};
use lasthop::units::{Duration, QueueLimit, Rate, Share, Size};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{link, ms, network, outage, schedule, scheme, trace, traced};

/// A configuration of `n` cases, the same in each run. `PROPTEST_RNG_SEED` selects other cases and
/// `PROPTEST_CASES` their number.
pub fn cases(n: u32) -> ProptestConfig {
    let set = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let rng_seed = RngSeed::Fixed(set("PROPTEST_RNG_SEED").unwrap_or(1));
    let cases = set("PROPTEST_CASES").map_or(n, |c| c as u32);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// How lossy the links may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Conditions {
    /// Any loss and any outage.
    Any,
    /// Every segment that is retransmitted often enough arrives: loss below 30 %, no long or
    /// permanent outage.
    Passable,
}

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
    let index = prop_oneof![Just(DrawIndex::Slot), Just(DrawIndex::Frame)];
    let slot = (1u64..20).prop_map(ms);
    let uniform = (0.0..worst, index.clone(), slot.clone())
        .prop_map(|(rate, index, slot)| LossConfig::Uniform { rate: Share(rate), index, slot });
    let light = (0.0..0.1f64, index.clone(), slot.clone())
        .prop_map(|(rate, index, slot)| LossConfig::Uniform { rate: Share(rate), index, slot });
    let clock = prop_oneof![Just(MarkovClock::Frame), Just(MarkovClock::Slot)];
    let markov = (0.9..1.0f64, 0.1..0.7f64, 0.0..0.1f64, 0.1..worst, clock, slot.clone()).prop_map(
        |(good, bad, good_loss, bad_loss, clock, slot)| LossConfig::Markov {
            good_to_good: Share(good),
            bad_to_bad: Share(bad),
            good_loss: Share(good_loss),
            bad_loss: Share(bad_loss),
            clock,
            slot,
        },
    );
    let step = prop_oneof![Just(MarkovClock::Frame), Just(MarkovClock::Slot)];
    let chain = (0.9..1.0f64, 0.1..0.9f64, 0.0..worst, step.clone(), slot.clone()).prop_map(
        |(stay, back, loss, clock, slot)| {
            let row = |shares: [f64; 3]| shares.map(Share).to_vec();
            let (out, rest) = (1.0 - stay, 1.0 - back);
            let transitions = vec![
                row([stay, out, 0.0]),
                row([back / 2.0, rest, back / 2.0]),
                row([0.0, back, rest]),
            ];
            LossConfig::MarkovChain {
                states: row([0.0, loss / 2.0, loss]),
                transitions,
                clock,
                slot,
            }
        },
    );
    let mta = (20.0..500f64, 1.0..20f64, 0.0..worst, 0.0..worst, step, slot.clone()).prop_map(
        |(free, lossy, good, bad, clock, slot)| LossConfig::Mta {
            error_free: PeriodLength::Mean(free),
            lossy: PeriodLength::Quantiles(vec![1.0, lossy, 2.0 * lossy]),
            errors: vec![Share(good), Share(bad)],
            clock,
            slot,
        },
    );
    let bits = (0.0..3e-5f64, index.clone(), slot.clone())
        .prop_map(|(rate, index, slot)| LossConfig::BitErrors { rate, index, slot });
    let unseen = prop_oneof![Just(IdleAdvance::Pass), Just(IdleAdvance::Wait)];
    let channel = (10u64..2000, 10u64..300, 0.0..1e-5f64, 0.0..1e-4f64, unseen, index, slot)
        .prop_map(|(good, bad, good_rate, bad_rate, unseen, index, slot)| {
            let (good, bad) = (ms(good), ms(bad));
            LossConfig::TwoState { good, bad, good_rate, bad_rate, unseen, index, slot }
        });
    prop_oneof![
        4 => Just(LossConfig::None),
        2 => light,
        1 => uniform,
        1 => markov,
        1 => chain,
        1 => mta,
        1 => bits,
        1 => channel,
    ]
    .boxed()
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
    let drawn = prop_oneof![
        Just((Some(DelayTable::Named("zeng2006".into())), None)),
        (0u64..50, 1u64..200).prop_map(|(from, more)| {
            let row =
                |share, from, to| DelayRow { share: Share(share), from: ms(from), to: ms(to) };
            (
                Some(DelayTable::Rows(vec![
                    row(0.7, from, from + 5),
                    row(0.3, from + 5, from + 5 + more),
                ])),
                None,
            )
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
    let config = (
        t(150),
        prop::option::weighted(0.3, drawn),
        t(1000),
        prop::collection::vec(step, 0..3),
        prop::collection::vec(span, 0..2),
        prop::collection::vec(added, 0..2),
        any::<bool>(),
        any::<bool>(),
    );
    let variable = config.prop_map(|(base, drawn, from, steps, stalls, added, in_order, slot)| {
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
            in_order,
            index,
            slot: Duration::micros(500),
        }
    });
    prop_oneof![3 => t(150).prop_map(DelayConfig::constant), 2 => variable]
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
    let length = || {
        prop_oneof![
            3 => (0u64..20).prop_map(QueueLimit::Packets),
            1 => (0u64..20_000).prop_map(QueueLimit::Bytes),
        ]
    };
    let share = || prop_oneof![(0.001..1.0f64).prop_map(Share), Just(Share(1.0))];
    let red = (length(), 1u64..30, share(), share(), any::<[bool; 3]>(), 1u64..2000).prop_map(
        |(min_th, more, max_p, w_q, [gentle, wait, ecn], size)| {
            let max_th = match min_th {
                QueueLimit::Packets(n) => QueueLimit::Packets(n + more),
                QueueLimit::Bytes(n) => QueueLimit::Bytes(n + 1000 * more),
            };
            Discipline::Red(Red {
                min_th,
                max_th,
                max_p,
                w_q,
                gentle,
                wait,
                ecn,
                mean_packet: Size::Bytes(size),
            })
        },
    );
    let codel = (1u64..50, 1u64..200, any::<bool>()).prop_map(|(target, more, ecn)| Codel {
        target: ms(target),
        interval: ms(target + more),
        ecn,
    });
    let fq = (codel.clone(), 256u64..3000, prop_oneof![Just(1024u32), 1u32..4]).prop_map(
        |(Codel { target, interval, ecn }, quantum, flows)| {
            Discipline::FqCodel(FqCodel {
                target,
                interval,
                ecn,
                quantum: Size::Bytes(quantum),
                flows,
            })
        },
    );
    let discipline = prop_oneof![
        red,
        codel.prop_map(Discipline::Codel),
        fq,
        prop::option::of(length())
            .prop_map(|threshold| Discipline::StepMarking(StepMarking { threshold })),
        (prop::option::of(length()), share())
            .prop_map(|(threshold, weight)| Discipline::CwMarking(CwMarking { threshold, weight })),
        Just(Discipline::TwoPriority(TwoPriority {})),
    ];
    (limit, discipline).prop_map(|(limit, discipline)| QueueConfig { limit, discipline })
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
    )
        .prop_map(|(rate, trace_of, delay, loss, queue, overhead, outages)| {
            let outages = outages
                .unwrap_or_default()
                .into_iter()
                .map(|(from, length, rule)| outage(from, length, rule))
                .collect();
            let l =
                Link { delay, loss, queue, overhead, outages, ..link(0, 0, rate, Duration::ZERO) };
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

/// Every scheme of the catalogue, with settings.
pub fn any_scheme() -> impl Strategy<Value = String> {
    let over = prop_oneof![
        Just("reno"),
        Just("newreno"),
        Just("tahoe"),
        Just("sack"),
        Just("rack"),
        Just("cubic"),
        Just("bbr"),
        Just("bbr3")
    ];
    let control = (3u32..20, any::<[bool; 6]>(), over.clone()).prop_map(|(d, b, over)| {
        format!(
            "packet-control:dupack_threshold={d}:ack_filter={}:data_filter={}:ack_inject={}:\
             forward_even={}:integer_compat={}:strict={}:sender={over}",
            b[0], b[1], b[2], b[3], b[4], b[5]
        )
    });
    let snoop = (1u32..60, 1u64..200, 0u32..5, 0u32..3, any::<[bool; 9]>(), over.clone()).prop_map(
        |(cache, tick, most, slack, b, over)| {
            format!(
                "snoop:cache_packets={cache}:tick={tick}ms:max_retransmissions={most}:\
                 expected_slack={slack}:first_dupack_passes={}:backoff={}:\
                 ns2_suppress_expected={}:ns2_rtt_weights={}:ns2_rtt_samples={}:ns2_passing={}:\
                 ns2_sender_retransmissions={}:ns2_full_cache={}:uplink={}:sender={over}",
                b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8]
            )
        },
    );
    let hold = (any::<[bool; 4]>(), 1u32..40, 0u64..600, over.clone());
    let paced = (hold.clone(), 0u64..300, 0u32..6, 1u32..6, 1u32..8).prop_map(
        |((b, acks, hold, over), stall, gaps, compressed, flows)| {
            format!(
                "ack-pacing:rate={}:detect={}:stall={stall}ms:stall_gaps={gaps}:\
                 compressed={compressed}:max_flows={flows}:max_acks={acks}:max_hold={hold}ms:\
                 sender={over}",
                if b[0] { "link" } else { "measured" },
                b[1]
            )
        },
    );
    let given = (hold, prop::option::weighted(0.4, 10u64..3000), 0u32..5, 1u32..5).prop_map(
        |((b, acks, hold, over), rate, slack, least)| {
            let rate = rate.map_or(String::new(), |r| format!(":rate={r}kbps"));
            format!(
                "rate-control{rate}:window={}:pacing={}:shortest_rtt={}:slack={slack}:\
                 least_window={least}:max_acks={acks}:max_hold={hold}ms:sender={over}",
                b[0], b[1], b[2]
            )
        },
    );
    let split = (prop_oneof![1 => 200u64..2000, 3 => 2000u64..60_000], any::<bool>(), over.clone())
        .prop_map(|(buffer, late, over)| {
            format!("i-tcp:buffer={buffer}B:ack_on_delivery={late}:sender={over}")
        });
    let persists = (
        200u64..60_000,
        1u64..3000,
        1u64..40,
        prop_oneof![Just(0u64), 1u64..2000],
        any::<bool>(),
        over.clone(),
    )
        .prop_map(|(buffer, withhold, window, silence, link, over)| {
            format!(
                "m-tcp:buffer={buffer}B:withhold={withhold}B:window={window} \
                 segments:silence={silence}ms:link_events={link}:sender={over}"
            )
        });
    let repeats =
        (prop_oneof![Just("srp"), Just("tcp")], 1u64..40, 1u32..5, 200u64..60_000, over.clone())
            .prop_map(|(second, window, timer, buffer, over)| {
                format!(
                    "mtcp:second={second}:window={window} \
                     segments:timer={timer}:buffer={buffer}B:sender={over}"
                )
            });
    // Without `repeat_rate` a lost word of the end of an outage leaves the server held back for
    // good, as the setting says.
    let steered = (0.1..2.5f64, 0u32..30, 1u64..1500, 200u64..100_000, any::<[bool; 2]>(), over)
        .prop_map(|(gain, queue, period, buffer, b, over)| {
            format!(
                "rnf:gain={gain:.2}:queue={queue} \
                 segments:period={period}ms:buffer={buffer}B:resend={}:steer_server={}:\
                 sender={over}",
                b[0], b[1]
            )
        });
    let kind = prop_oneof![Just("sack"), Just("fack"), Just("rack")];
    let recovery = (kind, any::<[bool; 2]>()).prop_map(|(kind, b)| {
        format!("{kind}{}{}", if b[0] { "+prr" } else { "" }, if b[1] { "+dsack-undo" } else { "" })
    });
    let undo = prop_oneof![
        Just(""),
        Just("+f-rto"),
        Just("+eifel"),
        Just("+eifel-original"),
        Just("+f-rto+eifel")
    ];
    let patient = (
        prop_oneof![Just("reno"), Just("newreno"), Just("sack")],
        prop_oneof![Just(""), Just("+ncr"), Just("+ncr-aggressive"), Just("+dcr")],
    );
    let patient = patient.prop_map(|(kind, wait)| format!("{kind}{wait}"));
    let other = prop_oneof![
        Just("tahoe"),
        Just("fack+prr"),
        Just("rack+prr+dsack-undo"),
        Just("reno+fine-timer"),
        Just("newreno+fine-timer")
    ];
    let with_undo = (prop_oneof![patient, other.prop_map(String::from)], undo)
        .prop_map(|(base, undo)| format!("reno:recovery={base}{undo}"));
    let window = prop_oneof![
        Just("vegas"),
        Just("vegas:variant=linux"),
        Just("veno"),
        Just("westwood"),
        Just("westwood+"),
        Just("tibet"),
        Just("newreno-ff"),
        Just("santa-cruz"),
        Just("jtcp"),
        Just("jersey"),
        Just("casablanca"),
        Just("ideal-bwe"),
        Just("tcp-real"),
        Just("wtcp"),
        Just("cubic"),
    ];
    let under = prop_oneof![
        4 => Just(""),
        1 => Just(":recovery=newreno"),
        1 => Just(":recovery=rack+prr+f-rto"),
        1 => Just(":recovery=sack+prr"),
    ];
    let window = (window, under).prop_map(|(rule, recovery)| format!("{rule}{recovery}"));
    let detector = prop_oneof![
        Just("slide"),
        Just("biaz"),
        Just("centred"),
        Just("spike"),
        Just("zigzag"),
        Just("zbs"),
        Just("ncpld")
    ];
    // `report_is_ack=false` takes no ACK number of a report, which the verifier counts as
    // acknowledged all the same.
    let selective = (
        detector,
        any::<[bool; 5]>(),
        1u32..4,
        prop_oneof![Just("newreno"), Just("sack"), Just("reno")],
    )
        .prop_map(|(detector, b, k, kind)| {
            format!(
                "selective-tcp:detector={detector}:classify={}:snack={}:bandwidth_span={}ms:\
                 cwnd_rule={}:passive={}:k={k}:recovery={kind}+eln",
                if b[0] { "first" } else { "every" },
                if b[1] { "wireless" } else { "everything" },
                if b[2] { 100 } else { 0 },
                if b[3] { "mul" } else { "div" },
                b[4]
            )
        });
    let slots = prop::option::weighted(0.3, 0u32..4);
    let lhp = (2u32..6, slots, prop_oneof![Just("sack"), Just("smart")]).prop_map(
        |(fragments, more, ack)| {
            let slots = more.map_or(String::new(), |more| format!(":slots={}", fragments + more));
            format!("lhp:fragments={fragments}:ack={ack}{slots}")
        },
    );
    prop_oneof![
        6 => with_undo,
        6 => window,
        2 => Just("reno".to_string()),
        2 => Just("newreno".to_string()),
        1 => Just("tahoe".to_string()),
        1 => Just("reno:recovery=newreno".to_string()),
        2 => Just("reno:recovery=sack-ns2".to_string()),
        4 => recovery.prop_map(|r| format!("reno:recovery={r}")),
        2 => prop_oneof![
            Just("reno:recovery=packet-list"),
            Just("reno:recovery=packet-list+smart"),
        ].prop_map(str::to_string),
        2 => prop_oneof![
            Just("reno:recovery=selective-repeat"),
            Just("cubic:recovery=selective-repeat+timer=3"),
        ].prop_map(str::to_string),
        1 => Just("sack".to_string()),
        3 => lhp,
        3 => selective,
        2 => Just("cubic".to_string()),
        2 => prop_oneof![Just("bbr"), Just("bbr:recovery=newreno"), Just("bbr:recovery=sack")]
            .prop_map(str::to_string),
        2 => prop_oneof![Just("bbr3"), Just("bbr3:recovery=reno"), Just("bbr3:recovery=sack-ns2")]
            .prop_map(str::to_string),
        2 => prop_oneof![
            Just("noor-aer"),
            Just("noor-eaer"),
            Just("noor-eaer:go_back_n=true:inflate=true"),
            Just("noor-eaer:recovery=newreno:max_window=8 segments"),
            Just("noor-aer:recovery=newreno+f-rto:max_rto=300ms")
        ].prop_map(str::to_string),
        2 => control,
        2 => paced,
        2 => given,
        2 => snoop,
        2 => split,
        2 => persists,
        1 => (1u64..20_000).prop_map(|wait| format!("tcp-f:wait={wait}ms")),
        2 => repeats,
        2 => steered,
    ]
}

fn any_profile() -> impl Strategy<Value = Profile> {
    let name = prop_oneof![
        2 => Just(ProfileName::Rfc),
        1 => Just(ProfileName::Linux),
        1 => Just(ProfileName::Ns226),
        1 => Just(ProfileName::Ns230),
        1 => Just(ProfileName::Ns235),
    ];
    let ack = prop_oneof![
        2 => Just(None),
        1 => Just(Some(DelayedAck::Switch(false))),
        1 => Just(Some(DelayedAck::Switch(true))),
        1 => (1u64..300).prop_map(|t| Some(DelayedAck::AtMost(ms(t)))),
    ];
    let changes = (
        ack,
        prop::option::weighted(0.2, 3u32..8),
        any::<[bool; 10]>(),
        prop::option::weighted(0.2, 1u64..4),
    );
    (name, changes).prop_map(|(name, (ack, threshold, b, window))| {
        let mut p = Profile::named(name);
        p.delayed_ack = ack.unwrap_or(p.delayed_ack);
        p.dupack_threshold = threshold.unwrap_or(p.dupack_threshold);
        p.timestamps = b[0] && b[1];
        p.limited_transmit ^= b[2] && b[3];
        p.guard_after_rto ^= b[4] && b[5];
        p.ecn = b[8] || b[9];
        if b[6] && b[7] {
            p.limited_transmit_rule = LimitedTransmitRule::BelowThreshold;
            p.idle_restart = IdleRestart::Off;
        }
        if let Some(n) = window {
            p.initial_window = Size::Segments(n as f64);
        }
        p
    })
}

pub fn any_flow(conditions: Conditions, station: u16) -> impl Strategy<Value = Flow> {
    let app = prop_oneof![
        3 => (1u64..120_000).prop_map(|size| App::Transfer { size }),
        2 => Just(App::Bulk),
        1 => (1000u64..30_000, 1u64..500).prop_map(|(mean_size, pause)| App::Web {
            mean_size,
            shape: 1.5,
            mean_pause: ms(pause),
        }),
        1 => (10u64..800, 10u64..800).prop_map(|(on, off)| App::OnOff {
            mean_on: ms(on),
            mean_off: ms(off),
            rate: (on % 3 == 0).then_some(Rate(200_000)),
        }),
        1 => (10_000u64..1_000_000).prop_map(|r| App::Cbr { rate: Rate(r) }),
        1 => (10_000u64..1_000_000).prop_map(|r| App::Pareto { rate: Rate(r), shape: 1.5 }),
        1 => (50_000u64..3_000_000, 10u64..800, 10u64..800)
            .prop_map(|(r, on, off)| App::ParetoOnOff {
                rate: Rate(r),
                mean_on: ms(on),
                mean_off: ms(off),
                shape: 1.5,
            }),
    ];
    let window = prop_oneof![
        4 => (1.0..80.0f64).prop_map(Size::Segments),
        1 => (200u64..5000).prop_map(Size::Bytes),
    ];
    let times = (0u64..2000, prop::option::weighted(0.3, 500u64..8000));
    let errors = prop_oneof![
        3 => Just([LossConfig::None, LossConfig::None]),
        1 => [loss(conditions), loss(conditions)],
    ];
    let segment = prop_oneof![3 => Just(1000u32), 1 => Just(1460), 1 => 100u32..1500];
    (app, window, times, segment, any_profile(), any_scheme(), (any::<bool>(), errors)).prop_map(
        move |(app, window, (start, stop), segment, profile, name, (up, [loss, ack_loss]))| {
            let whole = conditions == Conditions::Passable;
            let app = if whole {
                App::Transfer { size: if let App::Transfer { size } = app { size } else { 20_000 } }
            } else {
                app
            };
            Flow {
                name: String::new(),
                group: String::new(),
                from: if up { station } else { 0 },
                to: if up { 0 } else { station },
                app,
                start: ms(start),
                stop: stop.map(ms).filter(|_| !whole),
                segment,
                headers: 40,
                receive_window: window,
                profile,
                // Without `ack_inject` the data filter alone stalls once an ACK is lost behind it.
                scheme: scheme(&if whole {
                    name.replace(
                        "ack_inject=false:forward_even=false",
                        "ack_inject=true:forward_even=false",
                    )
                } else {
                    name
                }),
                loss,
                ack_loss,
            }
        },
    )
}

/// A network with a short debug output.
#[derive(Clone)]
pub struct Case(pub Network);

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = &self.0;
        writeln!(f, "{} s, measured from {} s", n.duration.as_secs(), n.measure_from.as_secs())?;
        n.links.iter().try_for_each(|l| writeln!(f, "  {l:?}"))?;
        n.flows.iter().try_for_each(|l| writeln!(f, "  {l:?}"))
    }
}

/// A chain of three or four nodes with one to three flows, each up or down.
pub fn any_network(conditions: Conditions) -> impl Strategy<Value = Case> {
    (3usize..5).prop_flat_map(move |n| {
        let links = prop::collection::vec(any_link(conditions), 2 * (n - 1));
        let flows = prop::collection::vec(any_flow(conditions, n as u16 - 1), 1..4);
        (links, flows, 2000u64..12_000, prop::option::weighted(0.2, 0u64..1500)).prop_map(
            move |(mut links, mut flows, duration, measure)| {
                for (i, l) in links.iter_mut().enumerate() {
                    let (a, b) = ((i / 2) as u16, (i / 2) as u16 + 1);
                    (l.from, l.to) = if i % 2 == 0 { (a, b) } else { (b, a) };
                    l.name = format!("{}>{}", l.from, l.to);
                    l.radio = i / 2 == n - 2;
                }
                for (i, f) in flows.iter_mut().enumerate() {
                    f.name = format!("flow {}", i + 1);
                }
                let mut roles = vec![Role::Server; n];
                roles[1..].fill(Role::Router);
                (roles[n - 2], roles[n - 1]) = (Role::BaseStation, Role::Station);
                let mut net = network(&roles, links, flows, ms(duration));
                net.measure_from = ms(measure.unwrap_or(0));
                if conditions == Conditions::Passable {
                    (net.duration, net.measure_from) = (Duration::secs(1_000_000), Duration::ZERO);
                }
                Case(net)
            },
        )
    })
}

/// A few senders on link layers with retransmission.
pub fn network_with_arq(conditions: Conditions) -> impl Strategy<Value = Case> {
    let kind = prop_oneof![Just(ArqKind::StopAndWait), Just(ArqKind::SelectiveRepeat)];
    let wait = prop_oneof![1 => Just(0u64), 2 => 1u64..200];
    let arq = (kind, 1u32..6, wait, any::<bool>()).prop_map(|(kind, attempts, wait, in_order)| {
        ArqConfig { kind, attempts, delay: ms(wait), in_order, fragments: 1 }
    });
    let with_notices = prop_oneof![
        Just("hack"),
        Just("hack-fixed"),
        Just("ewln"),
        Just("tcp-eln"),
        Just("balakrishnan-eln"),
        Just("snack"),
        Just("snack:delay=1ms:recovery=sack+eln"),
        Just("snack-snoop:delay=5ms:max_retransmissions=1:cache_packets=5"),
        Just("snack-snoop:sender=snack"),
        Just("balakrishnan-eln:ranges=1:max_flows=1:recovery=sack+eln"),
        Just("balakrishnan-eln:recovery=reno+eln-shield"),
        Just("ll-elsn:sender=hack"),
        Just("ll-elsn:sender=hack-fixed"),
        Just("ll-elsn:sender=lhp"),
        Just("ll-elsn:sender=(reno:recovery=packet-list+smart)"),
        Just("ll-elsn"),
        Just("ll-elsn:ersn=false:sender=(esack:tolerated_run=0:hold_timeouts=0:prr=true)"),
        Just("ll-elsn:sender=(reno:recovery=newreno+elsn)"),
        Just("ll-elsn:sender=(reno:recovery=reno+elsn)"),
        Just("ll-elsn:sender=(reno:recovery=sack+elsn+f-rto)"),
    ];
    let senders = prop_oneof![
        4 => with_notices,
        1 => Just("newreno"),
        1 => Just("sack"),
        1 => Just("rack"),
        1 => Just("snoop"),
    ];
    let senders = prop::collection::vec(senders, 3);
    (any_network(conditions), prop::collection::vec(prop::option::weighted(0.7, arq), 6), senders)
        .prop_map(|(Case(mut network), arqs, senders)| {
            for (flow, sender) in network.flows.iter_mut().zip(senders) {
                flow.scheme = scheme(sender);
            }
            for (link, arq) in network.links.iter_mut().zip(arqs) {
                link.arq = arq;
                // The number of fragments follows from the delay, without a random draw that would
                // change all others.
                if let Some(arq) = link.arq.as_mut().filter(|a| a.kind == ArqKind::StopAndWait) {
                    arq.fragments = 1 + (arq.delay.0 / 1_000_000 % 4) as u32;
                }
            }
            Case(network)
        })
}
