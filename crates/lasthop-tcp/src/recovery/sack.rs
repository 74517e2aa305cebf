//! Recovery on SACK blocks: RFC 6675, FACK, and RACK-TLP (RFC 8985), with or without proportional
//! rate reduction.
//!
//! One engine: an ACK is taken in, losses are looked for in the way of the kind, an episode begins
//! or ends, and what the pipe has room for is sent. The kinds differ only in `find_losses`.

use crate::profile::{ClockKind, CwndLimitedBy, GrowthBase, HalvingBase, RackRtt};
use crate::recovery::RecoveryKind;
use crate::recovery::prr::Prr;
use crate::recovery::rack::ProbeAnswer;
use crate::recovery::sack_additions::AckSummary;
use crate::recovery::sack_state::{Arrival, Phase, SackState, Undo};
use crate::scoreboard::{Marks, Sent};
use crate::sender::{Output, SendReason, Sender, State, timestamp};
use crate::window::{LossKind, WindowRule};
use lasthop_core::ring::Ring;
use lasthop_core::segment::{Block, Flags, Options, SackBlocks, Segment};
use lasthop_core::units::{Duration, Time};

impl<W: WindowRule> Sender<W> {
    /// An ACK of an established connection.
    pub(crate) fn on_sack_ack(
        &mut self,
        now: Time,
        segment: &Segment,
        options: &Options,
        out: &mut impl Output,
    ) {
        let Some(mut state) = self.sack.take() else { return };
        if self.is_shut_out() {
            // The probe that was due meanwhile would ask for what the window held back.
            state.probe_deadline = Time::NEVER;
        }
        self.process_ack(now, segment, options, &mut state, out);
        self.keep_sack_timers(now, &mut state);
        self.sack = Some(state);
    }

    fn process_ack(
        &mut self,
        now: Time,
        segment: &Segment,
        options: &Options,
        s: &mut SackState,
        out: &mut impl Output,
    ) {
        if segment.ack < self.snd_una {
            if self.profile.sack_of_old_acks && segment.flags.has(Flags::SACK) {
                self.process_old_ack(now, segment, options, s, out);
            }
            return;
        }
        let same_window = u64::from(segment.window) == self.rwnd;
        self.set_rwnd(u64::from(segment.window));
        let pipe_before = s.pipe(self.flight());
        let smart = if self.config.recovery.smart {
            self.smart_block(segment, options)
        } else {
            SackBlocks::NONE
        };
        let blocks =
            if segment.flags.has(Flags::SACK) { options.sack.as_slice() } else { smart.as_slice() };
        let duplicate =
            if self.config.recovery.smart { None } else { duplicate_of(blocks, segment.ack) };
        let arrival =
            self.update_scoreboard(now, segment, &blocks[usize::from(duplicate.is_some())..], s);
        let advanced = arrival.acked > 0;
        if advanced {
            (s.dupacks, self.limited) = (0, 0);
        } else if arrival.sacked > 0 && !self.is_excused(now, segment) {
            self.count_duplicate(&arrival, s);
        }
        if self.elsn.is_some() {
            self.end_holds(now, Some(&mut *s));
            if !advanced {
                self.resend_taken_back(now, s, out);
            }
        }
        self.dupacks = s.dupacks;
        let rtt = self.sample_with_sack(now, segment, &arrival);
        if let Some(d) = duplicate {
            self.on_duplicate_report(now, d, s);
        }
        let mut delivered = AckSummary::USUAL;
        if self.expects_news(segment) && (same_window || advanced || arrival.sacked > 0) {
            delivered = self.summarize_ack(now, segment, &arrival, s);
        }
        let waiting_before = s.waiting();
        self.find_losses(now, s);
        let found = s.waiting() > waiting_before;
        let mut was = s.phase;
        let mut lost_within = false;
        if was != Phase::Open && self.snd_una >= s.recovery_point {
            self.end_episode(now, s);
            lost_within = self.has_lost_data(s);
        }
        if s.cwr_until.is_some_and(|until| self.snd_una > until) {
            self.window.cwnd = s.leave_cwr().map_or(self.window.cwnd, |p| p.target);
        }
        let mut probe = ProbeAnswer::None;
        if s.rack.probing() {
            probe = s.rack.probe_answer(
                segment.ack,
                duplicate.map(|d| d.end),
                !advanced && blocks.is_empty(),
            );
        }
        let due = self.reductions_due(probe, s).max(u32::from(lost_within));
        let blamed = self.elsn.is_some()
            && due == 0
            && s.phase == Phase::Open
            && s.dupacks >= self.loss_threshold()
            && self.eln_confirms_congestion();
        for _ in 0..due + u32::from(blamed) {
            self.begin_recovery(now, segment, &arrival, s, out);
            was = Phase::Recovery;
        }
        self.tell_rule(now, segment, rtt, &arrival, (pipe_before, delivered.grows), was, s);
        if self.config.recovery.prr_dupacks {
            self.reduce_by_dupacks(&arrival, advanced, s);
        } else {
            self.apply_prr(arrival.delivered, advanced && !found, s);
        }
        if advanced {
            self.rearm_after_ack(now);
            self.check_done();
        }
        self.act_on(now, delivered.verdict, out);
        self.send_by_pipe(now, s, out);
        if advanced || arrival.sacked > 0 {
            self.plan_probe(now, s);
        }
    }

