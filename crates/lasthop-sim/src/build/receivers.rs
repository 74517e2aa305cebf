//! Chooses which receivers are computed in advance ([`crate::hosts`]): where nothing can come
//! between the sending of a data segment, its arrival and the ACK that it causes.

use lasthop::scenario::network::App;
use lasthop::segment::Flags;
use lasthop::units::Time;

use super::link_plan::ReceiverPlan;
use super::{Builder, Options};
use crate::events::Observer;
use crate::hosts::advance::FastConnection;
use crate::network::paths::path;

/// What a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Data of a connection, and whether the link is the last one of their path.
    Data(usize, bool),
    /// ACKs of a connection, and whether the link is the first one of their path.
    Acks(usize, bool),
    /// Other packets.
    Other,
}

/// What all frames of a link have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carries {
    /// Data on the last link of their path, for ends without an obstacle.
    LastData,
    /// ACKs on the first link of their path, from such ends behind this link of the data.
    FirstAcks(usize),
    /// Nothing of that.
    Other,
}

impl Carries {
    /// Of a link with these uses. `own`: the obstacles at the ends of all connections.
    fn of(
        uses: &[Use],
        paths: &[(Vec<usize>, Vec<usize>)],
        own: &[Option<&'static str>],
    ) -> Carries {
        let of_use = |u: &Use| match *u {
            Use::Data(c, true) if own[c].is_none() => Carries::LastData,
            Use::Acks(c, true) if own[c].is_none() => {
                paths[c].0.last().map_or(Carries::Other, |&last| Carries::FirstAcks(last))
            }
            _ => Carries::Other,
        };
        let first = uses.first().map_or(Carries::Other, of_use);
        if uses.iter().all(|u| of_use(u) == first) { first } else { Carries::Other }
    }
}

#[allow(clippy::multiple_inherent_impl, reason = "one file for each part of a run")]
impl<R: Observer> Builder<'_, R> {
    /// Chooses the receivers that are computed in advance. `obstacle`: why nothing may be computed
    /// earlier than its time.
    pub(super) fn plan_receivers(
        &self,
        options: Options,
        obstacle: Option<&'static str>,
    ) -> Vec<ReceiverPlan> {
        let obstacle = obstacle.or_else(|| self.obstacle_for_receivers(options));
        let paths: Vec<(Vec<usize>, Vec<usize>)> = self
            .hosts
            .connections
            .iter()
            .map(|c| {
                let (from, to) = c.ends();
                (path(self.network, from, to), path(self.network, to, from))
            })
            .collect();
        let uses = self.uses(&paths);
        let own: Vec<Option<&'static str>> =
            (0..paths.len()).map(|c| obstacle.or_else(|| self.obstacle_at_ends(c))).collect();
        let carries: Vec<Carries> =
            uses.iter().map(|uses| Carries::of(uses, &paths, &own)).collect();
        let isolated: Vec<Option<String>> = (0..paths.len())
            .map(|c| match own[c] {
                Some(why) => Some(self.reason(|| why.into())),
                None => self.why_not_isolated(c, &paths, &carries),
            })
            .collect();
        // If one receiver behind a last link waits for events, the others there have to.
        let all_of_link = |last: usize| {
            let behind = uses[last].iter().filter_map(|u| match u {
                Use::Data(c, _) => Some(*c),
                _ => None,
            });
            behind.filter_map(|c| isolated[c].as_ref()).next()
        };
        let all_of_link: Vec<Option<&String>> = (0..uses.len()).map(all_of_link).collect();
        let mut plans = Vec::new();
        for (c, (data, _)) in paths.iter().enumerate() {
            let last = data.last().copied();
            let why_not = isolated[c].as_ref().or_else(|| last.and_then(|l| all_of_link[l]));
            let flow = self.hosts.connections[c].flow() as usize;
            plans.push(ReceiverPlan {
                flow: self.reason(|| self.network.flows[flow].name.clone()),
                in_advance: why_not.is_none(),
                why: self.reason(|| {
                    let isolated = "nothing comes between a segment, its arrival and its ACK";
                    why_not.cloned().unwrap_or_else(|| isolated.into())
                }),
            });
        }
        plans
    }

    /// Sets up the receivers that are computed in advance, once the routes are known.
    pub(super) fn set_up_receivers(&mut self, plans: &[ReceiverPlan]) {
        for (c, _) in plans.iter().enumerate().filter(|(_, plan)| plan.in_advance) {
            let (from, to) = self.hosts.connections[c].ends();
            if let Some(&last) = path(self.network, from, to).last() {
                let source = self.net.arrival_source(last);
                let fast = self.fast_connection(c);
                let connection = &mut self.hosts.connections[c];
                connection.compute_receiver_in_advance((last as u32, source), fast);
                self.net.compute_in_advance(last);
                self.add_agent_path(c);
            }
        }
    }

    /// Adds the path of a connection's data by way of the only agent that sees them, if there is
    /// one between its ends.
    fn add_agent_path(&mut self, c: usize) {
        let path = &self.net.paths.all()[c];
        let ends = (path.from, path.to);
        let mut watches = path.agents.iter().filter(|w| w.sees);
        if let (Some(&watch), None) = (watches.next(), watches.next())
            && watch.node != ends.0
            && watch.node != ends.1
        {
            self.net.add_agent_path(c as u32, ends, watch);
        }
    }

