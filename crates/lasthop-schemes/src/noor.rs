//! TCP Noor: aggressive error recovery, AER (1999) and EAER, for a wireless LAN without other
//! users.
//!
//! Source: Qaddoura, El-Asir and Aqel, "Enhanced aggressive error recovery for TCP Noor"; AER is
//! Qaddoura, Prakash and Tamil 1999, as described in that paper. Deployed at: the sender. Wire:
//! nothing.
//!
//! The window always lies between W/2 and W, where W is the largest window, also after losses. It
//! starts at W/2 with ssthresh = W, and the retransmission timeout is at most two seconds.
//!
//! AER always grows the window by one segment per ACK; every loss, however detected, resets it to
//! W/2. EAER grows it in this way (the paper: exponentially) at the start and after one duplicate
//! ACK, which sets cwnd = W/2 and ssthresh = W, because a segment with bit errors leaves the
//! channel free. Three duplicate ACKs and timeouts set ssthresh = cwnd, so that the window grows by
//! one segment per window acknowledged (linearly), because they indicate persistent contention.
//!
//! The two rules of EAER interact: with sixteen or more segments in flight the third duplicate ACK
//! nearly always follows the first, so a loss leaves cwnd = ssthresh = W/2 and linear growth.
//! Exponential growth remains for slight reordering, and for losses with one or two later segments
//! in flight.
//!
//! Left open by the paper and chosen here: the third duplicate ACK retransmits the segment as in
//! Reno, without inflating the window (`inflate`); a timeout retransmits one segment, and ACKs of
//! new data the next ones, two each, until all are retransmitted (`go_back_n`: half of W and more
//! at once, as ns-2's Reno does with a window that has not closed); the paper describes AER in one
//! sentence, so its losses have the same effect as its start, and it has the same limit of the
//! timer.
//!
//! Assumes that no other flow uses the queues of the path. Bad at: a shared bottleneck, where it
//! does not back off and others do; contention on the LAN, which it increases.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::catalogue::{
    AnyWindow, Entry, Family, Footprint, Group, RecoverySetting, RecoverySlot, SchemeConfig,
};
use lasthop_core::units::{Duration, Quantity, Size, Time};
use lasthop_tcp::profile::Profile;
use lasthop_tcp::recovery::{Recovery, RecoveryKind};
use lasthop_tcp::window::{Ack, Loss, LossClass, Start, Window, WindowRule, grow, window_rule};

/// Settings of AER and EAER.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The largest window W, at least four segments; the receive window if that is smaller (the
    /// paper: 32 packets).
    pub max_window: Size,
    /// The longest retransmission timeout, including back-off (the paper: 2 s).
    pub max_rto: Duration,
    /// Duplicate ACKs inflate the window in fast recovery, as in Reno (the paper does not say).
    pub inflate: bool,
    /// A timeout retransmits the whole window at once (the paper does not say).
    pub go_back_n: bool,
    /// Loss recovery under the rule, by duplicate ACKs (the paper: a change of Reno).
    pub recovery: RecoverySetting,
}

impl Default for Settings {
    fn default() -> Self {
        let recovery = Recovery::of(RecoveryKind::Reno).into();
        Settings {
            max_window: Size::Segments(32.0),
            max_rto: Duration::secs(2),
            inflate: false,
            go_back_n: false,
            recovery,
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), String> {
        if matches!(self.max_window, Size::Segments(n) if n < 4.0)
            || matches!(self.max_window, Size::Bytes(0))
        {
            return Err(format!(
                "max_window must be at least 4 segments, of which the smallest window is half; \
                 found \"{}\"",
                self.max_window.text()
            ));
        }
        if self.max_rto < Duration::millis(10) {
            return Err(format!("max_rto must be at least 10 ms, found {}", self.max_rto));
        }
        if self.recovery.uses_sack() {
            return Err(format!(
                "recovery = \"{}\": its rules are about duplicate ACKs, so it goes with tahoe, \
                 reno and newreno",
                self.recovery
            ));
        }
        Ok(())
    }

    fn override_profile(&self, profile: &mut Profile) {
        profile.max_rto = self.max_rto.min(profile.max_rto);
        profile.min_rto = profile.min_rto.min(profile.max_rto);
        profile.inflate = self.inflate;
        profile.timeout_burst = if self.go_back_n { 0 } else { 2 };
    }
}

const UNSAFE: Option<&str> =
    Some("outside a private LAN: whatever is lost, it keeps half of its largest window in flight");
const ASSUMPTIONS: &[&str] =
    &["no queue on the path is anybody else's", "losses are bit errors or passing contention"];

macro_rules! scheme {
    ($(#[$doc:meta])* $name:ident, $rule:expr, $entry:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub Settings);

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                Settings::json_schema(generator)
            }
        }

        impl SchemeConfig for $name {
            const ENTRY: Entry = $entry;

            fn check(&self) -> Result<(), String> {
                self.0.check()
            }
            fn window(&self) -> Option<AnyWindow> {
                Some(AnyWindow::from(NoorWindow::new($rule, &self.0)))
            }
            fn recovery(&self) -> Option<RecoverySlot> {
                Some(RecoverySlot::Fixed(self.0.recovery.0))
            }
            fn override_profile(&self, profile: &mut Profile) {
                self.0.override_profile(profile);
            }
        }
    };
}

