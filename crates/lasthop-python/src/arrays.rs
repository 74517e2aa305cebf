//! Columns of numbers as numpy arrays.
//!
//! `numpy.frombuffer` makes an array over a `bytearray`, so that it can be written. The column is
//! copied once. The crate `numpy` avoids that, but needs eight crates more, which take a twentieth
//! of the time of a build.

use pyo3::prelude::*;
use pyo3::types::PyByteArray;

/// A number, or a truth value, that a numpy array has.
pub(crate) trait Element: Copy {
    /// The name of numpy's type.
    const TYPE: &'static str;
    /// Size in bytes.
    const SIZE: usize;

    /// Writes the element, in the byte order of this machine, to exactly `SIZE` bytes.
    fn write(self, out: &mut [u8]);
}

macro_rules! elements {
    ($($number:ident $name:literal),*) => {
        $(impl Element for $number {
            const TYPE: &'static str = $name;
            const SIZE: usize = size_of::<$number>();

            fn write(self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_ne_bytes());
            }
        })*
    };
}

elements!(i8 "int8", i16 "int16", i32 "int32", i64 "int64", f32 "float32", f64 "float64");

impl Element for bool {
    const TYPE: &'static str = "bool";
    const SIZE: usize = 1;

    fn write(self, out: &mut [u8]) {
        out.copy_from_slice(&[u8::from(self)]);
    }
}

/// Makes a numpy array with one dimension.
///
/// # Errors
///
/// Any exception raised by Python or numpy.
pub(crate) fn array<'py, T: Element>(py: Python<'py>, column: &[T]) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyByteArray::new_with(py, column.len() * T::SIZE, |bytes| {
        for (element, out) in column.iter().zip(bytes.chunks_exact_mut(T::SIZE)) {
            element.write(out);
        }
        Ok(())
    })?;
    py.import("numpy")?.call_method1("frombuffer", (bytes, T::TYPE))
}
