//! The TCP endpoints as sans-IO state machines in bytes: they are told what arrives and what time
//! it is, and answer with segments to send and the time of their next deadline.

#![warn(
    clippy::allow_attributes_without_reason,
    clippy::field_scoped_visibility_modifiers,
    clippy::multiple_inherent_impl,
    clippy::partial_pub_fields
)]

mod accurate_ecn;
pub mod loss;
pub mod notice_rule;
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
mod syn_acks;
pub mod ticks;
pub mod timestamps;
pub mod window;
