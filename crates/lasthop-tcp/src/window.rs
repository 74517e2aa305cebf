//! The window component: what a congestion-control scheme decides.

pub use crate::loss::{LossClass, LossKind, Lost};

pub use lasthop_macros::window_rule;

use crate::profile::{
    CubicForm, HalvingBase, InitialSsthresh, NamedSsthresh, Profile, ProfileName,
};
use crate::rate::RateSample;
use lasthop_core::segment::{Flags, FlowId, Notice};
use lasthop_core::units::{Duration, Rate, Time};

/// The sender's congestion state, in bytes. A rule changes it; the sender only reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Congestion window, without the inflation of fast recovery.
    pub cwnd: f64,
    /// Slow start threshold.
    pub ssthresh: f64,
}

impl Window {
    /// In slow start (RFC 5681, section 3.1).
    #[inline]
    pub fn slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whole bytes in cwnd with an inflation.
    #[inline]
    pub fn bytes(&self, inflation: f64) -> u64 {
        // By way of a signed number: the conversion to an unsigned one takes the processor twice
        // the steps.
        ((self.cwnd + inflation) as i64).max(0) as u64
    }

    /// The state at the start of a connection.
    pub fn initial(profile: &Profile, mss: u32, receive_window: u64) -> Window {
        let ssthresh = match profile.initial_ssthresh {
            InitialSsthresh::Size(s) => s.bytes(mss) as f64,
            InitialSsthresh::Named(NamedSsthresh::ReceiveWindow) => receive_window as f64,
            InitialSsthresh::Named(NamedSsthresh::Unlimited) => f64::INFINITY,
        };
        Window { cwnd: profile.initial_window.bytes(mss) as f64, ssthresh }
    }
}

/// What an ACK says.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// The current time.
    pub now: Time,
    /// Bytes that the ACK number newly acknowledges; 0 for a duplicate ACK. For `on_ack` those for
    /// which the window may open: where the profile's `growth_base` says so, `delivered`.
    pub bytes: u64,
    /// Bytes newly known to be delivered, SACK included; without SACK a duplicate ACK counts one
    /// segment, and an ACK of new data what its duplicates have not counted already.
    pub delivered: u64,
    /// Round-trip time sample of this ACK, if it gives one. For a rule with `on_any_ack` each
    /// ACK of new data does that covers nothing sent twice; for others those that the
    /// retransmission timer uses.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time, once there is one.
    pub srtt: Option<Duration>,
    /// Bytes in flight after this ACK (the pipe of RFC 6675 where SACK is used).
    pub flight: u64,
    /// The same before this ACK (Linux: `rate_sample.prior_in_flight`).
    pub prior_flight: u64,
    /// First byte not yet acknowledged, after this ACK.
    pub snd_una: u64,
    /// The byte after the last one ever sent.
    pub snd_max: u64,
    /// Maximum segment size in bytes.
    pub mss: u32,
    /// In recovery when this ACK came.
    pub recovering: bool,
    /// The window opens by bytes acknowledged, not by ACKs (`Profile::byte_counting`).
    pub by_bytes: bool,
    /// cwnd is counted in whole segments (`Profile::whole_segments`).
    pub whole_segments: bool,
    /// It carries an ECN echo (RFC 3168).
    pub ece: bool,
    /// Segments that it newly reports as marked, with AccECN (RFC 9768).
    pub marked: u32,
    /// The timestamps option of the ACK, if there is one.
    pub stamps: Option<Stamps>,
    /// Delivery-rate sample, if the rule asked for samples and this ACK gives one.
    pub rate: Option<RateSample>,
}

/// The timestamps option of an ACK (RFC 7323), microseconds, wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// When the segment that the ACK answers was sent, by the sender's clock (TSecr).
    pub sent: u32,
    /// When the ACK was sent, by the receiver's clock (TSval).
    pub received: u32,
}

impl Stamps {
    /// Microseconds that passed since `earlier` at the sender and at the receiver. The offset of
    /// their clocks cancels out.
    #[inline]
    pub fn since(self, earlier: Stamps) -> (f64, f64) {
        let passed = |a: u32, b: u32| f64::from(a.wrapping_sub(b) as i32);
        (passed(self.sent, earlier.sent), passed(self.received, earlier.received))
    }
}

