//! The data stream of a sender: its sequence space, scoreboard and receive window, the segments
//! that carry it, its congestion state and its timers. The connection and loss recovery direct it
//! through methods; its fields are private.

pub mod frames;
mod growth_rules;
mod memory;
pub mod plain;
mod rule;
mod socket;
mod transmit;

use super::buffer::SendBuffer;
use super::config::{SenderConfig, SenderCounters, Settings, State};
use super::congestion::Congestion;
use super::limits::CwndUsage;
use super::timers::Timers;
use crate::accurate_ecn::MarkReader;
use crate::profile::{IdleRestart, PersistRule, Profile};
use crate::rate::RateSampler;
use crate::scoreboard::Scoreboard;
use crate::timestamps::Paws;
use crate::window::{Hooks, Window, WindowRule};
use growth_rules::GrowthRules;
use lasthop_core::ring::Ring;
use lasthop_core::segment::{Options, Segment};
use lasthop_core::units::{Duration, Time};
use std::sync::Arc;

/// The stream of one connection. `W` is the window rule.
pub struct Stream<W> {
    config: Settings,
    profile: Arc<Profile>,
    state: State,
    /// Bytes that the application has written; `u64::MAX` for an endless stream.
    written: u64,
    /// The send buffer, if it is limited.
    buffer: Option<Box<SendBuffer>>,
    /// While the program waits for room: the first unacknowledged byte from which on a third of
    /// the buffer may be free, and the cwnd above which the buffer grows. While it writes: 0.
    wakes_at: u64,
    grows_above: f64,
    /// When the program writes its next block; `NEVER` while it waits, or has nothing to write.
    writes_at: Time,
    /// The same if the sender waits for it; otherwise `NEVER`.
    awaited_at: Time,
    /// A write has begun; segments that arrived during it, with their options.
    in_write: bool,
    backlog: Vec<(Segment, Options)>,
    /// How often it has been woken.
    wakes: u64,
    /// The byte after a segment that the program's first write did not fill, and the bytes that
    /// the segment lacks.
    short: (u64, u64),
    close_wanted: bool,
    fin_sent: bool,
    /// Nothing is sent: a relay or a notice has frozen the sender.
    held: bool,
    snd_una: u64,
    snd_nxt: u64,
    snd_max: u64,
    /// The receive window as last advertised, and the largest one so far.
    rwnd: u64,
    max_rwnd: u64,
    /// How much of cwnd was used in this round trip.
    usage: CwndUsage,
    /// Bytes that limited transmit has sent since the last ACK of new data.
    limited: u64,
    /// The segments in flight, without those in `recent`.
    board: Scoreboard,
    /// When the last segments in flight were sent, all of full size and sent once on the fast path
    /// (`plain`).
    recent: Ring<Time>,
    /// The window rule opens the window as Reno does, and not in whole segments.
    grows_as_reno: bool,
    growth: GrowthRules,
    /// New data need the steps of `extras`.
    special: bool,
    hooks: Hooks,
    /// Several segments may leave as one frame.
    offload: bool,
    last_sent: Time,
    /// The first unacknowledged byte at the last retransmission, and when a retransmission first
    /// found it unacknowledged (Linux `retrans_stamp`).
    unanswered: (u64, Time),
    paws: Paws,
    /// What is read from AccECN's counts.
    marks: Option<MarkReader>,
    counters: SenderCounters,
    timers: Timers,
    congestion: Congestion<W>,
}

