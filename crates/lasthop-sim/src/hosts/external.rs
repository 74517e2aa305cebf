//! An external stack: a protocol that lasthop does not know, at both ends of a flow. It has its own
//! bytes, timers and congestion control, and shares the links with the other flows.

use std::collections::VecDeque;
use std::time::Duration;

use lasthop::segment::{Flags, Handle, NodeId, Payload, Segment};
use lasthop::units::Time;

use crate::engine::scheduler::Source;
use crate::events::probe::Probe;
use crate::network::Net;

/// One end of an external stack, as a state machine without clock, sockets and threads.
///
/// Time is what has passed since the start of the run. The simulator calls an end when its flow
/// starts, when a datagram arrives and when its timeout comes: first [`handle`](Endpoint::handle)
/// or [`handle_timeout`](Endpoint::handle_timeout), then
/// [`poll_transmit`](Endpoint::poll_transmit) until there is nothing more to send, then
/// [`next_timeout`](Endpoint::next_timeout).
///
/// # Examples
///
/// A sender of a datagram per 10 ms, which counts the answers:
///
/// ```
/// use std::time::Duration;
///
/// use lasthop_sim::hosts::external::{Datagram, Endpoint};
///
/// #[derive(Default)]
/// struct Prober {
///     next: Duration,
///     answers: u32,
/// }
///
/// impl Endpoint for Prober {
///     fn handle(&mut self, _datagram: Datagram, _now: Duration) {
///         self.answers += 1;
///     }
///
///     fn poll_transmit(&mut self, now: Duration) -> Option<Datagram> {
///         (now >= self.next).then(|| {
///             self.next += Duration::from_millis(10);
///             Datagram::new(vec![0; 100])
///         })
///     }
///
///     fn next_timeout(&mut self) -> Option<Duration> {
///         Some(self.next)
///     }
/// }
///
/// let mut prober = Prober::default();
/// assert!(prober.poll_transmit(Duration::ZERO).is_some());
/// assert!(prober.poll_transmit(Duration::ZERO).is_none());
/// assert_eq!(prober.next_timeout(), Some(Duration::from_millis(10)));
/// ```
pub trait Endpoint {
    /// A datagram arrives.
    fn handle(&mut self, datagram: Datagram, now: Duration);

    /// The next datagram to send now; `None` if there is none before the next call of `handle` or
    /// `handle_timeout`.
    fn poll_transmit(&mut self, now: Duration) -> Option<Datagram>;

    /// When to call this end if nothing arrives before; a time in the past counts as now. `None`:
    /// never.
    fn next_timeout(&mut self) -> Option<Duration>;

    /// The time of `next_timeout` has come. A stack whose `poll_transmit` looks at its timers does
    /// not need it.
    fn handle_timeout(&mut self, now: Duration) {
        let _ = now;
    }
}

/// What ends of external stacks exchange: any bytes, and the ECN field of the IP header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// The bytes, at most 65535 with the headers.
    pub bytes: Vec<u8>,
    /// The ECN field.
    pub ecn: Ecn,
}

impl Datagram {
    /// A datagram that is not ECN-capable.
    pub fn new(bytes: Vec<u8>) -> Datagram {
        Datagram { bytes, ecn: Ecn::NotEct }
    }
}

/// The ECN field of the IP header (RFC 3168 section 5); the values are its two bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable: queues drop instead of marking.
    #[default]
    NotEct = 0,
    /// ECN-capable, ECT(1).
    Ect1 = 1,
    /// ECN-capable, ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The flags of a packet with this field.
    fn flags(self) -> Flags {
        match self {
            Ecn::NotEct => Flags::DATAGRAM,
            Ecn::Ect0 => Flags::DATAGRAM.with(Flags::ECT),
            Ecn::Ect1 => Flags::DATAGRAM.with(Flags::ECT).with(Flags::ECT1),
            Ecn::Ce => Flags::DATAGRAM.with(Flags::ECT).with(Flags::CE),
        }
    }

    /// The field of a packet that arrives, sent with the field `bits`.
    fn arrived(bits: u32, flags: Flags) -> Ecn {
        match bits {
            _ if flags.has(Flags::CE) => Ecn::Ce,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            3 => Ecn::Ce,
            _ => Ecn::NotEct,
        }
    }
}

/// The largest IP packet, bytes.
const LARGEST: usize = 65_535;
/// More datagrams than that at one instant are taken for an endless loop.
const MOST_DATAGRAMS: u32 = 1_000_000;
/// More timeouts than that at one instant are taken for an endless loop.
const MOST_TIMEOUTS: u32 = 1_000;
/// More timeouts than that within a second, in which its end neither sends nor receives, are taken
/// for an endless loop.
const MOST_IDLE_TIMEOUTS: u32 = 1_000_000;

