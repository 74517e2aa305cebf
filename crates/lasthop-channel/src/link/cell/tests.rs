//! A cell without a network; the tests fill the queues of the stations.

mod bianchi;

use super::config::StationConfig;
use super::mac::{Access, Mac, MacName};
use super::*;
use crate::air::config::LossConfig;
use crate::air::loss::{BitErrors, Scripted};
use crate::queue::{Headers, QueueConfig};
use lasthop_core::agent::LinkEvent;
use lasthop_core::framing::{AnyFraming, HeadersFirst};
use lasthop_core::segment::{Handle, Segment};
use lasthop_core::units::{QueueLimit, Rate, Share, Size};

/// All frames go to station 0, those of station 0 to station 1. All handles have the same segment.
struct ToFirst(Segment, Option<AnyFraming>);

impl Headers for ToFirst {
    fn segment(&self, _: Handle) -> &Segment {
        &self.0
    }
}
impl Freight for ToFirst {
    fn receiver(&self, station: usize, _: Handle) -> usize {
        usize::from(station == 0)
    }
    fn framing(&self, _: Handle) -> Option<&AnyFraming> {
        self.1.as_ref()
    }
}

fn us(t: u64) -> Time {
    Time::ZERO + Duration::micros(t)
}

struct Bench {
    cell: Cell,
    freight: ToFirst,
    outcomes: Vec<Outcome>,
}

fn station(node: u16) -> StationConfig {
    let queue = QueueConfig::drop_tail(QueueLimit::Packets(50));
    StationConfig {
        node,
        queue,
        overhead: 0,
        down: LossConfig::None,
        up: LossConfig::None,
        outages: vec![],
        mcs: None,
        snr_db: None,
    }
}

/// 802.11b with ns-2's constants where they do not matter for the rules: link ACKs at 1 Mbit/s, 34
/// bytes of header.
fn mac() -> Mac {
    Mac { basic_rate: Rate(1_000_000), overhead: Size::Bytes(34), ..Mac::named(MacName::Dot11b) }
}

impl Bench {
    fn new(mac: Mac, stations: Vec<StationConfig>, seed: u64) -> Bench {
        let names: Vec<String> = (0..stations.len()).map(|i| format!("s{i}")).collect();
        let config = CellConfig { name: "cell".into(), mac, wifi: None, busy: vec![], stations };
        let cell = Cell::new(&config, &names, seed, 1000).unwrap();
        Bench {
            cell,
            freight: ToFirst(Segment { len: 1000, size: 1000, ..Segment::default() }, None),
            outcomes: vec![],
        }
    }

    /// A frame of `size` bytes, headers of the MAC not counted.
    fn offer(&mut self, at: Time, station: usize, size: u32) {
        let frame = Frame { bytes: size + 34, at, ..Frame::default() };
        let stations = (station, usize::from(station == 0));
        self.cell.offer(at, stations, frame, &self.freight, &mut self.outcomes);
    }

    /// Processes the next event; returns its time and reports.
    fn step(&mut self) -> Option<(Time, Vec<(Attempt, End)>)> {
        let at = self.cell.next_event().0;
        if at == Time::NEVER {
            return None;
        }
        let mut reports = vec![];
        let delivery = self.cell.fire(at, &self.freight, &mut reports, &mut self.outcomes);
        let reports = delivery.map(|d| d.report()).into_iter().chain(reports);
        let ended = |r: Report| {
            if let Report::Ended(attempt, end) = r { Some((attempt, end)) } else { None }
        };
        Some((at, reports.filter_map(ended).collect()))
    }

    /// Processes all events.
    fn run(&mut self) -> Vec<(Attempt, End)> {
        std::iter::from_fn(|| self.step()).flat_map(|(_, ended)| ended).collect()
    }

    fn backoffs(&self) -> Vec<Option<u32>> {
        self.cell.contention.backoffs()
    }
}

#[test]
fn a_frame_that_finds_the_medium_idle_goes_at_once_and_the_next_after_a_back_off() {
    let mut b = Bench::new(mac(), vec![station(0), station(1)], 1);
    b.offer(us(1000), 1, 1000);
    b.offer(us(1100), 1, 1000);
    let (at, ended) = b.step().unwrap();
    let (attempt, end) = ended[0];
    assert_eq!((attempt.start, at, attempt.number), (us(1000), us(1944), 1));
    assert_eq!(
        end,
        End {
            received: true,
            arrives: true,
            arrived: true,
            held: false,
            late: false,
            delivered: true,
            collided: false,
            crashed: false,
            step: Step::Whole,
            damaged_frames: None,
            air_time: Duration::micros(1258)
        }
    );
    // The link ACK ends at 2258 µs; then DIFS and the back-off.
    let slots = b.backoffs()[1].unwrap();
    assert_eq!(b.step().unwrap().1[0].0.start, us(2258 + 50 + 20 * u64::from(slots)));
    assert_eq!(b.step(), None);
}

