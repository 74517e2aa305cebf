//! What keeps a sender from sending its next new byte.

use serde::Serialize;

use super::{Sender, State};
use crate::profile::CwndLimitedBy;
use crate::window::WindowRule;
use lasthop_core::units::Time;

/// What keeps a flow from sending its next new byte.
///
/// A sender alone knows `Application` to `Outage`; a host adds what stands between the ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Nothing to send: the application has written nothing more.
    #[default]
    Application,
    /// The SYN is not answered yet.
    Handshake,
    /// The congestion window, loss recovery included.
    Cwnd,
    /// The pacing rate: the window has room, and the next segment waits for its time.
    Pacing,
    /// The receive window that was advertised.
    ReceiveWindow,
    /// A notice of a link outage has frozen the sender.
    Outage,
    /// The buffer of a relay.
    RelayBuffer,
    /// The cache of an agent.
    AgentCache,
}

impl Limit {
    /// How many there are.
    pub const COUNT: usize = 8;
}

/// How far the sender has used cwnd in this round trip (Linux `tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CwndUsage {
    /// cwnd was full after a sending.
    full: bool,
    /// The most segments out while it was not full (`max_packets_out`).
    most_out: usize,
    /// The round trip ends when this byte is acknowledged.
    until: u64,
}

impl<W: WindowRule> Sender<W> {
    /// New data were to be sent: `sent` says whether any were, and `pipe` is what is in flight now
    /// (Linux `tcp_write_xmit`).
    #[inline]
    pub(crate) fn note_cwnd_usage(&mut self, sent: bool, pipe: u64) {
        if self.profile.cwnd_limited_by != CwndLimitedBy::PacketsOut {
            return;
        }
        let full = pipe + u64::from(self.config.mss) > self.window.bytes(self.inflation);
        if !sent && !full {
            return;
        }
        let out =
            if self.offload { self.segments_of(self.flight()) as usize } else { self.board.len() };
        let usage = &mut self.usage;
        if self.snd_una >= usage.until || full || (!usage.full && out > usage.most_out) {
            *usage = CwndUsage { full, most_out: out, until: self.snd_nxt };
        }
    }

    /// cwnd limits the sender, so that an ACK may open it; `pipe_before` is what was in flight
    /// before the ACK.
    #[inline]
    pub(crate) fn is_cwnd_limited(&self, pipe_before: u64) -> bool {
        if self.profile.grow_when_window_limited {
            return true;
        }
        match self.profile.cwnd_limited_by {
            CwndLimitedBy::Pipe => {
                pipe_before + u64::from(self.config.mss) > self.window.bytes(0.0)
            }
            CwndLimitedBy::PacketsOut => {
                let twice = 2.0 * self.usage.most_out as f64 * f64::from(self.config.mss);
                self.usage.full || (self.window.slow_start() && self.window.cwnd < twice)
            }
        }
    }

    /// What keeps it from sending its next new byte, after it has sent what it may. Where
    /// congestion window and receive window are both exhausted it is the congestion window, as in
    /// Linux (`tcp_write_xmit`), unless the receive window is closed.
    #[inline]
    pub fn limited_by(&self) -> Limit {
        if self.state != State::Established {
            return if self.state == State::SynSent {
                Limit::Handshake
            } else {
                Limit::Application
            };
        }
        if self.held {
            return Limit::Outage;
        }
        if self.written <= self.snd_max {
            return Limit::Application;
        }
        if self.by_pipe_or_paced && self.pacing_deadline() != Time::NEVER {
            return Limit::Pacing;
        }
        let next = u64::from(self.config.mss).min(self.written - self.snd_max);
        let flight = self.flight();
        if flight + next <= self.rwnd {
            return Limit::Cwnd;
        }
        let pipe = if self.by_pipe_or_paced { self.pipe() } else { flight };
        if (pipe + next) as i64 as f64 > self.window.cwnd + self.inflation && self.rwnd > 0 {
            Limit::Cwnd
        } else {
            Limit::ReceiveWindow
        }
    }
}
