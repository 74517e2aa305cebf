//! When the profile `linux` lets new data wait for room for a burst (`tcp_tso_should_defer`, key
//! `tso_defer`). At 1.6 Mbit/s, 1.2 to 2 windows per round trip, a burst has the minimum of two
//! segments.

use crate::script::play;

const START: &str = "scheme reno
     profile linux
     set program_write_time = \"0 s\"
     window 5";

/// Room for one of two segments is not used until the next ACK, if the last burst was sent within
/// 1 ms.
#[test]
fn new_data_wait_for_room_for_two_segments() {
    let until_then = format!(
        "{START}
         write endless
         > 0..5000
         +0.1 < ack 2000
         > 5000..7000"
    );
    play(&format!(
        "{until_then}
         +0.0005 < ack 3000
         +0.0 < ack 4000
         > 7000..9000"
    ));
    play(&format!(
        "{until_then}
         +0.002 < ack 3000
         > 7000"
    ));
}

/// The last data do not wait: no more can be sent with them.
#[test]
fn the_end_of_the_data_does_not_wait() {
    play(&format!(
        "{START}
         write 8
         > 0..5000
         +0.1 < ack 2000
         > 5000..7000
         +0.0005 < ack 3000
         > 7000"
    ));
}

/// The first unacknowledged segment left 55.5 ms ago, and its ACK is due in 44.5 ms: kernels before
/// 6.18 wait for it, as more than half of the round-trip time has passed.
#[test]
fn new_data_wait_only_for_an_ack_that_is_due() {
    let until_then = |rule: &str| {
        format!(
            "{START}
             set tso_defer = \"{rule}\"
             write 2
             > 0, 1000
             +0.045 write endless
             > 2000..5000
             +0.055 < ack 2000
             > 5000..7000
             +0.0005 < ack 3000"
        )
    };
    for rule in ["off", "ack-due"] {
        play(&format!("{}\n> 7000", until_then(rule)));
    }
    play(&format!("{}\n+0.0 < ack 4000\n> 7000..9000", until_then("half-rtt")));
}
