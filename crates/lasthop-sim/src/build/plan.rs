//! Chooses how each link is computed: at the entry of a frame, chained to the link before,
//! departure by departure, or as part of a cell. The result of a run does not depend on it, except
//! that an observer receives the events of each frame in order of time.

use std::cell::OnceCell;
use std::sync::Arc;

use lasthop::agent::Subscriptions;
use lasthop::link::Link;
use lasthop::scenario::network::Network;
use lasthop::segment::NodeId;

use super::link_plan::{Choice, LinkPlan, Mode, Plan, Route};
use super::{Builder, Options};
use crate::events::Observer;
use crate::network::Routes;
use crate::network::paths::{Watch, path};

/// By link: the links from which frames come, `None` for those that start where it begins.
type Feeders = Vec<Vec<Option<usize>>>;

#[allow(clippy::multiple_inherent_impl, reason = "one file for each part of a run")]
impl<R: Observer> Builder<'_, R> {
    /// Chooses how each link is computed, unless that is known, sets the routes and creates the
    /// event queue. The plan is empty if no reasons are wanted.
    pub(super) fn plan(&mut self, options: Options, same: &OnceCell<Choice>) -> Plan {
        let obstacle = self.obstacle(options);
        let evented: Vec<bool> = self.net.links.iter().map(Link::is_evented).collect();
        if obstacle.is_none() {
            self.precompute_retransmissions();
        }
        let chosen = same.get_or_init(|| self.choose(&evented, options, obstacle));
        self.net.set_routes(Arc::clone(&chosen.routes));
        self.set_up_receivers(&chosen.receivers);
        let mut busy = chosen.arrivals.clone();
        busy.retain(|&l| !self.net.is_computed_in_advance(l));
        let connections = self.hosts.connections.iter();
        let paced: Vec<_> =
            connections.filter(|c| c.sender().is_paced()).map(|c| c.timers()).collect();
        self.net.assign_lanes(self.sources.len(), busy, &paced);
        if !self.explains {
            return Plan::default();
        }
        let name = |node: NodeId| self.network.nodes[usize::from(node)].name.clone();
        let link = |((mode, why), link): (&(Mode, String), &Link)| LinkPlan {
            from: name(link.from),
            to: name(link.to),
            mode: *mode,
            why: why.clone(),
        };
        let links = chosen.modes.iter().zip(&self.net.links).map(link).collect();
        let receivers = chosen.receivers.clone();
        Plan { links, receivers, probes: self.net.probes.names() }
    }

    /// Chooses how links and receivers are computed. `evented`: by link, before retransmissions
    /// were precomputed.
    fn choose(&self, evented: &[bool], options: Options, obstacle: Option<&'static str>) -> Choice {
        let routes = self.routes();
        let feeders = feeders(self.network, &routes);
        let modes: Vec<_> = (0..evented.len())
            .map(|l| self.mode(l, &feeders[l], evented[l], options, obstacle))
            .collect();
        let receivers = self.plan_receivers(options, obstacle);
        let (routes, arrivals) = chained(self.network, &routes, &modes);
        Choice { modes, receivers, routes, arrivals }
    }

    /// Why nothing may be computed earlier than its time; `None` if it may.
    fn obstacle(&self, options: Options) -> Option<&'static str> {
        if R::ACTIVE {
            Some("an observer reads each event at its time")
        } else if options.evented {
            Some("an option makes all links evented")
        } else if !self.network.handovers.is_empty() {
            Some("a handover may hold frames at a node")
        } else {
            None
        }
    }

    /// Lets links compute all attempts of a frame in advance where no agent subscribes to attempts.
    fn precompute_retransmissions(&mut self) {
        for link in &mut self.net.links {
            if !self.net.paths.subscriptions(link.from).any(ATTEMPTS) {
                link.precompute_retransmissions();
            }
        }
    }

    /// The sources and destinations of all packets that may occur.
    fn routes(&self) -> Vec<Route> {
        let both_ways = |c: &crate::hosts::endpoint::Connection| {
            let (from, to) = c.ends();
            [(from, to), (to, from)]
        };
        let mut routes: Vec<Route> = self.hosts.connections.iter().flat_map(both_ways).collect();
        for flow in &self.hosts.flows {
            let Some((node, datagram)) = flow.datagram() else { continue };
            routes.push((node, datagram.to));
            routes.extend(flow.is_answered().then_some((datagram.to, node)));
        }
        routes.extend(self.routes_of_agents().map(|(_, route)| route));
        routes
    }

    /// The sources and destinations of packets that agents may send, with their connection.
    pub(super) fn routes_of_agents(&self) -> impl Iterator<Item = (usize, Route)> {
        self.net.paths.all().iter().enumerate().flat_map(|(c, path)| {
            let ends = [path.from, path.to].into_iter().chain(path.agents.iter().map(|w| w.node));
            let sending = path.agents.iter().filter(|w| self.may_send(w));
            sending
                .flat_map(move |w| {
                    ends.clone().map(|end| (w.node, end)).filter(|route| route.0 != route.1)
                })
                .map(move |route| (c, route))
        })
    }

    /// Returns false for an agent that sends only in response to incomplete frames, at a node where
    /// no link delivers fragments.
    fn may_send(&self, watch: &Watch) -> bool {
        watch.sees
            || watch.subscriptions != Subscriptions::INCOMPLETE
            || self.net.links.iter().any(|l| l.to == watch.node && l.cuts_frames())
    }

    /// How a link is computed, and why. `was_evented`: before retransmissions were precomputed.
    fn mode(
        &self,
        l: usize,
        feeders: &[Option<usize>],
        was_evented: bool,
        options: Options,
        obstacle: Option<&'static str>,
    ) -> (Mode, String) {
        let link = &self.net.links[l];
        if let Some(place) = link.place() {
            let cell = &self.network.cells[place.cell as usize].name;
            let why = || format!("the stations of the cell `{cell}` share one medium");
            return (Mode::Cell, self.reason(why));
        }
        if link.is_evented() {
            return (Mode::Evented, self.reason(|| self.why_evented(l, options, obstacle)));
        }
        let (mode, fate) = if was_evented {
            (Mode::ComputedAttempts, "it handles one frame at a time, at a constant rate")
        } else {
            (Mode::Computed, "its queue is DropTail")
        };
        match self.why_not_chained(l, feeders, obstacle) {
            None => {
                let why = || "all its frames come from one other link, in order".into();
                (Mode::Chained, self.reason(why))
            }
            Some(why) => (mode, self.reason(|| format!("{fate}; not chained: {why}"))),
        }
    }

    /// Why a link is evented.
    fn why_evented(&self, l: usize, options: Options, obstacle: Option<&str>) -> String {
        let link = &self.net.links[l];
        if options.evented {
            "an option makes all links evented".into()
        } else if link.is_managed() {
            "its queue discipline decides when a frame leaves".into()
        } else if link.is_impaired() {
            "it polices, duplicates or corrupts frames".into()
        } else if self.net.paths.subscriptions(link.from).any(ATTEMPTS) {
            format!("an agent at {} subscribes to single steps of its frames", self.name(link.from))
        } else {
            let why = obstacle.unwrap_or("it handles several frames at a time, or its rate varies");
            format!("its link layer retransmits frames; {why}")
        }
    }

    /// Why frames do not cross a computed link in the event that takes them over the link before;
    /// `None` if they do.
    fn why_not_chained(
        &self,
        l: usize,
        feeders: &[Option<usize>],
        obstacle: Option<&str>,
    ) -> Option<String> {
        let node = self.net.links[l].from;
        let name = self.name(node);
        let feeder = match feeders {
            [] => return Some(self.reason(|| "no packets use it".into())),
            [None] => return Some(self.reason(|| format!("its frames start at {name}"))),
            [Some(feeder)] => &self.net.links[*feeder],
            _ => return Some(self.reason(|| "its frames have several origins".into())),
        };
        if let Some(why) = obstacle {
            return Some(self.reason(|| why.into()));
        }
        if feeder.is_evented() {
            return Some(self.reason(|| "the link before is not computed".into()));
        }
        // The outcome of a frame on a chained link is computed before it happens, too early to
        // report it as a link event.
        let watches = |w: &Watch| w.sees || w.subscriptions.any(Subscriptions::SENDING);
        if self.watches().any(|w| w.node == node && watches(w)) {
            let why = || format!("an agent at {name} handles or watches its frames");
            return Some(self.reason(why));
        }
        let why = || "frames may overtake on the link before".into();
        (!feeder.in_order()).then(|| self.reason(why))
    }

    fn name(&self, node: NodeId) -> &str {
        &self.network.nodes[usize::from(node)].name
    }
}

