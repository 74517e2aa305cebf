//! Traffic sources: what applications write, and when.
//!
//! A kind of application is a file and a word in the list of `applications.rs`. The file has the
//! keys of its table in a scenario file, which implement [`Application`], and its [`Process`]. What
//! other parts know by name is defined beside the list: data without end, single transfers (also
//! those of sessions and of Poisson processes), and clients.

#[macro_use]
mod applications;
mod application;
mod client;
mod operation;
mod sizes;
#[cfg(test)]
mod testing;
mod video;

use crate::random::Stream;
use crate::units::{Duration, Time};
use client::Client;

pub use application::{Application, Fault, Process, Quality};
pub use operation::Do;
pub use sizes::{Cdf, DATA_MINING, Sizes, WEB_SEARCH};
pub use video::{Adaptation, Playback, Player, Video};

applications!(define);

impl App {
    /// Payload of the requests of a client, bytes; `None` if the receiver of the flow is none.
    pub fn request(&self) -> Option<u32> {
        match *self {
            App::Requests { request, .. } | App::Video { request, .. } => Some(request),
            _ => None,
        }
    }
}

/// The state of a flow's application.
///
/// # Examples
///
/// A constant bit rate of 800 kbit/s in datagrams of 1000 bytes:
///
/// ```
/// use lasthop_core::traffic::{AppState, Cbr, Do};
/// use lasthop_core::units::{Rate, Time};
///
/// let app = Cbr { rate: Rate(800_000) }.into();
/// let mut state = AppState::new(&app, None, 1000, 1, "flow 1");
/// let (operation, next) = state.fire(Time::ZERO);
/// assert_eq!(operation, Some(Do::Datagram(1000)));
/// assert_eq!(next, Some(Time(10_000_000)));
/// ```
#[derive(Clone, Debug)]
pub struct AppState {
    running: Running,
    is_datagrams: bool,
    is_answered: bool,
    is_endless: bool,
    /// What it has written is not complete, and ends with the flow.
    writing: bool,
    /// It has fired.
    begun: bool,
    stop: Time,
}

impl AppState {
    /// The application of a flow, before its first operation.
    pub fn new(app: &App, stop: Option<Duration>, segment: u32, seed: u64, name: &str) -> Self {
        AppState {
            running: Running::new(app, segment, seed, name),
            is_datagrams: app.is_datagrams(),
            is_answered: app.is_answered(),
            is_endless: app.is_endless(),
            writing: false,
            begun: false,
            stop: stop.map_or(Time::NEVER, |d| Time::ZERO + d),
        }
    }

    /// The operation to perform now, and the time of the next call.
    pub fn fire(&mut self, now: Time) -> (Option<Do>, Option<Time>) {
        if let Running::Client(client) = &mut self.running {
            return client.fire(now, self.stop);
        }
        if now >= self.stop {
            let was = std::mem::take(&mut self.writing);
            let what = if self.finite() { Do::Abort } else { Do::Stop };
            return (was.then_some(what), None);
        }
        let first = !std::mem::replace(&mut self.begun, true);
        if let Running::Writer(size) = self.running {
            self.writing = true;
            let stop = (self.stop != Time::NEVER).then_some(self.stop);
            let write = Do::Write(size.unwrap_or(u64::MAX));
            return ((first || size.is_none()).then_some(write), stop);
        }
        let (what, next) = self.running.fire(now);
        match what {
            Some(Do::Write(u64::MAX)) => self.writing = true,
            Some(Do::Stop) => self.writing = false,
            _ => {}
        }
        (what, if self.is_datagrams { next } else { next.map(|at| at.min(self.stop)) })
    }

    /// The number of bytes that have arrived at the client of the flow.
    pub fn set_arrived(&mut self, bytes: u64) {
        if let Running::Client(client) = &mut self.running {
            client.set_arrived(bytes);
        }
    }

    /// A request of the client reaches the sender. Returns the number of bytes that it writes in
    /// response; `None` if it has answered this request before.
    pub fn request_arrived(&mut self, ordinal: u64) -> Option<u64> {
        match &mut self.running {
            Running::Client(client) => client.request_arrived(ordinal),
            _ => None,
        }
    }

    /// Time since the client first sent its last request; `None` without a client.
    pub fn response_time(&self, now: Time) -> Option<Duration> {
        match &self.running {
            Running::Client(client) => Some(client.response_time(now)),
            _ => None,
        }
    }

    /// The player of a video.
    pub fn player(&self) -> Option<&Player> {
        match &self.running {
            Running::Client(client) => client.player(),
            _ => None,
        }
    }

    /// All written data have been delivered. Returns the time of the next write or request, if any.
    pub fn delivered(&mut self, now: Time) -> Option<Time> {
        if let Running::Client(client) = &mut self.running {
            return client.received(now, self.stop);
        }
        self.writing &= !self.finite();
        self.running.delivered(now).filter(|&at| at < self.stop)
    }

    /// True for a single transfer, which closes the connection after its only write.
    pub fn finite(&self) -> bool {
        matches!(self.running, Running::Writer(Some(_)))
    }

    /// See [`App::is_endless`].
    pub fn endless(&self) -> bool {
        self.is_endless
    }

    /// See [`App::is_answered`].
    pub fn is_answered(&self) -> bool {
        self.is_answered
    }
}
