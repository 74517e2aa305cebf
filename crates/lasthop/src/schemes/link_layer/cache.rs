//! Segments that an agent keeps to repair losses by itself, and what all of them weigh.

use std::collections::VecDeque;

use crate::agent::Context;
use crate::segment::{Block, Direction, Segment};
use crate::units::{Duration, Time};

/// A segment in the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cached {
    /// As it goes to the radio again.
    pub segment: Segment,
    /// When it last went to the radio, if its ACK gives a round-trip time.
    pub sent: Option<Time>,
    /// When it was last sent again from here.
    pub again: Option<Time>,
    /// Copies that this node has sent on and its queue has not dropped.
    pub copies: u32,
    /// Local retransmissions since it last came from the sender.
    pub local: u32,
    /// The sender has retransmitted it: it counts on the duplicate ACKs.
    pub sender_retx: bool,
}

impl Cached {
    /// Sends it to the radio again; its ACK gives a round-trip time if `timed`.
    pub fn send_again(&mut self, timed: bool, ctx: &mut Context<'_>, ahead: Direction) {
        (self.local, self.copies) = (self.local + 1, self.copies + 1);
        (self.sent, self.again) = (timed.then_some(ctx.now), Some(ctx.now));
        ctx.inject(ahead, self.segment);
    }

    /// A copy sent from here may not have been answered yet.
    pub fn is_under_way(&self, now: Time, round_trip: Duration) -> bool {
        self.again.is_some_and(|at| now < at + round_trip)
    }
}

/// Wire bytes of all segments whose payload is held, and how many there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub held: u64,
    limit: u64,
}

impl Room {
    pub fn new(limit: u64) -> Room {
        Room { held: 0, limit }
    }

    /// There is room for `size` bytes more.
    pub fn fits(&self, size: u32) -> bool {
        self.held + u64::from(size) <= self.limit
    }

    /// Gives a segment back.
    pub fn release(&mut self, ctx: &mut Context<'_>, segment: &Segment) {
        self.held -= u64::from(segment.size);
        ctx.release(segment.payload);
    }
}

/// The unacknowledged segments of a flow, by first byte.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    segments: VecDeque<Cached>,
}

impl Cache {
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The first one.
    pub fn head(&self) -> Option<&Cached> {
        self.segments.front()
    }

    pub fn head_mut(&mut self) -> Option<&mut Cached> {
        self.segments.front_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Cached> {
        self.segments.iter()
    }

    /// Where the segment that begins at `seq` is, or would be.
    pub fn place(&self, seq: u64) -> usize {
        match self.segments.back() {
            Some(last) if last.segment.seq >= seq => {
                self.segments.partition_point(|c| c.segment.seq < seq)
            }
            _ => self.segments.len(),
        }
    }

    /// The segments that begin in this range.
    pub fn within_mut(&mut self, range: Block) -> impl Iterator<Item = &mut Cached> {
        let (from, to) = (self.place(range.start), self.place(range.end));
        self.segments.range_mut(from..to.max(from))
    }

    /// The segment at this place if it begins at `seq`.
    pub fn at(&mut self, place: usize, seq: u64) -> Option<&mut Cached> {
        self.segments.get_mut(place).filter(|c| c.segment.seq == seq)
    }

    /// Keeps a segment at its place.
    pub fn insert(&mut self, ctx: &mut Context<'_>, room: &mut Room, place: usize, cached: Cached) {
        ctx.retain(cached.segment.payload);
        room.held += u64::from(cached.segment.size);
        self.segments.insert(place, cached);
    }

    /// Puts a newer copy in the place of the one at `place`, if it holds as much and there is room.
    pub fn renew(
        &mut self,
        ctx: &mut Context<'_>,
        room: &mut Room,
        place: usize,
        segment: &Segment,
    ) {
        let Some(cached) = self.segments.get_mut(place) else { return };
        let others = Room { held: room.held - u64::from(cached.segment.size), ..*room };
        if segment.end() >= cached.segment.end() && others.fits(segment.size) {
            ctx.retain(segment.payload);
            ctx.release(cached.segment.payload);
            cached.segment = *segment;
            room.held = others.held + u64::from(segment.size);
        }
    }

    /// Gives the segment at a place back.
    pub fn remove(&mut self, ctx: &mut Context<'_>, room: &mut Room, place: usize) {
        if let Some(cached) = self.segments.remove(place) {
            room.release(ctx, &cached.segment);
        }
    }

    /// Takes the first segment off if it lies below `ack`, and gives it back.
    pub fn take_below(
        &mut self,
        ctx: &mut Context<'_>,
        room: &mut Room,
        ack: u64,
    ) -> Option<Cached> {
        let cached = *self.segments.front().filter(|c| c.segment.end() <= ack)?;
        self.segments.pop_front();
        room.release(ctx, &cached.segment);
        Some(cached)
    }
}
