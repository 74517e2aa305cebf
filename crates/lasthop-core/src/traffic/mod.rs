//! Traffic sources: what applications write, and when.

mod client;
mod operation;
mod sizes;
mod video;

use crate::random::Stream;
use crate::units::{Duration, Rate, Time};
use client::Client;

pub use operation::Do;
pub use sizes::{Cdf, DATA_MINING, Sizes, WEB_SEARCH};
pub use video::{Adaptation, Playback, Player, Video};

/// The traffic model of an application.
#[derive(Clone, Debug, PartialEq)]
pub enum App {
    /// Unlimited data.
    Bulk,
    /// One transfer of a fixed size.
    Transfer {
        /// Payload bytes.
        size: u64,
    },
    /// Transfers that arrive as a Poisson process, each over its own connection. A run replaces
    /// it with the transfers that arrive with its seed.
    Poisson {
        /// Sizes of the transfers.
        sizes: Sizes,
        /// Mean time between two arrivals.
        mean_gap: Duration,
    },
    /// Consecutive transfers with pauses between them (page views).
    Web {
        /// Mean size of a page, bytes.
        mean_size: u64,
        /// Pareto shape of the page sizes.
        shape: f64,
        /// Mean of the exponential pause between the end of a page and the request for the next.
        mean_pause: Duration,
    },
    /// A client that requests one response after another over one connection.
    Requests {
        /// Payload of a request, bytes.
        request: u32,
        /// Sizes of the responses.
        sizes: Sizes,
        /// Mean of the exponential time between the end of a response and the next request; 0 for
        /// none.
        mean_think: Duration,
    },
    /// Adaptive video: a client that requests one chunk after another over one connection.
    Video {
        /// Payload of a request, bytes.
        request: u32,
        /// The video and its player.
        video: Video,
    },
    /// Bursts and pauses, both of exponential length.
    OnOff {
        /// Mean length of a burst.
        mean_on: Duration,
        /// Mean length of a pause.
        mean_off: Duration,
        /// Write rate during a burst; `None`: unlimited data, and data not sent at the end of the
        /// burst are withdrawn.
        rate: Option<Rate>,
    },
    /// Datagrams at a constant rate; not TCP.
    Cbr {
        /// Rate of the payload.
        rate: Rate,
    },
    /// A call: datagrams at a constant interval, each of which is useless after a deadline.
    Call {
        /// Time between two datagrams.
        interval: Duration,
        /// Payload of a datagram, bytes.
        payload: u32,
        /// Time from sending to playing.
        deadline: Duration,
    },
    /// Datagrams at a constant interval, which the receiver answers at once with a datagram of the
    /// same size.
    Ping {
        /// Time between two datagrams.
        interval: Duration,
        /// Payload of a datagram, bytes.
        payload: u32,
    },
    /// Datagrams in bursts; the lengths of bursts and pauses are Pareto distributed.
    ParetoOnOff {
        /// Rate of the payload within a burst.
        rate: Rate,
        /// Mean length of a burst.
        mean_on: Duration,
        /// Mean length of a pause.
        mean_off: Duration,
        /// Pareto shape of both lengths, above 1.
        shape: f64,
    },
    /// Datagrams with Pareto distributed spacing.
    Pareto {
        /// Mean rate of the payload.
        rate: Rate,
        /// Pareto shape of the spacing, above 1.
        shape: f64,
    },
    /// Datagrams that a protocol stack outside lasthop sends, at both ends. No scenario file has
    /// it: a host puts it in the place of a flow's application.
    External,
}

