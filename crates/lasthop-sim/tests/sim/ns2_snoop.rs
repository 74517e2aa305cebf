//! Exact comparison of Snoop, with all of ns-2's rules, with the agent of ns-2.35: every segment
//! that the sender puts on its link, every one that the base station puts on the last hop,
//! including the agent's retransmissions, and every ACK that reaches the sender must match in order
//! and within a microsecond. `tools/ns2_snoop.py` makes the fixtures; `LASTHOP_NS2_SNOOP_FIXTURES`
//! names a folder with further fixtures.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lasthop::air::config::{DelayConfig, DelayStep, LossConfig};
use lasthop::air::loss::Scripted;
use lasthop::queue::QueueConfig;
use lasthop::scenario::network::{App, Flow, Link, Network};
use lasthop::tcp::profile::{InitialSsthresh, Profile, ProfileName};
use lasthop::units::{Duration, Quantity, QueueLimit, Size};
use lasthop_sim::events::{Event, Kind, Observer};

use crate::support::fixture::{Fixture, Sequence, difference, fixtures, rate, read};
use crate::support::{DOWN, UP, flow, last_hop, lose};

const SETTINGS: &str = "snoop:backoff=false:ns2_rtt_weights=true:ns2_rtt_samples=true:\
                        ns2_passing=true:ns2_suppress_expected=true:\
                        ns2_sender_retransmissions=true:ns2_full_cache=true";

#[derive(Default)]
struct Record {
    snd: Sequence,
    ack: Sequence,
    hop: Sequence,
}

impl Observer for &mut Record {
    fn on_event(&mut self, e: &Event<'_>) {
        let Some(s) = e.segment else { return };
        let number = if s.len == 0 { 0 } else { s.seq / 1000 + 1 };
        match e.kind {
            Kind::DataSent => self.snd.push((number, e.t.0)),
            Kind::AckReceived => self.ack.push((s.ack / 1000, e.t.0)),
            Kind::Enqueued if e.link == Some(DOWN as u32) => self.hop.push((number, e.t.0)),
            _ => {}
        }
    }
}

/// On ns-2's LAN a frame arrives `delay` after its start; here delays count from its end. After the
/// SYN, which has the size of an ACK, all data frames have the same size.
fn network(f: &Fixture, sender: &str) -> Network {
    let mut profile = Profile::named(ProfileName::Ns235);
    profile.min_rto = Duration::from_secs_f64(f.number("minrto_s"));
    profile.clock_granularity = Duration::from_secs_f64(f.number("tick_s"));
    profile.limited_transmit = f.text("limited_transmit") == "1";
    profile.initial_ssthresh = InitialSsthresh::Size(Size::Segments(f.number("window")));
    let app = App::Transfer { size: f.number("segments") as u64 * 1000 };
    let snoop = format!("{SETTINGS}:tick={}s:sender={sender}", f.text("snooptick_s"));
    let flow = Flow {
        receive_window: Size::Segments(f.number("window")),
        profile,
        ..flow(&snoop, ProfileName::Ns235, app)
    };
    let mut net = last_hop(vec![flow], Duration::secs(2000));
    let after_start = |link: &Link, bytes: u64| {
        let lasthop::air::config::RateConfig::Constant(rate) = link.rate else { unreachable!() };
        Duration::parse(f.text("hop_delay")).unwrap().saturating_sub(rate.time_for(bytes))
    };
    for (i, link) in net.links.iter_mut().enumerate() {
        if i < DOWN {
            link.rate = rate(f.text("wired_rate"));
            link.delay = DelayConfig::constant(Duration::parse(f.text("wired_delay")).unwrap());
            link.queue = QueueConfig::drop_tail(QueueLimit::Packets(999));
        } else {
            link.rate = rate(f.text("hop_rate"));
            link.overhead = 64;
            link.delay = DelayConfig::constant(after_start(link, 104));
            link.queue = QueueConfig::drop_tail(QueueLimit::Packets(f.number("queue") as u64 - 1));
        }
    }
    // The SYN has crossed the link before the first data arrive.
    let data = DelayStep {
        at: Duration::parse(f.text("wired_delay")).unwrap() + Duration::millis(2),
        delay: after_start(&net.links[DOWN], 1104),
    };
    net.links[DOWN].delay.steps = vec![data];
    let words = f.words("data_drops");
    net.links[DOWN].loss = lose(&words.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    net.links[UP].loss = LossConfig::Scripted(Scripted {
        data: vec![],
        acks: f.words("ack_drops").iter().map(|w| w.parse().unwrap()).collect(),
        damaged: false,
    });
    net
}

fn compare(path: &Path) -> Vec<String> {
    let f = read(path);
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut differences = Vec::new();
    for (variant, sender) in [("Reno", "reno"), ("Newreno", "newreno")] {
        let Some(acks) = f.sequences.get(&(variant.to_string(), "ack".to_string())) else {
            continue;
        };
        let mut record = Record::default();
        lasthop_sim::run(&network(&f, sender), 1, &mut record, &AtomicBool::new(false)).unwrap();
        let end = acks.last().unwrap().1 + 1000;
        for (event, mut found) in [("snd", record.snd), ("hop", record.hop), ("ack", record.ack)] {
            found.retain(|s| s.1 <= end);
            let expected = &f.sequences[&(variant.to_string(), event.to_string())];
            if let Some(d) = difference(event, expected, &found) {
                differences.push(format!("{name} {variant}: {d}"));
                break;
            }
        }
    }
    differences
}

#[test]
fn every_fixture_is_matched() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ns2/snoop");
    let mut paths = fixtures(&shipped);
    assert!(paths.len() >= 20);
    if let Ok(more) = std::env::var("LASTHOP_NS2_SNOOP_FIXTURES") {
        paths.extend(fixtures(Path::new(&more)));
    }
    let mut report = String::new();
    for path in &paths {
        for d in compare(path) {
            let _ = writeln!(report, "{d}");
        }
    }
    assert!(report.is_empty(), "\n{report}");
}
