use super::*;
use crate::profile::{DelayedAck, ProfileName};
use crate::sender::config::SendReason;
use lasthop_core::segment::Options;
use proptest::prelude::*;

#[derive(Default)]
struct Log(Vec<(Segment, Options)>, Vec<(u64, u16, LossClass)>);

impl Output for Log {
    fn send(&mut self, segment: Segment, reason: SendReason) {
        self.send_with(segment, &Options::NONE, reason);
    }
    fn send_with(&mut self, segment: Segment, options: &Options, _: SendReason) {
        self.0.push((segment, *options));
    }
    fn classified(&mut self, seq: u64, times: u16, said: LossClass) {
        self.1.push((seq, times, said));
    }
}

/// An open receiver without SACK that has taken these segments of 1000 bytes.
fn receiver(rule: Option<Box<dyn ReceiverRule>>, segments: &[u64], log: &mut Log) -> Receiver {
    let config = ReceiverConfig {
        flow: 1,
        to: 0,
        headers: 40,
        mss: 1000,
        buffer: 20_000,
        manual_read: false,
    };
    let profile = Profile {
        sack: false,
        timestamps: false,
        delayed_ack: DelayedAck::Switch(false),
        ..Profile::named(ProfileName::Rfc)
    };
    let mut r = Receiver::new(config, &profile, rule);
    r.on_segment(
        Time::ZERO,
        &Segment { flags: Flags::SYN, forward: true, ..Segment::default() },
        log,
    );
    for s in segments {
        let data = Segment {
            seq: s * 1000,
            len: 1000,
            flags: Flags::ACK,
            forward: true,
            ..Segment::default()
        };
        r.on_segment(Time::ZERO, &data, log);
    }
    r
}

#[test]
fn a_loss_of_the_radio_is_reported_at_once_unless_the_bytes_are_here() {
    let mut log = Log::default();
    let mut r = receiver(None, &[0, 3], &mut log);
    let told = |r: &mut Receiver, kind, value| {
        let mut log = Log::default();
        r.on_notice(Time::ZERO, &Notice { kind, flow: 1, value, stamp: Time::ZERO }, &mut log);
        log.0
            .pop()
            .map(|(s, o)| (s.ack, s.flags.has(Flags::ELN.with(Flags::NAMED)), o.named, s.size))
    };
    assert_eq!(told(&mut r, NoticeKind::Eln, 2000), Some((1000, true, 2000, 48)));
    for (kind, value) in [
        (NoticeKind::Eln, 0),
        (NoticeKind::Eln, 3000),
        (NoticeKind::Eln, u64::MAX),
        (NoticeKind::Ersn, 2000),
    ] {
        assert_eq!(told(&mut r, kind, value), None, "{kind:?} {value}");
    }
}

/// Holds what is missing for the radio's, stays silent about it and reports how many segments have
/// come.
#[derive(Default)]
struct Silent(u32);

impl ReceiverRule for Silent {
    fn on_data(&mut self, _: Time, segment: &Segment, expected: u64, highest: u64) -> Reply {
        self.0 += 1;
        let said =
            if segment.seq > highest { LossClass::Wireless } else { LossClass::Unclassified };
        Reply { flags: Flags::REPORT, silent: segment.seq > expected, report: self.0, said }
    }
}

#[test]
fn a_rule_may_answer_with_nothing_or_with_a_number() {
    let mut log = Log::default();
    receiver(Some(Box::new(Silent::default())), &[0, 2, 5, 1], &mut log);
    let acks: Vec<_> = log.0[1..]
        .iter()
        .map(|(s, o)| (s.ack, s.flags.has(Flags::REPORT), o.report, s.size))
        .collect();
    assert_eq!(acks, [(1000, true, 1, 48), (3000, true, 4, 48)]);
    assert_eq!(
        log.1,
        [
            (1000, 1, LossClass::Wireless),
            (3000, 1, LossClass::Wireless),
            (4000, 1, LossClass::Wireless)
        ]
    );
}

