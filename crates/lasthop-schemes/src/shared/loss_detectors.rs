//! What tells a loss of the radio from one of congestion by the times at which packets arrive: a
//! library for receivers.
//!
//! A detector sees every arrival and is asked when one reveals a gap. Biaz and mBiaz look at the
//! time between the packets around the gap, Spike and ZigZag at the relative one-way trip time
//! (ROTT: arrival minus sender's stamp, with an unknown offset), ZBS picks one of them. Sources:
//! Biaz and Vaidya, ASSET 1999 (Biaz); Cen, Cosman and Voelker, IEEE/ACM ToN 11(5), 2003 (mBiaz,
//! ZigZag, ZBS); Tobe et al., 2000 (Spike); Samaraweera, IEE Proc. Commun. 146(4), 1999 (NCPLD, at
//! the sender there). Kim, Lu and Bharghavan (ICCCN 1999), whom paul2005 lists too, are no source
//! here: their LIMD/H is a rate control that judges by the history of losses, and only its abstract
//! could be read. All assume that the last hop is the narrowest, that packets are of one size, and
//! that nothing overtakes.
//!
//! Tmin, the smallest time between two full packets, is the service time of the last hop. It
//! shrinks when packets come in bunches (after an outage, or behind link-layer retransmission) and
//! is too small from then on: `TminRule` bounds its memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use lasthop_core::units::{Duration, Time};
use lasthop_tcp::window::LossClass;

/// The detectors by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DetectorKind {
    /// One lost packet: wireless if Tmin < gap <= 2 Tmin (the slides of Selective-TCP, word for
    /// word; more lost packets are judged by the same bounds).
    Slide,
    /// n lost packets: wireless if (n + 1) Tmin <= gap < (n + 2) Tmin.
    Biaz,
    /// n lost packets: wireless if (n + 1) Tmin <= gap < (n + 1.25) Tmin.
    Mbiaz,
    /// n lost packets: wireless if (n + 0.5) Tmin < gap <= (n + 1.5) Tmin: Biaz with room for
    /// jitter on both sides.
    #[default]
    Centred,
    /// Congestion while the ROTT is in a spike.
    Spike,
    /// Wireless if the ROTT is below its mean by an amount that depends on n.
    Zigzag,
    /// Spike, ZigZag or mBiaz, as the times between arrivals suggest.
    Zbs,
    /// Wireless while the ROTT is below that of the knee, from which on more load brings no more
    /// packets.
    Ncpld,
}

impl DetectorKind {
    /// It looks at trip times, which the sender's stamps give.
    pub fn needs_timestamps(self) -> bool {
        matches!(
            self,
            DetectorKind::Spike | DetectorKind::Zigzag | DetectorKind::Zbs | DetectorKind::Ncpld
        )
    }
}

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub now: Time,
    /// Arrival minus the sender's stamp, with any offset; `None` without stamps.
    pub rott: Option<Duration>,
    /// It is of full size: the time since the last full one counts for Tmin.
    pub full: bool,
}

/// How long Tmin is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TminRule {
    /// For ever, as in the slides.
    Always,
    /// The smallest of the last so long, in two halves.
    Last(Duration),
}

/// Tolerance of the rules whose bounds lie on what they compare with (1e-6 of Tmin): equal times
/// differ in the last digit.
const EDGE: f64 = 1e-6;

/// A detector with what it remembers. Times in seconds.
#[derive(Clone, Debug)]
pub struct Detector {
    kind: DetectorKind,
    tmin: Tmin,
    last: Option<Time>,
    last_full: bool,
    gap: f64,
    trip: Trip,
    /// Mean time between arrivals (gain 1/32).
    tavg: Option<f64>,
    knee: Knee,
}

impl Detector {
    /// One that has seen nothing.
    pub fn new(kind: DetectorKind, tmin: TminRule) -> Self {
        Detector {
            kind,
            tmin: Tmin::new(tmin),
            last: None,
            last_full: false,
            gap: 0.0,
            trip: Trip::default(),
            tavg: None,
            knee: Knee::default(),
        }
    }

    /// A packet has arrived. Call it for each, in order or not, before `classify`.
    pub fn on_arrival(&mut self, arrival: &Arrival) {
        if let Some(last) = self.last {
            self.gap = (arrival.now - last).as_secs();
            if arrival.full && self.last_full && self.gap > 0.0 {
                self.tmin.take(arrival.now, self.gap);
                self.tavg = Some(self.tavg.map_or(self.gap, |t| t + (self.gap - t) / 32.0));
            }
        }
        if let Some(rott) = arrival.rott {
            self.trip.take(rott.as_secs());
            self.knee.take(arrival.now, rott.as_secs());
        }
        (self.last, self.last_full) = (Some(arrival.now), arrival.full);
    }

