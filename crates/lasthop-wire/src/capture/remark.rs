//! Queue lengths and link rates at a node, recorded as the comment of a packet that its agent
//! processed.
//!
//! An agent may query the radio link's queue (Snoop does not cache packets that the queue drops).
//! Packets do not carry this state, so the simulator writes it to the packet's comment: "lasthop:
//! down 49 packets 50960 bytes full 250000 bps, up 0 packets 0 bytes".

use std::fmt;

use lasthop::agent::{NodeView, QueueState};
use lasthop::segment::Direction;
use lasthop::units::Rate;

const PREFIX: &str = "lasthop: ";

/// Queues and rates at a node at the time of a packet. The default is unknown state: empty queues
/// and no rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remark {
    down: Side,
    up: Side,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Side {
    queue: QueueState,
    rate: Option<Rate>,
}

impl Remark {
    /// Records the queues and rates that `node_view` reports now.
    pub fn of(node_view: &dyn NodeView) -> Remark {
        let side =
            |direction| Side { queue: node_view.queue(direction), rate: node_view.rate(direction) };
        Remark { down: side(Direction::Downlink), up: side(Direction::Uplink) }
    }

    /// Parses the first line of a comment that holds a remark; `None` if there is none.
    pub fn read(comment: &str) -> Option<Remark> {
        comment.lines().find_map(|line| {
            let (down, up) = line.strip_prefix(PREFIX)?.split_once(", ")?;
            Some(Remark {
                down: Side::read(down.strip_prefix("down ")?)?,
                up: Side::read(up.strip_prefix("up ")?)?,
            })
        })
    }

    fn side(&self, direction: Direction) -> &Side {
        if direction == Direction::Downlink { &self.down } else { &self.up }
    }
}

impl NodeView for Remark {
    fn queue(&self, direction: Direction) -> QueueState {
        self.side(direction).queue
    }
    fn rate(&self, direction: Direction) -> Option<Rate> {
        self.side(direction).rate
    }
}

impl Side {
    fn read(text: &str) -> Option<Side> {
        let (packets, rest) = text.split_once(" packets ")?;
        let (bytes, mut rest) = rest.split_once(" bytes")?;
        let full = rest.strip_prefix(" full");
        rest = full.unwrap_or(rest);
        let rate = match rest {
            "" => None,
            _ => Some(Rate(rest.strip_prefix(' ')?.strip_suffix(" bps")?.parse().ok()?)),
        };
        Some(Side {
            queue: QueueState {
                packets: packets.parse().ok()?,
                bytes: bytes.parse().ok()?,
                full: full.is_some(),
            },
            rate,
        })
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}down {}, up {}", self.down, self.up)
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets {} bytes", self.queue.packets, self.queue.bytes)?;
        f.write_str(if self.queue.full { " full" } else { "" })?;
        self.rate.map_or(Ok(()), |Rate(bps)| write!(f, " {bps} bps"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn remarks_parse_and_other_comments_do_not() {
        let down = Side {
            queue: QueueState { packets: 49, bytes: 50_960, full: true },
            rate: Some(Rate(250_000)),
        };
        let remark = Remark { down, up: Side::default() };
        assert_eq!(
            remark.to_string(),
            "lasthop: down 49 packets 50960 bytes full 250000 bps, up 0 packets 0 bytes"
        );
        assert!(remark.queue(Direction::Downlink).full && remark.rate(Direction::Uplink).is_none());
        for other in [
            "",
            "lasthop: injected",
            "lasthop: down 1 packets 2 bytes",
            "lasthop: down 1 packets 2 bytes x, up 0 packets 0 bytes",
        ] {
            assert_eq!(Remark::read(other), None, "{other}");
        }
    }

    fn side() -> impl Strategy<Value = Side> {
        (any::<u64>(), any::<u64>(), any::<bool>(), any::<Option<u64>>()).prop_map(
            |(packets, bytes, full, rate)| Side {
                queue: QueueState { packets, bytes, full },
                rate: rate.map(Rate),
            },
        )
    }

    proptest! {
        #[test]
        fn remarks_round_trip(down in side(), up in side()) {
            let remark = Remark { down, up };
            prop_assert_eq!(Remark::read(&remark.to_string()), Some(remark));
            let lines = format!("dropped by the agent\n{remark}\n");
            prop_assert_eq!(Remark::read(&lines), Some(remark));
            prop_assert_eq!(Remark::of(&remark), remark);
        }

        #[test]
        fn arbitrary_comments_are_parsed_without_panic(
            text in "(lasthop: )?(down )?[0-9]{0,3}( packets )?.{0,20}",
        ) {
            let _ = Remark::read(&text);
        }
    }
}
