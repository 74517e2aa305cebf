//! A growable ring buffer. Its size is a power of two, so that an index needs only a mask. It does
//! not allocate in steady state. An empty ring has no memory: a flow has several that stay empty.

/// A first-in first-out ring buffer.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    slots: Vec<T>,
    /// Numbers of items ever removed and added; modulo the size they are slot indices.
    head: usize,
    tail: usize,
}

/// Number of slots after the first push.
const FIRST_SLOTS: usize = 4;

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Ring { slots: Vec::new(), head: 0, tail: 0 }
    }
}

impl<T: Copy + Default> Ring<T> {
    /// Takes the slots of a ring that is no longer used. This one has no items.
    pub fn reuse_memory(&mut self, old: &mut Self) {
        debug_assert!(self.is_empty());
        (self.slots, self.head, self.tail) = (std::mem::take(&mut old.slots), 0, 0);
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        (self.head, self.tail) = (0, 0);
    }

    /// The slot of number `n`; of no meaning if there are no slots.
    #[inline]
    fn place(&self, n: usize) -> usize {
        n & self.slots.len().wrapping_sub(1)
    }

    /// Appends an item.
    // Always inline: passing the value through memory would dominate the cost.
    #[inline(always)]
    pub fn push(&mut self, value: T) {
        if self.is_full() {
            self.grow();
        }
        let at = self.place(self.tail);
        self.slots[at] = value;
        self.tail = self.tail.wrapping_add(1);
    }

    /// Appends an item if there is a slot for it; otherwise nothing changes.
    #[inline(always)]
    pub fn push_if_room(&mut self, value: T) -> bool {
        let (at, room) = (self.place(self.tail), !self.is_full());
        if room {
            self.slots[at] = value;
            self.tail = self.tail.wrapping_add(1);
        }
        room
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let (head, len) = (self.place(self.head), self.len());
        self.slots.rotate_left(head);
        self.slots.resize((2 * len).max(FIRST_SLOTS), T::default());
        (self.head, self.tail) = (0, len);
    }

