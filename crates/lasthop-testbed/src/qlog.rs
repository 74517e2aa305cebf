//! The datagrams of a run as qlog, in the sequential form of its main schema
//! (draft-ietf-quic-qlog-main-schema-11 and later).

use lasthop::units::Time;
use lasthop_sim::events::probe::Fate;
use lasthop_sim::probes::datagrams::DatagramFate;
use serde_json::{Value, json};

use crate::datagrams::StackRun;

/// A record of a JSON text sequence (RFC 7464).
fn record(value: &Value) -> String {
    format!("\u{1e}{value}\n")
}

/// An event: its time, its place among those of the same time, and its text.
type Event = (Time, usize, String);

/// The text of a file with this title.
pub(crate) fn write(title: &str, stacks: &[StackRun]) -> String {
    let mut text = record(&json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": title,
        "trace": {
            "vantage_point": { "name": "simulated network", "type": "network" },
            "event_schemas": ["urn:lasthop:qlog:events:datagram"],
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
            },
        },
    }));
    let mut events: Vec<Event> = Vec::new();
    for stack in stacks {
        for (to, direction) in [("receiver", &stack.to_receiver), ("sender", &stack.to_sender)] {
            for (id, datagram) in direction.datagrams().iter().enumerate() {
                let mut add = |at: Time, name: &str, trigger: Option<&str>| {
                    let mut data = json!({ "id": id, "to": to, "length": datagram.len });
                    if let Some(trigger) = trigger {
                        data["trigger"] = trigger.into();
                    }
                    let event = json!({
                        "time": at.0 as f64 / 1e6,
                        "name": format!("datagram:{name}"),
                        "group_id": stack.flow,
                        "data": data,
                    });
                    events.push((at, events.len(), record(&event)));
                };
                add(datagram.sent_at, "sent", None);
                match datagram.fate {
                    DatagramFate::InTransit => {}
                    DatagramFate::Arrived { at, marked } => {
                        add(at, "received", marked.then_some("marked"));
                    }
                    DatagramFate::Lost { at, why } => add(at, "lost", Some(trigger(why))),
                }
            }
        }
    }
    events.sort_by_key(|(at, order, _)| (*at, *order));
    text.extend(events.into_iter().map(|(_, _, event)| event));
    text
}

fn trigger(why: Fate) -> &'static str {
    match why {
        Fate::LostOnAir => "air",
        Fate::Collision => "collision",
        Fate::Refused => "queue",
        Fate::Corrupted => "bit_error",
        Fate::DroppedByAgent => "agent",
        Fate::Discarded => "receiver",
    }
}
