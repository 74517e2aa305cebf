//! The send buffer of a socket, which holds what the program has written until it is acknowledged
//! (Linux `tcp_sendmsg_locked`, `sk_stream_write_space`, `tcp_sndbuf_expand`; profile keys
//! `wmem_default` and `wmem_max`). What a program writes beyond it waits in the program.
//!
//! The kernel counts memory, not payload: an `sk_buff` takes its structures besides its data. A
//! program that found the buffer full continues when a third of it is free, so that the buffer is
//! refilled in blocks. SACKed data stay in it. In a recovery that needs more than the buffer has,
//! the sender therefore runs out of new data, and the ACK that ends the recovery releases a window
//! at once.

use crate::profile::Profile;
use lasthop_core::units::{Duration, Size};

/// Structures of an `sk_buff`: itself and its shared info (`SKB_TRUESIZE`), besides the room for
/// headers.
const SK_BUFF: u64 = 256;
const SHARED_INFO: u64 = 320;
/// Bytes by which the largest segment exceeds one with timestamps (`mss_clamp`).
const TIMESTAMPS: u64 = 12;
/// Payload of an `sk_buff` at most (`GSO_LEGACY_MAX_SIZE` less the largest header).
const LARGEST_BLOCK: u64 = 65_535 - 320;
/// Segments of an `sk_buff` at least when it is sent (sysctl `net.ipv4.tcp_min_tso_segs`).
const MIN_SEGMENTS: f64 = 2.0;
/// Segments that may be sent within this time leave as one `sk_buff` (`tcp_tso_should_defer`).
const DEFERRED: Duration = Duration::millis(1);
/// During a write, ACKs are processed after this many `sk_buff`s (`process_backlog` in
/// `tcp_sendmsg_locked`).
const BLOCKS_BEFORE_ACKS: u32 = 16;
/// cwnd that the buffer has room for at least, in segments (`TCP_INIT_CWND`).
const INITIAL_CWND: u64 = 10;

/// The send buffer of one connection.
#[derive(Clone, Debug)]
pub struct SendBuffer {
    mss: u64,
    /// Room for headers in an `sk_buff`, bytes.
    headers: u64,
    /// Bytes that the program still has to write; `u64::MAX` for "without end".
    pending: u64,
    /// The program closes the connection when it has written them.
    closes: bool,
    /// Size, and the largest one, in bytes of memory (`sk_sndbuf`, `tcp_wmem[2]`).
    size: u64,
    max: u64,
    /// Bytes of each write, and of the present one those that are missing.
    write_size: u64,
    missing: u64,
    /// Bytes of the first write, if it differs, and whether it is the next one.
    first_write: u64,
    is_first: bool,
    /// Blocks of the present write, since ACKs were processed.
    blocks: u32,
    /// The last block was the end of a write.
    ends_write: bool,
}

/// What the buffer holds.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Bytes that were sent and are not acknowledged.
    pub sent: u64,
    /// Bytes that were not sent.
    pub unsent: u64,
    /// Segments that an `sk_buff` has when it is sent.
    pub segments: f64,
}

impl SendBuffer {
    /// The buffer of a new connection with segments of `mss` bytes; `None` if the profile does not
    /// limit it.
    pub fn new(profile: &Profile, mss: u32) -> Option<Box<SendBuffer>> {
        let bytes = |size: Size| size.bytes(mss);
        let max = bytes(profile.wmem_max);
        let size = bytes(profile.wmem_default).min(max);
        let mss = mss.max(1);
        let write_size = bytes(profile.program_write_size);
        let first_write = bytes(profile.program_first_write);
        let buffer = SendBuffer {
            mss: mss.into(),
            headers: profile.max_tcp_header.into(),
            pending: 0,
            closes: false,
            size,
            max,
            write_size,
            missing: write_size,
            first_write,
            is_first: false,
            blocks: 0,
            ends_write: false,
        };
        (max > 0).then(|| Box::new(buffer))
    }

    /// The program writes `bytes` more.
    pub fn write(&mut self, bytes: u64) {
        if self.pending == 0 {
            (self.missing, self.blocks) = (self.write_size, 0);
            self.is_first = self.first_write > 0;
        }
        self.pending = self.pending.saturating_add(bytes);
    }

    /// ACKs that arrive during a write wait.
    pub fn delays_acks(&self) -> bool {
        self.write_size > 0
    }

    /// They are processed after the last block: it was the end of a write, or its 16th.
    pub fn admits_acks(&self) -> bool {
        self.ends_write || self.blocks == BLOCKS_BEFORE_ACKS
    }

    /// The program writes no more than it has, and closes the connection then. True if it has
    /// written all.
    pub fn close(&mut self) -> bool {
        self.closes = true;
        self.is_closed()
    }

    /// The program has written all and closed the connection.
    pub fn is_closed(&self) -> bool {
        self.closes && self.pending == 0
    }

    /// What the program has not written yet is discarded.
    pub fn stop(&mut self) {
        self.pending = 0;
    }

    /// The program has more to write.
    pub fn has_pending(&self) -> bool {
        self.pending > 0
    }

