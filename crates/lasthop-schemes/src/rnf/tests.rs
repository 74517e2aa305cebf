//! Unit tests of the proxy's and the controller's rules.

use super::rnc::RnfAgent;
use super::*;
use crate::testing::harness;
use lasthop_core::agent::{Action, Agent, Context, LinkChange, LinkEvent, NodeView};
use lasthop_core::segment::{Direction, Flags, Options, Segment};
use lasthop_core::units::Rate;

/// A SplitConnection with segments of 1000 bytes (1040 on the wire), and an RTT of 100 ms to the
/// terminal and of 30 ms to the server.
#[derive(Default)]
struct Bench {
    readable: u64,
    unacknowledged: u64,
    in_flight: u64,
    window: Option<u64>,
    receive_window: u64,
    calls: Vec<&'static str>,
    retransmitted: u64,
}

impl SplitConnection for Bench {
    fn capabilities(&self) -> Capabilities {
        Capabilities { window: true, receive_window: true, acknowledge: true, hold: true }
    }
    fn readable(&self) -> u64 {
        self.readable
    }
    fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }
    fn in_flight(&self) -> u64 {
        self.in_flight
    }
    fn segment(&self) -> (u32, u32) {
        (1000, 1040)
    }
    fn round_trip(&self, side: Side) -> Option<Duration> {
        Some(Duration::millis(if side == Side::Inbound { 30 } else { 100 }))
    }
    fn transfer(&mut self, _: u64) -> u64 {
        let moved = std::mem::take(&mut self.readable);
        self.unacknowledged += moved;
        moved
    }
    fn set_receive_window(&mut self, bytes: u64) {
        self.receive_window = bytes;
    }
    fn acknowledge_up_to(&mut self, _: u64) {}
    fn close_window(&mut self, _: u64) {}
    fn open_window(&mut self, _: u64) {}
    fn wake(&mut self, _: Time) {}
    fn set_window(&mut self, bytes: u64) {
        self.window = Some(bytes);
    }
    fn reset(&mut self, _: lasthop_core::leg::Side) {}
    fn hold(&mut self) {
        self.calls.push("hold");
    }
    fn resume(&mut self, lost: u64) {
        self.calls.push("resume");
        self.retransmitted += lost;
    }
    fn half_close(&mut self) {
        self.calls.push("close");
    }
}

const SECOND: u64 = 1_000_000_000;

fn notice(kind: NoticeKind, value: u64, second: u64) -> LegEvent {
    LegEvent::Notice(Notice { kind, flow: 0, value, stamp: Time(second * SECOND) })
}

fn proxy(config: Rnf) -> (RnfProxy, Bench) {
    (RnfProxy::new(config), Bench::default())
}

/// 1.04 Mbit/s × 100 ms are 12.5 packets; the target queue is 15 packets.
#[test]
fn window_is_bdp_plus_target_queue() {
    let (mut proxy, mut legs) = proxy(Rnf::default());
    proxy.on_event(Time::ZERO, LegEvent::Open, &mut legs);
    assert_eq!(legs.window, None);
    proxy.on_event(Time::ZERO, notice(NoticeKind::Bandwidth, 1_040_000, 1), &mut legs);
    assert_eq!(legs.window, Some(27_500));
    // Five packets above the target: a gain of 0.5 reduces the window by 2.5, if it was fully used.
    legs.in_flight = 27_000;
    proxy.on_event(Time::ZERO, notice(NoticeKind::Queue, 20 * 1040, 2), &mut legs);
    assert_eq!(legs.window, Some(25_000));
    legs.in_flight = 10_000;
    proxy.on_event(Time::ZERO, notice(NoticeKind::Queue, 0, 3), &mut legs);
    assert_eq!(legs.window, Some(25_000));
    // A new rate changes only the bandwidth-delay product.
    proxy.on_event(Time::ZERO, notice(NoticeKind::Bandwidth, 2_080_000, 4), &mut legs);
    assert_eq!(legs.window, Some(37_500));
    // Older reports are ignored.
    proxy.on_event(Time::ZERO, notice(NoticeKind::Bandwidth, 1_040_000, 3), &mut legs);
    assert_eq!((legs.window, proxy.counters.stale), (Some(37_500), 1));
}

