//! Digests of the results of ten runs: any change of a result changes one of them, on any machine.
//!
//! A commit that changes results on purpose replaces the table by the one that the failing test
//! prints.

use crate::support::*;
use lasthop::air::config::{
    AddedDelay, DelayConfig, DelayDistribution, DelayTable, DrawIndex, LossConfig, MarkovClock,
    OutageRule, RandomStart, Span, TraceStart,
};
use lasthop::air::loss::{BitErrors, Markov};
use lasthop::queue::QueueConfig;
use lasthop::scenario::network::{App, Network};
use lasthop::tcp::profile::ProfileName;
use lasthop::traffic::{Cbr, OnOff, Web};
use lasthop::units::{Duration, QueueLimit, Rate, Share, Size};

const DIGESTS: [(&str, &str); 10] = [
    ("reno over a clean path", "12c2b70c935a386d"),
    ("newreno with uniform loss in both directions", "91ff96420b0102ac"),
    ("tahoe and bursts of loss", "2382f2460b840ce8"),
    ("packet control over the delays of the thesis", "bb0413cd300a1e3e"),
    ("snoop with bit errors", "2e04db11eadb618c"),
    ("i-tcp through outages", "7f4600f7292edc20"),
    ("a trace with a random phase", "bdadb1c34500149f"),
    ("web pages and bursts share a queue in bytes", "f902a239d83ff490"),
    ("delays of every kind", "fd749f00c68ae96f"),
    ("rates that change and datagrams", "49deb64c696d513f"),
];

/// FNV-1a, 64 bits: the same on all platforms and in all versions.
fn digest(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}

fn scenario(n: usize) -> Network {
    let uniform = |rate| LossConfig::uniform(Share(rate));
    let bulk = |scheme: &str, profile| {
        last_hop(vec![flow(scheme, profile, App::Bulk)], Duration::secs(60))
    };
    let mut net;
    match n {
        0 => {
            net = bulk("reno", ProfileName::Rfc);
            net.links[DOWN].queue = packets(20);
        }
        1 => {
            net = bulk("newreno", ProfileName::Ns235);
            (net.links[DOWN].loss, net.links[UP].loss) = (uniform(0.02), uniform(0.02));
        }
        2 => {
            net = bulk("tahoe", ProfileName::Ns230);
            net.links[DOWN].loss = LossConfig::Markov(Markov {
                good_to_good: Share(0.9913),
                bad_to_bad: Share(0.8509),
                good_loss: Share(0.0),
                bad_loss: Share(1.0),
                clock: MarkovClock::Slot,
                slot: ms(8),
            });
        }
        3 => {
            net = bulk("packet-control:dupack_threshold=9", ProfileName::Ns226);
            for l in [DOWN, UP] {
                net.links[l].delay = DelayConfig {
                    table: Some(DelayTable::Named("zeng2006".into())),
                    ..DelayConfig::constant(ms(170))
                };
            }
        }
        4 => {
            net = bulk("snoop", ProfileName::Rfc);
            net.links[DOWN].loss = LossConfig::BitErrors(BitErrors {
                rate: 5e-6,
                index: DrawIndex::Frame,
                slot: ms(1),
            });
            net.links[DOWN].overhead = 64;
        }
        5 => {
            net = bulk("i-tcp:buffer=20000B:sender=reno", ProfileName::Rfc);
            net.links[DOWN].outages = vec![
                outage(5000, 3000, OutageRule::Held),
                outage(20_000, 500, OutageRule::LostAtSending),
            ];
            net.links[UP].outages = vec![outage(40_000, 2000, OutageRule::LostAtArrival)];
        }
        6 => {
            net = bulk("newreno", ProfileName::Rfc);
            let times: Vec<u32> = (0..2000u32).map(|i| i * i % 7919).chain([7919]).collect();
            let mut times = times;
            times.sort_unstable();
            net.links[DOWN] = traced(
                net.links[DOWN].clone(),
                trace(&times),
                TraceStart::Named(RandomStart::Random),
            );
            net.links[DOWN].queue = packets(50);
        }
        7 => {
            let web =
                App::Web(Web { mean_size: Size::Bytes(30_000), shape: 1.5, mean_pause: ms(500) });
            let on_off = App::OnOff(OnOff { mean_on: ms(700), mean_off: ms(900), rate: None });
            let flows = [("flow 1", web), ("flow 2", on_off)].map(|(name, app)| {
                let mut f = flow("newreno", ProfileName::Rfc, app);
                f.name = name.into();
                f
            });
            net = last_hop(flows.to_vec(), Duration::secs(60));
            net.links[DOWN].queue = QueueConfig::drop_tail(QueueLimit::Bytes(15_000));
            net.measure_from = Duration::secs(10);
        }
        8 => {
            net = bulk("reno", ProfileName::Ns235);
            net.flows[0].receive_window = Size::Bytes(30_000);
            net.links[DOWN].delay = DelayConfig {
                distribution: Some(DelayDistribution::Pareto {
                    min: ms(40),
                    mean: ms(10),
                    shape: 2.5,
                }),
                stalls: vec![Span { from: Duration::secs(10), length: Duration::secs(2) }],
                added: vec![AddedDelay {
                    from: Duration::secs(30),
                    length: Duration::secs(1),
                    extra: ms(400),
                }],
                ..DelayConfig::constant(ms(40))
            };
            net.links[UP].delay.distribution =
                Some(DelayDistribution::Normal { mean: ms(40), sd: ms(15) });
            net.links[UP].delay.in_order = true;
        }
        _ => {
            let mut cbr = flow("reno", ProfileName::Rfc, App::Cbr(Cbr { rate: Rate(300_000) }));
            cbr.name = "flow 2".into();
            net = last_hop(
                vec![flow("reno", ProfileName::Rfc, App::Transfer { size: 2_000_000 }), cbr],
                Duration::secs(60),
            );
            net.links[DOWN].rate =
                schedule(&[(0, 1_000_000), (5000, 2_000_000), (9000, 0), (9500, 400_000)]);
            net.links[DOWN].queue = packets(30);
        }
    }
    net
}

