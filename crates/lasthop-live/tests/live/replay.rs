//! Replays of simulated captures: the output equals that of a simulated base station with the same
//! agent.

use lasthop::agent::{Agent, Context, Rewrite, Verdict};
use lasthop::role::Role;
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::{Direction, Flags, Payload, Segment};
use lasthop::units::{Duration, Time};
use lasthop_live::{ReplayOptions, Summary, replay};
use lasthop_wire::{CaptureReader, CaptureWriter, Interface, Packet, render};
use proptest::prelude::*;

use crate::station::{MOBILE, Station, endpoints, segment};

fn packets(capture: &[u8], interface: &str) -> Vec<(Time, Vec<u8>)> {
    let mut reader = CaptureReader::new(capture).unwrap();
    let mut all: Vec<Packet> = Vec::new();
    while let Some(p) = reader.next_packet().unwrap() {
        all.push(p);
    }
    all.into_iter()
        .filter(|p| reader.interfaces()[p.interface].name == interface)
        .map(|p| (p.time, p.data))
        .collect()
}

fn options(scheme: SchemeChoice) -> ReplayOptions {
    ReplayOptions { mobile: MOBILE.parse().unwrap(), scheme, interface: None }
}

fn run(capture: &[u8], options: &ReplayOptions) -> (Vec<u8>, Summary) {
    let mut out = Vec::new();
    let summary = replay(capture, &mut out, options).unwrap();
    (out, summary)
}

/// An agent that uses every action: holds segments and sends them later, retransmits by timer,
/// rewrites, drops and generates ACKs.
#[derive(Default)]
struct Busy {
    kept: Vec<(Direction, Segment)>,
    copies: Vec<Segment>,
    last_ack: Option<Segment>,
}

impl Agent for Busy {
    fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        direction: Direction,
        segment: &Segment,
    ) -> Verdict {
        if segment.flags.has(Flags::SYN) {
            return Verdict::Forward;
        }
        match (direction, segment.seq.wrapping_add(segment.ack) / 100 % 6) {
            (_, 0) => {
                self.kept.push((direction, *segment));
                ctx.wake(segment.flow, ctx.now + Duration::millis(3));
                Verdict::Keep
            }
            (Direction::Downlink, 1) => {
                ctx.retain(segment.payload);
                self.copies.push(*segment);
                ctx.wake(1000 + segment.flow, ctx.now + Duration::millis(5));
                Verdict::Forward
            }
            (Direction::Downlink, 2) => {
                if let Some(ack) = self.last_ack {
                    ctx.inject(
                        Direction::Uplink,
                        Segment { payload: Payload::NONE, window: 0, ..ack },
                    );
                }
                Verdict::Drop("because")
            }
            (Direction::Uplink, 1) => {
                Verdict::Rewrite(Rewrite { ack: Some(segment.ack / 2), ..Rewrite::default() })
            }
            (Direction::Uplink, 2) => {
                Verdict::Rewrite(Rewrite { window: Some(segment.window / 3), ..Rewrite::default() })
            }
            (Direction::Uplink, _) => {
                self.last_ack = Some(*segment);
                Verdict::Forward
            }
            _ => Verdict::Forward,
        }
    }

    fn on_timer(&mut self, ctx: &mut Context<'_>, id: u32) {
        if id < 1000 {
            for (direction, s) in self.kept.drain(..) {
                ctx.inject(direction, s);
                ctx.release(s.payload);
            }
        } else if let Some(copy) = self.copies.pop() {
            ctx.inject(Direction::Downlink, Segment { ack: copy.ack + 7, ..copy });
            ctx.release(copy.payload);
            ctx.wake(id, ctx.now + Duration::millis(2));
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("still_kept", self.kept.len() as u64), ("copies", self.copies.len() as u64)]
    }
}

fn busy() -> SchemeChoice {
    SchemeChoice::of_agent("busy", &[Role::BaseStation], || Box::new(Busy::default()))
}

/// An arrival at the base station: flow, downlink, stream offset in units of 100 bytes, flags, time
/// since the previous arrival in microseconds.
type Step = (u32, bool, u64, u16, u64);

