//! `lasthop gateway` without Python, for routers with little room.

use std::process::ExitCode;
use std::{env, io};

use lasthop::schemes::catalogue::SchemeChoice;
use lasthop::units::{Quantity, Rate};
use lasthop_live::gateway::rules::{self, Match};
use lasthop_live::gateway::{Gateway, MAX_FLOWS, Options, privileges, signals};

const USAGE: &str = "\
usage: lasthop-gateway --scheme S --wireless IFACE [--wired IFACE] [--rate R] [--max-flows N]
                       [--radio PORT]
       lasthop-gateway --remove --wireless IFACE
       lasthop-gateway --rules --wireless IFACE [--wired IFACE]

Runs the agent of a scheme (snoop, packet-control, ack-pacing, rate-control) on the TCP packets that
this machine forwards to and from IFACE, or divides their connections by its relay (i-tcp, m-tcp,
rnf), until SIGINT or SIGTERM. SIGUSR1 prints the state.
  --wired IFACE   only packets that come from or go to this interface
  --rate R        rate of the radio link, such as 20Mbps, for agents that need it
  --max-flows N   connections that are tracked at most (default 16384)
  --radio PORT    port of 127.0.0.1 at which the radio link reports its rate and queue, for relays
  --remove        remove the rules that a killed gateway has left
  --rules         print the rules in the language of nft";

/// The command line.
#[derive(Default)]
struct Words {
    scheme: Option<String>,
    wireless: Option<String>,
    wired: Option<String>,
    rate: Option<Rate>,
    max_flows: Option<usize>,
    radio: Option<u16>,
    remove: bool,
    rules: bool,
}

fn read(mut words: impl Iterator<Item = String>) -> Result<Words, String> {
    let mut read = Words::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--scheme" => read.scheme = Some(value()?),
            "--wireless" => read.wireless = Some(value()?),
            "--wired" => read.wired = Some(value()?),
            "--rate" => read.rate = Some(Rate::parse(&value()?)?),
            "--max-flows" => {
                let number = value()?;
                read.max_flows = Some(number.parse().map_err(|_| format!("{word} {number}"))?);
            }
            "--radio" => {
                let port = value()?;
                read.radio = Some(port.parse().map_err(|_| format!("{word} {port}"))?);
            }
            "--remove" => read.remove = true,
            "--rules" => read.rules = true,
            "--help" | "-h" => return Err(String::new()),
            _ => return Err(format!("unknown option {word}")),
        }
    }
    Ok(read)
}

fn run(words: Words) -> Result<(), String> {
    let wireless = words.wireless.ok_or("--wireless is missing")?;
    if words.remove {
        let removed = rules::remove_left(&wireless).map_err(|e| e.to_string())?;
        eprintln!("{removed} tables removed");
        return Ok(());
    }
    let matched = Match { wireless, wired: words.wired };
    if words.rules {
        print!("{}", matched.text(rules::FIRST_QUEUE));
        return Ok(());
    }
    let scheme = SchemeChoice::parse(&words.scheme.ok_or("--scheme is missing")?)?;
    let max_flows = words.max_flows.unwrap_or(MAX_FLOWS);
    let (rate, radio) = (words.rate, words.radio);
    let options = Options { scheme, matched, rate, max_flows, radio };
    signals::take();
    let report = Gateway::new(options).and_then(|gateway| {
        privileges::reduce()?;
        gateway.run(|gateway| {
            if signals::asked() {
                eprintln!("{}", gateway.state());
            }
            io::Result::Ok(!signals::ended())
        })
    });
    println!("{}", report.map_err(|e| e.to_string())?);
    Ok(())
}

fn main() -> ExitCode {
    match read(env::args().skip(1)).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) if text.is_empty() => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("lasthop-gateway: {text}");
            ExitCode::from(2)
        }
    }
}