    /// An ACK that was overtaken: its number and its window are old, but what its blocks report is
    /// delivered (Linux `tcp_ack`).
    #[inline(never)]
    fn process_old_ack(
        &mut self,
        now: Time,
        segment: &Segment,
        options: &Options,
        s: &mut SackState,
        out: &mut impl Output,
    ) {
        let blocks = options.sack.as_slice();
        let duplicate = duplicate_of(blocks, segment.ack);
        let current = Segment { ack: self.snd_una, ..*segment };
        let arrival =
            self.update_scoreboard(now, &current, &blocks[usize::from(duplicate.is_some())..], s);
        if let Some(d) = duplicate {
            self.on_duplicate_report(now, d, s);
        }
        self.find_losses(now, s);
        for _ in 0..self.reductions_due(ProbeAnswer::None, s) {
            self.begin_recovery(now, segment, &arrival, s, out);
            self.apply_prr(arrival.delivered, false, s);
        }
        self.send_by_pipe(now, s, out);
        if arrival.sacked > 0 {
            self.plan_probe(now, s);
        }
    }

    /// Takes the news off the scoreboard and marks it there.
    fn update_scoreboard(
        &mut self,
        now: Time,
        segment: &Segment,
        blocks: &[Block],
        s: &mut SackState,
    ) -> Arrival {
        if self.elsn.is_some() || s.list.is_some() {
            return self.update_scoreboard_with_notices(now, segment, blocks, s);
        }
        self.record_delivered(now, segment, blocks, s, |_| {})
    }

    /// The same where a packet list or what the link layer says depends on it.
    #[inline(never)]
    fn update_scoreboard_with_notices(
        &mut self,
        now: Time,
        segment: &Segment,
        blocks: &[Block],
        s: &mut SackState,
    ) -> Arrival {
        let (mut list, mut elsn, mut newest) = (s.list.take(), self.elsn.take(), None);
        if let Some(list) = &mut list {
            list.take_new(&self.board);
        }
        let mut arrival = self.record_delivered(now, segment, blocks, s, |sent| {
            if let Some(list) = &mut list {
                list.arrived(sent.seq);
            }
            if let Some(elsn) = &mut elsn {
                newest = newest.max(Some((sent.last_sent, sent.seq)));
                elsn.on_delivered(sent);
            }
        });
        if let Some(list) = &mut list {
            list.acknowledged(segment.ack);
        }
        (s.list, self.elsn) = (list, elsn);
        arrival.newest = newest;
        arrival
    }

    /// `delivered` is called with each segment that is newly known to be delivered.
    #[inline(always)]
    fn record_delivered(
        &mut self,
        now: Time,
        segment: &Segment,
        blocks: &[Block],
        s: &mut SackState,
        mut delivered: impl FnMut(&Sent),
    ) -> Arrival {
        let echo = (self.profile.timestamps && segment.flags.has(Flags::TIMESTAMPS))
            .then_some(segment.ts_echo);
        let mut arrival = Arrival { now, echo, ..Arrival::default() };
        let mut rate = self.rate.as_deref_mut();
        if let Some(rate) = &mut rate {
            // At once, so that it need not look for each.
            rate.on_acknowledged(segment.ack);
        }
        while let Some(sent) = self.board.take_below(segment.ack) {
            s.acknowledged(&sent, &mut arrival, &mut delivered);
        }
        let numbered = (arrival.delivered > 0 && self.profile.rack_rtt == RackRtt::Latest)
            .then_some(s.rack.rtt);
        self.snd_una = segment.ack;
        self.snd_nxt = self.snd_nxt.max(segment.ack);
        if !blocks.is_empty() {
            let limits = (self.snd_una, self.snd_max);
            s.mark(&mut self.board, blocks, limits, &mut arrival, &mut |sent, place| {
                if let Some(rate) = &mut rate {
                    rate.on_delivered(place, sent.seq);
                }
                delivered(sent);
            });
        }
        // Linux takes the blocks in before the number.
        s.rack.rtt = numbered.unwrap_or(s.rack.rtt);
        arrival
    }

