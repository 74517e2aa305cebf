//! Segmentation offload: several segments leave as one frame (key `segmentation_offload`).

use crate::script::play;

/// `tcp_tso_autosize`: at 1.6 Mbit/s, two windows per round trip, a frame has the minimum of two
/// segments. It is lost and retransmitted as one frame, and counts as two of RACK's three reported
/// segments.
#[test]
fn two_segments_are_one_frame_and_sent_again_as_one() {
    play(
        "scheme reno
         profile linux
         set segmentation_offload = true
         write endless
         > 0+2000, 2000+2000, 4000+2000, 6000+2000, 8000+2000
         +0.1 < ack 2000
         > 10000+2000, 12000+2000
         +0.001 < ack 2000 sack 4000-6000
         > 14000+2000
         +0.001 < ack 2000 sack 4000-8000
         > 2000+2000 rtx
         = fast 1 retransmissions 1",
    );
}

/// The end of the data is sent with the last full segment, and nothing is sent beyond the receive
/// window.
#[test]
fn a_frame_ends_with_the_data_and_with_the_receive_window() {
    play(
        "scheme reno
         profile linux
         set segmentation_offload = true
         set program_write_time = \"0 s\"
         window 5
         write 3
         > 0+2000, 2000
         write 9
         > 3000+2000
         +0.1 < ack 5000
         > 5000+2000, 7000+2000, 9000",
    );
}

/// `tcp_tso_should_defer`: room for one of two segments is not used until the next ACK, if the last
/// frame was sent within 1 ms.
#[test]
fn a_frame_waits_for_room_as_a_whole() {
    let until_then = "scheme reno
         profile linux
         set segmentation_offload = true
         set program_write_time = \"0 s\"
         window 5
         write endless
         > 0+2000, 2000+2000, 4000
         +0.1 < ack 2000
         > 5000+2000
    ";
    play(&format!(
        "{until_then}
         +0.0005 < ack 3000
         +0.0 < ack 4000
         > 7000+2000"
    ));
    play(&format!(
        "{until_then}
         +0.002 < ack 3000
         > 7000"
    ));
}

/// Without SACK each frame has one segment.
#[test]
fn recovery_by_duplicate_acks_sends_segments() {
    play(
        "scheme reno:recovery=newreno
         set segmentation_offload = true
         write 2
         > 0, 1000",
    );
}
