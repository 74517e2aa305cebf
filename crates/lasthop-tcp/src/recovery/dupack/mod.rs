//! Loss recovery by duplicate ACKs: Tahoe, Reno, NewReno (RFC 5681, RFC 6582), and what a
//! retransmission timeout does (RFC 6298).

mod additions;
mod heuristics;

use self::heuristics::Heuristics;
use crate::profile::{GrowthBase, IdleRestart, NewRenoTimer, Profile};
use crate::recovery::config::{Recovery, RecoveryKind};
use crate::recovery::defer::Additions;
use crate::recovery::hints::LinkHints;
use crate::scoreboard::{Marks, Sent};
use crate::sender::config::{Output, SendReason};
use crate::sender::stream::Stream;
use crate::window::{LossKind, WindowRule};
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::{Duration, Time};

/// What a fast retransmit is followed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Response {
    /// Slow start from one segment.
    Tahoe,
    /// Fast recovery until the first ACK of new data.
    Reno,
    /// Fast recovery through partial ACKs.
    Newreno,
}

/// The last reduction (ns-2's `last_cwnd_action_`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastAction {
    None,
    DuplicateAcks,
    Timeout,
    /// Fast recovery was left.
    Exited,
}

/// What is sent after a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterTimeout {
    /// Nothing.
    Nothing,
    /// Up to `limit` segments from snd_una on.
    Send {
        /// Segments.
        limit: u32,
    },
}

/// Recovery by duplicate ACKs of one connection.
#[derive(Clone, Debug)]
pub struct DupackRecovery {
    response: Response,
    dupacks: u32,
    /// snd_max at the last reduction. Nothing is fast-retransmitted before an ACK passes it, if the
    /// guard is on.
    recover: Option<u64>,
    last_action: LastAction,
    /// A partial ACK was seen in this recovery.
    partial_seen: bool,
    /// The rule classified the loss of the last fast retransmit and kept its window, at `target`
    /// bytes.
    cwnd_preserved: bool,
    target: f64,
    hints: Option<Box<LinkHints>>,
    additions: Option<Box<Additions>>,
    /// Only for NewReno.
    heuristics: Option<Box<Heuristics>>,
}

impl DupackRecovery {
    /// At the start of a connection. `guarded`: the guard is on before the first reduction.
    pub fn new(recovery: &Recovery, guarded: bool) -> Self {
        DupackRecovery {
            response: match recovery.kind {
                RecoveryKind::Tahoe => Response::Tahoe,
                RecoveryKind::Reno => Response::Reno,
                _ => Response::Newreno,
            },
            dupacks: 0,
            recover: guarded.then_some(0),
            last_action: LastAction::None,
            partial_seen: false,
            cwnd_preserved: false,
            target: 0.0,
            hints: recovery.hints.map(|rules| Box::new(LinkHints::new(rules))),
            additions: Additions::of(recovery),
            heuristics: None,
        }
    }

    /// With the heuristics of the profile.
    pub fn with_heuristics(mut self, profile: &Profile) -> Self {
        if self.response == Response::Newreno {
            self.heuristics = Heuristics::of(profile);
        }
        self
    }

    /// Duplicate ACKs in a row.
    #[inline]
    pub fn dupacks(&self) -> u32 {
        self.dupacks
    }

    /// What is known from the link layer, if hints are accepted.
    pub fn hints_mut(&mut self) -> Option<&mut LinkHints> {
        self.hints.as_deref_mut()
    }

    /// The earliest deadline besides the retransmission timer.
    fn aux_deadline<W: WindowRule>(&self, stream: &Stream<W>) -> Time {
        let deferred = self.additions.as_ref().map_or(Time::NEVER, |a| a.deadline());
        stream.other_deadline().min(deferred)
    }