impl<W: WindowRule> Stream<W> {
    /// The stream of a closed connection; `offload`: several segments may leave as one frame.
    pub fn new(
        config: &SenderConfig,
        hooks: Hooks,
        profile: Arc<Profile>,
        rule: W,
        offload: bool,
    ) -> Self {
        let needs = config.needs;
        let window = Window::initial(&profile, config.mss, config.receive_window);
        let grows_as_reno = rule.grows_as_reno() && !profile.whole_segments;
        let buffer = SendBuffer::new(&profile, config.mss);
        Stream {
            grows_as_reno,
            growth: GrowthRules::of(&profile),
            timers: Timers::new(&profile, config.clock_phase),
            congestion: Congestion::new(rule, window, hooks, &profile),
            rwnd: config.receive_window,
            max_rwnd: config.receive_window,
            marks: MarkReader::new(&profile),
            special: profile.ecn || needs.rate_samples || offload || is_special(hooks),
            hooks,
            offload,
            config: Settings::of(config),
            state: State::Closed,
            written: 0,
            buffer,
            wakes_at: u64::MAX,
            grows_above: f64::INFINITY,
            writes_at: Time::NEVER,
            awaited_at: Time::NEVER,
            in_write: false,
            backlog: Vec::new(),
            wakes: 0,
            short: (0, 0),
            close_wanted: false,
            fin_sent: false,
            held: false,
            snd_una: 0,
            snd_nxt: 0,
            snd_max: 0,
            usage: CwndUsage::default(),
            limited: 0,
            board: Scoreboard::default(),
            recent: Ring::default(),
            last_sent: Time::ZERO,
            unanswered: (u64::MAX, Time::ZERO),
            paws: Paws::new(&profile),
            profile,
            counters: SenderCounters::default(),
        }
    }

    /// Replaces the window rule, before the connection is opened.
    pub fn replace_rule(&mut self, rule: W) {
        self.hooks = self.hooks.with(Hooks::of(rule.methods()));
        self.special |= is_special(self.hooks);
        self.grows_as_reno = rule.grows_as_reno() && !self.growth.whole_segments;
        self.congestion.replace_rule(rule, self.hooks, &self.profile);
    }

    // What it consists of.

    /// The methods of the window rule that are called on request.
    #[inline(always)]
    pub fn hooks(&self) -> Hooks {
        self.hooks
    }

    /// What the connection keeps of its configuration.
    #[inline]
    pub fn config(&self) -> &Settings {
        &self.config
    }

    /// Payload bytes of a full segment.
    #[inline(always)]
    pub fn mss(&self) -> u32 {
        self.config.mss
    }

    /// The constants and switches of the stack.
    #[inline(always)]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The counters.
    #[inline]
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// The counters, to count an event.
    #[inline]
    pub fn counters_mut(&mut self) -> &mut SenderCounters {
        &mut self.counters
    }

    /// The timers.
    #[inline(always)]
    pub fn timers(&self) -> &Timers {
        &self.timers
    }

    /// The timers, to set them.
    #[inline(always)]
    pub fn timers_mut(&mut self) -> &mut Timers {
        &mut self.timers
    }

    /// The window rule and what it decides.
    #[inline(always)]
    pub fn congestion(&self) -> &Congestion<W> {
        &self.congestion
    }

    /// The window rule, to call it.
    #[inline(always)]
    pub fn congestion_mut(&mut self) -> &mut Congestion<W> {
        &mut self.congestion
    }

    /// The segments in flight.
    #[inline(always)]
    pub fn board(&self) -> &Scoreboard {
        &self.board
    }

    /// The segments in flight, to mark them.
    #[inline(always)]
    pub fn board_mut(&mut self) -> &mut Scoreboard {
        &mut self.board
    }

    /// The segments in flight, and the sampler of delivery rates, if there is one.
    #[inline(always)]
    pub fn board_and_rate(&mut self) -> (&mut Scoreboard, Option<&mut RateSampler>) {
        (&mut self.board, self.congestion.rate_mut())
    }

    /// cwnd and ssthresh.
    #[inline(always)]
    pub fn window(&self) -> Window {
        self.congestion.window()
    }

    // The connection.

    /// State of the connection.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// The handshake goes on as in `before`, with its timers and counters.
    pub fn continue_handshake(&mut self, before: &Stream<W>) {
        self.state = before.state;
        self.timers = before.timers.clone();
        self.counters = before.counters;
    }

