//! RACK-TLP (RFC 8985).

use crate::script::play;

/// Section 6.2: before three segments are SACKed a segment may be late by a quarter of the smallest round-trip time (25 of
/// 100 ms) beyond one that was sent after it.
#[test]
fn a_segment_is_lost_after_the_reordering_window() {
    play(
        "scheme rack:prr=false
         write 10
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         +0.025 timer
         > 0 rtx
         = fast 1 ssthresh 5",
    );
    play(
        "scheme rack:prr=false
         write 10
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         +0.02 < ack 2000
         = fast 0 reductions 0",
    );
}

/// Three segments SACKed and no reordering seen: no waiting.
#[test]
fn without_reordering_three_segments_are_enough() {
    play(
        "scheme rack:prr=false
         write 10
         > 0..10000
         +0.1 < ack 0 sack 1000-4000
         > 0 rtx
         = fast 1 ssthresh 5",
    );
}

/// Once reordering was seen, the window stays.
#[test]
fn after_reordering_three_segments_are_not_enough() {
    play(
        "scheme rack:prr=false
         write 10
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         +0 < ack 2000                    # a segment sent once came after a later one
         +0 < ack 2000 sack 3000-8000
         = fast 0
         +0.025 timer
         > 2000 rtx
         = fast 1",
    );
}

/// A retransmission that is lost itself is found by a later one that arrives.
#[test]
fn a_lost_retransmission_is_sent_again() {
    play(
        "scheme rack:prr=false
         set initial_window = \"20 segments\"
         write 20
         > 0..20000
         +0.1 < ack 0 sack 1000-10000,11000-20000
         > 0 rtx, 10000 rtx
         +0.1 < ack 0 sack 1000-20000      # the second retransmission has arrived, the first not
         +0.025 timer
         > 0 rtx
         = timeouts 0 fast 1",
    );
}

/// Section 7: two round trips (and 2 ms) without an ACK send new data, or the last segment again if there are none.
#[test]
fn a_tail_loss_probe_goes_out_after_two_round_trips() {
    play(
        "scheme rack
         write 12
         > 0..10000
         +0.202 timer
         > 10000
         = timeouts 0 cwnd 10",
    );
    play(
        "scheme rack
         write 3
         > 0..3000
         +0.202 timer
         > 2000 rtx
         = timeouts 0 cwnd 10",
    );
}

/// One segment in flight: its ACK may be delayed by 200 ms.
#[test]
fn a_probe_for_one_segment_waits_for_a_delayed_ack() {
    play(
        "scheme rack
         write 1
         > 0
         +0.4 timer
         > 0 rtx",
    );
}

/// Section 7.4: the probe repaired a loss that nothing else tells of: one reduction. A duplicate report says that nothing
/// was lost.
#[test]
fn a_loss_repaired_by_the_probe_costs_a_reduction() {
    let script = "scheme rack
         write 3
         > 0..3000
         +0.05 < ack 2000
         +0.35 timer
         > 2000 rtx
         +0.1 < ack 3000 REPORT
         write 1
         > 3000
         +0.1 < ack 4000
         = OUTCOME fast 0";
    play(&script.replace("REPORT", "").replace("OUTCOME", "reductions 1"));
    play(&script.replace("REPORT", "dsack 2000-3000").replace("OUTCOME", "reductions 0"));
}
