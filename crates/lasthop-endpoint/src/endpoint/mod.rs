//! One end of a TCP connection.

mod close;
mod errors;
mod handshake;
mod ports;
mod receive;
mod relay;

use std::net::SocketAddr;
use std::sync::Arc;

use lasthop::schemes::catalogue::AnyWindow;
use lasthop::segment::Notice;
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::{Sender, SenderCounters, State, SynAckTimes};
use lasthop::units::{Duration, Time};
use lasthop_wire::TcpPacket;

use crate::arrival::read;
use crate::settings::Settings;
use crate::stream_data::Arrived;
use crate::terms::Original;
use crate::wire::Wire;

/// One end of a TCP connection, without I/O and clock.
///
/// # Examples
///
/// ```
/// use std::hash::RandomState;
///
/// use lasthop::schemes::catalogue::SchemeChoice;
/// use lasthop::tcp::profile::{Profile, ProfileName};
/// use lasthop::units::{Duration, Time};
/// use lasthop_endpoint::{Endpoint, Settings, TcpState, initial_sequence_number};
///
/// let settings = Settings::new(SchemeChoice::parse("cubic")?, Profile::named(ProfileName::Linux));
/// let (a, b) = ("10.0.0.1:5000".parse()?, "10.0.0.2:80".parse()?);
/// let (key, now) = (RandomState::new(), Time::ZERO);
/// let secrets = |from, to| initial_sequence_number(&key, from, to, now);
/// let mut client = Endpoint::connect(now, settings.clone().into(), a, b, secrets(a, b));
/// let syn = client.outgoing().unwrap();
/// let mut server = Endpoint::accept(now, settings.into(), &syn, secrets(b, a)).unwrap();
/// client.packet(now, &server.outgoing().unwrap());
/// server.packet(now, &client.outgoing().unwrap());
/// client.write(now, b"hello");
/// server.packet(now, &client.outgoing().unwrap());
/// let mut bytes = [0; 10];
/// let count = server.read(now, &mut bytes);
/// assert_eq!((server.state(), &bytes[..count]), (TcpState::Established, &b"hello"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Endpoint {
    settings: Arc<Settings>,
    phase: Phase,
    sender: Sender<AnyWindow>,
    /// Once the peer's SYN has come.
    receiver: Option<Receiver>,
    wire: Wire,
    arrived: Arrived,
    /// Bytes that the application has written.
    written: u64,
    close_wanted: bool,
    is_released: bool,
    /// The peer's FIN has arrived, after everything before it; this end's FIN was sent earlier.
    peer_has_closed: bool,
    closes_first: bool,
    syn_sent: Time,
    syn_ack: SynAckTimes,
    /// A SYN-ACK was sent.
    has_answered: bool,
    /// Sequence and ACK number of the segment that the peer's window was last taken from (SND.WL1,
    /// SND.WL2).
    window_from: (u64, u64),
    /// Largest window of the peer so far, bytes.
    max_peer_window: u64,
    time_wait_until: Time,
    last_arrival: Time,
    keep_alive_at: Time,
    keep_alives: u32,
    min_rtt: Option<Duration>,
    end: Option<End>,
    counters: Counters,
}

/// How far the connection is, beside what sender and receiver know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SynSent,
    /// `passive`: the peer has opened the connection; otherwise both have.
    SynReceived {
        passive: bool,
    },
    Open,
    TimeWait,
    Closed,
}

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both ends have closed it, and everything has arrived.
    Closed,
    /// The peer has reset it.
    Reset,
    /// The peer has answered the SYN with a reset.
    Refused,
    /// The peer has not answered: SYN, data, window probes or keep-alive probes (RFC 9293, section
    /// 3.8.3).
    TimedOut,
    /// An ICMP error has answered the SYN.
    Unreachable,
    /// The application has aborted it.
    Aborted,
}

/// The states of RFC 9293, section 3.3.2, of a connection that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the RFC")]
pub enum TcpState {
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    Closed,
}

