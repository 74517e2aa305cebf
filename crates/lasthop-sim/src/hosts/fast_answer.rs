//! What the arrival of a segment on the fast path causes: its ACK, and the receiver's timer.

use lasthop::link::Passage;
use lasthop::tcp::receiver::Receiver;

use crate::events::probe::Probe;
use crate::hosts::advance::{FastConnection, FutureArrivals};
use crate::network::Net;
use crate::network::fast_path::{Arrival, PlainAck};

/// The receiver of a connection answers a segment, at the time of its arrival, with an ACK: its
/// number, and the bytes of the segment or 0 for a duplicate ACK; the window that it advertises and
/// the timestamp that it echoes. `future`: where the arrival is recorded if the ACK gets lost;
/// `None` if it is recorded already.
#[inline(always)]
pub(super) fn answer<P: Probe>(
    net: &mut Net<P>,
    future: Option<&mut FutureArrivals>,
    fast: &FastConnection,
    (window, ts_echo): (u32, u32),
    (number, len): (u64, u32),
    (sent_at, triggered_at): Arrival,
    connection: u32,
) {
    let id = net.new_ids(2);
    let passage = Passage::default();
    let ack =
        PlainAck { passage, number, id, sent_at, triggered_at, connection, len, window, ts_echo };
    if !net.transmit_ack(&fast.path, fast.ack_size, ack) {
        record_unanswered(net, future, &{ ack });
    }
}

/// The ACK of a segment on the fast path is dropped or lost: its arrival is recorded, which the ACK
/// no longer shows.
#[inline(never)]
fn record_unanswered<P: Probe>(net: &Net<P>, future: Option<&mut FutureArrivals>, ack: &PlainAck) {
    let (seq, when) = (ack.number - u64::from(ack.len), (ack.sent_at, ack.triggered_at));
    if let Some(future) = future {
        future.record(&net.event, when, (seq, ack.number), false, ack.id);
    }
}

/// The timer of a receiver that is computed in advance may be due earlier than before.
#[inline(always)]
pub(super) fn schedule_receiver_timer<P: Probe>(
    net: &mut Net<P>,
    receiver: &Receiver,
    future: &mut FutureArrivals,
    connection: u32,
) {
    let (deadline, armed) = receiver.deadline();
    if future.is_due_earlier(deadline, armed) {
        let timer = (deadline, armed, future.receiver_timer(), connection);
        net.add_receiver_timer(future.link(), timer);
    }
}
