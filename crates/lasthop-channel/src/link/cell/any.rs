//! A cell of any kind.

use super::aggregation::{AggregatingCell, AirTime};
use super::config::CellConfig;
use super::{Cell, Clock, Delivery, Freight, Report};
use crate::queue::{Frame, Outcome};
use lasthop_core::units::{Rate, Time};

/// A cell of any kind; the methods are those of [`Cell`].
#[allow(clippy::large_enum_variant, reason = "there are few cells, and the usual one is at hand")]
pub enum AnyCell {
    /// Frame by frame: 802.11b, or a LAN.
    Plain(Cell),
    /// With aggregation: 802.11n, 802.11ac, 802.11ax.
    Aggregating(Box<AggregatingCell>),
}

macro_rules! either {
    ($self:expr, $cell:ident => $call:expr) => {
        match $self {
            AnyCell::Plain($cell) => $call,
            AnyCell::Aggregating($cell) => $call,
        }
    };
}

impl AnyCell {
    /// An idle cell, see [`Cell::new`].
    ///
    /// # Errors
    ///
    /// The message of the loss model that refuses its settings.
    pub fn new(
        config: &CellConfig,
        names: &[String],
        seed: u64,
        mss: u32,
    ) -> Result<AnyCell, String> {
        Ok(match AggregatingCell::new(config, names, seed, mss)? {
            Some(cell) => AnyCell::Aggregating(Box::new(cell)),
            None => AnyCell::Plain(Cell::new(config, names, seed, mss)?),
        })
    }

    /// See [`Cell::announce`].
    pub fn announce(&mut self, first: u32) {
        either!(self, cell => cell.announce(first));
    }

    /// See [`AggregatingCell::watch`].
    pub fn watch(&mut self) {
        if let AnyCell::Aggregating(cell) = self {
            cell.watch();
        }
    }

    /// See [`Cell::next_event`].
    #[inline]
    pub fn next_event(&self) -> (Time, Time) {
        either!(self, cell => cell.next_event())
    }

    /// See [`Cell::queue`].
    pub fn queue(&self, station: usize) -> (u64, u64, bool) {
        either!(self, cell => cell.queue(station))
    }

    /// Capacity from one station to another: see [`Cell::rate_of_pair`] and
    /// [`AggregatingCell::rate_of_pair`].
    pub fn rate_of_pair(&self, from: usize, to: usize) -> Rate {
        match self {
            AnyCell::Plain(cell) => cell.rate_of_pair(),
            AnyCell::Aggregating(cell) => cell.rate_of_pair(from, to),
        }
    }

    /// Shares of time on the medium up to `now`, in a cell with aggregation.
    pub fn air_time(&self, now: Time) -> Option<AirTime> {
        match self {
            AnyCell::Plain(_) => None,
            AnyCell::Aggregating(cell) => Some(cell.air_time(now)),
        }
    }

    /// See [`Cell::offer`].
    #[inline(always)]
    pub fn offer(
        &mut self,
        now: Time,
        stations: (usize, usize),
        frame: Frame,
        freight: &impl Freight,
        outcomes: &mut Vec<Outcome>,
    ) -> bool {
        either!(self, cell => cell.offer(now, stations, frame, freight, outcomes))
    }

    /// Processes the event that is due, and those behind it before `clock.until`, up to the first
    /// one of which the host has to know; the clock is set to that. Otherwise as [`Cell::fire`].
    #[inline]
    pub fn act(
        &mut self,
        clock: &mut Clock,
        freight: &impl Freight,
        reports: &mut Vec<Report>,
        outcomes: &mut Vec<Outcome>,
    ) -> Option<Delivery> {
        match self {
            AnyCell::Plain(cell) => cell.fire(clock.now, freight, reports, outcomes),
            AnyCell::Aggregating(cell) => cell.act(clock, freight, reports, outcomes),
        }
    }
}
