//! Radio Network Feedback: a split-connection proxy that sets its window from reports of the radio
//! network controller.
//!
//! Source: T. Janevski, S. Panev, "Modifications for TCP Improvements over Wireless Networks", 2009
//! (janevski2009), after N. Möller et al., CDC 2005.
//!
//! Deployed at: a proxy in the core network, and the node where the radio link begins. The end
//! hosts are unmodified. Without a node of role proxy, the base station is the proxy.
//!
//! Wire: notices from that node to the proxy, one packet of 40 bytes each.
//!
//! Idea: the controller reports the radio link's rate when it changes and, once per second, the
//! bytes in the link's queue. (If the rate of the link is unknown, as for a recorded trace, it
//! reports once per second what it has sent.) The proxy sets its congestion window to `w = b·τ +
//! q_ref + c`: the bandwidth-delay product at rate `b`, the target queue, and a correction to which
//! each report of a queue `q` adds `K·(q_ref - q)`. On a saturated link the queue error follows
//! `e(k+1) = (1 - K)·e(k)`. The proxy controls the server's rate by the receive window, depending
//! on the bytes queued in the proxy. The source gives the structure and no equations; these are the
//! simplest ones with that structure. Möller et al. (CDC 2005; WCNC 2007) give equations, but only
//! their abstracts were available, so this control law has not been compared with theirs.
//!
//! While the rate is 0 the proxy freezes its sender and its timers. If the link has transmitted and
//! lost frames meanwhile, the controller reports the remaining queue when the link is up again, and
//! the proxy immediately retransmits all data that are neither queued nor acknowledged. Losses by
//! queue overflow are repaired by the sender's loss recovery under the same window; only a timeout
//! resets the window.
//!
//! Assumes: the controller knows the rate, and the radio link is the bottleneck.
//!
//! Bad at: end-to-end semantics; signalling per terminal; stale data when the user moves on to
//! another page; radio losses (not distinguished from other losses); gains of 2 and more, with
//! which the queue oscillates with growing amplitude.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{AnyAgent, AnyWindow, Bound, Entry, Family, Footprint, SchemeConfig};
use crate::shared::relay_buffer::check_buffer;
use lasthop_core::leg::{Capabilities, LegEvent, Relay, Side, SplitConnection};
use lasthop_core::role::Role;
use lasthop_core::segment::{Notice, NoticeKind};
use lasthop_core::units::{Duration, Size, Time};
use lasthop_tcp::sender::Limit;
use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Window, WindowRule, grow, halve, window_rule,
};

mod rnc;
pub use rnc::RnfAgent;
#[cfg(test)]
mod tests;

/// Settings of RNF.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rnf {
    /// Target queue at the radio link (q_ref; janevski2009: 15 packets, 5 packets in figure 5).
    pub queue: Size,
    /// Gain K of the correction per report. The queue converges for 0 < K < 2, fastest with 1; from
    /// 2 on it oscillates with growing amplitude.
    pub gain: f64,
    /// Time between two queue reports (janevski2009: 1 s).
    pub period: Duration,
    /// RTT between proxy and terminal with empty queues, τ; 0: the minimum measured.
    pub round_trip: Duration,
    /// Repeat the rate with each queue report, so that a lost notice is corrected.
    pub repeat_rate: bool,
    /// Immediately retransmit the data lost in an outage. Off: wait for the retransmission timer.
    pub resend: bool,
    /// Control the server's rate by the receive window, from the bytes queued in the proxy. Off:
    /// only `buffer` limits them.
    pub steer_server: bool,
    /// Buffer of the proxy per flow: bytes received and not yet acknowledged by the terminal.
    /// Default: 256000 B. Under profile linux, if larger: twice the bandwidth-delay product of the
    /// path.
    pub buffer: Option<Size>,
    /// Sender of the server's leg, and loss recovery of both legs; empty: the profile's default.
    pub sender: String,
}

