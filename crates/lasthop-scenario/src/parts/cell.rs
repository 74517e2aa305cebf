//! `[[cell]]`: a medium that several nodes share. Types, checks and defaults, and the part of the
//! network built from it.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::air::{LossForm, check_loss};
use super::checks::{Checked, MAX_PACKET, bytes_within, check_name};
use super::outage::{OutageForm, outages};
use super::queue::{QueueForm, QueueSpec, check_queue};
use crate::network::{Link, Network};
use crate::text::brace_expansion::names;
use crate::text::errors::ErrorKind;
use crate::text::shorthand::some_form;
use crate::text::tree::{Path, Tree};
use lasthop_channel::air::config::DelayConfig;
use lasthop_channel::air::config::{LossConfig, OutageConfig, OutageRule, RateConfig};
use lasthop_channel::link::cell::config::{CellConfig, Place, StationConfig};
use lasthop_channel::link::cell::mac::{
    Access, AfterCollision, Mac, MacKeys, MacName, Preamble, PreambleName,
};
use lasthop_channel::link::cell::phy::LEGACY_RATES;
use lasthop_channel::link::cell::wifi::{RateRule, Wifi, WifiKeys};
use lasthop_channel::link::impairment::Impairments;
use lasthop_channel::queue::QueueConfig;
use lasthop_core::units::{Duration, QueueLimit, Rate, Size};

/// An access point and 2,000 stations. More are a mistake, or need another simulator.
const MAX_MEMBERS: usize = 2_001;
/// Contention windows of more slots take minutes.
const MAX_WINDOW: u32 = 65_535;
/// No aggregate is longer.
const LONGEST_PSDU: u64 = 7_000_000;
/// More attempts are not a limit.
const MAX_ATTEMPTS: u32 = 1_000_000;

/// A medium that several nodes share.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// Name that `--set` uses. Default: its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its nodes; in an 802.11 cell the access point comes first. "n{1..5}" stands for n1, n2, n3,
    /// n4, n5.
    #[serde(deserialize_with = "names")]
    pub members: Vec<String>,
    /// Medium access control.
    #[serde(flatten)]
    pub mac: MacKeys,
    /// PHY and aggregation of 802.11n, 802.11ac and 802.11ax.
    #[serde(flatten)]
    pub wifi: WifiKeys,
    /// Signal-to-noise ratio of data, dB per subcarrier and stream, from which the errors of MPDUs
    /// follow, beside those of `loss` ("802.11n" and its successors). Default: no errors by noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snr_db: Option<f64>,
    /// Spans in which other networks occupy the medium, such as { from = "2 s", length = "150 ms",
    /// every = "1 s", times = 10 } ("802.11n" and its successors). Default: none.
    #[serde(default, deserialize_with = "outages", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OutageForm>")]
    pub busy: Option<Vec<OutageConfig>>,
    /// Queue of each member. Default: the profile's (ns-2: 49 packets; `linux` and `rfc`: 250
    /// packets).
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<QueueForm>")]
    pub queue: Option<QueueSpec>,
    /// Loss on the air, drawn once for each frame on its way to or from a station. Default: none.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LossForm>")]
    pub loss: Option<LossConfig>,
    /// Settings of the direction to the stations.
    #[serde(default, skip_serializing_if = "DirectionSpec::is_empty")]
    pub down: DirectionSpec,
    /// Settings of the direction from the stations.
    #[serde(default, skip_serializing_if = "DirectionSpec::is_empty")]
    pub up: DirectionSpec,
    /// Settings of single members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub station: Vec<StationSpec>,
}

/// One direction of the air around a station.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectionSpec {
    /// Loss on the air.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LossForm>")]
    pub loss: Option<LossConfig>,
}

impl DirectionSpec {
    fn is_empty(&self) -> bool {
        self.loss.is_none()
    }
}

