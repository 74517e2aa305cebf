//! A live link: two namespaces, a chain between them, and the commands at its ends.

use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use lasthop_endpoint::Settings;

use crate::chain::Chain;
use crate::device::own_end::OwnEnd;
use crate::device::sender::{OwnSender, SenderReport};
use crate::device::{Device, Kind};
use crate::outer::outside::Outside;
use crate::outer::tcp::Relay;
use crate::outer::udp::WithDatagrams;
use crate::outer::{self, Carried};
use crate::place::caller::caller;
use crate::place::child::{self, Bound, Order, Waiting, drop_privileges};
use crate::place::{
    Addresses, BoxedDevice, CongestionControl, Ends, Setup, Site, Sockets, Statistics, addresses,
};
use crate::pump::{Pump, PumpCounters, Watcher};
use crate::split::Side;
use crate::wait::{self, RealTime};

/// Environment variable with the number of links around a process.
pub const LEVEL: &str = "LASTHOP_LINK_LEVEL";

/// Time in which a server may begin to listen before the command starts.
const SERVER_START: Duration = Duration::from_secs(5);

/// What runs at the ends.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// At the mobile; the link ends with it.
    pub mobile: Vec<OsString>,
    /// At the server.
    pub server: Server,
    /// Settings of the kernels' TCP.
    pub ends: Ends,
    /// Kind of the devices.
    pub device: Kind,
}

/// What is at the server's end.
#[derive(Clone, Debug, Default)]
pub enum Server {
    /// A command, which is started first.
    Command(Vec<OsString>),
    /// The network of the caller.
    #[default]
    Outside,
    /// The core's own sender.
    Sender,
}

/// What was behind the link.
#[derive(Clone, Debug)]
pub enum Behind {
    /// A server, or the core's own sender.
    Server,
    /// The network of the caller.
    Outside(Carried),
    /// Nothing, because the network of the caller cannot be reached from here; the reason.
    Nothing(String),
}

/// What a live link has done.
pub struct Done<W> {
    /// Exit status of the mobile's command, as a shell reports it.
    pub exit_status: i32,
    /// Time that the link existed.
    pub duration: Duration,
    /// The chain with its counters.
    pub chain: Chain,
    /// What the pump measured.
    pub counters: PumpCounters,
    /// The watcher.
    pub watcher: W,
    /// True if the pump had real-time scheduling.
    pub real_time: bool,
    /// Kind of the mobile's device.
    pub device: Kind,
    /// What was behind the link.
    pub behind: Behind,
    /// Congestion control of the kernels at the ends.
    pub congestion_control: CongestionControl,
}

/// The nesting level of the present process: the number of links around it.
pub fn level() -> u8 {
    std::env::var(LEVEL).ok().and_then(|level| level.parse().ok()).unwrap_or_default()
}

/// Addresses of server and mobile at the present nesting level.
pub fn ends() -> (Addresses, Addresses) {
    (addresses(level(), 1), addresses(level(), 2))
}

/// A link that is set up: its ends, and commands that wait to be started.
pub struct Prepared {
    mobile: Site,
    command: Waiting,
    opposite: Opposite,
    /// The processor that lasthop runs on.
    processor: usize,
}

/// What is at the other end.
enum Opposite {
    Server(Site, Waiting),
    /// The network of the caller, or why it cannot be reached.
    Outside(Site, io::Result<Vec<TcpListener>>),
    /// The core's own sender, which is no process.
    Sender,
}

