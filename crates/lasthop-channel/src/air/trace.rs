//! Mahimahi traces: the capacity of a link as a list of delivery opportunities.
//!
//! One integer per line, milliseconds from the start, never decreasing; each line is one
//! opportunity to drain up to 1500 bytes, and a time that repeats is several opportunities. The
//! last time is the period: at the end the trace starts over, so the opportunity of a line with
//! time t comes at t, t + period, t + 2 periods … (Netravali et al., "Mahimahi: Accurate
//! Record-and-Replay for HTTP", USENIX ATC 2015; `link_queue.cc`.)

use std::io::{self, Read};

use super::lines::{Line, LineError, Lines, shorten};
use lasthop_core::units::{Duration, Rate, Time};

/// Nanoseconds in a millisecond, the unit of a trace.
const MS: u64 = 1_000_000;

/// A Mahimahi trace, read and checked: at least one opportunity, times never decreasing, the last
/// one above zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Milliseconds from the start of the trace.
    opportunities: Vec<u32>,
}

/// Why a trace is refused. The message is one line and contains the trace's name.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Reading failed.
    #[error("{name}: cannot be read: {source}")]
    Io {
        /// The trace.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// No line has a time.
    #[error("{name}: the trace is empty; it needs one time in milliseconds on each line")]
    Empty {
        /// The trace.
        name: String,
    },
    /// A line is not a number.
    #[error(
        "{name}: line {line}: expected a time in whole milliseconds such as 120, found \"{found}\""
    )]
    Garbled {
        /// The trace.
        name: String,
        /// Line number from 1.
        line: u64,
        /// The text found, shortened and escaped.
        found: String,
    },
    /// The first line with text is not a number: the file is of another kind.
    #[error(
        "{name}: line {line}: expected a time in whole milliseconds such as 120, found \
         \"{found}\"; if this is a measurement, `lasthop trace import {name} --out my.down` makes \
         a trace of it (docs/traces.md)"
    )]
    OtherFile {
        /// The trace.
        name: String,
        /// Line number from 1.
        line: u64,
        /// The text found, shortened and escaped.
        found: String,
    },
    /// A line is not UTF-8 text.
    #[error(
        "{name}: line {line} is not text; a trace has one time in milliseconds on each line; if \
         this is a measurement, `lasthop trace import {name} --out my.down` makes a trace of it \
         (docs/traces.md)"
    )]
    Binary {
        /// The trace.
        name: String,
        /// Line number from 1.
        line: u64,
    },
    /// A time does not fit.
    #[error("{name}: line {line}: {found} ms is beyond the limit of 4294967295 ms (49 days)")]
    TooLate {
        /// The trace.
        name: String,
        /// Line number from 1.
        line: u64,
        /// The text found, shortened.
        found: String,
    },
    /// A time is before the one on the line above.
    #[error(
        "{name}: line {line}: times must not decrease, but {time} ms comes after {before} ms; if \
         this is a measurement, `lasthop trace import {name} --out my.down` makes a trace of it \
         (docs/traces.md)"
    )]
    Decreasing {
        /// The trace.
        name: String,
        /// Line number from 1.
        line: u64,
        /// Milliseconds.
        time: u32,
        /// Milliseconds of the opportunity before.
        before: u32,
    },
    /// The period would be zero.
    #[error(
        "{name}: every opportunity is at 0 ms, so the trace has no length; the last time is its \
         period and must be above 0"
    )]
    NoPeriod {
        /// The trace.
        name: String,
    },
    /// More opportunities than allowed.
    #[error(
        "{name}: more than {} million opportunities, the limit for a trace (line {line})",
        Trace::MAX_OPPORTUNITIES / 1_000_000
    )]
    TooManyOpportunities {
        /// The trace.
        name: String,
        /// Line number from 1.
        line: u64,
    },
    /// More text than allowed.
    #[error("{name}: more than {} MB of text, the limit for a trace", Trace::MAX_BYTES / 1_000_000)]
    TooLong {
        /// The trace.
        name: String,
    },
}

impl Trace {
    /// Bytes that one opportunity can drain.
    pub const OPPORTUNITY: u32 = 1500;
    /// Traces with more opportunities are refused.
    pub const MAX_OPPORTUNITIES: usize = 50_000_000;
    /// Traces with more bytes of text are refused.
    pub const MAX_BYTES: u64 = 512_000_000;

