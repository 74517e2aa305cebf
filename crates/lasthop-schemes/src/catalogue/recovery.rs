//! Recoveries in the text form of files: the loss detectors of the RFCs and those of the schemes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use lasthop_tcp::profile::{DefaultRecovery, PapersOwn};
use lasthop_tcp::recovery::{DetectorEntry, HintEntry, Recovery, Vocabulary};

macro_rules! detectors {
    ($($module:ident)*) => {
        /// The loss detectors of schemes, in the order of the catalogue.
        static DETECTORS: &[&DetectorEntry] = &[$(&crate::$module::DETECTOR),*];
    };
}
macro_rules! detector_list {
    ($($list:tt)*) => { with_detectors! { detectors: [] $($list)* } };
}
with_schemes!(detector_list);

macro_rules! hints {
    ($($module:ident)*) => {
        /// The responses of schemes to hints of the link layer, in the order of the catalogue.
        static HINTS: &[&HintEntry] = &[$(&crate::$module::HINTS),*];
    };
}
macro_rules! hint_list {
    ($($list:tt)*) => { with_hints! { hints: [] $($list)* } };
}
with_schemes!(hint_list);

/// The words that the schemes add to those of the RFCs.
pub static VOCABULARY: Vocabulary = Vocabulary { detectors: DETECTORS, hints: HINTS };

/// A recovery as a setting, in its text form: `rack+prr+f-rto`. It may name the loss detector of a
/// scheme.
///
/// # Errors
///
/// Parsing fails for an unknown detector or addition, and for parts that exclude each other; the
/// message names what is known.
///
/// # Examples
///
/// ```
/// use lasthop_schemes::catalogue::RecoverySetting;
///
/// let setting: RecoverySetting = "packet-list+smart".parse()?;
/// assert!(!setting.uses_sack());
/// assert_eq!(setting.to_string(), "packet-list+smart");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct RecoverySetting(pub Recovery);

impl Deref for RecoverySetting {
    type Target = Recovery;

    fn deref(&self) -> &Recovery {
        &self.0
    }
}

impl From<Recovery> for RecoverySetting {
    fn from(recovery: Recovery) -> RecoverySetting {
        RecoverySetting(recovery)
    }
}

impl FromStr for RecoverySetting {
    type Err = String;

    fn from_str(text: &str) -> Result<RecoverySetting, String> {
        VOCABULARY.parse(text).map(RecoverySetting)
    }
}

impl fmt::Display for RecoverySetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for RecoverySetting {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<RecoverySetting, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for RecoverySetting {
    fn schema_name() -> Cow<'static, str> {
        "Recovery".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names = VOCABULARY.detector_names();
        schemars::json_schema!({
            "type": "string",
            "description": format!(
                "What finds losses ({}), and what is added to it with + ({})",
                names.join(", "),
                VOCABULARY.addition_forms()
            ),
            "pattern": format!("^({})(\\+[a-z-]+(=[0-9]+(/[0-9]+)?)?)*$", names.join("|")),
        })
    }
}

/// The key `recovery` of `[tcp]`: loss recovery under a window rule that does not insist on its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "expected \"paper\" or a recovery such as \"rack+prr+f-rto\"")]
#[schemars(rename = "DefaultRecovery")]
pub enum RecoveryKey {
    /// That of the rule's own paper.
    Named(PapersOwn),
    /// This one.
    This(RecoverySetting),
}

impl From<RecoveryKey> for DefaultRecovery {
    fn from(key: RecoveryKey) -> DefaultRecovery {
        match key {
            RecoveryKey::Named(word) => DefaultRecovery::Named(word),
            RecoveryKey::This(setting) => DefaultRecovery::This(setting.0),
        }
    }
}

impl From<DefaultRecovery> for RecoveryKey {
    fn from(recovery: DefaultRecovery) -> RecoveryKey {
        match recovery {
            DefaultRecovery::Named(word) => RecoveryKey::Named(word),
            DefaultRecovery::This(recovery) => RecoveryKey::This(RecoverySetting(recovery)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detectors_of_schemes_have_a_text_form() {
        for text in [
            "esack",
            "esack+prr+elsn=1/0",
            "packet-list",
            "packet-list+smart",
            "selective-repeat",
            "selective-repeat+timer=4",
            "sack+elsn",
            "sack+elsn=1/3",
            "sack+eln",
            "sack+eln-shield",
            "sack+eln-trust",
            "newreno+eln",
            "rack+prr+f-rto",
        ] {
            assert_eq!(text.parse::<RecoverySetting>().unwrap().to_string(), text);
        }
        let default = "selective-repeat+timer=2".parse::<RecoverySetting>().unwrap();
        assert_eq!(default.to_string(), "selective-repeat");
    }

    #[test]
    fn detectors_of_schemes_refuse_what_does_not_go_with_them() {
        let no_number = "`timer=x` is not of the form timer=2: round-trip times after which a \
                         segment is sent again";
        let no_pair = "`elsn=1` is not of the form elsn=2/3: ELNs in a row that noise may bring, \
                       timeouts put off";
        for (text, error) in [
            ("packet-list+prr", "packet-list takes no addition but smart"),
            ("selective-repeat+prr", "selective-repeat takes no addition but timer"),
            ("sack+smart", "smart goes with packet-list"),
            ("rack+timer=3", "timer goes with selective-repeat"),
            ("selective-repeat+timer=x", no_number),
            ("esack+dcr", "ncr and dcr go with reno, newreno and sack"),
            ("rack+elsn", "elsn goes with reno, newreno and sack"),
            ("rack+eln", "eln goes with reno, newreno and sack"),
            ("sack+elsn=1", no_pair),
        ] {
            let found = text.parse::<RecoverySetting>().unwrap_err();
            assert_eq!(found, format!("recovery \"{text}\": {error}"));
        }
        let range = "selective-repeat+timer=0".parse::<RecoverySetting>().unwrap_err();
        assert!(range.contains("timer must be 1 to 1000, found 0"), "{range}");
        let unknown = "rack+ptt".parse::<RecoverySetting>().unwrap_err();
        assert!(unknown.contains("smart, timer=ROUND-TRIPS"), "{unknown}");
    }
}
