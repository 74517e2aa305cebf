//! Window rules written in Python.

use std::collections::BTreeSet;
use std::sync::Arc;

use lasthop::schemes::catalogue::{ForeignWindow, RecoverySlot};
use lasthop::schemes::reno::RenoWindow;
use lasthop::tcp::recovery::{Recovery, RecoveryKind};
use lasthop::tcp::window::{self, LossClass, LossKind, Needs, WindowRule};
use lasthop::units::{Duration, Rate, Time};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use serde_json::{Map, Value};

use crate::InputError;
use crate::foreign_run::{Hooks, RunContext, unknown_word, words};
use crate::foreign_views::{AckArguments, Lost, Start, Window};

/// A congestion signal: a detected loss, a timeout or an ECN echo.
#[pyclass(module = "lasthop._native", frozen)]
pub struct Loss {
    loss: window::Loss,
}

#[pymethods]
impl Loss {
    /// Current time, seconds since the start of the run.
    #[getter]
    fn now_s(&self) -> f64 {
        self.loss.now.as_secs()
    }
    /// The signal: "duplicate-acks" (also for SACK and RACK), "timeout" or "ecn".
    #[getter]
    fn kind(&self) -> &'static str {
        match self.loss.kind {
            LossKind::DuplicateAcks => "duplicate-acks",
            LossKind::Timeout => "timeout",
            LossKind::Ecn => "ecn",
        }
    }
    /// Bytes in flight when the signal arrived.
    #[getter]
    fn flight(&self) -> u64 {
        self.loss.flight
    }
    /// Bytes in flight that are neither SACKed nor deemed lost (RFC 6675, SetPipe); `flight`
    /// without SACK.
    #[getter]
    fn pipe(&self) -> u64 {
        self.loss.pipe
    }
    /// The value that the profile reduces from, bytes: bytes in flight or cwnd.
    #[getter]
    fn base(&self) -> f64 {
        self.loss.base()
    }
    /// Maximum segment size, bytes.
    #[getter]
    fn mss(&self) -> u32 {
        self.loss.mss
    }
    /// ssthresh for a reduced window of `bytes`: at least two segments, rounded to whole segments
    /// if the profile requires it.
    fn ssthresh(&self, bytes: f64) -> f64 {
        self.loss.ssthresh(bytes)
    }
    /// Reno's reduction (RFC 5681): ssthresh becomes half of `base`, at least two segments. cwnd
    /// becomes ssthresh, but is not increased; after a timeout it becomes one segment.
    fn halve(&self, window: &Bound<'_, Window>) {
        let mut w = window.get().window();
        window::halve(&mut w, &self.loss);
        window.get().set_window(&w);
    }
}

/// The methods of a rule in Python, and their indices.
const HOOKS: [&str; 10] = [
    "on_ack",
    "on_established",
    "on_any_ack",
    "on_loss",
    "on_lost",
    "on_dupack",
    "on_recovered",
    "on_undo",
    "on_sent",
    "on_timer",
];
const ON_ACK: usize = 0;
const ON_ESTABLISHED: usize = 1;
const ON_ANY_ACK: usize = 2;
const ON_LOSS: usize = 3;
const ON_LOST: usize = 4;
const ON_DUPACK: usize = 5;
const ON_RECOVERED: usize = 6;
const ON_UNDO: usize = 7;
const ON_SENT: usize = 8;
const ON_TIMER: usize = 9;

/// What a subclass of `CongestionControl` says of itself.
pub struct WindowClass {
    hooks: Arc<BTreeSet<String>>,
    /// The methods of `WindowRule` that the rule has.
    methods: Arc<[&'static str]>,
    needs: Needs,
    recovery: RecoverySlot,
    steers_recovery: bool,
}

impl WindowClass {
    /// Reads the attributes of the class; it overrides `hooks`.
    ///
    /// # Errors
    ///
    /// `InputError` for an unknown word in `needs` or an unknown recovery.
    pub fn new(class: &Bound<'_, PyType>, hooks: BTreeSet<String>) -> PyResult<WindowClass> {
        let mut methods: Vec<_> = HOOKS.into_iter().filter(|name| hooks.contains(*name)).collect();
        let mut needs = Needs::default();
        for word in words(class, "needs")? {
            match word.as_str() {
                "pacing" => methods.push("pacing"),
                "rate-samples" => needs.rate_samples = true,
                "timestamps" => needs.timestamps = true,
                "ecn" => needs.ecn = true,
                other => {
                    let allowed = "pacing, rate-samples, timestamps, ecn";
                    return Err(unknown_word(class, "needs", other, allowed));
                }
            }
        }
        let recovery: String = class.getattr("recovery")?.extract()?;
        let recovery = match recovery.as_str() {
            "" => RecoverySlot::Paper(Recovery::of(RecoveryKind::Newreno)),
            recovery => RecoverySlot::Fixed(recovery.parse().map_err(InputError::new_err)?),
        };
        Ok(WindowClass {
            hooks: Arc::new(hooks),
            methods: methods.into(),
            needs,
            recovery,
            steers_recovery: class.getattr("steers_recovery")?.extract()?,
        })
    }

