//! The two ends of a TCP connection, and what is measured between them.

use lasthop::histogram::Histogram;
use lasthop::ring::Ring;
use lasthop::schemes::catalogue::AnyWindow;
use lasthop::segment::{NodeId, Options, Segment};
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::{Limit, Sender};
use lasthop::units::{Duration, Time};

use crate::events::{Event, Kind, Observer};
use crate::network::{Net, Port};

use crate::engine::scheduler::Source;

/// When the bytes of a stream were written by the application; for endless flows, when they were
/// first sent.
#[derive(Clone, Debug, Default)]
pub struct WriteTimes {
    log: Ring<(u64, Time)>,
}

impl WriteTimes {
    /// The bytes up to `end` were written at `t`.
    #[inline]
    pub fn push(&mut self, end: u64, t: Time) {
        self.log.push((end, t));
    }

    /// The bytes `[from, from + count)` are delivered at `now`; their delays are recorded in
    /// `delays`.
    #[inline]
    pub fn deliver(&mut self, from: u64, count: u64, now: Time, delays: Option<&mut Histogram>) {
        match (self.log.front(), delays) {
            // In most cases the bytes of one write arrive together.
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

/// A TCP connection.
pub struct Connection {
    /// Data sender.
    pub sender: Sender<AnyWindow>,
    /// Data receiver.
    pub receiver: Receiver,
    /// Node of the sender.
    pub from: NodeId,
    /// Node of the receiver.
    pub to: NodeId,
    /// Index of its flow.
    pub flow: u32,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Smallest round-trip time sample so far.
    pub min_rtt: Option<Duration>,
    /// True for the second half of a split connection, whose sender is the relay's.
    pub second_half: bool,
    /// What limits its sender.
    pub limit: Limit,
    /// The write time of a byte is the time of its first transmission (endless flows).
    pub written_when_sent: bool,
    /// Event source of the sender's timer; the receiver's is the next number.
    pub timers: Source,
    /// Time of the scheduler entry of the sender's timer, at or before its deadline; `NEVER` if
    /// there is none.
    pub sender_entry: Time,
    /// The same for the receiver's timer.
    pub receiver_entry: Time,
}

/// Measurements of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowStats {
    /// In-order payload bytes delivered in the measured time.
    pub delivered: u64,
    /// In-order payload bytes delivered since the start of the run.
    pub delivered_total: u64,
    /// When the first byte was delivered.
    pub first_byte: Option<Time>,
    /// When the last byte of a finite transfer was delivered.
    pub completed: Option<Time>,
    /// Round-trip time samples in the measured time.
    pub rtt: Histogram,
    /// Delay of each byte from its write to its delivery.
    pub delay: Histogram,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Datagrams sent in the measured time.
    pub datagrams_measured: u64,
}

impl Connection {
    /// Runs `act` on the sender, with a port to the network. Afterwards emits the events of its
    /// state and updates its timer.
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
        let write_times = self.written_when_sent.then_some(write_times);
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
        update_timer(net, self.timers, deadline, armed, &mut self.sender_entry);
        let limit = self.sender.limited_by();
        if limit != self.limit {
            self.limit = limit;
            net.limits[self.flow as usize].sender(now, self.second_half, limit);
        }
        if let Some((window, counters)) = before {
            let after = self.sender.window();
            let mut emit = |kind, value| {
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
                emit(Kind::Timeout, 1.0);
            }
            // A packet list may detect several losses at once; each is a separate event.
            for _ in counters.fast_retransmits..self.sender.counters().fast_retransmits {
                emit(Kind::FastRetransmit, 1.0);
            }
            if self.sender.counters().undone > counters.undone {
                emit(Kind::Undone, 1.0);
            }
            if after.ssthresh != window.ssthresh {
                emit(Kind::Ssthresh, after.ssthresh);
            }
            if after.cwnd != window.cwnd {
                emit(Kind::Cwnd, after.cwnd);
            }
        }
    }

    /// Runs `act` on the receiver, with a port to the network. Afterwards updates its timer.
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
        update_timer(port.net, self.timers + 1, deadline, armed, &mut self.receiver_entry);
        result
    }

    /// Passes a segment to the receiver. Returns the range of bytes that became available in order:
    /// the first byte and their number.
    #[inline]
    pub fn receive<R: Observer>(&mut self, net: &mut Net<R>, segment: &Segment) -> (u64, u64) {
        let mut had = false;
        if segment.len > 0 {
            had = self.receiver.has(segment.seq, segment.end());
            let spurious = net.connection_info[segment.flow as usize].ground_truth.arrived(
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

/// Lazy timers: an entry before the deadline remains and is moved when it comes up.
#[inline]
fn update_timer<R: Observer>(
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
