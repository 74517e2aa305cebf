//! Queue limits as a time or in bandwidth-delay products.

use super::*;
use crate::LastHopOptions;
use crate::network::Network;
use lasthop_channel::queue::QueueConfig;
use lasthop_core::units::QueueLimit;

/// The queues of both directions of the radio link; the filled file gives the same ones.
#[track_caller]
fn queues(text: &str) -> [QueueConfig; 2] {
    let first = loaded(text);
    let again = loaded(&first.filled);
    let of = |n: &Network| [n.links[2].queue.clone(), n.links[3].queue.clone()];
    assert_eq!(of(&first.network), of(&again.network));
    of(&again.network)
}

#[track_caller]
fn bytes(text: &str) -> [u64; 2] {
    queues(text).map(|queue| match queue.limit {
        Some(QueueLimit::Bytes(n)) => n,
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_time_is_what_the_link_sends_in_it() {
    assert_eq!(bytes("[last_hop]\nrate = \"8 Mbps\"\nqueue = \"100 ms\"\n"), [100_000; 2]);
    let two = "[last_hop]\ndown_rate = \"8 Mbps\"\nup_rate = \"1 Mbps\"\nqueue = \"100 ms\"\n";
    assert_eq!(bytes(two), [100_000, 12_500]);
    // A trace counts with its mean: 12 Mbps and 1.2 Mbps.
    let trace = "[last_hop]\ndown = \"my.down\"\nup = \"my.up\"\nqueue = { time = \"0.1 s\" }\n";
    assert_eq!(bytes(trace), [150_000, 15_000]);
    let schedule = LONG.replace(
        "rate = \"250 kbps\"",
        "queue = \"1 s\"\nrate = { schedule = [{ at = \"0 s\", rate = \"8 kbps\" }, \
         { at = \"1 s\", rate = \"16 kbps\" }] }",
    );
    assert_eq!(bytes(&schedule), [2000; 2]);
}

#[test]
fn a_product_is_of_the_longest_round_trip() {
    let file = |queue: &str| format!("[last_hop]\nrate = \"8 Mbps\"\nrtt = \"40 ms\"\n{queue}\n");
    assert_eq!(bytes(&file("queue = \"2 BDP\"")), [80_000; 2]);
    assert_eq!(bytes(&file("queue = \"0.5 bdp\"")), [20_000; 2]);
    assert_eq!(bytes(&file("queue = { bdp = 0.5 }")), [20_000; 2]);
    let own = LONG.replace("forward.loss", "forward.queue = \"1 BDP\"\nforward.loss");
    let network = loaded(
        &own.replace("delay = { table = \"zeng2006\", from = \"0.5 s\" }", "delay = \"45 ms\""),
    )
    .network;
    // 250 kbps for twice 5 + 45 ms.
    assert_eq!(network.links[2].queue.limit, Some(QueueLimit::Bytes(3125)));
    assert_eq!(network.links[3].queue.limit, Some(QueueLimit::Packets(49)));
    let line = "queue of bs>phone: 3125 B, 1 BDP (250 kbps, 100 ms)".to_string();
    assert!(network.assumed.contains(&line), "{:?}", network.assumed);
}

#[test]
fn a_queue_holds_at_least_one_full_packet() {
    let short = "[last_hop]\nrate = \"1 Mbps\"\noverhead = \"14 B\"\nqueue = \"1 us\"\n";
    assert_eq!(bytes(short), [1448 + 40 + 14; 2]);
}

#[test]
fn disciplines_take_these_limits() {
    let file = |queue: &str| format!("[last_hop]\nrate = \"8 Mbps\"\nqueue = {queue}\n");
    let alike = [
        ("\"codel 100 ms\"", "{ discipline = \"codel\", bytes = 100000 }"),
        ("\"fq-codel 1 BDP\"", "{ discipline = \"fq-codel\", bytes = 40000 }"),
        (
            "{ discipline = \"step-marking\", time = \"100 ms\" }",
            "{ discipline = \"step-marking\", bytes = 100000 }",
        ),
    ];
    for (relative, absolute) in alike {
        assert_eq!(queues(&file(relative)), queues(&file(absolute)), "{relative}");
    }
}

#[test]
fn options_have_these_limits_too() {
    let queue = |text: &str| LastHopOptions { queue: Some(text.into()), ..Default::default() };
    let with = |text: &str, overrides: Overrides| {
        load_with(text, &overrides).unwrap_or_else(|e| panic!("{e}")).network.links[2].queue.limit
    };
    let option = Overrides { last_hop: queue("100 ms"), ..Overrides::default() };
    assert_eq!(
        with("last_hop.rate = \"8 Mbps\"", option.clone()),
        Some(QueueLimit::Bytes(100_000))
    );
    assert_eq!(with(LONG, option), Some(QueueLimit::Bytes(3125)));
    let set = sets(&[("link.radio.queue", "60 kB"), ("link.radio.queue.time", "100 ms")]);
    assert_eq!(with(LONG, set), Some(QueueLimit::Bytes(3125)));
}

#[test]
fn members_of_a_cell_have_the_rate_of_data_frames() {
    let text = "[[cell]]\nmembers = [\"ap\", \"sta\"]\nmac = \"802.11b\"\nqueue = \"100 ms\"\n\
                [[cell.station]]\nname = \"sta\"\nqueue = \"20 ms\"\n\
                [[flow]]\nfrom = \"ap\"\nto = \"sta\"\n";
    let first = loaded(text);
    let limits = |n: &Network| -> Vec<_> {
        let stations = n.cells[0].stations.iter().map(|s| s.queue.limit);
        stations.chain(n.links.iter().map(|l| l.queue.limit)).collect()
    };
    let [ap, sta] = [137_500, 27_500].map(|n| Some(QueueLimit::Bytes(n)));
    assert_eq!(limits(&first.network), [ap, sta, ap, sta]);
    assert_eq!(limits(&loaded(&first.filled).network), [ap, sta, ap, sta]);
}
