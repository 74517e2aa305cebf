//! Selective-TCP: the receiver distinguishes wireless losses from congestion by the arrival times
//! of packets, requests wireless losses by SNACK, and reports its rate after congestion.
//!
//! Source: R. Paul, "Selective-TCP for wired/wireless networks", slides, Simon Fraser University,
//! 2005 (paul2005). Deployed at: the sender and the receiver. Wire: the SNACK option of SCPS-TP,
//! and an experimental option with a rate in kbit/s.
//!
//! Receiver. A segment that arrives behind a gap is classified by a detector (`loss_detectors.rs`).
//! Wireless: a SNACK with the missing ranges, at most one per `snack_delay`, and no duplicate ACK.
//! Congestion: every k-th time an ACK with the arrival rate of the data, otherwise a plain
//! duplicate ACK. Sender: NewReno, which retransmits what a SNACK names without changing its
//! window, and on a reported rate sets cwnd = rate x the first round-trip time.
//!
//! What the slides leave open, or state in two ways, is a setting. Their text is
//! `detector=slide:classify=every:tmin_memory=0s:bandwidth_span=0s:snack=everything`, and their
//! printed code has in addition `cwnd_rule=div:report_is_ack=false:min_window=1`:
//!
//! * pseudo-code multiplies the rate by the round-trip time, the printed code divides: a window of
//!   thousands of segments.
//! * one lost packet is defined, bursts are measured; the slides' bounds call a burst congestion
//!   (`detector`).
//! * each packet behind a gap is judged by its own spacing, so that all but the first one count as
//!   congestion (`classify`).
//! * the rate is that since the last packet in sequence: of one packet over the gap that it reveals
//!   (`bandwidth_span`).
//! * the printed code takes an ACK with a rate for a message, and sends one new segment for it
//!   (`report_is_ack`).
//! * k is not given: 1.
//!
//! Of the slides' 45 % over NewReno (figure `noncongested-throughput`, 200 runs): only the printed
//! code comes near, with 43 % (31 to 57), and only on a channel whose state advances with packets.
//! There the defaults reach 105 %. On a channel whose state advances with time the defaults reach
//! 16 %, the printed code 6 %, and the text of the slides less than NewReno.
//!
//! Assumes that the last hop is the bottleneck, carries this flow only, keeps the order, and has no
//! link-layer retransmission. Bad at: cross traffic on the last hop, link-layer retransmission,
//! changes of its rate, reordering, and (as printed) other flows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::balakrishnan_eln;
use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use crate::shared::loss_detectors::{Arrival, Detector, DetectorKind, TminRule};
use lasthop_core::ring::Ring;
use lasthop_core::segment::{Block, Flags, Segment};
use lasthop_core::snack;
use lasthop_core::units::{Duration, Time};
use lasthop_tcp::receiver::{Held, ReceiverRule, Reply};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::sender::timestamp;
use lasthop_tcp::window::{
    Ack, LossClass, Needs, Report, Start, Window, WindowRule, grow, window_rule,
};

/// Settings of Selective-TCP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SelectiveTcp {
    /// The detector that distinguishes losses of the radio from congestion. Those that use trip
    /// times (spike, zigzag, zbs, ncpld) enable timestamps.
    pub detector: DetectorKind,
    /// Time for which the smallest spacing of two packets is remembered; 0 s: without limit.
    pub tmin_memory: Duration,
    /// Which packets after a gap are classified: `first`, the one that reveals it, or `every` one
    /// by its own spacing.
    pub classify: Classify,
    /// Minimum time between two SNACKs.
    pub snack_delay: Duration,
    /// Contents of a SNACK: the gaps classified as the radio's (`wireless`), or `everything` that
    /// is missing.
    pub snack: Snack,
    /// The rate is reported once for this number of packets classified as congestion losses.
    #[schemars(extend("unit" = "packets"))]
    pub k: u32,
    /// Span over which the rate is measured; 0 s: since the last packet in sequence.
    pub bandwidth_span: Duration,
    /// Computation of cwnd from rate and round-trip time: `mul` or `div`.
    pub cwnd_rule: CwndRule,
    /// Smallest window after a rate report.
    #[schemars(extend("unit" = "segments"))]
    pub min_window: f64,
    /// An ACK with a rate is processed as an ACK too; otherwise it is a message, for which one new
    /// segment is sent.
    pub report_is_ack: bool,
    /// The receiver classifies without any effect, so that all detectors can be run on the same
    /// arrivals.
    pub passive: bool,
    /// Recovery of the sender; it has to respond to SNACKs (`+eln`).
    pub recovery: RecoverySetting,
}

/// Which packets after a gap are classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Classify {
    /// The one that reveals it; the others get the same class.
    First,
    /// Each by its own spacing.
    Every,
}

/// Contents of a SNACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Snack {
    /// Gaps classified as the radio's.
    Wireless,
    /// Every gap.
    Everything,
}

