//! The result of a run: the JSON output of `lasthop run`.

use std::borrow::Cow;

use lasthop::histogram::Summary;
use lasthop::scenario::network::FlowBound;
use lasthop::scenario::network::FlowRole;
use lasthop::tcp::receiver::Discard;
use lasthop::tcp::sender::{GaveUp, Limit};
use lasthop::traffic::Playback;
use lasthop::units::{Duration, Quantity};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::probes::calls::CallResult;
use crate::probes::frames::FrameResult;
use crate::probes::ledger::{Traffic, is_zero};
use crate::probes::limits::LimitShares;
use crate::probes::requests::RequestResult;

/// What a result contains besides what is always in it. What is left out is empty or unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Texts that depend on the network alone: warnings, the descriptions of schemes and bounds.
    pub texts: bool,
    /// Round-trip times of the flows.
    pub rtt: bool,
    /// Delays in the queues of all links; otherwise in those of radio links.
    pub all_queue_delays: bool,
}

impl Contents {
    /// Everything.
    pub const ALL: Contents = Contents { texts: true, rtt: true, all_queue_delays: true };
    /// Everything except texts.
    pub const NUMBERS: Contents = Contents { texts: false, ..Contents::ALL };
}

/// The result of a run. Windows are in bytes; unknown values are `null`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RunResult {
    /// Version of lasthop.
    pub lasthop: Cow<'static, str>,
    /// Title of the scenario.
    pub scenario: String,
    /// Label of the scheme of the first TCP flow.
    pub scheme: String,
    /// Seed of the random streams.
    pub seed: u64,
    /// Simulated time, seconds.
    pub duration_s: f64,
    /// Measured part of the simulated time, seconds.
    pub measured_s: f64,
    /// Warnings about schemes that are unsafe on some paths.
    pub warnings: Vec<String>,
    /// Flows, in the order of the scenario.
    pub flows: Vec<FlowResult>,
    /// One-way links, except pairs of stations in a cell that carried nothing.
    pub links: Vec<LinkResult>,
    /// Agents, then relays.
    pub agents: Vec<AgentResult>,
    /// Accounting of all traffic, bits.
    pub traffic_bits: Traffic,
    /// Clicks of web sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clicks: Vec<ClickResult>,
    /// Handovers that took place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handovers: Vec<HandoverResult>,
    /// Air time in cells of 802.11n and its successors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<CellResult>,
    /// Confusion matrix of the schemes' classifiers; `null` where there is none.
    pub classifier: Option<Classifier>,
}

/// Air time in a cell of 802.11n, 802.11ac or 802.11ax over the whole simulated time. The shares
/// add up to it, except for what is in progress at its end.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CellResult {
    /// Name of the cell.
    pub name: String,
    /// Exchanges of each station that won the medium alone.
    pub stations: Vec<StationAirTime>,
    /// Collisions, seconds.
    pub collisions_s: f64,
    /// Beacons, seconds.
    pub beacons_s: f64,
    /// Other networks (`busy`), seconds.
    pub others_s: f64,
    /// Nobody sends, seconds: interframe spaces, back-off, timeouts, no traffic.
    pub idle_s: f64,
}

/// Air time of a station.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct StationAirTime {
    /// Name of the node.
    pub station: String,
    /// Its exchanges: RTS, CTS, data, answers and the pauses between them, seconds.
    pub air_time_s: f64,
}

/// A handover that took place.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HandoverResult {
    /// Name of the node.
    pub node: String,
    /// Time of the handover, seconds.
    pub at_s: f64,
    /// Bytes of state that were transferred.
    pub moved_bytes: u64,
    /// Duration of the state transfer, seconds.
    pub took_s: f64,
    /// The longest time without a delivery to any application, from the handover until 2 s after
    /// the transfer, seconds.
    pub gap_s: f64,
}

/// A click of a web session.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ClickResult {
    /// Name of the session and number of the page from 1.
    pub id: String,
    /// Time of the click in seconds; `null` if there was none before the end.
    pub at_s: Option<f64>,
    /// Number of objects on the page.
    pub objects: usize,
    /// Total payload of the objects, bytes.
    pub bytes: u64,
    /// From the click to the first byte of the page delivered to the application, seconds.
    pub first_byte_s: Option<f64>,
    /// From the click to the last byte of the last object, seconds.
    pub completed_s: Option<f64>,
    /// True if the page was aborted by the next click or by the end of the session.
    pub broken_off: bool,
}

