//! RACK-TLP (RFC 8985): loss detection by time, and a probe for losses at the end.

use super::{AckSummary, LossDetector, Losses};
use crate::profile::{Profile, RackRtt, RttSample};
use crate::scoreboard::{Marks, Scoreboard, Sent};
use crate::ticks::Ticks;
use lasthop_core::ring::Ring;
use lasthop_core::units::{Duration, Time};

/// Time that a receiver may hold an ACK back for a second segment (WCDelAckT, section 7.2).
const DELAYED_ACK: Duration = Duration::millis(200);
/// Recoveries for which a widened reordering window lasts (section 6.2, step 4).
const PERSIST: u32 = 16;

/// Marks of segments sent once that need no judgement.
const SETTLED: Marks = Marks::SACKED.with(Marks::LOST).with(Marks::JUDGED);

/// The state of RACK for one connection.
#[derive(Clone, Debug, Default)]
pub struct Rack {
    /// The segment sent last among those delivered: when it was sent, and its end.
    newest: Option<(Time, u64)>,
    /// Its round-trip time.
    rtt: Duration,
    /// Which segment gives it.
    rtt_of: RackRtt,
    /// What was considered lost once is not looked at again.
    judges_once: bool,
    /// The echo of a timestamp tells whether a retransmission that is SACKed was delivered.
    checks_echo_of_sacks: bool,
    /// The highest byte delivered.
    fack: u64,
    /// Something was delivered after what had been sent later.
    reordering_seen: bool,
    /// By how many bytes at most.
    reordering: u64,
    multiplier: u32,
    persist: u32,
    /// No second widening before this byte is acknowledged.
    dsack_round: Option<u64>,
    min_rtt: MinRtt,
    /// The minimum takes the samples that [`Self::note_rtt`] gets, not each segment delivered.
    samples_noted: bool,
    probe: Option<Probe>,
    /// What the profile adds to the reordering timer.
    slack: Duration,
    /// When losses are looked for again.
    deadline: Option<Time>,
    /// Everything below it is SACKed, lost or retransmitted.
    from: u64,
    /// Number of the segment that begins there, if the scoreboard has one.
    from_number: usize,
    /// Retransmitted segments, in the order of retransmission.
    resent: Ring<Resent>,
}

/// A retransmitted segment.
#[derive(Clone, Copy, Debug, Default)]
struct Resent {
    seq: u64,
    number: usize,
    at: Time,
}

/// A tail loss probe under way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    end: u64,
    again: bool,
}

/// What an ACK says about the tail loss probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// Nothing.
    None,
    /// The probe repaired a loss that nothing else will reveal: one reduction is due.
    RepairedLoss,
}

/// The smallest round-trip time of the last `age`, and of up to as much before.
#[derive(Clone, Copy, Debug, Default)]
struct MinRtt {
    age: Duration,
    now: Option<Duration>,
    before: Option<Duration>,
    since: Time,
}

impl MinRtt {
    fn sample(&mut self, now: Time, rtt: Duration) {
        if now - self.since > self.age {
            (self.before, self.now, self.since) = (self.now, None, now);
        }
        self.now = Some(self.now.map_or(rtt, |m| m.min(rtt)));
    }

    fn get(&self) -> Option<Duration> {
        match (self.now, self.before) {
            (Some(now), Some(before)) => Some(now.min(before)),
            (now, before) => now.or(before),
        }
    }
}

/// True if a segment (sent at, end) was sent after another one (section 6.2, RACK_sent_after).
#[inline]
pub fn sent_after(a: (Time, u64), b: (Time, u64)) -> bool {
    a.0 > b.0 || (a.0 == b.0 && a.1 > b.1)
}

impl Rack {
    /// At the start of a connection.
    pub fn new(profile: &Profile) -> Rack {
        Rack {
            rtt_of: profile.rack_rtt,
            min_rtt: MinRtt { age: profile.min_rtt_window, ..MinRtt::default() },
            samples_noted: profile.rtt_sample == RttSample::First,
            judges_once: profile.rack_judges_once,
            checks_echo_of_sacks: profile.rack_checks_echo_of_sacks,
            slack: profile.probe_slack,
            ..Rack::default()
        }
    }

    /// What a transmission is marked with that it has considered lost.
    pub fn mark_of_losses(&self) -> Marks {
        if self.judges_once { Marks::JUDGED } else { Marks::NONE }
    }

    /// The segment at `seq`, which has this number on the scoreboard, has just been retransmitted.
    #[inline]
    pub fn on_retransmitted(&mut self, seq: u64, number: usize, now: Time) {
        self.resent.push(Resent { seq, number, at: now });
    }

    /// Nothing from `seq` on is considered lost any longer.
    pub fn judge_again_from(&mut self, seq: u64) {
        self.from = seq;
    }

