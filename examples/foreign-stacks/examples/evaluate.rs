//! quinn or smoltcp as a candidate of `lasthop evaluate` (docs/foreign-stacks.md):
//!
//! ```sh
//! cargo build --release --example evaluate
//! lasthop evaluate ./target/release/examples/evaluate:quinn --quick --only alone
//! ```

use std::io;

use lasthop_testbed::{Candidate, Endpoint};
use lasthop_testbed_stacks::{quinn, smoltcp};
use quinn_proto::{TransportConfig, VarInt};

/// More than any run transfers.
const ENDLESS: usize = usize::MAX;

fn quic(_seed: u64) -> [Box<dyn Endpoint>; 2] {
    let mut transport = TransportConfig::default();
    // Windows of flow control that do not limit 100 Mbit/s over 600 ms.
    transport.stream_receive_window(VarInt::from_u32(20 << 20)).send_window(20 << 20);
    let (server, client) = quinn::download(ENDLESS, transport);
    [Box::new(server), Box::new(client)]
}

fn tcp(_seed: u64) -> [Box<dyn Endpoint>; 2] {
    let (server, client) = smoltcp::download(ENDLESS, smoltcp::CongestionControl::Cubic);
    [Box::new(server), Box::new(client)]
}

fn main() -> io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("quinn") => Candidate::udp(quic).serve(),
        Some("smoltcp") => Candidate::ip(tcp).serve(),
        _ => Err(io::Error::other("which stack? quinn or smoltcp")),
    }
}