    /// A duplicate ACK that reports something new.
    fn count_duplicate(&mut self, arrival: &Arrival, s: &mut SackState) {
        let in_order_of_sending =
            self.config.recovery.kind == RecoveryKind::Esack && s.phase == Phase::Open;
        match self.elsn.as_mut().filter(|e| in_order_of_sending && !e.is_quiet()) {
            Some(elsn) => {
                s.dupacks = elsn.count(s.dupacks, &self.board, s.high_sacked, arrival.newest)
            }
            None => s.dupacks += 1,
        }
    }

    /// How often the window is to be reduced for what is newly lost: once outside of recovery; by a
    /// packet list for each loss. Bytes that wait although they are pardoned count for nothing.
    fn reductions_due(&self, probe: ProbeAnswer, s: &mut SackState) -> u32 {
        if s.list.is_some() {
            return std::mem::take(&mut s.reductions_due);
        }
        let pardoned = || self.elsn.as_ref().map_or(0, |e| e.pardoned(&self.board));
        let news =
            probe == ProbeAnswer::RepairedLoss || (s.waiting() > 0 && s.waiting() > pardoned());
        u32::from(news && s.phase == Phase::Open)
    }

    /// A segment is lost and not delivered, whether or not it has been sent again. What was sent
    /// and lost during a recovery takes another one when that ends, although its copy may be on its
    /// way: there is a reduction for each window with losses (RFC 5681, section 4.3; RFC 6675,
    /// section 5; Linux `tcp_time_to_recover`).
    fn has_lost_data(&self, s: &SackState) -> bool {
        let by_window =
            s.list.is_none() && self.config.recovery.kind != RecoveryKind::SelectiveRepeat;
        let congestion = |seq| self.elsn.as_ref().is_none_or(|e| !e.has_notified(seq));
        let is_lost = |sent: &Sent| sent.marks.any(Marks::LOST) && !sent.marks.any(Marks::SACKED);
        by_window && self.board.iter().any(|sent| is_lost(sent) && congestion(sent.seq))
    }

    /// A round-trip time sample: of a segment sent once, otherwise of the stamp. ns-2's clock times
    /// one segment at a time.
    fn sample_with_sack(
        &mut self,
        now: Time,
        segment: &Segment,
        arrival: &Arrival,
    ) -> Option<Duration> {
        if self.profile.clock == ClockKind::Ns2Ticks {
            return if arrival.acked > 0 { self.sample(now, segment) } else { None };
        }
        let stamped = || {
            arrival
                .echo
                .filter(|_| arrival.acked > 0)
                .map(|echo| Duration::micros(u64::from(timestamp(now).wrapping_sub(echo))))
        };
        let rtt = arrival.rtt.or_else(stamped)?;
        self.take_rtt(now, rtt, now - rtt, true);
        self.rto.end_back_off();
        self.timing = None;
        Some(rtt)
    }

    /// A D-SACK block: RACK's window grows, and a reduction all of whose retransmissions were
    /// needless is undone.
    fn on_duplicate_report(&mut self, now: Time, duplicate: Block, s: &mut SackState) {
        s.rack.on_dsack(self.snd_una, self.snd_max);
        let Some(undo) = &mut s.undo else { return };
        if !self.config.recovery.dsack_undo || duplicate.end <= undo.from || undo.unreported == 0 {
            return;
        }
        undo.unreported -= 1;
        if undo.unreported == 0 {
            self.undo(now, s);
        }
    }

    /// The last reduction was uncalled for: the window comes back and what was held to be lost no
    /// longer is.
    pub(crate) fn undo(&mut self, now: Time, s: &mut SackState) {
        let Some(undo) = s.undo.take() else { return };
        s.lose_nothing(&mut self.board);
        self.note_none_lost();
        self.settle_doubts();
        (s.phase, s.prr, s.cwr_until) = (Phase::Open, None, None);
        self.counters.undone += 1;
        self.rule.on_undo(&mut self.window, &undo.before, now);
    }

