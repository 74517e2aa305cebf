//! A packet queue of the kernel (linux/netfilter/nfnetlink_queue.h).

use std::io;
use std::os::fd::BorrowedFd;

use super::netlink::{ACK, HEADER, Message, Socket, attributes, number};
use super::rules::FIRST_QUEUE;

/// The subsystem, and its messages.
const QUEUE: u8 = 3;
const PACKET: [u8; 2] = [0, QUEUE];
const VERDICT: (u8, u8) = (QUEUE, 1);
const CONFIGURE: (u8, u8) = (QUEUE, 2);
const VERDICT_BATCH: (u8, u8) = (QUEUE, 3);

/// Attributes of a packet, and of a verdict.
const PACKET_HEADER: u16 = 1;
const VERDICT_HEADER: u16 = 2;
const INBOUND: u16 = 5;
const OUTBOUND: u16 = 6;
const PAYLOAD: u16 = 10;
const SKB_INFO: u16 = 14;
/// Bits of `SKB_INFO`.
const CHECKSUM_NOT_READY: u32 = 1;
const GSO: u32 = 2;

/// Attributes of a configuration.
const COMMAND: u16 = 1;
const PARAMETERS: u16 = 2;
const MAXIMUM_LENGTH: u16 = 3;
const MASK: u16 = 4;
const FLAGS: u16 = 5;
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
/// Accept packets for which the queue or the socket has no room; hand over packets that are still
/// to be segmented as they are.
const FAIL_OPEN: u32 = 1;
const KEEP_GSO: u32 = 4;

/// Packets that wait for a verdict at most. Beyond it they pass.
const LENGTH: u32 = 2048;
/// Room of the socket, bytes.
const SOCKET_BUFFER: i32 = 16 << 20;
/// Numbers that are tried until one is free.
const NUMBERS: std::ops::Range<u16> = FIRST_QUEUE..FIRST_QUEUE + 32;
/// Verdicts that are collected before they are sent.
const COLLECTED: u32 = 16;

const DROP: u32 = libc::NF_DROP as u32;
const ACCEPT: u32 = libc::NF_ACCEPT as u32;

/// A packet that waits for a verdict.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued<'a> {
    /// Number of the packet in the queue.
    pub id: u32,
    /// Numbers of the interfaces over which it came and will leave.
    pub inbound: u32,
    pub outbound: u32,
    /// The IP packet, up to 64 KiB.
    pub bytes: &'a [u8],
    /// It is to be segmented.
    pub is_gso: bool,
    /// Its checksum field has the sum of the pseudo-header only.
    pub lacks_checksum: bool,
}

/// A queue that this process reads.
#[derive(Debug)]
pub(super) struct Queue {
    socket: Socket,
    number: u16,
    buffer: Vec<u8>,
    /// The last packet that is accepted, but whose verdict was not sent, and how many those are.
    accepted: Option<u32>,
    collected: u32,
}

