//! A perf event of a tracepoint on one processor, and the ring buffer of its records.

#![allow(unsafe_code, reason = "perf_event_open, and memory that is shared with the kernel")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// `PERF_TYPE_TRACEPOINT`, `PERF_SAMPLE_TIME | PERF_SAMPLE_RAW`, `PERF_FLAG_FD_CLOEXEC`,
/// `PERF_EVENT_IOC_ENABLE` and `PERF_EVENT_IOC_SET_FILTER` of linux/perf_event.h.
const TRACEPOINT: u32 = 2;
const TIME_AND_RAW: u64 = 1 << 2 | 1 << 10;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
const ENABLE: u32 = 0x2400;
const SET_FILTER: u32 = 0x4000_2406 | (size_of::<*const u8>() as u32) << 16;
/// The bit `disabled` of the attributes.
const DISABLED: u64 = 1;
/// Where the kernel writes how far it has recorded, and the reader how far it has read, in the
/// first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// Bytes of the ring: some 3000 records.
const RING: usize = 1 << 19;

/// The first version of `struct perf_event_attr`.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// An event with its ring.
#[derive(Debug)]
pub struct Event {
    ring: Mapping,
    // Closed after the mapping is gone.
    _fd: OwnedFd,
}

impl Event {
    /// Records a tracepoint on a processor where `filter` holds, in all processes.
    ///
    /// # Errors
    ///
    /// If the caller has no right to it, or the tracepoint has no such field.
    pub fn new(tracepoint: u64, processor: i32, filter: &str) -> io::Result<Event> {
        let attributes = Attributes {
            kind: TRACEPOINT,
            size: size_of::<Attributes>() as u32,
            config: tracepoint,
            sample_period: 1,
            sample_type: TIME_AND_RAW,
            read_format: 0,
            flags: DISABLED,
            wakeup_events: 0,
            breakpoint_type: 0,
            breakpoint_address: 0,
        };
        // SAFETY: the attributes have the size that they state and outlive the call; all
        // processes (-1), no group (-1).
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &attributes, -1, processor, -1, CLOSE_ON_EXEC)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and owned by nothing else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        let ring = Mapping::new(fd.as_raw_fd())?;
        let filter = CString::new(filter)?;
        // SAFETY: the descriptor is open, and the string outlives the call.
        let done = unsafe {
            libc::ioctl(fd.as_raw_fd(), SET_FILTER as _, filter.as_ptr()) == 0
                && libc::ioctl(fd.as_raw_fd(), ENABLE as _, 0) == 0
        };
        if done { Ok(Event { ring, _fd: fd }) } else { Err(io::Error::last_os_error()) }
    }

    /// Takes all records out of the ring.
    pub fn take(&mut self) -> Vec<u8> {
        self.ring.take()
    }
}

/// The first page, which says how full the ring is, and the ring.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    page: usize,
}

// SAFETY: nothing else has the address.
unsafe impl Send for Mapping {}
// SAFETY: only `take` reads, which needs the value exclusively.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: RawFd) -> io::Result<Mapping> {
        // SAFETY: no pointers.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, wherever the kernel puts it.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), page + RING, access, libc::MAP_SHARED, fd, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Mapping { start, page })
    }

    /// A counter in the first page.
    fn counter(&self, at: usize) -> &AtomicU64 {
        // SAFETY: within the first page and aligned; the kernel, too, accesses it as a whole.
        unsafe { self.start.add(at).cast().as_ref() }
    }

    fn take(&mut self) -> Vec<u8> {
        // The counters never wrap; the ring is a power of two.
        let tail = self.counter(TAIL).load(Ordering::Relaxed);
        // What the kernel has written before the head is seen after it.
        let head = self.counter(HEAD).load(Ordering::Acquire);
        let length = usize::try_from(head - tail).unwrap_or(RING).min(RING);
        let begin = (tail % RING as u64) as usize;
        let first = length.min(RING - begin);
        let mut bytes = Vec::with_capacity(length);
        // SAFETY: the kernel writes nothing between tail and head until the tail has moved; both
        // parts are within the ring.
        unsafe {
            let ring = self.start.add(self.page).as_ptr();
            bytes.extend_from_slice(std::slice::from_raw_parts(ring.add(begin), first));
            bytes.extend_from_slice(std::slice::from_raw_parts(ring, length - first));
        }
        self.counter(TAIL).store(head, Ordering::Release);
        bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and no reference into it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.page + RING) };
    }
}