/// A member of a cell that differs from the others.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StationSpec {
    /// Its node.
    pub name: String,
    /// Its queue.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<QueueForm>")]
    pub queue: Option<QueueSpec>,
    /// Loss on the air in both directions.
    #[serde(default, deserialize_with = "some_form", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LossForm>")]
    pub loss: Option<LossConfig>,
    /// Settings of the direction to it.
    #[serde(default, skip_serializing_if = "DirectionSpec::is_empty")]
    pub down: DirectionSpec,
    /// Settings of the direction from it.
    #[serde(default, skip_serializing_if = "DirectionSpec::is_empty")]
    pub up: DirectionSpec,
    /// Bytes added to each frame that it sends, besides those of the MAC. Default: 0 B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Size>,
    /// MCS of data to and from it ("802.11n" and its successors): a station that is far away has a
    /// low one. Default: that of the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcs: Option<u32>,
    /// Signal-to-noise ratio of data to and from it, dB ("802.11n" and its successors). Default:
    /// that of the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snr_db: Option<f64>,
    /// Spans in which the station neither receives nor is received.
    #[serde(default, deserialize_with = "outages", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OutageForm>")]
    pub outage: Option<Vec<OutageConfig>>,
}

impl CellSpec {
    /// Its name in messages.
    pub fn label(&self, i: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("cell {}", i + 1))
    }

    /// Settings of 802.11n and its successors; `None` for other cells.
    fn wifi(&self) -> Option<Wifi> {
        self.wifi.wifi(self.mac.mac.unwrap_or_default())
    }

    /// All values of the MAC. Those of 802.11n and its successors depend on the access category,
    /// and the data rate is that of the fastest station.
    fn all_mac(&self) -> Mac {
        let mut mac = self.mac.mac();
        let Some(wifi) = self.wifi() else { return mac };
        let (_, cw_min, cw_max, _) = wifi.access_category.parameters();
        mac.cw_min = self.mac.cw_min.unwrap_or(cw_min);
        mac.cw_max = self.mac.cw_max.unwrap_or(cw_max.max(mac.cw_min));
        mac.difs = mac.sifs + mac.slot * u64::from(wifi.aifsn);
        let fastest = match wifi.rate_rule {
            RateRule::Ideal | RateRule::MinstrelHt => Some(wifi.generation.largest_mcs()),
            RateRule::Fixed => self.station.iter().filter_map(|s| s.mcs).chain([wifi.mcs]).max(),
        };
        mac.data_rate = wifi.phy(fastest.unwrap_or(wifi.mcs)).rate();
        mac
    }

    /// The access point, if it has one.
    pub fn access_point(&self) -> Option<&String> {
        self.members.first().filter(|_| self.mac.mac.unwrap_or_default().has_access_point())
    }
}

/// Checks the values of all cells.
pub fn check(cells: &[CellSpec], tree: &Tree<'_>) -> Checked {
    for (i, cell) in cells.iter().enumerate() {
        let at = Path::key("cell").at(i);
        check_name(cell.name.as_deref(), "cell", &at, tree)?;
        if cell.name.is_some() && cells[..i].iter().any(|c| c.name == cell.name) {
            let kind = ErrorKind::DuplicateName { what: "cell", name: cell.label(i) };
            return Err(tree.error(&at.at("name"), kind));
        }
        check_members(cell, &at, tree)?;
        check_wifi(cell, &at, tree)?;
        check_mac(&cell.mac, &cell.all_mac(), &at, tree)?;
        check_air(&cell.queue, &cell.loss, &cell.down, &cell.up, &at, tree)?;
        check_stations(cell, &at, tree)?;
    }
    Ok(())
}

fn check_members(cell: &CellSpec, at: &Path, tree: &Tree<'_>) -> Checked {
    let fail = |message: String| Err(tree.wrong(&at.at("members"), message));
    let members = &cell.members;
    if !(2..=MAX_MEMBERS).contains(&members.len()) {
        return fail(format!("a cell has 2 to {MAX_MEMBERS} members, found {}", members.len()));
    }
    if members.iter().any(|m| m.trim().is_empty()) {
        return fail("a node needs a name that is not empty".into());
    }
    let mut seen = HashSet::new();
    match (0..members.len()).find(|&i| !seen.insert(&members[i])) {
        Some(i) => Err(tree.error(
            &at.at("members"),
            ErrorKind::ListedTwice { what: "node", name: members[i].clone() },
        )),
        None => Ok(()),
    }
}

