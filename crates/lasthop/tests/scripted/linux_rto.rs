//! The profile `linux`: round-trip times, the retransmission timer and tail loss probes, each rule
//! with the kernel's name for it.

use crate::script::play;

/// `tcp_clean_rtx_queue`: the first segment that an ACK covers gives the round-trip time, not the
/// last one, which a receiver that holds ACKs back would make look fast.
#[test]
fn the_first_segment_acknowledged_is_timed() {
    for (rule, srtt) in [("first", "0.10625"), ("latest", "0.1")] {
        play(&format!(
            "scheme reno
             profile linux
             set rtt_sample = \"{rule}\"
             write 1
             > 0..1000
             +0.05 write 1
             > 1000..2000
             +0.1 < ack 2000
             = srtt {srtt}"
        ));
    }
}

/// `FLAG_RETRANS_DATA_ACKED`: an ACK that covers a retransmission times nothing else either;
/// without timestamps there is no sample.
#[test]
fn an_ack_of_a_retransmission_is_no_sample() {
    for (rule, srtt) in [("first", "0.1"), ("latest", "0.11")] {
        play(&format!(
            "scheme reno
             profile linux
             set timestamps = false
             set rtt_sample = \"{rule}\"
             write 5
             > 0..5000
             +0.1 < ack 0 sack 1000-4000
             > 0 rtx
             +0.08 < ack 5000
             = srtt {srtt}"
        ));
    }
}

/// `tcp_clean_rtx_queue`, `FLAG_SET_XMIT_TIMER`: SACK blocks for what was sent before the first
/// segment's copy restart the timer, here to SRTT of 106.25 ms and 200 ms. By RFC 6298 only an ACK
/// of new data does.
#[test]
fn a_sack_of_what_was_sent_before_the_copy_restarts_the_timer() {
    for (rule, left) in [("first-segment", "0.30625"), ("acknowledged", "0.25")] {
        play(&format!(
            "scheme reno
             profile linux
             set timestamps = false
             set rto_restart = \"{rule}\"
             write 5
             > 0..5000
             +0.1 < ack 0 sack 1000-4000
             > 0 rtx
             = deadline 0.3
             +0.05 < ack 0 sack 1000-5000
             = deadline {left}"
        ));
    }
}

/// `tcp_xmit_retransmit_queue`: each retransmission of the first segment restarts the timer.
#[test]
fn a_second_copy_of_the_first_segment_restarts_the_timer() {
    for (rule, left) in [("first-segment", "0.29375"), ("acknowledged", "0.24")] {
        play(&format!(
            "scheme reno
             profile linux
             set timestamps = false
             set rto_restart = \"{rule}\"
             write 5
             > 0..5000
             +0.1 < ack 0 sack 1000-5000
             > 0 rtx
             +0.01 write 1
             > 5000
             +0.05 < ack 0 sack 1000-6000
             > 0 rtx
             = deadline {left}"
        ));
    }
}

/// `tcp_schedule_loss_probe`: behind new data a probe goes out no later than the timeout of the
/// first segment, sent 190 ms ago: SRTT of 111.25 ms and 240 ms, less 190 ms. Without new data, and
/// by RFC 8985, it waits for two round-trip times (and 2 ms).
#[test]
fn a_probe_behind_new_data_waits_no_longer_than_the_first_segments_timeout() {
    for (rule, left) in [("first-segment", "0.16125"), ("acknowledged", "0.2245")] {
        play(&format!(
            "scheme reno
             profile linux
             set rto_restart = \"{rule}\"
             write 10
             > 0..10000
             +0.19 < ack 1000
             = deadline 0.2245
             write 1
             > 10000
             = deadline {left}"
        ));
    }
}

/// `tcp_send_loss_probe`: while a probe is under way no second one is sent, but its timer is set,
/// to two round-trip times of 155.4 ms and 2 ms. When it expires the timeout of the first segment
/// has passed.
#[test]
fn behind_a_probe_the_timeout_of_the_first_segment_counts() {
    for (rule, left) in [("first-segment", "0.3128125"), ("acknowledged", "0.68865625")] {
        play(&format!(
            "scheme reno
             profile linux
             set rto_restart = \"{rule}\"
             write 10
             > 0..10000
             +0.19 < ack 1000
             +0.2245 timer
             > 9000 rtx
             +0.05 < ack 2000
             = deadline {left}"
        ));
    }
}