#[test]
fn an_ack_names_the_segment_that_it_answers() {
    struct Naming;
    impl ReceiverRule for Naming {
        fn on_data(&mut self, _: Time, _: &Segment, _: u64, _: u64) -> Reply {
            Reply { flags: Flags::NAMED, ..Reply::default() }
        }
    }
    let mut log = Log::default();
    receiver(Some(Box::new(Naming)), &[0, 2, 4, 1], &mut log);
    let acks: Vec<_> =
        log.0[1..].iter().map(|(s, o)| (s.ack, s.flags.has(Flags::NAMED), o.named)).collect();
    assert_eq!(acks, [(1000, true, 0), (1000, true, 2000), (1000, true, 4000), (3000, true, 1000)]);
}

/// ns-2 forgets all but the latest ranges: when those are complete, the ones before are held and no
/// block says so.
#[test]
fn an_ack_without_blocks_does_not_claim_to_have_any() {
    let config = ReceiverConfig {
        flow: 1,
        to: 0,
        headers: 40,
        mss: 1000,
        buffer: 50_000,
        manual_read: false,
    };
    let profile = Profile { sack: true, max_sack_blocks: 1, ..Profile::named(ProfileName::Ns235) };
    let mut r = Receiver::new(config, &profile, None);
    let mut log = Log::default();
    let mut arrive = |n: u64, flags| {
        r.on_segment(
            Time::ZERO,
            &Segment { seq: n * 1000, len: 1000, flags, forward: true, ..Segment::default() },
            &mut log,
        );
        log.0.pop().map(|(s, o)| (s.ack, s.flags.has(Flags::SACK), o.sack.as_slice().len()))
    };
    arrive(0, Flags::SYN);
    for n in [9, 7, 5, 3, 1] {
        assert_eq!(arrive(n, Flags::ACK), Some((0, true, 1)));
    }
    assert_eq!(arrive(0, Flags::ACK), Some((2000, false, 0)));
}

/// A FIN has a sequence number, which is reported if data before it are missing, and if it comes
/// again.
#[test]
fn sack_blocks_report_a_fin() {
    let config = ReceiverConfig {
        flow: 1,
        to: 0,
        headers: 40,
        mss: 1000,
        buffer: 20_000,
        manual_read: false,
    };
    let mut r = Receiver::new(config, &Profile::named(ProfileName::Linux), None);
    let mut log = Log::default();
    let mut arrive = |seq, len, flags| {
        r.on_segment(
            Time::ZERO,
            &Segment { seq, len, flags, forward: true, ..Segment::default() },
            &mut log,
        );
        log.0.pop().map(|(s, o)| (s.ack, o.sack.as_slice().to_vec()))
    };
    arrive(0, 0, Flags::SYN);
    arrive(0, 1000, Flags::ACK);
    let fin = Flags::ACK.with(Flags::FIN);
    let block = |start, end| vec![Block { start, end }];
    assert_eq!(arrive(3000, 0, fin), Some((1000, block(3000, 3001))));
    // Something is missing still, so that no ACK waits (RFC 5681, section 4.2).
    assert_eq!(arrive(1000, 1000, Flags::ACK), Some((2000, block(3000, 3001))));
    assert_eq!(arrive(2000, 1000, Flags::ACK), Some((3001, vec![])));
    assert_eq!(arrive(3000, 0, fin), Some((3001, block(3000, 3001))));
    assert_eq!(arrive(2500, 500, fin), Some((3001, block(2500, 3001))));
}

