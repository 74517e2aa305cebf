//! A keyed hash of addresses and ports, for tables of connections whose keys strangers choose.
//!
//! It is multilinear: a random number, plus the sum of each word of 32 bits times a random number
//! of 64 bits, modulo 2^64; of that the upper half. This family is strongly universal (D. Lemire,
//! O. Kaser, "Strongly Universal String Hashing is Fast", The Computer Journal 57(11), 2014, family
//! MULTILINEAR): whatever two tuples somebody chooses, they collide for 2^-32 of the keys. A table
//! has no more collisions than one of random numbers. The keys are drawn once for each process from
//! the random numbers of the operating system, and no hash leaves it. It is no pseudo-random
//! function like SipHash: somebody who learns which tuples collide could find more of them. To
//! learn it from outside, he would have to see a comparison of some nanoseconds in the time of an
//! answer.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// Words of the largest key: two IPv6 addresses, ports, and three for the caller. Further words
/// have the factors of the first ones again.
const WORDS: usize = 12;

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let random = RandomState::new();
    let number = |i: usize| random.hash_one(i);
    Keys { first: number(0), factors: std::array::from_fn(|i| number(i + 1)) }
});

#[derive(Debug)]
struct Keys {
    first: u64,
    factors: [u64; WORDS],
}

impl Keys {
    /// What the word at this place adds to the sum.
    fn term(&self, at: usize, word: u32) -> u64 {
        // There is a factor for each place.
        self.factors.get(at).copied().unwrap_or_default().wrapping_mul(word.into())
    }
}

/// Makes the hashers of tables.
///
/// # Examples
///
/// ```
/// use std::collections::HashMap;
///
/// use lasthop_wire::tuple_hash::TupleHash;
///
/// let mut table: HashMap<u32, &str, TupleHash> = HashMap::default();
/// table.insert(7, "seven");
/// assert_eq!(table.get(&7), Some(&"seven"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TupleHash(&'static Keys);

impl Default for TupleHash {
    /// With the keys of this process.
    fn default() -> TupleHash {
        TupleHash(&KEYS)
    }
}

impl BuildHasher for TupleHash {
    type Hasher = TupleHasher;

    fn build_hasher(&self) -> TupleHasher {
        TupleHasher { sum: self.0.first, at: 0, keys: self.0 }
    }
}

/// Hashes the words of a key.
#[derive(Clone, Debug)]
pub struct TupleHasher {
    sum: u64,
    at: usize,
    keys: &'static Keys,
}

impl Hasher for TupleHasher {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(4) {
            let mut word = [0; 4];
            word.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
            self.write_u32(u32::from_ne_bytes(word));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.sum = self.sum.wrapping_add(self.keys.term(self.at, word));
        self.at = if self.at + 1 < WORDS { self.at + 1 } else { 0 };
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u32(word.into());
    }

    fn write_u64(&mut self, words: u64) {
        self.write_u32((words >> 32) as u32);
        self.write_u32(words as u32);
    }

    fn write_u128(&mut self, words: u128) {
        self.write_u64((words >> 64) as u64);
        self.write_u64(words as u64);
    }

    /// The upper half of the sum, twice: a table takes the place from the lower bits, and what it
    /// compares first from the upper ones.
    fn finish(&self) -> u64 {
        let upper = self.sum >> 32;
        upper << 32 | upper
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn hash(keys: &'static Keys, words: &[u32]) -> u64 {
        let mut hasher = TupleHash(keys).build_hasher();
        words.iter().for_each(|word| hasher.write_u32(*word));
        hasher.finish()
    }

    fn keys(seed: usize) -> &'static Keys {
        let number = |i: usize| lasthop::random::Stream::new(seed as u64, "keys").bits(i as u64);
        let factors = std::array::from_fn(|i| number(i + 1));
        Box::leak(Box::new(Keys { first: number(0), factors }))
    }

    /// The tuples of one port, of one address, and of a stride that cancels in weak hashes.
    #[test]
    fn chosen_tuples_spread_over_a_table() {
        const PLACES: usize = 4096;
        let chosen: [fn(u32) -> [u32; 3]; 4] = [
            |i| [0x0a00_0001, 0xc000_0201, 80 << 16 | i],
            |i| [0x0a00_0001, i, 80 << 16 | 5000],
            |i| [0x0a00_0001, i << 20, i << 16],
            |i| [i, i.wrapping_neg(), i],
        ];
        for seed in 0..20 {
            let keys = keys(seed);
            for tuples in chosen {
                let mut counts = vec![0; PLACES];
                for i in 0..PLACES as u32 {
                    let place = hash(keys, &tuples(i)) as usize % PLACES;
                    counts[place] += 1;
                }
                // Of random numbers, the largest of 4096 places with 1 on average has 6 or 7.
                let most = counts.iter().max().unwrap();
                assert!(*most <= 24, "{most} of {PLACES} in one place, seed {seed}");
            }
        }
    }

    /// Two tuples collide for as many keys as for random numbers, in the lower bits and the upper.
    #[test]
    fn two_chosen_tuples_collide_as_random_numbers_do() {
        const KEYS: u64 = 100_000;
        let sum = |keys: &Keys, words: [u32; 3]| {
            let terms = words.iter().enumerate().map(|(at, word)| keys.term(at, *word));
            terms.fold(keys.first, u64::wrapping_add) >> 32
        };
        for (a, b) in [([1, 2, 3], [1, 2, 4]), ([0, 0, 0], [0, 0, 1 << 31]), ([5, 6, 7], [6, 5, 7])]
        {
            let (mut lower, mut upper) = (0, 0);
            let draws = lasthop::random::Stream::new(1, "pair");
            for seed in 0..KEYS {
                let keys = Keys {
                    first: draws.bits(4 * seed),
                    factors: std::array::from_fn(|i| draws.bits(4 * seed + 1 + i as u64 % 3)),
                };
                let (a, b) = (sum(&keys, a), sum(&keys, b));
                lower += usize::from(a % 256 == b % 256);
                upper += usize::from(a >> 24 == b >> 24);
            }
            // 391 expected, 20 standard deviation.
            for found in [lower, upper] {
                assert!((270..=510).contains(&found), "{found} of {KEYS}: {a:?} {b:?}");
            }
        }
    }

    #[test]
    fn equal_keys_are_found_and_tables_of_a_process_agree() {
        let table: HashMap<(u32, u64), usize, TupleHash> =
            (0..1000).map(|i| ((i as u32, i as u64 * 7), i)).collect();
        assert_eq!(table.get(&(9, 63)), Some(&9));
        assert_eq!(TupleHash::default().hash_one(5_u32), TupleHash::default().hash_one(5_u32));
        assert_ne!(TupleHash::default().hash_one(5_u32), TupleHash::default().hash_one(6_u32));
    }
}
