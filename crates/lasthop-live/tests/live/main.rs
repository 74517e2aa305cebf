//! Tests of replays and links, as one program: linking many would take most of the build time.

#[path = "../../../lasthop-endpoint/tests/endpoint/common/simulated.rs"]
mod simulated;
#[path = "../../../lasthop-wire/tests/wire/wrappers.rs"]
mod wrappers;

mod chain;
mod namespaces;
mod own_end;
mod own_sender;
mod pump;
mod recorded;
mod relay;
mod replay;
mod station;