    /// The last arrival revealed that `missing` packets before it did not come: why. `None` while
    /// too little is known.
    pub fn classify(&self, missing: u64) -> Option<LossClass> {
        let n = missing.max(1);
        self.by(self.kind, n)
            .map(|wireless| if wireless { LossClass::Wireless } else { LossClass::Congestion })
    }

    /// Smallest time between two full packets, in seconds.
    pub fn tmin(&self) -> Option<f64> {
        self.tmin.get()
    }

    fn by(&self, kind: DetectorKind, n: u64) -> Option<bool> {
        let times = self.tmin.get().map(|t| self.gap / t);
        let n_ = n as f64;
        match kind {
            DetectorKind::Slide => times.map(|g| g > 1.0 + EDGE && g <= 2.0 + EDGE),
            DetectorKind::Biaz => times.map(|g| g >= n_ + 1.0 - EDGE && g < n_ + 2.0 - EDGE),
            DetectorKind::Mbiaz => times.map(|g| g >= n_ + 1.0 - EDGE && g < n_ + 1.25 - EDGE),
            DetectorKind::Centred => times.map(|g| g > n_ + 0.5 && g <= n_ + 1.5),
            DetectorKind::Spike => self.trip.known().then_some(!self.trip.spike),
            DetectorKind::Zigzag => self.trip.known().then(|| self.trip.below_mean(n)),
            DetectorKind::Zbs => self.by(self.zbs()?, n),
            DetectorKind::Ncpld => self.knee.rott().map(|knee| self.trip.rott < knee),
        }
    }

    /// Which of the others ZBS trusts (Cen et al., section V).
    fn zbs(&self) -> Option<DetectorKind> {
        let (tmin, tavg) = (self.tmin.get()?, self.tavg?);
        let narrow = tavg / tmin;
        Some(match narrow {
            _ if self.trip.known() && self.trip.rott < self.trip.min + 0.05 * tmin => {
                DetectorKind::Spike
            }
            x if x < 0.875 => DetectorKind::Zigzag,
            x if x < 1.5 => DetectorKind::Mbiaz,
            x if x < 2.0 => DetectorKind::Zigzag,
            _ => DetectorKind::Spike,
        })
    }
}

/// The smallest of recent values: that of the present half of its memory and that of the half
/// before.
#[derive(Clone, Copy, Debug)]
struct Tmin {
    rule: TminRule,
    now: Option<f64>,
    before: Option<f64>,
    since: Time,
}

impl Tmin {
    fn new(rule: TminRule) -> Self {
        Tmin { rule, now: None, before: None, since: Time::ZERO }
    }

    fn take(&mut self, at: Time, value: f64) {
        if let TminRule::Last(memory) = self.rule
            && at - self.since > Duration(memory.0 / 2)
        {
            (self.before, self.now, self.since) = (self.now, None, at);
        }
        self.now = Some(self.now.map_or(value, |n| n.min(value)));
    }

