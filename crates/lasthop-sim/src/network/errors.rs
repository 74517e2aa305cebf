//! Bit errors configured per connection. They hit packets at the destination node, after the last
//! link.

use lasthop::air::config::LossConfig;
use lasthop::air::loss::{Frame, LossProcess};
use lasthop::scenario::network::Flow;
use lasthop::segment::Segment;
use lasthop::units::Time;

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
        if [&flow.loss, &flow.ack_loss].iter().all(|loss| matches!(loss, LossConfig::None)) {
            return Ok(None);
        }
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

    /// Draws whether bit errors hit the next packet of its direction.
    pub(crate) fn corrupts(&mut self, now: Time, segment: &Segment) -> bool {
        let (process, ordinal) = &mut self.directions[usize::from(!segment.forward)];
        let frame =
            Frame { start: now, ordinal: *ordinal, bytes: segment.size, mss: self.mss, segment };
        *ordinal += 1;
        process.lost(&frame)
    }
}
