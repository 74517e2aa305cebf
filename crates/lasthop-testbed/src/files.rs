//! Files on disk, the traces that the crate contains, and the window rules of the user.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use lasthop::scenario::Files;
use lasthop::schemes::catalogue::{ForeignSchemes, Scheme, SchemeChoice};
use serde_json::{Map, Value};

/// A synthetic LTE downlink of 120 s with fades, 10 Mbit/s on average; Mahimahi's format: the
/// milliseconds at which 1500 bytes can be sent. Its name in scenarios is `synthetic-lte.down`.
pub const SYNTHETIC_LTE_DOWN: &str = include_str!("../traces/synthetic-lte.down");

/// The uplink of [`SYNTHETIC_LTE_DOWN`], named `synthetic-lte.up`.
pub const SYNTHETIC_LTE_UP: &str = include_str!("../traces/synthetic-lte.up");

/// Reads files from disk. A trace of the crate is read if there is no file of its name.
pub(crate) struct Disk<'a> {
    pub rules: &'a [SchemeChoice],
}

impl Files for Disk<'_> {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        let error = match File::open(path) {
            Ok(file) => return Ok(Box::new(file)),
            Err(error) => error,
        };
        match path.file_name().and_then(|name| name.to_str()) {
            Some("synthetic-lte.down") => Ok(Box::new(SYNTHETIC_LTE_DOWN.as_bytes())),
            Some("synthetic-lte.up") => Ok(Box::new(SYNTHETIC_LTE_UP.as_bytes())),
            _ => Err(error),
        }
    }

    fn schemes(&self) -> &dyn ForeignSchemes {
        self
    }
}

impl ForeignSchemes for Disk<'_> {
    fn find(&self, name: &str, _: &Map<String, Value>) -> Option<Result<SchemeChoice, String>> {
        let named = |rule: &&SchemeChoice| match &rule.scheme {
            Scheme::ForeignWindow(rule) => rule.name == name,
            _ => false,
        };
        self.rules.iter().find(named).cloned().map(Ok)
    }
}
