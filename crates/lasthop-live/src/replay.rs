//! Replay: runs an agent on the packets of a capture.
//!
//! The agent receives the packets at their capture times, and its timers fire between them. Packets
//! that it forwards, changes or generates are written with the time of that decision. The endpoints
//! are recordings: they do not react.
//!
//! Queue lengths and link rates come from the [`Remark`] on the last packet or report passed to the
//! agent. Only simulated captures have remarks; in captures of a real network queues are empty and
//! rates unknown. So it is with the reports of the link ([`LinkReport`]), which a simulated capture
//! has on an interface beside that of the packets if its agent subscribed to them. A timer that
//! expires at the time of a packet fires before it. Timers fire until the time of the last packet
//! of the capture on any interface.
//!
//! Packets inside tunnels are shown to the agent without their outer headers. The outer headers of
//! a packet stay, also if the agent changes it: its length stays, and its checksum makes up for the
//! change, so that outer checksums stay right too (RFC 1624). A packet that the agent makes gets
//! the outer headers that the last packet of its connection in its direction had.

use std::io::{Read, Write};
use std::net::SocketAddr;

use lasthop::agent::{Agent, Subscriptions};
use lasthop::schemes::catalogue::{AnyAgent, Scheme, SchemeChoice, all};
use lasthop::segment::{Direction, Flags, Segment};
use lasthop::units::{Quantity, Size, Time};
use lasthop_wire::{
    CaptureWriter, Encapsulation, ExactFields, Interface, LinkReport, NotTcp, Packet, ReadError,
    Remark, TcpPacket, WriteError, innermost, parse,
};
use thiserror::Error;

use crate::flows::{Flows, NoFrame, Seen, SuperSegment};
use crate::prefix::Prefix;
use crate::recording::{ChoiceError, Record, Recording};
use crate::stand::{Reason, Sent, Shown, Stand};
use crate::summary::{NOTE, Summary, count};
use notes::NotShown;

mod notes;

/// Options of a replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The mobile's address or prefix: packets to it are downlink, packets from it uplink.
    pub mobile: Prefix,
    /// The scheme whose agent runs at the base station.
    pub scheme: SchemeChoice,
    /// The interface of the capture to replay. By default the one whose name ends in ":in", or the
    /// only one with packets.
    pub interface: Option<String>,
}

/// Why a capture cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The input is not a valid capture.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The interface to replay cannot be chosen.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The scheme changes only the end hosts, or splits the connection.
    #[error(
        "scheme `{0}` has no agent at the base station that can replay packets; schemes with \
         such an agent: {1}"
    )]
    NoAgent(String, String),
    /// The agent needs the link layer's reports, which the capture does not have.
    #[error(
        "scheme `{0}` needs the link layer to report when packets leave the queue or have arrived, \
         which the capture does not contain: it has packets on their way into the queue, and one \
         of the mobile's side those that arrived, by another clock and without the time in the \
         queue; a capture of `lasthop run --scheme {0} --pcap` contains the reports, and \
         `lasthop link` makes them"
    )]
    NeedsReports(String),
    /// The agent needs reports of the link layer that the recorded agent did not subscribe to; the
    /// scheme, and the names of the link events.
    #[error(
        "scheme `{0}` needs the link layer to report these events: {1}; the capture contains \
         reports of others only, because the scheme that it was written with needs no more; a \
         capture of `lasthop run --scheme {0} --pcap` contains them"
    )]
    MissingReports(String, String),
    /// The capture contains packets merged by segmentation offload.
    #[error(transparent)]
    SuperSegment(#[from] SuperSegment),
}