/// Events of single attempts.
const ATTEMPTS: Subscriptions = Subscriptions::STEPS.with(Subscriptions::RETRIED);

/// The routes from each node towards each node, and the links at whose far end frames arrive as
/// events: a frame passes the chained links of a route without an event.
fn chained(network: &Network, routes: &[Route], modes: &[(Mode, String)]) -> (Routes, Vec<usize>) {
    let hops = network.next_hop.iter().flatten();
    let mut found: Vec<Box<[u32]>> = hops.map(|l| l.iter().copied().collect()).collect();
    let mut arrives = vec![false; modes.len()];
    for &(from, to) in routes {
        let links = path(network, from, to);
        for route in links.chunk_by(|_, &next| modes[next].0 == Mode::Chained) {
            let first = usize::from(network.links[route[0]].from);
            let place = first * network.nodes.len() + usize::from(to);
            found[place] = route.iter().map(|&l| l as u32).collect();
            arrives[route[route.len() - 1]] = true;
        }
    }
    (found.into(), (0..arrives.len()).filter(|&l| arrives[l]).collect())
}

/// By link: the links from which packets on these routes come.
fn feeders(network: &Network, routes: &[Route]) -> Feeders {
    let mut feeders: Feeders = vec![Vec::new(); network.links.len()];
    for &(from, to) in routes {
        let links = path(network, from, to);
        for (i, &l) in links.iter().enumerate() {
            let feeder = i.checked_sub(1).map(|i| links[i]);
            if !feeders[l].contains(&feeder) {
                feeders[l].push(feeder);
            }
        }
    }
    feeders
}
