//! What of a live link this machine can do.

use std::io;

use super::DEVICE;
use super::child::try_proc;
use super::namespace::Namespace;
use crate::device::packet::PacketSocket;
use crate::device::tun::{PATH, Tun};
use crate::outer;
use crate::wait::{RealTime, processor};

/// An ability, and why it is missing.
#[derive(Clone, Debug)]
pub struct Ability {
    /// Name, a key of `lasthop doctor --json`.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// Why it is missing; `None` if it is there.
    pub missing: Option<String>,
    /// True if there is no link without it.
    pub required: bool,
}

/// Tries everything that a link needs, in namespaces that vanish at once.
pub fn abilities() -> Vec<Ability> {
    let missing = |result: io::Result<()>| result.err().map(|e| e.to_string());
    let namespace = Namespace::with(|| Ok(())).map(|_| ());
    let tun = Namespace::with(|| {
        let open = |e: io::Error| io::Error::new(e.kind(), format!("{PATH}: {e}"));
        Tun::new(DEVICE).map(drop).map_err(open)
    });
    let packet = Namespace::with(|| Ok(())).and_then(|((), end)| {
        Namespace::with(|| PacketSocket::new(DEVICE, end.fd()).map(drop)).map(|_| ())
    });
    let outer = Namespace::with(outer::try_tables);
    let real_time = RealTime::begin(processor()).is_none().then(|| {
        "needs CAP_SYS_NICE or a limit `rtprio` of at least 1; packets then leave late on a busy \
         machine"
            .to_string()
    });
    // One of two devices is enough.
    let (has_tun, has_packet) = (tun.is_ok(), packet.is_ok());
    let ability = |name, purpose, missing, required| Ability { name, purpose, missing, required };
    vec![
        ability("namespaces", "network namespaces for both ends", missing(namespace), true),
        ability("tun", "TUN devices in them", missing(tun.map(|_| ())), !has_packet),
        ability("packet", "or virtual Ethernet and packet sockets", missing(packet), !has_tun),
        ability("processes", "a separate /proc for the commands", missing(try_proc()), false),
        ability("real_time", "real-time scheduling (SCHED_FIFO)", real_time, false),
        ability(
            "outer_network",
            "the network of this machine behind a link without a server (nftables)",
            missing(outer.map(|_| ())),
            false,
        ),
    ]
}
