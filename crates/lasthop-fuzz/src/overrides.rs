//! Command-line options: `--set KEY=VALUE`, schemes in short form, last-hop options.

use lasthop::scenario::{LastHopOptions, Overrides, load};
use lasthop::schemes::catalogue::SchemeChoice;

use crate::scenario::{Memory, check};

const TRACE: &str = "0\n2\n2\n9\n15\n";

/// Base scenarios: the short form, links, a cell, and an empty file.
const BASES: [&str; 4] = [
    include_str!("overrides/last_hop.toml"),
    include_str!("overrides/links.toml"),
    include_str!("overrides/cell.toml"),
    "",
];

/// Byte 0 selects a base scenario. Each following line is an option: `scheme reno`, `rtt 40 ms`,
/// `loss`, `rate`, `queue`, `down`, `up`; any other line is KEY=VALUE.
pub fn run(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let mut overrides = Overrides::default();
    for line in text.lines() {
        if let Err(message) = read(line, &mut overrides) {
            // The message quotes the argument, which may contain control characters.
            return assert!(!message.is_empty());
        }
    }
    let base = BASES[usize::from(first) % BASES.len()];
    match load(base, None, &overrides, &Memory(TRACE)) {
        Ok(loaded) => check(&loaded, TRACE),
        Err(error) => crate::check_message(&error.to_string()),
    }
}

fn read(line: &str, overrides: &mut Overrides) -> Result<(), String> {
    let LastHopOptions { down, up, rtt, loss, rate, queue, mtu } = &mut overrides.last_hop;
    let (option, value) = line.split_once(' ').unwrap_or((line, ""));
    let text = || Some(value.to_string());
    match option {
        "scheme" => overrides.scheme = Some(SchemeChoice::parse(value)?),
        "rtt" => *rtt = text(),
        "loss" => *loss = text(),
        "rate" => *rate = text(),
        "queue" => *queue = text(),
        "mtu" => *mtu = text(),
        "down" => *down = Some(value.into()),
        "up" => *up = Some(value.into()),
        _ => {
            let Some((key, value)) = line.split_once('=') else { return Ok(()) };
            overrides.set.push((key.to_string(), value.to_string()));
        }
    }
    Ok(())
}
