//! The recovery component as a value: how losses are detected and repaired.

use super::detect::scheme::{Behaviour, DetectorEntry};
use super::hints::HintRules;

/// Loss detectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryKind {
    /// Tahoe: fast retransmit, then slow start from one segment.
    Tahoe,
    /// Reno: fast recovery until the first new ACK.
    Reno,
    /// NewReno (RFC 6582): fast recovery through partial ACKs.
    Newreno,
    /// SACK (RFC 2018, 6675).
    Sack,
    /// SACK as ns-2's `TCP/Sack1` does it.
    SackNs2,
    /// FACK (Mathis and Mahdavi 1996).
    Fack,
    /// RACK-TLP (RFC 8985).
    Rack,
    /// A detector of a scheme.
    Scheme(&'static DetectorEntry),
}

/// Which ambiguity of retransmissions Eifel resolves, and how it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eifel {
    /// Not at all.
    Off,
    /// Ludwig and Katz 2000: the window of before comes back whole.
    Original,
    /// Detection RFC 3522, response RFC 4015.
    Rfc,
}

/// The recovery of a sender: a loss detector and additions to it.
///
/// # Errors
///
/// Parsing fails for an unknown detector or addition, and for parts that exclude each other; the
/// message names what is known.
///
/// # Examples
///
/// ```
/// use lasthop_tcp::recovery::{Recovery, RecoveryKind};
///
/// let recovery: Recovery = "rack+prr+f-rto".parse()?;
/// assert_eq!(recovery, Recovery { prr: true, f_rto: true, ..Recovery::of(RecoveryKind::Rack) });
/// assert_eq!(recovery.to_string(), "rack+prr+f-rto");
///
/// let error = "rack+ncr".parse::<Recovery>().unwrap_err();
/// assert_eq!(error, "recovery \"rack+ncr\": ncr and dcr go with reno, newreno and sack");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The loss detector.
    pub kind: RecoveryKind,
    /// Proportional rate reduction (RFC 9937).
    pub prr: bool,
    /// Proportional rate reduction as ns-3.44 has it: it counts a segment for each duplicate ACK
    /// and again by SACK, and RecoverFS is what SACK leaves in the pipe. For comparisons with ns-3.
    pub prr_dupacks: bool,
    /// Forward RTO recovery (RFC 5682).
    pub f_rto: bool,
    /// The Eifel algorithm.
    pub eifel: Eifel,
    /// A reduction all of whose retransmissions are reported as duplicates (RFC 2883) is undone, as
    /// in Linux.
    pub dsack_undo: bool,
    /// Non-congestion robustness (RFC 4653): `Some(true)` with careful extended limited transmit,
    /// `Some(false)` aggressive.
    pub ncr: Option<bool>,
    /// Delayed congestion response: fast retransmit and reduction come one round trip after the
    /// first duplicate ACK.
    pub dcr: bool,
    /// Vegas' fine-grained retransmission: the first duplicate ACK retransmits what is overdue by
    /// its own fine timer.
    pub fine_timer: bool,
    /// What the own addition of a scheme's detector sets; its entry says what the number means.
    pub setting: u32,
    /// The response to hints of the link layer, if they are accepted.
    pub hints: Option<HintRules>,
}

/// The words of the text form.
pub const KINDS: [(&str, RecoveryKind); 7] = [
    ("tahoe", RecoveryKind::Tahoe),
    ("reno", RecoveryKind::Reno),
    ("newreno", RecoveryKind::Newreno),
    ("sack", RecoveryKind::Sack),
    ("sack-ns2", RecoveryKind::SackNs2),
    ("fack", RecoveryKind::Fack),
    ("rack", RecoveryKind::Rack),
];

impl RecoveryKind {
    /// The word of the text form.
    pub fn name(self) -> &'static str {
        match self {
            RecoveryKind::Scheme(entry) => entry.name,
            kind => KINDS.iter().find(|k| k.1 == kind).map_or("", |k| k.0),
        }
    }

    /// How the engine on SACK blocks works with it.
    pub const fn behaviour(self) -> Behaviour {
        match self {
            RecoveryKind::Scheme(entry) => entry.behaviour,
            RecoveryKind::Rack => Behaviour::RACK,
            RecoveryKind::Fack => Behaviour::FACK,
            _ => Behaviour::RFC6675,
        }
    }
}

impl Recovery {
    /// One without additions.
    pub const fn of(kind: RecoveryKind) -> Recovery {
        let (hints, setting) = match kind {
            RecoveryKind::Scheme(entry) => (entry.hints, entry.default_setting()),
            _ => (None, 0),
        };
        let none = Eifel::Off;
        Recovery {
            kind,
            prr: false,
            prr_dupacks: false,
            f_rto: false,
            eifel: none,
            dsack_undo: false,
            ncr: None,
            dcr: false,
            fine_timer: false,
            setting,
            hints,
        }
    }

    /// RACK-TLP, PRR, F-RTO and D-SACK undo: Linux.
    pub const LINUX: Recovery =
        Recovery { prr: true, f_rto: true, dsack_undo: true, ..Recovery::of(RecoveryKind::Rack) };

    /// The same where SACK is not permitted: NewReno in the place of what needs it.
    pub fn without_sack(self) -> Recovery {
        if !self.uses_sack() {
            return self;
        }
        // Notices are accepted without SACK, too.
        Recovery { kind: RecoveryKind::Newreno, dsack_undo: false, setting: 0, ..self }
    }

    /// It accepts notices of the link layer about losses.
    pub const fn accepts_eln(&self) -> bool {
        self.hints.is_some()
    }

    /// After a spurious reduction the window of before is restored as a whole, as in Linux, whose
    /// recovery is RACK.
    pub const fn restores_all(&self) -> bool {
        matches!(self.kind, RecoveryKind::Rack)
    }

    /// It needs the timestamps option to tell the answers to retransmissions apart.
    pub const fn needs_timestamps(&self) -> bool {
        let detector = match self.kind {
            RecoveryKind::Scheme(entry) => entry.needs_timestamps,
            _ => false,
        };
        detector || !matches!(self.eifel, Eifel::Off)
    }

    /// It works on SACK blocks.
    pub fn uses_sack(&self) -> bool {
        match self.kind {
            RecoveryKind::Sack | RecoveryKind::SackNs2 => true,
            RecoveryKind::Fack | RecoveryKind::Rack => true,
            RecoveryKind::Tahoe | RecoveryKind::Reno | RecoveryKind::Newreno => false,
            RecoveryKind::Scheme(entry) => (entry.uses_sack)(self.setting),
        }
    }
}
