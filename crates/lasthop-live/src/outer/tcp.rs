//! TCP connections of the mobile to the network outside: accepted here, opened again there, and
//! their data copied. Both copies close in each direction when the other one does, and are reset if
//! it is.

#![allow(unsafe_code, reason = "socket options that the standard library does not have")]

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use super::Carried;
use super::outside::Outside;
use crate::place::child::drop_privileges;

/// Connections at a time, if the process may open the files for them; further ones are reset.
const MOST: usize = 4096;
/// Files of a connection, and those of the rest: sockets for datagrams, devices, results.
const FILES: usize = 2;
const OTHER_FILES: usize = super::udp::MOST + 128;
/// Bytes copied at a time, and the stack of a thread that does it.
const BLOCK: usize = 64 << 10;
const STACK: usize = 128 << 10;
/// Linux waits some two minutes for an answer to a SYN; so does a mobile that has no relay.
const TIMEOUT: Duration = Duration::from_secs(127);

/// A listener at a free port for connections to any address that arrive in the network namespace of
/// the calling thread.
///
/// # Errors
///
/// If the caller has no right to do so.
pub fn listener(address: IpAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(SocketAddr::new(address, 0))?;
    let (level, option) = match address {
        IpAddr::V4(_) => (libc::SOL_IP, libc::IP_TRANSPARENT),
        IpAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_TRANSPARENT),
    };
    set(&listener, level, option, &1_i32)?;
    Ok(listener)
}

fn set<T>(socket: &impl AsRawFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value outlives the call, and the length is its own.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            length,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Connections for which the process may open files, after it has raised its limit as far as it may
/// and needs to.
fn room() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the value outlives the calls. If they fail, the limit stays what it is.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let wanted = (FILES * MOST + OTHER_FILES) as libc::rlim_t;
        if limit.rlim_cur < wanted {
            let raised = libc::rlimit { rlim_cur: wanted.min(limit.rlim_max), ..limit };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) == 0 {
                limit = raised;
            }
        }
    }
    let files = usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX);
    (files.saturating_sub(OTHER_FILES) / FILES).clamp(1, MOST)
}

/// Numbers of connections.
#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    refused: AtomicU64,
    beyond_limit: AtomicU64,
}

/// The connections that are open, by number.
type Open = Mutex<Streams>;
type Streams = HashMap<u64, (Arc<TcpStream>, Option<Arc<TcpStream>>)>;

/// The relay; it ends with this value, and all its connections.
#[derive(Debug)]
pub struct Relay {
    listeners: Vec<Arc<TcpListener>>,
    open: Arc<Open>,
    counters: Arc<Counters>,
    room: usize,
}

impl Relay {
    /// Accepts connections and connects them with the network of the calling thread.
    pub fn begin(listeners: Vec<TcpListener>, outside: Outside) -> Relay {
        Relay::with_room(listeners, outside, room())
    }

    /// As [`Relay::begin`], for at most `room` connections at a time.
    fn with_room(listeners: Vec<TcpListener>, outside: Outside, room: usize) -> Relay {
        let relay = Relay {
            room,
            listeners: listeners.into_iter().map(Arc::new).collect(),
            open: Arc::default(),
            counters: Arc::default(),
        };
        for listener in &relay.listeners {
            let (listener, open) = (Arc::clone(listener), Arc::clone(&relay.open));
            let counters = Arc::clone(&relay.counters);
            thread::spawn(move || accept(&listener, outside, room, &open, &counters));
        }
        relay
    }

