//! How a sender sends on the fast path: the arrival of a segment, the ACK that it causes and the
//! arrival of this ACK are computed at once.

use lasthop::tcp::receiver::Receiver;

use crate::events::probe::Probe;
use crate::hosts::advance::{FastConnection, FutureArrivals};
use crate::hosts::fast_answer::{answer, schedule_receiver_timer};
use crate::hosts::fast_beyond::{clear_timers, send_beyond};
use crate::network::Net;
use crate::network::fast_path::{Arrival, PlainData};

/// The port of a sender to the fast path of its connection. Its methods that are not inlined take
/// its parts: a pointer to it would force the parts into memory.
pub(super) struct FastPort<'a, P> {
    pub net: &'a mut Net<P>,
    pub receiver: &'a mut Receiver,
    pub future: Option<&'a mut FutureArrivals>,
    pub fast: &'a mut FastConnection,
}

impl<P: Probe> FastPort<'_, P> {
    /// Sends a segment of new data without options. Returns false if it has to take the slow path.
    #[inline(always)]
    pub(super) fn send(&mut self, data: PlainData) -> bool {
        let PlainData { seq, len, ts_value, .. } = data;
        if !self.net.is_fast_path_open() {
            return false;
        }
        if !self.receiver.expects(seq, len, ts_value) {
            return self.send_unexpected(&{ data });
        }
        match self.net.transmit_data(&self.fast.path, data, |_, _, _| false) {
            Some(arrival) => self.arrive(data, arrival),
            None => self.count_undelivered(data),
        }
        true
    }

    /// Sends a segment that is not the next one, if it arrives beyond a hole.
    #[cold]
    #[inline(never)]
    fn send_unexpected(&mut self, data: &PlainData) -> bool {
        let PlainData { seq, len, ts_value, .. } = *data;
        self.receiver.expects_beyond(seq, len, ts_value) && self.send_beyond(data)
    }

    /// Sends a segment that arrives beyond a hole.
    #[inline(always)]
    pub(super) fn send_beyond(&mut self, data: &PlainData) -> bool {
        let Some(future) = self.future.as_deref_mut() else { return false };
        send_beyond(self.net, self.receiver, future, self.fast, data);
        true
    }

    /// Sends a segment that the receiver expects; timers of the receiver that are due before its
    /// arrival run first.
    #[inline(always)]
    pub(super) fn send_next(&mut self, data: PlainData) {
        let FastPort { net, receiver, future, fast } = self;
        let arrival = net.transmit_data(&fast.path, data, |net, l, arrival| {
            let Some(future) = future.as_deref_mut() else { return false };
            clear_timers(net, receiver, future, fast, (l, arrival), data.connection)
        });
        match arrival {
            Some(arrival) => self.arrive(data, arrival),
            None => self.count_undelivered(data),
        }
    }

    /// A segment has been sent as the next packet, and is lost or arrives by an event.
    #[inline(always)]
    fn count_undelivered(&mut self, data: PlainData) {
        let net = &mut *self.net;
        net.new_id();
        net.probes.sent_undelivered(net.now, data.connection, (data.seq, data.len), data.size);
    }

    /// The receiver takes a segment that it expects.
    #[inline(always)]
    fn arrive(&mut self, data: PlainData, (at, triggered_at): Arrival) {
        let (net, receiver, fast) = (&mut *self.net, &mut *self.receiver, &mut *self.fast);
        let PlainData { seq, len, size, connection, ts_value, ts_echo, .. } = data;
        let now = net.now;
        let number = seq + u64::from(len);
        let Some(window) = receiver.take_plain(at, len, (ts_value, ts_echo)) else {
            net.new_id();
            net.probes.delivered_fast(now, at, connection, (seq, len), (size, 0));
            if let Some(future) = &mut self.future {
                delay_ack(net, receiver, future, (at, triggered_at), data);
            }
            return;
        };
        net.probes.delivered_fast(now, at, connection, (seq, len), (size, fast.ack_size));
        fast.last = at;
        let when = (at, triggered_at);
        let offer = (window, receiver.echoed_stamp());
        answer(net, self.future.as_deref_mut(), fast, offer, (number, len), when, connection);
    }
}

/// The ACK of a segment on the fast path is delayed.
#[inline(always)]
fn delay_ack<P: Probe>(
    net: &mut Net<P>,
    receiver: &Receiver,
    future: &mut FutureArrivals,
    when: Arrival,
    data: PlainData,
) {
    let range = (data.seq, data.seq + u64::from(data.len));
    future.record(&net.event, when, range, false, net.next_packet());
    schedule_receiver_timer(net, receiver, future, data.connection);
}
