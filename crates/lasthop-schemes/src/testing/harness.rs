//! ACKs and losses for tests of window rules.

use proptest::prelude::*;

use lasthop_core::units::{Duration, Time};
use lasthop_tcp::profile::{CubicForm, HalvingBase, ProfileName};
use lasthop_tcp::rate::RateSample;
use lasthop_tcp::sender::timestamp;
use lasthop_tcp::window::{
    Ack, Hooks, Loss, LossClass, LossKind, Needs, Report, Stamps, Start, Window, WindowRule,
};

/// Segments of 1000 bytes.
pub const MSS: f64 = 1000.0;

/// An ACK of one segment without options.
pub fn ack() -> Ack {
    Ack {
        now: Time::ZERO,
        bytes: 1000,
        delivered: 1000,
        rtt: None,
        srtt: None,
        flight: 0,
        prior_flight: 0,
        snd_una: 0,
        snd_max: 0,
        mss: 1000,
        recovering: false,
        ece: false,
        marked: 0,
        stamps: None,
        by_bytes: false,
        whole_segments: false,
        rate: None,
    }
}

/// A loss detected by duplicate ACKs with `flight` segments in flight.
pub fn loss(flight: u64) -> Loss {
    Loss {
        now: Time::ZERO,
        kind: LossKind::DuplicateAcks,
        seq: 0,
        snd_max: 0,
        flight: flight * 1000,
        pipe: flight * 1000,
        window: flight as f64 * MSS,
        mss: 1000,
        srtt: None,
        eln: false,
        ece: false,
        halving: HalvingBase::FlightSize,
        integer_ssthresh: false,
        integer_window: false,
        whole_segments: false,
        loss_window: MSS,
    }
}

/// A connection that has just been established over 100 ms.
pub fn start() -> Start {
    let rtt = Some(Duration::millis(100));
    Start {
        now: Time::ZERO,
        flow: 0,
        draw: 0,
        mss: 1000,
        rtt,
        sack: true,
        receive_window: 1 << 20,
        accurate_ecn: false,
        profile: ProfileName::Rfc,
        cubic: CubicForm::Rfc9438,
    }
}

/// A timeout with `flight` segments in flight.
pub fn timeout(flight: u64) -> Loss {
    Loss { kind: LossKind::Timeout, ..loss(flight) }
}

/// A window in segments.
pub fn window(cwnd: f64, ssthresh: f64) -> Window {
    Window { cwnd: cwnd * MSS, ssthresh: ssthresh * MSS }
}

/// cwnd and ssthresh in segments.
pub fn segments(w: &Window) -> (f64, f64) {
    (w.cwnd / MSS, w.ssthresh / MSS)
}

/// An event of a sender: time passes; an ACK of some segments, a duplicate one, a report of the
/// receiver, a loss or a timeout arrives.
#[derive(Clone, Debug)]
pub enum Step {
    Ack { after_us: u64, segments: u64, rtt_us: Option<u64> },
    Duplicate { after_us: u64 },
    Report { value: u32 },
    Loss { timeout: bool },
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ack = (0..300_000u64, 1..4u64, prop::option::of(0..500_000u64));
    let step = prop_oneof![
        20 => ack.prop_map(|(after_us, segments, rtt_us)| Step::Ack { after_us, segments, rtt_us }),
        3 => (0..3_000_000u64).prop_map(|after_us| Step::Duplicate { after_us }),
        1 => any::<u32>().prop_map(|value| Step::Report { value }),
        2 => any::<bool>().prop_map(|timeout| Step::Loss { timeout }),
    ];
    prop::collection::vec(step, 1..300)
}

/// A property that `drive` asserts, from which a rule may be exempt by design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exempt {
    /// cwnd grows at most by what was acknowledged.
    Growth,
    /// A loss does not raise cwnd.
    Reduction,
    /// ssthresh is at least two segments, and finite after a loss that is not classified as the
    /// radio's.
    Ssthresh,
}

/// `drive_except` without exceptions.
pub fn drive(rule: impl WindowRule, needs: Needs, steps: &[Step]) {
    drive_except(&[], rule, needs, steps);
}

