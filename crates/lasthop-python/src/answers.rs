//! An agent's decisions on hand-written packets: the papers' flowcharts as test vectors.

use lasthop::agent::{Action, Agent, BlankView, Context, Verdict};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::segment::{Direction, Flags, Payload, Segment};
use lasthop::units::Time;
use pyo3::prelude::*;

use crate::InputError;

/// Payload of a segment in the test vectors, bytes.
const SEGMENT: u64 = 1000;
/// Time between two packets of a test vector, nanoseconds.
const STEP_NS: u64 = 10_000_000;

/// Passes packets to the agent of `scheme`, 10 ms apart. "data N" is segment N from the server (N
/// from 1), "ack N" acknowledges all segments up to N. Returns the agent's decision for each
/// packet: "forward", "rewrite", "keep" or "drop", with "+inject" appended if the agent also sent a
/// packet.
#[pyfunction]
pub fn agent_answers(scheme: &str, packets: Vec<String>) -> PyResult<Vec<String>> {
    let choice = SchemeChoice::parse(scheme).map_err(InputError::new_err)?;
    let Some(mut agent) = choice.scheme.agent() else {
        return Err(InputError::new_err(format!("scheme `{scheme}` has no agent")));
    };
    let mut answers = Vec::with_capacity(packets.len());
    for (i, text) in packets.iter().enumerate() {
        let (direction, segment) = packet(text, i as u64).ok_or_else(|| {
            InputError::new_err(format!("expected \"data N\" or \"ack N\", found \"{text}\""))
        })?;
        let mut actions = Vec::new();
        let mut context = Context {
            now: Time(i as u64 * STEP_NS),
            options: &lasthop::segment::Options::NONE,
            node_view: &BlankView,
            actions: &mut actions,
        };
        let verdict = match agent.on_segment(&mut context, direction, &segment) {
            Verdict::Forward => "forward",
            Verdict::Rewrite(_) => "rewrite",
            Verdict::Keep => "keep",
            Verdict::Drop(_) => "drop",
        };
        let injected = actions.iter().any(|a| matches!(a, Action::Inject(..)));
        answers.push(if injected { format!("{verdict}+inject") } else { verdict.to_string() });
    }
    Ok(answers)
}

fn packet(text: &str, id: u64) -> Option<(Direction, Segment)> {
    let (kind, number) = text.split_once(' ')?;
    let number: u64 = number.trim().parse().ok().filter(|n| (1..1 << 32).contains(n))?;
    let forward = match kind {
        "data" => true,
        "ack" => false,
        _ => return None,
    };
    let segment = Segment {
        seq: if forward { (number - 1) * SEGMENT } else { 0 },
        ack: if forward { 0 } else { number * SEGMENT },
        id,
        flow: 0,
        len: if forward { SEGMENT as u32 } else { 0 },
        size: if forward { SEGMENT as u32 + 40 } else { 40 },
        window: 20_000,
        ts_value: 0,
        ts_echo: 0,
        payload: Payload::NONE,
        to: 0,
        flags: Flags::ACK,
        attempt: 1,
        forward,
    };
    Some((if forward { Direction::Downlink } else { Direction::Uplink }, segment))
}
