//! The data sender: a connection over a stream (`stream`) and a loss recovery
//! (`crate::recovery`), each with private state. This file contains the entry points and the
//! queries of a sender.

mod buffer;
pub mod config;
mod congestion;
mod handshake;
mod limits;
mod listener;
mod notices;
mod opening;
mod plain;
pub(crate) mod stream;
mod timers;

pub use crate::timestamps::timestamp;
pub use config::{GaveUp, Output, SendReason, SenderConfig, SenderCounters, State, SynAckTimes};
pub use limits::Limit;
pub use stream::plain::{AfterPlainAck, Rest};

use crate::notice_rule::NoticeRule;
use crate::profile::{PersistRule, Profile};
use crate::recovery::engine::Engine;
use crate::recovery::sack::Phase;
use crate::rto::RtoEstimator;
use crate::scoreboard::Sent;
use crate::window::{Hooks, Window, WindowRule};
use lasthop_core::segment::{Flags, FlowId, Options, Segment};
use lasthop_core::units::{Duration, Rate, Time};
use listener::Listener;
use std::sync::Arc;
use stream::Stream;

/// A TCP data sender. `W` is the window rule.
///
/// # Examples
///
/// ```
/// use lasthop_core::segment::{Flags, Options, Segment};
/// use lasthop_tcp::profile::{Profile, ProfileName};
/// use lasthop_tcp::sender::{Output, SendReason, Sender, SenderConfig};
/// use lasthop_tcp::window::{self, Ack, Needs, Window, WindowRule, window_rule};
/// use lasthop_core::units::{Duration, Time};
///
/// /// Slow start and congestion avoidance of RFC 5681.
/// struct Reno;
///
/// #[window_rule]
/// impl WindowRule for Reno {
///     fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
///         window::grow(window, ack);
///     }
/// }
///
/// /// The host: it collects what the sender transmits.
/// #[derive(Default)]
/// struct Host(Vec<Segment>);
/// impl Output for Host {
///     fn send(&mut self, segment: Segment, _reason: SendReason) {
///         self.0.push(segment);
///     }
///     fn send_with(&mut self, segment: Segment, _options: &Options, reason: SendReason) {
///         self.send(segment, reason);
///     }
/// }
///
/// let config = SenderConfig {
///     flow: 0,
///     to: 1,
///     mss: 1000,
///     headers: 40,
///     receive_window: 64_000,
///     recovery: "newreno".parse()?,
///     needs: Needs::default(),
///     clock_phase: Duration::ZERO,
///     draw: 0,
/// };
/// let mut sender = Sender::new(config, &Profile::named(ProfileName::Rfc), Reno);
/// let mut host = Host::default();
/// sender.open(Time::ZERO, &mut host);
/// let syn_ack = Segment {
///     flags: Flags::SYN.with(Flags::ACK),
///     window: 64_000,
///     ..Segment::default()
/// };
/// let now = Time::ZERO + Duration::millis(50);
/// sender.on_segment(now, &syn_ack, &Options::NONE, &mut host);
/// sender.write(now, 1000, &mut host);
/// assert_eq!((sender.flight(), host.0.last().unwrap().len), (1000, 1000));
/// # Ok::<(), String>(())
/// ```
pub struct Sender<W> {
    stream: Stream<W>,
    recovery: Engine,
    /// The response to notices that report no loss, if the profile has one.
    notice_rule: Option<Box<dyn NoticeRule>>,
    reset: bool,
    syn_losses: u32,
    /// When the SYN was sent first and last.
    first_syn_at: Time,
    syn_sent_at: Time,
    gave_up: Option<GaveUp>,
    /// Set if the receiver opens the connection, until it has.
    listener: Option<Box<Listener>>,
    /// The last ACK that answered an invalid segment.
    last_invalid: Option<Time>,
    /// The next ACK may take the fast path (`plain`): of recovery by duplicate ACKs, of that on
    /// SACK blocks.
    plain: bool,
    plain_with_sack: bool,
    /// Whether `plain` holds is decided when an ACK asks for it.
    undecided: bool,
}

