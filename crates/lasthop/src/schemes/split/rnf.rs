//! Radio Network Feedback: a split proxy whose window follows what the radio network controller
//! reports.
//!
//! Source: T. Janevski, S. Panev, "Modifications for TCP Improvements over Wireless Networks", 2009
//! (janevski2009), after N. Möller et al., CDC 2005. Deployed at: a proxy in the core network, and
//! the node where the radio link begins. Ends are unmodified. Without a node with the role of a
//! proxy the base station is the proxy too. Wire: notices from that node to the proxy, a packet of
//! 40 bytes for each message.
//!
//! The controller reports the radio link's rate when it changes and, each second, the bytes that
//! wait there. (Of a link whose rate nobody knows, a recorded one, it reports each second what it
//! has sent.) The proxy sets its congestion window to `w = b·τ + q_ref + c`: the pipe at rate `b`,
//! the queue that it wants, and a correction that each report of a queue `q` moves by `K·(q_ref -
//! q)`. On a saturated link the error of the queue follows `e(k+1) = (1 - K)·e(k)`. The server is
//! sped up and slowed down by the receive window, from the bytes that wait in the proxy. The source
//! gives the structure and no equations; these are the simplest with that structure. Möller et al.
//! (CDC 2005; WCNC 2007) give equations, but only their abstracts could be read, so that this law
//! has not been compared with theirs.
//!
//! While the rate is 0 the proxy holds its sender with its timers. If the link has sent on in vain
//! meanwhile, the controller says what still waits when it is back, and the proxy sends at once
//! again what neither waits nor was acknowledged. Losses of a full queue are repaired by the
//! sender's own recovery under the same window, which only a timeout makes begin anew.
//!
//! Assumes that the controller knows the rate, and that the radio link is the bottleneck. Bad at:
//! end-to-end semantics; signalling for each terminal; stale data when the user goes on to another
//! page; radio losses (they are not told from any other); gains of 2 and more, with which the queue
//! oscillates ever more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::leg::{Capabilities, LegEvent, Relay, Side, SplitConnection};
use crate::role::Role;
use crate::schemes::catalogue::{
    AnyAgent, AnyWindow, Bound, Entry, Family, Footprint, SchemeConfig,
};
use crate::schemes::split::check_buffer;
use crate::segment::{Notice, NoticeKind};
use crate::tcp::sender::Limit;
use crate::tcp::window::{Ack, Loss, LossClass, LossKind, Window, WindowRule, grow, halve};
use crate::units::{Duration, Size, Time};

pub mod rnc;
#[cfg(test)]
mod tests;

/// Settings of RNF.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rnf {
    /// Queue that the proxy wants at the radio link (q_ref; janevski2009: 15 packets, in figure 5
    /// 5).
    pub queue: Size,
    /// Gain K of the correction, for each report. The queue settles for 0 < K < 2, at once with 1;
    /// from 2 on it oscillates ever more.
    pub gain: f64,
    /// Time between two reports of the queue (janevski2009: 1 s).
    pub period: Duration,
    /// Round-trip time between proxy and terminal without any queue, τ; 0: the smallest one
    /// measured.
    pub round_trip: Duration,
    /// Each report of the queue says the rate again, so that a lost notice is made good.
    pub repeat_rate: bool,
    /// Send again at once what an outage has lost; off: the proxy waits for its timer.
    pub resend: bool,
    /// Steer the server by the receive window, from the bytes that wait in the proxy; off: only
    /// `buffer` limits them.
    pub steer_server: bool,
    /// Bytes that the proxy holds for a flow, received and not yet acknowledged by the terminal.
    /// Default: 256000 B; under profile linux twice the bandwidth-delay product of the path if that
    /// is more.
    pub buffer: Option<Size>,
    /// Sender of the server's leg, and recovery of both; empty: the profile's.
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
        summary: "a proxy sets its window from the rate and the queue that the radio network \
                  controller reports",
        paper: "janevski2009",
        changes: Footprint { proxy: true, base_station: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "the radio network controller knows the rate of the link",
            "the radio link is the bottleneck",
            "the gain is below 2: the queue oscillates ever more with a larger one",
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
        Some(AnyWindow::Steered(SteeredWindow::default()))
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::Rnc(rnc::RncAgent::new(self.period, self.repeat_rate)))
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

/// The window of a leg that a relay steers: Reno's until the relay sets it for the first time, then
/// what the relay says, whatever is acknowledged or lost. After a timeout it is opened again from
/// one segment as Reno's is, by slow start up to a half: a whole window at once, or doubled once
/// more, would not fit into a small queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct SteeredWindow {
    /// What the relay said last, in bytes.
    said: Option<f64>,
    /// A timeout has closed it, and it has not come back to what was said.
    opening: bool,
}

impl WindowRule for SteeredWindow {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        match self.said {
            None => grow(window, ack),
            Some(said) if window.cwnd < said => {
                let mss = f64::from(ack.mss);
                // In slow start at most two segments for an ACK (RFC 3465, section 2.3).
                let more = if window.slow_start() {
                    (ack.bytes as f64).min(2.0 * mss)
                } else {
                    mss * mss / window.cwnd
                };
                window.cwnd = (window.cwnd + more).min(said);
                self.opening &= window.cwnd < said;
            }
            Some(_) => {}
        }
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        self.opening |= loss.kind == LossKind::Timeout;
        match self.said {
            None => halve(window, loss),
            Some(said) if loss.kind == LossKind::Timeout => {
                window.ssthresh = loss.ssthresh(said / 2.0);
                window.cwnd = loss.loss_window.min(said);
            }
            Some(_) => {}
        }
        LossClass::Unclassified
    }

    fn on_undo(&mut self, window: &mut Window, before: &Window, _: Time) {
        window.cwnd = self.said.unwrap_or(before.cwnd);
        self.opening = false;
    }

    fn on_steered(&mut self, window: &mut Window, bytes: u64) {
        let bytes = bytes as f64;
        window.cwnd = if self.opening { window.cwnd.min(bytes) } else { bytes };
        if self.said.is_none() {
            // What a loss before the first report has left of it is no measure of the path.
            window.ssthresh = window.ssthresh.max(bytes / 2.0);
        }
        self.opening &= window.cwnd < bytes;
        self.said = Some(bytes);
    }

    fn steers_recovery(&self) -> bool {
        self.said.is_some()
    }
}

