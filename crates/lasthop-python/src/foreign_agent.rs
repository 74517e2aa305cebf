//! Agents written in Python.

use std::collections::BTreeSet;
use std::sync::Arc;

use lasthop::agent::{
    Action, Agent, Context, Destination, LinkChange, LinkEvent, QueueState, Rewrite, Subscriptions,
    Verdict,
};
use lasthop::role::Role;
use lasthop::schemes::catalogue::{ForeignAgent, SchemeChoice};
use lasthop::segment::{Direction, FlowId, Notice, NoticeKind};
use lasthop::units::{Duration, Time};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use serde_json::{Map, Value};

use crate::InputError;
use crate::foreign_run::{Hooks, RunContext, role, static_name, unknown_word, words};
use crate::foreign_segment::{Segment, direction, direction_name};

/// The methods of an agent in Python, and their indices.
const HOOKS: [&str; 9] = [
    "on_segment",
    "on_timer",
    "on_link_event",
    "on_link_change",
    "on_notice",
    "counters",
    "state_bytes",
    "export_state",
    "import_state",
];
const ON_SEGMENT: usize = 0;
const ON_TIMER: usize = 1;
const ON_LINK_EVENT: usize = 2;
const ON_LINK_CHANGE: usize = 3;
const ON_NOTICE: usize = 4;
const COUNTERS: usize = 5;
const STATE_BYTES: usize = 6;
const EXPORT_STATE: usize = 7;
const IMPORT_STATE: usize = 8;

/// An agent's decision about a segment.
#[pyclass(name = "Verdict", module = "lasthop._native", frozen)]
pub struct PyVerdict(Verdict);

#[pymethods]
impl PyVerdict {
    /// Drops the segment; `reason` appears in events and captures.
    #[staticmethod]
    fn drop(reason: &str) -> PyResult<PyVerdict> {
        Ok(PyVerdict(Verdict::Drop(static_name(reason)?)))
    }

    /// The agent keeps the segment, to forward it later.
    #[staticmethod]
    fn keep() -> PyVerdict {
        PyVerdict(Verdict::Keep)
    }

    /// Forwards the segment with another acknowledgment number (stream offset), with another
    /// receive window (bytes), or with the explicit loss notification bit.
    #[staticmethod]
    #[pyo3(signature = (ack=None, window=None, eln=false))]
    fn rewrite(ack: Option<u64>, window: Option<u32>, eln: bool) -> PyVerdict {
        PyVerdict(Verdict::Rewrite(Rewrite { ack, window, eln }))
    }
}

/// The state of a link queue.
#[pyclass(module = "lasthop._native", frozen, get_all)]
pub struct Queue {
    /// Frames in the queue, without the one that is being sent.
    packets: u64,
    /// Bytes in the queue, without the frame that is being sent.
    bytes: u64,
    /// True if the queue would drop one more frame of full size.
    full: bool,
}

/// What an agent sees of its node during a call, and what it requests.
#[pyclass(name = "Context", module = "lasthop._native")]
pub struct PyContext {
    now: Time,
    queues: [QueueState; 2],
    rates: [Option<f64>; 2],
    actions: Vec<Action>,
    samples: Vec<(u32, String, f64)>,
    records: bool,
}

#[pymethods]
impl PyContext {
    /// Current time, seconds since the start of the run.
    #[getter]
    fn now_s(&self) -> f64 {
        self.now.as_secs()
    }

    /// The queue of the node's link in this direction, "downlink" or "uplink".
    fn queue(&self, direction: &str) -> PyResult<Queue> {
        let QueueState { packets, bytes, full } = self.queues[index(direction)?];
        Ok(Queue { packets, bytes, full })
    }

    /// The rate of that link, bit/s; None if it is not known.
    fn rate_bps(&self, direction: &str) -> PyResult<Option<f64>> {
        Ok(self.rates[index(direction)?])
    }

    /// Sends a copy of a segment, in its direction, after the verdict.
    fn inject(&mut self, segment: &Bound<'_, Segment>) {
        let segment = segment.get();
        self.actions.push(Action::Inject(segment.direction, segment.segment));
    }

