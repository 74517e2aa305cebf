//! Clients that request data from the sender of their flow: request and response, adaptive video.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::apps::AppSpec;
use crate::arrivals;
use crate::defaults::Traces;
use crate::errors::ScenarioError;
use crate::network::App;
use crate::tree::{Path, Tree};
use lasthop_core::traffic::{Adaptation, Video};
use lasthop_core::units::{Duration, Rate, Size};

/// Largest number of bitrates of a video.
const MAX_LADDER: usize = 64;
/// Largest payload of a request: one packet.
const MAX_REQUEST: u64 = 1400;

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
pub(crate) fn ladder() -> Vec<Rate> {
    [300, 750, 1200, 1850, 2850, 4300].map(|kbps| Rate(1000 * kbps)).to_vec()
}

/// Play time of a chunk and of the largest buffer, ibid.
pub(crate) fn chunk() -> Duration {
    Duration::secs(4)
}

/// See [`chunk`].
pub(crate) fn buffer() -> Duration {
    Duration::secs(60)
}

/// Reservoir and cushion of the buffer-based baseline, ibid.
const RESERVOIR: Duration = Duration::secs(5);
const CUSHION: Duration = Duration::secs(10);

/// Payload of a request, with its headers of HTTP.
pub(crate) fn request() -> Size {
    Size::Bytes(400)
}

/// Checks the values of a client; `at` is the place of its table.
pub fn check(app: &AppSpec, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    match app {
        AppSpec::Requests { request, response, .. } => {
            check_request(*request, at, tree)?;
            arrivals::check_sizes(response, &at.at("response"), tree)
        }
        AppSpec::Video { request, .. } => {
            check_request(*request, at, tree)?;
            check_video(app, at, tree)
        }
        _ => Ok(()),
    }
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

fn check_video(app: &AppSpec, at: &Path, tree: &Tree<'_>) -> Result<(), ScenarioError> {
    let AppSpec::Video { ladder, chunk, buffer, startup, adaptation, reservoir, cushion, .. } = app
    else {
        return Ok(());
    };
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

/// The traffic model of a client; `None` for other applications. `segment`: payload of a full
/// segment, bytes; `at` is the place of the `[[flow]]`.
pub fn resolve(
    spec: &AppSpec,
    segment: u32,
    at: &Path,
    tree: &Tree<'_>,
    traces: &Traces<'_>,
) -> Result<Option<App>, ScenarioError> {
    let at = at.at("app");
    let bytes = |size: Size| size.bytes(segment) as u32;
    Ok(match spec {
        AppSpec::Requests { request, response, think } => Some(App::Requests {
            request: bytes(*request),
            sizes: arrivals::sizes(response, segment, &at.at("response"), tree, traces)?,
            mean_think: *think,
        }),
        AppSpec::Video {
            ladder,
            chunk,
            buffer,
            startup,
            adaptation,
            reservoir,
            cushion,
            request,
        } => Some(App::Video {
            request: bytes(*request),
            video: Video {
                ladder: ladder.clone(),
                chunk: *chunk,
                buffer: *buffer,
                startup: startup.unwrap_or(*chunk),
                adaptation: match adaptation {
                    AdaptationSpec::Buffer => Adaptation::Buffer {
                        reservoir: reservoir.unwrap_or(RESERVOIR),
                        cushion: cushion.unwrap_or(CUSHION),
                    },
                    AdaptationSpec::Rate => Adaptation::Rate,
                },
            },
        }),
        _ => None,
    })
}
