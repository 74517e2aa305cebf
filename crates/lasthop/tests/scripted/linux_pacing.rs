//! Pacing of the profile `linux`, each rule with the kernel's name for it.

use crate::script::play;

/// `tcp_update_skb_after_send`: nothing is paced before ten segments of data are out. In bursts of
/// two the tenth belongs to the fifth, which delays the sixth.
#[test]
fn the_first_ten_segments_are_not_paced() {
    for scheme in ["bbr", "bbr3"] {
        let start = format!(
            "scheme {scheme}
             profile linux
             set initial_window = \"20 segments\""
        );
        play(&format!(
            "{start}
             write 20
             > 0..10000
             timer
             > 10000..12000
             timer
             > 12000..14000"
        ));
        play(&format!(
            "{start}
             set unpaced_segments = 0
             write 20
             > 0..2000
             timer
             > 2000..4000"
        ));
    }
}

/// `data_segs_out` counts the segments of a frame, and retransmissions: the frame with the tenth
/// segment delays the next one. With eight out and two sent again the pacing begins.
#[test]
fn segments_of_frames_and_retransmissions_count() {
    play(
        "scheme bbr
         profile linux
         set segmentation_offload = true
         set initial_window = \"20 segments\"
         write 20
         > 0+2000, 2000+2000, 4000+2000, 6000+2000, 8000+2000
         timer
         > 10000+2000",
    );
    play(
        "scheme bbr
         profile linux
         set initial_window = \"20 segments\"
         write 8
         > 0..8000
         +0.1 < ack 0 sack 3000-8000
         > 0 rtx, 1000 rtx
         timer
         > 2000 rtx",
    );
}

/// `tcp_update_skb_after_send`: what leaves late shortens the wait for the next burst, by half at
/// most. BBR's first rate is 2.885 windows of 20 segments per 0.1 s: two of them take 3.5 ms.
#[test]
fn a_late_burst_shortens_the_wait_for_the_next() {
    for (credit, wait) in [(true, "0.0017"), (false, "0.0035")] {
        play(&format!(
            "scheme bbr
             profile linux
             set initial_window = \"20 segments\"
             set unpaced_segments = 0
             set pacing_credit = {credit}
             write 2
             > 0..2000
             +0.05 write 6
             > 2000..4000
             = deadline {wait}
             timer
             > 4000..6000
             = deadline 0.0035"
        ));
    }
}