    /// Sets the state of the connection.
    pub fn set_state(&mut self, state: State) {
        self.state = state;
    }

    /// The connection is established and not frozen.
    #[inline(always)]
    pub fn may_send(&self) -> bool {
        !self.held && self.state == State::Established
    }

    /// The sender is frozen.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Freezes the sender or lets it continue.
    pub fn set_held(&mut self, held: bool) {
        self.held = held;
    }

    /// The FIN was sent.
    pub fn has_sent_fin(&self) -> bool {
        self.fin_sent
    }

    /// The program has written everything and closed.
    #[inline(always)]
    pub fn is_closing(&self) -> bool {
        self.close_wanted
    }

    /// The last data carry the FIN.
    #[inline]
    pub fn closes_with_data(&self) -> bool {
        self.close_wanted && self.profile.fin_with_data && self.profile.full_handshake
    }

    /// The connection is done if everything written, and the FIN, are acknowledged.
    #[inline]
    pub fn check_done(&mut self) {
        let closing = self.close_wanted && self.snd_una >= self.written;
        if closing
            && (!self.profile.full_handshake || (self.fin_sent && self.snd_una == self.snd_max))
        {
            self.state = State::Done;
            self.timers.stop();
        }
    }

    /// ACKs may concern ECN or the delivery-rate samples.
    #[inline(always)]
    pub fn is_special(&self) -> bool {
        self.special
    }

    /// The earliest deadline of pacing, of the rule's timer, of a frozen sender and of a block that
    /// the sender or its backlog waits for.
    #[inline]
    pub fn other_deadline(&self) -> Time {
        let congestion = &self.congestion;
        let sending = congestion.pacing_deadline().min(congestion.rule_deadline());
        sending.min(self.timers.held_until()).min(self.awaited_at)
    }

    /// F-RTO, step 3a: the timeout was not spurious. Two round trips have passed, so the window is
    /// three segments.
    #[cold]
    pub fn confirm_timeout(&mut self) {
        if !self.congestion.steers_recovery() {
            self.congestion.set_cwnd(3.0 * f64::from(self.config.mss));
        }
    }

    /// The receiver's SYN has this timestamp, which the SYN-ACK echoes.
    pub fn begin_timestamps(&mut self, now: Time, value: u32) {
        self.paws.begin(now, value);
    }

    /// Takes the timestamp of a segment of the receiver, which the next segment echoes. False if it
    /// is so old that the segment is to be discarded.
    #[inline]
    pub fn take_timestamp(&mut self, now: Time, segment: &Segment) -> bool {
        if self.state == State::SynSent {
            self.paws.begin(now, segment.ts_value);
            return true;
        }
        if let Some(excess) = self.paws.excess(now, segment.ts_value) {
            return self.forgives_old_timestamp(segment, excess);
        }
        self.paws.update(now, segment.ts_value, false, true);
        true
    }

    /// A duplicate ACK that was overtaken is accepted if it does not update the window (Linux
    /// `tcp_disordered_ack_check`).
    #[cold]
    fn forgives_old_timestamp(&self, segment: &Segment, excess_us: u32) -> bool {
        let window = u64::from(segment.window);
        let rto_us = self.timers.rto().rto().0 / 1000;
        !segment.has_sequence_numbers()
            && segment.ack == self.snd_una
            && window > 0
            && window <= self.rwnd
            && self.paws.forgives_duplicate_ack(excess_us, rto_us)
    }

    // The sequence space.

    /// First byte that is not acknowledged.
    #[inline(always)]
    pub fn snd_una(&self) -> u64 {
        self.snd_una
    }

    /// The next byte to be sent.
    #[inline(always)]
    pub fn snd_nxt(&self) -> u64 {
        self.snd_nxt
    }

    /// The byte after the last one ever sent.
    #[inline(always)]
    pub fn snd_max(&self) -> u64 {
        self.snd_max
    }

    /// Bytes that the application has written.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Bytes in flight by sequence number.
    #[inline(always)]
    pub fn flight(&self) -> u64 {
        self.snd_max - self.snd_una
    }