    /// The scheme whose rules belong to `run`.
    pub fn scheme(
        &self,
        class: Py<PyType>,
        name: String,
        settings: Map<String, Value>,
        run: &Arc<RunContext>,
    ) -> ForeignWindow {
        let WindowClass { needs, recovery, steers_recovery, .. } = *self;
        let (hooks, methods, run) = (self.hooks.clone(), self.methods.clone(), run.clone());
        let make = move || -> Box<dyn WindowRule> {
            let made = Python::attach(|py| -> PyResult<Rule> {
                let view = Py::new(py, Window::new(run.records()))?;
                Ok(Rule {
                    hooks: Hooks::new(&class.bind(py).call0()?, &HOOKS, &hooks)?,
                    ack: AckArguments::new(py, &view)?,
                    view,
                    run: run.clone(),
                    connection: 0,
                    pacing: None,
                    timer: (None, Time::NEVER),
                    methods: methods.clone(),
                    asks: window::Hooks::of(&methods),
                    steers_recovery,
                })
            });
            match made {
                Ok(rule) => Box::new(rule),
                Err(error) => {
                    run.fail(error);
                    Box::new(RenoWindow)
                }
            }
        };
        ForeignWindow { name, settings, make: Arc::new(make), needs, recovery }
    }
}

struct Rule {
    hooks: Hooks<10>,
    /// What the methods get; one object for all calls.
    view: Py<Window>,
    ack: AckArguments,
    run: Arc<RunContext>,
    connection: u32,
    pacing: Option<Rate>,
    /// `timer_s` of the view after the last call, and the same as a time.
    timer: (Option<f64>, Time),
    methods: Arc<[&'static str]>,
    asks: window::Hooks,
    steers_recovery: bool,
}

impl Rule {
    /// Calls a method that the class overrides, and takes over what it set. Returns false if the
    /// class does not override it.
    fn call(
        &mut self,
        hook: usize,
        now: Time,
        window: &mut window::Window,
        call: impl FnOnce(&Bound<'_, PyAny>, &Py<Window>, &mut AckArguments) -> PyResult<()>,
    ) -> bool {
        if self.run.is_over() {
            return true;
        }
        let Some(method) = self.hooks.get(hook) else { return false };
        let result = Python::attach(|py| {
            let view = self.view.get();
            view.set_window(window);
            call(method.bind(py), &self.view, &mut self.ack)?;
            let samples = view.take_samples();
            if !samples.is_empty() {
                self.run.record(now, self.connection, samples.into_iter());
            }
            let window::Window { cwnd, ssthresh } = view.window();
            if !cwnd.is_finite() || cwnd < 0.0 || ssthresh.is_nan() || ssthresh < 0.0 {
                return Err(PyValueError::new_err(format!(
                    "window.cwnd must be a finite number of bytes and window.ssthresh a number, \
                     both not negative, found {cwnd} and {ssthresh}"
                )));
            }
            let pacing = pacing_rate(view.pacing_bps(), self.asks)?;
            let timer = if view.timer_s() == self.timer.0 {
                self.timer
            } else {
                (view.timer_s(), deadline(view.timer_s(), now, self.asks)?)
            };
            (window.cwnd, window.ssthresh) = (cwnd, ssthresh);
            Ok((pacing, timer))
        });
        match result {
            Ok((pacing, timer)) => (self.pacing, self.timer) = (pacing, timer),
            Err(error) => {
                self.run.fail(error);
                self.timer = (None, Time::NEVER);
            }
        }
        true
    }

    /// Calls `on_ack` or `on_any_ack`.
    fn call_with_ack(&mut self, hook: usize, window: &mut window::Window, ack: &window::Ack) {
        self.call(hook, ack.now, window, |method, view, arguments| {
            method.call1(arguments.of(method.py(), view, ack)?).map(drop)
        });
    }
}

/// The pacing rate that a rule set.
fn pacing_rate(bps: Option<f64>, asks: window::Hooks) -> PyResult<Option<Rate>> {
    let Some(bps) = bps else { return Ok(None) };
    if !asks.pacing {
        return Err(PyValueError::new_err(
            "window.pacing_bps has no effect: give the class needs = (\"pacing\",)",
        ));
    }
    if !(bps.is_finite() && bps >= 1.0) {
        return Err(PyValueError::new_err(format!(
            "window.pacing_bps must be at least 1 bit/s, or None, found {bps}"
        )));
    }
    Ok(Some(Rate(bps as u64)))
}

/// The time of the timer that a rule set.
fn deadline(at: Option<f64>, now: Time, asks: window::Hooks) -> PyResult<Time> {
    let Some(at) = at else { return Ok(Time::NEVER) };
    if !asks.timer {
        return Err(PyValueError::new_err(
            "window.timer_s has no effect: define on_timer(window, now_s)",
        ));
    }
    let time = Time::ZERO + Duration::from_secs_f64(at.max(0.0));
    if !at.is_finite() || time <= now {
        return Err(PyValueError::new_err(format!(
            "window.timer_s must be later than now ({} s), or None, found {at}",
            now.as_secs()
        )));
    }
    Ok(time)
}

impl WindowRule for Rule {
    fn methods(&self) -> &[&'static str] {
        &self.methods
    }