#[test]
fn before_difs_has_passed_nobody_sends_and_who_finds_the_medium_busy_backs_off() {
    let mut b = Bench::new(mac(), vec![station(0), station(1), station(2)], 3);
    b.offer(us(0), 1, 1000);
    b.offer(us(500), 2, 1000);
    assert_eq!(b.step().unwrap().1[0].0.start, us(50));
    let free = 50 + 944 + 314;
    let slots = b.backoffs()[2].unwrap();
    // A frame that arrives between the link ACK and the end of DIFS waits for DIFS only; the other
    // counts its slots.
    b.offer(us(free + 20), 0, 1000);
    let next = b.step().unwrap().1;
    assert_eq!(
        next.iter().map(|e| (e.0.station, e.0.start)).collect::<Vec<_>>(),
        [(0, us(free + 50))]
    );
    assert!(slots > 0);
    assert_eq!(b.backoffs()[2], Some(slots), "no slot has passed");
}

#[test]
fn slots_that_have_passed_are_not_counted_again() {
    let mut b = Bench::new(mac(), (0..6).map(station).collect(), 5);
    (1..6).for_each(|i| (0..3).for_each(|_| b.offer(us(0), i, 1000)));
    // All five find the medium idle, and collide.
    assert_eq!(b.step().unwrap().1.len(), 5);
    for _ in 0..60 {
        let before = b.backoffs();
        let idle = b.cell.next_event().1;
        let Some((_, ended)) = b.step() else { break };
        assert!(ended.iter().all(|e| e.0.start == idle));
        let after = b.backoffs();
        let least = ended.iter().filter_map(|e| before[e.0.station]).max().unwrap();
        for i in (0..6).filter(|i| !ended.iter().any(|e| e.0.station == *i)) {
            let (Some(b), Some(a)) = (before[i], after[i]) else { continue };
            // A collider whose wait was shorter than EIFS is ahead by up to five slots.
            assert!(a <= b && a + least + 5 >= b, "{before:?} {after:?}");
        }
    }
}

#[test]
fn windows_double_to_the_largest_and_frames_are_discarded_after_the_last_attempt() {
    let lossy = |i| StationConfig { up: LossConfig::uniform(Share(1.0)), ..station(i) };
    for attempts in [1, 2, 7] {
        let mut b = Bench::new(Mac { attempts, ..mac() }, vec![station(0), lossy(1)], 1);
        b.offer(us(0), 1, 1000);
        b.offer(us(0), 1, 1000);
        let ended = b.run();
        let numbers: Vec<u32> = ended.iter().map(|e| e.0.number).collect();
        let expected: Vec<u32> = (1..=attempts).chain(1..=attempts).collect();
        assert_eq!(numbers, expected);
        assert!(
            ended
                .iter()
                .all(|(a, e)| !e.arrived && !e.delivered && e.last() == (a.number == attempts))
        );
        // From the end of an unacknowledged frame: SIFS, a slot and a preamble; DIFS; and the
        // back-off.
        for pair in ended.windows(2) {
            let slots = (pair[1].0.start - (pair[0].0.start + Duration::micros(944 + 222 + 50))).0
                as f64
                / 20_000.0;
            let window = if pair[1].0.number == 1 {
                31
            } else {
                (32 << (pair[1].0.number - 1)).min(1024) - 1
            };
            assert!(
                slots.fract() == 0.0 && (0.0..=f64::from(window)).contains(&slots),
                "{slots} of {window}"
            );
        }
    }
}

#[test]
fn a_lost_link_ack_makes_a_duplicate_that_is_not_handed_up() {
    // Link ACKs have 38 bytes with their preamble: at this rate they are nearly always lost. The
    // other direction has no losses.
    let deaf = StationConfig {
        down: LossConfig::BitErrors(BitErrors {
            rate: 0.05,
            index: Default::default(),
            slot: Duration::micros(500),
        }),
        ..station(1)
    };
    let mut b = Bench::new(Mac { attempts: 3, ..mac() }, vec![station(0), deaf], 1);
    b.offer(us(0), 1, 1000);
    let ended = b.run();
    let told: Vec<_> =
        ended.iter().map(|e| (e.1.arrives, e.1.arrived, e.1.delivered, e.1.last())).collect();
    assert_eq!(
        told,
        [(true, true, false, false), (false, true, false, false), (false, true, false, true)]
    );
}

