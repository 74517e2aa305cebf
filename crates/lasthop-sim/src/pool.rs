//! The segments on their way through the network. Links and queues hold handles, so a segment is
//! written once and not copied from hop to hop.

use lasthop::segment::{Flags, Handle, Options, Payload, Segment};
use lasthop::snack::Snack;

/// What a slot holds before its first use.
const NONE: Segment = Segment {
    seq: 0,
    ack: 0,
    id: 0,
    flow: 0,
    len: 0,
    size: 0,
    window: 0,
    ts_value: 0,
    ts_echo: 0,
    payload: Payload::NONE,
    to: 0,
    flags: Flags::NONE,
    attempt: 0,
    forward: false,
};

/// A place for a segment: a cache line, so that none lies across two.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Slot(Segment);

/// A pool with a free list; the slot freed last is used first, so the hot ones stay in the cache.
#[derive(Debug, Default)]
pub struct Pool {
    slots: Vec<Slot>,
    /// Options of the segments that have any, at the same place; shorter than `slots` where nobody
    /// needs it longer.
    options: Vec<Options>,
    free: Vec<Handle>,
}

impl Pool {
    /// Takes a segment in.
    #[inline(always)]
    pub fn put(&mut self, segment: Segment) -> Handle {
        let handle = match self.free.pop() {
            Some(handle) => handle,
            None => self.grow(),
        };
        self.slots[handle as usize].0 = segment;
        handle
    }

    /// Takes a segment with options in.
    #[inline(never)]
    pub fn put_with(&mut self, segment: Segment, options: &Options) -> Handle {
        let handle = self.put(segment);
        let at = handle as usize;
        if at >= self.options.len() {
            self.options.resize(self.slots.len(), Options::NONE);
        }
        // Piece by piece: a copy of the whole waits for what has just been written in pieces.
        let Options { sack, named, report, snack } = &mut self.options[at];
        sack.set(&options.sack);
        (*named, *report) = (options.named, options.report);
        *snack = if segment.flags.has(Flags::SNACK) { options.snack } else { Snack::NONE };
        handle
    }

    /// A second segment like the one behind a handle.
    pub fn copy(&mut self, handle: Handle) -> Handle {
        let segment = *self.get(handle);
        match self.options.get(handle as usize).copied() {
            Some(options) => self.put_with(segment, &options),
            None => self.put(segment),
        }
    }

    /// The options of a segment whose flags say that it has some.
    #[inline]
    pub fn options(&self, handle: Handle) -> Options {
        self.options.get(handle as usize).copied().unwrap_or(Options::NONE)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Handle {
        self.slots.push(Slot(NONE));
        (self.slots.len() - 1) as Handle
    }

    /// The segment behind a handle.
    #[inline]
    pub fn get(&self, handle: Handle) -> &Segment {
        &self.slots[handle as usize].0
    }

    /// Has a segment that is wanted soon fetched from the memory meanwhile.
    #[inline(always)]
    pub fn touch(&self, handle: Handle) {
        std::hint::black_box(self.get(handle).size);
    }

    /// The same, to change it.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> &mut Segment {
        &mut self.slots[handle as usize].0
    }

    /// Gives the slot back.
    #[inline]
    pub fn free(&mut self, handle: Handle) {
        self.free.push(handle);
    }

    /// Handles are below this.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of the segments on their way.
    pub fn bytes(&self) -> u64 {
        let mut live = vec![true; self.slots.len()];
        self.free.iter().for_each(|&handle| live[handle as usize] = false);
        self.slots
            .iter()
            .zip(live)
            .filter(|(_, live)| *live)
            .map(|(s, _)| u64::from(s.0.size))
            .sum()
    }

    /// Segments on their way.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_the_options_that_a_slot_held_before() {
        let mut pool = Pool::default();
        let mut options = Options {
            named: 7,
            report: 8,
            snack: Snack { start: 1, blocks: 2, unit: 3, more: 4 },
            ..Options::NONE
        };
        (1..=3).for_each(|i| options.sack.push(10 * i, 10 * i + 5));
        let first = pool.put_with(Segment { flags: Flags::SNACK, ..NONE }, &options);
        assert_eq!(pool.options(first), options);
        pool.free(first);
        let mut fewer = Options { report: 9, ..Options::NONE };
        fewer.sack.push(50, 60);
        let second = pool.put_with(NONE, &fewer);
        assert_eq!(second, first, "the slot is used again");
        assert_eq!(pool.options(second), fewer);
    }
}
