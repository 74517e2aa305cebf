//! Downloads of the foreign stacks over a lossy LTE link.

use std::time::Duration;

use lasthop_testbed::{Network, Run, Stack, Testbed};
use lasthop_testbed_stacks::smoltcp::CongestionControl;
use lasthop_testbed_stacks::{quinn, smoltcp};

const BYTES: usize = 10_000_000;

fn lte() -> Testbed {
    Testbed::new()
        .traces("synthetic-lte.down", "synthetic-lte.up")
        .rtt("40 ms")
        .loss("1 %")
        .duration("60 s")
        .flow("mine")
}

fn by_quinn(network: &Network, seed: u64) -> (Run, Duration) {
    let (mut server, mut client) = quinn::download(BYTES, Default::default());
    let run = network.run(seed, [Stack::udp("mine", &mut server, &mut client)]).unwrap();
    assert_eq!(client.received(), BYTES as u64);
    let stats = server.connection().unwrap().stats();
    let down = &run.stack("mine").to_receiver;
    // QUIC never retransmits a packet: what it holds for lost is what was lost, and at most a few
    // that were late.
    let lost = (down.lost_on_air() + down.dropped_at_queue()) as u64;
    println!("quinn: {} lost, {lost} in truth", stats.path.lost_packets);
    (run, client.finished_at().expect("the download ends"))
}

fn by_smoltcp(network: &Network, control: CongestionControl) -> (Run, Duration) {
    let (mut server, mut client) = smoltcp::download(BYTES, control);
    let run = network.run(1, [Stack::ip("mine", &mut server, &mut client)]).unwrap();
    assert_eq!(client.received(), BYTES as u64);
    (run, client.finished_at().expect("the download ends"))
}

#[test]
fn quinn_downloads_over_lte() {
    let network = lte().load().unwrap();
    let (run, took) = by_quinn(&network, 1);
    println!("quinn: {took:?}");
    assert!(run.stack("mine").to_receiver.lost_on_air() > 50);
}

#[test]
fn smoltcp_downloads_over_lte() {
    let network = lte().load().unwrap();
    for control in [CongestionControl::Reno, CongestionControl::Cubic] {
        let (run, took) = by_smoltcp(&network, control);
        println!("smoltcp {control:?}: {took:?}");
        assert!(run.stack("mine").to_receiver.lost_on_air() > 50);
    }
}

#[test]
fn runs_repeat() {
    let network = lte().competitor("theirs", "cubic").load().unwrap();
    let (first, second) = (by_quinn(&network, 3), by_quinn(&network, 3));
    assert!(first.0.stacks == second.0.stacks, "quinn");
    assert!(first.0.to_json() == second.0.to_json());
    let control = CongestionControl::Cubic;
    let (first, second) = (by_smoltcp(&network, control), by_smoltcp(&network, control));
    assert!(first.0.stacks == second.0.stacks, "smoltcp");
}