/// A bench whose frames of 1040 bytes are sent as 40 and 1000 bytes, with the losses of the script
/// on the way from station 1.
fn cut(mac: Mac, script: &[&str]) -> Bench {
    let up = LossConfig::Scripted(Scripted {
        data: script.iter().map(|s| s.to_string()).collect(),
        acks: vec![],
        damaged: false,
    });
    let mut b = Bench::new(mac, vec![station(0), StationConfig { up, ..station(1) }], 1);
    let framing = AnyFraming::HeadersFirst(HeadersFirst { fragments: 2, slots: None });
    b.freight = ToFirst(
        Segment { len: 1000, size: 1040, forward: true, ..Segment::default() },
        Some(framing),
    );
    b.offer(us(1000), 1, 1040);
    b
}

#[test]
fn fragments_follow_each_other_after_sifs_and_each_has_its_preamble_and_its_answer() {
    let (headers, payload, answer) = (
        Duration(192_000 + 74 * 8_000 / 11),
        Duration::micros(192) + Duration(1034 * 8_000 / 11),
        Duration::micros(304),
    );
    let ended = cut(mac(), &[]).run();
    let sifs = Duration::micros(10);
    assert_eq!(
        ended.iter().map(|e| (e.0.start, e.0.bytes, e.0.number)).collect::<Vec<_>>(),
        [(us(1000), 74, 1), (us(1000) + headers + sifs + answer + sifs, 1034, 2)]
    );
    assert_eq!(
        ended.iter().map(|e| e.1.air_time).collect::<Vec<_>>(),
        [headers + sifs + answer, payload + sifs + answer]
    );
    assert_eq!(
        ended.iter().map(|e| (e.1.delivered, e.1.arrives, e.1.step)).collect::<Vec<_>>(),
        [(true, false, Step::More), (true, true, Step::Whole)]
    );
}

#[test]
fn who_has_the_headers_alone_knows_of_the_loss() {
    let once = Mac { attempts: 1, ..mac() };
    for (mac, script, bytes, damaged_frames) in [
        (once.clone(), &["1:2"][..], &[74u32, 1034][..], Some(LinkEvent::Incomplete)),
        (once.clone(), &["1:1"], &[74, 74], Some(LinkEvent::Incomplete)),
        (once, &["1:1", "1:2"], &[74, 74], None),
        (
            Mac { attempts: 2, ..self::mac() },
            &["1:1", "1:3", "1:4"],
            &[74, 74, 1034, 1034],
            Some(LinkEvent::Incomplete),
        ),
    ] {
        let ended = cut(mac, script).run();
        assert_eq!(ended.iter().map(|e| e.0.bytes).collect::<Vec<_>>(), bytes, "{script:?}");
        let (last, before) = ended.split_last().unwrap();
        assert!(before.iter().all(|e| !e.1.last() && e.1.damaged_frames.is_none()));
        assert!(
            last.1.loses() && last.1.damaged_frames == damaged_frames,
            "{script:?}: {:?}",
            last.1
        );
    }
    // After a fragment that failed comes a back-off, after one that got through none.
    let ended = cut(Mac { attempts: 2, ..mac() }, &["1:1"]).run();
    assert_eq!(ended.iter().map(|e| e.0.bytes).collect::<Vec<_>>(), [74, 74, 1034]);
    assert_eq!(
        (ended[1].0.start - (ended[0].0.start + ended[0].1.air_time + Duration::micros(222 + 50)))
            .0
            % 20_000,
        0
    );
    assert_eq!(ended[2].0.start, ended[1].0.start + ended[1].1.air_time + Duration::micros(10));
}

