//! The fast path for ACKs of new data of a connection in its usual state: established, recovery by
//! duplicate ACKs without additions, nothing to be retransmitted, no options. It does what
//! `on_segment` does, without the questions whose answers are known.

use super::{Limit, Sender};
use crate::recovery::engine::Engine;
use crate::sender::config::{Output, State};
use crate::sender::stream::plain::{AfterPlainAck, Rest};
use crate::window::WindowRule;
use lasthop_core::units::Time;

#[allow(clippy::multiple_inherent_impl, reason = "the fast path is a file apart")]
impl<W: WindowRule> Sender<W> {
    /// An ACK without options and without data that acknowledges all bytes below `ack` and
    /// advertises `window`. `take` sends the new segment of full size, without options, that begins
    /// at a byte; it returns false if it cannot.
    #[inline(always)]
    pub fn on_plain_ack(
        &mut self,
        now: Time,
        ack: u64,
        window: u32,
        take: impl FnMut(u64) -> bool,
    ) -> AfterPlainAck {
        let stream = &mut self.stream;
        let usual = self.plain
            && ack > stream.snd_una()
            && ack <= stream.snd_max()
            && ack < stream.written()
            && u64::from(window) == stream.rwnd();
        if !usual {
            return AfterPlainAck::Other;
        }
        stream.on_plain_ack(now, ack, take)
    }

    /// Sends what [`Sender::on_plain_ack`] has left over. Returns what limits the sender
    /// afterwards.
    #[inline(never)]
    pub fn send_rest(&mut self, now: Time, rest: Rest, out: &mut impl Output) -> Limit {
        let limit = self.stream.send_rest(now, rest, out);
        limit.unwrap_or_else(|| self.limited_by())
    }

    /// After an ACK that has taken the slow path: notes whether the next one may take the fast one.
    /// Every other input ends that, see `leave_plain`.
    #[inline]
    pub(super) fn update_plain(&mut self) {
        self.plain = match &self.recovery {
            Engine::Dupack(recovery) => {
                recovery.is_plain()
                    && self.stream.state() == State::Established
                    && self.stream.is_plain()
            }
            Engine::Sack(_) | Engine::SackNs2(_) => false,
        };
    }

    /// The next ACK takes the slow path.
    #[inline]
    pub(super) fn leave_plain(&mut self) {
        self.plain = false;
        self.stream.unfold();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, ProfileName};
    use crate::sender::{SendReason, SenderConfig};
    use crate::window::{Ack, Needs, Window, grow, window_rule};
    use lasthop_core::segment::{Flags, Options, Segment};
    use lasthop_core::units::{Duration, Size};
    use proptest::prelude::*;

    const MSS: u32 = 1000;

    struct Reno {
        /// The sender may open the window itself.
        known: bool,
    }

    #[window_rule]
    impl WindowRule for Reno {
        fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
            grow(window, ack);
        }