fn simulate(choice: &SchemeChoice, steps: &[Step], handshakes: bool) -> Vec<u8> {
    let mut station = Station::new(choice);
    let mut now = Time(1_000_000_000);
    if handshakes {
        for flow in 1..4 {
            station.on_arrival(
                now,
                Direction::Downlink,
                segment(flow, Direction::Downlink, 0, 0, 0, Flags::SYN),
            );
            station.on_arrival(
                now,
                Direction::Uplink,
                segment(flow, Direction::Uplink, 0, 0, 0, Flags::SYN.with(Flags::ACK)),
            );
        }
    }
    for &(flow, down, position, bits, pause) in steps {
        now += Duration::micros(pause);
        let extra =
            [Flags::NONE, Flags::TIMESTAMPS, Flags::CE, Flags::ECE, Flags::DATAGRAM, Flags::FIN]
                [usize::from(bits % 6)];
        let (direction, s) = if down {
            (
                Direction::Downlink,
                segment(flow, Direction::Downlink, position * 100, 100, 5, Flags::ACK.with(extra)),
            )
        } else {
            (
                Direction::Uplink,
                segment(flow, Direction::Uplink, 5, 0, position * 100, Flags::ACK.with(extra)),
            )
        };
        // Datagrams bypass the agent.
        if extra == Flags::DATAGRAM {
            station.proceed(now);
            station.write(1, now, &s);
            station.write(2, now, &s);
        } else {
            station.on_arrival(now, direction, s);
        }
    }
    // The radio link has frames after the last packet at the agent.
    let end = now + Duration::millis(4);
    station.proceed(end);
    station.write(0, end, &segment(1, Direction::Downlink, 0, 100, 0, Flags::ACK));
    station.finish(end)
}

/// A capture of a network does not say when packets left the queue, and which of them arrived. That
/// of a run with another scheme says it only if its agent subscribed to the same events.
#[test]
fn a_scheme_that_needs_reports_of_the_link_layer_is_refused_without_them() {
    let steps = [(1, true, 1, 1, 5), (1, false, 2, 1, 500)];
    let parsed = |name: &str| SchemeChoice::parse(name).unwrap();
    let without = simulate(&busy(), &steps, true);
    let error = |capture: &[u8], name: &str| {
        replay(capture, Vec::new(), &options(parsed(name))).unwrap_err().to_string()
    };
    for name in ["balakrishnan-eln", "fastack", "zhuge"] {
        let error = error(&without, name);
        assert!(error.contains("which the capture does not contain"), "{error}");
        assert!(error.contains(&format!("`lasthop run --scheme {name} --pcap`")), "{error}");
    }
    let of_fastack = simulate(&parsed("fastack"), &steps, true);
    assert!(error(&of_fastack, "zhuge").contains("these events: refused, dequeued; "));
    let of_eln = simulate(&parsed("balakrishnan-eln"), &steps, true);
    assert!(error(&of_eln, "zhuge").contains("these events: refused; "));
    let of_zhuge = simulate(&parsed("zhuge"), &steps, true);
    let (_, summary) = run(&of_zhuge, &options(parsed("balakrishnan-eln")));
    assert!(summary.link_reports > 0);
    let (_, summary) = run(&of_zhuge, &options(parsed("packet-control")));
    assert_eq!(summary.link_reports, 0);
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((1u32..4, any::<bool>(), 0u64..40, any::<u16>(), 1u64..4000), 0..120)
}

