//! Forward RTO recovery (RFC 5682): basic over NewReno, SACK-enhanced over SACK, and Linux' answer
//! over RACK.

use crate::script::play;

/// Section 2.1: the late ACKs of the originals show that the timeout was spurious. Section 3b and
/// RFC 4015: cwnd is the flight (10) and what the ACK acknowledged (1), ssthresh what had been in
/// flight.
#[test]
fn a_spurious_timeout_is_undone_on_the_second_ack() {
    play(
        "scheme reno:recovery=newreno+f-rto
         set initial_ssthresh = \"8 segments\"
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         = cwnd 1 ssthresh 5 timeouts 1 undone 0
         +0.1 < ack 1000
         > 10000..12000
         = cwnd 2
         +0.01 < ack 2000
         > 12000
         = cwnd 11 ssthresh 10 timeouts 1 undone 1
         +0.01 < ack 3000      # congestion avoidance as before
         > 13000
         = cwnd 11.091",
    );
}

/// A delayed ACK for two originals: the flight is 10 - 3 + 2, and two segments were acknowledged.
#[test]
fn what_comes_back_counts_what_was_acknowledged() {
    play(
        "scheme reno:recovery=newreno+f-rto
         set initial_ssthresh = \"8 segments\"
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         +0.1 < ack 1000
         > 10000..12000
         +0.01 < ack 3000
         > 12000..14000
         = cwnd 11",
    );
}

/// Step 3a: the second ACK is a duplicate, so segments were lost. Three are retransmitted.
#[test]
fn a_duplicate_after_two_new_segments_confirms_the_timeout() {
    play(
        "scheme reno:recovery=newreno+f-rto
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         +0.1 < ack 1000
         > 10000..12000
         +0.1 < ack 1000
         > 1000..4000 rtx
         = cwnd 3 ssthresh 5 undone 0
         +0.1 < ack 2000
         > 4000..6000 rtx",
    );
}

/// Step 2a: the first ACK is a duplicate, or acknowledges everything.
#[test]
fn a_first_ack_that_does_not_advance_or_covers_all_means_the_usual_recovery() {
    play(
        "scheme reno:recovery=newreno+f-rto
         set limited_transmit = false
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         +0.1 < ack 0
         +0.1 < ack 1000
         > 1000..3000 rtx
         = cwnd 2 undone 0",
    );
    play(
        "scheme reno:recovery=newreno+f-rto
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         +0.1 < ack 10000
         > 10000..12000
         = cwnd 2 ssthresh 5 undone 0
         +0.1 < ack 11000
         > 12000..14000
         = cwnd 3 undone 0",
    );
}

/// Step 2b: without new data, or without room for it at the receiver, retransmission continues as
/// usual.
#[test]
fn without_new_data_to_send_the_usual_recovery_goes_on() {
    play(
        "scheme reno:recovery=newreno+f-rto
         write 10
         > 0..10000
         +1 timer
         > 0 rtx
         +0.1 < ack 1000
         > 1000..3000 rtx",
    );
    play(
        "scheme reno:recovery=newreno+f-rto
         window 10
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         +0.1 < ack 1000 win 9
         > 1000..3000 rtx",
    );
}

/// The timer expires twice before the ACKs arrive: only the first segment was retransmitted, and
/// the undo restores the state before the first timeout.
#[test]
fn a_timeout_that_repeats_is_undone_as_a_whole() {
    play(
        "scheme reno:recovery=newreno+f-rto
         set initial_ssthresh = \"8 segments\"
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         +2 timer
         > 0 rtx
         = cwnd 1 ssthresh 5 timeouts 2
         +0.1 < ack 1000
         > 10000..12000
         +0.01 < ack 2000
         > 12000
         = cwnd 11 ssthresh 10 undone 1",
    );
}

/// A timeout while an earlier loss is repaired: ACKs could acknowledge retransmissions, so F-RTO is
/// not used.
#[test]
fn not_while_an_earlier_loss_is_repaired() {
    play(
        "scheme reno:recovery=newreno+f-rto
         set limited_transmit = false
         write endless
         > 0..10000
         +0.1 < ack 0
         +0 < ack 0
         +0 < ack 0
         > 0 rtx
         +1 timer
         > 0 rtx
         +0.1 < ack 1000
         > 1000..3000 rtx
         +0.1 < ack 2000
         > 3000..5000 rtx
         = undone 0",
    );
}

/// RFC 4015, step 9: the first round-trip time of new data resets the estimates. Before:
/// SRTT 100 ms (and two ticks of 1 ms), RTTVAR 50 ms.
#[test]
fn the_timer_becomes_more_patient() {
    play(
        "scheme reno:recovery=newreno+f-rto
         set min_rto = \"50 ms\"
         write endless
         > 0..10000
         = rto 0.3
         +0.3 timer
         > 0 rtx
         +0.1 < ack 1000
         > 10000..12000
         +0 < ack 2000
         > 12000
         = rto 0.6             # backed off: no valid sample yet
         +0.4 < ack 11000      # the first of the new segments was timed
         > 13000..23000
         = srtt 0.4 rto 1.2    # 400 ms + 4 * 200 ms",
    );
}

/// Section 3.1: with SACK a duplicate in step 2 only updates the scoreboard; in step 3 a SACK below
/// the recovery point is enough.
#[test]
fn with_sack_duplicates_do_not_end_it() {
    play(
        "scheme reno:recovery=sack+f-rto
         set initial_ssthresh = \"8 segments\"
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         +0.1 < ack 0 sack 2000-3000
         +0.1 < ack 1000 sack 2000-3000
         > 10000..12000
         +0.01 < ack 1000 sack 2000-4000
         > 12000..14000        # eleven in flight, two of them arrived
         = undone 1 ssthresh 10 cwnd 11
         +0.01 < ack 4000
         > 14000",
    );
}

/// Section 3.1, step 3a: data sent after the timeout are reported before any of the rest.
#[test]
fn with_sack_news_beyond_the_recovery_point_confirm_the_timeout() {
    play(
        "scheme reno:recovery=sack+f-rto
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         +0.1 < ack 1000
         > 10000..12000
         +0.1 < ack 1000 sack 10000-11000
         > 1000..3000 rtx      # the window is three, one new segment is still under way
         = cwnd 3 undone 0",
    );
}

/// Linux restores everything at once; its recovery is RACK. The timestamps show RACK that the first
/// segment arrived before its retransmission: without them the rest would count as overdue.
#[test]
fn over_rack_the_window_comes_back_whole() {
    play(
        "scheme reno:recovery=rack+f-rto
         set initial_ssthresh = \"8 segments\"
         set timestamps = true
         write endless
         > 0..10000
         +0.2 timer            # the tail loss probe
         > 10000
         +1 timer
         > 0 rtx
         = cwnd 1
         +0.1 < ack 1000 of 0
         > 11000..13000
         +0.01 < ack 4000
         > 13000
         = cwnd 10 ssthresh 8 undone 1",
    );
}
