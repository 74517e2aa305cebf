//! WTCP: the receiver compares the spacing of segments at arrival with their spacing at departure,
//! and reports a sending rate to the sender.
//!
//! Source: Sinha, Nandagopal, Venkitaraman, Sivakumar and Bharghavan, "WTCP: a reliable transport
//! protocol for wireless wide-area networks", Wireless Networks 8, 2002, to which zeng2006 (section
//! 2.2) gives one sentence. This is a reconstruction: rules and numbers are from memory of the
//! paper, or choices. Deployed at: the sender and the receiver. Wire: the timestamps option, and an
//! experimental option on ACKs with the rate in kbit/s.
//!
//! Receiver: the first two segments are a packet pair and give the first rate. For each two
//! consecutive segments, lag = spacing at arrival / spacing at departure, averaged twice (gains 1/4
//! and 1/16). Once per round trip: if the long average is above 1 + `above`, the sending rate
//! exceeds the rate of the path and is multiplied by `decrease`; if both averages are below 1 +
//! `above` / 2, the rate grows by one segment per round trip. A loss is classified as wireless if
//! the spacing around it, per segment, is within `deviations` mean deviations of its mean;
//! otherwise it is congestion, and the rate is reduced. Sender: it paces at the reported rate; its
//! window is twice the product of that rate and the round-trip time. It does not reduce its rate on
//! losses. Without feedback the retransmission timer sends one segment per expiry, with back-off.
//!
//! Assumes that the spacing of the sender persists up to the bottleneck. Bad at: short flows, links
//! with varying rate or delay, fairness towards TCP, delayed ACKs (older rates).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::segment::{Flags, Segment};
use lasthop_core::units::{Rate, Share, Time};
use lasthop_tcp::receiver::{ReceiverRule, Reply};
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::sender::timestamp;
use lasthop_tcp::window::{
    Ack, Loss, LossClass, LossKind, Needs, Report, Window, WindowRule, reduce_to, window_rule,
};

/// Settings of WTCP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Wtcp {
    /// Maximum of the long average of the lag above 1.
    pub above: Share,
    /// Factor of the rate at congestion.
    pub decrease: Share,
    /// Maximum deviation of the spacing at a loss of the radio, in mean deviations.
    #[schemars(extend("unit" = "mean deviations"))]
    pub deviations: f64,
    /// Loss recovery under the rule; unset: the profile's, or "sack" if the profile has none.
    pub recovery: Option<RecoverySetting>,
}

impl Default for Wtcp {
    fn default() -> Self {
        Wtcp { above: Share(0.1), decrease: Share(0.75), deviations: 2.0, recovery: None }
    }
}

impl SchemeConfig for Wtcp {
    const ENTRY: Entry = Entry {
        name: "wtcp",
        family: Family::EndToEnd,
        group: Some(Group::BandwidthEstimation),
        summary: "paces at a rate that the receiver finds by comparing spacings at arrival and \
                  departure (a reconstruction)",
        paper: "Sinha et al., Wireless Networks 8, 2002",
        changes: Footprint { sender: true, receiver: true, wire: true, ..Footprint::NONE },
        assumptions: &[
            "the sender's spacing survives until the narrowest link",
            "that link keeps its rate",
        ],
        unsafe_: Some("beside TCP: it reduces nothing for losses whose spacing looks as usual"),
        ..Entry::DEFAULT
    };

    fn check(&self) -> Result<(), String> {
        if !(self.above.0 > 0.0 && self.above.0 <= 1.0) {
            return Err(format!(
                "above must be above 0 % and at most 100 %, found {}",
                self.above.0
            ));
        }
        if !(self.decrease.0 > 0.0 && self.decrease.0 < 1.0) {
            return Err(format!(
                "decrease must be above 0 % and below 100 %, found {}",
                self.decrease.0
            ));
        }
        if !(self.deviations >= 0.0 && self.deviations.is_finite()) {
            return Err(format!("deviations must be at least 0, found {}", self.deviations));
        }
        Ok(())
    }

    fn window(&self) -> Option<AnyWindow> {
        Some(AnyWindow::from(WtcpWindow { rate: None }))
    }

    fn recovery(&self) -> Option<RecoverySlot> {
        Some(RecoverySlot::chosen(self.recovery, Recovery::of(RecoveryKind::Sack)))
    }

    fn needs(&self) -> Needs {
        Needs { timestamps: true, ..Needs::default() }
    }

    fn receiver(&self) -> Option<Box<dyn ReceiverRule>> {
        Some(Box::new(Spacing::new(self)))
    }
}

/// The sender.
#[derive(Clone, Copy, Debug)]
pub struct WtcpWindow {
    rate: Option<Rate>,
}

#[window_rule]
impl WindowRule for WtcpWindow {
    fn on_ack(&mut self, _window: &mut Window, _ack: &Ack) {}

