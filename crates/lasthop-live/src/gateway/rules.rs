//! The rules of a gateway: two tables of nf_tables (linux/netfilter/nf_tables.h), for IPv4 and
//! IPv6, that lead forwarded TCP packets into a queue.
//!
//! Three things keep packets going without lasthop. The queue is bypassed if nobody reads it. The
//! tables belong to the socket of this process and vanish with it (Linux 5.12; on older kernels
//! they stay, without effect, until the next start or `--remove`). And the rules match only as long
//! as `tcp` is in the set `armed`, from which the kernel removes it after [`TIMEOUT`] unless
//! the gateway renews it: packets pass a process that is stopped or hangs.

use std::io;
use std::time::Duration;

use super::netlink::{ACK, APPEND, CREATE, DUMP, Message, Socket, attribute, attributes};

/// Time after which packets pass a process that does not renew the rules.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// SYNs per second that are led into the queue, and as many at a time. A flood of more passes
/// lasthop, so that it costs no time that connections need; those that it begins have no agent.
pub const SYN_RATE: u32 = 1000;

/// The protocols that agents see, and those that relays need: errors about their segments.
pub(super) const OF_AGENTS: &[u8] = &[libc::IPPROTO_TCP as u8];
pub(super) const OF_RELAYS: &[u8] =
    &[libc::IPPROTO_TCP as u8, libc::IPPROTO_ICMP as u8, libc::IPPROTO_ICMPV6 as u8];

/// Number of the first queue that is tried.
pub const FIRST_QUEUE: u16 = 2040;

/// Mark of the packets that agents send: "last".
pub const MARK: u32 = 0x6c61_7374;

const NF_TABLES: u8 = 10;
const BATCH_BEGIN: (u8, u8) = (0, 16);
const BATCH_END: (u8, u8) = (0, 17);
const NEW_TABLE: (u8, u8) = (NF_TABLES, 0);
const DELETE_TABLE: (u8, u8) = (NF_TABLES, 2);
const NEW_CHAIN: (u8, u8) = (NF_TABLES, 3);
const NEW_RULE: (u8, u8) = (NF_TABLES, 6);
const GET_RULE: (u8, u8) = (NF_TABLES, 7);
const NEW_SET: (u8, u8) = (NF_TABLES, 9);
const NEW_ELEMENT: (u8, u8) = (NF_TABLES, 12);
const DELETE_ELEMENT: (u8, u8) = (NF_TABLES, 14);
const GET_FLOWTABLE: (u8, u8) = (NF_TABLES, 23);

const FAMILIES: [(u8, &str); 2] =
    [(libc::NFPROTO_IPV4 as u8, "ip"), (libc::NFPROTO_IPV6 as u8, "ip6")];
/// The table vanishes with the socket that made it.
const OWNED: u32 = 2;
const WITH_TIMEOUT: u32 = 0x10;
/// The type `inet_proto` of nft, for listings.
const PROTOCOL_TYPE: u32 = 12;
/// Hooks and priorities: after the firewall's filter, so that agents see no packet that it drops;
/// before connection tracking.
const FORWARD: (&str, u32, i32) = ("forward", 2, 10);
const OUTPUT: (&str, u32, i32) = ("output", 3, -300);
const SET: &str = "armed";

/// What the rules match.
#[derive(Clone, Debug)]
pub struct Match {
    /// The interface to the mobiles.
    pub wireless: String,
    /// The interface to the fixed network; `None`: any.
    pub wired: Option<String>,
}

impl Match {
    /// Name of the tables.
    pub fn table(&self) -> String {
        format!("lasthop-{}", self.wireless)
    }

    /// The interfaces of forwarded packets, from and to: downlink and uplink.
    fn directions(&self) -> [(Option<&str>, Option<&str>); 2] {
        let (wired, wireless) = (self.wired.as_deref(), Some(self.wireless.as_str()));
        [(wired, wireless), (wireless, wired)]
    }

