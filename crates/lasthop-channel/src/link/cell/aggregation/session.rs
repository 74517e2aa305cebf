//! A block acknowledgement session: the MPDUs from one station to another, with the originator's
//! transmit window and the recipient's reorder buffer.
//!
//! Both ends are one record, since the cell decides what each of them receives. An MPDU is removed
//! when the originator has finished it (acknowledged or given up) and the recipient has passed it
//! (delivered to the stack, or skipped because it will not come).
//!
//! An MPDU waits in the reorder buffer for at most 100 ms; then the missing ones before it are
//! skipped, and discarded if they arrive later.
//!
//! Source: IEEE 802.11-2020, 10.25.6 (HT-immediate block ack: 10.25.6.3 scoreboard, 10.25.6.6
//! receive reordering buffer control, 10.25.6.7 originator's behaviour); the timeout: Linux
//! net/mac80211/rx.c (`HT_RX_REORDER_BUF_TIMEOUT`, `ieee80211_sta_reorder_release`).

use std::collections::VecDeque;

use super::airtime::Pending;
use super::rate::RateSelection;
use crate::link::cell::error_rate;
use crate::queue::{AnyQueue, Frame, Headers, Outcome, QueueDiscipline};
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Time};

/// Longest wait in the reorder buffer.
const REORDER_TIMEOUT: Duration = Duration(100_000_000);

/// One MPDU: one packet, or several in an A-MSDU.
#[derive(Clone, Debug)]
pub(super) struct Mpdu {
    pub first: Frame,
    /// The other packets of the A-MSDU.
    pub others: Vec<Frame>,
    /// Length, MAC header and frame check sequence included.
    pub bytes: u32,
    /// Attempts so far, the current one included.
    pub attempts: u32,
    /// The recipient has it, since this time.
    pub received: bool,
    pub received_at: Time,
    /// The recipient has delivered it to its stack, or skipped it.
    pub passed: bool,
    /// The recipient has skipped it, because packets behind it have waited too long.
    pub skipped: bool,
    /// The originator has it acknowledged, or has given it up.
    pub finished: bool,
    /// The last attempt that failed was a collision.
    pub collided: bool,
}

impl Mpdu {
    pub(super) fn frames(&self) -> impl Iterator<Item = Frame> + '_ {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// Errors of MPDUs by noise.
pub(super) struct Noise {
    /// Logarithm of the probability that a bit has no error, by MCS.
    log_success: Vec<f64>,
    stream: Stream,
    /// Number of draws so far, one for each attempt of an MPDU.
    draws: u64,
}

impl Noise {
    /// Noise at an SNR of `snr_db` dB; `name` addresses the draws.
    pub(super) fn new(largest_mcs: u32, snr_db: f64, seed: u64, name: &str) -> Noise {
        let stream = Stream::new(seed, &format!("noise {name}"));
        let log_success = |mcs| error_rate::log_success(mcs, snr_db);
        Noise { log_success: (0..=largest_mcs).map(log_success).collect(), stream, draws: 0 }
    }

    /// True if an MPDU of `bytes` bytes that is sent with this MCS has errors.
    pub(super) fn hits(&mut self, mcs: usize, bytes: u32) -> bool {
        let draw = self.stream.uniform(self.draws);
        self.draws += 1;
        draw >= error_rate::success(self.log_success[mcs], bytes)
    }
}

/// A session.
pub(super) struct Session {
    /// The recipient.
    pub to: usize,
    /// Chooses the MCS of data in this direction.
    pub rate: RateSelection,
    /// The MCS of the data that are or were sent last.
    pub mcs: usize,
    /// Errors by noise.
    pub noise: Option<Noise>,
    pub queue: AnyQueue,
    /// The frame that will be sent next; it counts towards no limit.
    pub staged: Option<Frame>,
    /// Frames that have left the queue and follow the staged one, and all that have left it and are
    /// not finished; with an airtime queue limit only.
    pub device: VecDeque<Frame>,
    pub pending: Pending,
    /// The frames of an exchange in progress, if all of them are new: the first one and those that
    /// follow it in an aggregate; see [`Session::enter_window`].
    pub alone: Option<Frame>,
    pub further: Vec<Frame>,
    /// MPDUs that have a sequence number, in order.
    pub window: VecDeque<Mpdu>,
    /// Place in the window of the first MPDU that the originator has not finished.
    pub start: usize,
    /// Place of the first MPDU that the recipient has not passed.
    pub head: usize,
    /// Time when the first MPDU in the reorder buffer has waited too long.
    pub expires: Time,
    /// The recipient must be told that MPDUs before `start` will not come (a BlockAckReq), and
    /// how often that has been tried.
    pub must_request: bool,
    pub requests: u32,
    /// RTS frames that have failed in sequence.
    pub rts_failures: u32,
    /// Air time that it may still use in its turn, nanoseconds.
    pub deficit: i64,
    /// Its load and the arrival of its oldest frame (`NEVER`: none), as its station has last noted
    /// them.
    pub counted: (u64, u64),
    pub turn: Time,
}

impl Session {
    pub(super) fn new(
        to: usize,
        rate: RateSelection,
        noise: Option<Noise>,
        queue: AnyQueue,
    ) -> Session {
        Session {
            to,
            mcs: rate.first(),
            rate,
            noise,
            queue,
            staged: None,
            device: VecDeque::new(),
            pending: Pending::default(),
            alone: None,
            further: Vec::new(),
            window: VecDeque::new(),
            start: 0,
            head: 0,
            expires: Time::NEVER,
            must_request: false,
            requests: 0,
            rts_failures: 0,
            deficit: 0,
            counted: (0, 0),
            turn: Time::NEVER,
        }
    }

