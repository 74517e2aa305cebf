//! TCP Noor: behaviour of the sender with its window rules.

use crate::script::play;

/// One lost segment of sixteen: the first duplicate ACK starts exponential growth, the third
/// retransmits and makes growth linear. Further duplicates do not inflate the window: nothing new
/// is sent until the hole is filled.
#[test]
fn three_duplicates_overwrite_what_one_has_set() {
    play(
        "scheme noor-eaer
         profile ns-2.35
         write endless
         > 0..16000
         = cwnd 16 ssthresh 32
         +0.1 < ack 1000
         > 16000..18000
         = cwnd 17 ssthresh 32
         +0 < ack 1000
         = cwnd 16 ssthresh 32
         +0 < ack 1000       # limited transmit: cwnd and two more
         > 18000
         +0 < ack 1000
         > 1000 rtx
         = cwnd 16 ssthresh 16 fast 1
         +0 < ack 1000
         +0 < ack 1000
         +0.1 < ack 19000
         > 19000..35000
         = cwnd 16.0625 ssthresh 16",
    );
}

/// After one or two duplicate ACKs growth is exponential, also after a timeout.
#[test]
fn slight_reordering_leaves_exponential_growth() {
    play(
        "scheme noor-eaer
         profile ns-2.35
         write endless
         > 0..16000
         +0.1 < ack 4000
         > 16000..21000
         = cwnd 17 ssthresh 32
         timer
         > 4000 rtx
         = cwnd 17 ssthresh 17
         +0.01 < ack 4000
         > 5000 rtx          # limited transmit
         = cwnd 16 ssthresh 32
         +0.01 < ack 21000
         > 21000..38000
         = cwnd 17 ssthresh 32",
    );
}

/// A timeout does not change cwnd and retransmits one segment; ACKs release two each, until
/// everything is retransmitted.
#[test]
fn a_timeout_repairs_step_by_step() {
    play(
        "scheme noor-eaer
         profile ns-2.35
         write endless
         > 0..16000
         timer
         > 0 rtx
         = cwnd 16 ssthresh 16 timeouts 1
         +0.1 < ack 1000
         > 1000 rtx, 2000 rtx
         +0.1 < ack 2000
         > 3000 rtx, 4000 rtx
         +0 < ack 12000
         > 12000 rtx, 13000 rtx
         +0 < ack 14000
         > 14000 rtx, 15000 rtx
         +0 < ack 16000
         > 16000..32000",
    );
    play(
        "scheme noor-eaer:go_back_n=true
         profile ns-2.35
         write 4
         > 0..4000
         timer
         > 0 rtx, 1000 rtx, 2000 rtx, 3000 rtx",
    );
}

/// The timer backs off to two seconds at most. An idle time does not reduce the window.
#[test]
fn the_timer_waits_two_seconds_at_most() {
    play(
        "scheme noor-aer
         profile ns-2.35
         write 1
         > 0
         timer
         > 0 rtx
         timer
         > 0 rtx
         timer
         > 0 rtx
         timer
         > 0 rtx
         = rto 2
         +2 timer
         > 0 rtx
         = rto 2 cwnd 16 ssthresh 32
         +0.1 < ack 1000
         = cwnd 17
         timer               # nothing is outstanding
         = cwnd 17
         write endless
         > 1000..18000",
    );
}
