#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod quinn;
pub mod quinn_rule;
pub mod smoltcp;