    /// Frames and bytes that wait in its queue.
    #[inline]
    pub(super) fn load(&self) -> (u64, u64) {
        let load = self.queue.load();
        (load.packets, load.bytes)
    }

    /// True if a frame that arrives must wait behind another one.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.staged.is_some()
    }

    /// True if the queue has room for a frame that must wait.
    pub(super) fn has_room(&self, bytes: u32) -> bool {
        self.queue.has_room(bytes)
    }

    /// A frame arrives. True if it is the next one to be sent.
    #[inline(always)]
    pub(super) fn offer(
        &mut self,
        now: Time,
        frame: Frame,
        headers: &dyn Headers,
        outcomes: &mut Vec<Outcome>,
    ) -> bool {
        if self.staged.is_some() {
            self.queue.filter(&frame, headers, outcomes);
            self.queue.enqueue(now, frame, outcomes);
            return false;
        }
        if self.queue.pass(now, frame, outcomes) {
            self.pending.add(Some(&frame));
            self.staged = Some(frame);
        }
        self.staged.is_some()
    }

    /// The new frame that is to be sent next, if the window has a place for it.
    #[inline]
    pub(super) fn next_frame(&self, places: usize) -> Option<&Frame> {
        self.staged.as_ref().filter(|_| self.window.len() < self.start + places)
    }

    /// Takes that frame; the next one leaves the queue.
    #[inline]
    pub(super) fn take_frame(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> Option<Frame> {
        let frame = self.staged;
        self.stage_next(now, outcomes);
        frame
    }

    /// The next frame takes the place of the staged one.
    #[inline]
    fn stage_next(&mut self, now: Time, outcomes: &mut Vec<Outcome>) {
        self.staged = self.device.pop_front();
        if self.staged.is_none() {
            self.staged = self.queue.dequeue(now, outcomes);
            self.pending.add(self.staged.as_ref());
        }
    }

    /// Takes the frame that will be sent next as the first one of an exchange, if the session has
    /// nothing older to send. Returns its bytes.
    #[inline]
    pub(super) fn take_new(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> Option<u32> {
        if self.must_request || !self.window.is_empty() {
            return None;
        }
        self.alone = self.staged;
        self.stage_next(now, outcomes);
        self.alone.as_ref().map(|frame| frame.bytes)
    }

    /// Charges air time to it.
    #[inline]
    pub(super) fn charge(&mut self, time: Duration) {
        self.deficit -= time.0 as i64;
    }

    /// The next frame leaves the queue for the device. False if there is none.
    pub(super) fn pull(&mut self, now: Time, outcomes: &mut Vec<Outcome>) -> bool {
        // Without a staged frame the queue is empty.
        let frame = self.staged.and_then(|_| self.queue.dequeue(now, outcomes));
        self.pending.add(frame.as_ref());
        self.device.extend(frame);
        frame.is_some()
    }

    /// Places of the MPDUs that the originator has not finished.
    #[inline]
    pub(super) fn unfinished(&self) -> impl Iterator<Item = usize> + '_ {
        (self.start..self.window.len()).filter(|&k| !self.window[k].finished)
    }

    /// Arrival time of the frame that has waited longest and can be sent; `NEVER` if there is
    /// nothing to send.
    #[inline(always)]
    pub(super) fn oldest(&self, places: usize) -> Time {
        if self.must_request {
            return Time::ZERO;
        }
        if let Some(frame) = &self.alone {
            return frame.at;
        }
        match self.window.get(self.start) {
            Some(retry) => retry.first.at,
            None => self.next_frame(places).map_or(Time::NEVER, |frame| frame.at),
        }
    }

    /// True if there is something to send.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        self.must_request || self.start < self.window.len() || self.staged.is_some()
    }

