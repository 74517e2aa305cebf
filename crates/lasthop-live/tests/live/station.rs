//! A base station like the simulator's, whose captures replays read.

use std::net::SocketAddrV4;

use lasthop::agent::{
    Action, Agent, Context, LinkEvent, NodeView, QueueState, Subscriptions, Verdict,
};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::{Direction, Flags, Payload, Segment};
use lasthop::units::{Duration, Rate, Time};
use lasthop_wire::{
    CaptureWriter, Endpoints, ExactFields, Interface, LinkReport, Remark, Side, render,
};

pub const MOBILE: &str = "10.9.0.2";

pub fn endpoints(flow: u32) -> Endpoints {
    let side = |ip: &str, port: u32, isn: u32| Side {
        address: format!("{ip}:{port}").parse::<SocketAddrV4>().unwrap(),
        isn,
        window_scale: (flow % 8) as u8,
    };
    Endpoints {
        sender: side("10.0.0.1", 5000 + flow, u32::MAX - 3000 * flow),
        receiver: side(MOBILE, 80, 1 << 31),
        mss: 1000,
    }
}

pub fn segment(
    flow: u32,
    direction: Direction,
    seq: u64,
    len: u32,
    ack: u64,
    flags: Flags,
) -> Segment {
    Segment {
        seq,
        ack,
        id: 0,
        flow,
        len,
        size: len + 40,
        window: 20_480,
        ts_value: u32::from(flags.has(Flags::TIMESTAMPS)),
        ts_echo: 2 * u32::from(flags.has(Flags::TIMESTAMPS)),
        payload: Payload::NONE,
        to: 1,
        flags,
        attempt: 1,
        forward: direction == Direction::Downlink,
    }
}

/// A downlink queue that is full for every fifth packet.
pub struct Queue(pub u64);

impl NodeView for Queue {
    fn queue(&self, direction: Direction) -> QueueState {
        let full = self.0.is_multiple_of(5) && direction == Direction::Downlink;
        QueueState { packets: self.0 % 7, bytes: self.0 % 7 * 1040, full }
    }
    fn rate(&self, _: Direction) -> Option<Rate> {
        Some(Rate(self.0))
    }
}

/// A comment, with the size and the window of the segment where its packet does not show them.
pub fn comment(segment: &Segment, text: &str) -> String {
    let endpoints = endpoints(segment.flow);
    let length = render(segment, &endpoints).len() as u32;
    let exact = ExactFields::of(segment, &endpoints, length);
    exact.map_or(text.to_string(), |exact| format!("{text}\n{exact}"))
}

/// A base station like the simulator's: it captures the input and the output of its agent,
/// and what the link reports to it.
pub struct Station {
    agent: Box<dyn Agent>,
    writer: CaptureWriter<Vec<u8>>,
    /// Expiry time, time when it was set, id.
    timers: Vec<(Time, Time, u32)>,
    sent: u32,
    /// When the link reports what to the agent, of which segment.
    reports: Vec<(Time, Direction, LinkEvent, Segment)>,
}

impl Station {
    pub fn new(choice: &SchemeChoice) -> Station {
        let interfaces = [
            Interface::new("radio", ""),
            Interface::new("bs:in", ""),
            Interface::new("bs:out", ""),
        ];
        let mut writer = CaptureWriter::new(Vec::new(), &interfaces).unwrap();
        let agent = choice.scheme.agent().unwrap();
        if agent.subscribes() != Subscriptions::NONE {
            let described = LinkReport::describe(agent.subscribes());
            assert_eq!(writer.add_interface(&Interface::new("bs:link", described)).unwrap(), 3);
        }
        Station { agent: Box::new(agent), writer, timers: Vec::new(), sent: 0, reports: Vec::new() }
    }

    /// The link drops some of the segments that the agent lets go on, and sends and delivers the
    /// others some time later.
    fn offer_to_link(&mut self, now: Time, segment: &Segment) {
        let direction = if segment.forward { Direction::Downlink } else { Direction::Uplink };
        let mut report = |after: u64, event| {
            self.reports.push((now + Duration::micros(after), direction, event, *segment));
        };
        let draw = u64::from(self.sent) * 7919 % 1000;
        if draw.is_multiple_of(9) {
            return report(0, LinkEvent::Refused);
        }
        report(draw, LinkEvent::Dequeued);
        if !draw.is_multiple_of(7) {
            report(draw * 3 + 300, LinkEvent::Delivered { attempts: 1 + self.sent % 3 });
        }
    }

