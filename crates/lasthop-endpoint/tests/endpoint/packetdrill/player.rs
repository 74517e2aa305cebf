//! A script, event by event, against a host.

use std::collections::VecDeque;
use std::hash::RandomState;
use std::net::SocketAddr;

use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::Flags;
use lasthop::tcp::profile::{Profile, ProfileName};
use lasthop::units::{Duration, Time};
use lasthop_endpoint::{ConnectionId, End, Endpoint, Host, Listening, Settings};
use lasthop_wire::parse;

use super::language::{self, Event, Line, Packet};
use super::wire::Numbers;

/// Tolerance of the time at which a packet is sent (packetdrill's default).
const TOLERANCE: f64 = 0.004;
/// What endpoints or the language have no counterpart of.
const BEYOND: [&str; 26] = [
    ",FO",
    "<FO",
    "FASTOPEN",
    "fastopen",
    "ZEROCOPY",
    "epoll",
    "poll(",
    "TIMESTAMP",
    "TCP_INQ",
    "TCP_CORK",
    "TCP_NODELAY",
    "MSG_",
    "MD5",
    "md5",
    "icmp",
    "mtu_prob",
    "TCP_MAXSEG",
    "NOTSENT",
    "splice",
    "udp",
    "tc qdisc",
    "flowlabel",
    "CORK",
    "sendfile",
    "EFAULT",
    "ENOTCONN",
];

/// Result of a script.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// It holds; packets and results that were compared.
    Passes(usize),
    /// It does not hold at this line.
    Differs(usize, String),
    /// It is about something else.
    DoesNotApply(String),
}

/// Plays a script.
pub fn play(text: &str) -> Outcome {
    let lines = match language::parse(text) {
        Ok(lines) => lines,
        Err(e) => return Outcome::DoesNotApply(format!("not understood: {e}")),
    };
    if let Some(what) = BEYOND.iter().find(|what| text.contains(**what)) {
        return Outcome::DoesNotApply((*what).to_string());
    }
    let syn_data = |l: &Line| matches!(&l.event, Event::In(p) if p.has('S') && p.len > 0);
    if lines.iter().any(syn_data) {
        return Outcome::DoesNotApply("data in a SYN".into());
    }
    let opened =
        lines.iter().filter(|l| matches!(&l.event, Event::In(p) if p.flags == "S" && p.seq == 0));
    if opened.count() > 1 {
        return Outcome::DoesNotApply("several connections".into());
    }
    let mut player = Player::new(&lines);
    for line in &lines {
        if let Err(found) = player.line(line) {
            return Outcome::Differs(line.number, found);
        }
    }
    match (player.compared, &player.reading) {
        (_, Some(read)) => Outcome::Differs(0, format!("a read waits: {read:?}")),
        (0, None) => Outcome::DoesNotApply("nothing to compare".into()),
        (compared, None) => Outcome::Passes(compared),
    }
}

struct Player {
    host: Host,
    id: ConnectionId,
    numbers: Numbers,
    now: Time,
    clock: f64,
    sent: VecDeque<(Time, Vec<u8>)>,
    /// Descriptors of the connection.
    descriptor: String,
    resets_on_close: bool,
    /// A read returns at once.
    reads_no_more: bool,
    /// A read that waits for these bytes.
    reading: Option<usize>,
    compared: usize,
}

