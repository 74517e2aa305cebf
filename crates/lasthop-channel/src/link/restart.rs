//! The state and the memory of links of many runs one after the other.

use lasthop_core::units::{Duration, Time};

use super::config::LinkConfig;
use super::flight::HeldByHost;
use super::idle::IdleFastPath;
use super::stats::LinkStats;
use super::{Air, Link, rate_process};
use crate::air::delay::DelayProcess;
use crate::air::loss::LossProcess;
use crate::air::outage::OutageLoss;

impl Air {
    /// The processes of a link that has not carried a frame. Those without draws have no state.
    fn restart(
        &mut self,
        config: &LinkConfig,
        name: impl Fn() -> String,
        seed: u64,
        phase: Duration,
    ) -> Result<(), String> {
        self.rate = rate_process(config, phase);
        if self.delay.constant().is_none() {
            self.delay = DelayProcess::new(&config.delay, seed, &["delay ", &name()].concat())?;
        }
        if !matches!(self.loss, LossProcess::None) {
            self.loss = LossProcess::new(&config.loss, seed, &["loss ", &name()].concat())?;
        }
        self.outage = OutageLoss::new(&config.outages);
        Ok(())
    }
}

impl Link {
    /// Sets the link back to the time before its first frame, as [`new`](Self::new) builds it for
    /// another seed. False, and nothing changes, for a link that has more state than a computed one
    /// without reordering and impairments.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn restart(
        &mut self,
        config: &LinkConfig,
        name: impl Fn() -> String,
        seed: u64,
        phase: Duration,
    ) -> Result<bool, String> {
        let is_computed = self.evented.is_none() && self.service.is_none();
        if !is_computed || self.reordering.is_some() || self.impairments.is_some() {
            return Ok(false);
        }
        // All fields are named, so that a new one is not forgotten here.
        let Link {
            // What depends on the configuration alone.
            from: _,
            to: _,
            place: _,
            overhead: _,
            full_frame: _,
            mss: _,
            measured,
            limit: _,
            plain: _,
            loses_frames: _,
            by_time: _,
            constant: _,
            // What such a link has not.
            evented: _,
            service: _,
            reordering: _,
            impairments: _,
            // What the host sets.
            cuts,
            reports_damaged,
            tag,
            // State.
            stats,
            ordinal,
            safe_until,
            last_start,
            last_end,
            idle_path,
            waiting,
            pipe,
            held,
            losses,
            damaged_frames,
            air,
        } = self;
        air.restart(config, name, seed, phase)?;
        (*cuts, *reports_damaged, *tag) = (false, false, 0);
        let mut queue_delay = std::mem::take(&mut stats.queue_delay);
        queue_delay.clear();
        *stats = LinkStats { queue_delay, ..LinkStats::default() };
        (*ordinal, *safe_until) = (0, 0);
        (*last_start, *last_end) = (Time::ZERO, Time::ZERO);
        *idle_path = IdleFastPath::new(*measured);
        waiting.clear();
        pipe.clear();
        *held = HeldByHost::default();
        losses.clear();
        damaged_frames.clear();
        Ok(true)
    }

    /// Takes the memory of a link that is no longer used. This one has carried no frame.
    pub fn reuse_memory(&mut self, old: &mut Link) {
        self.stats.queue_delay.reuse_memory(&mut old.stats.queue_delay);
        self.waiting.reuse_memory(&mut old.waiting);
        self.pipe.reuse_memory(&mut old.pipe);
        self.losses.reuse_memory(&mut old.losses);
    }
}
