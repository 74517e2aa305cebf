//! What may be added to a recovery of either family, and what a connection keeps for it.
//!
//! A sender without additions has `None` here and asks for nothing else.

use crate::recovery::dcr::DelayedResponse;
use crate::recovery::fine_timer::FineTimer;
use crate::recovery::ncr::ExtendedTransmit;
use crate::recovery::spurious::Spurious;
use crate::recovery::{Eifel, Recovery};

/// The state of the additions of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Additions {
    /// F-RTO and Eifel.
    pub(super) spurious: Spurious,
    /// Non-congestion robustness.
    pub(super) ncr: Option<ExtendedTransmit>,
    /// Delayed congestion response.
    pub(super) dcr: Option<DelayedResponse>,
    /// Vegas' timer.
    pub(super) fine: Option<FineTimer>,
}

impl Additions {
    /// What this recovery needs; nothing for most.
    pub(crate) fn of(recovery: &Recovery) -> Option<Box<Additions>> {
        let any = recovery.f_rto
            || recovery.eifel != Eifel::Off
            || recovery.ncr.is_some()
            || recovery.dcr
            || recovery.fine_timer;
        any.then(|| {
            Box::new(Additions {
                spurious: Spurious::new(),
                ncr: recovery.ncr.map(ExtendedTransmit::new),
                dcr: recovery.dcr.then(DelayedResponse::default),
                fine: recovery.fine_timer.then(FineTimer::default),
            })
        })
    }
}
