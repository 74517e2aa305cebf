//! Senders that delay the detection of a loss (NCR, DCR), and one that detects it early (Vegas'
//! timer).

use crate::script::play;

/// RFC 4653, section 3: ten segments in flight. Careful: a new segment for every second duplicate;
/// after nine duplicates fifteen are in flight, two thirds of which are ten.
#[test]
fn careful_ncr_waits_for_one_window() {
    for recovery in ["reno+ncr", "newreno+ncr"] {
        play(
            &"scheme reno:recovery=RECOVERY
              write endless
              > 0..10000
              +0.1 < ack 0
              > 10000
              +0 < ack 0
              +0 < ack 0
              > 11000
              +0 < ack 0
              +0 < ack 0
              > 12000
              +0 < ack 0
              +0 < ack 0
              > 13000
              +0 < ack 0
              +0 < ack 0
              > 14000
              = cwnd 10 fast 0
              +0.1 < ack 0          # the tenth: of a segment sent meanwhile
              > 0 rtx
              = fast 1 ssthresh 5 cwnd 5"
                .replace("RECOVERY", recovery),
        );
    }
}

/// Aggressive: one for each; after eight duplicates eighteen are in flight, half of which are nine.
#[test]
fn aggressive_ncr_sends_for_every_duplicate() {
    play(
        "scheme reno:recovery=newreno+ncr-aggressive
         write endless
         > 0..10000
         +0.1 < ack 0
         > 10000
         +0 < ack 0
         > 11000
         +0 < ack 0
         > 12000
         +0 < ack 0
         > 13000
         +0 < ack 0
         > 14000
         +0 < ack 0
         > 15000
         +0 < ack 0
         > 16000
         +0 < ack 0
         > 17000
         = fast 0
         +0 < ack 0
         > 0 rtx
         = fast 1 ssthresh 5",
    );
}

/// Section 3.3: it was reordering. No reduction; ssthresh is at least what had been in flight, and
/// slow start leads there.
#[test]
fn ncr_forgives_reordering() {
    play(
        "scheme reno:recovery=newreno+ncr
         set initial_ssthresh = \"8 segments\"
         write endless
         > 0..10000
         +0.1 < ack 0
         > 10000
         +0 < ack 0
         +0 < ack 0
         > 11000
         +0 < ack 0
         +0 < ack 5000      # seven left in flight
         > 12000
         = cwnd 8 ssthresh 10 fast 0 reductions 0
         +0 < ack 6000
         > 13000..15000
         = cwnd 9",
    );
}

/// With SACK the pipe shows what has left the network.
#[test]
fn ncr_with_sack() {
    play(
        "scheme reno:recovery=sack+ncr
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         > 10000
         +0 < ack 0 sack 1000-3000
         +0 < ack 0 sack 1000-4000
         > 11000
         +0 < ack 0 sack 1000-6000     # an ACK was lost: two segments
         > 12000
         +0 < ack 0 sack 1000-8000
         > 13000
         +0 < ack 0 sack 1000-10000
         > 14000
         = cwnd 10 fast 0
         +0.1 < ack 0 sack 1000-11000
         > 0 rtx
         = fast 1 ssthresh 5 cwnd 5",
    );
    play(
        "scheme reno:recovery=sack+ncr-aggressive
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-4000
         > 10000..13000
         = fast 0
         +0 < ack 4000
         > 13000
         = fast 0 reductions 0 cwnd 10 ssthresh inf",
    );
}

/// The first duplicate starts a wait of one SRTT (100 ms); each sends one new segment.
#[test]
fn dcr_waits_one_round_trip() {
    for recovery in ["reno+dcr", "newreno+dcr"] {
        play(
            &"scheme reno:recovery=RECOVERY
              write endless
              > 0..10000
              +0.1 < ack 0
              > 10000
              +0.01 < ack 0
              > 11000
              +0.01 < ack 0
              > 12000
              +0.01 < ack 0
              > 13000
              = fast 0 cwnd 10
              +0.07 timer
              > 0 rtx
              = fast 1 cwnd 5 ssthresh 5
              +0.01 < ack 0         # the window is 5 + 4 + 1
              +0.1 < ack 14000
              > 14000..16000
              = cwnd 2"
                .replace("RECOVERY", recovery),
        );
    }
}

