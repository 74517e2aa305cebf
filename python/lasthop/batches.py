"""Many runs: compare, sweep, reproduce."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import extras, own_schemes, quantities
from lasthop.errors import Abandoned, InputError
from lasthop.experiments import plan, pool
from lasthop.experiments.plan import Scheme
from lasthop.scenarios import experiment, scenario_source
from lasthop.scenarios.experiment import Figure
from lasthop.scenarios.python_values import (
    ScenarioDict,
    Settings,
    Time,
    axis_texts,
    seconds,
    setting_pairs,
)

if TYPE_CHECKING:
    from lasthop.experiments.chart_spec import Chart
    from lasthop.experiments.comparison import Comparison
    from lasthop.experiments.figure_result import FigureResult, Reproduction
    from lasthop.experiments.sweep import Runs
    from lasthop.experiments.sweep_result import SweepResult
    from lasthop.experiments.sweep_setup import Prepared
    from lasthop.progress import SweepProgress
    from lasthop.reproduction.figures import InComparison, Options

#: Most processes of a sweep; more are taken for a mistake.
MAX_JOBS = 10_000


def compare(
    file: str | Path | ScenarioDict | None = None,
    *,
    text: str | None = None,
    schemes: Sequence[Scheme] | Scheme | None = None,
    also: Sequence[Scheme] | Scheme = (),
    seeds: int | None = None,
    vary: Mapping[str, Sequence[object]] | None = None,
    settings: Settings = (),
    last_hop: Mapping[str, object] | None = None,
    flows: Mapping[str, Any] | int | None = None,
    out: str | Path | None = None,
    limit: Time = "24 h",
    command: Sequence[str] = (),
    chart: Chart | None = None,
    figure: bool = True,
    style: str = "",
    formats: Sequence[str] = (),
    series: bool = False,
    **options: Any,
) -> Comparison:
    """Compare schemes, paired by seed.

    Run k of every scheme uses seed k, so all schemes see the same channel realisation, and
    differences are computed pair by pair. Schemes are names ("snoop",
    "packet-control:dupack_threshold=12") or subclasses of `lasthop.CongestionControl`. `seeds` is
    the number of seeds, counted from 1. `vary` maps a scenario key to the values for which the
    comparison is repeated: a list, or a range such as "20..100..20 ms". With `out`, each finished
    run is appended to OUT/runs.csv, and a later call with the same arguments reuses it. `limit` is
    the longest estimated run time that may start. A scenario file with `[plot]` and `[[claim]]` has
    its figure drawn and its claims judged.

    With `series`, each run is also measured over time: time to 90 % of the capacity, convergence,
    overshoot (docs/numbers.md).

    `chart` replaces the figure that is written to `out`; without `figure`, only tables are
    written. `style` names a preset of `plotting.styles` and `formats` the formats of the figure.

    Ctrl-C ends the comparison early: `interrupted` of the result is then true, and the result has
    the finished runs. Raises `InputError` for wrong input.
    """
    if chart is not None or style or formats:
        extras.require("plots")
    from lasthop.experiments import comparison, store
    from lasthop.plotting import styles
    from lasthop.reproduction import figures as engine

    styles.check(style)
    styles.check_formats(formats)
    varied = list(vary or ())
    where = scenario_source.described(
        file, text, settings, last_hop, flows, options, varied=varied, draw_starts=True
    )
    described, the_plan = _planned(file, where, schemes, also, seeds, vary)
    plan.check_run_time(the_plan, pool.cores(), seconds(limit, "--limit"))
    folder = Path(out) if out is not None else None
    if folder is not None:
        comparison.check_folder(folder, the_plan)
    modified = bool(schemes is not None or also or vary or settings or last_hop or flows or options)
    shown = engine.InComparison(described, the_plan, chart, modified, series=series)
    with store.sole_writer(folder) if folder is not None else nullcontext():
        result = _compared(the_plan, shown, folder)
        if folder is not None:
            with tables_of(result, folder):
                given = "" if isinstance(file, Mapping) else str(file or "")
                words = command or ["lasthop.compare", given]
                result.write(folder, words, figure=figure, style=style, formats=formats)
    return result


def _compared(the_plan: plan.Plan, shown: InComparison, folder: Path | None) -> Comparison:
    """The runs of a comparison, with what the scenario file asks for, if all are done."""
    from lasthop import _native
    from lasthop.experiments import comparison

    result = comparison.compare(
        the_plan,
        version=_native.version(),
        out=folder,
        cancel=_native.CancelToken(),
        observe=shown.observe,
        names=shown.names,
        report=_print_first(),
    )
    if not result.interrupted:
        with tables_of(result, folder):
            shown.attach(result, _native.CancelToken())
    return result


def _planned(
    file: str | Path | ScenarioDict | None,
    where: plan.Source,
    schemes: Sequence[Scheme] | Scheme | None,
    also: Sequence[Scheme] | Scheme,
    seeds: int | None,
    vary: Mapping[str, Sequence[object]] | None,
) -> tuple[Figure, plan.Plan]:
    """The experiment of a scenario file, and the runs that the arguments of `compare` make of it.

    An argument that is given replaces what the file has.
    """
    from lasthop import _native
    from lasthop.experiments import provenance

    plan.load(where)  # reports errors with their position in the file
    named = Path(file) if isinstance(file, (str, Path)) and file else Path("scenario")
    described = experiment.read(named, text=where.text)
    wanted = described.experiment
    the_plan = plan.plan(
        where,
        [
            *own_schemes.listed(wanted.schemes if schemes is None else schemes),
            *own_schemes.listed(also),
        ],
        seeds if seeds is not None else wanted.seeds or experiment.DEFAULT_SEEDS,
        {k: _values(k, v) for k, v in vary.items()} if vary else dict(wanted.vary),
        own=wanted.settings,
        version=_native.version(),
        build=provenance.build_id(),
    )
    if schemes is None:
        plan.check_needs(the_plan, wanted.settings)
    return described, the_plan


def _values(key: str, given: Any) -> list[str]:
    """The values of a varied key: a list, or a text as of `--vary`."""
    from lasthop.experiments import axes

    return axes.values(given, f"vary {key}") if isinstance(given, str) else axis_texts(key, given)


def sweep(
    file: str | Path | ScenarioDict | None = None,
    *,
    text: str | None = None,
    schemes: Sequence[Scheme] | Scheme = (),
    vary: Mapping[str, Any] | None = None,
    zip: Sequence[Mapping[str, Any]] = (),
    seeds: int | str | range | None = None,
    until: str | None = None,
    max_seeds: int | None = None,
    settings: Settings = (),
    last_hop: Mapping[str, object] | None = None,
    flows: Mapping[str, Any] | int | None = None,
    out: str | Path,
    jobs: int | None = None,
    dask: str | None = None,
    shard: str | tuple[int, int] | None = None,
    chunk: Time | None = None,
    progress: str = "auto",
    quiet: bool = False,
    command: Sequence[str] = (),
    **options: Any,
) -> SweepResult:
    """Do the runs of all combinations of axes, schemes and seeds, and keep them in `out`.

    The arguments have the names and the meaning of the options of `lasthop sweep`
    (docs/sweeps.md); scenario, schemes and flows are given as for `compare`. `vary` maps a key to a
    list of values or to a range such as "20..100..20 ms", each entry of `zip` several keys that
    change together. `seeds` is a number N, a range, or "A..B". Finished runs in `out` are not
    repeated.

    Ctrl-C ends the sweep early: `interrupted` of the result is then true, and the same call does
    what is missing; while tables are written, it raises KeyboardInterrupt. Raises `InputError` for
    wrong input.
    """
    from lasthop.experiments import store, sweep_setup
    from lasthop.experiments import sweep as sweeps
    from lasthop.progress import SweepProgress
    from lasthop.scenarios import outputs

    if progress not in ("auto", "json", "none"):
        raise InputError(f'progress must be "auto", "json" or "none", found {progress!r}')
    if jobs is not None:
        quantities.whole_number(jobs, "--jobs", 1, MAX_JOBS)
    where = scenario_source.described(
        file, text, settings, last_hop, flows, options, draw_starts=True
    )
    asked = sweep_setup.wanted(
        own_schemes.listed(schemes), vary or {}, zip, seeds, until, max_seeds
    )
    origin = str(file) if isinstance(file, (str, Path)) and str(file) else "scenario"
    prepared = sweep_setup.prepare(
        where, origin, asked, sweep_setup.shard(shard), command or ["lasthop.sweep"]
    )
    chunk_s = None
    if chunk is not None:
        chunk_s = seconds(chunk, "--chunk")
    folder, runs = Path(out), sweeps.Runs(prepared.sweep)
    outputs.check(outputs.in_folder("--out", folder, sweeps.FILES), prepared.plan.inputs)
    shown = SweepProgress("none" if quiet else progress, quiet)
    with store.sole_writer(folder), _saved_runs(folder, runs):
        result = _swept(folder, runs, prepared, chunk_s, shown, jobs, dask)
    for run, error in sorted(runs.failed.items())[:1]:
        case = prepared.sweep.cases[run[0]]
        print(f"lasthop: run {run[1]} of {case.label} failed: {error}", file=sys.stderr)
    return result


def _swept(
    folder: Path,
    runs: Runs,
    prepared: Prepared,
    chunk_s: float | None,
    shown: SweepProgress,
    jobs: int | None,
    dask: str | None,
) -> SweepResult:
    """Do the missing runs of a sweep; write its description and, if all are done, its tables."""
    import time

    from lasthop.experiments import store, sweep_run
    from lasthop.experiments import sweep as sweeps
    from lasthop.experiments.sweep_result import SweepResult, document
    from lasthop.scenarios import pipes

    start = time.monotonic()
    sweep_run.take_over(folder, runs, shown.note)
    sweeps.write_description(folder, prepared.sweep)
    filled = pipes.kept_text(prepared.plan.filled, folder)
    store.write_whole(folder / "scenario.toml", filled)
    reused = runs.finished
    complete = not runs.missing() or sweep_run.do_missing(
        folder, runs, prepared, chunk_s, shown, jobs, dask
    )
    files = [f.name for f in sweeps.write_tables(folder, runs)] if complete else []
    more = extras.not_written({"tables": "runs.parquet and table.parquet"})
    if more and complete:
        shown.note(more)
    data = document(runs, reused, time.monotonic() - start)
    return SweepResult(folder, data, not complete, files)


@contextmanager
def _saved_runs(folder: Path, runs: Runs) -> Iterator[None]:
    """On an interrupt beside the simulations, such as while tables are written, report the runs."""
    try:
        yield
    except Abandoned:
        raise
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"{runs.finished} runs are saved in {folder}; repeat the command to continue"
        ) from None


@contextmanager
def tables_of(result: Comparison, out: str | Path | None) -> Iterator[None]:
    """On an interrupt while results are written, report where the finished runs are."""
    try:
        yield
    except KeyboardInterrupt:
        runs = f"{len(result.rows)} of {result.plan.size()} runs"
        if out is None:
            raise KeyboardInterrupt(
                f"{runs} are finished but not saved; use --out DIR to save them"
            ) from None
        raise KeyboardInterrupt(
            f"{runs} are saved in {Path(out) / 'runs.csv'}; repeat the command to write the tables"
            " and figures"
        ) from None


def _print_first() -> Callable[[str], None]:
    """Return a function that prints only the first message that it gets."""
    seen: list[str] = []

    def report(message: str) -> None:
        if not seen:
            print(f"lasthop: {message}", file=sys.stderr)
        seen.append(message)

    return report


def reproduce(
    *figures: str | Path | ScenarioDict,
    also: Sequence[Scheme] | Scheme = (),
    seeds: int | None = None,
    settings: Settings = (),
    quick: bool = False,
    out: str | Path | None = None,
    limit: Time = "24 h",
    command: Sequence[str] = (),
    style: str = "",
    formats: Sequence[str] = (),
    told: Callable[[FigureResult], None] = lambda _: None,
) -> Reproduction:
    """Reproduce figures of the papers and judge their claims.

    `figures` names papers ("zeng2006"), figures ("zeng2006/fig15") or scenario files ("my.toml"),
    or is a dictionary in the form of such a file; without a name, all figures of the papers are
    reproduced. `also` adds schemes and `settings` overrides scenario keys; a figure modified in
    this way is measured but not judged. `seeds` replaces the number of seeds in the figure file,
    `quick` uses 3 seeds. With `out`, plots, tables and pages are written to that folder. `told` is
    called with each finished figure, possibly from another thread. `style` names a preset of
    `plotting.styles` and `formats` the formats of the plots. `limit` is the longest estimated run
    time of a figure that may start.

    Raises `InputError` for wrong input.
    """
    extras.require("tables", "plots")
    from lasthop import _native
    from lasthop.experiments import store
    from lasthop.experiments.figure_result import Reproduction
    from lasthop.plotting import styles
    from lasthop.reproduction import figures as engine
    from lasthop.reproduction import report

    version = _native.version()
    if seeds is not None:
        quantities.whole_number(seeds, "--seeds", 1)
    styles.check(style)
    styles.check_formats(formats)
    chosen = experiment.load(figures)
    folder = Path(out) if out is not None else None
    limit_s = seconds(limit, "--limit")
    options = engine.Options(own_schemes.listed(also), seeds, tuple(setting_pairs(settings)), quick)

    def finish(result: FigureResult) -> None:
        if folder is not None:
            engine.write(result, folder, style=style, formats=formats, command=command)
        told(result)

    if folder is not None:
        for figure in chosen:
            engine.check_outputs(figure, options, version, folder)
    with store.sole_writer(folder) if folder is not None else nullcontext():
        done, interrupted = _reproduced(chosen, options, version, limit_s, finish)
        if folder is not None and done:
            report.index(done, folder)
    return Reproduction(done, version, interrupted)


def _reproduced(
    chosen: Sequence[Figure],
    options: Options,
    version: str,
    limit_s: float,
    finish: Callable[[FigureResult], None],
) -> tuple[list[FigureResult], bool]:
    """The results of the figures, and whether an interrupt ended them early.

    Another thread calls `finish` with each result, while the next figure is simulated.
    """
    from lasthop import _native
    from lasthop.reproduction import figures as engine

    done: list[FigureResult] = []
    interrupted = False
    finished: list[Future[None]] = []
    with ThreadPoolExecutor(max_workers=1) as writer:
        for figure in chosen:
            try:
                result = engine.reproduce_figure(
                    figure,
                    options,
                    version=version,
                    cancel=_native.CancelToken(),
                    limit_s=limit_s,
                    report=_print_first(),
                )
            except Abandoned:
                raise
            except KeyboardInterrupt:  # while claims are judged
                interrupted = True
                break
            if result.comparison.interrupted:
                interrupted = True
                break
            done.append(result)
            finished.append(writer.submit(finish, result))
            # A failed write ends the loop here, not after the last figure.
            while finished and finished[0].done():
                finished.pop(0).result()
    for drawn in finished:
        drawn.result()
    return done, interrupted


__all__ = ["compare", "reproduce", "sweep", "tables_of"]
