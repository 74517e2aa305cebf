//! The fast path of a packet and its ACK, over plain links, where the receiver is computed in
//! advance: a segment of new data that arrives in order and its ACK are not stored, except for what
//! a [`PlainAck`] has. Whatever else happens to a packet takes the slow path.

mod crossing;

use std::sync::Arc;

use lasthop::link::Passage;
use lasthop::ring::Ring;
use lasthop::segment::{Flags, NodeId, Segment};
use lasthop::units::Time;

/// When a frame arrives, and the trigger time of the event of its arrival.
pub(crate) type Arrival = (Time, Time);

/// An ACK on the fast path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlainAck {
    /// Start of its serialisation on the last link, and its arrival.
    pub passage: Passage,
    /// All bytes below are acknowledged.
    pub number: u64,
    /// Packet number.
    pub id: u64,
    /// The arrival of the segment that it answers.
    pub sent_at: Time,
    pub triggered_at: Time,
    /// Its connection.
    pub connection: u32,
    /// Payload bytes of that segment; 0 for a duplicate ACK.
    pub len: u32,
    /// The window that it advertises, and the timestamp that it echoes.
    pub window: u32,
    pub ts_echo: u32,
}

/// A segment of new data on the fast path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainData {
    /// First byte, and payload bytes.
    pub seq: u64,
    pub len: u32,
    /// Bytes on the wire.
    pub size: u32,
    /// Its connection.
    pub connection: u32,
    /// `ACK`, with `TIMESTAMPS` if it has these; they are 0 otherwise.
    pub flags: Flags,
    pub ts_value: u32,
    pub ts_echo: u32,
}

impl PlainData {
    /// The segment, as packet number `id` to the node `to`.
    fn segment(&self, id: u64, to: NodeId) -> Segment {
        let &PlainData { seq, len, size, connection, flags, ts_value, ts_echo } = self;
        Segment {
            seq,
            id,
            flow: connection,
            len,
            size,
            window: 65_535,
            ts_value,
            ts_echo,
            to,
            flags,
            attempt: 1,
            forward: true,
            ..Segment::default()
        }
    }
}

impl PlainAck {
    /// What a link needs to know of it.
    fn segment(&self, size: u32) -> Segment {
        let &PlainAck { number, id, connection, .. } = self;
        let (flow, flags, attempt) = (connection, Flags::ACK, 1);
        Segment { ack: number, id, flow, size, flags, attempt, ..Segment::default() }
    }
}

/// What the sender of an ACK on the fast path learns when it arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedAck {
    /// All bytes below are acknowledged.
    pub number: u64,
    /// Packet number.
    pub id: u64,
    /// Its connection.
    pub connection: u32,
    /// The window that it advertises.
    pub window: u32,
    /// When it was sent, and the timestamp that it echoes.
    pub sent_at: Time,
    pub ts_echo: u32,
}

impl ReceivedAck {
    /// What the sender learns from `ack`.
    #[inline(always)]
    pub(crate) fn of(ack: &PlainAck) -> ReceivedAck {
        let &PlainAck { number, id, connection, window, sent_at, ts_echo, .. } = ack;
        ReceivedAck { number, id, connection, window, sent_at, ts_echo }
    }
}

/// The links from a sender to a receiver and back, each of which follows from the one before
/// without an event.
#[derive(Clone, Debug)]
pub(crate) struct FastPath {
    /// Links of the data before the last one, up to the first one that loses frames or whose rate
    /// or delay varies.
    data: Box<[u32]>,
    /// Such a link and those behind it; empty if there is none but a last one that loses frames.
    lossy: Box<[u32]>,
    /// The last link of the data, and the node at its end.
    last: u32,
    to: NodeId,
    /// Links of the ACKs before the last one.
    acks: Box<[u32]>,
    /// No link of the ACKs loses frames, and no rate and no delay of one varies.
    acks_are_plain: bool,
    /// The last link of the ACKs, and where the ACKs on it are stored.
    last_of_acks: u32,
    ring: u32,
}

impl FastPath {
    /// The node of the receiver.
    pub(crate) fn receiver(&self) -> NodeId {
        self.to
    }
}

/// The fast paths of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct FastPaths {
    paths: Vec<Arc<FastPath>>,
    /// ACKs on the fast path in the order of their arrival, for each last link of ACKs.
    acks: Vec<Ring<PlainAck>>,
    /// By link: the number of its ring.
    ring_of_link: Vec<u32>,
    /// Frames on the slow path that have entered the last link of a path and have not arrived.
    waiting: u64,
}

impl FastPaths {
    /// No path yet, in a network with this number of links.
    pub(super) fn new(links: usize) -> FastPaths {
        FastPaths { ring_of_link: vec![u32::MAX; links], ..FastPaths::default() }
    }

    /// Takes the memory of fast paths that are no longer used. These carry no ACK yet.
    pub(super) fn reuse_memory(&mut self, old: &mut Self) {
        for (acks, old) in self.acks.iter_mut().zip(&mut old.acks) {
            acks.reuse_memory(old);
        }
    }

    /// A frame on the slow path has entered the last link of a path.
    #[inline]
    pub(super) fn enter(&mut self) {
        self.waiting += 1;
    }

    /// This number of them has arrived, or is no longer awaited.
    #[inline]
    pub(super) fn leave(&mut self, frames: u64) {
        self.waiting -= frames;
    }

    /// True if ACKs on the fast path may arrive at the end of a link.
    pub(super) fn has_acks(&self, l: u32) -> bool {
        self.ring_of_link[l as usize] != u32::MAX
    }

    /// All ACKs on the fast path.
    pub(crate) fn acks(&self) -> impl Iterator<Item = &PlainAck> {
        self.acks.iter().flat_map(Ring::iter)
    }

    /// The ACKs of a connection on its fast path that are not sent before `from` and no duplicates.
    pub(crate) fn acks_of(
        &self,
        path: Option<&FastPath>,
        connection: u32,
        from: Time,
    ) -> impl Iterator<Item = &PlainAck> {
        let ring = path.and_then(|p| self.acks.get(p.ring as usize));
        ring.into_iter()
            .flat_map(move |r| r.from_first(move |a| a.sent_at >= from))
            .filter(move |a| a.connection == connection && a.len > 0)
    }
}
