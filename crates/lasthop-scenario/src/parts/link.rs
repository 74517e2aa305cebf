//! `[[link]]`: a link between two nodes. Its keys, their checks and defaults, and the two one-way
//! links that a network has of it.

use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::air::{DelayForm, LossForm, check_delay, check_loss, check_rate};
use super::checks::{Checked, MAX_PACKET, bytes_within};
use super::outage::{OutageForm, outages};
use super::queue::{QueueForm, QueueSpec, check_queue};
use crate::network::{Link, Network};
use crate::text::errors::{ErrorKind, ScenarioError};
use crate::text::files::Traces;
use crate::text::keys::keys_of;
use crate::text::shorthand::some_form;
use crate::text::tree::{Path, Tree};
use lasthop_channel::air::config::{DelayConfig, LossConfig, OutageConfig, RateConfig};
use lasthop_channel::air::token_bucket::TokenBucketConfig;
use lasthop_channel::air::trace::Trace;
use lasthop_channel::link::arq::{ArqConfig, ArqKind};
use lasthop_channel::link::impairment::{self, Fault, Impairments};
use lasthop_channel::queue::QueueConfig;
use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::{Duration, QueueLimit, Size};

/// Keys of a link that may differ between `forward` and `backward`.
pub static DIRECTION: LazyLock<Vec<String>> = LazyLock::new(keys_of::<PathSpec>);

/// Smallest MTU of a link for IPv4, bytes (RFC 791).
const MIN_MTU: u64 = 68;
/// Attempts of a link layer to send a frame.
const ATTEMPTS: std::ops::RangeInclusive<u32> = 1..=1000;
/// Fragments of a frame on a link that fragments.
const FRAGMENTS: std::ops::RangeInclusive<u32> = 1..=64;

/// A link between two nodes, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Name that `--set` uses. Default: its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The two nodes. `forward` runs from the first to the second.
    pub between: Vec<String>,
    /// True for the wireless last hop.
    #[serde(default)]
    pub radio: bool,
    /// Settings of both directions.
    #[serde(flatten)]
    pub both: PathSpec,
    /// Settings of the direction from the first to the second node.
    #[serde(default, skip_serializing_if = "PathSpec::is_empty")]
    pub forward: PathSpec,
    /// Settings of the direction from the second to the first node.
    #[serde(default, skip_serializing_if = "PathSpec::is_empty")]
    pub backward: PathSpec,
}

macro_rules! path_spec {
    ($($impairment:ident),*) => {
        /// Properties of one direction of a link.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct PathSpec {
            /// Rate: "1 Mbps", a schedule, or a trace.
            #[serde(default, deserialize_with = "some_form")]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub rate: Option<RateConfig>,
            /// One-way propagation delay. Default: 0 s.
            #[serde(default, deserialize_with = "some_form")]
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = "Option<DelayForm>")]
            pub delay: Option<DelayConfig>,
            /// Queue before the link. Default: the profile's (ns-2: 49 packets; `linux` and `rfc`:
            /// 250 packets).
            #[serde(default, deserialize_with = "some_form")]
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = "Option<QueueForm>")]
            pub queue: Option<QueueSpec>,
            /// Loss on the air. Default: none.
            #[serde(default, deserialize_with = "some_form")]
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(with = "Option<LossForm>")]
            pub loss: Option<LossConfig>,
            /// Bytes added to every frame. Default: 0 B.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub overhead: Option<Size>,
            /// Largest IP packet, `overhead` not counted: bounds the segments of the flows that
            /// cross the link. Default: any packet fits.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub mtu: Option<Size>,
            /// Spans in which the link is down.
            #[serde(default, deserialize_with = "outages", skip_serializing_if = "Option::is_none")]
            #[schemars(with = "Option<OutageForm>")]
            pub outage: Option<Vec<OutageConfig>>,
            /// Link-layer retransmission. Default: none.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub arq: Option<ArqConfig>,
            /// Token bucket that delays frames: { rate, burst }. Frames of a burst are sent at the
            /// rate of the link. Default: none.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub shaper: Option<TokenBucketConfig>,
            $(
                #[doc = concat!("See `", stringify!($impairment), "` in `impairment`.")]
                #[serde(default, skip_serializing_if = "Option::is_none")]
                #[schemars(description = impairment::$impairment::DOC)]
                pub $impairment: Option<impairment::$impairment::Settings>,
            )*
        }

        impl PathSpec {
            /// True if no key is set.
            pub fn is_empty(&self) -> bool {
                *self == PathSpec::default()
            }

            /// `self`, with missing values taken from `below`.
            pub fn over(&self, below: &PathSpec) -> PathSpec {
                PathSpec {
                    rate: self.rate.clone().or_else(|| below.rate.clone()),
                    delay: self.delay.clone().or_else(|| below.delay.clone()),
                    queue: self.queue.clone().or_else(|| below.queue.clone()),
                    loss: self.loss.clone().or_else(|| below.loss.clone()),
                    overhead: self.overhead.or(below.overhead),
                    mtu: self.mtu.or(below.mtu),
                    outage: self.outage.clone().or_else(|| below.outage.clone()),
                    arq: self.arq.clone().or_else(|| below.arq.clone()),
                    shaper: self.shaper.or(below.shaper),
                    $($impairment: self.$impairment.clone().or_else(|| below.$impairment.clone()),)*
                }
            }

            /// The impairments of this direction.
            fn impairments(&self) -> Impairments {
                Impairments { $($impairment: self.$impairment.clone()),* }
            }
        }
    };
}

