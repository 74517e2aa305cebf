//! File systems that only the calling thread sees.

#![allow(unsafe_code, reason = "unshare and mount")]

use std::ffi::CStr;
use std::io;

/// Gives the calling thread a mount namespace, in which a file system of this type is mounted at
/// `at`. It vanishes with the thread; so this is for threads that end soon.
///
/// # Errors
///
/// If the thread may not do that, or the kernel has no such file system.
pub fn mount_private(kind: &CStr, at: &CStr) -> io::Result<()> {
    // SAFETY: the strings outlive the calls; only this thread is moved, and what it mounts is
    // private.
    let mounted = unsafe {
        let none = std::ptr::null();
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast())
                == 0
            && libc::mount(c"lasthop".as_ptr(), at.as_ptr(), kind.as_ptr(), 0, none.cast()) == 0
    };
    if mounted { Ok(()) } else { Err(io::Error::last_os_error()) }
}