/// Runs a rule through the steps as a sender would and asserts the properties of all rules: cwnd is
/// a number, at least one segment and bounded by what was acknowledged, and no loss raises it (RFC
/// 5681, section 3.1: after a timeout it is at most the loss window; section 3.2: after a fast
/// retransmit it is ssthresh, at most half of the flight); ssthresh is at least two segments.
pub fn drive_except(exempt: &[Exempt], mut rule: impl WindowRule, needs: Needs, steps: &[Step]) {
    let every_send = Hooks::of(rule.methods()).every_send;
    let mut sender = ModelSender {
        exempt,
        needs,
        window: window(2.0, f64::INFINITY),
        now: Time::ZERO,
        una: 0,
        max: 2000,
        srtt: None,
    };
    let established = Start { now: sender.now, flow: 1, sack: needs.sack, ..start() };
    rule.on_established(&mut sender.window, &established);
    for step in steps {
        match *step {
            Step::Ack { after_us, segments, rtt_us } => {
                sender.now += Duration::micros(after_us);
                sender.ack(&mut rule, segments, rtt_us);
            }
            Step::Duplicate { after_us } => {
                sender.now += Duration::micros(after_us);
                sender.duplicate(&mut rule);
            }
            Step::Report { value } => sender.report(&mut rule, value),
            Step::Loss { timeout } => sender.lose(&mut rule, timeout),
        }
        let w = sender.window;
        assert!(
            w.cwnd >= MSS && w.cwnd.is_finite() && !w.ssthresh.is_nan(),
            "{w:?} after {step:?}"
        );
        sender.send(|w, now, flight| {
            if every_send {
                rule.on_sent(w, now, 1000, flight);
            }
        });
    }
}

/// What a sender knows of its connection when it calls a window rule.
struct ModelSender<'a> {
    exempt: &'a [Exempt],
    needs: Needs,
    window: Window,
    now: Time,
    /// Oldest byte that is not acknowledged, and the byte that is sent next.
    una: u64,
    max: u64,
    srtt: Option<Duration>,
}

impl ModelSender<'_> {
    fn asserted(&self, property: Exempt) -> bool {
        !self.exempt.contains(&property)
    }

    fn flight(&self) -> u64 {
        self.max - self.una
    }

    fn ack(&mut self, rule: &mut impl WindowRule, segments: u64, rtt_us: Option<u64>) {
        let tx_in_flight = self.flight();
        let bytes = (segments * 1000).min(tx_in_flight);
        self.una += bytes;
        let rtt = rtt_us.map(Duration::micros);
        // If the round-trip time is known, the ACK has timestamps, and a third of that time is its
        // one-way delay; some ACKs echo a mark.
        let stamps = rtt_us.map(|rtt| Stamps {
            sent: timestamp(self.now).wrapping_sub(rtt as u32),
            received: timestamp(self.now).wrapping_sub(rtt as u32 / 3),
        });
        let a = Ack {
            now: self.now,
            bytes,
            delivered: bytes,
            rtt,
            srtt: rtt,
            snd_una: self.una,
            snd_max: self.max,
            flight: self.flight(),
            ece: rtt_us.is_some_and(|rtt| rtt % 16 == 1),
            stamps,
            rate: self.rate_sample(rtt, tx_in_flight),
            ..ack()
        };
        self.srtt = rtt.or(self.srtt);
        let w = &mut self.window;
        if bytes > 0 {
            rule.on_any_ack(w, &a);
            rule.on_ack(w, &a);
        }
        let (w, una) = (self.window, self.una);
        assert!(
            w.cwnd <= 3000.0 + una as f64 || !self.asserted(Exempt::Growth),
            "{w:?} after {una} bytes"
        );
    }

    /// A rate sample spans a round trip; it is missing if the interval is empty.
    fn rate_sample(&self, rtt: Option<Duration>, tx_in_flight: u64) -> Option<RateSample> {
        let interval = rtt.filter(|rtt| self.needs.rate_samples && *rtt > Duration::ZERO)?;
        Some(RateSample {
            rate: tx_in_flight as f64 / interval.as_secs(),
            delivered: tx_in_flight,
            interval,
            prior_delivered: self.una.saturating_sub(tx_in_flight),
            total_delivered: self.una,
            app_limited: false,
            tx_in_flight,
            rtt,
            lost: 0,
            newly_lost: 0,
        })
    }

    fn duplicate(&mut self, rule: &mut impl WindowRule) {
        let duplicate = Ack {
            now: self.now,
            bytes: 0,
            snd_una: self.una,
            snd_max: self.max,
            flight: self.flight(),
            ..ack()
        };
        rule.on_any_ack(&mut self.window, &duplicate);
        rule.on_dupack(&mut self.window, self.now, 1);
    }

    fn report(&mut self, rule: &mut impl WindowRule, value: u32) {
        let (now, srtt, flight) = (self.now, self.srtt, self.flight());
        rule.on_report(&mut self.window, &Report { now, value, srtt, flight, mss: 1000 });
    }

    fn lose(&mut self, rule: &mut impl WindowRule, timeout: bool) {
        let before = self.window.cwnd;
        let flight = self.flight();
        let lost = Loss {
            now: self.now,
            kind: if timeout { LossKind::Timeout } else { LossKind::DuplicateAcks },
            seq: self.una,
            snd_max: self.max,
            flight,
            window: before.min(flight as f64 + 1.0),
            eln: self.una.is_multiple_of(3000),
            ..loss(1)
        };
        let class = rule.on_loss(&mut self.window, &lost);
        let w = self.window;
        assert!(
            w.cwnd <= before.max(MSS) || !self.asserted(Exempt::Reduction),
            "a loss raises cwnd from {before} to {w:?}"
        );
        let judged =
            w.ssthresh >= 2.0 * MSS && (w.ssthresh.is_finite() || class == LossClass::Wireless);
        assert!(judged || !self.asserted(Exempt::Ssthresh), "{w:?} after a loss");
    }

    /// Sends segments while cwnd and the receive window allow; `sent` gets each with the flight.
    fn send(&mut self, mut sent: impl FnMut(&mut Window, Time, u64)) {
        while self.flight() + 1000 <= (self.window.cwnd as u64).min(1 << 20) {
            self.max += 1000;
            let flight = self.flight();
            sent(&mut self.window, self.now, flight);
        }
    }
}

