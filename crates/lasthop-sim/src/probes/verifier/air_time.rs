//! Checks how the medium of a cell with aggregation is used: each transmission takes as long as its
//! frames do by the standard, two have their interframe space between them, and what is left is
//! idle time. The shares of the result must be those that follow.
//!
//! The durations are computed here from IEEE 802.11-2020 and 802.11ax-2021; no code of the cell is
//! used but the settings.

use lasthop::link::cell::phy::{Generation, Width};
use lasthop::link::cell::wifi::Wifi;
use lasthop::link::cell::{MediumUse, UseKind};
use lasthop::scenario::network::Cell;
use lasthop::units::{Duration, Time};

use super::checked::{Checked, ensure};
use crate::probes::result::CellResult;

/// Bytes of RTS, CTS or ACK, BlockAckReq, CF-End, and of a block acknowledgement without its
/// bitmap (9.3.1), and of the simulator's beacon.
const RTS: u64 = 20;
const CTS: u64 = 14;
const REQUEST: u64 = 24;
const CF_END: u64 = 20;
const BLOCK_ACK: u64 = 24;
const BEACON: u64 = 200;

/// Nanoseconds.
type Ns = u64;

/// The use of one medium so far.
pub(super) struct AirTimeModel {
    /// End of what occupied the medium last, and the start of that.
    until: Time,
    started: Time,
    last: Option<MediumUse>,
    stations: Vec<Duration>,
    collisions: Duration,
    beacons: Duration,
    others: Duration,
    idle: Duration,
    /// Packets in all transmissions with data, from each member to each other one.
    packets: Vec<Vec<u64>>,
    /// An RTS was not answered: after the last one, packets are given up that were not sent.
    lost_rts: bool,
}

impl AirTimeModel {
    pub(super) fn new(cell: &Cell) -> AirTimeModel {
        let members = cell.stations.len();
        AirTimeModel {
            until: Time::ZERO,
            started: Time::ZERO,
            last: None,
            stations: vec![Duration::ZERO; members],
            collisions: Duration::ZERO,
            beacons: Duration::ZERO,
            others: Duration::ZERO,
            idle: Duration::ZERO,
            packets: vec![vec![0; members]; members],
            lost_rts: false,
        }
    }

    /// Compares the attempts of a link's result with the packets in the transmissions.
    pub(super) fn compare_attempts(&self, from: u32, to: u32, attempts: u64) -> Checked {
        let sent = self.packets[from as usize][to as usize];
        ensure(sent == attempts || (self.lost_rts && sent < attempts), || {
            format!("{sent} packets in the transmissions, {attempts} attempts in the result")
        })
    }

    /// The medium is used.
    pub(super) fn used(&mut self, cell: &Cell, used: &MediumUse) -> Checked {
        let Some(wifi) = &cell.wifi else {
            return Err("a cell without aggregation reports how its medium is used".into());
        };
        self.packets[used.from][used.to] += u64::from(used.packets);
        self.lost_rts |= used.rts && used.mpdus == 0;
        let collides = used.kind == UseKind::Collision;
        let with_last = self.last.is_some_and(|l| l.kind == UseKind::Collision);
        let joins = collides && with_last && used.start == self.started;
        let (from, length) = (self.until, used.end - used.start);
        if joins {
            self.collisions = self.collisions + (used.end.max(from) - from);
            self.until = used.end.max(from);
        } else {
            ensure(used.start >= from, || {
                format!("a transmission starts at {}, before {from}", used.start)
            })?;
            let gap = used.start - from;
            // Within a TXOP, the pauses belong to its holder.
            let continues = self.in_txop(cell, wifi, used, gap);
            let gap_share = if continues { &mut self.stations[used.from] } else { &mut self.idle };
            *gap_share = *gap_share + gap;
            let share = match used.kind {
                UseKind::Collision => &mut self.collisions,
                UseKind::Beacon => &mut self.beacons,
                UseKind::Others => &mut self.others,
                _ => &mut self.stations[used.from],
            };
            *share = *share + length;
            (self.started, self.until) = (used.start, used.end);
            let least = least_gap(cell, wifi, used.kind);
            let since = (from > Time::ZERO).then_some(gap);
            ensure(continues || since.is_none_or(|gap| gap >= least), || {
                format!("a {} follows {gap} after {from}, expected {least}", used.kind.name())
            })?;
        }
        self.last = Some(*used);
        let expected = duration(cell, wifi, used);
        ensure(expected.is_none_or(|d| d == length), || {
            format!("{used:?} takes {length}, expected {}", expected.unwrap_or(Duration::ZERO))
        })?;
        let consistent = used.retries <= used.mpdus
            && used.acknowledged <= used.mpdus
            && used.mpdus <= used.packets
            && (used.answered || used.acknowledged == 0);
        ensure(consistent, || format!("{used:?} contradicts itself"))
    }

    /// True if this continues the TXOP of the last transmission, `gap` after it.
    fn in_txop(&self, cell: &Cell, wifi: &Wifi, used: &MediumUse, gap: Duration) -> bool {
        let of_station = |kind| !matches!(kind, UseKind::Beacon | UseKind::Others);
        let same = self.last.is_some_and(|last| last.from == used.from && of_station(last.kind));
        wifi.txop_limit > Duration::ZERO && gap == cell.mac.sifs && same && of_station(used.kind)
    }