    /// What is lost, as far as this kind of recovery can tell by now.
    #[inline]
    pub(super) fn find_losses(&mut self, now: Time, s: &mut SackState) {
        self.judge_losses(now, s);
        self.tell_losses(now, s);
    }

    #[inline]
    pub(super) fn tell_losses(&mut self, now: Time, s: &mut SackState) {
        if let Some(found) = s.found.as_mut().filter(|f| !f.is_empty()) {
            self.tell_each(now, found);
        }
    }

    #[inline(never)]
    fn tell_each(&mut self, now: Time, found: &mut Ring<u64>) {
        while let Some(seq) = found.pop() {
            self.note_lost(now, seq);
        }
    }

    /// Duplicate ACKs for a segment that an ELN had named count as congestion.
    fn eln_confirms_congestion(&mut self) -> bool {
        let una = self.snd_una;
        self.elsn.as_mut().is_some_and(|e| e.confirms_congestion(una))
    }

    fn judge_losses(&mut self, now: Time, s: &mut SackState) {
        if self
            .elsn
            .as_ref()
            .is_some_and(|e| e.suppresses_detection(self.snd_una, now, self.rto.rto()))
        {
            return;
        }
        let threshold = self.loss_threshold();
        let mss = self.config.mss;
        match self.config.recovery.kind {
            RecoveryKind::Rack | RecoveryKind::SelectiveRepeat => {
                let srtt = self.rto.srtt();
                let wait = s.lose_overdue(&mut self.board, now, |s| {
                    s.rack.reordering_window(
                        s.phase != Phase::Open,
                        s.sacked_segments(mss),
                        threshold,
                        srtt,
                    )
                });
                let slack = self.profile.probe_slack;
                s.reordering_deadline = wait.map_or(Time::NEVER, |w| now + w + slack);
                self.lose_by_timers(now, s);
            }
            RecoveryKind::PacketList => s.lose_overtaken(&mut self.board, threshold),
            RecoveryKind::Fack if s.sacked() > 0 => {
                // The forward-most SACK alone tells (Mathis and Mahdavi 1996, section 2): all below
                // it is lost.
                let gap = s.high_sacked.saturating_sub(self.snd_una);
                if s.phase != Phase::Open
                    || gap > u64::from(threshold) * u64::from(mss)
                    || s.dupacks >= threshold
                {
                    let edge = s.high_sacked;
                    s.lose_below(&mut self.board, edge);
                }
            }
            RecoveryKind::Esack if self.elsn.as_ref().is_some_and(|e| !e.is_quiet()) => {
                self.judge_in_order_of_sending(s)
            }
            _ if s.sacked() > 0 => {
                s.lose_below_sacked(&mut self.board, threshold, mss);
                if s.dupacks >= threshold {
                    let first = self.board.at(0).map_or(0, |f| f.end());
                    s.lose_below(&mut self.board, first);
                }
            }
            _ => {}
        }
    }

    /// As the next one, but a segment that was sent again on an ELN is lost only if segments sent
    /// after that are delivered (yun2009, section 4.1).
    fn judge_in_order_of_sending(&mut self, s: &mut SackState) {
        let threshold = self.loss_threshold();
        let Some(elsn) = &mut self.elsn else { return };
        while let Some(seq) = elsn.take_overtaken(threshold) {
            s.lose_copy(&mut self.board, seq);
        }
        if s.sacked() > 0 {
            s.lose_below_sacked(&mut self.board, threshold, self.config.mss);
            let accused = elsn.accused().filter(|_| s.dupacks >= threshold);
            if let Some(end) = accused.and_then(|seq| self.board.get(seq)).map(|a| a.end()) {
                s.lose_below(&mut self.board, end);
            }
        }
    }

