//! Checks of single values, with their places. Conditions between several parts of a scenario are
//! checked in `resolve`.

use std::collections::HashSet;

use crate::apps;
use crate::cells;
use crate::errors::{ErrorKind, ScenarioError};
use crate::file::{File, FlowSpec, LastHop, LinkSpec, PathSpec, TcpSpec};
use crate::flow_roles;
use crate::queues::QueueSpec;
use crate::readers;
use crate::roles::node_names;
use crate::sessions;
use crate::tree::{Path, Tree};
use lasthop_channel::air::config::{DelayConfig, LossConfig, RateConfig};
use lasthop_channel::air::delay::DelayProcess;
use lasthop_channel::air::loss::LossProcess;
use lasthop_channel::air::token_bucket::TokenBucketConfig;
use lasthop_channel::link::arq::ArqKind;
use lasthop_channel::queue::Fault;
use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::{Duration, Rate, Size};

/// RFC 7323: a window has at most 30 bits.
pub const MAX_WINDOW: u64 = 1 << 30;
/// Largest IP packet, bytes (RFC 791).
pub const MAX_PACKET: u64 = 65_535;
/// Smallest MTU of a link for IPv4, bytes (RFC 791).
const MIN_MTU: u64 = 68;
/// Largest token bucket, bytes.
const MAX_BURST: u64 = 1 << 40;
/// Bytes of IP and TCP headers.
const HEADERS: std::ops::RangeInclusive<u64> = 20..=200;
/// More nodes are a mistake, or need another simulator.
pub const MAX_NODES: usize = 4_000;
/// Maximum number of flows.
pub const MAX_FLOWS: u64 = 10_000;
/// The shortest slot of a random process.
const MIN_SLOT: Duration = Duration(1_000);

/// Attempts of a link layer to send a frame.
const ATTEMPTS: std::ops::RangeInclusive<u32> = 1..=1000;
/// Fragments of a frame on a link that fragments.
const FRAGMENTS: std::ops::RangeInclusive<u32> = 1..=64;

type Checked = Result<(), ScenarioError>;

/// Checks every value of a file.
pub fn check(file: &File, tree: &Tree<'_>) -> Checked {
    let fail = |path: &Path, message: String| Err(tree.wrong(path, message));
    if let Some(duration) = file.duration {
        if duration == Duration::ZERO {
            return fail(&Path::key("duration"), "a run must last longer than 0 s".into());
        }
        if file.measure.from >= duration {
            return fail(
                &Path::key("measure").at("from"),
                format!("nothing is left to measure: it must be before the end at {duration}"),
            );
        }
    }
    if let Some(last_hop) = &file.last_hop {
        check_last_hop(last_hop, tree)?;
    }
    let nodes = node_names(file).len();
    if nodes > MAX_NODES {
        let message = format!("{nodes} nodes are more than the {MAX_NODES} allowed");
        return Err(tree.whole(ErrorKind::Value(message)));
    }
    let mut names = HashSet::new();
    for (i, node) in file.node.iter().enumerate() {
        check_name(Some(&node.name), "node", &Path::key("node").at(i), tree)?;
        if !names.insert(&node.name) {
            let kind = ErrorKind::ListedTwice { what: "node", name: node.name.clone() };
            return Err(tree.error(&Path::key("node").at(i).at("name"), kind));
        }
    }
    let mut names = HashSet::new();
    for (i, link) in file.link.iter().enumerate() {
        let at = Path::key("link").at(i);
        check_name(link.name.as_deref(), "link", &at, tree)?;
        if link.name.is_some() && !names.insert(&link.name) {
            let name = link.name.clone().unwrap_or_default();
            return Err(tree.error(&at.at("name"), ErrorKind::DuplicateName { what: "link", name }));
        }
        check_link(link, &at, tree)?;
    }
    cells::check(&file.cell, tree)?;
    let mut names = HashSet::new();
    for (i, flow) in file.flow.iter().enumerate() {
        let at = Path::key("flow").at(i);
        check_name(flow.name.as_deref(), "flow", &at, tree)?;
        if flow.name.is_some() && !names.insert(&flow.name) {
            let name = flow.name.clone().unwrap_or_default();
            return Err(tree.error(&at.at("name"), ErrorKind::DuplicateName { what: "flow", name }));
        }
        check_flow(flow, file.duration, &at, tree)?;
    }
    let mut flows = 0;
    for (i, flow) in file.flow.iter().enumerate() {
        flows += u64::from(flow.count) * sessions::flows_of(&flow.app);
        if flows > MAX_FLOWS {
            return fail(
                &Path::key("flow").at(i).at("count"),
                format!("more than {MAX_FLOWS} flows"),
            );
        }
    }
    if flows == 0 && !file.flow.is_empty() {
        return fail(
            &Path::key("flow").at(0).at("count"),
            "at least 1 flow is needed, found 0".into(),
        );
    }
    check_tcp(&file.tcp, &Path::key("tcp"), tree)
}

