//! Congestion controls of today's hosts, end to end: CUBIC, BBR, BBRv3 and Copa.

use crate::support::random::never_gives_up;
use crate::support::*;
use lasthop::air::config::{DelayConfig, OutageRule};
use lasthop::scenario::network::{App, Flow, Network};
use lasthop::tcp::profile::{CubicForm, DelayedAck, DelayedAckRule, ProfileName, TsoDefer};
use lasthop::units::{Duration, Size};
use lasthop_sim::events::Kind;

const SCHEMES: [&str; 5] = ["cubic", "cubic:hystart=false", "bbr", "bbr3", "copa"];

fn radio(
    scheme: &str,
    profile: ProfileName,
    app: App,
    loss: f64,
    queue: u64,
    secs: u64,
) -> Network {
    let flow = flow(scheme, profile, app);
    let flow = Flow { receive_window: Size::Segments(2000.0), ..flow };
    lossy_radio(flow, loss, queue, Duration::secs(secs))
}

fn bulk(scheme: &str, loss: f64, queue: u64, secs: u64) -> Network {
    radio(scheme, ProfileName::Linux, App::Bulk, loss, queue, secs)
}

/// Mean goodput in kbit/s under Linux, over three seeds of 60 s.
fn goodput(scheme: &str, loss: f64) -> f64 {
    (1..=3)
        .map(|seed| watch(&bulk(scheme, loss, 1000, 60), seed).result.flows[0].goodput_bps)
        .sum::<f64>()
        / 3e3
}

/// Payload rate, kbit/s, of 2 Mbit/s with segments of 1000 bytes and 52 bytes of headers.
const FULL: f64 = 2000.0 * 1000.0 / 1052.0;

#[test]
fn each_completes_under_every_profile_and_recovery() {
    for scheme in SCHEMES {
        for profile in
            [ProfileName::Rfc, ProfileName::Linux, ProfileName::Ns226, ProfileName::Ns235]
        {
            for recovery in [
                "",
                "tahoe",
                "reno",
                "newreno",
                "sack",
                "sack-ns2",
                "fack",
                "rack",
                "rack+prr+f-rto+dsack-undo",
            ] {
                let scheme = if recovery.is_empty() {
                    scheme.to_string()
                } else {
                    format!("{scheme}:recovery={recovery}")
                };
                for (loss, delayed) in [(0.0, false), (0.03, true), (0.2, true)] {
                    let mut network =
                        radio(&scheme, profile, App::Transfer { size: 100_000 }, loss, 20, 600);
                    network.flows[0].profile.delayed_ack = DelayedAck::Switch(delayed);
                    never_gives_up(&mut network.flows[0].profile);
                    let run = watch(&network, 1).result;
                    assert_eq!(
                        run.flows[0].delivered_bytes, 100_000,
                        "{scheme} under {profile:?} with {loss}"
                    );
                }
            }
        }
    }
}

#[test]
fn runs_can_be_repeated() {
    for scheme in SCHEMES {
        let network = bulk(scheme, 0.02, 50, 20);
        assert_eq!(json(&network, 5), json(&network, 5), "{scheme}");
        assert_ne!(json(&network, 5), json(&network, 6), "{scheme}");
    }
}

/// Times and values of cwnd, in segments.
fn windows(run: &Watched) -> Vec<(f64, f64)> {
    run.log.of(Kind::Cwnd).map(|e| (e.secs(), e.value / 1000.0)).collect()
}

