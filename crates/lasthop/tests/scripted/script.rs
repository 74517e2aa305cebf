//! Scripts that say what arrives at a sender and what it must send, in the manner of packetdrill.
//!
//! The connection is set up before the script begins: the SYN's answer comes after 100 ms, and
//! nothing has been written. Segments have 1000 bytes; offsets are bytes, windows segments, times
//! seconds. Timers are exact unless the script sets `timer_tick`. A line does or expects one thing:
//!
//! | line | meaning |
//! | --- | --- |
//! | `scheme reno:recovery=newreno+f-rto` | the scheme (at the top; `newreno` unless said) |
//! | `profile linux` | the profile (at the top; `rfc` unless said) |
//! | `set min_rto = "200 ms"` | a key of `[tcp]` (at the top) |
//! | `window 20` | receive window in segments, 1000 unless said (at the top) |
//! | `unconnected` | the script begins when the connection is opened, not with an established one (at the top) |
//! | `listening` | the script begins before the receiver opens the connection (at the top) |
//! | `write 10`, `write endless`, `close` | what the application does |
//! | `hold`, `resume` | what a relay does |
//! | `+0.1 < ack 3000` | an ACK arrives 0.1 s after the line before; further words: see below |
//! | `+0.1 < syn-ack of 2` | the SYN-ACK arrives; with timestamps it echoes that of the second SYN |
//! | `+0.1 < syn`, `< syn rtx` | the receiver's SYN arrives, or its retransmission |
//! | `+0.1 < ack-of-syn-ack 2` | its ACK arrives; with timestamps it echoes that of the second SYN-ACK |
//! | `+0.1 < rst` | a reset arrives |
//! | `+0.1 < notice eln 3000`, `< notice ersn 3000 ago 0.05` | a notice arrives, made now or so long ago: its kind and its value |
//! | `timer`, `+1 timer` | the sender's timer fires: whenever it is due, or exactly so much later |
//! | `> 3000..6000` | three new segments are sent: 3000, 4000 and 5000 |
//! | `> 3000 rtx, 9000, fin` | 3000 is sent again, then 9000 for the first time, then the FIN |
//! | `> syn`, `> syn rtx`, `> syn-ack` | the SYN is sent, or sent again; the SYN-ACK is sent |
//! | `> rst` | a reset is sent (only if the script is `listening`) |
//! | `> 9000 fin` | 9000 is sent, with the FIN |
//! | `> *` | whatever is sent |
//! | `= cwnd 5 ssthresh 5` | what the sender's state is; words: cwnd, ssthresh, srtt, rto, timeouts, fast, reductions, retransmissions, undone, dupacks, eln, ersn, ignored, held, deadline (seconds from now, 0: none), state |
//! | `# text` | a comment, after any line |
//!
//! Whatever is sent must be expected: an event without a `>` line after it sends nothing. A timer
//! that is due before an ACK comes must have its own line.
//!
//! Words of an ACK: `sack 4000-5000,7000-8000`, `dsack 0-1000` (goes first), `ece`, `eln`,
//! `of_segment 3000` (the segment that it names), `snack 1000-2000,4000-5000` (what it asks for),
//! `win 10` (segments, kept from then on), and with timestamps `of 3000` (the segment whose stamp
//! it echoes, as it was first sent) or `of 3000#2` (its second transmission). Without `of` that is
//! the last transmission of the segment just below the ACK number, as a receiver does in whose
//! window nothing is missing (RFC 7323, section 4.3).

use std::str::FromStr;

use lasthop::schemes::catalogue::ProfileKeys;
use lasthop::schemes::catalogue::{AnyWindow, SchemeChoice};
use lasthop::segment::{Block, Flags, Notice, NoticeKind, Options, Payload, Segment};
use lasthop::snack::Snack;
use lasthop::tcp::profile::Profile;
use lasthop::tcp::sender::{Output, SendReason, Sender, SenderConfig, timestamp};
use lasthop::units::{Duration, Time};

/// Payload bytes of a full segment.
const MSS: u32 = 1000;
/// The round trip of the handshake.
const HANDSHAKE: Duration = Duration(100_000_000);

