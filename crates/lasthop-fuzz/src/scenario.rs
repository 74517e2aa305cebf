//! Scenario files: any text is read or refused with a sentence, and what was read can be run.

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lasthop::scenario::network::Network;
use lasthop::scenario::{Files, Loaded, Overrides, load};
use lasthop::units::Duration;
use lasthop_sim::RunError;
use lasthop_sim::events::{Event, Observer};
use lasthop_sim::verifier::Verifier;

/// Events after which a run is cut.
const MOST_EVENTS: u32 = 1500;
/// Larger networks are loaded and not run: what is looked for is in the small ones.
const MOST_FLOWS: usize = 64;
const MOST_LINKS: usize = 64;

/// A line that begins with this begins the text of the trace that every path of the file leads to.
const TRACE: &str = "\n#TRACE\n";
const DEFAULT_TRACE: &str = "0\n3\n3\n7\n12\n20\n";

/// The text of a scenario file, and behind `#TRACE` that of the traces it names.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (text, trace) = text.split_once(TRACE).unwrap_or((text, DEFAULT_TRACE));
    match load(text, None, &Overrides::default(), &Memory(trace)) {
        Ok(loaded) => check(&loaded, trace),
        Err(error) => crate::check_message(&error.to_string()),
    }
}

/// One text behind every path but those that are missing.
pub(crate) struct Memory<'a>(pub(crate) &'a str);

impl Files for Memory<'_> {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        if path.to_string_lossy().contains("missing") {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Box::new(io::Cursor::new(self.0.as_bytes().to_vec())))
    }
}

/// The filled-in file says the same, and a run of it is sound.
pub(crate) fn check(loaded: &Loaded, trace: &str) {
    let again = load(&loaded.filled, None, &Overrides::default(), &Memory(trace));
    let again = again.unwrap_or_else(|e| panic!("the filled file is refused: {e}"));
    assert_eq!(again.filled, loaded.filled, "the filled file says something else");
    let network = &loaded.network;
    if network.flows.len() > MOST_FLOWS || network.links.len() > MOST_LINKS {
        return;
    }
    let Some(network) = cut(network) else { return };
    let mut verifier = Verifier::new(&network);
    let watched = simulate(&network, &mut verifier).expect("it ran before");
    if let Err(violations) = verifier.finish_with(&watched) {
        panic!("{} violations:\n{}", violations.len(), violations.join("\n"));
    }
    let alone = simulate(&network, ()).expect("it ran before");
    let json = |result| serde_json::to_string(result).expect("a result can be written");
    assert_eq!(json(&watched), json(&alone), "the result depends on who watches");
}

fn simulate<R: Observer>(network: &Network, reader: R) -> Result<lasthop_sim::RunResult, RunError> {
    lasthop_sim::run(network, 1, reader, &AtomicBool::new(false))
}

/// The network with a duration in which no more happens than a case may take.
fn cut(network: &Network) -> Option<Network> {
    let cancel = AtomicBool::new(false);
    let mut counter = Counter { events: 0, end: network.duration, cancel: &cancel };
    match lasthop_sim::run(network, 1, &mut counter, &cancel) {
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

/// Cancels a run after so many events and records when that was.
struct Counter<'a> {
    events: u32,
    end: Duration,
    cancel: &'a AtomicBool,
}

impl Observer for Counter<'_> {
    fn on_event(&mut self, event: &Event<'_>) {
        self.events += 1;
        if self.events == MOST_EVENTS {
            self.end = self.end.min(Duration(event.t.0));
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}
