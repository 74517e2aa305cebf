//! The data sender: what to send when. How it recovers from losses is in `recovery.rs`.

use crate::segment::{Flags, FlowId, NodeId, Notice, NoticeKind, Options, Payload, Segment};
use crate::tcp::pacing::Pacer;
use crate::tcp::profile::{IdleRestart, LimitedTransmitRule, PersistRule, Profile};
use crate::tcp::rate::RateSampler;
use crate::tcp::recovery::sack_state::SackState;
use crate::tcp::recovery::{Additions, Elsn, Recovery, RecoveryKind, SackNs2};
use crate::tcp::rto::RtoEstimator;
use crate::tcp::scoreboard::{Marks, Scoreboard, Sent};
use crate::tcp::window::{Needs, Report, Said, Start, Window, WindowRule};
use crate::units::{Duration, Size, Time};

/// Where a sender's segments go.
pub trait Output {
    /// Sends a segment. `id` and `payload` are the host's to fill in.
    fn send(&mut self, segment: Segment, cause: Cause);

    /// Sends a segment with options.
    fn send_with(&mut self, segment: Segment, options: &Options, cause: Cause);

    /// The window rule has said what it holds the loss of the data segment at `seq` for, which had been sent `times` times.
    fn classified(&mut self, _seq: u64, _times: u16, _said: Said) {}
}

/// Why a segment is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// SYN, ACK, FIN, window probe.
    Control,
    /// Data for the first time.
    New,
    /// Fast retransmit.
    FastRetransmit,
    /// First segment after a retransmission timeout.
    Timeout,
    /// A tail loss probe that sends the last segment again (RFC 8985, section 7).
    Probe,
    /// Sent again within a recovery, or on the way back up after a timeout.
    Recovery,
    /// Sent again because the link layer has given it up.
    Notified,
}

/// What a sender needs to know of its connection.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Flow.
    pub flow: FlowId,
    /// Node of the receiver.
    pub to: NodeId,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Header bytes of every packet.
    pub headers: u32,
    /// The receiver's buffer, known from its SYN.
    pub receive_window: u64,
    /// Loss recovery.
    pub recovery: Recovery,
    /// What the window rule needs.
    pub needs: Needs,
    /// Phase of ns-2's clock.
    pub clock_phase: Duration,
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Segments sent, SYN and retransmissions included, pure ACKs not.
    pub segments: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts with data outstanding.
    pub timeouts: u64,
    /// Fast retransmits.
    pub fast_retransmits: u64,
    /// Episodes in which cwnd or ssthresh fell.
    pub reductions: u64,
    /// Zero-window probes.
    pub probes: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
    /// Reductions found uncalled for and taken back.
    pub undone: u64,
    /// Notices heeded: the link layer begins to send a segment again, or has given it up.
    pub ersn: u64,
    /// See above.
    pub eln: u64,
    /// Notices ignored: for nothing that is in flight, late, or a second time for one transmission.
    pub notices_ignored: u64,
    /// Timeouts put off because the link layer was still at work.
    pub timeouts_held: u64,
}

impl SenderCounters {
    /// What was counted since `earlier`.
    pub fn since(self, earlier: SenderCounters) -> SenderCounters {
        SenderCounters {
            segments: self.segments - earlier.segments,
            retransmissions: self.retransmissions - earlier.retransmissions,
            timeouts: self.timeouts - earlier.timeouts,
            fast_retransmits: self.fast_retransmits - earlier.fast_retransmits,
            reductions: self.reductions - earlier.reductions,
            probes: self.probes - earlier.probes,
            tail_probes: self.tail_probes - earlier.tail_probes,
            undone: self.undone - earlier.undone,
            ersn: self.ersn - earlier.ersn,
            eln: self.eln - earlier.eln,
            notices_ignored: self.notices_ignored - earlier.notices_ignored,
            timeouts_held: self.timeouts_held - earlier.timeouts_held,
        }
    }
}

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Before the SYN.
    Closed,
    /// SYN sent.
    SynSent,
    /// Data may flow.
    Established,
    /// Everything, the FIN too if there is one, has been acknowledged.
    Done,
}

/// What the last reduction was (ns-2's `last_cwnd_action_`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastAction {
    None,
    DuplicateAcks,
    Timeout,
    /// Fast recovery was left.
    Exited,
}

/// What is next to be sent: payload bytes, and whether it is the FIN or was sent before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    len: u32,
    fin: bool,
    again: bool,
}