    fn on_ack(&mut self, window: &mut window::Window, ack: &window::Ack) {
        self.call_with_ack(ON_ACK, window, ack);
    }

    fn on_established(&mut self, window: &mut window::Window, start: &window::Start) {
        self.connection = start.flow;
        self.call(ON_ESTABLISHED, start.now, window, |m, w, _| {
            m.call1((w, Start(*start))).map(drop)
        });
    }

    fn on_any_ack(&mut self, window: &mut window::Window, ack: &window::Ack) {
        self.call_with_ack(ON_ANY_ACK, window, ack);
    }

    fn on_loss(&mut self, window: &mut window::Window, loss: &window::Loss) -> LossClass {
        let mut class = LossClass::Unclassified;
        let called = self.call(ON_LOSS, loss.now, window, |method, w, _| {
            let answer: Option<String> = method.call1((w, Loss { loss: *loss }))?.extract()?;
            class = match answer.as_deref() {
                None => LossClass::Unclassified,
                Some("wireless") => LossClass::Wireless,
                Some("congestion") => LossClass::Congestion,
                Some(other) => {
                    return Err(PyValueError::new_err(format!(
                        "on_loss must return \"wireless\", \"congestion\" or None, found \
                         \"{other}\""
                    )));
                }
            };
            Ok(())
        });
        if called { class } else { RenoWindow.on_loss(window, loss) }
    }

    fn on_lost(&mut self, window: &mut window::Window, lost: &window::Lost) {
        self.call(ON_LOST, lost.now, window, |m, w, _| m.call1((w, Lost(*lost))).map(drop));
    }

    fn on_dupack(&mut self, window: &mut window::Window, now: Time, count: u32) {
        self.call(ON_DUPACK, now, window, |m, w, _| m.call1((w, now.as_secs(), count)).map(drop));
    }

    fn on_recovered(&mut self, window: &mut window::Window, now: Time) {
        self.call(ON_RECOVERED, now, window, |m, w, _| m.call1((w, now.as_secs())).map(drop));
    }

    fn on_undo(&mut self, window: &mut window::Window, before: &window::Window, now: Time) {
        let (cwnd, ssthresh) = (before.cwnd, before.ssthresh);
        let called = self.call(ON_UNDO, now, window, |m, w, _| {
            m.call1((w, now.as_secs(), cwnd, ssthresh)).map(drop)
        });
        if !called {
            RenoWindow.on_undo(window, before, now);
        }
    }

    fn on_sent(&mut self, window: &mut window::Window, now: Time, bytes: u32, flight: u64) {
        self.call(ON_SENT, now, window, |m, w, _| {
            m.call1((w, now.as_secs(), bytes, flight)).map(drop)
        });
    }

    fn deadline(&self) -> Time {
        self.timer.1
    }

    fn on_timer(&mut self, window: &mut window::Window, now: Time) {
        self.view.get().set_timer_s(None);
        self.timer = (None, Time::NEVER);
        self.call(ON_TIMER, now, window, |m, w, _| m.call1((w, now.as_secs())).map(drop));
    }

    fn pacing(&self) -> Option<Rate> {
        self.pacing
    }

    fn steers_recovery(&self) -> bool {
        self.steers_recovery
    }
}
