//! Users: the rights to make a link without being root, and the caller's own rights for what runs at
//! its ends.

#![allow(unsafe_code, reason = "what a child does between fork and exec")]

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::str::FromStr;

use super::child::code;

/// Environment variable of a process that [`run`] has started.
pub const INSIDE: &str = "LASTHOP_USER_NAMESPACE";

/// Runs a command in a new user namespace, in which the caller has all rights, and returns its exit
/// status. Outside, the command has the caller's rights.
///
/// # Errors
///
/// If the machine does not allow user namespaces, or the command cannot be run.
pub fn run(command: &[OsString]) -> io::Result<i32> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command"));
    };
    // SAFETY: no arguments, no errors.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // Made before the fork, after which nothing may be allocated.
    let maps = [
        (c"/proc/self/setgroups", b"deny".to_vec()),
        (c"/proc/self/uid_map", format!("0 {user} 1").into_bytes()),
        (c"/proc/self/gid_map", format!("0 {group} 1").into_bytes()),
    ];
    let mut child = Command::new(program);
    child.args(arguments).env(INSIDE, "1");
    // SAFETY: only system calls, which do not allocate.
    unsafe {
        child.pre_exec(move || {
            if libc::unshare(libc::CLONE_NEWUSER) < 0 {
                return Err(io::Error::last_os_error());
            }
            for (path, text) in &maps {
                let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                if libc::write(file, text.as_ptr().cast(), text.len()) < 0 {
                    return Err(io::Error::last_os_error());
                }
                libc::close(file);
            }
            match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
    Ok(code(child.spawn()?.wait()?))
}

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
    // SAFETY: no arguments, no errors.
    let is_root = unsafe { libc::geteuid() } == 0;
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
    /// Makes the calling process that of the user, for good.
    ///
    /// # Errors
    ///
    /// If the process may not do that.
    ///
    /// # Safety
    ///
    /// To be called between fork and exec, where there is one thread.
    pub(super) unsafe fn become_caller(&self) -> io::Result<()> {
        // SAFETY: the list outlives the call.
        let done = unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) == 0
                && libc::setgid(self.group) == 0
                && libc::setuid(self.user) == 0
        };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
