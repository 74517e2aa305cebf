"""The figure of a paper, or of a scenario file with `[plot]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.errors import InputError
from lasthop.experiments import chart_spec
from lasthop.experiments.comparison import Comparison
from lasthop.experiments.figure_result import FigureResult, inputs_of
from lasthop.experiments.plan import Plan
from lasthop.experiments.recorder import Recorder
from lasthop.plotting import charts, plot_text, plots, series_panels, styles
from lasthop.plotting.plots import Line
from lasthop.scenarios import outputs
from lasthop.scenarios.experiment import Plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def draw_to(
    result: FigureResult, file: str | Path | None = None, *, style: str = "", ax: Any = None
) -> Drawing:
    """Draw the figure; see `FigureResult.plot`."""
    if file is not None:
        outputs.check([("plot:", file)], inputs_of(result.figure, result.comparison.plan))
    with styles.use(style):
        drawing = draw(result, ax=ax)
        if drawing is None:
            raise InputError(f"{result.id}: there are no runs to draw")
        if file is not None:
            styles.save(drawing, [Path(file)])
    return drawing


def draw(result: FigureResult, ax: Any = None) -> Drawing | None:
    """Plot the figure according to `[plot]`; `None` without runs.

    `ax` are axes of the caller, one for each panel.
    """
    spec, comparison = result.figure.plot, result.comparison
    if not comparison.rows and not result.answers:
        return None
    if spec is not None and spec.kind == "vectors":
        _refuse(ax, spec)
        return plots.answers(result.answers, result.title, "packet number at the agent")
    if chart_spec.draws_chart(result.figure):
        chart = chart_spec.of_plot(spec)
        return charts.draw(comparison, chart, title=result.title, ax=ax, where="[plot] ")
    assert spec is not None
    return _draw_series(result, spec, ax)


def _refuse(ax: Any, spec: Plot) -> None:
    if ax is not None:
        raise InputError(f"ax: a figure of kind {spec.kind} has its own axes")


def _draw_series(result: FigureResult, spec: Plot, ax: Any) -> Drawing:
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
            s, _lines(recorder, comparison, s, spec.schemes), recorder.range, spec.marks
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


def _lines(
    recorder: Recorder, comparison: Comparison, name: str, only: Sequence[str]
) -> list[Line]:
    """The lines of one panel: the mean of all runs with its 95 % CI, or the run of `seed`."""
    lines: list[Line] = []
    for label in (x for x in comparison.plan.labels if not only or x in only):
        events = recorder.raw.get((0, label))
        if name == "sequence" or (
            recorder.figure.plot is not None and recorder.figure.plot.seed is not None
        ):
            lines += (
                series_panels.of_run(events, name, label, recorder.range)
                if events is not None
                else []
            )
            continue
        found = [
            recorder.samples[(0, label, s)][name]
            for s in comparison.plan.seeds
            if (0, label, s) in recorder.samples
        ]
        if found:
            lines.append(series_panels.of_runs(found, recorder.grid, label))
    return lines


__all__ = ["draw", "draw_to"]