/// One end of an external stack at its node.
pub struct ExternalHost {
    /// Node of the end.
    node: NodeId,
    /// What its datagrams have in common.
    datagram: Segment,
    /// Bytes of headers that the links carry with each datagram.
    headers: u32,
    /// When the flow stops.
    stop: Time,
    source: Source,
    started: bool,
    /// Its timeout has come.
    due: bool,
    arrived: VecDeque<Datagram>,
    sent: u64,
    /// The last instant at which its timeout came, and how often it came then.
    last: (Time, u32),
    /// The first timeout since it sent or received, at most a second ago, and how many came since.
    idle: (Time, u32),
    failure: Option<String>,
}

impl ExternalHost {
    /// The end with this number, before its start. Its datagrams are like `datagram`.
    pub(crate) fn new(
        end: u32,
        node: NodeId,
        datagram: Segment,
        headers: u32,
        stop: Time,
        source: Source,
    ) -> ExternalHost {
        // The ends of a flow have the numbers 2n and 2n + 1.
        let datagram = Segment { payload: Payload((end ^ 1) + 1), ..datagram };
        ExternalHost {
            node,
            datagram,
            headers,
            stop,
            source,
            started: false,
            due: false,
            arrived: VecDeque::new(),
            sent: 0,
            last: (Time::ZERO, 0),
            idle: (Time::ZERO, 0),
            failure: None,
        }
    }

    /// Index of its flow.
    pub(crate) fn flow(&self) -> u32 {
        self.datagram.flow
    }

    /// Its event source.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Why it is called no more, if it has misbehaved.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Its flow starts, or its timeout comes.
    pub(crate) fn timer_expired<P: Probe>(&mut self, net: &mut Net<P>) {
        net.scheduler.clear(self.source);
        self.due = self.started;
        self.started = true;
    }

    /// A datagram arrives at its node. `handle` has just been freed.
    pub(crate) fn receive<P: Probe>(
        &mut self,
        segment: &Segment,
        handle: Handle,
        net: &mut Net<P>,
    ) {
        net.probes.external_received(net.now, segment);
        let bytes = net.pool.take_bytes(handle);
        let ecn = Ecn::arrived(segment.window, segment.flags);
        self.arrived.push_back(Datagram { bytes, ecn });
    }

    /// Calls the external stack with what has happened, and sends what it wants to send.
    #[inline(never)]
    pub(crate) fn call<P: Probe>(&mut self, endpoint: &mut dyn Endpoint, net: &mut Net<P>) {
        if self.failure.is_some() || net.now >= self.stop {
            return self.arrived.clear();
        }
        let now = Duration::from_nanos(net.now.0);
        if std::mem::take(&mut self.due) {
            if let Some(why) = self.caught_in_timeouts(net.now) {
                return self.fail(net, why);
            }
            endpoint.handle_timeout(now);
        }
        while let Some(datagram) = self.arrived.pop_front() {
            self.idle.1 = 0;
            endpoint.handle(datagram, now);
        }
        let mut count = 0;
        while let Some(datagram) = endpoint.poll_transmit(now) {
            count += 1;
            if count > MOST_DATAGRAMS {
                return self.fail(net, &format!("it sends more than {MOST_DATAGRAMS} datagrams"));
            }
            let len = datagram.bytes.len();
            if len + self.headers as usize > LARGEST {
                return self.fail(net, &format!("its datagram of {len} bytes is too long for IP"));
            }
            self.send(datagram, net);
        }
        match endpoint.next_timeout() {
            Some(at) => {
                let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX).max(net.now.0);
                net.schedule(self.source, (Time(at), net.now));
            }
            None => net.scheduler.clear(self.source),
        }
    }

    fn send<P: Probe>(&mut self, datagram: Datagram, net: &mut Net<P>) {
        let Datagram { bytes, ecn } = datagram;
        let len = bytes.len() as u32;
        let segment = Segment {
            id: net.new_id(),
            seq: self.sent,
            ack: net.now.0,
            len,
            size: len + self.headers,
            window: ecn as u32,
            flags: ecn.flags(),
            ..self.datagram
        };
        self.sent += 1;
        self.idle.1 = 0;
        net.probes.external_sent(net.now, self.node, &segment);
        let handle = net.pool.put_datagram(segment, bytes);
        net.forward(self.node, handle);
    }

    /// A timeout comes. Returns what is wrong if too many have come.
    fn caught_in_timeouts(&mut self, now: Time) -> Option<&'static str> {
        let count = if self.last.0 == now { self.last.1 + 1 } else { 0 };
        self.last = (now, count);
        if self.idle.1 == 0 || now.0 - self.idle.0.0 >= 1_000_000_000 {
            self.idle = (now, 0);
        }
        self.idle.1 += 1;
        if count > MOST_TIMEOUTS {
            return Some("its timeout does not move on");
        }
        (self.idle.1 > MOST_IDLE_TIMEOUTS)
            .then_some("a million timeouts in a second, without a datagram")
    }

    #[cold]
    fn fail<P>(&mut self, net: &mut Net<P>, why: &str) {
        net.scheduler.clear(self.source);
        let end = if self.datagram.forward { "sender" } else { "receiver" };
        let at = Duration::from_nanos(net.now.0);
        self.failure = Some(format!("external {end} at {at:?}: {why}"));
    }
}
