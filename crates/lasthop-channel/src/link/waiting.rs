//! The frames that wait on a computed link, as runs of equal frames whose departures are equally
//! far apart: at a constant rate, frames of one size that follow each other are one run, however
//! many they are.

use super::flight::is_later;
use lasthop_core::ring::Ring;
use lasthop_core::units::{Duration, Time};

/// Frames of one size. Each departure has that of the frame before as its trigger time.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Number of frames that have not left.
    frames: u32,
    /// Bytes of each frame.
    bytes: u32,
    /// Departure of the first frame from the queue, and its trigger time.
    first: Time,
    triggered_at: Time,
    /// Departure of the last frame.
    last: Time,
    /// Time between two departures. In a run of one frame, that since its trigger time, which is
    /// what the next departure is apart if it is triggered by this one and takes as long.
    step: Duration,
}

/// The frames that wait, with the times when they leave the queue.
#[derive(Clone, Debug)]
pub(super) struct WaitingFrames {
    /// The first run; without frames, and of no meaning, if none waits.
    run: Run,
    /// The runs behind it, their frames and their bytes.
    behind: Ring<Run>,
    frames_behind: u64,
    bytes_behind: u64,
    /// There is none.
    is_one_run: bool,
}

impl Default for WaitingFrames {
    fn default() -> WaitingFrames {
        let (run, behind) = (Run::default(), Ring::default());
        WaitingFrames { run, behind, frames_behind: 0, bytes_behind: 0, is_one_run: true }
    }
}

impl WaitingFrames {
    /// Takes the memory of frames that are no longer used. No frame waits here.
    pub(super) fn reuse_memory(&mut self, old: &mut Self) {
        self.behind.reuse_memory(&mut old.behind);
    }

    /// Removes all frames.
    pub(super) fn clear(&mut self) {
        let old = &mut std::mem::take(self);
        self.reuse_memory(old);
    }

    /// Number of frames.
    #[inline(always)]
    pub(super) fn frames(&self) -> u64 {
        u64::from(self.run.frames) + self.frames_behind
    }

    /// Their bytes.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.run.frames) * u64::from(self.run.bytes) + self.bytes_behind
    }

    /// Adds a frame that leaves at `at`, by an event whose trigger time is `triggered_at`. No frame
    /// leaves later.
    #[inline(always)]
    pub(super) fn push(&mut self, at: Time, triggered_at: Time, bytes: u32) {
        let run = &mut self.run;
        let step = Duration(at.0.wrapping_sub(triggered_at.0));
        let follows = run.bytes == bytes && run.last == triggered_at;
        if follows && self.is_one_run && run.step == step && run.frames > 0 {
            run.frames += 1;
            run.last = at;
        } else if run.frames == 0 {
            *run = Run { frames: 1, bytes, first: at, triggered_at, last: at, step };
        } else {
            self.push_other(at, triggered_at, bytes);
        }
    }

    /// The same where departures usually are not equally far apart.
    #[inline(always)]
    pub(super) fn push_irregular(&mut self, at: Time, triggered_at: Time, bytes: u32) {
        if self.is_one_run {
            return self.push(at, triggered_at, bytes);
        }
        self.push_behind(at, triggered_at, bytes);
    }

    #[inline(never)]
    fn push_other(&mut self, at: Time, triggered_at: Time, bytes: u32) {
        let run = &mut self.run;
        let follows = run.bytes == bytes && run.last == triggered_at;
        if follows && self.is_one_run && run.frames == 1 {
            (run.frames, run.last, run.step) = (2, at, at - triggered_at);
            return;
        }
        self.is_one_run = false;
        self.push_behind(at, triggered_at, bytes);
    }

    /// Adds a frame behind the first run.
    #[inline(always)]
    fn push_behind(&mut self, at: Time, triggered_at: Time, bytes: u32) {
        self.frames_behind += 1;
        self.bytes_behind += u64::from(bytes);
        let step = at - triggered_at;
        if let Some(run) = self.behind.back_mut()
            && run.last == triggered_at
            && run.bytes == bytes
            && (run.step == step || run.frames == 1)
        {
            run.frames += 1;
            (run.last, run.step) = (at, step);
            return;
        }
        self.behind.push(Run { frames: 1, bytes, first: at, triggered_at, last: at, step });
    }

    /// Removes the frames that have left by `now`, by events up to the trigger time `triggered_at`.
    /// A departure at this time with a later trigger time has not happened yet: the frame still
    /// occupies its place.
    #[inline(always)]
    pub(super) fn settle(&mut self, now: Time, triggered_at: Time) {
        loop {
            let run = &mut self.run;
            let next = (run.first, run.triggered_at);
            if run.frames == 0 || is_later(next, (now, triggered_at)) {
                return;
            }
            run.frames -= 1;
            (run.triggered_at, run.first) = (next.0, Time(next.0.0.wrapping_add(run.step.0)));
            if run.frames == 0 && !self.is_one_run {
                self.next_run();
            }
        }
    }

    #[inline(never)]
    fn next_run(&mut self) {
        self.run = self.behind.pop().unwrap_or_default();
        self.frames_behind -= u64::from(self.run.frames);
        self.bytes_behind -= u64::from(self.run.frames) * u64::from(self.run.bytes);
        self.is_one_run = self.behind.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Runs hold the same frames as a list of them.
        #[test]
        fn behaves_like_a_list_of_frames(
            steps in prop::collection::vec((0u64..4, 1u64..4, 1u32..3, 0u64..3), 1..200),
        ) {
            let (mut runs, mut list) = (WaitingFrames::default(), VecDeque::new());
            // Departures follow each other: each is triggered by the one before, or by another
            // event.
            let (mut now, mut last) = (0, (0, 0));
            for (wait, step, bytes, back) in steps {
                now += wait;
                let limit = (Time(now), Time(now.saturating_sub(back)));
                runs.settle(limit.0, limit.1);
                while list.front().is_some_and(|&(at, by, _)| (at, by) <= limit) {
                    list.pop_front();
                }
                let at = last.0.max(now) + step;
                let by = if back == 0 { last.1 } else { last.0 };
                runs.push(Time(at), Time(by), bytes);
                list.push_back((Time(at), Time(by), bytes));
                last = (at, last.0);
                prop_assert_eq!(runs.frames(), list.len() as u64);
                let sum = list.iter().map(|f| u64::from(f.2)).sum::<u64>();
                prop_assert_eq!(runs.bytes(), sum);
            }
        }
    }
}
