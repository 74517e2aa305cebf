//! Frames are lost with the same probability, independently of each other.

use super::model::{Frame, FrameLoss, LossModel, is_open, probability};
use crate::air::draws::{DrawIndex, Draws, default_slot};
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Quantity, Share, Time};

/// The values of [`LossConfig::Uniform`](super::LossConfig::Uniform).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uniform {
    /// Probability that a frame is lost.
    pub rate: Share,
    /// What addresses the draws.
    pub index: DrawIndex,
    /// Length of a slot, for `index = "slot"`.
    pub slot: Duration,
}

impl Uniform {
    /// Draws are addressed by slots of the default length.
    pub fn new(rate: Share) -> Uniform {
        Uniform { rate, index: DrawIndex::default(), slot: default_slot() }
    }

    /// Reads the short form, a share such as "1 %".
    ///
    /// # Errors
    ///
    /// If the text is not a share.
    pub fn parse(text: &str) -> Result<Uniform, String> {
        Share::parse(text).map(Uniform::new)
    }
}

impl LossModel for Uniform {
    type Process = UniformProcess;

    fn process(&self, seed: u64, name: &str) -> Result<UniformProcess, String> {
        Ok(UniformProcess {
            stream: Stream::new(seed, &["loss ", name].concat()),
            draws: Draws::new(self.index, self.slot)?,
            probability: probability("rate", self.rate)?,
            last: (0.0, 0),
        })
    }

    fn slot(&self) -> Option<Duration> {
        Some(self.slot)
    }

    fn sample(s: &mut Sample<'_>) -> Option<Self> {
        Some(Uniform {
            rate: Share(s.between(0.0, s.worst())),
            index: s.draw_index(),
            slot: s.millis(1, 20),
        })
    }
}

/// Draws that are made ahead of their frames.
const AHEAD: u64 = 64;

/// Each frame is lost with the same probability.
#[derive(Clone, Debug)]
pub struct UniformProcess {
    stream: Stream,
    draws: Draws,
    probability: f64,
    /// Draw and size of the last frame that was lost.
    last: (f64, u32),
}

impl UniformProcess {
    /// [`lost`](FrameLoss::lost) by what matters of the frame: its start, its ordinal on the air
    /// and its bytes. `None` if draws are made ahead ([`safe_until`](FrameLoss::safe_until)).
    #[inline(always)]
    pub fn lost_by_time(&mut self, start: Time, ordinal: u64, bytes: u32) -> Option<bool> {
        let ahead = matches!(self.draws, Draws::Frame);
        (!ahead).then(|| self.lost_at(start, ordinal, bytes))
    }

    /// The same however draws are made.
    #[inline(always)]
    pub fn lost_at(&mut self, start: Time, ordinal: u64, bytes: u32) -> bool {
        // Draws lie in [0, 1), so 0 never loses and 1 always does.
        let draw = self.stream.uniform(self.draws.next(start, ordinal));
        let lost = draw < self.probability;
        if lost {
            self.last = (draw, bytes);
        }
        lost
    }
}

impl FrameLoss for UniformProcess {
    #[inline]
    fn lost(&mut self, frame: &Frame) -> bool {
        self.lost_at(frame.start, frame.ordinal, frame.bytes)
    }

    fn safe_until(&self, ordinal: u64) -> u64 {
        let Draws::Frame = self.draws else { return ordinal };
        let is_lost = |frame: &u64| self.stream.uniform(Draws::of_frame(*frame)) < self.probability;
        let end = ordinal + AHEAD;
        (ordinal..end).find(is_lost).unwrap_or(end)
    }

    fn header_intact(&self, header: u32) -> bool {
        // A frame loss of p is the result of bit errors with 1 - (1 - p)^(1 / bits).
        let share = f64::from(header) / f64::from(self.last.1.max(1));
        self.last.0 >= -libm::expm1(share * libm::log1p(-self.probability))
    }

    fn is_random(&self) -> bool {
        is_open(self.probability)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fates, fault, frame, is_random, mean_burst, process, share};
    use super::super::{LossConfig, LossProcess};
    use super::*;

