//! The report of a replay.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

/// Counters of a replay. Unless noted, they count packets of the replayed interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Version of lasthop that made the replay.
    pub lasthop: &'static str,
    /// Label of the scheme.
    pub scheme: String,
    /// Name of the replayed interface; empty if the capture has no interfaces.
    pub interface: String,
    /// The mobile's address or prefix.
    pub mobile: String,
    /// Packets read.
    pub packets: u64,
    /// Packets of other interfaces; they are ignored.
    pub other_interfaces: u64,
    /// Reports of links passed to the agent.
    #[serde(skip_serializing_if = "is_zero")]
    pub link_reports: u64,
    /// Packets processed by the agent: TCP to or from the mobile.
    pub tcp: u64,
    /// Packets of `tcp` that the capture truncated.
    pub cut_short: u64,
    /// Connections seen.
    pub flows: u64,
    /// Open connections removed because the flow table was full.
    pub flows_evicted: u64,
    /// Packets of `tcp` that were inside other protocols, by their names, outermost first.
    pub encapsulations: BTreeMap<String, u64>,
    /// Packets forwarded without passing the agent, by reason.
    pub untouched: BTreeMap<&'static str, u64>,
    /// Packets that the agent forwarded unchanged.
    pub forwarded: u64,
    /// Packets that the agent changed.
    pub rewritten: u64,
    /// Packets that the agent holds or held back
    /// ([`Verdict::Keep`](lasthop::agent::Verdict::Keep)).
    pub kept: u64,
    /// Packets that the agent dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets that the agent sent: retransmissions, held packets and packets it generated.
    pub injected: u64,
    /// Packets that the agent tried to send but whose payload or connection is unknown, and
    /// link-layer notices.
    pub not_injected: u64,
    /// Packets written to the output.
    pub written: u64,
    /// Counters of the agent, in the order it reports them.
    #[serde(serialize_with = "as_map")]
    pub agent: Vec<(&'static str, u64)>,
    /// Assumptions for what was not given, one sentence each.
    pub assumed: Vec<String>,
    /// Caveats about the replay, one sentence each.
    pub notes: Vec<String>,
    /// Why the agent was shown no packet; `None` if it was shown one.
    #[serde(skip)]
    pub nothing_shown: Option<String>,
}

/// The caveat that every summary contains.
pub const NOTE: &str = "the endpoints do not react: the capture shows what they sent when it was \
                        recorded, not what they would have sent with this agent";

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn as_map<S: Serializer>(pairs: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().copied())
}

/// Adds one to the count of `reason`.
pub(crate) fn count(counts: &mut BTreeMap<&'static str, u64>, reason: &'static str) {
    *counts.entry(reason).or_default() += 1;
}

/// The counts in one line: "39 GTP-U, 2 MPLS".
pub(crate) fn list<K: fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    counts.iter().map(|(key, n)| format!("{n} {key}")).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons = |counts: &BTreeMap<&str, u64>| {
            let total: u64 = counts.values().sum();
            match list(counts) {
                list if list.is_empty() => total.to_string(),
                list => format!("{total} ({list})"),
            }
        };
        writeln!(f, "{} on interface {:?}, mobile {}", self.scheme, self.interface, self.mobile)?;
        writeln!(
            f,
            "  packets read        {} ({} more on other interfaces)",
            self.packets, self.other_interfaces
        )?;
        let flows = if self.flows == 1 { "flow" } else { "flows" };
        writeln!(f, "  passed to the agent {} TCP packets of {} {flows}", self.tcp, self.flows)?;
        if self.link_reports > 0 {
            writeln!(f, "  reports of the link {}", self.link_reports)?;
        }
        if !self.encapsulations.is_empty() {
            writeln!(f, "  of these, inside    {}", list(&self.encapsulations))?;
        }
        writeln!(f, "  passed untouched    {}", reasons(&self.untouched))?;
        writeln!(
            f,
            "  forwarded           {} unchanged, {} rewritten, {} held",
            self.forwarded, self.rewritten, self.kept
        )?;
        writeln!(f, "  dropped             {}", reasons(&self.dropped))?;
        writeln!(f, "  injected            {}", self.injected)?;
        writeln!(f, "  packets written     {}", self.written)?;
        for (name, value) in &self.agent {
            writeln!(f, "  agent: {name} = {value}")?;
        }
        self.assumed.iter().try_for_each(|line| writeln!(f, "assumed: {line}"))?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}
