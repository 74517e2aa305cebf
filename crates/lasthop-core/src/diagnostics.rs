//! Wording of input errors: suggestions for misspelt names, and readable serde messages.

use std::fmt;

/// " (did you mean `x`?)" for the candidate closest to `word`; empty if none is similar.
pub fn hint<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let near = |(distance, c): &(usize, &str)| *distance <= (c.len().max(word.len()) / 3).max(1);
    let closest = candidates.map(|c| (strsim::osa_distance(word, c), c)).filter(near).min();
    closest.map(|(_, c)| format!(" (did you mean `{c}`?)")).unwrap_or_default()
}

/// Why a value of a file does not have its type.
///
/// serde gives its errors as text only, and passes them through buffers ("flatten", tagged enums)
/// as text too. [`Mistake::from_serde`] is the one place that reads this text;
/// [`Mistake::to_serde`] writes the same form for errors that must pass through serde. The tests of
/// this module fail if a version of serde words an error differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A key that the table does not have.
    UnknownKey {
        /// The key.
        key: String,
        /// The keys of the table; `None` if serde does not list them (flattened tables).
        allowed: Option<Vec<String>>,
    },
    /// A word that is not one of a list.
    UnknownValue {
        /// The word.
        value: String,
        /// The allowed words.
        allowed: Vec<String>,
    },
    /// A required key is absent.
    MissingKey {
        /// The key.
        key: String,
    },
    /// A value of another type, or out of the range of its type.
    WrongType {
        /// What is expected ("a whole number").
        expected: String,
        /// What was found ("the integer 5").
        found: String,
    },
    /// A condition of the type on its value, in words.
    Other(String),
}

impl Mistake {
    /// Reads the message of a serde error.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_core::diagnostics::Mistake;
    ///
    /// let mistake = Mistake::from_serde("unknown field `dleay`, expected `delay` or `loss`");
    /// let text = "unknown key `dleay` (did you mean `delay`?); allowed: delay, loss";
    /// assert_eq!(mistake.to_string(), text);
    /// ```
    pub fn from_serde(message: &str) -> Mistake {
        let quoted = |text: &str| -> Vec<String> {
            text.split('`').skip(1).step_by(2).map(str::to_string).collect()
        };
        let word_and_list = |rest: &str| {
            let mut words = quoted(rest).into_iter();
            (words.next().unwrap_or_default(), words.collect::<Vec<String>>())
        };
        if let Some(rest) = message.strip_prefix("unknown field ") {
            let (key, allowed) = word_and_list(rest);
            let listed = !allowed.is_empty() || rest.ends_with("there are no fields");
            return Mistake::UnknownKey { key, allowed: listed.then_some(allowed) };
        }
        if let Some(rest) = message.strip_prefix("unknown variant ") {
            let (value, allowed) = word_and_list(rest);
            return Mistake::UnknownValue { value, allowed };
        }
        if let Some(rest) = message.strip_prefix("missing field ") {
            return Mistake::MissingKey { key: rest.trim_matches('`').to_string() };
        }
        let invalid = ["invalid type: ", "invalid value: ", "invalid length "]
            .iter()
            .find_map(|p| message.strip_prefix(p));
        if let Some((found, expected)) = invalid.and_then(|rest| rest.rsplit_once(", expected ")) {
            let found = found.replace('`', "");
            let found = match found.split_once(' ').map_or(&found[..], |(kind, _)| kind) {
                "map" => "a table".into(),
                "sequence" => "an array".into(),
                "integer" | "string" | "boolean" => format!("the {found}"),
                "floating" => found.replace("floating point", "the number"),
                _ => found,
            };
            return Mistake::WrongType { expected: plain_english(expected).to_string(), found };
        }
        Mistake::Other(message.to_string())
    }

    /// The message in serde's form, which [`Mistake::from_serde`] reads back.
    pub fn to_serde(&self) -> String {
        match self {
            Mistake::UnknownKey { key, allowed: None } => format!("unknown field `{key}`"),
            Mistake::UnknownKey { key, allowed: Some(allowed) } if allowed.is_empty() => {
                format!("unknown field `{key}`, there are no fields")
            }
            Mistake::UnknownKey { key, allowed: Some(allowed) } => {
                format!("unknown field `{key}`, expected one of `{}`", allowed.join("`, `"))
            }
            Mistake::UnknownValue { value, allowed } => {
                format!("unknown variant `{value}`, expected one of `{}`", allowed.join("`, `"))
            }
            Mistake::MissingKey { key } => format!("missing field `{key}`"),
            Mistake::WrongType { expected, found } => {
                format!("invalid type: {found}, expected {expected}")
            }
            Mistake::Other(message) => message.clone(),
        }
    }

