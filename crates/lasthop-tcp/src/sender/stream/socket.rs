//! What the program does to its socket: it writes, closes the connection, or waits for room in the
//! send buffer (`buffer`).
//!
//! A program writes block after block, each of one `sk_buff`, and ACKs arrive meanwhile. Between
//! two inputs of the sender nothing changes what the buffer holds, so the blocks up to the time of
//! an input are written when it comes (`catch_up`). Only a sender that has sent all there is needs
//! a timer for the next block (`await_block`).
//!
//! During a write the program owns the socket: segments that arrive wait until it ends, finds the
//! buffer full, or has written 16 blocks (`defer`, Linux `tcp_add_backlog`, `sk_flush_backlog`).
//! While some wait, each block has a timer.

use super::Stream;
use super::frames::LargestFrame;
use crate::sender::buffer::{Held, segments_sent_together};
use crate::window::WindowRule;
use lasthop_core::random;
use lasthop_core::segment::{Options, Segment};
use lasthop_core::units::{Duration, Time};

/// Bytes for which the profile has the time to write them.
const WRITE_UNIT: u64 = 64 << 10;

#[allow(clippy::multiple_inherent_impl, reason = "one file for each task of the stream")]
impl<W: WindowRule> Stream<W> {
    /// The program has `bytes` more to write. Without a limited buffer they are written.
    pub fn write(&mut self, bytes: u64) {
        match &mut self.buffer {
            Some(buffer) => buffer.write(bytes),
            None => self.written = self.written.saturating_add(bytes),
        }
    }

    /// Data that were not sent yet are discarded.
    pub fn stop(&mut self) {
        self.written = self.written.min(self.snd_max);
        if let Some(buffer) = &mut self.buffer {
            buffer.stop();
            // The timer for a backlog stays.
            if self.backlog.is_empty() {
                self.awaited_at = Time::NEVER;
            }
            self.wait_for_room();
        }
    }

    /// The program closes the connection, once it has written everything.
    pub fn close(&mut self) {
        self.close_wanted = self.buffer.as_mut().is_none_or(|buffer| buffer.close());
    }

