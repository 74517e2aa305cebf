//! Values decoded from the bytes of an input.

use arbitrary::{Arbitrary, Unstructured};

/// Decodes values from the start of the input. After its end every value is zero.
pub(crate) struct Input<'a>(Unstructured<'a>);

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Input(Unstructured::new(data))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An arbitrary value of the type.
    pub(crate) fn value<T: Arbitrary<'a> + Default>(&mut self) -> T {
        self.0.arbitrary().unwrap_or_default()
    }

    /// A number from 0 to `max`, inclusive.
    pub(crate) fn up_to(&mut self, max: u64) -> u64 {
        self.0.int_in_range(0..=max).unwrap_or_default()
    }

    /// An item of a non-empty list.
    pub(crate) fn choose<'t, T>(&mut self, list: &'t [T]) -> &'t T {
        &list[self.up_to(list.len() as u64 - 1) as usize]
    }

    /// The next bytes, at most `length`.
    pub(crate) fn bytes(&mut self, length: usize) -> &'a [u8] {
        self.0.bytes(length.min(self.0.len())).unwrap_or_default()
    }

    /// The bytes that have not been decoded.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0.take_rest()
    }
}
