//! Plays packetdrill's scripts against the sender, or the receiver, under the profile `linux`.
//!
//! The scripts are not part of this project. Those of the Linux kernel
//! (`tools/testing/selftests/net/packetdrill`) and of the project packetdrill (`gtests/net/tcp`)
//! are played by
//!
//! ```text
//! LASTHOP_PACKETDRILL=FOLDER cargo test -p lasthop --test scripted packetdrill_scripts -- \
//!     --ignored --nocapture
//! ```
//!
//! which prints a line for each script. What a script says of sockets and of how
//! segments are grouped for offload (TSO) is left out. A script in which the host sends data is
//! played against the sender, one in which it only receives them against the receiver; one that is
//! about neither does not apply.

mod language;
mod python;
mod receiver;
mod scope;
mod stamps;
mod tests;

use std::collections::HashMap;

use lasthop::schemes::catalogue::ProfileKeys;
use lasthop::schemes::catalogue::{AnyWindow, SchemeChoice};
use lasthop::segment::{Flags, Options, Payload, Segment};
use lasthop::tcp::recovery::Phase;
use lasthop::tcp::scoreboard::Marks;
use lasthop::tcp::sender::{Limit, Output, SendReason, Sender, SenderConfig, timestamp};
use lasthop::units::{Duration, Time};

use language::{Event, Line, Packet, parse};
use receiver::ReceiverPlayer;
use scope::{NO_DATA_SENT, out_of_receivers_scope, out_of_scope, sysctl};
use stamps::Stamps;

/// Tolerance of the time at which a packet is sent, seconds (packetdrill's default).
const TOLERANCE: f64 = 0.004;

/// Result of a script.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// The script holds: number of packets and assertions compared, and the line up to which it was
    /// played if the rest cannot be.
    Passes(usize, Option<usize>),
    /// It does not hold at this line.
    Fails(usize, String),
    /// It does not test a sender's data.
    DoesNotApply(String),
}

pub fn play(text: &str) -> Outcome {
    play_with(text, NO_TICKS)
}

/// The same with further keys of `[tcp]`.
pub fn play_with(text: &str, keys: &str) -> Outcome {
    let lines = match parse(text) {
        Ok(lines) => lines,
        Err(e) => return Outcome::DoesNotApply(format!("not understood: {e}")),
    };
    match out_of_scope(&lines) {
        Some(reason) if reason == NO_DATA_SENT => return play_receiver(text, &lines, keys),
        Some(reason) => return Outcome::DoesNotApply(reason),
        None => {}
    }
    let mut player = Player::new(text, &lines, keys);
    for line in &lines {
        if is_end(line) {
            return if player.compared > 0 {
                Outcome::Passes(player.compared, Some(line.number))
            } else {
                Outcome::DoesNotApply(ENDS.into())
            };
        }
        if let Err(message) = player.line(line) {
            return Outcome::Fails(line.number, message);
        }
    }
    Outcome::Passes(player.compared, None)
}

fn play_receiver(text: &str, lines: &[Line], keys: &str) -> Outcome {
    if let Some(reason) = out_of_receivers_scope(lines) {
        return Outcome::DoesNotApply(reason);
    }
    let mut player = ReceiverPlayer::new(text, lines, keys);
    for line in lines {
        if let Err(message) = player.line(line) {
            return Outcome::Fails(line.number, message);
        }
    }
    match player.compared {
        0 => Outcome::DoesNotApply(NO_DATA_SENT.into()),
        compared => Outcome::Passes(compared, None),
    }
}

/// The segment size of a script (`--mss=1000`; packetdrill cuts what arrives into such segments).
fn script_mss(text: &str) -> u32 {
    let rest = text.split_once("--mss=").map_or("", |(_, rest)| rest);
    rest.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(1000)
}

const ENDS: &str = "reset, or a local queue without room";

