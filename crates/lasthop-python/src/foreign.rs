//! Window rules written in Python.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lasthop::schemes::catalogue::ForeignWindow;
use lasthop::schemes::catalogue::RecoverySlot;
use lasthop::schemes::end_to_end::reno::RenoWindow;
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
    /// Congestion window, without the inflation of fast recovery.
    #[pyo3(get, set)]
    cwnd: f64,
    /// Slow start threshold; may be infinite.
    #[pyo3(get, set)]
    ssthresh: f64,
}

/// An ACK that acknowledges new data.
#[pyclass(module = "lasthop._native", frozen, get_all)]
pub struct Ack {
    /// Now, in seconds.
    now_s: f64,
    /// Bytes newly acknowledged.
    bytes: u64,
    /// Round-trip time sample of this ACK in seconds, if it gives one.
    rtt_s: Option<f64>,
    /// Smoothed round-trip time in seconds, once there is one.
    srtt_s: Option<f64>,
    /// Bytes in flight after this ACK.
    flight: u64,
    /// Maximum segment size in bytes.
    mss: u32,
}

/// A reason to reduce.
#[pyclass(module = "lasthop._native", frozen)]
pub struct Loss {
    loss: window::Loss,
}

#[pymethods]
impl Loss {
    /// Now, in seconds.
    #[getter]
    fn now_s(&self) -> f64 {
        self.loss.now.as_secs()
    }
    /// "duplicate-acks" (SACK and RACK too), "timeout" or "ecn".
    #[getter]
    fn kind(&self) -> &'static str {
        match self.loss.kind {
            LossKind::DuplicateAcks => "duplicate-acks",
            LossKind::Timeout => "timeout",
            LossKind::Ecn => "ecn",
        }
    }
    /// Bytes in flight.
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
    /// What the profile says a reduction starts from, in bytes.
    #[getter]
    fn base(&self) -> f64 {
        self.loss.base()
    }
    /// Maximum segment size in bytes.
    #[getter]
    fn mss(&self) -> u32 {
        self.loss.mss
    }
    /// ssthresh for a window of `bytes` left after the reduction: at least two segments, whole ones
    /// if the profile says so.
    fn ssthresh(&self, bytes: f64) -> f64 {
        self.loss.ssthresh(bytes)
    }
    /// Reno's reduction (RFC 5681): ssthresh is half of `base` and at least two segments, cwnd the
    /// same but not above what it was; one segment after a timeout.
    fn halve(&self, window: &mut Window) {
        let mut w = window::Window { cwnd: window.cwnd, ssthresh: window.ssthresh };
        window::halve(&mut w, &self.loss);
        (window.cwnd, window.ssthresh) = (w.cwnd, w.ssthresh);
    }
}

/// A subclass of `lasthop.CongestionControl`.
pub struct ForeignRule {
    class: Py<PyType>,
    /// Its name in reports.
    pub label: String,
    /// Loss recovery under it.
    pub recovery: RecoverySlot,
}

impl ForeignRule {
    /// Reads what the class says of itself.
    pub fn new(class: &Bound<'_, PyType>) -> PyResult<ForeignRule> {
        let base = class.py().import("lasthop.congestion")?.getattr("CongestionControl")?;
        if !class.is_subclass(&base)? || class.is(&base) {
            return Err(InputError::new_err(format!(
                "a scheme is a name or a subclass of lasthop.CongestionControl, found {class}"
            )));
        }
        let label: String = class.getattr("label")?.extract()?;
        let word: String = class.getattr("recovery")?.extract()?;
        let recovery = match word.as_str() {
            "" => RecoverySlot::Paper(Recovery::of(lasthop::tcp::recovery::RecoveryKind::Newreno)),
            word => RecoverySlot::Fixed(word.parse().map_err(InputError::new_err)?),
        };
        let label = if label.is_empty() { class.name()?.extract()? } else { label };
        Ok(ForeignRule { class: class.clone().unbind(), label, recovery })
    }

    /// The rule for one run: its first exception goes to `failure` and ends the run.
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

/// The exception that ended a run.
pub struct Failure {
    error: Mutex<Option<PyErr>>,
    stop: Arc<AtomicBool>,
}

impl Failure {
    /// None yet; `stop` ends the run.
    pub fn new(stop: Arc<AtomicBool>) -> Failure {
        Failure { error: Mutex::new(None), stop }
    }

    fn set(&self, error: PyErr) {
        let mut slot = self.error.lock().unwrap_or_else(|e| e.into_inner());
        slot.get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The exception, if there was one.
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
    /// Calls a method with the window, then takes over what it set.
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
            let said = view.borrow(py);
            if !said.cwnd.is_finite()
                || said.cwnd < 0.0
                || said.ssthresh.is_nan()
                || said.ssthresh < 0.0
            {
                let text = format!(
                    "window.cwnd must be a finite number of bytes and window.ssthresh a number, \
                     found {} and {}",
                    said.cwnd, said.ssthresh
                );
                return Err(PyValueError::new_err(text));
            }
            (window.cwnd, window.ssthresh) = (said.cwnd, said.ssthresh);
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
        let mut said = LossClass::Unclassified;
        self.call(window, |py, object, w| {
            let word: Option<String> =
                object.call_method1(py, "on_loss", (w, view))?.extract(py)?;
            said = match word.as_deref() {
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
        said
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
