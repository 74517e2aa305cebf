//! Selective negative acknowledgments (SCPS-TP, CCSDS 714.0): the sender's response.

use crate::script::play;

/// All holes are retransmitted at once without a reduction. Partial ACKs do not retransmit what is
/// in flight.
#[test]
fn every_hole_goes_out_at_once() {
    play(
        "scheme snack
         set initial_window = \"8 segments\"
         set limited_transmit = false
         write endless
         > 0..8000
         +0.1 < ack 0
         +0.0 < ack 0
         +0.05 < ack 0 snack 0-1000,3000-5000
         > 0 rtx, 3000 rtx, 4000 rtx
         = cwnd 8 fast 0 reductions 0
         +0.1 < ack 3000
         > 8000..12000
         +0.0 < ack 4000
         > 12000..14000
         +0.0 < ack 8000
         > 14000..19000
         = fast 0 reductions 0 retransmissions 3",
    );
}

/// Three duplicate ACKs halve the window as usual. What they caused to be retransmitted is not sent
/// once more, and the other holes are repaired without a round trip each.
#[test]
fn duplicate_acks_still_halve_the_window() {
    play(
        "scheme snack
         set initial_window = \"8 segments\"
         set limited_transmit = false
         write endless
         > 0..8000
         +0.1 < ack 0
         +0.0 < ack 0
         +0.0 < ack 0
         > 0 rtx
         = fast 1 reductions 1
         +0.05 < ack 0 snack 0-1000,3000-5000
         > 3000 rtx, 4000 rtx
         # a partial ACK; for 3000 a copy is under way
         +0.05 < ack 3000
         +0.05 < ack 8000
         > 8000..10000
         = retransmissions 3 reductions 1",
    );
}

/// The first SNACK is lost: the next one repeats the request. A lost retransmission is sent again
/// when it is requested a round trip later; a duplicated or reordered SNACK sends nothing.
#[test]
fn lost_duplicated_and_late_snacks() {
    play(
        "scheme snack
         set initial_window = \"8 segments\"
         set limited_transmit = false
         write endless
         > 0..8000
         +0.15 < ack 0 snack 2000-3000
         > 2000 rtx
         = deadline 1
         # the same once more
         +0.0 < ack 0 snack 2000-3000
         +0.05 < ack 0 snack 2000-3000,5000-6000
         > 5000 rtx
         # the copy of 2000 was lost
         +0.26 < ack 0 snack 2000-3000,5000-6000
         > 2000 rtx
         +0.1 < ack 6000
         # 8000 and on: the window has opened by one
         > 8000..15000
         # one from before comes late
         +0.0 < ack 2000 snack 2000-3000,5000-6000
         +0.0 < ack 6000 snack 2000-3000
         = reductions 0 retransmissions 3",
    );
}

/// Selective-TCP: no duplicate ACK follows a SNACK. A duplicated SNACK sends nothing more, the next
/// one repeats the lost request, a lost retransmission is sent again a round trip later, and a late
/// SNACK has no effect.
#[test]
fn selective_tcp_lost_duplicated_and_late_snacks() {
    play(
        "scheme selective-tcp
         set initial_window = \"8 segments\"
         set limited_transmit = false
         write endless
         > 0..8000
         # the SNACK for 0 was lost; this one names both
         +0.15 < ack 0 snack 0-1000,3000-4000
         > 0 rtx, 3000 rtx
         = cwnd 8 deadline 1
         # twice
         +0.0 < ack 0 snack 0-1000,3000-4000
         # 3000 has come, the copy of 0 was lost
         +0.31 < ack 0 snack 0-1000
         > 0 rtx
         +0.1 < ack 8000
         > 8000..17000
         # overtaken on the way
         +0.0 < ack 0 snack 0-1000,3000-4000
         = dupacks 0 fast 0 reductions 0 retransmissions 3",
    );
}

/// Selective-TCP: if every SNACK is lost and nothing else arrives, the timer repairs the loss.
#[test]
fn selective_tcp_without_any_snack_waits_for_its_timer() {
    play(
        "scheme selective-tcp
         set initial_window = \"4 segments\"
         set limited_transmit = false
         write 4
         > 0..4000
         timer
         > 0 rtx
         = timeouts 1
         +0.1 < ack 4000
         = retransmissions 1",
    );
}

/// Data that are not in flight, or were never sent, are not sent.
#[test]
fn nonsense_is_ignored() {
    play(
        "scheme snack
         set initial_window = \"4 segments\"
         write endless
         > 0..4000
         +0.1 < ack 1000 snack 0-1000,20000-30000
         > 4000..6000
         +0.0 < ack 1000 snack 4000-90000
         > 4000 rtx, 5000 rtx
         = reductions 0",
    );
}

/// A long hole is retransmitted one window at a time.
#[test]
fn no_more_than_a_window_at_once() {
    play(
        "scheme snack
         set initial_window = \"4 segments\"
         set limited_transmit = false
         write endless
         > 0..4000
         +0.1 < ack 0
         +0.0 < ack 0
         +0.0 < ack 0
         > 0 rtx, 4000
         = cwnd 2
         # the copy of 0 is under way
         +0.15 < ack 0 snack 0-4000
         > 1000 rtx, 2000 rtx
         +0.05 < ack 0 snack 0-4000
         > 3000 rtx",
    );
}

/// With SACK, a SNACK for a segment that loss detection has already retransmitted has no effect.
#[test]
fn beside_sack() {
    play(
        "scheme snack:recovery=sack+eln
         set initial_window = \"8 segments\"
         write endless
         > 0..8000
         +0.1 < ack 1000 sack 2000-3000
         > 8000..11000
         +0.05 < ack 1000 sack 2000-3000 snack 1000-2000
         > 1000 rtx
         = fast 0 reductions 0
         +0.1 < ack 3000
         > 11000..13000
         = reductions 0 retransmissions 1",
    );
}

/// A sender without `+eln` treats such an ACK as one without the option.
#[test]
fn other_recoveries_ignore_snacks() {
    play(
        "scheme newreno
         set initial_window = \"4 segments\"
         set limited_transmit = false
         write endless
         > 0..4000
         +0.1 < ack 0 snack 0-1000
         +0.0 < ack 0 snack 0-1000
         = dupacks 2
         +0.0 < ack 0 snack 0-1000
         > 0 rtx, 4000
         = fast 1",
    );
}
