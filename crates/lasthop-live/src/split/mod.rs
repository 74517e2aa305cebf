//! TCP connections that end at a node of the path, and go on from there as others.
//!
//! Each connection of the programs is two at the node. Towards the mobile, an endpoint answers with
//! the server's address and port; towards the server, one stands for the mobile. Both kernels see
//! the addresses and ports of their peers. Between the two the data are copied in both directions,
//! as far as the buffers of the endpoints take them; a relay may control one direction.
//!
//! A connection is accepted when the other side has accepted it: a closed port refuses it, and a
//! peer that does not answer lets it time out.

mod node;
mod relaying;
mod relays;
mod side;

pub use node::Split;
pub use relays::Relays;
pub use side::Side;