        fn grows_as_reno(&self) -> bool {
            self.known
        }
    }

    /// What a sender sends.
    #[derive(Default)]
    struct Host(Vec<Segment>);

    impl Output for Host {
        fn send(&mut self, segment: Segment, _reason: SendReason) {
            self.0.push(segment);
        }

        fn send_with(&mut self, segment: Segment, _options: &Options, reason: SendReason) {
            self.send(segment, reason);
        }
    }

    /// The settings of a connection.
    #[derive(Clone, Copy, Debug)]
    struct Case {
        profile: ProfileName,
        recovery: &'static str,
        known: bool,
        receive_window: u64,
        written: u64,
    }

    fn case() -> impl Strategy<Value = Case> {
        let profile = prop::sample::select(vec![ProfileName::Ns235, ProfileName::Rfc]);
        let recovery = prop::sample::select(vec!["tahoe", "reno", "newreno"]);
        let written = prop_oneof![Just(u64::MAX), 1u64..200_000];
        (profile, recovery, any::<bool>(), 2_000u64..40_000, written).prop_map(
            |(profile, recovery, known, receive_window, written)| Case {
                profile,
                recovery,
                known,
                receive_window,
                written,
            },
        )
    }

    fn sender(case: Case) -> (Sender<Reno>, Host) {
        let mut profile = Profile::named(case.profile);
        profile.timestamps = false;
        profile.initial_window = Size::Segments(4.0);
        let config = SenderConfig {
            flow: 3,
            to: 1,
            mss: MSS,
            headers: 40,
            receive_window: case.receive_window,
            recovery: case.recovery.parse().unwrap(),
            needs: Needs::default(),
            clock_phase: Duration::ZERO,
            draw: 3,
        };
        let mut sender = Sender::new(config, &profile, Reno { known: case.known });
        let mut host = Host::default();
        sender.open(Time::ZERO, &mut host);
        let syn_ack = Segment { flags: Flags::SYN.with(Flags::ACK), ..ack(0, case.receive_window) };
        let now = Time::ZERO + Duration::millis(50);
        sender.on_segment(now, &syn_ack, &Options::NONE, &mut host);
        sender.write(now, case.written, &mut host);
        (sender, host)
    }

    fn ack(number: u64, window: u64) -> Segment {
        Segment { ack: number, window: window as u32, flags: Flags::ACK, ..Segment::default() }
    }

    /// Passes an ACK on the fast path, if that is possible; the host takes segments if `takes`.
    fn pass(
        sender: &mut Sender<Reno>,
        host: &mut Host,
        now: Time,
        segment: &Segment,
        takes: impl Fn(u64) -> bool,
    ) {
        let take = |seq: u64| {
            let taken = takes(seq);
            if taken {
                let (flow, to, flags, forward) = (3, 1, Flags::ACK, true);
                let (len, size, window, attempt) = (MSS, MSS + 40, 65_535, 1);
                let default = Segment::default();
                let new = Segment { seq, flow, to, flags, forward, len, size, window, ..default };
                host.0.push(Segment { attempt, ..new });
            }
            taken
        };
        match sender.on_plain_ack(now, segment.ack, segment.window, take) {
            AfterPlainAck::Sent(limit) => {
                assert_eq!(limit, sender.limited_by());
                assert_eq!(sender.plain_deadline(), sender.deadline());
            }
            AfterPlainAck::Remains(rest) => {
                let limit = sender.send_rest(now, rest, host);
                assert_eq!(limit, sender.limited_by());
            }
            AfterPlainAck::Other => sender.on_segment(now, segment, &Options::NONE, host),
        }
    }

    proptest! {
        /// A sender that takes ACKs on the fast path where it can does the same as one that never
        /// does: with ACKs of any bytes in flight, duplicates, timeouts, and a host that takes some
        /// segments and not others.
        #[test]
        fn the_fast_path_does_what_the_slow_path_does(
            case in case(),
            steps in prop::collection::vec((0u8..12, 0.0..1.0f64, 1u64..40, 0u64..4), 1..150),
        ) {
            let (mut slow, mut sent_slowly) = sender(case);
            let (mut fast, mut sent_fast) = sender(case);
            let mut now = Time::ZERO + Duration::millis(100);
            for (kind, share, wait, declined) in steps {
                now += Duration::millis(wait);
                let (una, max) = (slow.snd_una(), slow.snd_max());
                let whole = (max - una).div_ceil(u64::from(MSS)).min(1 + wait / 13);
                let number = match kind {
                    0 => una,
                    1 => una + (share * (max - una) as f64) as u64,
                    _ => (una + whole * u64::from(MSS)).min(max),
                };
                if kind == 2 && slow.deadline().0 < Time::NEVER {
                    now = now.max(slow.deadline().0);
                    slow.on_timer(now, &mut sent_slowly);
                    fast.on_timer(now, &mut sent_fast);
                } else {
                    let segment = ack(number, case.receive_window);
                    slow.on_segment(now, &segment, &Options::NONE, &mut sent_slowly);
                    let takes = |seq: u64| (seq / u64::from(MSS)) % 4 != declined;
                    pass(&mut fast, &mut sent_fast, now, &segment, takes);
                }
                prop_assert_eq!(&sent_fast.0, &sent_slowly.0);
                prop_assert_eq!(fast.window(), slow.window());
                prop_assert_eq!(fast.counters(), slow.counters());
                prop_assert_eq!(fast.deadline(), slow.deadline());
                prop_assert_eq!(fast.limited_by(), slow.limited_by());
                prop_assert_eq!(fast.take_last_rtt(), slow.take_last_rtt());
                prop_assert_eq!(fast.in_flight(), slow.in_flight());
                for seq in (slow.snd_una()..slow.snd_max()).step_by(500) {
                    prop_assert_eq!(fast.sent(seq), slow.sent(seq));
                }
            }
        }
    }
}
