//! The message for each mistake that a file can contain.

use proptest::prelude::*;

use super::*;

/// Files, each with the beginning of its message (without the name of the file): blocks of lines,
/// the last one the message.
fn mistakes() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("mistakes.txt")
        .trim_end()
        .split("\n\n")
        .map(|block| block.split_once("\n=> ").expect("a block ends in a message"))
}

#[test]
fn each_mistake_has_its_place_key_and_remedy() {
    for (text, expected) in mistakes() {
        let found = mistake(text);
        let expected = format!("lab.toml{expected}");
        assert!(
            found.starts_with(&expected),
            "for\n{text}\nexpected: {expected}\nfound:    {found}"
        );
        assert!(!found.contains('\n'), "{found}");
    }
}

#[test]
fn columns_count_characters_and_lines_end_as_they_may() {
    assert!(
        mistake("title = \"größer\" # é\r\nduration = \"5 s\"\r\ntcp = { min_rto = 5 }")
            .starts_with("lab.toml:3:9: tcp.min_rto: the number 5 needs a unit")
    );
}

/// A file from another person cannot send control sequences to the terminal.
#[test]
fn control_characters_are_shown_escaped() {
    for text in [
        r#"[tcp]
scheme = "re\u001bno""#,
        r#"flow = [{ "na\u0007me" = 1 }]"#,
        "duration = \"5\u{7f}s\"",
    ] {
        let found = mistake(text);
        assert!(!found.chars().any(char::is_control) && found.contains('\\'), "{found:?}");
    }
}

#[test]
fn windows_below_a_segment_are_allowed() {
    assert!(load_with("[tcp]\nreceive_window = \"500 B\"", &Overrides::default()).is_ok());
    assert!(load_with("[tcp]\nreceive_window = \"0.5 segments\"", &Overrides::default()).is_ok());
}

#[test]
fn deep_nesting_is_refused_calmly() {
    for text in [
        format!("x = {}", "[".repeat(100_000)),
        format!("x = {}1{}", "{a=".repeat(5_000), "}".repeat(5_000)),
        format!("{} = 1", vec!["a"; 50_000].join(".")),
    ] {
        mistake(&text);
    }
}

fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("[last_hop]"),
        Just("[[link]]"),
        Just("[[flow]]"),
        Just("[[node]]"),
        Just("[tcp]"),
        Just("[experiment]"),
        Just("[[claim]]"),
        Just("name = \"a\""),
        Just("between = [\"a\", \"b\"]"),
        Just("between = [\"b\", \"server\"]"),
        Just("radio = true"),
        Just("[[cell]]"),
        Just("[[cell.station]]"),
        Just("members = [\"a\", \"server\", \"phone\"]"),
        Just("mac = \"csma-lan\""),
        Just("attempts = 2"),
        Just("rate = \"1 Mbps\""),
        Just("rate = \"1e300 Gbps\""),
        Just("rate = { trace = \"my.down\" }"),
        Just("rate = { schedule = [] }"),
        Just("forward.rate = \"2 bps\""),
        Just("delay = { base = \"1 s\", steps = [{ at = \"1 s\", delay = \"9 h\" }] }"),
        Just("down = \"my.down\""),
        Just("loss = { model = \"markov\", good_to_good = 1, bad_to_bad = 0.5, clock = \"slot\" }"),
        Just("loss = 0.5"),
        Just("rtt = \"30 h\""),
        Just("from = \"a\""),
        Just("to = \"server\""),
        Just("count = 3"),
        Just("app = { kind = \"cbr\", rate = \"1 kbps\" }"),
        Just("start = \"1 s\""),
        Just("scheme = \"snoop\""),
        Just("scheme = { name = \"reno\" }"),
        Just("min_rto = \"1 ns\""),
        Just("queue = \"0 packets\""),
        Just("role = \"proxy\""),
        Just("vary = { a = [1, {}] }"),
        Just("schemes = [\"reno\"]"),
        Just("segment = \"1 B\""),
        Just("duration = \"1 h\""),
    ];
    proptest::collection::vec(word, 0..12).prop_map(|words| words.join("\n"))
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        let _ = load_with(&text, &Overrides::default());
    }

    #[test]
    fn arbitrary_files_never_panic_and_good_ones_round_trip(text in words()) {
        if let Ok(loaded) = load_with(&text, &Overrides::default()) {
            let again = load(&loaded.filled, None, &Overrides::default(), &Memory);
            prop_assert_eq!(again.map(|l| l.filled), Ok(loaded.filled));
            prop_assert!(loaded.network.estimated_frames() >= 0.0);
        }
    }

    #[test]
    fn arbitrary_keys_and_values_never_panic(key in "[a-z_.0-9]{0,30}", value in "\\PC{0,30}") {
        let _ = load_with(LONG, &sets(&[(&key, &value)]));
        let _ = load_with(SHORT, &sets(&[(&format!("last_hop.{key}"), &value)]));
        let _ = load_with(LONG, &sets(&[(&format!("link.radio.{key}"), &value)]));
    }
}
