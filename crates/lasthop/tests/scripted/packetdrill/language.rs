//! The part of packetdrill's language that concerns a sender: timed packets, system calls,
//! assertions on `tcp_info` and shell commands. Everything else is stored as text; the player
//! decides whether it matters.

/// One event of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Line of the file at which it begins, from 1.
    pub number: usize,
    /// Time of the event.
    pub when: When,
    /// The event.
    pub event: Event,
}

/// Time of an event, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Minimum and maximum time after the previous event.
    After(f64, f64),
    /// Time after the start of the script.
    At(f64),
    /// Any time.
    Any,
}

impl When {
    /// Earliest and latest time of an event that follows one at `clock`.
    pub fn interval(self, clock: f64) -> (f64, f64) {
        match self {
            When::After(from, to) => (clock + from, clock + to),
            When::At(t) => (t, t),
            When::Any => (clock, clock + 100.0),
        }
    }
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A packet reaches the host under test.
    In(Packet),
    /// The host under test has to send this.
    Out(Packet),
    /// A system call: its name, its arguments and its result.
    Call(String, String, String),
    /// Python: assertions on `tcp_info`.
    Python(String),
    /// A shell command.
    Shell(String),
}

/// A TCP segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Packet {
    /// Its flags as letters, such as `P.` or `SEW`.
    pub flags: String,
    /// First sequence number, relative to the initial one.
    pub seq: u64,
    /// Payload bytes.
    pub len: u64,
    /// Acknowledgment number.
    pub ack: Option<u64>,
    /// Window field, not scaled.
    pub window: Option<u32>,
    /// TCP options.
    pub options: String,
}

impl Packet {
    /// True if the flag is set.
    pub fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    /// The number after `name` in the options.
    pub fn option(&self, name: &str) -> Option<u32> {
        let rest = self.options.split(',').find_map(|o| o.trim().strip_prefix(name))?;
        rest.trim().parse().ok()
    }

    /// TSval and TSecr.
    pub fn stamps(&self) -> Option<(u32, u32)> {
        let option = self.options.split(',').find_map(|o| o.trim().strip_prefix("TS val "))?;
        let (value, echo) = option.split_once(" ecr ")?;
        Some((value.trim().parse().ok()?, echo.trim().parse().ok()?))
    }

    /// The blocks of the SACK option.
    pub fn sack(&self) -> Vec<(u64, u64)> {
        let option = self.options.split(',').find_map(|o| o.trim().strip_prefix("sack "));
        let blocks = option.unwrap_or_default().split_whitespace();
        let pair =
            |b: &str| b.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        blocks.filter_map(pair).collect()
    }
}

/// The events of a script.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    let (mut pending, mut begun) = (String::new(), 0);
    for (i, raw) in text.lines().enumerate() {
        let in_shell = pending.matches('`').count() % 2 == 1;
        let part = if in_shell { raw } else { raw.split("//").next().unwrap_or_default() };
        if pending.is_empty() {
            begun = i + 1;
        } else {
            pending.push('\n');
        }
        pending += part;
        if pending.trim().is_empty() || pending.trim().starts_with("--") {
            pending.clear();
        } else if is_whole(&pending) {
            lines.push(event(begun, pending.trim()).map_err(|e| format!("line {begun}: {e}"))?);
            pending.clear();
        }
    }
    if pending.is_empty() { Ok(lines) } else { Err(format!("line {begun}: it does not end")) }
}

fn is_whole(text: &str) -> bool {
    let count = |what: &str| text.matches(what).count();
    count("`") % 2 == 0
        && count("%{") == count("}%")
        && (count("%{") > 0 || count("`") > 0 || count("(") == count(")"))
}

fn event(number: usize, text: &str) -> Result<Line, String> {
    // The time of `+.002 ... 0.004 connect(…)` contains blanks.
    let joined = text.replacen(" ... ", "...", 1);
    let spaced = text
        .split_once(" ... ")
        .is_some_and(|(from, _)| from.trim_start_matches('+').parse::<f64>().is_ok());
    let (when, rest) = time(if spaced { &joined } else { text })?;
    let event = if let Some(shell) = rest.strip_prefix('`') {
        Event::Shell(shell.trim_end_matches('`').to_string())
    } else if let Some(python) = rest.strip_prefix("%{") {
        Event::Python(python.split("}%").next().unwrap_or_default().to_string())
    } else if let Some(packet) = rest.strip_prefix('<') {
        Event::In(self::packet(packet)?)
    } else if let Some(packet) = rest.strip_prefix('>') {
        Event::Out(self::packet(packet)?)
    } else {
        call(rest)?
    };
    Ok(Line { number, when, event })
}

