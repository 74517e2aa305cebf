//! Duplicate ACKs: fast retransmit, limited transmit, partial ACKs (RFC 5681, 3042, 6582), and the
//! script itself.

use crate::script::{complaint, play};

/// RFC 5681, section 3.2: half of what is in flight, three segments of inflation, one more for each
/// further duplicate.
#[test]
fn fast_retransmit_and_recovery() {
    play(
        "scheme reno:recovery=reno
         set limited_transmit = false
         write 20
         > 0..10000
         +0.1 < ack 0
         +0.0 < ack 0
         = fast 0
         +0.0 < ack 0
         > 0 rtx
         = cwnd 5 ssthresh 5 fast 1
         +0.0 < ack 0        # the window is 5 + 4
         +0.0 < ack 0        # 10
         +0.0 < ack 0        # 11
         > 10000
         +0.1 < ack 11000    # the retransmission filled the hole
         > 11000..13000
         = cwnd 2",
    );
}

/// RFC 3042: the first and the second duplicate ACK each send a new segment, beyond cwnd, which
/// does not count for the reduction (RFC 5681, section 3.2 step 2).
#[test]
fn limited_transmit_with_one_and_two_duplicates() {
    play(
        "write endless
         > 0..10000
         +0.1 < ack 0
         > 10000
         = cwnd 10
         +0.01 < ack 0
         > 11000
         +0.01 < ack 0
         > 0 rtx
         = cwnd 5 ssthresh 5",
    );
    play(
        "write endless
         > 0..10000
         +0.1 < ack 0
         > 10000
         +0.01 < ack 2000  # it was reordering: cwnd has grown by one and covers what was sent
         > 11000..13000
         = cwnd 11 fast 0",
    );
}

/// RFC 6582, section 3.2 step 5 and section 4: three losses in a window, one repaired per round
/// trip. Only the first partial ACK restarts the timer, or each does.
#[test]
fn partial_acks_impatient_and_slow_but_steady() {
    let script = "set limited_transmit = false
         set newreno_timer = \"KIND\"
         write endless
         > 0..10000
         +0.1 < ack 0
         +0 < ack 0
         +0 < ack 0
         > 0 rtx
         = cwnd 5 ssthresh 5 fast 1 deadline 1
         +0.1 < ack 3000          # three segments off the inflation of three, one back: the \
                  window is 6, 7 in flight
         > 3000 rtx
         = cwnd 5 deadline 1
         +0.1 < ack 6000          # one off the inflation, two off cwnd
         > 6000 rtx
         = cwnd 3 deadline LEFT
         +0.1 < ack 10000
         > 10000..12000
         = cwnd 2 fast 1 reductions 1";
    play(&script.replace("KIND", "impatient").replace("LEFT", "0.9"));
    play(&script.replace("KIND", "slow-but-steady").replace("LEFT", "1"));
}

/// Reno leaves recovery with the first new ACK; the second loss of the window waits for the timer
/// (RFC 6582, section 3.2 step 2, prevents a second reduction).
#[test]
fn reno_repairs_one_loss_of_a_window() {
    play(
        "scheme reno:recovery=reno
         set limited_transmit = false
         write 10
         > 0..10000
         +0.1 < ack 0
         +0 < ack 0
         +0 < ack 0
         > 0 rtx
         +0.1 < ack 3000
         = cwnd 5
         +0 < ack 3000
         +0 < ack 3000
         +0 < ack 3000
         = fast 1
         +1 timer
         > 3000 rtx",
    );
}

/// An old ACK that arrives late may close the window over the data in flight. Retransmissions are
/// allowed, because those data were inside an earlier window.
#[test]
fn the_timer_sends_again_what_a_smaller_window_no_longer_holds() {
    for kind in ["tahoe", "reno", "newreno", "sack", "sack-ns2", "fack"] {
        play(&format!(
            "scheme reno:recovery={kind}
             set persist = \"idle\"
             write 3
             > 0..3000
             +0.1 < ack 1000 win 0
             +1 timer
             > 1000 rtx
             +0.1 < ack 2000
             > 2000 rtx
             +0.1 < ack 3000"
        ));
    }
}

/// A closed window stops the timer, also with data in flight: probes, but no timeout and no
/// duplicate ACKs, and cwnd does not change. When it opens, a full RTO starts for the data in
/// flight.
#[test]
fn a_sender_persists_on_a_closed_window_with_data_in_flight() {
    for kind in ["reno", "newreno", "sack", "fack", "rack", "rack+prr+f-rto"] {
        play(&format!(
            "scheme reno:recovery={kind}
             write 4
             > 0..4000
             +0.1 < ack 1000 win 0
             = cwnd 10
             +0 < ack 1000
             +0 < ack 1000
             +0 < ack 1000
             = fast 0 dupacks 0 cwnd 10
             +1 timer
             +1 timer
             +0.5 < ack 1000 win 100
             = timeouts 0 fast 0 cwnd 10 rto 1 deadline 1
             +0.1 < ack 4000
             = timeouts 0 rto 1"
        ));
    }
}

