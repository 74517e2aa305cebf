//! Relays: the proxies of split-connection schemes.
//!
//! A *leg* is one of the two TCP connections at the relay's node. In the simulator the legs are TCP
//! endpoints of this crate. A relay moves bytes between them and controls their windows.

use crate::segment::Notice;
use crate::units::{Duration, Time};

/// The two legs at a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The leg from the data sender, on which data arrive.
    Inbound,
    /// The leg to the data receiver, on which data are sent.
    Outbound,
}

impl Side {
    /// The other leg.
    pub fn other(self) -> Side {
        match self {
            Side::Inbound => Side::Outbound,
            Side::Outbound => Side::Inbound,
        }
    }
}

/// Operations that a host's legs support beyond moving bytes. A scheme that needs an unsupported
/// operation is rejected with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// `set_window`: set the congestion window.
    pub window: bool,
    /// `set_receive_window`: limit the advertised window.
    pub receive_window: bool,
    /// `acknowledge_up_to`: acknowledge less than has arrived.
    pub acknowledge: bool,
    /// `hold` and `resume`: freeze the sender and its timers.
    pub hold: bool,
}

/// The operations on the two legs that the host provides to a relay.
///
/// No operation fails: a host limits what cannot be carried out (`transfer` returns the number of
/// bytes moved), and refuses a scheme that needs an operation which its legs do not support
/// ([`Relay::needs`]) before the run.
///
/// # Examples
///
/// Two legs for the test of a relay, which only count bytes, and a relay that moves all that it can
/// read:
///
/// ```
/// use lasthop_core::leg::{Capabilities, LegEvent, Relay, Side, SplitConnection};
/// use lasthop_core::units::{Duration, Time};
///
/// #[derive(Default)]
/// struct Counting {
///     readable: u64,
///     moved: u64,
///     ended: bool,
/// }
///
/// impl SplitConnection for Counting {
///     fn capabilities(&self) -> Capabilities {
///         Capabilities { window: false, receive_window: false, acknowledge: false, hold: false }
///     }
///     fn readable(&self) -> u64 {
///         self.readable
///     }
///     fn unacknowledged(&self) -> u64 {
///         self.moved
///     }
///     fn in_flight(&self) -> u64 {
///         self.moved
///     }
///     fn segment(&self) -> (u32, u32) {
///         (1000, 1040)
///     }
///     fn round_trip(&self, _: Side) -> Option<Duration> {
///         None
///     }
///     fn transfer(&mut self, bytes: u64) -> u64 {
///         let moved = bytes.min(self.readable);
///         (self.readable, self.moved) = (self.readable - moved, self.moved + moved);
///         moved
///     }
///     fn half_close(&mut self) {
///         self.ended = true;
///     }
///     // A relay whose `needs` these legs do not meet is refused, so the others are not called.
///     fn set_receive_window(&mut self, _: u64) {}
///     fn acknowledge_up_to(&mut self, _: u64) {}
///     fn close_window(&mut self, _: u64) {}
///     fn open_window(&mut self, _: u64) {}
///     fn wake(&mut self, _: Time) {}
///     fn set_window(&mut self, _: u64) {}
///     fn hold(&mut self) {}
///     fn resume(&mut self, _: u64) {}
///     fn reset(&mut self, _: Side) {}
/// }
///
/// struct MoveAll;
///
/// impl Relay for MoveAll {
///     fn on_event(&mut self, _: Time, event: LegEvent, legs: &mut dyn SplitConnection) {
///         match event {
///             LegEvent::Readable => drop(legs.transfer(legs.readable())),
///             LegEvent::HalfClosed => legs.half_close(),
///             _ => {}
///         }
///     }
/// }
///
/// let mut legs = Counting { readable: 3000, ..Counting::default() };
/// MoveAll.on_event(Time::ZERO, LegEvent::Readable, &mut legs);
/// MoveAll.on_event(Time::ZERO, LegEvent::HalfClosed, &mut legs);
/// assert_eq!((legs.readable(), legs.unacknowledged(), legs.ended), (0, 3000, true));
/// ```
pub trait SplitConnection {
    /// The operations that these legs support.
    fn capabilities(&self) -> Capabilities;
    /// Bytes received in order on the inbound leg and not yet transferred.
    fn readable(&self) -> u64;
    /// Bytes transferred to the outbound leg and not yet acknowledged there.
    fn unacknowledged(&self) -> u64;
    /// Bytes in flight on the outbound leg.
    fn in_flight(&self) -> u64;
    /// A full segment of the outbound leg: payload bytes and bytes on the wire.
    fn segment(&self) -> (u32, u32);
    /// Minimum RTT observed on a leg; `None` before the first sample.
    fn round_trip(&self, side: Side) -> Option<Duration>;
    /// Moves up to `bytes` bytes from the inbound to the outbound leg; returns the number moved.
    fn transfer(&mut self, bytes: u64) -> u64;
    /// Limits the receive window that the inbound leg advertises, bytes.
    fn set_receive_window(&mut self, bytes: u64);
    /// Allows the inbound leg to acknowledge up to this stream offset.
    fn acknowledge_up_to(&mut self, offset: u64);
    /// Acknowledges up to this stream offset with a zero window. Data within the window advertised
    /// before are still accepted.
    fn close_window(&mut self, offset: u64);
    /// Reopens a window closed by `close_window`, and acknowledges up to this stream offset.
    fn open_window(&mut self, offset: u64);
    /// Requests `LegEvent::Timer` at this time; replaces an earlier request.
    fn wake(&mut self, at: Time);
    /// Sets the congestion window of the outbound leg, bytes. The value is permanent if the
    /// scheme's window rule for that leg is controlled by the relay.
    fn set_window(&mut self, bytes: u64);
    /// Freezes the sender of the outbound leg and its timers.
    fn hold(&mut self);
    /// Resumes the sender and immediately retransmits the first `lost` bytes in flight. Segments
    /// sent before the hold give no RTT sample; the retransmission timer restarts.
    fn resume(&mut self, lost: u64);
    /// Closes the outbound leg for sending: no more data will be transferred.
    fn half_close(&mut self);
    /// Resets a leg. Its buffered data are lost.
    fn reset(&mut self, side: Side);
}

