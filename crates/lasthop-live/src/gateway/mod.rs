//! A gateway: an agent or a relay on the packets that this machine forwards.
//!
//! The kernel leads forwarded TCP packets of one interface into a queue ([`rules`]), from which
//! they are read, shown to the agent ([`engine`]) and accepted, changed or discarded; or their
//! connections end here (`splitting`). Whatever becomes of this process, packets go on: see
//! [`rules`].

pub mod abilities;
pub mod engine;
mod netlink;
pub mod privileges;
mod queue;
pub mod radio;
mod raw;
pub mod report;
pub mod rules;
mod scheme;
pub mod signals;
mod splitting;
mod tally;

use std::io;
use std::time::{Duration, Instant};

use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::Direction;
use lasthop::units::{Rate, Time};

use crate::place::netlink::index;
use crate::wait::readable;
use engine::{Engine, Fate, Given, Injected};
use queue::Queue;
use radio::Radio;
use raw::Sender;
use report::{Report, Stopped};
use rules::{Match, Rules};
pub use scheme::{Part, Refused, part_of};
use splitting::Splitting;
use tally::Tally;

/// Connections that are tracked unless the caller says otherwise.
pub const MAX_FLOWS: usize = 16_384;

/// Packets that are read before the agent's timers have their turn.
const BATCH: usize = 64;
/// Time between two renewals of the rules: some fit into [`rules::TIMEOUT`].
const RENEWAL: Duration = Duration::from_millis(200);
/// The longest wait, after which the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(100);

/// What a gateway does.
#[derive(Clone, Debug)]
pub struct Options {
    /// The scheme whose agent or relay runs.
    pub scheme: SchemeChoice,
    /// Which packets it is shown.
    pub matched: Match,
    /// Rate of the radio link; `None` if unknown.
    pub rate: Option<Rate>,
    /// Connections that are tracked at most.
    pub max_flows: usize,
    /// Port of the loopback interface at which the radio link reports; see [`radio`].
    pub radio: Option<u16>,
}

/// What is done with packets.
enum Work {
    Agent(Box<Engine>),
    Relays(Box<Splitting>),
}

impl Work {
    fn new(options: &Options) -> Result<Work, Refused> {
        let max_flows = options.max_flows;
        let part = part_of(&options.scheme.scheme, options.radio.is_some())?;
        Ok(match part {
            Part::Agent(agent) => Work::Agent(Engine::new(*agent, max_flows, options.rate).into()),
            Part::Relay(relay) => {
                Work::Relays(Splitting::new(&options.scheme, relay.as_ref(), max_flows).into())
            }
        })
    }

    fn packet(
        &mut self,
        now: Time,
        direction: Direction,
        given: Given<'_>,
        out: &mut Vec<Injected>,
    ) -> Fate {
        match self {
            Work::Agent(engine) => engine.packet(now, direction, given, out),
            Work::Relays(splitting) => splitting.packet(now, direction, given, out),
        }
    }

    fn step(&mut self, now: Time, out: &mut Vec<Injected>) {
        match self {
            Work::Agent(engine) => engine.step(now, out),
            Work::Relays(splitting) => splitting.step(now, out),
        }
    }

    fn next(&self) -> Time {
        match self {
            Work::Agent(engine) => engine.next(),
            Work::Relays(splitting) => splitting.next(),
        }
    }

    /// Packets have passed: connections are forgotten, or reset.
    fn forget(&mut self, now: Time, options: &Options, out: &mut Vec<Injected>) {
        match self {
            Work::Agent(engine) => {
                if let Ok(Part::Agent(agent)) = part_of(&options.scheme.scheme, false) {
                    engine.forget(*agent, options.max_flows);
                }
            }
            Work::Relays(splitting) => splitting.reset(now, out),
        }
    }