/// Computation of cwnd from rate and round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CwndRule {
    /// cwnd = rate x round-trip time (the pseudo-code).
    Mul,
    /// cwnd in segments = rate in kbit/s / round-trip time in seconds (the printed code).
    Div,
}

impl Default for SelectiveTcp {
    fn default() -> Self {
        SelectiveTcp {
            detector: DetectorKind::Centred,
            tmin_memory: Duration::secs(10),
            classify: Classify::First,
            snack_delay: Duration::millis(50),
            snack: Snack::Wireless,
            k: 1,
            bandwidth_span: Duration::millis(100),
            cwnd_rule: CwndRule::Mul,
            min_window: 2.0,
            report_is_ack: true,
            passive: false,
            recovery: Recovery {
                hints: Some(balakrishnan_eln::HINTS.rules()),
                ..Recovery::of(RecoveryKind::Newreno)
            }
            .into(),
        }
    }
}

impl SchemeConfig for SelectiveTcp {
    const ENTRY: Entry = Entry {
        name: "selective-tcp",
        family: Family::EndToEnd,
        group: Some(Group::LossDiscrimination),
        summary: "the receiver judges losses by arrival times, asks for the radio's by SNACK and \
                  reports its rate about the others",
        paper: "paul2005",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "the last hop is the narrowest and carries this flow only",
            "nothing overtakes, and the link sends nothing again",
        ],
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if self.k == 0 {
            return Err("k must be at least 1 packet, found 0".into());
        }
        if !(self.min_window >= 1.0 && self.min_window <= 1e6) {
            return Err(format!(
                "min_window must be 1 to 1000000 segments, found {}",
                self.min_window
            ));
        }
        if self.recovery.hints.is_none() {
            return Err(format!(
                "recovery = \"{}\" does not respond to SNACKs; one that does ends in +eln, such as \
                 newreno+eln or sack+eln",
                self.recovery
            ));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(SelectiveTcpWindow {
            rule: self.cwnd_rule,
            floor: self.min_window,
            alone: !self.report_is_ack,
            base_rtt: None,
        }))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::Fixed(self.recovery.0))
    }

    fn needs(&self) -> Needs {
        Needs { timestamps: self.detector.needs_timestamps(), ..Needs::default() }
    }

    fn receiver(&self) -> Option<Box<dyn ReceiverRule>> {
        Some(Box::new(SelectiveTcpReceiver::new(self)))
    }
}

/// The sender.
#[derive(Clone, Copy, Debug)]
pub struct SelectiveTcpWindow {
    rule: CwndRule,
    floor: f64,
    alone: bool,
    /// The first round-trip time.
    base_rtt: Option<Duration>,
}

#[window_rule]
impl WindowRule for SelectiveTcpWindow {
    fn on_established(&mut self, _window: &mut Window, start: &Start) {
        self.base_rtt = start.rtt;
    }

    fn on_any_ack(&mut self, _window: &mut Window, ack: &Ack) {
        // Only if the handshake gave none.
        self.base_rtt = self.base_rtt.or(ack.rtt);
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
    }

    fn on_report(&mut self, window: &mut Window, report: &Report) {
        let Some(rtt) = self.base_rtt.filter(|rtt| *rtt > Duration::ZERO) else { return };
        let (kbps, mss) = (f64::from(report.value), f64::from(report.mss));
        let bytes = match self.rule {
            CwndRule::Mul => kbps * 125.0 * rtt.as_secs(),
            CwndRule::Div => kbps / rtt.as_secs() * mss,
        };
        window.cwnd = bytes.clamp(self.floor * mss, MAX_CWND);
    }

    fn reports_alone(&self) -> bool {
        self.alone
    }
}

/// The largest receive window, bytes.
const MAX_CWND: f64 = 1073741824.0;

/// A missing range, and its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    start: u64,
    end: u64,
    wireless: bool,
}

/// The receiver.
#[derive(Clone, Debug)]
struct SelectiveTcpReceiver {
    config: SelectiveTcp,
    detector: Detector,
    rate: ArrivalRate,
    /// In order, at most `HOLES`; further ones are recovered by duplicate ACKs and the timer.
    holes: Vec<Hole>,
    full: u32,
    snack_sent: Option<Time>,
    congestion: u32,
    /// True if the answer to the current segment requests missing data.
    asking: bool,
}

/// Maximum number of remembered gaps.
const HOLES: usize = 64;

impl SelectiveTcpReceiver {
    fn new(config: &SelectiveTcp) -> Self {
        let tmin = if config.tmin_memory == Duration::ZERO {
            TminRule::Always
        } else {
            TminRule::Last(config.tmin_memory)
        };
        SelectiveTcpReceiver {
            config: config.clone(),
            detector: Detector::new(config.detector, tmin),
            rate: ArrivalRate::new(config.bandwidth_span),
            holes: Vec::with_capacity(HOLES + 1),
            full: 0,
            snack_sent: None,
            congestion: 0,
            asking: false,
        }
    }