/// A Linux receiver with a buffer of 4 MiB offers 64 KiB at first and two segments more with each
/// that arrives, duplicate ACKs included; with the key off it offers its buffer. What lies beyond
/// the offer is not taken.
#[test]
fn the_window_grows_if_the_profile_says_so() {
    for grows in [true, false] {
        let mut log = Log::default();
        let linux = Profile::named(ProfileName::Linux);
        let profile = Profile { receive_window_grows: grows, sack_compression: false, ..linux };
        let config = ReceiverConfig {
            flow: 1,
            to: 0,
            headers: 40,
            mss: 1000,
            buffer: 4 << 20,
            manual_read: false,
        };
        let mut r = Receiver::new(config, &profile, None);
        r.on_segment(
            Time::ZERO,
            &Segment { flags: Flags::SYN, forward: true, ..Segment::default() },
            &mut log,
        );
        let mut at = Time::ZERO;
        let mut data = |r: &mut Receiver, log: &mut Log, seq: u64| {
            at += Duration::millis(1);
            let flags = Flags::ACK.with(Flags::TIMESTAMPS);
            let ts_echo = 1 + (at.0 / 1_000_000_000) as u32;
            r.on_segment(
                at,
                &Segment {
                    seq: 1000 * seq,
                    len: 1000,
                    flags,
                    ts_echo,
                    forward: true,
                    ..Segment::default()
                },
                log,
            );
        };
        // All but the first of 60: nothing can be read yet, and each ACK is a duplicate.
        (1..60).for_each(|seq| data(&mut r, &mut log, seq));
        data(&mut r, &mut log, 0);
        let windows: Vec<u32> = log.0.iter().map(|(s, _)| s.window).collect();
        if grows {
            assert_eq!((windows[0], windows[1]), (65_535, 67_535));
            assert!(windows[1..60].is_sorted() && windows[59] > 70_000, "{windows:?}");
            let before = r.rcv_nxt();
            data(&mut r, &mut log, 1000);
            assert_eq!(r.rcv_nxt(), before);
            assert!(!r.has(1_000_000, 1_001_000), "beyond the window");
        } else {
            assert!(windows.iter().take(60).all(|w| *w == 4 << 20), "{windows:?}");
        }
    }
}

/// A receiver with SACK, delayed ACKs and compressed ones, and the times and numbers of its ACKs
/// after these arrivals, each (microseconds, first segment, segments in the frame).
fn acks(arrivals: &[(u64, u64, u32)]) -> Vec<(u64, u64)> {
    let config = ReceiverConfig {
        flow: 1,
        to: 0,
        headers: 40,
        mss: 1000,
        buffer: 1 << 20,
        manual_read: false,
    };
    let profile =
        Profile { sack_compression: true, timestamps: false, ..Profile::named(ProfileName::Rfc) };
    let (mut r, mut found) = (Receiver::new(config, &profile, None), Vec::new());
    r.on_segment(
        Time::ZERO,
        &Segment { flags: Flags::SYN, forward: true, ..Segment::default() },
        &mut Log::default(),
    );
    for &(us, segment, count) in arrivals {
        let (now, mut log) = (Time(1000 * us), Log::default());
        let data = Segment {
            seq: segment * 1000,
            len: 1000 * count,
            flags: Flags::ACK,
            forward: true,
            ..Segment::default()
        };
        while r.deadline().0 < now {
            let due = r.deadline().0;
            let mut log = Log::default();
            r.on_timer(due, &mut log);
            found.extend(log.0.iter().map(|(s, _)| (due.0 / 1000, s.ack)));
        }
        r.on_segment(now, &data, &mut log);
        found.extend(log.0.iter().map(|(s, _)| (us, s.ack)));
    }
    found
}

/// Linux `__tcp_ack_snd_check`: more than one segment is acknowledged at once.
#[test]
fn a_frame_of_two_segments_is_acknowledged_at_once_and_one_of_one_is_not() {
    assert_eq!(
        acks(&[(0, 0, 1), (100, 1, 1), (200, 2, 2), (300, 4, 1)]),
        [(100, 2000), (200, 4000)]
    );
}

/// Segment 0 is lost. Three ACKs go out, then one in a millisecond, and one at once when the hole
/// is filled.
#[test]
fn acks_beyond_a_hole_are_sent_once_in_a_millisecond_after_three() {
    let arrivals = [
        (0, 1, 1),
        (100, 2, 1),
        (200, 3, 1),
        (300, 4, 1),
        (400, 5, 1),
        (1200, 6, 1),
        (1400, 7, 1),
        (1500, 0, 1),
    ];
    assert_eq!(acks(&arrivals), [(0, 0), (100, 0), (200, 0), (1400, 0), (1500, 8000)]);
}

