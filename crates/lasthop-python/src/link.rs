//! Python binding for live links.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::Arc;

use lasthop::role::Role;
use lasthop::scenario::network::{Flow, Network};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::Direction;
use lasthop::units::{Duration, Time};
use lasthop_live::chain::{Chain, End, draw_by_frame};
use lasthop_live::device::Kind;
use lasthop_live::device::sender::{OwnSender, SenderReport};
use lasthop_live::host::{self, Behind, Commands, Done, EndSettings, Prepared, Server};
use lasthop_live::outer::Carried;
use lasthop_live::own_ends::{self, OwnEnds};
use lasthop_live::place::abilities::abilities;
use lasthop_live::place::{Ends, user};
use lasthop_live::pump::{PumpCounters, SAMPLE, Sample, Watcher};
use lasthop_wire::{CaptureWriter, Interface, LinkType};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::InputError;
use crate::foreign_run::RunContext;
use crate::scenario::Scenario;

/// A capture of the packets at both ends.
struct Capture(Option<CaptureWriter<File>>);

impl Capture {
    fn new(path: Option<PathBuf>) -> PyResult<Capture> {
        let Some(path) = path else { return Ok(Capture(None)) };
        let end = |name: &str| Interface {
            name: name.into(),
            description: format!("{name}'s end of the link (lasthop link)"),
            link_type: LinkType::RAW,
        };
        let named = |e: io::Error| {
            io::Error::new(e.kind(), format!("cannot write {}: {e}", path.display()))
        };
        let file = File::create(&path).map_err(named)?;
        let writer = CaptureWriter::new(file, &[end("server"), end("mobile")]);
        Ok(Capture(Some(writer.map_err(io::Error::other)?)))
    }

    fn finish(self) -> io::Result<()> {
        match self.0 {
            Some(writer) => writer.finish().map(drop).map_err(io::Error::other),
            None => Ok(()),
        }
    }
}

impl Watcher for Capture {
    fn packet(&mut self, now: Time, end: End, _: bool, bytes: &[u8]) -> io::Result<()> {
        let Some(writer) = &mut self.0 else { return Ok(()) };
        let interface = usize::from(end == End::Mobile);
        writer.write(interface, now, bytes, None).map_err(io::Error::other)
    }
}

/// A live link that is set up, and whose commands wait to be started.
#[pyclass(module = "lasthop._native", unsendable)]
pub struct PreparedLink(Option<Prepared>);

#[pymethods]
impl PreparedLink {
    /// Makes namespaces and devices. After it the process has the rights of the user who has called
    /// sudo, for good. Without `server`, the network of the caller is behind the link; with
    /// `own_sender` the core's own sender. `device`: "tun" or "packet"; None takes what can be had.
    #[new]
    #[pyo3(signature = (command, server, own_sender=false, congestion_control=None, sack=None,
        device=None))]
    fn new(
        command: Vec<OsString>,
        server: Vec<OsString>,
        own_sender: bool,
        congestion_control: Option<String>,
        sack: Option<bool>,
        device: Option<&str>,
    ) -> PyResult<PreparedLink> {
        let server = match own_sender {
            true => Server::Sender,
            false if server.is_empty() => Server::Outside,
            false => Server::Command(server),
        };
        let ends = Ends { congestion_control, sack };
        let commands = Commands { mobile: command, server, ends, device: device_kind(device)? };
        Ok(PreparedLink(Some(host::prepare(&commands)?)))
    }
}

/// Runs the commands of a link, once. If the scheme of the scenario has an agent, it runs on the
/// link; `needs_agent`: an error if it has none. `progress` is called with time (s), bits per
/// second downlink and uplink, and packets queued, about twice per second. `own_sender` (port,
/// bytes): the core's own sender, with the scheme and profile of the first flow, opens a connection
/// to this port of the mobile and sends these bytes. `own_ends` (server, mobile): ends whose TCP is
/// the core's own, with the scheme and profile of the first flow; `None`: if `needs_agent`, those
/// that the scheme changes. Returns JSON.
#[pyfunction]
#[pyo3(signature = (scenario, prepared, needs_agent=false, seed=1, pcap=None, progress=None,
    own_sender=None, own_ends=None))]
