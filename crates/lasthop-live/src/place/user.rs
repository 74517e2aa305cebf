//! User namespaces: the rights to make a link without being root.

#![allow(unsafe_code, reason = "what a child does between fork and exec")]

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::caller::INSIDE;
use super::child::code;

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
