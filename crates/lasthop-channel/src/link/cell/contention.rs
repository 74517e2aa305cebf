//! Contention for the medium: the back-off of all stations of a cell, without a step per slot.
//!
//! While the medium is idle, a station with a back-off of b slots will send at `since + b · slot`,
//! where `since` is the end of the idle time that precedes the slots. The smallest of these times
//! is the next start; stations that share it collide. When a station starts, the others subtract
//! the whole slots that have passed.

use super::mac::{Access, Mac};
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Time};

/// State of one station.
#[derive(Clone, Debug)]
struct Contender {
    /// It has a frame to send.
    ready: bool,
    /// Time at which it would send.
    at: Time,
    /// Slots left; `None` if no back-off is pending.
    backoff: Option<u32>,
    cw: u32,
    /// End of the pause after its last frame, and how often its frame has found the medium busy
    /// (`Access::CsmaCa`).
    free_from: Time,
    deferrals: u32,
    /// Number of draws so far; each draw is addressed by its ordinal at the station.
    draws: u64,
    stream: Stream,
}

/// What a station waits for after an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// A frame that is offered before this time finds the medium busy.
    pub busy_until: Time,
    /// Time from which slots count.
    pub since: Time,
}

/// The contention for the medium of a cell.
#[derive(Clone, Debug)]
pub(super) struct Contention {
    slot: Duration,
    difs: Duration,
    cw_min: u32,
    cw_max: u32,
    includes_cw: bool,
    access: Access,
    max_deferrals: u32,
    /// Stations whose frame has found the medium busy more often than allowed.
    given_up: Vec<usize>,
    contenders: Vec<Contender>,
    waits: Vec<Wait>,
    /// Stations that have a frame or a pending back-off, in order; most have neither.
    engaged: Vec<usize>,
    /// True while a station sends.
    taken: bool,
    /// Time of the next start.
    next: Time,
}

impl Contention {
    /// `names` address the draws of the stations.
    pub(super) fn new(mac: &Mac, seed: u64, names: &[String]) -> Contention {
        let contender = |name: &String| Contender {
            ready: false,
            at: Time::NEVER,
            backoff: None,
            cw: mac.cw_min,
            free_from: Time::ZERO,
            deferrals: 0,
            draws: 0,
            stream: Stream::new(seed, &format!("backoff {name}")),
        };
        Contention {
            slot: mac.slot,
            difs: mac.difs,
            cw_min: mac.cw_min,
            cw_max: mac.cw_max,
            includes_cw: mac.backoff_includes_cw,
            access: mac.access,
            max_deferrals: mac.max_deferrals,
            given_up: Vec::new(),
            contenders: names.iter().map(contender).collect(),
            waits: vec![Wait { busy_until: Time::ZERO, since: Time::ZERO + mac.difs }; names.len()],
            engaged: Vec::with_capacity(names.len()),
            taken: false,
            next: Time::NEVER,
        }
    }

    /// Mean of a first back-off.
    pub(super) fn mean_backoff(&self) -> Duration {
        Duration(self.slot.0 * u64::from(self.cw_min + u32::from(self.includes_cw) - 1) / 2)
    }

    /// Time of the next start if no frame is offered before; `NEVER` if no station has a frame or
    /// one is sending.
    #[inline]
    pub(super) fn next(&self) -> Time {
        if self.taken { Time::NEVER } else { self.next }
    }

    /// True if station `i` starts at that time.
    #[inline]
    fn starts(&self, i: usize) -> bool {
        let c = &self.contenders[i];
        c.ready && c.at == self.next
    }

    #[inline]
    fn access_time(&self, i: usize) -> Time {
        self.waits[i].since + self.slot * u64::from(self.contenders[i].backoff.unwrap_or(0))
    }

    /// Sets the wait of all stations after the current exchange.
    #[inline]
    pub(super) fn all_wait(&mut self, wait: Wait) {
        self.waits.fill(wait);
    }

    /// The wait of station `i`.
    #[inline]
    pub(super) fn wait(&mut self, i: usize) -> &mut Wait {
        &mut self.waits[i]
    }

    fn engage(&mut self, i: usize) {
        if let Err(place) = self.engaged.binary_search(&i) {
            self.engaged.insert(place, i);
        }
    }

    /// Station `i`, which had none, has a frame to send. True if it will be the next to start,
    /// alone or with others.
    pub(super) fn ready(&mut self, i: usize, now: Time) -> bool {
        if self.access == Access::CsmaCa {
            return self.look(i, now);
        }
        let idle = !self.taken && now >= self.waits[i].busy_until;
        let over = idle && self.access_time(i) <= now;
        self.engage(i);
        let (c, since) = (&mut self.contenders[i], &mut self.waits[i].since);
        c.ready = true;
        if over {
            c.backoff = None;
        }
        if c.backoff.is_none() {
            match (self.access, idle) {
                (Access::Idle, true) => *since = (*since).max(now),
                (Access::Ns3, true) => *since = (*since).max(now + self.difs),
                (Access::Ns2, true) => {
                    *since = (*since).max(now + self.difs);
                    self.draw(i);
                }
                (Access::CsmaCa, true) => {}
                (_, false) => self.draw(i),
            }
        }
        if self.taken {
            return false;
        }
        let at = self.access_time(i);
        self.contenders[i].at = at;
        self.next = self.next.min(at);
        at == self.next
    }

