//! Metrics of a whole run.

use super::flows::{Column, Flows};
use super::ratios::share;
use crate::probes::result::{LinkResult, Matrix, RunResult};

/// Index of the radio link in the direction of the data of the first flow: the first one to a
/// receiver, else from a sender, else any.
pub fn data_radio(run: &RunResult) -> Option<usize> {
    let find = |wanted: &dyn Fn(&LinkResult) -> bool| {
        run.links.iter().position(|link| link.radio && wanted(link))
    };
    find(&|link| run.flows.iter().any(|f| f.to == link.to))
        .or_else(|| find(&|link| run.flows.iter().any(|f| f.from == link.from)))
        .or_else(|| find(&|_| true))
}

fn of_radio(run: &RunResult, value: fn(&LinkResult) -> Option<f64>) -> Option<f64> {
    value(&run.links[data_radio(run)?])
}

fn of_links(run: &RunResult, count: fn(&LinkResult) -> u64) -> Option<f64> {
    Some(run.links.iter().map(count).sum::<u64>() as f64)
}

/// Sum of some entries of the confusion matrices of all flows; `None` if no scheme has a
/// classifier.
fn classified(run: &RunResult, count: fn(&Matrix) -> u64) -> Option<u64> {
    run.classifier.as_ref().map(|c| c.flows.iter().map(|f| count(&f.matrix)).sum())
}

fn segments(run: &RunResult, count: fn(&Matrix) -> u64) -> Option<f64> {
    classified(run, count).map(|n| n as f64)
}

fn classifier_accuracy(run: &RunResult) -> Option<f64> {
    let right = classified(run, |m| m.wireless.wireless + m.congestion.congestion)?;
    let wrong = classified(run, |m| m.wireless.congestion + m.congestion.wireless)?;
    share(right as f64, (right + wrong) as f64)
}

fn airtime_per_byte(flows: &Flows<'_>) -> Option<f64> {
    let radio = flows.run().links.iter().filter(|link| link.radio);
    let busy = radio.map(|link| link.busy_s).reduce(|sum, s| sum + s)?;
    share(busy, flows.delivered())
}

/// Completion time of the last flow; unknown while one is not complete.
fn last_completed(flows: &Flows<'_>) -> Option<f64> {
    let all: Option<Vec<f64>> = flows.iter().map(|f| f.completed_s).collect();
    all?.into_iter().reduce(f64::max)
}

fn per_offered_bit(run: &RunResult, bits: u64) -> Option<f64> {
    share(bits as f64, run.traffic_bits.offered as f64)
}

