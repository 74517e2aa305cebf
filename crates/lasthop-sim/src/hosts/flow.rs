//! The application of a flow: when it writes, and when its transfer is complete.

use lasthop::segment::{NodeId, Segment};
use lasthop::traffic::{AppState, Do, Playback};
use lasthop::units::{Duration, Time};

use crate::engine::scheduler::Source;
use crate::events::probe::Probe;
use crate::hosts::reader::ReaderHost;
use crate::network::Net;

/// A flow: its application, and the connections and relay that carry its data.
pub struct FlowHost {
    /// Index of the flow.
    index: u32,
    app: AppState,
    /// Index of its first connection (the sender's); `None` for datagrams.
    first: Option<u32>,
    /// Index of its last connection (the receiver's); the same as `first` unless the flow is split.
    last: Option<u32>,
    /// Index of the relay between the two connections of a split flow.
    relay: Option<u32>,
    /// Bytes written by the application so far.
    written: u64,
    /// Bytes delivered to the application so far.
    delivered: u64,
    /// When the application starts.
    start: Time,
    /// When the last byte of a finite transfer was delivered.
    completed: Option<Time>,
    /// Index of its web session, if the session's next click waits for the completion of this flow.
    session: Option<u32>,
    /// Event source of the application.
    source: Source,
    /// What the flow sends beside TCP: its datagram, or the request of its client.
    datagram: Option<Box<Segment>>,
    /// The request that is due, and how often it will have been sent; `None` if there is none.
    request: Option<(u64, u32)>,
    /// Datagrams sent.
    datagrams: u64,
    /// Node that sends datagrams or requests.
    node: NodeId,
    /// What was played of a video before the measured time, if anything was.
    played_before: Option<Box<Playback>>,
    /// Its receiving application, if that does not read at once.
    reader: Option<Box<ReaderHost>>,
}

impl FlowHost {
    /// A flow that starts at `start`, without connections. `datagram`: what is sent from `node`
    /// beside TCP, a datagram or the request of a client.
    pub(crate) fn new(
        index: u32,
        app: AppState,
        node: NodeId,
        start: Time,
        source: Source,
        datagram: Option<Segment>,
    ) -> FlowHost {
        FlowHost {
            index,
            app,
            first: None,
            last: None,
            relay: None,
            written: 0,
            delivered: 0,
            start,
            completed: None,
            session: None,
            source,
            datagram: datagram.map(Box::new),
            request: None,
            datagrams: 0,
            node,
            played_before: None,
            reader: None,
        }
    }

    /// Sets the connection that carries the data.
    pub(crate) fn connect(&mut self, connection: u32) {
        (self.first, self.last) = (Some(connection), Some(connection));
    }

    /// Sets the two connections of a split flow and its relay.
    pub(crate) fn split(&mut self, inbound: u32, outbound: u32, relay: u32) {
        (self.first, self.last, self.relay) = (Some(inbound), Some(outbound), Some(relay));
    }

    /// Lets an application read what arrives.
    pub(crate) fn set_reader(&mut self, reader: ReaderHost) {
        self.reader = Some(Box::new(reader));
    }

    /// The number of bytes that the receiving application reads now, of those that have arrived in
    /// order and are unread.
    pub(crate) fn read<P: Probe>(&mut self, unread: u64, net: &mut Net<P>) -> u64 {
        self.reader.as_mut().map_or(0, |reader| reader.read(unread, net))
    }

    /// Lets a session decide when the flow starts.
    pub(crate) fn join_session(&mut self, session: u32) {
        self.session = Some(session);
    }

    /// Index of its first connection, the sender's; `None` for datagrams.
    pub fn first(&self) -> Option<u32> {
        self.first
    }

    /// Index of its last connection, the receiver's.
    #[inline]
    pub fn last(&self) -> Option<u32> {
        self.last
    }

    /// Index of its relay.
    #[inline]
    pub fn relay(&self) -> Option<u32> {
        self.relay
    }

    /// Index of its session.
    pub(crate) fn session(&self) -> Option<u32> {
        self.session
    }

    /// When the application starts.
    pub fn start(&self) -> Time {
        self.start
    }

    /// When the last byte of a finite transfer was delivered.
    pub fn completed(&self) -> Option<Time> {
        self.completed
    }

