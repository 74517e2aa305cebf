//! Which frames are lost on the air.

mod chain;
mod markov;
mod mta;
mod script;

use super::config::{IdleAdvance, LossConfig, MarkovClock};
use super::draws::Draws;
pub use chain::Chain;
use lasthop_core::random::Stream;
use lasthop_core::segment::Segment;
use lasthop_core::units::{Duration, Share, Size, Time};
pub use markov::Markov;
pub use mta::Mta;
pub use script::Script;

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

/// Decides for each frame whether it is lost.
#[derive(Clone, Debug)]
pub enum LossProcess {
    /// No losses.
    None,
    /// Each frame with the same probability.
    Uniform(Uniform),
    /// Two-state chain.
    Markov(Markov),
    /// Chain of several states.
    MarkovChain(Box<Chain>),
    /// Error-free and lossy periods.
    Mta(Box<Mta>),
    /// Independent bit errors.
    BitErrors(BitErrors),
    /// Bit errors of a channel with two states.
    TwoState(Box<TwoState>),
    /// Selected frames.
    Scripted(Script),
}

impl LossProcess {
    /// The process of a link direction with this `name` ("server>phone"), which addresses the
    /// draws.
    ///
    /// # Errors
    ///
    /// If a value of the config is outside of its range.
    pub fn new(config: &LossConfig, seed: u64, name: &str) -> Result<LossProcess, String> {
        let stream = Stream::new(seed, &format!("loss {name}"));
        Ok(match config {
            LossConfig::None => LossProcess::None,
            LossConfig::Uniform { rate, index, slot } => LossProcess::Uniform(Uniform {
                stream,
                draws: Draws::new(*index, *slot)?,
                probability: probability("rate", *rate)?,
                last: (0.0, 0),
            }),
            LossConfig::Markov { good_to_good, bad_to_bad, good_loss, bad_loss, clock, slot } => {
                LossProcess::Markov(Markov {
                    states: stream,
                    losses: Stream::new(seed, &format!("loss in state {name}")),
                    good_to_bad: 1.0 - probability("good_to_good", *good_to_good)?,
                    bad_to_bad: probability("bad_to_bad", *bad_to_bad)?,
                    good_loss: probability("good_loss", *good_loss)?,
                    bad_loss: probability("bad_loss", *bad_loss)?,
                    clock: *clock,
                    draws: match clock {
                        MarkovClock::Frame => Draws::Frame,
                        MarkovClock::Slot => Draws::new(super::config::DrawIndex::Slot, *slot)?,
                    },
                    slot: slot.0,
                    at: 0,
                    bad: false,
                })
            }
            LossConfig::MarkovChain { states, transitions, clock, slot } => {
                LossProcess::MarkovChain(Box::new(Chain::new(
                    states,
                    transitions,
                    *clock,
                    *slot,
                    seed,
                    name,
                )?))
            }
            LossConfig::Mta { error_free, lossy, errors, clock, slot } => LossProcess::Mta(
                Box::new(Mta::new([error_free, lossy], errors, *clock, *slot, seed, name)?),
            ),
            LossConfig::BitErrors { rate, index, slot } => LossProcess::BitErrors(BitErrors::new(
                stream,
                Draws::new(*index, *slot)?,
                probability("rate", Share(*rate))?,
            )),
            LossConfig::TwoState { good, bad, good_rate, bad_rate, unseen, index, slot } => {
                let errors = |key: &str, rate: f64| {
                    Ok::<_, String>(BitErrors::new(
                        stream,
                        Draws::Frame,
                        probability(key, Share(rate))?,
                    ))
                };
                LossProcess::TwoState(Box::new(TwoState {
                    dwells: Stream::new(seed, &format!("state {name}")),
                    means: [above_zero("good", *good)?, above_zero("bad", *bad)?],
                    errors: [errors("good_rate", *good_rate)?, errors("bad_rate", *bad_rate)?],
                    draws: Draws::new(*index, *slot)?,
                    unseen: *unseen,
                    dwell: 0,
                    until: None,
                }))
            }
            LossConfig::FrameErrors { rate, bytes, index, slot } => {
                let bits = match bytes {
                    Size::Bytes(n) if *n > 0 => 8.0 * *n as f64,
                    _ => return Err("bytes must be a number of bytes above 0".into()),
                };
                // 1 - (1 - rate)^(1 / bits), without cancellation.
                let of_bit = -libm::expm1(libm::log1p(-probability("rate", *rate)?) / bits);
                LossProcess::BitErrors(BitErrors::new(stream, Draws::new(*index, *slot)?, of_bit))
            }
            LossConfig::Scripted { data, acks, damaged } => {
                LossProcess::Scripted(Script::new(data, acks, *damaged)?)
            }
        })
    }

