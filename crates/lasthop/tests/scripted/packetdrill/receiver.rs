//! Plays a script against the receiver: which segments arrive, and what it must acknowledge.

use std::collections::HashMap;

use lasthop::schemes::catalogue::ProfileKeys;
use lasthop::segment::{Flags, Options, Segment};
use lasthop::tcp::receiver::{Discard, Receiver, ReceiverConfig};
use lasthop::tcp::sender::{Output, SendReason, timestamp};
use lasthop::units::Time;

use super::language::{Event, Line, Packet};
use super::stamps::Stamps;
use super::{TOLERANCE, python, seconds};

/// What the receiver sends, SYN-ACKs excluded.
#[derive(Default)]
struct Log {
    now: Time,
    sent: Vec<(Time, Segment, Options)>,
}

impl Output for Log {
    fn send(&mut self, segment: Segment, reason: SendReason) {
        self.send_with(segment, &Options::NONE, reason);
    }

    fn send_with(&mut self, segment: Segment, options: &Options, _reason: SendReason) {
        if !segment.flags.has(Flags::SYN) {
            self.sent.push((self.now, segment, *options));
        }
    }
}

/// A receiver and its application, which reads when the script says so.
pub struct ReceiverPlayer {
    receiver: Receiver,
    log: Log,
    stamps: Stamps,
    mss: u32,
    scale: u32,
    /// Script time of the last event, seconds.
    clock: f64,
    /// The host opens the connection: its ACK of the SYN-ACK is not the receiver's.
    connects: bool,
    matched: usize,
    /// Packets and assertions compared.
    pub compared: usize,
    discarded: [u64; Discard::ALL.len()],
    variables: HashMap<String, f64>,
}

impl ReceiverPlayer {
    /// The receiver of a script.
    pub fn new(text: &str, lines: &[Line], keys: &str) -> ReceiverPlayer {
        let syn = |inbound: bool| {
            let of = move |l: &Line| match &l.event {
                Event::In(p) if inbound && p.has('S') => Some(p.clone()),
                Event::Out(p) if !inbound && p.has('S') => Some(p.clone()),
                _ => None,
            };
            lines.iter().find_map(of).unwrap_or_default()
        };
        let (peer, own) = (syn(true), syn(false));
        let on = |b: bool| if b { "true" } else { "false" };
        let stamped = peer.stamps().is_some() && own.stamps().is_some();
        let sack = peer.options.contains("sackOK") && own.options.contains("sackOK");
        let mss = own.option("mss").unwrap_or(1460);
        // SO_RCVBUF fixes the buffer: whole segments of half of what the kernel reserves.
        let fixed = receive_buffer(lines).map(|bytes| bytes - bytes % u64::from(mss));
        let keys: ProfileKeys = toml::from_str(&format!(
            "profile = \"linux\"\ntimestamps = {}\nsack = {}\nreceive_window_grows = {}\n{keys}",
            on(stamped),
            on(sack),
            on(fixed.is_none()),
        ))
        .expect("keys of [tcp]");
        let config = ReceiverConfig {
            flow: 0,
            to: 0,
            headers: 40,
            mss: super::script_mss(text),
            buffer: fixed.unwrap_or(4 << 20),
            manual_read: false,
        };
        let receiver = Receiver::new(config, &keys.profile(), None).with_manual_reading();
        ReceiverPlayer {
            receiver,
            log: Log::default(),
            stamps: Stamps::of(text),
            mss,
            scale: own.option("wscale").unwrap_or(0),
            clock: 0.0,
            connects: peer.has('.'),
            matched: 0,
            compared: 0,
            discarded: [0; Discard::ALL.len()],
            variables: HashMap::new(),
        }
    }

    /// Plays a line.
    ///
    /// # Errors
    ///
    /// What was found instead of what the line expects.
    pub fn line(&mut self, line: &Line) -> Result<(), String> {
        let (from, to) = line.when.interval(self.clock);
        self.clock = from;
        if let Event::Out(packet) = &line.event {
            return self.expect(packet, from, to);
        }
        self.advance(seconds(from));
        match &line.event {
            Event::In(packet) => self.arrive(packet),
            Event::Call(name, arguments, result) => return self.call(name, arguments, result),
            Event::Python(text) => {
                let received = self.receiver.rcv_nxt() as f64;
                let info = |name: &str| (name == "tcpi_bytes_received").then_some(received);
                self.compared += python::check(text, &mut self.variables, &info)?;
            }
            Event::Shell(command) => return self.count(command),
            Event::Out(_) => {}
        }
        Ok(())
    }

    fn advance(&mut self, to: Time) {
        while self.receiver.deadline().0 < to {
            self.fire();
        }
        self.log.now = self.log.now.max(to);
    }

    fn fire(&mut self) {
        self.log.now = self.log.now.max(self.receiver.deadline().0);
        self.receiver.on_timer(self.log.now, &mut self.log);
    }

