//! The kernel's tracepoint tcp:tcp_probe: cwnd of a connection at each segment that it receives.
//!
//! It is read through perf events, which end with their descriptors; the files of tracefs that
//! describe it are read in a mount namespace that ends with a thread. So nothing on the machine
//! changes. The tracepoint fires in all network namespaces: the kernel filters by port, and the
//! reader selects a connection by its cookie (SO_COOKIE).

mod event;
mod record;

use std::io;
use std::thread;

use crate::place::mount::mount_private;
use event::Event;
use record::{Layout, read_records};

pub use record::Sample;

/// Where the kernel has its tracing files.
const TRACING: &str = "/sys/kernel/tracing";

/// Samples of all connections to one port.
#[derive(Debug)]
pub struct TcpProbe {
    layout: Layout,
    /// One per processor.
    events: Vec<Event>,
    lost: u64,
}

impl TcpProbe {
    /// Begins to record what senders receive on connections to the remote port `port`.
    ///
    /// # Errors
    ///
    /// If the kernel has no such tracepoint, or the caller has no right to use it.
    pub fn new(port: u16) -> io::Result<TcpProbe> {
        let (id, layout) = describe()?;
        let filter = format!("dport == {port}");
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
        let events = processors(&online).into_iter().map(|cpu| Event::new(id, cpu, &filter));
        let events = events.collect::<io::Result<_>>().map_err(refused)?;
        Ok(TcpProbe { layout, events, lost: 0 })
    }

    /// Takes what has been recorded since the last call, in the order of time.
    pub fn read(&mut self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for event in &mut self.events {
            self.lost += read_records(&event.take(), &self.layout, &mut samples);
        }
        samples.sort_by_key(|sample: &Sample| sample.time_ns);
        samples
    }

    /// Records that the kernel has dropped because they were not taken in time.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// Names what the error is about.
fn refused(error: io::Error) -> io::Error {
    let text = format!("the tracepoint tcp_probe needs root or CAP_PERFMON: {error}");
    io::Error::new(error.kind(), text)
}

/// Number and layout of the tracepoint.
fn describe() -> io::Result<(u64, Layout)> {
    let read = |name| std::fs::read_to_string(format!("{TRACING}/events/tcp/tcp_probe/{name}"));
    let files = || Ok((read("id")?, read("format")?));
    let mount = || mount_private(c"tracefs", c"/sys/kernel/tracing").and_then(|()| files());
    let mounted = || thread::scope(|scope| scope.spawn(mount).join());
    let (id, format) = files()
        .or_else(|_: io::Error| match mounted() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
        .map_err(refused)?;
    let unknown = || io::Error::other("the tracepoint tcp_probe of this kernel is not understood");
    let id = id.trim().parse().map_err(|_| unknown())?;
    Ok((id, Layout::parse(&format).ok_or_else(unknown)?))
}

/// The processors in a list of ranges such as `0-3,6`.
fn processors(list: &str) -> Vec<i32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_processors() {
        assert_eq!(processors("0\n"), [0]);
        assert_eq!(processors("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
    }
}
