//! The congestion state of a sender: the window rule with its window, the inflation of fast
//! recovery, delivery-rate samples and pacing.

use crate::offload::{surely_reaches, surely_stays_below};
use crate::pacing::Pacer;
use crate::profile::Profile;
use crate::rate::{RateSample, RateSampler};
use crate::scoreboard::Sent;
use crate::window::{Ack, Hooks, Loss, LossClass, Report, Start, Window, WindowRule, grow};
use lasthop_core::segment::{Flags, Notice};
use lasthop_core::units::{Duration, Rate, Time};

/// A window rule and all that it measures and decides.
pub struct Congestion<W> {
    window: Window,
    /// What fast recovery adds to cwnd (ns-2's `dupwnd_`), bytes.
    inflation: f64,
    rule: W,
    /// Only for flows whose rule needs them.
    rate: Option<Box<RateSampler>>,
    pacer: Option<Box<Pacer>>,
    /// The rule has a timer.
    has_timer: bool,
    /// Bytes that duplicate ACKs have counted as delivered, where there is no SACK.
    dup_delivered: u64,
    /// No reduction by ECN before this byte is acknowledged.
    ecn_until: u64,
    /// The next new segment tells the receiver that the window was reduced (CWR).
    cwr: bool,
}

impl<W: WindowRule> Congestion<W> {
    /// The state before the connection is established.
    pub fn new(rule: W, window: Window, hooks: Hooks, profile: &Profile) -> Self {
        let pacer = || Box::new(Pacer::new(profile.unpaced_segments, profile.pacing_credit));
        Congestion {
            window,
            inflation: 0.0,
            rule,
            rate: None,
            // With a pacer, sending sets the deadline besides the retransmission timer, which a
            // timer of the rule needs as well.
            pacer: (hooks.pacing || hooks.timer).then(pacer),
            has_timer: hooks.timer,
            dup_delivered: 0,
            ecn_until: 0,
            cwr: false,
        }
    }

    /// Replaces the window rule, before the connection is opened.
    pub fn replace_rule(&mut self, rule: W, hooks: Hooks, profile: &Profile) {
        *self = Congestion::new(rule, self.window, hooks, profile);
    }

    /// cwnd and ssthresh.
    #[inline(always)]
    pub fn window(&self) -> Window {
        self.window
    }

    /// Sets cwnd and ssthresh.
    pub fn set_window(&mut self, window: Window) {
        self.window = window;
    }

    /// Sets cwnd, in bytes.
    #[inline]
    pub fn set_cwnd(&mut self, bytes: f64) {
        self.window.cwnd = bytes;
    }

    /// Sets ssthresh, in bytes.
    pub fn set_ssthresh(&mut self, bytes: f64) {
        self.window.ssthresh = bytes;
    }

    /// What fast recovery adds to cwnd, in bytes.
    #[inline(always)]
    pub fn inflation(&self) -> f64 {
        self.inflation
    }

    /// Sets what fast recovery adds to cwnd, in bytes.
    #[inline]
    pub fn set_inflation(&mut self, bytes: f64) {
        self.inflation = bytes;
    }

    /// cwnd with its inflation, in whole bytes.
    #[inline(always)]
    pub fn inflated(&self) -> u64 {
        self.window.bytes(self.inflation)
    }

    /// The same with a fraction.
    #[inline(always)]
    pub fn inflated_window(&self) -> f64 {
        self.window.cwnd + self.inflation
    }

    /// The rule classifies losses.
    pub fn classifies(&self) -> bool {
        self.rule.classifies()
    }

    /// The rule sets cwnd in recovery too.
    #[inline]
    pub fn steers_recovery(&self) -> bool {
        self.rule.steers_recovery()
    }

    /// An ACK with a report is not an ACK.
    pub fn reports_alone(&self) -> bool {
        self.rule.reports_alone()
    }

    /// The connection is established.
    pub fn on_established(&mut self, start: &Start, samples: bool) {
        self.rate = samples.then(|| Box::new(RateSampler::new(start.rtt)));
        self.rule.on_established(&mut self.window, start);
    }