lasthop_channel::impairments!(path_spec);

/// Checks the values of a link.
pub fn check(link: &LinkSpec, at: &Path, tree: &Tree<'_>) -> Checked {
    if link.between.len() != 2 {
        return Err(tree.wrong(
            &at.at("between"),
            format!("a link is between two nodes, found {}", link.between.len()),
        ));
    }
    if link.between[0] == link.between[1] {
        return Err(tree.wrong(
            &at.at("between"),
            format!("a link is between two different nodes, found `{}` twice", link.between[0]),
        ));
    }
    for name in &link.between {
        if name.trim().is_empty() {
            return Err(tree.wrong(&at.at("between"), "a node needs a name that is not empty"));
        }
    }
    check_path(&link.both, at, tree)?;
    check_path(&link.forward, &at.at("forward"), tree)?;
    check_path(&link.backward, &at.at("backward"), tree)?;
    for direction in [&link.forward, &link.backward] {
        if direction.over(&link.both).rate.is_none() {
            return Err(tree.missing(at, "the link has no rate; write rate = \"1 Mbps\""));
        }
    }
    Ok(())
}

/// Checks the values of one direction, or of both.
pub fn check_path(path: &PathSpec, at: &Path, tree: &Tree<'_>) -> Checked {
    check_rate(path.rate.as_ref(), &at.at("rate"), tree)?;
    if let Some(delay) = &path.delay {
        check_delay(delay).map_err(|e| tree.error(&at.at("delay"), e))?;
    }
    if let Some(loss) = &path.loss {
        check_loss(loss).map_err(|e| tree.error(&at.at("loss"), e))?;
    }
    check_queue(path.queue.as_ref(), at, tree)?;
    let shaper = path.shaper.map_or(Ok(()), |s| s.check()).map_err(|fault| ("shaper", fault));
    let impairments = shaper.and_then(|()| path.impairments().check());
    impairments.map_err(|(key, fault)| impairment_fault(&at.at(key), fault, tree))?;
    if let Some(arq) = path.arq.as_ref().filter(|a| !ATTEMPTS.contains(&a.attempts)) {
        let message =
            format!("a frame is sent 1 to {} times, found {}", ATTEMPTS.end(), arq.attempts);
        return Err(tree.wrong(&at.at("arq").at("attempts"), message));
    }
    if let Some(arq) = path.arq.as_ref().filter(|a| !FRAGMENTS.contains(&a.fragments)) {
        let message =
            format!("a frame has 1 to {} fragments, found {}", FRAGMENTS.end(), arq.fragments);
        return Err(tree.wrong(&at.at("arq").at("fragments"), message));
    }
    if path.arq.as_ref().is_some_and(|a| a.fragments > 1 && a.kind == ArqKind::SelectiveRepeat) {
        return Err(
            tree.conflict(&at.at("arq").at("fragments"), "fragments need kind = \"stop-and-wait\"")
        );
    }
    bytes_within(path.mtu, MIN_MTU..=MAX_PACKET, "mtu", at, tree)?;
    bytes_within(path.overhead, 0..=MAX_PACKET, "overhead", at, tree)
}

/// A fault of the impairment at `at`.
fn impairment_fault(at: &Path, (key, mistake): Fault, tree: &Tree<'_>) -> ScenarioError {
    let here = if key.is_empty() { at.clone() } else { at.at(key) };
    match mistake {
        Mistake::Other(words) => tree.wrong(&here, words),
        mistake => tree.error(&here, mistake),
    }
}

