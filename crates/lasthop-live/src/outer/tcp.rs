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

use super::outside::Outside;
use crate::place::child::drop_privileges;

/// Connections at a time; further ones are reset.
const MOST: usize = 256;
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

/// Numbers of connections.
#[derive(Debug, Default)]
pub struct Counters {
    accepted: AtomicU64,
    refused: AtomicU64,
}

impl Counters {
    /// Connections accepted, and those refused outside.
    pub fn read(&self) -> (u64, u64) {
        (self.accepted.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
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
}

impl Relay {
    /// Accepts connections and connects them with the network of the calling thread.
    pub fn begin(listeners: Vec<TcpListener>, outside: Outside) -> Relay {
        let relay = Relay {
            listeners: listeners.into_iter().map(Arc::new).collect(),
            open: Arc::default(),
            counters: Arc::default(),
        };
        for listener in &relay.listeners {
            let (listener, open) = (Arc::clone(listener), Arc::clone(&relay.open));
            let counters = Arc::clone(&relay.counters);
            thread::spawn(move || accept(&listener, outside, &open, &counters));
        }
        relay
    }

    /// What it has done.
    pub fn counters(&self) -> &Counters {
        &self.counters
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
fn accept(listener: &TcpListener, outside: Outside, open: &Arc<Open>, counters: &Arc<Counters>) {
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
        let room = {
            let mut open = lock(open);
            let room = open.len() < MOST;
            if room {
                open.insert(number, (inner, None));
            }
            room
        };
        let start = || {
            let builder = thread::Builder::new().stack_size(STACK);
            builder.spawn(move || connection.carry(outside)).is_ok()
        };
        if !room || !start() {
            counters.refused.fetch_add(1, Ordering::Relaxed);
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
