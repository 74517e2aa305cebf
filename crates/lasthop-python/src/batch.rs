//! Many runs of one scenario: their metrics as columns, without the GIL.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use lasthop::scenario::network::Network;
use lasthop_sim::metrics::Metrics;
use lasthop_sim::{Repeated, RunError, RunResult};

/// Results of runs without candidates that are kept for other schemes with the same seed.
const MAX_KEPT: usize = 256;

/// The network and the seed of a run.
type Key = (u64, u64);
/// A result; its lock is held while it is computed, so that no other thread computes it too.
type Slot = Arc<Mutex<Option<Arc<RunResult>>>>;

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// The results that are kept, and their order of age.
#[derive(Default)]
struct Kept {
    slots: HashMap<Key, Slot>,
    age: VecDeque<Key>,
}

impl Kept {
    fn slot(&mut self, key: Key) -> Slot {
        if !self.slots.contains_key(&key) {
            self.age.push_back(key);
            if self.age.len() > MAX_KEPT
                && let Some(oldest) = self.age.pop_front()
            {
                self.slots.remove(&oldest);
            }
        }
        self.slots.entry(key).or_default().clone()
    }
}

/// The run of a network without candidates, which is the same for all schemes: computed once. The
/// fingerprint identifies the network.
///
/// # Errors
///
/// Those of `run`.
pub fn run_alone<E>(
    (fingerprint, seed): Key,
    run: impl FnOnce() -> Result<Arc<RunResult>, E>,
) -> Result<Arc<RunResult>, E> {
    let slot = {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_default().slot((fingerprint, seed))
    };
    let mut found = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(result) = &*found {
        return Ok(result.clone());
    }
    let result = run()?;
    *found = Some(result.clone());
    Ok(result)
}

/// The metrics of runs, one row per seed; fewer rows if `cancel` was set. `alone` is the network
/// without its candidates, and its fingerprint.
///
/// # Errors
///
/// The text of [`RunError::Scenario`].
pub fn rows(
    network: &Network,
    alone: Option<(&Network, u64)>,
    seeds: &[u64],
    metrics: &Metrics,
    cancel: &AtomicBool,
) -> Result<Vec<f64>, String> {
    let mut rows = Vec::with_capacity(seeds.len() * metrics.len());
    let alone = alone.filter(|_| metrics.needs_alone());
    let repeated = Repeated::new(network);
    for &seed in seeds {
        let done = repeated.run(seed, cancel).and_then(|result| {
            let alone = alone.map(|(network, fingerprint)| {
                let run = || lasthop_sim::run(network, seed, &mut (), cancel).map(Arc::new);
                run_alone((fingerprint, seed), run)
            });
            Ok((result, alone.transpose()?))
        });
        match done {
            Ok((result, alone)) => rows.extend(metrics.values(&result, alone.as_deref())),
            Err(RunError::Cancelled) => break,
            Err(RunError::Scenario(text)) => return Err(text),
        }
    }
    Ok(rows)
}

/// The numbers of a row as a file has them: exact and without an exponent where Python's `repr` has
/// none, whole numbers without a point, unknown ones empty; separated by commas.
pub fn row_text(values: &[f64]) -> String {
    let mut text = String::with_capacity(values.len() * 8);
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        push_number(&mut text, *value);
    }
    text
}

fn push_number(text: &mut String, value: f64) {
    if value.is_nan() {
        return;
    }
    if value.is_infinite() {
        text.push_str(if value > 0.0 { "inf" } else { "-inf" });
        return;
    }
    if value.fract() == 0.0 && value.abs() < 1e15 {
        text.push_str(&(value as i64).to_string());
        return;
    }
    let shortest = format!("{value:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value < 0.0 {
        text.push('-');
    }
    let count = mantissa.bytes().filter(u8::is_ascii_digit).count();
    // Of two shortest numbers equally near, Python takes the even one, as rounding does; the lower
    // one may be too far from a power of two.
    let rounded = may_be_between(value, count, exponent)
        .then(|| format!("{:.*e}", count - 1, value.abs()))
        .filter(|text| text.parse() == Ok(value.abs()));
    let mantissa = rounded.as_ref().map_or(mantissa, |r| r.split('e').next().unwrap_or(mantissa));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    match (exponent, usize::try_from(exponent)) {
        (_, Ok(e)) if e < 16 && digits.len() > e + 1 => {
            text.push_str(&digits[..=e]);
            text.push('.');
            text.push_str(&digits[e + 1..]);
        }
        (_, Ok(e)) if e < 16 => {
            text.push_str(&digits);
            text.extend(std::iter::repeat_n('0', e + 1 - digits.len()));
            text.push_str(".0");
        }
        (-4..=-1, _) => {
            text.push_str("0.");
            text.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
            text.push_str(&digits);
        }
        _ => {
            text.push_str(&digits[..1]);
            if digits.len() > 1 {
                text.push('.');
                text.push_str(&digits[1..]);
            }
            let sign = if exponent < 0 { '-' } else { '+' };
            text.push_str(&format!("e{sign}{:02}", exponent.abs()));
        }
    }
}

/// True if a number may be in the middle between two texts with as many digits as its shortest one
/// has, `digits`, of which the first is that of ten to the power of `exponent`: it ends with the
/// digit behind them then. A number with a fraction has as many digits behind the point as bits.
fn may_be_between(value: f64, digits: usize, exponent: i32) -> bool {
    const STORED: i32 = f64::MANTISSA_DIGITS as i32 - 1;
    let (stored, unit) = (value.to_bits() & ((1 << STORED) - 1), value.to_bits() >> STORED & 0x7ff);
    let unit = (unit as i32 - 1023 - STORED).max(-1074);
    let fraction = -(unit + (stored | 1 << STORED).trailing_zeros() as i32);
    fraction <= 0 || fraction == digits as i32 - exponent
}
