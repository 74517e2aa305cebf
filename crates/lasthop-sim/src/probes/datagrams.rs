//! What became of each datagram of the external stacks.

use lasthop::segment::{Flags, Segment};
use lasthop::units::Time;

use crate::events::probe::{Fate, external_end};

/// A datagram of an external stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramRecord {
    /// When its stack sent it.
    pub sent_at: Time,
    /// Its bytes, without the headers that the link carries in addition.
    pub len: u32,
    /// What became of it.
    pub fate: DatagramFate,
}

/// What became of a datagram. If a link made a copy of it, that of the first one that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramFate {
    /// On its way at the end of the run.
    InTransit,
    /// Passed to the other end.
    Arrived {
        /// When.
        at: Time,
        /// A queue on its way has marked it: congestion experienced (RFC 3168).
        marked: bool,
    },
    /// Lost or dropped.
    Lost {
        /// When: a loss on the air at the end of its air time.
        at: Time,
        /// Where and why.
        why: Fate,
    },
}

/// The datagrams of a run, by the end to which they are sent.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    of_ends: Vec<Vec<DatagramRecord>>,
}

impl Datagrams {
    /// Adds the next end.
    pub(crate) fn add_end(&mut self) {
        self.of_ends.push(Vec::new());
    }

    /// The records of each end, in the order in which the datagrams were sent.
    pub(crate) fn into_records(self) -> Vec<Vec<DatagramRecord>> {
        self.of_ends
    }

    #[inline]
    pub(crate) fn sent(&mut self, now: Time, segment: &Segment) {
        let record =
            DatagramRecord { sent_at: now, len: segment.len, fate: DatagramFate::InTransit };
        self.of_ends[external_end(segment) as usize].push(record);
    }

    #[inline]
    pub(crate) fn arrived(&mut self, now: Time, segment: &Segment) {
        let fate = self.fate_of(segment);
        if !matches!(fate, DatagramFate::Arrived { .. }) {
            *fate = DatagramFate::Arrived { at: now, marked: segment.flags.has(Flags::CE) };
        }
    }

    pub(crate) fn lost(&mut self, at: Time, segment: &Segment, why: Fate) {
        let fate = self.fate_of(segment);
        if *fate == DatagramFate::InTransit {
            *fate = DatagramFate::Lost { at, why };
        }
    }

    fn fate_of(&mut self, segment: &Segment) -> &mut DatagramFate {
        let records = &mut self.of_ends[external_end(segment) as usize];
        &mut records[segment.seq as usize].fate
    }
}

const _: () = assert!(size_of::<DatagramRecord>() <= 32);
