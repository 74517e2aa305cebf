//! What TCP must not do, whatever its scheme is.

use lasthop::air::config::LossConfig;
use lasthop::scenario::network::{App, Flow};
use lasthop::schemes::catalogue::AnyWindow;
use lasthop::segment::{Flags, NodeId, Segment};
use lasthop::tcp::profile::HalvingBase;
use lasthop::tcp::window::Window;
use lasthop::units::{Size, Time};

use crate::events::{Event, Kind};

/// The books of one connection.
pub(super) struct ConnectionBook {
    mss: u32,
    /// Payload bytes of a frame: one segment, or several under segmentation offload.
    largest: u32,
    /// It may lose packets by bit errors of its own.
    pub(super) may_corrupt: bool,
    /// Where its sender is, once it has sent something.
    pub(super) from: Option<NodeId>,
    /// The connection whose bytes a relay moves to this one.
    pub(super) upstream: Option<usize>,
    /// Bytes that the application writes, if they are limited.
    size: Option<u64>,
    /// After the handshake: the window as last advertised, and the farthest right edge ever.
    window: Option<(u64, u64)>,
    /// Data below this are acknowledged; sent up to that.
    pub(super) acknowledged: u64,
    pub(super) sent_to: u64,
    /// What has arrived: in order, and ranges above.
    pub(super) in_order: u64,
    ahead: Vec<(u64, u64)>,
    fin_at: Option<u64>,
    opened: bool,
    cwnd: f64,
    /// The loss found with this very event, and where cwnd may go although it is more than before.
    loss: Option<(Time, f64)>,
    smallest_cwnd: f64,
    loss_window: f64,
    halves_flight: bool,
    /// Two segments, where a reduction sets cwnd to ssthresh (RFC 5681).
    least_ssthresh: f64,
    /// In recovery cwnd follows what is in flight (RFC 9937).
    proportional: bool,
    /// cwnd follows a model of the path (BBR), which a loss need not change.
    modelled: bool,
    /// A relay sets cwnd, whenever it likes.
    steered: bool,
    /// The largest cwnd so far.
    largest_cwnd: f64,
    /// When the last ACK came, and what was in flight before it.
    last_ack: (Time, u64),
    /// When the sender last heard a number from the receiver's scheme, which may set the window to
    /// anything.
    told: Option<Time>,
    /// What follows is counted from here on.
    measure_from: Time,
    pub(super) sent: u64,
    pub(super) resent: u64,
    pub(super) spurious: u64,
    pub(super) fast_retransmits: u64,
}

impl ConnectionBook {
    pub(super) fn new(flow: &Flow, upstream: Option<usize>, measure_from: Time) -> ConnectionBook {
        let p = &flow.profile;
        let mss = f64::from(flow.segment);
        let window = flow.receive_window.bytes(flow.segment);
        let initial = Window::initial(p, flow.segment, window).cwnd;
        let in_bytes = |s: Size| s.bytes(flow.segment) as f64;
        let loss_window = in_bytes(p.loss_window);
        // ns-2 halves the window in use, so that one segment becomes half of one (rule 1).
        let half = if p.integer_ssthresh { 0.5 * mss } else { mss };
        let part = flow.scheme.sender(p);
        let others =
            [initial, loss_window, in_bytes(p.restart_window), in_bytes(p.syn_loss_window)];
        ConnectionBook {
            mss: flow.segment,
            largest: if p.segmentation_offload { flow.segment.max(1 << 16) } else { flow.segment },
            may_corrupt: flow.loss != LossConfig::None || flow.ack_loss != LossConfig::None,
            from: None,
            upstream,
            size: match flow.app {
                App::Transfer { size } => Some(size),
                _ => None,
            },
            window: None,
            acknowledged: 0,
            sent_to: 0,
            in_order: 0,
            ahead: Vec::new(),
            fin_at: None,
            opened: false,
            cwnd: initial,
            loss: None,
            smallest_cwnd: others.into_iter().fold(half, f64::min),
            loss_window,
            halves_flight: p.halving == HalvingBase::FlightSize,
            least_ssthresh: if p.integer_ssthresh { 0.0 } else { 2.0 * mss },
            proportional: part.recovery.prr,
            modelled: part.needs.rate_samples,
            steered: upstream.is_some()
                && matches!(flow.scheme.scheme.outbound_window(), Some(AnyWindow::Steered(_))),
            largest_cwnd: initial,
            last_ack: (Time::ZERO, 0),
            told: None,
            measure_from,
            sent: 0,
            resent: 0,
            spurious: 0,
            fast_retransmits: 0,
        }
    }