    /// RFC 6675, section 5, step 4: one reduction for all that is lost of what has been sent by
    /// now.
    pub(super) fn begin_recovery(
        &mut self,
        now: Time,
        segment: &Segment,
        arrival: &Arrival,
        s: &mut SackState,
        out: &mut impl Output,
    ) {
        let before = self.window;
        // A reduction for an ECN echo goes on as this one, and cannot be undone.
        let reducing = s.leave_cwr();
        s.undo = reducing.is_none().then_some(Undo { before, from: self.snd_una, unreported: 0 });
        s.rack.forget_probe();
        self.counters.fast_retransmits += u64::from(s.waiting() > 0);
        self.leave_extended();
        self.end_wait();
        let pipe = s.pipe(self.flight());
        self.reduce(now, LossKind::DuplicateAcks, segment.flags, Some(pipe), out);
        if self.elsn.is_some() {
            self.say_congestion(s, out);
        }
        // ssthresh is two segments at least; that is no reason to grow.
        self.target = reducing.map_or(self.window.cwnd.min(before.cwnd), |p| p.target);
        if s.list.is_some() {
            // Halved once for each loss it would soon be nothing.
            self.target = self.target.max(f64::from(self.config.mss));
        }
        self.window.cwnd = self.target;
        // Fast recovery by the list is for the packets that are lost, not for all that were under
        // way.
        s.recovery_point = match (&s.list, s.phase) {
            (None, _) => self.snd_max,
            (Some(_), Phase::Recovery) => s.recovery_point,
            (Some(_), _) => self.snd_una,
        };
        s.phase = Phase::Recovery;
        // Nothing is sent again that was sent again in the recovery before.
        let lost_before = s.waiting() == 0 && self.has_lost_data(s);
        s.high_resent = if lost_before { s.high_resent.max(self.snd_una) } else { self.snd_una };
        s.rescued = None;
        if self.config.recovery.prr_dupacks {
            s.prr = Some(Prr::new(self.target, pipe));
        } else if self.config.recovery.prr {
            let flight = self.flight() + arrival.acked;
            let from = match self.profile.prr_base {
                HalvingBase::Cwnd | HalvingBase::Window => before.bytes(0.0),
                HalvingBase::FlightSize => flight.saturating_sub(s.sacked() - arrival.sacked),
            };
            let prr = reducing.unwrap_or(Prr::new(self.target, from));
            s.prr = Some(if self.profile.whole_segments { prr.in_segments() } else { prr });
        }
        if s.waiting() == 0 && !lost_before {
            // The loss was repaired by a probe: there is nothing to repair, only to reduce.
            self.end_episode(now, s);
        } else {
            if s.prr.is_none() {
                // RFC 6675, section 5, step 4.3: the first segment goes out whatever the pipe says.
                self.resend_first(now, SendReason::FastRetransmit, s, out);
            }
            s.recovery_point = s.recovery_point.max(s.high_resent);
            // The first segment goes out now in either case: its copy has a whole timeout.
            self.arm(now);
        }
    }

    pub(super) fn apply_prr(&mut self, delivered: u64, safe: bool, s: &mut SackState) {
        if !s.is_reducing() || self.rule.steers_recovery() {
            return;
        }
        if delivered == 0 && self.profile.whole_segments {
            // Linux `tcp_cwnd_reduction`: an ACK that delivers nothing changes nothing.
            return;
        }
        let pipe = s.pipe(self.flight());
        if let Some(prr) = &mut s.prr {
            self.window.cwnd =
                prr.on_ack(delivered, pipe, safe, self.config.mss).max(f64::from(self.config.mss));
        }
    }

    /// What a loss that a timer has found counts for in PRR: a segment in Linux
    /// (`tcp_rack_reo_timeout`).
    pub(super) fn delivered_by_timer(&self) -> u64 {
        if self.profile.whole_segments { u64::from(self.config.mss) } else { 0 }
    }

    /// The same as ns-3.44 does it: an ACK that reports something by SACK is taken for a duplicate
    /// ACK, one that moves snd_una for a partial ACK, and one that does both is counted twice.
    fn reduce_by_dupacks(&mut self, arrival: &Arrival, advanced: bool, s: &mut SackState) {
        if s.phase != Phase::Recovery || self.rule.steers_recovery() {
            return;
        }
        let (pipe, mss) = (s.pipe(self.flight()), self.config.mss);
        let Some(prr) = &mut s.prr else { return };
        for duplicate in
            [true, false].into_iter().filter(|d| if *d { arrival.sacked > 0 } else { advanced })
        {
            let delivered = prr.counted_twice(arrival.delivered, duplicate, mss);
            if delivered > 0 {
                self.window.cwnd = prr.on_ack(delivered, pipe, advanced, mss).max(f64::from(mss));
            }
        }
    }

    /// Everything outstanding at its beginning is acknowledged.
    fn end_episode(&mut self, now: Time, s: &mut SackState) {
        let was = std::mem::replace(&mut s.phase, Phase::Open);
        s.prr = None;
        s.rack.on_recovered();
        if was == Phase::Recovery {
            if !self.rule.steers_recovery() {
                self.window.cwnd = self.target;
            }
            self.rule.on_recovered(&mut self.window, now);
        }
    }

