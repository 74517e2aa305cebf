//! The loop of a live link: read packets, let the chain work, write what is due, wait. The only
//! place that reads the clock.

use std::io;
use std::time::{Duration, Instant};

use lasthop::histogram::Histogram;
use lasthop::segment::Direction;
use lasthop::units::Time;

use crate::chain::{Chain, End, Release, Told};
use crate::device::{Device, Sent};
use crate::wait::{SPIN, readable};

/// Packets that are read from a device before the other one has its turn.
const BATCH: usize = 64;

/// The longest wait, after which the pump asks its caller whether to go on.
const TICK: Duration = Duration::from_millis(5);

/// The longest time without a rest, and the rest. The kernel stops a thread with real-time
/// scheduling for 50 ms if others have had less than a twentieth of its processor in a second.
const RUN: Duration = Duration::from_millis(1);
const REST: Duration = Duration::from_micros(60);

/// Time between two samples of the series.
pub const SAMPLE: Duration = Duration::from_millis(100);

/// Sees the packets at the two ends, for captures.
///
/// # Examples
///
/// Counts the packets that leave at each end:
///
/// ```
/// use std::io;
///
/// use lasthop::units::Time;
/// use lasthop_live::chain::End;
/// use lasthop_live::pump::Watcher;
///
/// /// At the server and at the mobile.
/// #[derive(Default)]
/// struct Delivered([u64; 2]);
///
/// impl Watcher for Delivered {
///     fn packet(&mut self, _: Time, end: End, enters: bool, _: &[u8]) -> io::Result<()> {
///         self.0[usize::from(end == End::Mobile)] += u64::from(!enters);
///         Ok(())
///     }
/// }
///
/// // The pump makes these calls, also at the end of each packet's way through the chain.
/// let mut watcher = Delivered::default();
/// watcher.packet(Time(0), End::Server, true, b"a packet").unwrap();
/// watcher.packet(Time(40_000_000), End::Mobile, false, b"a packet").unwrap();
/// assert_eq!(watcher.0, [0, 1]);
/// ```
pub trait Watcher {
    /// A packet enters (`true`) or leaves the chain at `end`.
    ///
    /// # Errors
    ///
    /// If it cannot be recorded; the pump then stops.
    fn packet(&mut self, now: Time, end: End, enters: bool, bytes: &[u8]) -> io::Result<()>;
}

impl Watcher for () {
    fn packet(&mut self, _: Time, _: End, _: bool, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// State of the chain at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Time, s.
    pub t: f64,
    /// Bytes delivered since the last sample, by direction (down, up).
    pub bytes: [u64; 2],
    /// Packets delivered since the last sample (down, up).
    pub packets: [u64; 2],
    /// Sum of their times from one end to the other, ns (down, up).
    pub transit_ns: [u64; 2],
    /// Packets that wait at the links (down, up).
    pub queued: [u64; 2],
}

impl Sample {
    /// Counts a packet that was delivered at `end`.
    fn add(&mut self, end: End, bytes: u64, transit: lasthop::units::Duration) {
        let add = |[down, up]: &mut [u64; 2], n: u64| {
            *(if end == End::Mobile { down } else { up }) += n;
        };
        add(&mut self.bytes, bytes);
        add(&mut self.packets, 1);
        add(&mut self.transit_ns, transit.0);
    }
}

/// Packets that this machine dropped, which the link of the scenario would not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnDrops {
    /// Before lasthop read them: it was too slow for what a command sent.
    pub not_read: u64,
    /// When lasthop wrote them: the kernel of an end was too slow.
    pub not_taken: u64,
}

impl OwnDrops {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.not_read + self.not_taken
    }
}

impl std::ops::AddAssign for OwnDrops {
    fn add_assign(&mut self, other: OwnDrops) {
        self.not_read += other.not_read;
        self.not_taken += other.not_taken;
    }
}