    /// Starts the exchange at `next()`; the stations that start then are added to `senders`.
    pub(super) fn begin(&mut self, senders: &mut Vec<usize>) {
        self.taken = true;
        if self.access == Access::CsmaCa {
            senders.extend(self.starters());
            return self.engaged.retain(|&i| self.contenders[i].ready);
        }
        let (mut k, mut passed) = (0, (Time::NEVER, 0));
        while let Some(&i) = self.engaged.get(k) {
            let since = self.waits[i].since;
            if self.starts(i) {
                senders.push(i);
                k += 1;
                continue;
            }
            if passed.0 != since {
                // Fast path: all stations usually wait since the same time.
                let slots = (self.next - since).0.checked_div(self.slot.0).unwrap_or(0);
                passed = (since, u32::try_from(slots).unwrap_or(u32::MAX));
            }
            if !self.overtaken(i, passed.1) {
                self.engaged.remove(k);
                continue;
            }
            k += 1;
        }
    }

    /// Station `i` has a frame and senses the medium, now or after its pause. True if it will be
    /// the next to start.
    fn look(&mut self, i: usize, now: Time) -> bool {
        self.engage(i);
        let c = &mut self.contenders[i];
        c.ready = true;
        c.at = c.free_from.max(now);
        // During an exchange this is decided at its end.
        !self.taken && self.defer(i)
    }

    /// If the medium is busy when station `i` senses it, the station senses it again later or drops
    /// the frame. True if it will be the next to start.
    fn defer(&mut self, i: usize) -> bool {
        let since = self.waits[i].since;
        if self.contenders[i].at < since {
            self.contenders[i].deferrals += 1;
            if self.contenders[i].deferrals == self.max_deferrals {
                let from = self.contenders[i].at + self.difs;
                self.pause(i, from);
                self.given_up.push(i);
                return false;
            }
            self.draw(i);
            let c = &mut self.contenders[i];
            c.at = since + self.slot * u64::from(c.backoff.take().unwrap_or(0));
            c.cw = (2 * c.cw).min(self.cw_max);
        }
        let at = self.contenders[i].at;
        self.next = self.next.min(at);
        at == self.next
    }

    /// Station `i` has finished a frame: it starts the next one `cw_min` slots after `from` at the
    /// earliest.
    fn pause(&mut self, i: usize, from: Time) {
        let c = &mut self.contenders[i];
        (c.ready, c.deferrals, c.cw) = (false, 0, self.cw_min);
        c.free_from = from + self.slot * u64::from(self.cw_min);
    }

    /// A station that drops its frame; `ready` has to be called for its next one.
    pub(super) fn take_given_up(&mut self) -> Option<usize> {
        self.given_up.pop()
    }

    /// Another station than `i` starts: the slots that have passed are subtracted. False if station
    /// `i` no longer contends.
    #[inline]
    fn overtaken(&mut self, i: usize, passed: u32) -> bool {
        let c = &mut self.contenders[i];
        match &mut c.backoff {
            Some(left) => {
                *left = left.saturating_sub(passed);
                if *left == 0 && !c.ready {
                    c.backoff = None;
                    return false;
                }
            }
            // It was about to send after DIFS.
            None if c.ready && self.access != Access::Ns3 => self.draw(i),
            None => return c.ready,
        }
        true
    }

    /// Ends the attempt of station `i`. `retry`: the same frame has to be retransmitted with the
    /// doubled window. `more`: there is a frame to send, the same one or the next.
    pub(super) fn concluded(&mut self, i: usize, retry: bool, more: bool) {
        if self.access == Access::CsmaCa {
            self.pause(i, self.waits[i].since);
            let c = &mut self.contenders[i];
            (c.ready, c.at) = (more, c.free_from);
            return;
        }
        let c = &mut self.contenders[i];
        c.ready = more;
        c.cw = if retry { (2 * c.cw + 1).min(self.cw_max) } else { self.cw_min };
        self.draw(i);
    }

    /// A fragment of station `i` is acknowledged and the next one follows: the window is reset to
    /// its minimum.
    pub(super) fn answered(&mut self, i: usize) {
        self.contenders[i].cw = self.cw_min;
    }

    /// The medium becomes free; the waits of all stations are set.
    pub(super) fn release(&mut self) {
        self.taken = false;
        self.next = Time::NEVER;
        for k in 0..self.engaged.len() {
            let i = self.engaged[k];
            if self.contenders[i].ready && self.access == Access::CsmaCa {
                self.defer(i);
            } else if self.contenders[i].ready {
                let at = self.access_time(i);
                self.contenders[i].at = at;
                self.next = self.next.min(at);
            }
        }
    }

    /// The stations that start then.
    #[inline]
    pub(super) fn starters(&self) -> impl Iterator<Item = usize> {
        self.engaged.iter().copied().filter(|&i| self.starts(i))
    }

    #[inline]
    fn draw(&mut self, i: usize) {
        let c = &mut self.contenders[i];
        let values = c.cw + u32::from(self.includes_cw);
        // The high bits, so that windows of different sizes get proportional values from the same
        // draw.
        let slots = (u128::from(c.stream.bits(c.draws)) * u128::from(values.max(1))) >> 64;
        c.draws += 1;
        c.backoff = Some(slots as u32);
    }
}

#[cfg(test)]
impl Contention {
    pub(super) fn backoffs(&self) -> Vec<Option<u32>> {
        self.contenders.iter().map(|c| c.backoff).collect()
    }

    pub(super) fn since(&self) -> Vec<Time> {
        self.waits.iter().map(|w| w.since).collect()
    }
}