    /// New data are acknowledged: the window may grow.
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack) {
        self.rule.on_ack(&mut self.window, ack);
    }

    /// New data are acknowledged, where the rule opens the window as Reno does.
    #[inline(always)]
    pub fn grow(&mut self, ack: &Ack) {
        grow(&mut self.window, ack);
    }

    /// An ACK, for a rule that needs every ACK.
    pub fn on_any_ack(&mut self, ack: &Ack) {
        self.rule.on_any_ack(&mut self.window, ack);
        // What is sent while the rule reduces its rate shows less than the path could carry.
        if let Some(rate) = self.rate.as_mut().filter(|_| self.rule.is_app_limited_by_rule()) {
            rate.mark_app_limited();
        }
    }

    /// A duplicate ACK, number `count` in a row.
    pub fn on_dupack(&mut self, now: Time, count: u32) {
        self.rule.on_dupack(&mut self.window, now, count);
    }

    /// Recovery has ended.
    pub fn on_recovered(&mut self, now: Time) {
        self.rule.on_recovered(&mut self.window, now);
    }

    /// A loss or an ECN mark: the rule reduces its window.
    pub fn on_loss(&mut self, loss: &Loss) -> LossClass {
        self.rule.on_loss(&mut self.window, loss)
    }

    /// The last reduction was spurious.
    pub fn on_undo(&mut self, before: &Window, now: Time) {
        self.rule.on_undo(&mut self.window, before, now);
    }

    /// The receiver's scheme reports a number.
    pub fn on_report(&mut self, report: &Report) {
        self.rule.on_report(&mut self.window, report);
    }

    /// A notice for this flow.
    pub fn on_notice(&mut self, now: Time, notice: &Notice) {
        self.rule.on_notice(&mut self.window, now, notice);
    }

    /// A relay sets cwnd, in bytes.
    pub fn on_steered(&mut self, bytes: u64) {
        self.rule.on_steered(&mut self.window, bytes);
    }

    /// cwnd has no room for a whole frame.
    pub fn on_cwnd_limited(&mut self) {
        self.rule.on_cwnd_limited();
    }

    /// New data leave: `bytes` of payload, with `flight` bytes in the network.
    pub fn on_sent(&mut self, now: Time, bytes: u32, flight: u64) {
        self.rule.on_sent(&mut self.window, now, bytes, flight);
    }

    /// Flags for data segment number `index`.
    pub fn marks(&mut self, index: u64) -> Flags {
        self.rule.marks(index)
    }

    // Where there is no SACK.

    /// What an ACK of `bytes` new bytes delivers, of `flight` bytes outstanding (Linux
    /// `tcp_add_reno_sack`, `tcp_remove_reno_sacks`).
    pub fn delivered_without_sack(&mut self, bytes: u64, mss: u64, flight: u64) -> u64 {
        if bytes == 0 {
            let delivered = mss.min(flight.saturating_sub(self.dup_delivered));
            self.dup_delivered += delivered;
            return delivered;
        }
        let delivered = bytes.saturating_sub(self.dup_delivered).max(bytes.min(mss));
        self.dup_delivered = self.dup_delivered.saturating_sub(bytes - delivered.min(bytes));
        delivered
    }

    // ECN.

    /// What `ack` acknowledges is past the window of data for which a reduction has answered marks.
    /// The receiver is informed by the segment at `ecn_until`: the ACK of what precedes it still
    /// echoes.
    pub fn past_last_mark(&self, ack: u64) -> bool {
        ack > self.ecn_until || self.ecn_until == 0
    }

    /// The window was reduced (RFC 3168, section 6.1.2): the receiver is informed, and echoes of
    /// marks up to `snd_max` are old.
    pub fn begin_cwr(&mut self, snd_max: u64) {
        (self.ecn_until, self.cwr) = (snd_max, true);
    }

    /// The next new segment carries CWR; once.
    pub fn take_cwr(&mut self) -> bool {
        std::mem::take(&mut self.cwr)
    }

    // Delivery-rate samples.

    /// The sampler, if the rule needs samples.
    #[inline]
    pub fn rate_mut(&mut self) -> Option<&mut RateSampler> {
        self.rate.as_deref_mut()
    }

    /// Bytes in the network by the sampler, if there is one.
    pub fn in_network(&self) -> Option<u64> {
        self.rate.as_ref().map(|r| r.in_flight())
    }

    /// A segment leaves, which lies at `place` if it had been sent before; `idle` if nothing else
    /// is outstanding.
    #[inline(always)]
    pub fn snapshot(
        &mut self,
        now: Time,
        segment: &Sent,
        place: usize,
        idle: impl FnOnce() -> bool,
    ) {
        if let Some(rate) = &mut self.rate {
            rate.on_sent(now, segment, place, idle());
        }
    }

    /// The sample of an ACK that newly delivers `delivered` bytes and acknowledges `ack`.
    pub fn sample_rate(&mut self, now: Time, ack: u64, delivered: u64) -> Option<RateSample> {
        let rate = self.rate.as_mut()?;
        rate.on_acknowledged(ack);
        rate.finish(now, delivered)
    }

    /// The segment at `seq`, which lies at `place`, is newly considered lost.
    #[inline]
    pub fn note_lost(&mut self, now: Time, (seq, place): (u64, usize)) {
        if let Some(rate) = &mut self.rate
            && let Some(lost) = rate.on_lost(now, seq, place)
        {
            self.rule.on_lost(&mut self.window, &lost);
        }
    }

    /// All that is outstanding is considered lost: the retransmission timer expired.
    pub fn note_all_lost(&mut self, now: Time) {
        if let Some(rate) = &mut self.rate {
            rate.lose_all(now, |lost| self.rule.on_lost(&mut self.window, lost));
        }
    }

    /// A reduction was spurious: nothing that is outstanding is considered lost any longer.
    pub fn note_none_lost(&mut self) {
        if let Some(rate) = &mut self.rate {
            rate.lose_nothing();
        }
    }

    // The rule's timer.

    /// When the rule's timer expires; `NEVER` without one.
    #[inline]
    pub fn rule_deadline(&self) -> Time {
        if self.has_timer { self.rule.deadline() } else { Time::NEVER }
    }

    /// The rule's timer has expired.
    #[cold]
    pub fn on_timer(&mut self, now: Time) {
        self.rule.on_timer(&mut self.window, now);
    }

    // Pacing.

    /// The rule may pace.
    #[inline(always)]
    pub fn is_paced(&self) -> bool {
        self.pacer.is_some()
    }

    /// The rate at which segments are paced; `None` without a pacer.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.pacer.as_ref().and_then(|_| self.rule.pacing())
    }

    /// A segment waits for the pacer, and has to continue to wait.
    #[inline]
    pub fn waits_for_pacer(&self, now: Time) -> bool {
        self.pacer.as_ref().is_some_and(|p| p.is_waiting() && !p.ready(now))
            && self.rule.pacing().is_some()
    }

    /// The pacer lets a segment leave; otherwise the segment waits.
    #[inline]
    pub fn paced(&mut self, now: Time) -> bool {
        let Some(pacer) = &mut self.pacer else { return true };
        let waits = !pacer.ready(now) && self.rule.pacing().is_some();
        pacer.set_waiting(waits);
        !waits
    }

    /// No segment waits for the pacer; the next one asks again.
    #[inline]
    pub fn stop_waiting(&mut self) {
        if let Some(pacer) = &mut self.pacer {
            pacer.set_waiting(false);
        }
    }

    /// `bytes` of payload have left, as one frame of `offloaded` segments if segments are
    /// offloaded.
    #[inline(always)]
    pub fn charge_pacer(&mut self, now: Time, bytes: u32, offloaded: Option<u32>) {
        if let (Some(pacer), Some(rate)) = (&mut self.pacer, self.rule.pacing()) {
            if let Some(segments) = offloaded {
                return pacer.on_frame_sent(now, bytes, segments, rate);
            }
            pacer.on_sent(now, bytes, rate, || self.rule.burst());
        }
    }

    /// When the segment that waits may leave; `NEVER` if none does.
    #[inline]
    pub fn pacing_deadline(&self) -> Time {
        self.pacer.as_ref().map_or(Time::NEVER, |p| p.deadline())
    }

    /// When the pacer lets the next segment leave, for a flow with a pacer.
    pub fn next_departure(&self) -> Option<Time> {
        self.pacer.as_ref().map(|p| p.next())
    }

    /// The largest frame that the rule allows, in bytes of payload, if it says so.
    pub fn burst(&self) -> Option<u32> {
        self.rule.burst()
    }

    /// Windows of cwnd that a growing send buffer has room for.
    pub fn send_buffer_windows(&self) -> u64 {
        self.rule.send_buffer_windows()
    }

    /// The pacing rate; for a rule that does not pace 1.2 windows in a round trip, 2 in the first
    /// half of slow start (Linux `tcp_update_pacing_rate`).
    pub fn sending_rate(&self, srtt: Option<Duration>, flight: u64) -> Rate {
        self.rule.pacing().unwrap_or_else(|| {
            let Some(srtt) = srtt.filter(|s| *s > Duration::ZERO) else {
                return Rate(u64::MAX);
            };
            Rate((self.bits_per_round_trip(flight) / srtt.as_secs()) as u64)
        })
    }

    /// The rule never paces, and its sending rate is at least `rate`; false also if only a
    /// division would tell.
    #[inline]
    pub fn surely_sends_at(&self, rate: Rate, srtt: Duration, flight: u64) -> bool {
        self.pacer.is_none()
            && surely_reaches(self.bits_per_round_trip(flight), srtt.as_secs(), rate)
    }

    /// The sending rate is below `rate`; false also if only a division would tell.
    #[inline]
    pub fn surely_sends_below(&self, rate: Rate, srtt: Duration, flight: u64) -> bool {
        if self.pacer.is_some() {
            return self.rule.pacing().is_some_and(|paced| paced < rate);
        }
        surely_stays_below(self.bits_per_round_trip(flight), srtt.as_secs(), rate)
    }

    /// What a rule that does not pace sends in a round trip, if it sends evenly.
    #[inline]
    fn bits_per_round_trip(&self, flight: u64) -> f64 {
        let share = if self.window.cwnd < self.window.ssthresh / 2.0 { 2.0 } else { 1.2 };
        8.0 * share * self.window.cwnd.max(flight as f64)
    }
}
