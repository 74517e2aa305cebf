//! Proportional rate reduction (RFC 9937): in recovery the sender sends in proportion to what is
//! delivered, so that the data in flight come down to the target of the window rule by the end.

use crate::recovery::config::{Recovery, RecoveryKind};

/// Proportional rate reduction needs fast recovery; the form of ns-3 is made for `sack`.
///
/// # Errors
///
/// The message says which of the two is violated.
pub fn check(recovery: &Recovery) -> Result<(), String> {
    if recovery.prr && recovery.kind == RecoveryKind::Tahoe {
        return Err("prr does not go with this recovery".into());
    }
    if recovery.prr_dupacks && (recovery.prr || recovery.kind != RecoveryKind::Sack) {
        return Err("prr-dupacks goes with sack, in the place of prr".into());
    }
    Ok(())
}

/// The state of one recovery, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prr {
    /// Where the data in flight shall be in the end.
    target: f64,
    delivered: u64,
    out: u64,
    /// Data in flight when recovery began (RecoverFS).
    recover_fs: u64,
    /// The proportion is rounded up to whole segments.
    whole_segments: bool,
}

impl Prr {
    /// Recovery begins with `recover_fs` bytes in flight: sent, not acknowledged, and not SACKed
    /// before the ACK that began it.
    pub fn new(target: f64, recover_fs: u64) -> Prr {
        Prr { target, delivered: 0, out: 0, recover_fs: recover_fs.max(1), whole_segments: false }
    }

    /// Where the data in flight shall be in the end, bytes.
    #[inline]
    pub fn target(&self) -> f64 {
        self.target
    }

    /// The same counted in segments, as Linux does (`tcp_cwnd_reduction`).
    pub fn in_segments(self) -> Prr {
        Prr { whole_segments: true, ..self }
    }

    /// An ACK delivered `delivered` bytes and leaves `pipe` bytes in flight; `safe` if it moved
    /// snd_una and reported no further loss. Returns cwnd (RFC 9937, section 6.2).
    pub fn on_ack(&mut self, delivered: u64, pipe: u64, safe: bool, mss: u32) -> f64 {
        self.delivered += delivered;
        let (done, out, pipe, mss) =
            (self.delivered as f64, self.out as f64, pipe as f64, f64::from(mss));
        let mut count = if pipe > self.target {
            let unit = if self.whole_segments { mss } else { 1.0 };
            libm::ceil(done * self.target / (self.recover_fs as f64 * unit)) * unit - out
        } else {
            let conserving = (done - out).max(delivered as f64);
            let growing = if safe { conserving + mss } else { conserving };
            growing.min(self.target - pipe)
        };
        if self.out == 0 {
            // The first retransmission goes out in any case.
            count = count.max(mss);
        }
        pipe + count.max(0.0)
    }

    /// What ns-3.44 takes an ACK for: for a duplicate ACK a segment is added to what SACK reports,
    /// as RFC 9937 (section 6.2) lets senders without SACK do, until as much is counted as was in
    /// flight when recovery began.
    pub fn counted_twice(&self, delivered: u64, duplicate: bool, mss: u32) -> u64 {
        delivered + if duplicate && self.delivered < self.recover_fs { u64::from(mss) } else { 0 }
    }

    /// `bytes` were sent.
    pub fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One segment of twenty lost, target half: the first ACK sends it again, which is half a
    /// segment ahead of the proportion; then every second one releases a segment, until the pipe is
    /// at the target and each one does.
    #[test]
    fn one_loss_comes_down_to_the_target_smoothly() {
        let mut prr = Prr::new(10_000.0, 20_000);
        let (mut pipe, mut sent) = (19_000u64, Vec::new());
        for _ in 0..19 {
            pipe -= 1000;
            let cwnd = prr.on_ack(1000, pipe, false, 1000);
            let n = ((cwnd - pipe as f64) / 1000.0) as u64;
            pipe += n * 1000;
            prr.on_sent(n * 1000);
            sent.push(n);
        }
        assert_eq!(sent, [1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1]);
        assert_eq!(pipe, 10_000);
    }

    /// Fifteen of twenty lost: the pipe is far below the target. Each ACK releases what it
    /// delivered, and one segment more while snd_una moves (slow start reduction bound).
    #[test]
    fn heavy_loss_conserves_packets_until_acks_are_safe() {
        let mut prr = Prr::new(10_000.0, 20_000);
        assert_eq!(prr.on_ack(1000, 4000, false, 1000), 5000.0);
        prr.on_sent(1000);
        assert_eq!(prr.on_ack(1000, 4000, false, 1000), 5000.0);
        prr.on_sent(1000);
        assert_eq!(prr.on_ack(1000, 4000, true, 1000), 6000.0);
    }

    /// As ns-3.44 counts: each duplicate ACK stands for a segment beyond what SACK reports, until
    /// the flight has been counted; the same loss as above releases twice as much in the first half
    /// of the recovery.
    #[test]
    fn duplicate_acks_are_counted_beside_sack() {
        let mut prr = Prr::new(10_000.0, 20_000);
        let (mut pipe, mut sent) = (19_000u64, Vec::new());
        for _ in 0..19 {
            pipe -= 1000;
            let delivered = prr.counted_twice(1000, true, 1000);
            let cwnd = prr.on_ack(delivered, pipe, false, 1000);
            let n = ((cwnd - pipe as f64) / 1000.0) as u64;
            pipe += n * 1000;
            prr.on_sent(n * 1000);
            sent.push(n);
        }
        assert_eq!(sent[..10], [1; 10]);
        assert_eq!(prr.counted_twice(1000, true, 1000), 1000, "the flight has been counted");
        assert_eq!(Prr::new(1.0, 20_000).counted_twice(0, false, 1000), 0);
    }

    proptest! {
        /// Never more than the target and never less than one segment for the first ACK.
        #[test]
        fn bounds(
            steps in prop::collection::vec((0u64..5, any::<bool>()), 1..60),
            flight in 4u64..100,
            lost in 1u64..50,
        ) {
            let mss = 1000;
            let target = (flight * 500) as f64;
            let mut prr = Prr::new(target, flight * mss);
            let mut pipe = flight.saturating_sub(lost) * mss;
            let mut out = 0;
            for (delivered, safe) in steps {
                let delivered = (delivered * mss).min(pipe);
                let before = pipe;
                pipe -= delivered;
                let cwnd = prr.on_ack(delivered, pipe, safe, 1000);
                prop_assert!(cwnd >= pipe as f64 && (out > 0 || cwnd >= (pipe + mss) as f64));
                let n = ((cwnd - pipe as f64) / mss as f64) as u64;
                let most = target.max((before + mss) as f64);
                prop_assert!(n == 0 || out == 0 || ((pipe + n * mss) as f64) <= most);
                pipe += n * mss;
                out += n;
                prr.on_sent(n * mss);
            }
        }
    }
}