/// A TCP data sender. `W` is the window rule.
pub struct Sender<W> {
    pub(super) config: SenderConfig,
    pub(super) profile: Profile,
    pub(super) state: State,
    /// Bytes the application has written; `u64::MAX` for an endless one.
    pub(super) written: u64,
    close_wanted: bool,
    fin_sent: bool,
    pub(super) snd_una: u64,
    pub(super) snd_nxt: u64,
    pub(super) snd_max: u64,
    /// The receive window as last advertised, and the largest one seen.
    pub(super) rwnd: u64,
    max_rwnd: u64,
    pub(super) window: Window,
    /// What fast recovery adds to cwnd (ns-2's `dupwnd_`), bytes.
    pub(super) inflation: f64,
    pub(super) rule: W,
    pub(super) dupacks: u32,
    /// Bytes that limited transmit has sent since the last new ACK.
    pub(super) limited: u64,
    /// snd_max at the last reduction. Nothing is fast-retransmitted before an ACK passes it, if the guard is on.
    pub(super) recover: Option<u64>,
    pub(super) last_action: LastAction,
    /// The rule told the cause at the last fast retransmit and kept its window, at so many bytes.
    pub(super) kept: bool,
    pub(super) target: f64,
    /// State of ns-2's SACK recovery.
    pub(super) sack_ns2: Option<Box<SackNs2>>,
    /// Bytes that duplicate ACKs have stood for, for rules that count deliveries.
    pub(super) dup_delivered: u64,
    /// No reduction by ECN before this byte is acknowledged; the next new segment says that one was made.
    pub(super) ecn_until: u64,
    pub(super) cwr: bool,
    /// A partial ACK was seen in this recovery.
    pub(super) partial_seen: bool,
    pub(super) rto: RtoEstimator,
    /// The one segment being timed: (its end, when it was sent).
    pub(super) timing: Option<(u64, Time)>,
    pub(super) board: Scoreboard,
    /// Recovery on SACK blocks, if that is the recovery.
    pub(super) sack: Option<Box<SackState>>,
    /// What is added to the recovery, if anything is.
    pub(super) additions: Option<Box<Additions>>,
    /// What the link layer says, if the recovery listens.
    pub(super) elsn: Option<Box<Elsn>>,
    /// For flows whose rule asks for them only.
    pub(super) rate: Option<Box<RateSampler>>,
    pub(super) pacer: Option<Box<Pacer>>,
    deadline: Time,
    armed: Time,
    /// The earliest of the deadlines that are not the retransmission timer's, and when that was decided.
    aux_deadline: Time,
    aux_armed: Time,
    /// The deadline is a zero-window probe's, with so many sent already.
    pub(super) persist: Option<u32>,
    pub(super) held: bool,
    /// What was sent before gives no round-trip time.
    rtt_from: Time,
    /// New data need a look at `extras`.
    special: bool,
    /// Sending does not go by the window alone.
    by_pipe_or_paced: bool,
    last_sent: Time,
    syn_lost: bool,
    syn_sent_at: Time,
    pub(super) last_rtt: Option<Duration>,
    ts_recent: u32,
    pub(super) counters: SenderCounters,
}

impl<W: WindowRule> Sender<W> {
    /// A closed sender.
    pub fn new(mut config: SenderConfig, profile: &Profile, rule: W) -> Self {
        config.needs.every_ack |= config.needs.rate_samples;
        let needs = config.needs;
        let window = Window::initial(profile, config.mss, config.receive_window);
        let list = config.recovery.kind == RecoveryKind::PacketList;
        let on_sack = list || matches!(config.recovery.kind, RecoveryKind::Sack | RecoveryKind::Esack | RecoveryKind::Fack | RecoveryKind::Rack);
        let sack = on_sack.then(|| Box::new(SackState::new(needs.rate_samples, list)));
        let sack_ns2 = (config.recovery.kind == RecoveryKind::SackNs2).then(Box::default);
        let additions = Additions::of(&config.recovery);
        let elsn = config.recovery.elsn.map(|rules| Box::new(Elsn::new(rules)));
        Sender {
            rto: RtoEstimator::new(profile, config.clock_phase),
            rwnd: config.receive_window,
            max_rwnd: config.receive_window,
            recover: None,
            profile: profile.clone(),
            special: profile.ecn || needs.every_send || needs.marks || needs.rate_samples || needs.pacing,
            by_pipe_or_paced: on_sack || needs.pacing,
            config,
            state: State::Closed,
            written: 0,
            close_wanted: false,
            fin_sent: false,
            snd_una: 0,
            snd_nxt: 0,
            snd_max: 0,
            window,
            inflation: 0.0,
            rule,
            dupacks: 0,
            limited: 0,
            last_action: LastAction::None,
            kept: false,
            target: 0.0,
            sack_ns2,
            dup_delivered: 0,
            ecn_until: 0,
            cwr: false,
            partial_seen: false,
            timing: None,
            board: Scoreboard::default(),
            sack,
            additions,
            elsn,
            rate: None,
            pacer: needs.pacing.then(Box::default),
            aux_deadline: Time::NEVER,
            aux_armed: Time::ZERO,
            deadline: Time::NEVER,
            armed: Time::ZERO,
            persist: None,
            held: false,
            rtt_from: Time::ZERO,
            last_sent: Time::ZERO,
            syn_lost: false,
            syn_sent_at: Time::ZERO,
            last_rtt: None,
            ts_recent: 0,
            counters: SenderCounters::default(),
        }
    }

