//! lasthop's protocol core: TCP endpoints, schemes for wireless last hops, radio and link models.
//!
//! Everything here is a pure state machine. There is no clock, no I/O, no thread and no global
//! state: time is an argument, segments go in and come out. Two hosts drive it: `lasthop-sim` with
//! virtual time, `lasthop-live` with real packets. See `docs/architecture.md`.
//!
//! This crate re-exports the others under one name: `lasthop-core` (units, segments, interfaces),
//! `lasthop-tcp` ([`tcp`]), `lasthop-channel` ([`air`], [`link`], [`queue`], [`sample`]),
//! `lasthop-schemes` ([`schemes`]) and `lasthop-scenario` ([`scenario`]).

pub use lasthop_channel::{air, link, queue, sample};
pub use lasthop_core::{
    agent, framing, histogram, leg, random, ring, role, segment, snack, traffic, units,
};
pub use lasthop_scenario as scenario;
pub use lasthop_schemes as schemes;
pub use lasthop_tcp as tcp;
