//! Bit errors configured per connection. They hit packets at the destination node, after the last
//! link.

use lasthop::air::loss::{Frame, LossProcess};
use lasthop::scenario::network::Flow;
use lasthop::segment::{Flags, Handle, NodeId, Segment};
use lasthop::units::Time;

use crate::events::{Kind, Observer};
use crate::network::Net;
use crate::probes::ground_truth::Fate;

/// The bit errors of a connection, in both directions.
#[derive(Debug)]
pub(crate) struct Errors {
    /// Data, then ACKs: the loss process, and the number of packets drawn for so far.
    directions: [(LossProcess, u64); 2],
    mss: u32,
}

impl Errors {
    /// The errors configured for a flow; `None` if there are none. `name` selects the random
    /// stream.
    pub(crate) fn new(flow: &Flow, seed: u64, name: &str) -> Result<Option<Errors>, String> {
        let direction = |loss, what| {
            Ok::<_, String>((LossProcess::new(loss, seed, &format!("{name} {what}"))?, 0))
        };
        let errors = Errors {
            directions: [direction(&flow.loss, "data")?, direction(&flow.ack_loss, "ACKs")?],
            mss: flow.segment,
        };
        let any = errors.directions.iter().any(|w| !matches!(w.0, LossProcess::None));
        Ok(any.then_some(errors))
    }

    fn corrupts(&mut self, now: Time, segment: &Segment) -> bool {
        let (process, ordinal) = &mut self.directions[usize::from(!segment.forward)];
        let frame =
            Frame { start: now, ordinal: *ordinal, bytes: segment.size, mss: self.mss, segment };
        *ordinal += 1;
        process.lost(&frame)
    }
}

impl<R: Observer> Net<R> {
    /// Returns true if bit errors hit a packet that has arrived at its destination node.
    #[inline(never)]
    pub(crate) fn has_bit_errors(&mut self, segment: &Segment) -> bool {
        if segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE)) {
            return false;
        }
        let now = self.now;
        self.errors
            .get_mut(segment.flow as usize)
            .and_then(Option::as_mut)
            .is_some_and(|e| e.corrupts(now, segment))
    }

    /// Discards a packet with bit errors.
    pub(crate) fn drop_corrupted(&mut self, l: usize, node: NodeId, handle: Handle) {
        let segment = *self.pool.get(handle);
        self.pool.free(handle);
        self.emit_frame(Kind::Corrupted, node, Some(l as u32), handle, "");
        self.record_loss(&segment, Fate::LostOnAir);
    }
}
