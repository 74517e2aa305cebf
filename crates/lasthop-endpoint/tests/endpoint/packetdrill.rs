//! Plays packetdrill's scripts against a host of endpoints, under the profile `linux` and in
//! virtual time: every packet that the script expects is compared with the bytes that the host
//! sends.
//!
//! The crate `lasthop` plays them against its sender and its receiver, each alone. Here the whole
//! connection is played: the handshake, segments without data, closing, resets, and what a host
//! answers to packets of no connection. [`scripts`] has some of this project; those of packetdrill
//! and of the Linux kernel, which are not part of it, are played by
//!
//! ```text
//! LASTHOP_PACKETDRILL=FOLDER cargo test -p lasthop-endpoint --test endpoint folder -- \
//!     --ignored --nocapture
//! ```

#[path = "../../../lasthop/tests/scripted/packetdrill/language.rs"]
mod language;
mod player;
mod scripts;
mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use player::{Outcome, play};

/// Scripts that do not hold, each with the rule that it is for.
const DIFFERS: [(&str, &str); 5] = [
    ("fr-4pkt-fack-last-mss", "before Linux 6.6 RACK's timer was due two ticks later, not 2 ms"),
    (
        "shutdown-rdwr-send-queue-ack-close",
        "data with a FIN are not deferred (`tcp_tso_should_defer`); the sender defers them",
    ),
    (
        "invalid_ack",
        "an established Linux drops the ACK of data not sent; RFC 5961, section 5.2, answers it",
    ),
    ("tcp_close_no_rst", "a FIN forgets the duplicate to be reported (`tcp_fin`)"),
    ("tcp_rcv_neg_window", "the ACK of data that exceed the window waits 40 ms in Linux"),
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "pkt") {
            found.push(path);
        }
    }
}

#[test]
#[ignore = "needs LASTHOP_PACKETDRILL"]
fn packetdrill_scripts_of_a_folder() {
    let folder = std::env::var("LASTHOP_PACKETDRILL")
        .expect("LASTHOP_PACKETDRILL names the folder of the scripts");
    let mut found = Vec::new();
    files(Path::new(&folder), &mut found);
    found.sort();
    let (mut counts, mut surprises) = (BTreeMap::new(), Vec::new());
    for file in found {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let known = DIFFERS.iter().find(|d| d.0 == name);
        let outcome = play(&fs::read_to_string(&file).expect("a text"));
        let kind = match &outcome {
            Outcome::Passes(compared) => {
                println!("passes: {name} ({compared} compared)");
                "pass"
            }
            Outcome::Differs(line, found) => {
                println!("differs: {name}, line {line}: {found}; {}", known.map_or("?", |k| k.1));
                "differ"
            }
            Outcome::DoesNotApply(reason) => {
                println!("does not apply: {name}: {reason}");
                "do not apply"
            }
        };
        *counts.entry(kind).or_insert(0) += 1;
        if (kind == "differ") != known.is_some() {
            surprises.push(name);
        }
    }
    println!("{counts:?}");
    assert!(surprises.is_empty(), "not as listed in DIFFERS: {}", surprises.join(", "));
}
