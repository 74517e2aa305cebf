"""The result of a sweep."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import extras
from lasthop.analysis import metrics, run_text, summary
from lasthop.errors import InputError
from lasthop.experiments import sweep
from lasthop.experiments.sweep import Runs
from lasthop.quantities import count

if TYPE_CHECKING:
    import pandas
    import polars
    import xarray


@dataclass(frozen=True, repr=False)
class SweepResult:
    """A sweep in its folder; `table` and `runs` read it.

    `data` is the object that `lasthop sweep --json` prints.
    """

    folder: Path
    data: Mapping[str, Any]
    #: True if it was interrupted; the same call then does what is missing.
    interrupted: bool = False
    #: Names of the written files.
    files: Sequence[str] = ()

    @property
    def failed(self) -> Sequence[Mapping[str, Any]]:
        """Runs that ended with an error: point, scheme, seed, error."""
        failed: Sequence[Mapping[str, Any]] = self.data["failed"]
        return failed

    @property
    def table(self) -> polars.DataFrame:
        """One row per point, scheme and metric: mean, 95 % CI, ratio to the first scheme."""
        return self._read("table.parquet")

    @property
    def runs(self) -> polars.DataFrame:
        """One row per run."""
        return self._read("runs.parquet")

    def _read(self, name: str) -> polars.DataFrame:
        extras.require("tables")
        import polars

        if self.interrupted:
            raise InputError(
                f"{self.folder}: the sweep was interrupted; repeat the call for its tables"
            )
        return polars.read_parquet(self.folder / name)

    @property
    def deterministic(self) -> list[tuple[int, str]]:
        """Point and scheme of each case with one run, because nothing in it is drawn by seed."""
        cases = sweep.read(self.folder).cases
        return [(c.point, c.label) for c in cases if c.deterministic]

    def _varied(self) -> list[str]:
        return list(self.runs.columns[1 : self.runs.columns.index("scheme")])

    def to_pandas(self) -> pandas.DataFrame:
        """`runs` as a data frame of pandas, indexed by varied keys, scheme and seed."""
        from lasthop.analysis import frames

        keys = self._varied()
        found, _ = frames.with_numbers(self.runs.drop("point"), keys)
        return frames.to_pandas(found, frames.dimensions(keys))

    def to_xarray(self) -> xarray.Dataset:
        """The metrics of all runs as a dataset of xarray.

        Its dimensions are the varied keys, the scheme and the seed.
        """
        from lasthop.analysis import frames

        keys = self._varied()
        found, units = frames.with_numbers(self.runs.drop("point", "error"), keys)
        about = {"scenario": self.data["scenario"], "lasthop": self.data["lasthop"]}
        return frames.to_xarray(found, frames.dimensions(keys), about, units)

    def to_dict(self) -> dict[str, Any]:
        """The object that `lasthop sweep --json` prints."""
        return dict(self.data)

    def __repr__(self) -> str:
        state = ", interrupted" if self.interrupted else ""
        return (
            f"<SweepResult {str(self.data['scenario'])[:60]}: {self.data['points']} points,"
            f" {len(self.data['schemes'])} schemes, {self.data['runs']} runs{state}>"
        )

    def __str__(self) -> str:
        return text(self.data, self.folder, self.files)

    def _repr_html_(self) -> str:
        from lasthop.analysis import html

        return html.sweep(self)


def document(runs: Runs, reused: int, elapsed_s: float) -> dict[str, Any]:
    """The object that `lasthop sweep --json` prints."""
    described = runs.sweep
    return {
        "schema_version": sweep.SCHEMA_VERSION,
        **{k: v for k, v in described.about.items() if k != "vary"},
        "id": described.id,
        "shard": list(described.shard),
        "points": len(described.points),
        "runs": runs.finished,
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


def text(document: Mapping[str, Any], folder: Path, files: Sequence[str]) -> str:
    """The summary that `lasthop sweep` prints."""
    number, shards = document["shard"]
    shard = "" if shards == 1 else f"shard {number} of {shards}: "
    lines = [
        f"{document['scenario']}: {shard}{count(document['points'], 'point')} x"
        f" {count(len(document['schemes']), 'scheme')}, {count(document['runs'], 'run')}"
        f" ({document['reused']} reused), {len(document['failed'])} failed",
        f"written to {folder}/: {', '.join(files)}",
    ]
    general = [a for a in document["assumed"] if not a.startswith(("at ", "for "))]
    more = len(document["assumed"]) - len(general)
    assumed = [f"assumed: {a}" for a in general]
    if more:
        assumed.append(f"assumptions about some cases: {more}, in sweep.json")
    return "\n".join([lines[0], *assumed, lines[1], *first_rows(document, folder, files)])


#: Metrics with a column in the table that is printed, and its number of rows.
SHOWN = ("goodput_bps", "completed_s", "one_way_delay_s_p95", "timeouts")
MAX_ROWS = 20


def first_rows(document: Mapping[str, Any], folder: Path, files: Sequence[str]) -> list[str]:
    """The first rows of `table.csv`, one per point and scheme, and how to see the others.

    Empty if the file was not written, because the sweep is not finished.
    """
    if "table.csv" not in files:
        return []
    file = folder / "table.csv"
    found: dict[tuple[str, ...], dict[str, str]] = {}
    with file.open(encoding="utf-8", newline="") as opened:
        reader = csv.DictReader(opened)
        keys = list(reader.fieldnames or [])[1:]
        keys = keys[: keys.index("scheme") + 1]
        for row in reader:
            place = tuple(row[k] for k in ("point", *keys))
            if place not in found and len(found) == MAX_ROWS:
                break
            if row["metric"] in SHOWN:
                found.setdefault(place, {})[row["metric"]] = _cell(row)
    known = [m for m in SHOWN if any(cells.get(m, "–") != "–" for cells in found.values())]
    rows = [[*keys, *(metrics.label(m) for m in known)]]
    rows += [[*place[1:], *(cells.get(m, "–") for m in known)] for place, cells in found.items()]
    left = document["points"] * len(document["schemes"]) - len(found)
    more = f"{count(left, 'more row')} of points and schemes" if left > 0 else "all metrics"
    return [
        "",
        f"mean ± half-width of the 95 % CI; {summary.GOODPUT}:",
        run_text.columns(rows),
        f"{more}: {file}, or as a page: lasthop report {shlex.quote(str(folder))}",
    ]


def _cell(row: Mapping[str, str]) -> str:
    """A row of `table.csv` as mean and interval, in the unit of the metric's label."""
    mean, low, high = (float(row[k]) if row[k] else None for k in ("mean", "ci95_low", "ci95_high"))
    ci = None if low is None or high is None else (low, high)
    return summary.interval({"mean": mean, "ci95": ci}, metrics.factor(row["metric"]))


__all__ = ["SweepResult", "document", "text"]