/// Classifications of losses by the schemes, compared with the ground truth.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Classifier {
    /// Flows whose scheme classifies losses.
    pub flows: Vec<FlowClassifier>,
}

/// The classifier of one flow's scheme.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct FlowClassifier {
    /// Name of the flow.
    pub id: String,
    /// Label of the scheme.
    pub scheme: String,
    /// The confusion matrix.
    pub matrix: Matrix,
    /// Share of the lost segments that were classified correctly, from 0 to 1; `null` if none was
    /// lost.
    pub accuracy: Option<f64>,
}

/// A confusion matrix: a row for each true class.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Matrix {
    /// Lost on the air.
    pub wireless: Verdicts,
    /// Dropped by a queue.
    pub congestion: Verdicts,
    /// Not lost: delayed, or only its ACK was lost.
    pub not_lost: Verdicts,
}

/// Numbers of verdicts of the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Verdicts {
    /// Classified as a wireless loss.
    pub wireless: u64,
    /// Classified as a congestion loss.
    pub congestion: u64,
}

impl From<[u64; 2]> for Verdicts {
    fn from([wireless, congestion]: [u64; 2]) -> Self {
        Verdicts { wireless, congestion }
    }
}

/// A number of events, and how many of them were spurious.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Spurious {
    /// In all.
    pub total: u64,
    /// Spurious ones.
    pub spurious: u64,
}

/// Retransmission timeouts.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Timeouts {
    /// In all.
    pub total: u64,
    /// Spurious: the segment had arrived, or an earlier copy of it arrived later.
    pub spurious: u64,
    /// The segment had arrived, but all its ACKs were lost.
    pub ack_loss: u64,
}

/// Notices of the link layer that a sender received.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Notices {
    /// The link layer starts to retransmit a segment (ERSN).
    pub ersn: u64,
    /// The link layer has discarded a segment (ELN).
    pub eln: u64,
    /// Ignored notices: not for a segment in flight, late, or repeated for one transmission.
    pub ignored: u64,
    /// Timeouts deferred because the link layer was still retransmitting the first segment.
    pub held_timeouts: u64,
}

/// A setting that bounds the throughput of a flow.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct BoundResult {
    /// The share of `limited_by` that measures how long this setting limits the flow.
    pub limited_by: Limit,
    /// Scheme and setting, or the key in the scenario file.
    pub setting: String,
    /// Value of the setting, with its unit.
    pub value: String,
}

impl From<FlowBound> for BoundResult {
    fn from(bound: FlowBound) -> Self {
        BoundResult { limited_by: bound.limit, setting: bound.setting, value: bound.value.text() }
    }
}

/// The playback of a video in the measured time.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct VideoResult {
    /// From the first request to the first picture, seconds; `null` if the playback has not
    /// started.
    pub startup_s: Option<f64>,
    /// Play time, seconds.
    pub played_s: f64,
    /// Number of stalls that began.
    pub stalls: u64,
    /// Time in stalls, seconds.
    pub stalled_s: f64,
    /// Share of the time since the start of the playback that was spent in stalls.
    pub rebuffer_ratio: Option<f64>,
    /// Mean bitrate of what was played, bit/s.
    pub bitrate_bps: Option<f64>,
    /// Number of chunks whose bitrate differs from that of the chunk before.
    pub switches: u64,
    /// Number of chunks received.
    pub chunks: u64,
}

impl From<(Playback, Option<Duration>)> for VideoResult {
    fn from((playback, startup): (Playback, Option<Duration>)) -> Self {
        VideoResult {
            startup_s: startup.map(Duration::decimal_secs),
            played_s: playback.played.decimal_secs(),
            stalls: playback.stalls,
            stalled_s: playback.stalled.decimal_secs(),
            rebuffer_ratio: playback.rebuffer_ratio(),
            bitrate_bps: playback.bitrate(),
            switches: playback.switches,
            chunks: playback.chunks,
        }
    }
}