impl Player {
    fn new(lines: &[Line]) -> Player {
        let local = SocketAddr::new([192, 0, 2, 1].into(), 8080);
        let remote = SocketAddr::new([192, 0, 2, 2].into(), 40_000);
        let has = |name: &str| {
            lines.iter().any(|l| matches!(&l.event, Event::Call(call, ..) if call == name))
        };
        let ecn = lines.iter().any(|l| match &l.event {
            Event::In(packet) | Event::Out(packet) => packet.flags == "SEW",
            _ => false,
        });
        // Packets are compared at the times that the rules give, which a kernel rounds to ticks.
        let linux = Profile::named(ProfileName::Linux);
        let user_timeout = lines.iter().find_map(|l| match &l.event {
            Event::Call(_, words, _) if words.contains("TCP_USER_TIMEOUT") => {
                let milliseconds = words.split_once('[')?.1.split_once(']')?.0.parse().ok()?;
                Some(Duration::millis(milliseconds))
            }
            _ => None,
        });
        let user_timeout = user_timeout.unwrap_or(linux.user_timeout);
        // SO_RCVBUF fixes the buffer: whole segments of half of what the kernel reserves.
        let fixed = lines.iter().find_map(|l| match &l.event {
            Event::Call(_, words, _) => {
                let bytes: u64 =
                    words.split_once("SO_RCVBUF, [")?.1.split_once(']')?.0.parse().ok()?;
                Some(bytes - bytes % 1460)
            }
            _ => None,
        });
        let profile = Profile {
            timer_tick: Duration::ZERO,
            ecn,
            user_timeout,
            receive_window_grows: fixed.is_none(),
            ..linux
        };
        let shell = |what: &str| {
            lines.iter().any(|l| matches!(&l.event, Event::Shell(text) if text.contains(what)))
        };
        let scheme = if shell("tcp_congestion_control=reno") { "reno" } else { "cubic" };
        let settings = Settings {
            receive_buffer: fixed.unwrap_or(540_000),
            hides_clock: false,
            ..Settings::new(SchemeChoice::parse(scheme).expect("a scheme"), profile)
        };
        let listening = match has("listen") {
            true => Listening::At([local].into()),
            false => Listening::Nowhere,
        };
        Player {
            host: Host::new(settings, listening, RandomState::new()),
            id: ConnectionId { local, remote },
            numbers: Numbers::default(),
            now: Time::ZERO,
            clock: 0.0,
            sent: VecDeque::new(),
            descriptor: String::new(),
            resets_on_close: false,
            reads_no_more: false,
            reading: None,
            compared: 0,
        }
    }

    fn line(&mut self, line: &Line) -> Result<(), String> {
        let (from, to) = line.when.interval(self.clock);
        self.clock = from;
        if let Event::Out(packet) = &line.event {
            let found = self.expect(packet, from, to);
            self.advance(seconds(from));
            return found;
        }
        self.advance(seconds(from));
        match &line.event {
            Event::In(packet) => {
                let bytes = self.numbers.packet(packet, self.id.remote, self.id.local);
                self.host.packet(self.now, &bytes);
                self.collect();
                self.read_on();
            }
            Event::Call(name, arguments, result) => self.call(name, arguments, result)?,
            Event::Out(_) | Event::Shell(_) | Event::Python(_) => {}
        }
        Ok(())
    }

    fn collect(&mut self) {
        while let Some(packet) = self.host.outgoing() {
            self.sent.push_back((self.now, packet));
        }
    }

    /// Advances the time; timers expire when they are due.
    fn advance(&mut self, to: Time) {
        while self.host.next() < to {
            self.fire();
        }
        self.now = self.now.max(to);
    }

    fn fire(&mut self) {
        self.now = self.now.max(self.host.next());
        self.host.timer(self.now);
        self.collect();
        self.read_on();
    }

    fn next_sent(&mut self, latest: Time) -> Option<(Time, Vec<u8>)> {
        while self.sent.is_empty() && self.host.next() <= latest {
            self.fire();
        }
        self.sent.pop_front()
    }

    /// The host has to send this packet between `from` and `to`, seconds. A packet of several
    /// segments stands for all of them.
    fn expect(&mut self, packet: &Packet, from: f64, to: f64) -> Result<(), String> {
        self.compared += 1;
        let (earliest, latest) = (seconds((from - TOLERANCE).max(0.0)), seconds(to + TOLERANCE));
        let (mut at, end) = (packet.seq, packet.seq + packet.len);
        loop {
            let Some((when, bytes)) = self.next_sent(latest) else {
                let next = self.host.next().0 as f64 / 1e9;
                return Err(format!("nothing is sent; the next timer is due at {next:.4} s"));
            };
            let tcp = parse(&bytes).expect("a TCP packet");
            let last = at + u64::from(tcp.payload_len) == end;
            // The FIN is with the last one.
            let fin = packet.has('F') && last;
            let letters: String = packet.flags.chars().filter(|c| *c != 'F' || fin).collect();
            let expected = Packet { flags: letters, ..packet.clone() };
            if let Some(what) = self.numbers.differs(&expected, &tcp) {
                return Err(format!("{what}, in {}", self.text(&tcp)));
            }
            let seq = u64::from(tcp.seq.wrapping_sub(self.numbers.host));
            // A reset that acknowledges what nobody has sent has no number of this host.
            let has_number = !(packet.has('R') && self.numbers.host == 0);
            if has_number && (seq != at || at + u64::from(tcp.payload_len) > end) {
                return Err(self.text(&tcp));
            }
            if when < earliest || when > latest {
                return Err(format!("{} at {:.4} s", self.text(&tcp), when.0 as f64 / 1e9));
            }
            at += u64::from(tcp.payload_len);
            if at >= end {
                return Ok(());
            }
        }
    }