/// The default buffer.
const PUBLISHED: Size = Size::Bytes(256_000);

/// The least window, in segments.
const LEAST: f64 = 2.0;

/// The receive window until the first report, in bytes: what has been offered cannot be taken back.
const FIRST_WINDOW: u64 = 16_000;

/// The proxy.
struct RnfProxy {
    config: Rnf,
    /// The last rate above 0, in bit/s; none before the first report.
    rate: Option<u64>,
    down: bool,
    /// The terminal has acknowledged something.
    acknowledged: bool,
    /// What the reports of the queue have added to the window, in segments.
    correction: f64,
    /// The window set last, in bytes.
    window: u64,
    /// The last report of each kind: of the rate, of the queue.
    heard: [Time; 2],
    /// Bytes that waited at the radio link then.
    waited: u64,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    rate: u64,
    queue: u64,
    stale: u64,
    outages: u64,
    again: u64,
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
            heard: [Time::ZERO; 2],
            waited: 0,
            counters: Counters::default(),
        }
    }

    /// Bytes that the proxy holds at most.
    fn buffer(&self) -> u64 {
        self.config.buffer.unwrap_or(PUBLISHED).bytes(1)
    }

    /// q_ref in segments.
    fn target(&self, mss: u32) -> f64 {
        self.config.queue.bytes(mss) as f64 / f64::from(mss.max(1))
    }

    /// The pipe at the last rate and the queue wanted, in segments.
    fn feed_forward(&self, legs: &dyn SplitConnection) -> Option<f64> {
        let (mss, size) = legs.segment();
        let empty = Some(self.config.round_trip)
            .filter(|t| *t > Duration::ZERO)
            .or(legs.round_trip(Side::Outbound))?;
        Some(
            self.rate? as f64 * empty.as_secs() / (8.0 * f64::from(size.max(1))) + self.target(mss),
        )
    }

    /// Sets the window: rate, wanted queue and correction. What the limits cut off is not kept in
    /// the correction.
    fn steer(&mut self, legs: &mut dyn SplitConnection) {
        let Some(base) = self.feed_forward(legs) else { return };
        let mss = f64::from(legs.segment().0.max(1));
        let most = (self.buffer() as f64 / mss).max(LEAST);
        let window = (base + self.correction).clamp(LEAST, most);
        self.correction = window - base;
        let bytes = libm::round(window * mss) as u64;
        if bytes != self.window {
            self.window = bytes;
            legs.set_window(bytes);
        }
    }

    fn on_notice(&mut self, notice: &Notice, legs: &mut dyn SplitConnection) {
        let heard = match notice.kind {
            NoticeKind::Bandwidth => &mut self.heard[0],
            NoticeKind::Queue => &mut self.heard[1],
            _ => return,
        };
        if notice.stamp < *heard {
            self.counters.stale += 1;
            return;
        }
        *heard = notice.stamp;
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
            self.counters.again += lost;
            legs.resume(lost);
        }
    }

    /// After an outage that has lost frames, of which a report of the queue with the same stamp
    /// tells: bytes in flight that do not wait at the radio link.
    fn lost(&self, legs: &dyn SplitConnection) -> u64 {
        let (mss, size) = legs.segment();
        if !self.config.resend || self.heard[0] != self.heard[1] {
            return 0;
        }
        let waiting = self.waited * u64::from(mss) / u64::from(size.max(1));
        legs.in_flight().saturating_sub(waiting)
    }

    /// A report of the queue. It tells something of the window only if the window was full.
    fn on_queue(&mut self, waited: u64, legs: &mut dyn SplitConnection) {
        self.waited = waited;
        let (mss, size) = legs.segment();
        if self.down || self.rate.is_none() || legs.in_flight() + u64::from(mss) <= self.window {
            return;
        }
        let error = self.target(mss) - waited as f64 / f64::from(size.max(1));
        self.correction += self.config.gain * error;
        self.steer(legs);
    }

    /// The receive window towards the server: twice the pipe between server and proxy shall wait
    /// here, and one pipe more may be on its way; at least two segments each. In an outage the rate
    /// before it counts, so that there is something to send after it.
    fn receive_window(&self, legs: &dyn SplitConnection) -> u64 {
        let room = self.buffer().saturating_sub(legs.readable() + legs.unacknowledged());
        if !self.config.steer_server {
            return room;
        }
        let waiting = legs.readable() + legs.unacknowledged().saturating_sub(legs.in_flight());
        let wanted = match (self.rate, legs.round_trip(Side::Inbound)) {
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
        wanted.saturating_sub(waiting).min(room)
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
            // The rate was known before the round-trip time.
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
            ("bytes_sent_again_after_outages", c.again),
            ("window_bytes", self.window),
            ("bytes_relayed", c.relayed),
            ("buffer_peak_bytes", c.peak),
        ]
    }
}
