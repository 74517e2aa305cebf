//! Receivers computed in advance: the arrival of a data segment, and the ACK that it causes, are
//! computed when the segment is sent, with the clock set to the time of its arrival.
//!
//! This gives the same result as an event for each arrival where nothing can come between: nobody
//! observes the arrivals, all frames of the last link reach such receivers in the order in which
//! they enter it, and only these receivers send on the first link of the ACKs
//! (`build/receivers.rs` chooses them). The sender and its ACKs are ordinary events.

use std::sync::Arc;

use lasthop::ring::Ring;
use lasthop::segment::{Flags, NodeId, Segment};
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::timestamp;
use lasthop::units::Time;

use crate::engine::scheduler::{Key, Source};
use crate::events::probe::EarlierCopies;
use crate::network::fast_path::{FastPath, PlainAck, ReceivedAck};
use crate::network::receiver_timers::ReceiverTimer;

/// The arrival of a segment that was computed in advance, or a timer of the receiver.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    at: Time,
    /// Trigger time of the event that it replaces.
    triggered_at: Time,
    /// First byte, and the number of bytes, a FIN included.
    seq: u64,
    len: u32,
    /// The receiver's timer: no bytes arrive.
    is_timer: bool,
    /// It brings no bytes that the receiver lacks.
    repeats: bool,
    /// The ACKs that it and later arrivals cause have packet numbers from this one on.
    acks_from: u64,
}

const _: () = assert!(size_of::<Arrival>() <= 40);

impl Arrival {
    /// The arrival of the segment that an ACK on the fast path answers.
    fn of_plain_ack(ack: &PlainAck) -> Arrival {
        Arrival {
            at: ack.sent_at,
            triggered_at: ack.triggered_at,
            seq: ack.number - u64::from(ack.len),
            len: ack.len,
            is_timer: false,
            repeats: false,
            acks_from: ack.id,
        }
    }

    /// The byte after the last one.
    #[inline]
    fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

/// A connection all of whose packets may take the fast path ([`crate::network::fast`]).
#[derive(Clone, Debug)]
pub(crate) struct FastConnection {
    /// Its fast path, and the node of its sender.
    pub path: Arc<FastPath>,
    pub sender: NodeId,
    /// Bytes on the wire of an ACK without options but timestamps.
    pub ack_size: u32,
    /// Payload bytes of a full segment, and its bytes on the wire.
    pub len: u32,
    pub size: u32,
    /// Flags of its packets: `ACK`, with `TIMESTAMPS` if they have these.
    pub flags: Flags,
    /// The last arrival of a segment on the fast path whose ACK is not delayed.
    pub last: Time,
}

impl FastConnection {
    /// The segment that an ACK on the fast path stands for.
    #[inline(always)]
    pub(crate) fn ack_segment(&self, ack: ReceivedAck) -> Segment {
        let ReceivedAck { number, id, connection, window, .. } = ack;
        let stamped = self.flags.has(Flags::TIMESTAMPS);
        Segment {
            ack: number,
            id,
            flow: connection,
            size: self.ack_size,
            window,
            ts_value: if stamped { timestamp(ack.sent_at) } else { 0 },
            ts_echo: ack.ts_echo,
            to: self.sender,
            flags: self.flags,
            attempt: 1,
            ..Segment::default()
        }
    }
}

/// The arrivals of one connection that were computed in advance and may still be in the future. The
/// ground truth about retransmissions needs to know which ones are.
#[derive(Clone, Debug)]
pub(crate) struct FutureArrivals {
    /// The last link on the way to the receiver, and the event source of its arrivals.
    last: (u32, Source),
    /// Event source of the receiver's timer.
    timer: Source,
    /// The entry for that timer among those of its link: when the timer is due and when it was set;
    /// `NEVER` if there is none.
    entry: (Time, Time),
    /// Arrivals of bytes beyond all those before, by time; so also by their bytes.
    advancing: Ring<Arrival>,
    /// Other arrivals and timers, by time.
    others: Ring<Arrival>,
    /// The number of arrivals in `others` that do not repeat.
    fillers: u64,
    /// The number of arrivals that brought bytes beyond the receive window.
    refused: u64,
}

impl FutureArrivals {
    /// No arrival yet. `last`: the last link on the way to the receiver, and the source of its
    /// arrivals; `timer`: that of the receiver's timer.
    pub(crate) fn new(last: (u32, Source), timer: Source) -> Self {
        FutureArrivals {
            last,
            timer,
            entry: (Time::NEVER, Time::ZERO),
            advancing: Ring::default(),
            others: Ring::default(),
            fillers: 0,
            refused: 0,
        }
    }

