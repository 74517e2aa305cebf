//! Contention for the medium: the back-off of all stations of a cell, without a step per slot.
//!
//! While the medium is idle, a station with a back-off of b slots will send at `since + b · slot`,
//! where `since` is the end of the idle time that precedes the slots. The smallest of these times
//! is the next start; stations that share it collide. When a station starts, the others subtract
//! the whole slots that have passed: the rule of the DCF (IEEE 802.11-2020, 10.3.4.3).
//!
//! With EDCA (10.23.2.4), a station counts at slot boundaries, the first of which is `since`. At
//! each of them it subtracts a slot, or starts if none is left. So the others subtract one slot
//! more, that of the boundary at which the station starts, and a frame that arrives at an idle
//! medium is sent at the next boundary.

use super::mac::{Access, Mac};
use lasthop_core::random::Stream;
use lasthop_core::units::{Duration, Time};

/// State of one station.
#[derive(Clone, Debug)]
struct Contender {
    /// It has a frame to send.
    ready: bool,
    /// It has no pending back-off, or another wait than the other stations, before this exchange or
    /// after it. Otherwise its back-off ends with slot number `due` (`Contention::slots`), and
    /// nothing has to be subtracted.
    apart: bool,
    due: u64,
    /// Time at which it would send, if `apart`.
    at: Time,
    /// Slots that were left when they were last counted; `None` if no back-off is pending.
    backoff: Option<u32>,
    cw: u32,
    /// End of the pause after its last frame, and how often its frame has found the medium busy
    /// (`Access::CsmaCa`).
    free_from: Time,
    deferrals: u32,
    /// Number of draws so far; each draw is addressed by its ordinal at the station.
    draws: u64,
    stream: Stream,
    /// Its wait after the exchange of this number, if it is not that of the other stations.
    wait: Wait,
    exchange: u64,
    /// It has taken part in the start of this number, or subtracted its slots.
    counted: u64,
    /// It is in the list of engaged stations.
    engaged: bool,
}

impl Contender {
    /// Time at which it sends if its slots count from `since`.
    #[inline]
    fn start(&self, slot: Duration, since: Time) -> Time {
        since + slot * u64::from(self.backoff.unwrap_or(0))
    }

    /// Draws a back-off.
    #[inline(always)]
    fn draw(&mut self, includes_cw: bool) {
        let values = self.cw + u32::from(includes_cw);
        // The high bits, so that windows of different sizes get proportional values from the same
        // draw.
        let slots = (u128::from(self.stream.bits(self.draws)) * u128::from(values.max(1))) >> 64;
        self.draws += 1;
        self.backoff = Some(slots as u32);
    }

    /// Another station starts: the slots that have passed are subtracted. `draws`: a station that
    /// was about to send after DIFS needs a back-off; `includes_cw` as for that.
    #[inline]
    fn overtaken(&mut self, passed: u32, draws: bool, includes_cw: bool) {
        match &mut self.backoff {
            Some(left) => {
                *left = left.saturating_sub(passed);
                if *left == 0 && !self.ready {
                    self.backoff = None;
                }
            }
            None if self.ready && draws => self.draw_overtaken(includes_cw),
            None => {}
        }
    }

    /// Draws a back-off. Not compiled in place, since it is seldom needed.
    #[cold]
    #[inline(never)]
    fn draw_overtaken(&mut self, includes_cw: bool) {
        self.draw(includes_cw);
    }
}

/// What a station waits for after an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// A frame that is offered before this time finds the medium busy.
    pub busy_until: Time,
    /// Time from which slots count.
    pub since: Time,
}

/// The last start, for the slots that the other stations subtract at the end of the exchange.
#[derive(Clone, Copy, Debug)]
struct Start {
    number: u64,
    at: Time,
    /// The wait before it, and the number of the exchange before it.
    wait: Wait,
    exchange: u64,
    /// Slots that have passed for the stations that have waited since `since`, the same time as the
    /// one that started: nearly always all.
    since: Time,
    slots: u32,
    /// EDCA: a slot is subtracted at each slot boundary from the end of AIFS on, at which the
    /// station that starts may do so; otherwise at the end of each slot.
    edca: bool,
}

impl Start {
    /// Slots that had passed for a station.
    #[inline]
    fn passed(&self, c: &Contender, slot: Duration) -> u32 {
        let since = if c.exchange == self.exchange { c.wait.since } else { self.wait.since };
        self.passed_since(since, slot)
    }

