//! Reads a scenario: text, command line, and the files it names.

mod last_hop;

use std::path::Path;

use serde_json::Value;

use crate::network::Network;
use crate::options::set::{cannot, set};
use crate::options::{Overrides, apply_presets};
use crate::parts::experiment::{Experiment, experiment};
use crate::parts::file::{File, check, schema};
use crate::parts::file_paths::{join_paths, name_loss_traces};
use crate::parts::random_starts::RandomStarts;
use crate::resolve::defaults::fill;
use crate::resolve::{bounds, queue_limits, random_starts, resolve};
use crate::text::errors::{ErrorKind, ScenarioError};
use crate::text::files::{Files, Traces};
use crate::text::tree::Tree;

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
        join_paths(&mut tree, folder);
    }
    let mut traces = Traces::new(files);
    apply(&mut tree, overrides, &mut traces)?;
    name_loss_traces(&mut tree);
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

/// Applies the command line to the tree: the options of the last hop first, so that `--set` can
/// change them further.
fn apply<'a>(
    tree: &mut Tree<'a>,
    overrides: &'a Overrides,
    traces: &mut Traces<'_>,
) -> Result<(), ScenarioError> {
    if let Some(text) = &overrides.flows.traffic {
        apply_presets(tree, text)?;
    }
    if !overrides.last_hop.is_empty() {
        last_hop::last_hop(tree, overrides, traces)?;
    }
    for (key, value) in &overrides.set {
        if overrides.scheme.is_some() && key.trim().starts_with("tcp.scheme") {
            let message = "--scheme replaces `tcp.scheme`; write the setting behind its name: \
                           --scheme NAME:KEY=VALUE";
            return Err(ScenarioError::of_option(&format!("--set {key}"), cannot(message)));
        }
        set(tree, key, value)?;
    }
    Ok(())
}

/// Fills in the defaults of a checked file and resolves it.
fn finish(
    file: File,
    overrides: &Overrides,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
) -> Result<Loaded, ScenarioError> {
    let experiment = experiment(&file.experiment, file.plot.as_ref(), &file.claim, tree)?;
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
