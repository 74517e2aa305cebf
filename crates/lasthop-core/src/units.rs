//! Times, rates, sizes and shares, and their text forms ("170 ms", "250 kbps", "20 segments", "1
//! %").
//!
//! Time is an integer number of nanoseconds, so that a run gives the same result on every machine.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A point in time: nanoseconds since the start of the run or, in captures of a real network, since
/// 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub u64);

/// A data rate in bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

/// A number of bytes, or of segments of the flow it belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// Segments of the flow's maximum segment size; may have a fraction.
    Segments(f64),
}

/// A queue limit in frames or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Maximum number of queued frames, excluding the one being sent.
    Packets(u64),
    /// Maximum number of queued bytes, excluding the frame being sent.
    Bytes(u64),
}

/// A share between 0 and 1, written "1 %" or 0.01.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than any event: an unset timer.
    pub const NEVER: Time = Time(u64::MAX);

    /// Seconds since the start.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// Seconds since the start, for output: the float nearest to the exact decimal fraction
    /// ("0.072"). The product in `as_secs` may differ in the last place ("0.07200000000000001").
    pub fn decimal_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// A duration of 0.
    pub const ZERO: Duration = Duration(0);
    /// The longest duration, about 584 years.
    pub const MAX: Duration = Duration(u64::MAX);

    /// A span of whole seconds.
    pub const fn secs(s: u64) -> Duration {
        Duration(s * 1_000_000_000)
    }

    /// A span of whole milliseconds.
    pub const fn millis(ms: u64) -> Duration {
        Duration(ms * 1_000_000)
    }

    /// A span of whole microseconds.
    pub const fn micros(us: u64) -> Duration {
        Duration(us * 1_000)
    }

    /// A span of `s` seconds, rounded to the nanosecond; negative and NaN give zero.
    pub fn from_secs_f64(s: f64) -> Duration {
        Duration((s * 1e9 + 0.5) as u64)
    }

    /// The span in seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// The span in seconds for output, see [`Time::decimal_secs`].
    pub fn decimal_secs(self) -> f64 {
        Time(self.0).decimal_secs()
    }

    /// `self` minus `other`, not below zero.
    pub fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

impl Rate {
    /// Serialization time of `bytes` bytes at this rate, rounded to the nanosecond;
    /// [`Duration::MAX`] for a rate of 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_core::units::{Duration, Rate};
    ///
    /// // 1500 bytes at 1 Mbit/s.
    /// assert_eq!(Rate(1_000_000).time_for(1500), Duration::millis(12));
    /// assert_eq!(Rate(0).time_for(1500), Duration::MAX);
    /// ```
    #[inline]
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let bits = bytes * 8;
        // The 64-bit product suffices for frames; only very large sizes need the slower 128-bit
        // division.
        match bits.checked_mul(1_000_000_000) {
            Some(n) => Duration((n + self.0 / 2) / self.0),
            None => Duration(
                ((u128::from(bits) * 1_000_000_000 + u128::from(self.0 / 2)) / u128::from(self.0))
                    .min(u128::from(u64::MAX)) as u64,
            ),
        }
    }
}

impl Size {
    /// The size in bytes for a maximum segment size of `mss` bytes.
    pub fn bytes(self, mss: u32) -> u64 {
        match self {
            Size::Bytes(b) => b,
            Size::Segments(n) => (n * f64::from(mss) + 0.5) as u64,
        }
    }

    /// True if nothing has this size.
    pub fn is_zero(self) -> bool {
        matches!(self, Size::Bytes(0)) || matches!(self, Size::Segments(n) if n <= 0.0)
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    #[inline]
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, d: Duration) -> Time {
        Time(self.0.saturating_sub(d.0))
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, t: Time) -> Duration {
        self.since(t)
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, d: Duration) -> Duration {
        Duration(self.0.saturating_add(d.0))
    }
}

impl Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, n: u64) -> Duration {
        Duration(self.0.saturating_mul(n))
    }
}

/// Unit names with their factor relative to the base unit.
type Units = &'static [(&'static str, f64)];