    /// Takes the memory of arrivals that are no longer used. None is here yet.
    pub(crate) fn reuse_memory(&mut self, old: &mut Self) {
        self.advancing.reuse_memory(&mut old.advancing);
        self.others.reuse_memory(&mut old.others);
    }

    /// An arrival, or the receiver's timer, is not later than `event`.
    #[inline]
    fn has_happened(&self, arrival: &Arrival, event: &Key) -> bool {
        let source = if arrival.is_timer { self.timer } else { self.last.1 };
        (arrival.at.0, arrival.triggered_at.0, source)
            <= (event.time, event.triggered_at, event.source)
    }

    /// The last link on the way to the receiver.
    #[inline]
    pub(crate) fn link(&self) -> u32 {
        self.last.0
    }

    /// Event source of the receiver's timer.
    #[inline]
    pub(crate) fn receiver_timer(&self) -> Source {
        self.timer
    }

    /// The receiver's timer, set at `armed`, is due at `deadline`. True if it needs an entry among
    /// the timers of its link, because it has none at or before that time.
    #[inline]
    pub(crate) fn is_due_earlier(&mut self, deadline: Time, armed: Time) -> bool {
        let earlier = deadline < self.entry.0;
        if earlier {
            self.entry = (deadline, armed);
        }
        earlier
    }

    /// Compares an entry for the receiver's timer with the timer: when it is due, and when that was
    /// decided. Returns the entry to be kept: the same one, or one at which the timer is due now;
    /// `None` if the timer does not run, or has another entry.
    pub(crate) fn update_timer(
        &mut self,
        (deadline, armed): (Time, Time),
        entry: ReceiverTimer,
    ) -> Option<ReceiverTimer> {
        let timer = (deadline, armed, self.timer, entry.3);
        let kept = timer == entry || self.postpone((entry.0, entry.1), (deadline, armed));
        kept.then_some(timer)
    }

    /// The receiver's timer is not due at its entry `old`, but at `new`. True if the entry moves
    /// there; false if the timer does not run, or if `old` was replaced by an earlier entry.
    fn postpone(&mut self, old: (Time, Time), new: (Time, Time)) -> bool {
        if self.entry != old {
            return false;
        }
        self.entry = new;
        new.0 != Time::NEVER
    }

    /// A segment of the bytes `[seq, end)` arrives at `at`, by the trigger at `triggered_at`. The
    /// event being handled is `event`; `next_id` is the number of the next packet. `repeats`: it
    /// brings no bytes that the receiver lacks.
    #[inline(never)]
    pub(crate) fn record(
        &mut self,
        event: &Key,
        when: (Time, Time),
        range: (u64, u64),
        repeats: bool,
        next_id: u64,
    ) {
        self.record_in_place(event, when, range, repeats, next_id);
    }

    /// The same, compiled in place.
    #[inline(always)]
    pub(crate) fn record_in_place(
        &mut self,
        event: &Key,
        (at, triggered_at): (Time, Time),
        (seq, end): (u64, u64),
        repeats: bool,
        next_id: u64,
    ) {
        let (len, is_timer, acks_from) = ((end - seq) as u32, false, next_id);
        let arrival = Arrival { at, triggered_at, seq, len, is_timer, repeats, acks_from };
        // Apart from what calls others: that would save and restore registers here.
        if repeats
            || self.advancing.back().is_some_and(|a| a.end() > seq)
            || !self.advancing.push_if_room(arrival)
        {
            self.record_other(event, &{ arrival });
        }
    }