impl<W: WindowRule> Sender<W> {
    /// A closed sender.
    pub fn new(mut config: SenderConfig, profile: impl Into<Arc<Profile>>, rule: W) -> Self {
        let profile = profile.into();
        let mut hooks = Hooks::of(rule.methods());
        config.needs.rate_samples |= hooks.rate_samples;
        hooks.every_ack |= config.needs.rate_samples;
        let recovery = Engine::new(&config.recovery, &profile, &config.needs);
        let offload = recovery.sack().is_some() && profile.segmentation_offload;
        Sender {
            recovery,
            notice_rule: profile.notices.map(|setting| setting.make()),
            stream: Stream::new(&config, hooks, profile, rule, offload),
            reset: false,
            syn_losses: 0,
            first_syn_at: Time::ZERO,
            syn_sent_at: Time::ZERO,
            gave_up: None,
            listener: None,
            last_invalid: None,
            plain: false,
            plain_with_sack: false,
            undecided: false,
        }
    }

    /// Replaces the window rule, before the connection is opened.
    pub fn replace_rule(&mut self, rule: W) {
        self.leave_plain();
        self.stream.replace_rule(rule);
    }

    /// The application writes `bytes` more; `u64::MAX` for "without end".
    pub fn write(&mut self, now: Time, bytes: u64, out: &mut impl Output) {
        self.leave_plain();
        if self.stream.has_sent_fin() {
            return;
        }
        self.stream.catch_up(now);
        self.stream.check_app_limited();
        let blocked = self.stream.is_program_blocked();
        self.stream.write(bytes);
        if self.stream.state() == State::Established && !blocked {
            self.stream.restart_if_idle(now);
            self.fill(now, out);
            self.stream.begin_to_write(now);
            self.write_blocks(now, out);
        }
    }

    /// The program writes what it has had the time for, or until the send buffer is full.
    fn write_blocks(&mut self, now: Time, out: &mut impl Output) {
        loop {
            let backlog = self.stream.take_backlog_before_block(now);
            self.process_backlog(now, &backlog, out);
            if self.stream.write_block(now) {
                self.fill(now, out);
                continue;
            }
            let backlog = self.stream.take_backlog_after_write();
            if backlog.is_empty() {
                break;
            }
            self.process_backlog(now, &backlog, out);
            self.stream.resume_write(now);
        }
        self.await_block(now);
    }

    /// Segments that arrived during a write of the program.
    fn process_backlog(
        &mut self,
        now: Time,
        backlog: &[(Segment, Options)],
        out: &mut impl Output,
    ) {
        for (segment, options) in backlog {
            self.process_segment(now, segment, options, out);
        }
    }

    /// After an input other than an ACK: the sender may wait for what the program writes.
    #[inline(always)]
    fn await_block(&mut self, now: Time) {
        if self.stream.is_program_writing() {
            self.stream.await_block(now);
        }
    }

    /// The application stops writing: data that were not sent yet are discarded.
    pub fn stop(&mut self) {
        self.leave_plain();
        self.stream.stop();
    }

    /// Sends what the windows allow.
    fn fill(&mut self, now: Time, out: &mut impl Output) {
        self.recovery.fill(&mut self.stream, now, SendReason::Recovery, out);
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
        if self.takes_plain_ack(now, segment, out) {
            return;
        }
        self.leave_plain();
        if self.stream.is_program_writing() && self.stream.defer(now, segment, options) {
            return;
        }
        let bare =
            matches!(self.recovery, Engine::Dupack(_)) && self.on_bare_ack(now, segment, out);
        if !bare {
            self.process_segment(now, segment, options, out);
        }
        self.update_plain();
    }

