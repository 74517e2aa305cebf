//! Metrics of a run: one number each, which comparisons average. Their names end in the unit.
//!
//! A metric is one entry in a list, with its texts. A metric of the run is one of
//! [`run::METRICS`]. Other names are parts of the run:
//!
//! | name | value |
//! | --- | --- |
//! | `groups.NAME.KEY`, `roles.ROLE.KEY` | one of [`flows::METRICS`] or [`flows::HARM`], of the flows of a group or with a role |
//! | `flows.NAME.KEY` | mean over the flows of that name |
//! | `clicks.NAME.KEY` | mean over the clicks of a web session, or of one of its pages |
//! | `agents.SCHEME.COUNTER` | sum over the agents of a scheme |
//! | `links.FROM>TO.KEY` | a value of that link |
//! | `A / B` | ratio of two parts |
//!
//! A KEY of a nested table has a dot: `timeouts.spurious`.

pub mod binomial;
pub mod flows;
mod parts;
mod ratios;
pub mod resamples;
pub mod row_text;
pub mod run;
pub mod sums;

use crate::probes::result::{Contents, RunResult};
use flows::{FlowMetric, Flows, Harm, Members};
use parts::Part;
use ratios::share;

/// What separates the two parts of a ratio.
const RATIO: &str = " / ";

/// Metrics by their names, looked up once for all runs.
#[derive(Clone, Debug)]
pub struct Metrics {
    metrics: Vec<Metric>,
    /// The flows that the metrics are about; the first are all.
    members: Vec<Members>,
}

#[derive(Clone, Debug)]
enum Metric {
    /// Of the flows with this index in `members`.
    Flows(usize, FlowMetric),
    Harm(usize, &'static Harm),
    Part(Part),
    Ratio(Box<Metric>, Box<Metric>),
    Unknown,
}

impl Metric {
    fn reads_parts(&self) -> bool {
        match self {
            Metric::Part(_) => true,
            Metric::Ratio(a, b) => a.reads_parts() || b.reads_parts(),
            Metric::Flows(..) | Metric::Harm(..) | Metric::Unknown => false,
        }
    }
}

/// The flows of a run that the metrics are about, in the order of `members`.
type Parts<'a> = [Flows<'a>];

impl Metrics {
    /// The metrics with these names. A name that no metric has is unknown in every run.
    pub fn new<S: AsRef<str>>(names: &[S]) -> Metrics {
        let mut found = Metrics { metrics: Vec::new(), members: vec![Members::All] };
        found.metrics = names.iter().map(|name| found.find(name.as_ref())).collect();
        found
    }

    fn find(&mut self, name: &str) -> Metric {
        if let Some((a, b)) = name.split_once(RATIO) {
            return Metric::Ratio(Box::new(self.find(a)), Box::new(self.find(b)));
        }
        if let Some(column) = run::METRICS.iter().find(|column| column.name == name) {
            return Metric::Flows(0, column.value);
        }
        let Some((members, key)) = Members::split(name) else {
            return Part::new(name).map_or(Metric::Unknown, Metric::Part);
        };
        let place = self.members.iter().position(|m| *m == members).unwrap_or_else(|| {
            self.members.push(members);
            self.members.len() - 1
        });
        if let Some(column) = flows::METRICS.iter().find(|column| column.name == key) {
            return Metric::Flows(place, column.value);
        }
        let harm = flows::HARM.iter().find(|h| h.name == key);
        harm.map_or(Metric::Unknown, |h| Metric::Harm(place, h))
    }

    /// How many metrics there are.
    pub fn len(&self) -> usize {
        self.metrics.len()
    }

    /// True without a metric.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    /// True if a metric compares the run with the one without its candidates.
    pub fn needs_alone(&self) -> bool {
        self.metrics.iter().any(|m| matches!(m, Metric::Harm(..)))
    }

    /// What of a result the metrics read: a part of a run may be anything; of the queues, other
    /// metrics are about those of radio links, and round-trip times are metrics of groups of flows.
    pub fn read(&self) -> Contents {
        let parts = self.metrics.iter().any(Metric::reads_parts);
        Contents { texts: false, rtt: parts || self.members.len() > 1, all_queue_delays: parts }
    }

    /// The values in a run, in the order of the names; NaN if unknown. `alone` is the run without
    /// the candidates and with the same seed; without it, harm is unknown.
    pub fn values<'a>(
        &'a self,
        run: &'a RunResult,
        alone: Option<&'a RunResult>,
    ) -> impl Iterator<Item = f64> + 'a {
        let parts = |run| self.members.iter().map(|m| Flows::of(run, m)).collect::<Vec<_>>();
        let (beside, alone) = (parts(run), alone.map(parts));
        let value = move |m: &Metric| value(m, run, &beside, alone.as_deref());
        self.metrics.iter().map(move |m| value(m).filter(|v| v.is_finite()).unwrap_or(f64::NAN))
    }
}

fn value(
    metric: &Metric,
    run: &RunResult,
    beside: &Parts<'_>,
    alone: Option<&Parts<'_>>,
) -> Option<f64> {
    match metric {
        Metric::Flows(place, metric) => of_flows(&beside[*place], *metric),
        Metric::Harm(place, harm) => harm.of(
            alone.and_then(|parts| of_flows(&parts[*place], harm.metric)),
            of_flows(&beside[*place], harm.metric),
        ),
        Metric::Part(part) => part.of(run),
        Metric::Ratio(a, b) => {
            let (a, b) = (value(a, run, beside, alone)?, value(b, run, beside, alone)?);
            share(a, b)
        }
        Metric::Unknown => None,
    }
}

/// A metric of some flows; `None` if the run has no such group or role.
fn of_flows(flows: &Flows<'_>, metric: FlowMetric) -> Option<f64> {
    if flows.is_missing() { None } else { metric(flows) }
}

#[cfg(test)]
mod tests;
