//! Roles of flows in a comparison, the start times of several equal flows, and the options of the
//! command line that describe flows.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::errors::{ErrorKind, ScenarioError};
use crate::file::{File, FlowSpec};
use crate::network::{Network, Session};
use crate::presets;
use crate::tree::{Path, Tree};
use lasthop_core::units::{Duration, Quantity};
use lasthop_schemes::catalogue::SchemeText;

/// The role of a flow in a comparison. It changes neither the flow nor the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowRole {
    /// The flow takes the scheme that is compared (`--scheme`, `--schemes`).
    #[default]
    Candidate,
    /// A flow with a fixed scheme that competes with the candidates; the harm to it is computed.
    Competitor,
    /// A flow that measures what the candidates do to others, such as a call; the harm to it is
    /// computed.
    Probe,
    /// Other traffic.
    Background,
}

/// The start of a flow, or the start of each of several equal flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StartTimes {
    /// The first flow; `stagger` adds to it.
    One(Duration),
    /// Of the first flow, the second, and so on.
    Each(Vec<Duration>),
}

impl Default for StartTimes {
    fn default() -> Self {
        StartTimes::One(Duration::ZERO)
    }
}

impl StartTimes {
    /// The earliest start.
    pub fn first(&self) -> Duration {
        self.as_slice().iter().copied().min().unwrap_or_default()
    }

    /// The latest start in the list.
    pub fn last(&self) -> Duration {
        self.as_slice().iter().copied().max().unwrap_or_default()
    }

    /// The start of the flow with this index, without `stagger`.
    pub fn of(&self, index: usize) -> Duration {
        match self {
            StartTimes::One(start) => *start,
            StartTimes::Each(starts) => starts.get(index).copied().unwrap_or_default(),
        }
    }

    fn as_slice(&self) -> &[Duration] {
        match self {
            StartTimes::One(start) => std::slice::from_ref(start),
            StartTimes::Each(starts) => starts,
        }
    }
}

struct StartVisitor;

impl<'de> Visitor<'de> for StartVisitor {
    type Value = StartTimes;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as \"10 s\", or a list with the start of each of several flows")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<StartTimes, E> {
        Duration::parse(text).map(StartTimes::One).map_err(E::custom)
    }
    fn visit_f64<E: Error>(self, n: f64) -> Result<StartTimes, E> {
        Duration::from_number(n).map(StartTimes::One).map_err(E::custom)
    }
    fn visit_i64<E: Error>(self, n: i64) -> Result<StartTimes, E> {
        self.visit_f64(n as f64)
    }
    fn visit_u64<E: Error>(self, n: u64) -> Result<StartTimes, E> {
        self.visit_f64(n as f64)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<StartTimes, A::Error> {
        let mut starts = Vec::new();
        while let Some(start) = list.next_element::<Duration>()? {
            starts.push(start);
        }
        if starts.is_empty() {
            Err(A::Error::custom("the list of start times is empty"))
        } else {
            Ok(StartTimes::Each(starts))
        }
    }
}

impl<'de> Deserialize<'de> for StartTimes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<StartTimes, D::Error> {
        d.deserialize_any(StartVisitor)
    }
}

/// Checks role and start times of a `[[flow]]`.
pub fn check(flow: &FlowSpec, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    if flow.role == Some(FlowRole::Candidate) {
        if flow.scheme.is_some() {
            let message = "a candidate takes the scheme of [tcp], --scheme or --schemes; leave \
                           `scheme` out, or give it the role \"competitor\"";
            return Err(tree.conflict(&at.at("scheme"), message));
        }
        if flow.app.is_datagrams() {
            let message = "datagrams have no scheme, so they cannot be a candidate; the other \
                           roles are \"competitor\", \"probe\" and \"background\"";
            return Err(tree.conflict(&at.at("role"), message));
        }
    }
    let StartTimes::Each(starts) = &flow.start else { return Ok(()) };
    if flow.stagger.is_some() {
        let message = "goes with a single `start`; a list has the start of each flow";
        return Err(tree.conflict(&at.at("stagger"), message));
    }
    let turns = flow.count.div_ceil(flow.each.max(1)) as usize;
    if turns != 0 && starts.len() != turns {
        let message = format!(
            "expected a list with {turns} start times, one for each flow, found {}",
            starts.len()
        );
        return Err(tree.wrong(&at.at("start"), message));
    }
    Ok(())
}

