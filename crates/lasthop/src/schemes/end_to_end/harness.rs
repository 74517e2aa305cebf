//! ACKs and losses for tests of window rules.

use proptest::prelude::*;

use crate::tcp::profile::HalvingBase;
use crate::tcp::sender::timestamp;
use crate::tcp::window::{Ack, Loss, LossKind, Needs, Said, Stamps, Window, WindowRule};
use crate::units::{Duration, Time};

/// Segments of 1000 bytes.
pub const MSS: f64 = 1000.0;

/// An ACK of one segment that says nothing else.
pub fn ack() -> Ack {
    Ack {
        now: Time::ZERO,
        bytes: 1000,
        delivered: 1000,
        rtt: None,
        srtt: None,
        flight: 0,
        snd_una: 0,
        snd_max: 0,
        mss: 1000,
        recovering: false,
        ece: false,
        stamps: None,
        by_bytes: false,
        rate: None,
    }
}

/// A loss found by duplicate ACKs with so many segments in flight.
pub fn loss(flight: u64) -> Loss {
    Loss {
        now: Time::ZERO,
        kind: LossKind::DuplicateAcks,
        seq: 0,
        snd_max: 0,
        flight: flight * 1000,
        window: flight as f64 * MSS,
        mss: 1000,
        srtt: None,
        eln: false,
        ece: false,
        halving: HalvingBase::FlightSize,
        integer_ssthresh: false,
        loss_window: MSS,
    }
}

/// A timeout with so many segments in flight.
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

/// What may happen to a sender: time passes, and an ACK of some segments, a duplicate one, a loss or a timeout comes.
#[derive(Clone, Debug)]
pub enum Step {
    Ack { after_us: u64, segments: u64, rtt_us: Option<u64> },
    Duplicate { after_us: u64 },
    Loss { timeout: bool },
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ack = (0..300_000u64, 1..4u64, prop::option::of(0..500_000u64));
    let step = prop_oneof![
        20 => ack.prop_map(|(after_us, segments, rtt_us)| Step::Ack { after_us, segments, rtt_us }),
        3 => (0..3_000_000u64).prop_map(|after_us| Step::Duplicate { after_us }),
        2 => any::<bool>().prop_map(|timeout| Step::Loss { timeout }),
    ];
    prop::collection::vec(step, 1..300)
}

/// Runs a rule through the steps as a sender would and asserts what holds for every one: cwnd is a number, never under one
/// segment or an undue length over what was acknowledged, and no loss raises it; ssthresh is at least two segments.
pub fn drive(mut rule: impl WindowRule, needs: Needs, steps: &[Step]) {
    let mut w = window(2.0, f64::INFINITY);
    let (mut now, mut una, mut max) = (Time::ZERO, 0u64, 2000u64);
    for step in steps {
        match *step {
            Step::Ack { after_us, segments, rtt_us } => {
                now += Duration::micros(after_us);
                let bytes = (segments * 1000).min(max - una);
                una += bytes;
                let a =
                    Ack { now, bytes, delivered: bytes, rtt: rtt_us.map(Duration::micros), snd_una: una, snd_max: max, flight: max - una, ..ack() };
                // Where the round trip is known, the ACK is stamped and took a third of that to come back; some echo a mark.
                let stamps =
                    rtt_us.map(|rtt| Stamps { sent: timestamp(now).wrapping_sub(rtt as u32), received: timestamp(now).wrapping_sub(rtt as u32 / 3) });
                let a = Ack { stamps, srtt: a.rtt, ece: rtt_us.is_some_and(|rtt| rtt % 16 == 1), ..a };
                if bytes > 0 {
                    rule.on_any_ack(&mut w, &a);
                    rule.on_ack(&mut w, &a);
                }
                assert!(w.cwnd <= 3000.0 + una as f64, "{w:?} after {una} bytes");
            }
            Step::Duplicate { after_us } => {
                now += Duration::micros(after_us);
                rule.on_any_ack(&mut w, &Ack { now, bytes: 0, snd_una: una, snd_max: max, flight: max - una, ..ack() });
                rule.on_dupack(&mut w, now, 1);
            }
            Step::Loss { timeout } => {
                let before = w.cwnd;
                let kind = if timeout { LossKind::Timeout } else { LossKind::DuplicateAcks };
                let flight = max - una;
                let (used, eln) = (before.min(flight as f64 + 1.0), una % 3000 == 0);
                let said = rule.on_loss(&mut w, &Loss { now, kind, seq: una, snd_max: max, flight, window: used, eln, ..loss(1) });
                assert!(w.cwnd <= before.max(MSS), "a loss raises cwnd from {before} to {w:?}");
                assert!(w.ssthresh >= 2.0 * MSS && (w.ssthresh.is_finite() || said == Said::Wireless));
            }
        }
        assert!(w.cwnd >= MSS && w.cwnd.is_finite() && !w.ssthresh.is_nan(), "{w:?} after {step:?}");
        while una + w.cwnd as u64 >= max + 1000 {
            max += 1000;
            if needs.every_send {
                rule.on_sent(&mut w, now, 1000, max - una);
            }
        }
    }
}