    /// True if this frame is lost. Call it once for each frame, in order of start.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_channel::air::config::LossConfig;
    /// use lasthop_channel::air::loss::{Frame, LossProcess};
    /// use lasthop_core::segment::Segment;
    /// use lasthop_core::units::{Share, Time};
    ///
    /// let config = LossConfig::uniform(Share(0.1));
    /// let mut loss = LossProcess::new(&config, 1, "server>phone").unwrap();
    /// let segment = Segment::default();
    /// let lost = (0..10_000)
    ///     .filter(|&ordinal| {
    ///         let start = Time(ordinal * 12_000_000);
    ///         loss.lost(&Frame { start, ordinal, bytes: 1500, mss: 1460, segment: &segment })
    ///     })
    ///     .count();
    /// assert!((900..1100).contains(&lost), "{lost}");
    /// ```
    #[inline]
    pub fn lost(&mut self, frame: &Frame) -> bool {
        match self {
            LossProcess::None => false,
            LossProcess::Uniform(p) => p.lost(frame),
            LossProcess::Markov(p) => p.lost(frame),
            LossProcess::MarkovChain(p) => p.lost(frame),
            LossProcess::Mta(p) => p.lost(frame),
            LossProcess::BitErrors(p) => p.hit(frame.start, frame.ordinal, frame.bytes),
            LossProcess::TwoState(p) => p.lost(frame),
            LossProcess::Scripted(p) => p.lost(frame),
        }
    }

    /// True if the first `header` bytes of the last lost frame are intact. With independent bit
    /// errors, the frame's fate and its header's are one draw: the header is damaged if the draw is
    /// below the header's probability. A loss in the bad state of a chain destroys the whole frame,
    /// and a scripted loss is as the script says.
    pub fn header_intact(&self, header: u32) -> bool {
        match self {
            LossProcess::Uniform(p) => {
                // A frame loss of p is the result of bit errors with 1 - (1 - p)^(1 / bits).
                let share = f64::from(header) / f64::from(p.last.1.max(1));
                p.last.0 >= -libm::expm1(share * libm::log1p(-p.probability))
            }
            LossProcess::BitErrors(p) => p.header_intact(header),
            LossProcess::TwoState(p) => p.errors[p.state()].header_intact(header),
            LossProcess::Scripted(script) => script.damaged(),
            LossProcess::None
            | LossProcess::Markov(_)
            | LossProcess::MarkovChain(_)
            | LossProcess::Mta(_) => false,
        }
    }

    /// True if losses depend on the seed.
    pub fn is_random(&self) -> bool {
        match self {
            LossProcess::None | LossProcess::Scripted(_) => false,
            LossProcess::Uniform(p) => is_open(p.probability),
            LossProcess::Markov(p) => p.is_random(),
            LossProcess::MarkovChain(p) => p.is_random(),
            LossProcess::Mta(p) => p.is_random(),
            LossProcess::BitErrors(p) => is_open(p.rate),
            LossProcess::TwoState(p) => {
                p.errors.iter().any(|e| is_open(e.rate)) || p.errors[0].rate != p.errors[1].rate
            }
        }
    }
}

fn probability(key: &str, share: Share) -> Result<f64, String> {
    if (0.0..=1.0).contains(&share.0) {
        Ok(share.0)
    } else {
        Err(format!("{key} must lie between 0 and 1, found {}", share.0))
    }
}

fn above_zero(key: &str, time: Duration) -> Result<Duration, String> {
    if time > Duration::ZERO { Ok(time) } else { Err(format!("{key} must be above 0 s")) }
}

/// True for probabilities that are neither 0 nor 1.
fn is_open(p: f64) -> bool {
    p > 0.0 && p < 1.0
}

/// Each frame is lost with the same probability.
#[derive(Clone, Debug)]
pub struct Uniform {
    stream: Stream,
    draws: Draws,
    probability: f64,
    /// Draw and size of the last frame that was lost.
    last: (f64, u32),
}

