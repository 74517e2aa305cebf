//! Accounting of traffic: every bit that end points and agents send is counted exactly once.

use lasthop::segment::{Flags, Segment};
use lasthop::units::Time;
use serde::{Deserialize, Serialize};

use crate::events::probe::Fate;

/// Bits of packets, TCP and IP headers included, in the measured time. `before + offered +
/// injected + duplicated_by_link` equals the sum of all other fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Traffic {
    /// In transit when measuring began.
    pub before: u64,
    /// Sent by end points: data, retransmissions, ACKs, SYN and FIN segments, datagrams.
    pub offered: u64,
    /// Sent by agents: their retransmissions, ACKs, notices.
    pub injected: u64,
    /// Copies that links made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicated_by_link: u64,
    /// Received: data segments that contain new bytes, each counted once, and datagrams.
    pub data: u64,
    /// Received: data segments without new bytes.
    pub duplicates: u64,
    /// Received: ACKs at data senders.
    pub acks: u64,
    /// Received: segments other than data and plain ACKs (SYN, SYN-ACK, FIN, window probes,
    /// notices).
    pub control: u64,
    /// Discarded by receivers: with an old timestamp, outside the receive window, answered by a
    /// challenge ACK.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub discarded: u64,
    /// Lost on the air, collisions excluded.
    pub bit_errors: u64,
    /// Discarded by end points: delivered by a link with a bit error that it did not detect.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub corrupted: u64,
    /// Lost in collisions on a shared medium.
    pub collisions: u64,
    /// Dropped by queues, on arrival or later.
    pub queue_drops: u64,
    /// Removed by queues, because a later segment made them redundant.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub filtered: u64,
    /// Dropped or taken into custody by agents.
    pub at_agents: u64,
    /// In transit at the end: in queues or on links.
    pub in_flight: u64,
}

/// The counters behind [`Traffic`], in bytes since the start of the run.
#[derive(Clone, Debug)]
pub(crate) struct TrafficLedger {
    now: Traffic,
    /// The counters, and the bytes in transit, when measuring began.
    before: Traffic,
    from: Time,
    end: Time,
    /// Bytes of frames that have arrived, but that stations of cells still hold because the link
    /// ACK was lost.
    retained_copies: u64,
    /// Bytes whose drop was computed before measuring began, or before the end, but happens later.
    /// Until the drop they are in transit.
    future_drops: [u64; 2],
}

impl TrafficLedger {
    pub(crate) fn new(from: Time, end: Time) -> TrafficLedger {
        TrafficLedger {
            now: Traffic::default(),
            before: Traffic::default(),
            from,
            end,
            retained_copies: 0,
            future_drops: [0; 2],
        }
    }

    /// The accounts of the run so far.
    #[inline(always)]
    pub(crate) fn traffic_mut(&mut self) -> &mut Traffic {
        &mut self.now
    }

    /// An agent keeps a copy of `bytes` that is in the pool and not in transit.
    #[inline(always)]
    pub(crate) fn retain(&mut self, bytes: u64) {
        self.retained_copies += bytes;
    }

    /// An agent discards a copy of `bytes`.
    #[inline(always)]
    pub(crate) fn release(&mut self, bytes: u64) {
        self.retained_copies -= bytes;
    }

    /// Records the loss of a packet at the time `at`, which may be in the future.
    #[inline(never)]
    pub(crate) fn record_loss(&mut self, segment: &Segment, fate: Fate, now: Time, at: Time) {
        let bytes = u64::from(segment.size);
        for (limit, future_drops) in [self.from, self.end].into_iter().zip(&mut self.future_drops) {
            *future_drops += if now < limit && limit <= at { bytes } else { 0 };
        }
        *match fate {
            Fate::LostOnAir => &mut self.now.bit_errors,
            Fate::Corrupted => &mut self.now.corrupted,
            Fate::Collision => &mut self.now.collisions,
            Fate::Refused => &mut self.now.queue_drops,
            Fate::DroppedByAgent => &mut self.now.at_agents,
            Fate::Discarded => &mut self.now.discarded,
        } += bytes;
    }

    /// Counts a segment from the receiver that has reached the data sender.
    #[inline]
    pub(crate) fn ack_received(&mut self, segment: &Segment) {
        let plain = !segment.flags.any(Flags::SYN.with(Flags::FIN).with(Flags::RST));
        *(if plain { &mut self.now.acks } else { &mut self.now.control }) +=
            u64::from(segment.size);
    }

    /// Measuring begins; `stored` bytes are in the pool of segments.
    pub(crate) fn begin(&mut self, stored: u64) {
        let in_flight = stored - self.retained_copies + self.future_drops[0];
        self.before = Traffic { in_flight, ..self.now };
        self.before.queue_drops -= self.future_drops[0];
    }

    /// The totals of the measured time; `stored` bytes are in the pool of segments at the end.
    pub(crate) fn close(&self, stored: u64) -> Traffic {
        let in_flight = stored - self.retained_copies;
        let (a, b) = (&self.before, &self.now);
        let since = |before: u64, now: u64| 8 * (now - before);
        Traffic {
            before: 8 * a.in_flight,
            offered: since(a.offered, b.offered),
            injected: since(a.injected, b.injected),
            duplicated_by_link: since(a.duplicated_by_link, b.duplicated_by_link),
            data: since(a.data, b.data),
            duplicates: since(a.duplicates, b.duplicates),
            acks: since(a.acks, b.acks),
            control: since(a.control, b.control),
            discarded: since(a.discarded, b.discarded),
            bit_errors: since(a.bit_errors, b.bit_errors),
            corrupted: since(a.corrupted, b.corrupted),
            collisions: since(a.collisions, b.collisions),
            queue_drops: since(a.queue_drops, b.queue_drops - self.future_drops[1]),
            filtered: since(a.filtered, b.filtered),
            at_agents: since(a.at_agents, b.at_agents),
            in_flight: 8 * (in_flight + self.future_drops[1]),
        }
    }
}

/// Fields that only some scenarios have are left out where they are 0.
pub(super) fn is_zero(bits: &u64) -> bool {
    *bits == 0
}

impl Traffic {
    /// Bits sent minus bits accounted for; 0 in every run.
    pub fn balance(&self) -> i128 {
        let inputs = [self.before, self.offered, self.injected, self.duplicated_by_link];
        let outputs = [
            self.data,
            self.duplicates,
            self.acks,
            self.control,
            self.discarded,
            self.bit_errors,
            self.corrupted,
            self.collisions,
            self.queue_drops,
            self.filtered,
        ];
        let sum = |of: &[u64]| of.iter().map(|n| i128::from(*n)).sum::<i128>();
        sum(&inputs) - sum(&outputs) - sum(&[self.at_agents, self.in_flight])
    }
}