    /// Gives the agent what the link reports and what its timers do, by time.
    pub fn proceed(&mut self, until: Time) {
        loop {
            let due = |r: &(Time, Direction, LinkEvent, Segment)| r.0 <= until;
            let reports = self.reports.iter().enumerate().filter(|(_, r)| due(r));
            let Some((i, _)) = reports.min_by_key(|(i, r)| (r.0, *i)) else { break };
            let (now, direction, event, segment) = self.reports.remove(i);
            if !self.agent.subscribes().any(event.subscription()) {
                continue;
            }
            self.fire_timers(now);
            let queue = Queue(now.0);
            let report = LinkReport { direction, event };
            let packet = render(&segment, &endpoints(segment.flow));
            let comment = comment(&segment, &format!("{report}\n{}", Remark::of(&queue)));
            let headers = &packet[..packet.len() - segment.len as usize];
            let length = packet.len() as u32;
            self.writer.write_cut(3, now, headers, length, Some(&comment)).unwrap();
            let mut actions = Vec::new();
            self.agent.on_link_event(
                &mut Context {
                    now,
                    options: &lasthop::segment::Options::NONE,
                    node_view: &queue,
                    actions: &mut actions,
                },
                direction,
                event,
                &segment,
            );
            self.execute(now, actions);
        }
        self.fire_timers(until);
    }

    pub fn write(&mut self, interface: usize, now: Time, segment: &Segment) {
        self.writer
            .write(interface, now, &render(segment, &endpoints(segment.flow)), None)
            .unwrap();
        if interface == 2 && !segment.flags.has(Flags::DATAGRAM) {
            self.offer_to_link(now, segment);
        }
    }

    pub fn on_arrival(&mut self, now: Time, direction: Direction, segment: Segment) {
        self.proceed(now);
        self.sent += 1;
        let segment = Segment { payload: Payload(self.sent), ..segment };
        let queue = Queue(u64::from(self.sent));
        let remark = comment(&segment, &Remark::of(&queue).to_string());
        self.writer
            .write(1, now, &render(&segment, &endpoints(segment.flow)), Some(&remark))
            .unwrap();
        let mut actions = Vec::new();
        let verdict = self.agent.on_segment(
            &mut Context {
                now,
                options: &lasthop::segment::Options::NONE,
                node_view: &queue,
                actions: &mut actions,
            },
            direction,
            &segment,
        );
        match verdict {
            Verdict::Forward => self.write(2, now, &segment),
            Verdict::Rewrite(r) => {
                let flags = if r.eln { segment.flags.with(Flags::ELN) } else { segment.flags };
                let changed = Segment {
                    ack: r.ack.unwrap_or(segment.ack),
                    window: r.window.unwrap_or(segment.window),
                    flags,
                    ..segment
                };
                self.write(2, now, &changed);
            }
            Verdict::Keep | Verdict::Drop(_) => {}
        }
        self.execute(now, actions);
    }

    pub fn fire_timers(&mut self, until: Time) {
        while let Some(i) = (0..self.timers.len())
            .filter(|&i| self.timers[i].0 <= until)
            .min_by_key(|&i| self.timers[i])
        {
            let (now, _, id) = self.timers.remove(i);
            let mut actions = Vec::new();
            self.agent.on_timer(
                &mut Context {
                    now,
                    options: &lasthop::segment::Options::NONE,
                    node_view: &Queue(0),
                    actions: &mut actions,
                },
                id,
            );
            self.execute(now, actions);
        }
    }

    fn execute(&mut self, now: Time, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Inject(_, segment) | Action::Forward(_, segment) => {
                    self.write(2, now, &segment)
                }
                Action::Wake(id, at) => {
                    self.timers.retain(|t| t.2 != id);
                    self.timers.push((at, now, id));
                }
                Action::Cancel(id) => self.timers.retain(|t| t.2 != id),
                Action::Retain(_) | Action::Release(_) | Action::Notify(..) => {}
            }
        }
    }

    pub fn finish(mut self, end: Time) -> Vec<u8> {
        self.proceed(end);
        self.writer.finish().unwrap()
    }
}
