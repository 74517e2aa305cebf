//! Scenarios: read once, run often, from many threads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use lasthop::air::trace::Trace;
use lasthop::scenario::network::{Flow, Link, Network};
use lasthop::scenario::{Files, LastHopOptions, Loaded, Overrides, load};
use lasthop::schemes::catalogue::{Scheme, SchemeChoice};
use lasthop_sim::RunError;
use lasthop_sim::capture::Capture;
use lasthop_sim::events::Observer;
use lasthop_sim::result::BoundResult;
use lasthop_wire::WriteError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use serde_json::json;

use crate::columns::{Columns, KINDS};
use crate::foreign::{Failure, ForeignRule};
use crate::{InputError, Interrupted};

/// Stops runs from another thread.
#[pyclass(module = "lasthop._native", frozen)]
#[derive(Default)]
pub struct CancelToken {
    state: Mutex<Cancelled>,
}

#[derive(Default)]
struct Cancelled {
    done: bool,
    runs: Vec<Weak<AtomicBool>>,
}

#[pymethods]
impl CancelToken {
    #[new]
    fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Asks every run that was given this token to end as soon as it can, those that start later
    /// too.
    fn cancel(&self) {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        state.done = true;
        for flag in state.runs.drain(..).filter_map(|w| w.upgrade()) {
            flag.store(true, Ordering::Relaxed);
        }
    }
}

impl CancelToken {
    fn flag(&self) -> Arc<AtomicBool> {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let flag = Arc::new(AtomicBool::new(state.done));
        state.runs.retain(|w| w.strong_count() > 0);
        state.runs.push(Arc::downgrade(&flag));
        flag
    }
}

/// Files of this machine, with a list of those that were opened.
#[derive(Default)]
struct Disk {
    opened: RefCell<Vec<PathBuf>>,
}

impl Files for Disk {
    fn open(&self, path: &Path) -> std::io::Result<Box<dyn Read>> {
        let file = File::open(path)?;
        let mut opened = self.opened.borrow_mut();
        if !opened.iter().any(|p| p == path) {
            opened.push(path.to_path_buf());
        }
        Ok(Box::new(file))
    }
}

/// A scenario that was read and checked.
#[pyclass(module = "lasthop._native", frozen)]
pub struct Scenario {
    loaded: Loaded,
    foreign: Option<ForeignRule>,
    /// The scheme that replaces what `[tcp]` says, though no flow may use it.
    asked: Option<SchemeChoice>,
    inputs: Vec<String>,
}

#[pymethods]
impl Scenario {
    /// Reads a scenario. `origin` is its file, `set` are KEY=VALUE settings, `scheme` replaces what
    /// [tcp] says (a name, or a subclass of CongestionControl), `last_hop` are the options of the
    /// last hop.
    #[new]
    #[pyo3(signature = (text, origin=None, set=None, scheme=None, last_hop=None))]
    fn new(
        text: &str,
        origin: Option<PathBuf>,
        set: Option<Vec<(String, String)>>,
        scheme: Option<Bound<'_, PyAny>>,
        last_hop: Option<BTreeMap<String, String>>,
    ) -> PyResult<Scenario> {
        let mut foreign = None;
        let choice = match scheme {
            None => None,
            Some(s) => match s.cast::<PyType>() {
                Ok(class) => {
                    let rule = ForeignRule::new(class)?;
                    let choice =
                        SchemeChoice { label: rule.label.clone(), scheme: outside(&rule, s.py()) };
                    foreign = Some(rule);
                    Some(choice)
                }
                Err(_) => Some(
                    SchemeChoice::parse(&s.extract::<String>()?).map_err(InputError::new_err)?,
                ),
            },
        };
        let asked = choice.clone();
        let overrides = Overrides {
            set: set.unwrap_or_default(),
            scheme: choice,
            last_hop: last_hop_options(last_hop.unwrap_or_default())?,
        };
        let disk = Disk::default();
        let mut loaded = load(text, origin.as_deref(), &overrides, &disk)
            .map_err(|e| InputError::new_err(e.to_string()))?;
        share_traces(&mut loaded.network);
        let inputs = disk.opened.into_inner().iter().map(|p| p.display().to_string()).collect();
        Ok(Scenario { loaded, foreign, asked, inputs })
    }

    /// Title.
    #[getter]
    fn title(&self) -> &str {
        &self.loaded.title
    }

    /// The scenario as TOML with every default filled in.
    #[getter]
    fn filled(&self) -> &str {
        &self.loaded.filled
    }

    /// True if the result depends on the seed.
    #[getter]
    fn random(&self) -> bool {
        self.loaded.network.is_random()
    }

    /// About how many frames one run sends over links.
    #[getter]
    fn estimated_frames(&self) -> u64 {
        self.loaded.network.estimated_frames() as u64
    }

