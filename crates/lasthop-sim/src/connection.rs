//! The two ends of a TCP connection, and what is measured between them.

use lasthop::histogram::Histogram;
use lasthop::ring::Ring;
use lasthop::schemes::catalogue::AnyWindow;
use lasthop::segment::{NodeId, Options, Segment};
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::{Limit, Sender};
use lasthop::units::{Duration, Time};

use crate::events::{Event, Kind, Observer};
use crate::net::{Net, Port};

use crate::scheduler::Source;

/// When the bytes of a stream were born: written by the application, or (endless flows) first sent.
#[derive(Clone, Debug, Default)]
pub struct WriteTimes {
    log: Ring<(u64, Time)>,
}

impl WriteTimes {
    /// Bytes up to `end` were born at `t`.
    #[inline]
    pub fn push(&mut self, end: u64, t: Time) {
        self.log.push((end, t));
    }

    /// Bytes [from, from + count) are delivered at `now`: their ages go into `delays`.
    #[inline]
    pub fn deliver(&mut self, from: u64, count: u64, now: Time, delays: Option<&mut Histogram>) {
        match (self.log.front(), delays) {
            // What was born together mostly arrives together.
            (Some(&(end, written_at)), Some(delays)) if end == from + count => {
                delays.record(now - written_at, count);
                self.log.pop();
            }
            (_, delays) => self.deliver_pieces(from, from + count, now, delays),
        }
    }

    #[inline(never)]
    fn deliver_pieces(
        &mut self,
        mut at: u64,
        to: u64,
        now: Time,
        mut delays: Option<&mut Histogram>,
    ) {
        while at < to {
            let Some(&(end, written_at)) = self.log.front() else { return };
            let part = end.min(to).saturating_sub(at);
            if let Some(delays) = &mut delays {
                delays.record(now - written_at, part);
            }
            at += part;
            if end > to {
                return;
            }
            self.log.pop();
        }
    }
}

/// A connection.
pub struct Connection {
    /// Data sender.
    pub sender: Sender<AnyWindow>,
    /// Data receiver.
    pub receiver: Receiver,
    /// Node of the sender.
    pub from: NodeId,
    /// Node of the receiver.
    pub to: NodeId,
    /// The flow it belongs to.
    pub flow: u32,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Smallest round-trip time sample.
    pub min_rtt: Option<Duration>,
    /// It is the second half of a split one: its sender is a relay's.
    pub second: bool,
    /// What limits its sender.
    pub limit: Limit,
    /// First sendings are births.
    pub births_by_sending: bool,
    /// Source of the sender's timer; the receiver's is the next one.
    pub timers: Source,
    /// When the scheduler looks at the sender's timer, at the latest when it is due; `NEVER` if it
    /// does not.
    pub sender_entry: Time,
    /// The same for the receiver's.
    pub receiver_entry: Time,
}

/// What is measured of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowStats {
    /// In-order payload bytes in the measured time.
    pub delivered: u64,
    /// In-order payload bytes in all.
    pub delivered_ever: u64,
    /// When the first byte was delivered.
    pub first_byte: Option<Time>,
    /// When the last byte of a finite transfer was delivered.
    pub completed: Option<Time>,
    /// Round-trip time samples.
    pub rtt: Histogram,
    /// Age of each byte when it is delivered.
    pub delay: Histogram,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Those of them in the measured time.
    pub datagrams_measured: u64,
}

