//! Random networks with all kinds of links, flows and schemes.

mod links;
mod schemes;

use std::fmt;

use lasthop::air::config::LossConfig;
use lasthop::link::arq::{ArqConfig, ArqKind};
use lasthop::scenario::network::{App, Flow, Network, Opener, Role};
use lasthop::tcp::profile::{DelayedAck, IdleRestart, LimitedTransmitRule, Profile, ProfileName};
use lasthop::traffic::{
    Adaptation, Call, Cbr, Media, OnOff, Pareto, ParetoOnOff, Ping, Sizes, Video, Web,
};
use lasthop::units::{Duration, Rate, Size};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{ms, network, scheme};
pub use links::{any_link, loss, managed_queue, queue};
pub use schemes::any_scheme;

/// Cases of a property in `make test`.
const QUICK: u32 = 400;

/// A configuration of `n` cases, the same in each run. Only `make test-long` runs all; otherwise it
/// is the first [`QUICK`] of them. `PROPTEST_RNG_SEED` selects other cases and `PROPTEST_CASES`
/// their number.
pub fn cases(n: u32) -> ProptestConfig {
    let set = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let rng_seed = RngSeed::Fixed(set("PROPTEST_RNG_SEED").unwrap_or(1));
    let long = std::env::var_os("LASTHOP_LONG_TESTS").is_some();
    let n = if long { n } else { n.min(QUICK) };
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

/// A transfer that is to complete however many copies of a segment are lost.
pub fn never_gives_up(profile: &mut Profile) {
    (profile.syn_retries, profile.user_timeout) = (0, Duration::ZERO);
    (profile.probe_retries, profile.orphan_timeout) = (0, Duration::ZERO);
    profile.synack_retries = profile.synack_retries.min(1) * u32::MAX;
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
        (p.accurate_ecn, p.l4s) = (b[8] && b[9], b[9] && b[6]);
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
        1 => (1000u64..30_000, 1u64..500).prop_map(|(mean_size, pause)| App::Web(Web {
            mean_size: Size::Bytes(mean_size),
            shape: 1.5,
            mean_pause: ms(pause),
        })),
        1 => (1u64..60_000, 0u64..500).prop_map(|(size, think)| App::Requests {
            request: 1 + (size % 1400) as u32,
            sizes: Sizes::Exponential { mean: size as f64 },
            mean_think: ms(think),
        }),
        1 => (50u64..2000, 1u64..12, any::<bool>()).prop_map(|(chunk, buffer, by_buffer)| {
            let chunk = ms(chunk);
            let adaptation = if by_buffer {
                Adaptation::Buffer { reservoir: chunk, cushion: chunk * buffer }
            } else {
                Adaptation::Rate
            };
            let ladder = vec![Rate(50_000), Rate(200_000), Rate(700_000)];
            let startup = chunk * (buffer % 3);
            let buffer = chunk * (buffer + 2);
            App::Video { request: 400, video: Video { ladder, chunk, buffer, startup, adaptation } }
        }),
        1 => (10u64..800, 10u64..800).prop_map(|(on, off)| App::OnOff(OnOff {
            mean_on: ms(on),
            mean_off: ms(off),
            rate: (on % 3 == 0).then_some(Rate(200_000)),
        })),
        1 => (10_000u64..1_000_000).prop_map(|r| match r % 4 {
            0 => App::Cbr(Cbr { rate: Rate(r) }),
            1 => App::Call(Call { every: ms(5 + r % 199), deadline: ms(r % 401 + 1) }),
            2 => App::Ping(Ping { every: ms(5 + r % 199) }),
            _ => App::Media(Media { rate: Rate(r), every: ms(5 + r % 199), deadline: ms(100) }),
        }),
        1 => (10_000u64..1_000_000).prop_map(|r| App::Pareto(Pareto { rate: Rate(r), shape: 1.5 })),
        1 => (50_000u64..3_000_000, 10u64..800, 10u64..800)
            .prop_map(|(r, on, off)| App::ParetoOnOff(ParetoOnOff {
                rate: Rate(r),
                mean_on: ms(on),
                mean_off: ms(off),
                shape: 1.5,
            })),
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
        move |(app, window, (start, stop), segment, mut profile, name, (up, [loss, ack_loss]))| {
            let whole = conditions == Conditions::Passable;
            if whole {
                never_gives_up(&mut profile);
            }
            let app = if whole {
                App::Transfer { size: if let App::Transfer { size } = app { size } else { 20_000 } }
            } else {
                app
            };
            // Without `ack_inject` the data filter alone stalls once an ACK is lost behind it.
            let scheme = scheme(&if whole {
                name.replace(
                    "ack_inject=false:forward_even=false",
                    "ack_inject=true:forward_even=false",
                )
            } else {
                name
            });
            let may_call =
                profile.full_handshake && scheme.scheme.relay().is_none() && !app.is_datagrams();
            let opens = match may_call && start % 3 == 1 {
                true => Opener::Receiver,
                false => Opener::Sender,
            };
            Flow {
                name: String::new(),
                group: String::new(),
                role: Default::default(),
                from: if up { station } else { 0 },
                to: if up { 0 } else { station },
                app,
                start: ms(start),
                stop: stop.map(ms).filter(|_| !whole),
                segment,
                headers: 40,
                receive_window: window,
                profile,
                scheme,
                loss,
                ack_loss,
                reader: None,
                opens,
                misbehaviour: None,
                is_arrival: false,
                draw: None,
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
        Just("fastack"),
        Just("fastack:ack_every=3:cache_packets=5:timeout=1ms:max_retransmissions=1:max_flows=1"),
        Just("zhuge"),
        Just("zhuge:aggregate=0s:max_acks=3:max_flows=1:sender=bbr"),
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
