//! The links and flows of a run, by calls or from a scenario file.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use lasthop::scenario::network::{self, App};
use lasthop::scenario::{Overrides, load};
use lasthop::schemes::catalogue::{RecoverySlot, SchemeChoice};
use lasthop::tcp::recovery::{Recovery, RecoveryKind};
use lasthop::tcp::window::{Needs, WindowRule};
use lasthop_sim::events::Observer;
use lasthop_sim::hosts::external::Endpoint;
use lasthop_sim::{Options, run_with_endpoints};
use thiserror::Error;

use crate::datagrams::{Direction, StackRun};
use crate::files::Disk;
use crate::run::Run;

/// Why there is no run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A value or a file of the scenario is wrong; the text says which, and what is allowed.
    #[error("{0}")]
    Scenario(String),
    /// A stack is attached to a flow that cannot be replaced.
    #[error("{0}")]
    Flow(String),
    /// The run was not possible, or an end of a stack sent or set timeouts without end.
    #[error("{0}")]
    Run(String),
}

/// IPv4 and UDP headers, bytes.
pub(crate) const UDP_HEADERS: u32 = 28;

/// Both ends of a protocol stack, and the flow whose place they take.
pub struct Stack<'a> {
    flow: String,
    ends: [&'a mut dyn Endpoint; 2],
    headers: u32,
}

impl<'a> Stack<'a> {
    /// A stack over UDP and IPv4: links carry 28 bytes with each datagram. `sender` is the end
    /// where the flow begins, by default the server; `receiver` the one where it ends, the mobile
    /// station. Both may send, and either may be the first.
    pub fn udp(
        flow: &str,
        sender: &'a mut dyn Endpoint,
        receiver: &'a mut dyn Endpoint,
    ) -> Stack<'a> {
        Stack { flow: flow.into(), ends: [sender, receiver], headers: UDP_HEADERS }
    }

    /// As [`Stack::udp`], for a stack whose datagrams are whole IP packets.
    pub fn ip(
        flow: &str,
        sender: &'a mut dyn Endpoint,
        receiver: &'a mut dyn Endpoint,
    ) -> Stack<'a> {
        Stack { headers: 0, ..Stack::udp(flow, sender, receiver) }
    }

    /// Sets the number of bytes that links carry in addition to each datagram: IP and UDP headers.
    pub fn headers(self, bytes: u32) -> Stack<'a> {
        Stack { headers: bytes, ..self }
    }
}

/// The links and flows of a run. Values are texts with units, as in
/// [scenario files](https://github.com/lasthop/lasthop/blob/main/docs/scenario.md); they are checked
/// when the network is loaded.
///
/// # Examples
///
/// Two minutes of LTE with 1 % loss on the air, a queue managed by CoDel, and a CUBIC download of
/// lasthop beside the own flow:
///
/// ```
/// use lasthop_testbed::Testbed;
///
/// let network = Testbed::new()
///     .traces("synthetic-lte.down", "synthetic-lte.up")
///     .rtt("40 ms")
///     .loss("1 %")
///     .queue("codel")
///     .duration("120 s")
///     .flow("mine")
///     .competitor("other", "cubic")
///     .load()
///     .unwrap();
/// assert_eq!(network.flows().collect::<Vec<_>>(), ["mine", "other"]);
///
/// let error = Testbed::new().rate("10 Mbit").load().unwrap_err();
/// assert!(error.to_string().contains("Mbps"), "{error}");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Testbed {
    text: String,
    origin: Option<PathBuf>,
    overrides: Overrides,
    rules: Vec<SchemeChoice>,
}

impl Testbed {
    /// A server, a base station and a mobile station, whose last hop the calls below describe.
    pub fn new() -> Testbed {
        Testbed::default()
    }

    /// The network of the text of a scenario file. Paths in it start at the current folder.
    pub fn from_toml(text: &str) -> Testbed {
        Testbed { text: text.into(), ..Testbed::default() }
    }