    /// The same for any arrival.
    #[inline(never)]
    fn record_other(&mut self, event: &Key, arrival: &Arrival) {
        let Arrival { seq, repeats, .. } = *arrival;
        let advances = !repeats && self.advancing.back().is_none_or(|a| a.end() <= seq);
        let ring = if advances { &self.advancing } else { &self.others };
        if ring.is_full() {
            self.forget(event);
        }
        if advances {
            self.advancing.push(*arrival);
        } else {
            self.fillers += u64::from(!repeats);
            self.others.push(*arrival);
        }
    }

    /// Removes what has happened before `event`.
    #[inline(never)]
    fn forget(&mut self, event: &Key) {
        while self.advancing.front().is_some_and(|a| self.has_happened(a, event)) {
            self.advancing.pop();
        }
        while let Some(a) = self.others.front().filter(|a| self.has_happened(a, event)) {
            self.fillers -= u64::from(!a.repeats);
            self.others.pop();
        }
    }

    /// The receiver's timer runs in advance, at the deadline that was set at `armed`: an event at
    /// which no bytes arrive.
    pub(crate) fn record_timer(
        &mut self,
        event: &Key,
        (deadline, armed): (Time, Time),
        next_id: u64,
    ) {
        let (at, triggered_at, acks_from) = (deadline, armed, next_id);
        let (seq, len, is_timer, repeats) = (u64::MAX, 0, true, true);
        let timer = Arrival { at, triggered_at, seq, len, is_timer, repeats, acks_from };
        self.record_other(event, &timer);
    }

    /// The receiver did not take the segment that was recorded last.
    #[cold]
    pub(crate) fn refused(&mut self) {
        self.refused += 1;
    }

    /// What becomes of the earlier copies of a segment that `event` retransmits; `fast` are the
    /// ACKs on the fast path from the first one on that is not sent before a time, the last of
    /// which is sent at `last_fast`. All copies of a segment have the same bytes.
    #[inline(never)]
    pub(crate) fn earlier_copies<'b, I: Iterator<Item = &'b PlainAck>>(
        &self,
        receiver: &Receiver,
        event: &Key,
        (fast, last_fast): (impl Fn(Time) -> I, Time),
        segment: &Segment,
    ) -> EarlierCopies {
        let (seq, end, id) = (segment.seq, segment.end(), segment.id);
        let has = receiver.has_segment(segment);
        if !has && self.refused == 0 {
            return EarlierCopies::Unknown;
        }
        let is_future = |a: &Arrival| !self.has_happened(a, event);
        let advancing = || self.advancing.from_first(is_future).copied();
        let others = || self.others.from_first(is_future).copied();
        // Usually none: a sender that retransmits is not on the fast path. The ACKs there are those
        // of all connections.
        let any_fast = last_fast.0 >= event.time;
        let acks = || any_fast.then(|| fast(Time(event.time))).into_iter().flatten();
        let fast = || acks().map(Arrival::of_plain_ack).filter(is_future);
        // In the order of their bytes: nothing behind the first one above `end` has lower ones.
        let new = || {
            let below = |a: &Arrival| a.seq < end;
            advancing().take_while(below).chain(fast().take_while(below))
        };
        let fills =
            self.fillers > 0 && others().any(|a| !a.repeats && a.seq < end && seq < a.end());
        // Only a SYN has no bytes.
        let opens = seq == end && advancing().next().is_some_and(|a| a.end() == 0);
        if has && !fills && !opens && !new().any(|a| seq < a.end()) {
            let first = [advancing().next(), others().next(), fast().next()];
            let acks_from = first.into_iter().flatten().map(|a| a.acks_from).min();
            return EarlierCopies::Arrived { acks_from: acks_from.unwrap_or(id) };
        }
        let same = |a: &Arrival| (a.seq, a.end()) == (seq, end);
        if opens || new().any(|a| same(&a)) || others().any(|a| same(&a)) {
            EarlierCopies::WillArrive
        } else {
            EarlierCopies::Unknown
        }
    }
}
