//! BBR version 1's model of a traffic policer (Linux' "long-term bandwidth"): two intervals with
//! high loss and the same rate.

use lasthop_core::units::Time;

/// Minimum and maximum length of an interval, in rounds.
const ROUNDS: (u32, u32) = (4, 16);
/// Share of bytes lost (of those delivered) that makes an interval lossy: 50 / 256.
const LOSSY: f64 = 50.0 / 256.0;
/// Two rates are the same if they differ by at most this share, or by at most this number of bytes
/// per second.
const SAME: (f64, f64) = (0.125, 500.0);
/// Rounds for which the rate of a policer is used.
const HOLDS: u32 = 48;

/// Counters at the start of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    at: Time,
    delivered: u64,
    lost: u64,
}

/// The detector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Policer {
    stretch: Option<Stretch>,
    rounds: u32,
    /// Rate of the last lossy interval, bytes per second.
    last: Option<f64>,
    in_use: bool,
}

impl Policer {
    /// Rate of the policer, bytes per second, if one is detected.
    pub fn rate(&self) -> Option<f64> {
        self.last.filter(|_| self.in_use)
    }

    /// Processes an ACK or a timeout. True if the rate has been used long enough and probing
    /// restarts.
    #[allow(clippy::too_many_arguments, reason = "one call site; each is a property of the ACK")]
    pub fn sample(
        &mut self,
        now: Time,
        round: bool,
        probing: bool,
        losses: bool,
        app_limited: bool,
        delivered: u64,
        lost: u64,
    ) -> bool {
        if self.in_use {
            self.rounds += u32::from(probing && round);
            let over = self.rounds >= HOLDS;
            if over {
                *self = Policer::default();
            }
            return over;
        }
        let here = Stretch { at: now, delivered, lost };
        // Sampling begins with a loss, when the tokens are used up, and ends with one.
        let stretch = match self.stretch {
            Some(s) => s,
            None if losses => {
                (self.stretch, self.rounds) = (Some(here), 0);
                here
            }
            None => return false,
        };
        self.rounds += u32::from(round);
        if app_limited || self.rounds > ROUNDS.1 {
            *self = Policer::default();
            return false;
        }
        let (delivered, lost) = (delivered - stretch.delivered, lost - stretch.lost);
        let secs = now.since(stretch.at).as_secs();
        if self.rounds >= ROUNDS.0
            && losses
            && delivered > 0
            && lost as f64 >= LOSSY * delivered as f64
            && secs >= 1e-3
        {
            self.end_stretch(delivered as f64 / secs, here);
        }
        false
    }

    fn end_stretch(&mut self, rate: f64, here: Stretch) {
        let same = self.last.filter(|last| (rate - last).abs() <= (SAME.0 * last).max(SAME.1));
        self.in_use = same.is_some();
        self.last = Some(same.map_or(rate, |last| (rate + last) / 2.0));
        (self.stretch, self.rounds) = (Some(here), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 100 ms, each delivering 10 kB; the items are the bytes lost at the end of each.
    fn after(rounds: impl IntoIterator<Item = u64>) -> Policer {
        let (mut p, mut lost) = (Policer::default(), 0);
        for (i, bytes) in rounds.into_iter().enumerate() {
            lost += bytes;
            p.sample(
                Time(i as u64 * 100_000_000),
                true,
                true,
                bytes > 0,
                false,
                10_000 * i as u64,
                lost,
            );
        }
        p
    }

    /// 10 kB in 100 ms are 100 kB/s. The first loss begins a stretch, in its own round; the fourth
    /// round may end it.
    #[test]
    fn two_lossy_stretches_of_one_rate_are_a_policer() {
        assert_eq!(after([3000; 7]).rate(), None, "one stretch");
        assert_eq!(after([3000; 8]).rate(), Some(100_000.0));
        assert_eq!(after([1500; 30]).rate(), None, "15 % of loss");
        assert_eq!(after([0; 30]), Policer::default());
    }

    #[test]
    fn its_rate_holds_for_48_rounds() {
        let mut p = after([3000; 8]);
        let again = |p: &mut Policer| p.sample(Time::ZERO, true, true, false, false, 0, 0);
        assert!((0..47).all(|_| !again(&mut p)) && p.rate().is_some());
        assert!(again(&mut p) && p.rate().is_none());
    }

    #[test]
    fn an_application_that_pauses_ends_a_stretch() {
        let mut p = after([3000; 3]);
        p.sample(Time(1_000_000_000), true, true, false, true, 100_000, 9000);
        assert_eq!(p, Policer::default());
    }
}