    /// The reordering timer stops: the retransmission timer expired, or nothing is to be judged.
    pub fn stop_timer(&mut self) {
        self.deadline = None;
    }

    /// Nothing is judged or probed for, and what was delivered is acknowledged: all below
    /// `snd_una`.
    pub fn is_plain(&self, snd_una: u64) -> bool {
        self.resent.is_empty()
            && self.from <= snd_una
            && self.fack <= snd_una
            && self.deadline.is_none()
            && self.probe.is_none()
    }

    /// The segment was sent after all those delivered so far.
    #[inline]
    pub fn is_newest(&self, sent: &Sent) -> bool {
        self.newest.is_none_or(|n| sent_after((sent.last_sent, sent.end()), n))
    }

    /// Nothing in flight was sent before the newest segment delivered, so that nothing can be
    /// overdue: all of it was sent once, and nothing in it has been judged.
    #[inline]
    pub fn has_nothing_to_judge(&self, board: &Scoreboard) -> bool {
        let Some(newest) = self.newest else { return true };
        self.resent.is_empty()
            && board.at(0).is_none_or(|front| {
                self.from <= front.seq && !sent_after(newest, (front.first_sent, front.end()))
            })
    }

    /// Section 6.2, step 5: what was sent before the newest segment delivered, and is overdue by
    /// more than the reordering window, is lost. Returns the longest wait for the remaining
    /// segments that were sent before it.
    #[inline(always)]
    fn find_overdue(
        &mut self,
        board: &Scoreboard,
        ack: &AckSummary,
        losses: &mut Losses,
    ) -> Option<Duration> {
        let newest = self.newest?;
        // Sent once: in the order of their bytes.
        let before = |s: &Sent| sent_after(newest, (s.first_sent, s.end()));
        let front = board.at(0);
        let from_front = front.is_none_or(|f| self.from <= f.seq);
        self.from = self.from.max(front.map_or(0, |f| f.seq));
        let mut place =
            if from_front { Some(0) } else { board.place_near(self.from, self.from_number) };
        if self.resent.is_empty() && !place.and_then(|p| board.at(p)).is_some_and(before) {
            return None;
        }
        // A division that is needed only where they count.
        let counts = !self.reordering_seen && !ack.recovering;
        let segments = if counts { ack.sacked_segments() } else { 0 };
        let window = self.reordering_window(ack.recovering, segments, ack.threshold, ack.srtt);
        let patience = self.rtt + window;
        let mut wait: Option<Duration> = None;
        let mut judge = |sent: &Sent, place: usize| {
            let due = sent.last_sent + patience;
            if due <= ack.now {
                if losses.copies.is_empty() {
                    losses.first = board.number(place);
                }
                losses.copies.push(sent.seq);
                return true;
            }
            let left = due - ack.now;
            wait = Some(wait.map_or(left, |w| w.max(left)));
            false
        };
        let mut all_judged = true;
        while let Some((p, sent)) =
            place.and_then(|p| Some((p, board.at(p)?))).filter(|(_, s)| before(s))
        {
            let settled = sent.transmissions > 1 || sent.marks.any(SETTLED);
            all_judged &= settled || judge(sent, p);
            place = Some(p + 1);
            if all_judged {
                self.from = sent.end();
                self.from_number = board.number(p + 1);
            }
        }
        self.find_overdue_copies(board, newest, judge);
        wait
    }

    /// The same for what was retransmitted, in the order of retransmission.
    #[inline(always)]
    fn find_overdue_copies(
        &mut self,
        board: &Scoreboard,
        newest: (Time, u64),
        mut judge: impl FnMut(&Sent, usize) -> bool,
    ) {
        let mut i = 0;
        while let Some(&r) = self.resent.get(i).filter(|r| r.at <= newest.0) {
            let live = board
                .place_near(r.seq, r.number)
                .and_then(|p| Some((board.at(p)?, p)))
                .filter(|(s, _)| s.last_sent == r.at)
                .filter(|(s, _)| !s.marks.any(Marks::SACKED.with(Marks::JUDGED)));
            let gone = match live {
                // The timer marked it lost: it is judged if an undo takes that back.
                Some((s, _)) if s.marks.any(Marks::LOST) && !s.marks.any(Marks::RESENT) => false,
                Some((s, p)) if sent_after(newest, (s.last_sent, s.end())) => judge(s, p),
                Some(_) => false,
                None => true,
            };
            if gone && i == 0 {
                self.resent.pop();
            } else {
                i += 1;
            }
        }
    }

    /// The segment sent last among those delivered: when it was sent, and its end.
    #[inline]
    pub fn newest(&self) -> Option<(Time, u64)> {
        self.newest
    }

