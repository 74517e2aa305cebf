//! The fast path of data that arrive beyond a hole.

use lasthop::tcp::receiver::Receiver;
use lasthop::units::Time;

use crate::events::probe::Probe;
use crate::hosts::advance::{FastConnection, FutureArrivals};
use crate::hosts::fast_answer::{answer, schedule_receiver_timer};
use crate::hosts::outbox::ReceiverPort;
use crate::network::Net;
use crate::network::fast_path::{Arrival, PlainData};

/// Sends a segment that the receiver expects beyond a hole. If it is not lost, it is answered by a
/// duplicate ACK.
#[inline(never)]
pub(super) fn send_beyond<P: Probe>(
    net: &mut Net<P>,
    receiver: &mut Receiver,
    future: &mut FutureArrivals,
    fast: &FastConnection,
    data: &PlainData,
) {
    BehindHole { net, receiver, future, fast }.send(data);
}

/// A segment reaches the receiver of `connection` at the end of a link, but not before a timer of a
/// receiver there, at the present instant or too late. Runs the timers of this receiver that are
/// due before. Returns false if the arrival has to be an event all the same.
#[cold]
#[inline(never)]
pub(super) fn clear_timers<P: Probe>(
    net: &mut Net<P>,
    receiver: &mut Receiver,
    future: &mut FutureArrivals,
    fast: &FastConnection,
    (l, arrival): (u32, Arrival),
    connection: u32,
) -> bool {
    if arrival.0 < net.until && arrival.0.0 > net.event.time {
        BehindHole { net: &mut *net, receiver, future, fast }.run_timers(l, arrival, connection);
    }
    !net.arrives_later(l, arrival)
}

/// A receiver that misses data, seen from the sender of its connection.
struct BehindHole<'a, P> {
    net: &'a mut Net<P>,
    receiver: &'a mut Receiver,
    future: &'a mut FutureArrivals,
    fast: &'a FastConnection,
}

impl<P: Probe> BehindHole<'_, P> {
    #[inline(always)]
    fn send(&mut self, data: &PlainData) {
        let &PlainData { seq, len, size, connection, ts_echo, .. } = data;
        let path = &self.fast.path;
        let as_linux = self.receiver.reports_beyond();
        let BehindHole { receiver, future, fast, .. } = self;
        let arrival = self.net.transmit_data(path, *data, |net, l, arrival| {
            let (receiver, future) = (&mut **receiver, &mut **future);
            as_linux && clear_timers(net, receiver, future, fast, (l, arrival), connection)
        });
        self.net.probes.sent_undelivered(self.net.now, connection, (seq, len), size);
        self.net.new_id();
        let Some(arrival) = arrival else { return };
        let range = (seq, seq + u64::from(len));
        let (net, fast) = (&mut *self.net, self.fast);
        self.future.record_in_place(&net.event, arrival, range, false, net.next_packet());
        if as_linux {
            net.probes.arrived_beyond(arrival.0, connection, seq, (size, 0));
            return self.act(arrival, connection, |receiver, at, out| {
                receiver.take_beyond_as_linux(at, (seq, len), ts_echo, out);
            });
        }
        net.probes.arrived_beyond(arrival.0, connection, seq, (size, fast.ack_size));
        let (number, window) = self.receiver.take_beyond(seq, len);
        let offer = (window, self.receiver.echoed_stamp());
        answer(net, None, fast, offer, (number, 0), arrival, connection);
    }

    /// Runs the receiver's timer, each time with the clock set to its deadline, as long as no other
    /// timer behind the link `l` is due before it, it is due before `next` and not at the present
    /// instant.
    fn run_timers(&mut self, l: u32, next: Arrival, connection: u32) {
        let next = (next.0, next.1, self.net.arrival_source(l as usize));
        loop {
            let (receiver, future) = (&*self.receiver, &mut *self.future);
            let first = self.net.first_receiver_timer(l as usize, |entry| {
                if entry.3 == connection {
                    return future.update_timer(receiver.deadline(), entry);
                }
                Some(entry)
            });
            self.net.receivers_due[l as usize] = first.map_or(Time::NEVER, |timer| timer.0);
            let Some((due, armed, source, of)) = first else { return };
            if of != connection || due.0 <= self.net.event.time || (due, armed, source) >= next {
                return;
            }
            self.future.record_timer(&self.net.event, (due, armed), self.net.next_packet());
            self.act((due, armed), connection, |receiver, at, out| receiver.on_timer(at, out));
        }
    }

    /// Calls the receiver with the clock set to a time.
    fn act(
        &mut self,
        (at, triggered_at): Arrival,
        connection: u32,
        act: impl FnOnce(&mut Receiver, Time, &mut ReceiverPort<'_, P>),
    ) {
        let net = &mut *self.net;
        let present = (net.now, net.triggered_at);
        (net.now, net.triggered_at) = (at, triggered_at);
        let node = self.fast.path.receiver();
        act(self.receiver, at, &mut ReceiverPort::new(net, None, node, connection));
        schedule_receiver_timer(net, self.receiver, self.future, connection);
        (net.now, net.triggered_at) = present;
    }
}