/// Runs the scheme's agent on the packets of `input` and writes its output to the capture `output`,
/// with the same link type as the input.
///
/// # Errors
///
/// [`ReplayError`] if the scheme has no agent, the interface cannot be chosen, a packet was merged
/// by segmentation offload, or the captures cannot be read or written.
///
/// # Examples
///
/// ```
/// use lasthop::schemes::catalogue::SchemeChoice;
/// use lasthop_live::{ReplayError, ReplayOptions, replay};
///
/// // Eifel changes the sender only: there is no agent to replay.
/// let options = ReplayOptions {
///     mobile: "192.0.2.7".parse().unwrap(),
///     scheme: SchemeChoice::parse("eifel").unwrap(),
///     interface: None,
/// };
/// let error = replay(&[][..], Vec::new(), &options).unwrap_err();
/// assert!(matches!(error, ReplayError::NoAgent(..)), "{error}");
/// ```
pub fn replay(
    input: impl Read,
    output: impl Write,
    options: &ReplayOptions,
) -> Result<Summary, ReplayError> {
    let Some(agent) = agent_of(&options.scheme.scheme) else {
        let known: Vec<String> = all()
            .iter()
            .filter(|s| agent_of(s).is_some() && !s.needs_link_reports())
            .map(|s| s.name().to_string())
            .collect();
        return Err(ReplayError::NoAgent(
            options.scheme.scheme.name().to_string(),
            known.join(", "),
        ));
    };
    let recording = Recording::read(input)?;
    let name = recording.choose(options.interface.as_deref())?;
    if options.scheme.scheme.needs_link_reports() {
        let scheme = options.scheme.scheme.name().to_string();
        let reported =
            recording.reported(&name).ok_or(ReplayError::NeedsReports(scheme.clone()))?;
        let missing = agent.subscribes().without(reported);
        let named = Subscriptions::BY_NAME.iter().filter(|(_, event)| missing.any(*event));
        let names: Vec<&str> = named.map(|(name, _)| *name).collect();
        if !names.is_empty() {
            return Err(ReplayError::MissingReports(scheme, names.join(", ")));
        }
    }
    let output = Output::new(output, &recording.interfaces, &name, &options.scheme.label)?;
    Replay::new(&recording, agent, output, options, name).run()
}

/// The agent of a scheme. Agents of split schemes are excluded: they need their relay.
fn agent_of(scheme: &Scheme) -> Option<AnyAgent> {
    scheme.agent().filter(|_| scheme.relay().is_none())
}

/// What was not given: settings of the scheme that bound a flow's throughput, and the interface.
fn assumed(options: &ReplayOptions, interface: &str) -> Vec<String> {
    let scheme = &options.scheme.scheme;
    let settings = scheme.bounds().into_iter().filter(|bound| !bound.given).map(|bound| {
        let value = match bound.value {
            Size::Segments(n) => format!("{n} segments"),
            bytes => bytes.text(),
        };
        format!("{} {} {value}: none is given", scheme.name(), bound.setting)
    });
    let chosen = options.interface.is_none() && !interface.is_empty();
    settings.chain(chosen.then(|| format!("interface {interface}: none is given"))).collect()
}

/// The output capture, with one interface for each replayed one.
struct Output<W: Write> {
    writer: CaptureWriter<W>,
    /// Output interface of each input interface; `None` if it is not replayed.
    numbers: Vec<Option<usize>>,
}

impl<W: Write> Output<W> {
    fn new(output: W, inputs: &[Interface], name: &str, label: &str) -> Result<Self, WriteError> {
        let chosen: Vec<&Interface> = inputs.iter().filter(|i| i.name == name).collect();
        let stem = name.strip_suffix(":in").unwrap_or(name);
        let outputs: Vec<Interface> = chosen
            .iter()
            .map(|i| Interface {
                name: format!("{stem}:out"),
                description: format!("output of {label} (lasthop replay)"),
                link_type: i.link_type,
            })
            .collect();
        let mut next = 0..;
        let numbers =
            inputs.iter().map(|i| if i.name == name { next.next() } else { None }).collect();
        Ok(Output { writer: CaptureWriter::new(output, &outputs)?, numbers })
    }

