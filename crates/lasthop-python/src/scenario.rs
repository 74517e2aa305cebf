//! Scenarios: loaded once, run any number of times, from any thread.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use lasthop::air::config::{OutageConfig, OutageRule};
use lasthop::air::trace::Trace;
use lasthop::scenario::network::{Flow, Link, Network};

use lasthop::scenario::{Loaded, Overrides, load};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::units::Duration;
use lasthop_sim::RunError;
use lasthop_sim::capture::Capture;
use lasthop_sim::events::Observer;
use lasthop_sim::metrics::Metrics;
use lasthop_sim::result::BoundResult;
use lasthop_wire::WriteError;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use serde_json::json;

use crate::batch;
use crate::cancel::CancelToken;
use crate::columns::{Columns, KINDS, series_columns};
use crate::disk::Disk;
use crate::foreign::{ForeignScheme, NamedSchemes};
use crate::foreign_run::{RunContext, Sample};
use crate::inspection::Inspection;
use crate::options::{flow_options, last_hop_options};
use crate::run::{Run, to_python};
use crate::{InputError, Interrupted};

/// A loaded and validated scenario.
#[pyclass(module = "lasthop._native", frozen)]
pub struct Scenario {
    loaded: Loaded,
    /// The schemes in Python that it names.
    foreign: Vec<Arc<ForeignScheme>>,
    /// The scheme that replaces the one in `[tcp]`; possibly no flow uses it.
    requested: Option<SchemeChoice>,
    inputs: Vec<String>,
    fingerprint: OnceLock<u64>,
}

