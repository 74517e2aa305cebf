"""What a folder of results contains: the tables, schemes and claims of each comparison in it."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from lasthop.errors import InputError


class Cell(NamedTuple):
    """Statistics of a metric of one scheme at one point, in the unit of the metric."""

    runs: int
    mean: float | None
    low: float | None
    high: float | None
    #: Ratio of the means to the first scheme, with its 95 % interval.
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    #: p of the paired difference to the first scheme, adjusted by Holm's method.
    p: float | None

    @property
    def interval(self) -> dict[str, Any]:
        """Mean and interval as `summary.interval` takes them."""
        return {"mean": self.mean, "ci95": _pair(self.low, self.high)}

    @property
    def change(self) -> dict[str, Any]:
        """Ratio and interval as `summary.percent` takes them."""
        return {"mean": self.ratio, "ci95": _pair(self.ratio_low, self.ratio_high)}


def _pair(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)


#: Columns of table.csv that a `Cell` has after `runs`.
_NUMBERS: Final = (
    *("mean", "ci95_low", "ci95_high"),
    *("ratio_to_first", "ratio_low", "ratio_high", "p_holm"),
)


@dataclass(frozen=True)
class Table:
    """The statistics of `table.csv`."""

    #: Varied keys, and for each point their values.
    keys: Sequence[str]
    points: Sequence[tuple[str, ...]]
    labels: Sequence[str]
    #: Metrics that are known for at least one scheme.
    metrics: Sequence[str]
    #: (number of the point, label, metric) -> statistics.
    cells: Mapping[tuple[int, str, str], Cell] = field(repr=False)

    def at(self, point: int, label: str, metric: str) -> Cell | None:
        """The statistics of a case; `None` if it has no run."""
        return self.cells.get((point, label, metric))

    def cases(self) -> Iterator[tuple[int, str]]:
        """Number of the point and label of each case, in the order of the file."""
        for point in range(len(self.points)):
            yield from ((point, label) for label in self.labels)

    def runs(self) -> int:
        """Number of runs of all cases."""
        most: dict[tuple[int, str], int] = {}
        for (point, label, _), cell in self.cells.items():
            most[(point, label)] = max(cell.runs, most.get((point, label), 0))
        return sum(most.values())

    def values(self, key: int) -> list[str]:
        """The values of a key, each once, in the order of the points."""
        return list(dict.fromkeys(point[key] for point in self.points))


@dataclass(frozen=True)
class SchemeUse:
    """A scheme as a comparison uses it."""

    label: str
    #: Name in the catalogue; of a rule in Python or an unknown scheme, the label.
    name: str
    python_rule: bool = False
    slots: Sequence[str] = ()


@dataclass(frozen=True)
class Study:
    """One comparison: of a scenario, of a sweep, or of a figure of a paper."""

    id: str
    title: str
    table: Table | None
    schemes: Sequence[SchemeUse]
    command: str
    version: str
    seeds: str
    claims: Sequence[Mapping[str, Any]] = ()
    about: str = ""
    picture: Path | None = None
    warnings: Sequence[str] = ()
    assumed: Sequence[str] = ()
    #: Metrics to show first, and the first x axis: a key, a metric, or empty.
    metrics: Sequence[str] = ()
    x: str = ""
    #: Words of the file for keys, values and metrics.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Facts in a line each, such as the rule that ended the runs.
    notes: Sequence[str] = ()
    #: What the page says of each case with one run in place of an interval, by number of the point
    #: and label.
    single_runs: Mapping[tuple[int, str], str] = field(default_factory=dict)


def read_table(path: Path) -> Table:
    """Read `table.csv`; raises `InputError` if it is none."""
    points: dict[int, tuple[str, ...]] = {}
    labels: dict[str, None] = {}
    metrics: dict[str, bool] = {}
    cells: dict[tuple[int, str, str], Cell] = {}
    csv.field_size_limit(sys.maxsize)
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            places = _places(header, path)
            keys = header[1 : header.index("scheme")]
            for row in reader:
                if len(row) != len(header):
                    raise ValueError(f"{len(row)} columns instead of {len(header)}")
                point, label = int(row[0]), row[places["scheme"]]
                metric = row[places["metric"]]
                points.setdefault(point, tuple(row[1 : 1 + len(keys)]))
                labels.setdefault(label)
                numbers = [_number(row[places[name]]) for name in _NUMBERS]
                cell = Cell(int(float(row[places["runs"]])), *numbers)
                metrics[metric] = metrics.get(metric, False) or cell.mean is not None
                cells[(point, label, metric)] = cell
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, csv.Error) as error:
        where = f"line {reader.line_num}" if "reader" in locals() else "the file"
        raise InputError(f"{path}: {where} is not a row of statistics: {error}") from None
    if not cells:
        raise InputError(f"{path} has no rows")
    order = {number: i for i, number in enumerate(sorted(points))}
    known = [m for m, has_values in metrics.items() if has_values]
    kept = {(order[p], x, m): c for (p, x, m), c in cells.items() if metrics[m]}
    return Table(keys, [points[n] for n in order], list(labels), known, kept)


def _places(header: Sequence[str], path: Path) -> dict[str, int]:
    """The place of each column; raises `InputError` if one is missing."""
    wanted = ("point", "scheme", "metric", "runs", *_NUMBERS)
    missing = [name for name in wanted if name not in header]
    if missing or header[0] != "point":
        lacks = f"; it lacks {', '.join(missing)}" if missing else ""
        raise InputError(f"{path} is not a table of statistics of lasthop{lacks}")
    # The name of a varied key cannot be that of a statistic: those follow `metric`.
    start = header.index("metric")
    return {n: header.index(n, start) if n in wanted[3:] else header.index(n) for n in wanted}


def _number(text: str) -> float | None:
    found = float(text) if text else None
    return None if found is None or found != found else found


def seeds_text(seeds: Sequence[int]) -> str:
    """Seeds as text: "seeds 1 to 20"."""
    if not seeds:
        return "no seeds"
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if all(b - a == 1 for a, b in pairwise(seeds)):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seeds {', '.join(map(str, seeds))}"
