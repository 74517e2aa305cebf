//! The path between the endpoints: radio models, queue disciplines, links and shared media.

#![warn(
    clippy::allow_attributes_without_reason,
    clippy::field_scoped_visibility_modifiers,
    clippy::multiple_inherent_impl,
    clippy::partial_pub_fields
)]

pub mod air;
pub mod link;
pub mod queue;
pub mod sample;