/// Nothing after this line can be played: the connection is reset, or nothing leaves the host.
fn is_end(line: &Line) -> bool {
    match &line.event {
        Event::In(p) | Event::Out(p) => p.has('R'),
        Event::Shell(command) => command.contains("limit 0"),
        Event::Call(..) | Event::Python(_) => false,
    }
}

/// Everything sent, in the order of sending.
#[derive(Default)]
struct Log {
    now: Time,
    by_timer: bool,
    sent: Vec<(Time, Segment)>,
}

impl Output for Log {
    fn send(&mut self, segment: Segment, reason: SendReason) {
        // Pure ACKs are the receiver's business; what the timer sends without data is a window
        // probe.
        let data = segment.len > 0 || segment.flags.has(Flags::FIN);
        if data
            || (reason == SendReason::Control && self.by_timer && !segment.flags.has(Flags::SYN))
        {
            self.sent.push((self.now, segment));
        }
    }

    fn send_with(&mut self, segment: Segment, _options: &Options, reason: SendReason) {
        self.send(segment, reason);
    }
}

struct Player {
    sender: Sender<AnyWindow>,
    log: Log,
    mss: u32,
    scale: u32,
    window: u32,
    /// Of the connection, not of the listening socket.
    descriptor: String,
    opened: bool,
    established: bool,
    /// How long there was something to send, and how long the receive window kept it back.
    busy: Duration,
    rwnd_limited: Duration,
    /// Script time of the last event, seconds.
    clock: f64,
    matched: usize,
    compared: usize,
    stamps: Stamps,
    variables: HashMap<String, f64>,
}

impl Player {
    fn new(text: &str, lines: &[Line], keys: &str) -> Player {
        let packets = |inbound: bool| {
            lines.iter().find_map(move |l| match &l.event {
                Event::In(p) if inbound && p.has('S') => Some(p),
                Event::Out(p) if !inbound && p.has('S') => Some(p),
                _ => None,
            })
        };
        let peer = packets(true).cloned().unwrap_or_default();
        let own = packets(false).cloned().unwrap_or_default();
        let stamped = peer.stamps().is_some() && own.stamps().is_some();
        let mss = peer.option("mss").unwrap_or(536).min(own.option("mss").unwrap_or(1460))
            - if stamped { 12 } else { 0 };
        let on = |b: bool| if b { "true" } else { "false" };
        let idle = if sysctl(lines, "tcp_slow_start_after_idle", "0") == "0" {
            "off"
        } else {
            "halved-per-rto"
        };
        let sack = on(peer.options.contains("sackOK"));
        let ecn = on(peer.has('E') && own.has('E'));
        let keys = format!(
            "profile = \"linux\"\ntimestamps = {}\nsack = {sack}\necn = {ecn}\nidle_restart = \
             \"{idle}\"\n{keys}",
            on(stamped)
        );
        let keys: ProfileKeys = toml::from_str(&keys).expect("keys of [tcp]");
        let given = keys.profile();
        let scheme = sysctl(lines, "tcp_congestion_control", "cubic");
        let part = SchemeChoice::parse(&scheme).expect("a scheme").sender(&given);
        let profile = part.profile(&given);
        let config = SenderConfig {
            flow: 0,
            to: 0,
            mss,
            headers: 40,
            receive_window: u64::from(peer.window.unwrap_or(65_535)),
            recovery: if profile.sack { part.recovery } else { part.recovery.without_sack() },
            needs: part.needs,
            clock_phase: Duration::ZERO,
            draw: 0,
        };
        Player {
            sender: Sender::new(config, &profile, part.window()),
            log: Log::default(),
            mss,
            scale: peer.option("wscale").unwrap_or(0),
            window: peer.window.unwrap_or(65_535),
            descriptor: String::new(),
            opened: false,
            established: false,
            busy: Duration::ZERO,
            rwnd_limited: Duration::ZERO,
            clock: 0.0,
            matched: 0,
            compared: 0,
            stamps: Stamps::of(text),
            variables: HashMap::new(),
        }
    }

