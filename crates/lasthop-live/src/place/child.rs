//! The processes at the ends of a link.

#![allow(unsafe_code, reason = "what a child does between fork and exec, and dropping privileges")]

use std::ffi::OsString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::caller::caller;
use super::namespace::enter;

/// Starts a command in a network namespace, and in a process namespace: all that it starts ends
/// with it, and it ends with the calling thread, also if that is killed. It runs as the user who
/// has called sudo, if somebody has.
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
        child.stdin(Stdio::null()).stdout(Stdio::null());
    }
    let caller = caller();
    // SAFETY: between fork and exec only system calls are made, which do not allocate.
    unsafe {
        child.pre_exec(move || {
            enter(namespace)?;
            new_process_namespace()?;
            // Before the processes that wait for it: lasthop, which becomes the caller too, has to
            // be allowed to kill them.
            if let Some(caller) = &caller {
                caller.become_caller()?;
            }
            begin_process_namespace()?;
            end_with_parent()
        });
    }
    let named = |e: io::Error| {
        io::Error::new(e.kind(), format!("cannot run `{}`: {e}", program.to_string_lossy()))
    };
    child.spawn().map_err(named)
}

/// Lets the children of the calling process begin a process namespace.
///
/// # Safety
///
/// As [`begin_process_namespace`].
unsafe fn new_process_namespace() -> io::Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::unshare(libc::CLONE_NEWPID) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Continues in the new process namespace, below a first process that only collects ended ones; the
/// kernel kills all in the namespace when that process ends. It ends with the command, whose exit
/// status it and the calling process pass on.
///
/// # Safety
///
/// To be called between fork and exec, where there is one thread.
unsafe fn begin_process_namespace() -> io::Result<()> {
    // SAFETY: system calls without pointers; no allocation.
    unsafe {
        // The calling process stays outside; its child is the first process of the namespace.
        for _ in 0..2 {
            end_with_parent()?;
            match libc::fork() {
                0 => {}
                -1 => return Err(io::Error::last_os_error()),
                child => wait_for(child),
            }
        }
    }
    Ok(())
}

/// Lets the calling process end with its parent. A change of the user undoes it.
fn end_with_parent() -> io::Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for a child and ends with its status.
///
/// # Safety
///
/// As [`begin_process_namespace`].
unsafe fn wait_for(child: libc::pid_t) -> ! {
    // SAFETY: system calls; the status outlives them.
    unsafe {
        // An interrupt of the terminal is the command's affair.
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        // The pipe by which the caller learns of a failed exec, among others.
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        let mut status = 0;
        while libc::wait(&mut status) != child {}
        libc::_exit(code(ExitStatus::from_raw(status)))
    }
}

/// The exit status as a shell reports it: 128 + the signal that ended the process.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// A child that is killed when this value is dropped, with all that it has started.
#[derive(Debug)]
pub struct Bound(pub Child);

impl Drop for Bound {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Gives up all privileges of the calling thread, for good. What it writes from now on belongs to
/// the user who has called sudo, if somebody has.
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
    if let Some(caller) = caller() {
        caller.become_caller()?;
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
