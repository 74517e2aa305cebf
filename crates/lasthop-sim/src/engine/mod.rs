//! The engine: the event queue and the pool of segments in transit.

pub mod pool;
pub mod scheduler;
