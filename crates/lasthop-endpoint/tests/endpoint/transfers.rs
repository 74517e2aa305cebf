//! Two ends over links that lose, repeat, damage and reorder packets deliver exactly what was
//! written, in order, and close.

use crate::common::{CLIENT, Faults, Link, SERVER, linux, settings};
use lasthop::segment::Flags;
use lasthop::tcp::profile::ProfileName;
use lasthop::units::{Duration, Time};
use lasthop_endpoint::{End, TcpState};
use lasthop_wire::{HIGH_DROP_PRECEDENCE, LOW_DROP_PRECEDENCE, parse};
use proptest::prelude::*;

/// Byte `i` of the stream of an end.
fn byte(end: usize, i: usize) -> u8 {
    ((i * 31) ^ (i >> 8) ^ (end * 85)) as u8
}

#[derive(Clone, Debug)]
struct Case {
    sizes: [usize; 2],
    chunk: usize,
    /// Bytes that are read at a time; small ones close the window.
    read: usize,
    buffer: u64,
    mtu: [u32; 2],
    scheme: &'static str,
    profile: ProfileName,
    is_v6: bool,
    faults: Faults,
}

fn cases() -> impl Strategy<Value = Case> {
    let profile =
        prop_oneof![Just(ProfileName::Linux), Just(ProfileName::Rfc), Just(ProfileName::Ns235)];
    let scheme = prop_oneof![
        Just("cubic"),
        Just("reno"),
        Just("bbr"),
        Just("noor-eaer"),
        Just("westwood"),
        Just("eifel"),
    ];
    let faults = (0.0..0.2, 0.0..0.1, 0.0..0.05, 0_u64..30, any::<u64>()).prop_map(
        |(loss, duplicate, corrupt, jitter, seed)| Faults {
            loss,
            duplicate,
            corrupt,
            jitter: Duration::millis(jitter),
            seed,
        },
    );
    let sizes = (0_usize..60_000, 0_usize..60_000);
    let ends = (1_usize..9000, 300_usize..9000, 2000_u64..80_000, 600_u32..1500, 600_u32..1500);
    (sizes, ends, scheme, profile, any::<bool>(), faults).prop_map(
        |(sizes, (chunk, read, buffer, a, b), scheme, profile, is_v6, faults)| Case {
            sizes: sizes.into(),
            chunk,
            read,
            buffer,
            mtu: [a, b],
            scheme,
            profile,
            is_v6,
            faults,
        },
    )
}

fn transfer(case: &Case) {
    let end = |i: usize| {
        let mut settings = settings(case.scheme, case.profile);
        (settings.receive_buffer, settings.mtu) = (case.buffer, case.mtu[i]);
        settings.send_buffer = 20_000;
        // However long it takes: longer than the longest timeout, the end that closes first is
        // there to answer the FIN of the other.
        settings.time_wait = Duration::secs(2000);
        let profile = &mut settings.profile;
        (profile.user_timeout, profile.orphan_timeout) = (Duration::ZERO, Duration::ZERO);
        (profile.syn_retries, profile.synack_retries, profile.probe_retries) = (0, 1000, 0);
        settings
    };
    let mut link = Link::new(end(CLIENT), end(SERVER), case.is_v6);
    link.faults = case.faults;
    let (mut written, mut read) = ([0; 2], [0; 2]);
    let limit = link.now + Duration::secs(20_000);
    loop {
        for i in [CLIENT, SERVER] {
            if link.ends[i].is_none() {
                continue;
            }
            let next = (written[i] + case.chunk).min(case.sizes[i]);
            let bytes: Vec<u8> = (written[i]..next).map(|at| byte(i, at)).collect();
            written[i] += link.write(i, &bytes);
            if written[i] == case.sizes[i] {
                link.close(i);
            }
            let mut buffer = vec![0; case.read];
            let now = link.now;
            let count = link.end(i).read(now, &mut buffer);
            for got in &buffer[..count] {
                assert_eq!(*got, byte(1 - i, read[i]), "byte {} at end {i}: {case:?}", read[i]);
                read[i] += 1;
            }
        }
        let unread = [CLIENT, SERVER]
            .iter()
            .any(|i| link.ends[*i].as_ref().is_some_and(|e| e.readable() > 0));
        if !link.step(limit) && !unread {
            break;
        }
    }
    let ended = [CLIENT, SERVER].map(|i| link.ends[i].as_ref().and_then(|e| e.end()));
    assert_eq!((read, ended), ([case.sizes[1], case.sizes[0]], [Some(End::Closed); 2]), "{case:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn what_was_written_arrives_in_order_and_both_ends_close(case in cases()) {
        transfer(&case);
    }
}