    fn get(&self) -> Option<f64> {
        match (self.now, self.before) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// The relative one-way trip times: extremes, mean and mean deviation (gains 1/32 and 1/16, Cen et
/// al.).
#[derive(Clone, Copy, Debug, Default)]
struct Trip {
    samples: u64,
    rott: f64,
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
    /// In a spike: entered above min + (max - min) / 2, left below min + (max - min) / 3.
    spike: bool,
}

impl Trip {
    fn take(&mut self, rott: f64) {
        if self.samples == 0 {
            (self.min, self.max, self.mean) = (rott, rott, rott);
        }
        self.samples += 1;
        self.rott = rott;
        (self.min, self.max) = (self.min.min(rott), self.max.max(rott));
        self.deviation += ((rott - self.mean).abs() - self.deviation) / 16.0;
        self.mean += (rott - self.mean) / 32.0;
        let range = self.max - self.min;
        if rott > self.min + range / 2.0 {
            self.spike = true;
        } else if rott < self.min + range / 3.0 {
            self.spike = false;
        }
    }

    fn known(&self) -> bool {
        self.samples > 1
    }

    /// ZigZag's condition for n lost packets.
    fn below_mean(&self, n: u64) -> bool {
        let deviations = match n {
            1 => 1.0,
            2 => 0.5,
            3 => 0.0,
            _ => 0.5,
        };
        self.rott < self.mean - deviations * self.deviation
    }
}

/// NCPLD's knee, from what a receiver sees: the smallest ROTT of a tenth of a second in which nine
/// tenths of the largest number of packets came. (Samaraweera takes it from throughput and
/// round-trip time at the sender; this is our reading.)
#[derive(Clone, Copy, Debug, Default)]
struct Knee {
    from: Time,
    packets: u64,
    sum: f64,
    most: u64,
    /// ROTT of the spans that reached it, the smallest.
    at: Option<f64>,
}

impl Knee {
    const SPAN: Duration = Duration::millis(100);

    fn take(&mut self, now: Time, rott: f64) {
        if now - self.from >= Self::SPAN {
            self.end_span();
            self.from = now;
        }
        self.packets += 1;
        self.sum += rott;
    }

    fn end_span(&mut self) {
        let (packets, mean) = (self.packets, self.sum / self.packets.max(1) as f64);
        (self.packets, self.sum) = (0, 0.0);
        if packets * 10 > self.most * 11 {
            // Much more than ever: what was taken for the knee was below it.
            (self.most, self.at) = (packets, Some(mean));
        } else if packets * 10 >= self.most * 9 {
            self.most = self.most.max(packets);
            self.at = Some(self.at.map_or(mean, |a| a.min(mean)));
        }
    }

    fn rott(&self) -> Option<f64> {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LossClass::{Congestion, Wireless};

    const T: u64 = 8_320_000; // ns; a packet of 1040 bytes at 1 Mbit/s

    fn at(ns: u64) -> Time {
        Time(ns)
    }

    fn arrival(ns: u64, rott_ms: u64) -> Arrival {
        Arrival { now: at(ns), rott: Some(Duration::millis(rott_ms)), full: true }
    }

    /// A saturated link: a packet each T, then one after `gap` with `rott`, which reveals `n`
    /// missing ones.
    fn after(kind: DetectorKind, n: u64, gap: f64, rott_ms: u64) -> Option<LossClass> {
        let mut d = Detector::new(kind, TminRule::Always);
        // Trip times between 100 and 160 ms, 130 ms in the mean.
        for i in 0..400u64 {
            d.on_arrival(&arrival(i * T, 100 + (i * 7) % 61));
        }
        d.on_arrival(&arrival(399 * T + (gap * T as f64) as u64, rott_ms));
        d.classify(n)
    }

    /// A packet that the radio lost has used its time; one that a queue before it dropped has not.
    #[test]
    fn rules_of_the_gap_know_single_losses_by_their_time() {
        for kind in
            [DetectorKind::Biaz, DetectorKind::Mbiaz, DetectorKind::Centred, DetectorKind::Slide]
        {
            assert_eq!(after(kind, 1, 2.0, 130), Some(Wireless), "{kind:?}");
            assert_eq!(after(kind, 1, 1.0, 130), Some(Congestion), "{kind:?}");
            assert_eq!(after(kind, 1, 5.0, 130), Some(Congestion), "{kind:?}");
        }
    }

    /// Seven packets in a row: the slide's bounds are for one and call it congestion.
    #[test]
    fn bursts_are_known_by_their_length_but_not_to_the_slide() {
        for (kind, said) in [
            (DetectorKind::Biaz, Wireless),
            (DetectorKind::Mbiaz, Wireless),
            (DetectorKind::Centred, Wireless),
            (DetectorKind::Slide, Congestion),
        ] {
            assert_eq!(after(kind, 7, 8.0, 130), Some(said), "{kind:?}");
        }
    }

    /// Jitter of a fifth of a packet's time: the centred rule has room on both sides, Biaz none
    /// below, mBiaz a quarter above.
    #[test]
    fn jitter_breaks_rules_whose_bound_is_the_expected_value() {
        let early = |kind| after(kind, 1, 1.8, 130).unwrap();
        let late = |kind| after(kind, 1, 2.2, 130).unwrap();
        assert_eq!(
            [early(DetectorKind::Centred), late(DetectorKind::Centred)],
            [Wireless, Wireless]
        );
        assert_eq!([early(DetectorKind::Biaz), late(DetectorKind::Biaz)], [Congestion, Wireless]);
        assert_eq!([early(DetectorKind::Slide), late(DetectorKind::Slide)], [Wireless, Congestion]);
        assert_eq!(after(DetectorKind::Mbiaz, 1, 2.3, 130), Some(Congestion));
        assert_eq!(after(DetectorKind::Biaz, 1, 2.3, 130), Some(Wireless));
    }

    #[test]
    fn rules_of_the_trip_time_know_losses_by_the_queue() {
        for kind in [DetectorKind::Spike, DetectorKind::Zigzag] {
            assert_eq!(after(kind, 1, 1.0, 100), Some(Wireless), "{kind:?}");
            assert_eq!(after(kind, 1, 1.0, 160), Some(Congestion), "{kind:?}");
        }
    }

    /// The mean is 130 ms and the deviation 15 ms: 120 ms is low enough for two lost packets and
    /// not for one.
    #[test]
    fn zigzag_asks_less_of_longer_losses() {
        assert_eq!(after(DetectorKind::Zigzag, 1, 1.0, 120), Some(Congestion));
        assert_eq!(after(DetectorKind::Zigzag, 2, 1.0, 120), Some(Wireless));
        assert_eq!(after(DetectorKind::Zigzag, 3, 1.0, 128), Some(Wireless));
        assert_eq!(after(DetectorKind::Zigzag, 4, 1.0, 128), Some(Congestion));
    }

    /// Above half of the range it begins, and it lasts until below a third.
    #[test]
    fn a_spike_has_two_thresholds() {
        let mut d = Detector::new(DetectorKind::Spike, TminRule::Always);
        let mut said = |i: u64, rott| {
            d.on_arrival(&arrival(i * T, rott));
            d.classify(1)
        };
        assert_eq!([said(0, 100), said(1, 160)], [None, Some(Congestion)]);
        assert_eq!([said(2, 125), said(3, 119)], [Some(Congestion), Some(Wireless)]);
        assert_eq!([said(4, 129), said(5, 131)], [Some(Wireless), Some(Congestion)]);
    }

    /// On a saturated link the mean time between arrivals is Tmin: mBiaz. With twice the time a
    /// shared one: Spike.
    #[test]
    fn zbs_picks_by_the_spacing() {
        let pick = |spacing: f64, rott| {
            let mut d = Detector::new(DetectorKind::Zbs, TminRule::Always);
            d.on_arrival(&arrival(0, 100));
            d.on_arrival(&arrival(T, 110));
            (1..500u64).for_each(|i| {
                d.on_arrival(&arrival(T + (i as f64 * spacing * T as f64) as u64, rott))
            });
            d.zbs().unwrap()
        };
        assert_eq!(pick(1.0, 110), DetectorKind::Mbiaz);
        assert_eq!(pick(1.7, 110), DetectorKind::Zigzag);
        assert_eq!(pick(3.0, 110), DetectorKind::Spike);
        assert_eq!(pick(1.0, 100), DetectorKind::Spike);
    }

    /// Half the packets at 100 ms, all at 110 ms and still all at 150 ms: the knee is 110 ms.
    #[test]
    fn ncpld_finds_the_knee() {
        let mut d = Detector::new(DetectorKind::Ncpld, TminRule::Always);
        let mut now = 0;
        for (rott, spacing, count) in [(100, 2 * T, 100), (110, T, 200), (150, T, 200)] {
            for _ in 0..count {
                now += spacing;
                d.on_arrival(&arrival(now, rott));
            }
        }
        assert_eq!(d.classify(1), Some(Congestion));
        d.on_arrival(&arrival(now + T, 105));
        assert_eq!(d.classify(1), Some(Wireless));
    }

    /// After an outage packets come in a bunch: a Tmin for ever stays at their spacing and calls
    /// each radio loss congestion.
    #[test]
    fn a_bunch_spoils_tmin_for_ever_or_for_ten_seconds() {
        let run = |rule| {
            let mut d = Detector::new(DetectorKind::Centred, rule);
            let mut now = 0;
            let mut step = |d: &mut Detector, by: u64| {
                now += by;
                d.on_arrival(&arrival(now, 100));
            };
            (0..100).for_each(|_| step(&mut d, T));
            (0..20).for_each(|_| step(&mut d, T / 10));
            (0..3000).for_each(|_| step(&mut d, T));
            step(&mut d, 2 * T);
            d.classify(1)
        };
        assert_eq!(run(TminRule::Always), Some(Congestion));
        assert_eq!(run(TminRule::Last(Duration::secs(10))), Some(Wireless));
    }

    #[test]
    fn small_packets_do_not_count_and_nothing_is_said_without_knowledge() {
        let mut d = Detector::new(DetectorKind::Biaz, TminRule::Always);
        assert_eq!(d.classify(1), None);
        d.on_arrival(&arrival(0, 100));
        d.on_arrival(&Arrival { now: at(T / 20), rott: None, full: false });
        d.on_arrival(&arrival(T, 100));
        assert_eq!(d.tmin(), None);
        d.on_arrival(&arrival(2 * T, 100));
        assert!((d.tmin().unwrap() - T as f64 / 1e9).abs() < 1e-12);
    }
}