/// Plays a script; panics with the line that does not hold.
#[track_caller]
pub fn play(script: &str) {
    if let Err(message) = Player::run(script) {
        panic!("{message}");
    }
}

/// The error of a script that does not hold.
pub fn complaint(script: &str) -> String {
    Player::run(script).err().unwrap_or_default()
}

/// All segments sent; `expected` counts those that the script has matched.
#[derive(Default)]
struct Log {
    sent: Vec<Segment>,
    expected: usize,
    /// SYNs and resets are listed, too.
    lists_syns: bool,
}

impl Output for Log {
    fn send(&mut self, segment: Segment, _cause: SendReason) {
        // Scripts list data segments and FINs only, and SYNs if they begin with one.
        let is_syn = self.lists_syns && segment.flags.any(Flags::SYN.with(Flags::RST));
        if segment.len > 0 || segment.flags.has(Flags::FIN) || is_syn {
            self.sent.push(segment);
        }
    }

    fn send_with(&mut self, segment: Segment, _options: &Options, reason: SendReason) {
        self.send(segment, reason);
    }
}

impl Log {
    /// The timestamp of transmission `n` (from 1) of the segment that contains `seq`; `None` for
    /// the last one.
    fn stamp(&self, seq: u64, n: Option<usize>) -> Option<u32> {
        let mut copies = self.sent.iter().filter(|s| s.seq <= seq && seq < s.end());
        let copy = match n {
            Some(n) => copies.nth(n.checked_sub(1)?),
            None => copies.next_back(),
        };
        copy.map(|s| s.ts_value)
    }

    fn unexpected(&self) -> Vec<String> {
        self.sent[self.expected..].iter().map(describe).collect()
    }
}

fn describe(s: &Segment) -> String {
    let again = if s.attempt > 1 { " rtx" } else { "" };
    let fin = if s.flags.has(Flags::FIN) { " fin" } else { "" };
    match s.len {
        0 if s.flags.has(Flags::SYN.with(Flags::ACK)) => format!("syn-ack{again}"),
        0 if s.flags.has(Flags::SYN) => format!("syn{again}"),
        0 if s.flags.has(Flags::RST) => "rst".into(),
        0 => format!("fin{again}"),
        MSS => format!("{}{fin}{again}", s.seq),
        len => format!("{}+{len}{fin}{again}", s.seq),
    }
}

struct Player {
    sender: Sender<AnyWindow>,
    profile: Profile,
    log: Log,
    now: Time,
    window: u32,
}

impl Player {
    fn run(script: &str) -> Result<(), String> {
        let lines =
            script.lines().map(|l| strip_comment(l).trim()).enumerate().map(|(i, l)| (i + 1, l));
        let lines: Vec<(usize, &str)> = lines.filter(|(_, l)| !l.is_empty()).collect();
        let is_head = |l: &str| {
            matches!(l, "unconnected" | "listening")
                || ["scheme ", "profile ", "set ", "window "].iter().any(|w| l.starts_with(w))
        };
        let (head, body) =
            lines.split_at(lines.iter().position(|(_, l)| !is_head(l)).unwrap_or(lines.len()));
        let mut player = Player::set_up(head)?;
        for (number, line) in body {
            player.line(line).map_err(|e| format!("line {number}, `{line}`: {e}"))?;
        }
        player.nothing_left().map_err(|e| format!("at the end: {e}"))
    }