scheme!(
    /// Aggressive error recovery.
    NoorAer,
    Rule::Aer,
    Entry {
        name: "noor-aer",
        family: Family::EndToEnd,
        group: Some(Group::LossDiscrimination),
        summary: "never less than half of the largest window; opens it exponentially again after \
                  each loss",
        paper: "Qaddoura, Prakash and Tamil, 1999",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: ASSUMPTIONS,
        unsafe_: UNSAFE,
        ..Entry::DEFAULT
    }
);

scheme!(
    /// Enhanced aggressive error recovery.
    NoorEaer,
    Rule::Eaer,
    Entry {
        name: "noor-eaer",
        family: Family::EndToEnd,
        group: Some(Group::LossDiscrimination),
        summary: "never less than half of the largest window; one duplicate ACK means bit errors, \
                  three or a timeout mean contention",
        paper: "Qaddoura, El-Asir and Aqel, TCP Noor EAER",
        changes: Footprint { sender: true, ..Footprint::NONE },
        assumptions: ASSUMPTIONS,
        unsafe_: UNSAFE,
        ..Entry::DEFAULT
    }
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Aer,
    Eaer,
}

/// Noor's window rule.
#[derive(Clone, Debug)]
pub struct NoorWindow {
    rule: Rule,
    max_window: Size,
    /// W in bytes, once the connection stands.
    largest: f64,
}

impl NoorWindow {
    fn new(rule: Rule, settings: &Settings) -> Self {
        NoorWindow { rule, max_window: settings.max_window, largest: f64::INFINITY }
    }

    /// Half of the largest window, and exponential growth up to it.
    fn restart(&self, window: &mut Window) {
        *window = Window { cwnd: self.largest / 2.0, ssthresh: self.largest };
    }
}

#[window_rule]
impl WindowRule for NoorWindow {
    fn on_established(&mut self, window: &mut Window, start: &Start) {
        // Half of W is at least a segment.
        let largest = self
            .max_window
            .bytes(start.mss)
            .min(start.receive_window)
            .max(2 * u64::from(start.mss));
        self.largest = largest as f64;
        self.restart(window);
    }

