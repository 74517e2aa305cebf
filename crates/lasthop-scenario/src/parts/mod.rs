//! The types of a scenario file, by part of a network. Each file has the keys of a part, their
//! defaults, their checks and their JSON Schema, and what the part becomes in the network.

pub mod air;
pub mod app;
pub mod cell;
pub mod checks;
pub mod experiment;
pub mod file;
pub mod file_paths;
pub mod flow;
pub mod last_hop;
pub mod link;
pub mod node;
pub mod outage;
pub mod queue;
pub mod random_starts;
mod reader;
pub mod tcp;
