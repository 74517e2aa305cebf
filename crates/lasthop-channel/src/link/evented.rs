//! The evented link: one event per departure, for disciplines that drop or mark a frame while it
//! waits.

use super::arq::Arq;
use crate::queue::{AnyQueue, QueueDiscipline};

/// The queue of an evented link.
pub(super) struct Evented {
    pub queue: AnyQueue,
    /// True while a frame is being sent or holds the link.
    pub busy: bool,
    /// The attempts, if they are counted.
    pub arq: Option<Arq>,
}

impl Evented {
    pub(super) fn new(queue: AnyQueue, arq: Option<Arq>) -> Evented {
        Evented { queue, busy: false, arq }
    }

    /// The attempts, if they are counted.
    pub(super) fn arq(&self) -> Option<&Arq> {
        self.arq.as_ref()
    }

    /// The attempts, if they are counted.
    pub(super) fn arq_mut(&mut self) -> Option<&mut Arq> {
        self.arq.as_mut()
    }

    /// Frames waiting, bytes waiting, and whether a full-sized frame would be refused.
    pub(super) fn state(&self, full_frame: u32) -> (u64, u64, bool) {
        let load = self.queue.load();
        (load.packets, load.bytes, self.busy && !self.queue.has_room(full_frame))
    }
}
