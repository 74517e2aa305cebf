//! Segments that reach a receiver in the usual course of things: the next one, one that fills a
//! hole, or one beyond a hole and beyond all that has arrived.

use lasthop::segment::Segment;

use super::{Connection, InOrder};
use crate::events::probe::{Content, Probe};
use crate::hosts::outbox::Outbox;

#[allow(clippy::multiple_inherent_impl, reason = "what is usual has a file")]
impl Connection {
    /// As `handle` with this segment, if the receiver expects it. `None` otherwise: nothing has
    /// changed then.
    #[inline(always)]
    pub(crate) fn receive_plain<P: Probe>(
        &mut self,
        segment: &Segment,
        out: &mut Outbox<'_, P>,
    ) -> Option<InOrder> {
        let is_next = self.receiver.expects_segment(segment);
        let is_beyond = !is_next && self.receiver.expects_segment_beyond(segment);
        if !is_next && !is_beyond && !self.receiver.expects_filling(segment) {
            return None;
        }
        let before = self.receiver.rcv_nxt();
        let net = &mut *out.net;
        if let Some(future) = &mut self.future {
            let (when, range) = ((net.now, net.triggered_at), (segment.seq, segment.end()));
            future.record_in_place(&net.event, when, range, false, net.next_packet());
        }
        net.probes.data_received(net.now, self.to, segment);
        self.with_receiver(out, |receiver, now, port| {
            if is_next {
                receiver.take_plain_segment(now, segment, port);
            } else if is_beyond {
                receiver.take_segment_beyond(now, segment, port);
            } else {
                receiver.take_filling(now, segment, port);
            }
        });
        out.net.probes.data_processed(segment, Content::New);
        Some((before, self.receiver.rcv_nxt() - before))
    }
}
