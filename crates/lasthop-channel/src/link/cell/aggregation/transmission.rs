//! What a station sends when it has won the medium.

use lasthop_core::units::{Duration, Time};

/// What a station sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing.
    #[default]
    None,
    /// A BlockAckReq.
    Request,
    /// One MPDU, answered by an ACK.
    Single,
    /// An A-MPDU, answered by a block acknowledgement.
    Aggregate,
}

/// An exchange of one station.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchange {
    /// Index of the session at the station.
    pub session: usize,
    pub content: Content,
    /// Places of the MPDUs in the window of the session.
    pub places: Vec<usize>,
    /// Bytes of the PSDU with data.
    pub psdu: u64,
    /// Duration of the data, of the answer, and of the RTS before, if there is one.
    pub data: Duration,
    pub answer: Duration,
    pub rts: Option<Duration>,
    /// It begins with RTS and CTS, whatever its length.
    pub protect: bool,
    /// MCS and length of the MPDU, if it is the only one and begins the exchange. With the same
    /// ones, the next such exchange has the same durations.
    pub single: Option<(usize, u32)>,
}

impl Exchange {
    /// Duration of the first transmission.
    pub(super) fn first(&self) -> Duration {
        self.rts.unwrap_or(self.data)
    }
}

/// What of the aggregate on the air has gone up the stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    /// Place in the aggregate of the next MPDU to go up, and when; `NEVER`: none.
    pub next: usize,
    pub at: Time,
    /// It has been decided which of its MPDUs the receiver receives.
    pub drawn: bool,
}

impl Passing {
    pub(super) const NONE: Passing = Passing { next: 0, at: Time::NEVER, drawn: false };

    /// At the end of the aggregate: whether it has been decided what the receiver receives.
    pub(super) fn take_drawn(&mut self) -> bool {
        std::mem::replace(self, Passing::NONE).drawn
    }
}
