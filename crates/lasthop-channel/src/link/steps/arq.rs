//! Attempts: a frame is sent again until it arrives or its attempts are used up.

use crate::link::Link;
use crate::link::arq::{Attempt, Ended, Retry};
use crate::link::flight::InFlight;
use crate::link::reordering::NOBODY;
use crate::queue::Frame;
use lasthop_core::agent::LinkEvent;
use lasthop_core::framing::{AnyFraming, Cut, Progress, Step};
use lasthop_core::segment::Segment;
use lasthop_core::units::Time;

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