mod tests {
    use super::*;
    use crate::catalogue::all;
    use lasthop_tcp::window::{grow, halve, window_rule};

    /// Exempt window rules of the catalogue, and why.
    const EXEMPT: &[(&str, &[Exempt], &str)] = &[
        (
            "noor-aer",
            &[Exempt::Growth, Exempt::Reduction],
            "a loss sets cwnd to half of the largest window, from which it also starts",
        ),
        (
            "noor-eaer",
            &[Exempt::Growth, Exempt::Reduction],
            "cwnd never falls below half of the largest window, from which it also starts",
        ),
        ("prague", &[Exempt::Growth], "what is delivered counts, duplicate ACKs included"),
        ("copa", &[Exempt::Growth], "what is delivered counts, duplicate ACKs included"),
        (
            "bbr",
            &[Exempt::Growth, Exempt::Ssthresh],
            "a model of the path sets cwnd; there is no ssthresh",
        ),
        (
            "bbr3",
            &[Exempt::Growth, Exempt::Ssthresh],
            "a model of the path sets cwnd; there is no ssthresh",
        ),
        ("selective-tcp", &[Exempt::Growth], "the receiver's report sets cwnd"),
        (
            "tcp-real",
            &[Exempt::Growth, Exempt::Ssthresh],
            "the receiver's report sets cwnd; there is no ssthresh",
        ),
        (
            "wtcp",
            &[Exempt::Growth, Exempt::Ssthresh],
            "the receiver's report sets cwnd; there is no ssthresh",
        ),
    ];

    /// A rule that has only the required method.
    struct OnlyGrows;