/// Segments that ends discarded in the measured time, by their reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Discards {
    /// Data and ACKs with an older timestamp than the last segment in order (PAWS).
    pub old_timestamp: u64,
    /// Data outside the receive window, or after the FIN.
    pub beyond_window: u64,
    /// Data in order while the window was closed.
    pub zero_window: u64,
    /// SYN segments of an open connection, and resets out of order.
    pub challenged: u64,
    /// Segments for a connection that is forgotten, since its SYN-ACK was not answered.
    #[serde(skip_serializing_if = "is_zero")]
    pub no_connection: u64,
    /// ACKs with an old timestamp at the server's sender (PAWS).
    pub acks: u64,
}

impl Discards {
    /// The counts of a flow's receivers, by the number of the reason, and of its sender.
    pub(crate) fn new(by_reason: [u64; Discard::ALL.len()], acks: u64) -> Discards {
        let count = |reason: Discard| by_reason[reason as usize];
        Discards {
            old_timestamp: count(Discard::OldTimestamp),
            beyond_window: count(Discard::BeyondWindow),
            zero_window: count(Discard::ZeroWindow),
            challenged: count(Discard::Challenged),
            no_connection: count(Discard::NoConnection),
            acks,
        }
    }

    /// Segments that receivers discarded.
    pub fn by_receiver(&self) -> u64 {
        let in_connection =
            self.old_timestamp + self.beyond_window + self.zero_window + self.challenged;
        in_connection + self.no_connection
    }

    /// Nothing was discarded.
    pub fn is_empty(&self) -> bool {
        self.by_receiver() + self.acks == 0
    }
}

/// Why and when a sender ended the connection without an answer.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct GaveUpResult {
    /// Time of the run, seconds.
    pub at_s: f64,
    /// What was not answered.
    pub unanswered: Unanswered,
}

/// What a sender retransmitted to the limit of its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unanswered {
    /// The SYN (`syn_retries`).
    Syn,
    /// The SYN-ACK (`synack_retries`).
    #[serde(rename = "syn_ack")]
    SynAck,
    /// Data or a FIN (`user_timeout`).
    Data,
    /// Zero-window probes (`probe_retries`).
    Probe,
}

impl From<GaveUp> for GaveUpResult {
    fn from(gave_up: GaveUp) -> Self {
        let (at, unanswered) = match gave_up {
            GaveUp::NotConnected(at) => (at, Unanswered::Syn),
            GaveUp::NotConfirmed(at) => (at, Unanswered::SynAck),
            GaveUp::NotAcknowledged(at) => (at, Unanswered::Data),
            GaveUp::NotProbed(at) => (at, Unanswered::Probe),
        };
        GaveUpResult { at_s: at.decimal_secs(), unanswered }
    }
}

/// The result of a flow.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct FlowResult {
    /// Name of the flow.
    pub id: String,
    /// The `[[flow]]` to which it belongs: its name, or that of its first flow.
    pub group: String,
    /// Role in a comparison.
    pub role: FlowRole,
    /// Kind of the application, as in the scenario file; an object of a web session is a transfer.
    pub app: Cow<'static, str>,
    /// Sender's node.
    pub from: String,
    /// Receiver's node.
    pub to: String,
    /// Label of the scheme; `null` for datagrams.
    pub scheme: Option<String>,
    /// The components of the scheme, in one line.
    pub slots: String,
    /// Payload delivered in order to the application, bit/s of the active measured time.
    pub goodput_bps: f64,
    /// Payload bytes delivered in order to the application in the measured time.
    pub delivered_bytes: u64,
    /// For split connections: bytes acknowledged to the sender but not delivered to the application
    /// at the end. If the relay's node fails permanently, they are lost without either end knowing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_undelivered_bytes: Option<u64>,
    /// Arrival of a transfer of a Poisson process, seconds; at or after the end of the run if none
    /// arrived in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_s: Option<f64>,
    /// Segments that the receiver, or a relay's receiver on the way, discarded; only if there are
    /// any.
    #[serde(default, skip_serializing_if = "Discards::is_empty")]
    pub discarded: Discards,
    /// Only if the sender, or a relay's sender on the way, gave up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gave_up: Option<GaveUpResult>,
    /// From the start of a finite transfer to the delivery of its last byte, seconds.
    pub completed_s: Option<f64>,
    /// For a finite transfer: the time from its start to its last byte on the empty path, seconds,
    /// see [`Network::empty_path_s`](lasthop::scenario::network::Network::empty_path_s).
    pub empty_path_s: Option<f64>,
    /// From the start to the delivery of the first byte, seconds.
    pub first_byte_s: Option<f64>,
    /// Segments sent by the sender, SYN and retransmissions included.
    pub sent_segments: u64,
    /// Retransmissions.
    pub retransmissions: Spurious,
    /// Retransmission timeouts.
    pub timeouts: Timeouts,
    /// Fast retransmits.
    pub fast_retransmits: Spurious,
    /// Number of reductions of cwnd or ssthresh.
    pub cwnd_reductions: u64,
    /// The largest burst: data segments sent one after the other, each within half the
    /// serialization time of a segment on the narrowest link of their path. `null` if that link's
    /// rate is unknown.
    pub burst_segments: Option<u64>,
    /// For a call: its packets by whether they arrived in time, and the quality of speech.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<CallResult>>,
    /// For a medium with frames: its frames by whether they were complete in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<Box<FrameResult>>,
    /// For a client: its requests and the times of the responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Box<RequestResult>>,
    /// For a video: the playback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub video: Option<VideoResult>,
    /// Notices of the link layer, if the sender accepts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notices: Option<Notices>,
    /// Shares of the active measured time by what prevented the server's sender from sending its
    /// next new byte; `null` for datagrams, and if no time was measured.
    pub limited_by: Option<LimitShares>,
    /// The settings that set these limits, with their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<BoundResult>,
    /// Round-trip time samples of the sender, or of the answers to a ping, seconds.
    pub rtt_s: Summary,
    /// Delay of each delivered byte, from the write (endless flows: the first transmission) to
    /// in-order delivery, seconds.
    pub one_way_delay_s: Summary,
}