    /// Bytes in the network: by the sampler, if there is one, otherwise those in flight.
    pub fn in_network(&self) -> u64 {
        self.congestion.in_network().unwrap_or(self.flight())
    }

    /// `ack` acknowledges all bytes below it. The scoreboard is left as it is.
    #[inline(always)]
    pub fn advance(&mut self, ack: u64) {
        self.snd_una = ack;
        self.snd_nxt = self.snd_nxt.max(ack);
    }

    /// Retransmissions have not been answered for as long as the profile allows (Linux
    /// `retransmits_timed_out`).
    pub fn is_overdue(&self, now: Time) -> bool {
        let orphan = self.profile.orphan_timeout;
        let limit = match self.profile.user_timeout {
            limit if self.close_wanted && orphan > Duration::ZERO => limit.min(orphan),
            limit => limit,
        };
        let (una, since) = self.unanswered;
        limit > Duration::ZERO && una == self.snd_una && now - since >= limit
    }

    /// Everything outstanding is to be sent again.
    pub fn go_back(&mut self) {
        self.snd_nxt = self.snd_una;
    }

    /// The next byte to be sent is not below `seq`.
    pub fn skip_to(&mut self, seq: u64) {
        self.snd_nxt = self.snd_nxt.max(seq);
    }

    /// Limited transmit starts to count from 0.
    #[inline]
    pub fn reset_limited(&mut self) {
        self.limited = 0;
    }

    /// `bytes` were sent beyond the window.
    pub fn add_limited(&mut self, bytes: u64) {
        self.limited += bytes;
    }

    // The receive window.

    /// The receive window as last advertised.
    #[inline(always)]
    pub fn rwnd(&self) -> u64 {
        self.rwnd
    }

    /// A new advertised window.
    #[inline]
    pub fn set_rwnd(&mut self, bytes: u64) {
        self.rwnd = bytes;
        self.max_rwnd = self.max_rwnd.max(bytes);
    }

    /// The window that the answer to the SYN advertises.
    pub fn set_first_rwnd(&mut self, bytes: u64) {
        (self.rwnd, self.max_rwnd) = (bytes, bytes);
    }

    /// True if a segment closes the window and says nothing about losses: then the window is
    /// probed.
    #[inline]
    pub fn on_closed_window(&mut self, now: Time, segment: &Segment) -> bool {
        let closed = segment.ack <= self.snd_una && self.snd_una < self.snd_max;
        if closed {
            self.rwnd = 0;
            self.watch_zero_window(now);
        }
        closed
    }

    /// The receiver has closed its window while data are in flight.
    pub fn is_shut_out(&self) -> bool {
        self.timers.persist().is_some() && self.rwnd == 0 && self.snd_una < self.snd_max
    }

    /// After sending what could be sent: a closed window is probed.
    #[inline(always)]
    pub fn watch_window(&mut self, now: Time) {
        if self.rwnd < u64::from(self.config.mss) || self.timers.persist().is_some() {
            self.watch_zero_window(now);
        }
    }

    /// Probes a closed receive window, if nothing is in flight or if the profile always does (RFC
    /// 1122, section 4.2.2.17).
    #[inline(never)]
    pub fn watch_zero_window(&mut self, now: Time) {
        let wants = self.written > self.snd_max || self.snd_nxt < self.snd_max;
        let in_flight = self.snd_una < self.snd_max;
        let shut = self.rwnd == 0
            && in_flight
            && self.profile.persist == PersistRule::Always
            && self.state == State::Established;
        let blocked = shut || (self.rwnd < u64::from(self.config.mss) && wants && !in_flight);
        match (blocked, self.timers.persist()) {
            (true, None) => self.timers.begin_persist(now),
            (false, Some(_)) => {
                self.timers.stop_and_end_persist();
                if in_flight {
                    // Data that waited behind the closed window give no round-trip time.
                    self.timers.ignore_rtt_before(now);
                    self.timers.arm(now);
                }
            }
            _ => {}
        }
    }

