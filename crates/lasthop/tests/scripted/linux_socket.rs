//! What a program does to its socket: the send buffer, and how long data are kept for a program
//! that has closed the connection or a receiver that has closed its window.

use crate::script::play;

/// A program that is woken at once and writes in no time.
const AT_ONCE: &str = "set program_latency = \"0 s\"
             set program_write_time = \"0 s\"";

/// `sk_stream_memory_free`, `sk_stream_write_space`: a block of half a window goes beyond the
/// buffer, and the program writes again when a third is free. Two segments of 1000 bytes take 2896
/// bytes of memory; a buffer of 16 000 bytes has a third free with 7000 bytes in flight.
#[test]
fn a_full_send_buffer_is_refilled_when_a_third_is_free() {
    let run = |max: &str, second: &str, third: &str| {
        play(&format!(
            "scheme reno
             profile linux
             set wmem_max = \"{max}\"
             {AT_ONCE}
             set tso_defer = \"off\"
             window 10
             write 30
             > 0..10000
             +0.1 < ack 5000
             > 10000..15000
             +0.01 < ack 7000
             {second}
             +0.01 < ack 8000
             {third}"
        ));
    };
    run("16000 B", "", "> 15000..18000");
    run("0 B", "> 15000..17000", "> 17000");
}

/// `tcp_should_expand_sndbuf`, `tcp_event_new_data_sent`: the buffer of 46 080 bytes does not grow
/// with cwnd if the first frame that an ACK releases fills cwnd. If a second frame follows, the
/// buffer has grown before it: with 24 segments a third of it is free, and the program is woken. It
/// writes within a millisecond, so that the next ACK finds more than what it wrote at first.
#[test]
fn the_send_buffer_grows_when_the_first_frame_does_not_fill_cwnd() {
    let run = |acks: &[u64], last: &str| {
        let mut sent = 10;
        let mut acked = 0;
        let script: String = acks
            .iter()
            .map(|segments| {
                acked += segments;
                let from = sent;
                sent += 2 * segments;
                format!("+0.001 < ack {acked}000\n> {from}000..{sent}000\n")
            })
            .collect();
        play(&format!(
            "scheme reno
             profile linux
             set max_tcp_header = 256
             set program_latency = \"1 us\"
             set program_write_time = \"0 s\"
             set tso_defer = \"off\"
             window 200
             write 200
             > 0..10000
             {script}
             {last}"
        ));
    };
    run(&[1; 16], "+0.001 < ack 42000\n> 42000..75000");
    run(&[2; 7], "+0.001 < ack 38000\n> 38000..86000");
}

/// A program closes the connection when the kernel has taken all its data: the FIN goes with the
/// last of them.
#[test]
fn a_program_that_waits_for_room_closes_the_connection_later() {
    play(
        "scheme reno
         profile linux
         set wmem_max = \"16000 B\"
         set program_latency = \"0 s\"
         set program_write_time = \"0 s\"
         window 10
         write 17
         > 0..10000
         close
         +0.1 < ack 10000
         > 10000..16000, 16000 fin",
    );
}

/// A program that has been woken needs a moment; the ACK itself sends what the buffer has.
#[test]
fn a_program_that_is_woken_may_write_later() {
    play(
        "scheme reno
         profile linux
         set wmem_max = \"16000 B\"
         set program_latency = \"1 ms\"
         set program_write_time = \"0 s\"
         window 10
         write 30
         > 0..10000
         +0.1 < ack 10000
         > 10000..15000
         timer
         > 15000..20000",
    );
}

/// A program writes blocks of half a window one after another, each when the one before has had its
/// time. A sender that has sent all there is waits for the next one.
#[test]
fn a_sender_waits_for_what_the_program_still_writes() {
    play(
        "scheme reno
         profile linux
         set program_write_time = \"65.536 ms\"
         set tso_defer = \"off\"
         window 5
         write 6
         > 0, 1000
         +0.002 timer
         > 2000, 3000
         +0.002 timer
         > 4000
         close
         +0.1 < ack 5000
         > 5000 fin",
    );
}

/// While the sender has unsent data, the program writes without a timer: the second ACK finds the
/// fourth block. ACKs do not wait for the end of a write here.
#[test]
fn a_program_goes_on_to_write_while_data_are_unsent() {
    play(
        "scheme reno
         profile linux
         set program_write_time = \"65.536 ms\"
         set program_write_size = \"0 B\"
         set tso_defer = \"off\"
         window 10
         write 30
         > 0..5000
         +0.005 timer
         > 5000..10000
         +0.005 timer
         +0.006 < ack 5000
         > 10000..15000
         +0 < ack 9000
         > 15000..19000",
    );
}

