//! Replays of captures of this machine's TCP stack, recorded by `namespaces.py`.
//!
//! Run with `cargo test -p lasthop-live --test live namespaces -- --ignored` as root.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use lasthop::schemes::catalogue::SchemeChoice;
use lasthop_live::{ReplayOptions, Summary, replay};
use lasthop_wire::{CaptureReader, Packet};

fn record(name: &str, arguments: &[&str]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("lasthop-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/namespaces.py");
    let status = Command::new("python3").arg(script).arg(&folder).args(arguments).status().unwrap();
    assert!(status.success(), "recording failed");
    folder
}

fn run(input: &Path, scheme: &str, mobile: &str) -> Result<(Summary, PathBuf), String> {
    let options = ReplayOptions {
        mobile: mobile.parse()?,
        scheme: SchemeChoice::parse(scheme)?,
        interface: None,
    };
    let output = input.with_extension("out.pcapng");
    let summary = replay(File::open(input).unwrap(), File::create(&output).unwrap(), &options)
        .map_err(|e| e.to_string())?;
    Ok((summary, output))
}

fn packets(file: &Path) -> Vec<Packet> {
    let mut reader = CaptureReader::new(File::open(file).unwrap()).unwrap();
    std::iter::from_fn(|| reader.next_packet().unwrap()).collect()
}

/// tshark's output for the packets that match a filter.
fn tshark(file: &Path, filter: &str) -> String {
    let arguments =
        ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y", filter, "-r"];
    Command::new("tshark")
        .args(arguments)
        .arg(file)
        .output()
        .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
        .unwrap()
}

#[test]
#[ignore = "needs root, ip, tcpdump, tshark"]
fn captures_of_a_real_stack_are_replayed() {
    let folder = record("captures", &[]);
    for (file, mobile) in [
        ("micro", "10.77.0.2"),
        ("micro", "fd77::2"),
        ("nano", "10.77.0.2/31"),
        ("nano", "fd77::2/128"),
        ("any", "10.77.0.2"),
    ] {
        let input = folder.join(file).with_extension("pcap");
        let (summary, output) =
            run(&input, "packet-control:ack_filter=false:data_filter=false", mobile).unwrap();
        let same = |p: &Packet| (p.time, p.data.clone(), p.original_len);
        // tcpdump may write packets from two CPUs out of time order.
        let mut before = packets(&input);
        before.sort_by_key(|p| p.time);
        assert!(
            before.iter().map(same).eq(packets(&output).iter().map(same)),
            "{file} {mobile}: packets differ"
        );
        assert_eq!(summary.forwarded, summary.tcp);

        let (summary, output) = run(&input, "packet-control", mobile).unwrap();
        assert!(summary.tcp > 300 && summary.flows == 1, "{summary}");
        assert!(
            summary.agent.iter().any(|a| a.0 == "duplicate_acks_dropped" && a.1 > 0),
            "{summary}"
        );
        assert_eq!(summary.cut_short > 0, file == "nano");
        assert_eq!(packets(&output).len() as u64, summary.written);
        if file == "micro" {
            assert_eq!(
                tshark(
                    &output,
                    "tcp.checksum.status == 0 || ip.checksum.status == 0 || _ws.malformed"
                ),
                ""
            );
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
#[ignore = "needs root, ip, tcpdump"]
fn merged_segments_of_a_real_stack_are_rejected() {
    let folder = record("merged", &["merged"]);
    for file in ["micro", "nano", "any"] {
        let error = run(&folder.join(file).with_extension("pcap"), "packet-control", "10.77.0.2")
            .unwrap_err();
        assert!(
            error.contains("more than 1460")
                && error.contains("ethtool -K IFACE gro off gso off tso off"),
            "{error}"
        );
    }
    fs::remove_dir_all(folder).unwrap();
}
