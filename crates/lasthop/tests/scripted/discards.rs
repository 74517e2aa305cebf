//! Segments that a receiver discards, and its answers, each rule with the kernel's name for it; in
//! the language of packetdrill.

use crate::packetdrill::{Outcome, play_with};

/// The script holds under the profile `linux` with further keys of `[tcp]`.
#[track_caller]
fn holds(keys: &str, script: &str) {
    let outcome = play_with(&with_handshake(script), keys);
    assert!(matches!(outcome, Outcome::Passes(n, None) if n > 0), "{outcome:?}");
}

/// It does not hold under these keys.
#[track_caller]
fn fails(keys: &str, script: &str) {
    let outcome = play_with(&with_handshake(script), keys);
    assert!(matches!(outcome, Outcome::Fails(..)), "{outcome:?}");
}

fn with_handshake(script: &str) -> String {
    let (option, answer) = if script.contains("TS val") {
        (",TS val 1000 ecr 0", ",TS val 50 ecr 1000")
    } else {
        ("", "")
    };
    let confirmed = if script.contains("TS val") { " <nop,nop,TS val 1100 ecr 50>" } else { "" };
    format!(
        "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
         +0 < S 0:0(0) win 65535 <mss 1000,sackOK{option},nop,wscale 7>
         +0 > S. 0:0(0) ack 1 <mss 1460,sackOK{answer},nop,wscale 10>
         +.1 < . 1:1(0) ack 1 win 257{confirmed}
         {script}"
    )
}

/// `tcp_paws_discard`: a retransmission fills a hole; the original of a later segment that it has
/// overtaken has an older timestamp, is discarded and answered by a duplicate ACK without a SACK
/// block. One tick of a millisecond is forgiven (`TCP_PAWS_WINDOW`).
const OVERTAKEN: &str = "+0 < . 1001:2001(1000) ack 1 win 257 <nop,nop,TS val 1101 ecr 50>
     +0 > . 1:1(0) ack 1 <nop,nop,TS val 150 ecr 1100,nop,nop,sack 1001:2001>
     +.1 < . 1:1001(1000) ack 1 win 257 <nop,nop,TS val 1200 ecr 150>
     +0 > . 1:1(0) ack 2001 <nop,nop,TS val 250 ecr 1200>
     +0 < . 2001:3001(1000) ack 1 win 257 <nop,nop,TS val 1199 ecr 150>
     +0 > . 1:1(0) ack 3001 <nop,nop,TS val 250 ecr 1200>
     +0 < . 3001:4001(1000) ack 1 win 257 <nop,nop,TS val 1198 ecr 150>
     +0 > . 1:1(0) ack 3001 <nop,nop,TS val 250 ecr 1200>
     +0 `nstat | grep TcpExtPAWSEstab | grep -q \" 1 \"`";

#[test]
fn a_segment_with_an_old_timestamp_is_discarded() {
    holds("", OVERTAKEN);
    fails("paws = \"off\"", OVERTAKEN);
    // RFC 7323 forgives nothing: 1199 is too old.
    fails("paws = \"rfc7323\"", OVERTAKEN);
}

/// `tcp_send_dupack`: a discarded segment below `rcv_nxt` is reported by D-SACK, as far as it has
/// arrived.
#[test]
fn an_old_segment_that_has_arrived_is_reported_by_dsack() {
    holds(
        "",
        "+0 < . 1:1001(1000) ack 1 win 257 <nop,nop,TS val 1200 ecr 50>
         +0 > . 1:1(0) ack 1001 <nop,nop,TS val 150 ecr 1200>
         +0 < . 501:1501(1000) ack 1 win 257 <nop,nop,TS val 1100 ecr 50>
         +0 > . 1:1(0) ack 1001 <nop,nop,TS val 150 ecr 1200,nop,nop,sack 501:1001>
         +0 `nstat | grep TcpExtPAWSEstab | grep -q \" 1 \"`",
    );
}

/// `tcp_sequence`, `tcp_replace_ts_recent`: a segment that ends below the last ACK does not change
/// TS.Recent, so that what was sent before it is still accepted.
#[test]
fn an_old_duplicate_leaves_the_timestamp_as_it_is() {
    holds(
        "",
        "+0 < . 1:1001(1000) ack 1 win 257 <nop,nop,TS val 1101 ecr 50>
         +0 > . 1:1(0) ack 1001 <nop,nop,TS val 150 ecr 1101>
         +0 < . 1001:2001(1000) ack 1 win 257 <nop,nop,TS val 1102 ecr 50>
         +0 > . 1:1(0) ack 2001 <nop,nop,TS val 150 ecr 1102>
         +0 < . 1:1001(1000) ack 1 win 257 <nop,nop,TS val 1300 ecr 50>
         +0 > . 1:1(0) ack 2001 <nop,nop,TS val 150 ecr 1102,nop,nop,sack 1:1001>
         +0 < . 2001:3001(1000) ack 1 win 257 <nop,nop,TS val 1103 ecr 50>
         +0 > . 1:1(0) ack 3001 <nop,nop,TS val 150 ecr 1103>",
    );
}

