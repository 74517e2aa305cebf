//! RACK-TLP (RFC 8985).

use crate::script::play;

/// Section 6.2, step 4: three segments reported and no reordering seen: no waiting.
#[test]
fn three_reported_segments_are_enough_while_nothing_was_reordered() {
    play(
        "scheme rack
         set limited_transmit = false
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         +0.0 < ack 0 sack 1000-3000
         +0.0 < ack 0 sack 1000-4000
         > 0 rtx
         = fast 1",
    );
}

/// Section 6.2, step 5: with fewer reported segments, the timer of a quarter of the minimum
/// round-trip time decides.
#[test]
fn one_reported_segment_and_a_quarter_of_a_round_trip() {
    play(
        "scheme rack
         set limited_transmit = false
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         = deadline 0.025
         +0.025 timer
         > 0 rtx
         = fast 1 timeouts 0",
    );
}

/// Section 6.2, step 3: a segment that arrives after later ones is reordering. From then on three
/// reported segments are not enough, and a segment that is late by less than the window is not
/// retransmitted.
#[test]
fn reordering_makes_it_wait() {
    play(
        "scheme rack
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         > 10000
         +0.01 < ack 2000
         > 11000, 12000
         +0.0 < ack 2000 sack 3000-4000
         > 13000
         +0.0 < ack 2000 sack 3000-5000
         > 14000
         +0.0 < ack 2000 sack 3000-6000
         > 15000
         = fast 0 deadline 0.025
         +0.01 < ack 6000
         > 16000, 17000
         = fast 0 retransmissions 0",
    );
}

/// Section 6.2, step 4: a reported duplicate widens the window by a quarter of the minimum
/// round-trip time.
#[test]
fn duplicates_widen_the_window() {
    play(
        "scheme rack
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         > 10000
         +0.01 < ack 2000
         > 11000, 12000
         +0.0 < ack 2000 dsack 0-1000
         +0.0 < ack 2000 sack 3000-4000
         > 13000
         = deadline 0.05",
    );
}

/// Section 7: after two round trips without an ACK, a new segment is sent beyond the window as a
/// probe.
#[test]
fn a_probe_of_new_data() {
    play(
        "scheme rack
         write endless
         > 0..10000
         +0.2 timer
         > 10000
         = timeouts 0 cwnd 10
         +0.1 < ack 0 sack 1000-11000
         # the pipe is empty: up to the target of half at once (RFC 9937)
         > 0 rtx, 11000..15000
         = fast 1 timeouts 0",
    );
}

/// Linux waits two milliseconds more (`TCP_TIMEOUT_MIN_US`).
#[test]
fn linux_waits_two_milliseconds_more() {
    play(
        "scheme rack
         profile linux
         write endless
         > 0..10000
         +0.202 timer
         > 10000",
    );
}

/// Section 7.3: at the end of the data the last segment is retransmitted. Section 7.4: if the probe
/// alone repaired the loss, there is one reduction; if its first copy had arrived, none.
#[test]
fn a_probe_that_repairs_the_tail() {
    play(
        "scheme rack
         write 4
         > 0..4000
         +0.1 < ack 3000
         # one segment in flight: the receiver may hold its ACK back for 200 ms
         +0.4 timer
         > 3000 rtx
         +0.1 < ack 4000 dsack 3000-4000
         = cwnd 10 reductions 0 timeouts 0",
    );
    play(
        "scheme rack
         write 4
         > 0..4000
         +0.2 timer
         > 3000 rtx
         +0.1 < ack 4000
         = timeouts 0",
    );
}

/// Section 6.3: when the timer expires the first segment is marked lost, and those of the rest that
/// are overdue.
#[test]
fn a_timeout_and_what_was_sent_lately() {
    play(
        "scheme rack
         set limited_transmit = false
         write 3
         > 0..3000
         +0.2 timer
         > 2000 rtx
         +1.0 timer
         > 0 rtx
         = timeouts 1 cwnd 1
         +0.1 < ack 1000
         > 1000 rtx, 2000 rtx
         +0.1 < ack 3000",
    );
}

/// A lost retransmission is detected by a later one that arrives.
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
         > 0 rtx
         = timeouts 0 fast 1",
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