/// The correction does not grow beyond the limits of the window.
#[test]
fn correction_is_limited_with_the_window() {
    let (mut proxy, mut legs) = proxy(Rnf::default());
    proxy.on_event(Time::ZERO, notice(NoticeKind::Bandwidth, 1_040_000, 1), &mut legs);
    legs.in_flight = u64::MAX / 4;
    for k in 2..20 {
        proxy.on_event(Time::ZERO, notice(NoticeKind::Queue, 1_000_000, k), &mut legs);
    }
    assert_eq!(legs.window, Some(2000));
    proxy.on_event(Time::ZERO, notice(NoticeKind::Queue, 11 * 1040, 20), &mut legs);
    assert_eq!(legs.window, Some(4000));
}

/// An outage freezes the sender. Lost data are retransmitted if the controller reports the queue
/// with the same timestamp.
#[test]
fn outages_freeze_the_sender_and_losses_are_retransmitted() {
    let (mut proxy, mut legs) = proxy(Rnf::default());
    proxy.on_event(Time::ZERO, notice(NoticeKind::Bandwidth, 1_040_000, 1), &mut legs);
    legs.in_flight = 27_000;
    proxy.on_event(Time::ZERO, notice(NoticeKind::Bandwidth, 0, 2), &mut legs);
    proxy.on_event(Time::ZERO, notice(NoticeKind::Queue, 0, 3), &mut legs);
    assert_eq!((legs.window, &legs.calls[..]), (Some(27_500), &["hold"][..]));
    proxy.on_event(Time::ZERO, notice(NoticeKind::Bandwidth, 1_040_000, 4), &mut legs);
    assert_eq!((&legs.calls[..], legs.retransmitted), (&["hold", "resume"][..], 0));
    proxy.on_event(Time::ZERO, notice(NoticeKind::Bandwidth, 0, 5), &mut legs);
    proxy.on_event(Time::ZERO, notice(NoticeKind::Queue, 7 * 1040, 6), &mut legs);
    proxy.on_event(Time::ZERO, notice(NoticeKind::Bandwidth, 1_040_000, 6), &mut legs);
    assert_eq!(legs.retransmitted, 20_000);
}

/// Two bandwidth-delay products to the server may be queued, one may be in flight: 1.04 Mbit/s × 30
/// ms are 3750 bytes of payload.
#[test]
fn receive_window_depends_on_the_queued_bytes() {
    let (mut proxy, mut legs) = proxy(Rnf::default());
    proxy.on_event(Time::ZERO, LegEvent::Open, &mut legs);
    assert_eq!(legs.receive_window, FIRST_WINDOW);
    proxy.on_event(Time::ZERO, notice(NoticeKind::Bandwidth, 1_040_000, 1), &mut legs);
    assert_eq!(legs.receive_window, 11_250);
    (legs.readable, legs.in_flight, legs.unacknowledged) = (5000, 20_000, 20_000);
    proxy.on_event(Time::ZERO, LegEvent::Readable, &mut legs);
    assert_eq!(legs.receive_window, 6_250);
    // While the link is down the previous rate is used.
    proxy.on_event(Time::ZERO, notice(NoticeKind::Bandwidth, 0, 2), &mut legs);
    assert_eq!(legs.receive_window, 6_250);
    let free = Rnf { steer_server: false, ..Rnf::default() };
    let mut proxy = RnfProxy::new(free);
    proxy.on_event(Time::ZERO, notice(NoticeKind::Bandwidth, 1_040_000, 1), &mut legs);
    assert_eq!(legs.receive_window, 256_000 - 25_000);
}

