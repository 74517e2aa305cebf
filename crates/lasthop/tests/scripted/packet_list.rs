//! Recovery by the packet list (Gao, Diggavi and Muthukrishnan 2003; yun2009, section 4.1 and
//! figure 4).

use crate::script::play;

/// yun2009, figure 4: of 14 to 19 the packets 14, 16 and 18 are lost. Each is overtaken three
/// times, and each loss halves the window.
#[test]
fn three_losses_in_a_window_halve_it_three_times() {
    play(
        "scheme reno:recovery=packet-list
         set initial_window = \"38 segments\"
         write endless
         > 0..38000
         +0.1 < ack 14000
         > 38000..53000
         = cwnd 39
         +0.0 < ack 14000 sack 15000-16000
         > 53000
         +0.0 < ack 14000 sack 17000-18000,15000-16000
         > 54000
         +0.0 < ack 14000 sack 19000-20000,17000-18000,15000-16000
         > 14000 rtx
         = cwnd 19.5 ssthresh 19.5 fast 1 reductions 1
         +0.0 < ack 14000 sack 19000-21000,17000-18000,15000-16000
         > 16000 rtx
         = cwnd 9.75 fast 2 reductions 2
         +0.0 < ack 14000 sack 19000-22000,17000-18000,15000-16000
         > 18000 rtx
         = cwnd 4.875 fast 3 reductions 3 retransmissions 3",
    );
}

/// A packet that a notification names is retransmitted at once and moves to the tail: the window
/// does not change, and packets behind it do not count against it. A repeated notification has no
/// effect.
#[test]
fn a_notification_retransmits_without_a_reduction() {
    play(
        "scheme reno:recovery=packet-list
         set initial_window = \"10 segments\"
         write endless
         > 0..10000
         +0.1 < notice eln 0
         > 0 rtx
         +0.0 < notice eln 0
         +0.0 < ack 0 sack 1000-2000
         > 10000
         +0.0 < ack 0 eln of_segment 2000 sack 1000-2000
         > 2000 rtx
         +0.0 < ack 0 sack 3000-4000,1000-2000
         > 11000
         +0.0 < ack 0 sack 3000-5000,1000-2000
         > 12000
         +0.0 < ack 0 sack 3000-10000,1000-2000
         > 13000..18000
         = cwnd 10 fast 0 reductions 0 retransmissions 2
         +0.1 < ack 2000 sack 3000-11000
         > 18000..21000
         +0.0 < ack 11000
         > 21000..23000
         = cwnd 12 fast 0 reductions 0",
    );
}

/// A lost retransmission is detected by later packets that arrive.
#[test]
fn a_copy_that_is_lost_is_found_by_what_was_sent_after_it() {
    play(
        "scheme reno:recovery=packet-list
         set initial_window = \"6 segments\"
         write endless
         > 0..6000
         +0.1 < notice eln 0
         > 0 rtx
         +0.0 < ack 0 sack 1000-6000
         > 6000..11000
         +0.1 < ack 0 sack 1000-7000
         > 11000
         +0.0 < ack 0 sack 1000-8000
         > 12000
         +0.0 < ack 0 sack 1000-9000
         > 0 rtx
         = cwnd 3 fast 1 reductions 1",
    );
}

/// SMART: ACKs name the segment that they acknowledge. That of 1 is lost, so 1 seems overtaken like
/// 0 until the ACK number passes it, and the lost ACK costs a reduction (yun2009, section 2.1).
#[test]
fn with_smart_a_lost_ack_costs_a_reduction() {
    play(
        "scheme reno:recovery=packet-list+smart
         set initial_window = \"16 segments\"
         write endless
         > 0..16000
         +0.1 < ack 0 of_segment 2000
         > 16000
         +0.0 < ack 0 of_segment 3000
         > 17000
         +0.0 < ack 0 of_segment 4000
         # one reduction for 0, one for 1
         > 0 rtx, 1000 rtx
         = cwnd 4 fast 2 reductions 2",
    );
}

/// A timeout: all segments that are not SACKed are retransmitted in slow start; the list is reset.
#[test]
fn after_a_timeout() {
    play(
        "scheme reno:recovery=packet-list
         set initial_window = \"5 segments\"
         write 5
         > 0..5000
         +0.1 < ack 0 sack 3000-4000
         timer
         > 0 rtx
         = cwnd 1 timeouts 1
         +0.1 < ack 1000 sack 3000-4000
         > 1000 rtx, 2000 rtx
         +0.1 < ack 4000
         > 4000 rtx
         +0.1 < ack 5000
         = state established fast 0",
    );
}
