//! CUBIC under the profile `linux`: what `net/ipv4/tcp_cubic.c` of Linux 6.18 does, each rule with
//! the kernel's name for it.

use crate::script::play;

/// Two segments acknowledged each 100 ms, so that the queue grows. Without pacing slow start ends
/// with the ninth sample of the round that began with ACK 12000 (`hystart_update`); in the end the
/// window grows by one segment for two acknowledged (`bictcp_update`).
#[test]
fn cubic_at_a_slow_link() {
    let mut script = String::from("scheme cubic\nprofile linux\nwrite 400\n> 0..10000\n");
    for acked in (2..=300).step_by(2) {
        script += &format!("+0.1 < ack {acked}000\n> *\n");
        script += match acked {
            10 => "= cwnd 20\n",
            26 => "= cwnd 36\n",
            28 => "= cwnd 36 ssthresh 36\n",
            200 => "= cwnd 94\n",
            220 => "= cwnd 104\n",
            300 => "= cwnd 144\n",
            _ => "",
        };
    }
    play(&script);
}

/// `cubictcp_cwnd_event`: four seconds without data are excluded from the curve.
#[test]
fn cubic_after_an_idle_time() {
    for (idle, cwnd) in [("+0.1", 38), ("+4", 38)] {
        let mut script = String::from(
            "scheme cubic\nprofile linux\nset idle_restart = \"off\"\nwrite 40\n> 0..10000\n",
        );
        for acked in (2..=80).step_by(2) {
            script += &format!("+0.1 < ack {acked}000\n> *\n");
            if acked == 40 {
                script += &format!("{idle} write 160\n> *\n");
            }
        }
        play(&format!("{script}= cwnd {cwnd}"));
    }
}

/// `hystart_update`: nine round-trip times of a round, all more than 16 ms above the smallest one,
/// end slow start.
#[test]
fn cubic_leaves_slow_start_when_delays_rise() {
    let mut script = String::from(
        "scheme cubic\nprofile linux\nwrite 30\n> *\n+0.2 < ack 10000\n> *\n= cwnd 20\n+0.22 < \
         ack 12000\n",
    );
    for acked in (14..=26).step_by(2) {
        script += &format!("+0.001 < ack {acked}000\n= cwnd {}\n", 10 + acked);
    }
    play(&(script + "+0.001 < ack 28000\n= cwnd 36 ssthresh 36\n+0.001 < ack 30000\n= cwnd 36"));
}

/// `tcp_enter_loss`, `bictcp_reset`: after a timeout W_max is reset, and in congestion avoidance
/// cwnd grows by one for twenty segments acknowledged.
#[test]
fn cubic_after_a_timeout() {
    let mut script = String::from(
        "scheme cubic
         profile linux
         write 1
         > 0
         +0.1 < ack 1000
         = cwnd 10
         write 1
         > 1000
         +0.3 timer
         > 1000 rtx
         +0.3 timer
         > 1000 rtx
         = timeouts 1
         +0.1 < ack 2000
         = cwnd 2 ssthresh 7
         write 200
         > 2000, 3000
",
    );
    let after = |acked| if [3, 5, 9, 16, 23].contains(&acked) { "0.098" } else { "0.002" };
    for acked in 3..=23 {
        let cwnd = match acked {
            3..=7 => acked,
            8..=22 => 7,
            _ => 8,
        };
        script += &format!("+{} < ack {acked}000\n> *\n= cwnd {cwnd}\n", after(acked));
    }
    play(&script);
}
