//! Which measurement gets which event.

use lasthop::agent::{NodeView, Subscriptions};
use lasthop::link::cell::MediumUse;
use lasthop::segment::{Flags, NodeId, Options, Payload, Segment};
use lasthop::tcp::receiver::Discard;
use lasthop::tcp::sender::{Limit, SendReason};
use lasthop::tcp::window::LossClass;
use lasthop::units::{Duration, Time};

use super::{FIRST_COPY, FlowProbes, Probes, ack_of, copy_of, end_of};
use crate::events::probe::{
    Content, EarlierCopies, Fate, Offer, Probe, Seen, is_for_timeout, reason_name,
};
use crate::events::{Event, Kind, Observer, ReportToAgent, SenderState};

impl<R: Observer> Probe for Probes<R> {
    const READS: bool = R::ACTIVE;

    #[inline]
    fn seen(&mut self, seen: &Seen<'_>) {
        if R::ACTIVE {
            let &Seen { t, kind, node, link, segment, options, reason, value } = seen;
            let flow = self.flow_of(segment);
            let segment = Some(segment);
            self.reader.on_event(&Event {
                t,
                node,
                link,
                flow,
                kind,
                segment,
                options,
                reason,
                value,
            });
        }
    }

    #[inline]
    fn node_view(&mut self, node_view: &dyn NodeView, subscriptions: Subscriptions) {
        self.reader.on_node_view(node_view, subscriptions);
    }

    fn link_reported(&mut self, report: &ReportToAgent<'_>) {
        self.reader.on_link_report(report);
    }

    #[inline]
    fn sender_state(&mut self, state: &SenderState) {
        self.reader.on_sender(state);
    }

    fn medium_used(&mut self, cell: usize, used: &MediumUse) {
        self.reader.on_medium(cell, used);
    }

    #[inline]
    fn state(&mut self, t: Time, node: NodeId, flow: u32, kind: Kind, value: f64) {
        if R::ACTIVE {
            let (link, segment, options, reason) = (None, None, &Options::NONE, "");
            self.reader.on_event(&Event {
                t,
                node,
                link,
                flow,
                kind,
                segment,
                options,
                reason,
                value,
            });
        }
    }

    fn lost(&mut self, now: Time, at: Time, segment: &Segment, fate: Fate) {
        self.ledger.record_loss(segment, fate, now, at);
        if segment.payload != Payload::NONE {
            self.datagrams.lost(at, segment, fate);
        } else if !segment.forward {
            if let Some(ack) = ack_of(segment) {
                let ground_truth = &mut self.connections[segment.flow as usize].ground_truth;
                ground_truth.ack_lost(now, at, (ack, segment.id), fate);
            }
        } else if segment.has_sequence_numbers() {
            let ground_truth = &mut self.connections[segment.flow as usize].ground_truth;
            ground_truth.lost(now, at, copy_of(segment), fate);
        }
    }

    fn filtered(&mut self, segment: &Segment, by: &Segment) {
        self.ledger.traffic_mut().filtered += u64::from(segment.size);
        if !segment.forward {
            let ground_truth = &mut self.connections[segment.flow as usize].ground_truth;
            ground_truth.ack_replaced(segment.id, by.id);
        }
    }

    fn duplicated(&mut self, now: Time, segment: &Segment) {
        self.ledger.traffic_mut().duplicated_by_link += u64::from(segment.size);
        self.count_copy(now, segment);
    }

    #[inline]
    fn copy_retained(&mut self, bytes: u64) {
        self.ledger.retain(bytes);
    }

    #[inline]
    fn copy_released(&mut self, bytes: u64) {
        self.ledger.release(bytes);
    }

