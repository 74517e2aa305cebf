//! Segments as the packets of one connection.

use std::collections::VecDeque;
use std::net::SocketAddr;

use etherparse::TcpHeader;
use lasthop::segment::{Flags, Options, Segment};
use lasthop_wire::options::{OptionBytes, TcpOption};
use lasthop_wire::render::{TTL, ecn_field};
use lasthop_wire::{
    Addressing, HIGH_DROP_PRECEDENCE, LOW_DROP_PRECEDENCE, Numbering, Patch, assemble, patch,
};

use crate::ecn::{self, Ecn};
use crate::isn::Secrets;
use crate::stream_data::Unacknowledged;
use crate::terms::{Terms, headers};

/// The smallest path MTUs that an ICMP error may set (Linux `ip_rt_min_pmtu`; RFC 8201, section 4).
const LEAST_MTU: [u32; 2] = [552, 1280];

/// What the packets of a connection are made of.
#[derive(Debug)]
pub(crate) struct Wire {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub secrets: Secrets,
    /// The peer's initial sequence number.
    pub peer_isn: u32,
    /// What this end offers, and what holds once the peer's SYN has come.
    pub offer: Terms,
    pub agreed: Option<Terms>,
    /// Largest packet of the path, bytes.
    pub path_mtu: u32,
    /// The bytes of this end's stream.
    pub data: Unacknowledged,
    /// The ECN field of the peer's SYN or SYN-ACK, for the next ACK or SYN-ACK to tell (AccECN).
    pub syn_mark: Option<u8>,
    /// SYNs sent without an answer.
    pub syns: u32,
    /// Its data have one of two drop precedences.
    pub has_drop_precedence: bool,
    /// Packets to be sent.
    pub outgoing: VecDeque<Vec<u8>>,
}

impl Wire {
    pub fn new(
        local: SocketAddr,
        remote: SocketAddr,
        secrets: Secrets,
        offer: Terms,
        mtu: u32,
    ) -> Wire {
        Wire {
            local,
            remote,
            secrets,
            peer_isn: 0,
            offer,
            agreed: None,
            path_mtu: mtu,
            data: Unacknowledged::default(),
            syn_mark: None,
            syns: 0,
            has_drop_precedence: false,
            outgoing: VecDeque::new(),
        }
    }

    fn is_v6(&self) -> bool {
        self.remote.is_ipv6()
    }

    /// Sends a segment. One that is larger than the path or the peer permits leaves as several: the
    /// frames of segmentation offload, and what was cut before the path's MTU was known.
    pub fn send(&mut self, mut segment: Segment, options: &Options) {
        if segment.flags.has(Flags::TIMESTAMPS) {
            segment.ts_value = segment.ts_value.wrapping_add(self.secrets.timestamp_offset);
        }
        if segment.flags.has(Flags::SYN) {
            return self.send_syn(&segment);
        }
        let mut tcp = self.numbering().tcp_header_with(&segment, options);
        if let Some(mark) = self.syn_mark.take().filter(|_| segment.len == 0) {
            ecn::set_count(&mut tcp, ecn::handshake_count(mark));
        }
        let largest = self.largest_payload(tcp.options.len() as u32);
        let (mut seq, mut left) = (segment.seq, segment.len);
        loop {
            let part = left.min(largest);
            let last = part == left;
            let flags = if last { segment.flags } else { segment.flags.without(Flags::FIN) };
            let mut tcp = tcp.clone();
            let skipped = seq.wrapping_sub(segment.seq) as u32;
            tcp.sequence_number = tcp.sequence_number.wrapping_add(skipped);
            tcp.fin = flags.has(Flags::FIN);
            // The end of what the application has written (RFC 9293, section 3.9.1.2).
            tcp.psh = part > 0 && seq + u64::from(part) == self.data.end();
            let payload = if part > 0 { self.data.copy(seq, part) } else { Vec::new() };
            self.push(&tcp, flags, &payload);
            (seq, left) = (seq.wrapping_add(u64::from(part)), left - part);
            if last {
                return;
            }
        }
    }

