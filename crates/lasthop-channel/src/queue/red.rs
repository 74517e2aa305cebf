//! RED, random early detection: frames are dropped or marked with a probability that grows with the
//! average queue length.
//!
//! Source: Floyd and Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993 (figure 2 and section 4; idle times section 5). "Gentle"
//! is Floyd's addition of 2000: between `max_th` and twice that, the probability rises linearly
//! from `max_p` to 1 instead of jumping. With `ecn` a frame is marked instead of dropped early;
//! where the probability is 1 it is dropped nevertheless (RFC 3168, section 7).
//!
//! The parameters are ns-2's: `min_th` = `thresh_`, `max_th` = `maxthresh_`, `max_p` = 1 /
//! `linterm_`, `w_q` = `q_weight_`, `mean_packet` = `mean_pktsize_`, `ecn` = `setbit_`, `gentle`
//! and `wait` = `gentle_` and `wait_`; thresholds in bytes are `queue_in_bytes_` and `bytes_`.
//! Differences: ns-2 counts the arriving frame and the one being sent towards its limit (L = N +
//! 1), and does not drop the first frame after the average exceeds `min_th` or a frame that arrives
//! at a queue of fewer than two.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::average::Average;
use super::discipline::{
    Fault, Frame, LinkFacts, Load, Outcome, QueueDiscipline, QueueSettings, Queued,
};
use super::drop_reason;
use super::fifo::{Fifo, counted, number, same_unit, text};
use crate::sample::Sample;
use lasthop_core::random::Stream;
use lasthop_core::units::{QueueLimit, Share, Size, Time};

/// Random early detection: drops or marks with a probability that grows with the average queue
/// length. The defaults are ns-2's.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Red {
    /// Below this average queue length nothing is dropped. Default: 5 packets.
    pub min_th: QueueLimit,
    /// Average queue length at which the probability is `max_p`, in the unit of `min_th`. Default:
    /// 15 packets, three times the default of `min_th`.
    pub max_th: QueueLimit,
    /// Drop probability at `max_th`. Default: 10 %.
    pub max_p: Share,
    /// Weight of each arrival in the average. Default: 0.2 %.
    pub w_q: Share,
    /// From `max_th` to twice that, the probability rises linearly to 1; off: it is 1 from `max_th`
    /// on. Default: true.
    pub gentle: bool,
    /// After a drop, do not drop the next 1/p frames: drops are 1/p to 2/p frames apart instead of
    /// up to 1/p (ns-2's `wait_`, true there). Default: false, the paper's rule.
    pub wait: bool,
    /// Mark ECN-capable frames instead of dropping them early. Default: false.
    pub ecn: bool,
    /// Typical frame size, for the decay of the average while the link is idle, and to scale the
    /// probability if thresholds are in bytes. Default: 500 B.
    pub mean_packet: Size,
}

impl Default for Red {
    fn default() -> Self {
        Red {
            min_th: QueueLimit::Packets(5),
            max_th: QueueLimit::Packets(15),
            max_p: Share(0.1),
            w_q: Share(0.002),
            gentle: true,
            wait: false,
            ecn: false,
            mean_packet: Size::Bytes(500),
        }
    }
}

impl QueueSettings for Red {
    type Queue = RedQueue;
    const IS_RANDOM: bool = true;