    /// The rules in the language of nft(8).
    pub fn text(&self, queue: u16) -> String {
        let mut text = String::new();
        for (_, family) in FAMILIES {
            text += &format!("table {family} {} {{\n", self.table());
            text += &format!(
                "\tset {SET} {{ type inet_proto; flags timeout; }} # tcp; for relays \
                 icmp and icmpv6; renewed within {} s\n",
                TIMEOUT.as_secs()
            );
            text += "\tchain forward {\n\t\ttype filter hook forward priority 10;\n";
            text += &format!(
                "\t\ttcp flags & (fin | syn | rst | ack) == syn \\\n\t\t\tlimit rate over \
                 {SYN_RATE}/second burst {SYN_RATE} packets accept\n"
            );
            for (from, to) in self.directions() {
                let name = |key, name: Option<&str>| {
                    name.map_or(String::new(), |name| format!("{key} \"{name}\" "))
                };
                let interfaces = name("iifname", from) + &name("oifname", to);
                text += &format!(
                    "\t\t{interfaces}meta l4proto @{SET} counter queue flags bypass to {queue}\n"
                );
            }
            text += "\t}\n\tchain output {\n\t\ttype filter hook output priority -300;\n";
            text += &format!(
                "\t\toifname \"{}\" meta mark {MARK:#x} notrack\n\t}}\n}}\n",
                self.wireless
            );
        }
        text
    }
}

/// Rules that are installed.
#[derive(Debug)]
pub(super) struct Rules {
    socket: Socket,
    table: String,
}

impl Rules {
    /// Installs the rules, not armed. Tables of the same name that a process has left are removed.
    pub(super) fn install(matched: &Match, queue: u16) -> io::Result<Rules> {
        let rules = Rules { socket: Socket::new()?, table: matched.table() };
        remove(&rules.socket, &rules.table)?;
        // A kernel without owned tables refuses the flag; one without the statement `queue` may
        // have the target of xtables.
        let mut result = Ok(());
        for (flags, action) in [
            (OWNED, Action::Queue),
            (OWNED, Action::Target),
            (0, Action::Queue),
            (0, Action::Target),
        ] {
            result = rules.batch(rules.whole(matched, flags, action, queue));
            match &result {
                Err(error) if error.raw_os_error() != Some(libc::EPERM) => {}
                _ => break,
            }
        }
        result.map(|()| rules)
    }

