//! What a replay says about packets that the agent was not shown.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use lasthop_wire::{Addressing, Interface, LinkType, NotTcp};

use crate::summary::{Summary, list};

/// Number of addresses that a message lists.
const LISTED: usize = 4;

/// What is known of packets that the agent was not shown, and of those that it could not send.
#[derive(Debug, Default)]
pub(super) struct NotShown {
    /// Packets whose headers hide what is inside, by protocol.
    pub opaque: BTreeMap<&'static str, u64>,
    /// Packets shown to the agent that were in a tunnel.
    pub tunnelled: u64,
    /// Packets that the agent made for a direction whose tunnel is unknown.
    pub without_tunnel: u64,
    /// Some addresses of TCP packets that are not the mobile's.
    pub addresses: BTreeSet<IpAddr>,
}

impl NotShown {
    /// A TCP packet is not the mobile's.
    pub fn note_addresses(&mut self, addressing: &Addressing) {
        for end in [addressing.source, addressing.destination] {
            if self.addresses.len() <= LISTED {
                self.addresses.insert(end.ip());
            }
        }
    }

    /// Adds what a user has to know about the result, and why the agent was shown nothing.
    pub fn add_notes(&self, summary: &mut Summary, interfaces: &[Interface]) {
        let cooked = |i: &Interface| {
            i.name == summary.interface
                && matches!(i.link_type, LinkType::LINUX_SLL | LinkType::LINUX_SLL2)
        };
        let mut notes = Vec::new();
        if interfaces.iter().any(cooked) {
            notes.push(
                "a capture of all interfaces (`tcpdump -i any`) contains a forwarded packet once \
                 per interface; capture on one interface"
                    .into(),
            );
        }
        if let Some(n) = summary.untouched.get(NotTcp::CutShort.reason()) {
            notes.push(format!(
                "{n} packets are truncated within their headers and were not passed to the \
                 agent; capture with `tcpdump -s 134` or more, inside tunnels with `-s 256`"
            ));
        }
        notes.extend(
            self.opaque.iter().map(|(name, n)| format!("{} {name}: not looked into", are(*n))),
        );
        if let Some(n) = summary.untouched.get(NotTcp::Fragment.reason()) {
            notes.push(format!(
                "{} IP fragments: not looked into, because the TCP header or the headers of a \
                 tunnel may be in another fragment",
                are(*n)
            ));
        }
        if 0 < self.tunnelled && self.tunnelled < summary.tcp {
            notes.push(format!(
                "{} of {} TCP packets are in tunnels and the others are not: a capture of both \
                 ends of a tunnel contains each packet twice; capture at one end",
                self.tunnelled, summary.tcp
            ));
        }
        if self.without_tunnel > 0 {
            notes.push(format!(
                "{} packets that the agent made were not written: no packet of their direction \
                 shows the headers of its tunnel",
                self.without_tunnel
            ));
        }
        summary.notes.extend(notes);
        if summary.tcp == 0 {
            let reason = self.nothing_shown(summary);
            summary.notes.push(reason.clone());
            summary.nothing_shown = Some(reason);
        }
    }

    /// Why the agent was shown no packet.
    fn nothing_shown(&self, summary: &Summary) -> String {
        if summary.packets == 0 {
            return "the agent processed nothing: the capture has no packet of this interface"
                .into();
        }
        let reasons = list(&summary.untouched);
        let mut text = format!(
            "the agent processed nothing: none of the {} packets was found to be TCP to or from \
             the mobile {} ({reasons})",
            summary.packets, summary.mobile
        );
        if !self.opaque.is_empty() {
            text += &format!("; not looked into: {}", list(&self.opaque));
        }
        if !self.addresses.is_empty() {
            let all: Vec<String> =
                self.addresses.iter().take(LISTED).map(IpAddr::to_string).collect();
            let more = if self.addresses.len() > LISTED { ", …" } else { "" };
            text += &format!("; addresses of TCP packets: {}{more}", all.join(", "));
        }
        text
    }
}

fn are(n: u64) -> String {
    if n == 1 { "1 packet is".into() } else { format!("{n} packets are") }
}
