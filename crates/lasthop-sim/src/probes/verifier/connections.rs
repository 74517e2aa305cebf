//! Checks of a TCP connection that hold for all schemes.

use lasthop::agent::{Agent, Subscriptions};
use lasthop::air::config::LossConfig;
use lasthop::scenario::network::{App, Flow};
use lasthop::schemes::catalogue::{Scheme, SenderPart};
use lasthop::segment::{Flags, NodeId, Segment};
use lasthop::tcp::profile::HalvingBase;
use lasthop::tcp::receiver::Misbehaviour;
use lasthop::tcp::window::{Hooks, Window, WindowRule};
use lasthop::units::{Size, Time};

use crate::events::{Event, Kind};

/// The model of one connection.
pub(super) struct ConnectionModel {
    pub mss: u32,
    /// True if bit errors are configured for the connection.
    pub may_corrupt: bool,
    /// The sender's node; `None` before the first segment.
    pub from: Option<NodeId>,
    /// The connection whose bytes a relay forwards on this one.
    pub upstream: Option<usize>,
    /// Size of the transfer in bytes, if it is finite.
    pub size: Option<u64>,
    /// After the handshake: the receive window as last advertised, and the highest right edge so
    /// far.
    pub window: Option<(u64, u64)>,
    /// The newest timestamp of an ACK. The sender may discard ACKs with older ones (PAWS).
    pub newest_timestamp: u32,
    /// Data below `acknowledged` are acknowledged; data below `sent_to` were sent.
    pub acknowledged: u64,
    pub sent_to: u64,
    /// Data received: the bytes in order, and the ranges above.
    pub in_order: u64,
    pub out_of_order: Vec<(u64, u64)>,
    pub fin_at: Option<u64>,
    pub opened: bool,
    /// The SYN of a receiver that opens the connection has arrived; the SYN-ACK has been sent.
    pub asked: bool,
    pub answered: bool,
    pub cwnd: f64,
    /// The loss detected at the present instant, and the value to which cwnd may grow in spite of
    /// it.
    pub loss: Option<(Time, f64)>,
    pub smallest_cwnd: f64,
    pub loss_window: f64,
    /// A timeout leaves what was sent recently in flight, and one segment more (Linux
    /// `tcp_enter_loss`).
    pub keeps_recent: bool,
    pub halves_flight: bool,
    /// Two segments, if a reduction sets cwnd to ssthresh (RFC 5681).
    pub min_ssthresh: f64,
    /// In recovery cwnd follows the bytes in flight (PRR, RFC 9937).
    pub prr: bool,
    /// cwnd follows a model of the path (BBR, Copa); a loss need not reduce it.
    pub model_based: bool,
    /// A relay may set cwnd at any time.
    pub relay_sets_cwnd: bool,
    /// The receiver acknowledges what is missing, too.
    pub optimistic: bool,
    /// An agent learns of deliveries, and may acknowledge data by the delay of the link before they
    /// arrive.
    pub link_reports: bool,
    /// Payload bytes of a frame: one segment, or several under segmentation offload.
    pub largest_frame: u32,
    /// The largest cwnd so far.
    pub largest_cwnd: f64,
    /// Time of the last ACK, and the bytes in flight before it.
    pub last_ack: (Time, u64),
    /// Time of the last report from the receiver's scheme, after which the window may have any
    /// value.
    pub last_report: Option<Time>,
    /// Start of the measured time, for the counters below.
    pub measure_from: Time,
    pub sent: u64,
    pub retransmitted: u64,
    pub spurious: u64,
    pub fast_retransmits: u64,
}

/// The smallest cwnd that the profile of a flow allows, in bytes.
fn smallest_cwnd(flow: &Flow, initial: f64) -> f64 {
    let p = &flow.profile;
    let in_bytes = |s: Size| s.bytes(flow.segment) as f64;
    let mss = f64::from(flow.segment);
    // ns-2 halves the window in use, so that one segment becomes half a segment (rule 1).
    let half = if p.integer_ssthresh { 0.5 * mss } else { mss };
    let syn_lost = in_bytes(p.syn_loss_window).max(in_bytes(p.syn_losses_window));
    let others = [initial, in_bytes(p.loss_window), in_bytes(p.restart_window), syn_lost];
    others.into_iter().fold(half, f64::min)
}