    /// The next write is the first one, which differs.
    pub fn has_first_write(&self) -> bool {
        self.is_first
    }

    /// Makes room for this number of windows of cwnd, in segments (`tcp_sndbuf_expand`).
    pub fn grow(&mut self, windows: u64, cwnd: u64) {
        let wanted = (windows * self.segment_memory()).saturating_mul(cwnd.max(INITIAL_CWND));
        self.size = self.size.max(wanted.min(self.max));
    }

    /// The least cwnd, in segments, with which it grows; `None` if with none.
    pub fn grows_with(&self, windows: u64) -> Option<u64> {
        let cwnd = self.size / (windows * self.segment_memory()).max(1) + 1;
        (self.size < self.max).then_some(if cwnd <= INITIAL_CWND { 0 } else { cwnd })
    }

    /// Bytes of memory of a segment.
    fn segment_memory(&self) -> u64 {
        let segment = self.mss + TIMESTAMPS + self.headers + SHARED_INFO;
        segment.next_power_of_two() + SK_BUFF
    }

    /// Bytes of memory that this takes (`sk_wmem_queued`).
    fn memory(&self, held: Held) -> u64 {
        let sent = held.sent as f64 / (self.mss as f64 * held.segments.max(MIN_SEGMENTS));
        let unsent = held.unsent.div_ceil(LARGEST_BLOCK);
        let structures = SK_BUFF + SHARED_INFO + self.headers;
        held.sent + held.unsent + (sent * structures as f64) as u64 + unsent * structures
    }

    /// A program that found the buffer full writes again: a third of it is free
    /// (`sk_stream_write_space`).
    pub fn wakes(&self, held: Held) -> bool {
        let memory = self.memory(held);
        memory < self.size && self.size - memory >= memory / 2
    }

    /// Bytes of payload with which no third of the buffer can be free.
    pub fn waking_level(&self) -> u64 {
        self.size / 3 * 2
    }

    /// The bytes of the next `sk_buff` that the program fills, or by which it fills up the last
    /// one; 0 if the buffer is full. `max_window`: the largest window that was advertised, of which
    /// an `sk_buff` has at most a half (`tcp_bound_to_half_wnd`). `frame`: bytes that are sent at
    /// once (`tcp_tso_autosize`).
    ///
    /// Only a new `sk_buff` needs room in the buffer. One that is sent in smaller frames is filled
    /// up meanwhile, so that a program writes beyond the buffer as long as cwnd has room
    /// (`tcp_push_one`).
    pub fn accept(&mut self, held: Held, max_window: u64, frame: u64) -> u64 {
        let goal = LARGEST_BLOCK.min(max_window / 2) / self.mss * self.mss;
        let goal = goal.max(self.mss);
        let last = held.unsent % goal;
        let is_new = last == 0 && (held.unsent > 0 || frame >= goal);
        if is_new && !self.has_room(held) {
            return 0;
        }
        let mut bytes = (goal - last).min(self.pending);
        if std::mem::take(&mut self.is_first) {
            bytes = bytes.min(self.first_write);
            self.ends_write = true;
        } else {
            self.count_block(bytes);
        }
        if self.pending != u64::MAX {
            self.pending -= bytes;
        }
        bytes
    }

    /// A new `sk_buff` may begin (`sk_stream_memory_free`).
    pub fn has_room(&self, held: Held) -> bool {
        self.memory(held) < self.size
    }

    /// The program writes a block of `bytes`.
    fn count_block(&mut self, bytes: u64) {
        self.ends_write = bytes >= self.missing;
        if self.ends_write {
            let excess = (bytes - self.missing).checked_rem(self.write_size).unwrap_or(0);
            (self.missing, self.blocks) = (self.write_size - excess, 0);
        } else {
            self.missing -= bytes;
            self.blocks = self.blocks % BLOCKS_BEFORE_ACKS + 1;
        }
    }
}

