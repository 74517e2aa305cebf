//! Loss detection on SACK information: which segments are lost, as far as the ACKs show by now.

pub mod fack;
pub mod rack;
pub mod rfc6675;
pub mod scheme;

use crate::scoreboard::Scoreboard;
use lasthop_core::units::{Duration, Time};

/// What a loss detector is given: the state of the connection after an ACK (or at a deadline).
#[derive(Clone, Copy, Debug)]
pub struct AckSummary {
    /// The current time.
    pub now: Time,
    /// First byte that is not acknowledged.
    pub snd_una: u64,
    /// The byte after the highest one SACKed.
    pub high_sacked: u64,
    /// Bytes SACKed and not yet acknowledged.
    pub sacked: u64,
    /// Entries of the scoreboard that are SACKed and not yet acknowledged.
    pub sacked_entries: u64,
    /// Everything below this byte that is not SACKed is considered lost already.
    pub lost_below: u64,
    /// Duplicate ACKs with new SACK information, in a row.
    pub dupacks: u32,
    /// Duplicate ACKs, or segments SACKed further up, that mean a loss.
    pub threshold: u32,
    /// Maximum segment size in bytes.
    pub mss: u32,
    /// Losses are being repaired.
    pub recovering: bool,
    /// Smoothed round-trip time, once there is one.
    pub srtt: Option<Duration>,
    /// Round-trip time of the segment sent last among those delivered, if RACK's state is updated.
    pub last_rtt: Duration,
    /// The retransmission timeout.
    pub rto: Duration,
}

impl AckSummary {
    /// Segments SACKed and not yet acknowledged; a frame of several counts for as many.
    pub fn sacked_segments(&self) -> u64 {
        self.sacked_entries.max(self.sacked / u64::from(self.mss.max(1)))
    }
}

/// The answer of a loss detector. The caller keeps it from ACK to ACK, so that it is not allocated
/// again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Everything below this byte that is not SACKed is lost; 0 if nothing is.
    pub below: u64,
    /// First bytes of segments whose last copy is lost, in the order of detection.
    pub copies: Vec<u64>,
    /// Number of the first of them on the scoreboard, if the detector knows it.
    pub first: usize,
    /// The receiver has discarded what it had SACKed (RFC 2018, section 8).
    pub reneged: bool,
}

impl Losses {
    /// Nothing is lost.
    #[inline]
    pub fn clear(&mut self) {
        (self.below, self.reneged) = (0, false);
        self.copies.clear();
    }
}

/// A rule that detects losses from the scoreboard.
///
/// # Examples
///
/// A detector that considers a segment lost as soon as any later one is SACKed:
///
/// ```
/// use lasthop_tcp::recovery::detect::{AckSummary, LossDetector, Losses};
/// use lasthop_tcp::scoreboard::Scoreboard;
///
/// struct Impatient;
///
/// impl LossDetector for Impatient {
///     fn on_ack(&mut self, _: &Scoreboard, ack: &AckSummary, losses: &mut Losses) {
///         losses.below = ack.high_sacked;
///     }
/// }
/// ```
pub trait LossDetector {
    /// An ACK has been processed, or the deadline has come. Adds to `losses` what is lost; what it
    /// has reported before may be reported again.
    fn on_ack(&mut self, board: &Scoreboard, ack: &AckSummary, losses: &mut Losses);

    /// When `on_ack` is to be called even without an ACK; `NEVER` if only ACKs matter.
    fn deadline(&self) -> Time {
        Time::NEVER
    }
}