fn check_stations(cell: &CellSpec, at: &Path, tree: &Tree<'_>) -> Checked {
    for (s, station) in cell.station.iter().enumerate() {
        let here = at.at("station").at(s);
        if !cell.members.contains(&station.name) {
            let kind =
                ErrorKind::NotAMember { name: station.name.clone(), members: cell.members.clone() };
            return Err(tree.error(&here.at("name"), kind));
        }
        if cell.station[..s].iter().any(|o| o.name == station.name) {
            let kind = ErrorKind::ListedTwice { what: "station", name: station.name.clone() };
            return Err(tree.error(&here.at("name"), kind));
        }
        check_air(&station.queue, &station.loss, &station.down, &station.up, &here, tree)?;
        bytes_within(station.overhead, 0..=MAX_PACKET, "overhead", &here, tree)?;
        if station.outage.iter().flatten().any(|o| o.frames == OutageRule::Held) {
            let message = "a station that is out of reach holds no frames back: write frames = \
                           \"lost-at-sending\"";
            return Err(tree.conflict(&here.at("outage"), message));
        }
    }
    Ok(())
}

fn check_air(
    queue: &Option<QueueSpec>,
    loss: &Option<LossConfig>,
    down: &DirectionSpec,
    up: &DirectionSpec,
    at: &Path,
    tree: &Tree<'_>,
) -> Checked {
    check_queue(queue.as_ref(), at, tree)?;
    for (loss, at) in [
        (loss, at.at("loss")),
        (&down.loss, at.at("down").at("loss")),
        (&up.loss, at.at("up").at("loss")),
    ] {
        if let Some(loss) = loss {
            check_loss(loss).map_err(|e| tree.error(&at, e))?;
        }
    }
    Ok(())
}

/// The keys of the MAC, in the order in which a file's first mistake is reported.
fn check_mac(keys: &MacKeys, mac: &Mac, at: &Path, tree: &Tree<'_>) -> Checked {
    check_times(mac, at, tree)?;
    check_attempts(mac, at, tree)?;
    check_access(mac, at, tree)?;
    check_legacy_rates(keys, mac, at, tree)?;
    check_window(mac, keys.cw_max.is_some(), at, tree)?;
    if mac.preamble == Preamble::Named(PreambleName::Short) && mac.basic_rate < Rate(2_000_000) {
        let message = format!(
            "with a short preamble nothing is sent at less than 2 Mbps, and basic_rate is {}",
            mac.basic_rate
        );
        return Err(tree.conflict(&at.at("preamble"), message));
    }
    bytes_within(keys.overhead, 0..=MAX_PACKET, "overhead", at, tree)?;
    let longest = if mac.mac.generation().is_some() { LONGEST_PSDU } else { MAX_PACKET };
    bytes_within(keys.rts_threshold, 0..=longest, "rts_threshold", at, tree)
}

