//! One-way delay: when the bytes of a stream were written, and when they are delivered.

use lasthop::histogram::Histogram;
use lasthop::ring::Ring;
use lasthop::units::Time;

/// When the bytes of a stream were written by the application; for endless flows, when they were
/// first sent.
#[derive(Clone, Debug, Default)]
pub struct WriteTimes {
    log: Ring<(u64, Time)>,
}

impl WriteTimes {
    /// Takes the memory of write times that are no longer used. Nothing is written here.
    pub fn reuse_memory(&mut self, old: &mut Self) {
        self.log.reuse_memory(&mut old.log);
    }

    /// The bytes up to `end` were written at `t`.
    #[inline]
    pub fn push(&mut self, end: u64, t: Time) {
        self.log.push((end, t));
    }

    /// The bytes `[from, from + count)` are delivered at `now`; their delays are recorded in
    /// `delays`.
    #[inline]
    pub fn deliver(&mut self, from: u64, count: u64, now: Time, delays: Option<&mut Histogram>) {
        match (self.log.front(), delays) {
            // In most cases the bytes of one write arrive together.
            (Some(&(end, written_at)), Some(delays)) if end == from + count => {
                delays.record(now - written_at, count);
                self.log.pop();
            }
            (_, delays) => self.deliver_pieces(from, from + count, now, delays),
        }
    }

    #[inline(never)]
    fn deliver_pieces(
        &mut self,
        mut at: u64,
        to: u64,
        now: Time,
        mut delays: Option<&mut Histogram>,
    ) {
        while at < to {
            let Some(&(end, written_at)) = self.log.front() else { return };
            let part = end.min(to).saturating_sub(at);
            if let Some(delays) = &mut delays {
                delays.record(now - written_at, part);
            }
            at += part;
            if end > to {
                return;
            }
            self.log.pop();
        }
    }
}
