//! The text of a scenario: its values with their places, and what may be wrong with them. Nothing
//! here knows a type of a file.

pub mod brace_expansion;
pub mod errors;
pub mod files;
pub mod keys;
mod path;
pub mod shorthand;
pub mod tree;