#[pymethods]
impl Scenario {
    /// Loads a scenario from TOML text. `origin` is the path of its file, `set` a list of KEY=VALUE
    /// overrides, `last_hop` the last-hop options. `scheme`, a name or a subclass of
    /// CongestionControl or Agent, replaces the scheme in [tcp]. `flows` are the options about
    /// flows: a dictionary with the keys traffic, against, flows, start, upload and
    /// duration. `draw_starts`: the starts of flows and the places in traces are drawn by seed if
    /// nothing else is random.
    #[new]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    #[pyo3(signature = (
        text, origin=None, set=None, scheme=None, last_hop=None, flows=None, draw_starts=false
    ))]
    fn new(
        py: Python<'_>,
        text: &str,
        origin: Option<PathBuf>,
        set: Option<Vec<(String, String)>>,
        scheme: Option<Bound<'_, PyAny>>,
        last_hop: Option<BTreeMap<String, String>>,
        flows: Option<Bound<'_, PyDict>>,
        draw_starts: bool,
    ) -> PyResult<Scenario> {
        let mut foreign = Vec::new();
        let choice = match scheme {
            None => None,
            Some(s) => match s.cast::<PyType>() {
                Ok(class) => {
                    let scheme = Arc::new(ForeignScheme::new(class)?);
                    let idle = RunContext::new(Arc::default(), false);
                    let choice = scheme.choice(py, &idle);
                    foreign.push(scheme);
                    Some(choice)
                }
                Err(_) => Some(
                    SchemeChoice::parse(&s.extract::<String>()?).map_err(InputError::new_err)?,
                ),
            },
        };
        let requested = choice.clone();
        let overrides = Overrides {
            set: set.unwrap_or_default(),
            scheme: choice,
            last_hop: last_hop_options(last_hop.unwrap_or_default())?,
            flows: flows.as_ref().map(flow_options).transpose()?.unwrap_or_default(),
            draw_starts,
        };
        let disk = Disk { opened: RefCell::default(), schemes: NamedSchemes::new(py) };
        let mut loaded = load(text, origin.as_deref(), &overrides, &disk)
            .map_err(|e| InputError::new_err(e.to_string()))?;
        share_traces(&mut loaded.network);
        let Disk { opened, schemes } = disk;
        let inputs = opened.into_inner().iter().map(|p| p.display().to_string()).collect();
        foreign.extend(schemes.into_schemes());
        Ok(Scenario { loaded, foreign, requested, inputs, fingerprint: OnceLock::new() })
    }

    /// Title of the scenario.
    #[getter]
    fn title(&self) -> &str {
        &self.loaded.title
    }

    /// The scenario as TOML with all defaults filled in.
    #[getter]
    fn filled(&self) -> &str {
        &self.loaded.filled
    }

    /// True if the result depends on the seed, other than by processing times.
    #[getter]
    fn random(&self) -> bool {
        self.loaded.network.is_random()
    }

    /// True if the times that receivers take to answer are drawn by seed (`processing_time`).
    #[getter]
    fn draws_processing_times(&self) -> bool {
        self.loaded.network.draws_processing_times()
    }

    /// The key `random_starts`, also if it was added because nothing else is random.
    #[getter]
    fn random_starts(&self) -> Option<String> {
        self.loaded.random_starts.map(|starts| starts.to_string())
    }

    /// Estimated number of frames sent over all links in one run.
    #[getter]
    fn estimated_frames(&self) -> u64 {
        self.loaded.network.estimated_frames() as u64
    }

    /// Label, name, settings, family and group of the requested scheme; without one, of the first
    /// TCP flow's scheme; without a TCP flow, of the first flow's. Schemes that are not in the
    /// catalogue have no family and no group.
    #[getter]
    fn scheme<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let flows = &self.loaded.network.flows;
        let first =
            || flows.iter().find(|f| !f.app.is_datagrams()).or(flows.first()).map(|f| &f.scheme);
        // The requested scheme, with the settings derived from the flows' paths.
        let requested = self
            .requested
            .as_ref()
            .map(|a| flows.iter().map(|f| &f.scheme).find(|s| s.label == a.label).unwrap_or(a));
        let described = match requested.or_else(first) {
            Some(c) => {
                let (family, group) =
                    c.scheme.entry().map_or((None, None), |e| (Some(e.family), e.group));
                json!({
                    "label": c.label,
                    "name": c.scheme.name(),
                    "settings": c.scheme.settings(),
                    "family": family,
                    "group": group,
                })
            }
            None => json!({"label": "", "name": "", "settings": {}}),
        };
        to_python(py, &described)
    }

    /// One line per flow: the scheme and its components.
    #[getter]
    fn slots(&self) -> Vec<String> {
        self.loaded.network.flows.iter().map(Flow::slots).collect()
    }

    /// Name of each flow of the run with this seed, and whether it is a TCP flow.
    fn flows(&self, seed: u64) -> Vec<(String, bool)> {
        let tcp = |f: &Flow| !f.app.is_datagrams();
        let network = self.loaded.network.for_seed(seed);
        network.flows.iter().map(|f| (f.name.clone(), tcp(f))).collect()
    }

    /// Name and number of flows of each `[[flow]]` entry with at least one flow; of a Poisson
    /// process the mean number of transfers.
    #[getter]
    fn groups(&self) -> Vec<(String, usize)> {
        let mut groups: Vec<(String, usize)> = Vec::new();
        for flow in &self.loaded.network.flows {
            let number = self.loaded.network.expected_flows(flow);
            match groups.iter_mut().find(|(name, _)| *name == flow.group) {
                Some((_, count)) => *count += number,
                None => groups.push((flow.group.clone(), number)),
            }
        }
        groups
    }

    /// True if a flow has an application whose user is measured: a call, a ping, a client or a web
    /// session.
    #[getter]
    fn has_users(&self) -> bool {
        let network = &self.loaded.network;
        !network.sessions.is_empty()
            || network.flows.iter().any(|f| f.app.request().is_some() || f.app.quality().is_some())
    }

    /// Name, role and scheme of each `[[flow]]` entry with at least one flow; the scheme is empty
    /// for datagrams.
    #[getter]
    fn group_roles(&self) -> Vec<(String, String, String)> {
        let mut found: Vec<(String, String, String)> = Vec::new();
        for flow in &self.loaded.network.flows {
            if found.iter().all(|(name, _, _)| *name != flow.group) {
                let role = json!(flow.role).as_str().unwrap_or_default().to_string();
                let is_tcp = !flow.app.is_datagrams();
                let scheme = if is_tcp { flow.scheme.label.clone() } else { String::new() };
                found.push((flow.group.clone(), role, scheme));
            }
        }
        found
    }

    /// The scenario without its candidates; `None` if it has none, or no other flow.
    fn without_candidates(&self) -> Option<Scenario> {
        let network = self.loaded.network.without_candidates()?;
        let loaded = Loaded { network, ..self.loaded.clone() };
        let inputs = self.inputs.clone();
        let fingerprint = OnceLock::new();
        let foreign = self.foreign.clone();
        Some(Scenario { loaded, foreign, requested: None, inputs, fingerprint })
    }

    /// Number that identifies the network that runs: equal networks have equal results.
    fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            format!("{:?}", self.loaded.network).hash(&mut hasher);
            hasher.finish()
        })
    }

    /// Scheme and names of the counters of each agent and relay.
    fn counters(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<String>)>> {
        let run = RunContext::new(Arc::default(), false);
        let mut network = self.network_of(py, &run).into_owned();
        network.duration = Duration(1);
        network.measure_from = Duration::ZERO;
        let result = py.detach(|| lasthop_sim::run(&network, 1, &mut (), &Arc::default()));
        if let Some(error) = run.take_error() {
            return Err(error);
        }
        match result {
            Ok(result) => Ok(result
                .agents
                .into_iter()
                .map(|a| (a.scheme, a.counters.keys().map(ToString::to_string).collect()))
                .collect()),
            Err(RunError::Scenario(e)) => Err(InputError::new_err(e)),
            Err(RunError::Cancelled) => Ok(Vec::new()),
        }
    }

    /// The classes of the schemes in Python that the scenario names.
    #[getter]
    fn classes(&self, py: Python<'_>) -> Vec<Py<PyType>> {
        self.foreign.iter().map(|scheme| scheme.class(py)).collect()
    }

    /// One line for each scheme that harms other flows, with the conditions under which it does.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.loaded.network.warnings()
    }

    /// Assumptions made where the file gives no value.
    #[getter]
    fn assumed(&self) -> Vec<String> {
        self.loaded.network.assumed.clone()
    }

    /// The throughput bounds of the first TCP flow: `limited_by`, `setting` and `value` of each.
    #[getter]
    fn bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let bounds = self
            .loaded
            .network
            .flows
            .iter()
            .map(Flow::bounds)
            .find(|b| !b.is_empty())
            .unwrap_or_default();
        to_python(py, &bounds.into_iter().map(BoundResult::from).collect::<Vec<_>>())
    }

    /// Paths of the files that were read besides the scenario file.
    #[getter]
    fn inputs(&self) -> Vec<String> {
        self.inputs.clone()
    }

    /// The scenario with independent losses by the number of the frame, as on live links. Without a
    /// rule in Python.
    fn draw_by_frame(&self) -> Scenario {
        let mut loaded = self.loaded.clone();
        lasthop_live::chain::draw_by_frame(&mut loaded.network);
        Scenario {
            loaded,
            foreign: Vec::new(),
            requested: self.requested.clone(),
            inputs: self.inputs.clone(),
            fingerprint: self.fingerprint.clone(),
        }
    }

    /// How each link is computed and why, and what measures the run. `observed`: for a run whose
    /// events are written.
    #[pyo3(signature = (observed=false))]
    fn explain<'py>(&self, py: Python<'py>, observed: bool) -> PyResult<Bound<'py, PyAny>> {
        let run = RunContext::new(Arc::default(), false);
        let network = self.network_of(py, &run);
        let plan = py.detach(|| lasthop_sim::explain(&network, observed));
        if let Some(error) = run.take_error() {
            return Err(error);
        }
        let plan = plan.map_err(|e| InputError::new_err(e.to_string()))?;
        to_python(py, &plan)
    }

    /// Runs the scenario once.
    #[pyo3(signature = (seed, cancel=None))]
    fn run(&self, py: Python<'_>, seed: u64, cancel: Option<&CancelToken>) -> PyResult<Run> {
        self.record(py, seed, cancel, (), false).map(|(run, (), _)| run)
    }

    /// Runs the scenario once for each seed; returns the metrics with these names: a row per seed,
    /// a column per name, NaN if unknown. After `cancel`, the rows of the finished runs. `alone` is
    /// the scenario without its candidates, for harm. Not for schemes in Python.
    #[pyo3(signature = (seeds, names, alone=None, cancel=None))]
    fn run_many<'py>(
        &self,
        py: Python<'py>,
        seeds: Vec<u64>,
        names: Vec<String>,
        alone: Option<&Scenario>,
        cancel: Option<&CancelToken>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        if !self.foreign.is_empty() || names.is_empty() {
            return Err(InputError::new_err("run_many needs metrics, and no scheme in Python"));
        }
        let flag = cancel.map_or_else(Arc::default, CancelToken::flag);
        let metrics = Metrics::new(&names);
        let rows = py.detach(|| {
            let alone = alone.map(|s| (&s.loaded.network, s.fingerprint()));
            batch::rows(&self.loaded.network, alone, &seeds, &metrics, &flag)
        });
        let rows = rows.map_err(InputError::new_err)?;
        let shape = [rows.len() / names.len(), names.len()];
        PyArray1::from_vec(py, rows).reshape(shape)
    }

    /// Runs the scenario without candidates once; results are kept, since they are the same for all
    /// schemes.
    #[pyo3(signature = (seed, cancel=None))]
    fn run_alone(&self, py: Python<'_>, seed: u64, cancel: Option<&CancelToken>) -> PyResult<Run> {
        let key = (self.fingerprint(), seed);
        let run = || Python::attach(|py| self.run(py, seed, cancel)).map(|run| run.0);
        py.detach(|| batch::run_alone(key, run)).map(Run)
    }

    /// Runs the scenario once; returns the result and columns of the events of `kinds`. The
    /// code of an event is the index of its kind in `kinds`.
    #[pyo3(signature = (seed, kinds, cancel=None))]
    fn run_series(
        &self,
        py: Python<'_>,
        seed: u64,
        kinds: Vec<String>,
        cancel: Option<&CancelToken>,
    ) -> PyResult<(Run, Py<PyDict>)> {
        let kind = |name: &String| {
            KINDS
                .into_iter()
                .find(|k| k.name() == name)
                .ok_or_else(|| InputError::new_err(format!("unknown event `{name}`")))
        };
        let columns = Columns::new(kinds.iter().map(kind).collect::<PyResult<_>>()?, false);
        let (run, mut columns, samples) = self.record(py, seed, cancel, columns, true)?;
        let flows = columns.take_flows();
        let out = columns.into_dict(py)?;
        out.bind(py).set_item("series", series_columns(py, samples, &flows)?)?;
        out.bind(py).set_item("data_radio", self.data_radio())?;
        Ok((run, out))
    }

    /// Runs the scenario once; returns the result and, if `events` is set, all events as
    /// columns. Writes a capture to `pcap` if given.
    #[pyo3(signature = (seed, events, pcap=None, cancel=None))]
    fn run_recorded(
        &self,
        py: Python<'_>,
        seed: u64,
        events: bool,
        pcap: Option<PathBuf>,
        cancel: Option<&CancelToken>,
    ) -> PyResult<(Run, Option<Py<PyDict>>)> {
        let columns = events.then(|| Columns::new(KINDS.to_vec(), true));
        // Release the GIL: opening or writing a pipe may block until its reader, possibly a Python
        // thread, runs.
        let open = |path: PathBuf| {
            let network = self.loaded.network.for_seed(seed);
            Capture::new(BufWriter::new(File::create(path)?), &network).map_err(write_error)
        };
        let capture = py.detach(|| pcap.map(open).transpose())?;
        let (run, (columns, capture), samples) =
            self.record(py, seed, cancel, (columns, capture), events)?;
        let close = |capture: Capture<BufWriter<File>>| -> PyResult<()> {
            capture.finish().map_err(write_error)?.into_inner().map_err(|e| e.into_error())?;
            Ok(())
        };
        py.detach(|| capture.map_or(Ok(()), close))?;
        let Some(mut columns) = columns else { return Ok((run, None)) };
        let flows = columns.take_flows();
        let out = columns.into_dict(py)?;
        out.bind(py).set_item("series", series_columns(py, samples, &flows)?)?;
        set_names(out.bind(py), &self.loaded.network)?;
        Ok((run, Some(out)))
    }

    /// Runs the scenario once; returns the result and the record of the flow with index
    /// `flow` as columns of at most `most_bytes`. Writes a capture per hop and agent to the folder
    /// `pcap` if given, with at most `snaplen` bytes of each packet.
    #[pyo3(signature = (seed, flow, most_bytes, pcap=None, snaplen=None, cancel=None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn run_inspected(
        &self,
        py: Python<'_>,
        seed: u64,
        flow: u32,
        most_bytes: usize,
        pcap: Option<PathBuf>,
        snaplen: Option<u32>,
        cancel: Option<&CancelToken>,
    ) -> PyResult<(Run, Py<PyDict>)> {
        let network = &self.loaded.network;
        let open = |folder: PathBuf| {
            let mut used = BTreeSet::new();
            Capture::per_interface(&network.for_seed(seed), snaplen, |name| {
                let path = folder.join(capture_file(name, &mut used));
                File::create_new(path).map(BufWriter::new)
            })
            .map_err(write_error)
        };
        let capture = py.detach(|| pcap.map(open).transpose())?;
        let observer = (Inspection::new(network, flow, most_bytes), capture);
        let (run, (mut record, capture), samples) =
            self.record(py, seed, cancel, observer, true)?;
        record.check()?;
        let close = |capture: Capture<BufWriter<File>>| -> PyResult<()> {
            for output in capture.finish_all().map_err(write_error)? {
                output.into_inner().map_err(|e| e.into_error())?;
            }
            Ok(())
        };
        py.detach(|| capture.map_or(Ok(()), close))?;
        let flows = record.take_flows();
        let out = record.into_dict(py)?;
        out.bind(py).set_item("series", series_columns(py, samples, &flows)?)?;
        set_names(out.bind(py), network)?;
        let outages = network.links.iter().enumerate().flat_map(|(l, link)| {
            let rule = |o: &OutageConfig| match o.frames {
                OutageRule::Held => "held",
                OutageRule::LostAtSending => "lost-at-sending",
                OutageRule::LostAtArrival => "lost-at-arrival",
            };
            link.outages.iter().map(move |o| (l, o.from.0, o.length.0, rule(o)))
        });
        out.bind(py).set_item("outages", outages.collect::<Vec<_>>())?;
        Ok((run, out))
    }
}

