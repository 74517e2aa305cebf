//! LHP: the radio link sends the headers of a packet first, in a separate frame, so that the far
//! end can tell which packet it has lost.
//!
//! Source: X. Gao, S. Diggavi, S. Muthukrishnan, "LHP: an end-to-end reliable transport protocol
//! over wireless data networks", ICC 2003, as described in J.-H. Yun, EURASIP JWCN 2009 (yun2009),
//! sections 2.1 and 4.1. Idea: each data frame is fragmented; the fragment with the headers is
//! retransmitted until it arrives, then the rest in the remaining slots. A node that has received
//! only the headers has detected a wireless loss: the receiver reports it with an ACK, and the
//! sender retransmits the packet without a reduction. The sender's packet list
//! (`packet_list.rs`) detects the other losses. ACKs carry SACK blocks by default.
//! yun2009's figures use SMART (`ack`): section 5.3 gives lost ACKs as the reason why notices from
//! the base station are worse, and lost ACKs affect a packet list only if an ACK names one
//! segment. With SACK, LHP is ahead of Snoop in figure 6.
//! Deployed at: both ends of the radio link, receiver and sender. A base station that holds the
//! headers of uplink data forwards them to the receiver. Wire: a flag of the ACK and an option of 8
//! bytes that names the segment (experimental, RFC 6994); the headers alone as a notice of 40
//! bytes. Assumes: a link layer that knows which fragment arrived. Bad at: links with a large
//! overhead per frame (each fragment has it), several congestion losses in a window (each halves
//! it), notifications that are lost.

mod packet_list;

pub use packet_list::DETECTOR;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{AnyAgent, Entry, Family, Footprint, Group, RecoverySlot, SchemeConfig};
use lasthop_core::agent::{Agent, Context, Destination, LinkEvent, Subscriptions, Verdict};
use lasthop_core::framing::{AnyFraming, HeadersFirst};
use lasthop_core::role::Role;
use lasthop_core::segment::{Direction, Notice, NoticeKind, Segment};
use lasthop_core::units::Time;
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use packet_list::SMART;

/// Settings of LHP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Lhp {
    /// Fragments of a data frame, including that with the headers; the papers do not give the
    /// number.
    #[schemars(extend("unit" = "fragments"))]
    pub fragments: u32,
    /// Slots per frame, one for each fragment sent; unset: the number that its fragments take in
    /// the attempts that the link allows (yun2009, section 2.1: the time slots allocated to the
    /// frame).
    #[schemars(extend("unit" = "slots"))]
    pub slots: Option<u32>,
    /// Contents of ACKs: SACK blocks, or SMART's one segment (yun2009, section 2.1).
    pub ack: AckForm,
}

/// Forms of acknowledgments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AckForm {
    /// SACK (RFC 2018).
    Sack,
    /// SMART (Keshav and Morgan 1997): the ACK names the segment that it acknowledges.
    Smart,
}

impl Default for Lhp {
    fn default() -> Self {
        Lhp { fragments: 2, slots: None, ack: AckForm::Sack }
    }
}

impl SchemeConfig for Lhp {
    const ENTRY: Entry = Entry {
        name: "lhp",
        family: Family::EndToEnd,
        group: Some(Group::ExplicitNotification),
        summary: "the radio sends the headers first, in a separate frame: a receiver that gets \
                  only them reports a loss of the radio",
        paper: "Gao et al. 2003",
        changes: Footprint {
            sender: true,
            receiver: true,
            base_station: true,
            link: true,
            wire: true,
            ..Footprint::NONE
        },
        assumptions: &[
            "the link layer knows which fragment got through",
            "the ACK that reports a loss gets through",
        ],
        role: Some(Role::Station),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if !(2..=64).contains(&self.fragments) {
            return Err(format!("fragments must be 2 to 64, found {}", self.fragments));
        }
        match self.slots {
            Some(slots) if slots < self.fragments => Err(format!(
                "slots must be at least as many as fragments ({}), found {slots}: no frame would \
                 ever get through",
                self.fragments
            )),
            _ => Ok(()),
        }
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(Recovery {
            setting: if self.ack == AckForm::Smart { SMART } else { DETECTOR.default_setting() },
            ..Recovery::of(RecoveryKind::Scheme(&DETECTOR))
        }))
    }

    fn framing(&self) -> Option<AnyFraming> {
        Some(AnyFraming::HeadersFirst(HeadersFirst {
            fragments: self.fragments,
            slots: self.slots,
        }))
    }

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(LhpAgent::default()))
    }

    fn agent_roles(&self) -> &[Role] {
        &[Role::Station, Role::BaseStation]
    }
}

/// At both ends of the radio link: notifies the receiver of frames of which only the headers have
/// arrived.
#[derive(Debug, Default)]
pub struct LhpAgent {
    incomplete: u64,
}

impl Agent for LhpAgent {
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
        Subscriptions::INCOMPLETE
    }

    fn on_link_event(
        &mut self,
        ctx: &mut Context<'_>,
        _: Direction,
        event: LinkEvent,
        segment: &Segment,
    ) {
        if event == LinkEvent::Incomplete && segment.len > 0 {
            self.incomplete += 1;
            // At the station the notice arrives at once; from the base station it takes the wired
            // route.
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
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("incomplete_frames", self.incomplete)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::SchemeChoice;
    use lasthop_core::agent::{Action, BlankView};
    use lasthop_core::segment::Options;
    use lasthop_tcp::profile::{Profile, ProfileName};

    #[test]
    fn a_frame_whose_headers_alone_have_come_is_reported_to_the_receiver() {
        let mut agent = LhpAgent::default();
        let mut told = |event, len| {
            let mut actions = Vec::new();
            let mut ctx = Context {
                now: Time(7),
                options: &Options::NONE,
                node_view: &BlankView,
                actions: &mut actions,
            };
            agent.on_link_event(
                &mut ctx,
                Direction::Downlink,
                event,
                &Segment { seq: 3000, len, flow: 2, ..Segment::default() },
            );
            actions
        };
        let eln = Notice { kind: NoticeKind::Eln, flow: 2, value: 3000, stamp: Time(7) };
        assert_eq!(told(LinkEvent::Incomplete, 1000), [Action::Notify(eln, Destination::Receiver)]);
        assert_eq!(told(LinkEvent::Incomplete, 0), []);
        assert_eq!(told(LinkEvent::Damaged { header_readable: true }, 1000), []);
        assert_eq!(agent.counters(), [("incomplete_frames", 1)]);
    }

    #[test]
    fn its_sender_is_the_packet_list_under_every_profile() {
        for profile in [ProfileName::Linux, ProfileName::Rfc, ProfileName::Ns235] {
            let recovery = |scheme: &str| {
                SchemeChoice::parse(scheme)
                    .unwrap()
                    .sender(&Profile::named(profile))
                    .recovery
                    .to_string()
            };
            assert_eq!(
                (recovery("lhp"), recovery("lhp:ack=smart")),
                ("packet-list".into(), "packet-list+smart".into())
            );
            assert_eq!(recovery("snoop:sender=lhp"), "packet-list");
        }
        assert!(SchemeChoice::parse("lhp:fragments=1").unwrap_err().contains("2 to 64"));
        assert!(
            SchemeChoice::parse("lhp:fragments=4:slots=3")
                .unwrap_err()
                .contains("no frame would ever get through")
        );
    }
}
