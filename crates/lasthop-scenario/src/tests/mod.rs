//! Tests of scenario files as a whole.

mod arrivals;
mod bounds;
mod cells;
mod estimates;
mod flow_roles;
mod mistakes;
mod overriding;
mod presets;
mod processing_time;
mod queue_limits;
mod random_starts;
mod reading;
mod segment_sizes;

use std::io::{Cursor, Error, ErrorKind, Read};
use std::path::Path;

use crate::{Files, Loaded, Overrides, ScenarioError, load};

/// Files in memory.
pub struct Memory;

impl Files for Memory {
    fn open(&self, path: &Path) -> std::io::Result<Box<dyn Read>> {
        // One opportunity a millisecond is 12 Mbit/s.
        let text = match path.to_string_lossy().as_ref() {
            "my.down" | "lab/my.down" => "1\n2\n3\n4\n",
            "my.up" | "lab/my.up" => "10\n20\n",
            "lab/sizes" => "700\n900\n",
            "empty.down" => "",
            "my.delay" | "lab/my.delay" => "0 20\n1000 35.5\n",
            "my.loss" | "lab/my.loss" => "0 0\n500 0.25\n",
            "garbled.down" => "1\n2\nthree\n",
            _ => return Err(Error::new(ErrorKind::NotFound, "no such file")),
        };
        Ok(Box::new(Cursor::new(text)))
    }
}

/// Loads a text as the file lab.toml of the current folder.
pub fn load_with(text: &str, overrides: &Overrides) -> Result<Loaded, ScenarioError> {
    load(text, Some(Path::new("lab.toml")), overrides, &Memory)
}

/// Loads a text that must be valid.
#[track_caller]
pub fn loaded(text: &str) -> Loaded {
    load_with(text, &Overrides::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// The message for a text that must be invalid.
#[track_caller]
pub fn mistake(text: &str) -> String {
    match load_with(text, &Overrides::default()) {
        Ok(_) => panic!("no mistake was found in:\n{text}"),
        Err(e) => e.to_string(),
    }
}

/// Overrides of `--set` alone.
pub fn sets(sets: &[(&str, &str)]) -> Overrides {
    Overrides {
        set: sets.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        ..Overrides::default()
    }
}

/// The long form of the design: a cellular last hop with delay variation.
pub const LONG: &str = r#"title    = "TCP over a cellular last hop with delay variation"
duration = "20 s"
[[link]]
between = ["server", "bs"]
rate = "1 Mbps"
delay = "5 ms"
queue = { discipline = "droptail", packets = 49 }
[[link]]
name = "radio"
radio = true
between = ["bs", "phone"]
rate = "250 kbps"
delay = { table = "zeng2006", from = "0.5 s" }
forward.loss = { model = "uniform", rate = "1 %", index = "slot" }
[[flow]]
from = "server"
to = "phone"
app = "bulk"
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "ns-2.26"
scheme = "reno"
receive_window = "20 segments"
[measure]
from = "0 s"
"#;

/// The short form.
pub const SHORT: &str = r#"duration = "120 s"
[last_hop]
down  = "my.down"
up    = "my.up"
start = "random"
rtt   = "40 ms"
loss  = "1 %"
queue = "250 packets"
"#;
