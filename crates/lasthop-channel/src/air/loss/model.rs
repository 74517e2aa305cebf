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
///
/// # Examples
///
/// The settings of a model that loses every n-th frame, and its state machine:
///
/// ```
/// use lasthop_channel::air::loss::{Frame, FrameLoss, LossModel};
/// use lasthop_core::segment::Segment;
/// use lasthop_core::units::Time;
///
/// struct EveryNth {
///     n: u64,
/// }
///
/// impl LossModel for EveryNth {
///     type Process = EveryNthProcess;
///
///     fn process(&self, _seed: u64, _name: &str) -> Result<EveryNthProcess, String> {
///         if self.n == 0 {
///             return Err("n must be at least 1, found 0".into());
///         }
///         Ok(EveryNthProcess(self.n))
///     }
/// }
///
/// struct EveryNthProcess(u64);
///
/// impl FrameLoss for EveryNthProcess {
///     fn lost(&mut self, frame: &Frame) -> bool {
///         (frame.ordinal + 1).is_multiple_of(self.0)
///     }
///
///     fn is_random(&self) -> bool {
///         false
///     }
/// }
///
/// let mut process = EveryNth { n: 3 }.process(1, "server>phone").unwrap();
/// let segment = Segment::default();
/// let frame =
///     |ordinal| Frame { start: Time::ZERO, ordinal, bytes: 1054, mss: 1000, segment: &segment };
/// assert_eq!([0, 1, 2, 3].map(|i| process.lost(&frame(i))), [false, false, true, false]);
/// assert!(EveryNth { n: 0 }.process(1, "server>phone").is_err());
/// ```
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
///
/// # Examples
///
/// With the settings and the seed of a built-in model:
///
/// ```
/// use lasthop_channel::air::loss::{Frame, FrameLoss, LossConfig, LossProcess};
/// use lasthop_core::segment::Segment;
/// use lasthop_core::units::{Share, Time};
///
/// let config = LossConfig::uniform(Share(0.25));
/// let mut process = LossProcess::new(&config, 1, "server>phone").unwrap();
/// assert!(process.is_random());
/// let segment = Segment::default();
/// let lost = (0..10_000)
///     .map(|ordinal| Frame {
///         start: Time(ordinal * 1_000_000),
///         ordinal,
///         bytes: 1054,
///         mss: 1000,
///         segment: &segment,
///     })
///     .filter(|frame| process.lost(frame))
///     .count();
/// // 2500 are expected, with a standard deviation of 43.
/// assert!((2300..2700).contains(&lost), "{lost}");
/// ```
pub trait FrameLoss {
    /// True if this frame is lost. Call it once for each frame, in order of start.
    fn lost(&mut self, frame: &Frame) -> bool;

    /// The end of a range of ordinals, from `ordinal` on, whose frames are not lost, whenever they
    /// start and whatever they carry: [`FrameLoss::lost`] need not be called for them. `ordinal`
    /// itself, the default, if no such frame is known.
    fn safe_until(&self, ordinal: u64) -> u64 {
        ordinal
    }

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

    fn safe_until(&self, ordinal: u64) -> u64 {
        (**self).safe_until(ordinal)
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
