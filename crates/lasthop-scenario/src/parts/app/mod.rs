//! Applications of flows in a scenario file: their keys, their checks, and the traffic models that
//! they select.

pub mod client;
pub mod poisson;
pub mod session;
pub mod sizes;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::errors::ScenarioError;
use crate::text::shorthand::{Form, not_in_form, schema_forms};
use crate::text::tree::{Path, Tree};
use client::{RequestsSpec, VideoSpec};
use lasthop_core::diagnostics::Mistake;
use lasthop_core::traffic::{App, Sizes};
use lasthop_core::units::{Duration, Rate, Size};
use poisson::PoissonSpec;
use session::SessionSpec;

/// An application: when it writes how much.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AppSpec {
    /// Always has data to send.
    Bulk {},
    /// A given amount of payload; the connection then ends.
    Transfer {
        /// Payload: bytes or segments.
        size: Size,
    },
    /// Transfers that arrive as a Poisson process, each over its own connection; drawn per seed.
    Poisson(PoissonSpec),
    /// A sequence of pages with pauses between them.
    Web {
        /// Mean size of a page.
        mean_size: Size,
        /// Pareto shape of the sizes, above 1.
        #[serde(default = "pareto_shape")]
        shape: f64,
        /// Mean pause (exponential) between the end of one page and the click for the next.
        mean_pause: Duration,
    },
    /// A user who clicks; each click requests a page.
    Session(SessionSpec),
    /// A client that requests one response after another over one connection.
    Requests(RequestsSpec),
    /// Adaptive video: a client that requests one chunk after another over one connection.
    Video(VideoSpec),
    /// Alternates between writing and pauses; both are exponential.
    OnOff {
        /// Mean length of a burst.
        mean_on: Duration,
        /// Mean length of a pause.
        mean_off: Duration,
        /// Rate of writing in a burst, segment by segment; data that TCP has not sent when the
        /// burst ends is sent later. Default: unlimited, and data that TCP has not sent when the
        /// burst ends is withdrawn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<Rate>,
    },
    /// Datagrams at a constant rate; not TCP.
    Cbr {
        /// Rate of the payload.
        rate: Rate,
    },
    /// A call: datagrams (of `segment`, default 160 B) at a constant interval. Those that take
    /// longer than `deadline` are late.
    Call {
        /// Time between two datagrams. Default: 20 ms.
        #[serde(default = "packet_interval")]
        every: Duration,
        /// Time from sending to playing. Default: 150 ms.
        #[serde(default = "deadline")]
        deadline: Duration,
    },
    /// Datagrams (of `segment`, default 60 B) that the receiver answers; measures the round-trip
    /// time.
    Ping {
        /// Time between two datagrams. Default: 100 ms.
        #[serde(default = "ping_interval")]
        every: Duration,
    },
    /// Datagrams in bursts; bursts and pauses have Pareto lengths.
    ParetoOnOff {
        /// Rate of the payload within a burst.
        rate: Rate,
        /// Mean length of a burst.
        mean_on: Duration,
        /// Mean length of a pause.
        mean_off: Duration,
        /// Pareto shape of both, above 1.
        #[serde(default = "pareto_shape")]
        shape: f64,
    },
    /// Datagrams with Pareto spacings.
    Pareto {
        /// Mean rate of the payload.
        rate: Rate,
        /// Pareto shape of the spacings, above 1.
        #[serde(default = "pareto_shape")]
        shape: f64,
    },
}

/// G.711 in packets of 20 ms (RFC 3551).
fn packet_interval() -> Duration {
    Duration::millis(20)
}

/// One-way delay that most applications bear without loss of quality (ITU-T G.114).
fn deadline() -> Duration {
    Duration::millis(150)
}

fn ping_interval() -> Duration {
    Duration::millis(100)
}

fn pareto_shape() -> f64 {
    1.5
}

