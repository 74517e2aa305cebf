//! What a gateway has done.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::rules::Match;
use super::tally::Tally;

/// Times when packets passed a process that did not go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stopped {
    /// How often it was stopped, or had no processor, for longer than the rules last.
    pub times: u64,
    /// Packets that waited in the queue meanwhile, or at the end, and that the agent was not shown.
    pub unread: u64,
}

/// Counters of a gateway. A packet that the kernel still had to segment counts as one packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Version of lasthop.
    pub lasthop: &'static str,
    /// Label of the scheme.
    pub scheme: String,
    /// Interface to the mobiles.
    pub wireless: String,
    /// Interface to the fixed network; `None`: any.
    pub wired: Option<String>,
    /// Time since the start, s.
    pub duration_s: f64,
    /// Packets read from the queue, but those of `stopped`.
    pub packets: u64,
    /// Segments shown to the agent; a packet may have several.
    pub shown: u64,
    /// Packets forwarded without passing the agent, by reason.
    pub untouched: BTreeMap<&'static str, u64>,
    /// Packets that the kernel forwarded without asking, because the queue was full; `None` if the
    /// rules could not be read. Packets in the queue at this time count, too.
    pub bypassed: Option<u64>,
    /// Times when this process was stopped.
    pub stopped: Stopped,
    /// Segments that the agent changed.
    pub rewritten: u64,
    /// Segments that the agent held.
    pub kept: u64,
    /// Segments that the agent dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets that lasthop sent: retransmissions, held packets, packets that the agent made, and
    /// parts of a packet of which the agent did not forward all.
    pub injected: u64,
    /// Packets that could not be made or that the kernel did not take.
    pub not_injected: u64,
    /// Packets that the agent keeps now.
    pub stored: u64,
    /// Connections in the table now, seen, and removed because it was full.
    pub connections: u64,
    /// Connections seen.
    pub connections_seen: u64,
    /// Connections removed because the table was full.
    pub connections_evicted: u64,
    /// Counters of the agent, in the order it reports them.
    #[serde(serialize_with = "as_map")]
    pub agent: Vec<(&'static str, u64)>,
    /// In a report that was asked for: connections that are divided now, at most [`LISTED`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub divided: Vec<Divided>,
}

/// Connections that a report lists.
pub const LISTED: usize = 1000;

/// A connection that ends here, in both halves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Divided {
    /// Address and port of the mobile.
    pub mobile: SocketAddr,
    /// Address and port of the server.
    pub server: SocketAddr,
    /// State of the end towards the mobile, by RFC 9293.
    pub to_mobile: &'static str,
    /// State of the end towards the server; `None` if it has ended.
    pub to_server: Option<&'static str>,
    /// Bytes of the server that the mobile has not acknowledged.
    pub held: u64,
    /// Of them, those in flight.
    pub in_flight: u64,
    /// Smallest round-trip time to the mobile, s.
    pub min_rtt_s: Option<f64>,
}

impl Report {
    pub(super) fn new(
        (scheme, matched): (&str, &Match),
        tally: Tally,
        duration: Duration,
        (stopped, bypassed, refused): (Stopped, Option<u64>, u64),
    ) -> Report {
        let counts = tally.counts;
        Report {
            lasthop: env!("CARGO_PKG_VERSION"),
            scheme: scheme.to_string(),
            wireless: matched.wireless.clone(),
            wired: matched.wired.clone(),
            duration_s: duration.as_secs_f64(),
            packets: counts.packets,
            shown: counts.shown,
            untouched: counts.untouched,
            bypassed,
            stopped,
            rewritten: tally.rewritten,
            kept: tally.kept,
            dropped: tally.dropped,
            injected: counts.injected - refused,
            not_injected: counts.not_injected + refused,
            stored: tally.stored,
            connections: tally.connections,
            connections_seen: tally.seen,
            connections_evicted: tally.evicted,
            agent: tally.agent,
            divided: Vec::new(),
        }
    }

    /// The state in one line.
    pub fn line(&self) -> String {
        let agent: Vec<String> = self.agent.iter().map(|(k, n)| format!("{k} {n}")).collect();
        format!(
            "gateway {:.0} s: {} connections, {} packets, {} shown, {} bypassed, {} dropped, {} \
             sent, {} kept; {}",
            self.duration_s,
            self.connections,
            self.packets,
            self.shown,
            self.bypassed.map_or("?".to_string(), |n| n.to_string()),
            self.dropped.values().sum::<u64>(),
            self.injected,
            self.stored,
            agent.join(", ").replace('_', " "),
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |counts: &BTreeMap<&str, u64>| {
            let parts: Vec<String> = counts.iter().map(|(k, n)| format!("{n} {k}")).collect();
            if parts.is_empty() { "none".to_string() } else { parts.join(", ") }
        };
        let agent: Vec<String> = self.agent.iter().map(|(k, n)| format!("{k} {n}")).collect();
        writeln!(f, "gateway {}, scheme {}, {:.1} s", self.wireless, self.scheme, self.duration_s)?;
        writeln!(
            f,
            "{} packets, {} segments shown to the agent; of {} connections, {} removed because the \
             table was full",
            self.packets, self.shown, self.connections_seen, self.connections_evicted
        )?;
        writeln!(f, "not shown: {}", list(&self.untouched))?;
        let bypassed = self.bypassed.map_or("unknown".to_string(), |n| n.to_string());
        writeln!(f, "passed while the queue was full: {bypassed}")?;
        if self.stopped.times > 0 {
            writeln!(
                f,
                "stopped {} times for a second or longer; {} packets waited meanwhile",
                self.stopped.times, self.stopped.unread
            )?;
        }
        writeln!(
            f,
            "changed {}, held {}, sent {} (not sent: {}); dropped: {}",
            self.rewritten,
            self.kept,
            self.injected,
            self.not_injected,
            list(&self.dropped)
        )?;
        write!(f, "agent {}: {}", self.scheme, agent.join(", ").replace('_', " "))?;
        for c in &self.divided {
            write!(
                f,
                "\n{} {}, {} {}: {} bytes held, {} in flight, RTT {}",
                c.mobile,
                c.to_mobile,
                c.server,
                c.to_server.unwrap_or("ended"),
                c.held,
                c.in_flight,
                c.min_rtt_s.map_or("unknown".into(), |s| format!("{:.1} ms", s * 1e3)),
            )?;
        }
        Ok(())
    }
}

fn as_map<S: Serializer>(
    counters: &[(&'static str, u64)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counters.iter().copied())
}
