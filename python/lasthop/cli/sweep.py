"""The command `lasthop sweep`."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from lasthop.cli import options as common
from lasthop.cli.options import Options


def add_parser(commands: Any) -> None:
    """Add `sweep` to the command line."""
    sweep = commands.add_parser(
        "sweep",
        help="do many runs, resumable, on several processes or machines",
        description=(
            "Do the runs of all combinations of axes, schemes and seeds. Finished runs are kept in"
            " DIR as Parquet\nparts; the same command does only what is missing. The result is"
            " DIR/table.csv, with one row per point,\nscheme and metric, and DIR/runs.parquet."
        ),
        **common.examples(
            "lasthop sweep --rate 2Mbps --rtt 40ms --loss 1% --schemes reno,snoop --vary"
            " last_hop.rtt=20..100..20ms --seeds 50 --out results",
            "lasthop sweep --rate 2Mbps --rtt 40ms --schemes cubic,bbr --vary"
            " 'last_hop.loss=logspace(0.1 %, 10 %, 7)' --until 'goodput ± 2 %' --out results",
            "lasthop sweep --rate 2Mbps --rtt 40ms --loss 1% --schemes cubic,bbr --zip"
            " 'last_hop.rate=1..4..1 Mbps & last_hop.queue=10..40..10 packets' --out results",
            "lasthop sweep --out results --status",
        ),
    )
    common.add_scenario(sweep)
    common.add_flows(sweep)
    sweep.add_argument(
        "--schemes",
        metavar="S1,S2,…",
        help="schemes: NAME, NAME:key=value:… or FILE.py:CLASS[:key=value:…]",
    )
    _add_axes(sweep)
    common.add_set(sweep)
    sweep.add_argument("--out", metavar="DIR", required=True, help="folder of the sweep")
    _add_work(sweep)
    common.add_output(sweep)


def _add_axes(parser: Any) -> None:
    """What is varied, and how many seeds a point has."""
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY=VALUES",
        help=(
            "an axis: V1,V2,… or START..STOP..STEP or linspace(START, STOP, COUNT) or logspace(…);"
            " several axes form a grid"
        ),
    )
    parser.add_argument(
        "--zip",
        action="append",
        default=[],
        metavar="'K1=VALUES & K2=VALUES'",
        help="an axis of several keys that change together",
    )
    parser.add_argument(
        "--seeds", metavar="N|A..B", help="use seeds 1 to N, or A to B (default 20)"
    )
    parser.add_argument(
        "--until",
        metavar="RULE",
        help=(
            "add seeds at each point until the 95 %% interval of a metric is narrow enough, such as"
            " 'goodput ± 2 %%'; --seeds is then the first round (default 10)"
        ),
    )
    parser.add_argument(
        "--max-seeds",
        type=int,
        metavar="N",
        help="most seeds of a point with --until (default 200)",
    )


def _add_work(parser: Any) -> None:
    """Who does the runs, and which."""
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="number of processes (default: all processors)"
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="use the Dask cluster of this scheduler (address or file)"
    )
    parser.add_argument("--shard", metavar="i/N", help="do only part i of N, for `lasthop merge`")
    parser.add_argument(
        "--chunk", metavar="T", help="CPU time of a chunk (default: 10 to 60 s, by the amount)"
    )
    parser.add_argument(
        "--status", action="store_true", help="print what is done and missing in DIR, and exit"
    )


def sweep(options: Options, words: list[str]) -> int:
    """`lasthop sweep`."""
    from lasthop import batches
    from lasthop.experiments import sweep_table

    if options.status:
        return _status(Path(options.out), options)
    result = batches.sweep(
        options.file,
        schemes=common.split_list(options.schemes, "--schemes") if options.schemes else (),
        vary=sweep_table.read_options(options.vary, options.zip),
        seeds=options.seeds,
        until=options.until,
        max_seeds=options.max_seeds,
        settings=common.settings(options),
        last_hop=common.last_hop(options),
        flows=common.flows(options),
        out=options.out,
        jobs=options.jobs,
        dask=options.dask,
        shard=options.shard,
        chunk=options.chunk,
        progress=options.progress,
        quiet=options.quiet,
        command=words,
    )
    if result.interrupted:
        print(
            f"lasthop: interrupted; {result.data['runs']} runs are saved in {options.out}; repeat"
            " the command to continue",
            file=sys.stderr,
        )
        return 130
    if options.json:
        common.print_json(result.to_dict())
    elif not options.quiet:
        print(result)
    return 1 if result.failed else 0


def _status(folder: Path, options: Options) -> int:
    """Print what a folder has, without changing it."""
    from lasthop.experiments import sweep

    described = sweep.read(folder)
    runs = sweep.Runs(described)
    left_out = runs.load(folder, clean=False)
    missing = sweep.count_of(runs.missing())
    found = {
        "schema_version": sweep.SCHEMA_VERSION,
        "scenario": described.about.get("scenario"),
        "id": described.id,
        "shard": list(described.shard),
        "runs": runs.finished,
        "missing": missing,
        "parts_bytes": sweep.folder_size(folder),
        "not_used": dict(left_out),
        "running": _is_locked(folder),
    }
    if options.json:
        common.print_json(found)
        return 0
    total = runs.finished + missing
    state = "a sweep is running" if found["running"] else "no sweep is running"
    print(
        f"{folder}: {runs.finished} of {total} runs are finished, {missing} are missing"
        f"{' (more if the stop rule is not satisfied)' if described.until else ''}; {state}"
    )
    for reason, count in left_out.items():
        print(f"{count} parts or rows {reason}")
    return 0


def _is_locked(folder: Path) -> bool:
    if sys.platform == "win32":
        return False
    import fcntl

    with suppress(OSError), open(folder / ".lasthop.lock", "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