/// Four ranges are reported; the fifth has to be told at once.
#[test]
fn a_range_too_many_is_reported_at_once() {
    let arrivals = [(0, 1, 1), (100, 3, 1), (200, 5, 1), (300, 7, 1), (400, 9, 1), (500, 10, 1)];
    assert_eq!(acks(&arrivals), [(0, 0), (100, 0), (200, 0), (400, 0)]);
}

/// Linux 6.18 over 10 Mbit/s and 120 ms, as captured: each of the first 22 segments is acknowledged
/// at once, 16 by the quick ACKs of the start and 6 that make the window grow to 80 KiB; then every
/// second one.
#[test]
fn quick_acks_last_for_22_segments_on_linux() {
    let config = ReceiverConfig {
        flow: 1,
        to: 0,
        headers: 40,
        mss: 1448,
        buffer: 4 << 20,
        manual_read: false,
    };
    let mut r = Receiver::new(config, &Profile::named(ProfileName::Linux), None);
    let mut log = Log::default();
    let at = |ms: u64| Time::ZERO + Duration::millis(ms);
    r.on_segment(at(60), &Segment { flags: Flags::SYN, ..Segment::default() }, &mut log);
    r.on_segment(at(180), &Segment { flags: Flags::ACK, ..Segment::default() }, &mut log);
    log.0.clear();
    for i in 0..28 {
        let now = at(182 + i);
        r.on_segment(
            now,
            &Segment { seq: 1448 * i, len: 1448, flags: Flags::ACK, ..Segment::default() },
            &mut log,
        );
    }
    let acks: Vec<u64> = log.0.iter().map(|(s, _)| s.ack / 1448).collect();
    assert_eq!(acks, (1..=22).chain([24, 26, 28]).collect::<Vec<u64>>());
}

proptest! {
    /// Receivers that take segments by `take_plain`, `take_beyond` and `take_beyond_as_linux`, or
    /// by `take_plain_segment` and `take_segment_beyond`, where they expect them, answer as one
    /// that takes all of them as segments: with and without delayed ACKs, with those of Linux, with
    /// segments in any order, and with the timer.
    #[test]
    fn expected_segments_are_answered_as_others(
        (delayed, sack, linux, stamped) in any::<(bool, bool, bool, bool)>(),
        steps in prop::collection::vec((0u64..12, 0u64..150), 1..60),
    ) {
        let (mut usual, mut fast, mut stored) = (Log::default(), Log::default(), Log::default());
        let buffer = if linux { 200_000 } else { 20_000 };
        let config =
            ReceiverConfig { flow: 1, to: 0, headers: 40, mss: 1000, buffer, manual_read: false };
        let (name, timestamps) =
            if linux { (ProfileName::Linux, stamped) } else { (ProfileName::Rfc, false) };
        let delayed_ack = DelayedAck::Switch(delayed);
        let profile = Profile { sack, timestamps, delayed_ack, ..Profile::named(name) };
        let stamps = |flags: Flags| if timestamps { flags.with(Flags::TIMESTAMPS) } else { flags };
        let [mut a, mut b, mut c] = [0; 3].map(|_| Receiver::new(config.clone(), &profile, None));
        let syn = Segment { flags: Flags::SYN, forward: true, ..Segment::default() };
        a.on_segment(Time::ZERO, &syn, &mut usual);
        b.on_segment(Time::ZERO, &syn, &mut fast);
        c.on_segment(Time::ZERO, &syn, &mut stored);
        let mut now = Time::ZERO;
        for (ahead, wait) in steps {
            now += Duration::millis(wait);
            if a.deadline().0 <= now {
                a.on_timer(now, &mut usual);
                b.on_timer(now, &mut fast);
                c.on_timer(now, &mut stored);
            }
            // Mostly the next segment, sometimes one before it or beyond the window.
            let place = (a.rcv_nxt() / 1000 + ahead.saturating_sub(6)).saturating_sub(ahead / 11);
            let seq = 1000 * place;
            let ts_value = if timestamps { timestamp(now) } else { 0 };
            let ts_echo = ts_value.saturating_sub(20_000);
            let flags = stamps(Flags::ACK);
            let data = Segment {
                seq, len: 1000, flags, ts_value, ts_echo, forward: true, ..Segment::default()
            };
            a.on_segment(now, &data, &mut usual);
            let ack = if b.expects(seq, 1000, ts_value) {
                b.take_plain(now, 1000, (ts_value, ts_echo)).map(|window| (seq + 1000, window))
            } else if b.expects_beyond(seq, 1000, ts_value) && b.reports_beyond() {
                b.take_beyond_as_linux(now, (seq, 1000), ts_echo, &mut fast);
                None
            } else if b.expects_beyond(seq, 1000, ts_value) {
                prop_assert!(!sack);
                Some(b.take_beyond(seq, 1000))
            } else {
                b.on_segment(now, &data, &mut fast);
                None
            };
            if let Some((ack, window)) = ack {
                let (flow, to, flags) = (1, 0, stamps(Flags::ACK));
                let (size, attempt, ts_echo) = (b.plain_ack_size(), 1, b.echoed_stamp());
                let segment =
                    Segment { ack, window, flow, to, flags, size, attempt, ..Segment::default() };
                fast.send(Segment { ts_value, ts_echo, ..segment }, SendReason::Control);
            }
            if c.expects_segment(&data) {
                c.take_plain_segment(now, &data, &mut stored);
            } else if c.expects_segment_beyond(&data) {
                c.take_segment_beyond(now, &data, &mut stored);
            } else {
                c.on_segment(now, &data, &mut stored);
            }
            for (answers, other) in [(&fast, &b), (&stored, &c)] {
                prop_assert_eq!(&usual.0, &answers.0);
                prop_assert_eq!(a.deadline().0, other.deadline().0);
                prop_assert_eq!(a.rcv_nxt(), other.rcv_nxt());
                prop_assert_eq!(a.duplicates(), other.duplicates());
            }
        }
    }
}