    /// The protocols of the packets that it takes.
    fn protocols(&self) -> &'static [u8] {
        match self {
            Work::Agent(_) => rules::OF_AGENTS,
            Work::Relays(_) => rules::OF_RELAYS,
        }
    }

    fn tally(&self) -> Tally {
        match self {
            Work::Agent(engine) => engine.tally(),
            Work::Relays(splitting) => splitting.tally(),
        }
    }
}

/// A gateway whose rules are installed, but do not match yet.
pub struct Gateway {
    options: Options,
    work: Work,
    radio: Option<Radio>,
    queue: Queue,
    rules: Rules,
    sender: Sender,
    /// Number of the wireless interface; 0 before the rules are armed.
    wireless: u32,
    start: Instant,
    /// When the rules were renewed.
    renewed: Option<Instant>,
    stopped: Stopped,
    out: Vec<Injected>,
}

impl Gateway {
    /// Takes a queue and installs the rules. Rules that a killed gateway has left on this interface
    /// are replaced.
    ///
    /// # Errors
    ///
    /// [`Refused`] in an error of kind `InvalidInput` for a scheme that cannot run on a gateway. An
    /// error of the system if an interface does not exist, rights are missing, another gateway runs
    /// on the interface, or the kernel has no packet queues.
    pub fn new(options: Options) -> io::Result<Gateway> {
        let wrong = |refused: Refused| io::Error::new(io::ErrorKind::InvalidInput, refused);
        let work = Work::new(&options).map_err(wrong)?;
        let named = |name: &str| {
            index(name).map_err(|e| io::Error::new(e.kind(), format!("interface {name}: {e}")))
        };
        named(&options.matched.wireless)?;
        options.matched.wired.as_deref().map_or(Ok(0), named)?;
        let step = |what: &'static str| {
            move |e: io::Error| io::Error::new(e.kind(), format!("{what}: {e}"))
        };
        let radio = options
            .radio
            .map(Radio::open)
            .transpose()
            .map_err(step("cannot take the port for reports of the radio link"))?;
        let queue = Queue::open().map_err(step("cannot take a packet queue (nfnetlink_queue)"))?;
        let sender = Sender::new().map_err(step("cannot open raw sockets"))?;
        let rules = Rules::install(&options.matched, queue.number())
            .map_err(step("cannot install rules (nf_tables)"))?;
        Ok(Gateway {
            work,
            radio,
            options,
            queue,
            rules,
            sender,
            wireless: 0,
            start: Instant::now(),
            renewed: None,
            stopped: Stopped::default(),
            out: Vec::new(),
        })
    }

    /// The rules in the language of nft(8).
    pub fn rules(&self) -> String {
        self.options.matched.text(self.queue.number())
    }

    /// Runs until `go_on` returns false, which is asked about ten times per second; then removes
    /// the rules and lets what waits in the queue pass.
    ///
    /// # Errors
    ///
    /// If the queue or the rules cannot be used any more, or the error of `go_on`.
    pub fn run(
        mut self,
        mut go_on: impl FnMut(&Gateway) -> io::Result<bool>,
    ) -> io::Result<Report> {
        let mut asked = Instant::now();
        loop {
            self.renew()?;
            self.read()?;
            self.read_radio();
            let now = self.now();
            self.work.step(now, &mut self.out);
            self.inject()?;
            if asked.elapsed() >= TICK {
                if !go_on(&self)? {
                    break;
                }
                asked = Instant::now();
            }
            let left = Duration::from_nanos(self.work.next().since(self.now()).0);
            let radio = self.radio.iter().map(Radio::fd);
            let fds: Vec<_> = std::iter::once(self.queue.fd()).chain(radio).collect();
            readable(&fds, left.min(TICK))?;
        }
        if matches!(self.work, Work::Relays(_)) {
            self.forget()?;
        }
        let report = self.report();
        self.rules.remove()?;
        self.pass_all()?;
        Ok(report)
    }

    /// What the gateway has done so far.
    pub fn report(&self) -> Report {
        let tally = self.work.tally();
        let bypassed = self.rules.matched().ok();
        let bypassed =
            bypassed.map(|n| n.saturating_sub(tally.counts.packets + self.stopped.unread));
        Report::new(
            (&self.options.scheme.label, &self.options.matched),
            tally,
            self.start.elapsed(),
            (self.stopped, bypassed, self.sender.refused()),
        )
    }

    /// The same with the connections that are divided now.
    pub fn state(&self) -> Report {
        let divided = match &self.work {
            Work::Agent(_) => Vec::new(),
            Work::Relays(splitting) => splitting.divided(),
        };
        Report { divided, ..self.report() }
    }

    fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }

    /// Renews the rules in time. If this process was stopped for longer than they last, packets
    /// have passed it: connections are then forgotten, and so is what the agent knows of them.
    fn renew(&mut self) -> io::Result<()> {
        let since = self.renewed.map(|at| at.elapsed());
        if since.is_some_and(|since| since < RENEWAL) {
            return Ok(());
        }
        if since.is_some_and(|since| since >= rules::TIMEOUT) {
            self.stopped.times += 1;
            self.pass_all()?;
            self.forget()?;
        }
        self.find_interfaces()?;
        self.rules.arm(self.work.protocols())?;
        self.renewed = Some(Instant::now());
        Ok(())
    }

    fn forget(&mut self) -> io::Result<()> {
        let now = self.now();
        self.work.forget(now, &self.options, &mut self.out);
        self.inject()
    }

    /// Passes on what the radio link has reported.
    fn read_radio(&mut self) {
        let now = self.now();
        let (Some(radio), Work::Relays(splitting)) = (&self.radio, &mut self.work) else {
            return;
        };
        while let Some(report) = radio.read() {
            splitting.radio(now, &report, &mut self.out);
        }
    }

    /// An interface may have been made again, with another number.
    fn find_interfaces(&mut self) -> io::Result<()> {
        let Ok(wireless) = index(&self.options.matched.wireless) else { return Ok(()) };
        if wireless != self.wireless {
            self.sender.bind(Direction::Downlink, wireless)?;
            self.wireless = wireless;
            if let Some(wired) = self.options.matched.wired.as_deref().and_then(|w| index(w).ok()) {
                self.sender.bind(Direction::Uplink, wired)?;
            }
        }
        Ok(())
    }

    /// Lets all packets in the queue pass without showing them to the agent.
    fn pass_all(&mut self) -> io::Result<()> {
        while let Some(queued) = self.queue.read()? {
            let id = queued.id;
            self.stopped.unread += 1;
            self.queue.accept(id)?;
        }
        self.queue.flush()
    }

    /// Reads packets, and decides on them.
    fn read(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            let now = Time(self.start.elapsed().as_nanos() as u64);
            let Some(queued) = self.queue.read()? else { break };
            let id = queued.id;
            let direction =
                match (queued.inbound == self.wireless, queued.outbound == self.wireless) {
                    (true, false) => Direction::Uplink,
                    (false, true) => Direction::Downlink,
                    // From one mobile to another: both hops are wireless, and neither is the last.
                    _ => {
                        self.queue.accept(id)?;
                        continue;
                    }
                };
            let given = Given {
                bytes: queued.bytes,
                is_gso: queued.is_gso,
                lacks_checksum: queued.lacks_checksum,
            };
            match self.work.packet(now, direction, given, &mut self.out) {
                Fate::Accepted => self.queue.accept(id)?,
                Fate::Replaced(bytes) => self.queue.replace(id, &bytes)?,
                Fate::Dropped => self.queue.drop(id)?,
            }
            if !self.out.is_empty() {
                self.inject()?;
            }
        }
        self.queue.flush()
    }

    /// Sends what the agent has made, after the packets before it.
    fn inject(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            self.queue.flush()?;
        }
        for Injected { direction, to, bytes } in self.out.drain(..) {
            self.sender.send(direction, to, &bytes);
        }
        Ok(())
    }
}