    fn line(&mut self, line: &Line) -> Result<(), String> {
        let (from, to) = line.when.interval(self.clock);
        self.clock = from;
        if let Event::Out(packet) = &line.event {
            return self.expect(packet, from, to);
        }
        self.advance(seconds(from));
        match &line.event {
            Event::In(packet) => self.arrive(packet),
            Event::Call(name, arguments, result) => self.call(name, arguments, result),
            Event::Python(text) => return self.check(text),
            Event::Out(_) | Event::Shell(_) => {}
        }
        Ok(())
    }

    /// Advances the time; timers expire when they are due.
    fn advance(&mut self, to: Time) {
        while self.sender.deadline().0 < to {
            self.fire();
        }
        self.pass(to);
    }

    /// Advances the time; no timer may be due.
    fn pass(&mut self, to: Time) {
        let span = to.since(self.log.now);
        let limit = self.sender.limited_by();
        if self.established && self.sender.written() > self.sender.snd_una() {
            self.busy = self.busy + span;
            self.rwnd_limited = self.rwnd_limited
                + if limit == Limit::ReceiveWindow { span } else { Duration::ZERO };
        }
        self.log.now = self.log.now.max(to);
    }

    fn fire(&mut self) {
        self.pass(self.sender.deadline().0);
        self.log.by_timer = true;
        self.sender.on_timer(self.log.now, &mut self.log);
        self.log.by_timer = false;
    }

    fn arrive(&mut self, packet: &Packet) {
        let now = self.log.now;
        if packet.has('S') && !packet.has('.') {
            return;
        }
        let handshake = !self.established;
        let scale = if packet.has('S') { 0 } else { self.scale };
        self.window = packet.window.map_or(self.window, |w| w << scale);
        let mut options = Options::NONE;
        let stamps = packet.stamps();
        let mut flags = Flags::ACK;
        if stamps.is_some() {
            flags = flags.with(Flags::TIMESTAMPS);
        }
        for (start, end) in packet.sack() {
            options.sack.push(start.saturating_sub(1), end.saturating_sub(1));
            flags = flags.with(Flags::SACK);
        }
        for (letter, flag) in [('E', Flags::ECE), ('F', Flags::FIN)] {
            flags = if packet.has(letter) { flags.with(flag) } else { flags };
        }
        if handshake {
            flags = flags.with(Flags::SYN);
            self.established = true;
        }
        let segment = Segment {
            seq: packet.seq,
            ack: packet.ack.unwrap_or(1).saturating_sub(1),
            id: 0,
            flow: 0,
            len: packet.len as u32,
            size: 40 + packet.len as u32,
            window: self.window,
            ts_value: stamps.map_or(timestamp(now), |(value, _)| Stamps::arrives(value)),
            ts_echo: stamps.map_or(0, |(_, echo)| self.stamps.echo(echo, timestamp(now))),
            payload: Payload::NONE,
            to: 0,
            flags,
            attempt: 1,
            forward: false,
        };
        self.sender.on_segment(now, &segment, &options, &mut self.log);
    }

    fn call(&mut self, name: &str, arguments: &str, result: &str) {
        let now = self.log.now;
        let descriptor = arguments.split(',').next().unwrap_or_default();
        match name {
            "accept" => self.descriptor = result.to_string(),
            "connect" => self.descriptor = descriptor.to_string(),
            "write" | "send" | "sendfile" => {
                let bytes = arguments
                    .split(',')
                    .nth(if name == "sendfile" { 3 } else { 2 })
                    .and_then(|n| n.trim().parse().ok())
                    .unwrap_or(0);
                self.sender.write(now, bytes, &mut self.log);
            }
            // The receiving side alone does not end what the sender sends.
            "shutdown" if arguments.contains("SHUT_RD") && !arguments.contains("SHUT_RDWR") => {}
            "close" | "shutdown" if descriptor == self.descriptor => {
                self.sender.close(now, &mut self.log)
            }
            _ => {}
        }
    }