    fn on_report(&mut self, window: &mut Window, report: &Report) {
        let bits = u64::from(report.value.max(1)) * 1000;
        self.rate = Some(Rate(bits));
        let two_round_trips = report.srtt.map_or(0.0, |rtt| bits as f64 / 4.0 * rtt.as_secs());
        window.cwnd = two_round_trips.clamp(4.0 * f64::from(report.mss), MAX_CWND);
    }

    /// The receiver reports the class of losses. A timeout sends one segment.
    fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
        match loss.kind {
            LossKind::DuplicateAcks => {}
            LossKind::Timeout => reduce_to(window, loss, window.cwnd),
            LossKind::Ecn => reduce_to(window, loss, loss.base() / 2.0),
        }
        LossClass::Unclassified
    }

    fn pacing(&self) -> Option<Rate> {
        self.rate
    }

    fn steers_recovery(&self) -> bool {
        true
    }
}

/// The largest receive window, bytes.
const MAX_CWND: f64 = 1_073_741_824.0;

/// A mean with its mean deviation.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    mean: Option<f64>,
    deviation: f64,
}

impl Mean {
    fn take(&mut self, value: f64, gain: f64) {
        match &mut self.mean {
            Some(mean) => {
                self.deviation += gain * ((value - *mean).abs() - self.deviation);
                *mean += gain * (value - *mean);
            }
            None => self.mean = Some(value),
        }
    }
}

/// The receiver. Times in seconds, rates in bytes per second.
#[derive(Clone, Debug)]
struct Spacing {
    above: f64,
    decrease: f64,
    deviations: f64,
    /// The last arrival: its time, the byte after it, and its time of sending (us, wrapping).
    last: Option<(Time, u64, u32)>,
    short: Mean,
    long: Mean,
    /// Spacing of arrivals without losses.
    apart: Mean,
    /// Round-trip time by the echoes of the receiver's timestamps.
    round: Mean,
    rate: Option<f64>,
    adjusted: Time,
    mss: u32,
}

impl Spacing {
    fn new(settings: &Wtcp) -> Self {
        Spacing {
            above: settings.above.0,
            decrease: settings.decrease.0,
            deviations: settings.deviations,
            last: None,
            short: Mean::default(),
            long: Mean::default(),
            apart: Mean::default(),
            round: Mean::default(),
            rate: None,
            adjusted: Time::ZERO,
            mss: 1,
        }
    }

    /// A segment that was sent right after the last one that arrived.
    fn on_pair(&mut self, now: Time, apart: f64, sent: f64, len: u32) {
        if apart > 0.0 {
            self.apart.take(apart, 1.0 / 16.0);
            if self.rate.is_none() {
                (self.rate, self.adjusted) = (Some(f64::from(len) / apart), now);
            }
        }
        // A pair that was sent back to back does not show the sender's spacing.
        if sent > 0.0 {
            self.short.take(apart / sent, 0.25);
            self.long.take(apart / sent, 1.0 / 16.0);
        }
    }

    /// `n` segments are missing before one that arrived `apart` after the last: true if the radio
    /// has lost them.
    fn is_wireless(&self, apart: f64, n: u64) -> bool {
        let each = apart / (n as f64 + 1.0);
        self.apart.mean.is_some_and(|mean| {
            (each - mean).abs() <= self.deviations * self.apart.deviation.max(0.01 * mean)
        })
    }

    fn fall(&mut self, now: Time) {
        self.rate = self.rate.map(|r| r * self.decrease);
        (self.short, self.long) = (Mean::default(), Mean::default());
        self.adjusted = now;
    }

    /// Adjusts the rate, once per round trip.
    fn adjust(&mut self, now: Time) {
        let (Some(rate), Some(round), Some(short), Some(long)) =
            (self.rate, self.round.mean, self.short.mean, self.long.mean)
        else {
            return;
        };
        if (now - self.adjusted).as_secs() < round || round <= 0.0 {
            return;
        }
        if long > 1.0 + self.above {
            self.fall(now);
        } else if long.max(short) < 1.0 + self.above / 2.0 {
            self.rate = Some(rate + f64::from(self.mss) / round);
            self.adjusted = now;
        }
    }
}

impl ReceiverRule for Spacing {
    fn on_data(&mut self, now: Time, segment: &Segment, _expected: u64, highest: u64) -> Reply {
        if !segment.flags.has(Flags::TIMESTAMPS) {
            return Reply::default();
        }
        self.mss = self.mss.max(segment.len);
        let mut said = LossClass::Unclassified;
        if segment.ts_echo > 0 {
            self.round.take(f64::from(timestamp(now).wrapping_sub(segment.ts_echo)) * 1e-6, 0.125);
        }
        if let Some((at, end, sent)) = self.last.filter(|_| segment.seq >= highest) {
            let apart = (now - at).as_secs();
            let missing = (segment.seq - highest).div_ceil(u64::from(self.mss));
            if missing == 0 && end == segment.seq {
                self.on_pair(
                    now,
                    apart,
                    f64::from(segment.ts_value.wrapping_sub(sent)) * 1e-6,
                    segment.len,
                );
            } else if missing > 0 {
                said = if self.is_wireless(apart, missing) {
                    LossClass::Wireless
                } else {
                    LossClass::Congestion
                };
                if said == LossClass::Congestion {
                    self.fall(now);
                }
            }
        }
        if segment.seq >= highest {
            self.last = Some((now, segment.end(), segment.ts_value));
        }
        self.adjust(now);
        // At least a segment per second.
        self.rate = self.rate.map(|r| r.clamp(f64::from(self.mss), 1e11));
        let flags = if self.rate.is_some() { Flags::REPORT } else { Flags::NONE };
        Reply {
            flags,
            report: self.rate.map_or(0, |r| (r / 125.0) as u32),
            said,
            ..Reply::default()
        }
    }

