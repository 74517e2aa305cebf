//! The MCS of each transmission of data: the rate rules of a cell.

use super::minstrel::{Choice, Minstrel};
use crate::link::cell::wifi::{RateRule, Wifi};
use lasthop_core::units::Time;

/// The rate rule of one station for one receiver.
pub(super) enum RateSelection {
    /// One MCS, and slower ones after transmissions without an answer.
    Steps {
        /// The MCS and those that are slower, the fastest first.
        steps: Vec<usize>,
        /// Transmissions without an answer after which the next one is taken; 0: never.
        fallback: u32,
        /// Transmissions without an answer in sequence.
        unanswered: u32,
        /// The MCS to which they lead.
        mcs: usize,
    },
    /// By trial.
    Minstrel(Box<Minstrel>),
}

impl RateSelection {
    /// The rule of the cell with `mcs` as its MCS. `name` and the seed address the draws.
    pub(super) fn new(wifi: &Wifi, mcs: u32, cw_min: u32, seed: u64, name: &str) -> RateSelection {
        if wifi.rate_rule == RateRule::MinstrelHt {
            return RateSelection::Minstrel(Box::new(Minstrel::new(wifi, cw_min, seed, name)));
        }
        let slower = (0..mcs).rev().filter(|&mcs| wifi.phy(mcs).check().is_ok());
        RateSelection::Steps {
            steps: std::iter::once(mcs).chain(slower).map(|mcs| mcs as usize).collect(),
            fallback: wifi.fallback,
            unanswered: 0,
            mcs: mcs as usize,
        }
    }

    /// MCS of the first transmission.
    pub(super) fn first(&self) -> usize {
        match self {
            RateSelection::Steps { steps, .. } => steps[0],
            RateSelection::Minstrel(_) => 0,
        }
    }

    /// How the next exchange is sent.
    #[inline]
    pub(super) fn choose(&mut self, now: Time) -> Choice {
        match self {
            &mut RateSelection::Steps { mcs, .. } => Choice { mcs, probe: false, protect: false },
            RateSelection::Minstrel(minstrel) => minstrel.choose(now),
        }
    }

    /// The MCS of the next exchange, if only transmissions without an answer change it.
    #[inline]
    pub(super) fn fixed(&self) -> Option<usize> {
        match self {
            RateSelection::Steps { mcs, .. } => Some(*mcs),
            RateSelection::Minstrel(_) => None,
        }
    }

    /// Data of `mpdus` MPDUs have been sent with an MCS, and `acknowledged` of them are
    /// acknowledged; `None`: there was no answer.
    #[inline(always)]
    pub(super) fn sent(&mut self, now: Time, mcs: usize, mpdus: u32, acknowledged: Option<u32>) {
        match self {
            RateSelection::Steps { steps, fallback, unanswered, mcs } => {
                let before = *unanswered;
                *unanswered = if acknowledged.is_some() { 0 } else { before + 1 };
                if *unanswered != before {
                    let step = unanswered.checked_div(*fallback).unwrap_or(0) as usize;
                    *mcs = steps[step.min(steps.len() - 1)];
                }
            }
            RateSelection::Minstrel(minstrel) => minstrel.sent(now, mcs, mpdus, acknowledged),
        }
    }
}