/// Segments that an `sk_buff` has when it is sent, with this cwnd in segments: what the windows
/// release within a millisecond, at least two (`tcp_tso_should_defer`, `tcp_tso_autosize`).
pub fn segments_sent_together(cwnd: u64, srtt: Option<Duration>) -> f64 {
    let srtt = srtt.filter(|srtt| *srtt > Duration::ZERO);
    srtt.map_or(MIN_SEGMENTS, |srtt| {
        let together = cwnd as f64 * DEFERRED.0 as f64 / srtt.0 as f64;
        together.max(MIN_SEGMENTS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Profile, ProfileName};

    fn buffer() -> Box<SendBuffer> {
        SendBuffer::new(&Profile::named(ProfileName::Linux), 1448).unwrap()
    }

    fn held(sent: u64, unsent: u64) -> Held {
        Held { sent, unsent, segments: 2.0 }
    }

    /// The figures that `ss -tm` shows in kernels of distributions: 87 040 bytes after the
    /// handshake, 4 MiB at most.
    #[test]
    fn the_buffer_grows_with_cwnd() {
        let mut buffer = buffer();
        assert_eq!(buffer.size, 16_384);
        buffer.grow(2, 1);
        assert_eq!(buffer.size, 87_040);
        buffer.grow(2, 20);
        assert_eq!(buffer.size, 174_080);
        buffer.grow(3, 20);
        assert_eq!(buffer.size, 261_120, "three windows (BBR)");
        buffer.grow(2, 10);
        assert_eq!(buffer.size, 261_120);
        buffer.grow(2, 10_000);
        assert_eq!((buffer.size, buffer.grows_with(2)), (4 << 20, None));
    }

    #[test]
    fn it_grows_with_a_larger_cwnd_only() {
        let mut buffer = buffer();
        assert_eq!(buffer.grows_with(2), Some(0));
        for cwnd in [10, 33, 481] {
            buffer.grow(2, cwnd);
            let size = buffer.size;
            assert_eq!(buffer.grows_with(2), Some(cwnd + 1));
            buffer.grow(2, cwnd);
            assert_eq!(buffer.size, size);
            buffer.grow(2, cwnd + 1);
            assert!(buffer.size > size);
        }
    }

    /// A kernel without wireless LANs and tunnels: 46 080 bytes after the handshake, and 51 328
    /// bytes of memory with ten segments in flight and 22 unsent (SO_MEMINFO of Linux 6.18).
    #[test]
    fn memory_is_counted_as_by_a_small_kernel() {
        let profile = Profile { max_tcp_header: 256, ..Profile::named(ProfileName::Linux) };
        let mut buffer = SendBuffer::new(&profile, 1448).unwrap();
        buffer.grow(2, 10);
        assert_eq!((buffer.size, buffer.memory(held(14_480, 31_856))), (46_080, 51_328));
    }

    /// Half of the first window, 64 KiB, is a block; the last block is filled up although the
    /// buffer is full.
    #[test]
    fn a_program_fills_the_buffer_in_blocks() {
        let mut buffer = buffer();
        buffer.grow(2, 10);
        buffer.write(1_000_000);
        assert_eq!(buffer.accept(held(0, 0), 65_535, 2896), 22 * 1448);
        assert_eq!(buffer.accept(held(10 * 1448, 12 * 1448), 65_535, 2896), 10 * 1448);
        assert_eq!(buffer.accept(held(10 * 1448, 22 * 1448), 65_535, 2896), 22 * 1448);
        assert_eq!(buffer.accept(held(10 * 1448, 44 * 1448), 65_535, 2896), 22 * 1448);
        assert_eq!(buffer.accept(held(10 * 1448, 66 * 1448), 65_535, 2896), 0);
        assert_eq!(buffer.accept(held(0, 0), 1 << 30, 2896), 45 * 1448);
        assert_eq!(buffer.pending, 1_000_000 - (76 + 45) * 1448);
    }

    /// The header of each response is a write of its size.
    #[test]
    fn a_first_write_that_differs_is_a_block() {
        let profile =
            Profile { program_first_write: Size::Bytes(206), ..Profile::named(ProfileName::Linux) };
        let mut buffer = SendBuffer::new(&profile, 1448).unwrap();
        buffer.grow(2, 10);
        for _ in 0..2 {
            buffer.write(20_000);
            assert_eq!(buffer.accept(held(0, 0), 65_535, 2896), 206);
            assert!(buffer.admits_acks());
            assert_eq!(buffer.accept(held(206, 0), 65_535, 2896), 19_794);
        }
        buffer.write(100);
        assert_eq!(buffer.accept(held(0, 0), 65_535, 2896), 100, "no more than there is");
    }

    /// At 200 Mbit/s and 300 ms, SO_MEMINFO shows up to 15 MB in a buffer of 4 MiB.
    #[test]
    fn a_program_writes_beyond_the_buffer_while_frames_leave() {
        let mut buffer = buffer();
        buffer.grow(2, 10_000);
        buffer.write(u64::MAX);
        assert_eq!(buffer.accept(held(10 << 20, 0), 1 << 30, 30 * 1448), 45 * 1448);
        assert_eq!(buffer.accept(held(10 << 20, 0), 1 << 30, 45 * 1448), 0);
        assert_eq!(buffer.accept(held(10 << 20, 45 * 1448), 1 << 30, 30 * 1448), 0);
    }

    #[test]
    fn a_program_writes_again_when_a_third_is_free() {
        let mut buffer = buffer();
        buffer.grow(2, 10_000);
        let two_thirds = (4 << 20) / 3 * 2;
        // Each two segments take 896 bytes more.
        let payload = two_thirds * 2896 / (2896 + 896);
        assert!(!buffer.wakes(held(payload + 5000, 0)));
        assert!(buffer.wakes(held(payload - 5000, 0)));
        assert!(buffer.waking_level() >= payload);
    }

    #[test]
    fn a_short_transfer_is_written_at_once() {
        let mut buffer = buffer();
        buffer.grow(2, 10);
        buffer.write(1000);
        assert!(!buffer.close());
        assert_eq!(buffer.accept(held(0, 0), 65_535, 2896), 1000);
        assert!(buffer.is_closed() && !buffer.has_pending());
    }
}
