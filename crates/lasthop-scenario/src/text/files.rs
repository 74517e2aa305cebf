//! The files that a scenario names.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::errors::ErrorKind;
use lasthop_channel::air::config::{DelayConfig, LossConfig};
use lasthop_channel::air::series::{Series, SeriesKind};
use lasthop_channel::air::trace::Trace;
use lasthop_core::traffic::Sizes;
use lasthop_core::units::{Quantity, Rate};
use lasthop_schemes::catalogue::ForeignSchemes;

/// Access to files. The core has no I/O; the host implements this trait.
///
/// # Examples
///
/// A folder in memory with one trace, the times in ms at which a packet of 1500 bytes can be sent:
///
/// ```
/// use std::collections::HashMap;
/// use std::io::{self, Read};
/// use std::path::Path;
///
/// use lasthop_scenario::{Files, Overrides, load};
///
/// struct Memory(HashMap<&'static str, &'static str>);
///
/// impl Files for Memory {
///     fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
///         let text = path.to_str().and_then(|p| self.0.get(p)).ok_or(io::ErrorKind::NotFound)?;
///         Ok(Box::new(text.as_bytes()))
///     }
/// }
///
/// let files = Memory(HashMap::from([("lte.down", "1\n3\n3\n10\n")]));
/// let text = |trace| format!("last_hop = {{ down = '{trace}', up = '{trace}', rtt = '40 ms' }}");
/// assert!(load(&text("lte.down"), None, &Overrides::default(), &files).is_ok());
/// assert!(load(&text("lte.up"), None, &Overrides::default(), &files).is_err());
/// ```
pub trait Files {
    /// Opens a file. A relative path is relative to the current folder.
    ///
    /// # Errors
    ///
    /// The host's error, for instance that the file does not exist.
    fn open(&self, path: &Path) -> std::io::Result<Box<dyn Read>>;

    /// The schemes that the host has besides those of the catalogue.
    fn schemes(&self) -> &dyn ForeignSchemes {
        &()
    }
}

/// Traces; each file is read once.
pub struct Traces<'f> {
    files: &'f dyn Files,
    read: Vec<(PathBuf, Arc<Trace>)>,
    series: Vec<(PathBuf, SeriesKind, Arc<Series>)>,
}

impl<'f> Traces<'f> {
    /// No trace is read yet.
    pub fn new(files: &'f dyn Files) -> Self {
        Traces { files, read: Vec::new(), series: Vec::new() }
    }

    /// The trace of a file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Trace`] if the file cannot be opened or is not a trace.
    pub fn get(&mut self, path: &Path) -> Result<Arc<Trace>, ErrorKind> {
        if let Some((_, trace)) = self.read.iter().find(|(p, _)| p == path) {
            return Ok(trace.clone());
        }
        let name = path.display().to_string();
        let reader = self.files.open(path).map_err(|e| {
            let constant = Rate::parse(&name).is_ok();
            let hint = if constant { "; a constant rate belongs in the key `rate`" } else { "" };
            ErrorKind::Trace(format!("cannot open the trace {name}: {e}{hint}"))
        })?;
        let trace = Trace::read(reader, &name).map_err(|e| ErrorKind::Trace(e.to_string()))?;
        let trace = Arc::new(trace);
        self.read.push((path.to_path_buf(), trace.clone()));
        Ok(trace)
    }

    /// Reads the delay trace that a delay has, if it has one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Trace`] if the file cannot be opened or is not a delay trace.
    pub fn read_delay(&mut self, delay: &mut DelayConfig) -> Result<(), ErrorKind> {
        if let Some(path) = &delay.trace {
            delay.rows = Some(self.series(path, SeriesKind::Delay)?);
        }
        Ok(())
    }

    /// Reads the loss trace that a loss model has, if it has one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Trace`] if the file cannot be opened or is not a loss trace.
    pub fn read_loss(&mut self, loss: &mut LossConfig) -> Result<(), ErrorKind> {
        if let LossConfig::Trace(model) = loss {
            model.rows = Some(self.series(&model.trace, SeriesKind::Loss)?);
        }
        Ok(())
    }

    fn series(&mut self, path: &Path, kind: SeriesKind) -> Result<Arc<Series>, ErrorKind> {
        let is_same =
            |found: &&(PathBuf, SeriesKind, Arc<Series>)| found.0 == path && found.1 == kind;
        if let Some((_, _, series)) = self.series.iter().find(is_same) {
            return Ok(series.clone());
        }
        let name = path.display().to_string();
        let reader = self
            .files
            .open(path)
            .map_err(|e| ErrorKind::Trace(format!("cannot open the trace {name}: {e}")))?;
        let series =
            Series::read(reader, kind, &name).map_err(|e| ErrorKind::Trace(e.to_string()))?;
        let series = Arc::new(series);
        self.series.push((path.to_path_buf(), kind, series.clone()));
        Ok(series)
    }

    /// The sizes of transfers in a file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Value`] if the file cannot be opened or has no sizes.
    pub fn sizes(&self, path: &Path) -> Result<Sizes, ErrorKind> {
        let name = path.display().to_string();
        let reader = self
            .files
            .open(path)
            .map_err(|e| ErrorKind::Value(format!("cannot open the sizes {name}: {e}")))?;
        Sizes::read(reader, &name).map_err(ErrorKind::Value)
    }
}
