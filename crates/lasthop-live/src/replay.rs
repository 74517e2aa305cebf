//! Replay: an agent meets the packets of a capture.
//!
//! Packets come to the agent at the times at which they were captured, its timers fire between
//! them, and what it lets go, changes or makes is written with the time of the decision. The
//! endpoints are on the tape: they do not react.
//!
//! What the agent may ask about queues and rates is answered from the [`Remark`] on the last packet
//! it was shown, which simulated captures have; of a real network nothing is known. A timer that is
//! due at the very time of a packet fires before it. Timers fire until the last packet of the
//! capture, on whatever interface.

use std::io::{Read, Write};
use std::net::SocketAddr;

use lasthop::agent::{Action, Agent, Context, Rewrite, Verdict};
use lasthop::schemes::catalogue::{AnyAgent, Scheme, SchemeChoice, all};
use lasthop::segment::{Direction, Flags, Options, Payload, Segment};
use lasthop::units::Time;
use lasthop_wire::{
    CaptureWriter, Interface, LinkType, NotTcp, Packet, Patch, ReadError, Remark, WriteError,
    parse, patch,
};
use thiserror::Error;

use crate::flows::{Flows, Seen, SuperSegment};
use crate::prefix::Prefix;
use crate::recording::{ChoiceError, Recording};
use crate::store::Store;
use crate::summary::{NOTE, Summary, count};
use crate::timers::Timers;

/// What to replay, and through what.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The mobile's address or prefix: packets to it go down, packets from it go up.
    pub mobile: Prefix,
    /// The scheme whose agent stands at the base station.
    pub scheme: SchemeChoice,
    /// The interface of the capture to replay. By default the one whose name ends in ":in", or the
    /// only one with packets.
    pub interface: Option<String>,
}

/// Why a capture cannot be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The input is no sound capture.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// It is not clear what to replay.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The scheme changes the end hosts only, or splits the connection.
    #[error(
        "scheme `{0}` has no agent at the base station to replay packets through; those that have \
         one: {1}"
    )]
    NoAgent(String, String),
    /// The capture shows packets that were not on the wire.
    #[error(transparent)]
    SuperSegment(#[from] SuperSegment),
}

/// Drives the scheme's agent with the packets of `input` and writes to `output` what goes on behind
/// it, in frames like those of the input.
pub fn replay(
    input: impl Read,
    output: impl Write,
    options: &ReplayOptions,
) -> Result<Summary, ReplayError> {
    let Some(agent) = agent_of(&options.scheme.scheme) else {
        let known: Vec<String> =
            all().iter().filter(|s| agent_of(s).is_some()).map(|s| s.name().to_string()).collect();
        return Err(ReplayError::NoAgent(
            options.scheme.scheme.name().to_string(),
            known.join(", "),
        ));
    };
    let recording = Recording::read(input)?;
    let name = recording.choose(options.interface.as_deref())?;
    let output = Output::new(output, &recording.interfaces, &name, &options.scheme.label)?;
    Replay::new(&recording, agent, output, options, name).run()
}

/// The agent that packets can be replayed through. That of a split scheme is nothing without its
/// relay.
fn agent_of(scheme: &Scheme) -> Option<AnyAgent> {
    scheme.agent().filter(|_| scheme.relay().is_none())
}

/// The capture being written: an interface for each that is replayed.
struct Output<W: Write> {
    writer: CaptureWriter<W>,
    /// For each interface of the input its number in the output.
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
                description: format!("behind {label} (lasthop replay)"),
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

/// A packet as the agent is shown it. A payload handle stands for one.
#[derive(Clone, Copy)]
struct Shown {
    /// Index in the recording.
    record: usize,
    /// Number of the output interface.
    interface: usize,
    /// Where its IP header begins.
    ip_at: usize,
    direction: Direction,
    segment: Segment,
    options: Options,
}

/// Why the agent is not shown a packet.
enum Skip {
    /// It is none of its business and goes on untouched, for this reason.
    Untouched(&'static str),
    Refused(SuperSegment),
}

impl From<SuperSegment> for Skip {
    fn from(s: SuperSegment) -> Skip {
        Skip::Refused(s)
    }
}

impl From<NotTcp> for Skip {
    fn from(e: NotTcp) -> Skip {
        Skip::Untouched(e.reason())
    }
}

struct Replay<'a, W: Write> {
    recording: &'a Recording,
    mobile: Prefix,
    agent: AnyAgent,
    output: Output<W>,
    flows: Flows,
    store: Store<Shown>,
    timers: Timers,
    node_view: Remark,
    summary: Summary,
}

impl<'a, W: Write> Replay<'a, W> {
    fn new(
        recording: &'a Recording,
        agent: AnyAgent,
        output: Output<W>,
        options: &ReplayOptions,
        interface: String,
    ) -> Self {
        let summary = Summary {
            lasthop: env!("CARGO_PKG_VERSION"),
            scheme: options.scheme.label.clone(),
            interface,
            mobile: options.mobile.to_string(),
            notes: vec![NOTE.into()],
            ..Summary::default()
        };
        Replay {
            recording,
            mobile: options.mobile,
            agent,
            output,
            flows: Flows::default(),
            store: Store::default(),
            timers: Timers::default(),
            node_view: Remark::default(),
            summary,
        }
    }