/// Sets a link up: all that needs privileges. After it, the process has the rights of the user who
/// has called sudo, if somebody has, so that it reads and writes files as that user.
///
/// # Errors
///
/// If namespaces or devices cannot be made.
pub fn prepare(commands: &Commands) -> io::Result<Prepared> {
    let (server, mobile) = ends();
    let processor = wait::processor();
    let setup = Setup {
        ends: commands.ends.clone(),
        device: commands.device,
        busy: processor,
        is_everywhere: false,
    };
    let mobile = Site::new(mobile, &setup)?;
    let opposite = match &commands.server {
        Server::Command(words) => {
            let site = Site::new(server, &setup)?;
            let command = order(words, &site, true);
            Opposite::Server(site, child::prepare(&command)?)
        }
        Server::Outside => {
            let site = Site::new(server, &Setup { is_everywhere: true, ..setup })?;
            let listeners = outer::listeners(&site.namespace, server);
            Opposite::Outside(site, listeners)
        }
        Server::Sender => Opposite::Sender,
    };
    let command = child::prepare(&order(&commands.mobile, &mobile, false))?;
    if let Some(caller) = caller() {
        wait::keep_real_time();
        caller.become_in_all_threads()?;
    }
    Ok(Prepared { mobile, command, opposite, processor })
}

/// A command at an end of the link.
fn order(words: &[OsString], site: &Site, quiet: bool) -> Order {
    let (server, mobile) = ends();
    let environment = [
        (LEVEL, level().saturating_add(1).to_string()),
        ("LASTHOP_SERVER", server.v4.to_string()),
        ("LASTHOP_MOBILE", mobile.v4.to_string()),
        ("LASTHOP_SERVER6", server.v6.to_string()),
        ("LASTHOP_MOBILE6", mobile.v6.to_string()),
        ("MAHIMAHI_BASE", server.v4.to_string()),
    ];
    let command = words.iter().map(|word| expand(word, &environment)).collect();
    Order { command, namespace: site.namespace.fd(), environment: environment.into(), quiet }
}

/// The settings of the ends that are lasthop's own.
#[derive(Clone, Debug, Default)]
pub struct EndSettings {
    /// The server's.
    pub server: Option<Settings>,
    /// The mobile's.
    pub mobile: Option<Settings>,
}

/// The device of an end, with lasthop's own TCP if it has settings. `link`: the side of the link.
fn end_of(device: BoxedDevice, link: Side, settings: Option<Settings>) -> BoxedDevice {
    match settings {
        Some(settings) => Box::new(OwnEnd::new(device, link, settings)),
        None => device,
    }
}

