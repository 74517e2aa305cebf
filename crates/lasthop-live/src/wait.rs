//! Waiting for a time or a packet: sleep until shortly before, then spin.
//!
//! On a busy machine the scheduling class decides how exact a wait is, not the kind of timer: with
//! ordinary scheduling the 99th percentile is 10 to 25 ms, with SCHED_FIFO 30 us.

#![allow(unsafe_code, reason = "ppoll, and scheduling of the calling thread")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Time before an event at which sleeping ends: the kernel wakes a thread up this late.
pub const SPIN: Duration = Duration::from_micros(60);

/// Waits at most `timeout` until one of the devices has a packet.
///
/// # Errors
///
/// If a descriptor is invalid. A signal ends the wait without an error.
pub fn readable(fds: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<()> {
    poll(fds, libc::POLLIN, timeout)
}

/// Waits at most `timeout` until a device takes a packet.
///
/// # Errors
///
/// As [`readable`].
pub fn writable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    poll(&[fd], libc::POLLOUT, timeout)
}

fn poll(fds: &[BorrowedFd<'_>], events: libc::c_short, timeout: Duration) -> io::Result<()> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 }).collect();
    let limit =
        libc::timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: the array and the time outlive the call; no signal mask is passed.
    let ready = unsafe {
        libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &limit, std::ptr::null())
    };
    match io::Error::last_os_error() {
        error if ready < 0 && error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// Real-time scheduling of the calling thread (SCHED_FIFO, lowest priority) on one processor, until
/// this value is dropped.
#[derive(Debug)]
pub struct RealTime {
    processors: libc::cpu_set_t,
}

impl RealTime {
    /// Begins it on a processor; `None` if that is not allowed. Child processes that start from now
    /// on have ordinary scheduling, but the same processor.
    pub fn begin(processor: usize) -> Option<RealTime> {
        let parameter = with_priority(1);
        let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        // SAFETY: all values outlive the calls, and zeros are a valid set; 0 is the calling thread.
        unsafe {
            if libc::sched_setscheduler(0, policy, &parameter) != 0 {
                return None;
            }
            let mut processors: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&processors), &mut processors);
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(processor, &mut one);
            libc::sched_setaffinity(0, size_of_val(&one), &one);
            Some(RealTime { processors })
        }
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        let parameter = with_priority(0);
        // To clear the flag needs rights that the thread may have given up.
        let policy = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;
        // SAFETY: as above.
        unsafe {
            libc::sched_setscheduler(0, policy, &parameter);
            libc::sched_setaffinity(0, size_of_val(&self.processors), &self.processors);
        }
    }
}

/// The parameters of a scheduling policy. musl's have more fields than this one.
fn with_priority(priority: libc::c_int) -> libc::sched_param {
    // SAFETY: zeros are valid numbers.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority;
    parameter
}

/// Lets the process begin real-time scheduling after it has given up its rights, if it may.
pub fn keep_real_time() {
    let limit = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
    let mut present = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both values outlive the calls. Without the right to it, nothing changes.
    unsafe {
        libc::getrlimit(libc::RLIMIT_RTPRIO, &mut present);
        if present.rlim_cur < 1 {
            libc::setrlimit(libc::RLIMIT_RTPRIO, &limit);
        }
    }
}

/// The processor that the calling thread runs on.
pub fn processor() -> usize {
    // SAFETY: no arguments; fails only on kernels without the call.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or_default()
}
