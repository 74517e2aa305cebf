//! Live links: arbitrary packets enter a chain at both ends.

use std::path::Path;
use std::sync::LazyLock;

use lasthop::scenario::network::Network;
use lasthop::scenario::{Files, Overrides, load};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::units::Time;
use lasthop_live::chain::{Chain, End};

use crate::input::Input;

/// Every scheme with an agent that can run on real packets, or none.
static SCHEMES: LazyLock<Vec<Option<SchemeChoice>>> = LazyLock::new(|| {
    let names = ["snoop", "packet-control", "ack-pacing", "rate-control", "ll-elsn", "snack-snoop"];
    let choice = |name: &str| SchemeChoice::parse(name).expect("a scheme");
    std::iter::once(None).chain(names.map(|name| Some(choice(name)))).collect()
});

/// A lossy link, one with a queue that marks, one with retransmission and an outage.
static NETWORKS: LazyLock<Vec<Network>> = LazyLock::new(|| {
    let last_hops = [
        "loss = '10 %'",
        "queue = { discipline = 'red', packets = 9, ecn = true }",
        "loss = '5 %', arq = { kind = 'selective-repeat' }, \
         outage = { from = '50 ms', length = '50 ms' }",
    ];
    let network = |last_hop: &str| {
        let text = format!("last_hop = {{ rate = '5 Mbps', rtt = '10 ms', {last_hop} }}");
        load(&text, None, &Overrides::default(), &NoFiles).expect("a scenario").network
    };
    last_hops.map(network).into()
});

struct NoFiles;

impl Files for NoFiles {
    fn open(&self, _: &Path) -> std::io::Result<Box<dyn std::io::Read>> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

/// The first bytes select scheme and network; then each packet has two bytes of time, one of its
/// end and template, and its bytes.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let scheme = input.choose(&SCHEMES).clone();
    let network = input.choose(&NETWORKS);
    let mut chain = Chain::new(network, scheme.as_ref(), 1).expect("a chain");
    packets(&mut chain, &mut input);
}

fn packets(chain: &mut Chain, input: &mut Input<'_>) {
    let (mut now, mut latest, mut out) = (Time::ZERO, Time::ZERO, Vec::new());
    let (mut entered, mut left) = (0_u64, 0_u64);
    while !input.is_empty() && entered < 64 {
        // The clock may also stand still or step back.
        let step = u64::from(input.value::<u16>());
        now = if step == u64::from(u16::MAX) { Time(now.0 / 2) } else { Time(now.0 + step * 1000) };
        let flags: u8 = input.value();
        let end = if flags & 1 == 0 { End::Server } else { End::Mobile };
        let length = usize::from(input.value::<u8>());
        let bytes = packet(flags, input.bytes(length));
        chain.packet(now, end, &bytes, &mut out);
        entered += 1;
        latest = latest.max(now);
        left += check(&mut out, latest);
    }
    // Agents give up within minutes; queues are empty long before.
    latest = Time(latest.0 + 1_000_000_000_000);
    chain.step(latest, &mut out);
    left += check(&mut out, latest);
    assert_eq!(chain.in_flight(), 0, "a packet has no next event");
    assert_eq!(chain.packets(), entered);
    // Agents retransmit a segment a bounded number of times.
    assert!(left <= 64 * entered, "{left} packets left for {entered} that entered");
}

/// Bytes as they are, or behind a valid IPv4 and TCP header of one of four connections.
fn packet(flags: u8, bytes: &[u8]) -> Vec<u8> {
    if flags & 2 == 0 {
        return bytes.to_vec();
    }
    let (server, mobile) = ([10, 0, 0, 1, 0, 80 + (flags >> 2 & 3)], [10, 9, 0, 2, 20, 0]);
    let (from, to) = if flags & 1 == 0 { (server, mobile) } else { (mobile, server) };
    let total = (40 + bytes.len().saturating_sub(13)) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
    packet.splice(2..4, total.to_be_bytes());
    packet.extend([&from[..4], &to[..4], &from[4..], &to[4..]].concat());
    // Sequence number, acknowledgment number, flags, window, and the payload.
    let mut rest = bytes.iter().copied().chain(std::iter::repeat(0));
    packet.extend(rest.by_ref().take(8).map(|b| b & 0x1f));
    packet.push(0x50);
    packet.extend(rest.by_ref().take(3));
    packet.extend([0; 4]);
    packet.extend(bytes.iter().skip(13));
    packet
}

/// Packets that left, none of them after the present time.
fn check(out: &mut Vec<lasthop_live::chain::Release>, now: Time) -> u64 {
    assert!(out.iter().all(|r| r.due <= now && r.entered <= r.due));
    out.drain(..).count() as u64
}
