//! The way of a connection's packets by way of an agent, where its receiver is computed in advance.
//! New data and ACKs are not in the pool, but at the link that they are in flight on. Whatever else
//! happens to one puts it there.

mod transmit;

use lasthop::link::Passage;
use lasthop::ring::Ring;
use lasthop::segment::{Flags, Options, Segment};

use crate::network::paths::Watch;

/// The way of a connection's packets by way of the only agent that sees them.
#[derive(Clone, Debug)]
struct AgentPath {
    watch: Watch,
    /// The links of the ACKs and of the data: to the agent, and from there to their end. Frames
    /// pass them in order, and need events only at the agent and at the sender.
    legs: [[Leg; 2]; 2],
}

/// Links that follow from each other without an event.
#[derive(Clone, Debug)]
struct Leg {
    links: Box<[u32]>,
    /// Where the segments on the last one are stored.
    ring: u32,
}

/// A segment in flight: the start of its serialisation on the last link, and its arrival.
#[derive(Clone, Copy, Debug, Default)]
struct InFlight {
    passage: Passage,
    segment: Segment,
}

/// A segment that has arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrived {
    segment: Segment,
    /// Those of the last one that had any.
    options: Options,
}

impl Arrived {
    /// The segment, and its options.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (&mut Segment, &Options) {
        let has = self.segment.flags.any(Flags::OPTIONS);
        (&mut self.segment, if has { &self.options } else { &Options::NONE })
    }
}

/// The segments that arrive at the end of a link, in this order.
#[derive(Clone, Debug)]
struct Arrivals {
    segments: Ring<InFlight>,
    /// The options of those that have any.
    options: Ring<Options>,
}

/// The link has no ring.
const NO_RING: u32 = u32::MAX;

/// The paths by way of an agent, and the segments in flight on them.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentPaths {
    /// By connection; empty if no connection has one.
    paths: Vec<Option<AgentPath>>,
    rings: Vec<Arrivals>,
    /// By link: the number of its ring; `NO_RING` or absent if it has none.
    ring_of_link: Vec<u32>,
}

impl AgentPaths {
    /// True if the packets of this connection pass an agent in this way.
    #[inline]
    pub(crate) fn has(&self, connection: u32) -> bool {
        self.path(connection).is_some()
    }

    #[inline(always)]
    fn path(&self, connection: u32) -> Option<&AgentPath> {
        self.paths.get(connection as usize)?.as_ref()
    }

    /// The agent on the path of a connection.
    #[inline(always)]
    pub(crate) fn watch(&self, connection: u32) -> Option<Watch> {
        self.path(connection).map(|path| path.watch)
    }

    /// The number of the ring of the segments that arrive at the end of a link; `None` if there is
    /// none.
    #[inline]
    pub(crate) fn ring(&self, l: u32) -> Option<usize> {
        let ring = *self.ring_of_link.get(l as usize)?;
        (ring != NO_RING).then_some(ring as usize)
    }

    /// The segments in flight.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.rings.iter().flat_map(|ring| ring.segments.iter()).map(|frame| &frame.segment)
    }

    /// A leg over these links.
    fn leg(&mut self, links: Box<[u32]>) -> Leg {
        let last = links[links.len() - 1];
        let ring = self.ring(last).unwrap_or_else(|| {
            let (segments, options) = (Ring::default(), Ring::default());
            self.rings.push(Arrivals { segments, options });
            let ring = self.rings.len() - 1;
            let links = self.ring_of_link.len().max(last as usize + 1);
            self.ring_of_link.resize(links, NO_RING);
            self.ring_of_link[last as usize] = ring as u32;
            ring
        });
        Leg { links, ring: ring as u32 }
    }
}
