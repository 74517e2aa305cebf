//! ICMP errors about segments of a connection (RFC 9293, section 3.9.2.2; RFC 1191).

use lasthop_wire::{IcmpError, Problem};

use super::{End, Endpoint, Phase};

#[allow(clippy::multiple_inherent_impl, reason = "one file for each task of a connection")]
impl Endpoint {
    /// Only an error about a segment in flight is believed (RFC 5927, section 4). One that says
    /// that the peer cannot be reached ends an attempt to connect, never a connection (RFC 5927,
    /// section 5.2): retransmissions decide.
    pub(super) fn process_icmp(&mut self, error: &IcmpError) {
        let (local, remote) = self.addresses();
        if (error.source, error.destination) != (local, remote) || !self.is_in_flight(error.seq) {
            return;
        }
        self.counters.icmp += 1;
        match error.problem {
            // What is too large is cut when the retransmission timer sends it again.
            Problem::TooLarge(mtu) => {
                self.wire.limit_path(mtu);
            }
            Problem::Unreachable { hard: true } if self.phase == Phase::SynSent => {
                self.finish(End::Unreachable);
            }
            Problem::Unreachable { .. } => {}
        }
    }

    fn is_in_flight(&self, number: u32) -> bool {
        match self.phase {
            Phase::SynSent => number == self.wire.secrets.isn,
            Phase::Open => {
                let offset = self.offset_of(number);
                (self.sender.snd_una()..self.sender.snd_max()).contains(&offset)
            }
            Phase::SynReceived { .. } | Phase::TimeWait | Phase::Closed => false,
        }
    }
}