    #[inline(always)]
    fn process_segment(
        &mut self,
        now: Time,
        segment: &Segment,
        options: &Options,
        out: &mut impl Output,
    ) {
        let (stream, recovery) = (&mut self.stream, &mut self.recovery);
        if !segment.flags.has(Flags::ACK) || stream.state() == State::Closed {
            return self.on_stray(now, segment, out);
        }
        if segment.flags.has(Flags::TIMESTAMPS) && !stream.take_timestamp(now, segment) {
            return self.on_old_timestamp(now, out);
        }
        if stream.state() == State::SynSent {
            if segment.flags.has(Flags::SYN) && segment.ack == 0 {
                self.establish(now, segment, out);
            }
            return;
        }
        if segment.flags.has(Flags::SYN) || segment.ack > stream.snd_max() {
            return;
        }
        let counted = if stream.is_special() { stream.read_marks(segment) } else { None };
        let segment = counted.as_ref().unwrap_or(segment);
        stream.timers_mut().probes_answered();
        let closes = segment.window == 0 && stream.profile().persist == PersistRule::Always;
        if closes && stream.on_closed_window(now, segment) {
            return;
        }
        if segment.flags.any(Flags::SNACK.with(Flags::ELN)) {
            recovery.on_loss_report(stream, now, segment, options, out);
        }
        if stream.is_special() {
            stream.check_app_limited();
            if stream.is_echo(segment) {
                recovery.on_ecn_echo(stream, now, segment.ack, out);
            }
        }
        let reports = segment.flags.has(Flags::REPORT);
        if reports && stream.congestion().reports_alone() {
            return self.on_report(now, options.report, out);
        }
        let before = stream.snd_max();
        recovery.on_ack(stream, now, segment, options, out);
        if reports {
            self.on_report(now, options.report, out);
        }
        let stream = &mut self.stream;
        if closes && stream.flight() > 0 {
            stream.watch_zero_window(now);
        }
        if segment.flags.has(Flags::FIN) && stream.state() == State::Done {
            stream.send_control(stream.snd_max(), Flags::ACK, now, out);
        }
        self.write_if_room(now, before, out);
    }

    /// After an ACK: a program that waits for room writes if there is some. `before`: the end of
    /// the data sent before the ACK.
    #[inline(always)]
    fn write_if_room(&mut self, now: Time, before: u64, out: &mut impl Output) {
        if self.stream.may_have_room() {
            self.write_in_room(now, before, out);
        }
    }

    #[inline(never)]
    fn write_in_room(&mut self, now: Time, before: u64, out: &mut impl Output) {
        if self.stream.is_program_writing() {
            return self.stream.await_block(now);
        }
        let pipe = self.pipe();
        let sent = self.stream.snd_max() - before;
        if self.stream.has_room(pipe, sent) {
            self.stream.wake_program(now);
            self.write_blocks(now, out);
            // While the program writes, ACKs take the slow path; and it may have closed the
            // connection with what it wrote.
            let stream = &self.stream;
            self.plain_with_sack &= !stream.is_closing() && !stream.is_program_writing();
        }
    }

    /// An ACK with an old timestamp is discarded and answered with an ACK, unless one was sent less
    /// than `invalid_ratelimit` ago (Linux `tcp_oow_rate_limited`, `tcp_send_dupack`).
    #[cold]
    fn on_old_timestamp(&mut self, now: Time, out: &mut impl Output) {
        self.stream.counters_mut().acks_discarded += 1;
        self.challenge(now, out);
    }

    /// Sends an ACK, unless one was sent less than `invalid_ratelimit` ago.
    fn challenge(&mut self, now: Time, out: &mut impl Output) {
        let stream = &mut self.stream;
        let limit = stream.profile().invalid_ratelimit;
        if self.last_invalid.is_none_or(|last| now.since(last) >= limit) {
            self.last_invalid = Some(now);
            stream.send_control(stream.snd_nxt(), Flags::ACK, now, out);
        }
    }

    /// The deadline has come.
    pub fn on_timer(&mut self, now: Time, out: &mut impl Output) {
        self.leave_plain();
        if self.stream.needs_block(now) {
            self.write_blocks(now, out);
        }
        self.stream.catch_up(now);
        self.run_timers(now, out);
        self.await_block(now);
    }

