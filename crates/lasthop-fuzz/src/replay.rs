//! Replays: the catalogue's agents run on arbitrary captures.

use std::sync::LazyLock;

use lasthop::schemes::catalogue::{SchemeChoice, all};
use lasthop_live::{Prefix, ReplayOptions, replay};

use crate::capture;
use crate::input::Input;

/// Every scheme with an agent that can replay packets.
static SCHEMES: LazyLock<Vec<SchemeChoice>> = LazyLock::new(|| {
    let with_agent = all().into_iter().filter(|s| s.agent().is_some() && s.relay().is_none());
    with_agent.map(|scheme| SchemeChoice { label: scheme.name().to_string(), scheme }).collect()
});

const MOBILES: [&str; 8] = [
    "0.0.0.0/0",
    "::/0",
    "10.9.0.2",
    "10.0.0.0/8",
    "0.0.0.0/1",
    "192.168.0.0/16",
    "2001:db8::/32",
    "8000::/1",
];

/// The first two bytes select scheme and mobile, the rest is a capture.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let scheme = input.choose(&SCHEMES).clone();
    let mobile: Prefix = input.choose(&MOBILES).parse().expect("a prefix");
    let mut output = Vec::new();
    let options = ReplayOptions { mobile, scheme, interface: None };
    let summary = match replay(input.rest(), &mut output, &options) {
        Ok(summary) => summary,
        Err(error) => return crate::check_message(&error.to_string()),
    };
    let dropped: u64 = summary.dropped.values().sum();
    let untouched: u64 = summary.untouched.values().sum();
    assert_eq!(summary.packets, summary.tcp + untouched);
    assert_eq!(summary.tcp, summary.forwarded + summary.rewritten + summary.kept + dropped);
    assert_eq!(
        summary.written,
        untouched + summary.forwarded + summary.rewritten + summary.injected
    );
    let (_, packets) = capture::read(output.as_slice());
    let packets = packets.expect("the output is a capture");
    assert_eq!(packets.len() as u64, summary.written);
    assert!(packets.is_sorted_by_key(|p| p.time), "the output is not sorted by time");
}
