//! The profile `linux`: what Linux 6.18 does in its congestion window, each rule with the kernel's
//! name for it.

use crate::script::play;

/// `tcp_is_cwnd_limited`: in slow start cwnd grows to twice the segments in flight, although these
/// did not fill it.
#[test]
fn slow_start_grows_to_twice_what_was_out() {
    play(
        "scheme reno
         profile linux
         write 6
         > 0..6000
         +0.1 < ack 2000
         = cwnd 12
         +0.0 < ack 6000
         = cwnd 12",
    );
    play(
        "scheme reno
         profile linux
         write 9
         > 0..9000
         +0.1 < ack 2000
         +0.0 < ack 4000
         +0.0 < ack 6000
         = cwnd 16
         +0.0 < ack 8000
         = cwnd 18
         +0.0 < ack 9000
         = cwnd 18",
    );
    // RFC 5681 asks that the data in flight fill cwnd.
    play(
        "scheme reno
         write 9
         > 0..9000
         +0.1 < ack 2000
         = cwnd 10",
    );
}

/// `tcp_cwnd_validate`: a transmission that filled cwnd counts until a round trip has passed; in
/// congestion avoidance half a window in flight is not enough.
#[test]
fn congestion_avoidance_grows_only_if_a_sending_filled_cwnd() {
    play(
        "scheme reno
         profile linux
         set initial_ssthresh = \"10 segments\"
         write 10
         > 0..10000
         +0.1 < ack 10000
         = cwnd 11
         write 5
         > 10000..15000
         +0.1 < ack 15000
         = cwnd 11",
    );
}

/// `tcp_newly_delivered`: an ACK after reordering counts only for what SACK had not reported
/// before.
#[test]
fn what_sack_has_counted_opens_the_window_no_more() {
    play(
        "scheme reno
         profile linux
         write 15
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         > 10000
         +0.01 < ack 0 sack 1000-3000
         > 11000
         +0.01 < ack 3000
         > 12000, 13000
         = cwnd 11
         +0.02 < ack 5000
         > 14000",
    );
}

/// `tcp_may_raise_cwnd`: after reordering by more than three segments, SACKs open the window too.
#[test]
fn after_much_reordering_sacks_open_the_window() {
    play(
        "scheme reno
         profile linux
         write 10
         > 0..10000
         +0.1 < ack 0 sack 9000-10000
         = cwnd 10
         +0.0 < ack 0 sack 3000-4000,9000-10000
         = cwnd 11
         +0.0 < ack 10000
         = cwnd 19",
    );
}

/// `tcp_reno_ssthresh`, `tcp_cong_avoid_ai`: half of 11 segments are 5, and ten ACKs make the
/// eleventh.
#[test]
fn cwnd_is_whole_segments() {
    play(
        "scheme reno
         profile linux
         set initial_ssthresh = \"10 segments\"
         set tso_defer = \"off\"
         write endless
         > 0..10000
         +0.1 < ack 9000
         > 10000..19000
         = cwnd 10.9
         +0.0 < ack 10000
         > 19000, 20000
         = cwnd 11
         +0.1 < ack 10000 sack 11000-14000
         # PRR: 5 / 11 of the three delivered are 1.4 segments, rounded up
         > 10000 rtx, 21000
         = ssthresh 5",
    );
}

/// `tcp_cwnd_reduction`: the proportion is that of ssthresh and the cwnd of before, in whole
/// segments: 14 of 20 with CUBIC.
#[test]
fn prr_counts_segments_of_cwnd() {
    play(
        "scheme cubic
         profile linux
         set initial_window = \"20 segments\"
         write endless
         > 0..20000
         +0.1 < ack 0 sack 1000-4000       # 2.1 segments, so 3
         > 0 rtx, 20000, 21000
         = ssthresh 14
         +0.0 < ack 0 sack 1000-5000       # 2.8
         +0.0 < ack 0 sack 1000-6000       # 3.5
         > 22000
         +0.0 < ack 0 sack 1000-7000       # 4.2
         > 23000
         +0.0 < ack 0 sack 1000-8000       # 4.9
         +0.0 < ack 0 sack 1000-9000       # 5.6
         > 24000",
    );
}

