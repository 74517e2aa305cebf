//! The window rule: what each event of the connection does to the model, cwnd and the pacing rate.

use super::*;

#[window_rule]
impl WindowRule for Bbr3Window {
    fn on_established(&mut self, window: &mut Window, start: &Start) {
        self.mss = f64::from(start.mss);
        if self.settings.rules.is_none() && start.profile == ProfileName::Linux {
            self.rules = Rules::Linux;
        }
        self.bounds.sack = start.sack;
        self.bounds.follow(self.rules, self.mss);
        self.draws = Stream::new(start.draw, "bbr3 probe wait");
        self.initial_cwnd = window.cwnd;
        (self.min_rtt, self.min_rtt_at) = (start.rtt, start.now);
        (self.probe_rtt_min, self.probe_rtt_min_at) = (start.rtt, start.now);
        self.aggregation = Aggregation::new(start.now);
        self.pacing.start(STARTUP_GAIN, window.cwnd, start.rtt, self.mss);
    }

    fn on_ack(&mut self, _window: &mut Window, _ack: &Ack) {}

    fn on_any_ack(&mut self, window: &mut Window, ack: &Ack) {
        let sample = ack.rate.as_ref();
        if self.is_linux() {
            self.prior_in_flight = ack.prior_flight;
        }
        self.measure(ack, window.cwnd);
        if self.mode == Mode::Startup {
            if self.is_linux() {
                linux_phases::check_startup(self, ack)
            } else {
                self.check_startup(sample)
            }
        }
        if self.bounds.round_ended {
            self.bounds.begin_round();
        }
        if self.mode == Mode::Drain {
            self.check_drain(ack.now);
        }
        if self.full.ever {
            cycle::update(self, ack, window.cwnd);
        }
        probe_rtt::update_min_rtt(self, ack.now, sample.and_then(|s| s.rtt).or(ack.rtt));
        probe_rtt::check(self, window, ack);
        self.bounds.end_ack(sample);
        self.bw = smaller(self.max_bw(), self.bounds.bw_lo);
        if self.episode.is_some_and(|(end, _)| ack.snd_una >= end) {
            (self.episode, self.remembered) = (None, false);
            // Linux reduces cwnd at a timeout only.
            if !self.is_linux() || std::mem::take(&mut self.linux.timed_out) {
                window.cwnd = window.cwnd.max(self.prior_cwnd);
            }
        }
        let gain = self.pacing_gain();
        if self.full.ever {
            self.pacing.set(gain, self.bw)
        } else {
            self.pacing.raise(gain, self.bw)
        }
        if self.is_linux() {
            linux::store_quantum(self);
        }
        window.cwnd = self.set_cwnd(window.cwnd, ack.delivered as f64);
        self.prior_in_flight = ack.flight;
        self.linux.lost_at = None;
    }

    fn on_lost(&mut self, window: &mut Window, lost: &Lost) {
        (self.delivered, self.in_flight) =
            (lost.delivered, self.in_flight.saturating_sub(lost.bytes));
        if !self.is_linux() {
            self.remember();
        }
        self.bounds.note_loss(lost.delivered);
        self.bounds.count(lost);
        self.linux.lost_at = Some(lost.now);
        if self.probe_samples && self.bounds.too_high(lost.lost, lost.tx_in_flight) {
            cycle::end_probe(
                self,
                lost.now,
                self.bounds.inflight_at(lost),
                lost.app_limited,
                window.cwnd,
            );
        }
    }

    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        if loss.kind == LossKind::Ecn && self.is_linux() {
            // Marks count on routes that say so only (`bbr_can_use_ecn`, `TCP_ECN_LOW`).
            return LossClass::Unclassified;
        }
        if !self.is_linux() {
            self.bounds.note_loss(self.delivered);
        }
        if loss.kind == LossKind::Ecn {
            return LossClass::Unclassified;
        }
        if self.is_linux() {
            linux_phases::save(self, window, loss);
        } else {
            self.remember();
            self.save_cwnd(window);
        }
        self.episode = Some((loss.snd_max, self.rounds.count));
        if loss.kind == LossKind::Timeout {
            window.cwnd = window.cwnd.min(self.in_flight as f64 + self.mss);
        }
        if self.is_linux() {
            linux_phases::on_loss(self, window, loss);
        }
        LossClass::Unclassified
    }

    fn on_undo(&mut self, window: &mut Window, _before: &Window, _now: Time) {
        let least = if self.is_linux() { 0.0 } else { window.cwnd };
        window.cwnd = self.prior_cwnd.max(least);
        (self.episode, self.remembered) = (None, false);
        self.full.restart(0.0);
        self.bounds.undo();
        self.linux.timed_out = false;
        if self.is_linux() {
            return;
        }
        match self.left.take() {
            Some(Mode::Startup) if self.mode != Mode::Startup => {
                self.full.ever = false;
                if self.mode != Mode::ProbeRtt {
                    self.mode = Mode::Startup;
                }
            }
            Some(Mode::Up) if !matches!(self.mode, Mode::Up | Mode::ProbeRtt) => {
                cycle::start_refill(self)
            }
            _ => {}
        }
    }

    fn on_sent(&mut self, window: &mut Window, now: Time, bytes: u32, flight: u64) {
        (self.in_flight, self.prior_in_flight) = (flight, flight);
        linux::note_departure(self, now, bytes);
        if flight as f64 + self.mss > window.cwnd {
            self.limited_round = Some(self.rounds.count);
        }
        if flight > u64::from(bytes) || self.delivered == 0 {
            return;
        }
        // After an idle time the sender paces at the bandwidth.
        self.idle_restart = true;
        self.aggregation = Aggregation::new(now);
        if self.probing_bw() {
            self.pacing.set(1.0, self.bw);
        } else if self.mode == Mode::ProbeRtt && self.stay.over(now) {
            probe_rtt::leave(self, window, now);
        }
    }

    fn pacing(&self) -> Option<Rate> {
        Some(self.pacing.get())
    }

    fn burst(&self) -> Option<u32> {
        self.is_linux().then(|| linux::quantum(self) as u32)
    }

    /// Three (`bbr_sndbuf_expand`).
    fn send_buffer_windows(&self) -> u64 {
        3
    }

    fn on_cwnd_limited(&mut self) {
        self.limited_round = Some(self.rounds.count);
    }

    fn is_app_limited_by_rule(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn steers_recovery(&self) -> bool {
        true
    }
}
