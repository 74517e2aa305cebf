//! Values with two forms: a short text ("1 %", "170 ms", "49 packets") and a table.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::apps::AppSpec;
use crate::file::ReceiveWindow;
use lasthop_channel::air::config::{
    DelayConfig, LossConfig, RandomStart, RateConfig, RateStep, TraceStart,
};
use lasthop_channel::air::loss::Trace as LossTrace;
use lasthop_core::diagnostics::Mistake;
use lasthop_core::units::{Duration, Quantity, Rate, Share, Size};

/// A value with a short form and a table form.
pub(crate) trait Form: Sized {
    /// The table form.
    type Table: DeserializeOwned;
    /// The accepted forms, for messages.
    const EXPECTED: &'static str;
    /// Reads the short form.
    ///
    /// # Errors
    ///
    /// The text is not in this form.
    fn short(text: &str) -> Result<Self, Mistake>;
    /// Reads a bare number, where one is allowed.
    ///
    /// # Errors
    ///
    /// The type has no form without a unit.
    fn number(n: f64) -> Result<Self, Mistake> {
        Err(not_in_form::<Self>(format!("the number {n}")))
    }
    /// Converts the table form.
    ///
    /// # Errors
    ///
    /// Keys are missing, or exclude each other.
    fn table(table: Self::Table) -> Result<Self, Mistake>;
}

fn not_in_form<T: Form>(found: String) -> Mistake {
    Mistake::WrongType { expected: T::EXPECTED.into(), found }
}

/// The mistake as an error of serde, which the reader of the tree turns back into the mistake.
pub fn passed<E: Error>(mistake: Mistake) -> E {
    E::custom(mistake.to_serde())
}

struct FormVisitor<T>(PhantomData<T>);

impl<'de, T: Form> Visitor<'de> for FormVisitor<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }
    fn visit_str<E: Error>(self, s: &str) -> Result<T, E> {
        T::short(s).map_err(passed)
    }
    fn visit_f64<E: Error>(self, n: f64) -> Result<T, E> {
        T::number(n).map_err(passed)
    }
    fn visit_i64<E: Error>(self, n: i64) -> Result<T, E> {
        self.visit_f64(n as f64)
    }
    fn visit_u64<E: Error>(self, n: u64) -> Result<T, E> {
        self.visit_f64(n as f64)
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::table(T::Table::deserialize(MapAccessDeserializer::new(map))?).map_err(passed)
    }
}

/// Reads a value in either form.
pub fn form<'de, T: Form, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
    d.deserialize_any(FormVisitor(PhantomData))
}

/// As `form`, for a key that may be absent (with `#[serde(default)]`).
pub fn some_form<'de, T: Form, D: Deserializer<'de>>(d: D) -> Result<Option<T>, D::Error> {
    form(d).map(Some)
}

impl Form for LossConfig {
    type Table = LossConfig;
    const EXPECTED: &'static str = "a loss such as \"1 %\", { model = \"uniform\", rate = \"1 %\" \
                                    } or { trace = \"FILE\" }";
    fn short(text: &str) -> Result<Self, Mistake> {
        Ok(LossConfig::short(text)?)
    }
    fn number(n: f64) -> Result<Self, Mistake> {
        Ok(LossConfig::uniform(Share::from_number(n)?))
    }
    fn table(table: LossConfig) -> Result<Self, Mistake> {
        Ok(table)
    }
}

impl Form for DelayConfig {
    type Table = DelayConfig;
    const EXPECTED: &'static str =
        "a delay such as \"170 ms\" or { base = \"170 ms\", table = \"zeng2006\" }";
    fn short(text: &str) -> Result<Self, Mistake> {
        Ok(DelayConfig::constant(Duration::parse(text)?))
    }
    fn number(n: f64) -> Result<Self, Mistake> {
        Ok(DelayConfig::constant(Duration::from_number(n)?))
    }
    fn table(table: DelayConfig) -> Result<Self, Mistake> {
        Ok(table)
    }
}