impl App {
    /// Name of the kind in scenario files. An object of a web session is a transfer.
    pub fn kind(&self) -> &'static str {
        match self {
            App::Bulk => "bulk",
            App::Transfer { .. } => "transfer",
            App::Poisson { .. } => "poisson",
            App::Web { .. } => "web",
            App::Requests { .. } => "requests",
            App::Video { .. } => "video",
            App::OnOff { .. } => "on-off",
            App::Cbr { .. } => "cbr",
            App::Call { .. } => "call",
            App::Ping { .. } => "ping",
            App::ParetoOnOff { .. } => "pareto-on-off",
            App::Pareto { .. } => "pareto",
            App::External => "external",
        }
    }

    /// Mean payload rate of a datagram source, bit/s, 0 if only an external stack knows it; `None`
    /// for TCP.
    pub fn datagrams(&self) -> Option<f64> {
        match *self {
            App::Cbr { rate } | App::Pareto { rate, .. } => Some(rate.0 as f64),
            App::Call { interval, payload, .. } | App::Ping { interval, payload } => {
                Some(8.0 * f64::from(payload) / interval.as_secs())
            }
            App::ParetoOnOff { rate, mean_on, mean_off, .. } => {
                Some(rate.0 as f64 * (mean_on.0 as f64 / (mean_on.0 + mean_off.0) as f64))
            }
            App::External => Some(0.0),
            App::Bulk
            | App::Transfer { .. }
            | App::Poisson { .. }
            | App::Web { .. }
            | App::Requests { .. }
            | App::Video { .. }
            | App::OnOff { .. } => None,
        }
    }

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
/// use lasthop_core::traffic::{App, AppState, Do};
/// use lasthop_core::units::{Rate, Time};
///
/// let app = App::Cbr { rate: Rate(800_000) };
/// let mut state = AppState::new(&app, None, 1000, 1, "flow 1");
/// let (operation, next) = state.fire(Time::ZERO);
/// assert_eq!(operation, Some(Do::Datagram(1000)));
/// assert_eq!(next, Some(Time(10_000_000)));
/// ```
#[derive(Clone, Debug)]
pub struct AppState {
    app: App,
    stream: Stream,
    step: u64,
    writing: bool,
    stop: Time,
    segment: u32,
    burst: Burst,
    client: Option<Client>,
}

/// A burst of datagrams.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    /// Datagrams left in the burst.
    remaining: u64,
    /// Fraction of a datagram by which past bursts exceeded whole datagrams. It is carried over to
    /// the next burst, so that the mean rate is exact.
    rest: f64,
    /// Start time of the next burst.
    next: Time,
}

impl AppState {
    /// The application of a flow, before its first operation.
    pub fn new(app: &App, stop: Option<Duration>, segment: u32, seed: u64, name: &str) -> Self {
        let stop = stop.map_or(Time::NEVER, |d| Time::ZERO + d);
        let client = match app {
            App::Requests { request, sizes, mean_think } => {
                Some(Client::for_responses((sizes, *mean_think), *request, seed, name))
            }
            App::Video { request, video } => Some(Client::for_video(video, *request)),
            _ => None,
        };
        AppState {
            app: app.clone(),
            stream: Stream::new(seed, &format!("traffic {name}")),
            step: 0,
            writing: false,
            stop,
            segment,
            burst: Burst::default(),
            client,
        }
    }

    /// The operation to perform now, and the time of the next call.
    pub fn fire(&mut self, now: Time) -> (Option<Do>, Option<Time>) {
        if let Some(client) = &mut self.client {
            return client.fire(now, self.stop);
        }
        if now >= self.stop {
            let was = std::mem::take(&mut self.writing);
            let what = if self.finite() { Do::Abort } else { Do::Stop };
            return (was.then_some(what), None);
        }
        let first = self.step == 0;
        self.step += 1;
        let stop = (self.stop != Time::NEVER).then_some(self.stop);
        match &self.app {
            App::Bulk => {
                self.writing = true;
                (Some(Do::Write(u64::MAX)), stop)
            }
            App::Transfer { size } => {
                self.writing = true;
                (first.then_some(Do::Write(*size)), stop)
            }
            // Each transfer of a process is a separate flow; a client has fired above; an external
            // stack has its own timers.
            App::Poisson { .. } | App::Requests { .. } | App::Video { .. } | App::External => {
                (None, None)
            }
            App::Web { mean_size, shape, .. } => {
                let size = self.stream.pareto(2 * self.step, *mean_size as f64, *shape).max(1.0);
                (Some(Do::Write(size as u64)), None)
            }
            &App::OnOff { mean_on, mean_off, rate: Some(rate) } => {
                self.written_burst(now, rate, [mean_on, mean_off])
            }
            App::OnOff { mean_on, mean_off, rate: None } => {
                self.writing = !self.writing;
                let mean = if self.writing { mean_on } else { mean_off };
                let wait =
                    Duration::from_secs_f64(self.stream.exponential(self.step, mean.as_secs()))
                        .max(Duration(1));
                let next = (now + wait).min(self.stop);
                (Some(if self.writing { Do::Write(u64::MAX) } else { Do::Stop }), Some(next))
            }
            App::Cbr { rate } => {
                // Constant integer spacing: rounding errors do not accumulate.
                let next = now + rate.time_for(u64::from(self.segment));
                (Some(Do::Datagram(self.segment)), Some(next))
            }
            App::Call { interval, .. } | App::Ping { interval, .. } => {
                (Some(Do::Datagram(self.segment)), Some(now + *interval))
            }
            App::Pareto { rate, shape } => {
                let mean = rate.time_for(u64::from(self.segment));
                (Some(Do::Datagram(self.segment)), Some(now + self.draw(self.step, mean, *shape)))
            }
            &App::ParetoOnOff { rate, mean_on, mean_off, shape } => {
                self.burst(now, rate, [mean_on, mean_off], shape)
            }
        }
    }

