//! What of a live link this machine can do.

use std::io;

use super::namespace::Namespace;
use crate::device::tun::{PATH, Tun};
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

/// Tries everything that a link needs, in a namespace that vanishes at once.
pub fn abilities() -> Vec<Ability> {
    let missing = |result: io::Result<()>| result.err().map(|e| e.to_string());
    let namespace = Namespace::with(|| Ok(())).map(|_| ());
    let tun = Namespace::with(|| {
        let open = |e: io::Error| io::Error::new(e.kind(), format!("{PATH}: {e}"));
        Tun::new("lasthop").map(drop).map_err(open)
    });
    let real_time = RealTime::begin(processor()).is_none().then(|| {
        "needs CAP_SYS_NICE or a limit `rtprio` of at least 1; packets then leave late on a busy \
         machine"
            .to_string()
    });
    vec![
        Ability {
            name: "namespaces",
            purpose: "network namespaces for both ends",
            missing: missing(namespace),
            required: true,
        },
        Ability {
            name: "tun",
            purpose: "TUN devices in them",
            missing: missing(tun.map(|_| ())),
            required: true,
        },
        Ability {
            name: "real_time",
            purpose: "real-time scheduling (SCHED_FIFO)",
            missing: real_time,
            required: false,
        },
    ]
}
