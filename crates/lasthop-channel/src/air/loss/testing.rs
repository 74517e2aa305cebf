//! Frames and fates for tests of loss models.

use super::{Frame, LossConfig, LossProcess, MarkovClock};
use lasthop_core::segment::{Flags, Payload, Segment};
use lasthop_core::units::{Duration, Time};

pub const CLOCKS: [MarkovClock; 2] = [MarkovClock::Frame, MarkovClock::Slot];

pub const SLOT: Duration = Duration::micros(500);

pub const SEGMENT: Segment = Segment {
    seq: 0,
    ack: 0,
    id: 0,
    flow: 0,
    len: 1000,
    size: 1040,
    window: 0,
    ts_value: 0,
    ts_echo: 0,
    payload: Payload::NONE,
    to: 0,
    flags: Flags::ACK,
    attempt: 1,
    forward: true,
};

pub fn process(config: impl Into<LossConfig>, seed: u64) -> LossProcess {
    LossProcess::new(&config.into(), seed, "test").unwrap()
}

/// The message about an invalid config.
pub fn fault(config: impl Into<LossConfig>) -> String {
    LossProcess::new(&config.into(), 1, "test").unwrap_err()
}

pub fn is_random(config: impl Into<LossConfig>) -> bool {
    config.into().is_random()
}

pub fn frame(start: Time, ordinal: u64, bytes: u32) -> Frame<'static> {
    Frame { start, ordinal, bytes, mss: 1000, segment: &SEGMENT }
}

/// Fates of `n` frames that start `gap` ns apart.
pub fn fates(config: impl Into<LossConfig>, seed: u64, n: u64, gap: u64) -> Vec<bool> {
    let mut process = process(config, seed);
    (0..n).map(|i| process.lost(&frame(Time(i * gap), i, 1000))).collect()
}

/// Share of the frames of `bytes` bytes that are lost, of `n` frames that start `gap` ns apart.
pub fn share_of(process: &mut LossProcess, bytes: u32, n: u64, gap: u64) -> f64 {
    let lost = |&i: &u64| process.lost(&frame(Time(i * gap), i, bytes));
    (0..n).filter(lost).count() as f64 / n as f64
}

pub fn share(fates: &[bool]) -> f64 {
    fates.iter().filter(|&&lost| lost).count() as f64 / fates.len() as f64
}

pub fn mean_burst(fates: &[bool]) -> f64 {
    let bursts = fates.windows(2).filter(|w| !w[0] && w[1]).count() + usize::from(fates[0]);
    fates.iter().filter(|&&lost| lost).count() as f64 / bursts as f64
}

/// Asserts that the fate of a slot does not depend on which frames came before, for a model in
/// which the frames of a slot share one fate; the end of time does not stop the run.
pub fn assert_slots_have_fates(config: impl Into<LossConfig>, slots: u64) -> Vec<bool> {
    let config = config.into();
    let always = fates(config.clone(), 11, slots, SLOT.0);
    let mut seldom = process(config.clone(), 11);
    let (mut slot, mut gap) = (0, 1);
    while slot < always.len() {
        let start = Time(slot as u64 * SLOT.0 + 17);
        assert_eq!(seldom.lost(&frame(start, 0, 1)), always[slot], "slot {slot} of {config:?}");
        assert_eq!(seldom.lost(&frame(start, 0, 1)), always[slot], "the same slot again");
        gap = gap * 5 % 1013;
        slot += gap;
    }
    seldom.lost(&frame(Time::NEVER, 0, 1));
    always
}
