//! What a replay reports.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

/// Counts of a replay. Packets are those of the interface that was replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Version of lasthop.
    pub lasthop: &'static str,
    /// Label of the scheme.
    pub scheme: String,
    /// The interface that was replayed; empty if it has no name.
    pub interface: String,
    /// The mobile's address or prefix.
    pub mobile: String,
    /// Packets read.
    pub packets: u64,
    /// Packets of other interfaces, which were not looked at.
    pub other_interfaces: u64,
    /// Packets shown to the agent: TCP to or from the mobile.
    pub tcp: u64,
    /// Of those, packets of which the capture holds only the beginning.
    pub cut_short: u64,
    /// Connections seen.
    pub flows: u64,
    /// Connections that had to be forgotten for others while they were open.
    pub flows_evicted: u64,
    /// Packets that went on without being shown to the agent, by reason.
    pub untouched: BTreeMap<&'static str, u64>,
    /// Packets that the agent let go on as they were.
    pub forwarded: u64,
    /// Packets that the agent changed.
    pub rewritten: u64,
    /// Packets that the agent took into its custody.
    pub kept: u64,
    /// Packets that the agent dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets that the agent sent: again, or made by it.
    pub injected: u64,
    /// Packets that the agent wanted to send but for which there were neither bytes nor a
    /// connection.
    pub not_injected: u64,
    /// Packets written.
    pub written: u64,
    /// The agent's own counters, in its order.
    #[serde(serialize_with = "as_map")]
    pub agent: Vec<(&'static str, u64)>,
    /// What to bear in mind.
    pub notes: Vec<String>,
}

/// Said in every summary.
pub const NOTE: &str = "the endpoints do not react: the capture shows what they sent without this \
                        agent (or with the one that was there), not what they would have sent";

fn as_map<S: Serializer>(pairs: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().copied())
}

/// Adds one to the count of `reason`.
pub(crate) fn count(counts: &mut BTreeMap<&'static str, u64>, reason: &'static str) {
    *counts.entry(reason).or_default() += 1;
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons = |counts: &BTreeMap<&str, u64>| {
            let total: u64 = counts.values().sum();
            let list: Vec<String> =
                counts.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
            if list.is_empty() {
                total.to_string()
            } else {
                format!("{total} ({})", list.join(", "))
            }
        };
        writeln!(f, "{} on interface {:?}, mobile {}", self.scheme, self.interface, self.mobile)?;
        writeln!(
            f,
            "  packets read        {} ({} more on other interfaces)",
            self.packets, self.other_interfaces
        )?;
        writeln!(f, "  shown to the agent  {} TCP packets of {} flows", self.tcp, self.flows)?;
        writeln!(f, "  passed untouched    {}", reasons(&self.untouched))?;
        writeln!(
            f,
            "  forwarded           {} as they were, {} rewritten, {} kept",
            self.forwarded, self.rewritten, self.kept
        )?;
        writeln!(f, "  dropped             {}", reasons(&self.dropped))?;
        writeln!(f, "  injected            {}", self.injected)?;
        writeln!(f, "  packets written     {}", self.written)?;
        for (name, value) in &self.agent {
            writeln!(f, "  agent: {name} = {value}")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}
