//! Tests of whole connections, as one program: linking many would take most of the build time.

mod common;

mod accurate_ecn;
mod fuzz;
mod host;
mod packetdrill;
mod rules;
mod simulation;
mod transfers;
