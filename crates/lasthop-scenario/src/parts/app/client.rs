//! Clients that request data from the sender of their flow: request and response, adaptive video.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sizes::{SizesForm, SizesSpec, check_sizes, sizes};
use crate::network::App;
use crate::text::errors::ScenarioError;
use crate::text::files::Traces;
use crate::text::shorthand::form;
use crate::text::tree::{Path, Tree};
use lasthop_core::traffic::{Adaptation, Video};
use lasthop_core::units::{Duration, Rate, Size};

/// Largest number of bitrates of a video.
const MAX_LADDER: usize = 64;
/// Largest payload of a request: one packet.
const MAX_REQUEST: u64 = 1400;

/// A client that requests one response after another over one connection.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct RequestsSpec {
    /// Sizes of the responses, as for "poisson".
    #[serde(deserialize_with = "form")]
    #[schemars(with = "SizesForm")]
    pub response: SizesSpec,
    /// Mean time (exponential) from the end of a response to the next request. Default: 0 s,
    /// none.
    #[serde(default)]
    pub think: Duration,
    /// Payload of a request. Default: 400 B.
    #[serde(default = "request")]
    pub request: Size,
}

/// Adaptive video: a client that requests one chunk after another over one connection.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct VideoSpec {
    /// The bitrates, ascending. Default: 300, 750, 1200, 1850, 2850 and 4300 kbit/s.
    #[serde(default = "ladder")]
    pub ladder: Vec<Rate>,
    /// Play time of a chunk. Default: 4 s.
    #[serde(default = "chunk")]
    pub chunk: Duration,
    /// Largest play time in the player's buffer. Default: 60 s.
    #[serde(default = "buffer")]
    pub buffer: Duration,
    /// Play time in the buffer with which the playback starts, and continues after a stall.
    /// Default: one chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<Duration>,
    /// How the player chooses the bitrate of a chunk. Default: "buffer".
    #[serde(default)]
    pub adaptation: AdaptationSpec,
    /// Play time in the buffer up to which the lowest bitrate is requested. Default: 5 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservoir: Option<Duration>,
    /// Play time above the reservoir at which the highest bitrate is requested. Default: 10 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cushion: Option<Duration>,
    /// Payload of a request. Default: 400 B.
    #[serde(default = "request")]
    pub request: Size,
}

/// How a player chooses the bitrate of the next chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AdaptationSpec {
    /// By the play time in the buffer (BBA-0 of Huang et al. 2014).
    #[default]
    Buffer,
    /// By the throughput of the last five chunks (harmonic mean).
    Rate,
}

/// The bitrates of the videos in Mao et al., "Neural Adaptive Video Streaming with Pensieve",
/// SIGCOMM 2017, section 5.1.
fn ladder() -> Vec<Rate> {
    [300, 750, 1200, 1850, 2850, 4300].map(|kbps| Rate(1000 * kbps)).to_vec()
}

/// Play time of a chunk and of the largest buffer, ibid.
fn chunk() -> Duration {
    Duration::secs(4)
}

/// See [`chunk`].
fn buffer() -> Duration {
    Duration::secs(60)
}

/// Reservoir and cushion of the buffer-based baseline, ibid.
const RESERVOIR: Duration = Duration::secs(5);
const CUSHION: Duration = Duration::secs(10);

/// Payload of a request, with its headers of HTTP.
fn request() -> Size {
    Size::Bytes(400)
}

/// Checks the values of a client that requests responses; `at` is the place of its table.
pub fn check_requests(
    spec: &RequestsSpec,
    at: &Path,
    tree: &Tree<'_>,
) -> Result<(), ScenarioError> {
    check_request(spec.request, at, tree)?;
    check_sizes(&spec.response, &at.at("response"), tree)
}

fn check_request(request: Size, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    match request {
        Size::Bytes(1..=MAX_REQUEST) => Ok(()),
        _ => Err(tree.wrong(
            &at.at("request"),
            format!("a request is one packet: expected 1 B to {MAX_REQUEST} B"),
        )),
    }
}

/// Checks the values of a client that plays a video; `at` is the place of its table.
pub fn check_video(spec: &VideoSpec, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let VideoSpec { ladder, chunk, buffer, startup, adaptation, reservoir, cushion, request } =
        spec;
    check_request(*request, at, tree)?;
    let wrong = |key: &str, message: String| Err(tree.wrong(&at.at(key), message));
    let is_ladder = ladder.first().is_some_and(|r| *r > Rate(0))
        && ladder.len() <= MAX_LADDER
        && ladder.windows(2).all(|pair| pair[0] < pair[1]);
    if !is_ladder {
        return wrong("ladder", format!("expected 1 to {MAX_LADDER} rates above 0 that ascend"));
    }
    if *chunk == Duration::ZERO {
        return wrong("chunk", "must be above 0 s".into());
    }
    if buffer < chunk {
        return wrong("buffer", format!("must hold a chunk, {chunk}"));
    }
    if startup.is_some_and(|s| s > *buffer) {
        return wrong("startup", format!("must not be above the buffer, {buffer}"));
    }
    if *adaptation == AdaptationSpec::Rate {
        for (key, value) in [("reservoir", reservoir), ("cushion", cushion)] {
            if value.is_some() {
                let message = "belongs to adaptation = \"buffer\"";
                return Err(tree.conflict(&at.at(key), message));
            }
        }
        return Ok(());
    }
    if *cushion == Some(Duration::ZERO) {
        return wrong("cushion", "must be above 0 s".into());
    }
    let full = reservoir.unwrap_or(RESERVOIR) + cushion.unwrap_or(CUSHION);
    if full + *chunk > *buffer {
        return wrong(
            "buffer",
            format!(
                "must hold reservoir, cushion and a chunk, together {}; otherwise the highest \
                 bitrate is never requested",
                full + *chunk
            ),
        );
    }
    Ok(())
}

/// The traffic model of a client; `segment`: payload of a full segment, bytes; `at` is the place of
/// the `[[flow]]`.
pub fn requests(
    spec: &RequestsSpec,
    segment: u32,
    at: &Path,
    tree: &Tree<'_>,
    traces: &Traces<'_>,
) -> Result<App, ScenarioError> {
    let at = at.at("app").at("response");
    Ok(App::Requests {
        request: spec.request.bytes(segment) as u32,
        sizes: sizes(&spec.response, segment, &at, tree, traces)?,
        mean_think: spec.think,
    })
}

/// The traffic model of a video.
pub fn video(spec: &VideoSpec, segment: u32) -> App {
    App::Video {
        request: spec.request.bytes(segment) as u32,
        video: Video {
            ladder: spec.ladder.clone(),
            chunk: spec.chunk,
            buffer: spec.buffer,
            startup: spec.startup.unwrap_or(spec.chunk),
            adaptation: match spec.adaptation {
                AdaptationSpec::Buffer => Adaptation::Buffer {
                    reservoir: spec.reservoir.unwrap_or(RESERVOIR),
                    cushion: spec.cushion.unwrap_or(CUSHION),
                },
                AdaptationSpec::Rate => Adaptation::Rate,
            },
        },
    }
}
