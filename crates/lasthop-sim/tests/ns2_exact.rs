//! Exact comparison with the recovery traces of ns-2.35: every segment the sender hands to its link and every ACK that
//! reaches it, in order, within a microsecond; and with random scenarios (`tools/ns2_random.py` makes more). `LASTHOP_NS2_FIXTURES` names a folder with more fixtures to check.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use lasthop::air::config::{DelayConfig, LossConfig, RateConfig};
use lasthop::queue::QueueConfig;
use lasthop::scenario::network::{App, Flow, Link, Network, Node, Role};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::tcp::profile::{DelayedAck, InitialSsthresh, Profile, ProfileName};
use lasthop::units::{Duration, Quantity, QueueLimit, Rate, Size};
use lasthop_sim::events::{Event, Kind, Reader};

/// (segment number, nanoseconds)
type Sequence = Vec<(u64, u64)>;

#[derive(Default)]
struct Record {
    snd: Sequence,
    ack: Sequence,
}

impl Reader for &mut Record {
    fn on_event(&mut self, e: &Event<'_>) {
        let Some(s) = e.segment else { return };
        match e.kind {
            Kind::DataSent => self.snd.push((if s.len == 0 { 0 } else { s.seq / 1000 + 1 }, e.t.0)),
            Kind::AckReceived => self.ack.push((s.ack / 1000, e.t.0)),
            _ => {}
        }
    }
}

struct Fixture {
    settings: HashMap<String, String>,
    sequences: HashMap<(String, String), Sequence>,
}

fn read(path: &Path) -> Fixture {
    let text = std::fs::read_to_string(path).unwrap();
    let mut f = Fixture { settings: HashMap::new(), sequences: HashMap::new() };
    for line in text.lines() {
        let mut words = line.split(' ');
        let head = words.next().unwrap();
        if let Some((key, _)) = line.split_once('=').filter(|(k, _)| !k.starts_with(char::is_uppercase)) {
            f.settings.insert(key.split('(').next().unwrap().into(), line[key.len() + 1..].into());
            continue;
        }
        let event = words.next().unwrap().to_string();
        let mut t = 0;
        let sequence = words.map(|w| {
            let (seq, dt) = w.split_once('@').unwrap();
            t += dt.parse::<u64>().unwrap() * 1000;
            (seq.parse().unwrap(), t)
        });
        f.sequences.insert((head.to_string(), event), sequence.collect());
    }
    f
}

fn rate(text: &str) -> RateConfig {
    RateConfig::Constant(Rate::parse(&text.replace("Mb", " Mbps")).unwrap())
}

/// ns-2's variants, and the schemes that are the same.
const VARIANTS: [(&str, &str); 4] = [("Tahoe", "tahoe"), ("Reno", "reno"), ("Newreno", "newreno"), ("Sack1", "sack")];

fn network(f: &Fixture, scheme: &str) -> Network {
    let get = |k: &str| f.settings[k].as_str();
    let number = |k: &str| get(k).parse::<f64>().unwrap();
    let words = |k: &str| get(k).split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let mut profile = Profile::named(ProfileName::Ns235);
    profile.min_rto = Duration::from_secs_f64(number("minrto_s"));
    profile.clock_granularity = Duration::from_secs_f64(number("tick_s"));
    profile.dupack_threshold = number("dupthresh") as u32;
    profile.limited_transmit = get("limited_transmit") == "1";
    profile.guard_after_rto = get("bugfix") == "true";
    profile.timestamps = get("timestamps") == "true";
    profile.initial_ssthresh = InitialSsthresh::Size(Size::Segments(number("initial_ssthresh")));
    if get("delack") == "1" {
        profile.delayed_ack = DelayedAck::AtMost(Duration::millis(100));
    }
    let link = |name: &str, from, to, kind: &str, loss| Link {
        name: name.into(),
        from,
        to,
        radio: kind == "hop",
        overhead: 0,
        queue: QueueConfig::drop_tail(QueueLimit::Packets(999)),
        rate: rate(get(&format!("{kind}_rate"))),
        trace: None,
        delay: DelayConfig::constant(Duration::parse(get(&format!("{kind}_delay"))).unwrap()),
        loss,
        outages: vec![],
        arq: None,
    };
    let data = LossConfig::Scripted { data: words("data_drops"), acks: vec![] };
    let acks = LossConfig::Scripted { data: vec![], acks: words("ack_drops").iter().map(|w| w.parse().unwrap()).collect() };
    Network {
        title: "ns-2 recovery trace".into(),
        duration: Duration::secs(2000),
        measure_from: Duration::ZERO,
        nodes: [("fh", Role::Server), ("bs", Role::BaseStation), ("mh", Role::Station)].map(|(n, role)| Node { name: n.into(), role }).to_vec(),
        links: vec![
            link("wired", 0, 1, "wired", LossConfig::None),
            link("wired", 1, 0, "wired", LossConfig::None),
            link("radio", 1, 2, "hop", data),
            link("radio", 2, 1, "hop", acks),
        ],
        next_hop: vec![vec![None, Some(0), Some(0)], vec![Some(1), None, Some(2)], vec![Some(3), Some(3), None]],
        flows: vec![Flow {
            name: "flow 1".into(),
            from: 0,
            to: 2,
            app: App::Transfer { size: number("segments") as u64 * 1000 },
            start: Duration::ZERO,
            stop: None,
            segment: 1000,
            headers: 40,
            receive_window: Size::Segments(number("window")),
            profile,
            scheme: SchemeChoice::parse(scheme).unwrap(),
        }],
        assumed: vec![],
    }
}

