//! The path between the endpoints: radio models, queue disciplines, links and shared media.

pub mod air;
pub mod link;
pub mod queue;
pub mod sample;