/// Losses do not change the window, except a timeout, after which it grows to the proxy's current
/// value.
#[test]
fn timeout_restarts_the_window_growth() {
    let (mut rule, mut window) = (RnfWindow::default(), Window { cwnd: 2000.0, ssthresh: 1e9 });
    let loss = |kind| Loss { kind, snd_max: 30_000, ..harness::loss(30) };
    rule.on_steered(&mut window, 30_000);
    rule.on_loss(&mut window, &loss(LossKind::DuplicateAcks));
    assert!(rule.steers_recovery() && window.cwnd == 30_000.0);
    rule.on_loss(&mut window, &loss(LossKind::Timeout));
    assert_eq!(window.ssthresh, 15_000.0);
    rule.on_steered(&mut window, 3_000);
    assert_eq!(window.cwnd, 1000.0);
    let ack = |bytes| Ack {
        now: Time::ZERO,
        bytes,
        delivered: bytes,
        rtt: None,
        srtt: None,
        flight: 0,
        prior_flight: 0,
        snd_una: 0,
        snd_max: 0,
        mss: 1000,
        recovering: false,
        by_bytes: false,
        whole_segments: false,
        marked: 0,
        ece: false,
        stamps: None,
        rate: None,
    };
    rule.on_ack(&mut window, &ack(1000));
    assert_eq!(window.cwnd, 2000.0);
    rule.on_ack(&mut window, &ack(2000));
    assert_eq!(window.cwnd, 3000.0);
    rule.on_steered(&mut window, 9_000);
    assert_eq!(window.cwnd, 9000.0);
    // A first report after a timeout does not set the full window immediately either.
    let (mut rule, mut window) = (RnfWindow::default(), Window { cwnd: 2000.0, ssthresh: 1e9 });
    rule.on_loss(&mut window, &loss(LossKind::Timeout));
    rule.on_steered(&mut window, 12_000);
    assert_eq!(window.cwnd, 1000.0);
    (0..20).for_each(|_| rule.on_ack(&mut window, &ack(2000)));
    assert_eq!(window.cwnd, 12_000.0);
}

/// A link with this rate in bit/s; 0 means unknown.
struct Link(u64);

impl NodeView for Link {
    fn queue(&self, _: Direction) -> lasthop_core::agent::QueueState {
        Default::default()
    }
    fn rate(&self, _: Direction) -> Option<Rate> {
        Some(Rate(self.0)).filter(|r| r.0 > 0)
    }
}

/// A link with a known rate of 0.
struct Stopped;

impl NodeView for Stopped {
    fn queue(&self, _: Direction) -> lasthop_core::agent::QueueState {
        Default::default()
    }
    fn rate(&self, _: Direction) -> Option<Rate> {
        Some(Rate(0))
    }
}