    fn build(&self, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> RedQueue {
        RedQueue::new(self, limit, link)
    }

    fn threshold(&self) -> Option<(&'static str, QueueLimit)> {
        Some(("min_th", self.min_th))
    }

    fn check(&self) -> Result<(), Fault> {
        let (min, max) = (self.min_th, self.max_th);
        if !same_unit(min, max) {
            return Err((
                "max_th",
                format!(
                    "min_th and max_th must both be packets or both bytes, found {} and {}",
                    text(min),
                    text(max)
                ),
            ));
        }
        if number(max) <= number(min) {
            return Err((
                "max_th",
                format!("must be above min_th = {}, found {}", text(min), text(max)),
            ));
        }
        if self.max_p.0 <= 0.0 {
            return Err(("max_p", "must be above 0: with 0 nothing is dropped early".into()));
        }
        if self.w_q.0 <= 0.0 {
            return Err(("w_q", "must be above 0: with 0 the average queue never changes".into()));
        }
        match self.mean_packet {
            Size::Bytes(1..=65_535) => Ok(()),
            other => Err((
                "mean_packet",
                format!(
                    "expected bytes such as \"500 B\", from 1 to 65535, found \"{}\"",
                    lasthop_core::units::Quantity::text(&other)
                ),
            )),
        }
    }

    fn may_drop(&self, reason: &str, frame: &Queued) -> bool {
        frame.is_arriving
            && match reason {
                drop_reason::RED_EARLY => !frame.is_marked_instead(self.ecn),
                drop_reason::RED_FORCED => true,
                _ => reason == drop_reason::FULL && frame.exceeds_limit,
            }
    }

    fn may_mark(&self, reason: &str, frame: &Queued) -> bool {
        self.ecn && reason == drop_reason::RED_EARLY && frame.is_arriving
    }

    fn sample(s: &mut Sample<'_>) -> Self {
        let min_th = s.queue_length();
        let more = s.whole(1, 30);
        let max_th = match min_th {
            QueueLimit::Packets(n) => QueueLimit::Packets(n + more),
            QueueLimit::Bytes(n) => QueueLimit::Bytes(n + 1000 * more),
        };
        Red {
            min_th,
            max_th,
            max_p: s.share(),
            w_q: s.share(),
            gentle: s.flag(),
            wait: s.flag(),
            ecn: s.flag(),
            mean_packet: Size::Bytes(s.whole(1, 2000)),
        }
    }
}

/// Reasons for drops and marks.
pub mod reasons {
    /// RED's random early drop or mark.
    pub const RED_EARLY: &str = "red early";
    /// RED's average queue is so long that the drop probability is 1.
    pub const RED_FORCED: &str = "red forced";
}

/// A RED queue.
#[derive(Clone, Debug)]
pub struct RedQueue {
    fifo: Fifo,
    settings: Red,
    mean_packet: f64,
    average: Average,
    /// Frames since the last early drop or mark; `None` while the average is below `min_th`.
    count: Option<u64>,
    /// Bytes of these frames.
    count_bytes: u64,
    arrived: u64,
    draws: Stream,
}

impl RedQueue {
    /// An empty queue.
    pub fn new(settings: &Red, limit: Option<QueueLimit>, link: &LinkFacts<'_>) -> RedQueue {
        let mean_packet = settings.mean_packet.bytes(link.full_frame).max(1);
        RedQueue {
            fifo: Fifo::new(limit),
            settings: *settings,
            mean_packet: mean_packet as f64,
            average: Average::new(settings.w_q.0, link.rate.time_for(mean_packet)),
            count: None,
            count_bytes: 0,
            arrived: 0,
            draws: Stream::new(link.seed, &format!("red {}", link.name)),
        }
    }

    /// RED's decision for an arriving frame: `None` accepts it, otherwise it is dropped or marked
    /// for this reason.
    fn decide(&mut self, now: Time, bytes: u32) -> Option<&'static str> {
        let ordinal = self.arrived;
        self.arrived += 1;
        let Red { min_th, max_th, gentle, .. } = self.settings;
        let average = self.average.update(now, counted(self.fifo.load(), min_th));
        let all_from = number(max_th) as f64 * if gentle { 2.0 } else { 1.0 };
        if average < number(min_th) as f64 {
            self.count = None;
            return None;
        }
        if average >= all_from {
            (self.count, self.count_bytes) = (Some(0), 0);
            return Some(drop_reason::RED_FORCED);
        }
        let count = self.count.map_or(0, |c| c + 1);
        self.count_bytes = if count == 0 { 0 } else { self.count_bytes + u64::from(bytes) };
        self.count = Some(count);
        if self.draws.uniform(ordinal) >= self.probability(average, count, bytes) {
            return None;
        }
        (self.count, self.count_bytes) = (Some(0), 0);
        Some(drop_reason::RED_EARLY)
    }

