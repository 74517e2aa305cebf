//! What the methods of a window rule in Python read and write at each ACK.
//!
//! One object serves many calls, and its fields are atomic: a getter neither counts borrows nor
//! takes a lock. The GIL orders the accesses.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lasthop::tcp::{rate, window};
use lasthop::units::Duration;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A time in seconds.
pub fn seconds(d: Duration) -> f64 {
    d.0 as f64 * 1e-9
}

/// A whole number.
#[derive(Default)]
struct Whole(AtomicU64);

impl Whole {
    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
    fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

/// True or false.
#[derive(Default)]
struct Flag(AtomicBool);

impl Flag {
    fn get(&self) -> bool {
        self.0.load(Relaxed)
    }
    fn set(&self, value: bool) {
        self.0.store(value, Relaxed);
    }
}

/// A floating-point number, as its bits.
#[derive(Default)]
struct Real(AtomicU64);

impl Real {
    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }
}

/// A floating-point number or none, which is a NaN that no computation returns.
struct MaybeReal(AtomicU64);

impl MaybeReal {
    const NONE: u64 = u64::MAX;

    fn get(&self) -> Option<f64> {
        let bits = self.0.load(Relaxed);
        (bits != Self::NONE).then(|| f64::from_bits(bits))
    }
    fn set(&self, value: Option<f64>) {
        let bits = |v: f64| if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() };
        self.0.store(value.map_or(Self::NONE, bits), Relaxed);
    }
}

impl Default for MaybeReal {
    fn default() -> Self {
        MaybeReal(AtomicU64::new(Self::NONE))
    }
}

/// A delivery-rate sample or none; only rules that need "rate-samples" take its lock.
#[derive(Default)]
struct MaybeSample {
    some: AtomicBool,
    sample: Mutex<Option<rate::RateSample>>,
}

impl MaybeSample {
    fn lock(&self) -> MutexGuard<'_, Option<rate::RateSample>> {
        self.sample.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn get(&self) -> Option<RateSample> {
        self.some.load(Relaxed).then(|| *self.lock()).flatten().map(RateSample)
    }
    fn set(&self, value: Option<RateSample>) {
        self.some.store(value.is_some(), Relaxed);
        if let Some(RateSample(sample)) = value {
            *self.lock() = Some(sample);
        }
    }
}

/// What a rule controls: the window in bytes, the pacing rate, a timer.
#[pyclass(module = "lasthop._native", frozen)]
#[derive(Default)]
pub struct Window {
    cwnd: Real,
    ssthresh: Real,
    pacing_bps: MaybeReal,
    timer_s: MaybeReal,
    records: bool,
    samples: Mutex<Vec<(String, f64)>>,
}

impl Window {
    /// No window yet; `records`: [`Window::record`] has an effect.
    pub fn new(records: bool) -> Window {
        Window { records, ..Window::default() }
    }

    /// The window of the sender.
    pub fn window(&self) -> window::Window {
        window::Window { cwnd: self.cwnd.get(), ssthresh: self.ssthresh.get() }
    }

    /// Takes over the window of the sender.
    pub fn set_window(&self, window: &window::Window) {
        self.cwnd.set(window.cwnd);
        self.ssthresh.set(window.ssthresh);
    }

