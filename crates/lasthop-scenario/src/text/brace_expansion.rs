//! Brace expansion of names, as in a shell: "n{1..5}" is n1, n2, n3, n4, n5, and "n{1..5..2}" is
//! n1, n3, n5.

use serde::{Deserialize, Deserializer};

use super::shorthand::passed;
use lasthop_core::diagnostics::Mistake;

/// Maximum number of names of one pair of braces; more are a mistake.
const MAX_NAMES: u64 = 2_000;

/// The names of a text: the text itself, unless it has braces.
///
/// # Errors
///
/// The braces are not closed, or do not count up to an allowed number of names.
pub fn expand(text: &str) -> Result<Vec<String>, Mistake> {
    let Some((before, rest)) = text.split_once('{') else { return Ok(vec![text.to_string()]) };
    let wrong = || Mistake::WrongType {
        expected: "a name, or names in a row such as \"n{1..5}\" or \"n{1..9..2}\"".into(),
        found: format!("\"{text}\""),
    };
    let (inside, after) = rest.split_once('}').ok_or_else(wrong)?;
    if after.contains(['{', '}']) {
        return Err(wrong());
    }
    let numbers: Vec<u64> = inside
        .split("..")
        .map(|n| n.trim().parse())
        .collect::<Result<_, _>>()
        .map_err(|_| wrong())?;
    let (first, last, step) = match numbers[..] {
        [first, last] => (first, last, 1),
        [first, last, step] => (first, last, step),
        _ => return Err(wrong()),
    };
    if step == 0 || last < first || (last - first) / step >= MAX_NAMES {
        let message = format!("\"{text}\" must count up, and to no more than {MAX_NAMES} names");
        return Err(message.into());
    }
    Ok((first..=last).step_by(step as usize).map(|n| format!("{before}{n}{after}")).collect())
}

/// Reads a list of names.
pub fn names<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    let texts = Vec::<String>::deserialize(d)?;
    let lists: Result<Vec<_>, Mistake> = texts.iter().map(|t| expand(t)).collect();
    Ok(lists.map_err(passed)?.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_count() {
        assert_eq!(expand("ap").unwrap(), ["ap"]);
        assert_eq!(expand("n{9..11}").unwrap(), ["n9", "n10", "n11"]);
        assert_eq!(expand("n{1..6..2}x").unwrap(), ["n1x", "n3x", "n5x"]);
        assert_eq!(expand("n{3..3}").unwrap(), ["n3"]);
        for text in [
            "n{1..",
            "n{1}",
            "n{1..2..0}",
            "n{2..1}",
            "n{a..b}",
            "n{1..9999}",
            "n{1..2}{1..2}",
            "n{-1..2}",
            "n{1..18446744073709551615}",
        ] {
            assert!(expand(text).unwrap_err().to_string().contains(text), "{text}");
        }
    }
}
