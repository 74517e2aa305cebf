"""The functions of the package: run, inspect, compare, replay, reproduce."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import extras, own_schemes, quantities
from lasthop.analysis import metrics
from lasthop.errors import Abandoned, InputError
from lasthop.experiments import experiment, plan, pool
from lasthop.experiments.plan import Scheme

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

    from lasthop.experiments.comparison import Comparison
    from lasthop.inspection.inspection import Inspection
    from lasthop.plotting.chart_spec import Chart
    from lasthop.reproduction.figures import FigureResult, Reproduction

# Version of the JSON document of a run, see `lasthop schema run`.
RUN_SCHEMA_VERSION = 1

Settings = Sequence[tuple[str, str]] | Mapping[str, object]


@dataclass(frozen=True, repr=False)
class RunResult:
    """The result of one run.

    `data` is the object that `lasthop run --json` prints: rates in bit/s, times in seconds, windows
    in bytes.
    """

    data: Mapping[str, Any]
    #: Per flow, one line: the scheme and its components (window, recovery, agent, …).
    slots: Sequence[str]
    #: Assumptions for what the scenario does not specify, one line each.
    assumed: Sequence[str]
    #: The scenario of this run; `plot` repeats the run to record its events.
    scenario: Any = field(repr=False, compare=False)

    @property
    def goodput_bps(self) -> float:
        """In-order payload of all flows divided by the measured time, bit/s."""
        return metrics.of_run(self.data)["goodput_bps"] or 0.0

    @property
    def flows(self) -> polars.DataFrame:
        """One row per flow."""
        extras.require("tables")
        import polars

        return polars.DataFrame([_flat(f) for f in self.data["flows"]])

    @property
    def links(self) -> polars.DataFrame:
        """One row per unidirectional link."""
        extras.require("tables")
        import polars

        return polars.DataFrame([_flat(x) for x in self.data["links"]])

    def series(self) -> polars.DataFrame:
        """What schemes in Python recorded by `window.record` and `ctx.record`.

        One row per number, in order of time: t_s (seconds), flow (its id), series (the name),
        value. The run is repeated to record them.
        """
        extras.require("tables")
        import polars

        _, columns = self.scenario.run_series(self.data["seed"], [])
        found = columns["series"]
        flows, names = [f["id"] for f in self.data["flows"]], found["names"]
        return polars.DataFrame(
            {
                "t_s": found["t_ns"] / 1e9,
                "flow": [flows[i] if i >= 0 else None for i in found["flow"]],
                "series": [names[i] for i in found["series"]],
                "value": found["value"],
            },
            schema={
                "t_s": polars.Float64,
                "flow": polars.String,
                "series": polars.String,
                "value": polars.Float64,
            },
        )

    def plot(
        self,
        file: str | Path | None = None,
        show: Sequence[str] = ("cwnd", "goodput"),
        *,
        style: str = "",
        ax: Any = None,
    ) -> Figure:
        """Draw series of the first flow, one panel per series.

        `show` names series over time (goodput, delivered, rate, sending, cwnd, ssthresh,
        cwnd_reductions, queue, sequence) or "delay", the distribution of the one-way delay.
        `file` (.svg, .png or .pdf), if given, is written. `style` names a preset of
        `plotting.styles`. `ax` are axes of matplotlib to draw into, one for each series.
        """
        extras.require("plots")
        from lasthop.analysis import series
        from lasthop.plotting import plots, series_panels, styles

        series_panels.check(show)
        kinds = series.events_needed(show, [])
        _, columns = self.scenario.run_series(self.data["seed"], kinds)
        events, span = series.Events.of(kinds, columns), (0.0, self.data["duration_s"])
        parts = [
            series_panels.panel(s, series_panels.of_run(events, s, self.data["scheme"], span), span)
            for s in show
        ]
        title = f"{self.data['scenario']}: {self.data['scheme']}"
        caption = f"one run, seed {self.data['seed']}"
        with styles.use(style):
            figure = plots.panels(parts, title, caption=caption, ax=ax)
            if file is not None:
                plots.save(figure, [Path(file)])
        return figure

    def __repr__(self) -> str:
        scenario, scheme = (str(self.data[k]) for k in ("scenario", "scheme"))
        return (
            f"<RunResult {scenario[:60]}: {scheme[:40]}, seed {self.data['seed']},"
            f" {len(self.data['flows'])} flows, goodput {self.goodput_bps * 1e-3:.4g} kbit/s>"
        )

    def _repr_html_(self) -> str:
        from lasthop.analysis import html

        return html.run(self)

    def inspect(self, flow: str | None = None, shortest: str | None = None) -> Inspection:
        """Look inside this run; see `lasthop.inspect`. The run is repeated to record its events."""
        return _inspect([self.scenario], self.data["seed"], flow, shortest)

    def __str__(self) -> str:
        from lasthop.analysis import summary

        return summary.run(self.data, self.slots, self.assumed)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            out |= {f"{key}_{k}": v for k, v in value.items()}
        else:
            out[key] = value
    return out


def _settings(given: Settings) -> list[tuple[str, str]]:
    if not isinstance(given, Mapping):
        return list(given)
    return [
        (k, ("true" if v else "false") if isinstance(v, bool) else str(v)) for k, v in given.items()
    ]


def run(
    file: str | Path | None = None,
    *,
    text: str | None = None,
    scheme: Scheme | None = None,
    seed: int = 1,
    settings: Settings = (),
    last_hop: Mapping[str, str] | None = None,
    flows: Mapping[str, Any] | None = None,
    events: str | Path | None = None,
    pcap: str | Path | None = None,
) -> RunResult:
    """Simulate a scenario once.

    The scenario is `file`, or `text` in the same format, or the last hop that `last_hop` describes
    (keys down, up, rtt, loss, rate, queue; values as on the command line, such as "40ms").
    `settings` overrides scenario keys: {"tcp.min_rto": "1 s"}. `flows` describes flows with the
    keys `against` (schemes of competitors), `flows` (number of candidates), `start` (start times),
    `upload` (true or false) and `duration`. `events` is a folder for
    events.parquet, `pcap` a file for a packet capture (pcapng).

    Raises `InputError` for wrong input and `CheckFailed` if the simulator's verifier fails.
    """
    if events is not None:
        extras.require("tables")
    if seed < 0:
        raise InputError(f"--seed must not be negative, found {seed}")
    where = plan.source(
        file, text=text, settings=_settings(settings), last_hop=last_hop, flows=flows
    )
    scenario: Any = plan.load(where, scheme)
    if events is None and pcap is None:
        return RunResult(
            _document(_interruptible(lambda cancel: scenario.run(seed, cancel)), scenario),
            scenario.slots,
            scenario.assumed,
            scenario,
        )
    from lasthop.experiments import store

    if events is not None:
        with store.writing(Path(events)):
            Path(events).mkdir(parents=True, exist_ok=True)
    with store.partial(Path(pcap)) if pcap is not None else nullcontext() as capture:
        target = None if capture is None else str(capture)
        run_json, columns = _interruptible(
            lambda cancel: scenario.run_recorded(seed, events is not None, target, cancel)
        )
    result = _document(run_json, scenario)
    if events is not None:
        from lasthop.experiments import recording

        recording.write(columns, result, Path(events) / "events.parquet")
    return RunResult(result, scenario.slots, scenario.assumed, scenario)


def inspect(
    file: str | Path | None = None,
    *,
    text: str | None = None,
    schemes: Sequence[Scheme] | Scheme | None = None,
    seed: int = 1,
    flow: str | None = None,
    shortest: str | None = None,
    settings: Settings = (),
    last_hop: Mapping[str, str] | None = None,
    flows: Mapping[str, Any] | None = None,
    pcap: str | Path | None = None,
    snaplen: int | None = None,
    command: str = "",
) -> Inspection:
    """Look inside one run: windows, delays, sequence numbers, losses and the causes of stalls.

    The scenario is given as for `run`; `file` may also be a folder that `compare` wrote with `out`,
    whose scenario is then run again. With several `schemes`, at most four, each is run with the
    same seed. `flow` is the id of the flow to inspect (default: the first). `shortest` replaces the
    threshold of stalls ("500 ms"). `pcap` is a folder for packet captures, one per hop, with at
    most `snaplen` bytes of each packet; with several schemes it has a folder for each.

    Returns an `Inspection`: `save` writes the page, `stalls` lists the stalls. Raises `InputError`
    for wrong input.
    """
    if seed < 0:
        raise InputError(f"--seed must not be negative, found {seed}")
    if snaplen is not None and not MIN_SNAPLEN <= snaplen <= MAX_SNAPLEN:
        raise InputError(f"--snaplen must be {MIN_SNAPLEN} to {MAX_SNAPLEN} bytes, found {snaplen}")
    if file is not None and Path(file).is_dir():
        file = _stored_scenario(Path(file))
    where = plan.source(
        file, text=text, settings=_settings(settings), last_hop=last_hop, flows=flows
    )
    wanted = [schemes] if schemes is None or isinstance(schemes, (str, type)) else [*schemes]
    if not 1 <= len(wanted) <= MAX_INSPECTED:
        raise InputError(f"--scheme takes 1 to {MAX_INSPECTED} schemes, found {len(wanted)}")
    scenarios = [plan.load(where, scheme) for scheme in wanted]
    return _inspect(scenarios, seed, flow, shortest, pcap, snaplen, command)


#: Smallest snapshot length: IP and TCP headers with all options. Largest: that of libpcap.
MIN_SNAPLEN, MAX_SNAPLEN = 80, 262_144
#: Most schemes on one page.
MAX_INSPECTED = 4


def _stored_scenario(folder: Path) -> Path:
    """The scenario of a folder that `compare --out` wrote."""
    found = folder / "scenario.toml"
    if not found.is_file():
        raise InputError(f"{folder}: no scenario.toml; expected a folder written by compare --out")
    return found


def _inspect(
    scenarios: Sequence[Any],
    seed: int,
    flow: str | None,
    shortest: str | None,
    pcap: str | Path | None = None,
    snaplen: int | None = None,
    command: str = "",
) -> Inspection:
    from lasthop import _native
    from lasthop.experiments import store
    from lasthop.inspection import inspection

    least = None if shortest is None else quantities.seconds(shortest, "--shortest")
    if least is not None and least <= 0:
        raise InputError(f"--shortest must be longer than 0 s, found {shortest}")
    runs = []
    for scenario in scenarios:
        index = inspection.flow_index(scenario.flows(seed), flow)
        label = str(json.loads(scenario.scheme)["label"])
        folder: AbstractContextManager[Path | None] = nullcontext()
        if pcap is not None:
            several = len(scenarios) > 1
            folder = store.new_folder(inspection.capture_folder(Path(pcap), label, several))
        with folder as captures:
            target = None if captures is None else str(captures)
            record = partial(scenario.run_inspected, seed, index, target, snaplen)
            result, columns = _interruptible(record)
        runs.append((scenario, result, columns, index))
    return inspection.from_runs(
        runs, seed=seed, version=_native.version(), shortest_s=least, command=command
    )


def _document(run_json: str, scenario: plan.Scenario) -> dict[str, Any]:
    """The document of a run: what the simulator returns, its version and the assumptions."""
    found: dict[str, Any] = json.loads(run_json)
    return {"schema_version": RUN_SCHEMA_VERSION, **found, "assumed": list(scenario.assumed)}


def explain(
    file: str | Path | None = None,
    *,
    text: str | None = None,
    scheme: Scheme | None = None,
    settings: Settings = (),
    last_hop: Mapping[str, str] | None = None,
    flows: Mapping[str, Any] | None = None,
    observed: bool = False,
) -> dict[str, Any]:
    """How a run would be computed, without running it. Arguments as for `run`.

    The result has `links` (for each one-way link `from`, `to`, the `mode` in which it is computed
    and `why`) and `probes`, the names of what measures the run. `observed` is for a run that writes
    events or a capture: each event then happens at its time.
    """
    where = plan.source(
        file, text=text, settings=_settings(settings), last_hop=last_hop, flows=flows
    )
    scenario: Any = plan.load(where, scheme)
    explained: dict[str, Any] = json.loads(scenario.explain(observed))
    return explained


def replay(
    capture: str | Path,
    *,
    mobile: str,
    scheme: Scheme,
    out: str | Path,
    interface: str | None = None,
) -> tuple[str, dict[str, Any]]:
    """Feed the packets of a capture to the agent of `scheme`.

    `scheme` is a name or a subclass of `lasthop.Agent`. `capture` was taken at the base station;
    the packets that leave the base station are written to `out`. `mobile` is the address or network
    of the mobile side: "10.0.0.2" or "10.0.0.0/24". `interface` names the interface of the capture
    to use, if it has several. Returns a report as text, and its counters.
    """
    from lasthop import _native
    from lasthop.experiments import store

    try:
        Path(capture).open("rb").close()
    except OSError as error:
        raise InputError(f"{capture}: {error.strerror}") from None
    with store.partial(Path(out)) as temporary:
        agent = own_schemes.with_settings(scheme, {})
        text, counts = _native.replay(str(capture), str(temporary), mobile, agent, interface)
    return text, json.loads(counts)


def _interruptible(work: Callable[[Any], Any]) -> Any:
    """Call `work` in another thread, so that Ctrl-C cancels it at once."""
    from lasthop import _native

    cancel = _native.CancelToken()
    found: list[Any] = []

    def done(_: int, outcome: pool.Outcome[Any]) -> None:
        error = outcome.error
        if error is not None and not isinstance(error, Exception):
            # SystemExit or KeyboardInterrupt from a rule must not end this process or a notebook.
            raise RuntimeError(f"the rule raised {type(error).__name__}").with_traceback(
                error.__traceback__
            ) from None
        if error is not None:
            raise error
        found.append(outcome.value)

    if not pool.run_jobs([0], lambda _: work(cancel), done, cancel=cancel, workers=1):
        raise KeyboardInterrupt
    return found[0]


def compare(
    file: str | Path | None = None,
    *,
    text: str | None = None,
    schemes: Sequence[Scheme] | None = None,
    also: Sequence[Scheme] = (),
    seeds: int | None = None,
    vary: Mapping[str, Sequence[object]] | None = None,
    settings: Settings = (),
    last_hop: Mapping[str, str] | None = None,
    flows: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    limit: str = "24 h",
    command: Sequence[str] = (),
    chart: Chart | None = None,
    figure: bool = True,
    style: str = "",
    formats: Sequence[str] = (),
    series: bool = False,
) -> Comparison:
    """Compare schemes, paired by seed.

    Run k of every scheme uses seed k, so all schemes see the same channel realisation, and
    differences are computed pair by pair. Schemes are names ("snoop",
    "packet-control:dupack_threshold=12") or subclasses of `lasthop.CongestionControl`. `seeds` is
    the number of seeds, counted from 1. `vary` maps a scenario key to the values for which the
    comparison is repeated. With `out`, each finished run is appended to OUT/runs.csv, and a later
    call with the same arguments reuses it. `limit` is the longest estimated run time that may
    start. A scenario file with `[plot]` and `[[claim]]` has its figure drawn and its claims judged.

    With `series`, each run is also measured over time: time to 90 % of the capacity, convergence,
    overshoot (docs/numbers.md).

    `chart` replaces the figure that is written to `out`; without `figure`, only tables are
    written. `style` names a preset of `plotting.styles` and `formats` the formats of the figure.

    Ctrl-C ends the comparison early: `interrupted` of the result is then true, and the result has
    the finished runs. Raises `InputError` for wrong input.
    """
    if out is not None:
        extras.require("tables", "plots")
    from lasthop import _native
    from lasthop.experiments import comparison, provenance, store
    from lasthop.plotting import styles
    from lasthop.reproduction import figures as engine

    styles.check(style)
    styles.check_formats(formats)
    where = plan.source(
        file,
        text=text,
        settings=_settings(settings),
        last_hop=last_hop,
        varied=list(vary or ()),
        flows=flows,
    )
    plan.load(where)  # reports errors with their position in the file
    described = experiment.read(Path(file) if file else Path("scenario"), text=where.text)
    wanted = described.experiment
    varied = {k: [str(x) for x in v] for k, v in vary.items()} if vary else dict(wanted.vary)
    the_plan = plan.plan(
        where,
        [*(wanted.schemes if schemes is None else schemes), *also],
        seeds if seeds is not None else wanted.seeds or experiment.DEFAULT_SEEDS,
        varied,
        own=wanted.settings,
        version=_native.version(),
        build=provenance.build_id(),
    )
    if schemes is None:
        plan.check_needs(the_plan, wanted.settings)
    plan.check_run_time(the_plan, pool.cores(), quantities.seconds(limit, "--limit"))
    modified = bool(schemes is not None or also or vary or settings or last_hop or flows)
    shown = engine.InComparison(described, the_plan, chart, modified, series=series)
    with store.sole_writer(Path(out)) if out is not None else nullcontext():
        result = comparison.compare(
            the_plan,
            version=_native.version(),
            out=Path(out) if out is not None else None,
            cancel=_native.CancelToken(),
            observe=shown.observe,
            names=shown.names,
            report=_print_first(),
        )
        if not result.interrupted:
            with tables_of(result, out):
                shown.attach(result, _native.CancelToken())
        if out is not None:
            with tables_of(result, out):
                words = command or ["lasthop.compare", str(file or "")]
                result.write(out, words, figure=figure, style=style, formats=formats)
    return result


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
    *figures: str,
    also: Sequence[Scheme] = (),
    seeds: int | None = None,
    settings: Settings = (),
    quick: bool = False,
    out: str | Path | None = None,
    limit: str = "24 h",
    command: Sequence[str] = (),
    style: str = "",
    formats: Sequence[str] = (),
    told: Callable[[FigureResult], None] = lambda _: None,
) -> Reproduction:
    """Reproduce figures of the papers and judge their claims.

    `figures` names papers ("zeng2006"), figures ("zeng2006/fig15") or scenario files ("my.toml");
    without a name, all figures of the papers are reproduced. `also` adds schemes and `settings`
    overrides scenario keys; a figure modified in this way is measured but not judged. `seeds`
    replaces the number of seeds in the figure file, `quick` uses 3 seeds. With `out`, plots, tables
    and pages are written to that folder. `told` is called with each finished figure, possibly from
    another thread. `style` names a preset of `plotting.styles` and `formats` the formats of the
    plots. `limit` is the longest estimated run time of a figure that may start.

    Raises `InputError` for wrong input.
    """
    extras.require("tables", "plots")
    from lasthop import _native
    from lasthop.analysis import report
    from lasthop.experiments import store
    from lasthop.plotting import styles
    from lasthop.reproduction import figures as engine

    version = _native.version()
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds must be at least 1, found {seeds}")
    styles.check(style)
    styles.check_formats(formats)
    chosen = experiment.load(figures)
    folder = Path(out) if out is not None else None
    options = engine.Options(also, seeds, tuple(_settings(settings)), quick)
    done: list[FigureResult] = []
    interrupted = False

    def finish(result: FigureResult) -> None:
        if folder is not None:
            engine.write(result, folder, style=style, formats=formats, command=command)
        told(result)

    finished: list[Future[None]] = []
    with store.sole_writer(folder) if folder is not None else nullcontext():
        with ThreadPoolExecutor(max_workers=1) as writer:
            for figure in chosen:
                try:
                    result = engine.reproduce_figure(
                        figure,
                        options,
                        version=version,
                        cancel=_native.CancelToken(),
                        limit_s=quantities.seconds(limit, "--limit"),
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
        if folder is not None and done:
            report.index(done, folder)
    return engine.Reproduction(done, version, interrupted)


__all__ = ["RunResult", "compare", "inspect", "replay", "reproduce", "run"]
