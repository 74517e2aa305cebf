//! Reports of the link layer to an agent, as packets of an interface of their node.
//!
//! A capture has packets on their way to the agent, but not what the link says of them afterwards:
//! that one has left the queue, has arrived, was dropped. The simulator writes each report that an
//! agent gets as a packet of the interface `NODE:link`: the headers of the packet that the link
//! reports, at the time of the report, with the event as the first line of its comment, such as
//! "lasthop: downlink delivered, attempt 2". The description of the interface names the events that
//! the agent subscribes to, so that a reader can tell an event that did not happen from one that
//! was not reported.

use std::fmt;

use lasthop::agent::{LinkEvent, Subscriptions};
use lasthop::segment::Direction;

const PREFIX: &str = "lasthop: ";
const DESCRIPTION: &str = "what the link reports to the agent: ";
const RETRIED: &str = "attempt-started after the first";

/// What a link reports of the packet that the comment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// Direction of the packet.
    pub direction: Direction,
    /// What has happened to it.
    pub event: LinkEvent,
}

impl LinkReport {
    /// Parses the first line of a comment that holds a report; `None` if there is none.
    pub fn read(comment: &str) -> Option<LinkReport> {
        comment.lines().find_map(|line| {
            let (direction, event) = line.strip_prefix(PREFIX)?.split_once(' ')?;
            let direction = match direction {
                "downlink" => Direction::Downlink,
                "uplink" => Direction::Uplink,
                _ => return None,
            };
            let (name, detail) = event.split_once(", ").unwrap_or((event, ""));
            let number = || detail.strip_prefix("attempt ")?.parse().ok();
            let event = match name {
                "refused" => LinkEvent::Refused,
                "dequeued" => LinkEvent::Dequeued,
                "attempt-started" => LinkEvent::AttemptStarted { attempt: number()? },
                "attempt-failed" => LinkEvent::AttemptFailed { attempt: number()? },
                "discarded" => LinkEvent::Discarded,
                "delivered" => LinkEvent::Delivered { attempts: number()? },
                "damaged" => LinkEvent::Damaged { header_readable: detail == READABLE },
                "incomplete" => LinkEvent::Incomplete,
                _ => return None,
            };
            Some(LinkReport { direction, event })
        })
    }

    /// The description of an interface with the reports to an agent with these subscriptions.
    pub fn describe(subscriptions: Subscriptions) -> String {
        let named = Subscriptions::BY_NAME.into_iter().chain([(RETRIED, Subscriptions::RETRIED)]);
        let names: Vec<&str> =
            named.filter(|(_, event)| subscriptions.any(*event)).map(|(name, _)| name).collect();
        format!("{DESCRIPTION}{}", names.join(", "))
    }

    /// The events that an interface with this description has; `None` if it has no reports.
    pub fn described(description: &str) -> Option<Subscriptions> {
        let names = description.strip_prefix(DESCRIPTION)?;
        let named = Subscriptions::BY_NAME.into_iter().chain([(RETRIED, Subscriptions::RETRIED)]);
        Some(
            named
                .filter(|(name, _)| names.split(", ").any(|n| n == *name))
                .fold(Subscriptions::NONE, |all, (_, event)| all.with(event)),
        )
    }
}

const READABLE: &str = "headers readable";

impl fmt::Display for LinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = match self.direction {
            Direction::Downlink => "downlink",
            Direction::Uplink => "uplink",
        };
        write!(f, "{PREFIX}{direction} {}", self.event.name())?;
        match (self.event.attempt(), self.event) {
            (Some(attempt), _) => write!(f, ", attempt {attempt}"),
            (None, LinkEvent::Damaged { header_readable: true }) => write!(f, ", {READABLE}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Remark;
    use proptest::prelude::*;

    fn event() -> impl Strategy<Value = LinkEvent> {
        prop_oneof![
            Just(LinkEvent::Refused),
            Just(LinkEvent::Dequeued),
            any::<u32>().prop_map(|attempt| LinkEvent::AttemptStarted { attempt }),
            any::<u32>().prop_map(|attempt| LinkEvent::AttemptFailed { attempt }),
            Just(LinkEvent::Discarded),
            any::<u32>().prop_map(|attempts| LinkEvent::Delivered { attempts }),
            any::<bool>().prop_map(|header_readable| LinkEvent::Damaged { header_readable }),
            Just(LinkEvent::Incomplete),
        ]
    }

    proptest! {
        #[test]
        fn reports_round_trip_beside_a_remark(event in event(), down in any::<bool>()) {
            let direction = if down { Direction::Downlink } else { Direction::Uplink };
            let report = LinkReport { direction, event };
            prop_assert_eq!(LinkReport::read(&report.to_string()), Some(report));
            let remark = Remark::default();
            let both = format!("{report}\n{remark}");
            prop_assert_eq!(LinkReport::read(&both), Some(report));
            prop_assert_eq!(Remark::read(&both), Some(remark));
        }

        #[test]
        fn arbitrary_comments_are_parsed_without_panic(
            text in "(lasthop: )?(downlink |uplink )?(delivered|damaged)?(, attempt )?.{0,12}",
        ) {
            let _ = LinkReport::read(&text);
        }
    }

    #[test]
    fn descriptions_round_trip_and_other_texts_are_none() {
        let some = Subscriptions::DEQUEUED.with(Subscriptions::REFUSED);
        assert_eq!(
            LinkReport::describe(some),
            "what the link reports to the agent: refused, dequeued"
        );
        let all = Subscriptions::SENDING.with(Subscriptions::DAMAGED);
        for subscriptions in [some, all, Subscriptions::RETRIED, Subscriptions::NONE] {
            let text = LinkReport::describe(subscriptions);
            assert_eq!(LinkReport::described(&text), Some(subscriptions));
        }
        assert_eq!(LinkReport::described("what the agent is shown"), None);
        for other in ["", "lasthop: injected", "lasthop: uplink", "lasthop: uplink delivered"] {
            assert_eq!(LinkReport::read(other), None, "{other}");
        }
        assert_eq!(LinkReport::read(&Remark::default().to_string()), None);
    }
}