    /// Forwards a segment that the agent has kept, in its direction.
    fn forward(&mut self, segment: &Bound<'_, Segment>) {
        let segment = segment.get();
        self.actions.push(Action::Forward(segment.direction, segment.segment));
    }

    /// Retains the payload of a segment beyond this call, so that it can be injected later.
    fn retain(&mut self, segment: &Bound<'_, Segment>) {
        self.actions.push(Action::Retain(segment.get().segment.payload));
    }

    /// Releases a payload that was retained.
    fn release(&mut self, segment: &Bound<'_, Segment>) {
        self.actions.push(Action::Release(segment.get().segment.payload));
    }

    /// Calls `on_timer(ctx, timer)` at `at_s`, seconds since the start of the run. Replaces the
    /// time of the timer with this number.
    fn set_timer(&mut self, timer: u32, at_s: f64) -> PyResult<()> {
        let at = Time::ZERO + Duration::from_secs_f64(at_s);
        if !at_s.is_finite() || at <= self.now {
            return Err(PyValueError::new_err(format!(
                "set_timer: the time must be later than now ({} s), found {at_s}",
                self.now.as_secs()
            )));
        }
        self.actions.push(Action::Wake(timer, at));
        Ok(())
    }

    /// Cancels the timer with this number.
    fn cancel_timer(&mut self, timer: u32) {
        self.actions.push(Action::Cancel(timer));
    }

    /// Sends a notice about a flow as a separate packet. `kind` is as in the event table; `to` is
    /// "sender", "receiver" or the role of a node with an agent of the scheme.
    fn notify(&mut self, kind: &str, flow: FlowId, value: u64, to: &str) -> PyResult<()> {
        let names = || NoticeKind::ALL.map(NoticeKind::name).join(", ");
        let kind = NoticeKind::ALL.into_iter().find(|k| k.name() == kind).ok_or_else(|| {
            PyValueError::new_err(format!("unknown notice `{kind}`; allowed: {}", names()))
        })?;
        let to = match to {
            "sender" => Destination::Sender,
            "receiver" => Destination::Receiver,
            other => Destination::Agent(role(other).ok_or_else(|| {
                PyValueError::new_err(format!(
                    "a notice goes to \"sender\", \"receiver\" or a role such as \
                     \"base-station\", found \"{other}\""
                ))
            })?),
        };
        let notice = Notice { kind, flow, value, stamp: self.now };
        self.actions.push(Action::Notify(notice, to));
        Ok(())
    }

    /// Records a number of the series `name` for a flow at the current time, for `run --events` and
    /// `RunResult.series`. Otherwise the call has no effect.
    fn record(&mut self, flow: FlowId, name: &str, value: f64) {
        if self.records {
            self.samples.push((flow, name.to_string(), value));
        }
    }
}

fn index(name: &str) -> PyResult<usize> {
    direction(name).map(|d| usize::from(d == Direction::Uplink))
}

/// What a subclass of `Agent` says of itself.
pub struct AgentClass {
    hooks: Arc<BTreeSet<String>>,
    roles: Vec<Role>,
    sender: Option<String>,
    subscriptions: Subscriptions,
}

impl AgentClass {
    /// Reads the attributes of the class; it overrides `hooks`.
    ///
    /// # Errors
    ///
    /// `InputError` for an unknown role, link event or sender.
    pub fn new(class: &Bound<'_, PyType>, hooks: BTreeSet<String>) -> PyResult<AgentClass> {
        let mut roles = Vec::new();
        for word in words(class, "roles")? {
            let allowed = "server, router, proxy, rnc, base-station, station";
            roles.push(role(&word).ok_or_else(|| unknown_word(class, "roles", &word, allowed))?);
        }
        if roles.is_empty() {
            return Err(InputError::new_err("an agent needs a role, such as \"base-station\""));
        }
        let mut subscriptions = Subscriptions::NONE;
        for word in words(class, "link_events")? {
            let found =
                Subscriptions::BY_NAME.iter().find(|(name, _)| *name == word).ok_or_else(|| {
                    unknown_word(
                        class,
                        "link_events",
                        &word,
                        &Subscriptions::BY_NAME.map(|e| e.0).join(", "),
                    )
                })?;
            subscriptions = subscriptions.with(found.1);
        }
        if hooks.contains(HOOKS[ON_LINK_CHANGE]) {
            subscriptions = subscriptions.with(Subscriptions::CHANGES);
        }
        let sender: String = class.getattr("sender")?.extract()?;
        let sender = (!sender.is_empty()).then_some(sender);
        if let Some(sender) = &sender {
            let choice = SchemeChoice::parse(sender).map_err(InputError::new_err)?;
            if choice.scheme.recovery().is_none() {
                return Err(InputError::new_err(format!(
                    "sender = \"{sender}\" is not a sender-side scheme"
                )));
            }
        }
        Ok(AgentClass { hooks: Arc::new(hooks), roles, sender, subscriptions })
    }