impl Uniform {
    #[inline]
    fn lost(&mut self, frame: &Frame) -> bool {
        // Draws lie in [0, 1), so 0 never loses and 1 always does.
        let draw = self.stream.uniform(self.draws.next(frame.start, frame.ordinal));
        let lost = draw < self.probability;
        if lost {
            self.last = (draw, frame.bytes);
        }
        lost
    }
}

/// Independent bit errors.
#[derive(Clone, Debug)]
pub struct BitErrors {
    stream: Stream,
    draws: Draws,
    rate: f64,
    /// Frame sizes and their probabilities of loss, the newest first: a flow uses few sizes.
    known: [(u32, f64); 4],
    /// Draw of the last frame that was lost.
    last: f64,
}

impl BitErrors {
    fn new(stream: Stream, draws: Draws, rate: f64) -> BitErrors {
        BitErrors { stream, draws, rate, known: [(0, 0.0); 4], last: 0.0 }
    }

    /// True if the frame of this ordinal has a bit error.
    #[inline]
    pub fn hit(&mut self, start: Time, ordinal: u64, bytes: u32) -> bool {
        let index = self.draws.next(start, ordinal);
        self.lost_by(index, bytes)
    }

    #[inline]
    fn lost_by(&mut self, index: u64, bytes: u32) -> bool {
        let probability = match self.known.iter().find(|k| k.0 == bytes) {
            Some(&(_, p)) => p,
            None => self.learn(bytes),
        };
        let draw = self.stream.uniform(index);
        let lost = draw < probability;
        if lost {
            self.last = draw;
        }
        lost
    }

    #[cold]
    fn learn(&mut self, bytes: u32) -> f64 {
        self.known.rotate_right(1);
        self.known[0] = (bytes, self.probability(bytes));
        self.known[0].1
    }

    fn header_intact(&self, header: u32) -> bool {
        self.last >= self.probability(header)
    }

    /// Probability of a bit error in a frame of `bytes` bytes: 1 - (1 - rate)^bits, without
    /// cancellation for tiny rates.
    fn probability(&self, bytes: u32) -> f64 {
        -libm::expm1(8.0 * f64::from(bytes) * libm::log1p(-self.rate))
    }
}

/// Bit errors of a channel with two states in continuous time.
#[derive(Clone, Debug)]
pub struct TwoState {
    /// Draws of the dwell times, the first one in the good state.
    dwells: Stream,
    /// Mean dwell times and bit errors, good and bad. Both states use the same draws, so that the
    /// states of two runs differ only by their error rates.
    means: [Duration; 2],
    errors: [BitErrors; 2],
    draws: Draws,
    unseen: IdleAdvance,
    /// Number of the present dwell time, and when it ends (unknown before the first frame).
    dwell: u64,
    until: Option<Time>,
}

impl TwoState {
    #[inline]
    fn lost(&mut self, frame: &Frame) -> bool {
        self.advance(frame.start);
        let index = self.draws.next(frame.start, frame.ordinal);
        self.errors[self.state()].lost_by(index, frame.bytes)
    }

    /// 0 is good, 1 is bad.
    #[inline]
    fn state(&self) -> usize {
        (self.dwell & 1) as usize
    }

    /// Advances the chain to this time. With `IdleAdvance::Pass` the dwell times do not depend on
    /// which frames ask, nor when.
    #[inline]
    fn advance(&mut self, now: Time) {
        if now == Time::NEVER {
            return;
        }
        let mut until = self.until.unwrap_or_else(|| Time::ZERO + self.stay());
        while until <= now {
            self.dwell += 1;
            until = if self.unseen == IdleAdvance::Wait { now } else { until } + self.stay();
        }
        self.until = Some(until);
    }

    fn stay(&self) -> Duration {
        let mean = self.means[self.state()].as_secs();
        Duration::from_secs_f64(self.dwells.exponential(self.dwell, mean)).max(Duration(1))
    }
}

#[cfg(test)]
mod chain_tests;

#[cfg(test)]
mod tests {
    use super::super::config::DrawIndex;
    use super::*;
    use lasthop_core::segment::Flags;
    use lasthop_core::units::Duration;

