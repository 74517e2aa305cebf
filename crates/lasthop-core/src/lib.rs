//! The words that all crates of lasthop share: units, random draws, segments, roles, and the
//! interfaces of base-station agents and relays.
//!
//! Nothing here knows a TCP sender, a link model or a scheme.

#![warn(
    clippy::allow_attributes_without_reason,
    clippy::field_scoped_visibility_modifiers,
    clippy::multiple_inherent_impl,
    clippy::partial_pub_fields
)]

pub mod agent;
pub mod diagnostics;
mod flow_table;
pub mod framing;
pub mod histogram;
pub mod leg;
pub mod random;
pub mod ring;
pub mod role;
mod sack;
pub mod segment;
pub mod snack;
pub mod traffic;
pub mod units;