/// The link has repaired the loss within a round trip.
#[test]
fn dcr_forgets_what_was_repaired() {
    play(
        "scheme reno:recovery=newreno+dcr
         set initial_ssthresh = \"8 segments\"
         write endless
         > 0..10000
         +0.1 < ack 0
         > 10000
         +0.01 < ack 0
         > 11000
         +0.01 < ack 0
         > 12000
         +0.05 < ack 4000
         > 13000
         = fast 0 cwnd 10.1 reductions 0
         +1 timer               # nothing is left of the wait: this is the timeout
         > 4000 rtx",
    );
}

#[test]
fn dcr_with_sack() {
    play(
        "scheme reno:recovery=sack+dcr
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-2000
         > 10000
         +0 < ack 0 sack 1000-5000
         > 11000..14000
         = fast 0
         +0.1 timer
         > 0 rtx
         = fast 1 ssthresh 5 cwnd 5",
    );
    play(
        "scheme reno:recovery=sack+dcr
         write endless
         > 0..10000
         +0.1 < ack 0 sack 1000-5000
         > 10000..14000
         +0.05 < ack 5000
         > 14000..16000
         = fast 0 reductions 0",
    );
}

/// Brakmo and Peterson 1995, section 3.1. The round-trip time is 100 ms, so the fine timer is (100
/// + 2 * 25) * 17/16 = 159 ms: for an older segment one duplicate is enough.
#[test]
fn the_fine_timer_needs_one_duplicate() {
    let script = "scheme reno:recovery=reno+fine-timer
         write endless
         > 0..10000
         +0.1 < ack 1000
         > 10000..12000
         +LATE < ack 1000
         OUTCOME";
    play(&script.replace("LATE", "0.06").replace("OUTCOME", "> 1000 rtx\n= fast 1 ssthresh 5.5"));
    play(&script.replace("LATE", "0.05").replace("OUTCOME", "> 12000\n= fast 0"));
}

/// One of the first two ACKs after it retransmits the next segment if that is overdue too, without
/// a second reduction.
#[test]
fn the_fine_timer_checks_the_next_acks() {
    play(
        "scheme reno:recovery=reno+fine-timer
         write endless
         > 0..10000
         +0.1 < ack 1000
         > 10000..12000
         +0.06 < ack 1000
         > 1000 rtx
         = fast 1 ssthresh 5.5
         +0.1 < ack 2000          # segment 2 was lost, too: it is 260 ms old
         > 2000 rtx
         = fast 1 ssthresh 5.5 reductions 1",
    );
}

/// TCP-F: between the failure of the route and its return nothing is sent, no timer runs, and cwnd
/// and RTO do not change; then unacknowledged data are retransmitted.
#[test]
fn a_frozen_sender_keeps_its_window_and_sends_again_what_is_not_acknowledged() {
    for kind in ["reno", "newreno", "sack", "sack-ns2", "fack"] {
        play(&format!(
            "scheme reno:recovery={kind}
             set freeze = \"10 s\"
             window 3
             write endless
             > 0..3000
             +0.1 < notice link 0
             = deadline 10 cwnd 10
             +0.1 < ack 1000
             timer               # it was started by the ACK and means nothing
             = timeouts 0
             +4 < notice link 0
             = deadline 10
             +0.1 < notice link 1 ago 1   # it was overtaken
             +1 < notice link 1
             > 1000 rtx, 2000 rtx, 3000
             = timeouts 0 rto 1 deadline 1"
        ));
    }
}

/// Without a second notification the sender wakes at the limit and continues as an ordinary one;
/// without the setting it ignores all notifications.
#[test]
fn a_frozen_sender_wakes_at_the_limit() {
    for kind in ["reno", "newreno", "sack", "sack-ns2", "fack"] {
        play(&format!(
            "scheme reno:recovery={kind}
             set freeze = \"10 s\"
             window 3
             write endless
             > 0..3000
             +0.1 < notice link 0
             +10 timer
             = timeouts 0
             +1 timer
             > 0 rtx
             = timeouts 1"
        ));
        play(&format!(
            "scheme reno:recovery={kind}
             window 3
             write endless
             > 0..3000
             +0.1 < notice link 0
             +0.9 timer
             > 0 rtx"
        ));
    }
}

/// A duplicate ACK opens the closed window again up to the data in flight: the probe timer sends
/// nothing beyond.
#[test]
fn a_window_that_is_full_takes_nothing_more() {
    play(
        "
        scheme reno:recovery=sack-ns2
        set limited_transmit = false
        set initial_window = \"10 segments\"
        window 20
        write endless
        > 0..10000
        +0.1 < ack 1000 win 0
        +0.1 < ack 1000 sack 5000-6000 win 9
        +0.9 timer
        = timeouts 0
        +1 timer
        > 1000 rtx
        = timeouts 1
        ",
    );
}