/// The keys of 802.11n and its successors: only in their cells, and with values that the standard
/// has.
fn check_wifi(cell: &CellSpec, at: &Path, tree: &Tree<'_>) -> Checked {
    let conflict = |key: &str, message: &str| Err(tree.conflict(&at.at(key), message.to_string()));
    let Some(wifi) = cell.wifi() else {
        let message = "goes with mac = \"802.11n\", \"802.11ac\" or \"802.11ax\"";
        if let Some(s) = cell.station.iter().position(|s| s.mcs.is_some()) {
            return Err(tree.conflict(&at.at("station").at(s).at("mcs"), message.to_string()));
        }
        if let Some(s) = cell.station.iter().position(|s| s.snr_db.is_some()) {
            return Err(tree.conflict(&at.at("station").at(s).at("snr_db"), message.to_string()));
        }
        let snr = cell.snr_db.map(|_| "snr_db");
        let first = cell.wifi.first().or(snr).or(cell.busy.as_ref().map(|_| "busy"));
        return first.map_or(Ok(()), |key| conflict(key, message));
    };
    check_snr(cell, &wifi, at, tree)?;
    if cell.busy.iter().flatten().any(|o| o.frames != OutageRule::Held) {
        return conflict("busy", "no frames are lost in these spans: leave out `frames`");
    }
    let keys = &cell.mac;
    if keys.data_rate.is_some() {
        return conflict("data_rate", "follows from width, streams, mcs and guard_interval");
    }
    if keys.preamble.is_some() {
        return conflict("preamble", "is that of the standard");
    }
    if keys.difs.is_some() {
        return conflict("difs", "write aifsn, the slots that follow sifs");
    }
    if keys.link_acks == Some(false) {
        return conflict("link_acks", "every frame is acknowledged");
    }
    if keys.access == Some(Access::CsmaCa) {
        return conflict("access", "\"csma-ca\" goes with mac = \"csma-lan\"");
    }
    if keys.after_collision == Some(AfterCollision::Ns2) {
        return conflict("after_collision", "\"ns-2\" goes with mac = \"802.11b\"");
    }
    wifi.check().map_err(|(key, message)| tree.wrong(&at.at(key), message))?;
    for (s, mcs) in cell.station.iter().enumerate().filter_map(|(s, t)| Some((s, t.mcs?))) {
        let at = at.at("station").at(s).at("mcs");
        wifi.phy(mcs).check().map_err(|(_, message)| tree.wrong(&at, message))?;
    }
    Ok(())
}

/// The signal-to-noise ratios, and the rate rule that needs them.
fn check_snr(cell: &CellSpec, wifi: &Wifi, at: &Path, tree: &Tree<'_>) -> Checked {
    let of_stations = cell.station.iter().enumerate();
    let places = of_stations.map(|(s, t)| (t.snr_db, at.at("station").at(s).at("snr_db")));
    for (snr, at) in places.chain([(cell.snr_db, at.at("snr_db"))]) {
        if let Some(snr) = snr.filter(|snr| !(-20.0..=100.0).contains(snr)) {
            return Err(tree.wrong(&at, format!("must lie between -20 and 100 dB, found {snr}")));
        }
    }
    let has_own =
        |name: &String| cell.station.iter().any(|s| s.name == *name && s.snr_db.is_some());
    let all = cell.snr_db.is_some() || cell.members.iter().skip(1).all(has_own);
    let rule = match wifi.rate_rule {
        RateRule::Fixed => return Ok(()),
        RateRule::Ideal => "ideal",
        RateRule::MinstrelHt => "minstrel-ht",
    };
    if !all {
        let message = format!("\"{rule}\" needs snr_db, of the cell or of each station");
        return Err(tree.conflict(&at.at("rate_rule"), message));
    }
    if wifi.rate_rule == RateRule::MinstrelHt && wifi.fallback > 0 {
        let message = "\"minstrel-ht\" has its own retry chain".to_string();
        return Err(tree.conflict(&at.at("fallback"), message));
    }
    Ok(())
}

/// Rates, and the times before, between and after frames.
fn check_times(mac: &Mac, at: &Path, tree: &Tree<'_>) -> Checked {
    let fail = |key: &str, message: String| Err(tree.wrong(&at.at(key), message));
    let conflict = |key: &str, message: String| Err(tree.conflict(&at.at(key), message));
    for (key, rate) in [("data_rate", mac.data_rate), ("basic_rate", mac.basic_rate)] {
        if rate == Rate(0) {
            return fail(key, "a rate must be above 0".into());
        }
    }
    for (key, time) in [("slot", mac.slot), ("difs", mac.difs)] {
        if !(Duration::micros(1)..=Duration::secs(1)).contains(&time) {
            return fail(key, format!("must lie between 1 us and 1 s, found {time}"));
        }
    }
    for (key, time) in [("sifs", mac.sifs), ("preamble", mac.preamble.time())] {
        if time > Duration::secs(1) {
            return fail(key, format!("must be at most 1 s, found {time}"));
        }
    }
    if mac.delay > mac.difs {
        return conflict(
            "delay",
            format!(
                "must be at most difs = {}, so that frames arrive before the next one ends, found \
                 {}",
                mac.difs, mac.delay
            ),
        );
    }
    if mac.difs < mac.sifs {
        return conflict(
            "difs",
            format!(
                "must not be shorter than sifs = {}, found {}: nobody may send before a link ACK",
                mac.sifs, mac.difs
            ),
        );
    }
    Ok(())
}

