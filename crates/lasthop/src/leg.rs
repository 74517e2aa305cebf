//! Relays: what a split scheme puts between the two halves of a connection.
//!
//! A *leg* is one of the two TCP connections at the relay's node. The simulator's legs are core TCP
//! endpoints; live ones would be sockets. A relay moves bytes between them and steers their
//! windows.

use crate::segment::Notice;
use crate::units::{Duration, Time};

/// The two legs at a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The leg on which data arrive.
    Inbound,
    /// The leg on which data leave.
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

/// What a host's legs can do beyond moving bytes. A scheme that needs more than a leg can do is
/// refused with that reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// `set_window`: replace the congestion window.
    pub window: bool,
    /// `set_receive_window`.
    pub receive_window: bool,
    /// `acknowledge_up_to`: acknowledge less than what has arrived.
    pub acknowledge: bool,
    /// `hold` and `resume`: freeze the sender and its timers.
    pub hold: bool,
}

/// What a relay can ask of its host.
pub trait SplitConnection {
    /// What these legs can do.
    fn capabilities(&self) -> Capabilities;
    /// Bytes that arrived on the inbound leg in order and have not been moved on.
    fn readable(&self) -> u64;
    /// Bytes that were moved to the outbound leg and are not yet acknowledged there.
    fn unacknowledged(&self) -> u64;
    /// Of them, those that have been sent.
    fn in_flight(&self) -> u64;
    /// Payload bytes of a full segment of the outbound leg, and its bytes on the wire.
    fn segment(&self) -> (u32, u32);
    /// Smallest round-trip time seen on a leg.
    fn round_trip(&self, side: Side) -> Option<Duration>;
    /// Moves up to `bytes` from the inbound leg to the outbound one and says how many it moved.
    fn transfer(&mut self, bytes: u64) -> u64;
    /// Sets the receive window that the inbound leg advertises, in bytes.
    fn set_receive_window(&mut self, bytes: u64);
    /// Lets the inbound leg acknowledge up to this stream offset and not further.
    fn acknowledge_up_to(&mut self, offset: u64);
    /// Acknowledges up to this stream offset with a window of 0. What has been offered before is
    /// taken all the same.
    fn close_window(&mut self, offset: u64);
    /// Opens that window again, and acknowledges up to this stream offset.
    fn open_window(&mut self, offset: u64);
    /// Asks for `LegEvent::Timer` at this time, and not at the one asked for before.
    fn wake(&mut self, at: Time);
    /// Sets the congestion window of the outbound leg, in bytes. Where the scheme has a window rule
    /// for that leg which lets itself be steered, the window stays there.
    fn set_window(&mut self, bytes: u64);
    /// Freezes the outbound leg's sender with its timers.
    fn hold(&mut self);
    /// Thaws it; the first `lost` of the bytes in flight are sent again at once. What was sent
    /// before the hold gives no round-trip time, and the timer starts anew.
    fn resume(&mut self, lost: u64);
    /// No more data will be moved to the outbound leg.
    fn half_close(&mut self);
    /// Breaks a leg off. What it holds is lost.
    fn reset(&mut self, side: Side);
}

/// What happened at a relay.
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
    /// The far end of this leg has broken it off. There is nobody left to relay from, or to.
    Reset(Side),
    /// A notice about one of the legs has come.
    Notice(Notice),
    /// The time that the relay asked for.
    Timer,
}

/// A split scheme. Only `on_event` is required.
pub trait Relay: Send {
    /// What the scheme needs of its legs.
    fn needs(&self) -> Capabilities {
        Capabilities { window: false, receive_window: false, acknowledge: false, hold: false }
    }

    /// The receive buffer of the inbound leg in bytes, if the relay limits it.
    fn receive_window(&self) -> Option<u64> {
        None
    }

    /// What the inbound leg advertises of it in its SYN, if less.
    fn first_window(&self) -> Option<u64> {
        None
    }

    /// Something happened on a leg.
    fn on_event(&mut self, now: Time, event: LegEvent, legs: &mut dyn SplitConnection);

    /// Named counters for reports, in a fixed order.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
