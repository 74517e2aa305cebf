//! Checks of a cell with aggregation: packets leave the reorder buffer in the order in which they
//! entered the queue, and none is lost before the last attempt.

use lasthop::link::cell::config::Place;
use lasthop::link::cell::mac::Access;
use lasthop::units::{Duration, Time};

use super::cells::{CellModel, Frame};
use super::checked::{Checked, ensure};
use crate::events::Kind;
use crate::network::cells::drop_reason;

/// How long the receiver waits for a packet that is missing.
const REORDER_TIMEOUT: Duration = Duration(100_000_000);

#[allow(clippy::multiple_inherent_impl, reason = "one file for each kind of cell")]
impl CellModel {
    /// True if the cell aggregates packets.
    pub(super) fn aggregates(&self) -> bool {
        self.config.wifi.is_some()
    }

    /// A transmission has ended: what has arrived and has never failed is acknowledged.
    pub(super) fn forget_acknowledged(&mut self, from: usize, to: usize) {
        if self.config.mac.access == Access::Ns3 {
            let done = |f: &Frame| f.to == to as u32 && f.arrived && f.first_failed.is_none();
            self.stations[from].frames.retain(|f| !done(f));
        }
    }

    /// Compares the attempts of link `l` in the result with those on the medium.
    pub(super) fn compare_attempts(&self, l: usize, place: Place, attempts: u64) -> Checked {
        if !self.aggregates() {
            return Ok(());
        }
        let compared = self.air_time.compare_attempts(place.from, place.to, attempts);
        compared.map_err(|text| format!("link {l}: {text}"))
    }

    /// Like [`CellModel::ended`], for frame `i` of the station in a cell with aggregation.
    pub(super) fn packet_ended(
        &mut self,
        from: u32,
        i: usize,
        kind: Kind,
        reason: &'static str,
        number: f64,
        now: Time,
    ) -> Checked {
        let station = &mut self.stations[from as usize];
        let frame = &mut station.frames[i];
        let (limit, had) = (frame.slots, frame.attempts);
        let failed = frame.failed.take_if(|t| *t == now).is_some();
        match kind {
            Kind::AttemptFailed => {
                self.attempts += u64::from(!std::mem::take(&mut frame.counted));
                frame.attempts = number as u32;
                frame.failed = Some(now);
                frame.first_failed.get_or_insert(now);
                frame.received |= reason == drop_reason::LINK_ACK;
                let (next, over) = (frame.attempts == had + 1, frame.attempts == limit);
                if over && frame.arrived {
                    station.frames.remove(i);
                }
                // After the last RTS the packets are given up without further attempts.
                ensure(next || (over && had < limit), || {
                    format!("attempt {number} of {limit} follows attempt {had}")
                })
            }
            Kind::Arrived => self.packet_arrived(from, i, now),
            _ => {
                self.attempts += u64::from(!failed);
                let attempts = if failed { had } else { had + 1 };
                let (received, skipped) = (frame.received, frame.skipped);
                station.frames.remove(i);
                if reason == drop_reason::REORDER_TIMEOUT {
                    return ensure(skipped || !station.is_drop_tail, || {
                        "is discarded by a receiver that still waits for it".into()
                    });
                }
                ensure(!received || skipped, || "is lost, but has been received".into())?;
                ensure(attempts == limit, || {
                    format!("is given up after attempt {attempts} of {limit}")
                })
            }
        }
    }

    /// A packet goes up the stack: once, and not before those that were sent earlier.
    fn packet_arrived(&mut self, from: u32, i: usize, now: Time) -> Checked {
        let station = &mut self.stations[from as usize];
        let frame = &mut station.frames[i];
        let limit = frame.slots;
        // The attempt that the block acknowledgement confirms has no event.
        let early = self.config.mac.access == Access::Ns3;
        frame.counted = early && !frame.received;
        self.attempts += u64::from(!frame.received);
        let (twice, late) = (frame.arrived, frame.skipped);
        frame.arrived = true;
        let (to, received) = (frame.to, frame.received && frame.attempts < limit);
        let mut overtaken = None;
        for f in station.frames[..i].iter_mut().filter(|f| f.to == to && !f.arrived) {
            let waited = f.first_failed.is_some_and(|t| now >= t + REORDER_TIMEOUT);
            f.skipped |= waited;
            overtaken = overtaken.or((!f.skipped).then_some(f.id));
        }
        let overtaken = overtaken.filter(|_| station.is_drop_tail);
        // Within an aggregate, it is not known yet whether an acknowledgement follows.
        if !received && !early {
            station.frames.remove(i);
        }
        ensure(!twice, || "arrives twice".into())?;
        ensure(!late || !station.is_drop_tail, || {
            "goes up the stack after packets that were sent later".into()
        })?;
        overtaken.map_or(Ok(()), |id| {
            Err(format!("goes up the stack before packet {id}, which was sent earlier"))
        })
    }
}