    /// After an ACK: the timer continues if something is outstanding, and in ns-2 always (rule 12).
    #[inline]
    pub fn rearm_after_ack(&mut self, now: Time) {
        if self.snd_una < self.snd_max || self.profile.idle_restart == IdleRestart::Timer {
            self.timers.arm(now);
        } else {
            self.timers.stop_and_end_persist();
        }
    }

    /// The same under recovery by SACK, whose timers mostly are in ticks of the clock.
    #[inline]
    pub fn rearm_in_ticks(&mut self, now: Time) {
        if self.snd_una < self.snd_max || self.profile.idle_restart == IdleRestart::Timer {
            self.timers.rearm(now);
        } else {
            self.timers.stop_and_end_persist();
        }
    }

    // After an idle time.

    /// RFC 5681, section 4.1: after an RTO without sending, cwnd restarts.
    pub fn restart_if_idle(&mut self, now: Time) {
        let rto = self.timers.rto().rto();
        let idle = self.snd_una == self.snd_max && self.snd_max > 0 && now - self.last_sent > rto;
        if !idle || self.congestion.steers_recovery() {
            return;
        }
        let (cwnd, restart) =
            (self.window().cwnd, self.profile.restart_window.bytes(self.config.mss) as f64);
        match self.profile.idle_restart {
            IdleRestart::Rto => self.congestion.set_cwnd(cwnd.min(restart)),
            IdleRestart::HalvedPerRto => self.halve_per_rto(now, rto, restart.min(cwnd)),
            IdleRestart::Off | IdleRestart::Timer => {}
        }
    }

    fn halve_per_rto(&mut self, now: Time, rto: Duration, least: f64) {
        let mss = f64::from(self.config.mss);
        let Window { mut cwnd, ssthresh } = self.window();
        let ssthresh = ssthresh.max(libm::floor(0.75 * cwnd / mss) * mss);
        let mut idle = (now - self.last_sent).saturating_sub(rto);
        while idle > Duration::ZERO && cwnd > least {
            cwnd = libm::floor(cwnd / 2.0 / mss) * mss;
            idle = idle.saturating_sub(rto);
        }
        self.congestion.set_window(Window { cwnd: cwnd.max(least), ssthresh });
    }

    /// The retransmission timer expired. True if nothing is outstanding: nothing is lost, so that
    /// nothing is backed off or repaired. In ns-2 (rule 12) cwnd restarts and the timer continues.
    pub fn idle_timeout(&mut self, now: Time) -> bool {
        let idle = self.snd_una == self.snd_max;
        if idle && self.profile.idle_restart == IdleRestart::Timer {
            if !self.congestion.steers_recovery() {
                let restart = self.profile.restart_window.bytes(self.config.mss) as f64;
                self.congestion.set_cwnd(restart);
            }
            self.timers.arm(now);
            self.timers.stop_timing();
        }
        idle
    }

    /// The application has nothing to send although the window would let it
    /// (draft-ietf-ccwg-bbr, section 4.1.2.4). To be called before an ACK, a timer or a write is
    /// processed. A program that waits for room in the send buffer has something: Linux looks when
    /// it begins to write (`tcp_sendmsg_locked`), not while it waits.
    #[inline]
    pub fn check_app_limited(&mut self) {
        if self.is_program_blocked() {
            return;
        }
        let cwnd = self.congestion.window().cwnd;
        if let Some(rate) = self.congestion.rate_mut() {
            let nothing = self.written.saturating_sub(self.snd_nxt) < u64::from(self.config.mss)
                && self.snd_nxt == self.snd_max;
            if nothing && rate.leaves_room(cwnd) {
                rate.mark_app_limited();
            }
        }
    }
}

/// New data need further steps because of the window rule.
fn is_special(hooks: Hooks) -> bool {
    hooks.every_send || hooks.marks || hooks.pacing
}
