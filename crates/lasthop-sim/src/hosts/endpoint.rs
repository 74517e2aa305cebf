//! The two ends of a TCP connection.

mod plain;

use lasthop::schemes::catalogue::AnyWindow;
use lasthop::segment::{NodeId, Notice, Options, Segment};
use lasthop::tcp::receiver::Receiver;
use lasthop::tcp::sender::{AfterPlainAck, Limit, Rest, Sender};
use lasthop::units::{Duration, Time};

use crate::engine::scheduler::Source;
use crate::events::probe::{Content, Probe};
use crate::events::{Kind, SenderState};
use crate::hosts::advance::{FastConnection, FutureArrivals};
use crate::hosts::agent::Agents;
use crate::hosts::fast_answer::schedule_receiver_timer;
use crate::hosts::fast_port::FastPort;
use crate::hosts::outbox::{Outbox, ReceiverPort};
use crate::hosts::sender_port::{FarEnd, SenderPort};
use crate::network::Net;
use crate::network::fast_path::{PlainData, ReceivedAck};
use crate::network::receiver_timers::ReceiverTimer;

/// A TCP connection.
pub struct Connection {
    sender: Sender<AnyWindow>,
    receiver: Receiver,
    /// Node of the sender.
    from: NodeId,
    /// Node of the receiver.
    to: NodeId,
    /// Index of its flow.
    flow: u32,
    /// Payload bytes of a full segment.
    mss: u32,
    /// Smallest round-trip time sample so far.
    min_rtt: Option<Duration>,
    /// True for the second half of a split connection, whose sender is the relay's.
    second_half: bool,
    /// What limits its sender.
    limit: Limit,
    /// Event source of the sender's timer; the receiver's is the next number.
    timers: Source,
    /// Time of the scheduler entry of the sender's timer, at or before its deadline; `NEVER` if
    /// there is none.
    sender_entry: Time,
    /// The same for the receiver's timer, if that is not computed in advance.
    receiver_entry: Time,
    /// Set if the receiver is computed in advance.
    future: Option<Box<FutureArrivals>>,
    /// Set if its packets may take the fast path.
    fast: Option<FastConnection>,
}

