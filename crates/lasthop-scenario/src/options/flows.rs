//! The options of the command line that describe flows.

use super::presets;
use crate::network::FlowRole;
use crate::parts::checks::MAX_FLOWS;
use crate::parts::file::File;
use crate::parts::flow::{FlowSpec, StartTimes};
use crate::text::errors::{ErrorKind, ScenarioError};
use crate::text::tree::Tree;
use lasthop_core::units::{Duration, Quantity};
use lasthop_schemes::catalogue::SchemeText;

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
            if u64::from(flow.count) > MAX_FLOWS {
                // The checks refuse the file for it.
                return Ok(());
            }
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
