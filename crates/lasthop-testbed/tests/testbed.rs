//! Runs of small stacks: fates, determinism, faults, competitors, and the speed.

use std::collections::VecDeque;
use std::time::Duration;

use lasthop_testbed::{
    Datagram, DatagramFate, Ecn, Endpoint, Event, Kind, Observer, Stack, Testbed, Time,
};

/// Sends `left` datagrams with a window of `window`, and repeats nothing; or answers each datagram
/// with one of 40 bytes.
#[derive(Default)]
struct End {
    left: u32,
    window: u32,
    len: usize,
    in_flight: u32,
    ecn: Ecn,
    answers: VecDeque<u8>,
    /// Bytes and ECN field of what arrived, and when.
    received: Vec<(Vec<u8>, Ecn, Duration)>,
    timeout: Option<Duration>,
}

/// Without an answer for that long, a sender takes everything for lost.
const TIMEOUT: Duration = Duration::from_millis(500);

impl End {
    fn sender(left: u32, window: u32, len: usize) -> End {
        End { left, window, len, timeout: Some(TIMEOUT), ..End::default() }
    }
}

impl Endpoint for End {
    fn handle(&mut self, datagram: Datagram, now: Duration) {
        if self.window > 0 {
            self.in_flight = self.in_flight.saturating_sub(1);
            self.timeout = Some(now + TIMEOUT);
        } else {
            self.answers.push_back(datagram.bytes[0]);
        }
        self.received.push((datagram.bytes, datagram.ecn, now));
    }

    fn poll_transmit(&mut self, _now: Duration) -> Option<Datagram> {
        if let Some(first) = self.answers.pop_front() {
            return Some(Datagram { bytes: vec![first; 40], ecn: self.ecn });
        }
        if self.left == 0 || self.in_flight >= self.window {
            return None;
        }
        (self.left, self.in_flight) = (self.left - 1, self.in_flight + 1);
        Some(Datagram { bytes: vec![self.left as u8; self.len], ecn: self.ecn })
    }

    fn next_timeout(&mut self) -> Option<Duration> {
        self.timeout.filter(|_| self.left > 0)
    }

    fn handle_timeout(&mut self, now: Duration) {
        (self.in_flight, self.timeout) = (0, Some(now + TIMEOUT));
    }
}

fn lossy() -> Testbed {
    Testbed::new().rate("10 Mbps").rtt("40 ms").loss("5 %").duration("20 s").flow("mine")
}

#[test]
fn each_datagram_has_a_fate() {
    let (mut sender, mut receiver) = (End::sender(2000, 60, 1000), End::default());
    let run = lossy()
        .queue("20 packets")
        .run(3, [Stack::udp("mine", &mut sender, &mut receiver)])
        .unwrap();
    let stack = run.stack("mine");
    for (direction, end) in [(&stack.to_receiver, &receiver), (&stack.to_sender, &sender)] {
        let lost = direction.lost_on_air() + direction.dropped_at_queue();
        assert_eq!(direction.sent(), direction.arrived() + lost + direction.in_transit());
        assert_eq!(direction.arrived(), end.received.len());
        let share = direction.lost_on_air() as f64 / direction.sent() as f64;
        assert!((0.03..0.07).contains(&share), "{share}");
    }
    let down = &stack.to_receiver;
    assert_eq!(down.sent(), 2000);
    assert!(down.dropped_at_queue() > 30, "{}", down.dropped_at_queue());
    // The ends see what the records say, in the same order: nothing overtakes on this link.
    let arrivals = down.arrivals().map(|(at, _, len)| (at.0, len as usize));
    let received =
        receiver.received.iter().map(|(bytes, _, at)| (at.as_nanos() as u64, bytes.len()));
    assert!(arrivals.eq(received));
    // Half the round-trip time, and 1028 bytes at 10 Mbit/s and, from the server to the base
    // station, at 1 Gbit/s.
    let shortest = down.arrivals().map(|(_, delay, _)| delay).min().unwrap();
    assert_eq!(shortest, Duration::from_nanos(20_000_000 + 822_400 + 8_224));
    assert_eq!(run.flow("mine").delivered_bytes, 1000 * down.arrived() as u64);
    assert_eq!(run.flow("mine").sent_segments, 2000);
    assert_eq!(
        down.series(Duration::from_secs(1)).iter().sum::<u64>(),
        1000 * down.arrived() as u64
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let network = lossy().competitor("theirs", "cubic").load().unwrap();
    let run = |seed| {
        let (mut sender, mut receiver) = (End::sender(4000, 30, 1200), End::default());
        let run = network.run(seed, [Stack::udp("mine", &mut sender, &mut receiver)]).unwrap();
        (run.to_json(), run.qlog(), receiver.received)
    };
    let first = run(7);
    assert!(first == run(7));
    assert!(first != run(8));
    assert!(first.1.lines().count() > 6000);
}

/// With an observer every event happens at its time; the datagrams fare the same.
#[test]
fn an_observer_changes_nothing() {
    #[derive(Default)]
    struct Count(usize);
    impl Observer for Count {
        fn on_event(&mut self, event: &Event<'_>) {
            self.0 += usize::from(event.kind == Kind::LostOnAir && event.flow == 0);
        }
    }
    let network = lossy().load().unwrap();
    let (mut sender, mut receiver) = (End::sender(2000, 30, 500), End::default());
    let plain = network.run(1, [Stack::udp("mine", &mut sender, &mut receiver)]).unwrap();
    let (mut sender, mut receiver) = (End::sender(2000, 30, 500), End::default());
    let mut count = Count::default();
    let stacks = [Stack::udp("mine", &mut sender, &mut receiver)];
    let observed = network.run_observed(1, stacks, &mut count).unwrap();
    assert_eq!(plain.stacks, observed.stacks);
    let stack = observed.stack("mine");
    assert_eq!(count.0, stack.to_receiver.lost_on_air() + stack.to_sender.lost_on_air());
}

#[test]
fn queues_mark_what_is_ecn_capable() {
    let run = |ecn| {
        let (mut sender, mut receiver) = (End::sender(4000, 120, 1200), End::default());
        sender.ecn = ecn;
        let testbed = Testbed::new().rate("10 Mbps").rtt("40 ms").queue("fq-codel").flow("mine");
        let testbed = testbed.duration("20 s");
        let run = testbed.run(1, [Stack::udp("mine", &mut sender, &mut receiver)]).unwrap();
        let marked = receiver.received.iter().filter(|(_, ecn, _)| *ecn == Ecn::Ce).count();
        assert_eq!(marked, run.stack("mine").to_receiver.marked());
        assert!(receiver.received.iter().all(|(_, e, _)| *e == ecn || *e == Ecn::Ce));
        (marked, run.stack("mine").to_receiver.dropped_at_queue())
    };
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        let (marked, dropped) = run(ecn);
        assert!(marked > 10 && dropped == 0, "{marked} {dropped}");
    }
    let (marked, dropped) = run(Ecn::NotEct);
    assert!(marked == 0 && dropped > 10, "{marked} {dropped}");
}