    /// The round-trip time of that segment, or of the one delivered last.
    #[inline]
    pub fn rtt(&self) -> Duration {
        self.rtt
    }

    /// Sets the round-trip time that counts.
    #[inline]
    pub fn set_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
    }

    /// The echo of an ACK counts for what it SACKs, too.
    pub fn checks_echo_of_sacks(&self) -> bool {
        self.checks_echo_of_sacks
    }

    /// A segment was delivered, as told by an ACK that echoes the stamp `echo` if it has one
    /// (section 6.2, steps 1 to 3).
    #[inline(always)]
    pub fn on_delivered(&mut self, now: Time, sent: &Sent, echo_is_older: bool) {
        let again = sent.transmissions > 1;
        let rtt = now - sent.last_sent;
        if !again {
            if !self.samples_noted {
                self.min_rtt.sample(now, rtt);
            }
            if sent.end() < self.fack {
                self.reordering_seen = true;
                self.reordering = self.reordering.max(self.fack - sent.seq);
            }
        }
        self.fack = self.fack.max(sent.end());
        // The ACK of a copy that has hardly left is the answer to an earlier one.
        if again && (echo_is_older || self.min_rtt.get().is_some_and(|m| rtt < m)) {
            return;
        }
        if self.is_newest(sent) {
            (self.newest, self.rtt) = (Some((sent.last_sent, sent.end())), rtt);
        } else if self.rtt_of == RackRtt::Latest {
            self.rtt = rtt;
        }
    }

    /// A round-trip time for the minimum (Linux `tcp_update_rtt_min`).
    pub fn note_rtt(&mut self, now: Time, rtt: Duration) {
        self.min_rtt.sample(now, rtt);
    }

    /// The smallest round-trip time of the profile's `min_rtt_window` or a little more.
    #[inline]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.get()
    }

    /// The reordering timer, set at `now`, expires at the end of a tick.
    pub fn expire_with(&mut self, ticks: Ticks, now: Time) {
        self.deadline = self.deadline.map(|due| ticks.expiry(now, due.max(now) - now));
    }

    /// A segment that looked lost was late (Linux `tcp_check_sack_reordering`).
    pub fn note_late(&mut self, seq: u64) {
        if seq < self.fack {
            self.reordering_seen = true;
            self.reordering = self.reordering.max(self.fack - seq);
        }
    }

    /// The largest reordering seen, in bytes from the start of the late segment to the highest one
    /// delivered before it.
    pub fn reordering(&self) -> u64 {
        self.reordering
    }

    /// The timer fired although later segments had been reported: what looked late had been lost
    /// (Linux `tcp_enter_loss`).
    pub fn forget_reordering(&mut self) {
        self.reordering = 0;
    }

    /// A duplicate was reported while `snd_una` and `snd_nxt` were these: the window grows by a
    /// quarter of the minimum round-trip time, once for a round trip.
    pub fn on_dsack(&mut self, snd_una: u64, snd_nxt: u64) {
        if self.dsack_round.is_none_or(|round| snd_una >= round) {
            self.dsack_round = Some(snd_nxt);
            self.multiplier = self.multiplier.max(1) + 1;
            self.persist = PERSIST;
        }
    }

    /// A recovery ended: after sixteen of them the window is as at first.
    pub fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.multiplier = 1;
        }
    }

    /// How long a segment may be overtaken by later ones before it counts as lost (section 6.2,
    /// step 4).
    pub fn reordering_window(
        &self,
        in_recovery: bool,
        segments_sacked: u64,
        dupack_threshold: u32,
        srtt: Option<Duration>,
    ) -> Duration {
        if !self.reordering_seen && (in_recovery || segments_sacked >= u64::from(dupack_threshold))
        {
            return Duration::ZERO;
        }
        let quarter = Duration(self.min_rtt.get().unwrap_or_default().0 / 4);
        let window = quarter * u64::from(self.multiplier.max(1));
        srtt.map_or(window, |s| window.min(s))
    }

    /// How long after the last sending a probe goes out (section 7.2); `slack` is what the profile
    /// adds.
    #[inline]
    pub fn probe_timeout(
        &self,
        srtt: Option<Duration>,
        one_segment: bool,
        slack: Duration,
    ) -> Duration {
        match srtt {
            None => Duration::secs(1),
            Some(s) => s * 2 + if one_segment { DELAYED_ACK } else { slack },
        }
    }

    /// A probe is under way.
    #[inline]
    pub fn probing(&self) -> bool {
        self.probe.is_some()
    }

    /// A probe was sent: new data or, if `again`, the last segment once more. `end` is snd_max with
    /// it.
    pub fn on_probe(&mut self, end: u64, again: bool) {
        self.probe = Some(Probe { end, again });
    }

    /// The timer fired or recovery began: whatever the probe would tell is known otherwise.
    pub fn forget_probe(&mut self) {
        self.probe = None;
    }

    /// An ACK, and the end of the duplicate that it reports if it does (section 7.4).
    pub fn probe_answer(
        &mut self,
        ack: u64,
        duplicate_end: Option<u64>,
        is_dupack_without_sack: bool,
    ) -> ProbeAnswer {
        let Some(probe) = self.probe.filter(|p| ack >= p.end) else { return ProbeAnswer::None };
        if !probe.again || duplicate_end == Some(probe.end) {
            self.probe = None;
        } else if ack > probe.end {
            self.probe = None;
            return ProbeAnswer::RepairedLoss;
        } else if is_dupack_without_sack {
            self.probe = None;
        }
        ProbeAnswer::None
    }
}