    /// Runs over another window rule; before the connection is opened.
    pub fn replace_rule(&mut self, rule: W) {
        self.rule = rule;
    }

    /// Opens the connection.
    pub fn open(&mut self, now: Time, out: &mut impl Output) {
        if self.state == State::Closed {
            self.state = State::SynSent;
            self.send_syn(now, out);
        }
    }

    /// The application writes `bytes` more; `u64::MAX` for "without end".
    pub fn write(&mut self, now: Time, bytes: u64, out: &mut impl Output) {
        if self.fin_sent {
            return;
        }
        self.check_app_limited();
        self.written = self.written.saturating_add(bytes);
        if self.state == State::Established {
            self.restart_if_idle(now);
            self.fill_window(now, u32::MAX, Cause::Recovery, out);
        }
    }

    /// The application stops writing: what was handed to TCP so far is all there is.
    pub fn stop(&mut self) {
        self.written = self.written.min(self.snd_max);
    }

    /// No more data: with the full handshake a FIN follows the last byte.
    pub fn close(&mut self, now: Time, out: &mut impl Output) {
        self.close_wanted = true;
        if self.state == State::Established {
            self.fill_window(now, u32::MAX, Cause::Recovery, out);
        }
    }

    /// A segment from the receiver.
    #[inline]
    pub fn on_segment(&mut self, now: Time, segment: &Segment, options: &Options, out: &mut impl Output) {
        if !segment.flags.has(Flags::ACK) || self.state == State::Closed {
            return;
        }
        if segment.flags.has(Flags::TIMESTAMPS) {
            self.ts_recent = segment.ts_value;
        }
        if self.state == State::SynSent {
            if segment.flags.has(Flags::SYN) && segment.ack == 0 {
                self.establish(now, segment, out);
            }
            return;
        }
        if segment.flags.has(Flags::SYN) || segment.ack > self.snd_max {
            return;
        }
        let closes = segment.window == 0 && self.profile.persist == PersistRule::Always;
        if closes && segment.ack <= self.snd_una && self.snd_una < self.snd_max {
            // It says that the window is closed, and of losses nothing.
            self.rwnd = 0;
            return self.watch_zero_window(now);
        }
        if segment.flags.has(Flags::SNACK) {
            self.on_snack(now, segment, &options.snack, out);
        } else if segment.flags.has(Flags::ELN) && self.elsn.is_some() {
            let lost = if segment.flags.has(Flags::NAMED) { Some(options.named) } else { self.first_unnamed(segment.ack) };
            // What the ACK covers has arrived.
            if let Some(seq) = lost.filter(|&seq| seq >= segment.ack) {
                self.on_eln_ack(now, seq, out);
            }
        }
        if self.special {
            self.check_app_limited();
            if self.is_echo(segment) {
                self.on_ecn_echo(now, segment.ack, out);
            }
        }
        let reports = segment.flags.has(Flags::REPORT);
        if reports && self.rule.reports_alone() {
            return self.take_report(now, options.report, out);
        }
        if self.sack.is_some() {
            self.on_sack_ack(now, segment, options, out);
        } else if self.sack_ns2.is_some() {
            self.on_sack_ns2_ack(now, segment, options, out);
        } else {
            self.on_dupack_ack(now, segment, out);
        }
        if reports {
            self.take_report(now, options.report, out);
        }
        if closes && self.snd_una < self.snd_max {
            self.watch_zero_window(now);
        }
        if segment.flags.has(Flags::FIN) && self.state == State::Done {
            self.send_control(self.snd_max, Flags::ACK, now, out);
        }
    }