    fn arrive(&mut self, packet: &Packet) {
        let now = self.log.now;
        let stamps = packet
            .stamps()
            .map(|(value, echo)| (Stamps::arrives(value), self.stamps.echo(echo, timestamp(now))));
        let mut flags = if stamps.is_some() { Flags::TIMESTAMPS } else { Flags::NONE };
        for (letter, flag) in
            [('S', Flags::SYN), ('F', Flags::FIN), ('R', Flags::RST), ('.', Flags::ACK)]
        {
            flags = if packet.has(letter) { flags.with(flag) } else { flags };
        }
        if packet.has('S') {
            flags = flags.without(Flags::ACK);
        }
        let (ts_value, ts_echo) = stamps.unwrap_or_default();
        let segment = Segment {
            seq: packet.seq.saturating_sub(1),
            len: packet.len as u32,
            size: 40 + packet.len as u32,
            window: 65_535,
            ts_value,
            ts_echo,
            flags,
            attempt: 1,
            forward: true,
            ..Segment::default()
        };
        let discard = self.receiver.discards(now, &segment);
        if let Some(discard) = discard {
            self.discarded[discard as usize] += 1;
        }
        self.receiver.on_judged_segment(now, &segment, discard, &mut self.log);
    }

    fn call(&mut self, name: &str, arguments: &str, result: &str) -> Result<(), String> {
        let (now, unread) = (self.log.now, self.receiver.unread());
        match (name, result.trim().parse()) {
            ("read" | "recv", Ok(bytes)) => {
                self.receiver.read(now, bytes, self.mss, &mut self.log);
            }
            // Data that nobody will read.
            ("close", _) if unread > 0 => self.receiver.reset(now, &mut self.log),
            ("ioctl", _) if arguments.contains(&format!("[{unread}]")) => self.compared += 1,
            ("ioctl", _) => return Err(format!("{unread} bytes are unread")),
            _ => {}
        }
        Ok(())
    }

    /// A counter of the kernel in a shell command: `nstat | grep TcpExtBeyondWindow | grep -q " 3
    /// "`.
    fn count(&mut self, command: &str) -> Result<(), String> {
        let counter = [
            ("TcpExtBeyondWindow", Discard::BeyondWindow),
            ("TcpExtTCPZeroWindowDrop", Discard::ZeroWindow),
            ("TcpExtPAWSEstab", Discard::OldTimestamp),
        ];
        let Some((name, discard)) = counter.into_iter().find(|(name, _)| command.contains(name))
        else {
            return Ok(());
        };
        let expected = command.split('"').filter_map(|word| word.trim().parse::<u64>().ok()).next();
        let found = self.discarded[discard as usize];
        self.compared += 1;
        match expected {
            Some(n) if n != found => Err(format!("{name} is {found}")),
            _ => Ok(()),
        }
    }

    /// The receiver has to send this packet between `from` and `to`, seconds.
    fn expect(&mut self, packet: &Packet, from: f64, to: f64) -> Result<(), String> {
        if packet.has('S') {
            self.advance(seconds(from));
            let sent = timestamp(self.log.now);
            return packet
                .stamps()
                .map_or(Ok(()), |(value, _)| self.stamps.compare((value, 0), (sent, 0), 0));
        }
        if std::mem::take(&mut self.connects) {
            let ack = Packet { flags: ".".into(), seq: 1, ack: Some(1), ..Packet::default() };
            self.arrive(&ack);
            self.matched = self.log.sent.len();
            return Ok(());
        }
        self.compared += 1;
        let (earliest, latest) = (seconds((from - TOLERANCE).max(0.0)), seconds(to + TOLERANCE));
        while self.matched == self.log.sent.len() && self.receiver.deadline().0 <= latest {
            self.fire();
        }
        let Some(&(when, sent, options)) = self.log.sent.get(self.matched) else {
            return Err("no ACK is sent".into());
        };
        self.matched += 1;
        if when < earliest || when > latest {
            return Err(format!("an ACK is sent at {:.4} s", when.0 as f64 / 1e9));
        }
        self.log.now = self.log.now.max(seconds(from));
        if packet.has('R') {
            if !sent.flags.has(Flags::RST) {
                return Err("an ACK, not a reset".into());
            }
            return self.compare_stamps(packet, &sent);
        }
        let blocks = options.sack.as_slice().iter().map(|b| (b.start + 1, b.end + 1));
        let found = (Some(sent.ack + 1), blocks.collect::<Vec<_>>());
        if found != (packet.ack, packet.sack()) {
            return Err(format!("ack {} sack {:?}", sent.ack + 1, found.1));
        }
        if let Some(window) = packet.window.map(|w| u64::from(w) << self.scale)
            && window.abs_diff(u64::from(sent.window)) > u64::from(self.mss.max(1 << self.scale))
        {
            return Err(format!("win {} bytes, not {window}", sent.window));
        }
        self.compare_stamps(packet, &sent)
    }

    fn compare_stamps(&mut self, packet: &Packet, sent: &Segment) -> Result<(), String> {
        let stamps = (sent.ts_value, sent.ts_echo);
        packet.stamps().map_or(Ok(()), |expected| {
            self.stamps.compare(expected, stamps, (TOLERANCE * 1e3) as u32 + 1)
        })
    }
}

/// SO_RCVBUF of the listening or connecting socket, bytes.
fn receive_buffer(lines: &[Line]) -> Option<u64> {
    lines.iter().find_map(|l| match &l.event {
        Event::Call(name, arguments, _) if name == "setsockopt" => {
            let value = arguments.split_once("SO_RCVBUF, [")?.1;
            value.split(']').next()?.parse().ok()
        }
        _ => None,
    })
}