/// `+.1`, `+.3~+.310`, `+0...0.010` or `0`, and the rest. Without a time the event follows at once.
fn time(text: &str) -> Result<(When, &str), String> {
    if text.starts_with(['`', '%']) {
        return Ok((When::After(0.0, 0.0), text));
    }
    if let Some(rest) = text.strip_prefix('*') {
        return Ok((When::Any, rest.trim_start()));
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || "+.~".contains(c))).unwrap_or(text.len());
    let (time, rest) = text.split_at(end);
    let seconds =
        |t: &str| t.trim_start_matches('+').parse::<f64>().map_err(|_| format!("`{t}` is no time"));
    let when = if let Some((from, _)) = time.split_once("...") {
        When::After(seconds(from)?, seconds(from)?)
    } else if let Some((from, to)) = time.split_once('~') {
        When::After(seconds(from)?, seconds(to)?)
    } else if time.starts_with('+') || time.starts_with('.') {
        When::After(seconds(time)?, seconds(time)?)
    } else {
        When::At(seconds(time)?)
    };
    Ok((when, rest.trim_start()))
}

/// `P. 1:1001(1000) ack 1 win 257 <sack 1:2,nop,nop>`, with IP's ECN bits in brackets before it.
fn packet(text: &str) -> Result<Packet, String> {
    let mut p = Packet::default();
    let text = text.trim();
    let text =
        if text.starts_with('[') { text.split_once(']').map_or(text, |t| t.1) } else { text };
    let (fields, options) = text.split_once('<').unwrap_or((text, ""));
    p.options = options.trim_end_matches('>').to_string();
    let mut words = fields.split_whitespace();
    p.flags = words.next().unwrap_or_default().to_string();
    let range = words.next().unwrap_or_default();
    let numbers =
        range.split_once(':').and_then(|(seq, rest)| Some((seq, rest.split_once('(')?.1)));
    let (seq, len) = numbers.ok_or_else(|| format!("`{range}` is no range of sequence numbers"))?;
    let number =
        |t: &str| t.trim_end_matches(')').parse::<u64>().map_err(|_| format!("`{t}` is no number"));
    (p.seq, p.len) = (number(seq)?, number(len)?);
    while let Some(word) = words.next() {
        match (word, words.next()) {
            ("ack", Some(n)) => p.ack = Some(number(n)?),
            ("win", Some(n)) => p.window = Some(number(n)? as u32),
            _ => {}
        }
    }
    Ok(p)
}

fn call(text: &str) -> Result<Event, String> {
    let (name, rest) = text.split_once('(').ok_or_else(|| format!("`{text}` is no event"))?;
    let (arguments, result) = rest.rsplit_once('=').unwrap_or((rest, ""));
    let arguments = arguments.trim().trim_end_matches(')');
    Ok(Event::Call(name.trim().to_string(), arguments.to_string(), result.trim().to_string()))
}

#[test]
fn a_script_is_read_line_by_line() {
    let text = "// words\n`./defaults.sh\nsysctl -q net.ipv4.tcp_ecn=2`\n   0 socket(..., A, B) = \
                3\n+.1 < [ect1] SEW 0:0(0) win 9 <mss 1000,sackOK,wscale 7>  // more\n+.3~+.31 > \
                P. 1:1001(1000) ack 1\n+0 %{\nassert a == 1, a\n}%\n+.1 < . 1:1(0) ack 1 win 257 \
                <sack 2:3 5:7,nop,nop>\n";
    let lines = parse(text).unwrap();
    let numbers: Vec<usize> = lines.iter().map(|l| l.number).collect();
    assert_eq!(numbers, [2, 4, 5, 6, 7, 10]);
    let Event::In(syn) = &lines[2].event else { panic!("{:?}", lines[2]) };
    assert_eq!(
        (syn.option("mss"), syn.option("wscale"), syn.has('E'), syn.window),
        (Some(1000), Some(7), true, Some(9))
    );
    assert_eq!(lines[3].when, When::After(0.3, 0.31));
    let Event::In(ack) = &lines[5].event else { panic!("{:?}", lines[5]) };
    assert_eq!((ack.ack, ack.sack()), (Some(1), vec![(2, 3), (5, 7)]));
    let waits = parse("+.002 ... 0.004 connect(4, ..., ...) = 0\n * > . 1:1(0) ack 1").unwrap();
    assert_eq!((waits[0].when, waits[1].when), (When::After(0.002, 0.002), When::Any));
    assert!(matches!(&waits[0].event, Event::Call(name, ..) if name == "connect"));
    assert!(parse("+.1 < . 1:1(0) ack x").unwrap_err().contains("`x` is no number"));
}