    /// The scheme whose agents belong to `run`.
    pub fn scheme(
        &self,
        class: Py<PyType>,
        name: String,
        settings: Map<String, Value>,
        run: &Arc<RunContext>,
    ) -> ForeignAgent {
        let (hooks, run, subscriptions) = (self.hooks.clone(), run.clone(), self.subscriptions);
        let make = move || -> Box<dyn Agent> {
            let made = Python::attach(|py| -> PyResult<PythonAgent> {
                let context = PyContext {
                    now: Time::ZERO,
                    queues: Default::default(),
                    rates: Default::default(),
                    actions: Vec::new(),
                    samples: Vec::new(),
                    records: run.records(),
                };
                Ok(PythonAgent {
                    hooks: Hooks::new(&class.bind(py).call0()?, &HOOKS, &hooks)?,
                    context: Py::new(py, context)?,
                    run: run.clone(),
                    subscriptions,
                })
            });
            match made {
                Ok(agent) => Box::new(agent),
                Err(error) => {
                    run.fail(error);
                    Box::new(Absent)
                }
            }
        };
        let (roles, sender) = (self.roles.clone(), self.sender.clone());
        ForeignAgent { name, settings, sender, roles, make: Arc::new(make) }
    }
}

/// In place of an agent whose object cannot be made: the run ends.
struct Absent;

impl Agent for Absent {
    fn on_segment(
        &mut self,
        _: &mut Context<'_>,
        _: Direction,
        _: &lasthop::segment::Segment,
    ) -> Verdict {
        Verdict::Forward
    }
}

struct PythonAgent {
    hooks: Hooks<9>,
    /// What the methods get; one object for all calls.
    context: Py<PyContext>,
    run: Arc<RunContext>,
    subscriptions: Subscriptions,
}

impl PythonAgent {
    /// Calls a method that the class overrides, with the state of the node, and passes on what it
    /// requests. `None` if the class does not override it or it raised an exception.
    fn call<T>(
        &self,
        hook: usize,
        ctx: &mut Context<'_>,
        call: impl FnOnce(&Bound<'_, PyAny>, &Bound<'_, PyContext>) -> PyResult<T>,
    ) -> Option<T> {
        let method = self.hooks.get(hook).filter(|_| !self.run.is_over())?;
        let result = Python::attach(|py| {
            let context = self.context.bind(py);
            {
                let mut view = context.borrow_mut();
                view.now = ctx.now;
                for (i, to) in [Direction::Downlink, Direction::Uplink].into_iter().enumerate() {
                    view.queues[i] = ctx.node_view.queue(to);
                    view.rates[i] = ctx.node_view.rate(to).map(|r| r.0 as f64);
                }
            }
            let answer = call(method.bind(py), context)?;
            let mut view = context.borrow_mut();
            ctx.actions.append(&mut view.actions);
            for (flow, name, value) in view.samples.drain(..) {
                self.run.record(ctx.now, flow, std::iter::once((name, value)));
            }
            Ok(answer)
        });
        result.map_err(|error| self.run.fail(error)).ok()
    }

    /// Calls a method that gets no context.
    fn ask<T>(
        &self,
        hook: usize,
        call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let method = self.hooks.get(hook).filter(|_| !self.run.is_over())?;
        Python::attach(|py| call(method.bind(py))).map_err(|error| self.run.fail(error)).ok()
    }
}