impl Default for AppSpec {
    fn default() -> Self {
        AppSpec::Bulk {}
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

schema_forms! {
    /// Application: "bulk" or a table.
    AppForm = AppSpec;
}

impl AppSpec {
    /// True if the application sends datagrams and not over TCP.
    pub fn is_datagrams(&self) -> bool {
        matches!(
            self,
            AppSpec::Cbr { .. }
                | AppSpec::Call { .. }
                | AppSpec::Ping { .. }
                | AppSpec::Pareto { .. }
                | AppSpec::ParetoOnOff { .. }
        )
    }

    /// Number of its flows.
    pub fn flows(&self) -> u64 {
        match self {
            AppSpec::Session(spec) => spec.pages.iter().map(|p| p.objects().len() as u64).sum(),
            _ => 1,
        }
    }

    /// Payload of the requests of a client, each of which is one packet.
    pub fn request(&self) -> Option<Size> {
        match self {
            AppSpec::Requests(spec) => Some(spec.request),
            AppSpec::Video(spec) => Some(spec.request),
            _ => None,
        }
    }

    /// Default payload of a datagram; `None`: as for a segment.
    pub fn default_payload(&self) -> Option<Size> {
        match self {
            AppSpec::Call { .. } => Some(Size::Bytes(160)),
            AppSpec::Ping { .. } => Some(Size::Bytes(60)),
            _ => None,
        }
    }
}

/// Checks the values of an application; `at` is the place of its table.
pub fn check(app: &AppSpec, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let positive = |size: Size, key: &str| match size {
        Size::Bytes(0) => Err(tree.wrong(&at.at(key), "must be above 0")),
        Size::Segments(n) if n <= 0.0 => Err(tree.wrong(&at.at(key), "must be above 0")),
        _ => Ok(()),
    };
    match app {
        AppSpec::Bulk {} => {}
        AppSpec::Transfer { size } => positive(*size, "size")?,
        AppSpec::Session(spec) => session::check(spec, at, tree)?,
        AppSpec::Poisson(spec) => poisson::check(spec, at, tree)?,
        AppSpec::Web { mean_size, .. } => positive(*mean_size, "mean_size")?,
        AppSpec::Requests(spec) => client::check_requests(spec, at, tree)?,
        AppSpec::Video(spec) => client::check_video(spec, at, tree)?,
        AppSpec::OnOff { mean_on, .. } if *mean_on == Duration::ZERO => {
            return Err(tree.wrong(&at.at("mean_on"), "must be above 0 s"));
        }
        AppSpec::Call { every, deadline } => {
            for (key, time) in [("every", every), ("deadline", deadline)] {
                if *time == Duration::ZERO {
                    return Err(tree.wrong(&at.at(key), "must be above 0 s"));
                }
            }
        }
        AppSpec::Ping { every: Duration::ZERO } => {
            return Err(tree.wrong(&at.at("every"), "must be above 0 s"));
        }
        AppSpec::Ping { .. } => {}
        AppSpec::OnOff { rate: Some(Rate(0)), .. } => {
            return Err(tree.wrong(&at.at("rate"), "must be above 0"));
        }
        AppSpec::OnOff { .. } => {}
        AppSpec::ParetoOnOff { mean_on, .. } if *mean_on == Duration::ZERO => {
            return Err(tree.wrong(&at.at("mean_on"), "must be above 0 s"));
        }
        AppSpec::Cbr { rate }
        | AppSpec::Pareto { rate, .. }
        | AppSpec::ParetoOnOff { rate, .. }
            if *rate == Rate(0) =>
        {
            return Err(tree.wrong(&at.at("rate"), "must be above 0"));
        }
        AppSpec::Cbr { .. } | AppSpec::Pareto { .. } | AppSpec::ParetoOnOff { .. } => {}
    }
    if let AppSpec::Web { shape, .. }
    | AppSpec::Pareto { shape, .. }
    | AppSpec::ParetoOnOff { shape, .. } = *app
        && !(shape.is_finite() && shape > 1.0)
    {
        return Err(tree.wrong(
            &at.at("shape"),
            format!("the shape must be above 1, else there is no mean; found {shape}"),
        ));
    }
    Ok(())
}

/// The traffic model of an application; `segment`: payload of a full segment, bytes.
pub fn resolve(spec: &AppSpec, segment: u32) -> App {
    match *spec {
        AppSpec::Bulk {} => App::Bulk,
        AppSpec::Transfer { size } => App::Transfer { size: size.bytes(segment).max(1) },
        // `poisson` sets the time between arrivals, which may depend on the path.
        AppSpec::Poisson(_) => App::Poisson { sizes: Sizes::Constant(1), mean_gap: Duration::ZERO },
        // `client` sets what is requested.
        AppSpec::Requests(_) | AppSpec::Video(_) => App::Bulk,
        // `session` sets the sizes of the objects.
        AppSpec::Session(_) => App::Transfer { size: 1 },
        AppSpec::Web { mean_size, shape, mean_pause } => {
            App::Web { mean_size: mean_size.bytes(segment).max(1), shape, mean_pause }
        }
        AppSpec::OnOff { mean_on, mean_off, rate } => App::OnOff { mean_on, mean_off, rate },
        AppSpec::Cbr { rate } => App::Cbr { rate },
        AppSpec::Call { every, deadline } => {
            App::Call { interval: every, payload: segment, deadline }
        }
        AppSpec::Ping { every } => App::Ping { interval: every, payload: segment },
        AppSpec::ParetoOnOff { rate, mean_on, mean_off, shape } => {
            App::ParetoOnOff { rate, mean_on, mean_off, shape }
        }
        AppSpec::Pareto { rate, shape } => App::Pareto { rate, shape },
    }
}
