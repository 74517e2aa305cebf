//! A capture in memory, and the choice of the interface to replay.

use std::collections::HashSet;
use std::io::Read;

use lasthop::agent::Subscriptions;
use lasthop::units::Time;
use lasthop_wire::{CaptureReader, Interface, LinkReport, LinkType, Packet, ReadError};
use thiserror::Error;

/// Number of interfaces that a message lists.
const LISTED: usize = 20;

/// Why the interface to replay cannot be chosen.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ChoiceError {
    /// The requested interface does not exist; its name and a list of the existing ones.
    #[error("the capture has no interface {0:?}; it has: {1}")]
    NoSuchInterface(String, String),
    /// Several interfaces have packets; a list of them.
    #[error("the capture has packets of several interfaces, specify the one to replay: {0}")]
    Several(String),
    /// The link type is not supported; its number and the interface name.
    #[error(
        "the link type {0} of interface {1:?} is not supported; supported: {supported}",
        supported = LinkType::SUPPORTED
    )]
    LinkType(u16, String),
}

/// A packet with its number in the capture.
#[derive(Clone, Debug)]
pub struct Record {
    /// Number in the capture file, from 1 as in Wireshark.
    pub number: u64,
    /// Data and metadata of the packet.
    pub packet: Packet,
}

/// All packets of a capture.
#[derive(Debug)]
pub struct Recording {
    /// Its interfaces. An interface without a name is named by its index, from 0.
    pub interfaces: Vec<Interface>,
    /// Its packets sorted by time, and by file order for equal times.
    pub records: Vec<Record>,
}

impl Recording {
    /// Reads a complete capture.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the input cannot be read or is not a valid capture.
    pub fn read(input: impl Read) -> Result<Recording, ReadError> {
        let mut reader = CaptureReader::new(input)?;
        let mut records = Vec::new();
        while let Some(packet) = reader.next_packet()? {
            records.push(Record { number: records.len() as u64 + 1, packet });
        }
        records.sort_by_key(|r| r.packet.time);
        let mut interfaces = reader.interfaces().to_vec();
        for (number, interface) in
            interfaces.iter_mut().enumerate().filter(|(_, i)| i.name.is_empty())
        {
            interface.name = number.to_string();
        }
        Ok(Recording { interfaces, records })
    }

    /// Time of the last packet on any interface; 0 if there is none.
    pub fn end(&self) -> Time {
        self.records.last().map_or(Time::ZERO, |r| r.packet.time)
    }

    /// The name of the interface to replay: `wanted` if given, otherwise the only one that ends in
    /// ":in" (the agent's input in a simulated capture), otherwise the only one with packets.
    /// Interfaces with the same name count as one.
    ///
    /// # Errors
    ///
    /// [`ChoiceError`] if the interface does not exist, is ambiguous or has an unsupported link
    /// type.
    pub fn choose(&self, wanted: Option<&str>) -> Result<String, ChoiceError> {
        let name = match wanted {
            Some(name) => name.to_string(),
            None => self.only_one()?,
        };
        let mut same_name = self.interfaces.iter().filter(|i| i.name == name).peekable();
        if same_name.peek().is_none() && !self.interfaces.is_empty() {
            return Err(ChoiceError::NoSuchInterface(name, self.list()));
        }
        match same_name.find(|i| !i.link_type.is_supported()) {
            Some(i) => Err(ChoiceError::LinkType(i.link_type.0, name)),
            None => Ok(name),
        }
    }

    /// Whether each interface has the reports of links to the agent whose input is the interface
    /// `name`.
    pub fn interfaces_with_reports(&self, name: &str) -> Vec<bool> {
        let of_agent = name.strip_suffix(":in").map(|node| format!("{node}:link"));
        let has = |i: &Interface| {
            Some(&i.name) == of_agent.as_ref() && LinkReport::described(&i.description).is_some()
        };
        self.interfaces.iter().map(has).collect()
    }

    /// The link events that were reported to the agent whose input is the interface `name`, if it
    /// happened; `None` if none were recorded. Of agents of several schemes at its node, those that
    /// all of them subscribed to.
    pub fn reported(&self, name: &str) -> Option<Subscriptions> {
        let has = self.interfaces_with_reports(name);
        let with_reports = self.interfaces.iter().zip(has).filter(|(_, has)| *has);
        with_reports
            .filter_map(|(i, _)| LinkReport::described(&i.description))
            .reduce(Subscriptions::common)
    }

    fn only_one(&self) -> Result<String, ChoiceError> {
        let inputs: Vec<&str> = self.names().filter(|n| n.ends_with(":in")).collect();
        if let [input] = inputs.as_slice() {
            return Ok(input.to_string());
        }
        let name = |r: &Record| Some(self.interfaces.get(r.packet.interface)?.name.as_str());
        let first = self.records.first().map(name);
        if inputs.len() > 1 || self.records.iter().any(|r| Some(name(r)) != first) {
            return Err(ChoiceError::Several(self.list()));
        }
        Ok(first.flatten().or(self.names().next()).unwrap_or_default().to_string())
    }

    /// The distinct interface names.
    fn names(&self) -> impl Iterator<Item = &str> {
        let mut found = HashSet::new();
        self.interfaces.iter().map(|i| i.name.as_str()).filter(move |name| found.insert(*name))
    }

    fn list(&self) -> String {
        let mut names = self.names();
        let mut list: Vec<String> = names.by_ref().take(LISTED).map(|n| format!("{n:?}")).collect();
        match names.count() {
            0 => {}
            more => list.push(format!("and {more} more")),
        }
        list.join(", ")
    }
}