    fn run_timers(&mut self, now: Time, out: &mut impl Output) {
        if self.stream.is_held() {
            return self.on_timer_while_held(now, out);
        }
        let aux = self.stream.timers_mut().take_aux(now);
        let (stream, recovery) = (&mut self.stream, &mut self.recovery);
        if aux {
            stream.check_app_limited();
            if now >= stream.congestion().rule_deadline() {
                stream.congestion_mut().on_timer(now);
                recovery.fill(stream, now, SendReason::Recovery, out);
            }
            // Behind a closed window no loss is looked for or probed for; the ACK that opens it
            // sets these timers again.
            if !stream.is_shut_out() {
                recovery.on_aux_timer(stream, now, out);
            }
        }
        if now >= stream.timers().rto_deadline() {
            self.on_timeout(now, out);
        }
    }

    /// The retransmission timer expired, or that of a probe, a SYN or a SYN-ACK.
    #[cold]
    #[inline(never)]
    fn on_timeout(&mut self, now: Time, out: &mut impl Output) {
        let (stream, recovery) = (&mut self.stream, &mut self.recovery);
        stream.timers_mut().stop();
        stream.check_app_limited();
        if let Some(probes) = stream.timers().persist() {
            let limit = stream.profile().probe_retries;
            if limit > 0 && stream.timers().unanswered_probes() >= limit {
                return self.give_up(GaveUp::NotProbed(now));
            }
            stream.on_persist_timer(now, probes, out);
        } else if stream.state() == State::SynSent {
            self.on_syn_timeout(now, out);
        } else if self.listener.is_some() {
            self.on_syn_ack_timeout(now, out);
        } else if stream.state() == State::Established {
            if stream.is_overdue(now) {
                return self.give_up(GaveUp::NotAcknowledged(now));
            }
            recovery.on_timeout(stream, now, out);
        }
    }

    /// When `on_timer` is to be called, and when that was decided.
    #[inline]
    pub fn deadline(&self) -> (Time, Time) {
        self.stream.timers().deadline()
    }

    /// The same after an ACK on the fast path, when no timer but that of retransmissions runs.
    #[inline(always)]
    pub fn plain_deadline(&self) -> (Time, Time) {
        self.stream.timers().rto_timer()
    }

    /// What limits the sender after it has sent what it may. Where congestion window and receive
    /// window are both exhausted it is the congestion window, as in Linux (`tcp_write_xmit`),
    /// unless the receive window is closed.
    #[inline]
    pub fn limited_by(&self) -> Limit {
        let stream = &self.stream;
        match stream.state() {
            State::Established => {}
            State::SynSent => return Limit::Handshake,
            State::Closed if self.awaits_opening() => return Limit::Handshake,
            State::Closed | State::Done => return Limit::Application,
        }
        if stream.is_held() {
            return Limit::Outage;
        }
        if stream.written() <= stream.snd_max() {
            let waits = stream.is_program_blocked();
            return if waits { Limit::SendBuffer } else { Limit::Application };
        }
        if stream.congestion().pacing_deadline() != Time::NEVER {
            return Limit::Pacing;
        }
        let next = u64::from(stream.mss()).min(stream.written() - stream.snd_max());
        let (flight, rwnd) = (stream.flight(), stream.rwnd());
        if flight + next <= rwnd {
            return Limit::Cwnd;
        }
        let window = stream.window().cwnd + stream.congestion().inflation();
        if (self.recovery.pipe(flight) + next) as i64 as f64 > window && rwnd > 0 {
            Limit::Cwnd
        } else {
            Limit::ReceiveWindow
        }
    }

    /// Bytes in flight by sequence number.
    #[inline]
    pub fn flight(&self) -> u64 {
        self.stream.flight()
    }

    /// Bytes in the network: by SACK if that is used (RFC 6675, SetPipe), otherwise all in flight.
    pub fn pipe(&self) -> u64 {
        self.recovery.pipe(self.stream.flight())
    }

