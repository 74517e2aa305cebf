//! The FIFO that most disciplines store their frames in, and arithmetic of limits.

use super::discipline::{Frame, Load};
use lasthop_core::ring::Ring;
use lasthop_core::units::QueueLimit;

/// A FIFO with a limit.
#[derive(Clone, Debug)]
pub(super) struct Fifo {
    frames: Ring<Frame>,
    bytes: u64,
    limit: Option<QueueLimit>,
}

impl Fifo {
    pub(super) fn new(limit: Option<QueueLimit>) -> Fifo {
        Fifo { frames: Ring::default(), bytes: 0, limit }
    }

    /// True if a frame of `bytes` bytes fits within the limit.
    #[inline]
    pub(super) fn has_room(&self, bytes: u32) -> bool {
        self.excess(bytes).is_none()
    }

    /// Packets or bytes by which a further frame of `bytes` bytes would exceed the limit.
    #[inline]
    pub(super) fn excess(&self, bytes: u32) -> Option<u64> {
        excess(Load { packets: 1, bytes: bytes.into() }.plus(self.load()), self.limit)
    }

    #[inline]
    pub(super) fn push(&mut self, frame: Frame) {
        self.bytes += u64::from(frame.bytes);
        self.frames.push(frame);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop()?;
        self.bytes -= u64::from(frame.bytes);
        Some(frame)
    }

    /// The frame that has waited longest.
    #[inline]
    pub(super) fn first(&self) -> Option<&Frame> {
        self.frames.get(0)
    }

    /// Removes the last frame for which `which` is true.
    pub(super) fn remove_last(&mut self, which: impl Fn(&Frame) -> bool) -> Option<Frame> {
        let i = (0..self.frames.len()).rev().find(|&i| self.frames.get(i).is_some_and(&which))?;
        self.remove(i)
    }

    /// The frames, from the one that has waited longest.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter()
    }

    /// Removes the frame at this place, counted from the one that has waited longest.
    pub(super) fn remove(&mut self, i: usize) -> Option<Frame> {
        let frame = self.frames.remove(i)?;
        self.bytes -= u64::from(frame.bytes);
        Some(frame)
    }

    #[inline]
    pub(super) fn load(&self) -> Load {
        Load { packets: self.frames.len() as u64, bytes: self.bytes }
    }

    pub(super) fn limit(&self) -> Option<QueueLimit> {
        self.limit
    }
}

/// Packets or bytes by which a load exceeds a limit; `None` if it does not.
#[inline]
pub(super) fn excess(load: Load, limit: Option<QueueLimit>) -> Option<u64> {
    let limit = limit?;
    counted(load, limit).checked_sub(number(limit)).filter(|&over| over > 0)
}

/// The load in the unit of a threshold.
#[inline]
pub(super) fn counted(load: Load, unit: QueueLimit) -> u64 {
    match unit {
        QueueLimit::Packets(_) => load.packets,
        QueueLimit::Bytes(_) => load.bytes,
    }
}

/// The number of packets or bytes in a limit or threshold.
#[inline]
pub(super) fn number(limit: QueueLimit) -> u64 {
    match limit {
        QueueLimit::Packets(n) | QueueLimit::Bytes(n) => n,
    }
}

/// Half of a limit, the default of thresholds.
pub(super) fn half(limit: Option<QueueLimit>) -> Option<QueueLimit> {
    limit.map(|limit| match limit {
        QueueLimit::Packets(n) => QueueLimit::Packets(n / 2),
        QueueLimit::Bytes(n) => QueueLimit::Bytes(n / 2),
    })
}

/// True if both count packets, or both bytes.
pub(super) fn same_unit(a: QueueLimit, b: QueueLimit) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}

/// The text form of a limit in scenario files.
pub(super) fn text(limit: QueueLimit) -> String {
    lasthop_core::units::Quantity::text(&limit)
}
