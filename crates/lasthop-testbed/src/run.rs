//! What a run returns.

use lasthop_sim::RunResult;
use lasthop_sim::result::FlowResult;

use crate::datagrams::StackRun;
use crate::qlog;

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Flows, links and traffic, as `lasthop run --json` prints them. For a stack's flow, goodput
    /// and delay are those of the datagrams that its receiver's end got, with what the stack itself
    /// adds or retransmits.
    pub result: RunResult,
    /// The stacks, in the order of their flows.
    pub stacks: Vec<StackRun>,
}

impl Run {
    /// The result of a flow.
    ///
    /// # Panics
    ///
    /// If no flow has this name.
    #[track_caller]
    pub fn flow(&self, name: &str) -> &FlowResult {
        match self.result.flows.iter().find(|flow| flow.id == name) {
            Some(found) => found,
            None => panic!("no flow `{name}`"),
        }
    }

    /// The datagrams of a stack.
    ///
    /// # Panics
    ///
    /// If no stack was attached to the flow with this name.
    #[track_caller]
    pub fn stack(&self, flow: &str) -> &StackRun {
        match self.stacks.iter().find(|stack| stack.flow == flow) {
            Some(found) => found,
            None => panic!("no stack at flow `{flow}`"),
        }
    }

    /// The result as JSON; the same bytes for the same network, stacks and seed.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(&self.result).unwrap_or_default()
    }

    /// The datagrams of all stacks in order of time, as qlog: JSON text sequences (RFC 7464) with
    /// the events `sent`, `received` and `lost` of the namespace `datagram`. They are seen from the
    /// network, which knows what became of each: a file for the viewer that shows a stack's own
    /// qlog.
    pub fn qlog(&self) -> String {
        qlog::write(&self.result.scenario, &self.stacks)
    }
}