/// The controller's notices when `act` is called at this second: (kind, flow, value).
fn calls(
    agent: &mut RnfAgent,
    link: &dyn NodeView,
    second: u64,
    act: impl FnOnce(&mut RnfAgent, &mut Context<'_>),
) -> Vec<(NoticeKind, u32, u64)> {
    let mut actions = Vec::new();
    act(
        agent,
        &mut Context {
            now: Time(second * SECOND),
            options: &Options::NONE,
            node_view: link,
            actions: &mut actions,
        },
    );
    let notice = |a: &Action| match a {
        Action::Notify(n, _) => Some((n.kind, n.flow, n.value)),
        _ => None,
    };
    actions.iter().filter_map(notice).collect()
}

fn data(flow: u32) -> Segment {
    Segment { flow, len: 1000, size: 1040, forward: true, to: 7, ..Segment::default() }
}

#[test]
fn controller_shares_the_rate_and_counts_queued_bytes() {
    use NoticeKind::{Bandwidth, Queue};
    let (mut agent, link) = (RnfAgent::new(Duration::secs(1), false), Link(3_000_000));
    let arrive = |flow| {
        move |a: &mut RnfAgent, ctx: &mut Context<'_>| {
            assert_eq!(
                a.on_segment(ctx, Direction::Downlink, &data(flow)),
                lasthop_core::agent::Verdict::Forward
            )
        }
    };
    assert_eq!(calls(&mut agent, &link, 0, arrive(1)), [(Bandwidth, 1, 3_000_000)]);
    assert_eq!(calls(&mut agent, &link, 0, arrive(1)), []);
    assert_eq!(
        calls(&mut agent, &link, 0, arrive(2)),
        [(Bandwidth, 1, 1_500_000), (Bandwidth, 2, 1_500_000)]
    );
    let leaves = |a: &mut RnfAgent, ctx: &mut Context<'_>| {
        a.on_link_event(ctx, Direction::Downlink, LinkEvent::Dequeued, &data(1))
    };
    assert_eq!(calls(&mut agent, &link, 0, leaves), []);
    assert_eq!(
        calls(&mut agent, &link, 1, |a, ctx| a.on_timer(ctx, 0)),
        [(Queue, 1, 1040), (Queue, 2, 1040)]
    );
    // An idle flow leaves its share to the other.
    assert_eq!(calls(&mut agent, &link, 1, leaves), []);
    assert_eq!(
        calls(&mut agent, &link, 3, |a, ctx| a.on_timer(ctx, 0)),
        [(Queue, 2, 1040), (Bandwidth, 2, 3_000_000)]
    );
}

#[test]
fn controller_distinguishes_lossy_outages_from_stalls() {
    use NoticeKind::{Bandwidth, Queue};
    let (mut agent, link) = (RnfAgent::new(Duration::secs(1), true), Link(3_000_000));
    for _ in 0..4 {
        calls(&mut agent, &link, 0, |a, ctx| {
            a.on_segment(ctx, Direction::Downlink, &data(1));
        });
    }
    let change = |c| {
        move |a: &mut RnfAgent, ctx: &mut Context<'_>| {
            a.on_link_change(ctx, 1, Direction::Downlink, c)
        }
    };
    let leaves = |a: &mut RnfAgent, ctx: &mut Context<'_>| {
        a.on_link_event(ctx, Direction::Downlink, LinkEvent::Dequeued, &data(1))
    };
    assert_eq!(calls(&mut agent, &link, 1, change(LinkChange::Down)), [(Bandwidth, 1, 0)]);
    calls(&mut agent, &link, 1, leaves);
    assert_eq!(calls(&mut agent, &link, 2, change(LinkChange::Up)), [(Bandwidth, 1, 3_000_000)]);
    assert_eq!(calls(&mut agent, &link, 3, change(LinkChange::Down)), [(Bandwidth, 1, 0)]);
    calls(&mut agent, &link, 3, leaves);
    calls(&mut agent, &link, 4, leaves);
    assert_eq!(
        calls(&mut agent, &link, 5, change(LinkChange::Up)),
        [(Queue, 1, 1040), (Bandwidth, 1, 3_000_000)]
    );
    assert_eq!(calls(&mut agent, &link, 5, change(LinkChange::Rate(Rate(1)))), []);
}

