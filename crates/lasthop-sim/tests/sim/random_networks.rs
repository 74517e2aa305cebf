//! Properties of every network, whatever its links, flows and schemes are.

use std::sync::atomic::AtomicBool;

use crate::support::elsewhere::check_stream_elsewhere;
use crate::support::random::{Case, Conditions, any_network, cases, network_with_arq};
use crate::support::verified::verified;
use crate::support::{Log, Seen, json, to_json};
use lasthop::air::config::RateConfig;
use lasthop::scenario::network::Network;
use lasthop::tcp::profile::ClockKind;
use lasthop::tcp::scoreboard::Marks;
use lasthop::tcp::sender::State;
use lasthop_sim::events::Kind;
use lasthop_sim::metrics::{Metrics, run};
use lasthop_sim::result::Contents;
use lasthop_sim::verifier::Verifier;
use lasthop_sim::{Options, Repeated, RunError, RunResult};
use proptest::prelude::*;

/// All events of a run and its JSON. Fails if the verifier finds a violation.
fn observe(network: &Network, seed: u64, evented: bool) -> Result<(Vec<Seen>, String), String> {
    let (mut verifier, mut log) = (Verifier::new(network), Log::default());
    let result = lasthop_sim::run_with(
        network,
        seed,
        (&mut verifier, &mut log),
        &AtomicBool::new(false),
        Options { evented, ..Options::default() },
    );
    let result = result.map_err(|e| e.to_string())?;
    verifier.finish_with(&result).map_err(|v| v.join("\n"))?;
    Ok((log.0, to_json(&result)))
}

/// Links without a limit do not count queued frames, so that these counts are not compared.
fn comparable(network: &Network, mut events: Vec<Seen>) -> Vec<Seen> {
    let unlimited =
        |l: Option<u32>| l.is_some_and(|l| network.links[l as usize].queue.limit.is_none());
    for e in events.iter_mut().filter(|e| e.kind == Kind::Enqueued && unlimited(e.link)) {
        e.value = 0.0;
    }
    events
}

fn first_difference(a: &[Seen], b: &[Seen]) -> Option<String> {
    let i = (0..a.len().max(b.len())).find(|&i| a.get(i) != b.get(i))?;
    Some(format!("event {i}:\n{:?}\n{:?}", a.get(i), b.get(i)))
}

