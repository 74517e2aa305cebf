//! Receive packet steering: which processors do the protocol work for what a device delivers.
//!
//! Otherwise the thread that writes a packet also does the work of the kernel's TCP at that end,
//! and cannot forward 60,000 packets per second in time.

use std::io;
use std::thread;

use super::mount::mount_private;

/// Lets all processors but `busy` do the protocol work of a device in the network namespace of the
/// calling thread. The thread gets a mount namespace, in which /sys is that of the network
/// namespace; so this is for threads that end soon.
///
/// # Errors
///
/// If /sys cannot be mounted or the kernel has no packet steering.
pub fn steer(device: &str, busy: usize) -> io::Result<()> {
    let processors = thread::available_parallelism()?.get();
    if processors < 2 {
        return Ok(());
    }
    mount_private(c"sysfs", c"/sys")?;
    std::fs::write(format!("/sys/class/net/{device}/queues/rx-0/rps_cpus"), mask(processors, busy))
}

/// The first processors but one, as a mask: hexadecimal words of 32 bits, the highest first.
fn mask(processors: usize, without: usize) -> String {
    let word = |w: usize| {
        let set = (w * 32..processors.min(w * 32 + 32)).filter(|&p| p != without);
        format!("{:08x}", set.map(|p| 1_u32 << (p % 32)).sum::<u32>())
    };
    (0..processors.div_ceil(32)).rev().map(word).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_leave_out_one_processor() {
        assert_eq!(mask(2, 0), "00000002");
        assert_eq!(mask(4, 2), "0000000b");
        assert_eq!(mask(33, 1), "00000001,fffffffd");
    }
}