impl TcpState {
    /// The name of the RFC.
    pub fn name(self) -> &'static str {
        match self {
            TcpState::SynSent => "SYN-SENT",
            TcpState::SynReceived => "SYN-RECEIVED",
            TcpState::Established => "ESTABLISHED",
            TcpState::FinWait1 => "FIN-WAIT-1",
            TcpState::FinWait2 => "FIN-WAIT-2",
            TcpState::CloseWait => "CLOSE-WAIT",
            TcpState::Closing => "CLOSING",
            TcpState::LastAck => "LAST-ACK",
            TcpState::TimeWait => "TIME-WAIT",
            TcpState::Closed => "CLOSED",
        }
    }
}

/// What a connection has discarded or reported, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that are no whole TCP segment of this connection, or whose checksum is wrong.
    pub invalid: u64,
    /// Segments without a timestamp although both ends use them (RFC 7323, section 3.2).
    pub without_timestamp: u64,
    /// Segments outside of the window, with an old timestamp, or with an ACK number of data that
    /// were never sent or were acknowledged long ago.
    pub unacceptable: u64,
    /// SYNs and resets that were answered with a challenge ACK or ignored (RFC 5961).
    pub challenged: u64,
    /// ICMP errors that were believed.
    pub icmp: u64,
}

impl Endpoint {
    /// A packet of this connection has arrived.
    pub fn packet(&mut self, now: Time, packet: &[u8]) {
        match read(packet) {
            Some(tcp) => self.checked_packet(now, &tcp),
            None => self.counters.invalid += 1,
        }
    }

    /// A packet of this connection has arrived, whole and with a checksum known to be right.
    pub fn checked_packet(&mut self, now: Time, tcp: &TcpPacket<'_>) {
        self.process_packet(now, tcp);
        self.settle(now);
    }

    /// An ICMP error has arrived ([`lasthop_wire::icmp_error`]).
    pub fn icmp(&mut self, now: Time, error: &lasthop_wire::IcmpError) {
        self.process_icmp(error);
        self.settle(now);
    }

    /// A message of the link layer or of an agent about this connection has arrived.
    pub fn notice(&mut self, now: Time, notice: &Notice) {
        self.with_sender(|sender, port| sender.on_notice(now, notice, port));
        self.with_receiver(now, |receiver, port| receiver.on_notice(now, notice, port));
        self.settle(now);
    }

    /// The next packet to be sent, if there is one.
    pub fn outgoing(&mut self) -> Option<Vec<u8>> {
        self.wire.outgoing.pop_front()
    }

    /// True if [`outgoing`](Endpoint::outgoing) has a packet.
    pub fn has_outgoing(&self) -> bool {
        !self.wire.outgoing.is_empty()
    }

    /// When [`timer`](Endpoint::timer) is to be called; `NEVER` if no timer runs.
    pub fn next(&self) -> Time {
        if matches!(self.phase, Phase::TimeWait | Phase::Closed) {
            return self.time_wait_until;
        }
        let receiver = self.receiver.as_ref().map_or(Time::NEVER, |r| r.deadline().0);
        self.sender.deadline().0.min(receiver).min(self.keep_alive_at)
    }

    /// The time of [`next`](Endpoint::next) has come.
    pub fn timer(&mut self, now: Time) {
        if matches!(self.phase, Phase::TimeWait | Phase::Closed) {
            if now >= self.time_wait_until {
                self.finish(End::Closed);
            }
            return;
        }
        if self.sender.deadline().0 <= now {
            self.with_sender(|sender, port| sender.on_timer(now, port));
        }
        if self.receiver.as_ref().is_some_and(|r| r.deadline().0 <= now) {
            self.with_receiver(now, |receiver, port| receiver.on_timer(now, port));
        }
        if self.keep_alive_at <= now {
            self.on_keep_alive_timer(now);
        }
        self.settle(now);
    }

    /// The application writes; how many of the bytes are accepted. None after
    /// [`close`](Endpoint::close).
    pub fn write(&mut self, now: Time, bytes: &[u8]) -> usize {
        if self.close_wanted || self.phase == Phase::Closed {
            return 0;
        }
        let room = self.settings.send_buffer.saturating_sub(self.wire.data.len());
        let accepted = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        let count = accepted.len() as u64;
        if count > 0 {
            self.wire.data.write(accepted);
            self.written += count;
            self.with_sender(|sender, port| sender.write(now, count, port));
            self.settle(now);
        }
        accepted.len()
    }

