//! Reference-counted storage behind payload handles.

use std::collections::HashMap;

use lasthop::segment::Payload;

/// Payloads by handle. A payload starts with one reference, owned by the host, and is removed when
/// its count reaches 0.
#[derive(Debug)]
pub struct Store<T> {
    payloads: HashMap<u32, (T, u32)>,
    last: u32,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store { payloads: HashMap::new(), last: 0 }
    }
}

impl<T> Store<T> {
    /// Stores a payload with one reference.
    pub fn put(&mut self, payload: T) -> Payload {
        // Handles increase and wrap around; 0 is not a handle. The loop ends because memory is
        // exhausted before the 2^32 handles.
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != Payload::NONE.0 && !self.payloads.contains_key(&self.last) {
                break;
            }
        }
        self.payloads.insert(self.last, (payload, 1));
        Payload(self.last)
    }

    /// The payload, if it is still stored.
    pub fn get(&self, handle: Payload) -> Option<&T> {
        self.payloads.get(&handle.0).map(|(payload, _)| payload)
    }

    /// Adds a reference. Does nothing if the payload was removed.
    pub fn retain(&mut self, handle: Payload) {
        if let Some((_, count)) = self.payloads.get_mut(&handle.0) {
            *count += 1;
        }
    }

    /// Removes a reference. Does nothing if the payload was removed.
    pub fn release(&mut self, handle: Payload) {
        if let Some((_, count)) = self.payloads.get_mut(&handle.0) {
            *count -= 1;
            if *count == 0 {
                self.payloads.remove(&handle.0);
            }
        }
    }

    /// Number of payloads stored.
    pub fn len(&self) -> usize {
        self.payloads.len()
    }

    /// True if no payload is stored.
    pub fn is_empty(&self) -> bool {
        self.payloads.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_removed_with_their_last_reference() {
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
    fn handles_wrap_around_and_skip_those_in_use() {
        let mut store = Store::default();
        let first = store.put(1);
        store.last = u32::MAX;
        assert_eq!(store.put(2), Payload(2));
        assert_eq!(store.get(first), Some(&1));
    }
}