    /// Lets the rules match packets of these protocols for the next [`TIMEOUT`].
    pub(super) fn arm(&self, protocols: &[u8]) -> io::Result<()> {
        let element = |kind, flags, family| {
            Message::new(kind, ACK | flags, family, 0)
                .put_name(1, &self.table)
                .put_name(2, SET)
                .nest(3, |list| {
                    protocols.iter().fold(list, |list, protocol| {
                        list.nest(1, |element| {
                            let element = element.nest(1, |k| k.put(1, &[*protocol]));
                            let timeout = (TIMEOUT.as_millis() as u64).to_be_bytes();
                            if kind == NEW_ELEMENT { element.put(4, &timeout) } else { element }
                        })
                    })
                })
        };
        let mut renewed = Vec::new();
        for (family, _) in FAMILIES {
            renewed.push(element(DELETE_ELEMENT, 0, family));
            renewed.push(element(NEW_ELEMENT, CREATE, family));
        }
        match self.batch(renewed) {
            // It has timed out.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                self.batch(FAMILIES.map(|(family, _)| element(NEW_ELEMENT, CREATE, family)).into())
            }
            result => result,
        }
    }

    /// Removes the tables; does nothing where there is none.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove(&self.socket, &self.table).map(drop)
    }

    /// Packets that the rules have led to the queue, or past it when it was full or had no reader.
    pub(super) fn matched(&self) -> io::Result<u64> {
        let mut packets = 0;
        for (family, _) in FAMILIES {
            let list = Message::new(GET_RULE, DUMP, family, 0).put_name(1, &self.table);
            for rule in self.socket.request(&list.finish())? {
                packets += counted(&rule);
            }
        }
        Ok(packets)
    }

    /// All messages that make the tables.
    fn whole(&self, matched: &Match, flags: u32, action: Action, queue: u16) -> Vec<Message> {
        let mut messages = Vec::new();
        for (family, _) in FAMILIES {
            let new = |kind| {
                let flags = ACK | CREATE | APPEND;
                Message::new(kind, flags, family, 0).put_name(1, &self.table)
            };
            messages.push(new(NEW_TABLE).put_u32(2, flags));
            messages.push(
                new(NEW_SET)
                    .put_name(2, SET)
                    .put_u32(3, WITH_TIMEOUT)
                    .put_u32(4, PROTOCOL_TYPE)
                    .put_u32(5, 1)
                    .put_u32(10, 1),
            );
            for (name, hook, priority) in [FORWARD, OUTPUT] {
                let chain = new(NEW_CHAIN).put_name(3, name).put_name(7, "filter");
                messages.push(chain.nest(4, |h| h.put_u32(1, hook).put_u32(2, priority as u32)));
            }
            messages.push(new(NEW_RULE).put_name(2, FORWARD.0).nest(4, too_many_syns));
            for (from, to) in matched.directions() {
                let rule = new(NEW_RULE).put_name(2, FORWARD.0);
                messages.push(rule.nest(4, |list| {
                    let list = interface(list, IN_NAME, from);
                    let list = interface(list, OUT_NAME, to);
                    let list = expression(list, "meta", |e| e.put_u32(1, REGISTER).put_u32(2, L4));
                    let list =
                        expression(list, "lookup", |e| e.put_name(1, SET).put_u32(2, REGISTER));
                    let list = expression(list, "counter", |e| e);
                    action.put(list, queue)
                }));
            }
            messages.push(new(NEW_RULE).put_name(2, OUTPUT.0).nest(4, |list| {
                let list = interface(list, OUT_NAME, Some(&matched.wireless));
                let list = compare(list, PACKET_MARK, &MARK.to_ne_bytes());
                expression(list, "notrack", |e| e)
            }));
        }
        messages
    }

    fn batch(&self, messages: Vec<Message>) -> io::Result<()> {
        batch(&self.socket, messages)
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        // At the end of the process they vanish anyway, or are without effect.
        self.remove().unwrap_or_default();
    }
}

/// How a packet gets into the queue.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// The statement `queue` of nf_tables.
    Queue,
    /// The target NFQUEUE of xtables, by its adapter for nf_tables.
    Target,
}

impl Action {
    fn put(self, list: Message, queue: u16) -> Message {
        // Of both: accept the packet if nobody reads the queue.
        const BYPASS: u16 = 1;
        match self {
            Action::Queue => expression(list, "queue", |e| {
                e.put(1, &queue.to_be_bytes())
                    .put(2, &1_u16.to_be_bytes())
                    .put(3, &BYPASS.to_be_bytes())
            }),
            Action::Target => {
                // `struct xt_NFQ_info_v3`: number, number of queues, flags; padded as the kernel's.
                let info = [queue, 1, BYPASS, 0].map(u16::to_ne_bytes).concat();
                expression(list, "target", |e| e.put_name(1, "NFQUEUE").put_u32(2, 3).put(3, &info))
            }
        }
    }
}

/// A register of nf_tables, and what `meta` can load into it.
const REGISTER: u32 = 1;
const PACKET_MARK: u32 = 3;
const IN_NAME: u32 = 6;
const OUT_NAME: u32 = 7;
const L4: u32 = 16;

fn expression(list: Message, name: &str, data: impl FnOnce(Message) -> Message) -> Message {
    list.nest(1, |e| e.put_name(1, name).nest(2, data))
}

/// The rule goes on only if a property of the packet has this value.
fn compare(list: Message, property: u32, value: &[u8]) -> Message {
    let list = expression(list, "meta", |e| e.put_u32(1, REGISTER).put_u32(2, property));
    expression(list, "cmp", |e| e.put_u32(1, REGISTER).put_u32(2, 0).nest(3, |d| d.put(1, value)))
}

fn interface(list: Message, property: u32, name: Option<&str>) -> Message {
    let Some(name) = name else { return list };
    let mut padded = name.as_bytes().to_vec();
    padded.resize(libc::IFNAMSIZ, 0);
    compare(list, property, &padded)
}