proptest! {
    #![proptest_config(cases(4000))]

    /// The verifier finds no violations, and a run gives the same JSON and the same events however
    /// it is computed: departures computed in advance or event by event, links chained (without
    /// observers) or not.
    #[test]
    fn runs_have_no_violations_and_do_not_depend_on_the_method_of_computation(
        Case(network) in any_network(Conditions::Any),
        seed in 0u64..1000,
    ) {
        let (events, result) = observe(&network, seed, false).map_err(TestCaseError::fail)?;
        let (evented, evented_result) = observe(&network, seed, true).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&result, &evented_result, "evented");
        let (events, evented) = (comparable(&network, events), comparable(&network, evented));
        let difference = first_difference(&events, &evented);
        prop_assert!(difference.is_none(), "{}", difference.unwrap_or_default());
        prop_assert_eq!(&result, &json(&network, seed), "chained");
        prop_assert_eq!(json(&network, seed), json(&network, seed), "repeated");
    }

    /// A run that uses the memory of the run before gives what a run alone gives.
    #[test]
    fn runs_do_not_depend_on_the_run_before(
        Case(network) in any_network(Conditions::Any),
        seed in 0u64..1000,
    ) {
        let cancel = AtomicBool::new(false);
        let repeated = Repeated::new(&network, Contents::NUMBERS);
        let names: Vec<_> = run::METRICS.iter().map(|column| column.name).collect();
        let metrics = Metrics::new(&names);
        let for_metrics = Repeated::new(&network, metrics.read());
        for seed in seed..seed + 3 {
            let done = |run: Result<RunResult, RunError>| {
                run.map_err(|error| TestCaseError::fail(error.to_string()))
            };
            let found = done(repeated.run(seed, &cancel))?;
            let mut alone = done(lasthop_sim::run(&network, seed, &mut (), &cancel))?;
            let values = |run: &RunResult| -> Vec<u64> {
                metrics.values(run, None).map(f64::to_bits).collect()
            };
            let with_less = done(for_metrics.run(seed, &cancel))?;
            prop_assert_eq!(values(&with_less), values(&alone));
            for_metrics.take_back(with_less);
            // Texts that depend on the network alone are left out.
            alone.warnings.clear();
            for flow in &mut alone.flows {
                flow.slots.clear();
                flow.bounds.clear();
            }
            prop_assert_eq!(to_json(&found), to_json(&alone));
            repeated.take_back(found);
        }
    }

    /// The segments in the pool are those in transit on links. The bytes in flight of a sender
    /// agree with its scoreboard and with the events.
    #[test]
    fn the_state_at_the_end_is_consistent(
        Case(network) in any_network(Conditions::Any),
        seed in 0u64..1000,
    ) {
        let run = verified(&network, seed)?;
        let of_flows = run.result.flows.iter().map(|f| f.limited_by);
        let of_agents = run.result.agents.iter().map(|a| a.limited_by);
        for shares in of_flows.chain(of_agents).flatten() {
            let json = serde_json::to_value(shares).unwrap();
            let shares = json.as_object().unwrap().values().map(|v| v.as_f64().unwrap());
            prop_assert!(shares.clone().all(|s| (0.0..=1.0).contains(&s)), "{}", json);
            prop_assert!((shares.sum::<f64>() - 1.0).abs() < 1e-12, "{}", json);
        }
        run.check_pool(0)?;
        for (c, connection) in run.connections.iter().enumerate() {
            let sender = connection.sender();
            let (mut seq, mut segments, mut pipe) = (sender.snd_una(), 0, 0);
            while let Some(sent) = sender.sent(seq) {
                prop_assert_eq!(sent.seq, seq, "the scoreboard has no gaps");
                (seq, segments) = (sent.end(), segments + 1);
                // RFC 6675, SetPipe.
                let in_flight = !sent.marks.any(Marks::LOST);
                let copies = u64::from(in_flight) + u64::from(sent.marks.any(Marks::RESENT));
                let bytes = copies * (sent.end() - sent.seq);
                pipe += if sent.marks.any(Marks::SACKED) { 0 } else { bytes };
            }
            prop_assert_eq!(sender.pipe(), pipe, "the running count and a recount");
            prop_assert_eq!(seq, sender.snd_max());
            prop_assert_eq!(segments, sender.in_flight());
            // An aborted transfer ignores ACKs.
            if sender.state() != State::Closed {
                let recount = run.verifier.flight(c);
                prop_assert_eq!(sender.flight(), recount, "recounted from the events");
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(150))]

    /// Whatever is computed in advance, or in one go, does not depend on events elsewhere.
    #[test]
    fn runs_do_not_depend_on_a_stream_elsewhere(
        Case(network) in any_network(Conditions::Any),
        seed in 0u64..1000,
    ) {
        check_stream_elsewhere(&network, seed)?;
    }

    #[test]
    fn runs_with_agents_do_not_depend_on_a_stream_elsewhere(
        Case(network) in network_with_arq(Conditions::Any),
        seed in 0u64..1000,
    ) {
        check_stream_elsewhere(&network, seed)?;
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Without random draws the seed changes only its own value in the JSON.
    #[test]
    fn the_seed_matters_only_with_random_draws(Case(mut network) in any_network(Conditions::Any)) {
        // ns-2's clock phase and the phase of a trace are random too. Without them more networks
        // have no random draws.
        for flow in &mut network.flows {
            flow.profile.clock = ClockKind::Rfc;
        }
        network.links.iter_mut().filter(|l| l.trace.is_some()).for_each(|l| {
            l.rate = RateConfig::Trace { trace: "test".into(), start: Default::default() };
        });
        let without_seed = |seed: u64| {
            json(&network, seed).replace(&format!("\"seed\":{seed}"), "\"seed\":0")
        };
        let runs: Vec<String> = (1..=3).map(without_seed).collect();
        if !network.is_random() && !network.draws_processing_times() {
            prop_assert!(runs.iter().all(|r| *r == runs[0]));
        }
    }
}

/// Ten runs with losses and different seeds differ from each other.
#[test]
fn different_seeds_give_different_runs() {
    use lasthop::air::config::LossConfig;
    let mut network = crate::support::last_hop(
        vec![crate::support::rfc("newreno", 500)],
        lasthop::units::Duration::secs(100),
    );
    network.links[crate::support::DOWN].loss = LossConfig::uniform(lasthop::units::Share(0.03));
    let mut runs: Vec<String> = (1..=10)
        .map(|seed| json(&network, seed).replace(&format!("\"seed\":{seed},"), ""))
        .collect();
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), 10);
}