impl Default for Rnf {
    fn default() -> Self {
        Rnf {
            queue: Size::Segments(15.0),
            gain: 0.5,
            period: Duration::secs(1),
            round_trip: Duration::ZERO,
            repeat_rate: true,
            resend: true,
            steer_server: true,
            buffer: None,
            sender: String::new(),
        }
    }
}

impl SchemeConfig for Rnf {
    const ENTRY: Entry = Entry {
        name: "rnf",
        family: Family::Split,
        summary: "a proxy sets its window from the rate and queue length reported by the radio \
                  network controller",
        paper: "janevski2009",
        changes: Footprint { proxy: true, base_station: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "the radio network controller knows the rate of the link",
            "the radio link is the bottleneck",
            "the gain is below 2; larger gains make the queue oscillate with growing amplitude",
            "the application does not need end-to-end acknowledgments",
        ],
        role: Some(Role::Proxy),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if !(self.gain.is_finite() && self.gain > 0.0) {
            return Err("gain must be above 0".into());
        }
        if self.period == Duration::ZERO {
            return Err("period must be longer than 0 s".into());
        }
        check_buffer(self.buffer)
    }

    fn relay(&self) -> Option<Box<dyn Relay>> {
        Some(Box::new(RnfProxy::new(self.clone())))
    }

    fn relay_roles(&self) -> &[Role] {
        &[Role::Proxy, Role::BaseStation]
    }

    fn outbound_window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(RnfWindow::default()))
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(RnfAgent::new(self.period, self.repeat_rate)))
    }

    fn agent_roles(&self) -> &[Role] {
        &[Role::Rnc, Role::BaseStation]
    }

    const SINGLETON_ON_PATH: bool = true;

    fn bounds(&self) -> Vec<Bound> {
        vec![Bound::of_path(Limit::RelayBuffer, "buffer", self.buffer, PUBLISHED)]
    }

    fn set_bound(&mut self, setting: &str, value: Size) {
        if setting == "buffer" {
            self.buffer = Some(value);
        }
    }

    const STEERS_RECEIVE_WINDOW: bool = true;

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// Window rule of a leg that a relay controls: Reno until the relay first sets the window, then the
/// relay's value, independent of ACKs and losses. After a timeout the window grows from one segment
/// as in Reno, by slow start up to half of the relay's value: a burst of the full window, or one
/// more doubling, would overflow a small queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct RnfWindow {
    /// The window last set by the relay, bytes.
    target: Option<f64>,
    /// True after a timeout until the window reaches `target` again.
    opening: bool,
}

#[window_rule]
impl WindowRule for RnfWindow {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        match self.target {
            None => grow(window, ack),
            Some(target) if window.cwnd < target => {
                let mss = f64::from(ack.mss);
                // In slow start at most two segments per ACK (RFC 3465, section 2.3).
                let more = if window.slow_start() {
                    (ack.bytes as f64).min(2.0 * mss)
                } else {
                    mss * mss / window.cwnd
                };
                window.cwnd = (window.cwnd + more).min(target);
                self.opening &= window.cwnd < target;
            }
            Some(_) => {}
        }
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        self.opening |= loss.kind == LossKind::Timeout;
        match self.target {
            None => halve(window, loss),
            Some(target) if loss.kind == LossKind::Timeout => {
                window.ssthresh = loss.ssthresh(target / 2.0);
                window.cwnd = loss.loss_window.min(target);
            }
            Some(_) => {}
        }
        LossClass::Unclassified
    }

    fn on_undo(&mut self, window: &mut Window, before: &Window, _: Time) {
        window.cwnd = self.target.unwrap_or(before.cwnd);
        self.opening = false;
    }

    fn on_steered(&mut self, window: &mut Window, bytes: u64) {
        let bytes = bytes as f64;
        window.cwnd = if self.opening { window.cwnd.min(bytes) } else { bytes };
        if self.target.is_none() {
            // The ssthresh of a loss before the first report says nothing about the path.
            window.ssthresh = window.ssthresh.max(bytes / 2.0);
        }
        self.opening &= window.cwnd < bytes;
        self.target = Some(bytes);
    }

    fn steers_recovery(&self) -> bool {
        self.target.is_some()
    }
}