    fn marks(&self, frame: &mut Frame, reason: &'static str, outcomes: &mut Vec<Outcome>) -> bool {
        self.settings.ecn && reason == drop_reason::RED_EARLY && frame.mark(reason, outcomes)
    }

    /// p_a at this average, `count` frames after the last drop.
    fn probability(&self, average: f64, count: u64, bytes: u32) -> f64 {
        let p_b = initial(&self.settings, average);
        match self.settings.min_th {
            QueueLimit::Packets(_) => spaced(p_b, count as f64, self.settings.wait),
            QueueLimit::Bytes(_) => {
                let count = self.count_bytes as f64 / self.mean_packet;
                spaced(p_b, count, self.settings.wait) * f64::from(bytes) / self.mean_packet
            }
        }
    }
}

/// p_b for an average of at least `min_th`.
fn initial(red: &Red, average: f64) -> f64 {
    let (min, max, max_p) = (number(red.min_th) as f64, number(red.max_th) as f64, red.max_p.0);
    if average < max {
        max_p * (average - min) / (max - min)
    } else {
        max_p + (1.0 - max_p) * (average - max) / max
    }
}

/// p_a: makes the number of frames between two drops uniform; with p_b alone it would be geometric
/// (section 7).
fn spaced(p_b: f64, count: f64, wait: bool) -> f64 {
    let passed = count * p_b;
    let (no_drop_below, certain) = if wait { (1.0, 2.0) } else { (0.0, 1.0) };
    if passed < no_drop_below {
        0.0
    } else if passed < certain {
        (p_b / (certain - passed)).min(1.0)
    } else {
        1.0
    }
}

impl QueueDiscipline for RedQueue {
    fn enqueue(&mut self, now: Time, mut frame: Frame, outcomes: &mut Vec<Outcome>) {
        let room = self.fifo.has_room(frame.bytes);
        match self.decide(now, frame.bytes) {
            _ if !room => frame.drop(drop_reason::FULL, outcomes),
            Some(reason) if !self.marks(&mut frame, reason, outcomes) => {
                frame.drop(reason, outcomes)
            }
            _ => self.fifo.push(frame),
        }
    }

    fn dequeue(&mut self, now: Time, _outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        let frame = self.fifo.pop();
        if frame.is_none() {
            self.average.idle(now);
        }
        frame
    }

    fn pass(&mut self, now: Time, mut frame: Frame, outcomes: &mut Vec<Outcome>) -> bool {
        match self.decide(now, frame.bytes) {
            Some(reason) if !self.marks(&mut frame, reason, outcomes) => {
                frame.drop(reason, outcomes);
                false
            }
            _ => true,
        }
    }

    fn load(&self) -> Load {
        self.fifo.load()
    }

