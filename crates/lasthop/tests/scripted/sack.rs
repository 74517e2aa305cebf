//! Recovery on SACK blocks: RFC 6675, FACK, D-SACK undo, proportional rate reduction (RFC 9937).

use crate::script::play;

/// RFC 6675, section 5: the third duplicate begins recovery; ssthresh = cwnd = half of what is in
/// flight; the first hole is retransmitted at once, the rest as the pipe allows; both holes are
/// repaired in one round trip, for one reduction.
#[test]
fn two_holes_are_repaired_in_one_round_trip() {
    play(
        "scheme sack
         set limited_transmit = false
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         +0.0 < ack 0 sack 1000-3000
         +0.0 < ack 0 sack 1000-4000
         > 0 rtx
         = cwnd 5 ssthresh 5 fast 1 reductions 1
         # 4000 is a hole too: the pipe is 1000 for the copy of 0, and 4000 to 10000
         +0.0 < ack 0 sack 5000-6000,1000-4000
         +0.0 < ack 0 sack 5000-7000,1000-4000
         # three segments above 4000: it is lost. The pipe is the copy, 8000 and 9000
         +0.0 < ack 0 sack 5000-8000,1000-4000
         > 4000 rtx, 10000
         +0.0 < ack 0 sack 5000-9000,1000-4000
         > 11000
         +0.0 < ack 0 sack 5000-10000,1000-4000
         > 12000
         +0.1 < ack 4000 sack 5000-10000
         > 13000
         +0.0 < ack 10000
         > 14000
         = cwnd 5 reductions 1 retransmissions 2",
    );
}

/// RFC 5681, section 4.3, and RFC 6675, section 5: a segment that was sent during a recovery and
/// lost belongs to another window. When the recovery ends there is a second reduction, although
/// that segment was already retransmitted.
#[test]
fn what_is_sent_and_lost_in_a_recovery_takes_another_one() {
    for scheme in ["sack", "rack"] {
        play(&format!(
            "scheme {scheme}
             set limited_transmit = false
             write endless
             > 0..10000
             +0.1 < ack 0 sack 1000-4000
             > *
             +0.0 < ack 0 sack 1000-8000
             > *
             +0.0 < ack 0 sack 1000-10000
             > *
             = reductions 1
             +0.1 < ack 0 sack 1000-10000,11000-12000
             > *
             +0.0 < ack 0 sack 1000-10000,11000-13000
             > *
             +0.01 < ack 0 sack 1000-10000,11000-14000
             > *
             = reductions 1
             +0.1 < ack 10000 sack 11000-14000
             > *
             = reductions 2",
        ));
    }
}

/// RFC 6675, section 5, step 3.3: SACKed data leave the pipe, so that each of the first two
/// duplicates releases a new segment (RFC 3042); these do not count for the reduction.
#[test]
fn limited_transmit_by_the_pipe() {
    play(
        "scheme sack
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         > 10000
         +0.0 < ack 0 sack 1000-3000
         > 11000
         +0.0 < ack 0 sack 1000-4000
         > 0 rtx
         = cwnd 5 ssthresh 5",
    );
}

/// RFC 6675, section 4, NextSeg: (1) what is lost, (2) new data, (3) what is below the highest SACK
/// and not reported, and (4) one rescue retransmission of the last segment.
#[test]
fn the_order_of_next_seg() {
    play(
        "scheme sack
         set limited_transmit = false
         write 12
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         +0.0 < ack 0 sack 1000-3000
         +0.0 < ack 0 sack 1000-4000
         > 0 rtx
         +0.0 < ack 0 sack 1000-5000
         +0.0 < ack 0 sack 1000-6000
         # the copy, 6000 to 10000: 5. One more leaves and new data go, then there are no more
         +0.0 < ack 0 sack 1000-7000
         > 10000
         # 7000 is jumped over: not lost yet, for only one segment above it is reported
         +0.0 < ack 0 sack 8000-9000,1000-7000
         > 11000
         # rule (3): nothing is lost, no new data are left, 7000 is below the highest SACK
         +0.0 < ack 0 sack 8000-10000,1000-7000
         > 7000 rtx
         # rule (4): the last segment once more
         +0.0 < ack 0 sack 8000-11000,1000-7000
         > 11000 rtx
         # and no second one
         +0.1 < ack 7000 sack 8000-11000",
    );
}

