//! Initial sequence numbers (RFC 6528).

use std::hash::BuildHasher;
use std::net::SocketAddr;

use lasthop::units::Time;

/// Nanoseconds of a tick of the sequence number clock (RFC 9293, section 3.4.1).
const TICK_NS: u64 = 4000;

/// What only this host can compute of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Initial sequence number.
    pub isn: u32,
    /// Offset of the timestamp clock, microseconds, so that it does not show how long the host has
    /// been running (RFC 7323, section 5.4).
    pub timestamp_offset: u32,
}

/// The initial sequence number of a connection that is opened now: a clock with ticks of 4 µs, plus
/// a keyed hash of both addresses (RFC 6528, section 3). Without `key` nobody can compute it from
/// the numbers of other connections.
///
/// # Examples
///
/// ```
/// use std::hash::RandomState;
///
/// use lasthop::units::{Duration, Time};
/// use lasthop_endpoint::initial_sequence_number;
///
/// // SipHash with a key from the operating system.
/// let key = RandomState::new();
/// let (local, remote) = ("10.0.0.1:80".parse()?, "10.0.0.2:5000".parse()?);
/// let isn = |now| initial_sequence_number(&key, local, remote, now).isn;
/// let later = Time::ZERO + Duration::millis(4);
/// assert_eq!(isn(later).wrapping_sub(isn(Time::ZERO)), 1000);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub fn initial_sequence_number(
    key: &impl BuildHasher,
    local: SocketAddr,
    remote: SocketAddr,
    now: Time,
) -> Secrets {
    let hash = key.hash_one((local, remote));
    Secrets {
        isn: (hash as u32).wrapping_add((now.0 / TICK_NS) as u32),
        timestamp_offset: (hash >> 32) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::RandomState;

    #[test]
    fn numbers_differ_by_address_and_key() {
        let address = |port: u16| SocketAddr::new([10, 0, 0, 1].into(), port);
        let (a, b) = (RandomState::new(), RandomState::new());
        let isn = |key, port| initial_sequence_number(key, address(80), address(port), Time::ZERO);
        assert_eq!(isn(&a, 1), isn(&a, 1));
        assert_ne!(isn(&a, 1), isn(&a, 2));
        assert_ne!(isn(&a, 1), isn(&b, 1));
    }
}
