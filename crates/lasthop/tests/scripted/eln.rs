//! Explicit loss notification on ACKs: TCP HACK and its variants (yun2009, sections 2.1 and 5.3),
//! Balakrishnan and Katz 1998 with the sender of ns-2 (`tcp_eln`).

use crate::script::play;

/// The segment is retransmitted at once without a reduction; but three duplicate ACKs follow and
/// halve the window.
#[test]
fn hack_is_halved_by_the_duplicates_that_follow() {
    play(
        "scheme hack
         set initial_window = \"6 segments\"
         write endless
         > 0..6000
         +0.1 < ack 0 eln of_segment 0
         > 0 rtx
         = cwnd 6 fast 0 reductions 0
         +0.0 < ack 0 sack 1000-2000
         > 6000
         +0.0 < ack 0 sack 1000-3000
         > 7000
         # that the copy is under way is known: it does not go out a third time
         +0.0 < ack 0 sack 1000-4000
         = cwnd 3 reductions 1 retransmissions 1",
    );
}

/// Without SACK it is retransmitted once more.
#[test]
fn ewln_sends_it_once_more() {
    play(
        "scheme ewln
         set initial_window = \"6 segments\"
         set limited_transmit = false
         write endless
         > 0..6000
         +0.1 < ack 0 eln of_segment 0
         > 0 rtx
         +0.0 < ack 0
         +0.0 < ack 0
         +0.0 < ack 0
         > 0 rtx
         = cwnd 3 fast 1 reductions 1",
    );
}

/// TCP-ELN recognises these duplicates and does not reduce.
#[test]
fn tcp_eln_keeps_its_window() {
    play(
        "scheme tcp-eln
         set initial_window = \"6 segments\"
         write endless
         > 0..6000
         +0.1 < ack 0 eln of_segment 0
         > 0 rtx
         +0.0 < ack 0 sack 1000-2000
         > 6000
         +0.0 < ack 0 sack 1000-6000
         > 7000..11000
         = cwnd 6 reductions 0 retransmissions 1",
    );
}

/// With `eln-shield`, duplicate ACKs for the retransmitted segment do not halve the window.
/// Congestion losses in between are detected when the segment has arrived.
#[test]
fn a_shield_keeps_the_window_and_hides_congestion() {
    play(
        "scheme hack-fixed
         set initial_window = \"6 segments\"
         write endless
         > 0..6000
         +0.1 < ack 0 eln of_segment 0
         > 0 rtx
         +0.0 < ack 0 sack 1000-2000
         > 6000
         +0.0 < ack 0 sack 3000-4000,1000-2000
         > 7000
         +0.0 < ack 0 sack 3000-5000,1000-2000
         > 8000
         +0.0 < ack 0 sack 3000-6000,1000-2000
         > 9000
         = cwnd 6 fast 0 reductions 0
         +0.1 < ack 2000 sack 3000-6000
         > 2000 rtx
         = fast 1 reductions 1",
    );
}

/// The shield lasts one RTO. An acknowledgment in between restarts the timer, so that it can expire
/// later.
#[test]
fn a_shield_lasts_one_rto() {
    play(
        "scheme hack-fixed
         set initial_window = \"8 segments\"
         write endless
         > 0..8000
         +0.1 < ack 1000
         > 8000..10000
         +0.0 < ack 1000 eln of_segment 2000
         > 2000 rtx
         # no sample of the round trip comes of this one
         +0.0 < ack 1000 eln of_segment 1000
         > 1000 rtx
         +0.9 < ack 2000
         > 10000..12000
         +0.5 < ack 2000 sack 10000-11000
         > 12000
         +0.0 < ack 2000 sack 10000-12000
         > 13000
         = fast 0
         # losses are found again
         +0.0 < ack 2000 sack 10000-13000
         > 3000 rtx, 4000 rtx, 5000 rtx
         = fast 1 reductions 1",
    );
}

/// Each duplicate ACK carries the bit: the first one causes the retransmission, none of them
/// counts.
#[test]
fn duplicates_with_the_bit_are_answered_once() {
    play(
        "scheme balakrishnan-eln
         set initial_window = \"6 segments\"
         write endless
         > 0..6000
         +0.1 < ack 0 eln
         > 0 rtx
         +0.0 < ack 0 eln
         +0.0 < ack 0 eln
         +0.0 < ack 0 eln
         +0.0 < ack 0 eln
         = cwnd 6 fast 0 reductions 0
         # the next hole, reported by its first duplicate
         +0.1 < ack 3000
         > 6000..10000
         +0.0 < ack 3000 eln
         > 3000 rtx
         +0.1 < ack 10000
         > 10000..18000
         = cwnd 8 fast 0 reductions 0 retransmissions 2",
    );
}

/// Without the bit they count; those with it do not count among them.
#[test]
fn duplicates_without_the_bit_count() {
    play(
        "scheme balakrishnan-eln
         set initial_window = \"6 segments\"
         set limited_transmit = false
         write endless
         > 0..6000
         +0.1 < ack 0
         +0.0 < ack 0
         +0.0 < ack 0 eln
         > 0 rtx
         = fast 0
         +0.0 < ack 0
         > 0 rtx
         = fast 1 reductions 1",
    );
}

/// An ACK of new data may carry the bit too (the base station's rule for uplink data): the next
/// hole is repaired at once.
#[test]
fn a_new_ack_may_tell_of_the_next_hole() {
    play(
        "scheme balakrishnan-eln
         set initial_window = \"6 segments\"
         write endless
         > 0..6000
         +0.1 < ack 0 eln
         > 0 rtx
         +0.1 < ack 2000 eln
         > 2000 rtx, 6000..9000
         = cwnd 7 fast 0 reductions 0",
    );
}

/// A notice of the link layer has the effect of an ACK with the bit.
#[test]
fn a_notice_counts_as_an_ack_with_the_bit() {
    play(
        "scheme balakrishnan-eln
         set initial_window = \"6 segments\"
         write endless
         > 0..6000
         +0.1 < notice eln 3000
         > 3000 rtx
         = cwnd 6 reductions 0",
    );
}

/// A notice for data that are not in flight or SACKed, and a repeated one within half a round trip,
/// have no effect.
#[test]
fn forged_and_stale_notices_are_ignored() {
    play(
        "scheme hack
         set initial_window = \"6 segments\"
         write endless
         > 0..6000
         +0.1 < ack 1000 sack 3000-4000
         > 6000..9000
         +0.0 < ack 1000 eln of_segment 0
         +0.0 < ack 1000 eln of_segment 3000
         +0.0 < ack 1000 eln of_segment 99000
         +0.0 < ack 1000 eln of_segment 2000
         > 2000 rtx
         +0.04 < ack 1000 eln of_segment 2000
         +0.02 < ack 1000 eln of_segment 2000
         > 2000 rtx",
    );
}

/// After a timeout all outstanding segments are retransmitted; an ELN for one that still waits has
/// no effect.
#[test]
fn a_timeout_forgets_what_was_told() {
    play(
        "scheme balakrishnan-eln
         set initial_window = \"4 segments\"
         write endless
         > 0..4000
         +0.1 < ack 0 eln
         > 0 rtx
         timer
         > 0 rtx
         = cwnd 1 timeouts 1
         +0.0 < notice eln 2000
         +0.1 < ack 1000
         > 1000 rtx, 2000 rtx
         +0.1 < ack 1000 eln
         > 1000 rtx",
    );
}