/// The data in flight arrive while the window is closed: probing continues.
#[test]
fn a_window_that_stays_closed_after_the_last_ack_is_still_probed() {
    for kind in ["reno", "newreno", "sack", "sack-ns2", "fack", "rack"] {
        play(&format!(
            "scheme reno:recovery={kind}
             write 20
             > 0..10000
             +0.1 < ack 1000 win 0
             +0.1 < ack 10000 win 0
             +1 timer
             +0.1 < ack 10000 win 20
             > 10000..20000"
        ));
    }
}

/// While a relay holds the sender no timer runs; afterwards probing of a closed window restarts,
/// whether it closed before or during the hold.
#[test]
fn a_closed_window_is_probed_when_a_relay_lets_the_sender_go() {
    for kind in ["reno", "newreno", "sack", "sack-ns2", "fack", "rack"] {
        for closes in
            ["hold\n+0.1 < ack 10000 win 0\nwrite 10", "+0.1 < ack 10000 win 0\nwrite 10\nhold"]
        {
            play(&format!(
                "scheme reno:recovery={kind}
                 write 10
                 > 0..10000
                 {closes}
                 = deadline 0
                 resume
                 timer
                 +0.1 < ack 10000 win 20
                 > 10000..20000"
            ));
        }
    }
}

#[test]
fn a_script_that_does_not_hold_is_told_with_its_line() {
    let found = |script: &str| complaint(&format!("write 2\n{script}"));
    assert_eq!(found("> 0..2000"), "");
    assert_eq!(found("> 0..3000"), "line 2, `> 0..3000`: found: 0, 1000");
    assert_eq!(
        found("+1 < ack 0"),
        "line 2, `+1 < ack 0`: before it was sent and not expected: 0, 1000"
    );
    assert_eq!(found(""), "at the end: before it was sent and not expected: 0, 1000");
    assert!(found("> 0..2000\n+1.5 < ack 0").contains("a timer is due 0.5 s earlier"));
    assert!(found("> 0..2000\n+2 timer").contains("the timer is due after 1 s"));
    assert!(found("> 0..2000\n= cwnd 9").contains("cwnd is 10"));
    assert!(found("> 0..2000\n+0 < ack 0 sak 3-4").contains("an ACK has no `sak`"));
}

/// RFC 6582, section 4: after a timeout the guard forbids a fast retransmit, unless the last ACK of
/// new data acknowledged a few segments only (4.1) or echoes the copy of the segment below it
/// (4.2).
#[test]
fn heuristics_tell_a_loss_after_a_timeout() {
    let play_with = |keys: &str, last: &str, fast: u32| {
        play(&format!(
            "scheme newreno
             set limited_transmit = false
             {keys}
             write endless
             > 0..10000
             timer
             > 0 rtx
             +0.1 < ack 1000
             > 1000 rtx, 2000 rtx
             +0.1 < {last}
             > *
             +0.1 < {last}
             < {last}
             < {last}
             > *
             = fast {fast}"
        ));
    };
    let ack = "set guard_ack_heuristic = 4";
    play_with("", "ack 2000", 0);
    play_with(ack, "ack 2000", 1);
    play_with(ack, "ack 5000", 1);
    play_with(ack, "ack 6000", 0);
    let stamps = "set timestamps = true
                  set guard_timestamp_heuristic = true";
    play_with(stamps, "ack 2000 of 1000#2", 1);
    play_with(stamps, "ack 2000 of 1000#1", 0);
}

/// RFC 2582, section 5: duplicate ACKs of the last byte that had been sent at the timeout may be
/// those of a segment sent again for nothing; the less careful variant takes them for a loss.
#[test]
fn a_less_careful_guard_ends_with_all_that_had_been_sent() {
    let play_with = |key: &str, ack: u64, fast: u32| {
        play(&format!(
            "scheme newreno
             set limited_transmit = false
             {key}
             write endless
             > 0..10000
             timer
             > 0 rtx
             +0.1 < ack {ack}
             > *
             +0.1 < ack {ack}
             < ack {ack}
             < ack {ack}
             > *
             = fast {fast}"
        ));
    };
    let key = "set guard_less_careful = true";
    play_with("", 10_000, 0);
    play_with(key, 10_000, 1);
    play_with(key, 9000, 0);
}
