//! Tests of the player.

use super::*;

/// The player itself, on a script of our own: two segments of six are lost. The first is sent again
/// when RACK's timer is due, a quarter of 50 ms and 2 ms after the report.
#[test]
fn a_script_of_our_own() {
    let script = |second: &str, cwnd: u32| {
        format!(
            "`../common/defaults.sh`
             0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
             +0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>
             +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>
             +.05 < . 1:1(0) ack 1 win 320
             +0 accept(3, ..., ...) = 4
             +0 write(4, ..., 6000) = 6000
             +0 > P. 1:6001(6000) ack 1
             +.05 < . 1:1(0) ack 2001 win 320
             +0 %{{ assert tcpi_snd_cwnd == {cwnd}, tcpi_snd_cwnd }}%
             +.001 < . 1:1(0) ack 2001 win 320 <sack 4001:6001,nop,nop>
             +.0145 > . 2001:3001(1000) ack 1
             +0 %{{ assert tcpi_lost == 2, tcpi_lost }}%
             +.05 < . 1:1(0) ack 3001 win 320 <sack 4001:6001,nop,nop>
             +0 > . {second} ack 1"
        )
    };
    assert_eq!(play(&script("3001:4001(1000)", 12)), Outcome::Passes(5, None));
    assert_eq!(
        play(&script("3001:3501(500)", 12)),
        Outcome::Fails(15, "3001(1000) is sent".into())
    );
    assert_eq!(
        play(&script("3001:4001(1000)", 10)),
        Outcome::Fails(10, "tcpi_snd_cwnd == 10 (found 12, 10)".into())
    );
    let pure = "+0 < S 0:0(0) win 9 <mss 1000>\n+0 > S. 0:0(0) ack 1 <mss 1460>\n+.1 < . \
                1:1001(1000) ack 1 win 9";
    assert_eq!(play(pure), Outcome::DoesNotApply("nothing about data sent".into()));
}

/// `shutdown` of the receiving side sends nothing; that of the sending side sends a FIN.
#[test]
fn a_shutdown_closes_the_side_that_it_names() {
    let script = |how: &str| {
        format!(
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
             +0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>
             +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>
             +.05 < . 1:1(0) ack 1 win 320
             +0 accept(3, ..., ...) = 4
             +0 shutdown(4, {how}) = 0
             +.1 write(4, ..., 1000) = 1000
             +0 > P. 1:1001(1000) ack 1
             +.05 < . 1:1(0) ack 1001 win 320
             +.1 close(4) = 0
             +0 > F. 1001:1001(0) ack 1"
        )
    };
    assert_eq!(play(&script("SHUT_RD")), Outcome::Passes(2, None));
    for sending in ["SHUT_WR", "SHUT_RDWR"] {
        assert!(matches!(play(&script(sending)), Outcome::Fails(..)), "{sending}");
    }
}

/// What the sender does not do is told by the options of the SYN and by the settings.
#[test]
fn fast_open_and_path_mtu_probing_do_not_apply() {
    let script = |setting: &str, syn: &str, option: &str| {
        format!(
            "`../common/defaults.sh
             ../common/set_sysctls.py {setting}`
             0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
             +0 < S {syn} win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7{option}>
             +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>
             +.05 < . 1:1(0) ack 1 win 320
             +0 accept(3, ..., ...) = 4
             +0 write(4, ..., 1000) = 1000
             +0 > P. 1:1001(1000) ack 1"
        )
    };
    let plain = "/proc/sys/net/ipv4/tcp_timestamps=0";
    assert_eq!(play(&script(plain, "0:0(0)", "")), Outcome::Passes(1, None));
    let fast_open = Outcome::DoesNotApply("TCP Fast Open".into());
    assert_eq!(play(&script(plain, "0:0(0)", ",FO 1234567890abcdef")), fast_open);
    assert_eq!(play(&script(plain, "0:0(0)", ",FOEXP,nop,nop")), fast_open);
    assert_eq!(play(&script(plain, "0:500(500)", "")), fast_open);
    assert_eq!(play(&script("/proc/sys/net/ipv4/tcp_fastopen=0x403", "0:0(0)", "")), fast_open);
    let probing = "/proc/sys/net/ipv4/tcp_mtu_probing=2";
    let outcome = play(&script(probing, "0:0(0)", ""));
    assert_eq!(outcome, Outcome::DoesNotApply("path MTU probing".into()));
}
