//! Link-layer retransmission on a point-to-point link (yun2009, section 3.1; RLP and the like).
//!
//! A frame that is lost on the air is retransmitted until it is received or its attempts are used
//! up; then the link discards it. The feedback of the far end takes no air time and is never lost:
//! `delay` is the time between the end of a failed attempt and the next one. An attempt is a frame
//! on the air like any other: it takes air time and has its own draw (by the slot in which it
//! starts, or by its ordinal on the air).

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Link;
use super::flight::InFlight;
use super::service::Service;
use crate::queue::Frame;
use lasthop_core::agent::LinkEvent;
use lasthop_core::framing::{AnyFraming, Cut, Progress, Step};
use lasthop_core::ring::Ring;
use lasthop_core::segment::{Handle, Segment};
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
struct Attempt {
    frame: Frame,
    progress: Progress,
    /// Ordinal of the frame on the link, by which the far end restores the order.
    tag: u32,
    lost: bool,
    /// What the far end has received when the link discards the frame after this attempt, and when.
    damaged_frames: Option<(Time, LinkEvent)>,
}

/// A frame that waits for its retransmission.
#[derive(Clone, Copy, Debug, Default)]
struct Retry {
    attempt: Attempt,
    due: Time,
    failed: Time,
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
    attempts: u32,
    fragments: u32,
    delay: Duration,
    holds: bool,
    sorts: bool,
    on_air: Option<Attempt>,
    /// The retransmission that `depart` has chosen.
    chosen: Option<Attempt>,
    /// In the order in which they are due.
    waiting: Ring<Retry>,
    tags: u32,
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

impl Link {
    /// True if the link counts attempts, because it retransmits or because an agent subscribes to
    /// them.
    pub fn has_attempts(&self) -> bool {
        self.evented.as_ref().is_some_and(|e| e.arq().is_some())
    }

    /// True if it retransmits frames or fragments.
    pub fn retransmits(&self) -> bool {
        self.cuts
            || self
                .evented
                .as_ref()
                .and_then(|e| e.arq())
                .is_some_and(|a| a.attempts > 1 || a.fragments > 1)
    }

    /// Number of the slot in which the frame that `enqueue` or `depart` returned is sent now.
    pub fn slot(&self) -> u32 {
        self.evented.as_ref().and_then(|e| e.arq()?.chosen).map_or(1, |a| a.progress.slot())
    }

    /// Number of the attempt that begins with this slot, if one does.
    pub fn attempt(&self) -> Option<u32> {
        let chosen = self.evented.as_ref().and_then(|e| e.arq()?.chosen);
        chosen.map_or(Some(1), |a| a.progress.begins_attempt().then(|| a.progress.attempt()))
    }

    /// Sends a frame of a link that counts attempts: `plan` and `propagate` in one call. `framing`
    /// describes the fragments.
    pub fn send_attempt(
        &mut self,
        now: Time,
        frame: Frame,
        segment: &Segment,
        framing: Option<&AnyFraming>,
    ) {
        let Some(arq) = self.evented.as_mut().and_then(|e| e.arq_mut()) else { return };
        let attempt = arq.chosen.take().unwrap_or_else(|| {
            let progress = match framing {
                Some(framing) => framing.begin(segment, arq.attempts),
                None => {
                    Progress::in_fragments(Cut::equal(segment.size, arq.fragments), arq.attempts)
                }
            };
            let tag = arq.tags;
            arq.tags = tag.wrapping_add(1);
            Attempt { frame, progress, tag, lost: false, damaged_frames: None }
        });
        let sorts = arq.sorts;
        let piece = Segment { size: attempt.progress.bytes(), ..*segment };
        let plan = if attempt.progress.slot() == 1 {
            self.plan(now, frame.at, &piece)
        } else {
            self.plan_retransmission(now, &piece)
        };
        self.stats.attempts += u64::from(self.measured.holds(plan.start));
        let step = { attempt.progress }.step(plan.lost);
        let event = match step {
            Step::Over { begun: true } if framing.is_some() => Some(LinkEvent::Incomplete),
            Step::Over { .. } if framing.is_none() && attempt.progress.fragments() == 1 => {
                self.damage(&plan, piece.size, segment)
            }
            _ => None,
        };
        let arriving = InFlight {
            at: plan.arrival,
            start: plan.start,
            handle: frame.handle,
            tag: attempt.tag,
        };
        match step {
            Step::Whole => _ = self.push_in_flight(arriving),
            // The far end must not wait for this frame any longer.
            Step::Over { .. } if sorts => {
                _ = self.push_in_flight(InFlight { handle: NOBODY, ..arriving });
            }
            _ => {}
        }
        if let Some(arq) = self.evented.as_mut().and_then(|e| e.arq_mut()) {
            arq.on_air = Some(Attempt {
                lost: plan.lost,
                damaged_frames: event.map(|e| (plan.arrival, e)),
                ..attempt
            });
        }
    }

