//! Which schemes can run on a gateway.

use lasthop::agent::{Agent, Subscriptions};
use lasthop::leg::Relay;
use lasthop::schemes::catalogue::{AnyAgent, Scheme, all};
use thiserror::Error;

/// Why a scheme cannot run on a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("scheme `{scheme}` {reason}; schemes that run on a gateway: {known}")]
pub struct Refused {
    /// Name of the scheme.
    pub scheme: String,
    /// The reason, a predicate.
    pub reason: &'static str,
    /// Names of the schemes that can.
    pub known: String,
}

/// The part of a scheme that runs on a gateway.
pub enum Part {
    /// An agent, which sees the packets of connections.
    Agent(Box<AnyAgent>),
    /// A relay, of which each connection has one: connections end at the gateway.
    Relay(Box<dyn Relay>),
}

/// The part of a scheme that runs on a gateway. `has_radio`: the radio link reports its rate and
/// queue.
///
/// # Errors
///
/// [`Refused`] if the scheme needs more than readable packets of both directions at one node, and
/// these reports.
///
/// # Examples
///
/// ```
/// use lasthop::schemes::catalogue::SchemeChoice;
/// use lasthop_live::gateway::{Part, part_of};
///
/// let scheme = |name| SchemeChoice::parse(name).unwrap().scheme;
/// assert!(matches!(part_of(&scheme("snoop"), false), Ok(Part::Agent(_))));
/// assert!(matches!(part_of(&scheme("i-tcp"), false), Ok(Part::Relay(_))));
/// let refused = part_of(&scheme("rnf"), false).err().unwrap();
/// assert!(refused.to_string().contains("needs reports of the radio link"));
/// ```
pub fn part_of(scheme: &Scheme, has_radio: bool) -> Result<Part, Refused> {
    checked(scheme, has_radio).map_err(|reason| {
        let known = all().into_iter().filter(|s| checked(s, s.relay().is_some()).is_ok());
        let known = known.map(|s| s.name().to_string()).collect::<Vec<_>>().join(", ");
        Refused { scheme: scheme.name().to_string(), reason, known }
    })
}

const ALSO_ENDS: &str = "also changes the ends of a connection, which here are other machines";
/// What only a link layer can report. Agents that subscribe to `REFUSED` can do without it.
const REPORTED: Subscriptions = Subscriptions::STEPS
    .with(Subscriptions::DISCARDED)
    .with(Subscriptions::DAMAGED)
    .with(Subscriptions::INCOMPLETE)
    .with(Subscriptions::CHANGES)
    .with(Subscriptions::RETRIED);

fn checked(scheme: &Scheme, has_radio: bool) -> Result<Part, &'static str> {
    let changes_ends =
        scheme.entry().is_some_and(|entry| entry.changes.sender || entry.changes.receiver);
    if let Some(relay) = scheme.relay() {
        // Without a rule for the receiver, what a relay's protocol asks of that end is what TCP may
        // do anyway, such as ACKs that are not delayed.
        let changes_ends =
            scheme.entry().is_some_and(|entry| entry.changes.sender) || scheme.receiver().is_some();
        let link = scheme.agent().map_or(Subscriptions::NONE, |agent| agent.subscribes());
        return match link.any(Subscriptions::DEQUEUED) {
            _ if changes_ends => Err(ALSO_ENDS),
            true if !has_radio => Err("needs reports of the radio link (--radio PORT)"),
            _ => Ok(Part::Relay(relay)),
        };
    }
    if has_radio {
        return Err("has no use for reports of the radio link (--radio)");
    }
    if scheme.framing().is_some() {
        return Err("changes the frames of the link layer");
    }
    let Some(agent) = scheme.agent() else {
        return Err("changes the ends of a connection, which here are other machines");
    };
    if changes_ends {
        return Err(ALSO_ENDS);
    }
    if agent.is_passive() || agent.subscribes().any(REPORTED) {
        return Err(
            "needs the link layer to report what becomes of frames, which a router is not \
                    told",
        );
    }
    Ok(Part::Agent(agent.into()))
}
