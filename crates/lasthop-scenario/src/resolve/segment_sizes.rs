//! Segment sizes: that of the file, which has to fit the links of the flow's path, or the default,
//! or what the smallest MTU of the path leaves. It is constant in a run, as after a path MTU
//! discovery (RFC 1191) that has ended before the first data.

use super::defaults::Filled;
use super::endpoints::ends_in_turn;
use crate::network::{Link, Network};
use crate::parts::flow::FlowSpec;
use crate::parts::tcp::TcpSpec;
use crate::text::errors::ScenarioError;
use crate::text::tree::{Path, Tree};
use lasthop_core::units::Size;
use lasthop_schemes::catalogue::SchemeChoice;
use lasthop_tcp::profile::Profile;

/// The default of TCP: what an MTU of 1500 B leaves beside headers and timestamps, bytes.
const FULL: u32 = 1448;
/// Headers of a packet without options, unless the file gives them.
const HEADERS: Size = Size::Bytes(40);

/// The links that a flow uses in both directions, because an end advertises the MTU of the
/// link that it sends on.
struct PathMtu<'n> {
    /// The one with the smallest MTU, and that MTU in bytes.
    narrowest: Option<(&'n Link, u32)>,
    /// True if all of them have an MTU.
    is_complete: bool,
}

impl<'n> PathMtu<'n> {
    /// Of all flows of a `[[flow]]`.
    fn new(network: &'n Network, spec: &FlowSpec) -> Self {
        let both = |(a, b)| [network.path(a, b), network.path(b, a)].concat();
        let links = ends_in_turn(network, spec).into_iter().flat_map(both);
        let mut path = PathMtu { narrowest: None, is_complete: true };
        for link in links.map(|l| &network.links[l]) {
            match link.mtu {
                None => path.is_complete = false,
                Some(mtu) if path.narrowest.is_some_and(|(_, least)| least <= mtu) => {}
                Some(mtu) => path.narrowest = Some((link, mtu)),
            }
        }
        path
    }
}

/// Fills in the segment sizes of the file, and lists those that an MTU determines as assumed.
///
/// # Errors
///
/// A segment size of the file does not fit a link, or an MTU leaves no room for data.
pub fn settle(
    network: &mut Network,
    filled: &mut Filled,
    tree: &Tree<'_>,
) -> Result<(), ScenarioError> {
    let tcp = filled.file.tcp.clone();
    let mut assumed = Vec::new();
    for (i, spec) in filled.file.flow.iter_mut().enumerate() {
        let at = Path::key("flow").at(i);
        let path = PathMtu::new(network, spec);
        let own = spec.scheme.as_ref().and_then(|text| tree.scheme(text).ok());
        let scheme = own.as_ref().unwrap_or(&filled.scheme);
        if let Some(request) = spec.app.request() {
            check(("app.request", request), spec, &tcp, scheme, &path, &at, tree)?;
        }
        match spec.segment {
            Some(given) => check(("segment", given), spec, &tcp, scheme, &path, &at, tree)?,
            None => {
                let segment = default(spec, &tcp, &path, &at, tree)?;
                if let (true, Some((link, mtu))) = (segment.1, path.narrowest) {
                    let name = spec.name.clone().unwrap_or_else(|| format!("flow {}", i + 1));
                    assumed.push(format!(
                        "segment of {name}: {} B, from the MTU of {mtu} B of {}",
                        segment.0, link.name
                    ));
                }
                spec.segment = Some(Size::Bytes(segment.0.into()));
            }
        }
    }
    network.assumed.extend(assumed);
    Ok(())
}

fn profile_of(spec: &FlowSpec, tcp: &TcpSpec) -> Profile {
    // `defaults` has filled in all values of one of them.
    if spec.keys.profile.is_some() { spec.keys.profile() } else { tcp.keys.profile() }
}

fn headers_of(spec: &FlowSpec) -> u32 {
    spec.headers.unwrap_or(HEADERS).bytes(1) as u32
}

/// The segment size of a flow that gives none, and true if an MTU determines it. As the defaults of
/// 1448 B, it leaves room for the timestamps option, whether or not a scheme uses that.
fn default(
    spec: &FlowSpec,
    tcp: &TcpSpec,
    path: &PathMtu<'_>,
    at: &Path,
    tree: &Tree<'_>,
) -> Result<(u32, bool), ScenarioError> {
    let profile = profile_of(spec, tcp);
    let usual = match (spec.app.default_payload(), profile.profile.is_ns2()) {
        (Some(payload), _) => payload.bytes(1) as u32,
        (None, true) => 1000,
        (None, false) => FULL,
    };
    let Some((link, mtu)) = path.narrowest else { return Ok((usual, false)) };
    let options = if spec.app.is_datagrams() { 0 } else { profile.timestamp_bytes };
    let headers = headers_of(spec) + options;
    let room = mtu.saturating_sub(headers);
    if room == 0 {
        return Err(no_room(link, mtu, headers, at, tree));
    }
    // More than the default only if no link of the path may have an MTU of 1500 B.
    let fills = path.is_complete && usual == FULL && !spec.app.is_datagrams();
    let segment = if fills { room } else { usual.min(room) };
    Ok((segment, segment != usual))
}

/// Checks that packets with the payload of a key fit the links of a flow.
fn check(
    (key, given): (&str, Size),
    spec: &FlowSpec,
    tcp: &TcpSpec,
    scheme: &SchemeChoice,
    path: &PathMtu<'_>,
    at: &Path,
    tree: &Tree<'_>,
) -> Result<(), ScenarioError> {
    let Some((link, mtu)) = path.narrowest else { return Ok(()) };
    let profile = profile_of(spec, tcp);
    let profile = scheme.sender(&profile).profile(&profile);
    let stamped = profile.timestamps && !spec.app.is_datagrams();
    let headers = headers_of(spec) + if stamped { profile.timestamp_bytes } else { 0 };
    let room = mtu.saturating_sub(headers);
    match given.bytes(1) {
        _ if room == 0 => Err(no_room(link, mtu, headers, at, tree)),
        segment if segment <= room.into() => Ok(()),
        segment => {
            let message = format!(
                "at most {room} B fit the MTU of {mtu} B of `{}` beside {headers} B of headers, \
                 found {segment} B",
                link.name
            );
            Err(tree.wrong(&key.split('.').fold(at.clone(), |at, word| at.at(word)), message))
        }
    }
}

fn no_room(link: &Link, mtu: u32, headers: u32, at: &Path, tree: &Tree<'_>) -> ScenarioError {
    let message = format!(
        "the MTU of {mtu} B of `{}` leaves no room beside {headers} B of headers",
        link.name
    );
    tree.wrong(&at.at("headers"), message)
}
