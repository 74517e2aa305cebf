use super::model::path::Path;
use super::*;
use crate::testing::harness::{MSS, ack, loss, start, timeout, window};
use lasthop_tcp::rate::RateSample;
use proptest::prelude::*;

/// 250 kB/s and 100 ms: 25 segments.
fn path(flow: u32) -> Path<BbrWindow> {
    Path::new(BbrWindow::new(), flow, 250_000.0, 100)
}

/// The states during the next `secs` seconds, each with the time (s) of its start.
fn modes(p: &mut Path<BbrWindow>, secs: f64) -> Vec<(Mode, f64)> {
    p.changes(secs, |rule| rule.mode)
}

#[test]
fn startup_finds_the_bandwidth_drain_empties_the_queue_and_probing_cycles() {
    let mut p = path(0);
    let seen = modes(&mut p, 5.0);
    let names: Vec<Mode> = seen.iter().map(|s| s.0).collect();
    let cycle: Vec<Mode> = (0..30).map(|i| Mode::ProbeBw(i % 8)).collect();
    assert_eq!(names[..2], [Mode::Startup, Mode::Drain]);
    assert_eq!(names[2..32], cycle);
    // Growth from ten segments to 25 takes less than two doublings, then three rounds without
    // growth, whose round-trip time the queue multiplies by up to 2.885.
    assert!((0.6..1.4).contains(&seen[1].1), "{seen:?}");
    assert!(
        seen[2].1 - seen[1].1 < 0.5,
        "a queue of less than two pipes, at 35 % of the rate: {seen:?}"
    );
    // A phase takes a round trip without a queue; that of 0.75 ends when the queue is gone.
    for pair in seen[3..].windows(2) {
        let took = pair[1].1 - pair[0].1;
        let bounds = if pair[0].0 == Mode::ProbeBw(1) { 0.0..0.115 } else { 0.1..0.16 };
        assert!(bounds.contains(&took), "{:?} took {took}", pair[0].0);
    }
    assert!((p.rule.bandwidth.get() / 250_000.0 - 1.0).abs() < 0.02);
    assert_eq!(p.rule.min_rtt, Some(Duration::millis(100)), "the handshake's");
}

/// Linux draws where the cycle begins, but never at 0.75.
#[test]
fn the_cycle_begins_where_the_number_of_the_flow_says() {
    for (flow, phase) in [(0, 0), (1, 7), (3, 5), (6, 2), (7, 0)] {
        let mut p = path(flow);
        assert!(p.until(3.0, |p| matches!(p.rule.mode, Mode::ProbeBw(_))));
        assert_eq!(p.rule.mode, Mode::ProbeBw(phase));
    }
}

#[test]
fn a_steady_flow_keeps_the_queue_short_and_the_link_busy() {
    let mut p = path(0);
    p.until(3.0, |_| false);
    let (mut most, from, at) = (0.0, p.rule.delivered, p.now.as_secs());
    p.until(4.0, |p| {
        most = f64::max(most, p.in_flight());
        false
    });
    // The BDP is 25 segments; probing adds a quarter and a few segments.
    assert!((25.0..40.0).contains(&(most / MSS)), "{most}");
    assert!((p.rule.delivered - from) as f64 / (p.now.as_secs() - at) > 0.96 * 250_000.0);
}

/// After ten seconds without a smaller round-trip time: four segments for 200 ms and a round, then
/// the saved window.
#[test]
fn after_ten_seconds_it_looks_for_the_round_trip_time() {
    let mut p = path(0);
    let seen = modes(&mut p, 12.0);
    let at = seen.iter().position(|s| s.0 == Mode::ProbeRtt).unwrap();
    // Only the handshake has the round-trip time 100 ms; data segments take 4 ms longer, so no
    // sample renews it.
    assert!((10.0..10.2).contains(&seen[at].1), "{:?}", seen[at]);
    let stayed = seen[at + 1].1 - seen[at].1;
    assert!((0.2..0.6).contains(&stayed), "{stayed}");
    assert_eq!(seen[at + 1].0, Mode::ProbeBw(0));
    assert!(
        p.rule.min_rtt.is_some_and(|r| (100..=105).contains(&(r.0 / 1_000_000))),
        "{:?}",
        p.rule.min_rtt
    );
    assert!(p.w.cwnd > 40.0 * MSS, "the window of before is back: {:?}", p.w);
    let mut p = path(0);
    assert!(p.until(12.0, |p| p.rule.mode == Mode::ProbeRtt && p.in_flight() <= 4.0 * MSS));
    assert_eq!(p.w.cwnd, 4.0 * MSS);
}