    /// Lets the window rule have its say: it hears of every ACK if it asked for that, and grows the
    /// window outside of recovery, if the pipe (`pipe_before` this ACK) made use of it; not
    /// (`grows`) if the window has been set otherwise.
    #[allow(clippy::too_many_arguments)]
    fn tell_rule(
        &mut self,
        now: Time,
        segment: &Segment,
        rtt: Option<Duration>,
        arrival: &Arrival,
        (pipe_before, grows): (u64, bool),
        was: Phase,
        s: &SackState,
    ) {
        let every = self.config.needs.every_ack;
        if !every && ((arrival.acked == 0 && arrival.delivered == 0) || s.is_reducing()) {
            return;
        }
        // Not that of the one segment being timed, which may have been SACKed long ago.
        let rtt = if every { arrival.rtt.or(rtt.filter(|_| arrival.echo.is_some())) } else { rtt };
        let mut ack = self.report(now, segment, arrival.acked, rtt, was != Phase::Open);
        (ack.delivered, ack.flight, ack.prior_flight) =
            (arrival.delivered, s.pipe(self.flight()), pipe_before);
        if every {
            ack.rate = self.rate.as_mut().and_then(|r| r.finish(now, arrival.delivered));
            self.rule.on_any_ack(&mut self.window, &ack);
            self.mark_if_held_back();
        }
        if !grows {
            return;
        }
        let after_timeout =
            was == Phase::Loss && self.profile.cwnd_limited_by == CwndLimitedBy::Pipe;
        let limited = after_timeout || self.is_cwnd_limited(pipe_before);
        let ended = was == Phase::Recovery && s.phase == Phase::Open;
        let mut news = arrival.acked > 0;
        if self.profile.growth_base == GrowthBase::Delivered {
            ack.bytes = arrival.delivered;
            news = arrival.delivered > 0
                && (news
                    || s.rack.reordering()
                        > u64::from(self.profile.dupack_threshold * self.config.mss));
        }
        let opens = news && limited && !self.is_echo(segment);
        if opens && !s.is_reducing() && (!ended || self.profile.exit_ack_opens_window) {
            self.rule.on_ack(&mut self.window, &ack);
        }
    }

    /// New data may be sent: the application has written, or the connection is open.
    #[inline(never)]
    pub(crate) fn fill_pipe(&mut self, now: Time, out: &mut impl Output) {
        let Some(mut state) = self.sack.take() else { return };
        let before = self.snd_max;
        self.send_by_pipe(now, &mut state, out);
        if self.snd_max > before {
            self.plan_probe(now, &mut state);
        }
        self.keep_sack_timers(now, &mut state);
        self.sack = Some(state);
    }

    /// Sends what the window has room for beyond the pipe: first what is lost, then new data, then
    /// what may be lost.
    pub(crate) fn send_by_pipe(&mut self, now: Time, s: &mut SackState, out: &mut impl Output) {
        if self.held
            || self.state != State::Established
            || self.is_shut_out()
            || (self.additions.is_some() && self.f_rto_waits())
        {
            // Where nothing may be sent, nothing waits for the pacer.
            return self.stop_waiting();
        }
        if self.waits_for_pacer(now) {
            return self.watch_window(now);
        }
        self.stop_waiting();
        let mss = u64::from(self.config.mss);
        let (first, wanted) = (self.snd_max, self.written > self.snd_max);
        let mut deferred = false;
        let mut reason = if s.phase == Phase::Recovery && s.high_resent == self.snd_una {
            SendReason::FastRetransmit
        } else {
            SendReason::Recovery
        };
        loop {
            // Without limited transmit what is SACKED makes no room before recovery.
            let without_credit =
                !self.profile.limited_transmit && s.phase == Phase::Open && !self.keeps_ack_clock();
            let pipe = if without_credit { self.flight() } else { s.pipe(self.flight()) };
            let room = self.extended_room(self.window.bytes(0.0).saturating_sub(pipe), pipe);
            if let Some(seq) = s.first_waiting(&self.board) {
                if room < mss.min(self.board.get(seq).map_or(mss, |b| b.end() - b.seq))
                    || !self.paced(now)
                {
                    break;
                }
                self.resend(now, seq, reason, s, out);
                reason = SendReason::Recovery;
                continue;
            }
            let before = self.snd_max;
            let offset = self.snd_nxt - self.snd_una;
            let most = if self.offload { self.frame_bytes(room, s) } else { self.config.mss };
            if let Some(next) = self.next_up_to(offset + room, most) {
                if !self.paced(now) {
                    break;
                }
                if self.offload && self.defers(now, room, s) {
                    deferred = true;
                    self.rule.on_cwnd_limited();
                    break;
                }
                self.send_this(now, next, SendReason::New, out);
                self.sent_new(before, s);
                continue;
            }
            let more = room >= mss
                && s.phase == Phase::Recovery
                && matches!(self.config.recovery.kind, RecoveryKind::Sack | RecoveryKind::Esack);
            if !more || !self.paced(now) || !self.send_uncertain(now, s, out) {
                break;
            }
        }
        if wanted {
            // What waits for a whole frame is limited by cwnd.
            let pipe = if deferred { self.window.bytes(0.0) } else { s.pipe(self.flight()) };
            self.note_cwnd_usage(self.snd_max > first, pipe);
        }
        self.watch_window(now);
    }

