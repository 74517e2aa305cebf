//! Undo by D-SACK (RFC 2883, as in Linux): a reduction is spurious if every retransmission since
//! then is reported as a duplicate.

use crate::recovery::config::Recovery;
use crate::window::Window;
use lasthop_core::segment::Block;

/// Undo by D-SACK needs SACK blocks.
///
/// # Errors
///
/// The message says which recoveries it goes with.
pub fn check(recovery: &Recovery) -> Result<(), String> {
    if recovery.dsack_undo && !recovery.uses_sack() {
        return Err("dsack-undo needs a SACK recovery (sack, fack, rack)".into());
    }
    Ok(())
}

/// A reduction that D-SACKs may show to be spurious.
#[derive(Clone, Copy, Debug)]
pub struct Undo {
    before: Window,
    from: u64,
    /// Retransmissions since then that no D-SACK has reported as duplicates.
    unreported: u64,
}

impl Undo {
    /// A reduction with the window `before` it, and snd_una at that time.
    pub fn new(before: Window, snd_una: u64) -> Undo {
        Undo { before, from: snd_una, unreported: 0 }
    }

    /// The window before the reduction.
    pub fn before(&self) -> Window {
        self.before
    }

    /// A segment is retransmitted.
    #[inline]
    pub fn on_retransmitted(&mut self) {
        self.unreported += 1;
    }

    /// A D-SACK block. True if all retransmissions have now been reported.
    pub fn on_duplicate(&mut self, duplicate: Block) -> bool {
        if duplicate.end <= self.from || self.unreported == 0 {
            return false;
        }
        self.unreported -= 1;
        self.unreported == 0
    }
}

/// The D-SACK block of an ACK: a first block that is acknowledged or SACKed anyway (RFC 2883,
/// section 4).
pub fn duplicate_of(blocks: &[Block], ack: u64) -> Option<Block> {
    let first = *blocks.first()?;
    let within = blocks.get(1).is_some_and(|b| b.start <= first.start && first.end <= b.end);
    (first.end <= ack || within).then_some(first)
}