/// Checks the name of a node, link, cell or flow.
pub fn check_name(name: Option<&str>, kind: &str, at: &Path, tree: &Tree<'_>) -> Checked {
    match name {
        Some(name) if name.trim().is_empty() => {
            Err(tree.wrong(&at.at("name"), format!("a {kind} needs a name that is not empty")))
        }
        Some(name) if name.chars().all(|c| c.is_ascii_digit()) => Err(tree.wrong(
            &at.at("name"),
            format!(
                "a name must not be a number, which stands for the position of a {kind}; found \
                 \"{name}\""
            ),
        )),
        _ => Ok(()),
    }
}

fn check_last_hop(last_hop: &LastHop, tree: &Tree<'_>) -> Checked {
    let at = Path::key("last_hop");
    for (trace, rate, names) in [
        (&last_hop.down, &last_hop.down_rate, ["down", "down_rate"]),
        (&last_hop.up, &last_hop.up_rate, ["up", "up_rate"]),
    ] {
        if trace.is_some() && rate.is_some() {
            let [first, second] = names;
            return Err(tree.error(&at.at(second), ErrorKind::Exclusive { first, second }));
        }
    }
    for (key, rate) in [("down_rate", &last_hop.down_rate), ("up_rate", &last_hop.up_rate)] {
        check_rate(rate.as_ref(), &at.at(key), tree)?;
    }
    if last_hop.start.is_some() && last_hop.down.is_none() && last_hop.up.is_none() {
        return Err(tree.conflict(
            &at.at("start"),
            "`start` is the phase of a trace, and neither `down` nor `up` names one",
        ));
    }
    check_path(&last_hop.radio, &at, tree)
}

const NO_RATE: &str =
    "a rate must be above 0; for a link that is down for a while use `outage` or a schedule";

