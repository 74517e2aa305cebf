//! `[[flow]]`: a flow, or several equal ones. Keys and checks.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::air::{LossForm, check_loss};
use super::app::{self, AppForm, AppSpec};
use super::checks::{Checked, MAX_PACKET, bytes_within};
use super::node::NodeNames;
use super::reader;
use super::tcp::{self, ReceiveWindow, ReceiveWindowForm, TcpSpec, settle_receive_window};
use crate::network::{FlowRole, Opener, ReaderSpec};
use crate::text::errors::ScenarioError;
use crate::text::shorthand::{form, some_form};
use crate::text::tree::{Path, Tree};
use lasthop_channel::air::config::LossConfig;
use lasthop_core::units::{Duration, Quantity, Size};
use lasthop_schemes::catalogue::{ProfileKeys, SchemeText};
use lasthop_tcp::receiver::Misbehaviour;

/// Bytes of IP and TCP headers.
const HEADERS: std::ops::RangeInclusive<u64> = 20..=200;

/// A flow, or several equal ones.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Name that `--set` uses. Default: its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The node that sends data; for several flows, a list of nodes that they use in turn. Default:
    /// the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<NodeNames>,
    /// The node that receives the data, or a list. Default: the station.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<NodeNames>,
    /// Application. Default: "bulk".
    #[serde(default, deserialize_with = "form")]
    #[schemars(with = "AppForm")]
    pub app: AppSpec,
    /// Start of the flow; for several flows, a list may have the start of each. Default: 0 s.
    #[serde(default)]
    pub start: StartTimes,
    /// Time between the starts of consecutive flows. Default: 0 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stagger: Option<Duration>,
    /// When the application stops writing. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Duration>,
    /// Number of equal flows; 0 leaves them out. Default: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// Number of consecutive flows (of `count`) with the same nodes and the same start. Default: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub each: u32,
    /// Payload of a full segment or datagram. Default: the profile's (ns-2: 1000 B; `linux` and
    /// `rfc`: 1448 B).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<Size>,
    /// IP and TCP headers of every packet. Default: 40 B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Size>,
    /// Loss of each of these connections, in both directions, behind the last link: links count
    /// the packet as delivered, and the end point does not receive it. Default: none.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LossForm>")]
    pub loss: Option<LossConfig>,
    /// The same for what its receiver sends. Default: as `loss`.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LossForm>")]
    pub ack_loss: Option<LossConfig>,
    /// How the receiving application reads: { rate, pauses }. Default: at once what has arrived in
    /// order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<ReaderSpec>,
    /// Which end opens the connection: "sender" or "receiver". Default: "sender".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens: Option<Opener>,
    /// The receiver claims what is not true: "optimistic-acks" or "false-dsack". Default: it does
    /// not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misbehaviour: Option<Misbehaviour>,
    /// Role in a comparison. Default: "candidate" for TCP without `scheme`, else "background".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<FlowRole>,
    /// The scheme of this flow, which no `--scheme` replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<SchemeText>,
    /// The receiver's buffer, a size or { size, grows }. Default: that of `[tcp]`.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ReceiveWindowForm>")]
    pub receive_window: Option<ReceiveWindow>,
    /// Single values of the profile, for this flow only.
    #[serde(flatten)]
    pub keys: ProfileKeys,
}

impl FlowSpec {
    /// The role that the file gives; without one, a TCP flow without a scheme is a candidate, and
    /// all other flows are background.
    pub fn role(&self) -> FlowRole {
        match self.role {
            Some(role) => role,
            None if self.scheme.is_some() || self.app.is_datagrams() => FlowRole::Background,
            None => FlowRole::Candidate,
        }
    }

    /// Moves the window's growth from the table to the key of the profile.
    pub fn settle_receive_window(&mut self) {
        settle_receive_window(&mut self.receive_window, &mut self.keys);
    }

    /// The TCP settings of the flow.
    pub fn tcp(&self) -> TcpSpec {
        TcpSpec {
            scheme: self.scheme.clone(),
            receive_window: self.receive_window,
            keys: self.keys.clone(),
        }
    }
}

fn one() -> u32 {
    1
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

/// The start of a flow, or the start of each of several equal flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StartTimes {
    /// The first flow; `stagger` adds to it.
    One(Duration),
    /// Of the first flow, the second, and so on.
    Each(Vec<Duration>),
}

