//! How connections begin and how they are given up: the SYN's timer, its undo, and the limits of
//! retransmissions, each rule with the kernel's name for it.

use crate::script::play;

/// `tcp_syn_linear_timeouts` = 4 and `tcp_syn_retries` = 6: five waits of 1 s, then doubling; after
/// ten retransmissions the next timeout is the end. RFC 9293, section 3.8.3: for three minutes.
#[test]
fn the_syn_is_retransmitted_and_given_up() {
    let schedule = |profile: &str, waits: &[u32]| {
        let (last, waits) = waits.split_last().unwrap();
        let lines: String =
            waits.iter().map(|s| format!("+{s} timer\n> syn rtx\n= state synsent\n")).collect();
        let retries = waits.len();
        play(&format!(
            "profile {profile}
             unconnected
             > syn
             {lines}+{last} timer
             = state closed deadline 0 retransmissions {retries} timeouts {retries}"
        ));
    };
    schedule("linux", &[1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 64]);
    schedule("rfc", &[1, 2, 4, 8, 16, 32, 60, 60]);
}

/// ns-2 tries for ever.
#[test]
fn without_a_limit_the_syn_is_never_given_up() {
    let tries: String = (0..30).map(|_| "timer\n> syn rtx\n").collect();
    play(&format!("profile ns-2.35\nunconnected\n> syn\n{tries}= state synsent"));
}

/// `tcp_try_undo_spurious_syn`: the SYN-ACK echoes the first SYN, so that the timeouts were
/// spurious; `tcp_ack_update_rtt` takes the round-trip time from the echo.
#[test]
fn a_spurious_timeout_of_the_syn_is_undone() {
    for (undo, segments, cwnd) in [("true", "0..10000", 10), ("false", "0", 1)] {
        play(&format!(
            "profile linux
             set syn_undo = {undo}
             unconnected
             > syn
             write 10
             +1 timer
             > syn rtx
             +1 timer
             > syn rtx
             +1 timer
             > syn rtx
             +1 < syn-ack of 1
             > {segments}
             = cwnd {cwnd} srtt 4 rto 12"
        ));
    }
}

/// `tcp_init_transfer`: after two lost SYNs cwnd is one segment, after one it is the initial one.
#[test]
fn lost_syns_are_not_undone() {
    play(
        "profile linux
         unconnected
         > syn
         write 10
         +1 timer
         > syn rtx
         +1 timer
         > syn rtx
         +0.1 < syn-ack of 3
         > 0
         = cwnd 1 srtt 0.1 rto 0.3",
    );
    play(
        "profile linux
         unconnected
         > syn
         write 10
         +1 timer
         > syn rtx
         +0.1 < syn-ack of 2
         > 0..10000
         = cwnd 10 srtt 0.1 rto 0.3",
    );
}

/// RFC 6298, section 5.7 (`TCP_TIMEOUT_FALLBACK`): without timestamps a repeated SYN gives no
/// round-trip time, and the timeout is 3 s.
#[test]
fn without_timestamps_a_repeated_syn_gives_no_sample() {
    play(
        "profile linux
         set timestamps = false
         unconnected
         > syn
         write 1
         +1 timer
         > syn rtx
         +0.1 < syn-ack of 2
         > 0
         = rto 3",
    );
}

/// `retransmits_timed_out`: the first timeout at which data have been retransmitted for
/// `user_timeout` without an answer is the end; an answer starts the time again.
#[test]
fn data_without_an_answer_are_given_up() {
    play(
        "scheme reno
         profile linux
         set user_timeout = \"3 s\"
         write 1
         > 0
         timer                    # tail loss probe: the time starts
         > 0 rtx
         +0.3 timer
         > 0 rtx
         +0.6 timer
         > 0 rtx
         +1 < ack 1000            # it starts again
         write 1
         > 1000
         timer
         > 1000 rtx
         +1.2625 timer
         > 1000 rtx
         +2.525 timer             # 3.8 s after the probe
         = state closed deadline 0",
    );
}
