//! LL-ELSN: the link layer notifies the sender when it starts to retransmit a frame and when it
//! discards one.
//!
//! Source: J.-H. Yun, "Cross-layer explicit link status notification to improve TCP performance in
//! wireless networks", EURASIP JWCN 2009 (yun2009), section 3.
//!
//! Deployed at: the node whose link layer retransmits, and the sender (`esack` unless another one
//! is set). For downlink data that node is the base station; for uplink data it is the station
//! itself, whose stack is notified without delay.
//!
//! Wire: notices of 40 bytes in the form of ACKs; two reserved bits of the TCP header give their
//! kind.
//!
//! Idea: an ERSN is sent when the second attempt of a data segment begins, once per transmission by
//! the sender, and an ELN when the last attempt fails. With one attempt there is no ERSN. Segments
//! without data are not reported. The agent stores no state. For a segment that the link fragments
//! (`arq.fragments`) there is one ERSN, when its first fragment is retransmitted, and one ELN for
//! all fragments.
//!
//! Assumes: the link layer detects failures and can read TCP headers, and notices arrive; a lost
//! ELN costs a window reduction.
//!
//! Bad at: encrypted transports; congestion on the reverse path to the sender.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{AnyAgent, Entry, Family, Footprint, SchemeConfig};
use lasthop_core::agent::{Agent, Context, Destination, LinkEvent, Subscriptions, Verdict};
use lasthop_core::role::Role;
use lasthop_core::segment::{Direction, Notice, NoticeKind, Segment};
use lasthop_core::units::Time;

/// Settings of LL-ELSN.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LlElsn {
    /// Also notify the start of a retransmission (ERSN). Off: losses only (yun2009, figure 13).
    pub ersn: bool,
    /// Sender to use; it must accept ELN notices.
    pub sender: String,
}

impl Default for LlElsn {
    fn default() -> Self {
        LlElsn { ersn: true, sender: "esack".into() }
    }
}

impl SchemeConfig for LlElsn {
    const ENTRY: Entry = Entry {
        name: "ll-elsn",
        family: Family::LinkLayer,
        summary: "the link layer notifies the sender when it starts to retransmit a frame and when \
                  it discards one",
        paper: "yun2009",
        changes: Footprint {
            sender: true,
            receiver: true,
            base_station: true,
            wire: true,
            ..Footprint::NONE
        },
        assumptions: &[
            "the link layer learns of every failed attempt",
            "TCP headers can be read at the base station",
            "the path from the base station to the sender is not congested",
        ],
        role: Some(Role::BaseStation),
        ..Entry::DEFAULT
    };

    fn agent(&self) -> Option<AnyAgent> {
        Some(AnyAgent::from(LlElsnAgent { ersn: self.ersn, ersn_sent: 0, eln_sent: 0 }))
    }

    fn agent_roles(&self) -> &[Role] {
        &[Role::BaseStation, Role::Station]
    }

    const NEEDS_ELN_SENDER: bool = true;

    fn base_sender(&self) -> Option<&str> {
        Some(&self.sender)
    }
}

/// The agent at the node whose link layer retransmits.
pub struct LlElsnAgent {
    ersn: bool,
    ersn_sent: u64,
    eln_sent: u64,
}

