//! Goodput of CUBIC alone on a link, as CSV: `cargo run --release --example cubic`.
//!
//! The forms are lasthop's, quinn's under lasthop's TCP, and those of quinn and smoltcp in their own
//! stacks. `tools/foreign_cubic.py` makes the table and the figure of docs/foreign-stacks.md of it.

use std::sync::Arc;

use lasthop_testbed::rules::Needs;
use lasthop_testbed::{Stack, Testbed};
use lasthop_testbed_stacks::quinn_rule::{QuinnRule, rtt_estimator};
use lasthop_testbed_stacks::{quinn, smoltcp};
use quinn_proto::congestion::CubicConfig;

const SEEDS: u64 = 30;
const SECONDS: f64 = 60.0;
/// More than the link carries in this time.
const SIZE: usize = 200_000_000;

/// Bytes that a receiver has after a run.
type Received = Box<dyn Fn(&Testbed, u64) -> u64>;

fn main() {
    println!("rtt_ms,loss_percent,form,seed,goodput_mbps");
    for rtt in [20, 40, 80, 160] {
        for loss in ["0", "0.1", "1"] {
            let testbed = testbed(rtt, loss);
            for (form, received) in forms() {
                // Without loss nothing is drawn.
                for seed in 1..=if loss == "0" { 1 } else { SEEDS } {
                    let goodput = received(&testbed, seed) as f64 * 8.0 / SECONDS / 1e6;
                    println!("{rtt},{loss},{form},{seed},{goodput:.4}");
                }
            }
        }
    }
}

fn testbed(rtt: u32, loss: &str) -> Testbed {
    let rtt = format!("{rtt} ms");
    let estimate = rtt_estimator(&rtt);
    let factory = Arc::new(CubicConfig::default());
    let rule = move || Box::new(QuinnRule::new(factory.clone(), estimate)) as _;
    Testbed::new()
        .rate("20 Mbps")
        .rtt(&rtt)
        .loss(&format!("{loss} %"))
        .queue("1 BDP")
        .duration("60 s")
        .rule("quinn", Needs::default(), rule)
}

/// The forms, and what shows why they differ.
fn forms() -> [(&'static str, Received); 7] {
    [
        ("lasthop", by_our_tcp("cubic", &[])),
        ("lasthop without SACK", by_our_tcp("cubic", &[("tcp.sack", "false")])),
        ("lasthop by RFC 9438", by_our_tcp("cubic", &[("tcp.profile", "rfc")])),
        ("quinn under lasthop's TCP", by_our_tcp("quinn", &[])),
        ("quinn", Box::new(by_quinn)),
        ("smoltcp", Box::new(|testbed, seed| by_smoltcp(testbed, seed, true))),
        ("smoltcp without delayed ACKs", Box::new(|t, seed| by_smoltcp(t, seed, false))),
    ]
}

/// The scheme under lasthop's TCP with these settings.
fn by_our_tcp(scheme: &'static str, keys: &'static [(&str, &str)]) -> Received {
    Box::new(move |testbed, seed| {
        let with = |testbed: Testbed, key: &(&str, &str)| testbed.set(key.0, key.1);
        let testbed = keys.iter().fold(testbed.clone(), with);
        let run = testbed.competitor("mine", scheme).run(seed, []).expect("a run");
        run.flow("mine").delivered_bytes
    })
}

fn by_quinn(testbed: &Testbed, seed: u64) -> u64 {
    let (mut server, mut client) = quinn::download(SIZE, Default::default());
    let network = testbed.clone().flow("mine").load().expect("a network");
    network.run(seed, [Stack::udp("mine", &mut server, &mut client)]).expect("a run");
    client.received()
}

fn by_smoltcp(testbed: &Testbed, seed: u64, delays_acks: bool) -> u64 {
    let (mut server, mut client) = smoltcp::download(SIZE, smoltcp::CongestionControl::Cubic);
    if !delays_acks {
        client.set_ack_delay(None);
    }
    let network = testbed.clone().flow("mine").load().expect("a network");
    network.run(seed, [Stack::ip("mine", &mut server, &mut client)]).expect("a run");
    client.received()
}
