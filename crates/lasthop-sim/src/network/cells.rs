//! Cells: connects the shared media of the core to the network.

mod exchange;

use std::collections::VecDeque;

use lasthop::framing::AnyFraming;
use lasthop::link::Link;
use lasthop::link::cell::Freight;
use lasthop::link::cell::any::AnyCell;
use lasthop::link::cell::config::CellConfig;
use lasthop::queue::Headers;
use lasthop::scenario::network::Network;
use lasthop::segment::{Handle, Options, Segment};
use lasthop::units::{Duration, Time};

use crate::engine::pool::Pool;
use crate::engine::scheduler::{Lane, NO_LANE, Source};
use crate::network::paths::Paths;

/// Drop reasons of frames in cells, in events and captures.
pub mod drop_reason {
    /// Bit errors on the radio.
    pub const AIR: &str = "air";
    /// Several stations sent at the same time.
    pub const COLLISION: &str = "collision";
    /// The frame arrived, but its link ACK was lost.
    pub const LINK_ACK: &str = "link ACK lost";
    /// The frame arrived when the reorder buffer of its receiver had stopped waiting for it.
    pub const REORDER_TIMEOUT: &str = "reorder timeout";
    /// The medium was busy at every carrier sense that the station was allowed, so it dropped the
    /// frame.
    pub const CONTENTION: &str = "contention";
}

/// No cell; the others have the numbers from 0 on.
pub(super) const NO_CELL: u32 = u32::MAX;

/// A cell and its event sources.
#[allow(
    clippy::field_scoped_visibility_modifiers,
    clippy::partial_pub_fields,
    reason = "the network reads the cell; its timing is private"
)]
pub struct CellHost {
    /// The medium and its stations.
    pub cell: AnyCell,
    pub(crate) source: Source,
    /// Its lane in the event queue.
    pub(crate) lane: Lane,
    /// Its next event as scheduled: time and trigger time.
    scheduled: (Time, Time),
    /// Frames in propagation: time of arrival, link and handle.
    in_transit: VecDeque<(Time, u32, Handle)>,
    delay: Duration,
    pub(crate) arrivals: Source,
}

impl CellHost {
    /// The cells of a network; their event sources are numbered from `first`.
    pub(crate) fn all(
        network: &Network,
        seed: u64,
        mss: u32,
        first: Source,
    ) -> Result<Vec<CellHost>, String> {
        let host = |(config, source): (&CellConfig, Source)| {
            let names: Vec<String> = config
                .stations
                .iter()
                .map(|s| network.nodes[usize::from(s.node)].name.clone())
                .collect();
            let cell = AnyCell::new(config, &names, seed, mss)?;
            let arrivals = source + network.cells.len() as Source;
            Ok(CellHost {
                cell,
                source,
                lane: NO_LANE,
                scheduled: (Time::NEVER, Time::ZERO),
                in_transit: VecDeque::new(),
                delay: config.mac.delay,
                arrivals,
            })
        };
        network.cells.iter().zip(first..).map(host).collect()
    }
}

/// Gives a cell access to the frames that it carries.
struct CellFrames<'a> {
    pool: &'a Pool,
    links: &'a [Link],
    hops: &'a [u32],
    paths: &'a Paths,
}

impl Headers for CellFrames<'_> {
    fn segment(&self, handle: Handle) -> &Segment {
        self.pool.get(handle)
    }

    fn options(&self, handle: Handle) -> Option<&Options> {
        Headers::options(self.pool, handle)
    }
}

impl Freight for CellFrames<'_> {
    fn receiver(&self, station: usize, handle: Handle) -> usize {
        let hop = self.hops.get(handle as usize).and_then(|&l| self.links[l as usize].place());
        // The receiver of a frame is the destination of the link on which it entered the cell.
        hop.map_or(station, |place| place.to as usize)
    }

    fn framing(&self, handle: Handle) -> Option<&AnyFraming> {
        let link = self.links.get(*self.hops.get(handle as usize)? as usize)?;
        self.paths.framing_of(link, self.pool.get(handle))
    }
}

/// Frames and bytes queued at a link, and whether a full-size frame would be dropped.
pub(crate) fn queue_of(
    link: &mut Link,
    cells: &[CellHost],
    now: Time,
    triggered_at: Time,
) -> (u64, u64, bool) {
    match link.place() {
        Some(place) => cells[place.cell as usize].cell.queue(place.from as usize),
        None => link.queue(now, triggered_at),
    }
}
