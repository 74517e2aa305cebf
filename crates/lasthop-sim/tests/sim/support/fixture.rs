//! Recorded runs of ns-2.35: settings, and sequences of segments with their times.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lasthop::air::config::RateConfig;
use lasthop::units::{Quantity, Rate};

/// (segment number, nanoseconds)
pub type Sequence = Vec<(u64, u64)>;

/// One scenario: its settings, and a sequence for each (variant, event).
pub struct Fixture {
    pub settings: HashMap<String, String>,
    pub sequences: HashMap<(String, String), Sequence>,
}

/// Reads a fixture.
pub fn read(path: &Path) -> Fixture {
    let text = std::fs::read_to_string(path).unwrap();
    let mut f = Fixture { settings: HashMap::new(), sequences: HashMap::new() };
    for line in text.lines() {
        let mut words = line.split(' ');
        let head = words.next().unwrap();
        if let Some((key, _)) =
            line.split_once('=').filter(|(k, _)| !k.starts_with(char::is_uppercase))
        {
            f.settings.insert(key.split('(').next().unwrap().into(), line[key.len() + 1..].into());
            continue;
        }
        let event = words.next().unwrap().to_string();
        let mut t = 0;
        let sequence = words.map(|w| {
            let (seq, dt) = w.split_once('@').unwrap();
            t += dt.parse::<u64>().unwrap() * 1000;
            (seq.parse().unwrap(), t)
        });
        f.sequences.insert((head.to_string(), event), sequence.collect());
    }
    f
}

impl Fixture {
    pub fn text(&self, key: &str) -> &str {
        &self.settings[key]
    }

    pub fn number(&self, key: &str) -> f64 {
        self.text(key).parse().unwrap()
    }

    pub fn words(&self, key: &str) -> Vec<String> {
        self.text(key).split_whitespace().map(str::to_string).collect()
    }
}

/// Parses a rate such as "2Mb".
pub fn rate(text: &str) -> RateConfig {
    RateConfig::Constant(Rate::parse(&text.replace("Mb", " Mbps")).unwrap())
}

/// Describes the first difference between two sequences.
pub fn difference(what: &str, expected: &Sequence, found: &Sequence) -> Option<String> {
    for i in 0..expected.len().max(found.len()) {
        let (e, f) = (expected.get(i), found.get(i));
        let same = matches!((e, f), (Some(e), Some(f)) if e.0 == f.0 && e.1.abs_diff(f.1) <= 1000);
        if !same {
            let from = i.saturating_sub(3);
            let window = |s: &Sequence| {
                s[from.min(s.len())..(i + 4).min(s.len())]
                    .iter()
                    .map(|(n, t)| format!("{n}@{:.6}", *t as f64 * 1e-9))
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            return Some(format!("{what} {i}: ns-2 {} | here {}", window(expected), window(found)));
        }
    }
    None
}

/// All fixtures in a folder, sorted.
pub fn fixtures(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "txt"))
        .collect();
    all.sort();
    all
}
