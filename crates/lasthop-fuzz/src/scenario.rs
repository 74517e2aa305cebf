//! Scenario files: arbitrary text is loaded or rejected with a message; loaded scenarios can run.

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lasthop::scenario::network::Network;
use lasthop::scenario::{Files, Loaded, Overrides, load};
use lasthop::units::Duration;
use lasthop_sim::RunError;
use lasthop_sim::events::{Event, Observer};
use lasthop_sim::verifier::Verifier;

/// Events after which a run is ended.
const MAX_EVENTS: u32 = 1500;
/// The seed of all runs.
const SEED: u64 = 1;
/// Larger networks are loaded but not run, to save time.
const MAX_FLOWS: usize = 64;
const MAX_LINKS: usize = 64;

/// Separates the scenario from the trace text, which is returned for every path in the scenario.
const TRACE: &str = "\n#TRACE\n";
const DEFAULT_TRACE: &str = "0\n3\n3\n7\n12\n20\n";

/// The input is the text of a scenario file and, after `#TRACE`, the text of its traces.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (text, trace) = text.split_once(TRACE).unwrap_or((text, DEFAULT_TRACE));
    match load(text, None, &Overrides::default(), &Memory(trace)) {
        Ok(loaded) => check(&loaded, trace),
        Err(error) => crate::check_message(&error.to_string()),
    }
}

/// Returns the same text for every path, except paths that contain "missing".
pub(crate) struct Memory<'a>(pub(crate) &'a str);

impl Files for Memory<'_> {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        if path.to_string_lossy().contains("missing") {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Box::new(io::Cursor::new(self.0.as_bytes().to_vec())))
    }
}

/// Asserts that the filled file loads to the same scenario and that a run violates no invariant.
pub(crate) fn check(loaded: &Loaded, trace: &str) {
    let reloaded = load(&loaded.filled, None, &Overrides::default(), &Memory(trace));
    let reloaded = reloaded.unwrap_or_else(|e| panic!("the filled file is rejected: {e}"));
    assert_eq!(
        reloaded.filled, loaded.filled,
        "the filled file changes when it is loaded and filled"
    );
    let network = &*loaded.network.for_seed(SEED);
    if network.flows.len() > MAX_FLOWS || network.links.len() > MAX_LINKS {
        return;
    }
    let Some(network) = shorten(network) else { return };
    let mut verifier = Verifier::new(&network);
    let verified = simulate(&network, &mut verifier).expect("the first run succeeded");
    if let Err(violations) = verifier.finish_with(&verified) {
        panic!("{} violations:\n{}", violations.len(), violations.join("\n"));
    }
    let unobserved = simulate(&network, ()).expect("the first run succeeded");
    let json = |result| serde_json::to_string(result).expect("a result can be written");
    assert_eq!(json(&verified), json(&unobserved), "the result depends on the observer");
}

fn simulate<R: Observer>(
    network: &Network,
    observer: R,
) -> Result<lasthop_sim::RunResult, RunError> {
    lasthop_sim::run(network, SEED, observer, &AtomicBool::new(false))
}

/// The network with its duration limited to `MAX_EVENTS` events; `None` if it cannot run.
fn shorten(network: &Network) -> Option<Network> {
    let cancel = AtomicBool::new(false);
    let mut counter = Counter { events: 0, end: network.duration, cancel: &cancel };
    match lasthop_sim::run(network, SEED, &mut counter, &cancel) {
        Ok(_) | Err(RunError::Cancelled) => {}
        Err(RunError::Scenario(message)) => {
            crate::check_message(&message);
            return None;
        }
    }
    let duration = counter.end;
    let measure_from = network.measure_from.min(duration);
    Some(Network { duration, measure_from, ..network.clone() })
}

/// Cancels a run after `MAX_EVENTS` events and records the time.
struct Counter<'a> {
    events: u32,
    end: Duration,
    cancel: &'a AtomicBool,
}

impl Observer for Counter<'_> {
    fn on_event(&mut self, event: &Event<'_>) {
        self.events += 1;
        if self.events == MAX_EVENTS {
            self.end = self.end.min(Duration(event.t.0));
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}
