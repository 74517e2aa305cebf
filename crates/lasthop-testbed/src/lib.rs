#![doc = include_str!("../README.md")]
#![warn(
    clippy::allow_attributes_without_reason,
    clippy::field_scoped_visibility_modifiers,
    clippy::multiple_inherent_impl,
    clippy::partial_pub_fields
)]

mod datagrams;
mod files;
mod qlog;
mod run;
mod testbed;
mod trial;

pub use datagrams::{Direction, StackRun};
pub use files::{SYNTHETIC_LTE_DOWN, SYNTHETIC_LTE_UP};
pub use lasthop::units::Time;
pub use lasthop_sim::RunResult;
pub use lasthop_sim::events::probe::Fate;
pub use lasthop_sim::events::{Event, Kind, Observer, SenderState};
pub use lasthop_sim::hosts::external::{Datagram, Ecn, Endpoint};
pub use lasthop_sim::probes::datagrams::{DatagramFate, DatagramRecord};
pub use lasthop_sim::result::{FlowResult, LinkResult};
pub use run::Run;
pub use testbed::{Error, Network, Stack, Testbed};
pub use trial::Candidate;

/// What congestion controls need to run under lasthop's TCP, see [`Testbed::rule`].
pub mod rules {
    pub use lasthop::tcp::window::{
        Ack, Loss, LossClass, LossKind, Lost, Needs, Start, Window, WindowRule, grow, halve,
        reduce_to, window_rule,
    };
    pub use lasthop::units::{Duration, Rate, Time};
}

/// The Rust snippets of the documentation, compiled and run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/foreign-stacks.md")]
pub mod foreign_stacks {}