#[allow(clippy::too_many_arguments, reason = "keyword arguments in Python")]
pub fn link(
    py: Python<'_>,
    scenario: &Scenario,
    prepared: &mut PreparedLink,
    needs_agent: bool,
    seed: u64,
    pcap: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
    own_sender: Option<(u16, u64)>,
    own_ends: Option<(bool, bool)>,
) -> PyResult<String> {
    // The scheme of the flows, with the settings derived from their path.
    let run = RunContext::new(Arc::default(), false);
    let mut network = scenario.network_of(py, &run).into_owned();
    draw_by_frame(&mut network);
    let own = choose_ends(&network, needs_agent, own_ends)?;
    let choice = network.flows.first().map(|f| &f.scheme);
    let shown = choice.filter(|_| own.any());
    let choice = choice.filter(|c| {
        let has_oracle = network.flows.iter().any(|f| c.sender(&f.profile).needs.oracle);
        c.scheme.agent().is_some()
            || needs_agent && (!own.any() || c.scheme.relay().is_some() || has_oracle)
    });
    let chain =
        Chain::new(&network, choice, seed).map_err(|e| InputError::new_err(e.to_string()))?;
    let capture = Capture::new(pcap)?;
    let prepared =
        prepared.0.take().ok_or_else(|| InputError::new_err("this link has been used before"))?;
    let delay = chain.one_way_delay();
    let mut failure = None;
    let mut progress = Progress { report: progress, shown: 0 };
    // The chain stays on this thread: its packets are counted without atomics.
    let watch = |counters: Option<&PumpCounters>| {
        let result = run.take_error().map_or(Ok(()), Err);
        let result = result
            .and_then(|()| py.check_signals())
            .and_then(|()| counters.map_or(Ok(()), |c| progress.show(py, &c.samples)));
        result.map_err(|e| {
            failure = Some(e);
            io::ErrorKind::Interrupted.into()
        })
    };
    let sender = own_sender.zip(network.flows.first()).map(|((port, bytes), flow)| {
        let (server, mobile) = host::ends();
        let address = |ip| SocketAddrV4::new(ip, port);
        OwnSender::new(flow, seed, bytes, address(server.v4), address(mobile.v4))
    });
    let ends = end_settings(&network, own, seed);
    let done = host::run(prepared, chain, sender, ends, capture, watch);
    if let Some(error) = failure {
        return Err(error);
    }
    let (done, sender) = done?;
    let mut json = report(&done, delay.as_secs(), (choice.or(shown), own), seed);
    if let (Some(sender), Some(report)) = (sender, json.as_object_mut()) {
        report.insert("own_sender".into(), sender_report(&sender));
    }
    done.watcher.finish()?;
    Ok(json.to_string())
}

/// The mobile is the sender of the flow.
fn uploads(network: &Network, flow: &Flow) -> bool {
    let sender = network.nodes.get(usize::from(flow.from));
    sender.is_some_and(|node| node.role == Role::Station)
}

fn end_settings(network: &Network, own: OwnEnds, seed: u64) -> EndSettings {
    let Some(flow) = network.flows.first() else { return EndSettings::default() };
    let (sender, receiver) =
        (own_ends::settings(flow, seed), own_ends::receiver_settings(flow, seed));
    let (server, mobile) = match uploads(network, flow) {
        false => (sender, receiver),
        true => (receiver, sender),
    };
    EndSettings { server: own.server.then_some(server), mobile: own.mobile.then_some(mobile) }
}