/// `tcp_add_backlog`: an ACK that arrives during a write is processed when the write ends. Blocks
/// of 5000 bytes take 5 ms, so that the first write ends after 15 ms.
#[test]
fn an_ack_waits_until_a_write_ends() {
    let run = |size: &str, script: &str| {
        play(&format!(
            "scheme reno
             profile linux
             set program_write_time = \"65.536 ms\"
             set program_write_size = \"{size}\"
             set wmem_default = \"1 MB\"
             set tso_defer = \"off\"
             window 10
             write 90
             > 0..5000
             +0.005 timer
             > 5000..10000
             +0.005 timer
             +0.001 < ack 5000
             {script}"
        ));
    };
    run("0 B", "> 10000..15000");
    run("12000 B", "+0.004 timer\n> 10000..15000");
    // One write of all: it is processed before the 17th block, after 80 ms.
    let timers = "+0.004 timer\n".to_owned() + &"+0.005 timer\n".repeat(13);
    run("1 MB", &format!("{timers}> 10000..15000"));
}

/// `sk_stream_wait_memory`: a program that finds the buffer full processes the ACKs that wait, and
/// goes on to write if there is room then. Without one it waits for a third of the buffer.
#[test]
fn acks_that_wait_make_room_for_a_full_buffer() {
    let run = |before: &str, after: &str, last: &str| {
        play(&format!(
            "scheme reno
             profile linux
             set wmem_max = \"16000 B\"
             set program_latency = \"0 s\"
             set program_write_time = \"65.536 ms\"
             set program_write_size = \"1 MB\"
             set tso_defer = \"off\"
             window 10
             write 30
             > 0..5000
             +0.005 timer
             > 5000..10000
             +0.005 timer
             {before}
             {after}
             +0.02 < ack 6000
             {last}"
        ));
    };
    run("+0.002 < ack 5000\n+0.003 timer\n> 10000..15000", "", "> 15000");
    run("", "+0.005 < ack 5000\n> 10000..15000", "");
}

/// What an ACK acknowledges while the program writes is room for it: the block that follows needs
/// no third of the buffer (`sk_stream_memory_free`). A program that writes in no time waits then,
/// as in the first test.
#[test]
fn acks_make_room_for_a_program_that_writes() {
    let run = |time: &str, timers: [&str; 3], last: &str| {
        play(&format!(
            "scheme reno
             profile linux
             set wmem_max = \"16000 B\"
             set program_latency = \"0 s\"
             set program_write_time = \"{time}\"
             set program_write_size = \"0 B\"
             set tso_defer = \"off\"
             window 10
             write 30
             {}
             {}
             +0.002 < ack 5000
             > 10000..15000
             {}
             +0.02 < ack 6000
             {last}",
            timers[0], timers[1], timers[2]
        ));
    };
    let waits = ["> 0..5000\n+0.005 timer\n> 5000..10000", "+0.005 timer", "+0.003 timer"];
    run("65.536 ms", waits, "> 15000");
    run("0 s", ["> 0..10000", "", ""], "");
}

/// `tcp_probe_timer`: after this many probes without an answer the connection ends; an ACK that
/// leaves the window closed is an answer (RFC 9293, section 3.8.6.1).
#[test]
fn probes_without_an_answer_end_the_connection() {
    let closed = "write 10
         > 0..10000
         +0.1 < ack 10000 win 0
         write 1
         timer
         timer
         +0.1 < ack 10000
         timer
         timer
         = state established
         timer";
    for (retries, state) in [(2, "closed"), (3, "established"), (0, "established")] {
        play(&format!(
            "scheme reno
             profile linux
             set probe_retries = {retries}
             {closed}
             = state {state}"
        ));
    }
}

/// `tcp_orphan_retries`: data of a program that has closed the connection are given up sooner.
#[test]
fn data_of_a_closed_connection_are_given_up_sooner() {
    let run = |close: &str, flags: &str, state: &str| {
        play(&format!(
            "scheme reno
             profile linux
             set orphan_timeout = \"1 s\"
             set user_timeout = \"3 s\"
             write 11
             > 0..10000
             {close}
             +0.1 < ack 10000
             > 10000{flags}
             timer
             > 10000{flags} rtx
             timer
             > 10000{flags} rtx
             timer
             > 10000{flags} rtx
             timer
             > *
             = state {state}"
        ));
    };
    run("", "", "established");
    run("close", " fin", "closed");
}

/// `tcp_slow_start` counts segments: a first write of 200 bytes leaves in one, of the ten that cwnd
/// has, and its ACK opens cwnd by one.
#[test]
fn a_small_first_write_is_one_of_the_segments_of_cwnd() {
    let run = |first: &str, script: &str| {
        play(&format!(
            "scheme reno
             profile linux
             set program_first_write = \"{first}\"
             {AT_ONCE}
             set tso_defer = \"off\"
             window 100
             write 30
             {script}"
        ));
    };
    run("0 B", "> 0..10000\n+0.1 < ack 1000\n> 10000..12000");
    let sent = "> 0+200, 200, 1200, 2200, 3200, 4200, 5200, 6200, 7200, 8200\n";
    run("200 B", &format!("{sent}+0.1 < ack 200\n> 9200..11200"));
    run("200 B", &format!("{sent}+0.1 < ack 1200\n> 9200..13200"));
}
