"""The files of a comparison: tables, description, figure and caption."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from lasthop import extras
from lasthop.experiments import chart_spec, description, parts
from lasthop.experiments.comparison import Comparison, check_folder
from lasthop.experiments.store import write_whole
from lasthop.progress import note
from lasthop.scenarios import pipes


def write(
    result: Comparison,
    folder: str | Path,
    command: Sequence[str],
    *,
    figure: bool = True,
    style: str = "",
    formats: Sequence[str] = (),
) -> list[Path]:
    """Write all files except `runs.csv`; see `Comparison.write`."""
    out = Path(folder)
    check_folder(out, result.plan)
    # `runs.csv` is written only if a run is new; both tables follow from it and from the code.
    made_from = [out / "runs.csv", *Path(__file__).parents[1].glob("*/*.py")]
    if not _is_later(out / "table.csv", made_from):
        write_whole(out / "table.csv", result.table_csv())
    described = description.document(result, command)
    write_whole(out / description.FILE, description.text(described))
    write_whole(out / "scenario.toml", pipes.kept_text(result.plan.filled, out))
    write_whole(out / "command.txt", shlex.join(command) + "\n")
    names = ["runs.csv", "table.csv", "scenario.toml", "command.txt", description.FILE]
    if extras.is_installed("tables"):
        if not _is_later(out / "runs.parquet", made_from):
            parts.write_parquet(result.runs, out / "runs.parquet")
        names.append("runs.parquet")
    files = [out / name for name in names]
    figure = figure and any(not row.error for row in result.rows)
    if figure and extras.is_installed("plots"):
        files += _write_figure(result, out, command, style, formats)
    more = {"tables": "runs.parquet", **({"plots": "the figure"} if figure else {})}
    if text := extras.not_written(more):
        note(text)
    return files


def _write_figure(
    result: Comparison, out: Path, command: Sequence[str], style: str, formats: Sequence[str]
) -> list[Path]:
    """Write the figure in each format, and its caption."""
    from lasthop.plotting import captions, comparison_figure, plot_text, styles

    with styles.use(style) as preset:
        pictures = [out / f"figure.{f}" for f in formats or preset.formats]
        styles.save(comparison_figure.of_comparison(result), pictures)
    kind = "line" if result.plan.vary else "points"
    if result.chart is not None:
        kind = result.chart.kind or kind
    elif result.figure is not None:
        kind = chart_spec.of_plot(result.figure.figure.plot).kind or "line"
    caption = captions.text(result, plot_text.caption(result, kind=kind), command)
    write_whole(out / "figure.txt", caption)
    return [*pictures, out / "figure.txt"]


def _is_later(file: Path, others: Sequence[Path]) -> bool:
    """True if all files exist and the first one was written after the others."""
    try:
        written = file.stat().st_mtime_ns
        return all(written > other.stat().st_mtime_ns for other in others)
    except FileNotFoundError:
        return False


__all__ = ["write"]