/// The ends that are lasthop's own: those asked for, or those that the scheme changes, if it is to
/// have a part on the link.
fn choose_ends(
    network: &Network,
    has_part: bool,
    asked: Option<(bool, bool)>,
) -> PyResult<OwnEnds> {
    let asked = asked.map(|(server, mobile)| OwnEnds { server, mobile });
    let Some(flow) = network.flows.first() else { return Ok(OwnEnds::default()) };
    let needed = match has_part {
        true => OwnEnds::needed_by(flow, uploads(network, flow)),
        false => OwnEnds::default(),
    };
    OwnEnds::choose(flow, needed, asked).map_err(|e| InputError::new_err(e.to_string()))
}

fn device_kind(name: Option<&str>) -> PyResult<Kind> {
    match name {
        None => Ok(Kind::Automatic),
        Some("tun") => Ok(Kind::Tun),
        Some("packet") => Ok(Kind::Packet),
        Some(other) => {
            let text = format!("device: expected `tun` or `packet`, found `{other}`");
            Err(InputError::new_err(text))
        }
    }
}

/// The callback for progress, if there is one, and the number of samples that it has had.
struct Progress {
    report: Option<Py<PyAny>>,
    shown: usize,
}

impl Progress {
    /// Passes on the samples since the last call, once there are five.
    fn show(&mut self, py: Python<'_>, samples: &[Sample]) -> PyResult<()> {
        let Some(report) = &self.report else { return Ok(()) };
        if samples.len() < self.shown + 5 {
            return Ok(());
        }
        let recent = samples.get(self.shown..).unwrap_or_default();
        self.shown = samples.len();
        let span = SAMPLE.as_secs_f64() * recent.len() as f64;
        let bps = |direction: usize| {
            recent.iter().map(|s| s.bytes[direction]).sum::<u64>() as f64 * 8.0 / span
        };
        let last = recent.last().copied().unwrap_or_default();
        report.call1(py, (last.t, bps(0), bps(1), last.queued[0] + last.queued[1])).map(drop)
    }
}

/// What a link has done, with the keys of a simulated run where they exist there.
fn report(
    done: &Done<Capture>,
    one_way_delay: f64,
    (scheme, own): (Option<&SchemeChoice>, OwnEnds),
    seed: u64,
) -> Value {
    let Done { chain, counters, duration, .. } = done;
    let micros = |q: f64| counters.lateness.quantile(q).map(|ns| ns / 1e3);
    json!({
        "lasthop": env!("CARGO_PKG_VERSION"),
        "scheme": scheme.map_or("none", |s| &s.label),
        "seed": seed,
        "duration_s": duration.as_secs_f64(),
        "connections": chain.connections(),
        "first_connection_s": chain.first_connection().map(|t| t.as_secs()),
        "packets": chain.packets(),
        "links": link_reports(chain),
        "agents": agent_reports(chain, scheme),
        "relays": relay_reports(chain, scheme),
        "notices_taken": counters.notices_taken,
        "lateness_us": {
            "p50": micros(0.5),
            "p99": micros(0.99),
            "p99_9": micros(0.999),
            "max": counters.latest.as_secs_f64() * 1e6,
            "n": counters.written,
        },
        "real_time": done.real_time,
        "one_way_delay_s": one_way_delay,
        "own_drops": counters.own_drops.total(),
        "own_drop_reasons": {
            "not_read": counters.own_drops.not_read,
            "not_taken": counters.own_drops.not_taken,
        },
        "ends": {
            "congestion_control": done.congestion_control.default,
            "available": done.congestion_control.available,
            "own": { "server": own.server, "mobile": own.mobile },
        },
        "untouched": chain.untouched(),
        "device": if done.device == Kind::Packet { "packet" } else { "tun" },
        "outer_network": outer_network(&done.behind),
        "exit_status": done.exit_status,
        "series": {
            "columns": [
                "t_s", "down_bytes", "up_bytes", "down_queue", "up_queue", "down_transit_s",
                "up_transit_s",
            ],
            "rows": counters.samples.iter().map(series_row).collect::<Vec<_>>(),
        },
    })
}