    fn uniform(rate: f64, index: DrawIndex) -> Uniform {
        Uniform { rate: Share(rate), index, slot: Duration::micros(500) }
    }

    #[test]
    fn uniform_loss_has_its_rate() {
        for index in [DrawIndex::Slot, DrawIndex::Frame] {
            // Sixteen frames in each slot, and one frame in every second slot.
            for gap in [31_250, 1_000_000] {
                let lost = fates(uniform(0.01, index), 7, 400_000, gap);
                assert!(
                    (share(&lost) - 0.01).abs() < 4.0 * (0.01_f64 * 0.99 / 400_000.0).sqrt(),
                    "{}",
                    share(&lost)
                );
                assert!((mean_burst(&lost) - 1.0 / 0.99).abs() < 0.01);
            }
            assert_eq!(share(&fates(uniform(0.0, index), 7, 10_000, 1000)), 0.0);
            assert_eq!(share(&fates(uniform(1.0, index), 7, 10_000, 1000)), 1.0);
        }
    }

    #[test]
    fn a_slot_has_the_same_draws_for_every_sender() {
        let mut all = process(uniform(0.3, DrawIndex::Slot), 1);
        let mut some = all.clone();
        for i in 0..10_000 {
            let fate = all.lost(&frame(Time(i * 600_000), i, 1500));
            if i % 7 == 3 {
                assert_eq!(some.lost(&frame(Time(i * 600_000 + 1), i / 7, 40)), fate);
            }
        }
    }

    #[test]
    fn runs_and_links_have_separate_draws() {
        let config = LossConfig::from(uniform(0.5, DrawIndex::Frame));
        let fates_of = |seed, name: &str| {
            let mut process = LossProcess::new(&config, seed, name).unwrap();
            (0..64).map(|i| process.lost(&frame(Time(i), i, 1))).collect::<Vec<_>>()
        };
        assert_eq!(fates_of(1, "a>b"), fates_of(1, "a>b"));
        assert_ne!(fates_of(1, "a>b"), fates_of(1, "b>a"));
        assert_ne!(fates_of(1, "a>b"), fates_of(2, "a>b"));
    }

    /// What is safe by the draws made ahead is not lost, and the frame behind it is, unless it was
    /// not looked at.
    #[test]
    fn draws_ahead_are_those_of_the_frames() {
        let config = LossConfig::from(uniform(0.02, DrawIndex::Frame));
        let mut process = LossProcess::new(&config, 5, "a>b").unwrap();
        let mut lost = |i: u64| process.lost(&frame(Time(i), i, 1));
        let fates: Vec<bool> = (0..3000).map(&mut lost).collect();
        let mut next = 0;
        while next + AHEAD < 3000 {
            let end = process.safe_until(next);
            assert!(!fates[next as usize..end as usize].contains(&true));
            assert!(end == next + AHEAD || fates[end as usize]);
            next = end + u64::from(end < next + AHEAD);
        }
        let slots = LossConfig::from(uniform(0.02, DrawIndex::Slot));
        assert_eq!(LossProcess::new(&slots, 5, "a>b").unwrap().safe_until(7), 7);
    }

    #[test]
    fn mistakes_are_errors() {
        let nan = Uniform { slot: Duration::ZERO, ..uniform(f64::NAN, DrawIndex::Frame) };
        assert!(fault(nan).contains("rate must lie between 0 and 1"));
        let slot = Uniform { slot: Duration::ZERO, ..uniform(0.1, DrawIndex::Slot) };
        assert!(fault(slot).contains("slot must be longer than 0 s"));
    }

    #[test]
    fn only_probabilities_between_0_and_1_are_random() {
        let random = |rate| is_random(uniform(rate, DrawIndex::Slot));
        assert!(!random(0.0) && !random(1.0) && random(0.01));
    }

    #[test]
    fn a_share_is_the_short_form() {
        assert_eq!(LossConfig::short(" 1 % "), Ok(Uniform::new(Share(0.01)).into()));
        assert_eq!(LossConfig::short("none"), Ok(LossConfig::None));
        assert_eq!(LossConfig::short("1 MB"), Share::parse("1 MB").map(LossConfig::uniform));
    }
}
