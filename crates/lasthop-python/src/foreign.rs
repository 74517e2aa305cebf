//! Congestion window rules written in Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lasthop::schemes::catalogue::ForeignWindow;
use lasthop::schemes::catalogue::RecoverySlot;
use lasthop::schemes::reno::RenoWindow;
use lasthop::tcp::recovery::Recovery;
use lasthop::tcp::window::{self, LossClass, LossKind, Needs, WindowRule};
use lasthop::units::{Duration, Time};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::InputError;

/// The sender's congestion state, in bytes.
#[pyclass(module = "lasthop._native")]
pub struct Window {
    /// Congestion window, bytes, without the inflation of fast recovery.
    #[pyo3(get, set)]
    cwnd: f64,
    /// Slow start threshold, bytes; may be infinite.
    #[pyo3(get, set)]
    ssthresh: f64,
}

/// An ACK that acknowledges new data.
#[pyclass(module = "lasthop._native", frozen, get_all)]
pub struct Ack {
    /// Current time, seconds since the start of the run.
    now_s: f64,
    /// Newly acknowledged bytes.
    bytes: u64,
    /// RTT sample of this ACK, seconds; None if it gives none.
    rtt_s: Option<f64>,
    /// Smoothed RTT, seconds; None before the first sample.
    srtt_s: Option<f64>,
    /// Bytes in flight after this ACK.
    flight: u64,
    /// Maximum segment size, bytes.
    mss: u32,
}

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
    fn halve(&self, window: &mut Window) {
        let mut w = window::Window { cwnd: window.cwnd, ssthresh: window.ssthresh };
        window::halve(&mut w, &self.loss);
        (window.cwnd, window.ssthresh) = (w.cwnd, w.ssthresh);
    }
}

/// A window rule defined by a subclass of `lasthop.CongestionControl`.
pub struct ForeignRule {
    class: Py<PyType>,
    /// Name of the rule in reports.
    pub label: String,
    /// Loss recovery used with the rule.
    pub recovery: RecoverySlot,
}

impl ForeignRule {
    /// Reads the attributes of the class.
    ///
    /// # Errors
    ///
    /// `InputError` if `class` is not a subclass of `CongestionControl` or names an unknown
    /// recovery; any exception raised by the class.
    pub fn new(class: &Bound<'_, PyType>) -> PyResult<ForeignRule> {
        let base = class.py().import("lasthop.congestion")?.getattr("CongestionControl")?;
        if !class.is_subclass(&base)? || class.is(&base) {
            return Err(InputError::new_err(format!(
                "a scheme must be a name or a subclass of lasthop.CongestionControl, found {class}"
            )));
        }
        let label: String = class.getattr("label")?.extract()?;
        let recovery_name: String = class.getattr("recovery")?.extract()?;
        let recovery = match recovery_name.as_str() {
            "" => RecoverySlot::Paper(Recovery::of(lasthop::tcp::recovery::RecoveryKind::Newreno)),
            recovery_name => {
                RecoverySlot::Fixed(recovery_name.parse().map_err(InputError::new_err)?)
            }
        };
        let label = if label.is_empty() { class.name()?.extract()? } else { label };
        Ok(ForeignRule { class: class.clone().unbind(), label, recovery })
    }

    /// Creates the rule for one run. Its first exception is stored in `failure` and ends the run.
    pub fn for_run(&self, py: Python<'_>, failure: &Arc<Failure>) -> ForeignWindow {
        let (class, failure) = (self.class.clone_ref(py), failure.clone());
        let make = move || -> Box<dyn WindowRule> {
            match Python::attach(|py| class.call0(py)) {
                Ok(object) => Box::new(Rule { object, failure: failure.clone() }),
                Err(e) => {
                    failure.set(e);
                    Box::new(RenoWindow)
                }
            }
        };
        ForeignWindow {
            name: self.label.clone(),
            make: Arc::new(make),
            needs: Needs::default(),
            recovery: self.recovery,
        }
    }
}

/// Holds the exception that ended a run.
pub struct Failure {
    error: Mutex<Option<PyErr>>,
    stop: Arc<AtomicBool>,
}

impl Failure {
    /// No exception yet; setting `stop` ends the run.
    pub fn new(stop: Arc<AtomicBool>) -> Failure {
        Failure { error: Mutex::new(None), stop }
    }

    fn set(&self, error: PyErr) {
        let mut slot = self.error.lock().unwrap_or_else(|e| e.into_inner());
        slot.get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Removes and returns the exception, if there was one.
    pub fn take(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

struct Rule {
    object: Py<PyAny>,
    failure: Arc<Failure>,
}

fn seconds(d: Duration) -> f64 {
    d.0 as f64 * 1e-9
}

impl Rule {
    /// Calls a method with the window, checks the values it set and copies them back.
    fn call(
        &self,
        window: &mut window::Window,
        call: impl FnOnce(Python<'_>, &Py<PyAny>, &Py<Window>) -> PyResult<()>,
    ) {
        if self.failure.stop.load(Ordering::Relaxed) {
            return;
        }
        let result = Python::attach(|py| {
            let view = Py::new(py, Window { cwnd: window.cwnd, ssthresh: window.ssthresh })?;
            call(py, &self.object, &view)?;
            let view = view.borrow(py);
            let (cwnd, ssthresh) = (view.cwnd, view.ssthresh);
            if !cwnd.is_finite() || cwnd < 0.0 || ssthresh.is_nan() || ssthresh < 0.0 {
                return Err(PyValueError::new_err(format!(
                    "window.cwnd must be a finite number of bytes and window.ssthresh a number, \
                     both not negative, found {cwnd} and {ssthresh}"
                )));
            }
            (window.cwnd, window.ssthresh) = (cwnd, ssthresh);
            Ok(())
        });
        if let Err(e) = result {
            self.failure.set(e);
        }
    }
}

impl WindowRule for Rule {
    fn on_ack(&mut self, window: &mut window::Window, ack: &window::Ack) {
        let view = Ack {
            now_s: ack.now.as_secs(),
            bytes: ack.bytes,
            rtt_s: ack.rtt.map(seconds),
            srtt_s: ack.srtt.map(seconds),
            flight: ack.flight,
            mss: ack.mss,
        };
        self.call(window, |py, object, w| object.call_method1(py, "on_ack", (w, view)).map(drop));
    }

    fn on_loss(&mut self, window: &mut window::Window, loss: &window::Loss) -> LossClass {
        let view = Loss { loss: *loss };
        let mut class = LossClass::Unclassified;
        self.call(window, |py, object, w| {
            let answer: Option<String> =
                object.call_method1(py, "on_loss", (w, view))?.extract(py)?;
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
        class
    }

    fn on_dupack(&mut self, window: &mut window::Window, now: Time, count: u32) {
        self.call(window, |py, object, w| {
            object.call_method1(py, "on_dupack", (w, now.as_secs(), count)).map(drop)
        });
    }

    fn on_recovered(&mut self, window: &mut window::Window, now: Time) {
        self.call(window, |py, object, w| {
            object.call_method1(py, "on_recovered", (w, now.as_secs())).map(drop)
        });
    }
}
