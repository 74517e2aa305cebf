//! Link-layer retransmission on a point-to-point link (yun2009, section 3.1; RLP and the like).
//!
//! A frame that is lost on the air is retransmitted until it is received or its attempts are used
//! up; then the link discards it. The feedback of the far end takes no air time and is never lost:
//! `delay` is the time between the end of a failed attempt and the next one. An attempt is a frame
//! on the air like any other: it takes air time and has its own draw (by the slot in which it
//! starts, or by its ordinal on the air).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::service::Service;
use crate::queue::Frame;
use lasthop_core::agent::LinkEvent;
use lasthop_core::framing::{Progress, Step};
use lasthop_core::ring::Ring;
use lasthop_core::segment::Handle;
use lasthop_core::units::{Duration, Time};

/// Settings of link-layer retransmission.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArqConfig {
    /// What other frames do while one waits for its retransmission.
    pub kind: ArqKind,
    /// Maximum number of attempts per frame, the first one included; 1: no retransmission.
    #[serde(default = "three")]
    #[schemars(range(min = 1))]
    pub attempts: u32,
    /// Time from the end of a failed attempt to the next one.
    #[serde(default)]
    pub delay: Duration,
    /// The far end delivers frames in the order in which they were first sent: a missing frame
    /// delays those behind it until it arrives or is discarded.
    #[serde(default = "yes")]
    pub in_order: bool,
    /// Fragments of a frame, each of them sent up to `attempts` times. The frame is discarded with
    /// the first fragment that has used up its attempts (yun2009, section 3.1). Only with stop and
    /// wait.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub fragments: u32,
}

/// Kinds of link-layer retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArqKind {
    /// The link serves one frame until it is received or discarded; the others wait.
    StopAndWait,
    /// Other frames are sent meanwhile; a retransmission that is due precedes frames that wait for
    /// their first attempt.
    SelectiveRepeat,
}

fn three() -> u32 {
    3
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

impl ArqConfig {
    /// No retransmission: one attempt.
    pub const ONCE: ArqConfig = ArqConfig {
        kind: ArqKind::StopAndWait,
        attempts: 1,
        delay: Duration::ZERO,
        in_order: false,
        fragments: 1,
    };

    /// True if the far end has to restore the order.
    pub(super) fn sorts(&self, delay_may_reorder: bool) -> bool {
        self.in_order
            && (delay_may_reorder || (self.kind == ArqKind::SelectiveRepeat && self.attempts > 1))
    }
}

/// A frame during one of its attempts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempt {
    pub frame: Frame,
    pub progress: Progress,
    /// Ordinal of the frame on the link, by which the far end restores the order.
    pub tag: u32,
    pub lost: bool,
    /// What the far end has received when the link discards the frame after this attempt, and when.
    pub damaged_frames: Option<(Time, LinkEvent)>,
}

/// A frame that waits for its retransmission.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retry {
    pub attempt: Attempt,
    pub due: Time,
    pub failed: Time,
}

/// Result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The frame.
    pub handle: Handle,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// True if the attempt failed.
    pub lost: bool,
    /// What the link does with the frame next.
    pub step: Step,
    /// Of a discarded frame: what the far end has received of it, and when. `None` if that is
    /// nothing, or no agent subscribes to it.
    pub damaged_frames: Option<(Time, LinkEvent)>,
}

/// The sending side of a link that counts attempts.
pub(super) struct Arq {
    pub attempts: u32,
    pub fragments: u32,
    pub delay: Duration,
    pub holds: bool,
    pub sorts: bool,
    pub on_air: Option<Attempt>,
    /// The retransmission that `depart` has chosen.
    pub chosen: Option<Attempt>,
    /// In the order in which they are due.
    pub waiting: Ring<Retry>,
    pub tags: u32,
}

impl Arq {
    pub(super) fn new(config: &ArqConfig, delay_may_reorder: bool) -> Arq {
        Arq {
            attempts: config.attempts.max(1),
            fragments: config.fragments,
            delay: config.delay,
            holds: config.kind == ArqKind::StopAndWait,
            sorts: config.sorts(delay_may_reorder),
            on_air: None,
            chosen: None,
            waiting: Ring::default(),
            tags: 0,
        }
    }

    /// The link's service of a frame, if it completes before the next frame starts.
    pub(super) fn service(&self) -> Option<Service> {
        (self.holds && !self.sorts).then(|| Service::new(self.attempts, self.fragments, self.delay))
    }

    /// True if a frame that waits for its next attempt delays the others.
    pub(super) fn holds_link(&self) -> bool {
        self.holds && !self.waiting.is_empty()
    }

    /// The retransmission that is due at `now`, if there is one.
    pub(super) fn retry(&mut self, now: Time) -> Option<Frame> {
        self.waiting.front().filter(|r| r.due <= now)?;
        self.chosen = self.waiting.pop().map(|r| r.attempt);
        self.chosen.map(|a| a.frame)
    }

    /// Time of the next action and its trigger time; `on_air` are the end and the start of the
    /// current transmission.
    pub(super) fn departure(&self, on_air: (Time, Time)) -> (Time, Time) {
        match (&self.on_air, self.waiting.front()) {
            (Some(_), _) => on_air,
            (None, Some(retry)) => (retry.due, retry.failed),
            (None, None) => (Time::NEVER, Time::ZERO),
        }
    }
}
