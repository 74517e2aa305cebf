//! The data sender: its state, and what reaches it. How it recovers from losses is in
//! `recovery.rs`.

mod handshake;
mod limits;
mod steering;
mod timers;
mod transmit;

use crate::pacing::Pacer;
use crate::profile::{PersistRule, Profile};
use crate::rate::RateSampler;
use crate::recovery::sack_state::{Phase, SackState};
use crate::recovery::{Additions, Elsn, Recovery, RecoveryKind, SackNs2};
use crate::rto::RtoEstimator;
use crate::scoreboard::{Scoreboard, Sent};
use crate::window::{LossClass, Needs, Window, WindowRule};
use lasthop_core::segment::{Flags, FlowId, NodeId, Options, Segment};
use lasthop_core::units::{Duration, Rate, Size, Time};

pub(crate) use limits::CwndUsage;
pub use limits::Limit;

/// Where a sender's segments go.
pub trait Output {
    /// Sends a segment. `id` and `payload` are the host's to fill in.
    fn send(&mut self, segment: Segment, reason: SendReason);

    /// Sends a segment with options.
    fn send_with(&mut self, segment: Segment, options: &Options, reason: SendReason);

    /// The window rule has said what it holds the loss of the data segment at `seq` for, which had
    /// been sent `times` times.
    fn classified(&mut self, _seq: u64, _times: u16, _said: LossClass) {}
}

/// Why a segment is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendReason {
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
    /// How far it was used lately.
    usage: CwndUsage,
    /// What fast recovery adds to cwnd (ns-2's `dupwnd_`), bytes.
    pub(super) inflation: f64,
    pub(super) rule: W,
    pub(super) dupacks: u32,
    /// Bytes that limited transmit has sent since the last new ACK.
    pub(super) limited: u64,
    /// snd_max at the last reduction. Nothing is fast-retransmitted before an ACK passes it, if the
    /// guard is on.
    pub(super) recover: Option<u64>,
    pub(super) last_action: LastAction,
    /// The rule told the cause at the last fast retransmit and kept its window, at so many bytes.
    pub(super) cwnd_preserved: bool,
    pub(super) target: f64,
    /// State of ns-2's SACK recovery.
    pub(super) sack_ns2: Option<Box<SackNs2>>,
    /// Bytes that duplicate ACKs have stood for, for rules that count deliveries.
    pub(super) dup_delivered: u64,
    /// No reduction by ECN before this byte is acknowledged; the next new segment says that one was
    /// made.
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
    /// The earliest of the deadlines that are not the retransmission timer's, and when that was
    /// decided.
    aux_deadline: Time,
    aux_armed: Time,
    /// The deadline is a zero-window probe's, with so many sent already.
    pub(super) persist: Option<u32>,
    pub(super) held: bool,
    /// When a frozen sender wakes by itself; `NEVER` if it is not frozen.
    pub(super) frozen_until: Time,
    /// When the last notice that it heeded about its route was made.
    pub(super) route_told: Time,
    pub(super) reset: bool,
    /// What was sent before gives no round-trip time.
    rtt_from: Time,
    /// New data need a look at `extras`.
    special: bool,
    /// Several segments may leave as one frame.
    pub(super) offload: bool,
    /// Sending does not go by the window alone.
    by_pipe_or_paced: bool,
    pub(super) last_sent: Time,
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
        let kind = config.recovery.kind;
        let on_sack = kind == RecoveryKind::PacketList
            || (config.recovery.uses_sack() && kind != RecoveryKind::SackNs2);
        let offload = on_sack && profile.segmentation_offload;
        let mut sack = on_sack.then(|| Box::new(SackState::new(kind, needs.rate_samples)));
        if let Some(sack) = &mut sack {
            sack.rack.rtt_of = profile.rack_rtt;
        }
        let sack_ns2 = (kind == RecoveryKind::SackNs2).then(Box::default);
        let additions = Additions::of(&config.recovery);
        let elsn = config.recovery.elsn.map(|rules| Box::new(Elsn::new(rules)));
        Sender {
            rto: RtoEstimator::new(profile, config.clock_phase),
            rwnd: config.receive_window,
            max_rwnd: config.receive_window,
            recover: profile.guard_first_segment.then_some(0),
            profile: profile.clone(),
            special: profile.ecn
                || needs.every_send
                || needs.marks
                || needs.rate_samples
                || needs.pacing
                || offload,
            offload,
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
            usage: CwndUsage::default(),
            inflation: 0.0,
            rule,
            dupacks: 0,
            limited: 0,
            last_action: LastAction::None,
            cwnd_preserved: false,
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
            frozen_until: Time::NEVER,
            route_told: Time::ZERO,
            reset: false,
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
        if self.state == State::Closed && !self.reset {
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
            self.fill_window(now, u32::MAX, SendReason::Recovery, out);
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
            self.fill_window(now, u32::MAX, SendReason::Recovery, out);
        }
    }

    /// A segment from the receiver.
    #[inline]
    pub fn on_segment(
        &mut self,
        now: Time,
        segment: &Segment,
        options: &Options,
        out: &mut impl Output,
    ) {
        if !segment.flags.has(Flags::ACK) || self.state == State::Closed {
            return self.on_stray(now, segment, out);
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
            let lost = if segment.flags.has(Flags::NAMED) {
                Some(options.named)
            } else {
                self.first_unnamed(segment.ack)
            };
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

    /// Bytes in flight by sequence number.
    #[inline]
    pub fn flight(&self) -> u64 {
        self.snd_max - self.snd_una
    }

    /// Bytes held to be in the network: by SACK if that is used (RFC 6675, SetPipe), otherwise all
    /// in flight.
    pub fn pipe(&self) -> u64 {
        self.sack.as_ref().map_or(self.flight(), |s| s.pipe(self.flight()))
    }

    /// Its recovery keeps count of the pipe.
    pub fn uses_sack(&self) -> bool {
        self.sack.is_some()
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

    /// It tells causes of losses apart: its window rule does, or it is told of those of the radio.
    pub fn classifies(&self) -> bool {
        self.rule.classifies() || self.accepts_eln()
    }

    /// It heeds notices of the link layer.
    pub fn accepts_eln(&self) -> bool {
        self.elsn.is_some()
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

    /// The round-trip time sample of the last ACK, if [`Self::take_last_rtt`] has not taken it.
    pub fn last_rtt(&self) -> Option<Duration> {
        self.last_rtt
    }

    /// The rate at which segments are paced; `None` if the sender does not pace.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.pacer.as_ref().and_then(|_| self.rule.pacing())
    }

    /// The receive window as last advertised, bytes.
    pub fn receive_window(&self) -> u64 {
        self.rwnd
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

    /// Where recovery on SACK blocks stands; `Open` for other recoveries.
    pub fn phase(&self) -> Phase {
        self.sack.as_ref().map_or(Phase::Open, |s| s.phase)
    }

    /// The window comes down for an ECN echo (Linux `TCP_CA_CWR`).
    pub fn in_cwr(&self) -> bool {
        self.sack.as_ref().is_some_and(|s| s.cwr_until.is_some())
    }

    /// The largest reordering that RACK has seen, in bytes (Linux `tcp_check_sack_reordering`).
    pub fn reordering(&self) -> u64 {
        self.sack.as_ref().map_or(0, |s| s.rack.reordering())
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
