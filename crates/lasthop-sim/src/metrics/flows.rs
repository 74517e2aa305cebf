//! Metrics of some flows of a run: of a group, of those with a role.

use serde_json::json;

use super::ratios::{mean, share};
use crate::probes::limits::LimitShares;
use crate::probes::requests::RequestResult;
use crate::probes::result::{FlowResult, RunResult, VideoResult};

/// Which flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// All flows.
    All,
    /// Those of a `[[flow]]` entry.
    Group(String),
    /// Those with a role.
    Role(String),
}

impl Members {
    /// `groups.NAME.KEY` or `roles.ROLE.KEY`, and the key. Only the name of a group may have dots.
    pub(super) fn split(metric: &str) -> Option<(Members, &str)> {
        let (kind, rest) = metric.split_once('.')?;
        match kind {
            "groups" => rest.rsplit_once('.').map(|(name, key)| (Members::Group(name.into()), key)),
            "roles" => rest.split_once('.').map(|(role, key)| (Members::Role(role.into()), key)),
            _ => None,
        }
    }

    fn have(&self, flow: &FlowResult) -> bool {
        match self {
            Members::All => true,
            Members::Group(name) => flow.group == *name,
            Members::Role(role) => json!(flow.role) == *role,
        }
    }

    /// The groups of a run in the order of its flows, then its roles: `groups.NAME`, `roles.ROLE`.
    pub fn names(run: &RunResult) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let groups = run.flows.iter().map(|f| format!("groups.{}", f.group));
        let role = |f: &FlowResult| json!(f.role).as_str().map(|role| format!("roles.{role}"));
        for name in groups.chain(run.flows.iter().filter_map(role)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// Some flows of a run.
#[derive(Debug)]
pub struct Flows<'a> {
    run: &'a RunResult,
    list: Vec<&'a FlowResult>,
    is_part: bool,
}

/// A metric of some flows; `None` if unknown.
pub type FlowMetric = fn(&Flows<'_>) -> Option<f64>;

/// A metric, which is a column of results, with its texts.
#[derive(Debug)]
pub struct Column {
    /// Its name, which ends in the unit.
    pub name: &'static str,
    /// The label of an axis, with the unit that readers see.
    pub label: &'static str,
    /// Factor from the unit of the name to that of the label.
    pub factor: f64,
    /// What it means.
    pub about: &'static str,
    /// It is at most 1, in the unit of the name.
    pub is_share: bool,
    /// Its value.
    pub value: FlowMetric,
}

impl Column {
    /// A metric without an upper bound.
    pub const fn new(
        name: &'static str,
        label: &'static str,
        factor: f64,
        about: &'static str,
        value: FlowMetric,
    ) -> Column {
        Column { name, label, factor, about, is_share: false, value }
    }

    /// The same, at most 1.
    #[must_use]
    pub const fn of_one(self) -> Column {
        Column { is_share: true, ..self }
    }
}

impl<'a> Flows<'a> {
    /// These flows of a run.
    pub fn of(run: &'a RunResult, members: &Members) -> Flows<'a> {
        let list = run.flows.iter().filter(|f| members.have(f)).collect();
        Flows { run, list, is_part: *members != Members::All }
    }

    /// The run.
    pub(super) fn run(&self) -> &'a RunResult {
        self.run
    }

    /// True for a group or role that the run does not have.
    pub(super) fn is_missing(&self) -> bool {
        self.is_part && self.list.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'a FlowResult> {
        self.list.iter().copied()
    }

    pub(super) fn sum(&self, count: fn(&FlowResult) -> u64) -> f64 {
        self.iter().map(count).sum::<u64>() as f64
    }

    pub(super) fn delivered(&self) -> f64 {
        self.sum(|f| f.delivered_bytes)
    }

    /// In-order payload divided by the measured time, bit/s.
    pub(super) fn goodput(&self) -> Option<f64> {
        share(self.delivered() * 8.0, self.run.measured_s)
    }

    /// The largest of the known values.
    pub(super) fn largest(&self, value: fn(&FlowResult) -> Option<f64>) -> Option<f64> {
        self.iter().filter_map(value).reduce(f64::max)
    }

    /// The goodput of the bulk flow that has the least.
    pub(super) fn slowest(&self) -> Option<f64> {
        self.iter().filter(|f| f.app == "bulk").map(goodput_of).reduce(f64::min)
    }

    /// Jain's fairness index (Σx)² / (n Σx²) of the bulk flows' goodputs; unknown if all are 0.
    pub(super) fn jain(&self, at_least: usize) -> Option<f64> {
        let bulk: Vec<f64> = self.iter().filter(|f| f.app == "bulk").map(goodput_of).collect();
        if bulk.len() < at_least {
            return None;
        }
        let (sum, squares) = bulk.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
        share(sum * sum, bulk.len() as f64 * squares)
    }

    /// Mean share of time of a limit, over the flows that report it.
    pub(super) fn limited_by(&self, limit: fn(&LimitShares) -> f64) -> Option<f64> {
        mean(self.iter().filter_map(|f| f.limited_by.as_ref()).map(limit))
    }

    /// The finite transfers. A Poisson process without an arrival in the run has one that has not
    /// started.
    fn transfers(&self) -> impl Iterator<Item = &'a FlowResult> {
        let end = self.run.duration_s;
        let arrived = move |f: &&FlowResult| f.arrived_s.unwrap_or(0.0) < end;
        self.iter().filter(|f| f.app == "transfer").filter(arrived)
    }

    /// Completion times; an incomplete transfer takes longer than every complete one.
    fn completed(&self, share: f64) -> Option<f64> {
        quantile(self.transfers().map(|f| f.completed_s.unwrap_or(f64::INFINITY)), share)
    }

    /// Completion time divided by that on the empty path.
    fn slowdown(&self, share: f64) -> Option<f64> {
        let of = |f: &FlowResult| match (f.empty_path_s, f.completed_s) {
            (Some(ideal), Some(done)) if ideal != 0.0 => done / ideal,
            _ => f64::INFINITY,
        };
        quantile(self.transfers().map(of), share)
    }

    /// Page load times of the clicks of these groups that took place; an incomplete page is the
    /// longest.
    fn click(&self, share: f64) -> Option<f64> {
        // A session has the name of its group, or that name with a number; the name of one group
        // may begin with that of another.
        let owner = |id: &str| {
            let begins = |group: &str| id.strip_prefix(group).is_some_and(|x| x.starts_with(' '));
            let all = self.run.flows.iter().map(|f| f.group.as_str());
            all.filter(|group| begins(group)).max_by_key(|group| group.len())
        };
        let own = |id: &str| owner(id).is_some_and(|o| self.iter().any(|f| f.group == o));
        let clicks = self.run.clicks.iter().filter(|c| c.at_s.is_some() && own(&c.id));
        quantile(clicks.map(|c| c.completed_s.unwrap_or(f64::INFINITY)), share)
    }

    /// The clients of request and response; a video is none.
    fn clients(&self) -> impl Iterator<Item = &'a RequestResult> {
        self.iter().filter(|f| f.video.is_none()).filter_map(|f| f.requests.as_deref())
    }

