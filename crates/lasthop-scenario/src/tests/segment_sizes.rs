//! Segment sizes and the MTU of links.

use super::*;
use crate::LastHopOptions;

/// The segment sizes of the flows, which the filled file has, too, and what was assumed.
#[track_caller]
fn segments(text: &str) -> (Vec<u32>, Vec<String>) {
    let first = loaded(text);
    let again = loaded(&first.filled);
    let of = |l: &Loaded| l.network.flows.iter().map(|f| f.segment).collect::<Vec<_>>();
    assert_eq!(of(&first), of(&again));
    let is_about = |line: &&String| line.starts_with("segment of ");
    (of(&first), first.network.assumed.iter().filter(is_about).cloned().collect())
}

#[track_caller]
fn segment(text: &str) -> u32 {
    segments(text).0[0]
}

#[test]
fn segments_fill_the_smallest_mtu() {
    let hop = |mtu: &str| format!("[last_hop]\nrate = \"1 Mbps\"\n{mtu}\n");
    assert_eq!(segments(&hop("")), (vec![1448], vec![]));
    assert_eq!(segments(&hop("mtu = \"1500 B\"")), (vec![1448], vec![]));
    let line = "segment of flow 1: 1348 B, from the MTU of 1400 B of radio".to_string();
    assert_eq!(segments(&hop("mtu = \"1400 B\"")), (vec![1348], vec![line]));
    // The wired link may have an MTU of 1500 B.
    assert_eq!(segment(&hop("mtu = \"9000 B\"")), 1448);
    // As the default, it leaves room for timestamps that are off.
    assert_eq!(segment(&hop("mtu = \"1400 B\"\n[tcp]\nprofile = \"rfc\"")), 1348);
    let ns2 = "[tcp]\nprofile = \"ns-2.35\"";
    assert_eq!(segment(&hop(&format!("mtu = \"1400 B\"\n{ns2}"))), 1000);
    assert_eq!(segment(&hop(&format!("mtu = \"600 B\"\n{ns2}"))), 550);
    assert_eq!(segment(&hop("mtu = \"1400 B\"\n[[flow]]\nheaders = \"60 B\"")), 1328);
    assert_eq!(segment(&hop("mtu = \"1400 B\"\n[[flow]]\nsegment = \"700 B\"")), 700);
    assert_eq!(segment(&hop("mtu = \"150 B\"\n[[flow]]\napp = \"call\"")), 110);
}

#[test]
fn both_directions_and_all_nodes_of_a_flow_count() {
    let links = |a: &str, b: &str, ends: &str| {
        format!(
            "[[link]]\nbetween = [\"s\", \"r\"]\nrate = \"9 Mbps\"\n{a}\n\
             [[link]]\nname = \"last\"\nbetween = [\"r\", \"m\"]\nrate = \"1 Mbps\"\n{b}\n\
             [[link]]\nbetween = [\"r\", \"n\"]\nrate = \"1 Mbps\"\n[[flow]]\n{ends}\n"
        )
    };
    let one = "from = \"s\"\nto = \"m\"";
    assert_eq!(segment(&links("mtu = \"1300 B\"", "mtu = \"1400 B\"", one)), 1248);
    assert_eq!(segment(&links("", "backward.mtu = \"1200 B\"", one)), 1148);
    assert_eq!(segment(&links("mtu = \"9000 B\"", "mtu = \"8000 B\"", one)), 7948);
    let two = "from = \"s\"\nto = [\"n\", \"m\"]\ncount = 2";
    assert_eq!(segments(&links("", "mtu = \"1300 B\"", two)).0, [1248, 1248]);
    assert_eq!(segment(&links("", "mtu = \"1300 B\"", "from = \"s\"\nto = \"n\"")), 1448);
}

#[test]
fn the_option_replaces_the_mtu_of_the_file() {
    let overrides = |mtu: &str, rtt: Option<&str>| Overrides {
        last_hop: LastHopOptions {
            mtu: Some(mtu.into()),
            rtt: rtt.map(str::to_string),
            ..LastHopOptions::default()
        },
        ..Overrides::default()
    };
    let short = "[last_hop]\nmtu = \"500 B\"\n[[flow]]\nsegment = \"1000 B\"\n";
    let long = "[[link]]\nradio = true\nbetween = [\"s\", \"m\"]\nrate = \"1 Mbps\"\n\
                forward.mtu = \"500 B\"\n\
                [[flow]]\nfrom = \"s\"\nto = \"m\"\nsegment = \"1000 B\"\n";
    for text in [short, long] {
        assert!(mistake(text).contains("segment: at most 448 B fit the MTU of 500 B"));
        for rtt in [None, Some("80 ms")] {
            let loaded = load_with(text, &overrides("1200 B", rtt)).unwrap();
            assert_eq!(loaded.network.links.last().unwrap().mtu, Some(1200));
        }
    }
    let cell = "[[cell]]\nmembers = [\"ap\", \"sta\"]\nmac = \"802.11b\"\n\
                [[flow]]\nfrom = \"ap\"\nto = \"sta\"\n";
    let error = load_with(cell, &overrides("1200 B", None)).unwrap_err().to_string();
    assert!(error.contains("--mtu: needs one link with radio = true"), "{error}");
}
