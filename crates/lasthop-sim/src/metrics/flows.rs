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
        self.iter().filter(|f| f.video.is_none()).filter_map(|f| f.requests.as_ref())
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

/// Metrics of a group of flows, and of the flows with a role.
pub static METRICS: &[(&str, FlowMetric)] = &[
    ("goodput_bps", |f| f.goodput()),
    ("goodput_share", |f| share(f.delivered(), Flows::of(f.run, &Members::All).delivered())),
    ("flow_goodput_bps_mean", |f| mean(f.iter().map(goodput_of))),
    ("jain", |f| f.jain(2)),
    ("one_way_delay_s_mean", |f| f.largest(|f| f.one_way_delay_s.mean)),
    ("one_way_delay_s_p95", |f| f.largest(|f| f.one_way_delay_s.p95)),
    ("one_way_delay_s_p99", |f| f.largest(|f| f.one_way_delay_s.p99)),
    ("rtt_s_p95", |f| f.largest(|f| f.rtt_s.p95)),
    ("retransmissions", |f| Some(f.sum(|f| f.retransmissions.total))),
    ("timeouts", |f| Some(f.sum(|f| f.timeouts.total))),
    ("completed_share", |f| mean(f.transfers().map(|t| f64::from(t.completed_s.is_some())))),
    ("completed_s_p50", |f| f.completed(0.5)),
    ("completed_s_p95", |f| f.completed(0.95)),
    ("completed_s_p99", |f| f.completed(0.99)),
    ("slowdown_p50", |f| f.slowdown(0.5)),
    ("slowdown_p95", |f| f.slowdown(0.95)),
    ("slowdown_p99", |f| f.slowdown(0.99)),
    ("click_s_p50", |f| f.click(0.5)),
    ("click_s_p95", |f| f.click(0.95)),
    ("rtt_s_p50", |f| f.largest(|f| f.rtt_s.p50)),
    ("rtt_increase_s_p95", |f| {
        f.largest(|f| if f.app == "ping" { Some(f.rtt_s.p95? - f.empty_path_s?) } else { None })
    }),
    ("late_or_lost_share", |f| f.late_or_lost()),
    ("mos", |f| f.iter().filter_map(|f| f.call.as_ref()?.mos).reduce(f64::min)),
    ("response_s_p50", |f| f.response(|r| r.response_s.p50)),
    ("response_s_p95", |f| f.response(|r| r.response_s.p95)),
    ("response_s_p99", |f| f.response(|r| r.response_s.p99)),
    ("responses_per_s", |f| f.clients().map(|r| r.answered_per_s).reduce(|a, b| a + b)),
    ("startup_s", |f| f.startup()),
    ("stalls", |f| f.of_videos(|v| v.stalls as f64)),
    ("stalled_s", |f| f.of_videos(|v| v.stalled_s)),
    ("rebuffer_ratio", |f| f.rebuffer_ratio()),
    ("bitrate_bps", |f| f.bitrate()),
    ("bitrate_switches", |f| f.of_videos(|v| v.switches as f64)),
    ("limited_by_cwnd", |f| f.limited_by(|s| s.cwnd)),
    ("limited_by_pacing", |f| f.limited_by(|s| s.pacing)),
    ("limited_by_receive_window", |f| f.limited_by(|s| s.receive_window)),
    ("limited_by_send_buffer", |f| f.limited_by(|s| s.send_buffer)),
    ("limited_by_application", |f| f.limited_by(|s| s.application)),
    ("limited_by_relay_buffer", |f| f.limited_by(|s| s.relay_buffer)),
    ("limited_by_agent_cache", |f| f.limited_by(|s| s.agent_cache)),
    ("limited_by_handshake", |f| f.limited_by(|s| s.handshake)),
    ("limited_by_outage", |f| f.limited_by(|s| s.outage)),
];

/// Harm to some flows by the candidates (Ware et al., Beyond Jain's Fairness Index, HotNets 2019).
#[derive(Debug)]
pub struct Harm {
    /// Key of the metric.
    pub name: &'static str,
    /// What is compared with the run without the candidates.
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
    Harm { name: "harm_goodput", metric: |f| f.goodput(), more_is_better: true },
    Harm {
        name: "harm_delay",
        metric: |f| f.largest(|f| f.one_way_delay_s.p95),
        more_is_better: false,
    },
    Harm { name: "harm_completion", metric: |f| f.completed(0.95), more_is_better: false },
];
