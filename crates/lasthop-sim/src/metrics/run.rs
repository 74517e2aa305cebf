//! Metrics of a whole run.

use super::flows::{FlowMetric, Flows};
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
pub static METRICS: &[(&str, FlowMetric)] = &[
    ("goodput_bps", |f| f.goodput()),
    ("one_way_delay_s_p95", |f| f.largest(|f| f.one_way_delay_s.p95)),
    ("queue_delay_s_p95", |f| of_radio(f.run(), |link| link.queue_delay_s.p95)),
    ("retransmissions", |f| Some(f.sum(|f| f.retransmissions.total))),
    ("spurious_retransmissions", |f| Some(f.sum(|f| f.retransmissions.spurious))),
    ("timeouts", |f| Some(f.sum(|f| f.timeouts.total))),
    ("spurious_timeouts", |f| Some(f.sum(|f| f.timeouts.spurious))),
    ("fast_retransmits", |f| Some(f.sum(|f| f.fast_retransmits.total))),
    ("spurious_fast_retransmits", |f| Some(f.sum(|f| f.fast_retransmits.spurious))),
    ("spurious_share", |f| {
        share(f.sum(|f| f.fast_retransmits.spurious), f.sum(|f| f.fast_retransmits.total))
    }),
    ("burst_segments", |f| f.largest(|f| f.burst_segments.map(|n| n as f64))),
    ("cwnd_reductions", |f| Some(f.sum(|f| f.cwnd_reductions))),
    ("radio_airtime_per_byte_s", airtime_per_byte),
    ("completed_s", last_completed),
    ("jain", |f| f.jain(1)),
    ("one_way_delay_s_mean", |f| f.largest(|f| f.one_way_delay_s.mean)),
    ("utilisation", |f| of_radio(f.run(), |link| link.utilisation)),
    ("lost_on_air", |f| of_links(f.run(), |link| link.lost_on_air)),
    ("dropped_at_queue", |f| of_links(f.run(), |link| link.dropped_at_queue)),
    ("marked_frames", |f| of_links(f.run(), |link| link.marked_frames)),
    ("cumulative_throughput_bps", |f| share(f.run().traffic_bits.data as f64, f.run().measured_s)),
    ("contention_loss_ratio", |f| per_offered_bit(f.run(), f.run().traffic_bits.collisions)),
    ("bit_error_loss_ratio", |f| per_offered_bit(f.run(), f.run().traffic_bits.bit_errors)),
    ("radio_capacity_bps", |f| of_radio(f.run(), |link| link.capacity_bps)),
    ("classifier_accuracy", |f| classifier_accuracy(f.run())),
    ("wireless_as_wireless", |f| segments(f.run(), |m| m.wireless.wireless)),
    ("wireless_as_congestion", |f| segments(f.run(), |m| m.wireless.congestion)),
    ("congestion_as_wireless", |f| segments(f.run(), |m| m.congestion.wireless)),
    ("congestion_as_congestion", |f| segments(f.run(), |m| m.congestion.congestion)),
    ("not_lost_as_wireless", |f| segments(f.run(), |m| m.not_lost.wireless)),
    ("not_lost_as_congestion", |f| segments(f.run(), |m| m.not_lost.congestion)),
    ("limited_by_cwnd", |f| f.limited_by(|s| s.cwnd)),
    ("limited_by_pacing", |f| f.limited_by(|s| s.pacing)),
    ("limited_by_receive_window", |f| f.limited_by(|s| s.receive_window)),
    ("limited_by_send_buffer", |f| f.limited_by(|s| s.send_buffer)),
    ("limited_by_application", |f| f.limited_by(|s| s.application)),
    ("limited_by_relay_buffer", |f| f.limited_by(|s| s.relay_buffer)),
    ("limited_by_agent_cache", |f| f.limited_by(|s| s.agent_cache)),
    ("limited_by_handshake", |f| f.limited_by(|s| s.handshake)),
    ("limited_by_outage", |f| f.limited_by(|s| s.outage)),
];
