//! Reductions that were uncalled for: how they are found out (Eifel, F-RTO), and what comes back.
//!
//! Both families of recovery call the same four functions: `reduce` remembers each reduction here,
//! `enter_f_rto` follows a timeout, `judge` looks at each ACK, and `restore` answers.

use crate::recovery::{Eifel, RecoveryKind};
use crate::sender::{LastAction, Output, SendReason, Sender, timestamp};
use crate::window::{LossKind, Window, WindowRule};
use lasthop_core::units::{Duration, Time};

/// What an ACK tells about the last reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: things take their usual course.
    Usual,
    /// It was uncalled for.
    Spurious,
    /// F-RTO, step 2b: two new segments instead of retransmissions, then wait for the next ACK.
    SendNew,
    /// F-RTO, step 3a: the timeout was right.
    Confirmed,
}

/// An ACK as the detection sees it, when it has not yet been or has just been taken in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// The ACK number.
    pub ack: u64,
    /// Bytes that it newly acknowledges.
    pub acked: u64,
    /// It newly acknowledges or SACKs a segment that was sent once and ends here or further up.
    pub fresh_end: Option<u64>,
    /// The highest byte acknowledged or SACKed.
    pub highest: u64,
    /// The stamp that it echoes.
    pub echo: Option<u32>,
    /// It carries an ECN echo.
    pub ece: bool,
    /// It reports a duplicate (RFC 2883).
    pub dsack: bool,
}

/// A reduction that may turn out to have been uncalled for, until an ACK has told.
#[derive(Clone, Copy, Debug)]
struct Reduction {
    /// The window before it.
    before: Window,
    /// max(flight, ssthresh) before it (RFC 4015, step 0).
    pipe_prev: f64,
    /// SRTT + 2 G and RTTVAR before it.
    rtt_prev: Option<(Duration, Duration)>,
    /// The stamp of the first retransmission: not overwritten by further ones (RFC 3522, section
    /// 3.2 step 2).
    stamp: u32,
    /// How often the first segment was sent again.
    retransmissions: u32,
    timeout: bool,
    /// snd_max then: what lies above is new data.
    snd_max: u64,
    /// No ACK of new data has come since.
    open: bool,
}

/// Where F-RTO stands (RFC 5682).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Off,
    /// The first segment was sent again after a timeout.
    First,
    /// Two new segments were sent on the first ACK.
    Second,
}

/// What the detection of needless reductions keeps for a connection.
#[derive(Clone, Debug)]
pub(super) struct Spurious {
    last: Option<Reduction>,
    step: Step,
    /// snd_max at the timeout (RFC 5682: recover, RecoveryPoint).
    point: u64,
    /// The receiver reports duplicates.
    dsack_seen: bool,
    /// The first round-trip time of data above this byte starts the estimates anew, from these (RFC
    /// 4015, step 9).
    reseed: Option<(u64, (Duration, Duration))>,
}

impl Spurious {
    pub(super) fn new() -> Self {
        Spurious { last: None, step: Step::Off, point: 0, dsack_seen: false, reseed: None }
    }

    /// Nothing is in doubt.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.step == Step::Off && !self.last.as_ref().is_some_and(|r| r.open)
    }
}