#[test]
fn colliders_with_frames_of_different_length_wait_as_the_switch_says() {
    // The station has a short frame (20 + 34 bytes: 231.3 µs), the access point a long one (944
    // µs).
    for (rule, ap, other) in [
        (AfterCollision::AckTimeout, 222 + 50, 50),
        (AfterCollision::Eifs, 364, 364),
        (AfterCollision::Difs, 50, 50),
        (AfterCollision::Ns2, 10 + 304 + 4 + 50, 364 + 50),
    ] {
        let mut b = Bench::new(
            Mac { after_collision: rule, ..mac() },
            vec![station(0), station(1), station(2)],
            2,
        );
        b.offer(us(0), 0, 1000);
        b.offer(us(0), 1, 20);
        let (at, ended) = b.step().unwrap();
        assert_eq!(at, us(50 + 944));
        assert!(ended.iter().all(|(_, e)| e.collided && !e.last() && !e.arrived));
        let times: Vec<u64> = ended.iter().map(|e| e.1.air_time.0).collect();
        assert_eq!(times, [944_000, 0], "the medium's time is counted once");
        let since = b.cell.contention.since();
        assert_eq!(
            since[..2],
            [at + Duration::micros(ap), at + Duration::micros(other)],
            "{rule:?}"
        );
        let listener = if rule == AfterCollision::Ns2 {
            414
        } else if rule == AfterCollision::Difs {
            50
        } else {
            364
        };
        assert_eq!(since[2], at + Duration::micros(listener));
    }
}

#[test]
fn rts_and_cts_go_before_frames_above_the_threshold() {
    let mut b = Bench::new(
        Mac { rts_threshold: Size::Bytes(500), ..mac() },
        vec![station(0), station(1), station(2)],
        1,
    );
    b.offer(us(0), 1, 1000);
    b.offer(us(0), 2, 400);
    // 50 µs, and an RTS of 352 µs or a frame of 507.6 µs.
    let (at, ended) = b.step().unwrap();
    assert_eq!((at.0, ended.len()), (50_000 + 192_000 + 315_636, 2));
    assert!(ended.iter().all(|e| e.1.collided));
    let mut alone = Bench::new(
        Mac { rts_threshold: Size::Bytes(500), ..mac() },
        vec![station(0), station(1)],
        1,
    );
    alone.offer(us(100), 1, 1000);
    assert_eq!(alone.step(), Some((us(100 + 352), vec![])));
    let (at, ended) = alone.step().unwrap();
    assert_eq!(at, us(100 + 352 + 10 + 304 + 10 + 944));
    assert_eq!(ended[0].1.air_time, Duration::micros(352 + 10 + 304 + 10 + 944 + 10 + 304));
}

#[test]
fn what_a_stack_answers_at_once_needs_no_back_off_in_ns3() {
    for (access, slots) in [(Access::Ns3, false), (Access::Idle, true), (Access::Ns2, true)] {
        let mut b = Bench::new(Mac { access, ..mac() }, vec![station(0), station(1)], 1);
        b.offer(us(1000), 0, 1000);
        let at = b.step().unwrap().0;
        b.offer(at, 1, 40);
        assert_eq!(b.backoffs()[1].is_some(), slots, "{access:?}");
        let free = at + Duration::micros(314);
        assert!(b.cell.contention.since()[1] == free + Duration::micros(50));
    }
}

#[test]
fn a_lan_without_link_acks_sends_each_frame_once() {
    let lossy = |i| StationConfig { up: LossConfig::uniform(Share(1.0)), ..station(i) };
    let mut b = Bench::new(
        Mac { overhead: Size::Bytes(34), ..Mac::named(MacName::CsmaLan) },
        vec![station(0), lossy(1), station(2)],
        1,
    );
    b.offer(us(0), 1, 116);
    b.offer(us(60), 2, 116);
    let ended = b.run();
    // 19.2 µs and 150 bytes at 10 Mbit/s.
    assert_eq!(ended[0].1.air_time, Duration(139_200));
    let told: Vec<_> =
        ended.iter().map(|e| (e.0.station, e.1.arrived, e.1.delivered, e.1.last())).collect();
    assert_eq!(told, [(1, false, true, true), (2, true, true, true)]);
}