proptest! {
    #[test]
    fn replay_equals_simulation(steps in steps()) {
        let names = [
            "packet-control",
            "packet-control:dupack_threshold=3:strict=true",
            "snoop:tick=2ms:initial_srtt=1ms:initial_rttvar=1ms",
            "snoop",
            "ack-pacing:rate=measured:detect=false",
            "rate-control:rate=1Mbps",
            "balakrishnan-eln",
            "fastack:settling=1ms:timeout=2ms",
            "zhuge:window=3ms:max_hold=2ms",
        ];
        for scheme in names.iter().map(|n| SchemeChoice::parse(n).unwrap()).chain([busy()]) {
            let capture = simulate(&scheme, &steps, true);
            let label = scheme.label.clone();
            let (out, summary) = run(&capture, &options(scheme));
            prop_assert_eq!(packets(&out, "bs:out"), packets(&capture, "bs:out"), "{}", label);
            prop_assert_eq!(summary.not_injected, 0);
            let gone: u64 = summary.dropped.values().sum::<u64>() + summary.kept;
            prop_assert_eq!(summary.tcp, summary.forwarded + summary.rewritten + gone);
            prop_assert_eq!(summary.written, summary.packets - gone + summary.injected);
        }
    }

    /// Without the SYNs, offsets and window scale are unknown. An agent that only compares them
    /// makes the same decisions.
    #[test]
    fn packet_control_needs_no_handshake(steps in steps()) {
        let scheme = SchemeChoice::parse("packet-control").unwrap();
        let capture = simulate(&scheme, &steps, false);
        let (out, _) = run(&capture, &options(scheme));
        prop_assert_eq!(packets(&out, "bs:out"), packets(&capture, "bs:out"));
    }

    #[test]
    fn corrupt_captures_are_replayed_or_rejected(
        steps in steps(),
        edits in proptest::collection::vec((0usize..20_000, any::<u8>()), 1..40),
        cut in 0usize..30_000,
    ) {
        let mut capture = simulate(&busy(), &steps, true);
        for (at, value) in edits {
            let at = at % capture.len();
            capture[at] = value;
        }
        capture.truncate(cut);
        match replay(capture.as_slice(), Vec::new(), &options(busy())) {
            Ok(summary) => prop_assert!(summary.tcp <= summary.packets),
            Err(e) => prop_assert_eq!(e.to_string().lines().count(), 1),
        }
    }
}

/// Snoop retransmits on duplicate ACKs and on its timer, which fires after the last packet at the
/// agent.
#[test]
fn snoop_retransmits_in_a_replay() {
    let scheme = SchemeChoice::parse("snoop:tick=2ms:initial_srtt=1ms:initial_rttvar=0s").unwrap();
    let mut station = Station::new(&scheme);
    let mut now = Time(0);
    let mut at = |step: u64| {
        now += Duration::micros(step);
        now
    };
    station.on_arrival(
        at(1),
        Direction::Downlink,
        segment(1, Direction::Downlink, 0, 0, 0, Flags::SYN),
    );
    station.on_arrival(
        at(1),
        Direction::Uplink,
        segment(1, Direction::Uplink, 0, 0, 0, Flags::SYN.with(Flags::ACK)),
    );
    for i in 0..8 {
        station.on_arrival(
            at(10),
            Direction::Downlink,
            segment(1, Direction::Downlink, i * 1000, 1000, 0, Flags::ACK),
        );
    }
    for ack in [1000, 3000, 3000, 3000, 3000, 3000] {
        station.on_arrival(
            at(100),
            Direction::Uplink,
            segment(1, Direction::Uplink, 0, 0, ack, Flags::ACK),
        );
    }
    let end = at(50_000);
    station.proceed(end);
    station.write(0, end, &segment(1, Direction::Downlink, 0, 0, 0, Flags::ACK));
    let capture = station.finish(end);
    let (out, summary) = run(&capture, &options(scheme));
    assert_eq!(packets(&out, "bs:out"), packets(&capture, "bs:out"));
    let counter = |name| summary.agent.iter().find(|a| a.0 == name).unwrap().1;
    assert!(
        counter("timer_retransmissions") > 1
            && counter("local_retransmissions") > counter("timer_retransmissions"),
        "{summary}"
    );
    assert!(
        counter("dupacks_suppressed") > 1 && counter("cache_refused_queue_full") > 0,
        "{summary}"
    );
    assert_eq!(summary.injected, counter("local_retransmissions"));
}

