//! Recovery on SACK blocks: RFC 6675, D-SACK, proportional rate reduction (RFC 9937).

use crate::script::play;

/// RFC 6675, section 5: new data for the first two duplicates, then half the window; what is lost goes out first, as far as
/// the pipe has room. Two of ten are lost; a third duplicate finds the first, the fifth the second.
#[test]
fn two_losses_are_repaired_in_one_round_trip() {
    play(
        "scheme reno:recovery=sack
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         > 10000
         +0 < ack 0 sack 3000-4000,1000-2000
         > 11000
         +0 < ack 0 sack 3000-5000,1000-2000
         > 0 rtx
         = cwnd 5 ssthresh 5 fast 1
         +0 < ack 0 sack 3000-6000,1000-2000   # now segment 2 is lost, too: seven in the pipe
         +0 < ack 0 sack 3000-7000,1000-2000
         +0 < ack 0 sack 3000-8000,1000-2000   # five
         +0 < ack 0 sack 3000-9000,1000-2000   # four
         > 2000 rtx
         +0.1 < ack 2000 sack 3000-9000
         > 12000
         = fast 1 retransmissions 2 timeouts 0",
    );
}

/// NextSeg, rule 4: with nothing else to send, the last segment goes out once more, once in a recovery.
#[test]
fn the_rescue_retransmission() {
    play(
        "scheme reno:recovery=sack
         write 10
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         +0 < ack 0 sack 1000-3000
         +0 < ack 0 sack 1000-4000
         > 0 rtx
         +0 < ack 0 sack 1000-5000
         +0 < ack 0 sack 1000-6000
         +0 < ack 0 sack 1000-7000     # four in the pipe, the window is five
         > 9000 rtx
         +0 < ack 0 sack 1000-8000
         +0 < ack 0 sack 1000-9000
         +0.1 < ack 9000
         +0 < ack 10000
         = timeouts 0 cwnd 5 retransmissions 2",
    );
}

/// Without SACK news a repeated ACK number is no duplicate.
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

/// RFC 2883: the one retransmission is reported as a duplicate, so it was needless. The window comes back as in Linux.
#[test]
fn a_duplicate_report_undoes_the_reduction() {
    play(
        "scheme reno:recovery=sack+dsack-undo
         set initial_ssthresh = \"8 segments\"
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         > 10000
         +0 < ack 0 sack 1000-3000
         > 11000
         +0 < ack 0 sack 1000-4000
         > 0 rtx
         = cwnd 5 ssthresh 5
         +0.01 < ack 4000
         +0.1 < ack 4000 dsack 0-1000
         > 12000..14000
         = cwnd 10 ssthresh 8 undone 1",
    );
}

/// RFC 9937: twenty in flight, target ten: one segment leaves for every two delivered, the retransmission first.
#[test]
fn proportional_rate_reduction_sends_every_second_time() {
    play(
        "scheme reno:recovery=sack+prr
         set initial_window = \"20 segments\"
         write endless
         > 0..20000
         +0.1 < ack 0 sack 1000-2000
         > 20000
         +0 < ack 0 sack 1000-3000
         > 21000
         +0 < ack 0 sack 1000-4000
         > 0 rtx
         = ssthresh 10
         +0 < ack 0 sack 1000-5000
         +0 < ack 0 sack 1000-6000
         > 22000
         +0 < ack 0 sack 1000-7000
         +0 < ack 0 sack 1000-8000
         > 23000
         +0 < ack 0 sack 1000-9000
         +0 < ack 0 sack 1000-10000
         > 24000
         = fast 1 reductions 1",
    );
}

/// After a timeout everything that is not SACKed counts as lost (section 5.1), and slow start repairs it.
#[test]
fn a_timeout_sends_the_holes_again_and_not_what_is_sacked() {
    play(
        "scheme reno:recovery=sack
         write 10
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         +0 < ack 0 sack 1000-2000,4000-5000
         +1 timer
         > 0 rtx
         = cwnd 1 ssthresh 5
         +0.1 < ack 2000 sack 4000-5000
         > 2000..4000 rtx
         +0.1 < ack 5000
         > 5000..8000 rtx",
    );
}
