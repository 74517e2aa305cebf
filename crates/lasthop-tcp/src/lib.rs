//! The TCP endpoints as sans-IO state machines in bytes: they are told what arrives and what time
//! it is, and answer with segments to send and the time of their next deadline.

pub mod offload;
pub mod pacing;
pub mod profile;
pub mod rate;
pub mod reassembly;
pub mod receiver;
pub mod recovery;
pub mod rto;
pub mod scoreboard;
pub mod sender;
pub mod window;