#[test]
fn starts_are_announced_when_asked_for_and_change_nothing() {
    let run = |announce: Option<u32>| {
        let mut b = Bench::new(mac(), (0..4).map(station).collect(), 9);
        if let Some(first) = announce {
            b.cell.announce(first);
        }
        (0..20).for_each(|n| (1..4).for_each(|i| b.offer(us(n), i, 1000)));
        let (mut starts, mut ends) = (vec![], vec![]);
        while b.cell.next_event().0 != Time::NEVER {
            let (at, mut reports) = (b.cell.next_event().0, vec![]);
            let delivery = b.cell.fire(at, &b.freight, &mut reports, &mut b.outcomes);
            for r in delivery.map(|d| d.report()).into_iter().chain(reports) {
                match r {
                    Report::Started(a) => {
                        assert_eq!(a.start, at);
                        starts.push(a);
                    }
                    Report::Ended(a, _) => ends.push(a),
                    _ => panic!("there is no aggregation"),
                }
            }
        }
        (starts, ends)
    };
    let ((none, plain), (starts, ends)) = (run(None), run(Some(1)));
    assert!(none.is_empty() && plain.len() > 60);
    assert!(plain == ends && starts == ends);
    let (again, ends) = run(Some(2));
    let second: Vec<_> = starts.into_iter().filter(|a| a.number >= 2).collect();
    assert!(plain == ends && again == second && !second.is_empty());
}

#[test]
fn draws_belong_to_stations() {
    // Other stations do not change a station's draws. With four others it collides first, and its
    // window is twice as large: the same draw is scaled.
    let of_first = |others: u16| {
        let mut b = Bench::new(mac(), (0..2 + others).map(station).collect(), 4);
        (1..=1 + usize::from(others)).for_each(|i| b.offer(us(i as u64), i, 1000));
        b.step();
        b.backoffs()[1].unwrap()
    };
    assert_eq!(of_first(0), of_first(4) / 2);
}

/// ns's WaveLAN: `Mac/Csma/Ca` with slots and DIFS of 16 µs, at 10 Mbit/s; a frame of 1000 bytes
/// takes 800 µs.
fn wavelan(max_deferrals: u32) -> Mac {
    Mac {
        access: Access::CsmaCa,
        max_deferrals,
        slot: Duration::micros(16),
        difs: Duration::micros(16),
        cw_min: 16,
        cw_max: 1024,
        backoff_includes_cw: false,
        preamble: mac::Preamble::Takes(Duration::ZERO),
        overhead: Size::Bytes(0),
        ..Mac::named(MacName::CsmaLan)
    }
}

#[test]
fn csma_ca_sends_at_once_on_an_idle_medium_and_pauses_after_its_own_frame() {
    let mut b = Bench::new(wavelan(16), vec![station(0), station(1)], 1);
    b.offer(us(1000), 1, 966);
    b.offer(us(1000), 1, 966);
    let starts: Vec<Time> = b.run().iter().map(|(attempt, _)| attempt.start).collect();
    assert_eq!(starts, [us(1000), us(1000 + 800 + 16 + 16 * 16)]);
}

#[test]
fn csma_ca_looks_again_after_a_window_that_doubles_and_goes_on_while_others_send() {
    let mut b = Bench::new(wavelan(0), vec![station(0), station(1), station(2), station(3)], 5);
    b.offer(us(1000), 1, 966);
    b.offer(us(1100), 2, 966);
    b.offer(us(1200), 3, 966);
    let first = b.run();
    assert_eq!(first[0].0.start, us(1000));
    let looks = |at: Time, since: u64, window: u64| (0..window).any(|k| at == us(since + 16 * k));
    assert!(looks(first[1].0.start, 1816, 16), "{:?}", first[1].0.start);
    // The third station has found the medium busy for the second time, during the second frame,
    // unless both started together.
    let (second, third) = (first[1].0.start, first[2].0.start);
    let since = (second.0 - Time::ZERO.0) / 1000 + 816;
    assert!(third == second || looks(third, since, 32), "{second:?} {third:?}");
}

#[test]
fn csma_ca_drops_a_frame_that_always_finds_the_medium_busy() {
    let busy = |limit: u32| {
        let stations = (0..6).map(station).collect();
        let mut b = Bench::new(wavelan(limit), stations, 7);
        for s in 1..6 {
            (0..40).for_each(|_| b.offer(us(0), s, 966));
        }
        b.run()
    };
    let ended = busy(3);
    let given_up: Vec<_> = ended.iter().filter(|(attempt, _)| attempt.number == 0).collect();
    assert_eq!(ended.len(), 200);
    assert!(!given_up.is_empty());
    assert!(given_up.iter().all(|(_, end)| end.loses() && end.crashed));
    assert!(given_up.iter().all(|(_, end)| end.air_time == Duration::ZERO));
    assert!(busy(16).iter().filter(|(attempt, _)| attempt.number == 0).count() < given_up.len());
    assert!(busy(0).iter().all(|(attempt, _)| attempt.number == 1));
}