    /// Ends the attempt on the air, if there is one.
    pub fn end_attempt(&mut self, now: Time) -> Option<Ended> {
        let measured = u64::from(now >= self.measured.from);
        let arq = self.evented.as_mut()?.arq_mut()?;
        let Attempt { frame, mut progress, tag, lost, damaged_frames } = arq.on_air.take()?;
        let attempt = progress.attempt();
        let step = progress.step(lost);
        match step {
            Step::More => {
                let due = if lost { now + arq.delay } else { now };
                arq.waiting.push(Retry {
                    attempt: Attempt { frame, progress, tag, lost: false, damaged_frames: None },
                    due,
                    failed: now,
                });
            }
            Step::Over { .. } => self.stats.lost += measured,
            Step::Whole => {}
        }
        Some(Ended { handle: frame.handle, attempt, lost, step, damaged_frames })
    }

    /// Allows fragments: a frame that has begun holds the link until it is delivered or discarded.
    /// Call it before the first frame.
    pub fn cut_frames(&mut self) {
        self.cuts = true;
        if self.place().is_some() {
            // In a cell, the cell cuts the frames.
            return;
        }
        self.count_attempts();
        if let Some(arq) = self.evented.as_mut().and_then(|e| e.arq_mut()) {
            arq.holds = true;
        }
    }

    /// True if frames may be fragmented.
    pub fn cuts_frames(&self) -> bool {
        self.cuts
    }
}

/// The handle of a frame that will not arrive.
const NOBODY: Handle = Handle::MAX;

/// The far end of a link that delivers frames in order.
#[derive(Debug, Default)]
pub(super) struct Sorter {
    /// Tag of the first missing frame.
    first: u32,
    /// State of the frames from that one on.
    tags: VecDeque<TagState>,
    /// Frames that can be delivered now.
    ready: Ring<InFlight>,
}

#[derive(Clone, Copy, Debug)]
enum TagState {
    Missing,
    Here(InFlight),
    Discarded,
}

impl Sorter {
    /// The next frame that can be delivered now.
    pub(super) fn next(&self) -> Option<&InFlight> {
        self.ready.front()
    }

    /// Removes it.
    pub(super) fn pop(&mut self) -> Option<InFlight> {
        self.ready.pop()
    }

    /// Processes an arrival, or the notice that a frame will not arrive.
    pub(super) fn take(&mut self, frame: InFlight) {
        let place = frame.tag.wrapping_sub(self.first) as usize;
        while self.tags.len() <= place {
            self.tags.push_back(TagState::Missing);
        }
        self.tags[place] =
            if frame.handle == NOBODY { TagState::Discarded } else { TagState::Here(frame) };
        while let Some(TagState::Here(_) | TagState::Discarded) = self.tags.front() {
            if let Some(TagState::Here(f)) = self.tags.pop_front() {
                self.ready.push(InFlight { at: frame.at, ..f });
            }
            self.first = self.first.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tag: u32, at: u64) -> InFlight {
        InFlight { at: Time(at), start: Time::ZERO, handle: tag.wrapping_add(100), tag }
    }

    fn ready(sorter: &mut Sorter) -> Vec<(Handle, u64)> {
        std::iter::from_fn(|| sorter.pop()).map(|f| (f.handle, f.at.0)).collect()
    }

    #[test]
    fn frames_go_up_in_order_and_nobody_waits_for_what_is_discarded() {
        let mut s = Sorter { first: u32::MAX, ..Sorter::default() };
        s.take(frame(u32::MAX, 1));
        assert_eq!(ready(&mut s), [(99, 1)]);
        s.take(frame(1, 2));
        s.take(frame(3, 3));
        assert_eq!(ready(&mut s), []);
        s.take(frame(0, 4));
        assert_eq!(ready(&mut s), [(100, 4), (101, 4)]);
        s.take(InFlight { handle: NOBODY, ..frame(2, 5) });
        assert_eq!(ready(&mut s), [(103, 5)]);
    }
}
