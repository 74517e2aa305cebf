//! TCP with selective negative acknowledgments (SNACK), as in SCPS-TP: the receiver asks for what
//! it misses, all of it at once.
//!
//! Source: CCSDS 714.0 (SCPS-TP), of which paul2005 takes the option and the delay. Deployed at:
//! both ends. Wire: TCP option 21 on ACKs, 8 to 16 bytes: place and size of the first hole and a
//! map of the blocks behind it, in units of the MSS.
//!
//! Idea: A duplicate ACK names one hole, and repairing the next one takes another round trip. A
//! receiver that has missed something for `delay` (so that reordering does not count) asks for all
//! its holes, and again each `delay` while data arrive and holes remain. The sender sends each hole
//! again at once, at most a window of data, nothing whose copy may be under way, and restarts its
//! timer. Its window is left alone: three duplicate ACKs still halve it, once for each recovery, as
//! in NewReno. Assumes: a receiver that can tell the size of a full segment. Today: SACK gives the
//! sender the same knowledge. Bad at: reordering for longer than the delay (what was asked for goes
//! out twice), SNACKs that are lost (the next one asks again), the end of a transfer (nothing
//! arrives that could ask again; the sender's timer repairs that).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::balakrishnan_eln;
use crate::catalogue::{
    Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::snack;
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::receiver::{Held, ReceiverRule, Reply};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};

/// Settings of SNACK.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Snack {
    /// Age at which a hole is requested, and minimum time between two requests of it (50 ms:
    /// paul2005).
    pub delay: Duration,
    /// Recovery of the sender; it has to respond to SNACKs (`+eln`).
    pub recovery: RecoverySetting,
}

/// 50 ms (paul2005).
pub const DELAY: Duration = Duration(50_000_000);

impl Default for Snack {
    fn default() -> Self {
        Snack {
            delay: DELAY,
            recovery: Recovery {
                hints: Some(balakrishnan_eln::HINTS.rules()),
                ..Recovery::of(RecoveryKind::Newreno)
            }
            .into(),
        }
    }
}

impl SchemeConfig for Snack {
    const ENTRY: Entry = Entry {
        name: "snack",
        family: Family::EndToEnd,
        group: Some(Group::LossRecovery),
        summary: "the receiver asks for all that it misses; the sender sends it at once and \
                  leaves its window to the duplicate ACKs",
        paper: "CCSDS 714.0 (SCPS-TP)",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if self.recovery.hints.is_none() {
            return Err(format!(
                "recovery = \"{}\" does not respond to SNACKs; one that does ends in +eln, such as \
                 newreno+eln or sack+eln",
                self.recovery
            ));
        }
        Ok(())
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(self.recovery.0))
    }

    fn receiver(&self) -> Option<Box<dyn ReceiverRule>> {
        Some(Box::new(SnackReceiver::new(self.delay)))
    }
}

/// A receiver that requests what it misses.
#[derive(Clone, Debug)]
pub struct SnackReceiver {
    delay: Duration,
    /// The largest segment seen.
    unit: u32,
    /// When holes may be requested; `NEVER` while nothing is missing.
    due: Time,
    /// Holes below this byte are old enough by then.
    mark: u64,
    /// True if there are holes that were not requested: they are requested when they are due, with
    /// or without an arrival.
    unasked: bool,
}

impl SnackReceiver {
    /// A receiver with this delay.
    pub fn new(delay: Duration) -> SnackReceiver {
        SnackReceiver { delay, unit: 1, due: Time::NEVER, mark: 0, unasked: false }
    }

    /// Requests the holes that are old enough.
    fn ask(&mut self, now: Time, held: &Held<'_>) -> Option<snack::Snack> {
        let old = held.holes().take_while(|h| h.end <= self.mark);
        let snack = snack::Snack::of(old, self.unit);
        self.unasked = held.holes().any(|h| h.end > self.mark);
        (self.mark, self.due) = (held.highest(), now + self.delay);
        snack
    }
}

impl ReceiverRule for SnackReceiver {
    fn on_data(&mut self, _: Time, segment: &Segment, _: u64, highest: u64) -> Reply {
        self.unit = self.unit.max(segment.len);
        self.unasked |= self.due < Time::NEVER && segment.seq > highest;
        Reply::default()
    }

    fn asks(&mut self, now: Time, _: &Segment, held: &Held<'_>) -> Option<snack::Snack> {
        if held.highest() == held.next() {
            (self.due, self.unasked) = (Time::NEVER, false);
        } else if self.due == Time::NEVER {
            (self.due, self.mark, self.unasked) = (now + self.delay, held.highest(), true);
        } else if now >= self.due {
            return self.ask(now, held);
        }
        None
    }

    fn deadline(&self) -> Time {
        if self.unasked { self.due } else { Time::NEVER }
    }

