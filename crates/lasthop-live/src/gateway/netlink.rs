//! Messages and sockets of nfnetlink, the kernel's interface to packet queues and nf_tables
//! (linux/netfilter/nfnetlink.h).
//!
//! The crate `nfq` reads queues, but nothing maintained under our licences writes the rules of
//! nf_tables without the program `nft`, which many routers lack; so both are written here.

#![allow(unsafe_code, reason = "a netlink socket, which the standard library does not have")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Length of a message's header together with that of nfnetlink, bytes.
pub(super) const HEADER: usize = 20;
const REQUEST: u16 = libc::NLM_F_REQUEST as u16;
/// The request is answered, if only by "no error".
pub(super) const ACK: u16 = libc::NLM_F_ACK as u16;
/// The request creates something.
pub(super) const CREATE: u16 = libc::NLM_F_CREATE as u16;
/// What is created comes last.
pub(super) const APPEND: u16 = libc::NLM_F_APPEND as u16;
/// The request lists everything.
pub(super) const DUMP: u16 = libc::NLM_F_DUMP as u16;
const NESTED: u16 = 1 << 15;
/// Room for an answer: a list has messages of at most this size.
const ANSWER: usize = 32 << 10;

/// A message that is being written.
#[derive(Clone, Debug)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// A request to a subsystem. `resource` is a queue number, or the subsystem of a batch.
    pub(super) fn new((subsystem, kind): (u8, u8), flags: u16, family: u8, resource: u16) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend([kind, subsystem]);
        bytes.extend((REQUEST | flags).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend([family, 0]);
        bytes.extend(resource.to_be_bytes());
        Message(bytes)
    }

    /// Appends an attribute: length, type, value, padded to four bytes.
    pub(super) fn put(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Appends a name, which ends with a zero.
    pub(super) fn put_name(self, kind: u16, name: &str) -> Self {
        self.put(kind, &[name.as_bytes(), &[0]].concat())
    }

    /// Appends a number of 32 bits in network byte order.
    pub(super) fn put_u32(self, kind: u16, number: u32) -> Self {
        self.put(kind, &number.to_be_bytes())
    }

    /// Appends an attribute that consists of attributes.
    pub(super) fn nest(mut self, kind: u16, inner: impl FnOnce(Message) -> Message) -> Self {
        let at = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend((kind | NESTED).to_ne_bytes());
        let mut whole = inner(self);
        let length = (whole.0.len() - at) as u16;
        if let Some(field) = whole.0.get_mut(at..at + 2) {
            field.copy_from_slice(&length.to_ne_bytes());
        }
        whole
    }

    /// The bytes, with their length in the header.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        if let Some(field) = self.0.get_mut(..4) {
            field.copy_from_slice(&length.to_ne_bytes());
        }
        self.0
    }
}

/// The attributes in some bytes: type without flags, and value.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (&[l0, l1, k0, k1], _) = bytes.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & 0x3fff, value))
    })
}

/// The value of an attribute.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|a| a.0 == kind).map(|a| a.1)
}

/// A number of 32 bits in network byte order.
pub(super) fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}

/// The messages in some bytes: type, and what follows the header.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (&[l0, l1, l2, l3, k0, k1, ..], _) = bytes.split_first_chunk::<16>()?;
        let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        let body = bytes.get(16..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]), body))
    })
}

/// A netlink socket in the network namespace of the calling thread.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

impl Socket {
    /// Opens one; needs no rights, in contrast to what is sent over it.
    pub(super) fn new() -> io::Result<Socket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers; the result is checked, and owned by nobody else.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_NETFILTER) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Socket(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// To wait for messages.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sets an option of the socket to a number.
    pub(super) fn set(&self, level: i32, option: i32, value: i32) -> io::Result<()> {
        let length = size_of_val(&value) as libc::socklen_t;
        let value = (&raw const value).cast();
        // SAFETY: the value outlives the call, and the length is its own.
        match unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, value, length) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sends messages to the kernel, which has dealt with them when the call returns.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the bytes outlive the call. Without an address, the kernel is the destination.
        match unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads what the kernel has sent; `None` if there is nothing. The length is that of the
    /// message, which is more than the buffer's if it was truncated.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let (fd, flags) = (self.0.as_raw_fd(), libc::MSG_DONTWAIT | libc::MSG_TRUNC);
        // SAFETY: the buffer outlives the call, and the length is its own.
        let length = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), flags) };
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Sends requests, and returns what the kernel answered, without headers, or its first error.
    pub(super) fn request(&self, bytes: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.send(bytes)?;
        let mut buffer = vec![0; ANSWER];
        let mut answers = Vec::new();
        let mut refused = None;
        while let Some(length) = self.receive(&mut buffer)? {
            for (kind, body) in messages(buffer.get(..length).unwrap_or_default()) {
                match i32::from(kind) {
                    libc::NLMSG_ERROR => {
                        let code = body.first_chunk::<4>().map_or(0, |c| i32::from_ne_bytes(*c));
                        if code != 0 {
                            refused.get_or_insert(io::Error::from_raw_os_error(-code));
                        }
                    }
                    libc::NLMSG_DONE => {}
                    _ => answers.push(body.get(4..).unwrap_or_default().to_vec()),
                }
            }
        }
        refused.map_or(Ok(answers), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_written() {
        let message = Message::new((10, 6), ACK, 2, 7)
            .put_name(1, "abc")
            .nest(2, |inner| inner.put_u32(3, 0x0102_0304).put(4, &[9]))
            .finish();
        assert_eq!(message.len() % 4, 0);
        let found: Vec<(u16, &[u8])> = messages(&message).collect();
        assert_eq!(found.len(), 1);
        let (kind, body) = *found.first().unwrap();
        assert_eq!(kind, 10 << 8 | 6);
        let body = body.get(4..).unwrap();
        assert_eq!(attribute(body, 1), Some(&b"abc\0"[..]));
        let inner = attribute(body, 2).unwrap();
        assert_eq!(attribute(inner, 3).and_then(number), Some(0x0102_0304));
        assert_eq!(attribute(inner, 4), Some(&[9][..]));
        assert_eq!(attribute(inner, 5), None);
    }

    #[test]
    fn a_truncated_message_ends_the_list() {
        let message = Message::new((3, 0), 0, 0, 0).put(1, &[1, 2, 3, 4]).finish();
        for length in 0..message.len() {
            assert_eq!(messages(message.get(..length).unwrap()).count(), 0);
        }
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
    }
}