    /// Reads a trace; messages contain `name`. Blank lines and lines that start with `#` are
    /// skipped.
    ///
    /// Stops at the first mistake or limit, and stores only the opportunities read so far. If the
    /// size of the file is known, call [`Trace::check_size`] first.
    ///
    /// # Errors
    ///
    /// If the text is not a trace, or above [`Trace::MAX_OPPORTUNITIES`].
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_channel::air::trace::Trace;
    /// use lasthop_core::units::{Duration, Rate};
    ///
    /// // Three opportunities of 1500 bytes in 10 ms.
    /// let trace = Trace::read("0\n5\n10\n".as_bytes(), "lte.down").unwrap();
    /// assert_eq!((trace.len(), trace.period()), (3, Duration::millis(10)));
    /// assert_eq!(trace.mean_rate(), Rate(3_600_000));
    /// let error = Trace::read("5\n4\n".as_bytes(), "lte.down").unwrap_err();
    /// assert!(error.to_string().starts_with("lte.down: line 2"), "{error}");
    /// ```
    pub fn read(reader: impl Read, name: &str) -> Result<Trace, TraceError> {
        Trace::read_within(reader, name, Trace::MAX_BYTES, Trace::MAX_OPPORTUNITIES)
    }

    fn read_within(
        reader: impl Read,
        name: &str,
        max_bytes: u64,
        max_opportunities: usize,
    ) -> Result<Trace, TraceError> {
        let mut lines = Lines::new(reader, max_bytes);
        let mut opportunities: Vec<u32> = vec![];
        let refuse = |error| match error {
            LineError::Io(source) => TraceError::Io { name: name.into(), source },
            LineError::TooLong => TraceError::TooLong { name: name.into() },
        };
        while let Some(read) = lines.next().map_err(refuse)? {
            let line = read.number;
            let time = parse_line(&read, name).map_err(|error| match error {
                TraceError::Garbled { name, line, found } if opportunities.is_empty() => {
                    TraceError::OtherFile { name, line, found }
                }
                other => other,
            })?;
            match opportunities.last() {
                _ if opportunities.len() >= max_opportunities => {
                    return Err(TraceError::TooManyOpportunities { name: name.into(), line });
                }
                Some(&before) if time < before => {
                    return Err(TraceError::Decreasing { name: name.into(), line, time, before });
                }
                _ => opportunities.push(time),
            }
        }
        match opportunities.last() {
            None => Err(TraceError::Empty { name: name.into() }),
            Some(0) => Err(TraceError::NoPeriod { name: name.into() }),
            Some(_) => {
                opportunities.shrink_to_fit();
                Ok(Trace { opportunities })
            }
        }
    }

    /// Checks the size of a trace's text in bytes.
    ///
    /// # Errors
    ///
    /// If it is above `Trace::MAX_BYTES`.
    pub fn check_size(bytes: u64, name: &str) -> Result<(), TraceError> {
        if bytes > Trace::MAX_BYTES {
            Err(TraceError::TooLong { name: name.into() })
        } else {
            Ok(())
        }
    }

    /// Time after which the trace repeats.
    #[inline]
    pub fn period(&self) -> Duration {
        Duration(self.last() * MS)
    }

    /// Opportunities in one period; never zero.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a trace is never empty")]
    pub fn len(&self) -> usize {
        self.opportunities.len()
    }

    /// Mean rate over a period.
    pub fn mean_rate(&self) -> Rate {
        let bits = self.len() as u128 * u128::from(Trace::OPPORTUNITY) * 8 * 1_000_000_000;
        let period = u128::from(self.period().0);
        Rate(((bits + period / 2) / period).min(u128::from(u64::MAX)) as u64)
    }

    /// The ordinal (from 0, counted through all periods) of the first opportunity at or after `t`,
    /// which is the number of opportunities before `t`.
    pub fn position(&self, t: Time) -> u64 {
        let (cycle, index) = self.locate(t);
        cycle.saturating_mul(self.len() as u64).saturating_add(index as u64)
    }

    /// Time of the opportunity with this ordinal.
    pub fn time_of(&self, position: u64) -> Time {
        let len = self.len() as u64;
        let cycle = self.period() * (position / len);
        Time(cycle.0) + self.offset((position % len) as usize)
    }

    /// Opportunities in `[from, to)`.
    pub fn opportunities_between(&self, from: Time, to: Time) -> u64 {
        self.position(to).saturating_sub(self.position(from))
    }

    /// Bits that the opportunities in `[from, to)` can drain.
    pub fn capacity_bits(&self, from: Time, to: Time) -> f64 {
        self.opportunities_between(from, to) as f64 * f64::from(Trace::OPPORTUNITY * 8)
    }

    /// The time of the opportunity of this index from the start of its cycle.
    #[inline]
    pub(super) fn offset(&self, index: usize) -> Duration {
        Duration(u64::from(self.opportunities[index]) * MS)
    }

