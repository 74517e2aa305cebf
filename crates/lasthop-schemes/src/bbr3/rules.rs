//! The choice between the draft and Linux, and the state that only Linux has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use lasthop_core::units::Time;

/// The rules to follow where the draft and Linux differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rules {
    /// draft-ietf-ccwg-bbr-06.
    #[default]
    Draft,
    /// google/bbr, branch v3.
    Linux,
}

/// State that only Linux has.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxState {
    /// The earliest departure time of the next segment (`tcp_wstamp_ns`).
    pub departure: Time,
    /// True if a segment was marked lost since the last ACK.
    pub found_lost: bool,
    /// ACKs of this round with losses (`loss_events_in_round`).
    pub loss_events: u32,
    /// The present episode began with a timeout (`TCP_CA_Loss`).
    pub timed_out: bool,
}

impl Rules {
    /// Pacing gain in Down.
    pub fn down_gain(self) -> f64 {
        match self {
            Rules::Draft => 0.9,
            Rules::Linux => 232.0 / 256.0,
        }
    }
}
