//! What a misbehaving receiver claims in its ACKs.

use super::Receiver;
use super::misbehaviour::Misbehaviour;
use lasthop_core::segment::Block;

#[allow(clippy::multiple_inherent_impl, reason = "what a lie changes is a file apart")]
impl Receiver {
    /// The receiver misbehaves, if `claims` says how.
    pub fn with_misbehaviour(mut self, claims: Option<Misbehaviour>) -> Self {
        self.misbehaviour = claims;
        if self.is_optimistic() {
            // A selective acknowledgment would say what is missing.
            self.sack_blocks = 0;
        }
        self
    }

    /// Every byte up to the highest one is acknowledged.
    pub(super) fn is_optimistic(&self) -> bool {
        self.misbehaviour == Some(Misbehaviour::OptimisticAcks)
    }

    /// The ACK number that goes with `honest`.
    #[inline(always)]
    pub(super) fn claimed(&self, honest: u64) -> u64 {
        if self.misbehaviour.is_none() { honest } else { self.claimed_beyond(honest) }
    }

    #[cold]
    fn claimed_beyond(&self, honest: u64) -> u64 {
        let highest = self.ahead.highest().filter(|_| self.is_optimistic());
        highest.map_or(honest, |highest| honest.max(highest))
    }

    /// The duplicate that is claimed of an arrival whose bytes begin below `highest`, the end of
    /// those that arrived before.
    pub(super) fn claimed_duplicate(&self, arrival: Block, highest: u64) -> Option<Block> {
        let claims = self.misbehaviour == Some(Misbehaviour::FalseDsack) && self.dsack;
        (claims && arrival.start < highest).then_some(arrival)
    }
}
