"""The command `lasthop check`."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.cli import options as common
from lasthop.cli.options import Options
from lasthop.errors import InputError
from lasthop.quantities import LAST_HOP, count

if TYPE_CHECKING:
    from lasthop.experiments.baseline import Setup

_RUNS = ("schemes", "seeds", *LAST_HOP)


def add_parser(commands: Any) -> None:
    """Add `check` to the command line."""
    check = commands.add_parser(
        "check",
        help="compare with a baseline, for continuous integration",
        description=(
            "Repeat the runs of a baseline with the present code and the same random draws. Each"
            " gate must hold for\nthe whole 95 % interval of the ratio to the baseline; otherwise"
            " the exit status is 1."
        ),
        **common.examples(
            "lasthop check baseline.json --update --rate 2Mbps --rtt 40ms --loss 1% --schemes"
            " mine.py:MyRule",
            "lasthop check baseline.json",
            "lasthop check baseline.json --gate 'goodput >= 0.98' --gate 'delay <= 1.05' --junit"
            " check.xml",
        ),
    )
    check.add_argument("baseline", metavar="BASELINE.json", help="baseline to compare with")
    check.add_argument(
        "--gate",
        action="append",
        default=[],
        metavar="RULE",
        help=(
            "METRIC >= RATIO or METRIC <= RATIO, relative to the baseline; may be given several"
            " times (default: those of the baseline, or 'goodput >= 0.98')"
        ),
    )
    check.add_argument("--junit", metavar="FILE", help="write the results as JUnit XML")
    check.add_argument(
        "--update",
        nargs="?",
        const="",
        metavar="FILE.toml",
        help=(
            "write the baseline: with this scenario or the last hop given here, or else with the"
            " runs that it has"
        ),
    )
    common.add_last_hop(check)
    check.add_argument("--schemes", metavar="S1,S2,…", help="schemes to run (with --update)")
    check.add_argument(
        "--seeds", type=int, metavar="N", help="use seeds 1 to N (with --update; default 10)"
    )
    check.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="KEY=VALUES",
        help="points, as in `lasthop sweep` (with --update)",
    )
    common.add_set(check)
    common.add_output(check)


def check(options: Options, words: list[str]) -> int:
    """`lasthop check`."""
    given = bool(options.vary or options.set) or any(
        getattr(options, name) is not None for name in _RUNS
    )
    if options.update is not None:
        return _update(options, words, given or bool(options.update))
    if given:
        raise InputError("the baseline says what to run; a scenario is given only with --update")
    return _check(options, words)


def _check(options: Options, words: list[str]) -> int:
    from lasthop import _native
    from lasthop.experiments import baseline, store
    from lasthop.scenarios import outputs
    from lasthop.tables import summary

    start, path = time.monotonic(), Path(options.baseline)
    document = baseline.read(path)
    what = baseline.setup_of(document)
    baseline.check_file(path, what)
    gates = [baseline.read_gate(g) for g in options.gate or document["gates"]]
    version = _native.version()
    the_plan = what.plan(version)
    if options.junit is not None:
        outputs.check([("--junit", options.junit)], [path, *the_plan.inputs])
    found = baseline.run(the_plan, version, _native.CancelToken())
    results = baseline.judge(document, found, gates)
    elapsed = time.monotonic() - start
    if options.junit is not None:
        text = baseline.junit(results, document["scenario"], elapsed)
        store.write_whole(Path(options.junit), text)
    failed = [r for r in results if r.verdict != baseline.OK]
    if options.json:
        common.print_json(
            {
                "schema_version": baseline.SCHEMA_VERSION,
                "lasthop": version,
                "scenario": document["scenario"],
                "command": shlex.join(words),
                "baseline": str(path),
                "baseline_build": document["build"],
                "ok": not failed,
                "results": [r.to_dict() for r in results],
                "assumed": [f"{at}: {line}" if at else line for at, line in found.plan.assumed],
                "failed": [
                    {"scheme": r.case.label, "seed": r.seed, "error": r.error} for r in found.failed
                ],
                "elapsed_s": round(elapsed, 3),
            }
        )
    elif not options.quiet:
        print(f"{document['scenario']}: present code against {path}")
        print("\n".join(baseline.text(r) for r in results))
        print(f"{len(results) - len(failed)} of {len(results)} gates hold")
        if not what.draw_starts and _would_draw(what, version):
            print(
                f"{path} has no drawn starts, because an older lasthop wrote it; with --update it"
                " gets runs that differ by seed"
            )
        for line in summary.assumptions(found.plan):
            print(line)
    if found.failed:
        row = found.failed[0]
        print(f"lasthop: run {row.seed} of {row.case.label} failed: {row.error}", file=sys.stderr)
    return 1 if failed else 0


def _would_draw(what: Setup, version: str) -> bool:
    """True if a new baseline would have drawn starts."""
    from dataclasses import replace

    cases = replace(what, draw_starts=True).plan(version).cases
    return any(c.scenario.random_starts not in (None, "none") for c in cases)


def _update(options: Options, words: list[str], given: bool) -> int:
    from lasthop import _native
    from lasthop.experiments import baseline
    from lasthop.scenarios import outputs

    path = Path(options.baseline)
    old = baseline.read(path) if not given else None
    what = _setup(options) if old is None else _again(baseline.setup_of(old))
    texts = options.gate or (old["gates"] if old is not None else [baseline.DEFAULT_GATE])
    gates = [baseline.read_gate(g) for g in texts]
    version = _native.version()
    the_plan = what.plan(version)
    outputs.check([("--update", path)], the_plan.inputs)
    if the_plan.random and what.seeds < 3:
        raise InputError(f"a baseline of random runs needs at least 3 seeds, found {what.seeds}")
    found = baseline.run(the_plan, version, _native.CancelToken())
    if found.failed:
        row = found.failed[0]
        raise InputError(
            f"run {row.seed} of {row.case.label} failed, no baseline is written: {row.error}"
        )
    what = baseline.keep_traces(path, what)
    document = baseline.to_document(what, found, gates, shlex.join(words))
    baseline.write(path, document)
    if options.json:
        common.print_document(document, options, words)
    elif not options.quiet:
        print(
            f"{path}: {count(len(found.rows), 'run')} of {the_plan.title};"
            f" gates: {', '.join(map(str, gates))}"
        )
    return 0


def _setup(options: Options) -> Setup:
    from lasthop.experiments import baseline, sweep_table

    schemes = common.split_list(options.schemes, "--schemes") if options.schemes else []
    return baseline.setup(
        options.update or None,
        common.settings(options),
        common.last_hop(options),
        schemes,
        sweep_table.read_options(options.vary, []),
        options.seeds,
    )


def _again(what: Setup) -> Setup:
    """The runs of a baseline, with its scenario file as it is now."""
    from dataclasses import replace

    from lasthop.experiments import plan

    if what.file is None:
        return replace(what, draw_starts=True)
    return replace(what, text=plan.source(what.file).text, draw_starts=True)
