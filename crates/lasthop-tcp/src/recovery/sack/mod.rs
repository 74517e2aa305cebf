//! Recovery on SACK blocks: RFC 6675, FACK, and RACK-TLP (RFC 8985), with or without proportional
//! rate reduction.
//!
//! One engine: an ACK is processed, losses are detected as the kind of recovery says, an episode
//! begins or ends, and what the pipe has room for is sent. The kinds differ in `judge_losses` and
//! in their `Behaviour`.

mod ack;
pub mod arrival;
pub mod board;
mod detectors;
mod episode;
mod plain;
mod rtt;
mod send;
mod timers;

use super::config::{Recovery, RecoveryKind};
use super::defer::Additions;
use super::detect::Losses;
use super::detect::rack::Rack;
use super::detect::scheme::{Behaviour, Reductions, SchemeDetector};
use super::hints::LinkHints;
use super::prr::Prr;
use super::spurious::dsack::Undo;
use crate::sender::stream::Stream;
use crate::ticks::LastExpiry;
use crate::window::WindowRule;
use board::SackBoard;
use lasthop_core::units::Time;

/// The state of recovery on SACK blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No loss is known.
    Open,
    /// Losses found by SACK are being repaired.
    Recovery,
    /// Slow start after a timeout.
    Loss,
}

/// Recovery on SACK blocks of one connection.
#[derive(Debug)]
pub struct SackRecovery {
    recovery: Recovery,
    behaviour: Behaviour,
    /// The detector of a scheme, if that is used.
    detector: Option<Box<dyn SchemeDetector>>,
    board: SackBoard,
    phase: Phase,
    /// Recovery ends when this byte has been acknowledged.
    recovery_point: u64,
    /// The byte up to which the one rescue retransmission of a recovery has been used.
    rescued: Option<u64>,
    /// Duplicate ACKs with new SACK information, in a row.
    dupacks: u32,
    /// cwnd at the end of the recovery, in bytes.
    target: f64,
    /// Proportional rate reduction, while it determines cwnd.
    prr: Option<Prr>,
    /// The window is reduced for an ECN echo until this byte and one more are acknowledged.
    cwr_until: Option<u64>,
    /// The last reduction.
    undo: Option<Undo>,
    /// The first retransmission since no loss was known.
    first_copy: Option<Time>,
    /// Timeouts since an ACK acknowledged new data.
    timeouts: u32,
    /// Only new data are sent on this ACK.
    only_new: bool,
    /// When a tail loss probe is due.
    probe_deadline: Time,
    last_probe: LastExpiry,
    /// What the detector has found, from ACK to ACK the same memory.
    losses: Losses,
    /// Reductions due for what was found lost, if there is one for each loss.
    reductions_due: u32,
    hints: Option<Box<LinkHints>>,
    additions: Option<Box<Additions>>,
}

impl SackRecovery {
    /// At the start of a connection. `each_loss`: the window rule counts each segment that is lost.
    pub fn new(recovery: &Recovery, rack: Rack, each_loss: bool) -> Self {
        let behaviour = recovery.kind.behaviour();
        let detector = match recovery.kind {
            RecoveryKind::Scheme(entry) => Some((entry.make)(recovery.setting)),
            _ => None,
        };
        SackRecovery {
            recovery: *recovery,
            behaviour,
            detector,
            board: SackBoard::new(behaviour.by_time, rack, each_loss),
            phase: Phase::Open,
            recovery_point: 0,
            rescued: None,
            dupacks: 0,
            target: 0.0,
            prr: None,
            cwr_until: None,
            undo: None,
            first_copy: None,
            timeouts: 0,
            only_new: false,
            losses: Losses::default(),
            probe_deadline: Time::NEVER,
            last_probe: LastExpiry::default(),
            reductions_due: 0,
            hints: recovery.hints.map(|rules| Box::new(LinkHints::new(rules))),
            additions: Additions::of(recovery),
        }
    }

    /// The phase of recovery.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The window is being reduced for an ECN echo (Linux `TCP_CA_CWR`).
    pub fn in_cwr(&self) -> bool {
        self.cwr_until.is_some()
    }

    /// Duplicate ACKs with new SACK information, in a row.
    #[inline]
    pub fn dupacks(&self) -> u32 {
        self.dupacks
    }

    /// Bytes in the network, of `flight` bytes not yet acknowledged.
    #[inline]
    pub fn pipe(&self, flight: u64) -> u64 {
        self.board.pipe(flight)
    }

    /// The largest reordering that RACK has seen, in bytes.
    pub fn reordering(&self) -> u64 {
        self.board.rack().reordering()
    }

    /// What is known from the link layer, if hints are accepted.
    pub fn hints_mut(&mut self) -> Option<&mut LinkHints> {
        self.hints.as_deref_mut()
    }

    /// The window is being reduced: by a recovery, or for an ECN echo (Linux
    /// `tcp_in_cwnd_reduction`).
    fn is_reducing(&self) -> bool {
        self.phase == Phase::Recovery || self.cwr_until.is_some()
    }

    /// The reduction for an ECN echo is over, or becomes a recovery; with its proportional rate
    /// reduction, if there is one.
    fn leave_cwr(&mut self) -> Option<Prr> {
        self.cwr_until.take().and_then(|_| self.prr.take())
    }

    /// Duplicate ACKs (or segments SACKed further up) that mean a loss now.
    fn loss_threshold<W: WindowRule>(&self, stream: &Stream<W>) -> u32 {
        let least = stream.profile().dupack_threshold;
        let Some(a) = &self.additions else { return least };
        a.loss_threshold(stream.flight(), stream.mss(), least)
    }

    /// Extended limited transmit and the wait of delayed congestion response end.
    fn end_deferral(&mut self) {
        if let Some(a) = &mut self.additions {
            a.leave_extended();
            a.end_wait();
        }
    }

    /// Hints have been accepted that still matter.
    fn has_hints(&self) -> bool {
        self.hints.as_ref().is_some_and(|h| !h.is_quiet())
    }

    /// There is a reduction for each lost segment.
    #[inline]
    fn reduces_for_each_loss(&self) -> bool {
        self.behaviour.reductions == Reductions::Loss
    }

    /// The hints of the link layer were discarded, because a timeout meant congestion.
    pub fn on_hints_discarded(&mut self) {
        if let Some(detector) = &mut self.detector {
            detector.on_hints_discarded();
        }
    }
}