    #[inline(always)]
    fn sent(
        &mut self,
        now: Time,
        node: NodeId,
        segment: &Segment,
        reason: SendReason,
        earlier: EarlierCopies,
    ) {
        self.ledger.traffic_mut().offered += u64::from(segment.size);
        if !segment.forward {
            return self.read(now, Kind::AckSent, node, segment, "", 0.0);
        }
        let c = &mut self.connections[segment.flow as usize];
        let mut spurious = false;
        if reason == SendReason::New {
            if c.written_when_sent {
                self.flows[c.flow as usize].write_times.push(segment.end(), now);
            }
        } else if segment.attempt > 1 && earlier != EarlierCopies::Lost {
            let copy = (copy_of(segment), segment.attempt);
            let reason = if is_for_timeout(segment, reason) { SendReason::Timeout } else { reason };
            spurious = c.ground_truth.retransmitted(now, copy, reason, earlier);
        }
        if segment.len > 0 {
            c.burst.sent(now, segment.len);
        }
        if R::ACTIVE {
            self.read_sent(now, node, segment, reason);
            if spurious {
                self.read(now, Kind::Spurious, node, segment, reason_name(reason), 1.0);
            }
        }
    }

    fn all_copies_lost(&mut self, now: Time, segment: &Segment) -> bool {
        let ground_truth = &mut self.connections[segment.flow as usize].ground_truth;
        ground_truth.has_lost_all(now, copy_of(segment).0, segment.attempt)
    }

    fn timed_out(&mut self, now: Time, segment: &Segment, acks_from: u64, acks: Vec<u64>) {
        let ground_truth = &mut self.connections[segment.flow as usize].ground_truth;
        ground_truth.timed_out(now, end_of(segment), acks_from, acks);
    }

    #[inline(always)]
    fn data_received(&mut self, now: Time, node: NodeId, segment: &Segment) {
        if segment.has_sequence_numbers() {
            let ground_truth = &mut self.connections[segment.flow as usize].ground_truth;
            let spurious = ground_truth.arrived(now, copy_of(segment));
            if spurious > 0 {
                self.read(now, Kind::Spurious, node, segment, "", f64::from(spurious));
            }
        }
        self.read(now, Kind::DataReceived, node, segment, "", 0.0);
    }

    #[inline(always)]
    fn data_processed(&mut self, segment: &Segment, content: Content) {
        let ledger = self.ledger.traffic_mut();
        *(match content {
            Content::Control => &mut ledger.control,
            Content::New => &mut ledger.data,
            Content::Duplicate => &mut ledger.duplicates,
        }) += u64::from(segment.size);
    }

    #[cold]
    fn data_discarded(
        &mut self,
        now: Time,
        node: NodeId,
        segment: &Segment,
        discard: Discard,
        had: bool,
    ) {
        let c = &mut self.connections[segment.flow as usize];
        let mut spurious = 0;
        if segment.has_sequence_numbers() {
            if had {
                spurious = c.ground_truth.arrived(now, copy_of(segment));
            } else {
                c.ground_truth.lost(now, now, copy_of(segment), Fate::Discarded);
            }
        }
        let stats = &mut self.flows[c.flow as usize].stats;
        stats.discarded[discard as usize] += u64::from(now >= self.measure_from);
        self.ledger.traffic_mut().discarded += u64::from(segment.size);
        if spurious > 0 {
            self.read(now, Kind::Spurious, node, segment, "", f64::from(spurious));
        }
        self.read(now, Kind::Discarded, node, segment, discard.name(), 0.0);
    }

    #[inline(always)]
    fn ack_received(&mut self, now: Time, node: NodeId, segment: &Segment, ack: u64) {
        self.read(now, Kind::AckReceived, node, segment, "", 0.0);
        self.ledger.ack_received(segment);
        // The SYN of a receiver that opens the connection acknowledges nothing.
        if !segment.flags.has(Flags::SYN) || segment.flags.has(Flags::ACK) {
            let ground_truth = &mut self.connections[segment.flow as usize].ground_truth;
            ground_truth.ack_received(ack + 1, segment.id);
        }
    }

    #[inline(always)]
    fn sent_undelivered(&mut self, now: Time, connection: u32, (seq, len): (u64, u32), size: u32) {
        self.ledger.traffic_mut().offered += u64::from(size);
        let c = &mut self.connections[connection as usize];
        c.burst.sent(now, len);
        if c.written_when_sent {
            self.flows[c.flow as usize].write_times.push(seq + u64::from(len), now);
        }
    }