/// `tcp_rack_advance`: the round-trip time is that of the last segment that the ACK covers, sent
/// long ago, not that of the retransmission. So the last segment of the flight is not marked lost,
/// and PRR adds one to the two delivered.
#[test]
fn rack_takes_the_round_trip_time_of_the_latest_segment() {
    for (rack_rtt, sent) in
        [("latest", "4000 rtx, 5000 rtx, 6000 rtx"), ("newest", "4000 rtx, 5000 rtx")]
    {
        play(&format!(
            "scheme cubic
             profile linux
             set timestamps = false
             set rack_rtt = \"{rack_rtt}\"
             write 10
             > 0..10000
             +0.1 < ack 0 sack 1000-2000
             +0.0 < ack 0 sack 1000-3000
             +0.0 < ack 0 sack 1000-3000,8000-9000
             > 0 rtx
             +0.12 < ack 4000 sack 8000-9000
             > {sent}"
        ));
    }
}

/// `tcp_ack`, old ACKs: what a reordered ACK reports counts as delivered, and as much is sent. The
/// RFCs ignore such ACKs.
#[test]
fn an_overtaken_ack_still_reports() {
    let script = |takes: bool, sent: &str| {
        format!(
            "scheme cubic
             profile linux
             set timestamps = false
             set sack_of_old_acks = {takes}
             write 10
             > 0..10000
             +0.1 < ack 0 sack 1000-2000
             +0.0 < ack 0 sack 1000-3000
             +0.0 < ack 0 sack 1000-3000,8000-9000
             > 0 rtx
             +0.12 < ack 4000 sack 8000-9000
             > 4000 rtx, 5000 rtx, 6000 rtx
             write 10
             +0.01 < ack 3000 sack 5000-7000
             {sent}"
        )
    };
    play(&script(true, "> 7000 rtx, 10000"));
    play(&script(false, ""));
}

/// A receiver that tunes its buffer changes its window while segments are missing. With SACK blocks
/// a repeated number is a duplicate ACK all the same, to senders that count duplicates too.
#[test]
fn a_changed_window_hides_no_duplicate_that_carries_sack_blocks() {
    play(
        "scheme newreno
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000 win 990
         > 10000
         +0.0 < ack 0 sack 1000-3000 win 980
         > 11000
         +0.0 < ack 0 sack 1000-4000 win 970
         > 0 rtx
         = fast 1",
    );
    play(
        "scheme newreno
         write endless
         > 0..10000
         +0.1 < ack 0 win 990
         +0.0 < ack 0 win 980
         +0.0 < ack 0 win 970
         = fast 0 dupacks 0",
    );
}

/// The first SACK block is the latest, not the lowest: after a lost ACK one that lists two new
/// ranges does not indicate reordering, and three reported segments are still enough
/// (`tcp_sacktag_write_queue` sorts).
#[test]
fn blocks_are_taken_in_by_their_place() {
    play(
        "scheme rack
         write 10
         > 0..10000
         +0.1 < ack 0 sack 3000-4000,1000-2000
         +0.0 < ack 0 sack 3000-5000,1000-2000
         > 0 rtx
         = fast 1",
    );
}

/// `tcp_cwnd_restart`: half of cwnd for each timeout (0.3 s) that went by since the last sending,
/// down to the initial window.
#[test]
fn an_idle_time_halves_cwnd_for_each_timeout() {
    for (idle, cwnd) in [("+0.15", 40), ("+0.45", 20), ("+2", 10)] {
        play(&format!(
            "scheme reno
             profile linux
             write 30
             > 0..10000
             +0.1 < ack 10000
             > 10000..30000
             +0.1 < ack 30000
             = cwnd 40
             {idle} write 1
             > 30000
             = cwnd {cwnd}"
        ));
    }
}