    /// Bytes that [`write`](Endpoint::write) accepts now.
    pub fn writable(&self) -> usize {
        if self.close_wanted || self.phase == Phase::Closed {
            return 0;
        }
        self.settings.send_buffer.saturating_sub(self.wire.data.len())
    }

    /// The application reads what has arrived in order; how many bytes.
    pub fn read(&mut self, now: Time, into: &mut [u8]) -> usize {
        let Some(receiver) = &self.receiver else { return 0 };
        let count = self.arrived.read(into, receiver.rcv_nxt());
        if count > 0 && receiver.is_read_manually() && self.phase != Phase::Closed {
            let mss = self.segment();
            self.with_receiver(now, |r, port| r.read(now, count as u64, mss, port));
        }
        count
    }

    /// Bytes that have arrived in order and can be read.
    pub fn readable(&self) -> usize {
        self.receiver.as_ref().map_or(0, |r| self.arrived.readable(r.rcv_nxt()))
    }

    /// The peer has closed its direction, and everything has been read.
    pub fn is_at_end(&self) -> bool {
        self.readable() == 0 && self.receiver.as_ref().is_some_and(Receiver::finished)
    }

    /// The application writes no more (half-close): a FIN follows the last byte. It may still read.
    pub fn close(&mut self, now: Time) {
        if !self.close_wanted && self.phase != Phase::Closed {
            self.close_wanted = true;
            self.with_sender(|sender, port| sender.close(now, port));
            self.settle(now);
        }
    }

    /// The application has no more use for the connection: it is closed, and nothing will be read.
    /// Data that were not read, or that arrive afterwards, are lost, which a reset tells the peer
    /// (RFC 1122, section 4.2.2.13). An attempt to connect ends at once, unless something was
    /// written (RFC 9293, section 3.10.4).
    pub fn release(&mut self, now: Time) {
        self.is_released = true;
        let connects = self.phase == Phase::SynSent && self.written == 0;
        match connects || self.readable() > 0 {
            true => self.abort(now),
            false => self.close(now),
        }
    }

    /// The application writes no more.
    pub fn is_closing(&self) -> bool {
        self.close_wanted
    }

    /// The application gives the connection up: the peer gets a reset (RFC 9293, section 3.10.5).
    pub fn abort(&mut self, now: Time) {
        self.abort_with(now, End::Aborted);
    }

    /// The state, with the name of RFC 9293.
    pub fn state(&self) -> TcpState {
        match self.phase {
            Phase::SynSent => TcpState::SynSent,
            Phase::SynReceived { .. } => TcpState::SynReceived,
            Phase::TimeWait => TcpState::TimeWait,
            Phase::Closed => TcpState::Closed,
            Phase::Open => self.open_state(),
        }
    }

    fn open_state(&self) -> TcpState {
        let acked = self.sender.state() == State::Done;
        match (self.has_sent_fin(), acked, self.has_received_fin(), self.closes_first) {
            (false, _, false, _) => TcpState::Established,
            (false, _, true, _) => TcpState::CloseWait,
            (true, false, false, _) => TcpState::FinWait1,
            (true, true, false, _) => TcpState::FinWait2,
            (true, _, true, true) => TcpState::Closing,
            (true, _, true, false) => TcpState::LastAck,
        }
    }

    /// Why the connection has ended; `None` while it has not. One in TIME-WAIT has not.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// What it has discarded.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Counters of its sender.
    pub fn sender_counters(&self) -> SenderCounters {
        self.sender.counters()
    }

    /// Bytes of the application that the peer has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.sender.snd_una().min(self.written)
    }

    /// Address and port of this end and of the peer.
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.wire.local, self.wire.remote)
    }

    /// What the peer's SYN says, as far as both ends have agreed; `None` before it has come.
    pub fn peer(&self) -> Option<Original> {
        let segment = self.wire.agreed?.segment();
        Some(Original { isn: self.wire.peer_isn, segment })
    }

    /// Payload bytes of a full segment.
    pub fn segment(&self) -> u32 {
        self.wire.agreed.unwrap_or(self.wire.offer).segment()
    }

    /// This end's FIN has been sent.
    fn has_sent_fin(&self) -> bool {
        self.sender.snd_max() > self.written
    }

    fn has_received_fin(&self) -> bool {
        self.receiver.as_ref().is_some_and(Receiver::finished)
    }
}