/// A buffer of 100 segments and a bandwidth-delay product of 29: CUBIC fills the buffer until it
/// overflows, and reduces to 70 % of the bytes in flight.
#[test]
fn cubic_fills_the_buffer_and_reduces_to_seventy_per_cent() {
    let run = watch(&bulk("cubic", 0.0, 100, 60), 1);
    let (link, flow) = (&run.result.links[DOWN], &run.result.flows[0]);
    assert!(link.dropped_at_queue > 0 && flow.timeouts.total == 0, "{flow:?}");
    // A full queue takes 100 · 4.2 ms.
    assert!(
        link.queue_delay_s.p99.unwrap() > 0.9 * 0.42 && flow.goodput_bps > 0.97e3 * FULL,
        "{:?} {flow:?}",
        link.queue_delay_s
    );
    let cuts: Vec<f64> = run.log.of(Kind::Ssthresh).map(|e| e.value / 1000.0).collect();
    assert!(
        cuts.len() >= 3 && cuts.iter().skip(1).all(|c| (80.0..100.0).contains(c)),
        "70 % of about 130: {cuts:?}"
    );
}

/// HyStart++ detects the rise of the round-trip time in the round after the bandwidth-delay product
/// of 29 segments is exceeded, at a window of about 84, and then allows five rounds of growth by a
/// quarter: 84 · 1.25⁴·⁵ = 229 segments fit into a queue of 200. A queue of 100 overflows in
/// the third of these rounds, at 130, by the quarter that the window grows in the round trip until
/// the loss is known. Without HyStart++ the window doubles in that time.
#[test]
fn hystart_avoids_the_losses_of_slow_start() {
    let drops = |scheme, queue| {
        let mut network = bulk(scheme, 0.0, queue, 10);
        let profile = &mut network.flows[0].profile;
        profile.cubic = CubicForm::Rfc9438;
        // The windows above are those of a receiver that acknowledges every second segment, at
        // once, and of a sender that answers each ACK.
        profile.delayed_ack_rule = DelayedAckRule::Rfc5681;
        (profile.processing_time, profile.tso_defer) = (Duration::ZERO, TsoDefer::Off);
        let run = watch(&network, 1);
        let end = run.log.of(Kind::Ssthresh).next().unwrap().t;
        run.log.of(Kind::DroppedAtQueue).filter(|e| e.t <= end).count()
    };
    assert_eq!(drops("cubic", 200), 0);
    let (with, without) = (drops("cubic", 100), drops("cubic:hystart=false", 100));
    assert!(
        (25..=33).contains(&with) && (65..=130).contains(&without),
        "{with} with, {without} without"
    );
}

/// The kernel's HyStart leaves slow start when the delay has risen, before any loss. Without it the
/// window doubles until the queue of 100 overflows.
#[test]
fn the_kernels_hystart_leaves_slow_start_without_a_loss() {
    let drops = |scheme| {
        let run = watch(&bulk(scheme, 0.0, 100, 10), 1);
        run.log.of(Kind::DroppedAtQueue).filter(|e| e.secs() < 2.0).count()
    };
    assert_eq!(drops("cubic"), 0);
    assert!(drops("cubic:hystart=false") > 65);
}

/// cwnd is concave up to the window of the last loss and convex beyond: its growth is smallest in
/// the middle third of an epoch.
#[test]
fn the_curve_of_cubic_is_flat_in_the_middle() {
    // 60 Mbit/s and 150 ms, a bandwidth-delay product of 1100 segments, far from the Reno-friendly
    // region.
    let mut network = bulk("cubic", 0.0, 300, 60);
    for l in [DOWN, UP] {
        (network.links[l].rate, network.links[l].delay) =
            (mbps(60.0), DelayConfig::constant(ms(75)));
    }
    for l in [0, 1] {
        network.links[l].rate = mbps(1000.0);
    }
    network.flows[0].receive_window = Size::Segments(10_000.0);
    let run = watch(&network, 1);
    let cuts: Vec<f64> = run.log.of(Kind::Ssthresh).map(|e| e.secs()).collect();
    let longest = cuts.windows(2).max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0]))).unwrap();
    let (from, to) = (longest[0] + 1.0, longest[1]);
    let windows = windows(&run);
    let at = |t: f64| windows.iter().take_while(|w| w.0 <= t).last().unwrap().1;
    let step = (to - from) / 3.0;
    let grown: Vec<f64> = (0..3)
        .map(|i| at(from + step * f64::from(i + 1) - 0.01) - at(from + step * f64::from(i)))
        .collect();
    assert!(
        to - from > 6.0 && grown[1] < 0.5 * grown[0] && grown[1] < 0.5 * grown[2],
        "{from} to {to}: {grown:?}"
    );
}