    /// Payload of a packet with this number of bytes of options.
    fn largest_payload(&self, options: u32) -> u32 {
        let agreed = self.agreed.unwrap_or(self.offer);
        let path = self.path_mtu.saturating_sub(headers(self.is_v6()));
        u32::from(agreed.mss).min(path).saturating_sub(options).max(1)
    }

    /// An ICMP error says that packets of more than `mtu` bytes do not pass; 0: it does not say how
    /// large they may be (RFC 1191, section 5: the next smaller plateau; here the smallest MTU).
    /// True if the path's MTU has become smaller.
    pub fn limit_path(&mut self, mtu: u32) -> bool {
        let [v4, v6] = LEAST_MTU;
        let mtu = mtu.max(if self.is_v6() { v6 } else { v4 });
        let smaller = mtu < self.path_mtu;
        self.path_mtu = self.path_mtu.min(mtu);
        smaller
    }

    fn numbering(&self) -> Numbering {
        let scaled = self.agreed.is_some_and(|agreed| agreed.window_scale.is_some());
        Numbering {
            seq_zero: self.secrets.isn.wrapping_add(1),
            ack_zero: self.peer_isn.wrapping_add(1),
            window_scale: if scaled { self.offer.window_scale.unwrap_or(0) } else { 0 },
        }
    }

    /// A SYN offers, a SYN-ACK agrees.
    fn send_syn(&mut self, segment: &Segment) {
        let is_answer = segment.flags.has(Flags::ACK);
        let terms = self.agreed.filter(|_| is_answer).unwrap_or(self.offer);
        let stamps = TcpOption::Timestamps {
            value: segment.ts_value,
            echo: if is_answer { segment.ts_echo } else { 0 },
        };
        let scale = self.offer.window_scale.filter(|_| terms.window_scale.is_some());
        let offered = [
            Some(TcpOption::MaximumSegmentSize(self.offer.mss)),
            terms.sack.then_some(TcpOption::SackPermitted),
            terms.timestamps.then_some(stamps),
            scale.map(TcpOption::WindowScale),
        ];
        let mut options = OptionBytes::default();
        // Cannot fail: they have 19 bytes.
        offered.into_iter().flatten().for_each(|o| options.push(o).unwrap_or_default());
        let mut tcp = self.numbering().tcp_header(segment);
        tcp.set_options_raw(options.padded()).unwrap_or_default();
        self.syns += u32::from(!is_answer);
        let count = match (terms.ecn, is_answer) {
            (Ecn::Accurate, true) => ecn::handshake_count(self.syn_mark.unwrap_or(0)),
            (ecn, true) => ecn.answer(),
            (_, false) if self.syns > ecn::SYNS => 0,
            (ecn, false) => ecn.offer(),
        };
        ecn::set_count(&mut tcp, count);
        self.push(&tcp, segment.flags, &[]);
    }

    /// A reset with this sequence number, for an ACK that is not acceptable (RFC 9293, section
    /// 3.5.2).
    pub fn send_reset(&mut self, seq: u64) {
        let tcp = TcpHeader {
            sequence_number: self.numbering().seq_zero.wrapping_add(seq as u32),
            rst: true,
            ..TcpHeader::default()
        };
        self.push(&tcp, Flags::RST, &[]);
    }

    fn push(&mut self, tcp: &TcpHeader, flags: Flags, payload: &[u8]) {
        let precedence = match flags.has(Flags::LOW_PRIORITY) {
            _ if payload.is_empty() || !self.has_drop_precedence => 0,
            true => HIGH_DROP_PRECEDENCE,
            false => LOW_DROP_PRECEDENCE,
        };
        let addressing = Addressing {
            source: self.local,
            destination: self.remote,
            hop_limit: TTL,
            traffic_class: precedence | ecn_field(flags),
            flow_label: 0,
        };
        let mut packet = assemble(&addressing, tcp, payload);
        if flags.has(Flags::ELN) {
            // Cannot fail: the packet is TCP.
            patch(&mut packet, Patch { eln: true, ..Patch::default() }).unwrap_or_default();
        }
        self.outgoing.push_back(packet);
    }
}