    /// Compares with the shares of the result of a run of `duration` seconds.
    pub(super) fn compare(&self, result: &CellResult, duration: f64) -> Checked {
        let rest = (duration - self.until.as_secs()).max(0.0);
        let sums = [
            ("collisions", self.collisions.as_secs(), result.collisions_s),
            ("beacons", self.beacons.as_secs(), result.beacons_s),
            ("other networks", self.others.as_secs(), result.others_s),
            ("nobody", self.idle.as_secs() + rest, result.idle_s),
        ];
        let stations = self.stations.iter().zip(&result.stations);
        let stations = stations.map(|(d, s)| (s.station.as_str(), d.as_secs(), s.air_time_s));
        for (who, events, result_s) in stations.chain(sums) {
            ensure((events - result_s).abs() < 1e-7, || {
                let cell = &result.name;
                format!("{cell}: {who} uses {events} s in the events, {result_s} s in the result")
            })?;
        }
        Ok(())
    }
}

/// The shortest idle time before a transmission that is not within a TXOP.
fn least_gap(cell: &Cell, wifi: &Wifi, kind: UseKind) -> Duration {
    let aifs = cell.mac.sifs + cell.mac.slot * u64::from(wifi.aifsn);
    match kind {
        UseKind::Others => Duration::ZERO,
        UseKind::Beacon => aifs.min(cell.mac.sifs + cell.mac.slot),
        _ => aifs,
    }
}

/// How long a transmission takes by the standard; `None` if only a lower limit is known.
fn duration(cell: &Cell, wifi: &Wifi, used: &MediumUse) -> Option<Duration> {
    let (sifs, control) = (cell.mac.sifs.0, control_rate(used.mcs, cell.mac.basic_rate.0));
    let bitmap = if wifi.block_ack_window > 64 { 32 } else { 8 };
    let (cts, block_ack) = (legacy(CTS, control), legacy(BLOCK_ACK + bitmap, control));
    let rts = legacy(RTS, control);
    let data = data_ns(wifi, used.mcs, used.bytes);
    let answer = |ns: Ns| if used.answered { sifs + ns } else { 0 };
    let before = if used.rts { rts + sifs + cts + sifs } else { 0 };
    let ns = match used.kind {
        UseKind::Aggregate => before + data + answer(block_ack),
        UseKind::Single => before + data + answer(cts),
        UseKind::Request => legacy(REQUEST, control) + answer(block_ack),
        UseKind::Rts => rts + answer(cts),
        UseKind::CfEnd => legacy(CF_END, 6),
        UseKind::Collision if used.rts => rts,
        UseKind::Collision if used.bytes == 0 => legacy(REQUEST, control),
        UseKind::Collision => data,
        UseKind::Beacon => legacy(BEACON, 6),
        UseKind::Others => return None,
    };
    Some(Duration(ns))
}

/// A frame of a legacy rate in Mbit/s (17.4.3): 16 bits of SERVICE and 6 of tail, symbols of 4 µs.
fn legacy(bytes: u64, mbps: u64) -> Ns {
    20_000 + 4_000 * (22 + 8 * bytes).div_ceil(4 * mbps)
}

/// Mbit/s of a control frame: the highest of 6, 12, 24 that is at most the basic rate and that of
/// the same modulation and coding (BPSK 1/2, QPSK 1/2, QPSK 3/4, the rest).
fn control_rate(mcs: u32, basic_bps: u64) -> u64 {
    let reference = [6, 12, 18].get(mcs as usize).copied().unwrap_or(24);
    let most = reference.min(basic_bps / 1_000_000);
    [24, 12].into_iter().find(|&rate| rate <= most).unwrap_or(6)
}

/// A PPDU with data.
fn data_ns(wifi: &Wifi, mcs: u32, bytes: u64) -> Ns {
    let streams = u64::from(wifi.streams);
    let guard = wifi.guard_interval.0;
    let is_ht = wifi.generation == Generation::Ht;
    let (subcarriers, symbol, preamble) = if wifi.generation == Generation::He {
        let count = match wifi.width {
            Width::Mhz20 => 234,
            Width::Mhz40 => 468,
            Width::Mhz80 => 980,
            Width::Mhz160 => 1_960,
        };
        let ltf = if guard == 3_200 { 16_000 } else { 6_400 + guard };
        (count, 12_800 + guard, 36_000 + ltf * ltfs(streams))
    } else {
        let count = match wifi.width {
            Width::Mhz20 => 52,
            Width::Mhz40 => 108,
            Width::Mhz80 => 234,
            Width::Mhz160 => 468,
        };
        // VHT has a SIG-B of one symbol besides.
        let fixed = if is_ht { 32_000 } else { 36_000 };
        (count, 3_200 + guard, fixed + 4_000 * ltfs(streams))
    };
    // Bits per subcarrier times twelve.
    let twelfths = [6, 12, 18, 24, 36, 48, 54, 60, 72, 80, 90, 100][mcs as usize];
    let per_symbol = subcarriers * streams * twelfths / 12;
    let encoders = match wifi.generation {
        Generation::Ht => per_symbol.div_ceil(1_200),
        Generation::Vht => per_symbol.div_ceil(2_160),
        Generation::He => 1,
    };
    let symbols = (16 + 8 * bytes + 6 * encoders).div_ceil(per_symbol);
    let short = if guard == 400 { 4_000 } else { 1 };
    preamble + (symbols * symbol).next_multiple_of(short)
}

/// Long training fields of a number of spatial streams (19.3.9.4.6, 21.3.8.3.5).
fn ltfs(streams: u64) -> u64 {
    [1, 2, 4, 4, 6, 6, 8, 8][streams as usize - 1]
}
