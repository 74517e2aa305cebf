//! Reads a scenario: text, command line, and the files it names.

use std::io::Read;
use std::path::Path;

use lasthop_schemes::catalogue::ForeignSchemes;
use serde_json::Value;

use crate::bounds;
use crate::check::check;
use crate::defaults::{Traces, fill};
use crate::errors::{ErrorKind, ScenarioError};
use crate::experiment::{Experiment, experiment};
use crate::file::File;
use crate::network::Network;
use crate::overrides::{self, Overrides};
use crate::queue_limits;
use crate::random_starts::{self, RandomStarts};
use crate::resolve::resolve;
use crate::tree::Tree;

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

/// A scenario, read and checked.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What to simulate.
    pub network: Network,
    /// The same scenario as TOML with every default filled in. It loads to the same network (except
    /// for `assumed`) and has the paths of traces as the host opened them.
    pub filled: String,
    /// The key `random_starts` of `filled`.
    pub random_starts: Option<RandomStarts>,
    /// The experiment on it.
    pub experiment: Experiment,
    /// Title.
    pub title: String,
}

/// Reads the text of a scenario file. `origin` is the path of the file: messages contain it, and
/// relative paths start at its folder.
///
/// # Errors
///
/// The first mistake, with its place.
///
/// # Examples
///
/// ```
/// use std::io::{self, Read};
/// use std::path::Path;
///
/// use lasthop_scenario::{Files, Overrides, load};
/// use lasthop_core::units::Duration;
///
/// struct NoFiles;
///
/// impl Files for NoFiles {
///     fn open(&self, _path: &Path) -> io::Result<Box<dyn Read>> {
///         Err(io::ErrorKind::NotFound.into())
///     }
/// }
///
/// let text = "duration = \"5 s\"\n[last_hop]\nrate = \"2 Mbps\"\n";
/// let loaded = load(text, None, &Overrides::default(), &NoFiles).unwrap();
/// assert_eq!(loaded.network.duration, Duration::secs(5));
/// assert_eq!(loaded.network.flows.len(), 1);
///
/// let Err(error) = load("duration = \"5 kB\"", None, &Overrides::default(), &NoFiles) else {
///     panic!("a duration in bytes");
/// };
/// assert_eq!(error.key, "duration");
/// ```
pub fn load(
    text: &str,
    origin: Option<&Path>,
    overrides: &Overrides,
    files: &dyn Files,
) -> Result<Loaded, ScenarioError> {
    let name = origin.map_or_else(|| "scenario".to_string(), |p| p.display().to_string());
    let mut tree = Tree::parse(&name, text, files.schemes())?;
    if let Some(folder) = origin.and_then(Path::parent) {
        tree.join_paths(folder);
    }
    let mut traces = Traces::new(files);
    overrides::apply(&mut tree, overrides, &mut traces)?;
    tree.name_loss_traces();
    let mut file: File = tree.read(schema)?;
    overrides.flows.apply(&mut file, &tree)?;
    check(&file, &tree)?;
    random_starts::apply(&mut file, &tree);
    let wanted = overrides.draw_starts.then(|| file.clone());
    let loaded = finish(file, overrides, &tree, &mut traces)?;
    let drawn = wanted.and_then(|file| random_starts::drawn(&file, &loaded.network, &tree));
    let Some((file, assumed)) = drawn else { return Ok(loaded) };
    let mut loaded = finish(file, overrides, &tree, &mut traces)?;
    loaded.network.assumed.extend(assumed);
    Ok(loaded)
}

/// Fills in the defaults of a checked file and resolves it.
fn finish(
    file: File,
    overrides: &Overrides,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
) -> Result<Loaded, ScenarioError> {
    let experiment = experiment(&file, tree)?;
    let mut filled = fill(file, overrides, tree, traces)?;
    let mut network = resolve(&mut filled, tree, traces)?;
    queue_limits::settle(&mut network, &mut filled.file, tree)?;
    bounds::settle(&mut network, &mut filled.file, tree);
    let text = as_toml(&filled.file)
        .map_err(|e| tree.whole(ErrorKind::Value(format!("cannot be written as TOML: {e}"))))?;
    Ok(Loaded {
        title: network.title.clone(),
        random_starts: filled.file.random_starts,
        network,
        filled: text,
        experiment,
    })
}

/// A file as TOML, by way of a JSON value: TOML's serialisers are compiled for that alone, and not
/// for all the types of a file.
fn as_toml(file: &File) -> Result<String, String> {
    let mut value = serde_json::to_value(file).map_err(|e| e.to_string())?;
    remove_nulls(&mut value);
    toml::to_string(&value).map_err(|e| e.to_string())
}

/// Removes the keys without a value, which TOML cannot have.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        Value::Object(table) => {
            table.retain(|_, value| !value.is_null());
            table.values_mut().for_each(remove_nulls);
        }
        _ => {}
    }
}

/// The JSON Schema of a scenario file.
pub fn schema() -> Value {
    schemars::schema_for!(File).to_value()
}
