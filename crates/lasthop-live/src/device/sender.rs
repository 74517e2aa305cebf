//! The core's own TCP sender as a device: what it sends can be read, and packets that are written
//! are its ACKs. The other end is a kernel's TCP, so that a live link can be tried with a sender
//! whose every decision is known from simulation.
//!
//! It opens one connection, sends a number of bytes and closes. It does not negotiate: the peer has
//! to support SACK and timestamps if its profile uses them, as Linux does by default.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::BorrowedFd;

use lasthop::scenario::network::Flow;
use lasthop::schemes::catalogue::AnyWindow;
use lasthop::segment::{Flags, Options, Segment};
use lasthop::tcp::sender::{Output, SendReason, Sender, SenderConfig, SenderCounters};
use lasthop::tcp::ticks::clock_phase;
use lasthop::units::{Duration, Time};
use lasthop_wire::options::{OptionBytes, TcpOption};
use lasthop_wire::render::TTL;
use lasthop_wire::{Addressing, Endpoints, Side, assemble, parse, render_with};

use super::{Device, Sent};

/// Its initial sequence number, fixed so that runs can be compared.
pub const ISN: u32 = u32::MAX - 3000;

/// A connection of the core's own sender.
pub struct OwnSender {
    sender: Sender<AnyWindow>,
    wire: Wire,
    bytes: u64,
    /// Highest stream offset that was acknowledged.
    acked: u64,
    opened: Option<Time>,
    completed: Option<Time>,
    last: Vec<u8>,
}

/// Makes packets of segments.
struct Wire {
    endpoints: Endpoints,
    sack: bool,
    outgoing: VecDeque<Vec<u8>>,
}

/// What a sender has done.
#[derive(Clone, Copy, Debug)]
pub struct SenderReport {
    /// Time from the SYN until all bytes were acknowledged; `None` if they were not.
    pub completed: Option<Duration>,
    /// Counters.
    pub counters: SenderCounters,
}

impl OwnSender {
    /// The sender of a flow, with its scheme and profile, for a transfer of `bytes` from one
    /// address to another. Its clock is that of the simulation with this `seed`.
    pub fn new(
        flow: &Flow,
        seed: u64,
        bytes: u64,
        from: SocketAddrV4,
        to: SocketAddrV4,
    ) -> OwnSender {
        let part = flow.scheme.sender(&flow.profile);
        let profile = part.profile(&flow.profile);
        let config = SenderConfig {
            flow: 0,
            to: flow.to,
            mss: flow.segment,
            headers: flow.headers,
            receive_window: flow.receive_window.bytes(flow.segment),
            recovery: part.recovery,
            needs: part.needs,
            clock_phase: clock_phase(&profile, seed, 0),
            draw: 0,
        };
        let side = |address, isn| Side { address, isn, window_scale: 0 };
        let wire = Wire {
            endpoints: Endpoints {
                sender: side(from, ISN),
                receiver: side(to, 0),
                mss: u16::try_from(flow.segment).unwrap_or(u16::MAX),
            },
            sack: profile.sack,
            outgoing: VecDeque::new(),
        };
        OwnSender {
            sender: Sender::new(config, &profile, part.window()),
            wire,
            bytes,
            acked: 0,
            opened: None,
            completed: None,
            last: Vec::new(),
        }
    }

    /// What it has done.
    pub fn report(&self) -> SenderReport {
        let completed = self.completed.zip(self.opened).map(|(end, start)| end.since(start));
        SenderReport { completed, counters: self.sender.counters() }
    }