    fn number(&self, packet: &Packet) -> Option<usize> {
        self.numbers.get(packet.interface).copied().flatten()
    }
}

/// A captured packet that the agent was shown.
#[derive(Clone, Copy)]
struct Captured<'a> {
    packet: &'a Packet,
    /// Index of the output interface.
    interface: usize,
    /// Offset of the innermost IP header in the frame, bytes.
    ip_at: usize,
}

/// The TCP packet in a captured one.
struct Inner<'a> {
    /// The bytes before its IP header, and which headers they are.
    prefix: &'a [u8],
    encapsulation: Encapsulation,
    tcp: TcpPacket<'a>,
}

/// Why a packet is not passed to the agent.
enum Skip {
    /// The packet is forwarded untouched, for this reason.
    Untouched(&'static str),
    /// The same, and a header hides what is inside.
    Opaque(&'static str),
    Refused(SuperSegment),
}

impl From<SuperSegment> for Skip {
    fn from(s: SuperSegment) -> Skip {
        Skip::Refused(s)
    }
}

impl From<NotTcp> for Skip {
    fn from(e: NotTcp) -> Skip {
        match e {
            NotTcp::Opaque(name) => Skip::Opaque(name),
            e => Skip::Untouched(e.reason()),
        }
    }
}

struct Replay<'a, W: Write> {
    recording: &'a Recording,
    mobile: Prefix,
    stand: Stand<Captured<'a>>,
    sent: Vec<Sent<Captured<'a>>>,
    output: Output<W>,
    flows: Flows,
    /// Whether each interface has reports of links to the replayed agent.
    has_reports: Vec<bool>,
    node_view: Remark,
    summary: Summary,
    not_shown: NotShown,
}

impl<'a, W: Write> Replay<'a, W> {
    fn new(
        recording: &'a Recording,
        agent: AnyAgent,
        output: Output<W>,
        options: &ReplayOptions,
        interface: String,
    ) -> Self {
        let has_reports = recording.interfaces_with_reports(&interface);
        let summary = Summary {
            lasthop: env!("CARGO_PKG_VERSION"),
            scheme: options.scheme.label.clone(),
            assumed: assumed(options, &interface),
            interface,
            mobile: options.mobile.to_string(),
            notes: vec![NOTE.into()],
            ..Summary::default()
        };
        Replay {
            recording,
            mobile: options.mobile,
            stand: Stand::new(agent),
            sent: Vec::new(),
            output,
            flows: Flows::default(),
            has_reports,
            node_view: Remark::default(),
            summary,
            not_shown: NotShown::default(),
        }
    }

    fn run(mut self) -> Result<Summary, ReplayError> {
        let recording = self.recording;
        for record in &recording.records {
            match self.output.number(&record.packet) {
                Some(interface) => {
                    self.fire_until(record.packet.time)?;
                    self.packet(record, interface)?;
                }
                None if self.has_reports.get(record.packet.interface) == Some(&true) => {
                    self.fire_until(record.packet.time)?;
                    self.link_report(record)?;
                }
                None => self.summary.other_interfaces += 1,
            }
        }
        self.fire_until(recording.end())?;
        self.output.writer.finish()?;
        let mut summary = self.summary;
        summary.flows = self.flows.seen();
        summary.flows_evicted = self.flows.evicted();
        summary.agent = self.stand.counters();
        let decisions = self.stand.decisions();
        summary.forwarded = decisions.forwarded;
        summary.rewritten = decisions.rewritten;
        summary.kept = decisions.kept;
        summary.dropped = decisions.dropped.clone();
        // A recording has no receiver for link-layer notices.
        summary.not_injected += decisions.notices + decisions.missing;
        self.not_shown.add_notes(&mut summary, &recording.interfaces);
        Ok(summary)
    }

