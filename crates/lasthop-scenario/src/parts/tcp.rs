//! TCP in a file: the profile and its single values, the scheme, and the receive window. `[tcp]`
//! and each `[[flow]]` have these keys.

use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::checks::Checked;
use crate::network::Flow;
use crate::text::errors::{ErrorKind, ScenarioError};
use crate::text::shorthand::{Form, schema_forms, some_form};
use crate::text::tree::{Path, Tree};
use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::{Duration, Quantity, Size};
use lasthop_schemes::catalogue::{ProfileKeys, SchemeChoice, SchemeText};
use lasthop_tcp::profile::{InitialSsthresh, Profile, ProfileName};

/// RFC 7323: a window has at most 30 bits.
const MAX_WINDOW: u64 = 1 << 30;

/// The receiver's buffer, and whether the window that it advertises grows up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReceiveWindow {
    /// The largest window; `None`: that of the profile.
    pub size: Option<Size>,
    /// `Profile::receive_window_grows`; `None`: that of the profile, and in a filled file, which
    /// has that key.
    pub grows: Option<bool>,
}

impl ReceiveWindow {
    /// A buffer of this size.
    pub fn of(size: Size) -> Self {
        ReceiveWindow { size: Some(size), grows: None }
    }
}

impl Serialize for ReceiveWindow {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if let ReceiveWindow { size: Some(size), grows: None } = self {
            return size.serialize(s);
        }
        let mut table = s.serialize_map(None)?;
        if let Some(size) = &self.size {
            table.serialize_entry("size", size)?;
        }
        if let Some(grows) = &self.grows {
            table.serialize_entry("grows", grows)?;
        }
        table.end()
    }
}

impl TcpSpec {
    /// Moves the window's growth from the table to the key of the profile.
    pub fn settle_receive_window(&mut self) {
        settle_receive_window(&mut self.receive_window, &mut self.keys);
    }
}

/// Moves the growth of a window from its table to the key of the profile.
pub fn settle_receive_window(window: &mut Option<ReceiveWindow>, keys: &mut ProfileKeys) {
    if let Some(ReceiveWindow { size, grows: Some(grows) }) = *window {
        keys.receive_window_grows = Some(grows);
        *window = size.map(ReceiveWindow::of);
    }
}

/// TCP: the profile, changes of its values, and the scheme.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpSpec {
    /// The scheme. Default: the profile's (linux: cubic; the others: newreno).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<SchemeText>,
    /// The receiver's buffer, a size or { size, grows }. Default: the profile's (ns-2: 20 segments;
    /// linux: 20 MiB; rfc: 4 MiB).
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ReceiveWindowForm>")]
    pub receive_window: Option<ReceiveWindow>,
    /// Single values of the profile.
    #[serde(flatten)]
    pub keys: ProfileKeys,
}

/// The table form of a receive window.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiveWindowTable {
    /// The receiver's buffer: the largest window. Default: that of the profile.
    size: Option<Size>,
    /// The window starts at 64 KiB and grows up to `size` with the sender's window
    /// (`receive_window_grows`).
    grows: Option<bool>,
}

impl Form for ReceiveWindow {
    type Table = ReceiveWindowTable;
    const EXPECTED: &'static str =
        "a size such as \"20 segments\" or { size = \"4 MiB\", grows = true }";
    fn short(text: &str) -> Result<Self, Mistake> {
        Ok(ReceiveWindow::of(Size::parse(text)?))
    }
    fn number(n: f64) -> Result<Self, Mistake> {
        Ok(ReceiveWindow::of(Size::from_number(n)?))
    }
    fn table(table: ReceiveWindowTable) -> Result<Self, Mistake> {
        Ok(ReceiveWindow { size: table.size, grows: table.grows })
    }
}

schema_forms! {
    /// The receiver's buffer: a size ("20 segments") or a table.
    ReceiveWindowForm = ReceiveWindowTable;
}

/// Checks the values of `[tcp]` or of a flow, at `at`.
pub fn check(tcp: &TcpSpec, at: &Path, tree: &Tree<'_>) -> Checked {
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

/// Checks that the bounds of the retransmission timeout are in order.
pub fn check_timers(profile: &Profile, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
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

/// Checks that windows are above zero and fit TCP, also those given in segments.
pub fn check_windows(flow: &Flow, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let p = &flow.profile;
    let initial_ssthresh = match p.initial_ssthresh {
        InitialSsthresh::Size(size) => size,
        InitialSsthresh::Named(_) => Size::Segments(1.0),
    };
    let windows = [
        ("receive_window", flow.receive_window),
        ("initial_window", p.initial_window),
        ("syn_loss_window", p.syn_loss_window),
        ("syn_losses_window", p.syn_losses_window),
        ("loss_window", p.loss_window),
        ("restart_window", p.restart_window),
        ("initial_ssthresh", initial_ssthresh),
    ];
    for (key, size) in windows {
        let own = at.at(key);
        let place = if tree.get(&own).is_some() { own } else { Path::key("tcp").at(key) };
        match size.bytes(flow.segment) {
            0 => {
                return Err(tree.wrong(
                    &place,
                    format!("a window must be above 0, found \"{}\"", size.text()),
                ));
            }
            n if n > MAX_WINDOW => {
                return Err(tree.wrong(
                    &place,
                    format!("a window has at most 1 GiB (RFC 7323), found \"{}\"", size.text()),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The default receive window of a profile.
pub fn default_window(profile: ProfileName) -> Size {
    match profile {
        // Linux since 6.16: 5/8 of `tcp_rmem[2]` = 32 MiB, as its receiver counts memory.
        ProfileName::Linux => Size::Bytes(20 << 20),
        ProfileName::Rfc => Size::Bytes(4 << 20),
        _ => Size::Segments(20.0),
    }
}

/// A scheme as a table with every setting.
pub fn scheme_text(choice: &SchemeChoice) -> SchemeText {
    let mut table = Map::new();
    table.insert("name".into(), Value::String(choice.scheme.name().to_string()));
    table.extend(choice.scheme.settings().into_iter().filter(|(_, value)| !value.is_null()));
    table.insert("label".into(), Value::String(choice.label.clone()));
    SchemeText::Table(table)
}