/// Ten rounds of 500 ms, because the window for twice the rate has filled the queue.
#[test]
fn the_rate_follows_the_path_within_ten_rounds() {
    let mut p = path(0);
    p.until(3.0, |_| false);
    p.rate = 125_000.0;
    p.until(8.0, |_| false);
    assert!((p.rule.bandwidth.get() / 125_000.0 - 1.0).abs() < 0.05, "{}", p.rule.bandwidth.get());
    p.rate = 500_000.0;
    p.until(6.0, |_| false);
    assert!((p.rule.bandwidth.get() / 500_000.0 - 1.0).abs() < 0.05, "{}", p.rule.bandwidth.get());
}

/// With 5 % loss, rate and window are unchanged.
#[test]
fn random_loss_does_not_slow_it_down() {
    let mut p = path(0);
    p.lose_every = 20;
    p.until(8.0, |_| false);
    assert!((p.rule.bandwidth.get() / 250_000.0 - 1.0).abs() < 0.05, "{}", p.rule.bandwidth.get());
}

fn sample(prior: u64, total: u64, rate: f64) -> Option<RateSample> {
    Some(RateSample {
        rate,
        delivered: total - prior,
        interval: Duration::millis(100),
        prior_delivered: prior,
        total_delivered: total,
        app_limited: false,
        tx_in_flight: 20_000,
        rtt: Some(Duration::millis(100)),
        lost: 0,
        newly_lost: 0,
    })
}

/// A rule in ProbeBW over 100 kB/s and 100 ms: the BDP is 10 segments; twice that, and six for
/// three bursts of two, make a window of 26.
fn steady() -> (BbrWindow, Window) {
    let (mut r, mut w) = (BbrWindow::new(), window(10.0, f64::INFINITY));
    r.on_established(&mut w, &start());
    (r.mode, r.full.ever, r.delivered) = (Mode::ProbeBw(3), true, 100_000);
    r.bandwidth.update(0, BANDWIDTH_ROUNDS, 100_000.0);
    // 790 kbit/s would give bursts of one segment; ten times that gives two.
    r.pacing.set(10.0, 100_000.0);
    (r, w)
}

/// An ACK, ten milliseconds for each segment delivered so far.
fn see(r: &mut BbrWindow, w: &mut Window, a: Ack) {
    let (prior, total) = (r.delivered - 10_000, r.delivered + a.delivered);
    r.on_any_ack(
        w,
        &Ack {
            now: Time(10_000 * total),
            rate: sample(prior, total, 100_000.0),
            srtt: Some(Duration::millis(100)),
            ..a
        },
    );
}

#[test]
fn the_window_is_two_pipes_and_room_for_three_bursts() {
    let (mut r, mut w) = steady();
    assert_eq!(r.target(2.0), 26.0 * MSS);
    assert_eq!(
        r.target(1.25),
        20.0 * MSS,
        "12.5 are 13 segments, 19 with the bursts, and that is made even"
    );
    // cwnd grows by what ACKs deliver. By then bursts are single segments: three; and an ACK of
    // three segments is three ahead of the rate.
    see(&mut r, &mut w, Ack { delivered: 3000, ..ack() });
    assert_eq!(w.cwnd, 13.0 * MSS);
    (0..20).for_each(|_| see(&mut r, &mut w, ack()));
    assert_eq!((w.cwnd, r.pacing.quantum()), (26.0 * MSS, MSS));
}

