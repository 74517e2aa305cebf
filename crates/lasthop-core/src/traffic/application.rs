//! What a kind of application implements.

use std::fmt;

use super::operation::Do;
use crate::random::Stream;
use crate::units::{Duration, Size, Time};

/// An invalid setting: its key, and a message that states what is allowed.
pub type Fault = (&'static str, String);

/// What is measured of the user of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// Packets of a call, each of which is useless after the deadline.
    Call {
        /// Time between two packets.
        interval: Duration,
        /// Time from sending to playing.
        deadline: Duration,
    },
    /// Frames of a medium, each of which is useless unless all its packets arrive in time.
    Frames {
        /// Time from sending to playing.
        deadline: Duration,
    },
    /// The round-trip time.
    RoundTrip,
}

/// A kind of application: the keys of its table in a scenario file, with their doc comments and
/// defaults, and what follows from them.
///
/// # Examples
///
/// A segment written every second:
///
/// ```
/// use lasthop_core::random::Stream;
/// use lasthop_core::traffic::{Application, Do, Process};
/// use lasthop_core::units::{Duration, Time};
///
/// struct Telemetry;
/// #[derive(Clone, Debug)]
/// struct Writing(u32);
///
/// impl Process for Writing {
///     fn fire(&mut self, now: Time) -> (Option<Do>, Option<Time>) {
///         (Some(Do::Write(self.0.into())), Some(now + Duration::secs(1)))
///     }
/// }
///
/// impl Application for Telemetry {
///     type Process = Writing;
///
///     fn process(&self, segment: u32, _draws: Stream) -> Writing {
///         Writing(segment)
///     }
///
///     fn rate(&self, segment: u32) -> f64 {
///         8.0 * f64::from(segment)
///     }
/// }
///
/// let mut process = Telemetry.process(100, Stream::new(1, "traffic x"));
/// assert_eq!(process.fire(Time::ZERO), (Some(Do::Write(100)), Some(Time(1_000_000_000))));
/// ```
pub trait Application {
    /// The application of one flow at work.
    type Process: Process;

    /// True if it sends datagrams, and not over TCP.
    const IS_DATAGRAMS: bool = false;

    /// True if the receiver answers each datagram at once with one of the same size.
    const IS_ANSWERED: bool = false;

    /// True if it uses random draws.
    const IS_RANDOM: bool = false;

    /// True if it acts when everything that it has written is delivered.
    const WAITS_FOR_DELIVERY: bool = false;

    /// What datagrams it sends, in the description of a flow, before their mean rate.
    const DATAGRAMS: &'static str = "datagrams at";

    /// Default payload of a datagram; `None`: that of a full segment.
    const PAYLOAD: Option<Size> = None;

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// The key and a message that states what is allowed.
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// Mean rate of the payload, bit/s; infinite if the path limits it.
    fn rate(&self, _segment: u32) -> f64 {
        f64::INFINITY
    }

    /// Segments or datagrams that it sends within a number of seconds if the path carries `through`
    /// in this time.
    fn segments(&self, _through: f64, seconds: f64, segment: u32) -> f64 {
        self.rate(segment) / 8.0 * seconds / f64::from(segment)
    }

    /// True if it always has data to send while it writes; the delay is then measured from the
    /// first transmission, not from the write.
    fn is_endless(&self) -> bool {
        false
    }

    /// What is measured of its user.
    fn quality(&self) -> Option<Quality> {
        None
    }

    /// The application of a flow, before its first operation. `segment`: payload of a full segment
    /// or a datagram, bytes.
    fn process(&self, segment: u32, draws: Stream) -> Self::Process;
}

/// An application at work.
///
/// # Examples
///
/// A page that is requested a second after the one before was delivered:
///
/// ```
/// use lasthop_core::traffic::{Do, Process};
/// use lasthop_core::units::{Duration, Time};
///
/// #[derive(Clone, Debug)]
/// struct Pages;
///
/// impl Process for Pages {
///     fn fire(&mut self, _now: Time) -> (Option<Do>, Option<Time>) {
///         (Some(Do::Write(50_000)), None)
///     }
///
///     fn delivered(&mut self, now: Time) -> Option<Time> {
///         Some(now + Duration::secs(1))
///     }
/// }
/// assert_eq!(Pages.delivered(Time::ZERO), Some(Time(1_000_000_000)));
/// ```
pub trait Process: Clone + fmt::Debug {
    /// The operation to perform now, and the time of the next call.
    fn fire(&mut self, now: Time) -> (Option<Do>, Option<Time>);

    /// All written data have been delivered. Returns the time of the next call, if that follows.
    fn delivered(&mut self, _now: Time) -> Option<Time> {
        None
    }
}

/// Refuses a value that must be above zero; `zero` is "0", or "0 s".
pub(super) fn above<T: PartialEq + Default>(
    key: &'static str,
    value: T,
    zero: &str,
) -> Result<(), Fault> {
    if value == T::default() { Err((key, format!("must be above {zero}"))) } else { Ok(()) }
}

/// Refuses the shape of a Pareto distribution without a mean.
pub(super) fn check_shape(shape: f64) -> Result<(), Fault> {
    if shape.is_finite() && shape > 1.0 {
        return Ok(());
    }
    Err(("shape", format!("the shape must be above 1, else there is no mean; found {shape}")))
}

/// Default shape of Pareto distributions.
pub(super) fn pareto_shape() -> f64 {
    1.5
}

/// A draw from a Pareto distribution of durations.
pub(super) fn pareto(draws: &Stream, index: u64, mean: Duration, shape: f64) -> Duration {
    Duration::from_secs_f64(draws.pareto(index, mean.as_secs(), shape)).max(Duration(1))
}

/// A draw from an exponential distribution of durations.
pub(super) fn exponential(draws: &Stream, index: u64, mean: Duration) -> Duration {
    Duration::from_secs_f64(draws.exponential(index, mean.as_secs())).max(Duration(1))
}

/// Share of the time that bursts take.
pub(super) fn duty(on: Duration, off: Duration) -> f64 {
    on.as_secs() / (on + off).as_secs()
}

/// A burst of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burst {
    /// Packets left in the burst.
    pub remaining: u64,
    /// Fraction of a packet by which past bursts exceeded whole packets. It is carried over to the
    /// next burst, so that the mean rate is exact.
    pub rest: f64,
    /// Start time of the next burst.
    pub next: Time,
}

impl Burst {
    /// Takes a packet out of the burst. Returns the time of the next one.
    pub fn step(&mut self, now: Time, spacing: Duration) -> Time {
        self.remaining -= 1;
        if self.remaining > 0 { now + spacing } else { self.next }
    }

    /// Adds packets, of which there may be a fraction.
    pub fn add(&mut self, packets: f64) {
        let packets = packets + self.rest;
        (self.remaining, self.rest) = (packets as u64, packets - libm::trunc(packets));
    }
}