/// A reason to reduce.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// The current time.
    pub now: Time,
    /// How it was detected.
    pub kind: LossKind,
    /// First byte of the segment considered lost.
    pub seq: u64,
    /// The byte after the last one ever sent.
    pub snd_max: u64,
    /// Bytes in flight: FlightSize of RFC 5681, without what limited transmit sent.
    pub flight: u64,
    /// Bytes in flight that are neither SACKed nor deemed lost: SetPipe of RFC 6675. `flight` where
    /// the sender does not use SACK.
    pub pipe: u64,
    /// The window in use in bytes: cwnd plus inflation, not above the receive window; cwnd alone
    /// where `halving` says so.
    pub window: f64,
    /// Maximum segment size in bytes.
    pub mss: u32,
    /// Smoothed round-trip time, once there is one.
    pub srtt: Option<Duration>,
    /// The ACK that revealed it reports that the loss was on the radio link (`Flags::ELN`).
    pub eln: bool,
    /// That ACK carries an ECN echo.
    pub ece: bool,
    /// What the profile says a reduction halves.
    pub halving: HalvingBase,
    /// ssthresh is cut off to whole segments.
    pub integer_ssthresh: bool,
    /// cwnd is cut off to whole segments, too.
    pub integer_window: bool,
    /// cwnd and ssthresh are whole segments.
    pub whole_segments: bool,
    /// cwnd after a timeout, in bytes.
    pub loss_window: f64,
}

/// A connection that has just been established.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The current time.
    pub now: Time,
    /// Number of the flow.
    pub flow: FlowId,
    /// A rule derives from this number what it would draw at random, so that a run can be repeated
    /// ([`SenderConfig::draw`](crate::sender::SenderConfig::draw)).
    pub draw: u64,
    /// Maximum segment size in bytes.
    pub mss: u32,
    /// Round-trip time of the handshake, if it gave one.
    pub rtt: Option<Duration>,
    /// The connection uses SACK: several losses of one window are detected in one round trip.
    pub sack: bool,
    /// The receive window that the answer to the SYN advertises, in bytes.
    pub receive_window: u64,
    /// How CUBIC computes its window.
    pub cubic: CubicForm,
    /// ACKs count marked segments (AccECN, RFC 9768).
    pub accurate_ecn: bool,
    /// The stack of the endpoints, for rules that differ in Linux from their RFC or draft.
    pub profile: ProfileName,
}

/// A number that the receiver's scheme sent with an ACK (`Flags::REPORT`).
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// The current time.
    pub now: Time,
    /// The number, in the unit that the scheme defines.
    pub value: u32,
    /// Smoothed round-trip time, once there is one.
    pub srtt: Option<Duration>,
    /// Bytes in flight.
    pub flight: u64,
    /// Maximum segment size in bytes.
    pub mss: u32,
}

impl Loss {
    /// What is reduced, as the profile says.
    pub fn base(&self) -> f64 {
        match self.halving {
            HalvingBase::FlightSize => self.flight as f64,
            HalvingBase::Window | HalvingBase::Cwnd => self.window,
        }
    }

    /// `bytes` cut off to whole segments.
    fn cut_off(&self, bytes: f64) -> f64 {
        let mss = f64::from(self.mss);
        libm::floor(bytes / mss) * mss
    }

    /// ssthresh for a window of `bytes` left after the reduction: at least two segments, whole ones
    /// if the profile says so.
    pub fn ssthresh(&self, bytes: f64) -> f64 {
        let whole = self.integer_ssthresh || self.whole_segments;
        let bytes = if whole { self.cut_off(bytes) } else { bytes };
        bytes.max(2.0 * f64::from(self.mss))
    }
}

/// What a rule needs from the connection; it is enabled for its flows, whatever the profile says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Timestamps option.
    pub timestamps: bool,
    /// SACK.
    pub sack: bool,
    /// ECN: data are sent ECN-capable and echoes are handled.
    pub ecn: bool,
    /// L4S: data are sent as ECT(1), and ACKs count marks (`Ack::marked`).
    pub l4s: bool,
    /// Delivery-rate samples: `Ack::rate` is filled in. A rule with `on_lost` or
    /// `is_app_limited_by_rule` has them as well.
    pub rate_samples: bool,
    /// Notices of the simulator about the share that a flow could have.
    pub oracle: bool,
}