impl LossDetector for Rack {
    #[inline]
    fn on_ack(&mut self, board: &Scoreboard, ack: &AckSummary, losses: &mut Losses) {
        let wait = self.find_overdue(board, ack, losses);
        self.deadline = wait.map(|w| ack.now + w + self.slack);
    }

    #[inline]
    fn deadline(&self) -> Time {
        self.deadline.unwrap_or(Time::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProfileName;
    use crate::scoreboard::Marks;

    fn sent(seq: u64, at_ms: u64, transmissions: u16) -> Sent {
        let at = Time::ZERO + Duration::millis(at_ms);
        Sent {
            seq,
            first_sent: at,
            last_sent: at,
            len: 1000,
            transmissions,
            fin: false,
            marks: Marks::NONE,
        }
    }

    fn rfc() -> Rack {
        Rack::new(&Profile::named(ProfileName::Rfc))
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::millis(ms)
    }

    #[test]
    fn the_window_is_zero_until_reordering_is_seen_and_then_a_quarter() {
        let mut r = rfc();
        r.on_delivered(at(100), &sent(0, 0, 1), false);
        let window = |r: &Rack, recovery, sacked| {
            r.reordering_window(recovery, sacked, 3, Some(Duration::millis(100)))
        };
        assert_eq!(window(&r, false, 2), Duration::millis(25));
        assert_eq!((window(&r, false, 3), window(&r, true, 0)), (Duration::ZERO, Duration::ZERO));
        // A later segment first, then an earlier one that was sent once.
        r.on_delivered(at(110), &sent(3000, 5, 1), false);
        r.on_delivered(at(111), &sent(2000, 4, 1), false);
        assert!(r.reordering_seen);
        assert_eq!(window(&r, true, 9), Duration::millis(25));
    }

    #[test]
    fn duplicates_widen_the_window_once_a_round_up_to_srtt_for_sixteen_recoveries() {
        let mut r = Rack { reordering_seen: true, ..rfc() };
        r.on_delivered(at(100), &sent(0, 0, 1), false);
        r.on_dsack(1000, 9000);
        r.on_dsack(2000, 9500);
        let window = |r: &Rack| r.reordering_window(false, 0, 3, Some(Duration::millis(100)));
        assert_eq!(window(&r), Duration::millis(50));
        for i in 1..9 {
            r.on_dsack(9000 * i, 9000 * (i + 1));
        }
        assert_eq!(window(&r), Duration::millis(100));
        (0..15).for_each(|_| r.on_recovered());
        assert_eq!(window(&r), Duration::millis(100));
        r.on_recovered();
        assert_eq!(window(&r), Duration::millis(25));
    }

    #[test]
    fn the_answer_to_an_earlier_copy_is_no_sample() {
        let mut r = rfc();
        r.on_delivered(at(100), &sent(0, 0, 1), false);
        r.on_delivered(at(120), &sent(1000, 110, 2), false);
        assert_eq!(r.newest, Some((at(0), 1000)));
        r.on_delivered(at(230), &sent(2000, 115, 2), false);
        assert_eq!((r.newest, r.rtt), (Some((at(115), 3000)), Duration::millis(115)));
    }

    #[test]
    fn a_probe_that_repaired_a_loss_costs_a_reduction_and_one_that_was_needless_none() {
        let mut r = rfc();
        r.on_probe(5000, true);
        assert_eq!(r.probe_answer(4000, None, false), ProbeAnswer::None);
        assert!(r.probing());
        assert_eq!(r.probe_answer(6000, None, false), ProbeAnswer::RepairedLoss);
        r.on_probe(5000, true);
        assert_eq!(r.probe_answer(5000, Some(5000), false), ProbeAnswer::None);
        assert!(!r.probing());
        r.on_probe(7000, false);
        assert_eq!(r.probe_answer(8000, None, false), ProbeAnswer::None);
        assert!(!r.probing());
    }
}
