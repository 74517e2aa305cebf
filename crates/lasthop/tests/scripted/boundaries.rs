//! A sender at the boundaries of its settings.

use lasthop::schemes::mtcp;
use lasthop::schemes::reno::RenoWindow;
use lasthop::segment::{Flags, Options, Segment};
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::tcp::recovery::{Recovery, RecoveryKind};
use lasthop::tcp::sender::{Output, SendReason, Sender, SenderConfig};
use lasthop::tcp::window::Needs;
use lasthop::units::{Duration, Time};

/// Counts the payload bytes sent.
struct Sent(u64);

impl Output for Sent {
    fn send(&mut self, segment: Segment, _: SendReason) {
        self.0 += u64::from(segment.len);
    }
    fn send_with(&mut self, segment: Segment, _: &Options, reason: SendReason) {
        self.send(segment, reason);
    }
}

fn sender(recovery: RecoveryKind, profile: ProfileName, sack: bool) -> Sender<RenoWindow> {
    let config = SenderConfig {
        flow: 0,
        to: 0,
        mss: 1000,
        headers: 40,
        receive_window: 9000,
        recovery: Recovery::of(recovery),
        needs: Needs { sack, ..Needs::default() },
        clock_phase: Duration::ZERO,
        draw: 0,
    };
    Sender::new(config, Profile::named(profile), RenoWindow)
}

fn ack(ack: u64) -> Segment {
    Segment { ack, flags: Flags::ACK, window: 9000, ..Segment::default() }
}

fn syn_ack() -> Segment {
    Segment { flags: Flags::SYN.with(Flags::ACK), ..ack(0) }
}

/// With a window of 0 nothing would ever be sent, and the first ACK would make it infinite.
#[test]
fn a_relay_leaves_a_window_of_one_segment() {
    let (mut sender, mut sent) = (sender(RecoveryKind::Newreno, ProfileName::Rfc, false), Sent(0));
    sender.open(Time(0), &mut sent);
    sender.on_segment(Time(5), &syn_ack(), &Options::NONE, &mut sent);
    sender.set_window(Time(6), 0, &mut sent);
    sender.write(Time(7), 9000, &mut sent);
    assert_eq!((sender.window().cwnd, sent.0), (1000.0, 1000));
    sender.on_segment(Time(9), &ack(1000), &Options::NONE, &mut sent);
    assert!(sender.window().cwnd <= 2000.0, "{:?}", sender.window());
}

/// A path without delay has a round-trip time of 0 ns, and no timer of selective repeat may expire
/// at the instant it was set.
#[test]
fn the_timer_of_a_segment_has_a_length_where_the_round_trip_has_none() {
    let (mut sender, mut sent) =
        (sender(RecoveryKind::Scheme(&mtcp::DETECTOR), ProfileName::Linux, true), Sent(0));
    let at = |ms| Time::ZERO + Duration::millis(ms);
    sender.open(at(5), &mut sent);
    sender.on_segment(at(5), &syn_ack(), &Options::NONE, &mut sent);
    assert_eq!(sender.rto().srtt(), Some(Duration::ZERO));
    sender.write(at(6), 3000, &mut sent);
    for _ in 0..5 {
        let (due, _) = sender.deadline();
        sender.on_timer(due, &mut sent);
        assert!(sender.deadline().0 > due, "due again at {due}");
    }
}
