//! Scripts for the rules of a whole connection, in packetdrill's language.

use super::player::{Outcome, play};

/// A connection that the peer has opened, without timestamps.
const ACCEPTED: &str = "
   0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
  +0 listen(3, 1) = 0
  +0 < S 0:0(0) win 32768 <mss 1000,sackOK,wscale 7>
  +0 > S. 0:0(0) ack 1 <mss 1460,sackOK,wscale 8>
 +.1 < . 1:1(0) ack 1 win 257
  +0 accept(3, ..., ...) = 4
";

/// The same with timestamps.
const STAMPED: &str = "
   0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
  +0 listen(3, 1) = 0
  +0 < S 0:0(0) win 32768 <mss 1000,sackOK,TS val 100 ecr 0>
  +0 > S. 0:0(0) ack 1 <mss 1460,sackOK,TS val 1 ecr 100>
 +.1 < . 1:1(0) ack 1 win 32768 <nop,nop,TS val 200 ecr 1>
  +0 accept(3, ..., ...) = 4
";

/// A connection that this host opens.
const CONNECTED: &str = "
   0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
  +0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
  +0 > S 0:0(0) <...>
";

fn holds(begin: &str, rest: &str) {
    let outcome = play(&[begin, rest].concat());
    assert!(matches!(outcome, Outcome::Passes(_)), "{outcome:?} in {rest}");
}

#[test]
fn a_script_that_does_not_hold_fails_at_its_line() {
    let wrong = [ACCEPTED, "+0 < . 1:1001(1000) ack 1 win 257\n+0 > . 1:1(0) ack 1000\n"].concat();
    let outcome = play(&wrong);
    assert_eq!(outcome, Outcome::Differs(9, "ack 1001, in 1:1(0) is sent".into()));
}

/// RFC 9293, section 3.10.7.3.
#[test]
fn handshakes_that_fail() {
    // A reset is believed if it acknowledges the SYN.
    holds(CONNECTED, "+.1 < R. 0:0(0) ack 1 win 0\n+.1 < . 1:1(0) ack 1 win 9\n+0 > R 1:1(0)\n");
    holds(
        CONNECTED,
        "+.1 < R 0:0(0) win 0\n+0 < S. 0:0(0) ack 1 win 9 <mss 1000>\n+0 > . 1:1(0) ack 1\n",
    );
    // An ACK of something else is answered with a reset, and the connection is still opened.
    holds(
        CONNECTED,
        "+.1 < . 7:7(0) ack 9 win 9
         +0 > R 9:9(0)
         +0 < S. 0:0(0) ack 1 win 9 <mss 1000>
         +0 > . 1:1(0) ack 1
        ",
    );
    // The program has gone.
    holds(
        CONNECTED,
        "+.1 close(3) = 0
         +0 < S. 0:0(0) ack 1 win 9 <mss 1000>
         +0 > R 1:1(0)
        ",
    );
}

/// RFC 9293, section 3.5: both ends open the connection at once.
#[test]
fn simultaneous_open() {
    holds(
        CONNECTED,
        "+.1 < S 0:0(0) win 9000 <mss 1000>
         +0 > S. 0:0(0) ack 1 <mss 1460>
         +.1 < S. 0:0(0) ack 1 win 9000 <mss 1000>
         +0 > . 1:1(0) ack 1
         +0 write(3, ..., 500) = 500
         +0 > P. 1:501(500) ack 1
        ",
    );
}

/// RFC 5961, sections 3.2, 4.2 and 5.2.
#[test]
fn blind_attacks_are_challenged() {
    // A reset within the window, but not at its edge; a SYN; and the reset that is believed.
    // Between them half a second, because challenges are limited.
    holds(
        ACCEPTED,
        "+.6 < R 100:100(0) win 0
         +0 > . 1:1(0) ack 1
         +.6 < S 1:1(0) win 9 <mss 1000>
         +0 > . 1:1(0) ack 1
         +.6 < . 1:1(0) ack 5000 win 9
         +0 > . 1:1(0) ack 1
         +.1 < R 1000000:1000000(0) win 0
         +.1 < . 1:11(10) ack 1 win 257
         +0 > . 1:1(0) ack 11
         +.1 < R 11:11(0) win 0
         +0 read(4, ..., 100) = -1 ECONNRESET (Connection reset by peer)
         +.1 < . 11:11(0) ack 1 win 257
         +0 > R 1:1(0)
        ",
    );
}

