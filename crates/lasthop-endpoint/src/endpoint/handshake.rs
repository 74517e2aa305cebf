//! Opening a connection: actively, passively, or by both ends at once (RFC 9293, section 3.5).

use std::net::SocketAddr;
use std::sync::Arc;

use lasthop::schemes::catalogue::AnyWindow;
use lasthop::segment::{Flags, Options, Segment};
use lasthop::tcp::receiver::{Receiver, ReceiverConfig};
use lasthop::tcp::sender::{Sender, SenderConfig, SynAckTimes};
use lasthop::tcp::window::{Hooks, WindowRule};
use lasthop::units::Time;
use lasthop_wire::TcpPacket;

use super::{Counters, End, Endpoint, Phase};
use crate::arrival::read;
use crate::ecn::Ecn;
use crate::isn::Secrets;
use crate::settings::{RelayEnd, Settings};
use crate::stream_data::Arrived;
use crate::terms::{Components, Terms, headers};
use crate::wire::Wire;

#[allow(clippy::multiple_inherent_impl, reason = "one file for each task of a connection")]
impl Endpoint {
    /// Opens a connection: the first packet is a SYN.
    pub fn connect(
        now: Time,
        settings: Arc<Settings>,
        local: SocketAddr,
        remote: SocketAddr,
        secrets: Secrets,
    ) -> Endpoint {
        let mut endpoint = Endpoint::new(now, settings, (local, remote), secrets, Phase::SynSent);
        endpoint.with_sender(|sender, port| sender.open(now, port));
        endpoint
    }

    /// Accepts the connection that a SYN asks for: the first packet is the SYN-ACK. `None` if the
    /// packet is no SYN.
    pub fn accept(
        now: Time,
        settings: Arc<Settings>,
        syn: &[u8],
        secrets: Secrets,
    ) -> Option<Endpoint> {
        Endpoint::accept_checked(now, settings, &read(syn)?, secrets)
    }

    /// As [`accept`](Endpoint::accept), of a packet whose checksum is known to be right.
    pub(crate) fn accept_checked(
        now: Time,
        settings: Arc<Settings>,
        tcp: &TcpPacket<'_>,
        secrets: Secrets,
    ) -> Option<Endpoint> {
        let flags = tcp.flags();
        if !flags.has(Flags::SYN) || flags.any(Flags::ACK.with(Flags::RST).with(Flags::FIN)) {
            return None;
        }
        let addresses = (tcp.addressing.destination, tcp.addressing.source);
        let phase = Phase::SynReceived { passive: true };
        let mut endpoint = Endpoint::new(now, settings, addresses, secrets, phase);
        endpoint.agree(now, tcp);
        endpoint.answer_syn(now, tcp);
        Some(endpoint)
    }

    fn new(
        now: Time,
        settings: Arc<Settings>,
        (local, remote): (SocketAddr, SocketAddr),
        secrets: Secrets,
        phase: Phase,
    ) -> Endpoint {
        let offer = Terms::offer(&settings, remote.is_ipv6());
        let mut wire = Wire::new(local, remote, secrets, offer, settings.mtu);
        let window = Components::new(&settings, &offer).window;
        wire.has_drop_precedence = Hooks::of(window.methods()).marks;
        Endpoint {
            sender: sender(&settings, &offer, remote.is_ipv6()),
            settings,
            phase,
            receiver: None,
            wire,
            arrived: Arrived::default(),
            written: 0,
            close_wanted: false,
            is_released: false,
            peer_has_closed: false,
            closes_first: false,
            syn_sent: now,
            syn_ack: SynAckTimes::default(),
            has_answered: false,
            window_from: (0, 0),
            max_peer_window: 0,
            time_wait_until: Time::NEVER,
            last_arrival: now,
            keep_alive_at: Time::NEVER,
            keep_alives: 0,
            min_rtt: None,
            end: None,
            counters: Counters::default(),
        }
    }

    /// The peer's SYN has come: what it permits decides what this end does.
    fn agree(&mut self, now: Time, tcp: &TcpPacket<'_>) {
        let is_v6 = self.wire.remote.is_ipv6();
        let agreed = self.wire.offer.with(&Terms::of(tcp));
        (self.wire.peer_isn, self.wire.agreed) = (tcp.seq, Some(agreed));
        let mark = tcp.addressing.traffic_class & 3;
        self.wire.syn_mark = (agreed.ecn == Ecn::Accurate).then_some(mark);
        self.max_peer_window = tcp.window.into();
        let offer = self.wire.offer;
        let alike = Terms { window_scale: offer.window_scale, ..agreed };
        if alike != offer {
            let (config, components) = configuration(&self.settings, &agreed, is_v6);
            self.sender.renegotiate(config, &components.profile, components.window);
            let (written, close) = (self.written, self.close_wanted);
            self.with_sender(|sender, port| {
                sender.write(now, written, port);
                if close {
                    sender.close(now, port);
                }
            });
        }
        self.receiver = Some(receiver(&self.settings, &offer, &agreed, is_v6));
    }

    fn answer_syn(&mut self, now: Time, tcp: &TcpPacket<'_>) {
        let mut segment = self.arrival(tcp).segment;
        (segment.seq, segment.len) = (0, 0);
        self.with_receiver(now, |receiver, port| {
            receiver.on_segment(now, &segment, port);
        });
    }

    /// A SYN-ACK has left.
    pub(super) fn note_syn_ack(&mut self, at: Time) {
        self.syn_ack.note(at, self.has_answered);
        self.has_answered = true;
        self.syn_ack.timeouts = self.receiver.as_ref().map_or(0, |r| r.syn_ack_timeouts());
    }

