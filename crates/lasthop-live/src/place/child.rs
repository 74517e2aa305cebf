//! The processes at the ends of a link.

#![allow(unsafe_code, reason = "fork, and what children do before they execute a program")]

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitStatus, Stdio};

use super::caller::{Caller, caller};
use super::mount::{mount_proc, own_mounts};
use super::namespace::enter;

/// A command at an end of a link.
#[derive(Clone, Debug)]
pub struct Order {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The network namespace.
    pub namespace: RawFd,
    /// Variables added to the environment.
    pub environment: Vec<(&'static str, String)>,
    /// True to close standard input and output.
    pub quiet: bool,
}

/// A command that waits in its namespaces to be started.
#[derive(Debug)]
pub struct Waiting {
    process: Bound,
    stream: UnixStream,
    program: OsString,
}

/// Makes the namespaces of a command: the network namespace that exists, a process namespace, and a
/// mount namespace with its own /proc, if the machine allows that. All that the command starts ends
/// with it, and it ends with the calling thread, also if that is killed. It runs as the user who
/// has called sudo, if somebody has; no process keeps more rights than that.
///
/// # Errors
///
/// If there is no command, or the namespaces are not to be had.
pub fn prepare(order: &Order) -> io::Result<Waiting> {
    let Some(program) = order.command.first().cloned() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command"));
    };
    let caller = caller();
    let (stream, its_stream) = UnixStream::pair()?;
    // SAFETY: the child only runs the function, which does not return.
    let process = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {
            drop(stream);
            // SAFETY: this process has one thread.
            unsafe { outer_process(order, caller.as_ref(), its_stream) }
        }
        child => Bound { process: child, status: None },
    };
    drop(its_stream);
    let mut waiting = Waiting { process, stream, program };
    waiting.answer()?;
    Ok(waiting)
}

impl Waiting {
    /// Starts the command.
    ///
    /// # Errors
    ///
    /// If the program does not exist or cannot be executed.
    pub fn start(mut self) -> io::Result<Bound> {
        self.stream.write_all(&[1])?;
        let program = self.program.to_string_lossy().into_owned();
        let named = |e: io::Error| io::Error::new(e.kind(), format!("cannot run `{program}`: {e}"));
        self.answer().map_err(named)?;
        Ok(self.process)
    }

    /// Waits for the number of an error, or zero.
    fn answer(&mut self) -> io::Result<()> {
        let mut number = [0; 4];
        self.stream.read_exact(&mut number)?;
        match i32::from_ne_bytes(number) {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }
}

/// Sends what [`Waiting::answer`] reads.
fn send(stream: &mut UnixStream, result: &io::Result<()>) {
    let number = result.as_ref().map_or_else(|e| e.raw_os_error().unwrap_or(libc::EINVAL), |()| 0);
    // The reader may have ended.
    let _ = stream.write_all(&number.to_ne_bytes());
}

/// The process outside the process namespace: makes the namespaces, and ends as the process in it.
///
/// # Safety
///
/// To be called after fork, where there is one thread.
unsafe fn outer_process(order: &Order, caller: Option<&Caller>, mut stream: UnixStream) -> ! {
    // SAFETY: system calls; the function does not return, whatever happens.
    unsafe {
        // An interrupt of the terminal is the command's affair.
        let at_interrupt = libc::signal(libc::SIGINT, libc::SIG_IGN);
        let made = end_with_parent()
            .and_then(|()| enter(order.namespace))
            .and_then(|()| own_processes())
            .and_then(|()| own_mounts());
        let child = match made {
            Ok(()) => libc::fork(),
            Err(e) => {
                send(&mut stream, &Err(e));
                libc::_exit(1)
            }
        };
        if child == 0 {
            let first = || first_process(order, caller, at_interrupt, &mut stream);
            let status = catch_unwind(AssertUnwindSafe(first)).unwrap_or(1);
            libc::_exit(status)
        }
        if child < 0 {
            send(&mut stream, &Err(io::Error::last_os_error()));
            libc::_exit(1)
        }
        // From now on lasthop, which becomes the caller too, is allowed to end this process. A
        // change of the user undoes that it ends with its parent.
        if caller.is_some_and(|caller| caller.become_caller().is_err()) {
            libc::_exit(1)
        }
        let _ = end_with_parent();
        libc::_exit(wait_for(child))
    }
}

/// The first process of a process namespace: starts the command when it is told to, and collects
/// processes until the command has ended, whose exit status it returns. The kernel then ends all
/// others of the namespace.
fn first_process(
    order: &Order,
    caller: Option<&Caller>,
    at_interrupt: libc::sighandler_t,
    stream: &mut UnixStream,
) -> i32 {
    // In a container that hides parts of /proc it is not allowed; `lasthop doctor` says so.
    let _ = mount_proc();
    let ready = end_with_parent().and_then(|()| match caller {
        Some(caller) => caller.become_caller().and_then(|()| end_with_parent()),
        None => Ok(()),
    });
    send(stream, &ready);
    // Nothing is to be read once lasthop has ended.
    if ready.is_err() || stream.read_exact(&mut [0]).is_err() {
        return 1;
    }
    let started = spawn(order, at_interrupt);
    send(
        stream,
        &started.as_ref().map(|_| ()).map_err(|e| match e.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::from_raw_os_error(libc::EINVAL),
        }),
    );
    // SAFETY: this process has one thread, and does nothing more than to wait.
    started.map_or(1, |child| unsafe { wait_for(child) })
}