    /// The host has to send this packet between `from` and `to`, seconds.
    fn expect(&mut self, packet: &Packet, from: f64, to: f64) -> Result<(), String> {
        if packet.has('S') {
            self.advance(seconds(from));
            if !self.opened {
                self.opened = true;
                self.sender.open(self.log.now, &mut self.log);
            }
            let sent = (timestamp(self.log.now), 0);
            return packet
                .stamps()
                .map_or(Ok(()), |(value, _)| self.stamps.compare((value, 0), sent, 0));
        }
        let fin = packet.has('F');
        let probe = packet.len == 0 && !fin && packet.seq <= self.sender.snd_una();
        if packet.len == 0 && !fin && !probe {
            self.advance(seconds(from));
            return Ok(());
        }
        self.compared += 1;
        let (mut at, end) = (packet.seq - 1, packet.seq - 1 + packet.len);
        let (earliest, latest) = (seconds((from - TOLERANCE).max(0.0)), seconds(to + TOLERANCE));
        let mut done = false;
        while !done {
            while self.matched == self.log.sent.len() && self.sender.deadline().0 <= latest {
                self.fire();
            }
            let Some((when, sent)) = self.log.sent.get(self.matched) else {
                return Err(format!(
                    "nothing is sent at {at}; the next timer is due at {:.4} s",
                    self.sender.deadline().0.0 as f64 / 1e9
                ));
            };
            let carried = at + u64::from(sent.len);
            if sent.seq != at || carried > end || (fin && !sent.flags.has(Flags::FIN)) {
                return Err(format!("{}({}) is sent", sent.seq + 1, sent.len));
            }
            if *when < earliest || *when > latest {
                return Err(format!(
                    "{}({}) is sent at {:.4} s",
                    sent.seq + 1,
                    sent.len,
                    when.0 as f64 / 1e9
                ));
            }
            let sent = (sent.ts_value, sent.ts_echo);
            self.matched += 1;
            (at, done) = (carried, carried == end);
            if let Some(expected) = packet.stamps() {
                self.stamps.compare(expected, sent, (TOLERANCE * 1e3) as u32 + 1)?;
            }
        }
        self.pass(seconds(from));
        Ok(())
    }

    fn check(&mut self, text: &str) -> Result<(), String> {
        let (sender, mss, times) =
            (&self.sender, self.mss, [self.busy, self.rwnd_limited].map(|d| d.0 as f64 / 1000.0));
        let info = |name: &str| match name {
            "tcpi_busy_time" => Some(times[0]),
            "tcpi_rwnd_limited" => Some(times[1]),
            _ => tcp_info(sender, mss, name),
        };
        self.compared += python::check(text, &mut self.variables, &info)?;
        Ok(())
    }
}

/// A field of the kernel's `struct tcp_info`.
fn tcp_info(sender: &Sender<AnyWindow>, mss: u32, name: &str) -> Option<f64> {
    let (mut at, mut segments) = (sender.snd_una(), Vec::new());
    while let Some(sent) = sender.sent(at).filter(|_| at < sender.snd_max()) {
        at = sent.end();
        segments.push(sent);
    }
    let marked = |mark: Marks| segments.iter().filter(|s| s.marks.any(mark)).count() as f64;
    let window = sender.window();
    let whole = |bytes: f64| (bytes / f64::from(mss)).floor();
    Some(match name {
        "tcpi_snd_cwnd" => whole(window.cwnd),
        "tcpi_snd_ssthresh" => whole(window.ssthresh).min(f64::from(i32::MAX)),
        "tcpi_unacked" => segments.len() as f64,
        "tcpi_sacked" => marked(Marks::SACKED),
        "tcpi_lost" => marked(Marks::LOST),
        "tcpi_retrans" => marked(Marks::RESENT),
        "tcpi_reordering" => (sender.reordering() / u64::from(mss)).max(3) as f64,
        "tcpi_ca_state" => match sender.phase() {
            Phase::Open if sender.in_cwr() => 2.0,
            Phase::Open if marked(Marks::SACKED) > 0.0 => 1.0,
            Phase::Open => 0.0,
            Phase::Recovery => 3.0,
            Phase::Loss => 4.0,
        },
        _ => return None,
    })
}

