//! Spans of time in which a link behaves differently.

use lasthop_core::units::{Duration, Time};

/// Half-open spans `[from, to)`, sorted, not empty, not touching each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spans(Vec<(Time, Time)>);

impl Spans {
    /// From (start, length) pairs in any order; spans that overlap or touch become one.
    pub fn new(spans: impl Iterator<Item = (Duration, Duration)>) -> Spans {
        let mut sorted: Vec<_> = spans
            .filter(|s| s.1 > Duration::ZERO)
            .map(|(from, length)| (Time(from.0), Time(from.0) + length))
            .collect();
        sorted.sort_unstable();
        let mut merged: Vec<(Time, Time)> = Vec::with_capacity(sorted.len());
        for (from, to) in sorted {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Spans(merged)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The spans that end after `t`, in order of time.
    #[inline]
    pub fn after(&self, t: Time) -> &[(Time, Time)] {
        &self.0[self.0.partition_point(|s| s.1 <= t)..]
    }

    /// The end of the span in which `t` lies.
    #[inline]
    pub fn end_of(&self, t: Time) -> Option<Time> {
        self.after(t).first().filter(|s| s.0 <= t).map(|s| s.1)
    }

    /// The first time at or after `t` that lies in no span.
    #[inline]
    pub fn leave(&self, t: Time) -> Time {
        self.end_of(t).unwrap_or(t)
    }

    /// End of work of this length that begins at `start` and pauses during the spans.
    #[inline]
    pub fn finish(&self, start: Time, mut work: Duration) -> Time {
        let mut t = start;
        for &(from, to) in self.after(start) {
            if t + work <= from {
                break;
            }
            work = work.saturating_sub(from - t);
            t = to;
        }
        t + work
    }

    /// The parts of `[from, to)` that lie in no span.
    pub fn gaps(&self, from: Time, to: Time) -> impl Iterator<Item = (Time, Time)> {
        let spans = self.after(from).iter().copied().chain([(Time::NEVER, Time::NEVER)]);
        spans
            .scan(from, move |begin, span| {
                let gap = (*begin, span.0.min(to));
                *begin = span.1;
                (gap.0 < to).then_some(gap)
            })
            .filter(|gap| gap.0 < gap.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(list: &[(u64, u64)]) -> Spans {
        Spans::new(list.iter().map(|&(f, l)| (Duration(f), Duration(l))))
    }

    #[test]
    fn overlapping_and_touching_spans_become_one() {
        let s = spans(&[(30, 10), (10, 5), (12, 8), (20, 1), (50, 0)]);
        assert_eq!(s.0, [(Time(10), Time(21)), (Time(30), Time(40))]);
        assert_eq!(
            (s.leave(Time(9)), s.leave(Time(10)), s.leave(Time(20)), s.leave(Time(21))),
            (Time(9), Time(21), Time(21), Time(21))
        );
    }

    #[test]
    fn work_rests_during_spans() {
        let s = spans(&[(10, 10), (25, 5)]);
        assert_eq!(s.finish(Time(5), Duration(5)), Time(10), "done just before the span");
        assert_eq!(s.finish(Time(5), Duration(6)), Time(21));
        assert_eq!(s.finish(Time(5), Duration(11)), Time(31));
        assert_eq!(s.finish(Time(40), Duration(3)), Time(43));
        assert_eq!(s.finish(Time(5), Duration::MAX), Time::NEVER);
    }

    #[test]
    fn gaps_are_what_is_left() {
        let s = spans(&[(10, 10), (25, 5)]);
        let gaps = |f, t| s.gaps(Time(f), Time(t)).map(|g| (g.0.0, g.1.0)).collect::<Vec<_>>();
        assert_eq!(gaps(0, 100), [(0, 10), (20, 25), (30, 100)]);
        assert_eq!(gaps(12, 22), [(20, 22)]);
        assert_eq!(gaps(10, 20), []);
        assert_eq!(gaps(5, 5), []);
    }
}