/// Options of the command line that describe flows.
#[derive(Clone, Debug, Default)]
pub struct FlowOptions {
    /// `--traffic`: names of presets that replace the flows of the file, such as "web+bulk".
    pub traffic: Option<String>,
    /// `--against`: schemes of competitors, one bulk flow each.
    pub against: Vec<String>,
    /// `--flows`: number of candidates.
    pub flows: Option<u32>,
    /// `--start`: start times of the candidates, then of the competitors.
    pub starts: Vec<String>,
    /// `--upload`: candidates and competitors send from the station to the server.
    pub upload: bool,
    /// `--duration`: length of the run.
    pub duration: Option<String>,
}

impl FlowOptions {
    fn describes_flows(&self) -> bool {
        !self.against.is_empty() || self.flows.is_some() || !self.starts.is_empty()
    }

    /// Applies all options to a file that has the flows of `--traffic`; [`Self::swap_ends`] does
    /// the rest.
    ///
    /// # Errors
    ///
    /// If a value is not valid, or does not fit the flows of the file.
    pub(crate) fn apply(&self, file: &mut File, tree: &Tree<'_>) -> Result<(), ScenarioError> {
        if let Some(text) = &self.duration {
            let duration = Duration::parse(text).map_err(|e| wrong("--duration", e))?;
            if duration == Duration::ZERO {
                return Err(wrong("--duration", "a run must last longer than 0 s".into()));
            }
            file.duration = Some(duration);
        }
        if self.traffic.is_some() {
            presets::settle_roles(&mut file.flow);
        }
        if !self.describes_flows() {
            return Ok(());
        }
        if file.flow.is_empty() {
            let name = Some("candidate".to_string());
            file.flow.push(FlowSpec { name, count: 1, each: 1, ..FlowSpec::default() });
        }
        let candidates: Vec<usize> =
            (0..file.flow.len()).filter(|&i| file.flow[i].role() == FlowRole::Candidate).collect();
        if let Some(count) = self.flows {
            set_count(file, &candidates, count)?;
        }
        let competitors = self.add_competitors(file, &candidates, tree)?;
        self.set_starts(file, candidates.iter().copied().chain(competitors).collect())
    }

    /// Adds a `[[flow]]` for each scheme of `--against` and returns their indices.
    fn add_competitors(
        &self,
        file: &mut File,
        candidates: &[usize],
        tree: &Tree<'_>,
    ) -> Result<std::ops::Range<usize>, ScenarioError> {
        let first = file.flow.len();
        for text in &self.against {
            let choice = tree
                .scheme(&SchemeText::Short(text.clone()))
                .map_err(|e| ScenarioError::of_option("--against", ErrorKind::Scheme(e)))?;
            let Some(&like) = candidates.first() else {
                return Err(wrong(
                    "--against",
                    "the scenario has no candidate to compete with".into(),
                ));
            };
            let scheme = Some(SchemeText::Short(text.clone()));
            if let Some(same) = file.flow[first..].iter_mut().find(|f| f.scheme == scheme) {
                same.count += 1;
                continue;
            }
            let has_name = |name: &str| file.flow.iter().any(|f| f.name.as_deref() == Some(name));
            let name = if has_name(&choice.label) {
                format!("competitor {}", choice.label)
            } else {
                choice.label
            };
            let FlowSpec { from, to, .. } = file.flow[like].clone();
            let role = Some(FlowRole::Competitor);
            let name = Some(name);
            file.flow.push(FlowSpec {
                name,
                from,
                to,
                role,
                scheme,
                count: 1,
                each: 1,
                ..FlowSpec::default()
            });
        }
        Ok(first..file.flow.len())
    }

