//! What of a gateway this machine can do.

use std::fs;
use std::io;

use super::queue::Queue;
use super::rules::{self, Match, Rules};
use crate::place::abilities::Ability;
use crate::place::namespace::Namespace;

/// Tries what a gateway needs: the kernel's part in a namespace that vanishes at once.
pub fn abilities() -> Vec<Ability> {
    let missing = |result: io::Result<()>| result.err().map(|e| e.to_string());
    let kernel = Namespace::with(try_rules).map(|_| ());
    let tables = rules::flow_tables();
    let rights = tables.as_ref().err().map(|e| format!("{e}: run as root"));
    let around = tables.ok().filter(|tables| !tables.is_empty()).map(|tables| {
        format!(
            "packets of connections in a flow table ({}) go past lasthop: exempt them there, or \
             switch flow offloading off",
            tables.join(", ")
        )
    });
    let ability = |name, purpose, missing, required| Ability { name, purpose, missing, required };
    vec![
        ability(
            "queues",
            "packet queues and rules (nfnetlink_queue, nf_tables)",
            missing(kernel),
            true,
        ),
        ability("rights", "the rules of this machine", rights, true),
        ability("forwarding", "forwarding of packets", not_forwarding(), true),
        ability("no_offload", "no flow offloading", around, false),
    ]
}

/// Whether the kernel gives a queue and takes the rules, tried with the loopback device.
fn try_rules() -> io::Result<()> {
    let queue = Queue::open()?;
    let matched = Match { wireless: "lo".into(), wired: None };
    Rules::install(&matched, queue.number())?.arm(rules::OF_RELAYS)
}

/// Why this machine forwards nothing.
fn not_forwarding() -> Option<String> {
    let settings = ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];
    let is_on = |path: &&str| fs::read_to_string(path).is_ok_and(|text| text.trim() != "0");
    (!settings.iter().any(is_on))
        .then(|| "switched off (sysctl -w net.ipv4.ip_forward=1 makes this a router)".to_string())
}