    fn draw(&self, index: u64, mean: Duration, shape: f64) -> Duration {
        Duration::from_secs_f64(self.stream.pareto(index, mean.as_secs(), shape)).max(Duration(1))
    }

    /// Sends the next datagram of a burst, or draws the next burst and the pause after it.
    fn burst(
        &mut self,
        now: Time,
        rate: Rate,
        [mean_on, mean_off]: [Duration; 2],
        shape: f64,
    ) -> (Option<Do>, Option<Time>) {
        let spacing = rate.time_for(u64::from(self.segment)).max(Duration(1));
        if self.burst.remaining == 0 {
            let (on, off) = (
                self.draw(2 * self.step, mean_on, shape),
                self.draw(2 * self.step + 1, mean_off, shape),
            );
            let datagrams = on.0 as f64 / spacing.0 as f64 + self.burst.rest;
            self.burst = Burst {
                remaining: datagrams as u64,
                rest: datagrams - libm::trunc(datagrams),
                next: now + on + off,
            };
            if self.burst.remaining == 0 {
                return (None, Some(self.burst.next));
            }
        }
        self.burst.remaining -= 1;
        // The carried-over fraction is below one spacing, so the last datagram leaves before the
        // burst ends.
        let next = if self.burst.remaining > 0 { now + spacing } else { self.burst.next };
        (Some(Do::Datagram(self.segment)), Some(next))
    }

    /// Writes the next segment of a burst, or draws the next burst and the pause after it. The
    /// first segment is written at the start of the burst.
    fn written_burst(
        &mut self,
        now: Time,
        rate: Rate,
        [mean_on, mean_off]: [Duration; 2],
    ) -> (Option<Do>, Option<Time>) {
        let spacing = rate.time_for(u64::from(self.segment)).max(Duration(1));
        if self.burst.remaining == 0 {
            let draw = |index, mean: Duration| {
                Duration::from_secs_f64(self.stream.exponential(index, mean.as_secs()))
                    .max(Duration(1))
            };
            let (on, off) = (draw(2 * self.step, mean_on), draw(2 * self.step + 1, mean_off));
            self.burst =
                Burst { remaining: on.0.div_ceil(spacing.0), next: now + on + off, ..self.burst };
        }
        self.burst.remaining -= 1;
        let next = if self.burst.remaining > 0 { now + spacing } else { self.burst.next };
        (Some(Do::Write(u64::from(self.segment))), Some(next.min(self.stop)))
    }

    /// The number of bytes that have arrived at the client of the flow.
    pub fn set_arrived(&mut self, bytes: u64) {
        if let Some(client) = &mut self.client {
            client.set_arrived(bytes);
        }
    }

    /// A request of the client reaches the sender. Returns the number of bytes that it writes in
    /// response; `None` if it has answered this request before.
    pub fn request_arrived(&mut self, ordinal: u64) -> Option<u64> {
        self.client.as_mut()?.request_arrived(ordinal)
    }

    /// Time since the client first sent its last request; `None` without a client.
    pub fn response_time(&self, now: Time) -> Option<Duration> {
        self.client.as_ref().map(|client| client.response_time(now))
    }

    /// The player of a video.
    pub fn player(&self) -> Option<&Player> {
        self.client.as_ref()?.player()
    }

    /// All written data have been delivered. Returns the time of the next write or request, if any.
    pub fn delivered(&mut self, now: Time) -> Option<Time> {
        if let Some(client) = &mut self.client {
            return client.received(now, self.stop);
        }
        match &self.app {
            App::Web { mean_pause, .. } => {
                let wait = Duration::from_secs_f64(
                    self.stream.exponential(2 * self.step + 1, mean_pause.as_secs()),
                );
                let at = now + wait;
                (at < self.stop).then_some(at)
            }
            _ => {
                self.writing &= !self.finite();
                None
            }
        }
    }

    /// True for a single transfer, which closes the connection after its only write.
    pub fn finite(&self) -> bool {
        matches!(self.app, App::Transfer { .. })
    }

    /// True for unlimited data, whose delay is measured from the first transmission, not from the
    /// write.
    pub fn endless(&self) -> bool {
        matches!(self.app, App::Bulk | App::OnOff { rate: None, .. })
    }

    /// True if the receiver sends datagrams too.
    pub fn is_answered(&self) -> bool {
        matches!(self.app, App::Ping { .. } | App::External)
    }