/// The table forms of a rate.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateTable {
    schedule: Option<Vec<RateStep>>,
    trace: Option<PathBuf>,
    #[serde(default, deserialize_with = "some_form")]
    start: Option<TraceStart>,
}

impl Form for RateConfig {
    type Table = RateTable;
    const EXPECTED: &'static str = "a rate such as \"250 kbps\", { schedule = [{ at = \"0 s\", \
                                    rate = \"2 Mbps\" }] } or { trace = \"FILE\" }";
    fn short(text: &str) -> Result<Self, Mistake> {
        Ok(RateConfig::Constant(Rate::parse(text)?))
    }
    fn number(n: f64) -> Result<Self, Mistake> {
        Ok(RateConfig::Constant(Rate::from_number(n)?))
    }
    fn table(table: RateTable) -> Result<Self, Mistake> {
        match table {
            RateTable { schedule: Some(schedule), trace: None, start: None } => {
                Ok(RateConfig::Schedule { schedule })
            }
            RateTable { schedule: None, trace: Some(trace), start } => {
                Ok(RateConfig::Trace { trace, start: start.unwrap_or_default() })
            }
            RateTable { schedule: Some(_), .. } => Err("`schedule` does not go with `trace` or \
                                                        `start`: a rate is one or the other"
                .into()),
            RateTable { trace: None, .. } => {
                Err(Mistake::Other(format!("expected {}", Self::EXPECTED)))
            }
        }
    }
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

/// For values without a table form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoTable {}

impl Form for TraceStart {
    type Table = NoTable;
    const EXPECTED: &'static str = "a time such as \"10 s\" or \"random\"";
    fn short(text: &str) -> Result<Self, Mistake> {
        if text.trim() == "random" {
            return Ok(TraceStart::Named(RandomStart::Random));
        }
        Duration::parse(text)
            .map(TraceStart::At)
            .map_err(|e| format!("{e}; \"random\" is allowed too").into())
    }
    fn table(_: NoTable) -> Result<Self, Mistake> {
        Err(Mistake::Other(format!("expected {}", Self::EXPECTED)))
    }
}

impl Form for AppSpec {
    type Table = AppSpec;
    const EXPECTED: &'static str = "\"bulk\", \"call\", \"ping\", \"video\" or a table such as \
                                    { kind = \"transfer\", size = \"150 kB\" } (kinds: bulk, \
                                    transfer, poisson, web, session, requests, video, on-off, \
                                    cbr, call, ping, pareto, pareto-on-off)";
    fn short(text: &str) -> Result<Self, Mistake> {
        // These kinds have no key without a default.
        match text.trim() {
            kind @ ("bulk" | "call" | "ping" | "video") => {
                let table = serde_json::json!({ "kind": kind });
                serde_json::from_value(table).map_err(|e| Mistake::Other(e.to_string()))
            }
            _ => Err(not_in_form::<Self>(format!("\"{text}\""))),
        }
    }
    fn table(table: AppSpec) -> Result<Self, Mistake> {
        Ok(table)
    }
}

macro_rules! schema_forms {
    ($($(#[$doc:meta])* $name:ident = $table:ty;)*) => {$(
        $(#[$doc])*
        #[derive(JsonSchema)]
        #[serde(untagged)]
        #[allow(dead_code, clippy::large_enum_variant, reason = "the schema is derived from it")]
        pub enum $name {
            /// Short form.
            Short(String),
            /// Table form.
            Table($table),
        }
    )*};
}

/// Loss on the air: a share ("1 %", uniform), "none", or a table.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "the schema is derived from it")]
pub enum LossForm {
    /// Short form.
    Short(String),
    /// Table form.
    Table(LossConfig),
    /// A loss trace without the word `model`.
    Trace(LossTrace),
}

schema_forms! {
    /// One-way delay: a time ("170 ms") or a table.
    DelayForm = DelayConfig;
    /// Application: "bulk" or a table.
    AppForm = AppSpec;
    /// The receiver's buffer: a size ("20 segments") or a table.
    ReceiveWindowForm = ReceiveWindowTable;
}
