//! A run as a pcapng capture: one interface per hop, and two for each agent (`NODE:in`,
//! `NODE:out`), or three if links report to it (`NODE:link`).
//!
//! A frame is captured where it arrives. A lost or dropped frame is captured too, with the reason
//! as its comment. The interface `NODE:in` has the segments shown to the agent, `NODE:out` those
//! that it forwards or sends, so that a replay of the first can be compared with the second.
//! `NODE:link` has the headers of the segments whose link events the agent gets, with the event as
//! comment, because a replay gives them to its agent. It is left out where each interface has a
//! file: a replay reads one.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4};

use lasthop::agent::{NodeView, Subscriptions};
use lasthop::queue::drop_reason;
use lasthop::random::Stream;
use lasthop::scenario::network::Network;
use lasthop::segment::{Flags, NodeId, Options, Segment};
use lasthop::units::Time;
use lasthop_wire::render::{render_with, window_scale_for};
use lasthop_wire::{
    CaptureWriter, Endpoints, ExactFields, Interface, LinkReport, Remark, Side, WriteError, parse,
};

use crate::events::{Event, Kind, Observer, ReportToAgent};
use crate::network::cells;

/// Writes a capture while the simulation runs.
pub struct Capture<W: Write> {
    /// The files: one with all interfaces, or one per interface.
    writers: Vec<CaptureWriter<W>>,
    per_interface: bool,
    /// Captured bytes of a packet; `None`: all.
    snaplen: Option<usize>,
    error: Option<WriteError>,
    /// Index of the interface of each one-way link.
    hop: Vec<usize>,
    /// Index of the first of the two interfaces of the agent at a node.
    agent: BTreeMap<NodeId, usize>,
    /// The interfaces with reports of links, by node and what its agent subscribes to.
    reports: Vec<(NodeId, Subscriptions, usize)>,
    nodes: Vec<String>,
    /// Names of the one-way links.
    names: Vec<String>,
    endpoints: BTreeMap<(bool, u32), Endpoints>,
    windows: Vec<(u32, u64)>,
    /// A segment shown to an agent. It is written later, since its comment depends on the verdict.
    shown: Option<(Time, usize, Segment, Options)>,
    /// Queue lengths and rates that the agent could read when it was shown the segment. A replay
    /// reads them from the comment.
    remark: Remark,
    /// The link events that this agent subscribes to.
    subscriptions: Subscriptions,
}