    /// The deadline has come.
    pub fn on_timer(&mut self, now: Time, out: &mut impl Output) {
        if self.held {
            (self.deadline, self.aux_deadline) = (Time::NEVER, Time::NEVER);
            return;
        }
        if now >= self.aux_deadline {
            self.aux_deadline = Time::NEVER;
            self.check_app_limited();
            if self.sack.is_some() {
                self.on_sack_timer(now, out);
            } else if self.sack_ns2.is_some() {
                self.fill_sack_ns2(now, Cause::Recovery, out);
            } else {
                self.on_response_timer(now, out);
                self.send_after_ack(now, out);
            }
        }
        if now < self.deadline {
            return;
        }
        self.deadline = Time::NEVER;
        self.check_app_limited();
        if let Some(probes) = self.persist {
            let room = u64::from(self.config.mss).min(self.rwnd).min(self.written - self.snd_nxt.min(self.written));
            if room > 0 {
                // A window that stays below half of what it was is used as it is in the end (RFC 1122, section 4.2.3.4).
                return self.emit(now, room as u32, false, Cause::New, out);
            }
            self.persist = Some(probes + 1);
            self.counters.probes += 1;
            self.send_control(self.snd_una.wrapping_sub(1), Flags::ACK, now, out);
            let wait = Duration(self.rto.rto().0 << probes.min(6)).min(self.profile.max_rto);
            self.arm_at(now, wait);
        } else if self.state == State::SynSent {
            self.on_syn_timeout(now, out);
        } else if self.state == State::Established {
            if self.sack.is_some() {
                self.on_sack_timeout(now, out);
            } else if self.sack_ns2.is_some() {
                self.on_sack_ns2_timeout(now, out);
            } else {
                self.on_dupack_timeout(now, out);
            }
        }
    }

    /// When `on_timer` wants to be called, and when that was decided.
    #[inline]
    pub fn deadline(&self) -> (Time, Time) {
        if self.aux_deadline < self.deadline { (self.aux_deadline, self.aux_armed) } else { (self.deadline, self.armed) }
    }

    /// When the retransmission timer is due.
    pub(super) fn rto_deadline(&self) -> Time {
        self.deadline
    }

    /// The earliest deadline of pacing and of what is added to the recovery.
    pub(super) fn other_deadline(&self) -> Time {
        self.pacing_deadline().min(self.response_due())
    }

    /// Sets the earliest of the other deadlines; one that has passed while the sender was held is due now.
    pub(super) fn set_aux_deadline(&mut self, now: Time, at: Time) {
        let at = at.max(now);
        if at != self.aux_deadline {
            (self.aux_deadline, self.aux_armed) = (at, now);
        }
    }

    fn establish(&mut self, now: Time, segment: &Segment, out: &mut impl Output) {
        self.state = State::Established;
        self.rwnd = u64::from(segment.window);
        self.max_rwnd = self.rwnd;
        if self.syn_lost {
            self.window.cwnd = self.profile.syn_loss_window.bytes(self.config.mss) as f64;
            if self.profile.full_handshake {
                self.rto.after_syn_loss();
            }
        } else {
            self.take_rtt(now, now - self.syn_sent_at, self.syn_sent_at, self.profile.timestamps);
            self.rto.end_back_off();
        }
        self.timing = None;
        self.deadline = Time::NEVER;
        if self.profile.idle_restart == IdleRestart::Timer {
            self.arm(now);
        }
        if self.profile.full_handshake {
            self.send_control(0, Flags::ACK, now, out);
        }
        let start = Start {
            now,
            flow: self.config.flow,
            mss: self.config.mss,
            rtt: self.rto.srtt(),
            sack: self.config.needs.sack,
            receive_window: self.rwnd,
        };
        self.rate = self.config.needs.rate_samples.then(|| Box::new(RateSampler::new(start.rtt)));
        self.rule.on_established(&mut self.window, &start);
        self.fill_window(now, u32::MAX, Cause::Recovery, out);
    }

    fn on_syn_timeout(&mut self, now: Time, out: &mut impl Output) {
        self.syn_lost = true;
        self.counters.timeouts += 1;
        if self.profile.syn_loss_cuts_ssthresh {
            self.window.ssthresh = 2.0 * f64::from(self.config.mss);
            self.counters.reductions += 1;
        }
        self.rto.back_off();
        self.counters.retransmissions += 1;
        self.send_syn(now, out);
    }

    fn send_syn(&mut self, now: Time, out: &mut impl Output) {
        self.syn_sent_at = now;
        self.counters.segments += 1;
        let segment = self.make(0, 0, Flags::SYN, u16::from(self.syn_lost) + 1, now);
        out.send(segment, Cause::Control);
        self.arm(now);
    }

    fn send_control(&mut self, seq: u64, flags: Flags, now: Time, out: &mut impl Output) {
        let segment = self.make(seq, 0, flags, 1, now);
        out.send(segment, Cause::Control);
    }

