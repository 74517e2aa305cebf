//! The blocks of the SACK option (RFC 2018).

/// A range of bytes [start, end).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Stream offset of the first byte.
    pub start: u64,
    /// Stream offset after the last byte.
    pub end: u64,
}

/// Up to four received ranges, most recent first (RFC 2018 section 4).
#[derive(Clone, Copy, Debug, Default)]
pub struct SackBlocks {
    blocks: [Block; 4],
    len: u8,
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &SackBlocks) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

impl SackBlocks {
    /// No blocks.
    pub const NONE: SackBlocks = SackBlocks { blocks: [Block { start: 0, end: 0 }; 4], len: 0 };

    /// Number of blocks that there is room for.
    pub const MOST: usize = 4;

    /// Appends a block; a fifth block is ignored.
    #[inline]
    pub fn push(&mut self, start: u64, end: u64) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.len)) {
            *slot = Block { start, end };
            self.len += 1;
        }
    }

    /// Copies the blocks of `other`.
    #[inline]
    pub fn set(&mut self, other: &SackBlocks) {
        self.len = other.len;
        self.blocks.iter_mut().zip(other.as_slice()).for_each(|(mine, its)| *mine = *its);
    }

    /// The first block, to change it.
    #[inline]
    pub fn first_mut(&mut self) -> Option<&mut Block> {
        if self.len == 0 { None } else { self.blocks.first_mut() }
    }

    /// Removes the blocks that are not `wanted`.
    pub fn retain(&mut self, wanted: impl Fn(&Block) -> bool) {
        let before = std::mem::replace(self, SackBlocks::NONE);
        let kept = before.as_slice().iter().filter(|b| wanted(b));
        kept.for_each(|b| self.push(b.start, b.end));
    }

    /// The blocks.
    #[inline]
    pub fn as_slice(&self) -> &[Block] {
        &self.blocks[..usize::from(self.len)]
    }
}