/// `tcp_enter_cwr`: for an ECN echo cwnd comes down by PRR, here from 10 to 5 segments with four in
/// flight: each ACK releases what it delivers and one more until the pipe is at ssthresh. RFC 3168
/// asks for 5 at once.
#[test]
fn an_ecn_echo_reduces_in_proportion() {
    play(
        "scheme reno
         profile linux
         set ecn = true
         set tso_defer = \"off\"
         write 4
         > 0..4000
         +0.1 < ack 1000 ece
         = cwnd 5 ssthresh 5 reductions 1
         write 10
         > 4000, 5000
         +0.0 < ack 2000 ece
         > 6000
         = cwnd 5 reductions 1
         +0.0 < ack 4000
         > 7000, 8000
         +0.1 < ack 5000                   # the first one past the echo
         > 9000
         = cwnd 5.2",
    );
    play(
        "scheme reno
         profile linux
         set ecn = true
         set tso_defer = \"off\"
         set initial_window = \"20 segments\"
         write endless
         > 0..20000
         +0.1 < ack 2000 ece
         > 20000
         = cwnd 19 ssthresh 10
         +0.0 < ack 4000 ece
         > 21000
         +0.0 < ack 4000 sack 5000-8000    # a loss goes on with the same reduction: 3.5 segments, \
         rounded up, less two
         > 4000 rtx, 22000
         = ssthresh 10 reductions 1 fast 1",
    );
    play(
        "scheme reno
         profile linux
         set ecn = true
         set ecn_reduction = \"at-once\"
         write 4
         > 0..4000
         +0.1 < ack 1000 ece
         = cwnd 5 ssthresh 5",
    );
}

/// `tcp_rack_mark_lost`: the timer waits 2 ms beyond the reordering window, a quarter of 100 ms.
#[test]
fn racks_timer_waits_two_milliseconds_longer() {
    for (profile, wait) in [("linux", "0.027"), ("rfc", "0.025")] {
        play(&format!(
            "scheme rack
             profile {profile}
             set timestamps = false
             write 4
             > 0..4000
             +0.1 < ack 0 sack 3000-4000
             +{wait} timer
             > 0 rtx"
        ));
    }
}

/// `tcp_probe0_when`: the second probe of a closed window comes two timeouts after the first, which
/// comes one after the window closed.
#[test]
fn probes_of_a_closed_window_back_off_at_once() {
    for (at_once, waits) in [(true, ["0.3", "0.6", "1.2"]), (false, ["0.3", "0.3", "0.6"])] {
        let [first, second, third] = waits;
        play(&format!(
            "scheme reno
             profile linux
             set persist_doubles_at_once = {at_once}
             write 10
             > 0..10000
             +0.1 < ack 10000 win 0
             write 1
             +{first} timer
             +{second} timer
             +{third} timer"
        ));
    }
}

/// `tcp_process_loss` with FLAG_ORIG_SACK_ACKED: the first ACK after a timeout that acknowledges a
/// segment sent once restores the window, here that of an outage whose packets were delayed, and
/// opens it by eight segments (`tcp_may_raise_cwnd`). RFC 5682 waits for the second ACK.
#[test]
fn the_first_ack_shows_that_a_timeout_was_spurious() {
    for timestamp_undo in [false, true] {
        play(&format!(
            "scheme reno
             profile linux
             set timestamp_undo = {timestamp_undo}
             write endless
             > 0..10000
             timer                 # the tail loss probe
             > 10000
             timer
             > 0 rtx
             = cwnd 1 undone 0
             +0.3 < ack 8000
             > *
             = cwnd 18 undone 1"
        ));
    }
}

/// `tcp_enter_loss`: F-RTO begins with the second timeout in a row if the first one interrupted a
/// recovery. An outage then costs nothing although a segment was lost before it.
#[test]
fn a_repeated_timeout_of_a_recovery_may_be_spurious() {
    let loss = "scheme reno
         profile linux
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-4000
         > *
         = fast 1
         timer
         > 0 rtx";
    let first = "+0.1 < ack 0 sack 1000-5000 of 4000
         > *
         = undone 0";
    play(&format!("{loss}\n{first}"));
    let second = "timer
         > 0 rtx
         +0.1 < ack 0 sack 1000-5000 of 4000
         > *
         = cwnd 10 undone 1";
    play(&format!("{loss}\n{second}"));
}