    /// True if the traffic model uses random draws.
    pub fn is_random(app: &App) -> bool {
        match app {
            App::Poisson { .. }
            | App::Web { .. }
            | App::OnOff { .. }
            | App::ParetoOnOff { .. }
            | App::Pareto { .. } => true,
            App::Requests { sizes, mean_think, .. } => {
                *mean_think > Duration::ZERO || !matches!(sizes, Sizes::Constant(_))
            }
            App::Bulk
            | App::Transfer { .. }
            | App::Video { .. }
            | App::Cbr { .. }
            | App::Call { .. }
            | App::Ping { .. }
            | App::External => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times at which datagrams of 1000 bytes are sent within 2000 s.
    fn times(app: &App, seed: u64) -> Vec<f64> {
        let mut state = AppState::new(app, None, 1000, seed, "x");
        let (mut now, mut found) = (Time::ZERO, Vec::new());
        while now < Time::ZERO + Duration::secs(2000) {
            let (what, next) = state.fire(now);
            if what.is_some() {
                assert_eq!(what, Some(Do::Datagram(1000)));
                found.push(now.0 as f64 / 1e9);
            }
            now = next.unwrap();
        }
        found
    }

    /// Bursts of 500 ms at 10 Mbit/s and pauses of 125 ms give a mean of 8 Mbit/s. With shape 2 the
    /// sample mean converges slowly.
    #[test]
    fn bursts_have_the_mean_rate() {
        let app = App::ParetoOnOff {
            rate: Rate(10_000_000),
            mean_on: Duration::millis(500),
            mean_off: Duration::millis(125),
            shape: 2.0,
        };
        assert_eq!(app.datagrams(), Some(8e6));
        let rates: Vec<f64> =
            (1..=8).map(|seed| times(&app, seed).len() as f64 * 8000.0 / 2000.0).collect();
        let mean = rates.iter().sum::<f64>() / 8.0;
        assert!((mean - 8e6).abs() < 0.02 * 8e6, "{rates:?}");
        let gaps: Vec<f64> = times(&app, 1).windows(2).map(|t| t[1] - t[0]).collect();
        assert!(gaps.iter().all(|g| *g > 0.000_799));
        // The minimum pause is half the mean pause.
        assert!(gaps.iter().all(|g| *g < 0.000_801 || *g > 0.062));
    }

    #[test]
    fn pareto_spacing_has_the_mean_rate_and_a_minimum() {
        let app = App::Pareto { rate: Rate(8_000_000), shape: 2.0 };
        let found = times(&app, 1);
        let rate = found.len() as f64 * 8000.0 / 2000.0;
        assert!((rate - 8e6).abs() < 0.02 * 8e6, "{rate}");
        assert!(found.windows(2).all(|t| t[1] - t[0] > 0.000_499));
    }

    /// The source of noor: 16 kbit/s for one second, nothing for one second, on average. The number
    /// of segments in a burst is rounded up.
    #[test]
    fn bursts_are_written_at_their_rate() {
        let app = App::OnOff {
            mean_on: Duration::secs(1),
            mean_off: Duration::secs(1),
            rate: Some(Rate(16_000)),
        };
        let mut state = AppState::new(&app, None, 76, 1, "x");
        let (mut now, mut gaps, mut written) = (Time::ZERO, Vec::new(), 0);
        while now < Time::ZERO + Duration::secs(20_000) {
            let (what, next) = state.fire(now);
            assert_eq!(what, Some(Do::Write(76)));
            gaps.push(next.unwrap() - now);
            (now, written) = (next.unwrap(), written + 1);
        }
        let spacing = Duration::millis(38);
        let in_burst = gaps.iter().filter(|g| **g == spacing).count() as f64;
        assert!((in_burst * 0.038 / 20_000.0 - 0.5).abs() < 0.01);
        let expected = 20_000.0 / 2.0 / (1.0 - libm::exp(-0.038));
        assert!((written as f64 / expected - 1.0).abs() < 0.02, "{written} {expected}");
        assert!(!state.endless() && !state.finite() && AppState::is_random(&app));
    }

    /// Fractions of a datagram are carried over between bursts.
    #[test]
    fn short_bursts_have_the_mean_rate() {
        let app = App::ParetoOnOff {
            rate: Rate(80_000),
            mean_on: Duration::millis(30),
            mean_off: Duration::millis(30),
            shape: 3.0,
        };
        let rate = times(&app, 1).len() as f64 * 8000.0 / 2000.0;
        assert!((rate - 40_000.0).abs() < 0.05 * 40_000.0, "{rate}");
    }
}
