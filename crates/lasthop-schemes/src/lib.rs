//! The schemes of the papers, one file each, and their catalogue.
//!
//! A scheme is a file of this folder and a line in [`registry`](registry/index.html), from which
//! the modules, the enums for dispatch, the lookup by name and the schema of the settings are made.
//! The file uses [`prelude`], whose page shows the smallest one.

#![warn(
    clippy::allow_attributes_without_reason,
    clippy::field_scoped_visibility_modifiers,
    clippy::multiple_inherent_impl,
    clippy::partial_pub_fields
)]

#[macro_use]
mod registry;

pub mod catalogue;
pub mod prelude;
pub mod shared;
#[cfg(test)]
mod testing;

with_schemes!(modules);
