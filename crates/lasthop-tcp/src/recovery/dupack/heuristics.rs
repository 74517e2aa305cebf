//! Fast retransmits that the guard of NewReno would forbid: the heuristics that tell, after a
//! timeout, duplicate ACKs of a new loss from those of segments sent again for nothing (RFC 6582,
//! section 4; ns-2 `NewRenoTcpAgent::dupack_action`).

use crate::profile::Profile;
use crate::sender::stream::Stream;
use crate::timestamps::timestamp;
use crate::window::WindowRule;
use lasthop_core::segment::{Flags, Segment};

/// What the last ACK of new data has shown.
#[derive(Clone, Copy, Debug)]
pub struct Heuristics {
    /// Most segments that it may acknowledge; 0: their number does not count.
    segments: u32,
    by_timestamp: bool,
    /// All that had been sent at the last reduction is acknowledged, and no more.
    less_careful: bool,
    /// Bytes that it newly acknowledged.
    acked: u64,
    /// It echoes the last transmission of the segment just below its number.
    answers_last_copy: bool,
}

impl Heuristics {
    /// Those of a profile; `None` if it has none.
    pub fn of(profile: &Profile) -> Option<Box<Heuristics>> {
        let segments = profile.guard_ack_heuristic;
        let by_timestamp = profile.guard_timestamp_heuristic && profile.timestamps;
        let less_careful = profile.guard_less_careful;
        (segments > 0 || by_timestamp || less_careful).then(|| {
            let (acked, answers_last_copy) = (0, false);
            Box::new(Heuristics { segments, by_timestamp, less_careful, acked, answers_last_copy })
        })
    }

    /// An ACK of new data arrives; the scoreboard still has what it acknowledges.
    pub fn note<W: WindowRule>(&mut self, stream: &Stream<W>, segment: &Segment) {
        self.acked = segment.ack - stream.snd_una();
        self.answers_last_copy = self.by_timestamp
            && segment.flags.has(Flags::TIMESTAMPS)
            && stream
                .board()
                .get(segment.ack - 1)
                .is_some_and(|last| timestamp(last.last_sent) == segment.ts_echo);
    }

    /// The duplicate ACKs that follow show a loss; `recover`: the byte that an ACK must pass.
    pub fn show_loss<W: WindowRule>(&self, stream: &Stream<W>, recover: Option<u64>) -> bool {
        let mss = u64::from(stream.mss());
        let few = self.segments > 0
            && self.acked <= u64::from(self.segments) * mss
            && stream.window().cwnd > mss as f64;
        let all = self.less_careful && recover == Some(stream.snd_una());
        few || all || self.answers_last_copy
    }
}
