//! The seeds of the fuzz targets, and the inputs that found something, as ordinary tests.

use std::fs;
use std::path::{Path, PathBuf};

use lasthop_fuzz::{TARGETS, Target};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed").join(target)
}

/// Runs every input of a target and says which one fails.
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

        /// Each target has its seeds run here, a program for libFuzzer and a line in the docs.
        #[test]
        fn no_target_is_left_out() {
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
