//! What the program does to its socket: it writes, closes the connection, or waits for room in the
//! send buffer (`buffer`).

use super::Stream;
use super::frames::LargestFrame;
use crate::sender::buffer::{Held, segments_sent_together};
use crate::window::WindowRule;
use lasthop_core::random;
use lasthop_core::units::{Duration, Time};

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
            self.watch_buffer();
        }
    }

    /// The program closes the connection, once it has written everything.
    pub fn close(&mut self) {
        self.close_wanted = self.buffer.as_mut().is_none_or(|buffer| buffer.close());
    }

    /// The program waits for room in the send buffer.
    pub fn is_program_blocked(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.is_full())
    }

    /// After an ACK: a program that waits for room may have some.
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
        let fills =
            sent <= frame && pipe + u64::from(self.config.mss) > self.congestion.inflated();
        let Some(buffer) = self.buffer.as_mut() else { return false };
        if !fills {
            buffer.grow(windows, cwnd);
        }
        let wakes = buffer.is_full() && buffer.wakes(held);
        self.watch_buffer();
        if fills {
            self.grows_above = self.cwnd_below_growth();
        }
        wakes
    }

    /// The program has been woken. True if it writes at once; otherwise `take_program` says when.
    pub fn wake_program(&mut self, now: Time) -> bool {
        let mean = self.profile.program_latency;
        if mean == Duration::ZERO {
            return true;
        }
        // The phase of the clock is drawn by seed and connection.
        let draws = random::Stream::new(self.config.clock_phase.0, "program");
        let wait = draws.exponential(self.wakes, mean.0 as f64) as u64;
        self.wakes += 1;
        self.program_at = now + Duration(wait.max(1));
        (self.wakes_at, self.grows_above) = (u64::MAX, f64::INFINITY);
        self.timers.bring_forward_aux(now, self.program_at);
        false
    }

    /// The program writes now, after it has been woken.
    #[inline]
    pub fn take_program(&mut self, now: Time) -> bool {
        let writes = now >= self.program_at;
        if writes {
            self.program_at = Time::NEVER;
        }
        writes
    }

    /// The buffer of a connection that is established has room for the first window
    /// (`tcp_init_buffer_space`).
    pub fn begin_buffer(&mut self) {
        let (windows, cwnd) = (self.congestion.send_buffer_windows(), self.cwnd_segments());
        if let Some(buffer) = &mut self.buffer {
            buffer.grow(windows, cwnd);
        }
    }

    /// The program writes what one `sk_buff` takes; false if the buffer is full, or nothing is left
    /// to be written.
    #[inline(never)]
    pub fn accept(&mut self) -> bool {
        let (held, window) = (self.held(), self.max_rwnd);
        let frame = u64::from(self.largest_frame(&mut LargestFrame::new(None)));
        let Some(buffer) = self.buffer.as_mut() else { return false };
        let bytes = if buffer.is_full() { buffer.accept(held, window, frame) } else { 0 };
        self.close_wanted |= buffer.is_closed();
        self.written = self.written.saturating_add(bytes);
        self.watch_buffer();
        bytes > 0
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

    /// Notes when to look at the buffer again.
    fn watch_buffer(&mut self) {
        (self.wakes_at, self.grows_above) = (u64::MAX, f64::INFINITY);
        if let Some(buffer) = self.buffer.as_ref().filter(|buffer| buffer.is_full()) {
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