    fn packet(&mut self, record: &'a Record, interface: usize) -> Result<(), ReplayError> {
        let packet = &record.packet;
        self.summary.packets += 1;
        let reason = match self.read_agent_packet(record, interface) {
            Ok(input) => return self.pass_to_agent(input),
            Err(Skip::Refused(s)) => return Err(s.into()),
            Err(Skip::Untouched(reason)) => reason,
            Err(Skip::Opaque(name)) => {
                count(&mut self.not_shown.opaque, name);
                name
            }
        };
        count(&mut self.summary.untouched, reason);
        let comment = packet.comment.as_deref();
        self.write(interface, packet.time, &packet.data, packet.original_len, comment)
    }

    /// Parses a packet for the agent.
    fn read_agent_packet(
        &mut self,
        record: &'a Record,
        interface: usize,
    ) -> Result<Shown<Captured<'a>>, Skip> {
        let packet = &record.packet;
        let Inner { prefix, encapsulation, tcp } = self.inner(packet)?;
        let ip_at = prefix.len();
        let direction = self.direction(&tcp)?;
        let seen = Seen {
            number: record.number,
            time: packet.time,
            direction,
            interface,
            prefix,
            encapsulation: &encapsulation,
        };
        let mut segment = self.flows.segment(&seen, &tcp)?;
        let (named, options) =
            tcp.segment_options(segment.ack, self.flows.mss(segment.flow, direction));
        segment.flags = segment.flags.with(named);
        if let Some(exact) = packet.comment.as_deref().and_then(ExactFields::read) {
            segment = self.restored(exact, segment, &tcp, direction);
        }
        self.summary.tcp += 1;
        self.not_shown.tunnelled += u64::from(encapsulation.is_tunnel());
        let names = encapsulation.names();
        if !names.is_empty() {
            *self.summary.encapsulations.entry(names).or_default() += 1;
        }
        self.summary.cut_short += u64::from(tcp.payload.len() < tcp.payload_len as usize);
        let packet = Captured { packet, interface, ip_at };
        Ok(Shown { packet, direction, segment, options })
    }

