//! The recovery component as a value: how losses are detected and repaired.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::detect::scheme::{Behaviour, DetectorEntry, OwnAddition};
use super::hints::ElsnRules;
use super::spurious::dsack;
use super::{defer, hints, prr, sack_ns2};

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
    /// Notices of the link layer are accepted (yun2009): ERSN, ELN.
    pub elsn: Option<ElsnRules>,
}

const KINDS: [(&str, RecoveryKind); 7] = [
    ("tahoe", RecoveryKind::Tahoe),
    ("reno", RecoveryKind::Reno),
    ("newreno", RecoveryKind::Newreno),
    ("sack", RecoveryKind::Sack),
    ("sack-ns2", RecoveryKind::SackNs2),
    ("fack", RecoveryKind::Fack),
    ("rack", RecoveryKind::Rack),
];

const ADDITIONS: &str = "prr, prr-dupacks, f-rto, eifel, eifel-original, dsack-undo, ncr, \
                         ncr-aggressive, dcr, fine-timer, elsn, eln, eln-trust, eln-shield";

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

/// The words of all detectors, with those of schemes.
pub fn detector_names(schemes: &[&'static DetectorEntry]) -> Vec<&'static str> {
    KINDS.iter().map(|k| k.0).chain(schemes.iter().map(|entry| entry.name)).collect()
}

/// The additions, as help texts show them, with those of the detectors of schemes.
pub fn addition_forms(schemes: &[&'static DetectorEntry]) -> String {
    let own = schemes.iter().filter_map(|entry| entry.own.as_ref());
    own.fold(ADDITIONS.to_string(), |text, own| text + ", " + &own.form())
}

impl Recovery {
    /// One without additions.
    pub const fn of(kind: RecoveryKind) -> Recovery {
        let (elsn, setting) = match kind {
            RecoveryKind::Scheme(entry) => (entry.notices, entry.default_setting()),
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
            elsn,
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
        self.elsn.is_some()
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

    /// Reads the text form, with the detectors of `schemes` beside those of the RFCs.
    ///
    /// # Errors
    ///
    /// For an unknown detector or addition, and for parts that exclude each other; the message
    /// names what is known.
    pub fn parse(text: &str, schemes: &[&'static DetectorEntry]) -> Result<Recovery, String> {
        let mut parts = text.split('+').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let of_scheme = || schemes.iter().find(|entry| entry.name == first);
        let kind = KINDS.iter().find(|k| k.0 == first).map(|k| k.1);
        let kind = kind.or_else(|| of_scheme().map(|&entry| RecoveryKind::Scheme(entry)));
        let mut recovery = Recovery::of(kind.ok_or_else(|| {
            format!(
                "there is no recovery `{first}`; known: {}, with additions such as \
                 \"rack+prr+f-rto\"",
                detector_names(schemes).join(", ")
            )
        })?);
        for part in parts {
            recovery.add(part, schemes).map_err(|e| format!("recovery \"{text}\": {e}"))?;
        }
        recovery.check().map(|()| recovery).map_err(|e| format!("recovery \"{text}\": {e}"))
    }

    fn add(&mut self, part: &str, schemes: &[&'static DetectorEntry]) -> Result<(), String> {
        match part {
            "prr" => self.prr = true,
            "prr-dupacks" => self.prr_dupacks = true,
            "f-rto" => self.f_rto = true,
            "eifel" => self.eifel = Eifel::Rfc,
            "eifel-original" => self.eifel = Eifel::Original,
            "dsack-undo" => self.dsack_undo = true,
            "ncr" => self.ncr = Some(true),
            "ncr-aggressive" => self.ncr = Some(false),
            "dcr" => self.dcr = true,
            "fine-timer" => self.fine_timer = true,
            "elsn" => self.elsn = Some(ElsnRules::DEFAULT),
            "eln" => self.elsn = Some(ElsnRules::PLAIN),
            "eln-trust" => self.elsn = Some(ElsnRules::TRUST),
            "eln-shield" => self.elsn = Some(ElsnRules::SHIELD),
            numbers if numbers.starts_with("elsn=") => self.elsn = Some(elsn_rules(numbers)?),
            other => return self.add_own(other, schemes),
        }
        Ok(())
    }

    /// An addition that only one detector has.
    fn add_own(&mut self, part: &str, schemes: &[&'static DetectorEntry]) -> Result<(), String> {
        let parsed =
            |entry: &&'static DetectorEntry| Some((*entry, entry.own.as_ref()?.parse(part)?));
        let Some((entry, value)) = schemes.iter().find_map(parsed) else {
            return Err(format!(
                "there is no addition `{part}`; known: {}",
                addition_forms(schemes)
            ));
        };
        if self.kind != RecoveryKind::Scheme(entry) {
            let word = part.split('=').next().unwrap_or(part);
            return Err(format!("{word} goes with {}", entry.name));
        }
        self.setting = value?;
        Ok(())
    }
}

impl FromStr for Recovery {
    type Err = String;

    fn from_str(text: &str) -> Result<Recovery, String> {
        Recovery::parse(text, &[])
    }
}

/// "elsn=RUN/HOLDS".
fn elsn_rules(text: &str) -> Result<ElsnRules, String> {
    let numbers = text.strip_prefix("elsn=").and_then(|t| t.split_once('/'));
    let rules = numbers.and_then(|(run, holds)| {
        Some(ElsnRules { run: run.parse().ok()?, holds: holds.parse().ok()?, ..ElsnRules::DEFAULT })
    });
    rules.ok_or_else(|| {
        format!(
            "`{text}` is not of the form elsn=2/3: ELNs in a row that noise may bring, timeouts \
             put off"
        )
    })
}

impl Recovery {
    /// Checks that the parts are compatible.
    ///
    /// # Errors
    ///
    /// The message names the parts that exclude each other, or the range of a number.
    pub fn check(&self) -> Result<(), String> {
        RULES.iter().try_for_each(|rule| rule(self))
    }
}

/// What one part of a recovery demands of the others; the message names what does not go with it.
type Rule = fn(&Recovery) -> Result<(), String>;

/// What each part of a recovery is compatible with.
const RULES: [Rule; 6] =
    [dsack::check, sack_ns2::check, check_scheme, prr::check, defer::check, hints::check];

/// A detector of a scheme may exclude all additions except its own.
fn check_scheme(recovery: &Recovery) -> Result<(), String> {
    let RecoveryKind::Scheme(entry) = recovery.kind else { return Ok(()) };
    let plain = Recovery { setting: recovery.setting, ..Recovery::of(recovery.kind) };
    if entry.excludes_additions && *recovery != plain {
        let but = entry.own.as_ref().map_or(String::new(), |own| format!(" but {}", own.name));
        return Err(format!("{} takes no addition{but}", entry.name));
    }
    match &entry.own {
        Some(OwnAddition { name, number: Some(number), .. }) => {
            number.check(name, recovery.setting)
        }
        _ => Ok(()),
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        let additions = [
            (self.prr, "prr"),
            (self.prr_dupacks, "prr-dupacks"),
            (self.f_rto, "f-rto"),
            (self.eifel == Eifel::Rfc, "eifel"),
            (self.eifel == Eifel::Original, "eifel-original"),
            (self.dsack_undo, "dsack-undo"),
            (self.ncr == Some(true), "ncr"),
            (self.ncr == Some(false), "ncr-aggressive"),
            (self.dcr, "dcr"),
            (self.fine_timer, "fine-timer"),
        ];
        additions.iter().filter(|a| a.0).try_for_each(|a| write!(f, "+{}", a.1))?;
        if let RecoveryKind::Scheme(DetectorEntry { own: Some(own), .. }) = self.kind
            && self.setting != own.default
        {
            write!(f, "+{}", own.name)?;
            own.number.as_ref().map_or(Ok(()), |_| write!(f, "={}", self.setting))?;
        }
        match self.elsn {
            rules if rules == Recovery::of(self.kind).elsn => Ok(()),
            Some(ElsnRules::DEFAULT) => write!(f, "+elsn"),
            Some(ElsnRules::PLAIN) => write!(f, "+eln"),
            Some(ElsnRules::SHIELD) => write!(f, "+eln-shield"),
            Some(ElsnRules::TRUST) => write!(f, "+eln-trust"),
            Some(rules) => write!(f, "+elsn={}/{}", rules.run, rules.holds),
            None => Ok(()),
        }
    }
}

impl Serialize for Recovery {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_value_go_both_ways() {
        for text in [
            "tahoe",
            "sack-ns2",
            "rack+prr+f-rto+dsack-undo",
            "newreno+eifel",
            "sack+ncr-aggressive",
            "newreno+fine-timer",
            "sack+elsn",
            "sack+eln",
            "sack+eln-shield",
            "sack+eln-trust",
            "newreno+eln",
            "sack+prr-dupacks",
        ] {
            assert_eq!(text.parse::<Recovery>().unwrap().to_string(), text);
        }
        assert_eq!(Recovery::LINUX.to_string(), "rack+prr+f-rto+dsack-undo");
        assert!("rak".parse::<Recovery>().unwrap_err().contains("known: tahoe"));
        assert!("rack+ptt".parse::<Recovery>().unwrap_err().contains("no addition `ptt`"));
        let mistakes = [
            "reno+dsack-undo",
            "rack+ncr",
            "tahoe+dcr",
            "reno+ncr+dcr",
            "sack+fine-timer",
            "sack-ns2+f-rto",
        ];
        for text in mistakes.into_iter().chain([
            "rack+elsn",
            "sack+elsn=1",
            "rack+prr-dupacks",
            "sack+prr+prr-dupacks",
        ]) {
            assert!(text.parse::<Recovery>().is_err(), "{text}");
        }
    }
}
