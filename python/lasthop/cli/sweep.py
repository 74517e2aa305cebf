"""The commands `lasthop sweep` and `lasthop merge`."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.cli import options as common
from lasthop.cli.progress import SweepProgress
from lasthop.errors import Abandoned, InputError

if TYPE_CHECKING:
    from lasthop.experiments.plan import Plan
    from lasthop.experiments.sweep import Runs, Sweep
    from lasthop.experiments.workers import Workers


# With more cases, and more assumptions about some cases, they are counted instead of described.
MAX_DESCRIBED = 200


def add_parsers(commands: Any) -> None:
    """Add `sweep` and `merge` to the command line."""
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
    sweep.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY=VALUES",
        help=(
            "an axis: V1,V2,… or START..STOP..STEP or linspace(START, STOP, COUNT) or logspace(…);"
            " several axes form a grid"
        ),
    )
    sweep.add_argument(
        "--zip",
        action="append",
        default=[],
        metavar="'K1=VALUES & K2=VALUES'",
        help="an axis of several keys that change together",
    )
    sweep.add_argument("--seeds", metavar="N|A..B", help="use seeds 1 to N, or A to B (default 20)")
    sweep.add_argument(
        "--until",
        metavar="RULE",
        help=(
            "add seeds at each point until the 95 %% interval of a metric is narrow enough, such as"
            " 'goodput ± 2 %%'; --seeds is then the first round (default 10)"
        ),
    )
    sweep.add_argument(
        "--max-seeds",
        type=int,
        metavar="N",
        help="most seeds of a point with --until (default 200)",
    )
    common.add_set(sweep)
    sweep.add_argument("--out", metavar="DIR", required=True, help="folder of the sweep")
    sweep.add_argument(
        "--jobs", type=int, metavar="N", help="number of processes (default: all processors)"
    )
    sweep.add_argument(
        "--dask", metavar="ADDRESS", help="use the Dask cluster of this scheduler (address or file)"
    )
    sweep.add_argument("--shard", metavar="i/N", help="do only part i of N, for `lasthop merge`")
    sweep.add_argument(
        "--chunk", metavar="T", help="CPU time of a chunk (default: 10 to 60 s, by the amount)"
    )
    sweep.add_argument(
        "--status", action="store_true", help="print what is done and missing in DIR, and exit"
    )
    _add_output(sweep)
    merge = commands.add_parser(
        "merge",
        help="join the shards of a sweep",
        description=(
            "Join the folders that `lasthop sweep --shard i/N` wrote. Folders of another sweep are"
            " refused."
        ),
        **common.examples("lasthop merge results-1 results-2 --out results"),
    )
    merge.add_argument("folders", nargs="+", metavar="DIR", help="folders of shards")
    merge.add_argument("--out", metavar="DIR", required=True, help="folder to write")
    _add_output(merge)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="print only errors")
    parser.add_argument(
        "--progress",
        choices=("auto", "json", "none"),
        default="auto",
        help="progress on stderr: a line on a terminal (auto), or JSON lines",
    )
    common.add_json(parser)


def _shard(text: str | None) -> tuple[int, int]:
    if text is None:
        return 1, 1
    number, slash, count = text.partition("/")
    if (
        not slash
        or not number.isdigit()
        or not count.isdigit()
        or not 1 <= int(number) <= int(count)
    ):
        raise InputError(f"--shard must be i/N with i from 1 to N, such as 2/8, found `{text}`")
    return int(number), int(count)


def _prepare(options: argparse.Namespace, words: Sequence[str]) -> tuple[Plan, Sweep, list[str]]:
    """Plan a sweep; returns the plan, its description, and the schemes as written."""
    from lasthop import _native, own_schemes
    from lasthop.experiments import axes, experiment, plan, provenance, stop_rule, sweep
    from lasthop.experiments import sweep_table as table

    where = plan.source(
        options.file,
        settings=common.settings(options),
        last_hop=common.last_hop(options),
        flows=common.flows(options),
    )
    plan.load(where)  # reports errors with their position in the file
    origin = options.file or "scenario"
    given = experiment.read(Path(origin), text=where.text).experiment
    asked = table.Wanted(
        tuple(common.split_list(options.schemes, "--schemes")) if options.schemes else (),
        table.read_options(options.vary, options.zip),
        axes.read_seeds(options.seeds) if options.seeds else None,
        options.until,
        options.max_seeds,
    )
    wanted = asked.over(table.read(where.text, origin, given))
    seeds = wanted.seeds
    if wanted.until is None:
        if wanted.max_seeds is not None:
            raise InputError("--max-seeds needs a stop rule (--until)")
        seeds = seeds or range(1, table.DEFAULT_SEEDS + 1)
        first_round = len(seeds)
    else:
        first_round = len(seeds) if seeds else stop_rule.FIRST_ROUND
        most = wanted.max_seeds or max(stop_rule.DEFAULT_MAX_SEEDS, first_round)
        if most < first_round or first_round < 3:
            raise InputError(
                f"--until needs a first round of at least 3 seeds and at most --max-seeds; found"
                f" --seeds {first_round}, --max-seeds {most}"
            )
        start = seeds.start if seeds else 1
        seeds = range(start, start + most)
    version, build = _native.version(), provenance.build_id()
    the_plan = plan.plan(
        where,
        [own_schemes.load_scheme(s) for s in wanted.schemes],
        seeds,
        wanted.vary,
        own=given.settings,
        version=version,
        build=build,
    )
    about = {
        "lasthop": version,
        "build": build,
        "scenario": the_plan.title,
        "scenario_sha256": the_plan.sha256,
        "command": shlex.join(words),
        "vary": {k: list(v) for k, v in the_plan.vary.items()},
        "schemes": list(wanted.schemes),
        "warnings": the_plan.warnings,
        "assumed": _assumed(the_plan),
    }
    described = sweep.describe(
        the_plan,
        until=None
        if wanted.until is None
        else stop_rule.read(wanted.until, list(sweep.names_of(the_plan))),
        first_round=first_round,
        about=about,
        shard=_shard(options.shard),
    )
    return the_plan, described, list(wanted.schemes)


def _assumed(the_plan: Plan) -> list[str]:
    """The assumptions; with many cases, those about some cases only name how many these are."""
    if len(the_plan.cases) <= MAX_DESCRIBED:
        return [f"{at}: {line}" if at else line for at, line in the_plan.assumed]
    held = Counter(line for c in the_plan.cases for line in dict.fromkeys(c.scenario.assumed))
    total = len(the_plan.cases)
    lines = [line for line, count in held.items() if count == total]
    some = [f"for {n} of {total} cases: {line}" for line, n in held.items() if n < total]
    more = len(some) - MAX_DESCRIBED
    return [*lines, *some[:MAX_DESCRIBED], *([f"for some cases: {more} more"] if more > 0 else [])]


def sweep(options: argparse.Namespace, words: list[str]) -> int:
    """`lasthop sweep`."""
    from lasthop.experiments import parts, store

    parts.import_polars()
    folder = Path(options.out)
    if options.status:
        return _status(folder, options)
    if options.jobs is not None and options.jobs < 1:
        raise InputError(f"--jobs must be at least 1, found {options.jobs}")
    the_plan, described, schemes = _prepare(options, words)
    with store.sole_writer(folder):
        return _do(options, folder, the_plan, described, schemes)


def _do(
    options: argparse.Namespace, folder: Path, the_plan: Plan, described: Sweep, schemes: list[str]
) -> int:
    from lasthop import quantities
    from lasthop.experiments import store, sweep, sweep_run

    start = time.monotonic()
    runs = sweep.Runs(described)
    progress = SweepProgress("none" if options.quiet else options.progress, options.quiet)
    sweep_run.take_over(folder, runs, progress.note)
    sweep.write_description(folder, described)
    store.write_whole(folder / "scenario.toml", the_plan.filled)
    reused = len(runs.values)
    chunk = None if options.chunk is None else quantities.seconds(options.chunk, "--chunk")
    cutter = sweep.Cutter(the_plan, described, schemes, described.about["build"])
    runner = sweep_run.Runner(folder, runs, cutter, chunk, progress)
    complete = True
    if runs.missing():
        workers = _workers(options, described)
        try:
            complete = runner.run(workers)
        except Abandoned:
            raise Abandoned(
                f"{len(runs.values)} runs are saved in {folder}; repeat the command to continue"
            ) from None
        finally:
            progress.end()
        workers.close()
    if not complete:
        print(
            f"lasthop: interrupted; {len(runs.values)} runs are saved in {folder}; repeat the"
            " command to continue",
            file=sys.stderr,
        )
        return 130
    return _finish(options, folder, runs, reused, start)


def _workers(options: argparse.Namespace, described: Sweep) -> Workers:
    if options.dask is not None:
        if options.jobs is not None:
            raise InputError("--jobs is the number of local processes; --dask uses its workers")
        from lasthop.experiments.dask_workers import DaskWorkers

        return DaskWorkers(options.dask, described.about["build"])
    from lasthop.experiments import pool
    from lasthop.experiments.workers import Processes

    return Processes(options.jobs or pool.cores())


def _finish(
    options: argparse.Namespace, folder: Path, runs: Runs, reused: int, start: float
) -> int:
    from lasthop.experiments import sweep

    files = sweep.write_tables(folder, runs)
    document = sweep_document(runs, reused, time.monotonic() - start)
    if options.json:
        common.print_json(document)
    elif not options.quiet:
        print(_text(document, folder, [f.name for f in files]))
    for run, error in sorted(runs.failed.items())[:1]:
        case = runs.sweep.cases[run[0]]
        print(f"lasthop: run {run[1]} of {case.label} failed: {error}", file=sys.stderr)
    return 1 if runs.failed else 0


def sweep_document(runs: Runs, reused: int, elapsed_s: float) -> dict[str, Any]:
    """The object that `lasthop sweep --json` prints."""
    from lasthop.experiments import sweep

    described = runs.sweep
    return {
        "schema_version": sweep.SCHEMA_VERSION,
        **{k: v for k, v in described.about.items() if k != "vary"},
        "id": described.id,
        "shard": list(described.shard),
        "points": len(described.points),
        "runs": len(runs.values),
        "reused": reused,
        "missing": len(runs.missing()),
        "failed": [
            {
                "point": described.cases[case].point,
                "scheme": described.cases[case].label,
                "seed": seed,
                "error": error,
            }
            for (case, seed), error in sorted(runs.failed.items())
        ],
        "elapsed_s": round(elapsed_s, 3),
    }


def _text(document: dict[str, Any], folder: Path, files: Sequence[str]) -> str:
    number, count = document["shard"]
    shard = "" if count == 1 else f"shard {number} of {count}: "
    lines = [
        f"{document['scenario']}: {shard}{document['points']} points x"
        f" {len(document['schemes'])} schemes, {document['runs']} runs"
        f" ({document['reused']} reused), {len(document['failed'])} failed",
        f"written to {folder}/: {', '.join(files)}",
    ]
    general = [a for a in document["assumed"] if not a.startswith(("at ", "for "))]
    more = len(document["assumed"]) - len(general)
    assumed = [f"assumed: {a}" for a in general]
    if more:
        assumed.append(f"assumptions about some cases: {more}, in sweep.json")
    return "\n".join([lines[0], *assumed, lines[1]])


def _status(folder: Path, options: argparse.Namespace) -> int:
    """Print what a folder has, without changing it."""
    from lasthop.experiments import sweep

    described = sweep.read(folder)
    runs = sweep.Runs(described)
    left_out = runs.load(folder, clean=False)
    missing = runs.missing()
    found = {
        "schema_version": sweep.SCHEMA_VERSION,
        "scenario": described.about.get("scenario"),
        "id": described.id,
        "shard": list(described.shard),
        "runs": len(runs.values),
        "missing": len(missing),
        "parts_bytes": sweep.folder_size(folder),
        "not_used": dict(left_out),
        "running": _is_locked(folder),
    }
    if options.json:
        common.print_json(found)
        return 0
    total = len(runs.values) + len(missing)
    state = "a sweep is running" if found["running"] else "no sweep is running"
    print(
        f"{folder}: {len(runs.values)} of {total} runs are finished, {len(missing)} are missing"
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


def merge(options: argparse.Namespace, _: list[str]) -> int:
    """`lasthop merge`."""
    from lasthop.experiments import parts, store, sweep, sweep_run

    parts.import_polars()
    start, out = time.monotonic(), Path(options.out)
    progress = SweepProgress("none" if options.quiet else options.progress, options.quiet)
    with store.sole_writer(out):
        runs, missing = sweep_run.merge([Path(f) for f in options.folders], out, progress.note)
        files = sweep.write_tables(out, runs)
    document = sweep_document(runs, len(runs.values), time.monotonic() - start)
    if options.json:
        common.print_json(document)
    elif not options.quiet:
        print(_text(document, out, [f.name for f in files]))
    if missing:
        print(
            f"lasthop: {missing} runs are missing; do the other shards, or repeat the command of"
            f" the sweep with --out {out} and without --shard",
            file=sys.stderr,
        )
    return 1 if missing else 0