    /// The first item.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// The first item, mutable.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.get_mut(0)
    }

    /// The last item.
    #[inline]
    pub fn back(&self) -> Option<&T> {
        self.get(self.len().wrapping_sub(1))
    }

    /// The last item, mutable.
    #[inline]
    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.get_mut(self.len().wrapping_sub(1))
    }

    /// Item `i`, from 0.
    #[inline]
    pub fn get(&self, i: usize) -> Option<&T> {
        if i < self.len() { Some(&self.slots[self.place(self.head.wrapping_add(i))]) } else { None }
    }

    /// Item `i`, mutable.
    #[inline]
    pub fn get_mut(&mut self, i: usize) -> Option<&mut T> {
        let at = self.place(self.head.wrapping_add(i));
        if i < self.len() { Some(&mut self.slots[at]) } else { None }
    }

    /// Number of item `i`. It is the same while items are added and the first ones are removed,
    /// unless the ring grows.
    #[inline]
    pub fn number(&self, i: usize) -> usize {
        self.head.wrapping_add(i)
    }

    /// Removes and returns the first item.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        let front = *self.front()?;
        self.head = self.head.wrapping_add(1);
        Some(front)
    }

    /// Removes the first item, if there is one.
    #[inline(always)]
    pub fn drop_front(&mut self) {
        self.head = self.head.wrapping_add(usize::from(!self.is_empty()));
    }

    /// Removes the first `n` items; there must be as many.
    #[inline(always)]
    pub fn drop_first(&mut self, n: usize) {
        debug_assert!(n <= self.len());
        self.head = self.head.wrapping_add(n);
    }

    /// Removes and returns item `i`; later items move up.
    pub fn remove(&mut self, i: usize) -> Option<T> {
        let value = *self.get(i)?;
        for behind in i + 1..self.len() {
            let (from, to) = (
                self.place(self.head.wrapping_add(behind)),
                self.place(self.head.wrapping_add(behind - 1)),
            );
            self.slots[to] = self.slots[from];
        }
        self.tail = self.tail.wrapping_sub(1);
        Some(value)
    }

    /// Inserts item `i`; those before it or those from there on move.
    pub fn insert(&mut self, i: usize, value: T) {
        let len = self.len();
        if self.is_full() {
            self.grow();
        }
        let moves_first = i < len / 2;
        self.head = self.head.wrapping_sub(usize::from(moves_first));
        self.tail = self.tail.wrapping_add(usize::from(!moves_first));
        for step in 0..if moves_first { i } else { len - i } {
            let (from, to) =
                if moves_first { (step + 1, step) } else { (len - 1 - step, len - step) };
            let (from, to) =
                (self.place(self.head.wrapping_add(from)), self.place(self.head.wrapping_add(to)));
            self.slots[to] = self.slots[from];
        }
        let place = self.place(self.head.wrapping_add(i));
        self.slots[place] = value;
    }

    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    /// True if the next push needs more slots.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() == self.slots.len()
    }

    /// True if the ring has no items.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    /// The items from the first one on that satisfies `wanted`; all behind it have to satisfy it as
    /// well.
    pub fn from_first(&self, wanted: impl Fn(&T) -> bool) -> impl Iterator<Item = &T> {
        (self.first_place(wanted)..self.len()).filter_map(|i| self.get(i))
    }

    /// Index of the first item that satisfies `wanted`, as for `from_first`; `len` if there is
    /// none.
    pub fn first_place(&self, wanted: impl Fn(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle) {
                Some(item) if !wanted(item) => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// Iterates over the items from first to last.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

/// A range of the byte stream.
///
/// # Examples
///
/// A ring of ranges finds the one that contains an offset:
///
/// ```
/// use lasthop_core::ring::{Ring, Span};
///
/// #[derive(Clone, Copy, Default)]
/// struct Sent {
///     seq: u64,
///     len: u32,
/// }
///
/// impl Span for Sent {
///     fn start(&self) -> u64 {
///         self.seq
///     }
///
///     fn end(&self) -> u64 {
///         self.seq + u64::from(self.len)
///     }
/// }
///
/// let mut ring = Ring::default();
/// for (seq, len) in [(0, 1000), (1000, 1000), (2000, 500)] {
///     ring.push(Sent { seq, len });
/// }
/// assert_eq!(ring.place_of(1999), Some(1));
/// assert_eq!(ring.place_of(2500), None);
/// ```
pub trait Span {
    /// Stream offset of the first byte.
    fn start(&self) -> u64;
    /// Stream offset after the last byte.
    fn end(&self) -> u64;
}

impl<T: Span + Copy + Default> Ring<T> {
    /// Index of the range that contains `offset`. The ranges must be contiguous. Most have the same
    /// size, so the first guess is usually right.
    #[inline]
    pub fn place_of(&self, offset: u64) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let at = |n: usize| &self.slots[self.place(n)];
        let (front, back) = (at(self.head), at(self.tail.wrapping_sub(1)));
        let first = front.start();
        if offset < first {
            return None;
        }
        let step = (back.end() - back.start()).max(front.end() - first).max(1);
        let mut i = (((offset - first) / step) as usize).min(self.len() - 1);
        let guess = at(self.head.wrapping_add(i));
        if guess.start() <= offset && offset < guess.end() {
            return Some(i);
        }
        if offset >= back.end() {
            return None;
        }
        while at(self.head.wrapping_add(i)).start() > offset {
            i -= 1;
        }
        while at(self.head.wrapping_add(i)).end() <= offset {
            i += 1;
        }
        Some(i)
    }

    /// The same for a range that begins at `offset` and probably has this number
    /// ([`Ring::number`]).
    #[inline]
    pub fn place_near(&self, offset: u64, number: usize) -> Option<usize> {
        self.place_at(offset, number.wrapping_sub(self.head))
    }

    /// The same for a range that begins at `offset` and probably has the index `i`.
    #[inline]
    pub fn place_at(&self, offset: u64, i: usize) -> Option<usize> {
        match self.get(i) {
            Some(range) if range.start() == offset && range.end() > offset => Some(i),
            _ => self.place_of(offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn behaves_like_a_deque(
            steps in prop::collection::vec(prop::option::weighted(0.7, any::<u32>()), 0..300),
        ) {
            let (mut ring, mut model) = (Ring::default(), VecDeque::new());
            for step in steps {
                match step {
                    Some(v) if v % 16 == 1 && !model.is_empty() => {
                        let i = v as usize / 16 % (model.len() + 1);
                        ring.insert(i, v);
                        model.insert(i, v);
                    }
                    Some(v) if v % 8 == 0 => {
                        let i = v as usize % 64 / 8;
                        prop_assert_eq!(ring.remove(i), model.remove(i));
                    }
                    Some(v) => {
                        let room = !ring.is_full();
                        if v % 2 == 0 {
                            ring.push(v);
                        } else if !ring.push_if_room(v) {
                            prop_assert!(!room);
                            ring.push(v);
                        } else {
                            prop_assert!(room);
                        }
                        model.push_back(v);
                    }
                    None if model.len() % 3 == 0 => {
                        ring.drop_front();
                        model.pop_front();
                    }
                    None => prop_assert_eq!(ring.pop(), model.pop_front()),
                }
                prop_assert_eq!(ring.front(), model.front());
                prop_assert_eq!(ring.back(), model.back());
                prop_assert_eq!(ring.back_mut(), model.back_mut());
                prop_assert_eq!(ring.get_mut(3), model.get_mut(3));
                prop_assert!(ring.iter().eq(model.iter()));
                // The items from any place on, found by their places.
                let from = model.len() / 3;
                let numbered: Vec<u32> = (0..model.len() as u32).collect();
                let mut places = Ring::default();
                numbered.iter().for_each(|&n| places.push(n));
                prop_assert!(places.from_first(|&n| n as usize >= from).eq(&numbered[from..]));
            }
        }
    }
}