/// The first difference between two sequences, in words.
fn difference(what: &str, expected: &Sequence, found: &Sequence) -> Option<String> {
    for i in 0..expected.len().max(found.len()) {
        let (e, f) = (expected.get(i), found.get(i));
        let same = matches!((e, f), (Some(e), Some(f)) if e.0 == f.0 && e.1.abs_diff(f.1) <= 1000);
        if !same {
            let from = i.saturating_sub(3);
            let window = |s: &Sequence| {
                s[from.min(s.len())..(i + 4).min(s.len())].iter().map(|(n, t)| format!("{n}@{:.6}", *t as f64 * 1e-9)).collect::<Vec<_>>().join(" ")
            };
            return Some(format!("{what} {i}: ns-2 {} | here {}", window(expected), window(found)));
        }
    }
    None
}

/// Compares one fixture; returns the differences.
fn compare(path: &Path) -> Vec<String> {
    let f = read(path);
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut differences = Vec::new();
    for (variant, scheme) in VARIANTS.into_iter().filter(|v| f.sequences.contains_key(&(v.0.to_string(), "snd".to_string()))) {
        let mut record = Record::default();
        lasthop_sim::run(&network(&f, scheme), 1, &mut record, &AtomicBool::new(false)).unwrap();
        let key = |e: &str| (variant.to_string(), e.to_string());
        let ack_end = f.sequences[&key("ack")].len();
        // The trace ends when the ACK of the last segment reaches the sender.
        let end = f.sequences[&key("ack")].last().unwrap().1 + 1000;
        record.snd.retain(|s| s.1 <= end);
        record.ack.truncate(ack_end);
        let d = difference("snd", &f.sequences[&key("snd")], &record.snd).or_else(|| difference("ack", &f.sequences[&key("ack")], &record.ack));
        if let Some(d) = d {
            differences.push(format!("{name} {variant}: {d}"));
        }
    }
    differences
}

fn fixtures(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "txt")).collect();
    all.sort();
    all
}

/// Depends on ns-2's random tick phase.
const NOT_EXACT: [&str; 1] = ["rtotick"];

#[test]
fn every_recovery_trace_is_matched() {
    let mut report = String::new();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ns2");
    let mut paths = fixtures(&own);
    assert!(paths.len() >= 29);
    paths.extend(fixtures(&own.join("random")));
    assert!(paths.len() >= 29 + 40);
    if let Ok(more) = std::env::var("LASTHOP_NS2_FIXTURES") {
        paths.extend(fixtures(Path::new(&more)));
    }
    for path in paths {
        if NOT_EXACT.iter().any(|n| path.file_stem().is_some_and(|s| s == *n)) {
            continue;
        }
        for d in compare(&path) {
            let _ = writeln!(report, "{d}");
        }
    }
    assert!(report.is_empty(), "\n{report}");
}