    fn has_room(&self, bytes: u32) -> bool {
        self.fifo.has_room(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, ECT, FACTS, PLAIN};
    use super::*;

    fn red(settings: Red) -> RedQueue {
        RedQueue::new(&settings, Some(QueueLimit::Packets(100)), &FACTS)
    }

    /// Uses the instantaneous queue length instead of the average.
    const INSTANT: Red = Red {
        min_th: QueueLimit::Packets(5),
        max_th: QueueLimit::Packets(15),
        max_p: Share(0.1),
        w_q: Share(1.0),
        gentle: true,
        wait: false,
        ecn: false,
        mean_packet: Size::Bytes(1000),
    };

    /// Figure 2 of the paper: 0 at min_th, max_p at max_th; gentle: 1 at 2 max_th.
    #[test]
    fn probability_rises_with_the_average() {
        let p = |average| initial(&INSTANT, average);
        for (average, expected) in
            [(5.0, 0.0), (10.0, 0.05), (15.0, 0.1), (22.5, 0.55), (30.0, 1.0)]
        {
            assert!((p(average) - expected).abs() < 1e-12, "{average}: {}", p(average));
        }
    }

    /// Section 7, method 2: with p_b = 1/4 the gap is 1, 2, 3 or 4 frames with equal probability.
    /// ns-2's `wait_` shifts it to 5, 6, 7 and 8 (it starts with the frame after the first 1/p).
    #[test]
    fn drops_are_spaced_uniformly() {
        let gaps = |wait: bool| {
            let mut none_yet = 1.0;
            (0..10)
                .map(|count| {
                    let p = spaced(0.25, f64::from(count), wait);
                    let here = none_yet * p;
                    none_yet *= 1.0 - p;
                    here
                })
                .collect::<Vec<f64>>()
        };
        let even = [0.25; 4];
        let close = |a: &[f64], b: &[f64]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12)
        };
        assert!(close(&gaps(false), &[&even[..], &[0.0; 6]].concat()), "{:?}", gaps(false));
        assert!(
            close(&gaps(true), &[&[0.0; 4][..], &even, &[0.0; 2]].concat()),
            "{:?}",
            gaps(true)
        );
    }

    /// p_b is 1/20 at an average of 10. The count is 1 at the first frame after a drop (figure 2 of
    /// the paper), so the gaps are 1 to 19, and one frame in ten is dropped.
    #[test]
    fn gaps_of_a_long_run_are_uniform() {
        let mut q = red(INSTANT);
        let (mut gaps, mut last) = (vec![0u32; 21], None);
        (0..10).for_each(|_| q.fifo.push(Frame { bytes: 1000, ..Frame::default() }));
        let n = 200_000u32;
        for i in 0..n {
            if q.decide(Time(0), 1000).is_some()
                && let Some(last) = last.replace(i)
            {
                gaps[(i - last) as usize] += 1;
            }
        }
        let drops: u32 = gaps.iter().sum();
        assert!((f64::from(drops) / f64::from(n) - 0.1).abs() < 0.005, "{drops}");
        for (gap, &times) in gaps.iter().enumerate().skip(1).take(19) {
            let expected = f64::from(drops) / 19.0;
            assert!(
                (f64::from(times) / expected - 1.0).abs() < 0.15,
                "{gap}: {times} times, {expected} expected"
            );
        }
        assert_eq!(gaps[20], 0);
    }

    /// Calculated by hand for w_q = 1/4: the averages are 0, 0.25, 0.69, 1.27, 1.95, 2.71; the
    /// sixth is above min_th = 2.
    #[test]
    fn nothing_is_dropped_below_min_th() {
        let all = Red {
            w_q: Share(0.25),
            min_th: QueueLimit::Packets(2),
            max_th: QueueLimit::Packets(3),
            max_p: Share(1.0),
            ..INSTANT
        };
        let mut b = Bench::new(red(all));
        b.offer_all(0, 5, PLAIN);
        assert!(b.outcomes.is_empty());
        b.queue.draws = Stream::new(1, "another");
        let p = b.queue.clone().decide(Time(0), 1000);
        let average = b.queue.average.clone().update(Time(0), 5);
        assert!((average - 2.711_914).abs() < 1e-6, "{average}");
        let certain = initial(&all, average);
        assert_eq!(p.is_some(), b.queue.draws.uniform(5) < certain);
    }

    #[test]
    fn probability_one_drops_also_ecn_capable_frames() {
        for (gentle, from) in [(false, 15), (true, 30)] {
            let mut b = Bench::new(red(Red { gentle, ecn: true, max_p: Share(1e-9), ..INSTANT }));
            (0..from).for_each(|_| b.queue.fifo.push(Frame::default()));
            b.offer(0, 99, ECT);
            assert_eq!(b.dropped(), [(99, drop_reason::RED_FORCED)], "gentle: {gentle}");
            b.take(0);
            b.outcomes.clear();
            if !gentle {
                b.offer(0, 98, ECT);
                assert_eq!(b.dropped(), []);
            }
        }
    }

    #[test]
    fn early_drops_become_marks_for_ecn_capable_frames() {
        let run = |ecn, flags| {
            let mut b = Bench::new(red(Red { ecn, ..INSTANT }));
            (0..10).for_each(|_| b.queue.fifo.push(Frame { bytes: 1000, ..Frame::default() }));
            for i in 0..200 {
                b.offer(0, i, flags);
                if b.queue.load().packets > 10 {
                    b.take(0);
                }
            }
            (b.marked(), b.dropped().into_iter().map(|d| d.0).collect::<Vec<u32>>())
        };
        let (marked, dropped) = run(true, ECT);
        assert!(marked.len() > 10 && dropped.is_empty());
        // The same frames, because the random draws are the same.
        assert_eq!(run(true, PLAIN), (vec![], marked.clone()));
        assert_eq!(run(false, ECT), (vec![], marked));
    }

    #[test]
    fn frames_dropped_by_a_full_queue_are_not_marked() {
        let mut b = Bench::new(RedQueue::new(
            &Red { ecn: true, max_p: Share(1.0), ..INSTANT },
            Some(QueueLimit::Packets(8)),
            &FACTS,
        ));
        b.offer_all(0, 60, ECT);
        assert!(b.dropped().len() >= 40 && b.dropped().iter().all(|d| d.1 == drop_reason::FULL));
        assert!(b.marked().iter().all(|m| !b.dropped().iter().any(|d| d.0 == *m)));
    }

    /// The average decays during a long idle period.
    #[test]
    fn average_decays_while_the_link_is_idle() {
        let mut b = Bench::new(red(Red { w_q: Share(0.1), ..INSTANT }));
        (0..40).for_each(|i| b.offer(0, i, PLAIN));
        b.take_all(0);
        let before = b.queue.average.clone().update(Time(0), 0);
        b.take(0);
        assert!(b.pass(1000, 50, PLAIN));
        let after = b.queue.average.clone().update(Time(0), 0);
        // 100 frames of 10 ms, and the arrival itself.
        assert!((after / before - 0.9f64.powi(101)).abs() < 1e-9, "{before} {after}");
    }

    /// With thresholds in bytes, a frame of half the mean size is dropped half as often (section
    /// 4).
    #[test]
    fn small_frames_are_dropped_less_often_with_thresholds_in_bytes() {
        let drops = |bytes: u32| {
            let bytes_red = Red {
                min_th: QueueLimit::Bytes(5000),
                max_th: QueueLimit::Bytes(15_000),
                ..INSTANT
            };
            let mut q = RedQueue::new(&bytes_red, None, &FACTS);
            q.fifo.push(Frame { bytes: 10_000, ..Frame::default() });
            (0..100_000).filter(|_| q.decide(Time(0), bytes).is_some()).count() as f64
        };
        assert!((drops(500) / drops(1000) - 0.5).abs() < 0.05);
    }

    #[test]
    fn invalid_settings_are_rejected() {
        let key = |red: Red| red.check().unwrap_err().0;
        assert!(INSTANT.check().is_ok() && Red::default().check().is_ok());
        assert_eq!(key(Red { max_th: QueueLimit::Packets(5), ..INSTANT }), "max_th");
        assert_eq!(key(Red { max_th: QueueLimit::Bytes(9000), ..INSTANT }), "max_th");
        assert_eq!(key(Red { max_p: Share(0.0), ..INSTANT }), "max_p");
        assert_eq!(key(Red { w_q: Share(0.0), ..INSTANT }), "w_q");
        assert_eq!(key(Red { mean_packet: Size::Segments(1.0), ..INSTANT }), "mean_packet");
    }
}