impl Agent for PythonAgent {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &lasthop::segment::Segment,
    ) -> Verdict {
        let view = Segment::new(segment, direction, ctx.options);
        self.call(ON_SEGMENT, ctx, |method, context| {
            let answer = method.call1((context, view))?;
            if answer.is_none() {
                return Ok(Verdict::Forward);
            }
            match answer.cast::<PyVerdict>() {
                Ok(verdict) => Ok(verdict.get().0.clone()),
                Err(_) => Err(PyValueError::new_err(format!(
                    "on_segment must return a lasthop.Verdict or None, found {answer:?}"
                ))),
            }
        })
        .unwrap_or(Verdict::Forward)
    }

    fn on_timer(&mut self, ctx: &mut Context<'_>, id: u32) {
        self.call(ON_TIMER, ctx, |method, context| method.call1((context, id)).map(drop));
    }

    fn is_passive(&self) -> bool {
        self.hooks.get(ON_SEGMENT).is_none()
    }

    fn subscribes(&self) -> Subscriptions {
        self.subscriptions
    }

    fn on_link_event(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        event: LinkEvent,
        segment: &lasthop::segment::Segment,
    ) {
        let (name, attempt) = (event.name(), event.attempt());
        let view = Segment::new(segment, direction, ctx.options);
        self.call(ON_LINK_EVENT, ctx, |method, context| {
            method.call1((context, name, view, attempt)).map(drop)
        });
    }

    fn on_link_change(
        &mut self,
        ctx: &mut Context<'_>,
        flow: FlowId,
        direction: Direction,
        change: LinkChange,
    ) {
        let (change, rate) = match change {
            LinkChange::Down => ("down", None),
            LinkChange::Up => ("up", None),
            LinkChange::Rate(rate) => ("rate", Some(rate.0 as f64)),
        };
        self.call(ON_LINK_CHANGE, ctx, |method, context| {
            method.call1((context, flow, direction_name(direction), change, rate)).map(drop)
        });
    }

    fn on_notice(&mut self, ctx: &mut Context<'_>, notice: &Notice) {
        let Notice { kind, flow, value, .. } = *notice;
        self.call(ON_NOTICE, ctx, |method, context| {
            method.call1((context, kind.name(), flow, value)).map(drop)
        });
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let read = |method: &Bound<'_, PyAny>| -> PyResult<Vec<(&'static str, u64)>> {
            let found = method.call0()?;
            let wrong = || wrong_result(method, &found, "names with whole numbers below 2^64");
            let pair = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
                let key = key.extract::<String>().map_err(|_| wrong())?;
                Ok((static_name(&key)?, value.extract().map_err(|_| wrong())?))
            };
            found.cast::<PyDict>().map_err(|_| wrong())?.iter().map(pair).collect()
        };
        self.ask(COUNTERS, read).unwrap_or_default()
    }

    fn state_bytes(&self) -> usize {
        let read = |method: &Bound<'_, PyAny>| returned(method, (), "a whole number of bytes");
        self.ask(STATE_BYTES, read).unwrap_or_default()
    }

    fn export(&mut self, flow: FlowId) -> Option<Vec<u8>> {
        self.ask(EXPORT_STATE, |method| returned(method, (flow,), "bytes or None")).flatten()
    }

    fn import(&mut self, flow: FlowId, state: &[u8]) -> bool {
        self.ask(IMPORT_STATE, |method| method.call1((flow, state)).map(drop)).is_some()
    }
}

/// What a method returns. An error in the method is left as it is.
fn returned<'py, A: PyCallArgs<'py>, T: for<'a> FromPyObject<'a, 'py>>(
    method: &Bound<'py, PyAny>,
    arguments: A,
    allowed: &str,
) -> PyResult<T> {
    let found = method.call1(arguments)?;
    found.extract().map_err(|_| wrong_result(method, &found, allowed))
}

/// The error for a result of another type, or out of range.
fn wrong_result(method: &Bound<'_, PyAny>, found: &Bound<'_, PyAny>, allowed: &str) -> PyErr {
    let name = method.getattr("__qualname__").map(|name| name.to_string()).unwrap_or_default();
    let found = found.repr().map(|text| text.to_string()).unwrap_or_default();
    InputError::new_err(format!("{name}() must return {allowed}, found {found}"))
}