    /// Cycle and index of the first opportunity at or after `t`; the index may be `len`, which is 0
    /// of the next cycle.
    pub(super) fn locate(&self, t: Time) -> (u64, usize) {
        // A time exactly at the period belongs to the cycle that ends, because its last opportunity
        // is at that time.
        let cycle = t.0.saturating_sub(1) / self.period().0;
        (cycle, self.seek(0, Duration(t.0 - cycle * self.period().0)))
    }

    /// The index of the first opportunity at or after `offset` from the start of the cycle; `from`
    /// is a lower bound.
    #[inline]
    pub(super) fn seek(&self, mut from: usize, offset: Duration) -> usize {
        let ms = offset.0.div_ceil(MS);
        let rest = |from: usize| self.opportunities.get(from..).unwrap_or(&[]);
        // Exponential search: the next opportunity is nearly always near.
        let mut step = 1;
        while rest(from).get(step - 1).is_some_and(|&o| u64::from(o) < ms) {
            from += step;
            step *= 2;
        }
        let near = &rest(from)[..rest(from).len().min(step)];
        from + near.partition_point(|&o| u64::from(o) < ms)
    }

    #[inline]
    fn last(&self) -> u64 {
        // There is at least one opportunity.
        self.opportunities.last().map_or(1, |&o| u64::from(o))
    }
}