/// The methods of a rule that the sender calls only for rules that have them, since calling them
/// has a cost for each segment or ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// `on_any_ack`. With rate samples, too.
    pub every_ack: bool,
    /// `on_sent`.
    pub every_send: bool,
    /// `marks`.
    pub marks: bool,
    /// `pacing`, `burst`.
    pub pacing: bool,
    /// `deadline`, `on_timer`.
    pub timer: bool,
    /// `on_lost`, `is_app_limited_by_rule`: the connection has rate samples.
    pub rate_samples: bool,
}

impl Hooks {
    /// Those among the methods that a rule has.
    pub fn of(methods: &[&str]) -> Hooks {
        let has = |names: [&str; 2]| methods.iter().any(|method| names.contains(method));
        Hooks {
            every_ack: has(["on_any_ack"; 2]),
            every_send: has(["on_sent"; 2]),
            marks: has(["marks"; 2]),
            pacing: has(["pacing", "burst"]),
            timer: has(["deadline", "on_timer"]),
            rate_samples: has(["on_lost", "is_app_limited_by_rule"]),
        }
    }

    /// Those of both.
    pub fn with(self, other: Hooks) -> Hooks {
        Hooks {
            every_ack: self.every_ack || other.every_ack,
            every_send: self.every_send || other.every_send,
            marks: self.marks || other.marks,
            pacing: self.pacing || other.pacing,
            timer: self.timer || other.timer,
            rate_samples: self.rate_samples || other.rate_samples,
        }
    }
}

/// The window component of a sender. Only `on_ack` is required; the other defaults are Reno's. The
/// attribute `#[window_rule]` writes `methods`.
///
/// # Examples
///
/// A rule that reduces to 70 % instead of a half:
///
/// ```
/// use lasthop_tcp::window::{grow, reduce_to, window_rule, Ack, Loss, LossClass, Window};
/// use lasthop_tcp::window::WindowRule;
///
/// struct Gentle;
///
/// #[window_rule]
/// impl WindowRule for Gentle {
///     fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
///         grow(window, ack);
///     }
///     fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
///         reduce_to(window, loss, 0.7 * loss.base());
///         LossClass::Unclassified
///     }
/// }
///
/// let mut window = Window { cwnd: 8000.0, ssthresh: 4000.0 };
/// Gentle.on_undo(&mut window, &Window { cwnd: 10_000.0, ssthresh: 8000.0 }, Default::default());
/// assert_eq!(window.cwnd, 10_000.0);
/// assert_eq!(Gentle.methods(), ["on_ack", "on_loss"]);
/// ```
///
/// A method that is called for each ACK needs no further declaration:
///
/// ```
/// use lasthop_tcp::window::{Ack, Hooks, Window, WindowRule, grow, window_rule};
///
/// struct Counting(u64);
///
/// #[window_rule]
/// impl WindowRule for Counting {
///     fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
///         grow(window, ack);
///     }
///     fn on_any_ack(&mut self, _: &mut Window, _: &Ack) {
///         self.0 += 1;
///     }
/// }
///
/// let hooks = Hooks::of(Counting(0).methods());
/// assert_eq!(hooks, Hooks { every_ack: true, ..Hooks::default() });
/// ```
///
/// Without the attribute the rule does not compile:
///
/// ```compile_fail
/// use lasthop_tcp::window::{Ack, Window, WindowRule};
///
/// struct Counting(u64);
///
/// impl WindowRule for Counting {
///     fn on_ack(&mut self, _: &mut Window, _: &Ack) {}
///     fn on_any_ack(&mut self, _: &mut Window, _: &Ack) {
///         self.0 += 1;
///     }
/// }
/// ```
pub trait WindowRule: Send {
    /// The names of the methods that the rule has; `#[window_rule]` writes it. It decides which of
    /// the others are called ([`Hooks`]).
    fn methods(&self) -> &[&'static str];

    /// New data acknowledged outside of recovery, by a sender that its window limits (RFC 5681
    /// section 3.1).
    fn on_ack(&mut self, window: &mut Window, ack: &Ack);

    /// `on_ack` does what [`grow`] does and nothing else, so that the sender may call that instead.
    fn grows_as_reno(&self) -> bool {
        false
    }

    /// The connection is established; nothing but the SYN has been sent.
    fn on_established(&mut self, _window: &mut Window, _start: &Start) {}

    /// Every ACK of an established connection, duplicates and those in recovery too, before
    /// `on_ack`: for measurements. A rule that `steers_recovery` sets cwnd
    /// here.
    #[inline]
    fn on_any_ack(&mut self, _window: &mut Window, _ack: &Ack) {}

    /// A loss was detected. Sets ssthresh and cwnd, or leaves them if it classifies the loss as one
    /// of the radio; the sender controls the inflation of fast recovery. Called once for each
    /// episode, and for each timeout. Default: [`halve`].
    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        halve(window, loss);
        LossClass::Unclassified
    }

