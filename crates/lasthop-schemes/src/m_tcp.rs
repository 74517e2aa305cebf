//! M-TCP: splits the connection at the base station. The server's window is closed while the mobile
//! is disconnected.
//!
//! Source: K. Brown, S. Singh, "M-TCP: TCP for Mobile Cellular Networks", ACM CCR 1997; zeng2006
//! section 2.2, paul2005.
//!
//! Idea: the base station acknowledges to the server what the mobile has acknowledged, except the
//! last byte. When the mobile stops responding, the base station acknowledges the last byte with a
//! zero window. The server enters persist mode, without timeouts and without reducing its window,
//! until the mobile is back and the window is reopened. The leg to the mobile has no congestion
//! control, but a fixed window.
//!
//! Deployed at: the base station.
//!
//! Wire: unchanged; the advertised window shrinks below earlier values.
//!
//! Assumes: the base station detects the disconnection, by its link or by missing ACKs, before the
//! server's timer expires; a server that persists even with data in flight (BSD does; Linux's timer
//! continues and reduces the window).
//!
//! Bad at: random loss (only the leg to the mobile retransmits), disconnections shorter than the
//! detection time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{AnyAgent, AnyWindow, Bound, Entry, Family, Footprint, SchemeConfig};
use crate::rnf::RnfWindow;
use crate::shared::link_watch::LinkWatch;
use crate::shared::relay_buffer::{PUBLISHED, WINDOW, check_buffer};
use lasthop_core::leg::{Capabilities, LegEvent, Relay, SplitConnection};
use lasthop_core::role::Role;
use lasthop_core::segment::NoticeKind;
use lasthop_core::units::{Duration, Size, Time};
use lasthop_tcp::sender::Limit;

/// Settings of M-TCP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MTcp {
    /// Buffer of the base station per flow: bytes received and not yet acknowledged by the mobile.
    /// Default: 64000 B. Under profile linux, if larger: twice the bandwidth-delay product of the
    /// path, but at most three times `window`.
    pub buffer: Option<Size>,
    /// Amount withheld from the acknowledgments to the server. A full segment instead of one byte
    /// shows the effect on the server's timer.
    pub withhold: Size,
    /// Window of the leg to the mobile, which has no congestion control. Default: 32 segments.
    pub window: Option<Size>,
    /// Time without an ACK after which the mobile is considered disconnected (the sources give one
    /// or two RTTs of the leg to the mobile). 0: detect disconnections by the link only. It must be
    /// below the server's minimum RTO.
    pub silence: Duration,
    /// Detect disconnections by link-state notifications.
    pub link_events: bool,
    /// Sender of the server's leg, and loss recovery of both legs; empty: the profile's default.
    pub sender: String,
}

impl Default for MTcp {
    fn default() -> Self {
        MTcp {
            buffer: None,
            withhold: Size::Bytes(1),
            window: None,
            silence: Duration::millis(500),
            link_events: true,
            sender: String::new(),
        }
    }
}

impl SchemeConfig for MTcp {
    const ENTRY: Entry = Entry {
        name: "m-tcp",
        family: Family::Split,
        summary: "splits the connection at the base station, and closes the server's window while \
                  the mobile is disconnected",
        paper: "Brown and Singh 1997",
        changes: Footprint { base_station: true, ..Footprint::NONE },
        assumptions: &[
            "the base station learns of a disconnection before the server's timer expires",
            "the server persists when the window closes, whatever it has in flight",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        check_buffer(self.buffer)?;
        if self.window.is_some_and(|w| w.bytes(1000) == 0) {
            return Err("window must be above 0".into());
        }
        Ok(())
    }

    fn relay(&self) -> Option<Box<dyn Relay>> {
        Some(Box::new(Supervisor::new(self.clone())))
    }

    fn outbound_window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(RnfWindow::default()))
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(LinkWatch::new(self.link_events)))
    }

    fn agent_roles(&self) -> &[Role] {
        &[Role::BaseStation]
    }

    fn bounds(&self) -> Vec<Bound> {
        vec![
            Bound::of_path(Limit::RelayBuffer, "buffer", self.buffer, PUBLISHED),
            Bound::fixed(Limit::Cwnd, "window", self.window, WINDOW),
        ]
    }

    fn set_bound(&mut self, setting: &str, value: Size) {
        match setting {
            "buffer" => self.buffer = Some(value),
            "window" => self.window = Some(value),
            _ => {}
        }
    }

    const STEERS_RECEIVE_WINDOW: bool = true;

    fn base_sender(&self) -> Option<&str> {
        Some(self.sender.as_str()).filter(|s| !s.is_empty())
    }
}

/// Reachability of the mobile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Here,
    /// No ACK for too long. The leg to the mobile probes it.
    Silent,
    /// The link is down. The leg to the mobile is frozen.
    Down,
}

/// The supervisor host: M-TCP's relay.
struct Supervisor {
    config: MTcp,
    reach: Reach,
    /// Highest stream offset acknowledged by the mobile.
    acknowledged: u64,
    /// Bytes transferred to the leg to the mobile.
    moved: u64,
    /// Time of the last ACK from the mobile, or of the first outstanding data.
    last_ack_at: Time,
    /// True if a timer is set.
    timer_set: bool,
    peak: u64,
    disconnections: u64,
    silences: u64,
}