/// What the pump has measured of itself.
#[derive(Clone, Debug, Default)]
pub struct PumpCounters {
    /// Time from the instant at which a packet was due to the instant at which it was written.
    pub lateness: Histogram,
    /// The largest of these times.
    pub latest: Duration,
    /// Packets that a device did not take, and (at the end) those that the kernel dropped at one.
    pub own_drops: OwnDrops,
    /// Packets that were written.
    pub written: u64,
    /// Notices that ends have taken.
    pub notices_taken: u64,
    /// State each [`SAMPLE`].
    pub samples: Vec<Sample>,
}

/// A chain between two devices.
pub struct Pump<S, M, W> {
    chain: Chain,
    server: S,
    mobile: M,
    watcher: W,
    start: Instant,
    /// End of the last rest.
    rested: Instant,
    counters: PumpCounters,
    sample: Sample,
    /// The time up to which ends of lasthop's own have lived.
    lived: Time,
    out: Vec<Release>,
}

impl<S: Device, M: Device, W: Watcher> Pump<S, M, W> {
    /// A pump whose time begins now.
    pub fn new(chain: Chain, server: S, mobile: M, watcher: W) -> Self {
        Pump {
            chain,
            server,
            mobile,
            watcher,
            start: Instant::now(),
            rested: Instant::now(),
            counters: PumpCounters::default(),
            sample: Sample::default(),
            lived: Time::ZERO,
            out: Vec::new(),
        }
    }

    /// Runs until `finished` returns true, which is asked at least each 5 ms.
    ///
    /// # Errors
    ///
    /// If a device has gone or a packet cannot be recorded, or the error of `finished`.
    pub fn run(
        &mut self,
        mut finished: impl FnMut(&PumpCounters) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut asked = Instant::now();
        loop {
            self.turn()?;
            if asked.elapsed() >= TICK {
                if finished(&self.counters)? {
                    self.take_sample(self.now());
                    return Ok(());
                }
                asked = Instant::now();
            }
            self.wait()?;
        }
    }