/// Packet conservation in the first round of recovery; then slow start towards the target; at the
/// end the saved window.
#[test]
fn recovery_conserves_packets_for_a_round_and_gives_the_window_back() {
    let (mut r, mut w) = steady();
    w.cwnd = 24.0 * MSS;
    let lost = Lost {
        now: Time(1),
        seq: 50_000,
        bytes: 1000,
        tx_in_flight: 20_000,
        lost: 1000,
        delivered: 100_000,
        app_limited: false,
    };
    r.in_flight = 20_000;
    r.on_lost(&mut w, &lost);
    r.on_loss(&mut w, &Loss { snd_max: 70_000, ..loss(20) });
    assert_eq!(w.cwnd, 24.0 * MSS, "until the next ACK (`tcp_rack_reo_timeout`)");
    see(&mut r, &mut w, Ack { flight: 15_000, snd_una: 50_000, ..ack() });
    assert_eq!(w.cwnd, 16.0 * MSS, "as many as the ACK delivers");
    see(&mut r, &mut w, Ack { flight: 15_000, delivered: 2000, snd_una: 50_000, ..ack() });
    assert_eq!(w.cwnd, 17.0 * MSS);
    // A segment sent after the beginning is delivered: the round is over.
    r.rounds.restart(0);
    see(&mut r, &mut w, Ack { flight: 15_000, snd_una: 50_000, ..ack() });
    assert_eq!(w.cwnd, 18.0 * MSS);
    see(&mut r, &mut w, Ack { flight: 15_000, snd_una: 70_000, ..ack() });
    assert_eq!(w.cwnd, 25.0 * MSS, "and what this ACK delivers");
}

/// For BBR a recovery that begins with the ACK that ends another is the same (`prev_ca_state`):
/// neither is the window given back nor a round conserved.
#[test]
fn a_recovery_right_after_another_continues_it() {
    let (mut r, mut w) = steady();
    w.cwnd = 24.0 * MSS;
    r.on_loss(&mut w, &Loss { snd_max: 70_000, ..loss(20) });
    see(&mut r, &mut w, Ack { flight: 15_000, snd_una: 50_000, ..ack() });
    r.rounds.restart(0);
    see(&mut r, &mut w, Ack { flight: 15_000, snd_una: 60_000, ..ack() });
    assert_eq!(w.cwnd, 17.0 * MSS);
    r.on_loss(&mut w, &Loss { snd_max: 90_000, ..loss(15) });
    see(&mut r, &mut w, Ack { flight: 10_000, snd_una: 70_000, ..ack() });
    assert_eq!((w.cwnd, r.prior_cwnd), (18.0 * MSS, 24.0 * MSS));
    see(&mut r, &mut w, Ack { flight: 10_000, snd_una: 90_000, ..ack() });
    assert_eq!(w.cwnd, 24.0 * MSS, "the saved window");
}

/// Losses that a timer has found are of no ACK: this one takes nothing off (`rs->losses`).
#[test]
fn only_losses_of_the_ack_reduce_the_window() {
    let after = |at| {
        let (mut r, mut w) = steady();
        w.cwnd = 20.0 * MSS;
        let (tx_in_flight, delivered) = (20_000, 100_000);
        let (seq, bytes, lost, app_limited) = (0, 3000, 3000, false);
        r.on_lost(
            &mut w,
            &Lost { now: at, seq, bytes, tx_in_flight, lost, delivered, app_limited },
        );
        see(&mut r, &mut w, Ack { flight: 15_000, ..ack() });
        w.cwnd
    };
    let ack_at = Time(1_010_000_000);
    assert_eq!((after(ack_at), after(Time(8))), (18.0 * MSS, 21.0 * MSS));
}

