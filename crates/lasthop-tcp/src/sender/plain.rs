//! The fast path for ACKs of new data of a connection in its usual state: established, recovery by
//! duplicate ACKs without additions, nothing to be retransmitted, no options. It does what
//! `on_segment` does, without the questions whose answers are known. Recovery on SACK blocks has
//! one too (`recovery/sack/plain.rs`).

use super::{Limit, Sender};
use crate::recovery::engine::Engine;
use crate::sender::config::{Output, State};
use crate::sender::stream::plain::{AfterPlainAck, Rest};
use crate::window::WindowRule;
use lasthop_core::segment::{Flags, Segment};
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
        let is_plain = self.plain || self.becomes_plain();
        let stream = &mut self.stream;
        let usual = is_plain
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

    /// A segment of the receiver without options but timestamps. False if it needs more than the
    /// fast path of SACK recovery; then nothing has changed, and
    /// [`on_segment`](Self::on_segment) has to follow.
    #[inline(always)]
    pub fn takes_plain_ack(&mut self, now: Time, segment: &Segment, out: &mut impl Output) -> bool {
        self.plain_with_sack && self.on_plain_ack_with_sack(now, segment, out)
    }

    /// A segment of the receiver while SACK recovery is plain. False as for `takes_plain_ack`.
    #[inline(always)]
    fn on_plain_ack_with_sack(
        &mut self,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) -> bool {
        let Engine::Sack(sack) = &mut self.recovery else { return false };
        let before = self.stream.snd_max();
        let taken = segment.flags.without(Flags::TIMESTAMPS) == Flags::ACK
            && segment.ack > self.stream.snd_una()
            && sack.on_plain_ack(&mut self.stream, now, segment, out);
        if taken {
            self.write_if_room(now, before, out);
        }
        taken
    }

    /// An ACK without options or other flags, for recovery by duplicate ACKs. Does what
    /// `process_segment` does with one. False if that has to follow; then nothing has changed.
    #[inline(always)]
    pub(super) fn on_bare_ack(
        &mut self,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) -> bool {
        let before = self.stream.snd_max();
        let stream = &mut self.stream;
        let Engine::Dupack(recovery) = &mut self.recovery else { return false };
        let taken = segment.flags == Flags::ACK
            && segment.window > 0
            && segment.ack <= before
            && stream.state() == State::Established
            && !stream.is_special();
        if taken {
            stream.timers_mut().probes_answered();
            recovery.on_ack(stream, now, segment, out);
            self.write_if_room(now, before, out);
        }
        taken
    }

    /// After an ACK that has taken the slow path: notes whether the next one may take the fast one.
    /// Every other input ends that, see `leave_plain`. With recovery by duplicate ACKs it is
    /// decided when an ACK asks for it, which none does on most paths.
    #[inline]
    pub(super) fn update_plain(&mut self) {
        self.undecided = matches!(self.recovery, Engine::Dupack(_));
        self.plain_with_sack = match &self.recovery {
            Engine::Sack(sack) => self.stream.is_plain_with_sack() && sack.is_plain(&self.stream),
            Engine::Dupack(_) | Engine::SackNs2(_) => false,
        };
    }

    /// Decides whether an ACK may take the fast path of recovery by duplicate ACKs, if that has
    /// been left open.
    #[inline(always)]
    fn becomes_plain(&mut self) -> bool {
        self.undecided && self.decide_plain()
    }

    #[inline(never)]
    fn decide_plain(&mut self) -> bool {
        let Engine::Dupack(recovery) = &self.recovery else { return false };
        self.plain = recovery.is_plain()
            && self.stream.state() == State::Established
            && self.stream.is_plain();
        self.undecided = false;
        self.plain
    }

    /// The next ACK takes the slow path.
    #[inline]
    pub(super) fn leave_plain(&mut self) {
        (self.plain, self.plain_with_sack, self.undecided) = (false, false, false);
        self.stream.unfold();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, ProfileName};
    use crate::recovery::config::Recovery;
    use crate::sender::{SendReason, SenderConfig};
    use crate::window::{Ack, Needs, Window, grow, window_rule};
    use lasthop_core::segment::Options;
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
        established(case, &profile, case.recovery.parse().unwrap())
    }

    /// An established connection that has written.
    fn established(case: Case, profile: &Profile, recovery: Recovery) -> (Sender<Reno>, Host) {
        let config = SenderConfig {
            flow: 3,
            to: 1,
            mss: MSS,
            headers: 40,
            receive_window: case.receive_window,
            recovery,
            needs: Needs::default(),
            clock_phase: Duration::ZERO,
            draw: 3,
        };
        let mut sender = Sender::new(config, profile, Reno { known: case.known });
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

    /// An ACK as a receiver under `linux` may send it: what it acknowledges or reports by SACK, its
    /// window and timestamps, all chosen by these numbers.
    fn ack_with_options(
        sender: &Sender<Reno>,
        now: Time,
        (kind, share, wait, other): (u8, f64, u64, u64),
    ) -> (Segment, Options) {
        let (una, max, mss) = (sender.snd_una(), sender.snd_max(), u64::from(MSS));
        let whole = (max - una).div_ceil(mss).min(1 + wait / 13);
        let number = match kind {
            0 | 1 => una,
            2 => una + (share * (max - una) as f64) as u64,
            _ => (una + whole * mss).min(max),
        };
        let micros = |ms: u64| (now.0 / 1000).saturating_sub(1000 * ms) as u32;
        let (stamp, echo) = (micros(if kind == 3 { 50 * other } else { 1 }), micros(wait));
        let window = 20_000 + 3_000 * other * u64::from(kind != 4);
        let mut segment = Segment { ts_value: stamp, ts_echo: echo, ..ack(number, window) };
        segment.flags = segment.flags.with(Flags::TIMESTAMPS);
        let mut options = Options::NONE;
        let start = number + mss * (1 + other);
        if kind <= 1 && start < max {
            options.sack.push(start, (start + mss * (1 + wait / 13)).min(max));
            segment.flags = segment.flags.with(Flags::SACK);
        } else if kind == 5 && una > mss {
            // A duplicate.
            options.sack.push(una - mss, una);
            segment.flags = segment.flags.with(Flags::SACK).with(Flags::DSACK);
        }
        (segment, options)
    }

    /// What a test compares of two senders.
    fn state(sender: &mut Sender<Reno>) -> impl PartialEq + std::fmt::Debug + use<> {
        let sent: Vec<_> =
            (sender.snd_una()..sender.snd_max()).step_by(500).map(|seq| sender.sent(seq)).collect();
        (
            (sender.window(), sender.counters(), sender.deadline(), sender.limited_by()),
            (sender.take_last_rtt(), sender.phase(), sender.pipe(), sender.receive_window()),
            (sender.rto().rto(), sender.rto().srtt(), sender.reordering(), sent),
        )
    }

    proptest! {
        /// The same of recovery on SACK blocks under `linux`: with SACK blocks, D-SACK, windows
        /// that grow and shrink, old timestamps, timers, and programs that wait for the send
        /// buffer.
        #[test]
        fn the_fast_path_of_sack_does_what_the_slow_path_does(
            written in prop_oneof![Just(u64::MAX), 1u64..200_000],
            buffer in any::<bool>(),
            steps in prop::collection::vec((0u8..24, 0.0..1.0f64, 1u64..40, 0u64..4), 1..150),
        ) {
            let profile = Profile::named(ProfileName::Linux);
            let profile = if buffer { profile } else { profile.without_send_buffer() };
            let name = ProfileName::Linux;
            let case =
                Case { profile: name, recovery: "", known: false, receive_window: 30_000, written };
            let (mut slow, mut sent_slowly) = established(case, &profile, Recovery::LINUX);
            let (mut fast, mut sent_fast) = established(case, &profile, Recovery::LINUX);
            let mut now = Time::ZERO + Duration::millis(100);
            for step in steps {
                now += Duration::millis(step.2);
                if step.0 == 6 && slow.deadline().0 < Time::NEVER {
                    now = now.max(slow.deadline().0);
                    slow.on_timer(now, &mut sent_slowly);
                    fast.on_timer(now, &mut sent_fast);
                } else {
                    let (segment, options) = ack_with_options(&slow, now, step);
                    slow.leave_plain();
                    slow.on_segment(now, &segment, &options, &mut sent_slowly);
                    fast.on_segment(now, &segment, &options, &mut sent_fast);
                }
                prop_assert_eq!(&sent_fast.0, &sent_slowly.0);
                prop_assert_eq!(state(&mut fast), state(&mut slow));
            }
        }
    }

    #[test]
    fn acks_of_new_data_take_the_fast_path_of_sack_until_something_is_sacked() {
        let profile = Profile::named(ProfileName::Linux).without_send_buffer();
        let (name, receive_window, written) = (ProfileName::Linux, 30_000, u64::MAX);
        let case = Case { profile: name, recovery: "", known: false, receive_window, written };
        let (mut sender, mut host) = established(case, &profile, Recovery::LINUX);
        let mut now = Time::ZERO + Duration::millis(100);
        let plain: Vec<bool> = [9, 9, 0, 9]
            .into_iter()
            .map(|kind| {
                now += Duration::millis(30);
                let (segment, options) = ack_with_options(&sender, now, (kind, 0.0, 30, 0));
                sender.on_segment(now, &segment, &options, &mut host);
                sender.plain_with_sack
            })
            .collect();
        assert_eq!(plain, [true, true, false, false]);
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