    #[inline(always)]
    fn delivered_fast(
        &mut self,
        now: Time,
        at: Time,
        connection: u32,
        (seq, len): (u64, u32),
        (size, ack_size): (u32, u32),
    ) {
        let c = &mut self.connections[connection as usize];
        c.burst.sent_one(now);
        c.ground_truth.arrived(at, (seq + 1, FIRST_COPY));
        let ledger = self.ledger.traffic_mut();
        ledger.data += u64::from(size);
        ledger.offered += u64::from(size) + u64::from(ack_size);
        let stats = &mut self.flows[c.flow as usize].stats;
        stats.first_byte.get_or_insert(at);
        if at >= self.measure_from {
            stats.delivered += u64::from(len);
            stats.delay.record(Duration(at.0 - now.0), u64::from(len));
        }
    }

    #[inline]
    fn arrived_beyond(
        &mut self,
        at: Time,
        connection: u32,
        seq: u64,
        (size, ack_size): (u32, u32),
    ) {
        self.connections[connection as usize].ground_truth.arrived(at, (seq + 1, FIRST_COPY));
        let ledger = self.ledger.traffic_mut();
        ledger.data += u64::from(size);
        ledger.offered += u64::from(ack_size);
    }

    #[inline(always)]
    fn ack_received_fast(&mut self, connection: u32, size: u32, ack: u64, id: u64) {
        self.ledger.traffic_mut().acks += u64::from(size);
        self.connections[connection as usize].ground_truth.ack_received(ack + 1, id);
    }

    fn classified(&mut self, now: Time, connection: u32, seq: u64, times: u16, class: LossClass) {
        self.connections[connection as usize].ground_truth.classified(now, seq + 1, times, class);
    }

    #[inline(always)]
    fn rtt(&mut self, now: Time, flow: u32, rtt: Duration) {
        if now >= self.measure_from {
            self.flows[flow as usize].stats.rtt.record(rtt, 1);
        }
    }

    #[inline]
    fn limited(&mut self, now: Time, flow: u32, second_half: bool, limit: Limit) {
        self.flows[flow as usize].limits.sender(now, second_half, limit);
    }

    fn window_offered(&mut self, now: Time, flow: u32, offer: Offer) {
        self.flows[flow as usize].limits.offer(now, offer);
    }

    fn cache_binds(&mut self, now: Time, flow: u32, binds: bool) {
        self.flows[flow as usize].limits.cache(now, binds);
    }

    #[inline]
    fn written(&mut self, now: Time, flow: u32, end: u64) {
        self.flows[flow as usize].write_times.push(end, now);
    }

    #[inline(always)]
    fn delivered(&mut self, now: Time, node: NodeId, flow: u32, first: u64, count: u64) {
        let FlowProbes { stats, write_times, .. } = &mut self.flows[flow as usize];
        stats.first_byte.get_or_insert(now);
        self.gaps.iter_mut().for_each(|g| g.delivered(now));
        if now >= self.measure_from {
            stats.delivered += count;
            write_times.deliver(first, count, now, Some(&mut stats.delay));
        } else {
            write_times.deliver(first, count, now, None);
        }
        self.state(now, node, flow, Kind::Delivered, count as f64);
    }

    fn start_deferred(&mut self, flow: u32, at: Time) {
        self.flows[flow as usize].limits.start(at);
    }

    fn completed(&mut self, now: Time, flow: u32) {
        self.flows[flow as usize].limits.end(now);
    }

    #[inline]
    fn datagram_sent(&mut self, now: Time, node: NodeId, segment: &Segment) {
        self.ledger.traffic_mut().offered += u64::from(segment.size);
        if !segment.forward {
            return self.read(now, Kind::AckSent, node, segment, "", 0.0);
        }
        let FlowProbes { stats, user, .. } = &mut self.flows[segment.flow as usize];
        stats.datagrams += u64::from(now >= self.measure_from);
        if let Some(call) = &mut user.call {
            call.sent(now);
        }
        if let Some(frames) = &mut user.frames {
            frames.sent(now, segment.seq);
        }
        self.read(now, Kind::DataSent, node, segment, "new", 0.0);
    }