const TIME_UNITS: Units = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
    ("h", 3600e9),
    ("d", 86400e9),
];
const RATE_UNITS: Units = &[
    ("bps", 1.0),
    ("kbps", 1e3),
    ("Mbps", 1e6),
    ("Gbps", 1e9),
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
];
const SIZE_UNITS: Units = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
];
const SEGMENT_UNITS: Units = &[("segments", 1.0), ("segment", 1.0)];
const PACKET_UNITS: Units = &[("packets", 1.0), ("packet", 1.0), ("frames", 1.0), ("frame", 1.0)];
const SHARE_UNITS: Units = &[("%", 0.01)];

/// Base unit of each dimension, its units, and the divisor from the units' base to the base unit
/// (times are in nanoseconds).
const DIMENSIONS: [(&str, Units, f64); 7] = [
    ("s", TIME_UNITS, 1e9),
    ("bit/s", RATE_UNITS, 1.0),
    ("B", SIZE_UNITS, 1.0),
    ("segments", SEGMENT_UNITS, 1.0),
    ("packets", PACKET_UNITS, 1.0),
    ("share", SHARE_UNITS, 1.0),
    ("", &[("", 1.0)], 1.0),
];

/// A number with a unit of any dimension, or without one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnyQuantity {
    /// The number as written.
    pub number: f64,
    /// The unit as written; empty if there is none.
    pub unit: &'static str,
    /// Base unit of the dimension: s, bit/s, B, segments, packets, share; empty for a bare number.
    pub dimension: &'static str,
    /// The value in the base unit.
    pub base: f64,
}

impl AnyQuantity {
    /// Parses "170 ms", "1 GiB" or "3"; `None` if the text is not a number or has an unknown unit.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_core::units::AnyQuantity;
    ///
    /// let delay = AnyQuantity::parse("170 ms").unwrap();
    /// assert_eq!((delay.number, delay.unit, delay.dimension), (170.0, "ms", "s"));
    /// assert!((delay.base - 0.17).abs() < 1e-12);
    /// assert_eq!(AnyQuantity::parse("3 furlongs"), None);
    /// ```
    pub fn parse(text: &str) -> Option<AnyQuantity> {
        let (number, unit) = number_and_unit(text)?;
        let (dimension, &(unit, factor), per_base) = DIMENSIONS
            .iter()
            .find_map(|(name, units, per_base)| Some((name, unit_in(units, unit)?, per_base)))?;
        Some(AnyQuantity { number, unit, dimension, base: number * factor / per_base })
            .filter(|q| q.base.is_finite())
    }
}

/// Splits "170 ms" into its number and its unit.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let t = text.trim();
    let end = t
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E')))
        .unwrap_or(t.len());
    // "5e3" is a number, but an "e" may also start a unit.
    let (number, unit) = t.split_at(end);
    if let Ok(n) = number.parse::<f64>() {
        return Some((n, unit.trim()));
    }
    let cut = number.rfind(['e', 'E'])?;
    Some((number[..cut].parse().ok()?, t[cut..].trim()))
}

/// The number in "170 ms" times the factor of its unit; `None` if the unit is not in `units`.
fn quantity(text: &str, units: Units) -> Option<f64> {
    let (number, unit) = number_and_unit(text)?;
    Some(number * unit_in(units, unit)?.1)
}