proptest! {
    /// What has arrived and is not read always fits into the buffer, so that nothing has to be
    /// pruned (Linux `tcp_prune_queue`), if the sender respects the window.
    #[test]
    fn what_has_been_offered_has_room(
        buffer in 20_000u64..300_000,
        steps in prop::collection::vec((0u64..1000, 1u64..4000, any::<bool>()), 1..200),
    ) {
        let config = ReceiverConfig {
            flow: 1, to: 0, headers: 40, mss: 1000, buffer, manual_read: false,
        };
        let mut r = Receiver::new(config, &Profile::named(ProfileName::Linux), None)
            .with_manual_reading();
        let mut log = Log::default();
        r.on_segment(Time::ZERO, &syn(1), &mut log);
        for (i, (place, amount, reads)) in steps.into_iter().enumerate() {
            let now = Time::ZERO + Duration::millis(10 * (i as u64 + 1));
            let left = r.edge - r.rcv_nxt;
            if reads {
                r.read(now, amount.min(r.unread()), 1000, &mut log);
            } else if left > 0 {
                let seq = r.rcv_nxt + place * left / 1000;
                let len = amount.min(r.edge - seq) as u32;
                let flags = Flags::ACK.with(Flags::TIMESTAMPS);
                let ts_value = timestamp(now);
                let data =
                    Segment { seq, len, flags, ts_value, forward: true, ..Segment::default() };
                r.on_segment(now, &data, &mut log);
            }
            prop_assert!(r.ahead.bytes() + r.unread() <= buffer);
        }
    }
}

/// A receiver of the profile `linux` that has got a SYN with the timestamp 7 at time zero.
fn syn_received(log: &mut Log) -> Receiver {
    let config = ReceiverConfig {
        flow: 1,
        to: 0,
        headers: 40,
        mss: 1000,
        buffer: 200_000,
        manual_read: false,
    };
    let mut r = Receiver::new(config, &Profile::named(ProfileName::Linux), None);
    r.on_segment(Time::ZERO, &syn(7), log);
    r
}