    fn response(&self, time: fn(&RequestResult) -> Option<f64>) -> Option<f64> {
        self.clients().filter_map(time).reduce(f64::max)
    }

    fn videos(&self) -> impl Iterator<Item = VideoResult> {
        self.iter().filter_map(|f| f.video)
    }

    /// Sum over the videos; unknown without one.
    fn of_videos(&self, value: fn(&VideoResult) -> f64) -> Option<f64> {
        self.videos().map(|v| value(&v)).reduce(|a, b| a + b)
    }

    /// The longest start-up delay; unknown if a video has not started.
    fn startup(&self) -> Option<f64> {
        let all: Option<Vec<f64>> = self.videos().map(|v| v.startup_s).collect();
        all?.into_iter().reduce(f64::max)
    }

    /// Share of the time since the start of the playback in stalls.
    fn rebuffer_ratio(&self) -> Option<f64> {
        share(self.of_videos(|v| v.stalled_s)?, self.of_videos(|v| v.stalled_s + v.played_s)?)
    }

    /// Mean bitrate over the play time.
    fn bitrate(&self) -> Option<f64> {
        let bits = self.of_videos(|v| v.bitrate_bps.unwrap_or(0.0) * v.played_s)?;
        share(bits, self.of_videos(|v| v.played_s)?)
    }

    fn late_or_lost(&self) -> Option<f64> {
        let calls = || self.iter().filter_map(|f| f.call.as_ref());
        let missing: u64 = calls().map(|c| c.late + c.lost).sum();
        share(missing as f64, calls().map(|c| c.sent).sum::<u64>() as f64)
    }

    fn late_frames(&self) -> Option<f64> {
        let media = || self.iter().filter_map(|f| f.frames.as_ref());
        let missing: u64 = media().map(|m| m.late + m.lost).sum();
        share(missing as f64, media().map(|m| m.sent).sum::<u64>() as f64)
    }
}

fn goodput_of(flow: &FlowResult) -> f64 {
    if flow.goodput_bps.is_finite() { flow.goodput_bps } else { 0.0 }
}

/// The smallest value that `share` of the values do not exceed; unknown if it is infinite.
fn quantile(values: impl Iterator<Item = f64>, share: f64) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    let rank = libm::ceil(share * values.len() as f64 - 1e-9).max(1.0) as usize;
    if rank > values.len() {
        return None;
    }
    let (_, found, _) = values.select_nth_unstable_by(rank - 1, f64::total_cmp);
    Some(*found).filter(|v| v.is_finite())
}

