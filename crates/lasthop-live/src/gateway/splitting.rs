//! Forwarded connections that end at the gateway and go on from there as others: the node of
//! [`Split`] on packets of the kernel's queue. No I/O and no clock.
//!
//! Both connections keep addresses, ports, initial sequence numbers and the smaller MSS of the two
//! ends, so that the ends, NAT and connection tracking see one connection. What does not belong to
//! a connection that began here passes, and so do new connections for which there is no room.

use std::collections::BTreeMap;
use std::net::IpAddr;

use lasthop::leg::Relay;
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::{Direction, Flags, Notice, NoticeKind};
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::units::{Duration, Time};
use lasthop_endpoint::{ConnectionId, Endpoint, KeepAlive, Settings};
use lasthop_wire::offload::complete_checksum;
use lasthop_wire::{NotTcp, TcpPacket, icmp_error, parse};

use super::engine::{Fate, Given, Injected};
use super::radio::RadioReport;
use super::report::{Divided, LISTED};
use super::tally::{Counts, Tally};
use crate::flows::NO_HANDSHAKE;
use crate::own_ends::leg_settings;
use crate::split::{Relays, Side, Split};
use crate::summary::count;

/// Buffers of a connection for data that no relay controls, bytes.
const BUFFER: usize = 1 << 20;
/// Idle connections are probed as by Linux (`tcp_keepalive_time`, `_intvl`, `_probes`), so that the
/// table does not fill with connections whose ends have gone.
const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::secs(7200), interval: Duration::secs(75), probes: 9 };
/// Why connections pass that could have been divided.
const FULL: &str = "connection for which the table had no room";

/// The connections that end here.
pub(super) struct Splitting {
    split: Split,
    max_connections: usize,
    counts: Counts,
    /// Connections that were reset because packets had passed them.
    reset: u64,
    /// State of the radio link as last reported, by mobile.
    is_up: BTreeMap<Option<IpAddr>, bool>,
}

impl Splitting {
    /// A node for at most `max_connections` connections, with this relay of the scheme as their
    /// model.
    pub(super) fn new(
        choice: &SchemeChoice,
        relay: &dyn Relay,
        max_connections: usize,
    ) -> Splitting {
        let profile = Profile::named(ProfileName::Linux).without_send_buffer();
        let own = Settings {
            receive_buffer: BUFFER as u64,
            send_buffer: BUFFER,
            keep_alive: Some(KEEP_ALIVE),
            ..Settings::new(choice.clone(), profile)
        };
        let (inbound, outbound) = leg_settings(&own, 0, relay);
        let relays = Relays::new(choice.clone(), Side::Server);
        Splitting {
            split: Split::new(inbound, outbound).with_relays(relays),
            max_connections,
            counts: Counts::default(),
            reset: 0,
            is_up: BTreeMap::new(),
        }
    }

    /// Takes a packet of a connection that ends here; what leaves because of it is appended to
    /// `out`.
    pub(super) fn packet(
        &mut self,
        now: Time,
        direction: Direction,
        given: Given<'_>,
        out: &mut Vec<Injected>,
    ) -> Fate {
        self.counts.packets += 1;
        let side = match direction {
            Direction::Downlink => Side::Server,
            Direction::Uplink => Side::Mobile,
        };
        let fate = match self.take(now, side, given) {
            Ok(()) => {
                self.counts.shown += 1;
                Fate::Dropped
            }
            Err(reason) => {
                count(&mut self.counts.untouched, reason);
                Fate::Accepted
            }
        };
        self.send(out);
        fate
    }

    fn take(&mut self, now: Time, side: Side, given: Given<'_>) -> Result<(), &'static str> {
        let tcp = match parse(given.bytes) {
            Ok(tcp) => tcp,
            Err(reason) => return Err(self.take_error(now, side, given.bytes, reason)),
        };
        if tcp.payload.len() < tcp.payload_len as usize {
            return Err("longer than the kernel hands over");
        }
        let id = ConnectionId { local: tcp.addressing.destination, remote: tcp.addressing.source };
        let flags = tcp.flags();
        if !self.split.has(side, id) {
            let asks = flags.has(Flags::SYN) && !flags.any(Flags::ACK.with(Flags::RST));
            if !asks {
                return Err(NO_HANDSHAKE);
            }
            if self.split.len() >= self.max_connections || self.split.is_opening_full() {
                return Err(FULL);
            }
        }
        if flags.has(Flags::SYN) && given.lacks_checksum {
            // It is kept until the other side has answered.
            let mut packet = given.bytes.to_vec();
            complete_checksum(&mut packet, tcp.tcp_at);
            self.split.packet(now, side, &packet);
        } else if given.lacks_checksum || given.is_gso {
            // It comes from this machine's memory, or its parts have been checked.
            self.checked(now, side, &tcp, given.bytes);
        } else {
            self.split.packet(now, side, given.bytes);
        }
        Ok(())
    }

    fn checked(&mut self, now: Time, side: Side, tcp: &TcpPacket<'_>, bytes: &[u8]) {
        self.split.checked_packet(now, side, tcp, bytes);
    }

    /// What is none of TCP passes. An error about a segment also concerns the end that has sent it.
    fn take_error(&mut self, now: Time, side: Side, bytes: &[u8], reason: NotTcp) -> &'static str {
        let Some(error) = icmp_error(bytes) else { return reason.reason() };
        let id = ConnectionId { local: error.source, remote: error.destination };
        if self.split.has(side, id) {
            self.split.packet(now, side, bytes);
            return "ICMP error about a segment";
        }
        reason.reason()
    }