/// The default buffer.
const PUBLISHED: Size = Size::Bytes(256_000);

/// Minimum window, segments.
const MIN_WINDOW: f64 = 2.0;

/// Receive window until the first report, bytes. It is small because an advertised window cannot be
/// withdrawn.
const FIRST_WINDOW: u64 = 16_000;

/// The proxy.
struct RnfProxy {
    config: Rnf,
    /// Last reported rate above 0, bit/s; `None` before the first report.
    rate: Option<u64>,
    down: bool,
    /// True if the terminal has acknowledged data.
    acknowledged: bool,
    /// Correction of the window by queue reports, segments.
    correction: f64,
    /// The window last set, bytes.
    window: u64,
    /// Timestamps of the last rate report and of the last queue report.
    last_report: [Time; 2],
    /// Last reported queue of the radio link, bytes.
    queued: u64,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    rate: u64,
    queue: u64,
    stale: u64,
    outages: u64,
    retransmitted: u64,
    relayed: u64,
    peak: u64,
}

impl RnfProxy {
    fn new(config: Rnf) -> Self {
        RnfProxy {
            config,
            rate: None,
            down: false,
            acknowledged: false,
            correction: 0.0,
            window: 0,
            last_report: [Time::ZERO; 2],
            queued: 0,
            counters: Counters::default(),
        }
    }

    /// Buffer limit, bytes.
    fn buffer(&self) -> u64 {
        self.config.buffer.unwrap_or(PUBLISHED).bytes(1)
    }

    /// Target queue q_ref, segments.
    fn target(&self, mss: u32) -> f64 {
        self.config.queue.bytes(mss) as f64 / f64::from(mss.max(1))
    }

    /// Bandwidth-delay product at the last rate plus target queue, segments.
    fn feed_forward(&self, legs: &dyn SplitConnection) -> Option<f64> {
        let (mss, size) = legs.segment();
        let empty = Some(self.config.round_trip)
            .filter(|t| *t > Duration::ZERO)
            .or(legs.round_trip(Side::Outbound))?;
        Some(
            self.rate? as f64 * empty.as_secs() / (8.0 * f64::from(size.max(1))) + self.target(mss),
        )
    }

    /// Sets the window from rate, target queue and correction. Clamping also limits the correction
    /// (anti-windup).
    fn steer(&mut self, legs: &mut dyn SplitConnection) {
        let Some(base) = self.feed_forward(legs) else { return };
        let mss = f64::from(legs.segment().0.max(1));
        let max = (self.buffer() as f64 / mss).max(MIN_WINDOW);
        let window = (base + self.correction).clamp(MIN_WINDOW, max);
        self.correction = window - base;
        let bytes = libm::round(window * mss) as u64;
        if bytes != self.window {
            self.window = bytes;
            legs.set_window(bytes);
        }
    }

    fn on_notice(&mut self, notice: &Notice, legs: &mut dyn SplitConnection) {
        let last_report = match notice.kind {
            NoticeKind::Bandwidth => &mut self.last_report[0],
            NoticeKind::Queue => &mut self.last_report[1],
            _ => return,
        };
        if notice.stamp < *last_report {
            self.counters.stale += 1;
            return;
        }
        *last_report = notice.stamp;
        if notice.kind == NoticeKind::Queue {
            self.counters.queue += 1;
            self.on_queue(notice.value, legs);
        } else {
            self.counters.rate += 1;
            self.on_rate(notice.value, legs);
        }
    }

    fn on_rate(&mut self, rate: u64, legs: &mut dyn SplitConnection) {
        if rate == 0 {
            self.counters.outages += u64::from(!self.down);
            self.down = true;
            return legs.hold();
        }
        self.rate = Some(rate);
        let was_down = std::mem::take(&mut self.down);
        self.steer(legs);
        if was_down {
            let lost = self.lost(legs);
            self.counters.retransmitted += lost;
            legs.resume(lost);
        }
    }