    /// Its recovery counts the pipe.
    pub fn uses_sack(&self) -> bool {
        self.recovery.sack().is_some()
    }

    /// Its window rule may pace.
    pub fn is_paced(&self) -> bool {
        self.stream.congestion().is_paced()
    }

    /// Several segments may leave as one frame.
    pub fn offloads(&self) -> bool {
        self.stream.offloads()
    }

    /// It classifies losses: its window rule does, or it accepts hints of the link layer.
    pub fn classifies(&self) -> bool {
        self.stream.congestion().classifies() || self.accepts_eln()
    }

    /// It accepts hints of the link layer.
    pub fn accepts_eln(&self) -> bool {
        self.stream.config().accepts_eln
    }

    /// Bytes on the wire of a full segment.
    pub fn full_size(&self) -> u32 {
        let profile = self.stream.profile();
        let timestamps = if profile.timestamps { profile.timestamp_bytes } else { 0 };
        self.stream.config().headers + self.stream.mss() + timestamps
    }

    /// Its segments have the timestamps option.
    pub fn has_timestamps(&self) -> bool {
        self.stream.profile().timestamps
    }

    /// Number of the flow.
    pub fn flow(&self) -> FlowId {
        self.stream.config().flow
    }

    /// The congestion state.
    pub fn window(&self) -> Window {
        self.stream.window()
    }

    /// Counters.
    pub fn counters(&self) -> SenderCounters {
        self.stream.counters()
    }

    /// State of the connection.
    pub fn state(&self) -> State {
        self.stream.state()
    }

    /// First byte that is not acknowledged.
    pub fn snd_una(&self) -> u64 {
        self.stream.snd_una()
    }

    /// Bytes the application has written; `u64::MAX` for an endless stream.
    pub fn written(&self) -> u64 {
        self.stream.written()
    }

    /// The byte after the last one ever sent.
    pub fn snd_max(&self) -> u64 {
        self.stream.snd_max()
    }

    /// The round-trip time sample of the last ACK, if [`Self::take_last_rtt`] has not taken it.
    pub fn last_rtt(&self) -> Option<Duration> {
        self.stream.timers().last_rtt()
    }

    /// The rate at which segments are paced; `None` if the sender does not pace.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.stream.congestion().pacing_rate()
    }

    /// The receive window as last advertised, bytes.
    pub fn receive_window(&self) -> u64 {
        self.stream.rwnd()
    }

    /// Last round-trip time sample, once.
    #[inline]
    pub fn take_last_rtt(&mut self) -> Option<Duration> {
        self.stream.timers_mut().take_last_rtt()
    }

    /// The estimates of the round-trip time.
    pub fn rto(&self) -> &RtoEstimator {
        self.stream.timers().rto()
    }

    /// Duplicate ACKs counted in a row.
    pub fn dupacks(&self) -> u32 {
        self.recovery.dupacks()
    }

    /// The state of the segment that holds this offset, if it is in flight.
    #[inline]
    pub fn sent(&self, seq: u64) -> Option<Sent> {
        self.stream.sent(seq)
    }

    /// The phase of recovery on SACK blocks; `Open` for other recoveries.
    pub fn phase(&self) -> Phase {
        self.recovery.sack().map_or(Phase::Open, |s| s.phase())
    }

    /// The window is reduced for an ECN echo (Linux `TCP_CA_CWR`).
    pub fn in_cwr(&self) -> bool {
        self.recovery.sack().is_some_and(|s| s.in_cwr())
    }

    /// The largest reordering that RACK has seen, in bytes (Linux `tcp_check_sack_reordering`).
    pub fn reordering(&self) -> u64 {
        self.recovery.sack().map_or(0, |s| s.reordering())
    }

    /// Takes the memory of a sender that is no longer used. This one has sent nothing.
    pub fn reuse_memory(&mut self, old: &mut Self) {
        self.stream.reuse_memory(&mut old.stream);
    }

    /// Segments in flight, for memory reports and tests.
    pub fn in_flight(&self) -> usize {
        self.stream.segments_in_flight()
    }
}