/// Twelve segments are in flight and ten fill the pipe; the next one leaves in 20 ms, in which two
/// are delivered (`bbr_packets_in_net_at_edt`).
#[test]
fn drain_ends_by_what_is_in_flight_when_the_next_segment_leaves() {
    let drained = |wait| {
        let (mut r, mut w) = steady();
        r.mode = Mode::Drain;
        let target = r.target(1.0) as u64;
        r.departure.set(Time(1_010_000_000) + wait);
        see(&mut r, &mut w, Ack { flight: target + 2000, ..ack() });
        r.mode != Mode::Drain
    };
    assert!(drained(Duration::millis(20)) && !drained(Duration::millis(19)));
}

/// cwnd was 30 segments before the last loss (`bbr_save_cwnd`).
#[test]
fn probe_rtt_keeps_a_larger_window_of_before() {
    let (mut r, mut w) = steady();
    (w.cwnd, r.prior_cwnd) = (20.0 * MSS, 30.0 * MSS);
    let now = Time::ZERO + Duration::secs(11);
    r.on_any_ack(&mut w, &Ack { now, flight: 9000, ..ack() });
    assert_eq!((r.mode, r.prior_cwnd), (Mode::ProbeRtt, 30.0 * MSS));
}

/// The last segment of a stream may be small; the bytes it delivers must not become the window.
#[test]
fn conservation_leaves_one_segment_at_least() {
    let (mut r, mut w) = steady();
    r.on_loss(&mut w, &Loss { snd_max: 70_000, ..loss(1) });
    see(&mut r, &mut w, Ack { flight: 0, delivered: 202, snd_una: 50_000, ..ack() });
    assert_eq!(w.cwnd, MSS);
}

#[test]
fn a_timeout_leaves_one_segment_beyond_what_is_in_flight_and_the_model_as_it_was() {
    let (mut r, mut w) = steady();
    w.cwnd = 24.0 * MSS;
    r.on_loss(&mut w, &Loss { snd_max: 70_000, ..timeout(20) });
    assert_eq!((w.cwnd, r.bandwidth.get()), (MSS, 100_000.0));
    see(&mut r, &mut w, Ack { flight: 0, snd_una: 50_000, ..ack() });
    assert_eq!(w.cwnd, 4.0 * MSS, "never below four once ACKs come");
    r.on_undo(&mut w, &window(24.0, f64::INFINITY), Time(2));
    assert_eq!(w.cwnd, 24.0 * MSS);
}

#[test]
fn after_an_idle_time_it_paces_at_the_bandwidth() {
    let (mut r, mut w) = steady();
    r.mode = Mode::ProbeBw(0);
    see(&mut r, &mut w, ack());
    assert_eq!(r.pacing(), Some(Rate(990_000)), "125 % of 100 kB/s, less 1 %");
    r.on_sent(&mut w, Time(9), 1000, 5000);
    assert_eq!(r.pacing(), Some(Rate(990_000)));
    r.on_sent(&mut w, Time(9), 1000, 1000);
    assert_eq!(r.pacing(), Some(Rate(792_000)));
}

proptest! {
    /// On any path: cwnd is at least one segment (four outside of recovery), always finite, and the
    /// sender does not stop.
    #[test]
    fn any_path_is_used(
        rate in 1_000.0..5_000_000.0f64,
        delay in 1u64..600,
        lose in 0u64..60,
        flow in 0u32..10,
    ) {
        let mut p = Path::new(BbrWindow::new(), flow, rate, delay);
        // More than a sixth would be detected as a policer.
        p.lose_every = if lose < 8 { 0 } else { lose };
        let mut steps = 0;
        p.until(30.0, |p| {
            assert!(p.w.cwnd >= 4.0 * MSS && p.w.cwnd.is_finite());
            assert!(p.rule.pacing().unwrap().0 >= 1);
            steps += 1;
            steps > 20_000
        });
        let used = p.now.as_secs() - 3.0 - 8.0 * delay as f64 / 1000.0;
        let delivered = p.rule.delivered as f64;
        prop_assert!(delivered > 0.7 * rate * used, "{delivered} of {}", rate * p.now.as_secs());
    }
}
