"""What `import lasthop` offers: run, compare, reproduce."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import experiment, metrics, plan, pool, quantities
from lasthop.errors import Abandoned, InputError
from lasthop.plan import Scheme

if TYPE_CHECKING:
    import polars

    from lasthop.comparison import Comparison
    from lasthop.figures import FigureResult, Reproduction

Settings = Sequence[tuple[str, str]] | Mapping[str, object]


@dataclass(frozen=True)
class RunResult:
    """One run. `data` is what `lasthop run --json` prints: rates in bit/s, times in seconds, windows in bytes."""

    data: Mapping[str, Any]
    #: Per flow: the scheme and everything that fills its slots.
    slots: Sequence[str]
    #: What was assumed because the scenario does not say it.
    assumed: Sequence[str]
    #: What was run; `plot` runs it again to see how things went.
    scenario: Any = field(repr=False, compare=False)

    @property
    def goodput_bps(self) -> float:
        """In-order payload of all flows, bit/s of the measured time."""
        return metrics.of_run(self.data)["goodput_bps"] or 0.0

    @property
    def flows(self) -> polars.DataFrame:
        """A row per flow."""
        import polars

        return polars.DataFrame([_flat(f) for f in self.data["flows"]])

    @property
    def links(self) -> polars.DataFrame:
        """A row per one-way link."""
        import polars

        return polars.DataFrame([_flat(x) for x in self.data["links"]])

    def plot(self, file: str | Path, show: Sequence[str] = ("cwnd", "goodput")) -> None:
        """Draw series of the first flow, a panel each.

        Against time: goodput, delivered, rate, sending, cwnd, ssthresh, cwnd_reductions, queue, sequence; of "delay" the
        distribution. `file` is .svg, .png or .pdf.
        """
        from lasthop import plots, series, series_panels

        series_panels.check(show)
        kinds = series.events_needed(show, [])
        _, columns = self.scenario.run_series(self.data["seed"], kinds)
        events, span = series.Events.of(kinds, columns), (0.0, self.data["duration_s"])
        parts = [series_panels.panel(s, series_panels.of_run(events, s, self.data["scheme"], span), span) for s in show]
        title = f"{self.data['scenario']}: {self.data['scheme']}"
        plots.save(plots.panels(parts, title, caption=f"one run, seed {self.data['seed']}"), [Path(file)])

    def __str__(self) -> str:
        from lasthop import summary

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
    return [(k, ("true" if v else "false") if isinstance(v, bool) else str(v)) for k, v in given.items()]


def run(
    file: str | Path | None = None,
    *,
    text: str | None = None,
    scheme: Scheme | None = None,
    seed: int = 1,
    settings: Settings = (),
    last_hop: Mapping[str, str] | None = None,
    events: str | Path | None = None,
    pcap: str | Path | None = None,
) -> RunResult:
    """Simulate a scenario once.

    The scenario is `file`, or `text` in the same format, or described by `last_hop` (keys down, up, rtt, loss, rate,
    queue; values as on the command line, such as "40ms"). `settings` changes keys: {"tcp.min_rto": "1 s"}. `events` is
    a folder for events.parquet, `pcap` a file for a capture.
    """
    if seed < 0:
        raise InputError(f"--seed must not be negative, found {seed}")
    where = plan.source(file, text=text, settings=_settings(settings), last_hop=last_hop)
    scenario: Any = plan.load(where, scheme)
    if events is None and pcap is None:
        return RunResult(json.loads(_interruptible(lambda cancel: scenario.run(seed, cancel))), scenario.slots, scenario.assumed, scenario)
    from lasthop import store

    if events is not None:
        with store.writing(Path(events)):
            Path(events).mkdir(parents=True, exist_ok=True)
    with store.partial(Path(pcap)) if pcap is not None else nullcontext() as capture:
        target = None if capture is None else str(capture)
        said, columns = _interruptible(lambda cancel: scenario.run_recorded(seed, events is not None, target, cancel))
    result = json.loads(said)
    if events is not None:
        from lasthop import recording

        recording.write(columns, result, Path(events) / "events.parquet")
    return RunResult(result, scenario.slots, scenario.assumed, scenario)


def replay(capture: str | Path, *, mobile: str, scheme: str, out: str | Path, interface: str | None = None) -> tuple[str, dict[str, Any]]:
    """Drive the agent of `scheme` with the packets of a capture and write what leaves the base station to `out`.

    `mobile` is the address or network of the mobile side, "10.0.0.2" or "10.0.0.0/24". Returns a text and counts.
    """
    from lasthop import _native, store

    try:
        Path(capture).open("rb").close()
    except OSError as error:
        raise InputError(f"{capture}: {error.strerror}") from None
    with store.partial(Path(out)) as temporary:
        text, counts = _native.replay(str(capture), str(temporary), mobile, scheme, interface)
    return text, json.loads(counts)


def _interruptible(work: Callable[[Any], Any]) -> Any:
    """Do one piece of work in another thread, so that Ctrl-C ends it at once."""
    from lasthop import _native

    cancel = _native.CancelToken()
    found: list[Any] = []

    def done(_: int, outcome: pool.Outcome[Any]) -> None:
        error = outcome.error
        if error is not None and not isinstance(error, Exception):
            # A rule's SystemExit or KeyboardInterrupt must not end this process or a notebook.
            raise RuntimeError(f"the rule raised {type(error).__name__}").with_traceback(error.__traceback__) from None
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
    out: str | Path | None = None,
    limit: str = "24 h",
    command: Sequence[str] = (),
) -> Comparison:
    """Compare schemes: run k of each uses seed k and meets the same channel realisation, so differences are taken in pairs.

    Schemes are names ("snoop", "packet-control:dupack_threshold=12") or subclasses of `lasthop.CongestionControl`.
    Seeds are 1 to `seeds`. `vary` repeats it for each value of a key. With `out`, finished runs are appended to
    OUT/runs.csv as they come and are not done again by the same call. Ctrl-C ends it early: the result then says
    `interrupted` and holds what was finished.
    """
    from lasthop import _native, comparison, provenance, store

    where = plan.source(file, text=text, settings=_settings(settings), last_hop=last_hop)
    plan.load(where)  # says where in the file a mistake is
    wanted = experiment.read(Path(file) if file else Path("scenario"), text=where.text).experiment
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
    with store.sole_writer(Path(out)) if out is not None else nullcontext():
        result = comparison.compare(
            the_plan,
            version=_native.version(),
            out=Path(out) if out is not None else None,
            cancel=_native.CancelToken(),
            report=_print_first(),
        )
        if out is not None:
            with tables_of(result, out):
                result.write(out, command or ["lasthop.compare", str(file or "")])
    return result


@contextmanager
def tables_of(result: Comparison, out: str | Path | None) -> Iterator[None]:
    """Around what is made of finished runs: an interrupt then says that no run is lost."""
    try:
        yield
    except KeyboardInterrupt:
        runs = f"{len(result.rows)} of {result.plan.size()} runs"
        if out is None:
            raise KeyboardInterrupt(f"{runs} were done, but not kept: give --out DIR to keep them") from None
        raise KeyboardInterrupt(f"{runs} are kept in {Path(out) / 'runs.csv'}; the same command makes the tables and figures from them") from None


def _print_first() -> Callable[[str], None]:
    """Print the first traceback in full, and count the others."""
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
    told: Callable[[FigureResult], None] = lambda _: None,
) -> Reproduction:
    """Redo figures of the papers ("zeng2006", "zeng2006/fig15"; all without a name) and judge their claims.

    `told` is called with each figure when it is done, perhaps from another thread. With `out`, pictures, tables and pages are written
    there. A figure is drawn while the next one runs.
    """
    from lasthop import _native, report, store
    from lasthop import figures as engine

    version = _native.version()
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds must be at least 1, found {seeds}")
    folder = Path(out) if out is not None else None
    options = engine.Options(also, seeds, tuple(_settings(settings)), quick)
    done: list[FigureResult] = []
    interrupted = False

    def finish(result: FigureResult) -> None:
        if folder is not None:
            engine.write(result, folder)
        told(result)

    finished: list[Future[None]] = []
    with store.sole_writer(folder) if folder is not None else nullcontext():
        with ThreadPoolExecutor(max_workers=1) as writer:
            for figure in experiment.figures(experiment.select(figures)):
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
                except KeyboardInterrupt:  # while its claims were judged
                    interrupted = True
                    break
                if result.comparison.interrupted:
                    interrupted = True
                    break
                done.append(result)
                finished.append(writer.submit(finish, result))
                # What could not be written ends it here, not after all the others.
                while finished and finished[0].done():
                    finished.pop(0).result()
        for drawn in finished:
            drawn.result()
        if folder is not None and done:
            report.index(done, folder)
    return engine.Reproduction(done, version, interrupted)


__all__ = ["RunResult", "compare", "replay", "reproduce", "run"]
