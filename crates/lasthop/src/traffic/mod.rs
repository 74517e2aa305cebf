//! Applications: what is written when.

use crate::random::Stream;
use crate::units::{Duration, Rate, Time};

/// What an application writes.
#[derive(Clone, Debug, PartialEq)]
pub enum App {
    /// Always has more.
    Bulk,
    /// So many bytes.
    Transfer {
        /// Payload bytes.
        size: u64,
    },
    /// Transfers one after another with pauses between (page views).
    Web {
        /// Mean size of a page in bytes.
        mean_size: u64,
        /// Pareto shape of the sizes.
        shape: f64,
        /// Mean pause (exponential) between the end of one page and the click for the next.
        mean_pause: Duration,
    },
    /// Writes without end for a while, then pauses; both exponential.
    OnOff {
        /// Mean length of a burst.
        mean_on: Duration,
        /// Mean length of a pause.
        mean_off: Duration,
    },
    /// Datagrams at a constant rate; not TCP.
    Cbr {
        /// Rate of the payload.
        rate: Rate,
    },
}

/// What an application does when its timer fires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Do {
    /// Opens the connection and writes so many bytes (`u64::MAX`: without end).
    Write(u64),
    /// Stops writing: what TCP has not sent is withdrawn.
    Stop,
    /// Sends a datagram of so many payload bytes.
    Datagram(u32),
}

/// The state of a flow's application.
#[derive(Clone, Debug)]
pub struct AppState {
    app: App,
    stream: Stream,
    step: u64,
    writing: bool,
    stop: Time,
    segment: u32,
}

impl AppState {
    /// The application of a flow that starts at its start time.
    pub fn new(app: &App, stop: Option<Duration>, segment: u32, seed: u64, name: &str) -> Self {
        let stop = stop.map_or(Time::NEVER, |d| Time::ZERO + d);
        AppState { app: app.clone(), stream: Stream::new(seed, &format!("traffic {name}")), step: 0, writing: false, stop, segment }
    }

    /// What to do now, and when to ask again.
    pub fn fire(&mut self, now: Time) -> (Option<Do>, Option<Time>) {
        if now >= self.stop {
            let was = std::mem::take(&mut self.writing);
            return (was.then_some(Do::Stop), None);
        }
        let first = self.step == 0;
        self.step += 1;
        let stop = (self.stop != Time::NEVER).then_some(self.stop);
        match &self.app {
            App::Bulk => {
                self.writing = true;
                (Some(Do::Write(u64::MAX)), stop)
            }
            App::Transfer { size } => (first.then_some(Do::Write(*size)), None),
            App::Web { mean_size, shape, .. } => {
                let size = self.stream.pareto(2 * self.step, *mean_size as f64, *shape).max(1.0);
                (Some(Do::Write(size as u64)), None)
            }
            App::OnOff { mean_on, mean_off } => {
                self.writing = !self.writing;
                let mean = if self.writing { mean_on } else { mean_off };
                let wait = Duration::from_secs_f64(self.stream.exponential(self.step, mean.as_secs())).max(Duration(1));
                let next = (now + wait).min(self.stop);
                (Some(if self.writing { Do::Write(u64::MAX) } else { Do::Stop }), Some(next))
            }
            App::Cbr { rate } => {
                // Integer spacing from the start, so that no rounding adds up.
                let next = now + rate.time_for(u64::from(self.segment));
                (Some(Do::Datagram(self.segment)), Some(next))
            }
        }
    }

    /// All that was written has been delivered. Returns when to write again.
    pub fn delivered(&mut self, now: Time) -> Option<Time> {
        match &self.app {
            App::Web { mean_pause, .. } => {
                let wait = Duration::from_secs_f64(self.stream.exponential(2 * self.step + 1, mean_pause.as_secs()));
                let at = now + wait;
                (at < self.stop).then_some(at)
            }
            _ => None,
        }
    }

    /// A finite transfer: closed after its only write.
    pub fn finite(&self) -> bool {
        matches!(self.app, App::Transfer { .. })
    }

    /// Bytes are born when they are first sent, not when they are written.
    pub fn endless(&self) -> bool {
        matches!(self.app, App::Bulk | App::OnOff { .. })
    }

    /// True if draws decide when and what is written.
    pub fn is_random(app: &App) -> bool {
        matches!(app, App::Web { .. } | App::OnOff { .. })
    }
}
