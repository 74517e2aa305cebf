//! ACKs: the scoreboard, detection of losses, and what the window rule is told.

use super::arrival::Arrival;
use super::{Phase, SackRecovery};
use crate::profile::{ClockKind, CwndLimitedBy, GrowthBase, RackRtt};
use crate::recovery::config::RecoveryKind;
use crate::recovery::detect::rack::ProbeAnswer;
use crate::recovery::detect::scheme::Reductions;
use crate::recovery::detect::{AckSummary, LossDetector};
use crate::recovery::spurious::dsack::duplicate_of;
use crate::recovery::spurious::evidence::{Evidence, Verdict};
use crate::scoreboard::{Marks, Sent};
use crate::sender::config::Output;
use crate::sender::stream::Stream;
use crate::window::WindowRule;
use lasthop_core::segment::{Block, Flags, Options, Segment};
use lasthop_core::units::{Duration, Time};

/// An ACK while it is processed.
struct Processed<'a> {
    arrival: &'a Arrival,
    /// The round-trip time that the window rule gets.
    rtt: Option<Duration>,
    /// The pipe before it.
    pipe_before: u64,
    /// The phase before it.
    was: Phase,
    /// The window may grow with it.
    grows: bool,
}

#[allow(
    clippy::multiple_inherent_impl,
    reason = "one file for each input: ACKs, episodes, sending, timers"
)]
impl SackRecovery {
    /// An ACK of an established connection.
    pub fn on_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        options: &Options,
        out: &mut impl Output,
    ) {
        if stream.is_shut_out() {
            // The probe that was due meanwhile would ask for what the window held back.
            self.probe_deadline = Time::NEVER;
        }
        self.process_ack(stream, now, segment, options, out);
        self.set_timers(stream, now);
    }

    fn process_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        options: &Options,
        out: &mut impl Output,
    ) {
        if segment.ack < stream.snd_una() {
            if stream.profile().sack_of_old_acks && segment.flags.has(Flags::SACK) {
                self.process_old_ack(stream, now, segment, options, out);
            }
            return;
        }
        let same_window = u64::from(segment.window) == stream.rwnd();
        stream.set_rwnd(u64::from(segment.window));
        let pipe_before = self.pipe(stream.flight());
        let detector = self.detector.as_ref();
        let named = detector.and_then(|d| d.blocks(stream.board(), segment, options));
        let blocks = match &named {
            _ if segment.flags.has(Flags::SACK) => options.sack.as_slice(),
            Some(named) => named.as_slice(),
            None => &[],
        };
        let duplicate = if named.is_some() { None } else { duplicate_of(blocks, segment.ack) };
        let news = &blocks[usize::from(duplicate.is_some())..];
        let mut arrival = Arrival::default();
        self.update_scoreboard(stream, now, segment, news, &mut arrival);
        let advanced = arrival.acked > 0;
        self.count_ack(stream, now, segment, &arrival, out);
        let rtt = self.sample(stream, now, segment, &arrival);
        if let Some(d) = duplicate {
            self.on_duplicate_report(stream, now, d);
        }
        if advanced {
            self.timeouts = 0;
            self.undo_if_delayed(stream, now, &arrival);
        }
        let (mut verdict, mut grows) = (Verdict::Usual, true);
        if self.concerns_additions(segment) && (same_window || advanced || arrival.sacked > 0) {
            (verdict, grows) = self.inform_additions(stream, now, segment, &arrival);
        }
        let (waiting_before, reordering_timer) =
            (self.board.waiting(), self.board.rack().deadline());
        if !self.only_new {
            self.find_losses(stream, now);
        }
        let found = self.board.waiting() > waiting_before;
        let probe = self.answer_of_probe(segment, duplicate, !advanced && blocks.is_empty());
        let was = self.change_phase(stream, now, segment, &arrival, probe, out);
        let processed = Processed { arrival: &arrival, rtt, pipe_before, was, grows };
        self.inform_rule(stream, now, segment, &processed);
        if self.recovery.prr_dupacks {
            self.reduce_by_dupacks(stream, &arrival, advanced);
        } else {
            self.apply_prr(stream, arrival.delivered, advanced && !found);
        }
        self.restart_rto(stream, now, &arrival, reordering_timer);
        if advanced {
            stream.check_done();
        }
        self.act_on(stream, now, verdict, out);
        self.send_after_ack(stream, now, advanced || arrival.sacked > 0, out);
    }

    /// An ACK of new data ends a row of duplicate ACKs, one that SACKs something continues it. What
    /// schemes hold back is released.
    #[inline]
    fn count_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        arrival: &Arrival,
        out: &mut impl Output,
    ) {
        let advanced = arrival.acked > 0;
        if advanced {
            self.dupacks = 0;
            stream.reset_limited();
        } else if arrival.sacked > 0 && !self.is_excused(stream, now, segment) {
            self.count_duplicate(stream, arrival);
        }
        if self.hints.is_some() {
            self.end_holds(stream, now);
            if !advanced {
                self.retransmit_taken_back(stream, now, out);
            }
        }
    }

    /// What the ACK says about a tail loss probe that is under way. `bare`: a duplicate ACK without
    /// blocks.
    fn answer_of_probe(
        &mut self,
        segment: &Segment,
        duplicate: Option<Block>,
        bare: bool,
    ) -> ProbeAnswer {
        if !self.board.rack().probing() {
            return ProbeAnswer::None;
        }
        self.board.rack_mut().probe_answer(segment.ack, duplicate.map(|d| d.end), bare)
    }

    /// Ends the episode that the ACK completes, and begins the recoveries that are due. Returns the
    /// phase in which the window rule gets the ACK.
    fn change_phase<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        arrival: &Arrival,
        probe: ProbeAnswer,
        out: &mut impl Output,
    ) -> Phase {
        let was = self.phase;
        if was == Phase::Open
            && self.board.waiting() == 0
            && probe == ProbeAnswer::None
            && self.hints.is_none()
            && self.detector.is_none()
        {
            self.end_cwr(stream, stream.snd_una());
            return was;
        }
        let mut lost_within = false;
        if was != Phase::Open && stream.snd_una() >= self.recovery_point {
            if was == Phase::Recovery && self.is_delayed(stream, arrival) {
                self.undo_at_end(stream, now);
            } else {
                self.end_episode(stream, now);
            }
            lost_within = self.has_lost_data(stream);
        }
        self.end_cwr(stream, stream.snd_una());
        let due = self.reductions_due(stream, probe).max(u32::from(lost_within));
        let confirmed = due == 0 && self.hint_was_congestion(stream);
        let count = due + u32::from(confirmed);
        for _ in 0..count {
            self.begin_recovery(stream, now, segment, arrival, out);
        }
        if count > 0 { Phase::Recovery } else { was }
    }

    /// An ACK that was overtaken: its number and its window are old, but what its blocks report is
    /// delivered (Linux `tcp_ack`).
    #[cold]
    #[inline(never)]
    fn process_old_ack<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        options: &Options,
        out: &mut impl Output,
    ) {
        let blocks = options.sack.as_slice();
        let duplicate = duplicate_of(blocks, segment.ack);
        let current = Segment { ack: stream.snd_una(), ..*segment };
        let news = &blocks[usize::from(duplicate.is_some())..];
        let mut arrival = Arrival::default();
        self.update_scoreboard(stream, now, &current, news, &mut arrival);
        if let Some(d) = duplicate {
            self.on_duplicate_report(stream, now, d);
        }
        self.find_losses(stream, now);
        for _ in 0..self.reductions_due(stream, ProbeAnswer::None) {
            self.begin_recovery(stream, now, segment, &arrival, out);
            self.apply_prr(stream, arrival.delivered, false);
        }
        self.send_by_pipe(stream, now, out);
        if arrival.sacked > 0 {
            self.plan_probe(stream, now, false);
        }
    }

    // The scoreboard.

    /// Removes what an ACK acknowledges and marks what its blocks report. `arrival` gets what it
    /// delivers; that is too large to be returned without a copy.
    fn update_scoreboard<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        blocks: &[Block],
        arrival: &mut Arrival,
    ) {
        if self.hints.is_some() || self.detector.is_some() {
            return self.update_scoreboard_with_hints(stream, now, segment, blocks, arrival);
        }
        self.record_delivered(stream, now, (segment, blocks), arrival, |_| {});
    }

    /// The same where the detector of a scheme or hints of the link layer depend on it.
    #[cold]
    #[inline(never)]
    fn update_scoreboard_with_hints<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        blocks: &[Block],
        arrival: &mut Arrival,
    ) {
        let (mut detector, mut hints, mut newest) = (self.detector.take(), self.hints.take(), None);
        if let Some(detector) = &mut detector {
            detector.on_sent(stream.board());
        }
        self.record_delivered(stream, now, (segment, blocks), arrival, |sent| {
            if let Some(detector) = &mut detector {
                detector.on_delivered(sent);
            }
            if let Some(hints) = &mut hints {
                newest = newest.max(Some((sent.last_sent, sent.seq)));
                hints.on_delivered(sent);
            }
        });
        if let Some(detector) = &mut detector {
            detector.on_acknowledged(segment.ack);
        }
        (self.detector, self.hints) = (detector, hints);
        arrival.newest = newest;
    }

    /// `delivered` is called with each segment that is newly known to be delivered.
    #[inline(always)]
    fn record_delivered<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        (segment, blocks): (&Segment, &[Block]),
        arrival: &mut Arrival,
        mut delivered: impl FnMut(&Sent),
    ) {
        let echo = (stream.profile().timestamps && segment.flags.has(Flags::TIMESTAMPS))
            .then_some(segment.ts_echo);
        let latest = stream.profile().rack_rtt == RackRtt::Latest;
        (arrival.now, arrival.echo) = (now, echo);
        let limits = (segment.ack, stream.snd_max());
        stream.advance(segment.ack);
        let (board, mut rate) = stream.board_and_rate();
        if let Some(rate) = &mut rate {
            // All at once, so that it need not search for each.
            rate.on_acknowledged(segment.ack);
        }
        while let Some(sent) = board.take_below(segment.ack) {
            self.board.acknowledged(&sent, arrival, &mut delivered);
        }
        let numbered = (arrival.delivered > 0 && latest).then_some(self.board.rack().rtt());
        if !blocks.is_empty() {
            self.board.mark(board, blocks, limits, arrival, &mut |sent, place| {
                if let Some(rate) = &mut rate {
                    rate.on_delivered(place, sent.seq);
                }
                delivered(sent);
            });
        }
        // Linux processes the blocks before the number.
        if let Some(rtt) = numbered {
            self.board.rack_mut().set_rtt(rtt);
        }
    }

    /// A duplicate ACK that reports something new.
    fn count_duplicate<W: WindowRule>(&mut self, stream: &Stream<W>, arrival: &Arrival) {
        let hints = self.hints.as_ref().filter(|h| self.phase == Phase::Open && !h.is_quiet());
        self.dupacks = match (&mut self.detector, hints) {
            (Some(detector), Some(hints)) => detector.count_duplicate(
                stream.board(),
                self.dupacks,
                self.board.high_sacked(),
                arrival.newest,
                hints,
            ),
            _ => self.dupacks + 1,
        };
    }

    fn is_excused<W: WindowRule>(&self, stream: &Stream<W>, now: Time, segment: &Segment) -> bool {
        let rto = stream.timers().rto().rto();
        self.hints.as_ref().is_some_and(|h| h.excuses(segment, stream.snd_una(), now, rto))
    }

    /// Holds that have lasted long enough end.
    #[cold]
    #[inline(never)]
    fn end_holds<W: WindowRule>(&mut self, stream: &mut Stream<W>, now: Time) {
        let Some(hints) = &mut self.hints else { return };
        if let Some(lowest) = hints.end_holds(stream.board_mut(), now) {
            self.board.look_again_from(lowest);
        }
    }

    // Detection.

    /// Detects losses, and passes each to a rule that counts them.
    #[inline]
    pub(super) fn find_losses<W: WindowRule>(&mut self, stream: &mut Stream<W>, now: Time) {
        self.judge_losses(stream, now);
        self.report_losses(stream, now);
    }

    #[inline]
    pub(super) fn report_losses<W: WindowRule>(&mut self, stream: &mut Stream<W>, now: Time) {
        while let Some(found) = self.board.take_found() {
            stream.congestion_mut().note_lost(now, found);
        }
    }

    fn judge_losses<W: WindowRule>(&mut self, stream: &mut Stream<W>, now: Time) {
        if self.recovery.kind == RecoveryKind::Rack
            && self.hints.is_none()
            && self.board.rack().has_nothing_to_judge(stream.board())
        {
            return self.board.rack_mut().stop_timer();
        }
        let rto = stream.timers().rto().rto();
        let una = stream.snd_una();
        if self.hints.as_ref().is_some_and(|h| h.suppresses_detection(una, now, rto)) {
            return;
        }
        let summary = self.summary(stream, now);
        self.losses.clear();
        if self.recovery.kind == RecoveryKind::Rack {
            self.board.rack_mut().on_ack(stream.board(), &summary, &mut self.losses);
            self.board.lose_copies(stream.board_mut(), &self.losses);
        } else {
            self.judge_otherwise(stream, &summary);
        }
        let ticks = stream.timers().ticks();
        if !ticks.are_exact() {
            self.board.rack_mut().expire_with(ticks, now);
        }
    }

    #[inline(always)]
    pub(super) fn summary<W: WindowRule>(&self, stream: &Stream<W>, now: Time) -> AckSummary {
        AckSummary {
            now,
            snd_una: stream.snd_una(),
            high_sacked: self.board.high_sacked(),
            sacked: self.board.sacked(),
            sacked_entries: self.board.sacked_entries(),
            lost_below: self.board.lost_below(),
            dupacks: self.dupacks,
            threshold: self.loss_threshold(stream),
            mss: stream.mss(),
            recovering: self.phase != Phase::Open,
            srtt: stream.timers().rto().srtt(),
            last_rtt: self.board.rack().rtt(),
            rto: stream.timers().rto().rto(),
        }
    }

    /// How often the window is to be reduced for what is newly lost: once outside of recovery; or
    /// once for each loss. Bytes that wait although a hint excuses them do not count.
    fn reductions_due<W: WindowRule>(&mut self, stream: &Stream<W>, probe: ProbeAnswer) -> u32 {
        if self.reduces_for_each_loss() {
            return std::mem::take(&mut self.reductions_due);
        }
        let excused = || self.hints.as_ref().map_or(0, |h| h.pardoned(stream.board()));
        let waiting = self.board.waiting();
        let news = probe == ProbeAnswer::RepairedLoss || (waiting > 0 && waiting > excused());
        u32::from(news && self.phase == Phase::Open)
    }

    /// Duplicate ACKs for a segment that an ELN had named mean congestion.
    fn hint_was_congestion<W: WindowRule>(&mut self, stream: &Stream<W>) -> bool {
        let threshold = self.loss_threshold(stream);
        let (open, una) = (self.phase == Phase::Open, stream.snd_una());
        self.hints
            .as_mut()
            .filter(|_| open && self.dupacks >= threshold)
            .is_some_and(|h| h.confirms_congestion(una))
    }

    /// A segment is lost and not delivered, whether or not it has been retransmitted. What was sent
    /// and lost during a recovery requires another one when that ends, although its copy may be in
    /// flight: there is a reduction for each window with losses (RFC 5681, section 4.3; RFC 6675,
    /// section 5; Linux `tcp_time_to_recover`).
    pub(super) fn has_lost_data<W: WindowRule>(&self, stream: &Stream<W>) -> bool {
        let by_window = self.behaviour.reductions == Reductions::Window;
        let congestion = |seq| self.hints.as_ref().is_none_or(|h| !h.has_notified(seq));
        let is_lost = |sent: &Sent| sent.marks.any(Marks::LOST) && !sent.marks.any(Marks::SACKED);
        by_window && stream.board().iter().any(|sent| is_lost(sent) && congestion(sent.seq))
    }

    // Additions.

    /// An addition may learn something from an ACK now.
    #[inline]
    fn concerns_additions(&self, segment: &Segment) -> bool {
        self.additions.as_ref().is_some_and(|a| {
            !a.spurious().is_idle() || a.defers() || segment.flags.has(Flags::DSACK)
        })
    }

    /// An ACK has been processed: what it says about the last reduction, and whether the window may
    /// grow with it.
    #[cold]
    #[inline(never)]
    fn inform_additions<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        arrival: &Arrival,
    ) -> (Verdict, bool) {
        let evidence = Evidence {
            ack: segment.ack,
            acked: arrival.acked,
            fresh_end: arrival.fresh_end,
            highest: segment.ack.max(self.board.high_sacked()),
            echo: arrival.echo,
            ece: segment.flags.has(Flags::ECE),
            dsack: segment.flags.has(Flags::DSACK),
        };
        let Some(a) = &mut self.additions else { return (Verdict::Usual, true) };
        let verdict = a.spurious_mut().judge(&evidence, stream.snd_max());
        if verdict == Verdict::Spurious {
            self.board.lose_nothing(stream.board_mut());
            (self.phase, self.prr, self.undo, self.cwr_until) = (Phase::Open, None, None, None);
            stream.congestion_mut().set_inflation(0.0);
            a.restore(stream, now, &evidence);
        }
        let mut ended = false;
        if arrival.acked > 0 {
            ended = a.end_extended(stream, self.board.sacked() > 0);
            a.end_wait();
        }
        if arrival.sacked > 0 && self.phase == Phase::Open {
            if let Some(ncr) = a.ncr_mut() {
                ncr.begin(stream.flight());
            }
            if a.wait_for_repair(stream, now) {
                a.end_wait();
                self.board.lose_first(stream.board_mut());
            }
        }
        // Linux `tcp_may_raise_cwnd`: an ACK that undoes a timeout opens the window, too.
        let grows = verdict != Verdict::Spurious || self.recovery.restores_all();
        (verdict, grows && !ended)
    }

    /// F-RTO: two new segments, or the usual recovery because the timeout was not spurious (RFC
    /// 5682, section 3.1, steps 2b and 3a).
    fn act_on<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        verdict: Verdict,
        out: &mut impl Output,
    ) {
        match verdict {
            Verdict::SendNew => {
                if !stream.send_two_new(now, out)
                    && let Some(a) = &mut self.additions
                {
                    a.spurious_mut().stop_f_rto();
                }
            }
            Verdict::Confirmed => stream.confirm_timeout(),
            Verdict::Usual | Verdict::Spurious => {}
        }
    }

    // The window rule.

    /// Passes an ACK to the window rule: each one if it needs every ACK, and those that let the
    /// window grow, outside of recovery and if the pipe before the ACK made use of it.
    fn inform_rule<W: WindowRule>(
        &mut self,
        stream: &mut Stream<W>,
        now: Time,
        segment: &Segment,
        processed: &Processed<'_>,
    ) {
        let Processed { arrival, rtt, pipe_before, was, grows } = processed;
        let every = stream.hooks().every_ack;
        if !every && ((arrival.acked == 0 && arrival.delivered == 0) || self.is_reducing()) {
            return;
        }
        let mut rtt = *rtt;
        if every && stream.profile().clock == ClockKind::Ns2Ticks {
            // Not that of the one segment being timed, which may have been SACKed long ago.
            let latest = arrival.latest_sent().map(|sent| now - sent);
            rtt = latest.or(rtt.filter(|_| arrival.echo.is_some()));
        }
        let mut ack = stream.report(now, segment, arrival.acked, rtt, *was != Phase::Open);
        (ack.delivered, ack.flight, ack.prior_flight) =
            (arrival.delivered, self.pipe(stream.flight()), *pipe_before);
        ack.marked = stream.marked(arrival.delivered);
        if every {
            let rate = stream.congestion_mut().rate_mut();
            ack.rate = rate.and_then(|r| r.finish(now, arrival.delivered));
            stream.congestion_mut().on_any_ack(&ack);
        }
        if !grows {
            return;
        }
        let profile = stream.profile();
        let after_timeout = *was == Phase::Loss && profile.cwnd_limited_by == CwndLimitedBy::Pipe;
        let limited = after_timeout || stream.is_cwnd_limited(*pipe_before);
        let ended = *was == Phase::Recovery && self.phase == Phase::Open;
        let mut news = arrival.acked > 0;
        if profile.growth_base == GrowthBase::Delivered {
            ack.bytes = arrival.delivered + stream.lacking(arrival.acked);
            let usual = u64::from(profile.dupack_threshold * stream.mss());
            news = arrival.delivered > 0 && (news || self.reordering() > usual);
        }
        let opens = news && limited && !stream.is_echo(segment);
        if opens && !self.is_reducing() && (!ended || profile.exit_ack_opens_window) {
            stream.congestion_mut().on_ack(&ack);
        }
    }
}