    #[inline(always)]
    fn make(&self, seq: u64, len: u32, flags: Flags, attempt: u16, now: Time) -> Segment {
        let mut flags = if self.state == State::SynSent { flags } else { flags.with(Flags::ACK) };
        let mut size = self.config.headers + len;
        let (mut ts_value, mut ts_echo) = (0, 0);
        if self.profile.timestamps {
            flags = flags.with(Flags::TIMESTAMPS);
            size += if len > 0 { self.profile.timestamp_bytes } else { self.profile.timestamp_ack_bytes };
            ts_value = timestamp(now);
            ts_echo = self.ts_recent;
        }
        Segment {
            seq,
            ack: 0,
            id: 0,
            flow: self.config.flow,
            len,
            size,
            window: 65_535,
            ts_value,
            ts_echo,
            payload: Payload::NONE,
            to: self.config.to,
            flags,
            attempt,
            forward: true,
        }
    }

    /// Bytes in flight by sequence number.
    #[inline]
    pub fn flight(&self) -> u64 {
        self.snd_max - self.snd_una
    }

    /// Bytes held to be in the network: by SACK if that is used (RFC 6675, SetPipe), otherwise all in flight.
    pub fn pipe(&self) -> u64 {
        self.sack.as_ref().map_or(self.flight(), |s| s.pipe(self.flight()))
    }

    /// Its recovery keeps count of the pipe.
    pub fn uses_sack(&self) -> bool {
        self.sack.is_some()
    }

    /// The window in use: cwnd and its inflation, not above the receive window. One that is nearly closed is no congestion.
    pub(super) fn window_in_use(&self) -> f64 {
        (self.window.cwnd + self.inflation).min(self.rwnd.max(u64::from(self.config.mss)) as f64)
    }

    /// `fill`, for all but the hottest caller.
    #[inline(never)]
    pub(super) fn fill_window(&mut self, now: Time, limit: u32, cause: Cause, out: &mut impl Output) {
        if self.sack_ns2.is_some() {
            return self.fill_sack_ns2(now, cause, out);
        }
        self.fill(now, limit, cause, out);
    }

    /// Sends what the windows allow, at most `limit` segments.
    #[inline(always)]
    pub(super) fn fill(&mut self, now: Time, limit: u32, cause: Cause, out: &mut impl Output) {
        if !self.may_send() {
            return;
        }
        if self.by_pipe_or_paced {
            return if self.sack.is_some() { self.fill_pipe(now, out) } else { self.fill_paced(now, limit, cause, out) };
        }
        let window = (self.window.cwnd + self.inflation) as u64;
        let mss = u64::from(self.config.mss);
        // Nearly always there is nothing to send but whole new segments.
        let right = (self.snd_una + window.min(self.rwnd)).min(self.written);
        let mut sent = 0;
        while sent < limit && self.snd_nxt == self.snd_max && self.snd_nxt + mss <= right {
            self.emit(now, mss as u32, false, Cause::New, out);
            sent += 1;
        }
        let offset = self.snd_nxt - self.snd_una;
        let blocked = offset + mss > window || self.rwnd.saturating_sub(offset) < mss.min(self.max_rwnd / 2);
        let full = blocked && self.snd_nxt == self.snd_max && self.written.saturating_sub(self.snd_nxt) >= mss;
        if !full && sent < limit {
            self.fill_with_others(now, window, limit - sent, if sent == 0 { cause } else { Cause::Recovery }, out);
        }
        self.watch_window(now);
    }

    /// Data may leave at all.
    #[inline(always)]
    pub(super) fn may_send(&self) -> bool {
        !self.held && self.state == State::Established
    }

    /// After sending what could be sent: a closed window is probed.
    #[inline(always)]
    pub(super) fn watch_window(&mut self, now: Time) {
        if self.rwnd < u64::from(self.config.mss) || self.persist.is_some() {
            self.watch_zero_window(now);
        }
    }

    /// The same for any kind of segment: one sent again, a small one, the FIN.
    #[inline(never)]
    fn fill_with_others(&mut self, now: Time, window: u64, limit: u32, mut cause: Cause, out: &mut impl Output) {
        for _ in 0..limit {
            if !self.send_next(now, window, cause, out) {
                break;
            }
            cause = Cause::Recovery;
        }
    }

    /// Sends the segment at snd_nxt if it fits into `window` bytes from snd_una. `cause` holds for a segment sent again.
    pub(super) fn send_next(&mut self, now: Time, window: u64, cause: Cause, out: &mut impl Output) -> bool {
        let Some(next) = self.next_to_send(window) else { return false };
        self.send_this(now, next, cause, out);
        true
    }

