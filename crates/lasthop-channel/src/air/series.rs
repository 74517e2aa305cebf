//! Delay and loss traces: a value over time, from a file.
//!
//! Each line has a time in milliseconds from the start and a value, separated by blanks or a comma:
//! a one-way delay in milliseconds, or a probability from 0 to 1. A value is held until the next
//! time; before the first time, the first value applies. The last value is held as long as the one
//! before it; then the trace starts over.

use std::io::{self, Read};

use super::lines::{Line, LineError, Lines, shorten};
use super::trace::Trace;
use lasthop_core::units::{Duration, Time};

/// Nanoseconds in a millisecond, the unit of times.
const MS: f64 = 1e6;
/// The last time that a trace may have, ms; as in traces of the rate.
const LATEST: f64 = u32::MAX as f64;

/// What the values of a series are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesKind {
    /// One-way delays, milliseconds.
    Delay,
    /// Probabilities that a frame is lost.
    Loss,
}

impl SeriesKind {
    /// The largest value: an hour, or 1.
    fn most(self) -> f64 {
        match self {
            SeriesKind::Delay => 3_600_000.0,
            SeriesKind::Loss => 1.0,
        }
    }

    /// What a line has.
    fn line(self) -> &'static str {
        match self {
            SeriesKind::Delay => "a time and a one-way delay in milliseconds, such as \"120 35.5\"",
            SeriesKind::Loss => {
                "a time in milliseconds and a probability from 0 to 1, such as \"120 0.02\""
            }
        }
    }
}

/// A delay or loss trace, read and checked: at least one row, times that increase.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Time, ns, and value.
    rows: Vec<(u64, f64)>,
    /// Nanoseconds after which the rows repeat.
    period: u64,
}

/// Why a delay or loss trace is refused. The message is one line and contains its name.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// Reading failed.
    #[error("{name}: cannot be read: {source}")]
    Io {
        /// The trace.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// A line has no time and value, or one outside of its range.
    #[error(
        "{name}: line {line}: expected {expected}, found \"{found}\" (lasthop trace import makes \
         such a file of a measurement; docs/traces.md)"
    )]
    Garbled {
        /// The trace.
        name: String,
        /// Line number from 1.
        line: u64,
        /// What a line has.
        expected: &'static str,
        /// The text found, shortened and escaped.
        found: String,
    },
    /// A time is not after the one before it.
    #[error("{name}: line {line}: times must increase, but {time} ms comes after {before} ms")]
    NotIncreasing {
        /// The trace.
        name: String,
        /// Line number from 1.
        line: u64,
        /// Milliseconds.
        time: f64,
        /// Milliseconds of the row before.
        before: f64,
    },
    /// No line has a value.
    #[error("{name}: the trace is empty; each line needs {expected}")]
    Empty {
        /// The trace.
        name: String,
        /// What a line has.
        expected: &'static str,
    },
    /// More rows or more text than allowed.
    #[error(
        "{name}: more than {} million rows or {} MB of text, the limits for a trace",
        Series::MAX_ROWS / 1_000_000,
        Trace::MAX_BYTES / 1_000_000
    )]
    TooLong {
        /// The trace.
        name: String,
    },
}

impl Series {
    /// Traces with more rows are refused.
    pub const MAX_ROWS: usize = 20_000_000;

    /// Reads a trace; messages contain `name`. Blank lines and lines that start with `#` are
    /// skipped.
    ///
    /// # Errors
    ///
    /// If the text is not a trace of this kind, or too long.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_channel::air::series::{Series, SeriesKind};
    /// use lasthop_core::units::{Duration, Time};
    ///
    /// let text = "0 20\n15000 35\n";
    /// let delay = Series::read(text.as_bytes(), SeriesKind::Delay, "my.delay").unwrap();
    /// assert_eq!(delay.period(), Duration::secs(30));
    /// assert_eq!(delay.value_at(Time(16_000_000_000)), 35.0);
    /// assert_eq!(delay.value_at(Time(31_000_000_000)), 20.0);
    /// ```
    pub fn read(reader: impl Read, kind: SeriesKind, name: &str) -> Result<Series, SeriesError> {
        let mut lines = Lines::new(reader, Trace::MAX_BYTES);
        let mut rows: Vec<(f64, f64)> = vec![];
        let too_long = || SeriesError::TooLong { name: name.into() };
        let refuse = |error| match error {
            LineError::Io(source) => SeriesError::Io { name: name.into(), source },
            LineError::TooLong => too_long(),
        };
        while let Some(read) = lines.next().map_err(refuse)? {
            let line = read.number;
            if !read.is_cut && read.text.iter().all(|byte| *byte == b',') {
                continue;
            }
            let row = parse_row(&read).filter(|(_, value)| *value <= kind.most());
            let (time, value) = row.ok_or_else(|| SeriesError::Garbled {
                name: name.into(),
                line,
                expected: kind.line(),
                found: shorten(read.text),
            })?;
            if let Some(&(before, _)) = rows.last().filter(|last| last.0 >= time) {
                let name = name.into();
                return Err(SeriesError::NotIncreasing { name, line, time, before });
            }
            if rows.len() >= Series::MAX_ROWS {
                return Err(too_long());
            }
            rows.push((time, value));
        }
        let rows: Vec<_> = rows.iter().map(|&(t, v)| ((t * MS + 0.5) as u64, v)).collect();
        Series::of(rows)
            .ok_or_else(|| SeriesError::Empty { name: name.into(), expected: kind.line() })
    }

