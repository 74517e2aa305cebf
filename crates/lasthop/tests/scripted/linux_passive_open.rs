//! How a connection begins that the data's receiver opens: the SYN-ACK's timer, its undo, and what
//! the handshake says of the round-trip time, each rule with the kernel's name for it.

use crate::script::{complaint, play};

/// `tcp_check_req`: the data leave with the ACK of the SYN-ACK, which gives the first round-trip
/// time (`tcp_synack_rtt_meas`).
#[test]
fn the_ack_of_the_syn_ack_opens_the_connection() {
    play(
        "profile linux
         listening
         write 20
         +0.5 < syn
         > syn-ack
         = state closed deadline 1
         +0.1 < ack-of-syn-ack 1
         > 0..10000
         = state established cwnd 10 srtt 0.1 rto 0.3 timeouts 0 retransmissions 0",
    );
}

/// `reqsk_timer_handler`, `tcp_synack_retries` = 5: 1, 2, 4, 8, 16 and 32 s; then the connection is
/// forgotten, its late ACK is answered with a reset, and another SYN opens one.
#[test]
fn the_syn_ack_is_retransmitted_and_the_connection_forgotten() {
    for (profile, waits) in
        [("linux", vec![1, 2, 4, 8, 16, 32]), ("rfc", vec![1, 2, 4, 8, 16, 32, 60, 60])]
    {
        let (last, waits) = waits.split_last().unwrap();
        let lines: String = waits.iter().map(|s| format!("+{s} timer\n> syn-ack rtx\n")).collect();
        let retries = waits.len();
        play(&format!(
            "profile {profile}
             listening
             write 1
             < syn
             > syn-ack
             {lines}+{last} timer
             = state closed deadline 0 timeouts {retries} retransmissions {retries}
             +1 < ack-of-syn-ack 1
             > rst
             +1 < syn
             > syn-ack
             +0.2 < ack-of-syn-ack {}
             > 0
             = state established srtt 0.2",
            retries + 2
        ));
    }
}

/// `tcp_synack_retries` = 0 in an own profile: a SYN-ACK only answers a SYN.
#[test]
fn without_retries_the_syn_ack_has_no_timer() {
    play(
        "profile linux
         set synack_retries = 0
         listening
         < syn
         > syn-ack
         = deadline 0
         +1 < syn rtx
         > syn-ack rtx
         = deadline 0",
    );
}

/// `tcp_init_transfer`: after two timeouts of the SYN-ACK cwnd is one segment, after one it is the
/// initial one; the echo gives the round-trip time (`tcp_ack_update_rtt`).
#[test]
fn timeouts_of_the_syn_ack_reduce_cwnd() {
    play(
        "profile linux
         listening
         write 20
         < syn
         > syn-ack
         +1 timer
         > syn-ack rtx
         +2 timer
         > syn-ack rtx
         +0.1 < ack-of-syn-ack 3
         > 0
         = cwnd 1 srtt 0.1 rto 0.3",
    );
    play(
        "profile linux
         listening
         write 20
         < syn
         > syn-ack
         +1 timer
         > syn-ack rtx
         +0.1 < ack-of-syn-ack 2
         > 0..10000
         = cwnd 10 srtt 0.1 rto 0.3",
    );
}

/// The first ACK of data opens a cwnd of one segment to two, and to the four of BBR
/// (`bbr_cwnd_min_target`): so did transfers of a kernel whose default is BBR.
#[test]
fn the_first_ack_of_data_opens_a_reduced_cwnd() {
    for (scheme, sent, cwnd) in [("reno", "1000..3000", 2), ("bbr", "1000..5000", 4)] {
        play(&format!(
            "scheme {scheme}
             profile linux
             set timestamps = false
             listening
             write 20
             < syn
             > syn-ack
             +1 timer
             > syn-ack rtx
             +2 timer
             > syn-ack rtx
             +0.1 < ack-of-syn-ack 3
             > 0
             = cwnd 1
             +0.1 < ack 1000
             > {sent}
             = cwnd {cwnd}"
        ));
    }
}

/// `tcp_try_undo_spurious_syn`: the ACK echoes the first SYN-ACK.
#[test]
fn a_spurious_timeout_of_the_syn_ack_is_undone() {
    for (undo, segments, cwnd) in [("true", "0..10000", 10), ("false", "0", 1)] {
        play(&format!(
            "profile linux
             set syn_undo = {undo}
             listening
             write 20
             < syn
             > syn-ack
             +1 timer
             > syn-ack rtx
             +2 timer
             > syn-ack rtx
             +1 < ack-of-syn-ack 1
             > {segments}
             = cwnd {cwnd} srtt 4 rto 12"
        ));
    }
}

/// `tcp_create_openreq_child`: only the timer sets `undo_marker`. What answers repeated SYNs leaves
/// cwnd, but not the sample without timestamps (`num_retrans`); each answer restarts the timer.
/// RFC 5681, section 3.1, reduces cwnd.
#[test]
fn answers_to_repeated_syns_leave_cwnd() {
    for (profile, segments, cwnd) in [("linux", "0..10000", 10), ("rfc", "0", 1)] {
        play(&format!(
            "profile {profile}
             set timestamps = false
             listening
             write 20
             < syn
             > syn-ack
             +0.6 < syn rtx
             > syn-ack rtx
             = deadline 1
             +0.6 < syn rtx
             > syn-ack rtx
             +0.1 < ack-of-syn-ack 3
             > {segments}
             = cwnd {cwnd} rto 3 timeouts 0 retransmissions 2"
        ));
    }
}

/// `total_retrans` counts answers and timeouts, and one timeout suffices for the reduction.
#[test]
fn an_answer_and_a_timeout_reduce_cwnd() {
    play(
        "profile linux
         listening
         write 20
         < syn
         > syn-ack
         +0.6 < syn rtx
         > syn-ack rtx
         +1 timer
         > syn-ack rtx
         = deadline 2
         +0.1 < ack-of-syn-ack 3
         > 0
         = cwnd 1 srtt 0.1 timeouts 1 retransmissions 2",
    );
}

/// `tcp_oow_rate_limited`: repeated SYNs are answered at most twice a second.
#[test]
fn copies_of_the_syn_are_answered_at_a_limited_rate() {
    play(
        "profile linux
         listening
         < syn
         > syn-ack
         +0.1 < syn rtx
         > syn-ack rtx
         +0.4 < syn rtx
         +0.1 < syn rtx
         > syn-ack rtx",
    );
}

/// RFC 6298, section 5.7 (`TCP_TIMEOUT_FALLBACK`): without timestamps a SYN-ACK that was sent again
/// gives no round-trip time, and the timeout is 3 s.
#[test]
fn without_timestamps_a_repeated_syn_ack_gives_no_sample() {
    play(
        "profile linux
         set timestamps = false
         listening
         write 1
         < syn
         > syn-ack
         +1 timer
         > syn-ack rtx
         +0.1 < ack-of-syn-ack 2
         > 0
         = rto 3",
    );
}

/// `tcp_check_req`: a reset ends what a SYN has begun; a listener answers an ACK with one.
#[test]
fn a_reset_ends_what_a_syn_has_begun() {
    play(
        "profile linux
         listening
         write 1
         < syn
         > syn-ack
         +0.1 < rst
         = state closed deadline 0
         +0.1 < ack-of-syn-ack 1
         > rst
         +1 < syn
         > syn-ack
         +0.1 < ack-of-syn-ack 2
         > 0",
    );
    assert!(complaint("profile linux\nlistening\n< syn").contains("syn-ack"));
}
