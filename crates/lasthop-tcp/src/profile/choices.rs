//! The values that settings of a profile can take.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::recovery::config::Recovery;
use lasthop_core::units::{Duration, Size};

/// How the retransmission timer measures time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClockKind {
    /// RFC 6298 with the granularity G of `clock_granularity`.
    Rfc,
    /// ns-2: all estimates are integers in ticks of `clock_granularity`, with 3 and 2 fraction
    /// bits; without timestamps a sample is floor((rtt + phase) / tick), the phase drawn per flow.
    Ns2Ticks,
}

/// How far limited transmit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitedTransmitRule {
    /// RFC 3042: on the first two duplicate ACKs, one new segment each.
    Rfc3042,
    /// ns-2: one new segment for every duplicate ACK below the threshold, however large that is.
    BelowThreshold,
}

/// How CUBIC computes its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CubicForm {
    /// RFC 9438, with HyStart++ (RFC 9406).
    Rfc9438,
    /// Linux `tcp_cubic.c`: whole segments, a clock of 4 ms, the Reno-friendly estimate always by
    /// RFC 9438's first alpha, and HyStart (ACK trains and delays).
    Linux,
}

/// Of which delivered segment RACK takes its round-trip time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RackRtt {
    /// Of the one sent last of all delivered so far.
    #[default]
    Newest,
    /// Of the one that the last ACK delivered last, in the order of the ACK number, although later
    /// ones are delivered (Linux `tcp_rack_advance`).
    Latest,
}

/// Which segment gives a sender that recovers by SACK its round-trip time. None does that was
/// retransmitted; if there is no other, a timestamp does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RttSample {
    /// The one sent last of those that the ACK newly covers or SACKs.
    #[default]
    Latest,
    /// The first that the ACK newly covers, unless one of them was retransmitted; otherwise the
    /// first that it SACKs. The window rule and RACK's minimum get that of the last one (Linux
    /// `tcp_clean_rtx_queue`, `tcp_ack_update_rtt`).
    First,
}

/// What restarts the retransmission timer of a sender that recovers by SACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RtoRestart {
    /// New data acknowledged (RFC 6298, rule 5.3), and the beginning of a recovery.
    #[default]
    Acknowledged,
    /// Also a retransmission of the first segment, and SACK blocks for what was sent before that.
    /// While RACK's timer runs, or a tail loss probe is planned behind new data, the timeout counts
    /// from that segment's last sending (Linux `tcp_xmit_retransmit_queue`, `tcp_rearm_rto`,
    /// `tcp_schedule_loss_probe`).
    FirstSegment,
}

/// How a receiver whose window grows estimates the round-trip time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReceiveRtt {
    /// An eighth of each sample counts (Linux before 6.16).
    #[default]
    Smoothed,
    /// A shorter sample counts at once, a longer one an eighth (Linux 6.16 and later,
    /// `tcp_rcv_rtt_update`).
    Latched,
}

/// When new data wait for room for a whole burst, which has the size of a frame under segmentation
/// offload (`tcp_tso_autosize`), although the windows have room for a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TsoDefer {
    /// Never.
    #[default]
    Off,
    /// If the first unacknowledged segment left at least half of a smoothed round-trip time ago
    /// (Linux before 6.18).
    HalfRtt,
    /// If its ACK is due within 1 ms, or half of a smoothed round-trip time if that is shorter
    /// (Linux 6.18 and later).
    AckDue,
}

/// Which segments are discarded because of an old timestamp (RFC 7323, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PawsRule {
    /// None.
    Off,
    /// Those with an older timestamp than the last one that was in order (RFC 7323, section 5.3).
    Rfc7323,
    /// The same by a clock of milliseconds, of which one is forgiven; a duplicate ACK is accepted
    /// within a retransmission timeout (Linux `tcp_paws_check`, `TCP_PAWS_WINDOW`,
    /// `tcp_disordered_ack_check`).
    Linux,
    /// The same by the ticks of the peer's own clock, and with a clock of microseconds at this end
    /// (Linux `tcp_usec_ts`). A connection on real packets has this rule instead of `linux`.
    LinuxUsec,
}

/// Which sequence numbers a receiver accepts (RFC 9293, section 3.10.7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SequenceCheck {
    /// Data that end within the window. Other data and every ACK of the sender that is not in
    /// order are answered with an ACK.
    WithinWindow,
    /// With nothing unread, data that begin within the window as well; of ACKs without data, those
    /// outside the window are answered (Linux `tcp_sequence`, `tcp_data_queue`).
    Linux,
}

/// When a window that the application has opened by reading is advertised without data to
/// acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WindowUpdate {
    /// When its right edge has moved by two segments or half of the buffer (RFC 1122, section
    /// 4.2.3.3, with BSD's two segments).
    TwoSegments,
    /// When it is twice what is left of the window last advertised, and that is no more than half
    /// of what the buffer holds (Linux `__tcp_cleanup_rbuf`).
    Doubled,
}