/// The rates of 802.11a and 802.11g, and what follows from their PHY.
fn check_legacy_rates(keys: &MacKeys, mac: &Mac, at: &Path, tree: &Tree<'_>) -> Checked {
    if !mac.mac.has_legacy_rates() {
        return Ok(());
    }
    if !LEGACY_RATES.contains(&mac.data_rate) {
        let message =
            format!("must be 6, 9, 12, 18, 24, 36, 48 or 54 Mbps, found {}", mac.data_rate);
        return Err(tree.wrong(&at.at("data_rate"), message));
    }
    if mac.basic_rate < LEGACY_RATES[0] {
        let message = format!("must be at least 6 Mbps, found {}", mac.basic_rate);
        return Err(tree.wrong(&at.at("basic_rate"), message));
    }
    if keys.preamble.is_some() {
        return Err(tree.conflict(&at.at("preamble"), "is that of the standard"));
    }
    Ok(())
}

/// How often a frame is sent, and what tells its sender that it must be sent again.
fn check_attempts(mac: &Mac, at: &Path, tree: &Tree<'_>) -> Checked {
    let at = at.at("attempts");
    if !(1..=MAX_ATTEMPTS).contains(&mac.attempts) {
        let message = format!(
            "must lie between 1 (each frame is sent once) and {MAX_ATTEMPTS}, found {}",
            mac.attempts
        );
        return Err(tree.wrong(&at, message));
    }
    if mac.attempts > 1 && !mac.link_acks {
        let message = format!(
            "without link ACKs nobody knows what to send again: must be 1, found {}",
            mac.attempts
        );
        return Err(tree.conflict(&at, message));
    }
    Ok(())
}

/// When a station may send: the kind of access, and what goes with it.
fn check_access(mac: &Mac, at: &Path, tree: &Tree<'_>) -> Checked {
    if mac.access == Access::CsmaCa
        && (mac.link_acks || mac.after_collision != AfterCollision::Difs)
    {
        let message = "\"csma-ca\" has no link ACKs: it needs mac = \"csma-lan\" with \
                       after_collision = \"difs\"";
        return Err(tree.conflict(&at.at("access"), message));
    }
    if mac.max_deferrals == 1 || (mac.max_deferrals > 0 && mac.access != Access::CsmaCa) {
        let message = format!(
            "goes with access = \"csma-ca\", and must be 0 (no limit) or at least 2, found {}",
            mac.max_deferrals
        );
        return Err(tree.conflict(&at.at("max_deferrals"), message));
    }
    Ok(())
}

/// The contention window. `sets_max`: the file sets its upper limit, and not only the lower one.
fn check_window(mac: &Mac, sets_max: bool, at: &Path, tree: &Tree<'_>) -> Checked {
    let fail = |key: &str, message: String| Err(tree.wrong(&at.at(key), message));
    if !(1..=MAX_WINDOW).contains(&mac.cw_min) {
        return fail(
            "cw_min",
            format!("must lie between 1 and {MAX_WINDOW} slots, found {}", mac.cw_min),
        );
    }
    if !(mac.cw_min..=MAX_WINDOW).contains(&mac.cw_max) {
        let key = if sets_max { "cw_max" } else { "cw_min" };
        return fail(
            key,
            format!(
                "cw_max must lie between cw_min = {} and {MAX_WINDOW} slots, found {}",
                mac.cw_min, mac.cw_max
            ),
        );
    }
    Ok(())
}

