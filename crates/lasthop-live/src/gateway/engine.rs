//! An agent on forwarded packets: what becomes of each, and what the agent sends. No I/O and no
//! clock.

use std::net::IpAddr;
use std::rc::Rc;

use lasthop::agent::{NodeView, QueueState};
use lasthop::schemes::catalogue::AnyAgent;
use lasthop::segment::{Direction, Flags, Options};
use lasthop::units::{Rate, Time};
use lasthop_wire::offload::{HEADER_LEN, Splitter, complete_checksum, segmentation_header};
use lasthop_wire::{Encapsulation, NotTcp, TcpPacket, parse};

use super::tally::{Counts, Tally};
use crate::flows::{Flows, NO_HANDSHAKE, Seen};
use crate::stand::{Reason, Sent, Shown, Stand};
use crate::summary::count;

/// A forwarded packet.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The IP packet.
    pub bytes: &'a [u8],
    /// The kernel still has to segment it.
    pub is_gso: bool,
    /// Its checksum field has the sum of the pseudo-header only; the kernel completes it later.
    pub lacks_checksum: bool,
}

/// What becomes of a forwarded packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on as it is.
    Accepted,
    /// It goes on with other bytes.
    Replaced(Vec<u8>),
    /// It ends here: the agent has dropped it, holds it, or sends it in parts.
    Dropped,
}

/// A packet that the agent sends.
#[derive(Clone, Debug)]
pub struct Injected {
    /// Where it goes.
    pub direction: Direction,
    /// Its destination.
    pub to: IpAddr,
    /// The IP packet, with all checksums.
    pub bytes: Vec<u8>,
}

/// A packet that the agent may keep.
#[derive(Clone, Debug)]
struct Packet {
    bytes: Rc<[u8]>,
    lacks_checksum: bool,
}

/// What the agent may read of its node.
#[derive(Clone, Copy, Debug)]
struct Radio(Option<Rate>);

impl NodeView for Radio {
    /// The kernel's queues are not read.
    fn queue(&self, _: Direction) -> QueueState {
        QueueState::default()
    }

    fn rate(&self, direction: Direction) -> Option<Rate> {
        self.0.filter(|_| direction == Direction::Downlink)
    }
}

/// An agent, the connections that it sees, and what of them it was not shown.
pub struct Engine {
    stand: Stand<Packet>,
    flows: Flows,
    radio: Radio,
    splitter: Splitter,
    sent: Vec<Sent<Packet>>,
    counts: Counts,
}

impl Engine {
    /// An engine for at most `max_flows` connections, over a radio link with this rate if it is
    /// known.
    pub fn new(agent: AnyAgent, max_flows: usize, rate: Option<Rate>) -> Engine {
        Engine {
            stand: Stand::new(agent),
            flows: Flows::new(max_flows),
            radio: Radio(rate),
            splitter: Splitter::new(0),
            sent: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Forgets all connections, and the agent what it knows; counters of the agent restart.
    pub fn forget(&mut self, agent: AnyAgent, max_flows: usize) {
        self.stand = Stand::new(agent);
        self.flows = Flows::new(max_flows);
        self.sent.clear();
    }

    /// What was counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The connections.
    pub fn flows(&self) -> &Flows {
        &self.flows
    }

    /// What was counted, of the agent as well.
    pub(super) fn tally(&self) -> Tally {
        let decisions = self.stand.decisions();
        Tally {
            counts: self.counts.clone(),
            rewritten: decisions.rewritten,
            kept: decisions.kept,
            dropped: decisions.dropped.clone(),
            stored: self.stored() as u64,
            connections: self.flows.len() as u64,
            seen: self.flows.seen(),
            evicted: self.flows.evicted(),
            agent: self.stand.counters(),
        }
    }

    /// Packets that the agent keeps.
    pub fn stored(&self) -> usize {
        self.stand.stored()
    }

    /// Shows a packet to the agent if it is a segment of a connection whose handshake was seen.
    /// What the agent sends because of it is appended to `out`, and leaves after the packet.
    pub fn packet(
        &mut self,
        now: Time,
        direction: Direction,
        given: Given<'_>,
        out: &mut Vec<Injected>,
    ) -> Fate {
        self.counts.packets += 1;
        match self.show(now, direction, given) {
            Ok(segments) => self.conclude(segments, out),
            Err(reason) => {
                count(&mut self.counts.untouched, reason);
                Fate::Accepted
            }
        }
    }

    /// Runs the timers that expire until `now`.
    pub fn step(&mut self, now: Time, out: &mut Vec<Injected>) {
        while self.stand.run_timer(now, &self.radio, &mut self.sent).is_some() {
            self.inject(out);
        }
    }

    /// When the next timer expires.
    pub fn next(&self) -> Time {
        self.stand.next_timer().0
    }

    /// Shows the segments of a packet to the agent; returns how many they are.
    fn show(
        &mut self,
        now: Time,
        direction: Direction,
        given: Given<'_>,
    ) -> Result<usize, &'static str> {
        let tcp = parse(given.bytes).map_err(NotTcp::reason)?;
        if tcp.flags().has(Flags::SYN) {
            return self.show_syn(now, direction, given, &tcp);
        }
        let limit = self.flows.admit(direction, &tcp)?;
        if tcp.payload.len() < tcp.payload_len as usize {
            return Err("longer than the kernel hands over");
        }
        if tcp.payload_len <= limit {
            self.show_segment(now, direction, given)?;
            return Ok(1);
        }
        if !given.is_gso || limit == 0 {
            return Err("larger than a segment of its connection");
        }
        let header = segmentation_header(given.bytes, tcp.tcp_at, limit as u16);
        let mut splitter = std::mem::replace(&mut self.splitter, Splitter::new(0));
        let length = HEADER_LEN + given.bytes.len();
        if let Some((to_header, to_packet)) =
            splitter.buffer().get_mut(..length).and_then(|b| b.split_at_mut_checked(HEADER_LEN))
        {
            to_header.copy_from_slice(&header);
            to_packet.copy_from_slice(given.bytes);
            splitter.accept(length);
        }
        let mut segments = 0;
        while let Some(bytes) = splitter.next() {
            let part = Given { bytes, is_gso: false, lacks_checksum: false };
            segments += usize::from(self.show_segment(now, direction, part).is_ok());
        }
        self.splitter = splitter;
        Ok(segments)
    }

    /// A SYN begins a connection, of which the agent is shown what follows: state of agents is
    /// only for connections that somebody answers.
    fn show_syn(
        &mut self,
        now: Time,
        direction: Direction,
        given: Given<'_>,
        tcp: &TcpPacket<'_>,
    ) -> Result<usize, &'static str> {
        let is_answer = tcp.flags().has(Flags::ACK);
        if is_answer && self.flows.admit_answer(direction, tcp) {
            self.show_segment(now, direction, given)?;
            return Ok(1);
        }
        if !is_answer {
            self.track(now, direction, tcp)?;
        }
        Err(if is_answer { NO_HANDSHAKE } else { "SYN" })
    }