/// Sets the names of all nodes, and the ends of all links, which events call by their numbers.
fn set_names(out: &Bound<'_, PyDict>, network: &Network) -> PyResult<()> {
    let name = |n: u16| network.nodes[usize::from(n)].name.as_str();
    let nodes: Vec<&str> = network.nodes.iter().map(|n| n.name.as_str()).collect();
    let ends: Vec<(&str, &str)> =
        network.links.iter().map(|l| (name(l.from), name(l.to))).collect();
    out.set_item("nodes", nodes)?;
    out.set_item("links", ends)
}

/// A file name for the capture of an interface that is not in `used`, and adds it there.
fn capture_file(interface: &str, used: &mut BTreeSet<String>) -> String {
    let safe = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let stem: String = interface.chars().map(|c| if safe(c) { c } else { '-' }).collect();
    let mut name = format!("{stem}.pcapng");
    let mut number = 2;
    while !used.insert(name.clone()) {
        name = format!("{stem}-{number}.pcapng");
        number += 1;
    }
    name
}

impl Scenario {
    /// Index of the radio link in the data direction of the first flow; -1 if there is none.
    fn data_radio(&self) -> i64 {
        let network = &self.loaded.network;
        let Some(flow) = network.flows.first() else { return -1 };
        let find = |end: fn(&Link) -> u16, node| {
            network.links.iter().position(|l| l.radio && end(l) == node)
        };
        find(|l| l.to, flow.to).or_else(|| find(|l| l.from, flow.from)).map_or(-1, |l| l as i64)
    }
}

