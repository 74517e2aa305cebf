//! quinn's CUBIC under lasthop's TCP and as part of quinn, beside lasthop's CUBIC.

use std::sync::Arc;

use lasthop_testbed::rules::Needs;
use lasthop_testbed::{Stack, Testbed};
use lasthop_testbed_stacks::quinn_rule::{QuinnRule, rtt_estimator};
use lasthop_testbed_stacks::{quinn, smoltcp};
use quinn_proto::congestion::CubicConfig;

/// The goodput of a download alone, Mbit/s: lasthop's CUBIC, quinn's under lasthop's TCP, quinn,
/// smoltcp.
fn goodputs(rtt: &str, loss: &str) -> [f64; 4] {
    let estimate = rtt_estimator(rtt);
    let factory = Arc::new(CubicConfig::default());
    let testbed =
        Testbed::new().rate("20 Mbps").rtt(rtt).loss(loss).queue("1 BDP").duration("60 s").rule(
            "quinn",
            Needs::default(),
            move || Box::new(QuinnRule::new(factory.clone(), estimate)),
        );
    let alone = |scheme: &str| {
        let run = testbed.clone().competitor("mine", scheme).run(1, []).unwrap();
        run.flow("mine").goodput_bps / 1e6
    };
    let ours = [alone("cubic"), alone("quinn")];
    let network = testbed.clone().flow("mine").load().unwrap();
    let (mut server, mut client) = quinn::download(200_000_000, Default::default());
    network.run(1, [Stack::udp("mine", &mut server, &mut client)]).unwrap();
    let by_quinn = client.received() as f64 * 8.0 / 60e6;
    let (mut server, mut client) =
        smoltcp::download(200_000_000, smoltcp::CongestionControl::Cubic);
    network.run(1, [Stack::ip("mine", &mut server, &mut client)]).unwrap();
    let by_smoltcp = client.received() as f64 * 8.0 / 60e6;
    [ours[0], ours[1], by_quinn, by_smoltcp]
}

#[test]
fn controllers_fill_a_path_without_loss() {
    let [ours, rule, by_quinn, by_smoltcp] = goodputs("40 ms", "0 %");
    println!(
        "no loss: ours {ours:.2}, rule {rule:.2}, quinn {by_quinn:.2}, smoltcp {by_smoltcp:.2}"
    );
    // 1448 of 1500 bytes are payload in TCP, 1 % less in QUIC.
    assert!(ours > 18.0 && rule > 18.0 && by_quinn > 17.0, "{ours} {rule} {by_quinn}");
    assert!(by_smoltcp > 10.0, "{by_smoltcp}");
}