    /// The segment at snd_nxt, if it fits into `window` bytes from snd_una.
    #[inline]
    pub(super) fn next_to_send(&self, window: u64) -> Option<Next> {
        let again = self.snd_nxt < self.snd_max;
        let (mut len, mut fin) = (0, false);
        if again {
            let s = self.board.get(self.snd_nxt)?;
            (len, fin) = (s.len, s.fin);
        } else {
            len = len.max(u64::from(self.config.mss).min(self.written - self.snd_nxt.min(self.written)) as u32);
            if len == 0 {
                fin = self.close_wanted && self.profile.full_handshake && !self.fin_sent;
                if !fin {
                    return None;
                }
            }
        }
        let offset = self.snd_nxt - self.snd_una;
        if offset + u64::from(len) > window {
            return None;
        }
        let usable = self.rwnd.saturating_sub(offset);
        // What is sent again was inside the window once, even if a late ACK has an older one.
        if !again && u64::from(len) > usable {
            // Avoid silly windows (RFC 1122, section 4.2.3.4): a part of a segment only if it is half of the largest window.
            if usable == 0 || usable < self.max_rwnd / 2 {
                return None;
            }
            len = usable as u32;
        }
        Some(Next { len, fin, again })
    }

    /// Sends it. `cause` holds for a segment sent again.
    #[inline]
    pub(super) fn send_this(&mut self, now: Time, next: Next, cause: Cause, out: &mut impl Output) {
        self.emit(now, next.len, next.fin, if next.again { cause } else { Cause::New }, out);
    }

    /// Limited transmit (RFC 3042; ns-2 rule 13): one segment beyond cwnd for this duplicate ACK.
    pub(super) fn limited_transmit(&mut self, now: Time, out: &mut impl Output) {
        let rule = self.profile.limited_transmit_rule;
        if !self.profile.limited_transmit || (rule == LimitedTransmitRule::Rfc3042 && self.dupacks > 2) {
            return;
        }
        let window = self.window.cwnd + f64::from(self.dupacks) * f64::from(self.config.mss);
        let before = self.snd_max;
        self.send_next(now, window as u64, Cause::Recovery, out);
        self.limited += self.snd_max - before;
    }

    /// Sends the segment at snd_nxt and moves on.
    #[inline(always)]
    fn emit(&mut self, now: Time, len: u32, fin: bool, cause: Cause, out: &mut impl Output) {
        let seq = self.snd_nxt;
        self.snd_nxt = seq + u64::from(len) + u64::from(fin);
        if cause != Cause::New {
            self.transmit_again(now, seq, cause, out);
            return;
        }
        let nothing_outstanding = self.snd_una == self.snd_max;
        let sent = Sent { seq, first_sent: now, last_sent: now, len, transmissions: 1, fin, marks: Marks::NONE };
        self.board.push(sent);
        self.fin_sent |= fin;
        self.snd_max = self.snd_nxt;
        if self.timing.is_none() {
            self.timing = Some((self.snd_nxt, now));
        }
        let mut flags = if fin { Flags::FIN } else { Flags::NONE };
        if self.special {
            // A copy: what is taken by its address goes through memory, and the push above waits for it.
            flags = flags.with(self.extras(now, &{ sent }));
        }
        let segment = self.make(seq, len, flags, 1, now);
        self.last_sent = now;
        self.counters.segments += 1;
        out.send(segment, Cause::New);
        if self.deadline == Time::NEVER || nothing_outstanding || self.persist.is_some() {
            self.arm(now);
        }
    }

    /// What new data carry for ECN and for the window rule.
    #[inline(never)]
    fn extras(&mut self, now: Time, sent: &Sent) -> Flags {
        let mut flags = Flags::NONE;
        if self.profile.ecn {
            flags = flags.with(Flags::ECT);
            if std::mem::take(&mut self.cwr) {
                flags = flags.with(Flags::CWR);
            }
        }
        self.snapshot(now, sent);
        if self.config.needs.every_send {
            let in_network = self.in_network();
            self.rule.on_sent(&mut self.window, now, sent.len, in_network);
        }
        if self.config.needs.marks {
            flags = flags.with(self.rule.marks(sent.seq / u64::from(self.config.mss.max(1))));
        }
        self.charge_pacer(now, sent.len);
        flags
    }

    /// Sends the segment that begins at `seq` again.
    #[inline(never)]
    pub(super) fn transmit_again(&mut self, now: Time, seq: u64, cause: Cause, out: &mut impl Output) {
        let Some(sent) = self.board.find(seq) else { return };
        sent.last_sent = now;
        sent.transmissions = sent.transmissions.saturating_add(1);
        sent.marks = sent.marks.without(Marks::SAID);
        let sent = *sent;
        let (seq, len, fin, attempt) = (sent.seq, sent.len, sent.fin, sent.transmissions);
        if self.special {
            self.snapshot(now, &sent);
            self.charge_pacer(now, len);
        }
        let flags = if fin { Flags::FIN } else { Flags::NONE };
        let segment = self.make(seq, len, flags, attempt, now);
        self.last_sent = now;
        self.counters.segments += 1;
        self.counters.retransmissions += 1;
        out.send(segment, cause);
        if self.deadline == Time::NEVER {
            self.arm(now);
        }
    }

