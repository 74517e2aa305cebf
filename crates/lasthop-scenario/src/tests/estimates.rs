//! Estimated numbers of frames.

use super::*;

#[test]
fn frames_are_estimated_from_the_bottleneck() {
    let n = loaded("").network;
    // 10 Mbit/s for 60 s in frames of 1488 bytes over two links, and as many ACKs back.
    let one_way = 10e6 * 60.0 / (1488.0 * 8.0);
    assert!((n.estimated_frames() - 4.0 * one_way).abs() < 1.0, "{}", n.estimated_frames());
    let n = loaded("[[flow]]\napp = { kind = \"transfer\", size = \"1448 kB\" }").network;
    assert_eq!(n.estimated_frames(), 4.0 * 2000.0);
    let n = loaded("[[flow]]\napp = { kind = \"cbr\", rate = \"1448 kbps\" }").network;
    assert_eq!(n.estimated_frames().round(), 2.0 * 7500.0);
    let n = loaded("[last_hop]\ndown = \"my.down\"\nup = \"my.down\"").network;
    assert!((n.estimated_frames() - 4.0 * 12e6 * 60.0 / (1488.0 * 8.0)).abs() < 100.0);
}

#[test]
fn flows_that_meet_share_what_there_is() {
    let frames = |text: &str| loaded(text).network.estimated_frames();
    let alone = frames("[[flow]]\napp = \"bulk\"");
    let together = frames("[[flow]]\napp = \"bulk\"\ncount = 50");
    assert!((together / alone - 1.0).abs() < 0.1, "{together} {alone}");
    // Half of the time, at a tenth of the rate; ten pages of 100 segments.
    let pausing = frames(
        "[[flow]]\napp = { kind = \"on-off\", rate = \"1 Mbps\", mean_on = \"1 s\", mean_off = \
         \"1 s\" }",
    );
    assert!((pausing - 4.0 * 500e3 * 60.0 / (1448.0 * 8.0)).abs() < 1.0, "{pausing}");
    let pages = frames(
        "[[flow]]\napp = { kind = \"web\", mean_size = \"144800 B\", mean_pause = \"6 s\" }",
    );
    assert_eq!(pages.round(), 4.0 * 1100.0);
}

#[test]
fn stations_of_a_cell_share_the_medium() {
    let cell = |stations: u32| {
        let flow = |i: u32| format!("[[flow]]\nfrom = \"ap\"\nto = \"mh{i}\"\n");
        let flows: String = (1..=stations).map(flow).collect();
        let names: Vec<String> = (1..=stations).map(|i| format!("\"mh{i}\"")).collect();
        loaded(&format!(
            "[[cell]]\nname = \"wlan\"\nmembers = [\"ap\", {}]\n{flows}",
            names.join(", ")
        ))
        .network
        .estimated_frames()
    };
    assert!((cell(20) / cell(1) - 1.0).abs() < 0.05, "{} {}", cell(20), cell(1));
}
