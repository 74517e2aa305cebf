//! The Eifel algorithm: the original (Ludwig and Katz 2000), and detection by RFC 3522 with the
//! response of RFC 4015.

use crate::script::play;

/// Plays the script for both variants, each with the line in which they differ.
fn both(script: &str, original: &str, rfc: &str) {
    play(&script.replace("VARIANT", "eifel-original").replace("OUTCOME", original));
    play(&script.replace("VARIANT", "eifel").replace("OUTCOME", rfc));
}

/// The first ACK after the timeout echoes the timestamp of the original.
#[test]
fn a_spurious_timeout_is_undone_on_the_first_ack() {
    for base in ["reno", "newreno", "tahoe", "sack"] {
        both(
            &"scheme reno:recovery=BASE+VARIANT
              set initial_ssthresh = \"8 segments\"
              write endless
              > 0..10000
              +1 timer
              > 0 rtx
              = cwnd 1 ssthresh 5
              +0.1 < ack 1000 of 0
              > 10000              # and no go-back-N
              = OUTCOME undone 1"
                .replace("BASE", base),
            "cwnd 10 ssthresh 8",
            "cwnd 10 ssthresh 10",
        );
    }
}

/// The ACK acknowledges the retransmission: the original was lost.
#[test]
fn a_timeout_that_was_right_stays() {
    both(
        "scheme reno:recovery=newreno+VARIANT
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         +0.1 < ack 1000 of 0#2
         > 1000..3000 rtx
         = OUTCOME
         +0.1 < ack 2000 of 1000  # only the first ACK counts
         > 3000..5000 rtx
         = undone 0",
        "cwnd 2 ssthresh 5",
        "cwnd 2 ssthresh 5",
    );
}

/// Reordering by three segments. Two were sent by limited transmit, so twelve had been in flight;
/// four are acknowledged together, and eight are left.
#[test]
fn a_spurious_fast_retransmit_is_undone() {
    for base in ["reno", "newreno", "sack"] {
        both(
            &"scheme reno:recovery=BASE+VARIANT
              set initial_ssthresh = \"8 segments\"
              write endless
              > 0..10000
              +0.1 < ack 0 sack 1000-2000
              > 10000
              +0 < ack 0 sack 1000-3000
              > 11000
              +0 < ack 0 sack 1000-4000
              > 0 rtx
              = ssthresh 5 fast 1
              +0.01 < ack 4000 of 0
              OUTCOME undone 1 fast 1"
                .replace("BASE", base),
            "> 12000..14000\n= cwnd 10 ssthresh 8",
            "> 12000..16000\n= cwnd 12 ssthresh 12",
        );
    }
}

/// RFC 3522, section 3.2, step 5: all ACKs of the originals may have been lost, and this one may
/// acknowledge the retransmission.
#[test]
fn an_ack_of_everything_leaves_a_doubt() {
    both(
        "scheme reno:recovery=newreno+VARIANT
         set initial_ssthresh = \"8 segments\"
         write 10
         > 0..10000
         +1 timer
         > 0 rtx
         +0.1 < ack 10000 of 0
         = OUTCOME",
        "undone 1 cwnd 10",
        "undone 0 cwnd 2",
    );
}

/// A receiver that has reported a duplicate before would have reported this one, so the timeout was
/// spurious. A reported duplicate shows that the retransmission has arrived before this ACK was
/// sent.
#[test]
fn duplicates_reported_settle_the_doubt() {
    let script = "scheme reno:recovery=newreno+eifel
         write 10
         > 0..10000
         +0.1 < ack 1000
         +1 timer
         > 1000 rtx
         +0.1 < ack 2000 of 1000 DSACK
         OUTCOME";
    play(
        &script
            .replace("DSACK", "dsack 1000-2000")
            .replace("OUTCOME", "> 2000..4000 rtx\n= undone 0"),
    );
    play(&script.replace("DSACK", "").replace("OUTCOME", "= undone 1"));
}

/// RFC 4015, step 8: congestion was reported in the meantime. The sender continues with new data in
/// the reduced window.
#[test]
fn an_ecn_echo_keeps_the_window_down() {
    play(
        "scheme reno:recovery=newreno+eifel
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         +0.1 < ack 1000 of 0 ece
         = cwnd 1 ssthresh 5",
    );
}

/// The original restores half after two timeouts in a row and nothing after three; RFC 3522 and
/// 4015 do not distinguish.
#[test]
fn after_timeouts_in_a_row() {
    let script = "scheme reno:recovery=newreno+VARIANT
         set initial_ssthresh = \"8 segments\"
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         TIMEOUTS
         +0.1 < ack 1000 of 0
         OUTCOME";
    let twice = script.replace("TIMEOUTS", "+2 timer\n> 0 rtx");
    both(&twice, "= cwnd 5 ssthresh 5 undone 1", "> 10000\n= cwnd 10 ssthresh 10");
    let thrice = script.replace("TIMEOUTS", "+2 timer\n> 0 rtx\n+4 timer\n> 0 rtx");
    both(&thrice, "= cwnd 1 ssthresh 5 undone 1", "> 10000\n= cwnd 10 ssthresh 10");
}

/// RFC 4015, step 9; the original does not change the timer.
#[test]
fn the_timer_becomes_more_patient() {
    both(
        "scheme reno:recovery=newreno+VARIANT
         set min_rto = \"50 ms\"
         write endless
         > 0..10000
         = rto 0.3
         +0.3 timer
         > 0 rtx
         +0.1 < ack 1000 of 0     # a sample of 400 ms
         > 10000
         +0.1 < ack 11000 of 10000
         > 11000..22000
         = OUTCOME",
        "srtt 0.133",           // 100 + 300/8 - 37.5/8
        "srtt 0.102 rto 0.302", // 100 + 2 ticks; 4 * 50
    );
}

/// After the undo, three more duplicates are a loss again (RFC 5682, step 3b, resets `recover`).
#[test]
fn a_real_loss_afterwards_is_repaired() {
    both(
        "scheme reno:recovery=newreno+VARIANT
         set initial_ssthresh = \"8 segments\"
         set limited_transmit = false
         write endless
         > 0..10000
         +1 timer
         > 0 rtx
         +0.1 < ack 1000 of 0
         > 10000
         +0.1 < ack 2000
         > 11000
         +0.1 < ack 2000
         +0 < ack 2000
         +0 < ack 2000
         > 2000 rtx
         = fast 1 OUTCOME",
        "cwnd 5",
        "cwnd 5",
    );
}
