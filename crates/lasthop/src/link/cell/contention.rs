//! Who sends next: the back-off of all stations of a cell, without a step per slot.
//!
//! While the medium is idle a station with a back-off of b slots will send at `since + b · slot`, where `since` is the end of
//! the idle time that it has to see first. The smallest of these instants is the next start; who shares it collides. When
//! somebody starts, the others take off the whole slots that have passed.

use super::mac::{Access, Mac};
use crate::random::Stream;
use crate::units::{Duration, Time};

/// One station's part in it.
#[derive(Clone, Debug)]
struct Contender {
    /// It has a frame to send.
    ready: bool,
    /// Slots left; `None` if no back-off is pending.
    backoff: Option<u32>,
    /// From when on slots count.
    since: Time,
    /// A frame that comes before this finds the medium busy.
    busy_until: Time,
    cw: u32,
    /// Draws so far: each is addressed by its ordinal at the station.
    draws: u64,
    stream: Stream,
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
    contenders: Vec<Contender>,
    /// Somebody sends.
    taken: bool,
    /// When the next one starts.
    next: Time,
}

impl Contention {
    /// `names` address the draws of the stations.
    pub(super) fn new(mac: &Mac, seed: u64, names: &[String]) -> Contention {
        let contender = |name: &String| Contender {
            ready: false,
            backoff: None,
            since: Time::ZERO + mac.difs,
            busy_until: Time::ZERO,
            cw: mac.cw_min,
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
            contenders: names.iter().map(contender).collect(),
            taken: false,
            next: Time::NEVER,
        }
    }

    /// The mean of a first back-off.
    pub(super) fn mean_backoff(&self) -> Duration {
        Duration(self.slot.0 * u64::from(self.cw_min + u32::from(self.includes_cw) - 1) / 2)
    }

    /// When the next frame starts, unless another one comes first; `NEVER` if nobody wants to send or somebody does already.
    #[inline]
    pub(super) fn next(&self) -> Time {
        if self.taken { Time::NEVER } else { self.next }
    }

    /// Whether station `i` starts then.
    #[inline]
    pub(super) fn starts(&self, i: usize) -> bool {
        self.contenders[i].ready && self.access_time(i) == self.next
    }

    #[inline]
    fn access_time(&self, i: usize) -> Time {
        let c = &self.contenders[i];
        c.since + self.slot * u64::from(c.backoff.unwrap_or(0))
    }

    /// Station `i`, which had none, has a frame to send. True if it will be the next to start, alone or with others.
    pub(super) fn ready(&mut self, i: usize, now: Time) -> bool {
        let idle = !self.taken && now >= self.contenders[i].busy_until;
        let over = idle && self.access_time(i) <= now;
        let c = &mut self.contenders[i];
        c.ready = true;
        if over {
            c.backoff = None;
        }
        if c.backoff.is_none() {
            match (self.access, idle) {
                (Access::Idle, true) => c.since = c.since.max(now),
                (Access::Ns3, true) => c.since = c.since.max(now + self.difs),
                (Access::Ns2, true) => {
                    c.since = c.since.max(now + self.difs);
                    self.draw(i);
                }
                (_, false) => self.draw(i),
            }
        }
        if self.taken {
            return false;
        }
        let at = self.access_time(i);
        self.next = self.next.min(at);
        at == self.next
    }

    /// The next one starts, at `next()`; who starts with it is added to `senders`.
    pub(super) fn begin(&mut self, senders: &mut Vec<usize>) {
        let start = self.next;
        for i in 0..self.contenders.len() {
            if self.starts(i) {
                senders.push(i);
                continue;
            }
            let (slot, access) = (self.slot.0, self.access);
            let c = &mut self.contenders[i];
            match &mut c.backoff {
                Some(left) => {
                    let passed = (start - c.since).0.checked_div(slot).unwrap_or(0);
                    *left -= u32::try_from(passed).unwrap_or(u32::MAX).min(*left);
                    if *left == 0 && !c.ready {
                        c.backoff = None;
                    }
                }
                // It was about to send after DIFS and has been overtaken.
                None if c.ready && access != Access::Ns3 => self.draw(i),
                None => {}
            }
        }
        self.taken = true;
    }

    /// The attempt of station `i` is over. `retry`: the same frame has to be sent again, from twice the window. `more`: there
    /// is a frame to send, the same one or the next.
    pub(super) fn concluded(&mut self, i: usize, retry: bool, more: bool) {
        let c = &mut self.contenders[i];
        c.ready = more;
        c.cw = if retry { (2 * c.cw + 1).min(self.cw_max) } else { self.cw_min };
        self.draw(i);
    }

    /// A fragment of station `i` is answered, and the next one follows: its window is the smallest again.
    pub(super) fn answered(&mut self, i: usize) {
        self.contenders[i].cw = self.cw_min;
    }

    /// The medium becomes free. For each station: until when it is busy, and from when on slots count.
    pub(super) fn release(&mut self, mut when: impl FnMut(usize) -> (Time, Time)) {
        self.taken = false;
        self.next = Time::NEVER;
        for i in 0..self.contenders.len() {
            let c = &mut self.contenders[i];
            (c.busy_until, c.since) = when(i);
            if c.ready {
                self.next = self.next.min(self.access_time(i));
            }
        }
    }

    fn draw(&mut self, i: usize) {
        let c = &mut self.contenders[i];
        let values = c.cw + u32::from(self.includes_cw);
        // The high bits, so that windows of different sizes meet the same luck.
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
        self.contenders.iter().map(|c| c.since).collect()
    }
}
