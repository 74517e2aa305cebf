//! The seed inputs of the fuzz targets, including those that found bugs, as ordinary tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lasthop_fuzz::{TARGETS, Target};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed").join(target)
}

/// Runs every seed of a target and reports the first that fails.
fn run(name: &str) {
    let target: Target = TARGETS.iter().find(|t| t.0 == name).expect("a target").1;
    let files = fs::read_dir(folder(name)).expect("a folder of seeds");
    let mut paths: Vec<PathBuf> = files.map(|f| f.expect("a file").path()).collect();
    paths.sort();
    assert!(paths.len() >= 10, "{name} has {} seeds", paths.len());
    for path in paths {
        let data = fs::read(&path).expect("a seed");
        let outcome = std::panic::catch_unwind(|| target(&data));
        assert!(outcome.is_ok(), "cargo fuzz run {name} {}", path.display());
    }
}

macro_rules! corpora {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        /// Every target has a test here, a libFuzzer program, a job in the nightly workflow and a
        /// row in the docs, and these have no others.
        #[test]
        fn targets_tests_programs_and_docs_agree() {
            let listed = [$(stringify!($name)),*];
            assert_eq!(TARGETS.map(|t| t.0), listed);
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let text = |file| fs::read_to_string(root.join(file)).expect(file);
            let (programs, docs) = (text("fuzz/Cargo.toml"), text("docs/fuzzing.md"));
            let workflow = text(".github/workflows/nightly.yml");
            let names = |text: &str, from: &str, start: &str, end: &str| {
                let rest = text.split_once(from).expect(from).1;
                let lines = rest.lines().skip_while(|l| !l.trim_start().starts_with(start));
                let lines = lines.take_while(|l| l.trim_start().starts_with(start));
                let inner = |l: &str| Some(l.trim().strip_prefix(start)?.split(end).next()?.into());
                lines.filter_map(inner).collect::<BTreeSet<String>>()
            };
            let expected: BTreeSet<String> = listed.iter().map(|n| (*n).to_owned()).collect();
            assert_eq!(names(&workflow, "target:", "- ", " "), expected, "nightly.yml");
            assert_eq!(names(&docs, "| target |", "| `", "`"), expected, "docs/fuzzing.md");
            let files = fs::read_dir(root.join("fuzz/fuzz_targets")).expect("fuzz_targets");
            let stem = |f: fs::DirEntry| {
                let name = f.file_name().into_string().expect("UTF-8");
                name.trim_end_matches(".rs").to_owned()
            };
            let files: BTreeSet<String> = files.map(|f| stem(f.expect("a file"))).collect();
            assert_eq!(files, expected, "fuzz/fuzz_targets");
            for name in listed {
                assert!(programs.contains(&format!("\"fuzz_targets/{name}.rs\"")), "{name}");
            }
        }
    };
}

corpora!(
    packet, options, capture, replay, scenario, overrides, sender, receiver, agents, traces, chain
);

/// Random bytes find overflows of the window rules that the seeds do not reach.
#[test]
fn random_inputs_of_a_sender() {
    random_senders(2000, 1);
}

#[test]
#[ignore = "takes minutes"]
fn a_million_random_inputs_of_a_sender() {
    random_senders(1_000_000, 2);
}

fn random_senders(count: u64, seed: u64) {
    let mut random = random_bytes(seed);
    let target = TARGETS.iter().find(|t| t.0 == "sender").expect("a target").1;
    for _ in 0..count {
        let length = 16 + 8 * usize::from(random());
        let input: Vec<u8> = (0..length).map(|_| random()).collect();
        target(&input);
    }
}

/// Bytes of Knuth's MMIX generator, whose high bits are the good ones.
fn random_bytes(mut state: u64) -> impl FnMut() -> u8 {
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u8
    }
}

/// A million random packets through a chain: headers of few connections with random numbers, and
/// bytes of any kind.
#[test]
fn a_million_packets_through_a_chain() {
    random_packets(1_000_000, 1);
}

#[test]
#[ignore = "takes minutes"]
fn a_hundred_million_packets_through_a_chain() {
    random_packets(100_000_000, 2);
}

fn random_packets(count: u64, seed: u64) {
    let mut random = random_bytes(seed);
    for _ in 0..count / 64 {
        // Two bytes, and for each packet a time, flags, a length, and the bytes of headers.
        let mut input = vec![random(), random()];
        for _ in 0..64 {
            let length = random() % 32;
            input.extend([random(), random() % 64, random(), length]);
            input.extend((0..length).map(|_| random()));
        }
        lasthop_fuzz::chain::run(&input);
    }
}
