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
    let repeated = Repeated::new(network, metrics.read());
    for &seed in seeds {
        let done = repeated.run(seed, cancel).and_then(|result| {
            let alone = alone.map(|(network, fingerprint)| {
                let run = || lasthop_sim::run(network, seed, &mut (), cancel).map(Arc::new);
                run_alone((fingerprint, seed), run)
            });
            Ok((result, alone.transpose()?))
        });
        match done {
            Ok((result, alone)) => {
                rows.extend(metrics.values(&result, alone.as_deref()));
                repeated.take_back(result);
            }
            Err(RunError::Cancelled) => break,
            Err(RunError::Scenario(text)) => return Err(text),
        }
    }
    Ok(rows)
}