/// Fills in the defaults of a link; true if the queue was one of them.
pub fn fill(link: &mut LinkSpec, packets: u64) -> bool {
    let (forward, backward) = (link.forward.over(&link.both), link.backward.over(&link.both));
    let open = forward.queue.is_none() || backward.queue.is_none();
    if open {
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
    open
}

/// Adds both directions of a link.
pub fn add(
    network: &mut Network,
    spec: &LinkSpec,
    i: usize,
    tree: &Tree<'_>,
    traces: &mut Traces<'_>,
) -> Result<(), ScenarioError> {
    let name = spec.name.clone().unwrap_or_else(|| format!("link {}", i + 1));
    let at = Path::key("link").at(i);
    // The list of nodes contains every node that a link names.
    let [from, to] =
        [&spec.between[0], &spec.between[1]].map(|n| network.node(n).unwrap_or_default());
    for (own, word, from, to) in
        [(&spec.forward, "forward", from, to), (&spec.backward, "backward", to, from)]
    {
        let path = own.over(&spec.both);
        let impairments = path.impairments();
        let PathSpec { rate, delay, queue, loss, overhead, mtu, outage, arq, shaper, .. } = path;
        let (Some(rate), Some(delay)) = (rate, delay) else {
            return Err(tree.missing(&at, "the link has no rate; write rate = \"1 Mbps\""));
        };
        let (mut delay, mut loss) = (delay, loss.unwrap_or_default());
        let place = |is_own: bool| match is_own {
            true => at.at(word),
            false if tree.get(&at).is_none() => Path::key("last_hop"),
            false => at.clone(),
        };
        let trace = read_traces(traces, &rate, &mut delay, &mut loss).map_err(|(key, e)| {
            let is_own = match key {
                "rate" => own.rate.is_some(),
                "delay" => own.delay.is_some(),
                _ => own.loss.is_some(),
            };
            tree.error(&place(is_own).at(key).at("trace"), e)
        })?;
        network.links.push(Link {
            name: name.clone(),
            from,
            to,
            radio: spec.radio,
            overhead: overhead.map_or(0, |o| o.bytes(1) as u32),
            mtu: mtu.map(|m| m.bytes(1) as u32),
            queue: queue.map(|q| q.config).unwrap_or_default(),
            rate,
            trace,
            delay,
            loss,
            outages: outage.unwrap_or_default(),
            arq,
            shaper,
            impairments,
            cell: None,
        });
    }
    Ok(())
}

/// Reads the traces of one direction, and returns that of the rate; an error has the key.
fn read_traces(
    traces: &mut Traces<'_>,
    rate: &RateConfig,
    delay: &mut DelayConfig,
    loss: &mut LossConfig,
) -> Result<Option<Arc<Trace>>, (&'static str, ErrorKind)> {
    traces.read_delay(delay).map_err(|e| ("delay", e))?;
    traces.read_loss(loss).map_err(|e| ("loss", e))?;
    match rate {
        RateConfig::Trace { trace, .. } => traces.get(trace).map(Some).map_err(|e| ("rate", e)),
        _ => Ok(None),
    }
}

/// Checks that token buckets hold the packets of the flows that cross them: larger ones would never
/// pass.
pub fn check_bursts(network: &Network, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    for flow in &network.flows {
        let back = network.path(flow.to, flow.from);
        let back = back.into_iter().map(|l| (l, flow.headers));
        let there = network.path(flow.from, flow.to).into_iter();
        for (l, packet) in there.map(|l| (l, flow.segment + flow.headers)).chain(back) {
            let link = &network.links[l];
            let frame = u64::from(packet + link.overhead);
            let shaper = link.shaper.map(|s| ("shaper", s.burst_bytes()));
            let mut bursts = shaper.into_iter().chain(link.impairments.bursts());
            if let Some((key, burst)) = bursts.find(|(_, burst)| *burst < frame) {
                let message = format!(
                    "the burst of {burst} B holds no packet of `{}`, which has {frame} B on this \
                     link",
                    flow.name
                );
                return Err(tree.wrong(&bucket_path(tree, l, key), message));
            }
        }
    }
    Ok(())
}

/// Where the file has a token bucket of the one-way link `l`.
fn bucket_path(tree: &Tree<'_>, l: usize, key: &str) -> Path {
    let link = Path::key("link").at(l / 2);
    let direction = link.at(if l.is_multiple_of(2) { "forward" } else { "backward" });
    let places = [direction, link, Path::key("last_hop")].map(|at| at.at(key));
    let given = places.iter().find(|at| tree.get(at).is_some());
    given.unwrap_or(&places[1]).at("burst")
}