    /// Removes and returns what was recorded.
    pub fn take_samples(&self) -> Vec<(String, f64)> {
        if !self.records {
            return Vec::new();
        }
        std::mem::take(&mut self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Window {
    /// Congestion window, bytes, without the inflation of fast recovery.
    #[getter]
    fn cwnd(&self) -> f64 {
        self.cwnd.get()
    }
    #[setter]
    fn set_cwnd(&self, bytes: f64) {
        self.cwnd.set(bytes);
    }
    /// Slow start threshold, bytes; may be infinite.
    #[getter]
    fn ssthresh(&self) -> f64 {
        self.ssthresh.get()
    }
    #[setter]
    fn set_ssthresh(&self, bytes: f64) {
        self.ssthresh.set(bytes);
    }
    /// Pacing rate of the payload, bit/s; None: as the window allows. The rule must need "pacing".
    #[getter]
    pub(crate) fn pacing_bps(&self) -> Option<f64> {
        self.pacing_bps.get()
    }
    #[setter]
    fn set_pacing_bps(&self, bps: Option<f64>) {
        self.pacing_bps.set(bps);
    }
    /// When `on_timer` is called, seconds since the start of the run; None: not at all.
    #[getter]
    pub(crate) fn timer_s(&self) -> Option<f64> {
        self.timer_s.get()
    }
    #[setter]
    pub(crate) fn set_timer_s(&self, at: Option<f64>) {
        self.timer_s.set(at);
    }

    /// Records a number of the series `name` at the current time, for `run --events` and
    /// `RunResult.series`. Otherwise the call has no effect.
    fn record(&self, name: &str, value: f64) {
        if self.records {
            let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
            samples.push((name.to_string(), value));
        }
    }
}

macro_rules! ack {
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$getter_doc:meta])* $getter:ident: $cell:ident => $result:ty = $read:expr;)*
        }
    ) => {
        $(#[$doc])*
        #[pyclass(module = "lasthop._native", frozen)]
        #[derive(Default)]
        pub struct $name { $($getter: $cell,)* }

        impl $name {
            fn set(&self, ack: &window::Ack) {
                $({
                    let read: fn(&window::Ack) -> $result = $read;
                    self.$getter.set(read(ack));
                })*
            }
        }

        #[pymethods]
        impl $name {
            $($(#[$getter_doc])*
            #[getter]
            fn $getter(&self) -> $result {
                self.$getter.get()
            })*
        }
    };
}

ack! {
    /// What an ACK says.
    Ack {
        /// Current time, seconds since the start of the run.
        now_s: Real => f64 = |a| a.now.as_secs();
        /// Bytes newly acknowledged by the ACK number; for `on_ack` those for which the window may
        /// open.
        bytes: Whole => u64 = |a| a.bytes;
        /// Bytes newly known to be delivered, SACK included.
        delivered: Whole => u64 = |a| a.delivered;
        /// RTT sample of this ACK, seconds; None if it gives none.
        rtt_s: MaybeReal => Option<f64> = |a| a.rtt.map(seconds);
        /// Smoothed RTT, seconds; None before the first sample.
        srtt_s: MaybeReal => Option<f64> = |a| a.srtt.map(seconds);
        /// Bytes in flight after this ACK.
        flight: Whole => u64 = |a| a.flight;
        /// Bytes in flight before this ACK.
        prior_flight: Whole => u64 = |a| a.prior_flight;
        /// First byte that is not acknowledged, as an offset in the stream.
        snd_una: Whole => u64 = |a| a.snd_una;
        /// Offset after the last byte ever sent.
        snd_max: Whole => u64 = |a| a.snd_max;
        /// Maximum segment size, bytes.
        mss: Whole => u64 = |a| a.mss.into();
        /// True if the sender was in recovery when the ACK came.
        recovering: Flag => bool = |a| a.recovering;
        /// True if the ACK carries an ECN echo (RFC 3168).
        ece: Flag => bool = |a| a.ece;
        /// Delivery-rate sample; None if the rule does not need "rate-samples" or this ACK gives
        /// none.
        rate: MaybeSample => Option<RateSample> = |a| a.rate.map(RateSample);
    }
}

/// The arguments of `on_ack`: the same objects at each call, unless the rule kept the last ACK.
pub struct AckArguments {
    ack: Py<Ack>,
    arguments: Py<PyTuple>,
}

impl AckArguments {
    /// The arguments `(view, ack)`; no ACK yet.
    ///
    /// # Errors
    ///
    /// `MemoryError`.
    pub fn new(py: Python<'_>, view: &Py<Window>) -> PyResult<AckArguments> {
        let ack = Py::new(py, Ack::default())?;
        let arguments = PyTuple::new(py, [view.as_any(), ack.as_any()])?.unbind();
        Ok(AckArguments { ack, arguments })
    }

    /// The arguments for `ack`.
    ///
    /// # Errors
    ///
    /// `MemoryError`.
    pub fn of<'py>(
        &mut self,
        py: Python<'py>,
        view: &Py<Window>,
        ack: &window::Ack,
    ) -> PyResult<Bound<'py, PyTuple>> {
        if references(&self.ack, py) > 2 || references(&self.arguments, py) > 1 {
            *self = AckArguments::new(py, view)?;
        }
        self.ack.get().set(ack);
        Ok(self.arguments.bind(py).clone())
    }
}

