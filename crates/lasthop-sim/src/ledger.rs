//! Where the bits of a run went: everything that end points and agents sent is accounted for, to
//! the bit.

use lasthop::segment::{Flags, Segment};
use lasthop::units::Time;
use serde::Serialize;

use crate::truth::Fate;

/// Bits of packets, TCP and IP headers included, in the measured time. `before + offered +
/// injected` is the sum of the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// On their way when measuring began.
    pub before: u64,
    /// Sent by end points: data, retransmissions, ACKs, SYN and FIN, datagrams.
    pub offered: u64,
    /// Sent by agents: their retransmissions, ACKs, notices.
    pub injected: u64,
    /// Received: data segments with something new in them, each counted once, and datagrams.
    pub data: u64,
    /// Received: data segments that the receiver had already, or had no room for.
    pub duplicates: u64,
    /// Received: ACKs at data senders.
    pub acks: u64,
    /// Received: what carries neither data nor a plain ACK (SYN and its answer, FIN, window probes,
    /// notices).
    pub control: u64,
    /// Lost on the air, but not in a collision.
    pub bit_errors: u64,
    /// Lost in collisions on a shared medium.
    pub collisions: u64,
    /// Refused or dropped by queues.
    pub queue_drops: u64,
    /// Dropped or taken into custody by agents.
    pub at_agents: u64,
    /// In queues or on the air at the end.
    pub in_flight: u64,
}

/// The books behind it, in bytes since the beginning.
#[derive(Clone, Debug)]
pub(crate) struct TrafficLedger {
    pub(crate) now: Traffic,
    /// What had been counted when measuring began, and was on its way then.
    before: Traffic,
    from: Time,
    end: Time,
    /// Copies that stations of cells will send once more, although the frame has arrived.
    pub(crate) copies: u64,
    /// Drops that were future_drops before measuring began, and before the end: of frames that were
    /// still on their way then.
    future_drops: [u64; 2],
}

impl TrafficLedger {
    pub(crate) fn new(from: Time, end: Time) -> TrafficLedger {
        TrafficLedger {
            now: Traffic::default(),
            before: Traffic::default(),
            from,
            end,
            copies: 0,
            future_drops: [0; 2],
        }
    }

    /// A packet is gone; `at` may lie ahead.
    #[inline(never)]
    pub(crate) fn gone(&mut self, segment: &Segment, fate: Fate, now: Time, at: Time) {
        let bytes = u64::from(segment.size);
        for (limit, future_drops) in [self.from, self.end].into_iter().zip(&mut self.future_drops) {
            *future_drops += if now < limit && limit <= at { bytes } else { 0 };
        }
        *match fate {
            Fate::LostOnAir => &mut self.now.bit_errors,
            Fate::Collision => &mut self.now.collisions,
            Fate::Refused => &mut self.now.queue_drops,
            Fate::DroppedByAgent => &mut self.now.at_agents,
        } += bytes;
    }

    /// An ACK, or what its sender's peer sends else, has reached the data sender.
    #[inline]
    pub(crate) fn answer_received(&mut self, segment: &Segment) {
        let plain = !segment.flags.any(Flags::SYN.with(Flags::FIN).with(Flags::RST));
        *(if plain { &mut self.now.acks } else { &mut self.now.control }) +=
            u64::from(segment.size);
    }

    /// Measuring begins, with so many bytes on their way.
    pub(crate) fn begin(&mut self, in_flight: u64) {
        self.before = Traffic { in_flight: in_flight + self.future_drops[0], ..self.now };
        self.before.queue_drops -= self.future_drops[0];
    }

    /// The account, with so many bytes on their way at the end.
    pub(crate) fn close(&self, in_flight: u64) -> Traffic {
        let (a, b) = (&self.before, &self.now);
        let since = |before: u64, now: u64| 8 * (now - before);
        Traffic {
            before: 8 * a.in_flight,
            offered: since(a.offered, b.offered),
            injected: since(a.injected, b.injected),
            data: since(a.data, b.data),
            duplicates: since(a.duplicates, b.duplicates),
            acks: since(a.acks, b.acks),
            control: since(a.control, b.control),
            bit_errors: since(a.bit_errors, b.bit_errors),
            collisions: since(a.collisions, b.collisions),
            queue_drops: since(a.queue_drops, b.queue_drops - self.future_drops[1]),
            at_agents: since(a.at_agents, b.at_agents),
            in_flight: 8 * (in_flight + self.future_drops[1]),
        }
    }
}

impl Traffic {
    /// What came in less what went out: 0 in every run.
    pub fn balance(&self) -> i128 {
        let came = [self.before, self.offered, self.injected];
        let went = [
            self.data,
            self.duplicates,
            self.acks,
            self.control,
            self.bit_errors,
            self.collisions,
            self.queue_drops,
        ];
        let sum = |of: &[u64]| of.iter().map(|n| i128::from(*n)).sum::<i128>();
        sum(&came) - sum(&went) - sum(&[self.at_agents, self.in_flight])
    }
}