    /// A packet arrives in SYN-SENT (RFC 9293, section 3.10.7.3).
    pub(super) fn on_syn_sent(&mut self, now: Time, tcp: &TcpPacket<'_>) {
        let flags = tcp.flags();
        let acks_syn = tcp.ack == self.wire.secrets.isn.wrapping_add(1);
        if flags.has(Flags::ACK) && !acks_syn {
            self.counters.unacceptable += 1;
            if !flags.has(Flags::RST) {
                self.wire.send_reset(self.offset_of(tcp.ack));
            }
        } else if flags.has(Flags::RST) {
            // Only one that acknowledges the SYN is believed (RFC 5961, section 3.2).
            match flags.has(Flags::ACK) {
                true => self.finish(End::Refused),
                false => self.counters.challenged += 1,
            }
        } else if flags.has(Flags::SYN.with(Flags::ACK)) {
            self.agree(now, tcp);
            self.open_actively(now, tcp);
        } else if flags.has(Flags::SYN) {
            self.agree(now, tcp);
            self.phase = Phase::SynReceived { passive: false };
            self.answer_syn(now, tcp);
        }
    }

    fn open_actively(&mut self, now: Time, tcp: &TcpPacket<'_>) {
        let mut segment = self.arrival(tcp).segment;
        (segment.seq, segment.len) = (0, 0);
        segment.flags = segment.flags.without(Flags::FIN);
        let syn_sent = self.syn_sent;
        self.with_receiver(now, |receiver, _| receiver.begin(now, &segment, syn_sent));
        self.open(now);
        self.send_on(now, &segment);
    }

    /// The segment `tcp` acknowledges this end's SYN, in SYN-RECEIVED.
    pub(super) fn on_syn_acknowledged(&mut self, now: Time, segment: &Segment, passive: bool) {
        self.open(now);
        let syn_ack = self.syn_ack;
        if passive {
            self.with_sender(|sender, port| sender.accept(now, segment, &syn_ack, port));
        } else {
            let flags = segment.flags.with(Flags::SYN);
            let answer = Segment { flags, seq: 0, len: 0, ack: 0, ..*segment };
            self.send_on(now, &answer);
        }
    }

    fn open(&mut self, now: Time) {
        (self.phase, self.last_arrival) = (Phase::Open, now);
    }

    fn send_on(&mut self, now: Time, segment: &Segment) {
        let options = Options::NONE;
        self.with_sender(|sender, port| sender.on_segment(now, segment, &options, port));
    }

    /// A SYN arrives when there is a connection (RFC 5961, section 4.2): only the peer's own is
    /// answered by another SYN-ACK, while that is unanswered.
    pub(super) fn on_repeated_syn(&mut self, now: Time, tcp: &TcpPacket<'_>) {
        let flags = tcp.flags();
        let same = tcp.seq == self.wire.peer_isn;
        let acks_syn = tcp.ack == self.wire.secrets.isn.wrapping_add(1);
        match self.phase {
            Phase::SynReceived { .. } if same && !flags.has(Flags::ACK) => {
                self.answer_syn(now, tcp);
            }
            Phase::SynReceived { passive: false } if same && acks_syn => {
                self.open_actively(now, tcp);
            }
            _ => self.challenge(now),
        }
    }

    /// The offset of a sequence number of this end's stream.
    pub(super) fn offset_of(&self, number: u32) -> u64 {
        let zero = self.wire.secrets.isn.wrapping_add(1);
        let una = self.sender.snd_una();
        una.wrapping_add_signed(
            i64::from(number.wrapping_sub(zero).wrapping_sub(una as u32) as i32),
        )
    }
}

/// The configuration of a sender under these terms.
fn configuration(settings: &Settings, terms: &Terms, is_v6: bool) -> (SenderConfig, Components) {
    let components = Components::new(settings, terms);
    let config = SenderConfig {
        flow: 0,
        to: 0,
        mss: terms.segment(),
        headers: headers(is_v6),
        receive_window: settings.receive_buffer,
        recovery: components.part.recovery,
        needs: components.part.needs,
        clock_phase: settings.clock_phase,
        draw: settings.draw,
    };
    (config, components)
}

fn sender(settings: &Settings, terms: &Terms, is_v6: bool) -> Sender<AnyWindow> {
    let (config, components) = configuration(settings, terms, is_v6);
    Sender::new(config, &components.profile, components.window)
}

fn receiver(settings: &Settings, offer: &Terms, agreed: &Terms, is_v6: bool) -> Receiver {
    let components = Components::new(settings, agreed);
    let is_relay = matches!(settings.relay, Some(RelayEnd::Inbound { .. }));
    // The largest window that the window field can have (RFC 7323, section 2.2).
    let shift = agreed.window_scale.and(offer.window_scale).unwrap_or(0);
    let config = ReceiverConfig {
        flow: 0,
        to: 0,
        headers: headers(is_v6),
        mss: agreed.segment(),
        buffer: settings.receive_buffer.min(u64::from(u16::MAX) << shift),
        manual_read: is_relay,
    };
    let mut receiver = Receiver::new(config, &components.profile, components.part.receiver());
    if let Some(RelayEnd::Inbound { first_window: Some(bytes) }) = settings.relay {
        receiver.begin_with(bytes);
    }
    match settings.reads_at_once || is_relay {
        true => receiver,
        false => receiver.with_manual_reading(),
    }
}