/// How many references to an object there are.
#[expect(deprecated, reason = "the only safe function for it")]
fn references<T>(object: &Py<T>, py: Python<'_>) -> isize {
    object.get_refcnt(py)
}

macro_rules! getters {
    (
        $(#[$doc:meta])* $name:ident($inner:ty) {
            $($(#[$getter_doc:meta])* $getter:ident: $result:ty = $read:expr;)*
        }
    ) => {
        $(#[$doc])*
        #[pyclass(module = "lasthop._native", frozen)]
        pub struct $name(pub(crate) $inner);

        #[pymethods]
        impl $name {
            $($(#[$getter_doc])*
            #[getter]
            fn $getter(&self) -> $result {
                let read: fn(&$inner) -> $result = $read;
                read(&self.0)
            })*
        }
    };
}

getters! {
    /// A delivery-rate sample (draft-ietf-ccwg-bbr, section 4.1).
    RateSample(rate::RateSample) {
        /// Delivery rate, bit/s.
        rate_bps: f64 = |r| r.rate * 8.0;
        /// Bytes delivered in the interval.
        delivered: u64 = |r| r.delivered;
        /// Length of the interval, seconds.
        interval_s: f64 = |r| seconds(r.interval);
        /// Bytes that the connection had delivered when the newest acknowledged segment was sent.
        prior_delivered: u64 = |r| r.prior_delivered;
        /// Bytes that the connection has delivered by now.
        total_delivered: u64 = |r| r.total_delivered;
        /// True if the application did not keep the pipe full.
        app_limited: bool = |r| r.app_limited;
        /// Bytes in flight when that segment had been sent, itself included.
        tx_in_flight: u64 = |r| r.tx_in_flight;
        /// Round-trip time of that segment, seconds; None if it was sent more than once.
        rtt_s: Option<f64> = |r| r.rtt.map(seconds);
        /// Bytes found lost between then and now.
        lost: u64 = |r| r.lost;
        /// Bytes found lost by this ACK.
        newly_lost: u64 = |r| r.newly_lost;
    }
}

getters! {
    /// A connection that has just been established.
    Start(window::Start) {
        /// Current time, seconds since the start of the run.
        now_s: f64 = |s| s.now.as_secs();
        /// Number of the connection.
        flow: u32 = |s| s.flow;
        /// Number from which to derive what would be drawn at random: that of the connection, or
        /// one that is drawn by seed, in runs that draw the starts of flows.
        draw: u64 = |s| s.draw;
        /// Maximum segment size, bytes.
        mss: u32 = |s| s.mss;
        /// Round-trip time of the handshake, seconds; None if it gave none.
        rtt_s: Option<f64> = |s| s.rtt.map(seconds);
        /// True if the connection uses SACK.
        sack: bool = |s| s.sack;
        /// The receive window that the receiver advertises first, bytes.
        receive_window: u64 = |s| s.receive_window;
    }
}

getters! {
    /// A segment that is newly considered lost.
    Lost(window::Lost) {
        /// Current time, seconds since the start of the run.
        now_s: f64 = |l| l.now.as_secs();
        /// Offset of its first byte.
        seq: u64 = |l| l.seq;
        /// Its length, bytes.
        bytes: u64 = |l| l.bytes;
        /// Bytes in flight when it had been sent, itself included.
        tx_in_flight: u64 = |l| l.tx_in_flight;
        /// Bytes found lost since it was sent, itself included.
        lost: u64 = |l| l.lost;
        /// Bytes that the connection has delivered by now.
        delivered: u64 = |l| l.delivered;
        /// True if the application did not keep the pipe full when it was sent.
        app_limited: bool = |l| l.app_limited;
    }
}