fn seconds(t: f64) -> Time {
    Time((t * 1e9).round() as u64)
}

/// Packets are compared at the times that the rules give, which a kernel rounds up to its ticks.
const NO_TICKS: &str = "timer_tick = \"0 s\"\n";

/// Scripts that do not hold, each with the rule of Linux that it is for, and with the keys under
/// which it holds if there are such.
const DIFFERS: [(&str, &str, Option<&str>); 6] = [
    (
        "cubic-bulk-166k",
        "before Linux 5.16 the rounds of `hystart_update` began at 16 segments",
        None,
    ),
    ("cubic-bulk-166k-idle-restart", "the same, and the fq qdisc paces after the pause", None),
    (
        "fr-4pkt-fack-last-mss",
        "before Linux 6.6 RACK's timer was due two ticks (of 4 ms) later, not 2 ms",
        Some("timer_tick = \"4 ms\"\nprobe_slack = \"8 ms\"\n"),
    ),
    (
        "cwnd-moderation-ecn-enter-cwr-no-moderation-700",
        "an ACK of new data releases two segments (`tcp_cwnd_reduction`, FLAG_SND_UNA_ADVANCED)",
        None,
    ),
    (
        "tcp_ooo_rcv_mss",
        "the kernel takes `scaling_ratio` from a frame of 9000 bytes, the profile from 1500",
        None,
    ),
    ("tcp_rcv_neg_window", "the ACK of data that exceed the window waits 40 ms in Linux", None),
];

#[test]
#[ignore = "needs LASTHOP_PACKETDRILL"]
fn packetdrill_scripts() {
    let folder = std::env::var("LASTHOP_PACKETDRILL")
        .expect("LASTHOP_PACKETDRILL names the folder of the scripts");
    let entries = std::fs::read_dir(&folder).expect("the folder can be read");
    let mut files: Vec<_> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "pkt"))
        .collect();
    files.sort();
    let (mut passed, mut differed, mut left_out, mut surprises) = (0, 0, 0, Vec::new());
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let known = DIFFERS.iter().find(|d| name.ends_with(d.0));
        let text = std::fs::read_to_string(&file).expect("a text");
        match play(&text) {
            Outcome::Passes(compared, end) => {
                passed += 1;
                let part = end.map_or(String::new(), |l| format!(" up to line {l}"));
                println!("passes{part}: {name} ({compared} compared)");
                surprises.extend(known.map(|_| name));
            }
            Outcome::Fails(line, message) => {
                differed += 1;
                println!(
                    "differs: {name}, line {line}: {message}; {}",
                    known.map_or("unexpected", |k| k.1)
                );
                if let Some(keys) = known.and_then(|k| k.2) {
                    let outcome = play_with(&text, keys);
                    println!("    with {}: {outcome:?}", keys.trim().replace('\n', ", "));
                    assert!(matches!(outcome, Outcome::Passes(..)), "{name} with its keys");
                }
                surprises.extend(known.is_none().then_some(name));
            }
            Outcome::DoesNotApply(reason) => {
                left_out += 1;
                println!("does not apply: {name}: {reason}");
            }
        }
    }
    println!("{passed} pass, {differed} differ, {left_out} do not apply");
    assert!(passed > 0, "no script of {folder} applies");
    assert!(surprises.is_empty(), "not as listed in DIFFERS: {}", surprises.join(", "));
}