    /// The same for the stations whose slots count from `since`.
    #[inline]
    fn passed_since(&self, since: Time, slot: Duration) -> u32 {
        if since == self.since {
            return self.slots;
        }
        let slots = (self.at - since).0.checked_div(slot.0).unwrap_or(0);
        let at_end_of_aifs = self.edca && since <= self.at;
        u32::try_from(slots).unwrap_or(u32::MAX).saturating_add(at_end_of_aifs.into())
    }
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
    /// What all stations wait for after the last exchange, except those with another wait.
    wait: Wait,
    /// Number of the last exchange.
    exchange: u64,
    /// Stations that have a frame or a pending back-off, in any order; most have neither.
    engaged: Vec<usize>,
    /// Slots that have passed for all stations but those apart.
    slots: u64,
    /// True while a station sends.
    taken: bool,
    /// Time of the next start, a station that starts then, and whether others do as well.
    next: Time,
    first: usize,
    several: bool,
    /// The last start.
    start: Start,
}

impl Contention {
    /// `names` address the draws of the stations.
    pub(super) fn new(mac: &Mac, seed: u64, names: &[String]) -> Contention {
        let wait = Wait { busy_until: Time::ZERO, since: Time::ZERO + mac.difs };
        let contender = |name: &String| Contender {
            ready: false,
            apart: true,
            due: 0,
            at: Time::NEVER,
            backoff: None,
            cw: mac.cw_min,
            free_from: Time::ZERO,
            deferrals: 0,
            draws: 0,
            stream: Stream::new(seed, &format!("backoff {name}")),
            wait,
            exchange: 0,
            counted: 0,
            engaged: false,
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
            wait,
            exchange: 0,
            engaged: Vec::with_capacity(names.len()),
            slots: 0,
            taken: false,
            next: Time::NEVER,
            first: 0,
            several: false,
            start: Start {
                number: 0,
                at: Time::ZERO,
                wait,
                exchange: 0,
                since: wait.since,
                slots: 0,
                edca: false,
            },
        }
    }

