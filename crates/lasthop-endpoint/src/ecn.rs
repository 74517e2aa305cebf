//! Which feedback of ECN the two SYNs of a connection negotiate, and what the three bits AE, CWR
//! and ECE of their header mean.
//!
//! Source: RFC 9768 (AccECN), sections 3.1 and 3.2.2.1; RFC 3168, section 6.1.1. The AccECN option
//! is neither sent nor read, which the RFC permits: the count of the three bits is enough.

use etherparse::TcpHeader;
use lasthop::segment::Flags;
use lasthop::tcp::profile::Profile;

/// The bits of the count (ACE).
pub(crate) const COUNT: Flags = Flags::AE.with(Flags::CWR).with(Flags::ECE);

/// SYNs that offer ECN; if they are lost, later ones do without (RFC 9768, section 3.1.4).
pub(crate) const SYNS: u32 = 2;

/// Feedback of ECN, the better one last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ecn {
    /// None.
    Off,
    /// The echo of RFC 3168.
    Classic,
    /// The count of AccECN.
    Accurate,
}

impl Ecn {
    /// What a profile asks for.
    pub fn of_profile(profile: &Profile) -> Ecn {
        match (profile.ecn, profile.accurate_ecn) {
            (false, _) => Ecn::Off,
            (true, false) => Ecn::Classic,
            (true, true) => Ecn::Accurate,
        }
    }

    /// What the flags of a SYN or SYN-ACK say (RFC 9768, table 2). A SYN with a combination that is
    /// not assigned counts as one with AccECN (section 3.1.2).
    pub fn of_syn(flags: Flags) -> Ecn {
        match (flags.has(Flags::ACK), count(flags)) {
            (_, 0) | (true, 7) => Ecn::Off,
            (false, 3) | (true, 1 | 5) => Ecn::Classic,
            _ => Ecn::Accurate,
        }
    }

    /// The bits of a SYN.
    pub fn offer(self) -> u8 {
        match self {
            Ecn::Off => 0,
            Ecn::Classic => 3,
            Ecn::Accurate => 7,
        }
    }

    /// The bits of a SYN-ACK without AccECN.
    pub fn answer(self) -> u8 {
        u8::from(self == Ecn::Classic)
    }
}

/// The three bits of a header.
fn count(flags: Flags) -> u8 {
    let bit = |flag, value| if flags.has(flag) { value } else { 0 };
    bit(Flags::AE, 4) + bit(Flags::CWR, 2) + bit(Flags::ECE, 1)
}

/// True of the ACK of a SYN-ACK, from whose header a middlebox has removed the bits: of all values,
/// a client with AccECN never sends 0 (RFC 9768, section 3.2.2.1, table 4).
pub(crate) fn is_cleared(flags: Flags) -> bool {
    count(flags) == 0 && !flags.any(Flags::SYN.with(Flags::FIN).with(Flags::SACK))
}

/// Sets the three bits.
pub(crate) fn set_count(tcp: &mut TcpHeader, count: u8) {
    (tcp.ns, tcp.cwr, tcp.ece) = (count & 4 != 0, count & 2 != 0, count & 1 != 0);
}

/// The three bits with which a SYN-ACK, or the ACK of one, tells which ECN field the SYN or SYN-ACK
/// had (RFC 9768, tables 2 and 3).
pub(crate) fn handshake_count(mark: u8) -> u8 {
    match mark & 3 {
        3 => 6,
        mark => mark + 2,
    }
}

/// The flags of the last segment of a handshake, of which the bits are no count, as if they were
/// one: no mark has been counted, or one if the SYN-ACK was marked (RFC 9768, section 3.2.2.1).
pub(crate) fn after_handshake(flags: Flags) -> Flags {
    let plain = flags.without(COUNT);
    if flags.has(Flags::SYN) {
        return plain;
    }
    match count(flags) {
        6 => plain.with(Flags::AE).with(Flags::CWR),
        _ => plain.with(Flags::AE).with(Flags::ECE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(count: u8) -> Flags {
        let bit = |place: u8, flag| if count >> place & 1 == 1 { flag } else { Flags::NONE };
        bit(2, Flags::AE).with(bit(1, Flags::CWR)).with(bit(0, Flags::ECE))
    }

    #[test]
    fn flags_of_syns_are_those_of_table_2() {
        use Ecn::{Accurate, Classic, Off};
        let syn = |count| Ecn::of_syn(Flags::SYN.with(bits(count)));
        let syn_ack = |count| Ecn::of_syn(Flags::SYN.with(Flags::ACK).with(bits(count)));
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 6, 7].map(syn),
            [Off, Accurate, Accurate, Classic, Accurate, Accurate, Accurate, Accurate]
        );
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 6, 7].map(syn_ack),
            [Off, Classic, Accurate, Accurate, Accurate, Classic, Accurate, Off]
        );
        for ecn in [Off, Classic, Accurate] {
            assert_eq!(syn(ecn.offer()), ecn);
        }
        assert_eq!([Off, Classic].map(|ecn| syn_ack(ecn.answer())), [Off, Classic]);
    }

    #[test]
    fn the_answer_tells_the_ecn_field_of_the_syn() {
        // Not-ECT, ECT(1), ECT(0), CE.
        assert_eq!([0, 1, 2, 3].map(handshake_count), [2, 3, 4, 6]);
        let read = |count| super::count(after_handshake(Flags::ACK.with(bits(count))));
        assert_eq!([2, 3, 4, 6].map(read), [5, 5, 5, 6]);
    }
}
