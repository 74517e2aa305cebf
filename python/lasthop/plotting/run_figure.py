"""Series of one run over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.analysis import series
from lasthop.errors import InputError
from lasthop.experiments.run_result import RunResult
from lasthop.plotting import plots, series_panels, styles
from lasthop.scenarios import outputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(
    result: RunResult,
    file: str | Path | None,
    show: Sequence[str],
    *,
    flow: str | None = None,
    style: str = "",
    ax: Any = None,
) -> Figure:
    """Draw series of a run; see `RunResult.plot`."""
    series.check_names(show)
    if file is not None:
        outputs.check([("plot:", file)], result.inputs())
    kinds = sorted({*series.events_needed(show, []), *series_panels.REDUCTIONS})
    _, columns = result.scenario.run_series(result.data["seed"], kinds)
    span = (0.0, result.data["duration_s"])
    labels = _labels(result, flow)
    flows = [(label, series.Events.of(kinds, columns, i)) for i, label in labels.items()]
    parts = []
    for name in show:
        lines = series_panels.of_flows(flows, name, span)
        if name == "cwnd" and len(flows) <= series_panels.MAX_LINES:
            lines += series_panels.reductions([events for _, events in flows])
        parts.append(series_panels.panel(name, lines, span))
    title = f"{result.data['scenario']}: {result.data['scheme']}"
    caption = f"one run, seed {result.data['seed']}"
    if len(result.data["flows"]) > 1:
        which = "all" if flow is None else f"flow {flow} of"
        caption += f", {which} {len(result.data['flows'])} flows"
    with styles.use(style):
        figure = plots.panels(parts, title, caption=caption, ax=ax)
        if file is not None:
            plots.save(figure, [Path(file)])
    return figure


def _labels(result: RunResult, wanted: str | None) -> dict[int, str]:
    """Index and label of the flows to draw: the scheme, with several flows after the id."""
    ids = [str(f["id"]) for f in result.data["flows"]]
    if wanted is not None and wanted not in ids:
        raise InputError(f"flow: there is no flow {wanted!r}; flows are {', '.join(ids[:20])}")
    if len(ids) == 1:
        return {0: str(result.data["scheme"])}
    schemes = [str(f.get("scheme") or "") for f in result.data["flows"]]
    return {
        i: f"{name}: {scheme}" if scheme else name
        for i, (name, scheme) in enumerate(zip(ids, schemes, strict=True))
        if wanted in (None, name)
    }


__all__ = ["draw"]