    /// Runs the timers that expire until `now`.
    pub(super) fn step(&mut self, now: Time, out: &mut Vec<Injected>) {
        if self.split.next() <= now {
            self.split.timer(now);
            self.send(out);
        }
    }

    /// When the next timer expires.
    pub(super) fn next(&self) -> Time {
        self.split.next()
    }

    /// Resets all connections: packets have passed them, or nobody will carry them on.
    pub(super) fn reset(&mut self, now: Time, out: &mut Vec<Injected>) {
        self.reset += self.split.abort(now);
        self.send(out);
    }

    /// The radio link has reported its state: the relays of its connections get it as the notices
    /// of their scheme. The connections that have data in flight share rate and queue, the queue in
    /// proportion to these.
    pub(super) fn radio(&mut self, now: Time, report: &RadioReport, out: &mut Vec<Injected>) {
        let flights: Vec<(ConnectionId, u64)> =
            self.split.flights().filter(|(id, _)| report.concerns(id.remote.ip())).collect();
        let total: u64 = flights.iter().map(|flight| flight.1).sum();
        let sharers = flights.iter().filter(|flight| flight.1 > 0).count().max(1) as u64;
        let is_up = report.rate.map(|rate| rate.0 > 0);
        let before = is_up.and_then(|is_up| self.is_up.insert(report.mobile, is_up));
        let changed = is_up.filter(|is_up| before.unwrap_or(true) != *is_up);
        for (id, flight) in flights {
            let queue = report.queue.map(|bytes| match total {
                0 => 0,
                _ => (u128::from(bytes) * u128::from(flight) / u128::from(total)) as u64,
            });
            // A queue reported together with the end of an outage says what was not lost in it.
            let notices = [
                (NoticeKind::Queue, queue),
                (NoticeKind::Bandwidth, report.rate.map(|rate| rate.0 / sharers)),
                (NoticeKind::Link, changed.map(u64::from)),
            ];
            for (kind, value) in notices {
                let Some(value) = value else { continue };
                let notice = Notice { kind, flow: 0, value, stamp: now };
                self.split.notice(now, Side::Mobile, id, &notice);
            }
        }
        self.send(out);
    }

    fn send(&mut self, out: &mut Vec<Injected>) {
        for (side, direction) in
            [(Side::Server, Direction::Uplink), (Side::Mobile, Direction::Downlink)]
        {
            while let Some(bytes) = self.split.outgoing(side) {
                let Ok(tcp) = parse(&bytes) else { continue };
                let to = tcp.addressing.destination.ip();
                self.counts.injected += 1;
                out.push(Injected { direction, to, bytes });
            }
        }
    }

    /// The connections that are divided now; at most [`LISTED`].
    pub(super) fn divided(&self) -> Vec<Divided> {
        let ends = self.split.ends().take(LISTED);
        ends.map(|(mobile, to_mobile, to_server)| {
            let (server, mobile) = (mobile.local, mobile.remote);
            let waiting = to_server.map_or(0, Endpoint::readable) as u64;
            Divided {
                mobile,
                server,
                to_mobile: to_mobile.state().name(),
                to_server: to_server.map(|end| end.state().name()),
                held: waiting + to_mobile.unacknowledged(),
                in_flight: to_mobile.in_flight(),
                min_rtt_s: to_mobile.min_rtt().map(Duration::as_secs),
            }
        })
        .collect()
    }

    /// What was counted.
    pub(super) fn tally(&self) -> Tally {
        let relays = self.split.relays().map(Relays::totals).unwrap_or_default();
        let reset = [("connections_reset", self.reset)];
        Tally {
            counts: self.counts.clone(),
            connections: self.split.len() as u64,
            seen: self.split.connections(),
            agent: relays.into_iter().chain(reset).collect(),
            ..Tally::default()
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test may panic")]
mod tests;
