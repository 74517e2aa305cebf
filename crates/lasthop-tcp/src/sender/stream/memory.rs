//! The memory of streams of many connections one after the other.

use super::Stream;

#[allow(clippy::multiple_inherent_impl, reason = "one file for each concern of the stream")]
impl<W> Stream<W> {
    /// Takes the memory of a stream that is no longer used. This one has sent nothing.
    pub fn reuse_memory(&mut self, old: &mut Self) {
        self.board.reuse_memory(&mut old.board);
        self.recent.reuse_memory(&mut old.recent);
    }
}
