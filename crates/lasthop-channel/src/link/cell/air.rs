//! Losses of frames between two stations.

use super::config::{CellConfig, StationConfig};
use crate::air::config::LossConfig;
use crate::air::loss::{Frame, LossProcess};
use crate::air::outage::OutageLoss;
use lasthop_core::segment::Segment;
use lasthop_core::units::Time;

/// Channel of one station.
#[derive(Debug)]
struct Around {
    down: Side,
    up: Side,
    outage: OutageLoss,
}

/// One direction of it.
#[derive(Debug)]
struct Side {
    loss: LossProcess,
    /// Whether the model applies to data frames, and to control frames.
    hits: [bool; 2],
    /// Number of frames whose loss was computed.
    ordinal: u64,
    /// True if the last of them was lost.
    took: bool,
}

/// A frame on the air.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnAir<'a> {
    pub from: usize,
    pub to: usize,
    pub start: Time,
    pub end: Time,
    /// Preamble included.
    pub bytes: u32,
    /// A link ACK, RTS or CTS: bit errors can destroy it; the other models apply to data frames
    /// only.
    pub control: bool,
    /// Segment of a data frame, or the one that a control frame refers to.
    pub segment: &'a Segment,
}

/// The channels of a cell, one per station.
#[derive(Debug)]
pub(super) struct Air {
    around: Vec<Around>,
    /// True if any station has outages.
    outages: bool,
    /// Whether data frames, and control frames, of any station may be lost.
    lossy: [bool; 2],
    mss: u32,
}

impl Air {
    /// `names` are those of the stations; they address the draws.
    pub(super) fn new(
        config: &CellConfig,
        names: &[String],
        seed: u64,
        mss: u32,
    ) -> Result<Air, String> {
        let side = |loss: &LossConfig, name: String| {
            let loss = LossProcess::new(loss, seed, &name)?;
            let any = !matches!(loss, LossProcess::None);
            let hits = [any, any && loss.hits_control_frames()];
            Ok::<_, String>(Side { loss, hits, ordinal: 0, took: false })
        };
        let around = |(station, name): (&StationConfig, &String)| {
            Ok(Around {
                down: side(&station.down, format!("{name} down"))?,
                up: side(&station.up, format!("{name} up"))?,
                outage: OutageLoss::new(&station.outages),
            })
        };
        let around =
            config.stations.iter().zip(names).map(around).collect::<Result<Vec<_>, String>>()?;
        let outages = around.iter().any(|a| !a.outage.is_empty());
        let any = |kind: usize| {
            outages || around.iter().any(|a: &Around| a.up.hits[kind] || a.down.hits[kind])
        };
        Ok(Air { outages, lossy: [any(0), any(1)], around, mss })
    }

    /// True if a data or control frame between these stations may be lost. If not, [`Air::lost`]
    /// need not be called.
    #[inline]
    pub(super) fn may_lose(&self, from: usize, to: usize, control: bool) -> bool {
        let kind = usize::from(control);
        self.lossy[kind]
            && (self.outages || self.around[from].up.hits[kind] || self.around[to].down.hits[kind])
    }

    /// True if a frame is lost. Call it once for each frame that may be, in order of start.
    pub(super) fn lost(&mut self, f: &OnAir<'_>) -> bool {
        let mss = self.mss;
        let out = self.is_out(f);
        let up = self.around[f.from].up.lost(f, mss);
        let down = self.around[f.to].down.lost(f, mss);
        out | up | down
    }

    /// True if the headers of a data frame that was just lost are intact: only bit errors behind
    /// the headers have damaged it.
    pub(super) fn header_intact(&self, f: &OnAir<'_>) -> bool {
        let header = f.bytes.saturating_sub(f.segment.len);
        let sides = [&self.around[f.from].up, &self.around[f.to].down];
        !self.is_out(f)
            && sides.into_iter().all(|side| !side.took || side.loss.header_intact(header))
    }

    #[inline]
    fn is_out(&self, f: &OnAir<'_>) -> bool {
        self.outages
            && [f.from, f.to].into_iter().any(|i| self.around[i].outage.lost(f.start, f.end))
    }
}

impl Side {
    #[inline]
    fn lost(&mut self, f: &OnAir<'_>, mss: u32) -> bool {
        if !self.hits[usize::from(f.control)] {
            return false;
        }
        self.took = self.loss.lost(&Frame {
            start: f.start,
            ordinal: self.ordinal,
            bytes: f.bytes,
            mss,
            segment: f.segment,
        });
        self.ordinal += 1;
        self.took
    }
}