    /// The program has more to write, and writes it or waits for room in the send buffer.
    pub fn is_program_blocked(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.has_pending())
    }

    /// After an ACK: a program that waits for room may have some, or it writes.
    #[inline(always)]
    pub fn may_have_room(&self) -> bool {
        self.snd_una >= self.wakes_at || self.window().cwnd > self.grows_above
    }

    /// The program waits, and is woken: a third of the buffer is free, which grows with cwnd unless
    /// `pipe`, the bytes in the network, fills cwnd (`tcp_should_expand_sndbuf`). The kernel looks
    /// after each frame (`tcp_event_new_data_sent`): of the `sent` bytes of new data, those beyond
    /// the first frame were still missing then.
    #[inline(never)]
    pub fn has_room(&mut self, pipe: u64, sent: u64) -> bool {
        let (held, cwnd) = (self.held(), self.cwnd_segments());
        let windows = self.congestion.send_buffer_windows();
        let frame = u64::from(self.largest_frame(&mut LargestFrame::new(None)));
        let fills = sent <= frame && pipe + u64::from(self.config.mss) > self.congestion.inflated();
        let Some(buffer) = self.buffer.as_mut() else { return false };
        if !fills {
            buffer.grow(windows, cwnd);
        }
        let wakes = buffer.has_pending() && buffer.wakes(held);
        self.watch_buffer();
        if fills {
            self.grows_above = self.cwnd_below_growth();
        }
        wakes
    }

    /// The program has been woken, and writes from now on or after a delay.
    pub fn wake_program(&mut self, now: Time) {
        let mean = self.profile.program_latency;
        let mut wait = Duration::ZERO;
        if mean > Duration::ZERO {
            // The phase of the clock is drawn by seed and connection.
            let draws = random::Stream::new(self.config.clock_phase.0, "program");
            wait = Duration((draws.exponential(self.wakes, mean.0 as f64) as u64).max(1));
            self.wakes += 1;
        }
        self.begin_at(now + wait);
    }

    /// The program writes what it has into the send buffer, if that is limited.
    pub fn begin_to_write(&mut self, now: Time) {
        if self.is_program_blocked() {
            self.begin_at(now);
        }
    }

    fn begin_at(&mut self, at: Time) {
        (self.writes_at, self.in_write) = (at, false);
        // Each ACK looks whether the sender waits for a block.
        (self.wakes_at, self.grows_above) = (0, f64::INFINITY);
    }

    /// The program writes what it has had the time for until now.
    #[inline(always)]
    pub fn catch_up(&mut self, now: Time) {
        if now >= self.writes_at {
            self.write_until(now);
        }
    }

    #[inline(never)]
    fn write_until(&mut self, now: Time) {
        // The timer of the block comes at this time, too, and processes the backlog before it.
        while self.backlog.is_empty() && self.write_block(now) {}
    }

    /// A segment that arrives while the program writes or will soon: it is stored if a write is in
    /// progress. False if it is to be processed.
    #[inline(never)]
    pub fn defer(&mut self, now: Time, segment: &Segment, options: &Options) -> bool {
        self.catch_up(now);
        let delays = self.buffer.as_ref().is_some_and(|buffer| buffer.delays_acks());
        if !delays || !self.in_write {
            return false;
        }
        self.backlog.push((*segment, *options));
        self.await_block(now);
        true
    }

    /// The segments that have waited, if the kernel processes them before the next block.
    pub fn take_backlog_before_block(&mut self, now: Time) -> Vec<(Segment, Options)> {
        let admits = self.buffer.as_ref().is_some_and(|buffer| buffer.admits_acks());
        if admits && now >= self.writes_at { self.take_backlog() } else { Vec::new() }
    }

    /// The segments that have waited, when the program has found the buffer full, or has written
    /// all.
    pub fn take_backlog_after_write(&mut self) -> Vec<(Segment, Options)> {
        if self.is_program_writing() { Vec::new() } else { self.take_backlog() }
    }

    fn take_backlog(&mut self) -> Vec<(Segment, Options)> {
        // Also if the application has stopped meanwhile, and no block comes.
        self.awaited_at = Time::NEVER;
        std::mem::take(&mut self.backlog)
    }

    /// A program that has found the buffer full goes on without a wait if the backlog has made room
    /// (`sk_stream_wait_memory`).
    pub fn resume_write(&mut self, now: Time) {
        let held = self.held();
        if !self.in_write
            && self
                .buffer
                .as_ref()
                .is_some_and(|buffer| buffer.has_pending() && buffer.has_room(held))
        {
            self.begin_at(now);
        }
    }

    /// The program writes, or will soon.
    #[inline(always)]
    pub fn is_program_writing(&self) -> bool {
        self.writes_at < Time::NEVER
    }

    /// After an input: a sender that has sent all there is, or has a backlog, has a timer for the
    /// next block.
    #[inline(never)]
    pub fn await_block(&mut self, now: Time) {
        let lacks_data = self.written < self.snd_max + u64::from(self.config.mss);
        let waits = !self.backlog.is_empty() || lacks_data && self.may_send();
        self.awaited_at = if waits { self.writes_at } else { Time::NEVER };
        if waits {
            self.timers.bring_forward_aux(now, self.awaited_at);
        }
    }

    /// The sender or its backlog waits for a block that the program writes now.
    pub fn needs_block(&self, now: Time) -> bool {
        now >= self.awaited_at && (self.may_send() || !self.backlog.is_empty())
    }

    /// The buffer of a connection that is established has room for the first window
    /// (`tcp_init_buffer_space`), into which the program writes what it has.
    pub fn begin_buffer(&mut self, now: Time) {
        let (windows, cwnd) = (self.congestion.send_buffer_windows(), self.cwnd_segments());
        if let Some(buffer) = &mut self.buffer {
            buffer.grow(windows, cwnd);
        }
        self.begin_to_write(now);
    }

    /// The program writes what one `sk_buff` takes, if it does so by now. False if not, if the
    /// buffer is full, or if nothing is left to be written.
    #[inline(never)]
    pub fn write_block(&mut self, now: Time) -> bool {
        if now < self.writes_at {
            return false;
        }
        self.awaited_at = Time::NEVER;
        let (held, window) = (self.held(), self.max_rwnd);
        let frame = u64::from(self.largest_frame(&mut LargestFrame::new(None)));
        let Some(buffer) = self.buffer.as_mut() else { return false };
        let is_first = buffer.has_first_write();
        let bytes = buffer.accept(held, window, frame);
        let (closed, more) = (buffer.is_closed(), buffer.has_pending());
        self.close_wanted |= closed;
        self.written = self.written.saturating_add(bytes);
        if is_first && self.growth.whole_segments {
            let mss = u64::from(self.config.mss.max(1));
            self.short = (self.written, bytes.next_multiple_of(mss) - bytes);
        }
        if bytes > 0 && more {
            self.writes_at += self.time_to_write(bytes);
            self.in_write = true;
        } else {
            self.wait_for_room();
        }
        bytes > 0
    }

    /// How long the program needs for a block.
    fn time_to_write(&self, bytes: u64) -> Duration {
        let per_unit = self.profile.program_write_time.0;
        Duration(bytes.saturating_mul(per_unit).div_ceil(WRITE_UNIT))
    }

    fn cwnd_segments(&self) -> u64 {
        self.window().bytes(0.0) / u64::from(self.config.mss.max(1))
    }

    fn held(&self) -> Held {
        Held {
            sent: self.flight(),
            unsent: self.written.saturating_sub(self.snd_max),
            segments: segments_sent_together(self.cwnd_segments(), self.timers.rto().srtt()),
        }
    }

    /// The program waits for room, if it has more to write.
    fn wait_for_room(&mut self) {
        (self.writes_at, self.in_write) = (Time::NEVER, false);
        self.watch_buffer();
    }

    /// Notes when to look at the buffer again.
    fn watch_buffer(&mut self) {
        (self.wakes_at, self.grows_above) = (u64::MAX, f64::INFINITY);
        if let Some(buffer) = self.buffer.as_ref().filter(|buffer| buffer.has_pending()) {
            self.wakes_at = self.written.saturating_sub(buffer.waking_level());
            self.grows_above = self.congestion.window().cwnd.max(self.cwnd_below_growth());
        }
    }

    /// The buffer does not grow with this cwnd, in bytes, nor with a smaller one.
    fn cwnd_below_growth(&self) -> f64 {
        let windows = self.congestion.send_buffer_windows();
        let segments = self.buffer.as_ref().and_then(|buffer| buffer.grows_with(windows));
        // Whole bytes count.
        let bytes = |n| (n * u64::from(self.config.mss)) as f64 - 0.5;
        segments.map_or(f64::INFINITY, bytes)
    }
}