#[test]
fn two_stacks_and_a_sender_of_lasthop_share_a_link() {
    let testbed = Testbed::new().rate("10 Mbps").rtt("40 ms").duration("30 s");
    let testbed = testbed.flow("a").competitor("theirs", "reno").flow("b");
    let mut ends = [(); 4].map(|()| End::default());
    ends[0] = End::sender(1_000_000, 25, 1200);
    ends[2] = End::sender(1_000_000, 25, 1200);
    let [a, a_receiver, b, b_receiver] = &mut ends;
    let stacks = [Stack::udp("b", b, b_receiver), Stack::udp("a", a, a_receiver)];
    let run = testbed.run(1, stacks).unwrap();
    assert_eq!(run.stacks.iter().map(|s| &s.flow[..]).collect::<Vec<_>>(), ["a", "b"]);
    assert!(run.stacks.iter().all(|s| s.to_receiver.sent() > 1000));
    let rates = ["a", "b", "theirs"].map(|name| run.flow(name).goodput_bps / 1e6);
    assert!(rates.iter().sum::<f64>() > 8.5 && rates.iter().all(|r| *r > 0.5), "{rates:?}");
    assert_eq!(ends[1].received.len(), run.stacks[0].to_receiver.arrived());
}

/// A stack takes the place of a flow of a scenario file, in a Wi-Fi cell with link-layer
/// retransmissions.
#[test]
fn a_scenario_file_may_have_a_cell() {
    let text = r#"
        duration = "20 s"
        [[link]]
        between = ["server", "ap"]
        rate = "100 Mbps"
        delay = "5 ms"
        [[cell]]
        members = ["ap", "phone"]
        mac = "802.11b"
        attempts = 7
        loss = { model = "frame-errors", rate = "20 %" }
        [[flow]]
        name = "mine"
        from = "server"
        to = "phone"
    "#;
    let (mut sender, mut receiver) = (End::sender(2000, 10, 1200), End::default());
    let run = Testbed::from_toml(text).run(1, [Stack::udp("mine", &mut sender, &mut receiver)]);
    let run = run.unwrap();
    let down = &run.stack("mine").to_receiver;
    assert_eq!(down.sent(), 2000);
    assert!(down.arrived() > 1990, "{}", down.arrived());
    let attempts: u64 = run.result.links.iter().filter_map(|l| l.attempts).sum();
    assert!(attempts > 4400, "{attempts}");
}

#[test]
fn a_link_may_copy_datagrams() {
    let (mut sender, mut receiver) = (End::sender(1000, 10, 300), End::default());
    let testbed = Testbed::new().rate("10 Mbps").rtt("40 ms").duration("20 s").flow("mine");
    let testbed = testbed.set("last_hop.duplicate", "10 %");
    let run = testbed.run(1, [Stack::udp("mine", &mut sender, &mut receiver)]).unwrap();
    let down = &run.stack("mine").to_receiver;
    assert_eq!((down.sent(), down.arrived()), (1000, 1000));
    assert!((1060..1140).contains(&receiver.received.len()), "{}", receiver.received.len());
    assert!(receiver.received.iter().all(|(bytes, ..)| bytes.len() == 300));
}