impl Queue {
    /// Takes a free queue of this network namespace.
    pub(super) fn open() -> io::Result<Queue> {
        let socket = Socket::new()?;
        // A full queue is dealt with by the kernel (fail-open); it need not be reported.
        socket.set(libc::SOL_NETLINK, libc::NETLINK_NO_ENOBUFS, 1)?;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, SOCKET_BUFFER)?;
        let mut result = Err(io::ErrorKind::AddrInUse.into());
        for number in NUMBERS {
            let command = Message::new(CONFIGURE, ACK, 0, number).put(COMMAND, &[BIND, 0, 0, 0]);
            result = socket.request(&command.finish()).map(|_| number);
            // EBUSY or EPERM: another process reads it. Without the right to any, all are refused.
            if result.is_ok() {
                break;
            }
        }
        let number = result?;
        // As much of a packet as the kernel hands over.
        let parameters = [&u32::MAX.to_be_bytes()[..], &[COPY_PACKET]].concat();
        let flags = FAIL_OPEN | KEEP_GSO;
        let settings = Message::new(CONFIGURE, ACK, 0, number)
            .put(PARAMETERS, &parameters)
            .put_u32(MAXIMUM_LENGTH, LENGTH)
            .put_u32(MASK, flags)
            .put_u32(FLAGS, flags);
        socket.request(&settings.finish())?;
        let buffer = vec![0; 4096 + (64 << 10)];
        Ok(Queue { socket, number, buffer, accepted: None, collected: 0 })
    }

    /// Number of the queue.
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// To wait for packets.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    /// The next packet; `None` if there is none now.
    pub(super) fn read(&mut self) -> io::Result<Option<Queued<'_>>> {
        let length = loop {
            let Some(length) = self.socket.receive(&mut self.buffer)? else { return Ok(None) };
            // Others are errors about verdicts: a packet has gone with its interface.
            if self.buffer.get(4..6) == Some(&PACKET) {
                break length;
            }
        };
        let body = self.buffer.get(HEADER..length).unwrap_or_default();
        Ok(Some(parse(body)))
    }

    /// Lets a packet go on as it is, latest when the next verdict is sent.
    pub(super) fn accept(&mut self, id: u32) -> io::Result<()> {
        self.accepted = Some(id);
        self.collected += 1;
        if self.collected < COLLECTED { Ok(()) } else { self.flush() }
    }

    /// Sends the collected verdicts. Packets are read and accepted in the order of the queue, so
    /// that one message is for all up to the last one.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.collected = 0;
        self.accepted.take().map_or(Ok(()), |id| self.verdict(VERDICT_BATCH, (ACCEPT, id), None))
    }

    /// Discards a packet.
    pub(super) fn drop(&mut self, id: u32) -> io::Result<()> {
        self.flush()?;
        self.verdict(VERDICT, (DROP, id), None)
    }

    /// Lets a packet go on with other bytes.
    pub(super) fn replace(&mut self, id: u32, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.verdict(VERDICT, (ACCEPT, id), Some(bytes))
    }

    fn verdict(
        &self,
        kind: (u8, u8),
        (verdict, id): (u32, u32),
        bytes: Option<&[u8]>,
    ) -> io::Result<()> {
        let header = [verdict.to_be_bytes(), id.to_be_bytes()].concat();
        let message = Message::new(kind, 0, 0, self.number).put(VERDICT_HEADER, &header);
        let message = bytes.into_iter().fold(message, |m, bytes| m.put(PAYLOAD, bytes));
        self.socket.send(&message.finish())
    }
}

/// Reads the attributes of a packet.
fn parse(body: &[u8]) -> Queued<'_> {
    let mut packet =
        Queued { id: 0, inbound: 0, outbound: 0, bytes: &[], is_gso: false, lacks_checksum: false };
    for (kind, value) in attributes(body) {
        let number = number(value).unwrap_or_default();
        match kind {
            PACKET_HEADER => packet.id = number,
            INBOUND => packet.inbound = number,
            OUTBOUND => packet.outbound = number,
            SKB_INFO => {
                packet.is_gso = number & GSO != 0;
                packet.lacks_checksum = number & CHECKSUM_NOT_READY != 0;
            }
            PAYLOAD => packet.bytes = value,
            _ => {}
        }
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_from_its_attributes() {
        let message = Message::new((QUEUE, 0), 0, 2, 7)
            .put(PACKET_HEADER, &[0, 0, 0, 9, 8, 0, 2])
            .put_u32(INBOUND, 3)
            .put_u32(OUTBOUND, 4)
            .put_u32(SKB_INFO, GSO | CHECKSUM_NOT_READY)
            .put(PAYLOAD, b"packet")
            .finish();
        let packet = parse(message.get(HEADER..).unwrap());
        assert_eq!((packet.id, packet.inbound, packet.outbound), (9, 3, 4));
        assert_eq!(
            (packet.bytes, packet.is_gso, packet.lacks_checksum),
            (&b"packet"[..], true, true)
        );
        assert_eq!(parse(&[]).bytes, b"");
    }
}