#[test]
fn summary_counts_and_notes() {
    let steps: Vec<Step> =
        (0..60).map(|i| (1, i % 2 == 0, i, if i == 7 { 4 } else { 0 }, 100)).collect();
    let (_, summary) = run(&simulate(&busy(), &steps, true), &options(busy()));
    assert_eq!(
        (summary.packets, summary.tcp, summary.flows, summary.untouched["not TCP"]),
        (66, 65, 3, 1)
    );
    assert_eq!(
        (summary.kept, summary.dropped["because"], summary.interface.as_str()),
        (10, 10, "bs:in")
    );
    assert_eq!(summary.other_interfaces, 1 + summary.written);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(
        (&json["agent"]["still_kept"], &json["dropped"]["because"]),
        (&0.into(), &10.into())
    );
    assert!(json["notes"][0].as_str().unwrap().contains("endpoints do not react"));
    assert_eq!(json["assumed"], serde_json::json!(["interface bs:in: none is given"]));
    assert!(summary.to_string().contains("dropped             10 (10 because)"), "{summary}");
}

#[test]
fn invalid_choices_give_errors() {
    let capture = simulate(&busy(), &[(1, true, 1, 0, 5)], true);
    let error =
        |input: &[u8], o: &ReplayOptions| replay(input, Vec::new(), o).unwrap_err().to_string();
    let reno = options(SchemeChoice::parse("reno").unwrap());
    assert!(
        error(&capture, &reno).contains("`reno` has no agent")
            && error(&capture, &reno).contains("packet-control")
    );
    let wrong = ReplayOptions { interface: Some("eth0".into()), ..options(busy()) };
    assert_eq!(
        error(&capture, &wrong),
        "the capture has no interface \"eth0\"; it has: \"radio\", \"bs:in\", \"bs:out\""
    );
    let radio = ReplayOptions { interface: Some("radio".into()), ..options(busy()) };
    assert_eq!(run(&capture, &radio).1.packets, 1);
    for (bad, text) in [
        (&b""[..], "is empty"),
        (b"hello, world", "not a capture"),
        (&capture[..capture.len() - 3], "is cut off"),
    ] {
        assert!(error(bad, &reno).contains("no agent"));
        assert!(error(bad, &options(busy())).contains(text));
    }

    let write = |interfaces: &[Interface], each: bool| {
        let mut w = CaptureWriter::new(Vec::new(), interfaces).unwrap();
        for i in 0..if each { interfaces.len() } else { 1 } {
            w.write(
                i,
                Time(i as u64),
                &render(&segment(1, Direction::Downlink, 0, 10, 0, Flags::ACK), &endpoints(1)),
                None,
            )
            .unwrap();
        }
        w.finish().unwrap()
    };
    let two = [Interface::new("a", ""), Interface::new("b", "")];
    assert_eq!(
        error(&write(&two, true), &options(busy())),
        "the capture has packets of several interfaces, specify the one to replay: \"a\", \"b\""
    );
    assert_eq!(run(&write(&two, false), &options(busy())).1.interface, "a");
    let agents = [Interface::new("bs1:in", ""), Interface::new("bs2:in", "")];
    assert!(error(&write(&agents, false), &options(busy())).contains("\"bs1:in\", \"bs2:in\""));
    let bluetooth =
        [Interface { link_type: lasthop_wire::LinkType(187), ..Interface::new("", "") }];
    assert!(error(&write(&bluetooth, true), &options(busy())).starts_with(
        "the link type 187 of interface \"0\" is not supported; supported: Ethernet (1)"
    ));
    let elsewhere = ReplayOptions { mobile: "192.0.2.1".parse().unwrap(), ..options(busy()) };
    let (_, summary) = run(&capture, &elsewhere);
    assert_eq!((summary.tcp, summary.untouched["not the mobile's"]), (0, 7));
    assert!(summary.notes[1].contains("192.0.2.1"));
    let everything = ReplayOptions { mobile: "0.0.0.0/0".parse().unwrap(), ..options(busy()) };
    assert_eq!(run(&capture, &everything).1.untouched["between mobiles"], 7);
}

#[test]
fn empty_capture_is_valid() {
    let empty = CaptureWriter::new(Vec::new(), &[]).unwrap().finish().unwrap();
    let (out, summary) = run(&empty, &options(busy()));
    assert_eq!(
        (summary.packets, CaptureReader::new(out.as_slice()).unwrap().next_packet().unwrap()),
        (0, None)
    );
}