/// With the same buffer BBR holds the queue below one bandwidth-delay product (BDP) and the link
/// busy. BBRv1 drains only to one BDP, rounded up, plus its reserve of three bursts (here pairs),
/// made even: 8 segments of 4.2 ms remain queued, and a quarter of a BDP is added in one phase of
/// eight. In BBRv3 the queue is that of the probes: a quarter of a round trip for each of five
/// rounds, drained at a tenth of the rate, every four seconds.
#[test]
fn bbr_limits_the_queue_on_a_link_without_loss() {
    for (scheme, most) in
        [("bbr", 8.0 * 0.0042 + 0.25 * 0.12 / 8.0), ("bbr3", 0.5 * 0.15 * (0.6 + 1.5) / 4.0)]
    {
        let mut network = bulk(scheme, 0.0, 100, 60);
        let run = watch(&network, 1);
        let (link, flow) = (&run.result.links[DOWN], &run.result.flows[0]);
        assert_eq!(link.dropped_at_queue, 0, "{scheme}");
        assert!(flow.goodput_bps > 0.94e3 * FULL, "{scheme}: {} of {FULL}", flow.goodput_bps);
        // Without Startup, which queues two BDPs for three rounds.
        network.measure_from = Duration::secs(5);
        let queue = watch(&network, 1).result.links[DOWN].queue_delay_s;
        assert!(
            queue.mean.unwrap() < most && queue.p95.unwrap() < 0.12,
            "{scheme}: {queue:?}, at most {most}"
        );
    }
}

/// 5 % of random loss: BBR has more than four times the goodput of Reno and CUBIC.
#[test]
fn bbr_survives_random_loss() {
    let (reno, cubic, bbr) = (goodput("reno", 0.05), goodput("cubic", 0.05), goodput("bbr", 0.05));
    assert!(
        bbr > 4.0 * reno && bbr > 4.0 * cubic && bbr > 0.8 * FULL,
        "reno {reno:.0}, cubic {cubic:.0}, bbr {bbr:.0} kbit/s"
    );
}

/// BBRv3 treats a loss rate of 5 % as congestion, one of 0.5 % as noise.
#[test]
fn bbr3_tolerates_little_loss_and_reacts_to_much() {
    let (little, much, reno) =
        (goodput("bbr3", 0.005), goodput("bbr3", 0.05), goodput("reno", 0.05));
    assert!(
        little > 0.75 * FULL && much > 1.2 * reno && much < 0.8 * FULL,
        "{little:.0} and {much:.0}, reno {reno:.0} kbit/s"
    );
}

/// Small windows, in the Reno-friendly region: CUBIC has at least about Reno's goodput.
#[test]
fn cubic_is_not_below_reno_at_one_per_cent() {
    let (reno, cubic) = (goodput("reno", 0.01), goodput("cubic", 0.01));
    assert!(cubic > 0.95 * reno, "reno {reno:.0}, cubic {cubic:.0} kbit/s");
}

/// After the first ten, each segment leaves one serialization time at the paced rate after the
/// previous one, or with it as a pair; a window is never sent at once.
#[test]
fn bbr_sends_no_bursts() {
    for scheme in ["bbr", "bbr3"] {
        let run = watch(&bulk(scheme, 0.01, 100, 20), 1);
        let sent = run.log.sent().split_off(10);
        let most = sent.chunk_by(|a, b| a.1 == b.1).map(<[_]>::len).max().unwrap();
        // A pair, and the segments that SACK recovery must send at once.
        assert!(most <= 4, "{scheme}: {most}");
    }
}