/// The address of a node in captures: 10.0.0.1 for the first one, and so on.
pub fn address(node: NodeId) -> Ipv4Addr {
    let [high, low] = (node + 1).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The name of a node.
fn node_name(network: &Network, node: NodeId) -> &str {
    &network.nodes[usize::from(node)].name
}

/// An interface for each pair of one-way links between two nodes, and that of each link.
fn hops(network: &Network) -> (Vec<Interface>, Vec<usize>) {
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut hop: Vec<usize> = Vec::new();
    for (l, link) in network.links.iter().enumerate() {
        let twin = network.links[..l]
            .iter()
            .position(|o| o.name == link.name && o.from == link.to && o.to == link.from);
        if let Some(twin) = twin {
            hop.push(hop[twin]);
            continue;
        }
        let [from, to] = [link.from, link.to].map(|node| node_name(network, node));
        let ends = format!("{from} ({}) and {to} ({})", address(link.from), address(link.to));
        hop.push(interfaces.len());
        interfaces
            .push(Interface::new(format!("{from}-{to}"), format!("{}: between {ends}", link.name)));
    }
    (interfaces, hop)
}

impl<W: Write> Capture<W> {
    /// A capture of a run of this network.
    ///
    /// # Errors
    ///
    /// [`WriteError`] if the header cannot be written.
    pub fn new(output: W, network: &Network) -> Result<Self, WriteError> {
        let (interfaces, mut capture) = Self::of(network);
        capture.writers.push(CaptureWriter::new(output, &interfaces)?);
        Ok(capture)
    }

    /// A capture with one file per interface, so that no file has a packet twice. `open` opens the
    /// file of the interface with the given name. At most `snaplen` bytes of a packet are captured.
    ///
    /// # Errors
    ///
    /// [`WriteError`] if a file cannot be opened or its header cannot be written.
    pub fn per_interface(
        network: &Network,
        snaplen: Option<u32>,
        mut open: impl FnMut(&str) -> std::io::Result<W>,
    ) -> Result<Self, WriteError> {
        let (interfaces, mut capture) = Self::of(network);
        capture.per_interface = true;
        capture.snaplen = snaplen.map(|n| n as usize);
        for interface in &interfaces {
            let output = open(&interface.name)?;
            let writer = CaptureWriter::with_snaplen(
                output,
                std::slice::from_ref(interface),
                snaplen.unwrap_or(0),
            )?;
            capture.writers.push(writer);
        }
        Ok(capture)
    }

    /// The interfaces of a network, and a capture without files.
    fn of(network: &Network) -> (Vec<Interface>, Self) {
        let name = |n: NodeId| node_name(network, n);
        let (mut interfaces, hop) = hops(network);
        let mut agent = BTreeMap::new();
        let roles: Vec<_> =
            network.flows.iter().flat_map(|f| f.scheme.scheme.agent_roles()).copied().collect();
        for (n, node) in
            network.nodes.iter().enumerate().filter(|(_, node)| roles.contains(&node.role))
        {
            agent.insert(n as NodeId, interfaces.len());
            interfaces.push(Interface::new(format!("{}:in", node.name), "what the agent is shown"));
            interfaces.push(Interface::new(
                format!("{}:out", node.name),
                "what the agent lets go on, or makes",
            ));
        }
        let windows =
            network.flows.iter().map(|f| (f.segment, f.receive_window.bytes(f.segment))).collect();
        let names =
            network.links.iter().map(|l| format!("{}>{}", name(l.from), name(l.to))).collect();
        let capture = Capture {
            writers: Vec::new(),
            per_interface: false,
            snaplen: None,
            error: None,
            hop,
            agent,
            reports: Vec::new(),
            nodes: network.nodes.iter().map(|node| node.name.clone()).collect(),
            names,
            endpoints: BTreeMap::new(),
            windows,
            shown: None,
            remark: Remark::default(),
            subscriptions: Subscriptions::NONE,
        };
        (interfaces, capture)
    }

    /// Completes the capture and returns the output of [`Self::new`].
    ///
    /// # Errors
    ///
    /// The first [`WriteError`] since the capture was created.
    pub fn finish(self) -> Result<W, WriteError> {
        self.finish_all()?.pop().ok_or(WriteError::NoInterface(0))
    }

    /// Completes the capture and returns its outputs.
    ///
    /// # Errors
    ///
    /// The first [`WriteError`] since the capture was created.
    pub fn finish_all(mut self) -> Result<Vec<W>, WriteError> {
        self.flush_shown(None);
        match self.error {
            Some(error) => Err(error),
            None => self.writers.into_iter().map(CaptureWriter::finish).collect(),
        }
    }

    fn write(
        &mut self,
        interface: usize,
        time: Time,
        segment: &Segment,
        options: &Options,
        comment: Option<&str>,
    ) {
        let Some(endpoints) =
            self.endpoints.get(&(segment.flags.has(Flags::DATAGRAM), segment.flow))
        else {
            return;
        };
        if self.error.is_some() {
            return;
        }
        let (file, place) = if self.per_interface { (interface, 0) } else { (0, interface) };
        if let Some(writer) = self.writers.get_mut(file) {
            let packet = render_with(segment, options, endpoints);
            let kept = &packet[..self.snaplen.unwrap_or(packet.len()).min(packet.len())];
            let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
            self.error = writer.write_cut(place, time, kept, length, comment).err();
        }
    }

    /// The interface for the reports to an agent. It is added with the agent's first segment.
    fn interface_of_reports(
        &mut self,
        node: NodeId,
        subscriptions: Subscriptions,
    ) -> Option<usize> {
        let of_agent = |r: &&(NodeId, Subscriptions, usize)| (r.0, r.1) == (node, subscriptions);
        if let Some(&(.., interface)) = self.reports.iter().find(of_agent) {
            return Some(interface);
        }
        let name = self.nodes.get(usize::from(node))?;
        let interface = Interface::new(format!("{name}:link"), LinkReport::describe(subscriptions));
        match self.writers.first_mut()?.add_interface(&interface) {
            Ok(number) => {
                self.reports.push((node, subscriptions, number));
                Some(number)
            }
            Err(error) => {
                self.error.get_or_insert(error);
                None
            }
        }
    }

    /// Writes the headers of a segment whose link event an agent gets. Agents do not get the
    /// options with the event.
    fn write_report(&mut self, report: &ReportToAgent<'_>) -> Option<()> {
        let endpoints = *self.endpoints.get(&(false, report.segment.flow))?;
        let interface = self.interface_of_reports(report.node, self.subscriptions)?;
        let flags = report.segment.flags.without(Flags::OPTIONS);
        let packet = render_with(&Segment { flags, ..*report.segment }, &Options::NONE, &endpoints);
        let headers = packet.len() - parse(&packet).map_or(0, |tcp| tcp.payload.len());
        let event = LinkReport { direction: report.direction, event: report.event };
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let mut comment = format!("{event}\n{}", self.remark);
        if let Some(exact) = ExactFields::of(report.segment, &endpoints, length) {
            comment += &format!("\n{exact}");
        }
        let writer = self.writers.first_mut()?;
        self.error = writer
            .write_cut(interface, report.t, packet.get(..headers)?, length, Some(&comment))
            .err();
        Some(())
    }

    fn flush_shown(&mut self, comment: Option<&str>) {
        if let Some((time, interface, segment, options)) = self.shown.take() {
            let remark = self.remark.to_string();
            let mut comment = comment.map_or(remark.clone(), |c| format!("{c}\n{remark}"));
            if self.subscriptions != Subscriptions::NONE
                && let Some(endpoints) = self.endpoints.get(&(false, segment.flow))
            {
                let length = render_with(&segment, &options, endpoints).len();
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                if let Some(exact) = ExactFields::of(&segment, endpoints, length) {
                    comment += &format!("\n{exact}");
                }
            }
            self.write(interface, time, &segment, &options, Some(&comment));
        }
    }

    /// Assigns addresses and initial sequence numbers when a connection is first seen.
    fn assign_endpoints(&mut self, event: &Event<'_>, segment: &Segment) {
        let key = (segment.flags.has(Flags::DATAGRAM), segment.flow);
        let (mss, window) =
            self.windows.get(event.flow as usize).copied().unwrap_or((1460, 65_535));
        // The server of a client is the flow's sender.
        let (server, other) =
            if segment.forward { (event.node, segment.to) } else { (segment.to, event.node) };
        self.endpoints.entry(key).or_insert_with(|| {
            let isn = Stream::new(u64::from(segment.flow), "initial sequence number");
            let port = |base: u16| base.wrapping_add(segment.flow as u16);
            let sender = Side {
                address: SocketAddrV4::new(address(server), port(10_000)),
                isn: isn.bits(0) as u32,
                window_scale: 0,
            };
            let receiver = Side {
                address: SocketAddrV4::new(address(other), port(5_001)),
                isn: isn.bits(1) as u32,
                window_scale: window_scale_for(window),
            };
            Endpoints { sender, receiver, mss: u16::try_from(mss).unwrap_or(u16::MAX) }
        });
    }
}

impl<W: Write> Observer for Capture<W> {
    fn on_node_view(&mut self, node_view: &dyn NodeView, subscriptions: Subscriptions) {
        self.flush_shown(None);
        self.subscriptions = if self.per_interface {
            Subscriptions::NONE
        } else {
            subscriptions.without(Subscriptions::CHANGES)
        };
        self.remark = Remark::of(node_view);
    }

    fn on_link_report(&mut self, report: &ReportToAgent<'_>) {
        if !self.per_interface && self.error.is_none() {
            self.write_report(report);
        }
    }

    fn on_event(&mut self, event: &Event<'_>) {
        let (Some(segment), options) = (event.segment, event.options) else { return };
        let agent = self.agent.get(&event.node).copied();
        match (event.kind, event.link, agent) {
            (Kind::DataSent | Kind::RequestSent, ..) => self.assign_endpoints(event, segment),
            (Kind::Arrived, Some(l), _) => {
                self.write(self.hop[l as usize], event.t, segment, options, None)
            }
            (
                Kind::LostOnAir | Kind::DroppedAtQueue | Kind::Filtered | Kind::Corrupted,
                Some(l),
                _,
            ) => {
                let name = &self.names[l as usize];
                let comment = match (event.kind, event.reason) {
                    (Kind::LostOnAir, cells::drop_reason::COLLISION) => {
                        format!("lost in a collision on the air of {name}")
                    }
                    (Kind::Corrupted, _) => format!("arrived over {name} with bit errors"),
                    (Kind::LostOnAir, _) => format!("lost on the air of {name}"),
                    (Kind::Filtered, _) => format!("removed by the ACK filter of {name}"),
                    (_, drop_reason::FULL) => format!("refused by the queue of {name}"),
                    (_, reason) => format!("dropped by the queue of {name}: {reason}"),
                };
                self.write(self.hop[l as usize], event.t, segment, options, Some(&comment));
            }
            (Kind::AgentIn, _, Some(i)) => {
                self.flush_shown(None);
                if self.subscriptions != Subscriptions::NONE && self.error.is_none() {
                    self.interface_of_reports(event.node, self.subscriptions);
                }
                self.shown = Some((event.t, i, *segment, *options));
            }
            (Kind::AgentDropped, ..) => {
                self.flush_shown(Some(&format!("dropped by the agent: {}", event.reason)))
            }
            (Kind::AgentForwarded, _, Some(i)) => {
                self.flush_shown(None);
                self.write(i + 1, event.t, segment, options, None);
            }
            (Kind::AgentInjected, _, Some(i)) => {
                self.flush_shown(None);
                self.write(i + 1, event.t, segment, options, Some("made by the agent"));
            }
            (Kind::NoticeSent, _, Some(i)) => {
                self.flush_shown(None);
                self.write(
                    i + 1,
                    event.t,
                    segment,
                    options,
                    Some(&format!("notice: {}", event.reason)),
                );
            }
            _ => {}
        }
    }
}
