//! The segment cache of an agent that retransmits locally, and its limit in bytes.

use std::collections::VecDeque;

use lasthop_core::agent::Context;
use lasthop_core::segment::{Block, Direction, Segment};
use lasthop_core::units::{Duration, Time};

/// A segment in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cached {
    /// The segment to retransmit.
    pub segment: Segment,
    /// Time of the last transmission, if its ACK gives an RTT sample.
    pub sent: Option<Time>,
    /// Time of the last local retransmission.
    pub retransmitted: Option<Time>,
    /// Number of copies forwarded by this node and not dropped by its queue.
    pub copies: u32,
    /// Local retransmissions since it last arrived from the sender.
    pub local: u32,
    /// True if the sender has retransmitted it, and therefore needs the duplicate ACKs.
    pub sender_retx: bool,
}

impl Cached {
    /// Retransmits the segment; its ACK gives an RTT sample if `timed`.
    pub fn send_again(&mut self, timed: bool, ctx: &mut Context<'_>, ahead: Direction) {
        (self.local, self.copies) = (self.local + 1, self.copies + 1);
        (self.sent, self.retransmitted) = (timed.then_some(ctx.now), Some(ctx.now));
        ctx.inject(ahead, self.segment);
    }

    /// True if a local retransmission may still be unanswered.
    pub fn is_under_way(&self, now: Time, round_trip: Duration) -> bool {
        self.retransmitted.is_some_and(|at| now < at + round_trip)
    }
}

/// Total size of the stored segments with headers, and its limit, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    held: u64,
    limit: u64,
}

impl Room {
    pub fn new(limit: u64) -> Room {
        Room { held: 0, limit }
    }

    /// Total size of the stored segments, bytes.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// True if `size` more bytes fit.
    #[inline]
    pub fn fits(&self, size: u32) -> bool {
        self.held + u64::from(size) <= self.limit
    }

    /// Retains a segment.
    #[inline]
    pub fn retain(&mut self, ctx: &mut Context<'_>, segment: &Segment) {
        self.held += u64::from(segment.size);
        ctx.retain(segment.payload);
    }

    /// Releases a segment.
    #[inline]
    pub fn release(&mut self, ctx: &mut Context<'_>, segment: &Segment) {
        self.held -= u64::from(segment.size);
        ctx.release(segment.payload);
    }
}

/// The unacknowledged segments of a flow, sorted by first byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    segments: VecDeque<Cached>,
}

impl Cache {
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The first segment.
    pub fn head(&self) -> Option<&Cached> {
        self.segments.front()
    }

    pub fn head_mut(&mut self) -> Option<&mut Cached> {
        self.segments.front_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Cached> {
        self.segments.iter()
    }

    /// Index of the segment that begins at `seq`, or where it would be inserted.
    #[inline]
    pub fn index(&self, seq: u64) -> usize {
        match self.segments.back() {
            Some(last) if last.segment.seq >= seq => {
                self.segments.partition_point(|c| c.segment.seq < seq)
            }
            _ => self.segments.len(),
        }
    }

    /// The segments that begin in this range.
    pub fn within_mut(&mut self, range: Block) -> impl Iterator<Item = &mut Cached> {
        let (from, to) = (self.index(range.start), self.index(range.end));
        self.segments.range_mut(from..to.max(from))
    }

    /// The segment at this index if it begins at `seq`.
    pub fn at(&mut self, index: usize, seq: u64) -> Option<&mut Cached> {
        self.segments.get_mut(index).filter(|c| c.segment.seq == seq)
    }

    /// Inserts a segment at its index and retains its payload.
    #[inline(always)]
    pub fn insert(&mut self, ctx: &mut Context<'_>, room: &mut Room, index: usize, cached: Cached) {
        room.retain(ctx, &cached.segment);
        if index == self.segments.len() {
            self.segments.push_back(cached);
        } else {
            self.segments.insert(index, cached);
        }
    }

    /// Replaces the copy at `index` by a newer one, if it is at least as long and fits.
    pub fn renew(
        &mut self,
        ctx: &mut Context<'_>,
        room: &mut Room,
        index: usize,
        segment: &Segment,
    ) {
        let Some(cached) = self.segments.get_mut(index) else { return };
        let others = Room { held: room.held - u64::from(cached.segment.size), ..*room };
        if segment.end() >= cached.segment.end() && others.fits(segment.size) {
            ctx.retain(segment.payload);
            ctx.release(cached.segment.payload);
            cached.segment = *segment;
            room.held = others.held + u64::from(segment.size);
        }
    }

    /// Removes and releases the segment at an index.
    pub fn remove(&mut self, ctx: &mut Context<'_>, room: &mut Room, index: usize) {
        if let Some(cached) = self.segments.remove(index) {
            room.release(ctx, &cached.segment);
        }
    }

    /// Removes and releases the segments that lie below `ack`. Returns when the last one of them
    /// was sent whose ACK gives an RTT sample.
    pub fn release_below(
        &mut self,
        ctx: &mut Context<'_>,
        room: &mut Room,
        ack: u64,
    ) -> Option<Time> {
        let (mut sent, mut count) = (None, 0);
        for cached in self.segments.iter().take_while(|c| c.segment.end() <= ack) {
            sent = cached.sent.or(sent);
            room.release(ctx, &cached.segment);
            count += 1;
        }
        self.segments.drain(..count);
        sent
    }
}
