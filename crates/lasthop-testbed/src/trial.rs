//! A congestion control or a stack of the user as a candidate of `lasthop evaluate`.

use std::io::{self, BufRead, Write};
use std::sync::atomic::AtomicBool;

use lasthop::scenario::network::{self, App, FlowRole};
use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::tcp::window::{Needs, WindowRule};
use lasthop_sim::hosts::external::Endpoint;
use lasthop_sim::metrics::Metrics;
use serde_json::{Value, json};

use crate::testbed::{Error, Network, Stack, Testbed, UDP_HEADERS, foreign_rule};

/// Makes the ends of a flow of a stack: the sender's and the receiver's.
type MakeEnds = Box<dyn Fn(u64) -> [Box<dyn Endpoint>; 2]>;

enum Kind {
    Rule(Box<SchemeChoice>),
    Stack { headers: u32, make: MakeEnds },
}

/// A candidate of `lasthop evaluate PROGRAM`: the program calls [`Candidate::serve`], which does
/// the runs of the suite in which the candidate takes the place of the flows under trial.
/// docs/foreign-stacks.md describes the lines that the two exchange.
///
/// # Examples
///
/// The whole program of a congestion control under lasthop's TCP:
///
/// ```no_run
/// use lasthop_testbed::Candidate;
/// use lasthop_testbed::rules::*;
///
/// struct Gentle;
///
/// #[window_rule]
/// impl WindowRule for Gentle {
///     fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
///         grow(window, ack);
///     }
///     fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
///         reduce_to(window, loss, 0.7 * loss.base());
///         LossClass::Unclassified
///     }
/// }
///
/// fn main() -> std::io::Result<()> {
///     Candidate::rule(Needs::default(), || Box::new(Gentle)).serve()
/// }
/// ```
pub struct Candidate(Kind);

impl Candidate {
    /// A congestion control under lasthop's TCP, as [`Testbed::rule`].
    pub fn rule(
        needs: Needs,
        make: impl Fn() -> Box<dyn WindowRule> + Send + Sync + 'static,
    ) -> Candidate {
        Candidate(Kind::Rule(Box::new(foreign_rule("candidate", needs, make))))
    }

    /// A stack over UDP, as [`Stack::udp`]. `make` makes the ends of a flow, given a number that
    /// derives from the seed and differs between the flows of a run. The sender's end sends without
    /// end.
    pub fn udp(make: impl Fn(u64) -> [Box<dyn Endpoint>; 2] + 'static) -> Candidate {
        Candidate(Kind::Stack { headers: UDP_HEADERS, make: Box::new(make) })
    }

    /// The same for a stack whose datagrams are whole IP packets, as [`Stack::ip`].
    pub fn ip(make: impl Fn(u64) -> [Box<dyn Endpoint>; 2] + 'static) -> Candidate {
        Candidate(Kind::Stack { headers: 0, make: Box::new(make) })
    }

    /// Answers the requests on the standard input until it ends.
    ///
    /// # Errors
    ///
    /// If the standard input or output fails.
    pub fn serve(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for line in io::stdin().lock().lines() {
            writeln!(out, "{}", self.answer(&line?))?;
            out.flush()?;
        }
        Ok(())
    }

    /// The answer to a request: a line of JSON with the key `rows`, `left_out` or `error`.
    pub fn answer(&self, request: &str) -> String {
        match self.rows(request) {
            Ok(answer) => answer,
            Err(error) => json!({ "error": error.to_string() }),
        }
        .to_string()
    }

    fn rows(&self, request: &str) -> Result<Value, Error> {
        let wrong = |what: &str| Error::Scenario(format!("a request needs {what}"));
        let request: Value = serde_json::from_str(request).map_err(|_| wrong("to be JSON"))?;
        let text = request["scenario"].as_str().ok_or_else(|| wrong("`scenario`"))?;
        let list = |key: &str| request[key].as_array().cloned().unwrap_or_default();
        let seeds: Vec<u64> = list("seeds").iter().filter_map(Value::as_u64).collect();
        let names = list("metrics");
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        if seeds.is_empty() || names.is_empty() {
            return Err(wrong("`seeds` and `metrics`"));
        }
        let metrics = Metrics::new(&names);
        let network = Testbed::from_toml(text).load()?;
        let network = network.inner();
        if let Some(why) = self.cannot_replace(network) {
            return Ok(json!({ "left_out": why }));
        }
        let alone = network.without_candidates().filter(|_| metrics.needs_alone());
        let mut rows = Vec::new();
        for seed in seeds {
            let run = self.run(network, seed)?;
            let alone = alone.as_ref().map(|network| {
                lasthop_sim::run(network, seed, (), &AtomicBool::new(false))
                    .map_err(|e| Error::Run(e.to_string()))
            });
            let alone = alone.transpose()?;
            let values = names.iter().zip(metrics.values(&run, alone.as_ref()));
            let seen = values.map(|(name, value)| if self.sees(name) { value } else { f64::NAN });
            rows.push(seen.collect::<Vec<f64>>());
        }
        Ok(json!({ "rows": rows }))
    }

    /// False for what datagrams do not show: which of them a stack has sent again.
    fn sees(&self, metric: &str) -> bool {
        matches!(self.0, Kind::Rule(_)) || !metric.contains("retransmissions")
    }