    /// The network of a scenario file.
    ///
    /// # Errors
    ///
    /// [`Error::Scenario`] if the file cannot be read.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Testbed, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::Scenario(format!("{}: {e}", path.display())))?;
        Ok(Testbed { origin: Some(path.into()), ..Testbed::from_toml(&text) })
    }

    /// Rate of the last hop in both directions, such as `"10 Mbps"`.
    pub fn rate(mut self, rate: &str) -> Testbed {
        self.overrides.last_hop.rate = Some(rate.into());
        self
    }

    /// Round-trip time of the path without queueing, such as `"40 ms"`.
    pub fn rtt(mut self, rtt: &str) -> Testbed {
        self.overrides.last_hop.rtt = Some(rtt.into());
        self
    }

    /// Share of the packets that are lost on the air, in each direction, such as `"1 %"`.
    pub fn loss(mut self, loss: &str) -> Testbed {
        self.overrides.last_hop.loss = Some(loss.into());
        self
    }

    /// The queues at both ends of the last hop: a limit such as `"100 packets"` or `"200 kB"`, or a
    /// discipline such as `"codel"` or `"fq-codel"`.
    pub fn queue(mut self, queue: &str) -> Testbed {
        self.overrides.last_hop.queue = Some(queue.into());
        self
    }

    /// Traces of the rate of the downlink and of the uplink, files in Mahimahi's format. The crate
    /// contains `synthetic-lte.down` and `synthetic-lte.up`.
    pub fn traces(mut self, down: impl AsRef<Path>, up: impl AsRef<Path>) -> Testbed {
        self.overrides.last_hop.down = Some(down.as_ref().into());
        self.overrides.last_hop.up = Some(up.as_ref().into());
        self
    }

    /// Length of the run, such as `"60 s"`.
    pub fn duration(mut self, duration: &str) -> Testbed {
        self.overrides.flows.duration = Some(duration.into());
        self
    }

    /// Sets any key of the scenario, such as `("last_hop.down_loss", "2 %")` or
    /// `("flow.mine.start", "3 s")`.
    pub fn set(mut self, key: &str, value: &str) -> Testbed {
        self.overrides.set.push((key.into(), value.into()));
        self
    }

    /// Adds a flow for a stack, from the server to the mobile station.
    pub fn flow(self, name: &str) -> Testbed {
        self.add_flow(&[("name", name)])
    }

    /// Adds an endless TCP download of lasthop with this scheme, such as `"cubic"`, `"bbr"` or the
    /// name of a [`rule`](Testbed::rule).
    pub fn competitor(self, name: &str, scheme: &str) -> Testbed {
        self.add_flow(&[("name", name), ("scheme", scheme)])
    }

    /// Names a congestion control of the user, as a scheme for flows of lasthop's TCP with the loss
    /// recovery of Linux. `make` makes the rule of a connection, `needs` is what it needs of the
    /// connection; see [`rules`](crate::rules).
    pub fn rule(
        mut self,
        name: &str,
        needs: Needs,
        make: impl Fn() -> Box<dyn WindowRule> + Send + Sync + 'static,
    ) -> Testbed {
        self.rules.push(foreign_rule(name, needs, make));
        self
    }

    fn add_flow(mut self, keys: &[(&str, &str)]) -> Testbed {
        self.text.push_str("\n[[flow]]\n");
        for (key, value) in keys {
            // A string of JSON is one of TOML.
            self.text.push_str(&format!("{key} = {}\n", serde_json::Value::from(*value)));
        }
        self
    }

    /// Reads the traces and checks all values.
    ///
    /// # Errors
    ///
    /// [`Error::Scenario`] with the first mistake.
    pub fn load(&self) -> Result<Network, Error> {
        let files = Disk { rules: &self.rules };
        let loaded = load(&self.text, self.origin.as_deref(), &self.overrides, &files)
            .map_err(|e| Error::Scenario(without_dashes(&e.to_string())))?;
        Ok(Network::new(loaded.network))
    }

    /// [`Testbed::load`], then [`Network::run`].
    ///
    /// # Errors
    ///
    /// As for these two.
    pub fn run<'a>(
        &self,
        seed: u64,
        stacks: impl IntoIterator<Item = Stack<'a>>,
    ) -> Result<Run, Error> {
        self.load()?.run(seed, stacks)
    }
}

/// A checked network, for runs with several seeds or stacks.
#[derive(Clone, Debug)]
pub struct Network {
    network: network::Network,
}