    /// An established connection whose clock starts at the answer to the SYN.
    fn set_up(head: &[(usize, &str)]) -> Result<Player, String> {
        let (mut scheme, mut profile, mut window, mut keys) =
            ("newreno", "rfc", 1000, String::new());
        for (_, line) in head {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("scheme", name) => scheme = name.trim(),
                ("profile", name) => profile = name.trim(),
                ("window", n) => window = number(n)?,
                ("unconnected" | "listening", _) => {}
                (_, key) => keys = keys + key + "\n",
            }
        }
        let keys: ProfileKeys = toml::from_str(&format!("profile = \"{profile}\"\n{keys}"))
            .map_err(|e| e.to_string())?;
        let mut given = keys.profile();
        if !head.iter().any(|(_, line)| line.contains("timer_tick")) {
            given.timer_tick = Duration::ZERO;
        }
        let part = SchemeChoice::parse(scheme)?.sender(&given);
        let profile = part.profile(&given);
        let config = SenderConfig {
            flow: 0,
            to: 0,
            mss: MSS,
            headers: 40,
            receive_window: u64::from(window * MSS),
            recovery: part.recovery,
            needs: part.needs,
            clock_phase: Duration::ZERO,
            draw: 0,
        };
        let sender = Sender::new(config, &profile, part.window());
        let unconnected = head.iter().any(|(_, line)| *line == "unconnected");
        let listening = head.iter().any(|(_, line)| *line == "listening");
        let log = Log { lists_syns: unconnected || listening, ..Log::default() };
        let mut player = Player { sender, profile, log, now: Time::ZERO, window: window * MSS };
        if listening {
            player.sender.listen();
        }
        player.sender.open(Time::ZERO, &mut player.log);
        if unconnected || listening {
            return Ok(player);
        }
        player.now = Time::ZERO + HANDSHAKE;
        let answer =
            Segment { flags: Flags::ACK.with(Flags::SYN), ..player.ack(0, timestamp(Time::ZERO)) };
        player.sender.on_segment(player.now, &answer, &Options::NONE, &mut player.log);
        Ok(player)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (after, rest) =
            match line.strip_prefix('+').map(|l| l.split_once(' ').unwrap_or((l, ""))) {
                Some((t, rest)) => (Some(Duration::from_secs_f64(number(t)?)), rest.trim()),
                None => (None, line),
            };
        let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            ">" => return self.expect_sent(rest),
            "=" => {
                self.nothing_left()?;
                return self.expect_state(rest);
            }
            _ => self.nothing_left()?,
        }
        if word == "timer" {
            return self.fire(after);
        }
        self.pass(after.unwrap_or(Duration::ZERO))?;
        let now = self.now;
        match (word, rest) {
            ("<", what) => return self.arrive(what),
            ("write", "endless") => self.sender.write(now, u64::MAX, &mut self.log),
            ("write", n) => {
                self.sender.write(now, number::<u64>(n)? * u64::from(MSS), &mut self.log)
            }
            ("hold", "") => self.sender.hold(),
            ("resume", "") => self.sender.resume(now, 0, &mut self.log),
            ("close", "") => self.sender.close(now, &mut self.log),
            _ => return Err("no such line".into()),
        }
        Ok(())
    }

    /// Advances the time; no timer may be due.
    fn pass(&mut self, span: Duration) -> Result<(), String> {
        let due = self.sender.deadline().0;
        self.now += span;
        if due < self.now {
            return Err(format!("a timer is due {} s earlier", (self.now - due).as_secs()));
        }
        Ok(())
    }

    fn fire(&mut self, after: Option<Duration>) -> Result<(), String> {
        let due = self.sender.deadline().0;
        if due == Time::NEVER {
            return Err("no timer is running".into());
        }
        let waited = due.since(self.now);
        if after.is_some_and(|a| a.0.abs_diff(waited.0) > 1000) {
            return Err(format!("the timer is due after {} s", waited.as_secs()));
        }
        self.now = self.now.max(due);
        self.sender.on_timer(self.now, &mut self.log);
        Ok(())
    }

    fn ack(&self, ack: u64, ts_echo: u32) -> Segment {
        let stamped = if self.profile.timestamps { Flags::TIMESTAMPS } else { Flags::NONE };
        Segment {
            seq: 0,
            ack,
            id: 0,
            flow: 0,
            len: 0,
            size: 40,
            window: self.window,
            ts_value: timestamp(self.now),
            ts_echo,
            payload: Payload::NONE,
            to: 0,
            flags: Flags::ACK.with(stamped),
            attempt: 1,
            forward: false,
        }
    }

    fn arrive(&mut self, what: &str) -> Result<(), String> {
        if let Some(notice) = what.strip_prefix("notice ") {
            return self.notice(notice);
        }
        if let Some(of) = what.strip_prefix("syn-ack of ") {
            return self.syn_ack(number(of)?);
        }
        if let Some(n) = what.strip_prefix("ack-of-syn-ack ") {
            return self.opening(Flags::ACK, number(n)?);
        }
        match what {
            "syn" | "syn rtx" => return self.opening(Flags::SYN, 0),
            "rst" => return self.opening(Flags::RST, 0),
            _ => {}
        }
        let (mut ack, mut flags, mut of, mut named) = (None, Flags::NONE, None, 0);
        let (mut duplicate, mut sack, mut asked) = ("", "", "");
        let mut words = what.split_whitespace();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
            match word {
                "ack" => ack = Some(number::<u64>(value()?)?),
                "sack" => (sack, flags) = (value()?, flags.with(Flags::SACK)),
                "dsack" => {
                    (duplicate, flags) = (value()?, flags.with(Flags::SACK).with(Flags::DSACK))
                }
                "ece" => flags = flags.with(Flags::ECE),
                "eln" => flags = flags.with(Flags::ELN),
                "snack" => (asked, flags) = (value()?, flags.with(Flags::SNACK)),
                "of_segment" => (named, flags) = (number(value()?)?, flags.with(Flags::NAMED)),
                "win" => self.window = number::<u32>(value()?)? * MSS,
                "of" => of = Some(value()?),
                _ => return Err(format!("an ACK has no `{word}`")),
            }
        }
        let ack = ack.ok_or("no ACK number")?;
        let stamp = match of.map(|o| o.split_once('#').unwrap_or((o, "1"))) {
            Some((seq, n)) => {
                self.log.stamp(number(seq)?, Some(number(n)?)).ok_or("`of` something never sent")?
            }
            None => self.log.stamp(ack.saturating_sub(1), None).unwrap_or_default(),
        };
        let mut options = Options { named, ..Options::NONE };
        for block in [duplicate, sack].iter().flat_map(|b| b.split(',')).filter(|b| !b.is_empty()) {
            let (start, end) = block
                .split_once('-')
                .ok_or(format!("`{block}` is not a block such as 4000-5000"))?;
            options.sack.push(number(start)?, number(end)?);
        }
        let holes = asked
            .split(',')
            .filter_map(|h| h.split_once('-'))
            .map(|(start, end)| Ok(Block { start: number(start)?, end: number(end)? }));
        options.snack = Snack::of(holes.collect::<Result<Vec<_>, String>>()?.into_iter(), MSS)
            .unwrap_or_default();
        let segment = self.ack(ack, stamp);
        let segment = Segment { flags: segment.flags.with(flags), ..segment };
        self.sender.on_segment(self.now, &segment, &options, &mut self.log);
        Ok(())
    }

    /// The answer to SYN number `n`.
    fn syn_ack(&mut self, n: usize) -> Result<(), String> {
        let syn = self.log.sent.iter().filter(|s| s.flags.has(Flags::SYN)).nth(n.wrapping_sub(1));
        let ack = self.ack(0, syn.ok_or("no such SYN")?.ts_value);
        let segment = Segment { flags: ack.flags.with(Flags::SYN), ..ack };
        self.sender.on_segment(self.now, &segment, &Options::NONE, &mut self.log);
        Ok(())
    }

    /// A segment of a receiver that opens the connection; `n`: the SYN-ACK that it echoes, if any.
    fn opening(&mut self, flags: Flags, n: usize) -> Result<(), String> {
        let syn_acks = self.log.sent.iter().filter(|s| s.flags.has(Flags::SYN));
        let stamp = match n {
            0 => 0,
            n => syn_acks.map(|s| s.ts_value).nth(n - 1).ok_or("no such SYN-ACK")?,
        };
        let ack = self.ack(0, stamp);
        let segment = Segment { flags: ack.flags.without(Flags::ACK).with(flags), ..ack };
        self.sender.on_segment(self.now, &segment, &Options::NONE, &mut self.log);
        Ok(())
    }

    fn notice(&mut self, what: &str) -> Result<(), String> {
        let words: Vec<&str> = what.split_whitespace().collect();
        let (kind, value, ago) = match words[..] {
            [kind, value] => (kind, value, "0"),
            [kind, value, "ago", ago] => (kind, value, ago),
            _ => return Err("expected `notice eln 3000` or `notice eln 3000 ago 0.05`".into()),
        };
        let kind = NoticeKind::ALL
            .into_iter()
            .find(|k| k.name() == kind)
            .ok_or("no such kind of notice")?;
        let stamp = Time(self.now.0 - Duration::from_secs_f64(number(ago)?).0);
        self.sender.on_notice(
            self.now,
            &Notice { kind, flow: 0, value: number(value)?, stamp },
            &mut self.log,
        );
        Ok(())
    }

    fn expect_sent(&mut self, what: &str) -> Result<(), String> {
        if what == "*" {
            self.log.expected = self.log.sent.len();
            return Ok(());
        }
        let wanted = expand(what)?;
        let found = self.log.unexpected();
        self.log.expected = self.log.sent.len();
        if wanted == found { Ok(()) } else { Err(format!("found: {}", found.join(", "))) }
    }

    fn nothing_left(&self) -> Result<(), String> {
        let left = self.log.unexpected();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("before it was sent and not expected: {}", left.join(", ")))
        }
    }

    fn expect_state(&self, what: &str) -> Result<(), String> {
        let (sender, mss) = (&self.sender, f64::from(MSS));
        let (window, counters) = (sender.window(), sender.counters());
        let mut words = what.split_whitespace();
        while let Some(word) = words.next() {
            let wanted = words.next().ok_or(format!("`{word}` needs a value"))?;
            if word == "state" {
                let found = format!("{:?}", sender.state()).to_lowercase();
                if found != wanted {
                    return Err(format!("state is {found}"));
                }
                continue;
            }
            let found = match word {
                "cwnd" => window.cwnd / mss,
                "ssthresh" => window.ssthresh / mss,
                "srtt" => sender.rto().srtt().map_or(f64::NAN, Duration::as_secs),
                "rto" => sender.rto().rto().as_secs(),
                "deadline" if sender.deadline().0 == Time::NEVER => 0.0,
                "deadline" => sender.deadline().0.since(self.now).as_secs(),
                "timeouts" => counters.timeouts as f64,
                "fast" => counters.fast_retransmits as f64,
                "reductions" => counters.reductions as f64,
                "retransmissions" => counters.retransmissions as f64,
                "undone" => counters.undone as f64,
                "dupacks" => f64::from(sender.dupacks()),
                "eln" => counters.eln as f64,
                "ersn" => counters.ersn as f64,
                "ignored" => counters.notices_ignored as f64,
                "held" => counters.timeouts_held as f64,
                _ => return Err(format!("the state has no `{word}`")),
            };
            let wanted: f64 = number(wanted)?;
            // Values are compared with the precision of three decimals.
            if found != wanted && (found - wanted).abs() >= 0.0005 {
                return Err(format!("{word} is {found}"));
            }
        }
        Ok(())
    }
}

/// A comment begins with a # after a blank: `3000#2` is a transmission.
fn strip_comment(line: &str) -> &str {
    match line.find(" #") {
        Some(at) => &line[..at],
        None if line.trim_start().starts_with('#') => "",
        None => line,
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a number that can stand here"))
}

/// "3000..6000, 9000 rtx" as single segments.
fn expand(what: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for item in what.split(',').map(str::trim) {
        let (range, suffix) = item.strip_suffix(" rtx").map_or((item, ""), |r| (r, " rtx"));
        match range.split_once("..") {
            Some((from, to)) => all.extend(
                (number::<u64>(from)?..number(to)?)
                    .step_by(MSS as usize)
                    .map(|s| format!("{s}{suffix}")),
            ),
            None => all.push(format!("{range}{suffix}")),
        }
    }
    Ok(all)
}