impl ConnectionModel {
    pub(super) fn new(flow: &Flow, upstream: Option<usize>, measure_from: Time) -> ConnectionModel {
        let p = &flow.profile;
        let mss = f64::from(flow.segment);
        let window = flow.receive_window.bytes(flow.segment);
        let initial = Window::initial(p, flow.segment, window).cwnd;
        let part = flow.scheme.sender(p);
        ConnectionModel {
            mss: flow.segment,
            largest_frame: if p.segmentation_offload {
                flow.segment.max(1 << 16)
            } else {
                flow.segment
            },
            optimistic: flow.misbehaviour == Some(Misbehaviour::OptimisticAcks),
            link_reports: flow
                .scheme
                .scheme
                .agent()
                .is_some_and(|agent| agent.subscribes().any(Subscriptions::DELIVERED)),
            may_corrupt: flow.loss != LossConfig::None || flow.ack_loss != LossConfig::None,
            from: None,
            upstream,
            size: match flow.app {
                App::Transfer { size } => Some(size),
                _ => None,
            },
            window: None,
            newest_timestamp: 0,
            acknowledged: 0,
            sent_to: 0,
            in_order: 0,
            out_of_order: Vec::new(),
            fin_at: None,
            opened: false,
            asked: false,
            answered: false,
            cwnd: initial,
            loss: None,
            smallest_cwnd: smallest_cwnd(flow, initial),
            loss_window: p.loss_window.bytes(flow.segment) as f64,
            keeps_recent: p.whole_segments,
            halves_flight: p.halving == HalvingBase::FlightSize,
            min_ssthresh: if p.integer_ssthresh { 0.0 } else { 2.0 * mss },
            prr: part.recovery.prr,
            model_based: part.needs.rate_samples || paces_through_losses(&part),
            relay_sets_cwnd: upstream.is_some() && flow.scheme.scheme.outbound_window().is_some(),
            largest_cwnd: initial,
            last_ack: (Time::ZERO, 0),
            last_report: None,
            measure_from,
            sent: 0,
            retransmitted: 0,
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
        self.retransmitted += u64::from(measured && s.attempt > 1);
        if s.flags.has(Flags::SYN) {
            return self.opened_by(s);
        }
        self.numbers(s)?;
        let payload_end = s.seq + u64::from(s.len);
        match upstream {
            Some(arrived) if payload_end > arrived => Err(format!(
                "a relay sends up to {payload_end}, but only {arrived} bytes have arrived at it"
            )),
            _ => Ok(()),
        }
    }

    /// A SYN or SYN-ACK.
    fn opened_by(&mut self, s: &Segment) -> Result<(), String> {
        let answers = s.flags.has(Flags::ACK);
        if answers && !self.asked {
            return Err("a SYN-ACK without a SYN".into());
        }
        self.answered |= answers;
        if self.window.is_none() { Ok(()) } else { Err("a SYN on an open connection".into()) }
    }

    /// The bytes of a segment are next or a repetition, inside of the window, and were written.
    fn numbers(&mut self, s: &Segment) -> Result<(), String> {
        let Some((window, right_edge)) = self.window else {
            return Err("is sent before the connection is open".into());
        };
        let (payload_end, end) = (s.seq + u64::from(s.len), s.end());
        if s.len > self.largest_frame {
            return Err(format!(
                "has {} bytes of payload, but a frame has at most {}",
                s.len, self.largest_frame
            ));
        }
        let first = s.attempt == 1;
        if first && s.seq != self.sent_to {
            return Err(format!(
                "byte {} is sent for the first time, but byte {} is next",
                s.seq, self.sent_to
            ));
        }
        if !first && end > self.sent_to {
            return Err(format!(
                "bytes up to {end} are retransmitted, but only bytes up to {} were sent",
                self.sent_to
            ));
        }
        self.sent_to = self.sent_to.max(end);
        let limit = if first { self.acknowledged + window } else { right_edge };
        if s.len > 0 && payload_end > limit {
            return Err(format!(
                "is sent up to {payload_end}, but the receive window ends at {limit}"
            ));
        }
        if s.seq < self.acknowledged {
            return Err(format!(
                "byte {} is retransmitted, but bytes up to {} are acknowledged",
                s.seq, self.acknowledged
            ));
        }
        if self.size.is_some_and(|size| payload_end > size) {
            return Err(format!(
                "is sent up to {payload_end}, but the application wrote {} bytes",
                self.size.unwrap_or(0)
            ));
        }
        Ok(())
    }

    pub(super) fn ack_received(&mut self, e: &Event<'_>, s: &Segment) -> Result<(), String> {
        self.loss = None;
        if s.flags.has(Flags::SYN) && !s.flags.has(Flags::ACK) {
            self.asked = true;
            return Ok(());
        }
        // What confirms the SYN-ACK, or the SYN-ACK itself.
        let confirms = self.answered && self.window.is_none() && s.flags.has(Flags::ACK);
        if s.flags.has(Flags::SYN) || confirms {
            let window = u64::from(s.window);
            self.window = self.window.or(Some((window, window)));
            self.newest_timestamp = s.ts_value;
            return Ok(());
        }
        let Some((window, right_edge)) = self.window else { return Ok(()) };
        if s.ack > self.sent_to {
            return Err(format!(
                "acknowledges {} at node {}, but only {} was sent",
                s.ack, e.node, self.sent_to
            ));
        }
        let advertised = u64::from(s.window);
        let overtaken = self.newest_timestamp.wrapping_sub(s.ts_value) as i32 > 0;
        let latest = match (s.ack >= self.acknowledged, overtaken) {
            (false, _) => window,
            (true, true) => window.max(advertised),
            (true, false) => advertised,
        };
        self.newest_timestamp = if overtaken { self.newest_timestamp } else { s.ts_value };
        self.window = Some((latest, right_edge.max(s.ack + advertised)));
        self.last_ack = (e.t, self.flight());
        self.last_report = if s.flags.has(Flags::REPORT) { Some(e.t) } else { self.last_report };
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
        self.out_of_order.push((s.seq, s.seq + u64::from(s.len)));
        self.out_of_order.sort_unstable();
        let mut in_order = self.in_order;
        self.out_of_order.retain(|r| {
            let joins = r.0 <= in_order;
            in_order = if joins { in_order.max(r.1) } else { in_order };
            !joins
        });
        self.in_order = in_order;
        Ok(())
    }

    /// Checks an ACK that a receiver or an agent sends: it may not cover data that have not
    /// arrived, or that a link has not `reported` to the agent.
    pub(super) fn ack_made(&mut self, s: &Segment, reported: Option<u64>) -> Result<(), String> {
        let last = if let Some(reported) = reported {
            reported
        } else if self.optimistic {
            let highest = self.out_of_order.last().map_or(self.in_order, |r| r.1);
            highest.max(self.fin_at.unwrap_or(0))
        } else {
            self.in_order
        };
        let most = last + u64::from(self.fin_at == Some(last));
        if !s.forward && s.ack > most {
            Err(format!("acknowledges {}, but only {most} has arrived in order", s.ack))
        } else {
            Ok(())
        }
    }

    pub(super) fn state_changed(&mut self, e: &Event<'_>) -> Result<(), String> {
        match e.kind {
            // The restored window may fall at once because of another loss.
            Kind::Undone => self.loss = None,
            Kind::Timeout => {
                let in_flight = self.flight() as f64 + f64::from(self.mss);
                let recent = if self.keeps_recent { in_flight } else { 0.0 };
                self.loss = Some((e.t, self.loss_window.max(recent)));
            }
            Kind::FastRetransmit => {
                self.fast_retransmits += u64::from(e.t >= self.measure_from);
                self.loss = Some((e.t, self.may_reach(e.t)));
            }
            Kind::Cwnd => {
                let before = std::mem::replace(&mut self.cwnd, e.value);
                self.largest_cwnd = self.largest_cwnd.max(before);
                if e.value < self.smallest_cwnd {
                    return Err(format!(
                        "cwnd falls to {} bytes; a segment has {} bytes",
                        e.value, self.mss
                    ));
                }
                if let Some((t, most)) = self.loss.filter(|l| l.0 == e.t)
                    && e.value > before.max(most)
                    && self.last_report != Some(t)
                    && !self.relay_sets_cwnd
                {
                    return Err(format!(
                        "cwnd grows from {before} to {} bytes on a loss at {t}, limit {most}",
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

    /// The largest cwnd allowed after a fast retransmit at `t`, even if cwnd was smaller before.
    fn may_reach(&self, t: Time) -> f64 {
        let (flight, mss) = (self.flight() as f64, f64::from(self.mss));
        // RFC 5681: half the bytes in flight, at least two segments. After a recovery or a timeout
        // this may exceed cwnd.
        let half = (if self.halves_flight { flight / 2.0 } else { 0.0 }).max(self.min_ssthresh);
        let flight_before = if self.last_ack.0 == t { self.last_ack.1 as f64 } else { flight };
        // RFC 9937, section 6.2: the bytes that the ACK delivers may be sent, one segment in any
        // case.
        let prr = if self.prr { flight_before.max(flight + mss) } else { 0.0 };
        // The window of such a rule may, with the same ACK, be restored after an earlier recovery
        // or ProbeRTT, grow by the bytes that the ACK delivers, and has at least four segments.
        let model_based = if self.model_based {
            (self.largest_cwnd.max(self.cwnd) + flight_before).max(4.0 * mss)
        } else {
            0.0
        };
        half.max(prr).max(model_based)
    }
}

/// True for a rule of the catalogue that sets cwnd and the pacing rate in recovery, too.
fn paces_through_losses(part: &SenderPart) -> bool {
    !matches!(part.scheme, Scheme::ForeignWindow(_))
        && part
            .scheme
            .window()
            .is_some_and(|rule| rule.steers_recovery() && Hooks::of(rule.methods()).pacing)
}
