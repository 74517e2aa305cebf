//! Loss detectors of schemes: what a scheme gives to the recovery on SACK blocks.
//!
//! A detector of a scheme is a [`DetectorEntry`], a `static` in the scheme's file. The crate of the
//! schemes lists the entries once and passes the list in a
//! [`Vocabulary`](super::super::text::Vocabulary), so that this crate names none of them.

use std::fmt;
use std::ops::RangeInclusive;

use super::{AckSummary, LossDetector, Losses};
use crate::receiver::rule::ReceiverRule;
use crate::recovery::hints::{HintRules, LinkHints};
use crate::scoreboard::{Scoreboard, Sent};
use lasthop_core::segment::{Options, SackBlocks, Segment};
use lasthop_core::units::Time;

/// The state machine of a detector. Only what a detector needs beyond [`LossDetector`] is
/// implemented; the rest does nothing.
///
/// # Examples
///
/// A detector that considers a segment lost as soon as any later one is SACKed, as a value of a
/// scheme's recovery:
///
/// ```
/// use lasthop_tcp::recovery::detect::{AckSummary, LossDetector, Losses};
/// use lasthop_tcp::recovery::{DetectorEntry, Recovery, RecoveryKind, SchemeDetector};
/// use lasthop_tcp::scoreboard::Scoreboard;
///
/// #[derive(Debug)]
/// struct Impatient;
///
/// impl LossDetector for Impatient {
///     fn on_ack(&mut self, _: &Scoreboard, ack: &AckSummary, losses: &mut Losses) {
///         losses.below = ack.high_sacked;
///     }
/// }
///
/// impl SchemeDetector for Impatient {}
///
/// static DETECTOR: DetectorEntry = DetectorEntry::new("impatient", |_| Box::new(Impatient));
///
/// let recovery = Recovery::of(RecoveryKind::Scheme(&DETECTOR));
/// assert_eq!(recovery.to_string(), "impatient");
/// ```
pub trait SchemeDetector: LossDetector + fmt::Debug + Send {
    /// As `on_ack`, while hints of the link layer matter.
    fn on_ack_with_hints(
        &mut self,
        board: &Scoreboard,
        ack: &AckSummary,
        _hints: &mut LinkHints,
        losses: &mut Losses,
    ) {
        self.on_ack(board, ack, losses);
    }

    /// The number of duplicate ACKs after one with new SACK information, while hints of the link
    /// layer matter. `dupacks` is the number before it, `newest` the time of transmission and the
    /// first byte of the segment sent last among those that it reports.
    fn count_duplicate(
        &mut self,
        _board: &Scoreboard,
        dupacks: u32,
        _high_sacked: u64,
        _newest: Option<(Time, u64)>,
        _hints: &LinkHints,
    ) -> u32 {
        dupacks + 1
    }

    /// The blocks that an ACK without SACK blocks stands for; `None` if it stands for none, and
    /// D-SACK blocks are recognised.
    fn blocks(&self, _: &Scoreboard, _: &Segment, _: &Options) -> Option<SackBlocks> {
        None
    }

    /// New segments may be at the end of the scoreboard.
    fn on_sent(&mut self, _: &Scoreboard) {}

    /// The segment at `seq` was retransmitted.
    fn on_retransmitted(&mut self, _: &Scoreboard, _seq: u64) {}

    /// A segment is known to be delivered.
    fn on_delivered(&mut self, _: &Sent) {}

    /// The bytes below `ack` are acknowledged.
    fn on_acknowledged(&mut self, _ack: u64) {}

    /// The retransmission timer expired, and all segments are considered lost.
    fn on_timeout(&mut self, _: &Scoreboard) {}

    /// The hints of the link layer were discarded, because a timeout meant congestion.
    fn on_hints_discarded(&mut self) {}

    /// The retransmission timer expired. True if it only makes the detector's deadline due.
    fn replaces_timeout(&mut self, _now: Time) -> bool {
        false
    }

    /// `flight` bytes are not acknowledged: sets the deadline of the detector.
    fn set_deadline(&mut self, _: &AckSummary, _flight: u64) {}
}

/// How often the window is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reductions {
    /// Once for each window with losses (RFC 5681, section 4.3).
    Window,
    /// Once when a recovery begins; retransmissions lost in it do not count.
    Recovery,
    /// Once for each lost segment; a recovery lasts only until that is repaired.
    Loss,
}

/// How the engine works with a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// RACK (RFC 8985) detects losses as well, and its state is updated.
    pub by_time: bool,
    /// How often the window is reduced.
    pub reductions: Reductions,
    /// Before a recovery, new data may be sent for data that are SACKed, even without limited
    /// transmit.
    pub keeps_ack_clock: bool,
    /// Losses are detected in the order of transmission, once hints of the link layer have been
    /// accepted.
    pub in_sending_order: bool,
    /// In a recovery, segments that are not known to be lost may be retransmitted (RFC 6675,
    /// NextSeg, rules 3 and 4).
    pub retransmits_uncertain: bool,
}