    /// A segment is newly considered lost.
    fn on_lost(&mut self, _window: &mut Window, _lost: &Lost) {}

    /// A duplicate ACK (number `count` in a row).
    #[inline]
    fn on_dupack(&mut self, _window: &mut Window, _now: Time, _count: u32) {}

    /// Recovery ended with an ACK for everything that had been outstanding.
    #[inline]
    fn on_recovered(&mut self, _window: &mut Window, _now: Time) {}

    /// The last reduction was spurious (timeout or fast retransmit): the window `before` it is
    /// restored.
    fn on_undo(&mut self, window: &mut Window, before: &Window, _now: Time) {
        window.cwnd = window.cwnd.max(before.cwnd);
        window.ssthresh = window.ssthresh.max(before.ssthresh);
    }

    /// New data leave the sender: `bytes` of payload, `flight` bytes in flight with them.
    #[inline]
    fn on_sent(&mut self, _window: &mut Window, _now: Time, _bytes: u32, _flight: u64) {}

    /// Flags that a data segment carries besides the usual ones; `index` counts the segments of the
    /// stream from 0.
    #[inline]
    fn marks(&mut self, _index: u64) -> Flags {
        Flags::NONE
    }

    /// It classifies losses: its flows have a confusion matrix.
    fn classifies(&self) -> bool {
        false
    }

    /// The receiver's scheme reports a number. The ACK that carries it has been processed, unless
    /// `reports_alone`.
    fn on_report(&mut self, _window: &mut Window, _report: &Report) {}

    /// An ACK with a report is a message to the rule and not an ACK.
    fn reports_alone(&self) -> bool {
        false
    }

    /// A relay sets cwnd to `bytes` (split schemes).
    fn on_steered(&mut self, window: &mut Window, bytes: u64) {
        window.cwnd = bytes as f64;
    }

    /// A notice for this flow.
    fn on_notice(&mut self, _window: &mut Window, _now: Time, _notice: &Notice) {}

    /// The rate at which payload may leave; `None`: as the window allows.
    #[inline]
    fn pacing(&self) -> Option<Rate> {
        None
    }

    /// Bytes that leave together at the pacing rate; `None`: the send quantum of
    /// draft-ietf-ccwg-bbr.
    #[inline]
    fn burst(&self) -> Option<u32> {
        None
    }

    /// Windows of cwnd that a growing send buffer has room for (Linux `sndbuf_expand`).
    fn send_buffer_windows(&self) -> u64 {
        2
    }

    /// When `on_timer` is to be called; `NEVER` if the rule waits for nothing.
    fn deadline(&self) -> Time {
        Time::NEVER
    }

    /// The time of `deadline` has come. Afterwards `deadline` must be later than
    /// `now`. While the receive window is closed or the sender is frozen, the call waits.
    fn on_timer(&mut self, _window: &mut Window, _now: Time) {}

    /// New data wait because cwnd has no room for the whole of the next frame (profile key
    /// `segmentation_offload`).
    fn on_cwnd_limited(&mut self) {}

    /// The rule sends below the rate of the path on purpose (BBR's ProbeRTT): the rate samples of
    /// what is sent from now on count as limited by the application. Called after `on_any_ack` if
    /// the rule has rate samples.
    #[inline]
    fn is_app_limited_by_rule(&self) -> bool {
        false
    }

    /// The rule sets cwnd in recovery too (BBR), in `on_any_ack`; the sender does not adjust it.
    #[inline]
    fn steers_recovery(&self) -> bool {
        false
    }
}