    /// The TCP packet in a captured one, inside of tunnels.
    fn inner(&self, packet: &'a Packet) -> Result<Inner<'a>, NotTcp> {
        let described = self.recording.interfaces.get(packet.interface);
        let link_type = described.ok_or(NotTcp::NotIp)?.link_type;
        let found = innermost(link_type, &packet.data)?;
        let inside = packet.data.get(..found.end).unwrap_or(&packet.data);
        let (prefix, ip) = inside.split_at_checked(found.ip_at).ok_or(NotTcp::CutShort)?;
        Ok(Inner { prefix, encapsulation: found.encapsulation, tcp: parse(ip)? })
    }

    /// The direction of a packet, if one of its ends is the mobile.
    fn direction(&mut self, tcp: &TcpPacket<'_>) -> Result<Direction, Skip> {
        let mobile = |end: SocketAddr| self.mobile.contains(end.ip());
        match (mobile(tcp.addressing.source), mobile(tcp.addressing.destination)) {
            (false, true) => Ok(Direction::Downlink),
            (true, false) => Ok(Direction::Uplink),
            (true, true) => Err(Skip::Untouched("between mobiles")),
            (false, false) => {
                self.not_shown.note_addresses(&tcp.addressing);
                Err(Skip::Untouched("not the mobile's"))
            }
        }
    }

    /// A segment with the exact size and window. The window must be one that its field stands for:
    /// without the SYN the scale is unknown, and the other windows are not exact.
    fn restored(
        &self,
        exact: ExactFields,
        segment: Segment,
        tcp: &TcpPacket<'_>,
        direction: Direction,
    ) -> Segment {
        let field = self
            .flows
            .numbering(segment.flow, direction)
            .map(|n| n.window_field(exact.window, segment.flags.has(Flags::SYN)));
        let window = if field == Some(tcp.window) { exact.window } else { segment.window };
        Segment { size: exact.size, window, ..segment }
    }

    /// Passes a recorded report of a link to the agent, if it subscribes to it and the packet is
    /// one of the mobile's.
    fn link_report(&mut self, record: &'a Record) -> Result<(), ReplayError> {
        let packet = &record.packet;
        let comment = packet.comment.as_deref().unwrap_or_default();
        let report = LinkReport::read(comment)
            .filter(|r| self.stand.subscriptions().any(r.event.subscription()));
        let (Some(report), Ok(inner)) = (report, self.inner(packet)) else { return Ok(()) };
        let Inner { prefix, encapsulation, tcp } = inner;
        let is_of = |d: &Direction| *d == report.direction;
        let Some(direction) = self.direction(&tcp).ok().filter(is_of) else { return Ok(()) };
        let seen = Seen {
            number: record.number,
            time: packet.time,
            direction,
            interface: 0,
            prefix,
            encapsulation: &encapsulation,
        };
        let mut segment = self.flows.segment(&seen, &tcp)?;
        let mss = self.flows.mss(segment.flow, direction);
        segment.flags = segment.flags.with(tcp.segment_options(segment.ack, mss).0);
        if let Some(exact) = ExactFields::read(comment) {
            segment = self.restored(exact, segment, &tcp, direction);
        }
        self.summary.link_reports += 1;
        self.node_view = Remark::read(comment).unwrap_or_default();
        let told = (direction, report.event, &segment);
        self.stand.on_link_event(packet.time, &self.node_view, told, &mut self.sent);
        self.write_sent(packet.time)
    }

    fn pass_to_agent(&mut self, input: Shown<Captured<'a>>) -> Result<(), ReplayError> {
        let packet = input.packet.packet;
        self.node_view = packet.comment.as_deref().and_then(Remark::read).unwrap_or_default();
        self.stand.on_segment(packet.time, &self.node_view, input, &mut self.sent);
        self.write_sent(packet.time)
    }

    /// Writes what the agent has sent at this time: the original bytes with the fields that it has
    /// changed, or the frames that it has made.
    fn write_sent(&mut self, now: Time) -> Result<(), ReplayError> {
        let mut all = std::mem::take(&mut self.sent);
        for sent in all.drain(..) {
            let comment = match (sent.reason, &sent.packet) {
                (Reason::Forwarded, Some(input)) => input.packet.comment.as_deref(),
                (Reason::Rewritten, _) => Some("lasthop: rewritten"),
                (Reason::Held, _) => Some("lasthop: held"),
                _ => Some("lasthop: injected"),
            };
            self.summary.injected +=
                u64::from(matches!(sent.reason, Reason::Held | Reason::Injected));
            if let Some(Captured { packet, interface, ip_at }) = sent.packet {
                let changed = sent.bytes(&self.flows, &packet.data, ip_at);
                let bytes = changed.as_deref().unwrap_or(&packet.data);
                self.write(interface, now, bytes, packet.original_len, comment)?;
                continue;
            }
            match self.flows.frame(sent.direction, &sent.segment) {
                Ok((interface, frame)) => self.write(interface, now, &frame, 0, comment)?,
                Err(reason) => {
                    self.summary.injected -= 1;
                    self.summary.not_injected += 1;
                    self.not_shown.without_tunnel += u64::from(reason == NoFrame::UnknownTunnel);
                }
            }
        }
        self.sent = all;
        Ok(())
    }

    fn fire_until(&mut self, until: Time) -> Result<(), ReplayError> {
        while let Some(now) = self.stand.run_timer(until, &self.node_view, &mut self.sent) {
            self.write_sent(now)?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        interface: usize,
        now: Time,
        bytes: &[u8],
        original_len: u32,
        comment: Option<&str>,
    ) -> Result<(), ReplayError> {
        self.summary.written += 1;
        let original_len = original_len.max(bytes.len() as u32);
        Ok(self.output.writer.write_cut(interface, now, bytes, original_len, comment)?)
    }
}
