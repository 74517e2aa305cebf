//! The recovery component as a value: how losses are detected and repaired.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hints::ElsnRules;
use super::spurious::dsack;
use super::{defer, hints, packet_list, prr, sack_ns2, selective_repeat};

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
    /// SACK that counts duplicate ACKs in the order of transmission, for a sender that accepts
    /// notices of the link layer (yun2009, section 4.1).
    Esack,
    /// FACK (Mathis and Mahdavi 1996).
    Fack,
    /// RACK-TLP (RFC 8985).
    Rack,
    /// A packet list (Gao, Diggavi and Muthukrishnan 2003): each loss is a separate episode.
    PacketList,
    /// Selective repeat: each segment has a separate timer.
    SelectiveRepeat,
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
    /// The receiver names the packet that each ACK answers (SMART) and sends no SACK.
    pub smart: bool,
    /// Round-trip times after which a segment is sent again (selective repeat).
    pub timer: u32,
    /// Notices of the link layer are accepted (yun2009): ERSN, ELN.
    pub elsn: Option<ElsnRules>,
}

const KINDS: [(&str, RecoveryKind); 10] = [
    ("tahoe", RecoveryKind::Tahoe),
    ("reno", RecoveryKind::Reno),
    ("newreno", RecoveryKind::Newreno),
    ("sack", RecoveryKind::Sack),
    ("sack-ns2", RecoveryKind::SackNs2),
    ("esack", RecoveryKind::Esack),
    ("fack", RecoveryKind::Fack),
    ("rack", RecoveryKind::Rack),
    ("packet-list", RecoveryKind::PacketList),
    ("selective-repeat", RecoveryKind::SelectiveRepeat),
];

const ADDITIONS: &str = "prr, prr-dupacks, f-rto, eifel, eifel-original, dsack-undo, ncr, \
                         ncr-aggressive, dcr, fine-timer, smart, timer=ROUND-TRIPS, elsn, eln, \
                         eln-trust, eln-shield";

impl Recovery {
    /// One without additions.
    pub const fn of(kind: RecoveryKind) -> Recovery {
        let elsn = match kind {
            RecoveryKind::Esack => Some(ElsnRules::DEFAULT),
            RecoveryKind::PacketList => Some(ElsnRules::TRUST),
            _ => None,
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
            smart: false,
            timer: selective_repeat::TIMER,
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
        Recovery { kind: RecoveryKind::Newreno, dsack_undo: false, ..self }
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
        !matches!(self.eifel, Eifel::Off) || matches!(self.kind, RecoveryKind::SelectiveRepeat)
    }

    /// It works on SACK blocks.
    pub const fn uses_sack(&self) -> bool {
        match self.kind {
            RecoveryKind::Sack
            | RecoveryKind::Esack
            | RecoveryKind::SackNs2
            | RecoveryKind::Fack => true,
            RecoveryKind::Rack | RecoveryKind::SelectiveRepeat => true,
            RecoveryKind::PacketList => !self.smart,
            RecoveryKind::Tahoe | RecoveryKind::Reno | RecoveryKind::Newreno => false,
        }
    }
}

impl FromStr for Recovery {
    type Err = String;

    fn from_str(text: &str) -> Result<Recovery, String> {
        let mut parts = text.split('+').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let names = KINDS.map(|k| k.0).join(", ");
        let kind = KINDS.iter().find(|k| k.0 == first).map(|k| k.1);
        let mut r = Recovery::of(kind.ok_or_else(|| {
            format!(
                "there is no recovery `{first}`; known: {names}, with additions such as \
                 \"rack+prr+f-rto\""
            )
        })?);
        for part in parts {
            match part {
                "prr" => r.prr = true,
                "prr-dupacks" => r.prr_dupacks = true,
                "f-rto" => r.f_rto = true,
                "eifel" => r.eifel = Eifel::Rfc,
                "eifel-original" => r.eifel = Eifel::Original,
                "dsack-undo" => r.dsack_undo = true,
                "ncr" => r.ncr = Some(true),
                "ncr-aggressive" => r.ncr = Some(false),
                "dcr" => r.dcr = true,
                "fine-timer" => r.fine_timer = true,
                "smart" => r.smart = true,
                "elsn" => r.elsn = Some(ElsnRules::DEFAULT),
                "eln" => r.elsn = Some(ElsnRules::PLAIN),
                "eln-trust" => r.elsn = Some(ElsnRules::TRUST),
                "eln-shield" => r.elsn = Some(ElsnRules::SHIELD),
                trips if trips.starts_with("timer=") => r.timer = timer(trips)?,
                numbers if numbers.starts_with("elsn=") => r.elsn = Some(elsn_rules(numbers)?),
                other => {
                    return Err(format!(
                        "recovery \"{text}\": there is no addition `{other}`; known: {ADDITIONS}"
                    ));
                }
            }
        }
        r.check().map(|()| r).map_err(|e| format!("recovery \"{text}\": {e}"))
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

/// "timer=ROUND-TRIPS".
fn timer(text: &str) -> Result<u32, String> {
    let trips = text.strip_prefix("timer=").and_then(|t| t.parse().ok());
    trips.ok_or_else(|| {
        format!(
            "`{text}` is not of the form timer=2: round-trip times after which a segment is sent \
             again"
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
const RULES: [Rule; 7] = [
    dsack::check,
    sack_ns2::check,
    packet_list::check,
    selective_repeat::check,
    prr::check,
    defer::check,
    hints::check,
];

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KINDS.iter().find(|k| k.1 == self.kind).map_or("", |k| k.0))?;
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
            (self.smart, "smart"),
            (self.elsn == Some(ElsnRules::DEFAULT) && self.kind != RecoveryKind::Esack, "elsn"),
        ];
        additions.iter().filter(|a| a.0).try_for_each(|a| write!(f, "+{}", a.1))?;
        if self.timer != selective_repeat::TIMER {
            write!(f, "+timer={}", self.timer)?;
        }
        match self.elsn {
            Some(ElsnRules::PLAIN) => write!(f, "+eln"),
            Some(ElsnRules::SHIELD) => write!(f, "+eln-shield"),
            Some(ElsnRules::TRUST) if self.kind != RecoveryKind::PacketList => {
                write!(f, "+eln-trust")
            }
            Some(rules) if ![ElsnRules::DEFAULT, ElsnRules::TRUST].contains(&rules) => {
                write!(f, "+elsn={}/{}", rules.run, rules.holds)
            }
            _ => Ok(()),
        }
    }
}

impl Serialize for Recovery {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Recovery {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Recovery, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Recovery {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Recovery".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let kinds = KINDS.map(|k| k.0).join("|");
        schemars::json_schema!({
            "type": "string",
            "description": format!(
                "What finds losses ({}), and what is added to it with + ({ADDITIONS})",
                KINDS.map(|k| k.0).join(", ")
            ),
            "pattern": format!("^({kinds})(\\+[a-z-]+(=[0-9]+(/[0-9]+)?)?)*$"),
        })
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
            "packet-list+smart",
            "selective-repeat",
            "selective-repeat+timer=4",
            "esack",
            "esack+prr+elsn=1/0",
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
            "packet-list+prr",
            "sack+smart",
        ];
        for text in mistakes.into_iter().chain([
            "rack+elsn",
            "sack+elsn=1",
            "rack+timer=3",
            "selective-repeat+timer=0",
            "selective-repeat+timer=x",
            "selective-repeat+prr",
            "rack+prr-dupacks",
            "sack+prr+prr-dupacks",
        ]) {
            assert!(text.parse::<Recovery>().is_err(), "{text}");
        }
    }
}