/// Metrics of all flows and links.
pub static METRICS: &[Column] = &[
    Column::new(
        "goodput_bps",
        "goodput (kbit/s)",
        1e-3,
        "in-order payload of all flows divided by the measured time",
        |f| f.goodput(),
    ),
    Column::new(
        "one_way_delay_s_p95",
        "one-way delay, 95th percentile (ms)",
        1e3,
        "maximum over the flows",
        |f| f.largest(|f| f.one_way_delay_s.p95),
    ),
    Column::new(
        "queue_delay_s_p95",
        "queueing delay at the radio link, 95th percentile (ms)",
        1e3,
        "in the direction of the data",
        |f| of_radio(f.run(), |link| link.queue_delay_s.p95),
    ),
    Column::new("retransmissions", "retransmissions", 1.0, "retransmitted segments", |f| {
        Some(f.sum(|f| f.retransmissions.total))
    }),
    Column::new(
        "spurious_retransmissions",
        "spurious retransmissions",
        1.0,
        "retransmissions of a segment of which an earlier copy arrived",
        |f| Some(f.sum(|f| f.retransmissions.spurious)),
    ),
    Column::new("timeouts", "timeouts", 1.0, "retransmission timeouts (RTO)", |f| {
        Some(f.sum(|f| f.timeouts.total))
    }),
    Column::new(
        "spurious_timeouts",
        "spurious timeouts",
        1.0,
        "timeouts for data that had arrived or was in flight",
        |f| Some(f.sum(|f| f.timeouts.spurious)),
    ),
    Column::new("fast_retransmits", "fast retransmits", 1.0, "fast retransmits", |f| {
        Some(f.sum(|f| f.fast_retransmits.total))
    }),
    Column::new(
        "spurious_fast_retransmits",
        "spurious fast retransmits",
        1.0,
        "fast retransmits of data that was not lost",
        |f| Some(f.sum(|f| f.fast_retransmits.spurious)),
    ),
    Column::new(
        "spurious_share",
        "share of the fast retransmits that are spurious",
        1.0,
        "unknown without fast retransmits",
        |f| share(f.sum(|f| f.fast_retransmits.spurious), f.sum(|f| f.fast_retransmits.total)),
    )
    .of_one(),
    Column::new(
        "burst_segments",
        "largest burst (segments)",
        1.0,
        "consecutive segments, faster than the bottleneck; maximum over the flows",
        |f| f.largest(|f| f.burst_segments.map(|n| n as f64)),
    ),
    Column::new(
        "cwnd_reductions",
        "window reductions",
        1.0,
        "episodes in which cwnd or ssthresh fell",
        |f| Some(f.sum(|f| f.cwnd_reductions)),
    ),
    Column::new(
        "radio_airtime_per_byte_s",
        "air time per delivered byte (µs)",
        1e6,
        "busy time of the radio link in both directions, divided by delivered bytes",
        airtime_per_byte,
    ),
    Column::new(
        "completed_s",
        "completion time (s)",
        1.0,
        "completion time of the last finite transfer",
        last_completed,
    ),
    Column::new(
        "slowest_goodput_bps",
        "goodput of the slowest flow (kbit/s)",
        1e-3,
        "smallest goodput of a bulk flow",
        |f| f.slowest(),
    ),
    Column::new("jain", "Jain's fairness index", 1.0, "over the goodputs of the bulk flows", |f| {
        f.jain(1)
    })
    .of_one(),
    Column::new(
        "one_way_delay_s_mean",
        "one-way delay, mean (ms)",
        1e3,
        "maximum over the flows",
        |f| f.largest(|f| f.one_way_delay_s.mean),
    ),
    Column::new(
        "utilisation",
        "utilisation of the radio link",
        1.0,
        "busy share of time, in the direction of the data",
        |f| of_radio(f.run(), |link| link.utilisation),
    )
    .of_one(),
    Column::new("lost_on_air", "frames lost on the air", 1.0, "all links", |f| {
        of_links(f.run(), |link| link.lost_on_air)
    }),
    Column::new("dropped_at_queue", "frames dropped at queues", 1.0, "all links", |f| {
        of_links(f.run(), |link| link.dropped_at_queue)
    }),
    Column::new(
        "marked_frames",
        "frames marked by queues",
        1.0,
        "ECN congestion experienced, all links",
        |f| of_links(f.run(), |link| link.marked_frames),
    ),
    Column::new(
        "cumulative_throughput_bps",
        "cumulative throughput (kbit/s)",
        1e-3,
        "received data with headers, each segment counted once, all flows",
        |f| share(f.run().traffic_bits.data as f64, f.run().measured_s),
    ),
    Column::new(
        "contention_loss_ratio",
        "contention loss / offered load",
        1.0,
        "bits of packets lost in collisions, divided by bits sent by the endpoints",
        |f| per_offered_bit(f.run(), f.run().traffic_bits.collisions),
    )
    .of_one(),
    Column::new(
        "bit_error_loss_ratio",
        "bit-error loss / offered load",
        1.0,
        "bits of packets lost to bit errors, divided by bits sent by the endpoints",
        |f| per_offered_bit(f.run(), f.run().traffic_bits.bit_errors),
    )
    .of_one(),
    Column::new(
        "radio_capacity_bps",
        "capacity of the radio link (kbit/s)",
        1e-3,
        "in the direction of the data, if known",
        |f| of_radio(f.run(), |link| link.capacity_bps),
    ),
    Column::new(
        "classifier_accuracy",
        "share of losses classified correctly",
        1.0,
        "unknown without a classifier or a loss",
        |f| classifier_accuracy(f.run()),
    )
    .of_one(),
    Column::new(
        "wireless_as_wireless",
        "wireless losses classified as wireless",
        1.0,
        "segments",
        |f| segments(f.run(), |m| m.wireless.wireless),
    ),
    Column::new(
        "wireless_as_congestion",
        "wireless losses classified as congestion",
        1.0,
        "segments",
        |f| segments(f.run(), |m| m.wireless.congestion),
    ),
    Column::new(
        "congestion_as_wireless",
        "congestion losses classified as wireless",
        1.0,
        "segments",
        |f| segments(f.run(), |m| m.congestion.wireless),
    ),
    Column::new(
        "congestion_as_congestion",
        "congestion losses classified as congestion",
        1.0,
        "segments",
        |f| segments(f.run(), |m| m.congestion.congestion),
    ),
    Column::new(
        "not_lost_as_wireless",
        "segments not lost classified as wireless",
        1.0,
        "segments",
        |f| segments(f.run(), |m| m.not_lost.wireless),
    ),
    Column::new(
        "not_lost_as_congestion",
        "segments not lost classified as congestion",
        1.0,
        "segments",
        |f| segments(f.run(), |m| m.not_lost.congestion),
    ),
    Column::new(
        "limited_by_cwnd",
        "share of time limited by cwnd",
        1.0,
        "mean over the flows",
        |f| f.limited_by(|s| s.cwnd),
    ),
    Column::new(
        "limited_by_pacing",
        "share of time limited by pacing",
        1.0,
        "mean over the flows",
        |f| f.limited_by(|s| s.pacing),
    ),
    Column::new(
        "limited_by_receive_window",
        "share of time limited by receive window",
        1.0,
        "mean over the flows",
        |f| f.limited_by(|s| s.receive_window),
    ),
    Column::new(
        "limited_by_send_buffer",
        "share of time limited by send buffer",
        1.0,
        "mean over the flows",
        |f| f.limited_by(|s| s.send_buffer),
    ),
    Column::new(
        "limited_by_application",
        "share of time limited by application",
        1.0,
        "mean over the flows",
        |f| f.limited_by(|s| s.application),
    ),
    Column::new(
        "limited_by_relay_buffer",
        "share of time limited by relay buffer",
        1.0,
        "mean over the flows",
        |f| f.limited_by(|s| s.relay_buffer),
    ),
    Column::new(
        "limited_by_agent_cache",
        "share of time limited by agent cache",
        1.0,
        "mean over the flows",
        |f| f.limited_by(|s| s.agent_cache),
    ),
    Column::new(
        "limited_by_handshake",
        "share of time limited by handshake",
        1.0,
        "mean over the flows",
        |f| f.limited_by(|s| s.handshake),
    ),
    Column::new(
        "limited_by_outage",
        "share of time limited by link outage",
        1.0,
        "mean over the flows",
        |f| f.limited_by(|s| s.outage),
    ),
];
