//! What takes the medium besides the stations: beacons, and spans in which other networks occupy
//! it.
//!
//! A beacon waits for the end of an exchange and for PIFS. A span has fixed ends, and an exchange
//! or beacon that goes on at its start shortens it: other networks sense it, too.

use crate::air::spans::Spans;
use crate::link::cell::config::CellConfig;
use lasthop_core::units::{Duration, Time};

/// What takes the medium, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupation {
    Beacon,
    /// Other networks, until this time.
    Others(Time),
}

/// The occupations that are to come.
pub(super) struct Occupations {
    beacon_interval: Duration,
    /// Target time of the next beacon (TBTT).
    beacon_target: Time,
    /// Interframe space before it (PIFS, 802.11-2020, 10.3.2.3.4).
    pifs: Duration,
    busy: Spans,
    /// Start of the next occupation, if no station sends before, and what it is.
    at: Time,
    next: Occupation,
}

impl Occupations {
    /// Beacons at this interval (0: none), and the spans of the configuration.
    pub(super) fn new(config: &CellConfig, interval: Duration, pifs: Duration) -> Occupations {
        let beacons = interval > Duration::ZERO;
        let mut all = Occupations {
            beacon_interval: interval,
            beacon_target: if beacons { Time::ZERO + interval } else { Time::NEVER },
            pifs,
            busy: Spans::new(config.busy.iter().map(|o| (o.from, o.length))),
            at: Time::NEVER,
            next: Occupation::Beacon,
        };
        all.after(Time::ZERO);
        all
    }

    /// Start of the next one, if no station sends before.
    #[inline]
    pub(super) fn next(&self) -> Time {
        self.at
    }

    /// Determines the next one, after the medium has become free at `free`.
    #[inline]
    pub(super) fn after(&mut self, free: Time) {
        self.at = self.beacon_target.max(free + self.pifs);
        self.next = Occupation::Beacon;
        if self.busy.is_empty() {
            return;
        }
        if let Some(&(from, to)) = self.busy.after(free).first() {
            let at = from.max(free);
            if at <= self.at {
                (self.at, self.next) = (at, Occupation::Others(to));
            }
        }
    }

    /// The next one begins at its time; `beacon`: duration of a beacon. Returns it and its end.
    pub(super) fn begin(&mut self, beacon: Duration) -> (Occupation, Time) {
        let end = match self.next {
            Occupation::Beacon => self.at + beacon,
            Occupation::Others(to) => to,
        };
        while self.next == Occupation::Beacon && self.beacon_target <= end {
            self.beacon_target += self.beacon_interval;
        }
        (self.next, end)
    }
}
