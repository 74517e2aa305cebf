//! lasthop's protocol core: TCP endpoints, schemes for wireless last hops, radio and link models.
//!
//! Everything here is a pure state machine. There is no clock, no I/O, no thread and no global
//! state: time is an argument, segments go in and come out. Two hosts drive it: `lasthop-sim` with
//! virtual time, `lasthop-live` with real packets. See `docs/architecture.md`.

pub mod agent;
pub mod air;
mod diagnostics;
mod flow_table;
pub mod framing;
pub mod histogram;
pub mod leg;
pub mod link;
pub mod queue;
pub mod random;
pub mod ring;
pub mod role;
pub mod scenario;
pub mod schemes;
pub mod segment;
pub mod snack;
pub mod tcp;
pub mod traffic;
pub mod units;