impl Connection {
    /// Runs `act` on the sender, with its way into the network; afterwards reports and timers are
    /// brought up to date.
    #[inline]
    pub fn with_sender<R: Observer>(
        &mut self,
        net: &mut Net<R>,
        write_times: &mut WriteTimes,
        act: impl FnOnce(&mut Sender<AnyWindow>, Time, &mut Port<'_, R>),
    ) {
        let before =
            if R::ACTIVE { Some((self.sender.window(), self.sender.counters())) } else { None };
        let now = net.now;
        let write_times = self.births_by_sending.then_some(write_times);
        let connection = self.sender.flow();
        let mut port = Port {
            net,
            node: self.from,
            receiver: Some(&self.receiver),
            write_times,
            connection: Some(connection),
        };
        act(&mut self.sender, now, &mut port);
        let net = port.net;
        let (deadline, armed) = self.sender.deadline();
        keep_timer(net, self.timers, deadline, armed, &mut self.sender_entry);
        let limit = self.sender.limited_by();
        if limit != self.limit {
            self.limit = limit;
            net.limits[self.flow as usize].sender(now, self.second, limit);
        }
        if let Some((window, counters)) = before {
            let after = self.sender.window();
            let mut tell = |kind, value| {
                let (node, options) = (self.from, &Options::NONE);
                net.reader.on_event(&Event {
                    t: now,
                    node,
                    link: None,
                    flow: self.flow,
                    kind,
                    segment: None,
                    options,
                    reason: "",
                    value,
                });
            };
            if self.sender.counters().timeouts > counters.timeouts {
                tell(Kind::Timeout, 1.0);
            }
            // A packet list may find several losses at once, each an event of its own.
            for _ in counters.fast_retransmits..self.sender.counters().fast_retransmits {
                tell(Kind::FastRetransmit, 1.0);
            }
            if self.sender.counters().undone > counters.undone {
                tell(Kind::Undone, 1.0);
            }
            if after.ssthresh != window.ssthresh {
                tell(Kind::Ssthresh, after.ssthresh);
            }
            if after.cwnd != window.cwnd {
                tell(Kind::Cwnd, after.cwnd);
            }
        }
    }

    /// Runs `act` on the receiver, likewise.
    #[inline]
    pub fn with_receiver<R: Observer, T>(
        &mut self,
        net: &mut Net<R>,
        act: impl FnOnce(&mut Receiver, Time, &mut Port<'_, R>) -> T,
    ) -> T {
        let now = net.now;
        let connection = self.sender.flow();
        let mut port = Port {
            net,
            node: self.to,
            receiver: None,
            write_times: None,
            connection: Some(connection),
        };
        let result = act(&mut self.receiver, now, &mut port);
        let (deadline, armed) = self.receiver.deadline();
        keep_timer(port.net, self.timers + 1, deadline, armed, &mut self.receiver_entry);
        result
    }

    /// The receiver's end takes a segment. Returns the in-order bytes it made available.
    #[inline]
    pub fn receive<R: Observer>(&mut self, net: &mut Net<R>, segment: &Segment) -> (u64, u64) {
        let mut had = false;
        if segment.len > 0 {
            had = self.receiver.has(segment.seq, segment.end());
            let spurious = net.connection_info[segment.flow as usize].truth.arrived(
                net.now,
                segment.seq,
                segment.attempt,
            );
            if R::ACTIVE && spurious > 0 {
                net.emit(Kind::Spurious, self.to, None, segment, "", f64::from(spurious));
            }
        }
        net.emit(Kind::DataReceived, self.to, None, segment, "", 0.0);
        let delivered =
            self.with_receiver(net, |receiver, now, port| receiver.on_segment(now, segment, port));
        let ledger = &mut net.ledger.now;
        *(if segment.len == 0 {
            &mut ledger.control
        } else if !had && (delivered.1 > 0 || self.receiver.has(segment.seq, segment.end())) {
            &mut ledger.data
        } else {
            &mut ledger.duplicates
        }) += u64::from(segment.size);
        delivered
    }
}

/// Lazy timers: an entry that is early enough stays; it is moved when it comes up.
#[inline]
fn keep_timer<R: Observer>(
    net: &mut Net<R>,
    source: Source,
    deadline: Time,
    armed: Time,
    entry: &mut Time,
) {
    if deadline < *entry {
        net.scheduler.set(source, deadline.0, armed.0);
        *entry = deadline;
    }
}
