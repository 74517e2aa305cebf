//! The window slot: what a congestion-control scheme may decide.

use crate::tcp::profile::{HalvingBase, Profile};
use crate::units::{Duration, Time};

/// The sender's congestion state, in bytes. A rule changes it; the sender only reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Congestion window, without the inflation of fast recovery.
    pub cwnd: f64,
    /// Slow start threshold.
    pub ssthresh: f64,
}

/// An ACK that acknowledges new data.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Now.
    pub now: Time,
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Round-trip time sample of this ACK, if it gives one.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time, once there is one.
    pub srtt: Option<Duration>,
    /// Bytes in flight after this ACK.
    pub flight: u64,
    /// Maximum segment size in bytes.
    pub mss: u32,
}

/// A reason to reduce.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Now.
    pub now: Time,
    /// Why.
    pub kind: LossKind,
    /// Bytes in flight.
    pub flight: u64,
    /// The window in use in bytes: cwnd plus inflation, not above the receive window.
    pub window: f64,
    /// Maximum segment size in bytes.
    pub mss: u32,
    /// What the profile says a reduction halves.
    pub halving: HalvingBase,
    /// ssthresh is cut off to whole segments.
    pub integer_ssthresh: bool,
    /// cwnd after a timeout, in bytes.
    pub loss_window: f64,
}

/// What told the sender of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// Enough duplicate ACKs.
    DuplicateAcks,
    /// The retransmission timer.
    Timeout,
}

impl Loss {
    /// What is reduced, as the profile says.
    pub fn base(&self) -> f64 {
        match self.halving {
            HalvingBase::FlightSize => self.flight as f64,
            HalvingBase::Window => self.window,
        }
    }

    /// ssthresh for a window of `bytes` left after the reduction: at least two segments, whole ones if the profile says so.
    pub fn ssthresh(&self, bytes: f64) -> f64 {
        let mss = f64::from(self.mss);
        let bytes = if self.integer_ssthresh { libm::floor(bytes / mss) * mss } else { bytes };
        bytes.max(2.0 * mss)
    }
}

/// The window slot. Only `on_ack` is required; the rest is Reno's.
pub trait WindowRule: Send {
    /// New data acknowledged outside of recovery (RFC 5681 section 3.1).
    fn on_ack(&mut self, window: &mut Window, ack: &Ack);

    /// A loss was found. Sets ssthresh and cwnd; the inflation of fast recovery is the sender's affair.
    fn on_loss(&mut self, window: &mut Window, loss: &Loss) {
        halve(window, loss);
    }

    /// A duplicate ACK (number `count` in a row).
    fn on_dupack(&mut self, _window: &mut Window, _now: Time, _count: u32) {}

    /// Recovery ended with an ACK for everything that had been outstanding.
    fn on_recovered(&mut self, _window: &mut Window, _now: Time) {}
}

impl WindowRule for Box<dyn WindowRule> {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        (**self).on_ack(window, ack);
    }
    fn on_loss(&mut self, window: &mut Window, loss: &Loss) {
        (**self).on_loss(window, loss);
    }
    fn on_dupack(&mut self, window: &mut Window, now: Time, count: u32) {
        (**self).on_dupack(window, now, count);
    }
    fn on_recovered(&mut self, window: &mut Window, now: Time) {
        (**self).on_recovered(window, now);
    }
}

/// Slow start and congestion avoidance (RFC 5681, section 3.1): one segment per ACK below ssthresh, one per round trip above.
#[inline]
pub fn grow(window: &mut Window, ack: &Ack) {
    let mss = f64::from(ack.mss);
    window.cwnd += if window.cwnd < window.ssthresh { mss.min(ack.bytes as f64) } else { mss * mss / window.cwnd };
}

/// Reno's reduction: half of what the profile says, one segment after a timeout.
pub fn halve(window: &mut Window, loss: &Loss) {
    let half = loss.base() / 2.0;
    window.ssthresh = loss.ssthresh(half);
    window.cwnd = match loss.kind {
        LossKind::Timeout => loss.loss_window,
        LossKind::DuplicateAcks if loss.integer_ssthresh => half,
        LossKind::DuplicateAcks => window.ssthresh,
    };
}

/// What a scheme gives a sender besides its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryKind {
    /// Tahoe: fast retransmit, then slow start from one segment.
    Tahoe,
    /// Reno: fast recovery until the first new ACK.
    Reno,
    /// NewReno (RFC 6582): fast recovery through partial ACKs.
    Newreno,
}

impl Window {
    /// The state at the start of a connection.
    pub fn initial(profile: &Profile, mss: u32, receive_window: u64) -> Window {
        use crate::tcp::profile::{InitialSsthresh, NamedSsthresh};
        let ssthresh = match profile.initial_ssthresh {
            InitialSsthresh::Size(s) => s.bytes(mss) as f64,
            InitialSsthresh::Named(NamedSsthresh::ReceiveWindow) => receive_window as f64,
            InitialSsthresh::Named(NamedSsthresh::Unlimited) => f64::INFINITY,
        };
        Window { cwnd: profile.initial_window.bytes(mss) as f64, ssthresh }
    }
}
