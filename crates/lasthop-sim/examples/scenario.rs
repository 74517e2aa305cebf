//! Measures the time of runs of a scenario file, without start-up, for profiling: `cargo run
//! --release --example scenario FILE [SCHEME [RUNS]]`.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use lasthop::scenario::{Files, Overrides, load};
use lasthop::schemes::catalogue::SchemeChoice;

struct Disk;

impl Files for Disk {
    fn open(&self, path: &Path) -> std::io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (file, scheme) =
        (args.first().expect("FILE"), args.get(1).map(|s| SchemeChoice::parse(s).unwrap()));
    let runs: u64 = args.get(2).map_or(1, |s| s.parse().unwrap());
    let text = std::fs::read_to_string(file).unwrap();
    let overrides = Overrides { scheme, ..Overrides::default() };
    let network = load(&text, Some(Path::new(file)), &overrides, &Disk).unwrap().network;
    let start = Instant::now();
    let mut bytes = 0;
    for seed in 1..=runs {
        let result = lasthop_sim::run(&network, seed, (), &AtomicBool::new(false)).unwrap();
        bytes += result.flows.iter().map(|f| f.delivered_bytes).sum::<u64>();
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{:.1} ms a run, {:.0} ns per kB delivered, packets {}",
        seconds * 1e3 / runs as f64,
        seconds * 1e12 / bytes as f64,
        bytes / 1000
    );
}
