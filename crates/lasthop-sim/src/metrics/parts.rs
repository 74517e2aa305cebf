//! Values of parts of a run by their place in its JSON: `flows.NAME.KEY`, `links.FROM>TO.KEY`.

use serde::Serialize;
use serde_json::Value;

use super::ratios::mean;
use crate::probes::result::RunResult;

/// A value of a part of a run.
#[derive(Clone, Debug)]
pub(super) struct Part {
    kind: Kind,
    /// Name of the flow, session, scheme or link.
    name: String,
    /// Keys of nested tables, separated by dots.
    key: String,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Flows,
    Clicks,
    Agents,
    Links,
}

impl Part {
    /// The part that a metric names; `None` if it names none.
    pub(super) fn new(metric: &str) -> Option<Part> {
        let (kind, rest) = metric.split_once('.')?;
        let (name, key) = rest.split_once('.')?;
        let kind = match kind {
            "flows" => Kind::Flows,
            "clicks" => Kind::Clicks,
            "agents" => Kind::Agents,
            "links" => Kind::Links,
            _ => return None,
        };
        Some(Part { kind, name: name.into(), key: key.into() })
    }

    /// Its value in a run.
    pub(super) fn of(&self, run: &RunResult) -> Option<f64> {
        match self.kind {
            Kind::Flows => self.mean(run.flows.iter().map(|f| (f.id.as_str(), f))),
            Kind::Clicks => self.mean(run.clicks.iter().map(|c| (c.id.as_str(), c))),
            Kind::Agents => {
                let own = run.agents.iter().filter(|a| scheme(&a.scheme) == self.name);
                let counts = own.filter_map(|a| a.counters.get(&self.key).and_then(Value::as_f64));
                counts.reduce(|sum, n| sum + n)
            }
            Kind::Links => {
                let own = |from: &str, to: &str| {
                    self.name.split_once('>').is_some_and(|ends| ends == (from, to))
                };
                let links = run.links.iter().filter(|link| own(&link.from, &link.to));
                links.filter_map(|link| self.nested(link)).next()
            }
        }
    }

    /// The mean over the flows or clicks of this name. Several of one name have a number after a
    /// dot or a blank.
    fn mean<'a, T: Serialize + 'a>(
        &self,
        all: impl Iterator<Item = (&'a str, &'a T)>,
    ) -> Option<f64> {
        let own = |id: &str| {
            id.strip_prefix(&*self.name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' ']))
        };
        mean(all.filter(|(id, _)| own(id)).filter_map(|(_, table)| self.nested(table)))
    }

    fn nested(&self, table: &impl Serialize) -> Option<f64> {
        let table = serde_json::to_value(table).ok()?;
        match self.key.split('.').try_fold(&table, |value, key| value.get(key))? {
            Value::Bool(is_true) => Some(f64::from(*is_true)),
            value => value.as_f64(),
        }
    }
}

/// The name in the label of a scheme.
fn scheme(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}
