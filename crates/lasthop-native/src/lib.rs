//! The shared library `lasthop._native`. It only links lasthop-python, which compiles as a library
//! while the simulator below it is still being optimised; a shared library would wait for that.

pub use lasthop_python::*;
