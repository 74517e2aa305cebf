//! Where a live link stands: two unnamed network namespaces, each with a TUN device, and the
//! processes in them.
//!
//! Nothing here has a name in the file system, and nothing has to be removed: namespaces, devices
//! and addresses vanish with the last process or descriptor that uses them.

pub mod abilities;
pub mod child;
pub mod namespace;
pub mod netlink;
pub mod user;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::device::MTU;
use crate::device::tun::Tun;
use namespace::Namespace;

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

/// An end of the link: a namespace and its device.
pub struct Site {
    /// The namespace.
    pub namespace: Namespace,
    /// Its device, through which all its packets pass.
    pub tun: Tun,
}

impl Site {
    /// A new namespace with a TUN device that has these addresses and takes all packets.
    ///
    /// # Errors
    ///
    /// If the caller may not make namespaces or devices, or the kernel lacks the congestion
    /// control; the message says which step failed.
    pub fn new(addresses: Addresses, ends: &Ends) -> io::Result<Site> {
        let (tun, namespace) = Namespace::with(|| {
            let said = |step: &'static str| {
                move |e: io::Error| io::Error::new(e.kind(), format!("{step}: {e}"))
            };
            let tun = Tun::new("lasthop").map_err(said("cannot make a TUN device"))?;
            let mut net = netlink::Netlink::new().map_err(said("cannot open rtnetlink"))?;
            net.up("lo", None).map_err(said("cannot start the loopback device"))?;
            net.up("lasthop", Some(MTU as u32)).map_err(said("cannot start the TUN device"))?;
            for (address, length) in [(addresses.v4.into(), 24), (addresses.v6.into(), 64)] {
                // A kernel without IPv6 has IPv4 only.
                let done = net.add_address("lasthop", address, length);
                let done = done.and_then(|()| net.add_default_route("lasthop", address));
                if address.is_ipv4() {
                    done.map_err(said("cannot set the address"))?;
                }
            }
            ends.apply().map_err(said("cannot set TCP up"))?;
            Ok(tun)
        })?;
        Ok(Site { namespace, tun })
    }
}

impl Ends {
    /// Applies the settings to the network namespace of the calling thread.
    fn apply(&self) -> io::Result<()> {
        const FOLDER: &str = "/proc/sys/net/ipv4";
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

/// Why the kernel refuses a congestion control as the default of a namespace.
fn refused(name: &str, error: &io::Error) -> io::Error {
    let listed = |file: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{file}"));
        text.unwrap_or_default().trim().to_string()
    };
    let text = match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "the kernel does not allow `{name}` as the default of a network namespace; let a \
             server choose it by the socket option TCP_CONGESTION, or allow it on this machine \
             with `sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{} {name}\"`",
            listed("tcp_allowed_congestion_control")
        ),
        _ => format!(
            "congestion control `{name}`: {error}; available: {}",
            listed("tcp_available_congestion_control")
        ),
    };
    io::Error::new(error.kind(), text)
}
