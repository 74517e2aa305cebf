//! Where a live link stands: two unnamed network namespaces, each with a device, and the processes
//! in them.
//!
//! Nothing here has a name in the file system, and nothing has to be removed: namespaces, devices
//! and addresses vanish with the last process or descriptor that uses them.

pub mod abilities;
pub mod caller;
pub mod child;
pub mod mount;
pub mod namespace;
pub mod netlink;
pub mod steering;
pub mod user;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::device::packet::PacketSocket;
use crate::device::tun::Tun;
use crate::device::{Device, Kind, MTU};
use crate::pump::OwnDrops;
use namespace::Namespace;
use netlink::Netlink;

/// Addresses of an end. Links can be nested: each level has its own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4 address, from the shared address space of RFC 6598.
    pub v4: Ipv4Addr,
    /// IPv6 address, a unique local address (RFC 4193).
    pub v6: Ipv6Addr,
}

/// The addresses of the server (host 1) or mobile (host 2) of the link at this nesting level.
pub fn addresses(level: u8, host: u8) -> Addresses {
    Addresses {
        v4: Ipv4Addr::new(100, 64, level, host),
        v6: Ipv6Addr::new(0xfd6c, 0x6173, 0x7468, level.into(), 0, 0, 0, host.into()),
    }
}

/// TCP settings of the kernel at both ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Name of the congestion control, as the kernel knows it.
    pub congestion_control: Option<String>,
    /// Selective acknowledgments (RFC 2018).
    pub sack: Option<bool>,
}

/// The congestion control of an end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CongestionControl {
    /// That of the programs which select none by the socket option TCP_CONGESTION.
    pub default: String,
    /// All that the kernel has loaded.
    pub available: Vec<String>,
}

/// A device of any kind.
pub type BoxedDevice = Box<dyn Device + Send>;

/// An end of the link: a namespace and its device.
pub struct Site {
    /// The namespace.
    pub namespace: Namespace,
    /// Its device, through which all its packets pass.
    pub device: BoxedDevice,
    /// Statistics of the devices of the namespace.
    pub statistics: Statistics,
    /// Sockets of the namespace.
    pub sockets: Sockets,
    /// Congestion control of the namespace.
    pub congestion_control: CongestionControl,
}

/// Name of the device of an end.
pub const DEVICE: &str = "lasthop";

/// Packets, of up to 64 KiB, that wait in a TUN device for lasthop to read them; by default 500. A
/// longer queue would hide for longer that lasthop is too slow.
const QUEUE: u32 = 4096;

/// Setting of a device: how often the kernel asks for an IPv6 router, of which there is none. The
/// questions would shift the numbers of all later frames by which losses are drawn.
const SOLICIT: &str = "router_solicitations";

/// How an end is set up.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Settings of the kernel's TCP.
    pub ends: Ends,
    /// Kind of the device.
    pub device: Kind,
    /// The processor that lasthop runs on, which is left out of protocol work.
    pub busy: usize,
    /// True if the end stands for all addresses, and not only for its own.
    pub is_everywhere: bool,
}

/// Statistics of the network devices of a namespace: /proc/net/dev, held open.
#[derive(Debug)]
pub struct Statistics(File);

impl Statistics {
    fn new() -> io::Result<Statistics> {
        File::open("/proc/thread-self/net/dev").map(Statistics)
    }

    /// Packets that the kernel has dropped at the device of the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn dropped(&mut self) -> io::Result<OwnDrops> {
        let mut text = String::new();
        self.0.rewind()?;
        self.0.read_to_string(&mut text)?;
        Ok(dropped(&text))
    }
}

/// The drops of the device of an end in the text of /proc/net/dev.
fn dropped(text: &str) -> OwnDrops {
    let line = text.lines().find_map(|l| l.trim_start().strip_prefix("lasthop:"));
    let fields: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    let field = |i: usize| fields.get(i).and_then(|f| f.parse().ok()).unwrap_or_default();
    // Bytes, packets, errors, drops of what the end receives; four more; the same of what it sends.
    OwnDrops { not_taken: field(3), not_read: field(11) }
}