impl Agent for LlElsnAgent {
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
        Subscriptions::RETRIED.with(Subscriptions::DISCARDED)
    }

    fn on_link_event(
        &mut self,
        ctx: &mut Context<'_>,
        _: Direction,
        event: LinkEvent,
        segment: &Segment,
    ) {
        // Only data of the flow, not the segments of its receiver.
        if segment.len == 0 || !segment.forward {
            return;
        }
        let kind = match event {
            LinkEvent::AttemptStarted { attempt: 2 } if self.ersn => {
                self.ersn_sent += 1;
                NoticeKind::Ersn
            }
            LinkEvent::Discarded => {
                self.eln_sent += 1;
                NoticeKind::Eln
            }
            _ => return,
        };
        ctx.notify(
            Notice { kind, flow: segment.flow, value: segment.seq, stamp: Time::ZERO },
            Destination::Sender,
        );
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("ersn_sent", self.ersn_sent), ("eln_sent", self.eln_sent)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::SchemeChoice;
    use lasthop_core::agent::{Action, BlankView};
    use lasthop_core::segment::{Flags, Options};

    /// The agent's notices for these link events of a segment: kind, value, time.
    fn notices(
        config: &LlElsn,
        events: &[LinkEvent],
        segment: &Segment,
    ) -> Vec<(NoticeKind, u64, Time)> {
        let Some(mut agent) = config.agent() else { return vec![] };
        let mut actions = Vec::new();
        for (i, &event) in events.iter().enumerate() {
            let mut ctx = Context {
                now: Time(i as u64),
                options: &Options::NONE,
                node_view: &BlankView,
                actions: &mut actions,
            };
            // The host reports only subscribed events.
            if !agent.subscribes().any(event.subscription()) {
                continue;
            }
            agent.on_link_event(&mut ctx, Direction::Downlink, event, segment);
        }
        assert_eq!(agent.state_bytes(), 0, "the agent has no per-flow state");
        let notice = |a: &Action| match a {
            Action::Notify(n, Destination::Sender) => (n.kind, n.value, n.stamp),
            other => panic!("{other:?}"),
        };
        actions.iter().map(notice).collect()
    }

    const DATA: Segment = Segment { seq: 5000, len: 1000, forward: true, ..EMPTY };
    const EMPTY: Segment = Segment {
        seq: 0,
        ack: 0,
        id: 0,
        flow: 3,
        len: 0,
        size: 1040,
        window: 0,
        ts_value: 0,
        ts_echo: 0,
        payload: lasthop_core::segment::Payload(0),
        to: 0,
        flags: Flags::ACK,
        attempt: 1,
        forward: false,
    };

    fn link_events(attempts: u32, delivered: bool) -> Vec<LinkEvent> {
        let mut events = vec![LinkEvent::Dequeued];
        for attempt in 1..=attempts {
            events.push(LinkEvent::AttemptStarted { attempt });
            if attempt < attempts || !delivered {
                events.push(LinkEvent::AttemptFailed { attempt });
            }
        }
        events.push(if delivered {
            LinkEvent::Delivered { attempts }
        } else {
            LinkEvent::Discarded
        });
        events
    }

    /// Figure 1 of the paper: one ERSN when the second attempt begins, one ELN after the last
    /// attempt fails.
    #[test]
    fn one_ersn_at_the_second_attempt_and_one_eln_at_discard() {
        let all = LlElsn::default();
        assert_eq!(notices(&all, &link_events(1, true), &DATA), []);
        assert_eq!(
            notices(&all, &link_events(1, false), &DATA),
            [(NoticeKind::Eln, 5000, Time(3))]
        );
        assert_eq!(
            notices(&all, &link_events(4, true), &DATA),
            [(NoticeKind::Ersn, 5000, Time(3))]
        );
        assert_eq!(
            notices(&all, &link_events(3, false), &DATA),
            [(NoticeKind::Ersn, 5000, Time(3)), (NoticeKind::Eln, 5000, Time(7))]
        );
        let losses = LlElsn { ersn: false, ..all };
        assert_eq!(
            notices(&losses, &link_events(3, false), &DATA),
            [(NoticeKind::Eln, 5000, Time(7))]
        );
    }

    #[test]
    fn segments_without_data_of_the_flow_are_not_reported() {
        assert_eq!(notices(&LlElsn::default(), &link_events(2, false), &EMPTY), []);
        assert_eq!(
            notices(
                &LlElsn::default(),
                &link_events(2, false),
                &Segment { forward: false, ..DATA }
            ),
            []
        );
        assert_eq!(
            notices(
                &LlElsn::default(),
                &link_events(2, false),
                &Segment { len: 0, flags: Flags::SYN, ..DATA }
            ),
            []
        );
    }

    #[test]
    fn uses_esack_or_the_configured_sender() {
        let profile =
            lasthop_tcp::profile::Profile::named(lasthop_tcp::profile::ProfileName::Linux);
        let recovery = |scheme: &str| {
            SchemeChoice::parse(scheme).unwrap().sender(&profile).recovery.to_string()
        };
        assert_eq!(recovery("ll-elsn"), "esack");
        assert_eq!(recovery("ll-elsn:sender=(reno:recovery=sack+elsn)"), "sack+elsn");
        assert!(
            SchemeChoice::parse("ll-elsn:sender=sack").unwrap_err().contains("does not accept")
        );
    }
}
