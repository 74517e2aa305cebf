//! Sizes and windows that the headers of a simulated packet cannot show, in its comment.
//!
//! A window field counts multiples of 2^scale bytes (RFC 7323, section 2.2), and a profile may
//! count other headers than those of the packet (ns-2: 40 bytes whatever the options). An agent
//! that computes with the exact numbers then decides by another byte or nanosecond than one that
//! reads the headers. Captures for agents that get reports of links have them as a line of the
//! comment: "lasthop: segment of 1040 bytes, window 73325 bytes".

use std::fmt;

use lasthop::segment::{Flags, Segment};

use crate::render::Endpoints;

const PREFIX: &str = "lasthop: segment of ";

/// The size and the window of a simulated segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExactFields {
    /// Bytes with the headers that the scenario counts.
    pub size: u32,
    /// Receive window, bytes.
    pub window: u32,
}

impl ExactFields {
    /// Those of a segment whose packet has `length` bytes; `None` if the packet shows them.
    pub fn of(segment: &Segment, endpoints: &Endpoints, length: u32) -> Option<ExactFields> {
        let numbering = endpoints.numbering(segment.forward);
        let syn = segment.flags.has(Flags::SYN);
        let shift = if syn { 0 } else { numbering.window_scale };
        let field = u32::from(numbering.window_field(segment.window, syn));
        let shown = (length, field.checked_shl(shift.into()).unwrap_or(0));
        let exact = (segment.size, segment.window);
        (shown != exact).then_some(ExactFields { size: exact.0, window: exact.1 })
    }

    /// Parses the first line of a comment that holds them; `None` if there is none.
    pub fn read(comment: &str) -> Option<ExactFields> {
        comment.lines().find_map(|line| {
            let (size, rest) = line.strip_prefix(PREFIX)?.split_once(" bytes, window ")?;
            let window = rest.strip_suffix(" bytes")?;
            Some(ExactFields { size: size.parse().ok()?, window: window.parse().ok()? })
        })
    }
}

impl fmt::Display for ExactFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{} bytes, window {} bytes", self.size, self.window)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use super::*;
    use crate::{LinkReport, Remark, Side};
    use lasthop::segment::Options;
    use proptest::prelude::*;

    fn endpoints(window_scale: u8) -> Endpoints {
        let side = |address: &str| Side {
            address: address.parse::<SocketAddrV4>().expect("an address"),
            isn: 7,
            window_scale,
        };
        Endpoints { sender: side("10.0.0.1:80"), receiver: side("10.0.0.2:81"), mss: 1000 }
    }

    proptest! {
        /// A packet that shows its size and window has no note, and with it they are exact.
        #[test]
        fn notes_say_what_the_packet_does_not(
            size in 40u32..60,
            window in 0u32..1 << 20,
            scale in 0u8..=14,
            syn in any::<bool>(),
        ) {
            let flags = if syn { Flags::SYN } else { Flags::ACK };
            let segment = Segment { size, window, flags, ..Segment::default() };
            let packet = crate::render_with(&segment, &Options::NONE, &endpoints(scale));
            let read = crate::parse(&packet).expect("TCP");
            let shift = if syn { 0 } else { scale };
            let shown = Segment {
                size: read.total_len,
                window: u32::from(read.window) << shift,
                ..segment
            };
            match ExactFields::of(&segment, &endpoints(scale), packet.len() as u32) {
                None => prop_assert_eq!(shown, segment),
                Some(exact) => {
                    prop_assert_ne!(shown, segment);
                    let text = format!("{}\n{exact}", Remark::default());
                    prop_assert_eq!(ExactFields::read(&text), Some(exact));
                    prop_assert_eq!((exact.size, exact.window), (size, window));
                    prop_assert_eq!(Remark::read(&text), Some(Remark::default()));
                    prop_assert_eq!(LinkReport::read(&text), None);
                }
            }
        }

        #[test]
        fn arbitrary_comments_are_parsed_without_panic(
            text in "(lasthop: segment of )?[0-9]{0,12}( bytes, window )?.{0,20}",
        ) {
            let _ = ExactFields::read(&text);
        }
    }
}
