//! TCP HACK: a segment that arrives damaged with intact headers proves a loss on the radio, which
//! the receiver reports.
//!
//! Source: Balan et al., "TCP HACK: TCP header checksum option to improve performance over lossy
//! links", INFOCOM 2001, as yun2009 (sections 2.1 and 5.3) describes it. Deployed at: both ends;
//! the receiver's link layer delivers frames whose checksum is wrong. Wire: a header checksum
//! option on data, an option on ACKs (8 bytes) that names the damaged segment, and a bit that marks
//! an explicit loss notification (ELN).
//!
//! A damaged segment whose headers can be read is answered at once with an ELN ACK; the sender
//! retransmits the named segment and does not change the window. The ELN ACK is no duplicate ACK.
//! Those that follow are: three of them for the same hole still halve the window, because HACK has
//! no rule against it (yun2009, section 5.3, explains its results by that). For uplink data, the
//! base station forwards the damaged segment to the wired receiver.
//!
//! Assumes errors within frames, not missing frames. Bad at: collisions, handovers and damaged
//! headers, of which nothing arrives; ELN ACKs lost on the air.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::balakrishnan_eln;
use crate::catalogue::{AnyAgent, Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use lasthop_core::agent::{Agent, Context, Destination, LinkEvent, Subscriptions, Verdict};
use lasthop_core::role::Role;
use lasthop_core::segment::{Direction, Notice, NoticeKind, Segment};
use lasthop_core::units::Time;
use lasthop_tcp::recovery::{Recovery, RecoveryKind};

/// Settings of HACK.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hack {}

/// Footprint of HACK and its variants.
pub(super) const CHANGES: Footprint =
    Footprint { sender: true, receiver: true, link: true, wire: true, ..Footprint::NONE };
/// Assumptions of HACK and its variants.
pub(super) const ASSUMPTIONS: &[&str] = &[
    "the link layer hands damaged frames up",
    "bit errors, not whole frames, are what the radio loses",
    "ELN ACKs arrive",
];
/// Nodes at which damaged data arrive.
pub(super) const ROLES: &[Role] = &[Role::BaseStation, Role::Station];

impl SchemeConfig for Hack {
    const ENTRY: Entry = Entry {
        name: "hack",
        family: Family::EndToEnd,
        group: Some(Group::ExplicitNotification),
        summary: "the receiver names segments that came damaged; the sender sends them again \
                  without reducing",
        paper: "Balan et al., INFOCOM 2001",
        changes: CHANGES,
        assumptions: ASSUMPTIONS,
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(Recovery {
            hints: Some(balakrishnan_eln::HINTS.rules()),
            ..Recovery::of(RecoveryKind::Sack)
        }))
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(HackAgent::default()))
    }

    fn agent_roles(&self) -> &[Role] {
        ROLES
    }
}

/// The link layer's handling of damaged frames: the receiver is notified of those whose headers can
/// be read. It has no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct HackAgent {
    damaged: u64,
    unreadable: u64,
}

impl Agent for HackAgent {
    fn on_segment(&mut self, _: &mut Context<'_>, _: Direction, _: &Segment) -> Verdict {
        Verdict::Forward
    }

    fn sends_acks(&self) -> bool {
        false
    }

    fn is_passive(&self) -> bool {
        true
    }

    fn subscribes(&self) -> Subscriptions {
        Subscriptions::DAMAGED
    }

    fn on_link_event(
        &mut self,
        ctx: &mut Context<'_>,
        _: Direction,
        event: LinkEvent,
        segment: &Segment,
    ) {
        let LinkEvent::Damaged { header_readable } = event else { return };
        if segment.len == 0 || !segment.forward {
            return;
        }
        if !header_readable {
            self.unreadable += 1;
            return;
        }
        self.damaged += 1;
        ctx.notify(
            Notice {
                kind: NoticeKind::Eln,
                flow: segment.flow,
                value: segment.seq,
                stamp: Time::ZERO,
            },
            Destination::Receiver,
        );
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("damaged_reported", self.damaged), ("damaged_unreadable", self.unreadable)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_core::agent::{Action, BlankView};
    use lasthop_core::segment::{Flags, Options};

    fn told(event: LinkEvent, segment: &Segment) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut ctx = Context {
            now: Time(7),
            options: &Options::NONE,
            node_view: &BlankView,
            actions: &mut actions,
        };
        HackAgent::default().on_link_event(&mut ctx, Direction::Downlink, event, segment);
        actions
    }

    #[test]
    fn readable_data_are_named_to_the_receiver_and_nothing_else_is() {
        let data = Segment {
            seq: 3000,
            len: 1000,
            flow: 2,
            forward: true,
            flags: Flags::ACK,
            ..Segment::default()
        };
        let named = Notice { kind: NoticeKind::Eln, flow: 2, value: 3000, stamp: Time(7) };
        assert_eq!(
            told(LinkEvent::Damaged { header_readable: true }, &data),
            [Action::Notify(named, Destination::Receiver)]
        );
        assert_eq!(told(LinkEvent::Damaged { header_readable: false }, &data), []);
        assert_eq!(
            told(LinkEvent::Damaged { header_readable: true }, &Segment { len: 0, ..data }),
            []
        );
        assert_eq!(
            told(LinkEvent::Damaged { header_readable: true }, &Segment { forward: false, ..data }),
            []
        );
    }
}