/// `tcp_rack_detect_loss` takes a segment that it marks lost out of `tsorted_sent_queue`, and
/// `tcp_undo_cwnd_reduction` does not put it back when it clears the mark: what F-RTO's undo finds
/// not retransmitted waits for the timer, whatever is SACKed meanwhile.
#[test]
fn rack_does_not_judge_again_what_an_undo_took_back() {
    let undone = |once| {
        format!(
            "scheme reno
             profile linux
             set rack_judges_once = {once}
             write 10
             > 0..10000
             +0.1 < ack 0 sack 7000-10000
             > 0 rtx, 1000 rtx, 2000 rtx
             = fast 1
             timer
             > 0 rtx
             timer
             > 0 rtx
             +0.1 < ack 0 sack 7000-10000,5000-6000"
        )
    };
    let once = undone(true);
    play(&format!(
        "{once}
         = undone 1
         write 3
         > 10000..13000
         +0.1 < ack 0 sack 10000-13000,7000-10000,5000-6000
         > 0 rtx, 1000 rtx"
    ));
    let again = undone(false);
    play(&format!(
        "{again}
         = undone 1
         timer
         > 3000 rtx"
    ));
}

/// `tcp_enter_loss` marks what is out as lost but leaves it in `tsorted_sent_queue`: after an undo
/// RACK finds a lost retransmission as before.
#[test]
fn a_copy_that_a_spurious_timeout_marked_lost_is_judged_after_the_undo() {
    play(
        "scheme reno
         profile linux
         write 10
         > 0..10000
         +0.1 < ack 0 sack 7000-10000
         > 0 rtx, 1000 rtx, 2000 rtx
         timer
         > 0 rtx
         timer
         > 0 rtx
         +0.1 < ack 0 sack 7000-10000,5000-6000
         = undone 1
         +0.01 < ack 1000 sack 7000-10000,5000-6000
         > 1000 rtx",
    );
}

/// Each copy is judged once: a retransmission goes back to the end of `tsorted_sent_queue`.
#[test]
fn a_segment_that_is_lost_three_times_needs_no_timer() {
    play(
        "scheme reno
         profile linux
         write 30
         > 0..10000
         +0.1 < ack 0 sack 1000-7000
         > *
         +0.1 < ack 0 sack 1000-11000
         > 0 rtx, 11000, 12000, 13000, 14000
         +0.1 < ack 0 sack 1000-15000
         > 0 rtx, 15000, 16000, 17000, 18000",
    );
}

/// `tcp_send_fin`: the last data that are still to be sent carry the FIN, and do so each time they
/// are sent; after them it is a separate segment.
#[test]
fn the_last_data_carry_the_fin() {
    play(
        "scheme reno
         profile linux
         write 12
         > 0..10000
         close
         +0.1 < ack 2000
         > 10000, 11000 fin
         +0.01 < ack 11000
         timer
         > 11000 fin rtx
         +0.1 < ack 12001
         = state done",
    );
    play(
        "scheme reno
         profile linux
         write 4
         > 0..4000
         close
         > fin",
    );
    play(
        "scheme reno
         profile rfc
         write 12
         > 0..10000
         close
         +0.1 < ack 2000
         > 10000, 11000, fin",
    );
}

/// `tcp_sacktag_one` judges the delivery of a retransmission by the minimum of the round-trip time
/// alone. The ACK that SACKs it echoes an old timestamp while something below is missing; RFC 8985
/// takes it for the answer to an earlier copy then, and waits for the timer.
#[test]
fn a_sacked_retransmission_reveals_that_an_earlier_one_was_lost() {
    let script = |checks: bool, after: &str| {
        format!(
            "scheme reno
             profile linux
             set rack_checks_echo_of_sacks = {checks}
             write 10
             > 0..10000
             +0.1 < ack 0 sack 1000-4000 of 0
             > 0 rtx
             +0.001 < ack 0 sack 1000-4000,5000-10000 of 0
             > 4000 rtx
             +0.11 < ack 0 sack 1000-10000 of 0
             {after}"
        )
    };
    play(&script(false, "> 0 rtx"));
    play(&script(true, ""));
}

/// `tcp_skb_spurious_retrans`: where the ACK number covers a retransmission, the echo counts. What
/// was sent before it is not overdue, for the original was delivered.
#[test]
fn the_echo_tells_that_the_ack_of_a_retransmission_is_for_the_original() {
    let script = |echo: &str, after: &str| {
        format!(
            "scheme reno
             profile linux
             write 10
             > 0..10000
             +0.1 < ack 0 sack 1000-4000 of 0
             > 0 rtx
             +0.12 < ack 4000 {echo}
             {after}"
        )
    };
    play(&script("of 0#1", ""));
    play(&script("of 0#2", "> 4000 rtx, 5000 rtx, 6000 rtx"));
}
