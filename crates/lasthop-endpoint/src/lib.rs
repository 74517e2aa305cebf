//! TCP connections on real packets.
//!
//! An [`Endpoint`] is one end of a TCP connection, made of the core's sender and receiver, so that
//! the protocol code that is simulated also meets the kernels of other hosts. A [`Host`] has many
//! of them.
//!
//! It has no socket, no clock and no thread. IP packets go in ([`Endpoint::packet`]) and come out
//! ([`Endpoint::outgoing`]); the time is an argument; [`Endpoint::next`] says when
//! [`Endpoint::timer`] is to be called. The application uses [`Endpoint::write`],
//! [`Endpoint::read`] and [`Endpoint::close`].
//!
//! * [`settings`]: scheme, profile, buffers, MTU, timers.
//! * `terms`: what the two SYNs negotiate.
//! * [`isn`]: initial sequence numbers (RFC 6528).
//! * `wire`: segments to packets. `arrival`: packets to segments.
//! * `stream_data`: the bytes that wait to be acknowledged or read.
//! * [`endpoint`]: the connection (RFC 9293, RFC 5961, RFC 7323).
//! * [`host`]: many connections, and packets of none.
//!
//! # Limits
//!
//! No urgent data, no TCP Fast Open, no IP options. Data in a SYN are ignored; the peer sends them
//! again. The clock of timestamps has microseconds, as Linux can have since version 6.7.

#![deny(clippy::indexing_slicing)]
#![warn(
    clippy::allow_attributes_without_reason,
    clippy::field_scoped_visibility_modifiers,
    clippy::multiple_inherent_impl,
    clippy::partial_pub_fields
)]

mod arrival;
mod ecn;
pub mod endpoint;
pub mod host;
pub mod isn;
pub mod settings;
mod stream_data;
mod terms;
mod wire;

pub use endpoint::{Counters, End, Endpoint, TcpState};
pub use host::{ConnectionId, Host, Listening};
pub use isn::initial_sequence_number;
pub use settings::{KeepAlive, RelayEnd, Settings};
pub use terms::Original;