fn check_link(link: &LinkSpec, at: &Path, tree: &Tree<'_>) -> Checked {
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

fn check_rate(rate: Option<&RateConfig>, at: &Path, tree: &Tree<'_>) -> Checked {
    match rate {
        Some(RateConfig::Constant(Rate(0))) => return Err(tree.wrong(at, NO_RATE)),
        Some(RateConfig::Schedule { schedule }) => {
            let here = at.at("schedule");
            if schedule.first().is_none_or(|s| s.at > Duration::ZERO) {
                let found = schedule.first().map_or("nothing".to_string(), |s| s.at.to_string());
                return Err(
                    tree.wrong(&here, format!("the first step must be at 0 s, found {found}"))
                );
            }
            if let Some(i) = (1..schedule.len()).find(|&i| schedule[i].at <= schedule[i - 1].at) {
                let (found, before) = (schedule[i].at, schedule[i - 1].at);
                return Err(tree.wrong(
                    &here.at(i).at("at"),
                    format!("steps must come in order of time, but {found} comes after {before}"),
                ));
            }
            if schedule.iter().all(|s| s.rate == Rate(0)) {
                return Err(tree.wrong(&here, NO_RATE));
            }
        }
        _ => {}
    }
    Ok(())
}

fn check_path(path: &PathSpec, at: &Path, tree: &Tree<'_>) -> Checked {
    check_rate(path.rate.as_ref(), &at.at("rate"), tree)?;
    if let Some(delay) = &path.delay {
        check_delay(delay).map_err(|e| tree.error(&at.at("delay"), e))?;
    }
    if let Some(loss) = &path.loss {
        check_loss(loss).map_err(|e| tree.error(&at.at("loss"), e))?;
    }
    check_queue(path.queue.as_ref(), at, tree)?;
    for (key, bucket) in [("shaper", path.shaper), ("policer", path.policer)] {
        let Some(TokenBucketConfig { rate, burst }) = bucket else { continue };
        if rate == Rate(0) {
            return Err(tree.wrong(&at.at(key).at("rate"), "a rate must be above 0"));
        }
        bytes_within(Some(burst), 1..=MAX_BURST, "burst", &at.at(key), tree)?;
    }
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

/// Checks the queue of a link or station at `at`.
pub fn check_queue(queue: Option<&QueueSpec>, at: &Path, tree: &Tree<'_>) -> Checked {
    let Some(queue) = queue else { return Ok(()) };
    queue.check().map_err(|fault| queue_fault(fault, at, tree))
}

/// A fault of the queue of a link or station at `at`.
pub fn queue_fault((key, message): Fault, at: &Path, tree: &Tree<'_>) -> ScenarioError {
    let here = at.at("queue");
    let is_table = tree.get(&here).is_some_and(|item| item.get_ref().is_table());
    tree.wrong(&if is_table { here.at(key) } else { here.clone() }, message)
}

fn check_delay(delay: &DelayConfig) -> Result<(), ErrorKind> {
    DelayProcess::new(delay, 0, "").map_err(ErrorKind::Value)?;
    check_slot(delay.slot)
}

/// Checks the values of a loss model.
pub fn check_loss(loss: &LossConfig) -> Result<(), ErrorKind> {
    LossProcess::new(loss, 0, "").map_err(ErrorKind::Value)?;
    loss.slot().map_or(Ok(()), check_slot)
}

fn check_slot(slot: Duration) -> Result<(), ErrorKind> {
    if slot < MIN_SLOT {
        Err(ErrorKind::Value(format!("slot must be at least {MIN_SLOT}, found {slot}")))
    } else {
        Ok(())
    }
}

/// Checks a number of bytes.
pub fn bytes_within(
    size: Option<Size>,
    allowed: std::ops::RangeInclusive<u64>,
    key: &str,
    at: &Path,
    tree: &Tree<'_>,
) -> Checked {
    match size {
        None => Ok(()),
        Some(Size::Bytes(b)) if allowed.contains(&b) => Ok(()),
        Some(Size::Bytes(b)) => Err(tree.wrong(
            &at.at(key),
            format!("expected {} to {} B, found {b} B", allowed.start(), allowed.end()),
        )),
        Some(Size::Segments(_)) => Err(tree.error(
            &at.at(key),
            Mistake::WrongType {
                expected: format!("bytes such as \"{} B\"", allowed.start().max(&40)),
                found: "a number of segments".into(),
            },
        )),
    }
}

fn check_flow(flow: &FlowSpec, duration: Option<Duration>, at: &Path, tree: &Tree<'_>) -> Checked {
    let fail = |key: &str, message: String| Err(tree.wrong(&at.at(key), message));
    bytes_within(flow.headers, HEADERS, "headers", at, tree)?;
    let headers = flow.headers.map_or(40, |h| h.bytes(1));
    bytes_within(flow.segment, 1..=MAX_PACKET - headers, "segment", at, tree)?;
    if let Some(end) = duration.filter(|end| flow.start.last() >= *end) {
        return fail("start", format!("the flow would start after the run ends at {end}"));
    }
    if flow.stop.is_some_and(|stop| stop <= flow.start.last()) {
        let start = flow.start.last();
        return fail("stop", format!("the flow would stop before it starts at {start}"));
    }
    if flow.each == 0 {
        return fail("each", "must be at least 1, found 0".into());
    }
    flow_roles::check(flow, at, tree)?;
    readers::check(flow, at, tree)?;
    apps::check(&flow.app, &at.at("app"), tree)?;
    for (loss, key) in [(&flow.loss, "loss"), (&flow.ack_loss, "ack_loss")] {
        let Some(loss) = loss else { continue };
        check_loss(loss).map_err(|e| tree.error(&at.at(key), e))?;
        if flow.app.is_datagrams() {
            return Err(tree.conflict(
                &at.at(key),
                "bit errors of a flow are for TCP connections; this flow sends datagrams",
            ));
        }
        loss.check_for_flow().map_err(|words| tree.conflict(&at.at(key), words))?;
    }
    check_tcp(&flow.tcp(), at, tree)
}

fn check_tcp(tcp: &TcpSpec, at: &Path, tree: &Tree<'_>) -> Checked {
    let fail = |key: &str, message: String| Err(tree.wrong(&at.at(key), message));
    if let Some(scheme) = &tcp.scheme {
        tree.scheme(scheme).map_err(|e| tree.error(&at.at("scheme"), ErrorKind::Scheme(e)))?;
    }
    let profile = tcp.keys.profile();
    for (key, time) in [
        ("min_rto", tcp.keys.min_rto),
        ("max_rto", tcp.keys.max_rto),
        ("initial_rto", tcp.keys.initial_rto),
        ("clock_granularity", tcp.keys.clock_granularity),
    ] {
        if time == Some(Duration::ZERO) {
            return fail(key, "must be above 0 s".into());
        }
    }
    for (key, n) in
        [("dupack_threshold", tcp.keys.dupack_threshold), ("max_backoff", tcp.keys.max_backoff)]
    {
        if n == Some(0) {
            return fail(key, "must be at least 1, found 0".into());
        }
    }
    for (key, bytes) in [
        ("timestamp_bytes", profile.timestamp_bytes),
        ("timestamp_ack_bytes", profile.timestamp_ack_bytes),
    ] {
        if bytes > 40 {
            return fail(key, format!("TCP options have at most 40 bytes, found {bytes}"));
        }
    }
    Ok(())
}
