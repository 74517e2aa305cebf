//! A gateway: an agent on the packets that this machine forwards.
//!
//! The kernel leads forwarded TCP packets of one interface into a queue ([`rules`]), from which
//! they are read, shown to the agent ([`engine`]) and accepted, changed or discarded. Whatever
//! becomes of this process, packets go on: see [`rules`].

pub mod abilities;
pub mod engine;
mod netlink;
pub mod privileges;
mod queue;
mod raw;
pub mod report;
pub mod rules;
mod scheme;
pub mod signals;

use std::io;
use std::time::{Duration, Instant};

use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::Direction;
use lasthop::units::{Rate, Time};

use crate::place::netlink::index;
use crate::wait::readable;
use engine::{Engine, Fate, Given, Injected};
use queue::Queue;
use raw::Sender;
use report::{Report, Stopped};
use rules::{Match, Rules};
pub use scheme::{Refused, agent_of};

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
    /// The scheme whose agent runs.
    pub scheme: SchemeChoice,
    /// Which packets it is shown.
    pub matched: Match,
    /// Rate of the radio link; `None` if unknown.
    pub rate: Option<Rate>,
    /// Connections that are tracked at most.
    pub max_flows: usize,
}

/// A gateway whose rules are installed, but do not match yet.
pub struct Gateway {
    options: Options,
    engine: Engine,
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
        let agent = agent_of(&options.scheme.scheme).map_err(wrong)?;
        let named = |name: &str| {
            index(name).map_err(|e| io::Error::new(e.kind(), format!("interface {name}: {e}")))
        };
        named(&options.matched.wireless)?;
        options.matched.wired.as_deref().map_or(Ok(0), named)?;
        let step = |what: &'static str| {
            move |e: io::Error| io::Error::new(e.kind(), format!("{what}: {e}"))
        };
        let queue = Queue::open().map_err(step("cannot take a packet queue (nfnetlink_queue)"))?;
        let sender = Sender::new().map_err(step("cannot open raw sockets"))?;
        let rules = Rules::install(&options.matched, queue.number())
            .map_err(step("cannot install rules (nf_tables)"))?;
        Ok(Gateway {
            engine: Engine::new(agent, options.max_flows, options.rate),
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
            let now = self.now();
            self.engine.step(now, &mut self.out);
            self.inject()?;
            if asked.elapsed() >= TICK {
                if !go_on(&self)? {
                    break;
                }
                asked = Instant::now();
            }
            let left = Duration::from_nanos(self.engine.next().since(self.now()).0);
            readable(&[self.queue.fd()], left.min(TICK))?;
        }
        let report = self.report();
        self.rules.remove()?;
        self.pass_all()?;
        Ok(report)
    }

    /// What the gateway has done so far.
    pub fn report(&self) -> Report {
        let bypassed = self.rules.matched().ok().map(|matched| {
            matched.saturating_sub(self.engine.counts().packets + self.stopped.unread)
        });
        Report::new(
            (&self.options.scheme.label, &self.options.matched),
            &self.engine,
            self.start.elapsed(),
            (self.stopped, bypassed, self.sender.refused()),
        )
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
            if let Ok(agent) = agent_of(&self.options.scheme.scheme) {
                self.engine.forget(agent, self.options.max_flows);
            }
        }
        self.find_interfaces()?;
        self.rules.arm()?;
        self.renewed = Some(Instant::now());
        Ok(())
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
            match self.engine.packet(now, direction, given, &mut self.out) {
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