    /// JSON: label, name, settings, family and group of the scheme that was asked for, otherwise of
    /// that of the first TCP flow (or, without one, of the first flow); a scheme from outside the
    /// catalogue has neither family nor group.
    #[getter]
    fn scheme(&self) -> String {
        let flows = &self.loaded.network.flows;
        let first = || {
            flows.iter().find(|f| f.app.datagrams().is_none()).or(flows.first()).map(|f| &f.scheme)
        };
        // The one that was asked for, with the settings that follow from the flows' paths.
        let asked = self
            .asked
            .as_ref()
            .map(|a| flows.iter().map(|f| &f.scheme).find(|s| s.label == a.label).unwrap_or(a));
        match asked.or_else(first) {
            Some(c) => {
                let (family, group) =
                    c.scheme.entry().map_or((None, None), |e| (Some(e.family), e.group));
                json!({"label": c.label, "name": c.scheme.name(), "settings": c.scheme.settings(), "family": family, "group": group}).to_string()
            }
            None => json!({"label": "", "name": "", "settings": {}}).to_string(),
        }
    }

    /// Per flow: one line naming the scheme and everything that fills its slots.
    #[getter]
    fn slots(&self) -> Vec<String> {
        self.loaded.network.flows.iter().map(Flow::slots).collect()
    }

    /// Groups of flows, one for each `[[flow]]` that has flows: name and number of flows.
    #[getter]
    fn groups(&self) -> Vec<(String, usize)> {
        let mut groups: Vec<(String, usize)> = Vec::new();
        for flow in &self.loaded.network.flows {
            match groups.iter_mut().find(|(name, _)| *name == flow.group) {
                Some((_, count)) => *count += 1,
                None => groups.push((flow.group.clone(), 1)),
            }
        }
        groups
    }

    /// Schemes that harm others somewhere, and where: a line each.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.loaded.network.warnings()
    }

    /// What was assumed because the file did not say it.
    #[getter]
    fn assumed(&self) -> Vec<String> {
        self.loaded.network.assumed.clone()
    }

    /// JSON: what bounds the throughput of the first TCP flow.
    #[getter]
    fn bounds(&self) -> String {
        let bounds = self
            .loaded
            .network
            .flows
            .iter()
            .map(Flow::bounds)
            .find(|b| !b.is_empty())
            .unwrap_or_default();
        json!(bounds.into_iter().map(BoundResult::from).collect::<Vec<_>>()).to_string()
    }

    /// Paths of the files that were read besides the scenario itself.
    #[getter]
    fn inputs(&self) -> Vec<String> {
        self.inputs.clone()
    }

    /// One run, as JSON.
    #[pyo3(signature = (seed, cancel=None))]
    fn run(&self, py: Python<'_>, seed: u64, cancel: Option<&CancelToken>) -> PyResult<String> {
        self.simulate(py, seed, cancel, ()).map(|(json, ())| json)
    }

    /// One run, as JSON, and columns of the events of these kinds; an event's code is its place in
    /// `kinds`.
    #[pyo3(signature = (seed, kinds, cancel=None))]
    fn run_series(
        &self,
        py: Python<'_>,
        seed: u64,
        kinds: Vec<String>,
        cancel: Option<&CancelToken>,
    ) -> PyResult<(String, Py<PyDict>)> {
        let kind = |name: &String| {
            KINDS
                .into_iter()
                .find(|k| k.name() == name)
                .ok_or_else(|| InputError::new_err(format!("there is no event `{name}`")))
        };
        let columns = Columns::new(kinds.iter().map(kind).collect::<PyResult<_>>()?, false);
        let (json, columns) = self.simulate(py, seed, cancel, columns)?;
        let out = columns.into_dict(py)?;
        out.bind(py).set_item("data_radio", self.data_radio())?;
        Ok((json, out))
    }

    /// One run, as JSON; all events as columns if `events`, and a capture written to `pcap` if that
    /// is given.
    #[pyo3(signature = (seed, events, pcap=None, cancel=None))]
    fn run_recorded(
        &self,
        py: Python<'_>,
        seed: u64,
        events: bool,
        pcap: Option<PathBuf>,
        cancel: Option<&CancelToken>,
    ) -> PyResult<(String, Option<Py<PyDict>>)> {
        let columns = events.then(|| Columns::new(KINDS.to_vec(), true));
        // Opening and writing may wait for who reads a pipe, which may be a Python thread.
        let open = |path: PathBuf| {
            Capture::new(BufWriter::new(File::create(path)?), &self.loaded.network)
                .map_err(write_error)
        };
        let capture = py.detach(|| pcap.map(open).transpose())?;
        let (json, (columns, capture)) = self.simulate(py, seed, cancel, (columns, capture))?;
        let close = |capture: Capture<BufWriter<File>>| -> PyResult<()> {
            capture.finish().map_err(write_error)?.into_inner().map_err(|e| e.into_error())?;
            Ok(())
        };
        py.detach(|| capture.map_or(Ok(()), close))?;
        let Some(columns) = columns else { return Ok((json, None)) };
        let out = columns.into_dict(py)?;
        let nodes: Vec<&str> = self.loaded.network.nodes.iter().map(|n| n.name.as_str()).collect();
        out.bind(py).set_item("nodes", nodes)?;
        let link = |l: &Link| {
            format!(
                "{}>{}",
                self.loaded.network.nodes[usize::from(l.from)].name,
                self.loaded.network.nodes[usize::from(l.to)].name
            )
        };
        out.bind(py)
            .set_item("links", self.loaded.network.links.iter().map(link).collect::<Vec<_>>())?;
        Ok((json, Some(out)))
    }
}