    /// The series with these rows: time in ns, increasing, and value. `None` without rows.
    pub fn of(rows: Vec<(u64, f64)>) -> Option<Series> {
        let &(last, _) = rows.last()?;
        let before = rows.iter().rev().nth(1).map_or(0, |row| row.0);
        let held = if rows.len() > 1 { last - before } else { 1 };
        Some(Series { period: (last + held).max(1), rows })
    }

    /// Time after which the trace repeats.
    pub fn period(&self) -> Duration {
        Duration(self.period)
    }

    /// The value at a time, in milliseconds or as a probability.
    #[inline]
    pub fn value_at(&self, t: Time) -> f64 {
        let now = t.0 % self.period;
        let next = self.rows.partition_point(|row| row.0 <= now);
        // There is at least one row.
        self.rows.get(next.saturating_sub(1)).map_or(0.0, |row| row.1)
    }

    /// The smallest and the largest value.
    pub fn range(&self) -> (f64, f64) {
        let values = || self.rows.iter().map(|row| row.1);
        (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
    }
}

/// The time in ms and the value of a line; `None` if it does not have these two numbers.
fn parse_row(line: &Line<'_>) -> Option<(f64, f64)> {
    let text = std::str::from_utf8(line.text).ok().filter(|_| !line.is_cut)?;
    let mut words = text.split([' ', '\t', ',']).filter(|word| !word.is_empty());
    let mut number = || words.next()?.parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0);
    let row = (number().filter(|time| *time <= LATEST)?, number()?);
    words.next().is_none().then_some(row)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn read(text: &str) -> Result<Series, String> {
        Series::read(text.as_bytes(), SeriesKind::Delay, "my.delay").map_err(|e| e.to_string())
    }

    #[test]
    fn a_value_is_held_until_the_next_time() {
        let series = read("# ms, ms\n100 20\n\n200,30.5\r\n\t500  40\n").unwrap();
        assert_eq!(series.period(), Duration::millis(800));
        let at = |ms: u64| series.value_at(Time(ms * MS));
        assert_eq!(
            [0, 100, 199, 200, 499, 500, 799, 800, 1000].map(at),
            [20.0, 20.0, 20.0, 30.5, 30.5, 40.0, 40.0, 20.0, 30.5]
        );
        assert_eq!(series.range(), (20.0, 40.0));
        assert_eq!(read("\u{feff}# made by hand\n,,\n100 20\n200 30.5\n500 40").unwrap(), series);
        let constant = read("0 7").unwrap();
        assert_eq!([0, 1, 1_000_000].map(|ms| constant.value_at(Time(ms * MS))), [7.0; 3]);
    }

    #[test]
    fn mistakes_are_errors() {
        let message = |text: &str| read(text).unwrap_err();
        assert!(message("0 1\n5\n").starts_with(
            "my.delay: line 2: expected a time and a one-way delay in milliseconds, such as \
             \"120 35.5\", found \"5\""
        ));
        for text in ["time_ms delay_ms\n", "0 -1\n", "0 nan\n", "0 1 2\n", "0 4000000\n", "-1 2\n"]
        {
            assert!(message(text).contains("line 1: expected"), "{text}");
        }
        assert!(message(&format!("0 1{}\n", "0".repeat(300))).contains("line 1"));
        assert!(message("0 1\n5 2\n5 3\n").contains("line 3: times must increase, but 5 ms"));
        assert!(message("# nothing\n").contains("the trace is empty"));
        let loss = Series::read("0 1.01".as_bytes(), SeriesKind::Loss, "my.loss").unwrap_err();
        assert!(loss.to_string().contains("a probability from 0 to 1"), "{loss}");
        assert!(Series::read(&b"0 \xff"[..], SeriesKind::Loss, "my.loss").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(series) = Series::read(&text[..], SeriesKind::Loss, "my.loss") {
                prop_assert!((0.0..=1.0).contains(&series.value_at(Time::NEVER)));
            }
        }
    }
}