/// A segment in order brings a new timestamp, whatever was discarded before.
#[test]
fn a_discarded_segment_is_accepted_when_it_is_sent_again() {
    holds(
        "",
        "+0 < . 1:1001(1000) ack 1 win 257 <nop,nop,TS val 1200 ecr 50>
         +0 > . 1:1(0) ack 1001 <nop,nop,TS val 150 ecr 1200>
         +0 < . 1001:2001(1000) ack 1 win 257 <nop,nop,TS val 1150 ecr 50>
         +0 > . 1:1(0) ack 1001 <nop,nop,TS val 150 ecr 1200>
         +0 < . 1001:2001(1000) ack 1 win 257 <nop,nop,TS val 1201 ecr 50>
         +0 > . 1:1(0) ack 2001 <nop,nop,TS val 150 ecr 1201>",
    );
}

/// A receive buffer of 10220 bytes.
fn small_buffer(script: &str) -> String {
    format!("+0 setsockopt(3, SOL_SOCKET, SO_RCVBUF, [10220], 4) = 0\n{script}")
}

/// `tcp_sequence`: with data unread, a segment that ends beyond the window is discarded whole and
/// answered; with nothing unread it is accepted.
#[test]
fn data_beyond_the_window_are_accepted_if_nothing_is_unread() {
    holds(
        "",
        &small_buffer(
            "+0 < . 1:4001(4000) ack 1 win 257
             +0 > . 1:1(0) ack 4001
             +0 < . 4001:24001(20000) ack 1 win 257
             +0 > . 1:1(0) ack 4001
             +0 < . 30001:31001(1000) ack 1 win 257
             +0 > . 1:1(0) ack 4001
             +0 `nstat | grep TcpExtBeyondWindow | grep -q \" 2 \"`
             +0 read(4, ..., 4000) = 4000
             +0 < . 4001:24001(20000) ack 1 win 257
             +0 > . 1:1(0) ack 24001 win 0
             +0 < . 24001:25001(1000) ack 1 win 257
             +0 > . 1:1(0) ack 24001 win 0
             +0 `nstat | grep TcpExtTCPZeroWindowDrop | grep -q \" 1 \"`",
        ),
    );
}

/// `__tcp_cleanup_rbuf`: a window that reading has opened is advertised when it is twice what is
/// left of the last one and that is at most half of what the buffer holds.
#[test]
fn a_window_is_advertised_when_it_has_doubled() {
    let script = small_buffer(
        "+0 < . 1:1001(1000) ack 1 win 257
         +0 > . 1:1(0) ack 1001
         +0 < . 1001:6001(5000) ack 1 win 257
         +0 > . 1:1(0) ack 6001
         +0 read(4, ..., 3000) = 3000
         +.1 read(4, ..., 2000) = 2000
         +0 > . 1:1(0) ack 6001 win 9
         +0 read(4, ..., 1000) = 1000",
    );
    holds("", &script);
    fails("window_update = \"two-segments\"", &script);
}

/// `tcp_invalid_ratelimit`: of two probes of a closed window within 500 ms one is answered; an ACK
/// without data inside the window never is.
#[test]
fn invalid_acks_are_answered_twice_a_second_at_most() {
    let script = |answer: &str| {
        format!(
            "+0 < . 1:1001(1000) ack 1 win 257
             +0 > . 1:1(0) ack 1001
             +.1 < . 1000:1000(0) ack 1 win 257
             +0 > . 1:1(0) ack 1001
             +.4 < . 1000:1000(0) ack 1 win 257
             {answer}
             +.2 < . 1000:1000(0) ack 1 win 257
             +0 > . 1:1(0) ack 1001
             +1 < . 1500:1500(0) ack 1 win 257
             +0 < . 1001:2001(1000) ack 1 win 257
             +0 > . 1:1(0) ack 2001"
        )
    };
    holds("", &script(""));
    holds("invalid_ratelimit = \"0 s\"", &script("+0 > . 1:1(0) ack 1001"));
}

/// RFC 5961, section 3.2: a reset in the window that is not the next segment is answered by a
/// challenge ACK, and so is a SYN (section 4.2).
#[test]
fn resets_out_of_order_and_syns_are_challenged() {
    let script = "+0 < . 1:1001(1000) ack 1 win 257
         +0 > . 1:1(0) ack 1001
         +0 < R 1501:1501(0) win 0
         +0 > . 1:1(0) ack 1001
         +1 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,wscale 7>
         +0 > . 1:1(0) ack 1001
         +0 < . 1001:2001(1000) ack 1 win 257
         +0 > . 1:1(0) ack 2001
         +0 < R 2001:2001(0) win 0
         +0 < . 2001:3001(1000) ack 1 win 257
         +0 > R 1:1(0)";
    holds("", script);
    fails("challenge_acks = false", script);
}