    /// The clock of the chain.
    pub fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }

    /// What the pump has measured.
    pub fn counters(&self) -> &PumpCounters {
        &self.counters
    }

    /// Packets that were dropped before the pump could read them, since the last call.
    pub fn drops(&mut self) -> OwnDrops {
        OwnDrops {
            not_read: self.server.drops() + self.mobile.drops(),
            not_taken: self.server.not_taken() + self.mobile.not_taken(),
        }
    }

    /// The chain, the server's device and the watcher; the mobile's device is closed.
    pub fn into_parts(self) -> (Chain, S, W) {
        (self.chain, self.server, self.watcher)
    }

    /// Reads what has come and writes what is due.
    ///
    /// # Errors
    ///
    /// An error of a device or of the watcher.
    pub fn turn(&mut self) -> io::Result<()> {
        if self.server.is_own() || self.mobile.is_own() {
            self.live(self.now())?;
        } else {
            self.read(End::Server, None)?;
            self.read(End::Mobile, None)?;
            self.step(self.now())?;
        }
        let now = self.now();
        if now.0 >= (self.sample.t * 1e9) as u64 + SAMPLE.as_nanos() as u64 {
            self.take_sample(now);
        }
        Ok(())
    }

    /// What was due until `now` happens in order, each at its time, so that the ends of lasthop's
    /// own see the times of the chain. Then what has come is read.
    fn live(&mut self, now: Time) -> io::Result<()> {
        loop {
            let at = self.next().max(self.lived);
            if at > now {
                break;
            }
            self.lived = at;
            let made = [self.take_made(at, End::Server)?, self.take_made(at, End::Mobile)?];
            if !made.contains(&true) && self.chain.next() > at && self.out.is_empty() {
                break;
            }
            self.step(at)?;
        }
        self.lived = now;
        self.read(End::Server, Some(now))?;
        self.read(End::Mobile, Some(now))?;
        self.step(now)
    }

    fn device(&mut self, end: End) -> &mut dyn Device {
        match end {
            End::Server => &mut self.server,
            End::Mobile => &mut self.mobile,
        }
    }

    /// True if the device has made a packet.
    fn take_made(&mut self, at: Time, end: End) -> io::Result<bool> {
        let mut any = false;
        loop {
            let device: &mut dyn Device = match end {
                End::Server => &mut self.server,
                End::Mobile => &mut self.mobile,
            };
            let Some(packet) = device.made(at) else { return Ok(any) };
            self.watcher.packet(at, end, true, packet)?;
            self.chain.packet(at, end, packet, &mut self.out);
            any = true;
        }
    }

    fn step(&mut self, now: Time) -> io::Result<()> {
        self.chain.step(now, &mut self.out);
        self.write()?;
        self.tell(now);
        Ok(())
    }

    /// Reads what has come, which counts from `at`, or from when it is read.
    fn read(&mut self, end: End, at: Option<Time>) -> io::Result<()> {
        for _ in 0..BATCH {
            let now = at.unwrap_or_else(|| self.now());
            let device: &mut dyn Device = match end {
                End::Server => &mut self.server,
                End::Mobile => &mut self.mobile,
            };
            let Some(packet) = device.read(now)? else { break };
            self.watcher.packet(now, end, true, packet)?;
            self.chain.packet(now, end, packet, &mut self.out);
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let mut out = std::mem::take(&mut self.out);
        for Release { due, entered, end, bytes } in out.drain(..) {
            let at = due.max(self.lived);
            let sent = self.device(end).write(at, &bytes);
            let now = self.now();
            match sent {
                Sent::Sent => {}
                Sent::Dropped => self.counters.own_drops.not_taken += 1,
                Sent::Gone => return Err(io::ErrorKind::NotConnected.into()),
            }
            self.watcher.packet(now, end, false, &bytes)?;
            let late = now.since(due);
            self.counters.lateness.record(late, 1);
            self.counters.latest = self.counters.latest.max(Duration::from_nanos(late.0));
            self.counters.written += 1;
            self.sample.add(end, bytes.len() as u64, now.since(entered));
        }
        self.out = out;
        Ok(())
    }

    /// Passes on the notices that have arrived at the ends.
    fn tell(&mut self, now: Time) {
        for (end, Told { connection, notice }) in self.chain.take_notices() {
            let is_taken = self.device(end).notice(now, connection, &notice);
            self.counters.notices_taken += u64::from(is_taken);
        }
    }

    fn take_sample(&mut self, now: Time) {
        let t = now.as_secs();
        let queued = [self.chain.queued(Direction::Downlink), self.chain.queued(Direction::Uplink)];
        self.counters.samples.push(Sample { t, queued, ..self.sample });
        self.sample = Sample { t, ..Sample::default() };
    }

    /// When something is due next.
    fn next(&self) -> Time {
        self.chain.next().min(self.server.next()).min(self.mobile.next())
    }

    /// Waits until the next event of the chain is due, or a packet comes.
    fn wait(&mut self) -> io::Result<()> {
        if self.rested.elapsed() >= RUN {
            std::thread::sleep(REST);
            self.rested = Instant::now();
            return Ok(());
        }
        let next = self.next();
        let left = |now: Time| Duration::from_nanos(next.since(now).0);
        let fds: Vec<_> = [self.server.fd(), self.mobile.fd()].into_iter().flatten().collect();
        let sleep = left(self.now()).saturating_sub(SPIN).min(TICK);
        if sleep > Duration::ZERO || next == Time::NEVER {
            let asleep = Instant::now();
            readable(&fds, if next == Time::NEVER { TICK } else { sleep })?;
            if asleep.elapsed() >= REST {
                self.rested = Instant::now();
            }
            return Ok(());
        }
        while self.now() < next {
            std::hint::spin_loop();
        }
        Ok(())
    }
}