    /// Bytes delivered to the application since the start of the run, without those on the fast
    /// path (endless flows without a relay).
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered
    }

    /// Returns true if the application always has bytes to send.
    pub(crate) fn is_endless(&self) -> bool {
        self.app.endless()
    }

    /// Number of datagrams sent.
    pub(crate) fn datagrams(&self) -> u64 {
        self.datagrams
    }

    /// Returns true if the receiver answers each datagram.
    pub(crate) fn is_answered(&self) -> bool {
        self.app.is_answered()
    }

    /// The datagram or request that the flow sends, and the node that sends it.
    pub(crate) fn datagram(&self) -> Option<(NodeId, &Segment)> {
        Some((self.node, self.datagram.as_deref()?))
    }

    /// Puts off the start of the application to `at`, without a timer.
    pub(crate) fn defer(&mut self, at: Time) {
        self.start = at;
    }

    /// Schedules the start of the application.
    pub(crate) fn schedule<P: Probe>(&self, at: Time, armed: Time, net: &mut Net<P>) {
        net.scheduler.set(self.source, at.0, armed.0);
    }

    /// The application's timer: returns what the application does, and sets the timer again.
    pub(crate) fn handle<P: Probe>(&mut self, net: &mut Net<P>) -> Option<Do> {
        self.app.set_arrived(self.delivered);
        let (action, next) = self.app.fire(net.now);
        match next {
            Some(at) => net.scheduler.set(self.source, at.0, net.now.0),
            None => net.scheduler.clear(self.source),
        }
        action
    }

    /// The application writes this number of bytes. Returns true if it writes no more after that.
    pub(crate) fn write<P: Probe>(&mut self, bytes: u64, net: &mut Net<P>) -> bool {
        self.written = self.written.saturating_add(bytes);
        if !self.app.endless() {
            net.probes.written(net.now, self.index, self.written);
        }
        self.app.finite()
    }

    /// The application stops; its sender has accepted `written` bytes.
    pub(crate) fn stop(&mut self, written: u64) {
        self.written = written;
    }

    /// The bytes `[first, first + count)` are delivered at `node`. Returns true if this completes a
    /// finite transfer.
    #[inline(always)]
    pub(crate) fn deliver<P: Probe>(
        &mut self,
        (first, count): (u64, u64),
        node: NodeId,
        net: &mut Net<P>,
    ) -> bool {
        self.delivered += count;
        net.probes.delivered(net.now, node, self.index, first, count);
        self.delivered == self.written && self.all_delivered(net)
    }

    /// Everything that the application has written is delivered.
    #[inline(never)]
    fn all_delivered<P: Probe>(&mut self, net: &mut Net<P>) -> bool {
        let now = net.now;
        self.app.set_arrived(self.delivered);
        if let Some(time) = self.app.response_time(now) {
            net.probes.responded(now, self.index, time);
            // The repetition of the request.
            net.scheduler.clear(self.source);
        }
        if let Some(at) = self.app.delivered(now) {
            net.scheduler.set(self.source, at.0, now.0);
        }
        let finite = self.app.finite();
        if finite {
            self.completed = Some(now);
            net.probes.completed(now, self.index);
        }
        finite
    }

    /// The next datagram, at its node.
    pub(crate) fn next_datagram<P: Probe>(
        &mut self,
        net: &mut Net<P>,
    ) -> Option<(NodeId, Segment)> {
        let mut segment = *self.datagram.as_deref()?;
        segment.id = net.new_id();
        // The `ack` field of a simulated datagram carries its sending time.
        segment.ack = net.now.0;
        segment.seq = self.datagrams * u64::from(segment.len);
        self.datagrams += 1;
        net.probes.datagram_sent(net.now, self.node, &segment);
        Some((self.node, segment))
    }

    /// A request of the client is due: its ordinal, and how often it will have been sent. One that
    /// still waits for the connection is not repeated.
    pub(crate) fn set_request(&mut self, request: (u64, u32)) {
        self.request.get_or_insert(request);
    }

    /// The client's request that is due, and its node.
    pub(crate) fn next_request<P: Probe>(&mut self, net: &mut Net<P>) -> Option<(NodeId, Segment)> {
        let ((ordinal, times), request) = (self.request.take()?, *self.datagram.as_deref()?);
        let (id, attempt) = (net.new_id(), u16::try_from(times).unwrap_or(u16::MAX));
        let segment = Segment { id, attempt, seq: ordinal, ..request };
        net.probes.request_sent(net.now, self.node, &segment, times);
        Some((self.node, segment))
    }

    /// A request of the client reaches the server. Returns the number of bytes of the response, if
    /// there was none before.
    pub(crate) fn request_arrived<P: Probe>(
        &mut self,
        request: &Segment,
        net: &mut Net<P>,
    ) -> Option<u64> {
        net.probes.request_received(net.now, request);
        self.app.request_arrived(request.seq)
    }

    /// Returns true if the flow has a client that sends requests.
    pub(crate) fn has_client(&self) -> bool {
        self.first.is_some() && self.datagram.is_some()
    }

    /// The measured time begins.
    pub(crate) fn begin_measuring(&mut self, now: Time) {
        self.played_before = self.playback_until(now).map(Box::new);
    }

    /// What was played of a video in the measured time until `now`, and the start-up delay;
    /// `None` for other applications.
    pub(crate) fn playback(&self, now: Time) -> Option<(Playback, Option<Duration>)> {
        let player = self.app.player()?;
        let before = self.played_before.as_deref().copied().unwrap_or_default();
        Some((self.playback_until(now)?.since(before), player.startup()))
    }

    fn playback_until(&self, now: Time) -> Option<Playback> {
        let mut player = self.app.player()?.clone();
        player.advance(now);
        Some(player.playback())
    }

    /// The receiver's answer to a datagram, if it answers. It carries the time at which the
    /// datagram was sent.
    pub(crate) fn answer<P: Probe>(&self, datagram: &Segment, net: &mut Net<P>) -> Option<Segment> {
        if !datagram.forward || !self.app.is_answered() {
            return None;
        }
        let (id, attempt) = (net.new_id(), 1);
        let answer = Segment { id, attempt, to: self.node, forward: false, ..*datagram };
        net.probes.datagram_sent(net.now, datagram.to, &answer);
        Some(answer)
    }
}