impl Default for StartTimes {
    fn default() -> Self {
        StartTimes::One(Duration::ZERO)
    }
}

impl StartTimes {
    /// The earliest start.
    pub fn first(&self) -> Duration {
        self.as_slice().iter().copied().min().unwrap_or_default()
    }

    /// The latest start in the list.
    pub fn last(&self) -> Duration {
        self.as_slice().iter().copied().max().unwrap_or_default()
    }

    /// The start of the flow with this index, without `stagger`.
    pub fn of(&self, index: usize) -> Duration {
        match self {
            StartTimes::One(start) => *start,
            StartTimes::Each(starts) => starts.get(index).copied().unwrap_or_default(),
        }
    }

    fn as_slice(&self) -> &[Duration] {
        match self {
            StartTimes::One(start) => std::slice::from_ref(start),
            StartTimes::Each(starts) => starts,
        }
    }
}

struct StartVisitor;

impl<'de> Visitor<'de> for StartVisitor {
    type Value = StartTimes;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as \"10 s\", or a list with the start of each of several flows")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<StartTimes, E> {
        Duration::parse(text).map(StartTimes::One).map_err(E::custom)
    }
    fn visit_f64<E: Error>(self, n: f64) -> Result<StartTimes, E> {
        Duration::from_number(n).map(StartTimes::One).map_err(E::custom)
    }
    fn visit_i64<E: Error>(self, n: i64) -> Result<StartTimes, E> {
        self.visit_f64(n as f64)
    }
    fn visit_u64<E: Error>(self, n: u64) -> Result<StartTimes, E> {
        self.visit_f64(n as f64)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<StartTimes, A::Error> {
        let mut starts = Vec::new();
        while let Some(start) = list.next_element::<Duration>()? {
            starts.push(start);
        }
        if starts.is_empty() {
            Err(A::Error::custom("the list of start times is empty"))
        } else {
            Ok(StartTimes::Each(starts))
        }
    }
}

impl<'de> Deserialize<'de> for StartTimes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<StartTimes, D::Error> {
        d.deserialize_any(StartVisitor)
    }
}

/// Checks the values of a flow.
pub fn check(flow: &FlowSpec, duration: Option<Duration>, at: &Path, tree: &Tree<'_>) -> Checked {
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
    check_role(flow, at, tree)?;
    reader::check(flow.reader.as_ref(), &flow.app, at, tree)?;
    if flow.misbehaviour.is_some() && flow.app.is_datagrams() {
        let message = "nothing acknowledges datagrams; `misbehaviour` is for TCP connections";
        return Err(tree.conflict(&at.at("misbehaviour"), message));
    }
    if flow.opens.is_some() && flow.app.is_datagrams() {
        let message = "datagrams have no connection; `opens` is for TCP connections";
        return Err(tree.conflict(&at.at("opens"), message));
    }
    app::check(&flow.app, &at.at("app"), tree)?;
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
    tcp::check(&flow.tcp(), at, tree)
}

/// Checks role and start times of a `[[flow]]`.
fn check_role(flow: &FlowSpec, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    if flow.role == Some(FlowRole::Candidate) {
        if flow.scheme.is_some() {
            let message = "a candidate takes the scheme of [tcp], --scheme or --schemes; leave \
                           `scheme` out, or give it the role \"competitor\"";
            return Err(tree.conflict(&at.at("scheme"), message));
        }
        if flow.app.is_datagrams() {
            let message = "datagrams have no scheme, so they cannot be a candidate; the other \
                           roles are \"competitor\", \"probe\" and \"background\"";
            return Err(tree.conflict(&at.at("role"), message));
        }
    }
    let StartTimes::Each(starts) = &flow.start else { return Ok(()) };
    if flow.stagger.is_some() {
        let message = "goes with a single `start`; a list has the start of each flow";
        return Err(tree.conflict(&at.at("stagger"), message));
    }
    let turns = flow.count.div_ceil(flow.each.max(1)) as usize;
    if turns != 0 && starts.len() != turns {
        let message = format!(
            "expected a list with {turns} start times, one for each flow, found {}",
            starts.len()
        );
        return Err(tree.wrong(&at.at("start"), message));
    }
    Ok(())
}
