//! The opportunities of a trace.

use std::sync::Arc;

use crate::air::spans::Spans;
use crate::air::trace::Trace;
use lasthop_core::units::{Duration, Time};

/// The next opportunity of a trace, and the unused bytes of the one before.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    trace: Arc<Trace>,
    /// Time zero of the run is this far into the trace.
    phase: Duration,
    /// Start of the current cycle, in the trace's own time.
    cycle: Time,
    /// Next opportunity in the current cycle.
    index: usize,
    /// Its time in the run.
    next: Time,
    /// Bytes that the opportunity in which the previous frame ended can still drain.
    left: u32,
}

impl Cursor {
    pub fn new(trace: Arc<Trace>, phase: Duration) -> Cursor {
        let phase = Duration(phase.0 % trace.period().0);
        let (cycle, next) = (Time::ZERO, Time::ZERO);
        let mut cursor = Cursor { trace, phase, cycle, index: 0, next, left: 0 };
        cursor.jump(Time::ZERO + phase);
        cursor
    }

    /// Capacity in `[from, to)`, bits.
    pub fn capacity_bits(&self, from: Time, to: Time) -> f64 {
        self.trace.capacity_bits(from + self.phase, to + self.phase)
    }

    #[inline]
    pub fn serialize(
        &mut self,
        arrival: Time,
        previous_end: Time,
        bytes: u32,
        outages: &Spans,
    ) -> (Time, Time) {
        let mut need = bytes.max(1);
        let mut first = None;
        // A frame that was waiting when the previous one ended uses the rest of that opportunity.
        if arrival <= previous_end && self.left > 0 {
            if need <= self.left {
                self.left -= need;
                return (previous_end, previous_end);
            }
            need -= self.left;
            first = Some(previous_end);
        }
        self.seek(arrival.max(previous_end));
        if need <= Trace::OPPORTUNITY && outages.is_empty() {
            self.left = Trace::OPPORTUNITY - need;
            let at = self.next;
            self.skip_one();
            return (first.unwrap_or(at), at);
        }
        self.serialize_long(need, first, outages)
    }

    /// The rest of `serialize` where `need` bytes may take several opportunities, or an outage may
    /// be between: `first` is the opportunity that has drained the first bytes.
    #[inline(never)]
    fn serialize_long(&mut self, need: u32, first: Option<Time>, outages: &Spans) -> (Time, Time) {
        let count = need.div_ceil(Trace::OPPORTUNITY);
        self.left = (u64::from(count) * u64::from(Trace::OPPORTUNITY) - u64::from(need)) as u32;
        let (start, end) =
            if outages.is_empty() { self.take(count) } else { self.take_between(count, outages) };
        (first.unwrap_or(start), end)
    }

    /// Takes the next `count` (at least one) opportunities: the times of the first and the last.
    fn take(&mut self, count: u32) -> (Time, Time) {
        let first = self.next;
        if count > 1 {
            self.skip(count as usize - 1);
        }
        let last = self.next;
        self.skip_one();
        (first, last)
    }

    /// As `take`, without the opportunities that occur during outages.
    fn take_between(&mut self, count: u32, outages: &Spans) -> (Time, Time) {
        let first = self.take_up(outages);
        let last = (1..count).fold(first, |_, _| self.take_up(outages));
        (first, last)
    }

    fn take_up(&mut self, outages: &Spans) -> Time {
        while let Some(end) = outages.end_of(self.next) {
            self.seek(end);
        }
        self.take(1).0
    }

    /// Time of the next opportunity in the run.
    #[inline]
    fn time(&self) -> Time {
        match self.cycle + self.trace.offset(self.index) {
            Time::NEVER => Time::NEVER,
            t => t - self.phase,
        }
    }

    #[inline(always)]
    fn skip_one(&mut self) {
        self.index += 1;
        if self.index >= self.trace.len() {
            return self.skip(0);
        }
        self.next = self.time();
    }

    fn skip(&mut self, count: usize) {
        self.index += count;
        let len = self.trace.len();
        if self.index >= len {
            self.cycle += self.trace.period() * (self.index / len) as u64;
            self.index %= len;
        }
        self.next = self.time();
    }

    /// Skips the opportunities before `t`.
    #[inline]
    fn seek(&mut self, t: Time) {
        if self.next >= t {
            return;
        }
        let t = t + self.phase;
        if t - self.cycle <= self.trace.period() {
            self.index = self.trace.seek(self.index, t - self.cycle);
            self.skip(0);
        } else {
            self.jump(t);
        }
    }

    /// Moves to the first opportunity at or after `t`, a time of the trace.
    fn jump(&mut self, t: Time) {
        let (cycle, index) = self.trace.locate(t);
        self.cycle = Time((self.trace.period() * cycle).0);
        self.index = index;
        self.skip(0);
    }
}
