//! Addresses and routes by rtnetlink (RFC 3549), for the namespace of the calling thread.
//!
//! Four requests are all that a link needs, and the crate `rtnetlink` brings an asynchronous
//! runtime; so the messages are written here.

#![allow(unsafe_code, reason = "a netlink socket, which the standard library does not have")]

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{FromRawFd, RawFd};

const REQUEST_AND_ACK: u16 = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
/// Length of a message's header, and of that of a link's attributes, bytes.
const HEADER: usize = 16;
const LINK: usize = 16;
/// The peer of a virtual Ethernet device (linux/veth.h).
const VETH_INFO_PEER: u16 = 1;

/// A netlink socket.
#[derive(Debug)]
pub struct Netlink(File);

impl Netlink {
    /// A socket in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    pub fn new() -> io::Result<Netlink> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers; the result is checked, and owned by nobody else.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Netlink(unsafe { File::from_raw_fd(fd) }))
    }

    /// Makes a pair of virtual Ethernet devices: one, with name and hardware address, in this
    /// namespace, and its peer in another one, given by its descriptor.
    ///
    /// # Errors
    ///
    /// If the caller may not make devices in one of the namespaces, or a name is taken.
    pub fn add_pair(
        &mut self,
        (name, address): (&str, [u8; 6]),
        (peer, peer_address, namespace): (&str, [u8; 6], RawFd),
    ) -> io::Result<()> {
        let named = |body: &mut Vec<u8>, name: &str, address: [u8; 6]| {
            attribute(body, libc::IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
            attribute(body, libc::IFLA_ADDRESS, &address);
        };
        let mut peer_body = vec![0; LINK];
        named(&mut peer_body, peer, peer_address);
        attribute(&mut peer_body, libc::IFLA_NET_NS_FD, &namespace.to_ne_bytes());
        let (mut data, mut info) = (Vec::new(), Vec::new());
        attribute(&mut data, VETH_INFO_PEER, &peer_body);
        attribute(&mut info, libc::IFLA_INFO_KIND, b"veth");
        attribute(&mut info, libc::IFLA_INFO_DATA, &data);
        let mut body = vec![0; LINK];
        named(&mut body, name, address);
        attribute(&mut body, libc::IFLA_LINKINFO, &info);
        self.request(libc::RTM_NEWLINK, CREATE, &body)
    }

    /// Starts a device without address resolution, with this MTU in bytes if one is given.
    ///
    /// # Errors
    ///
    /// If there is no such device, or the caller may not change it.
    pub fn up(&mut self, device: &str, mtu: Option<u32>) -> io::Result<()> {
        let mut body = vec![0; 4];
        body.extend(index(device)?.to_ne_bytes());
        let up = (libc::IFF_UP | libc::IFF_NOARP) as u32;
        body.extend(up.to_ne_bytes());
        body.extend(up.to_ne_bytes());
        if let Some(mtu) = mtu {
            attribute(&mut body, libc::IFLA_MTU, &mtu.to_ne_bytes());
        }
        self.request(libc::RTM_NEWLINK, 0, &body)
    }

    /// Sets how many packets wait at most in a device until they are sent.
    ///
    /// # Errors
    ///
    /// As [`Netlink::up`].
    pub fn set_queue(&mut self, device: &str, packets: u32) -> io::Result<()> {
        let mut body = vec![0; LINK];
        let number = index(device)?.to_ne_bytes();
        body.splice(4..8, number);
        attribute(&mut body, libc::IFLA_TXQLEN, &packets.to_ne_bytes());
        self.request(libc::RTM_NEWLINK, 0, &body)
    }

    /// Gives a device an address with a prefix of `length` bits.
    ///
    /// # Errors
    ///
    /// As [`Netlink::up`], and if the device has the address.
    pub fn add_address(&mut self, device: &str, address: IpAddr, length: u8) -> io::Result<()> {
        let (family, bytes) = encoded(address);
        // No duplicate address detection: nobody else is on the link.
        let mut body = vec![family, length, libc::IFA_F_NODAD as u8, libc::RT_SCOPE_UNIVERSE];
        body.extend(index(device)?.to_ne_bytes());
        attribute(&mut body, libc::IFA_LOCAL, &bytes);
        attribute(&mut body, libc::IFA_ADDRESS, &bytes);
        self.request(libc::RTM_NEWADDR, CREATE, &body)
    }

    /// Sends all packets of the family of `address` to a device.
    ///
    /// # Errors
    ///
    /// As [`Netlink::up`], and if there is a default route.
    pub fn add_default_route(&mut self, device: &str, address: IpAddr) -> io::Result<()> {
        self.add_route(device, address, (libc::RTN_UNICAST, libc::RT_SCOPE_UNIVERSE))
    }

    /// Makes all addresses of the family of `address` local, but those of devices' networks.
    ///
    /// # Errors
    ///
    /// As [`Netlink::add_default_route`].
    pub fn make_all_local(&mut self, address: IpAddr) -> io::Result<()> {
        self.add_route("lo", address, (libc::RTN_LOCAL, libc::RT_SCOPE_HOST))
    }

    fn add_route(
        &mut self,
        device: &str,
        address: IpAddr,
        (kind, scope): (u8, u8),
    ) -> io::Result<()> {
        let (family, table, origin) =
            (encoded(address).0, libc::RT_TABLE_MAIN, libc::RTPROT_STATIC);
        let mut body = vec![family, 0, 0, 0, table, origin, scope, kind];
        body.extend(0_u32.to_ne_bytes());
        attribute(&mut body, libc::RTA_OIF, &index(device)?.to_ne_bytes());
        self.request(libc::RTM_NEWROUTE, CREATE, &body)
    }

    /// Sends a request and waits for the kernel's answer.
    fn request(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((REQUEST_AND_ACK | flags).to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        self.0.write_all(&message)?;
        let mut answer = [0; 4096];
        let length = self.0.read(&mut answer)?;
        let error = answer.get(HEADER..HEADER + 4).filter(|_| length >= HEADER + 4);
        let error = error.and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
        match error {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code)),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Appends an attribute: length, type, value, padded to four bytes.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Address family and bytes of an address.
fn encoded(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    }
}

/// The number of a device in the network namespace of the calling thread.
///
/// # Errors
///
/// If there is no such device.
pub fn index(device: &str) -> io::Result<u32> {
    let name = CString::new(device).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the name is a C string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}