/// The column of a limit: its share of time, and its name in the label.
macro_rules! limited_by {
    ($limit:ident, $name:literal) => {
        Column::new(
            concat!("limited_by_", stringify!($limit)),
            concat!("share of time limited by ", $name),
            1.0,
            "mean over its flows",
            |f| f.limited_by(|s| s.$limit),
        )
    };
}

/// Metrics of a group of flows, and of the flows with a role.
pub static METRICS: &[Column] = &[
    Column::new(
        "goodput_bps",
        "goodput (kbit/s)",
        1e-3,
        "in-order payload of its flows divided by the measured time",
        |f| f.goodput(),
    ),
    Column::new(
        "goodput_share",
        "share of the goodput (%)",
        1e2,
        "relative to the goodput of all flows",
        |f| share(f.delivered(), Flows::of(f.run, &Members::All).delivered()),
    )
    .of_one(),
    Column::new(
        "flow_goodput_bps_mean",
        "goodput per flow (kbit/s)",
        1e-3,
        "mean over its flows; each flow over its active time",
        |f| mean(f.iter().map(goodput_of)),
    ),
    Column::new(
        "jain",
        "Jain's fairness index",
        1.0,
        "over the goodputs of its bulk flows, if several",
        |f| f.jain(2),
    )
    .of_one(),
    Column::new(
        "one_way_delay_s_mean",
        "one-way delay, mean (ms)",
        1e3,
        "maximum over its flows",
        |f| f.largest(|f| f.one_way_delay_s.mean),
    ),
    Column::new(
        "one_way_delay_s_p95",
        "one-way delay, 95th percentile (ms)",
        1e3,
        "maximum over its flows",
        |f| f.largest(|f| f.one_way_delay_s.p95),
    ),
    Column::new(
        "one_way_delay_s_p99",
        "one-way delay, 99th percentile (ms)",
        1e3,
        "maximum over its flows",
        |f| f.largest(|f| f.one_way_delay_s.p99),
    ),
    Column::new("rtt_s_p95", "RTT, 95th percentile (ms)", 1e3, "maximum over its flows", |f| {
        f.largest(|f| f.rtt_s.p95)
    }),
    Column::new(
        "retransmissions",
        "retransmissions",
        1.0,
        "retransmitted segments of its flows",
        |f| Some(f.sum(|f| f.retransmissions.total)),
    ),
    Column::new("timeouts", "timeouts", 1.0, "retransmission timeouts (RTO) of its flows", |f| {
        Some(f.sum(|f| f.timeouts.total))
    }),
    Column::new(
        "completed_share",
        "share of the transfers completed (%)",
        1e2,
        "unknown without finite transfers",
        |f| mean(f.transfers().map(|t| f64::from(t.completed_s.is_some()))),
    )
    .of_one(),
    Column::new(
        "completed_s_p50",
        "completion time, median (s)",
        1.0,
        "over its finite transfers; unknown if fewer than half are complete",
        |f| f.completed(0.5),
    ),
    Column::new(
        "completed_s_p95",
        "completion time, 95th percentile (s)",
        1.0,
        "over its finite transfers; unknown if fewer than 95 % are complete",
        |f| f.completed(0.95),
    ),
    Column::new(
        "completed_s_p99",
        "completion time, 99th percentile (s)",
        1.0,
        "over its finite transfers; unknown if fewer than 99 % are complete",
        |f| f.completed(0.99),
    ),
    Column::new(
        "slowdown_p50",
        "slowdown, median",
        1.0,
        "completion time divided by that on the empty path, over its finite transfers",
        |f| f.slowdown(0.5),
    ),
    Column::new(
        "slowdown_p95",
        "slowdown, 95th percentile",
        1.0,
        "completion time divided by that on the empty path, over its finite transfers",
        |f| f.slowdown(0.95),
    ),
    Column::new(
        "slowdown_p99",
        "slowdown, 99th percentile",
        1.0,
        "completion time divided by that on the empty path, over its finite transfers",
        |f| f.slowdown(0.99),
    ),
    Column::new(
        "click_s_p50",
        "page load time, median (s)",
        1.0,
        "from a click to the last byte of its page; an incomplete page is the longest",
        |f| f.click(0.5),
    ),
    Column::new(
        "click_s_p95",
        "page load time, 95th percentile (s)",
        1.0,
        "from a click to the last byte of its page; an incomplete page is the longest",
        |f| f.click(0.95),
    ),
    Column::new("rtt_s_p50", "RTT, median (ms)", 1e3, "maximum over its flows", |f| {
        f.largest(|f| f.rtt_s.p50)
    }),
    Column::new(
        "rtt_increase_s_p95",
        "RTT above that of the empty path, 95th percentile (ms)",
        1e3,
        "latency under load; maximum over its pings",
        |f| {
            f.largest(|f| if f.app == "ping" { Some(f.rtt_s.p95? - f.empty_path_s?) } else { None })
        },
    ),
    Column::new(
        "late_or_lost_share",
        "packets late or lost (%)",
        1e2,
        "packets of its calls that do not arrive within the deadline",
        |f| f.late_or_lost(),
    )
    .of_one(),
    Column::new(
        "mos",
        "mean opinion score",
        1.0,
        "E-model for G.711 with play-out at the deadline; minimum over its calls",
        |f| f.iter().filter_map(|f| f.call.as_ref()?.mos).reduce(f64::min),
    ),
    Column::new(
        "late_frames_share",
        "frames late or lost (%)",
        1e2,
        "frames of its media that are not complete within the deadline",
        |f| f.late_frames(),
    )
    .of_one(),
    Column::new(
        "response_s_p50",
        "response time, median (ms)",
        1e3,
        "from a request to the last byte of the response; maximum over its clients",
        |f| f.response(|r| r.response_s.p50),
    ),
    Column::new(
        "response_s_p95",
        "response time, 95th percentile (ms)",
        1e3,
        "from a request to the last byte of the response; maximum over its clients",
        |f| f.response(|r| r.response_s.p95),
    ),
    Column::new(
        "response_s_p99",
        "response time, 99th percentile (ms)",
        1e3,
        "from a request to the last byte of the response; maximum over its clients",
        |f| f.response(|r| r.response_s.p99),
    ),
    Column::new("responses_per_s", "responses per second", 1.0, "sum over its clients", |f| {
        f.clients().map(|r| r.answered_per_s).reduce(|a, b| a + b)
    }),
    Column::new(
        "startup_s",
        "start-up delay (s)",
        1.0,
        "from the first request of a video to its first picture; maximum over its videos",
        |f| f.startup(),
    ),
    Column::new("stalls", "stalls", 1.0, "of its videos, without the start-up", |f| {
        f.of_videos(|v| v.stalls as f64)
    }),
    Column::new(
        "stalled_s",
        "rebuffering time (s)",
        1.0,
        "time in stalls, sum over its videos",
        |f| f.of_videos(|v| v.stalled_s),
    ),
    Column::new(
        "rebuffer_ratio",
        "rebuffering ratio (%)",
        1e2,
        "share of the time since the start of the playback in stalls, over its videos",
        |f| f.rebuffer_ratio(),
    )
    .of_one(),
    Column::new(
        "bitrate_bps",
        "bitrate played (kbit/s)",
        1e-3,
        "mean over the play time of its videos",
        |f| f.bitrate(),
    ),
    Column::new(
        "bitrate_switches",
        "bitrate switches",
        1.0,
        "chunks with another bitrate than the one before, sum over its videos",
        |f| f.of_videos(|v| v.switches as f64),
    ),
    limited_by!(cwnd, "cwnd"),
    limited_by!(pacing, "pacing"),
    limited_by!(receive_window, "receive window"),
    limited_by!(send_buffer, "send buffer"),
    limited_by!(application, "application"),
    limited_by!(relay_buffer, "relay buffer"),
    limited_by!(agent_cache, "agent cache"),
    limited_by!(handshake, "handshake"),
    limited_by!(outage, "link outage"),
];

