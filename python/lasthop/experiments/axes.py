"""Axes of a sweep: lists of values, ranges, and keys that change together."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from lasthop import quantities
from lasthop.errors import InputError
from lasthop.experiments.plan import JOINT_SEPARATOR

# Values of one axis; more are taken for a mistake.
MAX_VALUES = 100_000
_SPACED = re.compile(r"(linspace|logspace)\s*\((.*)\)$")
_FORMS = "V1,V2,… or START..STOP..STEP or linspace(START, STOP, COUNT) or logspace(…)"


def _number(value: float) -> str:
    """A number without rounding errors of its computation."""
    return quantities.format_number(value, 12)


def _ends(texts: Sequence[str], where: str) -> tuple[list[float], str]:
    """The numbers of the ends of a range and their common unit."""
    found = [quantities.quantity(text) for text in texts]
    numbers = []
    for text, q in zip(texts, found, strict=True):
        if q is None:
            raise InputError(f"{where}: `{text}` is not a number with a unit; write {_FORMS}")
        numbers.append(q.number)
    units = {q.unit for q in found if q is not None and q.unit}
    if len(units) > 1:
        raise InputError(
            f"{where}: a range needs one unit, found {' and '.join(sorted(units))}; write {_FORMS}"
        )
    return numbers, units.pop() if units else ""


def expand(text: str, where: str) -> list[str]:
    """The values that a text stands for: itself, or those of a range.

    `1..10..1` is START..STOP..STEP and includes STOP if a step reaches it; the step is 1 if it is
    left out. `linspace(1 Mbps, 9 Mbps, 5)` and `logspace(0.1 %, 10 %, 5)` give COUNT values with
    equal differences or ratios. Raises `InputError` for a wrong range; `where` names the axis.
    """
    spaced = _SPACED.match(text)
    if spaced:
        return _spaced(spaced[1], quantities.split(spaced[2]), f"{where}: {text}")
    parts = [part.strip() for part in text.split("..")]
    if len(parts) not in (2, 3) or not all(parts) or quantities.quantity(parts[0]) is None:
        return [text]
    numbers, unit = _ends(parts, f"{where}: {text}")
    start, stop, step = numbers if len(numbers) == 3 else (*numbers, 1.0)
    count = math.floor((stop - start) / step + 1e-9) + 1 if step else 0
    if count < 1 or count > MAX_VALUES:
        raise InputError(
            f"{where}: {text} has {'no' if count < 1 else f'more than {MAX_VALUES}'} values; the"
            " form is START..STOP..STEP"
        )
    return [f"{_number(start + i * step)} {unit}".strip() for i in range(count)]


def _spaced(kind: str, parts: Sequence[str], where: str) -> list[str]:
    if len(parts) != 3 or not parts[2].isdigit() or not 2 <= int(parts[2]) <= MAX_VALUES:
        raise InputError(f"{where}: write {kind}(START, STOP, COUNT) with COUNT at least 2")
    (start, stop), unit = _ends(parts[:2], where)
    steps = [i / (int(parts[2]) - 1) for i in range(int(parts[2]))]
    if kind == "linspace":
        values = [start + (stop - start) * s for s in steps]
    elif start > 0 and stop > 0:
        values = [start * (stop / start) ** s for s in steps]
    else:
        raise InputError(f"{where}: the ends of a logspace must be above 0")
    return [f"{_number(v)} {unit}".strip() for v in values]


def values(given: Any, where: str) -> list[str]:
    """The values of an axis: a text as on the command line, or a list of values and ranges."""
    from lasthop.scenarios.table_reader import value_text

    parts = quantities.split(given) if isinstance(given, str) else given
    if not isinstance(parts, list) or not parts:
        raise InputError(f"{where} must be a list of values or a range, found {given!r}")
    found = [v for part in parts for v in expand(value_text(part), where)]
    for value in found:
        if found.count(value) > 1:
            raise InputError(f"{where} has the value `{value}` twice")
    return found


def zipped(axes: Mapping[str, Any], where: str) -> tuple[str, list[str]]:
    """Keys that change together, as one axis `A & B` with values `1 & 2`."""
    if len(axes) < 2:
        raise InputError(f"{where} needs at least two keys that change together")
    columns = {key: values(given, f"{where} {key}") for key, given in axes.items()}
    if len({len(column) for column in columns.values()}) > 1:
        counts = ", ".join(f"{key} {len(column)}" for key, column in columns.items())
        raise InputError(f"{where}: the keys need equally many values, found {counts}")
    joined = [JOINT_SEPARATOR.join(row) for row in zip(*columns.values(), strict=True)]
    return JOINT_SEPARATOR.join(columns), joined


def read_zip(text: str) -> tuple[str, list[str]]:
    """Read `--zip 'KEY=VALUES & KEY=VALUES'`."""
    parts = [quantities.key_value(part, "--zip") for part in quantities.split(text, "&")]
    keys = [key for key, _ in parts]
    if len(set(keys)) < len(keys):
        raise InputError(f"--zip {text} names a key twice")
    return zipped(dict(parts), "--zip")


def read_seeds(text: str) -> range:
    """Read `--seeds N` (seeds 1 to N) or `--seeds A..B` (both included)."""
    found = re.fullmatch(r"(\d+)(?:\s*\.\.\s*(\d+))?", text.strip())
    if not found:
        raise InputError(f"--seeds must be a number N or a range A..B, found `{text}`")
    first, last = (1, int(found[1])) if found[2] is None else (int(found[1]), int(found[2]))
    if last < first or last < 1:
        raise InputError(f"--seeds {text} has no seeds")
    quantities.whole_number(last, "--seeds", most=quantities.MAX_SEED)
    quantities.whole_number(last - first + 1, "--seeds: the number of seeds")
    return range(first, last + 1)