/// Keys that were added to the result after the digests. DropTail never marks, so `marked_frames`
/// is 0 here.
const NEWER_KEYS: [&str; 9] = [
    "acknowledged_undelivered_bytes",
    "app",
    "burst_segments",
    "empty_path_s",
    "first_byte_s",
    "group",
    "marked_frames",
    "queue_peak_frames",
    "role",
];

fn without_newer_keys(json: &str) -> String {
    let mut rest = json;
    let mut older = String::new();
    while let Some(at) = NEWER_KEYS.iter().filter_map(|key| rest.find(&format!("\"{key}\":"))).min()
    {
        older.push_str(&rest[..at]);
        // Each of them is followed by another key.
        rest = &rest[at + rest[at..].find(',').unwrap() + 1..];
    }
    older + rest
}

/// Removes `limited_by` (an object or null) and `bounds` (a list), which are newer than the
/// digests.
fn without_limits(json: &str) -> String {
    let mut json = json.to_string();
    for (key, end) in
        [("\"bounds\":[", "],"), (",\"limited_by\":{", "}"), ("\"limited_by\":null", ",")]
    {
        while let Some(at) = json.find(key) {
            let to = at + key.len() + json[at + key.len()..].find(end).unwrap() + end.len();
            json.replace_range(at..to, "");
        }
    }
    json
}

/// Reduces the JSON to the keys that the digests cover: also removes the traffic accounting and the
/// keys after `measured_s`. The version is that of the digests.
fn older(json: &str) -> String {
    let version = |v: &str| format!("\"lasthop\":\"{v}\"");
    let json = json.replacen(&version(env!("CARGO_PKG_VERSION")), &version("0.1.0"), 1);
    let json = without_newer_keys(&without_limits(&json));
    let without = |json: &str, from: &str, to: &str| {
        let (before, rest) = json.split_once(from).expect("every result has this key");
        format!("{before}{}", &rest[rest.find(to).expect("every result has the key after it")..])
    };
    without(&without(&json, "\"measured_s\"", "\"flows\""), "\"traffic_bits\"", "\"classifier\"")
}

#[test]
fn the_results_of_ten_runs_are_unchanged() {
    let found: Vec<(&str, String)> = DIGESTS
        .iter()
        .enumerate()
        .map(|(n, d)| (d.0, digest(&older(&json(&scenario(n), 7)))))
        .collect();
    let same = found.iter().zip(&DIGESTS).all(|(f, d)| f.1 == d.1);
    let table: String =
        found.iter().map(|(name, digest)| format!("    (\"{name}\", \"{digest}\"),\n")).collect();
    assert!(same, "results have changed; they are now\n{table}");
}

/// The verifier finds no violations in the ten runs, and each flow delivers data.
#[test]
fn the_ten_runs_have_no_violations() {
    for (n, (name, _)) in DIGESTS.iter().enumerate() {
        let result = watch(&scenario(n), 7).result;
        assert!(
            result.flows.iter().all(|f| f.delivered_bytes > 100_000),
            "{name}: {:?}",
            result.flows
        );
    }
}