#[test]
fn a_flow_starts_and_stops_when_the_scenario_says() {
    let (mut sender, mut receiver) = (End::sender(1_000_000, 5, 1000), End::default());
    let testbed = lossy().set("flow.mine.start", "2 s").set("flow.mine.stop", "4 s");
    let run = testbed.run(1, [Stack::udp("mine", &mut sender, &mut receiver)]).unwrap();
    let sent: Vec<Time> = run.stacks[0].to_receiver.datagrams().iter().map(|r| r.sent_at).collect();
    assert_eq!(sent[0], Time(2_000_000_000));
    assert!(sent.last().is_some_and(|t| (3_800_000_000..4_000_000_000).contains(&t.0)));
}

#[test]
fn faults_are_named() {
    /// Its timeout is this much later at each look at it.
    struct Endless(Duration, Duration);
    impl Endpoint for Endless {
        fn handle(&mut self, _: Datagram, _: Duration) {}
        fn poll_transmit(&mut self, _: Duration) -> Option<Datagram> {
            None
        }
        fn next_timeout(&mut self) -> Option<Duration> {
            self.1 += self.0;
            Some(self.1)
        }
    }
    let mut receiver = End::default();
    let mut run_with_steps_of = |step| {
        let mut endless = Endless(Duration::from_nanos(step), Duration::ZERO);
        lossy().run(1, [Stack::udp("mine", &mut endless, &mut receiver)]).map(|_| ())
    };
    let error = run_with_steps_of(0).unwrap_err().to_string();
    assert!(error.contains("external sender at 0ns: its timeout"), "{error}");
    let error = run_with_steps_of(1).unwrap_err().to_string();
    assert!(error.contains("external sender at 1.000001ms: a million timeouts"), "{error}");
    run_with_steps_of(20_000).unwrap();

    let mut sender = End::sender(1, 1, 65_508);
    let error = lossy().run(1, [Stack::udp("mine", &mut sender, &mut receiver)]).unwrap_err();
    assert!(error.to_string().contains("65508 bytes"), "{error}");

    let error = lossy().run(1, [Stack::udp("yours", &mut sender, &mut receiver)]).unwrap_err();
    assert_eq!(error.to_string(), "there is no flow `yours`; the flows are `mine`");

    let mut more = [End::default(), End::default()];
    let [a, b] = &mut more;
    let stacks = [Stack::udp("mine", &mut sender, &mut receiver), Stack::udp("mine", a, b)];
    let error = lossy().run(1, stacks).unwrap_err();
    assert_eq!(error.to_string(), "flow `mine` has two stacks");

    let error = Testbed::from_file("/no/such/file.toml").unwrap_err();
    assert!(error.to_string().starts_with("/no/such/file.toml: "), "{error}");

    let wrong_key = lossy().set("flow.mine.strat", "1 s");
    for (testbed, start) in [
        (lossy().rate("fast"), "rate: last_hop.rate: expected a rate"),
        (lossy().traces("none", "none"), "down: last_hop.down: cannot open the trace none"),
        (wrong_key, "flow.mine.strat: unknown key `strat` (did you mean `start`?)"),
    ] {
        let error = testbed.load().unwrap_err().to_string();
        assert!(error.starts_with(start), "{error}");
    }
}

#[test]
fn the_traces_of_the_crate_are_found() {
    let testbed = Testbed::new().traces("synthetic-lte.down", "synthetic-lte.up").rtt("40 ms");
    let (mut sender, mut receiver) = (End::sender(1_000_000, 100, 1200), End::default());
    let testbed = testbed.duration("60 s").flow("mine");
    let run = testbed.run(1, [Stack::udp("mine", &mut sender, &mut receiver)]).unwrap();
    let rate = run.flow("mine").goodput_bps / 1e6;
    assert!((3.0..20.0).contains(&rate), "{rate}");
    let last = run.stacks[0].to_receiver.datagrams().last().unwrap();
    assert!(matches!(last.fate, DatagramFate::InTransit | DatagramFate::Lost { .. }));
}

/// A million datagrams. In a build without optimisation it only has to end.
#[test]
fn a_million_datagrams_take_well_under_a_second() {
    let testbed = Testbed::new().rate("1 Gbps").rtt("10 ms").duration("60 s").flow("mine");
    let network = testbed.queue("2000 packets").load().unwrap();
    let (mut sender, mut receiver) = (End::sender(500_000, 400, 100), End::default());
    let run = network.run(1, [Stack::udp("mine", &mut sender, &mut receiver)]).unwrap();
    let stack = run.stack("mine");
    assert_eq!(stack.to_receiver.arrived() + stack.to_sender.arrived(), 1_000_000);
}
