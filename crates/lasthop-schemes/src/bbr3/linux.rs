//! Differences of Linux from the draft (google/bbr, branch v3, `net/ipv4/tcp_bbr.c`): `rules =
//! "linux"`.

use super::{Bbr3Window, Mode, Rules, STARTUP_LOSSES};
use crate::bbr::model::{larger, smaller};
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::offload::autosize;
use lasthop_tcp::pacing::after_credit;
use lasthop_tcp::rate::RateSample;
use lasthop_tcp::window::{Loss, LossKind, Window};

/// Time for which ACK aggregation may add to cwnd (`bbr_extra_acked_max_us`).
const MAX_AGGREGATION: Duration = Duration::millis(100);

/// State that only Linux has.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxState {
    /// The earliest departure time of the next segment (`tcp_wstamp_ns`).
    pub departure: Time,
    /// True if a segment was marked lost since the last ACK.
    pub found_lost: bool,
    /// ACKs of this round with losses (`loss_events_in_round`).
    loss_events: u32,
    /// The present episode began with a timeout (`TCP_CA_Loss`).
    pub timed_out: bool,
}

impl Rules {
    /// Pacing gain in Down.
    pub fn down_gain(self) -> f64 {
        match self {
            Rules::Draft => 0.9,
            Rules::Linux => 232.0 / 256.0,
        }
    }
}

impl Bbr3Window {
    #[inline]
    pub(super) fn is_linux(&self) -> bool {
        self.rules == Rules::Linux
    }

    /// Bytes sent as one burst.
    pub(super) fn quantum(&self) -> f64 {
        if self.is_linux() {
            autosize(self.pacing.get(), self.min_rtt, self.mss, self.settings.min_tso_segs)
        } else {
            self.pacing.quantum()
        }
    }

    /// Linux counts whole segments, rounded up (`bbr_bdp`).
    pub(super) fn whole(&self, bytes: f64) -> f64 {
        if self.is_linux() { self.mss * libm::ceil(bytes / self.mss) } else { bytes }
    }

    /// ACK aggregation beyond the bandwidth, bounded (`bbr_ack_aggregation_cwnd`).
    pub(super) fn linux_excess(&self) -> f64 {
        smaller(self.excess.get(), self.bw * MAX_AGGREGATION.as_secs())
    }

    /// Computes the departure time of the next burst after `bytes` are sent
    /// (`tcp_update_skb_after_send`).
    pub(super) fn note_departure(&mut self, now: Time, bytes: u32) {
        let mut gap = self.pacing.get().time_for(u64::from(bytes));
        if f64::from(bytes) > self.mss {
            gap = after_credit(gap, now.since(self.linux.departure));
        }
        self.linux.departure = self.linux.departure.max(now) + gap;
    }

    /// `in_flight` at the departure of the next burst, that one included while the rate is probed
    /// (`bbr_packets_in_net_at_edt`).
    pub(super) fn in_net_at_departure(&self, in_flight: u64, now: Time) -> f64 {
        let delivered = self.bw * self.linux.departure.max(now).since(now).as_secs();
        let leaving = if self.pacing_gain() > 1.0 { self.quantum() } else { 0.0 };
        larger(in_flight as f64 + leaving - delivered, 0.0)
    }

    /// Startup ends when the bandwidth stops growing, or when six ACKs of a round in recovery have
    /// reported losses and the loss rate is too high (`bbr_check_loss_too_high_in_startup`).
    pub(super) fn check_startup_linux(&mut self, sample: Option<&RateSample>) {
        self.linux.loss_events += u32::from(self.linux.found_lost);
        let recovering = self.episode.is_some() && !self.linux.timed_out;
        let lossy = sample.is_some_and(|s| self.bounds.too_high(s.lost, s.tx_in_flight));
        if self.bounds.round_ended
            && recovering
            && self.linux.loss_events >= STARTUP_LOSSES
            && lossy
        {
            self.full.ever = true;
            self.bounds.end_startup(self.inflight(self.max_bw()));
        }
        if self.bounds.round_ended {
            self.linux.loss_events = 0;
        }
        if self.full.ever {
            self.mode = Mode::Drain;
            self.bounds.forget_round();
        }
    }

    /// Drain ends by the volume in flight only (`bbr_check_drain`).
    pub(super) fn check_drain_linux(&mut self, now: Time) {
        if self.in_net_at_departure(self.in_flight, now) <= self.inflight(self.max_bw()) {
            self.start_down(now);
        }
    }

    /// A timeout, or a loss repaired by a tail loss probe (`bbr_set_state`,
    /// `bbr_run_loss_probe_recovery`).
    pub(super) fn on_loss_linux(&mut self, window: &Window, loss: &Loss) {
        if loss.kind == LossKind::Timeout {
            self.linux.timed_out = true;
            self.full.restart(0.0);
            let probing = matches!(self.mode, Mode::Startup | Mode::Refill | Mode::Up);
            if !probing && self.bounds.inflight_lo.is_infinite() {
                self.bounds.inflight_lo = larger(window.cwnd, self.prior_cwnd);
            }
        } else if !self.linux.found_lost && self.probe_samples {
            let in_flight = self.bounds.inflight_latest() + self.mss;
            if self.bounds.too_high(self.mss as u64, in_flight as u64) {
                self.end_probe(loss.now, in_flight, false, window.cwnd);
            }
        }
    }
}