/// The result of a one-way link.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LinkResult {
    /// Name of the node where it begins.
    pub from: String,
    /// Name of the node where it ends.
    pub to: String,
    /// True for a wireless last hop.
    pub radio: bool,
    /// Frames offered to the queue.
    pub offered_frames: u64,
    /// Frames that arrived.
    pub delivered_frames: u64,
    /// Frames lost on the air.
    pub lost_on_air: u64,
    /// Transmission attempts, if the link layer retransmits frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    /// Attempts in which another station sent at the same time (in a cell).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collisions: Option<u64>,
    /// Frames that the link layer discarded after the last attempt allowed: those lost on the air,
    /// and in a cell also those that arrived but whose link ACKs were all lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arq_discards: Option<u64>,
    /// Frames lost on the air whose last attempt was a collision (in a cell).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_in_collision: Option<u64>,
    /// Frames dropped by the queue, on arrival or later.
    pub dropped_at_queue: u64,
    /// ACKs that the queue removed because later segments made them redundant; only for links with
    /// such a filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filtered_frames: Option<u64>,
    /// Of `dropped_at_queue`, the frames that the policer dropped; only for links with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_by_policer: Option<u64>,
    /// Copies of frames that the link made; only for links that duplicate frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicated_frames: Option<u64>,
    /// Of `delivered_frames`, those with a bit error that the link did not detect; only for links
    /// that corrupt frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrupted_frames: Option<u64>,
    /// Largest number of queued frames, the one in transmission not counted; not for cells, nor for
    /// links without a queue limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_peak_frames: Option<u64>,
    /// Frames that the queue marked with congestion experienced.
    pub marked_frames: u64,
    /// Bits sent divided by the bits that the link could have sent; in a cell, the busy share of
    /// the time.
    pub utilisation: Option<f64>,
    /// Average capacity of the link, bit/s; in a cell, the rate of full frames with the TCP ACKs
    /// that answer them, without other traffic.
    pub capacity_bps: Option<f64>,
    /// Transmission time, seconds; in a cell, time of the medium, link ACKs included. The time of a
    /// collision is attributed to the longest frame.
    pub busy_s: f64,
    /// Queueing delay, from entering the queue to the start of serialization, seconds.
    pub queue_delay_s: Summary,
}

/// The result of an agent or relay.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AgentResult {
    /// Name of the node.
    pub node: String,
    /// Label of its scheme.
    pub scheme: String,
    /// Counters of the agent or relay, by name.
    pub counters: Map<String, Value>,
    /// For a relay: what limited its own sender, as for flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<LimitShares>,
}