/// When a closed receive window stops the retransmission timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PersistRule {
    /// With nothing in flight. Otherwise the timer expires as ever, and cuts cwnd (Linux).
    Idle,
    /// At once, whatever is in flight (BSD; what M-TCP builds on).
    Always,
}

/// What a reduction halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HalvingBase {
    /// The data in flight (RFC 5681, equation 4).
    FlightSize,
    /// The window in use: cwnd with its inflation, but not above the receive window (ns-2).
    Window,
    /// cwnd, whatever the receive window is (Linux `tcp_reno_ssthresh`,
    /// `cubictcp_recalc_ssthresh`).
    Cwnd,
}

/// What shows that cwnd limits the sender, so that an ACK may open it (RFC 5681, section 3.1; RFC
/// 7661).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CwndLimitedBy {
    /// The data in flight (with SACK the pipe) fill cwnd when the ACK comes.
    Pipe,
    /// Linux `tcp_is_cwnd_limited`: cwnd was full after the last sending or, in slow start, cwnd is
    /// less than twice the most segments out in the round trip.
    PacketsOut,
}

/// For how much an ACK opens cwnd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthBase {
    /// What its number newly acknowledges (RFC 5681).
    Acknowledged,
    /// What it newly delivers (Linux `tcp_newly_delivered`): what SACK or duplicate ACKs have
    /// counted counts no more. After reordering by more than `dupack_threshold` segments SACKs open
    /// cwnd too (`tcp_may_raise_cwnd`).
    Delivered,
}

/// How the window comes down for an ECN echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EcnReduction {
    /// At once (RFC 3168, section 6.1.2).
    AtOnce,
    /// Over a round trip, by proportional rate reduction where the recovery has it (Linux
    /// `tcp_enter_cwr`).
    Proportional,
}

/// Which partial ACKs restart the retransmission timer (RFC 6582, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NewRenoTimer {
    /// The first one only.
    Impatient,
    /// Each one.
    SlowButSteady,
}

/// What happens to cwnd when nothing was sent for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleRestart {
    /// Nothing.
    Off,
    /// After one RTO without sending, cwnd falls to `restart_window` (RFC 5681, section 4.1).
    Rto,
    /// For each RTO without sending cwnd is halved, down to `restart_window`, and ssthresh rises to
    /// three quarters of what it was (Linux `tcp_cwnd_restart`; RFC 2861).
    HalvedPerRto,
    /// ns-2: the retransmission timer keeps running without outstanding data and sets cwnd to one
    /// segment.
    Timer,
}

/// Which segments may wait for a delayed ACK, if none is waiting yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DelayedAckRule {
    /// Those in order while nothing is missing (RFC 5681, section 4.2).
    Rfc5681,
    /// ns-2: whichever is the highest one in order after it was taken, a duplicate of it too.
    HighestInOrder,
    /// Linux (`__tcp_ack_snd_check`): those of RFC 5681 after 16 quick ACKs at the start, again
    /// after a duplicate or a silence longer than a timeout, and while the window that is offered
    /// does not grow. The delay adapts from `delayed_ack` upwards (`icsk_ack.ato`), and from the
    /// fourth ACK of one number on SACKs wait up to 1.1 ms (`tcp_comp_sack_delay_ns`).
    Linux,
}

/// What the smallest timeout is a bound of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MinRtoRule {
    /// The timeout (RFC 6298, rule 2.4).
    Timeout,
    /// What the timeout has over SRTT (Linux).
    Deviation,
}

/// How the deviation of round-trip times is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviationRule {
    /// Smoothed with each sample (RFC 6298, rule 2.3).
    Smoothed,
    /// The largest smoothed one of a round trip, from which it falls by a quarter of the distance
    /// in each; a sample below SRTT counts for an eighth (Linux `tcp_rtt_estimator`).
    RoundTripMaximum,
}

/// Loss recovery under a window rule that does not insist on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum DefaultRecovery {
    /// That of the rule's own paper.
    Named(PapersOwn),
    /// This one.
    This(Recovery),
}

/// The word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PapersOwn {
    /// That of the rule's own paper.
    Paper,
}

/// Initial slow start threshold.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a size such as \"20 segments\", \"unlimited\" or \"receive-window\""
)]
pub enum InitialSsthresh {
    /// So much.
    Size(Size),
    /// A word.
    Named(NamedSsthresh),
}

/// Words for the initial slow start threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NamedSsthresh {
    /// As high as possible (RFC 5681).
    Unlimited,
    /// The receive window (ns-2).
    ReceiveWindow,
}

/// Delayed ACKs: `false`, or the longest time an ACK waits for a second segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "expected true, false or a time such as \"40 ms\"")]
pub enum DelayedAck {
    /// `false`: each segment is acknowledged at once (`true` means 200 ms).
    Switch(bool),
    /// At most so late.
    AtMost(Duration),
}

impl DelayedAck {
    /// The longest delay; `None` if every segment is acknowledged at once.
    pub fn limit(self) -> Option<Duration> {
        match self {
            DelayedAck::Switch(false) => None,
            DelayedAck::Switch(true) => Some(Duration::millis(200)),
            DelayedAck::AtMost(d) => Some(d),
        }
    }
}
