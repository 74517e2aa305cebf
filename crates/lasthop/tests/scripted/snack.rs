//! Selective negative acknowledgments (SCPS-TP, CCSDS 714.0): what a sender does about them.

use crate::script::play;

/// All holes go out at once, and the window stays. Partial ACKs do not send again what is under
/// way.
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

/// Three duplicate ACKs are what they always are. What they sent again is not sent once more, and
/// the other holes go out without waiting for a round trip each.
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

/// The first SNACK is lost: the next one asks again. A copy that is lost is sent again when it is
/// asked for a round trip later, and a SNACK that comes twice, or out of order, sends nothing.
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

/// Selective-TCP: no duplicate ACK stands behind a SNACK. One that comes twice sends nothing more,
/// the next one asks again for what was lost with the first, a copy that is lost goes out again a
/// round trip later, and one that comes late is over.
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

/// Selective-TCP: when every SNACK is lost and nothing else arrives, the timer repairs it.
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

/// What is not in flight, or was never sent, is not sent.
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

/// A long hole goes out by windows.
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

/// A sender that does not listen takes such an ACK for what it would be without.
#[test]
fn whoever_does_not_listen_hears_nothing() {
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