/// Two flows that begin 5 s apart share the link.
#[test]
fn two_flows_of_one_scheme_share_the_link() {
    for scheme in SCHEMES {
        let mut network = bulk(scheme, 0.0, 100, 120);
        let mut other = network.flows[0].clone();
        (other.name, other.start) = ("flow 2".into(), Duration::secs(5));
        network.flows.push(other);
        network.measure_from = Duration::secs(40);
        let flows = watch(&network, 1).result.flows;
        let (a, b) = (flows[0].goodput_bps, flows[1].goodput_bps);
        assert!(
            (a + b) > 0.9e3 * FULL && a.min(b) > 0.25 * a.max(b),
            "{scheme}: {a:.0} and {b:.0} bit/s"
        );
    }
}

/// F-RTO may withhold new data after a timeout while a segment waits for the pacer. The pacer's
/// timer must not fire forever at that instant. The stalls vary around the timeout, so that some of
/// them end in such a wait.
#[test]
fn pacing_and_forward_rto_recovery_do_not_wait_for_each_other() {
    for stall in (200..1500).step_by(20) {
        let mut net = bulk("bbr", 0.02, 100, 20);
        net.links[DOWN].outages =
            (1..6).map(|k| outage(3000 * k, stall, OutageRule::Held)).collect();
        net.links[UP].loss = net.links[DOWN].loss.clone();
        let run = watch(&net, stall);
        assert!(run.result.flows[0].goodput_bps > 100_000.0, "{stall}");
    }
}

/// Section 3.1 of the paper: alone, the queue oscillates between 0 and 2.5 / delta segments, 5 of
/// 4.2 ms here, and is half full in the mean.
#[test]
fn copa_keeps_a_few_segments_in_the_queue() {
    for (delta, settings) in [(0.5, ""), (0.25, ":delta=0.25:competes=false")] {
        let mut network = bulk(&format!("copa{settings}"), 0.0, 1000, 60);
        network.measure_from = Duration::secs(20);
        let flow = &watch(&network, 1).result.flows[0];
        let segments = |delay: Option<f64>| (delay.unwrap() - 0.066) / 0.0042;
        let (mean, p95) = (flow.one_way_delay_s.mean.unwrap(), flow.one_way_delay_s.p95);
        let (mean, p95) = (segments(Some(mean)), segments(p95));
        let amplitude = 2.5 / delta;
        assert!((0.25..0.8).contains(&(mean / amplitude)), "{delta}: {mean} of {amplitude}");
        assert!((0.7..1.5).contains(&(p95 / amplitude)), "{delta}: {p95} of {amplitude}");
        assert!(flow.goodput_bps > 0.97e3 * FULL, "{delta}: {}", flow.goodput_bps);
    }
}

/// Losses on the air change nothing (section 5.3: robust to loss that is not congestion).
#[test]
fn copa_does_not_mind_losses_on_the_air() {
    let (copa, cubic) = (goodput("copa", 0.02), goodput("cubic", 0.02));
    assert!(copa > 0.85 * FULL && copa > 2.0 * cubic, "copa {copa:.0}, cubic {cubic:.0} kbit/s");
}

/// Section 2.2: beside a flow that fills the queue, the competitive mode keeps a share.
#[test]
fn copa_competes_with_what_fills_the_queue() {
    let share = |scheme: &str| {
        let mut network = bulk("reno", 0.0, 60, 120);
        let mut other = network.flows[0].clone();
        other.name = "flow 2".into();
        other.scheme = crate::support::scheme(scheme);
        network.flows.push(other);
        network.measure_from = Duration::secs(40);
        let flows = watch(&network, 1).result.flows;
        flows[1].goodput_bps / (flows[0].goodput_bps + flows[1].goodput_bps)
    };
    let (competing, meek) = (share("copa"), share("copa:competes=false"));
    assert!((0.25..0.75).contains(&competing) && meek < 0.2, "{competing} {meek}");
}
