//! Fills in the defaults of a scenario and lists what was assumed.

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::cells;
use crate::endpoints::NodeNames;
use crate::errors::{ErrorKind, ScenarioError};
use crate::file::{File, FlowSpec, LastHop, LinkSpec, PathSpec, ReceiveWindow};
use crate::flow_roles::FlowRole;
use crate::load::Files;
use crate::overrides::Overrides;
use crate::roles::{default_ends, roles};
use crate::tree::{Path, Tree};
use lasthop_channel::air::config::{DelayConfig, LossConfig, RateConfig};
use lasthop_channel::air::series::{Series, SeriesKind};
use lasthop_channel::air::trace::Trace;
use lasthop_channel::queue::QueueConfig;
use lasthop_core::traffic::Sizes;
use lasthop_core::units::{Duration, Quantity, QueueLimit, Rate, Size};
use lasthop_schemes::catalogue::{ProfileKeys, SchemeChoice, SchemeText};
use lasthop_tcp::profile::{Profile, ProfileName};

/// A scenario with all values filled in.
#[derive(Clone, Debug)]
pub struct Filled {
    /// The file, with links instead of `[last_hop]` and every default in its place.
    pub file: File,
    /// The scheme of all flows without a scheme.
    pub scheme: SchemeChoice,
    /// True if that scheme comes from the command line.
    pub scheme_is_option: bool,
    /// What was assumed, one sentence each.
    pub assumed: Vec<String>,
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
    pub fn get(&mut self, path: &FilePath) -> Result<Arc<Trace>, ErrorKind> {
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

    fn series(&mut self, path: &FilePath, kind: SeriesKind) -> Result<Arc<Series>, ErrorKind> {
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
    pub fn sizes(&self, path: &FilePath) -> Result<Sizes, ErrorKind> {
        let name = path.display().to_string();
        let reader = self
            .files
            .open(path)
            .map_err(|e| ErrorKind::Value(format!("cannot open the sizes {name}: {e}")))?;
        Sizes::read(reader, &name).map_err(ErrorKind::Value)
    }
}

const DEFAULT_DURATION: Duration = Duration::secs(60);
const DEFAULT_RATE: Rate = Rate(10_000_000);
const DEFAULT_RTT: Duration = Duration::millis(40);
/// Rate of the wired link of `[last_hop]`, unless the radio is faster than a tenth of it.
const WIRED_RATE: Rate = Rate(1_000_000_000);
/// The highest rate that a file may contain.
const MAX_RATE: Rate = Rate(10_000_000_000_000);

/// Fills in a checked file. `overrides` has the scheme of the command line and `--upload`.
pub fn fill(
    mut file: File,
    overrides: &Overrides,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
) -> Result<Filled, ScenarioError> {
    let scheme = overrides.scheme.as_ref();
    let mut assumed = Vec::new();
    file.tcp.settle_receive_window();
    file.flow.iter_mut().for_each(FlowSpec::settle_receive_window);
    file.title.get_or_insert_with(|| title_of(tree.name()));
    file.duration.get_or_insert(DEFAULT_DURATION);
    if file.last_hop.is_some() && !(file.link.is_empty() && file.cell.is_empty()) {
        let other = if file.link.is_empty() { "[[cell]]" } else { "[[link]]" };
        return Err(tree.conflict(
            &Path::key("last_hop"),
            format!("a scenario has either [last_hop] or {other}, not both"),
        ));
    }
    if file.link.is_empty() && file.cell.is_empty() {
        let last_hop = file.last_hop.take();
        file.link = expand(last_hop.unwrap_or_default(), tree, traces, &mut assumed)?;
    }
    let profile = file.tcp.keys.profile();
    fill_links(&mut file, profile.profile, &mut assumed);
    fill_ends(&mut file, tree, &mut assumed)?;
    overrides.flows.swap_ends(&mut file);
    file.node = roles(&file, tree)?;
    let uses_tcp_profile = file.flow.iter().any(|f| f.keys.profile.is_none());
    if file.tcp.keys.profile.is_none() && uses_tcp_profile {
        assumed.push(format!("profile {}: none is given", word(profile.profile)));
    }
    let scheme_is_option = scheme.is_some();
    let given = scheme.is_some()
        || file.tcp.scheme.is_some()
        || file.flow.iter().all(|f| f.scheme.is_some());
    let of_file = match &file.tcp.scheme {
        Some(text) => tree
            .scheme(text)
            .map_err(|e| tree.error(&Path::key("tcp").at("scheme"), ErrorKind::Scheme(e)))?,
        None => SchemeChoice::of_profile(&profile),
    };
    // The scheme that is compared replaces that of candidates only.
    for flow in file.flow.iter_mut().filter(|f| f.role() != FlowRole::Candidate) {
        if flow.scheme.is_none() && !flow.app.is_datagrams() {
            flow.scheme = Some(scheme_text(&of_file));
        }
    }
    let scheme = scheme.cloned().unwrap_or(of_file);
    if !given {
        assumed.push(format!("scheme {}: none is given", scheme.label));
    }
    fill_flows(&mut file, tree)?;
    if scheme_is_option {
        check_scheme_is_used(&file, &scheme, &profile)?;
    }
    check_timers(&profile, &Path::key("tcp"), tree)?;
    file.tcp.keys = ProfileKeys::of(&profile);
    file.tcp.receive_window.get_or_insert(ReceiveWindow::of(default_window(profile.profile)));
    file.tcp.scheme = Some(scheme_text(&scheme));
    Ok(Filled { file, scheme, scheme_is_option, assumed })
}

/// Refuses a scheme of the command line that no flow uses, because it would have no effect. A
/// `[[flow]]` with `count = 0` counts as a user. If there are only datagrams, the default scheme
/// may be named.
fn check_scheme_is_used(
    file: &File,
    scheme: &SchemeChoice,
    profile: &Profile,
) -> Result<(), ScenarioError> {
    if file.flow.iter().any(|f| f.role() == FlowRole::Candidate) {
        return Ok(());
    }
    let holds_anyway =
        file.tcp.scheme.is_none() && scheme.label == SchemeChoice::of_profile(profile).label;
    if holds_anyway && file.flow.iter().all(|f| f.app.is_datagrams()) {
        return Ok(());
    }
    let name =
        |(i, f): (usize, &FlowSpec)| f.name.clone().unwrap_or_else(|| format!("flow {}", i + 1));
    let names: Vec<String> = file.flow.iter().enumerate().map(name).collect();
    let message = format!(
        "no flow uses `{}`: {} {} or {} datagrams, so no flow is a candidate; leave `scheme` out \
         of the [[flow]] that shall take it, or give it role = \"candidate\"",
        scheme.label,
        names.join(", "),
        if names.len() == 1 { "fixes its scheme" } else { "fix their scheme" },
        if names.len() == 1 { "sends" } else { "send" },
    );
    Err(ScenarioError::of_option("--scheme", ErrorKind::Option(message)))
}

fn title_of(name: &str) -> String {
    FilePath::new(name)
        .file_stem()
        .map_or_else(|| name.to_string(), |stem| stem.to_string_lossy().into_owned())
}

fn word(profile: ProfileName) -> String {
    serde_json::to_value(profile)
        .ok()
        .and_then(|v| v.as_str().map(str::to_string))
        .unwrap_or_default()
}

fn default_window(profile: ProfileName) -> Size {
    match profile {
        // Linux since 6.16: 5/8 of `tcp_rmem[2]` = 32 MiB, as its receiver counts memory.
        ProfileName::Linux => Size::Bytes(20 << 20),
        ProfileName::Rfc => Size::Bytes(4 << 20),
        _ => Size::Segments(20.0),
    }
}

fn default_queue(profile: ProfileName) -> u64 {
    if profile.is_ns2() { 49 } else { 250 }
}

/// The links of a `[last_hop]`: a wired one that is never the bottleneck, and the radio link. Each
/// of the four directions has a quarter of the round-trip time.
fn expand(
    last_hop: LastHop,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
    assumed: &mut Vec<String>,
) -> Result<Vec<LinkSpec>, ScenarioError> {
    let Rates { down, up, fastest } = rates(&last_hop, tree, traces, assumed)?;
    let rtt = last_hop.rtt.unwrap_or(DEFAULT_RTT);
    if last_hop.rtt.is_none() {
        assumed.push(format!("round-trip time {rtt}: none is given"));
    }
    let quarter = DelayConfig::constant(Duration(rtt.0 / 4));
    let wired_rate = WIRED_RATE.max(Rate(fastest.0.saturating_mul(10))).min(MAX_RATE);
    let alike = down == up;
    let radio = PathSpec {
        rate: alike.then(|| down.clone()),
        delay: Some(last_hop.radio.delay.unwrap_or_else(|| quarter.clone())),
        ..last_hop.radio
    };
    let one_way =
        |rate: RateConfig| PathSpec { rate: (!alike).then_some(rate), ..PathSpec::default() };
    let link = |name: &str, a: &str, b: &str| LinkSpec {
        name: Some(name.into()),
        between: vec![a.into(), b.into()],
        ..LinkSpec::default()
    };
    let wired = PathSpec {
        rate: Some(RateConfig::Constant(wired_rate)),
        delay: Some(quarter),
        queue: Some(QueueConfig::UNLIMITED.into()),
        ..PathSpec::default()
    };
    Ok(vec![
        LinkSpec { both: wired, ..link("wired", "server", "bs") },
        LinkSpec {
            radio: true,
            both: radio,
            forward: one_way(down),
            backward: one_way(up),
            ..link("radio", "bs", "phone")
        },
    ])
}

/// Rates of a last hop.
struct Rates {
    down: RateConfig,
    up: RateConfig,
    /// The higher one, of a trace its mean.
    fastest: Rate,
}

/// The rates of a `[last_hop]`. A direction without a rate has the mean of the other direction's
/// trace, if there is one; `assumed` gets what the file does not say.
fn rates(
    last_hop: &LastHop,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
    assumed: &mut Vec<String>,
) -> Result<Rates, ScenarioError> {
    let at = Path::key("last_hop");
    let mut mean = |path: Option<&PathBuf>, at: Path| -> Result<Option<Rate>, ScenarioError> {
        let Some(path) = path else { return Ok(None) };
        let trace = traces.get(path).map_err(|e| tree.error(&at, e))?;
        Ok(Some(trace.mean_rate().min(MAX_RATE)))
    };
    let means =
        [mean(last_hop.down.as_ref(), at.at("down"))?, mean(last_hop.up.as_ref(), at.at("up"))?];
    let mut rate_of = |name: &str, other: &str, trace: &Option<PathBuf>, rate, i: usize| match trace
    {
        Some(trace) => {
            let start = last_hop.start.clone().unwrap_or_default();
            RateConfig::Trace { trace: trace.clone(), start }
        }
        None => match (rate, means[1 - i]) {
            (Some(rate), _) => RateConfig::clone(rate),
            (None, Some(mean)) => {
                assumed.push(format!(
                    "{name} {mean}: no rate is given, so it has the mean of the trace of the \
                     {other}"
                ));
                RateConfig::Constant(mean)
            }
            (None, None) => RateConfig::Constant(DEFAULT_RATE),
        },
    };
    let [down_rate, up_rate] = [&last_hop.down_rate, &last_hop.up_rate]
        .map(|own| own.as_ref().or(last_hop.radio.rate.as_ref()));
    let down = rate_of("downlink", "uplink", &last_hop.down, down_rate, 0);
    let up = rate_of("uplink", "downlink", &last_hop.up, up_rate, 1);
    if means == [None, None] && (down_rate.is_none() || up_rate.is_none()) {
        assumed.push(format!("rate of the last hop {DEFAULT_RATE}: none is given"));
    }
    let mut fastest = Rate(0);
    for (rate, key) in [(&down, "down_rate"), (&up, "up_rate")] {
        let key = if tree.get(&at.at(key)).is_some() { key } else { "rate" };
        fastest = fastest.max(match rate {
            RateConfig::Constant(rate) => *rate,
            RateConfig::Schedule { schedule } => {
                schedule.iter().map(|step| step.rate).max().unwrap_or_default()
            }
            RateConfig::Trace { trace, .. } => {
                mean(Some(trace), at.at(key).at("trace"))?.unwrap_or_default()
            }
        });
    }
    Ok(Rates { down, up, fastest })
}

fn fill_links(file: &mut File, profile: ProfileName, assumed: &mut Vec<String>) {
    let packets = default_queue(profile);
    let mut without = Vec::new();
    for (i, link) in file.link.iter_mut().enumerate() {
        let (forward, backward) = (link.forward.over(&link.both), link.backward.over(&link.both));
        if forward.queue.is_none() || backward.queue.is_none() {
            without.push(link.name.clone().unwrap_or_else(|| format!("link {}", i + 1)));
            link.both.queue = Some(QueueConfig::drop_tail(QueueLimit::Packets(packets)).into());
        }
        if forward.delay.is_none() || backward.delay.is_none() {
            link.both.delay = Some(DelayConfig::constant(Duration::ZERO));
        }
        if forward.loss.is_none() || backward.loss.is_none() {
            link.both.loss = Some(LossConfig::None);
        }
        if forward.overhead.is_none() || backward.overhead.is_none() {
            link.both.overhead = Some(Size::Bytes(0));
        }
    }
    for (i, cell) in file.cell.iter_mut().enumerate() {
        if cells::fill(cell, packets) {
            without.push(cell.label(i));
        }
    }
    if !without.is_empty() {
        let of = without.join(", ");
        assumed.push(format!(
            "queue of {of}: {packets} packets wait, the default of profile {}",
            word(profile)
        ));
    }
}

/// The ends of every flow; a scenario without flows gets one.
fn fill_ends(
    file: &mut File,
    tree: &Tree<'_>,
    assumed: &mut Vec<String>,
) -> Result<(), ScenarioError> {
    let ends = default_ends(file);
    let implied = file.flow.is_empty();
    if implied {
        file.flow.push(FlowSpec { count: 1, each: 1, ..FlowSpec::default() });
    }
    for (i, flow) in file.flow.iter_mut().enumerate() {
        for (end, default, key, role) in [
            (&mut flow.from, &ends.server, "from", "server"),
            (&mut flow.to, &ends.station, "to", "station"),
        ] {
            if end.is_some() {
                continue;
            }
            let unknown = || {
                let message = format!(
                    "there is no [[flow]] with `{key}`, and no node is known as the {role} (by \
                     its role or its name); write [[flow]] from = \"…\", to = \"…\""
                );
                if implied {
                    tree.whole(ErrorKind::Missing(message))
                } else {
                    tree.missing(
                        &Path::key("flow").at(i),
                        format!("the key `{key}` is missing, and no node is known as the {role}"),
                    )
                }
            };
            *end = Some(NodeNames::One(default.clone().ok_or_else(unknown)?));
        }
    }
    if implied {
        let name =
            |end: &Option<NodeNames>| end.as_ref().map(NodeNames::to_string).unwrap_or_default();
        assumed.push(format!(
            "one bulk flow from {} to {}: no flow is given",
            name(&file.flow[0].from),
            name(&file.flow[0].to)
        ));
    }
    Ok(())
}

fn fill_flows(file: &mut File, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let tcp = file.tcp.clone();
    for (i, flow) in file.flow.iter_mut().enumerate() {
        let profile = flow.keys.over(&tcp.keys).profile();
        flow.headers.get_or_insert(Size::Bytes(40));
        if flow.receive_window.is_none() && tcp.receive_window.is_none() {
            flow.receive_window = Some(ReceiveWindow::of(default_window(profile.profile)));
        }
        if let Some(text) = &flow.scheme {
            let at = Path::key("flow").at(i).at("scheme");
            flow.scheme = Some(scheme_text(
                &tree.scheme(text).map_err(|e| tree.error(&at, ErrorKind::Scheme(e)))?,
            ));
        }
        // A flow that changes one value gets all of them, because `[tcp]` will have all of them.
        if flow.keys != ProfileKeys::default() {
            check_timers(&profile, &Path::key("flow").at(i), tree)?;
            flow.keys = ProfileKeys::of(&profile);
        }
    }
    Ok(())
}

fn check_timers(profile: &Profile, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let Profile { min_rto, max_rto, .. } = profile;
    if min_rto <= max_rto {
        return Ok(());
    }
    let (min, max) = (at.at("min_rto"), at.at("max_rto"));
    if tree.get(&min).is_none() && tree.get(&max).is_some() {
        return Err(
            tree.conflict(&max, format!("must not be below min_rto = {min_rto}, found {max_rto}"))
        );
    }
    Err(tree.conflict(&min, format!("must not be above max_rto = {max_rto}, found {min_rto}")))
}

/// A scheme as a table with every setting.
pub(super) fn scheme_text(choice: &SchemeChoice) -> SchemeText {
    let mut table = Map::new();
    table.insert("name".into(), Value::String(choice.scheme.name().to_string()));
    table.extend(choice.scheme.settings().into_iter().filter(|(_, value)| !value.is_null()));
    table.insert("label".into(), Value::String(choice.label.clone()));
    SchemeText::Table(table)
}
