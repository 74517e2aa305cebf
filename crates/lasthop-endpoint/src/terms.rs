//! What the two SYNs of a connection negotiate.

use lasthop::schemes::catalogue::{AnyWindow, SenderPart};
use lasthop::tcp::profile::Profile;
use lasthop_wire::TcpPacket;
use lasthop_wire::options::TcpOption;
use lasthop_wire::render::{MAX_WINDOW_SCALE, window_scale_for};

use crate::ecn::Ecn;
use crate::settings::{RelayEnd, Settings, TIMESTAMPS_BYTES, with_wire_rules};

/// The MSS of a peer that names none (RFC 9293, section 3.7.1).
const DEFAULT_MSS: [u16; 2] = [536, 1220];
/// The smallest MSS that is believed: less would make a segment of nothing but headers.
const LEAST_MSS: u16 = 88;

/// What one end offers in its SYN, or both have agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Largest payload beside no options, bytes.
    pub mss: u16,
    pub sack: bool,
    pub timestamps: bool,
    /// The shift of this offer, or the peer's (RFC 7323, section 2).
    pub window_scale: Option<u8>,
    pub ecn: Ecn,
}

/// What the SYN of a connection says that another one continues: its sequence numbers and sizes of
/// segments stay the same, so that a packet filter on the way need not know that there are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original {
    /// Initial sequence number.
    pub isn: u32,
    /// Payload bytes of a full segment.
    pub segment: u32,
}

impl Original {
    /// What a SYN or SYN-ACK says.
    pub fn of(tcp: &TcpPacket<'_>) -> Original {
        Original { isn: tcp.seq, segment: Terms::of(tcp).segment() }
    }
}

/// Bytes of IP and TCP headers without options.
pub(crate) fn headers(is_v6: bool) -> u32 {
    if is_v6 { 60 } else { 40 }
}

impl Terms {
    /// What this end offers.
    pub fn offer(settings: &Settings, is_v6: bool) -> Terms {
        let (_, profile) = settings.stack(&settings.profile);
        let mss = settings.mtu.saturating_sub(headers(is_v6)).max(u32::from(LEAST_MSS));
        Terms {
            mss: u16::try_from(mss).unwrap_or(u16::MAX),
            sack: profile.sack,
            timestamps: profile.timestamps,
            window_scale: Some(window_scale_for(settings.receive_buffer)),
            ecn: Ecn::of_profile(&profile),
        }
    }

    /// What a SYN or SYN-ACK of the peer says.
    pub fn of(tcp: &TcpPacket<'_>) -> Terms {
        let is_v6 = tcp.addressing.source.is_ipv6();
        let [v4, v6] = DEFAULT_MSS;
        let mut terms = Terms {
            mss: if is_v6 { v6 } else { v4 },
            sack: false,
            timestamps: false,
            window_scale: None,
            ecn: Ecn::of_syn(tcp.flags()),
        };
        for option in tcp.options().map_while(Result::ok) {
            match option {
                TcpOption::MaximumSegmentSize(mss) => terms.mss = mss.max(LEAST_MSS),
                TcpOption::SackPermitted => terms.sack = true,
                TcpOption::Timestamps { .. } => terms.timestamps = true,
                TcpOption::WindowScale(shift) => {
                    terms.window_scale = Some(shift.min(MAX_WINDOW_SCALE));
                }
                _ => {}
            }
        }
        terms
    }

    /// What holds if one end offers this, and the other `peer`: the smaller MSS, what both offer,
    /// and the peer's window scale.
    pub fn with(&self, peer: &Terms) -> Terms {
        Terms {
            mss: self.mss.min(peer.mss),
            sack: self.sack && peer.sack,
            timestamps: self.timestamps && peer.timestamps,
            window_scale: self.window_scale.and(peer.window_scale),
            ecn: self.ecn.min(peer.ecn),
        }
    }

    /// Payload bytes of a full segment (RFC 6691).
    pub fn segment(&self) -> u32 {
        let options = if self.timestamps { TIMESTAMPS_BYTES } else { 0 };
        u32::from(self.mss).saturating_sub(options)
    }
}

/// The components of a connection under its terms.
pub(crate) struct Components {
    pub part: SenderPart,
    pub profile: Profile,
    pub window: AnyWindow,
}

impl Components {
    /// Without SACK, timestamps or ECN the scheme works as it does under a profile without them.
    pub fn new(settings: &Settings, terms: &Terms) -> Components {
        let profile = &settings.profile;
        let allowed = Profile {
            sack: profile.sack && terms.sack,
            timestamps: profile.timestamps && terms.timestamps,
            ecn: profile.ecn && terms.ecn > Ecn::Off,
            accurate_ecn: profile.accurate_ecn && terms.ecn == Ecn::Accurate,
            l4s: profile.l4s && terms.ecn == Ecn::Accurate,
            ..with_wire_rules(profile)
        };
        let relays = settings.relay == Some(RelayEnd::Outbound);
        let (mut part, mut profile) = settings.stack(&allowed);
        let lacks = part.needs.timestamps && !terms.timestamps || part.needs.sack && !terms.sack;
        if relays && lacks {
            // The protocol of the second leg needs them: without them it is TCP.
            part = settings.scheme.sender(&allowed);
            profile = part.profile(&allowed);
        }
        let profile = Profile {
            sack: profile.sack && terms.sack,
            timestamps: terms.timestamps,
            ecn: terms.ecn > Ecn::Off,
            accurate_ecn: terms.ecn == Ecn::Accurate,
            l4s: profile.l4s && terms.ecn == Ecn::Accurate,
            ..with_wire_rules(&profile)
        };
        let steered = settings.scheme.scheme.outbound_window().filter(|_| relays);
        let window = steered.unwrap_or_else(|| part.window());
        Components { window, part, profile }
    }
}