    #[window_rule]
    impl WindowRule for OnlyGrows {
        fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
            grow(window, ack);
        }
    }

    proptest! {
        #[test]
        fn the_defaults_of_a_window_rule_are_sound(steps in steps()) {
            drive(OnlyGrows, Needs::default(), &steps);
        }

        /// With default settings; the unit tests of a rule use other settings.
        #[test]
        fn every_window_rule_of_the_catalogue_is_sound(steps in steps()) {
            for scheme in all() {
                let exempt = EXEMPT.iter().find(|e| e.0 == scheme.name()).map_or(&[][..], |e| e.1);
                if let Some(rule) = scheme.window() {
                    drive_except(exempt, rule, scheme.needs(), &steps);
                }
                if let Some(rule) = scheme.outbound_window() {
                    drive(rule, Needs::default(), &steps);
                }
            }
        }
    }

    /// An input of a rule with values at the ends of their ranges.
    #[derive(Clone, Copy, Debug)]
    struct Extreme {
        after: u64,
        rtt: Option<u64>,
        bytes: u64,
        /// cwnd that a relay orders, bytes.
        order: Option<u64>,
        /// A timeout or another loss after the ACK.
        loss: Option<bool>,
    }

    const DAY: u64 = 86_400_000_000_000;

    fn extremes() -> impl Strategy<Value = Extreme> {
        let time = || prop::sample::select(vec![0, 1, 1_000_000, DAY, 10_000 * DAY]);
        let rtt = prop::option::of(prop::sample::select(vec![1, 1000, 100_000_000, DAY]));
        let bytes = prop::sample::select(vec![1, 1000, 1 << 20, 1 << 32, 1 << 48]);
        let order = prop::sample::select(vec![1, 1 << 20, 1 << 32, 1 << 48, u64::MAX]);
        let order = prop::option::weighted(0.2, order);
        let loss = prop::option::weighted(0.3, any::<bool>());
        (time(), rtt, bytes, order, loss).prop_map(|(after, rtt, bytes, order, loss)| Extreme {
            after,
            rtt,
            bytes,
            order,
            loss,
        })
    }

    /// The rate sample of an ACK for `bytes`, up to `una`.
    fn sample(bytes: u64, rtt: Duration, una: u64) -> RateSample {
        RateSample {
            rate: bytes as f64 / rtt.as_secs(),
            delivered: bytes,
            interval: rtt,
            prior_delivered: una - bytes,
            total_delivered: una,
            app_limited: false,
            tx_in_flight: bytes,
            rtt: Some(rtt),
            lost: 0,
            newly_lost: 0,
        }
    }

    fn endure(mut rule: impl WindowRule, needs: Needs, established: &Start, inputs: &[Extreme]) {
        let mss = established.mss;
        let (mut w, mut now, mut una) = (window(10.0, f64::INFINITY), Time::ZERO, 0u64);
        rule.on_established(&mut w, established);
        for input in inputs {
            now += Duration(input.after);
            if let Some(bytes) = input.order {
                w.cwnd = (bytes as f64).max(f64::from(mss));
            }
            let rtt = input.rtt.map(Duration);
            una += input.bytes;
            let rate = rtt.filter(|_| needs.rate_samples).map(|rtt| sample(input.bytes, rtt, una));
            let (bytes, snd_max) = (input.bytes, una + input.bytes);
            let flight = input.bytes;
            let (delivered, srtt) = (bytes, rtt);
            let a = Ack {
                now,
                bytes,
                delivered,
                rtt,
                srtt,
                flight,
                snd_una: una,
                snd_max,
                mss,
                rate,
                ..ack()
            };
            rule.on_any_ack(&mut w, &a);
            rule.on_ack(&mut w, &a);
            if let Some(timeout) = input.loss {
                let kind = if timeout { LossKind::Timeout } else { LossKind::DuplicateAcks };
                let (pipe, window) = (flight, w.cwnd);
                let lost = Loss {
                    now,
                    kind,
                    seq: una,
                    snd_max,
                    flight,
                    pipe,
                    window,
                    mss,
                    srtt,
                    ..loss(1)
                };
                rule.on_loss(&mut w, &lost);
            }
            assert!(w.cwnd > 0.0 && !w.cwnd.is_nan() && !w.ssthresh.is_nan(), "{w:?} {input:?}");
        }
    }

    proptest! {
        /// No overflow, whatever the time, the round-trip time and the window: 1 ns to years, and
        /// windows beyond what Linux can represent.
        #[test]
        fn extreme_times_and_windows_do_not_overflow(
            inputs in prop::collection::vec(extremes(), 1..60),
            mss in prop::sample::select(vec![1, 1000, 60_000]),
            linux in any::<bool>(),
        ) {
            let established = if linux {
                Start { mss, cubic: CubicForm::Linux, profile: ProfileName::Linux, ..start() }
            } else {
                Start { mss, ..start() }
            };
            for scheme in all() {
                if let Some(rule) = scheme.window() {
                    endure(rule, scheme.needs(), &established, &inputs);
                }
                if let Some(rule) = scheme.outbound_window() {
                    endure(rule, Needs::default(), &established, &inputs);
                }
            }
        }
    }

    /// After a timeout, data sent before it may still count as in flight.
    #[test]
    fn half_of_a_flight_above_twice_the_window_does_not_raise_cwnd() {
        let mut w = window(1.0, 5.0);
        halve(&mut w, &loss(10));
        assert_eq!(segments(&w), (1.0, 5.0));
    }

    #[test]
    fn exemptions_are_of_rules_that_exist_and_need_them() {
        let broken = |name: &str, exempt: &[Exempt]| {
            let scheme = all().into_iter().find(|s| s.name() == name)?;
            let rule = scheme.window()?;
            let report = [Step::Report { value: 1 << 16 }, Step::Loss { timeout: false }];
            let ack = Step::Ack { after_us: 1, segments: 2, rtt_us: Some(1000) };
            let duplicates = std::iter::repeat_n(Step::Duplicate { after_us: 1 }, 9);
            let steps: Vec<Step> = std::iter::once(ack.clone())
                .chain(duplicates.clone())
                .chain(report)
                .chain([ack.clone()])
                .chain(duplicates)
                .chain([ack])
                .collect();
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                drive_except(exempt, rule, scheme.needs(), &steps)
            }))
            .err()
        };
        for (name, exempt, why) in EXEMPT {
            assert!(all().iter().any(|s| s.name() == *name) && !why.is_empty(), "{name}");
            assert!(broken(name, exempt).is_none(), "{name}");
            assert!(broken(name, &[]).is_some(), "{name} needs no exemption");
        }
    }
}