fn syn(ts_value: u32) -> Segment {
    let flags = Flags::SYN.with(Flags::TIMESTAMPS);
    Segment { flags, ts_value, forward: true, ..Segment::default() }
}

/// Linux `reqsk_timer_handler`, `tcp_synack_retries` = 5: 1, 2, 4, 8, 16, 32 s; then the connection
/// is unknown, and data are answered with a reset.
#[test]
fn the_syn_ack_is_retransmitted_and_forgotten() {
    let mut log = Log::default();
    let mut r = syn_received(&mut log);
    let mut last = Time::ZERO;
    for seconds in [1, 2, 4, 8, 16, 32] {
        let due = r.deadline().0;
        // The wheel of timers rounds up by an eighth of the wait at most.
        let late = due - (last + Duration::secs(seconds));
        assert!(late.0 <= 8_000_000 + seconds * 1_000_000_000 / 7, "{late:?} after {seconds} s");
        r.on_timer(due, &mut log);
        last = due;
    }
    assert_eq!((log.0.len(), r.deadline().0), (6, Time::NEVER));
    assert!(log.0.iter().all(|(s, _)| s.flags.has(Flags::SYN) && s.ts_echo == 7));
    let data = Segment { len: 1000, flags: Flags::ACK, forward: true, ..Segment::default() };
    assert_eq!(r.discards(last, &data), Some(Discard::NoConnection));
    r.on_segment(last, &data, &mut log);
    assert_eq!((log.0[6].0.flags, r.rcv_nxt()), (Flags::RST, 0));
    assert_eq!(r.discards(last, &syn(9)), None);
    r.on_segment(last, &syn(9), &mut log);
    assert!(log.0[7].0.flags.has(Flags::SYN) && log.0[7].0.ts_echo == 9, "a new connection");
}

/// `tcp_check_req`: a repeated SYN is answered with the timestamp of the first one, and the timer
/// begins again; whatever else arrives confirms the connection.
#[test]
fn a_repeated_syn_is_answered_and_data_confirm_the_connection() {
    let mut log = Log::default();
    let mut r = syn_received(&mut log);
    let at = |ms| Time::ZERO + Duration::millis(ms);
    r.on_segment(at(500), &syn(8), &mut log);
    assert_eq!((log.0.len(), log.0[1].0.ts_echo), (2, 7));
    let due = r.deadline().0;
    assert!(due >= at(1500));
    // `tcp_oow_rate_limited`: of further ones within 500 ms none is answered.
    r.on_segment(at(590), &syn(9), &mut log);
    assert_eq!((log.0.len(), r.deadline().0), (2, due));
    let data = Segment { len: 1000, flags: Flags::ACK, forward: true, ..Segment::default() };
    r.on_segment(at(600), &data, &mut log);
    r.on_timer(at(5000), &mut log);
    assert!(log.0[2..].iter().all(|(s, _)| !s.flags.has(Flags::SYN)));
    assert_eq!(r.rcv_nxt(), 1000);
}

/// RFC 5961, section 3.2: a peer without a connection answers a challenge ACK with a reset that has
/// the acknowledged number, and that ends the connection although a relay withholds ACKs.
#[test]
fn a_reset_that_answers_a_withheld_ack_ends_the_connection() {
    let mut log = Log::default();
    let mut r = receiver(None, &[], &mut log);
    r.acknowledge_up_to(Time::ZERO, 500, &mut log);
    let data =
        |seq: u64, flags| Segment { seq, len: 1000, flags, forward: true, ..Segment::default() };
    r.on_segment(Time::ZERO, &data(0, Flags::ACK), &mut log);
    let reset = |seq| Segment { len: 0, ..data(seq, Flags::RST) };
    r.on_segment(Time::ZERO, &reset(700), &mut log);
    let challenge = log.0.last().unwrap().0;
    assert_eq!((challenge.ack, r.rcv_nxt(), r.is_reset()), (500, 1000, false));
    let answers = log.0.len();
    r.on_segment(Time::ZERO, &reset(challenge.ack), &mut log);
    assert_eq!((r.is_reset(), log.0.len()), (true, answers));
}