/// Harm to some flows by the candidates (Ware et al., Beyond Jain's Fairness Index, HotNets 2019).
#[derive(Debug)]
pub struct Harm {
    /// Key of the metric.
    pub name: &'static str,
    /// What is compared with the run without the candidates, in words.
    pub of: &'static str,
    /// The same as a metric.
    pub metric: FlowMetric,
    /// True if more of it is better.
    pub more_is_better: bool,
}

impl Harm {
    /// The share of the better of the two values that is lost: 0 for no harm, 1 for a total loss,
    /// negative for a gain; unknown if a value is unknown.
    pub fn of(&self, alone: Option<f64>, beside: Option<f64>) -> Option<f64> {
        let (alone, beside) = (alone?, beside?);
        if self.more_is_better {
            share(alone - beside, alone)
        } else {
            share(beside - alone, beside)
        }
    }
}

/// The kinds of harm.
pub static HARM: &[Harm] = &[
    Harm { name: "harm_goodput", of: "goodput", metric: |f| f.goodput(), more_is_better: true },
    Harm {
        name: "harm_delay",
        of: "one-way delay, p95",
        metric: |f| f.largest(|f| f.one_way_delay_s.p95),
        more_is_better: false,
    },
    Harm {
        name: "harm_completion",
        of: "completion time, p95",
        metric: |f| f.completed(0.95),
        more_is_better: false,
    },
];