    /// Bytes lost in an outage: bytes in flight that are not in the radio link's queue. The
    /// controller signals an outage with losses by a queue report with the same timestamp as the
    /// rate report.
    fn lost(&self, legs: &dyn SplitConnection) -> u64 {
        let (mss, size) = legs.segment();
        if !self.config.resend || self.last_report[0] != self.last_report[1] {
            return 0;
        }
        let waiting = self.queued * u64::from(mss) / u64::from(size.max(1));
        legs.in_flight().saturating_sub(waiting)
    }

    /// Processes a queue report. It is used only if the window was fully used.
    fn on_queue(&mut self, queued: u64, legs: &mut dyn SplitConnection) {
        self.queued = queued;
        let (mss, size) = legs.segment();
        if self.down || self.rate.is_none() || legs.in_flight() + u64::from(mss) <= self.window {
            return;
        }
        let error = self.target(mss) - queued as f64 / f64::from(size.max(1));
        self.correction += self.config.gain * error;
        self.steer(legs);
    }

    /// The receive window of the server's leg: two bandwidth-delay products between server and
    /// proxy may be queued here and one more in flight, at least two segments each. In an outage
    /// the rate before it is used, so that there are data to send afterwards.
    fn receive_window(&self, legs: &dyn SplitConnection) -> u64 {
        let room = self.buffer().saturating_sub(legs.readable() + legs.unacknowledged());
        if !self.config.steer_server {
            return room;
        }
        let waiting = legs.readable() + legs.unacknowledged().saturating_sub(legs.in_flight());
        let desired = match (self.rate, legs.round_trip(Side::Inbound)) {
            (Some(rate), Some(round_trip)) => {
                let (mss, size) = legs.segment();
                let share = f64::from(mss) / f64::from(size.max(1));
                let pipe = (rate as f64 * round_trip.as_secs() / 8.0 * share)
                    .max(2.0 * f64::from(mss)) as u64;
                pipe.saturating_mul(3)
            }
            _ if self.acknowledged => return room,
            _ => FIRST_WINDOW,
        };
        desired.saturating_sub(waiting).min(room)
    }
}

impl Relay for RnfProxy {
    fn needs(&self) -> Capabilities {
        Capabilities { window: true, receive_window: true, acknowledge: false, hold: true }
    }

    fn receive_window(&self) -> Option<u64> {
        Some(self.buffer())
    }

    fn first_window(&self) -> Option<u64> {
        self.config.steer_server.then_some(FIRST_WINDOW)
    }

    fn on_event(&mut self, _now: Time, event: LegEvent, legs: &mut dyn SplitConnection) {
        match event {
            LegEvent::Open | LegEvent::Timer => {}
            LegEvent::Acknowledged(offset) => self.acknowledged |= offset > 0,
            LegEvent::Readable => self.counters.relayed += legs.transfer(u64::MAX),
            LegEvent::HalfClosed => {
                self.counters.relayed += legs.transfer(u64::MAX);
                legs.half_close();
            }
            LegEvent::Reset(side) => return legs.reset(side.other()),
            LegEvent::Notice(notice) => self.on_notice(&notice, legs),
        }
        if self.window == 0 && self.rate.is_some() {
            // The rate was reported before the first RTT sample.
            self.steer(legs);
        }
        self.counters.peak = self.counters.peak.max(legs.readable() + legs.unacknowledged());
        let window = self.receive_window(legs);
        legs.set_receive_window(window);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counters;
        vec![
            ("rate_notices", c.rate),
            ("queue_notices", c.queue),
            ("stale_notices", c.stale),
            ("outages", c.outages),
            ("bytes_sent_again_after_outages", c.retransmitted),
            ("window_bytes", self.window),
            ("bytes_relayed", c.relayed),
            ("buffer_peak_bytes", c.peak),
        ]
    }
}