/// `a` is earlier than `b` on a clock that wraps.
fn earlier(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl<W: WindowRule> Sender<W> {
    /// A reduction is about to be made.
    pub(super) fn remember_reduction(&mut self, now: Time, kind: LossKind) {
        let (before, flight, snd_max, rtt_prev) =
            (self.window, self.flight() as f64, self.snd_max, self.rto.remembered());
        let Some(a) = &mut self.additions else { return };
        let timeout = kind == LossKind::Timeout;
        match &mut a.spurious.last {
            // A mark says that there is congestion: nothing comes back.
            last if kind == LossKind::Ecn => *last = None,
            Some(r) if r.open => {
                r.retransmissions += 1;
                r.timeout |= timeout;
            }
            last => {
                let pipe_prev = flight.max(before.ssthresh);
                let stamp = timestamp(now);
                *last = Some(Reduction {
                    before,
                    pipe_prev,
                    rtt_prev,
                    stamp,
                    retransmissions: 1,
                    timeout,
                    snd_max,
                    open: true,
                });
            }
        }
    }

    /// A timeout (RFC 5682, step 1). `recovering`: an earlier loss was being repaired, so that
    /// retransmissions may be under way whose ACKs would mislead. True if F-RTO begins; then the
    /// first segment alone is sent again.
    ///
    /// A timeout that repeats before any ACK has come leaves F-RTO in step 1, as in Linux: nothing
    /// but the first segment was sent again.
    pub(super) fn enter_f_rto(&mut self, recovering: bool) -> bool {
        let snd_max = self.snd_max;
        let Some(a) = self.additions.as_mut().filter(|_| self.config.recovery.f_rto) else {
            return false;
        };
        let s = &mut a.spurious;
        s.step = if !recovering || s.step == Step::First { Step::First } else { Step::Off };
        s.point = snd_max;
        s.step == Step::First
    }

    /// What an ACK tells about the last reduction.
    pub(super) fn judge(&mut self, news: &News) -> Verdict {
        let (recovery, snd_max) = (self.config.recovery, self.snd_max);
        let Some(a) = &mut self.additions else { return Verdict::Usual };
        let s = &mut a.spurious;
        s.dsack_seen |= news.dsack;
        let first_ack =
            news.acked > 0 && s.last.as_mut().is_some_and(|r| std::mem::take(&mut r.open));
        if first_ack && s.eifel_detects(recovery.eifel, news, snd_max) {
            s.step = Step::Off;
            return Verdict::Spurious;
        }
        s.f_rto_step(news, recovery.uses_sack())
    }

    /// F-RTO waits for an ACK that tells: nothing else is sent.
    pub(super) fn f_rto_waits(&self) -> bool {
        self.additions.as_ref().is_some_and(|a| a.spurious.step != Step::Off)
    }

    /// Step 2b of F-RTO: up to two new segments, beyond the window. Without any the usual recovery
    /// goes on.
    pub(super) fn send_two_new(&mut self, now: Time, out: &mut impl Output) {
        let next = std::mem::replace(&mut self.snd_nxt, self.snd_max);
        let window = self.flight() + 2 * u64::from(self.config.mss);
        let before = self.snd_max;
        while self.send_next(now, window, SendReason::New, out) {}
        if self.snd_max > before {
            return;
        }
        self.snd_nxt = next;
        if let Some(a) = &mut self.additions {
            a.spurious.step = Step::Off;
        }
    }

    /// The last reduction has been found uncalled for in another way: there is nothing left to find
    /// out about it.
    pub(super) fn settle_doubts(&mut self) {
        if let Some(a) = &mut self.additions {
            (a.spurious.last, a.spurious.step) = (None, Step::Off);
        }
    }

    /// Step 3a: the timeout was right. Two round trips have gone by, so the window is three
    /// segments.
    pub(super) fn confirm_timeout(&mut self) {
        if !self.rule.steers_recovery() {
            self.window.cwnd = 3.0 * f64::from(self.config.mss);
        }
    }

    /// The reduction was uncalled for, as an ACK of `acked` bytes has told, which has been taken
    /// in. Sending goes on with new data, and the window comes back unless the ACK carries an ECN
    /// echo (RFC 4015, step 8).
    pub(super) fn restore(&mut self, now: Time, acked: u64, ece: bool) {
        self.snd_nxt = self.snd_max;
        self.inflation = 0.0;
        self.last_action = LastAction::None;
        // RFC 5682, step 3b.
        self.recover = Some(self.snd_una);
        (self.partial_seen, self.cwnd_preserved) = (false, false);
        let Some(r) = self.additions.as_mut().and_then(|a| a.spurious.last.take()) else { return };
        self.counters.undone += 1;
        if !ece {
            let back = self.what_comes_back(&r, acked);
            self.rule.on_undo(&mut self.window, &back, now);
        }
        let adapts = r.timeout
            && self.config.recovery.eifel != Eifel::Original
            && self.config.recovery.kind != RecoveryKind::Rack;
        if let (Some(a), Some(prev), true) = (&mut self.additions, r.rtt_prev, adapts) {
            a.spurious.reseed = Some((r.snd_max, prev));
        }
    }

    /// RFC 4015, step 8: the flight and what was just acknowledged, in slow start up to what had
    /// been in flight. The original Eifel gives everything back, half after a second timeout in a
    /// row, nothing after a third. Linux (whose recovery is RACK) gives everything back.
    fn what_comes_back(&self, r: &Reduction, acked: u64) -> Window {
        let mss = f64::from(self.config.mss);
        if self.config.recovery.eifel == Eifel::Original {
            return match r.retransmissions {
                1 => r.before,
                2 => Window {
                    cwnd: (r.before.cwnd / 2.0).max(mss),
                    ssthresh: (r.before.ssthresh / 2.0).max(2.0 * mss),
                },
                _ => self.window,
            };
        }
        if self.config.recovery.kind == RecoveryKind::Rack {
            return r.before;
        }
        let initial = self.profile.initial_window.bytes(self.config.mss);
        Window { cwnd: (self.flight() + acked.min(initial)) as f64, ssthresh: r.pipe_prev }
    }

    /// A round-trip time sample after a spurious timeout: true if the estimates start anew with it
    /// (RFC 4015, step 9).
    pub(crate) fn reseed_rtt(&mut self, rtt: Duration) -> bool {
        let snd_una = self.snd_una;
        let Some(s) = self.additions.as_mut().map(|a| &mut a.spurious) else { return false };
        let Some((_, prev)) = s.reseed.take_if(|(above, _)| snd_una > *above) else { return false };
        self.rto.reseed(prev, rtt);
        true
    }
}

impl Spurious {
    /// The first ACK of new data after the retransmission answers an earlier copy (RFC 3522,
    /// section 3.2).
    fn eifel_detects(&self, eifel: Eifel, news: &News, snd_max: u64) -> bool {
        let Some(r) = self.last else { return false };
        let older = news.echo.is_some_and(|echo| earlier(echo, r.stamp));
        // Step 5: the ACK could be the answer to a retransmission, the ACKs of the originals being
        // lost, if it covers everything. A receiver that reports duplicates would have said so.
        let no_doubt = !news.dsack && (self.dsack_seen || news.ack < snd_max);
        match eifel {
            Eifel::Off => false,
            Eifel::Original => older,
            Eifel::Rfc => older && no_doubt,
        }
    }

    /// RFC 5682, steps 2 and 3, basic (section 2.1) or with SACK (section 3.1).
    fn f_rto_step(&mut self, news: &News, sack: bool) -> Verdict {
        let (verdict, next) = match self.step {
            Step::Off => return Verdict::Usual,
            Step::First if news.acked == 0 && sack => return Verdict::Usual,
            Step::First if news.acked == 0 || news.ack >= self.point => (Verdict::Usual, Step::Off),
            Step::First => (Verdict::SendNew, Step::Second),
            Step::Second if sack && news.highest > self.point => (Verdict::Confirmed, Step::Off),
            Step::Second if news.fresh_end.is_some_and(|end| end <= self.point) => {
                (Verdict::Spurious, Step::Off)
            }
            Step::Second => (Verdict::Confirmed, Step::Off),
        };
        self.step = next;
        verdict
    }
}
