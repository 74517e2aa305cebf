//! Which scripts are about a sender's data, and what a script sets.

use super::language::{Event, Line};

/// Calls that a sender needs or that do not affect it.
const CALLS: [&str; 16] = [
    "socket",
    "setsockopt",
    "getsockopt",
    "bind",
    "listen",
    "accept",
    "connect",
    "fcntl",
    "open",
    "read",
    "recv",
    "write",
    "send",
    "sendfile",
    "close",
    "shutdown",
];
/// Socket options that do not affect a sender that has all its data.
const SOCKET_OPTIONS: [&str; 8] = [
    "SO_REUSEADDR",
    "SO_SNDBUF",
    "SO_RCVBUF",
    "SO_ERROR",
    "TCP_NODELAY",
    "IP_MTU_DISCOVER",
    "IP_TOS",
    "TCP_USER_TIMEOUT",
];

/// The reason why a script cannot be played, if it cannot.
pub fn out_of_scope(lines: &[Line]) -> Option<String> {
    let established = lines.iter().find_map(|l| match &l.event {
        Event::Out(p) if p.has('S') => Some(p),
        _ => None,
    });
    let arrives = |l: &Line| matches!(&l.event, Event::In(p) if p.has('S'));
    if established.is_none() || !lines.iter().any(arrives) {
        return Some("no handshake".into());
    }
    if lines.iter().any(|l| is_fast_open(&l.event)) {
        return Some("TCP Fast Open".into());
    }
    if sysctl(lines, "tcp_mtu_probing", "0") != "0" {
        return Some("path MTU probing".into());
    }
    let paced = lines.iter().any(|l| matches!(&l.event, Event::Shell(s) if s.contains("root fq")));
    let mut compares = false;
    for line in lines {
        match &line.event {
            Event::Call(name, arguments, result) => {
                if let Some(reason) = foreign_call(name, arguments, result) {
                    return Some(reason);
                }
            }
            Event::Out(p) if p.len > 0 && paced => return Some("pacing by the fq qdisc".into()),
            Event::Out(p) => compares |= p.len > 0 || p.has('F'),
            Event::Python(text) => {
                if text.contains("sndbuf_limited") {
                    return Some("a send buffer".into());
                }
                compares |=
                    ["cwnd", "ssthresh", "unacked", "lost"].iter().any(|w| text.contains(w));
            }
            Event::In(_) | Event::Shell(_) => {}
        }
    }
    (!compares).then(|| NO_DATA_SENT.into())
}

/// The script is about a receiver, if it is about anything.
pub const NO_DATA_SENT: &str = "nothing about data sent";

/// The reason why a script that sends no data cannot be played against the receiver.
pub fn out_of_receivers_scope(lines: &[Line]) -> Option<String> {
    let mut data = false;
    for (i, line) in lines.iter().enumerate() {
        match &line.event {
            Event::In(p) if p.has('-') || (!p.has('S') && p.ack.is_some_and(|ack| ack > 1)) => {
                return Some("an ACK of data that were not sent".into());
            }
            Event::In(p) => data |= p.len > 0,
            Event::Call(name, arguments, _) if name == "setsockopt" => {
                let accepted = lines[..i]
                    .iter()
                    .any(|l| matches!(&l.event, Event::Call(name, ..) if name == "accept"));
                if accepted && arguments.contains("SO_RCVBUF") {
                    return Some("a receive buffer that shrinks".into());
                }
            }
            Event::Shell(s) if s.contains("tcp_shrink_window=1") => {
                return Some("tcp_shrink_window".into());
            }
            _ => {}
        }
    }
    (!data).then(|| "no data in either direction".into())
}

/// A SYN that carries data or a cookie (RFC 7413), or the setting for it.
fn is_fast_open(event: &Event) -> bool {
    match event {
        Event::In(p) | Event::Out(p) => {
            let cookie = |word: &str| word.starts_with("FO");
            p.has('S') && (p.len > 0 || p.options.split([',', ' ']).any(cookie))
        }
        Event::Shell(command) => command.contains("tcp_fastopen"),
        Event::Call(..) | Event::Python(_) => false,
    }
}

fn foreign_call(name: &str, arguments: &str, result: &str) -> Option<String> {
    if !CALLS.contains(&name) && !arguments.contains("SIOCINQ") {
        return Some(format!("call {name}"));
    }
    if name == "setsockopt" && !SOCKET_OPTIONS.iter().any(|o| arguments.contains(o)) {
        let option = arguments.split(',').nth(2).unwrap_or_default().trim();
        return Some(format!("socket option {option}"));
    }
    if arguments.contains("MSG_") {
        return Some("flags of send".into());
    }
    (name == "write" && result.starts_with('-')).then(|| "a write that fails".into())
}

/// The value of a sysctl in the script, or that of `defaults.sh`.
pub fn sysctl(lines: &[Line], name: &str, default: &str) -> String {
    let shells = lines
        .iter()
        .filter_map(|l| if let Event::Shell(s) = &l.event { Some(s.as_str()) } else { None });
    let all: String = shells.collect::<Vec<_>>().join("\n");
    let found = all.split(name).nth(1).and_then(|rest| rest.strip_prefix('='));
    let word = found.and_then(|f| f.split(|c: char| !(c.is_alphanumeric() || c == '_')).next());
    word.unwrap_or(default).to_string()
}
