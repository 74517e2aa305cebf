//! Values decoded from the bytes of an input.

use arbitrary::{Arbitrary, Unstructured};

/// Decodes values from the front of the input. After its end every value is zero.
pub(crate) struct Input<'a>(Unstructured<'a>);

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Input(Unstructured::new(data))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Any value of the type.
    pub(crate) fn value<T: Arbitrary<'a> + Default>(&mut self) -> T {
        self.0.arbitrary().unwrap_or_default()
    }

    /// A number from 0 to `most`, both included.
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        self.0.int_in_range(0..=most).unwrap_or_default()
    }

    /// An item of a list that is not empty.
    pub(crate) fn choose<'t, T>(&mut self, list: &'t [T]) -> &'t T {
        &list[self.up_to(list.len() as u64 - 1) as usize]
    }

    /// What has not been decoded.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0.take_rest()
    }
}