/// RFC 7323, section 5.3 (PAWS), and 3.2: a segment without its timestamp is dropped. The profile
/// accepts what is older by a tick of Linux, 1 ms of a clock of microseconds: 1000 of any peer's.
#[test]
fn old_timestamps_are_rejected() {
    holds(
        STAMPED,
        "+.1 < . 1:1001(1000) ack 1 win 32768 <nop,nop,TS val 5000 ecr 1>
         +0 > . 1:1(0) ack 1001 <nop,nop,TS val 2 ecr 5000>
         +.6 < . 1001:2001(1000) ack 1 win 32768 <nop,nop,TS val 3999 ecr 2>
         +0 > . 1:1(0) ack 1001 <nop,nop,TS val 3 ecr 5000>
         +.1 < . 1001:2001(1000) ack 1 win 32768
         +0 ioctl(4, SIOCINQ, [1000]) = 0
         +.1 < . 1001:2001(1000) ack 1 win 32768 <nop,nop,TS val 5001 ecr 3>
         +0 > . 1:1(0) ack 2001 <nop,nop,TS val 4 ecr 5001>
        ",
    );
}

/// RFC 9293, section 3.8.6.1: a closed window is probed, at intervals that double.
#[test]
fn zero_windows_are_probed() {
    holds(
        ACCEPTED,
        "+0 write(4, ..., 2000) = 2000
         +0 > P. 1:2001(2000) ack 1
         +.1 < . 1:1(0) ack 2001 win 0
         +0 write(4, ..., 1000) = 1000
         +.3~+.32 > . 2000:2000(0) ack 1
         +0 < . 1:1(0) ack 2001 win 0
         +.6~+.62 > . 2000:2000(0) ack 1
         +0 < . 1:1(0) ack 2001 win 0
         +.1 < . 1:1(0) ack 2001 win 257
         +0 > P. 2001:3001(1000) ack 1
        ",
    );
}

/// RFC 9293, sections 3.6 and 3.10.7.4.
#[test]
fn both_ends_close_at_once() {
    holds(
        ACCEPTED,
        "+0 close(4) = 0
         +0 > F. 1:1(0) ack 1
         +.1 < F. 1:1(0) ack 1 win 257
         +0 > . 2:2(0) ack 2
         +.1 < . 2:2(0) ack 2 win 257
         +.6 < F. 1:1(0) ack 2 win 257
         +0 > . 2:2(0) ack 2 <nop,nop,sack 1:2>
        ",
    );
}

/// RFC 9293, section 3.6, case 1: data still arrive after this end has closed its direction.
#[test]
fn a_half_closed_connection_receives() {
    holds(
        ACCEPTED,
        "+0 shutdown(4, SHUT_WR) = 0
         +0 > F. 1:1(0) ack 1
         +.1 < . 1:1001(1000) ack 2 win 257
         +0 > . 2:2(0) ack 1001
         +0 read(4, ..., 1000) = 1000
         +.1 < F. 1001:1001(0) ack 2 win 257
         +0~+.04 > . 2:2(0) ack 1002
         +0 read(4, ..., 1000) = 0
        ",
    );
}

/// RFC 1122, section 4.2.2.13; RFC 2525, section 2.17.
#[test]
fn data_that_nobody_will_read_are_answered_with_a_reset() {
    holds(
        ACCEPTED,
        "+0 < . 1:1001(1000) ack 1 win 257
         +0 > . 1:1(0) ack 1001
         +0 close(4) = 0
         +0 > R. 1:1(0) ack 1001
        ",
    );
    holds(
        ACCEPTED,
        "+0 close(4) = 0
         +0 > F. 1:1(0) ack 1
         +.1 < . 1:1(0) ack 2 win 257
         +.1 < . 1:1001(1000) ack 2 win 257
         +0 > R 2:2(0)
        ",
    );
}

/// RFC 5961, section 5.2: the ACK number may be one below the first byte, that of the SYN.
#[test]
fn an_ack_below_the_stream_is_an_old_one() {
    holds(ACCEPTED, "+0 < . 1:1001(1000) ack 0 win 257\n+0 > . 1:1(0) ack 1001\n");
}
