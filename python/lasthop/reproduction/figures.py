"""Figures of the papers: each is a comparison with a plot and claims."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop import quantities
from lasthop.analysis import metrics
from lasthop.errors import InputError
from lasthop.experiments import description, experiment, observing, outputs, plan
from lasthop.experiments.comparison import Comparison, Observe, compare
from lasthop.experiments.experiment import DEFAULT_SEEDS, Figure
from lasthop.experiments.plan import Case, Loader, Plan, Scheme, Source
from lasthop.experiments.pool import Cancel
from lasthop.experiments.store import Row, write_whole, writing
from lasthop.reproduction import claims
from lasthop.reproduction.recorder import Record, Recorder, record

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure as Drawing

    from lasthop.plotting.chart_spec import Chart

QUICK_SEEDS = 3
#: Changes that the title of a modified figure names.
MAX_CHANGES = 3
#: End of the name of a figure's table of statistics.
TABLE = ".table.csv"


@dataclass(frozen=True)
class Options:
    """The options of `reproduce`."""

    also: Sequence[Scheme] = ()
    seeds: int | None = None
    settings: Sequence[tuple[str, str]] = ()
    quick: bool = False

    @property
    def modified(self) -> bool:
        """True if schemes or settings differ from those of the figure file; `seeds` does not
        count.
        """
        return bool(self.also or self.settings)

    @property
    def changes(self) -> list[str]:
        """What differs: "KEY = VALUE" for each setting, and "also SCHEME"."""
        names = [x if isinstance(x, str) else x.__name__ for x in self.also]
        return [*(f"{k} = {v}" for k, v in self.settings), *(f"also {name}" for name in names)]


@dataclass(repr=False)
class FigureResult:
    """A reproduced figure."""

    figure: Figure
    comparison: Comparison
    verdicts: list[claims.Verdict]
    modified: bool
    recorder: Recorder = field(repr=False)
    files: list[str] = field(default_factory=list)
    answers: list[tuple[str, list[str]]] = field(default_factory=list)
    #: What was changed: "KEY = VALUE", and "also SCHEME".
    changes: Sequence[str] = ()

    @property
    def id(self) -> str:
        """PAPER/FIGURE."""
        return self.figure.id

    @property
    def title(self) -> str:
        """The title; that of a modified figure ends with "(modified: KEY = VALUE)"."""
        if not self.modified:
            return self.figure.title
        shown = [*self.changes[:MAX_CHANGES], *(["…"] if self.changes[MAX_CHANGES:] else [])]
        what = f": {', '.join(shown)}" if shown else ""
        return f"{self.figure.title} (modified{what})"

    @property
    def runs(self) -> polars.DataFrame:
        """One row per run."""
        return self.comparison.runs

    @property
    def is_shipped(self) -> bool:
        """True for a figure of a paper that lasthop ships."""
        return self.figure.path.is_relative_to(experiment.FOLDER)

    def plot(self, file: str | Path | None = None, *, style: str = "", ax: Any = None) -> Drawing:
        """Draw the figure.

        `file` (.svg, .png or .pdf), if given, is written. `style` names a preset of
        `plotting.styles`. `ax` are axes of matplotlib to draw into, one for each panel. Raises
        `InputError` if there is nothing to draw.
        """
        from lasthop.plotting import styles

        if file is not None:
            outputs.check([("plot:", file)], inputs_of(self.figure, self.comparison.plan))
        with styles.use(style):
            drawing = draw(self, ax=ax)
            if drawing is None:
                raise InputError(f"{self.id}: there are no runs to draw")
            if file is not None:
                styles.save(drawing, [Path(file)])
        return drawing

    def __repr__(self) -> str:
        return (
            f"<FigureResult {self.id}: {len(self.comparison.rows)} runs, {_tally(self.verdicts)}>"
        )

    def _repr_html_(self) -> str:
        from lasthop.analysis import html

        return html.figure(self)

    def to_dict(self) -> dict[str, Any]:
        """The object that `lasthop reproduce --json` prints for the figure."""
        return {
            "id": self.id,
            "title": self.title,
            "modified": self.modified,
            "runs": len(self.comparison.rows),
            "claims": [v.to_dict() for v in self.verdicts],
            "assumed": [f"{at}: {x}" if at else x for at, x in self.comparison.plan.assumed],
            "failed": [
                {"point": r.case.point, "scheme": r.case.label, "seed": r.seed, "error": r.error}
                for r in self.comparison.failed
            ],
            "files": self.files,
        }


@dataclass(repr=False)
class Reproduction:
    """Reproduced figures."""

    figures: list[FigureResult]
    version: str
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The object that `lasthop reproduce --json` prints."""
        return {
            "schema_version": 1,
            "lasthop": self.version,
            "figures": [f.to_dict() for f in self.figures],
        }

    def plot(
        self, file: str | Path | None = None, *, figure: str = "", style: str = "", ax: Any = None
    ) -> Drawing:
        """Draw the figure with the id `figure`, or the only one; see `FigureResult.plot`."""
        found = [
            f for f in self.figures if f.id == figure or (not figure and len(self.figures) == 1)
        ]
        if not found:
            raise InputError(f"figure: there are {', '.join(f.id for f in self.figures) or 'none'}")
        return found[0].plot(file, style=style, ax=ax)

    def __repr__(self) -> str:
        count = len(self.figures)
        verdicts = [v for f in self.figures for v in f.verdicts]
        return f"<Reproduction: {count} figure{'s' * (count != 1)}, {_tally(verdicts)}>"

    def _repr_html_(self) -> str:
        return "\n".join(f._repr_html_() for f in self.figures)

    def surprises(self, folder: Path = experiment.FOLDER) -> list[str]:
        """Verdicts that differ from the recorded ones (`expected.toml`), one line each."""
        expected = read_expected(folder)
        lines = []
        for figure in self.figures:
            recorded = expected.get(figure.id, {})
            for v in figure.verdicts:
                wanted = recorded.get(v.claim.id)
                if wanted is None:
                    lines.append(f"{figure.id}: claim {v.claim.id} has no recorded verdict")
                elif wanted != v.verdict:
                    lines.append(
                        f"{figure.id}: claim {v.claim.id}: verdict {v.verdict}, recorded verdict"
                        f" {wanted}: {v.why}"
                    )
        return lines