#[test]
fn end_of_an_outage_is_reported_without_a_known_rate() {
    use NoticeKind::{Bandwidth, Queue};
    let arrive = |a: &mut RnfAgent, ctx: &mut Context<'_>| {
        assert_eq!(
            a.on_segment(ctx, Direction::Downlink, &data(1)),
            lasthop_core::agent::Verdict::Forward
        )
    };
    let change = |c| {
        move |a: &mut RnfAgent, ctx: &mut Context<'_>| {
            a.on_link_change(ctx, 1, Direction::Downlink, c)
        }
    };
    let leaves = |a: &mut RnfAgent, ctx: &mut Context<'_>| {
        a.on_link_event(ctx, Direction::Downlink, LinkEvent::Dequeued, &data(1))
    };
    let report = |a: &mut RnfAgent, ctx: &mut Context<'_>| a.on_timer(ctx, 0);
    let link = Link(0);
    // Without a measured rate: one frame per second.
    let mut agent = RnfAgent::new(Duration::secs(1), false);
    assert_eq!(calls(&mut agent, &link, 0, arrive), []);
    assert_eq!(calls(&mut agent, &link, 0, change(LinkChange::Down)), [(Bandwidth, 1, 0)]);
    assert_eq!(calls(&mut agent, &link, 1, report), [(Queue, 1, 1040)]);
    assert_eq!(calls(&mut agent, &link, 2, change(LinkChange::Up)), [(Bandwidth, 1, 12_000)]);
    // The rate measured before the outage is used after it.
    let mut agent = RnfAgent::new(Duration::secs(1), false);
    for _ in 0..3 {
        calls(&mut agent, &link, 0, arrive);
    }
    calls(&mut agent, &link, 0, leaves);
    calls(&mut agent, &link, 0, leaves);
    assert_eq!(calls(&mut agent, &link, 1, report), [(Queue, 1, 1040), (Bandwidth, 1, 2 * 8320)]);
    assert_eq!(calls(&mut agent, &link, 2, change(LinkChange::Down)), [(Bandwidth, 1, 0)]);
    assert_eq!(calls(&mut agent, &link, 3, report), [(Queue, 1, 1040)]);
    assert_eq!(calls(&mut agent, &link, 3, change(LinkChange::Up)), [(Bandwidth, 1, 2 * 8320)]);
}

#[test]
fn outage_end_is_reported_to_flows_that_began_or_ended_in_it() {
    use NoticeKind::Bandwidth;
    let arrive = |flags: Flags| {
        move |a: &mut RnfAgent, ctx: &mut Context<'_>| {
            a.on_segment(ctx, Direction::Downlink, &Segment { flags, ..data(1) });
        }
    };
    let change = |c| {
        move |a: &mut RnfAgent, ctx: &mut Context<'_>| {
            a.on_link_change(ctx, 1, Direction::Downlink, c)
        }
    };
    let leaves = |a: &mut RnfAgent, ctx: &mut Context<'_>| {
        a.on_link_event(ctx, Direction::Downlink, LinkEvent::Dequeued, &data(1))
    };
    // The link is down when the flow begins, and has lost its frames.
    let mut agent = RnfAgent::new(Duration::secs(1), false);
    assert_eq!(calls(&mut agent, &Stopped, 0, arrive(Flags::ACK)), [(Bandwidth, 1, 0)]);
    calls(&mut agent, &Stopped, 0, leaves);
    calls(&mut agent, &Stopped, 5, |a, ctx| a.on_timer(ctx, 0));
    assert_eq!(
        calls(&mut agent, &Link(1_000_000), 6, change(LinkChange::Up)),
        [(Bandwidth, 1, 1_000_000)]
    );
    // The FIN was in flight when the outage was reported.
    calls(&mut agent, &Stopped, 7, change(LinkChange::Down));
    calls(&mut agent, &Stopped, 7, arrive(Flags::FIN.with(Flags::ACK)));
    assert_eq!(
        calls(&mut agent, &Link(1_000_000), 8, change(LinkChange::Up)),
        [(Bandwidth, 1, 1_000_000)]
    );
}

#[test]
fn invalid_settings_are_rejected() {
    use crate::catalogue::SchemeChoice;
    for (text, why) in [
        ("rnf:gain=0", "above 0"),
        ("rnf:period=0s", "longer"),
        ("rnf:buffer=0B", "at least"),
        ("rnf:sender=snoop", "not a sender"),
    ] {
        assert!(SchemeChoice::parse(text).unwrap_err().contains(why), "{text}");
    }
    assert!(SchemeChoice::parse("rnf:gain=1.5:queue=5 segments:sender=reno").is_ok());
}
