"""The command `lasthop run`."""

from __future__ import annotations

from lasthop.cli import options as common

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lasthop.cli.options import Options
    from lasthop.own_schemes import Scheme


def add_parser(commands: Any) -> None:
    """Add `run` to the command line."""
    run = commands.add_parser(
        "run",
        help="simulate one run",
        description="Simulate a scenario once.",
        **common.examples(
            "lasthop run --rate 2Mbps --rtt 40ms --loss 1% --scheme snoop --seed 3",
            "lasthop run cell.toml --scheme packet-control:dupack_threshold=12 --set duration=60s",
            "lasthop run cell.toml --pcap run.pcapng --events run-events --json",
        ),
    )
    common.add_scenario(run)
    common.add_wifi(run)
    common.add_flows(run)
    run.add_argument(
        "--scheme",
        metavar="S",
        help=(
            "scheme to use instead of the one in [tcp]: NAME, NAME:key=value:… or"
            " FILE.py:CLASS[:key=value:…]"
        ),
    )
    run.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help=(
            "seed of the random channel (default 1); --seed K reproduces the run of a comparison"
            " with seed K"
        ),
    )
    common.add_set(run)
    run.add_argument("--events", metavar="DIR", help="write every event to DIR/events.parquet")
    run.add_argument(
        "--pcap", metavar="FILE", help="write a packet capture (pcapng), for example for Wireshark"
    )
    run.add_argument(
        "--explain",
        action="store_true",
        help="print how each link would be computed and what measures the run; simulate nothing",
    )
    common.add_json(run)


def run(options: Options, words: list[str]) -> int:
    """`lasthop run`."""
    from lasthop import single_run
    from lasthop.scenarios import scenario_source

    scheme: Scheme | None = None
    if options.scheme is not None:
        from lasthop import own_schemes

        scheme = own_schemes.load_scheme(options.scheme)
    try:
        if options.explain:
            _explain(options, scheme)
            return 0
        source = scenario_source.source(
            common.scenario_file(options),
            settings=common.settings(options),
            last_hop=common.last_hop(options),
            flows=common.flows(options),
        )
        result, scenario = single_run.simulate(
            source, scheme, options.seed, options.events, options.pcap
        )
    except Exception as error:
        return common.report_rule(error, options, isinstance(scheme, type))
    if options.json:
        import shlex

        # Without the elapsed time: the same command prints the same bytes.
        common.print_json({**result, "command": shlex.join(words)})
    else:
        from lasthop.tables import run_text

        print(run_text.run(result, scenario.slots, scenario.assumed))
    return 0


def _explain(options: Options, scheme: Scheme | None) -> None:
    """`lasthop run --explain`."""
    from lasthop import runs
    from lasthop.tables import run_text

    explained = runs.explain(
        common.scenario_file(options),
        scheme=scheme,
        settings=common.settings(options),
        last_hop=common.last_hop(options),
        flows=common.flows(options),
        observed=options.events is not None or options.pcap is not None,
    )
    if options.json:
        common.print_json(explained)
    else:
        print(run_text.explanation(explained))