impl Network {
    pub(crate) fn new(network: network::Network) -> Network {
        Network { network }
    }

    pub(crate) fn inner(&self) -> &network::Network {
        &self.network
    }

    /// The names of the flows.
    pub fn flows(&self) -> impl Iterator<Item = &str> {
        self.network.flows.iter().map(|flow| flow.name.as_str())
    }

    /// Runs stacks in the place of their flows, and the other flows as lasthop's own. What is
    /// random in the network is a function of the seed: losses and delays are drawn for times or
    /// ordinals and do not depend on what the stacks do.
    ///
    /// # Errors
    ///
    /// [`Error::Flow`] if a stack names no flow, or one that already has a stack;
    /// [`Error::Run`] if the network cannot be simulated, or an end does not stop at one instant.
    pub fn run<'a>(
        &self,
        seed: u64,
        stacks: impl IntoIterator<Item = Stack<'a>>,
    ) -> Result<Run, Error> {
        self.run_observed(seed, stacks, ())
    }

    /// As [`Network::run`], with an observer of all packets and of the senders of lasthop's flows.
    ///
    /// # Errors
    ///
    /// As for [`Network::run`].
    pub fn run_observed<'a, R: Observer>(
        &self,
        seed: u64,
        stacks: impl IntoIterator<Item = Stack<'a>>,
        observer: R,
    ) -> Result<Run, Error> {
        let mut network = self.network.clone();
        let mut attached: Vec<(usize, Stack<'a>)> = Vec::new();
        for stack in stacks {
            attached.push((attach(&mut network, &stack)?, stack));
        }
        attached.sort_by_key(|(flow, _)| *flow);
        let names: Vec<String> = attached.iter().map(|(_, stack)| stack.flow.clone()).collect();
        let mut ends: Vec<&mut dyn Endpoint> =
            attached.into_iter().flat_map(|(_, stack)| stack.ends).collect();
        let cancel = AtomicBool::new(false);
        let options = Options::default();
        let (result, datagrams) =
            run_with_endpoints(&network, seed, &mut ends, observer, &cancel, options)
                .map_err(|e| Error::Run(e.to_string()))?;
        let mut directions = datagrams.into_iter().map(Direction::new);
        let mut stacks = Vec::new();
        for flow in names {
            // Datagrams to the sender's end come first, as its end does.
            if let (Some(to_sender), Some(to_receiver)) = (directions.next(), directions.next()) {
                stacks.push(StackRun { flow, to_receiver, to_sender });
            }
        }
        Ok(Run { result, stacks })
    }
}

/// An error about a value set by a call, which names it as an option of the command line.
fn without_dashes(error: &str) -> String {
    error.strip_prefix("--set ").or_else(|| error.strip_prefix("--")).unwrap_or(error).into()
}

/// A window rule of the user as a scheme.
pub(crate) fn foreign_rule(
    name: &str,
    needs: Needs,
    make: impl Fn() -> Box<dyn WindowRule> + Send + Sync + 'static,
) -> SchemeChoice {
    // The recovery of a profile that has none.
    let recovery = RecoverySlot::Paper(Recovery::of(RecoveryKind::Newreno));
    SchemeChoice::of_rule(name, needs, recovery, make)
}

/// Replaces the application of a stack's flow. Returns the index of the flow.
fn attach(network: &mut network::Network, stack: &Stack<'_>) -> Result<usize, Error> {
    let name = &stack.flow;
    let Some(index) = network.flows.iter().position(|flow| flow.name == *name) else {
        let names: Vec<_> = network.flows.iter().map(|f| format!("`{}`", f.name)).collect();
        let names = names.join(", ");
        return Err(Error::Flow(format!("there is no flow `{name}`; the flows are {names}")));
    };
    if network.sessions.iter().any(|s| s.pages.iter().any(|page| page.contains(&index))) {
        return Err(Error::Flow(format!("flow `{name}` is part of a web session")));
    }
    let flow = &mut network.flows[index];
    if flow.app == App::External {
        return Err(Error::Flow(format!("flow `{name}` has two stacks")));
    }
    (flow.app, flow.headers, flow.reader) = (App::External, stack.headers, None);
    Ok(index)
}