    fn sent_new(&mut self, before: u64, s: &mut SackState) {
        let bytes = self.snd_max - before;
        if let Some(list) = &mut s.list {
            list.take_new(&self.board);
        }
        if s.phase == Phase::Open && s.dupacks > 0 {
            self.limited += bytes;
        }
        self.extended_sent(bytes);
        if let Some(prr) = &mut s.prr {
            prr.on_sent(bytes);
        }
    }

    /// RFC 6675, NextSeg (3) and (4): what has not been reported, and in the end one rescue
    /// retransmission.
    fn send_uncertain(&mut self, now: Time, s: &mut SackState, out: &mut impl Output) -> bool {
        let unreported = s.first_unreported(&self.board);
        let Some(seq) = unreported.or_else(|| s.rescue(&self.board, self.snd_una)) else {
            return false;
        };
        let high = s.high_resent;
        self.resend(now, seq, SendReason::Recovery, s, out);
        if unreported.is_none() {
            s.rescued = Some(s.recovery_point);
            s.high_resent = high;
        }
        true
    }

    fn resend_first(
        &mut self,
        now: Time,
        reason: SendReason,
        s: &mut SackState,
        out: &mut impl Output,
    ) {
        if let Some(seq) = s.first_waiting(&self.board) {
            self.resend(now, seq, reason, s, out);
        }
    }

    pub(super) fn resend(
        &mut self,
        now: Time,
        seq: u64,
        reason: SendReason,
        s: &mut SackState,
        out: &mut impl Output,
    ) {
        let Some(sent) = self.board.get(seq) else { return };
        self.retransmit(now, seq, reason, out);
        s.resent(&mut self.board, seq, now);
        if let Some(elsn) = &mut self.elsn {
            elsn.on_resent(seq, now);
        }
        s.high_resent = s.high_resent.max(sent.end());
        if let Some(prr) = &mut s.prr {
            prr.on_sent(sent.end() - sent.seq);
        }
    }

    /// The retransmission timer fired (RFC 6675, section 5.1; RFC 8985, section 6.3).
    pub(crate) fn on_sack_timeout(&mut self, now: Time, out: &mut impl Output) {
        if self.elsn.is_some() && self.timeout_is_forborne(now, out) {
            return;
        }
        if self.idle_timeout(now) {
            return;
        }
        let Some(mut state) = self.sack.take() else { return };
        if self.config.recovery.kind == RecoveryKind::SelectiveRepeat {
            // Each segment has its own timer. This one is for what no ACK has started one for, as
            // after a probe of the window.
            state.segment_deadline = now;
            self.sack = Some(state);
            self.arm(now);
            return self.on_sack_timer(now, out);
        }
        let s = &mut *state;
        s.undo = Some(Undo { before: self.window, from: self.snd_una, unreported: 0 });
        self.counters.timeouts += 1;
        self.leave_extended();
        self.end_wait();
        if s.phase == Phase::Open
            && s.sacked_segments(self.config.mss) >= u64::from(self.profile.dupack_threshold)
        {
            s.rack.forget_reordering();
        }
        let window = s.rack.reordering_window(
            true,
            s.sacked_segments(self.config.mss),
            self.profile.dupack_threshold,
            self.rto.srtt(),
        );
        let overdue_only =
            (self.config.recovery.kind == RecoveryKind::Rack).then_some(s.rack.rtt + window);
        let pipe = s.pipe(self.flight());
        s.lose_all(&mut self.board, now, overdue_only);
        self.tell_losses(now, s);
        self.reduce(now, LossKind::Timeout, Flags::NONE, Some(pipe), out);
        self.enter_f_rto(s.phase != Phase::Open);
        self.rto.back_off();
        s.phase = Phase::Loss;
        s.recovery_point = self.snd_max;
        s.high_resent = self.snd_una;
        s.rack.forget_probe();
        (s.prr, s.cwr_until) = (None, None);
        (s.dupacks, self.dupacks, self.timing) = (0, 0, None);
        (s.reordering_deadline, s.probe_deadline) = (Time::NEVER, Time::NEVER);
        self.arm(now);
        self.resend_first(now, SendReason::Timeout, s, out);
        self.send_by_pipe(now, s, out);
        self.keep_sack_timers(now, s);
        self.sack = Some(state);
    }