/// Runs the commands over a chain until the mobile's command has ended. `watch` is called each
/// 5 ms, with what the pump has measured once it runs, and stops the link by an error. `sender` is
/// the core's own, for a link that was prepared for it; it opens its connection when the mobile's
/// command accepts connections. `own`: ends whose TCP is lasthop's own. The calling thread gives up
/// its privileges.
///
/// # Errors
///
/// If a command cannot be started; or the error of `watch`. Nothing is left behind.
pub fn run<W: Watcher>(
    prepared: Prepared,
    chain: Chain,
    sender: Option<OwnSender>,
    own: EndSettings,
    watcher: W,
    mut watch: impl FnMut(Option<&PumpCounters>) -> io::Result<()>,
) -> io::Result<(Done<W>, Option<SenderReport>)> {
    let Prepared { mut mobile, command, opposite, processor } = prepared;
    mobile.device = end_of(mobile.device, Side::Server, own.mobile);
    let run = Run { chain, watcher, processor };
    match (opposite, sender) {
        (Opposite::Server(mut site, server), _) => {
            let mut server = server.start()?;
            wait_for_listener(&mut server, &mut site.sockets, &mut || watch(None))?;
            let child = command.start()?;
            let device = end_of(site.device, Side::Mobile, own.server);
            let (done, _) = run.drive(device, Some(site.statistics), mobile, child, watch)?;
            Ok((done, None))
        }
        (Opposite::Outside(site, listeners), _) => {
            let outside = Outside { server: ends().0 };
            let child = command.start()?;
            let statistics = Some(site.statistics);
            let inner = end_of(site.device, Side::Mobile, own.server);
            let done = match listeners {
                Ok(listeners) => {
                    let relay = Relay::begin(listeners, outside);
                    let device = WithDatagrams::new(inner, outside)?;
                    let (done, device) = run.drive(device, statistics, mobile, child, watch)?;
                    let (datagrams, dropped) = device.counts();
                    let carried = Carried { datagrams, dropped, ..relay.carried() };
                    Done { behind: Behind::Outside(carried), ..done }
                }
                Err(error) => {
                    let (done, _) = run.drive(inner, statistics, mobile, child, watch)?;
                    Done { behind: Behind::Nothing(error.to_string()), ..done }
                }
            };
            Ok((done, None))
        }
        (Opposite::Sender, Some(sender)) => {
            let mut child = command.start()?;
            let mut mobile = mobile;
            wait_for_listener(&mut child, &mut mobile.sockets, &mut || watch(None))?;
            let (done, sender) = run.drive(sender, None, mobile, child, watch)?;
            Ok((done, Some(sender.report())))
        }
        (Opposite::Sender, None) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// What a pump is made of, beside its devices.
struct Run<W> {
    chain: Chain,
    watcher: W,
    processor: usize,
}

impl<W: Watcher> Run<W> {
    /// Runs the pump until the command at the mobile has ended. `statistics` are those of the
    /// server's namespace, if it has one.
    fn drive<S: Device>(
        self,
        server: S,
        statistics: Option<Statistics>,
        mobile: Site,
        mut child: Bound,
        mut watch: impl FnMut(Option<&PumpCounters>) -> io::Result<()>,
    ) -> io::Result<(Done<W>, S)> {
        let kind = mobile.device.kind();
        let real_time = RealTime::begin(self.processor);
        drop_privileges()?;
        let mut pump = Pump::new(self.chain, server, mobile.device, self.watcher);
        let mut status = None;
        let result = pump.run(|counters| {
            watch(Some(counters))?;
            status = child.try_wait()?;
            Ok(status.is_some())
        });
        let was_real_time = real_time.is_some();
        drop(real_time);
        result?;
        let duration = Duration::from_nanos(pump.now().0);
        let mut counters = pump.counters().clone();
        counters.own_drops += pump.drops();
        for mut statistics in [Some(mobile.statistics), statistics].into_iter().flatten() {
            counters.own_drops += statistics.dropped()?;
        }
        let (chain, server, watcher) = pump.into_parts();
        let done = Done {
            exit_status: status.unwrap_or(1),
            duration,
            chain,
            counters,
            watcher,
            real_time: was_real_time,
            device: kind,
            behind: Behind::Server,
            congestion_control: mobile.congestion_control,
        };
        Ok((done, server))
    }
}

/// Replaces `$LASTHOP_SERVER` and its relatives in a word of a command, for the caller's shell does
/// not know them.
fn expand(word: &OsString, environment: &[(&str, String)]) -> OsString {
    let Some(text) = word.to_str() else { return word.clone() };
    // The longest names first: `$LASTHOP_SERVER6` begins with `$LASTHOP_SERVER`.
    let mut names: Vec<_> = environment.iter().collect();
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names
        .iter()
        .fold(text.to_string(), |text, (name, value)| {
            text.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value)
        })
        .into()
}

/// Waits until a socket in the namespace of `child` accepts TCP connections or datagrams.
fn wait_for_listener(
    child: &mut Bound,
    sockets: &mut Sockets,
    interrupted: &mut impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < SERVER_START {
        interrupted()?;
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("the server ended with status {status}")));
        }
        let looked = Instant::now();
        if sockets.are_serving() {
            return Ok(());
        }
        // The kernel goes through tables of all connections, in a millisecond or more: a tenth of
        // the processor is left for that.
        std::thread::sleep(Duration::from_millis(5).max(10 * looked.elapsed()));
    }
    // Whatever it does, it has had its time.
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_commands_are_expanded() {
        let environment = [("LASTHOP_SERVER", "s".into()), ("LASTHOP_SERVER6", "t".into())];
        let expanded = |word: &str| expand(&word.into(), &environment).into_string().unwrap();
        assert_eq!(expanded("http://$LASTHOP_SERVER:80/"), "http://s:80/");
        assert_eq!(expanded("http://[${LASTHOP_SERVER6}]/$LASTHOP_SERVER6"), "http://[t]/t");
        assert_eq!(expanded("$HOME"), "$HOME");
    }
}
