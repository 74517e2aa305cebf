"""The figure of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.experiments import chart_spec
from lasthop.experiments.comparison import Comparison
from lasthop.experiments.figure_result import FigureResult
from lasthop.plotting import charts, paper_figure, styles
from lasthop.scenarios import outputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(
    result: Comparison,
    file: str | Path | None,
    words: Mapping[str, Any],
    *,
    style: str = "",
    ax: Any = None,
) -> Figure:
    """Draw a comparison; see `Comparison.plot`, whose arguments about the chart are `words`."""
    if file is not None:
        outputs.check([("plot:", file)], result.plan.inputs)
    chart = chart_spec.of_words(**words)
    with styles.use(style):
        if chart == chart_spec.Chart():
            figure = of_comparison(result, ax)
        else:
            figure = charts.draw(result, chart, ax=ax, where="")
        if file is not None:
            styles.save(figure, [Path(file)])
    return figure


def of_comparison(result: Comparison, ax: Any = None) -> Figure:
    """Draw the chosen chart, or the figure of the file."""
    if result.chart is None and result.figure is not None:
        judged = result.figure
        drawing = paper_figure.draw(
            FigureResult(judged.figure, result, judged.verdicts, judged.modified, judged.recorder),
            ax,
        )
        if drawing is not None:
            return drawing
    return charts.draw(result, result.chart or chart_spec.Chart(), ax=ax)


__all__ = ["draw", "of_comparison"]