    fn run(mut self) -> Result<Summary, ReplayError> {
        let recording = self.recording;
        for (index, record) in recording.records.iter().enumerate() {
            match self.output.number(&record.packet) {
                Some(interface) => {
                    self.fire_until(record.packet.time)?;
                    self.packet(index, interface)?;
                }
                None => self.summary.other_interfaces += 1,
            }
        }
        self.fire_until(recording.end())?;
        self.output.writer.finish()?;
        let mut summary = self.summary;
        summary.flows = self.flows.seen();
        summary.flows_evicted = self.flows.evicted();
        summary.agent = self.agent.counters();
        if recording.interfaces.iter().any(|i| {
            i.name == summary.interface
                && matches!(i.link_type, LinkType::LINUX_SLL | LinkType::LINUX_SLL2)
        }) {
            summary.notes.push(
                "a capture of all interfaces (`tcpdump -i any`) holds a forwarded packet once for \
                 each; capture on one interface"
                    .into(),
            );
        }
        if let Some(n) = summary.untouched.get(NotTcp::CutShort.reason()) {
            summary.notes.push(format!(
                "the capture cut {n} packets within their headers and the agent did not see them; \
                 capture with `tcpdump -s 134` or more"
            ));
        }
        if summary.tcp == 0 {
            summary.notes.push(format!(
                "no TCP packet goes to {0} or comes from {0}: the agent saw nothing",
                self.mobile
            ));
        }
        Ok(summary)
    }

    fn packet(&mut self, index: usize, interface: usize) -> Result<(), ReplayError> {
        let packet = &self.recording.records[index].packet;
        self.summary.packets += 1;
        match self.look(index, interface) {
            Ok(shown) => self.show(shown),
            Err(Skip::Untouched(reason)) => {
                count(&mut self.summary.untouched, reason);
                self.write(
                    interface,
                    packet.time,
                    &packet.data,
                    packet.original_len,
                    packet.comment.as_deref(),
                )
            }
            Err(Skip::Refused(s)) => Err(s.into()),
        }
    }

    /// The packet as the agent is to see it.
    fn look(&mut self, index: usize, interface: usize) -> Result<Shown, Skip> {
        let record = &self.recording.records[index];
        let data = &record.packet.data;
        let link_type = self.recording.interfaces[record.packet.interface].link_type;
        let ip_at = link_type.ip_at(data).ok_or(NotTcp::NotIp)?;
        let tcp = parse(&data[ip_at..])?;
        let mobile = |end: SocketAddr| self.mobile.contains(end.ip());
        let direction = match (mobile(tcp.addressing.source), mobile(tcp.addressing.destination)) {
            (false, true) => Direction::Downlink,
            (true, false) => Direction::Uplink,
            (true, true) => return Err(Skip::Untouched("between mobiles")),
            (false, false) => return Err(Skip::Untouched("not the mobile's")),
        };
        let seen = Seen {
            number: record.number,
            time: record.packet.time,
            direction,
            interface,
            link_type,
            link: &data[..ip_at],
        };
        let mut segment = self.flows.segment(&seen, &tcp)?;
        let (named, options) =
            tcp.segment_options(segment.ack, self.flows.mss(segment.flow, direction));
        segment.flags = segment.flags.with(named);
        self.summary.tcp += 1;
        self.summary.cut_short += u64::from(tcp.payload.len() < tcp.payload_len as usize);
        Ok(Shown { record: index, interface, ip_at, direction, segment, options })
    }

