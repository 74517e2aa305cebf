//! File systems that only the calling thread sees.

#![allow(unsafe_code, reason = "unshare and mount")]

use std::ffi::CStr;
use std::io;

/// Gives the calling thread a mount namespace. What is mounted in it is seen nowhere else, nor what
/// is mounted elsewhere from now on seen in it.
///
/// # Errors
///
/// If the thread may not do that.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: the strings outlive the calls; only this thread is moved.
    let done = unsafe {
        let none = std::ptr::null();
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast())
                == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the calling thread a mount namespace, in which a file system of this type is mounted at
/// `at`. It vanishes with the thread; so this is for threads that end soon.
///
/// # Errors
///
/// If the thread may not do that, or the kernel has no such file system.
pub fn mount_private(kind: &CStr, at: &CStr) -> io::Result<()> {
    own_mounts().and_then(|()| mount(kind, at, 0))
}

/// Mounts /proc with the processes of the caller's process namespace, in its mount namespace.
///
/// # Errors
///
/// If that is not allowed: without root, all of the present /proc has to be visible.
pub fn mount_proc() -> io::Result<()> {
    mount(c"proc", c"/proc", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC)
}

fn mount(kind: &CStr, at: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    let source = if kind == c"proc" { kind } else { c"lasthop" };
    // SAFETY: the strings outlive the call.
    let mounted = unsafe {
        libc::mount(source.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, std::ptr::null())
    };
    if mounted == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
