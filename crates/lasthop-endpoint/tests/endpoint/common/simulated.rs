//! What the simulated ends of a link send and receive, for tests that compare real packets with
//! them; `lasthop-live` uses it too.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lasthop::role::Role;
use lasthop::scenario::network::Network;
use lasthop::scenario::{Files, Overrides, load};
use lasthop::segment::{Options, Segment};
use lasthop::units::{Duration, Time};
use lasthop_sim::RunResult;
use lasthop_sim::events::{Event, Kind, Observer};

/// What enters and what leaves at the ends of a simulation; `E` names an end.
pub struct Ends<E> {
    /// Server and mobile.
    names: [(u16, E); 2],
    pub entries: Vec<(Time, E, Segment)>,
    pub exits: Vec<(Time, E, Segment)>,
    options: HashMap<u64, Options>,
}

impl<E> Ends<E> {
    pub fn options(&self, segment: &Segment) -> Options {
        self.options.get(&segment.id).copied().unwrap_or_default()
    }
}

impl<E: Copy> Observer for Ends<E> {
    fn on_event(&mut self, e: &Event<'_>) {
        let Some(segment) = e.segment else { return };
        let end = self.names.iter().find(|(node, _)| *node == e.node).map(|(_, end)| *end);
        match (e.kind, end) {
            (Kind::Enqueued, Some(end)) => self.entries.push((e.t, end, *segment)),
            (Kind::Arrived, Some(end)) => self.exits.push((e.t, end, *segment)),
            _ => {}
        }
        // Events of what is enqueued do not have them.
        let has_options = [Kind::Arrived, Kind::LostOnAir, Kind::DroppedAtQueue, Kind::Filtered];
        if has_options.contains(&e.kind) {
            self.options.entry(segment.id).or_insert(*e.options);
        }
    }
}

pub struct Disk;

impl Files for Disk {
    fn open(&self, path: &Path) -> std::io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }
}

/// A network from the text of a scenario file. Receivers answer at once, as a live link adds
/// nothing for them.
pub fn network(text: &str) -> Network {
    let loaded = load(text, None, &Overrides::default(), &Disk).unwrap_or_else(|e| panic!("{e}"));
    let mut network = loaded.network;
    network.flows.iter_mut().for_each(|f| f.profile.processing_time = Duration::ZERO);
    network
}

/// A run; `server` and `mobile` name its ends.
pub fn simulate<E: Copy + 'static>(
    network: &Network,
    seed: u64,
    [server, mobile]: [E; 2],
) -> (Ends<E>, RunResult) {
    let node = |role: Role| network.nodes.iter().position(|n| n.role == role).unwrap() as u16;
    let names = [(node(Role::Server), server), (node(Role::Station), mobile)];
    let mut ends = Ends { names, entries: Vec::new(), exits: Vec::new(), options: HashMap::new() };
    let result =
        lasthop_sim::run(network, seed, &mut ends, &AtomicBool::new(false)).expect("a run");
    (ends, result)
}
