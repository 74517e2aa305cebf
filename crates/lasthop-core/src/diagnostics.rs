//! Wording of input errors: suggestions for misspelt names, and readable serde messages.

/// " (did you mean `x`?)" for the candidate closest to `word`; empty if none is similar.
pub fn hint<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let near = |(distance, c): &(usize, &str)| *distance <= (c.len().max(word.len()) / 3).max(1);
    let closest = candidates.map(|c| (strsim::osa_distance(word, c), c)).filter(near).min();
    closest.map(|(_, c)| format!(" (did you mean `{c}`?)")).unwrap_or_default()
}

/// Rewrites an error message of serde. `keys` gives the allowed keys for an unknown one.
pub fn explain(message: &str, keys: impl FnOnce(&str) -> Vec<String>) -> String {
    let quoted = |text: &str| -> Vec<String> {
        text.split('`').skip(1).step_by(2).map(str::to_string).collect()
    };
    let unknown = |what: &str, word: &str, allowed: Vec<String>| {
        let hint = hint(word, allowed.iter().map(String::as_str));
        format!(
            "{what} `{word}`{hint}; allowed: {}",
            if allowed.is_empty() { "none".into() } else { allowed.join(", ") }
        )
    };
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let mut words = quoted(rest).into_iter();
        let word = words.next().unwrap_or_default();
        let allowed: Vec<String> = words.collect();
        let listed = !allowed.is_empty() || rest.ends_with("there are no fields");
        return unknown("unknown key", &word, if listed { allowed } else { keys(&word) });
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let mut words = quoted(rest).into_iter();
        let word = words.next().unwrap_or_default();
        return unknown("unknown value", &word, words.collect());
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        return format!("the key {rest} is missing");
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
        return format!("expected {}, found {found}", plain_english(expected));
    }
    message.to_string()
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
    use super::hint;

    #[test]
    fn similar_names_are_suggested() {
        let keys = ["loss", "delay", "queue", "rate"];
        let suggestion = |word| hint(word, keys.into_iter());
        assert_eq!(suggestion("dleay"), " (did you mean `delay`?)");
        assert_eq!(suggestion("los"), " (did you mean `loss`?)");
        assert_eq!(suggestion("queue_size"), "");
    }
}