/// Converts a capture error to a Python exception.
fn write_error(error: WriteError) -> PyErr {
    match error {
        WriteError::Io(e) => e.into(),
        other => InputError::new_err(other.to_string()),
    }
}

/// Shares equal traces between scenarios: the cells of a comparison load the same traces.
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

impl Scenario {
    /// Runs the scenario once; `records`: with the series that schemes in Python record.
    fn record<R: Observer + Send>(
        &self,
        py: Python<'_>,
        seed: u64,
        cancel: Option<&CancelToken>,
        mut observer: R,
        records: bool,
    ) -> PyResult<(Run, R, Vec<Sample>)> {
        let flag = cancel.map_or_else(Arc::default, CancelToken::flag);
        let run = RunContext::new(flag.clone(), records);
        let network = self.network_of(py, &run);
        let result = py.detach(|| lasthop_sim::run(&network, seed, &mut observer, &flag));
        if let Some(error) = run.take_error() {
            return Err(error);
        }
        match result {
            Ok(result) => Ok((Run(Arc::new(result)), observer, run.take_samples())),
            Err(RunError::Scenario(e)) => Err(InputError::new_err(e)),
            Err(RunError::Cancelled) => Err(Interrupted::new_err("interrupted")),
        }
    }

    /// The network; its schemes in Python belong to `run`, whose failure ends only this run.
    pub(crate) fn network_of(&self, py: Python<'_>, run: &Arc<RunContext>) -> Cow<'_, Network> {
        let mut network = Cow::Borrowed(&self.loaded.network);
        for foreign in &self.foreign {
            for flow in &mut network.to_mut().flows {
                if foreign.made(&flow.scheme.scheme) {
                    flow.scheme.scheme = foreign.choice(py, run).scheme;
                }
            }
        }
        network
    }
}
