//! Which schemes can run on a gateway.

use lasthop::agent::{Agent, Subscriptions};
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

/// The agent of a scheme.
///
/// # Errors
///
/// [`Refused`] if the scheme needs more than readable packets of both directions at one node.
///
/// # Examples
///
/// ```
/// use lasthop::schemes::catalogue::SchemeChoice;
/// use lasthop_live::gateway::agent_of;
///
/// assert!(agent_of(&SchemeChoice::parse("snoop").unwrap().scheme).is_ok());
/// let refused = agent_of(&SchemeChoice::parse("i-tcp").unwrap().scheme).err().unwrap();
/// assert!(refused.to_string().contains("splits the connection"));
/// ```
pub fn agent_of(scheme: &Scheme) -> Result<AnyAgent, Refused> {
    checked(scheme).map_err(|reason| {
        let known = all().into_iter().filter(|s| checked(s).is_ok());
        let known = known.map(|s| s.name().to_string()).collect::<Vec<_>>().join(", ");
        Refused { scheme: scheme.name().to_string(), reason, known }
    })
}

/// What only a link layer can report. Agents that subscribe to `REFUSED` can do without it.
const REPORTED: Subscriptions = Subscriptions::STEPS
    .with(Subscriptions::DISCARDED)
    .with(Subscriptions::DAMAGED)
    .with(Subscriptions::INCOMPLETE)
    .with(Subscriptions::CHANGES)
    .with(Subscriptions::RETRIED);

fn checked(scheme: &Scheme) -> Result<AnyAgent, &'static str> {
    if scheme.relay().is_some() {
        return Err("splits the connection, for which a gateway would need a relay");
    }
    if scheme.framing().is_some() {
        return Err("changes the frames of the link layer");
    }
    let Some(agent) = scheme.agent() else {
        return Err("changes the ends of a connection, which here are other machines");
    };
    if scheme.entry().is_some_and(|entry| entry.changes.sender || entry.changes.receiver) {
        return Err("also changes the ends of a connection, which here are other machines");
    }
    if agent.is_passive() || agent.subscribes().any(REPORTED) {
        return Err(
            "needs the link layer to report what becomes of frames, which a router is not \
                    told",
        );
    }
    Ok(agent)
}
