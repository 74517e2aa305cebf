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
use lasthop_core::traffic::{self, App, Application, Sizes};
use lasthop_core::units::{Duration, Size};
use lasthop_core::with_hyphens;
use poisson::PoissonSpec;
use session::SessionSpec;

/// From the list of kinds whose keys are settings of `lasthop_core::traffic`: the type of a file's
/// application. It has the others by name, because they need more than their keys.
macro_rules! app_spec {
    ($($module:ident),*) => { pastey::paste! {
        /// An application: when it writes how much.
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
        #[allow(missing_docs, reason = "the settings document the variants")]
        pub enum AppSpec {
            /// Always has data to send.
            Bulk {},
            /// A given amount of payload; the connection then ends.
            Transfer {
                /// Payload: bytes or segments.
                size: Size,
            },
            Poisson(PoissonSpec),
            Session(SessionSpec),
            Requests(RequestsSpec),
            Video(VideoSpec),
            $([<$module:camel>](traffic::[<$module:camel>]),)*
        }

        /// The forms of an application, for messages.
        const EXPECTED: &str = with_hyphens!(concat!(
            "\"bulk\", \"call\", \"ping\", \"video\" or a table such as ",
            "{ kind = \"transfer\", size = \"150 kB\" } (kinds: bulk, transfer, poisson, session, ",
            "requests, video", $(", ", stringify!($module),)* ")"
        ));

        impl AppSpec {
            /// True if the application sends datagrams and not over TCP.
            pub fn is_datagrams(&self) -> bool {
                match self {
                    $(AppSpec::[<$module:camel>](_) => {
                        <traffic::[<$module:camel>] as Application>::IS_DATAGRAMS
                    })*
                    _ => false,
                }
            }

            /// Default payload of a datagram; `None`: as for a segment.
            pub fn default_payload(&self) -> Option<Size> {
                match self {
                    $(AppSpec::[<$module:camel>](_) => {
                        <traffic::[<$module:camel>] as Application>::PAYLOAD
                    })*
                    _ => None,
                }
            }
        }

        /// Checks the values of an application; `at` is the place of its table.
        pub fn check(app: &AppSpec, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
            match app {
                AppSpec::Bulk {} => Ok(()),
                AppSpec::Transfer { size } if size.is_zero() => {
                    Err(tree.wrong(&at.at("size"), "must be above 0"))
                }
                AppSpec::Transfer { .. } => Ok(()),
                AppSpec::Session(spec) => session::check(spec, at, tree),
                AppSpec::Poisson(spec) => poisson::check(spec, at, tree),
                AppSpec::Requests(spec) => client::check_requests(spec, at, tree),
                AppSpec::Video(spec) => client::check_video(spec, at, tree),
                $(AppSpec::[<$module:camel>](settings) => {
                    settings.check().map_err(|(key, message)| tree.wrong(&at.at(key), message))
                })*
            }
        }

        /// The traffic model of an application; `segment`: payload of a full segment, bytes.
        pub fn resolve(spec: &AppSpec, segment: u32) -> App {
            match spec {
                AppSpec::Bulk {} => App::Bulk,
                AppSpec::Transfer { size } => App::Transfer { size: size.bytes(segment).max(1) },
                // `poisson` sets the time between arrivals, which may depend on the path.
                AppSpec::Poisson(_) => {
                    App::Poisson { sizes: Sizes::Constant(1), mean_gap: Duration::ZERO }
                }
                // `client` sets what is requested.
                AppSpec::Requests(_) | AppSpec::Video(_) => App::Bulk,
                // `session` sets the sizes of the objects.
                AppSpec::Session(_) => App::Transfer { size: 1 },
                $(AppSpec::[<$module:camel>](settings) => settings.clone().into(),)*
            }
        }
    } };
}

lasthop_core::applications!(app_spec);

impl Default for AppSpec {
    fn default() -> Self {
        AppSpec::Bulk {}
    }
}

impl Form for AppSpec {
    type Table = AppSpec;
    const EXPECTED: &'static str = EXPECTED;
    fn short(text: &str) -> Result<Self, Mistake> {
        // Kinds that have no key without a default.
        serde_json::from_value(serde_json::json!({ "kind": text.trim() }))
            .map_err(|_| not_in_form::<Self>(format!("\"{text}\"")))
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
}
