//! The segments in transit. Links and queues hold handles, so that a segment is written once
//! instead of being copied at each hop.

use lasthop::queue::Headers;
use lasthop::segment::{Flags, Handle, Options, Payload, Segment};
use lasthop::snack::Snack;

/// Content of a slot before its first use.
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

/// A slot for a segment, aligned to a cache line so that no segment spans two.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Slot(Segment);

/// A pool with a free list. The slot freed last is reused first, so that hot slots remain in the
/// cache.
#[derive(Debug, Default)]
pub struct Pool {
    slots: Vec<Slot>,
    /// Options of the segments that have any, at the same index. Shorter than `slots` if the last
    /// slots have none.
    options: Vec<Options>,
    /// Bytes of the datagrams that have a payload handle, at the same index; as `options`.
    bytes: Vec<Vec<u8>>,
    free: Vec<Handle>,
}

impl Pool {
    /// Takes the memory of a pool that is no longer used. This one stores nothing.
    pub fn reuse_memory(&mut self, old: &mut Self) {
        *self = std::mem::take(old);
        self.slots.clear();
        self.options.clear();
        self.bytes.clear();
        self.free.clear();
    }

    /// Stores a segment and returns its handle.
    #[inline(always)]
    pub fn put(&mut self, segment: Segment) -> Handle {
        let handle = match self.free.pop() {
            Some(handle) => handle,
            None => self.grow(),
        };
        self.slots[handle as usize].0 = segment;
        handle
    }

    /// Stores a segment with options and returns its handle.
    #[inline(never)]
    pub fn put_with(&mut self, segment: Segment, options: &Options) -> Handle {
        let handle = self.put(segment);
        let at = handle as usize;
        if at >= self.options.len() {
            self.options.resize(self.slots.len(), Options::NONE);
        }
        // Copying field by field avoids a store-forwarding stall: `options` was written in pieces
        // just before.
        let Options { sack, named, report, snack } = &mut self.options[at];
        sack.set(&options.sack);
        (*named, *report) = (options.named, options.report);
        *snack = if segment.flags.has(Flags::SNACK) { options.snack } else { Snack::NONE };
        handle
    }

    /// Stores a datagram with its bytes and returns its handle. They are freed with it, or when the
    /// slot is used for another datagram.
    pub fn put_datagram(&mut self, segment: Segment, bytes: Vec<u8>) -> Handle {
        debug_assert_ne!(segment.payload, Payload::NONE);
        let handle = self.put(segment);
        let at = handle as usize;
        if at >= self.bytes.len() {
            self.bytes.resize(self.slots.len(), Vec::new());
        }
        self.bytes[at] = bytes;
        handle
    }

    /// Takes the bytes of a datagram, which may have just been freed.
    pub fn take_bytes(&mut self, handle: Handle) -> Vec<u8> {
        self.bytes.get_mut(handle as usize).map(std::mem::take).unwrap_or_default()
    }

    /// Stores a copy of a segment and returns the new handle.
    pub fn copy(&mut self, handle: Handle) -> Handle {
        let segment = *self.get(handle);
        if segment.payload != Payload::NONE {
            let bytes = self.bytes[handle as usize].clone();
            return self.put_datagram(segment, bytes);
        }
        match self.options.get(handle as usize).copied() {
            Some(options) => self.put_with(segment, &options),
            None => self.put(segment),
        }
    }

    /// The options of a segment whose flags say that it has options.
    #[inline]
    pub fn options(&self, handle: Handle) -> Options {
        self.options.get(handle as usize).copied().unwrap_or(Options::NONE)
    }

    /// The options of a segment: none if its flags say that it has none.
    #[inline]
    pub fn options_of(&self, handle: Handle) -> &Options {
        let has = self.get(handle).flags.any(Flags::OPTIONS);
        self.options.get(handle as usize).filter(|_| has).unwrap_or(&Options::NONE)
    }

    /// The same. Those of most segments need not be copied; `copy` is where the others are.
    #[inline]
    pub fn valid_options<'a>(&self, handle: Handle, copy: &'a mut Option<Options>) -> &'a Options {
        if self.get(handle).flags.any(Flags::OPTIONS) {
            copy.insert(*self.options_of(handle))
        } else {
            &Options::NONE
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Handle {
        self.slots.push(Slot(NONE));
        (self.slots.len() - 1) as Handle
    }

    /// The segment of a handle.
    #[inline]
    pub fn get(&self, handle: Handle) -> &Segment {
        &self.slots[handle as usize].0
    }

    /// Loads a segment that is needed soon into the cache.
    #[inline(always)]
    pub fn prefetch(&self, handle: Handle) {
        std::hint::black_box(self.get(handle).size);
    }

    /// The segment of a handle, mutable.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> &mut Segment {
        &mut self.slots[handle as usize].0
    }

    /// Frees the slot of a handle.
    #[inline]
    pub fn free(&mut self, handle: Handle) {
        self.free.push(handle);
    }

    /// Number of slots; every handle is smaller.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// The segments in transit.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        let mut live = vec![true; self.slots.len()];
        self.free.iter().for_each(|&handle| live[handle as usize] = false);
        self.slots.iter().zip(live).filter(|(_, live)| *live).map(|(s, _)| &s.0)
    }

    /// Total size in bytes of the segments in transit, headers included.
    pub fn bytes(&self) -> u64 {
        self.segments().map(|segment| u64::from(segment.size)).sum()
    }

    /// Number of segments in transit.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if no segment is in transit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Headers for Pool {
    fn segment(&self, handle: Handle) -> &Segment {
        self.get(handle)
    }

    fn options(&self, handle: Handle) -> Option<&Options> {
        Some(self.options.get(handle as usize).unwrap_or(&Options::NONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_slot_has_no_options_of_its_previous_segment() {
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
        assert_eq!(second, first, "the slot is reused");
        assert_eq!(pool.options(second), fewer);
    }
}
