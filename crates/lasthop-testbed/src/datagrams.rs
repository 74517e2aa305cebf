//! The ground truth about each datagram of a stack.

use std::time::Duration;

use lasthop::units::Time;
use lasthop_sim::events::probe::Fate;
use lasthop_sim::probes::datagrams::{DatagramFate, DatagramRecord};

/// The datagrams of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRun {
    /// Name of its flow.
    pub flow: String,
    /// Those sent to the receiver's end, usually downlink.
    pub to_receiver: Direction,
    /// Those sent to the sender's end.
    pub to_sender: Direction,
}

/// The datagrams of one direction, in the order in which they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    records: Vec<DatagramRecord>,
}

impl Direction {
    pub(crate) fn new(records: Vec<DatagramRecord>) -> Direction {
        Direction { records }
    }

    /// Each datagram: when it was sent, its bytes, what became of it.
    pub fn datagrams(&self) -> &[DatagramRecord] {
        &self.records
    }

    /// Number of datagrams sent.
    pub fn sent(&self) -> usize {
        self.records.len()
    }

    /// Number of datagrams that arrived.
    pub fn arrived(&self) -> usize {
        self.arrivals().count()
    }

    /// Number of datagrams on their way at the end of the run.
    pub fn in_transit(&self) -> usize {
        self.records.iter().filter(|r| r.fate == DatagramFate::InTransit).count()
    }

    /// Number of datagrams that arrived with the mark "congestion experienced".
    pub fn marked(&self) -> usize {
        let is_marked = |fate| matches!(fate, DatagramFate::Arrived { marked: true, .. });
        self.records.iter().filter(|r| is_marked(r.fate)).count()
    }

    /// Number of datagrams lost in this way.
    pub fn lost(&self, why: Fate) -> usize {
        let is_lost = |fate| matches!(fate, DatagramFate::Lost { why: w, .. } if w == why);
        self.records.iter().filter(|r| is_lost(r.fate)).count()
    }

    /// Number of datagrams lost on the air.
    pub fn lost_on_air(&self) -> usize {
        self.lost(Fate::LostOnAir)
    }

    /// Number of datagrams dropped by a queue.
    pub fn dropped_at_queue(&self) -> usize {
        self.lost(Fate::Refused)
    }

    /// Each arrival: its time, one-way delay and bytes, in the order of sending.
    pub fn arrivals(&self) -> impl Iterator<Item = (Time, Duration, u32)> {
        self.records.iter().filter_map(|r| match r.fate {
            DatagramFate::Arrived { at, .. } => {
                Some((at, Duration::from_nanos((at - r.sent_at).0), r.len))
            }
            _ => None,
        })
    }

    /// The bytes that arrived in each interval, from the start of the run to the last arrival.
    ///
    /// # Panics
    ///
    /// If the interval is zero.
    pub fn series(&self, interval: Duration) -> Vec<u64> {
        assert!(!interval.is_zero(), "an interval of zero");
        let mut bytes = Vec::new();
        for (at, _, len) in self.arrivals() {
            let index = (u128::from(at.0) / interval.as_nanos()) as usize;
            if index >= bytes.len() {
                bytes.resize(index + 1, 0);
            }
            bytes[index] += u64::from(len);
        }
        bytes
    }
}
