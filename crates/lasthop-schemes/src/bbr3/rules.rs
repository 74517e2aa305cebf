//! The choice between the draft and Linux, and the state that only Linux has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bbr::model::{Departure, larger};
use lasthop_core::units::{Duration, Rate, Time};

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
    pub departure: Departure,
    /// When a segment was last marked lost.
    pub lost_at: Option<Time>,
    /// ACKs of this round with losses (`loss_events_in_round`).
    pub loss_events: u32,
    /// The present episode began with a timeout (`TCP_CA_Loss`).
    pub timed_out: bool,
    /// ACK aggregation.
    pub extra_acked: ExtraAcked,
    /// Bytes sent as one burst, with the pacing rate and the round-trip time from which they were
    /// computed.
    pub quantum: ((Rate, Option<Duration>), f64),
}

/// The largest excess of this window of rounds and of the one before (`bbr->extra_acked`).
#[derive(Clone, Copy, Debug, Default)]
pub struct ExtraAcked {
    excess: [f64; 2],
    rounds: u32,
}

impl ExtraAcked {
    /// The larger of the two.
    pub fn get(&self) -> f64 {
        larger(self.excess[0], self.excess[1])
    }

    /// Adds the excess of an ACK; a window lasts `window` rounds.
    pub fn add(&mut self, excess: f64, round_started: bool, window: u32) {
        if round_started {
            self.rounds += 1;
            if self.rounds >= window {
                (self.excess, self.rounds) = ([0.0, self.excess[0]], 0);
            }
        }
        self.excess[0] = larger(self.excess[0], excess);
    }
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
