//! Which ends of a live link are lasthop's own, so that a scheme which changes the ends of
//! connections runs on real packets.

use lasthop::leg::Relay;
use lasthop::scenario::network::Flow;
use lasthop::schemes::catalogue::Scheme;
use lasthop::tcp::ticks::clock_phase;
use lasthop_endpoint::{RelayEnd, Settings};
use thiserror::Error;

/// Which ends are lasthop's own; the others are those of the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnEnds {
    /// The server's.
    pub server: bool,
    /// The mobile's.
    pub mobile: bool,
}

/// Why a scheme cannot have these ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndsError {
    /// The scheme has a part at an end that is the operating system's.
    #[error("scheme `{0}` changes the {1} of connections: it needs `--ends {2}`")]
    Needed(String, &'static str, &'static str),
}

impl OwnEnds {
    /// True if any end is lasthop's own.
    pub fn any(self) -> bool {
        self.server || self.mobile
    }

    /// The ends that the scheme of a flow changes. `uploads`: the mobile is its sender.
    ///
    /// A scheme that measures by timestamps needs both: a kernel's have coarser ticks. So does one
    /// of L4S: most kernels do not count marks (AccECN).
    pub fn needed_by(flow: &Flow, uploads: bool) -> OwnEnds {
        let scheme = &flow.scheme.scheme;
        let part = flow.scheme.sender(&flow.profile);
        let (sender, receiver) = match scheme.entry().map(|entry| entry.changes) {
            // What has a part between the ends says which ends it changes.
            Some(changes) if is_between(scheme) => (changes.sender, changes.receiver),
            _ if scheme.recovery().is_none() || is_between(scheme) => return OwnEnds::default(),
            _ => {
                let needs = part.needs;
                (true, part.receiver().is_some() || needs.timestamps || needs.l4s)
            }
        };
        match uploads {
            false => OwnEnds { server: sender, mobile: receiver },
            true => OwnEnds { server: receiver, mobile: sender },
        }
    }

    /// The ends that a flow gets: those `asked` for, by default those `needed`.
    ///
    /// # Errors
    ///
    /// [`EndsError`] if the scheme needs other ones.
    pub fn choose(
        flow: &Flow,
        needed: OwnEnds,
        asked: Option<OwnEnds>,
    ) -> Result<OwnEnds, EndsError> {
        let ends = asked.unwrap_or(needed);
        let name = || flow.scheme.label.clone();
        match (needed.server && !ends.server, needed.mobile && !ends.mobile) {
            (false, false) => {}
            _ if needed.server && needed.mobile => {
                return Err(EndsError::Needed(name(), "both ends", "own,own"));
            }
            (true, _) => return Err(EndsError::Needed(name(), "server's end", "own,kernel")),
            (_, true) => return Err(EndsError::Needed(name(), "mobile's end", "kernel,own")),
        }
        Ok(ends)
    }
}

/// The scheme has a part between the ends.
fn is_between(scheme: &Scheme) -> bool {
    scheme.agent().is_some() || scheme.relay().is_some() || scheme.framing().is_some()
}

/// The settings of an own end: those of the simulated flow. A real program writes and reads. The
/// clock of timestamps is that of the link, at both ends.
pub fn settings(flow: &Flow, seed: u64) -> Settings {
    let settings = Settings::of_flow(flow, seed);
    Settings { profile: settings.profile.without_send_buffer(), hides_clock: false, ..settings }
}

/// The settings of the own end of a flow's data receiver, which a second leg may lead to.
pub fn receiver_settings(flow: &Flow, seed: u64) -> Settings {
    let is_second_leg = flow.scheme.scheme.relay().is_some();
    Settings { is_second_leg, ..settings(flow, seed) }
}

/// The settings of the two ends at a relay, those of the two simulated connections, given the
/// [`settings`] of an end.
pub fn leg_settings(own: &Settings, seed: u64, relay: &dyn Relay) -> (Settings, Settings) {
    let buffer = own.receive_buffer;
    let inbound = Settings {
        receive_buffer: relay.receive_window().map_or(buffer, |window| window.min(buffer)),
        relay: Some(RelayEnd::Inbound { first_window: relay.first_window() }),
        ..own.clone()
    };
    let (_, profile) = own.scheme.outbound(&own.profile);
    let outbound = Settings {
        is_second_leg: true,
        relay: Some(RelayEnd::Outbound),
        // The relay's buffer limits what waits, by the window of the other end.
        send_buffer: usize::MAX,
        clock_phase: clock_phase(&profile, seed, 1),
        draw: own.draw.wrapping_add(1),
        ..own.clone()
    };
    (inbound, outbound)
}
