//! What several schemes have in common.

pub mod base;
pub mod cache;
pub mod freeze;
pub mod hystart;
pub mod link_watch;
pub mod loss_detectors;
pub mod pacer;
pub mod relay_buffer;
pub mod rounds;