    fn text(&self, tcp: &lasthop_wire::TcpPacket<'_>) -> String {
        let seq = tcp.seq.wrapping_sub(self.numbers.host);
        let is_reset = if tcp.flags().has(Flags::RST) { "R " } else { "" };
        format!(
            "{is_reset}{seq}:{}({}) is sent",
            seq.wrapping_add(tcp.payload_len),
            tcp.payload_len
        )
    }

    fn call(&mut self, name: &str, arguments: &str, result: &str) -> Result<(), String> {
        let (now, id) = (self.now, self.id);
        let argument = |n: usize| arguments.split(',').nth(n).unwrap_or_default().trim();
        let is_mine = argument(0) == self.descriptor;
        match name {
            "accept" => self.descriptor = result.to_string(),
            "connect" => {
                self.descriptor = argument(0).to_string();
                self.host.connect(now, id.local, id.remote);
            }
            "setsockopt" if arguments.contains("SO_LINGER") => {
                self.resets_on_close =
                    arguments.contains("onoff=1") && arguments.contains("linger=0");
            }
            "write" | "send" if is_mine => {
                let wanted: usize = argument(2).parse().unwrap_or(0);
                let taken = self.with(|c| c.write(now, &vec![1; wanted])).unwrap_or(0);
                let expected = result.parse().unwrap_or(0);
                if taken != expected {
                    return Err(format!("{taken} bytes are written"));
                }
                self.compared += 1;
            }
            "read" | "recv" if is_mine => return self.read(argument(2), result),
            "ioctl" if is_mine && arguments.contains("SIOCINQ") => {
                let expected = argument(2).trim_matches(['[', ']']).parse().unwrap_or(0);
                let readable = self.host.get(id).map_or(0, Endpoint::readable);
                if readable != expected {
                    return Err(format!("{readable} bytes can be read"));
                }
                self.compared += 1;
            }
            "shutdown" if is_mine => {
                self.reads_no_more |= argument(1) != "SHUT_WR";
                if argument(1) != "SHUT_RD" {
                    self.with(|c| c.close(now));
                }
            }
            "close" if is_mine => {
                if self.resets_on_close {
                    self.with(|c| c.abort(now));
                }
                self.host.release(now, id);
            }
            _ => {}
        }
        self.collect();
        Ok(())
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Endpoint) -> T) -> Option<T> {
        self.host.with(self.id, act)
    }

    /// A read returns what there is, the end, or an error; without any of them it waits.
    fn read(&mut self, room: &str, result: &str) -> Result<(), String> {
        let (now, room) = (self.now, room.parse().unwrap_or(0));
        let mut block = vec![0; room];
        let count = self.with(|c| c.read(now, &mut block)).unwrap_or(0);
        self.collect();
        let endpoint = self.host.get(self.id);
        let is_at_end = endpoint.is_none_or(Endpoint::is_at_end);
        let end = endpoint.and_then(Endpoint::end);
        self.compared += 1;
        let holds = match result.split_whitespace().next().unwrap_or_default() {
            "-1" if result.contains("ECONNRESET") => end == Some(End::Reset),
            "-1" if result.contains("EAGAIN") => count == 0 && !is_at_end,
            "-1" => count == 0,
            "0" => count == 0 && (is_at_end || end.is_some() || self.reads_no_more),
            number => {
                let wanted = number.parse().unwrap_or(0);
                if count == 0 && !is_at_end {
                    self.reading = Some(wanted);
                    return Ok(());
                }
                count == wanted
            }
        };
        if holds { Ok(()) } else { Err(format!("{count} bytes are read, {end:?}")) }
    }

    /// A read that waits goes on.
    fn read_on(&mut self) {
        let Some(wanted) = self.reading else { return };
        let now = self.now;
        let mut block = vec![0; wanted];
        if self.with(|c| c.read(now, &mut block)) == Some(wanted) {
            self.reading = None;
        }
        self.collect();
    }
}

fn seconds(t: f64) -> Time {
    Time::ZERO + Duration((t * 1e9).round() as u64)
}