impl Behaviour {
    /// That of RACK.
    pub const RACK: Behaviour = Behaviour { by_time: true, ..Behaviour::FACK };
    /// That of FACK.
    pub const FACK: Behaviour = Behaviour { retransmits_uncertain: false, ..Behaviour::RFC6675 };
    /// That of RFC 6675.
    pub const RFC6675: Behaviour = Behaviour {
        by_time: false,
        reductions: Reductions::Window,
        keeps_ack_clock: false,
        in_sending_order: false,
        retransmits_uncertain: true,
    };
}

/// The addition that only one detector has: a switch, or a number.
#[derive(Clone, Debug)]
pub struct OwnAddition {
    /// The word of the text form.
    pub name: &'static str,
    /// Its number (`name=3`); a switch has none, and sets 1.
    pub number: Option<Number>,
    /// The setting without the addition.
    pub default: u32,
}

/// The number of an addition.
#[derive(Clone, Debug)]
pub struct Number {
    /// What it counts, in capitals, for help texts.
    pub unit: &'static str,
    /// What it means, for error messages.
    pub about: &'static str,
    /// The values that are allowed.
    pub range: RangeInclusive<u32>,
}

impl Number {
    /// # Errors
    ///
    /// If `value` is not allowed; the message names the range.
    pub fn check(&self, name: &str, value: u32) -> Result<(), String> {
        if self.range.contains(&value) {
            return Ok(());
        }
        let (least, most) = (self.range.start(), self.range.end());
        Err(format!("{name} must be {least} to {most}, found {value}: {}", self.about))
    }
}

/// The receiver's rule of a scheme, if it has one.
pub type ReceiverSlot = Option<Box<dyn ReceiverRule>>;

/// A loss detector of a scheme, as a value.
pub struct DetectorEntry {
    /// The word of the text form.
    pub name: &'static str,
    /// How the engine works with it.
    pub behaviour: Behaviour,
    /// Its response to hints of the link layer, if it accepts them.
    pub hints: Option<HintRules>,
    /// Its own addition, which sets [`setting`](super::super::config::Recovery::setting).
    pub own: Option<OwnAddition>,
    /// It takes no addition except its own.
    pub excludes_additions: bool,
    /// The receiver reports by SACK, given the setting.
    pub uses_sack: fn(u32) -> bool,
    /// It needs the timestamps option.
    pub needs_timestamps: bool,
    /// Makes one for a connection, given the setting.
    pub make: fn(u32) -> Box<dyn SchemeDetector>,
    /// What the receiver does, given the setting and the receiver's rule of the scheme.
    pub receiver: fn(u32, ReceiverSlot) -> ReceiverSlot,
}

impl DetectorEntry {
    /// What an entry leaves open: a detector on SACK blocks that combines with all additions.
    pub const fn new(name: &'static str, make: fn(u32) -> Box<dyn SchemeDetector>) -> Self {
        DetectorEntry {
            name,
            behaviour: Behaviour::RFC6675,
            hints: None,
            own: None,
            excludes_additions: false,
            uses_sack: |_| true,
            needs_timestamps: false,
            make,
            receiver: |_, rule| rule,
        }
    }

    /// The setting without an addition.
    pub const fn default_setting(&self) -> u32 {
        match &self.own {
            Some(own) => own.default,
            None => 0,
        }
    }
}

impl PartialEq for DetectorEntry {
    fn eq(&self, other: &DetectorEntry) -> bool {
        self.name == other.name
    }
}

impl Eq for DetectorEntry {}

impl fmt::Debug for DetectorEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DetectorEntry({})", self.name)
    }
}

impl OwnAddition {
    /// How help texts show it: `smart`, `timer=ROUND-TRIPS`.
    pub fn form(&self) -> String {
        match &self.number {
            Some(number) => format!("{}={}", self.name, number.unit),
            None => self.name.into(),
        }
    }

    /// Reads the addition; `None` if `text` is another one.
    ///
    /// # Errors
    ///
    /// If the number is missing; the message shows the form.
    pub fn parse(&self, text: &str) -> Option<Result<u32, String>> {
        let Some(number) = &self.number else {
            return (text == self.name).then_some(Ok(1));
        };
        let value = text.strip_prefix(self.name)?.strip_prefix('=')?;
        Some(value.parse().map_err(|_| {
            let (name, default, about) = (self.name, self.default, number.about);
            format!("`{text}` is not of the form {name}={default}: {about}")
        }))
    }
}
