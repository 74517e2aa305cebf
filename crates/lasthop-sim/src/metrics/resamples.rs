//! Resamples of a bootstrap: the draws of numpy's `Generator(PCG64(…)).integers(0, runs, …)`, which
//! are counted as they are drawn.

/// PCG64 (XSL RR 128/64; O'Neill 2014), from whose 64 bits numpy takes two draws, the lower half
/// first.
#[derive(Clone, Copy, Debug)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
    upper: Option<u32>,
}

impl Pcg64 {
    /// A generator that has not drawn, with the state and the increment of numpy's.
    pub fn new(state: u128, increment: u128) -> Pcg64 {
        Pcg64 { state, increment, upper: None }
    }

    const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

    #[inline(always)]
    fn step(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(Self::MULTIPLIER).wrapping_add(self.increment);
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    fn next(&mut self) -> u32 {
        if let Some(upper) = self.upper.take() {
            return upper;
        }
        let found = self.step();
        self.upper = Some((found >> 32) as u32);
        found as u32
    }

    /// A whole number below `end`, all equally likely (Lemire 2019).
    #[inline(never)]
    fn below(&mut self, end: u32) -> usize {
        let mut product = u64::from(self.next()) * u64::from(end);
        if (product as u32) < end {
            let least = end.wrapping_neg() % end;
            while (product as u32) < least {
                product = u64::from(self.next()) * u64::from(end);
            }
        }
        (product >> 32) as usize
    }

    /// Draws as many numbers as there are counts, and counts each.
    fn count(&mut self, counts: &mut [u32]) {
        let end = counts.len() as u32;
        let mut left = counts.len();
        while left > 0 {
            // Two draws of one step, unless one of them may have to be repeated.
            if left >= 2 && self.upper.is_none() {
                let mut after = Pcg64 { upper: None, ..*self };
                while left >= 2 {
                    let before = after.state;
                    let found = after.step();
                    let lower = (found & u64::from(u32::MAX)) * u64::from(end);
                    let upper = (found >> 32) * u64::from(end);
                    if (lower as u32) < end || (upper as u32) < end {
                        after.state = before;
                        break;
                    }
                    counts[(lower >> 32) as usize] += 1;
                    counts[(upper >> 32) as usize] += 1;
                    left -= 2;
                }
                *self = after;
            }
            if left > 0 {
                counts[self.below(end)] += 1;
                left -= 1;
            }
        }
    }
}

/// Writes how often each of `runs` runs is drawn in each of the next resamples, one row each.
pub fn counts(generator: &mut Pcg64, runs: usize, found: &mut [f64]) {
    let mut counts = vec![0; runs];
    for row in found.chunks_exact_mut(runs.max(1)) {
        // Of one run, numpy draws nothing.
        match counts.as_mut_slice() {
            [one] => *one = 1,
            counts => generator.count(counts),
        }
        for (found, count) in row.iter_mut().zip(&mut counts) {
            *found = f64::from(std::mem::take(count));
        }
    }
}