/// The unit with this name. Rates may also be in lower case ("2 mbps"), which is never ambiguous;
/// other cases are refused, because "MBps" may mean bytes.
fn unit_in<'u>(units: &'u [(&'static str, f64)], name: &str) -> Option<&'u (&'static str, f64)> {
    let is_rate = units.iter().any(|(unit, _)| *unit == "bps");
    units
        .iter()
        .find(|(unit, _)| *unit == name)
        .or_else(|| units.iter().find(|(unit, _)| is_rate && unit.to_lowercase() == name))
}

fn units_of(units: Units) -> String {
    units.iter().map(|u| u.0).collect::<Vec<_>>().join(", ")
}

fn expect_range(
    what: &str,
    text: &str,
    value: Option<f64>,
    units: &str,
    sample: &str,
) -> Result<f64, String> {
    match value {
        Some(v) if v.is_finite() && v >= 0.0 => Ok(v),
        Some(v) if v < 0.0 => Err(format!("{what} must not be negative, found \"{text}\"")),
        _ => {
            Err(format!("expected {what} such as \"{sample}\" (units: {units}), found \"{text}\""))
        }
    }
}

/// A quantity that scenario files give as text with a unit.
///
/// # Examples
///
/// ```
/// use lasthop_core::units::{Duration, Quantity, Share};
///
/// assert_eq!(Duration::parse("170 ms"), Ok(Duration::millis(170)));
/// assert_eq!(Share::parse("1 %"), Ok(Share(0.01)));
/// // The message states what was found and what is allowed.
/// assert!(Duration::parse("170 kB").unwrap_err().contains("170 kB"));
/// assert!(Duration::from_number(170.0).is_err());
/// ```
pub trait Quantity: Sized {
    /// Parses the text form.
    ///
    /// # Errors
    ///
    /// A message that states what was found and what is allowed.
    fn parse(text: &str) -> Result<Self, String>;
    /// Converts a number without unit, if allowed.
    ///
    /// # Errors
    ///
    /// A message that asks for a unit, or gives the allowed range.
    fn from_number(n: f64) -> Result<Self, String>;
    /// The text form; `parse` gives the same value.
    fn text(&self) -> String;
    /// Description for the JSON Schema, one sentence.
    const DOC: &'static str;
    /// Example for error messages and the JSON Schema.
    const SAMPLE: &'static str;
}

fn no_unit<T>(n: f64, sample: &str) -> Result<T, String> {
    Err(format!("the number {n} needs a unit: write a string such as \"{sample}\""))
}

impl Quantity for Duration {
    fn parse(text: &str) -> Result<Self, String> {
        let v = expect_range(
            "a time",
            text,
            quantity(text, TIME_UNITS),
            &units_of(TIME_UNITS),
            Self::SAMPLE,
        )?;
        if v > 1e18 {
            return Err(format!("a time must not exceed 1e9 s, found \"{text}\""));
        }
        Ok(Duration((v + 0.5) as u64))
    }
    fn from_number(n: f64) -> Result<Self, String> {
        no_unit(n, Self::SAMPLE)
    }
    fn text(&self) -> String {
        self.to_string()
    }
    const DOC: &'static str = "A time with its unit: ns, us, ms, s, min, h or d.";
    const SAMPLE: &'static str = "170 ms";
}

impl Quantity for Rate {
    fn parse(text: &str) -> Result<Self, String> {
        let v = expect_range(
            "a rate",
            text,
            quantity(text, RATE_UNITS),
            &units_of(RATE_UNITS),
            Self::SAMPLE,
        )?;
        if v > 1e13 {
            return Err(format!("a rate must not exceed 10 Tbit/s, found \"{text}\""));
        }
        Ok(Rate((v + 0.5) as u64))
    }
    fn from_number(n: f64) -> Result<Self, String> {
        no_unit(n, Self::SAMPLE)
    }
    fn text(&self) -> String {
        self.to_string()
    }
    const DOC: &'static str =
        "A rate with its unit: bps, kbps, Mbps or Gbps, or bit/s, kbit/s, Mbit/s or Gbit/s.";
    const SAMPLE: &'static str = "250 kbps";
}

impl Quantity for Size {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(n) = quantity(text, SEGMENT_UNITS) {
            return expect_range("a size", text, Some(n), "", Self::SAMPLE).map(Size::Segments);
        }
        let units = format!("{}, segments", units_of(SIZE_UNITS));
        let v = expect_range("a size", text, quantity(text, SIZE_UNITS), &units, Self::SAMPLE)?;
        if v > 1e18 {
            return Err(format!("a size must not exceed 1e18 B, found \"{text}\""));
        }
        Ok(Size::Bytes((v + 0.5) as u64))
    }
    fn from_number(n: f64) -> Result<Self, String> {
        no_unit(n, Self::SAMPLE)
    }
    fn text(&self) -> String {
        match self {
            Size::Bytes(b) => format!("{b} B"),
            Size::Segments(1.0) => "1 segment".into(),
            Size::Segments(n) => format!("{n} segments"),
        }
    }
    const DOC: &'static str = "A size: bytes (B, kB, MB, GB, KiB, MiB, GiB) or segments.";
    const SAMPLE: &'static str = "20 segments";
}

impl Quantity for QueueLimit {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(n) = quantity(text, PACKET_UNITS) {
            let n = expect_range("a queue limit", text, Some(n), "", Self::SAMPLE)?;
            if n.fract() != 0.0 {
                return Err(format!(
                    "a queue limit must be a whole number of packets, found \"{text}\""
                ));
            }
            return Ok(QueueLimit::Packets(n as u64));
        }
        let units = format!("packets, {}", units_of(SIZE_UNITS));
        expect_range("a queue limit", text, quantity(text, SIZE_UNITS), &units, Self::SAMPLE)
            .map(|v| QueueLimit::Bytes((v + 0.5) as u64))
    }
    fn from_number(n: f64) -> Result<Self, String> {
        no_unit(n, Self::SAMPLE)
    }
    fn text(&self) -> String {
        match self {
            QueueLimit::Packets(n) => format!("{n} packets"),
            QueueLimit::Bytes(n) => format!("{n} B"),
        }
    }
    const DOC: &'static str =
        "A queue limit in packets or bytes. The frame being sent is not counted.";
    const SAMPLE: &'static str = "250 packets";
}

