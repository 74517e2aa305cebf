//! What a sender is given and what it reports: its configuration, the interface to its host, its
//! counters and its connection state.

use crate::loss::LossClass;
use crate::recovery::config::Recovery;
use crate::window::Needs;
use lasthop_core::segment::{FlowId, NodeId, Options, Segment};
use lasthop_core::units::{Duration, Time};

/// Receives the segments that a sender transmits. The host of the sender implements it.
///
/// # Examples
///
/// ```
/// use lasthop_core::segment::{Options, Segment};
/// use lasthop_tcp::sender::{Output, SendReason};
///
/// /// Counts the payload bytes that the sender transmits.
/// struct Counted(u64);
///
/// impl Output for Counted {
///     fn send(&mut self, segment: Segment, _reason: SendReason) {
///         self.0 += u64::from(segment.len);
///     }
///     fn send_with(&mut self, segment: Segment, _options: &Options, reason: SendReason) {
///         self.send(segment, reason);
///     }
/// }
///
/// let mut out = Counted(0);
/// out.send(Segment { len: 1000, ..Segment::default() }, SendReason::New);
/// assert_eq!(out.0, 1000);
/// ```
pub trait Output {
    /// Sends a segment. The host fills in `id` and `payload`.
    fn send(&mut self, segment: Segment, reason: SendReason);

    /// The same for data that are sent for the first time.
    #[inline]
    fn send_new(&mut self, segment: Segment) {
        self.send(segment, SendReason::New);
    }

    /// Sends a segment with options.
    fn send_with(&mut self, segment: Segment, options: &Options, reason: SendReason);

    /// The window rule has classified the loss of the data segment at `seq`, which had been sent
    /// `times` times.
    fn classified(&mut self, _seq: u64, _times: u16, _class: LossClass) {}
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
    /// A tail loss probe that retransmits the last segment (RFC 8985, section 7).
    Probe,
    /// A retransmission in recovery, or in slow start after a timeout.
    Recovery,
    /// A retransmission because the link layer has given the segment up.
    Notified,
}

/// Configuration of a sender: its connection and the components that it runs with.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Number of the flow.
    pub flow: FlowId,
    /// Node of the receiver.
    pub to: NodeId,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Header bytes of every packet.
    pub headers: u32,
    /// The receiver's buffer in bytes, as its SYN advertises it.
    pub receive_window: u64,
    /// Loss recovery.
    pub recovery: Recovery,
    /// What the window rule needs.
    pub needs: Needs,
    /// Where the clock stands at time zero, for its ticks
    /// ([`clock_phase`](crate::ticks::clock_phase)).
    pub clock_phase: Duration,
    /// What the window rule draws at random derives from this number: the number of the flow, or a
    /// number that is drawn by seed, so that runs with other seeds have other draws.
    pub draw: u64,
}

/// What a connection keeps of the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub flow: FlowId,
    pub mss: u32,
    pub headers: u32,
    pub to: NodeId,
    pub needs: Needs,
    /// Loss recovery accepts hints of the link layer.
    pub accepts_eln: bool,
    pub clock_phase: Duration,
    pub draw: u64,
}

impl Settings {
    pub(super) fn of(config: &SenderConfig) -> Settings {
        let &SenderConfig { flow, to, mss, headers, needs, clock_phase, draw, .. } = config;
        let accepts_eln = config.recovery.accepts_eln();
        Settings { flow, mss, headers, to, needs, accepts_eln, clock_phase, draw }
    }
}

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Segments sent, SYN and retransmissions included, pure ACKs not.
    pub segments: u64,
    /// Retransmitted segments.
    pub retransmissions: u64,
    /// Retransmission timeouts with data outstanding.
    pub timeouts: u64,
    /// Fast retransmits.
    pub fast_retransmits: u64,
    /// Episodes in which cwnd or ssthresh was reduced.
    pub reductions: u64,
    /// Zero-window probes.
    pub probes: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
    /// Reductions that were found spurious and undone.
    pub undone: u64,
    /// Accepted notices that the link layer retransmits a segment (ERSN).
    pub ersn: u64,
    /// Accepted notices that the link layer has given a segment up (ELN).
    pub eln: u64,
    /// Ignored notices: for a segment that is not in flight, late, or repeated for one
    /// transmission.
    pub notices_ignored: u64,
    /// Timeouts postponed because the link layer was retransmitting the segment.
    pub timeouts_held: u64,
    /// ACKs that were discarded because of an old timestamp (PAWS).
    pub acks_discarded: u64,
}

impl SenderCounters {
    /// The counts since `earlier`.
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
            acks_discarded: self.acks_discarded - earlier.acks_discarded,
        }
    }
}

/// Why and when a sender ended the connection itself (Linux `tcp_write_timeout`, `ETIMEDOUT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveUp {
    /// The SYN was retransmitted as often as `syn_retries` and `syn_linear_timeouts` allow.
    NotConnected(Time),
    /// The SYN-ACK was retransmitted as often as `synack_retries` allows.
    NotConfirmed(Time),
    /// Data were retransmitted for `user_timeout` (or `orphan_timeout`) without an answer.
    NotAcknowledged(Time),
    /// `probe_retries` probes of a closed window were not answered.
    NotProbed(Time),
}

/// When the SYN-ACK of a passive open was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynAckTimes {
    /// The first one.
    pub first_sent: Time,
    /// The last one.
    pub last_sent: Time,
    /// How often it was sent again, in answer to a repeated SYN or by its timer (Linux
    /// `num_retrans`).
    pub retransmissions: u32,
    /// How often its timer expired (Linux `num_timeout`).
    pub timeouts: u32,
}

impl SynAckTimes {
    /// A SYN-ACK is sent, the first one unless it is `repeated`.
    pub fn note(&mut self, now: Time, repeated: bool) {
        if !repeated {
            self.first_sent = now;
        }
        self.retransmissions += u32::from(repeated);
        self.last_sent = now;
    }
}

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Before the SYN.
    Closed,
    /// SYN sent.
    SynSent,
    /// Data may be sent.
    Established,
    /// All data, and the FIN if there is one, are acknowledged.
    Done,
}