    /// Gives the k-th start time to the k-th flow of these `[[flow]]`.
    fn set_starts(&self, file: &mut File, entries: Vec<usize>) -> Result<(), ScenarioError> {
        if self.starts.is_empty() {
            return Ok(());
        }
        let parse = |text: &String| Duration::parse(text).map_err(|e| wrong("--start", e));
        let mut starts = self.starts.iter().map(parse).collect::<Result<Vec<_>, _>>()?.into_iter();
        for i in entries {
            let flow = &mut file.flow[i];
            let turns = flow.count.div_ceil(flow.each.max(1)) as usize;
            let own: Vec<Duration> = starts.by_ref().take(turns).collect();
            if own.is_empty() {
                break;
            }
            flow.stagger = None;
            flow.start = match own[..] {
                [start] if turns == 1 => StartTimes::One(start),
                _ => StartTimes::Each(
                    (0..turns).map(|k| own.get(k).copied().unwrap_or_default()).collect(),
                ),
            };
        }
        match starts.len() {
            0 => Ok(()),
            more => {
                let flows = self.starts.len() - more;
                let message = format!(
                    "{} start times for {flows} flow{}; --flows N and --against add flows",
                    self.starts.len(),
                    if flows == 1 { "" } else { "s" }
                );
                Err(wrong("--start", message))
            }
        }
    }

    /// Swaps the ends of the flows of `--traffic` that run from the station to the server, and
    /// applies `--upload`: swaps the ends of the candidates and of the flows of `--against`.
    pub(crate) fn swap_ends(&self, file: &mut File) {
        for flow in &mut file.flow {
            if self.traffic.as_ref().is_some_and(|text| presets::is_uplink(text, flow)) {
                std::mem::swap(&mut flow.from, &mut flow.to);
            }
        }
        if !self.upload {
            return;
        }
        let mut names: Vec<&String> = self.against.iter().collect();
        names.dedup();
        for flow in &mut file.flow {
            let added = flow.role == Some(FlowRole::Competitor)
                && matches!(&flow.scheme, Some(SchemeText::Short(s)) if names.contains(&s));
            if flow.role() == FlowRole::Candidate || added {
                std::mem::swap(&mut flow.from, &mut flow.to);
            }
        }
    }
}

fn wrong(option: &str, message: String) -> ScenarioError {
    ScenarioError::of_option(option, ErrorKind::Option(message))
}

/// Applies `--flows`.
fn set_count(file: &mut File, candidates: &[usize], count: u32) -> Result<(), ScenarioError> {
    let message = match candidates {
        _ if count == 0 => "expected at least 1 flow, found 0".to_string(),
        [i] => {
            file.flow[*i].count = count;
            return Ok(());
        }
        [] => "the scenario has no candidate, whose number could be set".to_string(),
        several => format!(
            "the scenario has {} [[flow]] of candidates; write --set flow.NAME.count={count} for \
             one of them",
            several.len()
        ),
    };
    Err(wrong("--flows", message))
}

/// The network without its candidates; `None` if it has no candidate, or nothing else.
pub(crate) fn without_candidates(network: &Network) -> Option<Network> {
    let is_kept: Vec<bool> = network.flows.iter().map(|f| f.role != FlowRole::Candidate).collect();
    if is_kept.iter().all(|kept| *kept) || !is_kept.contains(&true) {
        return None;
    }
    let kept_before = |i: usize| is_kept[..i].iter().filter(|kept| **kept).count();
    let mut solo = network.clone();
    let mut kept = is_kept.iter();
    solo.flows.retain(|_| kept.next().copied().unwrap_or_default());
    // All flows of a session have the role of its `[[flow]]`.
    let is_session_kept = |s: &Session| s.pages.iter().all(|page| page.clone().all(|i| is_kept[i]));
    solo.sessions.retain(is_session_kept);
    for page in solo.sessions.iter_mut().flat_map(|s| &mut s.pages) {
        *page = kept_before(page.start)..kept_before(page.end);
    }
    Some(solo)
}