    /// Sends what the windows allow, at most `limit` segments.
    #[inline(always)]
    pub fn fill<W: WindowRule>(
        &self,
        stream: &mut Stream<W>,
        now: Time,
        limit: u32,
        reason: SendReason,
        out: &mut impl Output,
    ) {
        if !stream.may_send() {
            return;
        }
        if stream.congestion().is_paced() {
            stream.fill_paced(now, limit, reason, out);
            let at = self.aux_deadline(stream);
            stream.timers_mut().set_aux_deadline(now, at);
            return stream.watch_window(now);
        }
        stream.fill(now, limit, reason, out);
    }

    /// An ACK of an established connection.
    #[inline(always)]
    pub fn on_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) {
        let una = stream.snd_una();
        let same_window = u64::from(segment.window) == stream.rwnd();
        if segment.ack >= una {
            stream.set_rwnd(u64::from(segment.window));
        }
        if segment.ack > una {
            if self.additions.is_some() {
                self.on_new_ack_with_additions(stream, now, segment, out);
            } else {
                self.on_new_ack(stream, now, segment, out);
            }
        } else if segment.ack == una
            && segment.is_duplicate_ack(same_window)
            && una < stream.snd_max()
            && !segment.flags.has(Flags::ELN.with(Flags::NAMED))
        {
            self.on_duplicate_ack(stream, now, segment, out);
        }
        self.send_after_ack(stream, now, out);
    }

    /// Nothing but new ACKs is expected, and nothing has been added to the recovery.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.dupacks == 0
            && self.last_action != LastAction::DuplicateAcks
            && !self.partial_seen
            && self.hints.is_none()
            && self.additions.is_none()
            && (self.heuristics.is_none() || self.last_action != LastAction::Timeout)
    }

    /// Sends what the window allows after an ACK or a deadline. ns-2 sends nothing between the
    /// first duplicate ACK and the threshold, except in Tahoe.
    #[inline(always)]
    pub fn send_after_ack<W: WindowRule>(
        &self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        let waits = self.dupacks != 0
            && self.response != Response::Tahoe
            && self.dupacks < stream.profile().dupack_threshold;
        if !waits {
            self.fill_after_ack(stream, now, out);
        }
    }

    #[inline(never)]
    fn fill_after_ack<W: WindowRule>(
        &self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        let mut limit = u32::MAX;
        let profile = stream.profile();
        if self.dupacks != 0 && self.response == Response::Newreno && profile.recovery_burst > 0 {
            limit = profile.recovery_burst;
        }
        if profile.timeout_burst > 0 && stream.snd_nxt() < stream.snd_max() {
            limit = limit.min(profile.timeout_burst);
        }
        self.fill(stream, now, limit, SendReason::Recovery, out);
    }

    // ACKs of new data.

    #[inline(always)]
    fn on_new_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) {
        if self.last_action == LastAction::DuplicateAcks || stream.congestion().inflation() > 0.0 {
            self.on_new_ack_after_reduction(stream, now, segment, out);
        } else {
            self.process_new_ack(stream, now, segment, false);
        }
    }

    /// An ACK of new data after a fast retransmit: a partial one, or the end of recovery, or later.
    #[inline(never)]
    fn on_new_ack_after_reduction<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) {
        if self.response == Response::Newreno && self.is_partial(segment.ack) {
            return self.on_partial_ack(stream, now, segment, out);
        }
        let inflated = stream.congestion().inflation() > 0.0;
        let recovering = inflated || self.in_recovery(stream.snd_una());
        if recovering {
            if self.last_action == LastAction::DuplicateAcks
                && (inflated || stream.profile().exit_sets_cwnd)
            {
                self.last_action = LastAction::Exited;
            }
            stream.congestion_mut().set_inflation(0.0);
        }
        self.process_new_ack(stream, now, segment, recovering);
    }

    /// An ACK of new data that is not a partial one. If the sender was `recovering`, that ends with
    /// it.
    #[inline(always)]
    pub fn process_new_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        recovering: bool,
    ) {
        let limited = stream.is_cwnd_limited(stream.flight());
        let (bytes, rtt) = self.advance_and_sample(stream, now, segment);
        if recovering && self.cwnd_preserved {
            stream.congestion_mut().set_cwnd(self.target);
        } else if recovering
            && stream.profile().exit_sets_cwnd
            && !stream.congestion().steers_recovery()
        {
            let mss = f64::from(stream.mss());
            let cwnd = stream.window().ssthresh.min((stream.flight() as f64).max(mss) + mss);
            stream.congestion_mut().set_cwnd(cwnd);
        }
        if (!recovering || stream.profile().exit_ack_opens_window)
            && limited
            && !stream.is_echo(segment)
        {
            let ack = stream.report(now, segment, bytes, rtt, recovering);
            stream.congestion_mut().on_ack(&ack);
        }
        if recovering {
            stream.congestion_mut().on_recovered(now);
        }
        stream.check_done();
    }

    /// Processes an ACK of new data: the bytes by which the window may grow and its round-trip
    /// time. The window is left as it is.
    #[inline(always)]
    fn advance_and_sample<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
    ) -> (u64, Option<Duration>) {
        self.partial_seen = false;
        self.reset_dupacks(stream);
        if let Some(heuristics) = &mut self.heuristics {
            heuristics.note(stream, segment);
        }
        let bytes = segment.ack - stream.snd_una();
        let newest =
            if stream.hooks().every_ack { stream.newest_rtt(now, segment.ack) } else { None };
        self.advance(stream, segment.ack);
        let timed = stream.sample(now, segment);
        let rtt = newest.or(timed);
        stream.rearm_after_ack(now);
        let delivered = stream.report_delivery(now, segment, bytes, rtt);
        let by_delivery = stream.profile().growth_base == GrowthBase::Delivered;
        (if by_delivery { delivered } else { bytes }, rtt)
    }

    /// The next duplicate ACK is the first one.
    #[inline(always)]
    pub fn reset_dupacks<W: WindowRule>(&mut self, stream: &mut Stream<W>) {
        self.dupacks = 0;
        stream.reset_limited();
    }

    /// `ack` acknowledges what lies below it.
    #[inline]
    pub fn advance<W: WindowRule>(&mut self, stream: &mut Stream<W>, ack: u64) {
        stream.advance(ack);
        if let Some(hints) = &mut self.hints {
            hints.on_acknowledged(stream.board(), ack);
        }
        stream.board_mut().acknowledge(ack);
    }

    /// In fast recovery, as far as the last reduction tells.
    fn in_recovery(&self, snd_una: u64) -> bool {
        self.last_action == LastAction::DuplicateAcks
            && self.response != Response::Tahoe
            && self.recover.is_some_and(|r| snd_una <= r)
    }

    /// NewReno: an ACK of new data below `recover`, in recovery.
    #[inline]
    fn is_partial(&self, ack: u64) -> bool {
        self.last_action == LastAction::DuplicateAcks && self.recover.is_some_and(|r| ack < r)
    }

    /// RFC 6582, section 3.2 step 5.
    #[inline(never)]
    fn on_partial_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) {
        let mss = f64::from(stream.mss());
        let bytes = (segment.ack - stream.snd_una()) as f64;
        let first = !std::mem::replace(&mut self.partial_seen, true);
        let mut inflation = stream.congestion().inflation();
        if !stream.profile().partial_window_deflation {
            inflation = 0.0;
        } else {
            // The inflation is used up first, then cwnd; one segment is added for the
            // retransmission.
            let from_inflation = bytes.min(inflation);
            inflation -= from_inflation;
            if !stream.congestion().steers_recovery() {
                let cwnd = (stream.window().cwnd - (bytes - from_inflation)).max(mss);
                stream.congestion_mut().set_cwnd(cwnd);
            }
            if bytes >= mss {
                inflation += mss;
            }
        }
        stream.congestion_mut().set_inflation(inflation);
        self.advance(stream, segment.ack);
        let una = stream.snd_una();
        stream.congestion_mut().note_lost(now, (una, 0));
        stream.report_delivery(now, segment, bytes as u64, None);
        stream.timers_mut().take_timed(segment.ack);
        if first || stream.profile().newreno_timer == NewRenoTimer::SlowButSteady {
            stream.timers_mut().arm(now);
        }
        let rto = stream.timers().rto().rto();
        if !self.hints.as_ref().is_some_and(|h| h.has_copy_in_flight(una, now, rto)) {
            stream.retransmit(now, una, SendReason::Recovery, out);
        }
    }

    // Duplicate ACKs.

    #[inline(never)]
    fn on_duplicate_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        out: &mut impl Output,
    ) {
        if let Some(hints) = &mut self.hints {
            hints.end_holds(stream.board_mut(), now);
            let rto = stream.timers().rto().rto();
            if hints.excuses(segment, stream.snd_una(), now, rto) || first_is_held(stream) {
                return;
            }
        }
        self.count_duplicate(stream, now, segment, true);
        if self.additions.is_some() && self.duplicate_with_additions(stream, now, segment, out) {
            return;
        }
        let threshold = stream.profile().dupack_threshold;
        let mss = f64::from(stream.mss());
        let tahoe = self.response == Response::Tahoe;
        let (inflate, when_blocked) =
            (stream.profile().inflate && !tahoe, stream.profile().inflate_when_blocked);
        if self.dupacks == threshold {
            if self.may_fast_retransmit(stream) {
                self.fast_retransmit(stream, now, segment.flags, out);
            }
            if when_blocked && inflate {
                stream.congestion_mut().set_inflation(f64::from(threshold) * mss);
            }
        } else if self.dupacks > threshold {
            if inflate && (when_blocked || self.last_action == LastAction::DuplicateAcks) {
                let inflation = stream.congestion().inflation() + mss;
                stream.congestion_mut().set_inflation(inflation);
            }
        } else {
            stream.limited_transmit(now, self.dupacks, out);
        }
    }

    /// Counts a duplicate ACK and passes it to the rule; with what it delivers, if `delivers`.
    pub fn count_duplicate<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        delivers: bool,
    ) {
        self.dupacks += 1;
        if delivers {
            stream.report_delivery(now, segment, 0, None);
        }
        stream.congestion_mut().on_dupack(now, self.dupacks);
    }

    /// The guard against a second reduction for one window (ns-2 rules 4 and 11; RFC 6582, section
    /// 3.2 step 2).
    fn may_fast_retransmit<W: WindowRule>(&self, stream: &Stream<W>) -> bool {
        // Reno before the `Exited` state had an effect in ns-2: the last reduction was a fast
        // retransmit, over or not.
        let halves_again = || {
            stream.profile().reno_halves_again
                && self.response == Response::Reno
                && matches!(self.last_action, LastAction::DuplicateAcks | LastAction::Exited)
        };
        !stream.profile().guard_after_rto
            || self.recover.is_none_or(|recover| stream.snd_una() > recover)
            || halves_again()
            || self.heuristics.as_ref().is_some_and(|h| h.show_loss(stream, self.recover))
    }

    fn fast_retransmit<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        flags: Flags,
        out: &mut impl Output,
    ) {
        self.reduce_for_loss(stream, now, flags, out);
        let mss = f64::from(stream.mss());
        if self.response == Response::Tahoe {
            stream.congestion_mut().set_cwnd(mss);
            stream.go_back();
            return self.fill(stream, now, 1, SendReason::FastRetransmit, out);
        }
        self.target = stream.window().cwnd;
        stream.retransmit(now, stream.snd_una(), SendReason::FastRetransmit, out);
        // Each duplicate ACK stands for a segment that has left the network.
        if stream.profile().inflate {
            stream.congestion_mut().set_inflation(f64::from(self.dupacks) * mss);
        }
    }

    /// A fast retransmit begins: the window is reduced, and the timer restarts.
    pub fn reduce_for_loss<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        flags: Flags,
        out: &mut impl Output,
    ) {
        self.recover = Some(stream.snd_max());
        self.last_action = LastAction::DuplicateAcks;
        stream.counters_mut().fast_retransmits += 1;
        let una = stream.snd_una();
        stream.congestion_mut().note_lost(now, (una, 0));
        self.reduce(stream, now, LossKind::DuplicateAcks, flags, out);
        stream.timers_mut().stop_timing();
        stream.timers_mut().arm(now);
    }

    /// The window rule reduces its window.
    pub fn reduce<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        kind: LossKind,
        flags: Flags,
        out: &mut impl Output,
    ) {
        if let Some(a) = &mut self.additions {
            a.remember(stream, now, kind);
        }
        self.cwnd_preserved = stream.reduce(now, kind, flags, None, false, out);
    }

    /// ns-2's guard of `TCP/Sack1`: no fast retransmit before an ACK has passed the last reduction.
    pub fn is_guarded<W: WindowRule>(&self, stream: &Stream<W>) -> bool {
        let profile = stream.profile();
        let on = profile.guard_after_rto && (stream.snd_una() > 0 || profile.guard_first_segment);
        on && self.recover.is_some_and(|recover| stream.snd_una() <= recover)
    }

    /// The byte that an ACK must pass for recovery to end.
    pub fn recover(&self) -> Option<u64> {
        self.recover
    }

    /// Recovery was left, and nothing guards the next fast retransmit.
    pub fn leave(&mut self) {
        (self.recover, self.last_action) = (None, LastAction::Exited);
    }

    // The retransmission timer.

    /// The retransmission timer expired (RFC 6298, rules 5.4 to 5.6; RFC 5681, section 3.1).
    /// Returns what the caller sends.
    pub fn on_timeout<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) -> AfterTimeout {
        stream.congestion_mut().set_inflation(0.0);
        self.dupacks = 0;
        self.last_action = LastAction::Timeout;
        if stream.idle_timeout(now) {
            if stream.profile().idle_restart == IdleRestart::Timer {
                self.recover = Some(stream.snd_max());
            }
            return AfterTimeout::Nothing;
        }
        let una = stream.snd_una();
        let recovering = self.recover.replace(stream.snd_max()).is_some_and(|r| una < r);
        stream.counters_mut().timeouts += 1;
        stream.congestion_mut().note_all_lost(now);
        self.reduce(stream, now, LossKind::Timeout, Flags::NONE, out);
        let first_only = self.timeout_with_additions(stream, now, recovering)
            || stream.profile().timeout_burst > 0;
        let timers = stream.timers_mut();
        timers.back_off();
        timers.arm(now);
        timers.stop_timing();
        stream.go_back();
        AfterTimeout::Send { limit: if first_only { 1 } else { u32::MAX } }
    }

    /// The deadline of a deferred response or of the pacer has come.
    pub fn on_aux_timer<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        out: &mut impl Output,
    ) {
        let over = |a: &Additions| a.dcr().is_some_and(|d| d.is_over(now));
        if self.additions.as_deref().is_some_and(over) && self.dupacks > 0 {
            self.respond(stream, now, out);
        }
        self.send_after_ack(stream, now, out);
    }

    /// The path has failed and stands again, or a relay lets the sender continue, and what was in
    /// flight is lost: duplicate ACKs of what had arrived mean nothing, as after a timeout.
    pub fn on_resumed<W: WindowRule>(&mut self, stream: &mut Stream<W>) {
        self.reset_dupacks(stream);
        stream.congestion_mut().set_inflation(0.0);
        (self.last_action, self.recover) = (LastAction::None, Some(stream.snd_max()));
    }
}

/// The segment that a duplicate ACK asks for is held by the link layer.
fn first_is_held<W: WindowRule>(stream: &Stream<W>) -> bool {
    let held = |s: &Sent| s.marks.any(Marks::HELD);
    stream.board().at(0).is_some_and(held)
}
