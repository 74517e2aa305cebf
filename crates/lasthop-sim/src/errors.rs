//! What a connection loses by itself: bit errors of its own, which its packets meet where they have
//! arrived.

use lasthop::air::loss::{Frame, LossProcess};
use lasthop::scenario::network::Flow;
use lasthop::segment::{Flags, Handle, NodeId, Segment};
use lasthop::units::Time;

use crate::events::{Kind, Observer};
use crate::net::Net;
use crate::truth::Fate;

/// Both directions of a connection.
#[derive(Debug)]
pub(crate) struct Errors {
    /// Data, then ACKs: the process and how many packets it has been asked about.
    directions: [(LossProcess, u64); 2],
    mss: u32,
}

impl Errors {
    /// Those of a flow; `name` addresses the draws. `None` if it has none.
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

    fn hit(&mut self, now: Time, segment: &Segment) -> bool {
        let (process, ordinal) = &mut self.directions[usize::from(!segment.forward)];
        let frame =
            Frame { start: now, ordinal: *ordinal, bytes: segment.size, mss: self.mss, segment };
        *ordinal += 1;
        process.lost(&frame)
    }
}

impl<R: Observer> Net<R> {
    /// A packet has arrived at the node it was sent to. True if it is lost there.
    #[inline(never)]
    pub(crate) fn is_hit(&mut self, segment: &Segment) -> bool {
        if segment.flags.any(Flags::DATAGRAM.with(Flags::NOTICE)) {
            return false;
        }
        let now = self.now;
        self.errors
            .get_mut(segment.flow as usize)
            .and_then(Option::as_mut)
            .is_some_and(|e| e.hit(now, segment))
    }

    /// Such a packet is gone.
    pub(crate) fn corrupted(&mut self, l: usize, node: NodeId, handle: Handle) {
        let segment = *self.pool.get(handle);
        self.pool.free(handle);
        self.emit_frame(Kind::Corrupted, node, Some(l as u32), handle, "");
        self.gone(&segment, Fate::LostOnAir);
    }
}
