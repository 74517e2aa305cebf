//! What limited each flow, and for how long, in nanoseconds of its active measured time.

use lasthop::tcp::sender::Limit;
use lasthop::units::{Duration, Time};
use serde::{Deserialize, Serialize};

use crate::events::probe::Offer;

/// Shares of the active measured time by what prevented the flow from sending its next new byte.
/// They add up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct LimitShares {
    /// The congestion window, loss recovery included.
    pub cwnd: f64,
    /// The pacing rate.
    pub pacing: f64,
    /// The advertised receive window.
    pub receive_window: f64,
    /// The send buffer was full of data in flight.
    pub send_buffer: f64,
    /// The application had nothing more to send.
    pub application: f64,
    /// The buffer of a relay was full of data in flight.
    pub relay_buffer: f64,
    /// The congestion window, while an agent's full cache left segments unprotected.
    pub agent_cache: f64,
    /// The SYN had not been answered.
    pub handshake: f64,
    /// A notice of a link outage had frozen the sender.
    pub outage: f64,
}

/// The time that one sender spent under each limit.
#[derive(Clone, Copy, Debug)]
struct Account {
    limit: Limit,
    since: Time,
    spent: [Duration; Limit::COUNT],
}

impl Account {
    const NEW: Account = Account {
        limit: Limit::Application,
        since: Time::ZERO,
        spent: [Duration::ZERO; Limit::COUNT],
    };

    fn change(&mut self, limit: Limit, now: Time, (from, until): (Time, Time)) {
        let spent = &mut self.spent[self.limit as usize];
        *spent = *spent + now.min(until).since(self.since.max(from));
        (self.limit, self.since) = (limit, now);
    }

    fn shares(mut self, span: (Time, Time)) -> Option<LimitShares> {
        self.change(self.limit, span.1, span);
        let total: u64 = self.spent.iter().map(|d| d.0).sum();
        let share = |limit: Limit| self.spent[limit as usize].0 as f64 / total as f64;
        (total > 0).then(|| LimitShares {
            cwnd: share(Limit::Cwnd),
            pacing: share(Limit::Pacing),
            receive_window: share(Limit::ReceiveWindow),
            send_buffer: share(Limit::SendBuffer),
            application: share(Limit::Application),
            relay_buffer: share(Limit::RelayBuffer),
            agent_cache: share(Limit::AgentCache),
            handshake: share(Limit::Handshake),
            outage: share(Limit::Outage),
        })
    }
}

/// The limits of a flow, updated on changes only.
#[derive(Clone, Debug)]
pub struct FlowLimits {
    /// Active measured time.
    from: Time,
    until: Time,
    /// What limits the server's sender, relay and agents left out of account.
    server: Limit,
    offer: Offer,
    cache_binds: bool,
    /// The flow from end to end.
    flow: Account,
    /// The relay's sender, once it has had a limit.
    relay: Option<Box<Account>>,
}

impl FlowLimits {
    /// A flow without data yet, measured from `from` until `until`.
    pub fn new(from: Time, until: Time) -> Self {
        let (server, offer) = (Limit::Application, Offer::Own);
        FlowLimits {
            from,
            until,
            server,
            offer,
            cache_binds: false,
            flow: Account::NEW,
            relay: None,
        }
    }

    /// Measures the flow from `from` on. Nothing may have been written to it yet.
    pub fn start(&mut self, from: Time) {
        self.from = from;
    }

    /// Ends the measurement: the flow is complete.
    pub fn end(&mut self, at: Time) {
        self.until = self.until.min(at);
    }

    /// The limit of one of the flow's senders has changed: the server's, or the relay's.
    #[inline(never)]
    pub fn sender(&mut self, now: Time, of_relay: bool, limit: Limit) {
        if of_relay {
            let relay = self.relay.get_or_insert_with(|| Box::new(Account::NEW));
            relay.change(limit, now, (self.from, self.until));
        } else {
            self.server = limit;
        }
        self.update(now);
    }

    /// The window offered to the server has changed.
    pub fn offer(&mut self, now: Time, offer: Offer) {
        if offer != self.offer {
            self.offer = offer;
            self.update(now);
        }
    }

    /// An agent's cache begins or ceases to limit the flow.
    pub fn cache(&mut self, now: Time, binds: bool) {
        if binds != self.cache_binds {
            self.cache_binds = binds;
            self.update(now);
        }
    }

    fn update(&mut self, now: Time) {
        let limit = self.of_path();
        if limit != self.flow.limit {
            self.flow.change(limit, now, (self.from, self.until));
        }
    }

    /// What prevents the server from sending its next new byte, traced to its origin. A relay
    /// closes its window because its own sender may not send the buffered data, or, if that has
    /// nothing to send, because the buffer is too small.
    fn of_path(&self) -> Limit {
        let relay = self.relay.as_ref().map_or(Limit::Application, |relay| relay.limit);
        match (self.server, self.offer) {
            (Limit::ReceiveWindow, Offer::Own) => Limit::ReceiveWindow,
            (Limit::ReceiveWindow, _) if relay != Limit::Application => relay,
            (Limit::ReceiveWindow, Offer::Buffer) => Limit::RelayBuffer,
            (Limit::Cwnd, _) if self.cache_binds => Limit::AgentCache,
            (limit, _) => limit,
        }
    }

    /// Shares of the flow; `None` if its active measured time is zero.
    pub fn shares(&self) -> Option<LimitShares> {
        self.flow.shares((self.from, self.until))
    }

    /// Shares of the relay's sender.
    pub fn relay_shares(&self) -> Option<LimitShares> {
        self.relay.as_deref().unwrap_or(&Account::NEW).shares((self.from, self.until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time::ZERO + Duration::secs(s)
    }

    #[test]
    fn only_time_between_start_and_end_counts() {
        let mut limits = FlowLimits::new(at(10), at(50));
        assert_eq!(FlowLimits::new(at(5), at(5)).shares(), None);
        limits.sender(at(5), false, Limit::Handshake);
        limits.sender(at(12), false, Limit::Cwnd);
        limits.end(at(30));
        limits.sender(at(40), false, Limit::Application);
        limits.sender(at(60), false, Limit::Cwnd);
        let shares = limits.shares().unwrap();
        assert_eq!((shares.handshake, shares.cwnd, shares.application), (0.1, 0.9, 0.0));
    }

    #[test]
    fn a_full_relay_passes_on_what_limits_its_own_sender() {
        let mut limits = FlowLimits::new(at(0), at(100));
        limits.sender(at(0), false, Limit::ReceiveWindow);
        limits.offer(at(10), Offer::Buffer);
        limits.sender(at(30), true, Limit::Cwnd);
        limits.sender(at(60), true, Limit::Application);
        limits.offer(at(90), Offer::Steered);
        let shares = limits.shares().unwrap();
        assert_eq!((shares.receive_window, shares.relay_buffer, shares.cwnd), (0.2, 0.5, 0.3));
        let relay = limits.relay_shares().unwrap();
        assert_eq!((relay.application, relay.cwnd), (0.7, 0.3));
    }

    #[test]
    fn a_cache_counts_only_while_the_congestion_window_limits() {
        let mut limits = FlowLimits::new(at(0), at(10));
        limits.cache(at(0), true);
        limits.sender(at(4), false, Limit::Cwnd);
        limits.cache(at(9), false);
        let shares = limits.shares().unwrap();
        assert_eq!((shares.application, shares.agent_cache, shares.cwnd), (0.4, 0.5, 0.1));
    }
}
