//! What happens to a connection, as events of its relay.

use std::collections::VecDeque;

use lasthop::leg::{LegEvent, Side as Leg};
use lasthop::segment::Notice;
use lasthop::units::Time;
use lasthop_endpoint::{ConnectionId, Endpoint};

use super::node::Split;
use super::relays::Active;
use super::side::{Side, mirrored};

/// Notices that are kept for connections whose relay has not begun; the oldest are forgotten.
const EARLY: usize = 64;

#[allow(clippy::multiple_inherent_impl, reason = "what concerns relays is a file apart")]
impl Split {
    /// Both ends of a connection exist: its relay begins.
    pub(super) fn begin_relay(&mut self, now: Time, side: Side, id: ConnectionId) {
        let Some(relays) = &mut self.relays else { return };
        let key = relays.key(side, id);
        let Some(relay) = relays.choice.scheme.relay() else { return };
        let active = Active { relay, wake: Time::NEVER, received: 0, is_closed: false };
        relays.remove(key);
        relays.active.insert(key, active);
        let (of_this, others) = std::mem::take(&mut relays.early)
            .into_iter()
            .partition::<VecDeque<_>, _>(|early| early.0 == key);
        relays.early = others;
        self.relay_event(now, key, LegEvent::Open);
        for (_, notice) in of_this {
            self.relay_event(now, key, LegEvent::Notice(notice));
        }
    }

    /// Ends the relay of a connection that neither side has any more.
    pub(super) fn end_relay(&mut self, side: Side, id: ConnectionId) {
        let Some(relays) = &mut self.relays else { return };
        let (host, other) = match side {
            Side::Server => (&self.server, &self.mobile),
            Side::Mobile => (&self.mobile, &self.server),
        };
        if host.get(id).is_none() && other.get(mirrored(id)).is_none() {
            relays.remove(relays.key(side, id));
        }
    }

    /// Something may have arrived on a side. False if there is no relay in this direction.
    pub(super) fn relay_arrived(&mut self, now: Time, from: Side, id: ConnectionId) -> bool {
        let Some(relays) = &mut self.relays else { return false };
        if relays.inbound != from {
            return false;
        }
        let Some(active) = relays.active.get_mut(&id) else { return false };
        let host = if from == Side::Server { &self.server } else { &self.mobile };
        let Some(endpoint) = host.get(id) else { return true };
        let (received, is_closed) = (endpoint.received(), endpoint.peer_has_closed());
        if (received, is_closed) != (active.received, active.is_closed) {
            (active.received, active.is_closed) = (received, is_closed);
            let event = if is_closed { LegEvent::HalfClosed } else { LegEvent::Readable };
            self.relay_event(now, id, event);
        }
        true
    }

    /// An ACK has arrived on a side.
    pub(super) fn relay_acknowledged(&mut self, now: Time, side: Side, id: ConnectionId) {
        let Some(key) = self.outbound(side, id) else { return };
        let host = if side == Side::Server { &self.server } else { &self.mobile };
        let Some(offset) = host.get(id).map(Endpoint::acknowledged_offset) else { return };
        self.relay_event(now, key, LegEvent::Acknowledged(offset));
    }

    /// A notice has arrived on a side.
    pub(super) fn relay_notice(
        &mut self,
        now: Time,
        side: Side,
        id: ConnectionId,
        notice: &Notice,
    ) {
        let Some(key) = self.outbound(side, id) else { return };
        match &mut self.relays {
            Some(relays) if !relays.active.contains_key(&key) => {
                relays.early.push_back((key, *notice));
                if relays.early.len() > EARLY {
                    relays.early.pop_front();
                }
            }
            _ => self.relay_event(now, key, LegEvent::Notice(*notice)),
        }
    }

    /// The end on a side was reset, or has given up.
    pub(super) fn relay_reset(&mut self, now: Time, side: Side, id: ConnectionId) {
        let Some(relays) = &self.relays else { return };
        let leg = if side == relays.inbound { Leg::Inbound } else { Leg::Outbound };
        let key = relays.key(side, id);
        self.relay_event(now, key, LegEvent::Reset(leg));
    }

    /// The time that a relay has asked for has come.
    pub(super) fn relay_timer(&mut self, now: Time, key: ConnectionId) {
        self.relay_event(now, key, LegEvent::Timer);
    }

    /// The connection of the inbound end, if this is the outbound one.
    fn outbound(&self, side: Side, id: ConnectionId) -> Option<ConnectionId> {
        self.relays.as_ref().filter(|relays| relays.inbound != side).map(|_| mirrored(id))
    }

    fn relay_event(&mut self, now: Time, key: ConnectionId, event: LegEvent) {
        let Some(relays) = &mut self.relays else { return };
        let (inbound, outbound) = match relays.inbound {
            Side::Server => (&mut self.server, &mut self.mobile),
            Side::Mobile => (&mut self.mobile, &mut self.server),
        };
        relays.event(now, key, event, [inbound, outbound], &mut self.block);
    }
}
