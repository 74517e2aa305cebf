//! The text form of a recovery: `rack+prr+f-rto`.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::compatible;
use super::config::{Eifel, KINDS, Recovery, RecoveryKind};
use super::detect::scheme::DetectorEntry;
use super::hints::HintEntry;

const ADDITIONS: &str = "prr, prr-dupacks, f-rto, eifel, eifel-original, dsack-undo, ncr, \
                         ncr-aggressive, dcr, fine-timer";

/// What schemes add to the words of the RFCs.
#[derive(Clone, Copy, Debug)]
pub struct Vocabulary {
    /// Loss detectors.
    pub detectors: &'static [&'static DetectorEntry],
    /// Responses to hints of the link layer.
    pub hints: &'static [&'static HintEntry],
}

impl Vocabulary {
    /// The words of the RFCs alone.
    pub const RFC: Vocabulary = Vocabulary { detectors: &[], hints: &[] };

    /// The words of all detectors.
    pub fn detector_names(&self) -> Vec<&'static str> {
        KINDS.iter().map(|k| k.0).chain(self.detectors.iter().map(|entry| entry.name)).collect()
    }

    /// The additions, as help texts show them.
    pub fn addition_forms(&self) -> String {
        let hints = self.hints.iter().map(|entry| entry.name.to_string());
        let own = self.detectors.iter().filter_map(|entry| entry.own.as_ref());
        hints
            .chain(own.map(|own| own.form()))
            .fold(ADDITIONS.into(), |text, form| text + ", " + &form)
    }

    /// Reads the text form of a recovery.
    ///
    /// # Errors
    ///
    /// For an unknown detector or addition, and for parts that exclude each other; the message
    /// names what is known.
    pub fn parse(&self, text: &str) -> Result<Recovery, String> {
        let mut parts = text.split('+').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let of_scheme = || self.detectors.iter().find(|entry| entry.name == first);
        let kind = KINDS.iter().find(|k| k.0 == first).map(|k| k.1);
        let kind = kind.or_else(|| of_scheme().map(|&entry| RecoveryKind::Scheme(entry)));
        let mut recovery = Recovery::of(kind.ok_or_else(|| {
            format!(
                "there is no recovery `{first}`; known: {}, with additions such as \
                 \"rack+prr+f-rto\"",
                self.detector_names().join(", ")
            )
        })?);
        let checked = parts
            .try_for_each(|part| self.add(&mut recovery, part))
            .and_then(|()| compatible::check(&recovery));
        checked.map(|()| recovery).map_err(|e| format!("recovery \"{text}\": {e}"))
    }

    fn add(&self, recovery: &mut Recovery, part: &str) -> Result<(), String> {
        match part {
            "prr" => recovery.prr = true,
            "prr-dupacks" => recovery.prr_dupacks = true,
            "f-rto" => recovery.f_rto = true,
            "eifel" => recovery.eifel = Eifel::Rfc,
            "eifel-original" => recovery.eifel = Eifel::Original,
            "dsack-undo" => recovery.dsack_undo = true,
            "ncr" => recovery.ncr = Some(true),
            "ncr-aggressive" => recovery.ncr = Some(false),
            "dcr" => recovery.dcr = true,
            "fine-timer" => recovery.fine_timer = true,
            other => return self.add_of_scheme(recovery, other),
        }
        Ok(())
    }

    /// A response to hints, or an addition that only one detector has.
    fn add_of_scheme(&self, recovery: &mut Recovery, part: &str) -> Result<(), String> {
        if let Some(rules) = self.hints.iter().find_map(|entry| entry.parse(part)) {
            recovery.hints = Some(rules?);
            return Ok(());
        }
        let parsed =
            |entry: &&'static DetectorEntry| Some((*entry, entry.own.as_ref()?.parse(part)?));
        let Some((entry, value)) = self.detectors.iter().find_map(parsed) else {
            return Err(format!("there is no addition `{part}`; known: {}", self.addition_forms()));
        };
        if recovery.kind != RecoveryKind::Scheme(entry) {
            let word = part.split('=').next().unwrap_or(part);
            return Err(format!("{word} goes with {}", entry.name));
        }
        recovery.setting = value?;
        Ok(())
    }
}

impl FromStr for Recovery {
    type Err = String;

    fn from_str(text: &str) -> Result<Recovery, String> {
        Vocabulary::RFC.parse(text)
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
        match self.hints {
            Some(rules) if Recovery::of(self.kind).hints != Some(rules) => write!(f, "+{rules}"),
            _ => Ok(()),
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
        for text in mistakes.into_iter().chain(["rack+prr-dupacks", "sack+prr+prr-dupacks"]) {
            assert!(text.parse::<Recovery>().is_err(), "{text}");
        }
    }
}
