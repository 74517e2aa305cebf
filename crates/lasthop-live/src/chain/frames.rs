//! The packets in a chain, by handle.

use std::collections::VecDeque;

use lasthop::segment::{Direction, Handle, Options, Segment};
use lasthop::units::{Duration, Time};

use super::packet::{Bytes, Told};

/// How long a lost frame is remembered for the report that it has arrived damaged: longer than any
/// propagation delay.
const REMEMBERED: Duration = Duration::secs(10);

/// A packet in the chain.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub bytes: Bytes,
    /// When it entered the chain.
    pub entered: Time,
    pub segment: Segment,
    pub options: Options,
    pub direction: Direction,
    /// True for a TCP packet of a known connection, which agents are shown.
    pub tracked: bool,
    /// What it tells, if it is the notice of an agent and no packet.
    pub notice: Option<Told>,
}

impl Frame {
    /// Inverts one bit; `place` from 0 to 1 says which. Agents do not read such a packet, because
    /// they would see that its checksum is wrong; the kernel at the end discards it.
    pub fn flip_bit(&mut self, place: f64) {
        let mut bytes = self.bytes.to_vec();
        let bit = (place * (8 * bytes.len()) as f64) as usize;
        if let Some(byte) = bytes.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
        self.bytes = bytes.into();
        self.tracked = false;
    }
}

/// Packets by handle.
#[derive(Default)]
pub(super) struct Frames {
    slots: Vec<Option<Frame>>,
    free: Vec<Handle>,
    /// Lost frames that are remembered, with the end of their air time.
    lost: VecDeque<(Time, Handle)>,
}

impl Frames {
    pub(super) fn put(&mut self, frame: Frame) -> Handle {
        if let Some(handle) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(handle as usize)
        {
            *slot = Some(frame);
            return handle;
        }
        self.slots.push(Some(frame));
        (self.slots.len() - 1) as Handle
    }

    pub(super) fn get_mut(&mut self, handle: Handle) -> Option<&mut Frame> {
        self.slots.get_mut(handle as usize)?.as_mut()
    }

    /// Removes a frame.
    pub(super) fn take(&mut self, handle: Handle) -> Option<Frame> {
        let frame = self.slots.get_mut(handle as usize)?.take();
        self.free.extend(frame.is_some().then_some(handle));
        frame
    }

    /// A frame is lost at `now`, and remembered for a while if asked.
    pub(super) fn end(&mut self, handle: Handle, now: Time, remember: bool) {
        if remember {
            self.lost.push_back((now, handle));
        } else {
            self.take(handle);
        }
        while let Some(&(_, old)) = self.lost.front().filter(|l| now.since(l.0) > REMEMBERED) {
            self.lost.pop_front();
            self.take(old);
        }
    }

    /// Number of packets.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