    /// The same with the slot boundaries of EDCA (802.11-2020, 10.23.2.4).
    pub(super) fn with_edca(mut self) -> Contention {
        self.start.edca = true;
        self
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

    /// The stations that start then: one of them, and whether there are others. `None` if none
    /// will start.
    #[inline]
    pub(super) fn first(&self) -> Option<(usize, bool)> {
        (self.next() != Time::NEVER).then_some((self.first, self.several))
    }

    /// True if station `i` starts at that time.
    #[inline]
    fn starts(&self, i: usize) -> bool {
        let c = &self.contenders[i];
        c.ready && self.start_of(c) == self.next
    }

    /// Time at which a station that has a frame would send.
    #[inline]
    fn start_of(&self, c: &Contender) -> Time {
        if c.apart { c.at } else { self.wait.since + self.slot * (c.due - self.slots) }
    }

    /// Station `i` would start at `at`. True if no other station starts before.
    #[inline(always)]
    fn compete(&mut self, i: usize, at: Time) -> bool {
        self.several |= at == self.next;
        if at < self.next {
            (self.next, self.first, self.several) = (at, i, false);
        }
        at == self.next
    }

    /// Sets the wait of all stations after the current exchange.
    #[inline]
    pub(super) fn all_wait(&mut self, wait: Wait) {
        self.wait = wait;
        self.exchange += 1;
    }

    /// Sets the wait of station `i`, if that is another one.
    #[inline]
    pub(super) fn set_wait(&mut self, i: usize, wait: Wait) {
        self.count(i);
        let c = &mut self.contenders[i];
        (c.wait, c.exchange, c.apart) = (wait, self.exchange, true);
    }

    /// The back-off of station `i` has changed, or the wait of all stations holds for it again.
    #[inline(always)]
    fn set_due(&mut self, i: usize) {
        let c = &mut self.contenders[i];
        c.apart = c.exchange == self.exchange || c.backoff.is_none();
        c.due = self.slots + u64::from(c.backoff.unwrap_or(0));
    }

    /// Subtracts the slots before the last start from the back-off of station `i`, if that has not
    /// been done.
    #[inline(always)]
    fn count(&mut self, i: usize) {
        let c = &mut self.contenders[i];
        if c.counted != self.start.number {
            c.counted = self.start.number;
            if !c.apart {
                let left = c.due.saturating_sub(self.slots);
                c.apart = left == 0 && !c.ready;
                c.backoff = if c.apart { None } else { Some(left as u32) };
                return;
            }
            if c.ready || c.backoff.is_some() {
                let passed = self.start.passed(c, self.slot);
                c.overtaken(passed, self.access != Access::Ns3, self.includes_cw);
            }
        }
    }

    /// The wait of station `i`.
    #[inline]
    fn wait_of(&self, i: usize) -> Wait {
        let c = &self.contenders[i];
        if c.exchange == self.exchange { c.wait } else { self.wait }
    }

    #[inline]
    fn engage(&mut self, i: usize) {
        if !std::mem::replace(&mut self.contenders[i].engaged, true) {
            self.engaged.push(i);
        }
    }

    /// Station `i`, which had none, has a frame to send. True if it will be the next to start,
    /// alone or with others.
    pub(super) fn ready(&mut self, i: usize, now: Time) -> bool {
        if self.access == Access::CsmaCa {
            return self.look(i, now);
        }
        self.count(i);
        self.engage(i);
        self.contenders[i].ready = true;
        let Wait { busy_until, mut since } = self.wait_of(i);
        if !self.taken && now >= busy_until {
            since = self.sense_idle(i, now);
        } else if self.contenders[i].backoff.is_none() {
            self.contenders[i].draw(self.includes_cw);
        }
        self.set_due(i);
        if self.taken {
            return false;
        }
        let c = &mut self.contenders[i];
        c.at = c.start(self.slot, since);
        let at = c.at;
        self.compete(i, at)
    }

    /// Station `i`, which has a frame, senses an idle medium. Returns the time from which its slots
    /// count.
    #[inline(never)]
    fn sense_idle(&mut self, i: usize, now: Time) -> Time {
        let Wait { busy_until, mut since } = self.wait_of(i);
        let c = &mut self.contenders[i];
        if c.start(self.slot, since) <= now {
            c.backoff = None;
        }
        if c.backoff.is_some() {
            return since;
        }
        match self.access {
            Access::Idle | Access::Ns3 if self.start.edca => {
                // At the next slot boundary.
                let slots = (now - since).0.div_ceil(self.slot.0.max(1));
                since += self.slot * slots;
            }
            Access::Idle => since = since.max(now),
            Access::Ns3 | Access::Ns2 => since = since.max(now + self.difs),
            Access::CsmaCa => {}
        }
        self.set_wait(i, Wait { busy_until, since });
        if self.access == Access::Ns2 {
            self.contenders[i].draw(self.includes_cw);
        }
        since
    }

    /// Starts the exchange at `next()`; the stations that start then are added to `senders`. The
    /// others subtract the slots that have passed at the end of the exchange, or when their state
    /// is needed ([`Contention::count`]).
    #[inline(always)]
    pub(super) fn begin(&mut self, senders: &mut Vec<usize>) {
        let Some((first, several)) = self.first() else { return };
        self.taken = true;
        if self.access == Access::CsmaCa {
            self.collect_starters(senders);
            return self.release_idle();
        }
        if several {
            self.collect_starters(senders);
            let number = self.start.number + 1;
            senders.iter().for_each(|&i| self.contenders[i].counted = number);
        } else {
            senders.push(first);
        }
        let Contention { slot, wait, exchange, next: at, slots: passed, .. } = *self;
        let Start { edca, number, .. } = self.start;
        let number = number + 1;
        let c = &mut self.contenders[first];
        c.counted = number;
        let backoff = if c.apart { u64::from(c.backoff.unwrap_or(0)) } else { c.due - passed };
        let since = if c.exchange == exchange { c.wait.since } else { wait.since };
        let slots = if slot > Duration::ZERO { backoff as u32 } else { 0 };
        let slots = slots + u32::from(edca);
        self.start = Start { number, at, wait, exchange, since, slots, edca };
        self.slots += u64::from(self.start.passed_since(wait.since, slot));
    }

    /// Adds the stations that start then, in order.
    #[inline(never)]
    fn collect_starters(&self, senders: &mut Vec<usize>) {
        senders.extend(self.starters());
        senders.sort_unstable();
    }

    /// Stations without a frame take no part any more (`Access::CsmaCa`).
    #[inline(never)]
    fn release_idle(&mut self) {
        let Contention { engaged, contenders, .. } = self;
        engaged.retain(|&i| {
            contenders[i].engaged = contenders[i].ready;
            contenders[i].ready
        });
    }

    /// Something else than a station takes the medium at `now`; the stations subtract the slots
    /// that have passed.
    pub(super) fn occupy(&mut self, now: Time) {
        self.taken = true;
        let (wait, exchange) = (self.wait, self.exchange);
        let number = self.start.number + 1;
        // No station has waited since `NEVER`: the slots of each are counted.
        let Start { edca, .. } = self.start;
        self.start = Start { number, at: now, wait, exchange, since: Time::NEVER, slots: 0, edca };
        self.slots += u64::from(self.start.passed_since(wait.since, self.slot));
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
        let since = self.wait_of(i).since;
        if self.contenders[i].at < since {
            self.contenders[i].deferrals += 1;
            if self.contenders[i].deferrals == self.max_deferrals {
                let from = self.contenders[i].at + self.difs;
                self.pause(i, from);
                self.given_up.push(i);
                return false;
            }
            let c = &mut self.contenders[i];
            c.draw(self.includes_cw);
            c.at = since + self.slot * u64::from(c.backoff.take().unwrap_or(0));
            c.cw = (2 * c.cw).min(self.cw_max);
        }
        let at = self.contenders[i].at;
        self.compete(i, at)
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

    /// Ends the attempt of station `i`. `retry`: the same frame has to be retransmitted with the
    /// doubled window. `more`: there is a frame to send, the same one or the next.
    #[inline(always)]
    pub(super) fn concluded(&mut self, i: usize, retry: bool, more: bool) {
        if self.access == Access::CsmaCa {
            self.pause(i, self.wait_of(i).since);
            let c = &mut self.contenders[i];
            (c.ready, c.at) = (more, c.free_from);
            return;
        }
        let c = &mut self.contenders[i];
        c.ready = more;
        c.cw = if retry { (2 * c.cw + 1).min(self.cw_max) } else { self.cw_min };
        c.draw(self.includes_cw);
        self.set_due(i);
    }

    /// A fragment of station `i` is acknowledged and the next one follows: the window is reset to
    /// its minimum.
    pub(super) fn answered(&mut self, i: usize) {
        self.contenders[i].cw = self.cw_min;
    }

    /// The medium becomes free; the waits of all stations are set.
    #[inline(always)]
    pub(super) fn release(&mut self) {
        self.taken = false;
        (self.next, self.several) = (Time::NEVER, false);
        if self.access == Access::CsmaCa {
            return self.defer_all();
        }
        let (mut due, mut first, mut several) = (u64::MAX, 0, false);
        let mut k = 0;
        loop {
            let (number, slots) = (self.start.number, self.slots);
            let Contention { engaged, contenders, .. } = &mut *self;
            while let Some(&i) = engaged.get(k) {
                let c = &contenders[i];
                if c.apart {
                    break;
                } else if c.ready {
                    several |= c.due == due;
                    if c.due < due {
                        (due, first, several) = (c.due, i, false);
                    }
                } else if c.due <= slots && c.counted != number {
                    break;
                }
                k += 1;
            }
            let Some(&i) = engaged.get(k) else { break };
            if contenders[i].apart && self.release_apart(i) {
                k += 1;
            } else {
                self.disengage(k);
            }
        }
        if due < u64::MAX {
            let at = self.wait.since + self.slot * (due - self.slots);
            let is_next = self.compete(first, at);
            self.several |= is_next && several;
        }
    }

    /// The same for a station apart. False if it has neither a frame nor a pending back-off.
    #[inline(never)]
    fn release_apart(&mut self, i: usize) -> bool {
        self.count(i);
        self.set_due(i);
        let since = self.wait_of(i).since;
        let c = &mut self.contenders[i];
        if c.ready {
            c.at = c.start(self.slot, since);
            let at = c.at;
            self.compete(i, at);
            return true;
        }
        c.backoff.is_some()
    }

    /// The station at this place in the list takes no part any more.
    #[inline]
    fn disengage(&mut self, place: usize) {
        let c = &mut self.contenders[self.engaged.swap_remove(place)];
        (c.engaged, c.apart, c.backoff, c.counted) = (false, true, None, self.start.number);
    }

    #[inline(never)]
    fn defer_all(&mut self) {
        self.engaged.sort_unstable();
        for k in 0..self.engaged.len() {
            let i = self.engaged[k];
            if self.contenders[i].ready {
                self.defer(i);
            }
        }
    }

    /// The stations that start then, in any order.
    #[inline]
    pub(super) fn starters(&self) -> impl Iterator<Item = usize> {
        self.engaged.iter().copied().filter(|&i| self.starts(i))
    }
}

#[cfg(test)]
impl Contention {
    pub(super) fn backoffs(&self) -> Vec<Option<u32>> {
        let mut counted = self.clone();
        (0..self.contenders.len()).for_each(|i| counted.count(i));
        counted.contenders.iter().map(|c| c.backoff).collect()
    }

    pub(super) fn since(&self) -> Vec<Time> {
        (0..self.contenders.len()).map(|i| self.wait_of(i).since).collect()
    }
}