/// An event at a relay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LegEvent {
    /// Both legs are established.
    Open,
    /// Data arrived on the inbound leg.
    Readable,
    /// The outbound leg acknowledged up to this stream offset.
    Acknowledged(u64),
    /// The inbound leg has no more data.
    HalfClosed,
    /// The far end has reset this leg.
    Reset(Side),
    /// A notice about one of the legs has arrived.
    Notice(Notice),
    /// The time requested by `wake` has come.
    Timer,
}

/// A split scheme. Only `on_event` is required.
///
/// # Errors
///
/// A relay reports none: it must accept every event in every state, also after a reset, and must
/// not panic.
///
/// # Examples
///
/// A relay that keeps at most 64 kB unacknowledged on the outbound leg:
///
/// ```
/// use lasthop_core::leg::{LegEvent, Relay, SplitConnection};
/// use lasthop_core::units::Time;
///
/// const LIMIT: u64 = 64_000;
///
/// struct Bounded;
///
/// impl Relay for Bounded {
///     fn receive_window(&self) -> Option<u64> {
///         Some(LIMIT)
///     }
///
///     fn on_event(&mut self, _now: Time, event: LegEvent, legs: &mut dyn SplitConnection) {
///         match event {
///             LegEvent::Readable | LegEvent::Acknowledged(_) => {
///                 let room = LIMIT.saturating_sub(legs.unacknowledged());
///                 legs.transfer(room.min(legs.readable()));
///             }
///             LegEvent::HalfClosed if legs.readable() == 0 => legs.half_close(),
///             LegEvent::Reset(side) => legs.reset(side.other()),
///             _ => {}
///         }
///     }
/// }
///
/// assert_eq!(Bounded.receive_window(), Some(LIMIT));
/// assert!(!Bounded.needs().hold);
/// ```
pub trait Relay: Send {
    /// The operations that the scheme needs.
    fn needs(&self) -> Capabilities {
        Capabilities { window: false, receive_window: false, acknowledge: false, hold: false }
    }

    /// Receive buffer of the inbound leg, bytes, if the relay limits it.
    fn receive_window(&self) -> Option<u64> {
        None
    }

    /// Window that the inbound leg advertises in its SYN, bytes, if less than the receive buffer.
    fn first_window(&self) -> Option<u64> {
        None
    }

    /// Handles an event on a leg.
    fn on_event(&mut self, now: Time, event: LegEvent, legs: &mut dyn SplitConnection);

    /// Named counters for reports, in a fixed order.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