impl Quantity for Share {
    fn parse(text: &str) -> Result<Self, String> {
        let v = match quantity(text, SHARE_UNITS) {
            Some(v) => Some(v),
            None => text.trim().parse().ok(),
        };
        Share::from_number(expect_range("a share", text, v, "%", Self::SAMPLE)?)
            .map_err(|_| format!("a share must lie between 0 % and 100 %, found \"{text}\""))
    }
    fn from_number(n: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&n) {
            Ok(Share(n))
        } else {
            Err(format!("a share must lie between 0 and 1, found {n}"))
        }
    }
    fn text(&self) -> String {
        let percent = format!("{} %", round12(self.0 * 100.0));
        if Share::parse(&percent) == Ok(*self) { percent } else { self.0.to_string() }
    }
    const DOC: &'static str = "A share: percent, or a number between 0 and 1.";
    const SAMPLE: &'static str = "1 %";
}

/// Rounds to 13 significant digits, so that a product such as 0.07 * 100 prints as it was written.
fn round12(x: f64) -> f64 {
    format!("{x:.12e}").parse().unwrap_or(x)
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        match ns {
            0 => write!(f, "0 s"),
            _ if ns.is_multiple_of(1_000_000_000) => write!(f, "{} s", ns / 1_000_000_000),
            _ if ns.is_multiple_of(1_000_000) => write!(f, "{} ms", ns / 1_000_000),
            _ if ns.is_multiple_of(1_000) => write!(f, "{} us", ns / 1_000),
            _ => write!(f, "{ns} ns"),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = self.0;
        match r {
            0 => write!(f, "0 bps"),
            _ if r.is_multiple_of(1_000_000_000) => write!(f, "{} Gbps", r / 1_000_000_000),
            _ if r.is_multiple_of(1_000_000) => write!(f, "{} Mbps", r / 1_000_000),
            _ if r.is_multiple_of(1_000) => write!(f, "{} kbps", r / 1_000),
            _ => write!(f, "{r} bps"),
        }
    }
}

macro_rules! quantity_serde {
    ($($t:ty),*) => {$(
        impl<'de> Deserialize<'de> for $t {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct V;
                impl de::Visitor<'_> for V {
                    type Value = $t;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "a string such as \"{}\"", <$t as Quantity>::SAMPLE)
                    }
                    fn visit_str<E: de::Error>(self, s: &str) -> Result<$t, E> {
                        <$t as Quantity>::parse(s).map_err(E::custom)
                    }
                    fn visit_f64<E: de::Error>(self, n: f64) -> Result<$t, E> {
                        <$t as Quantity>::from_number(n).map_err(E::custom)
                    }
                    fn visit_i64<E: de::Error>(self, n: i64) -> Result<$t, E> {
                        self.visit_f64(n as f64)
                    }
                    fn visit_u64<E: de::Error>(self, n: u64) -> Result<$t, E> {
                        self.visit_f64(n as f64)
                    }
                }
                d.deserialize_any(V)
            }
        }
        impl Serialize for $t {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&Quantity::text(self))
            }
        }
        impl JsonSchema for $t {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($t).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": ["string", "number"],
                    "description": <$t as Quantity>::DOC,
                    "examples": [<$t as Quantity>::SAMPLE]
                })
            }
        }
    )*};
}
quantity_serde!(Duration, Rate, Size, QueueLimit, Share);

#[cfg(test)]
mod tests;
