//! What a cell and its host tell each other about frames.

use super::medium_use::MediumUse;
use crate::queue::{Frame, Headers};
use lasthop_core::agent::LinkEvent;
use lasthop_core::framing::{AnyFraming, Step};
use lasthop_core::segment::Handle;
use lasthop_core::units::{Duration, Time};

/// The host's information about a frame.
///
/// # Examples
///
/// A cell of an access point (0) and a station (1), and a host with one segment for it:
///
/// ```
/// use lasthop_channel::air::config::LossConfig;
/// use lasthop_channel::link::cell::config::{CellConfig, StationConfig};
/// use lasthop_channel::link::cell::mac::{Mac, MacName};
/// use lasthop_channel::link::cell::{Cell, Freight};
/// use lasthop_channel::queue::{Frame, Headers, QueueConfig};
/// use lasthop_core::segment::{Handle, Segment};
/// use lasthop_core::units::{QueueLimit, Time};
///
/// struct OneSegment(Segment);
///
/// impl Headers for OneSegment {
///     fn segment(&self, _: Handle) -> &Segment {
///         &self.0
///     }
/// }
///
/// impl Freight for OneSegment {
///     fn receiver(&self, station: usize, _: Handle) -> usize {
///         1 - station
///     }
/// }
///
/// let station = |node| StationConfig {
///     node,
///     queue: QueueConfig::drop_tail(QueueLimit::Packets(50)),
///     overhead: 0,
///     down: LossConfig::None,
///     up: LossConfig::None,
///     outages: vec![],
///     mcs: None,
///     snr_db: None,
/// };
/// let mac = Mac::named(MacName::Dot11b);
/// let stations = vec![station(0), station(1)];
/// let config = CellConfig { name: "cell".into(), mac, wifi: None, busy: vec![], stations };
/// let names = ["ap".to_string(), "phone".to_string()];
/// let mut cell = Cell::new(&config, &names, 1, 1000).unwrap();
///
/// let host = OneSegment(Segment { len: 1000, size: 1040, ..Segment::default() });
/// let (mut reports, mut outcomes) = (vec![], vec![]);
/// let frame = Frame::new(7, &host.0, 34, Time::ZERO);
/// cell.offer(Time::ZERO, (0, 1), frame, &host, &mut outcomes);
/// let end = cell.next_event().0;
/// let delivery = cell.fire(end, &host, &mut reports, &mut outcomes).unwrap();
/// assert_eq!((delivery.attempt.frame.handle, delivery.attempt.to), (7, 1));
/// assert!(delivery.end().arrives && reports.is_empty());
/// ```
pub trait Freight: Headers {
    /// The next hop of the frame.
    fn receiver(&self, station: usize, handle: Handle) -> usize;
    /// The fragments of the frame, if it is fragmented.
    fn framing(&self, _handle: Handle) -> Option<&AnyFraming> {
        None
    }
}

/// The instant at which a cell acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Time and trigger time of the event that is due.
    pub now: Time,
    /// See `now`.
    pub triggered_at: Time,
    /// Nothing but the cell acts before this time.
    pub until: Time,
}

/// A report of a cell to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// An attempt begins (only if the host has subscribed with `announce`).
    Started(Attempt),
    /// An attempt is over, at the end of its air time.
    Ended(Attempt, End),
    /// The same for its usual end.
    Delivered(Delivery),
    /// A packet that was held in a reorder buffer goes up the stack. Its last attempt; only its
    /// stations and its frame are set.
    Released {
        /// The packet.
        attempt: Attempt,
        /// The sender still has it, since no acknowledgement has arrived.
        retained: bool,
    },
    /// The medium was or is used (only if the host watches it, and only with aggregation).
    Used(MediumUse),
}

/// The usual end of an attempt: a frame that is not fragmented arrives, and its sender knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The attempt.
    pub attempt: Attempt,
    /// The last attempt that failed was a collision.
    pub crashed: bool,
    /// Time of the medium that the attempt took, link ACK included.
    pub air_time: Duration,
}

impl Delivery {
    /// The result of the attempt.
    pub fn end(&self) -> End {
        End {
            received: true,
            arrives: true,
            arrived: true,
            held: false,
            late: false,
            delivered: true,
            collided: false,
            crashed: self.crashed,
            step: Step::Whole,
            damaged_frames: None,
            air_time: self.air_time,
        }
    }

    /// The same as a report.
    pub fn report(&self) -> Report {
        Report::Ended(self.attempt, self.end())
    }
}

/// One attempt to send a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The sending station.
    pub station: usize,
    /// The receiving station.
    pub to: usize,
    /// The frame.
    pub frame: Frame,
    /// Bytes of it that this attempt sends, overhead included: all of them unless it is fragmented.
    pub bytes: u32,
    /// Number of the attempt, from 1; 0 if the frame is dropped without one.
    pub number: u32,
    /// Start of the attempt.
    pub start: Time,
}

impl Attempt {
    /// An attempt of an MPDU, for one of its packets.
    pub(super) fn of_packet(
        station: usize,
        to: usize,
        frame: Frame,
        number: u32,
        start: Time,
    ) -> Attempt {
        Attempt { station, to, frame, bytes: frame.bytes, number, start }
    }
}

/// Result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The receiver has received what this attempt sent, perhaps as a duplicate.
    pub received: bool,
    /// The frame is complete at the receiver with this attempt.
    pub arrives: bool,
    /// It is complete there, with this attempt or an earlier one.
    pub arrived: bool,
    /// It waits in the reorder buffer of the receiver; a report of its release follows.
    pub held: bool,
    /// It came when the reorder buffer had stopped waiting for it.
    pub late: bool,
    /// The sender considers it delivered: the link ACK has arrived, or there are none.
    pub delivered: bool,
    /// Another station sent at the same time.
    pub collided: bool,
    /// The last attempt that failed was a collision: the drop reason of a discarded frame.
    pub crashed: bool,
    /// What the sender does with the frame next.
    pub step: Step,
    /// What the receiver has of a discarded frame that it has not received: its first fragment, or
    /// a damaged frame.
    pub damaged_frames: Option<LinkEvent>,
    /// Time of the medium that the attempt took, link ACK included. In a collision the longest
    /// frame counts it all.
    pub air_time: Duration,
}

impl End {
    /// True if the sender has finished the frame: it is delivered, or this was the last attempt.
    pub fn last(&self) -> bool {
        self.step != Step::More
    }

    /// True if the frame is lost.
    pub fn loses(&self) -> bool {
        self.last() && !self.arrived
    }
}

/// How the transmission of one station alone has ended.
pub(super) enum Exchanged {
    /// A frame is delivered.
    Delivered(Delivery),
    /// A fragment is delivered, and the next one follows.
    Fragment,
    /// Otherwise; the end of the attempt was reported.
    Other,
}
