//! What runs at the nodes: end points, agents, relays, oracles, web sessions, handovers.

pub mod agent;
pub mod endpoint;
pub mod handover;
pub mod oracle;
pub mod relay;
pub mod sessions;
