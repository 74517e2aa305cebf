"""Tables with named columns and units: CSV, or columns separated by semicolons, tabs or blanks."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from lasthop.errors import InputError
from lasthop.traces import columns as named
from lasthop.traces import units
from lasthop.traces.columns import Columns
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import ROUND_TRIP, Floats, Measurement, Rows

NAME = "table"

_MISSING = {"", "-", "--", "nan", "null", "none", "n/a", "na"}
# Rows below which the spread of their losses says nothing.
_LEAST_ROWS = 10
# A row is followed by a gap if the next one begins later than this multiple of the usual distance.
_GAP = 1.5


@dataclass
class _Values:
    """The rows of the file that have a time, in the order of the file."""

    times: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    #: By direction.
    rates: dict[int, list[float]] = field(default_factory=dict)
    rtt: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def matches(head: str) -> bool:
    """True if the text may be a table: at least two columns."""
    if head.lstrip().startswith(("{", "[{", "<")):
        return False
    _, line = _head(head)
    return len(_fields(line.lstrip("# "), _separator(line))) > 1


def read(source: Source, options: ReadOptions) -> Measurement:
    """The rows of a table; rows of the same time are averaged."""
    first, head = _head(source.head)
    lines: Iterator[tuple[int, str]] = (line for line in source.lines() if line[0] > first)
    separator = _separator(head)
    names = _fields(head.lstrip("# "), separator)
    has_names = not any(_is_value(name) for name in names if name)
    if not has_names:
        if options.column is None and options.up_column is None and options.rtt_column is None:
            raise InputError(
                f"{source.name}: line {first}: the columns have no names (`{head[:60]}`); say which"
                " one is what by their numbers, such as --time-column 1 --column 2 --unit Mbit/s"
            )
        names = [str(i + 1) for i in range(len(names))]
        lines = source.lines()
    found = named.find(names, options, source.name)
    rows = Rows()
    values = _values(lines, separator, names, found, options, rows, source.name)
    if not values.times:
        raise InputError(f"{source.name}: {_why_empty(rows)}")
    notes = [*found.notes, *values.notes]
    order = np.argsort(values.times, kind="stable")
    late = int(np.sum(np.diff(values.times) < 0))
    if late:
        notes.append(f"Times go back {late} times; the rows are sorted by time.")
    _add_rows(rows, values, order, found)
    example = values.times[0]
    clock = "times of the rows" if found.time is not None else _counted(options)
    zero = 0.0 if example >= 1e9 else None
    return rows.measurement(NAME, source.name, clock, notes=notes, zero_s=zero)


def _head(text: str) -> tuple[int, str]:
    """The line with the names of the columns: the first one, or the last comment before values."""
    comment = (0, "")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if not line.startswith("#"):
            values = any(map(_is_value, filter(None, _fields(line, _separator(line)))))
            return comment if comment[0] and values else (number, line)
        comment = (number, line)
    return comment


def _counted(options: ReadOptions) -> str:
    if options.interval_s is None:
        return "one row per second, assumed"
    return "number of the row × interval given by --interval"


def _separator(line: str) -> str:
    counts = {c: line.count(c) for c in (",", ";", "\t")}
    best = max(counts, key=lambda c: counts[c])
    return best if counts[best] else " "


def _fields(line: str, separator: str) -> list[str]:
    if separator == " ":
        return line.split()
    return [f.strip() for f in next(csv.reader([line], delimiter=separator), [])]


def _is_value(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return units.is_time(text)
    return True


def _why_empty(rows: Rows) -> str:
    if not rows.skipped:
        return "the table has names of columns, but no row"
    reason = max(rows.skipped, key=lambda s: s.rows)
    lines = ", ".join(map(str, reason.lines))
    return f"no row can be used; {reason.rows} of them: {reason.reason} (line {lines})"


def _values(
    lines: Iterator[tuple[int, str]],
    separator: str,
    names: list[str],
    found: Columns,
    options: ReadOptions,
    rows: Rows,
    where: str,
) -> _Values:
    values = _Values(rates={direction: [] for direction in found.rates})
    measured = [
        *((c, "rate") for c, _ in found.rates.values()),
        *((c[0], "other") for c in (found.rtt, found.loss) if c is not None),
    ]
    width = 1 + max(c for c in [found.time, found.end, *(m[0] for m in measured)] if c is not None)
    read_time: units.TimeReader | None = None
    for number, line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        fields = _fields(line, separator)
        if len(fields) < width:
            rows.skip(number, f"fewer columns than the {len(names)} of the head")
            continue
        try:
            row = {c: _number(fields[c], separator) for c, _ in measured}
        except ValueError:
            rows.skip(number, "a value is not a number")
            continue
        if all(np.isnan(v) for v in row.values()):
            rows.skip(number, "no value")
            continue
        if any(v < 0 or np.isinf(v) for v in row.values()):
            rows.skip(number, "a value is negative or infinite")
            continue
        if found.time is None:
            time = len(values.times) * (options.interval_s or 1.0)
        else:
            try:
                if read_time is None:
                    example, name = fields[found.time], names[found.time]
                    read_time = _first_time(example, name, options, where, values.notes)
                time = read_time(fields[found.time])
                end = read_time(fields[found.end]) if found.end is not None else np.nan
            except InputError:
                raise
            except (ValueError, OverflowError):
                rows.skip(number, "its time cannot be read")
                continue
            values.ends.append(end)
        values.times.append(time)
        for direction, (column, _) in found.rates.items():
            values.rates[direction].append(row[column])
        values.rtt.append(row[found.rtt[0]] * found.rtt[1] if found.rtt else np.nan)
        values.loss.append(row[found.loss[0]] * found.loss[1] if found.loss else np.nan)
        if found.sent is not None:
            values.sent.append(_packets(fields, found.sent))
    return values


def _first_time(
    example: str, name: str, options: ReadOptions, where: str, notes: list[str]
) -> units.TimeReader:
    """How the times of a column are read, by its first one; notes if its unit is a guess."""
    if example.lower() in _MISSING:
        raise ValueError(example)
    reader = _time_reader(example, name, options, where)
    given = options.time_unit or options.time_format
    if not given and units.assumes_seconds(example, name):
        notes.append(
            f"Column `{name}` does not say its unit; its numbers are taken as"
            " seconds, or say it with --time-unit."
        )
    return reader


def _time_reader(example: str, name: str, options: ReadOptions, where: str) -> units.TimeReader:
    try:
        return units.time_reader(example, name, options.time_unit, options.time_format)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _number(text: str, separator: str) -> float:
    if text.lower() in _MISSING:
        return np.nan
    return float(text.replace(",", ".") if separator == ";" else text)


def _packets(fields: list[str], column: int) -> float:
    try:
        return float(fields[column])
    except (ValueError, IndexError):
        return 1.0


def _add_rows(rows: Rows, values: _Values, order: np.ndarray, found: Columns) -> None:
    times = np.array(values.times)[order]
    ends = np.array(values.ends)[order] if values.ends else np.full(len(times), np.nan)
    for direction, (_, unit) in found.rates.items():
        numbers = np.array(values.rates[direction])[order]
        has = ~np.isnan(numbers)
        starts, first, counts = np.unique(times[has], return_index=True, return_counts=True)
        if not len(starts):
            continue
        sums = np.add.reduceat(numbers[has], first)
        spans = _spans(starts, ends[has][first])
        means = sums / counts
        sizes = means * spans * unit.factor if unit.is_rate else sums * unit.factor
        for start, span, size in zip(starts, spans, sizes, strict=True):
            rows.add(float(start), float(span), direction, size=float(size))
    rtt, loss = np.array(values.rtt)[order], np.array(values.loss)[order]
    sent = np.array(values.sent)[order] if found.sent is not None else _packets_of(loss)
    has = ~(np.isnan(rtt) & np.isnan(loss))
    if has.any():
        spans = _spans(times[has], ends[has])
        for i, span in zip(np.flatnonzero(has), spans, strict=True):
            packets = {} if np.isnan(loss[i]) else {"sent": sent[i], "lost": sent[i] * loss[i]}
            rows.add(float(times[i]), float(span), ROUND_TRIP, rtt_s=float(rtt[i]), **packets)


def _packets_of(shares: Floats) -> Floats:
    """Packets that each row counts as, if the table has shares of lost packets only.

    With n independent packets in a row, the shares have the variance p (1 - p) / n, and never more
    than p (1 - p). So the mean has the standard error that the spread of the rows shows, bursts
    included. If all rows have the same share, they have as many packets as make one loss.
    """
    known = shares[~np.isnan(shares)]
    packets = 1.0
    if len(known) >= _LEAST_ROWS and 0 < (mean := float(known.mean())) < 1:
        variance = float(known.var(ddof=1))
        packets = mean * (1 - mean) / variance if variance > 1e-6 * mean**2 else 1 / mean
    return np.full(len(shares), max(packets, 1.0))


def _spans(starts: Floats, ends: Floats) -> Floats:
    """The length of each row: to its end, or to the next row unless a gap follows."""
    steps = np.diff(starts)
    positive = steps[steps > 0]
    usual = float(np.median(positive)) if len(positive) else 1.0
    following = np.append(steps, usual)
    found = np.where(following > _GAP * usual, usual, following)
    given = ends - starts
    # An end beyond the next row would count the time between them twice.
    given = np.where(given > following, np.where(following > 0, following, given), given)
    return np.where(given > 0, given, found)
