//! An agent from outside the catalogue: ACK thinning at the base station, in simulation.
//!
//! `cargo run --release --example ack_thinning -- [RUNS]` prints the goodput of that many seeds.

use std::error::Error;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lasthop::agent::{Agent, Context, Verdict};
use lasthop::role::Role;
use lasthop::scenario::{Files, Overrides, load};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::{Direction, Flags, Segment};

/// Drops every second ACK without data.
#[derive(Default)]
struct Thin {
    seen: u64,
    dropped: u64,
}

impl Agent for Thin {
    fn on_segment(
        &mut self,
        _ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        let control = Flags::SYN.with(Flags::FIN).with(Flags::RST);
        if direction == Direction::Uplink && segment.len == 0 && !segment.flags.any(control) {
            self.seen += 1;
            if self.seen % 2 == 1 {
                self.dropped += 1;
                return Verdict::Drop("thinned");
            }
        }
        Verdict::Forward
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("dropped", self.dropped)]
    }
}

struct NoFiles;

impl Files for NoFiles {
    fn open(&self, _path: &Path) -> io::Result<Box<dyn Read>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runs: u64 = std::env::args().nth(1).map_or(Ok(1), |text| text.parse())?;
    let choice = SchemeChoice::of_agent("thin", &[Role::BaseStation], || Box::new(Thin::default()));
    let overrides = Overrides { scheme: Some(choice), ..Overrides::default() };
    let text = r#"
        duration = "60 s"
        last_hop = { rate = "10 Mbps", rtt = "40 ms" }
    "#;
    let scenario = load(text, None, &overrides, &NoFiles)?;
    for seed in 1..=runs {
        let result = lasthop_sim::run(&scenario.network, seed, (), &AtomicBool::new(false))?;
        let dropped = &result.agents[0].counters["dropped"];
        println!("seed {seed}: {:.0} bit/s, {dropped} ACKs dropped", result.flows[0].goodput_bps);
    }
    Ok(())
}