    /// The allowed keys or words; empty if the mistake is of another kind.
    pub fn allowed(&self) -> &[String] {
        match self {
            Mistake::UnknownKey { allowed: Some(allowed), .. }
            | Mistake::UnknownValue { allowed, .. } => allowed,
            _ => &[],
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = |f: &mut fmt::Formatter<'_>, what: &str, word: &str, allowed: &[String]| {
            let hint = hint(word, allowed.iter().map(String::as_str));
            let list = if allowed.is_empty() { "none".into() } else { allowed.join(", ") };
            write!(f, "unknown {what} `{word}`{hint}; allowed: {list}")
        };
        match self {
            Mistake::UnknownKey { key, allowed: Some(allowed) } => unknown(f, "key", key, allowed),
            Mistake::UnknownKey { key, allowed: None } => write!(f, "unknown key `{key}`"),
            Mistake::UnknownValue { value, allowed } => unknown(f, "value", value, allowed),
            Mistake::MissingKey { key } => write!(f, "the key `{key}` is missing"),
            Mistake::WrongType { expected, found } => {
                write!(f, "expected {expected}, found {found}")
            }
            Mistake::Other(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Mistake {}

impl From<String> for Mistake {
    fn from(message: String) -> Mistake {
        Mistake::Other(message)
    }
}

impl From<&str> for Mistake {
    fn from(message: &str) -> Mistake {
        Mistake::Other(message.to_string())
    }
}

fn plain_english(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        "a map" => "a table",
        _ => expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fmt::Debug;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    #[test]
    fn similar_names_are_suggested() {
        let keys = ["loss", "delay", "queue", "rate"];
        let suggestion = |word| hint(word, keys.into_iter());
        assert_eq!(suggestion("dleay"), " (did you mean `delay`?)");
        assert_eq!(suggestion("los"), " (did you mean `loss`?)");
        assert_eq!(suggestion("queue_size"), "");
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read by serde")]
    struct One {
        a: u8,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read by serde")]
    struct Three {
        a: Option<i32>,
        b: Option<f64>,
        c: Option<bool>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read by serde")]
    struct Flat {
        #[serde(flatten)]
        below: Three,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Word {
        Red,
        Green,
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
    #[allow(dead_code, reason = "only read by serde")]
    enum Tagged {
        Bulk {},
        Cbr { rate: u32 },
    }

    #[track_caller]
    fn wrong<T: DeserializeOwned + Debug>(json: &str, expected: &str) {
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        let message = T::deserialize(value).unwrap_err().to_string();
        let mistake = Mistake::from_serde(&message);
        assert_eq!(mistake.to_string(), expected, "serde says: {message}");
        assert!(!matches!(mistake, Mistake::Other(_)), "serde says: {message}");
        assert_eq!(Mistake::from_serde(&mistake.to_serde()), mistake);
    }

    /// Every form that `from_serde` reads, made by serde. A failure means that serde has changed
    /// the wording of an error.
    #[test]
    fn the_wording_of_serde_is_the_one_that_is_read() {
        wrong::<Nothing>(r#"{"x": 1}"#, "unknown key `x`; allowed: none");
        wrong::<One>(r#"{"x": 1}"#, "unknown key `x` (did you mean `a`?); allowed: a");
        wrong::<Three>(r#"{"xyz": 1}"#, "unknown key `xyz`; allowed: a, b, c");
        wrong::<Flat>(r#"{"xyz": 1}"#, "unknown key `xyz`");
        wrong::<Tagged>(r#"{"kind": "cbr", "xyz": 1}"#, "unknown key `xyz`; allowed: rate");
        let colour = "unknown value `gren` (did you mean `green`?); allowed: red, green";
        wrong::<Word>(r#""gren""#, colour);
        wrong::<Tagged>(r#"{"kind": "file"}"#, "unknown value `file`; allowed: bulk, cbr");
        wrong::<One>("{}", "the key `a` is missing");
        wrong::<Tagged>("{}", "the key `kind` is missing");
    }

    #[test]
    fn types_are_named_in_plain_words() {
        wrong::<Vec<One>>("3", "expected an array, found the integer 3");
        wrong::<Vec<One>>("2.5", "expected an array, found the number 2.5");
        wrong::<bool>(r#""x""#, "expected true or false, found the string \"x\"");
        wrong::<f64>("true", "expected a number, found the boolean true");
        wrong::<f32>("[1]", "expected a number, found an array");
        wrong::<std::collections::BTreeMap<String, u8>>("[1]", "expected a table, found an array");
        let whole = "expected a whole number, not negative, found";
        wrong::<u8>("300", &format!("{whole} the integer 300"));
        wrong::<u16>("-1", &format!("{whole} the integer -1"));
        wrong::<u32>("{}", &format!("{whole} a table"));
        wrong::<u64>("-1", &format!("{whole} the integer -1"));
        wrong::<usize>("-1", &format!("{whole} the integer -1"));
        wrong::<i8>("200", "expected a whole number, found the integer 200");
        wrong::<i16>("{}", "expected a whole number, found a table");
        wrong::<i32>("{}", "expected a whole number, found a table");
        wrong::<i64>("{}", "expected a whole number, found a table");
        wrong::<(u8, u8)>("[1]", "expected a tuple of size 2, found 1");
    }
}