    /// The segment that a packet of the peer carries.
    fn segment(&mut self, packet: &[u8]) -> Option<(Segment, Options)> {
        let tcp = parse(packet).ok()?;
        let peer = &mut self.wire.endpoints.receiver;
        if tcp.addressing.destination != self.wire.endpoints.sender.address.into() {
            return None;
        }
        let flags = tcp.flags();
        if flags.has(Flags::SYN) {
            let scale = tcp.options().map_while(Result::ok).find_map(|option| match option {
                TcpOption::WindowScale(shift) => Some(shift.min(14)),
                _ => None,
            });
            (peer.isn, peer.window_scale) = (tcp.seq, scale.unwrap_or(0));
        }
        // The peer's FIN has a sequence number, which the next ACKs have to acknowledge.
        if flags.has(Flags::FIN) && tcp.seq.wrapping_sub(peer.isn) == 1 {
            peer.isn = peer.isn.wrapping_add(1);
        }
        let shift = if flags.has(Flags::SYN) { 0 } else { peer.window_scale };
        let ahead = tcp.ack.wrapping_sub(ISN + 1).wrapping_sub(self.acked as u32) as i32;
        let ack = self.acked.saturating_add_signed(ahead.into());
        let (present, options) = tcp.segment_options(ack, self.wire.endpoints.mss.into());
        let (ts_value, ts_echo) = tcp.timestamps().unwrap_or_default();
        let segment = Segment {
            ack,
            window: u32::from(tcp.window) << shift,
            flags: flags.with(present),
            size: packet.len() as u32,
            ts_value,
            ts_echo,
            ..Segment::default()
        };
        Some((segment, options))
    }
}

impl Device for OwnSender {
    fn read(&mut self, now: Time) -> io::Result<Option<&[u8]>> {
        let OwnSender { sender, wire, bytes, opened, last, .. } = self;
        if opened.is_none() {
            *opened = Some(now);
            sender.open(now, wire);
            sender.write(now, *bytes, wire);
            sender.close(now, wire);
        }
        if wire.outgoing.is_empty() && sender.deadline().0 <= now {
            sender.on_timer(now, wire);
        }
        let Some(packet) = wire.outgoing.pop_front() else { return Ok(None) };
        *last = packet;
        Ok(Some(last))
    }

    fn write(&mut self, now: Time, packet: &[u8]) -> Sent {
        if let Some((segment, options)) = self.segment(packet) {
            self.sender.on_segment(now, &segment, &options, &mut self.wire);
            if segment.ack <= self.sender.snd_max() {
                self.acked = self.acked.max(segment.ack);
            }
            if self.acked >= self.bytes && self.completed.is_none() {
                self.completed = Some(now);
            }
        }
        Sent::Sent
    }

    fn next(&self) -> Time {
        match self.wire.outgoing.is_empty() && self.opened.is_some() {
            true => self.sender.deadline().0,
            false => Time::ZERO,
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Output for Wire {
    fn send(&mut self, segment: Segment, reason: SendReason) {
        self.send_with(segment, &Options::NONE, reason);
    }

    fn send_with(&mut self, mut segment: Segment, options: &Options, _: SendReason) {
        segment.forward = true;
        segment.window = u16::MAX.into();
        let packet = if segment.flags.has(Flags::SYN) {
            self.syn(&segment)
        } else {
            segment.flags = segment.flags.with(Flags::ACK);
            render_with(&segment, options, &self.endpoints)
        };
        self.outgoing.push_back(packet);
    }
}

impl Wire {
    /// A SYN that offers what the profile uses.
    fn syn(&self, segment: &Segment) -> Vec<u8> {
        let Endpoints { sender, receiver, mss } = &self.endpoints;
        let mut options = OptionBytes::default();
        let stamps = TcpOption::Timestamps { value: segment.ts_value, echo: segment.ts_echo };
        let offered = [
            Some(TcpOption::MaximumSegmentSize(*mss)),
            self.sack.then_some(TcpOption::SackPermitted),
            segment.flags.has(Flags::TIMESTAMPS).then_some(stamps),
            Some(TcpOption::WindowScale(sender.window_scale)),
        ];
        // Cannot fail: they have 19 bytes.
        offered.into_iter().flatten().for_each(|o| options.push(o).unwrap_or_default());
        let mut tcp = self.endpoints.numbering(true).tcp_header(segment);
        tcp.set_options_raw(options.padded()).unwrap_or_default();
        let addressing = Addressing {
            source: sender.address.into(),
            destination: receiver.address.into(),
            hop_limit: TTL,
            traffic_class: 0,
            flow_label: 0,
        };
        assemble(&addressing, &tcp, &[])
    }
}