    #[inline]
    fn datagram_received(&mut self, now: Time, segment: &Segment) {
        let sent_at = Time(segment.ack);
        if !segment.forward {
            self.ledger.traffic_mut().control += u64::from(segment.size);
            self.rtt(now, segment.flow, now - sent_at);
            return self.read(now, Kind::AckReceived, segment.to, segment, "", 0.0);
        }
        self.ledger.traffic_mut().data += u64::from(segment.size);
        let FlowProbes { stats, user, .. } = &mut self.flows[segment.flow as usize];
        if let Some(call) = &mut user.call {
            call.received(now, sent_at);
        }
        if let Some(frames) = &mut user.frames {
            frames.received(now, sent_at, segment.seq);
        }
        if now >= self.measure_from {
            stats.delivered += u64::from(segment.len);
            stats.delay.record(now - sent_at, u64::from(segment.len));
        }
        self.read(now, Kind::DataReceived, segment.to, segment, "", 0.0);
    }

    #[inline]
    fn external_sent(&mut self, now: Time, node: NodeId, segment: &Segment) {
        self.ledger.traffic_mut().offered += u64::from(segment.size);
        let stats = &mut self.flows[segment.flow as usize].stats;
        stats.datagrams += u64::from(segment.forward && now >= self.measure_from);
        self.datagrams.sent(now, segment);
        self.read(now, Kind::DataSent, node, segment, "new", 0.0);
    }

    #[inline]
    fn external_received(&mut self, now: Time, segment: &Segment) {
        self.ledger.traffic_mut().data += u64::from(segment.size);
        self.datagrams.arrived(now, segment);
        if segment.forward && now >= self.measure_from {
            let stats = &mut self.flows[segment.flow as usize].stats;
            stats.delivered += u64::from(segment.len);
            stats.delay.record(now - Time(segment.ack), u64::from(segment.len));
        }
        self.read(now, Kind::DataReceived, segment.to, segment, "", 0.0);
    }

    fn request_sent(&mut self, now: Time, node: NodeId, segment: &Segment, times: u32) {
        self.ledger.traffic_mut().offered += u64::from(segment.size);
        if let Some(requests) = &mut self.flows[segment.flow as usize].user.requests {
            requests.sent(now, times);
        }
        let reason = if times > 1 { "repeated" } else { "new" };
        self.read(now, Kind::RequestSent, node, segment, reason, 0.0);
    }

    fn request_received(&mut self, now: Time, segment: &Segment) {
        self.ledger.traffic_mut().control += u64::from(segment.size);
        self.read(now, Kind::RequestReceived, segment.to, segment, "", 0.0);
    }

    fn responded(&mut self, now: Time, flow: u32, time: Duration) {
        if let Some(requests) = &mut self.flows[flow as usize].user.requests {
            requests.responded(now, time);
        }
    }

    fn injected(
        &mut self,
        now: Time,
        node: NodeId,
        kind: Kind,
        segment: &Segment,
        reason: &'static str,
    ) {
        if kind == Kind::AgentInjected {
            self.count_copy(now, segment);
        } else if kind == Kind::AgentForwarded
            && let Some(ack) = ack_of(segment)
        {
            let ground_truth = &mut self.connections[segment.flow as usize].ground_truth;
            ground_truth.ack_released(ack, segment.id);
        }
        self.ledger.traffic_mut().injected += u64::from(segment.size);
        self.read(now, kind, node, segment, reason, 0.0);
    }

    fn held_by_agent(&mut self, segment: &Segment) {
        self.ledger.traffic_mut().at_agents += u64::from(segment.size);
        if let Some(ack) = ack_of(segment) {
            let ground_truth = &mut self.connections[segment.flow as usize].ground_truth;
            ground_truth.ack_held(ack, segment.id);
        }
    }

    fn notice_received(&mut self, now: Time, segment: &Segment, kind: &'static str) {
        self.ledger.traffic_mut().control += u64::from(segment.size);
        self.read(now, Kind::NoticeReceived, segment.to, segment, kind, 0.0);
    }

    fn handover_began(&mut self, handover: usize, took: Duration) {
        self.gaps[handover].began(took);
    }
}
