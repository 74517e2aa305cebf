//! The processes at the ends of a link.

#![allow(unsafe_code, reason = "what a child does between fork and exec, and dropping privileges")]

use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::namespace::enter;

/// Starts a command in a network namespace. It dies with the calling thread.
///
/// # Errors
///
/// If the program does not exist or cannot be executed.
pub fn spawn(
    command: &[OsString],
    namespace: RawFd,
    environment: &[(&str, String)],
    quiet: bool,
) -> io::Result<Child> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command"));
    };
    let mut child = Command::new(program);
    child.args(arguments).envs(environment.iter().map(|(k, v)| (k, v)));
    if quiet {
        // A group, so that `Bound` also ends what a shell has started. The other command stays in
        // the group of the terminal, which it may read.
        child.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    }
    // SAFETY: between fork and exec only system calls are made, which do not allocate.
    unsafe {
        child.pre_exec(move || {
            enter(namespace)?;
            match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
    let named = |e: io::Error| {
        io::Error::new(e.kind(), format!("cannot run `{}`: {e}", program.to_string_lossy()))
    };
    child.spawn().map_err(named)
}

/// The exit status as a shell reports it: 128 + the signal that ended the process.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// A child that is killed when this value is dropped, with its process group if the second field
/// is true.
#[derive(Debug)]
pub struct Bound(pub Child, pub bool);

impl Drop for Bound {
    fn drop(&mut self) {
        if let (true, Ok(pid)) = (self.1, libc::pid_t::try_from(self.0.id())) {
            // SAFETY: no memory is passed, and the child leads this group.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Gives up all privileges of the calling thread, for good.
///
/// # Errors
///
/// If the kernel refuses it.
pub fn drop_privileges() -> io::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3`.
    const VERSION: u32 = 0x2008_0522;
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let header = Header { version: VERSION, pid: 0 };
    // Effective, permitted and inheritable sets, in two words each.
    let none = [0_u32; 6];
    // SAFETY: both values have the layout of capset(2) and outlive the calls.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
            || libc::syscall(libc::SYS_capset, &header, none.as_ptr()) < 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
