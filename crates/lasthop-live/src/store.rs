//! What is behind payload handles, with reference counts.

use std::collections::HashMap;

use lasthop::segment::Payload;

/// Payloads by handle. Each begins with one reference, the host's own; what has none left is
/// forgotten.
#[derive(Debug)]
pub struct Store<T> {
    held: HashMap<u32, (T, u32)>,
    last: u32,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store { held: HashMap::new(), last: 0 }
    }
}

impl<T> Store<T> {
    /// Takes a payload in, with one reference.
    pub fn put(&mut self, payload: T) -> Payload {
        // Handles count up and start again; 0 is no handle. One that is free exists, for memory
        // ends before handles do.
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != Payload::NONE.0 && !self.held.contains_key(&self.last) {
                break;
            }
        }
        self.held.insert(self.last, (payload, 1));
        Payload(self.last)
    }

    /// The payload, if it is still held.
    pub fn get(&self, handle: Payload) -> Option<&T> {
        self.held.get(&handle.0).map(|(payload, _)| payload)
    }

    /// One more reference. Nothing happens if the payload is gone.
    pub fn retain(&mut self, handle: Payload) {
        if let Some((_, count)) = self.held.get_mut(&handle.0) {
            *count += 1;
        }
    }

    /// One reference less.
    pub fn release(&mut self, handle: Payload) {
        if let Some((_, count)) = self.held.get_mut(&handle.0) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&handle.0);
            }
        }
    }

    /// Payloads held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// True if none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_live_as_long_as_their_references() {
        let mut store = Store::default();
        let (a, b) = (store.put("a"), store.put("b"));
        assert!(a != b && a != Payload::NONE);
        store.retain(a);
        store.release(a);
        assert_eq!(store.get(a), Some(&"a"));
        store.release(a);
        store.release(a);
        store.retain(a);
        assert_eq!((store.get(a), store.get(b), store.len()), (None, Some(&"b"), 1));
    }

    #[test]
    fn handles_start_again_without_touching_those_in_use() {
        let mut store = Store::default();
        let first = store.put(1);
        store.last = u32::MAX;
        assert_eq!(store.put(2), Payload(2));
        assert_eq!(store.get(first), Some(&1));
    }
}