/// RFC 6675, section 5.1: after a timeout SACKed data are not retransmitted, and all other data are
/// marked lost.
#[test]
fn a_timeout_keeps_what_was_reported() {
    play(
        "scheme sack
         set limited_transmit = false
         write 6
         > 0..6000
         +0.1 < ack 0 sack 2000-3000
         +0.0 < ack 0 sack 4000-5000,2000-3000
         timer
         > 0 rtx
         = cwnd 1 timeouts 1
         +0.1 < ack 1000 sack 4000-5000,2000-3000
         > 1000 rtx, 3000 rtx
         +0.1 < ack 3000 sack 4000-5000
         > 5000 rtx
         +0.0 < ack 5000
         +0.0 < ack 6000
         = retransmissions 4",
    );
}

/// RFC 2018, section 8: a receiver may discard data that it has reported. The timer repairs that.
#[test]
fn a_receiver_that_takes_back_is_served_after_a_timeout() {
    play(
        "scheme sack
         set limited_transmit = false
         write 4
         > 0..4000
         +0.1 < ack 0 sack 1000-2000
         +0.0 < ack 0 sack 1000-3000
         timer
         > 0 rtx
         +0.1 < ack 1000
         > 3000 rtx
         timer
         > 1000 rtx
         +0.1 < ack 2000
         > 2000 rtx, 3000 rtx
         +0.1 < ack 4000",
    );
}

/// Mathis and Mahdavi 1996: one SACK that leaves more than three segments behind is enough.
#[test]
fn fack_needs_no_third_duplicate() {
    play(
        "scheme fack
         set limited_transmit = false
         write endless
         > 0..10000
         +0.1 < ack 0 sack 5000-6000
         # 0 to 5000 are lost, the pipe is 6000 to 10000 and has room for one of five
         > 0 rtx
         = cwnd 5 fast 1
         +0.0 < ack 0 sack 5000-7000
         > 1000 rtx",
    );
    // A gap of three segments is not a loss.
    play(
        "scheme fack
         set limited_transmit = false
         write endless
         > 0..10000
         +0.1 < ack 0 sack 2000-3000
         = fast 0",
    );
}

/// RFC 2883 and Linux: a duplicate reported for each retransmission shows that nothing was lost.
#[test]
fn duplicates_reported_undo_the_reduction() {
    play(
        "scheme sack:dsack_undo=true
         set limited_transmit = false
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         +0.0 < ack 0 sack 1000-3000
         +0.0 < ack 0 sack 1000-4000
         > 0 rtx
         = cwnd 5
         # 0 was only late
         +0.0 < ack 4000
         +0.0 < ack 10000
         > 10000..15000
         = cwnd 5 undone 0
         +0.1 < ack 10000 dsack 0-1000
         > 15000..20000
         = cwnd 10 undone 1",
    );
}

/// RFC 9937, section 6.2: the first retransmission at once, then in proportion while the pipe is
/// above the target, then one for one.
#[test]
fn proportional_rate_reduction() {
    play(
        "scheme sack:prr=true
         set limited_transmit = false
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         +0.0 < ack 0 sack 1000-3000
         # RecoverFS is 10000 less the 2000 reported before. The pipe is 6000, above the target of \
         5000: 1/8 of it
         # would be 625 bytes, but the first retransmission goes out in any case
         +0.0 < ack 0 sack 1000-4000
         > 0 rtx
         = ssthresh 5
         # 2/8 of 5000 are 1250, less the 1000 that went out
         +0.0 < ack 0 sack 1000-5000
         # the pipe is at the target: what leaves is replaced
         +0.0 < ack 0 sack 1000-6000
         +0.0 < ack 0 sack 1000-7000
         > 10000
         +0.0 < ack 0 sack 1000-8000
         > 11000
         +0.0 < ack 0 sack 1000-9000
         > 12000
         +0.0 < ack 0 sack 1000-10000
         > 13000
         +0.1 < ack 10000
         > 14000
         = cwnd 5 reductions 1",
    );
}

/// Without a new SACK block a repeated ACK number is no duplicate.
#[test]
fn a_duplicate_without_news_does_not_count() {
    play(
        "scheme reno:recovery=sack
         write 10
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         +0 < ack 0 sack 1000-2000
         +0 < ack 0 sack 1000-2000
         +0 < ack 0 sack 1000-2000
         = fast 0",
    );
}

/// The timer restarts with the first retransmission, under proportional rate reduction too (as in
/// Linux): otherwise a retransmission that takes a round trip arrives after a timeout that is not
/// much longer.
#[test]
fn the_timer_restarts_with_the_first_retransmission() {
    for scheme in ["sack", "sack:prr=true", "rack:prr=true", "fack"] {
        play(&format!(
            "scheme {scheme}
             set limited_transmit = false
             write 10000
             > 0..10000
             +0.1 < ack 0 sack 1000-2000
             +0.01 < ack 0 sack 1000-3000
             +0.01 < ack 0 sack 1000-5000
             > 0 rtx
             = fast 1 deadline 1",
        ));
    }
}