    /// (Re)starts the retransmission timer.
    #[inline]
    pub(super) fn arm(&mut self, now: Time) {
        self.persist = None;
        self.arm_at(now, self.rto.rto());
    }

    #[inline]
    fn arm_at(&mut self, now: Time, wait: Duration) {
        self.deadline = now + wait;
        self.armed = now;
    }

    /// After an ACK: the timer runs on if something is outstanding, and in ns-2 always (rule 12).
    #[inline]
    pub(super) fn rearm_after_ack(&mut self, now: Time) {
        if self.snd_una < self.snd_max || self.profile.idle_restart == IdleRestart::Timer {
            self.arm(now);
        } else {
            self.deadline = Time::NEVER;
        }
    }

    /// A closed receive window with nothing in flight, or with whatever is: probe it (RFC 1122, section 4.2.2.17).
    #[inline(never)]
    pub(super) fn watch_zero_window(&mut self, now: Time) {
        let wants = self.written > self.snd_max || self.snd_nxt < self.snd_max;
        let in_flight = self.snd_una < self.snd_max;
        let shut = self.rwnd == 0 && in_flight && self.profile.persist == PersistRule::Always && self.state == State::Established;
        let blocked = shut || (self.rwnd < u64::from(self.config.mss) && wants && !in_flight);
        match (blocked, self.persist) {
            (true, None) => {
                self.persist = Some(0);
                self.arm_at(now, self.rto.rto());
            }
            (false, Some(_)) => {
                self.persist = None;
                self.deadline = Time::NEVER;
                if in_flight {
                    // What waited behind the closed window gives no round-trip time.
                    self.timing = None;
                    self.rtt_from = now;
                    self.arm(now);
                }
            }
            _ => {}
        }
    }

    /// RFC 5681, section 4.1: after an RTO without sending, cwnd restarts.
    fn restart_if_idle(&mut self, now: Time) {
        let idle = self.profile.idle_restart == IdleRestart::Rto && self.snd_una == self.snd_max && self.snd_max > 0;
        if idle && now - self.last_sent > self.rto.rto() && !self.rule.steers_recovery() {
            self.window.cwnd = self.window.cwnd.min(self.profile.restart_window.bytes(self.config.mss) as f64);
        }
    }

    /// A new advertised window.
    #[inline]
    pub(super) fn set_rwnd(&mut self, bytes: u64) {
        self.rwnd = bytes;
        self.max_rwnd = self.max_rwnd.max(bytes);
    }

    #[inline]
    pub(super) fn take_rtt(&mut self, _now: Time, rtt: Duration, sent: Time, exact: bool) {
        self.last_rtt = Some(rtt);
        if sent < self.rtt_from {
            return;
        }
        if self.additions.is_none() || !self.reseed_rtt(rtt) {
            self.rto.sample(rtt, sent, exact);
        }
    }

    /// A number from the receiver's scheme. What it does to the window counts as a reduction where it makes it smaller.
    #[inline(never)]
    fn take_report(&mut self, now: Time, value: u32, out: &mut impl Output) {
        let before = self.window;
        let report = Report { now, value, srtt: self.rto.srtt(), flight: self.flight(), mss: self.config.mss };
        self.rule.on_report(&mut self.window, &report);
        self.counters.reductions += u64::from(self.window.cwnd < before.cwnd || self.window.ssthresh < before.ssthresh);
        if self.rule.reports_alone() {
            // The slides send one new segment for it, whatever the window (`output(t_seqno_++)`).
            self.send_next(now, self.rwnd, Cause::Recovery, out);
        } else if self.window != before {
            self.fill_window(now, u32::MAX, Cause::Recovery, out);
        }
    }

    /// A notice for this flow.
    pub fn on_notice(&mut self, now: Time, notice: &Notice, out: &mut impl Output) {
        let before = self.window;
        if matches!(notice.kind, NoticeKind::Eln | NoticeKind::Ersn) && self.elsn.is_some() {
            self.on_link_notice(now, notice, out);
        }
        self.rule.on_notice(&mut self.window, now, notice);
        if self.window != before {
            self.fill_window(now, u32::MAX, Cause::Recovery, out);
        }
    }