    #[inline]
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        grow(window, ack);
        window.cwnd = window.cwnd.min(self.largest);
    }

    fn on_dupack(&mut self, window: &mut Window, _now: Time, count: u32) {
        if self.rule == Rule::Eaer && count == 1 {
            self.restart(window);
        }
    }

    fn on_loss(&mut self, window: &mut Window, _loss: &Loss) -> LossClass {
        match self.rule {
            Rule::Aer => self.restart(window),
            Rule::Eaer => window.ssthresh = window.cwnd,
        }
        LossClass::Unclassified
    }

    /// Neither recovery nor an idle time may bring cwnd below half of W.
    fn steers_recovery(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::SchemeChoice;
    use crate::testing::harness::{MSS, ack, loss, segments, start, timeout};
    use lasthop_tcp::profile::ProfileName;
    use proptest::prelude::*;

    fn established(rule: Rule, receive_window: u64) -> (NoorWindow, Window) {
        let mut noor = NoorWindow::new(rule, &Settings::default());
        let mut w = Window { cwnd: 2.0 * MSS, ssthresh: 8.0 * MSS };
        noor.on_established(&mut w, &Start { rtt: None, sack: false, receive_window, ..start() });
        (noor, w)
    }

    #[test]
    fn it_starts_at_half_of_the_largest_window() {
        assert_eq!(segments(&established(Rule::Eaer, 1 << 20).1), (16.0, 32.0));
        assert_eq!(segments(&established(Rule::Aer, 1 << 20).1), (16.0, 32.0));
        // The receive window, if that is smaller; never less than a segment.
        assert_eq!(segments(&established(Rule::Eaer, 10_000).1), (5.0, 10.0));
        assert_eq!(segments(&established(Rule::Eaer, 1).1), (1.0, 2.0));
    }

    #[test]
    fn eaer_opens_exponentially_after_one_duplicate_and_linearly_after_three_or_a_timeout() {
        let (mut noor, mut w) = established(Rule::Eaer, 1 << 20);
        noor.on_ack(&mut w, &ack());
        assert_eq!(segments(&w), (17.0, 32.0));
        noor.on_dupack(&mut w, Time::ZERO, 1);
        assert_eq!(segments(&w), (16.0, 32.0));
        (0..4).for_each(|_| noor.on_ack(&mut w, &ack()));
        assert_eq!(segments(&w), (20.0, 32.0));
        // One, two, three: what the first did is overwritten.
        (1..=3).for_each(|n| noor.on_dupack(&mut w, Time::ZERO, n));
        noor.on_loss(&mut w, &loss(20));
        assert_eq!(segments(&w), (16.0, 16.0));
        noor.on_ack(&mut w, &ack());
        assert_eq!(segments(&w), (16.0 + 1.0 / 16.0, 16.0));
        // A timeout leaves cwnd as it is.
        noor.restart(&mut w);
        (0..9).for_each(|_| noor.on_ack(&mut w, &ack()));
        noor.on_loss(&mut w, &timeout(25));
        assert_eq!(segments(&w), (25.0, 25.0));
    }

    #[test]
    fn aer_always_opens_exponentially() {
        let (mut noor, mut w) = established(Rule::Aer, 1 << 20);
        for lost in [loss(20), timeout(20)] {
            (0..6).for_each(|_| noor.on_ack(&mut w, &ack()));
            noor.on_dupack(&mut w, Time::ZERO, 1);
            assert_eq!(segments(&w), (22.0, 32.0));
            noor.on_loss(&mut w, &lost);
            assert_eq!(segments(&w), (16.0, 32.0));
        }
        (0..40).for_each(|_| noor.on_ack(&mut w, &ack()));
        assert_eq!(segments(&w), (32.0, 32.0), "not beyond the largest window");
    }

    #[test]
    fn the_timer_and_the_repair_are_the_schemes_own_under_every_profile() {
        for name in [ProfileName::Linux, ProfileName::Rfc, ProfileName::Ns235] {
            let given = Profile::named(name);
            for scheme in ["noor-aer", "noor-eaer"] {
                let part = SchemeChoice::parse(scheme).unwrap().sender(&given);
                let p = part.profile(&given);
                assert_eq!(
                    (part.recovery.to_string().as_str(), p.max_rto, p.sack),
                    ("reno", Duration::secs(2), false)
                );
                assert_eq!((p.inflate, p.timeout_burst), (false, 2));
                assert!(
                    p.min_rto <= p.max_rto
                        && SchemeChoice::parse(scheme)
                            .unwrap()
                            .scheme
                            .entry()
                            .unwrap()
                            .unsafe_
                            .is_some()
                );
            }
            let other = SchemeChoice::parse(
                "noor-eaer:go_back_n=true:inflate=true:recovery=newreno:max_rto=1 s",
            )
            .unwrap()
            .sender(&given)
            .profile(&given);
            assert_eq!(
                (other.inflate, other.timeout_burst, other.max_rto),
                (true, 0, Duration::secs(1))
            );
            let reno =
                SchemeChoice::parse("reno:recovery=reno").unwrap().sender(&given).profile(&given);
            assert_eq!((reno.max_rto, reno.inflate, reno.timeout_burst), (given.max_rto, true, 0));
        }
    }

    #[test]
    fn mistakes_are_named() {
        let message = |text: &str| SchemeChoice::parse(text).unwrap_err();
        assert!(message("noor-eaer:max_window=3 segments").contains("at least 4 segments"));
        assert!(message("noor-aer:recovery=sack").contains("duplicate ACKs"));
        assert!(message("noor-aer:max_rto=0 s").contains("10 ms"));
        assert!(message("noor-eaer:window=3").contains("allowed: max_window"));
    }

    proptest! {
        /// Whatever happens, cwnd lies between half of the largest window and all of it, and
        /// ssthresh is not above that.
        #[test]
        fn the_window_keeps_its_bounds(
            steps in prop::collection::vec(0u8..6, 1..200),
            aer in any::<bool>(),
            room in 1u64..100_000,
            by_bytes in any::<bool>(),
        ) {
            let (mut noor, mut w) = established(if aer { Rule::Aer } else { Rule::Eaer }, room);
            for step in steps {
                match step {
                    0..=2 => {
                        let bytes = 1000 * u64::from(step + 1);
                        noor.on_ack(&mut w, &Ack { bytes, by_bytes, ..ack() });
                    }
                    3 => noor.on_dupack(&mut w, Time::ZERO, 1),
                    4 => { noor.on_loss(&mut w, &loss(9)); }
                    _ => { noor.on_loss(&mut w, &timeout(9)); }
                }
                let cwnd = noor.largest / 2.0..=noor.largest;
                prop_assert!(cwnd.contains(&w.cwnd) && w.ssthresh <= noor.largest, "{w:?}");
            }
        }
    }
}
