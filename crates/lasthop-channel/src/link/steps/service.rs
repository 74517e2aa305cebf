//! Retransmissions that are planned when a frame enters the queue.

use crate::link::service::Service;
use crate::link::{Link, Plan};
use lasthop_core::agent::{LinkEvent, Subscriptions};
use lasthop_core::framing::{AnyFraming, Cut, Progress, Step};
use lasthop_core::segment::Segment;
use lasthop_core::units::{Duration, Rate, Time};

impl Link {
    /// Plans retransmissions at enqueue instead of by events, if the link serves one frame at a
    /// time and no agent subscribes to attempts. Call it before the first frame. A link with a
    /// variable rate remains evented, because an attempt may end at the time at which it begins.
    pub fn precompute_retransmissions(&mut self) {
        let Some(evented) = self
            .evented
            .as_deref()
            .filter(|_| !self.is_managed() && self.place.is_none() && self.impairments.is_none())
        else {
            return;
        };
        if self.air.rate.constant().is_some()
            && let Some(service) = evented.arq().and_then(|a| a.service())
        {
            self.service = Some(service);
            self.evented = None;
        }
    }

    /// Plans a frame that is offered at `now` and takes one or more slots; `start` is that of the
    /// last one. A damaged frame is put in flight if the agent at the far end subscribes to such
    /// events.
    pub fn plan_service(
        &mut self,
        now: Time,
        segment: &Segment,
        framing: Option<&AnyFraming>,
        subscribed: Subscriptions,
    ) -> Plan {
        let Some(Service { attempts, fragments, delay, .. }) = self.service else {
            return Plan::default();
        };
        let mut progress = match framing {
            Some(framing) => framing.begin(segment, attempts),
            None => Progress::in_fragments(Cut::equal(segment.size, fragments), attempts),
        };
        let (mut ready, mut first) = (now, true);
        loop {
            let size = progress.bytes();
            let bytes = size + self.overhead;
            let (arrival, lost, damaged) = match self.plain {
                Some(plain) => {
                    let time = self.time_of_piece(plain.rate, bytes, progress.is_at_first());
                    self.serialize_plain(&plain, ready, time, bytes, segment)
                }
                None => self.serialize(ready, bytes, segment),
            };
            let (start, end) = (self.last_start, self.last_end);
            if self.measured.holds(start) {
                self.stats.attempts += 1;
                self.stats.bytes += u64::from(bytes);
                if first {
                    self.stats.queue_delay.record(start - now, 1);
                }
            }
            let step = progress.step(lost);
            if step == Step::More {
                (ready, first) = (if lost { end + delay } else { end }, false);
                continue;
            }
            let plan = Plan { start, end, arrival, lost: step != Step::Whole, damaged };
            let event = match step {
                Step::Over { begun: true } if framing.is_some() => Some(LinkEvent::Incomplete),
                Step::Over { .. } if framing.is_none() && progress.fragments() == 1 => {
                    self.damage(&plan, size, segment)
                }
                _ => None,
            };
            if let Some(event) = event.filter(|e| subscribed.any(e.subscription())) {
                self.push_damaged_frame(arrival, end, segment, event);
            }
            return Plan { damaged: false, ..plan };
        }
    }

    /// Serialisation time of a fragment; usually the same as that of the last one at its place.
    fn time_of_piece(&mut self, rate: Rate, bytes: u32, first: bool) -> Duration {
        let Some(known) = self.service.as_mut().map(|s| &mut s.times[usize::from(first)]) else {
            return Duration::ZERO;
        };
        if known.0 != bytes {
            *known = (bytes, rate.time_for(u64::from(bytes)));
        }
        known.1
    }
}