    /// RACK looks again for losses, or a tail loss probe is due.
    pub(crate) fn on_sack_timer(&mut self, now: Time, out: &mut impl Output) {
        let Some(mut state) = self.sack.take() else { return };
        let s = &mut *state;
        if now >= s.reordering_deadline.min(s.segment_deadline) {
            self.find_losses(now, s);
            if s.waiting() > 0 && s.phase == Phase::Open {
                self.begin_recovery(now, &Segment::default(), &Arrival::default(), s, out);
                self.apply_prr(self.delivered_by_timer(), false, s);
            }
            self.send_by_pipe(now, s, out);
        }
        if now >= self.response_due() {
            self.respond_on_sack(now, s, out);
        }
        if now >= self.pacing_deadline() {
            let before = self.snd_max;
            self.send_by_pipe(now, s, out);
            if self.snd_max > before {
                self.plan_probe(now, s);
            }
        }
        if now >= s.probe_deadline {
            s.probe_deadline = Time::NEVER;
            self.send_probe(now, s, out);
        }
        self.keep_sack_timers(now, s);
        self.sack = Some(state);
    }

    /// RFC 8985, section 7.2: a probe is planned when nothing else would tell of a loss at the end.
    pub(crate) fn plan_probe(&mut self, now: Time, s: &mut SackState) {
        s.probe_deadline = Time::NEVER;
        let flight = self.flight();
        if self.config.recovery.kind != RecoveryKind::Rack
            || s.phase != Phase::Open
            || s.sacked() > 0
            || flight == 0
            || s.rack.probing()
        {
            return;
        }
        let slack = self.profile.probe_slack;
        let wait =
            s.rack.probe_timeout(self.rto.srtt(), flight <= u64::from(self.config.mss), slack);
        s.probe_deadline = (now + wait).min(self.rto_deadline());
    }

    /// RFC 8985, section 7.3: new data if there are any, otherwise the last segment once more.
    fn send_probe(&mut self, now: Time, s: &mut SackState, out: &mut impl Output) {
        if s.phase != Phase::Open || self.flight() == 0 || s.rack.probing() || self.held {
            return;
        }
        self.counters.tail_probes += 1;
        let (before, offset) = (self.snd_max, self.snd_nxt - self.snd_una);
        let again = !self.send_next(now, offset + u64::from(self.config.mss), SendReason::New, out);
        if again {
            let Some(last) = self.board.iter().last().map(|l| l.seq) else { return };
            self.retransmit(now, last, SendReason::Probe, out);
            s.resent(&mut self.board, last, now);
        } else {
            self.sent_new(before, s);
        }
        s.rack.on_probe(self.snd_max, again);
        self.arm(now);
    }

    fn keep_sack_timers(&mut self, now: Time, s: &mut SackState) {
        self.keep_segment_timers(now, s);
        let next = s
            .reordering_deadline
            .min(s.probe_deadline)
            .min(s.segment_deadline)
            .min(self.other_deadline());
        self.set_aux_deadline(now, if self.is_shut_out() { Time::NEVER } else { next });
    }
}

/// The D-SACK block of an ACK: a first block that is acknowledged or SACKed anyway (RFC 2883,
/// section 4).
fn duplicate_of(blocks: &[Block], ack: u64) -> Option<Block> {
    let first = *blocks.first()?;
    let within = blocks.get(1).is_some_and(|b| b.start <= first.start && first.end <= b.end);
    (first.end <= ack || within).then_some(first)
}