    fn on_timer(&mut self, now: Time, held: &Held<'_>) -> Option<(snack::Snack, Flags)> {
        self.ask(now, held).map(|snack| (snack, Flags::NONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_core::segment::Options;
    use lasthop_tcp::profile::{DelayedAck, Profile, ProfileName};
    use lasthop_tcp::receiver::{Receiver, ReceiverConfig};
    use lasthop_tcp::sender::{Output, SendReason};

    /// An ACK: time (ms), number, and the requested holes, in segments.
    type Asked = (u64, u64, Vec<(u64, u64)>);

    #[derive(Default)]
    struct Log(Vec<Asked>, Time);

    impl Output for Log {
        fn send(&mut self, segment: Segment, reason: SendReason) {
            self.send_with(segment, &Options::NONE, reason);
        }
        fn send_with(&mut self, segment: Segment, options: &Options, _: SendReason) {
            let asked = segment.flags.has(Flags::SNACK);
            let holes = options
                .snack
                .holes()
                .filter(|_| asked)
                .map(|h| (h.start / 1000, h.end / 1000))
                .collect();
            assert_eq!(segment.size, 40 + if asked { options.snack.bytes() } else { 0 });
            self.0.push((self.1.0 / 1_000_000, segment.ack / 1000, holes));
        }
    }

    /// Requests of a receiver without SACK when segments arrive at these times: (ms, number). Its
    /// timer runs in between.
    fn asked(arrivals: &[(u64, u64)]) -> Vec<Asked> {
        let config = ReceiverConfig {
            flow: 1,
            to: 0,
            headers: 40,
            mss: 1000,
            buffer: 1_000_000,
            manual_read: false,
        };
        let profile = Profile {
            sack: false,
            timestamps: false,
            delayed_ack: DelayedAck::Switch(false),
            ..Profile::named(ProfileName::Rfc)
        };
        let mut r = Receiver::new(config, &profile, Snack::default().receiver());
        let mut log = Log::default();
        r.on_segment(
            Time::ZERO,
            &Segment { flags: Flags::SYN, forward: true, ..Segment::default() },
            &mut log,
        );
        log.0.clear();
        for (at, number) in arrivals.iter().copied().chain([(10_000, u64::MAX)]) {
            let at = Time::ZERO + Duration::millis(at);
            while r.deadline().0 <= at {
                log.1 = r.deadline().0;
                r.on_timer(log.1, &mut log);
            }
            log.1 = at;
            if number < u64::MAX {
                let data = Segment {
                    seq: number * 1000,
                    len: 1000,
                    flags: Flags::ACK,
                    forward: true,
                    ..Segment::default()
                };
                r.on_segment(at, &data, &mut log);
            }
        }
        log.0.retain(|l| !l.2.is_empty());
        log.0
    }

    #[test]
    fn a_hole_is_asked_for_when_it_is_old_enough() {
        // The timer sends a separate ACK with the request; later arrivals repeat it, each 50 ms.
        let arrivals = [(0, 0), (10, 2), (20, 3), (40, 4), (70, 5), (100, 6), (115, 7), (120, 8)];
        assert_eq!(asked(&arrivals), [(60, 1, vec![(1, 2)]), (115, 1, vec![(1, 2)])]);
        // Arrivals within the delay were reordered.
        assert_eq!(asked(&[(0, 0), (10, 2), (20, 3), (59, 1), (200, 4)]), []);
        // All holes at once.
        assert_eq!(
            asked(&[(0, 0), (10, 2), (20, 5), (30, 8), (61, 9)]),
            [(60, 1, vec![(1, 2)]), (110, 1, vec![(1, 2), (3, 5), (6, 8)])]
        );
    }

    #[test]
    fn nothing_is_asked_for_without_end() {
        // Without further arrivals: one request per hole.
        assert_eq!(
            asked(&[(0, 0), (10, 2), (20, 4)]),
            [(60, 1, vec![(1, 2)]), (110, 1, vec![(1, 2), (3, 4)])]
        );
    }

    /// A SNACK that is duplicated or late requests data that have arrived: these are not
    /// retransmitted.
    #[test]
    fn what_has_come_is_not_asked_for() {
        let arrivals =
            [(0, 0), (10, 2), (20, 4), (70, 5), (80, 1), (130, 6), (140, 3), (500, 8), (540, 7)];
        assert_eq!(asked(&arrivals), [(60, 1, vec![(1, 2)]), (110, 3, vec![(3, 4)])]);
    }

    #[test]
    fn a_recovery_that_does_not_listen_is_refused() {
        let of = |recovery: &str| Snack { recovery: recovery.parse().unwrap(), ..Snack::default() };
        assert!(of("newreno").check().unwrap_err().contains("newreno+eln"));
        assert!(of("sack+eln").check().is_ok());
    }
}