    /// What it has done; datagrams are not its affair.
    pub fn carried(&self) -> Carried {
        let Counters { accepted, refused, beyond_limit } = &*self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Carried {
            connections: read(accepted),
            refused: read(refused),
            beyond_limit: read(beyond_limit),
            limit: self.room as u64,
            ..Carried::default()
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for listener in &self.listeners {
            // SAFETY: no pointers. A thread that waits for a connection returns from it.
            unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) };
        }
        for (inner, outer) in lock(&self.open).values() {
            for stream in std::iter::once(inner).chain(outer) {
                // It may be closed.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

fn lock(open: &Open) -> MutexGuard<'_, Streams> {
    open.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Accepts connections until the listener is shut down.
fn accept(
    listener: &TcpListener,
    outside: Outside,
    room: usize,
    open: &Arc<Open>,
    counters: &Arc<Counters>,
) {
    // Whatever comes from outside is read without rights.
    if drop_privileges().is_err() {
        return;
    }
    loop {
        let (inner, _) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => return,
            // The connection was reset, or there are too many files.
            Err(_) => {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
        };
        let number = counters.accepted.fetch_add(1, Ordering::Relaxed);
        let inner = Arc::new(inner);
        let connection = Connection {
            number,
            inner: Arc::clone(&inner),
            open: Arc::clone(open),
            counters: Arc::clone(counters),
        };
        let is_full = {
            let mut open = lock(open);
            let is_full = open.len() >= room;
            if !is_full {
                open.insert(number, (Arc::clone(&inner), None));
            }
            is_full
        };
        let start = || {
            let builder = thread::Builder::new().stack_size(STACK);
            builder.spawn(move || connection.carry(outside)).is_ok()
        };
        if is_full || !start() {
            counters.beyond_limit.fetch_add(1, Ordering::Relaxed);
            reset(&inner);
            lock(open).remove(&number);
        }
    }
}

/// A connection of the mobile.
struct Connection {
    number: u64,
    inner: Arc<TcpStream>,
    open: Arc<Open>,
    counters: Arc<Counters>,
}

impl Connection {
    /// Opens it outside and copies its data until both sides have closed.
    fn carry(self, outside: Outside) {
        // The local address is the one that the mobile has connected to.
        let connected = self.inner.local_addr().and_then(|destination| {
            TcpStream::connect_timeout(&outside.address(destination), TIMEOUT)
        });
        match connected {
            Ok(outer) => self.copy_both(&Arc::new(outer)),
            Err(_) => {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                reset(&self.inner);
            }
        }
        lock(&self.open).remove(&self.number);
    }

    fn copy_both(&self, outer: &Arc<TcpStream>) {
        match lock(&self.open).get_mut(&self.number) {
            Some(entry) => entry.1 = Some(Arc::clone(outer)),
            None => return,
        }
        let inner = &self.inner;
        // Data is sent as the peer has sent it.
        let _ = (inner.set_nodelay(true), outer.set_nodelay(true));
        let builder = thread::Builder::new().stack_size(STACK);
        let (from, to) = (Arc::clone(inner), Arc::clone(outer));
        match builder.spawn(move || copy(&from, &to)) {
            Ok(uplink) => {
                copy(outer, inner);
                // It does not panic.
                let _ = uplink.join();
            }
            Err(_) => reset(inner),
        }
    }
}

/// Copies data until the end of one side, which is passed on, or a reset of either.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let mut block = vec![0; BLOCK];
    let mut carry = || -> io::Result<()> {
        loop {
            match from.read(&mut block) {
                Ok(0) => return to.shutdown(Shutdown::Write),
                Ok(n) => to.write_all(block.get(..n).unwrap_or_default())?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    };
    if carry().is_err() {
        reset(from);
        reset(to);
    }
}

/// Lets a connection be reset when it is closed, and ends whoever reads from it.
fn reset(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // It may be closed.
    let _ = set(stream, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
    let _ = stream.shutdown(Shutdown::Read);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::addresses;

    /// A listener for a relay and a server at the address outside that it stands for.
    fn pair() -> (TcpListener, TcpListener, Outside) {
        loop {
            let inner = TcpListener::bind("127.0.0.2:0").unwrap();
            let port = inner.local_addr().unwrap().port();
            let mut server = addresses(0, 1);
            server.v4 = [127, 0, 0, 2].into();
            // Somebody else may have this port.
            if let Ok(outer) = TcpListener::bind(("127.0.0.1", port)) {
                return (inner, outer, Outside { server });
            }
        }
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    #[test]
    fn connections_beyond_the_limit_are_reset_and_counted() {
        let (inner, outer, outside) = pair();
        let address = inner.local_addr().unwrap();
        let relay = Relay::with_room(vec![inner], outside, 2);
        let mut carried: Vec<_> = (0..2)
            .map(|_| {
                let inside = connect(address);
                (inside, outer.accept().unwrap().0)
            })
            .collect();
        for _ in 0..3 {
            let error = connect(address).read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        // The others go on; when one has ended, there is room again.
        for (inside, outside) in &mut carried {
            outside.write_all(b"x").unwrap();
            inside.read_exact(&mut [0]).unwrap();
        }
        drop(carried.pop());
        while lock(&relay.open).len() == 2 {
            thread::sleep(Duration::from_millis(1));
        }
        let again = (connect(address), outer.accept().unwrap());
        let expected =
            Carried { connections: 6, refused: 0, beyond_limit: 3, limit: 2, ..Carried::default() };
        assert_eq!(relay.carried(), expected);
        drop(again);
    }

    #[test]
    fn refused_connections_are_counted_apart() {
        let (inner, outer, outside) = pair();
        let address = inner.local_addr().unwrap();
        drop(outer);
        let relay = Relay::begin(vec![inner], outside);
        let error = connect(address).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let Carried { connections, refused, beyond_limit, limit, .. } = relay.carried();
        assert_eq!((connections, refused, beyond_limit), (1, 1, 0));
        assert!((1..=MOST as u64).contains(&limit));
    }
}