/// Starts the program as a child of the calling process.
fn spawn(order: &Order, at_interrupt: libc::sighandler_t) -> io::Result<libc::pid_t> {
    let Order { command, environment, quiet, .. } = order;
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program);
    child.args(arguments).envs(environment.iter().map(|(k, v)| (k, v)));
    if *quiet {
        child.stdin(Stdio::null()).stdout(Stdio::null());
    }
    // A handler of lasthop's does not exist in the program.
    let at_interrupt = if at_interrupt == libc::SIG_IGN { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: between fork and exec only system calls are made, which do not allocate.
    unsafe {
        child.pre_exec(move || {
            libc::signal(libc::SIGINT, at_interrupt);
            end_with_parent()
        });
    }
    Ok(child.spawn()?.id() as libc::pid_t)
}

/// Lets the children of the calling process begin a process namespace.
fn own_processes() -> io::Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::unshare(libc::CLONE_NEWPID) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the calling process end with its parent. A change of the user undoes it.
fn end_with_parent() -> io::Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes all files, waits for a child and returns its status.
///
/// # Safety
///
/// Files that are used afterwards must not exist.
unsafe fn wait_for(child: libc::pid_t) -> i32 {
    // SAFETY: system calls; the status outlives them.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        let mut status = 0;
        while libc::wait(&mut status) != child {}
        code(ExitStatus::from_raw(status))
    }
}

/// Tries whether commands can have their own /proc.
///
/// # Errors
///
/// The reason why not.
pub fn try_proc() -> io::Result<()> {
    let number = |result: io::Result<()>| {
        result.map_or_else(|e| e.raw_os_error().unwrap_or(libc::EINVAL), |()| 0)
    };
    // SAFETY: children only make system calls, and end at once.
    let status = unsafe {
        match libc::fork() {
            -1 => return Err(io::Error::last_os_error()),
            0 => match own_processes().and_then(|()| own_mounts()) {
                Ok(()) => match libc::fork() {
                    0 => libc::_exit(number(mount_proc())),
                    -1 => libc::_exit(libc::EAGAIN),
                    child => libc::_exit(wait_for(child)),
                },
                Err(e) => libc::_exit(number(Err(e))),
            },
            child => Bound { process: child, status: None }.wait(0)?,
        }
    };
    match status {
        None | Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number)),
    }
}

/// The exit status as a shell reports it: 128 + the signal that ended the process.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// A child that is killed when this value is dropped, with all that it has started.
#[derive(Debug)]
pub struct Bound {
    process: libc::pid_t,
    /// Its exit status, once it has ended.
    status: Option<i32>,
}

impl Bound {
    /// The exit status as a shell reports it; `None` while the child runs.
    ///
    /// # Errors
    ///
    /// If somebody else has waited for the child.
    pub fn try_wait(&mut self) -> io::Result<Option<i32>> {
        self.wait(libc::WNOHANG)
    }

    fn wait(&mut self, options: libc::c_int) -> io::Result<Option<i32>> {
        let mut status = 0;
        while self.status.is_none() {
            // SAFETY: the status outlives the call.
            match unsafe { libc::waitpid(self.process, &mut status, options) } {
                0 => return Ok(None),
                -1 => match io::Error::last_os_error() {
                    e if e.kind() == io::ErrorKind::Interrupted => {}
                    e => return Err(e),
                },
                _ => self.status = Some(code(ExitStatus::from_raw(status))),
            }
        }
        Ok(self.status)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.status.is_none() {
            // SAFETY: no pointers; the child has not been waited for, so the number is its own.
            unsafe { libc::kill(self.process, libc::SIGKILL) };
            // It has ended, or does so now.
            let _ = self.wait(0);
        }
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
