//! What a gateway counts.

use std::collections::BTreeMap;

/// What was counted of packets.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Packets given, those that the kernel still had to segment as one.
    pub packets: u64,
    /// Segments shown to the agent.
    pub shown: u64,
    /// Packets not shown to the agent, by reason.
    pub untouched: BTreeMap<&'static str, u64>,
    /// Packets that the agent sent: retransmissions, held packets and packets it generated.
    pub injected: u64,
    /// Packets that the agent wanted to send, but whose connection or bytes are unknown.
    pub not_injected: u64,
}

/// What an agent or the relays have done.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub counts: Counts,
    pub rewritten: u64,
    pub kept: u64,
    pub dropped: BTreeMap<&'static str, u64>,
    pub stored: u64,
    pub connections: u64,
    pub seen: u64,
    pub evicted: u64,
    pub agent: Vec<(&'static str, u64)>,
}
