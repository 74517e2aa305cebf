//! The oracle: gives senders whose rule asks for it (`Needs::oracle`) information that one on a
//! real path cannot have. Here the links are ours, so that it exists as in the simulator.
//!
//! Once per round trip of the empty path each connection with data gets three notices, without
//! delay: that round-trip time, and two values of the available rate, in payload bits per second,
//! each the minimum over the links of its data. The *fair share* is the link's capacity, less the
//! rate of other protocols, divided by the number of connections whose data it carried in the last
//! round trip; the *residual* is the capacity, less the rate of all others. (The simulator counts
//! connections with unacknowledged data instead.)

use std::collections::BTreeMap;

use lasthop::scenario::network::Flow;
use lasthop::segment::{Direction, FlowId, Notice, NoticeKind, Segment};
use lasthop::units::{Duration, Time};

use super::hop::Hop;

/// Smallest interval between notices, for paths without delay.
const MIN_INTERVAL: Duration = Duration(1_000_000);

/// Notifies the senders of data in one direction.
pub(super) struct Oracle {
    direction: Direction,
    /// Payload bytes of a full segment, its size on the wire, and the size of an ACK.
    sizes: [u32; 3],
    next: Time,
    last: Option<Time>,
    /// What each hop carried since the last notices.
    carried: Vec<Carried>,
}

/// Bytes on the wire.
#[derive(Clone, Debug, Default)]
struct Carried {
    connections: BTreeMap<FlowId, u64>,
    others: u64,
}

impl Oracle {
    /// An oracle for the data of `flow` in this direction, over a path of this number of hops.
    pub(super) fn new(flow: &Flow, direction: Direction, hops: usize) -> Oracle {
        let profile = flow.scheme.sender(&flow.profile).profile(&flow.profile);
        let stamped = |bytes: u32| if profile.timestamps { bytes } else { 0 };
        let frame = flow.segment + flow.headers + stamped(profile.timestamp_bytes);
        let ack = flow.headers + stamped(profile.timestamp_ack_bytes);
        Oracle {
            direction,
            sizes: [flow.segment, frame, ack],
            next: Time::NEVER,
            last: None,
            carried: vec![Carried::default(); hops],
        }
    }

    /// The direction of the data.
    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// When notices are due.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// A frame is sent over a hop. The first data after a silence are followed by notices.
    pub(super) fn count(&mut self, at: Time, hop: usize, segment: &Segment, is_tracked: bool) {
        let Some(carried) = self.carried.get_mut(hop) else { return };
        let bytes = u64::from(segment.size);
        if !is_tracked {
            carried.others += bytes;
        } else if segment.len > 0 {
            *carried.connections.entry(segment.flow).or_default() += bytes;
            if self.next == Time::NEVER {
                self.next = at;
            }
        }
    }

    /// The notices that are due.
    pub(super) fn notices(&mut self, now: Time, hops: &[Hop]) -> Vec<Notice> {
        let round_trip = self.round_trip(hops, now).max(MIN_INTERVAL);
        let span = self.last.map_or(round_trip, |last| now.since(last)).max(MIN_INTERVAL);
        let mut flows: Vec<FlowId> =
            self.carried.iter().flat_map(|c| c.connections.keys().copied()).collect();
        flows.sort_unstable();
        flows.dedup();
        let mut notices = Vec::new();
        for flow in &flows {
            let (fair, residual) = self.available(*flow, hops, now, span);
            let values = [
                (NoticeKind::BaseRtt, round_trip.0),
                (NoticeKind::FairShare, fair as u64),
                (NoticeKind::Residual, residual as u64),
            ];
            let notice = |(kind, value)| Notice { kind, flow: *flow, value, stamp: now };
            notices.extend(values.map(notice));
        }
        self.carried.iter_mut().for_each(|carried| *carried = Carried::default());
        (self.last, self.next) = match flows.is_empty() {
            true => (None, Time::NEVER),
            false => (Some(now), now + round_trip),
        };
        notices
    }

    /// Fair share and residual of a connection, payload bit/s.
    fn available(&self, flow: FlowId, hops: &[Hop], now: Time, span: Duration) -> (f64, f64) {
        let [payload, frame, _] = self.sizes;
        let rate = |bytes: u64| bytes as f64 * 8.0 / span.as_secs();
        let (mut fair, mut residual) = (f64::INFINITY, f64::INFINITY);
        for (hop, carried) in hops.iter().zip(&self.carried) {
            if hop.direction != self.direction {
                continue;
            }
            let share = f64::from(payload) / f64::from(frame + hop.overhead);
            let left = hop.drive.link().capacity_now(now, span) - rate(carried.others);
            let others = carried.connections.iter().filter(|other| *other.0 != flow);
            let (count, bytes) = others.fold((1, 0), |(n, sum), (_, bytes)| (n + 1, sum + bytes));
            fair = fair.min(left / f64::from(count) * share);
            residual = residual.min((left - rate(bytes)) * share);
        }
        (fair, residual)
    }

    /// Round-trip time of the empty path.
    fn round_trip(&self, hops: &[Hop], now: Time) -> Duration {
        let [_, frame, ack] = self.sizes;
        let one = |hop: &Hop| {
            let bytes = if hop.direction == self.direction { frame } else { ack };
            let link = hop.drive.link();
            let rate = link.capacity_now(now, Duration::secs(1));
            let bits = f64::from(bytes + hop.overhead) * 8.0;
            let sending = if rate > 0.0 { bits / rate } else { 0.0 };
            link.mean_delay(now) + Duration::from_secs_f64(sending)
        };
        hops.iter().map(one).fold(Duration::ZERO, |sum, time| sum + time)
    }
}
