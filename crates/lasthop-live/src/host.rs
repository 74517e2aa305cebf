//! A live link: two namespaces, a chain between them, and the commands at its ends.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use crate::chain::Chain;
use crate::device::sender::{OwnSender, SenderReport};
use crate::device::{Device, Kind};
use crate::outer::outside::Outside;
use crate::outer::udp::WithDatagrams;
use crate::outer::{self, Carried};
use crate::place::child::{Bound, code, drop_privileges, spawn};
use crate::place::{Addresses, Ends, Setup, Site, addresses};
use crate::pump::{Pump, PumpCounters, Watcher};
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
    /// At the server, started first. If it is empty, the network of the caller is behind the link.
    pub server: Vec<OsString>,
    /// Settings of the kernels' TCP.
    pub ends: Ends,
    /// Kind of the devices.
    pub device: Kind,
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
}

/// The nesting level of the present process: the number of links around it.
pub fn level() -> u8 {
    std::env::var(LEVEL).ok().and_then(|level| level.parse().ok()).unwrap_or_default()
}

/// Addresses of server and mobile at the present nesting level.
pub fn ends() -> (Addresses, Addresses) {
    (addresses(level(), 1), addresses(level(), 2))
}

/// Runs the commands over a chain until the mobile's command has ended. `watch` is called each
/// 5 ms, with what the pump has measured once it runs, and stops the link by an error. The calling
/// thread gives up its privileges.
///
/// # Errors
///
/// If namespaces or devices cannot be made, or a command cannot be started; or the error of
/// `watch`. Nothing is left behind.
pub fn run<W: Watcher>(
    chain: Chain,
    commands: &Commands,
    watcher: W,
    mut watch: impl FnMut(Option<&PumpCounters>) -> io::Result<()>,
) -> io::Result<Done<W>> {
    let (server, mobile) = ends();
    let setup = setup(commands);
    let mobile_site = Site::new(mobile, &setup)?;
    let with_server = |done: Done<W>, dropped| Done {
        counters: PumpCounters { own_drops: done.counters.own_drops + dropped, ..done.counters },
        ..done
    };
    if commands.server.is_empty() {
        let site = Site::new(server, &Setup { is_everywhere: true, ..setup.clone() })?;
        let Site { device, mut statistics, namespace } = site;
        let relay = outer::begin(&namespace, server);
        let child = start(&commands.mobile, &mobile_site, false)?;
        return match relay {
            Ok(relay) => {
                let device = WithDatagrams::new(device, Outside { server })?;
                let (done, device) =
                    drive(chain, device, mobile_site, child, watcher, watch, setup.busy)?;
                let (datagrams, dropped) = device.counts();
                let carried = Carried { datagrams, dropped, ..relay.counters().into() };
                let done = with_server(done, statistics.dropped()?);
                Ok(Done { behind: Behind::Outside(carried), ..done })
            }
            Err(error) => {
                let (done, _device) =
                    drive(chain, device, mobile_site, child, watcher, watch, setup.busy)?;
                let done = with_server(done, statistics.dropped()?);
                Ok(Done { behind: Behind::Nothing(error.to_string()), ..done })
            }
        };
    }
    let site = Site::new(server, &setup)?;
    let mut server_child = start(&commands.server, &site, true)?;
    wait_for_listener(&mut server_child, &mut || watch(None))?;
    let child = start(&commands.mobile, &mobile_site, false)?;
    let Site { device, mut statistics, .. } = site;
    let (done, _device) = drive(chain, device, mobile_site, child, watcher, watch, setup.busy)?;
    drop(server_child);
    Ok(with_server(done, statistics.dropped()?))
}

/// How the ends of a link are set up.
fn setup(commands: &Commands) -> Setup {
    Setup {
        ends: commands.ends.clone(),
        device: commands.device,
        busy: wait::processor(),
        is_everywhere: false,
    }
}

/// As [`run`], with the core's own sender instead of a server. It opens its connection when the
/// mobile's command accepts connections.
///
/// # Errors
///
/// As [`run`].
pub fn run_sender<W: Watcher>(
    chain: Chain,
    sender: OwnSender,
    commands: &Commands,
    watcher: W,
    mut watch: impl FnMut(Option<&PumpCounters>) -> io::Result<()>,
) -> io::Result<(Done<W>, SenderReport)> {
    let setup = setup(commands);
    let site = Site::new(ends().1, &setup)?;
    let mut child = start(&commands.mobile, &site, false)?;
    wait_for_listener(&mut child, &mut || watch(None))?;
    let (done, sender) = drive(chain, sender, site, child, watcher, watch, setup.busy)?;
    Ok((done, sender.report()))
}

/// Runs the pump until the command at the mobile has ended.
fn drive<S: Device, W: Watcher>(
    chain: Chain,
    server: S,
    mobile: Site,
    mut child: Bound,
    watcher: W,
    mut watch: impl FnMut(Option<&PumpCounters>) -> io::Result<()>,
    processor: usize,
) -> io::Result<(Done<W>, S)> {
    let Site { device, mut statistics, namespace: _namespace } = mobile;
    let kind = device.kind();
    let real_time = RealTime::begin(processor);
    drop_privileges()?;
    let mut pump = Pump::new(chain, server, device, watcher);
    let mut status = None;
    let result = pump.run(|counters| {
        watch(Some(counters))?;
        status = child.0.try_wait()?;
        Ok(status.is_some())
    });
    let was_real_time = real_time.is_some();
    drop(real_time);
    result?;
    let duration = Duration::from_nanos(pump.now().0);
    let mut counters = pump.counters().clone();
    counters.own_drops += statistics.dropped()? + pump.drops();
    let (chain, server, watcher) = pump.into_parts();
    let exit_status = status.map_or(1, code);
    let done = Done {
        exit_status,
        duration,
        chain,
        counters,
        watcher,
        real_time: was_real_time,
        device: kind,
        behind: Behind::Server,
    };
    Ok((done, server))
}

/// Starts a command at an end of the link.
fn start(command: &[OsString], site: &Site, quiet: bool) -> io::Result<Bound> {
    let (server, mobile) = ends();
    let environment = [
        (LEVEL, level().saturating_add(1).to_string()),
        ("LASTHOP_SERVER", server.v4.to_string()),
        ("LASTHOP_MOBILE", mobile.v4.to_string()),
        ("LASTHOP_SERVER6", server.v6.to_string()),
        ("LASTHOP_MOBILE6", mobile.v6.to_string()),
        ("MAHIMAHI_BASE", server.v4.to_string()),
    ];
    let expanded: Vec<OsString> = command.iter().map(|word| expand(word, &environment)).collect();
    spawn(&expanded, site.namespace.fd(), &environment, quiet).map(Bound)
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

/// Waits until a process in the namespace of `child` accepts TCP connections or datagrams.
fn wait_for_listener(
    child: &mut Bound,
    interrupted: &mut impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < SERVER_START {
        interrupted()?;
        if let Some(status) = child.0.try_wait()? {
            let text = format!("the server ended with status {}", code(status));
            return Err(io::Error::other(text));
        }
        if is_serving(child.0.id()) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // Whatever it does, it has had its time.
    Ok(())
}

/// True if the namespace of a process has a listening TCP socket or an unconnected UDP socket
/// (states 0A and 07 in /proc).
fn is_serving(pid: u32) -> bool {
    [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")].iter().any(|(table, state)| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        text.lines().skip(1).any(|line| line.split_whitespace().nth(3) == Some(state))
    })
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
