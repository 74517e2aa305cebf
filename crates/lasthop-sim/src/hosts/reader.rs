//! A receiving application that does not read at once what has arrived in order.

use lasthop::scenario::ReaderSpec;
use lasthop::units::Time;

use crate::engine::scheduler::Source;
use crate::events::probe::Probe;
use crate::network::Net;

/// The reader of a flow.
pub(crate) struct ReaderHost {
    spec: ReaderSpec,
    /// The most that it reads at a time while its rate limits it, bytes.
    segment: u64,
    /// When it has processed what it read last.
    free: Time,
    /// Event source of its timer.
    source: Source,
}

impl ReaderHost {
    pub(crate) fn new(spec: ReaderSpec, segment: u32, source: Source) -> ReaderHost {
        ReaderHost { spec, segment: u64::from(segment), free: Time::ZERO, source }
    }

    /// The number of bytes that it reads now, of `unread` bytes. Its timer is set to the time at
    /// which it reads more of them.
    pub(crate) fn read<P: Probe>(&mut self, unread: u64, net: &mut Net<P>) -> u64 {
        let next = self.after_pauses(self.free.max(net.now));
        let count = match self.spec.rate {
            _ if next > net.now => 0,
            None => unread,
            Some(rate) => {
                let count = unread.min(self.segment);
                self.free = net.now + rate.time_for(count);
                count
            }
        };
        if count < unread {
            let at = self.after_pauses(self.free.max(net.now));
            net.scheduler.set(self.source, at.0, net.now.0);
        } else {
            net.scheduler.clear(self.source);
        }
        count
    }

    /// The first time at or after `at` that is in no pause.
    fn after_pauses(&self, at: Time) -> Time {
        self.spec.pauses.iter().fold(at, |at, pause| {
            let (from, end) = (Time::ZERO + pause.from, Time::ZERO + pause.end());
            if from <= at { at.max(end) } else { at }
        })
    }
}