    const SEGMENT: Segment = Segment {
        seq: 0,
        ack: 0,
        id: 0,
        flow: 0,
        len: 1000,
        size: 1040,
        window: 0,
        ts_value: 0,
        ts_echo: 0,
        payload: lasthop_core::segment::Payload::NONE,
        to: 0,
        flags: Flags::ACK,
        attempt: 1,
        forward: true,
    };

    pub(super) fn frame(start: Time, ordinal: u64, bytes: u32) -> Frame<'static> {
        Frame { start, ordinal, bytes, mss: 1000, segment: &SEGMENT }
    }

    /// Fates of `n` frames that start `gap` ns apart.
    pub(super) fn fates(config: &LossConfig, seed: u64, n: u64, gap: u64) -> Vec<bool> {
        let mut process = LossProcess::new(config, seed, "test").unwrap();
        (0..n).map(|i| process.lost(&frame(Time(i * gap), i, 1000))).collect()
    }

    pub(super) fn share(fates: &[bool]) -> f64 {
        fates.iter().filter(|&&lost| lost).count() as f64 / fates.len() as f64
    }

    pub(super) fn mean_burst(fates: &[bool]) -> f64 {
        let bursts = fates.windows(2).filter(|w| !w[0] && w[1]).count() + usize::from(fates[0]);
        fates.iter().filter(|&&lost| lost).count() as f64 / bursts as f64
    }

    fn uniform(rate: f64, index: DrawIndex) -> LossConfig {
        LossConfig::Uniform { rate: Share(rate), index, slot: Duration::micros(500) }
    }

    fn markov(clock: MarkovClock, good_loss: f64, bad_loss: f64) -> LossConfig {
        LossConfig::Markov {
            good_to_good: Share(0.9913),
            bad_to_bad: Share(0.8509),
            good_loss: Share(good_loss),
            bad_loss: Share(bad_loss),
            clock,
            slot: Duration::micros(500),
        }
    }

    #[test]
    fn uniform_loss_has_its_rate() {
        for index in [DrawIndex::Slot, DrawIndex::Frame] {
            // Sixteen frames in each slot, and one frame in every second slot.
            for gap in [31_250, 1_000_000] {
                let lost = fates(&uniform(0.01, index), 7, 400_000, gap);
                assert!(
                    (share(&lost) - 0.01).abs() < 4.0 * (0.01_f64 * 0.99 / 400_000.0).sqrt(),
                    "{}",
                    share(&lost)
                );
                assert!((mean_burst(&lost) - 1.0 / 0.99).abs() < 0.01);
            }
            assert_eq!(share(&fates(&uniform(0.0, index), 7, 10_000, 1000)), 0.0);
            assert_eq!(share(&fates(&uniform(1.0, index), 7, 10_000, 1000)), 1.0);
        }
    }

    #[test]
    fn a_slot_has_the_same_draws_for_every_sender() {
        let mut all = LossProcess::new(&uniform(0.3, DrawIndex::Slot), 1, "test").unwrap();
        let mut some = all.clone();
        for i in 0..10_000 {
            let fate = all.lost(&frame(Time(i * 600_000), i, 1500));
            if i % 7 == 3 {
                assert_eq!(some.lost(&frame(Time(i * 600_000 + 1), i / 7, 40)), fate);
            }
        }
    }

    #[test]
    fn runs_and_links_have_draws_of_their_own() {
        let config = uniform(0.5, DrawIndex::Frame);
        let fates_of = |seed, name: &str| {
            let mut process = LossProcess::new(&config, seed, name).unwrap();
            (0..64).map(|i| process.lost(&frame(Time(i), i, 1))).collect::<Vec<_>>()
        };
        assert_eq!(fates_of(1, "a>b"), fates_of(1, "a>b"));
        assert_ne!(fates_of(1, "a>b"), fates_of(1, "b>a"));
        assert_ne!(fates_of(1, "a>b"), fates_of(2, "a>b"));
    }

    #[test]
    fn the_chain_has_its_loss_rate_and_burst_length() {
        // (1 - p) / (2 - p - q) = 5.513 %; 1 / (1 - q) = 6.707 (Paul 2005; Gilbert 1960).
        for clock in [MarkovClock::Frame, MarkovClock::Slot] {
            let lost = fates(&markov(clock, 0.0, 1.0), 3, 4_000_000, 500_000);
            assert!((share(&lost) - 0.05513).abs() < 0.0008, "{}", share(&lost));
            assert!((mean_burst(&lost) - 6.707).abs() < 0.12, "{}", mean_burst(&lost));
            // P(burst of one) = 1 - q.
            let singles = lost.windows(3).filter(|w| !w[0] && w[1] && !w[2]).count();
            let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count();
            assert!((singles as f64 / bursts as f64 - 0.1491).abs() < 0.01);
        }
    }

    #[test]
    fn the_states_have_losses_of_their_own() {
        for clock in [MarkovClock::Frame, MarkovClock::Slot] {
            let lost = fates(&markov(clock, 0.01, 0.4), 5, 2_000_000, 500_000);
            assert!(
                (share(&lost) - (0.05513 * 0.4 + 0.94487 * 0.01)).abs() < 0.0008,
                "{}",
                share(&lost)
            );
        }
        // Frames of one slot have the same state but different draws.
        let lost = fates(&markov(MarkovClock::Slot, 0.5, 0.5), 5, 100_000, 100);
        assert!((share(&lost) - 0.5).abs() < 0.01);
    }

    #[test]
    fn the_state_of_a_slot_does_not_depend_on_who_asks() {
        let chains = [
            (0.9913, 0.8509),
            (0.99999, 0.9999),
            (0.1, 0.2),
            (0.5, 0.5),
            (0.0, 0.0),
            (0.3, 1.0),
            (1.0, 0.0),
            (0.0, 0.7),
        ];
        for (good_to_good, bad_to_bad) in chains {
            let config = LossConfig::Markov {
                good_to_good: Share(good_to_good),
                bad_to_bad: Share(bad_to_bad),
                good_loss: Share(0.0),
                bad_loss: Share(1.0),
                clock: MarkovClock::Slot,
                slot: Duration::micros(500),
            };
            let always = fates(&config, 11, 200_000, 500_000);
            let mut seldom = LossProcess::new(&config, 11, "test").unwrap();
            let (mut slot, mut gap) = (0_u64, 1);
            while slot < 200_000 {
                assert_eq!(
                    seldom.lost(&frame(Time(slot * 500_000 + 17), 0, 1)),
                    always[slot as usize],
                    "slot {slot} of {config:?}"
                );
                gap = gap * 5 % 1013;
                slot += gap;
            }
        }
    }

    #[test]
    fn the_chain_starts_good_and_steps_before_the_first_frame() {
        let config = |clock| LossConfig::Markov {
            good_to_good: Share(0.0),
            bad_to_bad: Share(0.0),
            good_loss: Share(0.0),
            bad_loss: Share(1.0),
            clock,
            slot: Duration::micros(500),
        };
        assert_eq!(fates(&config(MarkovClock::Frame), 1, 4, 1), [true, false, true, false]);
        assert_eq!(
            fates(&config(MarkovClock::Slot), 1, 6, 250_000),
            [false, false, true, true, false, false]
        );
    }

    #[test]
    fn the_chain_survives_the_end_of_time() {
        let mut process =
            LossProcess::new(&markov(MarkovClock::Slot, 0.0, 1.0), 1, "test").unwrap();
        for i in 0..3 {
            process.lost(&frame(Time::NEVER, i, 1));
        }
        process.lost(&frame(Time::ZERO, 3, 1));
    }

    #[test]
    fn bit_errors_lose_long_frames_more_often() {
        let config = |rate| LossConfig::BitErrors {
            rate,
            index: DrawIndex::Frame,
            slot: Duration::micros(500),
        };
        let mut process = LossProcess::new(&config(1e-5), 1, "test").unwrap();
        let lost_of = |process: &mut LossProcess, bytes| {
            (0..200_000).filter(|&i| process.lost(&frame(Time(i), i, bytes))).count() as f64 / 2e5
        };
        // 1 - (1 - 1e-5)^(8 × 1500) = 11.308 %; of 40 bytes 0.3195 %.
        assert!((lost_of(&mut process, 1500) - 0.11308).abs() < 0.003);
        assert!((lost_of(&mut process, 40) - 0.003195).abs() < 0.0005);
        assert_eq!(lost_of(&mut process, 0), 0.0);
        assert_eq!(lost_of(&mut LossProcess::new(&config(1.0), 1, "test").unwrap(), 1), 1.0);
        assert_eq!(lost_of(&mut LossProcess::new(&config(0.0), 1, "test").unwrap(), 1500), 0.0);
        let Ok(LossProcess::BitErrors(mut tiny)) = LossProcess::new(&config(1e-18), 1, "test")
        else {
            panic!("bit errors")
        };
        tiny.hit(Time::ZERO, 0, 125);
        assert!(
            (tiny.known[0].1 / 1e-15 - 1.0).abs() < 1e-9,
            "exact for tiny rates: {}",
            tiny.known[0].1
        );
    }

    fn two_state(bad: u64, good_rate: f64, bad_rate: f64) -> LossConfig {
        let (good, bad, index) = (Duration::millis(1000), Duration::millis(bad), DrawIndex::Frame);
        LossConfig::TwoState {
            good,
            bad,
            good_rate,
            bad_rate,
            unseen: IdleAdvance::Pass,
            index,
            slot: Duration::micros(500),
        }
    }

    /// noor's channel: a third of a second bad after a second good. At 1e-3 60.5 % of 928-bit
    /// frames are lost, at 1e-4 8.9 %.
    #[test]
    fn a_channel_of_two_states_has_its_dwell_times_and_rates() {
        // 100 frames a second for 40 000 s.
        let lost = fates(&two_state(333, 0.0, 1.0), 7, 4_000_000, 10_000_000);
        assert!((share(&lost) - 0.333 / 1.333).abs() < 0.005, "{}", share(&lost));
        // A dwell time that ends between two frames counts from the next frame: 33.3 frames and a
        // half on average.
        assert!((mean_burst(&lost) - 33.8).abs() < 0.8, "{}", mean_burst(&lost));
        let mut process = LossProcess::new(&two_state(333, 1e-6, 1e-3), 7, "test").unwrap();
        let lost = (0..4_000_000)
            .filter(|&i| process.lost(&frame(Time(i * 10_000_000), i, 116)))
            .count() as f64
            / 4e6;
        let expected = (0.605 * 0.333 + 0.00093) / 1.333;
        assert!((lost - expected).abs() < 0.004, "{lost} {expected}");
    }

    #[test]
    fn the_dwell_times_of_a_channel_do_not_depend_on_frames() {
        let config = two_state(333, 0.0, 1.0);
        let always = fates(&config, 3, 20_000, 10_000_000);
        let mut seldom = LossProcess::new(&config, 3, "test").unwrap();
        for i in (0..20_000).filter(|i| i % 37 == 5) {
            assert_eq!(seldom.lost(&frame(Time(i * 10_000_000), i / 37, 40)), always[i as usize]);
        }
        seldom.lost(&frame(Time::NEVER, 0, 1));
        assert!(
            LossProcess::new(&two_state(0, 0.0, 0.5), 1, "test")
                .unwrap_err()
                .contains("bad must be above 0 s")
        );
        assert!(
            LossProcess::new(&two_state(1, 0.0, 1.5), 1, "test").unwrap_err().contains("bad_rate")
        );
    }

    /// Frames 3 s apart. With `wait`, each frame starts a dwell time, so every second frame is in
    /// the bad state; with `pass`, a quarter are. For frames close together both are equal, apart
    /// from the gaps.
    #[test]
    fn dwell_times_that_wait_all_affect_a_frame() {
        let waiting = |bad| match two_state(bad, 0.0, 1.0) {
            LossConfig::TwoState { good, bad, good_rate, bad_rate, index, slot, .. } => {
                LossConfig::TwoState {
                    good,
                    bad,
                    good_rate,
                    bad_rate,
                    unseen: IdleAdvance::Wait,
                    index,
                    slot,
                }
            }
            other => other,
        };
        let seldom = |config: &LossConfig| share(&fates(config, 7, 100_000, 3_000_000_000));
        assert!((seldom(&two_state(333, 0.0, 1.0)) - 0.25).abs() < 0.01);
        // In 3 s, a good dwell time of 1 s ends with probability 95 %.
        assert!((seldom(&waiting(333)) - 0.487).abs() < 0.01, "{}", seldom(&waiting(333)));
        let close = fates(&waiting(333), 7, 4_000_000, 1_000_000);
        assert!(
            (share(&close) - 0.333 / 1.333).abs() < 0.01
                && (mean_burst(&close) - 333.5).abs() < 10.0
        );
    }

    #[test]
    fn frame_errors_are_bit_errors_of_a_rate_that_a_frame_tells() {
        let of = |rate, size| {
            let config = LossConfig::FrameErrors {
                rate: Share(rate),
                bytes: Size::Bytes(size),
                index: DrawIndex::Frame,
                slot: Duration::micros(500),
            };
            LossProcess::new(&config, 1, "test")
        };
        let Ok(LossProcess::BitErrors(mut process)) = of(0.09, 1076) else { panic!("bit errors") };
        process.hit(Time::ZERO, 0, 1076);
        assert!((process.known[0].1 - 0.09).abs() < 1e-12);
        // yun2009: with 9 % for data, an ACK of 76 bytes is lost with probability 0.66 %.
        process.hit(Time::ZERO, 0, 76);
        assert!((process.known[0].1 - 0.00664).abs() < 1e-5, "{}", process.known[0].1);
        assert!(of(1.0, 1).is_ok_and(|mut p| p.lost(&frame(Time::ZERO, 0, 1))));
        assert!(of(0.1, 0).is_err());
    }

    #[test]
    fn named_frames_are_lost() {
        let config = LossConfig::Scripted {
            data: vec!["14:2".into(), "0:1".into(), "14: 3".into()],
            acks: vec![1, 4],
            damaged: false,
        };
        let mut process = LossProcess::new(&config, 1, "test").unwrap();
        let mut lost = |segment: Segment| {
            process.lost(&Frame { segment: &segment, ..frame(Time::ZERO, 0, 1040) })
        };
        let data = |number: u64| Segment { seq: (number - 1) * 1000, ..SEGMENT };
        let syn = Segment { len: 0, flags: Flags::SYN, ..SEGMENT };
        let answer =
            Segment { len: 0, flags: Flags::SYN.with(Flags::ACK), forward: false, ..SEGMENT };
        let ack = Segment { len: 0, forward: false, ..SEGMENT };
        let datagram = Segment { flags: Flags::DATAGRAM, ..data(14) };
        assert!(lost(syn) && !lost(syn));
        assert!(
            !lost(datagram)
                && !lost(data(13))
                && !lost(data(14))
                && lost(data(14))
                && lost(data(14))
                && !lost(data(14))
        );
        assert!(
            !lost(Segment { len: 0, ..SEGMENT }),
            "a bare ACK of the data sender is not counted"
        );
        assert!(lost(answer) && !lost(ack) && !lost(ack) && lost(ack) && !lost(ack));
    }

    #[test]
    fn mistakes_are_errors() {
        let scripted = |text: &str| {
            LossProcess::new(
                &LossConfig::Scripted { data: vec![text.into()], acks: vec![], damaged: false },
                1,
                "test",
            )
        };
        for text in ["", "14", "14:0", "14:-1", "a:b", "1:2:3", "1.5:1", "99999999999999999999:1"] {
            let error = scripted(text).unwrap_err();
            assert!(error.contains("\"14:2\"") && error.contains(&format!("{text:?}")), "{error}");
        }
        let new = |config| LossProcess::new(&config, 1, "test");
        assert!(new(LossConfig::Scripted { data: vec![], acks: vec![0], damaged: false }).is_err());
        assert!(
            new(LossConfig::Uniform {
                rate: Share(f64::NAN),
                index: DrawIndex::Frame,
                slot: Duration::ZERO
            })
            .is_err()
        );
        assert!(
            new(LossConfig::Uniform {
                rate: Share(0.1),
                index: DrawIndex::Slot,
                slot: Duration::ZERO
            })
            .is_err()
        );
        assert!(
            new(LossConfig::BitErrors { rate: 1.5, index: DrawIndex::Frame, slot: Duration::ZERO })
                .is_err()
        );
    }

    #[test]
    fn randomness_is_known() {
        let random = |config| LossProcess::new(&config, 1, "test").unwrap().is_random();
        assert!(
            !random(LossConfig::None)
                && !random(uniform(0.0, DrawIndex::Slot))
                && !random(uniform(1.0, DrawIndex::Slot))
        );
        assert!(
            random(uniform(0.01, DrawIndex::Slot)) && random(markov(MarkovClock::Frame, 0.0, 1.0))
        );
        assert!(
            !random(markov(MarkovClock::Frame, 0.0, 0.0))
                && random(markov(MarkovClock::Frame, 0.5, 0.5))
        );
        assert!(!random(LossConfig::Scripted { data: vec![], acks: vec![], damaged: false }));
    }
}
