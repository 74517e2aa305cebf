//! ESACK and the notices of the link layer (yun2009, sections 3 and 4).

use crate::script::play;

/// Segments 14 to 19 of the paper's figure 4 are the bytes 0 to 6000 here; no other data are
/// written.
const SIX: &str = "scheme esack\n set initial_window = \"6 segments\"\n set limited_transmit = \
                   false\n write 6\n > 0..6000\n";

fn six(script: &str) {
    play(&format!("{SIX}{script}"));
}

/// Figure 4: 14, 16 and 18 are dropped by congestion. One recovery, at the SACK of 19; the packet
/// list reduces three times.
#[test]
fn three_drops_of_one_window_are_one_reduction() {
    six("+0.1 < ack 0 sack 1000-2000
         = dupacks 1
         +0.0 < ack 0 sack 3000-4000,1000-2000
         = dupacks 2
         +0.0 < ack 0 sack 5000-6000,3000-4000,1000-2000
         > 0 rtx
         = fast 1 reductions 1 cwnd 3
         +0.1 < ack 2000 sack 5000-6000,3000-4000
         > 2000 rtx
         +0.1 < ack 4000 sack 5000-6000
         > 4000 rtx, 4000 rtx         # the second is the rescue retransmission of RFC 6675
         +0.1 < ack 6000
         = reductions 1 timeouts 0 fast 1");
}

/// The radio loses 14, and an ELN reports it before any SACK arrives: no duplicate ACK counts, and
/// there is no reduction.
#[test]
fn a_loss_of_the_radio_costs_nothing() {
    six("+0.05 < notice eln 0
         > 0 rtx
         = cwnd 6 eln 1
         +0.05 < ack 0 sack 1000-2000
         = dupacks 0
         +0.0 < ack 0 sack 1000-3000
         = dupacks 0
         +0.0 < ack 0 sack 1000-4000
         +0.0 < ack 0 sack 1000-5000
         = dupacks 0
         # 14 is the first not SACKed now, but 19 was sent before its copy
         +0.0 < ack 0 sack 1000-6000
         = dupacks 0 reductions 0 cwnd 6
         +0.05 < ack 6000
         = reductions 0 timeouts 0 fast 0 retransmissions 1");
}

/// The radio loses 14, with an ELN, and congestion 16: one recovery, of 16, at the third segment
/// behind it.
#[test]
fn congestion_is_found_behind_a_loss_of_the_radio() {
    six("+0.05 < notice eln 0
         > 0 rtx
         +0.05 < ack 0 sack 1000-2000
         = dupacks 0
         +0.0 < ack 0 sack 3000-4000,1000-2000
         = dupacks 1
         +0.0 < ack 0 sack 3000-5000,1000-2000
         = dupacks 2
         +0.0 < ack 0 sack 3000-6000,1000-2000
         > 2000 rtx, 2000 rtx         # the second is the rescue retransmission of RFC 6675
         = fast 1 reductions 1 cwnd 3
         +0.05 < ack 2000 sack 3000-6000
         +0.05 < ack 6000
         = reductions 1 timeouts 0");
}

/// The ELN is lost: the duplicate ACKs count, and the window is halved once.
#[test]
fn a_lost_eln_costs_one_halving() {
    six("+0.1 < ack 0 sack 1000-2000
         +0.0 < ack 0 sack 1000-3000
         +0.0 < ack 0 sack 1000-4000
         > 0 rtx
         = cwnd 3 reductions 1 dupacks 3
         +0.0 < ack 0 sack 1000-5000
         > 5000 rtx                   # the rescue retransmission of RFC 6675
         +0.0 < ack 0 sack 1000-6000
         +0.1 < ack 6000
         = cwnd 3 reductions 1 timeouts 0 eln 0");
}

/// The retransmission after an ELN is dropped: three later segments that arrive reveal it.
#[test]
fn the_loss_of_the_copy_is_found_by_what_was_sent_after_it() {
    play(
        "scheme esack
         set initial_window = \"6 segments\"
         set limited_transmit = false
         write endless
         > 0..6000
         +0.05 < notice eln 0
         > 0 rtx
         +0.05 < ack 0 sack 1000-2000
         > 6000             # the pipe is the copy and 2000 to 6000
         +0.0 < ack 0 sack 1000-3000
         > 7000
         +0.0 < ack 0 sack 1000-4000
         > 8000
         +0.0 < ack 0 sack 1000-5000
         > 9000
         +0.0 < ack 0 sack 1000-6000
         > 10000
         = dupacks 0
         +0.1 < ack 0 sack 1000-7000
         > 11000
         = dupacks 1
         +0.0 < ack 0 sack 1000-8000
         > 12000
         = dupacks 2 reductions 0
         +0.0 < ack 0 sack 1000-9000
         > 0 rtx
         = reductions 1 fast 1",
    );
}

/// A link-layer retransmission postpones the timer `hold_timeouts` times without back-off; then the
/// sender times out.
#[test]
fn an_ersn_holds_the_timer() {
    play(
        "scheme esack:hold_timeouts=2
         set initial_window = \"2 segments\"
         write 2
         > 0..2000
         +0.5 < notice ersn 0
         = ersn 1
         +0.5 timer
         = timeouts 0 held 1 rto 1
         +1 timer
         = timeouts 0 held 2 cwnd 2
         +1 timer
         > 0 rtx
         = timeouts 1 held 2 reductions 1 cwnd 1 rto 2",
    );
}

/// While the link layer retransmits a segment, duplicate ACKs for it do not count; an ELN ends
/// that.
#[test]
fn an_ersn_holds_the_duplicate_acks() {
    six("+0.05 < notice ersn 0
         +0.05 < ack 0 sack 1000-2000
         +0.0 < ack 0 sack 1000-4000
         +0.0 < ack 0 sack 1000-6000
         = dupacks 0 reductions 0
         +0.05 < notice eln 0
         > 0 rtx
         = reductions 0 cwnd 6 retransmissions 1
         +0.1 < ack 6000
         = reductions 0");
}

/// The link layer delivers it: no effect remains.
#[test]
fn a_held_segment_that_comes_through_leaves_no_trace() {
    six("+0.05 < notice ersn 0
         +0.2 < ack 6000
         = reductions 0 retransmissions 0 held 0");
}

/// A hold is limited to `hold_timeouts` RTOs; then duplicate ACKs count again (the ELN was lost).
#[test]
fn a_hold_ends_after_its_time() {
    play(
        "scheme esack:hold_timeouts=1
         set initial_window = \"6 segments\"
         set limited_transmit = false
         write 6
         > 0..6000
         +0.1 < notice ersn 0
         +0.1 < ack 0 sack 1000-4000
         = dupacks 0
         +0.8 timer
         = held 1
         +0.2 < ack 0 sack 1000-5000
         > 0 rtx, 5000 rtx
         = reductions 1 timeouts 0 cwnd 3",
    );
}

/// Forged and stale notices are ignored and counted.
#[test]
fn a_notice_counts_once_for_a_transmission_in_flight() {
    six("+0.05 < notice eln 6000       # never sent
         +0.0 < notice eln 99000
         = ignored 2 retransmissions 0
         +0.0 < notice eln 1000
         > 1000 rtx
         # the same one again, and one that was made before the copy was sent
         +0.0 < notice eln 1000
         +0.01 < notice eln 1000 ago 0.02
         +0.0 < notice ersn 1000 ago 0.02
         = ignored 5 retransmissions 1
         # the copy was lost too
         +0.05 < notice ersn 1000
         +0.0 < notice ersn 1000
         = ignored 6 ersn 1
         +0.0 < notice eln 1000
         > 1000 rtx
         = eln 2
         # delivered: what it says cannot be
         +0.1 < ack 0 sack 4000-5000
         +0.0 < notice eln 4000
         +0.0 < ack 1000 sack 4000-5000
         +0.0 < notice eln 0
         +0.0 < notice ersn 0
         = ignored 9 eln 2 ersn 1 reductions 0");
}

/// ELNs in a row: the sender responds to two, then to every other one; the window does not change,
/// and the timer probes with back-off.
#[test]
fn a_run_of_elns_is_a_disconnection() {
    six("+0.05 < notice eln 0
         > 0 rtx
         +0.01 < notice eln 1000
         > 1000 rtx
         +0.01 < notice eln 2000
         +0.01 < notice eln 3000
         > 3000 rtx
         +0.01 < notice eln 4000
         +0.01 < notice eln 5000
         > 5000 rtx
         # the copies are lost as well
         +0.01 < notice eln 0
         +0.01 < notice eln 1000
         > 1000 rtx
         +0.01 < notice eln 3000
         = eln 9 cwnd 6 reductions 0 retransmissions 5
         timer                                      # a probe
         > 0 rtx
         = timeouts 1 reductions 0 cwnd 6 rto 2
         +2 timer
         > 0 rtx
         = rto 4 cwnd 6
         # the station is back: the probe has come through, and what was not answered goes out
         +0.1 < ack 1000
         > 2000 rtx, 3000 rtx, 4000 rtx
         = cwnd 6 reductions 0");
}

/// A delivery ends a run, also by SACK.
#[test]
fn deliveries_end_a_run() {
    six("+0.05 < notice eln 0
         > 0 rtx
         +0.0 < notice eln 2000
         > 2000 rtx
         +0.05 < ack 0 sack 1000-2000
         +0.0 < notice eln 3000
         > 3000 rtx
         +0.0 < notice eln 4000
         > 4000 rtx
         = eln 4 reductions 0");
}

/// A receiver that discards data it had reported gets them again, without a reduction (Algorithm 1,
/// third case).
#[test]
fn what_the_receiver_throws_away_is_sent_again() {
    six("+0.1 < ack 0 sack 1000-2000
         +0.0 < ack 1000 sack 3000-4000
         +0.0 < ack 1000 sack 3000-5000
         > 1000 rtx
         = reductions 0 retransmissions 1
         +0.1 < ack 6000");
}

/// Other recoveries can accept notices: SACK retransmits the named segment without a reduction.
#[test]
fn other_recoveries_can_accept_notices() {
    for kind in ["sack", "newreno", "reno"] {
        let head = "set initial_window = \"6 segments\"\n set limited_transmit = false\n write \
                    6\n > 0..6000\n";
        play(&format!(
            "scheme reno:recovery={kind}+elsn\n {head}
             +0.05 < notice eln 0
             > 0 rtx
             +0.0 < notice ersn 1000
             = cwnd 6 eln 1 ersn 1
             +0.2 < ack 6000
             = reductions 0 retransmissions 1"
        ));
        // Without the addition, notices have no effect.
        play(&format!(
            "scheme reno:recovery={kind}\n {head} +0.05 < notice eln 0\n = eln 0 ignored 0\n +0.2 \
             < ack 6000"
        ));
    }
}

/// NewReno: the ACK of a reported loss fills the hole; duplicate ACKs do not count for a held
/// segment.
#[test]
fn newreno_with_notices() {
    play(
        "scheme reno:recovery=newreno+elsn
         set initial_window = \"6 segments\"
         set limited_transmit = false
         write 6
         > 0..6000
         +0.05 < notice ersn 0
         +0.05 < ack 0
         +0.0 < ack 0
         +0.0 < ack 0
         = dupacks 0 reductions 0
         +0.05 < notice eln 0
         > 0 rtx
         +0.0 < ack 0
         +0.0 < ack 0
         = dupacks 2
         +0.1 < ack 6000
         = reductions 0 cwnd 7",
    );
}