/// What a connection is called with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input<'a> {
    /// A segment for the receiver.
    Data(&'a Segment),
    /// A segment for the sender, with its options.
    Ack(&'a Segment, &'a Options),
    /// A notice for the end at this node.
    Notice(&'a Notice, NodeId),
    /// Notices of an oracle to the sender.
    OracleNotices(&'a [Notice]),
    /// The entry of the sender's timer comes up, with its trigger time.
    SenderTimer(u64),
    /// The same for the receiver's timer.
    ReceiverTimer(u64),
    /// The connection is opened.
    Open,
    /// The application writes this number of bytes, the last ones if `finite`.
    Write {
        /// Number of bytes.
        bytes: u64,
        /// The application writes no more bytes.
        finite: bool,
    },
    /// The application stops writing.
    Stop,
    /// The application aborts the connection.
    Abort,
    /// The sender is suspended.
    Hold,
    /// The sender continues.
    Resume,
}

/// The range of bytes that became available in order: the first byte and their number.
pub(crate) type InOrder = (u64, u64);

impl Connection {
    /// A connection of `flow` from one node to another. `mss`: payload bytes of a full segment;
    /// `timers`: event source of the sender's timer, the receiver's is the next number;
    /// `second_half`: its sender is a relay's.
    pub(crate) fn new(
        (sender, receiver): (Sender<AnyWindow>, Receiver),
        (from, to): (NodeId, NodeId),
        flow: u32,
        mss: u32,
        timers: Source,
        second_half: bool,
    ) -> Connection {
        Connection {
            sender,
            receiver,
            from,
            to,
            flow,
            mss,
            min_rtt: None,
            second_half,
            limit: Limit::Application,
            timers,
            sender_entry: Time::NEVER,
            receiver_entry: Time::NEVER,
            future: None,
            fast: None,
        }
    }

    /// Computes the receiver in advance; `last`: the last link on the way to it, and the event
    /// source of its arrivals. `fast`: its packets may take the fast path.
    pub(crate) fn compute_receiver_in_advance(
        &mut self,
        last: (u32, Source),
        fast: Option<FastConnection>,
    ) {
        self.future = Some(Box::new(FutureArrivals::new(last, self.timers + 1)));
        self.fast = fast;
    }

    /// Takes the memory of a connection that is no longer used. This one is not open.
    pub(crate) fn reuse_memory(&mut self, old: &mut Self) {
        self.sender.reuse_memory(&mut old.sender);
        if let (Some(future), Some(old)) = (&mut self.future, &mut old.future) {
            future.reuse_memory(old);
        }
    }

    /// Data sender.
    pub fn sender(&self) -> &Sender<AnyWindow> {
        &self.sender
    }

    /// Data receiver.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Nodes of the sender and of the receiver.
    #[inline]
    pub fn ends(&self) -> (NodeId, NodeId) {
        (self.from, self.to)
    }

    /// Index of its flow.
    #[inline]
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Payload bytes of a full segment.
    pub fn mss(&self) -> u32 {
        self.mss
    }

    /// Smallest round-trip time sample so far.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// Bytes on the wire of an ACK without options.
    pub(crate) fn plain_ack_size(&self) -> u32 {
        self.receiver.plain_ack_size()
    }

    /// Event source of the sender's timer.
    pub(crate) fn timers(&self) -> Source {
        self.timers
    }

    /// Replaces the window rule of the sender, before the run.
    pub(crate) fn replace_rule(&mut self, rule: AnyWindow) {
        self.sender.replace_rule(rule);
    }

    /// Sets the first receive window, before the run.
    pub(crate) fn begin_with(&mut self, bytes: u64) {
        self.receiver.begin_with(bytes);
    }

    /// Handles what happens to the connection. Returns the bytes that became available in order.
    #[inline(always)]
    pub(crate) fn handle<P: Probe>(
        &mut self,
        input: Input<'_>,
        out: &mut Outbox<'_, P>,
    ) -> InOrder {
        match input {
            Input::Data(segment) => return self.receive_data(segment, out),
            Input::Ack(segment, options) => self.receive_ack(segment, options, out),
            Input::Notice(notice, node) => self.receive_notice(notice, node, out),
            Input::OracleNotices(notices) => self.with_sender(out, |s, now, port| {
                notices.iter().for_each(|notice| s.on_notice(now, notice, port));
            }),
            Input::SenderTimer(triggered_at) => self.sender_timer(triggered_at, out),
            Input::ReceiverTimer(triggered_at) => self.receiver_timer_is_up(triggered_at, out),
            Input::Open => self.open(out),
            Input::Write { bytes, finite } => self.write(bytes, finite, out),
            Input::Stop => self.sender.stop(),
            Input::Abort => {
                self.sender.abort();
                self.receiver.abort_opening();
            }
            Input::Hold => self.with_sender(out, |s, _, _| s.hold()),
            Input::Resume => self.with_sender(out, |s, now, port| s.resume(now, 0, port)),
        }
        (0, 0)
    }

    /// Opens the connection from the end that does so.
    fn open<P: Probe>(&mut self, out: &mut Outbox<'_, P>) {
        match self.receiver.opens_actively() {
            true => self.with_receiver(out, |r, now, port| r.open(now, port)),
            false => self.with_sender(out, |s, now, port| s.open(now, port)),
        }
    }

    #[inline(never)]
    fn write<P: Probe>(&mut self, bytes: u64, finite: bool, out: &mut Outbox<'_, P>) {
        if self.receiver.opens_actively() {
            self.with_receiver(out, |r, now, port| r.open(now, port));
        }
        self.with_sender(out, |s, now, port| {
            s.open(now, port);
            s.write(now, bytes, port);
            if finite {
                s.close(now, port);
            }
        });
    }

    #[inline]
    fn receive_data<P: Probe>(&mut self, segment: &Segment, out: &mut Outbox<'_, P>) -> InOrder {
        let had = segment.has_sequence_numbers() && self.receiver.has_segment(segment);
        let discard = self.receiver.discards(out.net.now, segment);
        if let Some(future) = &mut self.future {
            let (net, range) = (&out.net, (segment.seq, segment.end()));
            let when = (net.now, net.triggered_at);
            let repeats = had || discard.is_some() || !segment.has_sequence_numbers();
            future.record(&net.event, when, range, repeats, net.next_packet());
        }
        let (now, probes) = (out.net.now, &mut out.net.probes);
        match discard {
            None => probes.data_received(now, self.to, segment),
            Some(discard) => probes.data_discarded(now, self.to, segment, discard, had),
        }
        let (first, count) = self.with_receiver(out, |receiver, now, port| {
            receiver.on_judged_segment(now, segment, discard, port)
        });
        if discard.is_some() {
            return (first, count);
        }
        let content = if segment.len == 0 {
            Content::Control
        } else if !had && (count > 0 || self.receiver.has(segment.seq, segment.end())) {
            Content::New
        } else {
            if let Some(future) = self.future.as_mut().filter(|_| !had) {
                future.refused();
            }
            Content::Duplicate
        };
        out.net.probes.data_processed(segment, content);
        (first, count)
    }

    #[inline(always)]
    fn receive_ack<P: Probe>(
        &mut self,
        segment: &Segment,
        options: &Options,
        out: &mut Outbox<'_, P>,
    ) {
        let ack = segment.ack.min(self.sender.snd_max());
        out.net.probes.ack_received(out.net.now, self.from, segment, ack);
        self.with_sender(out, |s, now, port| s.on_segment(now, segment, options, port));
        self.report_rtt(out.net);
    }

    #[inline(always)]
    fn report_rtt<P: Probe>(&mut self, net: &mut Net<P>) {
        if let Some(rtt) = self.sender.take_last_rtt() {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
            net.probes.rtt(net.now, self.flow, rtt);
        }
    }

    /// An ACK on the fast path reaches the sender.
    #[inline(always)]
    pub(crate) fn receive_plain_ack<P: Probe>(
        &mut self,
        ack: ReceivedAck,
        net: &mut Net<P>,
        agents: &mut Agents,
    ) {
        let Some(fast) = &mut self.fast else { return };
        let ReceivedAck { number, id, connection, window, .. } = ack;
        net.probes.ack_received_fast(connection, fast.ack_size, number, id);
        let now = net.now;
        let (len, size, flags) = (fast.len, fast.size, fast.flags);
        let receiver = &mut self.receiver;
        let future = self.future.as_deref_mut();
        let mut port = FastPort { net: &mut *net, receiver, future, fast };
        let (ts_value, ts_echo) = (0, 0);
        let take =
            |seq| port.send(PlainData { seq, len, size, connection, flags, ts_value, ts_echo });
        let limit = match self.sender.on_plain_ack(now, number, window, take) {
            AfterPlainAck::Sent(limit) => limit,
            AfterPlainAck::Remains(rest) => {
                let out = &mut Outbox { net: &mut *net, agents };
                self.send_rest(rest, out)
            }
            AfterPlainAck::Other => {
                return self.receive_ack_on_slow_path(&{ ack }, &mut Outbox { net, agents });
            }
        };
        let (deadline, armed) = self.sender.plain_deadline();
        if deadline < self.sender_entry {
            net.scheduler.set(self.timers, deadline.0, armed.0);
            self.sender_entry = deadline;
        }
        if limit != self.limit {
            self.limit = limit;
            net.probes.limited(now, self.flow, self.second_half, limit);
        }
        if self.sender.last_rtt().is_some() {
            self.report_rtt(net);
        }
    }

    /// Sends what an ACK on the fast path has left to be sent.
    #[inline(never)]
    fn send_rest<P: Probe>(&mut self, rest: Rest, out: &mut Outbox<'_, P>) -> Limit {
        let mut limit = Limit::Application;
        self.with_port(out, |sender, now, port| limit = sender.send_rest(now, rest, port));
        limit
    }

    /// An ACK came on the fast path, but the sender needs all of it.
    #[inline(never)]
    fn receive_ack_on_slow_path<P: Probe>(&mut self, ack: &ReceivedAck, out: &mut Outbox<'_, P>) {
        let Some(segment) = self.fast.as_ref().map(|fast| fast.ack_segment(*ack)) else { return };
        self.with_sender(out, |s, now, port| {
            if !s.takes_plain_ack(now, &segment, port) {
                // A copy: what is taken by its address goes through memory.
                s.on_segment(now, &{ segment }, &Options::NONE, port);
            }
        });
        self.report_rtt(out.net);
    }

    fn receive_notice<P: Probe>(&mut self, notice: &Notice, node: NodeId, out: &mut Outbox<'_, P>) {
        if self.from == node {
            self.with_sender(out, |s, now, port| s.on_notice(now, notice, port));
        } else if self.to == node {
            self.with_receiver(out, |r, now, port| r.on_notice(now, notice, port));
        }
    }

    #[inline(never)]
    fn sender_timer<P: Probe>(&mut self, triggered_at: u64, out: &mut Outbox<'_, P>) {
        let due = self.sender.deadline();
        if !timer_is_due(out, self.timers, due, triggered_at, &mut self.sender_entry) {
            return;
        }
        self.with_sender(out, |sender, now, port| sender.on_timer(now, port));
        self.report_rtt(out.net);
        timer_served(out, self.timers, self.sender_entry);
        debug_assert!(
            self.sender.deadline().0 > out.now(),
            "the sender's timer is due again at the same instant"
        );
    }

    /// Deadline of the receiver's timer, when it was set, and its event source.
    #[inline]
    pub(crate) fn receiver_timer(&self) -> (Time, Time, Source) {
        let (deadline, armed) = self.receiver.deadline();
        (deadline, armed, self.timers + 1)
    }

    /// Compares an entry for the receiver's timer, if that runs in advance, with the timer. Returns
    /// the entry to be kept: the same one, or one at which the timer is due now; `None` if the
    /// timer does not run, or has another entry.
    pub(crate) fn update_receiver_timer(&mut self, entry: ReceiverTimer) -> Option<ReceiverTimer> {
        self.future.as_mut()?.update_timer(self.receiver.deadline(), entry)
    }

    /// The link behind which the receiver is, if that is computed in advance.
    #[inline]
    pub(crate) fn link_in_advance(&self) -> Option<u32> {
        self.future.as_ref().map(|future| future.link())
    }

    /// Runs the receiver's timer in advance, with the clock set to its deadline.
    #[inline(never)]
    pub(crate) fn run_receiver_timer<P: Probe>(&mut self, out: &mut Outbox<'_, P>) {
        let (deadline, armed, _) = self.receiver_timer();
        (out.net.now, out.net.triggered_at) = (deadline, armed);
        if let Some(future) = &mut self.future {
            future.record_timer(&out.net.event, (deadline, armed), out.net.next_packet());
        }
        self.with_receiver(out, |receiver, now, port| receiver.on_timer(now, port));
    }

    #[inline(never)]
    fn receiver_timer_is_up<P: Probe>(&mut self, triggered_at: u64, out: &mut Outbox<'_, P>) {
        let (due, source) = (self.receiver.deadline(), self.timers + 1);
        if timer_is_due(out, source, due, triggered_at, &mut self.receiver_entry) {
            let had_given_up = self.receiver.gave_up().is_some();
            self.with_receiver(out, |receiver, now, port| receiver.on_timer(now, port));
            if self.receiver.gave_up().is_some() && !had_given_up {
                let net = &mut out.net;
                net.probes.state(net.now, self.to, self.flow, Kind::GaveUp, 1.0);
            }
            timer_served(out, source, self.receiver_entry);
        }
    }

    /// Runs `act` on the sender, with a port to the network. Afterwards reports the changes of its
    /// state and updates its timer.
    #[inline(always)]
    pub(super) fn with_sender<P: Probe>(
        &mut self,
        out: &mut Outbox<'_, P>,
        act: impl FnOnce(&mut Sender<AnyWindow>, Time, &mut SenderPort<'_, P>),
    ) {
        let before = P::READS.then(|| {
            (self.sender.window(), self.sender.counters(), self.sender.gave_up().is_some())
        });
        let now = out.now();
        self.with_port(out, act);
        let (deadline, armed) = self.sender.deadline();
        update_timer(out, self.timers, deadline, armed, &mut self.sender_entry);
        let limit = self.sender.limited_by();
        if limit != self.limit {
            self.limit = limit;
            out.net.probes.limited(now, self.flow, self.second_half, limit);
        }
        if let Some((window, counters, had_given_up)) = before {
            let mut report = |kind, value| {
                out.net.probes.state(now, self.from, self.flow, kind, value);
            };
            let (after, counted) = (self.sender.window(), self.sender.counters());
            if counted.timeouts > counters.timeouts {
                report(Kind::Timeout, 1.0);
            }
            // A packet list may detect several losses at once; each is a separate event.
            for _ in counters.fast_retransmits..counted.fast_retransmits {
                report(Kind::FastRetransmit, 1.0);
            }
            if counted.undone > counters.undone {
                report(Kind::Undone, 1.0);
            }
            if self.sender.gave_up().is_some() && !had_given_up {
                report(Kind::GaveUp, 1.0);
            }
            if after.ssthresh != window.ssthresh {
                report(Kind::Ssthresh, after.ssthresh);
            }
            if after.cwnd != window.cwnd {
                report(Kind::Cwnd, after.cwnd);
            }
            out.net.probes.sender_state(&self.sender_state(now));
        }
    }

    /// Runs `act` on the sender, with a port to the network.
    #[inline(always)]
    fn with_port<P: Probe>(
        &mut self,
        out: &mut Outbox<'_, P>,
        act: impl FnOnce(&mut Sender<AnyWindow>, Time, &mut SenderPort<'_, P>),
    ) {
        let now = out.now();
        let (receiver, future) = (&mut self.receiver, self.future.as_deref_mut());
        let far = FarEnd { receiver, future, fast: self.fast.as_mut() };
        let mut port = SenderPort::new(out, self.from, self.sender.flow(), far);
        act(&mut self.sender, now, &mut port);
    }

    fn sender_state(&self, now: Time) -> SenderState {
        let sender = &self.sender;
        SenderState {
            t: now,
            flow: self.flow,
            connection: sender.flow(),
            second_half: self.second_half,
            window: sender.window(),
            flight: sender.flight(),
            pipe: sender.pipe(),
            receive_window: sender.receive_window(),
            rtt: sender.last_rtt(),
            srtt: sender.rto().srtt(),
            rto: sender.rto().rto(),
            pacing_rate: sender.pacing_rate(),
            limit: self.limit,
        }
    }

    /// Runs `act` on the receiver, with a port to the network. Afterwards updates its timer.
    #[inline(always)]
    pub(super) fn with_receiver<P: Probe, T>(
        &mut self,
        out: &mut Outbox<'_, P>,
        act: impl FnOnce(&mut Receiver, Time, &mut ReceiverPort<'_, P>) -> T,
    ) -> T {
        let now = out.now();
        let Outbox { net, agents } = out;
        let mut port = ReceiverPort::new(net, Some(agents), self.to, self.sender.flow());
        let result = act(&mut self.receiver, now, &mut port);
        match &mut self.future {
            Some(future) => {
                let connection = self.sender.flow();
                schedule_receiver_timer(out.net, &self.receiver, future, connection);
            }
            None => {
                let (deadline, armed) = self.receiver.deadline();
                update_timer(out, self.timers + 1, deadline, armed, &mut self.receiver_entry);
            }
        }
        result
    }
}

/// Lazy timers: an entry before the deadline remains and is moved when it comes up.
#[inline]
fn update_timer<P: Probe>(
    out: &mut Outbox<'_, P>,
    source: Source,
    deadline: Time,
    armed: Time,
    entry: &mut Time,
) {
    if deadline < *entry {
        out.set_timer(source, deadline, armed);
        *entry = deadline;
    }
}

/// The scheduler entry of a timer has come up. Returns true if the timer is due; otherwise moves
/// the entry to the timer's deadline. The entry of a due timer remains until the timer has been
/// served: in most cases the timer is armed again, and moving an entry is cheaper than removing and
/// inserting one.
fn timer_is_due<P: Probe>(
    out: &mut Outbox<'_, P>,
    source: Source,
    (deadline, armed): (Time, Time),
    triggered_at: u64,
    entry: &mut Time,
) -> bool {
    if deadline != Time::NEVER && (deadline > out.now() || armed.0 > triggered_at) {
        out.set_timer(source, deadline, armed);
        *entry = deadline;
        return false;
    }
    *entry = Time::NEVER;
    if deadline == Time::NEVER {
        out.clear_timer(source);
    }
    deadline != Time::NEVER
}

/// Removes the scheduler entry of a timer that has been served and was not armed again.
fn timer_served<P: Probe>(out: &mut Outbox<'_, P>, source: Source, entry: Time) {
    if entry == Time::NEVER {
        out.clear_timer(source);
    }
}
