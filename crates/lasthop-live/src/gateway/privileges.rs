//! Giving up rights: a gateway needs CAP_NET_ADMIN for verdicts and rules, and no other.

#![allow(unsafe_code, reason = "user and capabilities of the process, by system calls")]

use std::io;

/// The user as whom a gateway runs if it was not started by sudo.
const NOBODY: libc::uid_t = 65_534;
const NET_ADMIN: u32 = 12;
/// `_LINUX_CAPABILITY_VERSION_3` (linux/capability.h).
const VERSION: u32 = 0x2008_0522;

/// Header of `capset`: version, and the calling thread.
#[repr(C)]
struct Header {
    version: u32,
    thread: libc::c_int,
}

/// Half of the sets of `capset`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Lets the process continue as another user, with CAP_NET_ADMIN in the calling thread and without
/// a way back. Does nothing unless the process is root.
///
/// # Errors
///
/// If a step is refused; the process then has more rights than it should have.
pub fn reduce() -> io::Result<()> {
    // SAFETY: no arguments, no errors.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(());
    }
    let id = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (user, group) = (id("SUDO_UID"), id("SUDO_GID"));
    let (user, group) = user.zip(group).filter(|ids| ids.0 != 0).unwrap_or((NOBODY, NOBODY));
    let header = Header { version: VERSION, thread: 0 };
    let sets = Sets { effective: 1 << NET_ADMIN, permitted: 1 << NET_ADMIN, inheritable: 0 };
    let both = [sets, Sets::default()];
    // SAFETY: numbers, and values that outlive the call and have the layout of the kernel's.
    let done = unsafe {
        libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0
            && libc::setgroups(0, std::ptr::null()) == 0
            && libc::setresgid(group, group, group) == 0
            && libc::setresuid(user, user, user) == 0
            && libc::syscall(libc::SYS_capset, &raw const header, both.as_ptr()) == 0
            && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}