    pub(super) fn data_sent(
        &mut self,
        e: &Event<'_>,
        s: &Segment,
        upstream: Option<u64>,
    ) -> Result<(), String> {
        self.from = Some(e.node);
        let measured = e.t >= self.measure_from;
        self.sent += u64::from(measured);
        self.resent += u64::from(measured && s.attempt > 1);
        if s.flags.has(Flags::SYN) {
            return if self.window.is_none() {
                Ok(())
            } else {
                Err("a SYN on an open connection".into())
            };
        }
        let Some((window, right_edge)) = self.window else {
            return Err("sent before the connection was open".into());
        };
        let (payload_end, end) = (s.seq + u64::from(s.len), s.end());
        if s.len > self.largest {
            return Err(format!(
                "{} bytes of payload, a frame has at most {}",
                s.len, self.largest
            ));
        }
        let first = s.attempt == 1;
        if first && s.seq != self.sent_to {
            return Err(format!(
                "byte {} is sent for the first time, {} would be next",
                s.seq, self.sent_to
            ));
        }
        if !first && end > self.sent_to {
            return Err(format!(
                "bytes up to {end} are sent again, only those up to {} were sent",
                self.sent_to
            ));
        }
        self.sent_to = self.sent_to.max(end);
        let limit = if first { self.acknowledged + window } else { right_edge };
        if s.len > 0 && payload_end > limit {
            return Err(format!("sent up to {payload_end}, the receiver's window ends at {limit}"));
        }
        if s.seq < self.acknowledged {
            return Err(format!(
                "byte {} is sent again, {} is acknowledged",
                s.seq, self.acknowledged
            ));
        }
        if self.size.is_some_and(|size| payload_end > size) {
            return Err(format!(
                "sent up to {payload_end}, the application wrote {}",
                self.size.unwrap_or(0)
            ));
        }
        match upstream {
            Some(arrived) if payload_end > arrived => Err(format!(
                "a relay sends up to {payload_end}, {arrived} bytes have arrived at it"
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn ack_received(&mut self, e: &Event<'_>, s: &Segment) -> Result<(), String> {
        self.loss = None;
        if s.flags.has(Flags::SYN) {
            let window = u64::from(s.window);
            self.window = self.window.or(Some((window, window)));
            return Ok(());
        }
        let Some((window, right_edge)) = self.window else { return Ok(()) };
        if s.ack > self.sent_to {
            return Err(format!(
                "acknowledges {} at node {}, only {} was sent",
                s.ack, e.node, self.sent_to
            ));
        }
        let fresh = s.ack >= self.acknowledged;
        let edge = s.ack + u64::from(s.window);
        self.window =
            Some((if fresh { u64::from(s.window) } else { window }, right_edge.max(edge)));
        self.last_ack = (e.t, self.flight());
        self.told = if s.flags.has(Flags::REPORT) { Some(e.t) } else { self.told };
        self.acknowledged = self.acknowledged.max(s.ack);
        Ok(())
    }

    pub(super) fn data_received(&mut self, _: &Event<'_>, s: &Segment) -> Result<(), String> {
        if s.flags.has(Flags::SYN) {
            self.opened = true;
            return Ok(());
        }
        if !self.opened && s.len > 0 {
            return Err("data arrive before the SYN".into());
        }
        if s.flags.has(Flags::FIN) {
            self.fin_at = Some(s.seq + u64::from(s.len));
        }
        if s.len == 0 {
            return Ok(());
        }
        self.ahead.push((s.seq, s.seq + u64::from(s.len)));
        self.ahead.sort_unstable();
        let mut in_order = self.in_order;
        self.ahead.retain(|r| {
            let joins = r.0 <= in_order;
            in_order = if joins { in_order.max(r.1) } else { in_order };
            !joins
        });
        self.in_order = in_order;
        Ok(())
    }

    /// An ACK comes into being or leaves an agent: it may not promise what has not arrived.
    pub(super) fn ack_made(&mut self, s: &Segment) -> Result<(), String> {
        let fin = self.fin_at == Some(self.in_order);
        let most = self.in_order + u64::from(fin);
        if !s.forward && s.ack > most {
            Err(format!("acknowledges {}, but only {most} has arrived in order", s.ack))
        } else {
            Ok(())
        }
    }

    pub(super) fn state_changed(&mut self, e: &Event<'_>) -> Result<(), String> {
        match e.kind {
            // The window that comes back may fall at once for another loss.
            Kind::Undone => self.loss = None,
            Kind::Timeout => self.loss = Some((e.t, self.loss_window)),
            Kind::FastRetransmit => {
                self.fast_retransmits += u64::from(e.t >= self.measure_from);
                self.loss = Some((e.t, self.may_reach(e.t)));
            }
            Kind::Cwnd => {
                let before = std::mem::replace(&mut self.cwnd, e.value);
                self.largest_cwnd = self.largest_cwnd.max(before);
                if e.value < self.smallest_cwnd {
                    return Err(format!(
                        "cwnd falls to {} bytes; a segment has {}",
                        e.value, self.mss
                    ));
                }
                if let Some((t, most)) = self.loss.filter(|l| l.0 == e.t)
                    && e.value > before.max(most)
                    && self.told != Some(t)
                    && !self.steered
                {
                    return Err(format!(
                        "cwnd grows from {before} to {} on a loss at {t}, {most} would do",
                        e.value
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn flight(&self) -> u64 {
        self.sent_to - self.acknowledged
    }

    /// What cwnd may become with a fast retransmit at `t`, even if it was smaller.
    fn may_reach(&self, t: Time) -> f64 {
        let (flight, mss) = (self.flight() as f64, f64::from(self.mss));
        // RFC 5681: half of what is in flight, which after a recovery or a timeout may be more than
        // cwnd; at least two segments.
        let half = (if self.halves_flight { flight / 2.0 } else { 0.0 }).max(self.least_ssthresh);
        let flight_before = if self.last_ack.0 == t { self.last_ack.1 as f64 } else { flight };
        // RFC 9937, section 6.2: what the ACK delivers may be sent, one segment in any case.
        let proportional = if self.proportional { flight_before.max(flight + mss) } else { 0.0 };
        // Such a window comes back from an earlier recovery or from ProbeRTT with the same ACK,
        // grows by what that delivers, and has four segments at least.
        let modelled = if self.modelled {
            (self.largest_cwnd.max(self.cwnd) + flight_before).max(4.0 * mss)
        } else {
            0.0
        };
        half.max(proportional).max(modelled)
    }
}