#[test]
fn half_closed_connections_carry_data_the_other_way() {
    let mut link = Link::established(linux(), linux());
    link.close(CLIENT);
    link.run_for(Duration::secs(100));
    assert_eq!((link.state(CLIENT), link.state(SERVER)), (TcpState::FinWait2, TcpState::CloseWait));
    assert!(link.end(SERVER).is_at_end());
    link.write(SERVER, &[7; 5000]);
    link.run_for(Duration::secs(1));
    assert_eq!(link.read(CLIENT), [7; 5000]);
    link.close(SERVER);
    link.run_for(Duration::secs(1));
    assert_eq!((link.state(CLIENT), link.state(SERVER)), (TcpState::TimeWait, TcpState::Closed));
    link.run_for(Duration::secs(60));
    assert_eq!(link.state(CLIENT), TcpState::Closed);
}

/// Ping-pong of single bytes: 10,000 of them.
#[test]
fn single_bytes_go_back_and_forth() {
    let mut link = Link::established(linux(), linux());
    for i in 0..5000 {
        for (from, to) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
            link.write(from, &[i as u8]);
            while link.end(to).readable() == 0 {
                assert!(link.step(Time::NEVER));
            }
            assert_eq!(link.read(to), [i as u8]);
        }
    }
}

#[test]
fn the_priorities_of_a_rule_are_drop_precedences_of_its_data() {
    let mut link = Link::established(settings("casablanca", ProfileName::Linux), linux());
    link.write(CLIENT, &[7; 40 * 1448]);
    link.run_for(Duration::secs(1));
    let class = |packet: &[u8]| parse(packet).map(|tcp| (tcp.payload_len, tcp.addressing));
    let sent: Vec<_> = link.passed.iter().filter_map(|p| class(&p.2).ok()).collect();
    let data = sent.iter().filter(|p| p.0 > 0).map(|p| p.1.traffic_class);
    let low = data.clone().filter(|&class| class == HIGH_DROP_PRECEDENCE).count();
    let high = data.clone().filter(|&class| class == LOW_DROP_PRECEDENCE).count();
    assert_eq!((low, high, data.count()), (20, 20, 40));
    // ACKs have none.
    assert!(sent.iter().filter(|p| p.0 == 0).all(|p| p.1.traffic_class == 0));
}

#[test]
fn an_acknowledgment_says_that_the_loss_was_explicitly_notified() {
    // Casablanca's receiver takes the loss of a segment of high priority for the radio's.
    let casablanca = || settings("casablanca", ProfileName::Linux);
    let mut link = Link::established(casablanca(), casablanca());
    // The third segment of the data, after two packets of the handshake.
    link.drops = |from, number| from == CLIENT && number == 5;
    link.write(CLIENT, &[7; 10 * 1448]);
    link.run_for(Duration::millis(100));
    let acks = link.sent_by(SERVER);
    let notified = acks.iter().filter_map(|p| parse(p).ok());
    let notified = notified.filter(|tcp| tcp.flags().has(Flags::ELN)).count();
    assert!(notified >= 3, "{notified} of {}", acks.len());
    let client = link.ends[CLIENT].as_ref().unwrap();
    assert_eq!(client.sender_counters().reductions, 0);
    assert_eq!(client.acknowledged(), 10 * 1448);
}
