//! The message for each mistake that a file can contain.

use proptest::prelude::*;

use super::*;
use crate::parts::app::AppSpec;
use crate::parts::last_hop;
use crate::text::shorthand::Form;
use crate::{ErrorKind, Mistake};

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

/// The error of a text that must be invalid.
#[track_caller]
fn error(text: &str) -> ScenarioError {
    match load_with(text, &Overrides::default()) {
        Ok(_) => panic!("no mistake was found in:\n{text}"),
        Err(error) => error,
    }
}

#[test]
fn errors_have_a_kind_a_span_and_the_allowed_words() {
    let text = "[last_hop]\nlos = \"1 %\"";
    let unknown = error(text);
    assert_eq!(unknown.span.clone().map(|span| &text[span]), Some("los"));
    assert_eq!(unknown.allowed(), &last_hop::KEYS[..]);
    assert!(matches!(&*unknown.kind, ErrorKind::Mistake(Mistake::UnknownKey { key, .. })
        if key == "los"));

    // The keys of a flattened table are those of its schema.
    let flattened = error("[[link]]\nbetween = [\"a\", \"b\"]\nraet = \"1 Mbps\"");
    assert!(flattened.allowed().contains(&"rate".to_string()), "{flattened}");
    assert!(flattened.to_string().contains("did you mean `rate`?"), "{flattened}");

    let wrong = error("duration = 5 s");
    assert!(matches!(&*wrong.kind, ErrorKind::Syntax { .. }), "{wrong:?}");
    let wrong = error("[[flow]]\nfrom = \"bs\"\nto = \"fone\"");
    assert_eq!(wrong.allowed(), ["server", "bs", "phone"]);
    assert!(matches!(&*wrong.kind, ErrorKind::NoSuchNode { name, .. } if name == "fone"));
    let wrong = error("[[flow]]\ncount = 1.5");
    assert!(
        matches!(&*wrong.kind, ErrorKind::Mistake(Mistake::WrongType { found, .. })
            if found == "the number 1.5"),
        "{wrong:?}"
    );
    let set = load_with(LONG, &sets(&[("link.radoi.rate", "1 Mbps")])).map(drop).unwrap_err();
    assert_eq!((set.span.clone(), set.allowed()), (None, &["1", "radio"].map(String::from)[..]));
    assert!(set.to_string().contains("did you mean `radio`?"), "{set}");
}

/// A form that refuses a text tells what it expects; the mistake keeps its kind through serde.
#[test]
fn kinds_survive_the_forms() {
    let wrong = error("[[flow]]\napp = \"bluk\"");
    assert!(
        matches!(&*wrong.kind, ErrorKind::Mistake(Mistake::WrongType { found, .. })
            if found == "\"bluk\""),
        "{wrong:?}"
    );
    let wrong = error("last_hop = { queue = { discipline = \"codel\", packets = 9, tagret = 1 } }");
    assert!(wrong.allowed().contains(&"target".to_string()), "{wrong:?}");
}

/// The wording of the TOML reader, as `Mistake::from_serde` reads it.
#[test]
fn the_wording_of_toml_is_the_one_that_is_read() {
    for text in [
        "durtion = 1",
        "[measure]\nform = \"1 s\"",
        "[[link]]\nradio = true",
        "[[node]]\nname = \"a\"\nrole = \"proxi\"",
        "[[flow]]\ncount = \"x\"",
        "[[flow]]\ncount = -1",
        "[[link]]\nbetween = [\"a\", \"b\"]\nradio = 1",
        "[[flow]]\nname = 1979-05-27",
        "node = { name = \"a\" }",
    ] {
        let error = error(text);
        let typed = matches!(&*error.kind, ErrorKind::Mistake(mistake)
            if !matches!(mistake, Mistake::Other(_)));
        let brackets = matches!(&*error.kind, ErrorKind::NeedsBrackets { .. });
        assert!(typed || brackets, "{text}: {error:?}");
    }
}

/// The kinds of applications that the message lists are those of the type.
#[test]
fn listed_kinds_are_those_of_the_schema() {
    let schema = schemars::schema_for!(AppSpec).to_value();
    let mut kinds: Vec<&str> = schema["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| kind["properties"]["kind"]["const"].as_str().unwrap())
        .collect();
    let (_, list) = <AppSpec as Form>::EXPECTED.split_once("(kinds: ").unwrap();
    let mut listed: Vec<&str> = list.trim_end_matches(')').split(", ").collect();
    kinds.sort_unstable();
    listed.sort_unstable();
    assert_eq!(kinds, listed);
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