/// Fills in the defaults of a cell; true if the queue was one of them.
pub fn fill(cell: &mut CellSpec, packets: u64) -> bool {
    let mac = cell.all_mac().keys();
    cell.mac = match cell.wifi() {
        None => mac,
        Some(wifi) => {
            cell.wifi = wifi.keys();
            MacKeys { data_rate: None, preamble: None, difs: None, ..mac }
        }
    };
    if cell.mac.mac.is_some_and(MacName::has_legacy_rates) {
        cell.mac.preamble = None;
    }
    cell.loss.get_or_insert(LossConfig::None);
    let open = cell.queue.is_none();
    cell.queue.get_or_insert(QueueConfig::drop_tail(QueueLimit::Packets(packets)).into());
    open
}

/// Adds a filled cell to the network.
pub fn add(network: &mut Network, spec: &CellSpec, i: usize) {
    let stations = spec.members.iter().map(|name| station(network, spec, name)).collect();
    let (name, mac, wifi) = (spec.label(i), spec.all_mac(), spec.wifi());
    let busy = spec.busy.clone().unwrap_or_default();
    network.cells.push(CellConfig { name, mac, wifi, busy, stations });
}

/// Adds a one-way link for a pair of members.
pub fn add_pair(network: &mut Network, place: Place) {
    let cell = &network.cells[place.cell as usize];
    let [from, to] = [place.from, place.to].map(|member| &cell.stations[member as usize]);
    let link = pair(&cell.mac, cell.name.clone(), from, to, place);
    network.links.push(link);
}

/// The queue of a member; its limit is missing as long as it depends on the network.
fn queue_of(cell: &CellSpec, name: &str) -> QueueConfig {
    let own = cell.station.iter().find(|s| s.name == *name).and_then(|s| s.queue.as_ref());
    own.or(cell.queue.as_ref()).map(|q| q.config.clone()).unwrap_or_default()
}

/// Gives the members of the cell the queues of the file, whose limits are known by now.
pub fn set_queues(network: &mut Network, spec: &CellSpec, i: usize) {
    let Network { cells, links, nodes, .. } = network;
    for station in &mut cells[i].stations {
        station.queue = queue_of(spec, &nodes[usize::from(station.node)].name);
    }
    for link in links {
        if let Some(place) = link.cell.filter(|p| p.cell as usize == i) {
            link.queue = cells[i].stations[place.from as usize].queue.clone();
        }
    }
}

fn station(network: &Network, cell: &CellSpec, name: &String) -> StationConfig {
    let own = cell.station.iter().find(|s| s.name == *name).cloned().unwrap_or_default();
    // Settings of the cell apply to its stations; without an access point, to what each member
    // receives.
    let is_station = cell.access_point().is_some_and(|ap| ap != name);
    let receives = is_station || cell.access_point().is_none();
    let general = |direction: &DirectionSpec, applies: bool| {
        direction.loss.clone().or_else(|| cell.loss.clone()).filter(|_| applies)
    };
    let loss = |own_way: &DirectionSpec, of_cell: Option<LossConfig>| {
        own_way.loss.clone().or_else(|| own.loss.clone()).or(of_cell).unwrap_or_default()
    };
    StationConfig {
        // The list of nodes contains every node that a cell names.
        node: network.node(name).unwrap_or_default(),
        queue: queue_of(cell, name),
        overhead: own.overhead.map_or(0, |o| o.bytes(1) as u32),
        down: loss(&own.down, general(&cell.down, receives)),
        up: loss(&own.up, general(&cell.up, is_station)),
        outages: own.outage.clone().unwrap_or_default(),
        mcs: own.mcs,
        snr_db: own.snr_db.or(cell.snr_db),
    }
}

/// A pair of members as a link, for routing.
fn pair(mac: &Mac, name: String, from: &StationConfig, to: &StationConfig, place: Place) -> Link {
    Link {
        name,
        from: from.node,
        to: to.node,
        radio: true,
        overhead: mac.overhead.bytes(1) as u32 + from.overhead,
        mtu: None,
        queue: from.queue.clone(),
        rate: RateConfig::Constant(mac.data_rate),
        trace: None,
        delay: DelayConfig::constant(Duration::ZERO),
        loss: LossConfig::None,
        outages: Vec::new(),
        arq: None,
        shaper: None,
        impairments: Impairments::default(),
        cell: Some(place),
    }
}
