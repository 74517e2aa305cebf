//! Explicit congestion notification (RFC 3168, section 6.1.2).

use crate::script::play;

/// The receiver echoes until it receives the segment with CWR, the first new one after the
/// reduction: the ACK of all data sent before carries an old echo.
#[test]
fn a_mark_reduces_the_window_once() {
    play(
        "scheme newreno
         set ecn = true
         write endless
         > 0..10000
         +0.1 < ack 1000 ece
         = cwnd 5 ssthresh 5 reductions 1     # before anything is sent for this ACK
         +0.0 < ack 6000 ece
         > 10000                  # it carries CWR
         = reductions 1
         +0.0 < ack 10000 ece     # everything sent before the reduction, with the echo still on
         > 11000..15000
         = reductions 1
         +0.1 < ack 11000         # the receiver has seen it
         > 15000
         +0.0 < ack 12000 ece     # a new mark
         = reductions 2",
    );
}

/// A loss in a window of data for which the sender has already responded to a mark is repaired
/// without a further reduction.
#[test]
fn a_loss_and_marks_of_one_window_reduce_it_once() {
    play(
        "scheme newreno
         set ecn = true
         set limited_transmit = false
         write endless
         > 0..10000
         +0.1 < ack 0 ece
         = cwnd 5 reductions 1
         +0.0 < ack 0 ece
         +0.0 < ack 0 ece
         > 0 rtx
         = cwnd 5 ssthresh 5 fast 1 reductions 1",
    );
}
