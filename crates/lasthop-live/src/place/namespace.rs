//! Unnamed network namespaces.

#![allow(unsafe_code, reason = "unshare and setns")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::thread;

/// A network namespace, held by a descriptor.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// Makes a namespace, runs `setup` in it, and returns its value. The calling thread stays where
    /// it is.
    ///
    /// # Errors
    ///
    /// If the caller may not make namespaces, or the error of `setup`.
    pub fn with<T: Send>(
        setup: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<(T, Namespace)> {
        // A separate thread, which never returns to the caller's namespace.
        let inside = || {
            // SAFETY: changes the network namespace of this thread only.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
                let error = io::Error::last_os_error();
                let text = format!("cannot make a network namespace: {error}");
                return Err(io::Error::new(error.kind(), text));
            }
            let namespace = Namespace(File::open("/proc/thread-self/ns/net")?);
            Ok((setup()?, namespace))
        };
        thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Runs `work` in the namespace, in a thread that ends with it, and returns its value.
    ///
    /// # Errors
    ///
    /// If the caller may not enter the namespace, or the error of `work`.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let inside = || enter(self.fd()).and_then(|()| work());
        thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Its descriptor, for [`enter`].
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Moves the calling thread into a network namespace. Safe to call between fork and exec.
///
/// # Errors
///
/// If the caller has no right to enter it.
pub fn enter(namespace: RawFd) -> io::Result<()> {
    // SAFETY: changes the namespace of this thread only; an invalid descriptor is an error.
    match unsafe { libc::setns(namespace, libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
