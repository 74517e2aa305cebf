//! The seed inputs of the fuzz targets, including those that found bugs, as ordinary tests.

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

        /// Every target has a test here, a libFuzzer program and a row in the docs.
        #[test]
        fn targets_tests_programs_and_docs_agree() {
            let listed = [$(stringify!($name)),*];
            assert_eq!(TARGETS.map(|t| t.0), listed);
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let text = |file| fs::read_to_string(root.join(file)).expect(file);
            let (programs, docs) = (text("fuzz/Cargo.toml"), text("docs/fuzzing.md"));
            for name in listed {
                assert!(programs.contains(&format!("\"fuzz_targets/{name}.rs\"")), "{name}");
                assert!(root.join(format!("fuzz/fuzz_targets/{name}.rs")).is_file(), "{name}");
                assert!(docs.contains(&format!("| `{name}` |")), "{name}");
            }
        }
    };
}

corpora!(packet, options, capture, replay, scenario, overrides, sender, receiver, agents, traces);