    /// The originator has finished the MPDU at this place.
    #[inline]
    pub(super) fn finish(&mut self, k: usize) {
        self.window[k].finished = true;
        for frame in self.window[k].frames() {
            self.pending.remove(&frame);
        }
        while self.window.get(self.start).is_some_and(|m| m.finished) {
            self.start += 1;
        }
    }

    /// True if the window has one MPDU, which the recipient has not received before.
    #[inline]
    pub(super) fn is_in_order(&self) -> bool {
        self.window.len() == 1 && self.head == 0 && self.window.iter().all(|m| !m.received)
    }

    /// Both ends are done with all MPDUs; `trim` removes them.
    #[inline]
    pub(super) fn finish_all(&mut self) {
        for mpdu in &self.window {
            self.pending.remove(&mpdu.first);
            mpdu.others.iter().for_each(|frame| self.pending.remove(frame));
        }
        (self.start, self.head) = (self.window.len(), self.window.len());
    }

    /// The first attempts of new frames may fail: they become MPDUs of the window, which is empty.
    /// A frame that is delivered at once does not need one. Returns the number of MPDUs.
    #[inline(never)]
    pub(super) fn enter_window(&mut self) -> usize {
        let frames = self.alone.take().into_iter().chain(self.further.drain(..));
        let before = self.window.len();
        self.window.extend(frames.map(|frame| Mpdu { attempts: 1, ..Mpdu::new(frame) }));
        self.window.len() - before
    }

    /// The first one of the new frames, if there are any, is delivered.
    #[inline]
    pub(super) fn take_alone(&mut self) -> Option<Frame> {
        let frame = self.alone.take()?;
        self.pending.remove(&frame);
        Some(frame)
    }

    /// True if all MPDUs are on the air as the `mpdus` of an exchange and the recipient has
    /// received none of them before.
    #[inline]
    pub(super) fn is_all_new(&self, mpdus: usize) -> bool {
        let is_whole = self.window.len() == mpdus && self.start == 0 && self.head == 0;
        is_whole && self.window.iter().all(|m| !m.received)
    }

    /// Removes all MPDUs, after `finish_all`.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.window.clear();
        (self.start, self.head) = (0, 0);
    }

    /// True if the recipient waits for the MPDU at this place.
    #[inline]
    pub(super) fn is_head(&self, k: usize) -> bool {
        k == self.head
    }

    /// The recipient has passed the MPDU at its head.
    #[inline]
    pub(super) fn pass_head(&mut self) {
        if let Some(m) = self.window.get_mut(self.head) {
            m.passed = true;
            self.head += 1;
        }
    }

    /// The MPDU at the recipient's head, if it has been received and can be delivered.
    #[inline]
    pub(super) fn deliverable(&self) -> Option<&Mpdu> {
        self.window.get(self.head).filter(|m| m.received)
    }

    /// Sets the time when the first MPDU in the reorder buffer has waited too long.
    #[inline]
    pub(super) fn set_expiry(&mut self) {
        if self.head >= self.window.len() {
            self.expires = Time::NEVER;
            return;
        }
        let first = self.window.range(self.head..).find(|m| m.received);
        self.expires = first.map_or(Time::NEVER, |m| m.received_at + REORDER_TIMEOUT);
    }

    /// Skips the missing MPDUs before one that has waited too long. False if none has.
    pub(super) fn skip_missing(&mut self, now: Time) -> bool {
        let expired = self.expires <= now;
        while expired && self.window.get(self.head).is_some_and(|m| !m.received) {
            self.window[self.head].skipped = true;
            self.pass_head();
        }
        expired
    }

    /// True if the originator has given up an MPDU for which the recipient waits.
    pub(super) fn waits_in_vain(&self) -> bool {
        // All that it can deliver has been delivered.
        self.head < self.start
    }

    /// After a BlockAckReq with the first unfinished MPDU as its start: true if the MPDU at the
    /// head lies before that and is skipped.
    pub(super) fn skip_head(&mut self) -> bool {
        let skips =
            self.head < self.start && self.window.get(self.head).is_some_and(|m| !m.received);
        if skips {
            self.pass_head();
        }
        skips
    }

    /// Removes the MPDUs with which both ends are done.
    #[inline]
    pub(super) fn trim(&mut self) {
        let done = self.start.min(self.head);
        if done > 0 {
            // Mostly all of them.
            if done == self.window.len() {
                self.window.clear();
            } else {
                self.window.drain(..done);
            }
            self.start -= done;
            self.head -= done;
        }
    }
}