impl Supervisor {
    fn new(config: MTcp) -> Supervisor {
        Supervisor {
            config,
            reach: Reach::Here,
            acknowledged: 0,
            moved: 0,
            last_ack_at: Time::ZERO,
            timer_set: false,
            peak: 0,
            disconnections: 0,
            silences: 0,
        }
    }

    fn transfer(&mut self, now: Time, legs: &mut dyn SplitConnection) {
        if legs.unacknowledged() == 0 {
            self.last_ack_at = now;
        }
        self.moved += legs.transfer(u64::MAX);
    }

    /// Buffer limit, bytes.
    fn buffer(&self) -> u64 {
        self.config.buffer.unwrap_or(PUBLISHED).bytes(1)
    }

    /// Offset up to which the server's data are acknowledged. Without data outstanding to the
    /// mobile nothing is withheld.
    fn limit(&self, legs: &dyn SplitConnection) -> u64 {
        if self.acknowledged >= self.moved {
            return self.acknowledged;
        }
        self.acknowledged.saturating_sub(self.config.withhold.bytes(legs.segment().0))
    }

    /// The mobile is disconnected: acknowledges to the server all data that the mobile has, with a
    /// zero window.
    fn disconnect(&mut self, reach: Reach, legs: &mut dyn SplitConnection) {
        if self.reach == Reach::Here {
            self.disconnections += 1;
            legs.close_window(self.acknowledged);
        }
        if reach == Reach::Down && self.reach != Reach::Down {
            legs.hold();
        }
        self.reach = reach;
    }

    /// The mobile is reachable again. Data that were in flight to it when the link went down are
    /// lost.
    fn reconnect(&mut self, now: Time, legs: &mut dyn SplitConnection) {
        if self.reach == Reach::Down {
            let lost = legs.in_flight();
            legs.resume(lost);
        }
        self.reach = Reach::Here;
        self.last_ack_at = now;
        // The zero window acknowledged all data that the mobile has, so none of these can be
        // withheld.
        legs.open_window(self.acknowledged);
    }

    /// Detects a disconnection: data are in flight and no ACK has arrived for too long.
    fn watch(&mut self, now: Time, legs: &mut dyn SplitConnection) {
        if self.config.silence == Duration::ZERO
            || self.reach == Reach::Down
            || legs.in_flight() == 0
        {
            // No ACK is outstanding. A zero window of the mobile is probed by the sender.
            return;
        }
        if self.reach == Reach::Here && now >= self.last_ack_at + self.config.silence {
            self.silences += 1;
            self.disconnect(Reach::Silent, legs);
        }
        if !self.timer_set {
            self.timer_set = true;
            let since = if self.reach == Reach::Here { self.last_ack_at } else { now };
            legs.wake(since + self.config.silence);
        }
    }

    /// Probes a silent mobile by retransmitting the first unacknowledged segment each time that
    /// `silence` expires, without backoff. In the source the mobile announces its return.
    fn probe(&mut self, legs: &mut dyn SplitConnection) {
        // Without data in flight there is nothing to retransmit; a zero window is probed by the
        // sender.
        if self.reach == Reach::Silent && legs.in_flight() > 0 {
            legs.hold();
            legs.resume(u64::from(legs.segment().0));
        }
    }
}

impl Relay for Supervisor {
    fn needs(&self) -> Capabilities {
        Capabilities { window: true, receive_window: true, acknowledge: true, hold: true }
    }

    fn receive_window(&self) -> Option<u64> {
        Some(self.buffer())
    }

    fn on_event(&mut self, now: Time, event: LegEvent, legs: &mut dyn SplitConnection) {
        match event {
            LegEvent::Open => {
                legs.acknowledge_up_to(0);
                legs.set_window(self.config.window.unwrap_or(WINDOW).bytes(legs.segment().0));
            }
            LegEvent::Readable => self.transfer(now, legs),
            LegEvent::HalfClosed => {
                self.transfer(now, legs);
                legs.half_close();
            }
            LegEvent::Acknowledged(offset) => {
                let is_new = offset > self.acknowledged;
                self.acknowledged = self.acknowledged.max(offset);
                self.last_ack_at = now;
                match self.reach {
                    Reach::Here if is_new => legs.acknowledge_up_to(self.limit(legs)),
                    Reach::Silent => self.reconnect(now, legs),
                    _ => {}
                }
            }
            LegEvent::Notice(notice) if notice.kind == NoticeKind::Link => {
                match (notice.value, self.reach) {
                    (0, _) => self.disconnect(Reach::Down, legs),
                    (_, Reach::Here) => {}
                    _ => self.reconnect(now, legs),
                }
            }
            LegEvent::Reset(side) => return legs.reset(side.other()),
            LegEvent::Timer => {
                self.timer_set = false;
                self.probe(legs);
            }
            LegEvent::Notice(_) => {}
        }
        self.watch(now, legs);
        let held = legs.readable() + legs.unacknowledged();
        self.peak = self.peak.max(held);
        legs.set_receive_window(self.buffer().saturating_sub(held));
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("bytes_relayed", self.moved),
            ("buffer_peak_bytes", self.peak),
            ("disconnections", self.disconnections),
            ("silences", self.silences),
        ]
    }
}