    /// Why the flows under trial cannot be those of a stack.
    fn cannot_replace(&self, network: &network::Network) -> Option<&'static str> {
        let Kind::Stack { .. } = self.0 else { return None };
        let mut candidates = network.flows.iter().filter(|f| f.role == FlowRole::Candidate);
        candidates.find_map(|flow| match (&flow.app, flow.misbehaviour) {
            (App::Bulk, None) => None,
            (App::Bulk, Some(_)) => Some("the receiver of a stack does not misbehave"),
            _ => Some("the ends of a stack do not know where a transfer ends"),
        })
    }

    fn run(&self, network: &network::Network, seed: u64) -> Result<lasthop_sim::RunResult, Error> {
        let mut network = network.clone();
        let is_candidate = |flow: &network::Flow| flow.role == FlowRole::Candidate;
        match &self.0 {
            Kind::Rule(rule) => {
                for flow in network.flows.iter_mut().filter(|f| is_candidate(f)) {
                    flow.scheme = SchemeChoice::clone(rule);
                }
                Network::new(network).run(seed, []).map(|run| run.result)
            }
            Kind::Stack { headers, make } => {
                let names: Vec<String> = network
                    .flows
                    .iter()
                    .filter(|f| is_candidate(f))
                    .map(|f| f.name.clone())
                    .collect();
                let number = |i: usize| seed.wrapping_mul(1_000).wrapping_add(i as u64);
                let mut ends: Vec<_> = (0..names.len()).map(|i| make(number(i))).collect();
                let stacks = names.iter().zip(&mut ends).map(|(name, [sender, receiver])| {
                    Stack::udp(name, &mut **sender, &mut **receiver).headers(*headers)
                });
                Network::new(network).run(seed, stacks).map(|run| run.result)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lasthop::tcp::window::{Ack, Loss, LossClass, Window, grow, halve, window_rule};
    use lasthop_sim::hosts::external::Datagram;
    use std::time::Duration;

    use super::*;

    /// Reno.
    struct Plain;

    #[window_rule]
    impl WindowRule for Plain {
        fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
            grow(window, ack);
        }
        fn on_loss(&mut self, window: &mut Window, loss: &Loss) -> LossClass {
            halve(window, loss);
            LossClass::Unclassified
        }
    }

    /// Sends 1000 bytes each millisecond, or nothing.
    struct Constant(bool, Duration);

    impl Endpoint for Constant {
        fn handle(&mut self, _: Datagram, _: Duration) {}
        fn poll_transmit(&mut self, now: Duration) -> Option<Datagram> {
            let at = self.next_timeout().filter(|at| *at <= now)?;
            self.1 = at + Duration::from_millis(1);
            Some(Datagram::new(vec![0; 1000]))
        }
        fn next_timeout(&mut self) -> Option<Duration> {
            self.0.then_some(self.1)
        }
    }

    const SCENARIO: &str = r#"
        duration = "5 s"
        last_hop = { rate = "10 Mbps", rtt = "40 ms", loss = "1 %", queue = "1 BDP" }
        [[flow]]
        name = "candidate"
        [[flow]]
        name = "other"
        role = "competitor"
        scheme = "reno"
    "#;
    const METRICS: [&str; 3] =
        ["roles.candidate.goodput_share", "roles.competitor.harm_goodput", "radio_capacity_bps"];

    fn ask(candidate: &Candidate, scenario: &str, metrics: &[&str]) -> Value {
        let request = json!({ "scenario": scenario, "seeds": [1, 2], "metrics": metrics });
        serde_json::from_str(&candidate.answer(&request.to_string())).unwrap()
    }

    fn constant() -> Candidate {
        Candidate::udp(|_| {
            [Box::new(Constant(true, Duration::ZERO)), Box::new(Constant(false, Duration::ZERO))]
        })
    }

    #[test]
    fn a_rule_has_the_results_of_the_same_rule_of_the_catalogue() {
        let rule = Candidate::rule(Needs::default(), || Box::new(Plain));
        let found = ask(&rule, SCENARIO, &METRICS);
        let network = Testbed::from_toml(SCENARIO).set("tcp.scheme", "reno").load().unwrap();
        let alone = Network::new(network.inner().without_candidates().unwrap());
        let (own, alone) = (network.run(2, []).unwrap(), alone.run(2, []).unwrap());
        let own: Vec<f64> =
            Metrics::new(&METRICS).values(&own.result, Some(&alone.result)).collect();
        assert_eq!(found["rows"][1], json!(own));
        assert!(own.iter().all(|value| value.is_finite()));
        assert_eq!(found, ask(&rule, SCENARIO, &METRICS));
    }

    #[test]
    fn a_stack_takes_the_place_of_endless_flows_only() {
        let found = ask(&constant(), SCENARIO, &METRICS);
        // 8 Mbit/s of 10: more than half, with the other flow in the rest.
        assert!(found["rows"][0][0].as_f64().unwrap() > 0.6, "{found}");
        assert!(found["rows"][0][1].as_f64().unwrap() > 0.2, "{found}");
        let with =
            |key: &str| SCENARIO.replace("name = \"candidate\"", &format!("name = \"c\"\n{key}"));
        let transfer =
            ask(&constant(), &with(r#"app = { kind = "transfer", size = "1 MB" }"#), &METRICS);
        assert!(transfer["left_out"].as_str().unwrap().contains("transfer"));
        let lies = ask(&constant(), &with(r#"misbehaviour = "optimistic-acks""#), &METRICS);
        assert!(lies["left_out"].as_str().unwrap().contains("misbehave"));
        let counts = ["spurious_retransmissions", "flows.candidate.sent_segments"];
        let found = ask(&constant(), SCENARIO, &counts);
        assert_eq!(found["rows"][0][0], Value::Null);
        assert_eq!(found["rows"][0][1].as_f64(), Some(5000.0));
    }

    #[test]
    fn a_wrong_request_is_an_error() {
        assert!(constant().answer("nonsense").contains("JSON"));
        assert!(ask(&constant(), "rate = 1", &METRICS)["error"].is_string());
        assert!(ask(&constant(), SCENARIO, &[])["error"].is_string());
    }
}