    /// It tells causes of losses apart: its window rule does, or it is told of those of the radio.
    pub fn classifies(&self) -> bool {
        self.rule.classifies() || self.listens()
    }

    /// It heeds notices of the link layer.
    pub fn listens(&self) -> bool {
        self.elsn.is_some()
    }

    /// Everything written has been acknowledged, the FIN too.
    #[inline]
    pub(super) fn check_done(&mut self) {
        let closing = self.close_wanted && self.snd_una >= self.written;
        if closing && (!self.profile.full_handshake || (self.fin_sent && self.snd_una == self.snd_max)) {
            self.state = State::Done;
            self.deadline = Time::NEVER;
        }
    }

    /// Freezes the sender and its timer (split schemes). A handshake goes on.
    pub fn hold(&mut self) {
        if !self.held && self.state == State::Established {
            self.held = true;
            self.deadline = Time::NEVER;
            self.aux_deadline = Time::NEVER;
        }
    }

    /// Thaws it. The first `lost` bytes in flight are sent again at once. The rest may still be on its way, and can be acknowledged
    /// a round trip from now at the earliest: the timer starts anew, without back-off. What was sent before gives no round-trip time.
    pub fn resume(&mut self, now: Time, lost: u64, out: &mut impl Output) {
        if !std::mem::take(&mut self.held) || self.state != State::Established {
            return;
        }
        self.timing = None;
        self.rtt_from = now;
        self.rto.end_back_off();
        let to = (self.snd_una + lost).min(self.snd_max);
        if lost > 0 {
            (self.dupacks, self.limited, self.inflation) = (0, 0, 0.0);
            self.last_action = LastAction::None;
            // What had arrived and was not acknowledged comes twice: duplicate ACKs of that mean nothing, as after a timeout.
            self.recover = Some(self.snd_max);
        }
        let mut at = self.snd_una;
        while at < to
            && let Some(sent) = self.board.get(at)
        {
            // What recovery has found lost and not sent again yet it will send itself.
            let waits = sent.marks.any(Marks::LOST) && !sent.marks.any(Marks::RESENT);
            if !waits && !sent.marks.any(Marks::SACKED) {
                self.transmit_again(now, sent.seq, Cause::Notified, out);
            }
            at = sent.end();
        }
        if self.snd_una < self.snd_max {
            self.arm(now);
        }
        self.fill_window(now, u32::MAX, Cause::Recovery, out);
    }

    /// A relay replaces cwnd (split schemes), in bytes.
    pub fn set_window(&mut self, now: Time, bytes: u64, out: &mut impl Output) {
        self.rule.on_steered(&mut self.window, bytes);
        self.fill_window(now, u32::MAX, Cause::Recovery, out);
    }

    /// Forgets the connection: nothing more is sent, and nothing that comes is heeded.
    pub fn abort(&mut self) {
        self.state = State::Closed;
        self.deadline = Time::NEVER;
        self.aux_deadline = Time::NEVER;
    }

    /// Bytes on the wire of a full segment.
    pub fn full_size(&self) -> u32 {
        let timestamps = if self.profile.timestamps { self.profile.timestamp_bytes } else { 0 };
        self.config.headers + self.config.mss + timestamps
    }

    /// The connection's number.
    pub fn flow(&self) -> FlowId {
        self.config.flow
    }

    /// The congestion state.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Counters.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// State of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Next byte expected by the receiver, as far as the sender knows.
    pub fn snd_una(&self) -> u64 {
        self.snd_una
    }

    /// Bytes the application has written; `u64::MAX` for an endless one.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The byte after the last one ever sent.
    pub fn snd_max(&self) -> u64 {
        self.snd_max
    }

    /// Last round-trip time sample, and takes it.
    #[inline]
    pub fn take_last_rtt(&mut self) -> Option<Duration> {
        self.last_rtt.take()
    }

    /// The timer's estimates.
    pub fn rto(&self) -> &RtoEstimator {
        &self.rto
    }

    /// Duplicate ACKs counted in a row.
    pub fn dupacks(&self) -> u32 {
        self.dupacks
    }

    /// What is known of the segment that holds this offset.
    #[inline]
    pub fn sent(&self, seq: u64) -> Option<Sent> {
        self.board.get(seq)
    }

    /// Segments in flight, for memory reports and tests.
    pub fn in_flight(&self) -> usize {
        self.board.len()
    }
}

/// The timestamp clock: microseconds, wrapping.
#[inline]
pub fn timestamp(now: Time) -> u32 {
    (now.0 / 1000) as u32
}

/// Bytes for a size of this flow.
pub fn bytes_of(size: Size, mss: u32) -> f64 {
    size.bytes(mss) as f64
}