    fn track(
        &mut self,
        now: Time,
        direction: Direction,
        tcp: &TcpPacket<'_>,
    ) -> Result<lasthop::segment::Segment, &'static str> {
        let seen = Seen {
            number: self.counts.packets,
            time: now,
            direction,
            interface: 0,
            prefix: &[],
            encapsulation: &Encapsulation::NONE,
        };
        self.flows.segment(&seen, tcp).map_err(|_| "larger than a segment of its connection")
    }

    fn show_segment(
        &mut self,
        now: Time,
        direction: Direction,
        given: Given<'_>,
    ) -> Result<(), &'static str> {
        let tcp = parse(given.bytes).map_err(NotTcp::reason)?;
        let mut segment = self.track(now, direction, &tcp)?;
        let mss = self.flows.mss(segment.flow, direction);
        let (present, options): (Flags, Options) = tcp.segment_options(segment.ack, mss);
        segment.flags = segment.flags.with(present).with(tcp.capability());
        let packet = Packet { bytes: given.bytes.into(), lacks_checksum: given.lacks_checksum };
        let shown = Shown { packet, direction, segment, options };
        self.counts.shown += 1;
        self.stand.on_segment(now, &self.radio, shown, &mut self.sent);
        Ok(())
    }

    /// The fate of a packet of which this many segments were shown, by what the agent lets through.
    fn conclude(&mut self, segments: usize, out: &mut Vec<Injected>) -> Fate {
        let passes = |s: &&Sent<Packet>| s.reason == Reason::Forwarded;
        if self.sent.iter().filter(passes).count() == segments {
            self.sent.retain(|s| s.reason != Reason::Forwarded);
            self.inject(out);
            return Fate::Accepted;
        }
        let fate = match self.sent.first() {
            Some(sent) if segments == 1 && sent.reason == Reason::Rewritten => {
                self.bytes(sent).map(|(_, bytes)| Fate::Replaced(bytes))
            }
            _ => None,
        };
        if fate.is_some() {
            self.sent.remove(0);
        }
        self.inject(out);
        fate.unwrap_or(Fate::Dropped)
    }

    /// Moves what the agent sends to `out`.
    fn inject(&mut self, out: &mut Vec<Injected>) {
        let mut all = std::mem::take(&mut self.sent);
        for sent in all.drain(..) {
            match self.bytes(&sent) {
                Some((to, bytes)) => {
                    self.counts.injected += 1;
                    out.push(Injected { direction: sent.direction, to, bytes });
                }
                // A packet of a connection that is no longer known cannot be made.
                None => self.counts.not_injected += 1,
            }
        }
        self.sent = all;
    }

    /// The bytes of a packet that the agent sends, and where they go.
    fn bytes(&self, sent: &Sent<Packet>) -> Option<(IpAddr, Vec<u8>)> {
        let bytes = match &sent.packet {
            None => self.flows.frame(sent.direction, &sent.segment).ok()?.1,
            Some(packet) => {
                let mut bytes = packet.bytes.to_vec();
                if packet.lacks_checksum {
                    complete_checksum(&mut bytes, parse(&packet.bytes).ok()?.tcp_at);
                }
                sent.bytes(&self.flows, &bytes, 0).unwrap_or(bytes)
            }
        };
        let to = parse(&bytes).ok()?.addressing.destination.ip();
        Some((to, bytes))
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test may panic")]
mod tests;
