//! What an agent may read of its node.

use std::cell::RefCell;

use lasthop::agent::{NodeView, QueueState};
use lasthop::segment::Direction;
use lasthop::units::{Rate, Time};

use super::hop::Hop;

/// Queues and rates of the two links that leave a node.
pub(super) struct View<'a> {
    hops: RefCell<&'a mut [Hop]>,
    down: usize,
    up: usize,
    now: Time,
    triggered_at: Time,
}

impl<'a> View<'a> {
    pub(super) fn new(
        hops: &'a mut [Hop],
        (down, up): (usize, usize),
        (now, triggered_at): (Time, Time),
    ) -> Self {
        View { hops: RefCell::new(hops), down, up, now, triggered_at }
    }

    fn hop(&self, direction: Direction) -> usize {
        match direction {
            Direction::Downlink => self.down,
            Direction::Uplink => self.up,
        }
    }
}

impl NodeView for View<'_> {
    fn queue(&self, direction: Direction) -> QueueState {
        let mut hops = self.hops.borrow_mut();
        let Some(hop) = hops.get_mut(self.hop(direction)) else { return QueueState::default() };
        let (packets, bytes, full) = hop.drive.queue(self.now, self.triggered_at);
        QueueState { packets, bytes, full }
    }

    fn rate(&self, direction: Direction) -> Option<Rate> {
        self.hops.borrow().get(self.hop(direction))?.drive.link().rate(self.now)
    }
}
