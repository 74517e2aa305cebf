//! M-TCP: the connection is cut at the base station, and the server persists while the mobile is
//! out of reach.
//!
//! Source: K. Brown, S. Singh, "M-TCP: TCP for Mobile Cellular Networks", ACM CCR 1997; zeng2006
//! section 2.2, paul2005. Idea: what the base station acknowledges to the server is what the mobile
//! has acknowledged, but for the last byte. When the mobile falls silent, the last byte goes out
//! with a window of 0: the server persists, without timeouts and without touching its window, until
//! the mobile is back and the window is opened again. The local leg has no congestion control: a
//! fixed window. Deployed at: the base station. Wire: nothing new; the window field takes back what
//! it has offered. Assumes: it learns of the disconnection before the server's timer expires, by
//! its own link or by silence; a server that persists whatever it has in flight (BSD's does;
//! Linux's timer goes on, and cuts the window). Bad at: random loss (the local leg's repair is all
//! there is), disconnections shorter than the silence that it waits for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::leg::{Capabilities, LegEvent, Relay, SplitConnection};
use crate::role::Role;
use crate::schemes::catalogue::{
    AnyAgent, AnyWindow, Bound, Entry, Family, Footprint, SchemeConfig,
};
use crate::schemes::link_layer::link_watch::LinkWatch;
use crate::schemes::split::rnf::SteeredWindow;
use crate::schemes::split::{PUBLISHED, WINDOW, check_buffer};
use crate::segment::NoticeKind;
use crate::tcp::sender::Limit;
use crate::units::{Duration, Size, Time};

/// Settings of M-TCP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MTcp {
    /// Bytes that the base station holds for a flow, received and not yet acknowledged by the
    /// mobile. Default: 64000 B; under profile linux twice the bandwidth-delay product of the path,
    /// or three times `window` where that is less, if that is more.
    pub buffer: Option<Size>,
    /// What is withheld of the acknowledgments; a segment instead of the byte shows what the
    /// server's timer makes of it.
    pub withhold: Size,
    /// Window of the local leg, which has no congestion control. Default: 32 segments.
    pub window: Option<Size>,
    /// The mobile is held to be out of reach when it has acknowledged nothing for so long (the
    /// sources say one or two round trips of the local leg); 0: only the link tells. It must be
    /// below the server's smallest timeout.
    pub silence: Duration,
    /// The link tells when it goes down and comes up.
    pub link_events: bool,
    /// Sender of the server's leg, and recovery of both; empty: the profile's.
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
        summary: "cuts the connection at the base station, and closes the server's window while \
                  the mobile is out of reach",
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
        Some(AnyWindow::Steered(SteeredWindow::default()))
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::LinkWatch(LinkWatch::new(self.link_events)))
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

/// Whether the mobile is in reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Here,
    /// It has not been heard for too long. The local leg asks for it.
    Silent,
    /// The link is down. The local leg is held.
    Down,
}

/// The supervisory host.
struct Supervisor {
    config: MTcp,
    reach: Reach,
    /// Stream offset that the mobile has acknowledged.
    acknowledged: u64,
    /// What has been moved to the local leg.
    moved: u64,
    /// When the mobile was heard last, or there was first something to hear of.
    heard: Time,
    /// A timer runs.
    waits: bool,
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
            heard: Time::ZERO,
            waits: false,
            peak: 0,
            disconnections: 0,
            silences: 0,
        }
    }

    fn transfer(&mut self, now: Time, legs: &mut dyn SplitConnection) {
        if legs.unacknowledged() == 0 {
            self.heard = now;
        }
        self.moved += legs.transfer(u64::MAX);
    }

    /// Bytes that the base station holds at most.
    fn buffer(&self) -> u64 {
        self.config.buffer.unwrap_or(PUBLISHED).bytes(1)
    }

    /// What the server may know of: with nothing more on its way to the mobile there is nothing to
    /// freeze, and nothing is withheld.
    fn limit(&self, legs: &dyn SplitConnection) -> u64 {
        if self.acknowledged >= self.moved {
            return self.acknowledged;
        }
        self.acknowledged.saturating_sub(self.config.withhold.bytes(legs.segment().0))
    }

    /// The mobile is out of reach: the server hears of all that the mobile has, and that the window
    /// is closed.
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

    /// It is back. What was in flight on the local leg when the link went down is lost.
    fn reconnect(&mut self, now: Time, legs: &mut dyn SplitConnection) {
        if self.reach == Reach::Down {
            let lost = legs.in_flight();
            legs.resume(lost);
        }
        self.reach = Reach::Here;
        self.heard = now;
        // All that the mobile has was acknowledged when the window closed: nothing can be withheld
        // of it any more.
        legs.open_window(self.acknowledged);
    }

    /// The mobile is silent if it owes an acknowledgment and has given none for too long.
    fn watch(&mut self, now: Time, legs: &mut dyn SplitConnection) {
        if self.config.silence == Duration::ZERO
            || self.reach == Reach::Down
            || legs.in_flight() == 0
        {
            // It owes nothing. A window that it has closed is probed.
            return;
        }
        if self.reach == Reach::Here && now >= self.heard + self.config.silence {
            self.silences += 1;
            self.disconnect(Reach::Silent, legs);
        }
        if !self.waits {
            self.waits = true;
            let since = if self.reach == Reach::Here { self.heard } else { now };
            legs.wake(since + self.config.silence);
        }
    }

    /// The mobile of the source greets when it is back; this one is asked, with the first segment
    /// that it owes, as often as its silence is noticed and without backing off.
    fn call(&mut self, legs: &mut dyn SplitConnection) {
        // With nothing in flight there is nothing to ask with; a window that the mobile has closed
        // the leg probes by itself.
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
                let news = offset > self.acknowledged;
                self.acknowledged = self.acknowledged.max(offset);
                self.heard = now;
                match self.reach {
                    Reach::Here if news => legs.acknowledge_up_to(self.limit(legs)),
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
                self.waits = false;
                self.call(legs);
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
