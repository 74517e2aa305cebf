//! The bytes of the two streams of a connection: those that wait to be acknowledged, and those that
//! wait to be read. Offsets count from the first byte of a stream.

use std::collections::VecDeque;
use std::iter;

/// Bytes that the application has written and the peer has not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Unacknowledged {
    start: u64,
    bytes: VecDeque<u8>,
}

impl Unacknowledged {
    /// Bytes that it holds.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Offset after the last byte written.
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The application writes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// All bytes below `offset` are acknowledged.
    pub fn acknowledge(&mut self, offset: u64) {
        let count = offset.saturating_sub(self.start).min(self.bytes.len() as u64);
        self.bytes.drain(..count as usize);
        self.start += count;
    }

    /// A copy of `length` bytes from `offset` on; fewer if it does not hold them.
    pub fn copy(&self, offset: u64, length: u32) -> Vec<u8> {
        let first = offset.saturating_sub(self.start).min(self.bytes.len() as u64) as usize;
        let last = first.saturating_add(length as usize).min(self.bytes.len());
        let mut copy = Vec::with_capacity(last - first);
        let (front, back) = self.bytes.as_slices();
        copy.extend_from_slice(front.get(first..last.min(front.len())).unwrap_or_default());
        let (from, to) = (first.saturating_sub(front.len()), last.saturating_sub(front.len()));
        copy.extend_from_slice(back.get(from..to).unwrap_or_default());
        copy
    }

    /// The connection has ended: nothing is sent any more.
    pub fn clear(&mut self) {
        self.start = self.end();
        self.bytes = VecDeque::new();
    }
}

/// Bytes that have arrived and have not been read, with gaps where some are missing.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    start: u64,
    bytes: VecDeque<u8>,
}

impl Arrived {
    /// Stores the bytes of a segment at `offset`, except those below `next`, which have arrived
    /// before.
    pub fn store(&mut self, offset: u64, payload: &[u8], next: u64) {
        let skipped = next.saturating_sub(offset).min(payload.len() as u64) as usize;
        let payload = payload.get(skipped..).unwrap_or_default();
        let at = (offset + skipped as u64).saturating_sub(self.start) as usize;
        let end = at + payload.len();
        if payload.is_empty() {
            return;
        }
        if at == self.bytes.len() {
            self.bytes.extend(payload);
            return;
        }
        if end > self.bytes.len() {
            let missing = end - self.bytes.len();
            self.bytes.extend(iter::repeat_n(0, missing));
        }
        for (held, byte) in self.bytes.range_mut(at..end).zip(payload) {
            *held = *byte;
        }
    }

    /// Bytes that can be read, if all below `next` have arrived.
    pub fn readable(&self, next: u64) -> usize {
        next.saturating_sub(self.start).min(self.bytes.len() as u64) as usize
    }

    /// Moves bytes below `next` to `into`; how many.
    pub fn read(&mut self, into: &mut [u8], next: u64) -> usize {
        let count = self.readable(next).min(into.len());
        let (front, back) = self.bytes.as_slices();
        let into = into.get_mut(..count).unwrap_or_default();
        let (to_front, to_back) = into.split_at_mut(front.len().min(count));
        for (places, bytes) in [(to_front, front), (to_back, back)] {
            let length = places.len().min(bytes.len());
            if let (Some(places), Some(bytes)) = (places.get_mut(..length), bytes.get(..length)) {
                places.copy_from_slice(bytes);
            }
        }
        self.bytes.drain(..count);
        self.start += count as u64;
        if self.bytes.is_empty() {
            // The room of a burst is given back.
            self.bytes.shrink_to(1 << 16);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test may panic")]

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_order_of_segments_gives_the_stream(
            cuts in prop::collection::vec((0_usize..300, 1_usize..40), 1..60),
        ) {
            let stream: Vec<u8> = (0..400).map(|i| (i * 7) as u8).collect();
            let (mut arrived, mut has, mut next) = (Arrived::default(), [false; 400], 0);
            let mut read = Vec::new();
            for (start, length) in cuts {
                let end = (start + length).min(stream.len());
                arrived.store(start as u64, &stream[start..end], next);
                has[start..end].fill(true);
                next = has.iter().position(|h| !h).unwrap() as u64;
                let mut some = [0; 17];
                let count = arrived.read(&mut some, next);
                read.extend_from_slice(&some[..count]);
            }
            prop_assert_eq!(&read, &stream[..read.len()]);
        }

        #[test]
        fn copies_are_what_was_written(
            steps in prop::collection::vec((0_u64..50, 0_u64..60, 0_u32..60), 1..40),
        ) {
            let (mut data, mut written) = (Unacknowledged::default(), 0_u64);
            let mut acked = 0;
            for (write, ack, length) in steps {
                data.write(&(written..written + write).map(|i| i as u8).collect::<Vec<_>>());
                written += write;
                acked = (acked + ack).min(written);
                data.acknowledge(acked);
                let expected = acked..(acked + u64::from(length)).min(written);
                let expected: Vec<u8> = expected.map(|i| i as u8).collect();
                prop_assert_eq!(data.copy(acked, length), expected);
                prop_assert_eq!((data.end(), data.len() as u64), (written, written - acked));
            }
        }
    }
}