def _tally(verdicts: Sequence[claims.Verdict]) -> str:
    counts = {w: sum(v.verdict == w for v in verdicts) for w in ("holds", "differs", "undecided")}
    shown = ", ".join(f"{n} {word}" for word, n in counts.items() if n)
    return f"claims: {shown}" if shown else "no claims"


def read_expected(folder: Path) -> dict[str, dict[str, str]]:
    """The recorded verdicts: figure -> claim -> verdict."""
    try:
        table = tomllib.loads((folder / "expected.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {figure: dict(verdicts) for figure, verdicts in table.items()}


def expected_text(figures: Sequence[FigureResult]) -> str:
    """Format the verdicts as `expected.toml`."""
    lines = [
        (
            "# Verdicts of a full run of `lasthop reproduce`, compared by `--expect`. Written by"
            " `make expected`."
        ),
        "",
    ]
    for figure in figures:
        if figure.verdicts:
            lines += [
                f'["{figure.id}"]',
                *(f'{v.claim.id} = "{v.verdict}"' for v in figure.verdicts),
                "",
            ]
    return "\n".join(lines)


def figure_plan(
    figure: Figure, options: Options, *, version: str, loader: Loader = plan.load
) -> Plan:
    """The plan of a figure."""
    where = Source(figure.text, str(figure.path), tuple(options.settings))
    wanted = figure.experiment
    if figure.plot is not None and figure.plot.vectors:
        return _vector_plan(figure, where, version, loader)
    seeds = options.seeds or (QUICK_SEEDS if options.quick else wanted.seeds or DEFAULT_SEEDS)
    schemes = [*wanted.schemes, *options.also]
    the_plan = plan.plan(
        where, schemes, seeds, wanted.vary, own=wanted.settings, version=version, loader=loader
    )
    plan.check_needs(the_plan, wanted.settings)
    return the_plan


def _vector_plan(figure: Figure, where: Source, version: str, loader: Loader) -> Plan:
    """The plan of a figure with test vectors: one case per vector, and no runs."""
    assert figure.plot is not None
    base = loader(where, None)
    cases = []
    for vector in figure.plot.vectors:
        scenario = loader(where, vector.scheme)
        entry = scenario.scheme
        cases.append(Case(0, {}, vector.id, entry["name"], entry["settings"], scenario, vector.id))
    return Plan(base.title, "", base.filled, {}, [1], cases, random=False)


def chart_of(spec: experiment.Plot | None) -> Chart:
    """The chart of `[plot]`; the default chart without one."""
    from lasthop.plotting.chart_spec import Chart

    if spec is None or spec.kind not in experiment.CHARTS:
        return Chart()
    return Chart(
        experiment.CHARTS[spec.kind],
        spec.show,
        spec.x,
        spec.y,
        spec.rows,
        spec.columns,
        spec.x_label,
        spec.labels,
        spec.references,
        spec.schemes,
    )


def draws_chart(figure: Figure) -> bool:
    """True if the figure is a chart of a comparison, and not of series or vectors."""
    return figure.plot is None or figure.plot.kind in experiment.CHARTS


def draw(result: FigureResult, ax: Any = None) -> Drawing | None:
    """Plot the figure according to `[plot]`; `None` without runs.

    `ax` are axes of the caller, one for each panel.
    """
    from lasthop.plotting import charts, plots

    spec, comparison = result.figure.plot, result.comparison
    if not comparison.rows and not result.answers:
        return None
    if spec is not None and spec.kind == "vectors":
        _refuse(ax, spec)
        return plots.answers(result.answers, result.title, "packet number at the agent")
    if draws_chart(result.figure):
        chart = chart_of(spec)
        return charts.draw(comparison, chart, title=result.title, ax=ax, where="[plot] ")
    assert spec is not None
    return _draw_series(result, spec, ax)


class InComparison:
    """The `[plot]` and the `[[claim]]` of the scenario file of a comparison.

    A `chart` takes the place of `[plot]`. The claims of a modified scenario are measured but not
    judged. With `series`, the measures of time series are taken. Raises `InputError` if the figure
    does not go with the plan.
    """

    def __init__(
        self,
        figure: Figure,
        the_plan: Plan,
        chart: Chart | None,
        modified: bool,
        *,
        series: bool = False,
    ) -> None:
        from lasthop.plotting import chart_spec

        self.chart = chart
        self.modified = modified
        drawn = figure.plot
        if drawn is not None and (chart is not None or drawn.kind == "vectors"):
            drawn = None
        if drawn is not None and modified and drawn.kind in experiment.CHARTS:
            drawn = _without_missing(drawn, the_plan)
        # A claim about a scheme or a point that the options took away is left out.
        self.figure = replace(
            figure,
            plot=drawn,
            claims=() if modified or _is_vectors(figure) else figure.claims,
        )
        more = (*chart.metrics, chart.x) if chart is not None else ()
        series = series or any(m in metrics.SERIES_METRICS for m in more)
        more = (*more, *the_plan.counters)
        self.recorder = Recorder(
            self.figure, duration(the_plan), record, more, harm=True, measured=series
        )
        names = observing.names_of(the_plan, series=series)
        self.names = list(dict.fromkeys([*names, *self.recorder.names]))
        option = "--" if chart is not None else "[plot] "
        if draws_chart(self.figure):
            chosen = chart or chart_of(self.figure.plot)
            chart_spec.resolve(chosen, the_plan, self.names, option)

    @property
    def observe(self) -> Observe | None:
        """Does one run and returns its metrics; `None` if no events of a run are needed."""
        return self.recorder.observe

    def attach(self, comparison: Comparison, cancel: Cancel | None) -> None:
        """Judge the claims of a finished comparison, and let it draw the figure."""
        comparison.chart = self.chart
        if self.figure.plot is None and not self.figure.claims:
            return
        self.recorder.add_samples(comparison, cancel)
        verdicts = [claims.judge(c, comparison) for c in self.figure.claims]
        comparison.figure = FigureResult(
            self.figure, comparison, verdicts, self.modified, self.recorder
        )


def _is_vectors(figure: Figure) -> bool:
    return figure.plot is not None and figure.plot.kind == "vectors"


def _without_missing(spec: experiment.Plot, the_plan: Plan) -> experiment.Plot | None:
    """The plot of a comparison with other schemes or keys; `None` if its keys are not varied."""
    keys = [k for k in (spec.rows, spec.columns) if k]
    keys += [spec.x] if spec.x and experiment.CHARTS[spec.kind] != "scatter" else []
    keys += [spec.y] if spec.y and spec.y != "scheme" else []
    known = all(any(v == k or v.endswith(f".{k}") for v in the_plan.vary) for k in keys)
    needs_key = experiment.CHARTS[spec.kind] in ("line", "heatmap")
    if not known or (needs_key and not the_plan.vary):
        return None
    shown = tuple(label for label in spec.schemes if label in the_plan.labels)
    return replace(spec, schemes=shown, references=())


def _refuse(ax: Any, spec: experiment.Plot) -> None:
    if ax is not None:
        raise InputError(f"ax: a figure of kind {spec.kind} has its own axes")


def _draw_series(result: FigureResult, spec: experiment.Plot, ax: Any) -> Drawing:
    from lasthop.plotting import plot_text, plots, series_panels

    comparison, recorder = result.comparison, result.recorder
    n = len(comparison.plan.seeds)
    if spec.kind == "distribution":
        line = series_panels.of_delays([s["delay"] for s in recorder.samples.values()], "all runs")
        caption = f"packets of all n = {n} runs{_which_flow(comparison.plan)}"
        return plots.panels(
            [series_panels.panel("delay", [line], recorder.range)],
            result.title,
            caption=caption,
            ax=ax,
        )
    drawn = [
        series_panels.panel(
            s, recorder.lines(comparison, s, spec.schemes), recorder.range, spec.marks
        )
        for s in spec.show
    ]
    if spec.seed is not None:
        caption = f"one run, seed {spec.seed}"
    elif spec.show == ("sequence",):
        caption = "one run, seed 1"
    else:
        caption = plot_text.caption(
            comparison, single_runs=1 < n < series_panels.MIN_RUNS_FOR_INTERVAL
        )
    # The queue is that of all flows.
    if set(spec.show) != {"queue"}:
        caption += _which_flow(comparison.plan)
    shown = plot_text.point_name(comparison.plan.points[0], spec.labels, ", ")
    caption = f"{shown}; {caption}" if shown else caption
    return plots.panels(drawn, result.title, caption=caption, ax=ax)


def _which_flow(the_plan: Plan) -> str:
    """What a caption of series says of runs with several flows: the series are of the first one."""
    flows = max(sum(count for _, count in case.scenario.groups) for case in the_plan.cases)
    return f"; flow 1 of {flows} flows" if flows > 1 else ""


def reproduce_figure(
    figure: Figure,
    options: Options,
    *,
    version: str,
    cancel: Cancel | None = None,
    workers: int | None = None,
    loader: Loader = plan.load,
    record: Record = record,
    answer: Callable[[str, Sequence[str]], list[str]] | None = None,
    limit_s: float = plan.DEFAULT_LIMIT_S,
    report: Callable[[str], None] = lambda _: None,
) -> FigureResult:
    """Reproduce one figure: do its runs and judge its claims."""
    from lasthop.experiments.pool import cores
    from lasthop.plotting import chart_spec

    the_plan = figure_plan(figure, options, version=version, loader=loader)
    plan.check_run_time(the_plan, workers or cores(), limit_s)
    recorder = Recorder(figure, duration(the_plan), record)
    if draws_chart(figure):
        chart_spec.resolve(chart_of(figure.plot), the_plan, recorder.names, "[plot] ")
    answers: list[tuple[str, list[str]]] = []
    if figure.plot is not None and figure.plot.vectors:
        answers = [(v.id, (answer or _answer)(v.scheme, v.packets)) for v in figure.plot.vectors]
        expected = {v.id: v.expect for v in figure.plot.vectors}
        rows = []
        for case in the_plan.cases:
            given = dict(answers)[case.label]
            agree = sum(a == b for a, b in zip(given, expected[case.label], strict=True)) / len(
                given
            )
            rows.append(Row(case, 1, np.array([agree])))
        comparison = Comparison(the_plan, rows, version, ["agreement"])
    else:
        comparison = compare(
            the_plan,
            version=version,
            cancel=cancel,
            workers=workers,
            observe=recorder.observe,
            names=recorder.names,
            report=report,
            what=figure.id,
        )
    result = FigureResult(
        figure, comparison, [], options.modified, recorder, [], answers, options.changes
    )
    if comparison.interrupted:
        return result
    result.verdicts = [
        claims.judge(c, comparison, modified=options.modified) for c in figure.claims
    ]
    return result


def _answer(scheme: str, packets: Sequence[str]) -> list[str]:
    from lasthop import _native

    return _native.agent_answers(scheme, list(packets))


def duration(the_plan: Plan) -> float:
    """Simulated seconds, from the filled-in scenario."""
    return quantities.seconds(tomllib.loads(the_plan.filled).get("duration"), "duration")


def inputs_of(figure: Figure, the_plan: Plan) -> list[str | Path]:
    """The files that the runs of a figure are read from."""
    return [*the_plan.inputs, figure.path]


def check_outputs(figure: Figure, options: Options, version: str, out: Path) -> None:
    """Raise `InputError` if a file that `write` writes is an input of the figure.

    Those of the papers are in the package.
    """
    if figure.path.is_relative_to(experiment.FOLDER):
        return
    base = out / figure.id
    ends = (".svg", ".png", ".pdf", ".csv", TABLE, ".txt", ".md", ".json")
    files = outputs.in_folder("--out", base.parent, [base.with_suffix(e).name for e in ends])
    files += outputs.in_folder("--out", out, ["index.md", "index.html"])
    the_plan = figure_plan(figure, options, version=version)
    outputs.check(files, inputs_of(figure, the_plan))


def write(
    result: FigureResult,
    out: Path,
    *,
    style: str = "",
    formats: Sequence[str] = (),
    command: Sequence[str] = (),
) -> None:
    """Write plot, caption, table and page of a figure to the folder `out`.

    `style` names a preset, whose formats are written unless `formats` is given.
    """
    from lasthop.analysis import report
    from lasthop.plotting import captions, plot_text, styles

    base = out / result.id
    with writing(base.parent):
        base.parent.mkdir(parents=True, exist_ok=True)
    files = []
    with styles.use(style) as preset:
        drawing = draw(result)
        if drawing is not None:
            pictures = [base.with_suffix(f".{f}") for f in formats or preset.formats]
            styles.save(drawing, pictures)
            files += pictures
    if not result.answers:
        write_whole(base.with_suffix(".csv"), result.comparison.runs.write_csv())
        write_whole(base.with_suffix(TABLE), result.comparison.table_csv())
        files += [base.with_suffix(".csv"), base.with_suffix(TABLE)]
        kind = chart_of(result.figure.plot).kind if draws_chart(result.figure) else "line"
        drawn = plot_text.caption(result.comparison, kind=kind or "line")
        caption = captions.text(result.comparison, drawn, command, title=result.title)
        write_whole(base.with_suffix(".txt"), caption)
        files.append(base.with_suffix(".txt"))
    page, described = base.with_suffix(".md"), base.with_suffix(".json")
    result.files = [str(f.relative_to(out)) for f in [*files, described, page]]
    write_whole(described, description.text(_described(result, command)))
    write_whole(page, report.page(result))


def _described(result: FigureResult, command: Sequence[str]) -> dict[str, Any]:
    """What FIGURE.json says: the comparison, what the figure shows, and its claims."""
    spec = result.figure.plot
    chart = chart_of(spec)
    return {
        **description.document(result.comparison, command),
        "id": result.id,
        "title": result.title,
        "modified": result.modified,
        "about": spec.about if spec is not None else "",
        "kind": spec.kind if spec is not None else "",
        "plot": {"kind": chart.kind, "metrics": list(chart.metrics), "x": chart.x},
        "labels": dict(spec.labels) if spec is not None else {},
        "claims": description.claims(result.verdicts),
        "files": result.files,
    }


def record_expected() -> None:
    """Reproduce all figures and record their verdicts.

    `python -m lasthop.reproduction.figures OUT`
    """
    import sys

    from lasthop import api
    from lasthop.analysis import report
    from lasthop.reproduction import evidence

    done = api.reproduce(
        out=sys.argv[1], told=lambda figure: print(report.text(figure), flush=True)
    )
    if done.interrupted:
        raise SystemExit(130)
    write_whole(experiment.FOLDER / "expected.toml", expected_text(done.figures))
    evidence.update(evidence.FIGURES, evidence.from_figures(read_expected(experiment.FOLDER)))
    print(report.tally(done.figures))


if __name__ == "__main__":
    record_expected()
