//! State of a passive open: the SYN-ACK that is not confirmed.

use super::config::SynAckTimes;
use crate::syn_acks::{Phase, SynAcks};

/// A sender that waits for its receiver to open the connection.
pub(super) struct Listener {
    pub syn_acks: SynAcks,
    pub sent: SynAckTimes,
}

impl Listener {
    /// The number of timeouts of the SYN-ACK that is unanswered.
    pub fn timeouts(&self) -> Option<u32> {
        match self.syn_acks.phase {
            Phase::Answering(timeouts) => Some(timeouts),
            Phase::Listening | Phase::Established | Phase::Forgotten => None,
        }
    }
}
