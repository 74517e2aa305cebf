//! Reports of the radio link, for relays that need its rate or its queue: datagrams to a port of
//! the loopback interface.
//!
//! A datagram is a line of words in UTF-8, in any order:
//!
//! ```text
//! rate=8Mbps queue=22500 mobile=10.1.0.2
//! ```
//!
//! `rate`: of the link to the mobiles, with a unit or in bit/s; 0 while it is down. `queue`: bytes
//! that wait there, headers included. `mobile`: the address of the mobile; without it, the report
//! is about all. Only this machine can send them, so that they need no key.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use lasthop::units::{Quantity, Rate};

/// A longer datagram is no report.
const LENGTH: usize = 256;

/// What a radio link has reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RadioReport {
    /// Rate of the link, 0 while it is down.
    pub rate: Option<Rate>,
    /// Bytes in its queue.
    pub queue: Option<u64>,
    /// The mobile; `None`: all.
    pub mobile: Option<IpAddr>,
}

impl RadioReport {
    /// The report of a datagram; `None` if it is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use lasthop_live::gateway::radio::RadioReport;
    ///
    /// let report = RadioReport::read("rate=8Mbps queue=22500").unwrap();
    /// assert_eq!((report.rate.unwrap().0, report.queue), (8_000_000, Some(22_500)));
    /// assert_eq!(RadioReport::read("rate=fast"), None);
    /// ```
    pub fn read(text: &str) -> Option<RadioReport> {
        let mut report = RadioReport::default();
        for word in text.split_whitespace() {
            match word.split_once('=')? {
                ("rate", rate) => {
                    let number = rate.parse().ok().map(Rate);
                    report.rate = Some(number.or_else(|| Rate::parse(rate).ok())?);
                }
                ("queue", bytes) => report.queue = Some(bytes.parse().ok()?),
                ("mobile", address) => report.mobile = Some(address.parse().ok()?),
                _ => return None,
            }
        }
        (report.rate.is_some() || report.queue.is_some()).then_some(report)
    }

    /// It is about this mobile.
    pub fn concerns(&self, mobile: IpAddr) -> bool {
        self.mobile.is_none_or(|address| address == mobile)
    }
}

/// The port at which reports arrive.
#[derive(Debug)]
pub(super) struct Radio {
    socket: UdpSocket,
}

impl Radio {
    /// Takes a port of the loopback interface.
    pub(super) fn open(port: u16) -> io::Result<Radio> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
        socket.set_nonblocking(true)?;
        Ok(Radio { socket })
    }

    /// To wait for reports.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next report; `None` if there is none now. What is no report is ignored.
    pub(super) fn read(&self) -> Option<RadioReport> {
        let mut bytes = [0; LENGTH + 1];
        while let Ok(length) = self.socket.recv(&mut bytes) {
            let whole = bytes.get(..length).filter(|_| length <= LENGTH);
            let text = whole.and_then(|bytes| std::str::from_utf8(bytes).ok());
            if let Some(report) = text.and_then(RadioReport::read) {
                return Some(report);
            }
        }
        None
    }
}