/// Slow start and congestion avoidance (RFC 5681, section 3.1): one segment per ACK below ssthresh,
/// one per round trip above. Where bytes are counted: what was acknowledged below ssthresh, and a
/// segment for each window acknowledged above.
#[inline]
pub fn grow(window: &mut Window, ack: &Ack) {
    let mss = f64::from(ack.mss);
    if ack.whole_segments {
        grow_by_count(window, ack);
    } else if ack.by_bytes {
        let acked = ack.bytes as f64;
        let below = acked.min((window.ssthresh - window.cwnd).max(0.0));
        window.cwnd += below;
        window.cwnd += mss * (acked - below) / window.cwnd;
    } else {
        window.cwnd += if window.cwnd < window.ssthresh {
            mss.min(ack.bytes as f64)
        } else {
            mss * mss / window.cwnd
        };
    }
}

/// The same in whole segments (Linux `tcp_slow_start`, `tcp_cong_avoid_ai`): what was acknowledged
/// above ssthresh is counted until it makes a window. That count, as a share of the window, is the
/// fraction of cwnd: it is sent by no one, and a reduction cuts it off.
fn grow_by_count(window: &mut Window, ack: &Ack) {
    let mss = f64::from(ack.mss);
    let (cwnd, acked) = (window.cwnd / mss, ack.bytes as f64 / mss);
    let below = acked.min((window.ssthresh / mss - cwnd).max(0.0));
    let (cwnd, above) = (cwnd + below, acked - below);
    let whole = libm::floor(cwnd).max(1.0);
    let count = (cwnd - whole) * whole + above;
    // A count of whole segments must not fall short of the window by a rounding error.
    let more = libm::floor(count / whole + 1e-9);
    let rest = (count - more * whole).max(0.0);
    window.cwnd = mss * if above > 0.0 { whole + more + rest / (whole + more) } else { cwnd };
}

/// Reno's reduction (RFC 5681, sections 3.1 and 3.2): ssthresh is half of what the profile halves
/// and at least two segments, cwnd the same but not above what it was; one segment after a timeout.
/// The flight can be more than twice cwnd, and cwnd less than two segments, where a timeout has
/// closed the window before.
pub fn halve(window: &mut Window, loss: &Loss) {
    lower_to(window, loss, loss.base() / 2.0);
}

/// A reduction to `bytes`: ssthresh at that, cwnd too; one segment after a timeout.
pub fn reduce_to(window: &mut Window, loss: &Loss, bytes: f64) {
    window.ssthresh = loss.ssthresh(bytes);
    let bytes = if loss.integer_window { loss.cut_off(bytes) } else { bytes };
    window.cwnd = match loss.kind {
        LossKind::Timeout => loss.loss_window,
        LossKind::DuplicateAcks if loss.integer_ssthresh => bytes,
        // RFC 3168, section 6.1.2: marks alone do not bring the window below one segment.
        LossKind::Ecn if loss.integer_ssthresh => bytes.max(f64::from(loss.mss)),
        LossKind::DuplicateAcks | LossKind::Ecn => window.ssthresh,
    };
}

/// A reduction to an estimate of what the path holds, in bytes: ssthresh is set to that, cwnd only
/// if it is above; one segment after a timeout.
pub fn limit_to(window: &mut Window, loss: &Loss, bytes: f64) {
    lower_to(window, loss, bytes.max(2.0 * f64::from(loss.mss)));
}

/// `reduce_to`, where cwnd stays as it is if it is below that already.
fn lower_to(window: &mut Window, loss: &Loss, bytes: f64) {
    let before = window.cwnd;
    reduce_to(window, loss, bytes);
    if loss.kind != LossKind::Timeout {
        window.cwnd = window.cwnd.min(before);
    }
}

/// NewReno's response for a rule that classifies losses: a loss of the radio leaves the window as
/// it is, any other loss halves it. Only losses detected by duplicate ACKs are classified; a
/// timeout is answered as usual.
pub fn halve_unless(wireless: bool, window: &mut Window, loss: &Loss) -> LossClass {
    if loss.kind == LossKind::DuplicateAcks && wireless {
        return LossClass::Wireless;
    }
    limit_to(window, loss, loss.base() / 2.0);
    if loss.kind == LossKind::DuplicateAcks {
        LossClass::Congestion
    } else {
        LossClass::Unclassified
    }
}
