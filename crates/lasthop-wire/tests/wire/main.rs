//! Tests of packets and captures, as one program: linking many would take most of the build time.

mod wrappers;

mod captures;
mod encapsulations;
mod packets;
