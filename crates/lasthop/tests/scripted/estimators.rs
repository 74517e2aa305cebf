//! Windows set by the rate and the delay of ACKs: Westwood, Westwood+, Veno, Vegas.

use crate::script::play;

/// Twenty segments in flight, acknowledged by five every 50 ms (100 kB/s), the first after 100 ms;
/// then one is lost.
const QUEUED: &str = "scheme SCHEME
    set initial_window = \"20 segments\"
    set initial_ssthresh = \"20 segments\"
    write endless
    > 0..20000
    +0.1 < ack 5000
    > 20000..25000
    +0.05 < ack 10000
    > 25000..30000
    +0.05 < ack 15000
    > 30000..35000
    +0.05 < ack 20000
    > 35000..40000
    +0.05 < ack 25000
    > 40000..45000
    +0 < ack 25000
    > 45000
    +0 < ack 25000
    > 46000
    +0 < ack 25000
    > 25000 rtx
    = OUTCOME";

/// 100 kB/s and a smallest round trip of 100 ms: ten segments.
#[test]
fn westwood_leaves_what_the_path_holds() {
    for scheme in ["westwood:max_segments_per_ack=0", "westwood+"] {
        play(
            &QUEUED
                .replace("SCHEME", scheme)
                .replace("OUTCOME", "cwnd 10 ssthresh 10 reductions 1"),
        );
    }
}

/// The smallest round-trip time of the last round is 150 ms: 20 × 50 / 150 = 6.7 segments are
/// queued, which is congestion.
#[test]
fn veno_halves_where_segments_wait() {
    play(&QUEUED.replace("SCHEME", "veno").replace("OUTCOME", "cwnd 10 ssthresh 10"));
}

/// The same without queueing: every round trip takes 100 ms, and the loss costs a fifth.
#[test]
fn veno_gives_up_a_fifth_where_none_wait() {
    play(
        "scheme veno
         set initial_window = \"20 segments\"
         set initial_ssthresh = \"20 segments\"
         write endless
         > 0..20000
         +0.1 < ack 5000
         > 20000..25000
         +0 < ack 10000
         > 25000..30000
         +0 < ack 15000
         > 30000..35000
         +0 < ack 20000
         > 35000..40000
         +0.1 < ack 25000
         > 40000..45000
         +0 < ack 25000
         > 45000
         +0 < ack 25000
         > 46000
         +0 < ack 25000
         > 25000 rtx
         = cwnd 16 ssthresh 16",
    );
}

/// At the first ACK no segment is queued: one segment more. The next round takes 200 ms on average:
/// 21 × 100 / 200 are queued, so one less. A loss costs a quarter.
#[test]
fn vegas_steps_by_the_round_and_gives_up_a_quarter() {
    play(
        "scheme vegas
         set initial_window = \"20 segments\"
         set initial_ssthresh = \"20 segments\"
         write endless
         > 0..20000
         +0.1 < ack 5000
         > 20000..26000
         = cwnd 21
         +0.05 < ack 10000
         > 26000..31000
         +0.05 < ack 15000
         > 31000..36000
         +0.05 < ack 20000
         > 36000..41000
         = cwnd 21
         +0.05 < ack 25000
         > 41000..45000
         = cwnd 20
         +0 < ack 25000
         > 45000
         +0 < ack 25000
         > 46000
         +0 < ack 25000
         > 25000 rtx
         = cwnd 15 ssthresh 15",
    );
}