/// Sockets of a network namespace: its tables in /proc, held open.
#[derive(Debug)]
pub struct Sockets(Vec<(File, &'static str)>);

impl Sockets {
    fn new() -> Sockets {
        // Listening TCP sockets and unconnected UDP sockets, as states in these tables.
        let tables = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];
        let open = |(table, state)| {
            Some((File::open(format!("/proc/thread-self/net/{table}")).ok()?, state))
        };
        Sockets(tables.into_iter().filter_map(open).collect())
    }

    /// True if one of them accepts TCP connections or datagrams.
    pub fn are_serving(&mut self) -> bool {
        self.0.iter_mut().any(|(file, state)| {
            let mut text = String::new();
            let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
            // A table that cannot be read is as one without sockets.
            let mut lines = text.lines().skip(usize::from(read.is_ok()));
            lines.any(|line| line.split_whitespace().nth(3) == Some(*state))
        })
    }
}

impl Site {
    /// Makes a namespace with a device that has these addresses and takes all packets.
    ///
    /// # Errors
    ///
    /// If the caller may not make namespaces or devices, or the kernel lacks the congestion
    /// control; the message says which step failed.
    pub fn new(addresses: Addresses, setup: &Setup) -> io::Result<Site> {
        let ((), namespace) = Namespace::with(|| Ok(()))?;
        let device = device(setup.device, &namespace)?;
        let (statistics, sockets, congestion_control) = namespace.inside(|| {
            let mut net = Netlink::new().map_err(during("cannot open rtnetlink"))?;
            // A kernel without IPv6 has no such setting.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{DEVICE}/{SOLICIT}"), "0");
            net.up("lo", None).map_err(during("cannot start the loopback device"))?;
            net.up(DEVICE, Some(MTU as u32)).map_err(during("cannot start the device"))?;
            // Without it, more packets are dropped, and counted.
            let _ = net.set_queue(DEVICE, QUEUE);
            for (address, length) in [(addresses.v4.into(), 24), (addresses.v6.into(), 64)] {
                // A kernel without IPv6 has IPv4 only.
                let done = net.add_address(DEVICE, address, length);
                let done = done.and_then(|()| match setup.is_everywhere {
                    true => net.make_all_local(address),
                    false => net.add_default_route(DEVICE, address),
                });
                if address.is_ipv4() {
                    done.map_err(during("cannot set the address"))?;
                }
            }
            setup.ends.apply().map_err(during("cannot set TCP up"))?;
            // Without it, the same happens more slowly.
            let _ = steering::steer(DEVICE, setup.busy);
            Ok((Statistics::new()?, Sockets::new(), CongestionControl::read()))
        })?;
        Ok(Site { namespace, device, statistics, sockets, congestion_control })
    }
}

/// Names the step that an error belongs to.
fn during(step: &'static str) -> impl Fn(io::Error) -> io::Error {
    move |e| io::Error::new(e.kind(), format!("{step}: {e}"))
}

/// Makes the device of an end.
fn device(kind: Kind, namespace: &Namespace) -> io::Result<BoxedDevice> {
    let tun = || -> io::Result<BoxedDevice> {
        let tun =
            namespace.inside(|| Tun::new(DEVICE)).map_err(during("cannot make a TUN device"))?;
        Ok(Box::new(tun))
    };
    let packet = || -> io::Result<BoxedDevice> {
        let made = Namespace::with(|| PacketSocket::new(DEVICE, namespace.fd()));
        // The socket holds the namespace that it was made in.
        let (socket, _) = made.map_err(during("cannot make a packet socket"))?;
        Ok(Box::new(socket))
    };
    match kind {
        Kind::Tun => tun(),
        Kind::Packet => packet(),
        Kind::Automatic => tun().or_else(|error| packet().map_err(|_| error)),
    }
}

impl Ends {
    /// Applies the settings to the network namespace of the calling thread.
    fn apply(&self) -> io::Result<()> {
        const FOLDER: &str = "/proc/sys/net/ipv4";
        // The namespace is the caller's: servers on port 80, and ping.
        std::fs::write(format!("{FOLDER}/ip_unprivileged_port_start"), "0")?;
        // In a user namespace of lasthop's, only the caller's group has a number.
        let ping = |groups| std::fs::write(format!("{FOLDER}/ping_group_range"), groups);
        ping("0 2147483647").or_else(|_| ping("0 0"))?;
        if let Some(name) = &self.congestion_control {
            let path = format!("{FOLDER}/tcp_congestion_control");
            std::fs::write(path, name).map_err(|e| refused(name, &e))?;
        }
        if let Some(sack) = self.sack {
            std::fs::write(format!("{FOLDER}/tcp_sack"), if sack { "1" } else { "0" })?;
        }
        Ok(())
    }
}

/// The text of a setting of the calling thread's network namespace.
fn setting(name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
    text.unwrap_or_default().trim().to_string()
}

impl CongestionControl {
    /// That of the network namespace of the calling thread.
    fn read() -> CongestionControl {
        let available = setting("tcp_available_congestion_control");
        CongestionControl {
            default: setting("tcp_congestion_control"),
            available: available.split_whitespace().map(str::to_string).collect(),
        }
    }
}

/// Why the kernel refuses a congestion control as the default of a namespace.
fn refused(name: &str, error: &io::Error) -> io::Error {
    let text = match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "the kernel does not allow `{name}` as the default of a network namespace; let a \
             server choose it by the socket option TCP_CONGESTION, or allow it on this machine \
             with `sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{} {name}\"`",
            setting("tcp_allowed_congestion_control")
        ),
        _ => format!(
            "congestion control `{name}`: {error}; available: {}",
            setting("tcp_available_congestion_control")
        ),
    };
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_told_apart_by_direction() {
        let text = "Inter-|   Receive                            |  Transmit\n\
            \x20   lo:  1  1  0  9  0 0 0 0  1 1 0 9 0 0 0 0\n\
            lasthop: 70 7 0 3 0 0 0 0 80 8 0 5 0 0 0 0\n";
        assert_eq!(dropped(text), OwnDrops { not_taken: 3, not_read: 5 });
        assert_eq!(dropped("nothing"), OwnDrops::default());
    }
}