    fn show(&mut self, shown: Shown) -> Result<(), ReplayError> {
        let packet = &self.recording.records[shown.record].packet;
        let now = packet.time;
        let payload = self.store.put(shown);
        let segment = Segment { payload, ..shown.segment };
        self.node_view = packet.comment.as_deref().and_then(Remark::read).unwrap_or_default();
        let mut actions = Vec::new();
        let mut ctx = Context {
            now,
            options: &shown.options,
            node_view: &self.node_view,
            actions: &mut actions,
        };
        match self.agent.on_segment(&mut ctx, shown.direction, &segment) {
            Verdict::Forward => {
                self.summary.forwarded += 1;
                self.write(
                    shown.interface,
                    now,
                    &packet.data,
                    packet.original_len,
                    packet.comment.as_deref(),
                )?;
            }
            Verdict::Rewrite(rewrite) => {
                self.summary.rewritten += 1;
                let bytes = self.patched(&shown, rewrite);
                self.write(
                    shown.interface,
                    now,
                    &bytes,
                    packet.original_len,
                    Some("lasthop: rewritten"),
                )?;
            }
            Verdict::Keep => {
                self.summary.kept += 1;
                // One more, for the agent: the host gives its own back below.
                self.store.retain(payload);
            }
            Verdict::Drop(reason) => count(&mut self.summary.dropped, reason),
        }
        self.carry_out(now, actions)?;
        self.store.release(payload);
        Ok(())
    }

    /// The packet's bytes with the fields changed.
    fn patched(&self, shown: &Shown, rewrite: Rewrite) -> Vec<u8> {
        let mut bytes = self.recording.records[shown.record].packet.data.clone();
        let syn = shown.segment.flags.has(Flags::SYN);
        if let Some(n) = self.flows.numbering(shown.segment.flow, shown.direction) {
            let edits = Patch {
                ack: rewrite.ack.map(|a| n.ack_field(a)),
                window: rewrite.window.map(|w| n.window_field(w, syn)),
                eln: rewrite.eln,
            };
            // Cannot fail: the agent was shown this packet because it parsed.
            patch(&mut bytes[shown.ip_at..], edits).unwrap_or_default();
        }
        bytes
    }

    fn carry_out(&mut self, now: Time, actions: Vec<Action>) -> Result<(), ReplayError> {
        for action in actions {
            match action {
                Action::Inject(direction, segment) => {
                    self.inject(now, direction, &segment, "lasthop: injected")?
                }
                Action::Forward(direction, segment) => {
                    self.inject(now, direction, &segment, "lasthop: held")?
                }
                Action::Wake(id, at) => self.timers.set(now, id, at),
                Action::Cancel(id) => self.timers.cancel(id),
                Action::Retain(payload) => self.store.retain(payload),
                Action::Release(payload) => self.store.release(payload),
                // A recording has no link layer that could report anything, and nobody who would
                // listen.
                Action::Notify(..) => self.summary.not_injected += 1,
            }
        }
        Ok(())
    }

    /// Sends the original bytes again, with the fields that the agent has changed since, or a frame
    /// made from headers alone.
    fn inject(
        &mut self,
        now: Time,
        direction: Direction,
        segment: &Segment,
        comment: &str,
    ) -> Result<(), ReplayError> {
        let (interface, bytes, original_len) = if let Some(shown) = self.store.get(segment.payload)
        {
            let rewrite = Rewrite {
                ack: Some(segment.ack).filter(|&a| a != shown.segment.ack),
                window: Some(segment.window).filter(|&w| w != shown.segment.window),
                eln: segment.flags.has(Flags::ELN) && !shown.segment.flags.has(Flags::ELN),
            };
            (
                shown.interface,
                self.patched(shown, rewrite),
                self.recording.records[shown.record].packet.original_len,
            )
        } else if let Some((interface, frame)) =
            self.flows.frame(direction, segment).filter(|_| segment.payload == Payload::NONE)
        {
            (interface, frame, 0)
        } else {
            self.summary.not_injected += 1;
            return Ok(());
        };
        self.summary.injected += 1;
        self.write(interface, now, &bytes, original_len, Some(comment))
    }

    fn fire_until(&mut self, until: Time) -> Result<(), ReplayError> {
        while let Some((now, id)) = self.timers.due(until) {
            let mut actions = Vec::new();
            self.agent.on_timer(
                &mut Context {
                    now,
                    options: &Options::NONE,
                    node_view: &self.node_view,
                    actions: &mut actions,
                },
                id,
            );
            self.carry_out(now, actions)?;
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