    /// Removes what has arrived from the gaps.
    fn fill(&mut self, start: u64, end: u64, expected: u64) {
        let mut cut = None;
        for hole in &mut self.holes {
            hole.start = hole.start.max(expected);
            if start <= hole.start {
                hole.start = hole.start.max(end.min(hole.end));
            } else if start < hole.end {
                if end < hole.end {
                    cut = Some(Hole { start: end, ..*hole });
                }
                hole.end = start;
            }
        }
        self.holes.retain(|h| h.start < h.end);
        if let Some(rest) = cut.filter(|_| self.holes.len() < HOLES) {
            let place = self.holes.partition_point(|h| h.start < rest.start);
            self.holes.insert(place, rest);
        }
    }

    /// Classifies a segment out of order: true if the radio has lost what it reveals as missing, or
    /// what was missing before.
    fn judge(&mut self, segment: &Segment, highest: u64) -> bool {
        let missing = segment.seq.saturating_sub(highest);
        let count = missing.div_ceil(u64::from(self.full.max(1)));
        if missing > 0 || self.config.classify == Classify::Every {
            let wireless = self.detector.classify(count) == Some(LossClass::Wireless);
            if missing > 0 && self.holes.len() < HOLES {
                self.holes.push(Hole { start: highest, end: segment.seq, wireless });
            }
            return wireless;
        }
        self.holes.first().is_some_and(|h| h.wireless)
    }

    fn answer_wireless(&mut self, now: Time) -> Reply {
        if self.snack_sent.is_none_or(|at| now >= at + self.config.snack_delay) {
            (self.snack_sent, self.asking) = (Some(now), true);
        }
        Reply { silent: true, ..Reply::default() }
    }

    /// The SNACK of the answer, if it carries one.
    fn ask(&mut self) -> Option<snack::Snack> {
        let asking = std::mem::take(&mut self.asking);
        let named = self
            .holes
            .iter()
            .filter(|h| asking && (h.wireless || self.config.snack == Snack::Everything));
        snack::Snack::of(named.map(|h| Block { start: h.start, end: h.end }), self.full)
    }

    fn answer_congestion(&mut self, now: Time) -> Reply {
        self.congestion += 1;
        if self.congestion < self.config.k {
            return Reply::default();
        }
        self.congestion = 0;
        Reply { flags: Flags::REPORT, report: self.rate.kbps(now), ..Reply::default() }
    }
}

impl ReceiverRule for SelectiveTcpReceiver {
    fn on_data(&mut self, now: Time, segment: &Segment, expected: u64, highest: u64) -> Reply {
        self.full = self.full.max(segment.len);
        let rott = segment
            .flags
            .has(Flags::TIMESTAMPS)
            .then(|| Duration::micros(u64::from(timestamp(now).wrapping_sub(segment.ts_value))));
        self.detector.on_arrival(&Arrival { now, rott, full: segment.len == self.full });
        self.rate.take(now, segment.len, segment.seq == expected);
        self.fill(segment.seq, segment.end(), expected);
        if segment.seq <= expected {
            return Reply::default();
        }
        let wireless = self.judge(segment, highest);
        let said = match (segment.seq > highest, wireless) {
            (false, _) => LossClass::Unclassified,
            (true, true) => LossClass::Wireless,
            (true, false) => LossClass::Congestion,
        };
        let reply = match wireless {
            _ if self.config.passive => Reply::default(),
            true => self.answer_wireless(now),
            false => self.answer_congestion(now),
        };
        Reply { said, ..reply }
    }

    fn asks(&mut self, _now: Time, _segment: &Segment, _held: &Held<'_>) -> Option<snack::Snack> {
        self.ask()
    }

    fn classifies(&self) -> bool {
        true
    }
}

/// Arrival rate of payload.
#[derive(Clone, Debug)]
struct ArrivalRate {
    span: Duration,
    /// Arrivals of the last span and the one before it: time, and total bytes.
    log: Ring<(Time, u64)>,
    bytes: u64,
    /// The last arrival in sequence.
    in_sequence: (Time, u64),
}

impl ArrivalRate {
    fn new(span: Duration) -> Self {
        ArrivalRate { span, log: Ring::default(), bytes: 0, in_sequence: (Time::ZERO, 0) }
    }

    fn take(&mut self, now: Time, bytes: u32, in_sequence: bool) {
        self.bytes += u64::from(bytes);
        if in_sequence {
            self.in_sequence = (now, self.bytes);
        }
        if self.span > Duration::ZERO {
            self.log.push((now, self.bytes));
            while self.log.get(1).is_some_and(|(at, _)| *at + self.span <= now) {
                self.log.pop();
            }
        }
    }

    /// In kbit/s, over whole intervals between arrivals.
    fn kbps(&self, now: Time) -> u32 {
        let (from, before) = if self.span > Duration::ZERO {
            self.log.front().copied().unwrap_or_default()
        } else {
            self.in_sequence
        };
        let time = now.since(from).as_secs();
        if time > 0.0 { ((self.bytes - before) as f64 / 125.0 / time) as u32 } else { 0 }
    }
}

#[cfg(test)]
mod tests;