    /// The fast path of a connection, if it may use one. The bytes of an endless flow count as
    /// written when they are sent, and its transfer is never complete.
    fn fast_connection(&mut self, c: usize) -> Option<FastConnection> {
        let connection = &self.hosts.connections[c];
        let endless = self.hosts.flows[connection.flow() as usize].is_endless();
        let (from, to) = connection.ends();
        let path = endless.then(|| self.net.add_fast_path(from, to))??;
        let connection = &self.hosts.connections[c];
        let receiver = connection.receiver();
        let (sender, stamped) = (connection.sender(), Flags::ACK.with(Flags::TIMESTAMPS));
        Some(FastConnection {
            path,
            sender: from,
            ack_size: receiver.plain_ack_size(),
            len: connection.mss(),
            size: sender.full_size(),
            flags: if sender.has_timestamps() { stamped } else { Flags::ACK },
            last: Time::ZERO,
        })
    }

    /// Why no receiver of the network may be computed in advance; `None` if some may.
    fn obstacle_for_receivers(&self, options: Options) -> Option<&'static str> {
        if options.receivers_by_event {
            Some("an option makes each arrival an event")
        } else if !self.hosts.oracles.is_empty() {
            Some("an oracle reads queues as of now")
        } else if !self.hosts.sessions.is_empty() {
            Some("a web session waits for its pages")
        } else if self.net.has_bit_errors() {
            Some("bit errors are drawn on arrival")
        } else {
            None
        }
    }

    /// Why the ends of a connection do not allow that its receiver is computed in advance.
    fn obstacle_at_ends(&self, c: usize) -> Option<&'static str> {
        let connection = &self.hosts.connections[c];
        let flow = connection.flow() as usize;
        let app = &self.network.flows[flow].app;
        // What is aborted unless it is complete must not be complete before its time.
        let stops = matches!(app, App::Transfer { .. }) && self.network.flows[flow].stop.is_some();
        let (to, agents) = (connection.ends().1, &self.net.paths.all()[c].agents);
        if self.hosts.flows[flow].relay().is_some() {
            Some("a relay reads what arrives")
        } else if self.watches().any(|w| w.node == to) {
            Some("an agent at its node reads queues and link events as of now")
        } else if agents.iter().any(|w| self.hosts.agents.sends_acks(w.agent as usize)) {
            Some("an agent sends ACKs, whose numbers show in which order packets are sent")
        } else if connection.receiver().opens_actively() {
            Some("it opens the connection")
        } else if connection.receiver().is_read_manually() {
            Some("its application does not read at once")
        } else if app.waits_for_delivery() || stops {
            Some("its application acts on arrivals")
        } else if connection.receiver().has_rule() {
            Some("the receiver has a part of the scheme")
        } else if connection.sender().classifies() {
            Some("its scheme classifies losses, which is compared with the state at that time")
        } else if connection.sender().offloads() {
            Some("frames of several segments may be retransmitted in parts")
        } else {
            None
        }
    }

    /// Why frames other than its own may come between at the last link of a connection's data or at
    /// the first link of its ACKs; `None` if none can. `carries`: what each link carries.
    fn why_not_isolated(
        &self,
        c: usize,
        paths: &[(Vec<usize>, Vec<usize>)],
        carries: &[Carries],
    ) -> Option<String> {
        let (Some(&last), Some(&first)) = (paths[c].0.last(), paths[c].1.first()) else {
            return Some(self.reason(|| "both ends are at one node".into()));
        };
        let name = |l: usize| {
            let name = |n: u16| self.network.nodes[usize::from(n)].name.clone();
            format!("{}>{}", name(self.net.links[l].from), name(self.net.links[l].to))
        };
        for l in [last, first] {
            let link = &self.net.links[l];
            if link.is_evented() || link.place().is_some() {
                return Some(self.reason(|| format!("link {} is not computed", name(l))));
            }
        }
        if !self.net.links[last].in_order() {
            return Some(self.reason(|| format!("frames may overtake on link {}", name(last))));
        }
        if carries[last] != Carries::LastData {
            return Some(self.reason(|| format!("link {} carries other frames", name(last))));
        }
        if carries[first] != Carries::FirstAcks(last) {
            return Some(self.reason(|| format!("link {} carries other frames", name(first))));
        }
        None
    }

    /// By link: what it carries.
    fn uses(&self, paths: &[(Vec<usize>, Vec<usize>)]) -> Vec<Vec<Use>> {
        let mut uses = vec![Vec::new(); self.net.links.len()];
        for (c, (data, acks)) in paths.iter().enumerate() {
            for (i, &l) in data.iter().enumerate() {
                uses[l].push(Use::Data(c, i + 1 == data.len()));
            }
            for (i, &l) in acks.iter().enumerate() {
                uses[l].push(Use::Acks(c, i == 0));
            }
        }
        for flow in &self.hosts.flows {
            let Some((node, datagram)) = flow.datagram() else { continue };
            for (from, to) in [(node, datagram.to), (datagram.to, node)] {
                path(self.network, from, to).into_iter().for_each(|l| uses[l].push(Use::Other));
            }
        }
        for (c, (from, to)) in self.routes_of_agents() {
            let (data, acks) = &paths[c];
            for l in path(self.network, from, to) {
                uses[l].push(if to == self.hosts.connections[c].ends().1 && data.contains(&l) {
                    Use::Data(c, data.last() == Some(&l))
                } else if acks.contains(&l) {
                    Use::Acks(c, false)
                } else {
                    Use::Other
                });
            }
        }
        uses
    }
}
