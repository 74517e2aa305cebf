//! The user who has called sudo, as whom the commands at the ends run.

#![allow(unsafe_code, reason = "the user of a child between fork and exec, and its groups")]

use std::io;
use std::str::FromStr;

/// Environment variable of a process in a user namespace that lasthop has made.
pub const INSIDE: &str = "LASTHOP_USER_NAMESPACE";

/// A user and its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    user: libc::uid_t,
    group: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

/// The user who has called sudo, as sudo(8) reports it in the environment; `None` if this process
/// was not started by sudo.
pub fn caller() -> Option<Caller> {
    fn number<T: FromStr>(name: &str) -> Option<T> {
        std::env::var(name).ok()?.parse().ok()
    }
    let (user, group) = (number("SUDO_UID")?, number("SUDO_GID")?);
    // In a user namespace, root is the user who has made it.
    // SAFETY: no arguments, no errors.
    let is_root = unsafe { libc::geteuid() } == 0 && std::env::var_os(INSIDE).is_none();
    (is_root && user != 0).then(|| Caller { user, group, groups: groups(user, group) })
}

/// The groups of a user; its first one if the user has no entry in the password file.
fn groups(user: libc::uid_t, group: libc::gid_t) -> Vec<libc::gid_t> {
    let mut groups = vec![group; 256];
    let mut count = groups.len() as libc::c_int;
    // SAFETY: the entry is used before another call replaces it; the list has room for `count`.
    let found = unsafe {
        let entry = libc::getpwuid(user);
        !entry.is_null()
            && libc::getgrouplist((*entry).pw_name, group, groups.as_mut_ptr(), &mut count) >= 0
    };
    groups.truncate(if found { usize::try_from(count).unwrap_or_default() } else { 1 });
    groups
}

impl Caller {
    /// Gives the calling thread the rights of the user, for good. In a child that has one thread it
    /// makes system calls only.
    ///
    /// # Errors
    ///
    /// If the thread may not do that.
    pub fn become_caller(&self) -> io::Result<()> {
        // SAFETY: the list outlives the call.
        let done = unsafe {
            libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()) == 0
                && libc::syscall(libc::SYS_setgid, self.group) == 0
                && libc::syscall(libc::SYS_setuid, self.user) == 0
        };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Gives all threads of the process the rights of the user, for good. All of them must have the
    /// rights to do so: the C library ends the process if one has not.
    ///
    /// # Errors
    ///
    /// If the process may not do that.
    pub fn become_in_all_threads(&self) -> io::Result<()> {
        // SAFETY: the list outlives the call.
        let done = unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) == 0
                && libc::setgid(self.group) == 0
                && libc::setuid(self.user) == 0
        };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
