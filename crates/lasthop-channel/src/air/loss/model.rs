//! What a loss model implements.

use crate::sample::Sample;
use lasthop_core::segment::Segment;
use lasthop_core::units::{Duration, Share, Time};

/// A frame on the air, as loss models see it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Start of serialisation.
    pub start: Time,
    /// Ordinal on the air in this direction, from 0.
    pub ordinal: u64,
    /// Bytes on the air, link overhead included.
    pub bytes: u32,
    /// Maximum segment size (payload bytes) of the flow.
    pub mss: u32,
    /// The segment that it carries.
    pub segment: &'a Segment,
}

/// The settings of a loss model: the keys of its table in a scenario file, with their doc comments
/// and defaults.
pub trait LossModel: Sized {
    /// The state machine of the model. If it is large, a box of it.
    type Process: FrameLoss;

    /// The process of a link direction with this `name` ("server>phone"), which addresses the
    /// draws.
    ///
    /// # Errors
    ///
    /// If a setting is outside of its range.
    fn process(&self, seed: u64, name: &str) -> Result<Self::Process, String>;

    /// Length of the slots that address draws or clock the model, if it has such a setting.
    fn slot(&self) -> Option<Duration> {
        None
    }

    /// Checks whether the settings suit the losses of a single flow, which apply to packets at the
    /// destination node.
    ///
    /// # Errors
    ///
    /// A message that says why they do not.
    fn check_for_flow(&self) -> Result<(), String> {
        Ok(())
    }

    /// Reads the model's short form, a word or number in place of a table; `None` if the text does
    /// not have that form.
    fn short(_text: &str) -> Option<Result<Self, String>> {
        None
    }

    /// Random settings, for tests with random networks; `None` leaves the model out of them.
    fn sample(_sample: &mut Sample<'_>) -> Option<Self> {
        None
    }
}

/// Decides for each frame whether it is lost.
pub trait FrameLoss {
    /// True if this frame is lost. Call it once for each frame, in order of start.
    fn lost(&mut self, frame: &Frame) -> bool;

    /// True if the first `header` bytes of the last lost frame are intact. By default a loss
    /// destroys the whole frame.
    fn header_intact(&self, _header: u32) -> bool {
        false
    }

    /// True if the model also applies to the control frames of a cell (link ACK, RTS, CTS), as bit
    /// errors do; the other models apply to data frames only.
    fn hits_control_frames(&self) -> bool {
        false
    }

    /// True if losses depend on the seed.
    fn is_random(&self) -> bool;
}

impl<T: FrameLoss> FrameLoss for Box<T> {
    #[inline]
    fn lost(&mut self, frame: &Frame) -> bool {
        (**self).lost(frame)
    }

    fn header_intact(&self, header: u32) -> bool {
        (**self).header_intact(header)
    }

    fn hits_control_frames(&self) -> bool {
        (**self).hits_control_frames()
    }

    fn is_random(&self) -> bool {
        (**self).is_random()
    }
}

/// The value of a setting that is a probability.
pub fn probability(key: &str, share: Share) -> Result<f64, String> {
    if (0.0..=1.0).contains(&share.0) {
        Ok(share.0)
    } else {
        Err(format!("{key} must lie between 0 and 1, found {}", share.0))
    }
}

/// True for probabilities that are neither 0 nor 1.
pub fn is_open(p: f64) -> bool {
    p > 0.0 && p < 1.0
}