/// Accepts SYNs above the rate: `tcp flags & (fin | syn | rst | ack) == syn limit rate over …`.
fn too_many_syns(list: Message) -> Message {
    let value = |e: Message, kind, value: u8| e.nest(kind, |data| data.put(1, &[value]));
    let list = compare(list, L4, &[libc::IPPROTO_TCP as u8]);
    // A byte of the transport header, its 14th.
    let list = expression(list, "payload", |e| {
        e.put_u32(1, REGISTER).put_u32(2, 2).put_u32(3, 13).put_u32(4, 1)
    });
    let list = expression(list, "bitwise", |e| {
        let e = e.put_u32(1, REGISTER).put_u32(2, REGISTER).put_u32(3, 1);
        value(value(e, 4, 0x17), 5, 0)
    });
    let list = expression(list, "cmp", |e| value(e.put_u32(1, REGISTER).put_u32(2, 0), 3, 0x02));
    let list = expression(list, "limit", |e| {
        let (rate, second) = (u64::from(SYN_RATE).to_be_bytes(), 1_u64.to_be_bytes());
        let e = e.put(1, &rate).put(2, &second).put_u32(3, SYN_RATE);
        // Packets, not bytes; above the rate, not below it.
        e.put_u32(4, 0).put_u32(5, 1)
    });
    expression(list, "immediate", |e| {
        e.put_u32(1, 0).nest(2, |data| data.nest(2, |v| v.put_u32(1, libc::NF_ACCEPT as u32)))
    })
}

/// Packets that the counter of a rule has counted.
fn counted(rule: &[u8]) -> u64 {
    let expressions = attribute(rule, 4).into_iter().flat_map(attributes);
    let counters = expressions.filter_map(|(_, e)| {
        (attribute(e, 1)? == b"counter\0").then_some(())?;
        let packets = attribute(attribute(e, 2)?, 2)?;
        packets.first_chunk::<8>().map(|n| u64::from_be_bytes(*n))
    });
    counters.sum()
}

/// Sends messages that take effect together or not at all.
fn batch(socket: &Socket, messages: Vec<Message>) -> io::Result<()> {
    let edge = |kind| Message::new(kind, 0, 0, u16::from(NF_TABLES)).finish();
    let mut bytes = edge(BATCH_BEGIN);
    bytes.extend(messages.into_iter().flat_map(Message::finish));
    bytes.extend(edge(BATCH_END));
    socket.request(&bytes).map(drop)
}

/// Removes the tables of this name and returns how many there were.
fn remove(socket: &Socket, table: &str) -> io::Result<usize> {
    let mut removed = 0;
    for (family, _) in FAMILIES {
        let message = Message::new(DELETE_TABLE, ACK, family, 0).put_name(1, table);
        match batch(socket, vec![message]) {
            Ok(()) => removed += 1,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && flow_tables().is_ok() => {
                let text = format!("the table {table} belongs to a gateway that is running");
                return Err(io::Error::new(error.kind(), text));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

/// Removes the rules that a gateway on this interface has left, and returns how many tables there
/// were.
///
/// # Errors
///
/// If the caller may not change rules, or a gateway is running there.
pub fn remove_left(wireless: &str) -> io::Result<usize> {
    let matched = Match { wireless: wireless.into(), wired: None };
    remove(&Socket::new()?, &matched.table())
}

/// The flow tables of this network namespace, "family table name". Packets of connections in one of
/// them go past all rules.
///
/// # Errors
///
/// If the caller may not read rules.
pub fn flow_tables() -> io::Result<Vec<String>> {
    let socket = Socket::new()?;
    let list = Message::new(GET_FLOWTABLE, DUMP, 0, 0);
    let text = |table: &[u8], kind| {
        let name = attribute(table, kind).unwrap_or_default();
        String::from_utf8_lossy(name).trim_end_matches('\0').to_string()
    };
    let tables = socket.request(&list.finish())?;
    Ok(tables.iter().map(|t| format!("{} {}", text(t, 1), text(t, 2))).collect())
}