fn link_reports(chain: &Chain) -> Vec<Value> {
    let hops = chain.hops().map(|hop| {
        let (from, to) = hop.name.split_once('>').unwrap_or((&hop.name, ""));
        json!({
            "from": from,
            "to": to,
            "direction": if hop.direction == Direction::Downlink { "down" } else { "up" },
            "offered_frames": hop.offered,
            "delivered_frames": hop.delivered,
            "lost_on_air": hop.lost,
            "frames_in_transit": hop.in_transit,
            "dropped_at_queue": hop.dropped,
            "filtered_frames": hop.filtered,
            "dropped_by_policer": hop.policed,
            "duplicated_frames": hop.duplicated,
            "corrupted_frames": hop.corrupted,
            "above_mtu": hop.above_mtu,
            "marked_frames": hop.marked,
            "bytes": hop.bytes,
        })
    });
    hops.collect()
}

fn agent_reports(chain: &Chain, scheme: Option<&SchemeChoice>) -> Vec<Value> {
    let agents = chain.agents().map(|stand| {
        let decisions = stand.decisions();
        let counters: serde_json::Map<_, _> =
            stand.counters().into_iter().map(|(k, n)| (k.to_string(), n.into())).collect();
        json!({
            "scheme": scheme.map_or("", |s| &s.label),
            "counters": counters,
            "notices": decisions.notices,
            "dropped": decisions.dropped,
        })
    });
    agents.collect()
}

/// The relay of each connection, if the scheme has one.
fn relay_reports(chain: &Chain, scheme: Option<&SchemeChoice>) -> Vec<Value> {
    let relays = chain.relay_counters().unwrap_or_default().into_iter().map(|counters| {
        let counters: serde_json::Map<_, _> =
            counters.into_iter().map(|(k, n)| (k.to_string(), n.into())).collect();
        json!({ "scheme": scheme.map_or("", |s| &s.label), "counters": counters })
    });
    relays.collect()
}

/// The columns of `series` at one sample.
fn series_row(sample: &Sample) -> Value {
    let Sample { t, bytes, packets, transit_ns, queued } = sample;
    let transit =
        |i: usize| (packets[i] > 0).then(|| transit_ns[i] as f64 / packets[i] as f64 / 1e9);
    json!([t, bytes[0], bytes[1], queued[0], queued[1], transit(0), transit(1)])
}

fn sender_report(SenderReport { completed, counters }: &SenderReport) -> Value {
    json!({
        "acked_s": completed.map(Duration::as_secs),
        "retransmissions": counters.retransmissions,
        "fast_retransmits": counters.fast_retransmits,
        "timeouts": counters.timeouts,
    })
}

/// The part of a report about the network outside; null if the link had a server.
fn outer_network(behind: &Behind) -> Value {
    match behind {
        Behind::Server => Value::Null,
        Behind::Nothing(reason) => json!({ "missing": reason }),
        Behind::Outside(Carried {
            connections,
            refused,
            beyond_limit,
            limit,
            datagrams,
            dropped,
        }) => json!({
            "missing": null,
            "connections": connections,
            "refused": refused,
            "beyond_limit": beyond_limit,
            "limit": limit,
            "datagrams": datagrams,
            "dropped": dropped,
        }),
    }
}

/// What of a live link this machine can do: name, purpose, why it is missing, whether it is
/// required. Then the addresses of server and mobile, IPv4 and IPv6.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "a list of rows")]
pub fn link_abilities() -> (Vec<(&'static str, &'static str, Option<String>, bool)>, Vec<String>) {
    let rows = abilities().into_iter().map(|a| (a.name, a.purpose, a.missing, a.required));
    let (server, mobile) = host::ends();
    let addresses = [server, mobile].into_iter().flat_map(|a| [a.v4.to_string(), a.v6.to_string()]);
    (rows.collect(), addresses.collect())
}

/// Runs a command in a new user namespace and returns its exit status.
#[pyfunction]
pub fn run_in_user_namespace(py: Python<'_>, command: Vec<OsString>) -> PyResult<i32> {
    Ok(py.detach(|| user::run(&command))?)
}