impl Scenario {
    /// Number of the radio link in the direction of the first flow's data; -1 without one.
    fn data_radio(&self) -> i64 {
        let network = &self.loaded.network;
        let Some(flow) = network.flows.first() else { return -1 };
        let find = |end: fn(&Link) -> u16, node| {
            network.links.iter().position(|l| l.radio && end(l) == node)
        };
        find(|l| l.to, flow.to).or_else(|| find(|l| l.from, flow.from)).map_or(-1, |l| l as i64)
    }
}

/// Why a capture could not be written.
fn write_error(error: WriteError) -> PyErr {
    match error {
        WriteError::Io(e) => e.into(),
        other => InputError::new_err(other.to_string()),
    }
}

/// A comparison reads the same traces for each of its cells: equal ones are kept once.
fn share_traces(network: &mut Network) {
    static KNOWN: Mutex<Vec<Weak<Trace>>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    known.retain(|w| w.strong_count() > 0);
    for trace in network.links.iter_mut().filter_map(|l| l.trace.as_mut()) {
        match known.iter().filter_map(Weak::upgrade).find(|k| k == trace) {
            Some(same) => *trace = same,
            None => known.push(Arc::downgrade(trace)),
        }
    }
}

/// A rule that no run uses as it is: each run gets one with a place for its own failure.
fn outside(rule: &ForeignRule, py: Python<'_>) -> Scheme {
    Scheme::ForeignWindow(rule.for_run(py, &Arc::new(Failure::new(Arc::default()))))
}

fn last_hop_options(mut given: BTreeMap<String, String>) -> PyResult<LastHopOptions> {
    let options = LastHopOptions {
        down: given.remove("down").map(PathBuf::from),
        up: given.remove("up").map(PathBuf::from),
        rtt: given.remove("rtt"),
        loss: given.remove("loss"),
        rate: given.remove("rate"),
        queue: given.remove("queue"),
    };
    match given.keys().next() {
        None => Ok(options),
        Some(key) => Err(InputError::new_err(format!(
            "the last hop has no option `{key}`; allowed: down, up, rtt, loss, rate, queue"
        ))),
    }
}

impl Scenario {
    fn simulate<R: Observer + Send>(
        &self,
        py: Python<'_>,
        seed: u64,
        cancel: Option<&CancelToken>,
        mut reader: R,
    ) -> PyResult<(String, R)> {
        let flag = cancel.map_or_else(Arc::default, CancelToken::flag);
        let failure = Arc::new(Failure::new(flag.clone()));
        let own = self.foreign.as_ref().map(|rule| self.with_rule(py, rule, &failure));
        let network = own.as_ref().unwrap_or(&self.loaded.network);
        let result = py.detach(|| {
            let result = lasthop_sim::run(network, seed, &mut reader, &flag);
            // Foreign rules are Python objects: they go with the simulation, before the answer is
            // made.
            result.map(|r| serde_json::to_string(&r).map_err(|e| e.to_string()))
        });
        if let Some(error) = failure.take() {
            return Err(error);
        }
        match result {
            Ok(Ok(json)) => Ok((json, reader)),
            Ok(Err(e)) | Err(RunError::Scenario(e)) => Err(InputError::new_err(e)),
            Err(RunError::Cancelled) => Err(Interrupted::new_err("interrupted")),
        }
    }

    /// The network with a rule whose failure ends this run only.
    fn with_rule(&self, py: Python<'_>, rule: &ForeignRule, failure: &Arc<Failure>) -> Network {
        let mut network = self.loaded.network.clone();
        for flow in &mut network.flows {
            if let Scheme::ForeignWindow(_) = flow.scheme.scheme {
                flow.scheme.scheme = Scheme::ForeignWindow(rule.for_run(py, failure));
            }
        }
        network
    }
}