/// `tcp_enter_loss`: a timeout in a recovery, and one that repeats, leave ssthresh as the first
/// reduction has set it; after progress a further one reduces it again.
#[test]
fn a_window_of_data_reduces_ssthresh_once() {
    play(
        "scheme reno
         profile linux
         write 20
         > 0..10000
         +0.1 < ack 0 sack 1000-4000
         > 0 rtx, 10000
         = ssthresh 5
         timer
         > 0 rtx
         = cwnd 1 ssthresh 5
         timer
         > 0 rtx
         = cwnd 1 ssthresh 5",
    );
}

/// `tcp_packet_delayed` at the end of a recovery (`tcp_try_undo_recovery`): an ACK that echoes what
/// was sent before the first retransmission restores the window.
#[test]
fn a_recovery_whose_segment_was_only_late_is_undone_at_its_end() {
    let script = |undo: bool, of: &str, state: &str| {
        play(&format!(
            "scheme reno
             profile linux
             set timestamp_undo = {undo}
             write 10
             > 0..10000
             +0.1 < ack 0 sack 1000-10000
             > 0 rtx
             = ssthresh 5
             +0.01 < ack 10000 of {of}
             = {state}"
        ));
    };
    script(true, "9000", "undone 1 ssthresh inf");
    script(true, "0#2", "undone 0 ssthresh 5");
    script(false, "9000", "undone 0 ssthresh 5");
}

/// The same in the midst of a recovery (`tcp_try_undo_partial`): while a retransmission is in
/// flight nothing is marked lost or sent again, only new data; with none in flight the reduction is
/// undone.
#[test]
fn a_partial_ack_of_a_late_segment_retransmits_nothing_or_undoes() {
    play(
        "scheme reno
         profile linux
         write 30
         > 0..10000
         +0.1 < ack 0 sack 2000-6000
         > 0 rtx
         +0.01 < ack 1000 sack 2000-6000 of 9000
         > *
         = undone 1",
    );
}

/// `tcp_retrans_stamp_cleanup`: the first recovery ends, and no retransmission of it is in flight,
/// while something is SACKed; the second one counts from its own first retransmission, so that the
/// late segment 10000 undoes it.
#[test]
fn a_recovery_counts_from_its_own_first_retransmission() {
    let script = |of: &str, state: &str| {
        play(&format!(
            "scheme reno
             profile linux
             write 40
             > 0..10000
             +0.1 < ack 0 sack 1000-4000
             > 0 rtx, 10000
             +0.1 < ack 4000 of 0#2
             > *
             +0.01 < ack 8000 of 0#2
             > *
             +0.01 < ack 10000 sack 11000-12000 of 0#2
             > *
             +0.01 < ack 10000 sack 11000-14000 of 0#2
             > 10000 rtx
             = undone 0 ssthresh 2
             +0.01 < ack 11000 sack 12000-14000 of {of}
             > *
             = {state}"
        ));
    };
    script("10000", "undone 1");
    script("10000#2", "undone 0");
}

/// The kernel's timers count ticks of 4 ms and expire behind a whole one (`calc_index`): RACK's,
/// set for 27 ms, after 32.
#[test]
fn timers_expire_at_ticks() {
    play(
        "scheme rack
         profile linux
         set timer_tick = \"4 ms\"
         set timestamps = false
         write 4
         > 0..4000
         +0.1 < ack 0 sack 3000-4000
         = deadline 0.032
         +0.032 timer
         > 0 rtx",
    );
}

/// `tcp_timeout_mark_lost`, `tcp_enter_loss`: what was sent less than a round-trip time ago is not
/// lost yet, and cwnd has room for it and one segment more.
#[test]
fn a_timeout_leaves_room_for_what_was_sent_recently() {
    play(
        "scheme reno
         profile linux
         write 10
         > 0..10000
         +0.1 < ack 0 sack 1000-10000
         > 0 rtx
         +0.25 write 2
         > 10000, 11000
         timer
         > 0 rtx
         = cwnd 3 timeouts 1",
    );
}