    fn classifies(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::harness::{loss, segments, timeout, window};
    use lasthop_core::units::Duration;
    use proptest::prelude::*;

    /// Rates in kbit/s after segments `(number, sent at, arrived at)`, in ms; each is sent 100 ms
    /// after an ACK that it echoes.
    fn rates(arrivals: &[(u64, u64, u64)]) -> Vec<(u32, LossClass)> {
        let mut rule = Spacing::new(&Wtcp::default());
        let mut highest = 0;
        arrivals
            .iter()
            .map(|&(n, sent, at)| {
                let now = Time::ZERO + Duration::millis(at);
                let stamps = (sent as u32 * 1000, (at as u32 - 100) * 1000);
                let segment = Segment {
                    seq: n * 1000,
                    len: 1000,
                    ts_value: stamps.0,
                    ts_echo: stamps.1,
                    flags: Flags::TIMESTAMPS,
                    ..Segment::default()
                };
                let reply = rule.on_data(now, &segment, highest, highest);
                highest = highest.max(segment.end());
                (reply.report, reply.said)
            })
            .collect()
    }

    fn spaced(
        from: u64,
        count: u64,
        at: u64,
        sent_each: u64,
        come_each: u64,
    ) -> Vec<(u64, u64, u64)> {
        (0..count).map(|i| (from + i, at + i * sent_each, at + 200 + i * come_each)).collect()
    }

    /// Sent at once, 10 ms apart when they come: 800 kbit/s.
    #[test]
    fn a_packet_pair_gives_the_first_rate() {
        assert_eq!(
            rates(&[(0, 1000, 1200), (1, 1000, 1210)]),
            [(0, LossClass::Unclassified), (800, LossClass::Unclassified)]
        );
    }

    /// With the spacing at departure: a segment more for each round trip of 100 ms, 80 kbit/s. With
    /// a larger one: three quarters.
    #[test]
    fn the_rate_follows_the_spacing() {
        let got = rates(&spaced(0, 40, 1000, 10, 10));
        assert_eq!((got[1].0, got[39].0), (800, 1040));
        let got = rates(&spaced(0, 13, 1000, 10, 12));
        assert_eq!((got[1].0, got[12].0), (666, 500));
    }

    #[test]
    fn losses_that_keep_the_spacing_are_the_radios() {
        let mut arrivals = spaced(0, 40, 1000, 10, 10);
        arrivals.push((41, 1410, 1610));
        let before = rates(&arrivals)[39].0;
        assert_eq!(rates(&arrivals)[40].1, LossClass::Wireless);
        arrivals[40].2 = 1600;
        let (after, said) = rates(&arrivals)[40];
        assert_eq!((after, said), (before * 3 / 4, LossClass::Congestion));
    }

    #[test]
    fn the_sender_paces_and_reduces_nothing_for_losses() {
        let mut rule = WtcpWindow { rate: None };
        let mut w = window(2.0, 20.0);
        assert_eq!(rule.pacing(), None);
        rule.on_report(
            &mut w,
            &Report {
                now: Time::ZERO,
                value: 800,
                srtt: Some(Duration::millis(100)),
                flight: 0,
                mss: 1000,
            },
        );
        assert_eq!((rule.pacing(), segments(&w)), (Some(Rate(800_000)), (20.0, 20.0)));
        rule.on_loss(&mut w, &loss(20));
        assert_eq!(segments(&w), (20.0, 20.0));
        rule.on_loss(&mut w, &timeout(20));
        assert_eq!(segments(&w), (1.0, 20.0));
    }

    proptest! {
        #[test]
        fn no_arrivals_break_it(
            arrivals in prop::collection::vec(
                (0u64..1 << 40, 0u64..1 << 20, any::<u32>(), any::<u32>(), 1u32..3000),
                0..200,
            ),
        ) {
            let (mut rule, mut now, mut highest) = (Spacing::new(&Wtcp::default()), 0, 0);
            for (after, seq, ts_value, ts_echo, len) in arrivals {
                now += after;
                let flags = Flags::TIMESTAMPS;
                let segment = Segment { seq, len, ts_value, ts_echo, flags, ..Segment::default() };
                let reply = rule.on_data(Time(now), &segment, highest, highest);
                highest = highest.max(segment.end());
                let reports = reply.flags.has(Flags::REPORT);
                prop_assert!(!reports || reply.report >= 8 * rule.mss / 1000);
            }
        }
    }
}