/// The time on a line. A line that was cut at the length limit has none.
fn parse_line(line: &Line<'_>, name: &str) -> Result<u32, TraceError> {
    let Line { number: line, text, is_cut } = *line;
    if !is_cut && text.iter().all(u8::is_ascii_digit) {
        let number = text
            .iter()
            .try_fold(0_u32, |n, digit| n.checked_mul(10)?.checked_add(u32::from(digit - b'0')));
        return number.ok_or_else(|| TraceError::TooLate {
            name: name.into(),
            line,
            found: shorten(text),
        });
    }
    // The cut may split a character.
    let is_text =
        std::str::from_utf8(text).map_or_else(|e| is_cut && e.error_len().is_none(), |_| true);
    if !is_text || text.contains(&0) {
        return Err(TraceError::Binary { name: name.into(), line });
    }
    Err(TraceError::Garbled { name: name.into(), line, found: shorten(text) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Trace, String> {
        Trace::read(text.as_bytes(), "my.down").map_err(|e| e.to_string())
    }

    fn message(text: impl AsRef<[u8]>) -> String {
        let message = Trace::read(text.as_ref(), "my.down").unwrap_err().to_string();
        assert!(!message.chars().any(char::is_control), "{message:?}");
        message
    }

    fn at(ms: u64) -> Time {
        Time(ms * MS)
    }

    #[test]
    fn a_trace_has_a_period_and_a_mean_rate() {
        let trace = read("0\n0\n5\n10\n").unwrap();
        assert_eq!((trace.len(), trace.period()), (4, Duration::millis(10)));
        assert_eq!(trace.mean_rate(), Rate(4 * 12_000 * 100));
    }

    #[test]
    fn harmless_text_is_passed_over() {
        let plain = read("0\n5\n10").unwrap();
        assert_eq!(read("\u{feff}# made by hand\n0\r\n\n  5 \n# é\n10\n\n").unwrap(), plain);
        assert_eq!(read(&format!("#{}\n0\n5\n10\n", "é".repeat(1000))).unwrap(), plain);
    }

    #[test]
    fn the_trace_starts_over_after_its_last_time() {
        // Times 0 0 5 10 | 10 10 15 20 | 20 …
        let trace = read("0\n0\n5\n10\n").unwrap();
        let times: Vec<_> = (0..9).map(|i| trace.time_of(i).0 / MS).collect();
        assert_eq!(times, [0, 0, 5, 10, 10, 10, 15, 20, 20]);
        assert_eq!(
            [0, 1, 5, 6, 10, 11, 15, 20, 21].map(|ms| trace.position(at(ms))),
            [0, 2, 2, 3, 3, 6, 6, 7, 10]
        );
        assert_eq!(trace.position(Time(1)), 2);
        assert_eq!(trace.opportunities_between(at(5), at(15)), 4);
        assert_eq!(trace.opportunities_between(at(15), at(5)), 0);
        assert_eq!(trace.capacity_bits(at(0), at(10)), 36_000.0);
        assert!(trace.position(Time::NEVER) > 1 << 40);
        assert_eq!(trace.time_of(u64::MAX), Time::NEVER);
    }

    #[test]
    fn mistakes_are_told_in_one_line() {
        assert_eq!(
            message(""),
            "my.down: the trace is empty; it needs one time in milliseconds on each line"
        );
        assert_eq!(message("# nothing\n\n"), message(""));
        assert_eq!(
            message("1\n2\n2.5\n"),
            "my.down: line 3: expected a time in whole milliseconds such as 120, found \"2.5\""
        );
        assert_eq!(
            message("1\n-2\n"),
            "my.down: line 2: expected a time in whole milliseconds such as 120, found \"-2\""
        );
        assert_eq!(
            message("\u{1b}[31m a \"quoted\" word and a very long line of text\n"),
            "my.down: line 1: expected a time in whole milliseconds such as 120, found \
             \"\\u{1b}[31m a \\\"quoted\\\" word an…\"; if this is a measurement, `lasthop trace \
             import my.down --out my.down` makes a trace of it (docs/traces.md)"
        );
        assert_eq!(
            message("7\n9\n8\n"),
            "my.down: line 3: times must not decrease, but 8 ms comes after 9 ms; if this is a \
             measurement, `lasthop trace import my.down --out my.down` makes a trace of it \
             (docs/traces.md)"
        );
        assert_eq!(
            message("0\n0\n"),
            "my.down: every opportunity is at 0 ms, so the trace has no length; the last time is \
             its period and must be above 0"
        );
        assert_eq!(
            message("4294967296\n"),
            "my.down: line 1: 4294967296 ms is beyond the limit of 4294967295 ms (49 days)"
        );
        assert_eq!(
            message(b"1\n\xff\xfe2\n"),
            "my.down: line 2 is not text; a trace has one time in milliseconds on each line; if \
             this is a measurement, `lasthop trace import my.down --out my.down` makes a trace of \
             it (docs/traces.md)"
        );
        assert_eq!(
            message("1\n2\0\n"),
            "my.down: line 2 is not text; a trace has one time in milliseconds on each line; if \
             this is a measurement, `lasthop trace import my.down --out my.down` makes a trace of \
             it (docs/traces.md)"
        );
        assert!(
            message("0".repeat(1000) + "5\n").contains("line 1: expected"),
            "a number cut short is no number"
        );
        assert!(message(" ".repeat(1000) + "5\n").contains("line 1: expected"));
    }

    /// Repeats its text without end and counts the bytes read.
    struct Endless<'a>(&'a [u8], &'a mut u64);

    impl Read for Endless<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            for (i, byte) in buffer.iter_mut().enumerate() {
                *byte = self.0[(*self.1 as usize + i) % self.0.len()];
            }
            *self.1 += buffer.len() as u64;
            Ok(buffer.len())
        }
    }

    #[test]
    fn reading_stops_at_the_limits() {
        let refused = |text: &str, max_bytes, max_opportunities| {
            let mut consumed = 0;
            let error = Trace::read_within(
                Endless(text.as_bytes(), &mut consumed),
                "my.down",
                max_bytes,
                max_opportunities,
            )
            .unwrap_err();
            (error.to_string(), consumed)
        };
        let block = 1 << 16;
        let (error, consumed) = refused("7\n", 1_000_000, 100_000);
        assert_eq!(
            error,
            "my.down: more than 50 million opportunities, the limit for a trace (line 100001)"
        );
        assert!(consumed <= 200_002 + block);
        let (error, consumed) = refused("7\n", 1_000_000, 1_000_000);
        assert_eq!(error, "my.down: more than 512 MB of text, the limit for a trace");
        assert!(consumed <= 1_000_000 + block);
        for text in ["# comment without end ", "\n", "# comment\n"] {
            let (error, consumed) = refused(text, 1_000_000, 100_000);
            assert!(error.contains("512 MB"), "{error}");
            assert!(consumed <= 1_000_000 + 2 * block);
        }
        for text in ["1", " ", "x", "\0", "é"] {
            let (_, consumed) = refused(text, 1_000_000, 100_000);
            assert!(consumed <= block, "a line without end is refused at once");
        }
        assert!(Trace::check_size(10_000_000_000, "my.down").is_err());
        assert!(Trace::check_size(Trace::MAX_BYTES, "my.down").is_ok());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = Trace::read(&text[..], "my.down");
        }

        #[test]
        fn position_and_time_agree(
            gaps in prop::collection::vec(0_u32..4, 1..30),
            t in 0_u64..200_000_000,
        ) {
            let times = gaps.iter().scan(0, |sum, g| { *sum += g; Some(*sum) });
            let text: String = times.map(|t| format!("{t}\n")).collect();
            let Ok(trace) = read(&text) else { return Ok(()) };
            let position = trace.position(Time(t));
            prop_assert!(trace.time_of(position) >= Time(t));
            prop_assert!(position == 0 || trace.time_of(position - 1) < Time(t));
            let (cycle, index) = trace.locate(Time(t));
            let offset = Duration(t - cycle * trace.period().0);
            for from in 0..=index {
                prop_assert_eq!(trace.seek(from, offset), index);
            }
        }
    }
}
